/* Pools (semantics.md 1.2; engine/reference/pool.inc is the plain version). Forward: a thread makes one
 * output. Backward: a thread makes one element of dx from the windows that it lies in, in order, so that
 * overlapping windows need no atomics. */
#include "kernels/activation.h"
#include "kernels/rows.h"

/* The example, row and channel of a thread; false beyond the last. */
static __device__ bool cell_here(const fm_cuda_place &place, int rows, int channels, int &i, int &r, int &c)
{
    const int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, count = (int64_t)rows * channels;
    i = (int)(thread / count);
    r = (int)(thread % count) / channels;
    c = (int)(thread % count) % channels;
    return i < place.rows;
}

/* Input rows that exist of window o, which begins at `start`, maybe before row 0. */
static __device__ void window_of(const fm_cuda_pool &pool, int o, int &start, int &first, int &end)
{
    start = o * pool.stride - pool.pad;
    first = start > 0 ? start : 0;
    end = start + pool.size < pool.in_rows ? start + pool.size : pool.in_rows;
}

static __global__ void pooling(fm_cuda_place place, fm_cuda_pool pool, fm_cuda_tensor x, fm_cuda_tensor y,
                               fm_cuda_winner winner)
{
    int i, o, c, start, first, end;
    if (!fm_turn(place) || !cell_here(place, pool.out_rows, pool.channels, i, o, c)) return;
    window_of(pool, o, start, first, end);
    const float *from = x.at + (int64_t)i * x.example + c;
    float *to = y.at + (int64_t)i * y.example + o * pool.channels + c;
    if (pool.average) {
        float sum = 0;
        for (int r = first; r < end; r++) sum += from[r * pool.channels];
        *to = sum / (float)(end - first);
        return;
    }
    float best = from[first * pool.channels];
    int offset = first - start;
    for (int r = first + 1; r < end; r++) {
        const float v = from[r * pool.channels];
        const bool better = v > best || (v != v && best == best);
        best = better ? v : best;
        offset = better ? r - start : offset;
    }
    *to = best;
    if (!winner.at) return;
    const int64_t at = (int64_t)i * winner.example + o * pool.channels + c;
    if (winner.wide)
        static_cast<int32_t *>(winner.at)[at] = offset;
    else
        static_cast<uint8_t *>(winner.at)[at] = (uint8_t)offset;
}

static __device__ int winner_at(const fm_cuda_winner &winner, int64_t at)
{
    return winner.wide ? static_cast<const int32_t *>(winner.at)[at]
                       : (int)static_cast<const uint8_t *>(winner.at)[at];
}

static __global__ void pooling_grad(fm_cuda_place place, fm_cuda_pool pool, fm_cuda_tensor dy,
                                    fm_cuda_winner winner, fm_cuda_activation activation, int accumulate,
                                    fm_cuda_tensor dx)
{
    int i, r, c;
    if (!fm_turn(place) || !cell_here(place, pool.in_rows, pool.channels, i, r, c)) return;
    /* Window o holds row r when o * stride - pad <= r < o * stride - pad + size. */
    const int reach = r + pool.pad, before = reach - pool.size;
    int last = reach / pool.stride, o = before < 0 ? 0 : before / pool.stride + 1;
    if (last >= pool.out_rows) last = pool.out_rows - 1;
    float sum = 0;
    for (; o <= last; o++) {
        const int e = o * pool.channels + c;
        const float d = dy.at[(int64_t)i * dy.example + e];
        int start, first, end;
        window_of(pool, o, start, first, end);
        if (pool.average)
            sum += d / (float)(end - first);
        else if (start + winner_at(winner, (int64_t)i * winner.example + e) == r)
            sum += activation.is_pooled
                       ? d * fm_derivative_at(activation, (int64_t)i * activation.stored.example + e)
                       : d;
    }
    const int e = r * pool.channels + c;
    if (!activation.is_pooled)
        sum *= fm_derivative_at(activation, (int64_t)i * activation.stored.example + e);
    float *to = dx.at + (int64_t)i * dx.example + e;
    *to = accumulate ? *to + sum : sum;
}

static dim3 cell_blocks(const fm_cuda_place &place, int rows, int channels)
{
    return dim3(fm_blocks_for((int64_t)place.rows * rows * channels, 256));
}

cudaError_t fm_cuda_pooling(struct fm_cuda_place place, struct fm_cuda_pool pool, struct fm_cuda_tensor x,
                            struct fm_cuda_tensor y, struct fm_cuda_winner winner)
{
    return fm_launch(pooling, cell_blocks(place, pool.out_rows, pool.channels), dim3(256), 0, place.stream,
                     place, pool, x, y, winner);
}

cudaError_t fm_cuda_pooling_grad(struct fm_cuda_place place, struct fm_cuda_pool pool,
                                 struct fm_cuda_tensor dy, struct fm_cuda_winner winner,
                                 struct fm_cuda_activation activation, int accumulate,
                                 struct fm_cuda_tensor dx)
{
    return fm_launch(pooling_grad, cell_blocks(place, pool.in_rows, pool.channels), dim3(256), 0,
                     place.stream, place, pool, dy, winner, activation, accumulate, dx);
}
