/* Batch and layer normalization (semantics.md 1.4, 1.5). Batch statistics are two passes over the whole
 * batch, in double; what follows from them per channel is worked out once, the rest goes slice by slice. */
#include "engine/cpu/cpu.h"

#include <math.h>
#include <string.h>

/* Per channel: two sums in double, then what the slices need: mean, scale, inverse deviation, and two means;
 * forward what is added in the end. */
struct work {
    double *a, *b;
    float *mean, *scale, *inverse, *ma, *mb, *shift;
};

int64_t fm_cpu_batch_norm_scratch(const struct fm_op *op)
{
    return op->in_channels * (int64_t)(2 * sizeof(double) + 5 * sizeof(float));
}

static struct work work_of(const struct fm_cpu_task *task, const struct fm_cpu_lane *lane)
{
    const int64_t channels = task->op->in_channels;
    struct work w = {.a = (double *)(lane->arena + task->scratch)};
    w.b = w.a + channels;
    w.mean = (float *)(w.b + channels);
    w.scale = w.mean + channels;
    w.inverse = w.scale + channels;
    w.ma = w.inverse + channels;
    w.mb = w.ma + channels;
    w.shift = w.inverse;
    return w;
}

static struct fm_norm_pass pass_of(const struct fm_op *op, int64_t count)
{
    return (struct fm_norm_pass){
        .count = count, .rows = op->in_rows, .channels = op->in_channels, .acc = op->accumulate};
}

void fm_cpu_batch_norm_sums(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                            int64_t count)
{
    const struct fm_op *op = task->op;
    const int64_t channels = op->in_channels;
    const double rows = (double)(count * op->in_rows);
    const float *gamma = fm_cpu_whole(lane, op->in[1]), *beta = fm_cpu_whole(lane, op->in[2]);
    float *mean = fm_cpu_whole(lane, op->out[1]), *variance = fm_cpu_whole(lane, op->out[2]);
    struct work w = work_of(task, lane);
    struct fm_norm_pass p = pass_of(op, count);
    memset(w.a, 0, (size_t)channels * 2 * sizeof *w.a);
    p.x = fm_cpu_at(lane, op->in[0], first);
    p.xstride = fm_cpu_stride(lane, op->in[0]);
    p.a = w.a;
    p.b = w.b;
    lane->k->norm_sums(&p);
    for (int64_t c = 0; c < channels; c++) w.mean[c] = mean[c] = (float)(w.a[c] / rows);
    p.mean = w.mean;
    lane->k->norm_squares(&p);
    for (int64_t c = 0; c < channels; c++) {
        /* Deviations are taken from the rounded mean: the difference is theirs to take off again. Its square
         * is at most theirs; where it seems larger, equal numbers far from zero left it in their sum. */
        const double square = w.b[c] / rows;
        double off = w.a[c] / rows - (double)w.mean[c];
        if (off * off > square) off = 0;
        variance[c] = (float)(square - off * off);
        const double inverse = 1 / sqrt(square - off * off + op->norm.epsilon);
        w.scale[c] = (float)(inverse * (gamma ? (double)gamma[c] : 1));
        w.shift[c] = (float)((beta ? (double)beta[c] : 0) - off * (double)w.scale[c]);
    }
}

void fm_cpu_batch_norm(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    const struct fm_op *op = task->op;
    const struct work w = work_of(task, lane);
    struct fm_norm_pass p = pass_of(op, count);
    p.x = fm_cpu_at(lane, op->in[0], first);
    p.y = fm_cpu_at(lane, op->out[0], first);
    p.xstride = fm_cpu_stride(lane, op->in[0]);
    p.ystride = fm_cpu_stride(lane, op->out[0]);
    p.mean = w.mean;
    p.scale = w.scale;
    p.beta = w.shift;
    lane->k->norm_apply(&p);
}

/* xhat = (x - mean) / sqrt(variance + epsilon): dgamma = sum of dy xhat, dbeta = sum of dy, and dx = gamma /
 * deviation * (dy - mean of dy - xhat * mean of dy xhat). */
void fm_cpu_batch_norm_grad_sums(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                                 int64_t count)
{
    const struct fm_op *op = task->op;
    const int64_t channels = op->in_channels;
    const double rows = (double)(count * op->in_rows);
    const float *gamma = fm_cpu_whole(lane, op->in[2]), *mean = fm_cpu_whole(lane, op->in[3]);
    const float *variance = fm_cpu_whole(lane, op->in[4]);
    float *dgamma = fm_cpu_whole(lane, op->out[1]), *dbeta = fm_cpu_whole(lane, op->out[2]);
    struct work w = work_of(task, lane);
    struct fm_norm_pass p = pass_of(op, count);
    memset(w.a, 0, (size_t)channels * 2 * sizeof *w.a);
    for (int64_t c = 0; c < channels; c++) {
        w.mean[c] = mean[c];
        w.inverse[c] = (float)(1 / sqrt((double)variance[c] + op->norm.epsilon));
        w.scale[c] = w.inverse[c] * (gamma ? gamma[c] : 1);
    }
    p.x = fm_cpu_at(lane, op->in[0], first);
    p.dy = fm_cpu_at(lane, op->in[1], first);
    p.xstride = fm_cpu_stride(lane, op->in[0]);
    p.ystride = fm_cpu_stride(lane, op->in[1]);
    p.mean = w.mean;
    p.inverse = w.inverse;
    p.a = w.a;
    p.b = w.b;
    lane->k->norm_grad_sums(&p);
    for (int64_t c = 0; c < channels; c++) {
        if (dgamma) dgamma[c] = (float)w.b[c];
        if (dbeta) dbeta[c] = (float)w.a[c];
        w.ma[c] = (float)(w.a[c] / rows);
        w.mb[c] = (float)(w.b[c] / rows);
    }
}

