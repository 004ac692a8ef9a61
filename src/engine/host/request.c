/* Requests in, reports out: checks, bookkeeping of what is transferred. */
#include "engine/host/host.h"

#include "base/memory.h"
#include "engine/options.h"

static int check_request(const struct fm_lane *lane, const struct fm_request *request, struct fm_error *err)
{
    int64_t counts[3];
    for (int part = FM_PART_TRAIN; part <= FM_PART_VAL; part++)
        counts[part] = fm_lane_part(lane, (enum fm_part)part)->count;
    return fm_request_check(request, counts, fm_lane_classes(lane), err);
}

int fm_host_submit(struct fm_lane *lane, const struct fm_request *request, struct fm_error *err)
{
    int status = check_request(lane, request, err);
    if (!status && request->kind == FM_SNAPSHOT) status = fm_lane_slot(lane, request->slot, err);
    if (status) return status;
    struct fm_work *work = fm_calloc(1, sizeof *work);
    if (!work) return fm_fail_memory(err);
    work->request = *request;
    work->report.lane = lane;
    work->report.tag = request->tag;
    work->report.kind = request->kind;
    atomic_init(&work->cancel, false);
    fm_queue_submit(lane, work);
    lane->device->transfers.to_device += (int64_t)sizeof *request;
    return 0;
}

static void count_report(struct fm_device *device, const struct fm_work *work)
{
    const struct fm_lane *lane = work->report.lane;
    device->transfers.to_host += (int64_t)sizeof work->report;
    if (work->request.kind != FM_EVALUATE) return;
    const int64_t k = fm_lane_classes(lane), n = fm_lane_part(lane, work->request.part)->count;
    if (work->request.returns & FM_RETURN_CONFUSION)
        device->transfers.to_host += k * k * (int64_t)sizeof(int64_t);
    if (work->request.returns & FM_RETURN_SCORES)
        device->transfers.to_host += n * lane->program->score_width * (int64_t)sizeof(float);
}

int fm_host_wait(struct fm_device *device, int milliseconds, struct fm_report *report, struct fm_error *err)
{
    (void)err;
    struct fm_work *work = fm_queue_wait(device, milliseconds);
    if (!work) return 0;
    count_report(device, work);
    *report = work->report;
    fm_free(work);
    return 1;
}
