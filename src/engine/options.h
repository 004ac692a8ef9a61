/* What every backend asks of a lane's options before it opens one, and of its requests. */
#ifndef FM_ENGINE_OPTIONS_H
#define FM_ENGINE_OPTIONS_H

#include "engine/backend.h"

/* The indices come from the scheduler, yet a wrong one would read outside the resident data: 0, or
 * FM_EINTERNAL when data set, view, split or fold are not among `resident` (data == NULL: nothing is loaded
 * there), or the program does not fit the view. */
int fm_lane_options_check(const struct fm_lane_options *options, const struct fm_resident *resident,
                          int nresident, struct fm_error *err);

/* FM_EINTERNAL for a slot that there is not. */
int fm_slot_check(int slot, struct fm_error *err);
/* FM_EINTERNAL for a request that nobody can carry out. counts: examples by enum fm_part; classes: rows of
 * the confusion matrix, 0 where there is none. */
int fm_request_check(const struct fm_request *request, const int64_t counts[3], int64_t classes,
                     struct fm_error *err);

#endif
