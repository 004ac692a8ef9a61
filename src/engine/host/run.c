/* One request on a worker's thread: steps, what follows a bad one, snapshots. */
#include "engine/host/host.h"

#include <math.h>
#include <string.h>

/* One step; false when it froze the lane. */
static bool train_step(struct fm_lane *lane, const struct fm_request *request, int64_t s,
                       struct fm_report *report)
{
    struct fm_step step;
    fm_order_take(lane, s);
    lane->executor->gradients(lane, &step);
    report->steps++;
    report->examples += lane->n;
    if (step.bad) {
        if (report->bad_steps++ == 0) report->first_bad_step = s;
        if (request->on_nan != FM_ON_NAN_KERAS) {
            lane->frozen = request->on_nan != FM_ON_NAN_SKIP;
            return !lane->frozen;
        }
    } else {
        fm_lane_tail(lane)->last_loss = step.loss;
        fm_lane_tail(lane)->last_norm = step.norm;
    }
    report->loss_sum += step.loss * (double)lane->n;
    report->loss_examples += lane->n;
    lane->executor->update(lane, request->learning_rate);
    return true;
}

static void train(struct fm_lane *lane, struct fm_work *work)
{
    const struct fm_request *request = &work->request;
    struct fm_report *report = &work->report;
    report->loss_sum = request->loss_sum;
    for (int64_t i = 0; i < request->steps; i++) {
        if (atomic_load_explicit(&work->cancel, memory_order_relaxed)) {
            report->cancelled = true;
            break;
        }
        if (!train_step(lane, request, request->first_step + i, report)) {
            report->frozen = true;
            break;
        }
    }
    report->last_loss = fm_lane_tail(lane)->last_loss;
    report->last_norm = fm_lane_tail(lane)->last_norm;
}

static void restore(struct fm_lane *lane, int slot, struct fm_report *report)
{
    if (!lane->taken[slot]) {
        report->status = fm_fail(&report->error, FM_EINTERNAL, "snapshot slot %d is empty", slot);
        return;
    }
    memcpy(lane->state, lane->snapshot[slot], (size_t)lane->layout.state);
    lane->frozen = false;
}

void fm_lane_run(struct fm_lane *lane, struct fm_work *work)
{
    struct fm_report *report = &work->report;
    report->first_bad_step = -1;
    report->loss_sum = work->request.loss_sum;
    report->last_loss = report->last_norm = report->loss = NAN;
    if (atomic_load(&work->cancel)) {
        report->cancelled = true;
        return;
    }
    if (lane->frozen && work->request.kind != FM_RESTORE) {
        report->frozen = true;
        return;
    }
    switch (work->request.kind) {
    case FM_TRAIN: train(lane, work); break;
    case FM_EVALUATE: fm_lane_evaluate(lane, work); break;
    case FM_SNAPSHOT:
        memcpy(lane->snapshot[work->request.slot], lane->state, (size_t)lane->layout.state);
        lane->taken[work->request.slot] = true;
        break;
    case FM_RESTORE: restore(lane, work->request.slot, report); break;
    }
}
