/* Reports: looks at the words that kernels write, hands out what has been answered in the order in which it
 * was, feeds lanes. Never synchronises. */
#include "lane_private.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/machine.h"
#include "base/memory.h"

#define SPINS        64    /* looks without a pause: a short request is over by then */
#define SHORTEST_NAP 20000 /* nanoseconds */
#define LONGEST_NAP  100000
#define IDLE_NAP     20000000 /* nothing is pending */
#define ASKED        8        /* streams that are asked in a round */

/* ---- reports ---- */

static void push_done(struct fm_device *device, struct fm_cuda_work *work)
{
    work->next = NULL;
    if (device->done_last)
        device->done_last->next = work;
    else
        device->done_first = work;
    device->done_last = work;
}

static void pop_first(struct fm_lane *lane)
{
    struct fm_cuda_work *work = lane->first;
    lane->first = work->next;
    if (!lane->first) lane->last = NULL;
    if (lane->feeding == work) lane->feeding = work->next;
    push_done(lane->device, work);
}

static void blank_report(struct fm_cuda_work *work)
{
    struct fm_report *report = &work->report;
    report->first_bad_step = -1;
    report->loss_sum = work->request.loss_sum;
    report->last_loss = report->last_norm = report->loss = NAN;
}

static void report_training(const struct fm_cuda_work *work, const struct fm_cuda_answer *answer,
                            struct fm_report *report)
{
    report->steps = answer->steps;
    report->examples = answer->examples;
    report->loss_examples = answer->loss_examples;
    report->bad_steps = answer->bad_steps;
    report->first_bad_step = answer->first_bad_step;
    report->loss_sum = answer->loss_sum;
    report->cancelled = work->cancel && !answer->frozen && answer->steps < work->request.steps;
    if (answer->frozen && answer->steps == 0) return; /* it was frozen before */
    report->last_loss = answer->last_loss;
    report->last_norm = answer->last_norm;
}

static void report_evaluation(const struct fm_lane *lane, const struct fm_cuda_work *work,
                              const struct fm_cuda_answer *answer, struct fm_report *report)
{
    const int64_t count = lane->counts[work->request.part];
    if (answer->frozen) return;
    if (work->fed < work->units) {
        report->cancelled = true;
        return;
    }
    report->examples = count;
    report->loss = answer->evaluated / (double)count + answer->penalty;
    report->square_sum = answer->square_sum;
    report->absolute_sum = answer->absolute_sum;
}

static void write_report(struct fm_lane *lane, struct fm_cuda_work *work, const struct fm_cuda_answer *answer)
{
    struct fm_report *report = &work->report;
    const int slot = work->request.slot;
    blank_report(work);
    report->frozen = answer->frozen != 0;
    switch (work->request.kind) {
    case FM_TRAIN: report_training(work, answer, report); break;
    case FM_EVALUATE: report_evaluation(lane, work, answer, report); break;
    case FM_SNAPSHOT:
        if (!answer->frozen) lane->taken[slot] = true;
        break;
    case FM_RESTORE:
        if (!answer->status) break;
        report->frozen = false;
        report->status = fm_fail(&report->error, FM_EINTERNAL, "snapshot slot %d is empty", slot);
    }
    lane->device->transfers.to_host += (int64_t)sizeof *answer;
}

/* Hands what lies in the pinned buffer to the caller. */
static void take_results(const struct fm_lane *lane, struct fm_cuda_work *work)
{
    const struct fm_request *r = &work->request;
    const int64_t matrix =
        r->returns & FM_RETURN_CONFUSION ? lane->classes * lane->classes * (int64_t)sizeof *r->confusion : 0;
    const unsigned char *from = lane->slot->results;
    while (work->taken < work->asked) {
        const bool in_matrix = work->taken < matrix;
        char *to =
            in_matrix ? (char *)r->confusion + work->taken : (char *)r->scores + (work->taken - matrix);
        const int64_t end = in_matrix && work->asked > matrix ? matrix : work->asked;
        memcpy(to, from, (size_t)(end - work->taken));
        from += end - work->taken;
        work->taken = end;
    }
    work->copy = 0;
}

/* Whether the first request is over. */
static bool is_over(struct fm_lane *lane, struct fm_cuda_work *work)
{
    const struct fm_cuda_answer *answer;
    if (work->undone) {
        blank_report(work);
        work->report.cancelled = true;
        return true;
    }
    if (!work->ended) return false;
    answer = fm_cuda_answer_of(lane, work);
    if (answer->done != work->number) return false;
    atomic_thread_fence(memory_order_acquire);
    if (work->copy) {
        if (lane->slot->words->copied < work->copy) return false;
        atomic_thread_fence(memory_order_acquire);
        if (!answer->frozen) {
            take_results(lane, work);
        } else {
            work->asked = work->taken = work->results; /* what was copied means nothing */
            work->copy = 0;
            work->enqueued = true;
        }
    }
    if (work->taken < work->results) return false;
    write_report(lane, work, answer);
    return true;
}

