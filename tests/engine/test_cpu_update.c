/* The update routines of the CPU engine (engine/cpu/update.inc) against plain loops, for every instruction
 * set of this processor: all variants, odd sizes, numbers that are none, guards around every array. */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "engine/cpu/kernels.h"
#include "support/tolerance.h"

enum { MOST = 12000, GUARD = 32, ARRAYS = 5 }; /* weights, gradient, three slots */

static const struct fm_kernels *kernels[3];
static int count;

/* Arrays between guards; `at` is deliberately not aligned. */
struct arrays {
    float memory[ARRAYS][MOST + 2 * GUARD + 1];
    float *at[ARRAYS];
};
static struct arrays got, expected, first;

static void find_kernels(void)
{
    count = fm_kernels_available(kernels);
}
TestSuite(cpu_update, .init = find_kernels);

static float uniform(uint64_t *state) /* -1 .. 1 */
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(int64_t)*state * 0x1p-63);
}

/* Weights, gradients and a moment of either sign; the second moment and its largest value are positive. */
static void fill(struct arrays *a, int64_t n, uint64_t seed, bool centered)
{
    for (int k = 0; k < ARRAYS; k++) {
        a->at[k] = a->memory[k] + GUARD + 1;
        for (int64_t i = -GUARD - 1; i < n + GUARD; i++) {
            const float u = uniform(&seed);
            const bool positive = k == 2 ? centered : k == 3 ? !centered : k == 4 && !centered;
            a->at[k][i] = i < 0 || i >= n ? 12345 : positive ? u * u + 2 : u;
        }
    }
}

static void copy(struct arrays *to, const struct arrays *from)
{
    memcpy(to->memory, from->memory, sizeof to->memory);
    for (int k = 0; k < ARRAYS; k++) to->at[k] = to->memory[k] + GUARD + 1;
}

static void check_guards(const struct arrays *a, int64_t n, const char *isa)
{
    for (int k = 0; k < ARRAYS; k++)
        for (int i = 0; i < GUARD; i++)
            cr_assert(a->at[k][-1 - i] == 12345 && a->at[k][n + i] == 12345,
                      "%s, %d elements: array %d was written outside", isa, (int)n, k);
}

static struct fm_update update_of(const struct arrays *a, int64_t n)
{
    return (struct fm_update){.n = n,
                              .scale = 1,
                              .limit = INFINITY,
                              .w = a->at[0],
                              .g = a->at[1],
                              .slot = {a->at[2], a->at[3], a->at[4]},
                              .rate = 0.01f,
                              .a = 0.1f,
                              .b = 0.01f,
                              .epsilon = 1e-7f,
                              .momentum = 0.9f};
}

static float clip_plainly(const struct fm_update *u, float g)
{
    g *= u->scale;
    return g > u->limit ? u->limit : g < -u->limit ? -u->limit : g;
}

static void plain_sgd(const struct fm_update *u)
{
    for (int64_t i = 0; i < u->n; i++) {
        const float g = clip_plainly(u, u->g[i]);
        float *w = u->w + i, *m = u->slot[0] + i;
        if (u->decay > 0) *w -= *w * u->decay;
        if (!u->use_momentum) {
            *w -= u->rate * g;
            continue;
        }
        *m = u->momentum * *m - u->rate * g;
        *w += u->nesterov ? u->momentum * *m - u->rate * g : *m;
    }
}

static void plain_rmsprop(const struct fm_update *u)
{
    for (int64_t i = 0; i < u->n; i++) {
        const float g = clip_plainly(u, u->g[i]);
        float *w = u->w + i, *s = u->slot[0] + i, *mean = u->slot[1] + i, *m = u->slot[1 + u->centered] + i;
        if (u->decay > 0) *w -= *w * u->decay;
        *s = u->a * *s + u->b * (g * g);
        float spread = *s;
        if (u->centered) {
            *mean = u->a * *mean + u->b * g;
            spread -= *mean * *mean;
        }
        float step = u->rate * g / sqrtf(spread + u->epsilon);
        if (u->use_momentum) step = *m = u->momentum * *m + step;
        *w -= step;
    }
}

