/* The build functions and argument tables of all layers, gathered by layers.c. Private to src/net.
 *
 * A build function reads `use->arguments` by its table and adds its operations to the builder. */
#ifndef FM_NET_LAYERS_PRIVATE_H
#define FM_NET_LAYERS_PRIVATE_H

#include <stddef.h>

#include "net/activation.h"
#include "net/builder.h"

struct fm_layer_type {
    const char *name;
    const char *help;
    const struct fm_key *keys; /* ended by name == NULL */
    int (*build)(struct fm_builder *b, const struct fm_layer_use *use, const struct fm_layer_type *type,
                 struct fm_error *err);
    int variant; /* what one build function tells its layers apart by */
};

/* The number of the layer of that name in fm_layer_types, or -1; composite entries are not among them. */
extern const struct fm_layer_type fm_layer_types[];
int fm_layer_find(const char *name);
/* Not a name of anything: says so with the nearest layer, or that it is not available yet. */
int fm_layer_unknown(const struct fm_node *name, const char *path, struct fm_error *err);

int fm_layer_conv1d(struct fm_builder *b, const struct fm_layer_use *use, const struct fm_layer_type *type,
                    struct fm_error *err);
int fm_layer_dense(struct fm_builder *b, const struct fm_layer_use *use, const struct fm_layer_type *type,
                   struct fm_error *err);
int fm_layer_flatten(struct fm_builder *b, const struct fm_layer_use *use, const struct fm_layer_type *type,
                     struct fm_error *err);
enum { FM_VARIANT_MAX, FM_VARIANT_AVERAGE };
int fm_layer_pool(struct fm_builder *b, const struct fm_layer_use *use, const struct fm_layer_type *type,
                  struct fm_error *err);
int fm_layer_global_pool(struct fm_builder *b, const struct fm_layer_use *use,
                         const struct fm_layer_type *type, struct fm_error *err);
enum { FM_VARIANT_ELEMENTS, FM_VARIANT_CHANNELS };
int fm_layer_dropout(struct fm_builder *b, const struct fm_layer_use *use, const struct fm_layer_type *type,
                     struct fm_error *err);
int fm_layer_batch_normalization(struct fm_builder *b, const struct fm_layer_use *use,
                                 const struct fm_layer_type *type, struct fm_error *err);
int fm_layer_layer_normalization(struct fm_builder *b, const struct fm_layer_use *use,
                                 const struct fm_layer_type *type, struct fm_error *err);
/* The variant is enum fm_activation. */
int fm_layer_activation(struct fm_builder *b, const struct fm_layer_use *use,
                        const struct fm_layer_type *type, struct fm_error *err);
/* `activation: {activation: name}` */
int fm_layer_named_activation(struct fm_builder *b, const struct fm_layer_use *use,
                              const struct fm_layer_type *type, struct fm_error *err);

extern const struct fm_key fm_conv1d_keys[], fm_dense_keys[], fm_flatten_keys[], fm_max_pool_keys[],
    fm_average_pool_keys[], fm_global_pool_keys[], fm_dropout_keys[], fm_spatial_dropout_keys[],
    fm_batch_normalization_keys[], fm_layer_normalization_keys[], fm_activation_keys[], fm_relu_keys[],
    fm_leaky_relu_keys[], fm_elu_keys[], fm_softmax_keys[], fm_plain_activation_keys[];
/* repeat and choose (expand.c) */
extern const struct fm_key fm_repeat_keys[], fm_choose_keys[];

/* What layers with a kernel and a bias share (layer_weights.c); the first member of their arguments. */
struct fm_weight_arguments {
    int activation; /* index into fm_activation_names */
    bool use_bias;
    const struct fm_node *kernel_initializer, *bias_initializer, *kernel_regularizer, *bias_regularizer;
};
/* Appends the kernel of that shape and a bias of `outputs`; gives their tensors, bias -1 without one. */
int fm_layer_weights(struct fm_builder *b, const struct fm_layer_use *use,
                     const struct fm_weight_arguments *x, int rank, const int64_t *shape, int64_t outputs,
                     int *kernel, int *bias, struct fm_error *err);

/* A key that Keras has and Foldmill has not yet. */
#define FM_KEY_LATER(name, text)                                                                             \
    {                                                                                                        \
        name, FM_KEY_NODE, 0, 0, 0, NULL, NULL, FM_LATER, text                                               \
    }
/* The keys that every Keras layer takes. */
#define FM_KEYS_OF_ALL_LAYERS                                                                                \
    FM_KEY_LATER("name", "a name of its own"), FM_KEY_LATER("trainable", "false keeps its variables"),       \
        FM_KEY_LATER("dtype", "all layers compute in float32")
/* The keys of struct fm_weight_arguments; `outputs` is what one output is called. */
#define FM_WEIGHT(member) offsetof(struct fm_weight_arguments, member)
#define FM_KEYS_OF_WEIGHTS(outputs)                                                                          \
    {"activation", FM_KEY_CHOICE, FM_WEIGHT(activation),  0, 0, fm_activation_names,                         \
     "linear",     FM_NULLABLE,   "applied to the output"},                                                  \
        {"use_bias", FM_KEY_BOOL, FM_WEIGHT(use_bias), 0, 0, NULL, "true", 0, "adds a number per " outputs}, \
        {"kernel_initializer", FM_KEY_NODE, FM_WEIGHT(kernel_initializer), 0, 0, NULL, "glorot_uniform", 0,  \
         "initial kernel"},                                                                                  \
        {"bias_initializer", FM_KEY_NODE, FM_WEIGHT(bias_initializer), 0, 0, NULL, "zeros", 0,               \
         "initial bias"},                                                                                    \
        {"kernel_regularizer", FM_KEY_NODE, FM_WEIGHT(kernel_regularizer), 0, 0, NULL, NULL, 0,              \
         "l1, l2 or l1_l2"},                                                                                 \
        {"bias_regularizer", FM_KEY_NODE, FM_WEIGHT(bias_regularizer), 0, 0, NULL, NULL, 0,                  \
         "l1, l2 or l1_l2"},                                                                                 \
        FM_KEY_LATER("activity_regularizer", "penalty on the output"),                                       \
        FM_KEY_LATER("kernel_constraint", "constraint on the kernel"),                                       \
        FM_KEY_LATER("bias_constraint", "constraint on the bias")
extern const char *const fm_data_formats[];
#define FM_KEY_DATA_FORMAT(offset)                                                                           \
    {                                                                                                        \
        "data_format", FM_KEY_CHOICE, offset, 0, 0, fm_data_formats, "channels_last", FM_NULLABLE,           \
            "channels_last: (positions, channels)"                                                           \
    }

#endif
