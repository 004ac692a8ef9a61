#include "support/bench.h"

#include <string.h>

#include "base/memory.h"
#include "net/layers.h"

float ts_hashed(uint32_t i, uint32_t salt, double limit, double offset)
{
    uint32_t h = i * 2654435761u + salt;
    h ^= h >> 16;
    h *= 0x85EBCA6Bu;
    h ^= h >> 13;
    h *= 0xC2B2AE35u;
    h ^= h >> 16;
    return (float)(offset + (2.0 * ((double)(h >> 8) / 16777216.0) - 1.0) * limit);
}

static void *copy(const void *from, size_t n, size_t size)
{
    void *to = fm_malloc(n, size);
    if (to && from) memcpy(to, from, n * size);
    return to;
}

static bool make_set(struct fm_indexset *set, int64_t first, int64_t count, int64_t stride,
                     struct fm_error *err)
{
    struct fm_indexset_builder builder;
    fm_indexset_builder_init(&builder, stride);
    fm_indexset_add_run(&builder, first, count, stride);
    return fm_indexset_finish(&builder, set, err) == 0;
}

static bool make_data(struct ts_bench *b, const struct ts_examples *e)
{
    struct fm_dataset *d = &b->data;
    const size_t n = (size_t)e->n, positions = (size_t)(e->n * e->rows);
    d->nrecords = e->n;
    d->positions = e->n * e->rows;
    d->starts = fm_calloc(n + 1, sizeof *d->starts);
    if (!d->starts) return false;
    for (size_t i = 0; i <= n; i++) d->starts[i] = (int64_t)i * e->rows;
    if (e->letters) {
        d->alphabet = e->alphabet;
        d->letters = copy(e->letters, positions, 1);
    } else {
        d->channels = e->channels;
        d->values = copy(e->x, positions * (size_t)e->channels, sizeof(float));
        d->offset = fm_calloc((size_t)e->channels, sizeof *d->offset);
    }
    d->target_per_record = true;
    d->nclasses = e->nclasses;
    d->target_width = e->nclasses ? 1 : e->width;
    d->distribution = e->distribution;
    if (e->weights) {
        d->weights = copy(e->weights, n, sizeof(float));
        d->weights_per_record = true;
    }
    return (d->letters || (d->values && d->offset)) && (!e->weights || d->weights);
}

static int64_t length_of(const struct ts_examples *e)
{
    return e->length ? e->length : e->rows;
}

static bool make_view(struct ts_bench *b, const struct ts_examples *e)
{
    b->examples = (struct fm_examples){
        .count = e->n, .edge = FM_EDGE_DROP, .align = FM_ALIGN_START, .longest = length_of(e)};
    if (e->length) b->examples.edge = FM_EDGE_ZERO;
    if (!make_set(&b->examples.anchors, 0, e->n, e->rows, &b->error)) return false;
    b->view = (struct fm_view){.data = &b->data,
                               .examples = &b->examples,
                               .length = length_of(e),
                               .lead = (length_of(e) - e->rows) / 2,
                               .width = e->width};
    if (e->nclasses == 0) {
        b->view.values = copy(e->values, (size_t)(e->n * e->width), sizeof(float));
        return b->view.values != NULL;
    }
    if (fm_packed_init(&b->view.classes, e->n, e->nclasses, &b->error)) return false;
    b->view.class_counts = fm_calloc((size_t)e->nclasses, sizeof *b->view.class_counts);
    if (!b->view.class_counts) return false;
    for (int64_t i = 0; i < e->n; i++) {
        fm_packed_set(&b->view.classes, i, e->classes[i]);
        b->view.class_counts[e->classes[i]]++;
    }
    return true;
}

static bool make_folds(struct ts_bench *b, const struct ts_examples *e)
{
    const bool all = e->train == e->n;
    b->split = (struct fm_split){.repeats = 1, .folds = 2, .fold = b->folds};
    for (int f = 0; f < 2; f++) {
        struct fm_fold *fold = &b->folds[f];
        fold->fold = f;
        if (!make_set(&fold->train, 0, e->train, 1, &b->error) ||
            !make_set(&fold->val, all ? 0 : e->train, all ? e->n : e->n - e->train, 1, &b->error))
            return false;
        if (e->letters) continue;
        fold->shift = fm_calloc((size_t)e->channels, sizeof *fold->shift);
        fold->factor = fm_calloc((size_t)e->channels, sizeof *fold->factor);
        if (!fold->shift || !fold->factor) return false;
        for (int64_t c = 0; c < e->channels; c++) {
            fold->shift[c] = e->shift ? e->shift[c] : 0;
            fold->factor[c] = e->factor ? e->factor[c] : 1;
        }
    }
    return true;
}

static bool compile(struct ts_bench *b, const struct ts_examples *e, const char *yaml)
{
    if (fm_document_parse(&b->document, "bench", yaml, strlen(yaml), NULL, &b->error)) return false;
    const struct fm_node *model = fm_node_get(b->document.root, "model");
    const struct fm_node *train = fm_node_get(b->document.root, "train");
    if (!model || !train || fm_train_read(&b->config, train, false, NULL, &b->error)) return false;
    const struct fm_net_input input = {.rows = length_of(e),
                                       .channels = e->letters ? e->alphabet : e->channels,
                                       .letters = e->letters != NULL,
                                       .nclasses = e->nclasses,
                                       .target_width = e->width,
                                       .distribution = e->distribution};
    return fm_program_compile(&b->program, model, &b->config, &input, NULL, &b->error) == 0;
}

