/* The CPU engine: a plan of routines (kernels.h) for one program and batch size, run by the host's worker
 * threads (engine/host), one lane a thread.
 *
 * Plan: a pure function of program, batch size and the few sizes below; it changes no bit (nor does the
 * instruction set within a class of numbers), so it is made again wherever it is needed.
 *
 * - places: where each tensor lies in the lane's arena. What a convolution reads beyond its ends lies
 *   between zero rows, written once. An activation (or a dropout) whose input nobody reads later works in
 *   place; so do its gradients. Tensors of the evaluate section are apart.
 *
 * - variables: where each one lies in the state, at multiples of 16 floats. Kernels of dense layers with more
 *   inputs than units are stored turned, [units][in], so that all their products run along the wide side.
 *
 * - slices: the batch is cut so that what a slice touches stays in the L2 cache. A program with batch
 *   normalization keeps tensors for the whole batch and cuts slices within each stage.
 *
 * - tasks: what is called, in order. Groups of operations that are done in one go are one task.
 *
 * A lane's arena is one allocation, made when the lane opens; nothing is allocated in a step.
 *
 * State: floats [extent] of variables, [slots][extent] of the optimizer, the tail. Blob: portable parameters
 * [float_count], slots [slots][float_count] in the same order and shape, the tail: the same for every
 * instruction set.
 */
#ifndef FM_ENGINE_CPU_CPU_H
#define FM_ENGINE_CPU_CPU_H

#include "base/text.h"
#include "engine/cpu/kernels.h"
#include "engine/host/host.h"

/* What a slice may touch: half of the L2 cache of current server cores; smaller ones lose little. */
#define FM_CPU_SLICE_BYTES (INT64_C(1) << 20)
/* What a group of examples may write before the pass over it follows: it shall still be in the L1 cache. */
#define FM_CPU_MICRO_BYTES 16384
/* Examples evaluated at a time, at most. */
#define FM_CPU_CHUNK 128
/* Variables and tensors start at multiples of so many bytes, and so much room is behind each tensor. */
#define FM_CPU_ALIGN 64
/* Convolutions in groups of fewer filters and channels than this are done along all filters at once. */
#define FM_CPU_NARROW 16

struct fm_cpu_lane;

struct fm_cpu_place {
    int root;              /* the tensor whose memory it shares; itself if none */
    bool used;             /* some task touches it (roots only, as all that follows) */
    int64_t before, after; /* zero rows */
    int64_t offset;        /* bytes from the arena's start to row 0 of example 0 */
    int64_t stride;        /* elements from one example to the next */
    int64_t held;          /* examples it has room for */
};

struct fm_cpu_variable {
    int64_t offset; /* floats in the state, or in the array of gradients */
    bool turned;    /* a dense kernel stored [units][in] */
    bool cleared;   /* its gradient is summed into place, so it starts at zero */
};

/* One call in a step. `first` is the example's place in the tensors, `count` how many; lane->place is the
 * first one's place in the batch. */
struct fm_cpu_task {
    void (*run)(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count);
    const char *name; /* for --explain and profiles */
    const struct fm_op *op;
    const struct fm_op *act, *pool; /* done in one go with it: an activation, a pool (or their gradients) */
    const struct fm_op *scores, *grad; /* what the loss gives beside itself */
    int64_t micro;                     /* examples after which a fused pass follows */
    int64_t scratch;                   /* bytes from the arena's start: a turned kernel, sums; -1: none */
    bool whole;                        /* spans the batch: called once a stage, before the slices */
};

/* A piece of the arena; what lies between two is never touched. */
struct fm_cpu_room {
    int64_t offset, bytes;
};

struct fm_cpu_plan {
    const struct fm_program *program;
    const struct fm_kernels *kernels;
    int64_t batch, guard;
    int64_t slice_bytes;         /* that a slice may touch */
    struct fm_cpu_place *places; /* [ntensors] */
    struct fm_cpu_variable *variables;
    int64_t extent; /* floats of all variables with their gaps */
    struct fm_cpu_task *tasks;
    int ntasks;
    struct fm_cpu_room *rooms;
    int nrooms;
    /* Tasks in order: prepare (once a step: what accumulates is cleared, kernels are turned), train (forward
     * and backward, by stage), evaluate. */
    int train_first, evaluate_first;
    bool staged; /* tensors hold the whole batch */
    bool regularized;
    int64_t slice;            /* examples */
    int64_t chunk;            /* examples evaluated at a time */
    int64_t gradients, arena; /* bytes: offset of the gradients, size of all */
    int64_t example_bytes;    /* what a slice touches per example */
};

