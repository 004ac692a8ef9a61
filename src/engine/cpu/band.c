/* Rows of a convolution near its ends have taps that lie on zero rows: a tenth of all work for 17 positions
 * and 5 taps, more than half where a valid convolution of 9 taps passes its gradient on. Each such row is
 * done for all examples of the slice at once, with the taps it has. A fused multiply-add with a zero changes
 * no bit. */
#include "engine/cpu/cpu.h"

/* A row alone makes a thin product; so many of them fill the registers. */
#define FEW 4

static void taps_of(const struct fm_cpu_band *band, int64_t row, int64_t *low, int64_t *high)
{
    const int64_t start = band->from + row * band->step;
    *low = start < 0 ? -start : 0;
    if (*low > band->taps) *low = band->taps;
    *high = band->in_rows - start < band->taps ? band->in_rows - start : band->taps;
    if (*high < *low) *high = *low;
}

void fm_cpu_band_edges(const struct fm_cpu_band *band, int64_t rows, int64_t count, int64_t *before,
                       int64_t *after)
{
    int64_t low, high;
    *before = *after = 0;
    if (count < FEW) return;
    while (*before < rows && (taps_of(band, *before, &low, &high), high - low < band->taps)) ++*before;
    while (*before + *after < rows &&
           (taps_of(band, rows - 1 - *after, &low, &high), high - low < band->taps))
        ++*after;
}

static void edge_row(const struct fm_cpu_band *band, const struct fm_product *whole, int64_t row,
                     const struct fm_kernels *k)
{
    struct fm_product p = *whole;
    int64_t low, high;
    taps_of(band, row, &low, &high);
    p.groups = 1;
    p.m = whole->groups;
    p.k2 = (high - low) * band->width;
    p.a += row * whole->am + low * band->width;
    p.b += low * band->width * whole->bk2;
    p.c += row * whole->cm;
    p.am = whole->ag;
    p.cm = whole->cg;
    k->product(&p);
}

void fm_cpu_band_outer(const struct fm_cpu_band *band, const struct fm_product *p, const struct fm_kernels *k)
{
    int64_t before, after;
    fm_cpu_band_edges(band, p->m, p->groups, &before, &after);
    for (int64_t row = 0; row < before; row++) edge_row(band, p, row, k);
    for (int64_t row = p->m - after; row < p->m; row++) edge_row(band, p, row, k);
}

void fm_cpu_band_inner(const struct fm_cpu_band *band, struct fm_product *p, int64_t total, int64_t first,
                       int64_t count)
{
    int64_t before, after;
    fm_cpu_band_edges(band, p->m, total, &before, &after);
    p->m -= before + after;
    p->a += before * p->am + first * p->ag;
    p->c += before * p->cm + first * p->cg;
    p->groups = p->m > 0 ? count : 0;
}
