/* Where everything lies in a lane's arena, and how the batch is cut. */
#include "engine/cpu/cpu.h"

#include "base/memory.h"

#define MAX_BYTES FM_HOST_MAX_BYTES

static int too_large(const struct fm_cpu_plan *plan, struct fm_error *err)
{
    return fm_fail(err, FM_ENOMEM, "the network at batch size %lld is larger than any memory",
                   (long long)plan->batch);
}

static bool works_in_place(const struct fm_op *op)
{
    return op->code == FM_OP_ACTIVATION || op->code == FM_OP_ACTIVATION_GRAD || op->code == FM_OP_DROPOUT ||
           op->code == FM_OP_DROPOUT_GRAD || op->code == FM_OP_BATCH_NORM_INFER;
}

/* An operation works in place when nothing reads its input afterwards and its output is new. */
static void share(struct fm_cpu_plan *plan)
{
    const struct fm_program *p = plan->program;
    for (int t = 0; t < p->ntensors; t++) plan->places[t].root = t;
    for (int i = 0; i < p->nops; i++) {
        const struct fm_op *op = &p->ops[i];
        if (!works_in_place(op) || op->accumulate) continue;
        const struct fm_tensor *in = &p->tensors[op->in[0]], *out = &p->tensors[op->out[0]];
        if (in->kind == FM_TENSOR_ACTIVATION && in->last_op == i && out->first_op == i &&
            in->rows * in->channels == out->rows * out->channels)
            plan->places[op->out[0]].root = plan->places[op->in[0]].root;
    }
}

static struct fm_cpu_place *touch(struct fm_cpu_plan *plan, int tensor)
{
    if (tensor < 0) return NULL;
    struct fm_cpu_place *place = &plan->places[plan->places[tensor].root];
    place->used = true;
    return place;
}

static void touch_op(struct fm_cpu_plan *plan, const struct fm_op *op)
{
    for (int k = 0; op && k < FM_OP_INPUTS; k++) touch(plan, op->in[k]);
    for (int k = 0; op && k < FM_OP_OUTPUTS; k++) touch(plan, op->out[k]);
}

static void widen(struct fm_cpu_place *place, int64_t before, int64_t after)
{
    if (before > place->before) place->before = before;
    if (after > place->after) place->after = after;
}

/* What a task reads and writes, and how far beyond a tensor's ends. */
static void touch_task(struct fm_cpu_plan *plan, const struct fm_cpu_task *task)
{
    const struct fm_op *op = task->op;
    if (task->run == fm_cpu_conv_pool) {
        touch(plan, op->in[0]);
        touch(plan, task->pool->out[0]);
        touch(plan, task->pool->out[1]);
    } else if (task->run == fm_cpu_conv_pool_grad) {
        touch(plan, op->in[0]);
        touch(plan, task->pool->in[0]);
        touch(plan, task->pool->in[1]);
    } else {
        touch_op(plan, op);
        touch_op(plan, task->act);
        touch_op(plan, task->scores);
        touch_op(plan, task->grad);
    }
    if (op->code == FM_OP_CONV1D && !op->conv.letters) {
        const int64_t last = (op->out_rows - 1) * op->conv.stride + (op->conv.taps - 1) * op->conv.dilation;
        widen(touch(plan, op->in[0]), op->conv.pad_before, last - op->conv.pad_before - (op->in_rows - 1));
    } else if (op->code == FM_OP_CONV1D_INPUT_GRAD && !fm_cpu_conv_is_narrow(op)) {
        int64_t before, after;
        fm_cpu_conv_grad_halo(op, &before, &after);
        widen(touch(plan, op->in[0]), before, after);
    }
}

static int64_t type_size(const struct fm_tensor *t)
{
    return t->type == FM_U8 ? 1 : 4;
}

static bool in_evaluate(const struct fm_program *p, const struct fm_tensor *t)
{
    return t->first_op >= p->section_first[FM_SECTION_EVALUATE];
}

/* Parameters, their gradients and state lie elsewhere. */
static bool in_arena(const struct fm_cpu_plan *plan, int t)
{
    const enum fm_tensor_kind kind = plan->program->tensors[t].kind;
    return plan->places[t].root == t && plan->places[t].used && kind != FM_TENSOR_PARAMETER &&
           kind != FM_TENSOR_STATE && kind != FM_TENSOR_GRADIENT;
}

static bool per_example(const struct fm_tensor *t)
{
    return t->kind == FM_TENSOR_INPUT || t->kind == FM_TENSOR_ACTIVATION || t->kind == FM_TENSOR_REPORT;
}

static int set_strides(struct fm_cpu_plan *plan, int64_t *train, int64_t *evaluate, struct fm_error *err)
{
    const struct fm_program *p = plan->program;
    *train = *evaluate = 1;
    for (int t = 0; t < p->ntensors; t++) {
        const struct fm_tensor *tensor = &p->tensors[t];
        struct fm_cpu_place *place = &plan->places[t];
        if (!in_arena(plan, t)) continue;
        const int64_t rows = tensor->rows + place->before + place->after;
        if (rows > MAX_BYTES || !fm_multiply(rows, tensor->channels, &place->stride) ||
            place->stride > MAX_BYTES / 8)
            return too_large(plan, err);
        if (!per_example(tensor)) continue;
        *(in_evaluate(p, tensor) ? evaluate : train) += place->stride * type_size(tensor);
        if (*train > MAX_BYTES || *evaluate > MAX_BYTES) return too_large(plan, err);
    }
    return 0;
}

