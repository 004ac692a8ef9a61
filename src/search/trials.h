/* From the parameter space to trials: list, grid, random (W&B's sweep keys).
 *
 * A trial is one value for every parameter and what follows from it: the `model` and `train` trees with
 * "${name}" replaced, the window length and the seed of the splits. A parameter that the trial's trees do not
 * use (another `choose` option) is null in it, and trials that are then equal are one. Trials come in a fixed
 * order: those of `trials:` first, then the method's own; draw k of `random` is a function of (seed, k) only.
 * The order and the keys of earlier trials do not change when the space or run_cap grows as sweep-file.md
 * allows.
 */
#ifndef FM_SEARCH_TRIALS_H
#define FM_SEARCH_TRIALS_H

#include "config/sweep.h"

enum fm_origin { FM_ORIGIN_LIST, FM_ORIGIN_GRID, FM_ORIGIN_RANDOM };

struct fm_trial {
    json_t *params; /* one entry per parameter in file order, null where unused; owned */
    char *key;      /* canonical text of params (sorted keys, compact): identity in the journal; owned */
    enum fm_origin origin;
    int64_t draw;                        /* index within its origin, from 0 */
    const struct fm_node *model, *train; /* substituted trees, owned by the sweep's document */
    const struct fm_node *window_length; /* scalar, or NULL */
    const struct fm_node *cv_seed;       /* scalar, or NULL */
};
void fm_trial_fini(struct fm_trial *trial);

struct fm_search;

/* Checks the space: unknown distributions, empty values, undefined and unused parameters, grids over
 * continuous distributions, `trials` entries with unknown or missing names. `notes` (may be NULL) must
 * outlive the search: fm_search_next notes there why a random search ended early. A parameter that stands
 * nowhere in `model`, `train`, `cv.seed` and `data.window.length` is an error. Makes nodes in the sweep's
 * document. */
int fm_search_new(struct fm_search **search, struct fm_sweep *sweep, struct fm_notes *notes,
                  struct fm_error *err);
void fm_search_free(struct fm_search *search);

/* The next trial not seen before: 1 and `trial` filled (caller calls fm_trial_fini), 0 at the end, negative
 * on error. At most run_cap accepted trials are given. A random search over a finite space ends when all of
 * it was drawn; over any space it ends with a note after 10,000 + 100 * run_cap draws in a row brought
 * nothing new. */
int fm_search_next(struct fm_search *search, struct fm_trial *trial, struct fm_error *err);

/* Says that the trial given last cannot run (its network does not fit): random draws then do not count it. */
void fm_search_reject(struct fm_search *search);

/* The smallest and the largest value (1 to 2^31 - 1) that a scalar of the file may take in any trial of this
 * sweep: its own, or those of the parameter that it names, in `parameters` and in `trials`. `path` is for
 * messages. Makes nodes in the sweep's document. */
int fm_search_bounds(struct fm_sweep *sweep, const struct fm_node *node, const char *path, int64_t *least,
                     int64_t *most, struct fm_error *err);

#endif
