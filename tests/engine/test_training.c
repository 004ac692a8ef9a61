/* tests/goldens/training.json: whole networks trained for 20 steps as Keras trains them - loss, norm and
 * weights after each - and fits of some epochs with their history. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backend_checks.h"
#include "support/inside.h"
#include "support/support.h"
#include "support/tolerance.h"

static int64_t integer(const json_t *c, const char *key)
{
    return json_integer_value(json_object_get(c, key));
}

static float *formula(const json_t *stream, size_t count)
{
    float *out = malloc((count + 1) * sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = ts_hashed((uint32_t)i, (uint32_t)integer(stream, "salt"),
                           json_number_value(json_object_get(stream, "limit")),
                           json_number_value(json_object_get(stream, "offset")));
    return out;
}

/* What a case trains on: numbers by formula or letters, classes or numbers as targets. */
struct material {
    struct ts_examples examples;
    float *x, *values;
    uint8_t *letters;
    uint32_t *classes;
};

static void read_letters(struct material *m, const json_t *data, int64_t rows)
{
    const char *alphabet = json_string_value(json_object_get(data, "alphabet"));
    const bool own = !strcmp(json_string_value(json_object_get(data, "unknown")), "letter");
    const size_t known = strlen(alphabet);
    m->examples.alphabet = (int64_t)known + own;
    m->letters = malloc((size_t)(m->examples.n * rows));
    for (int64_t i = 0; i < m->examples.n; i++) {
        const char *sequence =
            json_string_value(json_array_get(json_object_get(data, "sequences"), (size_t)i));
        for (int64_t r = 0; r < rows; r++) {
            const char *found = strchr(alphabet, sequence[r]);
            m->letters[i * rows + r] = found ? (uint8_t)(found - alphabet)
                                       : own ? (uint8_t)known
                                             : FM_NO_LETTER;
        }
    }
    m->examples.letters = m->letters;
}

static void read_targets(struct material *m, const json_t *c, const json_t *validation)
{
    size_t count, more = 0;
    double *y = ts_golden_numbers(json_object_get(c, "y"), &count);
    double *held = validation ? ts_golden_numbers(json_object_get(validation, "y"), &more) : NULL;
    m->examples.nclasses = integer(c, "classes");
    m->examples.width = 1;
    m->values = calloc(count + more, sizeof *m->values);
    m->classes = calloc(count + more, sizeof *m->classes);
    for (size_t i = 0; i < count + more; i++) {
        const double value = i < count ? y[i] : held[i - count];
        m->values[i] = (float)value;
        if (m->examples.nclasses) m->classes[i] = (uint32_t)value;
    }
    m->examples.classes = m->examples.nclasses ? m->classes : NULL;
    m->examples.values = m->values;
    free(y);
    free(held);
}

static void read_material(struct material *m, const json_t *c)
{
    memset(m, 0, sizeof *m);
    const json_t *data = json_object_get(c, "data"), *input = json_object_get(c, "input");
    const json_t *validation = json_object_get(c, "validation");
    const int64_t rows = json_integer_value(json_array_get(input, 0));
    const int64_t channels = json_integer_value(json_array_get(input, 1));
    m->examples.train = integer(c, "examples");
    m->examples.n = m->examples.train + (validation ? integer(validation, "examples") : 0);
    m->examples.rows = rows;
    m->examples.channels = channels;
    const size_t trained = (size_t)(m->examples.train * rows * channels);
    const size_t held = validation ? (size_t)(integer(validation, "examples") * rows * channels) : 0;
    if (json_object_get(data, "sequences")) {
        read_letters(m, data, rows);
    } else {
        float *x = formula(json_object_get(data, "x"), trained);
        float *more = validation ? formula(json_object_get(validation, "x"), held) : NULL;
        m->x = malloc((trained + held) * sizeof *x);
        memcpy(m->x, x, trained * sizeof *x);
        if (held > 0) memcpy(m->x + trained, more, held * sizeof *x);
        m->examples.x = m->x;
        free(x);
        free(more);
    }
    read_targets(m, c, validation);
}

static void free_material(struct material *m)
{
    free(m->x);
    free(m->values);
    free(m->letters);
    free(m->classes);
}

