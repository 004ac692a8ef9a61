#include "support/random_net.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/text.h"

struct draw {
    uint64_t key;
    uint32_t place;
};

/* 0 .. limit - 1 */
static int64_t whole(struct draw *d, int64_t limit)
{
    uint32_t out[4];
    const uint32_t counter[4] = {d->place++, 0, 0, 0};
    fm_philox(counter, d->key, out);
    return (int64_t)(out[0] % (uint64_t)limit);
}

static int64_t between(struct draw *d, int64_t low, int64_t high)
{
    return low + whole(d, high - low + 1);
}

static double real_between(struct draw *d, double low, double high)
{
    return low + (high - low) * (double)whole(d, 1 << 20) / (1 << 20);
}

/* What stands behind the layers drawn so far; rows are those without padding, a guide only. */
struct shape {
    int64_t rows, channels;
};

static bool is_any(const struct ts_random_net *net)
{
    return net->kind == TS_NET_ANY;
}

static bool is_smooth(const struct ts_random_net *net)
{
    return net->kind == TS_NET_SMOOTH;
}

/* Channels, filters or units: at small kinds a few. */
static int64_t width(struct draw *d, const struct ts_random_net *net, int64_t small)
{
    static const int64_t odd[] = {1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 48, 64, 65};
    if (!is_any(net)) return between(d, 1, small);
    return whole(d, 3) ? odd[whole(d, 10)] : odd[whole(d, 14)];
}

/* ---- layers ---- */

static const char *const smooth_activations[] = {"linear", "swish",   "gelu", "softplus",
                                                 "tanh",   "sigmoid", "mish", "softmax"};
static const char *const activations[] = {"relu", "leaky_relu", "elu", "selu", "hard_sigmoid", "relu"};

static const char *activation(struct draw *d, struct ts_random_net *net)
{
    if (is_smooth(net) || whole(d, 2)) return smooth_activations[whole(d, 8)];
    net->kinks = true;
    return activations[whole(d, 6)];
}

static void regularizers(struct draw *d, struct ts_random_net *net)
{
    const int64_t kind = whole(d, 6);
    if (kind == 0) fm_text_add(&net->yaml, ", kernel_regularizer: {l2: {l2: 0.03}}");
    if (kind == 1 && !is_smooth(net))
        fm_text_add(&net->yaml, ", kernel_regularizer: {l1_l2: {l1: 0.02, l2: 0.01}}");
}

/* Any divisor of the channels, more often all of them. */
static int64_t draw_groups(struct draw *d, int64_t channels)
{
    if (whole(d, 3)) return 1;
    if (whole(d, 2)) return channels;
    const int64_t g = between(d, 1, channels);
    return channels % g == 0 ? g : 1;
}

static int64_t draw_filters(struct draw *d, const struct ts_random_net *net, int64_t groups)
{
    static const int64_t each[] = {1, 2, 3, 5, 16, 17, 20};
    if (groups == 1) return width(d, net, 19);
    const int64_t filters = groups * (is_any(net) ? each[whole(d, 7)] : between(d, 1, 2));
    return filters > 96 ? groups : filters;
}

static int64_t kernel_size(struct draw *d, const struct shape *shape)
{
    const int64_t most = shape->rows < 9 ? shape->rows : 9;
    return between(d, 1, whole(d, 4) && most > 5 ? 5 : most);
}

static void conv_with(struct draw *d, struct ts_random_net *net, struct shape *shape, const char *function)
{
    static const char *const paddings[] = {"valid", "same", "causal"};
    const int64_t groups = draw_groups(d, shape->channels), filters = draw_filters(d, net, groups);
    const int64_t size = kernel_size(d, shape), padding = whole(d, 3);
    fm_text_add(&net->yaml,
                "  - conv1d: {filters: %d, kernel_size: %d, groups: %d, padding: %s, activation: %s",
                (int)filters, (int)size, (int)groups, paddings[padding], function);
    int64_t stride = 1, dilation = 1;
    if (whole(d, 3) == 0)
        fm_text_add(&net->yaml, ", strides: %d", (int)(stride = between(d, 1, 4)));
    else if (whole(d, 3) == 0 && (padding != 0 || size * 4 <= shape->rows))
        fm_text_add(&net->yaml, ", dilation_rate: %d", (int)(dilation = between(d, 1, 4)));
    if (whole(d, 4) == 0) fm_text_add(&net->yaml, ", use_bias: false");
    fm_text_add(&net->yaml, ", bias_initializer: {random_normal: {stddev: 0.3}}");
    regularizers(d, net);
    fm_text_add(&net->yaml, "}\n");
    shape->channels = filters;
    shape->rows = (shape->rows - (padding == 0 ? (size - 1) * dilation : 0) + stride - 1) / stride;
    if (shape->rows < 1) shape->rows = 1;
}

