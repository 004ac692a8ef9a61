/* CUDA's device side for g++: what kernels/device.h includes under the emulator. See emulator.h for what it
 * shows.
 *
 * Built-in variables are globals that are rewritten whenever another thread of the block goes on. Barriers,
 * shuffles and votes suspend the thread (fibers.cc); what else is here computes at once. __shared__ variables
 * lie in a section of their own, which is filled with NaN before every block.
 *
 * Only what means the same on every card from sm_30 on, gives the same bits on a card, or is checked: no
 * atomics on floats, no fast-math intrinsics, no __activemask, no cooperative groups. Two threads of a block
 * never run at the same time, so atomics are plain.
 *
 * Fused multiply-add: g++ turns fmaf into one instruction where it may use FMA - the Makefile lets it, for
 * .cu files, on machines that have it - and calls libm's elsewhere, with the same bits at about four times
 * the time. a * b + c is never used in its place. */
#ifndef FM_EMULATOR_DEVICE_H
#define FM_EMULATOR_DEVICE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "emulator/include/cuda_runtime.h"

#define FM_EMULATED_HIDDEN __attribute__((visibility("hidden")))

extern "C" {
extern FM_EMULATED_HIDDEN uint3 threadIdx, blockIdx;
extern FM_EMULATED_HIDDEN dim3 blockDim, gridDim;
extern FM_EMULATED_HIDDEN int fm_emulated_lane;               /* of the thread within its warp */
extern FM_EMULATED_HIDDEN unsigned char *fm_emulated_dynamic; /* dynamic shared memory */

enum fm_emulated_barrier { FM_BARRIER, FM_BARRIER_OR, FM_BARRIER_AND, FM_BARRIER_COUNT };
enum fm_emulated_vote { FM_VOTE_BALLOT, FM_VOTE_ANY, FM_VOTE_ALL };
FM_EMULATED_HIDDEN int fm_emulated_sync(int kind, int predicate, const char *file, int line);
FM_EMULATED_HIDDEN uint64_t fm_emulated_shuffle(unsigned mask, uint64_t value, int source, const char *file,
                                                int line);
FM_EMULATED_HIDDEN unsigned fm_emulated_ballot(unsigned mask, int predicate, int kind, const char *file,
                                               int line);
FM_EMULATED_HIDDEN void fm_emulated_trap(const char *file, int line) __attribute__((noreturn));
/* `thread` runs one thread of the kernel with arguments that were copied `bytes` long. */
FM_EMULATED_HIDDEN cudaError_t fm_emulated_launch(const char *what, const char *file, int line,
                                                  void (*thread)(const void *), const void *arguments,
                                                  size_t bytes, dim3 grid, dim3 block, size_t shared,
                                                  cudaStream_t stream);
}

enum { warpSize = 32 };

#define __shared__                    static __attribute__((section("fm_emulated_shared")))
#define FM_DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(fm_emulated_dynamic)

#define FM_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

/* ---- barriers, shuffles, votes ------------------------------------------------------------------------- */

static inline void __syncthreads(FM_HERE)
{
    fm_emulated_sync(FM_BARRIER, 0, file, line);
}
static inline int __syncthreads_or(int predicate, FM_HERE)
{
    return fm_emulated_sync(FM_BARRIER_OR, predicate, file, line);
}
static inline int __syncthreads_and(int predicate, FM_HERE)
{
    return fm_emulated_sync(FM_BARRIER_AND, predicate, file, line);
}
static inline int __syncthreads_count(int predicate, FM_HERE)
{
    return fm_emulated_sync(FM_BARRIER_COUNT, predicate, file, line);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, FM_HERE)
{
    fm_emulated_ballot(mask, 0, FM_VOTE_BALLOT, file, line);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, FM_HERE)
{
    return fm_emulated_ballot(mask, predicate, FM_VOTE_BALLOT, file, line);
}
static inline int __any_sync(unsigned mask, int predicate, FM_HERE)
{
    return (int)fm_emulated_ballot(mask, predicate, FM_VOTE_ANY, file, line);
}
static inline int __all_sync(unsigned mask, int predicate, FM_HERE)
{
    return (int)fm_emulated_ballot(mask, predicate, FM_VOTE_ALL, file, line);
}

