#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The device's submit as it was; one fixture at a time. */
static struct ts_training *tapped;
static int (*tapped_submit)(struct fm_lane *, const struct fm_request *, struct fm_error *);

static int submit(struct fm_lane *lane, const struct fm_request *r, struct fm_error *err)
{
    static const char *const parts[] = {"train", "inner", "val"}, *const slots[] = {"best", "clean",
                                                                                    "previous", "candidate",
                                                                                    "other"};
    size_t size = strlen(tapped->requests), left = sizeof tapped->requests - size;
    char *at = tapped->requests + size;
    const char *space = size ? " " : "";
    switch (r->kind) {
    case FM_TRAIN:
        snprintf(at, left, "%sT%lld+%lld", space, (long long)r->first_step, (long long)r->steps);
        break;
    case FM_EVALUATE: snprintf(at, left, "%sE(%s)", space, parts[r->part]); break;
    case FM_SNAPSHOT: snprintf(at, left, "%sS(%s)", space, slots[r->slot]); break;
    case FM_RESTORE: snprintf(at, left, "%sR(%s)", space, slots[r->slot]); break;
    }
    return tapped_submit(lane, r, err);
}

static void part(struct fm_indexset *set, int64_t first, int64_t count, int64_t stride)
{
    struct fm_indexset_builder b;
    struct fm_error err = {0};
    fm_indexset_builder_init(&b, 1);
    if (count) fm_indexset_add_run(&b, first, count, stride);
    fm_indexset_finish(&b, set, &err);
}

static void data(struct ts_training *t, int64_t positions, int64_t length)
{
    int64_t n = positions - length + 1;
    t->starts[1] = positions;
    t->factor[0] = 1;
    t->data = (struct fm_dataset){.nrecords = 1,
                                  .starts = t->starts,
                                  .positions = positions,
                                  .channels = 1,
                                  .values = t->values,
                                  .offset = t->offset,
                                  .nclasses = 2,
                                  .target_width = 1,
                                  .classes = {8, positions, t->classes}};
    part(&t->examples.anchors, 0, n, 1);
    t->examples.count = n;
    t->examples.longest = length;
    t->view = (struct fm_view){.data = &t->data,
                               .examples = &t->examples,
                               .length = length,
                               .classes = {8, n, t->classes},
                               .width = 1,
                               .class_counts = t->class_counts};
    for (int64_t i = 0; i < n; i++) t->class_counts[t->classes[i]]++;
}

static void count(const struct ts_training *t, const struct fm_indexset *set, int64_t counts[2])
{
    for (int64_t i = 0; i < set->count; i++) counts[t->classes[fm_indexset_at(set, i)]]++;
}

static void fold(struct ts_training *t, int64_t train, int64_t inner, int64_t val)
{
    part(&t->fold.train, 0, train, 1);
    part(&t->fold.inner, train, inner, 1);
    part(&t->fold.val, train + inner, val, 1);
    t->fold.train_classes = t->counts[0];
    t->fold.inner_classes = t->counts[1];
    t->fold.val_classes = t->counts[2];
    count(t, &t->fold.train, t->counts[0]);
    count(t, &t->fold.inner, t->counts[1]);
    count(t, &t->fold.val, t->counts[2]);
    t->fold.shift = t->shift;
    t->fold.factor = t->factor;
    t->split = (struct fm_split){.repeats = 1, .folds = 1, .fold = &t->fold};
}

static void config(struct ts_training *t)
{
    t->blank = (struct fm_program){
        .score_width = 1, .param_count = 5, .trainable_count = 5, .float_count = 5, .hash = 77};
    t->program = &t->blank;
    t->config.loss.kind = FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    t->config.optimizer.kind = FM_OPTIMIZER_SGD;
    t->config.optimizer.learning_rate = 1;
    t->config.optimizer.epsilon = 1e-7;
    t->config.optimizer.beta_1 = .9;
    t->config.optimizer.beta_2 = .999;
    t->config.batch_size = 4;
    t->config.epochs = 5;
    t->config.shuffle = true;
    t->config.metrics = 1u << FM_METRIC_ACCURACY;
    t->config.early_stopping.monitor = (struct fm_monitor){FM_PART_VAL, FM_METRIC_LOSS};
    t->config.early_stopping.strip = 5;
}

void ts_training_init(struct ts_training *t, bool inner)
{
    memset(t, 0, sizeof *t);
    for (int i = 0; i < TS_EXAMPLES; i++) {
        t->classes[i] = (uint8_t)(i * 7 % 5 < 2);
        t->values[i] = (float)(i * 13 % 20) / 10 - 1 + t->classes[i];
    }
    data(t, TS_EXAMPLES, 1);
    fold(t, inner ? 10 : 14, inner ? 4 : 0, 6);
    config(t);
}

