/* "${name}": a parameter that stands for a whole value, and "$${", the literal "${".
 *
 * A parameter must be the whole scalar. "${" inside longer text is an error rather than text, so that a value
 * that was meant to be replaced is never used as it stands. */
#ifndef FM_CONFIG_PARAMETER_H
#define FM_CONFIG_PARAMETER_H

#include "config/keys.h"

/* 1: the scalar is "${name}", with the name's place in the node's text; 0: it holds no parameter (also for
 * lists and mappings); negative: "${" stands in longer text or without a name. */
int fm_parameter_find(const struct fm_node *node, const char **name, size_t *size, struct fm_error *err);

/* True where fm_parameter_find gives 1. */
bool fm_parameter_is(const struct fm_node *node);

/* True when the text holds "$${". */
bool fm_parameter_escaped(const struct fm_node *node);
/* The scalar with each "$${" made "${"; NULL when memory is out. */
struct fm_node *fm_parameter_unescape(struct fm_document *doc, const struct fm_node *node);

/* The names of W&B's distributions, in the order of enum fm_distribution (search/space.h), NULL-terminated.
 */
extern const char *const fm_distribution_names[];

/* One parameter as it stands in the file, filled by fm_parameter_keys; what was not given is NULL or -1. */
struct fm_parameter_spec {
    const struct fm_node *value, *values, *probabilities, *parameters;
    const struct fm_node *min, *max, *mu, *sigma, *q;
    int distribution;
};
extern const struct fm_key fm_parameter_keys[];

#endif
