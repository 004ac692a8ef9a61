/* One lane: a run is started (or goes on from its checkpoint), its events become rows of the journal, its end
 * is recorded. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "sweep/journal_private.h"
#include "sweep/schedule_private.h"

/* About a tenth of a second of a slow core between safe points: short enough for Ctrl-C, long enough to cost
 * nothing. */
#define CHUNK_FLOPS   2e8
#define LEAST_SECONDS 0.025
#define MOST_SECONDS  0.1
#define MOST_STEPS    65536

static const struct fm_fold *fold_of(const struct fm_schedule *s, const struct fm_planned *trial,
                                     int64_t fold)
{
    return &s->prepared->splits[trial->split].fold[fold];
}

int64_t fm_schedule_cost(const struct fm_schedule *s, const struct fm_waiting *run)
{
    const struct fm_program *program = s->prepared->networks[run->trial->network].program;
    const struct fm_fold *fold = fold_of(s, run->trial, run->fold);
    int64_t scores =
        (fold->val.count + fold->inner.count) * program->score_width * 2 * (int64_t)sizeof(float);
    return run->trial->bytes + scores;
}

int64_t fm_schedule_memory(void)
{
    int64_t pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE), total = sysconf(_SC_PHYS_PAGES);
    if (pages <= 0 || size <= 0 || total <= 0) return INT64_MAX;
    /* File pages can be given up by the system, so more is available than free: count at least half of the
     * machine. */
    int64_t available = pages > total / 2 ? pages : total / 2;
    return available * size;
}

static int on_epoch(void *context, const struct fm_epoch *epoch, struct fm_error *err)
{
    struct fm_schedule_lane *lane = context;
    return fm_journal_epoch(lane->schedule->journal, &lane->fence, epoch, err);
}

static void tell(struct fm_schedule *s, const struct fm_news *news)
{
    if (s->watcher && s->watcher->news) s->watcher->news(s->watcher->context, news);
}

static int on_event(void *context, const struct fm_event *event, struct fm_error *err)
{
    struct fm_schedule_lane *lane = context;
    const struct fm_fence *fence = &lane->fence;
    int rc = fm_journal_event(lane->schedule->journal, fence, event, err);
    if (rc) return rc;
    tell(lane->schedule, &(struct fm_news){.kind = FM_NEWS_EVENT,
                                           .trial = fence->trial,
                                           .repeat = fence->repeat,
                                           .fold = fence->fold,
                                           .event = event});
    return 0;
}

static int on_safe_point(void *context, bool epoch_end, struct fm_error *err)
{
    struct fm_schedule_lane *lane = context;
    (void)epoch_end;
    if (fm_monotonic() - lane->saved < lane->schedule->options->checkpoint_seconds) return 0;
    return fm_schedule_checkpoint(lane, err);
}

/* Reading a lane's state costs more than much of what else is done at the end of a short run. */
static bool keeps_weights(void *context, const struct fm_run_result *result)
{
    const struct fm_schedule_lane *lane = context;
    const struct fm_schedule *s = lane->schedule;
    if (fm_planned_runs(s->prepared, lane->trial) > 1) return true;
    return fm_journal_would_keep(s->journal, s->prepared->sweep, lane->fence.trial, result);
}

/* Without memory for it the one before stands: no reason to end a run, much less a sweep. The next one is due
 * as if this one had been written. */
int fm_schedule_checkpoint(struct fm_schedule_lane *lane, struct fm_error *err)
{
    struct fm_text blob = {0};
    struct fm_error own = {0};
    int rc = fm_run_checkpoint(lane->run, &blob, &own);
    if (!rc)
        rc = fm_journal_save(lane->schedule->journal, &lane->fence, fm_run_epochs(lane->run), blob.data,
                             blob.size, err);
    else if (rc == FM_ENOMEM)
        rc = 0;
    else if (err && !err->code)
        *err = own;
    /* The blob is bound to the statement, which has run by now. */
    fm_text_fini(&blob);
    lane->saved = fm_monotonic();
    return rc;
}

void fm_schedule_close(struct fm_schedule *s, struct fm_schedule_lane *lane)
{
    fm_run_free(lane->run);
    fm_free(lane->class_weights);
    s->memory_used -= lane->cost;
    s->full = false;
    *lane = (struct fm_schedule_lane){.schedule = s};
}

/* A run that was short of memory has not shown that it is too large, and its result must not depend on other
 * runs or programs: it is tried once more, when the device is free. */
static int put_back(struct fm_schedule *s, struct fm_schedule_lane *lane, struct fm_error *err)
{
    struct fm_waiting *waiting = lane->waiting;
    int64_t place = waiting - s->waiting;
    waiting->alone = true;
    waiting->taken = false;
    if (place < s->first) s->first = place;
    return fm_journal_run(s->journal, lane->fence.trial, lane->fence.repeat, lane->fence.fold,
                          &waiting->recorded, err);
}

