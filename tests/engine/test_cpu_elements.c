/* Activations, their gradients, softmax and scaling of the CPU engine against the formulas in double, for
 * every instruction set this processor has: dense sweeps with all kinds of special values, strided examples
 * between guards, and the same bits from all sets of one class. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/kernels.h"
#include "support/guarded.h"

TestSuite(cpu_elements, .timeout = 60);

enum { KINDS = FM_ACT_MISH + 1, SWEEP = 60000 };

static uint64_t state = 1;
static int64_t draw(int64_t low, int64_t high)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((state >> 33) % (uint64_t)(high - low + 1));
}
static float number(void)
{
    return (float)draw(-3000000, 3000000) / 1000000.0f;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double softplus(double x)
{
    return (x < 0 ? 0 : x) + log1p(exp(-fabs(x)));
}

#define SELU_SCALE 1.0507009873554804934193349852946
#define SELU_ALPHA 1.6732632423543772848170429916717

static double value(enum fm_activation kind, double slope, double x)
{
    switch (kind) {
    case FM_ACT_RELU: return x < 0 ? 0 : x;
    case FM_ACT_LEAKY_RELU: return x > 0 ? x : slope * x;
    case FM_ACT_SWISH: return x * sigmoid(x);
    case FM_ACT_GELU: return x * (0.5 * erfc(-x * sqrt(0.5)));
    case FM_ACT_ELU: return x > 0 ? x : slope * expm1(x);
    case FM_ACT_SELU: return SELU_SCALE * (x > 0 ? x : SELU_ALPHA * expm1(x));
    case FM_ACT_SOFTPLUS: return softplus(x);
    case FM_ACT_TANH: return tanh(x);
    case FM_ACT_SIGMOID: return sigmoid(x);
    case FM_ACT_HARD_SIGMOID: return (x <= -3 ? 0 : x >= 3 ? 6 : x + 3) / 6;
    case FM_ACT_MISH: return x * tanh(softplus(x));
    default: return x;
    }
}
static double from_input(enum fm_activation kind, double slope, double x)
{
    const double s = sigmoid(x), t = tanh(softplus(x));
    switch (kind) {
    case FM_ACT_RELU: return x > 0;
    case FM_ACT_LEAKY_RELU: return x > 0 ? 1 : slope;
    case FM_ACT_SWISH: return s * (1 + x * (1 - s));
    case FM_ACT_GELU: return 0.5 * erfc(-x * sqrt(0.5)) + x * exp(-x * x / 2) / sqrt(6.283185307179586476925);
    case FM_ACT_ELU: return x < 0 ? slope * exp(x) : x >= 0 ? 1 : 1;
    case FM_ACT_SELU: return SELU_SCALE * (x < 0 ? SELU_ALPHA * exp(x) : 1);
    case FM_ACT_SOFTPLUS: return s;
    case FM_ACT_TANH: return 1 - tanh(x) * tanh(x);
    case FM_ACT_SIGMOID: return s * (1 - s);
    case FM_ACT_HARD_SIGMOID: return x > -3 && x < 3 ? 1.0 / 6 : 0;
    case FM_ACT_MISH: return t + x * s * (1 - t * t);
    default: return 1;
    }
}
static double from_output(enum fm_activation kind, double slope, double y)
{
    switch (kind) {
    case FM_ACT_RELU: return y > 0;
    case FM_ACT_LEAKY_RELU: return y > 0 ? 1 : slope;
    case FM_ACT_ELU: return y < 0 ? y + slope : 1;
    case FM_ACT_SELU: return y < 0 ? y + SELU_SCALE * SELU_ALPHA : SELU_SCALE;
    case FM_ACT_SOFTPLUS: return -expm1(-y);
    case FM_ACT_TANH: return 1 - y * y;
    case FM_ACT_SIGMOID: return y * (1 - y);
    case FM_ACT_HARD_SIGMOID: return y > 0 && y < 1 ? 1.0 / 6 : 0;
    default: return 1;
    }
}

/* Largest relative error of values, measured (1.0 to 2.3e-7, gelu 4e-7 up to |x| = 1) and rounded up. The
 * bell of gelu squares x in float, so its tail has the error of x * x: x^2 * 6e-8. */