void fm_cuda_collect(struct fm_lane *lane)
{
    while (lane->first && !lane->broken && is_over(lane, lane->first)) pop_first(lane);
}

void fm_cuda_break(struct fm_lane *lane, const struct fm_error *why)
{
    if (!lane->broken) lane->why = *why;
    lane->broken = true;
    while (lane->first) {
        blank_report(lane->first);
        lane->first->report.status = lane->why.code;
        lane->first->report.error = lane->why;
        pop_first(lane);
    }
    lane->feeding = NULL;
}

void fm_cuda_drop(struct fm_lane *lane)
{
    struct fm_device *device = lane->device;
    struct fm_cuda_work **at = &device->done_first, *last = NULL;
    while (lane->first) pop_first(lane);
    while (*at) {
        struct fm_cuda_work *work = *at;
        if (work->report.lane == lane) {
            *at = work->next;
            fm_free(work);
        } else {
            last = work;
            at = &work->next;
        }
    }
    device->done_last = last;
}

/* ---- waiting ---- */

static int look(struct fm_device *device, struct fm_error *err)
{
    int status = fm_cuda_alive(device, err);
    for (struct fm_lane *lane = device->lane; !status && lane; lane = lane->next) {
        fm_cuda_collect(lane);
        status = fm_cuda_feed(lane, err);
        fm_cuda_collect(lane); /* what was cancelled needs no answer from the card */
    }
    return status;
}

static int ask_lane(struct fm_lane *lane, struct fm_error *err)
{
    const int status = fm_card_use(lane->device, lane->card, err);
    if (status) return status;
    const cudaError_t found = cudaStreamQuery(lane->slot->stream);
    if (found == cudaErrorNotReady) {
        cudaGetLastError();
        return 0;
    }
    /* Work that is on its way never fails for want of memory in a way that only this lane would feel. */
    return fm_cuda_check(lane->device, found == cudaErrorMemoryAllocation ? cudaErrorUnknown : found, err,
                         "run a lane's work");
}

/* Asks the streams of busy lanes whether they failed, a few in a round; this also makes drivers that collect
 * launches pass them on. *busy: whether there is any. */
static int ask(struct fm_device *device, bool *busy, struct fm_error *err)
{
    int64_t lanes = 0, number = 0;
    int status = 0;
    for (struct fm_lane *lane = device->lane; lane; lane = lane->next) lanes += lane->first != NULL;
    *busy = lanes > 0;
    const int64_t groups = (lanes + ASKED - 1) / ASKED, turn = (int64_t)device->asked++;
    for (struct fm_lane *lane = device->lane; !status && lane; lane = lane->next) {
        if (!lane->first || number++ % groups != turn % groups) continue;
        status = ask_lane(lane, err);
    }
    return status;
}

static void nap(int round, bool busy, double left)
{
    long nanoseconds = SHORTEST_NAP * (long)(round < 4 * SPINS ? 1 : 1 + (round - 4 * SPINS) / 8);
    if (nanoseconds > LONGEST_NAP) nanoseconds = LONGEST_NAP;
    if (!busy) nanoseconds = IDLE_NAP;
    if ((double)nanoseconds > 1e9 * left) nanoseconds = (long)(1e9 * left);
    const struct timespec time = {.tv_nsec = nanoseconds > 0 ? nanoseconds : 0};
    nanosleep(&time, NULL);
}

static bool take_done(struct fm_device *device, struct fm_report *report)
{
    struct fm_cuda_work *work = device->done_first;
    if (!work) return false;
    device->done_first = work->next;
    if (!device->done_first) device->done_last = NULL;
    *report = work->report;
    fm_free(work);
    return true;
}

static int wait_until(struct fm_device *device, double deadline, struct fm_report *report,
                      struct fm_error *err)
{
    bool busy = true;
    for (int round = 0;; round += round < INT32_MAX / 2) {
        int status = look(device, err);
        if (status) return status;
        if (take_done(device, report)) return 1;
        if (round == 0 || round > SPINS) status = ask(device, &busy, err);
        if (status) return status;
        const double left = deadline - fm_monotonic();
        if (round > 0 && left <= 0) return 0;
        if (round > SPINS) nap(round, busy, left);
    }
}

int fm_cuda_wait(struct fm_device *device, int milliseconds, struct fm_report *report, struct fm_error *err)
{
    const double deadline = fm_monotonic() + 1e-3 * (milliseconds > 0 ? milliseconds : 0);
    if (device->profile) fm_profile_waits(device, true);
    const int got = wait_until(device, deadline, report, err);
    if (device->profile) fm_profile_waits(device, false);
    return got;
}
