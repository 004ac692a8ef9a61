/* Measures the routines of the CPU engine by shape and instruction set: `make bench-kernels`, or
 * build/tests/bench/kernels [WORD] for the lines that contain WORD. One line per shape: nanoseconds a call
 * and GFLOP/s (GB/s moved where the line says so) of each set, the best of many short rounds that take turns.
 * The first line is what the registers alone allow. Nothing here is asserted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/cpu/kernels.h"

enum { ROUNDS = 15, FLOATS = 1 << 20 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef void call_fn(const struct fm_kernels *kernels, const void *context);

struct bench {
    const struct fm_kernels *kernels[3];
    int count;
    const char *word;
    float *a, *b, *c;
};

/* `work` is what one call does: floating-point operations, or bytes. */
static void measure(const struct bench *bench, const char *name, double work, call_fn *call,
                    const void *context)
{
    if (bench->word && !strstr(name, bench->word)) return;
    double best[3] = {1e9, 1e9, 1e9};
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < bench->count; i++) {
            int64_t calls = 1;
            double t = 0;
            for (;; calls *= 4) { /* long enough for the clock */
                t = seconds();
                for (int64_t n = 0; n < calls; n++) call(bench->kernels[i], context);
                t = seconds() - t;
                if (t > 200e-6) break;
            }
            if (t / (double)calls < best[i]) best[i] = t / (double)calls;
        }
    printf("%-42s", name);
    for (int i = 0; i < bench->count; i++) printf(" %9.0f ns %6.1f", best[i] * 1e9, work / best[i] * 1e-9);
    printf("\n");
    fflush(stdout);
}

/* ---- products ---- */

static void call_peak(const struct fm_kernels *kernels, const void *context)
{
    double flops;
    volatile float keep = kernels->peak(*(const int64_t *)context, &flops);
    (void)keep;
}
static void call_product(const struct fm_kernels *kernels, const void *context)
{
    kernels->product(context);
}
static void call_dots(const struct fm_kernels *kernels, const void *context)
{
    kernels->dots(context);
}

static void measure_product(const struct bench *bench, const char *name, struct fm_product p)
{
    p.a = bench->a;
    p.b = bench->b;
    p.c = bench->c;
    measure(bench, name, 2.0 * (double)(p.groups * p.m * p.n * p.k1 * p.k2), call_product, &p);
}

/* A convolution of `taps` over `rows` rows ("same"; the halo rows are there). */
static void measure_convolution(const struct bench *bench, int64_t batch, int64_t rows, int64_t taps,
                                int64_t channels, int64_t filters)
{
    char name[80];
    const int64_t x = (rows + taps - 1) * channels, y = (rows + taps - 1) * filters;
    snprintf(name, sizeof name, "conv %lldx%lld k%lld -> %lld, batch %lld", (long long)rows,
             (long long)channels, (long long)taps, (long long)filters, (long long)batch);
    measure_product(bench, name,
                    (struct fm_product){.groups = batch,
                                        .m = rows,
                                        .n = filters,
                                        .k1 = 1,
                                        .k2 = taps * channels,
                                        .ag = x,
                                        .am = channels,
                                        .ak2 = 1,
                                        .bk2 = filters,
                                        .cg = y,
                                        .cm = filters});
    const size_t end = strlen(name);
    snprintf(name + end, sizeof name - end, ", dW");
    measure_product(bench, name,
                    (struct fm_product){.groups = 1,
                                        .m = taps * channels,
                                        .n = filters,
                                        .k1 = batch,
                                        .k2 = rows,
                                        .am = 1,
                                        .ak1 = x,
                                        .ak2 = channels,
                                        .bk1 = y,
                                        .bk2 = filters,
                                        .cm = filters});
}