struct limit {
    double relative, absolute;
};
static struct limit value_limit(enum fm_activation kind, double x)
{
    const double tail = kind == FM_ACT_GELU ? 2e-7 + (x < 0 && x > -14 ? x * x * 1.2e-7 : 0) : 0;
    return (struct limit){3e-7 + tail, 4e-36}; /* results under 2^-126 may be 0, times |x| < 200 */
}
/* Derivatives cancel near their zeros; that of swish multiplies 1 - sigmoid(x), a difference near 0, by x. */
static struct limit derivative_limit(enum fm_activation kind, double x)
{
    return (struct limit){4e-7, 3e-7 + (kind == FM_ACT_SWISH && x > 0 && x < 20 ? x * 6e-8 : 0)};
}

static bool near(double got, double expected, struct limit limit)
{
    if (isnan(expected) || isnan(got)) return isnan(expected) && isnan(got);
    if (fabs(expected) > FLT_MAX) return got == (expected > 0 ? INFINITY : -INFINITY);
    return fabs(got - expected) <= limit.absolute + limit.relative * fabs(expected);
}

/* Numbers of every size and sign, densest where functions bend, and what is special. */
static int sweep(float *x)
{
    const float special[] = {0.0f,     -0.0f,   INFINITY, -INFINITY, NAN,       -NAN,   FLT_MAX, -FLT_MAX,
                             1e-45f,   -1e-45f, FLT_MIN,  -FLT_MIN,  88.0f,     -88.0f, 88.8f,   -88.8f,
                             127.0f,   -127.0f, 3.0f,     -3.0f,     2.999999f, 16.0f,  -16.0f,  1e20f,
                             -1e20f,   1.0f,    -1.0f,    0.5f,      0.69f,     87.34f, -87.34f, 0.8813736f,
                             -103.98f, -104.0f, -150.0f,  150.0f};
    int n = 0;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) x[n++] = special[i];
    for (int i = 0; n < SWEEP * 3 / 4; i++) x[n++] = (float)(-100 + 200.0 * i / (SWEEP * 3 / 4.0));
    for (int i = 0; n + 1 < SWEEP; i++) {
        const float size = (float)exp(-100.0 + 188 * (double)i / (SWEEP / 8.0));
        x[n++] = size;
        x[n++] = -size;
    }
    return n;
}

static const char *kind_name(int kind)
{
    static const char *const names[] = {"linear",  "relu",         "leaky_relu", "swish", "gelu",
                                        "elu",     "selu",         "softplus",   "tanh",  "sigmoid",
                                        "softmax", "hard_sigmoid", "mish"};
    return names[kind];
}

Test(cpu_elements, activations_over_a_sweep)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    static float x[SWEEP], first_y[SWEEP], first_d[SWEEP];
    const int n = sweep(x);
    const float slope = 0.3f;
    for (int kind = 0; kind < KINDS; kind++) {
        if (kind == FM_ACT_SOFTMAX) continue;
        for (int i = 0; i < count; i++) {
            float *y = guarded_new(sizeof x), *d = guarded_new(sizeof x), *alone = guarded_new(sizeof x);
            struct fm_activation_pass p = {
                .each = {1, n}, .kind = kind, .slope = slope, .x = x, .y = y, .stored = d};
            kernels[i]->activation(&p);
            p.y = alone, p.stored = NULL;
            kernels[i]->activation(&p);
            cr_assert(guarded_intact(y) && guarded_intact(d) && guarded_intact(alone));
            double worst = 0, worst_d = 0;
            for (int e = 0; e < n; e++) {
                const double v = value(kind, slope, x[e]), w = from_input(kind, slope, x[e]);
                cr_assert(near(y[e], v, value_limit(kind, x[e])), "%s %s(%.9g) = %.9g, expected %.9g",
                          kernels[i]->name, kind_name(kind), (double)x[e], (double)y[e], v);
                cr_assert(near(alone[e], v, value_limit(kind, x[e])), "%s %s(%.9g) = %.9g, expected %.9g",
                          kernels[i]->name, kind_name(kind), (double)x[e], (double)alone[e], v);
                cr_assert(near(d[e], w, derivative_limit(kind, x[e])), "%s %s'(%.9g) = %.9g, expected %.9g",
                          kernels[i]->name, kind_name(kind), (double)x[e], (double)d[e], w);
                if (fabs(v) > 1e-37 && fabs(v) < FLT_MAX)
                    worst = fmax(worst, fabs((double)y[e] - v) / fabs(v));
                if (fabs(w) < 100) worst_d = fmax(worst_d, fabs((double)d[e] - w));
            }
            if (getenv("FM_TEST_ERRORS"))
                fprintf(stderr, "%-9s %-12s value %.2e derivative %.2e\n", kernels[i]->name, kind_name(kind),
                        worst, worst_d);
            if (i == 0 || strcmp(kernels[i]->numbers, kernels[0]->numbers)) {
                memcpy(first_y, y, sizeof x);
                memcpy(first_d, d, sizeof x);
            } else {
                cr_assert(same_bits(y, first_y, n) && same_bits(d, first_d, n), "%s %s", kernels[i]->name,
                          kind_name(kind));
            }
            guarded_free(y), guarded_free(d), guarded_free(alone);
        }
    }
}

