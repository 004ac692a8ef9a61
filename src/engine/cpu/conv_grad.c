/* Gradients of convolutions. dkernel is one product over examples and positions. The input gradient is the
 * forward product of dy, between zero rows, and the kernel turned round once a step: taps reversed, each tap
 * transposed. With a stride, the input rows fall into `stride` classes; each is a convolution of its own with
 * every stride-th tap. */
#include "engine/cpu/cpu.h"

/* Gradients of parameters sum over the batch: the first slice writes, the others add. */
static bool adds(const struct fm_op *op, const struct fm_cpu_lane *lane)
{
    return op->accumulate || lane->place > 0;
}

static void bias_grad(const struct fm_op *op, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    float *dbias = fm_cpu_whole(lane, op->out[1]);
    if (dbias)
        lane->k->column_sums(count, op->out_rows, op->out_channels, fm_cpu_at(lane, op->in[1], first),
                             fm_cpu_stride(lane, op->in[1]), dbias);
}

/* Output rows that tap j has an input row for. */
static void rows_of_tap(const struct fm_op *op, int64_t j, int64_t *first, int64_t *count)
{
    const int64_t stride = op->conv.stride, shift = j * op->conv.dilation - op->conv.pad_before;
    const int64_t last = op->in_rows - 1 - shift;
    int64_t end = last < 0 ? 0 : last / stride + 1;
    if (end > op->out_rows) end = op->out_rows;
    *first = shift >= 0 ? 0 : (stride - 1 - shift) / stride;
    *count = end > *first ? end - *first : 0;
}

/* All taps of a row lie side by side: one product; where the channels alone make a good one, tap by tap, so
 * that zero rows are left out. */
static bool taps_joined(const struct fm_op *op)
{
    if (op->conv.dilation > 1 || op->conv.groups > 1) return false;
    const bool padded = op->conv.pad_before > 0 || op->conv.pad_after > 0;
    return !padded || op->in_channels < 16;
}

void fm_cpu_conv_weight_grad(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                             int64_t count)
{
    const struct fm_op *op = task->op;
    const int64_t channels = op->in_channels, filters = op->out_channels, groups = op->conv.groups;
    const int64_t depth = channels / groups, width = filters / groups, step = op->conv.stride * channels;
    const bool joined = taps_joined(op);
    const float *x = fm_cpu_at(lane, op->in[0], first) - op->conv.pad_before * channels;
    struct fm_product p = {.groups = 1,
                           .m = joined ? op->conv.taps * channels : depth,
                           .n = width,
                           .k1 = count,
                           .k2 = op->out_rows,
                           .acc = adds(op, lane),
                           .am = 1,
                           .ak1 = fm_cpu_stride(lane, op->in[0]),
                           .ak2 = step,
                           .bk1 = fm_cpu_stride(lane, op->in[1]),
                           .bk2 = filters,
                           .cm = filters};
    for (int64_t j = 0; j < (joined ? 1 : op->conv.taps); j++) {
        int64_t row = 0;
        if (!joined) rows_of_tap(op, j, &row, &p.k2);
        for (int64_t g = 0; g < groups; g++) {
            p.a = x + j * op->conv.dilation * channels + g * depth + row * step;
            p.b = fm_cpu_at(lane, op->in[1], first) + g * width + row * filters;
            p.c = fm_cpu_whole(lane, op->out[0]) + j * depth * filters + g * width;
            lane->k->product(&p);
        }
    }
    bias_grad(op, lane, first, count);
}

void fm_cpu_conv_letters_grad(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                              int64_t count)
{
    const struct fm_op *op = task->op;
    lane->k->letters_grad(&(struct fm_letters){.count = count,
                                               .out_rows = op->out_rows,
                                               .in_rows = op->in_rows,
                                               .taps = op->conv.taps,
                                               .stride = op->conv.stride,
                                               .dilation = op->conv.dilation,
                                               .pad = op->conv.pad_before,
                                               .alphabet = op->in_channels,
                                               .n = op->out_channels,
                                               .x = fm_cpu_bytes_at(lane, op->in[0], first),
                                               .y = fm_cpu_at(lane, op->in[1], first),
                                               .dw = fm_cpu_whole(lane, op->out[0]),
                                               .xstride = fm_cpu_stride(lane, op->in[0]),
                                               .ystride = fm_cpu_stride(lane, op->in[1])});
    bias_grad(op, lane, first, count);
}

void fm_cpu_conv_pool_grad(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                           int64_t count)
{
    const struct fm_op *op = task->op, *pool = task->pool;
    lane->k->conv_pool_grad(
        &(struct fm_conv_pool_grad){.count = count,
                                    .windows = pool->out_rows,
                                    .pool = pool->pool.size,
                                    .depth = op->conv.taps,
                                    .n = op->out_channels,
                                    .x = fm_cpu_at(lane, op->in[0], first) - op->conv.pad_before,
                                    .d = fm_cpu_at(lane, pool->in[0], first),
                                    .where = fm_cpu_bytes_at(lane, pool->in[1], first),
                                    .dweights = fm_cpu_whole(lane, op->out[0]),
                                    .dbias = fm_cpu_whole(lane, op->out[1]),
                                    .xstride = fm_cpu_stride(lane, op->in[0]),
                                    .dstride = fm_cpu_stride(lane, pool->in[0]),
                                    .wherestride = fm_cpu_stride(lane, pool->in[1])});
}

