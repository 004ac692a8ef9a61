/* Every layer of tests/goldens/layers.json and every activation of activations.json, forward and backward,
 * through compiled programs in float, double and on the CPU engine. An identity convolution stands before the
 * layer, so that its input gradient is computed; a dense unit stands behind it, whose gradient is replaced by
 * the golden's. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "support/inside.h"
#include "support/support.h"
#include "support/tolerance.h"

struct golden {
    const char *name; /* for messages */
    const json_t *layer;
    bool inference; /* only y, in inference mode */
    const float *x;
    int64_t shape[3]; /* N, L, C */
    bool flat;        /* x is (N, C) */
    const json_t *weights, *dweights, *moving;
    const double *y, *dy, *dx; /* expected; dx may be NULL */
    size_t outputs;
    enum ts_tolerance forward, backward;
};

/* Portable parameters: the identity, the layer's weights, anything for the last dense. */
static void write_weights(struct ts_bench *bench, struct fm_lane *lane, const struct golden *g)
{
    float *p = calloc((size_t)bench->program->float_count, sizeof *p);
    cr_assert_not_null(p);
    const int64_t c = g->shape[2];
    int64_t at = c * c;
    for (int64_t i = 0; i < c; i++) p[i * c + i] = 1;
    size_t i;
    json_t *weight;
    json_array_foreach(g->weights, i, weight)
    {
        int64_t shape[3];
        size_t count;
        float *values = inside_floats(weight, shape, &count);
        cr_assert(values && at + (int64_t)count <= bench->program->float_count, "%s: too many weights",
                  g->name);
        memcpy(p + at, values, count * sizeof *p);
        at += (int64_t)count;
        free(values);
    }
    for (int64_t k = at; k < bench->program->float_count; k++) p[k] = 0.25f;
    cr_assert(bench->backend->parameters_write(lane, p, &bench->error) == 0);
    free(p);
}

static void compare(const char *name, const char *what, enum ts_tolerance tolerance, const double *got,
                    size_t count, const double *expected, size_t wanted)
{
    cr_assert_eq(count, wanted, "%s: %zu numbers of %s, %zu expected", name, count, what, wanted);
    const struct ts_worst worst = ts_compare(tolerance, got, expected, count);
    cr_assert(worst.ok, "%s, %s: %s", name, what, worst.text);
}

static void compare_tensor(struct fm_lane *lane, const struct golden *g, const char *what, int tensor,
                           enum ts_tolerance tolerance, const double *expected, size_t wanted)
{
    size_t count;
    double *got = inside_tensor(lane, tensor, &count);
    if (!got) return; /* fused: what follows from it is compared */
    compare(g->name, what, tolerance, got, count, expected, wanted);
    free(got);
}

static void check_gradients(struct fm_lane *lane, const struct golden *g)
{
    const struct fm_program *p = lane->program;
    const struct fm_op *head = inside_find(lane, FM_SECTION_BACKWARD, FM_OP_DENSE_INPUT_GRAD);
    cr_assert_not_null(head, "%s: no gradient reaches the layer", g->name);
    inside_backward(lane, head, g->dy);
    const struct fm_op *first = inside_find_last(lane, FM_SECTION_BACKWARD, FM_OP_CONV1D_WEIGHT_GRAD);
    if (g->dx)
        compare_tensor(lane, g, "dx", first->in[1], g->backward, g->dx,
                       (size_t)(g->shape[0] * g->shape[1] * g->shape[2]));
    size_t i;
    json_t *weight;
    int variable = 1;
    json_array_foreach(g->dweights, i, weight)
    {
        size_t wanted;
        double *expected = ts_golden_numbers(json_object_get(weight, "data"), &wanted);
        while (!p->variables[variable].trainable) variable++;
        compare_tensor(lane, g, p->variables[variable].name, p->variables[variable].gradient, g->backward,
                       expected, wanted);
        variable++;
        free(expected);
    }
}

