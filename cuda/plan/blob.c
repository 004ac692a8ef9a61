/* Between a state as it lies on the device and the portable form: parameters in Keras's order end to end,
 * then every slot alike, then the tail. */
#include "plan/plan.h"

#include <string.h>

int64_t fm_cuda_blob_size(const struct fm_cuda_plan *plan, const struct fm_program *program)
{
    (void)plan;
    return program->float_count * 4 * (1 + (int64_t)program->slots) + (int64_t)sizeof(struct fm_cuda_tail);
}

/* One copy of all variables; blobs have no alignment. */
static void copy_variables(const struct fm_cuda_plan *plan, unsigned char *portable, unsigned char *own,
                           bool out)
{
    for (int i = 0; i < plan->nvariables; i++) {
        const struct fm_cuda_variable *v = &plan->variables[i];
        unsigned char *p = portable + v->portable * 4, *o = own + v->offset * 4;
        if (!v->turned) {
            memcpy(out ? p : o, out ? o : p, (size_t)v->count * 4);
            continue;
        }
        for (int tap = 0; tap < v->taps; tap++)
            for (int in = 0; in < v->in; in++)
                for (int f = 0; f < v->out; f++) {
                    unsigned char *a = p + 4 * (((int64_t)tap * v->in + in) * v->out + f);
                    unsigned char *b = o + 4 * (((int64_t)f * v->taps + tap) * v->in + in);
                    memcpy(out ? a : b, out ? b : a, 4);
                }
    }
}

static void copy_all(const struct fm_cuda_plan *plan, const struct fm_program *program, unsigned char *blob,
                     unsigned char *state, bool out)
{
    const int64_t portable = program->float_count * 4, own = plan->layout.floats * 4;
    const int copies = 1 + program->slots;
    for (int i = 0; i < copies; i++) copy_variables(plan, blob + i * portable, state + i * own, out);
    unsigned char *tail = blob + copies * portable, *own_tail = state + plan->layout.tail;
    memcpy(out ? tail : own_tail, out ? own_tail : tail, sizeof(struct fm_cuda_tail));
}

void fm_cuda_blob_from_state(const struct fm_cuda_plan *plan, const struct fm_program *program,
                             const unsigned char *state, unsigned char *blob)
{
    /* The direction says which side is written. */
    copy_all(plan, program, blob, (unsigned char *)state, true);
}

void fm_cuda_state_from_blob(const struct fm_cuda_plan *plan, const struct fm_program *program,
                             const unsigned char *blob, unsigned char *state)
{
    memset(state, 0, (size_t)plan->layout.state_bytes);
    copy_all(plan, program, (unsigned char *)blob, state, false);
}

void fm_cuda_state_from_parameters(const struct fm_cuda_plan *plan, const struct fm_program *program,
                                   const float *parameters, unsigned char *state)
{
    (void)program;
    copy_variables(plan, (unsigned char *)parameters, state, false);
}
