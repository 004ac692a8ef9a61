/* tests/goldens/losses.json: per example, of the batch, and the gradient, through a program whose dense layer
 * is the identity, so that the golden's outputs reach the loss as they are. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/inside.h"
#include "support/support.h"
#include "support/tolerance.h"

struct golden {
    const json_t *args; /* of the loss */
    const char *kind, *after;
    float *outputs, *y, *weights;
    int64_t n, k;
    uint32_t *classes; /* or NULL: y are numbers or distributions */
};

static bool is_binary(const struct golden *g)
{
    return !strcmp(g->kind, "binary_crossentropy");
}
static bool is_entropy(const struct golden *g)
{
    return strstr(g->kind, "categorical") != NULL;
}

/* Losses over several numbers exist in the program, but no model can ask for them: compiled as a
 * distribution, then turned into what the golden has. */
static void turn_into(struct fm_program *p, const struct golden *g)
{
    const json_t *delta = json_object_get(g->args, "delta");
    p->loss.kind = !strcmp(g->kind, "mse")   ? FM_LOSS_MSE
                   : !strcmp(g->kind, "mae") ? FM_LOSS_MAE
                                             : FM_LOSS_HUBER;
    p->loss.delta = delta ? json_number_value(delta) : 1;
    p->loss.logits = false;
}

static void open_golden(struct ts_bench *bench, const struct golden *g, const struct fm_backend *backend)
{
    const bool numbers = !is_entropy(g) && !is_binary(g);
    json_t *layers =
        json_pack("[s,{s:{s:I,s:b}}]", "flatten", "dense", "units", (json_int_t)g->k, "use_bias", 0);
    if (g->after) json_array_append_new(layers, json_string(g->after));
    json_t *loss = json_object();
    const bool several = numbers && g->k > 1;
    if (several)
        json_object_set_new(loss, "categorical_crossentropy", json_pack("{s:b}", "from_logits", 1));
    else
        json_object_set(loss, g->kind, (json_t *)g->args);
    char *text = json_dumps(loss, 0);
    char *yaml = inside_yaml(layers, text, NULL, g->n, "  shuffle: false\n");
    const struct ts_examples examples = {.n = g->n,
                                         .rows = 1,
                                         .channels = g->k,
                                         .x = g->outputs,
                                         .classes = g->classes,
                                         .nclasses = !g->classes    ? 0
                                                     : is_binary(g) ? 2
                                                                    : g->k,
                                         .values = g->y,
                                         .width = g->classes ? 1 : g->k,
                                         .distribution = several || (is_entropy(g) && !g->classes),
                                         .weights = g->weights,
                                         .train = g->n};
    cr_assert(ts_bench_open(bench, &examples, yaml, backend, 1), "%s: %s\n%s", g->kind, bench->error.text,
              yaml);
    if (several) turn_into(bench->program, g);
    free(text);
    free(yaml);
    json_decref(loss);
    json_decref(layers);
}

static void write_identity(struct ts_bench *bench, struct fm_lane *lane, int64_t k)
{
    float *identity = calloc((size_t)(k * k), sizeof *identity);
    for (int64_t i = 0; i < k; i++) identity[i * k + i] = 1;
    cr_assert(bench->backend->parameters_write(lane, identity, &bench->error) == 0);
    free(identity);
}

/* Takes `got` over. */
static void compare(const struct golden *g, const char *what, double *got, size_t count,
                    const json_t *expected, enum ts_tolerance tolerance)
{
    size_t wanted;
    double *want = ts_golden_numbers(expected, &wanted);
    cr_assert(got && count == wanted);
    const struct ts_worst worst = ts_compare(tolerance, got, want, count);
    cr_assert(worst.ok, "%s, %s: %s", g->kind, what, worst.text);
    free(got);
    free(want);
}

