/* A convolution of few channels, its activation and the max pool behind it in one kernel: the convolution's
 * output never reaches memory. Made for first layers such as 9 taps x 1 channel x 24 filters, pool 4.
 *
 * A thread makes one pool window of 4 neighbouring filters, P = 2 or 4 positions at a time (windows of more
 * positions take several rounds), from weights in shared memory ([k][filters rounded up to 4], one vector
 * load per k) and rows of x straight from memory: neighbouring threads have the same window and neighbouring
 * filters, so few different addresses are asked for at once and the first-level cache holds them. With one
 * channel, stride 1 and dilation 1 the P + 3 numbers that four taps need are loaded once (SLIDE): 7 loads of
 * x and 4 of weights for 64 multiply-adds.
 *
 * The activation is applied before the comparison, as in the reference: relu makes ties, which go to the
 * lowest row. Other activations than relu and leaky_relu go through shared memory element by element, because
 * their code is long. */
#include "kernels/activation.h"
#include "kernels/divide.h"
#include "kernels/multiply.h"

enum { POOL_THREADS = 128, POOL_MOST_K = 128, POOL_MOST_WEIGHTS = 6144, POOL_MOST_SIZE = 256 };

struct conv_pool {
    const struct fm_cuda_lane *lane;
    int activity;
    struct fm_cuda_tensor x, y;
    struct fm_cuda_bytes winner;
    int x_rows, channels, filters, taps, stride, dilation, pad;
    int windows, size, total; /* total: threads with work */
    struct fm_cuda_weights w;
    const float *bias;
    int kind;
    float slope;
    int whole; /* y and winner take vectors of 4 filters */
    struct fm_divider by_quads, by_windows;
};

static __device__ inline float row_at(const conv_pool &p, const float *x, int row)
{
    return (unsigned)row < (unsigned)p.x_rows ? x[row] : 0.0f;
}

/* acc[i][f] += sum over k of x at position i, for P positions from input row `row`. */
template <int P>
static __device__ inline void slide(const conv_pool &p, const float *x, const float *w, int pitch, int row,
                                    float (&acc)[P][4])
{
    int tap = 0;
    FM_ROLLED
    for (; tap + 4 <= p.taps; tap += 4, row += 4, w += 4 * pitch) {
        float near[P + 3];
        FM_UNROLL
        for (int i = 0; i < P + 3; i++) near[i] = row_at(p, x, row + i);
        FM_UNROLL
        for (int j = 0; j < 4; j++) {
            const fm_quad weights = *(const fm_quad *)(w + j * pitch);
            FM_UNROLL
            for (int i = 0; i < P; i++) {
                FM_UNROLL
                for (int f = 0; f < 4; f++) acc[i][f] = fmaf(near[i + j], weights.v[f], acc[i][f]);
            }
        }
    }
    FM_ROLLED
    for (; tap < p.taps; tap++, row++, w += pitch) {
        const fm_quad weights = *(const fm_quad *)w;
        FM_UNROLL
        for (int i = 0; i < P; i++) {
            const float here = row_at(p, x, row + i);
            FM_UNROLL
            for (int f = 0; f < 4; f++) acc[i][f] = fmaf(here, weights.v[f], acc[i][f]);
        }
    }
}

template <int P>
static __device__ inline void walk(const conv_pool &p, const float *x, const float *w, int pitch, int row,
                                   float (&acc)[P][4])
{
    FM_ROLLED
    for (int tap = 0; tap < p.taps; tap++, row += p.dilation) {
        FM_ROLLED
        for (int c = 0; c < p.channels; c++, w += pitch) {
            const fm_quad weights = *(const fm_quad *)w;
            FM_UNROLL
            for (int i = 0; i < P; i++) {
                const int at = row + i * p.stride;
                const float here = (unsigned)at < (unsigned)p.x_rows ? x[at * p.channels + c] : 0.0f;
                FM_UNROLL
                for (int f = 0; f < 4; f++) acc[i][f] = fmaf(here, weights.v[f], acc[i][f]);
            }
        }
    }
}

