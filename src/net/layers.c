/* The table of layers: name -> keys -> build function. */
#include "net/layers_private.h"

#include <string.h>

#include "base/text.h"
#include "net/activation.h"
#include "net/initialize.h"
#include "net/regularize.h"

#define PLAIN_ACTIVATION(name, help, kind)                                                                   \
    {                                                                                                        \
        name, help, fm_plain_activation_keys, fm_layer_activation, kind                                      \
    }

const struct fm_layer_type fm_layer_types[] = {
    {"conv1d", "convolution over positions", fm_conv1d_keys, fm_layer_conv1d, 0},
    {"max_pooling1d", "largest of each window of positions", fm_max_pool_keys, fm_layer_pool, FM_VARIANT_MAX},
    {"average_pooling1d", "mean of each window of positions", fm_average_pool_keys, fm_layer_pool,
     FM_VARIANT_AVERAGE},
    {"global_max_pooling1d", "largest over all positions", fm_global_pool_keys, fm_layer_global_pool,
     FM_VARIANT_MAX},
    {"global_average_pooling1d", "mean over all positions", fm_global_pool_keys, fm_layer_global_pool,
     FM_VARIANT_AVERAGE},
    {"flatten", "positions x channels read as one row", fm_flatten_keys, fm_layer_flatten, 0},
    {"dense", "every output from every input (of each position, before flatten)", fm_dense_keys,
     fm_layer_dense, 0},
    {"dropout", "drops numbers at random in training", fm_dropout_keys, fm_layer_dropout,
     FM_VARIANT_ELEMENTS},
    {"spatial_dropout1d", "drops whole channels at random in training", fm_spatial_dropout_keys,
     fm_layer_dropout, FM_VARIANT_CHANNELS},
    {"batch_normalization", "each channel to mean 0 and variance 1 over the batch",
     fm_batch_normalization_keys, fm_layer_batch_normalization, 0},
    {"layer_normalization", "the channels of each position to mean 0 and variance 1",
     fm_layer_normalization_keys, fm_layer_layer_normalization, 0},
    {"activation", "an activation by name", fm_activation_keys, fm_layer_named_activation, 0},
    {"relu", "max(x, 0)", fm_relu_keys, fm_layer_activation, FM_ACT_RELU},
    {"leaky_relu", "x, below zero times a slope", fm_leaky_relu_keys, fm_layer_activation, FM_ACT_LEAKY_RELU},
    {"elu", "x, below zero alpha * (exp(x) - 1)", fm_elu_keys, fm_layer_activation, FM_ACT_ELU},
    {"softmax", "exp(x) over its sum over the channels", fm_softmax_keys, fm_layer_activation,
     FM_ACT_SOFTMAX},
    PLAIN_ACTIVATION("linear", "x", FM_ACT_LINEAR),
    PLAIN_ACTIVATION("swish", "x * sigmoid(x)", FM_ACT_SWISH),
    PLAIN_ACTIVATION("silu", "another name of swish", FM_ACT_SWISH),
    PLAIN_ACTIVATION("gelu", "x * Phi(x), exact", FM_ACT_GELU),
    PLAIN_ACTIVATION("selu", "scaled elu", FM_ACT_SELU),
    PLAIN_ACTIVATION("softplus", "log(1 + exp(x))", FM_ACT_SOFTPLUS),
    PLAIN_ACTIVATION("tanh", "hyperbolic tangent", FM_ACT_TANH),
    PLAIN_ACTIVATION("sigmoid", "1 / (1 + exp(-x))", FM_ACT_SIGMOID),
    PLAIN_ACTIVATION("hard_sigmoid", "min(max(x + 3, 0), 6) / 6, as Keras 3", FM_ACT_HARD_SIGMOID),
    PLAIN_ACTIVATION("mish", "x * tanh(softplus(x))", FM_ACT_MISH),
};
#define TYPES (sizeof fm_layer_types / sizeof fm_layer_types[0])
_Static_assert(TYPES <= FM_NET_MAX_TYPES, "the builder counts layers by type");

static const char *const composites[] = {"repeat", "choose"};
static const char *const later[] = {"residual", "highway", "concat", "embedding"};
#define COUNT(array) (sizeof array / sizeof array[0])

static const struct fm_key no_keys[] = {{0}};

