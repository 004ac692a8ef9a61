/* The plan of the `cudnn` engine: which calls make a step and an evaluation chunk, and where everything of a
 * lane lies. A pure function of program, batch size and kind of card (struct fm_cuda_kind), plus the recorded
 * choices of algorithms where a journal has them - never of load, of other lanes, of timing. Its hash covers
 * everything that decides bits: calls, tiles, splits, layouts, algorithms.
 *
 * A call is one kernel launch or one library call. What the program's fuse groups hint is fused where a
 * kernel can; the sensor net takes at most 12 calls a step, the protein net at most 16.
 *
 * Library: with kernels = auto a convolution or product goes to cuDNN or cuBLAS when it is large (a rule by
 * arithmetic in choose.c), with `library` whenever one can take it, with `own` never. cuDNN reads rows
 * of zeros around its input (halo): the plan lays such tensors out with them; they are cleared once when a
 * lane opens and never written.
 *
 * A lane's memory is one block of the arena; all places are offsets into it, multiples of FM_CUDA_ALIGN.
 * First the record (struct fm_cuda_lane), then what has to be zero, the state, snapshots, gradients, what
 * belongs to the rows at hand, lists and partial sums, scratch and workspace, tensors. Tensors whose
 * lifetimes do not meet share room; with options.guard they do not and stand apart, the gaps filled with a
 * pattern. */
#ifndef FM_CUDA_PLAN_H
#define FM_CUDA_PLAN_H

#include "cuda.h"

/* Where a variable lies in the parameters (and in gradients and each slot). A kernel that cuDNN reads is
 * turned: its element (tap, in, out) lies at ((out * taps) + tap) * ins + in (fm_dnn_weights); all others lie
 * as in the portable parameters. */
struct fm_cuda_variable {
    int64_t offset;          /* floats, a multiple of 4 */
    int64_t count, portable; /* portable: offset in the portable parameters */
    int taps, in, out;       /* 1, 1, count for what is no convolution's kernel */
    bool turned;
};

struct fm_cuda_layout {
    int64_t bytes;              /* of the lane's block, without scores of a whole part */
    int64_t record;             /* struct fm_cuda_lane */
    int64_t state, state_bytes; /* parameters [floats], slots [slots][floats], struct fm_cuda_tail */
    int64_t floats;             /* of the parameters, padding included (padding is 0 and stays 0) */
    int64_t tail;               /* offset of the tail in a state, a multiple of 16 */
    int64_t snapshot[FM_SLOTS];
    int64_t gradients;
    int64_t rates, class_weights; /* doubles; floats */
    int64_t confusion, confusion_bytes;
    int64_t tiles;
    int64_t penalty; /* double */
    /* what the update works with; examples, weights, losses and scores of the rows at hand */
    int64_t partials, sums, scales, example, weight, losses, scores;
    int64_t zero,
        zero_bytes; /* everything that has to be zero when a lane opens lies here: halos and others */
    int64_t workspace, workspace_bytes; /* of the libraries */
    int64_t tensors;                    /* where the tensors begin */
    int64_t chunk;                      /* examples of an evaluation chunk */
};

/* Where a program tensor lies: its first real row, in bytes from the block's beginning; -1: fused away or in
 * the state. */
struct fm_cuda_room {
    int64_t offset;
    int example;         /* elements from one example to the next */
    int before, after;   /* rows of halo */
    int first, last;     /* calls that use it; last < 0: none does */
    int64_t room, bytes; /* of all its rows, halo included */
    bool zero;           /* its halo must be zero: it has room of its own */
};

struct fm_cuda_call; /* plan/calls.h */

struct fm_cuda_plan {
    struct fm_cuda_plan *next;
    bool retired; /* replaced by another choice of algorithms; lanes may still use it */
    uint64_t program_hash, hash;
    int64_t batch;
    struct fm_cuda_layout layout;
    struct fm_cuda_variable *variables; /* [nvariables] */
    int nvariables;
    struct fm_cuda_room *rooms; /* [ntensors] */
    int ntensors;
    struct fm_cuda_call *calls;
    int ncalls, nstep;          /* the first nstep make a step, the others a chunk */
    struct fm_text choices;     /* a line for every library call: "conv1d_1/kernel forward 1" */
    struct fm_text refused;     /* a line for every one that was refused: "conv1d_1/kernel forward: why" */
    struct fm_cuda_tile *tiles; /* host copy; the lane uploads it to layout.tiles */
    int ntiles;
    struct fm_cuda_update update; /* all but the addresses */
    bool penalised;               /* there are regularisers */
    bool letters;                 /* the input is letters */
};

/* Finds the plan among device->plans or makes it. It lives until the device closes. */
int fm_cuda_plan_get(struct fm_device *device, const struct fm_program *program, int64_t batch,
                     const struct fm_cuda_plan **plan, struct fm_error *err);
void fm_cuda_plans_free(struct fm_device *device);

/* A plan in a lane's block. */
struct fm_cuda_bound {
    struct fm_device *device;
    struct fm_card *card;
    const struct fm_cuda_plan *plan;
    char *base; /* device address of the block */
    cudaStream_t stream;
    float *scores; /* device: [examples of the part][score_width] or NULL */
    bool confusion;
    /* Called before the first and after every call when not NULL (profiles); call == NULL at the end. */
    int (*watch)(void *context, const struct fm_cuda_call *call, struct fm_error *err);
    void *context;
};
/* Enqueues the calls of one training step, or of one chunk of an evaluation. Legal during capture. */
int fm_cuda_enqueue_step(const struct fm_cuda_bound *bound, struct fm_error *err);
int fm_cuda_enqueue_chunk(const struct fm_cuda_bound *bound, struct fm_error *err);
/* The regularisers' part of the loss -> layout.penalty; nothing where there are none. */
int fm_cuda_enqueue_penalty(const struct fm_cuda_bound *bound, struct fm_error *err);

/* "conv1d_1 + relu + max pool" and whose layer: for profiles and messages. */
const char *fm_cuda_call_name(const struct fm_cuda_call *call);

/* Between a state on the device's layout (host copy) and a blob: portable parameters, slots alike, then the
 * tail. */
int64_t fm_cuda_blob_size(const struct fm_cuda_plan *plan, const struct fm_program *program);
void fm_cuda_blob_from_state(const struct fm_cuda_plan *plan, const struct fm_program *program,
                             const unsigned char *state, unsigned char *blob);
void fm_cuda_state_from_blob(const struct fm_cuda_plan *plan, const struct fm_program *program,
                             const unsigned char *blob, unsigned char *state);
/* Portable parameters into a state that is all zero. */
void fm_cuda_state_from_parameters(const struct fm_cuda_plan *plan, const struct fm_program *program,
                                   const float *parameters, unsigned char *state);
/* Gap number i between rooms, with options.guard; false when there are no more. A lane that opens fills them
 * with FM_CUDA_GUARD. */
#define FM_CUDA_GUARD 0xFF /* floats are NaN: reading one shows as well */
bool fm_cuda_plan_gap(const struct fm_cuda_plan *plan, int i, int64_t *offset, int64_t *bytes);
/* Part number i of the block that a library's operand may be: a variable, its gradient, the workspace, a
 * tensor; *bytes 0: none has this number. False when there are no more. The emulator asks. */
bool fm_cuda_plan_part(const struct fm_cuda_plan *plan, int i, int64_t *offset, int64_t *bytes);

#endif
