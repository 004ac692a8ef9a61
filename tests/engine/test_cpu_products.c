/* The products of the CPU engine against plain loops in double, for every instruction set this processor has:
 * random shapes and strides, guards around all that is written, NaN around all that is read, and the same
 * bits from all that promise them. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/kernels.h"

TestSuite(cpu_products, .timeout = 60);

enum { GUARD = 72 };

static uint64_t state = 1;
static int64_t draw(int64_t low, int64_t high)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((state >> 33) % (uint64_t)(high - low + 1));
}
static float number(void)
{
    return (float)draw(-1000000, 1000000) / 1000000.0f;
}

/* Floats addressed by up to four strides, between guards; origin is the element with all indices zero. */
struct block {
    int64_t size[4], stride[4], floats;
    float *memory, *origin;
};
static float *at(const struct block *b, int64_t i, int64_t j, int64_t k, int64_t l)
{
    return b->origin + i * b->stride[0] + j * b->stride[1] + k * b->stride[2] + l * b->stride[3];
}
#define EACH(b)                                                                                              \
    for (int64_t i = 0; i < (b)->size[0]; i++)                                                               \
        for (int64_t j = 0; j < (b)->size[1]; j++)                                                           \
            for (int64_t k = 0; k < (b)->size[2]; k++)                                                       \
                for (int64_t l = 0; l < (b)->size[3]; l++)

static void block_make(struct block *b)
{
    int64_t low = 0, high = 0;
    for (int d = 0; d < 4; d++) {
        const int64_t reach = b->size[d] > 0 ? (b->size[d] - 1) * b->stride[d] : 0;
        if (reach < 0)
            low += reach;
        else
            high += reach;
    }
    const int64_t before = GUARD + draw(0, 15);
    b->floats = before + high - low + 1 + GUARD;
    b->memory = malloc((size_t)b->floats * sizeof(float));
    cr_assert(b->memory);
    for (int64_t i = 0; i < b->floats; i++) b->memory[i] = NAN;
    b->origin = b->memory + before - low;
    EACH(b) * at(b, i, j, k, l) = number();
}
static struct block block_like(const struct block *b)
{
    struct block copy = *b;
    copy.memory = malloc((size_t)b->floats * sizeof(float));
    cr_assert(copy.memory);
    memcpy(copy.memory, b->memory, (size_t)b->floats * sizeof(float));
    copy.origin = copy.memory + (b->origin - b->memory);
    return copy;
}
/* Everything that EACH does not reach is as it was. */
static bool guards_hold(const struct block *got, const struct block *before)
{
    struct block masked = block_like(before);
    EACH(got) * at(&masked, i, j, k, l) = *at(got, i, j, k, l);
    const bool same = !memcmp(masked.memory, got->memory, (size_t)got->floats * sizeof(float));
    free(masked.memory);
    return same;
}

/* What sets of the same class made of the same data, to be compared bit for bit. */
static void same_bits(const struct fm_kernels *kernels[3], int i, const struct block *got, const char *text)
{
    static float *first;
    if (i == 0) {
        free(first);
        first = malloc((size_t)got->floats * sizeof(float));
        cr_assert(first);
        memcpy(first, got->memory, (size_t)got->floats * sizeof(float));
    } else if (!strcmp(kernels[i]->numbers, kernels[0]->numbers)) {
        cr_assert(!memcmp(first, got->memory, (size_t)got->floats * sizeof(float)),
                  "%s and %s have different bits: %s", kernels[0]->name, kernels[i]->name, text);
    }
}

/* A chain of `count` roundings is off by at most that many times half an ulp of the sum of magnitudes. */
static bool close_enough(float got, double expected, double magnitude, int64_t count)
{
    return fabs(got - expected) <= (double)(count + 4) * 0.5 * FLT_EPSILON * magnitude + FLT_MIN;
}

/* ---- product ---- */

struct product_case {
    struct fm_product p;
    struct block a, b, bias, c;
    char text[256];
};

static void product_check(const struct product_case *t, const struct block *got, const char *isa)
{
    const struct fm_product *p = &t->p;
    for (int64_t g = 0; g < p->groups; g++)
        for (int64_t m = 0; m < p->m; m++)
            for (int64_t n = 0; n < p->n; n++) {
                double sum = p->acc ? *at(&t->c, g, m, n, 0) : p->bias ? p->bias[n] : 0;
                double magnitude = fabs(sum);
                for (int64_t k1 = 0; k1 < p->k1; k1++)
                    for (int64_t k2 = 0; k2 < p->k2; k2++) {
                        const double x = (double)*at(&t->a, g, m, k1, k2) * *at(&t->b, k1, k2, n, 0);
                        sum += x;
                        magnitude += fabs(x);
                    }
                const float value = *at(got, g, m, n, 0);
                cr_assert(close_enough(value, sum, magnitude, 2 * p->k1 * p->k2),
                          "%s: C[%lld][%lld][%lld] is %.9g, not %.9g: %s", isa, (long long)g, (long long)m,
                          (long long)n, value, sum, t->text);
            }
    cr_assert(guards_hold(got, &t->c), "%s wrote outside: %s", isa, t->text);
}

