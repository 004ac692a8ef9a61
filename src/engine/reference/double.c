/* The reference loops in double. */
typedef double real;
#include "engine/reference/real.h"

#include "engine/reference/product.inc"
#include "engine/reference/conv.inc"
#include "engine/reference/dense.inc"
#include "engine/reference/pool.inc"
#include "engine/reference/activation.inc"
#include "engine/reference/norm.inc"
#include "engine/reference/gather.inc"
#include "engine/reference/loss.inc"
#include "engine/reference/optimizer.inc"
#include "engine/reference/execute.inc"

const struct fm_numbers fm_numbers_double = {
    .backend = "reference64",
    .name = "cpu-reference64",
    .size = sizeof(real),
    .gradients = step_gradients,
    .update = step_update,
    .evaluate = evaluate_chunk,
    .operation = execute_op,
    .penalty = penalty,
    .to_floats = to_floats,
    .from_floats = from_floats,
};
