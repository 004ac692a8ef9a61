/* What happens between two epochs and at the end: evaluate the watched part, judge it, and finally score the
 * kept weights. A state that was just evaluated with everything needed is not evaluated again. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "train/run_state.h"

static const struct fm_indexset *set_of(const struct fm_run *run, enum fm_part part)
{
    return part == FM_PART_INNER ? &run->fold->inner : &run->fold->val;
}

static int every_class(const struct fm_run *run, bool *every, struct fm_error *err)
{
    const struct fm_indexset *set = set_of(run, run->watched);
    struct fm_cursor cursor = {0};
    int64_t example, left = run->classes;
    uint64_t *seen = fm_calloc((size_t)run->classes / 64 + 1, sizeof *seen);
    if (!seen) return fm_fail_memory(err);
    while (left > 0 && fm_indexset_next(set, &cursor, &example)) {
        uint32_t c = fm_metrics_class(run->view, example);
        if (c >= run->classes || seen[c / 64] >> (c % 64) & 1) continue;
        seen[c / 64] |= UINT64_C(1) << (c % 64);
        left--;
    }
    fm_free(seen);
    *every = left == 0;
    return 0;
}

int fm_run_monitor_defined(const struct fm_run *run, bool *defined, struct fm_error *err)
{
    const struct fm_train_config *config = run->spec.config;
    struct fm_monitor monitor = config->early_stopping.monitor;
    *defined = true;
    if (config->early_stopping.rule != FM_STOP_KERAS) return 0;
    if (monitor.part == FM_PART_TRAIN)
        *defined = monitor.metric == FM_METRIC_LOSS;
    else if (monitor.part == FM_PART_INNER && run->watched != FM_PART_INNER)
        *defined = false;
    else if (!(run->all & 1u << monitor.metric))
        *defined = false;
    else if (monitor.metric == FM_METRIC_R2)
        *defined = set_of(run, run->watched)->count >= 2;
    else if (monitor.metric == FM_METRIC_AUC || monitor.metric == FM_METRIC_PR_AUC)
        return every_class(run, defined, err);
    return 0;
}

/* ---- evaluations ---- */

static int room(struct fm_run *run, enum fm_part part, bool scores, struct fm_error *err)
{
    int i = part == FM_PART_VAL;
    int64_t cells, floats;
    if (run->classes && !run->confusion[i]) {
        if (!fm_multiply(run->classes, run->classes, &cells)) return fm_fail_memory(err);
        run->confusion[i] = fm_calloc((size_t)cells, sizeof *run->confusion[i]);
        if (!run->confusion[i]) return fm_fail_memory(err);
    }
    if (scores && !run->scores[i]) {
        if (!fm_multiply(set_of(run, part)->count, run->spec.program->score_width, &floats))
            return fm_fail_memory(err);
        run->scores[i] = fm_malloc((size_t)floats, sizeof *run->scores[i]);
        if (!run->scores[i]) return fm_fail_memory(err);
    }
    return 0;
}

int fm_run_request_evaluation(struct fm_run *run, enum fm_part part, bool full, struct fm_request *request,
                              struct fm_error *err)
{
    int i = part == FM_PART_VAL;
    bool scores = full || run->each & fm_metrics_of_scores();
    int code = room(run, part, scores, err);
    if (code < 0) return code;
    run->full = full;
    *request = (struct fm_request){.kind = FM_EVALUATE,
                                   .part = part,
                                   .returns = (run->classes ? FM_RETURN_CONFUSION : 0) |
                                              (scores ? FM_RETURN_SCORES : 0),
                                   .confusion = run->confusion[i],
                                   .scores = scores ? run->scores[i] : NULL};
    return 0;
}

static int measure(struct fm_run *run, const struct fm_report *report, struct fm_measured *out,
                   struct fm_error *err)
{
    const struct fm_request *request = &run->request;
    struct fm_metrics_input in = {.view = run->view,
                                  .part = set_of(run, request->part),
                                  .loss = report->loss,
                                  .confusion = request->confusion,
                                  .scores = request->scores,
                                  .width = run->spec.program->score_width,
                                  .square_sum = report->square_sum,
                                  .absolute_sum = report->absolute_sum,
                                  .wanted = run->full ? run->all : run->each};
    return fm_metrics_measure(&in, out, err);
}

/* ---- the verdict ---- */

static double watched_value(const struct fm_monitor *monitor, double loss, const struct fm_measured *watched)
{
    return monitor->part == FM_PART_TRAIN ? loss : watched->value[monitor->metric];
}

struct fm_verdict fm_run_judge(struct fm_run *run, double loss, const struct fm_measured *watched)
{
    const struct fm_train_config *config = run->spec.config;
    struct fm_monitor monitor = config->early_stopping.monitor;
    if (config->early_stopping.rule != FM_STOP_KERAS)
        monitor = (struct fm_monitor){run->watched, FM_METRIC_LOSS};
    struct fm_verdict verdict =
        fm_stopping_epoch(&run->stopping, loss, watched_value(&monitor, loss, watched));
    if (run->restores && verdict.improved) run->kept_loss = loss;
    run->loss = loss;
    double value = run->watched_value = watched_value(&run->spec.metric, loss, watched);
    bool better = run->spec.maximize ? value > run->best_metric : value < run->best_metric;
    if (isfinite(value) && (isnan(run->best_metric) || better)) {
        run->best_metric = value;
        run->best_epoch = run->stopping.epoch;
    }
    if (verdict.stop && run->stopping.epoch < config->epochs) {
        static const char *const names[] = {[FM_STOP_KERAS] = "early_stopping",
                                            [FM_STOP_GL] = "gl",
                                            [FM_STOP_PQ] = "pq",
                                            [FM_STOP_UP] = "up"};
        snprintf(run->result.stopped, sizeof run->result.stopped, "%s", names[config->early_stopping.rule]);
        run->finishing = true;
    } else if (run->stopping.epoch >= config->epochs) {
        snprintf(run->result.stopped, sizeof run->result.stopped, "epochs");
        run->finishing = true;
    }
    return verdict;
}

