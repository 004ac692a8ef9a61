/* One run's rows: attempts, epochs, events, checkpoints, results (invariants 2 and 4 of journal.h). */
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "sweep/journal_private.h"

#define RUN FM_RUN_KEY

const char *fm_status_name(enum fm_run_status status)
{
    static const char *const names[] = {"pending", "running", "completed", "failed"};
    return names[status];
}

const char *fm_event_name(enum fm_event_kind kind)
{
    static const char *const names[] = {"nan", "skip", "rollback", "memory", "note"};
    return names[kind];
}

static enum fm_run_status status_named(const char *name)
{
    for (int s = FM_RUN_PENDING; name && s <= FM_RUN_FAILED; s++)
        if (!strcmp(fm_status_name((enum fm_run_status)s), name)) return (enum fm_run_status)s;
    return FM_RUN_PENDING;
}

int fm_journal_run(struct fm_journal *journal, int64_t trial, int64_t repeat, int64_t fold,
                   struct fm_recorded *out, struct fm_error *err)
{
    memset(out, 0, sizeof *out);
    sqlite3_stmt *row = NULL;
    int rc = fm_sql_query(&journal->sql, &row,
                          "SELECT r.status, r.attempt, r.numbers, r.plan_hash, c.attempt, r.suspect FROM run "
                          "r LEFT JOIN checkpoint c "
                          "USING(trial, repeat, fold) WHERE r.trial = ? AND r.repeat = ? AND r.fold = ?",
                          err, "iii", trial, repeat, fold);
    if (rc) return rc;
    rc = fm_sql_step(&journal->sql, row, err);
    if (rc <= 0) return rc;
    out->status = status_named((const char *)sqlite3_column_text(row, 0));
    out->attempt = sqlite3_column_int64(row, 1);
    const char *numbers = (const char *)sqlite3_column_text(row, 2);
    snprintf(out->numbers, sizeof out->numbers, "%s", numbers ? numbers : "");
    out->plan_hash = (uint64_t)sqlite3_column_int64(row, 3);
    out->has_checkpoint = sqlite3_column_type(row, 4) != SQLITE_NULL;
    out->suspect = sqlite3_column_int(row, 5) != 0;
    sqlite3_reset(row);
    return 0;
}

static int clear_run(struct fm_journal *journal, int64_t trial, int64_t repeat, int64_t fold,
                     struct fm_error *err)
{
    static const char *const deletes[] = {"DELETE FROM epoch WHERE " RUN, "DELETE FROM event WHERE " RUN,
                                          "DELETE FROM checkpoint WHERE " RUN, "DELETE FROM score WHERE " RUN,
                                          "DELETE FROM artifact WHERE " RUN};
    int rc = 0;
    fm_blobs_forget_run(journal, trial, repeat, fold);
    for (size_t i = 0; !rc && i < sizeof deletes / sizeof *deletes; i++)
        rc = fm_sql_run(&journal->sql, deletes[i], err, "iii", trial, repeat, fold);
    return rc;
}

/* What happened after the checkpoint will happen again. */
static int rewind_run(struct fm_journal *journal, int64_t trial, int64_t repeat, int64_t fold,
                      struct fm_error *err)
{
    int rc = fm_sql_run(&journal->sql,
                        "DELETE FROM epoch WHERE trial = ?1 AND repeat = ?2 AND fold = ?3 AND epoch > "
                        "(SELECT epoch FROM checkpoint WHERE trial = ?1 AND repeat = ?2 AND fold = ?3)",
                        err, "iii", trial, repeat, fold);
    if (rc) return rc;
    return fm_sql_run(&journal->sql,
                      "DELETE FROM event WHERE trial = ?1 AND repeat = ?2 AND fold = ?3 AND number >= "
                      "(SELECT events FROM checkpoint WHERE trial = ?1 AND repeat = ?2 AND fold = ?3)",
                      err, "iii", trial, repeat, fold);
}

int fm_journal_run_start(struct fm_journal *journal, int64_t trial, int64_t repeat, int64_t fold,
                         const char *numbers, uint64_t plan_hash, bool resume, int64_t *attempt,
                         struct fm_error *err)
{
    sqlite3_stmt *row = NULL;
    int rc = fm_journal_group(journal, err);
    if (!rc)
        rc = fm_sql_query(
            &journal->sql, &row,
            "UPDATE run SET status = 'running', attempt = attempt + 1, worker = 'local', lease = "
            "NULL, numbers = ?1, plan_hash = ?2, started = coalesce(started, ?3), "
            "accepted = CASE WHEN ?7 THEN accepted ELSE ?1 LIKE 'cuda%' AND "
            "EXISTS(SELECT 1 FROM accepted WHERE accepted.numbers = ?1) END "
            "WHERE trial = ?4 AND repeat = ?5 AND fold = ?6 RETURNING attempt",
            err, "tidiiii", numbers, (int64_t)plan_hash, fm_wall_clock(), trial, repeat, fold,
            (int64_t)resume);
    if (!rc) rc = fm_sql_step(&journal->sql, row, err);
    if (rc < 0) return rc;
    if (!rc) return fm_fail(err, FM_EINTERNAL, "a run that is to start is not in the journal");
    *attempt = sqlite3_column_int64(row, 0);
    do rc = fm_sql_step(&journal->sql, row, err);
    while (rc > 0);
    /* Nothing stands there of a first attempt. */
    if (rc || *attempt == 1) return rc;
    return resume ? rewind_run(journal, trial, repeat, fold, err)
                  : clear_run(journal, trial, repeat, fold, err);
}

