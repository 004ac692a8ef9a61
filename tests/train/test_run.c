/* The run as a state machine, on the scripted backend: what is asked for in which order, which weights are
 * kept, what each policy makes of bad steps and failures, and that cuts and interruptions change no bit. */
#include <criterion/criterion.h>
#include <math.h>

#include "support/allocation.h"
#include "support/scripted.h"
#include "support/training.h"

/* Losses by epoch: validation (or inner) and training. */
struct script {
    const double *watched, *train;
    double val_shift; /* with inner: val = watched + shift */
    bool inner;
};

static double scripted_loss(void *context, const struct fm_scripted_at *at)
{
    const struct script *s = context;
    int64_t epoch = at->epoch < 0 ? 0 : at->epoch;
    if (at->training) return s->train ? s->train[epoch] : 1 / (1.0 + (double)epoch);
    return s->watched[epoch] + (s->inner && at->part == FM_PART_VAL ? s->val_shift : 0);
}

static const double falling[] = {.9, .8, .7, .6, .5, .4, .3, .2};

static void open_scripted(struct ts_training *t, struct script *script, const struct fm_scripted_fault *fault)
{
    struct fm_scripted_options options = {.lanes = 1, .loss = scripted_loss, .context = script};
    if (fault) options.faults[options.nfaults++] = *fault;
    fm_scripted_configure(&options);
    ts_training_open(t, &fm_backend_scripted);
}

static struct fm_run_result *run_over(struct ts_training *t, struct ts_told *told, enum fm_run_status status)
{
    struct fm_error err = {0};
    int code = ts_training_run(t, told, false, &err);
    cr_assert_eq(code, 1, "%d: %s", code, err.text);
    struct fm_run_result *result = fm_run_result(told->run);
    cr_assert_eq(result->status, status, "%s", result->reason);
    return result;
}

Test(run, asks_in_order_and_never_twice)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct script script = {.watched = falling};
    ts_training_init(&t, false);
    t.config.epochs = 2;
    open_scripted(&t, &script, NULL);
    t.spec.chunk = 3;
    struct fm_run_result *r = run_over(&t, &told, FM_RUN_COMPLETED);
    /* 14 examples in batches of 4 are 4 steps; the last evaluation serves as the score. */
    cr_assert_str_eq(t.requests, "T0+3 T3+1 E(val) T4+3 T7+1 E(val)");
    cr_assert_eq(r->epochs, 2);
    cr_assert_eq(r->scored_epoch, 2);
    cr_assert_eq(r->best_epoch, 2);
    cr_assert_str_eq(r->stopped, "epochs");
    cr_assert_eq(r->val.value[FM_METRIC_LOSS], .8);
    cr_assert(isnan(r->inner.value[FM_METRIC_LOSS]));
    cr_assert(isfinite(r->val.value[FM_METRIC_AUC]) && isfinite(r->val.value[FM_METRIC_MCC]));
    cr_assert_eq(r->loss, .5);
    cr_assert(r->confusion && r->scores && r->weights);
    cr_assert_eq(r->nscores, 6);
    cr_assert_eq(told.nepochs, 2);
    cr_assert_eq(told.epochs[0].loss, 1);
    cr_assert_eq(told.epochs[0].val.value[FM_METRIC_LOSS], .9);
    cr_assert(isfinite(told.epochs[1].val.value[FM_METRIC_ACCURACY]));
    /* The last epoch's record holds what the others hold, though more was measured. */
    cr_assert(isnan(told.epochs[1].val.value[FM_METRIC_AUC]));
    cr_assert_eq(told.safe_points, 6);
    ts_told_fini(&told);
    ts_training_fini(&t);
}

Test(run, one_epoch_is_two_requests)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct script script = {.watched = falling};
    ts_training_init(&t, false);
    t.config.epochs = 1;
    t.config.early_stopping.rule = FM_STOP_KERAS;
    t.config.early_stopping.restore_best_weights = true;
    open_scripted(&t, &script, NULL);
    t.spec.chunk = 1000;
    run_over(&t, &told, FM_RUN_COMPLETED);
    cr_assert_str_eq(t.requests, "T0+4 E(val)");
    ts_told_fini(&told);
    ts_training_fini(&t);
}