static void conv(struct draw *d, struct ts_random_net *net, struct shape *shape)
{
    conv_with(d, net, shape, activation(d, net));
}

static void pool(struct draw *d, struct ts_random_net *net, struct shape *shape)
{
    const bool average = is_smooth(net) || whole(d, 2), same = whole(d, 2);
    const bool huge = is_any(net) && shape->rows > 256 && whole(d, 2);
    if (!average) net->kinks = true;
    int64_t size = huge ? between(d, 250, shape->rows) : between(d, 2, is_any(net) ? 9 : 4), stride = size;
    if (!same && size > shape->rows) size = stride = shape->rows;
    fm_text_add(&net->yaml, "  - %s_pooling1d: {pool_size: %d, padding: %s", average ? "average" : "max",
                (int)size, same ? "same" : "valid");
    if (whole(d, 2)) fm_text_add(&net->yaml, ", strides: %d", (int)(stride = between(d, 1, 4)));
    fm_text_add(&net->yaml, "}\n");
    shape->rows = same ? (shape->rows + stride - 1) / stride : (shape->rows - size) / stride + 1;
}

/* What engines fuse: a convolution, relu or nothing, a max pool that leaves no cell out or in twice. */
static void conv_pool(struct draw *d, struct ts_random_net *net, struct shape *shape)
{
    conv_with(d, net, shape, whole(d, 3) ? "relu" : "linear");
    net->kinks = true;
    const int64_t most = shape->rows < 9 ? shape->rows : 9;
    const int64_t size = whole(d, 2) ? between(d, 1, most) : between(d, 1, most < 4 ? most : 4);
    fm_text_add(&net->yaml, "  - max_pooling1d: {pool_size: %d}\n", (int)size);
    shape->rows /= size;
}

static void norm(struct draw *d, struct ts_random_net *net)
{
    fm_text_add(&net->yaml,
                "  - %s_normalization: {center: %s, scale: %s, gamma_initializer: {random_normal: "
                "{mean: 1.0, stddev: 0.3}}}\n",
                whole(d, 2) ? "batch" : "layer", whole(d, 3) ? "true" : "false",
                whole(d, 3) ? "true" : "false");
}

/* A bias of zero over inputs that relu made zero would stand on a kink. */
static void dense(struct draw *d, struct ts_random_net *net, int64_t units)
{
    fm_text_add(&net->yaml,
                "  - dense: {units: %d, activation: %s, bias_initializer: {random_normal: {stddev: 0.3}}",
                (int)units, activation(d, net));
    if (whole(d, 5) == 0) fm_text_add(&net->yaml, ", use_bias: false");
    regularizers(d, net);
    fm_text_add(&net->yaml, "}\n");
}

static void hidden_layer(struct draw *d, struct ts_random_net *net, struct shape *shape)
{
    switch (whole(d, is_any(net) ? 10 : 7)) {
    case 0:
    case 1: conv(d, net, shape); break;
    case 2: pool(d, net, shape); break;
    case 3: norm(d, net); break;
    case 4: fm_text_add(&net->yaml, "  - dropout: {rate: 0.3}\n"); break;
    case 5: fm_text_add(&net->yaml, "  - spatial_dropout1d: {rate: 0.25}\n"); break;
    case 6:
        shape->channels = width(d, net, 9);
        dense(d, net, shape->channels);
        break;
    case 7: fm_text_add(&net->yaml, "  - activation: {activation: %s}\n", activation(d, net)); break;
    default: conv_pool(d, net, shape);
    }
}

static void flatten(struct draw *d, struct ts_random_net *net)
{
    switch (whole(d, 4)) {
    case 0: fm_text_add(&net->yaml, "  - global_average_pooling1d\n"); break;
    case 1:
        if (!is_smooth(net)) {
            net->kinks = true;
            fm_text_add(&net->yaml, "  - global_max_pooling1d\n");
            break;
        } /* fall through */
    default: fm_text_add(&net->yaml, "  - flatten\n");
    }
}

