/* The plan as a person reads it: slices, memory, tasks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/cpu/cpu.h"

#include "net/print.h"

#define SHAPE_WIDTH 23

struct list {
    const struct fm_cpu_plan *plan;
    struct fm_text *text;
    int name_width, layer_width;
};

static const char *layer_of(const struct list *list, const struct fm_cpu_task *task)
{
    return task->op->layer >= 0 ? list->plan->program->layers[task->op->layer].path : "";
}

/* What a task adds to the end of its line, with commas between. */
static void add_detail(struct fm_text *text, bool *any, const char *detail)
{
    fm_text_add(text, "%s%s", *any ? ", " : "", detail);
    *any = true;
}

static void print_details(const struct list *list, const struct fm_cpu_task *task)
{
    const struct fm_op *op = task->op;
    char detail[96];
    bool any = false;
    if (op->code == FM_OP_CONV1D || op->code == FM_OP_CONV1D_WEIGHT_GRAD ||
        op->code == FM_OP_CONV1D_INPUT_GRAD) {
        snprintf(detail, sizeof detail, "%" PRId64 " tap%s", op->conv.taps, op->conv.taps == 1 ? "" : "s");
        add_detail(list->text, &any, detail);
    }
    const bool dense =
        op->code == FM_OP_DENSE || op->code == FM_OP_DENSE_WEIGHT_GRAD || op->code == FM_OP_DENSE_INPUT_GRAD;
    if (dense && fm_cpu_dense_is_turned(op)) add_detail(list->text, &any, "kernel stored turned");
    if (task->act) {
        snprintf(detail, sizeof detail, "with %s", fm_activation_name(task->act->activation.kind));
        add_detail(list->text, &any, detail);
    }
    if (task->pool) {
        snprintf(detail, sizeof detail, "with max pool of %" PRId64, task->pool->pool.size);
        add_detail(list->text, &any, detail);
    }
    const bool trains = task < list->plan->tasks + list->plan->evaluate_first;
    if (task->micro < (trains ? list->plan->slice : list->plan->chunk)) {
        snprintf(detail, sizeof detail, "%" PRId64 " example%s at a time", task->micro,
                 task->micro == 1 ? "" : "s");
        add_detail(list->text, &any, detail);
    }
    if (task->whole) add_detail(list->text, &any, "over the whole batch");
}

static void print_shape(const struct fm_op *op, char shape[64])
{
    if (op->code == FM_OP_GATHER || (op->in_rows == op->out_rows && op->in_channels == op->out_channels))
        snprintf(shape, 64, "%" PRId64 " x %" PRId64, op->out_rows, op->out_channels);
    else
        snprintf(shape, 64, "%" PRId64 " x %" PRId64 " -> %" PRId64 " x %" PRId64, op->in_rows,
                 op->in_channels, op->out_rows, op->out_channels);
}

/* Every list has the same columns. `flops`: of all its tasks; 0 = what a task takes is not said. */
static void print_tasks(const struct list *list, const char *title, int first, int end, double flops)
{
    const struct fm_cpu_plan *plan = list->plan;
    if (first < end) fm_text_add(list->text, "  %s\n", title);
    for (int i = first; i < end; i++) {
        const struct fm_cpu_task *task = &plan->tasks[i];
        const double own = fm_op_flops(plan->program, task->op);
        char shape[64], share[16] = "";
        const size_t before = list->text->size;
        print_shape(task->op, shape);
        if (flops > 0 && own > 0) snprintf(share, sizeof share, "%.1f %%", 100 * own / flops);
        fm_text_add(list->text, "    %-*s  %-*s  %7s  %-*s  ", list->name_width, task->name, SHAPE_WIDTH,
                    shape, share, list->layer_width, layer_of(list, task));
        print_details(list, task);
        /* No blanks at the ends of lines. */
        struct fm_text *text = list->text;
        while (!text->failed && text->size > before && text->data[text->size - 1] == ' ')
            text->data[--text->size] = '\0';
        fm_text_add_string(list->text, "\n");
    }
}

static void print_head(const struct fm_cpu_plan *plan, struct fm_text *text)
{
    const int64_t slices = (plan->batch + plan->slice - 1) / plan->slice;
    char arena[FM_BYTES_TEXT], example[FM_BYTES_TEXT];
    fm_text_add(text, "  %s, numbers %s; batch of %" PRId64 " in %" PRId64 " slice%s", plan->kernels->name,
                plan->kernels->numbers, plan->batch, slices, slices == 1 ? "" : "s");
    if (slices > 1) fm_text_add(text, " of %" PRId64, plan->slice);
    fm_text_add(text, "\n  an example takes %.3g MFLOP and %s of buffers, a lane %s of buffers\n",
                1e-6 * fm_program_flops(plan->program, true), fm_show_bytes(plan->example_bytes, example),
                fm_show_bytes(plan->arena, arena));
    if (plan->staged)
        fm_text_add_string(text, "  buffers hold the whole batch, because batch normalization spans it\n");
}

static int widest(int width, const char *word)
{
    const int length = (int)strlen(word);
    return length > width ? length : width;
}

void fm_cpu_plan_print(const struct fm_cpu_plan *plan, struct fm_text *text)
{
    struct list list = {.plan = plan, .text = text};
    for (int i = 0; i < plan->ntasks; i++) {
        list.name_width = widest(list.name_width, plan->tasks[i].name);
        list.layer_width = widest(list.layer_width, layer_of(&list, &plan->tasks[i]));
    }
    print_head(plan, text);
    print_tasks(&list, "once a step", 0, plan->train_first, 0);
    print_tasks(&list, "each slice, forward and backward: shape, share of the arithmetic, layer",
                plan->train_first, plan->evaluate_first, fm_program_flops(plan->program, true));
    fm_text_add_string(text, "  once a step: norm and finite check, clip, optimizer\n");
    char title[96];
    snprintf(title, sizeof title, "evaluation, %" PRId64 " example%s at a time", plan->chunk,
             plan->chunk == 1 ? "" : "s");
    print_tasks(&list, title, plan->evaluate_first, plan->ntasks, fm_program_flops(plan->program, false));
}