/* Sources of the derivative for each kind, accumulated or not, strided or not, in place or not. */
Test(cpu_elements, gradients)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    for (int round = 0; round < 1500; round++) {
        const enum fm_activation kind = (enum fm_activation)draw(0, KINDS - 1);
        const enum fm_derivative source = (enum fm_derivative)draw(FM_FROM_NONE, FM_FROM_STORED);
        const int64_t n = draw(1, 70), examples = draw(1, 4), stride = n + draw(0, 1) * draw(0, 9);
        const bool acc = draw(0, 1), in_place = !acc && draw(0, 1);
        const float slope = 0.2f;
        const int64_t floats = examples * stride;
        float from[400], dy[400], before[400], *first = NULL;
        if (kind == FM_ACT_SOFTMAX) continue;
        for (int64_t i = 0; i < floats; i++) {
            from[i] =
                source == FM_FROM_OUTPUT ? (float)value(kind, (double)slope, (double)number()) : number();
            dy[i] = number();
            before[i] = number();
        }
        for (int i = 0; i < count; i++) {
            float *dx = guarded_new((size_t)floats * sizeof *dx);
            for (int64_t e = 0; e < examples; e++)
                if (acc || in_place)
                    memcpy(dx + e * stride, (acc ? before : dy) + e * stride, (size_t)n * sizeof *dx);
            const struct fm_activation_grad_pass p = {.each = {examples, n},
                                                      .kind = kind,
                                                      .derivative = source,
                                                      .slope = slope,
                                                      .acc = acc,
                                                      .dy = in_place ? dx : dy,
                                                      .from = source == FM_FROM_NONE ? NULL : from,
                                                      .dx = dx,
                                                      .dystride = stride,
                                                      .fromstride = stride,
                                                      .dxstride = stride};
            kernels[i]->activation_grad(&p);
            cr_assert(guarded_intact(dx) && guarded_gaps(dx, examples, n, stride));
            for (int64_t e = 0; e < floats; e++) {
                if (e % stride >= n) continue;
                const double f = (double)from[e],
                             d = source == FM_FROM_STORED   ? f
                                 : source == FM_FROM_OUTPUT ? from_output(kind, (double)slope, f)
                                 : source == FM_FROM_INPUT  ? from_input(kind, (double)slope, f)
                                                            : 1;
                const double expected = (acc ? (double)before[e] : 0) + (double)dy[e] * d;
                cr_assert(near((double)dx[e], expected, (struct limit){1e-6, 1e-6}),
                          "%s %s source %d: %.9g, expected %.9g", kernels[i]->name, kind_name((int)kind),
                          (int)source, (double)dx[e], expected);
            }
            if (!i) {
                first = dx;
                continue;
            }
            if (!strcmp(kernels[i]->numbers, kernels[0]->numbers))
                for (int64_t e = 0; e < examples; e++)
                    cr_assert(same_bits(dx + e * stride, first + e * stride, n));
            guarded_free(dx);
        }
        guarded_free(first);
    }
}

