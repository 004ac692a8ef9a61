/* Scales against scikit-learn's, and case A12 from its file. */
#include "base/log.h"
#include "base/memory.h"
#include "data/split.h"
#include "support/loading.h"
#include "support/series.h"
#include "support/support.h"
#include "support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct column {
    struct fm_dataset data;
    struct fm_data_config config;
    struct fm_examples examples;
    struct fm_view view;
    struct fm_fold fold;
    struct fm_notes notes;
    struct fm_error err;
};

/* The offset that loading would take: the middle, where it is far from zero by the range. */
static double offset_of(const double *x, size_t n)
{
    double low = x[0], high = x[0];
    for (size_t i = 1; i < n; i++) {
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
    }
    double middle = low + (high - low) / 2;
    return fabs(middle) > 16 * (high - low) ? middle : 0;
}

static void column_init(struct column *c, const double *x, size_t n, double offset)
{
    int64_t count = (int64_t)n, length = 1;
    struct fm_indexset_builder builder;
    *c = (struct column){.config = ts_series_config(1, FM_ALIGN_START, FM_EDGE_DROP, FM_LABEL_ANCHOR)};
    ts_series_init(&c->data, &count, 1, 0);
    ts_series_numbers(&c->data, 1);
    c->data.offset[0] = offset;
    c->data.target_width = 1;
    c->data.target_values = fm_calloc(n, sizeof(float));
    for (size_t i = 0; i < n; i++) c->data.values[i] = (float)(x[i] - offset);
    cr_assert_eq(fm_examples_init(&c->examples, &c->data, &c->config, &length, 1, &c->notes, &c->err), 0);
    cr_assert_eq(fm_view_init(&c->view, &c->data, &c->examples, &c->config, 1, &c->notes, &c->err), 0);
    fm_indexset_builder_init(&builder, 1);
    fm_indexset_add_run(&builder, 0, count, 1);
    cr_assert_eq(fm_indexset_finish(&builder, &c->fold.train, &c->err), 0);
}

static void column_fini(struct column *c)
{
    fm_indexset_fini(&c->fold.train);
    fm_free(c->fold.shift);
    fm_free(c->fold.factor);
    fm_free(c->fold.scale_center);
    fm_free(c->fold.scale_divisor);
    fm_view_fini(&c->view);
    fm_examples_fini(&c->examples);
    ts_series_fini(&c->data);
    fm_notes_fini(&c->notes);
}

static enum fm_scale scale_named(const char *name)
{
    if (strcmp(name, "standard") == 0) return FM_SCALE_STANDARD;
    return strcmp(name, "minmax") == 0 ? FM_SCALE_MINMAX : FM_SCALE_ROBUST;
}

Test(scaling, equals_scikit_learn)
{
    json_t *golden = ts_golden("scaling"), *cases = json_object_get(golden, "cases"), *entry;
    size_t index;
    cr_assert_gt(json_array_size(cases), 40);
    json_array_foreach(cases, index, entry)
    {
        const char *label = json_string_value(json_object_get(entry, "column"));
        size_t n, m;
        double *x = ts_golden_numbers(json_object_get(entry, "x"), &n);
        double *y = ts_golden_numbers(json_object_get(entry, "y"), &m);
        double divisor = json_number_value(json_object_get(entry, "divisor"));
        double center = json_number_value(json_object_get(entry, "center"));
        struct column c;
        column_init(&c, x, n, offset_of(x, n));
        c.config.scale = scale_named(json_string_value(json_object_get(entry, "scale")));
        cr_assert_eq(fm_fold_fit_scale(&c.fold, &c.view, &c.config, &c.notes, &c.err), 0);
        /* Numbers were stored as floats, so centers agree to a float's rounding of the spread. */
        cr_assert(fabs(c.fold.scale_center[0] - center) <= 1e-6 * fmax(divisor, fabs(center) * 1e-6),
                  "%s: %.17g", label, c.fold.scale_center[0]);
        struct ts_worst w = ts_compare_one(TS_FLOAT, c.fold.scale_divisor[0] / divisor, 1);
        cr_assert(w.ok, "%s: divisor %s", label, w.text);
        for (size_t i = 0; i < n; i++) {
            float got;
            fm_view_window(&c.view, (int64_t)i, c.fold.shift, c.fold.factor, &got);
            w = ts_compare_one(TS_FLOAT_LAYER, got, y[i]);
            cr_assert(w.ok, "%s[%zu]: %s", label, i, w.text);
        }
        bool flat = strstr(label, "constant") || strcmp(label, "one") == 0;
        if (c.config.scale == FM_SCALE_ROBUST && strcmp(label, "mostly one value") == 0) flat = true;
        cr_assert_eq(c.notes.count > 0, flat, "%s", label);
        column_fini(&c);
        free(x);
        free(y);
    }
    json_decref(golden);
}

