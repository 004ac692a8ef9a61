/* Which positions a set of examples covers, and which other examples touch them.
 *
 * One bit a stored position while it lasts (copied heads of wrapped records stay clear); pieces of evenly
 * spaced examples are covered and tested by arithmetic, so that time and memory do not depend on the windows'
 * length. */
#ifndef FM_DATA_SHARING_H
#define FM_DATA_SHARING_H

#include "data/view.h"

/* Sets in `bits` (data->positions of them) all real positions anchor - before .. anchor + after of the
 * members of `set` (NULL: all examples); beyond a record's ends they are cut off, or go round where records
 * are wrapped. */
void fm_cover(const struct fm_dataset *data, const struct fm_examples *examples,
              const struct fm_indexset *set, int64_t before, int64_t after, uint64_t *bits);

/* Marks in `hit` the members of `candidates` for which any of these positions is set in `bits`. */
void fm_mark_touching(const struct fm_dataset *data, const struct fm_examples *examples,
                      const struct fm_indexset *candidates, int64_t before, int64_t after,
                      const uint64_t *bits, uint64_t *hit);

#endif
