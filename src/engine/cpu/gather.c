/* Windows of the slice's examples, cut from the resident series: one contiguous slab and zero rows around it
 * (data/view.h). Numbers become (stored - shift) * factor; the zero rows stay zero. The next windows lie
 * anywhere in the series, so they are fetched while this one is scaled. */
#include "engine/cpu/cpu.h"

#include <string.h>

#define FETCH_AHEAD 4

static void gather_numbers(const struct fm_cpu_lane *lane, const struct fm_slab *slab, float *out)
{
    const int64_t channels = lane->host->data->channels;
    const size_t row = (size_t)channels * sizeof *out;
    const float *x = lane->host->data->values + slab->first * channels;
    if (slab->before > 0) memset(out, 0, (size_t)slab->before * row);
    out += slab->before * channels;
    if (lane->shift || lane->factor)
        lane->k->scale(slab->rows * channels, x, lane->shift, lane->factor, out);
    else
        memcpy(out, x, (size_t)slab->rows * row);
    if (slab->after > 0) memset(out + slab->rows * channels, 0, (size_t)slab->after * row);
}

static void gather_letters(const struct fm_cpu_lane *lane, const struct fm_slab *slab, uint8_t *out)
{
    memset(out, FM_NO_LETTER, (size_t)slab->before);
    memcpy(out + slab->before, lane->host->data->letters + slab->first, (size_t)slab->rows);
    memset(out + slab->before + slab->rows, FM_NO_LETTER, (size_t)slab->after);
}

void fm_cpu_gather(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    const struct fm_op *op = task->op;
    const struct fm_slab *slab = lane->host->slab + lane->place;
    const int64_t left = lane->host->n + lane->host->ahead - lane->place;
    for (int64_t i = 0; i < count; i++) {
        if (i + FETCH_AHEAD < left) fm_lane_prefetch(lane->host, &slab[i + FETCH_AHEAD]);
        if (lane->plan.program->letters)
            gather_letters(lane, &slab[i], fm_cpu_bytes_at(lane, op->out[0], first + i));
        else
            gather_numbers(lane, &slab[i], fm_cpu_at(lane, op->out[0], first + i));
    }
}

void fm_cpu_onehot(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    const struct fm_op *op = task->op;
    const int64_t alphabet = op->onehot.alphabet;
    for (int64_t i = first; i < first + count; i++) {
        const uint8_t *x = fm_cpu_bytes_at(lane, op->in[0], i);
        float *y = fm_cpu_at(lane, op->out[0], i);
        memset(y, 0, (size_t)(op->in_rows * alphabet) * sizeof *y);
        for (int64_t r = 0; r < op->in_rows; r++)
            if (x[r] != FM_NO_LETTER) y[r * alphabet + x[r]] = 1;
    }
}
