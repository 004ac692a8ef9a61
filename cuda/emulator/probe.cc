/* See probe.h. */
#include "emulator/device.h"

#include "emulator/probe.h"

static __global__ void scale(float *x, int n, float factor)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) x[i] = x[i] * factor + 1;
}

cudaError_t fm_probe_scale(cudaStream_t stream, float *x, int n, float factor)
{
    return fm_launch(scale, dim3((unsigned)(n + 31) / 32), dim3(32), 0, stream, x, n, factor);
}

static __global__ void scale_by(float *x, int n, const float *factor)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) x[i] = x[i] * *factor + 1;
}

cudaError_t fm_probe_scale_by(cudaStream_t stream, float *x, int n, const float *factor)
{
    return fm_launch(scale_by, dim3((unsigned)(n + 31) / 32), dim3(32), 0, stream, x, n, factor);
}

static __global__ void move(float *to, const float *from)
{
    to[0] = from[0];
}

cudaError_t fm_probe_move(cudaStream_t stream, float *to, const float *from)
{
    return fm_launch(move, dim3(1), dim3(1), 0, stream, to, from);
}

static __global__ void number(int *out)
{
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
    out[i] = (int)i;
}

cudaError_t fm_probe_index(cudaStream_t stream, int *out, struct dim3 grid, struct dim3 block)
{
    return fm_launch(number, grid, block, 0, stream, out);
}

static __global__ void reverse(float *x, int n, int barrier)
{
    __shared__ float room[256];
    int i = (int)threadIdx.x;
    room[i] = x[i];
    if (barrier) __syncthreads();
    x[i] = room[n - 1 - i];
}

static __global__ void reverse_dynamic(float *x, int n, int barrier)
{
    FM_DYNAMIC_SHARED(float, room);
    int i = (int)threadIdx.x;
    room[i] = x[i];
    if (barrier) __syncthreads();
    x[i] = room[n - 1 - i];
}

cudaError_t fm_probe_reverse(cudaStream_t stream, float *x, int n, int dynamic, int barrier)
{
    dim3 block((unsigned)n);
    if (dynamic)
        return fm_launch(reverse_dynamic, dim3(1), block, (size_t)n * sizeof(float), stream, x, n, barrier);
    return fm_launch(reverse, dim3(1), block, 0, stream, x, n, barrier);
}

static __global__ void barriers(int *out, int n, int rounds)
{
    __shared__ int sum;
    int i = (int)threadIdx.x, low = i < n;
    int any = __syncthreads_or(low), all = __syncthreads_and(low), count = __syncthreads_count(low);
    if (i == 0) sum = 0;
    for (int r = 0; r < rounds; r++) {
        __syncthreads();
        if (i == r % (int)blockDim.x) sum += r;
    }
    __syncthreads();
    if (i) return;
    out[0] = any;
    out[1] = all;
    out[2] = count;
    out[3] = sum;
}

cudaError_t fm_probe_barriers(cudaStream_t stream, int *out, int threads, int n, int rounds)
{
    return fm_launch(barriers, dim3(1), dim3((unsigned)threads), 0, stream, out, n, rounds);
}

static float sink(volatile float *deep, int n)
{
    volatile float room[4096];
    room[n & 4095] = deep[0] + 1;
    return n > 0 ? sink(room, n - 1) + room[n & 4095] : room[0];
}

static __global__ void mistaken(float *out, int mistake)
{
    FM_DYNAMIC_SHARED(float, room);
    bool odd = threadIdx.x % 2;
    volatile float seed = 0;
    switch (mistake) {
    case FM_PROBE_TWO_BARRIERS:
        if (odd)
            __syncthreads();
        else
            __syncthreads();
        break;
    case FM_PROBE_ENDED:
        if (odd) return;
        __syncthreads();
        break;
    case FM_PROBE_SKIPPED:
        if (odd) __syncthreads();
        break;
    case FM_PROBE_NOT_IN_MASK: __shfl_sync(0x55555555u, 1.0f, 0); break;
    case FM_PROBE_ALONE:
        if (odd)
            __any_sync(0xffffffffu, 1);
        else
            __syncthreads();
        break;
    case FM_PROBE_DEEP: seed = sink(&seed, 1000); break;
    case FM_PROBE_BEYOND: room[blockDim.x] = 1; break;
    case FM_PROBE_TRAP: __trap();
    }
    out[0] = seed;
}