template <class T>
static inline T fm_emulated_shuffled(unsigned mask, T value, int source, const char *file, int line)
{
    static_assert(std::is_arithmetic<T>::value && sizeof(T) <= 8, "shuffles move numbers of 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = fm_emulated_shuffle(mask, bits, source, file, line);
    memcpy(&value, &bits, sizeof value);
    return value;
}
template <class T> static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, FM_HERE)
{
    int first = fm_emulated_lane & ~(width - 1);
    return fm_emulated_shuffled(mask, value, first + (source & (width - 1)), file, line);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, FM_HERE)
{
    int first = fm_emulated_lane & ~(width - 1), source = fm_emulated_lane - (int)delta;
    return fm_emulated_shuffled(mask, value, source < first ? fm_emulated_lane : source, file, line);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, FM_HERE)
{
    int last = fm_emulated_lane | (width - 1), source = fm_emulated_lane + (int)delta;
    return fm_emulated_shuffled(mask, value, source > last ? fm_emulated_lane : source, file, line);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int other, int width = 32, FM_HERE)
{
    int last = fm_emulated_lane | (width - 1), source = fm_emulated_lane ^ other;
    return fm_emulated_shuffled(mask, value, source > last ? fm_emulated_lane : source, file, line);
}

/* Only the compiler could reorder. */
static inline void __threadfence(void)
{
    __asm__ volatile("" ::: "memory");
}
static inline void __threadfence_block(void)
{
    __asm__ volatile("" ::: "memory");
}
static inline void __threadfence_system(void)
{
    __sync_synchronize();
}
static inline void __trap(FM_HERE)
{
    fm_emulated_trap(file, line);
}

/* ---- atomics: integers only ---------------------------------------------------------------------------- */

#define FM_ATOMIC(name, type, expression)                                                                    \
    static inline type name(type *address, type value)                                                       \
    {                                                                                                        \
        type old = *(volatile type *)address;                                                                \
        *(volatile type *)address = (expression);                                                            \
        return old;                                                                                          \
    }
#define FM_ATOMICS(type, wide)                                                                               \
    FM_ATOMIC(atomicAdd, type, (type)((wide)old + (wide)value))                                              \
    FM_ATOMIC(atomicExch, type, value)                                                                       \
    FM_ATOMIC(atomicMax, type, old > value ? old : value)                                                    \
    FM_ATOMIC(atomicMin, type, old < value ? old : value)                                                    \
    FM_ATOMIC(atomicAnd, type, old &value)                                                                   \
    FM_ATOMIC(atomicOr, type, old | value)                                                                   \
    FM_ATOMIC(atomicXor, type, old ^ value)                                                                  \
    static inline type atomicCAS(type *address, type compare, type value)                                    \
    {                                                                                                        \
        type old = *(volatile type *)address;                                                                \
        if (old == compare) *(volatile type *)address = value;                                               \
        return old;                                                                                          \
    }
FM_ATOMICS(int, unsigned)
FM_ATOMICS(unsigned, unsigned)
FM_ATOMICS(unsigned long long, unsigned long long)
FM_ATOMIC(atomicSub, int, (int)((unsigned)old - (unsigned)value))
FM_ATOMIC(atomicSub, unsigned, old - value)
FM_ATOMIC(atomicExch, float, value)
FM_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
FM_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#undef FM_ATOMICS
#undef FM_ATOMIC

/* ---- numbers ------------------------------------------------------------------------------------------- */

