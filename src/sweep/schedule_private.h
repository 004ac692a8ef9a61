/* The scheduler's state, shared by its two files: scheduler.c (the loop) and schedule_lane.c (one lane). */
#ifndef FM_SWEEP_SCHEDULE_PRIVATE_H
#define FM_SWEEP_SCHEDULE_PRIVATE_H

#include "sweep/scheduler.h"

struct fm_waiting {
    struct fm_planned *trial;
    int64_t fold; /* repeat * folds + fold */
    double flops;
    bool taken;
    bool alone; /* it has the device to itself: memory ran out beside others, or the device was lost */
    struct fm_recorded recorded;
};

struct fm_schedule_lane {
    struct fm_schedule *schedule;
    struct fm_run *run; /* NULL = free */
    struct fm_planned *trial;
    struct fm_waiting *waiting; /* its place in the list */
    struct fm_fence fence;
    float *class_weights;
    int64_t cost;                /* bytes */
    double began, saved, heard;  /* monotonic; heard: of the last report */
    double flops, flops_resumed; /* expected work; the part done before this process */
};

struct fm_schedule {
    struct fm_prepared *prepared;
    const struct fm_schedule_options *options;
    const struct fm_backend *backend;
    struct fm_device *device;
    struct fm_journal *journal;
    const struct fm_watcher *watcher;
    struct fm_resident resident;
    int dataset; /* -1 = not loaded */
    struct fm_schedule_lane *lanes;
    struct fm_lane_view *views;
    int64_t nlanes; /* places in `lanes`: as many as the device likes, and some to spare */
    int64_t wanted; /* as many as the device likes */
    struct fm_waiting *waiting;
    int64_t nwaiting, first; /* first: nothing before it waits */
    size_t waiting_capacity;
    int64_t *left; /* runs that are not over, by trial of `prepared` */
    int64_t memory, memory_used;
    bool own_memory; /* the device's, not the machine's */
    bool full;       /* nothing that waits has room until a lane closes */
    bool stopping;
    double began, told;
    double flops, flops_before, flops_done; /* all; over before this process; done by it */
    struct fm_progress progress;
};

/* Bytes a run takes beside the resident data. */
int64_t fm_schedule_cost(const struct fm_schedule *s, const struct fm_waiting *run);
int64_t fm_schedule_memory(void);
/* 0 = it runs; 1 = it was over at once (a failure on record); negative = error. */
int fm_schedule_start(struct fm_schedule *s, struct fm_schedule_lane *lane, struct fm_waiting *run,
                      int64_t cost, struct fm_error *err);
int fm_schedule_report(struct fm_schedule *s, struct fm_schedule_lane *lane, const struct fm_report *report,
                       struct fm_error *err);
int fm_schedule_checkpoint(struct fm_schedule_lane *lane, struct fm_error *err);
/* Records the lane's run as failed because of the device. */
int fm_schedule_give_up(struct fm_schedule *s, struct fm_schedule_lane *lane, const char *why,
                        struct fm_error *err);
/* Whether any lane runs, other than `but` (may be NULL). */
bool fm_schedule_busy(const struct fm_schedule *s, const struct fm_schedule_lane *but);
void fm_schedule_close(struct fm_schedule *s, struct fm_schedule_lane *lane);

#endif
