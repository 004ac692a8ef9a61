/* Batch normalisation (semantics.md 1.4; engine/reference/norm.inc is the plain version).
 *
 * The first sum is of differences to the batch's first row, and the second pass sums d = x - mean and d * d
 * with the mean rounded to float, whose error comes out of the sum of d (`rest`): so equal numbers have
 * variance 0 wherever they lie, and numbers far from zero keep their spread.
 *
 * Small batches: one launch, a block for each stretch of channels. Others: one launch each for sum, squares
 * and result (for the gradient: sums, result), where every block of a launch joins the partial sums of the
 * one before by itself, in the same order. */
#include "kernels/rows.h"

struct norm_pass {
    fm_cuda_place place;
    fm_columns f;
    fm_cuda_tensor x, y;
    const float *gamma, *beta;
    double epsilon;
    float *mean, *variance;
    double *sums;    /* [chunks][channels] */
    double *squares; /* [chunks][2][channels]: of d, of d * d */
};

/* Mean = center + rest. */
struct norm_statistics {
    float center;
    double rest, variance;
};

static __device__ int valid_rows(const norm_pass &p)
{
    return p.place.lane->control.n * p.f.length;
}

/* Sums of x - center and, where wanted, of its square over the valid rows of the thread's lane. */
static __device__ void sum_lane(const norm_pass &p, const fm_column &c, float center, double &sum,
                                double &square)
{
    const int valid = valid_rows(p), end = c.end < valid ? c.end : valid;
    sum = square = 0;
    if (!c.real) return;
    for (int row = c.first + c.lane; row < end;) {
        float a = 0, b = 0;
        for (int k = 0; k < FM_COLUMN_CHAIN && row < end; k++, row += p.f.lanes) {
            const float d = p.x.at[fm_row_offset(p.f, p.x, row) + c.channel] - center;
            a += d;
            b = fmaf(d, d, b);
        }
        sum += (double)a;
        square += (double)b;
    }
}

static __device__ norm_statistics with_sum(const norm_pass &p, float first, double sum)
{
    norm_statistics s;
    s.center = (float)((double)first + sum / (double)valid_rows(p));
    s.rest = s.variance = 0;
    return s;
}

static __device__ void with_squares(const norm_pass &p, double sum, double square, norm_statistics &s)
{
    const double rows = (double)valid_rows(p);
    s.rest = sum / rows;
    s.variance = square / rows - s.rest * s.rest;
    if (s.variance < 0) s.variance = 0; /* NaN stays */
}

/* y of the chunk's rows, valid or not; the first chunk keeps the statistics. */
static __device__ void apply(const norm_pass &p, const fm_column &c, const norm_statistics &s)
{
    if (!c.real) return;
    const double inverse = 1 / sqrt(s.variance + p.epsilon);
    const float factor = (float)inverse, shift = (float)(-s.rest * inverse);
    const float gamma = p.gamma ? p.gamma[c.channel] : 1.0f, beta = p.beta ? p.beta[c.channel] : 0.0f;
    if (blockIdx.x == 0 && c.lane == 0) {
        p.mean[c.channel] = (float)((double)s.center + s.rest);
        p.variance[c.channel] = (float)s.variance;
    }
    for (int row = c.first + c.lane; row < c.end; row += p.f.lanes) {
        const float d = p.x.at[fm_row_offset(p.f, p.x, row) + c.channel] - s.center;
        p.y.at[fm_row_offset(p.f, p.y, row) + c.channel] = fmaf(fmaf(d, factor, shift), gamma, beta);
    }
}

static __device__ float first_row(const norm_pass &p, const fm_column &c)
{
    return c.real ? p.x.at[c.channel] : 0.0f;
}

static __device__ norm_statistics joined_sum(const norm_pass &p, const fm_column &c)
{
    return with_sum(p, first_row(p, c),
                    c.real ? fm_column_join(p.sums + c.channel, p.f.chunks, p.f.channels) : 0);
}

