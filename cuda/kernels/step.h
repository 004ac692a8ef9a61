/* What the kernels around a step share: is it their turn, who is last, sums over a block. Included by the .cu
 * files of this folder, after device.h.
 *
 * fm_block_sum adds one double of each thread over a block of FM_STEP_THREADS threads: a tree whose shape is
 * always the same. All threads call it; `room` is shared memory for FM_STEP_WARPS doubles, the sum is
 * returned to every thread. */
#ifndef FM_CUDA_KERNELS_STEP_H
#define FM_CUDA_KERNELS_STEP_H

#include "kernels/device.h"

enum { FM_STEP_THREADS = 256, FM_STEP_WARPS = FM_STEP_THREADS / 32 };
/* control.ticket[] */
enum { FM_TICKET_NORM, FM_TICKET_OPTIMIZE, FM_TICKET_PENALTY };

static inline __device__ bool fm_turn(const struct fm_cuda_place &place)
{
    return place.lane->control.activity == place.activity;
}

/* Whether this block is the last of the grid to come here; what the others wrote to global memory before is
 * then there to be read (through volatile pointers). `room` is shared. The ticket is 0 again afterwards. */
static inline __device__ bool fm_last_block(unsigned *ticket, unsigned *room)
{
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        *room = atomicAdd(ticket, 1u);
        if (*room == gridDim.x - 1) *ticket = 0;
    }
    __syncthreads();
    const bool last = *room == gridDim.x - 1;
    if (last) __threadfence();
    return last;
}

static inline __device__ double fm_block_sum(double x, double *room)
{
    for (int d = 16; d > 0; d /= 2) x += __shfl_down_sync(0xffffffffu, x, d);
    __syncthreads(); /* the sum before has been read */
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    double sum = room[0];
    for (int w = 1; w < FM_STEP_WARPS; w++) sum += room[w];
    return sum;
}

/* Neither infinite nor NaN: the difference is 0 only for finite numbers. */
static inline __device__ bool fm_finite(double x)
{
    return x - x == 0;
}

#endif
