/* Walks examples, in order, in pieces whose anchors lie evenly spaced in one record, so that what is done for
 * examples (spans, coverage, targets, counts) can be done for whole pieces by arithmetic: a blocked split of
 * 50 million examples is a handful of pieces, a shuffled one is many small ones. No memory, no failure. */
#ifndef FM_DATA_PIECES_H
#define FM_DATA_PIECES_H

#include "data/view.h"

struct fm_piece {
    int64_t record;
    int64_t anchor, step; /* local position of the first anchor; distance of the next */
    int64_t example, example_step;
    int64_t count;
};

struct fm_piece_walk {
    const struct fm_dataset *data;
    const struct fm_indexset *anchors, *set;
    int64_t place;                       /* next run, or next bit, of the set */
    int64_t example, example_step, left; /* what is left of the current stretch of examples */
    int64_t record;
    int64_t run;     /* run of `anchors` in use, or the bit of the anchor reached */
    int64_t reached; /* bitmap: the example whose bit `run` is; -1 before the first */
};

/* `set` NULL: all examples. The walk refers to both while it lasts. */
void fm_piece_walk_init(struct fm_piece_walk *w, const struct fm_dataset *data,
                        const struct fm_examples *examples, const struct fm_indexset *set);
bool fm_piece_walk_next(struct fm_piece_walk *w, struct fm_piece *piece);

/* Walks the members of any set as stretches first, first + step, ... (count of them); cursor starts at 0. */
bool fm_stretch_next(const struct fm_indexset *set, int64_t *cursor, int64_t *first, int64_t *step,
                     int64_t *count);

#endif
