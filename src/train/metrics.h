/* Metrics of one evaluated part, exactly as scikit-learn 1.9.1 defines them (zero_division = 0), from counts
 * and scores over the whole part, never averaged over batches. NaN = this part cannot define the metric: auc
 * and pr_auc with one class only (more classes: any class absent), r2 of fewer than two examples, anything
 * that a NaN score touches. (r2 of constant targets is 1 or 0, balanced_accuracy and macro_f1 leave out
 * classes that do not occur, as scikit-learn does.)
 *
 * Two classes: the second is positive. More: auc and pr_auc are one-vs-rest macro means; precision, recall
 * and f1 are not defined (macro_f1 is). Numbers: mse, mae, r2 as uniform means over outputs.
 */
#ifndef FM_TRAIN_METRICS_H
#define FM_TRAIN_METRICS_H

#include "data/view.h"

struct fm_measured {
    double value[FM_METRICS]; /* NaN where undefined or not asked for; the loss is always there */
};

/* How many classes metrics see: the target's, the outputs of a distribution (its argmax is the class), 0 =
 * numbers. */
int64_t fm_metrics_classes(const struct fm_dataset *data);
/* An example's class as metrics see it; the target is not numbers. */
uint32_t fm_metrics_class(const struct fm_view *view, int64_t example);
/* Bits (1 << enum fm_metric) that fit the target at all: nclasses as above. Loss always fits. */
uint32_t fm_metrics_fitting(int64_t nclasses);
/* Bits of those that need the scores: auc, pr_auc, r2. */
uint32_t fm_metrics_of_scores(void);

struct fm_metrics_input {
    const struct fm_view *view;
    const struct fm_indexset *part;
    double loss;
    const int64_t *confusion; /* [K][K] true x predicted, K = fm_metrics_classes; NULL for numbers */
    const float *scores;      /* [part->count][width]; needed for auc, pr_auc, r2; not changed */
    int64_t width; /* 1: second class's score (two classes), or a number; K otherwise (two logits rank
                      by their difference) */
    double square_sum, absolute_sum;
    uint32_t wanted;
};
int fm_metrics_measure(const struct fm_metrics_input *in, struct fm_measured *out, struct fm_error *err);

/* The same over pooled parts (several folds' scores end to end): labels (targets: [n][width]) and scores
 * given directly; the loss stays NaN. A two-class score above 0.5 is class 1, ties of more go to the lowest
 * class. */
int fm_metrics_pooled(const uint32_t *classes, const float *targets, const float *scores, int64_t n,
                      int64_t nclasses, int64_t width, uint32_t wanted, struct fm_measured *out,
                      int64_t *confusion /* [K][K] or NULL */, struct fm_error *err);

/* ROC AUC and average precision of one class against the rest; ties share. NaN when a side is empty or a
 * score is not finite. Sorts in the caller's scratch memory: n floats. */
double fm_metric_auc(const float *scores, const uint8_t *positive, int64_t n, float *scratch);
double fm_metric_average_precision(const float *scores, const uint8_t *positive, int64_t n, float *scratch);

#endif
