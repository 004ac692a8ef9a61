/* Chunks: a few steps (or chunks of an evaluation) and the signal that they are through, as one graph launch
 * where that can be had, else call by call. Same calls, same bits. */
#include "lane_private.h"

static struct fm_cuda_bound bind_plan(struct fm_lane *lane, const struct fm_cuda_work *work)
{
    return (struct fm_cuda_bound){.device = lane->device,
                                  .card = lane->card,
                                  .plan = lane->plan,
                                  .base = lane->base,
                                  .stream = lane->slot->stream,
                                  .scores = fm_cuda_scores_of(lane, &work->request),
                                  .confusion = work->request.kind == FM_EVALUATE &&
                                               (work->request.returns & FM_RETURN_CONFUSION),
                                  .watch = lane->device->profile ? fm_profile_watch : NULL,
                                  .context = lane};
}

static int activity_of(const struct fm_cuda_work *work)
{
    return work->request.kind == FM_TRAIN ? FM_CUDA_TRAINS : FM_CUDA_EVALUATES;
}

static int enqueue_calls(struct fm_lane *lane, const struct fm_cuda_work *work, int64_t length,
                         struct fm_error *err)
{
    const struct fm_cuda_bound bound = bind_plan(lane, work);
    const int activity = activity_of(work);
    int status = 0;
    for (int64_t i = 0; !status && i < length; i++)
        status = activity == FM_CUDA_TRAINS ? fm_cuda_enqueue_step(&bound, err)
                                            : fm_cuda_enqueue_chunk(&bound, err);
    if (status) return status;
    volatile uint64_t *through = &lane->slot->words_at->through;
    return fm_cuda_check(lane->device, fm_cuda_signal(fm_cuda_place_of(lane, activity), through, 0), err,
                         "signal a chunk of steps");
}

/* A graph that is less than twice too long does nothing in its last steps, though its launches and the
 * libraries' calls take their time; instead of a longer one a shorter one is made. */
static int length_for(int most, int64_t units)
{
    int length = most;
    while (length > 1 && length / 2 >= units) length = length > 4 ? length / 4 : 1;
    return length;
}

static struct fm_cuda_graph *find_graph(const struct fm_lane *lane, const struct fm_cuda_work *work,
                                        int length)
{
    const struct fm_cuda_bound bound = bind_plan((struct fm_lane *)lane, work);
    for (int i = 0; i < lane->slot->ngraphs; i++) {
        struct fm_cuda_graph *graph = &lane->slot->graphs[i];
        if (graph->activity == activity_of(work) && graph->length == length && graph->plan == lane->plan &&
            graph->base == lane->base && graph->scores == bound.scores && graph->confusion == bound.confusion)
            return graph;
    }
    return NULL;
}

static cudaError_t instantiate(cudaGraphExec_t *exec, cudaGraph_t graph)
{
#if CUDART_VERSION >= 11040
    return cudaGraphInstantiateWithFlags(exec, graph, 0);
#else
    return cudaGraphInstantiate(exec, graph, NULL, NULL, 0);
#endif
}

static int64_t count_nodes(struct fm_device *device, cudaGraph_t graph)
{
    size_t nodes = 0;
    return FM_CUDA_NOTED(device, cudaGraphGetNodes(graph, NULL, &nodes)) ? (int64_t)nodes : 0;
}

/* False when it cannot be had, for whatever reason; nothing is left behind then, of an error neither. */
static bool capture(struct fm_lane *lane, const struct fm_cuda_work *work, int length,
                    struct fm_cuda_graph *made)
{
    struct fm_device *device = lane->device;
    cudaStream_t stream = lane->slot->stream;
    struct fm_error ignored = {0};
    cudaGraph_t graph = NULL;
    if (!FM_CUDA_NOTED(device, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)))
        return false;
    /* What fails in here and leaves CUDA at work must not mark the device lost: the same calls are then made
     * directly. */
    const bool lost = device->lost;
    const int status = enqueue_calls(lane, work, length, &ignored);
    bool ok = FM_CUDA_NOTED(device, cudaStreamEndCapture(stream, &graph)) && !status && graph;
    if (ok) made->nodes = count_nodes(device, graph);
    if (ok) ok = FM_CUDA_NOTED(device, instantiate(&made->exec, graph));
    if (graph) FM_CUDA_NOTED(device, cudaGraphDestroy(graph));
    if (ok && !device->dead) return true;
    if (!device->dead) device->lost = lost;
    return false;
}

