/* The end of a step on the device: Keras's goldens of all optimizers, clips and decays; sums over splits,
 * tiles and variables of odd sizes, with regularisers, against plain loops in double. */
#include <jansson.h>

#include "cuda/step_subject.h"
#include "support/inside.h"
#include "support/support.h"
#include "support/tolerance.h"

/* ---- Keras ---- */

static void optimizer_of(struct subject *s, const struct ts_bench *bench)
{
    const struct fm_program *p = bench->program;
    s->slots = p->slots;
    s->update.optimizer = (int)p->optimizer;
    s->update.nesterov = p->nesterov;
    s->update.amsgrad = p->amsgrad;
    s->update.centered = p->centered;
    s->update.momentum = p->momentum;
    const struct fm_hyper hyper = {.momentum = bench->config.optimizer.momentum,
                                   .beta_1 = bench->config.optimizer.beta_1,
                                   .beta_2 = bench->config.optimizer.beta_2,
                                   .epsilon = bench->config.optimizer.epsilon,
                                   .rho = bench->config.optimizer.rho,
                                   .weight_decay = bench->config.optimizer.weight_decay,
                                   .clip = bench->config.optimizer.clip,
                                   .clip_value = bench->config.optimizer.clip_value};
    set_hyper(s, &hyper);
}

/* Reads the optimizer as a sweep file's; the network stands for two variables of 6 and 3. */
static void read_optimizer(struct subject *s, const json_t *optimizer, struct ts_bench *bench)
{
    json_t *layers = json_pack("[s,{s:{s:i}}]", "flatten", "dense", "units", 3);
    char *yaml = inside_yaml(layers, "{categorical_crossentropy: {from_logits: true}}", optimizer, 1, NULL);
    static const float x[2];
    static const uint32_t classes[1];
    const struct ts_examples examples = {
        .n = 1, .rows = 1, .channels = 2, .x = x, .nclasses = 3, .classes = classes, .width = 1, .train = 1};
    cr_assert(ts_bench_open(bench, &examples, yaml, &fm_backend_reference, 1), "%s\n%s", bench->error.text,
              yaml);
    optimizer_of(s, bench);
    for (int v = 0; v < 2; v++) s->variable[v].decay = bench->program->variables[v].decay;
    free(yaml);
    json_decref(layers);
}

static void put_variables(struct subject *s, float *at, const json_t *values)
{
    for (int v = 0; v < s->nvariables; v++) {
        size_t count;
        double *numbers = ts_golden_numbers(json_array_get(values, (size_t)v), &count);
        cr_assert_eq((int)count, s->variable[v].count);
        float rounded[16];
        for (size_t i = 0; i < count; i++) rounded[i] = (float)numbers[i];
        fm_emulator_poke(at + s->variable[v].offset, rounded, count * sizeof(float));
        free(numbers);
    }
}

static bool available(const json_t *optimizer)
{
    return json_object_get(optimizer, "sgd") || json_object_get(optimizer, "adam") ||
           json_object_get(optimizer, "adamw") || json_object_get(optimizer, "rmsprop");
}

static void run_case(const json_t *golden, const json_t *c)
{
    const json_t *optimizer = json_object_get(c, "optimizer"), *after = json_object_get(c, "after");
    const json_t *gradients = json_object_get(golden, "gradients");
    struct subject s = {.nvariables = 2, .variable = {{.count = 6}, {.count = 3}}};
    static const float one[1] = {1};
    struct ts_bench bench;
    read_optimizer(&s, optimizer, &bench);
    open_subject(&s, 0);
    put_variables(&s, s.update.parameters, json_object_get(golden, "start"));
    begin(&s, FM_ON_NAN_STOP, 0, (int64_t)json_array_size(gradients), bench.config.optimizer.learning_rate);
    for (size_t t = 0; t < json_array_size(gradients); t++) {
        put_variables(&s, s.update.gradients, json_array_get(gradients, t));
        set_losses(&s, 1, one, one);
        end_step(&s);
        for (int v = 0; v < 2; v++) {
            size_t count;
            float got[16];
            double *want = ts_golden_numbers(json_array_get(json_array_get(after, t), (size_t)v), &count);
            on_device_get(got, s.update.parameters + s.variable[v].offset, count * sizeof *got);
            const struct ts_worst worst = ts_compare_float(TS_FLOAT_LAYER, got, want, count);
            char *name = worst.ok ? NULL : json_dumps(optimizer, 0);
            cr_assert(worst.ok, "%s, step %zu: %s", name, t + 1, worst.text);
            free(want);
        }
    }
    cr_assert_eq(end(&s).steps, (int64_t)json_array_size(gradients));
    on_device_close(&s.device);
    ts_bench_close(&bench);
}

