/* dropout and spatial_dropout1d: the rate lives in the lane, the program holds its index (semantics.md 1.3).
 */
#include <stddef.h>

#include "base/memory.h"
#include "net/layers_private.h"

struct dropout_arguments {
    double rate;
};
#define RATE_KEY                                                                                             \
    {                                                                                                        \
        "rate", FM_KEY_NUMBER, offsetof(struct dropout_arguments, rate), 0, 1, NULL, NULL, FM_REQUIRED,      \
            "share that is dropped in training; what stays is divided by 1 - rate"                           \
    }

const struct fm_key fm_dropout_keys[] = {RATE_KEY,
                                         FM_KEY_LATER("noise_shape", "shape of the mask"),
                                         FM_KEY_LATER("seed", "an own seed; masks are drawn from train.seed"),
                                         FM_KEYS_OF_ALL_LAYERS,
                                         {0}};
const struct fm_key fm_spatial_dropout_keys[] = {
    RATE_KEY,
    FM_KEY_LATER("seed", "an own seed; masks are drawn from train.seed"),
    FM_KEYS_OF_ALL_LAYERS,
    {0}};

int fm_layer_dropout(struct fm_builder *b, const struct fm_layer_use *use, const struct fm_layer_type *type,
                     struct fm_error *err)
{
    struct fm_program *p = b->program;
    struct dropout_arguments x = {0};
    bool spatial = type->variant == FM_VARIANT_CHANNELS;
    struct fm_op *op;
    int rc = fm_keys_read(type->keys, use->arguments, use->name, use->path, &x, NULL, b->notes, err);
    if (!rc && spatial) rc = fm_builder_need_positions(b, err);
    if (rc) return rc;
    /* Counted before the rate is looked at: the masks of later layers do not change with this one's rate. */
    int id = b->dropouts++;
    if (x.rate == 0) return 0;
    rc = fm_builder_numbers(b, err);
    if (!rc) rc = fm_builder_forward(b, FM_OP_DROPOUT, b->rows, b->channels, b->rank, &op, err);
    if (rc) return rc;
    if (fm_grow(&p->rates, &b->rate_capacity, (size_t)p->nrates + 1, sizeof *p->rates))
        return fm_fail_memory(err);
    p->rates[p->nrates] = x.rate;
    op->dropout.index = p->nrates++;
    op->dropout.id = id;
    op->dropout.spatial = spatial;
    return 0;
}
