#include "base/indexset.h"

#include "base/error.h"
#include "base/random.h"
#include "support/allocation.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static uint32_t draw(uint32_t a, uint32_t b, uint32_t below)
{
    uint32_t bits[4];
    fm_philox((uint32_t[4]){a, b, 0, 0}, 31, bits);
    return bits[0] % below;
}

/* Members in a shuffled order against the walk. */
static void check_many(const struct fm_indexset *set)
{
    const size_t size = (size_t)set->count + 1;
    int64_t *walked = malloc(size * sizeof *walked), *places = malloc(size * sizeof *places);
    int64_t *members = malloc(size * sizeof *members), count = 0;
    struct fm_cursor cursor = {0};
    while (fm_indexset_next(set, &cursor, &walked[count])) count++;
    cr_assert_eq(count, set->count);
    for (int64_t i = 0; i < count; i++) places[i] = count - 1 - i * 7 % count;
    fm_indexset_at_many(set, places, count, members);
    for (int64_t i = 0; i < count; i++)
        cr_assert_eq(members[i], walked[places[i]], "member %lld", (long long)places[i]);
    fm_indexset_at_many(set, places, count, places);
    cr_assert(count == 0 || memcmp(places, members, (size_t)count * sizeof *members) == 0, "in place");
    free(walked);
    free(places);
    free(members);
}

/* Compares every answer with a plain array of flags. */
static void check_against(const struct fm_indexset *set, const bool *in, int64_t span, int64_t offset,
                          int64_t stride)
{
    int64_t index = 0, member = -1;
    struct fm_cursor cursor = {0};
    check_many(set);
    for (int64_t v = 0; v < span; v++) {
        int64_t value = offset + v * stride;
        cr_assert_eq(fm_indexset_rank(set, value), index, "rank of %lld", (long long)value);
        cr_assert_eq(fm_indexset_has(set, value), in[v], "%lld", (long long)value);
        if (stride > 1) cr_assert(!fm_indexset_has(set, value + 1));
        if (!in[v]) continue;
        cr_assert_eq(fm_indexset_at(set, index), value);
        cr_assert(fm_indexset_next(set, &cursor, &member) && member == value);
        cr_assert_eq(fm_indexset_rank(set, value + 1), index + 1);
        index++;
    }
    cr_assert_eq(set->count, index);
    cr_assert(!fm_indexset_next(set, &cursor, &member));
    cr_assert(!fm_indexset_has(set, -1) && fm_indexset_rank(set, -5) == 0);
    cr_assert_eq(fm_indexset_rank(set, INT64_MAX), index);
    cr_assert(!fm_indexset_has(set, INT64_MAX));
}

/* Members of the array, added one by one or as runs of what follows each other. */
static void add_part(struct fm_indexset_builder *b, const bool *in, int64_t span, int64_t offset,
                     int64_t stride, bool runs)
{
    for (int64_t v = 0; v < span; v++) {
        if (!in[v]) continue;
        int64_t end = v + 1;
        while (runs && end < span && in[end]) end++;
        if (end - v > 1) {
            fm_indexset_add_run(b, offset + v * stride, end - v, stride);
        } else {
            fm_indexset_add(b, offset + v * stride);
        }
        v = end - 1;
    }
}

enum { SPAN = 6000 };

/* Density in 1/256, changing along the way, so that the form changes while it is built. */
static void fill(bool *in, uint32_t seed)
{
    uint32_t density = draw(seed, 0, 257), state = 0, patience = seed % 4 == 2 ? 600 : 8;
    for (uint32_t v = 0; v < SPAN; v++) {
        if (draw(seed, 3 * v + 1, 700) == 0) density = draw(seed, 3 * v + 2, 257);
        if (draw(seed, 3 * v + 3, patience) == 0 || seed % 2) state = draw(seed, 50000 + v, 256) < density;
        in[v] = state;
    }
}

