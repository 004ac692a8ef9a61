/* Shapes, variables and parameter counts: against Keras's goldens, the nets of users.md and case A09. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/layers.h"
#include "net/window.h"
#include "support/network.h"
#include "support/support.h"

static int64_t dimension(const json_t *object, size_t i)
{
    return json_integer_value(json_array_get(json_object_get(object, "shape"), i));
}

static size_t rank(const json_t *object)
{
    return json_array_size(json_object_get(object, "shape"));
}

/* The layer of a golden case at the front of a network that takes the case's input. */
static void compile_case(struct ts_network *n, const json_t *golden)
{
    const json_t *x = json_object_get(golden, "x");
    bool flat = rank(x) == 2;
    char *layer = json_dumps(json_object_get(golden, "layer"), JSON_COMPACT | JSON_REAL_PRECISION(17));
    char model[1024];
    cr_assert_not_null(layer);
    snprintf(model, sizeof model, "[%s%s, flatten, {dense: {units: 2, activation: softmax}}]",
             flat ? "flatten, " : "", layer);
    free(layer);
    struct fm_net_input input = ts_net_input(flat ? 1 : dimension(x, 1), dimension(x, flat ? 1 : 2));
    struct fm_train_config train = ts_net_train(FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY);
    ts_network_init(n, model, &input, &train);
    cr_assert_eq(n->code, 0, "%s: %s", model, n->error.text);
}

static void compare_variables(const struct ts_network *n, const json_t *weights, const char *what)
{
    size_t i;
    json_t *w;
    cr_assert_eq((size_t)n->program->nvariables, json_array_size(weights) + 2, "%s", what);
    json_array_foreach(weights, i, w)
    {
        const struct fm_variable *v = &n->program->variables[i];
        const char *slash = strchr(v->name, '/');
        cr_assert_str_eq(slash + 1, json_string_value(json_object_get(w, "name")), "%s", what);
        cr_assert_eq((size_t)v->rank, rank(w), "%s %s", what, v->name);
        for (int k = 0; k < v->rank; k++)
            cr_assert_eq(v->shape[k], dimension(w, (size_t)k), "%s %s dimension %d", what, v->name, k);
    }
}

Test(net_shapes, layers_have_keras_shapes_and_variables)
{
    json_t *goldens = ts_golden("layers"), *golden;
    cr_assert_not_null(goldens);
    size_t i, compared = 0;
    json_array_foreach(json_object_get(goldens, "cases"), i, golden)
    {
        struct ts_network n;
        compile_case(&n, golden);
        const json_t *x = json_object_get(golden, "x"), *y = json_object_get(golden, "y");
        const struct fm_layer_info *layer = &n.program->layers[rank(x) == 2 ? 1 : 0];
        cr_assert_eq((size_t)layer->rank, rank(y), "case %zu", i);
        cr_assert_eq(layer->out_rows, layer->rank == 3 ? dimension(y, 1) : 1, "case %zu: %" PRId64 " rows", i,
                     layer->out_rows);
        cr_assert_eq(layer->out_channels, dimension(y, rank(y) - 1), "case %zu", i);
        compare_variables(&n, json_object_get(golden, "weights"), layer->path);
        ts_network_fini(&n);
        compared++;
    }
    json_decref(goldens);
    cr_assert_geq(compared, 100u);
}

static int64_t parameters(const char *model, const struct fm_net_input *input)
{
    struct ts_network n;
    struct fm_train_config train = ts_net_train(FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY);
    ts_network_init(&n, model, input, &train);
    cr_assert_eq(n.code, 0, "%s", n.error.text);
    int64_t count = n.program->param_count, sum = 0;
    for (int i = 0; i < n.program->nvariables; i++) {
        cr_assert_eq(n.program->variables[i].offset, sum);
        sum += n.program->variables[i].count;
    }
    cr_assert_eq(sum, n.program->float_count);
    ts_network_fini(&n);
    return count;
}