void ts_training_init_series(struct ts_training *t, bool inner)
{
    const int64_t length = 8;
    memset(t, 0, sizeof *t);
    for (int i = 0; i < TS_POSITIONS; i++)
        t->values[i] = (float)sin(i * .7) + (float)(i * 37 % 19) / 19 - .5f;
    for (int i = 0; i + length <= TS_POSITIONS; i++) {
        float sum = 0;
        for (int j = 0; j < length; j++) sum += t->values[i + j];
        t->classes[i] = sum > 0;
    }
    data(t, TS_POSITIONS, length);
    fold(t, inner ? 36 : 44, inner ? 8 : 0, 13);
    config(t);
}

void ts_training_init_numbers(struct ts_training *t, const float *x, const float *y, int64_t n, int64_t m)
{
    memset(t, 0, sizeof *t);
    memcpy(t->values, x, (size_t)(n + m) * sizeof *x);
    memcpy(t->targets, y, (size_t)(n + m) * sizeof *y);
    data(t, n + m, 1);
    t->data.nclasses = 0;
    t->data.target_values = t->targets;
    t->data.classes = t->view.classes = (struct fm_packed){0};
    t->view.values = t->targets;
    t->view.class_counts = NULL;
    fold(t, n, 0, m);
    t->fold.train_classes = t->fold.inner_classes = t->fold.val_classes = NULL;
    config(t);
    t->config.loss.kind = FM_LOSS_MSE;
    t->config.metrics = 1u << FM_METRIC_MAE;
}

void ts_training_open(struct ts_training *t, const struct fm_backend *backend)
{
    struct fm_device_options options = {.lanes = 1};
    struct fm_error err = {0};
    int dataset = 0;
    t->resident = (struct fm_resident){&t->data, &t->examples, &t->view, 1, &t->split, 1};
    t->backend = *backend;
    tapped = t;
    tapped_submit = backend->submit;
    t->backend.submit = submit;
    if (backend->open(&t->device, &options, &err) < 0 ||
        backend->load(t->device, &t->resident, &dataset, &err) < 0)
        fprintf(stderr, "training fixture: %s\n", err.text);
    t->spec = (struct fm_run_spec){.backend = &t->backend,
                                   .device = t->device,
                                   .resident = &t->resident,
                                   .dataset = dataset,
                                   .program = t->program,
                                   .config = &t->config,
                                   .metrics = t->config.metrics,
                                   .metric = {FM_PART_VAL, FM_METRIC_LOSS},
                                   .chunk = 2,
                                   .keep_weights = true};
}

void ts_training_fini(struct ts_training *t)
{
    if (t->device) {
        t->backend.unload(t->device, t->spec.dataset);
        t->backend.close(t->device);
    }
    fm_indexset_fini(&t->examples.anchors);
    fm_indexset_fini(&t->fold.train);
    fm_indexset_fini(&t->fold.inner);
    fm_indexset_fini(&t->fold.val);
}

/* ---- what the run tells ---- */

static int tell_epoch(void *context, const struct fm_epoch *epoch, struct fm_error *err)
{
    struct ts_told *told = context;
    if (told->fail_epoch == epoch->epoch) return fm_fail(err, FM_EIO, "the disk is full");
    if (epoch->epoch > TS_EPOCHS) return fm_fail(err, FM_EINTERNAL, "too many epochs for the fixture");
    told->epochs[epoch->epoch - 1] = *epoch;
    if (told->nepochs < epoch->epoch) told->nepochs = epoch->epoch;
    return 0;
}

static int tell_event(void *context, const struct fm_event *event, struct fm_error *err)
{
    struct ts_told *told = context;
    if (event->number >= TS_EVENTS) return fm_fail(err, FM_EINTERNAL, "too many events for the fixture");
    told->events[event->number] = *event;
    if (told->nevents <= event->number) told->nevents = event->number + 1;
    return 0;
}

static int tell_safe_point(void *context, bool epoch_end, struct fm_error *err)
{
    struct ts_told *told = context;
    (void)epoch_end;
    if (++told->safe_points != told->checkpoint_at) return 0;
    told->blob_epochs = fm_run_epochs(told->run);
    int code = fm_run_checkpoint(told->run, &told->blob, err);
    fm_run_stop(told->run);
    return code;
}

void ts_told_fini(struct ts_told *told)
{
    fm_run_free(told->run);
    fm_text_fini(&told->blob);
    told->run = NULL;
}

int ts_training_run(struct ts_training *t, struct ts_told *told, bool resume, struct fm_error *err)
{
    struct fm_run_listener listener = {
        .epoch = tell_epoch, .event = tell_event, .safe_point = tell_safe_point, .context = told};
    struct fm_report report;
    fm_run_free(told->run);
    told->run = NULL;
    int code = fm_run_new(&told->run, &t->spec, &listener, err);
    if (code < 0) return code;
    if (resume)
        code =
            fm_run_resume(told->run, told->blob.data, told->blob.size, told->epochs, told->blob_epochs, err);
    else
        code = fm_run_start(told->run, err);
    while (code == 0 && !fm_run_stopped(told->run)) {
        code = t->backend.wait(t->device, 1000, &report, err);
        if (code == 1) code = fm_run_report(told->run, &report, err);
    }
    return code;
}
