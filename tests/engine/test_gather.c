/* The windows and weights a lane works with against fm_view_window, the obviously right way, over records of
 * several lengths, all edges and alignments, numbers with a fold's scale and letters. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support/inside.h"
#include "support/series.h"
#include "support/tolerance.h"

#define L 5

struct subject {
    struct fm_dataset data;
    struct fm_examples examples;
    struct fm_view view;
    struct fm_split split;
    struct fm_fold fold;
    struct ts_bench bench; /* of other data: for its program and device */
    struct fm_lane *lane;
    float shift[2], factor[2], class_weights[3];
};

static void make_series(struct subject *s, enum fm_edge edge, bool letters)
{
    const int64_t lengths[4] = {7, 3, 12, 5};
    ts_series_init(&s->data, lengths, 4, edge == FM_EDGE_WRAP ? L - 1 : 0);
    ts_series_classes(&s->data, 3, false);
    const int64_t positions = s->data.positions;
    if (letters) {
        s->data.alphabet = 4;
        s->data.letters = fm_calloc((size_t)positions, 1);
        for (int64_t p = 0; p < positions; p++)
            s->data.letters[p] = p % 7 == 3 ? FM_NO_LETTER : (uint8_t)(p * 5 % 4);
    } else {
        ts_series_numbers(&s->data, 2);
        for (int64_t p = 0; p < positions * 2; p++) s->data.values[p] = ts_hashed((uint32_t)p, 4, 3, 1);
    }
    s->data.weights = fm_calloc((size_t)positions, sizeof *s->data.weights);
    for (int64_t p = 0; p < positions; p++) {
        s->data.weights[p] = 1 + (float)p;
        fm_packed_set(&s->data.classes, p, (uint32_t)(p % 3));
    }
    if (edge == FM_EDGE_WRAP) ts_series_wrap(&s->data);
}

static void make_set(struct fm_indexset *set, int64_t first, int64_t count)
{
    struct fm_indexset_builder builder;
    fm_indexset_builder_init(&builder, 1);
    fm_indexset_add_run(&builder, first, count, 1);
    cr_assert(fm_indexset_finish(&builder, set, NULL) == 0);
}

/* Opens a lane on the series, with a network for windows of L. */
static void open_lane(struct subject *s, bool letters, const struct fm_backend *backend)
{
    static const float x[2 * L];
    static const uint8_t no_letters[L];
    static const uint32_t class[1] = {0};
    const struct ts_examples other = {.n = 1,
                                      .rows = L,
                                      .channels = 2,
                                      .x = letters ? NULL : x,
                                      .letters = letters ? no_letters : NULL,
                                      .alphabet = 4,
                                      .nclasses = 3,
                                      .classes = class,
                                      .width = 1,
                                      .train = 1};
    cr_assert(
        ts_bench_open(
            &s->bench, &other,
            "model: [{conv1d: {filters: 2, kernel_size: 2}}, flatten, {dense: {units: 3, activation: "
            "softmax}}]\ntrain: {loss: sparse_categorical_crossentropy, batch_size: 4, shuffle: false}\n",
            backend, 1),
        "%s", s->bench.error.text);
    const struct fm_resident resident = {.data = &s->data,
                                         .examples = &s->examples,
                                         .views = &s->view,
                                         .nviews = 1,
                                         .splits = &s->split,
                                         .nsplits = 1};
    cr_assert(backend->load(s->bench.device, &resident, &s->bench.dataset, &s->bench.error) == 0);
    s->lane = ts_bench_lane(&s->bench, 0, 1, s->class_weights);
    cr_assert_not_null(s->lane, "%s", s->bench.error.text);
}