static void check_moving(struct ts_bench *bench, struct fm_lane *lane, const struct golden *g)
{
    float *p = calloc((size_t)bench->program->float_count, sizeof *p);
    cr_assert(p && ts_bench_parameters(bench, lane, p));
    int v = 0;
    const char *key;
    json_t *after;
    json_object_foreach((json_t *)g->moving, key, after)
    {
        size_t wanted;
        double *expected =
            ts_golden_numbers(json_is_object(after) ? json_object_get(after, "data") : after, &wanted);
        for (v = 0; v < bench->program->nvariables; v++)
            if (strstr(bench->program->variables[v].name, key)) break;
        cr_assert(v < bench->program->nvariables, "%s: no variable %s", g->name, key);
        const struct ts_worst worst =
            ts_compare_float(g->forward, p + bench->program->variables[v].offset, expected, wanted);
        cr_assert(worst.ok, "%s, %s: %s", g->name, key, worst.text);
        free(expected);
    }
    free(p);
}

static void check(const struct golden *g, const struct fm_backend *backend)
{
    json_t *layers = json_pack("[{s:{s:I,s:i,s:b}}]", "conv1d", "filters", (json_int_t)g->shape[2],
                               "kernel_size", 1, "use_bias", 0);
    if (g->flat) json_array_append_new(layers, json_string("flatten"));
    json_array_append(layers, (json_t *)g->layer);
    json_array_append_new(layers, json_string("flatten"));
    json_array_append_new(layers, json_pack("{s:{s:i}}", "dense", "units", 1));
    char *yaml = inside_yaml(layers, "mse", NULL, g->shape[0], "  shuffle: false\n");
    float *zeros = calloc((size_t)g->shape[0], sizeof *zeros);
    const struct ts_examples examples = {.n = g->shape[0],
                                         .rows = g->shape[1],
                                         .channels = g->shape[2],
                                         .x = g->x,
                                         .values = zeros,
                                         .width = 1,
                                         .train = g->shape[0]};
    struct ts_bench bench;
    cr_assert(ts_bench_open(&bench, &examples, yaml, backend, 1), "%s: %s\n%s", g->name, bench.error.text,
              yaml);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 0, NULL);
    cr_assert_not_null(lane, "%s: %s", g->name, bench.error.text);
    write_weights(&bench, lane, g);
    struct fm_report report;
    const struct fm_request evaluate = {.kind = FM_EVALUATE, .part = FM_PART_VAL};
    if (g->inference)
        cr_assert(ts_bench_do(&bench, lane, &evaluate, &report) && report.status == 0);
    else
        cr_assert(ts_bench_train(&bench, lane, 0, 1, &report));
    const enum fm_section section = g->inference ? FM_SECTION_EVALUATE : FM_SECTION_FORWARD;
    const struct fm_op *head = inside_find_last(lane, section, FM_OP_DENSE);
    compare_tensor(lane, g, "y", head->in[0], g->forward, g->y, g->outputs);
    if (!g->inference) check_gradients(lane, g);
    if (g->moving) check_moving(&bench, lane, g);
    backend->lane_close(lane);
    ts_bench_close(&bench);
    json_decref(layers);
    free(yaml);
    free(zeros);
}

static void run_case(const json_t *c, const struct fm_backend *backend)
{
    const bool single = inside_is_single(backend);
    char *name = json_dumps(json_object_get(c, "layer"), 0);
    struct golden g = {.name = name,
                       .layer = json_object_get(c, "layer"),
                       .weights = json_object_get(c, "weights"),
                       .dweights = json_object_get(c, "dweights"),
                       .moving = json_object_get(c, "moving_after")};
    const bool differs = json_object_get(g.layer, "batch_normalization") ||
                         json_object_get(g.layer, "dropout") || json_object_get(g.layer, "spatial_dropout1d");
    g.inference = differs && json_is_false(json_object_get(c, "training"));
    g.forward = single ? TS_FLOAT_LAYER : TS_FLOAT;
    g.backward = single ? TS_FLOAT_GRADIENT : TS_FLOAT;
    size_t count;
    const json_t *x = json_object_get(c, "x");
    float *values = inside_floats(x, g.shape, &count);
    g.flat = json_array_size(json_object_get(x, "shape")) == 2;
    if (g.flat) {
        g.shape[2] = g.shape[1];
        g.shape[1] = 1;
    }
    g.x = values;
    size_t unused;
    double *y = ts_golden_numbers(json_object_get(json_object_get(c, "y"), "data"), &g.outputs);
    double *dy = ts_golden_numbers(json_object_get(json_object_get(c, "dy"), "data"), &unused);
    for (size_t i = 0; i < unused; i++) dy[i] = (double)(float)dy[i];
    double *dx = ts_golden_numbers(json_object_get(json_object_get(c, "dx"), "data"), &unused);
    /* Keras shares the gradient of a global pool among equal cells; ours goes to the first, as in every pool.
     */
    const char *note = json_string_value(json_object_get(c, "note"));
    if (note && strstr(note, "shared equally")) {
        free(dx);
        dx = NULL;
    }
    g.y = y;
    g.dy = dy;
    g.dx = dx;
    check(&g, backend);
    free(y);
    free(dy);
    free(dx);
    free(values);
    free(name);
}

