/* The program: one network compiled for training, as plain data that every backend executes.
 *
 * A program says what is computed, never how: no addresses, no tiles, no order of micro-batches (that is a
 * backend's plan, a pure function of program, batch size and kind of device). It is made once per
 * architecture and input shape and shared by all lanes; hyper-parameters live in the lane (engine/backend.h).
 *
 * Shapes are those of ONE example: a tensor has rows x channels (L x C, row-major; the batch comes outside).
 * A flattened tensor is the same tensor read as one row: Flatten is no operation. Convolution kernels are
 * [k][C/groups][F], dense kernels [in][units], as in Keras.
 *
 * Sections, each a range of `ops`, in this order:
 *   forward   gather the batch's windows ... loss. May be cut into micro-batches inside one stage.
 *   backward  loss gradient ... weight gradients; a layer's weight gradient stands before its input gradient,
 * so that a gradient may overwrite its tensor where `overwrite` says so. Parameter gradients sum over the
 * batch in example order. update    once a step: regularisers add to gradients, norm and finite check, clip,
 * optimizer, moving statistics. evaluate  forward in inference mode ... loss sums, scores, confusion. `stage`
 * counts up where an operation spans the whole batch (training batch_normalization, forward and backward):
 * all examples of the batch must have finished the earlier stage before such an operation starts. Forward and
 * backward count on together (without batch_normalization both are stage 0), update is the last stage,
 * evaluate is stage 0.
 *
 * Tensors of the evaluate section are its own (parameters and state apart), so that no lifetime spans a step
 * and an evaluation. What only training needs - winner, stored derivative, mean and deviation of
 * layer_normalization - is -1 there, and in training too where no gradient asks for it. A letters input is
 * u8, [L][1].
 *
 * The loss of a batch is sum over examples of (weight * class weight * loss) / N, N = examples in the batch,
 * plus the regularisers; its gradient divides by the same N (semantics.md 2.2, 2.3).
 *
 * Both nets of users.md through this program (the paper check of issue 3), S and P2:
 *   gather -> conv1d(9x1x24) + activation(relu) + pool(max 4)  [one fuse group: conv + act + pool]
 *     -> dense(576x20) + activation(relu) [fuse group] -> dense(20x2) + loss [fuse group: head]
 *   gather letters (u8) -> conv1d(5x21x64, letters: sums of weight rows) + activation(swish, derivative
 * stored)
 *     -> conv1d(5x64x64) + activation(swish) -> dense(1088x3) + loss
 *   backward, per layer: loss_grad -> dense_weight_grad -> dense_input_grad + activation_grad [fuse group] ->
 * ... Everything the fast CPU engine and the fused GPU engine need is here: fuse hints, letters without
 * one-hot, what the derivative comes from, the argmax tensor of a pool (u8 offsets inside the window when
 * size <= 256), lifetimes.
 */
#ifndef FM_NET_PROGRAM_H
#define FM_NET_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "config/sweep.h"

enum fm_tensor_kind {
    FM_TENSOR_INPUT,      /* written by gather */
    FM_TENSOR_PARAMETER,  /* trainable variable */
    FM_TENSOR_STATE,      /* not trained: moving statistics */
    FM_TENSOR_ACTIVATION, /* per example, forward; also gradients of activations (gradient_of >= 0) */
    FM_TENSOR_GRADIENT,   /* gradient of a parameter, one per lane */
    FM_TENSOR_BATCH,      /* one per lane and step: batch statistics */
    FM_TENSOR_REPORT      /* what goes back to the host */
};
enum fm_tensor_type { FM_F32, FM_U8, FM_I32 };

