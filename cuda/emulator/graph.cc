/* Capture and graphs.
 *
 * A capture begins in one stream; another joins it by waiting for an event that was recorded in it, and has
 * to be waited for in turn before the capture ends. What capture forbids invalidates it and counts as a fault
 * - the program could otherwise fall back to direct calls and nobody would see the mistake. One thread makes
 * all calls, so global and thread-local mode forbid the same.
 *
 * A graph's nodes run in any order that their dependencies allow (by policy: the first, the last, a random
 * one of those that can run), mixed with the work of other streams. */
#include <algorithm>

#include "emulator/core.h"

namespace
{
struct graph_state {
    std::vector<std::shared_ptr<struct fm_capture>> captures; /* going on */
    enum cudaStreamCaptureMode mode;                          /* of the thread */
    std::vector<std::unique_ptr<CUgraph_st>> all;
    std::vector<std::unique_ptr<CUgraphExec_st>> execs; /* destroyed ones as well while they fly */
};
} // namespace
static struct graph_state *the;

static struct graph_state *graphs(void)
{
    if (!the) the = new struct graph_state();
    return the;
}

void fm_emulated_graphs_forget(void)
{
    delete the;
    the = NULL;
}

/* ---- capture ------------------------------------------------------------------------------------------- */

bool fm_emulated_may_block(const char *call)
{
    if (!the || the->captures.empty() || the->mode == cudaStreamCaptureModeRelaxed) return true;
    bool may = true;
    for (auto &capture : the->captures)
        if (capture->mode != cudaStreamCaptureModeRelaxed) {
            capture->invalid = true;
            may = false;
        }
    if (!may) fm_emulated_fault("%s: may allocate or wait, which is not allowed during capture", call);
    return may;
}

void fm_emulated_captures_excuse(void)
{
    for (size_t i = 0; the && i < the->captures.size(); i++) the->captures[i]->excused = true;
}

cudaError_t fm_emulated_capture_bad(CUstream_st *stream, cudaError_t status, const char *why)
{
    if (stream->capture) stream->capture->invalid = true;
    fm_emulated_fault("capture: %s", why);
    return fm_emulated_error(status);
}

cudaError_t fm_emulated_capture(CUstream_st *stream, const struct fm_task &task)
{
    struct fm_capture *capture = stream->capture.get();
    if (capture->invalid) return fm_emulated_error(cudaErrorStreamCaptureInvalidated);
    auto &nodes = capture->graph.nodes;
    int number = (int)nodes.size();
    for (int before : stream->tail) nodes[(size_t)before].next.push_back(number);
    nodes.push_back({task, stream->tail, {}});
    stream->tail.assign(1, number);
    fm_emulated_counts()->captured++;
    return cudaSuccess;
}

cudaError_t fm_emulated_capture_wait(CUstream_st *stream, CUevent_st *event)
{
    std::shared_ptr<struct fm_capture> capture = event->capture.lock();
    if (!event->captured)
        return fm_emulated_capture_bad(stream, cudaErrorStreamCaptureIsolation,
                                       "waits for an event that was recorded outside");
    if (!capture)
        return fm_emulated_capture_bad(stream, cudaErrorCapturedEvent,
                                       "waits for an event of a capture that has ended");
    if (stream->capture && stream->capture != capture) {
        capture->invalid = true;
        return fm_emulated_capture_bad(stream, cudaErrorStreamCaptureMerge,
                                       "waits for an event of another capture");
    }
    if (capture->invalid) return fm_emulated_error(cudaErrorStreamCaptureInvalidated);
    if (!stream->capture) stream->tail.clear();
    stream->capture = capture;
    for (int node : event->after)
        if (std::find(stream->tail.begin(), stream->tail.end(), node) == stream->tail.end())
            stream->tail.push_back(node);
    return cudaSuccess;
}