/* Strides as the layers have them, or any. */
static void product_strides(struct fm_product *p)
{
    const int64_t kind = draw(0, 4), gap = draw(0, 1) * draw(0, 20), channels = draw(1, 9);
    if (kind == 0 && p->k2 > 0) p->k2 = channels * draw(1, 9);
    p->bk2 = p->n + gap;
    p->bk1 = p->k2 * p->bk2 + draw(0, 1) * draw(0, 40);
    p->cm = p->n + draw(0, 1) * draw(0, 20);
    p->cg = p->m * p->cm + draw(0, 1) * draw(0, 40);
    p->ak2 = 1;
    if (kind == 0) { /* convolution forward: taps overlap */
        p->am = channels * draw(1, 2);
        p->ak1 = p->k2;
        p->ag = p->m * p->am + p->k1 * p->k2 + draw(0, 9);
    } else if (kind == 1) { /* dilated: k1 = tap, k2 = channel */
        p->am = p->k2;
        p->ak1 = p->k2 * draw(1, 4);
        p->ag = p->m * p->am + p->k1 * p->ak1;
        p->bk1 = p->k2 * p->bk2;
    } else if (kind == 2) { /* weight gradient: k1 = example, k2 = position */
        p->am = 1;
        p->ak2 = draw(1, p->m);
        p->ak1 = p->k2 * p->ak2 + p->m;
        p->ag = p->k1 * p->ak1;
    } else if (kind == 3) { /* groups side by side */
        p->ag = p->k2;
        p->am = p->groups * p->k2;
        p->ak1 = p->m * p->am;
    } else { /* backwards through examples */
        p->am = p->k2 + draw(0, 5);
        p->ag = p->m * p->am;
        p->ak1 = -p->groups * p->ag;
        p->bk1 = -p->bk1;
    }
}

static void product_case_make(struct product_case *t)
{
    struct fm_product *p = &t->p;
    *p = (struct fm_product){.groups = draw(1, 3), .m = draw(1, 40), .n = draw(1, 140)};
    if (draw(0, 2) == 0) p->n = draw(1, 20);
    if (draw(0, 4) == 0) p->m = draw(40, 150);
    p->k1 = draw(0, 2) ? 1 : draw(1, 7);
    p->k2 = draw(0, 3) ? draw(1, 40) : draw(1, 3);
    if (draw(0, 15) == 0) p->k2 = draw(100, 500); /* more than one block of k */
    if (draw(0, 20) == 0) *(draw(0, 1) ? &p->k1 : &p->k2) = 0;
    p->acc = draw(0, 2) == 0;
    product_strides(p);
    t->a = (struct block){.size = {p->groups, p->m, p->k1, p->k2}, .stride = {p->ag, p->am, p->ak1, p->ak2}};
    t->b = (struct block){.size = {p->k1, p->k2, p->n, 1}, .stride = {p->bk1, p->bk2, 1, 0}};
    t->bias = (struct block){.size = {p->n, 1, 1, 1}, .stride = {1, 0, 0, 0}};
    t->c = (struct block){.size = {p->groups, p->m, p->n, 1}, .stride = {p->cg, p->cm, 1, 0}};
    block_make(&t->a);
    block_make(&t->b);
    block_make(&t->bias);
    block_make(&t->c);
    p->a = t->a.origin;
    p->b = t->b.origin;
    p->bias = !p->acc && draw(0, 1) ? t->bias.origin : NULL;
    snprintf(t->text, sizeof t->text,
             "groups %lld m %lld n %lld k1 %lld k2 %lld acc %d bias %d ag %lld am %lld ak1 %lld ak2 %lld",
             (long long)p->groups, (long long)p->m, (long long)p->n, (long long)p->k1, (long long)p->k2,
             p->acc, p->bias != NULL, (long long)p->ag, (long long)p->am, (long long)p->ak1,
             (long long)p->ak2);
}

static void product_case_free(struct product_case *t)
{
    free(t->a.memory);
    free(t->b.memory);
    free(t->bias.memory);
    free(t->c.memory);
}

