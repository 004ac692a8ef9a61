/* Targets of the batch at hand, and the loss with all that follows from it at once. */
#include "engine/cpu/cpu.h"

#include <string.h>

static bool is_softmax(const struct fm_loss *loss)
{
    return loss->kind == FM_LOSS_CATEGORICAL_CROSSENTROPY ||
           loss->kind == FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
}

/* The gradient of sum over examples of (weight * loss) / n; losses but softmax are means over the outputs. */
void fm_cpu_shares(struct fm_cpu_lane *lane)
{
    const struct fm_lane *host = lane->host;
    const struct fm_loss *loss = &lane->plan.program->loss;
    const double outputs = is_softmax(loss) ? 1 : (double)loss->outputs;
    for (int64_t i = 0; i < host->n; i++)
        lane->share[i] = (float)(host->weight[i] / (double)host->n / outputs);
}

void fm_cpu_targets(struct fm_cpu_lane *lane)
{
    const struct fm_lane *host = lane->host;
    const struct fm_loss *loss = &lane->plan.program->loss;
    for (int64_t i = 0; i < host->n; i++) {
        if (host->data->nclasses > 0)
            lane->labels[i] = fm_packed_get(&host->view->classes, host->example[i]);
        else
            memcpy(lane->values + i * loss->outputs,
                   host->view->values + host->example[i] * host->view->width,
                   (size_t)loss->outputs * sizeof *lane->values);
    }
}

void fm_cpu_head(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    const struct fm_program *p = lane->plan.program;
    const struct fm_op *op = task->op, *scores = task->scores, *grad = task->grad;
    const bool classes = lane->host->data->nclasses > 0;
    lane->k->head(&(struct fm_head){.count = count,
                                    .outputs = p->loss.outputs,
                                    .score_width = p->score_width,
                                    .kind = p->loss.kind,
                                    .smoothing = (float)p->loss.label_smoothing,
                                    .delta = (float)p->loss.delta,
                                    .z = fm_cpu_at(lane, op->in[0], first),
                                    .labels = classes ? lane->labels + lane->place : NULL,
                                    .values = classes ? NULL : lane->values + lane->place * p->loss.outputs,
                                    .share = lane->share + lane->place,
                                    .loss = lane->loss + lane->place,
                                    .dz = grad ? fm_cpu_at(lane, grad->out[0], first) : NULL,
                                    .scores = scores ? fm_cpu_at(lane, scores->out[0], first) : NULL,
                                    .zstride = fm_cpu_stride(lane, op->in[0]),
                                    .dzstride = grad ? fm_cpu_stride(lane, grad->out[0]) : 0});
}
