/* Evaluations: sums, scores and the confusion matrix over a whole part, in set order, a chunk at a time. */
#include "engine/host/host.h"

#include <math.h>
#include <string.h>

const struct fm_indexset *fm_lane_part(const struct fm_lane *lane, enum fm_part part)
{
    return part == FM_PART_TRAIN   ? &lane->fold->train
           : part == FM_PART_INNER ? &lane->fold->inner
                                   : &lane->fold->val;
}

int64_t fm_lane_classes(const struct fm_lane *lane)
{
    if (lane->data->nclasses > 0) return lane->data->nclasses;
    return lane->data->distribution ? lane->program->loss.outputs : 0;
}

int64_t fm_lane_class(const struct fm_lane *lane, int64_t example)
{
    if (lane->data->nclasses > 0) return fm_packed_get(&lane->view->classes, example);
    const float *y = lane->view->values + example * lane->view->width;
    int64_t best = 0;
    for (int64_t k = 1; k < lane->view->width; k++)
        if (y[k] > y[best]) best = k;
    return best;
}

/* Outputs beyond the classes (a network may have more) are never predicted: no example has them. */
static int64_t predicted_class(const double *scores, int64_t width, int64_t classes)
{
    if (width == 1) return scores[0] > 0.5;
    int64_t best = 0;
    for (int64_t k = 1; k < width && k < classes; k++)
        if (scores[k] > scores[best]) best = k;
    return best;
}

static void add_errors(const struct fm_lane *lane, int64_t example, const double *scores,
                       struct fm_report *report)
{
    const int64_t width = lane->program->score_width;
    if (lane->data->nclasses > 0 || lane->view->width != width) return;
    const float *y = lane->view->values + example * width;
    for (int64_t k = 0; k < width; k++) {
        const double error = (double)y[k] - scores[k];
        report->square_sum += error * error;
        report->absolute_sum += fabs(error);
    }
}

static void take_chunk(struct fm_lane *lane, const struct fm_request *request, int64_t first,
                       double *loss_sum, struct fm_report *report)
{
    const int64_t width = lane->program->score_width, classes = fm_lane_classes(lane);
    for (int64_t i = 0; i < lane->n; i++) {
        const double *scores = lane->scores + i * width;
        *loss_sum += lane->loss[i];
        add_errors(lane, lane->example[i], scores, report);
        if (request->returns & FM_RETURN_CONFUSION)
            request->confusion[fm_lane_class(lane, lane->example[i]) * classes +
                               predicted_class(scores, width, classes)]++;
        if (request->returns & FM_RETURN_SCORES)
            for (int64_t k = 0; k < width; k++) request->scores[(first + i) * width + k] = (float)scores[k];
    }
}

void fm_lane_evaluate(struct fm_lane *lane, struct fm_work *work)
{
    const struct fm_request *request = &work->request;
    struct fm_report *report = &work->report;
    const struct fm_indexset *set = fm_lane_part(lane, request->part);
    const int64_t classes = fm_lane_classes(lane);
    if (request->returns & FM_RETURN_CONFUSION)
        memset(request->confusion, 0, (size_t)(classes * classes) * sizeof *request->confusion);
    fm_order_reset(lane);
    struct fm_cursor cursor = {0};
    double loss_sum = 0;
    for (int64_t first = 0; first < set->count; first += lane->n) {
        if (atomic_load_explicit(&work->cancel, memory_order_relaxed)) {
            report->cancelled = true;
            return;
        }
        lane->n = 0;
        while (lane->n < lane->layout.chunk && fm_indexset_next(set, &cursor, &lane->example[lane->n]))
            lane->n++;
        fm_view_slabs(lane->view, lane->example, lane->n, true, lane->slab);
        lane->executor->evaluate(lane, lane->loss, lane->scores);
        take_chunk(lane, request, first, &loss_sum, report);
    }
    report->examples = set->count;
    report->loss = loss_sum / (double)set->count + lane->executor->penalty(lane);
}
