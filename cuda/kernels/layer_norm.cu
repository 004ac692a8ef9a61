/* Layer normalisation (semantics.md 1.5; engine/reference/norm.inc is the plain version). A group of threads
 * works on a row; as in batch_norm.cu differences to a pivot are summed first, and the error of the rounded
 * mean comes out of the second pass. */
#include "kernels/rows.h"

struct layer_pass {
    fm_cuda_place place;
    int length, channels, group;
    fm_cuda_tensor x, y;
    const float *gamma, *beta;
    float epsilon;
    float *mean, *inverse;
};

static __global__ void layer_norm(layer_pass p)
{
    if (!fm_turn(p.place)) return;
    const fm_group_row r = fm_group_row_here(p.place.rows, p.length, p.group);
    const float *x = p.x.at + (int64_t)r.i * p.x.example + r.l * p.channels;
    const float size = (float)p.channels, pivot = x[0];
    float sum = 0, square = 0;
    for (int c = r.first; c < p.channels; c += p.group) sum += x[c] - pivot;
    const float center = pivot + fm_group_sum(sum, p.group) / size;
    sum = 0;
    for (int c = r.first; c < p.channels; c += p.group) {
        const float d = x[c] - center;
        sum += d;
        square = fmaf(d, d, square);
    }
    const float rest = fm_group_sum(sum, p.group) / size;
    float variance = fmaf(-rest, rest, fm_group_sum(square, p.group) / size);
    variance = variance < 0 ? 0 : variance;
    const float inverse = 1.0f / sqrtf(variance + p.epsilon), shift = -rest * inverse;
    if (!r.real) return;
    if (r.first == 0) {
        if (p.mean) p.mean[r.i * p.length + r.l] = center + rest;
        if (p.inverse) p.inverse[r.i * p.length + r.l] = inverse;
    }
    float *y = p.y.at + (int64_t)r.i * p.y.example + r.l * p.channels;
    for (int c = r.first; c < p.channels; c += p.group)
        y[c] =
            fmaf(fmaf(x[c] - center, inverse, shift), p.gamma ? p.gamma[c] : 1.0f, p.beta ? p.beta[c] : 0.0f);
}

cudaError_t fm_cuda_layer_norm(struct fm_cuda_place place, int rows, int channels, struct fm_cuda_tensor x,
                               const float *gamma, const float *beta, double epsilon, float *mean,
                               float *deviation, struct fm_cuda_tensor y)
{
    layer_pass p;
    p.place = place;
    p.length = rows;
    p.channels = channels;
    p.group = fm_group_for(channels);
    p.x = x;
    p.y = y;
    p.gamma = gamma;
    p.beta = beta;
    p.epsilon = (float)epsilon;
    p.mean = mean;
    p.inverse = deviation;
    return fm_launch(layer_norm, fm_group_blocks(place, rows, p.group), dim3(FM_GROUP_THREADS), 0,
                     place.stream, p);
}

/* ---- gradient ---- */

struct layer_grad_pass {
    fm_cuda_place place;
    fm_columns f;
    int group, accumulate;
    fm_cuda_tensor x, dy, dx;
    const float *gamma, *mean, *inverse;
    float *dgamma, *dbeta;
    double *sums; /* [chunks][2][channels]: of dy, of dy * xhat */
};

/* With d = x - mean and g = dy * gamma: dx = (g - mean of g - d * inverse^2 * mean of g d) * inverse. */
static __global__ void input_grad(layer_grad_pass p)
{
    if (!fm_turn(p.place)) return;
    const int channels = p.f.channels;
    const fm_group_row r = fm_group_row_here(p.place.rows, p.f.length, p.group);
    const float *x = p.x.at + (int64_t)r.i * p.x.example + r.l * channels;
    const float *dy = p.dy.at + (int64_t)r.i * p.dy.example + r.l * channels;
    const float mean = p.mean[r.i * p.f.length + r.l], inverse = p.inverse[r.i * p.f.length + r.l];
    float sum = 0, dot = 0;
    for (int c = r.first; c < channels; c += p.group) {
        const float g = p.gamma ? dy[c] * p.gamma[c] : dy[c];
        sum += g;
        dot = fmaf(g, x[c] - mean, dot);
    }
    const float size = (float)channels;
    const float ma = fm_group_sum(sum, p.group) / size;
    const float mb = fm_group_sum(dot, p.group) / size * inverse * inverse;
    if (!r.real) return;
    float *dx = p.dx.at + (int64_t)r.i * p.dx.example + r.l * channels;
    for (int c = r.first; c < channels; c += p.group) {
        const float g = p.gamma ? dy[c] * p.gamma[c] : dy[c];
        const float d = fmaf(-(x[c] - mean), mb, g - ma) * inverse;
        dx[c] = p.accumulate ? dx[c] + d : d;
    }
}