Test(run, steps_per_epoch_goes_on_with_the_permutation)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct script script = {.watched = falling};
    ts_training_init(&t, false);
    t.config.epochs = 3;
    t.config.steps_per_epoch = 3;
    open_scripted(&t, &script, NULL);
    run_over(&t, &told, FM_RUN_COMPLETED);
    cr_assert_str_eq(t.requests, "T0+2 T2+1 E(val) T3+2 T5+1 E(val) T6+2 T8+1 E(val)");
    ts_told_fini(&told);
    ts_training_fini(&t);
}

/* ---- stopping ---- */

static void stopping_case(const double *watched, const char *stopped, int64_t epochs, int64_t scored,
                          void (*set)(struct fm_train_config *))
{
    struct ts_training t;
    struct ts_told told = {0};
    struct script script = {.watched = watched};
    ts_training_init(&t, false);
    t.config.early_stopping.rule = FM_STOP_KERAS;
    t.config.early_stopping.restore_best_weights = true;
    t.config.early_stopping.patience = 2;
    set(&t.config);
    open_scripted(&t, &script, NULL);
    struct fm_run_result *r = run_over(&t, &told, FM_RUN_COMPLETED);
    cr_assert_str_eq(r->stopped, stopped);
    cr_assert_eq(r->epochs, epochs, "%lld epochs", (long long)r->epochs);
    cr_assert_eq(r->scored_epoch, scored, "scored %lld", (long long)r->scored_epoch);
    /* The value at the scored epoch, so the weights were really put back. */
    cr_assert_eq(r->val.value[FM_METRIC_LOSS], watched[scored - 1]);
    cr_assert_eq(r->loss, told.epochs[scored - 1].loss);
    cr_assert(isfinite(r->val.value[FM_METRIC_AUC]));
    ts_told_fini(&told);
    ts_training_fini(&t);
}

static void as_is(struct fm_train_config *config)
{
    (void)config;
}

static void keeps_last(struct fm_train_config *config)
{
    config->early_stopping.restore_best_weights = false;
}

static void with_baseline(struct fm_train_config *config)
{
    config->early_stopping.has_baseline = true;
    config->early_stopping.baseline = .5;
}

static void late_start(struct fm_train_config *config)
{
    config->early_stopping.start_from_epoch = 1;
}

static void never_starts(struct fm_train_config *config)
{
    config->early_stopping.start_from_epoch = 9;
}

static void by_gl(struct fm_train_config *config)
{
    config->early_stopping.rule = FM_STOP_GL;
    config->early_stopping.alpha = 5;
}

static void by_up(struct fm_train_config *config)
{
    config->early_stopping.rule = FM_STOP_UP;
    config->early_stopping.strips = 1;
    config->early_stopping.strip = 2;
}

Test(run, stops_and_keeps)
{
    stopping_case((double[]){1, .9, .95, .96, .8}, "early_stopping", 4, 2, as_is);
    stopping_case((double[]){1, .9, .95, .96, .8}, "early_stopping", 4, 4, keeps_last);
    stopping_case((double[]){1, .5, .9, .4, .5}, "epochs", 5, 4, as_is);
    stopping_case((double[]){1, .9, .8, .7, .6}, "epochs", 5, 5, with_baseline);
    stopping_case((double[]){1, .9, .95, .94, .6}, "early_stopping", 3, 2, with_baseline);
    stopping_case((double[]){.1, .9, .8, .9, .9}, "epochs", 5, 3, late_start);
    stopping_case((double[]){.1, .9, .8, .9, .9}, "epochs", 5, 5, never_starts);
    stopping_case((double[]){1, .9, .96, .8, .7}, "gl", 3, 2, by_gl);
    stopping_case((double[]){1, .9, .96, .95, .7}, "up", 4, 2, by_up);
    stopping_case((double[]){NAN, .9, .8, .9, .7}, "epochs", 5, 5, as_is);
}

