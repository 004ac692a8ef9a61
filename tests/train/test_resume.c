/* Interruptions and cuts change no bit: a run that is written down at any safe point and goes on in a new
 * process (here: a new run on a new lane) tells the same epochs and events and ends in the same result; so
 * does one whose epochs are cut into other requests. A checkpoint that does not fit is refused. */
#include <criterion/criterion.h>
#include <math.h>

#include "support/scripted.h"
#include "support/training.h"

struct setting {
    const char *name;
    bool inner;
    enum fm_stop_rule rule;
    enum fm_on_nan on_nan;
    struct fm_scripted_fault bad; /* epoch -2 = none */
    int64_t steps_per_epoch;
};

#define NO_FAULT                                                                                             \
    {                                                                                                        \
        .epoch = -2                                                                                          \
    }
static const struct setting settings[] = {
    {"plain", false, FM_STOP_NONE, FM_ON_NAN_STOP, NO_FAULT, 0},
    {"keras", false, FM_STOP_KERAS, FM_ON_NAN_STOP, NO_FAULT, 0},
    {"keras, inner, rollback", true, FM_STOP_KERAS, FM_ON_NAN_ROLLBACK, {.epoch = 2, .above = .3}, 0},
    {"gl, skip", false, FM_STOP_GL, FM_ON_NAN_SKIP, {.epoch = -1}, 0},
    {"up, rollback to the end", true, FM_STOP_UP, FM_ON_NAN_ROLLBACK, {.epoch = 3}, 0},
    {"pq, keras's nan", false, FM_STOP_PQ, FM_ON_NAN_KERAS, {.epoch = 4}, 0},
    /* A pass of three steps, so that the bad step stands in the middle of the run's third epoch. */
    {"rollback in mid-epoch", true, FM_STOP_KERAS, FM_ON_NAN_ROLLBACK, {.epoch = 5, .above = .3}, 6},
    {"rollback from the start", true, FM_STOP_NONE, FM_ON_NAN_ROLLBACK, {.epoch = 1, .above = .6}, 6},
    {"stop", true, FM_STOP_KERAS, FM_ON_NAN_STOP, {.epoch = 3}, 0},
};
#define SETTINGS (sizeof settings / sizeof *settings)

static double wavy(void *context, const struct fm_scripted_at *at)
{
    static const double watched[] = {1, .9, .95, .8, .85, .86, .87, .7, .9, .9};
    (void)context;
    int64_t epoch = at->epoch < 0 ? 0 : at->epoch;
    return at->training ? 1.1 / (3.0 + (double)epoch) : watched[epoch] * (at->part == FM_PART_VAL ? 1 : 1.07);
}

static void begin(struct ts_training *t, const struct setting *s, int64_t chunk)
{
    struct fm_scripted_options options = {.lanes = 1, .loss = wavy};
    if (s->bad.epoch != -2) {
        options.faults[options.nfaults] = s->bad;
        options.faults[options.nfaults].what = FM_SCRIPTED_BAD;
        options.faults[options.nfaults].repeat = options.faults[options.nfaults].fold = -1;
        options.nfaults++;
    }
    ts_training_init(t, s->inner);
    t->config.epochs = s->steps_per_epoch ? 5 : 8;
    t->config.steps_per_epoch = s->steps_per_epoch;
    t->config.on_nan = s->on_nan;
    t->config.early_stopping.rule = s->rule;
    t->config.early_stopping.restore_best_weights = true;
    t->config.early_stopping.patience = 3;
    t->config.early_stopping.alpha = 8;
    t->config.early_stopping.strips = 1;
    t->config.early_stopping.strip = 2;
    t->config.metrics |= 1u << FM_METRIC_AUC;
    fm_scripted_configure(&options);
    ts_training_open(t, &fm_backend_scripted);
    t->spec.chunk = chunk;
    t->spec.metric.metric = FM_METRIC_AUC;
    t->spec.maximize = true;
}

/* ---- same bits ---- */

