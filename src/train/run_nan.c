/* Training reports, and what a bad step means under each policy.
 *
 * Under skip and keras one event stands for all bad steps of an epoch, so that the record does not depend on
 * how the epoch was cut into requests. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text.h"
#include "train/run_state.h"

#define FM_MAX_ROLLBACKS 3

void fm_run_start_epoch(struct fm_run *run)
{
    run->at.step = 0;
    run->at.loss_sum = 0;
    run->at.loss_examples = 0;
    run->at.epoch_bad = 0;
    run->at.first_bad = -1;
}

static struct fm_event event_of(const struct fm_run *run, enum fm_event_kind kind)
{
    return (struct fm_event){.kind = kind,
                             .epoch = run->at.epoch + 1,
                             .step = run->at.first_bad,
                             .count = run->at.epoch_bad,
                             .last_loss = run->at.last_loss,
                             .last_norm = run->at.last_norm};
}

/* "epoch 3, step 17: ... (last finite loss 0.5, gradient norm 12)" */
static void describe(const struct fm_run *run, char *text, size_t size, const char *what)
{
    char loss[FM_NUMBER_TEXT], norm[FM_NUMBER_TEXT];
    snprintf(text, size, "epoch %lld, step %lld: %s (last finite loss %s, gradient norm %s)",
             (long long)(run->at.epoch + 1), (long long)run->at.first_bad, what,
             isfinite(run->at.last_loss) ? fm_format_number(run->at.last_loss, loss) : "none",
             isfinite(run->at.last_norm) ? fm_format_number(run->at.last_norm, norm) : "none");
}

static int give_up(struct fm_run *run, struct fm_error *err)
{
    struct fm_event event = event_of(run, FM_EVENT_NAN);
    describe(run, event.text, sizeof event.text, "the loss or a gradient is not finite");
    int code = fm_run_tell(run, &event, err);
    if (code < 0) return code;
    snprintf(run->result.stopped, sizeof run->result.stopped, "nan");
    if (run->at.rollbacks == FM_MAX_ROLLBACKS)
        return fm_run_fail(run, "nan", "%s, after %d rollbacks", event.text, FM_MAX_ROLLBACKS);
    return fm_run_fail(run, "nan", "%s", event.text);
}

static int roll_back(struct fm_run *run, struct fm_error *err)
{
    char rate[FM_NUMBER_TEXT], what[160];
    if (run->at.rollbacks == FM_MAX_ROLLBACKS) return give_up(run, err);
    run->at.rollbacks++;
    run->at.learning_rate *= 0.5;
    struct fm_event event = event_of(run, FM_EVENT_ROLLBACK);
    snprintf(what, sizeof what,
             "the loss or a gradient is not finite; rollback %lld of %d, learning rate now %s",
             (long long)run->at.rollbacks, FM_MAX_ROLLBACKS, fm_format_number(run->at.learning_rate, rate));
    describe(run, event.text, sizeof event.text, what);
    run->wants |= FM_WANT_ROLLBACK;
    return fm_run_tell(run, &event, err);
}

/* The lane holds the last clean epoch end again: the epoch starts over with the same steps. */
void fm_run_rolled_back(struct fm_run *run)
{
    fm_run_start_epoch(run);
}

int fm_run_tell_bad_steps(struct fm_run *run, struct fm_error *err)
{
    bool skipped = run->spec.config->on_nan == FM_ON_NAN_SKIP;
    if (run->at.epoch_bad == 0) return 0;
    struct fm_event event = event_of(run, skipped ? FM_EVENT_SKIP : FM_EVENT_NAN);
    describe(run, event.text, sizeof event.text,
             skipped ? "the loss or a gradient is not finite; such steps were left out"
                     : "the loss or a gradient is not finite; training went on");
    return fm_run_tell(run, &event, err);
}

int fm_run_trained(struct fm_run *run, const struct fm_report *report, struct fm_error *err)
{
    struct fm_run_at *at = &run->at;
    if (report->steps < 0 || report->steps > run->request.steps ||
        (report->steps < run->request.steps && !report->frozen && !report->cancelled))
        return fm_run_fail(run, "device", "the device did %lld of %lld steps without saying why",
                           (long long)report->steps, (long long)run->request.steps);
    if (isfinite(report->last_loss) && isfinite(report->last_norm)) {
        at->last_loss = report->last_loss;
        at->last_norm = report->last_norm;
    }
    if (report->bad_steps > 0) {
        at->bad_steps += report->bad_steps;
        at->epoch_bad += report->bad_steps;
        if (at->first_bad < 0) at->first_bad = report->first_bad_step;
    }
    if (report->frozen)
        return run->spec.config->on_nan == FM_ON_NAN_ROLLBACK ? roll_back(run, err) : give_up(run, err);
    at->step += report->steps;
    at->loss_sum = report->loss_sum;
    at->loss_examples += report->loss_examples;
    run->safe_due = true;
    run->safe_is_end = false;
    return 0;
}