/* The graph for this chunk; NULL: run it directly. */
static struct fm_cuda_graph *get_graph(struct fm_lane *lane, const struct fm_cuda_work *work, int length)
{
    struct fm_cuda_slot *slot = lane->slot;
    struct fm_cuda_graph *found = find_graph(lane, work, length);
    if (found) return found;
    const struct fm_cuda_bound bound = bind_plan(lane, work);
    struct fm_cuda_graph graph = {.plan = lane->plan,
                                  .base = lane->base,
                                  .scores = bound.scores,
                                  .confusion = bound.confusion,
                                  .activity = activity_of(work),
                                  .length = length};
    if (slot->ngraphs == FM_CUDA_GRAPHS || !capture(lane, work, length, &graph)) {
        lane->direct = true;
        return NULL;
    }
    slot->graphs[slot->ngraphs] = graph;
    return &slot->graphs[slot->ngraphs++];
}

/* Calls one by one: where capture has failed, and for profiles. */
static bool one_by_one(const struct fm_lane *lane)
{
    return lane->direct || lane->device->profile;
}

static int enqueue(struct fm_lane *lane, const struct fm_cuda_work *work, int64_t units, int64_t *fed,
                   struct fm_error *err)
{
    struct fm_cuda_slot *slot = lane->slot;
    const int activity = activity_of(work), most = slot->most[activity];
    const bool warm = slot->warm[activity];
    struct fm_cuda_graph *graph = NULL;
    /* The first one loads code and fills caches, which is forbidden during capture. */
    if (warm && !one_by_one(lane)) graph = get_graph(lane, work, length_for(most, units));
    int status = graph ? 0 : fm_cuda_alive(lane->device, err);
    int length = graph ? graph->length : 1;
    if (!graph && one_by_one(lane)) length = units < most ? (int)units : most;
    if (!status && warm) status = fm_cuda_timer_begin(lane, err);
    if (!status && graph)
        status = fm_cuda_check(lane->device, cudaGraphLaunch(graph->exec, slot->stream), err,
                               "launch a chunk of steps");
    if (!status && !graph) status = enqueue_calls(lane, work, length, err);
    if (!status && warm) status = fm_cuda_timer_end(lane, work->number, activity, length, err);
    if (status) return status;
    slot->warm[activity] = true;
    *fed = units < length ? units : length;
    return 0;
}

int fm_cuda_chunk(struct fm_lane *lane, const struct fm_cuda_work *work, int64_t units, int64_t *fed,
                  struct fm_error *err)
{
    struct fm_cuda_slot *slot = lane->slot;
    fm_profile_harvest(lane->device, &slot->marks[slot->chunks % FM_CUDA_FLIGHT]);
    int status = fm_cuda_timer_judge(lane, work->number, err);
    if (!status) status = enqueue(lane, work, units, fed, err);
    if (!status) slot->chunks++;
    return status;
}

void fm_cuda_graphs_free(struct fm_device *device, struct fm_cuda_slot *slot)
{
    for (int i = 0; i < slot->ngraphs; i++) FM_CUDA_NOTED(device, cudaGraphExecDestroy(slot->graphs[i].exec));
    slot->ngraphs = 0;
}

void fm_cuda_graphs_keep(struct fm_device *device, struct fm_cuda_slot *slot, const float *scores)
{
    int kept = 0;
    for (int i = 0; i < slot->ngraphs; i++) {
        const struct fm_cuda_graph *graph = &slot->graphs[i];
        if (!graph->scores || graph->scores == scores)
            slot->graphs[kept++] = *graph;
        else
            FM_CUDA_NOTED(device, cudaGraphExecDestroy(graph->exec));
    }
    slot->ngraphs = kept;
}

int64_t fm_cuda_captured(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                         int *steps)
{
    int64_t nodes = 0;
    *steps = 0;
    for (int c = 0; c < device->ncards; c++)
        for (const struct fm_cuda_slot *slot = device->cards[c].slots; slot; slot = slot->next)
            for (int i = 0; i < slot->ngraphs; i++) {
                const struct fm_cuda_graph *graph = &slot->graphs[i];
                if (graph->activity != FM_CUDA_TRAINS || graph->plan->program_hash != program->hash ||
                    graph->plan->batch != batch || graph->length <= *steps)
                    continue;
                nodes = graph->nodes;
                *steps = graph->length;
            }
    return nodes;
}
