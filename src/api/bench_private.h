/* Between the files of the benchmark: a reference network with its data on an open device. */
#ifndef FM_API_BENCH_PRIVATE_H
#define FM_API_BENCH_PRIVATE_H

#include "engine/backend.h"

#define FM_BENCH_BATCHES   5
#define FM_BENCH_MAX_BATCH 32768 /* fewer than the training examples of any reference network */

struct fm_bench_net {
    const char *name, *file;
    bool letters;
    int64_t length, batches[FM_BENCH_BATCHES]; /* 0 ends them */
};

/* All of them in the order of the table, ended by a name of NULL. */
extern const struct fm_bench_net fm_bench_nets[];

struct fm_bench {
    const struct fm_bench_net *net;
    const struct fm_backend *backend;
    struct fm_device *device;
    struct fm_sweep sweep;
    bool has_sweep, has_data, has_examples, has_view, has_split;
    int dataset; /* -1 = not loaded */
    struct fm_dataset data;
    struct fm_examples examples;
    struct fm_view view;
    struct fm_split split;
    struct fm_train_config train;
    struct fm_program *program;
};

/* Makes the data and opens the device with `options`. `small`: a series of 8,192 samples, made at once,
 * instead of 1,049,344. On failure nothing is left to free. */
int fm_bench_init(struct fm_bench *bench, const struct fm_backend *backend,
                  const struct fm_device_options *options, const struct fm_bench_net *net, bool small,
                  struct fm_error *err);
void fm_bench_fini(struct fm_bench *bench);
/* A lane that trains with Adam on shuffled examples. */
int fm_bench_lane(struct fm_bench *bench, int64_t batch, struct fm_lane **lane, struct fm_error *err);

#endif
