/* Metrics against scikit-learn (tests/goldens/metrics.json), counting by hand, and cases A10 and A13. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "support/support.h"
#include "support/tolerance.h"
#include "train/metrics.h"

static const char *const names[FM_METRICS] = {
    "loss",   "accuracy", "balanced_accuracy", "auc", "pr_auc", "precision",
    "recall", "f1",       "macro_f1",          "mcc", "mse",    "mae",
    "r2"};

/* Everything that fits, from labels and scores. */
static struct fm_measured pooled(const uint32_t *classes, const float *targets, const float *scores,
                                 int64_t n, int64_t k, int64_t width, int64_t *confusion)
{
    struct fm_measured m;
    struct fm_error err = {0};
    int code = fm_metrics_pooled(classes, targets, scores, n, k, width, UINT32_MAX, &m, confusion, &err);
    cr_assert_eq(code, 0, "%s", err.text);
    return m;
}

static void check(size_t index, const json_t *expected, const struct fm_measured *m)
{
    for (int i = 1; i < FM_METRICS; i++) {
        json_t *value = json_object_get(expected, names[i]);
        if (!value || json_is_null(value)) {
            cr_assert(isnan(m->value[i]), "case %zu: %s is %g", index, names[i], m->value[i]);
            continue;
        }
        struct ts_worst w = ts_compare_one(TS_METRIC, m->value[i], json_number_value(value));
        cr_assert(w.ok, "case %zu, %s: %s", index, names[i], w.text);
    }
}

static void check_numbers(size_t index, const json_t *c)
{
    size_t n, np;
    double *y = ts_golden_numbers(json_object_get(c, "y"), &n),
           *p = ts_golden_numbers(json_object_get(c, "p"), &np);
    float *targets = malloc(n * sizeof *targets), *scores = malloc(n * sizeof *scores);
    bool exact = true;
    for (size_t i = 0; i < n; i++) {
        targets[i] = (float)y[i];
        scores[i] = (float)p[i];
        exact = exact && fabs(y[i]) < 1e5;
    }
    struct fm_measured m = pooled(NULL, targets, scores, (int64_t)n, 0, 1, NULL);
    if (exact) check(index, json_object_get(c, "metrics"), &m);
    free(y);
    free(p);
    free(targets);
    free(scores);
}

/* Both through plain arrays and through a view and a part of it, with two outputs as one and as two scores.
 */
static void check_classes(size_t index, const json_t *c)
{
    size_t n, np;
    int64_t k = json_integer_value(json_object_get(c, "classes")), confusion[25];
    double *y = ts_golden_numbers(json_object_get(c, "y"), &n),
           *p = ts_golden_numbers(json_object_get(c, "p"), &np);
    double *counts = ts_golden_numbers(json_object_get(c, "confusion"), &(size_t){0});
    int64_t outputs = (int64_t)(np / n), width = k == 2 ? 1 : k;
    uint32_t *classes = malloc(n * sizeof *classes);
    float *scores = malloc(n * (size_t)width * sizeof *scores);
    for (size_t i = 0; i < n; i++) {
        classes[i] = (uint32_t)y[i];
        for (int64_t w = 0; w < width; w++)
            scores[(int64_t)i * width + w] = (float)p[(int64_t)i * outputs + (width == 1 ? outputs - 1 : w)];
    }
    struct fm_measured m = pooled(classes, NULL, scores, (int64_t)n, k, width, confusion);
    check(index, json_object_get(c, "metrics"), &m);
    for (int64_t i = 0; i < k * k; i++) cr_assert_eq(confusion[i], (int64_t)counts[i], "case %zu", index);

    struct fm_dataset data = {.nclasses = k};
    struct fm_view view = {.data = &data, .width = 1, .classes = {32, (int64_t)n, classes}};
    struct fm_indexset_builder b;
    struct fm_indexset part;
    struct fm_error err = {0};
    fm_indexset_builder_init(&b, 1);
    fm_indexset_add_run(&b, 0, (int64_t)n, 1);
    cr_assert_eq(fm_indexset_finish(&b, &part, &err), 0);
    struct fm_metrics_input in = {.view = &view,
                                  .part = &part,
                                  .loss = .25,
                                  .confusion = confusion,
                                  .scores = scores,
                                  .width = width,
                                  .wanted = UINT32_MAX};
    cr_assert_eq(fm_metrics_measure(&in, &m, &err), 0);
    check(index, json_object_get(c, "metrics"), &m);
    cr_assert_eq(m.value[FM_METRIC_LOSS], .25);
    in.wanted = 1u << FM_METRIC_AUC;
    cr_assert_eq(fm_metrics_measure(&in, &m, &err), 0);
    cr_assert(isnan(m.value[FM_METRIC_ACCURACY]) && isnan(m.value[FM_METRIC_PR_AUC]));
    fm_indexset_fini(&part);
    free(y);
    free(p);
    free(counts);
    free(classes);
    free(scores);
}

