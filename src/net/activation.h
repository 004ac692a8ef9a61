/* Activations by the names the user writes. Private to src/net. */
#ifndef FM_NET_ACTIVATION_H
#define FM_NET_ACTIVATION_H

#include "net/program.h"

/* Names in Keras's spelling ("silu" and "swish" are one), NULL-terminated: choices of an `activation`
 * argument. */
extern const char *const fm_activation_names[];
/* What the n-th of these names means. */
enum fm_activation fm_activation_of(int choice);
/* leaky_relu as an argument has slope 0.2, elu has alpha 1; 0 for those that have none. */
double fm_activation_slope(enum fm_activation kind);
enum fm_derivative fm_activation_derivative(enum fm_activation kind);
/* Each element depends on its own element only: all but softmax. */
bool fm_activation_elementwise(enum fm_activation kind);

#endif
