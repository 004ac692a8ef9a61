/* One training step and one chunk of an evaluation: the plan's tasks, slice by slice. */
#include "engine/cpu/cpu.h"

#include <math.h>
#include <string.h>

/* What sums into place starts at zero; products write theirs. */
static void prepare(struct fm_cpu_lane *lane)
{
    const struct fm_cpu_plan *plan = &lane->plan;
    for (int v = 0; v < plan->program->nvariables; v++)
        if (plan->variables[v].cleared)
            memset(lane->gradients + plan->variables[v].offset, 0,
                   (size_t)plan->program->variables[v].count * sizeof(float));
    for (int i = 0; i < plan->train_first; i++) plan->tasks[i].run(&plan->tasks[i], lane, 0, lane->host->n);
}

/* Tasks [first, end) over all examples of the batch: those that span it, then the others by slices. */
static void run_slices(struct fm_cpu_lane *lane, int first, int end, int64_t slice)
{
    const struct fm_cpu_task *tasks = lane->plan.tasks;
    lane->place = 0;
    for (; first < end && tasks[first].whole; first++)
        tasks[first].run(&tasks[first], lane, 0, lane->host->n);
    if (first == end) return;
    for (int64_t at = 0, count; at < lane->host->n; at += count) {
        count = lane->host->n - at < slice ? lane->host->n - at : slice;
        lane->place = at;
        for (int i = first; i < end; i++) tasks[i].run(&tasks[i], lane, lane->plan.staged ? at : 0, count);
    }
}

/* A stage ends where an operation spans the batch. */
static void run_stages(struct fm_cpu_lane *lane)
{
    const struct fm_cpu_plan *plan = &lane->plan;
    for (int first = plan->train_first, end; first < plan->evaluate_first; first = end) {
        end = first;
        while (end < plan->evaluate_first && plan->tasks[end].whole) end++;
        while (end < plan->evaluate_first && !plan->tasks[end].whole) end++;
        run_slices(lane, first, end, plan->slice);
    }
}

void fm_cpu_gradients(struct fm_lane *host, struct fm_step *step)
{
    struct fm_cpu_lane *lane = host->engine;
    fm_cpu_targets(lane);
    fm_cpu_shares(lane);
    prepare(lane);
    run_stages(lane);
    if (lane->plan.regularized) fm_cpu_regularize(lane);
    double sum = 0;
    for (int64_t i = 0; i < host->n; i++) sum += host->weight[i] * lane->loss[i];
    lane->square = fm_cpu_square(lane);
    step->loss = sum / (double)host->n;
    if (lane->plan.regularized) step->loss += fm_cpu_penalty(lane);
    step->norm = sqrt((double)lane->square);
    step->bad = !isfinite(step->loss) || !isfinite(lane->square);
}

void fm_cpu_evaluate(struct fm_lane *host, double *loss, double *scores)
{
    struct fm_cpu_lane *lane = host->engine;
    const struct fm_cpu_plan *plan = &lane->plan;
    fm_cpu_targets(lane);
    lane->place = 0;
    for (int i = plan->evaluate_first; i < plan->ntasks; i++) {
        const struct fm_cpu_task *task = &plan->tasks[i];
        task->run(task, lane, 0, host->n);
        if (!task->scores) continue;
        const float *score = fm_cpu_at(lane, task->scores->out[0], 0);
        for (int64_t e = 0; e < host->n * plan->program->score_width; e++) scores[e] = (double)score[e];
    }
    memcpy(loss, lane->loss, (size_t)host->n * sizeof *loss);
}
