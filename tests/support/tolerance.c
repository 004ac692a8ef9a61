#include "support/tolerance.h"

#include <math.h>
#include <stdio.h>

struct row {
    const char *name;
    double relative, absolute;
    const char *reason;
};

static const struct row table[] = {
#define TS_TOLERANCE_ROW(name, relative, absolute, reason) {#name, relative, absolute, reason},
    TS_TOLERANCES(TS_TOLERANCE_ROW)
#undef TS_TOLERANCE_ROW
};

static double part_used(const struct row *row, double got, double expected)
{
    if (got == expected || (isnan(got) && isnan(expected))) return 0.0;
    if (!isfinite(got) || !isfinite(expected)) return INFINITY;
    double limit = row->absolute + row->relative * fabs(expected);
    return limit > 0.0 ? fabs(got - expected) / limit : INFINITY;
}

static void take(struct ts_worst *worst, const struct row *row, size_t index, double got, double expected)
{
    double used = part_used(row, got, expected);
    if (index > 0 && used <= worst->used) return;
    worst->index = index;
    worst->got = got;
    worst->expected = expected;
    worst->used = used;
}

static void conclude(struct ts_worst *worst, const struct row *row, size_t n)
{
    worst->ok = worst->used <= 1.0;
    snprintf(worst->text, sizeof worst->text,
             "worst of %zu at [%zu]: got %.17g, expected %.17g, %.3g of the limit %s (relative %g, absolute "
             "%g: %s)",
             n, worst->index, worst->got, worst->expected, worst->used, row->name, row->relative,
             row->absolute, row->reason);
}

struct ts_worst ts_compare(enum ts_tolerance tolerance, const double *got, const double *expected, size_t n)
{
    struct ts_worst worst = {0};
    for (size_t i = 0; i < n; i++) take(&worst, &table[tolerance], i, got[i], expected[i]);
    conclude(&worst, &table[tolerance], n);
    return worst;
}

struct ts_worst ts_compare_float(enum ts_tolerance tolerance, const float *got, const double *expected,
                                 size_t n)
{
    struct ts_worst worst = {0};
    for (size_t i = 0; i < n; i++) take(&worst, &table[tolerance], i, (double)got[i], expected[i]);
    conclude(&worst, &table[tolerance], n);
    return worst;
}

struct ts_worst ts_compare_one(enum ts_tolerance tolerance, double got, double expected)
{
    return ts_compare(tolerance, &got, &expected, 1);
}
