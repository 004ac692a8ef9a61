/* One run - one trial on one fold of one repeat - as a small state machine fed with reports.
 *
 * The scheduler starts it, hands it every report of its lane, and is told what happened as events. It never
 * blocks and knows nothing of other runs, of the journal or of time. An epoch is a chain of TRAIN requests of
 * `chunk` steps (their ends are the safe points), then the evaluation of the watched part (the validation
 * fold, or `inner`), then the verdict. At the end the kept weights are restored where the rule says so and
 * everything that fits the target is measured at the scored epoch.
 *
 *   start -> TRAIN ... TRAIN -> EVALUATE watched -> (SNAPSHOT best) -> next epoch or
 *         -> RESTORE best -> EVALUATE watched, val -> done
 *
 * A bad step under on_nan: `stop` fails the run with "nan"; `rollback` restores the last clean epoch end,
 * halves the learning rate and runs the epoch again with the same examples, at most 3 times in a run, then
 * fails it; `skip` and `keras` are counted and on record, one event an epoch that has any.
 *
 * Without `inner` the watched part is val. With it, a monitor (or metric) of val means the same one of inner:
 * val is scored once, at the end. A monitor that the watched part cannot define turns early stopping off
 * there, with a note. Prechelt's rules watch the watched part's loss. A clean epoch end is the start and
 * every epoch that got to its end.
 *
 * Checkpoint and resume: at a safe point with nothing pending the run can write itself into a blob, from
 * which it goes on with the same bits: lane state, kept weights, last clean state, place in the epoch, sums,
 * learning rate. The history is not in it: the caller gives back the epochs it recorded, up to the
 * checkpoint's epoch.
 */
#ifndef FM_TRAIN_RUN_H
#define FM_TRAIN_RUN_H

#include "base/text.h"
#include "engine/backend.h"
#include "train/metrics.h"
#include "train/stopping.h"

struct fm_run_spec {
    const struct fm_backend *backend;
    struct fm_device *device;
    const struct fm_resident *resident;
    int dataset;
    const struct fm_program *program;
    const struct fm_train_config *config;
    int64_t view, split, fold;  /* indices, as in fm_lane_options */
    uint32_t metrics;           /* measured each epoch: config's, the monitor's and the sweep's metric's */
    struct fm_monitor metric;   /* the sweep's: best_epoch is information */
    bool maximize;              /* the sweep's goal */
    int64_t chunk;              /* steps between safe points, >= 1 */
    const double *rates;        /* [program->nrates] dropout rates; NULL = the program's own */
    const float *class_weights; /* [nclasses] or NULL; see fm_class_weights */
    bool keep_weights;          /* the result carries the scored epoch's parameters */
};

/* Weights by class for one fold: balanced over the classes present in its training part, or the user's map by
 * class name. weights[nclasses]. Unknown class names are errors at their place. */
int fm_class_weights(const struct fm_train_config *config, const struct fm_dataset *data,
                     const struct fm_fold *fold, float *weights, struct fm_error *err);

struct fm_epoch {
    int64_t epoch; /* from 1 */
    double loss, learning_rate;
    struct fm_measured inner, val; /* NaN where not measured */
    bool best;                     /* the kept weights are now this epoch's */
};

enum fm_event_kind { FM_EVENT_NAN, FM_EVENT_SKIP, FM_EVENT_ROLLBACK, FM_EVENT_MEMORY, FM_EVENT_NOTE };
struct fm_event {
    enum fm_event_kind kind;
    int64_t number; /* from 0 in the run; an event that is told again after a resume has its old number */
    int64_t epoch, step;         /* epoch from 1; step of the run from 0; -1 = unknown */
    int64_t count;               /* bad steps it stands for */
    double last_loss, last_norm; /* last finite ones; NaN = none */
    char text[256];
};