static void model(struct draw *d, struct ts_random_net *net)
{
    const struct ts_examples *e = &net->examples;
    struct shape shape = {e->length ? e->length : e->rows, e->letters ? e->alphabet : e->channels};
    fm_text_add(&net->yaml, "model:\n");
    const int64_t first = whole(d, 6);
    if (is_any(net) && first == 0) conv_pool(d, net, &shape);
    if (first == 1 || first == 2 || (!is_any(net) && first == 0)) conv(d, net, &shape);
    for (int64_t layers = whole(d, is_any(net) ? 5 : 4); layers > 0; layers--) hidden_layer(d, net, &shape);
    flatten(d, net);
    if (whole(d, 3) == 0) {
        dense(d, net, width(d, net, 11));
        if (whole(d, 2)) norm(d, net);
        if (whole(d, 4) == 0) norm(d, net);
        if (whole(d, 4) == 0) fm_text_add(&net->yaml, "  - dropout: {rate: 0.5}\n");
    }
}

/* ---- loss, optimizer ---- */

static const char *loss(struct draw *d, struct ts_random_net *net, int64_t k)
{
    struct ts_examples *e = &net->examples;
    e->width = 1;
    switch (whole(d, is_smooth(net) ? 5 : 7)) {
    case 0: e->nclasses = k; return "sparse_categorical_crossentropy";
    case 1: e->nclasses = k; return "{categorical_crossentropy: {label_smoothing: 0.15}}";
    case 2:
        e->distribution = true;
        e->width = k;
        return "categorical_crossentropy";
    case 3: e->nclasses = 2; return "{binary_crossentropy: {label_smoothing: 0.1}}";
    case 4: return "mse";
    case 5: net->kinks = true; return "mae";
    default: net->kinks = true; return "{huber: {delta: 0.4}}";
    }
}

static void optimizer(struct draw *d, struct ts_random_net *net)
{
    static const char *const rules[] = {
        "sgd: {learning_rate: 0.005",
        "sgd: {learning_rate: 0.003, momentum: 0.9",
        "sgd: {learning_rate: 0.003, momentum: 0.8, nesterov: true",
        "adam: {learning_rate: 0.01, epsilon: 0.01",
        "adam: {learning_rate: 0.02, epsilon: 0.05, amsgrad: true, beta_1: 0.8",
        "adamw: {learning_rate: 0.01, epsilon: 0.02, beta_2: 0.9",
        "rmsprop: {learning_rate: 0.01, epsilon: 0.05",
        "rmsprop: {learning_rate: 0.005, epsilon: 0.05, momentum: 0.7, rho: 0.8",
        "rmsprop: {learning_rate: 0.01, epsilon: 0.1, centered: true",
    };
    static const char *const clips[] = {", clipnorm: 0.3", ", global_clipnorm: 0.5", ", clipvalue: 0.05"};
    fm_text_add(&net->yaml, "  optimizer: {%s", rules[whole(d, 9)]);
    if (whole(d, 3) == 0) fm_text_add(&net->yaml, ", weight_decay: 0.02");
    if (whole(d, 3) == 0) fm_text_add(&net->yaml, "%s", clips[whole(d, 3)]);
    fm_text_add(&net->yaml, "}}\n");
    if (whole(d, 4) == 0) fm_text_add(&net->yaml, "  shuffle: false\n");
}

/* Last layer, loss and what targets they want. */
static void head(struct draw *d, struct ts_random_net *net)
{
    const struct ts_examples *e = &net->examples;
    const int64_t k = is_any(net) && whole(d, 4) == 0 ? between(d, 6, 21) : between(d, 2, 5);
    const char *name = loss(d, net, k);
    const bool binary = strstr(name, "binary"), many = e->distribution || (e->nclasses && !binary);
    const int64_t batch =
        is_any(net) ? between(d, 1, e->train < 70 ? e->train : 70) : between(d, 2, e->train);
    fm_text_add(&net->yaml, "  - dense: {units: %d%s}\n", many ? (int)k : 1,
                many     ? ", activation: softmax"
                : binary ? ", activation: sigmoid"
                         : "");
    fm_text_add(&net->yaml, "train:\n  loss: %s\n  batch_size: %d\n  epochs: 1\n", name, (int)batch);
    if (is_any(net)) optimizer(d, net);
}

