/* The examples of a step or chunk: which they are, where their windows lie in the series, and the windows
 * themselves, scaled. A block works on one row, or on one piece of a row with a long window; its first warp
 * looks everything up, 32 probes at a time, because each probe waits for memory. The same numbers as
 * base/permutation.c, base/indexset.c, data/slab.c and engine/host/order.c. */
#include "kernels/device.h"

#include "config/sweep.h"
#include "data/dataset.h"
#include "kernels/philox.h"
#include "kernels/step.h"
#include "kernels/targets.h"

enum { THREADS = 128, PIECE = 8192 }; /* PIECE: elements of a window that a block copies */

/* ---- searches by a warp: all lanes call them with the same arguments and get the same answer ---- */

static __device__ int lane_number(void)
{
    return (int)(threadIdx.x & 31);
}

/* The last i of [0, n) whose key is at most `limit`; the first key is. key(i) = *(int64_t *)(base + i *
 * pitch). 32 probes cut [low, low + n) into 32 pieces of equal length. */
static __device__ int64_t search(const void *base, int64_t pitch, int64_t n, int64_t limit)
{
    int64_t low = 0;
    while (n > 1) {
        const int64_t piece = (n + 31) / 32, at = low + lane_number() * piece;
        const bool holds = at < low + n && *(const int64_t *)((const char *)base + at * pitch) <= limit;
        const int found = __popc(__ballot_sync(0xffffffffu, holds));
        const int64_t end = low + n;
        low += (found - 1) * piece;
        n = end - low < piece ? end - low : piece;
    }
    return low;
}

/* Place of the n-th set bit of a word (from 0). */
static __device__ int select_bit(uint64_t word, int n)
{
    int place = 0;
    for (int width = 32; width > 0; width /= 2) {
        const int below = __popcll(word & ((UINT64_C(1) << width) - 1));
        if (n >= below) {
            n -= below;
            place += width;
            word >>= width;
        }
    }
    return place;
}

/* The block of the bitmap's rank directory with the i-th member: mostly near where `pace` says. */
static __device__ int64_t block_of(const struct fm_cuda_set &set, int64_t blocks, int64_t i)
{
    int64_t first = (int64_t)((double)i * set.pace) - 16;
    first = first > blocks - 32 ? blocks - 32 : first;
    first = first < 0 ? 0 : first;
    const int64_t at = first + lane_number();
    const unsigned holds = __ballot_sync(0xffffffffu, at < blocks && set.blocks[at].before <= i);
    const int found = __popc(holds);
    if (found > 0 && (found < 32 || first + 32 >= blocks)) return first + found - 1;
    return search(set.blocks, sizeof *set.blocks, blocks, i);
}

static __device__ int64_t member(const struct fm_cuda_set &set, int64_t i)
{
    if (!set.bits) {
        const struct fm_stretch &run = set.runs[search(&set.runs->before, sizeof *set.runs, set.nruns, i)];
        return run.first + (i - run.before) * run.stride;
    }
    const int64_t words = (set.nbits + 63) / 64;
    const int64_t block = block_of(set, (words + FM_INDEXSET_BLOCK - 1) / FM_INDEXSET_BLOCK, i);
    const uint64_t sums = set.blocks[block].sums;
    int rest = (int)(i - set.blocks[block].before), word = 0, before = 0;
    for (int w = 0; w < FM_INDEXSET_BLOCK - 1; w++) {
        const int up_to = (int)(sums >> 9 * w & 511);
        if (up_to <= rest) {
            word = w + 1;
            before = up_to;
        }
    }
    const int64_t at = block * FM_INDEXSET_BLOCK + word;
    return set.origin + (at * 64 + select_bit(set.bits[at], rest - before)) * set.stride;
}

/* ---- which example ---- */

/* Place i of a permutation of n: base/permutation.c. */
static __device__ uint64_t permuted(uint64_t n, uint64_t key, uint32_t pass, uint64_t i)
{
    int half = 1;
    while ((n - 1) >> (2 * half)) half++;
    const uint32_t mask = (uint32_t)((UINT64_C(1) << half) - 1);
    do {
        uint32_t left = (uint32_t)(i >> half), right = (uint32_t)i & mask;
        for (uint32_t round = 0; round < 6; round++) {
            const uint32_t random = fm_device_philox(right, round, pass, 0, key).word[0];
            const uint32_t next = left ^ (random & mask);
            left = right;
            right = next;
        }
        i = (uint64_t)left << half | right;
    } while (i >= n);
    return i;
}

/* What a block needs to know of its row. `n`: valid rows of the step or chunk. */
struct row_place {
    int64_t example, anchor, record, first; /* first: stored position */
    int n, before, rows;                    /* rows of zeros, rows of the series */
};

static __device__ void find_example(const struct fm_cuda_lane &lane, int batch, int row,
                                    struct row_place &place)
{
    const struct fm_cuda_control &c = lane.control;
    const bool trains = c.activity == FM_CUDA_TRAINS;
    const struct fm_cuda_set &set = lane.part[trains ? (int)FM_PART_TRAIN : c.part];
    const int64_t first = trains ? c.step % lane.pass_steps * lane.batch : c.at, left = set.count - first;
    place.n = left < batch ? (int)left : batch;
    int64_t at = first + (row < place.n ? row : place.n - 1);
    if (trains && lane.hyper.shuffle)
        at = (int64_t)permuted((uint64_t)set.count, lane.shuffle_key, (uint32_t)(c.step / lane.pass_steps),
                               (uint64_t)at);
    place.example = member(set, at);
}

