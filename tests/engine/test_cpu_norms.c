/* The normalisation routines of the CPU engine (engine/cpu/norms.inc) against plain loops in double, for
 * every instruction set of this processor: few and many channels, examples that lie apart, guards. */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "engine/cpu/kernels.h"
#include "support/tolerance.h"

enum { MOST = 150000, GUARD = 40, ROOM = MOST + 2 * GUARD, WIDEST = 1000 };
#define MARK 54321.0f

static const struct fm_kernels *kernels[3];
static int count;
/* Inputs; the outputs of one routine and, behind that, of the one before in its class of numbers. */
static float x_[ROOM], dy_[ROOM], out[ROOM], before[ROOM];
static double want[MOST];
static float parameter[6][WIDEST];

static void find_kernels(void)
{
    count = fm_kernels_available(kernels);
}
TestSuite(cpu_norms, .init = find_kernels);

static uint64_t state;
static float uniform(void) /* -1 .. 1 */
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(int64_t)state * 0x1p-63);
}

/* Examples of rows x channels, `apart` floats between them (never read: NaN), the first one not aligned. */
struct shape {
    int64_t count, rows, channels, apart;
};

static float *begin(float *memory)
{
    return memory + GUARD / 2 + 1;
}
static int64_t stride(const struct shape *s)
{
    return s->rows * s->channels + s->apart;
}

static void fill(float *memory, const struct shape *s, float mean, float deviation)
{
    const int64_t n = s->rows * s->channels;
    cr_assert(s->count * stride(s) <= MOST);
    for (int64_t i = 0; i < s->count * stride(s) + GUARD; i++) memory[i] = NAN;
    for (int64_t e = 0; e < s->count; e++)
        for (int64_t i = 0; i < n; i++) begin(memory)[e * stride(s) + i] = mean + deviation * uniform();
}

static void fill_parameters(void)
{
    for (int k = 0; k < 6; k++)
        for (int64_t c = 0; c < WIDEST; c++) parameter[k][c] = uniform() + (k == 1 ? 2 : 0);
}

static void mark(const struct shape *s, float inside)
{
    for (int64_t i = 0; i < s->count * stride(s) + GUARD; i++) out[i] = MARK;
    for (int64_t e = 0; e < s->count; e++)
        for (int64_t i = 0; i < s->rows * s->channels; i++) begin(out)[e * stride(s) + i] = inside;
}

static bool same_class(int k)
{
    return k > 0 && !strcmp(kernels[k]->numbers, kernels[k - 1]->numbers);
}

/* `out` against `want` (as one example after the other), its surroundings, and the bits of the set before. */
static void check_output(const struct shape *s, int k, enum ts_tolerance tolerance, const char *what)
{
    const int64_t n = s->rows * s->channels;
    for (int64_t i = 0; i < s->count * stride(s) + GUARD; i++) {
        const int64_t at = i - GUARD / 2 - 1;
        const bool inside = at >= 0 && at < s->count * stride(s) && at % stride(s) < n;
        cr_assert(inside || out[i] == MARK, "%s, %s: wrote at %d", kernels[k]->name, what, (int)at);
    }
    for (int64_t e = 0; e < s->count; e++) {
        const struct ts_worst w =
            ts_compare_float(tolerance, begin(out) + e * stride(s), want + e * n, (size_t)n);
        cr_assert(w.ok, "%s, %s, %dx%dx%d, example %d: %s", kernels[k]->name, what, (int)s->count,
                  (int)s->rows, (int)s->channels, (int)e, w.text);
    }
    const size_t size = (size_t)(s->count * stride(s) + GUARD) * sizeof *out;
    if (same_class(k))
        cr_assert(!memcmp(before, out, size), "%s, %s, %dx%dx%d: other bits", kernels[k]->name, what,
                  (int)s->count, (int)s->rows, (int)s->channels);
    memcpy(before, out, size);
}

static struct fm_norm_pass pass_of(const struct shape *s)
{
    return (struct fm_norm_pass){.count = s->count,
                                 .rows = s->rows,
                                 .channels = s->channels,
                                 .x = begin(x_),
                                 .dy = begin(dy_),
                                 .y = begin(out),
                                 .dx = begin(out),
                                 .mean = parameter[0],
                                 .scale = parameter[1],
                                 .beta = parameter[2],
                                 .inverse = parameter[3],
                                 .ma = parameter[4],
                                 .mb = parameter[5],
                                 .xstride = stride(s),
                                 .ystride = stride(s)};
}

