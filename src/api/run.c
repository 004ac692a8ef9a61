/* fm_run: journal, preparation, scheduler, verdict. */
#include "api/handle.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "report/plan.h"
#include "report/reader.h"
#include "report/table.h"

#define CHECKPOINT_SECONDS 10

/* Between the scheduler's words and the public ones. */
struct relay {
    struct foldmill *f;
    const struct fm_callbacks *callbacks;
    struct fm_lane_status *lanes;
    int64_t nlanes;
    size_t told; /* notes that were given out */
};

static void tell(struct relay *relay, const struct fm_message *message)
{
    if (relay->callbacks && relay->callbacks->message)
        relay->callbacks->message(relay->callbacks->context, message);
}

static void tell_notes(struct relay *relay)
{
    for (; relay->told < fm_note_count(relay->f); relay->told++) {
        struct fm_message message = {.kind = FM_MESSAGE_NOTE, .repeat = -1, .fold = -1};
        message.text = fm_note_text(relay->f, relay->told, &message.warning);
        tell(relay, &message);
    }
}

static void on_progress(void *context, const struct fm_progress *progress)
{
    struct relay *relay = context;
    if (!relay->callbacks->status) return;
    if (progress->nlanes > relay->nlanes) {
        struct fm_lane_status *lanes = fm_realloc(relay->lanes, (size_t)progress->nlanes, sizeof *lanes);
        if (!lanes) return; /* progress is worth no failure */
        relay->lanes = lanes;
        relay->nlanes = progress->nlanes;
    }
    for (int64_t i = 0; i < progress->nlanes; i++) {
        const struct fm_lane_view *lane = &progress->lanes[i];
        relay->lanes[i] = (struct fm_lane_status){.busy = lane->busy,
                                                  .trial = lane->trial,
                                                  .repeat = lane->repeat,
                                                  .fold = lane->fold,
                                                  .epoch = lane->place.epoch,
                                                  .epochs = lane->place.epochs,
                                                  .step = lane->place.step,
                                                  .steps = lane->place.steps,
                                                  .loss = lane->place.loss,
                                                  .watched = lane->place.watched};
    }
    struct fm_status status = {.elapsed = progress->elapsed,
                               .left = progress->left,
                               .runs = progress->runs,
                               .done = progress->done,
                               .failed = progress->failed,
                               .resumed = progress->resumed,
                               .lanes = relay->lanes,
                               .nlanes = progress->nlanes};
    relay->callbacks->status(relay->callbacks->context, &status);
}

static void describe_run(const struct relay *relay, const struct fm_news *news, char *text, size_t size)
{
    const struct fm_run_result *result = news->result;
    struct fm_monitor metric = relay->f->sweep.metric;
    char name[48], value[FM_NUMBER_TEXT];
    if (!result) {
        snprintf(text, size, "is over");
    } else if (result->status == FM_RUN_FAILED) {
        snprintf(text, size, "failed: %s", result->reason);
    } else {
        const struct fm_measured *part = metric.part == FM_PART_INNER ? &result->inner : &result->val;
        snprintf(text, size, "%s %s at epoch %" PRId64 " of %" PRId64 " (%s)", fm_monitor_name(metric, name),
                 fm_table_number(part->value[metric.metric], value), result->scored_epoch, result->epochs,
                 result->stopped);
    }
}

