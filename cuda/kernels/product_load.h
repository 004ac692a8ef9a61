/* Staging of product.h: a chunk of x and w from memory into registers, and from there into shared memory.
 *
 * Where four neighbouring k always belong to one tap and all addresses are multiples of 16 bytes, a load
 * brings four (x_quads, w_quads); else one. Either way a warp asks for some rows of 32 or 64 neighbouring
 * bytes. A float's place in shared memory does not depend on how it came, so neither do the bits.
 *
 *   x, and w backward   k runs along memory: one by one a warp takes 8 k x 4 rows (no bank conflict when it
 *                       stores them k by k), by fours 16 k x 8 rows (two threads a bank)
 *   w forward           columns run along memory: rows of the chunk one after the other */
#ifndef FM_CUDA_KERNELS_PRODUCT_LOAD_H
#define FM_CUDA_KERNELS_PRODUCT_LOAD_H

#include "kernels/product_view.h"

template <class T> struct product_loader {
    /* one by one: RP rows and 8 * KG of k at a time, AR x AK of them; w backward CP columns, BC x BK */
    static constexpr int RP = T::THREADS / 8 < T::TM ? T::THREADS / 8 : T::TM;
    static constexpr int KG = T::THREADS / (8 * RP), AR = T::TM / RP, AK = T::KC / (8 * KG);
    static constexpr int CP = T::TN % 16 == 0 ? 16 : 8;
    static constexpr int CG = T::THREADS / (8 * CP), BC = T::TN / CP, BK = T::KC / (8 * CG);
    static constexpr int BN = (T::KC * T::TN + T::THREADS - 1) / T::THREADS;
    /* by fours: QA patches of 16 k x 8 rows a warp, QB of w backward; QN quads a thread forward */
    static constexpr int WARPS = T::THREADS / 32, KP = T::KC / 16;
    static constexpr int QA = KP * (T::TM / 8) / WARPS, QB = (KP * (T::TN / 8) + WARPS - 1) / WARPS;
    static constexpr int QN = (T::KC * T::TN / 4 + T::THREADS - 1) / T::THREADS;

    static constexpr int ROWS = AR > QA ? AR : QA;
    static constexpr int NA = AR * AK > 4 * QA ? AR *AK : 4 * QA;
    static constexpr int NQ = QB > QN ? 4 * QB : 4 * QN, NS = BN > BC *BK ? BN : BC *BK;
    static constexpr int NB = NS > NQ ? NS : NQ;
    static_assert(T::THREADS % (8 * RP) == 0 && T::THREADS % (8 * CP) == 0, "whole patches");
    static_assert(T::TM % RP == 0 && T::TN % CP == 0 && T::TN % 8 == 0, "whole patches");
    static_assert(AK * 8 * KG == T::KC && BK * 8 * CG == T::KC && KP * 16 == T::KC, "whole patches");
    static_assert(QA * WARPS == KP * (T::TM / 8), "whole patches");

    int x[ROWS], row[ROWS];
    float a[NA], b[NB];
};

/* Number j of the rows that this thread reads x for. */
template <class T> static __device__ inline int product_loads_row(int quads, int j)
{
    typedef product_loader<T> L;
    if (quads) return ((int)threadIdx.x / 32 + L::WARPS * j) / L::KP * 8 + (int)threadIdx.x % 32 / 4;
    return (int)threadIdx.x / 8 % L::RP + L::RP * j;
}

/* The k within a chunk of this thread's patch. */
template <class T> static __device__ inline int product_quad_k(int patch)
{
    return patch % product_loader<T>::KP * 16 + (int)threadIdx.x % 4 * 4;
}
template <class T> static __device__ inline int product_single_k(int patches, int i, int groups)
{
    return (int)threadIdx.x % 8 + 8 * ((int)threadIdx.x / (8 * patches) + groups * i);
}

static __device__ inline void product_quad(const float *from, bool there, float *to)
{
    fm_quad four = {{0.0f, 0.0f, 0.0f, 0.0f}};
    if (there) four = *(const fm_quad *)from;
    FM_UNROLL
    for (int i = 0; i < 4; i++) to[i] = four.v[i];
}

