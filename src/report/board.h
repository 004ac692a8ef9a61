/* The leaderboard: everything that is reported about a sweep, read from its journal alone.
 *
 * fm_board_collect reads, fm_board_rank (called by it) computes what is not on record: the state of a trial,
 * mean and population deviation of the metric over the runs that define it, ranks. Nothing here depends on
 * the order in which runs ended. A completed run whose loss is not finite has diverged: its trial has no
 * mean, so that leaving the run out can never make the trial look better than it is.
 */
#ifndef FM_REPORT_BOARD_H
#define FM_REPORT_BOARD_H

#include "base/text.h"
#include "report/pool.h"
#include "report/reader.h"

/* What the public board's `owner` points to. The arrays of the board, writable. */
struct fm_board_store {
    struct fm_board board;
    struct fm_pool pool;
    struct fm_board_trial *trials;
    struct fm_board_run *runs;
    struct fm_board_epoch *epochs;
};

/* The caller frees with fm_board_free. `path` is the journal's. */
int fm_board_collect(struct fm_board **board, const char *path, struct fm_error *err);

/* Fills state, reasons, mean, std, defined and rank of all trials and sorts them. */
void fm_board_rank(struct fm_board_store *store);

/* The columns of all measures as SQL: "loss, inner_loss, ...", or those of a trial, which has no loss. */
void fm_board_columns(struct fm_text *sql, const char *table, bool with_loss);

/* A JSON list of `n` rows of `n` counts, or one list of n * n; NULL when it is something else or memory is
 * out. */
int64_t *fm_board_matrix(struct fm_pool *pool, const char *json, int64_t n);

/* The trial of that number, or NULL. */
const struct fm_board_trial *fm_board_find(const struct fm_board *board, int64_t trial);

/* Whether a measure fits the sweep's target at all (auc of classes, r2 of numbers) and its part is measured.
 */
bool fm_board_fits(const struct fm_board *board, int measure);

/* Whether a completed trial has a run whose loss is not finite. */
bool fm_board_diverged(const struct fm_board_trial *trial);

/* Whether larger is better for a measure. */
bool fm_measure_maximize(int measure);

#endif