static int read_history(struct fm_journal *journal, int64_t trial, int64_t repeat, int64_t fold,
                        struct fm_epoch **history, int64_t *count, struct fm_error *err)
{
    sqlite3_stmt *row = NULL;
    size_t capacity = 0;
    int rc = fm_sql_query(&journal->sql, &row,
                          "SELECT epoch, loss, learning_rate, best, " FM_METRIC_NAMES
                          " FROM epoch WHERE trial = ? AND repeat = ? AND fold = ? ORDER BY epoch",
                          err, "iii", trial, repeat, fold);
    while (!rc && (rc = fm_sql_step(&journal->sql, row, err)) > 0) {
        rc = 0;
        if (fm_grow(history, &capacity, (size_t)*count + 1, sizeof **history)) {
            sqlite3_reset(row);
            return fm_fail_memory(err);
        }
        struct fm_epoch *epoch = &(*history)[(*count)++];
        epoch->epoch = sqlite3_column_int64(row, 0);
        epoch->loss = fm_sql_real(row, 1);
        epoch->learning_rate = fm_sql_real(row, 2);
        epoch->best = sqlite3_column_int(row, 3) != 0;
        for (int m = 0; m < FM_METRICS; m++) {
            epoch->inner.value[m] = fm_sql_real(row, 4 + m);
            epoch->val.value[m] = fm_sql_real(row, 4 + FM_METRICS + m);
        }
    }
    return rc;
}

int fm_journal_checkpoint(struct fm_journal *journal, int64_t trial, int64_t repeat, int64_t fold,
                          struct fm_text *blob, struct fm_epoch **history, int64_t *nhistory,
                          struct fm_error *err)
{
    *history = NULL;
    *nhistory = 0;
    sqlite3_stmt *row = NULL;
    int rc = fm_sql_query(&journal->sql, &row, "SELECT blob FROM checkpoint WHERE " RUN, err, "iii", trial,
                          repeat, fold);
    if (rc) return rc;
    rc = fm_sql_step(&journal->sql, row, err);
    if (rc <= 0) return rc ? rc : fm_fail(err, FM_EINTERNAL, "a checkpoint is missing");
    fm_text_add_bytes(blob, sqlite3_column_blob(row, 0), (size_t)sqlite3_column_bytes(row, 0));
    sqlite3_reset(row);
    if (blob->failed) return fm_fail_memory(err);
    rc = read_history(journal, trial, repeat, fold, history, nhistory, err);
    if (rc) {
        fm_free(*history);
        *history = NULL;
    }
    return rc;
}

#define FENCE FM_FENCE

int fm_journal_epoch(struct fm_journal *journal, const struct fm_fence *fence, const struct fm_epoch *epoch,
                     struct fm_error *err)
{
    int rc = fm_journal_group(journal, err);
    if (rc) return rc;
    return fm_sql_run(
        &journal->sql,
        "INSERT OR REPLACE INTO epoch SELECT trial, repeat, fold, ?, attempt, ?, ?, ?, " FM_METRIC_MARKS
            FENCE,
        err, "iddimiiii", epoch->epoch, epoch->loss, epoch->learning_rate, (int64_t)epoch->best,
        &epoch->inner, &epoch->val, fence->trial, fence->repeat, fence->fold, fence->attempt);
}

int fm_journal_event(struct fm_journal *journal, const struct fm_fence *fence, const struct fm_event *event,
                     struct fm_error *err)
{
    int rc = fm_journal_group(journal, err);
    if (rc) return rc;
    return fm_sql_run(
        &journal->sql,
        "INSERT OR REPLACE INTO event SELECT trial, repeat, fold, ?, attempt, ?, ?, ?, ?, ?, ?, ?" FENCE, err,
        "itiiiddtiiii", event->number, fm_event_name(event->kind), event->epoch, event->step, event->count,
        event->last_loss, event->last_norm, event->text, fence->trial, fence->repeat, fence->fold,
        fence->attempt);
}