template <class T>
static __device__ inline void product_load_x(const fm_product &p, const product_view &v,
                                             product_loader<T> &loader, int first)
{
    typedef product_loader<T> L;
    if (p.x_quads) {
        FM_UNROLL
        for (int i = 0; i < L::QA; i++) {
            const int k = first + product_quad_k<T>((int)threadIdx.x / 32 + L::WARPS * i);
            const int tap = fm_divide(p.by_depth, k), step = tap * v.tap_step;
            const int at = loader.x[i] + step * p.x_channels + k - tap * p.depth;
            const bool there = k < v.k && (unsigned)(loader.row[i] + step) < (unsigned)p.x_rows;
            product_quad(p.x + at, there, loader.a + 4 * i);
        }
        return;
    }
    FM_UNROLL
    for (int i = 0; i < L::AK; i++) {
        const int k = first + product_single_k<T>(L::RP, i, L::KG);
        const int tap = fm_divide(p.by_depth, k), step = tap * v.tap_step;
        const int offset = step * p.x_channels + k - tap * p.depth;
        FM_UNROLL
        for (int j = 0; j < L::AR; j++) {
            const bool there = k < v.k && (unsigned)(loader.row[j] + step) < (unsigned)p.x_rows;
            loader.a[i * L::AR + j] = there ? p.x[loader.x[j] + offset] : 0.0f;
        }
    }
}

template <class T>
static __device__ inline void product_stage_x(const fm_product &p, const product_loader<T> &loader, float *a)
{
    typedef product_loader<T> L;
    if (p.x_quads) {
        FM_UNROLL
        for (int i = 0; i < L::QA; i++) {
            const int k = product_quad_k<T>((int)threadIdx.x / 32 + L::WARPS * i);
            FM_UNROLL
            for (int j = 0; j < 4; j++) a[(k + j) * T::PA + product_loads_row<T>(1, i)] = loader.a[4 * i + j];
        }
        return;
    }
    FM_UNROLL
    for (int i = 0; i < L::AK; i++) {
        FM_UNROLL
        for (int j = 0; j < L::AR; j++)
            a[product_single_k<T>(L::RP, i, L::KG) * T::PA + product_loads_row<T>(0, j)] =
                loader.a[i * L::AR + j];
    }
}

static __device__ inline int product_w_offset(const fm_product &p, const product_view &v, int k)
{
    const int extra = v.w_tap - p.depth * p.w_k; /* 0: taps follow each other */
    return k * p.w_k + (extra ? fm_divide(p.by_depth, k) * extra : 0);
}

/* Forward. */
template <class T>
static __device__ inline void product_load_columns(const fm_product &p, const product_view &v,
                                                   product_loader<T> &loader, int first, int column)
{
    typedef product_loader<T> L;
    if (p.w_quads) {
        FM_UNROLL
        for (int i = 0; i < L::QN; i++) {
            const int place = (int)threadIdx.x + T::THREADS * i;
            const int k = first + place / (T::TN / 4), n = column + place % (T::TN / 4) * 4;
            const bool there = k < v.k && n < p.width;
            product_quad(v.w + product_w_offset(p, v, k) + n, there, loader.b + 4 * i);
        }
        return;
    }
    FM_UNROLL
    for (int i = 0; i < L::BN; i++) {
        const int place = (int)threadIdx.x + T::THREADS * i;
        const int k = first + place / T::TN, n = column + place % T::TN;
        loader.b[i] = k < v.k && n < p.width ? v.w[product_w_offset(p, v, k) + n * p.w_n] : 0.0f;
    }
}