static void check(const json_t *c, const struct golden *g, const struct fm_backend *backend)
{
    const enum ts_tolerance near = inside_is_single(backend) ? TS_FLOAT_LAYER : TS_FLOAT;
    struct ts_bench bench;
    open_golden(&bench, g, backend);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 0, NULL);
    cr_assert_not_null(lane, "%s: %s", g->kind, bench.error.text);
    write_identity(&bench, lane, g->k);
    struct fm_report report;
    cr_assert(ts_bench_train(&bench, lane, 0, 1, &report));
    const double loss = report.loss_sum / (double)report.examples;
    const struct ts_worst worst = ts_compare_one(near, loss, json_number_value(json_object_get(c, "batch")));
    cr_assert(worst.ok, "%s, batch: %s", g->kind, worst.text);
    size_t count;
    double *got = inside_losses(lane, &count);
    compare(g, "per example", got, count, json_object_get(c, "per_example"), near);
    got = inside_tensor(lane, inside_find(lane, FM_SECTION_BACKWARD, FM_OP_LOSS_GRAD)->out[0], &count);
    compare(g, "gradient", got, count, json_object_get(json_object_get(c, "gradient"), "data"), near);

    /* The evaluation's loss is the plain mean, without weights. */
    const struct fm_request evaluate = {.kind = FM_EVALUATE, .part = FM_PART_VAL};
    cr_assert(ts_bench_do(&bench, lane, &evaluate, &report) && report.status == 0);
    double *each = ts_golden_numbers(json_object_get(c, "per_example"), &count), sum = 0;
    for (size_t i = 0; i < count; i++) sum += each[i];
    cr_assert(ts_compare_one(TS_FLOAT_LAYER, report.loss, sum / (double)count).ok, "%s: mean %g, not %g",
              g->kind, report.loss, sum / (double)count);
    free(each);
    backend->lane_close(lane);
    ts_bench_close(&bench);
}

/* One-hot rows are classes for us; anything else is a distribution. */
static uint32_t *classes_of(const struct golden *g, const json_t *y)
{
    const bool sparse = !strncmp(g->kind, "sparse", 6);
    if (!sparse && !is_entropy(g) && !is_binary(g)) return NULL;
    uint32_t *classes = calloc((size_t)g->n, sizeof *classes);
    for (int64_t i = 0; i < g->n; i++) {
        if (sparse || is_binary(g)) {
            classes[i] = (uint32_t)json_number_value(json_array_get(json_object_get(y, "data"), (size_t)i));
            continue;
        }
        for (int64_t k = 0; k < g->k; k++) {
            if (g->y[i * g->k + k] == 1) classes[i] = (uint32_t)k;
            if (g->y[i * g->k + k] == 0 || g->y[i * g->k + k] == 1) continue;
            free(classes);
            return NULL;
        }
    }
    return classes;
}

static bool run_case(const json_t *c, const struct fm_backend *backend)
{
    struct golden g = {0};
    json_t *loss = json_object_get(c, "loss");
    g.kind = json_object_iter_key(json_object_iter(loss));
    g.args = json_object_get(loss, g.kind);
    g.after = json_string_value(json_object_get(c, "after"));
    const bool logits = json_is_true(json_object_get(g.args, "from_logits"));
    if ((is_entropy(&g) || is_binary(&g)) && !g.after && !logits)
        return false; /* the clipped path: refused */
    int64_t shape[3], unused[3];
    size_t count;
    g.outputs = inside_floats(json_object_get(c, "outputs"), shape, &count);
    g.n = shape[0];
    g.k = shape[1];
    g.y = inside_floats(json_object_get(c, "y"), unused, &count);
    g.classes = classes_of(&g, json_object_get(c, "y"));
    double *weights = ts_golden_numbers(json_object_get(c, "sample_weight"), &count);
    if (weights && count > 0) {
        g.weights = calloc(count, sizeof *g.weights);
        for (size_t i = 0; i < count; i++) g.weights[i] = (float)weights[i];
    }
    check(c, &g, backend);
    free(weights);
    free(g.weights);
    free(g.outputs);
    free(g.y);
    free(g.classes);
    return true;
}

static void run_losses(const struct fm_backend *backend)
{
    json_t *golden = ts_golden("losses"), *c;
    cr_assert_not_null(golden);
    size_t i, ran = 0;
    json_array_foreach(json_object_get(golden, "cases"), i, c) ran += run_case(c, backend);
    cr_assert(ran > 45, "only %zu cases ran", ran);
    json_decref(golden);
}

Test(engine_losses, keras_in_float)
{
    run_losses(&fm_backend_reference);
}
Test(engine_losses, keras_in_double)
{
    run_losses(&fm_backend_reference64);
}
Test(engine_losses, keras_on_the_cpu_engine)
{
    run_losses(&fm_backend_cpu);
}