Test(cpu_products, product)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    for (int round = 0; round < 600; round++) {
        struct product_case t;
        product_case_make(&t);
        for (int i = 0; i < count; i++) {
            struct block got = block_like(&t.c);
            t.p.c = got.origin;
            kernels[i]->product(&t.p);
            product_check(&t, &got, kernels[i]->name);
            same_bits(kernels, i, &got, t.text);
            free(got.memory);
        }
        product_case_free(&t);
    }
}

/* One element alone, and the same one among all others. */
Test(cpu_products, product_bits_do_not_depend_on_the_shape)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    for (int round = 0; round < 150; round++) {
        struct product_case t;
        product_case_make(&t);
        for (int i = 0; i < count; i++) {
            struct block all = block_like(&t.c);
            t.p.c = all.origin;
            kernels[i]->product(&t.p);
            for (int sample = 0; sample < 20; sample++) {
                const int64_t g = draw(0, t.p.groups - 1), m = draw(0, t.p.m - 1), n = draw(0, t.p.n - 1);
                float one = *at(&t.c, g, m, n, 0);
                struct fm_product p = t.p;
                p.groups = p.m = p.n = 1;
                p.a += g * p.ag + m * p.am;
                p.b += n;
                if (p.bias) p.bias += n;
                p.c = &one;
                kernels[i]->product(&p);
                cr_assert(!memcmp(&one, at(&all, g, m, n, 0), sizeof one), "%s: %s", kernels[i]->name,
                          t.text);
            }
            free(all.memory);
        }
        product_case_free(&t);
    }
}

/* ---- dots ---- */

static double dots_expected(const struct fm_dots *d, const float *a, const float *b, double *magnitude)
{
    double sum = 0;
    *magnitude = 0;
    for (int64_t k = 0; k < d->k; k++) {
        sum += (double)a[k] * b[k];
        *magnitude += fabs((double)a[k] * b[k]);
    }
    return sum;
}

static void dots_check(const struct fm_dots *d, const struct block *before, const struct block *got,
                       const char *isa, const char *text)
{
    for (int64_t g = 0; g < d->groups; g++)
        for (int64_t m = 0; m < d->m; m++)
            for (int64_t n = 0; n < d->n; n++) {
                double magnitude,
                    x = dots_expected(d, d->a + g * d->ag + m * d->am, d->b + n * d->bn, &magnitude);
                if (d->bias) x += d->bias[n];
                if (d->bias) magnitude += fabs(d->bias[n]);
                if (d->relu && x < 0) x = 0;
                if (d->acc) x += *at(before, g, m, n, 0);
                if (d->acc) magnitude += fabs(*at(before, g, m, n, 0));
                cr_assert(close_enough(*at(got, g, m, n, 0), x, magnitude, 2 * d->k),
                          "%s: C[%lld][%lld][%lld] is %.9g, not %.9g: %s", isa, (long long)g, (long long)m,
                          (long long)n, *at(got, g, m, n, 0), x, text);
            }
    cr_assert(guards_hold(got, before), "%s wrote outside: %s", isa, text);
}

Test(cpu_products, dots)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    for (int round = 0; round < 500; round++) {
        struct fm_dots d = {.groups = draw(1, 3), .m = draw(1, 20), .n = draw(1, 40), .k = draw(0, 90)};
        if (draw(0, 3) == 0) d.n = draw(1, 3);
        if (draw(0, 3) == 0) d.m = draw(1, 2);
        if (draw(0, 20) == 0) d.k = draw(500, 3000);
        const int64_t kind = draw(0, 2);
        d.relu = kind == 0;
        d.acc = kind == 1;
        d.am = d.k + draw(0, 1) * draw(0, 9);
        d.ag = d.m * d.am + draw(0, 1) * draw(0, 9);
        d.bn = d.k + draw(0, 1) * draw(0, 9);
        d.cm = d.n + draw(0, 1) * draw(0, 9);
        d.cg = d.m * d.cm + draw(0, 1) * draw(0, 9);
        struct block a = {.size = {d.groups, d.m, d.k, 1}, .stride = {d.ag, d.am, 1, 0}};
        struct block b = {.size = {d.n, d.k, 1, 1}, .stride = {d.bn, 1, 0, 0}};
        struct block bias = {.size = {d.n, 1, 1, 1}, .stride = {1, 0, 0, 0}};
        struct block c = {.size = {d.groups, d.m, d.n, 1}, .stride = {d.cg, d.cm, 1, 0}};
        block_make(&a);
        block_make(&b);
        block_make(&bias);
        block_make(&c);
        d.a = a.origin;
        d.b = b.origin;
        d.bias = draw(0, 2) ? bias.origin : NULL;
        char text[160];
        snprintf(text, sizeof text, "groups %lld m %lld n %lld k %lld relu %d acc %d bias %d",
                 (long long)d.groups, (long long)d.m, (long long)d.n, (long long)d.k, d.relu, d.acc,
                 d.bias != NULL);
        for (int i = 0; i < count; i++) {
            struct block got = block_like(&c);
            d.c = got.origin;
            kernels[i]->dots(&d);
            dots_check(&d, &c, &got, kernels[i]->name, text);
            same_bits(kernels, i, &got, text);
            free(got.memory);
        }
        free(a.memory);
        free(b.memory);
        free(bias.memory);
        free(c.memory);
    }
}

