/* The kernel and the bias of conv1d and dense. */
#include "net/layers_private.h"

int fm_layer_weights(struct fm_builder *b, const struct fm_layer_use *use,
                     const struct fm_weight_arguments *x, int rank, const int64_t *shape, int64_t outputs,
                     int *kernel, int *bias, struct fm_error *err)
{
    struct fm_variable_options options = {"kernel",
                                          true,
                                          x->kernel_initializer,
                                          "glorot_uniform",
                                          "kernel_initializer",
                                          x->kernel_regularizer,
                                          "kernel_regularizer"};
    int rc = fm_builder_variable(b, use, rank, shape, &options, kernel, err);
    *bias = -1;
    if (rc || !x->use_bias) return rc;
    options = (struct fm_variable_options){"bias",
                                           true,
                                           x->bias_initializer,
                                           "zeros",
                                           "bias_initializer",
                                           x->bias_regularizer,
                                           "bias_regularizer"};
    return fm_builder_variable(b, use, 1, &outputs, &options, bias, err);
}