/* Quantiles of many numbers of both signs, infinitely close ones among them: exact, found without sorting. */
Test(scaling, quartiles_are_exact)
{
    enum { N = 4097 };
    double x[N], sorted[N];
    struct ts_random random = {.state = 11};
    for (int i = 0; i < N; i++) {
        double u = ts_random_unit(&random) - 0.5;
        x[i] = (double)(float)(u * pow(10, (double)ts_random_below(&random, 12) - 6));
        sorted[i] = x[i];
    }
    for (int i = 1; i < N; i++) {
        double own = sorted[i];
        int k = i;
        for (; k > 0 && sorted[k - 1] > own; k--) sorted[k] = sorted[k - 1];
        sorted[k] = own;
    }
    struct column c;
    column_init(&c, x, N, 0);
    c.config.scale = FM_SCALE_ROBUST;
    cr_assert_eq(fm_fold_fit_scale(&c.fold, &c.view, &c.config, &c.notes, &c.err), 0);
    cr_assert_eq(c.fold.scale_center[0], sorted[N / 2]);
    cr_assert_eq(c.fold.scale_divisor[0], sorted[3 * (N - 1) / 4] - sorted[(N - 1) / 4]);
    column_fini(&c);
}

/* The inverse of such a spread would be infinite, and what the network sees not a number. */
Test(scaling, a_spread_too_small_for_a_float_is_none)
{
    static const double x[] = {0, 1e-40, 0, 1e-40, 0};
    static const enum fm_scale scales[] = {FM_SCALE_STANDARD, FM_SCALE_MINMAX, FM_SCALE_ROBUST};
    for (size_t k = 0; k < 3; k++) {
        struct column c;
        column_init(&c, x, 5, 0);
        c.config.scale = scales[k];
        cr_assert_eq(fm_fold_fit_scale(&c.fold, &c.view, &c.config, &c.notes, &c.err), 0);
        cr_assert_eq(c.fold.scale_divisor[0], 1);
        for (int64_t i = 0; i < 5; i++) {
            float got;
            fm_view_window(&c.view, i, c.fold.shift, c.fold.factor, &got);
            cr_assert(fabsf(got) <= 1e-39f, "%zu[%d]: %g", k, (int)i, (double)got);
        }
        column_fini(&c);
    }
}

Test(scaling, without_scale_the_network_sees_the_users_numbers)
{
    double x[] = {1000.5, 1000.25, 1001};
    struct column c;
    column_init(&c, x, 3, 1000);
    cr_assert_eq(fm_fold_fit_scale(&c.fold, &c.view, &c.config, &c.notes, &c.err), 0);
    for (int i = 0; i < 3; i++) {
        float got;
        fm_view_window(&c.view, i, c.fold.shift, c.fold.factor, &got);
        cr_assert_eq(got, (float)x[i]);
    }
    column_fini(&c);
}

struct loaded {
    struct fm_examples examples;
    struct fm_view view;
    struct fm_split split;
};

static void load_split(struct ts_loading *l, struct loaded *s, int64_t length)
{
    struct fm_sweep *sweep = &l->sweep;
    cr_assert_eq(fm_examples_init(&s->examples, &l->data, &sweep->data, &length, 1, &l->notes, &l->err), 0);
    cr_assert_eq(fm_view_init(&s->view, &l->data, &s->examples, &sweep->data, length, &l->notes, &l->err), 0);
    cr_assert_eq(fm_split_init(&s->split, &sweep->cv, &sweep->data, &s->view, 0, &l->notes, &l->err), 0, "%s",
                 l->err.text);
}

static void loaded_fini(struct loaded *s)
{
    fm_split_fini(&s->split);
    fm_view_fini(&s->view);
    fm_examples_fini(&s->examples);
}

static void near(double got, double expected, double relative)
{
    cr_assert(fabs(got - expected) <= relative * fabs(expected), "%.12g, not %.12g", got, expected);
}

#define A12                                                                                                  \
    "source: csv, path: A12.csv, features: [dead, count, pressure], target: y, window: {length: 1}, scale: " \
    "standard"

