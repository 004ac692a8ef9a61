/* What an example's targets are, on the device. */
#ifndef FM_CUDA_KERNELS_TARGETS_H
#define FM_CUDA_KERNELS_TARGETS_H

#include "kernels/device.h"

/* The class of an example: fm_packed_get of data/packed.h. data.class_bits is not 0. */
static inline __device__ uint32_t fm_device_class(const fm_cuda_data &data, int64_t example)
{
    switch (data.class_bits) {
    case 1: return ((const uint8_t *)data.classes)[example >> 3] >> (example & 7) & 1;
    case 8: return ((const uint8_t *)data.classes)[example];
    case 16: return ((const uint16_t *)data.classes)[example];
    default: return ((const uint32_t *)data.classes)[example];
    }
}

#endif
