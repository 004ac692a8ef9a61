/* Forward and input gradient: one kernel over strided views (no im2col).
 *
 * Both are y[m][n] = sum over taps t and k of x(m, t)[k] * W(t, k, n), where m counts (example, row) and
 * x(m, t) is row  row_of(m) * row_step + shift + t * tap_step  of the example, 0 where there is no such row:
 *
 *   forward         row_of(m) = o, row_step = stride, shift = -pad, tap_step = dilation
 *   input gradient  the gather form: rows i of one residue class modulo the stride ("phase") are reached by
 *                   the taps j with j * dilation = i + pad (mod stride) only, one in stride / gcd(stride,
 *                   dilation) of them. For those o = (i + pad - j * dilation) / stride is exact: row_of(m) =
 *                   place in the phase, row_step = 1, tap_step = -dilation / gcd. No products with zeros, no
 *                   atomics; stride 1 is one phase.
 *
 * Blocks: tiles of m, then tiles of n, then groups x phases, all in the grid's x. Chunks of KC of the
 * taps * depth k go through shared memory (product_load.h).
 *
 * Tiles (kinds in product_kind, chosen by fm_tile_choose's arithmetic):
 *   64x64, 8x4   large layers: 32 multiply-adds for 3 vector loads
 *   64x32, 8x4   32 columns, or many rows with ragged widths
 *   64x24, 8x6   the 20 to 24 units and filters of the nets of users.md
 *   32x32, 4x4   few rows: 4 slices keep 8 warps busy
 *   16x32, 4x4   very few rows (dense layers of small batches): 8 slices
 *   16x24, 4x6   the same for 20 to 24 units
 *   32x8, 4x4    heads and narrow inputs
 * Groups of few channels would leave any tile empty: a thread per element then (product_direct).
 *
 * The kernels are templates over BACK (input gradient) because the unit stride of W lies along n forward and
 * along k backward, and because the epilogues differ. */
#ifndef FM_CUDA_KERNELS_PRODUCT_H
#define FM_CUDA_KERNELS_PRODUCT_H

#include "kernels/activation.h"
#include "kernels/product_load.h"

/* Bias, stored derivative and activation, or derivative and accumulation. */
template <bool BACK>
static __device__ inline void product_end(const fm_product &p, float sum, int y, int stored, int channel)
{
    if (BACK) {
        sum *= fm_derivative_at(p.activation, stored);
        p.y.at[y] = p.accumulate ? p.y.at[y] + sum : sum;
    } else {
        if (p.bias) sum += p.bias[channel];
        if (p.activation.stored.at)
            p.activation.stored.at[stored] =
                fm_derivative_of_input(p.activation.kind, p.activation.slope, sum);
        p.y.at[y] = fm_activate(p.activation.kind, p.activation.slope, sum);
    }
}

template <class T, bool BACK>
static __global__ void __launch_bounds__(T::THREADS, 1) product_tiles(const fm_product p)
{
    FM_DYNAMIC_SHARED(float, shared);
    if (p.lane->control.activity != p.activity) return;
    typedef product_loader<T> L;
    int *places = (int *)(shared + T::FLOATS); /* of each row: y, stored */
    const int tile_m = (int)blockIdx.x % p.tiles_m, rest = (int)blockIdx.x / p.tiles_m;
    const int column = rest % p.tiles_n * T::TN;
    const product_view v = product_view_of<BACK>(p, rest / p.tiles_n);
    product_loader<T> loader;
    FM_UNROLL
    for (int j = 0; j < L::ROWS; j++) {
        if (j >= (p.x_quads ? L::QA : L::AR)) continue;
        const product_row r = product_row_of(p, v, tile_m * T::TM + product_loads_row<T>(p.x_quads, j));
        loader.x[j] = r.x;
        loader.row[j] = r.row;
    }
    if ((int)threadIdx.x < T::TM) {
        const product_row r = product_row_of(p, v, tile_m * T::TM + (int)threadIdx.x);
        places[threadIdx.x] = r.y;
        places[T::TM + (int)threadIdx.x] = r.stored;
    }
    float acc[T::RM][T::RN], sums[T::RN];
    FM_UNROLL
    for (int i = 0; i < T::RM; i++) {
        FM_UNROLL
        for (int j = 0; j < T::RN; j++) acc[i][j] = 0.0f;
    }
    product_load<T, BACK>(p, v, loader, 0, column);
    product_stage<T, BACK>(p, loader, shared);
    __syncthreads();
    int stage = 0;
    FM_ROLLED
    for (int k = 0; k < v.k; k += T::KC, stage ^= 1) {
        const bool more = k + T::KC < v.k;
        if (more) product_load<T, BACK>(p, v, loader, k + T::KC, column);
        fm_tile_multiply<T, false>(shared + stage * T::STAGE, v.k - k, acc, sums);
        if (more) product_stage<T, BACK>(p, loader, shared + (stage ^ 1) * T::STAGE);
        __syncthreads();
    }
    fm_tile_collect<T, false>(shared, acc, sums);
    FM_ROLLED
    for (int place = (int)threadIdx.x; place < T::TM * T::TN; place += T::THREADS) {
        const int row = place / T::TN, n = column + place % T::TN;
        if (places[row] < 0 || n >= p.width) continue;
        product_end<BACK>(p, fm_tile_result<T>(shared, place), places[row] + n, places[T::TM + row] + n,
                          v.n_offset + n);
    }
}

