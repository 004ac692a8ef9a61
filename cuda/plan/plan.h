/* The plan of the `cudnn` engine: which calls make a step and an evaluation chunk, and where everything of a
 * lane lies. A pure function of program, batch size and kind of card (struct fm_cuda_kind), plus the recorded
 * choices of algorithms where a journal has them - never of load, of other lanes, of timing. Its hash covers
 * everything that decides bits: calls, tiles, splits, layouts, algorithms.
 *
 * A call is one kernel launch or one library call. What the program's fuse groups hint is fused where a
 * kernel can; the sensor net takes at most 12 calls a step, the protein net at most 16.
 *
 * Library: with kernels = auto a convolution or product goes to cuDNN or cuBLAS when it is large (a rule by
 * arithmetic in library_rule.c), with `library` whenever one can take it, with `own` never. cuDNN reads rows
 * of zeros around its input (halo): the plan lays such tensors out with them; they are cleared once when a
 * lane opens and never written.
 *
 * A lane's memory is one block of the arena; all places are offsets into it, multiples of FM_CUDA_ALIGN.
 * First the record (struct fm_cuda_lane), then the state, snapshots, gradients, partial sums, tensors,
 * reports. Tensors whose lifetimes do not meet share room; with options.guard they do not and stand apart,
 * the gaps filled with a pattern. */
#ifndef FM_CUDA_PLAN_H
#define FM_CUDA_PLAN_H

#include "cuda.h"

/* Where a variable lies in the parameters (and in gradients and each slot), and how: element (tap, in, out)
 * at offset + tap * stride_tap + in * stride_in + out * stride_out; others are as in the portable parameters.
 */
struct fm_cuda_variable {
    int64_t offset;                 /* floats, a multiple of 4 */
    struct fm_cuda_weights strides; /* at == NULL; of kernels */
    int taps, in, out;              /* 1, 1, count for what is no kernel */
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
    int64_t penalty; /* double */
    int64_t zero,
        zero_bytes; /* everything that has to be zero when a lane opens lies here: halos and others */
    int64_t workspace, workspace_bytes; /* of the libraries */
    int64_t chunk;                      /* examples of an evaluation chunk */
};

struct fm_cuda_plan {
    struct fm_cuda_plan *next;
    uint64_t program_hash, hash;
    int64_t batch;
    struct fm_cuda_layout layout;
    struct fm_cuda_variable *variables; /* [program->nvariables] */
    struct fm_cuda_call *calls;         /* plan/calls.h */
    int ncalls;                         /* all */
    int nstep, nchunk;                  /* of a step, of a chunk */
    struct fm_text choices;             /* one line a library call: "conv1d_2 forward cudnn 1\n" */
    struct fm_cuda_tile *tiles;         /* host copy; uploaded with the lane at layout.tiles */
    int ntiles;
    int64_t tiles_at;                 /* offset of the tiles in a lane's block */
    const struct fm_program *program; /* a deep-enough copy of what calls need is made: NULL after making */
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
/* Where a program tensor lies for tests: offset, floats between examples; false when it was fused away. */
bool fm_cuda_plan_tensor(const struct fm_cuda_plan *plan, int tensor, int64_t *offset, int64_t *example);

#endif
