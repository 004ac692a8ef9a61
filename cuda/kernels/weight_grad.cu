/* Weight gradients: dW[j][c][f] = sum over examples and output rows of x[o * stride + j * dilation - pad][c]
 * * dy[o][f], a product whose k are (example, output row), walked chunk by chunk through shared memory.
 *
 * The k are cut into `splits` stretches of equal length (the last may be shorter, or empty: zeros), each
 * summed in a fixed order into its own partial gradient. A table in shared memory holds where each k of a
 * chunk lies in x and dy, made once a chunk by KC threads, so that a load costs an addition. The bias
 * gradient is the sum of the columns of dy: blocks of the first tile of rows add them up on the way.
 *
 * Tiles (rows are taps x channels): 64x64 for large layers, 32x32 for middling ones, 64x24 for dense layers
 * of 20 to 24 units, 16x24 with 16 slices for first layers of one channel (few weights, many positions), 64x8
 * for heads. Tile and splits minimise fm_tile_cost plus the traffic of the partial sums. Groups of few
 * channels: a thread per weight and slice (weight_direct). */
#include <limits.h>

#include "kernels/divide.h"
#include "kernels/multiply.h"

struct weight_product {
    const struct fm_cuda_lane *lane;
    int activity;
    const float *x, *dy;
    int x_example, x_channels, x_rows, dy_example, dy_channels, dy_rows;
    int total, share; /* k of all, of a split */
    int taps, depth, width, stride, dilation, pad;
    int tap, in, out; /* strides of a partial kernel */
    float *kernel, *bias;
    int64_t partial; /* floats from split to split */
    int tiles_m, tiles_n, splits;
    int x_quads, dy_quads; /* four neighbouring channels can be read as one vector */
    struct fm_divider by_depth, by_rows;
};

struct alignas(16) weight_k {
    int x, row, dy, unused; /* dy < 0: beyond the end; row then never is one of x */
};

static __device__ inline struct weight_k weight_k_of(const weight_product &p, int k, int end)
{
    const struct weight_k none = {0, INT_MIN / 2, -1, 0};
    if (k >= end) return none;
    const int example = fm_divide(p.by_rows, k), o = k - example * p.dy_rows;
    const int row = o * p.stride - p.pad;
    const struct weight_k there = {example * p.x_example + row * p.x_channels, row,
                                   example * p.dy_example + o * p.dy_channels, 0};
    return there;
}

/* What a thread reads of a chunk: rows of dW (columns of x's side) are always the same ones, so that tap and
 * channel are found once; four neighbouring ones where x_quads says that addresses allow. */
template <class T> struct weight_loader {
    static constexpr int AK = T::KC * T::TM / T::THREADS;
    static constexpr int QA = AK / 4; /* quads */
    static constexpr int BN = (T::KC * T::TN + T::THREADS - 1) / T::THREADS;
    static constexpr int QN = (T::KC * T::TN / 4 + T::THREADS - 1) / T::THREADS;
    static_assert(T::THREADS % T::TM == 0 && QA * 4 == AK, "whole columns");

    int offset, step; /* of this thread's tap and channel; step so large that nothing is there: no such row */
    float a[AK], b[BN > 4 * QN ? BN : 4 * QN];
};

static __device__ inline void weight_quad(const float *from, bool there, float *to)
{
    fm_quad four = {{0.0f, 0.0f, 0.0f, 0.0f}};
    if (there) four = *(const fm_quad *)from;
    FM_UNROLL
    for (int i = 0; i < 4; i++) to[i] = four.v[i];
}

template <class T>
static __device__ inline void weight_load_x(const weight_product &p, weight_loader<T> &loader,
                                            const weight_k *table)
{
    typedef weight_loader<T> L;
    if (p.x_quads) {
        FM_UNROLL
        for (int i = 0; i < L::QA; i++) {
            const weight_k k = table[(int)threadIdx.x / (T::TM / 4) + T::THREADS / (T::TM / 4) * i];
            const bool there = (unsigned)(k.row + loader.step) < (unsigned)p.x_rows;
            weight_quad(p.x + k.x + loader.offset, there, loader.a + 4 * i);
        }
        return;
    }
    FM_UNROLL
    for (int i = 0; i < L::AK; i++) {
        const weight_k k = table[(int)threadIdx.x / T::TM + T::THREADS / T::TM * i];
        const bool there = (unsigned)(k.row + loader.step) < (unsigned)p.x_rows;
        loader.a[i] = there ? p.x[k.x + loader.offset] : 0.0f;
    }
}