#define FOR_ELEMENTS(s)                                                                                      \
    for (int64_t e = 0; e < (s)->count; e++)                                                                 \
        for (int64_t i = 0, c = 0; i < (s)->rows * (s)->channels; c = ++i % (s)->channels)
#define AT(p) ((double)begin(p)[e * stride(s) + i])
#define P(k)  ((double)parameter[k][c])

/* Sums start from 1 and 2; sums[0..1] as the plain loops say, in the tolerance of what they are made of. */
static void check_sums(const struct shape *s, float mean)
{
    static double plain[4][WIDEST], size[4][WIDEST], got[4][WIDEST], last[4][WIDEST];
    const int64_t channels = s->channels;
    for (int64_t c = 0; c < channels; c++) parameter[0][c] += mean;
    memset(plain, 0, sizeof plain), memset(size, 0, sizeof size);
    FOR_ELEMENTS(s)
    {
        const double d = AT(x_) - P(0), terms[4] = {AT(x_), d * d, AT(dy_), AT(dy_) * d * P(3)};
        for (int j = 0; j < 4; j++) plain[j][c] += terms[j], size[j][c] += fabs(terms[j]);
    }
    for (int k = 0; k < count; k++) {
        struct fm_norm_pass p = pass_of(s);
        for (int64_t c = 0; c < channels; c++) got[0][c] = got[2][c] = 1, got[1][c] = got[3][c] = 2;
        p.a = got[0], p.b = got[1];
        kernels[k]->norm_sums(&p);
        kernels[k]->norm_squares(&p);
        p.a = got[2], p.b = got[3];
        kernels[k]->norm_grad_sums(&p);
        for (int j = 0; j < 4; j++)
            for (int64_t c = 0; c < channels; c++) {
                const double error = got[j][c] - (j % 2 ? 2 : 1) - plain[j][c];
                cr_assert(fabs(error) <= 6e-7 * size[j][c] + 1e-12,
                          "%s, sum %d, %dx%dx%d, channel %d: %.9g is %.2g off", kernels[k]->name, j,
                          (int)s->count, (int)s->rows, (int)channels, (int)c, got[j][c], error);
                cr_assert(!same_class(k) || got[j][c] == last[j][c], "%s, sum %d: other bits",
                          kernels[k]->name, j);
                last[j][c] = got[j][c];
            }
    }
    for (int64_t c = 0; c < channels; c++) parameter[0][c] -= mean;
}

static void check_elements(const struct shape *s)
{
    for (int variant = 0; variant < 2; variant++) { /* without and with beta, acc */
        FOR_ELEMENTS(s)
        want[e * s->rows * s->channels + i] = (AT(x_) - P(0)) * P(1) + (variant ? P(2) : 0);
        for (int k = 0; k < count; k++) {
            struct fm_norm_pass p = pass_of(s);
            if (!variant) p.beta = NULL;
            mark(s, 7);
            kernels[k]->norm_apply(&p);
            check_output(s, k, TS_FLOAT, "norm_apply");
        }
        FOR_ELEMENTS(s)
        want[e * s->rows * s->channels + i] =
            (variant ? 0.5 : 0) + (AT(dy_) - P(4) - (AT(x_) - P(0)) * P(3) * P(5)) * P(1);
        for (int k = 0; k < count; k++) {
            struct fm_norm_pass p = pass_of(s);
            p.acc = variant;
            mark(s, variant ? 0.5f : NAN);
            kernels[k]->norm_grad(&p);
            check_output(s, k, TS_FLOAT_LAYER, "norm_grad");
        }
    }
}

static void check_batch(struct shape s, float mean)
{
    state = (uint64_t)(s.channels * 1000 + s.rows);
    fill_parameters();
    fill(x_, &s, mean, 1);
    fill(dy_, &s, 0.1f, 1);
    check_sums(&s, mean);
    check_elements(&s);
}

Test(cpu_norms, batch_at_all_channels)
{
    for (int64_t channels = 1; channels <= 100; channels++) {
        check_batch((struct shape){3, 1 + channels * 7 % 45, channels, 0}, 0);
        check_batch((struct shape){2, 1 + channels * 5 % 37, channels, channels * 3}, 1);
        check_batch((struct shape){19, 1, channels, 5}, 1);
    }
}

Test(cpu_norms, batch_over_many_rows)
{
    static const int64_t channels[] = {1, 3, 8, 15, 16, 24};
    for (int c = 0; c < 6; c++) {
        check_batch((struct shape){64, 96, channels[c], 0}, 100);
        check_batch((struct shape){64, 90, channels[c], 5}, 100);
    }
    check_batch((struct shape){1, 0, 5, 0}, 0);
    check_batch((struct shape){0, 3, 5, 0}, 0);
    check_batch((struct shape){0, 3, 20, 0}, 0);
}

