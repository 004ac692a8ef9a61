/* The life of a run: new, start, reports in, requests out, over. Verdicts are in run_epoch.c, bad steps in
 * run_nan.c. */
#include "train/run.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "train/run_state.h"

static void clear_measured(struct fm_measured *measured)
{
    for (int m = 0; m < FM_METRICS; m++) measured->value[m] = NAN;
}

static int check_spec(const struct fm_run_spec *spec, const struct fm_fold *fold, int64_t *steps,
                      struct fm_error *err)
{
    const struct fm_train_config *config = spec->config;
    int64_t total;
    if (spec->chunk < 1 || config->batch_size < 1 || config->epochs < 1 || fold->train.count < 1 ||
        fold->val.count < 1)
        return fm_fail(err, FM_EINTERNAL,
                       "a run needs examples, a batch, an epoch and steps between its safe points");
    *steps = config->steps_per_epoch;
    if (*steps < 1) *steps = (fold->train.count - 1) / config->batch_size + 1;
    if (!fm_multiply(*steps, config->epochs, &total))
        return fm_fail(err, FM_EFILE, "train: %lld epochs of %lld steps are more than can be counted",
                       (long long)config->epochs, (long long)*steps);
    return 0;
}

int fm_run_new(struct fm_run **out, const struct fm_run_spec *spec, const struct fm_run_listener *listener,
               struct fm_error *err)
{
    const struct fm_fold *fold = &spec->resident->splits[spec->split].fold[spec->fold];
    int64_t steps = 0;
    bool defined;
    int code = check_spec(spec, fold, &steps, err);
    if (code < 0) return code;
    struct fm_run *run = fm_calloc(1, sizeof *run);
    if (!run) return fm_fail_memory(err);
    run->spec = *spec;
    if (listener) run->listener = *listener;
    run->fold = fold;
    run->view = &spec->resident->views[spec->view];
    run->steps = steps;
    run->classes = fm_metrics_classes(run->view->data);
    run->watched = fold->inner.count ? FM_PART_INNER : FM_PART_VAL;
    run->all = fm_metrics_fitting(run->classes);
    run->each = spec->metrics | 1u << FM_METRIC_LOSS | 1u << spec->metric.metric;
    run->at.learning_rate = spec->config->optimizer.learning_rate;
    run->at.first_bad = -1;
    run->at.last_loss = run->at.last_norm = NAN;
    run->loss = run->kept_loss = run->best_metric = run->watched_value = NAN;
    fm_stopping_init(&run->stopping, spec->config);
    if (spec->config->early_stopping.rule == FM_STOP_KERAS)
        run->each |= 1u << spec->config->early_stopping.monitor.metric;
    run->each &= run->all;
    code = fm_run_monitor_defined(run, &defined, err);
    if (code < 0) {
        fm_free(run);
        return code;
    }
    run->stopping.off = !defined;
    run->restores = fm_stopping_restores(&run->stopping);
    run->best_slot = FM_SLOT_BEST;
    run->ahead.on = spec->backend->queues_ahead;
    run->result.loss = NAN;
    clear_measured(&run->measured);
    clear_measured(&run->result.inner);
    clear_measured(&run->result.val);
    *out = run;
    return 0;
}

void fm_run_result_fini(struct fm_run_result *result)
{
    fm_free(result->confusion);
    fm_free(result->scores);
    fm_free(result->weights);
    result->confusion = NULL;
    result->scores = NULL;
    result->weights = NULL;
}

void fm_run_free(struct fm_run *run)
{
    if (!run) return;
    if (run->lane) run->spec.backend->lane_close(run->lane);
    for (int i = 0; i < 2; i++) {
        fm_free(run->confusion[i]);
        fm_free(run->scores[i]);
    }
    fm_run_result_fini(&run->result);
    fm_free(run);
}

/* ---- failures and events ---- */

