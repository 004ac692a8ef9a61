/* Streams and events, and the order in which queued work runs. Nothing runs by itself: a call that waits runs
 * work until what it waits for is done, a call that asks runs a few steps, a launch only under the eager
 * policy. Which stream takes the next step is the policy's choice among those whose head can run. */
#include <string.h>
#include <time.h>

#include "emulator/core.h"

namespace
{
struct stream_state {
    std::vector<CUstream_st *> all; /* in the order of making; destroyed ones until they are empty */
    std::vector<std::unique_ptr<CUevent_st>> events;
    int made, bursts;
    int64_t clock; /* microseconds that tasks took, by settings.kernel_us */
};
} // namespace
static struct stream_state *the;

static struct stream_state *streams(void)
{
    if (!the) the = new struct stream_state();
    return the;
}

fm_burst::fm_burst()
{
    streams()->bursts++;
}

fm_burst::~fm_burst()
{
    if (--streams()->bursts == 0) fm_emulated_close();
}

std::vector<CUstream_st *> &fm_emulated_streams(void)
{
    return streams()->all;
}

std::vector<std::unique_ptr<CUevent_st>> &fm_emulated_events(void)
{
    return streams()->events;
}

/* ---- one step ------------------------------------------------------------------------------------------ */

void fm_emulated_took(void)
{
    streams()->clock += fm_emulated_settings()->kernel_us;
}

/* What an event says. */
static double milliseconds(void)
{
    struct timespec now;
    if (fm_emulated_settings()->kernel_us > 0) return 1e-3 * (double)streams()->clock;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static bool can_run(const CUstream_st *stream)
{
    if (stream->queue.empty()) return false;
    const struct fm_op &head = stream->queue.front();
    return head.kind != fm_op::WAIT || head.event->done >= head.version;
}

static void step(CUstream_st *stream)
{
    struct fm_op &head = stream->queue.front();
    if (head.kind == fm_op::REPLAY) {
        struct fm_replay *replay = head.replay.get();
        bool last = fm_emulated_replay_step(replay);
        if (fm_emulated_lost()) return fm_emulated_drop();
        if (last) stream->queue.pop_front();
    } else {
        struct fm_op op = std::move(head);
        stream->queue.pop_front();
        if (op.kind == fm_op::TASK) {
            fm_emulated_unlock(op.lock);
            fm_emulated_guarded(&op.task, stream->card);
            fm_emulated_took();
            if (fm_emulated_lost()) fm_emulated_drop();
        } else if (op.kind == fm_op::RECORD && op.event->done < op.version) {
            op.event->done = op.version;
            op.event->time = milliseconds();
        }
    }
    if (stream->destroyed && stream->queue.empty()) {
        auto &all = streams()->all;
        for (size_t i = 0; i < all.size(); i++)
            if (all[i] == stream) all.erase(all.begin() + (ptrdiff_t)i);
        delete stream;
    }
}

/* The stream that the policy lets go next, or NULL when none can. */
static CUstream_st *choose(void)
{
    const struct fm_emulator_settings *settings = fm_emulated_settings();
    CUstream_st *chosen = NULL, *starved = NULL;
    uint64_t able = 0;
    for (CUstream_st *stream : streams()->all) {
        if (!can_run(stream)) continue;
        if (settings->policy == FM_EMULATOR_STARVE && stream->number == settings->starved) {
            starved = stream;
            continue;
        }
        able++;
        bool random = settings->policy == FM_EMULATOR_RANDOM || settings->policy == FM_EMULATOR_STARVE;
        if (!chosen || settings->policy == FM_EMULATOR_LAST || (random && fm_emulated_random() % able == 0))
            chosen = stream;
        if (!random && settings->policy != FM_EMULATOR_LAST) break;
    }
    return chosen ? chosen : starved;
}

static bool step_any(void)
{
    CUstream_st *stream = choose();
    if (stream) step(stream);
    return stream != NULL;
}

static bool queued(int card)
{
    for (const CUstream_st *stream : streams()->all)
        if ((card < 0 || stream->card == card) && !stream->queue.empty()) return true;
    return false;
}

static cudaError_t stuck(void)
{
    fm_emulated_fault("deadlock: work is queued, but none of it can run");
    return fm_emulated_lose(cudaErrorLaunchTimeout);
}

/* What a waiting call returns when it is through: the error of work that failed, if any did. */
static cudaError_t through(void)
{
    return fm_emulated_lost() ? fm_emulated_lose(cudaErrorUnknown) : cudaSuccess;
}

cudaError_t fm_emulated_drain(CUstream_st *stream)
{
    struct fm_burst burst;
    int card = fm_emulated_card();
    while (stream ? !stream->queue.empty() : queued(card))
        if (!step_any()) return stuck();
    return through();
}

cudaError_t fm_emulated_drain_event(CUevent_st *event)
{
    struct fm_burst burst;
    std::shared_ptr<struct fm_event_state> state = event->state;
    while (state->done < state->recorded && !fm_emulated_lost())
        if (!step_any()) return stuck();
    return through();
}

void fm_emulated_drain_all(void)
{
    struct fm_burst burst;
    while (queued(-1))
        if (!step_any()) {
            stuck();
            return;
        }
}

/* Mostly none or one, now and then many: the host's questions fall everywhere between two steps, and a host
 * that only ever asks still gets on. */
void fm_emulated_steps(void)
{
    struct fm_burst burst;
    uint64_t r = fm_emulated_random(), n = 0;
    switch (r % 4) {
    case 1: n = 1; break;
    case 2: n = 1 + r / 4 % 4; break;
    case 3: n = 1 + r / 4 % 64; break;
    }
    for (uint64_t i = 0; i < n; i++)
        if (!step_any()) {
            if (queued(-1)) stuck();
            return;
        }
}

void fm_emulated_drop(void)
{
    for (CUstream_st *stream : streams()->all) {
        for (struct fm_op &op : stream->queue) {
            fm_emulated_unlock(op.lock);
            if (op.replay)
                for (uint64_t lock : op.replay->locks) fm_emulated_unlock(lock);
        }
        /* The work that lost the context may stand at the head and still run. */
        if (fm_emulated_running_card() < 0) stream->queue.clear();
    }
}

cudaError_t fm_emulated_push(CUstream_st *stream, struct fm_op op)
{
    stream->queue.push_back(std::move(op));
    if (fm_emulated_settings()->policy == FM_EMULATOR_EAGER) {
        struct fm_burst burst;
        while (can_run(stream) && !fm_emulated_lost()) step(stream);
        while (!fm_emulated_lost() && step_any()) {
        }
    }
    return cudaSuccess;
}

cudaError_t fm_emulated_task(CUstream_st *stream, const struct fm_task &task)
{
    if (stream->capture) return fm_emulated_capture(stream, task);
    struct fm_op op = {};
    op.kind = fm_op::TASK;
    op.task = task;
    op.lock = fm_emulated_lock(task.locked, task.locked_bytes, task.locked_whole);
    return fm_emulated_push(stream, std::move(op));
}

void fm_emulated_streams_forget(void)
{
    if (!the) return;
    fm_emulated_drop();
    for (CUstream_st *stream : the->all) delete stream;
    delete the;
    the = NULL;
}

/* ---- for the libraries' stand-ins ---------------------------------------------------------------------- */

bool fm_emulated_stream_check(cudaStream_t stream, const char *call)
{
    if ((uintptr_t)stream > 2) return fm_emulated_object_is(stream, "stream", call);
    fm_emulated_fault("%s: uses the default stream", call);
    return false;
}

int fm_emulated_stream_card(cudaStream_t stream)
{
    return stream->card;
}

bool fm_emulated_stream_captures(cudaStream_t stream)
{
    return stream->capture != NULL;
}

cudaError_t fm_emulated_enqueue(cudaStream_t stream, const char *name, std::function<void()> work)
{
    if (!fm_emulated_stream_check(stream, name)) return cudaErrorInvalidResourceHandle;
    struct fm_task task = {};
    task.name = name;
    task.type = cudaGraphNodeTypeKernel;
    task.work = std::make_shared<const fm_work>(std::move(work));
    return fm_emulated_task(stream, task);
}

/* ---- the calls ----------------------------------------------------------------------------------------- */

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorMemoryAllocation);
    if (status) return status;
    if (!fm_emulated_may_block(__func__)) return fm_emulated_error(cudaErrorStreamCaptureUnsupported);
    if (flags != cudaStreamNonBlocking)
        fm_emulated_fault("cudaStreamCreate: a stream that is not cudaStreamNonBlocking");
    CUstream_st *made = new CUstream_st();
    made->number = streams()->made++;
    made->card = fm_emulated_card();
    streams()->all.push_back(made);
    fm_emulated_object_add(made, "stream");
    *stream = made;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