static void measure_dense(const struct bench *bench, int64_t batch, int64_t in, int64_t out)
{
    char name[80];
    snprintf(name, sizeof name, "dense %lld -> %lld, batch %lld", (long long)in, (long long)out,
             (long long)batch);
    const struct fm_dots d = {.groups = 1,
                              .m = batch,
                              .n = out,
                              .k = in,
                              .a = bench->a,
                              .b = bench->b,
                              .c = bench->c,
                              .am = in,
                              .bn = in,
                              .cm = out};
    measure(bench, name, 2.0 * (double)(batch * in * out), call_dots, &d);
    const size_t end = strlen(name);
    snprintf(name + end, sizeof name - end, ", dW");
    measure_product(
        bench, name,
        (struct fm_product){
            .groups = 1, .m = out, .n = in, .k1 = 1, .k2 = batch, .am = 1, .ak2 = out, .bk2 = in, .cm = in});
    snprintf(name + end, sizeof name - end, ", dX");
    measure_product(
        bench, name,
        (struct fm_product){
            .groups = 1, .m = batch, .n = in, .k1 = 1, .k2 = out, .am = out, .ak2 = 1, .bk2 = in, .cm = in});
}

struct matrix {
    int64_t m, n;
    const float *from;
    float *to;
};
static void call_column_sums(const struct fm_kernels *kernels, const void *context)
{
    const struct matrix *x = context;
    kernels->column_sums(1, x->m, x->n, x->from, 0, x->to);
}
static void call_transpose(const struct fm_kernels *kernels, const void *context)
{
    const struct matrix *x = context;
    kernels->transpose(x->m, x->n, x->from, x->n, x->to, x->m);
}

static void measure_matrix(const struct bench *bench, int64_t m, int64_t n)
{
    char name[80];
    const struct matrix x = {m, n, bench->a, bench->c};
    snprintf(name, sizeof name, "column sums %lldx%lld (GB/s)", (long long)m, (long long)n);
    measure(bench, name, 4.0 * (double)(m * n), call_column_sums, &x);
    snprintf(name, sizeof name, "transpose %lldx%lld (GB/s)", (long long)m, (long long)n);
    measure(bench, name, 8.0 * (double)(m * n), call_transpose, &x);
}

static void measure_products(const struct bench *bench)
{
    static const int64_t widths[] = {1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 80, 128};
    for (int i = 0; i < (int)(sizeof widths / sizeof *widths); i++)
        measure_convolution(bench, 1, 96, 12, 8, widths[i]);
    measure_convolution(bench, 64, 17, 5, 64, 64);
    measure_convolution(bench, 1, 17, 5, 64, 64);
    measure_convolution(bench, 16, 96, 9, 1, 8);
    measure_dense(bench, 64, 576, 20);
    measure_dense(bench, 1, 576, 20);
    measure_dense(bench, 64, 20, 2);
    measure_dense(bench, 1, 20, 2);
    measure_dense(bench, 64, 128, 128);
    measure_matrix(bench, 1088, 64);
    measure_matrix(bench, 64, 20);
    measure_matrix(bench, 64, 64);
    measure_matrix(bench, 24, 9);
    measure_matrix(bench, 320, 64);
}

int main(int argc, char **argv)
{
    struct bench bench = {.word = argc > 1 ? argv[1] : NULL,
                          .a = aligned_alloc(64, FLOATS * sizeof(float)),
                          .b = aligned_alloc(64, FLOATS * sizeof(float)),
                          .c = aligned_alloc(64, FLOATS * sizeof(float))};
    if (!bench.a || !bench.b || !bench.c) return 1;
    for (int i = 0; i < FLOATS; i++) {
        bench.a[i] = (float)(i % 13) / 16 - 0.3f;
        bench.b[i] = (float)(i % 17) / 16 - 0.4f;
        bench.c[i] = 0;
    }
    bench.count = fm_kernels_available(bench.kernels);
    printf("%-42s", "");
    for (int i = 0; i < bench.count; i++) printf(" %19s", bench.kernels[i]->name);
    printf("\n");
    const int64_t rounds = 10000;
    double flops;
    for (int i = 0; i < bench.count; i++) { /* the sets do different amounts of work in a round */
        struct bench one = {.kernels = {bench.kernels[i]}, .count = 1, .word = bench.word};
        char name[64];
        bench.kernels[i]->peak(rounds, &flops);
        snprintf(name, sizeof name, "peak of %s", bench.kernels[i]->name);
        measure(&one, name, flops, call_peak, &rounds);
    }
    measure_products(&bench);
    free(bench.a);
    free(bench.b);
    free(bench.c);
    return 0;
}
