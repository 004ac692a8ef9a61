/* Initial values: what Keras draws from, by shape; statistics; and that a number depends on its key alone. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "net/initialize.h"
#include "support/network.h"
#include "support/support.h"
#include "support/tolerance.h"

static void shape_of(const json_t *golden, struct fm_variable *v)
{
    const json_t *shape = json_object_get(golden, "shape");
    memset(v, 0, sizeof *v);
    v->rank = (int)json_array_size(shape);
    v->count = 1;
    for (int i = 0; i < v->rank; i++) {
        v->shape[i] = json_integer_value(json_array_get(shape, (size_t)i));
        v->count *= v->shape[i];
    }
}

/* Reads {name: args} as the user would write it. */
static void read_initializer(const json_t *golden, struct fm_variable *v)
{
    struct fm_document document = {0};
    struct fm_error err = {0};
    json_t *written = json_pack("{s:O}", json_string_value(json_object_get(golden, "initializer")),
                                json_object_get(golden, "args"));
    char *text = json_dumps(written, JSON_COMPACT);
    cr_assert_eq(fm_document_parse(&document, "init.yaml", text, strlen(text), NULL, &err), 0, "%s",
                 err.text);
    shape_of(golden, v);
    int rc = fm_initializer_read(v, document.root, "zeros", "model[0].dense", "kernel_initializer", &err);
    cr_assert_eq(rc, 0, "%s: %s", text, err.text);
    fm_document_fini(&document);
    free(text);
    json_decref(written);
}

static double number(const json_t *golden, const char *name)
{
    return json_number_value(json_object_get(golden, name));
}

/* At least 20,000 numbers of the variable's initialiser, drawn under one key after another. */
static float *draws(const struct fm_variable *v, int64_t *count)
{
    int64_t keys = 20000 / v->count + 1;
    float *values = fm_malloc((size_t)(keys * v->count), sizeof *values);
    struct fm_error err = {0};
    cr_assert_not_null(values);
    for (int64_t k = 0; k < keys; k++)
        cr_assert_eq(fm_variable_draw(v, 3, fm_key(7, FM_PURPOSE_WEIGHTS, (uint32_t)k, 0),
                                      values + k * v->count, &err),
                     0);
    *count = keys * v->count;
    return values;
}

struct statistics {
    double mean, deviation, largest;
};

static struct statistics measure(const float *x, int64_t n)
{
    struct statistics s = {0, 0, 0};
    for (int64_t i = 0; i < n; i++) {
        s.mean += (double)x[i] / (double)n;
        s.largest = fmax(s.largest, fabs((double)x[i]));
    }
    for (int64_t i = 0; i < n; i++) s.deviation += pow((double)x[i] - s.mean, 2) / (double)n;
    s.deviation = sqrt(s.deviation);
    return s;
}

static void check_limits(const json_t *golden, const struct fm_variable *v, const char *kind)
{
    if (strcmp(kind, "uniform") == 0) {
        cr_assert_eq(v->initializer, FM_INIT_UNIFORM);
        cr_expect(ts_compare_one(TS_DOUBLE, v->b, number(golden, "limit")).ok);
        cr_expect_eq(v->a, -v->b);
    } else if (strcmp(kind, "constant") == 0) {
        double value = number(golden, "value");
        cr_expect_eq(v->initializer, value == 1   ? FM_INIT_ONES
                                     : value == 0 ? FM_INIT_ZEROS
                                                  : FM_INIT_CONSTANT);
    } else {
        bool cut = strcmp(kind, "truncated_normal") == 0;
        cr_assert_eq(v->initializer, cut ? FM_INIT_TRUNCATED_NORMAL : FM_INIT_NORMAL);
        cr_expect_eq(v->a, 0);
        cr_expect(ts_compare_one(TS_DOUBLE, v->b, number(golden, "drawn_std")).ok);
    }
}