Test(metrics, goldens)
{
    json_t *golden = ts_golden("metrics");
    cr_assert(golden);
    json_t *cases = json_object_get(golden, "cases"), *c;
    size_t index;
    cr_assert_gt(json_array_size(cases), 30);
    json_array_foreach(cases, index, c)
    {
        if (strcmp(json_string_value(json_object_get(c, "kind")), "numbers") == 0)
            check_numbers(index, c);
        else
            check_classes(index, c);
    }
    json_decref(golden);
}

Test(metrics, what_fits)
{
    uint32_t two = fm_metrics_fitting(2), three = fm_metrics_fitting(3), numbers = fm_metrics_fitting(0);
    cr_assert_eq(two & ~three, 1u << FM_METRIC_PRECISION | 1u << FM_METRIC_RECALL | 1u << FM_METRIC_F1);
    cr_assert_eq(numbers,
                 1u << FM_METRIC_LOSS | 1u << FM_METRIC_MSE | 1u << FM_METRIC_MAE | 1u << FM_METRIC_R2);
    cr_assert_eq(two & numbers, 1u << FM_METRIC_LOSS);
}

/* ---- ranking ---- */

static float draw_score(uint32_t *state, int levels)
{
    *state = *state * 1664525u + 1013904223u;
    float u = (float)(*state >> 8) / 16777216.0f - 0.5f;
    return levels ? roundf(u * (float)levels) / (float)levels : u * 1e3f;
}

/* Counts pairs one by one. */
static double slow_auc(const float *s, const uint8_t *y, int64_t n)
{
    int64_t twice = 0, p = 0;
    for (int64_t i = 0; i < n; i++) {
        p += y[i];
        for (int64_t j = 0; y[i] && j < n; j++)
            if (!y[j]) twice += 2 * (s[i] > s[j]) + (s[i] == s[j]);
    }
    return (double)twice / (2.0 * (double)p * (double)(n - p));
}

/* Precision at each distinct threshold, from the definition. */
static double slow_average_precision(const float *s, const uint8_t *y, int64_t n)
{
    double sum = 0;
    int64_t p = 0;
    for (int64_t i = 0; i < n; i++) {
        p += y[i];
        int64_t above = 0, hits = 0;
        for (int64_t j = 0; y[i] && j < n; j++) {
            above += s[j] >= s[i];
            hits += y[j] && s[j] >= s[i];
        }
        if (y[i]) sum += (double)hits / (double)above;
    }
    return sum / (double)p;
}

Test(metrics, ranking_counts_pairs)
{
    enum { MOST = 3000 };
    static float s[MOST], scratch[MOST];
    static uint8_t y[MOST];
    uint32_t state = 5;
    for (int round = 0; round < 24; round++) {
        int64_t n = round == 0 ? 2 : round < 12 ? 3 + round * 17 : MOST - round;
        for (int64_t i = 0; i < n; i++) {
            s[i] = draw_score(&state, round % 3 == 0 ? 0 : round % 3 == 1 ? 4 : 100);
            y[i] = draw_score(&state, 0) > 300 - 40 * (float)round || i == 0;
        }
        y[1] = 0;
        cr_assert_eq(fm_metric_auc(s, y, n, scratch), slow_auc(s, y, n), "round %d", round);
        struct ts_worst w = ts_compare_one(TS_DOUBLE, fm_metric_average_precision(s, y, n, scratch),
                                           slow_average_precision(s, y, n));
        cr_assert(w.ok, "round %d: %s", round, w.text);
    }
}

Test(metrics, ranking_edges)
{
    float scratch[4];
    cr_assert_eq(fm_metric_auc((float[]){-0.0f, 0.0f}, (uint8_t[]){1, 0}, 2, scratch), .5);
    cr_assert_eq(fm_metric_auc((float[]){-1e-38f, -1e38f, 1e-45f, 0}, (uint8_t[]){1, 0, 1, 0}, 4, scratch),
                 .75);
    cr_assert(isnan(fm_metric_auc((float[]){1, 2}, (uint8_t[]){1, 1}, 2, scratch)));
    cr_assert(isnan(fm_metric_auc((float[]){1, 2}, (uint8_t[]){0, 0}, 2, scratch)));
    cr_assert(isnan(fm_metric_auc((float[]){1, NAN}, (uint8_t[]){0, 1}, 2, scratch)));
    cr_assert(isnan(fm_metric_average_precision((float[]){1, INFINITY}, (uint8_t[]){0, 1}, 2, scratch)));
    cr_assert(isnan(fm_metric_auc(NULL, NULL, 0, scratch)));
}

/* A million scores in the order that hurts insertion and quick sorts most: few distinct ones, and already
 * sorted. */
