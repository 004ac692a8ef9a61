/* Assignments one after another: the entries of `trials`, the grid, random draws. Private to src/search. */
#ifndef FM_SEARCH_CANDIDATES_H
#define FM_SEARCH_CANDIDATES_H

#include "search/space.h"

/* Values of the entry by parameter; parameters that are not named keep their single value, or get NULL. Names
 * are written a.b, or nested as mappings. */
int fm_list_values(const struct fm_space *space, const struct fm_node *entry, const struct fm_node **values,
                   struct fm_error *err);

/* What an entry gives for a (dotted) name, or NULL. */
const struct fm_node *fm_list_find(const struct fm_node *entry, const char *name);

/* Every combination, the last parameter fastest. `digits` holds one number a parameter, all 0 at first. */
void fm_grid_values(const struct fm_space *space, const int64_t *digits, struct fm_drawn *drawn,
                    const struct fm_node **values);
/* The next combination that differs in a parameter marked in `used`: the others make no other trial. False at
 * the end. */
bool fm_grid_advance(const struct fm_space *space, int64_t *digits, const bool *used);

void fm_random_values(const struct fm_space *space, int64_t seed, int64_t draw, struct fm_drawn *drawn,
                      const struct fm_node **values);

#endif
