/* The reference backend: every operation of a program as plain loops over the whole batch; worker threads, at
 * most one a core, take the requests of the lanes in turn.
 *
 * It is the oracle of the fast backends, so it is written to be read. It exists twice from one source: in
 * float (fm_backend_reference, "cpu") and in double (fm_backend_reference64, for finite differences). What
 * depends on the type of a number stands in the .inc files, which single.c and double.c compile with `real`
 * defined; everything else is in .c files and reaches the numbers through struct fm_numbers.
 *
 * Bits: every sum has one order - products in ascending input, examples in batch order, norms and losses in
 * double - so results depend on program, data, keys and batch size only, never on threads, lanes or how
 * requests were cut.
 *
 * Threads: the caller's thread makes all calls of the contract. A worker owns a lane while it runs one of its
 * requests; queues and reports are guarded by the device's mutex, the rest of a lane belongs to whoever has
 * it: the worker while `running`, else the caller.
 *
 * Memory of a lane is fm_layout's sum, allocated when the lane opens; nothing is allocated while it runs.
 */
#ifndef FM_ENGINE_REFERENCE_H
#define FM_ENGINE_REFERENCE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/backend.h"

extern const struct fm_backend fm_backend_reference;
extern const struct fm_backend fm_backend_reference64;

/* Examples are evaluated so many at a time; each on its own, so the number changes no bit. */
#define FM_EVALUATE_CHUNK 128

/* What ends every state: not parameters, but part of them for snapshots and blobs. */
struct fm_state_tail {
    int64_t iterations;          /* updates done: Keras's optimizer.iterations */
    double last_loss, last_norm; /* of the last step in which both were finite; NaN = none yet */
};

/* Sizes in bytes of everything a lane allocates. A state is reals [float_count] of parameters, reals
 * [slots][float_count] of the optimizer and the tail. A blob is a state; in double it is preceded by the
 * portable parameters in float (which are the state's own beginning otherwise). */
struct fm_layout {
    int64_t tail;     /* offset of the tail in a state */
    int64_t state;    /* whole state */
    int64_t portable; /* offset of the state in a blob: 0, or room for the floats */
    int64_t tensors;  /* all tensors that are not parameters */
    int64_t scratch;  /* what one operation needs beside its tensors */
    int64_t capacity; /* examples a batch or chunk can have */
    int64_t total;    /* of the lane: states, snapshots, tensors, lists */
};

/* One training step before its update. */
struct fm_step {
    double loss; /* of the batch, weights and regularisers included */
    double norm; /* root of the gradients' sum of squares, before clipping */
    bool bad;
};

/* One type of numbers: float or double. */
struct fm_numbers {
    const char *backend, *name; /* "cpu"; class of the numbers, "cpu-reference" */
    size_t size;                /* of one number */
    void (*gradients)(struct fm_lane *lane, struct fm_step *step); /* forward, backward, regularisers, norm */
    void (*update)(struct fm_lane *lane, double learning_rate);    /* clip, optimizer, moving statistics */
    void (*evaluate)(struct fm_lane *lane, double *loss, double *scores); /* of lane->n examples */
    void (*operation)(struct fm_lane *lane,
                      const struct fm_op *op);     /* forward or backward: one for the batch */
    double (*penalty)(const struct fm_lane *lane); /* the regularisers' part of the loss */
    void (*to_floats)(const void *state, int64_t count, float *parameters);
    void (*from_floats)(void *state, int64_t count, const float *parameters);
};
extern const struct fm_numbers fm_numbers_single;
extern const struct fm_numbers fm_numbers_double;

/* A request on its way, and the report it will give: allocated by submit, so that finishing cannot fail. */
struct fm_work {
    struct fm_request request;
    struct fm_report report;
    atomic_bool cancel;
    struct fm_work *next;
};

struct fm_lane {
    struct fm_device *device;
    const struct fm_numbers *numbers;
    struct fm_lane_options options;
    const struct fm_program *program;
    const struct fm_dataset *data;
    const struct fm_examples *examples;
    const struct fm_view *view;
    const struct fm_fold *fold;
    struct fm_layout layout;
    uint64_t shuffle_key, dropout_key;

    unsigned char *state, *snapshot[FM_SLOTS];
    bool taken[FM_SLOTS];
    bool frozen;   /* a bad step under stop or rollback */
    void **tensor; /* [ntensors]; parameters point into state */
    void *scratch;
    unsigned char *keep; /* one example's dropout mask */

    /* The batch or chunk at hand. */
    int64_t n, step;
    int64_t *example;      /* [capacity] */
    double *weight;        /* [capacity]: example weight x class weight */
    double *loss, *scores; /* [chunk], [chunk][score_width]: an evaluation's */

    /* Guarded by the device's mutex. */
    struct fm_work *first, *last; /* queued; the first one is running when `running` */
    bool running, ready, closing;
    struct fm_lane *next_ready, *next;
};

struct fm_device {
    const struct fm_numbers *numbers;
    int64_t lanes; /* preferred number */
    char text[128];
    struct fm_resident *resident; /* by number; data == NULL = free */
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

/* layout.c: sizes; false with a sentence in `why` when they overflow or the program cannot be run. */
bool fm_layout_measure(struct fm_layout *layout, const struct fm_program *program, int64_t batch, size_t real,
                       char *why, size_t why_size);
int64_t fm_tensor_bytes(const struct fm_program *program, int tensor, int64_t batch, size_t real);

/* lane.c: opens, closes, state, snapshots. */
int fm_lane_new(struct fm_lane **lane, struct fm_device *device, const struct fm_lane_options *options,
                struct fm_error *err);
void fm_lane_free(struct fm_lane *lane);
void fm_lane_blob_read(const struct fm_lane *lane, const unsigned char *state, unsigned char *blob);
void fm_lane_blob_write(const struct fm_lane *lane, unsigned char *state, const unsigned char *blob);
void fm_lane_reset(struct fm_lane *lane,
                   const float *parameters); /* slots, iterations, last loss: as at first */

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
