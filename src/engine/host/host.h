/* What every backend that computes on this machine's cores shares: the device, its worker threads, lanes,
 * requests, evaluations. An engine provides a struct fm_executor, the arithmetic; the host calls it.
 *
 * Making a backend: an engine has an `open` of its own that passes its executor to fm_host_open, and a
 *     const struct fm_backend fm_backend_x = FM_HOST_BACKEND("x", open_x);
 * everything else of the contract is the host's.
 *
 * Threads: the caller's thread makes all calls of the contract. A worker owns a lane while it runs one of its
 * requests; queues and reports are guarded by the device's mutex, the rest of a lane belongs to whoever has
 * it: the worker while `running`, else the caller. Between the first and the last step of a request a worker
 * takes no lock and allocates nothing; it looks at the request's `cancel` once a step. Worker threads flush
 * denormal numbers to zero; the caller's thread, on which lane_open, parameters and the blob functions run,
 * does not.
 *
 * Memory of a lane is all allocated when it opens: layout.total says how much.
 */
#ifndef FM_ENGINE_HOST_H
#define FM_ENGINE_HOST_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/random.h"
#include "engine/backend.h"

/* What ends every state: not parameters, but part of them for snapshots and blobs. */
struct fm_state_tail {
    int64_t iterations;          /* updates done: Keras's optimizer.iterations; the engine's update counts */
    double last_loss, last_norm; /* of the last step in which both were finite; NaN = none yet: the host's */
};

/* One training step before its update. */
struct fm_step {
    double loss; /* of the batch, weights and regularisers included */
    double norm; /* root of the gradients' sum of squares, before clipping */
    bool bad;    /* loss or norm is not finite */
};

/* No size may be larger: 2^46 bytes are beyond any machine, and sums of a few cannot overflow. */
#define FM_HOST_MAX_BYTES (INT64_C(1) << 46)

struct fm_host_layout {
    int64_t tail;     /* offset of the tail in a state, a multiple of 8 */
    int64_t state;    /* bytes of a state: parameters, optimizer slots, statistics in the engine's own order,
                         and the tail */
    int64_t blob;     /* bytes of a blob: what state_size gives */
    int64_t capacity; /* most examples of a batch or chunk */
    int64_t chunk;    /* examples evaluated at a time */
    int64_t total;    /* of the lane. `measure` sets what lane_open will allocate; the host adds the state,
                         the snapshots and its own lists */
};

/* What an engine provides. Pointers without "may be NULL" must be there. The caller's thread runs measure,
 * hash, the opening and closing hooks, parameters and the blob functions, these while the lane is idle; a
 * worker's thread runs gradients, update, evaluate, penalty and permute. */
struct fm_executor {
    const char *name; /* of the backend: "cpu", "reference", "reference64" */
    /* Fills device->text (a line about the device) and device->numbers (class of the numbers), and
     * device->engine as it likes. Runs after the workers have started: device->nworkers is final. Options
     * that no engine has a use for were refused before. */
    int (*device_open)(struct fm_device *device, const struct fm_device_options *options,
                       struct fm_error *err);
    void (*device_close)(struct fm_device *device); /* not after a device_open that failed; may be NULL */
    /* Sizes of a lane; false with a sentence in `why` when the program cannot be run at this batch size. */
    bool (*measure)(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                    struct fm_host_layout *layout, char *why, size_t why_size);
    /* What decides the bits beside program, batch size and class of numbers: joins the plan's hash. May be
     * NULL. */
    void (*hash)(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                 struct fm_hash *hash);
    /* The plan in words (engine/backend.h). */
    int (*explain)(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                   struct fm_text *text, struct fm_error *err);
    /* Allocates lane->engine. All else of the lane is there; state and snapshots are not set yet. */
    int (*lane_open)(struct fm_lane *lane, struct fm_error *err);
    void (*lane_close)(struct fm_lane *lane); /* also after a lane_open that failed half-way */
    /* Of the lane->n examples of step lane->step: forward, backward, regularisers, norm, finite check.
     * Changes nothing of the state. */
    void (*gradients)(struct fm_lane *lane, struct fm_step *step);
    /* Follows gradients, not after a bad step (but under on_nan: keras): clip, optimizer, moving statistics,
     * tail->iterations. */
    void (*update)(struct fm_lane *lane, double learning_rate);
    /* Of lane->n examples, at most layout.chunk, in inference mode: loss[n], scores[n][score_width]. */
    void (*evaluate)(struct fm_lane *lane, double *loss, double *scores);
    double (*penalty)(const struct fm_lane *lane); /* the regularisers' part of the loss */
    /* Portable parameters into lane->state, which is all zero: only what is not zero need be written. */
    void (*parameters)(struct fm_lane *lane, const float *portable);
    /* Between a state of layout.state bytes and a blob of layout.blob, the portable parameters first. A blob
     * has no alignment. */
    void (*blob_read)(const struct fm_lane *lane, const unsigned char *state, unsigned char *blob);
    void (*blob_write)(const struct fm_lane *lane, unsigned char *state, const unsigned char *blob);
    /* Tests: one operation of the program for the whole batch. May be NULL. */
    void (*operation)(struct fm_lane *lane, const struct fm_op *op);
    /* places[i] = fm_permutation_at(p, first + i), for engines that have it faster. NULL =
     * fm_permutation_many. */
    void (*permute)(const struct fm_device *device, const struct fm_permutation *p, uint64_t first,
                    int64_t count, uint64_t *places);
    /* As in engine/backend.h; NULL = unknown. */
    double (*peak)(const struct fm_device *device, double seconds);
};

