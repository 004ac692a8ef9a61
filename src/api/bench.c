#include "api/bench.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/handle.h"
#include "base/memory.h"
#include "net/layers.h"
#include "train/run.h"

#define EXAMPLES 8192 /* enough for the largest batch, small enough to make at once */
#define LETTERS  20
#define CLASSES  3

/* The nets of users.md on made-up data. `letters`: random letters instead of the file that is named. */
static const struct bench_net {
    const char *name, *file;
    bool letters;
    int64_t length, batches[4];
} nets[] = {
    {"S",
     "data: {source: sine, samples: 8192, anomalies: 40, window: {length: 104, edge: wrap, label: any}}\n"
     "cv: {split: holdout, shuffle: false, purge: false}\n"
     "model: [conv1d: {filters: 24, kernel_size: 9, activation: relu}, max_pooling1d: {pool_size: 4}, "
     "flatten,\n"
     "  dense: {units: 20, activation: relu}, dense: {units: 2, activation: softmax}]\n"
     "train: {loss: categorical_crossentropy}\n",
     false,
     104,
     {1, 8, 64, 128}},
    {"P2",
     "data: {source: sequences, path: x, sequence: {column: s, alphabet: ACDEFGHIKLMNPQRSTVWY}, target: t,\n"
     "  window: {length: 17, align: center}}\n"
     "cv: {split: holdout, shuffle: false, purge: false}\n"
     "model: [conv1d: {filters: 64, kernel_size: 5, padding: same, activation: swish},\n"
     "  conv1d: {filters: 64, kernel_size: 5, padding: same, activation: swish}, flatten,\n"
     "  dense: {units: 3, activation: softmax}]\n"
     "train: {loss: sparse_categorical_crossentropy}\n",
     true,
     17,
     {1, 8, 64, 0}},
};

