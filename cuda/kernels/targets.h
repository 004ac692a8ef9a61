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

/* The class of the confusion matrix and of class weights: the code, or the argmax of a distribution, ties to
 * the lowest (fm_lane_class of engine/host). */
static inline __device__ int64_t fm_device_true_class(const fm_cuda_data &data, int64_t example)
{
    if (data.class_bits) return fm_device_class(data, example);
    const float *y = data.targets + example * data.target_width;
    int64_t best = 0;
    for (int64_t k = 1; k < data.target_width; k++)
        if (y[k] > y[best]) best = k;
    return best;
}

#endif
