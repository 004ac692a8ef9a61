/* From the runs of a trial to its place on the leaderboard. */
#include "report/board.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/metrics.h"

bool fm_measure_maximize(int measure)
{
    static const bool larger[FM_METRICS] = {
        [FM_METRIC_ACCURACY] = true, [FM_METRIC_BALANCED_ACCURACY] = true, [FM_METRIC_AUC] = true,
        [FM_METRIC_PR_AUC] = true,   [FM_METRIC_PRECISION] = true,         [FM_METRIC_RECALL] = true,
        [FM_METRIC_F1] = true,       [FM_METRIC_MACRO_F1] = true,          [FM_METRIC_MCC] = true,
        [FM_METRIC_R2] = true,
    };
    return measure > 0 && larger[(measure - 1) % FM_METRICS];
}

bool fm_board_fits(const struct fm_board *board, int measure)
{
    if (measure == 0) return true;
    bool inner = measure <= FM_METRICS;
    if (inner && strcmp(board->watched, "inner") != 0) return false;
    switch ((measure - 1) % FM_METRICS) {
    case FM_METRIC_LOSS: return true;
    case FM_METRIC_MSE:
    case FM_METRIC_MAE:
    case FM_METRIC_R2: return board->nclasses == 0;
    case FM_METRIC_PRECISION:
    case FM_METRIC_RECALL:
    case FM_METRIC_F1: return board->nclasses == 2;
    default: return board->nclasses > 0;
    }
}

static enum fm_state state_of(const struct fm_board_trial *t)
{
    if (t->state == FM_STATE_INVALID || t->state == FM_STATE_PRUNED) return t->state;
    int64_t completed = 0;
    for (int64_t i = 0; i < t->nruns; i++) {
        if (t->runs[i].state == FM_STATE_FAILED) return FM_STATE_FAILED;
        completed += t->runs[i].state == FM_STATE_COMPLETED;
    }
    return t->nruns > 0 && completed == t->nruns ? FM_STATE_COMPLETED : FM_STATE_PENDING;
}

/* The first failed run speaks for the trial. */
static void explain(struct fm_board_store *store, struct fm_board_trial *t)
{
    if (t->state == FM_STATE_PENDING) {
        t->reason_code = "pending";
        t->reason = "not all of its runs are over";
        return;
    }
    const struct fm_board_run *first = NULL;
    int64_t failed = 0;
    for (int64_t i = 0; i < t->nruns; i++) {
        if (t->runs[i].state != FM_STATE_FAILED) continue;
        if (!first) first = &t->runs[i];
        failed++;
    }
    if (t->state != FM_STATE_FAILED || !first) return;
    struct fm_text text = {0};
    if (t->runs[t->nruns - 1].repeat > 0) fm_text_add(&text, "repeat %lld, ", (long long)first->repeat);
    fm_text_add(&text, "fold %lld: %s", (long long)first->fold, first->reason);
    if (failed > 1) fm_text_add(&text, " (%lld of %lld runs failed)", (long long)failed, (long long)t->nruns);
    t->reason_code = first->reason_code;
    t->reason = text.failed ? first->reason : fm_pool_text(&store->pool, text.data);
    fm_text_fini(&text);
}

bool fm_board_diverged(const struct fm_board_trial *t)
{
    static const int val_loss = 1 + FM_METRICS;
    if (t->state != FM_STATE_COMPLETED) return false;
    for (int64_t i = 0; i < t->nruns; i++)
        if (!isfinite(t->runs[i].measures[val_loss])) return true;
    return false;
}

/* The plain mean and the population deviation, in the order of repeats and folds. */
static void average(struct fm_board_trial *t, int measure)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < t->nruns; i++) {
        double value = t->runs[i].measures[measure];
        if (t->runs[i].state != FM_STATE_COMPLETED) continue;
        if (isnan(value)) continue;
        sum += value;
        t->defined++;
    }
    if (t->state != FM_STATE_COMPLETED || t->defined == 0 || fm_board_diverged(t)) return;
    double mean = sum / (double)t->defined;
    for (int64_t i = 0; i < t->nruns; i++) {
        double d = t->runs[i].measures[measure] - mean;
        if (!isnan(d)) squares += d * d;
    }
    t->mean = mean;
    t->std = sqrt(squares / (double)t->defined);
}

/* Confusion counts of all runs together, where the journal pooled none. */
static void pool_confusion(struct fm_board_store *store, struct fm_board_trial *t)
{
    int64_t cells = store->board.nclasses * store->board.nclasses;
    if (t->confusion || t->state != FM_STATE_COMPLETED || cells == 0) return;
    for (int64_t i = 0; i < t->nruns; i++)
        if (!t->runs[i].confusion) return;
    int64_t *sum = fm_pool_alloc(&store->pool, (size_t)cells, sizeof *sum);
    if (!sum) return;
    for (int64_t i = 0; i < t->nruns; i++)
        for (int64_t c = 0; c < cells; c++) sum[c] += t->runs[i].confusion[c];
    t->confusion = sum;
}

/* `sign` is 1 when smaller is better. */
static int compare(const struct fm_board_trial *a, const struct fm_board_trial *b, double sign)
{
    if (a->state != b->state) return a->state < b->state ? -1 : 1;
    if (isnan(a->mean) != isnan(b->mean)) return isnan(a->mean) ? 1 : -1;
    double x = sign * a->mean, y = sign * b->mean;
    if (x < y) return -1;
    if (x > y) return 1;
    return a->trial < b->trial ? -1 : a->trial > b->trial;
}

static int compare_down(const void *a, const void *b)
{
    return compare(a, b, -1);
}

static int compare_up(const void *a, const void *b)
{
    return compare(a, b, 1);
}

void fm_board_rank(struct fm_board_store *store)
{
    struct fm_board *board = &store->board;
    bool all_over = true;
    for (int64_t i = 0; i < board->ntrials; i++) {
        struct fm_board_trial *t = &store->trials[i];
        t->mean = t->std = NAN;
        t->state = state_of(t);
        explain(store, t);
        average(t, board->measure);
        pool_confusion(store, t);
        if (t->state == FM_STATE_PENDING) all_over = false;
        for (int64_t r = 0; t->state == FM_STATE_FAILED && r < t->nruns; r++)
            if (t->runs[r].state == FM_STATE_PENDING || t->runs[r].state == FM_STATE_RUNNING)
                all_over = false;
    }
    board->finished = board->finished && all_over;
    if (board->ntrials)
        qsort(store->trials, (size_t)board->ntrials, sizeof *store->trials,
              board->maximize ? compare_down : compare_up);
    for (int64_t i = 0; i < board->ntrials; i++) {
        struct fm_board_trial *t = &store->trials[i];
        if (t->state != FM_STATE_COMPLETED) continue;
        const struct fm_board_trial *before = i ? t - 1 : NULL;
        bool equal = before && (before->mean == t->mean || (isnan(before->mean) && isnan(t->mean)));
        t->rank = equal ? before->rank : i + 1;
    }
}