static void check_draws(const json_t *golden, const struct fm_variable *v, const char *kind)
{
    int64_t n;
    float *values = draws(v, &n);
    struct statistics s = measure(values, n);
    if (strcmp(kind, "constant") == 0) {
        for (int64_t i = 0; i < n; i++) cr_assert_eq((double)values[i], number(golden, "value"));
    } else {
        double std = number(golden, "std");
        /* 20,000 numbers: the mean is known to 0.7 %, the deviation to 0.7 % of the deviation; four times
         * that */
        cr_expect_lt(fabs(s.mean), 0.03 * std, "mean %g", s.mean);
        cr_expect_lt(fabs(s.deviation / std - 1), 0.03, "deviation %g, not %g", s.deviation, std);
        if (strcmp(kind, "normal") != 0) {
            double edge =
                strcmp(kind, "uniform") == 0 ? number(golden, "limit") : 2 * number(golden, "drawn_std");
            cr_expect_leq(s.largest, edge * (1 + 1e-6));
            cr_expect_geq(s.largest, 0.97 * edge);
        } else {
            cr_expect_gt(s.largest, 3 * std, "nothing is cut");
        }
    }
    fm_free(values);
}

Test(net_initialize, limits_and_statistics_are_keras)
{
    json_t *goldens = ts_golden("initializers"), *golden;
    cr_assert_not_null(goldens);
    size_t i, compared = 0;
    json_array_foreach(json_object_get(goldens, "cases"), i, golden)
    {
        const char *kind = json_string_value(json_object_get(golden, "distribution"));
        if (!kind) continue;
        struct fm_variable v;
        read_initializer(golden, &v);
        check_limits(golden, &v, kind);
        check_draws(golden, &v, kind);
        compared++;
    }
    json_decref(goldens);
    cr_expect_geq(compared, 80u);
}

Test(net_initialize, orthogonal_follows_the_worked_examples)
{
    json_t *goldens = ts_golden("initializers"), *golden;
    cr_assert_not_null(goldens);
    size_t i, compared = 0;
    json_array_foreach(json_object_get(goldens, "cases"), i, golden)
    {
        if (!json_object_get(golden, "normal")) continue;
        size_t n, m;
        double *normal = ts_golden_numbers(json_object_get(golden, "normal"), &n);
        double *weights = ts_golden_numbers(json_object_get(golden, "weights"), &m);
        int64_t rows = json_integer_value(json_object_get(golden, "rows"));
        int64_t columns = json_integer_value(json_object_get(golden, "columns"));
        int64_t many = rows > columns ? rows : columns, few = rows > columns ? columns : rows;
        struct fm_variable v;
        read_initializer(golden, &v);
        cr_assert_eq(v.initializer, FM_INIT_ORTHOGONAL);
        cr_assert(normal && weights && n == m && n == (size_t)(many * few));
        double *q = fm_malloc(n, sizeof *q), *got = fm_malloc(n, sizeof *got);
        for (int64_t e = 0; e < many * few; e++) q[e % few * many + e / few] = normal[e];
        fm_orthonormalize(q, few, many);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++)
                got[r * columns + c] = v.a * (rows < columns ? q[r * many + c] : q[c * many + r]);
        struct ts_worst w = ts_compare(TS_DOUBLE_SUM, got, weights, n);
        cr_expect(w.ok, "%s", w.text);
        fm_free(q);
        fm_free(got);
        free(normal);
        free(weights);
        compared++;
    }
    json_decref(goldens);
    cr_expect_geq(compared, 4u);
}

static void check_orthogonal(const struct fm_variable *v)
{
    struct fm_error err = {0};
    float *w = fm_malloc((size_t)v->count, sizeof *w);
    int64_t columns = v->shape[v->rank - 1], rows = v->count / columns;
    bool tall = rows >= columns;
    cr_assert_eq(fm_variable_draw(v, 0, 99, w, &err), 0);
    for (int64_t i = 0; i < (tall ? columns : rows); i++)
        for (int64_t k = 0; k <= i; k++) {
            double sum = 0;
            for (int64_t e = 0; e < (tall ? rows : columns); e++)
                sum += tall ? (double)w[e * columns + i] * (double)w[e * columns + k]
                            : (double)w[i * columns + e] * (double)w[k * columns + e];
            cr_assert_lt(fabs(sum - (i == k ? v->a * v->a : 0)), 1e-5, "%g at %d, %d", sum, (int)i, (int)k);
        }
    fm_free(w);
}

