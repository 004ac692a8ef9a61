/* batch_normalization and layer_normalization (semantics.md 1.4 and 1.5). */
#include <stddef.h>

#include "base/memory.h"
#include "net/layers_private.h"

struct norm_arguments {
    int64_t axis;
    double momentum, epsilon;
    bool center, scale;
    const struct fm_node *beta_initializer, *gamma_initializer, *moving_mean_initializer,
        *moving_variance_initializer, *beta_regularizer, *gamma_regularizer;
};
#define ARGUMENT(member) offsetof(struct norm_arguments, member)

#define COMMON_NORM_KEYS                                                                                       \
    {"axis", FM_KEY_INTEGER, ARGUMENT(axis), -1, -1, NULL, "-1", FM_PER_DIMENSION, "only the channels"},       \
        {"epsilon", FM_KEY_NUMBER, ARGUMENT(epsilon),      0, 1e300, NULL,                                     \
         "0.001",   FM_OPEN_MIN,   "added to the variance"},                                                   \
        {"center", FM_KEY_BOOL, ARGUMENT(center), 0, 0, NULL, "true", 0, "adds a beta per channel"},           \
        {"scale", FM_KEY_BOOL, ARGUMENT(scale), 0, 0, NULL, "true", 0, "multiplies by a gamma per channel"},   \
        {"beta_initializer", FM_KEY_NODE, ARGUMENT(beta_initializer), 0, 0, NULL, "zeros", 0, "initial beta"}, \
        {"gamma_initializer", FM_KEY_NODE, ARGUMENT(gamma_initializer), 0, 0, NULL, "ones", 0,                 \
         "initial gamma"},                                                                                     \
        {"beta_regularizer", FM_KEY_NODE, ARGUMENT(beta_regularizer), 0, 0, NULL, NULL, 0, "l1, l2 or l1_l2"}, \
        {"gamma_regularizer", FM_KEY_NODE, ARGUMENT(gamma_regularizer), 0, 0, NULL, NULL, 0,                   \
         "l1, l2 or l1_l2"},                                                                                   \
        FM_KEY_LATER("beta_constraint", "constraint on beta"),                                                 \
        FM_KEY_LATER("gamma_constraint", "constraint on gamma"), FM_KEYS_OF_ALL_LAYERS

const struct fm_key fm_batch_normalization_keys[] = {
    {"momentum", FM_KEY_NUMBER, ARGUMENT(momentum), 0, 1, NULL, "0.99", 0,
     "share of the old moving statistics"},
    COMMON_NORM_KEYS,
    {"moving_mean_initializer", FM_KEY_NODE, ARGUMENT(moving_mean_initializer), 0, 0, NULL, "zeros", 0,
     "initial moving mean"},
    {"moving_variance_initializer", FM_KEY_NODE, ARGUMENT(moving_variance_initializer), 0, 0, NULL, "ones", 0,
     "initial moving variance"},
    FM_KEY_LATER("synchronized", "statistics over several devices"),
    {0}};
const struct fm_key fm_layer_normalization_keys[] = {
    COMMON_NORM_KEYS, FM_KEY_LATER("rms_scaling", "divides by the root mean square only"), {0}};

static int variable(struct fm_builder *b, const struct fm_layer_use *use,
                    const struct fm_variable_options *options, int *tensor, struct fm_error *err)
{
    return fm_builder_variable(b, use, 1, &b->channels, options, tensor, err);
}

static int scale_and_center(struct fm_builder *b, const struct fm_layer_use *use,
                            const struct norm_arguments *x, int *gamma, int *beta, struct fm_error *err)
{
    struct fm_variable_options g = {"gamma",
                                    true,
                                    x->gamma_initializer,
                                    "ones",
                                    "gamma_initializer",
                                    x->gamma_regularizer,
                                    "gamma_regularizer"};
    struct fm_variable_options c = {"beta",
                                    true,
                                    x->beta_initializer,
                                    "zeros",
                                    "beta_initializer",
                                    x->beta_regularizer,
                                    "beta_regularizer"};
    int rc = 0;
    *gamma = *beta = -1;
    if (x->scale) rc = variable(b, use, &g, gamma, err);
    if (!rc && x->center) rc = variable(b, use, &c, beta, err);
    return rc;
}

static int moving(struct fm_builder *b, const struct fm_layer_use *use, const struct norm_arguments *x,
                  struct fm_error *err)
{
    struct fm_variable_options m = {
        "moving_mean", false, x->moving_mean_initializer, "zeros", "moving_mean_initializer", NULL, NULL};
    struct fm_variable_options v = {"moving_variance",
                                    false,
                                    x->moving_variance_initializer,
                                    "ones",
                                    "moving_variance_initializer",
                                    NULL,
                                    NULL};
    if (fm_grow(&b->moving, &b->moving_capacity, (size_t)b->nmoving + 1, sizeof *b->moving))
        return fm_fail_memory(err);
    int *pair = b->moving[b->nmoving];
    int rc = variable(b, use, &m, &pair[0], err);
    if (!rc) rc = variable(b, use, &v, &pair[1], err);
    if (!rc) b->nmoving++;
    return rc;
}

int fm_layer_batch_normalization(struct fm_builder *b, const struct fm_layer_use *use,
                                 const struct fm_layer_type *type, struct fm_error *err)
{
    struct norm_arguments x = {0};
    struct fm_op *op;
    int gamma, beta, mean, variance;
    int64_t channels = b->channels;
    int rc = fm_keys_read(type->keys, use->arguments, use->name, use->path, &x, NULL, b->notes, err);
    if (!rc) rc = fm_builder_numbers(b, err);
    if (!rc) rc = scale_and_center(b, use, &x, &gamma, &beta, err);
    if (!rc) rc = moving(b, use, &x, err);
    if (!rc) rc = fm_builder_tensor(b, FM_TENSOR_BATCH, FM_F32, 1, channels, &mean, err);
    if (!rc) rc = fm_builder_tensor(b, FM_TENSOR_BATCH, FM_F32, 1, channels, &variance, err);
    if (rc) return rc;
    /* Its statistics need every example of the batch. */
    b->stage++;
    rc = fm_builder_forward(b, FM_OP_BATCH_NORM, b->rows, channels, b->rank, &op, err);
    if (rc) return rc;
    op->in[1] = gamma;
    op->in[2] = beta;
    op->out[1] = mean;
    op->out[2] = variance;
    op->norm.epsilon = x.epsilon;
    op->norm.momentum = x.momentum;
    return 0;
}

int fm_layer_layer_normalization(struct fm_builder *b, const struct fm_layer_use *use,
                                 const struct fm_layer_type *type, struct fm_error *err)
{
    struct norm_arguments x = {0};
    struct fm_op *op;
    int gamma, beta;
    int rc = fm_keys_read(type->keys, use->arguments, use->name, use->path, &x, NULL, b->notes, err);
    if (!rc) rc = fm_builder_numbers(b, err);
    if (!rc) rc = scale_and_center(b, use, &x, &gamma, &beta, err);
    if (!rc) rc = fm_builder_forward(b, FM_OP_LAYER_NORM, b->rows, b->channels, b->rank, &op, err);
    if (rc) return rc;
    op->in[1] = gamma;
    op->in[2] = beta;
    op->norm.epsilon = x.epsilon;
    return 0;
}
