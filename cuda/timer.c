/* How many steps a chunk may have where a display's watchdog ends what takes too long: events around every
 * chunk tell. The first chunk of a kind is none to learn from: code is loaded meanwhile. */
#include "lane_private.h"

/* In a profile a chunk stays one step. */
static bool times(const struct fm_device *device, const struct fm_cuda_slot *slot)
{
    return slot->card->watchdog && !device->profile;
}

static struct fm_cuda_timer *timer_of(struct fm_lane *lane)
{
    return &lane->slot->timers[lane->slot->chunks % FM_CUDA_FLIGHT];
}

int fm_cuda_timers_make(struct fm_device *device, struct fm_cuda_slot *slot, struct fm_error *err)
{
    int status = 0;
    for (int i = 0; !status && i < FM_CUDA_FLIGHT && times(device, slot); i++) {
        status = fm_cuda_check(device, cudaEventCreate(&slot->timers[i].begin), err, "make an event");
        if (!status)
            status = fm_cuda_check(device, cudaEventCreate(&slot->timers[i].end), err, "make an event");
    }
    return status;
}

void fm_cuda_timers_free(struct fm_device *device, struct fm_cuda_slot *slot)
{
    for (int i = 0; i < FM_CUDA_FLIGHT; i++) {
        if (slot->timers[i].begin) FM_CUDA_NOTED(device, cudaEventDestroy(slot->timers[i].begin));
        if (slot->timers[i].end) FM_CUDA_NOTED(device, cudaEventDestroy(slot->timers[i].end));
    }
}

/* Profiles keep events of every call, so few steps are marked at a time. */
void fm_cuda_timers_reset(const struct fm_device *device, struct fm_cuda_slot *slot)
{
    const int most = device->profile || slot->card->watchdog ? 1 : FM_CUDA_STEPS;
    slot->most[FM_CUDA_TRAINS] = slot->most[FM_CUDA_EVALUATES] = most;
    for (int i = 0; i < FM_CUDA_FLIGHT; i++) slot->timers[i].request = 0;
}

int fm_cuda_timer_judge(struct fm_lane *lane, uint64_t request, struct fm_error *err)
{
    struct fm_cuda_timer *timer = timer_of(lane);
    const uint64_t measured = timer->request;
    const float limit = 1000 * (float)FM_CUDA_WATCHDOG / FM_CUDA_FLIGHT;
    float milliseconds = 0;
    if (!measured) return 0;
    timer->request = 0;
    /* The word that the chunk is through is written right before this event. */
    int status = fm_cuda_check(lane->device, cudaEventSynchronize(timer->end), err, "time a chunk of steps");
    if (!status)
        status = fm_cuda_check(lane->device, cudaEventElapsedTime(&milliseconds, timer->begin, timer->end),
                               err, "time a chunk of steps");
    if (status) return status;
    int *most = &lane->slot->most[timer->activity];
    const int half = timer->length > 1 ? timer->length / 2 : 1;
    /* A request that goes on was fed whole chunks and has not frozen: all steps of this one did their work.
     */
    const bool whole = measured == request && timer->length == *most;
    if (milliseconds > limit && half < *most)
        *most = half;
    else if (milliseconds < limit / 2 && whole && *most < FM_CUDA_STEPS)
        *most *= 2;
    return 0;
}

int fm_cuda_timer_begin(struct fm_lane *lane, struct fm_error *err)
{
    if (!times(lane->device, lane->slot)) return 0;
    return fm_cuda_check(lane->device, cudaEventRecord(timer_of(lane)->begin, lane->slot->stream), err,
                         "mark a chunk of steps");
}

int fm_cuda_timer_end(struct fm_lane *lane, uint64_t request, int activity, int length, struct fm_error *err)
{
    struct fm_cuda_timer *timer = timer_of(lane);
    if (!times(lane->device, lane->slot)) return 0;
    const int status = fm_cuda_check(lane->device, cudaEventRecord(timer->end, lane->slot->stream), err,
                                     "mark a chunk of steps");
    if (status) return status;
    timer->request = request;
    timer->activity = activity;
    timer->length = length;
    return 0;
}