/* In double, rounded where a number is stored. */
static void plain_adam(const struct fm_update *u)
{
    for (int64_t i = 0; i < u->n; i++) {
        const double g = (double)clip_plainly(u, u->g[i]);
        float *m = u->slot[0] + i, *s = u->slot[1] + i, *largest = u->slot[2] + i;
        double w = (double)u->w[i];
        if (u->decay > 0) w -= w * (double)u->decay;
        *m = (float)((double)*m + (g - (double)*m) * (double)u->a);
        *s = (float)((double)*s + (g * g - (double)*s) * (double)u->b);
        float moment = *s;
        if (u->amsgrad) moment = *largest = moment < *largest ? *largest : moment;
        u->w[i] = (float)(w - (double)u->rate * (double)*m / (sqrt((double)moment) + (double)u->epsilon));
    }
}

static void compare(enum ts_tolerance tolerance, int64_t n, const char *isa, unsigned variant)
{
    static double want[MOST];
    for (int k = 0; k < ARRAYS; k++) {
        for (int64_t i = 0; i < n; i++) want[i] = (double)expected.at[k][i];
        const struct ts_worst w = ts_compare_float(tolerance, got.at[k], want, (size_t)n);
        cr_assert(w.ok, "%s, variant %u, %d elements, array %d: %s", isa, variant, (int)n, k, w.text);
    }
}

/* All variants (bits of `variant`: decay, momentum or amsgrad, nesterov or centered, and what is clipped) at
 * one size, with the arrays as `first` holds them. */
typedef void update_fn(const struct fm_update *);
static void check_variants(size_t routine, update_fn *plain, enum ts_tolerance tolerance, int64_t n,
                           uint64_t seed)
{
    static struct arrays fused;
    for (unsigned variant = 0; variant < 32; variant++) {
        const bool third = variant & 4;
        if (seed) fill(&first, n, seed, third && routine == offsetof(struct fm_kernels, rmsprop));
        const struct fm_update options = {.decay = variant & 1 ? 0.004f : 0,
                                          .use_momentum = variant & 2,
                                          .nesterov = third,
                                          .centered = third,
                                          .amsgrad = variant & 2,
                                          .scale = variant & 8 ? 0.7f : 1,
                                          .limit = variant & 16 ? 0.3f : INFINITY};
        const char *same = NULL; /* the class of numbers whose bits `fused` holds */
        for (int k = -1; k < count; k++) {
            struct arrays *a = k < 0 ? &expected : &got;
            copy(a, &first);
            struct fm_update u = update_of(a, n);
            u.decay = options.decay, u.scale = options.scale, u.limit = options.limit;
            u.use_momentum = options.use_momentum, u.nesterov = options.nesterov;
            u.centered = options.centered, u.amsgrad = options.amsgrad;
            if (k < 0) {
                plain(&u);
                continue;
            }
            update_fn *fn;
            memcpy(&fn, (const char *)kernels[k] + routine, sizeof fn);
            fn(&u);
            check_guards(&got, n, kernels[k]->name);
            compare(tolerance, n, kernels[k]->name, variant);
            if (same && !strcmp(same, kernels[k]->numbers))
                cr_assert(!memcmp(fused.memory, got.memory, sizeof got.memory),
                          "%s, variant %u, %d elements: other bits than %s", kernels[k]->name, variant,
                          (int)n, kernels[k - 1]->name);
            copy(&fused, &got);
            same = kernels[k]->numbers;
        }
    }
}

static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 47, 63, 64, 65, 99};
#define FOR_SIZES(n)                                                                                         \
    for (size_t i_ = 0, n; i_ < sizeof sizes / sizeof *sizes && (n = (size_t)sizes[i_], 1); i_++)

/* Rounded at the same places as the plain loop: the very same numbers. */
Test(cpu_update, sgd_is_exact)
{
    FOR_SIZES(n) check_variants(offsetof(struct fm_kernels, sgd), plain_sgd, TS_EXACT, (int64_t)n, n + 1);
}

Test(cpu_update, rmsprop_is_exact)
{
    FOR_SIZES(n)
    check_variants(offsetof(struct fm_kernels, rmsprop), plain_rmsprop, TS_EXACT, (int64_t)n, n + 1);
}

Test(cpu_update, adam)
{
    FOR_SIZES(n) check_variants(offsetof(struct fm_kernels, adam), plain_adam, TS_FLOAT, (int64_t)n, n + 1);
}

