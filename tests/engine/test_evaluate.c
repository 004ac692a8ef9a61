/* Evaluations against plain arithmetic on the scores they return, and the exact numbers of cases A10, A10b
 * and A13. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backend_checks.h"
#include "support/inside.h"
#include "support/tolerance.h"

static const struct fm_backend *const backends[2] = {&fm_backend_reference, &fm_backend_cpu};

static struct fm_lane *open_lane(struct ts_bench *bench, const struct ts_examples *examples, const char *yaml,
                                 const struct fm_backend *backend)
{
    cr_assert(ts_bench_open(bench, examples, yaml, backend, 1), "%s\n%s", bench->error.text, yaml);
    struct fm_lane *lane = ts_bench_lane(bench, 0, 1, NULL);
    cr_assert_not_null(lane, "%s", bench->error.text);
    return lane;
}

static void near(double got, double want, const char *what)
{
    const struct ts_worst worst = ts_compare_one(TS_FLOAT_LAYER, got, want);
    cr_assert(worst.ok, "%s: %s", what, worst.text);
}

/* More examples than two chunks; K classes. Loss, scores and confusion must agree with one another. */
void ts_check_classes(const struct fm_backend *backend, int64_t k, const char *loss)
{
    enum { TOTAL = 700, TRAIN = 400 };
    static float x[TOTAL * 4];
    static uint32_t classes[TOTAL];
    for (uint32_t i = 0; i < TOTAL * 4; i++) x[i] = ts_hashed(i, 2, 2, 0);
    for (uint32_t i = 0; i < TOTAL; i++) classes[i] = i * 13 % (uint32_t)k;
    const struct ts_examples examples = {.n = TOTAL,
                                         .rows = 4,
                                         .channels = 1,
                                         .x = x,
                                         .nclasses = k,
                                         .classes = classes,
                                         .width = 1,
                                         .train = TRAIN};
    const bool binary = strstr(loss, "binary") != NULL;
    char yaml[300];
    snprintf(yaml, sizeof yaml,
             "model: [flatten, {dense: {units: %d, activation: %s}}]\n"
             "train: {loss: %s, batch_size: 8, epochs: 1}\n",
             binary ? 1 : (int)k, binary ? "sigmoid" : "softmax", loss);
    struct ts_bench bench;
    struct fm_lane *lane = open_lane(&bench, &examples, yaml, backend);
    const int64_t width = bench.program->score_width;
    cr_assert_eq(width, k == 2 ? 1 : k);
    int64_t *confusion = malloc((size_t)(k * k) * sizeof *confusion), total = 0;
    float *scores = malloc((size_t)(TOTAL * width) * sizeof *scores);
    memset(confusion, 77, (size_t)(k * k) * sizeof *confusion);
    const enum fm_part parts[] = {FM_PART_VAL, FM_PART_TRAIN};
    for (int part = 0; part < 2; part++) {
        const struct fm_request request = {.kind = FM_EVALUATE,
                                           .part = parts[part],
                                           .returns = FM_RETURN_CONFUSION | FM_RETURN_SCORES,
                                           .confusion = confusion,
                                           .scores = scores};
        struct fm_report report;
        cr_assert(ts_bench_do(&bench, lane, &request, &report) && report.status == 0);
        const int64_t first = part ? 0 : TRAIN, count = part ? TRAIN : TOTAL - TRAIN;
        double sum = 0;
        int64_t *expected = calloc((size_t)(k * k), sizeof *expected);
        total = 0;
        for (int64_t i = 0; i < count; i++) {
            const uint32_t truth = classes[first + i];
            const float *s = scores + i * width;
            int64_t guess = 0;
            for (int64_t c = 1; c < width; c++)
                if (s[c] > s[guess]) guess = c;
            if (width == 1) guess = s[0] > 0.5f;
            expected[truth * k + guess]++;
            sum -= log(width == 1 ? (truth ? (double)s[0] : 1 - (double)s[0]) : (double)s[truth]);
        }
        for (int64_t i = 0; i < k * k; i++) {
            cr_assert_eq(confusion[i], expected[i]);
            total += confusion[i];
        }
        cr_assert_eq(total, count);
        near(report.loss, sum / (double)count, loss);
        free(expected);
    }
    free(confusion);
    free(scores);
    bench.backend->lane_close(lane);
    ts_bench_close(&bench);
}

Test(engine_evaluate, classes)
{
    for (int b = 0; b < 2; b++) ts_check_classes(backends[b], 3, "sparse_categorical_crossentropy");
    for (int b = 0; b < 2; b++) ts_check_classes(backends[b], 5, "categorical_crossentropy");
    for (int b = 0; b < 2; b++) ts_check_classes(backends[b], 2, "categorical_crossentropy");
    for (int b = 0; b < 2; b++) ts_check_classes(backends[b], 2, "binary_crossentropy");
}

