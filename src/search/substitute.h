/* "${name}" replaced in trees. Private to src/search.
 *
 * A parameter's value may itself hold parameters (a map for an optimizer with "${lr}" inside); those are
 * replaced once more, and values of such inner parameters may hold none: fm_references_check refuses that, so
 * that the other two need not look for cycles. Of `choose: {by, options}` only the chosen option is visited:
 * what it does not use is not used by the trial.
 */
#ifndef FM_SEARCH_SUBSTITUTE_H
#define FM_SEARCH_SUBSTITUTE_H

#include "search/space.h"

/* The trees in which parameters may stand. */
struct fm_places {
    const struct fm_node *model, *train, *cv_seed, *window_length; /* the last two may be NULL */
};

/* Every "${name}" in the trees (all options of choose) and in the values must be a parameter; keys must not
 * be one; and every parameter must stand somewhere. */
int fm_references_check(const struct fm_space *space, const struct fm_places *places,
                        const struct fm_node *trials, struct fm_error *err);

struct fm_assignment {
    const struct fm_space *space;
    const struct fm_node *const *values; /* by parameter; NULL = none given */
    bool *used;                          /* by parameter: set by fm_usage_mark */
    const struct fm_node *blame;         /* for a value that is missing: the entry of `trials`, or NULL */
};

/* Marks the parameters that the places use under this assignment. */
int fm_usage_mark(const struct fm_assignment *a, const struct fm_places *places, struct fm_error *err);

/* The tree with its parameters replaced; parts without any are shared with the original. */
int fm_substitute(const struct fm_assignment *a, struct fm_document *doc, const struct fm_node *tree,
                  const struct fm_node **out, struct fm_error *err);

#endif
