/* The contract between Foldmill and what computes.
 *
 * It speaks of lanes and requests, not of layers, because fast backends fuse layers, steps and lanes. One
 * thread (the scheduler's) makes every call here; how the requests of different lanes run - a worker thread
 * each, a stream each, one launch for all - is the backend's business. Same backend, same program, batch
 * size, data and keys: same bits, whatever runs beside it.
 *
 * Life of a device: open -> load (once or more) -> lanes open, run and close -> unload -> close.
 * Life of a lane:   lane_open (initial weights from its keys) -> submit ... wait ... -> lane_close.
 * A lane's requests run in the order they were submitted; several may be queued. `wait` gives the next
 * finished request of any lane.
 *
 * A bad step is one whose gradients' sum of squares (over all trainable variables, before clipping) or whose
 * loss is not finite; it is seen before the update. What follows is the request's on_nan: stop, rollback: the
 * step changes nothing; the lane is frozen: the rest of this request and everything queued is answered with
 * `frozen` and done nothing, until a restore or state_write. skip:           only that step's update is left
 * out; the optimizer's iteration count does not advance; moving statistics keep their value. keras: carry on
 * as if nothing had happened; bad steps are counted.
 */
#ifndef FM_ENGINE_BACKEND_H
#define FM_ENGINE_BACKEND_H

#include "base/error.h"
#include "base/text.h"
#include "data/split.h"
#include "net/program.h"

/* What is resident: borrowed by the backend until unload; it may copy. */
struct fm_resident {
    const struct fm_dataset *data;
    const struct fm_examples *examples;
    const struct fm_view *views;
    int64_t nviews;
    const struct fm_split *splits;
    int64_t nsplits;
};

/* Hyper-parameters of a lane: outside the program, so that lanes of one architecture share program and plan.
 */
struct fm_hyper {
    double momentum, beta_1, beta_2, epsilon, rho, weight_decay;
    enum fm_clip_kind clip;
    double clip_value;
    const double *rates;        /* [program->nrates] dropout rates */
    const float *class_weights; /* [nclasses] or NULL: all 1 */
    bool shuffle;
};

struct fm_lane_options {
    int dataset;                      /* number given by load */
    int64_t view, split, fold;        /* indices; fold = repeat * folds + fold within the split */
    const struct fm_program *program; /* borrowed until lane_close, as all pointers here */
    int64_t batch;
    struct fm_hyper hyper;
    int64_t seed; /* train.seed: keys are fm_key(seed, purpose, repeat, fold) */
};

enum fm_request_kind { FM_TRAIN, FM_EVALUATE, FM_SNAPSHOT, FM_RESTORE };
/* The candidates are for a trainer that queues the next epoch before it knows what became of the last one. */
enum { FM_SLOT_BEST, FM_SLOT_CLEAN, FM_SLOT_PREVIOUS, FM_SLOT_CANDIDATE, FM_SLOT_OTHER_CANDIDATE, FM_SLOTS };

/* What an evaluation returns beside its sums. */
enum { FM_RETURN_CONFUSION = 1, FM_RETURN_SCORES = 2 };

struct fm_request {
    enum fm_request_kind kind;
    uint64_t tag; /* comes back in the report */
    /* FM_TRAIN: steps first_step .. first_step + steps - 1, counted from the run's first step. A pass over
     * the training set has ceil(n / batch) steps; step s is step s mod that of pass s / that, in the order of
     * the pass's permutation (fm_key(seed, SHUFFLE, repeat, fold), pass number), or in set order without
     * shuffle. The last batch of a pass is smaller and has its own mean. */
    int64_t first_step, steps;
    double learning_rate;
    enum fm_on_nan on_nan;
    double loss_sum; /* the epoch's sum so far: the report's goes on from it, step by step, so that the
                        bits do not depend on how an epoch was cut into requests */
    /* FM_EVALUATE: all examples of `part`, in set order, in inference mode, weights not applied. What it
     * writes to is the caller's host memory, of any kind; it must live until `wait` gave the report or
     * lane_close returned, and is whole only then. */
    enum fm_part part;
    unsigned returns;
    int64_t *confusion; /* [K][K], true x predicted, written (not added to) by the backend; K = nclasses, or
                           the network's outputs when targets are distributions (true = their argmax). Taken
                           from the scores: argmax over the K classes, ties to the lowest; one score: class 1
                           when it is > 0.5 */
    float *scores;      /* [examples of part][program->score_width] */
    /* FM_SNAPSHOT, FM_RESTORE: everything of the lane's state (parameters, slots, statistics, iteration
     * count). */
    int slot;
};

