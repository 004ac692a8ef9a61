/* A trial whose runs are all over: its pooled out-of-fold measures, and what is kept of which trial. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "sweep/journal_private.h"

/* All validation examples of a trial end to end, as its folds saw them. */
struct pool {
    uint32_t *classes;
    float *targets, *scores;
    int64_t n, width, target_width;
};

static void pool_fini(struct pool *pool)
{
    fm_free(pool->classes);
    fm_free(pool->targets);
    fm_free(pool->scores);
}

static int pool_init(struct pool *pool, const struct fm_view *view, int64_t n, int64_t width, bool numbers,
                     struct fm_error *err)
{
    *pool = (struct pool){.width = width, .target_width = view->width};
    if (numbers)
        pool->targets = fm_malloc((size_t)n, (size_t)view->width * sizeof(float));
    else
        pool->classes = fm_malloc((size_t)n, sizeof *pool->classes);
    pool->scores = fm_malloc((size_t)n, (size_t)width * sizeof(float));
    return (pool->targets || pool->classes) && pool->scores ? 0 : fm_fail_memory(err);
}

static int read_scores(struct fm_journal *journal, int64_t trial, const struct fm_fold *fold,
                       struct pool *pool, struct fm_error *err)
{
    sqlite3_stmt *row = NULL;
    int64_t seen = 0;
    int rc = fm_sql_query(
        &journal->sql, &row,
        "SELECT first, n, blob FROM score WHERE trial = ? AND repeat = ? AND fold = ? ORDER BY chunk", err,
        "iii", trial, fold->repeat, fold->fold);
    while (!rc && (rc = fm_sql_step(&journal->sql, row, err)) > 0) {
        rc = 0;
        int64_t n = sqlite3_column_int64(row, 1), bytes = sqlite3_column_bytes(row, 2);
        if (sqlite3_column_int64(row, 0) != seen || n > fold->val.count - seen ||
            bytes != n * pool->width * (int64_t)sizeof(float)) {
            sqlite3_reset(row);
            return fm_fail(err, FM_EIO,
                           "%s: the scores of trial %lld do not fit its fold: start over with --fresh",
                           journal->path, (long long)trial);
        }
        memcpy(pool->scores + (pool->n + seen) * pool->width, sqlite3_column_blob(row, 2), (size_t)bytes);
        seen += n;
    }
    if (!rc && seen != fold->val.count) return 1;
    return rc;
}

static int add_fold(struct fm_journal *journal, int64_t trial, const struct fm_view *view,
                    const struct fm_fold *fold, struct pool *pool, struct fm_error *err)
{
    int rc = read_scores(journal, trial, fold, pool, err);
    if (rc) return rc;
    struct fm_cursor cursor = {0};
    int64_t example, at = pool->n;
    while (fm_indexset_next(&fold->val, &cursor, &example)) {
        if (pool->targets)
            memcpy(pool->targets + at * view->width, view->values + example * view->width,
                   (size_t)view->width * sizeof(float));
        else
            pool->classes[at] = fm_metrics_class(view, example);
        at++;
    }
    pool->n = at;
    return 0;
}

static int write_pooled(struct fm_journal *journal, const struct fm_prepared *p, int64_t trial,
                        const struct pool *pool, double loss, struct fm_error *err)
{
    int64_t classes = fm_metrics_classes(&p->data);
    int64_t *confusion = classes ? fm_calloc((size_t)classes * (size_t)classes, sizeof *confusion) : NULL;
    if (classes && !confusion) return fm_fail_memory(err);
    struct fm_measured pooled, none;
    for (int m = 0; m < FM_METRICS; m++) none.value[m] = NAN;
    int rc = fm_metrics_pooled(pool->classes, pool->targets, pool->scores, pool->n, classes, pool->width,
                               fm_metrics_fitting(classes), &pooled, confusion, err);
    char *text = !rc && confusion ? fm_confusion_text(confusion, classes) : NULL;
    if (!rc && confusion && !text) rc = fm_fail_memory(err);
    pooled.value[FM_METRIC_LOSS] = loss;
    if (!rc)
        rc = fm_sql_run(&journal->sql,
                        "UPDATE trial SET pooled_n = ?, confusion = ?, (" FM_METRIC_NAMES
                        ") = (" FM_METRIC_MARKS ") WHERE trial = ?",
                        err, "itmi", pool->n, text, &none, &pooled, trial);
    fm_free(text);
    fm_free(confusion);
    return rc;
}