cudaError_t fm_probe_mistake(cudaStream_t stream, float *out, enum fm_probe_mistake mistake)
{
    return fm_launch(mistaken, dim3(1), dim3(64), 64 * sizeof(float), stream, out, (int)mistake);
}

static __global__ void warp(int *out)
{
    int i = (int)threadIdx.x, lane = i % 32;
    out += 8 * i;
    out[0] = __shfl_sync(0xffffffffu, i, 3);
    out[1] = __shfl_up_sync(0xffffffffu, i, 1);
    out[2] = __shfl_down_sync(0xffffffffu, i, 1);
    out[3] = __shfl_xor_sync(0xffffffffu, i, 5, 8);
    out[4] = (int)__ballot_sync(0xffffffffu, lane % 2);
    out[5] = __any_sync(0xffffffffu, i == 33);
    out[6] = __all_sync(0xffffffffu, i < 40);
    out[7] = lane % 2 ? -1 : __shfl_xor_sync(0x55555555u, i, 2);
}

cudaError_t fm_probe_warp(cudaStream_t stream, int *out, int threads)
{
    return fm_launch(warp, dim3(1), dim3((unsigned)threads), 0, stream, out);
}

static __global__ void mixed(unsigned *out, int rounds)
{
    FM_DYNAMIC_SHARED(unsigned, room);
    unsigned i = threadIdx.x, v = i;
    for (int r = 0; r < rounds; r++) {
        room[i] = v;
        __syncthreads();
        unsigned next = room[(i + 1) % blockDim.x];
        __syncthreads();
        v = 3 * v + next;
        v = 3 * v + __shfl_xor_sync(0xffffffffu, v, 1 << r % 5);
        if (i % 2 == 0) v = 3 * v + __shfl_xor_sync(0x55555555u, v, 2);
        if (i / 32 % 2) v = 3 * v + __shfl_down_sync(0xffffffffu, v, 1);
    }
    out[i] = v;
}

cudaError_t fm_probe_mixed(cudaStream_t stream, unsigned *out, int threads, int rounds)
{
    size_t bytes = (size_t)threads * sizeof(unsigned);
    return fm_launch(mixed, dim3(1), dim3((unsigned)threads), bytes, stream, out, rounds);
}

static __global__ void atomics(unsigned *out)
{
    __shared__ unsigned last;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&out[0], i);
    atomicInc(&out[1], 9);
    atomicMax(&out[2], i);
    atomicMin(&out[3], i);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(&out[5], gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0) out[4] = gridDim.x;
}

cudaError_t fm_probe_atomics(cudaStream_t stream, unsigned *out, int blocks, int threads)
{
    return fm_launch(atomics, dim3((unsigned)blocks), dim3((unsigned)threads), 0, stream, out);
}

static __global__ void poison(float *out, const float *x)
{
    __shared__ float room[33];
    FM_DYNAMIC_SHARED(float, more);
    if (threadIdx.x == 0) {
        out[0] = room[0];
        out[1] = room[32];
        out[2] = more[7];
        out[3] = x[0];
    }
    __syncthreads();
    room[threadIdx.x] = 1;
    room[32] = 1;
    more[threadIdx.x] = 1;
}

cudaError_t fm_probe_poison(cudaStream_t stream, float *out, const float *x, int blocks)
{
    return fm_launch(poison, dim3((unsigned)blocks), dim3(32), 32 * sizeof(float), stream, out, x);
}

cudaError_t fm_probe_shared(cudaStream_t stream, float *out, size_t dynamic)
{
    return fm_launch(poison, dim3(1), dim3(32), dynamic, stream, out, (const float *)out);
}

struct much {
    char bytes[4096];
};
static __global__ void nothing(int) {}
static __global__ void nothing_much(struct much) {}

cudaError_t fm_probe_launch(cudaStream_t stream, struct dim3 grid, struct dim3 block, size_t shared, int much)
{
    struct much arguments = {};
    if (much) return fm_launch(nothing_much, grid, block, shared, stream, arguments);
    return fm_launch(nothing, grid, block, shared, stream, 0);
}

static __global__ void signal_word(volatile uint64_t *word, uint64_t value)
{
    __threadfence_system();
    *word = value;
}

cudaError_t fm_probe_signal(cudaStream_t stream, volatile uint64_t *word, uint64_t value)
{
    return fm_launch(signal_word, dim3(1), dim3(1), 0, stream, word, value);
}
