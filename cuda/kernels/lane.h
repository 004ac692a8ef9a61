/* What of a lane lies in device memory: the run's data, hyper-parameters and keys, written once when the lane
 * opens, and the control block, which only kernels change. Included by host files (C) and kernels (C++), so
 * it is plain data.
 *
 * Kernel arguments are pointers and shapes that stay the same for every step and every run of the same
 * program, batch size and addresses; everything that changes - step, learning rate, fold, keys,
 * hyper-parameters - is read from here. That is why a captured step can be replayed for ever, and for the
 * next run in the same place as well.
 *
 * Rows: a step works on a fixed number of rows (the batch size; the chunk in an evaluation). The first
 * control.n of them are valid; the others repeat the last valid example. Their loss counts nothing, their
 * loss gradient is 0, and statistics over the batch leave them out; all other operations treat every row
 * alike.
 */
#ifndef FM_CUDA_KERNELS_LANE_H
#define FM_CUDA_KERNELS_LANE_H

#include <stdint.h>

#include "base/indexset.h"

/* struct fm_indexset with its lists in device memory (base/indexset.h tells what they mean). */
struct fm_cuda_set {
    int64_t count;
    const struct fm_stretch *runs; /* as runs; or NULL */
    int64_t nruns;
    const uint64_t *bits; /* as a bitmap */
    const struct fm_block *blocks;
    int64_t origin, stride, nbits;
    double pace;
};

/* The series, its records and the examples' targets for one view. All pointers are device memory. */
struct fm_cuda_data {
    const float *values;    /* [positions][channels] or NULL */
    const uint8_t *letters; /* [positions] or NULL */
    int64_t channels;
    const int64_t *starts;  /* [nrecords + 1] */
    const int64_t *lengths; /* or NULL (data/dataset.h) */
    int64_t nrecords, head;
    int wraps; /* edge: wrap */
    struct fm_cuda_set anchors;
    int64_t length, lead; /* of the view's windows */
    int class_bits;       /* of struct fm_packed; 0: targets are numbers */
    const void *classes;  /* [examples], packed */
    const float *targets; /* [examples][target_width] or NULL */
    int64_t target_width;
    int64_t nclasses;     /* of the confusion matrix (fm_lane_classes of engine/host) */
    const float *weights; /* per stored position or per record; NULL = all 1 */
    int weights_per_record;
    const float *shift, *factor; /* [channels] of the fold, or NULL */
};

/* enum fm_clip_kind, fm_optimizer_kind, fm_on_nan, fm_loss_kind are config/sweep.h's; here they are ints. */
struct fm_cuda_hyper {
    float momentum, beta_1, beta_2, epsilon, rho, weight_decay;
    double beta_1_wide, beta_2_wide, rho_wide; /* as given, for 1 - beta in double */
    int clip;
    float clip_value;
    int shuffle;
    const float *class_weights; /* [nclasses], device memory, or NULL */
    const double *rates;        /* [nrates] dropout rates, device memory: masks compare in double */
};

enum { FM_CUDA_SLOTS = 8 }; /* at least FM_SLOTS of engine/backend.h */

/* What a lane does at the moment: kernels of a step do nothing unless it trains, those of an evaluation
 * unless it evaluates. */
enum fm_cuda_activity { FM_CUDA_IDLE, FM_CUDA_TRAINS, FM_CUDA_EVALUATES };

struct fm_cuda_control {
    int activity; /* enum fm_cuda_activity; request_begin sets it, the last launch of the last step or chunk
                     and request_end set it back to idle */
    int n;        /* valid rows of the step or chunk at hand; fm_cuda_gather works it out */
    int frozen;   /* a bad step under stop or rollback */
    int bad;      /* the step at hand: its update is left out (set by norm, also under `keras`: then 0) */
    int on_nan;
    int status; /* of a snapshot or restore: 0, or 1 = the slot is empty */
    int taken[FM_CUDA_SLOTS];
    float scale;     /* global clip: what gradients are multiplied with */
    float adam_step; /* learning rate * sqrt(1 - beta_2^t) / (1 - beta_1^t) of the step at hand */
    int64_t step;    /* at hand, counted from the run's first */
    int64_t end;     /* the request's steps end before this one */
    double learning_rate;
    double loss, norm; /* of the step at hand */
    /* What the report will say of the request at hand. An evaluation counts its examples here too. */
    int64_t steps, examples, loss_examples, bad_steps, first_bad_step;
    double loss_sum;
    /* evaluation: place of the chunk's first example in the part, sums so far */
    int part; /* enum fm_part */
    int64_t at;
    double evaluated, square_sum, absolute_sum; /* evaluated: sum of losses */
    /* Blocks that are done, for "the last one does the rest"; always 0 between kernels. 0 to 3 are update.cu's
     * and penalty.cu's, the others are free. */
    unsigned ticket[8];
};

/* Ends every state (parameters, slots, statistics): part of snapshots and blobs. */
struct fm_cuda_tail {
    int64_t iterations;
    double last_loss, last_norm; /* NaN = none yet */
};

struct fm_cuda_lane {
    struct fm_cuda_data data;
    struct fm_cuda_set part[3]; /* by enum fm_part: train, inner, val; count 0 = none */
    struct fm_cuda_hyper hyper;
    uint64_t shuffle_key, dropout_key;
    int64_t batch, pass_steps; /* pass_steps = ceil(train.count / batch) */
    struct fm_cuda_tail *tail; /* of the lane's state */
    struct fm_cuda_control control;
};

/* What a request that starts brings along: by value, as a kernel's argument. */
struct fm_cuda_begin {
    int kind; /* enum fm_request_kind: TRAIN or EVALUATE */
    int on_nan, part;
    int64_t first_step, steps;
    double learning_rate, loss_sum;
};

/* What comes back, in mapped pinned memory; `done` is written last, after everything else is visible to the
 * host. */
struct fm_cuda_answer {
    int frozen, status;
    int64_t steps, examples, loss_examples, bad_steps, first_bad_step;
    double loss_sum, last_loss, last_norm;
    double evaluated, square_sum, absolute_sum, penalty;
    volatile uint64_t done; /* the number of the request */
};

#endif
