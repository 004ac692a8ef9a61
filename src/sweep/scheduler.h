/* Which run gets which lane: one thread, an event loop over submit and wait.
 *
 * Runs are taken longest expected first; a lane that ends is refilled at once. While runs are short some more
 * lanes are open than the device likes (one for every four), so that it need not wait for this thread. Memory
 * is admitted by arithmetic before a lane opens; a run that is out of memory all the same beside others is
 * tried once more alone. Results never depend on lanes or on the order of completions: runs share nothing,
 * and what is ranked is computed from the journal. A run that fails is recorded with its reason and the sweep
 * goes on. The journal's rows follow the events of the runs; a checkpoint is written at a safe point once ten
 * seconds have passed since the run's last.
 */
#ifndef FM_SWEEP_SCHEDULER_H
#define FM_SWEEP_SCHEDULER_H

#include <stdatomic.h>

#include "sweep/journal.h"

/* For the progress display: called often, must be quick. All pointers are valid during the call only. */
struct fm_lane_view {
    bool busy;
    int64_t trial, repeat, fold;
    struct fm_run_place place;
};
struct fm_progress {
    double elapsed, left; /* seconds; left < 0 = not known yet */
    int64_t runs, done, failed, resumed;
    const struct fm_lane_view *lanes;
    int64_t nlanes;
};
enum fm_news_kind { FM_NEWS_RUN_END, FM_NEWS_TRIAL_END, FM_NEWS_EVENT };
struct fm_news {
    enum fm_news_kind kind;
    int64_t trial, repeat, fold;
    const struct fm_run_result *result; /* RUN_END */
    const struct fm_event *event;       /* EVENT */
};
struct fm_watcher {
    void (*progress)(void *context, const struct fm_progress *progress);
    void (*news)(void *context, const struct fm_news *news);
    void *context;
};

struct fm_schedule_options {
    const struct fm_backend *backend;
    struct fm_device *device;
    struct fm_journal *journal;
    const struct fm_watcher *watcher; /* may be NULL */
    const atomic_int *stop;           /* set from a signal handler: nonzero = stop at the next safe point */
    double checkpoint_seconds;        /* 10 */
    int64_t memory; /* bytes that lanes may take together; 0 = the device's, or the machine's */
};

/* Runs everything that is not over. 0 = all over (see `failed`), FM_EINTERRUPTED when `stop` was set (the
 * journal is whole), another code when the journal or the device failed. */
int fm_schedule(struct fm_prepared *p, const struct fm_schedule_options *options, struct fm_error *err);

#endif