Test(run, keeps_and_restores_on_the_device)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct script script = {.watched = (double[]){1, .9, .95, .96}};
    ts_training_init(&t, false);
    t.config.early_stopping.rule = FM_STOP_KERAS;
    t.config.early_stopping.restore_best_weights = true;
    t.config.early_stopping.patience = 2;
    open_scripted(&t, &script, NULL);
    t.spec.chunk = 4;
    run_over(&t, &told, FM_RUN_COMPLETED);
    cr_assert_str_eq(t.requests,
                     "T0+4 E(val) S(best) T4+4 E(val) S(best) T8+4 E(val) T12+4 E(val) R(best) E(val)");
    cr_assert(told.epochs[0].best && told.epochs[1].best && !told.epochs[2].best && !told.epochs[3].best);
    ts_told_fini(&told);
    ts_training_fini(&t);
}

Test(run, inner_is_watched_and_val_only_scored)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct script script = {.watched = (double[]){1, .7, .9, .8, .95}, .val_shift = .01, .inner = true};
    ts_training_init(&t, true);
    t.config.early_stopping.rule = FM_STOP_KERAS;
    t.config.early_stopping.restore_best_weights = true;
    t.config.early_stopping.patience = 2;
    open_scripted(&t, &script, NULL);
    t.spec.chunk = 9;
    struct fm_run_result *r = run_over(&t, &told, FM_RUN_COMPLETED);
    cr_assert_str_eq(
        t.requests,
        "T0+3 E(inner) S(best) T3+3 E(inner) S(best) T6+3 E(inner) T9+3 E(inner) R(best) E(inner) E(val)");
    cr_assert_eq(r->scored_epoch, 2);
    cr_assert_eq(r->best_epoch, 2);
    cr_assert_eq(r->inner.value[FM_METRIC_LOSS], .7);
    cr_assert_eq(r->val.value[FM_METRIC_LOSS], .7 + .01);
    cr_assert(isnan(told.epochs[0].val.value[FM_METRIC_LOSS]));
    cr_assert_eq(told.epochs[0].inner.value[FM_METRIC_LOSS], 1);
    cr_assert_eq(r->nscores, 6);
    ts_told_fini(&told);
    ts_training_fini(&t);
}

Test(run, a_monitor_that_the_fold_cannot_define)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct script script = {.watched = (double[]){1, 2, 3, 4, 5}};
    ts_training_init(&t, false);
    for (int i = 14; i < TS_EXAMPLES; i++) t.classes[i] = 0;
    t.config.early_stopping.rule = FM_STOP_KERAS;
    t.config.early_stopping.monitor = (struct fm_monitor){FM_PART_VAL, FM_METRIC_AUC};
    t.config.early_stopping.restore_best_weights = true;
    open_scripted(&t, &script, NULL);
    struct fm_run_result *r = run_over(&t, &told, FM_RUN_COMPLETED);
    cr_assert_eq(told.nevents, 1);
    cr_assert_eq(told.events[0].kind, FM_EVENT_NOTE);
    cr_assert(strstr(told.events[0].text, "val_auc"), "%s", told.events[0].text);
    cr_assert_eq(r->epochs, 5);
    cr_assert_eq(r->scored_epoch, 5);
    cr_assert(isnan(r->val.value[FM_METRIC_AUC]));
    cr_assert(isfinite(r->val.value[FM_METRIC_ACCURACY]));
    ts_told_fini(&told);
    ts_training_fini(&t);
}

/* ---- bad steps ---- */

static struct fm_run_result *with_bad(struct ts_training *t, struct ts_told *told, struct script *script,
                                      enum fm_on_nan on_nan, struct fm_scripted_fault fault,
                                      enum fm_run_status status)
{
    ts_training_init(t, false);
    t->config.on_nan = on_nan;
    fault.what = FM_SCRIPTED_BAD;
    fault.repeat = fault.fold = -1;
    open_scripted(t, script, &fault);
    return run_over(t, told, status);
}