/* Every pair of a gradient and a state, one element each, so that no number hides behind another. */
Test(cpu_update, numbers_that_are_none)
{
    const float gradients[] = {0, -0.0f, 1, -1e18f, 1e20f, -3e38f, INFINITY, -INFINITY, NAN, 1e-18f};
    const float states[] = {0, 1, 1e-30f, 3e38f, INFINITY, NAN, 1e-18f};
    enum { G = sizeof gradients / sizeof *gradients, STATES = sizeof states / sizeof *states };
    fill(&first, G * STATES, 1, false);
    for (int i = 0; i < G * STATES; i++) {
        first.at[1][i] = gradients[i % G];
        first.at[2][i] = first.at[3][i] = first.at[4][i] = states[i / G];
    }
    check_variants(offsetof(struct fm_kernels, sgd), plain_sgd, TS_EXACT, G * STATES, 0);
    check_variants(offsetof(struct fm_kernels, rmsprop), plain_rmsprop, TS_EXACT, G * STATES, 0);
}

/* Adam rounds elsewhere than the plain loop in double, which knows no overflow: what must come out is said
 * here. */
Test(cpu_update, adam_at_the_edges)
{
    static const struct {
        float g, m, s, w;
    } rows[] = {
        {0, 0, 0, 1},           /* nothing known, nothing moved, not 0 / 0 either */
        {1e20f, 0, 0, 1},       /* the square overflows: an infinite root, no step */
        {0, 0, INFINITY, NAN},  /* inf - inf in the average, as in the plain version */
        {NAN, 0, 0, NAN},       /* */
        {INFINITY, 0, 0, NAN},  /* inf / inf */
        {-INFINITY, 0, 0, NAN}, /* */
        {0, NAN, 1, NAN},       /* */
        {0, 0, NAN, NAN},       /* */
        {1e-25f, 0, 0, 0.999f}, /* the square underflows: only epsilon divides, 1e-26 of it is seen */
        {0, 0, 1e-37f, 1},      /* */
    };
    enum { N = sizeof rows / sizeof *rows };
    for (int k = 0; k < count; k++) {
        fill(&got, N, 1, false);
        for (int i = 0; i < N; i++) {
            got.at[0][i] = 1, got.at[1][i] = rows[i].g, got.at[2][i] = rows[i].m, got.at[3][i] = rows[i].s;
            if (rows[i].w == 0.999f) got.at[1][i] *= 1e23f; /* a step of 0.01 * 0.1 * 0.01 / 0.001 */
        }
        const struct fm_update u = update_of(&got, N);
        kernels[k]->adam(&u);
        for (int i = 0; i < N; i++) {
            if (isnan(rows[i].w))
                cr_assert(isnan(got.at[0][i]), "%s, row %d: %g", kernels[k]->name, i, (double)got.at[0][i]);
            else
                cr_assert_float_eq(got.at[0][i], rows[i].w, 1.1e-2, "%s, row %d: %g", kernels[k]->name, i,
                                   (double)got.at[0][i]);
        }
    }
}

/* The root inside adam, bare: rate = -1, a = 1, b = 0, no epsilon and g = s give w = s / sqrt(s). */
Test(cpu_update, root_of_adam)
{
    const float edges[] = {1.17549435e-38f, 1.5e-38f, 3e-38f, 1e-30f, 1, 3, 1e30f, 3.4028234e38f};
    uint64_t seed = 7;
    for (int k = 0; k < count; k++) {
        fill(&got, MOST, 1, false);
        for (int i = 0; i < MOST; i++) {
            const float s = i < 8 ? edges[i] : ldexpf(1.5f + 0.5f * uniform(&seed), i % 250 - 124);
            got.at[0][i] = 0, got.at[1][i] = got.at[3][i] = s, got.at[2][i] = 0;
        }
        struct fm_update u = update_of(&got, MOST);
        u.rate = -1, u.a = 1, u.b = 0, u.epsilon = 0;
        for (int i = 0; i < MOST; i++) got.at[1][i] = fminf(got.at[1][i], 1e18f); /* no overflow of g * g */
        kernels[k]->adam(&u);
        for (int i = 0; i < MOST; i++) {
            const double want = (double)got.at[1][i] / sqrt((double)got.at[3][i]);
            cr_assert(fabs((double)got.at[0][i] - want) <= 4e-7 * want, "%s: root of %g: %.9g, not %.9g",
                      kernels[k]->name, (double)got.at[3][i], (double)got.at[0][i], want);
        }
    }
}