static __global__ void norm_whole(norm_pass p)
{
    FM_DYNAMIC_SHARED(double, room);
    if (!fm_turn(p.place)) return;
    const fm_column c = fm_column_here(p.f);
    const float first = first_row(p, c);
    double sum, square;
    sum_lane(p, c, first, sum, square);
    norm_statistics s = with_sum(p, first, fm_column_sum(sum, p.f, c, room));
    sum_lane(p, c, s.center, sum, square);
    sum = fm_column_sum(sum, p.f, c, room);
    square = fm_column_sum(square, p.f, c, room);
    with_squares(p, sum, square, s);
    apply(p, c, s);
}

static __global__ void norm_sums(norm_pass p)
{
    FM_DYNAMIC_SHARED(double, room);
    if (!fm_turn(p.place)) return;
    const fm_column c = fm_column_here(p.f);
    double sum, square;
    sum_lane(p, c, first_row(p, c), sum, square);
    sum = fm_column_sum(sum, p.f, c, room);
    if (c.real && c.lane == 0) p.sums[(int)blockIdx.x * p.f.channels + c.channel] = sum;
}

static __global__ void norm_squares(norm_pass p)
{
    FM_DYNAMIC_SHARED(double, room);
    if (!fm_turn(p.place)) return;
    const fm_column c = fm_column_here(p.f);
    const norm_statistics s = joined_sum(p, c);
    double sum, square;
    sum_lane(p, c, s.center, sum, square);
    sum = fm_column_sum(sum, p.f, c, room);
    square = fm_column_sum(square, p.f, c, room);
    if (!c.real || c.lane) return;
    double *to = p.squares + (int)blockIdx.x * 2 * p.f.channels + c.channel;
    to[0] = sum;
    to[p.f.channels] = square;
}

static __global__ void norm_result(norm_pass p)
{
    if (!fm_turn(p.place)) return;
    const fm_column c = fm_column_here(p.f);
    norm_statistics s = joined_sum(p, c);
    if (!c.real) return;
    const double *from = p.squares + c.channel;
    const int stride = 2 * p.f.channels;
    with_squares(p, fm_column_join(from, p.f.chunks, stride),
                 fm_column_join(from + p.f.channels, p.f.chunks, stride), s);
    apply(p, c, s);
}

int64_t fm_cuda_batch_norm_scratch(int batch, int length, int channels)
{
    const fm_columns f = fm_columns_for(batch, length, channels);
    return f.chunks > 1 ? (int64_t)f.chunks * channels * 3 * (int64_t)(sizeof(double) / sizeof(float)) : 0;
}

cudaError_t fm_cuda_batch_norm(struct fm_cuda_place place, int rows, int channels, struct fm_cuda_tensor x,
                               const float *gamma, const float *beta, double epsilon, float *mean,
                               float *variance, struct fm_cuda_tensor y, float *scratch)
{
    norm_pass p;
    p.place = place;
    p.f = fm_columns_for(place.rows, rows, channels);
    p.x = x;
    p.y = y;
    p.gamma = gamma;
    p.beta = beta;
    p.epsilon = epsilon;
    p.mean = mean;
    p.variance = variance;
    p.sums = reinterpret_cast<double *>(scratch);
    p.squares = p.f.chunks > 1 ? p.sums + p.f.chunks * channels : NULL;
    const dim3 grid = fm_columns_grid(p.f), block(FM_COLUMN_THREADS);
    const size_t shared = fm_columns_shared(p.f);
    if (p.f.chunks == 1) return fm_launch(norm_whole, grid, block, shared, place.stream, p);
    cudaError_t status = fm_launch(norm_sums, grid, block, shared, place.stream, p);
    if (status == cudaSuccess) status = fm_launch(norm_squares, grid, block, shared, place.stream, p);
    if (status == cudaSuccess) status = fm_launch(norm_result, grid, block, 0, place.stream, p);
    return status;
}

