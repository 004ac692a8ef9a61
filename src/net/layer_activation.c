/* Activation layers, and the `activation` argument of others. */
#include "net/activation.h"

#include <stddef.h>

#include "net/layers_private.h"

const char *const fm_activation_names[] = {"linear",  "relu",    "leaky_relu",   "swish",    "silu",
                                           "gelu",    "elu",     "selu",         "softplus", "tanh",
                                           "sigmoid", "softmax", "hard_sigmoid", "mish",     NULL};
static const enum fm_activation activation_kinds[] = {
    FM_ACT_LINEAR,  FM_ACT_RELU,    FM_ACT_LEAKY_RELU,   FM_ACT_SWISH,    FM_ACT_SWISH,
    FM_ACT_GELU,    FM_ACT_ELU,     FM_ACT_SELU,         FM_ACT_SOFTPLUS, FM_ACT_TANH,
    FM_ACT_SIGMOID, FM_ACT_SOFTMAX, FM_ACT_HARD_SIGMOID, FM_ACT_MISH};

struct activation_arguments {
    int activation;
    int64_t axis;
    double slope, alpha;
};
#define ARGUMENT(member) offsetof(struct activation_arguments, member)

const struct fm_key fm_activation_keys[] = {{"activation", FM_KEY_CHOICE, ARGUMENT(activation), 0, 0,
                                             fm_activation_names, NULL, FM_REQUIRED, "which one"},
                                            FM_KEYS_OF_ALL_LAYERS,
                                            {0}};
const struct fm_key fm_relu_keys[] = {
    {"negative_slope", FM_KEY_NUMBER, ARGUMENT(slope), 0, 1e300, NULL, "0.0", 0, "slope below zero"},
    FM_KEY_LATER("max_value", "largest value"),
    FM_KEY_LATER("threshold", "where it starts to rise"),
    FM_KEYS_OF_ALL_LAYERS,
    {0}};
const struct fm_key fm_leaky_relu_keys[] = {
    {"negative_slope", FM_KEY_NUMBER, ARGUMENT(slope), 0, 1e300, NULL, "0.3", 0,
     "slope below zero (0.2 where leaky_relu is an argument)"},
    {"alpha", FM_KEY_NUMBER, ARGUMENT(alpha), 0, 1e300, NULL, NULL, 0, "older name of negative_slope"},
    FM_KEYS_OF_ALL_LAYERS,
    {0}};
const struct fm_key fm_elu_keys[] = {
    {"alpha", FM_KEY_NUMBER, ARGUMENT(slope), 0, 1e300, NULL, "1.0", 0, "minus the limit far below zero"},
    FM_KEYS_OF_ALL_LAYERS,
    {0}};
const struct fm_key fm_softmax_keys[] = {
    {"axis", FM_KEY_INTEGER, ARGUMENT(axis), -1, -1, NULL, "-1", 0, "only the last axis"},
    FM_KEYS_OF_ALL_LAYERS,
    {0}};
const struct fm_key fm_plain_activation_keys[] = {FM_KEYS_OF_ALL_LAYERS, {0}};

enum fm_activation fm_activation_of(int choice)
{
    return activation_kinds[choice];
}

double fm_activation_slope(enum fm_activation kind)
{
    return kind == FM_ACT_LEAKY_RELU ? 0.2 : kind == FM_ACT_ELU ? 1.0 : 0.0;
}

enum fm_derivative fm_activation_derivative(enum fm_activation kind)
{
    switch (kind) {
    case FM_ACT_RELU:
    case FM_ACT_LEAKY_RELU:
    case FM_ACT_ELU:
    case FM_ACT_SELU:
    case FM_ACT_TANH:
    case FM_ACT_SIGMOID:
    case FM_ACT_SOFTMAX: return FM_FROM_OUTPUT;
    case FM_ACT_SWISH:
    case FM_ACT_GELU:
    case FM_ACT_SOFTPLUS:
    case FM_ACT_HARD_SIGMOID:
    case FM_ACT_MISH: return FM_FROM_STORED;
    case FM_ACT_LINEAR: break;
    }
    return FM_FROM_NONE;
}

bool fm_activation_elementwise(enum fm_activation kind)
{
    return kind != FM_ACT_SOFTMAX;
}

static int add(struct fm_builder *b, enum fm_activation kind, double slope, struct fm_error *err)
{
    struct fm_op *op;
    if (kind == FM_ACT_LINEAR) return 0;
    int rc = fm_builder_numbers(b, err);
    if (!rc) rc = fm_builder_forward(b, FM_OP_ACTIVATION, b->rows, b->channels, b->rank, &op, err);
    if (rc) return rc;
    op->activation.kind = kind;
    op->activation.slope = slope;
    return 0;
}

int fm_builder_activation(struct fm_builder *b, int choice, struct fm_error *err)
{
    enum fm_activation kind = fm_activation_of(choice);
    return add(b, kind, fm_activation_slope(kind), err);
}

int fm_layer_named_activation(struct fm_builder *b, const struct fm_layer_use *use,
                              const struct fm_layer_type *type, struct fm_error *err)
{
    struct activation_arguments x = {0};
    int rc = fm_keys_read(type->keys, use->arguments, use->name, use->path, &x, NULL, b->notes, err);
    if (rc) return rc;
    return fm_builder_activation(b, x.activation, err);
}

int fm_layer_activation(struct fm_builder *b, const struct fm_layer_use *use,
                        const struct fm_layer_type *type, struct fm_error *err)
{
    struct activation_arguments x = {0};
    enum fm_activation kind = (enum fm_activation)type->variant;
    uint64_t given;
    int rc = fm_keys_read(type->keys, use->arguments, use->name, use->path, &x, &given, b->notes, err);
    if (rc) return rc;
    if (kind == FM_ACT_LEAKY_RELU && (given & 2)) {
        if (given & 1)
            return fm_builder_fail(b, FM_EFILE, err,
                                   "negative_slope and alpha are the same thing; give one of them");
        x.slope = x.alpha;
    }
    /* ReLU(negative_slope=...) is Keras's other way to write a leaky one. */
    if (kind == FM_ACT_RELU && x.slope > 0) kind = FM_ACT_LEAKY_RELU;
    return add(b, kind, x.slope, err);
}