/* mine: this thread's column of shared memory, POOL_THREADS apart. */
template <int P> static __device__ inline void activate(const conv_pool &p, float (&acc)[P][4], float *mine)
{
    if (p.kind == FM_ACT_LINEAR) return;
    if (p.kind == FM_ACT_RELU || p.kind == FM_ACT_LEAKY_RELU) {
        FM_UNROLL
        for (int i = 0; i < P; i++) {
            FM_UNROLL
            for (int f = 0; f < 4; f++)
                acc[i][f] = p.kind == FM_ACT_RELU ? fm_activate(FM_ACT_RELU, 0.0f, acc[i][f])
                                                  : fm_activate(FM_ACT_LEAKY_RELU, p.slope, acc[i][f]);
        }
        return;
    }
    FM_UNROLL
    for (int i = 0; i < P; i++) {
        FM_UNROLL
        for (int f = 0; f < 4; f++) mine[(i * 4 + f) * POOL_THREADS] = acc[i][f];
    }
    FM_ROLLED
    for (int e = 0; e < P * 4; e++)
        mine[e * POOL_THREADS] = fm_activate(p.kind, p.slope, mine[e * POOL_THREADS]);
    FM_UNROLL
    for (int i = 0; i < P; i++) {
        FM_UNROLL
        for (int f = 0; f < 4; f++) acc[i][f] = mine[(i * 4 + f) * POOL_THREADS];
    }
}

/* The weights as [k][pitch], zeros behind the last filter; then the bias. */
static __device__ inline void weights_in(const conv_pool &p, float *shared, int pitch)
{
    const int count = p.taps * p.channels * pitch;
    for (int e = (int)threadIdx.x; e < count + pitch; e += POOL_THREADS) {
        const int k = e / pitch, f = e - k * pitch, tap = k / p.channels, c = k - tap * p.channels;
        float value = 0.0f;
        if (f < p.filters && e < count)
            value = p.w.at[tap * p.w.tap + c * p.w.in + f * p.w.out];
        else if (f < p.filters && p.bias)
            value = p.bias[f];
        shared[e] = value;
    }
    __syncthreads();
}

static __device__ inline void write(const conv_pool &p, const float (&best)[4], const int (&offset)[4],
                                    int example, int place, int filters)
{
    float *y = p.y.at + example * p.y.example + place;
    uint8_t *winner = p.winner.at ? p.winner.at + example * p.winner.example + place : NULL;
    if (p.whole) {
        fm_quad four;
        FM_UNROLL
        for (int f = 0; f < 4; f++) four.v[f] = best[f];
        *(fm_quad *)y = four;
        if (winner)
            *(unsigned *)winner = (unsigned)offset[0] | (unsigned)offset[1] << 8 | (unsigned)offset[2] << 16 |
                                  (unsigned)offset[3] << 24;
        return;
    }
    FM_UNROLL
    for (int f = 0; f < 4; f++) {
        if (f >= filters) continue;
        y[f] = best[f];
        if (winner) winner[f] = (uint8_t)offset[f];
    }
}

