/* Keras's variable names: "<layer>/<variable>", where the layer is its class in snake case, from the second
 * of its class on with a number: conv1d, conv1d_1, conv1d_2. Private to src/net. */
#ifndef FM_NET_NAMES_H
#define FM_NET_NAMES_H

#include "net/program.h"

/* "conv1d_1/kernel" for a variable of a layer; owned by the caller, NULL when memory is out. */
char *fm_variable_name(const struct fm_layer_info *layer, const char *variable);

#endif