static void write_weights(struct ts_bench *bench, struct fm_lane *lane, const json_t *c)
{
    float *p = calloc((size_t)bench->program->float_count, sizeof *p);
    int64_t at = 0;
    size_t i;
    json_t *w;
    json_array_foreach(json_object_get(c, "weights"), i, w)
    {
        const int64_t count = bench->program->variables[i].count;
        float *values = formula(w, (size_t)count);
        memcpy(p + at, values, (size_t)count * sizeof *p);
        at += count;
        free(values);
    }
    cr_assert_eq(at, bench->program->float_count);
    cr_assert(bench->backend->parameters_write(lane, p, &bench->error) == 0);
    free(p);
}

/* A variable as the engine holds it; of a backend that nobody can look into, as its state tells. */
static double *variable(struct ts_bench *bench, struct fm_lane *lane, int number, size_t *count)
{
    const struct fm_variable *v = &bench->program->variables[number];
    for (size_t i = 0; i < sizeof inside_backends / sizeof *inside_backends; i++)
        if (bench->backend == inside_backends[i]) return inside_tensor(lane, v->tensor, count);
    float *all = malloc((size_t)bench->program->float_count * sizeof *all);
    double *w = malloc((size_t)v->count * sizeof *w);
    cr_assert(all && w && ts_bench_parameters(bench, lane, all));
    for (int64_t i = 0; i < v->count; i++) w[i] = (double)all[v->offset + i];
    free(all);
    *count = (size_t)v->count;
    return w;
}

/* Sums are compared in the size of what is summed, not of what is left of it. */
static void compare_weights(struct ts_bench *bench, struct fm_lane *lane, const char *name, const char *when,
                            const json_t *after, enum ts_tolerance near)
{
    for (int v = 0; v < bench->program->nvariables; v++) {
        const json_t *expected = json_array_get(after, (size_t)v);
        size_t count, firsts;
        double *w = variable(bench, lane, v, &count);
        double *first = ts_golden_numbers(json_object_get(expected, "first"), &firsts);
        double sum = 0, square = 0, size = 0;
        for (size_t i = 0; i < count; i++) {
            sum += w[i];
            square += w[i] * w[i];
            size += fabs(w[i]);
        }
        const bool noise = !strncmp(name, "batch normalization", 19) && near == TS_FLOAT_TRAINING &&
                           !strcmp(bench->program->variables[v].name, "dense/bias");
        if (noise) near = TS_FLOAT_NOISE;
        struct ts_worst worst = ts_compare(near, w, first, firsts);
        cr_assert(worst.ok, "%s, %s, %s: %s", name, when, bench->program->variables[v].name, worst.text);
        worst = ts_compare_one(near, square, json_number_value(json_object_get(expected, "sumsq")));
        cr_assert(worst.ok, "%s, %s, %s squared: %s", name, when, bench->program->variables[v].name,
                  worst.text);
        worst = ts_compare_one(near, sum + size, json_number_value(json_object_get(expected, "sum")) + size);
        cr_assert(worst.ok, "%s, %s, %s summed: %s", name, when, bench->program->variables[v].name,
                  worst.text);
        if (noise) near = TS_FLOAT_TRAINING;
        free(first);
        free(w);
    }
}

static void run_steps(struct ts_bench *bench, struct fm_lane *lane, const json_t *c, bool single)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    const enum ts_tolerance near = single ? TS_FLOAT_TRAINING : TS_FLOAT;
    const json_t *after = json_object_get(c, single ? "after" : "after64");
    compare_weights(bench, lane, name, "at first", json_object_get(after, "0"), TS_FLOAT);
    for (int64_t t = 0; t < integer(c, "steps"); t++) {
        struct fm_report report;
        cr_assert(ts_bench_train(bench, lane, t, 1, &report));
        const json_t *step = json_array_get(json_object_get(c, "step"), (size_t)t);
        struct ts_worst worst =
            ts_compare_one(near, report.loss_sum / (double)report.examples,
                           json_number_value(json_object_get(step, single ? "loss" : "loss64")));
        cr_assert(worst.ok, "%s, loss of step %d: %s", name, (int)t, worst.text);
        worst = ts_compare_one(near, report.last_norm,
                               json_number_value(json_object_get(step, single ? "norm" : "norm64")));
        cr_assert(worst.ok, "%s, norm of step %d: %s", name, (int)t, worst.text);
        char when[24];
        snprintf(when, sizeof when, "%d", (int)t + 1);
        if (json_object_get(after, when))
            compare_weights(bench, lane, name, when, json_object_get(after, when), near);
    }
}