/* Compares every window that the lane gathered last. */
static void compare_windows(struct subject *s, enum fm_section section)
{
    const struct fm_op *op = inside_find(s->lane, section, FM_OP_GATHER);
    const int64_t channels = s->data.letters ? 4 : 2;
    const enum ts_tolerance near = s->bench.backend == &fm_backend_reference64 ? TS_FLOAT : TS_EXACT;
    size_t count;
    double *all = inside_tensor(s->lane, op->out[0], &count);
    for (int64_t i = 0; i < s->lane->n; i++) {
        float window[L * 4];
        fm_view_window(&s->view, s->lane->example[i], s->shift, s->factor, window);
        for (int64_t e = 0; e < L * channels; e++) {
            const double got = s->data.letters ? all[i * L + e / channels] == (double)(e % channels)
                                               : all[i * L * channels + e];
            const struct ts_worst worst = ts_compare_one(near, got, (double)window[e]);
            cr_assert(worst.ok, "example %d, element %d: %s", (int)s->lane->example[i], (int)e, worst.text);
        }
    }
    free(all);
}

static void check(enum fm_edge edge, enum fm_align align, int64_t stride, bool letters,
                  const struct fm_backend *backend)
{
    struct subject s = {.shift = {0.5f, -1.25f}, .factor = {2.5f, 0.3f}, .class_weights = {0.5f, 1, 3}};
    make_series(&s, edge, letters);
    const struct fm_data_config config = ts_series_config(stride, align, edge, FM_LABEL_ANCHOR);
    const int64_t length = L;
    struct fm_error err = {0};
    cr_assert(fm_examples_init(&s.examples, &s.data, &config, &length, 1, NULL, &err) == 0, "%s", err.text);
    cr_assert(fm_view_init(&s.view, &s.data, &s.examples, &config, L, NULL, &err) == 0, "%s", err.text);
    const int64_t count = s.examples.count;
    cr_assert(count >= 6);
    make_set(&s.fold.train, 0, count - 2);
    make_set(&s.fold.val, count - 2, 2);
    if (!letters) {
        s.fold.shift = s.shift;
        s.fold.factor = s.factor;
    }
    s.split = (struct fm_split){.repeats = 1, .folds = 1, .fold = &s.fold};
    open_lane(&s, letters, backend);
    for (int64_t step = 0; step * 4 < count - 2; step++) {
        struct fm_report report;
        cr_assert(ts_bench_train(&s.bench, s.lane, step, 1, &report));
        compare_windows(&s, FM_SECTION_FORWARD);
        for (int64_t i = 0; i < s.lane->n; i++) {
            const int64_t example = step * 4 + i, anchor = fm_example_anchor(&s.examples, example);
            cr_assert_eq(s.lane->example[i], example);
            const double want = (double)fm_example_weight(&s.data, anchor) *
                                (double)s.class_weights[fm_packed_get(&s.view.classes, example)];
            cr_assert_eq(s.lane->weight[i], want);
        }
    }
    const enum fm_part parts[] = {FM_PART_TRAIN, FM_PART_VAL};
    for (int p = 0; p < 2; p++) {
        const struct fm_request evaluate = {.kind = FM_EVALUATE, .part = parts[p]};
        struct fm_report report;
        cr_assert(ts_bench_do(&s.bench, s.lane, &evaluate, &report) && report.status == 0);
        compare_windows(&s, FM_SECTION_EVALUATE);
    }
    backend->lane_close(s.lane);
    ts_bench_close(&s.bench);
    fm_view_fini(&s.view);
    fm_examples_fini(&s.examples);
    fm_indexset_fini(&s.fold.train);
    fm_indexset_fini(&s.fold.val);
    ts_series_fini(&s.data);
}

Test(engine_gather, windows_of_all_kinds)
{
    const enum fm_edge edges[] = {FM_EDGE_DROP, FM_EDGE_ZERO, FM_EDGE_WRAP};
    const enum fm_align aligns[] = {FM_ALIGN_START, FM_ALIGN_CENTER, FM_ALIGN_END};
    for (int e = 0; e < 3; e++)
        for (int a = 0; a < 3; a++)
            for (int letters = 0; letters < 2; letters++) {
                check(edges[e], aligns[a], 1, letters, &fm_backend_reference);
                check(edges[e], aligns[a], 2, letters, &fm_backend_reference64);
                check(edges[e], aligns[a], 1, letters, &fm_backend_cpu);
            }
}