/* Whether every node that another stream ends with comes before the end of the stream of origin. */
static bool joined(const struct fm_capture *capture)
{
    std::vector<bool> reached(capture->graph.nodes.size());
    std::vector<int> open = capture->origin->tail;
    while (!open.empty()) {
        int node = open.back();
        open.pop_back();
        if (reached[(size_t)node]) continue;
        reached[(size_t)node] = true;
        for (int before : capture->graph.nodes[(size_t)node].after) open.push_back(before);
    }
    for (const CUstream_st *stream : fm_emulated_streams())
        if (stream->capture.get() == capture)
            for (int node : stream->tail)
                if (!reached[(size_t)node]) return false;
    return true;
}

static void end_capture(const std::shared_ptr<struct fm_capture> &capture)
{
    for (CUstream_st *stream : fm_emulated_streams())
        if (stream->capture == capture) {
            stream->capture.reset();
            stream->tail.clear();
        }
    auto &all = graphs()->captures;
    all.erase(std::remove(all.begin(), all.end(), capture), all.end());
}

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorStreamCaptureUnsupported);
    if (status) return status;
    if (!fm_emulated_stream_check(stream, __func__)) return fm_emulated_error(cudaErrorInvalidResourceHandle);
    if (fm_emulated_settings()->no_graphs) return fm_emulated_error(cudaErrorNotSupported);
    if (stream->capture)
        return fm_emulated_capture_bad(stream, cudaErrorIllegalState, "begun in a stream that captures");
    auto capture = std::make_shared<struct fm_capture>();
    capture->graph.card = stream->card;
    capture->origin = stream;
    capture->mode = mode;
    stream->capture = capture;
    stream->tail.clear();
    graphs()->captures.push_back(capture);
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorStreamCaptureInvalidated);
    if (fm_emulated_lost() || (status && fm_emulated_settings()->no_driver)) return status;
    *graph = NULL;
    if (!fm_emulated_stream_check(stream, __func__)) return fm_emulated_error(cudaErrorInvalidResourceHandle);
    std::shared_ptr<struct fm_capture> capture = stream->capture;
    if (!capture)
        return fm_emulated_capture_bad(stream, cudaErrorIllegalState, "ended in a stream without one");
    if (capture->origin != stream)
        return fm_emulated_capture_bad(stream, cudaErrorStreamCaptureUnmatched,
                                       "ended in another stream than where it began");
    bool whole = joined(capture.get());
    end_capture(capture);
    if (status) return status;
    if (capture->invalid) return fm_emulated_error(cudaErrorStreamCaptureInvalidated);
    if (!whole && capture->excused) return fm_emulated_error(cudaErrorStreamCaptureUnjoined);
    if (!whole)
        return fm_emulated_capture_bad(stream, cudaErrorStreamCaptureUnjoined,
                                       "a stream that joined it was not waited for");
    CUgraph_st *made = new CUgraph_st();
    made->graph = std::make_shared<struct fm_graph>(std::move(capture->graph));
    graphs()->all.push_back(std::unique_ptr<CUgraph_st>(made));
    fm_emulated_object_add(made, "graph");
    *graph = made;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *result)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidResourceHandle);
    if (status) return status;
    if (!fm_emulated_stream_check(stream, __func__)) return fm_emulated_error(cudaErrorInvalidResourceHandle);
    *result = !stream->capture           ? cudaStreamCaptureStatusNone
              : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidValue);
    if (!status) std::swap(graphs()->mode, *mode);
    return status;
}