/* The statistics as norm.c takes them, against two passes in double: mean 100, deviation 1. */
Test(cpu_norms, statistics_far_from_zero)
{
    static const int64_t channels[] = {1, 7, 24};
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < count; k++) {
            const struct shape shape = {64, 96, channels[c], 0}, *s = &shape;
            const double rows = 64 * 96;
            state = 5;
            fill(x_, s, 100, 1.7f);
            double sum[24] = {0}, square[24] = {0}, mean[24] = {0}, variance[24] = {0};
            float center[24];
            FOR_ELEMENTS(s) mean[c] += AT(x_) / rows;
            FOR_ELEMENTS(s) variance[c] += (AT(x_) - mean[c]) * (AT(x_) - mean[c]) / rows;
            struct fm_norm_pass p = pass_of(s);
            p.a = sum, p.b = square, p.mean = center;
            kernels[k]->norm_sums(&p);
            for (int64_t i = 0; i < s->channels; i++) center[i] = (float)(sum[i] / rows);
            kernels[k]->norm_squares(&p);
            for (int64_t i = 0; i < s->channels; i++) {
                cr_assert_float_eq(sum[i] / rows, mean[i], 1e-6 * mean[i]);
                cr_assert_float_eq(square[i] / rows, variance[i], 1e-6 * variance[i]);
            }
        }
}

/* The order of the sums is that of the rows of the batch: where the examples lie changes nothing. */
Test(cpu_norms, distance_of_examples_changes_no_bit)
{
    for (int64_t channels = 1; channels <= 40; channels++) {
        double sums[2][4][40];
        for (int apart = 0; apart < 2; apart++) {
            const struct shape s = {11, 13, channels, apart * 9};
            state = 3;
            fill_parameters();
            fill(x_, &s, 1, 1);
            fill(dy_, &s, 0, 1);
            memset(sums[apart], 0, sizeof sums[apart]);
            struct fm_norm_pass p = pass_of(&s);
            p.a = sums[apart][0], p.b = sums[apart][1];
            kernels[0]->norm_sums(&p);
            kernels[0]->norm_squares(&p);
            p.a = sums[apart][2], p.b = sums[apart][3];
            kernels[0]->norm_grad_sums(&p);
        }
        cr_assert(!memcmp(sums[0], sums[1], sizeof sums[0]), "%d channels", (int)channels);
    }
}

/* A NaN or infinity in any place shows in the sums of its channel and of no other. */
Test(cpu_norms, sums_show_what_is_not_finite)
{
    static const int64_t widths[] = {1, 5, 16, 19};
    for (int w = 0; w < 4; w++)
        for (int k = 0; k < count; k++) {
            const struct shape shape = {3, 35, widths[w], 4}, *s = &shape;
            state = 9;
            fill_parameters();
            fill(x_, s, 0, 1);
            fill(dy_, s, 0, 1);
            FOR_ELEMENTS(s)
            {
                double a[19] = {0}, b[19] = {0};
                float *place = begin(i % 2 ? x_ : dy_) + e * stride(s) + i;
                const float good = *place;
                *place = i % 3 ? NAN : INFINITY;
                struct fm_norm_pass p = pass_of(s);
                p.a = a, p.b = b;
                kernels[k]->norm_grad_sums(&p);
                *place = good;
                for (int64_t j = 0; j < s->channels; j++)
                    cr_assert(!isfinite(b[j]) == (j == c) && (i % 2 || !isfinite(a[j]) == (j == c)),
                              "%s: row %d, channel %d of %d", kernels[k]->name, (int)(i / s->channels),
                              (int)c, (int)s->channels);
            }
        }
}

/* ---- layers ---- */

static float stats[2][2][4096], sums[2][2][WIDEST]; /* [now, before][which] */
static double plain_stats[2][4096], plain_sums[2][WIDEST];

static struct fm_layer_norm_pass layer_of(const struct shape *s, unsigned variant)
{
    return (struct fm_layer_norm_pass){.count = s->count,
                                       .rows = s->rows,
                                       .channels = s->channels,
                                       .epsilon = 1e-3f,
                                       .acc = variant & 4,
                                       .x = begin(x_),
                                       .dy = begin(dy_),
                                       .y = begin(out),
                                       .dx = begin(out),
                                       .gamma = variant & 1 ? parameter[0] : NULL,
                                       .beta = variant & 2 ? parameter[2] : NULL,
                                       .mean = stats[0][0] + 1,
                                       .inverse = stats[0][1] + 1,
                                       .dgamma = sums[0][0],
                                       .dbeta = sums[0][1],
                                       .xstride = stride(s),
                                       .ystride = stride(s),
                                       .dxstride = stride(s),
                                       .statstride = s->rows + (s->apart != 0)};
}

