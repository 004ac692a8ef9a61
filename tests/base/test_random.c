#include "base/random.h"

#include "support/support.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The known answers of Random123 1.14 (kat_vectors), philox4x32 with 10 rounds. */
Test(random, philox_gives_the_published_numbers)
{
    static const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t out[4];
    } known[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         0xffffffffffffffff,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         0x299f31d0a4093822,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        fm_philox(known[i].counter, known[i].key, out);
        cr_assert(memcmp(out, known[i].out, sizeof out) == 0, "vector %zu", i);
    }
}

/* Every way of drawing a row, over the carry into the upper half of the element's number and at odd lengths.
 */
Test(random, a_row_is_made_of_single_draws)
{
    static const uint64_t starts[] = {0, 0xfffffff0u, 0x123456789abu, UINT64_MAX - 20};
    for (int way = FM_PHILOX_PLAIN; way <= FM_PHILOX_AVX512; way++)
        for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
            for (int n = 0; n <= FM_PHILOX_ROW; n += n < 35 ? 1 : 221) {
                uint32_t row[4][FM_PHILOX_ROW];
                uint32_t counter[4] = {5, (uint32_t)starts[s], (uint32_t)(starts[s] >> 32), 77};
                if (!fm_philox_row_by((enum fm_philox_way)way, counter, 0xfedcba9876543210u, n, row))
                    continue;
                for (int i = 0; i < n; i++) {
                    uint64_t at = starts[s] + (uint64_t)i;
                    uint32_t out[4];
                    fm_philox((uint32_t[4]){5, (uint32_t)at, (uint32_t)(at >> 32), 77}, 0xfedcba9876543210u,
                              out);
                    for (int w = 0; w < 4; w++)
                        cr_assert_eq(row[w][i], out[w], "way %d, start %zu, %d of %d", way, s, i, n);
                }
            }
}

Test(random, keys_differ_by_every_part)
{
    uint64_t keys[16];
    int n = 0;
    for (uint32_t part = 0; part < 16; part++) {
        keys[n++] =
            fm_key(part & 1, part & 2 ? FM_PURPOSE_SEARCH : FM_PURPOSE_SHUFFLE, part >> 2 & 1, part >> 3);
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) cr_assert_neq(keys[i], keys[j], "%d and %d", i, j);
    }
}

Test(random, uniform_numbers_lie_in_0_to_1)
{
    cr_assert(fm_uniform_float(0) == 0.0f && fm_uniform_double(0, 0) == 0.0);
    cr_assert(fm_uniform_float(UINT32_MAX) == 1.0f - 0x1p-24f);
    cr_assert(fm_uniform_double(UINT32_MAX, UINT32_MAX) == 1.0 - 0x1p-53);
    cr_assert(fm_uniform_float(0x80000000u) == 0.5f && fm_uniform_double(0x80000000u, 0) == 0.5);
}

Test(random, normal_numbers_have_the_moments_of_the_normal_distribution)
{
    enum { N = 100000 };
    double sum = 0, squares = 0, fourths = 0, cross = 0;
    for (uint32_t i = 0; i < N; i++) {
        uint32_t bits[4];
        double x[2];
        fm_philox((uint32_t[4]){i, 0, 0, 0}, 7, bits);
        fm_normal(bits, x);
        cr_assert(isfinite(x[0]) && isfinite(x[1]));
        cross += x[0] * x[1];
        for (int k = 0; k < 2; k++) {
            sum += x[k];
            squares += x[k] * x[k];
            fourths += x[k] * x[k] * x[k] * x[k];
        }
    }
    /* Five standard errors of each mean: sqrt(1, 2, 96 over 2N), sqrt(1 over N). */
    cr_assert(fabs(sum / (2 * N)) < 5 * sqrt(1.0 / (2 * N)), "mean %g", sum / (2 * N));
    cr_assert(fabs(squares / (2 * N) - 1) < 5 * sqrt(2.0 / (2 * N)), "variance %g", squares / (2 * N));
    cr_assert(fabs(fourths / (2 * N) - 3) < 5 * sqrt(96.0 / (2 * N)), "kurtosis %g", fourths / (2 * N));
    cr_assert(fabs(cross / N) < 5 * sqrt(1.0 / N), "covariance %g", cross / N);
    double extreme[2];
    fm_normal((uint32_t[4]){UINT32_MAX, UINT32_MAX, 0, 0}, extreme);
    cr_assert(isfinite(extreme[0]) && extreme[0] > 8, "the largest radius is finite: %g", extreme[0]);
}

static void check_bijection(uint64_t n, uint64_t key, uint32_t pass)
{
    struct fm_permutation p;
    unsigned char *seen = calloc(n, 1);
    fm_permutation_init(&p, n, key, pass);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = fm_permutation_at(&p, i);
        cr_assert(at < n && !seen[at], "n %llu place %llu", (unsigned long long)n, (unsigned long long)i);
        seen[at] = 1;
    }
    free(seen);
}

