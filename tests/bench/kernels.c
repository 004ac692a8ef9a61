/* Measures the routines of the CPU engine by shape and instruction set: `make bench-kernels`, or
 * build/tests/bench/kernels [WORD] for the lines that contain WORD. One line per shape: nanoseconds a call
 * and GFLOP/s (GB/s moved where the line says so) of each set, the best of many short rounds that take turns.
 * The first line is what the registers alone allow. Nothing here is asserted. */
#include <stdio.h>
#include <string.h>

#include "bench/measure.h"

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

/* ---- update and norms ---- */

CALL(sgd, fm_update)
CALL(adam, fm_update)
CALL(rmsprop, fm_update)
CALL(norm_sums, fm_norm_pass)
CALL(norm_squares, fm_norm_pass)
CALL(norm_apply, fm_norm_pass)
CALL(norm_grad_sums, fm_norm_pass)
CALL(norm_grad, fm_norm_pass)
CALL(layer_norm, fm_layer_norm_pass)
CALL(layer_norm_grad, fm_layer_norm_pass)

static void call_square_sum(const struct fm_kernels *kernels, const void *context)
{
    const struct fm_update *u = context;
    volatile float keep = kernels->square_sum(u->n, u->g);
    (void)keep;
}
static void call_magnitudes(const struct fm_kernels *kernels, const void *context)
{
    const struct fm_update *u = context;
    double absolute = 0, square = 0;
    kernels->magnitudes(u->n, u->g, &absolute, &square);
}

/* The 11,822 parameters of the sensor network. */
static void measure_updates(const struct bench *bench)
{
    enum { N = 11822, ROOM = 12288 };
    struct fm_update u = {.n = N,
                          .scale = 1,
                          .limit = __builtin_inff(),
                          .w = bench->c,
                          .g = bench->a,
                          .slot = {bench->c + ROOM, bench->c + 2 * ROOM, bench->c + 3 * ROOM},
                          .rate = 1e-3f,
                          .a = 0.1f,
                          .b = 1e-3f,
                          .epsilon = 1e-7f,
                          .momentum = 0.9f};
    const double bytes = 4.0 * N;
    measure(bench, "square sum (GB/s)", bytes, call_square_sum, &u);
    measure(bench, "magnitudes (GB/s)", bytes, call_magnitudes, &u);
    measure(bench, "sgd (GB/s)", 3 * bytes, call_sgd, &u);
    measure(bench, "adam (GB/s)", 7 * bytes, call_adam, &u);
    u.limit = 1;
    measure(bench, "adam, clipped (GB/s)", 7 * bytes, call_adam, &u);
    u.limit = __builtin_inff();
    u.a = 0.9f;
    u.b = 0.1f;
    memset(bench->c, 0, 4 * ROOM * sizeof(float));
    measure(bench, "rmsprop (GB/s)", 5 * bytes, call_rmsprop, &u);
    u.use_momentum = u.nesterov = true;
    measure(bench, "sgd, nesterov (GB/s)", 5 * bytes, call_sgd, &u);
    memset(bench->c, 0, 4 * ROOM * sizeof(float));
}

static void measure_norm(const struct bench *bench, int64_t count, int64_t rows, int64_t channels)
{
    double a[256] = {0}, b[256] = {0};
    const struct fm_norm_pass p = {.count = count,
                                   .rows = rows,
                                   .channels = channels,
                                   .x = bench->a,
                                   .dy = bench->b,
                                   .y = bench->c,
                                   .dx = bench->c,
                                   .mean = bench->a,
                                   .scale = bench->b,
                                   .beta = bench->b,
                                   .inverse = bench->a,
                                   .ma = bench->a,
                                   .mb = bench->b,
                                   .a = a,
                                   .b = b,
                                   .xstride = rows * channels,
                                   .ystride = rows * channels};
    static const struct {
        const char *name;
        call_fn *call;
        int arrays;
    } kinds[] = {{"sums", call_norm_sums, 1},
                 {"squares", call_norm_squares, 1},
                 {"apply", call_norm_apply, 2},
                 {"grad sums", call_norm_grad_sums, 2},
                 {"grad", call_norm_grad, 3}};
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++) {
        char name[80];
        snprintf(name, sizeof name, "norm %s %lldx%lldx%lld (GB/s)", kinds[i].name, (long long)count,
                 (long long)rows, (long long)channels);
        measure(bench, name, 4.0 * kinds[i].arrays * (double)(count * rows * channels), kinds[i].call, &p);
    }
}

