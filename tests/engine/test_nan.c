/* Bad steps under the four policies: by a number in the data that is not finite, by a learning rate that
 * blows up, and by gradients that overflow a float. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backend_checks.h"
#include "support/inside.h"
#include "support/tolerance.h"

#define N 12

static const struct fm_backend *const backends[2] = {&fm_backend_reference, &fm_backend_cpu};

/* One number an example, batches of 2 in set order: example 5 (step 2) is what `bad` says. */
struct subject {
    float x[N], y[N];
    struct ts_bench bench;
    struct fm_lane *lane;
    size_t size;
};

static void open_subject(struct subject *s, const struct fm_backend *backend, float bad, const char *more)
{
    char yaml[512];
    snprintf(
        yaml, sizeof yaml,
        "model: [flatten, {dense: {units: 3, activation: tanh}}, batch_normalization, {dense: {units: 1}}]\n"
        "train: {loss: mse, batch_size: 2, epochs: 1, shuffle: false, %s}\n",
        more);
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < N; i++) {
        s->x[i] = ts_hashed(i, 5, 1, 0);
        s->y[i] = ts_hashed(i, 6, 1, 0);
    }
    if (!isfinite(bad) || bad != 0) s->y[5] = bad;
    const struct ts_examples examples = {
        .n = N, .rows = 1, .channels = 1, .x = s->x, .values = s->y, .width = 1, .train = N};
    cr_assert(ts_bench_open(&s->bench, &examples, yaml, backend, 1), "%s", s->bench.error.text);
    s->lane = ts_bench_lane(&s->bench, 0, 1, NULL);
    cr_assert_not_null(s->lane);
    s->size = (size_t)s->bench.backend->state_size(s->lane);
}

static void close_subject(struct subject *s)
{
    s->bench.backend->lane_close(s->lane);
    ts_bench_close(&s->bench);
}

static unsigned char *state(struct subject *s)
{
    unsigned char *blob = malloc(s->size);
    cr_assert(blob && s->bench.backend->state_read(s->lane, blob, &s->bench.error) == 0);
    return blob;
}

/* The tail ends every blob. */
static int64_t iterations(struct subject *s)
{
    struct fm_state_tail tail;
    unsigned char *blob = state(s);
    memcpy(&tail, blob + s->size - sizeof tail, sizeof tail);
    free(blob);
    return tail.iterations;
}

/* A variable's values, of `count`; free() it. */
static float *variable(struct subject *s, int number, size_t *count)
{
    const struct fm_variable *v = &s->bench.program->variables[number];
    float *all = malloc((size_t)s->bench.program->float_count * sizeof *all);
    cr_assert(all && ts_bench_parameters(&s->bench, s->lane, all));
    memmove(all, all + v->offset, (size_t)v->count * sizeof *all);
    *count = (size_t)v->count;
    return all;
}

/* stop and rollback: the bad step changes nothing, what follows is not done until a restore or a state_write.
 */
void ts_check_frozen(const struct fm_backend *backend, const char *policy, float bad)
{
    struct subject s;
    char more[64];
    snprintf(more, sizeof more, "on_nan: %s, optimizer: {adam: {learning_rate: 0.01}}", policy);
    open_subject(&s, backend, bad, more);
    struct fm_report report;
    cr_assert(ts_bench_train(&s.bench, s.lane, 0, 2, &report) && report.bad_steps == 0);
    const double norm = report.last_norm, loss = report.last_loss, sum = report.loss_sum;
    unsigned char *before = state(&s);
    const struct fm_request keep = {.kind = FM_SNAPSHOT, .slot = FM_SLOT_CLEAN};
    const struct fm_request back = {.kind = FM_RESTORE, .slot = FM_SLOT_CLEAN};
    const struct fm_request evaluate = {.kind = FM_EVALUATE, .part = FM_PART_VAL};
    cr_assert(ts_bench_do(&s.bench, s.lane, &keep, &report));
    struct fm_request train = {.kind = FM_TRAIN,
                               .first_step = 2,
                               .steps = 4,
                               .learning_rate = 0.01,
                               .on_nan = s.bench.config.on_nan,
                               .loss_sum = sum};
    cr_assert(ts_bench_do(&s.bench, s.lane, &train, &report));
    cr_assert(report.frozen && !report.cancelled && report.status == 0, "%s", policy);
    cr_assert(report.steps == 1 && report.bad_steps == 1 && report.first_bad_step == 2);
    cr_assert(report.loss_sum == sum, "a bad step's loss does not count");
    cr_assert(report.last_loss == loss && report.last_norm == norm, "the last finite ones are of step 1");
    unsigned char *after = state(&s);
    cr_assert(memcmp(before, after, s.size) == 0, "%s: the bad step changed something", policy);

    const struct fm_request *const queued[] = {&train, &evaluate, &keep};
    for (int i = 0; i < 3; i++) {
        cr_assert(ts_bench_do(&s.bench, s.lane, queued[i], &report));
        cr_assert(report.frozen && report.steps == 0 && report.bad_steps == 0 && report.first_bad_step == -1);
    }
    train.first_step = 3;
    train.steps = 1;
    cr_assert(ts_bench_do(&s.bench, s.lane, &back, &report) && !report.frozen && report.status == 0);
    cr_assert(ts_bench_do(&s.bench, s.lane, &train, &report) && !report.frozen && report.bad_steps == 0);
    train.first_step = 2;
    cr_assert(ts_bench_do(&s.bench, s.lane, &train, &report) && report.frozen);
    cr_assert(s.bench.backend->state_write(s.lane, before, &s.bench.error) == 0);
    train.first_step = 3;
    cr_assert(ts_bench_do(&s.bench, s.lane, &train, &report) && !report.frozen, "state_write thaws");
    free(before);
    free(after);
    close_subject(&s);
}