Test(cpu_update, nothing_to_clip_changes_nothing)
{
    const float odd[] = {1e-40f, -1e-45f, INFINITY, -INFINITY, 3.4028234e38f, 1, 0.1f};
    enum { N = sizeof odd / sizeof *odd };
    for (int k = 0; k < count; k++) {
        fill(&got, N, 1, false);
        memset(got.at[0], 0, sizeof odd);
        memcpy(got.at[1], odd, sizeof odd);
        struct fm_update u = update_of(&got, N);
        u.rate = -1;
        kernels[k]->sgd(&u);
        cr_assert(!memcmp(got.at[0], odd, sizeof odd), "%s", kernels[k]->name);
    }
}

static double plain_square(const float *g, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)g[i] * (double)g[i];
    return sum;
}

Test(cpu_update, square_sum)
{
    for (int64_t n = 0; n <= 11822; n += n < 300 ? 1 : 1646) {
        fill(&got, n, (uint64_t)n, false);
        float before = 0;
        for (int k = 0; k < count; k++) {
            const float sum = kernels[k]->square_sum(n, got.at[1]);
            const struct ts_worst w = ts_compare_one(TS_FLOAT, (double)sum, plain_square(got.at[1], n));
            cr_assert(w.ok, "%s, %d elements: %s", kernels[k]->name, (int)n, w.text);
            if (k > 0 && !strcmp(kernels[k]->numbers, kernels[k - 1]->numbers))
                cr_assert(sum == before, "%d elements: other bits", (int)n);
            before = sum;
        }
    }
}

Test(cpu_update, square_sum_shows_what_is_not_finite)
{
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int64_t n = 1; n <= 150; n++) {
        fill(&got, n, (uint64_t)n, false);
        for (int k = 0; k < count; k++)
            for (int64_t i = 0; i < n; i++) {
                const float good = got.at[1][i];
                for (int b = 0; b < 3; b++) {
                    got.at[1][i] = bad[b];
                    cr_assert(!isfinite(kernels[k]->square_sum(n, got.at[1])), "%s: %d of %d",
                              kernels[k]->name, (int)i, (int)n);
                }
                got.at[1][i] = good;
            }
    }
}

Test(cpu_update, regularize)
{
    static double want[MOST];
    FOR_SIZES(size)
    {
        const int64_t n = (int64_t)size;
        fill(&first, n, size + 5, false);
        if (n > 2) first.at[0][1] = 0, first.at[0][2] = -0.0f;
        float bits[128] = {0};
        for (int k = 0; k < count; k++) {
            copy(&got, &first);
            kernels[k]->regularize(n, got.at[0], 0.25f, 0.1f, got.at[1]);
            for (int64_t i = 0; i < n; i++) {
                const double w = (double)first.at[0][i];
                want[i] = (double)first.at[1][i] + 0.25 * ((w > 0) - (w < 0)) + 2 * (double)0.1f * w;
            }
            const struct ts_worst w = ts_compare_float(TS_FLOAT, got.at[1], want, size);
            cr_assert(w.ok, "%s, %d elements: %s", kernels[k]->name, (int)n, w.text);
            check_guards(&got, n, kernels[k]->name);
            if (k > 0 && !strcmp(kernels[k]->numbers, kernels[k - 1]->numbers))
                cr_assert(!memcmp(bits, got.at[1], size * sizeof *bits), "%d elements: other bits", (int)n);
            memcpy(bits, got.at[1], size * sizeof *bits);
        }
    }
}

Test(cpu_update, magnitudes)
{
    for (int64_t n = 0; n <= 5000; n += n < 100 ? 1 : 977) {
        fill(&got, n, (uint64_t)n + 3, false);
        if (n > 3) got.at[0][3] = 1e30f; /* its square is no float */
        double want = 0, before[2] = {0, 0};
        for (int64_t i = 0; i < n; i++) want += (double)fabsf(got.at[0][i]);
        for (int k = 0; k < count; k++) {
            double sum[2] = {0.5, 0.25};
            kernels[k]->magnitudes(n, got.at[0], &sum[0], &sum[1]);
            struct ts_worst w = ts_compare_one(TS_DOUBLE, sum[0], want + 0.5);
            cr_assert(w.ok, "%s, %d elements: %s", kernels[k]->name, (int)n, w.text);
            w = ts_compare_one(TS_DOUBLE, sum[1], plain_square(got.at[0], n) + 0.25);
            cr_assert(w.ok, "%s, %d elements: %s", kernels[k]->name, (int)n, w.text);
            cr_assert(k == 0 || !memcmp(before, sum, sizeof sum), "%s: other bits", kernels[k]->name);
            memcpy(before, sum, sizeof sum);
        }
    }
}
