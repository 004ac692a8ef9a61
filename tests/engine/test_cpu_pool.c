/* Pools of the CPU engine and their gradients against plain loops, for every instruction set this processor
 * has: exactly for max, whose ties and NaN have a rule, bit for bit between the sets of one class. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/kernels.h"
#include "support/guarded.h"

TestSuite(cpu_pool, .timeout = 60);

static uint64_t state = 1;
static int64_t draw(int64_t low, int64_t high)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((state >> 33) % (uint64_t)(high - low + 1));
}

/* Few different numbers, so that windows have ties. */
static float number(void)
{
    return (float)draw(-4, 4) / 3;
}

static float *numbers(int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    cr_assert(x);
    for (int64_t i = 0; i < n; i++) x[i] = number();
    return x;
}

/* One output in double and its winner. */
static double plain_pool(const struct fm_pool_pass *p, const float *x, int64_t o, int64_t c, int64_t *winner)
{
    double best = 0, sum = 0;
    int64_t cells = 0;
    *winner = -1;
    for (int64_t q = 0; q < p->size; q++) {
        const int64_t r = o * p->stride - p->pad + q;
        if (r < 0 || r >= p->in_rows) continue;
        const double v = (double)x[r * p->channels + c];
        sum += v;
        cells++;
        if (*winner < 0 || v > best || (isnan(v) && !isnan(best))) best = v, *winner = q;
    }
    return p->average ? sum / (double)cells : best;
}

static int64_t get_where(const struct fm_pool_pass *p, int64_t place)
{
    return p->where8 ? p->where8[place] : p->where32[place];
}

static void check_forward(const char *name, const struct fm_pool_pass *p)
{
    for (int64_t e = 0; e < p->count; e++)
        for (int64_t o = 0; o < p->out_rows; o++)
            for (int64_t c = 0; c < p->channels; c++) {
                int64_t winner;
                const double expected = plain_pool(p, p->x + e * p->xstride, o, c, &winner);
                const double got = (double)p->y[e * p->ystride + o * p->channels + c];
                const double limit = p->average ? 1e-6 + 1e-7 * (double)p->size : 0;
                cr_assert(isnan(expected) ? isnan(got) : got == expected || fabs(got - expected) <= limit,
                          "%s size %d stride %d channels %d: %.9g, expected %.9g", name, (int)p->size,
                          (int)p->stride, (int)p->channels, got, expected);
                if (p->where8 || p->where32)
                    cr_assert_eq(get_where(p, e * p->wherestride + o * p->channels + c), winner);
            }
}

static void check_gradient(const char *name, const struct fm_pool_pass *p, const float *before)
{
    const int64_t cells = p->in_rows * p->channels;
    double *expected = malloc((size_t)cells * sizeof *expected);
    cr_assert(expected);
    for (int64_t e = 0; e < p->count; e++) {
        for (int64_t i = 0; i < cells; i++) expected[i] = p->acc ? (double)before[e * p->xstride + i] : 0;
        for (int64_t o = 0; o < p->out_rows; o++)
            for (int64_t c = 0; c < p->channels; c++) {
                const double dy = (double)p->dy[e * p->ystride + o * p->channels + c];
                const int64_t start = o * p->stride - p->pad;
                const int64_t low = start > 0 ? start : 0;
                const int64_t high = start + p->size < p->in_rows ? start + p->size : p->in_rows;
                if (!p->average) {
                    const int64_t q = get_where(p, e * p->wherestride + o * p->channels + c);
                    if (q < p->size) expected[(start + q) * p->channels + c] += dy;
                }
                for (int64_t r = low; p->average && r < high; r++)
                    expected[r * p->channels + c] += dy / (double)(high - low);
            }
        for (int64_t i = 0; i < cells; i++)
            cr_assert(fabs((double)p->dx[e * p->xstride + i] - expected[i]) <= 2e-5,
                      "%s size %d stride %d channels %d", name, (int)p->size, (int)p->stride,
                      (int)p->channels);
    }
    free(expected);
}

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A pool as the program would ask for it: every window has a row that exists. */
static struct fm_pool_pass any_pool(int round)
{
    struct fm_pool_pass p = {.count = draw(1, 3), .in_rows = draw(1, 60), .average = draw(0, 2) == 0};
    p.channels = round % 3 ? draw(1, 9) : draw(1, 70);
    p.size = draw(0, 5) ? draw(1, at_least(1, p.in_rows < 9 ? p.in_rows : 8)) : p.in_rows;
    p.stride = draw(0, 2) ? p.size : draw(1, p.size + 3);
    p.pad = draw(0, 1) * draw(0, p.size - 1);
    const int64_t last =
        p.in_rows + p.pad - 1; /* where the last window may start, counted with the padding */
    p.out_rows = draw(0, 3) ? at_least(1, (p.in_rows + p.pad - p.size) / p.stride + 1) : last / p.stride + 1;
    p.xstride = p.in_rows * p.channels + draw(0, 5);
    p.ystride = p.out_rows * p.channels + draw(0, 5);
    p.wherestride = p.out_rows * p.channels;
    return p;
}