/* Equal slices that fit the cache; multiples of four examples unless tiny. */
static int64_t cut(const struct fm_cpu_plan *plan, int64_t count, int64_t bytes)
{
    int64_t fit = plan->slice_bytes / bytes;
    if (fit < 1) fit = 1;
    const int64_t slices = (count + fit - 1) / fit;
    int64_t slice = (count + slices - 1) / slices;
    if (slice > 4) slice = (slice + 3) / 4 * 4;
    return slice < count ? slice : count;
}

int64_t fm_cpu_plan_room(struct fm_cpu_plan *plan, int64_t bytes)
{
    const int64_t at = plan->arena + plan->guard;
    plan->rooms[plan->nrooms++] = (struct fm_cpu_room){at, bytes};
    plan->arena = at + (bytes + FM_CPU_ALIGN - 1) / FM_CPU_ALIGN * FM_CPU_ALIGN;
    return at;
}

static int place_tensors(struct fm_cpu_plan *plan, struct fm_error *err)
{
    const struct fm_program *p = plan->program;
    for (int t = 0; t < p->ntensors; t++) {
        const struct fm_tensor *tensor = &p->tensors[t];
        struct fm_cpu_place *place = &plan->places[t];
        if (!in_arena(plan, t)) continue;
        place->held = !per_example(tensor)     ? 1
                      : in_evaluate(p, tensor) ? plan->chunk
                      : plan->staged           ? plan->batch
                                               : plan->slice;
        int64_t bytes;
        if (!fm_multiply(place->stride * type_size(tensor), place->held, &bytes) || bytes > MAX_BYTES)
            return too_large(plan, err);
        /* Some floats behind the last row may be read, not used (kernels.h): the guard's, if there is one. */
        const int64_t room = fm_cpu_plan_room(plan, bytes + (plan->guard ? 0 : FM_CPU_ALIGN));
        place->offset = room + place->before * tensor->channels * type_size(tensor);
        if (plan->arena > MAX_BYTES) return too_large(plan, err);
    }
    return 0;
}

static int64_t scratch_bytes(const struct fm_cpu_task *task)
{
    const struct fm_op *op = task->op;
    if (task->run == fm_cpu_dense_turn) return op->in_channels * op->out_channels * (int64_t)sizeof(float);
    if (task->run == fm_cpu_conv_turn || task->run == fm_cpu_conv_narrow_turn)
        return op->conv.taps * (op->in_channels / op->conv.groups) * op->out_channels *
               (int64_t)sizeof(float);
    if (task->run == fm_cpu_batch_norm_sums || task->run == fm_cpu_batch_norm_grad_sums ||
        task->run == fm_cpu_batch_norm_infer)
        return fm_cpu_batch_norm_scratch(op);
    return 0;
}

static struct fm_cpu_task *same_scratch(struct fm_cpu_plan *plan, const struct fm_cpu_task *task)
{
    for (struct fm_cpu_task *other = plan->tasks; other < task; other++) {
        const bool turned =
            (other->run == fm_cpu_dense_turn && task->run == fm_cpu_dense_input_grad) ||
            (other->run == fm_cpu_conv_turn && task->run == fm_cpu_conv_input_grad) ||
            (other->run == fm_cpu_conv_narrow_turn && task->run == fm_cpu_conv_narrow_input_grad);
        const bool forward = other->run == fm_cpu_batch_norm_sums && task->run == fm_cpu_batch_norm;
        const bool backward =
            other->run == fm_cpu_batch_norm_grad_sums && task->run == fm_cpu_batch_norm_grad;
        if (other->op == task->op && (turned || forward || backward)) return other;
    }
    return NULL;
}

static int place_scratch(struct fm_cpu_plan *plan, struct fm_error *err)
{
    for (int i = 0; i < plan->ntasks; i++) {
        struct fm_cpu_task *task = &plan->tasks[i];
        const int64_t bytes = scratch_bytes(task);
        const struct fm_cpu_task *other = same_scratch(plan, task);
        if (bytes > 0) task->scratch = fm_cpu_plan_room(plan, bytes);
        if (other) task->scratch = other->scratch;
        if (bytes > MAX_BYTES || plan->arena > MAX_BYTES) return too_large(plan, err);
    }
    return 0;
}

int fm_cpu_plan_place(struct fm_cpu_plan *plan, struct fm_error *err)
{
    int64_t train, evaluate;
    share(plan);
    for (int i = 0; i < plan->ntasks; i++) touch_task(plan, &plan->tasks[i]);
    int status = set_strides(plan, &train, &evaluate, err);
    if (status) return status;
    plan->example_bytes = train;
    plan->slice = cut(plan, plan->batch, train);
    plan->chunk = cut(plan, FM_CPU_CHUNK, evaluate);
    plan->gradients = fm_cpu_plan_room(plan, plan->extent * (int64_t)sizeof(float));
    status = place_tensors(plan, err);
    if (!status) status = place_scratch(plan, err);
    plan->arena += plan->guard;
    return status;
}
