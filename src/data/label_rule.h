/* Label rules: where an example's target is read, and what it is.
 *
 * A rule belongs to one window length. Positions are local to the record and unbounded with `wrap` (position
 * -1 is the last one). The label's positions are anchor, first, center, last   that position of the window +
 * horizon; it must lie in the record any, all, majority, mean, max the window's real positions + horizon, all
 * of which must lie in the record horizon [a, b]                the window's last position + a .. + b, all of
 * which must lie in the record with `wrap` they go round the end and are counted as often as they are met.
 * Positions without a class or number (`other: skip`) are not counted; an example has no label when none of
 * its label's positions has one, or when its anchor is one of them and has none.
 */
#ifndef FM_DATA_LABEL_RULE_H
#define FM_DATA_LABEL_RULE_H

#include "data/view.h"

struct fm_label_rule {
    enum fm_label label;
    enum fm_edge edge;
    int64_t length, lead;
    bool window; /* the label's positions are the window's real ones, moved by `shift` */
    int64_t shift;
    int64_t lo, hi;        /* unclipped, relative to the anchor */
    int64_t before, after; /* span: anchor - before .. anchor + after, label included, unclipped */
};

/* What `window` means for this data; pre-cut examples are records of one window. */
struct fm_window_config fm_window_effective(const struct fm_data_config *config);
/* Distance of the anchor from the window's start. */
int64_t fm_window_lead(enum fm_align align, int64_t length);

/* Checks the label against the targets: any and all want two classes, majority classes, mean and max numbers.
 */
int fm_label_rule_init(struct fm_label_rule *rule, const struct fm_dataset *data,
                       const struct fm_data_config *config, int64_t length, struct fm_error *err);
/* The same without the checks, for rules that were checked before. */
void fm_label_rule_fill(struct fm_label_rule *rule, const struct fm_data_config *config, int64_t length);

/* Narrows [*from, *to], anchors of a record of `length` positions, to those whose label lies in the record.
 */
void fm_label_valid_anchors(const struct fm_label_rule *rule, int64_t length, int64_t *from, int64_t *to);

/* Reads labels of increasing anchors in one pass, whatever the window's length: counts slide; sums and maxima
 * are kept as two stacks, so that nothing is ever subtracted. */
struct fm_label_walk {
    const struct fm_dataset *data;
    struct fm_label_rule rule;
    int64_t record, record_length, base; /* base: first stored position */
    int64_t start, end;                  /* counted positions [start, end), unbounded */
    int64_t start_at, end_at;            /* the same inside the record */
    int64_t laps;                        /* whole rounds of a wrapped record, counted beforehand */
    int64_t *counts, counted;            /* per class; positions with a target in all */
    int64_t *tree, leaves;               /* majority: best class of each subtree, ties to the lower */
    double *front, back, lap_value;      /* front[k] = value of the k + 1 positions before `middle` */
    int64_t middle, front_capacity;
};

int fm_label_walk_init(struct fm_label_walk *walk, const struct fm_dataset *data,
                       const struct fm_label_rule *rule, struct fm_error *err);
void fm_label_walk_fini(struct fm_label_walk *walk);
/* The label of an anchor for which fm_label_valid_anchors holds; anchors come in increasing order. False if
 * there is none. `class` is set for classes, `value` for numbers of width 1. */
bool fm_label_walk_at(struct fm_label_walk *walk, int64_t record, int64_t anchor, uint32_t *class,
                      float *value);

/* Whether any target is missing: "no class here", or not a number. */
bool fm_dataset_lacks_targets(const struct fm_dataset *data);

#endif