Test(cuda_update, optimizers_and_clips_of_keras)
{
    json_t *golden = ts_golden("optimizers"), *c;
    cr_assert_not_null(golden);
    size_t i, ran = 0;
    json_array_foreach(json_object_get(golden, "cases"), i, c)
    {
        if (!available(json_object_get(c, "optimizer"))) continue;
        run_case(golden, c);
        ran++;
    }
    cr_assert(ran > 60, "only %zu cases ran", ran);
    json_decref(golden);
}

/* With sgd at rate 1 from zero the weights become the clipped gradients, sign turned. */
Test(cuda_update, clips_of_what_is_not_finite)
{
    json_t *golden = ts_golden("optimizers"), *c;
    cr_assert_not_null(golden);
    static const float one[1] = {1};
    size_t i, ran = 0, count;
    json_array_foreach(json_object_get(golden, "non_finite_clips"), i, c)
    {
        json_t *optimizer = json_pack("{s:{s:i}}", "sgd", "learning_rate", 1);
        json_object_update(json_object_get(optimizer, "sgd"), json_object_get(c, "clip"));
        struct subject s = {.nvariables = 2, .variable = {{.count = 3}, {.count = 2}}};
        struct ts_bench bench;
        read_optimizer(&s, optimizer, &bench);
        open_subject(&s, 0);
        begin(&s, FM_ON_NAN_KERAS, 0, 1, 1);
        put_variables(&s, s.update.gradients, json_object_get(c, "gradients"));
        set_losses(&s, 1, one, one);
        end_step(&s);
        float got[5];
        on_device_get(got, s.update.parameters, 3 * sizeof *got);
        on_device_get(got + 3, s.update.parameters + 4, 2 * sizeof *got);
        for (int e = 0; e < 5; e++) got[e] = -got[e];
        double *want = ts_golden_numbers(json_object_get(c, "clipped"), &count);
        cr_assert_eq(count, 5);
        const struct ts_worst worst = ts_compare_float(TS_FLOAT, got, want, 5);
        char *name = worst.ok ? NULL : json_dumps(c, 0);
        cr_assert(worst.ok, "%s: %s", name, worst.text);
        free(want);
        json_decref(optimizer);
        on_device_close(&s.device);
        ts_bench_close(&bench);
        ran++;
    }
    cr_assert(ran >= 20);
    json_decref(golden);
}

/* ---- sums over splits, tiles and variables ---- */

static const struct variable odd[VARIABLES] = {
    {.count = 1500, .splits = 3, .l1 = 0.004}, /* its partial sums are aligned */
    {.count = 37, .splits = 3, .l1 = 0.01, .l2 = 0.02, .decay = 1},
    {.count = 2049, .splits = MOST_SPLITS, .l2 = 0.003, .decay = 1},
    {.count = 64, .frozen = 1},
    {.count = 5, .splits = 0},
};

static const struct fm_hyper usual = {
    .momentum = 0.9, .beta_1 = 0.9, .beta_2 = 0.99, .epsilon = 1e-3, .rho = 0.9, .weight_decay = 0.1};

