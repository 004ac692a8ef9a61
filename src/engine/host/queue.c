/* Worker threads and the way of a request: queued at its lane; the lane is ready; a worker runs its first
 * request; finished, until `wait` takes the report. A lane is with at most one worker, so its requests run in
 * order; after each one it goes behind the other ready lanes. Nobody polls: workers sleep on `work`, the
 * caller on `done`. */
#include "engine/host/host.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

#include "base/memory.h"

/* Adam's moments decay into denormal numbers, which cost a hundred times as much: flushed to zero (FTZ, DAZ).
 */
static void flush_denormals(void)
{
#if defined(__x86_64__) || defined(__i386__)
    _mm_setcsr(_mm_getcsr() | 0x8040u);
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | UINT64_C(1) << 24));
#endif
}

static void push_ready(struct fm_device *device, struct fm_lane *lane)
{
    lane->ready = true;
    lane->next_ready = NULL;
    if (device->ready_last)
        device->ready_last->next_ready = lane;
    else
        device->ready_first = lane;
    device->ready_last = lane;
    pthread_cond_signal(&device->work);
}

static struct fm_lane *pop_ready(struct fm_device *device)
{
    struct fm_lane *lane = device->ready_first;
    device->ready_first = lane->next_ready;
    if (!device->ready_first) device->ready_last = NULL;
    lane->ready = false;
    return lane;
}

static void push_done(struct fm_device *device, struct fm_work *work)
{
    work->next = NULL;
    if (device->done_last)
        device->done_last->next = work;
    else
        device->done_first = work;
    device->done_last = work;
    pthread_cond_broadcast(&device->done);
}

static void *worker(void *argument)
{
    struct fm_device *device = argument;
    flush_denormals();
    pthread_mutex_lock(&device->mutex);
    for (;;) {
        while (!device->ready_first && !device->stop) pthread_cond_wait(&device->work, &device->mutex);
        if (device->stop) break;
        struct fm_lane *lane = pop_ready(device);
        struct fm_work *work = lane->first;
        lane->running = true;
        pthread_mutex_unlock(&device->mutex);
        fm_lane_run(lane, work);
        pthread_mutex_lock(&device->mutex);
        lane->running = false;
        lane->first = work->next;
        if (!lane->first)
            lane->last = NULL;
        else if (!lane->closing)
            push_ready(device, lane);
        push_done(device, work);
    }
    pthread_mutex_unlock(&device->mutex);
    return NULL;
}

/* Signals are the program's: they must reach its own thread, never a worker. */
static void start_workers(struct fm_device *device, int64_t count)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (device->nworkers < count &&
           pthread_create(&device->workers[device->nworkers], NULL, worker, device) == 0)
        device->nworkers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int fm_queue_open(struct fm_device *device, struct fm_error *err)
{
    const int64_t count = device->nworkers;
    device->nworkers = 0;
    device->workers = fm_calloc((size_t)count, sizeof *device->workers);
    if (!device->workers) return fm_fail_memory(err);
    pthread_condattr_t monotonic;
    pthread_mutex_init(&device->mutex, NULL);
    pthread_cond_init(&device->work, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&device->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    start_workers(device, count);
    if (device->nworkers > 0) return 0;
    fm_queue_close(device);
    return fm_fail(err, FM_ENOMEM,
                   "the system starts no worker thread: too many threads or too little memory");
}

void fm_queue_close(struct fm_device *device)
{
    pthread_mutex_lock(&device->mutex);
    device->stop = true;
    pthread_cond_broadcast(&device->work);
    pthread_mutex_unlock(&device->mutex);
    for (int64_t i = 0; i < device->nworkers; i++) pthread_join(device->workers[i], NULL);
    while (device->done_first) {
        struct fm_work *work = device->done_first;
        device->done_first = work->next;
        fm_free(work);
    }
    pthread_cond_destroy(&device->done);
    pthread_cond_destroy(&device->work);
    pthread_mutex_destroy(&device->mutex);
    fm_free(device->workers);
}

void fm_queue_submit(struct fm_lane *lane, struct fm_work *work)
{
    struct fm_device *device = lane->device;
    pthread_mutex_lock(&device->mutex);
    if (lane->first) {
        lane->last->next = work;
    } else {
        lane->first = work;
        push_ready(device, lane);
    }
    lane->last = work;
    pthread_mutex_unlock(&device->mutex);
}

static void deadline_after(struct timespec *deadline, int milliseconds)
{
    clock_gettime(CLOCK_MONOTONIC, deadline);
    deadline->tv_sec += milliseconds / 1000;
    deadline->tv_nsec += milliseconds % 1000 * 1000000L;
    if (deadline->tv_nsec >= 1000000000L) {
        deadline->tv_nsec -= 1000000000L;
        deadline->tv_sec++;
    }
}

struct fm_work *fm_queue_wait(struct fm_device *device, int milliseconds)
{
    struct timespec deadline;
    deadline_after(&deadline, milliseconds > 0 ? milliseconds : 0);
    pthread_mutex_lock(&device->mutex);
    int status = 0;
    while (!device->done_first && milliseconds > 0 && status != ETIMEDOUT)
        status = pthread_cond_timedwait(&device->done, &device->mutex, &deadline);
    struct fm_work *work = device->done_first;
    if (work) {
        device->done_first = work->next;
        if (!device->done_first) device->done_last = NULL;
    }
    pthread_mutex_unlock(&device->mutex);
    return work;
}

static void mark_cancelled(struct fm_lane *lane)
{
    for (struct fm_work *work = lane->first; work; work = work->next) atomic_store(&work->cancel, true);
}

void fm_queue_cancel(struct fm_lane *lane)
{
    pthread_mutex_lock(&lane->device->mutex);
    mark_cancelled(lane);
    pthread_mutex_unlock(&lane->device->mutex);
}

static void remove_ready(struct fm_device *device, struct fm_lane *lane)
{
    struct fm_lane *before = NULL, *at = device->ready_first;
    while (at && at != lane) {
        before = at;
        at = at->next_ready;
    }
    if (!at) return;
    if (before)
        before->next_ready = lane->next_ready;
    else
        device->ready_first = lane->next_ready;
    if (device->ready_last == lane) device->ready_last = before;
    lane->ready = false;
}

static void drop_reports(struct fm_device *device, const struct fm_lane *lane)
{
    struct fm_work **at = &device->done_first, *last = NULL;
    while (*at) {
        struct fm_work *work = *at;
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

void fm_queue_drain(struct fm_lane *lane)
{
    struct fm_device *device = lane->device;
    pthread_mutex_lock(&device->mutex);
    lane->closing = true;
    mark_cancelled(lane);
    if (lane->ready) remove_ready(device, lane);
    while (lane->running) pthread_cond_wait(&device->done, &device->mutex);
    while (lane->first) {
        struct fm_work *work = lane->first;
        lane->first = work->next;
        fm_free(work);
    }
    drop_reports(device, lane);
    pthread_mutex_unlock(&device->mutex);
}

bool fm_queue_pending(struct fm_lane *lane)
{
    pthread_mutex_lock(&lane->device->mutex);
    const bool pending = lane->first != NULL;
    pthread_mutex_unlock(&lane->device->mutex);
    return pending;
}