static void on_news(void *context, const struct fm_news *news)
{
    struct relay *relay = context;
    char text[700], line[800];
    struct fm_message message = {
        .trial = news->trial, .repeat = news->repeat, .fold = news->fold, .text = line};
    switch (news->kind) {
    case FM_NEWS_RUN_END:
        message.kind = FM_MESSAGE_RUN;
        message.warning = news->result && news->result->status == FM_RUN_FAILED;
        describe_run(relay, news, text, sizeof text);
        break;
    case FM_NEWS_EVENT:
        message.kind = FM_MESSAGE_EVENT;
        message.warning = true;
        snprintf(text, sizeof text, "%s", news->event ? news->event->text : "");
        break;
    case FM_NEWS_TRIAL_END:
        message.kind = FM_MESSAGE_TRIAL;
        message.repeat = message.fold = -1;
        snprintf(line, sizeof line, "trial %" PRId64 " is over", news->trial);
        tell(relay, &message);
        return;
    }
    if (relay->f->sweep.cv.repeats > 1)
        snprintf(line, sizeof line, "trial %" PRId64 ", repeat %" PRId64 ", fold %" PRId64 ": %s",
                 news->trial, news->repeat, news->fold, text);
    else
        snprintf(line, sizeof line, "trial %" PRId64 ", fold %" PRId64 ": %s", news->trial, news->fold, text);
    tell(relay, &message);
}

/* Nothing may be mixed: what is on record must be of the same file and the same data. */
static int compare(struct foldmill *f, struct fm_journal *journal, enum fm_journal_state *state,
                   struct fm_error *err)
{
    char why[512] = "";
    int rc = fm_journal_compare(journal, &f->prepared, state, why, sizeof why, err);
    if (rc || *state != FM_JOURNAL_CHANGED) return rc;
    return fm_fail(
        err, FM_EFILE,
        "%s holds results of something else: %s. Put it back, give another --journal, or start over with "
        "--fresh (the old journal is kept beside it)",
        f->journal, why);
}

static int schedule(struct foldmill *f, struct fm_journal *journal, struct relay *relay, struct fm_error *err)
{
    struct fm_watcher watcher = {.progress = on_progress, .news = on_news, .context = relay};
    struct fm_schedule_options options = {.backend = f->backend,
                                          .device = f->device,
                                          .journal = journal,
                                          .watcher = relay->callbacks ? &watcher : NULL,
                                          .stop = &f->stop,
                                          .checkpoint_seconds = CHECKPOINT_SECONDS};
    int rc = fm_schedule(&f->prepared, &options, err);
    return rc ? rc : fm_journal_mark(journal, true, f->prepared.space_hash, err);
}

static int run(struct foldmill *f, struct fm_journal *journal, struct relay *relay, struct fm_error *err)
{
    enum fm_journal_state state;
    bool finished = false;
    int rc = compare(f, journal, &state, err);
    if (!rc && state == FM_JOURNAL_SAME) rc = fm_journal_finished(journal, &f->prepared, &finished, err);
    if (rc || finished) return rc;
    if (!f->has_plan) rc = fm_journal_lost_plans(journal, f->backend->numbers(f->device), &f->prepared, err);
    if (!rc) rc = fm_handle_plan(f, err);
    if (rc) return rc;
    fm_plan_notes(&f->prepared, &f->prepared.notes);
    tell_notes(relay);
    rc = compare(f, journal, &state, err);
    if (!rc && state == FM_JOURNAL_SAME)
        rc = fm_journal_device(journal, &f->prepared, f->backend->numbers(f->device), f->accept_other, err);
    if (!rc)
        rc = fm_journal_begin(journal, &f->prepared, f->backend->describe(f->device),
                              f->backend->numbers(f->device), err);
    return rc ? rc : schedule(f, journal, relay, err);
}

/* A plan that lost the device is written down, so that the next process does not lose it again. */
static int record_lost_plan(const struct foldmill *f, struct fm_journal *journal, bool fresh,
                            struct fm_error *err)
{
    struct fm_error told = {0}, writing = {0};
    int rc = fm_journal_lost_plan(journal, f->backend->numbers(f->device), &f->lost_by, &writing);
    fm_fail(&told, FM_EDEVICE, "%.900s; the same command%s goes on, with own kernels for that network",
            err->text, fresh ? " without --fresh" : "");
    *err = rc ? writing : told;
    return rc ? rc : FM_EDEVICE;
}