/* The pooled loss is the mean over examples: the runs' losses weighted by their validation examples. */
static int pooled_loss(struct fm_journal *journal, int64_t trial, const struct fm_split *split, double *loss,
                       struct fm_error *err)
{
    double sum = 0, n = 0;
    int rc = 0;
    for (int64_t f = 0; !rc && f < split->repeats * split->folds; f++) {
        sqlite3_stmt *row = NULL;
        const struct fm_fold *fold = &split->fold[f];
        rc = fm_sql_query(&journal->sql, &row,
                          "SELECT val_loss FROM run WHERE trial = ? AND repeat = ? AND fold = ?", err, "iii",
                          trial, fold->repeat, fold->fold);
        if (!rc) rc = fm_sql_step(&journal->sql, row, err);
        if (rc < 0) return rc;
        sum += rc ? fm_sql_real(row, 0) * (double)fold->val.count : NAN;
        n += (double)fold->val.count;
        sqlite3_reset(row);
        rc = 0;
    }
    *loss = sum / n;
    return rc;
}

static int pool_trial(struct fm_journal *journal, const struct fm_prepared *p, const struct fm_planned *trial,
                      struct fm_error *err)
{
    const struct fm_split *split = &p->splits[trial->split];
    const struct fm_view *view = &p->views[trial->view];
    int64_t n = 0, folds = split->repeats * split->folds;
    for (int64_t f = 0; f < folds; f++) n += split->fold[f].val.count;
    struct pool pool;
    int rc = pool_init(&pool, view, n, p->networks[trial->network].program->score_width,
                       !fm_metrics_classes(&p->data), err);
    for (int64_t f = 0; !rc && f < folds; f++)
        rc = add_fold(journal, trial->number, view, &split->fold[f], &pool, err);
    double loss = NAN;
    if (!rc) rc = pooled_loss(journal, trial->number, split, &loss, err);
    if (!rc) rc = write_pooled(journal, p, trial->number, &pool, loss, err);
    pool_fini(&pool);
    /* Scores that are no longer there (dropped by an earlier, smaller `keep`) leave the pooled numbers as
     * they are. */
    return rc > 0 ? 0 : rc;
}

static int column_of(struct fm_monitor metric)
{
    return (metric.part == FM_PART_VAL ? FM_METRICS : 0) + (int)metric.metric;
}

struct score_row {
    int64_t trial;
    double sum;
    int64_t defined, runs, over;
    bool diverged; /* the loss of a run is not finite: such a trial has no mean (report/board.h) */
};

static bool better(const struct score_row *a, const struct score_row *b, bool maximize)
{
    bool first = a->defined && !a->diverged, second = b->defined && !b->diverged;
    if (!first || !second) return first && !second;
    double x = a->sum / (double)a->defined, y = b->sum / (double)b->defined;
    return maximize ? x > y : x < y;
}

/* Reads the trials that are kept so far and `trial`, with the sum of the metric over their runs. It happens
 * at the end of every trial, so it must not look at all others: CROSS JOIN and the index on `kept` see to
 * that. */
static int read_rows(struct fm_journal *journal, struct fm_monitor metric, int64_t trial,
                     struct score_row **rows, size_t *count, struct fm_error *err)
{
    sqlite3_stmt *row = NULL;
    size_t capacity = 0;
    int column = column_of(metric);
    int rc = fm_sql_query(&journal->sql, &row,
                          "SELECT r.trial, r.status, " FM_METRIC_NAMES
                          " FROM (SELECT trial AS number FROM trial WHERE kept AND listed AND valid "
                          "UNION SELECT trial FROM trial WHERE trial = ? AND listed AND valid) "
                          "CROSS JOIN run r ON r.trial = number ORDER BY r.trial, r.repeat, r.fold",
                          err, "i", trial);
    while (!rc && (rc = fm_sql_step(&journal->sql, row, err)) > 0) {
        rc = 0;
        int64_t number = sqlite3_column_int64(row, 0);
        if (!*count || (*rows)[*count - 1].trial != number) {
            if (fm_grow(rows, &capacity, *count + 1, sizeof **rows)) {
                sqlite3_reset(row);
                return fm_fail_memory(err);
            }
            (*rows)[(*count)++] = (struct score_row){.trial = number};
        }
        struct score_row *r = &(*rows)[*count - 1];
        double value = fm_sql_real(row, 2 + column);
        r->runs++;
        bool completed = !strcmp((const char *)sqlite3_column_text(row, 1), "completed");
        r->over += completed;
        r->diverged |= completed && !isfinite(fm_sql_real(row, 2 + FM_METRICS + FM_METRIC_LOSS));
        if (isfinite(value)) {
            r->sum += value;
            r->defined++;
        }
    }
    return rc;
}

