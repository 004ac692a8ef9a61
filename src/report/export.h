/* Exports: the leaderboard, the runs and the epochs as CSV, predictions with the data beside them, weights as
 * .npz, and the validation examples of a plan. Formats are documented in foldmill.h. */
#ifndef FM_REPORT_EXPORT_H
#define FM_REPORT_EXPORT_H

#include "report/board.h"
#include "report/csv.h"
#include "sweep/prepare.h"

int fm_export_trials(const struct fm_board *board, const struct fm_writer *out, struct fm_error *err);
int fm_export_runs(const struct fm_board *board, const struct fm_writer *out, struct fm_error *err);
int fm_export_history(const struct fm_board *board, const struct fm_writer *out, struct fm_error *err);

/* `p` must be prepared from the same data (checked against the journal at `path`). */
int fm_export_predictions(const char *path, const struct fm_prepared *p, const struct fm_writer *out,
                          struct fm_error *err);

int fm_export_weights_to(const char *path, const char *folder, int64_t *count, struct fm_error *err);

int fm_export_split(const struct fm_prepared *p, const struct fm_writer *out, struct fm_error *err);

#endif