template <class T>
static __device__ inline void weight_load_dy(const weight_product &p, weight_loader<T> &loader,
                                             const weight_k *table, int column, int group)
{
    typedef weight_loader<T> L;
    const float *dy = p.dy + group * p.width;
    if (p.dy_quads) {
        FM_UNROLL
        for (int i = 0; i < L::QN; i++) {
            const int place = (int)threadIdx.x + T::THREADS * i, n = column + place % (T::TN / 4) * 4;
            const int at = place < T::KC * T::TN / 4 ? table[place / (T::TN / 4)].dy : -1;
            weight_quad(dy + at + n, at >= 0 && n < p.width, loader.b + 4 * i);
        }
        return;
    }
    FM_UNROLL
    for (int i = 0; i < L::BN; i++) {
        const int place = (int)threadIdx.x + T::THREADS * i, n = column + place % T::TN;
        const int at = place < T::KC * T::TN ? table[place / T::TN].dy : -1;
        loader.b[i] = at >= 0 && n < p.width ? dy[at + n] : 0.0f;
    }
}

static __device__ inline void weight_put(const float *from, float *to)
{
    fm_quad four;
    FM_UNROLL
    for (int i = 0; i < 4; i++) four.v[i] = from[i];
    *(fm_quad *)to = four;
}

template <class T>
static __device__ inline void weight_stage(const weight_product &p, const weight_loader<T> &loader,
                                           float *stage)
{
    typedef weight_loader<T> L;
    const int thread = (int)threadIdx.x;
    constexpr int MQ = T::TM / 4, NQ = T::TN / 4;
    float *b = stage + T::KC * T::PA;
    if (p.x_quads) {
        FM_UNROLL
        for (int i = 0; i < L::QA; i++)
            weight_put(loader.a + 4 * i,
                       stage + (thread / MQ + T::THREADS / MQ * i) * T::PA + thread % MQ * 4);
    } else {
        FM_UNROLL
        for (int i = 0; i < L::AK; i++)
            stage[(thread / T::TM + T::THREADS / T::TM * i) * T::PA + thread % T::TM] = loader.a[i];
    }
    if (p.dy_quads) {
        FM_UNROLL
        for (int i = 0; i < L::QN; i++) {
            const int place = thread + T::THREADS * i;
            if (place < T::KC * NQ) weight_put(loader.b + 4 * i, b + place / NQ * T::PB + place % NQ * 4);
        }
    } else {
        FM_UNROLL
        for (int i = 0; i < L::BN; i++) {
            const int place = thread + T::THREADS * i;
            if (place < T::KC * T::TN) b[place / T::TN * T::PB + place % T::TN] = loader.b[i];
        }
    }
}

