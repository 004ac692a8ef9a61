/* Activations that no product took into its epilogue: a thread works on an element; softmax: a group of
 * threads on a row. */
#include "kernels/activation.h"
#include "kernels/rows.h"

/* The example and the element in it of a thread, of examples of `count` elements; false beyond the last. */
static __device__ bool element_here(const fm_cuda_place &place, int count, int &i, int &e)
{
    const int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    i = (int)(thread / count);
    e = (int)(thread % count);
    return i < place.rows;
}

static __global__ void activate(fm_cuda_place place, int count, fm_cuda_tensor x, fm_cuda_activation a,
                                fm_cuda_tensor y)
{
    int i, e;
    if (!fm_turn(place) || !element_here(place, count, i, e)) return;
    const float v = x.at[(int64_t)i * x.example + e];
    if (a.stored.at)
        a.stored.at[(int64_t)i * a.stored.example + e] = fm_derivative_of_input(a.kind, a.slope, v);
    y.at[(int64_t)i * y.example + e] = fm_activate(a.kind, a.slope, v);
}

static __global__ void activate_grad(fm_cuda_place place, int count, fm_cuda_tensor dy, fm_cuda_activation a,
                                     int accumulate, fm_cuda_tensor dx)
{
    int i, e;
    if (!fm_turn(place) || !element_here(place, count, i, e)) return;
    const float d = fm_derivative_at(a, (int64_t)i * a.stored.example + e);
    const float v = dy.at[(int64_t)i * dy.example + e];
    float *to = dx.at + (int64_t)i * dx.example + e;
    *to = accumulate ? fmaf(v, d, *to) : v * d;
}

static dim3 element_blocks(const fm_cuda_place &place, int count)
{
    return dim3(fm_blocks_for((int64_t)place.rows * count, 256));
}

cudaError_t fm_cuda_activate(struct fm_cuda_place place, int rows, int channels, struct fm_cuda_tensor x,
                             struct fm_cuda_activation activation, struct fm_cuda_tensor y)
{
    const int count = rows * channels;
    return fm_launch(activate, element_blocks(place, count), dim3(256), 0, place.stream, place, count, x,
                     activation, y);
}

cudaError_t fm_cuda_activate_grad(struct fm_cuda_place place, int rows, int channels,
                                  struct fm_cuda_tensor dy, struct fm_cuda_activation activation,
                                  int accumulate, struct fm_cuda_tensor dx)
{
    const int count = rows * channels;
    return fm_launch(activate_grad, element_blocks(place, count), dim3(256), 0, place.stream, place, count,
                     dy, activation, accumulate, dx);
}

/* ---- softmax over the channels of a row ---- */

static __global__ void softmax(fm_cuda_place place, int length, int channels, int group, fm_cuda_tensor x,
                               fm_cuda_tensor y)
{
    if (!fm_turn(place)) return;
    const fm_group_row r = fm_group_row_here(place.rows, length, group);
    const float *from = x.at + (int64_t)r.i * x.example + r.l * channels;
    float *to = y.at + (int64_t)r.i * y.example + r.l * channels;
    float top = from[0], sum = 0;
    for (int c = r.first; c < channels; c += group)
        if (from[c] > top) top = from[c];
    top = fm_group_max(top, group);
    for (int c = r.first; c < channels; c += group) sum += expf(from[c] - top);
    sum = fm_group_sum(sum, group);
    if (!r.real) return;
    for (int c = r.first; c < channels; c += group) to[c] = expf(from[c] - top) / sum;
}

/* dx = y (dy - sum over the row of dy y). */
static __global__ void softmax_grad(fm_cuda_place place, int length, int channels, int group,
                                    fm_cuda_tensor dy, fm_cuda_tensor y, int accumulate, fm_cuda_tensor dx)
{
    if (!fm_turn(place)) return;
    const fm_group_row r = fm_group_row_here(place.rows, length, group);
    const float *g = dy.at + (int64_t)r.i * dy.example + r.l * channels;
    const float *s = y.at + (int64_t)r.i * y.example + r.l * channels;
    float *to = dx.at + (int64_t)r.i * dx.example + r.l * channels;
    float sum = 0;
    for (int c = r.first; c < channels; c += group) sum = fmaf(g[c], s[c], sum);
    sum = fm_group_sum(sum, group);
    if (!r.real) return;
    for (int c = r.first; c < channels; c += group) {
        const float d = s[c] * (g[c] - sum);
        to[c] = accumulate ? to[c] + d : d;
    }
}

cudaError_t fm_cuda_softmax(struct fm_cuda_place place, int rows, int channels, struct fm_cuda_tensor x,
                            struct fm_cuda_tensor y)
{
    const int group = fm_group_for(channels);
    return fm_launch(softmax, fm_group_blocks(place, rows, group), dim3(FM_GROUP_THREADS), 0, place.stream,
                     place, rows, channels, group, x, y);
}

cudaError_t fm_cuda_softmax_grad(struct fm_cuda_place place, int rows, int channels, struct fm_cuda_tensor dy,
                                 struct fm_cuda_tensor y, int accumulate, struct fm_cuda_tensor dx)
{
    const int group = fm_group_for(channels);
    return fm_launch(softmax_grad, fm_group_blocks(place, rows, group), dim3(FM_GROUP_THREADS), 0,
                     place.stream, place, rows, channels, group, dy, y, accumulate, dx);
}