struct fm_cpu_lane {
    struct fm_lane *host;
    struct fm_cpu_plan plan;
    const struct fm_kernels *k;
    unsigned char *memory, *arena; /* as allocated; aligned */
    float *gradients;
    float **tensor;        /* [ntensors]: row 0 of example 0; u8 and i32 tensors too */
    float *scaling;        /* holds the two: */
    float *shift, *factor; /* [L * C] of the fold's scaling, or NULL */
    int64_t place;         /* of the slice at hand in the batch */
    double *loss;          /* [capacity] of each example */
    float *share;          /* [capacity]: weight / n (/ outputs) */
    uint32_t *labels;      /* [capacity] */
    float *values;         /* [capacity][outputs], when targets are numbers or distributions */
    uint64_t *keys;        /* [capacity]: dropout */
    float square;          /* of the gradients, before clipping */
};

extern const struct fm_executor fm_cpu_executor;
extern const struct fm_backend fm_backend_cpu;

/* plan.c, places.c. Of the options it takes the guard and the slice. Fails for want of memory, or with a
 * sentence when the program is too large. */
int fm_cpu_plan_init(struct fm_cpu_plan *plan, const struct fm_program *program, int64_t batch,
                     const struct fm_kernels *kernels, const struct fm_device_options *options,
                     struct fm_error *err);
void fm_cpu_plan_fini(struct fm_cpu_plan *plan);
/* A new task at the end of the list; NULL when memory is out. */
struct fm_cpu_task *fm_cpu_plan_add(struct fm_cpu_plan *plan, const char *name, const struct fm_op *op);
/* Sets places, slices and offsets, once all tasks are known. */
int fm_cpu_plan_place(struct fm_cpu_plan *plan, struct fm_error *err);
/* Room in the arena for `bytes`, aligned; gives its offset. */
int64_t fm_cpu_plan_room(struct fm_cpu_plan *plan, int64_t bytes);
/* explain.c: the plan as text. */
void fm_cpu_plan_print(const struct fm_cpu_plan *plan, struct fm_text *text);

/* Run functions and fitting predicates of the modules. */
typedef void fm_cpu_run(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                        int64_t count);
/* gather.c */
fm_cpu_run fm_cpu_gather, fm_cpu_onehot;
/* conv.c, conv_grad.c */
fm_cpu_run fm_cpu_conv, fm_cpu_conv_letters, fm_cpu_conv_pool, fm_cpu_conv_narrow;
fm_cpu_run fm_cpu_conv_turn, fm_cpu_conv_weight_grad, fm_cpu_conv_input_grad, fm_cpu_conv_letters_grad,
    fm_cpu_conv_pool_grad, fm_cpu_conv_narrow_turn, fm_cpu_conv_narrow_weight_grad,
    fm_cpu_conv_narrow_input_grad;
bool fm_cpu_conv_is_narrow(const struct fm_op *conv);
bool fm_cpu_conv_narrow_turns(const struct fm_op *conv); /* its input gradient reads the kernel turned */
bool fm_cpu_conv_pool_fits(const struct fm_op *conv, const struct fm_op *act, const struct fm_op *pool);
/* Whether the gradient can be taken from the winners alone. */
bool fm_cpu_conv_pool_grad_fits(const struct fm_op *conv, const struct fm_op *pool);
/* Zero rows that the input gradient reads around dy. */
void fm_cpu_conv_grad_halo(const struct fm_op *conv, int64_t *before, int64_t *after);
/* band.c: a convolution's product, with taps that lie on zero rows left out. Row r of the product reads the
 * input's rows from + r * step .. + taps - 1, `width` floats each; only rows 0 .. in_rows - 1 are not zero.
 */
struct fm_cpu_band {
    int64_t taps, width, from, step, in_rows;
};
/* Rows at the beginning and at the end that lack a tap, when leaving it out pays for `count` examples; else
 * 0.
 */
void fm_cpu_band_edges(const struct fm_cpu_band *band, int64_t rows, int64_t count, int64_t *before,
                       int64_t *after);
/* Those rows, each as one product over all examples. `p` is the whole product: groups = examples, k1 = 1, k2
 * = taps * width. */
void fm_cpu_band_outer(const struct fm_cpu_band *band, const struct fm_product *p,
                       const struct fm_kernels *k);