static void plain_layer(const struct shape *s, unsigned variant)
{
    const int64_t n = s->channels;
    for (int64_t e = 0; e < s->count; e++)
        for (int64_t r = 0; r < s->rows; r++) {
            const float *x = begin(x_) + e * stride(s) + r * n;
            double mean = 0, square = 0;
            for (int64_t c = 0; c < n; c++) mean += (double)x[c] / (double)n;
            for (int64_t c = 0; c < n; c++) square += ((double)x[c] - mean) * ((double)x[c] - mean);
            const double inverse = 1 / sqrt(square / (double)n + 1e-3);
            plain_stats[0][e * s->rows + r] = mean;
            plain_stats[1][e * s->rows + r] = inverse;
            for (int64_t c = 0; c < n; c++)
                want[(e * s->rows + r) * n + c] =
                    ((double)x[c] - mean) * inverse * (variant & 1 ? P(0) : 1) + (variant & 2 ? P(2) : 0);
        }
}

/* From the mean and the inverse as the forward pass stored them. */
static void plain_layer_grad(const struct shape *s, const struct fm_layer_norm_pass *p, double there)
{
    const int64_t n = s->channels;
    for (int64_t c = 0; c < n; c++) plain_sums[0][c] = plain_sums[1][c] = 0.25;
    for (int64_t e = 0; e < s->count; e++)
        for (int64_t r = 0; r < s->rows; r++) {
            const float *x = begin(x_) + e * stride(s) + r * n, *dy = begin(dy_) + e * stride(s) + r * n;
            const double mean = (double)p->mean[e * p->statstride + r],
                         inverse = (double)p->inverse[e * p->statstride + r];
            double sum = 0, dot = 0;
            for (int64_t c = 0; c < n; c++) {
                const double xhat = ((double)x[c] - mean) * inverse,
                             g = (double)dy[c] * (p->gamma ? P(0) : 1);
                plain_sums[0][c] += (double)dy[c] * xhat;
                plain_sums[1][c] += (double)dy[c];
                sum += g / (double)n, dot += g * xhat / (double)n;
            }
            for (int64_t c = 0; c < n; c++) {
                const double xhat = ((double)x[c] - mean) * inverse,
                             g = (double)dy[c] * (p->gamma ? P(0) : 1);
                want[(e * s->rows + r) * n + c] = there + (g - sum - xhat * dot) * inverse;
            }
        }
}

static void check_stats(const struct shape *s, int k, const struct fm_layer_norm_pass *p)
{
    for (int64_t e = 0; e < s->count; e++)
        for (int j = 0; j < 2; j++) {
            const struct ts_worst w =
                ts_compare_float(j ? TS_FLOAT_LAYER : TS_FLOAT, stats[0][j] + 1 + e * p->statstride,
                                 plain_stats[j] + e * s->rows, (size_t)s->rows);
            cr_assert(w.ok, "%s, %d channels: %s", kernels[k]->name, (int)s->channels, w.text);
        }
    const int64_t end = s->count > 0 ? (s->count - 1) * p->statstride + s->rows : 0;
    for (int j = 0; j < 2; j++) cr_assert(stats[0][j][0] == MARK && stats[0][j][1 + end] == MARK);
    cr_assert(!same_class(k) || !memcmp(stats[0], stats[1], sizeof stats[0]));
    memcpy(stats[1], stats[0], sizeof stats[0]);
}

