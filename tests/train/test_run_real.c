/* Runs that really train, on the reference backend: cases A10, A10b and A13 end to end, and interruptions
 * that change no bit of weights, slots, statistics, dropout or the order of the examples. */
#include <criterion/criterion.h>
#include <math.h>

#include "support/network.h"
#include "support/tolerance.h"
#include "support/training.h"

static const struct fm_backend *reference(void)
{
    const struct fm_backend *backend;
    return fm_backend_find(&backend, "cpu", NULL) == 0 ? backend : NULL;
}

static void compile(struct ts_training *t, struct ts_network *network, const char *model)
{
    struct fm_net_input input = {.rows = t->view.length,
                                 .channels = 1,
                                 .nclasses = t->data.nclasses,
                                 .exact_classes = t->data.nclasses > 0,
                                 .target_width = 1};
    cr_assert_eq(ts_network_init(network, model, &input, &t->config), 0, "%s", network->error.text);
    t->program = network->program;
}

/* ---- cases ---- */

static struct fm_run_result *train_over(struct ts_training *t, struct ts_told *told)
{
    struct fm_error err = {0};
    cr_assert_eq(ts_training_run(t, told, false, &err), 1, "%s", err.text);
    struct fm_run_result *r = fm_run_result(told->run);
    cr_assert_eq(r->status, FM_RUN_COMPLETED, "%s", r->reason);
    return r;
}

static void near(const char *what, double got, double expected)
{
    struct ts_worst w = ts_compare_one(TS_FLOAT_LAYER, got, expected);
    cr_assert(w.ok, "%s: %s", what, w.text);
}

struct numbers {
    const float *x, *y;
    int64_t n, m;
    const char *initializer;
    double rate, loss, val_loss;
};

static void numbers_case(const struct numbers *c, int64_t batch, double weight)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct ts_network network;
    char model[120];
    ts_training_init_numbers(&t, c->x, c->y, c->n, c->m);
    t.config.batch_size = batch;
    t.config.epochs = 1;
    t.config.optimizer.learning_rate = c->rate;
    snprintf(model, sizeof model, "[flatten, {dense: {units: 1, kernel_initializer: %s}}]", c->initializer);
    compile(&t, &network, model);
    ts_training_open(&t, reference());
    struct fm_run_result *r = train_over(&t, &told);
    near("loss", r->loss, c->loss);
    near("val_loss", r->val.value[FM_METRIC_LOSS], c->val_loss);
    near("val_mse", r->val.value[FM_METRIC_MSE], c->val_loss);
    if (!isnan(weight)) near("kernel", r->weights[0], weight);
    if (!isnan(weight)) near("bias", r->weights[1], weight);
    ts_told_fini(&told);
    ts_training_fini(&t);
    ts_network_fini(&network);
}

Test(run_real, A10_the_last_smaller_batch)
{
    /* Fold 0 trains on the five rows of fold 1 and the other way round. */
    static const float x0[] = {1, 2, 3, 4, 5, 1, 2, 4}, y0[] = {2, 3, 5, 4, 8, 1, 4, 6};
    static const float x1[] = {1, 2, 4, 1, 2, 3, 4, 5}, y1[] = {1, 4, 6, 2, 3, 5, 4, 8};
    const struct numbers fold0 = {x0, y0, 5, 3, "ones", 0, 3, 2.6666667};
    const struct numbers fold1 = {x1, y1, 3, 5, "ones", 0, 2.6666667, 3};
    for (int64_t batch = 1; batch <= 6; batch++) {
        numbers_case(&fold0, batch, NAN);
        numbers_case(&fold1, batch, NAN);
    }
}

Test(run_real, A10b_three_steps_and_one)
{
    static const float ones[] = {1, 1, 1, 1, 1, 1, 1};
    numbers_case(&(struct numbers){ones, ones, 5, 2, "zeros", .1, .56992, .046656}, 2, .392);
    numbers_case(&(struct numbers){ones, ones, 2, 5, "zeros", .1, 1, .36}, 2, .2);
}

