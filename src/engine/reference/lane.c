/* What a lane of the reference engine holds: its tensors, each allocated on its own so that a sanitizer sees
 * every step beyond one. */
#include "engine/reference/reference.h"

#include "base/memory.h"

static bool own_tensor(const struct fm_program *p, int tensor)
{
    const enum fm_tensor_kind kind = p->tensors[tensor].kind;
    return kind != FM_TENSOR_PARAMETER && kind != FM_TENSOR_STATE;
}

void fm_loops_close(struct fm_lane *lane)
{
    struct fm_loops *loops = lane->engine;
    if (!loops) return;
    for (int t = 0; loops->tensor && t < lane->program->ntensors; t++)
        if (own_tensor(lane->program, t)) fm_free(loops->tensor[t]);
    fm_free(loops->tensor);
    fm_free(loops->scratch);
    fm_free(loops->keep);
    fm_free(loops);
    lane->engine = NULL;
}

static bool allocate_tensors(struct fm_lane *lane, struct fm_loops *loops)
{
    const struct fm_program *p = lane->program;
    loops->tensor = fm_calloc((size_t)p->ntensors, sizeof *loops->tensor);
    if (!loops->tensor) return false;
    for (int t = 0; t < p->ntensors; t++) {
        if (!own_tensor(p, t)) {
            loops->tensor[t] =
                lane->state + (size_t)p->variables[p->tensors[t].variable].offset * loops->size;
            continue;
        }
        const int64_t bytes = fm_loops_tensor_bytes(p, t, lane->options.batch, loops->size);
        loops->tensor[t] = fm_calloc((size_t)bytes, 1);
        if (!loops->tensor[t]) return false;
    }
    return true;
}

int fm_loops_open(struct fm_lane *lane, size_t real, struct fm_error *err)
{
    int64_t scratch;
    struct fm_loops *loops = lane->engine = fm_calloc(1, sizeof *loops);
    if (!loops) return fm_fail_memory(err);
    if (!fm_loops_scratch_bytes(lane->program, real, &scratch))
        return fm_fail(err, FM_EINTERNAL, "a lane was opened for a network larger than any memory");
    loops->size = real;
    loops->scratch = fm_calloc((size_t)scratch, 1);
    loops->keep = fm_malloc((size_t)fm_loops_keep_bytes(lane->program), 1);
    const bool ok = loops->scratch && loops->keep && allocate_tensors(lane, loops);
    return ok ? 0 : fm_fail_memory(err);
}
