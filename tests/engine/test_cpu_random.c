/* Dropout and the epoch permutation of the CPU engine: exactly the numbers of engine/dropout.h and
 * base/random.h, for every instruction set this processor has. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "engine/cpu/kernels.h"
#include "engine/dropout.h"
#include "support/guarded.h"

TestSuite(cpu_random, .timeout = 60);

static uint64_t state = 1;
static int64_t draw(int64_t low, int64_t high)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((state >> 33) % (uint64_t)(high - low + 1));
}

static void one_dropout(double rate, int64_t rows, int64_t channels, bool spatial, bool acc)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    const int64_t n = rows * channels, examples = draw(1, 3), stride = n + draw(0, 9);
    const size_t bytes = (size_t)(examples * stride) * sizeof(float);
    const uint64_t keys[3] = {(uint64_t)draw(0, INT32_MAX) << 32, 17, (uint64_t)draw(0, INT32_MAX)};
    float *x = malloc(bytes), *before = malloc(bytes);
    unsigned char *keep = malloc((size_t)n);
    cr_assert(x && before && keep);
    for (int64_t i = 0; i < examples * stride; i++)
        x[i] = (float)draw(-1000, 1000) / 7, before[i] = (float)draw(-1000, 1000) / 3;
    for (int i = 0; i < count; i++) {
        float *y = guarded_new(bytes);
        for (int64_t e = 0; acc && e < examples; e++)
            memcpy(y + e * stride, before + e * stride, (size_t)n * sizeof *y);
        kernels[i]->dropout(&(struct fm_dropout_pass){.each = {examples, n},
                                                      .channels = channels,
                                                      .rate = rate,
                                                      .spatial = spatial,
                                                      .acc = acc,
                                                      .keys = keys,
                                                      .x = x,
                                                      .y = y,
                                                      .xstride = stride,
                                                      .ystride = stride});
        cr_assert(guarded_intact(y) && guarded_gaps(y, examples, n, stride));
        for (int64_t e = 0; e < examples; e++) {
            fm_dropout_keep(keys[e], rate, spatial ? channels : n, keep);
            for (int64_t j = 0; j < n; j++) {
                const float v = keep[spatial ? j % channels : j] ? x[e * stride + j] / (float)(1 - rate) : 0;
                const float expected = acc ? before[e * stride + j] + v : v;
                cr_assert(y[e * stride + j] == expected, "%s rate %g element %d: %.9g, expected %.9g",
                          kernels[i]->name, rate, (int)j, (double)y[e * stride + j], (double)expected);
            }
        }
        guarded_free(y);
    }
    free(x), free(before), free(keep);
}

Test(cpu_random, dropout_is_the_mask)
{
    const double rates[] = {0,       1,       0.1,         0.3,         0.5,    0.9,
                            0x1p-24, 0x1p-25, 1 - 0x1p-24, 1 - 0x1p-25, 5e-324, 0.2};
    for (int i = 0; i < 12; i++)
        for (int mode = 0; mode < 4; mode++) {
            one_dropout(rates[i], draw(1, 5), draw(1, 40), mode & 1, mode & 2);
            one_dropout(rates[i], draw(1, 3), draw(500, 1100), mode & 1, mode & 2);
        }
}

/* The routines compare 24 bits with an integer; the rule compares doubles. Rates at the number of the first
 * element itself and just beside it tell the two apart. */
Test(cpu_random, dropout_at_the_very_rate)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    for (uint64_t key = 0; key < 200; key++) {
        uint32_t bits[4];
        fm_philox((const uint32_t[4]){0, 0, 0, 0}, key, bits);
        const double u = (double)fm_uniform_float(bits[0]);
        const double rates[] = {u, nextafter(u, 2), nextafter(u, 0), u + 0x1p-25, u + 0x1p-24};
        for (int r = 0; r < 5; r++)
            for (int i = 0; i < count; i++) {
                const float x = 1;
                float y = NAN;
                unsigned char keep;
                fm_dropout_keep(key, rates[r], 1, &keep);
                kernels[i]->dropout(&(struct fm_dropout_pass){
                    .each = {1, 1}, .channels = 1, .rate = rates[r], .keys = &key, .x = &x, .y = &y});
                cr_assert_eq(y != 0, keep);
            }
    }
}

static void one_permutation(uint64_t n, uint64_t first, int64_t count, uint64_t key)
{
    const struct fm_kernels *kernels[3];
    const int sets = fm_kernels_available(kernels);
    struct fm_permutation p;
    fm_permutation_init(&p, n, key, (uint32_t)key ^ 3);
    for (int i = 0; i < sets; i++) {
        uint64_t *places = guarded_new((size_t)count * sizeof *places);
        kernels[i]->permute(&p, first, count, places);
        cr_assert(guarded_intact(places));
        for (int64_t j = 0; j < count; j++)
            cr_assert_eq(places[j], fm_permutation_at(&p, first + (uint64_t)j), "%s n %llu place %d",
                         kernels[i]->name, (unsigned long long)n, (int)j);
        guarded_free(places);
    }
}

Test(cpu_random, permutation_is_the_permutation)
{
    const uint64_t sizes[] = {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 257, 1000, 4096, 4097};
    for (int i = 0; i < 15; i++)
        one_permutation(sizes[i], 0, (int64_t)sizes[i], (uint64_t)i * 0x123456789abcdef1u);
    one_permutation(75000, 0, 75000 / 10, 5);
    one_permutation(75000, 74300, 700, 6);
    const uint64_t large[] = {75000,
                              (1u << 20) + 1,
                              1u << 24,
                              (1u << 24) + 1,
                              UINT64_C(1) << 32,
                              (UINT64_C(1) << 32) + 1,
                              UINT64_C(987654321987),
                              (UINT64_C(1) << 62) - 1,
                              (UINT64_C(1) << 60) + 1};
    for (int i = 0; i < 9; i++)
        for (int64_t count = 0; count < 60; count += 1 + count / 3)
            one_permutation(large[i], large[i] - (uint64_t)count, count, (uint64_t)i + 99);
    one_permutation((1u << 20) + 1, 12345, 2500, 8);
    one_permutation((1u << 24), 54321, 5000, 9);
    one_permutation((UINT64_C(1) << 33) + 1, 1 << 30, 1100, 10);
}