template <class To, class From> static inline To fm_emulated_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline int __float_as_int(float x)
{
    return fm_emulated_bits<int>(x);
}
static inline unsigned __float_as_uint(float x)
{
    return fm_emulated_bits<unsigned>(x);
}
static inline float __int_as_float(int x)
{
    return fm_emulated_bits<float>(x);
}
static inline float __uint_as_float(unsigned x)
{
    return fm_emulated_bits<float>(x);
}
static inline long long __double_as_longlong(double x)
{
    return fm_emulated_bits<long long>(x);
}
static inline double __longlong_as_double(long long x)
{
    return fm_emulated_bits<double>(x);
}

#define FM_OF_TWO(name, type, expression)                                                                    \
    static inline type name(type a, type b)                                                                  \
    {                                                                                                        \
        return expression;                                                                                   \
    }
FM_OF_TWO(__fadd_rn, float, a + b)
FM_OF_TWO(__fsub_rn, float, a - b)
FM_OF_TWO(__fmul_rn, float, a *b)
FM_OF_TWO(__fdiv_rn, float, a / b)
FM_OF_TWO(__dadd_rn, double, a + b)
FM_OF_TWO(__dsub_rn, double, a - b)
FM_OF_TWO(__dmul_rn, double, a *b)
FM_OF_TWO(__ddiv_rn, double, a / b)
FM_OF_TWO(__umulhi, unsigned, (unsigned)((uint64_t)a *b >> 32))
FM_OF_TWO(__mulhi, int, (int)((int64_t)a *b >> 32))
FM_OF_TWO(min, int, a < b ? a : b)
FM_OF_TWO(max, int, a > b ? a : b)
FM_OF_TWO(min, unsigned, a < b ? a : b)
FM_OF_TWO(max, unsigned, a > b ? a : b)
FM_OF_TWO(min, long, a < b ? a : b)
FM_OF_TWO(max, long, a > b ? a : b)
FM_OF_TWO(min, unsigned long, a < b ? a : b)
FM_OF_TWO(max, unsigned long, a > b ? a : b)
FM_OF_TWO(min, long long, a < b ? a : b)
FM_OF_TWO(max, long long, a > b ? a : b)
FM_OF_TWO(min, unsigned long long, a < b ? a : b)
FM_OF_TWO(max, unsigned long long, a > b ? a : b)
FM_OF_TWO(min, float, fminf(a, b))
FM_OF_TWO(max, float, fmaxf(a, b))
FM_OF_TWO(min, double, fmin(a, b))
FM_OF_TWO(max, double, fmax(a, b))
#undef FM_OF_TWO