/* The same in double on the host. */
struct plain {
    double w[4096], slot[MOST_SLOTS][4096], g[4096];
    double squares[VARIABLES], square, penalty, loss;
};

static float start_value(int i)
{
    return ts_hashed((uint32_t)i, 21, 1, 0);
}

static void put_gradients(struct subject *s, int step)
{
    int partial = 0;
    for (int v = 0; v < s->nvariables; v++) {
        const struct variable *variable = &s->variable[v];
        for (int k = 0; k < (variable->splits ? variable->splits : 1); k++) {
            float g[4096];
            for (int i = 0; i < variable->count; i++) g[i] = partial_value(step, v, k, i);
            float *to = variable->splits
                            ? (float *)s->update.partials + partial + k * partial_stride(variable)
                            : s->update.gradients + variable->offset;
            fm_emulator_poke(to, g, (size_t)variable->count * sizeof *g);
        }
        partial += variable->splits * partial_stride(variable);
    }
}

static void plain_gradients(struct plain *p, const struct subject *s, int step)
{
    p->penalty = p->square = 0;
    for (int v = 0; v < s->nvariables; v++) {
        const struct variable *variable = &s->variable[v];
        p->squares[v] = 0;
        for (int i = 0; !variable->frozen && i < variable->count; i++) {
            const double w = p->w[variable->offset + i];
            double g = 0;
            for (int k = 0; k < (variable->splits ? variable->splits : 1); k++)
                g += (double)partial_value(step, v, k, i);
            g += variable->l1 * ((w > 0) - (w < 0)) + 2 * variable->l2 * w;
            p->g[variable->offset + i] = g;
            p->squares[v] += g * g;
            p->penalty += variable->l1 * fabs(w) + variable->l2 * w * w;
        }
        p->square += p->squares[v];
    }
}

static double plain_clip(const struct plain *p, const struct fm_hyper *h, int v, double g)
{
    const double limit = h->clip_value;
    switch (h->clip) {
    case FM_CLIP_NORM: return g * limit / fmax(limit, sqrt(p->squares[v]));
    case FM_CLIP_GLOBAL_NORM: return g * limit / fmax(limit, sqrt(p->square));
    case FM_CLIP_VALUE: return fmax(-limit, fmin(limit, g));
    default: return g;
    }
}

/* One parameter at time t. */
static void plain_update(struct plain *p, const struct subject *s, const struct fm_hyper *h, double rate,
                         int t, int at, double g)
{
    double *w = &p->w[at], *a = &p->slot[0][at], *b = &p->slot[1][at], *c = &p->slot[2][at];
    if (s->update.optimizer == FM_OPTIMIZER_SGD) {
        *a = (s->update.momentum ? h->momentum : 0) * *a - rate * g;
        *w += s->update.nesterov ? h->momentum * *a - rate * g : *a;
    } else if (s->update.optimizer == FM_OPTIMIZER_RMSPROP) {
        *a = h->rho * *a + (1 - h->rho) * g * g;
        *b = h->rho * *b + (1 - h->rho) * g;
        *c = h->momentum * *c + rate * g / sqrt(*a - (s->update.centered ? *b * *b : 0) + h->epsilon);
        *w -= *c;
    } else {
        *a += (1 - h->beta_1) * (g - *a);
        *b += (1 - h->beta_2) * (g * g - *b);
        *c = fmax(*c, *b);
        const double step = rate * sqrt(1 - pow(h->beta_2, t)) / (1 - pow(h->beta_1, t));
        *w -= *a * step / (sqrt(s->update.amsgrad ? *c : *b) + h->epsilon);
    }
}

static void plain_step(struct plain *p, const struct subject *s, const struct fm_hyper *h, double rate,
                       int step)
{
    plain_gradients(p, s, step);
    for (int v = 0; v < s->nvariables; v++) {
        const struct variable *variable = &s->variable[v];
        for (int i = 0; !variable->frozen && i < variable->count; i++) {
            const int at = variable->offset + i;
            const double g = plain_clip(p, h, v, p->g[at]);
            if (variable->decay) p->w[at] -= p->w[at] * h->weight_decay * rate;
            plain_update(p, s, h, rate, step + 1, at, g);
        }
    }
}

