/* What every .cu file includes: CUDA's device side, or the emulator's, and one way to launch a kernel that
 * both understand (the <<<>>> of nvcc is no C++).
 *
 *     static __global__ void add(fm_cuda_place place, float *x) { FM_DYNAMIC_SHARED(float, room); ... }
 *     return fm_launch(add, dim3(blocks), dim3(threads), bytes, place.stream, place, x);
 *
 * Arguments are converted to the kernel's parameter types and copied when the launch is enqueued. A grid of 0
 * blocks is not launched: the launchers never ask for one. */
#ifndef FM_CUDA_KERNELS_DEVICE_H
#define FM_CUDA_KERNELS_DEVICE_H

#ifdef FM_EMULATED
#include "emulator/device.h"
#else
#include <cuda_runtime.h>

#define FM_DYNAMIC_SHARED(type, name)                                                                        \
    extern __shared__ __align__(16) unsigned char fm_dynamic_shared[];                                       \
    type *name = reinterpret_cast<type *>(fm_dynamic_shared)

/* An array's elements cannot be the empty list, so kernels have at least one parameter. */
template <class... P>
static inline cudaError_t fm_launch_list(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                                         cudaStream_t stream, P... args)
{
    void *list[] = {(void *)&args...};
    return cudaLaunchKernel((const void *)kernel, grid, block, list, shared, stream);
}
template <class... P, class... A>
static inline cudaError_t fm_launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                                    cudaStream_t stream, A... args)
{
    return fm_launch_list<P...>(kernel, grid, block, shared, stream, (P)args...);
}
#endif

#include "kernels/kernels.h"

#endif