int fm_run_fail(struct fm_run *run, const char *code, const char *format, ...)
{
    va_list args;
    struct fm_run_result *result = &run->result;
    result->status = FM_RUN_FAILED;
    snprintf(result->reason_code, sizeof result->reason_code, "%s", code);
    va_start(args, format);
    vsnprintf(result->reason, sizeof result->reason, format, args);
    va_end(args);
    result->epochs = run->at.epoch;
    result->best_epoch = run->best_epoch;
    result->bad_steps = run->at.bad_steps;
    return 1;
}

int fm_run_tell(struct fm_run *run, struct fm_event *event, struct fm_error *err)
{
    event->number = run->at.events++;
    return run->listener.event ? run->listener.event(run->listener.context, event, err) : 0;
}

static int tell_memory(struct fm_run *run, const struct fm_error *why, struct fm_error *err)
{
    struct fm_event event = {.kind = FM_EVENT_MEMORY,
                             .epoch = run->at.epoch + 1,
                             .step = run->at.epoch * run->steps + run->at.step,
                             .last_loss = run->at.last_loss,
                             .last_norm = run->at.last_norm};
    snprintf(event.text, sizeof event.text, "%.240s", why->text);
    return fm_run_tell(run, &event, err);
}

int fm_run_fault(struct fm_run *run, int code, const struct fm_error *why, struct fm_error *err)
{
    const char *text = why->text[0] ? why->text : "the device gave no reason";
    switch (code) {
    case FM_EDEVICE:
        if (err && err->code == 0) *err = *why;
        return fm_fail(err, code, "the device was lost");
    case FM_ENOMEM: {
        int told = tell_memory(run, why, err);
        return told < 0 ? told : fm_run_fail(run, "oom", "%s", text);
    }
    case FM_ESHAPE: return fm_run_fail(run, "shape", "%s", text);
    case FM_EIO: return fm_run_fail(run, "io", "%s", text);
    default: return fm_run_fail(run, "device", "%s", text);
    }
}

/* ---- requests ---- */

int fm_run_submit(struct fm_run *run, struct fm_request *request, struct fm_error *err)
{
    struct fm_error why = {0};
    request->tag = ++run->tag;
    int code = run->spec.backend->submit(run->lane, request, &why);
    return code < 0 ? fm_run_fault(run, code, &why, err) : 0;
}

static int submit(struct fm_run *run, struct fm_error *err)
{
    int code = fm_run_submit(run, &run->request, err);
    if (code) return code;
    run->whole = false;
    run->pending = true;
    return 0;
}

static int evaluate(struct fm_run *run, enum fm_part part, bool full, struct fm_error *err)
{
    struct fm_error why = {0};
    int code = fm_run_request_evaluation(run, part, full, &run->request, &why);
    return code < 0 ? fm_run_fault(run, code, &why, err) : submit(run, err);
}

struct fm_request fm_run_train_request(const struct fm_run *run, int64_t epoch, int64_t step, double loss_sum)
{
    int64_t left = run->steps - step;
    return (struct fm_request){.kind = FM_TRAIN,
                               .first_step = epoch * run->steps + step,
                               .steps = left < run->spec.chunk ? left : run->spec.chunk,
                               .learning_rate = run->at.learning_rate,
                               .on_nan = run->spec.config->on_nan,
                               .loss_sum = loss_sum};
}

/* Tells that nothing is pending; true in *halt when the run was asked to stop. */
static int safe_point(struct fm_run *run, bool *halt, struct fm_error *err)
{
    run->safe_due = false;
    run->whole = true;
    if (run->listener.safe_point) {
        int code = run->listener.safe_point(run->listener.context, run->safe_is_end, err);
        if (code < 0) return code;
    }
    *halt = run->stopped = run->stop;
    return 0;
}

static int move(struct fm_run *run, enum fm_run_want want, enum fm_request_kind kind, int slot,
                struct fm_error *err)
{
    run->request = (struct fm_request){.kind = kind, .slot = slot};
    run->moving = want;
    return submit(run, err);
}

