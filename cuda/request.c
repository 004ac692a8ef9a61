/* Requests on their way to the stream: checked, queued, and enqueued as far as there is room. */
#include "lane_private.h"

#include <stdatomic.h>

#include "base/machine.h"
#include "base/memory.h"
#include "engine/options.h"
#include "range.h"

float *fm_cuda_scores_of(const struct fm_lane *lane, const struct fm_request *request)
{
    if (request->kind != FM_EVALUATE || !(request->returns & FM_RETURN_SCORES)) return NULL;
    return request->part == FM_PART_TRAIN ? lane->train_scores : lane->scores;
}

/* The room for the training part's scores is large and seldom needed. */
static int make_train_scores(struct fm_lane *lane, const struct fm_request *r, struct fm_error *err)
{
    if (r->kind != FM_EVALUATE || r->part != FM_PART_TRAIN || !(r->returns & FM_RETURN_SCORES) ||
        lane->train_scores)
        return 0;
    const int64_t bytes =
        lane->counts[FM_PART_TRAIN] * lane->program->score_width * (int64_t)sizeof *lane->train_scores;
    lane->train_scores = fm_arena_take(&lane->card->arena, bytes);
    if (lane->train_scores) return 0;
    char need[FM_BYTES_TEXT], have[FM_BYTES_TEXT];
    return fm_fail(err, FM_ENOMEM,
                   "the scores of the training part take %s, and the card has %s in one piece",
                   fm_show_bytes(bytes, need), fm_show_bytes(fm_arena_largest(&lane->card->arena), have));
}

static int64_t result_bytes(const struct fm_lane *lane, const struct fm_request *r)
{
    int64_t bytes = 0;
    if (r->kind != FM_EVALUATE) return 0;
    if (r->returns & FM_RETURN_CONFUSION)
        bytes += lane->classes * lane->classes * (int64_t)sizeof *r->confusion;
    if (r->returns & FM_RETURN_SCORES)
        bytes += lane->counts[r->part] * lane->program->score_width * (int64_t)sizeof *r->scores;
    return bytes;
}

static int64_t units_of(const struct fm_lane *lane, const struct fm_request *r)
{
    const int64_t chunk = lane->plan->layout.chunk;
    if (r->kind == FM_TRAIN) return r->steps;
    return r->kind == FM_EVALUATE ? (lane->counts[r->part] + chunk - 1) / chunk : 0;
}

int fm_cuda_submit(struct fm_lane *lane, const struct fm_request *request, struct fm_error *err)
{
    int status = fm_cuda_alive(lane->device, err);
    if (!status) status = fm_request_check(request, lane->counts, lane->classes, err);
    if (!status) status = make_train_scores(lane, request, err);
    if (status) return status;
    struct fm_cuda_work *work = fm_calloc(1, sizeof *work);
    if (!work) return fm_fail_memory(err);
    work->request = *request;
    work->report.lane = lane;
    work->report.tag = request->tag;
    work->report.kind = request->kind;
    work->units = units_of(lane, request);
    work->results = result_bytes(lane, request);
    if (lane->last)
        lane->last->next = work;
    else
        lane->first = work;
    lane->last = work;
    if (!lane->feeding) lane->feeding = work;
    lane->device->transfers.to_device += (int64_t)sizeof(struct fm_cuda_begin);
    if (lane->broken) {
        fm_cuda_break(lane, &lane->why);
        return 0;
    }
    /* What goes wrong here is the request's failure or the device's: `wait` tells. */
    struct fm_error later = {0};
    fm_cuda_feed(lane, &later);
    return 0;
}

void fm_cuda_cancel(struct fm_lane *lane)
{
    for (struct fm_cuda_work *work = lane->first; work; work = work->next) work->cancel = true;
}

/* ---- onto the stream ---- */

struct fm_cuda_place fm_cuda_place_of(const struct fm_lane *lane, int activity)
{
    const struct fm_cuda_layout *layout = &lane->plan->layout;
    return (struct fm_cuda_place){
        .stream = lane->slot->stream,
        .lane = (struct fm_cuda_lane *)(lane->base + layout->record),
        .activity = activity,
        .rows = (int)(activity == FM_CUDA_EVALUATES ? layout->chunk : lane->options.batch)};
}

