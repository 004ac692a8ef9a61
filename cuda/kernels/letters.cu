/* Products over letters: a row of x is one-hot, so the product is a sum of weight rows, and the weight
 * gradient a sum of rows of dy. FM_NO_LETTER is a row of zeros. With groups a letter counts only for the
 * filters of the group its channel belongs to.
 *
 * Forward: a thread makes V = 4 neighbouring filters of one output row (1 where the layout allows no
 * vectors); neighbouring threads have neighbouring filters, so weight rows are read whole, mostly from the
 * cache. Where there are few outputs and many taps (dense layers over letters), S slices share the taps; they
 * depend on the shape alone, not on V, so the bits do not depend on the layout.
 *
 * Weight gradient: a block owns 32 filters of one tap in one split. Slices (whole warps) walk their positions
 * in order, each adding dy's element to the sum of the letter that stands there; the sums of all letters lie
 * in shared memory, one column a thread, so nothing is shared and nothing is atomic. Then the slices are
 * added in order. As many slices as fit in 32 KB, at most 8: 21 letters take 2.7 KB each. */
#include "data/dataset.h"
#include "kernels/activation.h"
#include "kernels/divide.h"
#include "kernels/multiply.h"

enum { LETTERS_THREADS = 128, LETTERS_WINDOW = 32, LETTERS_SLICES = 8 };

struct letters_product {
    const struct fm_cuda_lane *lane;
    int activity;
    struct fm_cuda_bytes x;
    int x_rows, y_rows, filters, depth, taps, stride, dilation, pad;
    int examples, total; /* total: output rows of all examples */
    int tap, in, out;
    const float *w;
    struct fm_divider by_rows, by_width, by_filters; /* by_filters: of V filters each */
    int slices;
    /* forward */
    const float *bias;
    struct fm_cuda_activation activation;
    struct fm_cuda_tensor y;
    /* gradient; y is dy */
    float *kernel, *dbias;
    int64_t partial;
    int share, splits;
};

/* What x says at a row: the letter's row of the group's kernel, or -1. */
static __device__ inline int letter_at(const letters_product &p, const uint8_t *x, int row, int group)
{
    if ((unsigned)row >= (unsigned)p.x_rows) return -1;
    const int letter = x[row], own = letter - group * p.depth;
    return letter != FM_NO_LETTER && (unsigned)own < (unsigned)p.depth ? own : -1;
}

template <int V> static __device__ inline void letters_add(const float *w, float (&sum)[V])
{
    if (V == 4) {
        const fm_quad four = *(const fm_quad *)w;
        FM_UNROLL
        for (int i = 0; i < V; i++) sum[i] += four.v[i];
    } else {
        FM_UNROLL
        for (int i = 0; i < V; i++) sum[i] += w[i];
    }
}

template <int V>
static __global__ void __launch_bounds__(LETTERS_THREADS) letters_forward(const letters_product p)
{
    FM_DYNAMIC_SHARED(float, shared);
    if (p.lane->control.activity != p.activity) return;
    const int outputs = LETTERS_THREADS / p.slices, slice = (int)threadIdx.x / outputs;
    const int own = (int)threadIdx.x % outputs, output = (int)blockIdx.x * outputs + own;
    const int row = fm_divide(p.by_filters, output), f = (output - row * (int)p.by_filters.by) * V;
    float sum[V];
    FM_UNROLL
    for (int i = 0; i < V; i++) sum[i] = 0.0f;
    if (row < p.total) {
        const int example = fm_divide(p.by_rows, row), o = row - example * p.y_rows;
        const int group = fm_divide(p.by_width, f), first = o * p.stride - p.pad;
        const uint8_t *x = p.x.at + example * p.x.example;
        for (int j = slice; j < p.taps; j += p.slices) {
            const int letter = letter_at(p, x, first + j * p.dilation, group);
            if (letter >= 0) letters_add<V>(p.w + j * p.tap + letter * p.in + f * p.out, sum);
        }
    }
    FM_UNROLL
    for (int i = 0; i < V; i++) shared[((int)threadIdx.x * V) + i] = sum[i];
    __syncthreads();
    const int end = p.total * p.filters, begin = (int)blockIdx.x * outputs * V;
    FM_ROLLED
    for (int e = (int)threadIdx.x; e < outputs * V && begin + e < end; e += LETTERS_THREADS) {
        float z = shared[e];
        for (int s = 1; s < p.slices; s++) z += shared[s * outputs * V + e];
        const int at = fm_divide(p.by_filters, (begin + e) / V), channel = begin + e - at * p.filters;
        const int example = fm_divide(p.by_rows, at), o = at - example * p.y_rows;
        const int place = o * p.filters + channel;
        if (p.bias) z += p.bias[channel];
        if (p.activation.stored.at)
            p.activation.stored.at[example * p.activation.stored.example + place] =
                fm_derivative_of_input(p.activation.kind, p.activation.slope, z);
        p.y.at[example * p.y.example + place] = fm_activate(p.activation.kind, p.activation.slope, z);
    }
}

/* Adds one slice's positions; returns the sum of dy. */
static __device__ inline float letters_walk(const letters_product &p, float *sums, int tap, int f, int first,
                                            int end)
{
    const int group = fm_divide(p.by_width, f);
    float all = 0.0f;
    for (int k = first; k < end; k += p.slices) {
        const int example = fm_divide(p.by_rows, k), o = k - example * p.y_rows;
        const float dy = p.y.at[example * p.y.example + o * p.filters + f];
        const int letter =
            letter_at(p, p.x.at + example * p.x.example, o * p.stride - p.pad + tap * p.dilation, group);
        all += dy;
        if (letter >= 0) sums[letter * LETTERS_WINDOW] += dy;
    }
    return all;
}