Test(metrics, ranking_is_linear, .timeout = 20)
{
    int64_t n = 999996;
    float *s = malloc((size_t)n * sizeof *s), *scratch = malloc((size_t)n * sizeof *s);
    uint8_t *y = malloc((size_t)n);
    for (int64_t i = 0; i < n; i++) {
        s[i] = (float)(i % 3);
        y[i] = i % 2 == 0;
    }
    cr_assert_eq(fm_metric_auc(s, y, n, scratch), .5);
    for (int64_t i = 0; i < n; i++) {
        s[i] = (float)i;
        y[i] = i >= n / 2;
    }
    cr_assert_eq(fm_metric_auc(s, y, n, scratch), 1);
    cr_assert_eq(fm_metric_average_precision(s, y, n, scratch), 1);
    free(s);
    free(y);
    free(scratch);
}

Test(metrics, two_logits_rank_by_their_difference)
{
    const uint32_t classes[] = {0, 1, 0, 1};
    const float logits[] = {5, 1, -3, -2, 0, -1, 2, 2.5f}, ones[] = {-4, 1, -1, .5f};
    struct fm_measured two = pooled(classes, NULL, logits, 4, 2, 2, NULL),
                       one = pooled(classes, NULL, ones, 4, 2, 1, NULL);
    cr_assert_eq(two.value[FM_METRIC_AUC], 1);
    cr_assert_eq(two.value[FM_METRIC_AUC], one.value[FM_METRIC_AUC]);
    cr_assert_eq(two.value[FM_METRIC_ACCURACY], 1);
}

Test(metrics, nan_scores_define_nothing)
{
    const uint32_t classes[] = {0, 1, 0, 1};
    const float scores[] = {.1f, NAN, .3f, .9f}, targets[] = {1, 2, 3, 4};
    struct fm_measured m = pooled(classes, NULL, scores, 4, 2, 1, NULL);
    for (int i = 0; i < FM_METRICS; i++) cr_assert(isnan(m.value[i]), "%s", names[i]);
    m = pooled(NULL, targets, scores, 4, 0, 1, NULL);
    for (int i = 0; i < FM_METRICS; i++) cr_assert(isnan(m.value[i]), "%s", names[i]);
}

Test(metrics, several_outputs_are_a_uniform_mean)
{
    const float targets[] = {1, 10, 2, 20, 3, 60}, scores[] = {1, 20, 2, 20, 4, 50};
    struct fm_measured m = pooled(NULL, targets, scores, 3, 0, 2, NULL);
    /* By output: squares 1 and 200; spreads 2 and 1400. */
    struct ts_worst w =
        ts_compare_one(TS_DOUBLE, m.value[FM_METRIC_R2], (1 - 1.0 / 2 + 1 - 200.0 / 1400) / 2);
    cr_assert(w.ok, "%s", w.text);
    w = ts_compare_one(TS_DOUBLE, m.value[FM_METRIC_MSE], 201.0 / 6);
    cr_assert(w.ok, "%s", w.text);
    w = ts_compare_one(TS_DOUBLE, m.value[FM_METRIC_MAE], 21.0 / 6);
    cr_assert(w.ok, "%s", w.text);
}

/* ---- cases ---- */

static float sigmoid(double x)
{
    return (float)(1 / (1 + exp(-x)));
}

Test(metrics, A13_a_fold_with_one_class)
{
    static const double x[] = {.5, -1, 2, -2, 1, -.5, -1.5, .25, -3, 3.5, 2.75, 1.25, 1.75, 5};
    static const uint32_t y[] = {1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1};
    static const int64_t first[] = {0, 5, 9, 14};
    static const double auc[] = {.8333333, NAN, 1}, accuracy[] = {.8, .75, .8};
    float scores[14];
    for (int i = 0; i < 14; i++) scores[i] = sigmoid(x[i]);
    for (int f = 0; f < 3; f++) {
        struct fm_measured m =
            pooled(y + first[f], NULL, scores + first[f], first[f + 1] - first[f], 2, 1, NULL);
        struct ts_worst w = ts_compare_one(TS_METRIC, m.value[FM_METRIC_AUC], auc[f]);
        cr_assert(w.ok, "fold %d: %s", f, w.text);
        w = ts_compare_one(TS_METRIC, m.value[FM_METRIC_ACCURACY], accuracy[f]);
        cr_assert(w.ok, "fold %d: %s", f, w.text);
    }
    struct fm_measured m = pooled(y, NULL, scores, 14, 2, 1, NULL);
    struct ts_worst w = ts_compare_one(TS_METRIC, m.value[FM_METRIC_AUC], .9583333);
    cr_assert(w.ok, "%s", w.text);
}

Test(metrics, A10_targets_of_one_column)
{
    const float fold0[] = {1, 4, 6}, x0[] = {1, 2, 4}, fold1[] = {2, 3, 5, 4, 8}, x1[] = {1, 2, 3, 4, 5};
    struct fm_measured m = pooled(NULL, fold0, x0, 3, 0, 1, NULL);
    struct ts_worst w = ts_compare_one(TS_METRIC, m.value[FM_METRIC_MSE], 2.6666667);
    cr_assert(w.ok, "%s", w.text);
    m = pooled(NULL, fold1, x1, 5, 0, 1, NULL);
    cr_assert_eq(m.value[FM_METRIC_MSE], 3);
}
