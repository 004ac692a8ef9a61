/* Events: a counter of how often they were recorded and of how often that has run. Waiting for one means
 * waiting for the last record before the wait was queued. While a stream captures, an event only carries
 * dependencies. */
#include "emulator/core.h"

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorMemoryAllocation);
    if (status) return status;
    CUevent_st *made = new CUevent_st();
    made->card = fm_emulated_card();
    made->flags = flags;
    made->state = std::make_shared<struct fm_event_state>();
    fm_emulated_events().push_back(std::unique_ptr<CUevent_st>(made));
    fm_emulated_object_add(made, "event");
    *event = made;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

/* Queued records and waits keep what they need of it. */
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidResourceHandle);
    if (fm_emulated_lost() || (status && fm_emulated_settings()->no_driver)) return status;
    if (!fm_emulated_object_remove(event, "event", __func__))
        return fm_emulated_error(cudaErrorInvalidResourceHandle);
    auto &all = fm_emulated_events();
    for (size_t i = 0; i < all.size(); i++)
        if (all[i].get() == event) {
            all[i].swap(all.back());
            all.pop_back();
            break;
        }
    return status;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidResourceHandle);
    if (status) return status;
    if (!fm_emulated_stream_check(stream, __func__) || !fm_emulated_object_is(event, "event", __func__))
        return fm_emulated_error(cudaErrorInvalidResourceHandle);
    if (event->card != stream->card) {
        fm_emulated_fault("%s: the event is of card %d, the stream of card %d", __func__, event->card,
                          stream->card);
        return fm_emulated_error(cudaErrorInvalidResourceHandle);
    }
    event->captured = stream->capture != NULL;
    if (stream->capture) {
        if (stream->capture->invalid) return fm_emulated_error(cudaErrorStreamCaptureInvalidated);
        event->capture = stream->capture;
        event->after = stream->tail;
        return cudaSuccess;
    }
    struct fm_op op = {};
    op.kind = fm_op::RECORD;
    op.event = event->state;
    op.version = ++event->state->recorded;
    return fm_emulated_error(fm_emulated_push(stream, std::move(op)));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidResourceHandle);
    if (status) return status;
    if (!fm_emulated_stream_check(stream, __func__) || !fm_emulated_object_is(event, "event", __func__))
        return fm_emulated_error(cudaErrorInvalidResourceHandle);
    if (stream->capture || event->captured) return fm_emulated_capture_wait(stream, event);
    struct fm_op op = {};
    op.kind = fm_op::WAIT;
    op.event = event->state;
    op.version = event->state->recorded;
    return fm_emulated_error(fm_emulated_push(stream, std::move(op)));
}

/* What the three calls that look at an event have in common. */
static cudaError_t look(cudaEvent_t event, const char *call)
{
    cudaError_t status = fm_emulated_enter(call, cudaErrorLaunchFailure);
    if (status) return status;
    if (!fm_emulated_object_is(event, "event", call))
        return fm_emulated_error(cudaErrorInvalidResourceHandle);
    if (event->captured) {
        fm_emulated_fault("%s: the event was last recorded in a stream that captured", call);
        return fm_emulated_error(cudaErrorCapturedEvent);
    }
    return fm_emulated_may_block(call) ? cudaSuccess : fm_emulated_error(cudaErrorStreamCaptureUnsupported);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    struct fm_emulated_clock clock;
    cudaError_t status = look(event, __func__);
    if (status) return status;
    fm_emulated_steps();
    if (fm_emulated_lost()) return fm_emulated_error(fm_emulated_lose(cudaErrorUnknown));
    return event->state->done >= event->state->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    struct fm_emulated_clock clock;
    cudaError_t status = look(event, __func__);
    if (status) return status;
    fm_emulated_counts()->synchronisations++;
    return fm_emulated_error(fm_emulated_drain_event(event));
}

cudaError_t cudaEventElapsedTime(float *elapsed, cudaEvent_t begin, cudaEvent_t end)
{
    struct fm_emulated_clock clock;
    cudaError_t status = look(begin, __func__);
    if (status) return status;
    if (!fm_emulated_object_is(end, "event", __func__) || end->captured)
        return fm_emulated_error(cudaErrorInvalidResourceHandle);
    if (((begin->flags | end->flags) & cudaEventDisableTiming) || !begin->state->recorded ||
        !end->state->recorded) {
        fm_emulated_fault("%s: an event that was not recorded, or takes no time", __func__);
        return fm_emulated_error(cudaErrorInvalidResourceHandle);
    }
    if (begin->state->done < begin->state->recorded || end->state->done < end->state->recorded)
        return cudaErrorNotReady;
    *elapsed = (float)(end->state->time - begin->state->time);
    return cudaSuccess;
}

} /* extern "C" */