/* ---- gradient: dx = (dy - mean of dy - xhat * mean of (dy * xhat)) * gamma / deviation ---- */

struct norm_grad_pass {
    fm_cuda_place place;
    fm_columns f;
    fm_cuda_tensor x, dy, dx;
    const float *gamma, *mean, *variance;
    double epsilon;
    float *dgamma, *dbeta;
    int accumulate;
    double *sums; /* [chunks][2][channels]: of dy, of dy * (x - mean) */
};

static __device__ void grad_lane(const norm_grad_pass &p, const fm_column &c, double &sum, double &dot)
{
    const int valid = p.place.lane->control.n * p.f.length, end = c.end < valid ? c.end : valid;
    sum = dot = 0;
    if (!c.real) return;
    const float mean = p.mean[c.channel];
    for (int row = c.first + c.lane; row < end;) {
        float a = 0, b = 0;
        for (int k = 0; k < FM_COLUMN_CHAIN && row < end; k++, row += p.f.lanes) {
            const float dy = p.dy.at[fm_row_offset(p.f, p.dy, row) + c.channel];
            a += dy;
            b = fmaf(dy, p.x.at[fm_row_offset(p.f, p.x, row) + c.channel] - mean, b);
        }
        sum += (double)a;
        dot += (double)b;
    }
}

static __device__ void grad_apply(const norm_grad_pass &p, const fm_column &c, double sum, double dot)
{
    if (!c.real) return;
    const int valid = p.place.lane->control.n * p.f.length;
    const double inverse = 1 / sqrt((double)p.variance[c.channel] + p.epsilon);
    if (blockIdx.x == 0 && c.lane == 0) {
        if (p.dgamma) p.dgamma[c.channel] = (float)(dot * inverse);
        if (p.dbeta) p.dbeta[c.channel] = (float)sum;
    }
    if (!p.dx.at) return;
    const float mean = p.mean[c.channel], factor = (float)inverse;
    const float scale = factor * (p.gamma ? p.gamma[c.channel] : 1.0f);
    const float ma = (float)(sum / (double)valid), mb = (float)(dot * inverse / (double)valid);
    for (int row = c.first + c.lane; row < c.end; row += p.f.lanes) {
        float d = 0; /* the sums' part would not be zero in rows that count nothing */
        if (row < valid) {
            const float dy = p.dy.at[fm_row_offset(p.f, p.dy, row) + c.channel];
            const float xhat = (p.x.at[fm_row_offset(p.f, p.x, row) + c.channel] - mean) * factor;
            d = fmaf(-xhat, mb, dy - ma) * scale;
        }
        float *to = p.dx.at + fm_row_offset(p.f, p.dx, row) + c.channel;
        *to = p.accumulate ? *to + d : d;
    }
}

static __global__ void grad_whole(norm_grad_pass p)
{
    FM_DYNAMIC_SHARED(double, room);
    if (!fm_turn(p.place)) return;
    const fm_column c = fm_column_here(p.f);
    double sum, dot;
    grad_lane(p, c, sum, dot);
    sum = fm_column_sum(sum, p.f, c, room);
    dot = fm_column_sum(dot, p.f, c, room);
    grad_apply(p, c, sum, dot);
}

static __global__ void grad_sums(norm_grad_pass p)
{
    FM_DYNAMIC_SHARED(double, room);
    if (!fm_turn(p.place)) return;
    const fm_column c = fm_column_here(p.f);
    double sum, dot;
    grad_lane(p, c, sum, dot);
    sum = fm_column_sum(sum, p.f, c, room);
    dot = fm_column_sum(dot, p.f, c, room);
    if (!c.real || c.lane) return;
    double *to = p.sums + (int)blockIdx.x * 2 * p.f.channels + c.channel;
    to[0] = sum;
    to[p.f.channels] = dot;
}