struct fm_tensor {
    enum fm_tensor_kind kind;
    enum fm_tensor_type type;
    int64_t rows, channels;
    int gradient_of; /* the tensor this is the gradient of, or -1 */
    int variable;    /* index into variables, or -1 */
    /* First and last use, indices into ops. Parameters and state live always (0 .. nops - 1); the gradient of
     * a parameter until the optimizer has read it; a report until the end of its section. */
    int first_op, last_op;
    bool overwrite; /* its gradient may overwrite it: nothing reads it in or after the op that writes that */
};

enum fm_opcode {
    FM_OP_GATHER, /* -> out[0] f32 [L][C] scaled windows, or u8 [L][1] letters */
    FM_OP_ONEHOT, /* in[0] u8 [L][1] -> out[0] f32 [L][A]; only where a first layer cannot take letters */
    FM_OP_CONV1D, /* in: x, kernel, bias or -1 -> y (before its activation) */
    FM_OP_CONV1D_WEIGHT_GRAD, /* in: x, dy -> dkernel, dbias or -1 */
    FM_OP_CONV1D_INPUT_GRAD,  /* in: dy, kernel -> dx */
    FM_OP_DENSE,              /* in: x, kernel, bias or -1 -> y */
    FM_OP_DENSE_WEIGHT_GRAD,  /* in: x, dy -> dkernel, dbias or -1 */
    FM_OP_DENSE_INPUT_GRAD,   /* in: dy, kernel -> dx */
    FM_OP_POOL,               /* in: x -> y, winner (max, training: offset inside the window; else -1) */
    FM_OP_POOL_GRAD,          /* in: dy, winner or -1 -> dx */
    FM_OP_ACTIVATION,         /* in: x -> y, stored derivative or -1 */
    FM_OP_ACTIVATION_GRAD,    /* in: dy, y or x or stored (see `derivative`) -> dx */
    FM_OP_BATCH_NORM,      /* in: x, gamma or -1, beta or -1 -> y, batch mean [1][C], batch variance [1][C];
                              training */
    FM_OP_BATCH_NORM_GRAD, /* in: x, dy, gamma or -1, mean, variance -> dx or -1, dgamma or -1, dbeta or -1 */
    FM_OP_BATCH_NORM_MOVING, /* update; in: mean, variance -> moving_mean, moving_variance */
    FM_OP_BATCH_NORM_INFER,  /* evaluate; in: x, gamma, beta, moving_mean, moving_variance -> y */
    FM_OP_LAYER_NORM,        /* in: x, gamma or -1, beta or -1 -> y, mean [L][1], inverse deviation [L][1] */
    FM_OP_LAYER_NORM_GRAD,   /* in: x, dy, gamma or -1, mean, inverse deviation -> dx or -1, dgamma, dbeta */
    FM_OP_DROPOUT,           /* in: x -> y; the mask is a function of its key, see below */
    FM_OP_DROPOUT_GRAD,      /* in: dy -> dx; the same mask, recomputed */
    FM_OP_LOSS,              /* in: z (logits) or outputs -> loss [1][1] of the example */
    FM_OP_LOSS_GRAD,         /* in: z or outputs -> dz: gradient of the batch's loss */
    FM_OP_SCORES, /* evaluate; in: z or outputs -> scores [1][score_width]: softmax, sigmoid or as they are */
    FM_OP_REGULARIZE, /* update; in: parameter -> its gradient += l1*sign(w) + 2*l2*w; adds to the loss */
    FM_OP_NORM,       /* update; norms per variable and over all; the finite check */
    FM_OP_CLIP,       /* update; as the lane's clip rule says; nothing for FM_CLIP_NONE */
    FM_OP_OPTIMIZER   /* update; every trainable variable */
};

enum fm_section {
    FM_SECTION_FORWARD,
    FM_SECTION_BACKWARD,
    FM_SECTION_UPDATE,
    FM_SECTION_EVALUATE,
    FM_SECTIONS
};
/* Where the output tells the derivative (relu, leaky_relu, elu, selu, tanh, sigmoid, softmax) it comes from
 * there; for swish, gelu, softplus, hard_sigmoid and mish forward stores it beside the output, f32 of the
 * same shape, so that backward needs no exponential and the input need not be kept. FM_FROM_INPUT is not used
 * at present. */