/* What became of the sweep as a whole. */
static int verdict(const struct foldmill *f, struct fm_error *err)
{
    struct fm_reader reader;
    int rc = fm_reader_open(&reader, f->journal, err);
    if (rc) return rc;
    int64_t valid = fm_reader_count(&reader, "SELECT count(*) FROM trial WHERE listed AND valid");
    int64_t good = fm_reader_count(
        &reader, "SELECT count(*) FROM trial t WHERE listed AND valid AND NOT EXISTS(SELECT 1 "
                 "FROM run r WHERE r.trial = t.trial AND r.status = 'failed')");
    fm_reader_query(&reader, "SELECT reason FROM trial WHERE listed AND NOT valid ORDER BY trial LIMIT 1");
    char reason[512] = "";
    if (!valid && fm_reader_row(&reader)) snprintf(reason, sizeof reason, "%s", fm_reader_text(&reader, 0));
    rc = fm_reader_status(&reader, err);
    fm_reader_close(&reader);
    if (rc) return rc;
    if (!valid) return fm_fail(err, FM_ESHAPE, "no trial is valid; the first one: %s", reason);
    if (!good) return fm_fail(err, FM_EFAILED, "every valid trial failed: see `foldmill show %s`", f->path);
    return 0;
}

int fm_profile_text(struct foldmill *f, char **out, struct fm_error *err)
{
    struct fm_text text = {0};
    *out = NULL;
    if (!f->profile || !f->device || !f->backend->profile)
        return fm_fail(err, FM_EUSAGE, "nothing was measured: run with --profile on --device cuda");
    if (f->lost) return fm_fail(err, FM_EDEVICE, "the device was lost, and its times with it");
    int rc = f->backend->profile(f->device, &text, err);
    if (rc) return fm_text_fini(&text), rc;
    return fm_text_give(&text, out, err);
}

int fm_run(struct foldmill *f, const struct fm_callbacks *callbacks, struct fm_error *out)
{
    struct fm_error err = {0};
    struct relay relay = {.f = f, .callbacks = callbacks};
    struct fm_journal *journal = NULL;
    const bool fresh = f->fresh;
    int planned = 0, rc = fm_handle_needs_sweep(f, &err);
    /* Data may have changed since an earlier call on this handle. */
    if (!rc) fm_handle_forget(f);
    if (!rc) rc = fm_handle_file(f, &err);
    if (!rc) rc = fm_handle_device(f, &err);
    /* A file that cannot run leaves nothing behind: no new journal is made, and no old one set aside, before
     * all was read. A plan that lost the device is a beginning. */
    if (!rc && (f->fresh || access(f->journal, F_OK))) planned = fm_handle_plan(f, &err);
    const bool lost = planned == FM_EDEVICE && f->lost_by.batch > 0;
    if (planned && !lost) rc = planned;
    struct fm_error opening = {0};
    if (!rc) rc = fm_journal_open(&journal, f->journal, f->fresh, &f->notes, &opening);
    if (rc && opening.code) err = opening;
    if (!rc) {
        f->fresh = false; /* a second call goes on */
        rc = lost ? planned : run(f, journal, &relay, &err);
        if (rc == FM_EDEVICE && f->lost_by.batch > 0) rc = record_lost_plan(f, journal, fresh, &err);
        tell_notes(&relay);
        f->lost |= rc == FM_EDEVICE;
        /* A stop that was asked for is a clean one, and so is that of a device that is gone. */
        const bool clean = rc == 0 || rc == FM_EINTERRUPTED || rc == FM_EDEVICE;
        struct fm_error closing = {0};
        int closed = fm_journal_close(journal, clean ? &closing : &err);
        if (closed && clean) {
            rc = closed;
            err = closing;
        }
    }
    if (!rc) rc = verdict(f, &err);
    fm_free(relay.lanes);
    if (rc && out && !out->code) *out = err;
    return rc;
}
