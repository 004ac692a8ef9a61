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

static const char *const smooth_activations[] = {"linear", "swish",   "gelu", "softplus",
                                                 "tanh",   "sigmoid", "mish", "softmax"};
static const char *const activations[] = {"relu", "leaky_relu", "elu", "selu", "hard_sigmoid"};

static const char *activation(struct draw *d, struct ts_random_net *net, bool smooth)
{
    if (smooth || whole(d, 2)) return smooth_activations[whole(d, 8)];
    net->kinks = true;
    return activations[whole(d, 5)];
}

static void regularizers(struct draw *d, struct fm_text *t, bool smooth)
{
    const int64_t kind = whole(d, 6);
    if (kind == 0) fm_text_add(t, ", kernel_regularizer: {l2: {l2: 0.03}}");
    if (kind == 1 && !smooth) fm_text_add(t, ", kernel_regularizer: {l1_l2: {l1: 0.02, l2: 0.01}}");
}

static void conv(struct draw *d, struct ts_random_net *net, int64_t *channels, bool smooth)
{
    static const char *const paddings[] = {"valid", "same", "causal"};
    const int64_t groups = whole(d, 3) == 0 ? *channels : 1;
    const int64_t filters = groups * between(d, 1, groups > 1 ? 2 : 19);
    const bool strided = whole(d, 3) == 0;
    fm_text_add(
        &net->yaml, "  - conv1d: {filters: %d, kernel_size: %d, groups: %d, padding: %s, activation: %s",
        (int)filters, (int)between(d, 1, 5), (int)groups, paddings[whole(d, 3)], activation(d, net, smooth));
    if (strided)
        fm_text_add(&net->yaml, ", strides: %d", (int)between(d, 1, 3));
    else if (whole(d, 3) == 0)
        fm_text_add(&net->yaml, ", dilation_rate: %d", (int)between(d, 1, 3));
    if (whole(d, 4) == 0) fm_text_add(&net->yaml, ", use_bias: false");
    fm_text_add(&net->yaml, ", bias_initializer: {random_normal: {stddev: 0.3}}");
    regularizers(d, &net->yaml, smooth);
    fm_text_add(&net->yaml, "}\n");
    *channels = filters;
}

static void pool(struct draw *d, struct ts_random_net *net, bool smooth)
{
    const bool average = smooth || whole(d, 2);
    if (!average) net->kinks = true;
    fm_text_add(&net->yaml, "  - %s_pooling1d: {pool_size: %d, padding: %s", average ? "average" : "max",
                (int)between(d, 2, 4), whole(d, 2) ? "same" : "valid");
    if (whole(d, 2)) fm_text_add(&net->yaml, ", strides: %d", (int)between(d, 1, 3));
    fm_text_add(&net->yaml, "}\n");
}

static void norm(struct draw *d, struct ts_random_net *net)
{
    fm_text_add(&net->yaml,
                "  - %s_normalization: {center: %s, scale: %s, gamma_initializer: {random_normal: "
                "{mean: 1.0, stddev: 0.3}}}\n",
                whole(d, 2) ? "batch" : "layer", whole(d, 3) ? "true" : "false",
                whole(d, 3) ? "true" : "false");
}

static void hidden_layer(struct draw *d, struct ts_random_net *net, int64_t *channels, bool smooth)
{
    switch (whole(d, 7)) {
    case 0:
    case 1: conv(d, net, channels, smooth); break;
    case 2: pool(d, net, smooth); break;
    case 3: norm(d, net); break;
    case 4: fm_text_add(&net->yaml, "  - dropout: {rate: 0.3}\n"); break;
    case 5: fm_text_add(&net->yaml, "  - spatial_dropout1d: {rate: 0.25}\n"); break;
    default:
        *channels = between(d, 1, 9);
        /* A bias of zero over inputs that relu made zero would stand on a kink. */
        fm_text_add(&net->yaml,
                    "  - dense: {units: %d, activation: %s, bias_initializer: {random_normal: {stddev: 0.3}}",
                    (int)*channels, activation(d, net, smooth));
        regularizers(d, &net->yaml, smooth);
        fm_text_add(&net->yaml, "}\n");
    }
}

