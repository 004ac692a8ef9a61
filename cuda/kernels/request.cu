/* Requests begin and end here: the control block is set up, its results go to mapped memory, states are
 * copied to snapshots and back. */
#include "kernels/device.h"

#include "engine/backend.h"

enum { COPY_THREADS = 256, COPY_BLOCKS = 512 };

static __device__ void clear_counts(struct fm_cuda_control *c)
{
    c->status = c->bad = 0;
    c->steps = c->examples = c->loss_examples = c->bad_steps = 0;
    c->first_bad_step = -1;
    c->loss_sum = 0;
    c->evaluated = c->square_sum = c->absolute_sum = 0;
}

static __global__ void begin_request(struct fm_cuda_place place, struct fm_cuda_begin begin)
{
    struct fm_cuda_lane *lane = place.lane;
    struct fm_cuda_control *c = &lane->control;
    clear_counts(c);
    c->activity = FM_CUDA_IDLE;
    c->on_nan = begin.on_nan;
    c->loss_sum = begin.loss_sum;
    c->learning_rate = begin.learning_rate;
    c->step = begin.first_step;
    c->end = begin.first_step + begin.steps;
    c->part = begin.part;
    c->at = 0;
    c->n = 0;
    if (c->frozen) return;
    if (begin.kind == FM_TRAIN && begin.steps > 0 && lane->part[FM_PART_TRAIN].count > 0)
        c->activity = FM_CUDA_TRAINS;
    if (begin.kind == FM_EVALUATE && lane->part[begin.part].count > 0) c->activity = FM_CUDA_EVALUATES;
}

static __global__ void end_request(struct fm_cuda_place place, struct fm_cuda_answer *answer, uint64_t number,
                                   const double *penalty)
{
    struct fm_cuda_control *c = &place.lane->control;
    c->activity = FM_CUDA_IDLE;
    answer->frozen = c->frozen;
    answer->status = c->status;
    answer->steps = c->steps;
    answer->examples = c->examples;
    answer->loss_examples = c->loss_examples;
    answer->bad_steps = c->bad_steps;
    answer->first_bad_step = c->first_bad_step;
    answer->loss_sum = c->loss_sum;
    answer->last_loss = place.lane->tail->last_loss;
    answer->last_norm = place.lane->tail->last_norm;
    answer->evaluated = c->evaluated;
    answer->square_sum = c->square_sum;
    answer->absolute_sum = c->absolute_sum;
    answer->penalty = penalty ? *penalty : 0;
    __threadfence_system();
    answer->done = number;
}

static __global__ void signal_word(struct fm_cuda_place place, volatile uint64_t *word, uint64_t number)
{
    if (number == 0) {
        word[1] = (uint64_t)place.lane->control.activity;
        number = *word + 1;
    }
    __threadfence_system();
    *word = number;
}

static __device__ void copy_state(uint4 *to, const uint4 *from, int64_t count)
{
    const int64_t threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) to[i] = from[i];
}

/* Nothing that one block writes decides what another one does: `frozen` is only read by the one, `taken` by
 * the other. */
static __global__ void take_snapshot(struct fm_cuda_place place, const uint4 *state, uint4 *slot,
                                     int64_t count, int number)
{
    struct fm_cuda_control *c = &place.lane->control;
    if (!c->frozen) copy_state(slot, state, count);
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    clear_counts(c);
    if (!c->frozen) c->taken[number] = 1;
}

static __global__ void restore_state(struct fm_cuda_place place, uint4 *state, const uint4 *slot,
                                     int64_t count, int number)
{
    struct fm_cuda_control *c = &place.lane->control;
    const int taken = c->taken[number];
    if (taken) copy_state(state, slot, count);
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    clear_counts(c);
    c->status = !taken;
    if (taken) c->frozen = 0;
}

static dim3 copy_grid(int64_t count)
{
    const int64_t blocks = (count + COPY_THREADS - 1) / COPY_THREADS;
    return dim3((unsigned)(blocks < 1 ? 1 : blocks < COPY_BLOCKS ? blocks : (int64_t)COPY_BLOCKS));
}

cudaError_t fm_cuda_request_begin(struct fm_cuda_place place, struct fm_cuda_begin begin)
{
    return fm_launch(begin_request, dim3(1), dim3(1), 0, place.stream, place, begin);
}

cudaError_t fm_cuda_request_end(struct fm_cuda_place place, struct fm_cuda_answer *answer, uint64_t number,
                                const double *penalty)
{
    return fm_launch(end_request, dim3(1), dim3(1), 0, place.stream, place, answer, number, penalty);
}

cudaError_t fm_cuda_signal(struct fm_cuda_place place, volatile uint64_t *word, uint64_t number)
{
    return fm_launch(signal_word, dim3(1), dim3(1), 0, place.stream, place, word, number);
}

cudaError_t fm_cuda_snapshot(struct fm_cuda_place place, const void *state, void *slot, int64_t bytes,
                             int number)
{
    const int64_t count = bytes / 16;
    return fm_launch(take_snapshot, copy_grid(count), dim3(COPY_THREADS), 0, place.stream, place,
                     (const uint4 *)state, (uint4 *)slot, count, number);
}

cudaError_t fm_cuda_restore(struct fm_cuda_place place, void *state, const void *slot, int64_t bytes,
                            int number)
{
    const int64_t count = bytes / 16;
    return fm_launch(restore_state, copy_grid(count), dim3(COPY_THREADS), 0, place.stream, place,
                     (uint4 *)state, (const uint4 *)slot, count, number);
}
