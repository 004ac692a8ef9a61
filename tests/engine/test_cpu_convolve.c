/* The convolution routines of the CPU engine: random shapes against plain loops in double for every
 * instruction set of this processor, equal bits where promised, nothing written outside the extents, ties and
 * NaN. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "data/dataset.h"
#include "engine/cpu/kernels.h"
#include "support/tolerance.h"

enum { GUARD = 64, SETS = 3 };
#define PATTERN 0xa5

/* ---- random numbers and guarded memory ------------------------------------------------------------------
 */

struct draws {
    uint64_t state;
};
static uint64_t draw(struct draws *d, uint64_t below)
{
    d->state = d->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (d->state >> 33) % below;
}
static int64_t between(struct draws *d, int64_t low, int64_t high)
{
    return low + (int64_t)draw(d, (uint64_t)(high - low + 1));
}

/* Bytes between two guards; `start` is not aligned. */
struct room {
    unsigned char *all, *start;
    size_t bytes;
};
static struct room room_of(size_t bytes)
{
    struct room r = {.bytes = bytes, .all = malloc(bytes + 2 * GUARD)};
    cr_assert(r.all);
    memset(r.all, PATTERN, bytes + 2 * GUARD);
    r.start = r.all + GUARD;
    return r;
}
static void room_check(struct room *r, const char *what)
{
    for (size_t i = 0; i < GUARD; i++) {
        cr_assert_eq(r->all[i], PATTERN, "%s: written before the start", what);
        cr_assert_eq(r->start[r->bytes + i], PATTERN, "%s: written past the end", what);
    }
}
static struct room floats(int64_t n)
{
    return room_of((size_t)n * sizeof(float));
}
static float *at(const struct room *r)
{
    return (float *)(void *)r->start;
}
/* Numbers in [-1, 1] on a grid of `steps`: a coarse grid makes ties. */
static void fill(struct draws *d, float *x, int64_t n, int64_t steps)
{
    for (int64_t i = 0; i < n; i++) x[i] = (float)between(d, -steps, steps) / (float)steps;
}
/* An input: nothing around it, so that the address sanitizer sees a read outside. */
static struct room exact(size_t bytes)
{
    struct room r = {.bytes = bytes, .all = malloc(bytes)};
    cr_assert(r.all);
    r.start = r.all;
    return r;
}
static struct room numbers(int64_t n)
{
    return exact((size_t)n * sizeof(float));
}
static struct room copied(const struct room *input)
{
    struct room r = room_of(input->bytes);
    memcpy(r.start, input->start, input->bytes);
    return r;
}
static void drop(struct room *r, int count)
{
    for (int i = 0; i < count; i++) free(r[i].all);
}

static void near(const float *got, const double *expected, int64_t n, const char *what, const char *isa)
{
    double *values = malloc((size_t)n * sizeof *values);
    cr_assert(values);
    for (int64_t i = 0; i < n; i++) values[i] = (double)got[i];
    const struct ts_worst worst = ts_compare(TS_FLOAT_LAYER, values, expected, (size_t)n);
    cr_assert(worst.ok, "%s %s: %s", isa, what, worst.text);
    free(values);
}
/* avx512 and avx2 count as the same numbers. */
static void same_bits(const struct fm_kernels *a, const struct fm_kernels *b, const struct room *x,
                      const struct room *y, const char *what)
{
    if (!strcmp(a->numbers, b->numbers))
        cr_assert(!memcmp(x->start, y->start, x->bytes), "%s: %s and %s differ", what, a->name, b->name);
}

/* ---- convolution, relu, pool ------------------------------------------------------------------------------
 */

