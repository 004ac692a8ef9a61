/* Small data sets built by hand or at random, for tests of windows and folds. */
#ifndef FM_TESTS_SERIES_H
#define FM_TESTS_SERIES_H

#include "data/dataset.h"

/* xorshift64*: the same on every machine. */
struct ts_random {
    uint64_t state;
};
uint32_t ts_random_below(struct ts_random *r, uint32_t limit); /* 0..limit-1 */
double ts_random_unit(struct ts_random *r);                    /* [0, 1) */

/* Records of the given lengths, end to end; `head` more positions after each. Nothing else is filled. */
void ts_series_init(struct fm_dataset *data, const int64_t *lengths, int64_t nrecords, int64_t head);
/* Room for `channels` numbers a position, all 0, and offsets 0. */
void ts_series_numbers(struct fm_dataset *data, int64_t channels);
/* Classes per position (or per record), all 0; codes up to `nclasses` included. */
void ts_series_classes(struct fm_dataset *data, int64_t nclasses, bool per_record);
/* Copies heads: everything that is filled per position. */
void ts_series_wrap(struct fm_dataset *data);
/* Groups of records from small numbers; names "g<number>". */
void ts_series_groups(struct fm_dataset *data, const int64_t *groups, int64_t ngroups);
/* Frees what these functions made; a test that adds more arrays makes them with fm_malloc. */
void ts_series_fini(struct fm_dataset *data);

/* A config with windows of the rules given; the label counts as written. */
struct fm_data_config ts_series_config(int64_t stride, enum fm_align align, enum fm_edge edge,
                                       enum fm_label label);

#endif
