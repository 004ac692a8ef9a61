/* Passes over the elements of a slice: activations, pools, dropout. */
#include "engine/cpu/cpu.h"

#include "engine/dropout.h"

static struct fm_each each(const struct fm_op *op, int64_t count)
{
    return (struct fm_each){count, op->in_rows * op->in_channels};
}

void fm_cpu_activate(const struct fm_op *act, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    const int stored = act->out[1];
    lane->k->activation(
        &(struct fm_activation_pass){.each = each(act, count),
                                     .kind = act->activation.kind,
                                     .slope = (float)act->activation.slope,
                                     .channels = act->in_channels,
                                     .x = fm_cpu_at(lane, act->in[0], first),
                                     .y = fm_cpu_at(lane, act->out[0], first),
                                     .stored = stored < 0 ? NULL : fm_cpu_at(lane, stored, first),
                                     .xstride = fm_cpu_stride(lane, act->in[0]),
                                     .ystride = fm_cpu_stride(lane, act->out[0]),
                                     .storedstride = stored < 0 ? 0 : fm_cpu_stride(lane, stored)});
}

void fm_cpu_activation(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    fm_cpu_activate(task->op, lane, first, count);
}

void fm_cpu_activate_grad(const struct fm_op *act, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    const int from = act->in[1];
    lane->k->activation_grad(
        &(struct fm_activation_grad_pass){.each = each(act, count),
                                          .kind = act->activation.kind,
                                          .derivative = act->derivative,
                                          .slope = (float)act->activation.slope,
                                          .channels = act->in_channels,
                                          .acc = act->accumulate,
                                          .dy = fm_cpu_at(lane, act->in[0], first),
                                          .from = from < 0 ? NULL : fm_cpu_at(lane, from, first),
                                          .dx = fm_cpu_at(lane, act->out[0], first),
                                          .dystride = fm_cpu_stride(lane, act->in[0]),
                                          .fromstride = from < 0 ? 0 : fm_cpu_stride(lane, from),
                                          .dxstride = fm_cpu_stride(lane, act->out[0])});
}

void fm_cpu_activation_grad(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                            int64_t count)
{
    fm_cpu_activate_grad(task->op, lane, first, count);
}

/* ---- pools ---- */

static struct fm_pool_pass pool_view(const struct fm_op *op, struct fm_cpu_lane *lane, int winner,
                                     int64_t first, int64_t count)
{
    struct fm_pool_pass p = {.count = count,
                             .in_rows = op->in_rows,
                             .out_rows = op->out_rows,
                             .channels = op->in_channels,
                             .size = op->pool.size,
                             .stride = op->pool.stride,
                             .pad = op->pool.pad_before,
                             .average = op->pool.average,
                             .acc = op->accumulate};
    if (winner < 0) return p;
    p.wherestride = fm_cpu_stride(lane, winner);
    if (lane->plan.program->tensors[winner].type == FM_U8)
        p.where8 = fm_cpu_bytes_at(lane, winner, first);
    else
        p.where32 = (int32_t *)fm_cpu_at(lane, winner, first);
    return p;
}

void fm_cpu_pool(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    const struct fm_op *op = task->op;
    struct fm_pool_pass p = pool_view(op, lane, op->out[1], first, count);
    p.x = fm_cpu_at(lane, op->in[0], first);
    p.y = fm_cpu_at(lane, op->out[0], first);
    p.xstride = fm_cpu_stride(lane, op->in[0]);
    p.ystride = fm_cpu_stride(lane, op->out[0]);
    lane->k->pool(&p);
}

void fm_cpu_pool_grad(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    const struct fm_op *op = task->op;
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < task->micro ? count - i : task->micro;
        struct fm_pool_pass p = pool_view(op, lane, op->in[1], first + i, n);
        p.dy = fm_cpu_at(lane, op->in[0], first + i);
        p.dx = fm_cpu_at(lane, op->out[0], first + i);
        p.ystride = fm_cpu_stride(lane, op->in[0]);
        p.xstride = fm_cpu_stride(lane, op->out[0]);
        lane->k->pool_grad(&p);
        if (task->act) fm_cpu_activate_grad(task->act, lane, first + i, n);
    }
}

/* ---- dropout: forward and backward are one ---- */

void fm_cpu_dropout(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    const struct fm_op *op = task->op;
    for (int64_t i = 0; i < count; i++)
        lane->keys[i] =
            fm_dropout_key(lane->host->dropout_key, lane->host->step, op->dropout.id, lane->place + i);
    lane->k->dropout(&(struct fm_dropout_pass){.each = each(op, count),
                                               .channels = op->in_channels,
                                               .spatial = op->dropout.spatial,
                                               .acc = op->accumulate,
                                               .rate = lane->host->options.hyper.rates[op->dropout.index],
                                               .keys = lane->keys,
                                               .x = fm_cpu_at(lane, op->in[0], first),
                                               .y = fm_cpu_at(lane, op->out[0], first),
                                               .xstride = fm_cpu_stride(lane, op->in[0]),
                                               .ystride = fm_cpu_stride(lane, op->out[0])});
}