/* Evaluates the epoch that ends, and lets the device go on with the next one meanwhile. */
static int end_epoch(struct fm_run *run, struct fm_error *err)
{
    bool last = run->at.epoch + 1 == run->spec.config->epochs;
    int code = evaluate(run, run->watched, last, err);
    return code || last || !fm_run_may_go_ahead(run) ? code : fm_run_go_ahead(run, err);
}

int fm_run_advance(struct fm_run *run, struct fm_error *err)
{
    bool halt = false;
    if (run->wants & FM_WANT_BACK) return move(run, FM_WANT_BACK, FM_RESTORE, run->ahead.candidate, err);
    if (run->wants & FM_WANT_ROLLBACK) return move(run, FM_WANT_ROLLBACK, FM_RESTORE, FM_SLOT_CLEAN, err);
    if (run->wants & FM_WANT_KEEP) return move(run, FM_WANT_KEEP, FM_SNAPSHOT, run->best_slot, err);
    if (run->wants & FM_WANT_CLEAN) return move(run, FM_WANT_CLEAN, FM_SNAPSHOT, FM_SLOT_CLEAN, err);
    if (run->safe_due) {
        int code = safe_point(run, &halt, err);
        if (code < 0 || halt) return code;
    }
    if (run->wants & FM_WANT_RESTORE) return move(run, FM_WANT_RESTORE, FM_RESTORE, run->best_slot, err);
    if (run->wants & FM_WANT_SCORE_INNER) return evaluate(run, FM_PART_INNER, true, err);
    if (run->wants & FM_WANT_SCORE_VAL) return evaluate(run, FM_PART_VAL, true, err);
    if (run->finishing) return fm_run_complete(run, err);
    if (run->at.step >= run->steps) return end_epoch(run, err);
    run->request = fm_run_train_request(run, run->at.epoch, run->at.step, run->at.loss_sum);
    return submit(run, err);
}

/* ---- start ---- */

static void lane_options(const struct fm_run *run, struct fm_lane_options *options)
{
    const struct fm_run_spec *spec = &run->spec;
    const struct fm_train_config *config = spec->config;
    *options = (struct fm_lane_options){.dataset = spec->dataset,
                                        .view = spec->view,
                                        .split = spec->split,
                                        .fold = spec->fold,
                                        .program = spec->program,
                                        .batch = config->batch_size,
                                        .seed = config->seed};
    options->hyper = (struct fm_hyper){.momentum = config->optimizer.momentum,
                                       .beta_1 = config->optimizer.beta_1,
                                       .beta_2 = config->optimizer.beta_2,
                                       .epsilon = config->optimizer.epsilon,
                                       .rho = config->optimizer.rho,
                                       .weight_decay = config->optimizer.weight_decay,
                                       .clip = config->optimizer.clip,
                                       .clip_value = config->optimizer.clip_value,
                                       .rates = spec->rates ? spec->rates : spec->program->rates,
                                       .class_weights = spec->class_weights,
                                       .shuffle = config->shuffle};
}

int fm_run_open(struct fm_run *run, struct fm_error *err)
{
    struct fm_lane_options options;
    struct fm_error why = {0};
    if (run->result.status != FM_RUN_PENDING) return fm_fail(err, FM_EINTERNAL, "a run was started twice");
    run->result.status = FM_RUN_RUNNING;
    lane_options(run, &options);
    int code = run->spec.backend->lane_open(run->spec.device, &options, &run->lane, &why);
    if (code >= 0) return 0;
    run->lane = NULL;
    return fm_run_fault(run, code, &why, err);
}

static int tell_monitor_undefined(struct fm_run *run, struct fm_error *err)
{
    char name[48];
    struct fm_monitor monitor = run->spec.config->early_stopping.monitor;
    struct fm_event event = {
        .kind = FM_EVENT_NOTE, .epoch = 1, .step = -1, .last_loss = NAN, .last_norm = NAN};
    snprintf(event.text, sizeof event.text,
             "early stopping is off here: the %s part of repeat %lld, fold %lld cannot define %s",
             run->watched == FM_PART_INNER ? "inner" : "validation", (long long)run->fold->repeat,
             (long long)run->fold->fold, fm_monitor_name(monitor, name));
    return fm_run_tell(run, &event, err);
}