static void run_fit(struct ts_bench *bench, struct fm_lane *lane, const json_t *c, bool single)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    const json_t *history = json_object_get(c, "history");
    const int64_t steps =
        (bench->folds[0].train.count + bench->config.batch_size - 1) / bench->config.batch_size;
    int64_t confusion[16];
    for (int64_t epoch = 0; epoch < integer(c, "epochs"); epoch++) {
        struct fm_report report;
        cr_assert(ts_bench_train(bench, lane, epoch * steps, steps, &report));
        const struct fm_request evaluate = {
            .kind = FM_EVALUATE, .part = FM_PART_VAL, .returns = FM_RETURN_CONFUSION, .confusion = confusion};
        const double loss = report.loss_sum / (double)report.examples;
        cr_assert(ts_bench_do(bench, lane, &evaluate, &report) && report.status == 0);
        const double right = (double)(confusion[0] + confusion[3]) / (double)bench->folds[0].val.count;
        const char *const keys[] = {"loss", "val_loss", "val_accuracy"};
        const double got[] = {loss, report.loss, right};
        for (int k = 0; k < 3; k++) {
            const double want =
                json_number_value(json_array_get(json_object_get(history, keys[k]), (size_t)epoch));
            const struct ts_worst worst = ts_compare_one(TS_FLOAT_TRAINING, got[k], want);
            cr_assert(worst.ok, "%s, %s of epoch %d: %s", name, keys[k], (int)epoch + 1, worst.text);
        }
    }
    if (single)
        compare_weights(bench, lane, name, "end", json_object_get(json_object_get(c, "after"), "end"),
                        TS_FLOAT_TRAINING);
}

static void run_case(const json_t *c, const struct fm_backend *backend,
                     const struct fm_device_options *options)
{
    struct material m;
    read_material(&m, c);
    char *loss = json_dumps(json_object_get(c, "loss"), 0);
    char *yaml = inside_yaml(json_object_get(c, "model"), loss, json_object_get(c, "optimizer"),
                             integer(c, "batch_size"), "  shuffle: false\n");
    struct ts_bench bench;
    cr_assert(ts_bench_open_with(&bench, &m.examples, yaml, backend, options), "%s\n%s", bench.error.text,
              yaml);
    float class_weights[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const json_t *given = json_object_get(c, "class_weight");
    const char *key;
    json_t *weight;
    json_object_foreach((json_t *)given, key, weight) class_weights[strtol(key, NULL, 10)] =
        (float)json_number_value(weight);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 0, given ? class_weights : NULL);
    cr_assert_not_null(lane, "%s", bench.error.text);
    write_weights(&bench, lane, c);
    if (json_object_get(c, "epochs"))
        run_fit(&bench, lane, c, inside_is_single(backend));
    else
        run_steps(&bench, lane, c, inside_is_single(backend));
    backend->lane_close(lane);
    ts_bench_close(&bench);
    free_material(&m);
    free(loss);
    free(yaml);
}

void ts_check_training(const struct fm_backend *backend, const struct fm_device_options *options)
{
    json_t *golden = ts_golden("training"), *c;
    cr_assert_not_null(golden);
    size_t i, ran = 0;
    json_array_foreach(json_object_get(golden, "cases"), i, c)
    {
        run_case(c, backend, options);
        ran++;
    }
    cr_assert(ran >= 19);
    json_decref(golden);
}

static const struct fm_device_options one = {.lanes = 1};

Test(engine_training, keras_in_float)
{
    ts_check_training(&fm_backend_reference, &one);
}
Test(engine_training, keras_in_double)
{
    ts_check_training(&fm_backend_reference64, &one);
}
Test(engine_training, keras_on_the_cpu_engine)
{
    ts_check_training(&fm_backend_cpu, &one);
}
