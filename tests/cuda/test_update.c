/* The end of a step on the device: Keras's goldens of all optimizers, clips and decays; sums over splits,
 * tiles and variables of odd sizes, with regularisers, against plain loops in double; bad steps under each
 * on_nan; snapshots. */
#include <jansson.h>
#include <stdlib.h>

#include "cuda/on_device.h"
#include "engine/backend.h"
#include "support/bench.h"
#include "support/inside.h"
#include "support/support.h"
#include "support/tolerance.h"

enum { VARIABLES = 5, ROWS = 37, MOST_SLOTS = 3, MOST_TILES = 24, MOST_SPLITS = 4 };

/* What one variable is. */
struct variable {
    int count, splits, offset, frozen;
    double l1, l2;
    int decay;
};

/* A lane's memory: parameters, slots and tail as one state, and everything that a step needs beside it. */
struct subject {
    struct variable variable[VARIABLES];
    int nvariables, floats, slots;
    struct on_device device;
    struct fm_cuda_lane lane;
    struct fm_cuda_tile tiles[MOST_TILES];
    struct fm_cuda_update update;
    struct fm_cuda_place place;
    size_t state_bytes;
    unsigned char *state;
    double *penalty;
    struct fm_cuda_answer *answer; /* the device's address */
    uint64_t number;
};

static int partial_stride(const struct variable *v)
{
    return v->count % 2 ? v->count + 2 : v->count; /* aligned or not */
}

/* Offsets and tiles. Returns the floats of all partial sums. */
static int lay_out(struct subject *s)
{
    int at = 0, partial = 0, n = 0;
    for (int v = 0; v < s->nvariables; v++) {
        struct variable *variable = &s->variable[v];
        variable->offset = at;
        for (int first = 0; !variable->frozen && first < variable->count; first += FM_CUDA_TILE) {
            const int left = variable->count - first;
            cr_assert(n < MOST_TILES);
            s->tiles[n++] = (struct fm_cuda_tile){.variable = v,
                                                  .count = left < FM_CUDA_TILE ? left : FM_CUDA_TILE,
                                                  .offset = at + first,
                                                  .splits = variable->splits,
                                                  .partial = partial + first,
                                                  .stride = partial_stride(variable),
                                                  .l1 = variable->l1,
                                                  .l2 = variable->l2,
                                                  .decay = variable->decay};
        }
        partial += partial_stride(variable) * variable->splits;
        at += (variable->count + 3) / 4 * 4;
    }
    s->floats = at;
    s->update.ntiles = n;
    return partial;
}

static void open_subject(struct subject *s, int thread_order)
{
    struct on_device *d = &s->device;
    const int partials = lay_out(s);
    const size_t floats = (size_t)s->floats;
    on_device_open(d, thread_order);
    s->state_bytes = floats * (size_t)(1 + s->slots) * sizeof(float);
    s->state_bytes = (s->state_bytes + 15) / 16 * 16;
    const size_t tail = s->state_bytes;
    s->state_bytes += (sizeof(struct fm_cuda_tail) + 15) / 16 * 16;
    unsigned char *zero = calloc(1, s->state_bytes);
    const struct fm_cuda_tail none = {.last_loss = (double)NAN, .last_norm = (double)NAN};
    memcpy(zero + tail, &none, sizeof none);
    s->state = on_device_put(d, zero, s->state_bytes);
    free(zero);
    struct fm_cuda_update *u = &s->update;
    u->tiles = on_device_put(d, s->tiles, (size_t)u->ntiles * sizeof *s->tiles);
    u->nvariables = s->nvariables;
    u->parameters = (float *)s->state;
    u->slots = u->parameters + s->floats;
    u->slot_stride = s->floats;
    u->gradients = on_device_put(d, NULL, floats * sizeof(float));
    u->partials = on_device_put(d, NULL, (size_t)partials * sizeof(float));
    u->sums = on_device_put(d, NULL, (size_t)u->ntiles * 2 * sizeof(double));
    u->scales = on_device_put(d, NULL, (size_t)s->nvariables * sizeof(float));
    u->losses = on_device_put(d, NULL, ROWS * sizeof(float));
    u->weight = on_device_put(d, NULL, ROWS * sizeof(float));
    s->penalty = on_device_put(d, NULL, sizeof *s->penalty);
    s->answer = on_device_put(d, NULL, sizeof *s->answer);
    s->lane.tail = (struct fm_cuda_tail *)(void *)(s->state + tail);
    s->lane.part[FM_PART_TRAIN].count = 1000;
    s->lane.batch = ROWS;
    s->lane.pass_steps = 28;
    s->place = on_device_lane(d, &s->lane, FM_CUDA_TRAINS, ROWS);
}