static int record_end(struct fm_schedule *s, struct fm_schedule_lane *lane, struct fm_run_result *result,
                      struct fm_error *err)
{
    const struct fm_program *program = s->prepared->networks[lane->trial->network].program;
    bool short_of_memory = result->status == FM_RUN_FAILED && !strcmp(result->reason_code, "oom");
    /* What is larger than all the memory there is need not be tried again. */
    if (short_of_memory && !lane->waiting->alone && lane->cost <= s->memory) return put_back(s, lane, err);
    int rc =
        fm_journal_run_end(s->journal, &lane->fence, result, fm_metrics_classes(&s->prepared->data),
                           program->score_width, program->float_count, fm_monotonic() - lane->began, err);
    if (rc) return rc;
    s->progress.done++;
    s->progress.failed += result->status == FM_RUN_FAILED;
    s->flops_done += lane->flops - lane->flops_resumed;
    struct fm_news news = {.kind = FM_NEWS_RUN_END,
                           .trial = lane->fence.trial,
                           .repeat = lane->fence.repeat,
                           .fold = lane->fence.fold,
                           .result = result};
    tell(s, &news);
    if (--s->left[lane->trial - s->prepared->trials] > 0) return 0;
    rc = fm_journal_trial_end(s->journal, s->prepared, lane->trial, err);
    news.kind = FM_NEWS_TRIAL_END;
    news.result = NULL;
    if (!rc) tell(s, &news);
    return rc;
}

static int record_failure(struct fm_schedule *s, struct fm_schedule_lane *lane, const char *code,
                          const char *reason, struct fm_error *err)
{
    struct fm_run_result result = {.status = FM_RUN_FAILED};
    snprintf(result.reason_code, sizeof result.reason_code, "%s", code);
    snprintf(result.reason, sizeof result.reason, "%s", reason);
    for (int m = 0; m < FM_METRICS; m++) result.inner.value[m] = result.val.value[m] = 0.0 / 0.0;
    result.loss = 0.0 / 0.0;
    return record_end(s, lane, &result, err);
}

/* A run that cannot even begin: recorded as failed. */
static int fail_run(struct fm_schedule *s, struct fm_schedule_lane *lane, const char *code,
                    const char *reason, struct fm_error *err)
{
    int rc = record_failure(s, lane, code, reason, err);
    fm_schedule_close(s, lane);
    return rc ? rc : 1;
}

int fm_schedule_give_up(struct fm_schedule *s, struct fm_schedule_lane *lane, const char *why,
                        struct fm_error *err)
{
    char text[sizeof((struct fm_run_result *)NULL)->reason];
    snprintf(text, sizeof text,
             "the device was lost twice while it computed this run, the second time nothing else: %.350s",
             why);
    return record_failure(s, lane, "device", text, err);
}

static void fill_spec(struct fm_schedule *s, struct fm_schedule_lane *lane, int64_t fold,
                      struct fm_run_spec *spec)
{
    const struct fm_sweep *sweep = s->prepared->sweep;
    const struct fm_planned *trial = lane->trial;
    const struct fm_program *program = s->prepared->networks[trial->network].program;
    const struct fm_train_config *config = &trial->config;
    uint32_t metrics = config->metrics & fm_metrics_fitting(fm_metrics_classes(&s->prepared->data));
    double chunk = CHUNK_FLOPS / (fm_program_flops(program, true) * (double)config->batch_size + 1);
    *spec = (struct fm_run_spec){.backend = s->backend,
                                 .device = s->device,
                                 .resident = &s->resident,
                                 .dataset = s->dataset,
                                 .program = program,
                                 .config = config,
                                 .rates = trial->rates,
                                 .view = trial->view,
                                 .split = trial->split,
                                 .fold = fold,
                                 .metrics = metrics | 1u << config->early_stopping.monitor.metric |
                                            1u << sweep->metric.metric,
                                 .metric = sweep->metric,
                                 .maximize = sweep->maximize,
                                 .chunk = chunk < 1      ? 1
                                          : chunk > 4096 ? 4096
                                                         : (int64_t)chunk,
                                 .class_weights = lane->class_weights,
                                 .keep_weights = sweep->keep.weights};
}

static int resume_run(struct fm_schedule *s, struct fm_schedule_lane *lane, struct fm_error *err)
{
    struct fm_text blob = {0};
    struct fm_epoch *history = NULL;
    int64_t nhistory = 0;
    const struct fm_fence *fence = &lane->fence;
    int rc = fm_journal_checkpoint(s->journal, fence->trial, fence->repeat, fence->fold, &blob, &history,
                                   &nhistory, err);
    if (!rc) rc = fm_run_resume(lane->run, blob.data, blob.size, history, nhistory, err);
    if (!rc) {
        lane->flops_resumed = lane->flops * (double)nhistory / (double)lane->trial->config.epochs;
        s->progress.resumed++;
    }
    fm_text_fini(&blob);
    fm_free(history);
    return rc;
}

/* Opens the lane: from the checkpoint, or from the start. A checkpoint that does not fit (an older Foldmill
 * wrote it) is no reason to give up: the run starts over under a new attempt. */