Test(random, permutation_is_a_bijection)
{
    static const uint64_t large[] = {255, 256, 257, 1023, 1025, 4097, 65535, 65537, 99991};
    for (uint64_t n = 1; n <= 200; n++) check_bijection(n, n * 977, (uint32_t)n % 3);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) check_bijection(large[i], 5, (uint32_t)i);
}

/* The definition: six rounds, each the first number of a whole Philox, walking until inside. */
static uint64_t permuted(const struct fm_permutation *p, uint64_t i)
{
    const uint32_t mask = (uint32_t)(((uint64_t)1 << p->half_bits) - 1);
    do {
        uint32_t left = (uint32_t)(i >> p->half_bits), right = (uint32_t)i & mask;
        for (uint32_t round = 0; round < 6; round++) {
            uint32_t out[4];
            fm_philox((uint32_t[4]){right, round, p->counter, 0}, p->key, out);
            const uint32_t next = left ^ (out[0] & mask);
            left = right;
            right = next;
        }
        i = (uint64_t)left << p->half_bits | right;
    } while (i >= p->n);
    return i;
}

Test(random, permutation_of_many_places_is_that_of_each)
{
    static const uint64_t sizes[] = {1,    2,    3,     4,     5,       17,         64,
                                     1023, 4097, 22489, 65536, 1049344, 1000000007, (uint64_t)1 << 61};
    static uint64_t places[700];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint32_t pass = 0; pass < 40; pass += 13) {
            struct fm_permutation p;
            fm_permutation_init(&p, sizes[s], UINT64_C(0x9E3779B97F4A7C15) * (s + 1), pass);
            const int64_t most = sizes[s] < 700 ? (int64_t)sizes[s] : 700;
            for (int64_t count = most; count > 0; count = count / 2 - 3) {
                const uint64_t first = sizes[s] - (uint64_t)(pass % 2 ? most : count);
                memset(places, 0xff, sizeof places);
                fm_permutation_many(&p, first, count, places);
                for (int64_t i = 0; i < count; i++) {
                    const uint64_t want = permuted(&p, first + (uint64_t)i);
                    cr_assert_eq(places[i], want, "n %llu, place %lld", (unsigned long long)sizes[s],
                                 (long long)i);
                    cr_assert_eq(fm_permutation_at(&p, first + (uint64_t)i), want);
                }
                cr_assert(count == 700 || places[count] == UINT64_MAX, "nothing is written behind them");
            }
        }
}

Test(random, permutation_of_a_huge_set_stays_inside)
{
    struct fm_permutation p;
    uint64_t n = ((uint64_t)1 << 62) - 1, before = n;
    fm_permutation_init(&p, n, 1, 0);
    for (uint64_t i = n - 100; i < n; i++) {
        uint64_t at = fm_permutation_at(&p, i);
        cr_assert(at < n && at != before);
        before = at;
    }
}

/* Chi-square of `cells` counts around their mean stays below its own mean plus six standard deviations. */
static void check_even(const int *counts, int cells, double mean, const char *what, unsigned long long n)
{
    double chi = 0;
    for (int i = 0; i < cells; i++) chi += (counts[i] - mean) * (counts[i] - mean) / mean;
    double freedom = cells - 1;
    cr_assert(chi < freedom + 6 * sqrt(2 * freedom) + 6, "%s, n = %llu: chi-square %g for %d cells", what, n,
              chi, cells);
}

Test(random, permutation_sends_every_place_everywhere)
{
    static const uint64_t sizes[] = {2, 3, 5, 7, 16, 31};
    enum { PASSES = 6200 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint64_t n = sizes[s];
        int first[31] = {0}, last[31] = {0}, pairs[31 * 31] = {0};
        for (uint32_t pass = 0; pass < PASSES; pass++) {
            struct fm_permutation p;
            fm_permutation_init(&p, n, 42, pass);
            uint64_t a = fm_permutation_at(&p, 0), b = fm_permutation_at(&p, n - 1);
            first[a]++;
            last[b]++;
            /* b is one of the n - 1 others. */
            pairs[a * (n - 1) + (b > a ? b - 1 : b)]++;
        }
        check_even(first, (int)n, (double)PASSES / (double)n, "first place", n);
        check_even(last, (int)n, (double)PASSES / (double)n, "last place", n);
        check_even(pairs, (int)(n * (n - 1)), (double)PASSES / (double)(n * (n - 1)), "pair", n);
    }
}