static void measure_layer_norm(const struct bench *bench, int64_t rows, int64_t channels)
{
    float *stats = bench->c + FLOATS / 2;
    for (int64_t i = 0; i < rows; i++) stats[i] = 1;
    const struct fm_layer_norm_pass p = {.count = 1,
                                         .rows = rows,
                                         .channels = channels,
                                         .epsilon = 1e-3f,
                                         .x = bench->a,
                                         .dy = bench->b,
                                         .gamma = bench->b,
                                         .beta = bench->b,
                                         .y = bench->c,
                                         .dx = bench->c,
                                         .mean = stats,
                                         .inverse = stats + rows,
                                         .dgamma = stats + 2 * rows,
                                         .dbeta = stats + 2 * rows + channels};
    char name[80];
    const double bytes = 4.0 * (double)(rows * channels);
    snprintf(name, sizeof name, "layer norm %lldx%lld (GB/s)", (long long)rows, (long long)channels);
    measure(bench, name, 2 * bytes, call_layer_norm, &p);
    snprintf(name, sizeof name, "layer norm grad %lldx%lld (GB/s)", (long long)rows, (long long)channels);
    measure(bench, name, 3 * bytes, call_layer_norm_grad, &p);
}

static void measure_updates_and_norms(const struct bench *bench)
{
    static const int64_t channels[] = {1, 3, 8, 16, 24, 64};
    measure_updates(bench);
    for (int i = 0; i < (int)(sizeof channels / sizeof *channels); i++)
        measure_norm(bench, 64, 96, channels[i]);
    measure_layer_norm(bench, 1088, 64);
    measure_layer_norm(bench, 1088, 20);
    measure_layer_norm(bench, 1088, 4);
    measure_layer_norm(bench, 64, 1000);
}

/* ---- elements: ns and elements a nanosecond ---- */

static void call_activation(const struct fm_kernels *kernels, const void *context)
{
    kernels->activation(context);
}
static void call_activation_grad(const struct fm_kernels *kernels, const void *context)
{
    kernels->activation_grad(context);
}
static void call_head(const struct fm_kernels *kernels, const void *context)
{
    kernels->head(context);
}
static void call_pool(const struct fm_kernels *kernels, const void *context)
{
    kernels->pool(context);
}
static void call_pool_grad(const struct fm_kernels *kernels, const void *context)
{
    kernels->pool_grad(context);
}
static void call_dropout(const struct fm_kernels *kernels, const void *context)
{
    kernels->dropout(context);
}

static void measure_activations(const struct bench *bench)
{
    static const char *const names[] = {"linear",  "relu",         "leaky_relu", "swish", "gelu",
                                        "elu",     "selu",         "softplus",   "tanh",  "sigmoid",
                                        "softmax", "hard_sigmoid", "mish"};
    const int64_t small = 8192, layer = 64 * 1088;
    char name[80];
    struct fm_activation_pass p = {
        .each = {1, small}, .slope = 0.1f, .channels = 64, .x = bench->a, .y = bench->c};
    for (int kind = FM_ACT_RELU; kind <= FM_ACT_MISH; kind++) {
        p.kind = (enum fm_activation)kind;
        snprintf(name, sizeof name, "%s of %lld (elements)", names[kind], (long long)small);
        measure(bench, name, (double)small, call_activation, &p);
    }
    p.kind = FM_ACT_SWISH;
    p.stored = bench->c + FLOATS / 2;
    p.each.n = layer;
    measure(bench, "swish of 64x1088, derivative (elements)", (double)layer, call_activation, &p);
    const struct fm_activation_grad_pass grad = {.each = {1, layer},
                                                 .kind = FM_ACT_SWISH,
                                                 .derivative = FM_FROM_STORED,
                                                 .dy = bench->a,
                                                 .from = bench->b,
                                                 .dx = bench->c};
    measure(bench, "swish of 64x1088, gradient (elements)", (double)layer, call_activation_grad, &grad);
}