Test(scaling, a12_a_dead_channel_and_a_large_offset)
{
    static const double mean[] = {10001.03125, 10001, 10000.96875}, std[] = {0.8094896, 0.8291562, 0.8094896};
    struct ts_loading l;
    struct loaded s;
    cr_assert(ts_loading_init(&l));
    if (!ts_loading_shared(&l, "cases", "A12.csv")) {
        ts_loading_fini(&l);
        cr_skip("../shared is absent");
    }
    cr_assert_eq(ts_load_cv(&l, A12, "categorical_crossentropy", "split: blocked, folds: 3"), 0, "%s",
                 l.err.text);
    load_split(&l, &s, 1);
    for (int f = 0; f < 3; f++) {
        const struct fm_fold *fold = &s.split.fold[f];
        float row[3];
        near(fold->scale_center[0], 14.62, 1e-12);
        cr_assert_eq(fold->scale_divisor[0], 1);
        near(fold->scale_center[1], mean[f], 1e-9);
        near(fold->scale_divisor[1], std[f], 1e-6);
        near(fold->scale_center[2], 101325.0117188, 1e-10);
        near(fold->scale_divisor[2], 0.0087346405, 1e-6);
        for (int64_t e = 0; e < 48; e++) {
            fm_view_window(&s.view, e, fold->shift, fold->factor, row);
            cr_assert_eq(row[0], 0);
            near(row[2], (double)(e % 4) * 0.8944272 - 1.3416408, 1e-4);
        }
    }
    cr_assert(ts_load_noted(&l, "feature 'dead' is constant (14.62)"));
    loaded_fini(&s);
    cr_assert_eq(
        ts_load_cv(&l, A12 ", scale_fit: all", "categorical_crossentropy", "split: blocked, folds: 3"), 0);
    load_split(&l, &s, 1);
    near(s.split.fold[0].scale_center[1], 10001, 1e-9);
    near(s.split.fold[0].scale_divisor[1], 0.8164966, 1e-6);
    cr_assert(ts_load_noted(&l, "scale_fit: all"));
    loaded_fini(&s);
    ts_loading_fini(&l);
}

Test(scaling, a_map_per_column)
{
    struct ts_loading l;
    struct loaded s;
    cr_assert(ts_loading_init(&l));
    cr_assert(ts_loading_file(&l, "d.csv", "acc_x,acc_y,v,y\n1,10,5,0\n3,20,6,1\n5,40,9,0\n7,80,4,1\n", 0));
    cr_assert_eq(
        ts_load_cv(&l,
                   "source: csv, path: d.csv, features: [acc_x, acc_y, v], target: y, window: {length: 1}, "
                   "scale: {\"acc_*\": minmax, acc_y: robust}, scale_fit: all",
                   "categorical_crossentropy", "split: kfold, folds: 2"),
        0, "%s", l.err.text);
    load_split(&l, &s, 1);
    const struct fm_fold *fold = &s.split.fold[0];
    near(fold->scale_center[0], 1, 1e-12);
    near(fold->scale_divisor[0], 6, 1e-12);
    near(fold->scale_center[1], 30, 1e-12);
    near(fold->scale_divisor[1], 32.5, 1e-12);
    cr_assert_eq(fold->scale_center[2], 0);
    cr_assert_eq(fold->scale_divisor[2], 1);
    loaded_fini(&s);
    struct fm_split split;
    int64_t length = 1;
    cr_assert_eq(
        ts_load_cv(&l,
                   "source: csv, path: d.csv, features: [acc_x, acc_y, v], target: y, window: {length: 1}, "
                   "scale: {acc_z: minmax}",
                   "categorical_crossentropy", "split: kfold, folds: 2"),
        0, "%s", l.err.text);
    cr_assert_eq(fm_examples_init(&s.examples, &l.data, &l.sweep.data, &length, 1, &l.notes, &l.err), 0);
    cr_assert_eq(fm_view_init(&s.view, &l.data, &s.examples, &l.sweep.data, 1, &l.notes, &l.err), 0);
    cr_assert_eq(fm_split_init(&split, &l.sweep.cv, &l.sweep.data, &s.view, 0, &l.notes, &l.err), FM_EFILE);
    cr_assert(strstr(l.err.text, "'acc_z', which is not a feature; did you mean 'acc_"), "%s", l.err.text);
    cr_assert_gt(l.err.line, 0);
    fm_view_fini(&s.view);
    fm_examples_fini(&s.examples);
    ts_loading_fini(&l);
}
