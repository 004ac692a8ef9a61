/* What the programs that measure routines of the CPU engine share: a clock, arrays, a line per shape. */
#ifndef FM_TESTS_BENCH_MEASURE_H
#define FM_TESTS_BENCH_MEASURE_H

#include <stdbool.h>
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

#define CALL(name, type)                                                                                     \
    static void call_##name(const struct fm_kernels *kernels, const void *context)                           \
    {                                                                                                        \
        kernels->name((const struct type *)context);                                                         \
    }

/* Three arrays of numbers and the sets of this processor, named in a first line. False without memory. */
static bool bench_open(struct bench *bench, const char *word)
{
    *bench = (struct bench){.word = word,
                            .a = aligned_alloc(64, FLOATS * sizeof(float)),
                            .b = aligned_alloc(64, FLOATS * sizeof(float)),
                            .c = aligned_alloc(64, FLOATS * sizeof(float))};
    if (!bench->a || !bench->b || !bench->c) return false;
    for (int i = 0; i < FLOATS; i++) {
        bench->a[i] = (float)(i % 13) / 16 - 0.3f;
        bench->b[i] = (float)(i % 17) / 16 - 0.4f;
        bench->c[i] = 0;
    }
    bench->count = fm_kernels_available(bench->kernels);
    printf("%-42s", "");
    for (int i = 0; i < bench->count; i++) printf(" %19s", bench->kernels[i]->name);
    printf("\n");
    return true;
}
static void bench_close(struct bench *bench)
{
    free(bench->a);
    free(bench->b);
    free(bench->c);
}

#endif
