/* A whole engine on a table: pre-cut examples in memory, a network from YAML text, a device and lanes. For
 * tests of backends; nothing here reads files. Nothing here uses Criterion, so that plain programs can link
 * it. */
#ifndef FM_TESTS_BENCH_H
#define FM_TESTS_BENCH_H

#include "engine/backend.h"

struct ts_examples {
    int64_t n, rows, channels; /* numbers: x is [n][rows][channels] */
    const float *x;
    const uint8_t *letters; /* or letters [n][rows], `alphabet` of them */
    int64_t alphabet;
    int64_t nclasses; /* targets: classes [n], or values [n][width] */
    const uint32_t *classes;
    const float *values;
    int64_t width;
    bool distribution;
    const float *weights;        /* [n] or NULL */
    int64_t train;               /* the first so many train, the others validate; all of them: validate too */
    const float *shift, *factor; /* [channels] or NULL: 0 and 1 */
    int64_t length;              /* of the windows: more than rows = zero rows before and after; 0 = rows */
};

struct ts_bench {
    const struct fm_backend *backend;
    struct fm_device *device;
    int dataset;
    struct fm_document document;
    struct fm_train_config config;
    struct fm_program *program;
    struct fm_dataset data;
    struct fm_examples examples;
    struct fm_view view;
    struct fm_split split;
    struct fm_fold folds[2]; /* the same sets under repeat 0, fold 0 and 1: other keys */
    struct fm_resident resident;
    struct fm_device_options options; /* of the device */
    struct fm_error error;            /* of the last call that failed */
};

/* `yaml` is a map of `model` and `train`. False with `error` filled when something failed; close it anyway.
 */
bool ts_bench_open(struct ts_bench *bench, const struct ts_examples *examples, const char *yaml,
                   const struct fm_backend *backend, int64_t lanes);
/* The same with guards or forced slices: the device gets these options. */
bool ts_bench_open_with(struct ts_bench *bench, const struct ts_examples *examples, const char *yaml,
                        const struct fm_backend *backend, const struct fm_device_options *options);
void ts_bench_close(struct ts_bench *bench);

/* A lane with the hyper-parameters of `train`; class_weights may be NULL. NULL when it does not open. */
struct fm_lane *ts_bench_lane(struct ts_bench *bench, int64_t fold, int64_t seed, const float *class_weights);

/* Submits and waits for the report of this one request; nothing else may be pending. */
bool ts_bench_do(struct ts_bench *bench, struct fm_lane *lane, const struct fm_request *request,
                 struct fm_report *report);
/* Trains `steps` steps from `first` with the rate and on_nan of `train`. */
bool ts_bench_train(struct ts_bench *bench, struct fm_lane *lane, int64_t first, int64_t steps,
                    struct fm_report *report);
/* The portable parameters, float_count floats; false when that failed. */
bool ts_bench_parameters(struct ts_bench *bench, struct fm_lane *lane, float *parameters);

/* `n` examples of `rows` numbers (ts_hashed with `salt`, in [-1, 1)), of two classes in turn, of which the
 * first `train` train; x and classes have room for them and must live as long. */
struct ts_examples ts_examples_in_turn(float *x, uint32_t *classes, int64_t n, int64_t rows, int64_t train,
                                       uint32_t salt);

/* The formula of tests/goldens/README.md ("training.json"): value i of a salted stream in [offset - limit,
 * offset + limit). */
float ts_hashed(uint32_t i, uint32_t salt, double limit, double offset);

#endif