static void run_layers(const struct fm_backend *backend)
{
    json_t *golden = ts_golden("layers");
    cr_assert_not_null(golden);
    size_t i, ran = 0;
    json_t *c;
    json_array_foreach(json_object_get(golden, "cases"), i, c)
    {
        run_case(c, backend);
        ran++;
    }
    cr_assert(ran > 100);
    json_decref(golden);
}

Test(engine_layers, keras_in_float)
{
    run_layers(&fm_backend_reference);
}
Test(engine_layers, keras_in_double)
{
    run_layers(&fm_backend_reference64);
}
Test(engine_layers, keras_on_the_cpu_engine)
{
    run_layers(&fm_backend_cpu);
}

/* One example of one channel; at kinks the derivative is TensorFlow's choice. */
static void run_activation(const json_t *c, const struct fm_backend *backend)
{
    const bool single = inside_is_single(backend);
    const char *kind = json_string_value(json_object_get(c, "activation"));
    const bool softmax = !strcmp(kind, "softmax");
    /* Keras has them, Foldmill does not. */
    if (!strcmp(kind, "exponential") || !strcmp(kind, "softsign") || !strcmp(kind, "relu6")) return;
    size_t count, unused;
    double *x = ts_golden_numbers(json_object_get(c, "x"), &count);
    double *y = ts_golden_numbers(json_object_get(c, "y"), &unused);
    double *dy = softmax ? ts_golden_numbers(json_object_get(c, "dy"), &unused) : malloc(count * sizeof *dy);
    double *dx = ts_golden_numbers(json_object_get(c, softmax ? "dx" : "dydx"), &unused);
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)x[i];
        if (!softmax) dy[i] = 1;
    }
    json_t *args = json_object_get(c, "args");
    json_t *layer = !strcmp(kind, "leaky_relu_layer")
                        ? json_pack("{s:O}", "leaky_relu", args ? args : json_null())
                    : args ? json_pack("{s:O}", kind, args)
                           : json_pack("{s:s}", "activation", kind);
    if (!strcmp(kind, "leaky_relu_layer") && !args) {
        json_decref(layer);
        layer = json_string("leaky_relu");
    } else if (!args) {
        json_decref(layer);
        layer = json_pack("{s:{s:s}}", "activation", "activation", kind);
    }
    struct golden g = {.name = kind,
                       .layer = layer,
                       .x = values,
                       .shape = {1, (int64_t)count, 1},
                       .y = y,
                       .dy = dy,
                       .dx = dx,
                       .outputs = count,
                       .forward = single ? TS_FLOAT_LAYER : TS_FLOAT,
                       .backward = single ? TS_FLOAT_GRADIENT : TS_FLOAT};
    if (softmax) {
        const json_t *shape = json_object_get(c, "shape");
        const size_t rank = json_array_size(shape);
        g.shape[2] = json_integer_value(json_array_get(shape, rank - 1));
        g.shape[1] = (int64_t)count / g.shape[2];
    }
    check(&g, backend);
    json_decref(layer);
    free(x);
    free(y);
    free(dy);
    free(dx);
    free(values);
}

Test(engine_layers, activations)
{
    json_t *golden = ts_golden("activations");
    cr_assert_not_null(golden);
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(golden, "cases"), i, c)
    {
        for (int b = 0; b < 3; b++) run_activation(c, inside_backends[b]);
    }
    json_decref(golden);
}