static void model(struct draw *d, struct ts_random_net *net, bool smooth)
{
    int64_t channels = net->examples.letters ? net->examples.alphabet : net->examples.channels;
    fm_text_add(&net->yaml, "model:\n");
    if (!net->examples.letters || whole(d, 2)) conv(d, net, &channels, smooth);
    for (int64_t layers = whole(d, 4); layers > 0; layers--) hidden_layer(d, net, &channels, smooth);
    switch (whole(d, 4)) {
    case 0: fm_text_add(&net->yaml, "  - global_average_pooling1d\n"); break;
    case 1:
        if (!smooth) {
            net->kinks = true;
            fm_text_add(&net->yaml, "  - global_max_pooling1d\n");
            break;
        } /* fall through */
    default: fm_text_add(&net->yaml, "  - flatten\n");
    }
    if (whole(d, 3) == 0) {
        fm_text_add(
            &net->yaml,
            "  - dense: {units: %d, activation: %s, bias_initializer: {random_normal: {stddev: 0.3}}}\n",
            (int)between(d, 1, 11), activation(d, net, smooth));
        if (whole(d, 2)) norm(d, net);
    }
}

/* Last layer, loss and what targets they want. */
static void head(struct draw *d, struct ts_random_net *net, bool smooth)
{
    struct ts_examples *e = &net->examples;
    const int64_t k = between(d, 2, 5);
    const char *loss = "mse";
    e->width = 1;
    switch (whole(d, smooth ? 5 : 7)) {
    case 0:
        loss = "sparse_categorical_crossentropy";
        e->nclasses = k;
        break;
    case 1:
        loss = "{categorical_crossentropy: {label_smoothing: 0.15}}";
        e->nclasses = k;
        break;
    case 2:
        loss = "categorical_crossentropy";
        e->distribution = true;
        e->width = k;
        break;
    case 3:
        loss = "{binary_crossentropy: {label_smoothing: 0.1}}";
        e->nclasses = 2;
        break;
    case 4: break;
    case 5:
        loss = "mae";
        net->kinks = true;
        break;
    default: loss = "{huber: {delta: 0.4}}"; net->kinks = true;
    }
    const bool many = e->distribution || (e->nclasses && !strstr(loss, "binary"));
    fm_text_add(&net->yaml, "  - dense: {units: %d%s}\n", many ? (int)k : 1,
                many                     ? ", activation: softmax"
                : strstr(loss, "binary") ? ", activation: sigmoid"
                                         : "");
    fm_text_add(&net->yaml, "train:\n  loss: %s\n  batch_size: %d\n  epochs: 1\n", loss,
                (int)between(d, 2, e->train));
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
    net->weighted = e->nclasses && whole(d, 2);
    return true;
}

bool ts_random_net_init(struct ts_random_net *net, uint64_t seed, bool smooth)
{
    struct draw d = {.key = seed};
    memset(net, 0, sizeof *net);
    struct ts_examples *e = &net->examples;
    e->train = between(&d, 3, 9);
    e->n = e->train + between(&d, 1, 5);
    e->rows = between(&d, 4, 13);
    if (whole(&d, 3) == 0) {
        e->alphabet = between(&d, 2, 6);
        net->letters = calloc((size_t)(e->n * e->rows), 1);
        e->letters = net->letters;
    } else {
        e->channels = between(&d, 1, 4);
        net->x = calloc((size_t)(e->n * e->rows * e->channels), sizeof *net->x);
        e->x = net->x;
    }
    if (!e->letters && !e->x) return false;
    model(&d, net, smooth);
    head(&d, net, smooth);
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
