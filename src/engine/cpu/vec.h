/* One vector type per instruction set: W lanes of float. Everything in the .inc files is written once on top
 * of it; the files of isa/ include this, under the flags of each instruction set.
 *
 * A product-and-sum is always an explicit mad() and the compiler never contracts (-ffp-contract=off), so AVX2
 * + FMA and AVX-512 round in the same places. What is summed across lanes uses LANES = 16 lanes whatever W
 * is.
 *
 * Traps: C has no `?:` on vectors (use sel). vmax and vmin give their second operand when either is NaN: put
 * the value that may be NaN there. gcc 12 takes __builtin_convertvector between 8 and 32 bits apart lane by
 * lane: use ld_u8 and st_u8.
 */
#ifndef FM_ENGINE_CPU_VEC_H
#define FM_ENGINE_CPU_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512DQ__) && defined(__AVX512BW__)
#define W 16
#elif defined(__AVX2__) && defined(__FMA__)
#define W 8
#else
#define W 4
#endif
enum { LANES = 16, PARTS = LANES / W };

#define INLINE static inline __attribute__((always_inline, unused))
/* TILED is for bodies that are inlined once per size of tile. The sanitizers' checks make that take minutes
 * to compile: with them one body serves all sizes and keeps its loops. */
#if defined(FM_KEEP_LOOPS)
#define UNROLL
#define TILED static __attribute__((noinline, unused))
#else
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif
#define TILED INLINE
#endif

typedef float vf __attribute__((vector_size(4 * W)));
typedef int32_t vi __attribute__((vector_size(4 * W)));
typedef uint32_t vu __attribute__((vector_size(4 * W)));
typedef float vf_any __attribute__((vector_size(4 * W), aligned(4), may_alias));
typedef int32_t vi_any __attribute__((vector_size(4 * W), aligned(4), may_alias));

INLINE vf ld(const float *p)
{
    return *(const vf_any *)p;
}
INLINE void st(float *p, vf x)
{
    *(vf_any *)p = x;
}
INLINE vi ldi(const int32_t *p)
{
    return *(const vi_any *)p;
}
INLINE void sti(int32_t *p, vi x)
{
    *(vi_any *)p = x;
}
INLINE vi seti(int32_t a)
{
    return (vi){0} + a;
}