Test(net_initialize, drawn_orthogonal_matrices_are_orthogonal)
{
    static const int64_t shapes[][3] = {{5, 3, 1},   {3, 5, 1},  {40, 40, 1},
                                        {5, 21, 64}, {3, 2, 16}, {1, 1, 1}};
    for (size_t i = 0; i < 6; i++) {
        struct fm_variable v = {
            .initializer = FM_INIT_ORTHOGONAL, .rank = i < 3 ? 2 : 3, .a = i == 3 ? 1.5 : 1};
        memcpy(v.shape, shapes[i], sizeof v.shape);
        v.count = v.shape[0] * v.shape[1] * (v.rank == 3 ? v.shape[2] : 1);
        check_orthogonal(&v);
    }
}

Test(net_initialize, numbers_depend_on_key_variable_and_element_only)
{
    struct fm_error err = {0};
    struct fm_variable small = {.initializer = FM_INIT_TRUNCATED_NORMAL, .rank = 1, .count = 50, .b = 1},
                       large = small;
    float a[50], b[80], c[50], d[50];
    large.count = 80;
    cr_assert_eq(fm_variable_draw(&small, 2, 11, a, &err), 0);
    cr_assert_eq(fm_variable_draw(&large, 2, 11, b, &err), 0);
    cr_assert_eq(fm_variable_draw(&small, 3, 11, c, &err), 0);
    cr_assert_eq(fm_variable_draw(&small, 2, 12, d, &err), 0);
    cr_expect_arr_eq(a, b, sizeof a);
    int equal = 0;
    for (int i = 0; i < 50; i++) equal += (a[i] == c[i]) + (a[i] == d[i]);
    cr_expect_eq(equal, 0);
}

Test(net_initialize, uniform_numbers_are_those_of_the_documented_counter)
{
    struct fm_error err = {0};
    struct fm_variable v = {.initializer = FM_INIT_UNIFORM, .rank = 1, .count = 20, .a = -2, .b = 3};
    float got[20];
    cr_assert_eq(fm_variable_draw(&v, 6, 1234, got, &err), 0);
    for (uint32_t e = 0; e < 20; e++) {
        uint32_t counter[4] = {6, e, 0, 0}, bits[4];
        fm_philox(counter, 1234, bits);
        cr_expect_eq(got[e], (float)(-2 + 5 * fm_uniform_double(bits[0], bits[1])));
    }
}

/* Trials are paired: what two networks have in common at the front starts alike, whatever follows. */
Test(net_initialize, first_layers_of_different_trials_start_alike)
{
    static const char *const models[] = {
        "[{conv1d: {filters: 8, kernel_size: 3}}, flatten, {dense: {units: 2, activation: softmax}}]",
        "[{conv1d: {filters: 8, kernel_size: 3, activation: relu}}, {dropout: {rate: 0.5}}, {conv1d: "
        "{filters: 3, "
        "kernel_size: 2}}, flatten, {dense: {units: 2, activation: softmax}}]"};
    struct fm_net_input input = ts_net_input(16, 4);
    struct fm_train_config train = ts_net_train(FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY);
    float *values[2];
    struct fm_error err = {0};
    for (int i = 0; i < 2; i++) {
        struct ts_network n;
        ts_network_init(&n, models[i], &input, &train);
        cr_assert_eq(n.code, 0, "%s", n.error.text);
        values[i] = fm_malloc((size_t)n.program->float_count, sizeof(float));
        cr_assert_eq(fm_program_initialize(n.program, fm_key(5, FM_PURPOSE_WEIGHTS, 1, 2), values[i], &err),
                     0);
        for (int64_t e = 96; e < 104; e++) cr_expect_eq(values[i][e], 0, "a bias starts at zero");
        ts_network_fini(&n);
    }
    cr_expect_arr_eq(values[0], values[1], 104 * sizeof(float));
    fm_free(values[0]);
    fm_free(values[1]);
}
