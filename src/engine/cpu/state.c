/* Between the engine's order of variables and the portable one (Keras's shapes, end to end). */
#include "engine/cpu/cpu.h"

#include <string.h>

/* Calls may come with unaligned blobs, so floats are copied by bytes. */
static void copy(const struct fm_cpu_lane *lane, int v, float *state, unsigned char *portable, bool out)
{
    const struct fm_variable *variable = &lane->plan.program->variables[v];
    const size_t size = sizeof(float);
    state += lane->plan.variables[v].offset;
    portable += variable->offset * (int64_t)size;
    if (!lane->plan.variables[v].turned) {
        if (out)
            memcpy(portable, state, (size_t)variable->count * size);
        else
            memcpy(state, portable, (size_t)variable->count * size);
        return;
    }
    const int64_t in = variable->shape[0], units = variable->shape[1];
    for (int64_t i = 0; i < in; i++)
        for (int64_t j = 0; j < units; j++) {
            unsigned char *at = portable + (i * units + j) * (int64_t)size;
            if (out)
                memcpy(at, state + j * in + i, size);
            else
                memcpy(state + j * in + i, at, size);
        }
}

static void copy_all(const struct fm_cpu_lane *lane, float *state, unsigned char *portable, bool out)
{
    for (int v = 0; v < lane->plan.program->nvariables; v++) copy(lane, v, state, portable, out);
}

void fm_cpu_parameters(struct fm_lane *host, const float *portable)
{
    copy_all(host->engine, (float *)host->state, (unsigned char *)portable, false);
}

static void exchange(const struct fm_lane *host, unsigned char *state, unsigned char *blob, bool out)
{
    const struct fm_cpu_lane *lane = host->engine;
    const struct fm_program *p = lane->plan.program;
    const int64_t portable = p->float_count * (int64_t)sizeof(float);
    for (int s = 0; s <= p->slots; s++)
        copy_all(lane, (float *)state + s * lane->plan.extent, blob + s * portable, out);
    unsigned char *tail = blob + (1 + p->slots) * portable;
    if (out)
        memcpy(tail, state + host->layout.tail, sizeof(struct fm_state_tail));
    else
        memcpy(state + host->layout.tail, tail, sizeof(struct fm_state_tail));
}

void fm_cpu_blob_read(const struct fm_lane *host, const unsigned char *state, unsigned char *blob)
{
    exchange(host, (unsigned char *)state, blob, true);
}

void fm_cpu_blob_write(const struct fm_lane *host, unsigned char *state, const unsigned char *blob)
{
    exchange(host, state, (unsigned char *)blob, false);
}

void fm_cpu_state_layout(const struct fm_cpu_plan *plan, struct fm_host_layout *layout)
{
    const struct fm_program *p = plan->program;
    layout->tail = (1 + p->slots) * plan->extent * (int64_t)sizeof(float);
    layout->state = layout->tail + (int64_t)sizeof(struct fm_state_tail);
    layout->blob =
        (1 + p->slots) * p->float_count * (int64_t)sizeof(float) + (int64_t)sizeof(struct fm_state_tail);
}
