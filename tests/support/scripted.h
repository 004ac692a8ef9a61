/* A backend without arithmetic, for tests of trainer and scheduler: it keeps the whole contract of
 * engine/backend.h (lanes, queues, frozen lanes, cancel, snapshots, state blobs, parts, scores, confusion)
 * but computes nothing.
 *
 * Everything runs inside `wait`, on the caller's thread: each call picks one of the lanes with something
 * queued by a seeded draw and answers its first request, or says that nothing has finished yet. Numbers
 * depend on the run (train.seed, repeat, fold, program hash), the epoch and the part only - never on order,
 * lanes or history - so a sweep under two different `order` seeds must end alike.
 *
 * Epochs count from 0 and are passes over the training set: step s lies in epoch s / ceil(n / batch), and an
 * evaluation belongs to the last epoch the lane's state has begun; a restored snapshot evaluates as it did
 * then.
 */
#ifndef FM_TESTS_SCRIPTED_H
#define FM_TESTS_SCRIPTED_H

#include "engine/backend.h"

/* What a number is asked for. */
struct fm_scripted_at {
    int64_t seed, repeat, fold;
    uint64_t program; /* its hash */
    int64_t epoch;    /* from 0; -1 = evaluated before any step */
    enum fm_part part;
    bool training; /* the loss of training steps, not of an evaluation */
};

enum fm_scripted_what {
    FM_SCRIPTED_OPEN,  /* lane_open answers `code` */
    FM_SCRIPTED_TRAIN, /* a training request that touches `epoch` answers `code` after doing nothing */
    FM_SCRIPTED_EVALUATE,
    FM_SCRIPTED_SNAPSHOT,
    FM_SCRIPTED_READ, /* state_read of a lane in `epoch` */
    FM_SCRIPTED_BAD /* the first step of `epoch` is bad, while the learning rate is above `above` */
};

/* One thing that goes wrong; -1 (or 0 for program) fits all. */
struct fm_scripted_fault {
    enum fm_scripted_what what;
    int64_t repeat, fold;
    uint64_t program;
    int64_t epoch; /* ignored for OPEN */
    int code;
    int64_t times; /* happens so often, counted since open; 0 = always */
    double above;  /* BAD */
};

#define FM_SCRIPTED_FAULTS 16

struct fm_scripted_options {
    uint64_t order;     /* seed of the order of completions */
    double idle;        /* share of waits that find nothing finished, in [0, 1) */
    int64_t lanes;      /* what `lanes` answers unless the caller asked for a number; 0 = 2 */
    int64_t bytes;      /* what `cost` answers; 0 = by the program's parameters */
    int64_t memory;     /* bytes the device says lanes may take together; 0 = it leaves that to the machine */
    int64_t room;       /* lanes that fit beside one another, whatever their bytes; 0 = any number */
    int64_t lost_after; /* the device is lost after so many reports; 0 = never. A fault with the code
                           FM_EDEVICE loses it too, whichever call it comes from */
    int64_t plan_loses; /* a plan of a network with so many parameters loses the device, unless plan_use
                           took all choices from it before; 0 = none does */
    const char *choices; /* what plan_choices answers; NULL = "" */
    bool stubborn;       /* plan_use takes nothing */
    const char *numbers; /* class of the numbers; NULL = "scripted" */
    double (*loss)(void *context,
                   const struct fm_scripted_at *at); /* NULL = a falling curve with keyed noise */
    void *context;
    struct fm_scripted_fault faults[FM_SCRIPTED_FAULTS];
    int nfaults;
};

/* What happened since `configure`; readable after close. */
struct fm_scripted_counts {
    int64_t opened, closed, submitted, reported, cancelled, trained_steps, waits;
    int64_t most_lanes; /* open at the same time */
    int64_t beside;     /* requests answered for a lane while others were open */
    int64_t after_loss; /* calls of a lost device that nobody may make any more */
    int64_t used;       /* choices taken by plan_use */
};

/* The options of the next `open`. A test process has one scripted device at a time. */
void fm_scripted_configure(const struct fm_scripted_options *options);
const struct fm_scripted_counts *fm_scripted_counts(void);

extern const struct fm_backend fm_backend_scripted;
/* The same, with plan_choices and plan_use: choices are any text, and part of the plan's hash. */
extern const struct fm_backend fm_backend_scripted_choosing;

#endif
