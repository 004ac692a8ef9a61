/* Which examples a step takes: every step against the definition (backend.h: the pass's permutation over the
 * training set), whatever was asked for before it, for training sets of all forms and batches below and above
 * the places that are worked out ahead. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "support/inside.h"
#include "support/series.h"

enum { N = 1500, ROWS = 3, CLASSES = 3 };

static float x[N * ROWS], weights[N];
static uint32_t classes[N];

struct subject {
    struct ts_bench bench;
    struct fm_lane *lane;
    int64_t member[N], count; /* of the training set, as they were put in */
    int64_t batch;
    bool shuffle, weighted;
};

/* All, three runs, or scattered ones. */
static bool belongs(int form, int64_t i)
{
    if (form == 0) return true;
    if (form == 1) return i / 250 % 2 == 0;
    return i * 2654435761u % 97 < 60;
}

static void open_subject(struct subject *s, int form)
{
    static const float class_weights[CLASSES] = {1, 0.5f, 3};
    for (uint32_t i = 0; i < N * ROWS; i++) x[i] = ts_hashed(i, 9, 1, 0);
    for (uint32_t i = 0; i < N; i++) {
        classes[i] = i * 7 % CLASSES;
        weights[i] = (float)(1 + i % 5);
    }
    const struct ts_examples examples = {.n = N,
                                         .rows = ROWS,
                                         .channels = 1,
                                         .x = x,
                                         .nclasses = CLASSES,
                                         .classes = classes,
                                         .width = 1,
                                         .weights = s->weighted ? weights : NULL,
                                         .train = N};
    char yaml[300];
    snprintf(yaml, sizeof yaml,
             "model: [flatten, {dense: {units: 3, activation: softmax}}]\n"
             "train: {loss: sparse_categorical_crossentropy, batch_size: %lld, shuffle: %s}\n",
             (long long)s->batch, s->shuffle ? "true" : "false");
    cr_assert(ts_bench_open(&s->bench, &examples, yaml, &fm_backend_reference, 1), "%s", s->bench.error.text);
    struct fm_indexset_builder builder;
    fm_indexset_builder_init(&builder, 1);
    s->count = 0;
    for (int64_t i = 0; i < N; i++) {
        if (!belongs(form, i)) continue;
        fm_indexset_add(&builder, i);
        s->member[s->count++] = i;
    }
    fm_indexset_fini(&s->bench.folds[1].train);
    cr_assert(fm_indexset_finish(&builder, &s->bench.folds[1].train, NULL) == 0);
    cr_assert_eq(s->bench.folds[1].train.bits != NULL, form == 2);
    s->lane = ts_bench_lane(&s->bench, 1, 5, s->weighted ? class_weights : NULL);
    cr_assert_not_null(s->lane, "%s", s->bench.error.text);
}

/* What step `s` must have taken. */
static void check_step(const struct subject *s, int64_t step)
{
    const int64_t per_pass = (s->count + s->batch - 1) / s->batch, first = step % per_pass * s->batch;
    const int64_t n = s->count - first < s->batch ? s->count - first : s->batch;
    const struct fm_lane *lane = s->lane;
    struct fm_permutation order;
    fm_permutation_init(&order, (uint64_t)s->count, fm_key(5, FM_PURPOSE_SHUFFLE, 0, 1),
                        (uint32_t)(step / per_pass));
    cr_assert(lane->n == n && lane->step == step, "step %lld", (long long)step);
    /* What lies ahead in the pass is right as well. */
    cr_assert(lane->ahead >= 0 && first + n + lane->ahead <= s->count);
    for (int64_t i = 0; i < n + lane->ahead; i++) {
        const int64_t place =
            s->shuffle ? (int64_t)fm_permutation_at(&order, (uint64_t)(first + i)) : first + i;
        const int64_t example = s->member[place];
        struct fm_slab slab;
        fm_view_slab(lane->view, example, &slab);
        cr_assert_eq(lane->example[i], example, "step %lld, example %lld", (long long)step, (long long)i);
        cr_assert(memcmp(&lane->slab[i], &slab, sizeof slab) == 0 && slab.first == example * ROWS);
        const double weight = s->weighted ? (double)weights[example] *
                                                (double)lane->options.hyper.class_weights[classes[example]]
                                          : 1;
        cr_assert_eq(lane->weight[i], weight);
    }
}

