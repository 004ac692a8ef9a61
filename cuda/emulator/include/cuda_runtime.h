/* The C++ side of CUDA's runtime for the emulator: markers of device code, which mean nothing to g++. The
 * rest of the device side is emulator/device.h, which kernels/device.h includes. There is no __noinline__: as
 * a macro it breaks the standard library. */
#ifndef FM_EMULATOR_CUDA_RUNTIME_H
#define FM_EMULATOR_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n)    __attribute__((aligned(n)))
#define __constant__
#define __launch_bounds__(...)

#endif