static void set_hyper(struct subject *s, const struct fm_hyper *h)
{
    s->lane.hyper = (struct fm_cuda_hyper){.momentum = (float)h->momentum,
                                           .beta_1 = (float)h->beta_1,
                                           .beta_2 = (float)h->beta_2,
                                           .epsilon = (float)h->epsilon,
                                           .rho = (float)h->rho,
                                           .weight_decay = (float)h->weight_decay,
                                           .beta_1_wide = h->beta_1,
                                           .beta_2_wide = h->beta_2,
                                           .rho_wide = h->rho,
                                           .clip = (int)h->clip,
                                           .clip_value = (float)h->clip_value};
}

static void begin(struct subject *s, enum fm_on_nan on_nan, int64_t first, int64_t steps, double rate)
{
    const struct fm_cuda_begin request = {.kind = FM_TRAIN,
                                          .on_nan = (int)on_nan,
                                          .first_step = first,
                                          .steps = steps,
                                          .learning_rate = rate,
                                          .loss_sum = 2.5};
    cr_assert_eq(fm_cuda_request_begin(s->place, request), cudaSuccess);
}

/* The valid rows of the step, with the losses that the loss kernel would have left. */
static void set_losses(struct subject *s, int n, const float *losses, const float *weights)
{
    float loss[ROWS], weight[ROWS];
    for (int i = 0; i < ROWS; i++) {
        loss[i] = i < n ? losses[i] : NAN; /* what is not valid must not be looked at */
        weight[i] = i < n ? weights[i] : NAN;
    }
    fm_emulator_poke((void *)s->update.losses, loss, sizeof loss);
    fm_emulator_poke((void *)s->update.weight, weight, sizeof weight);
    struct fm_cuda_control control = on_device_control(&s->place);
    control.n = n;
    on_device_set_control(&s->place, &control);
}

static void end_step(struct subject *s)
{
    cr_assert_eq(fm_cuda_norm(s->place, s->update), cudaSuccess);
    cr_assert_eq(fm_cuda_optimize(s->place, s->update), cudaSuccess);
}

static struct fm_cuda_answer end(struct subject *s)
{
    struct fm_cuda_answer answer;
    cr_assert_eq(fm_cuda_request_end(s->place, s->answer, ++s->number, NULL), cudaSuccess);
    on_device_get(&answer, s->answer, sizeof answer);
    cr_assert_eq(answer.done, s->number);
    cr_assert_eq(on_device_control(&s->place).activity, FM_CUDA_IDLE);
    return answer;
}

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