int fm_journal_suspect(struct fm_journal *journal, const struct fm_fence *fence, struct fm_error *err)
{
    int rc = fm_journal_group(journal, err);
    if (rc) return rc;
    return fm_sql_run(&journal->sql, "UPDATE run SET suspect = 1 WHERE " RUN " AND attempt = ?", err, "iiii",
                      fence->trial, fence->repeat, fence->fold, fence->attempt);
}

int fm_journal_save(struct fm_journal *journal, const struct fm_fence *fence, int64_t epoch, const void *blob,
                    size_t size, struct fm_error *err)
{
    int rc = fm_journal_group(journal, err);
    if (rc) return rc;
    journal->no_checkpoints = false;
    return fm_sql_run(
        &journal->sql,
        "INSERT OR REPLACE INTO checkpoint SELECT trial, repeat, fold, attempt, ?, (SELECT count(*) FROM "
        "event "
        "e WHERE e.trial = run.trial AND e.repeat = run.repeat AND e.fold = run.fold), ?, ?" FENCE,
        err, "idbiiii", epoch, fm_wall_clock(), blob, size, fence->trial, fence->repeat, fence->fold,
        fence->attempt);
}

char *fm_confusion_text(const int64_t *confusion, int64_t classes)
{
    struct fm_text text = {0};
    for (int64_t i = 0; i < classes * classes; i++)
        fm_text_add(&text, "%s%lld", i == 0 ? "[[" : i % classes ? "," : "],[", (long long)confusion[i]);
    fm_text_add_string(&text, "]]");
    if (text.failed) fm_text_fini(&text);
    return text.data;
}

static int hold_blobs(struct fm_journal *journal, const struct fm_fence *fence, struct fm_run_result *result,
                      int64_t score_width, int64_t weight_count, struct fm_error *err)
{
    struct fm_blobs blobs = {.fence = *fence, .width = score_width};
    if (result->scores && result->status != FM_RUN_FAILED) {
        blobs.scores = result->scores;
        blobs.nscores = result->nscores;
        result->scores = NULL;
    }
    if (result->weights) {
        blobs.weights = result->weights;
        blobs.nweights = weight_count;
        result->weights = NULL;
    }
    return blobs.scores || blobs.weights ? fm_blobs_hold(journal, &blobs, err) : 0;
}

int fm_journal_run_end(struct fm_journal *journal, const struct fm_fence *fence, struct fm_run_result *result,
                       int64_t classes, int64_t score_width, int64_t weight_count, double seconds,
                       struct fm_error *err)
{
    int rc = fm_journal_group(journal, err);
    if (rc) return rc;
    bool failed = result->status == FM_RUN_FAILED;
    char *confusion = result->confusion ? fm_confusion_text(result->confusion, classes) : NULL;
    if (result->confusion && !confusion) return fm_fail_memory(err);
    rc = fm_sql_run(
        &journal->sql,
        "UPDATE run SET status = ?, suspect = 0, reason_code = ?, reason = ?, epochs = ?, scored_epoch = ?, "
        "best_epoch = "
        "?, "
        "stopped = ?, bad_steps = ?, loss = ?, confusion = ?, ended = ?, seconds = coalesce(seconds, 0) + ?, "
        "(" FM_METRIC_NAMES ") = (" FM_METRIC_MARKS ") WHERE " RUN " AND attempt = ?",
        err, "tttiiitidtddmiiii", fm_status_name(result->status), failed ? result->reason_code : NULL,
        failed ? result->reason : NULL, result->epochs, result->scored_epoch, result->best_epoch,
        result->stopped, result->bad_steps, result->loss, confusion, fm_wall_clock(), seconds, &result->inner,
        &result->val, fence->trial, fence->repeat, fence->fold, fence->attempt);
    fm_free(confusion);
    if (!rc && sqlite3_changes(journal->sql.db) > 0)
        rc = hold_blobs(journal, fence, result, score_width, weight_count, err);
    if (!rc && !journal->no_checkpoints)
        rc = fm_sql_run(
            &journal->sql,
            "DELETE FROM checkpoint WHERE (trial, repeat, fold) IN (SELECT trial, repeat, fold" FENCE ")",
            err, "iiii", fence->trial, fence->repeat, fence->fold, fence->attempt);
    return rc;
}

int fm_journal_transfers(struct fm_journal *journal, const char *device, const struct fm_transfers *transfers,
                         struct fm_error *err)
{
    int rc = fm_journal_group(journal, err);
    if (rc) return rc;
    return fm_sql_run(&journal->sql,
                      "INSERT INTO transfers VALUES(?1,?2,?3) ON CONFLICT(device) DO UPDATE SET to_device = "
                      "to_device + ?2, "
                      "to_host = to_host + ?3",
                      err, "tii", device, transfers->to_device, transfers->to_host);
}
