/* Measures the convolution, letter and narrow-group routines as kernels.c does the others. */
#include <stdio.h>
#include <string.h>

#include "bench/measure.h"

CALL(conv_pool, fm_conv_pool)
CALL(conv_pool_grad, fm_conv_pool_grad)
CALL(letters, fm_letters)
CALL(letters_grad, fm_letters)
CALL(narrow, fm_narrow)
CALL(narrow_weights, fm_narrow)
CALL(narrow_input, fm_narrow)

static uint8_t bytes[FLOATS];

/* One channel, `depth` taps, relu and pool; examples lie behind each other. */
static void measure_conv_pool(const struct bench *bench, int64_t count, int64_t windows, int64_t pool,
                              int64_t depth, int64_t n)
{
    char name[80];
    const int64_t x = windows * pool + depth - 1, y = windows * n;
    struct fm_conv_pool p = {count,    windows,  pool,  depth, n, true, bench->a, bench->b,
                             bench->b, bench->c, bytes, x,     1, y,    y};
    const struct fm_conv_pool_grad g = {
        count, windows, pool, depth, n, bench->a, bench->b, bytes, bench->c, bench->c + FLOATS / 2, x, y, y};
    snprintf(name, sizeof name, "conv k%lld -> %lld pool %lld, batch %lld", (long long)depth, (long long)n,
             (long long)pool, (long long)count);
    const double work = 2.0 * (double)(count * y * depth);
    const size_t end = strlen(name);
    measure(bench, name, work * (double)pool, call_conv_pool, &p);
    p.where = NULL;
    snprintf(name + end, sizeof name - end, ", inference");
    measure(bench, name, work * (double)pool, call_conv_pool, &p);
    if (pool < 2 || pool > 4) return;
    for (int64_t i = 0; i < count * y; i++) bytes[i] = (uint8_t)(i * 7 % 11 % (pool + 1));
    snprintf(name + end, sizeof name - end, ", dW");
    measure(bench, name, work, call_conv_pool_grad, &g);
}

static void measure_letters(const struct bench *bench, int64_t count, int64_t places, int64_t taps, int64_t n)
{
    char name[80];
    const struct fm_letters p = {.count = count,
                                 .out_rows = places,
                                 .in_rows = places,
                                 .taps = taps,
                                 .stride = 1,
                                 .dilation = 1,
                                 .pad = (taps - 1) / 2,
                                 .alphabet = 21,
                                 .n = n,
                                 .x = bytes,
                                 .w = bench->a,
                                 .y = bench->c,
                                 .dw = bench->c + FLOATS / 2,
                                 .xstride = places,
                                 .ystride = places * n};
    for (int64_t i = 0; i < count * places; i++) bytes[i] = (uint8_t)(i * i % 97 % 21);
    snprintf(name, sizeof name, "letters %lld k%lld -> %lld, batch %lld", (long long)places, (long long)taps,
             (long long)n, (long long)count);
    const double adds = (double)(count * places * taps * n);
    measure(bench, name, adds, call_letters, &p);
    snprintf(name + strlen(name), sizeof name - strlen(name), ", dW");
    measure(bench, name, adds, call_letters_grad, &p);
}

static void measure_narrow(const struct bench *bench, int64_t groups, int64_t depth, int64_t width)
{
    enum { TAPS = 5, ROWS = 96 };
    const int64_t filters = groups * width;
    float *c = bench->c;
    const struct fm_narrow p = {.count = 1,
                                .in_rows = ROWS,
                                .out_rows = ROWS,
                                .taps = TAPS,
                                .stride = 1,
                                .dilation = 1,
                                .pad = TAPS / 2,
                                .depth = depth,
                                .width = width,
                                .filters = filters,
                                .x = bench->a,
                                .w = bench->b,
                                .dy = bench->a,
                                .turned = c,
                                .y = c + FLOATS / 4,
                                .dw = c + FLOATS / 2,
                                .dx = c + FLOATS / 2 + FLOATS / 4};
    static const struct {
        const char *name;
        call_fn *call;
    } kinds[] = {{"forward", call_narrow}, {"dW", call_narrow_weights}, {"dX", call_narrow_input}};
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++) {
        char name[80];
        snprintf(name, sizeof name, "narrow %lldx(%lld -> %lld) k%d, %s", (long long)groups, (long long)depth,
                 (long long)width, TAPS, kinds[i].name);
        measure(bench, name, 2.0 * (double)(ROWS * TAPS * depth * filters), kinds[i].call, &p);
    }
}

static void measure_convolve(const struct bench *bench)
{
    measure_conv_pool(bench, 64, 24, 4, 9, 24);
    measure_conv_pool(bench, 1, 24, 4, 9, 24);
    measure_conv_pool(bench, 64, 24, 4, 9, 32);
    measure_conv_pool(bench, 64, 48, 2, 5, 8);
    measure_conv_pool(bench, 64, 12, 8, 9, 24);
    measure_letters(bench, 64, 17, 5, 64);
    measure_letters(bench, 64, 17, 5, 24);
    measure_narrow(bench, 64, 1, 1);
    measure_narrow(bench, 64, 1, 2);
    measure_narrow(bench, 16, 4, 4);
    measure_narrow(bench, 8, 8, 8);
}

int main(int argc, char **argv)
{
    struct bench bench;
    if (!bench_open(&bench, argc > 1 ? argv[1] : NULL)) return 1;
    measure_convolve(&bench);
    bench_close(&bench);
    return 0;
}