#define SENSOR_NET                                                                                           \
    "[{conv1d: {filters: 24, kernel_size: 9, activation: relu}}, {max_pooling1d: {pool_size: 4}}, flatten, " \
    "{dense: {units: 20, activation: relu}}, {dense: {units: 2, activation: softmax}}]"

static struct fm_net_input letters(int64_t rows, int64_t alphabet)
{
    return (struct fm_net_input){.rows = rows,
                                 .channels = alphabet,
                                 .letters = true,
                                 .nclasses = 3,
                                 .exact_classes = true,
                                 .target_width = 1};
}

static const char *protein_net(int depth, char buffer[256])
{
    snprintf(
        buffer, 256,
        "[{repeat: {times: %d, layers: [{conv1d: {filters: 64, kernel_size: 5, padding: same, activation: "
        "swish}}]}}, flatten, {dense: {units: 3, activation: softmax}}]",
        depth);
    return buffer;
}

Test(net_shapes, nets_of_users_md_have_their_parameter_counts)
{
    char model[256];
    struct fm_net_input sensor = ts_net_input(104, 1), protein = letters(17, 21);
    cr_expect_eq(parameters(SENSOR_NET, &sensor), 11822);
    cr_expect_eq(parameters(protein_net(2, model), &protein), 30595);
    cr_expect_eq(parameters(protein_net(3, model), &protein), 51139);
}

Test(net_shapes, sensor_net_has_the_shapes_of_the_paper_check)
{
    struct ts_network n;
    struct fm_net_input input = ts_net_input(104, 1);
    struct fm_train_config train = ts_net_train(FM_LOSS_CATEGORICAL_CROSSENTROPY);
    ts_network_init(&n, SENSOR_NET, &input, &train);
    cr_assert_eq(n.code, 0, "%s", n.error.text);
    static const int64_t shapes[5][3] = {{3, 96, 24}, {3, 24, 24}, {2, 1, 576}, {2, 1, 20}, {2, 1, 2}};
    static const char *const names[] = {"conv1d/kernel", "conv1d/bias",    "dense/kernel",
                                        "dense/bias",    "dense_1/kernel", "dense_1/bias"};
    cr_assert_eq(n.program->nlayers, 5);
    for (int i = 0; i < 5; i++) {
        cr_expect_eq(n.program->layers[i].rank, shapes[i][0]);
        cr_expect_eq(n.program->layers[i].out_rows, shapes[i][1]);
        cr_expect_eq(n.program->layers[i].out_channels, shapes[i][2]);
    }
    cr_assert_eq(n.program->nvariables, 6);
    for (int i = 0; i < 6; i++) cr_expect_str_eq(n.program->variables[i].name, names[i]);
    cr_expect_eq(n.program->score_width, 1);
    cr_expect(n.program->loss.logits);
    ts_network_fini(&n);
}

/* ---- A09: a grid in which half the kernels and pools do not fit ---- */

static void a09(int kernel, int pool, struct ts_network *n)
{
    char model[256];
    struct fm_net_input input = ts_net_input(24, 1);
    struct fm_train_config train = ts_net_train(FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY);
    snprintf(
        model, sizeof model,
        "- repeat: {times: 2, layers: [{conv1d: {filters: 4, kernel_size: %d}}, {max_pooling1d: {pool_size: "
        "%d}}]}\n- flatten\n- dense: {units: 2, activation: softmax}\n",
        kernel, pool);
    ts_network_init(n, model, &input, &train);
}

Test(net_shapes, a09_lengths_and_parameters)
{
    static const int cases[4][7] = {{3, 2, 22, 11, 9, 4, 102},
                                    {3, 3, 22, 7, 5, 1, 78},
                                    {5, 2, 20, 10, 6, 3, 134},
                                    {7, 2, 18, 9, 3, 1, 158}};
    for (int i = 0; i < 4; i++) {
        struct ts_network n;
        a09(cases[i][0], cases[i][1], &n);
        cr_assert_eq(n.code, 0, "%s", n.error.text);
        for (int k = 0; k < 4; k++) cr_expect_eq(n.program->layers[k].out_rows, cases[i][2 + k]);
        cr_expect_eq(n.program->param_count, cases[i][6]);
        ts_network_fini(&n);
    }
}

