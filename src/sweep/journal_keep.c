/* What is kept of which trial. The standing of the kept trials is in memory, best first: a trial that ends is
 * compared with them and not with all others, however many there are. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "sweep/journal_private.h"

static bool better(const struct fm_standing *a, const struct fm_standing *b, bool maximize)
{
    bool first = a->defined && !a->diverged, second = b->defined && !b->diverged;
    if (!first || !second) return first && !second;
    double x = a->sum / (double)a->defined, y = b->sum / (double)b->defined;
    return maximize ? x > y : x < y;
}

/* Equal trials stand in the order of their numbers. */
static bool before(const struct fm_standing *a, const struct fm_standing *b, bool maximize)
{
    return better(a, b, maximize) || (!better(b, a, maximize) && a->trial < b->trial);
}

static int insert(struct fm_journal *journal, const struct fm_standing *standing, bool maximize,
                  struct fm_error *err)
{
    if (fm_grow(&journal->kept, &journal->kept_capacity, (size_t)journal->nkept + 1, sizeof *journal->kept))
        return fm_fail_memory(err);
    int64_t low = 0, high = journal->nkept;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (before(&journal->kept[middle], standing, maximize))
            low = middle + 1;
        else
            high = middle;
    }
    memmove(journal->kept + low + 1, journal->kept + low,
            (size_t)(journal->nkept - low) * sizeof *journal->kept);
    journal->kept[low] = *standing;
    journal->nkept++;
    return 0;
}

static void take_out(struct fm_journal *journal, int64_t trial)
{
    int64_t n = 0;
    for (int64_t i = 0; i < journal->nkept; i++)
        if (journal->kept[i].trial != trial) journal->kept[n++] = journal->kept[i];
    journal->nkept = n;
}

void fm_standing_add(struct fm_standing *standing, const char *status, double value, double val_loss)
{
    bool completed = status && !strcmp(status, "completed");
    standing->runs++;
    standing->over += completed;
    standing->diverged |= completed && !isfinite(val_loss);
    if (!isfinite(value)) return;
    standing->sum += value;
    standing->defined++;
}

void fm_keep_forget(struct fm_journal *journal)
{
    journal->nkept = 0;
    journal->kept_known = false;
}

/* Reads the standing of the trials that are kept so far. CROSS JOIN and the index on `kept` see to it that no
 * others are looked at. */
static int read_kept(struct fm_journal *journal, const struct fm_sweep *sweep, struct fm_error *err)
{
    if (journal->kept_known) return 0;
    fm_keep_forget(journal);
    sqlite3_stmt *row = NULL;
    struct fm_standing now = {0};
    int column = 2 + fm_metric_column(sweep->metric);
    int rc = fm_sql_query(&journal->sql, &row,
                          "SELECT r.trial, r.status, " FM_METRIC_NAMES
                          " FROM (SELECT trial AS number FROM trial WHERE kept AND listed AND valid) "
                          "CROSS JOIN run r ON r.trial = number ORDER BY r.trial, r.repeat, r.fold",
                          err, "");
    for (;;) {
        if (!rc) rc = fm_sql_step(&journal->sql, row, err);
        int64_t trial = rc > 0 ? sqlite3_column_int64(row, 0) : 0;
        /* One that has runs to do again stands nowhere until it is over. */
        if (rc >= 0 && now.trial && trial != now.trial && now.over == now.runs &&
            insert(journal, &now, sweep->maximize, err)) {
            sqlite3_reset(row);
            return FM_ENOMEM;
        }
        if (rc <= 0) break;
        rc = 0;
        if (trial != now.trial) now = (struct fm_standing){.trial = trial};
        fm_standing_add(&now, (const char *)sqlite3_column_text(row, 1), fm_sql_real(row, column),
                        fm_sql_real(row, 2 + FM_METRICS + FM_METRIC_LOSS));
    }
    journal->kept_known = !rc;
    return rc;
}

/* Drops what is not kept of the trials that stand too low. */
static int cut(struct fm_journal *journal, const struct fm_sweep *sweep, int64_t but, struct fm_error *err)
{
    int rc = 0;
    while (!rc && journal->nkept > sweep->keep.trials) {
        const struct fm_standing *last = &journal->kept[--journal->nkept];
        if (last->trial != but)
            rc =
                fm_sql_run(&journal->sql, "UPDATE trial SET kept = 0 WHERE trial = ?", err, "i", last->trial);
        if (!rc) rc = fm_blobs_drop(journal, last->trial, last->runs, true, true, err);
    }
    return rc;
}

int fm_keep_trial(struct fm_journal *journal, const struct fm_sweep *sweep,
                  const struct fm_standing *standing, bool *kept, struct fm_error *err)
{
    *kept = false;
    int rc = read_kept(journal, sweep, err);
    if (rc) return rc;
    take_out(journal, standing->trial);
    rc = insert(journal, standing, sweep->maximize, err);
    if (!rc) rc = cut(journal, sweep, standing->trial, err);
    if (rc) return rc;
    for (int64_t i = 0; !*kept && i < journal->nkept; i++) *kept = journal->kept[i].trial == standing->trial;
    if (!*kept) return 0;
    return fm_blobs_drop(journal, standing->trial, standing->runs, !sweep->keep.predictions,
                         !sweep->keep.weights, err);
}

bool fm_journal_would_keep(const struct fm_journal *journal, const struct fm_sweep *sweep, int64_t trial,
                           const struct fm_run_result *result)
{
    const struct fm_measured *part = sweep->metric.part == FM_PART_VAL ? &result->val : &result->inner;
    struct fm_standing standing = {.trial = trial};
    if (sweep->keep.trials < 1) return false;
    if (!journal->kept_known || journal->nkept < sweep->keep.trials) return true;
    fm_standing_add(&standing, "completed", part->value[sweep->metric.metric],
                    result->val.value[FM_METRIC_LOSS]);
    return before(&standing, &journal->kept[sweep->keep.trials - 1], sweep->maximize);
}

int fm_journal_keep(struct fm_journal *journal, struct fm_prepared *p, struct fm_error *err)
{
    const struct fm_sweep *sweep = p->sweep;
    int64_t kept = 0, completed = 0, wanted = sweep->keep.trials;
    int rc = fm_journal_group(journal, err);
    fm_keep_forget(journal);
    if (!rc) rc = read_kept(journal, sweep, err);
    if (!rc) rc = cut(journal, sweep, 0, err);
    for (int64_t i = 0; !rc && i < journal->nkept; i++)
        rc = fm_blobs_drop(journal, journal->kept[i].trial, journal->kept[i].runs, !sweep->keep.predictions,
                           !sweep->keep.weights, err);
    if (!rc)
        rc = fm_sql_integer(&journal->sql, "SELECT count(*) FROM trial WHERE kept AND listed AND valid", 0,
                            &kept, err, "");
    if (!rc)
        rc = fm_sql_integer(&journal->sql,
                            "SELECT count(*) FROM trial WHERE listed AND valid AND pooled_n IS NOT NULL", 0,
                            &completed, err, "");
    if (!rc && kept < completed && kept < wanted)
        fm_note(&p->notes, FM_NOTE,
                "predictions and weights are kept of %lld %s only: those of others were dropped when "
                "keep.trials was smaller or other trials were listed",
                (long long)kept, kept == 1 ? "trial" : "trials");
    return rc;
}