/* Equal scores: the lowest class; a score of exactly one half: class 0. */
void ts_check_ties(const struct fm_backend *backend)
{
    const float x[4] = {1, 2, 3, 4};
    const uint32_t classes[4] = {0, 1, 2, 1};
    int64_t confusion[9];
    for (int64_t k = 3; k >= 1; k -= 2) {
        const uint32_t two[4] = {0, 1, 1, 1};
        const struct ts_examples examples = {.n = 4,
                                             .rows = 1,
                                             .channels = 1,
                                             .x = x,
                                             .nclasses = k == 1 ? 2 : 3,
                                             .classes = k == 1 ? two : classes,
                                             .width = 1,
                                             .train = 4};
        struct ts_bench bench;
        struct fm_lane *lane = open_lane(
            &bench, &examples,
            k == 1 ? "model: [flatten, {dense: {units: 1, activation: sigmoid, kernel_initializer: zeros}}]\n"
                     "train: {loss: binary_crossentropy}\n"
                   : "model: [flatten, {dense: {units: 3, activation: softmax, kernel_initializer: zeros}}]\n"
                     "train: {loss: sparse_categorical_crossentropy}\n",
            backend);
        const struct fm_request request = {
            .kind = FM_EVALUATE, .part = FM_PART_VAL, .returns = FM_RETURN_CONFUSION, .confusion = confusion};
        struct fm_report report;
        cr_assert(ts_bench_do(&bench, lane, &request, &report) && report.status == 0);
        const int64_t wide = k == 1 ? 2 : 3;
        for (int64_t i = 0; i < wide * wide; i++) cr_assert(i % wide == 0 || confusion[i] == 0);
        near(report.loss, log((double)wide), "uniform");
        bench.backend->lane_close(lane);
        ts_bench_close(&bench);
    }
}

/* Squared and absolute errors; the regulariser is part of the loss, weights are not. */
void ts_check_numbers(const struct fm_backend *backend)
{
    enum { TOTAL = 300 };
    static float x[TOTAL], y[TOTAL], weights[TOTAL], scores[TOTAL];
    for (uint32_t i = 0; i < TOTAL; i++) {
        x[i] = ts_hashed(i, 8, 1, 0);
        y[i] = ts_hashed(i, 9, 1, 0);
        weights[i] = (float)i;
    }
    const struct ts_examples examples = {.n = TOTAL,
                                         .rows = 1,
                                         .channels = 1,
                                         .x = x,
                                         .values = y,
                                         .width = 1,
                                         .weights = weights,
                                         .train = TOTAL};
    struct ts_bench bench;
    struct fm_lane *lane =
        open_lane(&bench, &examples,
                  "model: [flatten, {dense: {units: 1, kernel_regularizer: {l1_l2: {l1: 0.5, l2: "
                  "2}}}}]\ntrain: {loss: mae}\n",
                  backend);
    const float parameters[2] = {-0.75f, 0.125f};
    cr_assert(bench.backend->parameters_write(lane, parameters, &bench.error) == 0);
    const struct fm_request request = {
        .kind = FM_EVALUATE, .part = FM_PART_VAL, .returns = FM_RETURN_SCORES, .scores = scores};
    struct fm_report report;
    cr_assert(ts_bench_do(&bench, lane, &request, &report) && report.status == 0);
    double square = 0, absolute = 0;
    for (int i = 0; i < TOTAL; i++) {
        const double score = -0.75 * (double)x[i] + 0.125, error = (double)y[i] - score;
        near(scores[i], score, "score");
        square += error * error;
        absolute += fabs(error);
    }
    near(report.square_sum, square, "squares");
    near(report.absolute_sum, absolute, "absolutes");
    near(report.loss, absolute / TOTAL + 0.5 * 0.75 + 2 * 0.75 * 0.75, "loss");
    bench.backend->lane_close(lane);
    ts_bench_close(&bench);
}

static void check_a10(const struct fm_backend *backend, const float *x, const float *y, int64_t n,
                      int64_t train, const char *kernel, double rate, double loss, double val_loss,
                      double weight)
{
    for (int64_t batch = 1; batch <= 5; batch++) {
        char yaml[300];
        snprintf(yaml, sizeof yaml,
                 "model: [flatten, {dense: {units: 1, kernel_initializer: %s}}]\n"
                 "train: {loss: mse, optimizer: {sgd: {learning_rate: %g}}, batch_size: %d, epochs: 1}\n",
                 kernel, rate, rate > 0 ? 2 : (int)batch);
        const struct ts_examples examples = {
            .n = n, .rows = 1, .channels = 1, .x = x, .values = y, .width = 1, .train = train};
        struct ts_bench bench;
        struct fm_lane *lane = open_lane(&bench, &examples, yaml, backend);
        struct fm_report report;
        const int64_t steps = (train + bench.config.batch_size - 1) / bench.config.batch_size;
        cr_assert(ts_bench_train(&bench, lane, 0, steps, &report));
        near(report.loss_sum / (double)report.examples, loss, "loss");
        const struct fm_request request = {.kind = FM_EVALUATE, .part = FM_PART_VAL};
        cr_assert(ts_bench_do(&bench, lane, &request, &report) && report.status == 0);
        near(report.loss, val_loss, "val_loss");
        float parameters[2];
        cr_assert(ts_bench_parameters(&bench, lane, parameters));
        near(parameters[0], weight, "kernel");
        if (rate > 0) near(parameters[1], weight, "bias");
        bench.backend->lane_close(lane);
        ts_bench_close(&bench);
    }
}

