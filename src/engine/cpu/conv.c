/* Convolutions forward: products over strided views, sums of weight rows for letters, and those fused with a
 * pool. Row t of a convolution's matrix starts at t * stride * channels and, without dilation and groups, is
 * contiguous, so nothing is copied (cpu_kernels.md). */
#include "engine/cpu/cpu.h"

#include <math.h>

bool fm_cpu_conv_is_narrow(const struct fm_op *conv)
{
    return conv->conv.groups > 1 && conv->out_channels / conv->conv.groups < FM_CPU_NARROW &&
           conv->in_channels / conv->conv.groups < FM_CPU_NARROW;
}

static bool contiguous(const struct fm_op *conv)
{
    return conv->conv.dilation == 1 && conv->conv.groups == 1 && !conv->conv.letters;
}

/* The fused routine reads all weights for each few positions, so they must stay in the L1 cache beside the
 * rest (a larger kernel is better off in the blocks of a product). */
#define FUSED_FLOATS 6144

bool fm_cpu_conv_pool_fits(const struct fm_op *conv, const struct fm_op *act, const struct fm_op *pool)
{
    if (!contiguous(conv) || pool->pool.average || pool->accumulate || conv->accumulate) return false;
    if (act && act->activation.kind != FM_ACT_RELU && act->activation.kind != FM_ACT_LINEAR) return false;
    if (pool->pool.pad_before != 0 || pool->pool.stride != pool->pool.size || pool->pool.size > 255)
        return false;
    return pool->out_rows * pool->pool.size <= pool->in_rows &&
           conv->conv.taps * conv->in_channels * conv->out_channels <= FUSED_FLOATS;
}

bool fm_cpu_conv_pool_grad_fits(const struct fm_op *conv, const struct fm_op *pool)
{
    return conv->in_channels == 1 && conv->conv.stride == 1 && pool->pool.size >= 2 && pool->pool.size <= 4;
}

/* Where the convolution's first tap of output row 0 reads, padding included. */
static const float *first_tap(const struct fm_op *op, const struct fm_cpu_lane *lane, int64_t first)
{
    return fm_cpu_at(lane, op->in[0], first) - op->conv.pad_before * op->in_channels;
}

/* The product of group g over `count` examples. */
static struct fm_product product_of(const struct fm_op *op, const struct fm_cpu_lane *lane, int64_t g,
                                    int64_t first, int64_t count)
{
    const int64_t channels = op->in_channels, filters = op->out_channels, groups = op->conv.groups;
    const int64_t depth = channels / groups, width = filters / groups, taps = op->conv.taps;
    const float *bias = fm_cpu_whole(lane, op->in[2]);
    const bool whole = contiguous(op);
    return (struct fm_product){.groups = count,
                               .m = op->out_rows,
                               .n = width,
                               .k1 = whole ? 1 : taps,
                               .k2 = whole ? taps * channels : depth,
                               .acc = op->accumulate,
                               .a = first_tap(op, lane, first) + g * depth,
                               .b = fm_cpu_whole(lane, op->in[1]) + g * width,
                               .bias = bias ? bias + g * width : NULL,
                               .c = fm_cpu_at(lane, op->out[0], first) + g * width,
                               .ag = fm_cpu_stride(lane, op->in[0]),
                               .am = op->conv.stride * channels,
                               .ak1 = op->conv.dilation * channels,
                               .ak2 = 1,
                               .bk1 = depth * filters,
                               .bk2 = filters,
                               .cg = fm_cpu_stride(lane, op->out[0]),
                               .cm = filters};
}

void fm_cpu_conv(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    const struct fm_op *op = task->op;
    const bool banded = contiguous(op);
    const struct fm_cpu_band band = {.taps = op->conv.taps,
                                     .width = op->in_channels,
                                     .from = -op->conv.pad_before,
                                     .step = op->conv.stride,
                                     .in_rows = op->in_rows};
    const struct fm_product all = product_of(op, lane, 0, first, count);
    if (banded) fm_cpu_band_outer(&band, &all, lane->k);
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < task->micro ? count - i : task->micro;
        struct fm_product p = all;
        if (banded) {
            fm_cpu_band_inner(&band, &p, count, i, n);
            lane->k->product(&p);
        }
        for (int64_t g = 0; !banded && g < op->conv.groups; g++) {
            p = product_of(op, lane, g, first + i, n);
            lane->k->product(&p);
        }
        if (task->act) fm_cpu_activate(task->act, lane, first + i, n);
    }
}

void fm_cpu_conv_letters(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                         int64_t count)
{
    const struct fm_op *op = task->op;
    struct fm_letters l = {.out_rows = op->out_rows,
                           .in_rows = op->in_rows,
                           .taps = op->conv.taps,
                           .stride = op->conv.stride,
                           .dilation = op->conv.dilation,
                           .pad = op->conv.pad_before,
                           .alphabet = op->in_channels,
                           .n = op->out_channels,
                           .acc = op->accumulate,
                           .w = fm_cpu_whole(lane, op->in[1]),
                           .bias = fm_cpu_whole(lane, op->in[2]),
                           .xstride = fm_cpu_stride(lane, op->in[0]),
                           .ystride = fm_cpu_stride(lane, op->out[0])};
    for (int64_t i = 0; i < count; i += l.count) {
        l.count = count - i < task->micro ? count - i : task->micro;
        l.x = fm_cpu_bytes_at(lane, op->in[0], first + i);
        l.y = fm_cpu_at(lane, op->out[0], first + i);
        lane->k->letters(&l);
        if (task->act) fm_cpu_activate(task->act, lane, first + i, l.count);
    }
}