/* Makes `p` the product of the rows between, of examples first .. first + count - 1. */
void fm_cpu_band_inner(const struct fm_cpu_band *band, struct fm_product *p, int64_t total, int64_t first,
                       int64_t count);
/* dense.c */
fm_cpu_run fm_cpu_dense, fm_cpu_dense_turn, fm_cpu_dense_weight_grad, fm_cpu_dense_input_grad;
bool fm_cpu_dense_is_turned(const struct fm_op *dense);
/* Whether the input gradient reads the kernel turned, once a step, though it is not stored so. */
bool fm_cpu_dense_turns(const struct fm_op *dense, int64_t batch);
/* pass.c */
fm_cpu_run fm_cpu_activation, fm_cpu_activation_grad, fm_cpu_pool, fm_cpu_pool_grad, fm_cpu_dropout;
/* The activation `act` of examples first .. first + count - 1, after the task that made its input. */
void fm_cpu_activate(const struct fm_op *act, struct fm_cpu_lane *lane, int64_t first, int64_t count);
void fm_cpu_activate_grad(const struct fm_op *act, struct fm_cpu_lane *lane, int64_t first, int64_t count);
/* norm.c */
fm_cpu_run fm_cpu_batch_norm_sums, fm_cpu_batch_norm, fm_cpu_batch_norm_grad_sums, fm_cpu_batch_norm_grad,
    fm_cpu_batch_norm_infer, fm_cpu_layer_norm, fm_cpu_layer_norm_grad;
void fm_cpu_batch_norm_moving(const struct fm_op *op, struct fm_cpu_lane *lane);
int64_t fm_cpu_batch_norm_scratch(const struct fm_op *op); /* bytes */
/* head.c */
fm_cpu_run fm_cpu_head;
void fm_cpu_targets(struct fm_cpu_lane *lane); /* of the batch or chunk at hand */
void fm_cpu_shares(struct fm_cpu_lane *lane);  /* what each example's gradient counts */
/* update.c */
double fm_cpu_penalty(const struct fm_cpu_lane *lane);
void fm_cpu_regularize(struct fm_cpu_lane *lane);
float fm_cpu_square(const struct fm_cpu_lane *lane); /* gradients' sum of squares */
void fm_cpu_update(struct fm_cpu_lane *lane, double learning_rate);
/* step.c */
void fm_cpu_gradients(struct fm_lane *host, struct fm_step *step);
void fm_cpu_evaluate(struct fm_lane *host, double *loss, double *scores);
/* state.c */
void fm_cpu_state_layout(const struct fm_cpu_plan *plan, struct fm_host_layout *layout);
void fm_cpu_parameters(struct fm_lane *host, const float *portable);
void fm_cpu_blob_read(const struct fm_lane *host, const unsigned char *state, unsigned char *blob);
void fm_cpu_blob_write(const struct fm_lane *host, unsigned char *state, const unsigned char *blob);
/* peak.c: as the backend's (engine/backend.h). */
double fm_cpu_peak(const struct fm_device *device, double seconds);
/* guard.c: zero rows around tensors; with guards, a pattern (a signalling NaN) everywhere else, which tests
 * ask to be whole between the buffers. */
void fm_cpu_fill(struct fm_cpu_lane *lane);
bool fm_cpu_guards_whole(const struct fm_lane *host);

/* ---- small helpers ---- */

static inline const struct fm_cpu_place *fm_cpu_place_of(const struct fm_cpu_lane *lane, int tensor)
{
    return &lane->plan.places[lane->plan.places[tensor].root];
}
static inline int64_t fm_cpu_stride(const struct fm_cpu_lane *lane, int tensor)
{
    return fm_cpu_place_of(lane, tensor)->stride;
}
static inline float *fm_cpu_at(const struct fm_cpu_lane *lane, int tensor, int64_t first)
{
    return lane->tensor[tensor] + first * fm_cpu_stride(lane, tensor);
}
static inline uint8_t *fm_cpu_bytes_at(const struct fm_cpu_lane *lane, int tensor, int64_t first)
{
    return (uint8_t *)lane->tensor[tensor] + first * fm_cpu_stride(lane, tensor);
}
/* A variable's values or its gradient; NULL for tensor -1. */
static inline float *fm_cpu_whole(const struct fm_cpu_lane *lane, int tensor)
{
    return tensor < 0 ? NULL : lane->tensor[tensor];
}

#endif