Test(indexset, random_sets_answer_as_an_array_of_flags)
{
    static bool in[SPAN];
    static const int64_t strides[] = {1, 3, 1000000007, 5};
    int bitmaps = 0, lists = 0;
    for (uint32_t seed = 0; seed < 60; seed++) {
        struct fm_indexset_builder b;
        struct fm_indexset set;
        int64_t stride = strides[seed % 4], offset = (int64_t)draw(seed, 99, 1000);
        fill(in, seed);
        fm_indexset_builder_init(&b, seed % 3 ? 1 : stride);
        add_part(&b, in, SPAN, offset, stride, seed % 5 < 2);
        cr_assert_eq(fm_indexset_finish(&b, &set, NULL), 0);
        check_against(&set, in, SPAN, offset, stride);
        cr_assert(fm_indexset_bytes(&set) <= (SPAN / 64 + 1) * 10 + 128, "never larger than the bitmap");
        bitmaps += set.bits != NULL;
        lists += set.bits == NULL;
        fm_indexset_fini(&set);
    }
    cr_assert(bitmaps > 5 && lists > 5, "%d bitmaps, %d lists: both forms were met", bitmaps, lists);
}

Test(indexset, empty_and_single)
{
    struct fm_indexset_builder b;
    struct fm_indexset set;
    struct fm_cursor cursor = {0};
    int64_t member;
    fm_indexset_builder_init(&b, 1);
    cr_assert_eq(fm_indexset_finish(&b, &set, NULL), 0);
    cr_assert(set.count == 0 && fm_indexset_bytes(&set) == 0 && !fm_indexset_has(&set, 0));
    cr_assert(fm_indexset_rank(&set, 5) == 0 && !fm_indexset_next(&set, &cursor, &member));
    fm_indexset_fini(&set);
    fm_indexset_builder_init(&b, 7);
    fm_indexset_add(&b, 0);
    cr_assert_eq(fm_indexset_finish(&b, &set, NULL), 0);
    cr_assert(set.count == 1 && fm_indexset_has(&set, 0) && !fm_indexset_has(&set, 7) &&
              fm_indexset_at(&set, 0) == 0);
    fm_indexset_fini(&set);
}

Test(indexset, consecutive_members_are_one_run_however_they_come)
{
    struct fm_indexset_builder b;
    struct fm_indexset set;
    fm_indexset_builder_init(&b, 1);
    for (int64_t i = 0; i < 1000; i++) fm_indexset_add(&b, 5 + 2 * i);
    fm_indexset_add_run(&b, 2005, 50000000, 2);
    cr_assert_eq(fm_indexset_finish(&b, &set, NULL), 0);
    cr_assert(set.nruns == 1 && set.count == 50001000);
    cr_assert_eq(fm_indexset_at(&set, 50000999), 5 + 2 * INT64_C(50000999));
    fm_indexset_fini(&set);
}

Test(indexset, scattered_members_of_a_large_set_take_little_more_than_a_bit_each)
{
    enum { N = 1000000 };
    struct fm_indexset_builder b;
    struct fm_indexset set;
    int64_t count = 0, member, index = 0;
    fm_indexset_builder_init(&b, 1);
    for (uint32_t v = 0; v < N; v++) {
        if (draw(v, 7, 5) != 0) fm_indexset_add(&b, v), count++;
        cr_assert((int64_t)b.capacity * (b.set.bits ? 8 : 32) < 2 * N / 8 + 8192,
                  "the builder stays small too");
    }
    cr_assert_eq(fm_indexset_finish(&b, &set, NULL), 0);
    cr_assert(set.bits && set.count == count);
    cr_assert(fm_indexset_bytes(&set) < N / 8 * 1.26 + 64, "%lld", (long long)fm_indexset_bytes(&set));
    for (struct fm_cursor cursor = {0}; fm_indexset_next(&set, &cursor, &member); index++) {
        if (index % 1000 == 0)
            cr_assert(fm_indexset_at(&set, index) == member && fm_indexset_rank(&set, member) == index);
    }
    cr_assert_eq(index, count);
    fm_indexset_fini(&set);
}

Test(indexset, a_far_member_after_scattered_ones_does_not_cost_the_gap)
{
    struct fm_indexset_builder b;
    struct fm_indexset set;
    int64_t far = ((int64_t)1 << 62) - 1, count = 0, near = 0;
    fm_indexset_builder_init(&b, 1);
    for (uint32_t v = 0; v < 20000; v++) {
        if (draw(v, 8, 2)) fm_indexset_add(&b, near = v), count++;
    }
    cr_assert_not_null(b.set.bits);
    fm_indexset_add(&b, far);
    cr_assert_eq(fm_indexset_finish(&b, &set, NULL), 0);
    cr_assert(set.count == count + 1 && fm_indexset_at(&set, count) == far && fm_indexset_has(&set, far));
    cr_assert(fm_indexset_at(&set, count - 1) == near && fm_indexset_bytes(&set) < 400000);
    fm_indexset_fini(&set);
}

