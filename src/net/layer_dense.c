/* dense, and flatten, which is only another reading of its input (semantics.md 1.3). */
#include "net/layers_private.h"

struct dense_arguments {
    struct fm_weight_arguments weights;
    int64_t units;
    int data_format;
};
#define ARGUMENT(member) offsetof(struct dense_arguments, member)
_Static_assert(ARGUMENT(weights) == 0, "FM_KEYS_OF_WEIGHTS counts from the start");

const char *const fm_data_formats[] = {"channels_last", "channels_first", NULL};

const struct fm_key fm_dense_keys[] = {
    {"units", FM_KEY_INTEGER, ARGUMENT(units), 1, FM_NET_MAX_SIZE, NULL, NULL, FM_REQUIRED, "outputs"},
    FM_KEYS_OF_WEIGHTS("unit"),
    FM_KEYS_OF_ALL_LAYERS,
    {0}};
const struct fm_key fm_flatten_keys[] = {
    FM_KEY_DATA_FORMAT(ARGUMENT(data_format)), FM_KEYS_OF_ALL_LAYERS, {0}};

int fm_layer_dense(struct fm_builder *b, const struct fm_layer_use *use, const struct fm_layer_type *type,
                   struct fm_error *err)
{
    struct dense_arguments x = {0};
    struct fm_op *op;
    int kernel, bias;
    int rc = fm_keys_read(type->keys, use->arguments, use->name, use->path, &x, NULL, b->notes, err);
    if (!rc) {
        int64_t shape[2] = {b->channels, x.units};
        rc = fm_layer_weights(b, use, &x.weights, 2, shape, x.units, &kernel, &bias, err);
    }
    bool letters = b->letters;
    if (!rc) rc = fm_builder_forward(b, FM_OP_DENSE, b->rows, x.units, b->rank, &op, err);
    if (rc) return rc;
    op->in[1] = kernel;
    op->in[2] = bias;
    op->dense.letters = letters;
    op->dense.alphabet = letters ? b->input->channels : 0;
    return fm_builder_activation(b, x.weights.activation, err);
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
