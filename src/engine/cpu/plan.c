/* From a program's operations to tasks: which are done together, by which routine, in which order. */
#include "engine/cpu/cpu.h"

#include <string.h>

#include "base/memory.h"

struct fm_cpu_task *fm_cpu_plan_add(struct fm_cpu_plan *plan, const char *name, const struct fm_op *op)
{
    struct fm_cpu_task *task = &plan->tasks[plan->ntasks++];
    *task = (struct fm_cpu_task){.name = name, .op = op, .micro = INT64_MAX, .scratch = -1};
    return task;
}

static const struct fm_op *next_in_group(const struct fm_program *p, int at, enum fm_opcode code)
{
    if (at + 1 >= p->nops || p->ops[at].group < 0) return NULL;
    const struct fm_op *next = &p->ops[at + 1];
    return next->group == p->ops[at].group && next->code == code ? next : NULL;
}

static void fuse_activation(struct fm_cpu_task *task, const struct fm_op *act, int64_t rows, int64_t channels)
{
    task->act = act;
    task->micro = FM_CPU_MICRO_BYTES / (rows * channels * (int64_t)sizeof(float));
    if (task->micro < 1) task->micro = 1;
}

/* Convolution, with what follows it where that is done in one go; gives how many operations were taken. */
static int add_conv(struct fm_cpu_plan *plan, int at)
{
    const struct fm_program *p = plan->program;
    const struct fm_op *op = &p->ops[at], *act = next_in_group(p, at, FM_OP_ACTIVATION);
    const struct fm_op *pool = next_in_group(p, at + (act != NULL), FM_OP_POOL);
    if (pool && fm_cpu_conv_pool_fits(op, act, pool)) {
        struct fm_cpu_task *task = fm_cpu_plan_add(plan, "conv_pool", op);
        task->run = fm_cpu_conv_pool;
        task->act = act;
        task->pool = pool;
        return act ? 3 : 2;
    }
    const bool narrow = fm_cpu_conv_is_narrow(op);
    struct fm_cpu_task *task = fm_cpu_plan_add(plan,
                                               op->conv.letters ? "letters"
                                               : narrow         ? "conv_narrow"
                                                                : "conv",
                                               op);
    task->run = op->conv.letters ? fm_cpu_conv_letters : narrow ? fm_cpu_conv_narrow : fm_cpu_conv;
    if (act) fuse_activation(task, act, op->out_rows, op->out_channels);
    return act ? 2 : 1;
}

static int add_dense(struct fm_cpu_plan *plan, int at)
{
    const struct fm_program *p = plan->program;
    const struct fm_op *op = &p->ops[at], *act = next_in_group(p, at, FM_OP_ACTIVATION);
    struct fm_cpu_task *task = fm_cpu_plan_add(plan, op->dense.letters ? "dense_letters" : "dense", op);
    task->run = fm_cpu_dense;
    if (act) fuse_activation(task, act, op->out_rows, op->out_channels);
    return act ? 2 : 1;
}

/* The forward task that fused the pool whose winners are `winner`, or NULL. */
static const struct fm_cpu_task *fused_pool(const struct fm_cpu_plan *plan, int winner)
{
    for (int i = plan->train_first; winner >= 0 && i < plan->ntasks; i++)
        if (plan->tasks[i].pool && plan->tasks[i].pool->out[1] == winner) return &plan->tasks[i];
    return NULL;
}

/* After a fused convolution the winners also say where relu was 0, so its gradient is in theirs: the
 * activation's gradient is left out, whose input and output share their memory (places.c). Where the
 * convolution reads one channel and needs no input gradient, its weights' gradient comes from the winners. */
static int add_pool_grad(struct fm_cpu_plan *plan, int at)
{
    const struct fm_program *p = plan->program;
    const struct fm_op *op = &p->ops[at];
    const struct fm_cpu_task *forward = fused_pool(plan, op->in[1]);
    int taken = 1;
    if (forward && forward->act) taken = 2;
    if (forward && fm_cpu_conv_pool_grad_fits(forward->op, forward->pool) && !op->accumulate) {
        const int last = at + taken;
        const bool only = last + 1 >= p->nops || p->ops[last + 1].code != FM_OP_CONV1D_INPUT_GRAD ||
                          p->ops[last + 1].in[0] != p->ops[last].in[1];
        if (only && p->ops[last].code == FM_OP_CONV1D_WEIGHT_GRAD) {
            struct fm_cpu_task *task = fm_cpu_plan_add(plan, "conv_pool_grad", &p->ops[last]);
            task->run = fm_cpu_conv_pool_grad;
            task->pool = op;
            return taken + 1;
        }
    }
    struct fm_cpu_task *task = fm_cpu_plan_add(plan, "pool_grad", op);
    task->run = fm_cpu_pool_grad;
    const struct fm_op *act = forward ? NULL : next_in_group(p, at, FM_OP_ACTIVATION_GRAD);
    if (act) fuse_activation(task, act, op->in_rows, op->in_channels);
    return act ? 2 : taken;
}