static void measure_head(const struct bench *bench, int64_t batch, int64_t outputs)
{
    static double loss[128];
    static uint32_t labels[128];
    const struct fm_head h = {.count = batch,
                              .outputs = outputs,
                              .score_width = 1,
                              .kind = FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
                              .z = bench->a,
                              .labels = labels,
                              .share = bench->b,
                              .loss = loss,
                              .dz = bench->c,
                              .zstride = outputs,
                              .dzstride = outputs};
    char name[80];
    snprintf(name, sizeof name, "head %lld, batch %lld (examples)", (long long)outputs, (long long)batch);
    measure(bench, name, (double)batch, call_head, &h);
}

static void measure_pool(const struct bench *bench, int64_t channels, int64_t size, int64_t stride)
{
    static uint8_t where[8192];
    char name[80];
    struct fm_pool_pass p = {.count = 1,
                             .in_rows = 8192 / channels,
                             .channels = channels,
                             .size = size,
                             .stride = stride,
                             .x = bench->a,
                             .dy = bench->b,
                             .y = bench->c,
                             .dx = bench->c + FLOATS / 2,
                             .where8 = where};
    p.out_rows = (p.in_rows - size) / stride + 1;
    const int end = snprintf(name, sizeof name, "max %lld / %lld of %lldx%lld", (long long)size,
                             (long long)stride, (long long)p.in_rows, (long long)channels);
    snprintf(name + end, sizeof name - (size_t)end, " (elements)");
    measure(bench, name, 8192, call_pool, &p);
    snprintf(name + end, sizeof name - (size_t)end, ", gradient (elements)");
    measure(bench, name, 8192, call_pool_grad, &p);
}

struct permuted {
    struct fm_permutation permutation;
    int64_t count;
    uint64_t *places;
};
static void call_permute(const struct fm_kernels *kernels, const void *context)
{
    const struct permuted *p = context;
    kernels->permute(&p->permutation, 0, p->count, p->places);
}

static void measure_permutation(const struct bench *bench, uint64_t n, int64_t count)
{
    static uint64_t places[75000];
    struct permuted p = {.count = count, .places = places};
    char name[80];
    fm_permutation_init(&p.permutation, n, 77, 1);
    snprintf(name, sizeof name, "%lld places of %llu (places)", (long long)count, (unsigned long long)n);
    measure(bench, name, (double)count, call_permute, &p);
}

static void measure_elements(const struct bench *bench)
{
    const uint64_t key = 1234567;
    measure_activations(bench);
    for (int64_t batch = 1; batch <= 128; batch *= batch == 1 ? 8 : 4) measure_head(bench, batch, 2);
    measure_head(bench, 64, 3);
    measure_head(bench, 64, 20);
    measure_pool(bench, 64, 4, 4);
    measure_pool(bench, 64, 3, 1);
    measure_pool(bench, 1, 4, 4);
    struct fm_dropout_pass p = {
        .each = {1, 8192}, .channels = 64, .rate = 0.3, .keys = &key, .x = bench->a, .y = bench->c};
    measure(bench, "dropout of 8192 (elements)", 8192, call_dropout, &p);
    measure_permutation(bench, 75000, 64);
    measure_permutation(bench, 75000, 75000);
    measure_permutation(bench, 100000000, 4096);
}

int main(int argc, char **argv)
{
    struct bench bench;
    if (!bench_open(&bench, argc > 1 ? argv[1] : NULL)) return 1;
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
    measure_updates_and_norms(&bench);
    measure_elements(&bench);
    bench_close(&bench);
    return 0;
}
