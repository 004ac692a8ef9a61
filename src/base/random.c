#include "base/random.h"

#include <math.h>

static void multiply(uint32_t a, uint32_t b, uint32_t *high, uint32_t *low)
{
    uint64_t product = (uint64_t)a * b;
    *high = (uint32_t)(product >> 32);
    *low = (uint32_t)product;
}

void fm_philox(const uint32_t counter[4], uint64_t key, uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint32_t high0, low0, high1, low1;
        multiply(0xD2511F53u, c0, &high0, &low0);
        multiply(0xCD9E8D57u, c2, &high1, &low1);
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t fm_key(uint64_t seed, enum fm_purpose purpose, uint32_t a, uint32_t b)
{
    const uint32_t counter[4] = {(uint32_t)purpose, a, b, 0};
    uint32_t out[4];
    fm_philox(counter, seed, out);
    return (uint64_t)out[1] << 32 | out[0];
}

float fm_uniform_float(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24f;
}

void fm_normal(const uint32_t bits[4], double out[2])
{
    /* 1 - u lies in (0, 1], so that its logarithm is finite. */
    double radius = sqrt(-2.0 * log(1.0 - fm_uniform_double(bits[0], bits[1])));
    double angle = 6.283185307179586476925 * fm_uniform_double(bits[2], bits[3]);
    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}