/* All k of [first, end) of one tile; SUMS: with the sums of the columns of dy. */
template <class T, bool SUMS>
static __device__ inline void weight_tile(const weight_product &p, weight_loader<T> &loader, float *shared,
                                          int column, int group, int first, int end)
{
    weight_k *tables = (weight_k *)(shared + T::FLOATS);
    const int thread = (int)threadIdx.x;
    float acc[T::RM][T::RN], sums[T::RN];
    FM_UNROLL
    for (int j = 0; j < T::RN; j++) sums[j] = 0.0f;
    FM_UNROLL
    for (int i = 0; i < T::RM; i++) {
        FM_UNROLL
        for (int j = 0; j < T::RN; j++) acc[i][j] = 0.0f;
    }
    if (thread < T::KC) {
        tables[thread] = weight_k_of(p, first + thread, end);
        tables[T::KC + thread] = weight_k_of(p, first + T::KC + thread, end);
    }
    __syncthreads();
    weight_load_x<T>(p, loader, tables);
    weight_load_dy<T>(p, loader, tables, column, group);
    weight_stage<T>(p, loader, shared);
    __syncthreads();
    int stage = 0;
    FM_ROLLED
    for (int k = first; k < end; k += T::KC, stage ^= 1) {
        const bool more = k + T::KC < end;
        if (more) {
            weight_load_x<T>(p, loader, tables + (stage ^ 1) * T::KC);
            weight_load_dy<T>(p, loader, tables + (stage ^ 1) * T::KC, column, group);
        }
        if (thread < T::KC) tables[stage * T::KC + thread] = weight_k_of(p, k + 2 * T::KC + thread, end);
        fm_tile_multiply<T, SUMS>(shared + stage * T::STAGE, end - k, acc, sums);
        if (more) weight_stage<T>(p, loader, shared + (stage ^ 1) * T::STAGE);
        __syncthreads();
    }
    fm_tile_collect<T, SUMS>(shared, acc, sums);
}

template <class T>
static __global__ void __launch_bounds__(T::THREADS, 1) weight_tiles(const weight_product p)
{
    FM_DYNAMIC_SHARED(float, shared);
    if (p.lane->control.activity != p.activity) return;
    const int tile_m = (int)blockIdx.x % p.tiles_m, rest = (int)blockIdx.x / p.tiles_m;
    const int column = rest % p.tiles_n * T::TN, split = rest / p.tiles_n % p.splits;
    const int group = rest / p.tiles_n / p.splits, rows = p.taps * p.depth;
    const int first = split * p.share < p.total ? split * p.share : p.total;
    const int end = p.total - first < p.share ? p.total : first + p.share;
    weight_loader<T> loader;
    const int mine =
        tile_m * T::TM + (p.x_quads ? (int)threadIdx.x % (T::TM / 4) * 4 : (int)threadIdx.x % T::TM);
    const int tap = fm_divide(p.by_depth, mine);
    loader.step = mine < rows ? tap * p.dilation : INT_MIN / 2;
    loader.offset = tap * p.dilation * p.x_channels + group * p.depth + mine - tap * p.depth;
    const bool sums = tile_m == 0 && p.bias;
    if (sums)
        weight_tile<T, true>(p, loader, shared, column, group, first, end);
    else
        weight_tile<T, false>(p, loader, shared, column, group, first, end);
    float *kernel = p.kernel + split * p.partial;
    FM_ROLLED
    for (int place = (int)threadIdx.x; place < T::TM * T::TN; place += T::THREADS) {
        const int row = tile_m * T::TM + place / T::TN, n = column + place % T::TN;
        if (row >= rows || n >= p.width) continue;
        const int j = fm_divide(p.by_depth, row), c = row - j * p.depth;
        kernel[j * p.tap + c * p.in + (group * p.width + n) * p.out] = fm_tile_result<T>(shared, place);
    }
    if (sums && (int)threadIdx.x < T::TN && column + (int)threadIdx.x < p.width)
        p.bias[split * p.partial + group * p.width + column + (int)threadIdx.x] =
            fm_tile_result<T>(shared, T::TM * T::TN + (int)threadIdx.x);
}

/* 32 filters, one tap and channel, one split; 8 slices, added in order. Row number taps * depth is the bias.
 */