static __global__ void __launch_bounds__(LETTERS_WINDOW *LETTERS_SLICES)
    letters_gradient(const letters_product p)
{
    FM_DYNAMIC_SHARED(float, shared); /* [slices][depth + 1][32]; the last row is dy's */
    if (p.lane->control.activity != p.activity) return;
    const int split = (int)blockIdx.x % p.splits, rest = (int)blockIdx.x / p.splits;
    const int tap = rest % p.taps, f = rest / p.taps * LETTERS_WINDOW + (int)threadIdx.x % LETTERS_WINDOW;
    const int slice = (int)threadIdx.x / LETTERS_WINDOW, room = (p.depth + 1) * LETTERS_WINDOW;
    const int first = split * p.share < p.total ? split * p.share : p.total;
    const int end = p.total - first < p.share ? p.total : first + p.share;
    float *mine = shared + slice * room + (int)threadIdx.x % LETTERS_WINDOW;
    for (int l = 0; l < p.depth; l++) mine[l * LETTERS_WINDOW] = 0.0f;
    mine[p.depth * LETTERS_WINDOW] = f < p.filters ? letters_walk(p, mine, tap, f, first + slice, end) : 0.0f;
    __syncthreads();
    float *kernel = p.kernel + split * p.partial + tap * p.tap;
    for (int l = slice; l <= p.depth && f < p.filters; l += p.slices) {
        const float *column = shared + l * LETTERS_WINDOW + (int)threadIdx.x % LETTERS_WINDOW;
        float sum = column[0];
        for (int s = 1; s < p.slices; s++) sum += column[s * room];
        if (l < p.depth)
            kernel[l * p.in + f * p.out] = sum;
        else if (tap == 0 && p.dbias)
            p.dbias[split * p.partial + f] = sum;
    }
}

static struct letters_product product_of(struct fm_cuda_place place, const struct fm_cuda_conv *conv,
                                         struct fm_cuda_bytes x, struct fm_cuda_weights w)
{
    struct letters_product p = {};
    p.lane = place.lane;
    p.activity = place.activity;
    p.x = x;
    p.x_rows = conv->in_rows;
    p.y_rows = conv->out_rows;
    p.filters = conv->out_channels;
    p.depth = conv->in_channels / conv->groups;
    p.taps = conv->taps;
    p.stride = conv->stride;
    p.dilation = conv->dilation;
    p.pad = conv->pad;
    p.examples = place.rows;
    p.total = place.rows * conv->out_rows;
    p.tap = w.tap;
    p.in = w.in;
    p.out = w.out;
    p.w = w.at;
    p.by_rows = fm_divider_by(conv->out_rows);
    p.by_width = fm_divider_by(conv->out_channels / conv->groups);
    return p;
}

/* Four filters of a thread lie in one group, together and aligned. */
static int vectors(const struct fm_cuda_conv *conv, const struct fm_cuda_weights *w)
{
    return conv->out_channels / conv->groups % 4 == 0 && w->out == 1 && w->tap % 4 == 0 && w->in % 4 == 0 &&
           (uintptr_t)w->at % 16 == 0;
}

extern "C" cudaError_t fm_cuda_forward_letters(struct fm_cuda_place place, struct fm_cuda_conv conv,
                                               struct fm_cuda_bytes x, struct fm_cuda_weights w,
                                               const float *bias, struct fm_cuda_activation activation,
                                               struct fm_cuda_tensor y)
{
    struct letters_product p = product_of(place, &conv, x, w);
    p.bias = bias;
    p.activation = activation;
    p.y = y;
    const int64_t outputs = (int64_t)p.total * p.filters;
    p.slices = 1;
    while (p.slices < 16 && outputs * p.slices < 65536 && p.taps >= 8 * p.slices) p.slices *= 2;
    const int v = vectors(&conv, &w) ? 4 : 1;
    p.by_filters = fm_divider_by(p.filters / v);
    const unsigned blocks = (unsigned)fm_ceil(outputs / v, LETTERS_THREADS / p.slices);
    const size_t room = (size_t)(LETTERS_THREADS * v) * sizeof(float);
    if (v == 4)
        return fm_launch(letters_forward<4>, dim3(blocks), dim3(LETTERS_THREADS), room, place.stream, p);
    return fm_launch(letters_forward<1>, dim3(blocks), dim3(LETTERS_THREADS), room, place.stream, p);
}

extern "C" cudaError_t fm_cuda_weight_grad_letters(struct fm_cuda_place place, struct fm_cuda_conv conv,
                                                   struct fm_cuda_bytes x, struct fm_cuda_tensor dy,
                                                   struct fm_cuda_weights w, float *kernel, float *bias,
                                                   int splits, int64_t stride)
{
    struct letters_product p = product_of(place, &conv, x, w);
    p.y = dy;
    p.kernel = kernel;
    p.dbias = bias;
    p.partial = stride;
    p.splits = splits;
    p.share = (int)fm_ceil(p.total, splits);
    const int room = (p.depth + 1) * LETTERS_WINDOW * (int)sizeof(float);
    p.slices = LETTERS_SLICES;
    while (p.slices > 1 && p.slices * room > 32 << 10) p.slices--;
    const unsigned blocks = (unsigned)fm_ceil(p.filters, LETTERS_WINDOW) * (unsigned)(p.taps * splits);
    return fm_launch(letters_gradient, dim3(blocks), dim3((unsigned)(LETTERS_WINDOW * p.slices)),
                     (size_t)(p.slices * room), place.stream, p);
}