template <int P, bool SLIDE>
static __global__ void __launch_bounds__(POOL_THREADS) conv_pool_windows(const conv_pool p)
{
    FM_DYNAMIC_SHARED(float, shared);
    if (p.lane->control.activity != p.activity) return;
    const int pitch = (int)p.by_quads.by * 4;
    weights_in(p, shared, pitch);
    const int item = (int)(blockIdx.x * POOL_THREADS + threadIdx.x);
    if (item >= p.total) return;
    const int window = fm_divide(p.by_quads, item), first = (item - window * (int)p.by_quads.by) * 4;
    const int example = fm_divide(p.by_windows, window), o = window - example * p.windows;
    const int k = p.taps * p.channels;
    const float *x = p.x.at + example * p.x.example;
    float *mine = shared + (k + 1) * pitch + threadIdx.x;
    float best[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    int offset[4] = {0, 0, 0, 0};
    FM_ROLLED
    for (int at = 0; at < p.size; at += P) {
        const int row = (o * p.size + at) * p.stride - p.pad;
        float acc[P][4];
        FM_UNROLL
        for (int i = 0; i < P; i++) {
            FM_UNROLL
            for (int f = 0; f < 4; f++) acc[i][f] = 0.0f;
        }
        if (SLIDE)
            slide<P>(p, x, shared + first, pitch, row, acc);
        else
            walk<P>(p, x, shared + first, pitch, row, acc);
        FM_UNROLL
        for (int i = 0; i < P; i++) {
            FM_UNROLL
            for (int f = 0; f < 4; f++) acc[i][f] += shared[k * pitch + first + f];
        }
        activate<P>(p, acc, mine);
        FM_UNROLL
        for (int i = 0; i < P; i++) {
            FM_UNROLL
            for (int f = 0; f < 4; f++) {
                const float v = acc[i][f];
                const bool nan = v != v && best[f] == best[f];
                if (at + i > 0 && (at + i >= p.size || !(v > best[f] || nan))) continue;
                best[f] = v;
                offset[f] = at + i;
            }
        }
    }
    write(p, best, offset, example, o * p.filters + first, p.filters - first);
}

static size_t shared_room(const struct fm_cuda_conv *conv, int positions)
{
    const int pitch = (conv->out_channels + 3) / 4 * 4;
    return ((size_t)((conv->taps * conv->in_channels + 1) * pitch) + (size_t)(positions * 4 * POOL_THREADS)) *
           sizeof(float);
}

extern "C" int fm_cuda_conv_pool_can(const struct fm_cuda_conv *conv, const struct fm_cuda_pool *pool,
                                     int activation)
{
    switch (activation) {
    case FM_ACT_LINEAR:
    case FM_ACT_RELU:
    case FM_ACT_LEAKY_RELU:
    case FM_ACT_ELU:
    case FM_ACT_SELU:
    case FM_ACT_TANH:
    case FM_ACT_SIGMOID: break;
    default: return 0;
    }
    const int64_t k = (int64_t)conv->taps * conv->in_channels;
    return conv->groups == 1 && !pool->average && pool->size == pool->stride && pool->pad == 0 &&
           pool->size <= POOL_MOST_SIZE && k <= POOL_MOST_K &&
           (k + 1) * conv->out_channels <= POOL_MOST_WEIGHTS && pool->channels == conv->out_channels &&
           pool->in_rows == conv->out_rows && (int64_t)pool->out_rows * pool->size <= conv->out_rows;
}

extern "C" cudaError_t fm_cuda_conv_pool(struct fm_cuda_place place, struct fm_cuda_conv conv,
                                         struct fm_cuda_pool pool, struct fm_cuda_tensor x,
                                         struct fm_cuda_weights w, const float *bias,
                                         struct fm_cuda_activation activation, struct fm_cuda_tensor y,
                                         struct fm_cuda_bytes winner)
{
    struct conv_pool p = {};
    p.lane = place.lane;
    p.activity = place.activity;
    p.x = x;
    p.y = y;
    p.winner = winner;
    p.x_rows = conv.in_rows;
    p.channels = conv.in_channels;
    p.filters = conv.out_channels;
    p.taps = conv.taps;
    p.stride = conv.stride;
    p.dilation = conv.dilation;
    p.pad = conv.pad;
    p.windows = pool.out_rows;
    p.size = pool.size;
    p.w = w;
    p.bias = bias;
    p.kind = activation.kind;
    p.slope = activation.slope;
    p.whole = conv.out_channels % 4 == 0 && y.example % 4 == 0 && (uintptr_t)y.at % 16 == 0 &&
              winner.example % 4 == 0 && (uintptr_t)winner.at % 4 == 0;
    const int quads = (conv.out_channels + 3) / 4;
    p.by_quads = fm_divider_by(quads);
    p.by_windows = fm_divider_by(pool.out_rows);
    p.total = place.rows * pool.out_rows * quads;
    const dim3 blocks((unsigned)fm_ceil(p.total, POOL_THREADS)), threads(POOL_THREADS);
    const size_t room = shared_room(&conv, pool.size <= 2 ? 2 : 4);
    const bool one = conv.in_channels == 1 && conv.stride == 1 && conv.dilation == 1;
    if (pool.size <= 2) {
        if (one) return fm_launch(conv_pool_windows<2, true>, blocks, threads, room, place.stream, p);
        return fm_launch(conv_pool_windows<2, false>, blocks, threads, room, place.stream, p);
    }
    if (one) return fm_launch(conv_pool_windows<4, true>, blocks, threads, room, place.stream, p);
    return fm_launch(conv_pool_windows<4, false>, blocks, threads, room, place.stream, p);
}