Test(engine_nan, stop_and_rollback_freeze_the_lane)
{
    for (int b = 0; b < 2; b++) {
        ts_check_frozen(backends[b], "stop", NAN);
        ts_check_frozen(backends[b], "stop", INFINITY);
        ts_check_frozen(backends[b], "rollback", NAN);
        ts_check_frozen(backends[b], "stop", 3e38f); /* the loss overflows */
        /* So does the sum of squares of the gradients, though each is finite. */
        ts_check_frozen(backends[b], "stop", 1e19f);
    }
}

/* The step is left out: as if its batch had not been there, for weights, slots, iterations and statistics. */
void ts_check_skip(const struct fm_backend *backend)
{
    struct subject s;
    open_subject(&s, backend, NAN, "on_nan: skip, optimizer: {adam: {learning_rate: 0.01}}");
    struct fm_report report;
    cr_assert(ts_bench_train(&s.bench, s.lane, 0, 6, &report));
    cr_assert(!report.frozen && report.steps == 6 && report.bad_steps == 1 && report.first_bad_step == 2);
    cr_assert(report.examples == 12 && report.loss_examples == 10 && isfinite(report.loss_sum));
    cr_assert_eq(iterations(&s), 5);
    unsigned char *skipped = state(&s);
    double sum = report.loss_sum;
    close_subject(&s);

    open_subject(&s, backend, NAN, "on_nan: skip, optimizer: {adam: {learning_rate: 0.01}}");
    cr_assert(ts_bench_train(&s.bench, s.lane, 0, 2, &report));
    const struct fm_request rest = {.kind = FM_TRAIN,
                                    .first_step = 3,
                                    .steps = 3,
                                    .learning_rate = 0.01,
                                    .on_nan = FM_ON_NAN_SKIP,
                                    .loss_sum = report.loss_sum};
    cr_assert(ts_bench_do(&s.bench, s.lane, &rest, &report) && report.bad_steps == 0);
    unsigned char *without = state(&s);
    cr_assert(memcmp(skipped, without, s.size) == 0);
    cr_assert(report.loss_sum == sum);
    free(skipped);
    free(without);
    close_subject(&s);
}

/* Keras has no check: weights and everything after are NaN, and the steps go on. */
void ts_check_keras(const struct fm_backend *backend)
{
    struct subject s;
    open_subject(&s, backend, NAN, "on_nan: keras, optimizer: {adam: {learning_rate: 0.01}}");
    struct fm_report report;
    cr_assert(ts_bench_train(&s.bench, s.lane, 0, 6, &report));
    cr_assert(!report.frozen && report.steps == 6 && report.bad_steps == 4 && report.first_bad_step == 2);
    cr_assert(isnan(report.loss_sum) && report.loss_examples == 12);
    cr_assert(isfinite(report.last_loss) && isfinite(report.last_norm));
    cr_assert_eq(iterations(&s), 6);
    size_t count;
    float *w = variable(&s, 0, &count);
    for (size_t i = 0; i < count; i++) cr_assert(isnan(w[i]));
    free(w);
    const struct fm_request evaluate = {.kind = FM_EVALUATE, .part = FM_PART_VAL};
    cr_assert(ts_bench_do(&s.bench, s.lane, &evaluate, &report) && report.status == 0 && isnan(report.loss));
    close_subject(&s);
}