/* What is queued still runs, and then the stream is gone. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidResourceHandle);
    if (fm_emulated_lost() || (status && fm_emulated_settings()->no_driver)) return status;
    if (!fm_emulated_object_remove(stream, "stream", __func__))
        return fm_emulated_error(cudaErrorInvalidResourceHandle);
    if (stream->capture)
        fm_emulated_capture_bad(stream, cudaErrorStreamCaptureUnsupported, "the stream is destroyed");
    stream->capture.reset();
    stream->destroyed = true;
    auto &all = streams()->all;
    for (size_t i = 0; i < all.size() && stream->queue.empty(); i++)
        if (all[i] == stream) {
            all.erase(all.begin() + (ptrdiff_t)i);
            delete stream;
            break;
        }
    return status;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorLaunchFailure);
    if (status) return status;
    if (!fm_emulated_stream_check(stream, __func__)) return fm_emulated_error(cudaErrorInvalidResourceHandle);
    if (stream->capture)
        return fm_emulated_capture_bad(stream, cudaErrorStreamCaptureUnsupported, "waits for its stream");
    if (!fm_emulated_may_block(__func__)) return fm_emulated_error(cudaErrorStreamCaptureUnsupported);
    fm_emulated_counts()->synchronisations++;
    return fm_emulated_error(fm_emulated_drain(stream));
}

cudaError_t cudaDeviceSynchronize(void)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorLaunchFailure);
    if (status) return status;
    if (!fm_emulated_may_block(__func__)) return fm_emulated_error(cudaErrorStreamCaptureUnsupported);
    fm_emulated_counts()->synchronisations++;
    return fm_emulated_error(fm_emulated_drain(NULL));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorLaunchFailure);
    if (status) return status;
    if (!fm_emulated_stream_check(stream, __func__)) return fm_emulated_error(cudaErrorInvalidResourceHandle);
    if (stream->capture)
        return fm_emulated_capture_bad(stream, cudaErrorStreamCaptureUnsupported, "asks for its stream");
    if (!fm_emulated_may_block(__func__)) return fm_emulated_error(cudaErrorStreamCaptureUnsupported);
    fm_emulated_steps();
    if (fm_emulated_lost()) return fm_emulated_error(through());
    return stream->queue.empty() ? cudaSuccess : cudaErrorNotReady;
}

} /* extern "C" */