static float partial_value(int step, int variable, int split, int i)
{
    return ts_hashed((uint32_t)(((step * VARIABLES + variable) * MOST_SPLITS + split) * 4096 + i), 22, 1, 0);
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

/* ---- bad steps ---- */

/* What is wrong with the second of four steps. */
enum fault { NAN_LOSS, INFINITE_GRADIENT, LARGE_SQUARE, FAULTS };

static void open_small(struct subject *s, struct fm_hyper hyper)
{
    *s = (struct subject){.slots = 2, .nvariables = 2, .variable = {{.count = 6}, {.count = 3}}};
    s->update.optimizer = FM_OPTIMIZER_ADAM;
    set_hyper(s, &hyper);
    open_subject(s, 0);
}

static void small_step(struct subject *s, int step, int fault)
{
    float g[12] = {0}, losses[4] = {1, 2, 3, 4}, weights[4] = {1, 1, 2, 1};
    for (int i = 0; i < 9; i++) g[i < 6 ? i : i + 2] = partial_value(step, 0, 0, i);
    if (fault == NAN_LOSS) losses[2] = NAN;
    if (fault == INFINITE_GRADIENT) g[9] = INFINITY;
    if (fault == LARGE_SQUARE) g[3] = 3e19f; /* its square is beyond a float, though not beyond a double */
    fm_emulator_poke(s->update.gradients, g, sizeof g);
    set_losses(s, 4, losses, weights);
    end_step(s);
}

static void read_state(const struct subject *s, unsigned char *state)
{
    on_device_get(state, s->state, s->state_bytes);
}

static void check_bad(enum fm_on_nan on_nan, enum fault fault)
{
    struct subject s;
    unsigned char before[512], after[512];
    struct fm_cuda_tail tail;
    open_small(&s, usual);
    cr_assert(s.state_bytes <= sizeof before);
    begin(&s, on_nan, 10, 4, 0.1);
    small_step(&s, 0, -1);
    read_state(&s, before);
    on_device_get(&tail, s.lane.tail, sizeof tail);
    small_step(&s, 1, (int)fault);
    read_state(&s, after);
    struct fm_cuda_control c = on_device_control(&s.place);
    const bool keras = on_nan == FM_ON_NAN_KERAS,
               freezes = on_nan == FM_ON_NAN_STOP || on_nan == FM_ON_NAN_ROLLBACK;
    cr_assert_eq(c.bad, !keras);
    cr_assert_eq(c.frozen, freezes);
    cr_assert_eq(c.activity, freezes ? FM_CUDA_IDLE : FM_CUDA_TRAINS);
    cr_assert_eq(memcmp(before, after, s.state_bytes) == 0, !keras);
    small_step(&s, 2, -1);
    small_step(&s, 3, -1);
    const struct fm_cuda_answer answer = end(&s);
    cr_assert(answer.steps == (freezes ? 2 : 4) && answer.examples == answer.steps * 4);
    cr_assert_eq(answer.loss_examples, freezes ? 4 : keras ? 16 : 12);
    cr_assert(answer.bad_steps >= 1 && answer.first_bad_step == 11 && answer.frozen == freezes);
    struct fm_cuda_tail last;
    on_device_get(&last, s.lane.tail, sizeof last);
    cr_assert_eq(last.iterations, freezes ? 1 : keras ? 4 : 3);
    /* (1 + 2 + 2 * 3 + 4) / 4 of each step that counts. */
    if (!keras) cr_assert_eq(answer.loss_sum, 2.5 + 13 * (freezes ? 1 : 3));
    if (keras && fault == NAN_LOSS) cr_assert(isnan(answer.loss_sum));
    cr_assert_eq(answer.last_loss, 3.25);
    if (freezes) cr_assert_eq(answer.last_norm, tail.last_norm);
    on_device_close(&s.device);
}

Test(cuda_update, bad_steps)
{
    for (int fault = 0; fault < FAULTS; fault++) {
        check_bad(FM_ON_NAN_STOP, (enum fault)fault);
        check_bad(FM_ON_NAN_ROLLBACK, (enum fault)fault);
        check_bad(FM_ON_NAN_SKIP, (enum fault)fault);
        check_bad(FM_ON_NAN_KERAS, (enum fault)fault);
    }
}

/* ---- snapshots, frozen lanes ---- */

Test(cuda_update, snapshots_and_frozen_lanes)
{
    struct subject s;
    unsigned char first[512], now[512];
    open_small(&s, usual);
    void *slot = on_device_put(&s.device, NULL, s.state_bytes);
    const int64_t bytes = (int64_t)s.state_bytes;
    begin(&s, FM_ON_NAN_STOP, 0, 1, 0.1);
    small_step(&s, 0, -1);
    end(&s);
    read_state(&s, first);
    /* An empty slot. */
    cr_assert_eq(fm_cuda_restore(s.place, s.state, slot, bytes, 1), cudaSuccess);
    struct fm_cuda_answer answer = end(&s);
    read_state(&s, now);
    cr_assert(answer.status == 1 && answer.steps == 0 && memcmp(first, now, s.state_bytes) == 0);
    cr_assert_eq(fm_cuda_snapshot(s.place, s.state, slot, bytes, 1), cudaSuccess);
    cr_assert_eq(end(&s).status, 0);
    /* A good step, then a bad one, then nothing any more. */
    begin(&s, FM_ON_NAN_ROLLBACK, 1, 2, 0.1);
    small_step(&s, 1, -1);
    small_step(&s, 2, NAN_LOSS);
    cr_assert_eq(end(&s).frozen, 1);
    read_state(&s, now);
    cr_assert(memcmp(first, now, s.state_bytes) != 0);
    begin(&s, FM_ON_NAN_ROLLBACK, 3, 2, 0.1);
    small_step(&s, 3, -1);
    answer = end(&s);
    cr_assert(answer.frozen == 1 && answer.steps == 0 && answer.loss_sum == 2.5);
    cr_assert_eq(fm_cuda_snapshot(s.place, s.state, slot, bytes, 1), cudaSuccess);
    cr_assert_eq(end(&s).frozen, 1);
    /* Back to the first state, and on from there with the same bits as before. */
    unsigned char second[512], again[512];
    read_state(&s, second);
    cr_assert_eq(fm_cuda_restore(s.place, s.state, slot, bytes, 1), cudaSuccess);
    answer = end(&s);
    cr_assert(answer.frozen == 0 && answer.status == 0);
    read_state(&s, now);
    cr_assert_eq(memcmp(first, now, s.state_bytes), 0);
    begin(&s, FM_ON_NAN_ROLLBACK, 1, 1, 0.1);
    small_step(&s, 1, -1);
    end(&s);
    read_state(&s, again);
    cr_assert_eq(memcmp(second, again, s.state_bytes), 0);
    uint64_t *word = on_device_put(&s.device, NULL, sizeof *word), value;
    cr_assert_eq(fm_cuda_signal(s.place, word, 77), cudaSuccess);
    on_device_get(&value, word, sizeof value);
    cr_assert_eq(value, 77);
    on_device_close(&s.device);
}

Test(cuda_update, nothing_when_it_is_not_its_turn)
{
    struct subject s;
    unsigned char before[512], after[512];
    open_small(&s, usual);
    begin(&s, FM_ON_NAN_STOP, 0, 3, 0.1);
    small_step(&s, 0, -1);
    read_state(&s, before);
    const struct fm_cuda_control control = on_device_control(&s.place);
    s.place.activity = FM_CUDA_EVALUATES;
    end_step(&s);
    read_state(&s, after);
    struct fm_cuda_control now = on_device_control(&s.place);
    cr_assert_eq(memcmp(before, after, s.state_bytes), 0);
    cr_assert_eq(memcmp(&control, &now, sizeof now), 0);
    on_device_close(&s.device);
}

/* A network in which nothing can be trained still counts its steps. */
Test(cuda_update, without_trainable_variables)
{
    struct subject s = {.nvariables = 1, .variable = {{.count = 6, .frozen = 1}}};
    const float one[1] = {3};
    s.update.optimizer = FM_OPTIMIZER_SGD;
    open_subject(&s, 0);
    begin(&s, FM_ON_NAN_STOP, 0, 2, 0.1);
    for (int i = 0; i < 2; i++) {
        set_losses(&s, 1, one, one);
        end_step(&s);
    }
    cr_assert_eq(fm_cuda_penalty(s.place, s.update, s.penalty), cudaSuccess);
    double penalty;
    on_device_get(&penalty, s.penalty, sizeof penalty);
    cr_assert_eq(penalty, 0);
    const struct fm_cuda_answer answer = end(&s);
    cr_assert(answer.steps == 2 && answer.last_loss == 9 && answer.last_norm == 0);
    on_device_close(&s.device);
}