static void draw_pool(struct draws *d, struct fm_conv_pool *p, int round)
{
    static const int64_t widths[] = {24, 32, 8, 16, 20, 7, 40, 64, 5, 23, 1, 56, 3};
    *p = (struct fm_conv_pool){.count = between(d, 1, 3), .windows = between(d, 1, 9)};
    p->pool = round % 5 < 3 ? round % 5 + 2 : between(d, 1, round % 5 == 3 ? 9 : 255);
    p->n = round % 2 ? widths[draw(d, sizeof widths / sizeof *widths)] : between(d, 1, 70);
    p->depth = between(d, 1, 12);
    p->xstep = between(d, 0, 1) ? 1 : between(d, 1, 4);
    p->relu = between(d, 0, 1);
    p->xstride = (p->windows * p->pool - 1) * p->xstep + p->depth + between(d, 0, 3);
    p->ystride = p->windows * p->n + between(d, 0, 3);
    p->wherestride = p->windows * p->n + between(d, 0, 3);
}
static int64_t pool_extent(const struct fm_conv_pool *p)
{
    return (p->count - 1) * p->xstride + (p->windows * p->pool - 1) * p->xstep + p->depth;
}

static double plain_z(const struct fm_conv_pool *p, int64_t e, int64_t o, int64_t n)
{
    double z = p->bias ? (double)p->bias[n] : 0;
    for (int64_t k = 0; k < p->depth; k++)
        z += (double)p->x[e * p->xstride + o * p->xstep + k] * (double)p->weights[k * p->n + n];
    return z;
}
/* y and where as the header says; inputs are on a grid so coarse that float and double agree exactly. */
static void check_pool(const struct fm_conv_pool *p, const char *isa)
{
    for (int64_t e = 0; e < p->count; e++)
        for (int64_t w = 0; w < p->windows; w++)
            for (int64_t n = 0; n < p->n; n++) {
                double best = p->relu ? 0 : -INFINITY;
                int64_t place = p->relu ? p->pool : 0, bad = -1;
                for (int64_t q = 0; q < p->pool; q++) {
                    const double z = plain_z(p, e, w * p->pool + q, n);
                    if (isnan(z) && bad < 0) bad = q;
                    if (z > best) best = z, place = q;
                }
                const float y = p->y[e * p->ystride + w * p->n + n];
                if (bad >= 0)
                    cr_assert(isnan(y), "%s: a NaN was lost", isa);
                else
                    cr_assert((double)y == best, "%s pool %d n %d: y %g, not %g", isa, (int)p->pool,
                              (int)p->n, (double)y, best);
                if (p->where)
                    cr_assert_eq(p->where[e * p->wherestride + w * p->n + n], bad >= 0 ? bad : place,
                                 "%s pool %d n %d of %d window %d: place %d, not %d", isa, (int)p->pool,
                                 (int)n, (int)p->n, (int)w, p->where[e * p->wherestride + w * p->n + n],
                                 (int)(bad >= 0 ? bad : place));
            }
}

/* One case on all sets; then once more for inference. */
static void run_pool(struct fm_conv_pool *p, const struct fm_kernels *const *sets, int count)
{
    struct room y[SETS], where[SETS];
    const int64_t ysize = (p->count - 1) * p->ystride + p->windows * p->n;
    const int64_t wsize = (p->count - 1) * p->wherestride + p->windows * p->n;
    for (int i = 0; i < count; i++) {
        struct room alone = floats(ysize);
        y[i] = floats(ysize);
        where[i] = room_of((size_t)wsize);
        p->y = at(&y[i]);
        p->where = where[i].start;
        sets[i]->conv_pool(p);
        check_pool(p, sets[i]->name);
        for (int64_t e = 0; e + 1 < p->count; e++)
            for (int64_t j = p->windows * p->n; j < p->wherestride; j++)
                cr_assert_eq(where[i].start[e * p->wherestride + j], PATTERN, "written between examples");
        p->y = at(&alone);
        p->where = NULL;
        sets[i]->conv_pool(p);
        cr_assert(!memcmp(alone.start, y[i].start, y[i].bytes), "inference differs");
        room_check(&y[i], "conv_pool y");
        room_check(&alone, "conv_pool y");
        room_check(&where[i], "conv_pool where");
        drop(&alone, 1);
    }
    for (int i = 1; i < count; i++) {
        same_bits(sets[0], sets[i], &y[0], &y[i], "conv_pool");
        same_bits(sets[0], sets[i], &where[0], &where[i], "conv_pool");
    }
    drop(y, count);
    drop(where, count);
}

