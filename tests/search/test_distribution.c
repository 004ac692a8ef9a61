/* Distributions: draws against the distribution functions of their definitions (Kolmogorov-Smirnov), and
 * lattices. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "search/space.h"

#define DRAWS 4000

static const struct fm_node key = {
    .kind = FM_SCALAR, .file = "t", .text = "p", .size = 1, .line = 3, .column = 5};

static struct fm_parameter make(enum fm_distribution distribution, double a, double b, double q)
{
    bool bounded = distribution < FM_NORMAL;
    struct fm_parameter p = {.name = "p", .key = &key, .distribution = distribution, .q = q};
    *(bounded ? &p.min : &p.mu) = a;
    *(bounded ? &p.max : &p.sigma) = b;
    struct fm_error err = {0};
    cr_assert_eq(fm_distribution_check(&p, &err), 0, "%s", err.text);
    return p;
}

static double draw(const struct fm_parameter *p, int64_t k)
{
    struct fm_drawn drawn;
    struct fm_error err = {0};
    double value;
    fm_parameter_draw(p, 7, k, 2, &drawn);
    cr_assert_eq(fm_node_number(drawn.value, "p", &value, &err), 0, "%s", err.text);
    cr_assert_eq(drawn.value->line, 3);
    return value;
}

static double share_below(enum fm_distribution d, double a, double b, double x)
{
    switch (d) {
    case FM_UNIFORM: return (x - a) / (b - a);
    case FM_LOG_UNIFORM: return (log(x) - a) / (b - a);
    case FM_LOG_UNIFORM_VALUES:
    case FM_INV_LOG_UNIFORM_VALUES: return (log(x) - log(a)) / (log(b) - log(a));
    case FM_NORMAL: return 0.5 * erfc(-(x - a) / b / sqrt(2));
    default: return 0.5 * erfc(-(log(x) - a) / b / sqrt(2));
    }
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

Test(distribution, continuous_draws_have_the_right_shape)
{
    static const struct {
        enum fm_distribution d;
        double a, b;
    } rows[] = {
        {FM_UNIFORM, -2, 5},
        {FM_LOG_UNIFORM, -9, -2},
        {FM_LOG_UNIFORM_VALUES, 1e-4, 1e-1},
        {FM_INV_LOG_UNIFORM_VALUES, 1e-4, 1e-1},
        {FM_NORMAL, 3, 2},
        {FM_LOG_NORMAL, -1, 0.5},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct fm_parameter p = make(rows[r].d, rows[r].a, rows[r].b, 1);
        double values[DRAWS], worst = 0;
        for (int k = 0; k < DRAWS; k++) values[k] = draw(&p, k);
        qsort(values, DRAWS, sizeof *values, compare);
        for (int k = 0; k < DRAWS; k++) {
            double expected = share_below(rows[r].d, rows[r].a, rows[r].b, values[k]);
            worst = fmax(worst,
                         fmax(fabs(expected - k / (double)DRAWS), fabs(expected - (k + 1) / (double)DRAWS)));
        }
        /* 1.95 / sqrt(n): exceeded once in 1,000 sets of draws; the draws are fixed, so this either holds or
         * not. */
        cr_expect_lt(worst, 1.95 / sqrt(DRAWS), "%s: %g", fm_distribution_names[rows[r].d], worst);
        cr_expect_eq(p.count, 0);
    }
}

Test(distribution, lattices)
{
    static const struct {
        enum fm_distribution d;
        double a, b, q;
        int64_t count;
        double first, last;
    } rows[] = {
        {FM_INT_UNIFORM, -2, 3, 1, 6, -2, 3},
        {FM_INT_UNIFORM, 5, 5, 1, 1, 5, 5},
        {FM_Q_UNIFORM, 0.1, 0.7, 0.1, 7, 0.1, 0.7},
        {FM_Q_UNIFORM, 10, 31, 8, 3, 10, 26},
        {FM_Q_LOG_UNIFORM_VALUES, 16, 128, 8, 15, 16, 128},
        {FM_Q_LOG_UNIFORM, 0, 3, 4, 5, 4, 20},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct fm_parameter p = make(rows[r].d, rows[r].a, rows[r].b, rows[r].q);
        struct fm_drawn drawn;
        double value;
        cr_assert_eq(p.count, rows[r].count, "row %zu: %lld", r, (long long)p.count);
        fm_parameter_at(&p, 0, &drawn);
        cr_assert_eq(fm_node_number(drawn.value, "p", &value, NULL), 0);
        cr_expect_eq(value, rows[r].first);
        fm_parameter_at(&p, p.count - 1, &drawn);
        cr_assert_eq(fm_node_number(drawn.value, "p", &value, NULL), 0);
        cr_expect_eq(value, rows[r].last, "row %zu: %.17g", r, value);
        for (int k = 0; k < 500; k++) {
            bool on = false;
            value = draw(&p, k);
            for (int64_t i = 0; i < p.count; i++) {
                double point;
                fm_parameter_at(&p, i, &drawn);
                cr_assert_eq(fm_node_number(drawn.value, "p", &point, NULL), 0);
                on |= point == value;
            }
            cr_assert(on, "row %zu: %.17g is off the lattice", r, value);
        }
    }
}

Test(distribution, whole_numbers_are_written_as_such_and_all_read_back)
{
    struct fm_parameter p = make(FM_INT_UNIFORM, 0, 9, 1), u = make(FM_UNIFORM, 0, 1, 1);
    int seen[10] = {0};
    for (int k = 0; k < 1000; k++) {
        struct fm_drawn drawn;
        fm_parameter_draw(&p, 0, k, 0, &drawn);
        cr_assert_eq(fm_node_type(drawn.value), FM_INTEGER);
        seen[atoi(drawn.value->text)]++;
        fm_parameter_draw(&u, 0, k, 0, &drawn);
        cr_assert_eq(drawn.value, &drawn.node);
    }
    for (int i = 0; i < 10; i++) cr_expect(seen[i] > 60 && seen[i] < 140, "%d: %d", i, seen[i]);
}

Test(distribution, probabilities_are_kept)
{
    struct fm_node nodes[3] = {key, key, key};
    const struct fm_node *values[3] = {&nodes[0], &nodes[1], &nodes[2]};
    double shares[3] = {0.2, 0.9, 1.0};
    struct fm_parameter p = {.name = "p",
                             .key = &key,
                             .distribution = FM_CATEGORICAL,
                             .values = values,
                             .shares = shares,
                             .count = 3};
    int seen[3] = {0};
    for (int k = 0; k < 4000; k++) {
        struct fm_drawn drawn;
        fm_parameter_draw(&p, 1, k, 0, &drawn);
        for (int i = 0; i < 3; i++) seen[i] += drawn.value == values[i];
    }
    /* Four standard deviations of a binomial. */
    cr_expect(abs(seen[0] - 800) < 102 && abs(seen[1] - 2800) < 116 && abs(seen[2] - 400) < 76, "%d %d %d",
              seen[0], seen[1], seen[2]);
}