static int begin_run(struct fm_schedule *s, struct fm_schedule_lane *lane, const struct fm_run_spec *spec,
                     bool resume, uint64_t plan, struct fm_error *err)
{
    const struct fm_run_listener listener = {.epoch = on_epoch,
                                             .event = on_event,
                                             .safe_point = on_safe_point,
                                             .keeps_weights = keeps_weights,
                                             .context = lane};
    struct fm_error own = {0};
    int rc = fm_run_new(&lane->run, spec, &listener, err);
    if (rc || !resume) return rc ? rc : fm_run_start(lane->run, err);
    rc = resume_run(s, lane, &own);
    if (rc != FM_EFILE) {
        if (rc < 0 && err && !err->code) *err = own;
        return rc;
    }
    fm_run_free(lane->run);
    lane->run = NULL;
    rc = fm_journal_run_start(s->journal, lane->fence.trial, lane->fence.repeat, lane->fence.fold,
                              s->backend->numbers(s->device), plan, false, &lane->fence.attempt, err);
    if (!rc) rc = fm_run_new(&lane->run, spec, &listener, err);
    return rc ? rc : fm_run_start(lane->run, err);
}

static int make_weights(struct fm_schedule *s, struct fm_schedule_lane *lane, const struct fm_fold *fold,
                        struct fm_error *err)
{
    if (lane->trial->config.class_weight == FM_CLASS_WEIGHT_NONE) return 0;
    lane->class_weights = fm_malloc((size_t)s->prepared->data.nclasses, sizeof(float));
    if (!lane->class_weights) return fm_fail_memory(err);
    return fm_class_weights(&lane->trial->config, &s->prepared->data, fold, lane->class_weights, err);
}

int fm_schedule_start(struct fm_schedule *s, struct fm_schedule_lane *lane, struct fm_waiting *run,
                      int64_t cost, struct fm_error *err)
{
    const struct fm_fold *fold = fold_of(s, run->trial, run->fold);
    const char *numbers = s->backend->numbers(s->device);
    uint64_t plan = run->trial->plan_hash;
    const struct fm_recorded *recorded = &run->recorded;
    bool resume =
        recorded->has_checkpoint && !strcmp(recorded->numbers, numbers) && recorded->plan_hash == plan;
    double now = fm_monotonic();
    *lane = (struct fm_schedule_lane){
        .schedule = s,
        .trial = run->trial,
        .waiting = run,
        .fence = {.trial = run->trial->number, .repeat = fold->repeat, .fold = fold->fold},
        .cost = cost,
        .began = now,
        .saved = now,
        .heard = now,
        .flops = run->flops};
    s->memory_used += cost;
    int rc = fm_journal_run_start(s->journal, run->trial->number, fold->repeat, fold->fold, numbers, plan,
                                  resume, &lane->fence.attempt, err);
    if (rc) return rc;
    if (cost > s->memory) {
        char text[200], needed[FM_BYTES_TEXT], offered[FM_BYTES_TEXT];
        snprintf(text, sizeof text,
                 "this run needs %s and the %s offers %s: take a smaller batch_size or network",
                 fm_show_bytes(cost, needed), s->own_memory ? "device" : "machine",
                 fm_show_bytes(s->memory, offered));
        return fail_run(s, lane, "oom", text, err);
    }
    struct fm_run_spec spec;
    struct fm_error own = {0};
    rc = make_weights(s, lane, fold, &own);
    if (!rc) {
        fill_spec(s, lane, run->fold, &spec);
        rc = begin_run(s, lane, &spec, resume, plan, &own);
    }
    if (!rc) return 0;
    if (rc > 0) {
        rc = record_end(s, lane, fm_run_result(lane->run), err);
        fm_schedule_close(s, lane);
        return rc ? rc : 1;
    }
    if (rc == FM_ENOMEM) return fail_run(s, lane, "oom", own.text, err);
    if (err && !err->code) *err = own;
    return rc;
}

/* Safe points are some hundredths of a second apart, whatever the speed: the first guess is for slow
 * machines. It decides nothing about the results. */
static void pace(struct fm_schedule_lane *lane, const struct fm_report *report)
{
    double now = fm_monotonic(), took = now - lane->heard;
    int64_t chunk = fm_run_chunk(lane->run);
    lane->heard = now;
    if (report->kind != FM_TRAIN || report->steps < chunk) return;
    if (took < LEAST_SECONDS && chunk < MOST_STEPS)
        fm_run_set_chunk(lane->run, chunk * 2);
    else if (took > MOST_SECONDS && chunk > 1)
        fm_run_set_chunk(lane->run, chunk / 2);
}

int fm_schedule_report(struct fm_schedule *s, struct fm_schedule_lane *lane, const struct fm_report *report,
                       struct fm_error *err)
{
    pace(lane, report);
    int rc = fm_run_report(lane->run, report, err);
    if (rc <= 0) return rc;
    rc = record_end(s, lane, fm_run_result(lane->run), err);
    fm_schedule_close(s, lane);
    return rc;
}
