/* What the .inc files share: single.c and double.c define `real` before they include this. Each .inc file is
 * one job; all functions in them are static, so the two compilations do not meet. <tgmath.h> picks expf or
 * exp by type. */
#ifndef FM_ENGINE_REAL_H
#define FM_ENGINE_REAL_H

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tgmath.h>

#include "engine/dropout.h"
#include "engine/reference/reference.h"

/* A tensor's numbers for example i of the batch (shapes are one example's). */
static inline real *at(const struct fm_lane *lane, int tensor, int64_t i)
{
    const struct fm_tensor *t = &lane->program->tensors[tensor];
    return (real *)fm_loops(lane)->tensor[tensor] + i * t->rows * t->channels;
}

static inline const uint8_t *letters_at(const struct fm_lane *lane, int tensor, int64_t i)
{
    const struct fm_tensor *t = &lane->program->tensors[tensor];
    return (const uint8_t *)fm_loops(lane)->tensor[tensor] + i * t->rows * t->channels;
}

/* A tensor that all examples share: a parameter, its gradient, batch statistics. NULL for none. */
static inline real *whole(const struct fm_lane *lane, int tensor)
{
    return tensor < 0 ? NULL : fm_loops(lane)->tensor[tensor];
}

static inline void clear(real *x, int64_t count)
{
    memset(x, 0, (size_t)count * sizeof *x);
}

static inline void add_row(real *restrict y, const real *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) y[i] += x[i];
}

#endif