/* data/slab.c. */
static __device__ void find_window(const struct fm_cuda_data &data, struct row_place &place)
{
    place.anchor = member(data.anchors, place.example);
    place.record = search(data.starts, sizeof *data.starts, data.nrecords, place.anchor);
    const int64_t base = data.starts[place.record];
    const int64_t length =
        data.lengths ? data.lengths[place.record] : data.starts[place.record + 1] - base - data.head;
    int64_t start = place.anchor - base - data.lead, before = 0, after = 0;
    if (data.wraps) {
        if (start < 0 || start >= length) start %= length;
        if (start < 0) start += length;
    } else {
        const int64_t end = start + data.length;
        before = start < 0 ? -start : 0;
        after = end > length ? end - length : 0;
        start += before;
    }
    place.first = base + start;
    place.before = (int)before;
    place.rows = (int)(data.length - before - after);
}

static __device__ float weight_of(const struct fm_cuda_lane &lane, const struct row_place &place)
{
    float weight = 1;
    if (lane.data.weights)
        weight = lane.data.weights[lane.data.weights_per_record ? place.record : place.anchor];
    if (lane.hyper.class_weights)
        weight *= lane.hyper.class_weights[fm_device_true_class(lane.data, place.example)];
    return weight;
}

/* By the first warp: the row's place for the block, and the lists of the batch. */
static __device__ void look_up(struct fm_cuda_lane *lane, int batch, int row, bool reports, int64_t *example,
                               float *weight, struct row_place *shared)
{
    struct row_place place;
    find_example(*lane, batch, row, place);
    find_window(lane->data, place);
    if (lane_number() != 0) return;
    *shared = place;
    if (!reports) return;
    example[row] = place.example;
    const bool trains = lane->control.activity == FM_CUDA_TRAINS;
    weight[row] = row >= place.n ? 0.0f : trains ? weight_of(*lane, place) : 1.0f;
    if (row == 0) lane->control.n = place.n;
}

/* ---- the windows ---- */

/* Elements [begin, end) of the window whose elements [low, high) come from the series. */
static __device__ void copy_numbers(const struct fm_cuda_data &data, const float *series, int channels,
                                    int begin, int end, int low, int high, float *out)
{
    const float *shift = data.shift, *factor = data.factor;
    const int step = THREADS % channels;
    int e = begin + (int)threadIdx.x, c = e % channels;
#pragma unroll 4
    for (; e < end; e += THREADS) {
        float x = 0;
        if (e >= low && e < high) {
            x = series[e - low];
            if (shift) x -= shift[c];
            if (factor) x *= factor[c];
        }
        out[e] = x;
        c += step;
        if (c >= channels) c -= channels;
    }
}

static __device__ void copy_letters(const uint8_t *series, int begin, int end, int low, int high,
                                    uint8_t *out)
{
#pragma unroll 4
    for (int e = begin + (int)threadIdx.x; e < end; e += THREADS)
        out[e] = e >= low && e < high ? series[e - low] : FM_NO_LETTER;
}

static __global__ void gather_windows(struct fm_cuda_place place, int pieces, int channels, int elements,
                                      struct fm_cuda_tensor out, struct fm_cuda_bytes letters,
                                      int64_t *example, float *weight)
{
    __shared__ struct row_place row_at;
    struct fm_cuda_lane *lane = place.lane;
    if (!fm_turn(place)) return;
    const int row = (int)blockIdx.x / pieces, begin = (int)blockIdx.x % pieces * PIECE;
    if (threadIdx.x < 32) look_up(lane, place.rows, row, begin == 0, example, weight, &row_at);
    __syncthreads();
    const struct row_place at = row_at;
    const int end = elements - begin < PIECE ? elements : begin + PIECE;
    const int low = at.before * channels, high = low + at.rows * channels;
    if (letters.at)
        copy_letters(lane->data.letters + at.first, begin, end, low, high,
                     letters.at + (int64_t)row * letters.example);
    else
        copy_numbers(lane->data, lane->data.values + at.first * channels, channels, begin, end, low, high,
                     out.at + (int64_t)row * out.example);
}

/* A block expands one piece of one example's letters. */
static __global__ void expand_letters(struct fm_cuda_place place, int pieces, int alphabet, int elements,
                                      struct fm_cuda_bytes letters, struct fm_cuda_tensor out)
{
    if (!fm_turn(place)) return;
    const int row = (int)blockIdx.x / pieces, begin = (int)blockIdx.x % pieces * PIECE;
    const int end = elements - begin < PIECE ? elements : begin + PIECE;
    const uint8_t *x = letters.at + (int64_t)row * letters.example;
    float *y = out.at + (int64_t)row * out.example;
    for (int e = begin + (int)threadIdx.x; e < end; e += THREADS) {
        const int r = e / alphabet;
        y[e] = x[r] == e - r * alphabet ? 1.0f : 0.0f; /* FM_NO_LETTER is beyond any alphabet */
    }
}

static int piece_count(int elements)
{
    return (elements - 1) / PIECE + 1;
}

cudaError_t fm_cuda_gather(struct fm_cuda_place place, int length, int channels, struct fm_cuda_tensor out,
                           struct fm_cuda_bytes letters, int64_t *example, float *weight)
{
    const int width = letters.at ? 1 : channels, pieces = piece_count(length * width);
    return fm_launch(gather_windows, dim3((unsigned)place.rows * (unsigned)pieces), dim3(THREADS), 0,
                     place.stream, place, pieces, width, length * width, out, letters, example, weight);
}

cudaError_t fm_cuda_onehot(struct fm_cuda_place place, int length, int alphabet, struct fm_cuda_bytes letters,
                           struct fm_cuda_tensor out)
{
    const int elements = length * alphabet, pieces = piece_count(elements);
    return fm_launch(expand_letters, dim3((unsigned)place.rows * (unsigned)pieces), dim3(THREADS), 0,
                     place.stream, place, pieces, alphabet, elements, letters, out);
}