Test(cpu_elements, softmax_and_its_gradient)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    const int64_t widths[] = {1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 64, 100};
    for (int round = 0; round < 300; round++) {
        const int64_t c = widths[round % 12], rows = draw(1, 20), n = rows * c, examples = draw(1, 3);
        const int64_t stride = n + draw(0, 1) * draw(0, 5), floats = examples * stride;
        const bool acc = draw(0, 1);
        const bool special = round % 10 == 9;
        static float x[7000], dy[7000], before[7000];
        float *first[2] = {NULL, NULL};
        for (int64_t i = 0; i < floats; i++) x[i] = 10 * number(), dy[i] = number(), before[i] = number();
        if (special) x[draw(0, n - 1)] = (float[]){NAN, INFINITY, -INFINITY, 200.0f}[draw(0, 3)];
        for (int i = 0; i < count; i++) {
            float *y = guarded_new((size_t)floats * sizeof *y), *dx = guarded_new((size_t)floats * sizeof *y);
            for (int64_t e = 0; e < examples; e++)
                memcpy(dx + e * stride, before + e * stride, (size_t)n * sizeof *y);
            kernels[i]->activation(&(struct fm_activation_pass){.each = {examples, n},
                                                                .kind = FM_ACT_SOFTMAX,
                                                                .channels = c,
                                                                .x = x,
                                                                .y = y,
                                                                .xstride = stride,
                                                                .ystride = stride});
            kernels[i]->activation_grad(&(struct fm_activation_grad_pass){.each = {examples, n},
                                                                          .kind = FM_ACT_SOFTMAX,
                                                                          .derivative = FM_FROM_OUTPUT,
                                                                          .channels = c,
                                                                          .acc = acc,
                                                                          .dy = dy,
                                                                          .from = y,
                                                                          .dx = dx,
                                                                          .dystride = stride,
                                                                          .fromstride = stride,
                                                                          .dxstride = stride});
            cr_assert(guarded_intact(y) && guarded_intact(dx) && guarded_gaps(y, examples, n, stride) &&
                      guarded_gaps(dx, examples, n, stride));
            for (int64_t r = 0; r < examples * rows; r++) {
                const int64_t at = r / rows * stride + r % rows * c;
                double top = (double)x[at], sum = 0, dot = 0;
                for (int64_t k = 0; k < c; k++) top = x[at + k] > top ? (double)x[at + k] : top;
                for (int64_t k = 0; k < c; k++) sum += exp((double)x[at + k] - top);
                for (int64_t k = 0; k < c; k++) dot += (double)y[at + k] * (double)dy[at + k];
                for (int64_t k = 0; k < c; k++) {
                    const double p = exp((double)x[at + k] - top) / sum;
                    const double rounded = fmin(1, fabs((double)x[at + k] - top) * 6e-8); /* the difference */
                    cr_assert(near((double)y[at + k], p, (struct limit){6e-7 + rounded, 1e-37}),
                              "%s c %d: %.9g, expected %.9g", kernels[i]->name, (int)c, (double)y[at + k], p);
                    const double g =
                        (acc ? (double)before[at + k] : 0) + (double)y[at + k] * ((double)dy[at + k] - dot);
                    cr_assert(near((double)dx[at + k], g, (struct limit){1e-6, 2e-6}));
                }
            }
            if (!i) {
                first[0] = y, first[1] = dx;
                continue;
            }
            if (!strcmp(kernels[i]->numbers, kernels[0]->numbers))
                cr_assert(same_bits(y, first[0], floats) && same_bits(dx, first[1], floats), "%d channels",
                          (int)c);
            guarded_free(y), guarded_free(dx);
        }
        guarded_free(first[0]), guarded_free(first[1]);
    }
}

/* In place, and the result of an example does not depend on the examples around it. */
Test(cpu_elements, slices_change_nothing)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    for (int i = 0; i < count; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            enum { N = 57, EXAMPLES = 9 };
            float x[EXAMPLES * N], y[EXAMPLES * N], z[EXAMPLES * N];
            for (int e = 0; e < EXAMPLES * N; e++) z[e] = x[e] = number();
            struct fm_activation_pass p = {.each = {EXAMPLES, N},
                                           .kind = kind,
                                           .slope = 0.1f,
                                           .channels = 3,
                                           .x = x,
                                           .y = y,
                                           .xstride = N,
                                           .ystride = N};
            kernels[i]->activation(&p);
            for (int e = 0; e < EXAMPLES; e++) {
                p.each.count = 1, p.x = p.y = z + e * N;
                kernels[i]->activation(&p);
            }
            cr_assert(same_bits(y, z, EXAMPLES * N), "%s %s", kernels[i]->name, kind_name(kind));
        }
}

Test(cpu_elements, scaling)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    for (int64_t n = 0; n < 70; n++) {
        float x[70], shift[70], factor[70];
        for (int64_t i = 0; i < n; i++) x[i] = number(), shift[i] = number(), factor[i] = number();
        for (int mode = 0; mode < 4 * count; mode++) {
            const bool s = mode & 1, f = mode & 2;
            float *out = guarded_new((size_t)n * sizeof *out);
            kernels[mode / 4]->scale(n, x, s ? shift : NULL, f ? factor : NULL, out);
            cr_assert(guarded_intact(out));
            for (int64_t i = 0; i < n; i++) {
                const float moved = s ? x[i] - shift[i] : x[i];
                cr_assert_eq(out[i], f ? moved * factor[i] : moved);
            }
            guarded_free(out);
        }
    }
}
