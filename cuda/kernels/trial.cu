/* Operands for a trial of a library's call (library/trial.c), and how far two results are from each other. */
#include "kernels/device.h"

#include <float.h>

#include "kernels/rows.h"
#include "kernels/step.h"

static const int TRIAL_THREADS = 256, TRIAL_BLOCKS = 1024;

/* In [-1, 1), of 24 bits: the last steps of MurmurHash3 mix an element's number. */
static __device__ float trial_value(unsigned number, unsigned salt)
{
    unsigned h = number * 0x9E3779B9u + salt * 0x85EBCA6Bu + 1u;
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    h ^= h >> 16;
    return (float)(h >> 8) * (1.0f / 8388608.0f) - 1.0f;
}

static __global__ void trial_fill(fm_cuda_place place, int count, fm_cuda_tensor to, unsigned salt)
{
    if (!fm_turn(place)) return;
    const int64_t total = (int64_t)place.rows * count, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < total; e += step)
        to.at[e / count * to.example + e % count] = trial_value((unsigned)e, salt);
}

/* The bits of floats that are not negative are in the floats' order, so a maximum of integers does. */
static __global__ void trial_compare(fm_cuda_place place, int count, fm_cuda_tensor a, fm_cuda_tensor b,
                                     unsigned *largest)
{
    if (!fm_turn(place)) return;
    const int64_t total = (int64_t)place.rows * count, step = (int64_t)gridDim.x * blockDim.x;
    float most = 0.0f;
    for (int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; e < total; e += step) {
        const int64_t i = e / count, at = e % count;
        const float apart = fabsf(a.at[i * a.example + at] - b.at[i * b.example + at]);
        if (!(apart <= FLT_MAX))
            most = INFINITY;
        else if (apart > most)
            most = apart;
    }
    if (most > 0.0f) atomicMax(largest, __float_as_uint(most));
}

static dim3 trial_blocks(const struct fm_cuda_place &place, int count)
{
    const int64_t blocks = ((int64_t)place.rows * count + TRIAL_THREADS - 1) / TRIAL_THREADS;
    return dim3((unsigned)(blocks < TRIAL_BLOCKS ? blocks : TRIAL_BLOCKS));
}

extern "C" cudaError_t fm_cuda_trial_fill(struct fm_cuda_place place, int count, struct fm_cuda_tensor to,
                                          unsigned salt)
{
    return fm_launch(trial_fill, trial_blocks(place, count), dim3(TRIAL_THREADS), 0, place.stream, place,
                     count, to, salt);
}

extern "C" cudaError_t fm_cuda_trial_compare(struct fm_cuda_place place, int count, struct fm_cuda_tensor a,
                                             struct fm_cuda_tensor b, unsigned *largest)
{
    return fm_launch(trial_compare, trial_blocks(place, count), dim3(TRIAL_THREADS), 0, place.stream, place,
                     count, a, b, largest);
}
