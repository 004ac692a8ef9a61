/* How near is near: the one table of tolerances of all tests, each with its reason. A value passes if
 * |got - expected| <= absolute + relative * |expected|. NaN passes for NaN only, infinity for the same
 * infinity. */
#ifndef FM_TESTS_TOLERANCE_H
#define FM_TESTS_TOLERANCE_H

#include <stdbool.h>
#include <stddef.h>

/* name, relative, absolute, reason */
#define TS_TOLERANCES(X)                                                                                     \
    X(EXACT, 0.0, 0.0, "counts, indices and copies: any difference is a mistake")                            \
    X(DOUBLE, 1e-12, 1e-14, "the same formula in double, some hundred roundings of 1.1e-16 each")            \
    X(DOUBLE_SUM, 1e-9, 1e-12, "sums of thousands of doubles taken in another order")                        \
    X(FLOAT, 1e-6, 1e-7, "one or a few float operations (rounding 6e-8 each) against a double result")       \
    X(FLOAT_LAYER, 1e-5, 1e-6,                                                                               \
      "a layer in float against Keras in float: sums of up to some thousand products")                       \
    X(FLOAT_GRADIENT, 1e-4, 1e-6, "gradients in float: two such sums behind each other, with cancellation")  \
    X(FLOAT_TRAINING, 1e-3, 1e-5,                                                                            \
      "20 steps in float from the same start: differences of rounding grow every step")                      \
    X(FLOAT_NOISE, 1e-2, 1e-4,                                                                               \
      "a bias before batch normalisation: its gradient is zero but for rounding, which Adam makes large")    \
    X(ENGINE_GRADIENT, 1e-4, 1e-5,                                                                           \
      "gradients in float over their norm: sums in another order, what cancels is as large as the norm")     \
    X(ENGINE_STEPS, 1e-3, 1e-4,                                                                              \
      "two engines in float after some steps of rates near 0.01, epsilon not below 0.01")                    \
    X(DIFFERENCE, 1e-5, 1e-8, "central differences in double, h = 1e-5: error h^2 plus rounding 1e-16 / h")  \
    X(METRIC, 1e-6, 1e-7, "metrics of float scores, summed in double")

enum ts_tolerance {
#define TS_TOLERANCE_ENUM(name, relative, absolute, reason) TS_##name,
    TS_TOLERANCES(TS_TOLERANCE_ENUM)
#undef TS_TOLERANCE_ENUM
};

struct ts_worst {
    bool ok;
    size_t index;         /* where the limit was used most */
    double got, expected; /* there */
    double used;          /* part of the limit that was used; above 1 fails, infinity if the limit is 0 */
    char text[320];       /* all of it in a line, for cr_assert(w.ok, "%s", w.text) */
};

struct ts_worst ts_compare(enum ts_tolerance tolerance, const double *got, const double *expected, size_t n);
/* Floats against what a golden or a computation in double says. */
struct ts_worst ts_compare_float(enum ts_tolerance tolerance, const float *got, const double *expected,
                                 size_t n);
/* One number. */
struct ts_worst ts_compare_one(enum ts_tolerance tolerance, double got, double expected);

#endif