Test(cpu_convolve, conv_pool)
{
    const struct fm_kernels *sets[SETS];
    const int count = fm_kernels_available(sets);
    struct draws d = {11};
    for (int round = 0; round < 300; round++) {
        struct fm_conv_pool p;
        draw_pool(&d, &p, round);
        struct room in[3] = {numbers(pool_extent(&p)), numbers(p.depth * p.n), numbers(p.n)};
        for (int i = 0; i < 3; i++) fill(&d, at(&in[i]), (int64_t)(in[i].bytes / 4), 4);
        if (round % 7 == 0) at(&in[0])[draw(&d, in[0].bytes / 4)] = round % 2 ? NAN : INFINITY;
        if (round % 11 == 0) at(&in[1])[draw(&d, in[1].bytes / 4)] = -INFINITY;
        p.x = at(&in[0]), p.weights = at(&in[1]), p.bias = round % 3 ? at(&in[2]) : NULL;
        run_pool(&p, sets, count);
        drop(in, 3);
    }
}

/* Finite numbers whose sums overflow: inf + (-inf) is a NaN where products are rounded, and inf where they
 * are fused, since the product stays finite there. */
Test(cpu_convolve, conv_pool_overflow)
{
    const struct fm_kernels *sets[SETS];
    const int count = fm_kernels_available(sets);
    const float x[6] = {3e38f, 3e38f, 3e38f, 0, 0, 0}, w[3] = {3e38f, -3e38f, 1};
    for (int i = 0; i < count; i++)
        for (int relu = 0; relu < 2; relu++) {
            float y[2];
            uint8_t where[2];
            const struct fm_conv_pool p = {.count = 1,
                                           .windows = 2,
                                           .pool = 2,
                                           .depth = 3,
                                           .n = 1,
                                           .relu = relu,
                                           .x = x,
                                           .weights = w,
                                           .y = y,
                                           .where = where,
                                           .xstep = 1};
            sets[i]->conv_pool(&p);
            cr_assert(!strcmp(sets[i]->numbers, "cpu-portable") ? isnan(y[0]) : isinf(y[0]));
            cr_assert(where[0] == 0 && isinf(y[1]) && where[1] == 0);
        }
}

/* ---- its gradient
 * ------------------------------------------------------------------------------------------ */

static void plain_grad(const struct fm_conv_pool_grad *p, double *dw, double *db)
{
    for (int64_t e = 0; e < p->count; e++)
        for (int64_t w = 0; w < p->windows; w++)
            for (int64_t n = 0; n < p->n; n++) {
                const int64_t place = p->where[e * p->wherestride + w * p->n + n];
                const double d = (double)p->d[e * p->dstride + w * p->n + n];
                if (place >= p->pool) continue;
                db[n] += d;
                for (int64_t k = 0; k < p->depth; k++)
                    dw[k * p->n + n] += d * (double)p->x[e * p->xstride + w * p->pool + place + k];
            }
}

