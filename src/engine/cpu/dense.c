/* Dense layers over every row of channels (semantics.md 1.3). All three products run along the wider side: a
 * kernel with more inputs than units is stored turned, [units][in] (cpu_kernels.md, "what made the
 * difference"). Letters are flattened one-hot rows, and their kernel's rows are added up. */
#include "engine/cpu/cpu.h"

bool fm_cpu_dense_is_turned(const struct fm_op *dense)
{
    return !dense->dense.letters && dense->in_channels > dense->out_channels;
}

/* Every row of `a` (k wide) of some examples times a kernel gives a row of `c` (n wide). */
struct sides {
    int64_t k, n;
    const float *a, *kernel, *bias; /* bias may be NULL */
    float *c;
    int64_t astride, cstride; /* from one example to the next */
};

/* across: the kernel's rows are the columns of the result, [n][k]. A layer over one row an example is one
 * matrix over the batch; over several, one an example. relu is for `across`. */
static void multiply(const struct fm_op *op, const struct fm_cpu_lane *lane, int64_t count,
                     const struct sides *s, bool across, bool relu)
{
    const bool one = op->in_rows == 1;
    const int64_t groups = one ? 1 : count, m = one ? count : op->in_rows;
    const int64_t am = one ? s->astride : s->k, cm = one ? s->cstride : s->n;
    if (across)
        lane->k->dots(&(struct fm_dots){.groups = groups,
                                        .m = m,
                                        .n = s->n,
                                        .k = s->k,
                                        .relu = relu,
                                        .acc = op->accumulate,
                                        .a = s->a,
                                        .b = s->kernel,
                                        .bias = s->bias,
                                        .c = s->c,
                                        .ag = s->astride,
                                        .am = am,
                                        .bn = s->k,
                                        .cg = s->cstride,
                                        .cm = cm});
    else
        lane->k->product(&(struct fm_product){.groups = groups,
                                              .m = m,
                                              .n = s->n,
                                              .k1 = 1,
                                              .k2 = s->k,
                                              .acc = op->accumulate,
                                              .a = s->a,
                                              .b = s->kernel,
                                              .bias = s->bias,
                                              .c = s->c,
                                              .ag = s->astride,
                                              .am = am,
                                              .ak2 = 1,
                                              .bk2 = s->n,
                                              .cg = s->cstride,
                                              .cm = cm});
}

static struct fm_letters letters_view(const struct fm_op *op, const struct fm_cpu_lane *lane, int64_t first,
                                      int64_t count)
{
    const int64_t places = op->in_channels / op->dense.alphabet;
    return (struct fm_letters){.count = count,
                               .out_rows = op->in_rows,
                               .in_rows = op->in_rows * places,
                               .taps = places,
                               .stride = places,
                               .dilation = 1,
                               .alphabet = op->dense.alphabet,
                               .n = op->out_channels,
                               .acc = op->accumulate,
                               .x = fm_cpu_bytes_at(lane, op->in[0], first),
                               .xstride = fm_cpu_stride(lane, op->in[0])};
}

static void forward_letters(const struct fm_op *op, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    struct fm_letters l = letters_view(op, lane, first, count);
    l.w = fm_cpu_whole(lane, op->in[1]);
    l.bias = fm_cpu_whole(lane, op->in[2]);
    l.y = fm_cpu_at(lane, op->out[0], first);
    l.ystride = fm_cpu_stride(lane, op->out[0]);
    lane->k->letters(&l);
}

static void forward(const struct fm_op *op, const struct fm_op *act, struct fm_cpu_lane *lane, int64_t first,
                    int64_t count)
{
    const bool turned = fm_cpu_dense_is_turned(op);
    const bool relu = turned && act && act->activation.kind == FM_ACT_RELU && !op->accumulate;
    const struct sides s = {.k = op->in_channels,
                            .n = op->out_channels,
                            .a = fm_cpu_at(lane, op->in[0], first),
                            .kernel = fm_cpu_whole(lane, op->in[1]),
                            .bias = fm_cpu_whole(lane, op->in[2]),
                            .c = fm_cpu_at(lane, op->out[0], first),
                            .astride = fm_cpu_stride(lane, op->in[0]),
                            .cstride = fm_cpu_stride(lane, op->out[0])};
    multiply(op, lane, count, &s, turned, relu);
    if (act && !relu) fm_cpu_activate(act, lane, first, count);
}