template <class T>
static __device__ inline void product_stage_columns(const fm_product &p, const product_loader<T> &loader,
                                                    float *b)
{
    typedef product_loader<T> L;
    if (p.w_quads) {
        FM_UNROLL
        for (int i = 0; i < L::QN; i++) {
            const int place = (int)threadIdx.x + T::THREADS * i;
            if (place >= T::KC * T::TN / 4) continue;
            fm_quad four;
            FM_UNROLL
            for (int j = 0; j < 4; j++) four.v[j] = loader.b[4 * i + j];
            *(fm_quad *)(b + place / (T::TN / 4) * T::PB + place % (T::TN / 4) * 4) = four;
        }
        return;
    }
    FM_UNROLL
    for (int i = 0; i < L::BN; i++) {
        const int place = (int)threadIdx.x + T::THREADS * i;
        if (place < T::KC * T::TN) b[place / T::TN * T::PB + place % T::TN] = loader.b[i];
    }
}

/* Backward. */
template <class T>
static __device__ inline void product_load_rows(const fm_product &p, const product_view &v,
                                                product_loader<T> &loader, int first, int column)
{
    typedef product_loader<T> L;
    if (p.w_quads) {
        FM_UNROLL
        for (int i = 0; i < L::QB; i++) {
            const int patch = (int)threadIdx.x / 32 + L::WARPS * i;
            const int k = first + product_quad_k<T>(patch);
            const int n = column + patch / L::KP * 8 + (int)threadIdx.x % 32 / 4;
            const bool there = k < v.k && n < p.width;
            product_quad(v.w + product_w_offset(p, v, k) + n * p.w_n, there, loader.b + 4 * i);
        }
        return;
    }
    FM_UNROLL
    for (int i = 0; i < L::BK; i++) {
        const int k = first + product_single_k<T>(L::CP, i, L::CG), offset = product_w_offset(p, v, k);
        FM_UNROLL
        for (int j = 0; j < L::BC; j++) {
            const int n = column + (int)threadIdx.x / 8 % L::CP + L::CP * j;
            loader.b[i * L::BC + j] = k < v.k && n < p.width ? v.w[offset + n * p.w_n] : 0.0f;
        }
    }
}

template <class T>
static __device__ inline void product_stage_rows(const fm_product &p, const product_loader<T> &loader,
                                                 float *b)
{
    typedef product_loader<T> L;
    if (p.w_quads) {
        FM_UNROLL
        for (int i = 0; i < L::QB; i++) {
            const int patch = (int)threadIdx.x / 32 + L::WARPS * i;
            const int n = patch / L::KP * 8 + (int)threadIdx.x % 32 / 4;
            if (n >= T::TN) continue;
            FM_UNROLL
            for (int j = 0; j < 4; j++) b[(product_quad_k<T>(patch) + j) * T::PB + n] = loader.b[4 * i + j];
        }
        return;
    }
    FM_UNROLL
    for (int i = 0; i < L::BK; i++) {
        FM_UNROLL
        for (int j = 0; j < L::BC; j++)
            b[product_single_k<T>(L::CP, i, L::CG) * T::PB + (int)threadIdx.x / 8 % L::CP + L::CP * j] =
                loader.b[i * L::BC + j];
    }
}

template <class T, bool BACK>
static __device__ inline void product_load(const fm_product &p, const product_view &v,
                                           product_loader<T> &loader, int first, int column)
{
    product_load_x<T>(p, v, loader, first);
    if (BACK)
        product_load_rows<T>(p, v, loader, first, column);
    else
        product_load_columns<T>(p, v, loader, first, column);
}

template <class T, bool BACK>
static __device__ inline void product_stage(const fm_product &p, const product_loader<T> &loader,
                                            float *stage)
{
    product_stage_x<T>(p, loader, stage);
    if (BACK)
        product_stage_rows<T>(p, loader, stage + T::KC * T::PA);
    else
        product_stage_columns<T>(p, loader, stage + T::KC * T::PA);
}

/* Whether rows of these strides, `depth` of which belong together, can be read by fours. */
static inline int product_aligned(const void *at, int a, int b, int c, int depth)
{
    return (uintptr_t)at % 16 == 0 && a % 4 == 0 && b % 4 == 0 && c % 4 == 0 && depth % 4 == 0;
}

#endif
