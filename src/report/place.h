/* Where an example lies, as a person counts: record, position of its anchor and start of its window in the
 * record, from 0. A window that begins in the padding starts below 0; one that is wrapped starts inside its
 * record. */
#ifndef FM_REPORT_PLACE_H
#define FM_REPORT_PLACE_H

#include "data/view.h"

struct fm_place {
    int64_t record, position, start;
};
void fm_place_of(const struct fm_view *view, int64_t example, struct fm_place *place);

#endif
