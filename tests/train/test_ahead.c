/* Training that goes on while an epoch is judged: what is asked for, that nothing of the result, the record
 * or the checkpoints changes, and that steps of an epoch that never was leave no trace. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "support/scripted.h"
#include "support/sweep.h"
#include "support/training.h"

struct script {
    const double *watched;
};

static double scripted_loss(void *context, const struct fm_scripted_at *at)
{
    const struct script *s = context;
    int64_t epoch = at->epoch < 0 ? 0 : at->epoch;
    return at->training ? 1 / (1.0 + (double)epoch) : s->watched[epoch];
}

static const double falling[] = {.9, .8, .7, .6, .5, .4, .3, .2};
static const double valley[] = {.9, .5, .6, .7, .3, .8, .85, .9};

/* The scripted backend as one that queues ahead, or not. */
static void open_it(struct ts_training *t, struct script *script, bool ahead,
                    const struct fm_scripted_fault *fault)
{
    struct fm_backend backend = fm_backend_scripted;
    struct fm_scripted_options options = {.lanes = 1, .loss = scripted_loss, .context = script};
    if (fault) options.faults[options.nfaults++] = *fault;
    backend.queues_ahead = ahead;
    fm_scripted_configure(&options);
    ts_training_open(t, &backend);
    t->spec.chunk = 3;
}

static void assert_same_measured(const struct fm_measured *a, const struct fm_measured *b)
{
    for (int m = 0; m < FM_METRICS; m++)
        cr_assert(a->value[m] == b->value[m] || (isnan(a->value[m]) && isnan(b->value[m])), "%s: %g and %g",
                  fm_metric_names[m], a->value[m], b->value[m]);
}

static void assert_same(struct ts_told *a, struct ts_told *b)
{
    const struct fm_run_result *x = fm_run_result(a->run), *y = fm_run_result(b->run);
    cr_assert_eq(x->status, y->status, "%s / %s", x->reason, y->reason);
    cr_assert_str_eq(x->reason, y->reason);
    cr_assert_str_eq(x->stopped, y->stopped);
    cr_assert_eq(x->epochs, y->epochs);
    cr_assert_eq(x->scored_epoch, y->scored_epoch);
    cr_assert_eq(x->best_epoch, y->best_epoch);
    cr_assert_eq(x->bad_steps, y->bad_steps);
    cr_assert(x->loss == y->loss || (isnan(x->loss) && isnan(y->loss)));
    assert_same_measured(&x->val, &y->val);
    assert_same_measured(&x->inner, &y->inner);
    cr_assert_eq(a->nepochs, b->nepochs);
    for (int64_t i = 0; i < a->nepochs; i++) {
        cr_assert(a->epochs[i].loss == b->epochs[i].loss ||
                  (isnan(a->epochs[i].loss) && isnan(b->epochs[i].loss)));
        cr_assert_eq(a->epochs[i].best, b->epochs[i].best);
        assert_same_measured(&a->epochs[i].val, &b->epochs[i].val);
    }
    cr_assert_eq(a->nevents, b->nevents);
    for (int64_t i = 0; i < a->nevents; i++) cr_assert_str_eq(a->events[i].text, b->events[i].text);
}

Test(ahead, queues_a_candidate_and_the_next_epoch_behind_the_evaluation)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct fm_error err = {0};
    struct script script = {falling};
    ts_training_init(&t, false);
    t.config.epochs = 3;
    t.config.early_stopping.rule = FM_STOP_KERAS;
    t.config.early_stopping.monitor = (struct fm_monitor){FM_PART_VAL, FM_METRIC_LOSS};
    t.config.early_stopping.patience = 5;
    t.config.early_stopping.restore_best_weights = true;
    open_it(&t, &script, true, NULL);
    cr_assert_eq(ts_training_run(&t, &told, false, &err), 1, "%s", err.text);
    /* Two candidates take turns, because the last one holds the best weights. */
    cr_assert_str_eq(t.requests, "T0+3 T3+1 E(val) S(candidate) T4+3 T7+1 E(val) S(other) T8+3 T11+1 E(val)");
    cr_assert_eq(fm_run_result(told.run)->status, FM_RUN_COMPLETED);
    ts_told_fini(&told);
    ts_training_fini(&t);
}

Test(ahead, without_stopping_there_is_nothing_to_set_aside)
{
    struct ts_training t;
    struct ts_told told = {0};
    struct fm_error err = {0};
    struct script script = {falling};
    ts_training_init(&t, false);
    t.config.epochs = 2;
    open_it(&t, &script, true, NULL);
    cr_assert_eq(ts_training_run(&t, &told, false, &err), 1, "%s", err.text);
    cr_assert_str_eq(t.requests, "T0+3 T3+1 E(val) T4+3 T7+1 E(val)");
    ts_told_fini(&told);
    ts_training_fini(&t);
}

