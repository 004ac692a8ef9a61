/* Regularisers as Keras names them: l1, l2, l1_l2, with or without arguments. Private to src/net. */
#ifndef FM_NET_REGULARIZE_H
#define FM_NET_REGULARIZE_H

#include "net/builder.h"

/* Reads a regulariser: the loss gets l1 * sum|w| + l2 * sum w^2. `l1` and `l2` as names mean 0.01; the
 * defaults of l1_l2 are 0. A null is none. */
int fm_regularizer_read(const struct fm_node *node, const char *path, const char *argument, double *l1,
                        double *l2, struct fm_error *err);

/* Tables for help (layers.c lists them). */
extern const struct fm_key fm_l1_keys[], fm_l2_keys[], fm_l1_l2_keys[];

#endif