static __global__ void __launch_bounds__(256)
    weight_direct(const weight_product p, struct fm_divider by_width)
{
    FM_DYNAMIC_SHARED(float, shared);
    if (p.lane->control.activity != p.activity) return;
    const int rows = p.taps * p.depth, split = (int)blockIdx.x % p.splits;
    const int rest = (int)blockIdx.x / p.splits, row = rest % (rows + 1);
    const int lane = (int)threadIdx.x % 32, f = rest / (rows + 1) * 32 + lane;
    const int first = split * p.share < p.total ? split * p.share : p.total;
    const int end = p.total - first < p.share ? p.total : first + p.share;
    const int j = fm_divide(p.by_depth, row), step = j * p.dilation;
    const int offset = step * p.x_channels + fm_divide(by_width, f) * p.depth + row - j * p.depth;
    float sum = 0.0f;
    for (int k = first + (int)threadIdx.x / 32; f < p.dy_channels && k < end; k += 8) {
        const struct weight_k at = weight_k_of(p, k, end);
        const float dy = p.dy[at.dy + f];
        if (row == rows)
            sum += dy;
        else if ((unsigned)(at.row + step) < (unsigned)p.x_rows)
            sum = fmaf(p.x[at.x + offset], dy, sum);
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x >= 32 || f >= p.dy_channels) return;
    for (int s = 1; s < 8; s++) sum += shared[s * 32 + lane];
    if (row < rows)
        p.kernel[split * p.partial + j * p.tap + (row - j * p.depth) * p.in + f * p.out] = sum;
    else if (p.bias)
        p.bias[split * p.partial + f] = sum;
}

typedef fm_tile<64, 64, 8, 4, 1, 16> weight_64x64;
typedef fm_tile<64, 24, 8, 6, 4, 32> weight_64x24;
typedef fm_tile<32, 32, 4, 4, 4, 32> weight_32x32;
typedef fm_tile<16, 24, 4, 6, 16, 64> weight_16x24;
typedef fm_tile<64, 8, 4, 4, 4, 32> weight_64x8;
static const struct fm_tile_kind weight_kinds[] = {{64, 64, 8, 4, 1, 16},
                                                   {64, 24, 8, 6, 4, 32},
                                                   {32, 32, 4, 4, 4, 32},
                                                   {16, 24, 4, 6, 16, 64},
                                                   {64, 8, 4, 4, 4, 32}};
enum { WEIGHT_KINDS = sizeof weight_kinds / sizeof weight_kinds[0], WEIGHT_SPLITS = 64 };

static int direct(const struct fm_cuda_conv *conv)
{
    return conv->groups > 1 && conv->out_channels / conv->groups <= 4;
}

static int64_t weight_count(const struct fm_cuda_conv *conv)
{
    return (int64_t)conv->taps * (conv->in_channels / conv->groups) * conv->out_channels;
}

/* The best number of splits for a kind of tile, and its cost. Every partial sum is written and read again at
 * some 200 bytes a cycle; a split has two chunks at least. */
static int best_splits(const struct fm_cuda_conv *conv, int rows, const struct fm_tile_kind *kind,
                       int64_t *cost)
{
    const int64_t k = (int64_t)rows * conv->out_rows;
    const int64_t m = (int64_t)conv->taps * (conv->in_channels / conv->groups),
                  n = conv->out_channels / conv->groups;
    int best = 1;
    *cost = INT64_MAX;
    for (int splits = 1; splits <= WEIGHT_SPLITS && (splits == 1 || k / splits >= 2 * kind->kc);
         splits *= 2) {
        const int64_t now = fm_tile_cost(kind, m, n, fm_ceil(k, splits), (int64_t)conv->groups * splits) +
                            splits * weight_count(conv) * 8 / 200;
        if (now >= *cost) continue;
        *cost = now;
        best = splits;
    }
    return best;
}

static int choose(const struct fm_cuda_conv *conv, int rows, int *splits)
{
    int best = 0;
    int64_t least = INT64_MAX;
    for (int i = 0; i < WEIGHT_KINDS; i++) {
        int64_t cost;
        const int s = best_splits(conv, rows, &weight_kinds[i], &cost);
        if (cost >= least) continue;
        least = cost;
        best = i;
        *splits = s;
    }
    return best;
}

/* Letters: a block sums 32 filters of one tap over its split, 8 positions at a time or fewer (letters.cu). */
static int letters_splits(const struct fm_cuda_conv *conv, int rows)
{
    const int64_t blocks = conv->taps * fm_ceil(conv->out_channels, 32);
    const int64_t k = (int64_t)rows * conv->out_rows;
    int splits = 1;
    while (splits < WEIGHT_SPLITS && blocks * splits < 4 * FM_TILE_SMS && k / splits >= 64) splits *= 2;
    return splits;
}