static bool same(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void same_measured(const char *name, const struct fm_measured *a, const struct fm_measured *b)
{
    for (int m = 0; m < FM_METRICS; m++) cr_assert(same(a->value[m], b->value[m]), "%s: metric %d", name, m);
}

static void same_told(const char *name, const struct ts_told *a, const struct ts_told *b)
{
    cr_assert_eq(a->nepochs, b->nepochs, "%s", name);
    for (int64_t i = 0; i < a->nepochs; i++) {
        const struct fm_epoch *x = &a->epochs[i], *y = &b->epochs[i];
        cr_assert(x->epoch == y->epoch && x->best == y->best, "%s: epoch %lld", name, (long long)i + 1);
        cr_assert(same(x->loss, y->loss) && same(x->learning_rate, y->learning_rate), "%s: epoch %lld", name,
                  (long long)i + 1);
        same_measured(name, &x->inner, &y->inner);
        same_measured(name, &x->val, &y->val);
    }
    cr_assert_eq(a->nevents, b->nevents, "%s", name);
    for (int64_t i = 0; i < a->nevents; i++) {
        const struct fm_event *x = &a->events[i], *y = &b->events[i];
        cr_assert(x->kind == y->kind && x->number == y->number && x->epoch == y->epoch &&
                      x->step == y->step && x->count == y->count,
                  "%s: event %lld", name, (long long)i);
        cr_assert(same(x->last_loss, y->last_loss) && same(x->last_norm, y->last_norm), "%s: event %lld",
                  name, (long long)i);
        cr_assert_str_eq(x->text, y->text);
    }
}

/* The scripted state ends in the number of updates and a digest of every step done and its learning rate. */
static void same_state(const char *name, struct ts_training *t, struct ts_told *a, struct ts_training *u,
                       struct ts_told *b)
{
    char x[256], y[256];
    struct fm_error err = {0};
    struct fm_lane *lanes[] = {(struct fm_lane *)fm_run_lane(a->run), (struct fm_lane *)fm_run_lane(b->run)};
    int64_t size = t->backend.state_size(lanes[0]);
    size_t floats = (size_t)t->program->float_count * sizeof(float);
    cr_assert(size <= (int64_t)sizeof x && size >= (int64_t)(floats + 16));
    cr_assert_eq(t->backend.state_read(lanes[0], x, &err), 0);
    cr_assert_eq(u->backend.state_read(lanes[1], y, &err), 0);
    cr_assert_arr_eq(x, y, floats + 16, "%s", name);
}

static void same_result(const char *name, struct ts_training *t, struct fm_run_result *a,
                        struct fm_run_result *b)
{
    cr_assert_eq(a->status, b->status, "%s: %s, %s", name, a->reason, b->reason);
    cr_assert_str_eq(a->reason_code, b->reason_code);
    cr_assert_str_eq(a->reason, b->reason);
    cr_assert_str_eq(a->stopped, b->stopped);
    cr_assert(a->epochs == b->epochs && a->scored_epoch == b->scored_epoch &&
                  a->best_epoch == b->best_epoch && a->bad_steps == b->bad_steps && a->nscores == b->nscores,
              "%s", name);
    cr_assert(same(a->loss, b->loss), "%s", name);
    same_measured(name, &a->inner, &b->inner);
    same_measured(name, &a->val, &b->val);
    if (a->status != FM_RUN_COMPLETED) return;
    cr_assert_arr_eq(a->confusion, b->confusion, 4 * sizeof *a->confusion);
    cr_assert_arr_eq(a->scores, b->scores, (size_t)a->nscores * sizeof *a->scores);
    cr_assert_arr_eq(a->weights, b->weights, (size_t)t->program->float_count * sizeof *a->weights);
}

static void whole(struct ts_training *t, struct ts_told *told, const struct setting *s, int64_t chunk)
{
    struct fm_error err = {0};
    begin(t, s, chunk);
    cr_assert_eq(ts_training_run(t, told, false, &err), 1, "%s: %s", s->name, err.text);
}

Test(resume, cuts_change_no_bit)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        struct ts_training one, other;
        struct ts_told a = {0}, b = {0};
        whole(&one, &a, &settings[i], 1000);
        for (int64_t chunk = 1; chunk <= 7; chunk += 2) {
            whole(&other, &b, &settings[i], chunk);
            same_told(settings[i].name, &a, &b);
            same_result(settings[i].name, &one, fm_run_result(a.run), fm_run_result(b.run));
            same_state(settings[i].name, &one, &a, &other, &b);
            ts_told_fini(&b);
            ts_training_fini(&other);
            b = (struct ts_told){0};
        }
        ts_told_fini(&a);
        ts_training_fini(&one);
    }
}

