/* The parameter space: what each parameter may be. Private to src/search.
 *
 * A parameter has a list of values (constant, categorical), a lattice first, first + q, ... (int_uniform and
 * the bounded q_ distributions), or a continuous distribution. Lists and lattices are finite and can be
 * enumerated; random draws from a lattice round a draw of the underlying distribution to the nearest of its
 * points, so that grid and random see the same values. Unbounded q_ distributions round to multiples of q.
 * Lattice values are written in at most 15 digits (0.3, not 0.30000000000000004).
 */
#ifndef FM_SEARCH_SPACE_H
#define FM_SEARCH_SPACE_H

#include "base/text.h"
#include "config/parameter.h"
#include "config/sweep.h"

enum fm_distribution { /* in the order of fm_distribution_names */
                       FM_CONSTANT,
                       FM_CATEGORICAL,
                       FM_INT_UNIFORM,
                       FM_UNIFORM,
                       FM_Q_UNIFORM,
                       FM_LOG_UNIFORM,
                       FM_Q_LOG_UNIFORM,
                       FM_LOG_UNIFORM_VALUES,
                       FM_Q_LOG_UNIFORM_VALUES,
                       FM_INV_LOG_UNIFORM_VALUES,
                       FM_NORMAL,
                       FM_Q_NORMAL,
                       FM_LOG_NORMAL,
                       FM_Q_LOG_NORMAL,
                       FM_LISTED /* named in `trials` only, where there is no `parameters` */
};

struct fm_parameter {
    const char *name;          /* dotted; in the document */
    const struct fm_node *key; /* where it stands */
    enum fm_distribution distribution;
    const struct fm_node **values; /* lists: distinct */
    double *shares;                /* lists with probabilities: cumulated, the last is 1; else NULL */
    int64_t count;                 /* of values or lattice points; 0 = not finite */
    double min, max, mu, sigma, q;
    double first; /* lattice */
};

struct fm_space {
    struct fm_parameter *items; /* in file order; everything in the sweep's document */
    size_t count, capacity;
};

/* Reads `parameters` (or the names in `trials` without it). Equal values collapse with a note. */
int fm_space_read(struct fm_space *space, struct fm_sweep *sweep, struct fm_notes *notes,
                  struct fm_error *err);

/* Place of a name, or -1. */
int64_t fm_space_find(const struct fm_space *space, const char *name, size_t size);
/* FM_EFILE at `node`: no parameter of that name, with the nearest. */
int fm_space_fail_unknown(const struct fm_space *space, const struct fm_node *node, const char *name,
                          size_t size, struct fm_error *err);

/* Combinations of all values; -1 when a parameter is not finite, INT64_MAX when they do not fit. */
int64_t fm_space_size(const struct fm_space *space);

/* A chosen value: `value` is a node of the document, or `node` with its text in `text`. Must not be copied.
 */
struct fm_drawn {
    const struct fm_node *value;
    struct fm_node node;
    char text[FM_NUMBER_TEXT];
};
void fm_parameter_at(const struct fm_parameter *p, int64_t index,
                     struct fm_drawn *drawn); /* 0 <= index < count */
/* Draw `draw` of the parameter in place `place`: a function of these and the seed. */
void fm_parameter_draw(const struct fm_parameter *p, int64_t seed, int64_t draw, uint32_t place,
                       struct fm_drawn *drawn);

/* The rules of one distribution: ranges, lattice. Fails at the parameter's key. */
int fm_distribution_check(struct fm_parameter *p, struct fm_error *err);

#endif