struct fm_report {
    void *lane; /* struct fm_lane * whose request this was */
    uint64_t tag;
    enum fm_request_kind kind;
    int status;     /* 0, or a code: this request failed (FM_ENOMEM, FM_EDEVICE...); text in `error` */
    bool frozen;    /* not (or not wholly) done: the lane had a bad step */
    bool cancelled; /* not wholly done: cancel was called; `steps` were done */
    /* FM_TRAIN */
    int64_t steps;         /* done, bad ones included */
    int64_t examples;      /* seen in them */
    int64_t loss_examples; /* examples whose loss is in loss_sum: the divisor of the mean loss */
    double loss_sum;       /* the request's loss_sum, then + (batch loss incl. regularisers) * examples of the
                              batch for each step in order; a bad step's loss counts only under `keras` */
    int64_t bad_steps, first_bad_step; /* -1 = none */
    double last_loss,
        last_norm; /* of the last step in which both were finite; norm before clipping; NaN = none yet */
    /* FM_EVALUATE */
    double loss; /* mean over the part's examples + regularisers */
    double square_sum,
        absolute_sum; /* sums of (y - score)^2 and |y - score| over examples and outputs, for numbers */
    struct fm_error error;
};

struct fm_transfers {
    int64_t to_device, to_host; /* bytes since open */
};

/* Which kernels compute: Foldmill's own, a library's (cuDNN, cuBLAS) wherever one can, or what the plan finds
 * best. */
enum fm_kernels_choice { FM_KERNELS_AUTO, FM_KERNELS_OWN, FM_KERNELS_LIBRARY };

struct fm_device_options {
    int64_t lanes;      /* 0 = as many as the device likes */
    const char *select; /* after the colon of --device, or NULL */
    int64_t guard; /* tests: bytes of guard between the buffers of a lane, filled with a pattern; 0 in use;
                      an engine may have none */
    int64_t slice; /* tests: bytes that a slice of the batch may touch; 0 = the engine's own choice; an engine
                      may cut none. It changes no bit. */
    enum fm_kernels_choice kernels; /* GPUs only */
    bool profile;                   /* measure for `profile`, at a cost */
};

struct fm_device;
struct fm_lane;

struct fm_backend {
    const char *name; /* "cpu", "cuda" */

    int (*open)(struct fm_device **device, const struct fm_device_options *options, struct fm_error *err);
    void (*close)(struct fm_device *device); /* all lanes closed, all data unloaded before */
    /* One line about the device for `devices` and the journal; static until close. */
    const char *(*describe)(const struct fm_device *device);
    /* Class of the numbers (rule 8 of design.md): "cpu-reference", "cpu-fma", "cuda-fused". Within a class
     * the bits follow from program, batch size and plan; the scheduler puts the plan's hash on record beside
     * it. */
    const char *(*numbers)(const struct fm_device *device);
    int64_t (*lanes)(const struct fm_device *device); /* how many lanes to keep open */
    /* Bytes that the lanes may take together on the device, beside what is loaded; 0 = they live in the
     * machine's own memory, which the scheduler knows; negative = a code: the device is lost. Asked once,
     * after load. */
    int64_t (*memory)(const struct fm_device *device);

    int (*load)(struct fm_device *device, const struct fm_resident *resident, int *dataset,
                struct fm_error *err);
    void (*unload)(struct fm_device *device, int dataset);
    void (*transfers)(const struct fm_device *device, struct fm_transfers *transfers);

    /* False with a sentence in `why` when this backend cannot run the program at this batch size. */
    bool (*supports)(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                     char *why, size_t why_size);
    int64_t (*cost)(const struct fm_device *device, const struct fm_program *program,
                    int64_t batch); /* bytes */
    uint64_t (*plan_hash)(const struct fm_device *device, const struct fm_program *program, int64_t batch);
    /* Appends how the program would be computed, for `plan --explain`: lines of text, indented by two. */
    int (*explain)(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                   struct fm_text *text, struct fm_error *err);

