/* dense, and flatten, which is only another reading of its input (semantics.md 1.3). */
#include <stddef.h>

#include "net/activation.h"
#include "net/layers_private.h"

struct dense_arguments {
    int64_t units;
    int activation, data_format;
    bool use_bias;
    const struct fm_node *kernel_initializer, *bias_initializer, *kernel_regularizer, *bias_regularizer;
};
#define ARGUMENT(member) offsetof(struct dense_arguments, member)

const char *const fm_data_formats[] = {"channels_last", "channels_first", NULL};

const struct fm_key fm_dense_keys[] = {
    {"units", FM_KEY_INTEGER, ARGUMENT(units), 1, FM_NET_MAX_SIZE, NULL, NULL, FM_REQUIRED, "outputs"},
    {"activation", FM_KEY_CHOICE, ARGUMENT(activation), 0, 0, fm_activation_names, "linear", FM_NULLABLE,
     "applied to the output"},
    {"use_bias", FM_KEY_BOOL, ARGUMENT(use_bias), 0, 0, NULL, "true", 0, "adds a number per unit"},
    {"kernel_initializer", FM_KEY_NODE, ARGUMENT(kernel_initializer), 0, 0, NULL, "glorot_uniform", 0,
     "initial kernel"},
    {"bias_initializer", FM_KEY_NODE, ARGUMENT(bias_initializer), 0, 0, NULL, "zeros", 0, "initial bias"},
    {"kernel_regularizer", FM_KEY_NODE, ARGUMENT(kernel_regularizer), 0, 0, NULL, NULL, 0, "l1, l2 or l1_l2"},
    {"bias_regularizer", FM_KEY_NODE, ARGUMENT(bias_regularizer), 0, 0, NULL, NULL, 0, "l1, l2 or l1_l2"},
    FM_KEY_LATER("activity_regularizer", "penalty on the output"),
    FM_KEY_LATER("kernel_constraint", "constraint on the kernel"),
    FM_KEY_LATER("bias_constraint", "constraint on the bias"),
    FM_KEYS_OF_ALL_LAYERS,
    {0}};
const struct fm_key fm_flatten_keys[] = {
    FM_KEY_DATA_FORMAT(ARGUMENT(data_format)), FM_KEYS_OF_ALL_LAYERS, {0}};

static int variables(struct fm_builder *b, const struct fm_layer_use *use, const struct dense_arguments *x,
                     int *kernel, int *bias, struct fm_error *err)
{
    struct fm_variable_options options = {"kernel",
                                          true,
                                          x->kernel_initializer,
                                          "glorot_uniform",
                                          "kernel_initializer",
                                          x->kernel_regularizer,
                                          "kernel_regularizer"};
    int64_t shape[2] = {b->channels, x->units};
    int rc = fm_builder_variable(b, use, 2, shape, &options, kernel, err);
    *bias = -1;
    if (rc || !x->use_bias) return rc;
    options = (struct fm_variable_options){"bias",
                                           true,
                                           x->bias_initializer,
                                           "zeros",
                                           "bias_initializer",
                                           x->bias_regularizer,
                                           "bias_regularizer"};
    return fm_builder_variable(b, use, 1, &x->units, &options, bias, err);
}

int fm_layer_dense(struct fm_builder *b, const struct fm_layer_use *use, const struct fm_layer_type *type,
                   struct fm_error *err)
{
    struct dense_arguments x = {0};
    struct fm_op *op;
    int kernel, bias;
    int rc = fm_keys_read(type->keys, use->arguments, use->name, use->path, &x, NULL, b->notes, err);
    if (!rc) rc = variables(b, use, &x, &kernel, &bias, err);
    bool letters = b->letters;
    if (!rc) rc = fm_builder_forward(b, FM_OP_DENSE, b->rows, x.units, b->rank, &op, err);
    if (rc) return rc;
    op->in[1] = kernel;
    op->in[2] = bias;
    op->dense.letters = letters;
    op->dense.alphabet = letters ? b->input->channels : 0;
    return fm_builder_activation(b, x.activation, err);
}

int fm_layer_flatten(struct fm_builder *b, const struct fm_layer_use *use, const struct fm_layer_type *type,
                     struct fm_error *err)
{
    struct dense_arguments x = {0};
    int rc = fm_keys_read(type->keys, use->arguments, use->name, use->path, &x, NULL, b->notes, err);
    if (rc) return rc;
    if (x.data_format != 0)
        return fm_builder_fail(b, FM_EFILE, err,
                               "data_format must be channels_last; inputs are positions x channels");
    b->channels *= b->rows;
    b->rows = 1;
    b->rank = 2;
    return 0;
}
