/* The inside of a run, shared by run.c, run_epoch.c, run_nan.c and checkpoint.c; nobody else includes it.
 *
 * At most one request is pending. What is to be done next is not a list of requests but the set `wants`,
 * `safe_due` and the place `at`: fm_run_advance looks at them and submits one request, its report clears what
 * it did. A request that comes back cancelled clears nothing and is simply asked for again. The exception is
 * a backend that queues ahead (run_ahead.c): behind the evaluation that ends an epoch it has the first steps
 * of the next one.
 *
 * Functions that say "goes on" return 0 (a request is pending, or the run was stopped), 1 (the run is over)
 * or a negative code that is not the run's own fault.
 */
#ifndef FM_TRAIN_RUN_STATE_H
#define FM_TRAIN_RUN_STATE_H

#include "train/run.h"

/* In the order in which they are done. */
enum fm_run_want {
    FM_WANT_ROLLBACK = 1, /* back to the last clean epoch end */
    FM_WANT_KEEP = 2,     /* this state's weights are the best ones */
    FM_WANT_CLEAN = 4,    /* this state is a clean epoch end */
    FM_WANT_RESTORE = 8,  /* put the best weights back */
    FM_WANT_SCORE_INNER = 16,
    FM_WANT_SCORE_VAL = 32,
    FM_WANT_BACK = 64 /* to the epoch's end: what was trained ahead is not wanted */
};

/* Where the run is: with the lane's states all that a checkpoint holds. Every field takes eight bytes. */
struct fm_run_at {
    int64_t epoch; /* epochs that are over */
    int64_t step;  /* steps done of the next one */
    double loss_sum;
    int64_t loss_examples;
    double learning_rate;
    int64_t rollbacks;
    int64_t bad_steps;            /* of the run, rolled back ones included */
    int64_t epoch_bad, first_bad; /* of the present epoch; -1 = none */
    double last_loss, last_norm;  /* last finite ones; NaN = none */
    int64_t events;               /* told */
};

/* What was queued behind the evaluation at an epoch's end. A tag of 0: nothing, or its report has come. */
struct fm_run_ahead {
    bool on;                   /* this run queues ahead */
    uint64_t snapshot, train;  /* tags */
    int candidate;             /* slot of the snapshot: the state at the epoch's end */
    struct fm_request request; /* the training */
    bool discard;              /* it is not wanted: its reports are only waited for */
    bool cancelled;            /* because the evaluation itself came back cancelled */
};

struct fm_run {
    struct fm_run_spec spec;
    struct fm_run_listener listener;
    const struct fm_fold *fold;
    const struct fm_view *view;
    struct fm_lane *lane;
    int64_t steps;   /* of an epoch */
    int64_t classes; /* fm_metrics_classes */
    enum fm_part watched;
    uint32_t each, all; /* metrics of every epoch, of the scored one */

    struct fm_run_at at;
    struct fm_stopping stopping;
    bool restores;
    double loss, kept_loss; /* training losses of the last and of the kept epoch */
    double best_metric, watched_value;
    int64_t best_epoch;

    unsigned wants, moving; /* moving: what the pending snapshot or restore is for */
    int best_slot;          /* where the best weights are */
    struct fm_run_ahead ahead;
    bool safe_due, safe_is_end;
    bool finishing; /* no more training */
    bool whole;     /* a checkpoint may be taken now */
    bool stop, stopped;
    bool pending;
    uint64_t tag;
    struct fm_request request;   /* the pending one */
    bool full;                   /* `measured` holds everything that fits, of the present state */
    struct fm_measured measured; /* of the watched part */
    int64_t *confusion[2];       /* [K][K] of inner, val */
    float *scores[2];            /* [count][score_width] of inner, val */
    struct fm_run_result result;
};

/* run.c */
int fm_run_advance(struct fm_run *run, struct fm_error *err); /* goes on */
/* Ends the run as failed: 1. */
int fm_run_fail(struct fm_run *run, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What `why` makes of the run: failed (1), or negative when the device is lost (`why` goes to `err`). */
int fm_run_fault(struct fm_run *run, int code, const struct fm_error *why, struct fm_error *err);
int fm_run_tell(struct fm_run *run, struct fm_event *event,
                struct fm_error *err);                     /* numbers the event; 0 or negative */
int fm_run_open(struct fm_run *run, struct fm_error *err); /* 0, 1 = failed, or negative */

int fm_run_submit(struct fm_run *run, struct fm_request *request,
                  struct fm_error *err);                        /* tags it; goes on */
int fm_run_cancelled(struct fm_run *run, struct fm_error *err); /* goes on */
/* The training request that follows at step `step` of epoch `epoch` (over so many epochs). */
struct fm_request fm_run_train_request(const struct fm_run *run, int64_t epoch, int64_t step,
                                       double loss_sum);

/* run_ahead.c */
bool fm_run_may_go_ahead(const struct fm_run *run);
int fm_run_go_ahead(struct fm_run *run, struct fm_error *err); /* goes on */
/* After the evaluation's report: takes the training as the pending request, or has it thrown away. True:
 * nothing more is to be done now. */
bool fm_run_ahead_judged(struct fm_run *run);
/* Whether the report is of something queued ahead that is not (yet) the pending request; then `code` goes on.
 */
bool fm_run_ahead_report(struct fm_run *run, const struct fm_report *report, int *code, struct fm_error *err);

/* run_epoch.c */
int fm_run_request_evaluation(struct fm_run *run, enum fm_part part, bool full, struct fm_request *request,
                              struct fm_error *err);
int fm_run_evaluated(struct fm_run *run, const struct fm_report *report,
                     struct fm_error *err); /* 0, 1 or negative */
/* Whether the watched part can define what early stopping watches; 0 or negative. */
int fm_run_monitor_defined(const struct fm_run *run, bool *defined, struct fm_error *err);
/* Feeds one epoch to stopping and best_epoch; `watched` is what was measured on the watched part. */
struct fm_verdict fm_run_judge(struct fm_run *run, double loss, const struct fm_measured *watched);
void fm_run_plan_end(struct fm_run *run);
int fm_run_complete(struct fm_run *run, struct fm_error *err); /* 1 or negative */

/* run_nan.c */
int fm_run_trained(struct fm_run *run, const struct fm_report *report,
                   struct fm_error *err); /* 0, 1 or negative */
int fm_run_tell_bad_steps(struct fm_run *run,
                          struct fm_error *err); /* of the epoch that ends; 0 or negative */
void fm_run_rolled_back(struct fm_run *run);
void fm_run_start_epoch(struct fm_run *run);

#endif
