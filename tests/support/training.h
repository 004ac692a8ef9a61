/* One tiny fold and a run on it, for tests of the trainer: 20 examples of two classes (14 train, of which 4 are `inner`
 * when asked for, 6 val), window length 1, one channel. What the run tells is recorded, checkpoints included. */
#ifndef FM_TESTS_TRAINING_H
#define FM_TESTS_TRAINING_H

#include "train/run.h"

#define TS_EPOCHS 64
#define TS_EVENTS 32
#define TS_EXAMPLES 20

struct ts_training {
    struct fm_dataset data;
    struct fm_examples examples;
    struct fm_view view;
    struct fm_split split;
    struct fm_fold fold;
    struct fm_program program;     /* of the scripted backend: nothing but sizes */
    struct fm_resident resident;
    struct fm_train_config config;
    struct fm_run_spec spec;
    uint8_t classes[TS_EXAMPLES];
    float values[TS_EXAMPLES], weights[TS_EXAMPLES];
    int64_t anchors_first, starts[2], class_counts[2], counts[3][2];
    float shift[1], factor[1];
    double offset[1];
    struct fm_device *device;
    char requests[4096];           /* "T0+3 E(val) S(best) R(clean)", as submitted */
    struct fm_backend backend;     /* the given one, its submit tapped */
};

/* The fold; `inner` splits it off. config gets sweep-file.md's defaults with batch 4, 5 epochs, mse-free loss. */
void ts_training_init(struct ts_training *t, bool inner);
/* Opens the device, loads the data, fills spec. */
void ts_training_open(struct ts_training *t, const struct fm_backend *backend);
void ts_training_fini(struct ts_training *t);

/* What a run told. */
struct ts_told {
    struct fm_epoch epochs[TS_EPOCHS];
    int64_t nepochs;
    struct fm_event events[TS_EVENTS];
    int64_t nevents, safe_points;
    int64_t checkpoint_at;         /* take it at this safe point (from 1), then stop the run; 0 = never */
    int64_t fail_epoch;            /* the listener fails at this epoch; 0 = never */
    struct fm_run *run;
    struct fm_text blob;
    int64_t blob_epochs;
};
void ts_told_fini(struct ts_told *told);

/* Runs to the end (or to the stop): 1 over, 0 stopped, or negative. `told` goes on from what it holds: with
 * `resume` from its blob. The run stays in told->run until ts_told_fini or the next call. */
int ts_training_run(struct ts_training *t, struct ts_told *told, bool resume, struct fm_error *err);

#endif
