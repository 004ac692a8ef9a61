/* The inner product of all convolutions and dense layers: a block multiplies a TM x TN tile of the result
 * through shared memory, each thread RM x RN of it.
 *
 * Operands are staged k by k: a[KC][TM + 4] and b[KC][PB], twice (the next chunk is loaded while this one is
 * multiplied). A thread's rows come in bands of 4, its columns lie together, all read as vectors of 16 or 8
 * bytes: a quarter of a warp reads 32 neighbouring floats of `a` and one or two places of `b`, no conflicts.
 * The pitch is 4 (mod 8), so that a warp that writes 8 k x 4 rows (as it read them: 8 neighbouring floats
 * of 4 rows) has no conflict either.
 *
 * S slices share a tile where it would keep too few threads busy: slice s takes k = s, s + S, ...; the
 * partial tiles are added in the order of slices in shared memory. So the sum of one element has an order
 * that depends on the kind of tile only. */
#ifndef FM_CUDA_KERNELS_MULTIPLY_H
#define FM_CUDA_KERNELS_MULTIPLY_H

#include "kernels/device.h"

#ifdef __CUDACC__
#define FM_UNROLL _Pragma("unroll")
#define FM_ROLLED _Pragma("unroll 1")
#else
#define FM_UNROLL
#define FM_ROLLED
#endif

struct alignas(16) fm_quad {
    float v[4];
};
struct alignas(8) fm_two {
    float v[2];
};

template <int TM_, int TN_, int RM_, int RN_, int S_, int KC_> struct fm_tile {
    static constexpr int TM = TM_, TN = TN_, RM = RM_, RN = RN_, S = S_, KC = KC_;
    static constexpr int ROW_GROUPS = TM / RM, SLICE = ROW_GROUPS * (TN / RN), THREADS = SLICE * S;
    static constexpr int BAND = TM / (RM / 4);
    static constexpr int PA = TM + 4, PB = TN + (TN == 4 ? 8 : 4);
    static constexpr int STAGE = KC * (PA + PB);     /* floats of one chunk: a, then b */
    static constexpr int RESULT = S * (TM + 1) * TN; /* one row more for sums of columns */
    static constexpr int FLOATS = 2 * STAGE > RESULT ? 2 * STAGE : RESULT;
    static_assert(TM % RM == 0 && TN % RN == 0 && RM % 4 == 0 && RN % 2 == 0 && KC % S == 0 && KC % 8 == 0,
                  "");
    static_assert(FLOATS * 4 <= 44 << 10, "shared memory");
};

template <class T> static __device__ inline int fm_row_of(int group, int i)
{
    return i / 4 * T::BAND + group * 4 + i % 4;
}

/* One k: acc += a[rows] * b[columns]. */
template <class T>
static __device__ inline void fm_tile_step(const float *a, const float *b, float (&acc)[T::RM][T::RN],
                                           float (&fb)[T::RN])
{
    float fa[T::RM];
    FM_UNROLL
    for (int i = 0; i < T::RM; i += 4) {
        const struct fm_quad four = *(const struct fm_quad *)(a + i / 4 * T::BAND);
        FM_UNROLL
        for (int j = 0; j < 4; j++) fa[i + j] = four.v[j];
    }
    if (T::RN % 4 == 0) {
        FM_UNROLL
        for (int i = 0; i < T::RN / 4; i++) {
            const struct fm_quad four = *(const struct fm_quad *)(b + 4 * i);
            FM_UNROLL
            for (int j = 0; j < 4; j++) fb[4 * i + j] = four.v[j];
        }
    } else {
        FM_UNROLL
        for (int i = 0; i < T::RN / 2; i++) {
            const struct fm_two two = *(const struct fm_two *)(b + 2 * i);
            fb[2 * i] = two.v[0];
            fb[2 * i + 1] = two.v[1];
        }
    }
    FM_UNROLL
    for (int i = 0; i < T::RM; i++) {
        FM_UNROLL
        for (int j = 0; j < T::RN; j++) acc[i][j] = fmaf(fa[i], fb[j], acc[i][j]);
    }
}