Test(run, nan_stop)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct script script = {.watched = falling};
    struct fm_run_result *r =
        with_bad(&t, &told, &script, FM_ON_NAN_STOP, (struct fm_scripted_fault){.epoch = 2}, FM_RUN_FAILED);
    cr_assert_str_eq(r->reason_code, "nan");
    cr_assert_str_eq(r->stopped, "nan");
    cr_assert(strstr(r->reason, "epoch 3, step 8"), "%s", r->reason);
    cr_assert_eq(r->epochs, 2);
    cr_assert_eq(r->bad_steps, 1);
    cr_assert_eq(told.nevents, 1);
    cr_assert_eq(told.events[0].kind, FM_EVENT_NAN);
    cr_assert_eq(told.events[0].epoch, 3);
    cr_assert_eq(told.events[0].step, 8);
    cr_assert_eq(told.events[0].count, 1);
    cr_assert_eq(told.events[0].last_loss, .5);
    cr_assert_eq(told.events[0].last_norm, 1);
    ts_told_fini(&told);
    ts_training_fini(&t);
}

Test(run, nan_skip)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct script script = {.watched = falling};
    struct fm_run_result *r = with_bad(&t, &told, &script, FM_ON_NAN_SKIP,
                                       (struct fm_scripted_fault){.epoch = -1}, FM_RUN_COMPLETED);
    cr_assert_eq(r->bad_steps, 5);
    cr_assert_eq(told.nevents, 5);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(told.events[i].kind, FM_EVENT_SKIP);
        cr_assert_eq(told.events[i].number, i);
        cr_assert_eq(told.events[i].epoch, i + 1);
        cr_assert_eq(told.events[i].step, 4 * i);
        /* The mean is over the steps that were done. */
        cr_assert_float_eq(told.epochs[i].loss, 1 / (1.0 + i), 1e-15);
    }
    ts_told_fini(&told);
    ts_training_fini(&t);
}

Test(run, nan_keras_carries_on)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct script script = {.watched = falling};
    struct fm_run_result *r = with_bad(&t, &told, &script, FM_ON_NAN_KERAS,
                                       (struct fm_scripted_fault){.epoch = 3}, FM_RUN_COMPLETED);
    cr_assert_eq(r->epochs, 5);
    cr_assert_eq(r->bad_steps, 8);
    cr_assert_eq(r->best_epoch, 3);
    cr_assert(isnan(r->val.value[FM_METRIC_LOSS]) && isnan(r->val.value[FM_METRIC_ACCURACY]) &&
              isnan(r->loss));
    cr_assert_eq(told.nevents, 2);
    cr_assert_eq(told.events[1].kind, FM_EVENT_NAN);
    cr_assert_eq(told.events[1].count, 4);
    ts_told_fini(&told);
    ts_training_fini(&t);
}

Test(run, nan_rollback_halves_the_rate)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct script script = {.watched = falling};
    /* Bad in the second epoch until the rate, 1 at first, is at most 0.3. */
    struct fm_run_result *r = with_bad(&t, &told, &script, FM_ON_NAN_ROLLBACK,
                                       (struct fm_scripted_fault){.epoch = 1, .above = .3}, FM_RUN_COMPLETED);
    cr_assert(
        strncmp(
            t.requests,
            "S(clean) T0+2 T2+2 E(val) S(clean) T4+2 R(clean) T4+2 R(clean) T4+2 T6+2 E(val) S(clean) T8+2 ",
            94) == 0,
        "%s", t.requests);
    cr_assert_eq(r->epochs, 5);
    cr_assert_eq(r->bad_steps, 2);
    cr_assert_eq(told.nevents, 2);
    cr_assert_eq(told.events[0].kind, FM_EVENT_ROLLBACK);
    cr_assert_eq(told.events[1].step, 4);
    cr_assert_eq(told.events[1].count, 1);
    cr_assert(strstr(told.events[1].text, "0.25"), "%s", told.events[1].text);
    cr_assert_eq(told.epochs[0].learning_rate, 1);
    cr_assert_eq(told.epochs[1].learning_rate, .25);
    cr_assert_eq(told.epochs[4].learning_rate, .25);
    cr_assert_eq(told.epochs[1].loss, .5);
    ts_told_fini(&told);
    ts_training_fini(&t);
}

