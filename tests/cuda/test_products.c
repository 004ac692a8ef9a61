/* Products on the emulated device against double loops over their definition: forward, input gradient, weight
 * gradient, and what stands beside a library's product. */
#include "cuda/activations.h"
#include "cuda/image.h"

struct layer {
    struct fm_cuda_conv conv;
    int rows;
    struct fm_cuda_weights w;
    const float *bias;
    struct fm_cuda_activation activation;
    struct fm_cuda_tensor x, y;
    int accumulate, splits;
    float *kernel, *dbias;
    int64_t stride;
};

enum { FORWARD = 1, INPUT_GRAD = 2, WEIGHT_GRAD = 4, ALL = 7 };
/* Edges, the nets of users.md, and for each test the smallest shapes of more than one chunk that
 * fm_tile_choose gives each kind of tile, in the order of the kinds. */
static const struct {
    int tests;
    struct fm_cuda_conv conv; /* in, channels, out, filters, taps, stride, dilation, groups, pad */
    int rows;
} shapes[] = {
    {ALL, {1, 1, 1, 1, 1, 1, 1, 1, 0}, 1},
    {ALL, {9, 4, 1, 5, 9, 7, 1, 1, 0}, 3},      /* a stride longer than what is left */
    {ALL, {12, 3, 4, 6, 2, 5, 3, 1, 4}, 3},     /* phases that no tap reaches */
    {ALL, {33, 16, 33, 16, 3, 1, 2, 16, 2}, 5}, /* a group a channel */
    {ALL, {20, 24, 20, 48, 3, 1, 1, 2, 1}, 4},  /* two wide groups */
    {ALL, {64, 7, 31, 96, 4, 2, 1, 1, 1}, 6},   /* stride 2 */
    {ALL, {13, 64, 9, 64, 5, 1, 1, 1, 0}, 8},   /* the protein net's second layer */
    {ALL, {100, 1, 92, 24, 9, 1, 1, 1, 0}, 6},  /* the sensor net's first */
    {ALL, {1, 576, 1, 20, 1, 1, 1, 1, 0}, 32},  /* and second */
    {ALL, {1, 1088, 1, 3, 1, 1, 1, 1, 0}, 9},   /* a head */
    {FORWARD, {100, 33, 100, 50, 1, 1, 1, 1, 0}, 60},
    {FORWARD, {9, 13, 7, 50, 3, 1, 1, 1, 0}, 200},
    {FORWARD, {33, 13, 29, 18, 5, 1, 1, 1, 0}, 40},
    {FORWARD, {9, 24, 7, 50, 3, 1, 1, 1, 0}, 20},
    {FORWARD, {9, 13, 5, 31, 5, 1, 1, 1, 0}, 8},
    {FORWARD, {1, 90, 1, 1, 1, 1, 1, 1, 0}, 1},
    {FORWARD, {33, 13, 29, 1, 5, 1, 1, 1, 0}, 3},
    {INPUT_GRAD, {100, 50, 100, 31, 1, 1, 1, 1, 0}, 60},
    {INPUT_GRAD, {9, 50, 5, 7, 5, 1, 1, 1, 0}, 200},
    {INPUT_GRAD, {9, 18, 5, 13, 5, 1, 1, 1, 0}, 130},
    {INPUT_GRAD, {9, 50, 5, 13, 5, 1, 1, 1, 0}, 20},
    {INPUT_GRAD, {9, 50, 5, 13, 5, 1, 1, 1, 0}, 8},
    {INPUT_GRAD, {1, 1, 1, 90, 1, 1, 1, 1, 0}, 1},
    {INPUT_GRAD, {33, 1, 29, 13, 5, 1, 1, 1, 0}, 3},
    {WEIGHT_GRAD, {100, 33, 98, 50, 3, 1, 1, 1, 0}, 40},
    {WEIGHT_GRAD, {33, 260, 29, 18, 5, 1, 1, 1, 0}, 3},
    {WEIGHT_GRAD, {1, 18, 1, 31, 1, 1, 1, 1, 0}, 130},
    {WEIGHT_GRAD, {9, 1, 9, 1, 1, 1, 1, 1, 0}, 8},
    {WEIGHT_GRAD, {33, 50, 33, 1, 1, 1, 1, 1, 0}, 8},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static struct layer layer_draw(struct image *im, int i, int test)
{
    struct layer l = {.rows = image_draw(im, 1, 7)};
    if (i < SHAPES && (shapes[i].tests & test)) {
        l.conv = shapes[i].conv;
        l.rows = shapes[i].rows;
    } else {
        l.conv = image_conv(im, (struct image_sizes){30, 40, 70, 9});
    }
    return l;
}

/* An activation and what it stores; every kind comes in turn. */
static struct fm_cuda_activation activation_draw(struct image *im, int i)
{
    struct fm_cuda_activation a = {.kind = i % (FM_ACT_MISH + 1)};
    if (a.kind == FM_ACT_SOFTMAX) a.kind = FM_ACT_LINEAR;
    a.slope = a.kind == FM_ACT_LEAKY_RELU ? 0.3f : 1.0f + image_number(im, 0.5);
    return a;
}

static cudaError_t forward(struct fm_cuda_place place, const void *context)
{
    const struct layer *l = context;
    return fm_cuda_forward(place, l->conv, l->x, l->w, l->bias, l->activation, l->y);
}

static double forward_at(const struct image *im, const struct fm_cuda_conv *c, const struct image_tensor *x,
                         const struct image_weights *w, int i, int o, int f)
{
    const int group = f / (c->out_channels / c->groups), depth = c->in_channels / c->groups;
    double sum = 0;
    for (int j = 0; j < c->taps; j++) {
        const int row = o * c->stride + j * c->dilation - c->pad;
        if (row < 0 || row >= c->in_rows) continue;
        for (int k = 0; k < depth; k++)
            sum += (double)host_at(im, x->at)[image_index(x, i, row, group * depth + k)] *
                   (double)host_at(im, w->at)[image_weight(w, j, k, f)];
    }
    return sum;
}

static void forward_case(struct image *im, int number)
{
    char text[256];
    struct layer l = layer_draw(im, number, FORWARD);
    const struct fm_cuda_conv *c = &l.conv;
    const int depth = c->in_channels / c->groups;
    l.activation = activation_draw(im, number);
    const struct image_tensor x = image_tensor(im, l.rows, c->in_rows, c->in_channels, 1);
    const struct image_weights w =
        image_weights(im, c->taps, depth, c->out_channels, 2 / sqrt((double)(c->taps * depth)));
    const struct image_tensor bias = image_tensor(im, 1, 1, c->out_channels, 0.5);
    const struct image_tensor y = image_tensor(im, l.rows, c->out_rows, c->out_channels, 1);
    const struct image_tensor stored = image_tensor(im, l.rows, c->out_rows, c->out_channels, 1);
    const bool stores = derivative_is_stored(l.activation.kind), biased = image_draw(im, 0, 3) > 0;
    l.x = image_device_tensor(im, &x);
    l.y = image_device_tensor(im, &y);
    l.w = w.strides;
    if (biased) l.bias = device_at(im, bias.at);
    if (stores) l.activation.stored = image_device_tensor(im, &stored);
    image_mark_tensor(im, &y);
    if (stores) image_mark_tensor(im, &stored);
    image_check(im, forward, &l, l.rows, image_conv_text(&text, c, l.rows));
    for (int i = 0; i < l.rows; i++)
        for (int o = 0; o < c->out_rows; o++)
            for (int f = 0; f < c->out_channels; f++) {
                const int kind = l.activation.kind;
                const double slope = (double)l.activation.slope;
                const double z =
                    forward_at(im, c, &x, &w, i, o, f) + (biased ? (double)host_at(im, bias.at)[f] : 0);
                compare(TS_FLOAT_LAYER, (double)result_at(im, y.at)[image_index(&y, i, o, f)],
                        expected_activation(kind, slope, z), text);
                if (stores && (kind != FM_ACT_HARD_SIGMOID || fabs(fabs(z) - 3) > 1e-4))
                    compare(TS_FLOAT_LAYER, (double)result_at(im, stored.at)[image_index(&stored, i, o, f)],
                            expected_derivative(kind, slope, z), text);
            }
}

Test(products, forward)
{
    image_cases(forward_case, 120, 1);
}

/* What the derivative comes from: numbers for stored ones, else outputs of drawn inputs; *derivative is what
 * must come out. */
static struct fm_cuda_activation gradient_draw(struct image *im, int number, const struct image_tensor *from,
                                               double *derivative)
{
    struct fm_cuda_activation a = activation_draw(im, number);
    a.is_stored = derivative_is_stored(a.kind);
    if (a.kind != FM_ACT_LINEAR) a.stored = image_device_tensor(im, from);
    float *at = host_at(im, from->at);
    for (int i = 0; i < from->count; i++)
        for (int e = 0; e < from->rows * from->channels; e++) {
            double z = (double)image_number(im, 2);
            if (fabs(z) < 0.01) z = 0.01;
            const double d = expected_derivative(a.kind, (double)a.slope, z);
            derivative[i * from->rows * from->channels + e] = a.is_stored ? (double)(float)d : d;
            at[i * from->example + e] =
                (float)(a.is_stored ? d : expected_activation(a.kind, (double)a.slope, z));
        }
    return a;
}

static cudaError_t input_grad(struct fm_cuda_place place, const void *context)
{
    const struct layer *l = context;
    return fm_cuda_input_grad(place, l->conv, l->y, l->w, l->activation, l->accumulate, l->x);
}

/* Scatters, as the definition says: the kernel gathers. */
static void expect_input_grad(const struct image *im, const struct fm_cuda_conv *c,
                              const struct image_tensor *dy, const struct image_weights *w, double *dx)
{
    const int depth = c->in_channels / c->groups, width = c->out_channels / c->groups;
    for (int i = 0; i < dy->count; i++)
        for (int o = 0; o < c->out_rows; o++)
            for (int j = 0; j < c->taps; j++) {
                const int row = o * c->stride + j * c->dilation - c->pad;
                if (row < 0 || row >= c->in_rows) continue;
                for (int f = 0; f < c->out_channels; f++)
                    for (int k = 0; k < depth; k++)
                        dx[(i * c->in_rows + row) * c->in_channels + f / width * depth + k] +=
                            (double)host_at(im, dy->at)[image_index(dy, i, o, f)] *
                            (double)host_at(im, w->at)[image_weight(w, j, k, f)];
            }
}

static void input_grad_case(struct image *im, int number)
{
    char text[256];
    struct layer l = layer_draw(im, number, INPUT_GRAD);
    const struct fm_cuda_conv *c = &l.conv;
    const int depth = c->in_channels / c->groups, count = l.rows * c->in_rows * c->in_channels;
    const struct image_tensor dy = image_tensor(im, l.rows, c->out_rows, c->out_channels, 1);
    const struct image_weights w = image_weights(im, c->taps, depth, c->out_channels,
                                                 2 / sqrt((double)(c->taps * c->out_channels / c->groups)));
    const struct image_tensor dx = image_tensor(im, l.rows, c->in_rows, c->in_channels, 1);
    const struct image_tensor from = image_tensor(im, l.rows, c->in_rows, c->in_channels, 1);
    double *derivative = calloc((size_t)count * 2, sizeof *derivative), *expected = derivative + count;
    cr_assert_not_null(derivative);
    l.activation = gradient_draw(im, number, &from, derivative);
    l.accumulate = image_draw(im, 0, 1);
    l.y = image_device_tensor(im, &dy);
    /* The gradient may go where the outputs were. */
    const struct image_tensor *to = image_draw(im, 0, 2) ? &dx : &from;
    l.x = image_device_tensor(im, to);
    l.w = w.strides;
    image_mark_tensor(im, to);
    image_check(im, input_grad, &l, l.rows, image_conv_text(&text, c, l.rows));
    expect_input_grad(im, c, &dy, &w, expected);
    for (int e = 0; e < count; e++) {
        const int i = e / (c->in_rows * c->in_channels),
                  at = i * to->example + e % (c->in_rows * c->in_channels);
        const double before = l.accumulate ? (double)host_at(im, to->at)[at] : 0;
        compare(TS_FLOAT_LAYER, (double)result_at(im, to->at)[at], before + expected[e] * derivative[e],
                text);
    }
    free(derivative);
}

Test(products, input_grad)
{
    image_cases(input_grad_case, 120, 2);
}

static cudaError_t weight_grad(struct fm_cuda_place place, const void *context)
{
    const struct layer *l = context;
    return fm_cuda_weight_grad(place, l->conv, l->x, l->y, l->w, l->kernel, l->dbias, l->splits, l->stride);
}

static double weight_grad_at(const struct image *im, const struct fm_cuda_conv *c,
                             const struct image_tensor *x, const struct image_tensor *dy, int j, int k, int f)
{
    const int channel = f / (c->out_channels / c->groups) * (c->in_channels / c->groups) + k;
    double sum = 0;
    for (int i = 0; i < x->count; i++)
        for (int o = 0; o < c->out_rows; o++) {
            const int row = o * c->stride + j * c->dilation - c->pad;
            if (row < 0 || row >= c->in_rows) continue;
            sum += (double)host_at(im, x->at)[image_index(x, i, row, channel)] *
                   (double)host_at(im, dy->at)[image_index(dy, i, o, f)];
        }
    return sum;
}

static double partial_sum(const struct image *im, size_t at, int place, const struct layer *l)
{
    double sum = 0;
    for (int s = 0; s < l->splits; s++) sum += (double)result_at(im, at)[s * l->stride + place];
    return sum;
}

static void weight_grad_case(struct image *im, int number)
{
    char text[256];
    struct layer l = layer_draw(im, number, WEIGHT_GRAD);
    const struct fm_cuda_conv *c = &l.conv;
    const int depth = c->in_channels / c->groups;
    const struct image_tensor x = image_tensor(im, l.rows, c->in_rows, c->in_channels, 1);
    const struct image_tensor dy =
        image_tensor(im, l.rows, c->out_rows, c->out_channels, 2 / sqrt((double)(l.rows * c->out_rows)));
    const struct image_weights w = image_weights(im, c->taps, depth, c->out_channels, 1);
    l.splits = number % 3 ? fm_cuda_weight_splits(c, l.rows, 0) : image_draw(im, 1, 5);
    l.stride = w.span + c->out_channels + image_draw(im, 0, 9);
    const size_t kernel = image_floats(im, l.splits * l.stride),
                 dbias = kernel + (size_t)w.span * sizeof(float);
    cr_assert(l.splits >= 1 && l.splits <= 64);
    l.x = image_device_tensor(im, &x);
    l.y = image_device_tensor(im, &dy);
    l.w = w.strides;
    l.w.at = NULL;
    l.kernel = device_at(im, kernel);
    if (number % 4) l.dbias = device_at(im, dbias);
    for (int s = 0; s < l.splits; s++) {
        const size_t at = (size_t)(s * l.stride) * sizeof(float);
        for (int j = 0; j < c->taps; j++)
            for (int k = 0; k < depth; k++)
                for (int f = 0; f < c->out_channels; f++)
                    image_mark(im, kernel + at + (size_t)image_weight(&w, j, k, f) * sizeof(float),
                               sizeof(float));
        if (l.dbias) image_mark(im, dbias + at, (size_t)c->out_channels * sizeof(float));
    }
    image_check(im, weight_grad, &l, l.rows, image_conv_text(&text, c, l.rows));
    for (int f = 0; f < c->out_channels; f++) {
        double sum = 0;
        for (int i = 0; i < l.rows; i++)
            for (int o = 0; o < c->out_rows; o++)
                sum += (double)host_at(im, dy.at)[image_index(&dy, i, o, f)];
        if (l.dbias) compare(TS_ENGINE_GRADIENT, partial_sum(im, dbias, f, &l), sum, text);
        for (int j = 0; j < c->taps; j++)
            for (int k = 0; k < depth; k++)
                compare(TS_ENGINE_GRADIENT, partial_sum(im, kernel, image_weight(&w, j, k, f), &l),
                        weight_grad_at(im, c, &x, &dy, j, k, f), text);
    }
}

Test(products, weight_grad)
{
    image_cases(weight_grad_case, 120, 3);
}

/* ---- beside a library's product ---------------------------------------------------------------------------
 */

static cudaError_t bias_grad(struct fm_cuda_place place, const void *context)
{
    const struct layer *l = context;
    return fm_cuda_bias_grad(place, l->conv.out_rows, l->conv.out_channels, l->y, l->dbias);
}

static void bias_grad_case(struct image *im, int number)
{
    (void)number;
    struct layer l = {.conv = {.out_rows = image_draw(im, 1, 40), .out_channels = image_draw(im, 1, 80)}};
    l.rows = image_draw(im, 1, 9);
    const struct image_tensor dy = image_tensor(im, l.rows, l.conv.out_rows, l.conv.out_channels, 0.2);
    const size_t dbias = image_floats(im, l.conv.out_channels);
    l.y = image_device_tensor(im, &dy);
    l.dbias = device_at(im, dbias);
    image_mark(im, dbias, (size_t)l.conv.out_channels * sizeof(float));
    image_check(im, bias_grad, &l, l.rows, "bias gradient");
    for (int f = 0; f < l.conv.out_channels; f++) {
        double sum = 0;
        for (int i = 0; i < l.rows; i++)
            for (int o = 0; o < l.conv.out_rows; o++)
                sum += (double)host_at(im, dy.at)[image_index(&dy, i, o, f)];
        compare(TS_FLOAT_LAYER, (double)result_at(im, dbias)[f], sum, "bias gradient");
    }
}

static cudaError_t bias_activation(struct fm_cuda_place place, const void *context)
{
    const struct layer *l = context;
    return fm_cuda_bias_activation(place, l->conv.out_rows, l->conv.out_channels, l->bias, l->activation,
                                   l->y);
}

static void bias_activation_case(struct image *im, int number)
{
    struct layer l = {.conv = {.out_rows = image_draw(im, 1, 9), .out_channels = image_draw(im, 1, 40)}};
    const int channels = l.conv.out_channels;
    l.rows = image_draw(im, 1, 5);
    l.activation = activation_draw(im, number);
    const struct image_tensor y = image_tensor(im, l.rows, l.conv.out_rows, channels, 4);
    const struct image_tensor stored = image_tensor(im, l.rows, l.conv.out_rows, channels, 1);
    const struct image_tensor bias = image_tensor(im, 1, 1, channels, 0.5);
    const bool stores = derivative_is_stored(l.activation.kind), biased = image_draw(im, 0, 3) > 0;
    l.y = image_device_tensor(im, &y);
    if (biased) l.bias = device_at(im, bias.at);
    if (stores) l.activation.stored = image_device_tensor(im, &stored);
    image_mark_tensor(im, &y);
    if (stores) image_mark_tensor(im, &stored);
    image_check(im, bias_activation, &l, l.rows, "bias and activation");
    for (int e = 0; e < l.rows * l.conv.out_rows * channels; e++) {
        const int i = e / (l.conv.out_rows * channels), at = e % (l.conv.out_rows * channels);
        const double z = (double)host_at(im, y.at)[i * y.example + at] +
                         (biased ? (double)host_at(im, bias.at)[at % channels] : 0);
        compare(TS_FLOAT_LAYER, (double)result_at(im, y.at)[i * y.example + at],
                expected_activation(l.activation.kind, (double)l.activation.slope, z), "bias and activation");
        if (stores && fabs(fabs(z) - 3) > 1e-4)
            compare(TS_FLOAT_LAYER, (double)result_at(im, stored.at)[i * stored.example + at],
                    expected_derivative(l.activation.kind, (double)l.activation.slope, z),
                    "stored derivative");
    }
}

Test(products, beside_a_library)
{
    image_cases(bias_grad_case, 30, 4);
    image_cases(bias_activation_case, 39, 5);
}

/* NaN in one weight reaches every output of its filter, through relu too, and no other filter. */
Test(products, nan_passes_through_relu)
{
    struct image im;
    image_open(&im, 6);
    image_clear(&im);
    struct layer l = {.conv = {10, 3, 8, 30, 3, 1, 1, 1, 0}, .rows = 4, .activation = {.kind = FM_ACT_RELU}};
    const struct image_tensor x = image_tensor(&im, 4, 10, 3, 1);
    const struct image_weights w = image_weights(&im, 3, 3, 30, 1);
    const struct image_tensor y = image_tensor(&im, 4, 8, 30, 1);
    host_at(&im, w.at)[image_weight(&w, 1, 2, 17)] = NAN;
    l.x = image_device_tensor(&im, &x);
    l.y = image_device_tensor(&im, &y);
    l.w = w.strides;
    image_mark_tensor(&im, &y);
    image_check(&im, forward, &l, 4, "a NaN weight");
    for (int e = 0; e < 4 * 8 * 30; e++) {
        const float got = result_at(&im, y.at)[image_index(&y, e / 240, e / 30 % 8, e % 30)];
        cr_assert(isnan(got) == (e % 30 == 17) && !(got < 0));
    }
    image_close(&im);
}