/* ---- input gradient ---- */

/* Input rows row, row + stride, ... and the taps that reach them: tap, tap + stride, ..., `taps` of them. Row
 * number t of the class reads dy rows from + t .. from + t + taps - 1 (times dilation), taps descending. */
struct class
{
    int64_t row, rows, tap, taps, from;
};

static struct class class_of(const struct fm_op *op, int64_t residue)
{
    const int64_t stride = op->conv.stride, pad = op->conv.pad_before;
    struct class c = {.tap = residue};
    c.row = (residue - pad % stride + stride) % stride;
    c.rows = c.row < op->in_rows ? (op->in_rows - 1 - c.row) / stride + 1 : 0;
    c.taps = c.tap < op->conv.taps ? (op->conv.taps - 1 - c.tap) / stride + 1 : 0;
    c.from = (c.row + pad - residue) / stride - (c.taps - 1) * op->conv.dilation;
    return c;
}

void fm_cpu_conv_grad_halo(const struct fm_op *conv, int64_t *before, int64_t *after)
{
    *before = *after = 0;
    for (int64_t residue = 0; residue < conv->conv.stride; residue++) {
        const struct class c = class_of(conv, residue);
        if (c.rows == 0 || c.taps == 0) continue;
        const int64_t last = c.from + c.rows - 1 + (c.taps - 1) * conv->conv.dilation;
        if (-c.from > *before) *before = -c.from;
        if (last - (conv->out_rows - 1) > *after) *after = last - (conv->out_rows - 1);
    }
}

/* turned: by class, by group, tap (descending), filter, channel. */
void fm_cpu_conv_turn(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    (void)first;
    (void)count;
    const struct fm_op *op = task->op;
    const int64_t groups = op->conv.groups, depth = op->in_channels / groups, filters = op->out_channels;
    const int64_t width = filters / groups;
    const float *kernel = fm_cpu_whole(lane, op->in[1]);
    float *turned = (float *)(lane->arena + task->scratch);
    for (int64_t residue = 0; residue < op->conv.stride; residue++) {
        const struct class c = class_of(op, residue);
        for (int64_t g = 0; g < groups; g++)
            for (int64_t i = c.taps - 1; i >= 0; i--, turned += width * depth)
                lane->k->transpose(depth, width,
                                   kernel + (c.tap + i * op->conv.stride) * depth * filters + g * width,
                                   filters, turned, depth);
    }
}

/* The product of one class and group over `count` examples. */
static struct fm_product class_product(const struct fm_op *op, const struct fm_cpu_lane *lane,
                                       const struct class *c, int64_t g, int64_t first, int64_t count)
{
    const int64_t channels = op->in_channels, filters = op->out_channels, groups = op->conv.groups;
    const int64_t depth = channels / groups, width = filters / groups;
    const bool joined = groups == 1 && op->conv.dilation == 1;
    return (struct fm_product){.groups = count,
                               .m = c->rows,
                               .n = depth,
                               .k1 = joined ? 1 : c->taps,
                               .k2 = joined ? c->taps * filters : width,
                               .acc = op->accumulate,
                               .a = fm_cpu_at(lane, op->in[0], first) + c->from * filters + g * width,
                               .c = fm_cpu_at(lane, op->out[0], first) + c->row * channels + g * depth,
                               .ag = fm_cpu_stride(lane, op->in[0]),
                               .am = filters,
                               .ak1 = op->conv.dilation * filters,
                               .ak2 = 1,
                               .bk1 = width * depth,
                               .bk2 = depth,
                               .cg = fm_cpu_stride(lane, op->out[0]),
                               .cm = op->conv.stride * channels};
}

enum part { OUTER, INNER };

/* Of `total` examples: the rows that lack taps, for all of them, or the others of first .. first + count - 1.
 */
static void input_grad(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, enum part part,
                       int64_t start, int64_t total, int64_t first, int64_t count)
{
    const struct fm_op *op = task->op;
    const int64_t groups = op->conv.groups;
    const int64_t depth = op->in_channels / groups, width = op->out_channels / groups;
    const bool joined = groups == 1 && op->conv.dilation == 1;
    const float *turned = (const float *)(lane->arena + task->scratch);
    for (int64_t residue = 0; residue < op->conv.stride; residue++) {
        const struct class c = class_of(op, residue);
        const struct fm_cpu_band band = {
            .taps = c.taps, .width = op->out_channels, .from = c.from, .step = 1, .in_rows = op->out_rows};
        for (int64_t g = 0; g < groups; g++, turned += c.taps * width * depth) {
            if (c.rows == 0 || (!joined && part == OUTER)) continue;
            struct fm_product p =
                class_product(op, lane, &c, g, joined ? start : start + first, joined ? total : count);
            p.b = turned;
            if (part == OUTER) {
                fm_cpu_band_outer(&band, &p, lane->k);
                continue;
            }
            if (joined) fm_cpu_band_inner(&band, &p, total, first, count);
            lane->k->product(&p);
        }
    }
}

void fm_cpu_conv_input_grad(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                            int64_t count)
{
    input_grad(task, lane, OUTER, first, count, 0, count);
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < task->micro ? count - i : task->micro;
        input_grad(task, lane, INNER, first, count, i, n);
        if (task->act) fm_cpu_activate_grad(task->act, lane, first + i, n);
    }
}