static int add_input_grad(struct fm_cpu_plan *plan, int at)
{
    const struct fm_program *p = plan->program;
    const struct fm_op *op = &p->ops[at], *act = next_in_group(p, at, FM_OP_ACTIVATION_GRAD);
    const bool dense = op->code == FM_OP_DENSE_INPUT_GRAD, narrow = !dense && fm_cpu_conv_is_narrow(op);
    struct fm_cpu_task *task = fm_cpu_plan_add(plan,
                                               dense    ? "dense_input_grad"
                                               : narrow ? "conv_narrow_input_grad"
                                                        : "conv_input_grad",
                                               op);
    task->run = dense    ? fm_cpu_dense_input_grad
                : narrow ? fm_cpu_conv_narrow_input_grad
                         : fm_cpu_conv_input_grad;
    if (act) fuse_activation(task, act, op->in_rows, op->in_channels);
    return act ? 2 : 1;
}

static void add_simple(struct fm_cpu_plan *plan, const struct fm_op *op, const char *name, fm_cpu_run *run)
{
    fm_cpu_plan_add(plan, name, op)->run = run;
}

/* Sums over the batch first, then the slices. */
static void add_batch_norm(struct fm_cpu_plan *plan, const struct fm_op *op, fm_cpu_run *sums,
                           fm_cpu_run *run)
{
    const bool backward = op->code == FM_OP_BATCH_NORM_GRAD;
    struct fm_cpu_task *task = fm_cpu_plan_add(plan, backward ? "norm_grad_sums" : "norm_sums", op);
    task->run = sums;
    task->whole = true;
    if (backward && op->out[0] < 0) return;
    fm_cpu_plan_add(plan, backward ? "norm_grad" : "norm", op)->run = run;
}

/* The loss, its gradient and the scores come together: outputs of the operations that follow. */
static int add_head(struct fm_cpu_plan *plan, int at)
{
    const struct fm_program *p = plan->program;
    const bool scores = at + 1 < p->nops && p->ops[at + 1].code == FM_OP_SCORES;
    struct fm_cpu_task *task = fm_cpu_plan_add(plan, scores ? "loss_scores" : "loss", &p->ops[at]);
    task->run = fm_cpu_head;
    if (scores) task->scores = &p->ops[at + 1];
    for (int i = at; p->ops[at].section == FM_SECTION_FORWARD && i < p->nops; i++)
        if (p->ops[i].code == FM_OP_LOSS_GRAD) task->grad = &p->ops[i];
    return scores ? 2 : 1;
}

static int add_op(struct fm_cpu_plan *plan, int at)
{
    const struct fm_op *op = &plan->program->ops[at];
    switch (op->code) {
    case FM_OP_GATHER: add_simple(plan, op, "gather", fm_cpu_gather); return 1;
    case FM_OP_ONEHOT: add_simple(plan, op, "onehot", fm_cpu_onehot); return 1;
    case FM_OP_CONV1D: return add_conv(plan, at);
    case FM_OP_CONV1D_WEIGHT_GRAD:
        if (op->conv.letters)
            add_simple(plan, op, "letters_grad", fm_cpu_conv_letters_grad);
        else if (fm_cpu_conv_is_narrow(op))
            add_simple(plan, op, "conv_narrow_weight_grad", fm_cpu_conv_narrow_weight_grad);
        else
            add_simple(plan, op, "conv_weight_grad", fm_cpu_conv_weight_grad);
        return 1;
    case FM_OP_CONV1D_INPUT_GRAD:
    case FM_OP_DENSE_INPUT_GRAD: return add_input_grad(plan, at);
    case FM_OP_DENSE: return add_dense(plan, at);
    case FM_OP_DENSE_WEIGHT_GRAD:
        add_simple(plan, op, "dense_weight_grad", fm_cpu_dense_weight_grad);
        return 1;
    case FM_OP_POOL: add_simple(plan, op, "pool", fm_cpu_pool); return 1;
    case FM_OP_POOL_GRAD: return add_pool_grad(plan, at);
    case FM_OP_ACTIVATION: add_simple(plan, op, "activation", fm_cpu_activation); return 1;
    case FM_OP_ACTIVATION_GRAD: add_simple(plan, op, "activation_grad", fm_cpu_activation_grad); return 1;
    case FM_OP_BATCH_NORM: add_batch_norm(plan, op, fm_cpu_batch_norm_sums, fm_cpu_batch_norm); return 1;
    case FM_OP_BATCH_NORM_GRAD:
        add_batch_norm(plan, op, fm_cpu_batch_norm_grad_sums, fm_cpu_batch_norm_grad);
        return 1;
    case FM_OP_BATCH_NORM_INFER: add_simple(plan, op, "norm", fm_cpu_batch_norm_infer); return 1;
    case FM_OP_LAYER_NORM: add_simple(plan, op, "layer_norm", fm_cpu_layer_norm); return 1;
    case FM_OP_LAYER_NORM_GRAD: add_simple(plan, op, "layer_norm_grad", fm_cpu_layer_norm_grad); return 1;
    case FM_OP_DROPOUT: add_simple(plan, op, "dropout", fm_cpu_dropout); return 1;
    case FM_OP_DROPOUT_GRAD: add_simple(plan, op, "dropout_grad", fm_cpu_dropout); return 1;
    case FM_OP_LOSS: return add_head(plan, at);
    default: return 1; /* LOSS_GRAD belongs to the head; the update is not cut into tasks */
    }
}