static int drop(struct fm_journal *journal, int64_t trial, bool scores, bool weights, struct fm_error *err)
{
    int rc = 0;
    if (scores) rc = fm_sql_run(&journal->sql, "DELETE FROM score WHERE trial = ?", err, "i", trial);
    if (!rc && weights)
        rc = fm_sql_run(&journal->sql, "DELETE FROM artifact WHERE trial = ?", err, "i", trial);
    return rc;
}

/* Keeps the best trials' scores and weights: `trial` (0 = none) is compared with those kept so far. A trial
 * that is not among the best now never will be, because later ones only push it down. */
static int keep_best(struct fm_journal *journal, const struct fm_prepared *p, int64_t trial,
                     struct fm_error *err)
{
    struct score_row *rows = NULL;
    size_t count = 0;
    const struct fm_sweep *sweep = p->sweep;
    int rc = read_rows(journal, sweep->metric, trial, &rows, &count, err);
    for (size_t i = 0; !rc && i < count; i++) {
        if (rows[i].over < rows[i].runs) continue;
        int64_t ahead = 0;
        for (size_t k = 0; k < count; k++) {
            if (k == i || rows[k].over < rows[k].runs) continue;
            bool first = better(&rows[k], &rows[i], sweep->maximize) ||
                         (!better(&rows[i], &rows[k], sweep->maximize) && rows[k].trial < rows[i].trial);
            ahead += first;
        }
        bool kept = ahead < sweep->keep.trials;
        rc = fm_sql_run(&journal->sql, "UPDATE trial SET kept = ? WHERE trial = ? AND kept <> ?", err, "iii",
                        (int64_t)kept, rows[i].trial, (int64_t)kept);
        if (!rc)
            rc = drop(journal, rows[i].trial, !kept || !sweep->keep.predictions,
                      !kept || !sweep->keep.weights, err);
    }
    fm_free(rows);
    return rc;
}

int fm_journal_trial_end(struct fm_journal *journal, const struct fm_prepared *p,
                         const struct fm_planned *trial, struct fm_error *err)
{
    int rc = fm_journal_group(journal, err);
    int64_t runs = 0, completed = 0;
    if (!rc)
        rc = fm_sql_integer(&journal->sql, "SELECT count(*) FROM run WHERE trial = ?", 0, &runs, err, "i",
                            trial->number);
    if (!rc)
        rc =
            fm_sql_integer(&journal->sql, "SELECT count(*) FROM run WHERE trial = ? AND status = 'completed'",
                           0, &completed, err, "i", trial->number);
    if (rc) return rc;
    if (completed < runs) return drop(journal, trial->number, true, true, err);
    rc = pool_trial(journal, p, trial, err);
    return rc ? rc : keep_best(journal, p, trial->number, err);
}

int fm_journal_keep(struct fm_journal *journal, struct fm_prepared *p, struct fm_error *err)
{
    int64_t kept = 0, completed = 0, wanted = p->sweep->keep.trials;
    int rc = fm_journal_group(journal, err);
    if (!rc) rc = keep_best(journal, p, 0, err);
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

int fm_journal_unpooled(struct fm_journal *journal, int64_t after, int64_t *trial, struct fm_error *err)
{
    return fm_sql_integer(
        &journal->sql,
        "SELECT min(trial) FROM trial t WHERE trial > ? AND listed AND valid AND pooled_n IS NULL AND NOT "
        "EXISTS(SELECT 1 FROM run r WHERE r.trial = t.trial AND r.status <> 'completed')",
        0, trial, err, "i", after);
}

int fm_journal_trial_over(struct fm_journal *journal, int64_t trial, bool *over, struct fm_error *err)
{
    int64_t left = 0;
    int rc = fm_sql_integer(
        &journal->sql, "SELECT count(*) FROM run WHERE trial = ? AND status NOT IN ('completed', 'failed')",
        0, &left, err, "i", trial);
    *over = left == 0;
    return rc;
}