/* The pass takes one stride for x and dx; where they differ (zero rows around x), an example at a time. */
void fm_cpu_batch_norm_grad(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                            int64_t count)
{
    const struct fm_op *op = task->op;
    const struct work w = work_of(task, lane);
    const bool alike = fm_cpu_stride(lane, op->in[0]) == fm_cpu_stride(lane, op->out[0]);
    struct fm_norm_pass p = pass_of(op, alike ? count : 1);
    p.mean = w.mean;
    p.inverse = w.inverse;
    p.scale = w.scale;
    p.ma = w.ma;
    p.mb = w.mb;
    p.xstride = fm_cpu_stride(lane, op->in[0]);
    p.ystride = fm_cpu_stride(lane, op->in[1]);
    for (int64_t i = first; i < first + count; i += p.count) {
        p.x = fm_cpu_at(lane, op->in[0], i);
        p.dy = fm_cpu_at(lane, op->in[1], i);
        p.dx = fm_cpu_at(lane, op->out[0], i);
        lane->k->norm_grad(&p);
    }
}

void fm_cpu_batch_norm_infer(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                             int64_t count)
{
    const struct fm_op *op = task->op;
    const float *gamma = fm_cpu_whole(lane, op->in[1]), *variance = fm_cpu_whole(lane, op->in[4]);
    const struct work w = work_of(task, lane);
    struct fm_norm_pass p = pass_of(op, count);
    for (int64_t c = 0; c < op->in_channels; c++)
        w.scale[c] =
            (float)(1 / sqrt((double)variance[c] + op->norm.epsilon) * (gamma ? (double)gamma[c] : 1));
    p.x = fm_cpu_at(lane, op->in[0], first);
    p.y = fm_cpu_at(lane, op->out[0], first);
    p.xstride = fm_cpu_stride(lane, op->in[0]);
    p.ystride = fm_cpu_stride(lane, op->out[0]);
    p.mean = fm_cpu_whole(lane, op->in[3]);
    p.scale = w.scale;
    p.beta = fm_cpu_whole(lane, op->in[2]);
    lane->k->norm_apply(&p);
}

void fm_cpu_batch_norm_moving(const struct fm_op *op, struct fm_cpu_lane *lane)
{
    const float keep = (float)op->norm.momentum, take = (float)(1 - op->norm.momentum);
    for (int s = 0; s < 2; s++) {
        const float *batch = fm_cpu_whole(lane, op->in[s]);
        float *moving = fm_cpu_whole(lane, op->out[s]);
        for (int64_t c = 0; c < op->in_channels; c++) moving[c] = moving[c] * keep + batch[c] * take;
    }
}

/* ---- layer normalization ---- */

void fm_cpu_layer_norm(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    const struct fm_op *op = task->op;
    const bool kept = op->out[1] >= 0 && op->out[2] >= 0;
    lane->k->layer_norm(
        &(struct fm_layer_norm_pass){.count = count,
                                     .rows = op->in_rows,
                                     .channels = op->in_channels,
                                     .epsilon = (float)op->norm.epsilon,
                                     .x = fm_cpu_at(lane, op->in[0], first),
                                     .gamma = fm_cpu_whole(lane, op->in[1]),
                                     .beta = fm_cpu_whole(lane, op->in[2]),
                                     .y = fm_cpu_at(lane, op->out[0], first),
                                     .mean = kept ? fm_cpu_at(lane, op->out[1], first) : NULL,
                                     .inverse = kept ? fm_cpu_at(lane, op->out[2], first) : NULL,
                                     .xstride = fm_cpu_stride(lane, op->in[0]),
                                     .ystride = fm_cpu_stride(lane, op->out[0]),
                                     .statstride = kept ? fm_cpu_stride(lane, op->out[1]) : 0});
}

void fm_cpu_layer_norm_grad(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                            int64_t count)
{
    const struct fm_op *op = task->op;
    const bool dx = op->out[0] >= 0;
    lane->k->layer_norm_grad(
        &(struct fm_layer_norm_pass){.count = count,
                                     .rows = op->in_rows,
                                     .channels = op->in_channels,
                                     .acc = op->accumulate,
                                     .epsilon = (float)op->norm.epsilon,
                                     .x = fm_cpu_at(lane, op->in[0], first),
                                     .dy = fm_cpu_at(lane, op->in[1], first),
                                     .gamma = fm_cpu_whole(lane, op->in[2]),
                                     .mean = fm_cpu_at(lane, op->in[3], first),
                                     .inverse = fm_cpu_at(lane, op->in[4], first),
                                     .dx = dx ? fm_cpu_at(lane, op->out[0], first) : NULL,
                                     .dgamma = fm_cpu_whole(lane, op->out[1]),
                                     .dbeta = fm_cpu_whole(lane, op->out[2]),
                                     .xstride = fm_cpu_stride(lane, op->in[0]),
                                     .ystride = fm_cpu_stride(lane, op->in[1]),
                                     .dxstride = dx ? fm_cpu_stride(lane, op->out[0]) : 0,
                                     .statstride = fm_cpu_stride(lane, op->in[3])});
}