    int (*lane_open)(struct fm_device *device, const struct fm_lane_options *options, struct fm_lane **lane,
                     struct fm_error *err);
    void (*lane_close)(struct fm_lane *lane); /* cancels what is queued; its reports never come */

    /* The lane's state as an opaque blob of fixed size per program; the first float_count floats are the
     * portable parameters. Only while no request of the lane is pending. */
    int64_t (*state_size)(const struct fm_lane *lane);
    int (*state_read)(struct fm_lane *lane, void *blob, struct fm_error *err);
    int (*state_write)(struct fm_lane *lane, const void *blob, struct fm_error *err); /* also thaws */
    /* A snapshot as a blob of the same form and size, so that a checkpoint can carry the kept and the last
     * clean weights. Only while no request of the lane is pending. Reading a slot that was never filled is
     * FM_EINTERNAL; writing fills the slot and changes nothing else of the lane (it does not thaw). */
    int (*snapshot_read)(struct fm_lane *lane, int slot, void *blob, struct fm_error *err);
    int (*snapshot_write)(struct fm_lane *lane, int slot, const void *blob, struct fm_error *err);
    /* Only the portable parameters; slots and iteration count become zero, statistics are among them. */
    int (*parameters_write)(struct fm_lane *lane, const float *parameters, struct fm_error *err);

    int (*submit)(struct fm_lane *lane, const struct fm_request *request,
                  struct fm_error *err); /* never blocks */
    /* 1 and the report of the next finished request; 0 when none finished within `milliseconds`; negative
     * when the device is lost. After FM_EDEVICE from any call or report nothing but lane_close, unload,
     * transfers, describe, numbers and close is called. */
    int (*wait)(struct fm_device *device, int milliseconds, struct fm_report *report, struct fm_error *err);
    /* Asks the lane to end its running request at the next step and to answer the queued ones undone. */
    void (*cancel)(struct fm_lane *lane);

    /* May be NULL. The floating point operations a second that one core (of a GPU: the whole) reaches at
     * most, measured with nothing but multiply-adds in registers, on the caller's thread where it is a
     * processor, for about `seconds`; 0 = unknown. */
    double (*peak)(const struct fm_device *device, double seconds);

    /* May be NULL all: what follows is for devices that have it. */

    /* Whether requests that are queued behind one another run without a pause that a trainer would notice: it
     * then queues the next epoch before the last one's evaluation is judged. */
    bool queues_ahead;
    /* Whether a lane with these options, of which only dataset, split, fold, program and batch are looked at,
     * would find room beside those that are open: `memory` may lie on several cards, or be in pieces. The
     * scheduler asks before it opens a lane beside others and waits for one of them to close if not. */
    bool (*lane_fits)(const struct fm_device *device, const struct fm_lane_options *options);
    /* Choices of a plan that depend on the versions of libraries (algorithms), as text for the journal:
     * appended to `text`, nothing where there are none. plan_use takes the choices of a journal instead of
     * the device's own for this program and batch size from then on (FM_EFILE: they make no sense here);
     * plan_hash follows. */
    int (*plan_choices)(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                        struct fm_text *text, struct fm_error *err);
    int (*plan_use)(struct fm_device *device, const struct fm_program *program, int64_t batch,
                    const char *choices, struct fm_error *err);
    /* Where the time went since open, as a table (options: profile). */
    int (*profile)(struct fm_device *device, struct fm_text *text, struct fm_error *err);
    /* Nodes of the longest graph of training steps that is captured at the moment for this program and batch
     * size, and the steps that it makes; 0 = none is. A plan's calls are counted by `explain`; a library's
     * call may be several nodes. */
    int64_t (*captured)(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                        int *steps);
    /* Tells profilers of the device what the caller does from now on ("journal"); NULL: that is over. */
    void (*range)(const char *name);
};

/* One of the backends that are built in, by name, a table that lives as long as the process; `auto` is the
 * best of them; `reference` are the plain loops in float, the oracle that the fast engines are compared with.
 * FM_EUSAGE for any other name; "cuda" lies in a plug-in (engine/plugin.h: fm_backend_open). */
int fm_backend_find(const struct fm_backend **backend, const char *name, struct fm_error *err);

#endif