Test(net_shapes, a09_reasons_name_layer_input_and_what_fits)
{
    static const struct {
        int kernel, pool;
        const char *reason;
    } cases[] = {
        {5, 3,
         "model[0].repeat[1].layers[1].max_pooling1d: pool_size 3 is longer than its input of 2 positions x "
         "4 "
         "channels; pool_size at most 2 fits, or padding: same"},
        {7, 3,
         "model[0].repeat[1].layers[0].conv1d: kernel_size 7 is longer than its input of 6 positions x 4 "
         "channels; "
         "kernel_size at most 6 fits, or padding: same"},
        {25, 2,
         "model[0].repeat[0].layers[0].conv1d: kernel_size 25 is longer than its input of 24 positions x 1 "
         "channel; "
         "kernel_size at most 24 fits, or padding: same"},
        {25, 3,
         "model[0].repeat[0].layers[0].conv1d: kernel_size 25 is longer than its input of 24 positions x 1 "
         "channel; "
         "kernel_size at most 24 fits, or padding: same"},
    };
    for (size_t i = 0; i < 4; i++) {
        struct ts_network n;
        a09(cases[i].kernel, cases[i].pool, &n);
        cr_expect_eq(n.code, FM_ESHAPE);
        cr_expect_null(n.program);
        cr_expect_str_eq(n.error.text, cases[i].reason);
        cr_expect_str_eq(n.error.file, "net.yaml");
        cr_expect_eq(n.error.line, 1);
        ts_network_fini(&n);
    }
}

/* ---- padding ---- */

Test(net_shapes, padding_is_split_as_tensorflow_does)
{
    static const struct {
        int64_t rows, taps, stride, dilation;
        enum fm_padding padding;
        int64_t out, before, after;
    } cases[] = {
        /* semantics.md 1.1 */
        {10, 2, 1, 1, FM_PADDING_SAME, 10, 0, 1},   {10, 4, 1, 1, FM_PADDING_SAME, 10, 1, 2},
        {8, 3, 2, 1, FM_PADDING_SAME, 4, 0, 1},     {9, 3, 2, 1, FM_PADDING_SAME, 5, 1, 1},
        {11, 2, 5, 1, FM_PADDING_SAME, 3, 0, 1},    {10, 2, 3, 1, FM_PADDING_SAME, 4, 0, 1},
        {4, 7, 1, 1, FM_PADDING_SAME, 4, 3, 3},     {11, 3, 1, 2, FM_PADDING_SAME, 11, 2, 2},
        {7, 3, 1, 1, FM_PADDING_CAUSAL, 7, 2, 0},   {9, 4, 3, 1, FM_PADDING_CAUSAL, 3, 3, 0},
        {13, 4, 1, 3, FM_PADDING_CAUSAL, 13, 9, 0}, {10, 3, 4, 1, FM_PADDING_VALID, 2, 0, 0},
        {13, 4, 1, 3, FM_PADDING_VALID, 4, 0, 0},
    };
    struct fm_window_fit w;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert(fm_window_fit(cases[i].rows, cases[i].taps, cases[i].stride, cases[i].dilation,
                                cases[i].padding, &w));
        cr_expect_eq(w.rows, cases[i].out, "%zu: %" PRId64 " rows", i, w.rows);
        cr_expect_eq(w.pad_before, cases[i].before, "%zu: %" PRId64 " before", i, w.pad_before);
        cr_expect_eq(w.pad_after, cases[i].after, "%zu: %" PRId64 " after", i, w.pad_after);
    }
    cr_expect_not(fm_window_fit(9, 4, 1, 3, FM_PADDING_VALID, &w));
    cr_expect(fm_window_fit(10, 4, 1, 3, FM_PADDING_VALID, &w));
    cr_expect_eq(w.rows, 1);
}
