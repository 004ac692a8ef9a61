/* Batch and layer normalisation on the device against plain loops in double: batches that are not full, many
 * rows and few, examples that lie apart, numbers far from zero. */
#include "cuda/tensors.h"

TestSuite(cuda_norms, .timeout = 60);

static struct on_device device;
static struct draws draws;

/* One chunk; two chunks of two stretches of channels; ten chunks. */
static const struct shape shapes[] = {{1, 1, 1, 0},     {3, 7, 5, 0},     {5, 1, 70, 3}, {6, 4, 33, 5},
                                      {40, 31, 33, 11}, {25, 160, 40, 0}, {9, 811, 3, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* As many valid rows as examples, or fewer. */
static struct fm_cuda_place begin(const struct shape *s, int n, int seed, int bad)
{
    const struct fm_cuda_lane lane = {.control = {.activity = FM_CUDA_TRAINS, .n = n, .bad = bad}};
    draws = draws_from(seed);
    on_device_open(&device, 0);
    return on_device_lane(&device, &lane, FM_CUDA_TRAINS, s->count);
}

enum { X, DY, GAMMA, BETA, Y, MEAN, VARIANCE, DX, DGAMMA, DBETA, SCRATCH, PIECES };

struct norm {
    struct fm_cuda_place place;
    const struct shape *s;
    struct piece p[PIECES];
    float *gamma, *beta;
    double epsilon;
    int accumulate, n;
};

static float host_at(const struct norm *c, int piece, int i, int e)
{
    return ((const float *)c->p[piece].host)[shape_at(c->s, i, e)];
}
static double number_at(const struct norm *c, int piece, int k)
{
    return (double)((const float *)c->p[piece].host)[k];
}
/* 1 or 0 where there is none. */
static double gamma_at(const struct norm *c, int channel)
{
    return c->gamma ? number_at(c, GAMMA, channel) : 1;
}
static double beta_at(const struct norm *c, int channel)
{
    return c->beta ? number_at(c, BETA, channel) : 0;
}

static void norm_open(struct norm *c, const struct shape *s, int n, float middle, float spread, bool scaled)
{
    const int channels = s->channels;
    const int64_t floats[2] = {fm_cuda_batch_norm_scratch(s->count, s->rows, channels),
                               fm_cuda_layer_norm_scratch(s->count, s->rows, channels)};
    *c = (struct norm){.place = begin(s, n, channels + s->rows, 0), .s = s, .epsilon = 1e-3, .n = n};
    c->p[X] = tensor_new(&device, &draws, s, middle, spread);
    c->p[DY] = tensor_new(&device, &draws, s, 0.5f, 1);
    c->p[GAMMA] = numbers_new(&device, &draws, channels, 1, 0.5f);
    c->p[BETA] = numbers_new(&device, &draws, channels, 0, 1);
    c->p[Y] = tensor_new(&device, &draws, s, 0, 0);
    c->p[DX] = tensor_new(&device, &draws, s, 1, 1);
    c->p[DGAMMA] = numbers_new(&device, &draws, channels, 0, 0);
    c->p[DBETA] = numbers_new(&device, &draws, channels, 0, 0);
    c->p[SCRATCH] =
        piece_new(&device, NULL, (size_t)(floats[0] > floats[1] ? floats[0] : floats[1]) * sizeof(float));
    c->gamma = scaled ? c->p[GAMMA].device : NULL;
    c->beta = scaled ? c->p[BETA].device : NULL;
}
static void norm_close(struct norm *c)
{
    pieces_free(c->p, PIECES);
    on_device_close(&device);
}

/* ---- batch normalisation ---- */

static cudaError_t call_batch_norm(void *context)
{
    const struct norm *c = context;
    return fm_cuda_batch_norm(c->place, c->s->rows, c->s->channels, tensor_of(&c->p[X], c->s), c->gamma,
                              c->beta, c->epsilon, c->p[MEAN].device, c->p[VARIANCE].device,
                              tensor_of(&c->p[Y], c->s), c->p[SCRATCH].device);
}
static cudaError_t call_batch_norm_grad(void *context)
{
    const struct norm *c = context;
    return fm_cuda_batch_norm_grad(
        c->place, c->s->rows, c->s->channels, tensor_of(&c->p[X], c->s), tensor_of(&c->p[DY], c->s), c->gamma,
        c->p[MEAN].device, c->p[VARIANCE].device, c->epsilon, c->accumulate, tensor_of(&c->p[DX], c->s),
        c->gamma ? c->p[DGAMMA].device : NULL, c->beta ? c->p[DBETA].device : NULL, c->p[SCRATCH].device);
}
static cudaError_t call_infer(void *context)
{
    const struct norm *c = context;
    return fm_cuda_batch_norm_infer(c->place, c->s->rows, c->s->channels, tensor_of(&c->p[X], c->s), c->gamma,
                                    c->beta, c->p[MEAN].device, c->p[VARIANCE].device, c->epsilon,
                                    tensor_of(&c->p[Y], c->s));
}

/* The sum over the valid rows of a channel of what `term` makes of one element. */
static double over_rows(const struct norm *c, int channel, double (*term)(const struct norm *, int, int),
                        double *size)
{
    double sum = 0;
    *size = 0;
    for (int i = 0; i < c->n; i++)
        for (int e = channel; e < c->s->rows * c->s->channels; e += c->s->channels) {
            sum += term(c, i, e);
            *size += fabs(term(c, i, e));
        }
    return sum;
}
static double term_x(const struct norm *c, int i, int e)
{
    return (double)host_at(c, X, i, e);
}
static double term_dy(const struct norm *c, int i, int e)
{
    return (double)host_at(c, DY, i, e);
}
static double xhat(const struct norm *c, int i, int e)
{
    const int channel = e % c->s->channels;
    return ((double)host_at(c, X, i, e) - number_at(c, MEAN, channel)) /
           sqrt(number_at(c, VARIANCE, channel) + c->epsilon);
}
static double term_dot(const struct norm *c, int i, int e)
{
    return term_dy(c, i, e) * xhat(c, i, e);
}

static void batch_norm_forward(struct norm *c, double *mean, double *variance, double *y)
{
    const int channels = c->s->channels, n = c->s->rows * channels;
    const double rows = (double)(c->n * c->s->rows);
    double size;
    for (int k = 0; k < channels; k++) {
        mean[k] = over_rows(c, k, term_x, &size) / rows;
        for (int i = 0; i < c->n; i++)
            for (int e = k; e < n; e += channels)
                variance[k] += pow((double)host_at(c, X, i, e) - mean[k], 2) / rows;
        for (int i = 0; i < c->s->count; i++)
            for (int e = k; e < n; e += channels)
                y[i * n + e] = ((double)host_at(c, X, i, e) - mean[k]) / sqrt(variance[k] + c->epsilon) *
                                   gamma_at(c, k) +
                               beta_at(c, k);
    }
}

static void batch_norm_backward(struct norm *c, double *dgamma, double *dbeta, double *dx)
{
    const int channels = c->s->channels, n = c->s->rows * channels;
    const double rows = (double)(c->n * c->s->rows);
    double size;
    for (int k = 0; k < channels; k++) {
        dbeta[k] = over_rows(c, k, term_dy, &size);
        dgamma[k] = over_rows(c, k, term_dot, &size);
        for (int i = 0; i < c->s->count; i++)
            for (int e = k; e < n; e += channels) {
                const double d = (term_dy(c, i, e) - dbeta[k] / rows - xhat(c, i, e) * dgamma[k] / rows) *
                                 gamma_at(c, k) / sqrt(number_at(c, VARIANCE, k) + c->epsilon);
                dx[i * n + e] = (i < c->n ? d : 0) + (c->accumulate ? (double)host_at(c, DX, i, e) : 0);
            }
    }
}

static void one_batch_norm(const struct shape *s, int n, float middle, float spread, bool scaled,
                           int accumulate)
{
    struct norm c;
    const int channels = s->channels, all = s->count * s->rows * channels;
    norm_open(&c, s, n, middle, spread, scaled);
    c.accumulate = accumulate;
    c.p[MEAN] = numbers_new(&device, &draws, channels, 0, 0);
    c.p[VARIANCE] = numbers_new(&device, &draws, channels, 0, 0);
    double *mean = doubles_new(channels), *variance = doubles_new(channels), *y = doubles_new(all);
    batch_norm_forward(&c, mean, variance, y);
    run_call(&c.place, call_batch_norm, &c, c.p + Y, 3);
    check_numbers(&c.p[MEAN], mean, TS_FLOAT, "mean");
    check_numbers(&c.p[VARIANCE], variance, TS_FLOAT_LAYER, "variance");
    check_tensor(&c.p[Y], s, y, TS_FLOAT_LAYER, "batch norm");

    /* Backward takes mean and variance as they are: any others will do, and sums that do not cancel. */
    for (int k = 0; k < channels; k++) {
        ((float *)c.p[MEAN].host)[k] = middle - spread * 2;
        ((float *)c.p[VARIANCE].host)[k] = spread * spread * (float)(k % 5 + 1);
    }
    fm_emulator_poke(c.p[MEAN].device, c.p[MEAN].host, c.p[MEAN].bytes);
    fm_emulator_poke(c.p[VARIANCE].device, c.p[VARIANCE].host, c.p[VARIANCE].bytes);
    memset(y, 0, (size_t)all * sizeof *y);
    double *dgamma = mean, *dbeta = variance, *dx = y;
    batch_norm_backward(&c, dgamma, dbeta, dx);
    run_call(&c.place, call_batch_norm_grad, &c, c.p + DX, 3);
    check_tensor(&c.p[DX], s, dx, TS_FLOAT_LAYER, "batch norm gradient");
    if (scaled) check_numbers(&c.p[DGAMMA], dgamma, TS_FLOAT_LAYER, "dgamma");
    if (scaled) check_numbers(&c.p[DBETA], dbeta, TS_FLOAT_LAYER, "dbeta");
    free(mean), free(variance), free(y);
    norm_close(&c);
}

Test(cuda_norms, batch_norm)
{
    for (int k = 0; k < SHAPES; k++) {
        const struct shape *s = &shapes[k];
        one_batch_norm(s, s->count, 0.3f, 1, k % 2, k % 3 == 0);
        one_batch_norm(s, (s->count + 2) / 3, -0.2f, 2, k % 2 == 0, k % 3 == 1);
    }
}

/* A spread of 1 at ten thousand is lost in squares taken without a shift. */
Test(cuda_norms, batch_norm_far_from_zero)
{
    one_batch_norm(&shapes[1], 2, 10000, 1, true, 0);
    one_batch_norm(&shapes[4], 33, -10000, 1, true, 0);
}

/* Rows that do not count may hold anything. */
Test(cuda_norms, batch_norm_of_rows_that_do_not_count)
{
    const struct shape *s = &shapes[3];
    struct norm c;
    norm_open(&c, s, 4, 0, 1, false);
    c.p[MEAN] = numbers_new(&device, &draws, s->channels, 0, 0);
    c.p[VARIANCE] = numbers_new(&device, &draws, s->channels, 0, 0);
    for (int i = 4; i < 6; i++)
        for (int e = 0; e < s->rows * s->channels; e++)
            ((float *)c.p[X].host)[shape_at(s, i, e)] = ((float *)c.p[DY].host)[shape_at(s, i, e)] = NAN;
    fm_emulator_poke(c.p[X].device, c.p[X].host, c.p[X].bytes);
    fm_emulator_poke(c.p[DY].device, c.p[DY].host, c.p[DY].bytes);
    run_call(&c.place, call_batch_norm, &c, c.p + Y, 3);
    run_call(&c.place, call_batch_norm_grad, &c, c.p + DX, 1);
    for (int k = 0; k < s->channels; k++) cr_assert(isfinite(number_at(&c, VARIANCE, k)));
    for (int i = 0; i < 6; i++)
        for (int e = 0; e < s->rows * s->channels; e++) {
            const float d = host_at(&c, DX, i, e);
            cr_assert(i < 4 ? isfinite(d) && d != 0 : d == 0, "example %d", i);
        }
    norm_close(&c);
}

/* Equal numbers have no spread, wherever they are. */
Test(cuda_norms, equal_numbers)
{
    for (int k = 0; k < SHAPES; k++) {
        const struct shape *s = &shapes[k];
        struct norm c;
        norm_open(&c, s, s->count, 12345.678f, 0, true);
        c.epsilon = 1e-7;
        c.p[MEAN] = piece_new(&device, NULL, (size_t)(s->count * s->rows + s->channels) * sizeof(float));
        c.p[VARIANCE] = piece_new(&device, NULL, (size_t)s->channels * sizeof(float));
        double *y = doubles_new(s->count * s->rows * s->channels);
        for (int i = 0; i < s->count; i++)
            for (int e = 0; e < s->rows * s->channels; e++) {
                ((float *)c.p[X].host)[shape_at(s, i, e)] = 12345.678f;
                y[i * s->rows * s->channels + e] = beta_at(&c, e % s->channels);
            }
        fm_emulator_poke(c.p[X].device, c.p[X].host, c.p[X].bytes);
        run_call(&c.place, call_batch_norm, &c, c.p + Y, 3);
        check_tensor(&c.p[Y], s, y, TS_EXACT, "batch norm of equal numbers");
        for (int channel = 0; channel < s->channels; channel++)
            cr_assert(number_at(&c, VARIANCE, channel) == 0);
        free(y);
        norm_close(&c);
    }
}

Test(cuda_norms, batch_norm_in_inference)
{
    for (int k = 0; k < SHAPES; k++) {
        const struct shape *s = &shapes[k];
        const int n = s->rows * s->channels;
        struct norm c;
        norm_open(&c, s, s->count, 1, 2, k % 2);
        c.p[MEAN] = numbers_new(&device, &draws, s->channels, 0, 1);
        c.p[VARIANCE] = numbers_new(&device, &draws, s->channels, 2, 1);
        double *y = doubles_new(s->count * n);
        for (int i = 0; i < s->count; i++)
            for (int e = 0; e < n; e++)
                y[i * n + e] = xhat(&c, i, e) * gamma_at(&c, e % s->channels) + beta_at(&c, e % s->channels);
        run_call(&c.place, call_infer, &c, c.p + Y, 1);
        check_tensor(&c.p[Y], s, y, TS_FLOAT_LAYER, "batch norm in inference");
        free(y);
        norm_close(&c);
    }
}

static cudaError_t call_moving(void *context)
{
    const struct norm *c = context;
    return fm_cuda_batch_norm_moving(c->place, c->s->rows, c->s->channels, c->p[MEAN].device,
                                     c->p[VARIANCE].device, 0.99, c->p[DGAMMA].device, c->p[DBETA].device);
}

Test(cuda_norms, moving_statistics)
{
    const struct shape s = {4, 3, 130, 0};
    for (int bad = 0; bad < 2; bad++) {
        struct norm c = {.place = begin(&s, 4, 1, bad), .s = &s};
        double *want = doubles_new(2 * s.channels);
        for (int k = MEAN; k <= DBETA; k++)
            if (k != DX) c.p[k] = numbers_new(&device, &draws, s.channels, 0, 1);
        for (int k = 0; k < 2 * s.channels; k++) {
            const int which = k >= s.channels, channel = k % s.channels;
            const double old = number_at(&c, DGAMMA + which, channel);
            want[k] = bad ? old : 0.99 * old + 0.01 * number_at(&c, MEAN + which, channel);
        }
        run_call(&c.place, call_moving, &c, c.p + DGAMMA, 2);
        check_numbers(&c.p[DGAMMA], want, bad ? TS_EXACT : TS_FLOAT, "moving mean");
        check_numbers(&c.p[DBETA], want + s.channels, bad ? TS_EXACT : TS_FLOAT, "moving variance");
        pieces_free(c.p, PIECES);
        free(want);
        on_device_close(&device);
    }
}

/* ---- layer normalisation ---- */

static cudaError_t call_layer_norm(void *context)
{
    const struct norm *c = context;
    return fm_cuda_layer_norm(c->place, c->s->rows, c->s->channels, tensor_of(&c->p[X], c->s), c->gamma,
                              c->beta, c->epsilon, c->p[MEAN].device, c->p[VARIANCE].device,
                              tensor_of(&c->p[Y], c->s));
}
static cudaError_t call_layer_norm_grad(void *context)
{
    const struct norm *c = context;
    return fm_cuda_layer_norm_grad(
        c->place, c->s->rows, c->s->channels, tensor_of(&c->p[X], c->s), tensor_of(&c->p[DY], c->s), c->gamma,
        c->p[MEAN].device, c->p[VARIANCE].device, c->accumulate, tensor_of(&c->p[DX], c->s),
        c->gamma ? c->p[DGAMMA].device : NULL, c->beta ? c->p[DBETA].device : NULL, c->p[SCRATCH].device);
}

/* Row r of example i: statistics and y. */
static void layer_row(const struct norm *c, int i, int r, double *mean, double *inverse, double *y)
{
    const int channels = c->s->channels;
    double variance = 0;
    *mean = 0;
    for (int k = 0; k < channels; k++) *mean += (double)host_at(c, X, i, r * channels + k) / channels;
    for (int k = 0; k < channels; k++)
        variance += pow((double)host_at(c, X, i, r * channels + k) - *mean, 2) / channels;
    *inverse = 1 / sqrt(variance + c->epsilon);
    for (int k = 0; k < channels; k++)
        y[k] =
            ((double)host_at(c, X, i, r * channels + k) - *mean) * *inverse * gamma_at(c, k) + beta_at(c, k);
}

static void layer_row_grad(const struct norm *c, int i, int r, double *dgamma, double *dbeta, double *dx)
{
    const int channels = c->s->channels, row = i * c->s->rows + r;
    const double mean = number_at(c, MEAN, row), inverse = number_at(c, VARIANCE, row);
    double sum = 0, dot = 0;
    for (int k = 0; k < channels; k++) {
        const double d = ((double)host_at(c, X, i, r * channels + k) - mean) * inverse;
        const double dy = (double)host_at(c, DY, i, r * channels + k), g = dy * gamma_at(c, k);
        sum += g / channels;
        dot += g * d / channels;
        if (i < c->n) dgamma[k] += dy * d, dbeta[k] += dy;
    }
    for (int k = 0; k < channels; k++) {
        const double d = ((double)host_at(c, X, i, r * channels + k) - mean) * inverse;
        const double g = (double)host_at(c, DY, i, r * channels + k) * gamma_at(c, k);
        dx[k] =
            (g - sum - d * dot) * inverse + (c->accumulate ? (double)host_at(c, DX, i, r * channels + k) : 0);
    }
}

static void one_layer_norm(const struct shape *s, int n, float middle, bool scaled, int accumulate)
{
    const int rows = s->count * s->rows, channels = s->channels;
    struct norm c;
    norm_open(&c, s, n, middle, 1, scaled);
    c.accumulate = accumulate;
    c.p[MEAN] = numbers_new(&device, &draws, rows, 0, 0);
    c.p[VARIANCE] = numbers_new(&device, &draws, rows, 0, 0);
    double *mean = doubles_new(rows), *inverse = doubles_new(rows), *y = doubles_new(rows * channels);
    for (int row = 0; row < rows; row++)
        layer_row(&c, row / s->rows, row % s->rows, mean + row, inverse + row, y + row * channels);
    run_call(&c.place, call_layer_norm, &c, c.p + Y, 3);
    check_tensor(&c.p[Y], s, y, TS_FLOAT_LAYER, "layer norm");
    check_numbers(&c.p[MEAN], mean, TS_FLOAT, "mean of rows");
    check_numbers(&c.p[VARIANCE], inverse, TS_FLOAT_LAYER, "inverse deviation of rows");

    for (int row = 0; row < rows; row++) { /* sums that do not cancel */
        ((float *)c.p[MEAN].host)[row] = middle - 2;
        ((float *)c.p[VARIANCE].host)[row] = 0.3f * (float)(row % 3 + 1);
    }
    fm_emulator_poke(c.p[MEAN].device, c.p[MEAN].host, c.p[MEAN].bytes);
    fm_emulator_poke(c.p[VARIANCE].device, c.p[VARIANCE].host, c.p[VARIANCE].bytes);
    double *dgamma = doubles_new(channels), *dbeta = doubles_new(channels);
    for (int row = 0; row < rows; row++)
        layer_row_grad(&c, row / s->rows, row % s->rows, dgamma, dbeta, y + row * channels);
    run_call(&c.place, call_layer_norm_grad, &c, c.p + DX, 3);
    check_tensor(&c.p[DX], s, y, TS_FLOAT_GRADIENT, "layer norm gradient");
    if (scaled) check_numbers(&c.p[DGAMMA], dgamma, TS_FLOAT_LAYER, "dgamma");
    if (scaled) check_numbers(&c.p[DBETA], dbeta, TS_FLOAT_LAYER, "dbeta");
    free(mean), free(inverse), free(y), free(dgamma), free(dbeta);
    norm_close(&c);
}

Test(cuda_norms, layer_norm)
{
    for (int k = 0; k < SHAPES; k++)
        one_layer_norm(&shapes[k], k % 2 ? shapes[k].count : (shapes[k].count + 1) / 2, 0.2f, k != 2,
                       k % 3 == 1);
    one_layer_norm(&shapes[3], 6, 10000, true, 0);
}

/* In evaluation nothing keeps the statistics; equal numbers have no spread. */
Test(cuda_norms, layer_norm_without_statistics)
{
    const struct shape *s = &shapes[3];
    struct norm c;
    norm_open(&c, s, 6, 0, 1, true);
    double *y = doubles_new(s->count * s->rows * s->channels);
    for (int i = 0; i < s->count; i++)
        for (int e = 0; e < s->rows * s->channels; e++) {
            ((float *)c.p[X].host)[shape_at(s, i, e)] = 1e6f / 3;
            y[i * s->rows * s->channels + e] = beta_at(&c, e % s->channels);
        }
    fm_emulator_poke(c.p[X].device, c.p[X].host, c.p[X].bytes);
    run_call(&c.place, call_layer_norm, &c, c.p + Y, 1);
    check_tensor(&c.p[Y], s, y, TS_EXACT, "layer norm of equal numbers");
    free(y);
    norm_close(&c);
}