/* With clipvalue an infinite gradient becomes the limit, and under `keras` training goes on with finite
 * weights. */
void ts_check_clipvalue(const struct fm_backend *backend)
{
    struct subject s;
    open_subject(&s, backend, INFINITY,
                 "on_nan: keras, optimizer: {sgd: {learning_rate: 0.01, clipvalue: 0.5}}");
    struct fm_report report;
    cr_assert(ts_bench_train(&s.bench, s.lane, 0, 2, &report));
    const int bias = s.bench.program->nvariables - 1; /* the last layer's */
    size_t count;
    float *before = variable(&s, bias, &count);
    cr_assert(ts_bench_train(&s.bench, s.lane, 2, 1, &report) && report.bad_steps == 1);
    float *after = variable(&s, bias, &count);
    /* error = output - inf: the bias's gradient is -inf, clipped to -0.5. */
    cr_assert(ts_compare_one(TS_FLOAT, (double)after[0], (double)before[0] + 0.005).ok, "%g, then %g",
              (double)before[0], (double)after[0]);
    free(before);
    free(after);
    close_subject(&s);
}

void ts_check_huge_rate(const struct fm_backend *backend)
{
    struct subject s;
    open_subject(&s, backend, 0, "on_nan: stop, optimizer: {sgd: {learning_rate: 1e30}}");
    struct fm_report report;
    cr_assert(ts_bench_train(&s.bench, s.lane, 0, 40, &report));
    cr_assert(report.frozen && report.bad_steps == 1 && report.first_bad_step > 0);
    cr_assert_eq(report.first_bad_step, report.steps - 1);
    cr_assert(isfinite(report.last_loss) && isfinite(report.last_norm) && isfinite(report.loss_sum));
    size_t count;
    float *w = variable(&s, 0, &count);
    for (size_t i = 0; i < count; i++)
        cr_assert(isfinite(w[i]), "parameters are never updated by a bad step");
    free(w);
    close_subject(&s);
}

/* Equal numbers far from zero: the rounding of their sum must not make a variance below zero. */
void ts_check_equal_numbers(const struct fm_backend *backend, float number)
{
    enum { ROWS = 50 };
    static float x[N * ROWS], y[N];
    for (int i = 0; i < N * ROWS; i++) x[i] = number;
    const struct ts_examples examples = {
        .n = N, .rows = ROWS, .channels = 1, .x = x, .values = y, .width = 1, .train = N};
    struct ts_bench bench;
    cr_assert(ts_bench_open(&bench, &examples,
                            "model: [batch_normalization, flatten, {dense: {units: 1}}]\n"
                            "train: {loss: mse, batch_size: 12, epochs: 1, shuffle: false, on_nan: stop}\n",
                            backend, 1),
              "%s", bench.error.text);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert_not_null(lane);
    struct fm_report report;
    cr_assert(ts_bench_train(&bench, lane, 0, 2, &report));
    cr_assert(report.bad_steps == 0 && isfinite(report.loss_sum), "%.9g", (double)number);
    bench.backend->lane_close(lane);
    ts_bench_close(&bench);
}

Test(engine_nan, equal_numbers_have_no_variance)
{
    for (int b = 0; b < 2; b++)
        for (uint32_t i = 0; i < 20; i++) ts_check_equal_numbers(backends[b], ts_hashed(i, 7, 4e8, 1e9));
}
Test(engine_nan, skip_leaves_the_update_out)
{
    for (int b = 0; b < 2; b++) ts_check_skip(backends[b]);
}
Test(engine_nan, keras_carries_on)
{
    for (int b = 0; b < 2; b++) ts_check_keras(backends[b]);
}
Test(engine_nan, clipvalue_survives_infinity_under_keras)
{
    for (int b = 0; b < 2; b++) ts_check_clipvalue(backends[b]);
}
Test(engine_nan, a_huge_rate_is_found_before_it_is_too_late)
{
    for (int b = 0; b < 2; b++) ts_check_huge_rate(backends[b]);
}