int fm_run_start(struct fm_run *run, struct fm_error *err)
{
    int code = fm_run_open(run, err);
    if (code) return code;
    if (run->stopping.off) {
        code = tell_monitor_undefined(run, err);
        if (code < 0) return code;
    }
    if (run->spec.config->on_nan == FM_ON_NAN_ROLLBACK) run->wants = FM_WANT_CLEAN;
    return fm_run_advance(run, err);
}

/* ---- reports ---- */

/* What was asked for by a snapshot or a restore is done. */
static void moved(struct fm_run *run)
{
    run->wants &= ~run->moving;
    if (run->moving == FM_WANT_ROLLBACK) fm_run_rolled_back(run);
}

/* Only training may come back half done; anything else is asked for again, or the run stands still if it
 * shall. */
int fm_run_cancelled(struct fm_run *run, struct fm_error *err)
{
    if (!run->stop) return fm_run_advance(run, err);
    bool evaluating = run->request.kind == FM_EVALUATE, halt = false;
    if (!evaluating || run->finishing) {
        run->stopped = true;
        return 0;
    }
    run->safe_is_end = false;
    return safe_point(run, &halt, err);
}

int fm_run_report(struct fm_run *run, const struct fm_report *report, struct fm_error *err)
{
    int code = 0;
    if (report->lane == run->lane && fm_run_ahead_report(run, report, &code, err)) return code;
    if (!run->pending || report->lane != run->lane || report->tag != run->request.tag)
        return fm_fail(err, FM_EINTERNAL, "a run was given a report that it does not wait for");
    run->pending = false;
    if (report->status < 0) return fm_run_fault(run, report->status, &report->error, err);
    if (report->kind != FM_TRAIN && report->cancelled) {
        run->ahead.cancelled = true;
        return fm_run_ahead_judged(run) ? 0 : fm_run_cancelled(run, err);
    }
    if (report->kind != FM_TRAIN && report->frozen)
        return fm_run_fail(run, "device", "the device left a request undone though no step was bad");
    switch (report->kind) {
    case FM_TRAIN: code = fm_run_trained(run, report, err); break;
    case FM_EVALUATE: code = fm_run_evaluated(run, report, err); break;
    case FM_SNAPSHOT:
    case FM_RESTORE: moved(run); break;
    }
    if (code || fm_run_ahead_judged(run)) return code;
    return fm_run_advance(run, err);
}

const struct fm_lane *fm_run_lane(const struct fm_run *run)
{
    return run->lane;
}

struct fm_run_result *fm_run_result(struct fm_run *run)
{
    return &run->result;
}

int64_t fm_run_epochs(const struct fm_run *run)
{
    return run->at.epoch;
}

void fm_run_stop(struct fm_run *run)
{
    run->stop = true;
}

bool fm_run_stopped(const struct fm_run *run)
{
    return run->stopped;
}

bool fm_run_whole(const struct fm_run *run)
{
    return run->whole;
}

int64_t fm_run_chunk(const struct fm_run *run)
{
    return run->spec.chunk;
}

void fm_run_set_chunk(struct fm_run *run, int64_t steps)
{
    if (steps >= 1) run->spec.chunk = steps;
}

void fm_run_place(const struct fm_run *run, struct fm_run_place *place)
{
    int64_t epochs = run->spec.config->epochs;
    bool training = run->at.epoch < epochs && !run->finishing;
    *place = (struct fm_run_place){
        .epoch = training ? run->at.epoch + 1 : run->at.epoch,
        .epochs = epochs,
        .step = training ? run->at.step : run->steps,
        .steps = run->steps,
        .loss = run->at.loss_examples ? run->at.loss_sum / (double)run->at.loss_examples : run->loss,
        .watched = run->watched_value};
}