void fm_cpu_dense(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    if (!task->op->dense.letters) {
        forward(task->op, task->act, lane, first, count);
        return;
    }
    forward_letters(task->op, lane, first, count);
    if (task->act) fm_cpu_activate(task->act, lane, first, count);
}

/* dkernel is stored as the kernel is. */
void fm_cpu_dense_weight_grad(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                              int64_t count)
{
    const struct fm_op *op = task->op;
    const int64_t in = op->in_channels, out = op->out_channels;
    const int64_t xstride = fm_cpu_stride(lane, op->in[0]), dystride = fm_cpu_stride(lane, op->in[1]);
    const float *dy = fm_cpu_at(lane, op->in[1], first);
    float *dkernel = fm_cpu_whole(lane, op->out[0]), *dbias = fm_cpu_whole(lane, op->out[1]);
    if (dbias) lane->k->column_sums(count, op->in_rows, out, dy, dystride, dbias);
    if (op->dense.letters) {
        struct fm_letters l = letters_view(op, lane, first, count);
        l.y = fm_cpu_at(lane, op->in[1], first);
        l.ystride = dystride;
        l.dw = dkernel;
        lane->k->letters_grad(&l);
        return;
    }
    const float *x = fm_cpu_at(lane, op->in[0], first);
    const bool turned = fm_cpu_dense_is_turned(op);
    lane->k->product(&(struct fm_product){.groups = 1,
                                          .m = turned ? out : in,
                                          .n = turned ? in : out,
                                          .k1 = count,
                                          .k2 = op->in_rows,
                                          .acc = op->accumulate || lane->place > 0,
                                          .a = turned ? dy : x,
                                          .b = turned ? x : dy,
                                          .c = dkernel,
                                          .am = 1,
                                          .ak1 = turned ? dystride : xstride,
                                          .ak2 = turned ? out : in,
                                          .bk1 = turned ? xstride : dystride,
                                          .bk2 = turned ? in : out,
                                          .cm = turned ? in : out});
}

/* A kernel that is not stored turned makes rows times rows of the input gradient; over many rows it is turned
 * once a step instead. */
#define MANY_ROWS 64

bool fm_cpu_dense_turns(const struct fm_op *dense, int64_t batch)
{
    return !dense->dense.letters && !fm_cpu_dense_is_turned(dense) && dense->in_channels >= 16 &&
           (dense->in_rows >= MANY_ROWS || batch >= MANY_ROWS || dense->in_rows * batch >= MANY_ROWS);
}

void fm_cpu_dense_turn(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    (void)first;
    (void)count;
    const struct fm_op *op = task->op;
    lane->k->transpose(op->in_channels, op->out_channels, fm_cpu_whole(lane, op->in[1]), op->out_channels,
                       (float *)(lane->arena + task->scratch), op->in_channels);
}

static void input_grad(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    const struct fm_op *op = task->op;
    const bool made = task->scratch >= 0;
    const struct sides s = {.k = op->out_channels,
                            .n = op->in_channels,
                            .a = fm_cpu_at(lane, op->in[0], first),
                            .kernel = made ? (const float *)(lane->arena + task->scratch)
                                           : fm_cpu_whole(lane, op->in[1]),
                            .c = fm_cpu_at(lane, op->out[0], first),
                            .astride = fm_cpu_stride(lane, op->in[0]),
                            .cstride = fm_cpu_stride(lane, op->out[0])};
    multiply(op, lane, count, &s, !made && !fm_cpu_dense_is_turned(op), false);
}

void fm_cpu_dense_input_grad(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first,
                             int64_t count)
{
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < task->micro ? count - i : task->micro;
        input_grad(task, lane, first + i, n);
        if (task->act) fm_cpu_activate_grad(task->act, lane, first + i, n);
    }
}