static int64_t in_flight(const struct fm_lane *lane)
{
    int64_t count = 0;
    for (const struct fm_cuda_work *work = lane->first; work; work = work->next) count += work->started;
    return count;
}

static bool chunk_has_room(const struct fm_lane *lane)
{
    return lane->slot->chunks - lane->slot->words->through < FM_CUDA_FLIGHT;
}

static int begin_work(struct fm_lane *lane, const struct fm_cuda_work *work, struct fm_error *err)
{
    const struct fm_request *r = &work->request;
    const struct fm_cuda_layout *layout = &lane->plan->layout;
    const struct fm_cuda_begin begin = {.kind = (int)r->kind,
                                        .on_nan = (int)r->on_nan,
                                        .part = (int)r->part,
                                        .first_step = r->first_step,
                                        .steps = r->steps,
                                        .learning_rate = r->learning_rate,
                                        .loss_sum = r->loss_sum};
    const struct fm_cuda_place place =
        fm_cuda_place_of(lane, r->kind == FM_EVALUATE ? FM_CUDA_EVALUATES : FM_CUDA_TRAINS);
    const bool moves = r->kind == FM_SNAPSHOT || r->kind == FM_RESTORE; /* else its slot may be anything */
    void *state = lane->base + layout->state, *slot = lane->base + layout->snapshot[moves ? r->slot : 0];
    cudaError_t status = cudaSuccess;
    switch (r->kind) {
    case FM_TRAIN: status = fm_cuda_request_begin(place, begin); break;
    case FM_EVALUATE:
        status = fm_cuda_request_begin(place, begin);
        if (status == cudaSuccess && r->returns & FM_RETURN_CONFUSION)
            status = fm_cuda_clear(place, lane->base + layout->confusion, layout->confusion_bytes);
        break;
    case FM_SNAPSHOT: status = fm_cuda_snapshot(place, state, slot, layout->state_bytes, r->slot); break;
    case FM_RESTORE: status = fm_cuda_restore(place, state, slot, layout->state_bytes, r->slot); break;
    }
    return fm_cuda_check(lane->device, status, err, "begin a request");
}

static int start(struct fm_lane *lane, struct fm_cuda_work *work, struct fm_error *err)
{
    work->number = ++lane->slot->number;
    work->first_chunk = lane->slot->chunks;
    work->started = true;
    return begin_work(lane, work, err);
}

static int end(struct fm_lane *lane, struct fm_cuda_work *work, struct fm_error *err)
{
    const bool evaluates = work->request.kind == FM_EVALUATE;
    const struct fm_cuda_place place = fm_cuda_place_of(lane, evaluates ? FM_CUDA_EVALUATES : FM_CUDA_TRAINS);
    const struct fm_cuda_bound bound = {.device = lane->device,
                                        .card = lane->card,
                                        .plan = lane->plan,
                                        .base = lane->base,
                                        .stream = lane->slot->stream};
    const double *penalty = (const double *)(lane->base + lane->plan->layout.penalty);
    struct fm_cuda_answer *answer = &lane->slot->words_at->answer[work->number % FM_CUDA_RING];
    const int status = evaluates ? fm_cuda_enqueue_penalty(&bound, err) : 0;
    if (status) return status;
    work->ended = true;
    return fm_cuda_check(lane->device,
                         fm_cuda_request_end(place, answer, work->number, evaluates ? penalty : NULL), err,
                         "end a request");
}

/* The next bytes of the results, as many as the pinned buffer holds: of the confusion matrix, then of the
 * scores. */
static int copy_results(struct fm_lane *lane, struct fm_cuda_work *work, struct fm_error *err)
{
    struct fm_cuda_slot *slot = lane->slot;
    const int64_t matrix = work->request.returns & FM_RETURN_CONFUSION
                               ? lane->classes * lane->classes * (int64_t)sizeof *work->request.confusion
                               : 0;
    const char *scores = (const char *)fm_cuda_scores_of(lane, &work->request);
    int status = 0;
    for (int64_t at = 0; !status && at < FM_CUDA_PINNED && work->asked < work->results;) {
        const bool in_matrix = work->asked < matrix;
        const char *from = in_matrix ? lane->base + lane->plan->layout.confusion + work->asked
                                     : scores + (work->asked - matrix);
        int64_t size = (in_matrix ? matrix : work->results) - work->asked;
        if (size > FM_CUDA_PINNED - at) size = FM_CUDA_PINNED - at;
        status = fm_cuda_check(
            lane->device,
            cudaMemcpyAsync(slot->results + at, from, (size_t)size, cudaMemcpyDeviceToHost, slot->stream),
            err, "copy scores from the card");
        at += size;
        work->asked += size;
        lane->device->transfers.to_host += size;
    }
    if (status) return status;
    work->copy = ++slot->copies;
    return fm_cuda_check(
        lane->device,
        fm_cuda_signal(fm_cuda_place_of(lane, FM_CUDA_EVALUATES), &slot->words_at->copied, work->copy), err,
        "signal a copy");
}

