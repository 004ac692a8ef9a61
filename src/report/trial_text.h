/* One trial for people: folds, measures, curves, confusion matrix, classes, events. */
#ifndef FM_REPORT_TRIAL_TEXT_H
#define FM_REPORT_TRIAL_TEXT_H

#include "base/text.h"
#include "foldmill.h"

void fm_trial_text(struct fm_text *text, const struct fm_board *board, const struct fm_board_trial *trial,
                   const struct fm_look *look);

/* Confusion matrix (rows true, columns predicted) with precision and recall of each class; in class_text.c.
 */
void fm_class_text(struct fm_text *text, const struct fm_board *board, const int64_t *confusion,
                   const struct fm_look *look);

/* A curve of at most `width` characters; values that are not finite show as '?'; in curve.c. */
void fm_curve_text(struct fm_text *text, const double *values, int64_t n, int width,
                   const struct fm_look *look);

#endif