Test(cpu_convolve, conv_pool_grad)
{
    const struct fm_kernels *sets[SETS];
    const int count = fm_kernels_available(sets);
    struct draws d = {12};
    for (int round = 0; round < 200; round++) {
        struct fm_conv_pool shape;
        draw_pool(&d, &shape, round % 5 < 3 ? round : round - 3);
        struct fm_conv_pool_grad p = {shape.count,
                                      shape.windows,
                                      shape.pool,
                                      between(&d, 1, 21),
                                      shape.n,
                                      .dstride = shape.ystride,
                                      .wherestride = shape.wherestride};
        const int64_t needed = p.windows * p.pool - 1 + p.depth;
        p.xstride = needed + between(&d, 0, 3);
        const int64_t size = (p.count - 1) * p.xstride + needed;
        struct room in[3] = {numbers(size + 4), numbers((p.count - 1) * p.dstride + p.windows * p.n),
                             exact((size_t)((p.count - 1) * p.wherestride + p.windows * p.n))};
        fill(&d, at(&in[0]), size, 1000);
        for (int i = 0; i < 4; i++) at(&in[0])[size + i] = NAN;
        fill(&d, at(&in[1]), (int64_t)(in[1].bytes / 4), 1000);
        for (size_t i = 0; i < in[2].bytes; i++) in[2].start[i] = (uint8_t)draw(&d, (uint64_t)p.pool + 1);
        p.x = at(&in[0]), p.d = at(&in[1]), p.where = in[2].start;
        struct room dw[SETS], db[SETS];
        double *ew = calloc((size_t)(p.depth * p.n), sizeof *ew), *eb = calloc((size_t)p.n, sizeof *eb);
        cr_assert(ew && eb);
        for (int64_t i = 0; i < p.depth * p.n; i++) ew[i] = (double)(i % 3);
        plain_grad(&p, ew, eb);
        for (int i = 0; i < count; i++) {
            dw[i] = floats(p.depth * p.n), db[i] = floats(p.n);
            for (int64_t j = 0; j < p.depth * p.n; j++) at(&dw[i])[j] = (float)(j % 3);
            memset(db[i].start, 0, db[i].bytes);
            p.dweights = at(&dw[i]), p.dbias = round % 4 ? at(&db[i]) : NULL;
            sets[i]->conv_pool_grad(&p);
            near(at(&dw[i]), ew, p.depth * p.n, "dweights", sets[i]->name);
            if (p.dbias) near(at(&db[i]), eb, p.n, "dbias", sets[i]->name);
            room_check(&dw[i], "conv_pool_grad dweights");
            room_check(&db[i], "conv_pool_grad dbias");
            same_bits(sets[0], sets[i], &dw[0], &dw[i], "dweights");
            same_bits(sets[0], sets[i], &db[0], &db[i], "dbias");
        }
        drop(dw, count), drop(db, count), drop(in, 3);
        free(ew), free(eb);
    }
}

/* ---- letters
 * ------------------------------------------------------------------------------------------------ */

static void plain_letters(const struct fm_letters *p, const float *dy, double *y, double *dw)
{
    for (int64_t e = 0; e < p->count; e++)
        for (int64_t o = 0; o < p->out_rows; o++)
            for (int64_t n = 0; n < p->n; n++) {
                double *to = y + e * p->ystride + o * p->n + n;
                if (!p->acc) *to = 0;
                if (p->bias) *to += (double)p->bias[n];
                for (int64_t j = 0; j < p->taps; j++) {
                    const int64_t r = o * p->stride + j * p->dilation - p->pad;
                    if (r < 0 || r >= p->in_rows || p->x[e * p->xstride + r] == FM_NO_LETTER) continue;
                    const int64_t row = (j * p->alphabet + p->x[e * p->xstride + r]) * p->n + n;
                    *to += (double)p->w[row];
                    dw[row] += (double)dy[e * p->ystride + o * p->n + n];
                }
            }
}
static void draw_letters(struct draws *d, struct fm_letters *p, int round)
{
    *p = (struct fm_letters){.count = between(d, 1, 3), .in_rows = between(d, 1, 20)};
    p->alphabet = between(d, 1, 21);
    p->n = round % 3 ? between(d, 1, 40) : 64 + between(d, 0, 1) * between(d, 0, 80);
    p->taps = between(d, 1, 7), p->stride = between(d, 1, 3), p->dilation = between(d, 1, 3);
    p->pad = between(d, 0, 8);
    p->out_rows = between(d, 1, 12);
    if (round % 6 == 0) /* a dense layer */
        p->stride = p->taps = p->in_rows, p->out_rows = 1, p->pad = 0, p->dilation = 1;
    p->acc = between(d, 0, 1);
    p->xstride = p->in_rows + between(d, 0, 2);
    p->ystride = p->out_rows * p->n + between(d, 0, 2);
}