void fm_cpu_conv_pool(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    const struct fm_op *op = task->op, *pool = task->pool;
    const int winner = pool->out[1];
    lane->k->conv_pool(
        &(struct fm_conv_pool){.count = count,
                               .windows = pool->out_rows,
                               .pool = pool->pool.size,
                               .depth = op->conv.taps * op->in_channels,
                               .n = op->out_channels,
                               .relu = task->act && task->act->activation.kind == FM_ACT_RELU,
                               .x = first_tap(op, lane, first),
                               .weights = fm_cpu_whole(lane, op->in[1]),
                               .bias = fm_cpu_whole(lane, op->in[2]),
                               .y = fm_cpu_at(lane, pool->out[0], first),
                               .where = winner < 0 ? NULL : fm_cpu_bytes_at(lane, winner, first),
                               .xstride = fm_cpu_stride(lane, op->in[0]),
                               .xstep = op->conv.stride * op->in_channels,
                               .ystride = fm_cpu_stride(lane, pool->out[0]),
                               .wherestride = winner < 0 ? 0 : fm_cpu_stride(lane, winner)});
}

/* ---- groups of few filters ---- */

static struct fm_narrow narrow_view(const struct fm_op *op)
{
    return (struct fm_narrow){.in_rows = op->in_rows,
                              .out_rows = op->out_rows,
                              .taps = op->conv.taps,
                              .stride = op->conv.stride,
                              .dilation = op->conv.dilation,
                              .pad = op->conv.pad_before,
                              .depth = op->in_channels / op->conv.groups,
                              .width = op->out_channels / op->conv.groups,
                              .filters = op->out_channels,
                              .acc = op->accumulate};
}

void fm_cpu_conv_narrow(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                        int64_t count)
{
    const struct fm_op *op = task->op;
    struct fm_narrow n = narrow_view(op);
    n.w = fm_cpu_whole(lane, op->in[1]);
    n.bias = fm_cpu_whole(lane, op->in[2]);
    n.xstride = fm_cpu_stride(lane, op->in[0]);
    n.ystride = fm_cpu_stride(lane, op->out[0]);
    for (int64_t i = 0; i < count; i += n.count) {
        n.count = count - i < task->micro ? count - i : task->micro;
        n.x = first_tap(op, lane, first + i);
        n.y = fm_cpu_at(lane, op->out[0], first + i);
        lane->k->narrow(&n);
        if (task->act) fm_cpu_activate(task->act, lane, first + i, n.count);
    }
}

void fm_cpu_conv_narrow_weight_grad(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                                    int64_t count)
{
    const struct fm_op *op = task->op;
    struct fm_narrow n = narrow_view(op);
    float *dbias = fm_cpu_whole(lane, op->out[1]);
    n.count = count;
    n.dw = fm_cpu_whole(lane, op->out[0]);
    n.x = first_tap(op, lane, first);
    n.dy = fm_cpu_at(lane, op->in[1], first);
    n.xstride = fm_cpu_stride(lane, op->in[0]);
    n.ystride = fm_cpu_stride(lane, op->in[1]);
    lane->k->narrow_weights(&n);
    if (dbias) lane->k->column_sums(count, op->out_rows, op->out_channels, n.dy, n.ystride, dbias);
}

bool fm_cpu_conv_narrow_turns(const struct fm_op *conv)
{
    return conv->in_channels > conv->conv.groups || conv->out_channels > conv->conv.groups;
}

void fm_cpu_conv_narrow_turn(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                             int64_t count)
{
    (void)first;
    (void)count;
    struct fm_narrow n = narrow_view(task->op);
    n.w = fm_cpu_whole(lane, task->op->in[1]);
    n.turned = (float *)(lane->arena + task->scratch);
    lane->k->narrow_turn(&n);
}

void fm_cpu_conv_narrow_input_grad(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                                   int64_t count)
{
    const struct fm_op *op = task->op;
    struct fm_narrow n = narrow_view(op);
    n.w = fm_cpu_whole(lane, op->in[1]);
    if (fm_cpu_conv_narrow_turns(op)) n.turned = (float *)(lane->arena + task->scratch);
    n.ystride = fm_cpu_stride(lane, op->in[0]);
    n.dxstride = fm_cpu_stride(lane, op->out[0]);
    for (int64_t i = 0; i < count; i += n.count) {
        n.count = count - i < task->micro ? count - i : task->micro;
        n.dy = fm_cpu_at(lane, op->in[0], first + i);
        n.dx = fm_cpu_at(lane, op->out[0], first + i);
        lane->k->narrow_input(&n);
        if (task->act) fm_cpu_activate_grad(task->act, lane, first + i, n.count);
    }
}