static const struct fm_key_section sections[] = {
    {"layer conv1d", "convolution over positions", fm_conv1d_keys},
    {"layer max_pooling1d", "largest of each window of positions", fm_max_pool_keys},
    {"layer average_pooling1d", "mean of each window of positions", fm_average_pool_keys},
    {"layer global_max_pooling1d", "largest over all positions", fm_global_pool_keys},
    {"layer global_average_pooling1d", "mean over all positions", fm_global_pool_keys},
    {"layer flatten", "positions x channels read as one row", fm_flatten_keys},
    {"layer dense", "every output from every input (of each position, before flatten)", fm_dense_keys},
    {"layer dropout", "drops numbers at random in training", fm_dropout_keys},
    {"layer spatial_dropout1d", "drops whole channels at random in training", fm_spatial_dropout_keys},
    {"layer batch_normalization", "each channel to mean 0 and variance 1 over the batch",
     fm_batch_normalization_keys},
    {"layer layer_normalization", "the channels of each position to mean 0 and variance 1",
     fm_layer_normalization_keys},
    {"layer activation", "an activation by name", fm_activation_keys},
    {"layer relu", "max(x, 0)", fm_relu_keys},
    {"layer leaky_relu", "x, below zero times a slope", fm_leaky_relu_keys},
    {"layer elu", "x, below zero alpha * (exp(x) - 1)", fm_elu_keys},
    {"layer softmax", "exp(x) over its sum over the channels", fm_softmax_keys},
    {"layer linear, swish, silu, gelu, selu, softplus, tanh, sigmoid, hard_sigmoid, mish",
     "activations without arguments", fm_plain_activation_keys},
    {"layer repeat", "the same layers several times over", fm_repeat_keys},
    {"layer choose", "one of several lists of layers", fm_choose_keys},
    {"layer residual, highway, concat, embedding", "not available yet", no_keys},
    {"initializer zeros, ones", "all elements 0, or 1", no_keys},
    {"initializer constant", "all elements the same", fm_constant_keys},
    {"initializer random_normal", "normal numbers", fm_normal_keys},
    {"initializer truncated_normal", "normal numbers within two deviations", fm_normal_keys},
    {"initializer random_uniform", "uniform numbers", fm_uniform_keys},
    {"initializer glorot_uniform, glorot_normal, he_uniform, he_normal, lecun_uniform, lecun_normal",
     "variance_scaling with Keras's numbers", fm_scaled_keys},
    {"initializer variance_scaling", "variance = scale / fan", fm_variance_scaling_keys},
    {"initializer orthogonal", "an orthonormal matrix times gain", fm_orthogonal_keys},
    {"regularizer l1", "adds l1 * sum |w| to the loss", fm_l1_keys},
    {"regularizer l2", "adds l2 * sum w^2 to the loss", fm_l2_keys},
    {"regularizer l1_l2", "adds both", fm_l1_l2_keys},
    {NULL, NULL, NULL}};

const struct fm_key_section *fm_layer_sections(void)
{
    return sections;
}

int fm_layer_find(const char *name)
{
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(fm_layer_types[i].name, name) == 0) return (int)i;
    return -1;
}

int fm_layer_unknown(const struct fm_node *name, const char *path, struct fm_error *err)
{
    const char *names[TYPES + COUNT(composites)];
    char shown[64];
    fm_show(name->text, name->size, shown, sizeof shown);
    for (size_t i = 0; i < COUNT(later); i++)
        if (strcmp(name->text, later[i]) == 0)
            return fm_node_fail(name, FM_ELATER, err, "%s: %s is not available yet", path, shown);
    for (size_t i = 0; i < TYPES; i++) names[i] = fm_layer_types[i].name;
    for (size_t i = 0; i < COUNT(composites); i++) names[TYPES + i] = composites[i];
    const char *near = fm_nearest(name->text, names, TYPES + COUNT(composites));
    if (near)
        return fm_node_fail(name, FM_EFILE, err, "%s: no layer is called '%s'; did you mean %s?", path, shown,
                            near);
    return fm_node_fail(
        name, FM_EFILE, err,
        "%s: no layer is called '%s'; foldmill help keys lists them (conv1d, dense, flatten ...)", path,
        shown);
}
