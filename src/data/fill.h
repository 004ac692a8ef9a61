/* Missing feature values: what `missing` says is done with them, row by row.
 *
 * interpolate is a straight line over positions between the values before and after, in double; ffill repeats
 * the value before. Neither looks beyond a record, so a hole at a record's start (or, for interpolate, at its
 * end) is an error, and so are more missing values in a row than the rule's limit allows. */
#ifndef FM_DATA_FILL_H
#define FM_DATA_FILL_H

#include "data/dataset.h"

struct fm_build;

struct fm_fill_channel {
    struct fm_missing_rule rule;
    bool has_last;
    double last;
    int64_t hole;       /* missing values in a row, this row included */
    int64_t hole_where; /* caller's number for the first of them */
};

struct fm_filler {
    int64_t channels;
    struct fm_fill_channel *channel;
    bool active; /* some rule is not `error` */
};

/* `names`: the channels, for the per-column rules; an exception that fits no channel is an error. NULL for
 * arrays, which can have no exceptions. */
int fm_filler_init(struct fm_filler *filler, const struct fm_data_config *config, int64_t channels,
                   char *const *names, struct fm_error *err);
void fm_filler_fini(struct fm_filler *filler);

enum fm_fill_result { FM_FILL_KEEP, FM_FILL_DROP, FM_FILL_REFUSED };
/* Looks at the row that will be stored at `position`; NaN = missing. Values are put into `row`, or left NaN
 * to be set in `build` later. DROP: the row is to be left out and the record cut. REFUSED: *channel is the
 * one, and *why the end of a sentence ("... is missing: ..."). `where` is remembered for fm_filler_end. */
enum fm_fill_result fm_filler_row(struct fm_filler *filler, struct fm_build *build, int64_t position,
                                  double *row, int64_t where, int64_t *channel, const char **why);
/* The record ends: forgets all values. False when a hole waits for a value that does not come; then *channel
 * and *where say which. */
bool fm_filler_end(struct fm_filler *filler, int64_t *channel, int64_t *where);

#endif