Test(random, mt19937_gives_the_published_numbers)
{
    struct fm_mt19937 mt;
    uint32_t value = 0;
    fm_mt19937_init(&mt, 5489);
    for (int i = 0; i < 10000; i++) value = fm_mt19937_next(&mt);
    cr_assert_eq(value, 4123659995u, "ISO C++ names the 10000th number of std::mt19937");
    fm_mt19937_init(&mt, 0);
    cr_assert_eq(fm_mt19937_next(&mt), 2357136044u);
    cr_assert_eq(fm_mt19937_next(&mt), 2546248239u);
}

static void check_order(struct fm_mt19937 *mt, const json_t *permutation, long seed)
{
    int64_t n = json_integer_value(json_object_get(permutation, "n"));
    const json_t *order = json_object_get(permutation, "order");
    uint32_t *items = calloc((size_t)n + 1, sizeof *items);
    for (int64_t i = 0; i < n; i++) items[i] = (uint32_t)i;
    fm_mt19937_shuffle(mt, items, n);
    for (int64_t i = 0; i < n; i++) {
        cr_assert_eq((json_int_t)items[i], json_integer_value(json_array_get(order, (size_t)i)),
                     "seed %ld n %ld at %ld", seed, (long)n, (long)i);
    }
    free(items);
}

Test(random, mt19937_shuffles_as_numpy)
{
    json_t *root = ts_golden("splits"), *entry, *item;
    size_t i, j;
    cr_assert_not_null(root);
    json_array_foreach(json_object_get(root, "mt19937"), i, entry)
    {
        struct fm_mt19937 mt;
        json_int_t seed = json_integer_value(json_object_get(entry, "seed"));
        fm_mt19937_init(&mt, (uint32_t)seed);
        json_array_foreach(json_object_get(entry, "uint32"), j, item)
        {
            cr_assert_eq((json_int_t)fm_mt19937_next(&mt), json_integer_value(item));
        }
        json_array_foreach(json_object_get(entry, "permutations"), j, item)
        {
            fm_mt19937_init(&mt, (uint32_t)seed);
            check_order(&mt, item, (long)seed);
        }
        fm_mt19937_init(&mt, (uint32_t)seed);
        json_array_foreach(json_object_get(entry, "stream"), j, item) check_order(&mt, item, (long)seed);
    }
    cr_assert(i > 3, "the golden holds several seeds");
    json_decref(root);
}

Test(random, mt19937_interval_draws_nothing_for_zero)
{
    struct fm_mt19937 mt;
    fm_mt19937_init(&mt, 0);
    cr_assert_eq(fm_mt19937_interval(&mt, 0), 0u);
    cr_assert_eq(fm_mt19937_interval(&mt, UINT32_MAX), 2357136044u);
}

Test(random, hash_does_not_depend_on_cuts)
{
    unsigned char bytes[257];
    for (int i = 0; i < 257; i++) bytes[i] = (unsigned char)(i * 37 + 11);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        struct fm_hash whole = {0};
        fm_hash_add(&whole, bytes, size);
        for (uint32_t round = 0; round < 20; round++) {
            struct fm_hash cut = {0};
            for (size_t at = 0; at < size;) {
                uint32_t bits[4];
                fm_philox((uint32_t[4]){(uint32_t)at, round, 0, 0}, size, bits);
                /* Every cut goes on by at least one byte, after a call with none. */
                size_t part = 1 + bits[0] % 20;
                fm_hash_add(&cut, bytes, 0);
                if (part > size - at) part = size - at;
                fm_hash_add(&cut, bytes + at, part);
                at += part;
            }
            cr_assert_eq(fm_hash_value(&cut), fm_hash_value(&whole), "size %zu", size);
        }
    }
}

Test(random, hash_tells_every_small_change)
{
    enum { SIZE = 67 };
    unsigned char bytes[SIZE] = {0};
    struct fm_hash base = {0}, seeded = {.state = 1}, empty = {0};
    fm_hash_add(&base, bytes, SIZE);
    fm_hash_add(&seeded, bytes, SIZE);
    cr_assert_neq(fm_hash_value(&base), fm_hash_value(&seeded));
    cr_assert_neq(fm_hash_value(&base), fm_hash_value(&empty));
    for (int bit = 0; bit < SIZE * 8; bit++) {
        struct fm_hash changed = {0};
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        fm_hash_add(&changed, bytes, SIZE);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        int differing = __builtin_popcountll(fm_hash_value(&changed) ^ fm_hash_value(&base));
        cr_assert(differing >= 10 && differing <= 54, "bit %d changes %d bits", bit, differing);
    }
    /* Zeros count by their number, too. */
    for (size_t n = 0; n < 40; n++) {
        struct fm_hash shorter = {0}, longer = {0};
        fm_hash_add(&shorter, (char[64]){0}, n);
        fm_hash_add(&longer, (char[64]){0}, n + 1);
        cr_assert_neq(fm_hash_value(&shorter), fm_hash_value(&longer), "%zu zeros", n);
    }
}