Test(cpu_products, relu_of_dots_keeps_nan)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    for (int i = 0; i < count; i++)
        for (int64_t m = 1; m <= 9; m += 4) {
            float a[9 * 5], b[6 * 5], c[9 * 6];
            for (int j = 0; j < 9 * 5; j++) a[j] = 1;
            for (int j = 0; j < 6 * 5; j++) b[j] = -1;
            b[2 * 5 + 3] = NAN;
            const struct fm_dots d = {.groups = 1,
                                      .m = m,
                                      .n = 6,
                                      .k = 5,
                                      .relu = true,
                                      .a = a,
                                      .b = b,
                                      .c = c,
                                      .am = 5,
                                      .bn = 5,
                                      .cm = 6};
            kernels[i]->dots(&d);
            for (int64_t j = 0; j < m * 6; j++)
                cr_assert(j % 6 == 2 ? isnan(c[j]) : c[j] == 0, "%s: C[%lld] = %g", kernels[i]->name,
                          (long long)j, c[j]);
        }
}

/* ---- column sums, transpose, peak ---- */

Test(cpu_products, column_sums_are_in_row_order)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    for (int round = 0; round < 200; round++) {
        const int64_t groups = draw(1, 4), m = draw(0, 20), n = draw(1, 200), ag = m * n + draw(0, 30);
        struct block a = {.size = {groups, m, n, 1}, .stride = {ag, n, 1, 0}};
        struct block sum = {.size = {n, 1, 1, 1}, .stride = {1, 0, 0, 0}};
        block_make(&a);
        block_make(&sum);
        struct block expected = block_like(&sum);
        for (int64_t g = 0; g < groups; g++)
            for (int64_t r = 0; r < m; r++)
                for (int64_t j = 0; j < n; j++) expected.origin[j] += *at(&a, g, r, j, 0);
        for (int i = 0; i < count; i++) {
            struct block got = block_like(&sum);
            kernels[i]->column_sums(groups, m, n, a.origin, ag, got.origin);
            cr_assert(!memcmp(got.memory, expected.memory, (size_t)got.floats * sizeof(float)),
                      "%s: groups %lld, m %lld, n %lld", kernels[i]->name, (long long)groups, (long long)m,
                      (long long)n);
            free(got.memory);
        }
        free(a.memory);
        free(sum.memory);
        free(expected.memory);
    }
}

Test(cpu_products, transpose)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    for (int round = 0; round < 300; round++) {
        const int64_t m = draw(1, 70), n = draw(1, 70), from_row = n + draw(0, 9), to_row = m + draw(0, 9);
        struct block from = {.size = {m, n, 1, 1}, .stride = {from_row, 1, 0, 0}};
        struct block to = {.size = {n, m, 1, 1}, .stride = {to_row, 1, 0, 0}};
        block_make(&from);
        block_make(&to);
        struct block expected = block_like(&to);
        EACH(&from) * at(&expected, j, i, k, l) = *at(&from, i, j, k, l);
        for (int i = 0; i < count; i++) {
            struct block got = block_like(&to);
            kernels[i]->transpose(m, n, from.origin, from_row, got.origin, to_row);
            cr_assert(!memcmp(got.memory, expected.memory, (size_t)got.floats * sizeof(float)),
                      "%s: %lld x %lld", kernels[i]->name, (long long)m, (long long)n);
            free(got.memory);
        }
        free(from.memory);
        free(to.memory);
        free(expected.memory);
    }
}

Test(cpu_products, peak_does_what_it_counts)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    for (int i = 0; i < count; i++) {
        double flops = 0, none = 1;
        const float end = kernels[i]->peak(1000, &flops);
        cr_assert(isfinite(end) && end > 0);
        cr_assert(flops > 0 && fmod(flops, 2000.0 * kernels[i]->width) == 0);
        cr_assert(isfinite(kernels[i]->peak(0, &none)) && none == 0);
        cr_assert(kernels[i]->peak(1, &none) != end, "the rounds change nothing");
    }
}