/* ---- graphs -------------------------------------------------------------------------------------------- */

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorMemoryAllocation);
    if (status) return status;
    *exec = NULL;
    if (!fm_emulated_object_is(graph, "graph", __func__)) return fm_emulated_error(cudaErrorInvalidValue);
    if (!fm_emulated_may_block(__func__)) return fm_emulated_error(cudaErrorStreamCaptureUnsupported);
    CUgraphExec_st *made = new CUgraphExec_st();
    made->graph = graph->graph;
    graphs()->execs.push_back(std::unique_ptr<CUgraphExec_st>(made));
    fm_emulated_object_add(made, "executable graph");
    *exec = made;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidValue);
    if (status) return status;
    if (!fm_emulated_object_is(graph, "graph", __func__)) return fm_emulated_error(cudaErrorInvalidValue);
    size_t there = graph->graph->nodes.size();
    for (size_t i = 0; nodes && i < *count; i++)
        nodes[i] = i < there ? (cudaGraphNode_t)&graph->graph->nodes[i] : NULL;
    if (!nodes || *count > there) *count = there;
    return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidValue);
    if (!status) *type = ((const struct fm_node *)node)->task.type;
    return status;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorLaunchOutOfResources);
    if (status) return status;
    if (!fm_emulated_stream_check(stream, __func__) ||
        !fm_emulated_object_is(exec, "executable graph", __func__))
        return fm_emulated_error(cudaErrorInvalidResourceHandle);
    if (stream->capture)
        return fm_emulated_capture_bad(stream, cudaErrorStreamCaptureUnsupported, "launches a graph");
    if (exec->graph->card != stream->card) {
        fm_emulated_fault("%s: a graph of card %d in a stream of card %d", __func__, exec->graph->card,
                          stream->card);
        return fm_emulated_error(cudaErrorInvalidValue);
    }
    if (exec->flying && exec->stream != stream)
        fm_emulated_fault("%s: the graph is still on its way in another stream", __func__);
    fm_emulated_counts()->graph_launches++;
    const auto &nodes = exec->graph->nodes;
    if (nodes.empty()) return cudaSuccess;
    struct fm_op op = {};
    op.kind = fm_op::REPLAY;
    op.replay.reset(new struct fm_replay());
    op.replay->graph = exec->graph;
    op.replay->exec = exec;
    op.replay->left = nodes.size();
    for (size_t i = 0; i < nodes.size(); i++) {
        op.replay->missing.push_back((int)nodes[i].after.size());
        if (nodes[i].after.empty()) op.replay->ready.push_back((int)i);
        const struct fm_task &task = nodes[i].task;
        op.replay->locks.push_back(fm_emulated_lock(task.locked, task.locked_bytes, task.locked_whole));
    }
    exec->flying++;
    exec->stream = stream;
    return fm_emulated_error(fm_emulated_push(stream, std::move(op)));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidValue);
    if (fm_emulated_lost() || (status && fm_emulated_settings()->no_driver)) return status;
    if (!fm_emulated_object_remove(graph, "graph", __func__)) return fm_emulated_error(cudaErrorInvalidValue);
    auto &all = graphs()->all;
    for (size_t i = 0; i < all.size(); i++)
        if (all[i].get() == graph) {
            all.erase(all.begin() + (ptrdiff_t)i);
            break;
        }
    return status;
}

/* Newer drivers let a graph fly on when it is destroyed; older ones do not say. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidValue);
    if (fm_emulated_lost() || (status && fm_emulated_settings()->no_driver)) return status;
    if (!fm_emulated_object_remove(exec, "executable graph", __func__))
        return fm_emulated_error(cudaErrorInvalidValue);
    if (exec->flying) {
        fm_emulated_fault("%s: the graph is still on its way", __func__);
        return status;
    }
    auto &all = graphs()->execs;
    for (size_t i = 0; i < all.size(); i++)
        if (all[i].get() == exec) {
            all.erase(all.begin() + (ptrdiff_t)i);
            break;
        }
    return status;
}

} /* extern "C" */

bool fm_emulated_replay_step(struct fm_replay *replay)
{
    enum fm_emulator_policy policy = fm_emulated_settings()->policy;
    size_t at = 0, able = replay->ready.size();
    if (policy == FM_EMULATOR_LAST) at = able - 1;
    if (policy == FM_EMULATOR_RANDOM || policy == FM_EMULATOR_STARVE) at = fm_emulated_random() % able;
    size_t number = (size_t)replay->ready[at];
    replay->ready.erase(replay->ready.begin() + (ptrdiff_t)at);
    const struct fm_node &node = replay->graph->nodes[number];
    fm_emulated_unlock(replay->locks[number]);
    replay->locks[number] = 0;
    fm_emulated_counts()->graph_nodes++;
    fm_emulated_guarded(&node.task, replay->graph->card);
    fm_emulated_took();
    for (int next : node.next)
        if (--replay->missing[(size_t)next] == 0) replay->ready.push_back(next);
    if (--replay->left) return false;
    replay->exec->flying--;
    return true;
}