static void interrupt_everywhere(const struct setting *s, int64_t chunk, int64_t *points)
{
    struct ts_training one, other;
    struct ts_told a = {0};
    whole(&one, &a, s, chunk);
    *points += a.safe_points;
    for (int64_t at = 1; at <= a.safe_points; at++) {
        struct ts_told b = {.checkpoint_at = at};
        struct fm_error err = {0};
        begin(&other, s, chunk);
        int code = ts_training_run(&other, &b, false, &err);
        cr_assert_eq(code, 0, "%s, point %lld: %d %s", s->name, (long long)at, code, err.text);
        cr_assert_eq(b.nepochs, b.blob_epochs);
        code = ts_training_run(&other, &b, true, &err);
        cr_assert_eq(code, 1, "%s, point %lld: %d %s", s->name, (long long)at, code, err.text);
        same_told(s->name, &a, &b);
        same_result(s->name, &one, fm_run_result(a.run), fm_run_result(b.run));
        same_state(s->name, &one, &a, &other, &b);
        ts_told_fini(&b);
        ts_training_fini(&other);
    }
    ts_told_fini(&a);
    ts_training_fini(&one);
}

Test(resume, every_safe_point, .timeout = 30)
{
    int64_t points = 0;
    for (size_t i = 0; i < SETTINGS; i++) {
        interrupt_everywhere(&settings[i], 1, &points);
        interrupt_everywhere(&settings[i], 3, &points);
    }
    cr_assert_gt(points, 150, "%lld", (long long)points);
}

/* ---- refusals ---- */

static int try_resume(struct ts_training *t, struct ts_told *told, const char *blob, size_t size,
                      int64_t epochs)
{
    struct fm_run_listener listener = {0};
    struct fm_error err = {0};
    struct fm_run *run;
    cr_assert_eq(fm_run_new(&run, &t->spec, &listener, &err), 0);
    int code = fm_run_resume(run, blob, size, told->epochs, epochs, &err);
    cr_assert(code >= 0 || strstr(err.text, "checkpoint"), "%s", err.text);
    fm_run_free(run);
    return code;
}

Test(resume, a_checkpoint_that_does_not_fit_is_refused)
{
    struct ts_training t;
    struct ts_told told = {.checkpoint_at = 9};
    struct fm_error err = {0};
    begin(&t, &settings[2], 2);
    cr_assert_eq(ts_training_run(&t, &told, false, &err), 0);
    char *blob = told.blob.data;
    size_t size = told.blob.size;
    int64_t epochs = told.blob_epochs;
    cr_assert_gt(epochs, 0);
    cr_assert_eq(try_resume(&t, &told, blob, size, epochs), 0);
    for (size_t cut = 0; cut < size; cut += 5)
        cr_assert_eq(try_resume(&t, &told, blob, cut, epochs), FM_EFILE);
    for (size_t i = 0; i < size; i++) {
        blob[i] ^= 4;
        cr_assert_eq(try_resume(&t, &told, blob, size, epochs), FM_EFILE, "byte %zu", i);
        blob[i] ^= 4;
    }
    cr_assert_eq(try_resume(&t, &told, blob, size, epochs - 1), FM_EFILE);
    told.epochs[0].epoch = 2;
    cr_assert_eq(try_resume(&t, &told, blob, size, epochs), FM_EFILE);
    told.epochs[0].epoch = 1;
    t.blank.hash++;
    cr_assert_eq(try_resume(&t, &told, blob, size, epochs), FM_EFILE);
    t.blank.hash--;
    t.config.batch_size = 5;
    cr_assert_eq(try_resume(&t, &told, blob, size, epochs), FM_EFILE);
    t.config.batch_size = 4;
    t.config.on_nan = FM_ON_NAN_STOP;
    cr_assert_eq(try_resume(&t, &told, blob, size, epochs), FM_EFILE);
    t.config.on_nan = FM_ON_NAN_ROLLBACK;
    t.config.early_stopping.rule = FM_STOP_NONE;
    cr_assert_eq(try_resume(&t, &told, blob, size, epochs), FM_EFILE);
    ts_told_fini(&told);
    ts_training_fini(&t);
}
