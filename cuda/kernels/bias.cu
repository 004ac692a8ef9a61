/* What stands beside a product that a library made: the bias gradient before, bias and activation after it.
 */
#include "kernels/activation.h"
#include "kernels/divide.h"

struct bias_rows { /* of a tensor, across examples */
    int count, channels;
    struct fm_divider by_rows; /* of an example */
};

static __device__ inline int row_start(bias_rows rows, int row, int example)
{
    const int i = fm_divide(rows.by_rows, row);
    return i * example + (row - i * (int)rows.by_rows.by) * rows.channels;
}

/* 32 channels a block; 32 slices of rows, each in order, then the slices in order. */
static __global__ void __launch_bounds__(1024)
    column_sums(const fm_cuda_lane *lane, int activity, bias_rows rows, struct fm_cuda_tensor dy, float *bias)
{
    FM_DYNAMIC_SHARED(float, shared);
    if (lane->control.activity != activity) return;
    const int channel = (int)(blockIdx.x * 32 + threadIdx.x % 32);
    float sum = 0.0f;
    if (channel < rows.channels)
        for (int row = (int)threadIdx.x / 32; row < rows.count; row += 32)
            sum += dy.at[row_start(rows, row, dy.example) + channel];
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x >= 32 || channel >= rows.channels) return;
    for (int slice = 1; slice < 32; slice++) sum += shared[slice * 32 + (int)threadIdx.x];
    bias[channel] = sum;
}

static __global__ void __launch_bounds__(256)
    bias_activation(const fm_cuda_lane *lane, int activity, bias_rows rows, struct fm_divider by_channels,
                    const float *bias, struct fm_cuda_activation activation, struct fm_cuda_tensor y)
{
    if (lane->control.activity != activity) return;
    const int e = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (e >= rows.count * rows.channels) return;
    const int row = fm_divide(by_channels, e), channel = e - row * rows.channels;
    float *at = y.at + row_start(rows, row, y.example) + channel;
    const float z = bias ? *at + bias[channel] : *at;
    if (activation.stored.at)
        activation.stored.at[row_start(rows, row, activation.stored.example) + channel] =
            fm_derivative_of_input(activation.kind, activation.slope, z);
    *at = fm_activate(activation.kind, activation.slope, z);
}

extern "C" cudaError_t fm_cuda_bias_grad(struct fm_cuda_place place, int rows, int channels,
                                         struct fm_cuda_tensor dy, float *bias)
{
    const struct bias_rows all = {place.rows * rows, channels, fm_divider_by(rows)};
    return fm_launch(column_sums, dim3((unsigned)(channels + 31) / 32), dim3(1024), 1024 * sizeof(float),
                     place.stream, place.lane, place.activity, all, dy, bias);
}

extern "C" cudaError_t fm_cuda_bias_activation(struct fm_cuda_place place, int rows, int channels,
                                               const float *bias, struct fm_cuda_activation activation,
                                               struct fm_cuda_tensor y)
{
    const struct bias_rows all = {place.rows * rows, channels, fm_divider_by(rows)};
    const unsigned blocks = ((unsigned)all.count * (unsigned)channels + 255) / 256;
    return fm_launch(bias_activation, dim3(blocks), dim3(256), 0, place.stream, place.lane, place.activity,
                     all, fm_divider_by(channels), bias, activation, y);
}
