/* Looks inside a lane of the reference backend: tensors by number, operations one at a time. Goldens of
 * single layers and losses need what the contract does not show. Only while nothing of the lane is pending.
 */
#ifndef FM_TESTS_INSIDE_H
#define FM_TESTS_INSIDE_H

#include <jansson.h>

#include "engine/reference/reference.h"
#include "support/bench.h"

/* A tensor of all examples at hand (or shared) as doubles; free() it. */
double *inside_tensor(const struct fm_lane *lane, int tensor, size_t *count);
/* Overwrites it from doubles. */
void inside_set(struct fm_lane *lane, int tensor, const double *values);
/* First operation of a section with this code, or NULL. */
const struct fm_op *inside_find(const struct fm_lane *lane, enum fm_section section, enum fm_opcode code);
const struct fm_op *inside_find_last(const struct fm_lane *lane, enum fm_section section,
                                     enum fm_opcode code);

/* {"shape", "data"}: its numbers as floats and its shape (missing sizes are 1); free() the result. */
float *inside_floats(const json_t *tensor, int64_t shape[3], size_t *count);

/* "model" and "train" as one YAML text; layers is a JSON list. free() it. */
char *inside_yaml(const json_t *layers, const char *loss, const json_t *optimizer, int64_t batch,
                  const char *more);

#endif