/* The pinned buffer holds what has not been taken from it yet. */
static bool buffer_is_free(const struct fm_lane *lane)
{
    for (const struct fm_cuda_work *work = lane->first; work; work = work->next)
        if (work->copy) return false;
    return true;
}

/* Whether the lane went idle before the request's last step: it froze, nothing more need be enqueued. */
static bool went_idle(const struct fm_lane *lane, const struct fm_cuda_work *work)
{
    const struct fm_cuda_words *words = lane->slot->words;
    if (words->through <= work->first_chunk) return false;
    atomic_thread_fence(memory_order_acquire);
    return words->activity == FM_CUDA_IDLE;
}

/* However fast the card is, a call comes back after a few chunks. */
static int feed_chunks(struct fm_lane *lane, struct fm_cuda_work *work, struct fm_error *err)
{
    for (int i = 0; i < FM_CUDA_FLIGHT && work->fed < work->units && !work->cancel && chunk_has_room(lane);
         i++) {
        int64_t fed = 0;
        if (went_idle(lane, work)) {
            work->fed = work->units;
            break;
        }
        FM_RANGE_BEGIN(work->request.kind == FM_TRAIN ? "epoch" : "evaluate");
        const int status = fm_cuda_chunk(lane, work, work->units - work->fed, &fed, err);
        FM_RANGE_END();
        if (status) return status;
        work->fed += fed;
    }
    return 0;
}

/* Enqueues what it can of one request; `enqueued` when that was all. */
static int feed_work(struct fm_lane *lane, struct fm_cuda_work *work, struct fm_error *err)
{
    int status = 0;
    if (!work->started) {
        if (work->cancel) {
            work->undone = work->enqueued = true;
            return 0;
        }
        if (in_flight(lane) == FM_CUDA_RING) return 0;
        status = start(lane, work, err);
    }
    if (!status && !work->ended) {
        status = feed_chunks(lane, work, err);
        if (!status && (work->fed == work->units || work->cancel)) {
            /* Of an evaluation that was cut short nothing comes back. */
            if (work->fed < work->units) work->results = 0;
            status = end(lane, work, err);
        }
    }
    if (status || !work->ended) return status;
    if (work->asked < work->results && buffer_is_free(lane)) status = copy_results(lane, work, err);
    work->enqueued = work->asked >= work->results;
    return status;
}

static bool waits_for_room(const struct fm_lane *lane, const struct fm_cuda_work *work)
{
    if (!work->started) return !work->cancel && in_flight(lane) == FM_CUDA_RING;
    if (!work->ended) return !work->cancel && work->fed < work->units && !chunk_has_room(lane);
    return !buffer_is_free(lane) && work->asked < work->results;
}

int fm_cuda_feed(struct fm_lane *lane, struct fm_error *err)
{
    if (lane->broken || !lane->feeding || waits_for_room(lane, lane->feeding)) return 0;
    const double began = lane->device->profile ? fm_monotonic() : 0;
    struct fm_error why = {0};
    int status = fm_card_use(lane->device, lane->card, &why);
    while (!status && lane->feeding) {
        struct fm_cuda_work *work = lane->feeding;
        status = feed_work(lane, work, &why);
        if (status || !work->enqueued) break;
        lane->feeding = work->next;
    }
    if (lane->device->profile) fm_profile_launched(lane->device, fm_monotonic() - began);
    if (!status) return 0;
    if (!lane->device->lost) {
        fm_cuda_break(lane, &why);
        return 0;
    }
    if (err && !err->code) *err = why;
    return FM_EDEVICE;
}