static void jump_about(int form, int64_t batch, bool shuffle, bool weighted)
{
    struct subject s = {.batch = batch, .shuffle = shuffle, .weighted = weighted};
    struct ts_random random = {(uint64_t)batch * 2 + shuffle + 1};
    open_subject(&s, form);
    const int64_t steps = 3 * ((s.count + batch - 1) / batch);
    const struct fm_request evaluate = {.kind = FM_EVALUATE, .part = FM_PART_VAL};
    const struct fm_request snapshot = {.kind = FM_SNAPSHOT}, restore = {.kind = FM_RESTORE};
    struct fm_report report;
    cr_assert(ts_bench_do(&s.bench, s.lane, &snapshot, &report));
    int64_t step = 0;
    for (int i = 0; i < 60; i++) {
        const uint32_t what = ts_random_below(&random, 8);
        if (what == 0) cr_assert(ts_bench_do(&s.bench, s.lane, &evaluate, &report) && !report.status);
        if (what == 1) cr_assert(ts_bench_do(&s.bench, s.lane, &restore, &report) && !report.status);
        /* On to the next one, back, or anywhere; sometimes several in one request. */
        if (what < 4) step = ts_random_below(&random, (uint32_t)steps);
        if (what == 4 && step > 0) step--;
        const int64_t run = what == 5 ? 4 : 1;
        cr_assert(ts_bench_train(&s.bench, s.lane, step, run, &report));
        step += run;
        check_step(&s, step - 1);
    }
    s.bench.backend->lane_close(s.lane);
    ts_bench_close(&s.bench);
}

Test(engine_order, any_step_takes_the_examples_of_its_place)
{
    static const int64_t batches[] = {1, 3, 64, 100, 255, 256, 257, 700, 4000};
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (int form = 0; form < 3; form++) jump_about(form, batches[b], (b + (size_t)form) % 3 != 0, b % 2);
}

/* Trains from `first` to `last` in requests of `each` steps, an evaluation between them. */
static void train_in_pieces(struct subject *s, int64_t first, int64_t last, int64_t each)
{
    const struct fm_request evaluate = {.kind = FM_EVALUATE, .part = FM_PART_VAL};
    struct fm_report report;
    for (int64_t step = first; step < last; step += each) {
        cr_assert(ts_bench_train(&s->bench, s->lane, step, last - step < each ? last - step : each, &report));
        if (each < last) cr_assert(ts_bench_do(&s->bench, s->lane, &evaluate, &report));
    }
}

/* The weights after 150 steps, cut after `cut` steps by a snapshot, 20 steps more and a restore. */
static float *weights_after(int64_t cut, int64_t each)
{
    struct subject s = {.batch = 16, .shuffle = true, .weighted = true};
    struct fm_report report;
    const struct fm_request snapshot = {.kind = FM_SNAPSHOT}, restore = {.kind = FM_RESTORE};
    open_subject(&s, 2);
    train_in_pieces(&s, 0, cut, each);
    if (cut > 0) {
        cr_assert(ts_bench_do(&s.bench, s.lane, &snapshot, &report));
        train_in_pieces(&s, cut, cut + 20, 20);
        cr_assert(ts_bench_do(&s.bench, s.lane, &restore, &report));
    }
    train_in_pieces(&s, cut, 150, each);
    float *w = malloc((size_t)s.bench.program->float_count * sizeof *w);
    cr_assert(ts_bench_parameters(&s.bench, s.lane, w));
    s.bench.backend->lane_close(s.lane);
    ts_bench_close(&s.bench);
    return w;
}

Test(engine_order, same_weights_straight_and_in_pieces)
{
    const size_t size = (ROWS * CLASSES + CLASSES) * sizeof(float);
    float *straight = weights_after(0, 150);
    static const int64_t cuts[][2] = {{0, 1}, {7, 5}, {16, 3}, {57, 150}, {100, 17}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        float *pieces = weights_after(cuts[i][0], cuts[i][1]);
        cr_assert(memcmp(straight, pieces, size) == 0, "cut %zu", i);
        free(pieces);
    }
    free(straight);
}

/* A pass over nothing has no steps: that is said, not divided by. */
Test(engine_order, nothing_to_train_on_is_refused)
{
    static const float x[2] = {1, 2}, y[2] = {1, 2};
    const struct ts_examples examples = {
        .n = 2, .rows = 1, .channels = 1, .x = x, .values = y, .width = 1, .train = 0};
    struct ts_bench bench;
    cr_assert(ts_bench_open(&bench, &examples,
                            "model: [flatten, {dense: {units: 1}}]\n"
                            "train: {loss: mse, batch_size: 2, epochs: 1}\n",
                            &fm_backend_cpu, 1),
              "%s", bench.error.text);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert_not_null(lane);
    const struct fm_request request = {.kind = FM_TRAIN, .steps = 1, .learning_rate = 0.1};
    struct fm_error err = {0};
    cr_assert_eq(bench.backend->submit(lane, &request, &err), FM_EINTERNAL);
    cr_assert(*err.text);
    bench.backend->lane_close(lane);
    ts_bench_close(&bench);
}