static __global__ void grad_result(norm_grad_pass p)
{
    if (!fm_turn(p.place)) return;
    const fm_column c = fm_column_here(p.f);
    if (!c.real) return;
    const double *from = p.sums + c.channel;
    const int stride = 2 * p.f.channels;
    grad_apply(p, c, fm_column_join(from, p.f.chunks, stride),
               fm_column_join(from + p.f.channels, p.f.chunks, stride));
}

cudaError_t fm_cuda_batch_norm_grad(struct fm_cuda_place place, int rows, int channels,
                                    struct fm_cuda_tensor x, struct fm_cuda_tensor dy, const float *gamma,
                                    const float *mean, const float *variance, double epsilon, int accumulate,
                                    struct fm_cuda_tensor dx, float *dgamma, float *dbeta, float *scratch)
{
    norm_grad_pass p;
    p.place = place;
    p.f = fm_columns_for(place.rows, rows, channels);
    p.x = x;
    p.dy = dy;
    p.dx = dx;
    p.gamma = gamma;
    p.mean = mean;
    p.variance = variance;
    p.epsilon = epsilon;
    p.dgamma = dgamma;
    p.dbeta = dbeta;
    p.accumulate = accumulate;
    p.sums = reinterpret_cast<double *>(scratch);
    const dim3 grid = fm_columns_grid(p.f), block(FM_COLUMN_THREADS);
    const size_t shared = fm_columns_shared(p.f);
    if (p.f.chunks == 1) return fm_launch(grad_whole, grid, block, shared, place.stream, p);
    const cudaError_t status = fm_launch(grad_sums, grid, block, shared, place.stream, p);
    return status == cudaSuccess ? fm_launch(grad_result, grid, block, 0, place.stream, p) : status;
}

/* ---- moving statistics ---- */

static __global__ void moving(fm_cuda_place place, int channels, const float *mean, const float *variance,
                              float keep, float share, float *moving_mean, float *moving_variance)
{
    if (!fm_turn(place) || place.lane->control.bad) return;
    const int c = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (c >= channels) return;
    moving_mean[c] = fmaf(moving_mean[c], keep, mean[c] * share);
    moving_variance[c] = fmaf(moving_variance[c], keep, variance[c] * share);
}

cudaError_t fm_cuda_batch_norm_moving(struct fm_cuda_place place, int rows, int channels, const float *mean,
                                      const float *variance, double momentum, float *moving_mean,
                                      float *moving_variance)
{
    (void)rows;
    return fm_launch(moving, dim3(fm_blocks_for(channels, 128)), dim3(128), 0, place.stream, place, channels,
                     mean, variance, (float)momentum, (float)(1 - momentum), moving_mean, moving_variance);
}

static __global__ void infer(fm_cuda_place place, int count, int channels, fm_cuda_tensor x,
                             const float *gamma, const float *beta, const float *mean, const float *variance,
                             float epsilon, fm_cuda_tensor y)
{
    if (!fm_turn(place)) return;
    const int thread = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (thread >= place.rows * count) return;
    const int i = thread / count, e = thread % count, c = e % channels;
    const float d = x.at[(int64_t)i * x.example + e] - mean[c];
    y.at[(int64_t)i * y.example + e] =
        fmaf(d / sqrtf(variance[c] + epsilon), gamma ? gamma[c] : 1.0f, beta ? beta[c] : 0.0f);
}

cudaError_t fm_cuda_batch_norm_infer(struct fm_cuda_place place, int rows, int channels,
                                     struct fm_cuda_tensor x, const float *gamma, const float *beta,
                                     const float *moving_mean, const float *moving_variance, double epsilon,
                                     struct fm_cuda_tensor y)
{
    const int count = rows * channels;
    return fm_launch(infer, dim3(fm_blocks_for((int64_t)place.rows * count, 256)), dim3(256), 0, place.stream,
                     place, count, channels, x, gamma, beta, moving_mean, moving_variance, (float)epsilon, y);
}