/* cases/README.md A10b: all rows x = 1, y = 1; folds of 2 and 5 rows; three steps, the last one of one
 * example. */
Test(engine_evaluate, case_a10b)
{
    const float ones[7] = {1, 1, 1, 1, 1, 1, 1};
    for (int b = 0; b < 2; b++)
        check_a10(backends[b], ones, ones, 7, 5, "zeros", 0.1, 0.56992, 0.046656, 0.392);
    for (int b = 0; b < 2; b++) check_a10(backends[b], ones, ones, 7, 2, "zeros", 0.1, 1.0, 0.36, 0.2);
}

/* A10: the mean over examples, for every batch size; fold 1 is fold 0 the other way round. */
Test(engine_evaluate, case_a10)
{
    const float x[8] = {1, 2, 3, 4, 5, 1, 2, 4}, y[8] = {2, 3, 5, 4, 8, 1, 4, 6};
    for (int b = 0; b < 2; b++) check_a10(backends[b], x, y, 8, 5, "ones", 0, 3.0, 2.6666667, 1);
    const float turned_x[8] = {1, 2, 4, 1, 2, 3, 4, 5}, turned_y[8] = {1, 4, 6, 2, 3, 5, 4, 8};
    for (int b = 0; b < 2; b++)
        check_a10(backends[b], turned_x, turned_y, 8, 3, "ones", 0, 2.6666667, 3.0, 1);
}

/* A13: three folds, one of them with class 0 only; losses and accuracies are unaffected. */
void ts_check_a13(const struct fm_backend *backend)
{
    const float x[14] = {0.5f, -1, 2, -2, 1, -0.5f, -1.5f, 0.25f, -3, 3.5f, 2.75f, 1.25f, 1.75f, 5};
    const uint32_t y[14] = {1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1};
    const int first[4] = {0, 5, 9, 14};
    const double loss[3] = {0.4708913, 0.3875043, 0.3521173}, accuracy[3] = {0.8, 0.75, 0.8};
    for (int fold = 0; fold < 3; fold++) {
        float ordered[14];
        uint32_t classes[14];
        const int count = first[fold + 1] - first[fold];
        for (int i = 0, other = 0; i < 14; i++) {
            const bool held = i >= first[fold] && i < first[fold + 1];
            const int place = held ? 14 - count + i - first[fold] : other++;
            ordered[place] = x[i];
            classes[place] = y[i];
        }
        const struct ts_examples examples = {.n = 14,
                                             .rows = 1,
                                             .channels = 1,
                                             .x = ordered,
                                             .nclasses = 2,
                                             .classes = classes,
                                             .width = 1,
                                             .train = 14 - count};
        struct ts_bench bench;
        struct fm_lane *lane =
            open_lane(&bench, &examples,
                      "model: [flatten, {dense: {units: 1, activation: sigmoid, kernel_initializer: ones}}]\n"
                      "train: {loss: binary_crossentropy, optimizer: {sgd: {learning_rate: 0}}}\n",
                      backend);
        int64_t confusion[4];
        const struct fm_request request = {
            .kind = FM_EVALUATE, .part = FM_PART_VAL, .returns = FM_RETURN_CONFUSION, .confusion = confusion};
        struct fm_report report;
        cr_assert(ts_bench_do(&bench, lane, &request, &report) && report.status == 0);
        near(report.loss, loss[fold], "val_loss");
        near((double)(confusion[0] + confusion[3]) / count, accuracy[fold], "accuracy");
        bench.backend->lane_close(lane);
        ts_bench_close(&bench);
    }
}

Test(engine_evaluate, ties_go_to_the_lowest_class)
{
    for (int b = 0; b < 2; b++) ts_check_ties(backends[b]);
}
Test(engine_evaluate, numbers)
{
    for (int b = 0; b < 2; b++) ts_check_numbers(backends[b]);
}
Test(engine_evaluate, case_a13)
{
    for (int b = 0; b < 2; b++) ts_check_a13(backends[b]);
}
