/* Pools over positions, and over all of them (semantics.md 1.2). */
#include <inttypes.h>
#include <stddef.h>

#include "net/layers_private.h"
#include "net/window.h"

struct pool_arguments {
    int64_t pool_size, strides;
    int padding, data_format;
    bool keepdims;
};
#define ARGUMENT(member) offsetof(struct pool_arguments, member)

static const char *const paddings[] = {"valid", "same", NULL};

#define OTHER_POOL_KEYS                                                                                      \
    {"strides",                                                                                              \
     FM_KEY_INTEGER,                                                                                         \
     ARGUMENT(strides),                                                                                      \
     1,                                                                                                      \
     FM_NET_MAX_SIZE,                                                                                        \
     NULL,                                                                                                   \
     NULL,                                                                                                   \
     FM_PER_DIMENSION | FM_NULLABLE,                                                                         \
     "positions from one window to the next (pool_size)"},                                                   \
        {"padding",                                                                                          \
         FM_KEY_CHOICE,                                                                                      \
         ARGUMENT(padding),                                                                                  \
         0,                                                                                                  \
         0,                                                                                                  \
         paddings,                                                                                           \
         "valid",                                                                                            \
         0,                                                                                                  \
         "valid: a last part that fills no window is dropped; same: it is used"},                            \
        FM_KEY_DATA_FORMAT(ARGUMENT(data_format)), FM_KEYS_OF_ALL_LAYERS

const struct fm_key fm_max_pool_keys[] = {{"pool_size", FM_KEY_INTEGER, ARGUMENT(pool_size), 1,
                                           FM_NET_MAX_SIZE, NULL, "2", FM_PER_DIMENSION,
                                           "positions of a window"},
                                          OTHER_POOL_KEYS,
                                          {0}};
const struct fm_key fm_average_pool_keys[] = {{"pool_size", FM_KEY_INTEGER, ARGUMENT(pool_size), 1,
                                               FM_NET_MAX_SIZE, NULL, NULL, FM_REQUIRED | FM_PER_DIMENSION,
                                               "positions of a window"},
                                              OTHER_POOL_KEYS,
                                              {0}};
const struct fm_key fm_global_pool_keys[] = {FM_KEY_DATA_FORMAT(ARGUMENT(data_format)),
                                             {"keepdims", FM_KEY_BOOL, ARGUMENT(keepdims), 0, 0, NULL,
                                              "false", 0, "keeps one position instead of none"},
                                             FM_KEYS_OF_ALL_LAYERS,
                                             {0}};

static int check(const struct fm_builder *b, const struct pool_arguments *x, struct fm_error *err)
{
    if (x->data_format != 0)
        return fm_builder_fail(b, FM_EFILE, err,
                               "data_format must be channels_last; inputs are positions x channels");
    return fm_builder_need_positions(b, err);
}

static int add(struct fm_builder *b, bool average, int64_t size, int64_t stride,
               const struct fm_window_fit *w, int rank, struct fm_error *err)
{
    struct fm_op *op;
    int rc = fm_builder_numbers(b, err);
    if (!rc) rc = fm_builder_forward(b, FM_OP_POOL, w->rows, b->channels, rank, &op, err);
    if (rc) return rc;
    op->pool.average = average;
    op->pool.size = size;
    op->pool.stride = stride;
    op->pool.pad_before = w->pad_before;
    op->pool.pad_after = w->pad_after;
    return 0;
}

int fm_layer_pool(struct fm_builder *b, const struct fm_layer_use *use, const struct fm_layer_type *type,
                  struct fm_error *err)
{
    struct pool_arguments x = {0};
    struct fm_window_fit w;
    int rc = fm_keys_read(type->keys, use->arguments, use->name, use->path, &x, NULL, b->notes, err);
    if (!rc) rc = check(b, &x, err);
    if (rc) return rc;
    if (x.strides == 0) x.strides = x.pool_size;
    if (!fm_window_fit(b->rows, x.pool_size, x.strides, 1, (enum fm_padding)x.padding, &w)) {
        char shape[FM_SHAPE_TEXT];
        return fm_builder_fail(b, FM_ESHAPE, err,
                               "pool_size %" PRId64
                               " is longer than its input of %s; pool_size at most %" PRId64
                               " fits, or padding: same",
                               x.pool_size, fm_builder_shape(b, shape), b->rows);
    }
    return add(b, type->variant == FM_VARIANT_AVERAGE, x.pool_size, x.strides, &w, 3, err);
}

int fm_layer_global_pool(struct fm_builder *b, const struct fm_layer_use *use,
                         const struct fm_layer_type *type, struct fm_error *err)
{
    struct pool_arguments x = {0};
    struct fm_window_fit w = {1, 0, 0};
    int rc = fm_keys_read(type->keys, use->arguments, use->name, use->path, &x, NULL, b->notes, err);
    if (!rc) rc = check(b, &x, err);
    if (rc) return rc;
    return add(b, type->variant == FM_VARIANT_AVERAGE, b->rows, b->rows, &w, x.keepdims ? 3 : 2, err);
}
