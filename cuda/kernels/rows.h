/* What kernels that work on elements, rows and columns of tensors share.
 *
 * Rows: a group of 1, 2, 4 ... 32 threads of a warp works on a row; how many follows from the row's width
 * alone. All threads of a warp take part in a group's sums, so threads beyond the last row work on the last
 * one and write nothing.
 *
 * Columns: sums over all rows of a batch for each channel. A block has FM_COLUMN_THREADS threads: a stretch
 * of at most 32 channels times as many lanes as fit; lane l takes rows first + l, first + l + lanes, ... of
 * the block's chunk. Sixteen terms are added in float, such sums in double, then lanes by a tree, then chunks
 * in order: the order follows from batch size, length and channels alone. */
#ifndef FM_CUDA_KERNELS_ROWS_H
#define FM_CUDA_KERNELS_ROWS_H

#include "kernels/step.h"

static inline unsigned fm_blocks_for(int64_t threads, int block)
{
    return (unsigned)((threads + block - 1) / block);
}

/* ---- rows ---- */

static inline int fm_group_for(int width)
{
    int group = 1;
    while (group < width && group < 32) group *= 2;
    return group;
}
/* The sum of v over the threads of a group; each gets the same bits. */
static inline __device__ float fm_group_sum(float v, int group)
{
    for (int d = group / 2; d; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}
/* The largest; unspecified where one is NaN. */
static inline __device__ float fm_group_max(float v, int group)
{
    for (int d = group / 2; d; d /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, v, d);
        v = other > v ? other : v;
    }
    return v;
}

enum { FM_GROUP_THREADS = 128 };

/* A thread's row: its example, its place there, and the thread's number in the group. real == false: beyond
 * the last row, which is then worked on once more. */
struct fm_group_row {
    int i, l, first;
    bool real;
};
static inline __device__ fm_group_row fm_group_row_here(int examples, int length, int group)
{
    const int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t row = thread / group, last = (int64_t)examples * length - 1;
    fm_group_row r;
    r.real = row <= last;
    r.i = (int)((r.real ? row : last) / length);
    r.l = (int)((r.real ? row : last) % length);
    r.first = (int)(thread % group);
    return r;
}
static inline dim3 fm_group_blocks(const fm_cuda_place &place, int length, int group)
{
    return dim3(fm_blocks_for((int64_t)place.rows * length * group, FM_GROUP_THREADS));
}

/* ---- columns ---- */

enum { FM_COLUMN_THREADS = 256, FM_COLUMN_CHUNKS = 64, FM_COLUMN_CHAIN = 16 };

struct fm_columns {
    int length, channels;     /* of an example */
    int groups, width, lanes; /* stretches of channels; channels of one; rows at a time */
    int chunks, chunk_rows;   /* of the whole batch */
    int rows;                 /* of the whole batch */
};

static inline fm_columns fm_columns_for(int batch, int length, int channels)
{
    fm_columns f;
    f.length = length;
    f.channels = channels;
    f.rows = batch * length;
    f.groups = (channels + 31) / 32;
    f.width = (channels + f.groups - 1) / f.groups;
    f.lanes = FM_COLUMN_THREADS / f.width;
    const int wish = f.rows / (f.lanes * 2 * FM_COLUMN_CHAIN);
    f.chunks = wish < 1 ? 1 : wish > FM_COLUMN_CHUNKS ? (int)FM_COLUMN_CHUNKS : wish;
    f.chunk_rows = (f.rows + f.chunks - 1) / f.chunks;
    return f;
}
static inline dim3 fm_columns_grid(const fm_columns &f)
{
    return dim3((unsigned)f.chunks, (unsigned)f.groups);
}
/* Bytes of shared memory that fm_column_sum needs. */
static inline size_t fm_columns_shared(const fm_columns &f)
{
    return (size_t)f.lanes * (size_t)f.width * sizeof(double);
}

/* A thread's place: its channel, its lane, the rows of its chunk. Threads without one have real == false. */
struct fm_column {
    int channel, lane, slot;
    int first, end;
    bool real;
};
static inline __device__ fm_column fm_column_here(const fm_columns &f)
{
    const int thread = (int)threadIdx.x, inside = thread % f.width;
    fm_column c;
    c.lane = thread / f.width;
    c.slot = c.lane * f.width + inside;
    c.channel = (int)blockIdx.y * f.width + inside;
    c.real = c.lane < f.lanes && c.channel < f.channels;
    c.first = (int)blockIdx.x * f.chunk_rows;
    c.end = c.first + f.chunk_rows < f.rows ? c.first + f.chunk_rows : f.rows;
    return c;
}
/* Where row `row` of the batch begins in a tensor. */
static inline __device__ int fm_row_offset(const fm_columns &f, const fm_cuda_tensor &t, int row)
{
    if (t.example == f.length * f.channels) return row * f.channels;
    return row / f.length * t.example + row % f.length * f.channels;
}
/* The sum of v over the lanes of a channel, for all of its threads. `room` is shared memory. */
static inline __device__ double fm_column_sum(double v, const fm_columns &f, const fm_column &c, double *room)
{
    if (c.real) room[c.slot] = v;
    __syncthreads();
    for (int left = f.lanes; left > 1;) {
        const int half = (left + 1) / 2;
        if (c.real && c.lane + half < left) room[c.slot] += room[c.slot + half * f.width];
        left = half;
        __syncthreads();
    }
    const double sum = c.real ? room[c.slot - c.lane * f.width] : 0;
    __syncthreads();
    return sum;
}
/* The sum over all chunks of a partial sum that lies `stride` doubles from one chunk to the next. */
static inline __device__ double fm_column_join(const double *partial, int chunks, int stride)
{
    double sum = 0;
    for (int k = 0; k < chunks; k++) sum += partial[(int64_t)k * stride];
    return sum;
}

#endif