static void put_start(struct subject *s, struct plain *p)
{
    for (int v = 0; v < s->nvariables; v++) {
        float w[4096];
        for (int i = 0; i < s->variable[v].count; i++) {
            w[i] = start_value(s->variable[v].offset + i);
            p->w[s->variable[v].offset + i] = (double)w[i];
        }
        fm_emulator_poke(s->update.parameters + s->variable[v].offset, w,
                         (size_t)s->variable[v].count * sizeof *w);
    }
}

static void compare_parameters(const struct subject *s, const struct plain *p, const char *name)
{
    float w[4096];
    on_device_get(w, s->update.parameters, (size_t)s->floats * sizeof *w);
    const struct ts_worst worst = ts_compare_float(TS_ENGINE_STEPS, w, p->w, (size_t)s->floats);
    cr_assert(worst.ok, "%s: %s", name, worst.text);
}

/* Three steps; the last batch is smaller. The parameters' bits go to `bits`. */
static void check_sums(const struct subject *like, const struct fm_hyper *h, int thread_order,
                       const char *name, float *bits)
{
    enum { STEPS = 3 };
    static struct plain p;
    struct subject s = *like;
    float losses[ROWS], weights[ROWS];
    double loss_sum = 2.5;
    memset(&p, 0, sizeof p);
    s.nvariables = VARIABLES;
    memcpy(s.variable, odd, sizeof odd);
    set_hyper(&s, h);
    open_subject(&s, thread_order);
    put_start(&s, &p);
    begin(&s, FM_ON_NAN_ROLLBACK, 7, STEPS, 0.05);
    for (int step = 0; step < STEPS; step++) {
        const int n = step == STEPS - 1 ? 5 : ROWS;
        double loss = 0;
        for (int i = 0; i < n; i++) {
            losses[i] = ts_hashed((uint32_t)(step * ROWS + i), 23, 1, 2);
            weights[i] = (float)(1 + i % 3);
            loss += (double)losses[i] * (double)weights[i] / n;
        }
        put_gradients(&s, step);
        set_losses(&s, n, losses, weights);
        end_step(&s);
        plain_step(&p, &s, h, 0.05, step);
        loss += p.penalty;
        loss_sum += loss * n;
        const struct fm_cuda_control c = on_device_control(&s.place);
        cr_assert(ts_compare_one(TS_ENGINE_GRADIENT, c.loss, loss).ok, "%s: %g, not %g", name, c.loss, loss);
        cr_assert(ts_compare_one(TS_ENGINE_GRADIENT, c.norm, sqrt(p.square)).ok);
        cr_assert(c.step == 8 + step && !c.bad && !c.frozen);
    }
    compare_parameters(&s, &p, name);
    on_device_get(bits, s.update.parameters, (size_t)s.floats * sizeof *bits);
    cr_assert_eq(fm_cuda_penalty(s.place, s.update, s.penalty), cudaSuccess);
    double penalty;
    on_device_get(&penalty, s.penalty, sizeof penalty);
    plain_gradients(&p, &s, 0);
    cr_assert(ts_compare_one(TS_ENGINE_GRADIENT, penalty, p.penalty).ok);
    const struct fm_cuda_answer answer = end(&s);
    cr_assert(answer.steps == STEPS && answer.examples == 2 * ROWS + 5 &&
              answer.loss_examples == answer.examples);
    cr_assert(answer.bad_steps == 0 && answer.first_bad_step == -1 && !answer.frozen);
    cr_assert(ts_compare_one(TS_ENGINE_GRADIENT, answer.loss_sum, loss_sum).ok);
    cr_assert_eq(answer.last_loss, on_device_control(&s.place).loss);
    cr_assert_eq(answer.last_norm, on_device_control(&s.place).norm);
    struct fm_cuda_tail tail;
    on_device_get(&tail, s.lane.tail, sizeof tail);
    cr_assert_eq(tail.iterations, STEPS);
    on_device_close(&s.device);
}