/* ---- data ---- */

static void draw_targets(struct draw *d, struct ts_random_net *net)
{
    struct ts_examples *e = &net->examples;
    for (int64_t i = 0; i < e->n; i++) {
        double sum = 0;
        net->classes[i] = (uint32_t)whole(d, e->nclasses ? e->nclasses : 1);
        net->weights[i] = (float)real_between(d, 0.2, 2);
        for (int64_t k = 0; k < e->width; k++) {
            net->values[i * e->width + k] = (float)real_between(d, e->distribution ? 0.1 : -1, 1);
            sum += net->values[i * e->width + k];
        }
        for (int64_t k = 0; e->distribution && k < e->width; k++)
            net->values[i * e->width + k] = (float)(net->values[i * e->width + k] / sum);
    }
    for (int c = 0; c < 8; c++) net->class_weights[c] = (float)real_between(d, 0.5, 2);
    e->values = net->values;
    e->classes = e->nclasses ? net->classes : NULL;
    e->weights = whole(d, 2) ? net->weights : NULL;
    net->weighted = e->nclasses && e->nclasses <= 8 && whole(d, 2);
}

static bool draw_data(struct draw *d, struct ts_random_net *net)
{
    struct ts_examples *e = &net->examples;
    const int64_t count = e->n * e->rows * (e->letters ? 1 : e->channels);
    net->values = calloc((size_t)(e->n * e->width), sizeof *net->values);
    net->classes = calloc((size_t)e->n, sizeof *net->classes);
    net->weights = calloc((size_t)e->n, sizeof *net->weights);
    if (!net->values || !net->classes || !net->weights) return false;
    for (int64_t i = 0; i < count && !e->letters; i++) net->x[i] = (float)real_between(d, -1.5, 1.5);
    for (int64_t i = 0; i < count && e->letters; i++)
        net->letters[i] = whole(d, 8) == 0 ? FM_NO_LETTER : (uint8_t)whole(d, e->alphabet);
    draw_targets(d, net);
    for (int64_t c = 0; c < 96; c++) {
        net->shift[c] = (float)real_between(d, -0.5, 0.5);
        net->factor[c] = (float)real_between(d, 0.5, 2);
    }
    if (is_any(net) && whole(d, 2)) e->shift = net->shift;
    if (is_any(net) && whole(d, 2)) e->factor = net->factor;
    return true;
}

static void draw_sizes(struct draw *d, struct ts_random_net *net)
{
    struct ts_examples *e = &net->examples;
    e->train = between(d, 3, 9);
    e->n = e->train + between(d, 1, 5);
    e->rows = between(d, 4, 13);
    if (!is_any(net)) return;
    if (whole(d, 2)) e->train = between(d, 10, 90);
    e->n = e->train + (whole(d, 6) ? between(d, 1, 20) : between(d, 100, 200));
    if (whole(d, 2)) e->rows = between(d, 9, 40);
    if (whole(d, 12) == 0) e->rows = between(d, 257, 300);
    if (whole(d, 4) == 0) e->length = e->rows + between(d, 1, 5);
}

bool ts_random_net_init(struct ts_random_net *net, uint64_t seed, enum ts_net_kind kind)
{
    struct draw d = {.key = seed};
    memset(net, 0, sizeof *net);
    net->kind = kind;
    struct ts_examples *e = &net->examples;
    draw_sizes(&d, net);
    if (whole(&d, 3) == 0) {
        e->alphabet = is_any(net) ? between(&d, 2, 21) : between(&d, 2, 6);
        net->letters = calloc((size_t)(e->n * e->rows), 1);
        e->letters = net->letters;
    } else {
        e->channels = is_any(net) && whole(&d, 3) == 0 ? width(&d, net, 4) : between(&d, 1, 4);
        if (is_any(net) && whole(&d, 3) == 0) e->channels = 1;
        net->x = calloc((size_t)(e->n * e->rows * e->channels), sizeof *net->x);
        e->x = net->x;
    }
    if (!e->letters && !e->x) return false;
    model(&d, net);
    head(&d, net);
    return draw_data(&d, net) && !net->yaml.failed;
}

void ts_random_net_fini(struct ts_random_net *net)
{
    fm_text_fini(&net->yaml);
    free(net->x);
    free(net->letters);
    free(net->values);
    free(net->weights);
    free(net->classes);
}