/* A wrong hint and members off the first grid make the bitmap finer while it is built. */
Test(indexset, members_off_the_grid_are_kept)
{
    static bool in[SPAN];
    for (uint32_t seed = 0; seed < 6; seed++) {
        struct fm_indexset_builder b;
        struct fm_indexset set;
        int64_t steps[] = {12, 4, 6, 1};
        for (int64_t v = 0; v < SPAN; v++)
            in[v] = v % steps[v / (SPAN / 4)] == 0 && draw((uint32_t)v, seed, 3) > 0;
        fm_indexset_builder_init(&b, seed == 0 ? 1 : 12);
        add_part(&b, in, SPAN, 0, 1, seed % 2);
        cr_assert_eq(fm_indexset_finish(&b, &set, NULL), 0);
        check_against(&set, in, SPAN, 0, 1);
        fm_indexset_fini(&set);
    }
}

Test(indexset, mistakes_of_the_caller_are_reported)
{
    static const int64_t runs[][3] = {{5, 1, 1},   {-1, 1, 1},         {10, 3, 0},
                                      {10, -1, 1}, {10, INT64_MAX, 2}, {INT64_MAX, 1, 1}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct fm_indexset_builder b;
        struct fm_indexset set;
        struct fm_error err = {0};
        fm_indexset_builder_init(&b, 1);
        fm_indexset_add(&b, 5);
        fm_indexset_add_run(&b, runs[i][0], runs[i][1], runs[i][2]);
        fm_indexset_add(&b, 1000);
        cr_assert_eq(fm_indexset_finish(&b, &set, &err), FM_EINTERNAL, "case %zu", i);
        cr_assert(err.code == FM_EINTERNAL && set.count == 0 && !set.runs && !set.bits);
    }
}

/* Each allocation fails in turn: either the whole set comes or nothing, and nothing leaks. */
Test(indexset, every_lost_allocation_is_reported)
{
    static bool in[SPAN];
    fill(in, 3);
    for (long n = 1;; n++) {
        struct fm_indexset_builder b;
        struct fm_indexset set;
        struct fm_error err = {0};
        ts_fail_allocation(n, false);
        fm_indexset_builder_init(&b, 1);
        add_part(&b, in, SPAN, 0, 1, false);
        int code = fm_indexset_finish(&b, &set, &err);
        long asked = ts_allocations();
        ts_fail_allocation(0, false);
        /* Losing only the last step, which gives back reserve, is no failure. */
        if (code == 0) check_against(&set, in, SPAN, 0, 1);
        if (code != 0) cr_assert(code == FM_ENOMEM && err.code == FM_ENOMEM && set.count == 0);
        fm_indexset_fini(&set);
        if (asked < n) break;
        cr_assert(n < 1000);
    }
}

/* Bitmaps whose members are far from evenly spread: dense, empty and sparse stretches, and single words full
 * or with one bit, so that the i-th member is nowhere near its share of the way. */
Test(indexset, uneven_bitmaps)
{
    for (uint32_t round = 0; round < 12; round++) {
        struct fm_indexset_builder b;
        struct fm_indexset set;
        fm_indexset_builder_init(&b, 1);
        int64_t at = draw(round, 50, 1000);
        for (uint32_t part = 0; part < 40; part++) {
            const uint32_t spread = 1 + draw(round, 100 + part, part % 3 == 0 ? 2 : part % 3 == 1 ? 90 : 7);
            for (uint32_t i = 0; i < 600; i++) {
                fm_indexset_add(&b, at);
                at += 1 + draw(round * 1000 + part, 200 + i, spread);
            }
            if (part % 10 == 5) at += draw(round, 60 + part, 20000);
        }
        cr_assert_eq(fm_indexset_finish(&b, &set, NULL), 0);
        cr_assert_not_null(set.bits);
        check_many(&set);
        struct fm_cursor cursor = {0};
        int64_t member, index = 0;
        for (; fm_indexset_next(&set, &cursor, &member); index++) {
            cr_assert_eq(fm_indexset_at(&set, index), member);
            cr_assert_eq(fm_indexset_rank(&set, member), index);
        }
        fm_indexset_fini(&set);
    }
}
