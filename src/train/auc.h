/* Ranking one class's scores against the rest: add every example once, then ask. ROC AUC and average
 * precision are scikit-learn's (roc_auc_score, average_precision_score), ties share; NaN when a side is empty
 * or a score is not finite. Sorting happens once, in the caller's scratch memory of n floats; O(n). Never
 * fails, never allocates. */
#ifndef FM_TRAIN_AUC_H
#define FM_TRAIN_AUC_H

#include "train/metrics.h"

struct fm_ranking {
    float *scratch; /* [n]: keys of positives from the front, of negatives from the end */
    int64_t n, positives, negatives;
    bool finite, sorted;
};

void fm_ranking_init(struct fm_ranking *ranking, float *scratch, int64_t n);
/* At most n times, before asking. */
void fm_ranking_add(struct fm_ranking *ranking, float score, bool positive);
double fm_ranking_auc(struct fm_ranking *ranking);
double fm_ranking_average_precision(struct fm_ranking *ranking);

#endif