static void check_layer(struct shape shape, float mean)
{
    const struct shape *s = &shape;
    state = (uint64_t)(s->channels * 1000 + s->rows);
    fill_parameters();
    fill(x_, s, mean, 1.5f);
    fill(dy_, s, 0.1f, 1);
    for (unsigned variant = 0; variant < 8; variant++) {
        const double there = variant & 4 ? 0.5 : 0;
        for (int k = 0; k < count; k++) {
            struct fm_layer_norm_pass p = layer_of(s, variant);
            plain_layer(s, variant);
            mark(s, NAN);
            for (int j = 0; j < 2 * 4096; j++) stats[0][j / 4096][j % 4096] = MARK;
            kernels[k]->layer_norm(&p);
            check_output(s, k, TS_FLOAT_LAYER, "layer_norm");
            check_stats(s, k, &p);
        }
        for (int k = 0; k < count; k++) {
            const struct fm_layer_norm_pass p = layer_of(s, variant);
            plain_layer_grad(s, &p, there);
            mark(s, variant & 4 ? 0.5f : NAN);
            for (int64_t c = 0; c < WIDEST; c++) sums[0][0][c] = sums[0][1][c] = 0.25f;
            kernels[k]->layer_norm_grad(&p);
            check_output(s, k, TS_FLOAT_GRADIENT, "layer_norm_grad");
            for (int j = 0; j < 2; j++) {
                const struct ts_worst w =
                    ts_compare_float(TS_FLOAT_GRADIENT, sums[0][j], plain_sums[j], (size_t)s->channels);
                cr_assert(w.ok, "%s, sum %d, %d channels: %s", kernels[k]->name, j, (int)s->channels, w.text);
                for (int64_t c = s->channels; c < WIDEST; c++) cr_assert(sums[0][j][c] == 0.25f);
            }
            cr_assert(!same_class(k) || !memcmp(sums[0], sums[1], sizeof sums[0]));
            memcpy(sums[1], sums[0], sizeof sums[0]);
        }
    }
}

Test(cpu_norms, layers_at_all_channels)
{
    for (int64_t channels = 1; channels <= 70; channels++)
        check_layer((struct shape){3, 1 + channels * 7 % 23, channels, channels % 3 ? 0 : 7}, 1);
    for (int64_t channels = 71; channels <= WIDEST; channels += 131)
        check_layer((struct shape){2, 19, channels, 5}, 1);
    check_layer((struct shape){2, 18, WIDEST, 0}, 1);
    check_layer((struct shape){40, 1, 20, 0}, 1);
    check_layer((struct shape){0, 3, 20, 0}, 1);
}

/* The stored mean is a float and costs the gradient digits here; the output must lose none. */
Test(cpu_norms, layers_far_from_zero)
{
    for (int64_t channels = 2; channels <= WIDEST; channels += channels < 40 ? 1 : 96) {
        const struct shape s = {2, 19, channels, 0};
        state = (uint64_t)channels;
        fill(x_, &s, 100, 1.7f);
        plain_layer(&s, 0);
        for (int k = 0; k < count; k++) {
            struct fm_layer_norm_pass p = layer_of(&s, 0);
            p.mean = p.inverse = NULL;
            mark(&s, NAN);
            kernels[k]->layer_norm(&p);
            check_output(&s, k, TS_FLOAT_LAYER, "layer_norm");
        }
    }
}

/* Slices of a batch add up to the bits of the whole. */
Test(cpu_norms, slices_of_layers_change_no_bit)
{
    const struct shape s = {9, 5, 21, 2};
    state = 4;
    fill_parameters();
    fill(x_, &s, 0, 1);
    fill(dy_, &s, 0, 1);
    for (int64_t slice = 1; slice <= 9; slice++) {
        memset(sums[0], 0, sizeof sums[0]);
        mark(&s, NAN);
        for (int64_t first = 0; first < 9; first += slice) {
            struct fm_layer_norm_pass p = layer_of(&s, 1);
            p.count = 9 - first < slice ? 9 - first : slice;
            p.x += first * stride(&s), p.dy += first * stride(&s), p.y += first * stride(&s);
            p.dx += first * stride(&s), p.mean += first * p.statstride, p.inverse += first * p.statstride;
            kernels[0]->layer_norm(&p);
            kernels[0]->layer_norm_grad(&p);
        }
        cr_assert(slice == 1 || (!memcmp(before, out, (size_t)(9 * stride(&s)) * sizeof *out) &&
                                 !memcmp(sums[0], sums[1], sizeof sums[0])));
        memcpy(before, out, sizeof out);
        memcpy(sums[1], sums[0], sizeof sums[0]);
    }
}

Test(cpu_norms, layers_keep_what_is_not_finite_in_its_row)
{
    const struct shape s = {1, 20, 37, 0};
    for (int k = 0; k < count; k++)
        for (int64_t at = 0; at < 20 * 37; at += 7) {
            state = 6;
            fill(x_, &s, 0, 1);
            begin(x_)[at] = at % 2 ? NAN : INFINITY;
            struct fm_layer_norm_pass p = layer_of(&s, 0);
            mark(&s, 0);
            kernels[k]->layer_norm(&p);
            for (int64_t i = 0; i < 20 * 37; i++)
                cr_assert(!isfinite(begin(out)[i]) == (i / 37 == at / 37), "%s: %d", kernels[k]->name,
                          (int)i);
        }
}