Test(run, nan_rollback_gives_up_after_three)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct script script = {.watched = falling};
    struct fm_run_result *r = with_bad(&t, &told, &script, FM_ON_NAN_ROLLBACK,
                                       (struct fm_scripted_fault){.epoch = 0}, FM_RUN_FAILED);
    cr_assert_str_eq(t.requests, "S(clean) T0+2 R(clean) T0+2 R(clean) T0+2 R(clean) T0+2");
    cr_assert_str_eq(r->reason_code, "nan");
    cr_assert_eq(r->bad_steps, 4);
    cr_assert_eq(told.nevents, 4);
    cr_assert_eq(told.events[3].kind, FM_EVENT_NAN);
    cr_assert(isnan(told.events[3].last_loss));
    cr_assert(strstr(r->reason, "none"), "%s", r->reason);
    ts_told_fini(&told);
    ts_training_fini(&t);
}

/* ---- failures ---- */

static void failure(enum fm_scripted_what what, int code, const char *reason)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct script script = {.watched = falling};
    struct fm_scripted_fault fault = {.what = what, .repeat = -1, .fold = -1, .epoch = 1, .code = code};
    ts_training_init(&t, false);
    t.config.on_nan = FM_ON_NAN_ROLLBACK;
    open_scripted(&t, &script, &fault);
    struct fm_error err = {0};
    int over = ts_training_run(&t, &told, false, &err);
    struct fm_run_result *r = fm_run_result(told.run);
    if (reason) {
        cr_assert_eq(over, 1, "%s", err.text);
        cr_assert_eq(r->status, FM_RUN_FAILED);
        cr_assert_str_eq(r->reason_code, reason);
        cr_assert(strstr(r->reason, "scripted"), "%s", r->reason);
        cr_assert_eq(told.nevents, code == FM_ENOMEM);
        cr_assert(code != FM_ENOMEM || told.events[0].kind == FM_EVENT_MEMORY);
    } else {
        cr_assert_eq(over, code);
        cr_assert_eq(err.code, code);
    }
    ts_told_fini(&told);
    ts_training_fini(&t);
}

Test(run, failures_are_the_runs_own_lost_devices_are_not)
{
    failure(FM_SCRIPTED_OPEN, FM_ENOMEM, "oom");
    failure(FM_SCRIPTED_TRAIN, FM_ENOMEM, "oom");
    failure(FM_SCRIPTED_EVALUATE, FM_ENOMEM, "oom");
    failure(FM_SCRIPTED_SNAPSHOT, FM_ENOMEM, "oom");
    failure(FM_SCRIPTED_OPEN, FM_ESHAPE, "shape");
    failure(FM_SCRIPTED_TRAIN, FM_EIO, "io");
    failure(FM_SCRIPTED_TRAIN, FM_EINTERNAL, "device");
    failure(FM_SCRIPTED_OPEN, FM_EDEVICE, NULL);
    failure(FM_SCRIPTED_TRAIN, FM_EDEVICE, NULL);
    failure(FM_SCRIPTED_EVALUATE, FM_EDEVICE, NULL);
}

Test(run, the_listeners_error_is_the_callers)
{
    struct ts_training t;
    struct ts_told told = {.fail_epoch = 2};
    struct script script = {.watched = falling};
    struct fm_error err = {0};
    ts_training_init(&t, false);
    open_scripted(&t, &script, NULL);
    cr_assert_eq(ts_training_run(&t, &told, false, &err), FM_EIO);
    cr_assert_str_eq(err.text, "the disk is full");
    ts_told_fini(&told);
    ts_training_fini(&t);
}