enum fm_derivative { FM_FROM_NONE, FM_FROM_OUTPUT, FM_FROM_INPUT, FM_FROM_STORED };
/* Hints; a backend may ignore them. Ops of one group share `group` >= 0 and stand next to each other in one
 * section: conv1d [+ activation] + pool; conv1d or dense + activation; input or pool gradient + activation
 * gradient; the last dense + loss [+ scores]. Softmax inside the network is never grouped: it is not
 * elementwise. */
enum fm_fuse { FM_FUSE_NONE, FM_FUSE_CONV_ACT_POOL, FM_FUSE_LAYER_ACT, FM_FUSE_GRAD_ACT, FM_FUSE_HEAD };

enum fm_activation {
    FM_ACT_LINEAR,
    FM_ACT_RELU,
    FM_ACT_LEAKY_RELU,
    FM_ACT_SWISH,
    FM_ACT_GELU,
    FM_ACT_ELU,
    FM_ACT_SELU,
    FM_ACT_SOFTPLUS,
    FM_ACT_TANH,
    FM_ACT_SIGMOID,
    FM_ACT_SOFTMAX,
    FM_ACT_HARD_SIGMOID,
    FM_ACT_MISH
};

#define FM_OP_INPUTS  5
#define FM_OP_OUTPUTS 3

struct fm_op {
    enum fm_opcode code;
    enum fm_section section;
    int stage;
    int in[FM_OP_INPUTS], out[FM_OP_OUTPUTS]; /* tensor numbers, -1 = none */
    bool accumulate; /* adds to out[0] instead of writing it: the tensor has several consumers */
    enum fm_derivative derivative; /* activation gradients: what the derivative is computed from */
    enum fm_fuse fuse;
    int group;
    int layer; /* index into layers: its path and line, for messages and profiles; -1: none */
    /* Shapes of the forward operation; gradients carry the same numbers. Dense: rows positions of
     * `in_channels` each (a flattened input has rows 1), so in_rows == out_rows. */
    int64_t in_rows, in_channels, out_rows, out_channels;
    union {
        /* y[o][f] = b[f] + sum_j sum_c x[o*stride + j*dilation - pad_before][c] * W[j][c][f], zero outside.
         * letters: x is u8, its row is one-hot of in_channels (none for FM_NO_LETTER). */
        struct {
            int64_t taps, stride, dilation, groups, pad_before, pad_after;
            bool letters;
        } conv;
        /* letters: x is u8 [in_channels / alphabet] letters, flattened one-hot rows. */
        struct {
            bool letters;
            int64_t alphabet;
        } dense;
        /* Windows start at o*stride - pad_before. Max ignores padding, ties: lowest index, NaN wins. Average
         * divides by the real cells. Global pools have size = in_rows. */
        struct {
            bool average;
            int64_t size, stride, pad_before, pad_after;
        } pool;
        struct {
            enum fm_activation kind;
            double slope; /* leaky_relu; alpha of elu */
        } activation;
        /* Over rows and batch per channel (batch norm) or over channels per row (layer norm); variance
         * biased. */
        struct {
            double epsilon, momentum;
        } norm;
        /* Kept elements are divided by 1 - rate. rate = the lane's rates[index]. spatial: one draw per
         * channel. Element e of example x of the epoch's batch is kept when its uniform number >= rate; key =
         * fm_key(seed, DROPOUT, repeat, fold), counter = {step low, step high, operation `id`, place x in the
         * batch} chained with e (engine/dropout.h), so masks depend on neither micro-batches nor lanes. */
        struct {
            int index, id;
            bool spatial;
        } dropout;
        struct {
            int64_t alphabet;
        } onehot;
        struct {
            double l1, l2;
        } regularize;
    };
};