/* A thread per element; neighbouring threads have neighbouring channels, across groups. */
template <bool BACK>
static __global__ void __launch_bounds__(128)
    product_direct(const fm_product p, struct fm_divider by_width, struct fm_divider by_channels, int total)
{
    if (p.lane->control.activity != p.activity) return;
    const int e = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (e >= total) return;
    const int m = fm_divide(by_channels, e), channel = e - m * (int)by_channels.by;
    const int phase = m % p.phases, group = fm_divide(by_width, channel), n = channel - group * p.width;
    const product_view v = product_view_of<BACK>(p, group * p.phases + phase);
    const product_row r = product_row_of(p, v, m / p.phases);
    if (r.y < 0) return;
    float sum = 0.0f;
    const float *w = v.w + n * p.w_n;
    int x = r.x, row = r.row;
    for (int k = 0; k < v.k; k += p.depth, w += v.w_tap, row += v.tap_step, x += v.tap_step * p.x_channels) {
        if ((unsigned)row >= (unsigned)p.x_rows) continue;
        for (int c = 0; c < p.depth; c++) sum = fmaf(p.x[x + c], w[c * p.w_k], sum);
    }
    product_end<BACK>(p, sum, r.y + n, r.stored + n, channel);
}

typedef fm_tile<64, 64, 8, 4, 1, 16> product_64x64;
typedef fm_tile<64, 32, 8, 4, 2, 16> product_64x32;
typedef fm_tile<64, 24, 8, 6, 4, 32> product_64x24;
typedef fm_tile<32, 32, 4, 4, 4, 32> product_32x32;
typedef fm_tile<16, 32, 4, 4, 8, 64> product_16x32;
typedef fm_tile<16, 24, 4, 6, 16, 64> product_16x24;
typedef fm_tile<32, 8, 4, 4, 8, 64> product_32x8;
static const struct fm_tile_kind product_kinds[] = {
    {64, 64, 8, 4, 1, 16}, {64, 32, 8, 4, 2, 16},  {64, 24, 8, 6, 4, 32}, {32, 32, 4, 4, 4, 32},
    {16, 32, 4, 4, 8, 64}, {16, 24, 4, 6, 16, 64}, {32, 8, 4, 4, 8, 64}};

template <class T, bool BACK>
static inline cudaError_t product_launch(struct fm_cuda_place place, struct fm_product p)
{
    p.tiles_m = (int)fm_ceil((int64_t)p.examples * p.places, T::TM);
    p.tiles_n = (int)fm_ceil(p.width, T::TN);
    const int groups = p.x_channels / p.depth;
    const unsigned blocks = (unsigned)p.tiles_m * (unsigned)p.tiles_n * (unsigned)(groups * p.phases);
    return fm_launch(product_tiles<T, BACK>, dim3(blocks), dim3(T::THREADS),
                     (T::FLOATS + 2 * T::TM) * sizeof(float), place.stream, p);
}

/* Launches whatever fits the shape best. */
template <bool BACK>
static inline cudaError_t product_enqueue(struct fm_cuda_place place, struct fm_product p)
{
    const int groups = p.x_channels / p.depth;
    p.lane = place.lane;
    p.activity = place.activity;
    p.examples = place.rows;
    p.by_depth = fm_divider_by(p.depth);
    p.by_places = fm_divider_by(p.places);
    p.x_quads = product_aligned(p.x, p.x_example, p.x_channels, 4, p.depth);
    p.w_quads = (BACK ? p.w_k : p.w_n) == 1 &&
                product_aligned(p.w, p.w_tap, BACK ? p.w_n : p.w_k, p.w_group, BACK ? p.depth : p.width);
    if (groups > 1 && p.width <= 8) {
        const int total = p.examples * p.places * p.phases * p.y_channels;
        return fm_launch(product_direct<BACK>, dim3((unsigned)fm_ceil(total, 128)), dim3(128), 0,
                         place.stream, p, fm_divider_by(p.width), fm_divider_by(p.y_channels), total);
    }
    const int count = sizeof product_kinds / sizeof product_kinds[0];
    switch (fm_tile_choose(product_kinds, count, (int64_t)p.examples * p.places, p.width,
                           (int64_t)fm_ceil(p.taps, p.phases) * p.depth, (int64_t)groups * p.phases)) {
    case 0: return product_launch<product_64x64, BACK>(place, p);
    case 1: return product_launch<product_64x32, BACK>(place, p);
    case 2: return product_launch<product_64x24, BACK>(place, p);
    case 3: return product_launch<product_32x32, BACK>(place, p);
    case 4: return product_launch<product_16x32, BACK>(place, p);
    case 5: return product_launch<product_16x24, BACK>(place, p);
    default: return product_launch<product_32x8, BACK>(place, p);
    }
}

#endif
