/* Folds: which examples train, which are watched, which validate; and how honest that is.
 *
 * Every splitter is scikit-learn 1.9.1's, index for index, where it has the same one (semantics.md 7), drawn
 * from MT19937(cv.seed); repeats go on in the same stream. Splitting, purging and counting use the longest
 * view's windows and targets. Sets hold example numbers in increasing order; the parts of one fold are
 * disjoint. Every example is in at most one `val` per repeat. An empty train, inner or val part is an error.
 */
#ifndef FM_DATA_SPLIT_H
#define FM_DATA_SPLIT_H

#include "data/view.h"

struct fm_fold {
    int64_t repeat, fold;                 /* from 0 */
    struct fm_indexset train, inner, val; /* over examples; inner.count == 0 without `inner` */
    int64_t purged;    /* left out of train because they share positions with val (or inner) */
    int64_t embargoed; /* left out because of the embargo alone */
    int64_t shared;    /* still in train although they share positions with val */
    int64_t identical; /* records with val examples whose input equals a record's with train examples */
    int64_t *train_classes, *val_classes, *inner_classes; /* [nclasses]; NULL without classes */
    float *shift, *factor;                /* [C]: the network sees (stored - shift) * factor */
    double *scale_center, *scale_divisor; /* [C], in the user's units, for reports */
    const char *name; /* predefined and leave_one_group_out: the fold's own name; else NULL */
};

struct fm_split {
    uint32_t seed;
    int64_t repeats, folds; /* of one repeat */
    struct fm_fold *fold;   /* [repeats * folds], repeat-major */
    char **names;           /* [folds], owned; NULL where folds have only numbers */
};

int fm_split_init(struct fm_split *split, const struct fm_cv_config *cv, const struct fm_data_config *config,
                  const struct fm_view *longest, int64_t seed, struct fm_notes *notes, struct fm_error *err);
void fm_split_fini(struct fm_split *split);
int64_t fm_split_bytes(const struct fm_split *split); /* of its sets and counts */

/* Fits the scale of one fold on the positions that lie in at least one of its training windows, each counted
 * once, in double, two passes (data/scale.c); fills shift, factor, scale_center, scale_divisor. `fit_all`: on
 * all positions of all records. */
int fm_fold_fit_scale(struct fm_fold *fold, const struct fm_view *longest,
                      const struct fm_data_config *config, struct fm_notes *notes, struct fm_error *err);

/* Marks in `hit` (bit per example) the members of `candidates` whose span meets the span of a member of
 * `against`, widened after its end by `after` positions (embargo). Linear in both. */
int fm_mark_sharing(const struct fm_view *longest, const struct fm_data_config *config,
                    const struct fm_indexset *candidates, const struct fm_indexset *against, int64_t after,
                    uint64_t *hit, struct fm_error *err);

#endif
