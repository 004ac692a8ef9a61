/* Activations, softmax, pools and dropout on the device against plain loops in double, or against what the
 * engine's own mask says, bit for bit. */
#include "cuda/tensors.h"
#include "engine/dropout.h"
#include "net/program.h"

TestSuite(cuda_elements, .timeout = 60);

static struct on_device device;
static struct draws draws;

static const struct shape shapes[] = {{1, 1, 1, 0},  {3, 1, 7, 0},   {5, 9, 3, 0},
                                      {4, 13, 5, 9}, {2, 31, 33, 0}, {7, 6, 10, 6}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static struct fm_cuda_place begin(const struct shape *s, int seed)
{
    const struct fm_cuda_lane lane = {.control = {.activity = FM_CUDA_TRAINS, .n = s->count}};
    draws = draws_from(seed);
    on_device_open(&device, 0);
    return on_device_lane(&device, &lane, FM_CUDA_TRAINS, s->count);
}

/* ---- activations ---- */

static double softplus(double x)
{
    return (x < 0 ? 0 : x) + log1p(exp(-fabs(x)));
}
static double value(int kind, double slope, double x)
{
    const double scale = 1.0507009873554804934193349852946, alpha = 1.6732632423543772848170429916717;
    switch (kind) {
    case FM_ACT_RELU: return x < 0 ? 0 : x;
    case FM_ACT_LEAKY_RELU: return x > 0 ? x : slope * x;
    case FM_ACT_SWISH: return x / (1 + exp(-x));
    case FM_ACT_GELU: return x * 0.5 * erfc(-x * sqrt(0.5));
    case FM_ACT_ELU: return x > 0 ? x : slope * expm1(x);
    case FM_ACT_SELU: return scale * (x > 0 ? x : alpha * expm1(x));
    case FM_ACT_SOFTPLUS: return softplus(x);
    case FM_ACT_TANH: return tanh(x);
    case FM_ACT_SIGMOID: return 1 / (1 + exp(-x));
    case FM_ACT_HARD_SIGMOID: return (x <= -3 ? 0 : x >= 3 ? 6 : x + 3) / 6;
    case FM_ACT_MISH: return x * tanh(softplus(x));
    default: return x;
    }
}
/* By differences: nothing of the kernels' formulas. No x here is as near to a bend. */
static double slope_at(int kind, double slope, double x)
{
    const double h = 1e-5;
    return (value(kind, slope, x + h) - value(kind, slope, x - h)) / (2 * h);
}
static bool stores(int kind)
{
    return kind == FM_ACT_SWISH || kind == FM_ACT_GELU || kind == FM_ACT_SOFTPLUS ||
           kind == FM_ACT_HARD_SIGMOID || kind == FM_ACT_MISH;
}

struct elements {
    struct fm_cuda_place place;
    const struct shape *s;
    struct fm_cuda_activation activation;
    struct fm_cuda_tensor x, y;
    int accumulate;
};
static cudaError_t call_activate(void *context)
{
    const struct elements *c = context;
    return fm_cuda_activate(c->place, c->s->rows, c->s->channels, c->x, c->activation, c->y);
}
static cudaError_t call_activate_grad(void *context)
{
    const struct elements *c = context;
    return fm_cuda_activate_grad(c->place, c->s->rows, c->s->channels, c->x, c->activation, c->accumulate,
                                 c->y);
}

static void keep_from_bends(float *x, int n)
{
    for (int k = 0; k < n; k++)
        if (fabsf(x[k]) < 1e-3f || fabsf(fabsf(x[k]) - 3) < 1e-3f) x[k] = 0.5f;
}

static void one_activation(const struct shape *s, int kind, int accumulate)
{
    enum { X, Y, STORED, DY, DX, PIECES };
    const struct fm_cuda_place place = begin(s, kind + 1);
    const int n = s->rows * s->channels;
    const float slope = 0.3f;
    struct piece p[PIECES];
    p[X] = tensor_new(&device, &draws, s, 0, 4);
    keep_from_bends(p[X].host, shape_floats(s));
    fm_emulator_poke(p[X].device, p[X].host, p[X].bytes);
    p[Y] = tensor_new(&device, &draws, s, 0, 0);
    p[STORED] = tensor_new(&device, &draws, s, 0, 0);
    p[DY] = tensor_new(&device, &draws, s, 0, 2);
    p[DX] = tensor_new(&device, &draws, s, 1, 1);
    double *want = doubles_new(s->count * n), *derivative = doubles_new(s->count * n);
    for (int i = 0; i < s->count; i++)
        for (int e = 0; e < n; e++) {
            const int at = shape_at(s, i, e);
            const double x = (double)((float *)p[X].host)[at];
            want[i * n + e] = value(kind, (double)slope, x);
            derivative[i * n + e] = slope_at(kind, (double)slope, x);
        }
    struct elements c = {.place = place,
                         .s = s,
                         .activation = {.kind = kind, .slope = slope, .is_stored = stores(kind)},
                         .x = tensor_of(&p[X], s),
                         .y = tensor_of(&p[Y], s),
                         .accumulate = accumulate};
    if (stores(kind)) c.activation.stored = tensor_of(&p[STORED], s);
    run_call(&place, call_activate, &c, p + Y, 2);
    check_tensor(&p[Y], s, want, TS_FLOAT_LAYER, "activation");
    if (stores(kind)) check_tensor(&p[STORED], s, derivative, TS_FLOAT_LAYER, "derivative");

    for (int i = 0; i < s->count; i++)
        for (int e = 0; e < n; e++) {
            const int at = shape_at(s, i, e);
            want[i * n + e] = (double)((float *)p[DY].host)[at] * derivative[i * n + e] +
                              (accumulate ? (double)((float *)p[DX].host)[at] : 0);
        }
    if (!stores(kind)) c.activation.stored = tensor_of(&p[Y], s);
    c.x = tensor_of(&p[DY], s);
    c.y = tensor_of(&p[DX], s);
    run_call(&place, call_activate_grad, &c, p + DX, 1);
    check_tensor(&p[DX], s, want, TS_FLOAT_LAYER, "activation gradient");
    pieces_free(p, PIECES);
    free(want), free(derivative);
    on_device_close(&device);
}

Test(cuda_elements, activations)
{
    for (int kind = FM_ACT_LINEAR; kind <= FM_ACT_MISH; kind++)
        if (kind != FM_ACT_SOFTMAX) one_activation(&shapes[kind % SHAPES], kind, kind % 2);
    one_activation(&shapes[3], FM_ACT_RELU, 0);
    one_activation(&shapes[3], FM_ACT_GELU, 1);
}

/* NaN stays NaN; relu of 0 has no slope; in place. */
Test(cuda_elements, activations_of_special_numbers)
{
    const struct shape s = {1, 1, 4, 0};
    const struct fm_cuda_place place = begin(&s, 1);
    const float x[4] = {NAN, 0.0f, -INFINITY, INFINITY}, ones[4] = {1, 1, 1, 1};
    for (int kind = FM_ACT_RELU; kind <= FM_ACT_MISH; kind++) {
        if (kind == FM_ACT_SOFTMAX) continue;
        struct piece p = piece_new(&device, x, sizeof x);
        struct elements c = {place, &s, {.kind = kind}, tensor_of(&p, &s), tensor_of(&p, &s), 0};
        run_call(&place, call_activate, &c, &p, 1);
        const float *y = p.host;
        cr_assert(isnan(y[0]), "kind %d", kind);
        cr_assert(ts_compare_one(TS_FLOAT, (double)y[1], value(kind, 0, 0)).ok, "kind %d", kind);
        cr_assert(kind == FM_ACT_TANH || kind == FM_ACT_SIGMOID || kind == FM_ACT_HARD_SIGMOID
                      ? y[3] == 1
                      : y[3] == INFINITY,
                  "kind %d", kind);
        pieces_free(&p, 1);
    }
    struct piece y = piece_new(&device, x, sizeof x), d = piece_new(&device, ones, sizeof ones);
    struct elements c = {
        place, &s, {.kind = FM_ACT_RELU, .stored = tensor_of(&y, &s)}, tensor_of(&d, &s), tensor_of(&d, &s),
        0};
    run_call(&place, call_activate_grad, &c, &d, 1);
    const float *got = d.host;
    cr_assert(got[0] == 0 && got[1] == 0 && got[2] == 0 && got[3] == 1);
    pieces_free(&y, 1), pieces_free(&d, 1);
    on_device_close(&device);
}

/* ---- softmax ---- */

static cudaError_t call_softmax(void *context)
{
    const struct elements *c = context;
    return fm_cuda_softmax(c->place, c->s->rows, c->s->channels, c->x, c->y);
}
static cudaError_t call_softmax_grad(void *context)
{
    const struct elements *c = context;
    return fm_cuda_softmax_grad(c->place, c->s->rows, c->s->channels, c->x, c->activation.stored,
                                c->accumulate, c->y);
}

static void one_softmax(const struct shape *s, int accumulate)
{
    enum { X, Y, DY, DX, PIECES };
    const struct fm_cuda_place place = begin(s, s->channels);
    const int n = s->rows * s->channels, channels = s->channels;
    struct piece p[PIECES];
    p[X] = tensor_new(&device, &draws, s, 90, 9);
    p[Y] = tensor_new(&device, &draws, s, 0, 0);
    p[DY] = tensor_new(&device, &draws, s, 0, 2);
    p[DX] = tensor_new(&device, &draws, s, 1, 1);
    double *y = doubles_new(s->count * n), *dx = doubles_new(s->count * n);
    const float *x = p[X].host, *dy = p[DY].host, *old = p[DX].host;
    for (int i = 0; i < s->count; i++)
        for (int r = 0; r < n; r += channels) {
            double sum = 0, dot = 0;
            double *row = y + i * n + r;
            for (int c = 0; c < channels; c++) sum += row[c] = exp((double)x[shape_at(s, i, r + c)] - 90);
            for (int c = 0; c < channels; c++) {
                row[c] /= sum;
                dot += row[c] * (double)dy[shape_at(s, i, r + c)];
            }
            for (int c = 0; c < channels; c++)
                dx[i * n + r + c] = row[c] * ((double)dy[shape_at(s, i, r + c)] - dot) +
                                    (accumulate ? (double)old[shape_at(s, i, r + c)] : 0);
        }
    struct elements c = {
        .place = place, .s = s, .x = tensor_of(&p[X], s), .y = tensor_of(&p[Y], s), .accumulate = accumulate};
    run_call(&place, call_softmax, &c, p + Y, 1);
    check_tensor(&p[Y], s, y, TS_FLOAT_LAYER, "softmax");
    c.activation.stored = tensor_of(&p[Y], s);
    c.x = tensor_of(&p[DY], s);
    c.y = tensor_of(&p[DX], s);
    run_call(&place, call_softmax_grad, &c, p + DX, 1);
    check_tensor(&p[DX], s, dx, TS_FLOAT_LAYER, "softmax gradient");
    pieces_free(p, PIECES);
    free(y), free(dx);
    on_device_close(&device);
}

Test(cuda_elements, softmax)
{
    for (int k = 0; k < SHAPES; k++) one_softmax(&shapes[k], k % 2);
}

/* A NaN anywhere makes the whole row NaN and no other. */
Test(cuda_elements, softmax_of_nan)
{
    const struct shape s = {1, 3, 3, 0};
    const struct fm_cuda_place place = begin(&s, 1);
    const float x[9] = {NAN, 1, 2, 1, 2, 3, 1, 2, NAN};
    struct piece in = piece_new(&device, x, sizeof x), out = piece_new(&device, NULL, sizeof x);
    struct elements c = {.place = place, .s = &s, .x = tensor_of(&in, &s), .y = tensor_of(&out, &s)};
    run_call(&place, call_softmax, &c, &out, 1);
    const float *y = out.host;
    for (int k = 0; k < 9; k++) cr_assert_eq(isnan(y[k]) != 0, k < 3 || k > 5, "element %d", k);
    pieces_free(&in, 1), pieces_free(&out, 1);
    on_device_close(&device);
}

/* ---- pools ---- */

struct pooling {
    struct fm_cuda_place place;
    struct fm_cuda_pool pool;
    struct fm_cuda_tensor x, y;
    struct fm_cuda_winner winner;
    struct fm_cuda_activation activation;
    int accumulate;
};
static cudaError_t call_pooling(void *context)
{
    const struct pooling *c = context;
    return fm_cuda_pooling(c->place, c->pool, c->x, c->y, c->winner);
}
static cudaError_t call_pooling_grad(void *context)
{
    const struct pooling *c = context;
    return fm_cuda_pooling_grad(c->place, c->pool, c->y, c->winner, c->activation, c->accumulate, c->x);
}

/* y, each output's winner (a row of x), and the gradient before the activation, of one example. */
static void plain_pool(const struct fm_cuda_pool *pool, const float *x, double *y, int *winner)
{
    for (int o = 0; o < pool->out_rows; o++)
        for (int c = 0; c < pool->channels; c++) {
            double sum = 0, count = 0, best = 0;
            int where = -1;
            for (int k = 0; k < pool->size; k++) {
                const int r = o * pool->stride - pool->pad + k;
                if (r < 0 || r >= pool->in_rows) continue;
                const double v = (double)x[r * pool->channels + c];
                sum += v;
                count++;
                if (where < 0 || v > best || (isnan(v) && !isnan(best))) best = v, where = r;
            }
            y[o * pool->channels + c] = pool->average ? sum / count : best;
            winner[o * pool->channels + c] = where;
        }
}
static void plain_pool_grad(const struct fm_cuda_pool *pool, const float *dy, const int *winner, double *dx)
{
    for (int o = 0; o < pool->out_rows; o++)
        for (int c = 0; c < pool->channels; c++) {
            const double d = (double)dy[o * pool->channels + c];
            const int start = o * pool->stride - pool->pad;
            const int first = start > 0 ? start : 0,
                      end = start + pool->size < pool->in_rows ? start + pool->size : pool->in_rows;
            if (!pool->average) dx[winner[o * pool->channels + c] * pool->channels + c] += d;
            for (int r = first; pool->average && r < end; r++)
                dx[r * pool->channels + c] += d / (double)(end - first);
        }
}

enum { POOL_X, POOL_DERIVATIVE, POOL_DX, POOL_DY, POOL_Y, POOL_WINNER, POOL_PIECES };

static void check_winners(const struct fm_cuda_pool *pool, const struct piece *p, int wide, int count,
                          const int *winner)
{
    const int n = pool->out_rows * pool->channels;
    for (int k = 0; k < count * n; k++) {
        const int got = wide ? ((const int32_t *)p->host)[k] : ((const uint8_t *)p->host)[k];
        cr_assert_eq(got + k % n / pool->channels * pool->stride - pool->pad, winner[k], "winner %d", k);
    }
}

/* Small whole numbers, so that there are ties; `special`: NaN in some places. Backward with stored
 * derivatives, unless average pools stand behind nothing. */
static void one_pool(const struct fm_cuda_pool *pool, int count, int apart, int accumulate, bool special)
{
    const struct shape in = {count, pool->in_rows, pool->channels, apart};
    const struct shape out = {count, pool->out_rows, pool->channels, apart};
    const int n = in.rows * in.channels, m = out.rows * out.channels, wide = pool->size > 256;
    const struct fm_cuda_place place = begin(&in, pool->size);
    struct piece p[POOL_PIECES];
    p[POOL_X] = tensor_new(&device, &draws, &in, 0, 2);
    float *x = p[POOL_X].host;
    for (int k = 0; k < shape_floats(&in); k++) x[k] = special && k % 11 == 3 ? NAN : rintf(x[k]);
    fm_emulator_poke(p[POOL_X].device, x, p[POOL_X].bytes);
    p[POOL_DERIVATIVE] = tensor_new(&device, &draws, &in, 1, 1);
    p[POOL_DX] = tensor_new(&device, &draws, &in, 1, 1);
    p[POOL_DY] = tensor_new(&device, &draws, &out, 0, 1);
    p[POOL_Y] = tensor_new(&device, &draws, &out, 0, 0);
    p[POOL_WINNER] = piece_new(&device, NULL, (size_t)(count * m) * (wide ? sizeof(int32_t) : 1));
    double *y = doubles_new(count * m), *dx = doubles_new(count * n);
    int *winner = calloc((size_t)(count * m), sizeof *winner);
    cr_assert_not_null(winner);
    for (int i = 0; i < count; i++) {
        plain_pool(pool, x + shape_at(&in, i, 0), y + i * m, winner + i * m);
        plain_pool_grad(pool, (float *)p[POOL_DY].host + shape_at(&out, i, 0), winner + i * m, dx + i * n);
        for (int e = 0; e < n; e++) {
            const int at = shape_at(&in, i, e);
            dx[i * n + e] = dx[i * n + e] * (double)((float *)p[POOL_DERIVATIVE].host)[at] +
                            (accumulate ? (double)((float *)p[POOL_DX].host)[at] : 0);
        }
    }
    struct pooling c = {
        .place = place,
        .pool = *pool,
        .x = tensor_of(&p[POOL_X], &in),
        .y = tensor_of(&p[POOL_Y], &out),
        .activation = {.kind = FM_ACT_SWISH, .stored = tensor_of(&p[POOL_DERIVATIVE], &in), .is_stored = 1},
        .accumulate = accumulate};
    if (!pool->average) c.winner = (struct fm_cuda_winner){p[POOL_WINNER].device, m, wide};
    run_call(&place, call_pooling, &c, p + POOL_Y, pool->average ? 1 : 2);
    check_tensor(&p[POOL_Y], &out, y, pool->average ? TS_FLOAT : TS_EXACT, "pool");
    if (!pool->average) check_winners(pool, &p[POOL_WINNER], wide, count, winner);
    c.x = tensor_of(&p[POOL_DX], &in);
    c.y = tensor_of(&p[POOL_DY], &out);
    run_call(&place, call_pooling_grad, &c, p + POOL_DX, 1);
    check_tensor(&p[POOL_DX], &in, dx, TS_FLOAT_LAYER, "pool gradient");
    pieces_free(p, POOL_PIECES);
    free(y), free(dx), free(winner);
    on_device_close(&device);
}

static int pool_rows(int in, int size, int stride, int pad, int pad_after)
{
    return (in + pad + pad_after - size) / stride + 1;
}

Test(cuda_elements, pools)
{
    const struct {
        int in, channels, size, stride, pad, after;
    } cases[] = {{16, 3, 4, 4, 0, 0}, {17, 5, 3, 2, 1, 1},    {9, 33, 2, 1, 0, 1},
                 {7, 2, 7, 7, 0, 0},  {23, 4, 2, 5, 0, 0},    {11, 1, 5, 1, 2, 2},
                 {1, 6, 1, 1, 0, 0},  {300, 2, 290, 4, 0, 0}, {300, 2, 257, 7, 3, 2}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int average = 0; average < 2; average++) {
            const struct fm_cuda_pool pool = {
                .in_rows = cases[k].in,
                .out_rows =
                    pool_rows(cases[k].in, cases[k].size, cases[k].stride, cases[k].pad, cases[k].after),
                .channels = cases[k].channels,
                .size = cases[k].size,
                .stride = cases[k].stride,
                .pad = cases[k].pad,
                .average = average};
            one_pool(&pool, 3, k % 2 ? 7 : 0, (int)k % 3 == 0, !average && k % 2 == 0);
        }
}

/* A fused convolution keeps only what the pool let through: the derivative comes from there, and is that of
 * the element that won. */
Test(cuda_elements, pool_gradient_from_its_output)
{
    const struct fm_cuda_pool pool = {12, 3, 5, 4, 4, 0, 0};
    const struct shape in = {3, 12, 5, 0}, out = {3, 3, 5, 2};
    const int m = out.rows * out.channels, n = in.rows * in.channels;
    const struct fm_cuda_place place = begin(&in, 3);
    struct piece y = tensor_new(&device, &draws, &out, 0, 1), dy = tensor_new(&device, &draws, &out, 0, 1),
                 dx = tensor_new(&device, &draws, &in, 0, 0), winner = piece_new(&device, NULL, 45);
    uint8_t *offset = winner.host;
    double *want = doubles_new(3 * n);
    for (int i = 0; i < 3; i++)
        for (int e = 0; e < m; e++) {
            const int at = shape_at(&out, i, e), o = e / 5, c = e % 5;
            offset[i * m + e] = (uint8_t)draw(&draws, 0, 3);
            if (((float *)y.host)[at] > 0)
                want[i * n + (o * 4 + offset[i * m + e]) * 5 + c] = (double)((float *)dy.host)[at];
        }
    fm_emulator_poke(winner.device, winner.host, winner.bytes);
    struct pooling c = {.place = place,
                        .pool = pool,
                        .x = tensor_of(&dx, &in),
                        .y = tensor_of(&dy, &out),
                        .winner = {winner.device, m, 0},
                        .activation = {.kind = FM_ACT_RELU, .stored = tensor_of(&y, &out), .is_pooled = 1}};
    run_call(&place, call_pooling_grad, &c, &dx, 1);
    check_tensor(&dx, &in, want, TS_EXACT, "pool gradient from its output");
    pieces_free(&y, 1), pieces_free(&dy, 1), pieces_free(&dx, 1), pieces_free(&winner, 1);
    free(want);
    on_device_close(&device);
}

/* ---- dropout ---- */

struct dropping {
    struct fm_cuda_place place;
    const struct shape *s;
    int id, spatial, accumulate;
    struct fm_cuda_tensor x, y;
};
static cudaError_t call_dropout(void *context)
{
    const struct dropping *c = context;
    return fm_cuda_dropout(c->place, c->s->rows, c->s->channels, 1, c->id, c->spatial, c->x, c->accumulate,
                           c->y);
}

static void one_dropout(const struct shape *s, double rate, int64_t step, int spatial, int accumulate)
{
    const double rates[2] = {0.5, rate};
    const uint64_t key = 0x0123456789abcdefu ^ (uint64_t)step;
    const int n = s->rows * s->channels, draws_each = spatial ? s->channels : n, id = 3;
    draws = draws_from(5);
    on_device_open(&device, 0);
    struct fm_cuda_lane lane = {.dropout_key = key, .control = {.activity = FM_CUDA_TRAINS, .n = s->count}};
    lane.control.step = step;
    lane.hyper.rates = on_device_put(&device, rates, sizeof rates);
    const struct fm_cuda_place place = on_device_lane(&device, &lane, FM_CUDA_TRAINS, s->count);
    struct piece x = tensor_new(&device, &draws, s, 0, 1), y = tensor_new(&device, &draws, s, 0, 1);
    double *want = doubles_new(s->count * n);
    unsigned char *keep = malloc((size_t)draws_each);
    cr_assert_not_null(keep);
    for (int i = 0; i < s->count; i++) {
        fm_dropout_keep(fm_dropout_key(key, step, id, i), rate, draws_each, keep);
        for (int e = 0; e < n; e++) {
            const int at = shape_at(s, i, e);
            const float v =
                keep[spatial ? e % s->channels : e] ? ((float *)x.host)[at] / (float)(1 - rate) : 0;
            want[i * n + e] = (double)(accumulate ? ((float *)y.host)[at] + v : v);
        }
    }
    struct dropping c = {place, s, id, spatial, accumulate, tensor_of(&x, s), tensor_of(&y, s)};
    run_call(&place, call_dropout, &c, &y, 1);
    check_tensor(&y, s, want, TS_EXACT, "dropout");
    pieces_free(&x, 1), pieces_free(&y, 1);
    free(want), free(keep);
    on_device_close(&device);
}

Test(cuda_elements, dropout_masks_are_the_engines)
{
    const double rates[] = {0.1, 0.2, 0.7, 0.999, 0.3, 1.0 / 3};
    for (int k = 0; k < SHAPES; k++)
        for (int spatial = 0; spatial < 2; spatial++)
            one_dropout(&shapes[k], rates[k], k == 2 ? ((int64_t)5 << 32) + 7 : 1000 * k, spatial, k % 2);
}

/* Rates that are no floats decide in double, as everywhere: the number drawn for element 0 is the rate
 * itself, or the next float or double beside it. */
Test(cuda_elements, dropout_compares_in_double)
{
    const struct shape s = {1, 1, 4, 0};
    unsigned char keep[4];
    const uint64_t mask = fm_dropout_key(0x0123456789abcdefu, 0, 3, 0);
    double low = 0, high = 1;
    for (int k = 0; k < 60; k++) { /* the largest rate that keeps element 0 */
        const double middle = low + (high - low) / 2;
        fm_dropout_keep(mask, middle, 1, keep);
        *(keep[0] ? &low : &high) = middle;
    }
    one_dropout(&s, low, 0, 0, 0);
    one_dropout(&s, nextafter(low, 1), 0, 0, 0);
    one_dropout(&s, nextafter(low, 0), 0, 0, 0);
}