/* The first `count` k of a staged chunk; SUMS: also adds up the columns of b. */
template <class T, bool SUMS>
static __device__ inline void fm_tile_multiply(const float *stage, int count, float (&acc)[T::RM][T::RN],
                                               float (&sums)[T::RN])
{
    const int slice = (int)threadIdx.x / T::SLICE, place = (int)threadIdx.x % T::SLICE;
    const float *a = stage + slice * T::PA + place % T::ROW_GROUPS * 4;
    const float *b = stage + T::KC * T::PA + slice * T::PB + place / T::ROW_GROUPS * T::RN;
    float fb[T::RN];
    if (count >= T::KC) {
        FM_UNROLL
        for (int k = 0; k < T::KC / T::S; k++) {
            fm_tile_step<T>(a + k * T::S * T::PA, b + k * T::S * T::PB, acc, fb);
            if (SUMS) {
                FM_UNROLL
                for (int j = 0; j < T::RN; j++) sums[j] += fb[j];
            }
        }
        return;
    }
    FM_ROLLED
    for (int k = slice; k < count; k += T::S, a += T::S * T::PA, b += T::S * T::PB) {
        fm_tile_step<T>(a, b, acc, fb);
        if (SUMS) {
            FM_UNROLL
            for (int j = 0; j < T::RN; j++) sums[j] += fb[j];
        }
    }
}

/* Puts all partial tiles into shared memory; element (row, column) is then fm_tile_result's. Barriers before
 * and after. Sums of columns become row TM. */
template <class T, bool SUMS>
static __device__ inline void fm_tile_collect(float *shared, float (&acc)[T::RM][T::RN], float (&sums)[T::RN])
{
    const int slice = (int)threadIdx.x / T::SLICE, place = (int)threadIdx.x % T::SLICE;
    const int group = place % T::ROW_GROUPS, column = place / T::ROW_GROUPS * T::RN;
    float *mine = shared + slice * (T::TM + 1) * T::TN + column;
    __syncthreads();
    FM_UNROLL
    for (int i = 0; i < T::RM; i++) {
        FM_UNROLL
        for (int j = 0; j < T::RN; j++) mine[fm_row_of<T>(group, i) * T::TN + j] = acc[i][j];
    }
    if (SUMS && group == 0) {
        FM_UNROLL
        for (int j = 0; j < T::RN; j++) mine[T::TM * T::TN + j] = sums[j];
    }
    __syncthreads();
}

template <class T> static __device__ inline float fm_tile_result(const float *shared, int place)
{
    float sum = shared[place];
    FM_UNROLL
    for (int s = 1; s < T::S; s++) sum += shared[place + s * (T::TM + 1) * T::TN];
    return sum;
}

/* ---- which tile: arithmetic on the host ------------------------------------------------------------------
 *
 * What a launch would cost, in cycles: the time of one block - every chunk of k costs its share of
 * multiply-adds, at one instruction in two cycles, and a trip to memory -, plus what all blocks need of the
 * card. A lane has the card seldom alone: 6 multiprocessors of 128 multiply-adds a cycle are what it is
 * supposed to have (few would favour large tiles, many small ones). Shapes decide, never the card at hand:
 * the tile decides the order of sums. */
struct fm_tile_kind {
    int tm, tn, rm, rn, s, kc;
};
enum { FM_TILE_SMS = 6 };

static inline int64_t fm_ceil(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t fm_tile_cost(const struct fm_tile_kind *t, int64_t m, int64_t n, int64_t k,
                                   int64_t copies)
{
    const int64_t blocks = fm_ceil(m, t->tm) * fm_ceil(n, t->tn) * copies, chunks = fm_ceil(k, t->kc);
    const int64_t work = (int64_t)t->rm * t->rn, loads = t->rm / 4 + (t->rn + 3) / 4;
    const int64_t threads = (int64_t)t->tm * t->tn / work * t->s;
    const int64_t staged = (int64_t)(t->tm + t->tn) * t->kc; /* about 8 instructions a float */
    const int64_t per_k = work + 2 * loads + 2;
    const int64_t steps = k < t->kc ? fm_ceil(k, t->s) : chunks * (t->kc / t->s);
    const int64_t issue = steps * per_k + chunks * staged * 8 / threads; /* instructions of one thread */
    const int64_t result = (int64_t)t->tm * t->tn * (t->s + 12) / threads;
    const int64_t latency = 2 * issue + chunks * 400 + 4 * result;
    const int64_t busy = (issue + result) * threads / 128;
    return latency + blocks * busy / FM_TILE_SMS;
}

static inline int fm_tile_choose(const struct fm_tile_kind *kinds, int count, int64_t m, int64_t n, int64_t k,
                                 int64_t copies)
{
    int best = 0;
    int64_t least = INT64_MAX;
    for (int i = 0; i < count; i++) {
        const int64_t cost = fm_tile_cost(&kinds[i], m, n, k, copies);
        if (cost >= least) continue;
        least = cost;
        best = i;
    }
    return best;
}

#endif
