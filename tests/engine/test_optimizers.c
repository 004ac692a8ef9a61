/* tests/goldens/optimizers.json: ten updates from given gradients, all clips and decays, and what clips make
 * of gradients that are not finite. The gradients are put into the lane in place of those of a step. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "support/inside.h"
#include "support/support.h"
#include "support/tolerance.h"

/* A dense layer of these sizes and its lane; learning_rate is the optimizer's. */
static struct fm_lane *open_lane(struct ts_bench *bench, int64_t in, int64_t units, const json_t *optimizer,
                                 const struct fm_backend *backend)
{
    json_t *layers = json_pack("[s,{s:{s:I}}]", "flatten", "dense", "units", (json_int_t)units);
    char *yaml = inside_yaml(layers, "{categorical_crossentropy: {from_logits: true}}", optimizer, 1, NULL);
    const float x[8] = {0};
    const uint32_t classes[1] = {0};
    const struct ts_examples examples = {.n = 1,
                                         .rows = 1,
                                         .channels = in,
                                         .x = x,
                                         .nclasses = units,
                                         .classes = classes,
                                         .width = 1,
                                         .train = 1};
    cr_assert(ts_bench_open(bench, &examples, yaml, backend, 1), "%s\n%s", bench->error.text, yaml);
    struct fm_lane *lane = ts_bench_lane(bench, 0, 0, NULL);
    cr_assert_not_null(lane, "%s", bench->error.text);
    free(yaml);
    json_decref(layers);
    return lane;
}

static void set_gradients(struct fm_lane *lane, const json_t *gradients)
{
    for (int v = 0; v < lane->program->nvariables; v++) {
        size_t count;
        double *g = ts_golden_numbers(json_array_get(gradients, (size_t)v), &count);
        cr_assert_eq((int64_t)count, lane->program->variables[v].count);
        inside_set(lane, lane->program->variables[v].gradient, g);
        free(g);
    }
}

static void compare_variables(struct fm_lane *lane, const char *name, size_t step, const json_t *expected,
                              enum ts_tolerance tolerance)
{
    for (int v = 0; v < lane->program->nvariables; v++) {
        size_t count, wanted;
        double *got = inside_tensor(lane, lane->program->variables[v].tensor, &count);
        double *want = ts_golden_numbers(json_array_get(expected, (size_t)v), &wanted);
        cr_assert_eq(count, wanted);
        const struct ts_worst worst = ts_compare(tolerance, got, want, count);
        cr_assert(worst.ok, "%s, step %zu: %s", name, step + 1, worst.text);
        free(got);
        free(want);
    }
}

/* nadam, adagrad and lion come later. */
static bool available(const json_t *optimizer)
{
    return json_object_get(optimizer, "sgd") || json_object_get(optimizer, "adam") ||
           json_object_get(optimizer, "adamw") || json_object_get(optimizer, "rmsprop");
}

static bool run_case(const json_t *golden, const json_t *c, const struct fm_backend *backend)
{
    const json_t *optimizer = json_object_get(c, "optimizer");
    if (!available(optimizer)) return false;
    const json_t *start = json_object_get(golden, "start");
    const json_t *gradients = json_object_get(golden, "gradients"), *after = json_object_get(c, "after");
    char *name = json_dumps(optimizer, 0);
    struct ts_bench bench;
    struct fm_lane *lane = open_lane(&bench, 2, 3, optimizer, backend);
    float parameters[9];
    size_t at = 0, count;
    for (size_t v = 0; v < 2; v++) {
        double *values = ts_golden_numbers(json_array_get(start, v), &count);
        for (size_t i = 0; i < count; i++) parameters[at++] = (float)values[i];
        free(values);
    }
    cr_assert_eq((int64_t)at, bench.program->float_count);
    cr_assert(backend->parameters_write(lane, parameters, &bench.error) == 0);
    for (size_t t = 0; t < json_array_size(gradients); t++) {
        set_gradients(lane, json_array_get(gradients, t));
        lane->executor->update(lane, bench.config.optimizer.learning_rate);
        compare_variables(lane, name, t, json_array_get(after, t), TS_FLOAT_LAYER);
    }
    backend->lane_close(lane);
    ts_bench_close(&bench);
    free(name);
    return true;
}

static void run_optimizers(const struct fm_backend *backend)
{
    json_t *golden = ts_golden("optimizers"), *c;
    cr_assert_not_null(golden);
    size_t i, ran = 0;
    json_array_foreach(json_object_get(golden, "cases"), i, c) ran += run_case(golden, c, backend);
    cr_assert(ran > 60, "only %zu cases ran", ran);
    json_decref(golden);
}

Test(engine_optimizers, keras_in_float)
{
    run_optimizers(&fm_backend_reference);
}
Test(engine_optimizers, keras_in_double)
{
    run_optimizers(&fm_backend_reference64);
}
Test(engine_optimizers, keras_on_the_cpu_engine)
{
    run_optimizers(&fm_backend_cpu);
}

/* With sgd at rate 1 from zero the weights become the clipped gradients, sign turned. */
static void check_clips(const struct fm_backend *backend)
{
    json_t *golden = ts_golden("optimizers"), *c;
    cr_assert_not_null(golden);
    size_t i, ran = 0;
    json_array_foreach(json_object_get(golden, "non_finite_clips"), i, c)
    {
        json_t *optimizer = json_pack("{s:{s:i}}", "sgd", "learning_rate", 1),
               *clip = json_object_get(c, "clip");
        json_object_update(json_object_get(optimizer, "sgd"), clip);
        struct ts_bench bench;
        /* Two variables of the golden's sizes, 3 and 2: the first of a 1 x 3 kernel, then two of its three
         * biases. */
        struct fm_lane *lane = open_lane(&bench, 1, 3, optimizer, backend);
        const float zero[6] = {0};
        cr_assert(bench.backend->parameters_write(lane, zero, &bench.error) == 0);
        json_t *padded = json_deep_copy(json_object_get(c, "gradients"));
        json_array_append_new(json_array_get(padded, 1), json_real(0));
        set_gradients(lane, padded);
        lane->executor->update(lane, 1);
        size_t count;
        double *w = inside_tensor(lane, bench.program->variables[0].tensor, &count);
        double *b = inside_tensor(lane, bench.program->variables[1].tensor, &count);
        const double got[5] = {-w[0], -w[1], -w[2], -b[0], -b[1]};
        double *want = ts_golden_numbers(json_object_get(c, "clipped"), &count);
        cr_assert_eq(count, 5);
        const struct ts_worst worst = ts_compare(TS_FLOAT, got, want, 5);
        char *name = json_dumps(c, 0);
        cr_assert(worst.ok, "%s: %s", name, worst.text);
        free(name);
        free(want);
        free(w);
        free(b);
        json_decref(padded);
        json_decref(optimizer);
        bench.backend->lane_close(lane);
        ts_bench_close(&bench);
        ran++;
    }
    cr_assert(ran >= 20);
    json_decref(golden);
}

Test(engine_optimizers, clips_of_what_is_not_finite)
{
    check_clips(&fm_backend_reference);
    check_clips(&fm_backend_cpu);
}
