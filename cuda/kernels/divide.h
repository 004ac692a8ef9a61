/* Division by a number that is the same for a whole launch: a multiplication and a shift, made on the host.
 * Exact for 0 <= n < 2^31 and 1 <= by < 2^31 (with 2^p, p = 31 + ceil(log2 by), the rounded-up multiplier
 * errs by less than `by`, so by less than 2^p / 2^31 in the product). */
#ifndef FM_CUDA_KERNELS_DIVIDE_H
#define FM_CUDA_KERNELS_DIVIDE_H

#include "kernels/device.h"

struct fm_divider {
    unsigned by, multiplier, shift; /* multiplier 0: by is 1 */
};

static inline struct fm_divider fm_divider_by(int by)
{
    struct fm_divider d = {(unsigned)by, 0, 0};
    if (by <= 1) return d;
    unsigned log = 1;
    while (log < 31 && (1u << log) < d.by) log++;
    d.multiplier = (unsigned)(((UINT64_C(1) << (31 + log)) + d.by - 1) / d.by);
    d.shift = log - 1;
    return d;
}

static __device__ inline int fm_divide(struct fm_divider d, int n)
{
    if (d.multiplier == 0) return n;
    return (int)((unsigned)(((uint64_t)(unsigned)n * d.multiplier) >> 32) >> d.shift);
}

#endif
