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
 * taps * depth k go through shared memory; a thread reads 8 neighbouring k of 4 rows with its warp.
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

#include <limits.h>

#include "kernels/activation.h"
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

/* What a thread reads of x and w for one chunk. x: RP rows and 8 * KG of k at a time, AR x AK of them; w
 * likewise backward, row by row forward. */
template <class T> struct product_loader {
    static constexpr int RP = T::THREADS / 8 < T::TM ? T::THREADS / 8 : T::TM;
    static constexpr int KG = T::THREADS / (8 * RP), AR = T::TM / RP, AK = T::KC / (8 * KG);
    static constexpr int CP = T::TN % 16 == 0 ? 16 : 8;
    static constexpr int CG = T::THREADS / (8 * CP), BC = T::TN / CP, BK = T::KC / (8 * CG);
    static constexpr int BN = (T::KC * T::TN + T::THREADS - 1) / T::THREADS;
    static constexpr int NB = BN > BC *BK ? BN : BC *BK;
    static_assert(T::THREADS % (8 * RP) == 0 && T::THREADS % (8 * CP) == 0 && T::TN % CP == 0,
                  "whole patches");
    static_assert(T::TM % RP == 0 && AK * 8 * KG == T::KC && BK * 8 * CG == T::KC, "whole patches");

    int x[AR], row[AR];
    float a[AR * AK], b[NB];
};

template <class T>
static __device__ inline void product_load_x(const fm_product &p, const product_view &v,
                                             product_loader<T> &loader, int first)
{
    typedef product_loader<T> L;
    FM_UNROLL
    for (int i = 0; i < L::AK; i++) {
        const int k = first + (int)threadIdx.x % 8 + 8 * ((int)threadIdx.x / (8 * L::RP) + L::KG * i);
        const int tap = fm_divide(p.by_depth, k), step = tap * v.tap_step;
        const int offset = step * p.x_channels + k - tap * p.depth;
        FM_UNROLL
        for (int j = 0; j < L::AR; j++) {
            const bool there = k < v.k && (unsigned)(loader.row[j] + step) < (unsigned)p.x_rows;
            loader.a[i * L::AR + j] = there ? p.x[loader.x[j] + offset] : 0.0f;
        }
    }
}

static __device__ inline int product_w_offset(const fm_product &p, const product_view &v, int k)
{
    const int extra = v.w_tap - p.depth * p.w_k; /* 0: taps follow each other */
    return k * p.w_k + (extra ? fm_divide(p.by_depth, k) * extra : 0);
}

template <class T, bool BACK>
static __device__ inline void product_load_w(const fm_product &p, const product_view &v,
                                             product_loader<T> &loader, int first, int column)
{
    typedef product_loader<T> L;
    if (!BACK) {
        FM_UNROLL
        for (int i = 0; i < L::BN; i++) {
            const int place = (int)threadIdx.x + T::THREADS * i;
            const int k = first + place / T::TN, n = column + place % T::TN;
            loader.b[i] = k < v.k && n < p.width ? v.w[product_w_offset(p, v, k) + n * p.w_n] : 0.0f;
        }
    } else {
        FM_UNROLL
        for (int i = 0; i < L::BK; i++) {
            const int k = first + (int)threadIdx.x % 8 + 8 * ((int)threadIdx.x / (8 * L::CP) + L::CG * i);
            const int offset = product_w_offset(p, v, k);
            FM_UNROLL
            for (int j = 0; j < L::BC; j++) {
                const int n = column + (int)threadIdx.x / 8 % L::CP + L::CP * j;
                loader.b[i * L::BC + j] = k < v.k && n < p.width ? v.w[offset + n * p.w_n] : 0.0f;
            }
        }
    }
}

template <class T, bool BACK>
static __device__ inline void product_stage(const product_loader<T> &loader, float *stage)
{
    typedef product_loader<T> L;
    float *b = stage + T::KC * T::PA;
    FM_UNROLL
    for (int i = 0; i < L::AK; i++) {
        const int k = (int)threadIdx.x % 8 + 8 * ((int)threadIdx.x / (8 * L::RP) + L::KG * i);
        FM_UNROLL
        for (int j = 0; j < L::AR; j++)
            stage[k * T::PA + (int)threadIdx.x / 8 % L::RP + L::RP * j] = loader.a[i * L::AR + j];
    }
    if (!BACK) {
        FM_UNROLL
        for (int i = 0; i < L::BN; i++) {
            const int place = (int)threadIdx.x + T::THREADS * i;
            if (place < T::KC * T::TN) b[place / T::TN * T::PB + place % T::TN] = loader.b[i];
        }
    } else {
        FM_UNROLL
        for (int i = 0; i < L::BK; i++) {
            const int k = (int)threadIdx.x % 8 + 8 * ((int)threadIdx.x / (8 * L::CP) + L::CG * i);
            FM_UNROLL
            for (int j = 0; j < L::BC; j++) {
                const int n = (int)threadIdx.x / 8 % L::CP + L::CP * j;
                b[k * T::PB + n] = loader.b[i * L::BC + j];
            }
        }
    }
}

template <class T, bool BACK>
static __global__ void __launch_bounds__(T::THREADS) product_tiles(const fm_product p)
{
    FM_DYNAMIC_SHARED(float, shared);
    if (p.lane->control.activity != p.activity) return;
    typedef product_loader<T> L;
    int *places = (int *)(shared + T::FLOATS); /* of each row: y, stored */
    const int tile_m = (int)blockIdx.x % p.tiles_m, rest = (int)blockIdx.x / p.tiles_m;
    const int column = rest % p.tiles_n * T::TN;
    const product_view v = product_view_of<BACK>(p, rest / p.tiles_n);
    product_loader<T> loader;
    for (int j = 0; j < L::AR; j++) {
        const int row = (int)threadIdx.x / 8 % L::RP + L::RP * j;
        const product_row r = product_row_of(p, v, tile_m * T::TM + row);
        loader.x[j] = r.x;
        loader.row[j] = r.row;
        if (threadIdx.x % 8 == 0 && (int)threadIdx.x / 8 < L::RP) {
            places[row] = r.y;
            places[T::TM + row] = r.stored;
        }
    }
    float acc[T::RM][T::RN], sums[T::RN];
    FM_UNROLL
    for (int i = 0; i < T::RM; i++) {
        FM_UNROLL
        for (int j = 0; j < T::RN; j++) acc[i][j] = 0.0f;
    }
    product_load_x<T>(p, v, loader, 0);
    product_load_w<T, BACK>(p, v, loader, 0, column);
    product_stage<T, BACK>(loader, shared);
    __syncthreads();
    int stage = 0;
    FM_ROLLED
    for (int k = 0; k < v.k; k += T::KC, stage ^= 1) {
        const bool more = k + T::KC < v.k;
        if (more) {
            product_load_x<T>(p, v, loader, k + T::KC);
            product_load_w<T, BACK>(p, v, loader, k + T::KC, column);
        }
        fm_tile_multiply<T, false>(shared + stage * T::STAGE, v.k - k, acc, sums);
        if (more) product_stage<T, BACK>(loader, shared + (stage ^ 1) * T::STAGE);
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