/* Kernels that input gradients read turned, once a step. */
static void add_prepare(struct fm_cpu_plan *plan)
{
    const struct fm_program *p = plan->program;
    for (int i = p->section_first[FM_SECTION_BACKWARD]; i < p->section_first[FM_SECTION_UPDATE]; i++) {
        const struct fm_op *op = &p->ops[i];
        if (op->code == FM_OP_DENSE_INPUT_GRAD && fm_cpu_dense_turns(op, plan->batch))
            add_simple(plan, op, "turn_kernel", fm_cpu_dense_turn);
        if (op->code != FM_OP_CONV1D_INPUT_GRAD) continue;
        if (!fm_cpu_conv_is_narrow(op))
            add_simple(plan, op, "turn_kernel", fm_cpu_conv_turn);
        else if (fm_cpu_conv_narrow_turns(op))
            add_simple(plan, op, "turn_kernel", fm_cpu_conv_narrow_turn);
    }
}

static void add_sections(struct fm_cpu_plan *plan)
{
    const struct fm_program *p = plan->program;
    add_prepare(plan);
    plan->train_first = plan->ntasks;
    for (int i = 0; i < p->section_first[FM_SECTION_UPDATE];) i += add_op(plan, i);
    plan->evaluate_first = plan->ntasks;
    for (int i = p->section_first[FM_SECTION_EVALUATE]; i < p->section_first[FM_SECTION_EVALUATE + 1];)
        i += add_op(plan, i);
    for (int i = plan->train_first; i < plan->evaluate_first; i++) plan->staged |= plan->tasks[i].whole;
    for (int i = 0; i < p->nops; i++) plan->regularized |= p->ops[i].code == FM_OP_REGULARIZE;
}

static void clear(struct fm_cpu_plan *plan, int gradient)
{
    for (int v = 0; gradient >= 0 && v < plan->program->nvariables; v++)
        if (plan->program->variables[v].gradient == gradient) plan->variables[v].cleared = true;
}

/* Biases and whatever else is not the result of one product. */
static void mark_cleared(struct fm_cpu_plan *plan)
{
    for (int i = plan->train_first; i < plan->evaluate_first; i++) {
        const struct fm_cpu_task *task = &plan->tasks[i];
        const bool product = task->run == fm_cpu_conv_weight_grad ||
                             (task->run == fm_cpu_dense_weight_grad && !task->op->dense.letters);
        if (product || task->run == fm_cpu_dense_weight_grad || task->run == fm_cpu_conv_letters_grad ||
            task->run == fm_cpu_conv_pool_grad || task->run == fm_cpu_conv_narrow_weight_grad) {
            if (!product) clear(plan, task->op->out[0]);
            clear(plan, task->op->out[1]);
        } else if (task->run == fm_cpu_layer_norm_grad) {
            clear(plan, task->op->out[1]);
            clear(plan, task->op->out[2]);
        }
    }
}

static void place_variables(struct fm_cpu_plan *plan)
{
    const struct fm_program *p = plan->program;
    for (int v = 0; v < p->nvariables; v++) {
        plan->variables[v].offset = plan->extent;
        plan->extent += (p->variables[v].count + 15) / 16 * 16;
    }
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].code == FM_OP_DENSE && fm_cpu_dense_is_turned(&p->ops[i]))
            plan->variables[p->tensors[p->ops[i].in[1]].variable].turned = true;
}

int fm_cpu_plan_init(struct fm_cpu_plan *plan, const struct fm_program *program, int64_t batch,
                     const struct fm_kernels *kernels, const struct fm_device_options *options,
                     struct fm_error *err)
{
    *plan = (struct fm_cpu_plan){.program = program,
                                 .kernels = kernels,
                                 .batch = batch,
                                 .guard = (options->guard + 63) / 64 * 64,
                                 .slice_bytes = options->slice > 0 ? options->slice : FM_CPU_SLICE_BYTES};
    plan->places = fm_calloc((size_t)program->ntensors, sizeof *plan->places);
    plan->variables = fm_calloc((size_t)program->nvariables, sizeof *plan->variables);
    plan->tasks = fm_calloc((size_t)program->nops * 2, sizeof *plan->tasks);
    plan->rooms = fm_calloc((size_t)(program->ntensors + 2 * program->nops + 1), sizeof *plan->rooms);
    int status = 0;
    if (!plan->places || !plan->variables || !plan->tasks || !plan->rooms) status = fm_fail_memory(err);
    if (!status) {
        place_variables(plan);
        add_sections(plan);
        mark_cleared(plan);
        status = fm_cpu_plan_place(plan, err);
    }
    if (status) fm_cpu_plan_fini(plan);
    return status;
}

void fm_cpu_plan_fini(struct fm_cpu_plan *plan)
{
    fm_free(plan->places);
    fm_free(plan->variables);
    fm_free(plan->tasks);
    fm_free(plan->rooms);
    *plan = (struct fm_cpu_plan){0};
}
