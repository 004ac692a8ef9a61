/* Philox 4x32-10 on the device: base/random.h's fm_philox and fm_uniform_float, bit for bit. */
#ifndef FM_CUDA_KERNELS_PHILOX_H
#define FM_CUDA_KERNELS_PHILOX_H

#include "kernels/device.h"

struct fm_philox_block {
    uint32_t word[4];
};

/* 128 random bits of the counter {c0, c1, c2, c3} under a key. */
static inline __device__ fm_philox_block fm_device_philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3,
                                                          uint64_t key)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t first = (uint64_t)0xD2511F53u * c0, second = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(second >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)second;
        c2 = (uint32_t)(first >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)first;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    fm_philox_block out;
    out.word[0] = c0;
    out.word[1] = c1;
    out.word[2] = c2;
    out.word[3] = c3;
    return out;
}

/* The first two words as one number: what fm_key and fm_dropout_key make of a block. */
static inline __device__ uint64_t fm_device_philox_key(const fm_philox_block &block)
{
    return (uint64_t)block.word[1] << 32 | block.word[0];
}

/* [0, 1): 24 bits. */
static inline __device__ float fm_device_uniform(uint32_t bits)
{
    return (float)(bits >> 8) * 5.9604644775390625e-8f; /* 2^-24, exact */
}

#endif