static void only(struct fm_measured *measured, uint32_t wanted)
{
    for (int m = 0; m < FM_METRICS; m++)
        if (!(wanted & 1u << m)) measured->value[m] = NAN;
}

static int end_epoch(struct fm_run *run, struct fm_error *err)
{
    struct fm_epoch epoch = {.epoch = run->at.epoch + 1, .learning_rate = run->at.learning_rate};
    epoch.loss = run->at.loss_examples ? run->at.loss_sum / (double)run->at.loss_examples : NAN;
    struct fm_measured watched = run->measured;
    only(&watched, run->each);
    only(&epoch.inner, 0);
    only(&epoch.val, 0);
    *(run->watched == FM_PART_INNER ? &epoch.inner : &epoch.val) = watched;
    int code = fm_run_tell_bad_steps(run, err);
    if (code < 0) return code;
    epoch.best = fm_run_judge(run, epoch.loss, &watched).improved && run->restores;
    if (run->listener.epoch) {
        code = run->listener.epoch(run->listener.context, &epoch, err);
        if (code < 0) return code;
    }
    run->at.epoch++;
    fm_run_start_epoch(run);
    if (!run->finishing) {
        /* A state that was set aside before training went on is kept where it is. */
        if (epoch.best && run->ahead.train)
            run->best_slot = run->ahead.candidate;
        else if (epoch.best)
            run->wants |= FM_WANT_KEEP;
        if (run->spec.config->on_nan == FM_ON_NAN_ROLLBACK) run->wants |= FM_WANT_CLEAN;
    } else {
        fm_run_plan_end(run);
    }
    run->safe_due = run->safe_is_end = true;
    return 0;
}

int fm_run_evaluated(struct fm_run *run, const struct fm_report *report, struct fm_error *err)
{
    struct fm_error why = {0};
    struct fm_measured measured;
    int code = measure(run, report, &measured, &why);
    if (code < 0) return fm_run_fault(run, code, &why, err);
    if (!run->finishing) {
        run->measured = measured;
        return end_epoch(run, err);
    }
    if (run->request.part == FM_PART_INNER) {
        run->result.inner = measured;
        run->wants &= ~FM_WANT_SCORE_INNER;
    } else {
        run->result.val = measured;
        run->wants &= ~FM_WANT_SCORE_VAL;
    }
    return 0;
}

/* ---- the end ---- */

/* Decides which weights are kept and what of them is still to be measured. */
void fm_run_plan_end(struct fm_run *run)
{
    bool back = run->restores && run->stopping.best_epoch > 0 && run->stopping.best_epoch != run->at.epoch;
    bool inner = run->watched == FM_PART_INNER;
    run->result.scored_epoch = back ? run->stopping.best_epoch : run->at.epoch;
    run->result.loss = back ? run->kept_loss : run->loss;
    if (back) run->wants |= FM_WANT_RESTORE;
    if (back || !run->full) {
        run->wants |= FM_WANT_SCORE_VAL | (inner ? FM_WANT_SCORE_INNER : 0);
    } else if (inner) {
        run->result.inner = run->measured;
        run->wants |= FM_WANT_SCORE_VAL;
    } else {
        run->result.val = run->measured;
    }
}

static int take_weights(struct fm_run *run, struct fm_error *err)
{
    const struct fm_backend *backend = run->spec.backend;
    size_t bytes = (size_t)run->spec.program->float_count * sizeof(float);
    int64_t size = backend->state_size(run->lane);
    if (size < (int64_t)bytes)
        return fm_fail(err, FM_EINTERNAL, "a lane's state is smaller than its parameters");
    void *state = fm_malloc((size_t)size, 1);
    if (!state) return fm_fail_memory(err);
    int code = backend->state_read(run->lane, state, err);
    if (code >= 0) {
        run->result.weights = fm_malloc((size_t)run->spec.program->float_count, sizeof(float));
        if (run->result.weights)
            memcpy(run->result.weights, state, bytes);
        else
            code = fm_fail_memory(err);
    }
    fm_free(state);
    return code;
}

int fm_run_complete(struct fm_run *run, struct fm_error *err)
{
    struct fm_run_result *result = &run->result;
    struct fm_error why = {0};
    bool keep = run->spec.keep_weights &&
                (!run->listener.keeps_weights || run->listener.keeps_weights(run->listener.context, result));
    int code = keep ? take_weights(run, &why) : 0;
    if (code < 0) return fm_run_fault(run, code, &why, err);
    result->status = FM_RUN_COMPLETED;
    result->epochs = run->at.epoch;
    result->best_epoch = run->best_epoch;
    result->bad_steps = run->at.bad_steps;
    result->confusion = run->confusion[1];
    result->scores = run->scores[1];
    result->nscores = run->scores[1] ? run->fold->val.count : 0;
    run->confusion[1] = NULL;
    run->scores[1] = NULL;
    return 1;
}
