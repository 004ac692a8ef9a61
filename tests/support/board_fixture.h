/* A journal made by hand, row by row, so that reports are tested without anything that trains. */
#ifndef FM_TESTS_BOARD_FIXTURE_H
#define FM_TESTS_BOARD_FIXTURE_H

#include <stdbool.h>

/* Two classes "calm" and "storm, late", three folds, val_auc, maximize. Trials:
 *   1 completed, val_auc 0.9 0.8 0.7       2 completed, the same mean with other params
 *   3 completed, defined on two of three folds (0.95, 0.75)
 *   4 failed on fold 1 by nan              5 invalid by shape
 *   6 pending, fold 0 completed            7 not listed any more
 *   8 completed, defined on no fold        9 completed, mean 0.9
 * Trial 9 has kept weights and predictions of 2 examples a fold. False if SQLite refuses. */
bool ts_board_fixture(const char *path);

/* Runs SQL on the file; false if SQLite refuses. */
bool ts_sql(const char *path, const char *sql);

#endif
