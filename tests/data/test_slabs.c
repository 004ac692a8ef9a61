/* Slabs of many examples at once against the definition, found by walking the records: records of equal and
 * of many lengths, one record, anchors as runs and as bits, all edges, in order and not. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/bits.h"
#include "data/view.h"
#include "support/series.h"

/* view.h, word by word. */
static void naive_slab(const struct fm_view *view, int64_t anchor, struct fm_slab *slab)
{
    const struct fm_dataset *d = view->data;
    int64_t record = 0;
    while (d->starts[record + 1] <= anchor) record++;
    const int64_t length = fm_dataset_record_length(d, record);
    const int64_t start = anchor - d->starts[record] - view->lead;
    *slab = (struct fm_slab){.first = d->starts[record] + start, .rows = view->length};
    if (view->examples->edge == FM_EDGE_WRAP) {
        slab->first = d->starts[record] + ((start % length) + length) % length;
        return;
    }
    while (slab->first < d->starts[record]) slab->first++, slab->before++, slab->rows--;
    while (slab->first + slab->rows > d->starts[record] + length) slab->after++, slab->rows--;
}

/* Compares all examples, in order and shuffled, alone and in pieces of several sizes. */
static void check_view(const struct fm_view *view, struct ts_random *random)
{
    const int64_t count = view->examples->count;
    int64_t *example = malloc((size_t)count * sizeof *example);
    struct fm_slab *slab = malloc((size_t)count * sizeof *slab);
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        for (int64_t i = 0; i < count; i++) example[i] = i;
        for (int64_t i = count - 1; shuffled && i > 0; i--) {
            const int64_t j = ts_random_below(random, (uint32_t)(i + 1)), other = example[i];
            example[i] = example[j];
            example[j] = other;
        }
        for (int64_t at = 0, n; at < count; at += n) {
            n = 1 + ts_random_below(random, 200);
            if (n > count - at) n = count - at;
            fm_view_slabs(view, example + at, n, !shuffled, slab + at);
        }
        for (int64_t i = 0; i < count; i++) {
            struct fm_slab want, one;
            naive_slab(view, fm_example_anchor(view->examples, example[i]), &want);
            fm_view_slab(view, example[i], &one);
            cr_assert(memcmp(&slab[i], &want, sizeof want) == 0, "example %lld", (long long)example[i]);
            cr_assert(memcmp(&one, &want, sizeof want) == 0, "example %lld alone", (long long)example[i]);
        }
    }
    free(example);
    free(slab);
}

/* lengths: 0 = one record, 1 = equal, 2 = many lengths, 3 = a long one among short ones. */
static void check(int lengths, enum fm_edge edge, enum fm_align align, int64_t stride, bool masked,
                  struct ts_random *random)
{
    enum { MOST = 300, L = 9 };
    int64_t length[MOST];
    const int64_t nrecords = lengths == 0 ? 1 : lengths == 3 ? 40 : MOST;
    for (int64_t r = 0; r < nrecords; r++)
        length[r] = lengths == 0   ? 2000
                    : lengths == 1 ? L + 3
                    : lengths == 2 ? 1 + ts_random_below(random, 40)
                                   : (r == 20 ? 3000 : 1 + ts_random_below(random, 20));
    struct fm_dataset data;
    ts_series_init(&data, length, nrecords, edge == FM_EDGE_WRAP ? L - 1 : 0);
    ts_series_numbers(&data, 1);
    ts_series_classes(&data, 2, false);
    for (int64_t p = 0; p < data.positions; p++) fm_packed_set(&data.classes, p, (uint32_t)p & 1);
    if (masked) {
        data.mask = calloc((size_t)fm_bits_words(data.positions), sizeof *data.mask);
        for (int64_t p = 0; p < data.positions; p++)
            if (ts_random_below(random, 3)) fm_bits_set(data.mask, p);
    }
    const struct fm_data_config config = ts_series_config(stride, align, edge, FM_LABEL_ANCHOR);
    const int64_t longest = L;
    struct fm_examples examples;
    struct fm_view view;
    struct fm_error err = {0};
    cr_assert(fm_examples_init(&examples, &data, &config, &longest, 1, NULL, &err) == 0, "%s", err.text);
    for (int64_t shorter = 0; shorter < 2; shorter++) {
        cr_assert(fm_view_init(&view, &data, &examples, &config, L - 4 * shorter, NULL, &err) == 0, "%s",
                  err.text);
        check_view(&view, random);
        fm_view_fini(&view);
    }
    fm_examples_fini(&examples);
    ts_series_fini(&data);
}

Test(slabs, many_at_once_lie_where_one_does)
{
    static const enum fm_edge edges[] = {FM_EDGE_DROP, FM_EDGE_ZERO, FM_EDGE_WRAP};
    static const enum fm_align aligns[] = {FM_ALIGN_START, FM_ALIGN_CENTER, FM_ALIGN_END};
    struct ts_random random = {77};
    for (int lengths = 0; lengths < 4; lengths++)
        for (int e = 0; e < 3; e++)
            for (int a = 0; a < 3; a++)
                for (int64_t stride = 1; stride < 4; stride += 2)
                    check(lengths, edges[e], aligns[a], stride, (lengths + e + a) % 2, &random);
}