/* A request on its way, and the report it will give: allocated by submit, so that finishing cannot fail. */
struct fm_work {
    struct fm_request request;
    struct fm_report report;
    atomic_bool cancel;
    struct fm_work *next;
};

/* The examples of the steps at hand and of those that follow in their pass. */
struct fm_order {
    int64_t first_step, steps; /* first_step .. first_step + steps - 1 are here, whole batches of one pass */
    int64_t count;             /* their examples */
    int64_t pass_steps;        /* of a whole pass */
    bool weighted;             /* else all weights are 1, once and for all */
    int64_t *example;          /* [fm_order_room], as the others */
    double *weight;
    struct fm_slab *slab;
};

struct fm_lane {
    struct fm_device *device;
    const struct fm_executor *executor;
    struct fm_lane_options options;
    const struct fm_program *program;
    const struct fm_dataset *data;
    const struct fm_examples *examples;
    const struct fm_view *view;
    const struct fm_fold *fold;
    struct fm_host_layout layout;
    uint64_t shuffle_key, dropout_key;

    /* Allocated by the host, each at a multiple of 64 bytes. */
    unsigned char *state, *snapshot[FM_SLOTS]; /* candidates only when first asked for */
    bool taken[FM_SLOTS];
    bool frozen;  /* a bad step under stop or rollback */
    void *engine; /* the executor's own */
    bool entered; /* lane_open was called */

    /* The batch or chunk at hand, for training and evaluation alike; weights are for training only. The
     * pointers move from step to step, so an engine reads them anew each time. `ahead` more examples and
     * slabs stand behind the n: those of the next steps, as far as they are known already. */
    int64_t n, ahead, step;
    int64_t *example;      /* [n + ahead], n at most layout.capacity */
    double *weight;        /* [n]: example weight x class weight */
    struct fm_slab *slab;  /* [n + ahead]: where each example's window lies */
    double *loss, *scores; /* [chunk], [chunk][score_width]: an evaluation's */

    struct fm_order order; /* what example, weight and slab point into; an evaluation takes it over */

    /* Guarded by the device's mutex. */
    struct fm_work *first, *last; /* queued; the first one is running when `running` */
    bool running, ready, closing;
    struct fm_lane *next_ready, *next;
};

struct fm_device {
    const struct fm_executor *executor;
    void *engine;                     /* the executor's own */
    const char *numbers;              /* class of the numbers: "cpu-reference" */
    char text[160];                   /* a line about the device */
    int64_t lanes;                    /* preferred number */
    struct fm_device_options options; /* as given; `select` is gone */
    struct fm_resident *resident;     /* by number; data == NULL = free */
    int nresident;
    struct fm_transfers transfers;
    struct fm_lane *lane; /* all that are open */

    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    pthread_t *workers;
    int64_t nworkers;
    bool stop;
    struct fm_lane *ready_first, *ready_last;
    struct fm_work *done_first, *done_last;
};

static inline struct fm_state_tail *fm_lane_tail(const struct fm_lane *lane)
{
    return (struct fm_state_tail *)(lane->state + lane->layout.tail);
}

/* Asks for the window of a slab before it is needed: scattered windows come from far. */
static inline void fm_lane_prefetch(const struct fm_lane *lane, const struct fm_slab *slab)
{
    const struct fm_dataset *data = lane->data;
    const char *first = data->letters ? (const char *)(data->letters + slab->first)
                                      : (const char *)(data->values + slab->first * data->channels);
    const int64_t bytes =
        data->letters ? slab->rows : slab->rows * data->channels * (int64_t)sizeof *data->values;
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(first + at);
    __builtin_prefetch(first + bytes - 1); /* windows seldom begin with a cache line */
}

/* ---- for the backends: device.c ---- */

int fm_host_open(struct fm_device **device, const struct fm_device_options *options,
                 const struct fm_executor *executor, struct fm_error *err);
void fm_host_close(struct fm_device *device);
const char *fm_host_describe(const struct fm_device *device);
const char *fm_host_numbers(const struct fm_device *device);
int64_t fm_host_lanes(const struct fm_device *device);
int64_t fm_host_memory(const struct fm_device *device);
int fm_host_load(struct fm_device *device, const struct fm_resident *resident, int *dataset,
                 struct fm_error *err);
