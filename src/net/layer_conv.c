/* conv1d: y[o][f] = b[f] + sum over taps and channels (semantics.md 1.1). */
#include <inttypes.h>

#include "net/layers_private.h"
#include "net/window.h"

struct conv1d_arguments {
    struct fm_weight_arguments weights;
    int64_t filters, kernel_size, strides, dilation_rate, groups;
    int padding, data_format;
};
#define ARGUMENT(member) offsetof(struct conv1d_arguments, member)
_Static_assert(ARGUMENT(weights) == 0, "FM_KEYS_OF_WEIGHTS counts from the start");

static const char *const paddings[] = {"valid", "same", "causal", NULL};

const struct fm_key fm_conv1d_keys[] = {
    {"filters", FM_KEY_INTEGER, ARGUMENT(filters), 1, FM_NET_MAX_SIZE, NULL, NULL, FM_REQUIRED,
     "output channels"},
    {"kernel_size", FM_KEY_INTEGER, ARGUMENT(kernel_size), 1, FM_NET_MAX_SIZE, NULL, NULL,
     FM_REQUIRED | FM_PER_DIMENSION, "taps of the kernel"},
    {"strides", FM_KEY_INTEGER, ARGUMENT(strides), 1, FM_NET_MAX_SIZE, NULL, "1", FM_PER_DIMENSION,
     "positions from one output to the next"},
    {"padding", FM_KEY_CHOICE, ARGUMENT(padding), 0, 0, paddings, "valid", 0,
     "valid: none; same: zeros on both sides; causal: zeros before"},
    FM_KEY_DATA_FORMAT(ARGUMENT(data_format)),
    {"dilation_rate", FM_KEY_INTEGER, ARGUMENT(dilation_rate), 1, FM_NET_MAX_SIZE, NULL, "1",
     FM_PER_DIMENSION, "positions from one tap to the next; not together with strides"},
    {"groups", FM_KEY_INTEGER, ARGUMENT(groups), 1, FM_NET_MAX_SIZE, NULL, "1", 0,
     "parts of the channels that are convolved apart"},
    FM_KEYS_OF_WEIGHTS("filter"),
    FM_KEYS_OF_ALL_LAYERS,
    {0}};

static int check(const struct fm_builder *b, const struct conv1d_arguments *x, struct fm_error *err)
{
    int rc = fm_builder_need_positions(b, err);
    if (rc) return rc;
    if (x->data_format != 0)
        return fm_builder_fail(b, FM_EFILE, err,
                               "data_format must be channels_last; inputs are positions x channels");
    if (x->strides > 1 && x->dilation_rate > 1)
        return fm_builder_fail(b, FM_ESHAPE, err,
                               "strides %" PRId64 " and dilation_rate %" PRId64
                               " do not go together; one of them must be 1",
                               x->strides, x->dilation_rate);
    char shape[FM_SHAPE_TEXT];
    if (b->channels % x->groups != 0)
        return fm_builder_fail(b, FM_ESHAPE, err,
                               "groups %" PRId64 " does not divide the channels of its input of %s",
                               x->groups, fm_builder_shape(b, shape));
    if (x->filters % x->groups != 0)
        return fm_builder_fail(b, FM_ESHAPE, err,
                               "filters %" PRId64 " is not a multiple of groups %" PRId64
                               " (its input has %s)",
                               x->filters, x->groups, fm_builder_shape(b, shape));
    return 0;
}

static int fit(const struct fm_builder *b, const struct conv1d_arguments *x, struct fm_window_fit *w,
               struct fm_error *err)
{
    int64_t reach = (x->kernel_size - 1) * x->dilation_rate + 1;
    if (fm_window_fit(b->rows, x->kernel_size, x->strides, x->dilation_rate, (enum fm_padding)x->padding, w))
        return 0;
    char shape[FM_SHAPE_TEXT];
    fm_builder_shape(b, shape);
    int64_t most = (b->rows - 1) / x->dilation_rate + 1;
    if (x->dilation_rate == 1)
        return fm_builder_fail(b, FM_ESHAPE, err,
                               "kernel_size %" PRId64
                               " is longer than its input of %s; kernel_size at most %" PRId64
                               " fits, or padding: same",
                               x->kernel_size, shape, most);
    return fm_builder_fail(b, FM_ESHAPE, err,
                           "kernel_size %" PRId64 " with dilation_rate %" PRId64 " reaches over %" PRId64
                           " positions, more than its input of %s; kernel_size at most %" PRId64
                           " fits, or padding: same",
                           x->kernel_size, x->dilation_rate, reach, shape, most);
}

int fm_layer_conv1d(struct fm_builder *b, const struct fm_layer_use *use, const struct fm_layer_type *type,
                    struct fm_error *err)
{
    struct conv1d_arguments x = {0};
    struct fm_window_fit w;
    struct fm_op *op;
    int kernel, bias;
    int rc = fm_keys_read(type->keys, use->arguments, use->name, use->path, &x, NULL, b->notes, err);
    if (!rc) rc = check(b, &x, err);
    if (!rc) rc = fit(b, &x, &w, err);
    /* A convolution in one group adds up rows of its kernel by letter; with groups the letters need their
     * rows. */
    if (!rc && x.groups > 1) rc = fm_builder_numbers(b, err);
    if (!rc) {
        int64_t shape[3] = {x.kernel_size, b->channels / x.groups, x.filters};
        rc = fm_layer_weights(b, use, &x.weights, 3, shape, x.filters, &kernel, &bias, err);
    }
    bool letters = b->letters;
    if (!rc) rc = fm_builder_forward(b, FM_OP_CONV1D, w.rows, x.filters, 3, &op, err);
    if (rc) return rc;
    op->in[1] = kernel;
    op->in[2] = bias;
    op->conv.taps = x.kernel_size;
    op->conv.stride = x.strides;
    op->conv.dilation = x.dilation_rate;
    op->conv.groups = x.groups;
    op->conv.pad_before = w.pad_before;
    op->conv.pad_after = w.pad_after;
    op->conv.letters = letters;
    return fm_builder_activation(b, x.weights.activation, err);
}