Test(run_real, A13_a_fold_with_one_class)
{
    static const float x[3][14] = {{-.5, -1.5, .25, -3, 3.5, 2.75, 1.25, 1.75, 5, .5, -1, 2, -2, 1},
                                   {.5, -1, 2, -2, 1, 3.5, 2.75, 1.25, 1.75, 5, -.5, -1.5, .25, -3},
                                   {.5, -1, 2, -2, 1, -.5, -1.5, .25, -3, 3.5, 2.75, 1.25, 1.75, 5}};
    static const uint8_t y[3][14] = {{0, 0, 0, 0, 1, 1, 0, 1, 1, 1, 0, 1, 0, 0},
                                     {1, 0, 1, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0},
                                     {1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1}};
    static const int64_t val[] = {5, 4, 5};
    static const double loss[] = {.4708913, .3875043, .3521173}, auc[] = {.8333333, NAN, 1},
                        accuracy[] = {.8, .75, .8};
    for (int f = 0; f < 3; f++) {
        struct ts_training t;
        struct ts_told told = {0};
        struct ts_network network;
        ts_training_init_numbers(&t, x[f], x[f], 14 - val[f], val[f]);
        memcpy(t.classes, y[f], 14);
        t.data.nclasses = 2;
        t.data.classes = t.view.classes = (struct fm_packed){8, 14, t.classes};
        t.data.target_values = t.view.values = NULL;
        t.config.loss.kind = FM_LOSS_BINARY_CROSSENTROPY;
        t.config.optimizer.learning_rate = 0;
        t.config.epochs = 1;
        compile(&t, &network,
                "[flatten, {dense: {units: 1, activation: sigmoid, kernel_initializer: ones}}]");
        ts_training_open(&t, reference());
        struct fm_run_result *r = train_over(&t, &told);
        near("val_loss", r->val.value[FM_METRIC_LOSS], loss[f]);
        near("val_auc", r->val.value[FM_METRIC_AUC], auc[f]);
        near("val_accuracy", r->val.value[FM_METRIC_ACCURACY], accuracy[f]);
        ts_told_fini(&told);
        ts_training_fini(&t);
        ts_network_fini(&network);
    }
}

/* ---- interruptions ---- */

static const char *const models[] = {
    "[{conv1d: {filters: 3, kernel_size: 3, activation: swish}}, batch_normalization, {dropout: {rate: "
    "0.3}}, flatten, "
    "{dense: {units: 2, activation: softmax}}]",
    "[{conv1d: {filters: 2, kernel_size: 2, activation: relu}}, {max_pooling1d: {pool_size: 2}}, flatten, "
    "{dense: {units: "
    "1, activation: sigmoid}}]",
};

struct setting {
    int model;
    bool inner;
    enum fm_stop_rule rule;
    enum fm_on_nan on_nan;
    enum fm_optimizer_kind optimizer;
    double rate;
    int64_t steps_per_epoch;
};

static const struct setting settings[] = {
    {0, false, FM_STOP_NONE, FM_ON_NAN_STOP, FM_OPTIMIZER_ADAM, .01, 0},
    {0, true, FM_STOP_KERAS, FM_ON_NAN_ROLLBACK, FM_OPTIMIZER_ADAM, .02, 7},
    {1, true, FM_STOP_GL, FM_ON_NAN_SKIP, FM_OPTIMIZER_SGD, .1, 0},
    /* Rates at which float sums overflow: steps go bad, are rolled back or left out. */
    {1, false, FM_STOP_KERAS, FM_ON_NAN_ROLLBACK, FM_OPTIMIZER_SGD, 1e8, 5},
    {1, false, FM_STOP_NONE, FM_ON_NAN_SKIP, FM_OPTIMIZER_SGD, 1e30, 0},
    {0, false, FM_STOP_NONE, FM_ON_NAN_KERAS, FM_OPTIMIZER_SGD, 1e30, 0},
};

static void begin(struct ts_training *t, struct ts_network *network, const struct setting *s, int64_t chunk)
{
    ts_training_init_series(t, s->inner);
    t->config.epochs = 4;
    t->config.batch_size = 8;
    t->config.steps_per_epoch = s->steps_per_epoch;
    t->config.on_nan = s->on_nan;
    t->config.optimizer.kind = s->optimizer;
    t->config.optimizer.learning_rate = s->rate;
    t->config.early_stopping.rule = s->rule;
    t->config.early_stopping.restore_best_weights = true;
    t->config.early_stopping.patience = 2;
    t->config.early_stopping.alpha = 1;
    if (s->model == 1) t->config.loss.kind = FM_LOSS_BINARY_CROSSENTROPY;
    compile(t, network, models[s->model]);
    ts_training_open(t, reference());
    t->spec.chunk = chunk;
}