Test(cpu_convolve, letters)
{
    const struct fm_kernels *sets[SETS];
    const int count = fm_kernels_available(sets);
    struct draws d = {13};
    for (int round = 0; round < 200; round++) {
        struct fm_letters p;
        draw_letters(&d, &p, round);
        const int64_t wsize = p.taps * p.alphabet * p.n, ysize = p.count * p.ystride;
        struct room in[4] = {exact((size_t)((p.count - 1) * p.xstride + p.in_rows)), numbers(wsize),
                             numbers(p.n), numbers(ysize)};
        for (size_t i = 0; i < in[0].bytes; i++)
            in[0].start[i] = between(&d, 0, 9) ? (uint8_t)draw(&d, (uint64_t)p.alphabet) : FM_NO_LETTER;
        for (int i = 1; i < 4; i++) fill(&d, at(&in[i]), (int64_t)(in[i].bytes / 4), 1000);
        p.x = in[0].start, p.w = at(&in[1]), p.bias = round % 4 ? at(&in[2]) : NULL;
        double *ey = calloc((size_t)ysize, sizeof *ey), *ew = calloc((size_t)wsize, sizeof *ew);
        cr_assert(ey && ew);
        for (int64_t i = 0; i < ysize; i++) ey[i] = (double)at(&in[3])[i];
        plain_letters(&p, at(&in[3]), ey, ew);
        struct room y[SETS], dw[SETS];
        for (int i = 0; i < count; i++) {
            y[i] = copied(&in[3]), dw[i] = floats(wsize);
            memset(dw[i].start, 0, dw[i].bytes);
            p.y = at(&y[i]);
            sets[i]->letters(&p);
            near(p.y, ey, ysize, "letters", sets[i]->name);
            p.y = at(&in[3]), p.dw = at(&dw[i]);
            sets[i]->letters_grad(&p);
            near(p.dw, ew, wsize, "letters_grad", sets[i]->name);
            room_check(&y[i], "letters y");
            room_check(&dw[i], "letters dw");
            same_bits(sets[0], sets[i], &y[0], &y[i], "letters");
            same_bits(sets[0], sets[i], &dw[0], &dw[i], "letters_grad");
        }
        drop(y, count), drop(dw, count), drop(in, 4);
        free(ey), free(ew);
    }
}

/* ---- narrow groups
 * ------------------------------------------------------------------------------------------ */

/* Rows that x has, halo included. */
static int64_t rows_of(const struct fm_narrow *p)
{
    return (p->out_rows - 1) * p->stride + (p->taps - 1) * p->dilation + 1;
}
/* Now and then many rows or far ones, so that the copies of some are not enough. */
static void draw_narrow(struct draws *d, struct fm_narrow *p)
{
    const int64_t shape = between(d, 0, 9);
    *p = (struct fm_narrow){
        .count = between(d, 1, 3), .taps = between(d, 1, 6), .stride = between(d, 1, shape == 1 ? 40 : 3)};
    p->dilation = between(d, 1, shape == 2 ? 120 : 3);
    p->depth = between(d, 0, 1) ? 1 : between(d, 1, 20);
    p->width = between(d, 0, 1) ? between(d, 1, 2) : between(d, 1, 15);
    p->filters = p->width * between(d, 1, 12);
    p->out_rows = between(d, 1, shape == 3 ? 150 : 20);
    p->pad = between(d, 0, rows_of(p) - 1);
    p->in_rows = between(d, 1, rows_of(p) - p->pad);
    p->acc = between(d, 0, 1);
    p->xstride = rows_of(p) * (p->filters / p->width * p->depth) + between(d, 0, 3);
    p->ystride = p->out_rows * p->filters + between(d, 0, 3);
    p->dxstride = p->in_rows * (p->filters / p->width * p->depth) + between(d, 0, 3);
}
/* One example, x with its halo rows: [rows][channels]; dx is of rows pad .. pad + in_rows. */
static void plain_narrow(const struct fm_narrow *p, const float *x, const float *dy, double *y, double *dw,
                         double *dx)
{
    const int64_t channels = p->filters / p->width * p->depth;
    for (int64_t o = 0; o < p->out_rows; o++)
        for (int64_t f = 0; f < p->filters; f++) {
            double *to = y + o * p->filters + f;
            if (!p->acc) *to = 0;
            if (p->bias) *to += (double)p->bias[f];
            for (int64_t j = 0; j < p->taps; j++)
                for (int64_t i = 0; i < p->depth; i++) {
                    const int64_t r = o * p->stride + j * p->dilation, c = f / p->width * p->depth + i;
                    const int64_t w = (j * p->depth + i) * p->filters + f;
                    const double g = (double)dy[o * p->filters + f];
                    *to += (double)x[r * channels + c] * (double)p->w[w];
                    dw[w] += (double)x[r * channels + c] * g;
                    if (r >= p->pad && r < p->pad + p->in_rows)
                        dx[(r - p->pad) * channels + c] += (double)p->w[w] * g;
                }
        }
}

