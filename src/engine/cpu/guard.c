/* Zeros where something lies in the arena and, in tests, a pattern between: written over, it shows; read and
 * used, it makes results NaN. */
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

void fm_cpu_fill(struct fm_cpu_lane *lane)
{
    const struct fm_cpu_plan *plan = &lane->plan;
    memset(lane->arena, 0, (size_t)plan->arena);
    for (int64_t i = 0, at = 0; plan->guard > 0 && i <= plan->nrooms; i++) {
        fill_gap(lane->arena, at, i < plan->nrooms ? plan->rooms[i].offset : plan->arena);
        if (i < plan->nrooms) at = plan->rooms[i].offset + plan->rooms[i].bytes;
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
