/* A trial whose runs are all over: its pooled out-of-fold measures. What is kept of it, journal_keep.c
 * decides.
 */
#include <math.h>
#include <string.h>

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
    const struct fm_blobs *held = fm_blobs_find(journal, trial, fold->repeat, fold->fold);
    if (held && held->scores) {
        if (held->nscores != fold->val.count || held->width != pool->width) return 1;
        memcpy(pool->scores + pool->n * pool->width, held->scores,
               (size_t)(held->nscores * held->width) * sizeof(float));
        return 0;
    }
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

/* What the rows of a trial's runs say. */
struct ended {
    struct fm_standing standing;
    double loss;            /* over all examples: the runs' losses weighted by their validation examples */
    struct fm_measured val; /* of the last run, and its counts */
    char *confusion;
};

static int read_ended(struct fm_journal *journal, const struct fm_sweep *sweep, int64_t trial,
                      const struct fm_split *split, struct ended *ended, struct fm_error *err)
{
    sqlite3_stmt *row = NULL;
    double sum = 0, n = 0;
    int64_t f = 0, folds = split->repeats * split->folds;
    *ended = (struct ended){.standing = {.trial = trial}, .loss = NAN};
    int rc = fm_sql_query(&journal->sql, &row,
                          "SELECT status, repeat, fold, confusion, " FM_METRIC_NAMES
                          " FROM run WHERE trial = ? ORDER BY repeat, fold",
                          err, "i", trial);
    const int metric = 4 + fm_metric_column(sweep->metric), val = 4 + FM_METRICS;
    while (!rc && (rc = fm_sql_step(&journal->sql, row, err)) > 0) {
        rc = 0;
        for (int m = 0; m < FM_METRICS; m++) ended->val.value[m] = fm_sql_real(row, val + m);
        fm_standing_add(&ended->standing, (const char *)sqlite3_column_text(row, 0), fm_sql_real(row, metric),
                        ended->val.value[FM_METRIC_LOSS]);
        const char *text = folds == 1 ? (const char *)sqlite3_column_text(row, 3) : NULL;
        if (text) {
            fm_free(ended->confusion);
            ended->confusion = fm_strdup(text);
        }
        if (f == folds || split->fold[f].repeat != sqlite3_column_int64(row, 1) ||
            split->fold[f].fold != sqlite3_column_int64(row, 2))
            continue;
        sum += ended->val.value[FM_METRIC_LOSS] * (double)split->fold[f].val.count;
        n += (double)split->fold[f++].val.count;
    }
    if (!rc && f == folds) ended->loss = sum / n;
    return rc;
}

static int write_pooled(struct fm_journal *journal, int64_t trial, int64_t n, const char *confusion,
                        bool kept, double loss, const struct fm_measured *measured, struct fm_error *err)
{
    struct fm_measured pooled = *measured, none;
    for (int m = 0; m < FM_METRICS; m++) none.value[m] = NAN;
    pooled.value[FM_METRIC_LOSS] = loss;
    return fm_sql_run(&journal->sql,
                      "UPDATE trial SET kept = ?, pooled_n = ?, confusion = ?, (" FM_METRIC_NAMES
                      ") = (" FM_METRIC_MARKS ") WHERE trial = ?",
                      err, "iitmi", (int64_t)kept, n, confusion, &none, &pooled, trial);
}

static int measure_pool(struct fm_journal *journal, const struct fm_prepared *p, const struct pool *pool,
                        const struct ended *ended, bool kept, struct fm_error *err)
{
    int64_t classes = fm_metrics_classes(&p->data);
    int64_t *confusion = classes ? fm_calloc((size_t)classes * (size_t)classes, sizeof *confusion) : NULL;
    if (classes && !confusion) return fm_fail_memory(err);
    struct fm_measured pooled;
    int rc = fm_metrics_pooled(pool->classes, pool->targets, pool->scores, pool->n, classes, pool->width,
                               fm_metrics_fitting(classes), &pooled, confusion, err);
    char *text = !rc && confusion ? fm_confusion_text(confusion, classes) : NULL;
    if (!rc && confusion && !text) rc = fm_fail_memory(err);
    if (!rc)
        rc = write_pooled(journal, ended->standing.trial, pool->n, text, kept, ended->loss, &pooled, err);
    fm_free(text);
    fm_free(confusion);
    return rc;
}

/* One run's measures of classes are the pooled ones: both come from the same scores. (Errors of numbers are
 * added up elsewhere in another order.) */
static bool is_own_pool(const struct fm_prepared *p, const struct ended *ended)
{
    return ended->standing.runs == 1 && ended->confusion && fm_metrics_classes(&p->data) &&
           isfinite(ended->val.value[FM_METRIC_LOSS]);
}

/* Fills the pool: 1 when scores are no longer there. */
static int pool_trial(struct fm_journal *journal, const struct fm_prepared *p, const struct fm_planned *trial,
                      struct pool *pool, struct fm_error *err)
{
    const struct fm_split *split = &p->splits[trial->split];
    const struct fm_view *view = &p->views[trial->view];
    int64_t n = 0, folds = split->repeats * split->folds;
    for (int64_t f = 0; f < folds; f++) n += split->fold[f].val.count;
    int rc = pool_init(pool, view, n, p->networks[trial->network].program->score_width,
                       !fm_metrics_classes(&p->data), err);
    for (int64_t f = 0; !rc && f < folds; f++)
        rc = add_fold(journal, trial->number, view, &split->fold[f], pool, err);
    return rc;
}

static int end_completed(struct fm_journal *journal, const struct fm_prepared *p,
                         const struct fm_planned *trial, const struct ended *ended, struct fm_error *err)
{
    struct pool pool = {0};
    bool own = is_own_pool(p, ended), kept = false;
    int rc = own ? 0 : pool_trial(journal, p, trial, &pool, err), gone = rc > 0;
    if (rc >= 0) rc = fm_keep_trial(journal, p->sweep, &ended->standing, &kept, err);
    if (rc) {
        pool_fini(&pool);
        return rc;
    }
    if (own)
        rc = write_pooled(journal, trial->number, p->splits[trial->split].fold[0].val.count, ended->confusion,
                          kept, ended->loss, &ended->val, err);
    else if (!gone)
        rc = measure_pool(journal, p, &pool, ended, kept, err);
    else /* Scores that an earlier, smaller `keep` dropped leave the pooled numbers as they are. */
        rc = fm_sql_run(&journal->sql, "UPDATE trial SET kept = ? WHERE trial = ?", err, "ii", (int64_t)kept,
                        trial->number);
    pool_fini(&pool);
    return rc;
}

int fm_journal_trial_end(struct fm_journal *journal, const struct fm_prepared *p,
                         const struct fm_planned *trial, struct fm_error *err)
{
    struct ended ended = {0};
    int rc = fm_journal_group(journal, err);
    if (!rc) rc = read_ended(journal, p->sweep, trial->number, &p->splits[trial->split], &ended, err);
    const struct fm_standing *standing = &ended.standing;
    if (!rc && standing->over < standing->runs)
        rc = fm_blobs_drop(journal, trial->number, standing->runs, true, true, err);
    else if (!rc)
        rc = end_completed(journal, p, trial, &ended, err);
    fm_free(ended.confusion);
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