bool ts_bench_open(struct ts_bench *b, const struct ts_examples *e, const char *yaml,
                   const struct fm_backend *backend, int64_t lanes)
{
    const struct fm_device_options options = {.lanes = lanes};
    return ts_bench_open_with(b, e, yaml, backend, &options);
}

bool ts_bench_open_with(struct ts_bench *b, const struct ts_examples *e, const char *yaml,
                        const struct fm_backend *backend, const struct fm_device_options *options)
{
    memset(b, 0, sizeof *b);
    b->backend = backend;
    b->options = *options;
    if (!make_data(b, e) || !make_view(b, e) || !make_folds(b, e)) {
        fm_fail_memory(&b->error);
        return false;
    }
    if (!compile(b, e, yaml)) return false;
    b->resident = (struct fm_resident){.data = &b->data,
                                       .examples = &b->examples,
                                       .views = &b->view,
                                       .nviews = 1,
                                       .splits = &b->split,
                                       .nsplits = 1};
    return backend->open(&b->device, &b->options, &b->error) == 0 &&
           backend->load(b->device, &b->resident, &b->dataset, &b->error) == 0;
}

void ts_bench_close(struct ts_bench *b)
{
    if (b->device) b->backend->close(b->device);
    fm_program_free(b->program);
    if (b->document.root) fm_document_fini(&b->document);
    for (int f = 0; f < 2; f++) {
        fm_indexset_fini(&b->folds[f].train);
        fm_indexset_fini(&b->folds[f].val);
        fm_free(b->folds[f].shift);
        fm_free(b->folds[f].factor);
    }
    fm_packed_fini(&b->view.classes);
    fm_free(b->view.values);
    fm_free(b->view.class_counts);
    fm_indexset_fini(&b->examples.anchors);
    fm_free(b->data.starts);
    fm_free(b->data.values);
    fm_free(b->data.offset);
    fm_free(b->data.letters);
    fm_free(b->data.weights);
    memset(b, 0, sizeof *b);
}

struct fm_lane *ts_bench_lane(struct ts_bench *b, int64_t fold, int64_t seed, const float *class_weights)
{
    const struct fm_lane_options options = {.dataset = b->dataset,
                                            .fold = fold,
                                            .program = b->program,
                                            .batch = b->config.batch_size,
                                            .hyper = {.momentum = b->config.optimizer.momentum,
                                                      .beta_1 = b->config.optimizer.beta_1,
                                                      .beta_2 = b->config.optimizer.beta_2,
                                                      .epsilon = b->config.optimizer.epsilon,
                                                      .rho = b->config.optimizer.rho,
                                                      .weight_decay = b->config.optimizer.weight_decay,
                                                      .clip = b->config.optimizer.clip,
                                                      .clip_value = b->config.optimizer.clip_value,
                                                      .rates = b->program->rates,
                                                      .class_weights = class_weights,
                                                      .shuffle = b->config.shuffle},
                                            .seed = seed};
    struct fm_lane *lane = NULL;
    return b->backend->lane_open(b->device, &options, &lane, &b->error) ? NULL : lane;
}

bool ts_bench_do(struct ts_bench *b, struct fm_lane *lane, const struct fm_request *request,
                 struct fm_report *report)
{
    if (b->backend->submit(lane, request, &b->error)) return false;
    int got;
    do got = b->backend->wait(b->device, 1000, report, &b->error);
    while (got == 0);
    return got == 1;
}

bool ts_bench_train(struct ts_bench *b, struct fm_lane *lane, int64_t first, int64_t steps,
                    struct fm_report *report)
{
    const struct fm_request request = {.kind = FM_TRAIN,
                                       .first_step = first,
                                       .steps = steps,
                                       .learning_rate = b->config.optimizer.learning_rate,
                                       .on_nan = b->config.on_nan};
    return ts_bench_do(b, lane, &request, report) && report->status == 0;
}

bool ts_bench_parameters(struct ts_bench *b, struct fm_lane *lane, float *parameters)
{
    unsigned char *blob = fm_malloc((size_t)b->backend->state_size(lane), 1);
    const bool ok = blob && b->backend->state_read(lane, blob, &b->error) == 0;
    if (ok) memcpy(parameters, blob, (size_t)b->program->float_count * sizeof(float));
    fm_free(blob);
    return ok;
}

struct ts_examples ts_examples_in_turn(float *x, uint32_t *classes, int64_t n, int64_t rows, int64_t train,
                                       uint32_t salt)
{
    for (int64_t i = 0; i < n * rows; i++) x[i] = ts_hashed((uint32_t)i, salt, 1, 0);
    for (int64_t i = 0; i < n; i++) classes[i] = (uint32_t)(i % 2);
    return (struct ts_examples){.n = n,
                                .rows = rows,
                                .channels = 1,
                                .x = x,
                                .nclasses = 2,
                                .classes = classes,
                                .width = 1,
                                .train = train};
}
