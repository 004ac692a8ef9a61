/* Examples and views: which windows there are, and what each one's target is.
 *
 * An example is one anchor position; all views (window lengths) of a sweep share the examples, those that are
 * valid for the longest length. A view adds the place of its window relative to the anchor and the targets
 * for its length. No window is ever copied: fm_view_slab says where it lies in the series.
 *
 * Anchors are stored positions (dataset.h) in increasing order; example i is the i-th anchor.
 * With `drop`, window starts are 0, stride, 2*stride... of each record and the window lies inside the record;
 * with `zero` and `wrap` the anchors stand there. A window of length L starts at anchor - lead, lead = 0
 * (start), floor(L/2) (center), L-1 (end). Then `mask` filters anchors, and windows whose label lies past the
 * record, or on a position without a class, are dropped ('wrap': labels go round the end too;
 * data/label_rule.h has the details). With several lengths an example must have a label for each of them.
 * Examples cut beforehand (no `window`) are records of one window; the length may then be given as 0.
 */
#ifndef FM_DATA_VIEW_H
#define FM_DATA_VIEW_H

#include "base/indexset.h"
#include "data/dataset.h"

struct fm_examples {
    struct fm_indexset anchors; /* over stored positions */
    int64_t count;
    enum fm_edge edge;
    enum fm_align align;
    int64_t longest;        /* the longest window of the sweep */
    int64_t short_records;  /* records with no window of the longest length (drop) */
    int64_t lost;           /* examples the shortest length would have had in addition */
    int64_t dropped_labels; /* windows without a label: past the end, or no class there */
};

struct fm_view {
    const struct fm_dataset *data;
    const struct fm_examples *examples;
    int64_t length, lead;
    struct fm_packed classes; /* [examples], codes 0..nclasses-1, when the target is a class */
    float *values;            /* [examples][width], when it is a number or a distribution */
    int64_t width;            /* 1, or K of a distribution */
    int64_t *class_counts;    /* [nclasses] */
    bool differs;             /* targets differ from the longest view's */
};

/* Where a window lies: rows [0, before) and [before + rows, before + rows + after) are zero, the others are
 * the stored positions first .. first + rows - 1. before + rows + after = length. */
struct fm_slab {
    int64_t first, rows, before, after;
};

/* Finds the examples for the given lengths (at least one; any order). No example at all is an error that says
 * why (all records too short, mask keeps nothing). */
int fm_examples_init(struct fm_examples *examples, const struct fm_dataset *data,
                     const struct fm_data_config *config, const int64_t *lengths, int64_t nlengths,
                     struct fm_notes *notes, struct fm_error *err);
void fm_examples_fini(struct fm_examples *examples);

/* Computes the targets of one length in one pass (sliding counts: O(positions), whatever the length). */
int fm_view_init(struct fm_view *view, const struct fm_dataset *data, const struct fm_examples *examples,
                 const struct fm_data_config *config, int64_t length, struct fm_notes *notes,
                 struct fm_error *err);
void fm_view_fini(struct fm_view *view);

/* Whether two views have the same targets. */
bool fm_view_same_targets(const struct fm_view *a, const struct fm_view *b);
/* Sets `differs`, and says in a note how many targets differ from the longest view's. */
void fm_view_compare(struct fm_view *view, const struct fm_view *longest, struct fm_notes *notes);

void fm_view_slab(const struct fm_view *view, int64_t example, struct fm_slab *slab);
/* The same for many examples, in less time; `in_order` when they increase, as in an evaluation (it changes
 * the time only). */
void fm_view_slabs(const struct fm_view *view, const int64_t *examples, int64_t count, bool in_order,
                   struct fm_slab *slabs);
static inline int64_t fm_example_anchor(const struct fm_examples *examples, int64_t example)
{
    return fm_indexset_at(&examples->anchors, example);
}
float fm_example_weight(const struct fm_dataset *data, int64_t anchor);

/* An example's span: its positions, label included, as local positions [first, last] of its record (`first`
 * may be negative and `last` beyond the end where windows are wrapped; clipped to the record where they are
 * padded). */
struct fm_span {
    int64_t record, first, last;
};
void fm_example_span(const struct fm_view *longest, const struct fm_data_config *config, int64_t example,
                     struct fm_span *span);

/* Writes one window as the network sees it, the obviously right way (tests and the reference backend use it):
 * out[length][C] floats, (stored - shift[ch]) * factor[ch], zeros outside; letters as one-hot rows of
 * `alphabet`. shift and factor may be NULL for letters. */
void fm_view_window(const struct fm_view *view, int64_t example, const float *shift, const float *factor,
                    float *out);

#endif