struct made {
    float *y, *dx;
    void *where;
};

static void run(const struct fm_kernels *kernels, struct fm_pool_pass p, int mode, const float *before,
                struct made *made)
{
    const size_t places = (size_t)(p.count * p.wherestride);
    made->y = guarded_new((size_t)(p.count * p.ystride) * sizeof(float));
    made->dx = guarded_new((size_t)(p.count * p.xstride) * sizeof(float));
    made->where = guarded_new(places * (mode ? 4 : 1));
    p.y = made->y, p.dx = made->dx;
    if (!p.average && mode < 2) *(mode ? (void **)&p.where32 : (void **)&p.where8) = made->where;
    kernels->pool(&p);
    cr_assert(guarded_intact(p.y) && guarded_intact(made->where) &&
              guarded_gaps(p.y, p.count, p.out_rows * p.channels, p.ystride));
    check_forward(kernels->name, &p);
    if (!p.average && mode == 2) return;
    /* What a fused convolution writes where relu let nothing through. */
    if (p.where8 && p.size < 255 && p.channels % 2) p.where8[places / 2] = (uint8_t)p.size;
    for (int64_t e = 0; e < p.count; e++)
        if (p.acc)
            memcpy(p.dx + e * p.xstride, before + e * p.xstride,
                   (size_t)(p.in_rows * p.channels) * sizeof(float));
    kernels->pool_grad(&p);
    cr_assert(guarded_intact(p.dx) && guarded_gaps(p.dx, p.count, p.in_rows * p.channels, p.xstride));
    check_gradient(kernels->name, &p, before);
}

Test(cpu_pool, random_pools)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    for (int round = 0; round < 1200; round++) {
        struct fm_pool_pass p = any_pool(round);
        const int mode = (int)draw(0, 2); /* bytes, integers, no winners */
        float *x = numbers(p.count * p.xstride), *dy = numbers(p.count * p.ystride);
        float *before = numbers(p.count * p.xstride);
        struct made made[3];
        for (int64_t i = draw(0, 3); i > 0; i--)
            x[draw(0, p.count * p.xstride - 1)] =
                (float[]){NAN, INFINITY, -INFINITY}[p.average ? 0 : draw(0, 2)];
        p.acc = draw(0, 1);
        p.x = x, p.dy = dy;
        for (int i = 0; i < count; i++) {
            run(kernels[i], p, mode, before, &made[i]);
            if (!i || strcmp(kernels[i]->numbers, kernels[0]->numbers)) continue;
            cr_assert(same_bits(made[i].y, made[0].y, p.count * p.ystride));
            cr_assert(same_bits(made[i].dx, made[0].dx, p.count * p.xstride));
        }
        for (int i = 0; i < count; i++)
            guarded_free(made[i].y), guarded_free(made[i].dx), guarded_free(made[i].where);
        free(x), free(dy), free(before);
    }
}
