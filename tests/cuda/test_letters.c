/* Products over letters and the fused convolution, activation and pool, on the emulated device, against
 * double loops over their definitions. */
#include "cuda/activations.h"
#include "cuda/image.h"
#include "data/dataset.h"

struct letters {
    struct fm_cuda_conv conv;
    int rows;
    struct fm_cuda_bytes x, winner;
    struct fm_cuda_tensor numbers, y;
    struct fm_cuda_weights w;
    struct fm_cuda_pool pool;
    const float *bias;
    struct fm_cuda_activation activation;
    int splits;
    float *kernel, *dbias;
    int64_t stride;
};

static const struct {
    struct fm_cuda_conv conv;
    int rows;
} shapes[] = {
    {{17, 21, 13, 64, 5, 1, 1, 1, 0}, 16}, /* the protein net's first layer */
    {{40, 4, 1, 20, 40, 1, 1, 1, 0}, 5},   /* a dense layer over letters: slices share the taps */
    {{600, 21, 1, 3, 600, 1, 1, 1, 0}, 2},
    {{30, 255, 26, 12, 5, 1, 1, 1, 0}, 3}, /* the largest alphabet: one slice fits */
    {{50, 6, 50, 9, 3, 1, 1, 3, 1}, 4},    /* groups of letters */
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static struct letters letters_draw(struct image *im, int i)
{
    struct letters l = {.conv = i < SHAPES ? shapes[i].conv
                                           : image_conv(im, (struct image_sizes){40, 30, 50, 9})};
    l.rows = i < SHAPES ? shapes[i].rows : image_draw(im, 1, 7);
    return l;
}

/* One letter in six is none. */
static struct image_tensor letters_tensor(struct image *im, int count, int rows, int alphabet)
{
    struct image_tensor t = {0, count, rows, 1, rows + image_draw(im, 0, 5)};
    t.at = image_room(im, (size_t)(count * t.example));
    for (int i = 0; i < count; i++)
        for (int o = 0; o < rows; o++)
            im->host[t.at + (size_t)(i * t.example + o)] =
                (uint8_t)(image_draw(im, 0, 5) ? image_draw(im, 0, alphabet - 1) : FM_NO_LETTER);
    return t;
}

/* The channel that is 1 in a row, or -1. */
static int channel_at(const struct image *im, const struct image_tensor *x, const struct fm_cuda_conv *c,
                      int i, int row)
{
    if (row < 0 || row >= c->in_rows) return -1;
    const uint8_t letter = im->host[x->at + (size_t)(i * x->example + row)];
    return letter == FM_NO_LETTER ? -1 : letter;
}

static cudaError_t forward(struct fm_cuda_place place, const void *context)
{
    const struct letters *l = context;
    return fm_cuda_forward_letters(place, l->conv, l->x, l->w, l->bias, l->activation, l->y);
}

static double forward_at(const struct image *im, const struct fm_cuda_conv *c, const struct image_tensor *x,
                         const struct image_weights *w, int i, int o, int f)
{
    const int depth = c->in_channels / c->groups, group = f / (c->out_channels / c->groups);
    double sum = 0;
    for (int j = 0; j < c->taps; j++) {
        const int channel = channel_at(im, x, c, i, o * c->stride + j * c->dilation - c->pad);
        if (channel >= 0 && channel / depth == group)
            sum += (double)host_at(im, w->at)[image_weight(w, j, channel % depth, f)];
    }
    return sum;
}

static void forward_case(struct image *im, int number)
{
    char text[256];
    struct letters l = letters_draw(im, number);
    const struct fm_cuda_conv *c = &l.conv;
    const int kind = number % 2 ? FM_ACT_SWISH : FM_ACT_RELU;
    const struct image_tensor x = letters_tensor(im, l.rows, c->in_rows, c->in_channels);
    const struct image_weights w =
        image_weights(im, c->taps, c->in_channels / c->groups, c->out_channels, 2 / sqrt((double)c->taps));
    const struct image_tensor bias = image_tensor(im, 1, 1, c->out_channels, 0.5);
    const struct image_tensor y = image_tensor(im, l.rows, c->out_rows, c->out_channels, 1);
    const struct image_tensor stored = image_tensor(im, l.rows, c->out_rows, c->out_channels, 1);
    l.x = (struct fm_cuda_bytes){im->device + x.at, x.example};
    l.y = image_device_tensor(im, &y);
    l.w = w.strides;
    l.activation.kind = kind;
    if (number % 3) l.bias = device_at(im, bias.at);
    if (kind == FM_ACT_SWISH) l.activation.stored = image_device_tensor(im, &stored);
    image_mark_tensor(im, &y);
    if (kind == FM_ACT_SWISH) image_mark_tensor(im, &stored);
    image_check(im, forward, &l, l.rows, image_conv_text(&text, c, l.rows));
    for (int i = 0; i < l.rows; i++)
        for (int o = 0; o < c->out_rows; o++)
            for (int f = 0; f < c->out_channels; f++) {
                const double z =
                    forward_at(im, c, &x, &w, i, o, f) + (l.bias ? (double)host_at(im, bias.at)[f] : 0);
                compare(TS_FLOAT_LAYER, (double)result_at(im, y.at)[image_index(&y, i, o, f)],
                        expected_activation(kind, 0, z), text);
                if (kind == FM_ACT_SWISH)
                    compare(TS_FLOAT_LAYER, (double)result_at(im, stored.at)[image_index(&stored, i, o, f)],
                            expected_derivative(kind, 0, z), text);
            }
}

Test(letters, forward)
{
    image_cases(forward_case, 80, 11);
}

static cudaError_t weight_grad(struct fm_cuda_place place, const void *context)
{
    const struct letters *l = context;
    return fm_cuda_weight_grad_letters(place, l->conv, l->x, l->y, l->w, l->kernel, l->dbias, l->splits,
                                       l->stride);
}

/* kernel: [taps][depth][filters], then the bias. */
static void expect_weight_grad(const struct image *im, const struct letters *l, const struct image_tensor *x,
                               const struct image_tensor *dy, double *kernel)
{
    const struct fm_cuda_conv *c = &l->conv;
    const int depth = c->in_channels / c->groups, width = c->out_channels / c->groups;
    for (int i = 0; i < l->rows; i++)
        for (int o = 0; o < c->out_rows; o++)
            for (int f = 0; f < c->out_channels; f++) {
                const double d = (double)host_at(im, dy->at)[image_index(dy, i, o, f)];
                kernel[c->taps * depth * c->out_channels + f] += d;
                for (int j = 0; j < c->taps; j++) {
                    const int channel = channel_at(im, x, c, i, o * c->stride + j * c->dilation - c->pad);
                    if (channel >= 0 && channel / depth == f / width)
                        kernel[(j * depth + channel % depth) * c->out_channels + f] += d;
                }
            }
}

static double partial_sum(const struct image *im, size_t at, int place, const struct letters *l)
{
    double sum = 0;
    for (int s = 0; s < l->splits; s++) sum += (double)result_at(im, at)[s * l->stride + place];
    return sum;
}

static void weight_grad_case(struct image *im, int number)
{
    char text[256];
    struct letters l = letters_draw(im, number);
    const struct fm_cuda_conv *c = &l.conv;
    const int depth = c->in_channels / c->groups, count = c->taps * depth * c->out_channels;
    const struct image_tensor x = letters_tensor(im, l.rows, c->in_rows, c->in_channels);
    const struct image_tensor dy =
        image_tensor(im, l.rows, c->out_rows, c->out_channels, 2 / sqrt((double)(l.rows * c->out_rows)));
    const struct image_weights w = image_weights(im, c->taps, depth, c->out_channels, 1);
    l.splits = number % 3 ? fm_cuda_weight_splits(c, l.rows, 1) : image_draw(im, 1, 5);
    l.stride = w.span + c->out_channels + image_draw(im, 0, 9);
    const size_t kernel = image_floats(im, l.splits * l.stride),
                 dbias = kernel + (size_t)w.span * sizeof(float);
    cr_assert(l.splits >= 1 && l.splits <= 64);
    l.x = (struct fm_cuda_bytes){im->device + x.at, x.example};
    l.y = image_device_tensor(im, &dy);
    l.w = w.strides;
    l.w.at = NULL;
    l.kernel = device_at(im, kernel);
    if (number % 4) l.dbias = device_at(im, dbias);
    for (int s = 0; s < l.splits; s++) {
        const size_t at = (size_t)(s * l.stride) * sizeof(float);
        for (int e = 0; e < count; e++) {
            const int row = e / c->out_channels, f = e % c->out_channels;
            image_mark(im,
                       kernel + at + (size_t)image_weight(&w, row / depth, row % depth, f) * sizeof(float),
                       sizeof(float));
        }
        if (l.dbias) image_mark(im, dbias + at, (size_t)c->out_channels * sizeof(float));
    }
    image_check(im, weight_grad, &l, l.rows, image_conv_text(&text, c, l.rows));
    double *expected = calloc((size_t)(count + c->out_channels), sizeof *expected);
    cr_assert_not_null(expected);
    expect_weight_grad(im, &l, &x, &dy, expected);
    for (int e = 0; e < count; e++) {
        const int row = e / c->out_channels, f = e % c->out_channels;
        compare(TS_ENGINE_GRADIENT,
                partial_sum(im, kernel, image_weight(&w, row / depth, row % depth, f), &l), expected[e],
                text);
    }
    for (int f = 0; f < c->out_channels && l.dbias; f++)
        compare(TS_ENGINE_GRADIENT, partial_sum(im, dbias, f, &l), expected[count + f], text);
    free(expected);
}

Test(letters, weight_grad)
{
    image_cases(weight_grad_case, 80, 12);
}

/* ---- convolution, activation and pool ---------------------------------------------------------------------
 */

static cudaError_t conv_pool(struct fm_cuda_place place, const void *context)
{
    const struct letters *l = context;
    return fm_cuda_conv_pool(place, l->conv, l->pool, l->numbers, l->w, l->bias, l->activation, l->y,
                             l->winner);
}

static const struct {
    struct fm_cuda_conv conv;
    int rows, size;
} pools[] = {
    {{100, 1, 92, 24, 9, 1, 1, 1, 0}, 4, 4}, /* the sensor net's first layer */
    {{101, 1, 93, 23, 9, 1, 1, 1, 0}, 2, 2},   {{60, 1, 60, 5, 3, 1, 1, 1, 1}, 3, 7},
    {{300, 1, 296, 4, 5, 1, 1, 1, 0}, 1, 256}, {{64, 3, 31, 8, 4, 2, 1, 1, 1}, 3, 3},
};
enum { POOLS = sizeof pools / sizeof *pools };

static struct letters pool_draw(struct image *im, int i)
{
    static const int kinds[] = {FM_ACT_RELU, FM_ACT_LINEAR,  FM_ACT_LEAKY_RELU, FM_ACT_ELU,
                                FM_ACT_SELU, FM_ACT_SIGMOID, FM_ACT_TANH};
    struct letters l = {.conv =
                            i < POOLS ? pools[i].conv : image_conv(im, (struct image_sizes){60, 6, 30, 9})};
    l.conv.in_channels /= l.conv.groups;
    l.conv.groups = 1;
    l.rows = i < POOLS ? pools[i].rows : image_draw(im, 1, 6);
    l.pool.size = l.pool.stride = i < POOLS ? pools[i].size : image_draw(im, 1, 6);
    if (l.pool.size > l.conv.out_rows) l.pool.size = l.pool.stride = l.conv.out_rows;
    l.pool.in_rows = l.conv.out_rows;
    l.pool.out_rows = l.conv.out_rows / l.pool.size;
    l.pool.channels = l.conv.out_channels;
    l.activation.kind = kinds[i % 7];
    l.activation.slope = 0.5f;
    cr_assert(fm_cuda_conv_pool_can(&l.conv, &l.pool, l.activation.kind));
    return l;
}

static double conv_at(const struct image *im, const struct fm_cuda_conv *c, const struct image_tensor *x,
                      const struct image_weights *w, int i, int o, int f)
{
    double sum = 0;
    for (int j = 0; j < c->taps; j++) {
        const int row = o * c->stride + j * c->dilation - c->pad;
        for (int k = 0; k < c->in_channels && row >= 0 && row < c->in_rows; k++)
            sum += (double)host_at(im, x->at)[image_index(x, i, row, k)] *
                   (double)host_at(im, w->at)[image_weight(w, j, k, f)];
    }
    return sum;
}

/* The winner must be within rounding of the largest, and exactly the first where relu made ties. */
static void pool_compare(const struct image *im, const struct letters *l, const double *window, float got,
                         int winner, const char *text)
{
    int best = 0;
    for (int r = 1; r < l->pool.size; r++)
        if (window[r] > window[best]) best = r;
    compare(TS_FLOAT_LAYER, (double)got, window[best], text);
    if (!l->winner.at) return;
    cr_assert(winner < l->pool.size);
    compare(TS_FLOAT_LAYER, window[winner], window[best], text);
    cr_assert(window[best] > 0 || l->activation.kind != FM_ACT_RELU || winner == 0 || got > 0, "%s: ties",
              text);
    (void)im;
}

static void pool_case(struct image *im, int number)
{
    char text[256];
    struct letters l = pool_draw(im, number);
    const struct fm_cuda_conv *c = &l.conv;
    const struct image_tensor x = image_tensor(im, l.rows, c->in_rows, c->in_channels, 1);
    const struct image_weights w = image_weights(im, c->taps, c->in_channels, c->out_channels,
                                                 2 / sqrt((double)(c->taps * c->in_channels)));
    const struct image_tensor bias = image_tensor(im, 1, 1, c->out_channels, 0.5);
    const struct image_tensor y = image_tensor(im, l.rows, l.pool.out_rows, c->out_channels, 1);
    struct image_tensor winner = {0, l.rows, l.pool.out_rows, c->out_channels, 0};
    winner.example = l.pool.out_rows * c->out_channels + image_draw(im, 0, 1) * image_draw(im, 0, 9);
    winner.at = image_room(im, (size_t)(l.rows * winner.example));
    l.numbers = image_device_tensor(im, &x);
    l.y = image_device_tensor(im, &y);
    l.w = w.strides;
    if (number % 3) l.bias = device_at(im, bias.at);
    if (number % 4) l.winner = (struct fm_cuda_bytes){im->device + winner.at, winner.example};
    image_mark_tensor(im, &y);
    for (int i = 0; i < l.rows && l.winner.at; i++)
        image_mark(im, winner.at + (size_t)(i * winner.example), (size_t)(l.pool.out_rows * c->out_channels));
    image_check(im, conv_pool, &l, l.rows, image_conv_text(&text, c, l.rows));
    double *window = calloc((size_t)l.pool.size, sizeof *window);
    cr_assert_not_null(window);
    for (int e = 0; e < l.rows * l.pool.out_rows * c->out_channels; e++) {
        const int f = e % c->out_channels, o = e / c->out_channels % l.pool.out_rows;
        const int i = e / c->out_channels / l.pool.out_rows;
        for (int r = 0; r < l.pool.size; r++)
            window[r] = expected_activation(l.activation.kind, (double)l.activation.slope,
                                            conv_at(im, c, &x, &w, i, o * l.pool.size + r, f) +
                                                (l.bias ? (double)host_at(im, bias.at)[f] : 0));
        pool_compare(im, &l, window, result_at(im, y.at)[image_index(&y, i, o, f)],
                     im->result[winner.at + (size_t)image_index(&winner, i, o, f)], text);
    }
    free(window);
}

Test(letters, conv_pool)
{
    image_cases(pool_case, 90, 13);
}

/* One tap of weight 1: the pool sees x itself. NaN wins, the first of several; ties go to the lowest row. */
Test(letters, conv_pool_nan_and_ties)
{
    static const float row[8] = {1, NAN, 7, NAN, -1, 2, 2, -3};
    struct image im;
    image_open(&im, 14);
    image_clear(&im);
    struct letters l = {.conv = {8, 1, 8, 3, 1, 1, 1, 1, 0}, .rows = 1, .pool = {8, 2, 3, 4, 4, 0, 0}};
    const struct image_tensor x = image_tensor(&im, 1, 8, 1, 1), y = image_tensor(&im, 1, 2, 3, 1);
    const struct image_weights w = image_weights(&im, 1, 1, 3, 1);
    const size_t winner = image_room(&im, 6);
    memcpy(host_at(&im, x.at), row, sizeof row);
    for (int f = 0; f < 3; f++) host_at(&im, w.at)[image_weight(&w, 0, 0, f)] = 1;
    l.numbers = image_device_tensor(&im, &x);
    l.y = image_device_tensor(&im, &y);
    l.winner = (struct fm_cuda_bytes){im.device + winner, 6};
    l.w = w.strides;
    image_mark_tensor(&im, &y);
    image_mark(&im, winner, 6);
    for (int relu = 0; relu < 2; relu++) {
        l.activation.kind = relu ? FM_ACT_RELU : FM_ACT_LINEAR;
        image_check(&im, conv_pool, &l, 1, "NaN and ties");
        for (int f = 0; f < 3; f++) {
            cr_assert(isnan(result_at(&im, y.at)[f]));
            cr_assert_eq(im.result[winner + (size_t)f], 1);
            cr_assert_eq(result_at(&im, y.at)[3 + f], 2);
            cr_assert_eq(im.result[winner + 3 + (size_t)f], 1);
        }
    }
    image_close(&im);
}

/* Average pools, overlapping or padded ones, groups, stored derivatives and large kernels are refused. */
Test(letters, conv_pool_knows_its_limits)
{
    const struct fm_cuda_conv conv = {20, 1, 16, 8, 5, 1, 1, 1, 0};
    const struct fm_cuda_pool pool = {16, 8, 8, 2, 2, 0, 0};
    cr_assert(fm_cuda_conv_pool_can(&conv, &pool, FM_ACT_RELU));
    cr_assert_not(fm_cuda_conv_pool_can(&conv, &pool, FM_ACT_SWISH));
    cr_assert_not(fm_cuda_conv_pool_can(&conv, &pool, FM_ACT_SOFTMAX));
    struct fm_cuda_pool p = pool;
    p.average = 1;
    cr_assert_not(fm_cuda_conv_pool_can(&conv, &p, FM_ACT_RELU));
    p = pool;
    p.stride = 1;
    cr_assert_not(fm_cuda_conv_pool_can(&conv, &p, FM_ACT_RELU));
    p = pool;
    p.pad = 1;
    cr_assert_not(fm_cuda_conv_pool_can(&conv, &p, FM_ACT_RELU));
    struct fm_cuda_conv c = conv;
    c.groups = 2;
    cr_assert_not(fm_cuda_conv_pool_can(&c, &pool, FM_ACT_RELU));
    c = conv;
    c.in_channels = 64;
    cr_assert_not(fm_cuda_conv_pool_can(&c, &pool, FM_ACT_RELU));
}
