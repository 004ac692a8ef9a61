/* What a lane's arena holds at first: zero rows and, in tests, a pattern between and in the buffers: written
 * over, it shows; read and used, it makes results NaN. */
#include "engine/cpu/cpu.h"

#include <string.h>

#define PATTERN 0x7fa5a5a5u /* a signalling NaN */

static void fill_gap(unsigned char *arena, int64_t from, int64_t to)
{
    const uint32_t pattern = PATTERN;
    for (int64_t at = from; at < to; at++) arena[at] = ((const unsigned char *)&pattern)[at % 4];
}

static bool gap_whole(const unsigned char *arena, int64_t from, int64_t to)
{
    const uint32_t pattern = PATTERN;
    for (int64_t at = from; at < to; at++)
        if (arena[at] != ((const unsigned char *)&pattern)[at % 4]) return false;
    return true;
}

/* Rows around a tensor must be zero from the start; all else is written before it is read, so that opening a
 * lane costs no more than it must. With guards it is the pattern too, and shows if it is read first. */
void fm_cpu_fill(struct fm_cpu_lane *lane)
{
    const struct fm_cpu_plan *plan = &lane->plan;
    if (plan->guard > 0) fill_gap(lane->arena, 0, plan->arena);
    for (int t = 0; t < plan->program->ntensors; t++) {
        const struct fm_cpu_place *place = &plan->places[t];
        const int64_t channels = plan->program->tensors[t].channels * (int64_t)sizeof(float);
        if (place->root != t || (place->before == 0 && place->after == 0)) continue;
        memset(lane->arena + place->offset - place->before * channels, 0,
               (size_t)(place->stride * place->held) * sizeof(float));
    }
}

bool fm_cpu_guards_whole(const struct fm_lane *host)
{
    const struct fm_cpu_lane *lane = host->engine;
    const struct fm_cpu_plan *plan = &lane->plan;
    int64_t at = 0;
    for (int64_t i = 0; plan->guard > 0 && i <= plan->nrooms; i++) {
        if (!gap_whole(lane->arena, at, i < plan->nrooms ? plan->rooms[i].offset : plan->arena)) return false;
        if (i < plan->nrooms) at = plan->rooms[i].offset + plan->rooms[i].bytes;
    }
    return true;
}
