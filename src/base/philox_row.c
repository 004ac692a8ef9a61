/* Many blocks of Philox at once: integer arithmetic only, so every instruction set gives the same bits, and
 * which one is used need not be chosen by anybody. A vector's lane of 64 bits holds one word of a counter;
 * the upper half of a lane is never read before it is overwritten. */
#include "base/random.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define FACTOR_0 0xD2511F53u
#define FACTOR_1 0xCD9E8D57u
#define WEYL_0   0x9E3779B9u
#define WEYL_1   0xBB67AE85u

static void count(const uint32_t counter[4], uint64_t i, uint32_t out[4])
{
    uint64_t element = (((uint64_t)counter[2] << 32) | counter[1]) + i;
    out[0] = counter[0];
    out[1] = (uint32_t)element;
    out[2] = (uint32_t)(element >> 32);
    out[3] = counter[3];
}

static void row_plain(const uint32_t counter[4], uint64_t key, int from, int n,
                      uint32_t out[4][FM_PHILOX_ROW])
{
    for (int i = from; i < n; i++) {
        uint32_t at[4], bits[4];
        count(counter, (uint64_t)i, at);
        fm_philox(at, key, bits);
        for (int w = 0; w < 4; w++) out[w][i] = bits[w];
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static int row_avx2(const uint32_t counter[4], uint64_t key, int n,
                                                    uint32_t out[4][FM_PHILOX_ROW])
{
    const __m256i m0 = _mm256_set1_epi64x(FACTOR_0), m1 = _mm256_set1_epi64x(FACTOR_1);
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        uint32_t at[4];
        count(counter, (uint64_t)i, at);
        __m256i element = _mm256_add_epi64(_mm256_set1_epi64x((int64_t)((uint64_t)at[2] << 32 | at[1])),
                                           _mm256_setr_epi64x(0, 1, 2, 3));
        __m256i c[4] = {_mm256_set1_epi64x(at[0]), element, _mm256_srli_epi64(element, 32),
                        _mm256_set1_epi64x(at[3])};
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        for (int round = 0; round < 10; round++, k0 += WEYL_0, k1 += WEYL_1) {
            __m256i p0 = _mm256_mul_epu32(m0, c[0]), p1 = _mm256_mul_epu32(m1, c[2]);
            c[0] =
                _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c[1]), _mm256_set1_epi64x(k0));
            c[2] =
                _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c[3]), _mm256_set1_epi64x(k1));
            c[1] = p1;
            c[3] = p0;
        }
        for (int w = 0; w < 4; w++)
            _mm_storeu_si128((__m128i *)(void *)&out[w][i],
                             _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(c[w], even)));
    }
    return i;
}

__attribute__((target("avx512f"))) static int row_avx512(const uint32_t counter[4], uint64_t key, int n,
                                                         uint32_t out[4][FM_PHILOX_ROW])
{
    const __m512i m0 = _mm512_set1_epi64(FACTOR_0), m1 = _mm512_set1_epi64(FACTOR_1);
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        uint32_t at[4];
        count(counter, (uint64_t)i, at);
        __m512i element = _mm512_add_epi64(_mm512_set1_epi64((int64_t)((uint64_t)at[2] << 32 | at[1])),
                                           _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
        __m512i c[4] = {_mm512_set1_epi64(at[0]), element, _mm512_srli_epi64(element, 32),
                        _mm512_set1_epi64(at[3])};
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        for (int round = 0; round < 10; round++, k0 += WEYL_0, k1 += WEYL_1) {
            __m512i p0 = _mm512_mul_epu32(m0, c[0]), p1 = _mm512_mul_epu32(m1, c[2]);
            c[0] = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p1, 32), c[1]), _mm512_set1_epi64(k0));
            c[2] = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p0, 32), c[3]), _mm512_set1_epi64(k1));
            c[1] = p1;
            c[3] = p0;
        }
        for (int w = 0; w < 4; w++)
            _mm256_storeu_si256((__m256i *)(void *)&out[w][i], _mm512_cvtepi64_epi32(c[w]));
    }
    return i;
}
#endif

bool fm_philox_row_by(enum fm_philox_way way, const uint32_t counter[4], uint64_t key, int n,
                      uint32_t out[4][FM_PHILOX_ROW])
{
    int done = 0;
#if defined(__x86_64__)
    if (way == FM_PHILOX_AVX512 && __builtin_cpu_supports("avx512f"))
        done = row_avx512(counter, key, n, out);
    else if (way == FM_PHILOX_AVX2 && __builtin_cpu_supports("avx2"))
        done = row_avx2(counter, key, n, out);
    else
#endif
        if (way != FM_PHILOX_PLAIN)
        return false;
    row_plain(counter, key, done, n, out);
    return true;
}

void fm_philox_row(const uint32_t counter[4], uint64_t key, int n, uint32_t out[4][FM_PHILOX_ROW])
{
    for (int way = FM_PHILOX_AVX512; !fm_philox_row_by((enum fm_philox_way)way, counter, key, n, out); way--)
        continue;
}