Test(run, strange_reports_are_refused)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct script script = {.watched = falling};
    struct fm_error err = {0};
    struct fm_report report = {.kind = FM_TRAIN, .tag = 99};
    struct fm_run_listener listener = {0};
    struct fm_text blob = {0};
    ts_training_init(&t, false);
    open_scripted(&t, &script, NULL);
    cr_assert_eq(fm_run_new(&told.run, &t.spec, &listener, &err), 0);
    cr_assert_eq(fm_run_report(told.run, &report, &err), FM_EINTERNAL);
    fm_error_clear(&err);
    cr_assert_eq(fm_run_start(told.run, &err), 0);
    cr_assert_eq(fm_run_report(told.run, &report, &err), FM_EINTERNAL);
    fm_error_clear(&err);
    cr_assert_eq(fm_run_start(told.run, &err), FM_EINTERNAL);
    fm_error_clear(&err);
    cr_assert_eq(fm_run_checkpoint(told.run, &blob, &err), FM_EINTERNAL);
    ts_told_fini(&told);
    ts_training_fini(&t);
}

Test(run, cancelled_requests_are_asked_again_or_end_in_a_stop)
{
    struct fm_run_listener listener = {0};
    struct script script = {.watched = falling};
    for (int stop = 0; stop < 2; stop++) {
        struct ts_training t;
        struct ts_told told = {0};
        struct fm_error err = {0};
        struct fm_report report;
        int code, reports = 0;
        ts_training_init(&t, false);
        t.config.epochs = 2;
        open_scripted(&t, &script, NULL);
        cr_assert_eq(fm_run_new(&told.run, &t.spec, &listener, &err), 0);
        code = fm_run_start(told.run, &err);
        while (code == 0 && !fm_run_stopped(told.run)) {
            if (reports % 2 == 0) t.backend.cancel((struct fm_lane *)fm_run_lane(told.run));
            if (stop && reports == 4) fm_run_stop(told.run);
            cr_assert_eq(t.backend.wait(t.device, 0, &report, &err), 1);
            reports++;
            code = fm_run_report(told.run, &report, &err);
        }
        cr_assert_eq(code, !stop, "%s", err.text);
        cr_assert_eq(fm_run_stopped(told.run), stop);
        if (!stop) cr_assert_eq(fm_run_result(told.run)->val.value[FM_METRIC_LOSS], .8);
        ts_told_fini(&told);
        ts_training_fini(&t);
    }
}

/* Every allocation of a run in turn: an error, a run that failed for memory, or a run that did without. */
Test(run, every_allocation_may_fail, .timeout = 30)
{
    struct script script = {.watched = (double[]){1, .9, .95, .96, .8}};
    bool more = true;
    for (long n = 1; more; n++) {
        struct ts_training t;
        struct ts_told told = {.checkpoint_at = 3};
        struct fm_error err = {0};
        ts_training_init(&t, true);
        t.config.on_nan = FM_ON_NAN_ROLLBACK;
        t.config.early_stopping.rule = FM_STOP_KERAS;
        t.config.early_stopping.monitor.metric = FM_METRIC_AUC;
        t.config.early_stopping.restore_best_weights = true;
        open_scripted(&t, &script, NULL);
        ts_fail_allocation(n, false);
        int code = ts_training_run(&t, &told, false, &err);
        if (code == 0) code = ts_training_run(&t, &told, true, &err);
        more = ts_allocations() >= n;
        ts_fail_allocation(0, false);
        if (code < 0) cr_assert_eq(code, FM_ENOMEM, "allocation %ld: %d %s", n, code, err.text);
        if (code == 1 && fm_run_result(told.run)->status == FM_RUN_FAILED)
            cr_assert_str_eq(fm_run_result(told.run)->reason_code, "oom");
        if (!more) cr_assert_eq(fm_run_result(told.run)->status, FM_RUN_COMPLETED);
        ts_told_fini(&told);
        ts_training_fini(&t);
    }
}
