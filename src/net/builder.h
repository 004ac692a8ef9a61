/* The hand that writes a program: tensors, operations, variables and layers, one after another. Private to
 * src/net.
 *
 * A layer's build function reads its arguments, checks its input (`rank`, `rows`, `channels`: the value that
 * flows through the network at this point), adds its forward operations with fm_builder_forward and moves the
 * value on. Everything else - gradients, the evaluate section, update, lifetimes, groups - follows from the
 * forward operations (backward.c, sections.c, lifetime.c, fuse.c) and is no layer's business.
 *
 * All functions that can fail return 0 or an fm_code with `err` filled; what was built is freed with the
 * program.
 */
#ifndef FM_NET_BUILDER_H
#define FM_NET_BUILDER_H

#include "base/error.h"
#include "base/log.h"
#include "net/layers.h"
#include "net/program.h"

#define FM_NET_MAX_LAYERS     10000        /* after repeat and choose */
#define FM_NET_MAX_DEPTH      64           /* repeat inside repeat ... */
#define FM_NET_MAX_TYPES      64           /* kinds of layers */
#define FM_NET_MAX_SIZE       2147483647.0 /* of any size argument, so that products of two fit 64 bits */
#define FM_NET_MAX_PARAMETERS ((int64_t)1 << 31)
#define FM_NET_MAX_ELEMENTS   ((int64_t)1 << 31) /* of one tensor of one example */

struct fm_builder {
    struct fm_program *program;
    const struct fm_train_config *train;
    const struct fm_net_input *input;
    struct fm_notes *notes;
    size_t tensor_capacity, op_capacity, variable_capacity, layer_capacity, rate_capacity, penalty_capacity;

    /* The value that flows: tensor `value` read as rows x channels. rank 3 = (N, L, C); rank 2 = (N, C), rows
     * = 1. */
    int value;
    int rank;
    int64_t rows, channels;
    bool letters;            /* the value is still the letters of the input */
    int layer;               /* the layer being built; -1 before the first */
    enum fm_section section; /* what fm_builder_op adds to */
    int stage;

    /* Regularisers by variable (0, 0 = none) and the layers they stand in. */
    struct fm_penalty {
        double l1, l2;
        int layer;
    } * penalties;
    /* Moving mean and variance of each batch_normalization, in the order of the forward operations. */
    int (*moving)[2];
    int nmoving;
    size_t moving_capacity;
    int counts[FM_NET_MAX_TYPES]; /* layers so far, by type: Keras's numbers in names */
    int visits;                   /* entries of the model looked at while it is expanded */
    int dropouts;                 /* dropout layers so far, those of rate 0 too: the ids of their masks */
    int *map;                     /* by forward tensor, while backward is generated: its gradient or -1; while
                                     evaluate is: the tensor that stands for it there */
};

/* A layer as it stands in the model. */
struct fm_layer_use {
    const struct fm_node *name;      /* its position is the layer's */
    const struct fm_node *arguments; /* a mapping or NULL */
    const char *path;                /* the layer's path, for messages */
};

/* FM_ESHAPE (or another code) at the layer's line: "<path>: <text>". */
int fm_builder_fail(const struct fm_builder *b, int code, struct fm_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* "9 positions x 24 channels" or "576 numbers": the value's shape for a message; returns buffer. */
#define FM_SHAPE_TEXT 64
const char *fm_builder_shape(const struct fm_builder *b, char buffer[FM_SHAPE_TEXT]);

/* Appends a tensor and gives its number. More elements than FM_NET_MAX_ELEMENTS is FM_ESHAPE. */
int fm_builder_tensor(struct fm_builder *b, enum fm_tensor_kind kind, enum fm_tensor_type type, int64_t rows,
                      int64_t channels, int *tensor, struct fm_error *err);
/* Appends an operation to the current section, all inputs and outputs -1, group -1; *op is valid until the
 * next. */
int fm_builder_op(struct fm_builder *b, enum fm_opcode code, struct fm_op **op, struct fm_error *err);
/* A forward operation from the value to a new tensor of rows x channels, which becomes the value. Shapes,
 * in[0] and out[0] are filled. */
int fm_builder_forward(struct fm_builder *b, enum fm_opcode code, int64_t rows, int64_t channels, int rank,
                       struct fm_op **op, struct fm_error *err);
/* Turns letters into one-hot rows; does nothing when the value is numbers. */
int fm_builder_numbers(struct fm_builder *b, struct fm_error *err);
/* FM_ESHAPE unless the value is (positions, channels). */
int fm_builder_need_positions(const struct fm_builder *b, struct fm_error *err);

/* What a variable starts as, and its regulariser. */
struct fm_variable_options {
    const char *name; /* "kernel" */
    bool trainable;
    const struct fm_node *initializer; /* NULL: `fallback`, the name of an initialiser */
    const char *fallback;
    const char *argument;              /* "kernel_initializer", for messages */
    const struct fm_node *regularizer; /* or NULL */
    const char *regularizer_argument;
};
/* Appends a variable of the current layer with its tensor and, if trainable, its gradient; gives its tensor.
 */
int fm_builder_variable(struct fm_builder *b, const struct fm_layer_use *use, int rank, const int64_t *shape,
                        const struct fm_variable_options *options, int *tensor, struct fm_error *err);

/* Layers (expand.c): appends every layer of the model, in order. */
int fm_builder_model(struct fm_builder *b, const struct fm_node *model, struct fm_error *err);
/* An activation after a layer (layer_activation.c): `choice` indexes fm_activation_names; linear adds
 * nothing. */
int fm_builder_activation(struct fm_builder *b, int choice, struct fm_error *err);
/* The head (head.c): folds a last softmax or sigmoid into the loss, checks the outputs, adds the loss. */
int fm_builder_head(struct fm_builder *b, struct fm_error *err);
/* The other sections (backward.c, sections.c). */
int fm_builder_backward(struct fm_builder *b, struct fm_error *err);
int fm_builder_update(struct fm_builder *b, struct fm_error *err);
int fm_builder_evaluate(struct fm_builder *b, struct fm_error *err);

/* What follows from the finished lists (lifetime.c, fuse.c, hash.c). */
void fm_program_lifetimes(struct fm_program *program);
void fm_program_fuse(struct fm_program *program);
uint64_t fm_program_hash(const struct fm_program *program);

#endif
