/* Training that goes on while the epoch before is judged, on backends whose queued requests run without a
 * pause.
 *
 * Behind the evaluation that ends an epoch two more requests are queued: a snapshot of the state into a
 * candidate slot, where the verdict may want it back or kept, and the first steps of the next epoch. When the
 * evaluation's report comes, the verdict is the same as ever. If the run goes on, the training becomes the
 * pending request, and a best state is kept by naming its slot; if it is over, the training is cancelled, its
 * reports are waited for, and the state at the epoch's end is put back. So results, events and what is on
 * record do not change by it: steps of an epoch that never was leave no trace.
 *
 * Nothing is queued ahead where the next epoch depends on the verdict: under `rollback`, which may change the
 * learning rate and wants a clean state set aside, before the last epoch's end, and when the run shall stop.
 * With training under way there is no safe point at the epoch's end; the next one is after those steps. */
#include "base/error.h"
#include "train/run_state.h"

bool fm_run_may_go_ahead(const struct fm_run *run)
{
    return run->ahead.on && !run->stop && run->spec.config->on_nan != FM_ON_NAN_ROLLBACK;
}

/* Whether the verdict may ask for the state at the epoch's end. */
static bool needs_candidate(const struct fm_run *run)
{
    return run->restores || (run->spec.config->early_stopping.rule != FM_STOP_NONE && !run->stopping.off);
}

int fm_run_go_ahead(struct fm_run *run, struct fm_error *err)
{
    struct fm_run_ahead *ahead = &run->ahead;
    ahead->discard = ahead->cancelled = false;
    ahead->candidate = run->best_slot == FM_SLOT_CANDIDATE ? FM_SLOT_OTHER_CANDIDATE : FM_SLOT_CANDIDATE;
    if (needs_candidate(run)) {
        struct fm_request snapshot = {.kind = FM_SNAPSHOT, .slot = ahead->candidate};
        int code = fm_run_submit(run, &snapshot, err);
        if (code) return code;
        ahead->snapshot = snapshot.tag;
    }
    ahead->request = fm_run_train_request(run, run->at.epoch + 1, 0, 0);
    int code = fm_run_submit(run, &ahead->request, err);
    if (!code) ahead->train = ahead->request.tag;
    return code;
}

bool fm_run_ahead_judged(struct fm_run *run)
{
    struct fm_run_ahead *ahead = &run->ahead;
    if (!ahead->train) return false;
    if (ahead->cancelled || run->finishing) {
        ahead->discard = true;
        if (!ahead->cancelled) run->wants |= FM_WANT_BACK;
        /* The snapshot is needed: only what is behind it may be left undone. */
        if (!ahead->snapshot) run->spec.backend->cancel(run->lane);
        return true;
    }
    run->request = ahead->request;
    run->pending = true;
    run->safe_due = false;
    ahead->train = 0;
    return true;
}

/* All reports of what was thrown away are in. */
static int discarded(struct fm_run *run, struct fm_error *err)
{
    run->ahead.discard = false;
    return run->ahead.cancelled ? fm_run_cancelled(run, err) : fm_run_advance(run, err);
}

bool fm_run_ahead_report(struct fm_run *run, const struct fm_report *report, int *code, struct fm_error *err)
{
    struct fm_run_ahead *ahead = &run->ahead;
    const bool snapshot = ahead->snapshot && report->tag == ahead->snapshot;
    const bool train = ahead->train && report->tag == ahead->train && ahead->discard;
    if (!snapshot && !train) return false;
    *(snapshot ? &ahead->snapshot : &ahead->train) = 0;
    if (report->status < 0)
        *code = fm_run_fault(run, report->status, &report->error, err);
    else if (snapshot && report->frozen)
        *code = fm_run_fail(run, "device", "the device left a request undone though no step was bad");
    else if (ahead->discard && !ahead->snapshot && !ahead->train)
        *code = discarded(run, err);
    else if (ahead->discard && snapshot)
        run->spec.backend->cancel(run->lane);
    return true;
}