static __device__ void store_parameters(const layer_grad_pass &p, int channel, double sum, double dot)
{
    if (p.dgamma) p.dgamma[channel] = (float)dot;
    if (p.dbeta) p.dbeta[channel] = (float)sum;
}

/* Sums over the chunk's valid rows; the results at once where there is one chunk. */
static __global__ void parameter_sums(layer_grad_pass p)
{
    FM_DYNAMIC_SHARED(double, room);
    if (!fm_turn(p.place)) return;
    const fm_column c = fm_column_here(p.f);
    const int valid = p.place.lane->control.n * p.f.length, end = c.end < valid ? c.end : valid;
    double sum = 0, dot = 0;
    for (int row = c.first + c.lane; c.real && row < end;) {
        float a = 0, b = 0;
        for (int k = 0; k < FM_COLUMN_CHAIN && row < end; k++, row += p.f.lanes) {
            const float dy = p.dy.at[fm_row_offset(p.f, p.dy, row) + c.channel];
            const float d = p.x.at[fm_row_offset(p.f, p.x, row) + c.channel] - p.mean[row];
            a += dy;
            b = fmaf(dy, d * p.inverse[row], b);
        }
        sum += (double)a;
        dot += (double)b;
    }
    sum = fm_column_sum(sum, p.f, c, room);
    dot = fm_column_sum(dot, p.f, c, room);
    if (!c.real || c.lane) return;
    if (p.f.chunks == 1) {
        store_parameters(p, c.channel, sum, dot);
        return;
    }
    double *to = p.sums + (int)blockIdx.x * 2 * p.f.channels + c.channel;
    to[0] = sum;
    to[p.f.channels] = dot;
}

static __global__ void parameter_join(layer_grad_pass p)
{
    if (!fm_turn(p.place)) return;
    const int channel = (int)(blockIdx.x * blockDim.x + threadIdx.x), stride = 2 * p.f.channels;
    if (channel >= p.f.channels) return;
    store_parameters(p, channel, fm_column_join(p.sums + channel, p.f.chunks, stride),
                     fm_column_join(p.sums + p.f.channels + channel, p.f.chunks, stride));
}

int64_t fm_cuda_layer_norm_scratch(int batch, int length, int channels)
{
    const fm_columns f = fm_columns_for(batch, length, channels);
    return f.chunks > 1 ? (int64_t)f.chunks * channels * 2 * (int64_t)(sizeof(double) / sizeof(float)) : 0;
}

/* The parameters first: dx may lie where x or dy does. */
cudaError_t fm_cuda_layer_norm_grad(struct fm_cuda_place place, int rows, int channels,
                                    struct fm_cuda_tensor x, struct fm_cuda_tensor dy, const float *gamma,
                                    const float *mean, const float *deviation, int accumulate,
                                    struct fm_cuda_tensor dx, float *dgamma, float *dbeta, float *scratch)
{
    layer_grad_pass p;
    p.place = place;
    p.f = fm_columns_for(place.rows, rows, channels);
    p.group = fm_group_for(channels);
    p.accumulate = accumulate;
    p.x = x;
    p.dy = dy;
    p.dx = dx;
    p.gamma = gamma;
    p.mean = mean;
    p.inverse = deviation;
    p.dgamma = dgamma;
    p.dbeta = dbeta;
    p.sums = reinterpret_cast<double *>(scratch);
    cudaError_t status = cudaSuccess;
    if (dgamma || dbeta) {
        status = fm_launch(parameter_sums, fm_columns_grid(p.f), dim3(FM_COLUMN_THREADS),
                           fm_columns_shared(p.f), place.stream, p);
        if (status == cudaSuccess && p.f.chunks > 1)
            status =
                fm_launch(parameter_join, dim3(fm_blocks_for(channels, 128)), dim3(128), 0, place.stream, p);
    }
    if (status == cudaSuccess && dx.at)
        status = fm_launch(input_grad, fm_group_blocks(place, rows, p.group), dim3(FM_GROUP_THREADS), 0,
                           place.stream, p);
    return status;
}