#if W > 4 /* x86 intrinsics, where the vector extension has no word for it */
#include <immintrin.h>
#if W == 16
#define MM(name) _mm512_##name
typedef __m512 mf;
typedef __m512i mi;
typedef __mmask16 vm; /* a bit per lane */
INLINE vm gt(vf a, vf b)
{
    return _mm512_cmp_ps_mask((mf)a, (mf)b, _CMP_GT_OQ);
}
INLINE vm unordered(vf a, vf b)
{
    return _mm512_cmp_ps_mask((mf)a, (mf)b, _CMP_UNORD_Q);
}
INLINE vm lti(vi a, vi b)
{
    return _mm512_cmplt_epi32_mask((mi)a, (mi)b);
}
INLINE vm eqi(vi a, vi b)
{
    return _mm512_cmpeq_epi32_mask((mi)a, (mi)b);
}
INLINE vf sel(vm m, vf a, vf b)
{
    return (vf)_mm512_mask_blend_ps(m, (mf)b, (mf)a);
}
INLINE vi seli(vm m, vi a, vi b)
{
    return (vi)_mm512_mask_blend_epi32(m, (mi)b, (mi)a);
}
INLINE vm tail(int64_t n) /* the first n lanes */
{
    return (vm)(n >= W ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
}
INLINE vf ldm(const float *p, vm m) /* lanes outside m are zero and not read */
{
    return (vf)_mm512_maskz_loadu_ps(m, p);
}
INLINE void stm(float *p, vf x, vm m)
{
    _mm512_mask_storeu_ps(p, m, (mf)x);
}
INLINE vf quad(const float *x)
{
    return (vf)_mm512_broadcast_f32x4(_mm_loadu_ps(x));
}
INLINE vi ld_u8(const uint8_t *p)
{
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
INLINE void st_u8(uint8_t *p, vi x)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8((mi)x));
}
INLINE vi ldm_u8(const uint8_t *p, vm m)
{
    return (vi)_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(m, p));
}
INLINE void stm_u8(uint8_t *p, vi x, vm m)
{
    _mm512_mask_cvtepi32_storeu_epi8(p, m, (mi)x);
}
#else
#define MM(name) _mm256_##name
typedef __m256 mf;
typedef __m256i mi;
typedef vi vm; /* all bits of a lane */
INLINE vm unordered(vf a, vf b)
{
    return (vm)_mm256_cmp_ps((mf)a, (mf)b, _CMP_UNORD_Q);
}
INLINE vm tail(int64_t n)
{
    return seti(n > W ? W : (int32_t)n) > (vi){0, 1, 2, 3, 4, 5, 6, 7};
}
INLINE vf ldm(const float *p, vm m)
{
    return (vf)_mm256_maskload_ps(p, (mi)m);
}
INLINE void stm(float *p, vf x, vm m)
{
    _mm256_maskstore_ps(p, (mi)m, (mf)x);
}
INLINE vf quad(const float *x)
{
    return (vf)_mm256_broadcast_ps((const __m128 *)x);
}
INLINE vi ld_u8(const uint8_t *p)
{
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
INLINE void st_u8(uint8_t *p, vi x)
{
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128((mi)x), _mm256_extracti128_si256((mi)x, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}
#endif
INLINE vf set1(float a)
{
    return (vf)MM(set1_ps)(a);
}
INLINE vf mad(vf a, vf b, vf c) /* a * b + c */
{
    return (vf)MM(fmadd_ps)((mf)a, (mf)b, (mf)c);
}
INLINE vf nmad(vf a, vf b, vf c) /* c - a * b */
{
    return (vf)MM(fnmadd_ps)((mf)a, (mf)b, (mf)c);
}
INLINE vf vmax(vf a, vf b) /* b if either is NaN */
{
    return (vf)MM(max_ps)((mf)a, (mf)b);
}
INLINE vf vmin(vf a, vf b) /* b if either is NaN */
{
    return (vf)MM(min_ps)((mf)a, (mf)b);
}
/* x[i], i in 0..3: a 16-byte load seldom straddles a cache line (a misaligned 64-byte load always does). */
INLINE vf pick4(const float *x, vi i)
{
    return (vf)MM(permutevar_ps)((mf)quad(x), (mi)i);
}
#endif

#if W < 16
INLINE vi gt(vf a, vf b)
{
    return a > b;
}
INLINE vi lti(vi a, vi b)
{
    return a < b;
}
INLINE vi eqi(vi a, vi b)
{
    return a == b;
}
INLINE vf sel(vi m, vf a, vf b)
{
    return (vf)((m & (vi)a) | (~m & (vi)b));
}
INLINE vi seli(vi m, vi a, vi b)
{
    return (m & a) | (~m & b);
}
INLINE vi ldm_u8(const uint8_t *p, vi m)
{
    vi v = {0};
    for (int i = 0; i < W; i++)
        if (m[i]) v[i] = p[i];
    return v;
}
INLINE void stm_u8(uint8_t *p, vi x, vi m)
{
    for (int i = 0; i < W; i++)
        if (m[i]) p[i] = (uint8_t)x[i];
}
#endif

#if W == 4 /* nothing but the vector extension; where there is no fma, mad() rounds twice */
#if defined(__SSE__)
#include <xmmintrin.h>
#endif
typedef vi vm;
INLINE vm tail(int64_t n)
{
    return seti(n > W ? W : (int32_t)n) > (vi){0, 1, 2, 3};
}
INLINE vm unordered(vf a, vf b)
{
    return ~((a == a) & (b == b));
}
INLINE vf set1(float a)
{
    return (vf){a, a, a, a};
}
#if defined(__aarch64__)
#include <arm_neon.h>
INLINE vf mad(vf a, vf b, vf c)
{
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
INLINE vf nmad(vf a, vf b, vf c)
{
    return (vf)vfmsq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#else
INLINE vf mad(vf a, vf b, vf c)
{
    return a * b + c;
}
INLINE vf nmad(vf a, vf b, vf c)
{
    return c - a * b;
}
#endif
INLINE vf vmax(vf a, vf b)
{
    return sel(a > b, a, b);
}
INLINE vf vmin(vf a, vf b)
{
    return sel(a < b, a, b);
}
INLINE vf ldm(const float *p, vm m)
{
    vf v = {0};
    for (int i = 0; i < W; i++)
        if (m[i]) v[i] = p[i];
    return v;
}
INLINE void stm(float *p, vf x, vm m)
{
    for (int i = 0; i < W; i++)
        if (m[i]) p[i] = x[i];
}
INLINE vf pick4(const float *x, vi i)
{
    return (vf){x[i[0]], x[i[1]], x[i[2]], x[i[3]]};
}
INLINE vi ld_u8(const uint8_t *p)
{
    return (vi){p[0], p[1], p[2], p[3]};
}
INLINE void st_u8(uint8_t *p, vi x)
{
    for (int i = 0; i < W; i++) p[i] = (uint8_t)x[i];
}
#endif

/* With a constant `part`: a whole vector, or the lanes of m. */
INLINE vf ldx(const float *p, int part, vm m)
{
    return part ? ldm(p, m) : ld(p);
}
INLINE void stx(float *p, vf x, int part, vm m)
{
    if (part)
        stm(p, x, m);
    else
        st(p, x);
}

/* A loop over n floats whose last pass is masked; in it `i` is the place, L(p) loads and S(p, x) stores. */
#define ELEMENTS(n, ...)                                                                                     \
    {                                                                                                        \
        int64_t i = 0;                                                                                       \
        vm m_ = tail(W);                                                                                     \
        (void)m_;                                                                                            \
        {                                                                                                    \
            enum { part_ = 0 };                                                                              \
            for (; i + W <= (n); i += W) {                                                                   \
                __VA_ARGS__                                                                                  \
            }                                                                                                \
        }                                                                                                    \
        if (i < (n)) {                                                                                       \
            enum { part_ = 1 };                                                                              \
            m_ = tail((n)-i);                                                                                \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define L(p)    ldx(p, part_, m_)
#define S(p, x) stx(p, x, part_, m_)

/* Lane constants: LANE_LIST(F, d) = F(0, d), F(1, d) ... */
#define L4(F, o, d) F(o, d), F(o + 1, d), F(o + 2, d), F(o + 3, d)
#if W == 16
#define LANE_LIST(F, d) L4(F, 0, d), L4(F, 4, d), L4(F, 8, d), L4(F, 12, d)
#elif W == 8
#define LANE_LIST(F, d) L4(F, 0, d), L4(F, 4, d)
#else
#define LANE_LIST(F, d) L4(F, 0, d)
#endif
#define SHUFFLE(a, b, F, d) __builtin_shufflevector(a, b, LANE_LIST(F, d))
#define KEEP(l, d)          ((l) & (d) ? W + (l) - (d) : (l))
#define FOLD(l, d)          ((l) & (d) ? W + (l) : (l) + (d))
/* lane l: a[l] + a[l+d] where bit d of l is clear, b[l-d] + b[l] where it is set */
#define MERGE(a, b, d) (SHUFFLE(a, b, KEEP, d) + SHUFFLE(a, b, FOLD, d))

/* W vectors -> one; lane i = the sum of the lanes of x[i], added in the order (l, l+8), (l, l+4), (l, l+2),
 * (l, l+1). x is used up. */
INLINE vf sum_lanes(vf *x)
{
#if W == 16
    UNROLL for (int i = 0; i < 8; i++) x[i] = MERGE(x[i], x[i + 8], 8);
#endif
#if W >= 8
    UNROLL for (int i = 0; i < 4; i++) x[i] = MERGE(x[i], x[i + 4], 4);
#endif
    UNROLL for (int i = 0; i < 2; i++) x[i] = MERGE(x[i], x[i + 2], 2);
    return MERGE(x[0], x[1], 1);
}

/* The PARTS vectors of a 16-lane sum, folded to W lanes in the same order. */
INLINE vf fold_parts(const vf *p)
{
#if W == 16
    return p[0];
#elif W == 8
    return p[0] + p[1];
#else
    return (p[0] + p[2]) + (p[1] + p[3]);
#endif
}

/* The processor's square root: correctly rounded, NaN below zero. */
INLINE vf square_root(vf x)
{
#if W > 4
    return (vf)MM(sqrt_ps)((mf)x);
#elif defined(__SSE__)
    return (vf)_mm_sqrt_ps((__m128)x);
#elif defined(__aarch64__)
    return (vf)vsqrtq_f32((float32x4_t)x);
#else
    vf y;
    for (int i = 0; i < W; i++) y[i] = __builtin_sqrtf(x[i]);
    return y;
#endif
}

/* The same for x >= 0 from an integer guess (3.5 % off), a Newton step on g = sqrt(x) and h = 0.5 / sqrt(x)
 * (0.2 % off) and a cubic one: with g * h = 0.5 - r, sqrt(x) = g / sqrt(1 - 2r) = g (1 + r + 1.5 r^2 + ..).
 * IEEE operations only, hence the same bits everywhere; 2 ulp. A 512-bit square root holds the divider for 13
 * cycles; this leaves it to the division of the update. Infinity gives inf - inf in the steps; the last line
 * turns that into infinity (vmin takes its second operand if either is NaN; else sqrt(x) < x + 1). Wrong for
 * denormals unless they are flushed. The portable version has bits of its own and fewer units: no trick. */
INLINE vf root(vf x)
{
#if W == 4
    return square_root(x);
#else
    const vf half = set1(0.5f), y = (vf)(seti(0x5f375a86) - (vi)((vi)x >> 1));
    vf g = x * y, h = half * y, r = nmad(g, h, half);
    g = mad(g, r, g);
    h = mad(h, r, h);
    r = nmad(g, h, half);
    g = mad(g, r * mad(r, set1(1.5f), set1(1)), g);
    return vmin(g, x + set1(1));
#endif
}

#endif
