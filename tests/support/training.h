/* One tiny fold and a run on it, for tests of the trainer. What the run tells is recorded, checkpoints
 * included. */
#ifndef FM_TESTS_TRAINING_H
#define FM_TESTS_TRAINING_H

#include "train/run.h"

#define TS_EPOCHS    64
#define TS_EVENTS    32
#define TS_EXAMPLES  20
#define TS_POSITIONS 64

struct ts_training {
    struct fm_dataset data;
    struct fm_examples examples;
    struct fm_view view;
    struct fm_split split;
    struct fm_fold fold;
    struct fm_program blank;          /* for the scripted backend: nothing but sizes */
    const struct fm_program *program; /* = &blank until a test puts its own here, before open */
    struct fm_resident resident;
    struct fm_train_config config;
    struct fm_run_spec spec;
    uint8_t classes[TS_POSITIONS];
    float values[TS_POSITIONS], targets[TS_POSITIONS];
    int64_t starts[2], class_counts[2], counts[3][2];
    float shift[1], factor[1];
    double offset[1];
    struct fm_device *device;
    char requests[4096];       /* "T0+3 E(val) S(best) R(clean)", as submitted */
    struct fm_backend backend; /* the given one, its submit tapped */
};

/* 20 examples of two classes, window length 1, one channel: 14 train, or 10 and 4 inner, and 6 val. SGD with
 * rate 1, batch 4, 5 epochs, accuracy each epoch, no early stopping. */
void ts_training_init(struct ts_training *t, bool inner);
/* The same with 57 windows of 8 out of 64 positions, classes by their mean: 44 train, or 36 and 8 inner, and
 * 13 val. */
void ts_training_init_series(struct ts_training *t, bool inner);
/* The examples of ts_training_init are numbers instead, one a position: examples [0, n) train, the next m are
 * val. */
void ts_training_init_numbers(struct ts_training *t, const float *x, const float *y, int64_t n, int64_t m);
/* Opens the device, loads the data, fills spec. */
void ts_training_open(struct ts_training *t, const struct fm_backend *backend);
void ts_training_fini(struct ts_training *t);

/* What a run told. */
struct ts_told {
    struct fm_epoch epochs[TS_EPOCHS];
    int64_t nepochs;
    struct fm_event events[TS_EVENTS];
    int64_t nevents, safe_points;
    int64_t checkpoint_at; /* take it at this safe point (from 1), then stop the run; 0 = never */
    int64_t fail_epoch;    /* the listener fails at this epoch; 0 = never */
    struct fm_run *run;
    struct fm_text blob;
    int64_t blob_epochs;
};
void ts_told_fini(struct ts_told *told);

/* Runs to the end (or to the stop): 1 over, 0 stopped, or negative. `told` goes on from what it holds: with
 * `resume` from its blob. The run stays in told->run until ts_told_fini or the next call. */
int ts_training_run(struct ts_training *t, struct ts_told *told, bool resume, struct fm_error *err);

#endif
