/* The plan as a person reads it: slices, memory, tasks. */
#include <inttypes.h>

#include "engine/cpu/cpu.h"

#include "net/print.h"

static void print_shape(const struct fm_cpu_plan *plan, const struct fm_cpu_task *task, struct fm_text *text)
{
    const struct fm_op *op = task->op;
    fm_text_add(text, "%" PRId64 " x %" PRId64 " -> %" PRId64 " x %" PRId64, op->in_rows, op->in_channels,
                op->out_rows, op->out_channels);
    if (op->code == FM_OP_CONV1D || op->code == FM_OP_CONV1D_WEIGHT_GRAD ||
        op->code == FM_OP_CONV1D_INPUT_GRAD)
        fm_text_add(text, ", %" PRId64 " taps", op->conv.taps);
    const bool dense =
        op->code == FM_OP_DENSE || op->code == FM_OP_DENSE_WEIGHT_GRAD || op->code == FM_OP_DENSE_INPUT_GRAD;
    if (dense && fm_cpu_dense_is_turned(op)) fm_text_add_string(text, ", kernel turned");
    if (task->act && task->run != fm_cpu_head)
        fm_text_add(text, ", with %s", fm_activation_name(task->act->activation.kind));
    if (task->pool && task->run != fm_cpu_head)
        fm_text_add(text, ", with max pool %" PRId64, task->pool->pool.size);
    if (task->micro < plan->slice)
        fm_text_add(text, ", %" PRId64 " example%s at a time", task->micro, task->micro == 1 ? "" : "s");
    if (task->whole) fm_text_add_string(text, ", over the whole batch");
}

static void print_tasks(const struct fm_cpu_plan *plan, const char *title, int first, int end,
                        struct fm_text *text)
{
    if (first < end) fm_text_add(text, "  %s\n", title);
    for (int i = first; i < end; i++) {
        const struct fm_cpu_task *task = &plan->tasks[i];
        const int layer = task->op->layer;
        fm_text_add(text, "    %-22s ", task->name);
        print_shape(plan, task, text);
        if (layer >= 0) fm_text_add(text, "  (%s)", plan->program->layers[layer].path);
        fm_text_add_string(text, "\n");
    }
}

void fm_cpu_plan_print(const struct fm_cpu_plan *plan, struct fm_text *text)
{
    const int64_t slices = (plan->batch + plan->slice - 1) / plan->slice;
    fm_text_add(text,
                "  %s (%s), batch %" PRId64 " in %" PRId64 " slice%s of %" PRId64 ", %" PRId64
                " bytes an example, arena of %" PRId64 " bytes\n",
                plan->kernels->name, plan->kernels->numbers, plan->batch, slices, slices == 1 ? "" : "s",
                plan->slice, plan->example_bytes, plan->arena);
    if (plan->staged)
        fm_text_add_string(text, "  tensors hold the whole batch: batch normalization spans it\n");
    print_tasks(plan, "once a step", 0, plan->train_first, text);
    print_tasks(plan, "each slice, forward and backward", plan->train_first, plan->evaluate_first, text);
    fm_text_add_string(text, "  once a step: norm and finite check, clip, optimizer\n");
    fm_text_add(text, "  evaluation, %" PRId64 " examples at a time\n", plan->chunk);
    print_tasks(plan, "each chunk", plan->evaluate_first, plan->ntasks, text);
}