/* What became of it. */
enum fm_run_status { FM_RUN_PENDING, FM_RUN_RUNNING, FM_RUN_COMPLETED, FM_RUN_FAILED };
struct fm_run_result {
    enum fm_run_status status;
    char reason_code[16]; /* "nan", "oom", "device", "shape", "io"; "" when completed */
    char reason[512];
    int64_t epochs;                   /* trained */
    int64_t scored_epoch, best_epoch; /* best_epoch 0: no epoch has a finite value of the sweep's metric */
    char stopped[24];                 /* "epochs", "early_stopping", "gl", "pq", "up", "nan" */
    double loss;                      /* training loss of the scored epoch */
    struct fm_measured inner, val;    /* at the scored epoch; everything that fits */
    int64_t *confusion;               /* val [K][K] or NULL */
    float *scores;                    /* val [count][score_width] */
    int64_t nscores;
    float *weights; /* [float_count] or NULL */
    int64_t bad_steps;
};
void fm_run_result_fini(struct fm_run_result *result);

/* What the run tells while it goes; every call comes from inside fm_run_start / fm_run_report. A negative
 * return ends the run with that error (the journal could not be written). */
struct fm_run_listener {
    int (*epoch)(void *context, const struct fm_epoch *epoch, struct fm_error *err);
    int (*event)(void *context, const struct fm_event *event, struct fm_error *err);
    /* Nothing is pending and the state is whole: a good moment to call fm_run_checkpoint. */
    int (*safe_point)(void *context, bool epoch_end, struct fm_error *err);
    /* Whether the result shall carry the weights (spec: keep_weights): asked when all else of it is known.
     * NULL = yes. */
    bool (*keeps_weights)(void *context, const struct fm_run_result *result);
    void *context;
};

struct fm_run;
int fm_run_new(struct fm_run **run, const struct fm_run_spec *spec, const struct fm_run_listener *listener,
               struct fm_error *err);
void fm_run_free(struct fm_run *run); /* closes its lane */

/* Opens the lane and submits the first requests: 0, or 1 when the run is over already (no memory for its
 * lane: the result says so), or negative. With a checkpoint it goes on from there; `history` are the epochs
 * recorded up to it, fm_run_epochs at the time. A checkpoint that does not fit (size, version, another
 * program) is FM_EFILE: start a new run instead. Pointers of the spec must stay valid until fm_run_free. */
int fm_run_start(struct fm_run *run, struct fm_error *err);
int fm_run_resume(struct fm_run *run, const void *blob, size_t size, const struct fm_epoch *history,
                  int64_t nhistory, struct fm_error *err);

/* Takes a report of this run's lane. 1 = the run is over (result filled), 0 = it goes on, negative = an error
 * that is not the run's own (journal, lost device). */
int fm_run_report(struct fm_run *run, const struct fm_report *report, struct fm_error *err);
const struct fm_lane *
fm_run_lane(const struct fm_run *run); /* NULL before start and when it could not open */
/* Belongs to the run; what the caller takes out of it (scores, weights) it replaces by NULL. */
struct fm_run_result *fm_run_result(struct fm_run *run);
/* Epochs that are over and were told to the listener. */
int64_t fm_run_epochs(const struct fm_run *run);

/* Asks it to stop at the next safe point: after that fm_run_stopped is true and nothing is pending. (A run
 * that is past its last safe point ends instead.) A request that comes back cancelled is taken as such a
 * point too; if the state was not whole there, the listener is not called and the last checkpoint stands. */
void fm_run_stop(struct fm_run *run);
bool fm_run_stopped(const struct fm_run *run);

/* Whether it is at a safe point, so that it can be written; a stopped run need not be. */
bool fm_run_whole(const struct fm_run *run);
/* The run as a blob; only at a safe point. Appends to `blob`. */
int fm_run_checkpoint(struct fm_run *run, struct fm_text *blob, struct fm_error *err);

/* Steps between safe points; another number counts from the next request on. */
int64_t fm_run_chunk(const struct fm_run *run);
void fm_run_set_chunk(struct fm_run *run, int64_t steps);

/* Where it is: for the progress display. */
struct fm_run_place {
    int64_t epoch, epochs, step, steps;
    double loss, watched;
};
void fm_run_place(const struct fm_run *run, struct fm_run_place *place);

#endif