static void check_orders(struct subject like, struct fm_hyper h, const char *name)
{
    static float first[4096], other[4096];
    check_sums(&like, &h, 0, name, first);
    check_sums(&like, &h, 5, name, other);
    /* Padding included: it is 0 and stays 0. */
    for (int i = 0; i < 3700; i++) cr_assert_eq(memcmp(&first[i], &other[i], sizeof *first), 0, "%s", name);
}

Test(cuda_update, sums_over_splits_and_tiles)
{
    struct fm_hyper h = usual;
    struct subject s = {.slots = 1};
    s.update.optimizer = FM_OPTIMIZER_SGD;
    s.update.momentum = s.update.nesterov = 1;
    h.clip = FM_CLIP_NORM;
    h.clip_value = 3;
    check_orders(s, h, "sgd, nesterov, clipnorm");
    s = (struct subject){.slots = 3};
    s.update.optimizer = FM_OPTIMIZER_ADAMW;
    s.update.amsgrad = 1;
    h.clip = FM_CLIP_GLOBAL_NORM;
    check_orders(s, h, "adamw, amsgrad, global_clipnorm");
    s = (struct subject){.slots = 3};
    s.update.optimizer = FM_OPTIMIZER_RMSPROP;
    s.update.centered = s.update.momentum = 1;
    h.clip = FM_CLIP_VALUE;
    h.clip_value = 0.5;
    h.epsilon = 0.1;
    check_orders(s, h, "rmsprop, centered, momentum, clipvalue");
    s = (struct subject){.slots = 0};
    s.update.optimizer = FM_OPTIMIZER_SGD;
    h.clip = FM_CLIP_NONE;
    h.weight_decay = 0;
    check_orders(s, h, "sgd");
}

/* No sum of these is exact. */
static float third(int variable, int split, int i)
{
    return partial_value(0, variable, split, i) / 3;
}

/* Bits depend on the order of a sum: split after split, whether vectors can be loaded or not. */
Test(cuda_update, partial_sums_are_added_in_the_order_of_splits)
{
    struct subject s = {.nvariables = 2,
                        .variable = {{.count = 1028, .splits = MOST_SPLITS}, {.count = 37, .splits = 3}}};
    const float one[1] = {1};
    float w[4096];
    int partial = 0, moved = 0;
    s.update.optimizer = FM_OPTIMIZER_SGD;
    open_subject(&s, 0);
    begin(&s, FM_ON_NAN_STOP, 0, 1,
          1); /* from 0, at a rate of 1: the parameters are the gradient's opposite */
    for (int v = 0; v < s.nvariables; v++)
        for (int k = 0; k < s.variable[v].splits; k++, partial += partial_stride(&s.variable[v])) {
            for (int i = 0; i < s.variable[v].count; i++) w[i] = third(v, k, i);
            fm_emulator_poke((float *)s.update.partials + partial, w,
                             (size_t)s.variable[v].count * sizeof *w);
        }
    set_losses(&s, 1, one, one);
    end_step(&s);
    on_device_get(w, s.update.parameters, (size_t)s.floats * sizeof *w);
    for (int v = 0; v < s.nvariables; v++) {
        const struct variable *variable = &s.variable[v];
        for (int i = 0; i < variable->count; i++) {
            float sum = third(v, 0, i), other = sum;
            for (int k = 1; k < variable->splits; k++) {
                sum += third(v, k, i);
                other += third(v, variable->splits - k, i);
            }
            cr_assert_eq(w[variable->offset + i], -sum, "variable %d, %d", v, i);
            moved += sum != other;
        }
    }
    cr_assert(moved > 100, "the order must show");
    on_device_close(&s.device);
}