static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    __extension__ typedef unsigned __int128 wide;
    return (unsigned long long)((wide)a * b >> 64);
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}
static inline float __fsqrt_rn(float x)
{
    return sqrtf(x);
}
static inline float __frcp_rn(float x)
{
    return 1.0f / x;
}
static inline double __dsqrt_rn(double x)
{
    return sqrt(x);
}
static inline float fm_emulated_rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
/* A macro, because C23's libraries have a function of this name. A card's differs in the last bit or two. */
#define rsqrtf(x) fm_emulated_rsqrtf(x)
static inline int __float2int_rn(float x)
{
    return (int)lrintf(x);
}
static inline int __float2int_rz(float x)
{
    return (int)x;
}
static inline float __int2float_rn(int x)
{
    return (float)x;
}
static inline float __uint2float_rn(unsigned x)
{
    return (float)x;
}
static inline float __double2float_rn(double x)
{
    return (float)x;
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x)
{
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline int __ffsll(long long x)
{
    return __builtin_ffsll(x);
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
template <class T> static inline T __ldg(const T *address)
{
    return *address;
}

/* ---- vectors: aligned as on a card, so that the undefined-behaviour sanitizer sees crooked loads ---------
 */

#define FM_VECTOR(name, type, size)                                                                          \
    struct alignas(size) name##2                                                                             \
    {                                                                                                        \
        type x, y;                                                                                           \
    };                                                                                                       \
    static inline name##2 make_##name##2(type x, type y)                                                     \
    {                                                                                                        \
        name##2 v = {x, y};                                                                                  \
        return v;                                                                                            \
    }
FM_VECTOR(float, float, 8)
FM_VECTOR(int, int, 8)
FM_VECTOR(uint, unsigned, 8)
FM_VECTOR(double, double, 16)
FM_VECTOR(longlong, long long, 16)
FM_VECTOR(ulonglong, unsigned long long, 16)
#undef FM_VECTOR
#define FM_VECTOR(name, type, size)                                                                          \
    struct alignas(size) name##4                                                                             \
    {                                                                                                        \
        type x, y, z, w;                                                                                     \
    };                                                                                                       \
    static inline name##4 make_##name##4(type x, type y, type z, type w)                                     \
    {                                                                                                        \
        name##4 v = {x, y, z, w};                                                                            \
        return v;                                                                                            \
    }
FM_VECTOR(float, float, 16)
FM_VECTOR(int, int, 16)
FM_VECTOR(uint, unsigned, 16)
FM_VECTOR(uchar, unsigned char, 4)
#undef FM_VECTOR

/* ---- launches ------------------------------------------------------------------------------------------ */

/* The arguments one after another, as plain bytes; `call` hands them to the kernel. */
template <class... P> struct fm_emulated_arguments {
};
template <class H, class... T> struct fm_emulated_arguments<H, T...> {
    H head;
    fm_emulated_arguments<T...> rest;
};
template <class K, class... Done>
static inline void fm_emulated_call(K kernel, const fm_emulated_arguments<> &, const Done &...done)
{
    kernel(done...);
}
template <class K, class H, class... T, class... Done>
static inline void fm_emulated_call(K kernel, const fm_emulated_arguments<H, T...> &arguments,
                                    const Done &...done)
{
    fm_emulated_call(kernel, arguments.rest, done..., arguments.head);
}
static inline void fm_emulated_fill(fm_emulated_arguments<> &) {}
template <class H, class... T>
static inline void fm_emulated_fill(fm_emulated_arguments<H, T...> &arguments, const H &head,
                                    const T &...rest)
{
    static_assert(std::is_trivially_copyable<H>::value, "kernel arguments are plain data");
    arguments.head = head;
    fm_emulated_fill(arguments.rest, rest...);
}
template <class... P> struct fm_emulated_bundle {
    void (*kernel)(P...);
    fm_emulated_arguments<P...> arguments;
};
template <class... P> static inline void fm_emulated_thread(const void *pointer)
{
    const fm_emulated_bundle<P...> *bundle = static_cast<const fm_emulated_bundle<P...> *>(pointer);
    fm_emulated_call(bundle->kernel, bundle->arguments);
}
struct fm_emulated_site {
    const char *what, *file;
    int line;
};
template <class... P>
static inline cudaError_t fm_emulated_launch_list(struct fm_emulated_site site, void (*kernel)(P...),
                                                  dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                                                  P... arguments)
{
    fm_emulated_bundle<P...> bundle;
    bundle.kernel = kernel;
    fm_emulated_fill<P...>(bundle.arguments, arguments...);
    return fm_emulated_launch(site.what, site.file, site.line, fm_emulated_thread<P...>, &bundle,
                              sizeof bundle, grid, block, shared, stream);
}
template <class... P, class... A>
static inline cudaError_t fm_emulated_launch_at(struct fm_emulated_site site, void (*kernel)(P...), dim3 grid,
                                                dim3 block, size_t shared, cudaStream_t stream,
                                                A... arguments)
{
    static_assert(sizeof...(P) == sizeof...(A), "as many arguments as the kernel has parameters");
    return fm_emulated_launch_list<P...>(site, kernel, grid, block, shared, stream, (P)arguments...);
}
/* A macro, to know the kernel's name. */
#define fm_launch(...) fm_emulated_launch_at(fm_emulated_site{#__VA_ARGS__, __FILE__, __LINE__}, __VA_ARGS__)

#endif