enum fm_initializer {
    FM_INIT_ZEROS,
    FM_INIT_ONES,
    FM_INIT_CONSTANT,
    FM_INIT_UNIFORM,
    FM_INIT_NORMAL,
    FM_INIT_TRUNCATED_NORMAL,
    FM_INIT_ORTHOGONAL
};

/* A variable in Keras's order and shape. In a lane's portable parameters it lies at `offset` (floats),
 * variables end to end without gaps, trainable or not. */
struct fm_variable {
    char *name; /* "conv1d_1/kernel": Keras's names, counted per class from conv1d */
    int rank;
    int64_t shape[3];
    int64_t count, offset;
    bool trainable;
    bool decay;           /* decoupled weight decay applies (Keras: to every trainable variable) */
    int tensor, gradient; /* tensor numbers; gradient -1 when not trainable */
    /* Drawn with fm_key(seed, WEIGHTS, repeat, fold) and counter {variable, element low, element high,
     * attempt}; see net/initialize.h. */
    enum fm_initializer initializer;
    double a, b; /* constant: a; uniform: [a, b); normal kinds: mean a, deviation b; orthogonal: gain a */
};

/* A layer as the user wrote it, for messages, names and `help`. */
struct fm_layer_info {
    char *path;       /* "model[0].repeat[1].layers[0].conv1d": second time round, first layer */
    char *type;       /* "conv1d" */
    int ordinal;      /* among the layers of its type, from 0: Keras's number in names */
    const char *file; /* the document's; it must outlive the program */
    int64_t line, column;
    int64_t in_rows, in_channels, out_rows, out_channels;
    int rank; /* of the output: 3 = (N, L, C), 2 = (N, C) */
    int64_t param_count;
};

struct fm_loss {
    enum fm_loss_kind kind;
    double label_smoothing, delta;
    bool logits;     /* the loss op reads logits; scores are softmax (or sigmoid) of them */
    int64_t outputs; /* K: width of the last layer */
};

struct fm_program {
    struct fm_tensor *tensors;
    int ntensors;
    struct fm_op *ops;
    int nops;
    int section_first[FM_SECTIONS + 1]; /* ops of section s: [first[s], first[s+1]) */
    struct fm_variable *variables;
    int nvariables;
    struct fm_layer_info *layers;
    int nlayers;
    int64_t input_rows, input_channels; /* channels: of the one-hot rows when the input is letters */
    bool letters;
    struct fm_loss loss;
    int64_t score_width; /* floats an example's scores take: 1 for binary cross-entropy and for two-class
                            softmax (the second class's), K otherwise */
    int64_t param_count; /* Keras's count_params(): trainable and not */
    int64_t trainable_count;
    int64_t float_count; /* of the portable parameters: = param_count */
    enum fm_optimizer_kind optimizer;
    int slots;                                  /* floats of optimizer state per trainable parameter */
    bool nesterov, amsgrad, centered, momentum; /* what the optimizer's slots are for */
    double *rates;
    int nrates; /* dropout rates by index, as first read: the default of the lane's */
    int stages;
    uint64_t hash; /* of everything computed (not of names, lines, rates): equal hash = same program */
};

void fm_program_free(struct fm_program *program);

/* Floating point operations that one example needs: those of the layers' products, forward and backward. Taps
 * on rows of padding do not count, nor products with gradients that are zero because max pooling chose other
 * rows; one-hot letters count as sums of rows. It is the same whatever a backend really does: for cost, time
 * and speed. */
double fm_program_flops(const struct fm_program *program, bool training);
/* Of one operation; 0 for what is no product. */
double fm_op_flops(const struct fm_program *program, const struct fm_op *op);

/* Writes the initial value of every variable, float_count floats, in the portable layout. */
int fm_program_initialize(const struct fm_program *program, uint64_t key, float *parameters,
                          struct fm_error *err);

#endif
