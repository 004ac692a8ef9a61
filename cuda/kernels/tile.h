/* Four neighbouring floats of a tile, what a thread of update.cu and penalty.cu works on. `count` of them are
 * there, 1 to 4: the others read as 0 and are not written, so that what lies between variables stays as it
 * is. One vector load where all are there and the address allows. */
#ifndef FM_CUDA_KERNELS_TILE_H
#define FM_CUDA_KERNELS_TILE_H

#include "kernels/device.h"

struct fm_four {
    float v[4];
};

static inline __device__ bool fm_four_whole(const float *at, int count)
{
    return count == 4 && (uintptr_t)at % 16 == 0;
}

static inline __device__ fm_four fm_four_load(const float *at, int count)
{
    fm_four x;
    if (fm_four_whole(at, count)) {
        const float4 all = *(const float4 *)at;
        x.v[0] = all.x;
        x.v[1] = all.y;
        x.v[2] = all.z;
        x.v[3] = all.w;
        return x;
    }
    for (int j = 0; j < 4; j++) x.v[j] = j < count ? at[j] : 0;
    return x;
}

static inline __device__ void fm_four_store(float *at, const fm_four &x, int count)
{
    if (fm_four_whole(at, count)) {
        *(float4 *)at = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
        return;
    }
    for (int j = 0; j < 4; j++)
        if (j < count) at[j] = x.v[j];
}

/* The regularisers' part of the loss: l1 * sum |w| + l2 * sum w^2. */
static inline __device__ double fm_four_penalty(const struct fm_cuda_tile &tile, const fm_four &w)
{
    double absolute = 0, square = 0;
    for (int j = 0; j < 4; j++) {
        absolute += fabs((double)w.v[j]);
        square += (double)w.v[j] * (double)w.v[j];
    }
    return tile.l1 * absolute + tile.l2 * square;
}

#endif
