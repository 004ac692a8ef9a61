/* Looks inside a lane of the reference backends or of the CPU engine: tensors by number, in the program's
 * order and shape wherever the engine keeps them. Goldens of single layers and losses need what the contract
 * does not show. Only while nothing of the lane is pending, and on the CPU engine while its batch was one
 * slice. */
#ifndef FM_TESTS_INSIDE_H
#define FM_TESTS_INSIDE_H

#include <jansson.h>

#include "engine/cpu/cpu.h"
#include "engine/reference/reference.h"
#include "support/bench.h"

/* What the tests of layers, losses and so on run on: float, double, the CPU engine with its best routines. */
extern const struct fm_backend *const inside_backends[3];
/* Whether its numbers are floats. */
bool inside_is_single(const struct fm_backend *backend);

/* A tensor of all examples at hand (or shared) as doubles, letters too; free() it. NULL when the engine never
 * makes it, because what uses it is fused. */
double *inside_tensor(const struct fm_lane *lane, int tensor, size_t *count);
/* The loss of every example of the last step or chunk; free() it. */
double *inside_losses(const struct fm_lane *lane, size_t *count);
/* Overwrites it from doubles. */
void inside_set(struct fm_lane *lane, int tensor, const double *values);
/* After a step: sets the output of `head`, an operation of the backward section, to `dy` and does anew what
 * follows from it. */
void inside_backward(struct fm_lane *lane, const struct fm_op *head, const double *dy);
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