static void end(struct ts_training *t, struct ts_network *network, struct ts_told *told)
{
    ts_told_fini(told);
    ts_training_fini(t);
    ts_network_fini(network);
}

static void same(size_t setting, int64_t point, const struct ts_training *t, const struct ts_told *a,
                 const struct ts_told *b)
{
    struct fm_run_result *x = fm_run_result(a->run), *y = fm_run_result(b->run);
    cr_assert_eq(x->status, y->status, "setting %zu, point %lld: %s, %s", setting, (long long)point,
                 x->reason, y->reason);
    cr_assert_str_eq(x->reason, y->reason);
    cr_assert_eq(a->nepochs, b->nepochs);
    for (int64_t i = 0; i < a->nepochs; i++) {
        cr_assert_arr_eq(&a->epochs[i].loss, &b->epochs[i].loss, sizeof(double),
                         "setting %zu, point %lld, epoch %lld", setting, (long long)point, (long long)i + 1);
        cr_assert_arr_eq(&a->epochs[i].val, &b->epochs[i].val, sizeof a->epochs[i].val);
        cr_assert_arr_eq(&a->epochs[i].inner, &b->epochs[i].inner, sizeof a->epochs[i].inner);
        cr_assert_eq(a->epochs[i].learning_rate, b->epochs[i].learning_rate);
    }
    cr_assert_eq(a->nevents, b->nevents);
    for (int64_t i = 0; i < a->nevents; i++) cr_assert_str_eq(a->events[i].text, b->events[i].text);
    cr_assert_arr_eq(&x->val, &y->val, sizeof x->val);
    cr_assert_arr_eq(&x->loss, &y->loss, sizeof x->loss);
    cr_assert_eq(x->scored_epoch, y->scored_epoch);
    if (x->status != FM_RUN_COMPLETED) return;
    cr_assert_arr_eq(x->scores, y->scores, (size_t)x->nscores * sizeof *x->scores);
    cr_assert_arr_eq(x->weights, y->weights, (size_t)t->program->float_count * sizeof *x->weights);
}

static void interrupt_everywhere(size_t setting, int64_t chunk, int64_t *events)
{
    struct ts_training one, other;
    struct ts_network net, net2;
    struct ts_told a = {0};
    struct fm_error err = {0};
    begin(&one, &net, &settings[setting], chunk);
    cr_assert_eq(ts_training_run(&one, &a, false, &err), 1, "%s", err.text);
    *events += a.nevents;
    for (int64_t at = 1; at <= a.safe_points; at++) {
        struct ts_told b = {.checkpoint_at = at};
        begin(&other, &net2, &settings[setting], chunk);
        cr_assert_eq(ts_training_run(&other, &b, false, &err), 0, "%s", err.text);
        cr_assert_eq(ts_training_run(&other, &b, true, &err), 1, "%s", err.text);
        same(setting, at, &one, &a, &b);
        end(&other, &net2, &b);
    }
    end(&one, &net, &a);
}

Test(run_real, every_safe_point, .timeout = 60)
{
    int64_t events = 0;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        interrupt_everywhere(i, i % 2 ? 2 : 1, &events);
    cr_assert_gt(events, 5, "the wild rates gave only %lld bad steps", (long long)events);
}

Test(run_real, cuts_change_no_bit, .timeout = 60)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct ts_training one, other;
        struct ts_network net, net2;
        struct ts_told a = {0};
        struct fm_error err = {0};
        begin(&one, &net, &settings[i], 1000);
        cr_assert_eq(ts_training_run(&one, &a, false, &err), 1, "%s", err.text);
        for (int64_t chunk = 1; chunk <= 7; chunk += 6) {
            struct ts_told b = {0};
            begin(&other, &net2, &settings[i], chunk);
            cr_assert_eq(ts_training_run(&other, &b, false, &err), 1, "%s", err.text);
            same(i, -chunk, &one, &a, &b);
            end(&other, &net2, &b);
        }
        end(&one, &net, &a);
    }
}
