/* What the kernels of product.h work on: parameters, and the view of x that a block has. */
#ifndef FM_CUDA_KERNELS_PRODUCT_VIEW_H
#define FM_CUDA_KERNELS_PRODUCT_VIEW_H

#include <limits.h>

#include "kernels/divide.h"
#include "kernels/multiply.h"

struct fm_product {
    const struct fm_cuda_lane *lane;
    int activity;
    const float *x;
    int x_example, x_channels, x_rows;
    const float *w;
    int w_tap, w_k, w_n, w_group; /* strides; w_group: from group to group */
    struct fm_cuda_tensor y;
    int y_channels, y_rows;
    int examples, taps, depth, width; /* depth, width: k of a tap and n of a group */
    int stride, dilation, pad;
    int phases, period, places; /* period: of taps in a phase; places: rows of the longest phase */
    int tiles_m, tiles_n;
    int x_quads, w_quads; /* four neighbouring k (w forward: n) can be read as one vector */
    struct fm_divider by_depth, by_places;
    const float *bias;
    struct fm_cuda_activation activation;
    int accumulate;
};

/* What one group and phase reads and writes. */
struct product_view {
    int row_step, shift, tap_step;
    int k;                   /* taps x depth */
    int first_row, row_skip; /* of y */
    int x_offset, n_offset;  /* of the group, in x's rows and in y's */
    const float *w;          /* of the group and the phase's first tap */
    int w_tap;               /* from one tap of the phase to the next */
};

template <bool BACK> static __device__ inline struct product_view product_view_of(const fm_product &p, int z)
{
    struct product_view v;
    const int group = z / p.phases, phase = z % p.phases;
    v.x_offset = group * p.depth;
    v.n_offset = group * p.width;
    v.w = p.w + (int64_t)group * p.w_group;
    if (!BACK) {
        v.row_step = p.stride;
        v.shift = -p.pad;
        v.tap_step = p.dilation;
        v.k = p.taps * p.depth;
        v.first_row = 0;
        v.row_skip = 1;
        v.w_tap = p.w_tap;
    } else {
        int tap = 0;
        while (tap < p.period && (phase + p.pad - tap * p.dilation) % p.stride != 0) tap++;
        const int taps = tap < p.period && tap < p.taps ? (p.taps - tap + p.period - 1) / p.period : 0;
        v.row_step = 1;
        v.shift = taps ? (phase + p.pad - tap * p.dilation) / p.stride : 0;
        v.tap_step = -(p.period * p.dilation / p.stride);
        v.k = taps * p.depth;
        v.first_row = phase;
        v.row_skip = p.stride;
        if (taps) v.w += (int64_t)tap * p.w_tap;
        v.w_tap = p.w_tap * p.period;
    }
    return v;
}

/* Where row m lies. y < 0: there is none; then row is so small that no tap makes it one of x. */
struct product_row {
    int x, row, y, stored;
};

static __device__ inline struct product_row product_row_of(const fm_product &p, const product_view &v, int m)
{
    const int example = fm_divide(p.by_places, m), place = m - example * p.places;
    const int row = v.first_row + place * v.row_skip;
    struct product_row r = {0, INT_MIN / 2, -1, 0};
    if (example >= p.examples || row >= p.y_rows) return r;
    r.row = place * v.row_step + v.shift;
    r.x = example * p.x_example + r.row * p.x_channels + v.x_offset;
    r.y = example * p.y.example + row * p.y_channels + v.n_offset;
    r.stored = example * p.activation.stored.example + row * p.y_channels + v.n_offset;
    return r;
}

#endif
