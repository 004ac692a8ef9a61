/* Kernels for the tests of the emulator itself: right ones, and ones with a mistake each. `x`, `out` are
 * device memory. All enqueue one launch and return its status. */
#ifndef FM_EMULATOR_PROBE_H
#define FM_EMULATOR_PROBE_H

#include <stdint.h>

#include "emulator/include/cuda_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x[i] = x[i] * factor + 1, for i < n; no barrier. */
cudaError_t fm_probe_scale(cudaStream_t stream, float *x, int n, float factor);
/* The same with the factor's address: right only if that is device memory. */
cudaError_t fm_probe_scale_by(cudaStream_t stream, float *x, int n, const float *factor);
/* to[0] = from[0] */
cudaError_t fm_probe_move(cudaStream_t stream, float *to, const float *from);
/* out[i] = i of all threads, in blocks of three dimensions. */
cudaError_t fm_probe_index(cudaStream_t stream, int *out, struct dim3 grid, struct dim3 block);
/* Reverses n <= 256 floats through shared memory, `dynamic` or static, with or without the barrier. */
cudaError_t fm_probe_reverse(cudaStream_t stream, float *x, int n, int dynamic, int barrier);
/* out[0..3] of thread 0: __syncthreads_or, _and, _count of (thread < n), and a sum over `rounds` barriers. */
cudaError_t fm_probe_barriers(cudaStream_t stream, int *out, int threads, int n, int rounds);
enum fm_probe_mistake {
    FM_PROBE_TWO_BARRIERS, /* half of the threads wait at another one */
    FM_PROBE_ENDED,        /* half of the threads have returned */
    FM_PROBE_SKIPPED,      /* half of the threads go past the barrier and end */
    FM_PROBE_NOT_IN_MASK,  /* a shuffle whose mask leaves the caller out */
    FM_PROBE_ALONE,        /* a vote that half of its mask never comes to: they wait at a barrier */
    FM_PROBE_DEEP,         /* overflows its stack */
    FM_PROBE_BEYOND,       /* writes behind its dynamic shared memory */
    FM_PROBE_TRAP
};
cudaError_t fm_probe_mistake(cudaStream_t stream, float *out, enum fm_probe_mistake mistake);
/* Of each of `threads` threads eight results: shuffle from lane 3, up 1, down 1, xor 5 (width 8), the ballot
 * of odd lanes, any, all, and a shuffle among even lanes only. */
cudaError_t fm_probe_warp(cudaStream_t stream, int *out, int threads);
/* out[i] of `threads` threads after `rounds` of: a turn through shared memory between two barriers; a shuffle
 * of whole warps (xor 1 << round % 5); one among even lanes (xor 2); one in odd warps only (down 1). Each
 * adds what it got to 3 * out[i]; a lane that is not there gives ~0. */
cudaError_t fm_probe_mixed(cudaStream_t stream, unsigned *out, int threads, int rounds);
/* Adds to out[0], wraps out[1] at 9, largest and smallest number of a thread to out[2], out[3]; the last
 * block to come writes the number of blocks to out[4] (atomicInc ticket in out[5], 0 before and after). */
cudaError_t fm_probe_atomics(cudaStream_t stream, unsigned *out, int blocks, int threads);
/* out[0..2]: static and dynamic shared memory before anything was written, of the last of `blocks` blocks;
 * all blocks write to theirs at the end. out[3] = x[0]. */
cudaError_t fm_probe_poison(cudaStream_t stream, float *out, const float *x, int blocks);
/* The same kernel, one block: 132 bytes of static and so many of dynamic shared memory (128 at least). */
cudaError_t fm_probe_shared(cudaStream_t stream, float *out, size_t dynamic);
/* Does nothing, with any dimensions; `much`: with more than 4,096 bytes of arguments. */
cudaError_t fm_probe_launch(cudaStream_t stream, struct dim3 grid, struct dim3 block, size_t shared,
                            int much);
/* *word = number, and tells the host. */
cudaError_t fm_probe_signal(cudaStream_t stream, volatile uint64_t *word, uint64_t number);

#ifdef __cplusplus
}
#endif

#endif
