/* Calls: what a plan enqueues, one kernel launch or library call each. Plain data with tensor and variable
 * numbers; what they mean in a lane's block is looked up in the plan when they run. They hold copies of all
 * that they need, because a plan outlives the program it was made from. */
#ifndef FM_CUDA_CALLS_H
#define FM_CUDA_CALLS_H

#include "library/library.h"
#include "plan/plan.h"

/* kind, what explain and profile call it */
#define FM_CUDA_CALLS(X)                                                                                     \
    X(GATHER, "gather")                                                                                      \
    X(ONEHOT, "one-hot")                                                                                     \
    X(FORWARD, "forward")                                                                                    \
    X(LETTERS, "letters")                                                                                    \
    X(CONV_POOL, "forward + max pool")                                                                       \
    X(HEAD, "dense + loss")                                                                                  \
    X(LOSSES, "loss")                                                                                        \
    X(INPUT_GRAD, "input gradient")                                                                          \
    X(WEIGHT_GRAD, "weight gradient")                                                                        \
    X(LETTERS_GRAD, "letters gradient")                                                                      \
    X(BIAS_GRAD, "bias gradient")                                                                            \
    X(BIAS_ACTIVATION, "bias")                                                                               \
    X(ACTIVATE, "activation")                                                                                \
    X(ACTIVATE_GRAD, "activation gradient")                                                                  \
    X(SOFTMAX, "softmax")                                                                                    \
    X(SOFTMAX_GRAD, "softmax gradient")                                                                      \
    X(POOLING, "pool")                                                                                       \
    X(POOLING_GRAD, "pool gradient")                                                                         \
    X(BATCH_NORM, "batch norm")                                                                              \
    X(BATCH_NORM_GRAD, "batch norm gradient")                                                                \
    X(BATCH_NORM_MOVING, "moving statistics")                                                                \
    X(BATCH_NORM_INFER, "batch norm")                                                                        \
    X(LAYER_NORM, "layer norm")                                                                              \
    X(LAYER_NORM_GRAD, "layer norm gradient")                                                                \
    X(DROPOUT, "dropout")                                                                                    \
    X(NORM, "norm and check")                                                                                \
    X(OPTIMIZE, "optimizer")                                                                                 \
    X(TALLY, "tally")                                                                                        \
    X(DNN, "cuDNN")                                                                                          \
    X(BLAS, "cuBLAS")
enum fm_cuda_call_kind {
#define FM_CUDA_CALL_ENUM(kind, name) FM_CALL_##kind,
    FM_CUDA_CALLS(FM_CUDA_CALL_ENUM)
#undef FM_CUDA_CALL_ENUM
        FM_CALL_KINDS
};

/* The activation of a call: `stored` is a tensor number, -1 = none. */
struct fm_cuda_call_activation {
    int kind;
    float slope;
    int stored;
    bool is_stored, is_pooled;
};

struct fm_cuda_call {
    enum fm_cuda_call_kind kind;
    enum fm_dnn_role {
        FM_ROLE_FORWARD,
        FM_ROLE_INPUT_GRAD,
        FM_ROLE_WEIGHT_GRAD
    } role; /* of a library call */
    char name[64];
    char shape[48];
    int activity, rows; /* examples */
    int in[3],
        out[3]; /* tensors; -1 = none. Forward: x -> y, stored or winner. Gradients: dy (x second) -> dx */
    int kernel, bias;   /* variables, -1 = none; norms: gamma, beta */
    int mean, variance; /* variables of the moving statistics */
    struct fm_cuda_conv conv;
    struct fm_cuda_pool pool;
    struct fm_cuda_call_activation activation;
    struct fm_cuda_loss loss;
    int length, channels;
    bool accumulate, wide;
    double number; /* epsilon, momentum */
    int index, id; /* dropout */
    bool spatial;
    int splits;
    int64_t partial, stride; /* floats into the partial sums; splits == 1: into the gradients at once */
    int64_t scratch;         /* bytes; then its place in the block */
    struct fm_dnn_call *dnn; /* owned */
    struct fm_blas_shape product;
};

/* Program -> calls; what the library is to do is decided in choose.c. `made` are all calls so far. */
struct fm_cuda_builder {
    struct fm_device *device;
    const struct fm_program *program;
    struct fm_cuda_plan *plan;
    const char *recorded; /* choices of a journal, or NULL */
    size_t capacity;      /* of plan->calls */
    int *stands_for;      /* [ntensors]: a pool's output that stands for a fused-away activation, or -1 */
    bool *by_library;     /* [nops]: the rule wants a library for this product */
    int64_t partials;     /* floats so far */
    int chunk;
    struct fm_error *err;
};
/* build.c, build_grad.c. 0 or negative. */
int fm_cuda_build_calls(struct fm_cuda_builder *b);
int fm_cuda_build_product(struct fm_cuda_builder *b, int op, int *next);
int fm_cuda_build_gradient(struct fm_cuda_builder *b, int op, int *next);
int fm_cuda_build_loss(struct fm_cuda_builder *b, int op, int dense, int *next);
/* A new call at the end with what all have; NULL: no memory (b->err is filled). */
struct fm_cuda_call *fm_cuda_call_new(struct fm_cuda_builder *b, enum fm_cuda_call_kind kind, int op);
void fm_cuda_call_activates(struct fm_cuda_call *call, const struct fm_op *activation, int stored);
struct fm_cuda_conv fm_cuda_conv_of(const struct fm_op *op);
struct fm_cuda_pool fm_cuda_pool_of(const struct fm_op *op);
bool fm_cuda_is_letters(const struct fm_op *op);
int fm_cuda_variable_of(const struct fm_program *program,
                        int tensor); /* of a parameter, state or gradient; -1 */
const struct fm_op *fm_cuda_followed_by(const struct fm_program *program, int op, int *next,
                                        enum fm_opcode code);

/* choose.c: which products go to a library, halos for them, layouts of kernels. */
int fm_cuda_choose(struct fm_cuda_builder *b);
/* Makes the library call for a product in one direction: 1 = it is there (the last call), 0 = own kernel,
 * negative. */
int fm_cuda_library_call(struct fm_cuda_builder *b, int op, enum fm_dnn_role role);

/* places.c: variables and tiles; then the block. */
int fm_cuda_place_variables(struct fm_cuda_builder *b);
int fm_cuda_place_tiles(struct fm_cuda_builder *b);
int fm_cuda_place_block(struct fm_cuda_builder *b);

#endif