/* Every combination of rule, restoring, policy and a bad step gives the same with and without. */
Test(ahead, changes_no_result)
{
    static const double *const curves[] = {falling, valley};
    for (unsigned i = 0; i < 2 * 2 * 4 * 4 * 3; i++) {
        struct ts_told told[2];
        memset(told, 0, sizeof told);
        struct ts_training t[2];
        const unsigned policy = i / 4 % 4, rule = i / 16 % 4, fault = i / 64 % 3;
        const struct fm_scripted_fault bad = {
            .what = FM_SCRIPTED_BAD, .repeat = -1, .fold = -1, .epoch = fault == 1 ? 2 : 3, .above = .3};
        struct script script = {curves[i % 2]};
        for (int ahead = 0; ahead < 2; ahead++) {
            struct fm_error err = {0};
            ts_training_init(&t[ahead], false);
            t[ahead].config.epochs = 7;
            t[ahead].config.on_nan = (enum fm_on_nan)policy;
            t[ahead].config.early_stopping.rule =
                (enum fm_stop_rule[]){FM_STOP_NONE, FM_STOP_KERAS, FM_STOP_GL, FM_STOP_UP}[rule];
            t[ahead].config.early_stopping.monitor = (struct fm_monitor){FM_PART_VAL, FM_METRIC_LOSS};
            t[ahead].config.early_stopping.patience = 1;
            t[ahead].config.early_stopping.alpha = 5;
            t[ahead].config.early_stopping.strips = 1;
            t[ahead].config.early_stopping.strip = 1;
            t[ahead].config.early_stopping.restore_best_weights = i / 2 % 2;
            open_it(&t[ahead], &script, ahead == 1, fault ? &bad : NULL);
            cr_assert_eq(ts_training_run(&t[ahead], &told[ahead], false, &err), 1, "%s", err.text);
            if (ahead) assert_same(&told[0], &told[1]);
        }
        for (int ahead = 0; ahead < 2; ahead++) {
            ts_told_fini(&told[ahead]);
            ts_training_fini(&t[ahead]);
        }
    }
}

/* A checkpoint at any safe point, and the run that goes on from it, with or without. */
Test(ahead, goes_on_from_any_checkpoint)
{
    struct script script = {valley};
    for (int64_t at = 1; at <= 8; at++) {
        struct ts_told told[2];
        memset(told, 0, sizeof told);
        struct ts_training t[2];
        for (int ahead = 0; ahead < 2; ahead++) {
            struct fm_error err = {0};
            ts_training_init(&t[ahead], false);
            t[ahead].config.epochs = 7;
            t[ahead].config.early_stopping.rule = FM_STOP_KERAS;
            t[ahead].config.early_stopping.monitor = (struct fm_monitor){FM_PART_VAL, FM_METRIC_LOSS};
            t[ahead].config.early_stopping.patience = 2;
            t[ahead].config.early_stopping.restore_best_weights = true;
            open_it(&t[ahead], &script, ahead == 1, NULL);
            if (ahead) told[ahead].checkpoint_at = at;
            int code = ts_training_run(&t[ahead], &told[ahead], false, &err);
            cr_assert_eq(code, !ahead, "%s", err.text);
            if (!ahead) continue;
            told[ahead].checkpoint_at = 0;
            cr_assert_eq(ts_training_run(&t[ahead], &told[ahead], true, &err), 1, "%s", err.text);
            assert_same(&told[0], &told[1]);
        }
        for (int ahead = 0; ahead < 2; ahead++) {
            ts_told_fini(&told[ahead]);
            ts_training_fini(&t[ahead]);
        }
    }
}

/* Whole sweeps on the CPU engine: the journal is the same, stopping early and bad steps included. */
Test(ahead, changes_nothing_in_a_journal)
{
    static const char yaml[] = "cv: {split: stratified, folds: 3}\n"
                               "model:\n"
                               "  - flatten\n"
                               "  - dense: {units: 3, activation: relu}\n"
                               "  - dense: {units: 2, activation: softmax}\n"
                               "train:\n"
                               "  loss: categorical_crossentropy\n"
                               "  optimizer: {sgd: {learning_rate: \"${lr}\"}}\n"
                               "  batch_size: 7\n"
                               "  epochs: 9\n"
                               "  early_stopping: {patience: 1, restore_best_weights: true}\n"
                               "  on_nan: skip\n"
                               "metric: {name: val_accuracy}\n"
                               "method: grid\n"
                               "keep: {trials: 2}\n"
                               "parameters:\n"
                               "  lr: {values: [0.3, 3, 1.0e+38]}\n";
    char *dump[2];
    for (int ahead = 0; ahead < 2; ahead++) {
        struct fm_backend backend = fm_backend_cpu;
        struct ts_sweep sweep;
        struct fm_error err = {0};
        backend.queues_ahead = ahead;
        ts_sweep_init(&sweep, yaml);
        const struct ts_sweep_options options = {.backend = &backend, .lanes = 2};
        cr_assert_eq(ts_sweep_run(&sweep, &options, &err), 0, "%s", err.text);
        dump[ahead] = ts_sweep_dump(&sweep);
        ts_sweep_fini(&sweep);
    }
    cr_assert_str_eq(dump[0], dump[1]);
    for (int ahead = 0; ahead < 2; ahead++) free(dump[ahead]);
}