struct bench {
    const struct bench_net *net;
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

int64_t fm_usable_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? count : 1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One long chain of random letters with random classes. */
static int make_letters(struct fm_dataset *data, struct fm_error *err)
{
    static const char *const names[CLASSES] = {"H", "E", "C"};
    *data =
        (struct fm_dataset){.nrecords = 1, .positions = EXAMPLES, .alphabet = LETTERS, .nclasses = CLASSES};
    data->starts = fm_calloc(2, sizeof *data->starts);
    data->letters = fm_malloc(EXAMPLES, 1);
    data->class_names = fm_calloc(CLASSES, sizeof *data->class_names);
    data->alphabet_letters = fm_strdup("ACDEFGHIKLMNPQRSTVWY");
    if (!data->starts || !data->letters || !data->class_names || !data->alphabet_letters)
        return fm_fail_memory(err);
    for (int i = 0; i < CLASSES; i++)
        if (!(data->class_names[i] = fm_strdup(names[i]))) return fm_fail_memory(err);
    int rc = fm_packed_init(&data->classes, EXAMPLES, CLASSES + 1, err);
    if (rc) return rc;
    data->starts[1] = EXAMPLES;
    uint32_t state = 1;
    for (int64_t i = 0; i < EXAMPLES; i++) {
        state = state * 1664525u + 1013904223u;
        data->letters[i] = (uint8_t)((state >> 16) % LETTERS);
        fm_packed_set(&data->classes, i, (state >> 8) % CLASSES);
    }
    return 0;
}

static int load_data(struct bench *b, struct fm_error *err)
{
    const struct fm_dataset_needs needs = {.longest_window = b->net->length};
    int rc;
    if (b->net->letters) {
        b->has_data = true;
        rc = make_letters(&b->data, err);
    } else {
        rc = fm_dataset_load(&b->data, &b->sweep.data, &needs, NULL, err);
        b->has_data = !rc;
    }
    if (!rc) rc = fm_examples_init(&b->examples, &b->data, &b->sweep.data, &b->net->length, 1, NULL, err);
    b->has_examples = !rc;
    if (!rc) rc = fm_view_init(&b->view, &b->data, &b->examples, &b->sweep.data, b->net->length, NULL, err);
    b->has_view = b->has_examples && !rc;
    if (!rc) rc = fm_split_init(&b->split, &b->sweep.cv, &b->sweep.data, &b->view, 0, NULL, err);
    b->has_split = b->has_view && !rc;
    return rc;
}

static int compile(struct bench *b, struct fm_error *err)
{
    struct fm_net_input input = {.rows = b->net->length,
                                 .channels = b->net->letters ? b->data.alphabet : b->data.channels,
                                 .letters = b->net->letters,
                                 .nclasses = b->data.nclasses,
                                 .exact_classes = true,
                                 .target_width = b->data.target_width};
    int rc = fm_train_read(&b->train, b->sweep.train, false, NULL, err);
    return rc ? rc : fm_program_compile(&b->program, b->sweep.model, &b->train, &input, NULL, err);
}

static void bench_fini(struct bench *b)
{
    if (b->dataset >= 0) b->backend->unload(b->device, b->dataset);
    if (b->device) b->backend->close(b->device);
    fm_program_free(b->program);
    if (b->has_split) fm_split_fini(&b->split);
    if (b->has_view) fm_view_fini(&b->view);
    if (b->has_examples) fm_examples_fini(&b->examples);
    if (b->has_data) fm_dataset_fini(&b->data);
    if (b->has_sweep) fm_sweep_fini(&b->sweep);
}

static int bench_init(struct bench *b, const struct fm_backend *backend, const struct bench_net *net,
                      struct fm_error *err)
{
    *b = (struct bench){.net = net, .backend = backend, .dataset = -1};
    int rc = fm_sweep_parse(&b->sweep, net->name, net->file, strlen(net->file), NULL, 0, NULL, err);
    b->has_sweep = !rc;
    if (!rc) rc = load_data(b, err);
    if (!rc) rc = compile(b, err);
    struct fm_device_options options = {.lanes = 1};
    if (!rc) rc = backend->open(&b->device, &options, err);
    struct fm_resident resident = {.data = &b->data,
                                   .examples = &b->examples,
                                   .views = &b->view,
                                   .nviews = 1,
                                   .splits = &b->split,
                                   .nsplits = 1};
    if (!rc) rc = backend->load(b->device, &resident, &b->dataset, err);
    if (rc) b->dataset = -1;
    if (rc) bench_fini(b);
    return rc;
}

/* Runs `steps` steps from `first` on and gives the seconds they took. */
static int time_steps(struct bench *b, struct fm_lane *lane, int64_t first, int64_t steps, double *seconds,
                      struct fm_error *err)
{
    struct fm_request request = {.kind = FM_TRAIN,
                                 .first_step = first,
                                 .steps = steps,
                                 .learning_rate = 1e-4,
                                 .on_nan = FM_ON_NAN_KERAS};
    struct fm_report report;
    double began = now();
    int rc = b->backend->submit(lane, &request, err);
    while (!rc && (rc = b->backend->wait(b->device, 1000, &report, err)) == 0) continue;
    *seconds = now() - began;
    if (rc < 0) return rc;
    if (report.status && err && !err->code) *err = report.error;
    return report.status;
}

/* Doubles the steps until they take a good part of the time, so that slow and fast machines measure alike. */
static int measure(struct bench *b, struct fm_lane *lane, double seconds, double *steps_per_second,
                   struct fm_error *err)
{
    double took = 0;
    int64_t first = 0, steps = 1;
    for (;;) {
        int rc = time_steps(b, lane, first, steps, &took, err);
        if (rc) return rc;
        *steps_per_second = (double)steps / (took > 1e-9 ? took : 1e-9);
        if (took >= seconds * 0.4 || steps >= (int64_t)1 << 40) return 0;
        first += steps;
        steps *= 2;
    }
}

static int bench_batch(struct bench *b, int64_t batch, double seconds, struct fm_bench_row *row,
                       struct fm_error *err)
{
    struct fm_lane_options options = {
        .dataset = b->dataset,
        .program = b->program,
        .batch = batch,
        .hyper = {.momentum = b->train.optimizer.momentum,
                  .beta_1 = b->train.optimizer.beta_1,
                  .beta_2 = b->train.optimizer.beta_2,
                  .epsilon = b->train.optimizer.epsilon,
                  .rho = b->train.optimizer.rho,
                  .rates = b->program->rates,
                  .shuffle = true},
    };
    struct fm_lane *lane = NULL;
    double steps = 0;
    int rc = b->backend->lane_open(b->device, &options, &lane, err);
    if (rc) return rc;
    rc = measure(b, lane, seconds, &steps, err);
    b->backend->lane_close(lane);
    *row = (struct fm_bench_row){.network = b->net->name,
                                 .batch = batch,
                                 .steps_per_second = steps,
                                 .examples_per_second = steps * (double)batch,
                                 .gflops = 1e-9 * fm_program_flops(b->program, true) * (double)batch * steps};
    return rc;
}

int fm_bench_rate(const struct fm_backend *backend, double seconds, double *rate, struct fm_error *err)
{
    struct bench b;
    struct fm_bench_row row = {0};
    *rate = 0;
    int rc = bench_init(&b, backend, &nets[0], err);
    if (rc) return rc;
    rc = bench_batch(&b, 64, seconds, &row, err);
    bench_fini(&b);
    *rate = row.gflops * 1e9;
    return rc;
}

static int bench_net(const struct fm_backend *backend, const struct bench_net *net, double seconds,
                     void (*give)(void *context, const struct fm_bench_row *row), void *context,
                     struct fm_error *err)
{
    struct bench b;
    int rc = bench_init(&b, backend, net, err);
    if (rc) return rc;
    for (int i = 0; !rc && i < 4 && net->batches[i]; i++) {
        struct fm_bench_row row;
        rc = bench_batch(&b, net->batches[i], seconds, &row, err);
        if (!rc) give(context, &row);
    }
    bench_fini(&b);
    return rc;
}

int fm_bench(const char *device, double seconds, void (*row)(void *context, const struct fm_bench_row *row),
             void *context, struct fm_error *err)
{
    const struct fm_backend *backend;
    const char *select;
    int rc = fm_device_choose(device ? device : "auto", &backend, &select, err);
    if (!rc && !(seconds > 0 && seconds <= 3600))
        rc = fm_fail(err, FM_EUSAGE, "a benchmark takes more than 0 and at most 3600 seconds");
    for (size_t i = 0; !rc && i < sizeof nets / sizeof *nets; i++)
        rc = bench_net(backend, &nets[i], seconds / 7, row, context, err);
    return rc;
}
