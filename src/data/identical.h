/* Records whose input is the same, byte for byte, ids, masks and targets aside. */
#ifndef FM_DATA_IDENTICAL_H
#define FM_DATA_IDENTICAL_H

#include "data/split.h"

/* Sets of two and more equal records: set s is records[ends[s-1]] .. records[ends[s] - 1]. */
struct fm_identical {
    int64_t *records, count;
    int64_t *ends, sets;
    size_t capacity, end_capacity;
};

/* Hashes every record once and compares those with equal hashes. */
int fm_identical_init(struct fm_identical *same, const struct fm_dataset *data, struct fm_error *err);
void fm_identical_fini(struct fm_identical *same);

/* Records with members in `val` for which another, equal record has members in `train`. */
int64_t fm_identical_count(const struct fm_identical *same, const struct fm_view *view,
                           const struct fm_indexset *train, const struct fm_indexset *val);

#endif
