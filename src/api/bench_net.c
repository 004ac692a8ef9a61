#include "api/bench_private.h"

#include <string.h>

#include "base/memory.h"
#include "net/layers.h"

#define POSITIONS 50000 /* of the chain of letters */
#define LETTERS   21    /* 20 amino acids and "any other" */
#define ALPHABET  "ACDEFGHIKLMNPQRSTVWYX"
#define CLASSES   3

/* The series that the sensor net was asked for, and Adam as Keras has it. */
#define SENSOR                                                                                               \
    "data: {source: sine, samples: 1049344, anomalies: 50000, window: {length: 104, edge: wrap, label: "     \
    "any}}\n"                                                                                                \
    "cv: {split: holdout, shuffle: false, purge: false}\n"                                                   \
    "model: [conv1d: {filters: 24, kernel_size: 9, activation: relu}, max_pooling1d: {pool_size: 4}, "       \
    "flatten,\n"                                                                                             \
    "  dense: {units: 20, activation: relu}, dense: {units: 2, activation: softmax}]\n"                      \
    "train: {loss: categorical_crossentropy}\n"
#define CONV "conv1d: {filters: 64, kernel_size: 5, padding: same, activation: swish}, "
#define PROTEIN(convs)                                                                                       \
    "data: {source: sequences, path: x, sequence: {column: s, alphabet: " ALPHABET "}, target: t,\n"         \
    "  window: {length: 17, align: center}}\n"                                                               \
    "cv: {split: holdout, shuffle: false, purge: false}\n"                                                   \
    "model: [" convs "flatten, dense: {units: 3, activation: softmax}]\n"                                    \
    "train: {loss: sparse_categorical_crossentropy}\n"

/* The sequences are random letters instead of the file that is named. */
const struct fm_bench_net fm_bench_nets[] = {
    {"S", SENSOR, false, 104, {1, 8, 64, 128, 4096}},
    {"P2", PROTEIN(CONV CONV), true, 17, {1, 8, 64}},
    {"P3", PROTEIN(CONV CONV CONV), true, 17, {1, 8, 64}},
    {0},
};

/* One long chain of random letters with random classes. */
static int make_letters(struct fm_dataset *data, struct fm_error *err)
{
    static const char *const names[CLASSES] = {"H", "E", "C"};
    *data =
        (struct fm_dataset){.nrecords = 1, .positions = POSITIONS, .alphabet = LETTERS, .nclasses = CLASSES};
    data->starts = fm_calloc(2, sizeof *data->starts);
    data->letters = fm_malloc(POSITIONS, 1);
    data->class_names = fm_calloc(CLASSES, sizeof *data->class_names);
    data->alphabet_letters = fm_strdup(ALPHABET);
    if (!data->starts || !data->letters || !data->class_names || !data->alphabet_letters)
        return fm_fail_memory(err);
    for (int i = 0; i < CLASSES; i++)
        if (!(data->class_names[i] = fm_strdup(names[i]))) return fm_fail_memory(err);
    int rc = fm_packed_init(&data->classes, POSITIONS, CLASSES + 1, err);
    if (rc) return rc;
    data->starts[1] = POSITIONS;
    uint32_t state = 1;
    for (int64_t i = 0; i < POSITIONS; i++) {
        state = state * 1664525u + 1013904223u;
        data->letters[i] = (uint8_t)((state >> 16) % LETTERS);
        fm_packed_set(&data->classes, i, (state >> 8) % CLASSES);
    }
    return 0;
}

static int load_data(struct fm_bench *b, struct fm_error *err)
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

static int compile(struct fm_bench *b, struct fm_error *err)
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

void fm_bench_fini(struct fm_bench *b)
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

int fm_bench_init(struct fm_bench *b, const struct fm_backend *backend,
                  const struct fm_device_options *options, const struct fm_bench_net *net, bool small,
                  struct fm_error *err)
{
    static const char *const fewer[] = {"data.samples=8192", "data.anomalies=40"};
    *b = (struct fm_bench){.net = net, .backend = backend, .dataset = -1};
    int rc = fm_sweep_parse(&b->sweep, net->name, net->file, strlen(net->file), fewer,
                            small && !net->letters ? 2 : 0, NULL, err);
    b->has_sweep = !rc;
    if (!rc) rc = load_data(b, err);
    if (!rc) rc = compile(b, err);
    if (!rc) rc = backend->open(&b->device, options, err);
    struct fm_resident resident = {.data = &b->data,
                                   .examples = &b->examples,
                                   .views = &b->view,
                                   .nviews = 1,
                                   .splits = &b->split,
                                   .nsplits = 1};
    if (!rc) rc = backend->load(b->device, &resident, &b->dataset, err);
    if (rc) b->dataset = -1;
    if (rc) fm_bench_fini(b);
    return rc;
}

int fm_bench_lane(struct fm_bench *b, int64_t batch, struct fm_lane **lane, struct fm_error *err)
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
    return b->backend->lane_open(b->device, &options, lane, err);
}