extern "C" int fm_cuda_weight_splits(const struct fm_cuda_conv *conv, int rows, int letters)
{
    if (letters) return letters_splits(conv, rows);
    if (direct(conv)) {
        const int64_t blocks =
            fm_ceil(conv->out_channels, 32) * conv->taps * (conv->in_channels / conv->groups);
        const int64_t k = (int64_t)rows * conv->out_rows;
        int splits = 1;
        while (splits < WEIGHT_SPLITS && blocks * splits < 4 * FM_TILE_SMS && k / splits >= 128) splits *= 2;
        return splits;
    }
    int splits = 1;
    choose(conv, rows, &splits);
    return splits;
}

template <class T> static cudaError_t launch(struct fm_cuda_place place, struct weight_product p, int groups)
{
    p.tiles_m = (int)fm_ceil((int64_t)p.taps * p.depth, T::TM);
    p.tiles_n = (int)fm_ceil(p.width, T::TN);
    const unsigned blocks = (unsigned)p.tiles_m * (unsigned)p.tiles_n * (unsigned)(p.splits * groups);
    return fm_launch(weight_tiles<T>, dim3(blocks), dim3(T::THREADS),
                     T::FLOATS * sizeof(float) + 2 * T::KC * sizeof(struct weight_k), place.stream, p);
}

static cudaError_t launch_direct(struct fm_cuda_place place, struct weight_product p)
{
    const unsigned blocks =
        (unsigned)fm_ceil(p.dy_channels, 32) * (unsigned)(p.taps * p.depth + 1) * (unsigned)p.splits;
    return fm_launch(weight_direct, dim3(blocks), dim3(256), 256 * sizeof(float), place.stream, p,
                     fm_divider_by(p.width));
}

static int aligned(const struct fm_cuda_tensor *tensor, int channels, int width)
{
    return (uintptr_t)tensor->at % 16 == 0 && tensor->example % 4 == 0 && channels % 4 == 0 && width % 4 == 0;
}

extern "C" cudaError_t fm_cuda_weight_grad(struct fm_cuda_place place, struct fm_cuda_conv conv,
                                           struct fm_cuda_tensor x, struct fm_cuda_tensor dy,
                                           struct fm_cuda_weights w, float *kernel, float *bias, int splits,
                                           int64_t stride)
{
    struct weight_product p = {};
    p.lane = place.lane;
    p.activity = place.activity;
    p.x = x.at;
    p.x_example = x.example;
    p.x_channels = conv.in_channels;
    p.x_rows = conv.in_rows;
    p.dy = dy.at;
    p.dy_example = dy.example;
    p.dy_channels = conv.out_channels;
    p.dy_rows = conv.out_rows;
    p.total = place.rows * conv.out_rows;
    p.splits = splits;
    p.share = (int)fm_ceil(p.total, splits);
    p.taps = conv.taps;
    p.depth = conv.in_channels / conv.groups;
    p.width = conv.out_channels / conv.groups;
    p.stride = conv.stride;
    p.dilation = conv.dilation;
    p.pad = conv.pad;
    p.tap = w.tap;
    p.in = w.in;
    p.out = w.out;
    p.kernel = kernel;
    p.bias = bias;
    p.partial = stride;
    p.by_depth = fm_divider_by(p.depth);
    p.by_rows = fm_divider_by(conv.out_rows);
    p.x_quads = aligned(&x, conv.in_channels, p.depth);
    p.dy_quads = aligned(&dy, conv.out_channels, p.width);
    if (direct(&conv)) return launch_direct(place, p);
    int best;
    switch (choose(&conv, place.rows, &best)) {
    case 0: return launch<weight_64x64>(place, p, conv.groups);
    case 1: return launch<weight_64x24>(place, p, conv.groups);
    case 2: return launch<weight_32x32>(place, p, conv.groups);
    case 3: return launch<weight_16x24>(place, p, conv.groups);
    default: return launch<weight_64x8>(place, p, conv.groups);
    }
}