static void run_narrow(struct draws *d, struct fm_narrow *p, const struct fm_kernels *const *sets, int count)
{
    const int64_t channels = p->filters / p->width * p->depth, rows = p->out_rows * p->filters;
    const int64_t ysize = (p->count - 1) * p->ystride + rows, wsize = p->taps * p->depth * p->filters;
    const int64_t dxrows = p->in_rows * channels, dxsize = (p->count - 1) * p->dxstride + dxrows;
    struct room in[5] = {numbers((p->count - 1) * p->xstride + rows_of(p) * channels), numbers(wsize),
                         numbers(p->filters), numbers(ysize), numbers(dxsize)};
    for (int i = 0; i < 5; i++) fill(d, at(&in[i]), (int64_t)(in[i].bytes / 4), 1000);
    /* Sums of hundreds come near zero: small terms keep what is rounded off in them small too. */
    for (int64_t i = 0; i < ysize; i++) at(&in[3])[i] /= 8;
    for (int64_t i = 0; i < wsize; i++) at(&in[1])[i] /= 8;
    p->x = at(&in[0]), p->w = at(&in[1]), p->bias = between(d, 0, 2) ? at(&in[2]) : NULL, p->dy = at(&in[3]);
    double *ey = calloc((size_t)ysize, 8), *ew = calloc((size_t)wsize, 8), *ex = calloc((size_t)dxsize, 8);
    cr_assert(ey && ew && ex);
    for (int64_t i = 0; i < ysize; i++) ey[i] = (double)p->dy[i];
    for (int64_t i = 0; i < dxsize; i++)
        ex[i] = p->acc || i % p->dxstride >= dxrows ? (double)at(&in[4])[i] : 0;
    for (int64_t e = 0; e < p->count; e++)
        plain_narrow(p, p->x + e * p->xstride, p->dy + e * p->ystride, ey + e * p->ystride, ew,
                     ex + e * p->dxstride);
    struct room out[SETS][4];
    for (int i = 0; i < count; i++) {
        out[i][0] = floats(p->taps * p->width * channels), out[i][1] = copied(&in[3]);
        out[i][2] = floats(wsize), out[i][3] = copied(&in[4]);
        memset(out[i][2].start, 0, out[i][2].bytes);
        p->turned = at(&out[i][0]), p->y = at(&out[i][1]), p->dw = at(&out[i][2]), p->dx = at(&out[i][3]);
        sets[i]->narrow(p);
        sets[i]->narrow_weights(p);
        sets[i]->narrow_turn(p);
        sets[i]->narrow_input(p);
        near(p->y, ey, ysize, "narrow", sets[i]->name);
        near(p->dw, ew, wsize, "narrow_weights", sets[i]->name);
        near(p->dx, ex, dxsize, "narrow_input", sets[i]->name);
        for (int j = 0; j < 4; j++) {
            room_check(&out[i][j], "narrow");
            same_bits(sets[0], sets[i], &out[0][j], &out[i][j], "narrow");
        }
    }
    for (int i = 0; i < count; i++) drop(out[i], 4);
    drop(in, 5);
    free(ey), free(ew), free(ex);
}

Test(cpu_convolve, narrow)
{
    const struct fm_kernels *sets[SETS];
    const int count = fm_kernels_available(sets);
    struct draws d = {14};
    for (int round = 0; round < 300; round++) {
        struct fm_narrow p;
        draw_narrow(&d, &p);
        run_narrow(&d, &p, sets, count);
    }
}