void fm_host_unload(struct fm_device *device, int dataset);
void fm_host_transfers(const struct fm_device *device, struct fm_transfers *transfers);
bool fm_host_supports(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                      char *why, size_t why_size);
int64_t fm_host_cost(const struct fm_device *device, const struct fm_program *program, int64_t batch);
uint64_t fm_host_plan_hash(const struct fm_device *device, const struct fm_program *program, int64_t batch);
int fm_host_explain(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                    struct fm_text *text, struct fm_error *err);
double fm_host_peak(const struct fm_device *device, double seconds);
int fm_host_lane_open(struct fm_device *device, const struct fm_lane_options *options, struct fm_lane **lane,
                      struct fm_error *err);
void fm_host_lane_close(struct fm_lane *lane);

/* state.c */
int64_t fm_host_state_size(const struct fm_lane *lane);
int fm_host_state_read(struct fm_lane *lane, void *blob, struct fm_error *err);
int fm_host_state_write(struct fm_lane *lane, const void *blob, struct fm_error *err);
int fm_host_snapshot_read(struct fm_lane *lane, int slot, void *blob, struct fm_error *err);
int fm_host_snapshot_write(struct fm_lane *lane, int slot, const void *blob, struct fm_error *err);
int fm_host_parameters_write(struct fm_lane *lane, const float *parameters, struct fm_error *err);

/* request.c */
/* Makes the slot's memory if it has none; only on the caller's thread. */
int fm_lane_slot(struct fm_lane *lane, int slot, struct fm_error *err);
int fm_host_submit(struct fm_lane *lane, const struct fm_request *request, struct fm_error *err);
int fm_host_wait(struct fm_device *device, int milliseconds, struct fm_report *report, struct fm_error *err);

#define FM_HOST_BACKEND(backend_name, open_function)                                                         \
    {                                                                                                        \
        .name = backend_name, .open = open_function, .close = fm_host_close, .describe = fm_host_describe,   \
        .numbers = fm_host_numbers, .lanes = fm_host_lanes, .memory = fm_host_memory, .load = fm_host_load,  \
        .unload = fm_host_unload, .transfers = fm_host_transfers, .supports = fm_host_supports,              \
        .cost = fm_host_cost, .plan_hash = fm_host_plan_hash, .explain = fm_host_explain,                    \
        .lane_open = fm_host_lane_open, .lane_close = fm_host_lane_close, .state_size = fm_host_state_size,  \
        .state_read = fm_host_state_read, .state_write = fm_host_state_write,                                \
        .snapshot_read = fm_host_snapshot_read, .snapshot_write = fm_host_snapshot_write,                    \
        .parameters_write = fm_host_parameters_write, .submit = fm_host_submit, .wait = fm_host_wait,        \
        .cancel = fm_queue_cancel, .peak = fm_host_peak                                                      \
    }

/* ---- between the files of the host ---- */

/* lane.c: opens, closes, initial weights. */
bool fm_host_measure(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                     struct fm_host_layout *layout, char *why, size_t why_size);
int fm_lane_new(struct fm_lane **lane, struct fm_device *device, const struct fm_lane_options *options,
                struct fm_error *err);
void fm_lane_free(struct fm_lane *lane);
/* Slots, iterations, last loss: as at first. */
void fm_lane_reset(struct fm_lane *lane, const float *parameters);

/* order.c: the examples of a step. */
int64_t fm_order_room(int64_t batch, int64_t capacity); /* examples that the lists hold */
bool fm_order_init(struct fm_lane *lane);               /* false: out of memory; fini follows in any case */
void fm_order_fini(struct fm_lane *lane);
void fm_order_reset(struct fm_lane *lane); /* nothing is at hand; the lists are free for other use */
void fm_order_take(struct fm_lane *lane, int64_t step);

/* run.c: carries out one request on the worker's thread. */
void fm_lane_run(struct fm_lane *lane, struct fm_work *work);

/* evaluate.c */
void fm_lane_evaluate(struct fm_lane *lane, struct fm_work *work);
const struct fm_indexset *fm_lane_part(const struct fm_lane *lane, enum fm_part part);
int64_t fm_lane_classes(const struct fm_lane *lane); /* K of a confusion matrix */
/* The class of an example: its own, or the largest of its distribution (ties: the lowest). */
int64_t fm_lane_class(const struct fm_lane *lane, int64_t example);

/* queue.c: workers, ready lanes, finished requests. */
int fm_queue_open(struct fm_device *device, struct fm_error *err);
void fm_queue_close(struct fm_device *device);
void fm_queue_submit(struct fm_lane *lane, struct fm_work *work);
struct fm_work *fm_queue_wait(struct fm_device *device,
                              int milliseconds); /* NULL: none; the caller frees it */
void fm_queue_cancel(struct fm_lane *lane);
void fm_queue_drain(struct fm_lane *lane); /* cancels everything of the lane and drops its reports */
bool fm_queue_pending(struct fm_lane *lane);

#endif
