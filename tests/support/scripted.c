#include "support/scripted.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

#define MAX_DATASETS 8
#define MAX_PLANS    64

struct scripted_state {
    int64_t steps; /* updates done by the state's history: first_step + steps of the last training request */
    uint64_t digest; /* of that history, so that a wrong restore is seen */
    bool poisoned;   /* a bad step under `keras` */
};

struct queued {
    struct fm_request request;
    struct queued *next;
};

struct fm_lane {
    struct fm_device *device;
    struct fm_lane_options options;
    struct fm_resident resident;
    const struct fm_fold *fold;
    const struct fm_view *view;
    struct scripted_state state, slots[FM_SLOTS];
    float *parameters;
    bool taken[FM_SLOTS], frozen, cancel;
    double last_loss;
    struct queued *first, *last;
    struct fm_lane *next;
};

struct fm_device {
    struct fm_scripted_options options;
    int64_t lanes, open_lanes, fired[FM_SCRIPTED_FAULTS];
    struct fm_resident resident[MAX_DATASETS];
    bool loaded[MAX_DATASETS];
    struct fm_lane *lane;
    uint32_t draws;
    struct fm_transfers transfers;
    bool lost, losing;           /* losing: nobody was told yet */
    char choices[MAX_PLANS][64]; /* by plan_use, of the program and batch size of */
    uint64_t plans[MAX_PLANS];
    int nplans;
};

static struct fm_scripted_options next_options;
static struct fm_scripted_counts counts;

void fm_scripted_configure(const struct fm_scripted_options *options)
{
    next_options = *options;
    counts = (struct fm_scripted_counts){0};
}

const struct fm_scripted_counts *fm_scripted_counts(void)
{
    return &counts;
}

/* Counts a call that a lost device should not get. */
static void alive(const struct fm_device *device)
{
    counts.after_loss += device->lost;
}

static uint64_t mix(uint64_t key, uint64_t a, uint64_t b)
{
    const uint32_t counter[4] = {(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32)};
    uint32_t out[4];
    fm_philox(counter, key, out);
    return (uint64_t)out[1] << 32 | out[0];
}

static double uniform(uint64_t key, uint64_t a, uint64_t b)
{
    return (double)(mix(key, a, b) >> 11) * 0x1p-53;
}

/* ---- device ---- */

static int scripted_open(struct fm_device **device, const struct fm_device_options *options,
                         struct fm_error *err)
{
    struct fm_device *d = fm_calloc(1, sizeof *d);
    if (!d) return fm_fail_memory(err);
    d->options = next_options;
    d->lanes = options && options->lanes > 0 ? options->lanes : d->options.lanes > 0 ? d->options.lanes : 2;
    *device = d;
    return 0;
}

static void scripted_close(struct fm_device *device)
{
    fm_free(device);
}

static const char *scripted_describe(const struct fm_device *device)
{
    (void)device;
    return "scripted: answers by formula, computes nothing";
}

static const char *scripted_numbers(const struct fm_device *device)
{
    return device->options.numbers ? device->options.numbers : "scripted";
}

static int64_t scripted_lanes(const struct fm_device *device)
{
    alive(device);
    return device->lanes;
}

static int scripted_load(struct fm_device *device, const struct fm_resident *resident, int *dataset,
                         struct fm_error *err)
{
    for (int i = 0; i < MAX_DATASETS; i++) {
        if (device->loaded[i]) continue;
        device->loaded[i] = true;
        device->resident[i] = *resident;
        device->transfers.to_device += resident->data->positions;
        *dataset = i;
        return 0;
    }
    return fm_fail(err, FM_EINTERNAL, "the scripted device holds at most %d data sets", MAX_DATASETS);
}

static void scripted_unload(struct fm_device *device, int dataset)
{
    device->loaded[dataset] = false;
}

static void scripted_transfers(const struct fm_device *device, struct fm_transfers *transfers)
{
    *transfers = device->transfers;
}

static uint64_t plan_key(const struct fm_program *program, int64_t batch)
{
    return mix(program->hash, (uint64_t)batch, 1);
}

static bool plan_loses(const struct fm_device *device, const struct fm_program *program)
{
    return device->options.plan_loses > 0 && program->param_count == device->options.plan_loses;
}

static bool scripted_supports(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                              char *why, size_t why_size)
{
    bool chosen = false;
    alive(device);
    for (int i = 0; i < device->nplans; i++) chosen |= device->plans[i] == plan_key(program, batch);
    if (batch >= 1 && (chosen || !plan_loses(device, program))) return true;
    /* Plans are made behind the caller's back, and so the device is lost. */
    ((struct fm_device *)device)->losing = batch >= 1;
    snprintf(why, why_size, batch >= 1 ? "the device is gone" : "a batch needs at least one example");
    return false;
}

static int64_t scripted_cost(const struct fm_device *device, const struct fm_program *program, int64_t batch)
{
    alive(device);
    return device->options.bytes > 0 ? device->options.bytes : program->float_count * 16 + batch * 64;
}

static int64_t scripted_memory(const struct fm_device *device)
{
    alive(device);
    return device->options.memory;
}

/* What the plan is made with: taken from a journal, or the device's own. */
static const char *choices_of(const struct fm_device *device, uint64_t key)
{
    for (int i = 0; i < device->nplans; i++)
        if (device->plans[i] == key) return device->choices[i];
    return device->options.choices ? device->options.choices : "";
}

static uint64_t scripted_plan_hash(const struct fm_device *device, const struct fm_program *program,
                                   int64_t batch)
{
    const uint64_t key = plan_key(program, batch);
    alive(device);
    uint64_t hash = key;
    for (const char *c = choices_of(device, key); *c; c++) hash = mix(hash, (uint64_t)*c, 2);
    return hash;
}

static int scripted_plan_choices(const struct fm_device *device, const struct fm_program *program,
                                 int64_t batch, struct fm_text *text, struct fm_error *err)
{
    (void)err;
    alive(device);
    fm_text_add_string(text, choices_of(device, plan_key(program, batch)));
    return 0;
}

static int scripted_plan_use(struct fm_device *device, const struct fm_program *program, int64_t batch,
                             const char *choices, struct fm_error *err)
{
    alive(device);
    if (device->options.stubborn || device->nplans == MAX_PLANS || strlen(choices) > 63)
        return fm_fail(err, FM_EFILE, "scripted: '%s' is no choice", choices);
    if (*choices && plan_loses(device, program)) {
        device->lost = true;
        return fm_fail(err, FM_EDEVICE, "scripted: the device is lost");
    }
    device->plans[device->nplans] = plan_key(program, batch);
    snprintf(device->choices[device->nplans++], sizeof *device->choices, "%s", choices);
    counts.used++;
    return 0;
}

/* ---- faults ---- */

static const struct fm_scripted_fault *fault(struct fm_device *device, const struct fm_lane *lane,
                                             enum fm_scripted_what what, int64_t first_epoch,
                                             int64_t last_epoch, double rate)
{
    for (int i = 0; i < device->options.nfaults; i++) {
        const struct fm_scripted_fault *f = &device->options.faults[i];
        if (f->what != what || (f->repeat >= 0 && f->repeat != lane->fold->repeat)) continue;
        if ((f->fold >= 0 && f->fold != lane->fold->fold) ||
            (f->program && f->program != lane->options.program->hash))
            continue;
        if (what != FM_SCRIPTED_OPEN && f->epoch >= 0 && (f->epoch < first_epoch || f->epoch > last_epoch))
            continue;
        if (what == FM_SCRIPTED_BAD && !(rate > f->above)) continue;
        if (f->times > 0 && device->fired[i] >= f->times) continue;
        device->fired[i]++;
        device->lost |= f->code == FM_EDEVICE;
        return f;
    }
    return NULL;
}

/* ---- lanes ---- */

static int64_t steps_per_pass(const struct fm_lane *lane)
{
    return (lane->fold->train.count + lane->options.batch - 1) / lane->options.batch;
}

static bool scripted_lane_fits(const struct fm_device *device, const struct fm_lane_options *options)
{
    alive(device);
    (void)options;
    return !device->options.room || device->open_lanes < device->options.room;
}

static int scripted_lane_open(struct fm_device *device, const struct fm_lane_options *options,
                              struct fm_lane **lane, struct fm_error *err)
{
    const struct fm_resident *resident = &device->resident[options->dataset];
    alive(device);
    struct fm_lane *l = fm_calloc(1, sizeof *l);
    if (!l) return fm_fail_memory(err);
    l->device = device;
    l->options = *options;
    l->resident = *resident;
    l->fold = &resident->splits[options->split].fold[options->fold];
    l->view = &resident->views[options->view];
    l->last_loss = NAN;
    l->parameters = fm_calloc((size_t)options->program->float_count, sizeof(float));
    const bool fits = scripted_lane_fits(device, options);
    const struct fm_scripted_fault *f = fault(device, l, FM_SCRIPTED_OPEN, 0, 0, 0);
    if (f || !fits || !l->parameters) {
        fm_free(l->parameters);
        fm_free(l);
        if (!fits) return fm_fail(err, FM_ENOMEM, "scripted: there is no room for this lane");
        return f ? fm_fail(err, f->code, "scripted: this lane does not open") : fm_fail_memory(err);
    }
    const uint64_t key = fm_key((uint64_t)options->seed, FM_PURPOSE_WEIGHTS, (uint32_t)l->fold->repeat,
                                (uint32_t)l->fold->fold);
    for (int64_t i = 0; i < options->program->float_count; i++) l->parameters[i] = (float)uniform(key, i, 0);
    l->next = device->lane;
    device->lane = l;
    counts.opened++;
    if (++device->open_lanes > counts.most_lanes) counts.most_lanes = device->open_lanes;
    *lane = l;
    return 0;
}

static void scripted_lane_close(struct fm_lane *lane)
{
    if (!lane) return;
    struct fm_lane **at = &lane->device->lane;
    while (*at != lane) at = &(*at)->next;
    *at = lane->next;
    lane->device->open_lanes--;
    counts.closed++;
    while (lane->first) {
        struct queued *q = lane->first;
        lane->first = q->next;
        fm_free(q);
    }
    fm_free(lane->parameters);
    fm_free(lane);
}

static int64_t scripted_state_size(const struct fm_lane *lane)
{
    return lane->options.program->float_count * (int64_t)sizeof(float) + (int64_t)sizeof lane->state;
}

static int scripted_state_read(struct fm_lane *lane, void *blob, struct fm_error *err)
{
    alive(lane->device);
    if (lane->first) return fm_fail(err, FM_EINTERNAL, "the lane's state is read while requests are pending");
    const int64_t epoch = lane->state.steps / steps_per_pass(lane);
    const struct fm_scripted_fault *f = fault(lane->device, lane, FM_SCRIPTED_READ, epoch, epoch, 0);
    if (f) return fm_fail(err, f->code, "scripted: the state cannot be read");
    const size_t floats = (size_t)lane->options.program->float_count * sizeof(float);
    memcpy(blob, lane->parameters, floats);
    memcpy((char *)blob + floats, &lane->state, sizeof lane->state);
    lane->device->transfers.to_host += scripted_state_size(lane);
    return 0;
}

static int scripted_state_write(struct fm_lane *lane, const void *blob, struct fm_error *err)
{
    alive(lane->device);
    if (lane->first)
        return fm_fail(err, FM_EINTERNAL, "the lane's state is written while requests are pending");
    const size_t floats = (size_t)lane->options.program->float_count * sizeof(float);
    memcpy(lane->parameters, blob, floats);
    memcpy(&lane->state, (const char *)blob + floats, sizeof lane->state);
    lane->frozen = false;
    lane->device->transfers.to_device += scripted_state_size(lane);
    return 0;
}

static int scripted_snapshot_read(struct fm_lane *lane, int slot, void *blob, struct fm_error *err)
{
    alive(lane->device);
    if (lane->first || !lane->taken[slot])
        return fm_fail(err, FM_EINTERNAL, "slot %d is empty, or requests are pending", slot);
    const size_t floats = (size_t)lane->options.program->float_count * sizeof(float);
    memcpy(blob, lane->parameters, floats);
    memcpy((char *)blob + floats, &lane->slots[slot], sizeof lane->state);
    lane->device->transfers.to_host += scripted_state_size(lane);
    return 0;
}

static int scripted_snapshot_write(struct fm_lane *lane, int slot, const void *blob, struct fm_error *err)
{
    alive(lane->device);
    if (lane->first) return fm_fail(err, FM_EINTERNAL, "a snapshot is written while requests are pending");
    const size_t floats = (size_t)lane->options.program->float_count * sizeof(float);
    memcpy(&lane->slots[slot], (const char *)blob + floats, sizeof lane->state);
    lane->taken[slot] = true;
    lane->device->transfers.to_device += scripted_state_size(lane);
    return 0;
}

static int scripted_parameters_write(struct fm_lane *lane, const float *parameters, struct fm_error *err)
{
    alive(lane->device);
    if (lane->first) return fm_fail(err, FM_EINTERNAL, "parameters are written while requests are pending");
    memcpy(lane->parameters, parameters, (size_t)lane->options.program->float_count * sizeof(float));
    lane->state = (struct scripted_state){0};
    lane->frozen = false;
    return 0;
}

static int scripted_submit(struct fm_lane *lane, const struct fm_request *request, struct fm_error *err)
{
    alive(lane->device);
    struct queued *q = fm_calloc(1, sizeof *q);
    if (!q) return fm_fail_memory(err);
    q->request = *request;
    if (lane->first)
        lane->last->next = q;
    else
        lane->first = q;
    lane->last = q;
    lane->device->transfers.to_device += (int64_t)sizeof *request;
    counts.submitted++;
    return 0;
}

static void scripted_cancel(struct fm_lane *lane)
{
    alive(lane->device);
    if (lane->first) lane->cancel = true;
}

/* ---- what the requests answer ---- */

static double value(const struct fm_lane *lane, int64_t epoch, enum fm_part part, bool training)
{
    const struct fm_scripted_at at = {.seed = lane->options.seed,
                                      .repeat = lane->fold->repeat,
                                      .fold = lane->fold->fold,
                                      .program = lane->options.program->hash,
                                      .epoch = epoch,
                                      .part = part,
                                      .training = training};
    const struct fm_scripted_options *o = &lane->device->options;
    if (o->loss) return o->loss(o->context, &at);
    const uint64_t key =
        mix(mix(at.program, (uint64_t)at.seed, (uint64_t)at.repeat << 32 | (uint64_t)at.fold), (uint64_t)part,
            training);
    const double start = 0.5 + uniform(key, 0, 1), fall = 0.1 + uniform(key, 0, 2);
    return start / (1 + fall * (double)(epoch + 1)) + 0.1 * uniform(key, (uint64_t)(epoch + 1), 3);
}

static void train(struct fm_lane *lane, const struct fm_request *r, struct fm_report *report)
{
    const int64_t pass = steps_per_pass(lane), n = lane->fold->train.count;
    report->loss_sum = r->loss_sum;
    for (int64_t s = r->first_step; s < r->first_step + r->steps; s++) {
        const int64_t left = n - s % pass * lane->options.batch;
        const int64_t examples = left < lane->options.batch ? left : lane->options.batch;
        const bool bad =
            s % pass == 0 && fault(lane->device, lane, FM_SCRIPTED_BAD, s / pass, s / pass, r->learning_rate);
        double loss = bad || lane->state.poisoned ? NAN : value(lane, s / pass, FM_PART_TRAIN, true);
        report->steps++;
        report->examples += examples;
        counts.trained_steps++;
        if (isfinite(loss)) {
            lane->last_loss = loss;
        } else {
            if (report->bad_steps++ == 0) report->first_bad_step = s;
            if (r->on_nan == FM_ON_NAN_STOP || r->on_nan == FM_ON_NAN_ROLLBACK) {
                lane->frozen = report->frozen = true;
                break;
            }
            if (r->on_nan == FM_ON_NAN_SKIP) continue;
            lane->state.poisoned = true;
        }
        report->loss_sum += loss * (double)examples;
        report->loss_examples += examples;
        lane->state.steps = s + 1;
        lane->state.digest = mix(lane->state.digest, (uint64_t)s, (uint64_t)(r->learning_rate * 1e9));
    }
    report->last_loss = lane->last_loss;
    report->last_norm = isfinite(lane->last_loss) ? 1.0 : NAN;
}

static const struct fm_indexset *part_set(const struct fm_lane *lane, enum fm_part part)
{
    return part == FM_PART_TRAIN   ? &lane->fold->train
           : part == FM_PART_INNER ? &lane->fold->inner
                                   : &lane->fold->val;
}

/* Scores lean to the right class by as much as the loss is small, so that metrics follow the losses. */
static void score(const struct fm_lane *lane, int64_t example, double loss, uint64_t key, float *out)
{
    const int64_t width = lane->options.program->score_width;
    const int64_t nclasses = lane->resident.data->nclasses;
    const double lean = 1 / (1 + fabs(isfinite(loss) ? loss : 1e9));
    double sum = 0;
    for (int64_t k = 0; k < width; k++) out[k] = (float)uniform(key, (uint64_t)example, (uint64_t)k + 10);
    if (nclasses == 0) {
        for (int64_t k = 0; k < width; k++)
            out[k] = (float)(lane->view->values[example * lane->view->width + k % lane->view->width] +
                             (1 - lean) * (out[k] - 0.5f));
        return;
    }
    const uint32_t truth = fm_packed_get(&lane->view->classes, example);
    if (width == 1) {
        out[0] = (float)((1 - lean) * out[0] + lean * truth);
        return;
    }
    for (int64_t k = 0; k < width; k++) {
        out[k] = (float)((1 - lean) * out[k] + (k == truth ? lean : 0));
        sum += out[k];
    }
    for (int64_t k = 0; k < width; k++) out[k] = (float)(out[k] / sum);
}

static void evaluate(struct fm_lane *lane, const struct fm_request *r, struct fm_report *report)
{
    const struct fm_indexset *set = part_set(lane, r->part);
    const int64_t nclasses = lane->resident.data->nclasses, width = lane->options.program->score_width;
    const int64_t epoch = (lane->state.steps + steps_per_pass(lane) - 1) / steps_per_pass(lane) - 1;
    report->loss = lane->state.poisoned ? NAN : value(lane, epoch, r->part, false);
    const uint64_t key = mix(lane->options.program->hash,
                             (uint64_t)lane->options.seed ^ (uint64_t)r->part << 60, (uint64_t)(epoch + 1));
    if (r->returns & FM_RETURN_CONFUSION && r->confusion)
        memset(r->confusion, 0, (size_t)(nclasses * nclasses) * sizeof *r->confusion);
    float *one = fm_calloc((size_t)width, sizeof *one);
    if (!one) {
        report->status = fm_fail_memory(&report->error);
        return;
    }
    for (int64_t i = 0; i < set->count; i++) {
        const int64_t example = fm_indexset_at(set, i);
        score(lane, example, report->loss, key, one);
        if (nclasses == 0) {
            for (int64_t k = 0; k < width; k++) {
                const double e =
                    lane->view->values[example * lane->view->width + k % lane->view->width] - one[k];
                report->square_sum += e * e;
                report->absolute_sum += fabs(e);
            }
        } else if (r->returns & FM_RETURN_CONFUSION && r->confusion) {
            int64_t guess = width == 1 && one[0] > 0.5f;
            for (int64_t k = 1; k < width && k < nclasses; k++)
                if (one[k] > one[guess]) guess = k;
            r->confusion[fm_packed_get(&lane->view->classes, example) * nclasses + guess]++;
        }
        if (r->returns & FM_RETURN_SCORES && r->scores)
            memcpy(r->scores + i * width, one, (size_t)width * sizeof *one);
    }
    fm_free(one);
}

static void answer(struct fm_lane *lane, const struct fm_request *r, struct fm_report *report)
{
    static const enum fm_scripted_what what[] = {FM_SCRIPTED_TRAIN, FM_SCRIPTED_EVALUATE,
                                                 FM_SCRIPTED_SNAPSHOT, FM_SCRIPTED_SNAPSHOT};
    const int64_t pass = steps_per_pass(lane);
    const int64_t now = (lane->state.steps + pass - 1) / pass - 1;
    const bool trains = r->kind == FM_TRAIN;
    const struct fm_scripted_fault *f =
        fault(lane->device, lane, what[r->kind], trains ? r->first_step / pass : now,
              trains ? (r->first_step + r->steps - 1) / pass : now, r->learning_rate);
    if (f) {
        report->status = fm_fail(&report->error, f->code, "scripted: this request fails");
        return;
    }
    switch (r->kind) {
    case FM_TRAIN: train(lane, r, report); break;
    case FM_EVALUATE: evaluate(lane, r, report); break;
    case FM_SNAPSHOT:
        lane->slots[r->slot] = lane->state;
        lane->taken[r->slot] = true;
        break;
    case FM_RESTORE:
        if (!lane->taken[r->slot]) {
            report->status = fm_fail(&report->error, FM_EINTERNAL, "slot %d holds no snapshot", r->slot);
            break;
        }
        lane->state = lane->slots[r->slot];
        lane->frozen = false;
        break;
    }
}

static struct fm_lane *draw_lane(struct fm_device *device)
{
    int64_t ready = 0;
    for (struct fm_lane *l = device->lane; l; l = l->next) ready += l->first != NULL;
    if (ready == 0 || uniform(device->options.order, device->draws++, 0) < device->options.idle) return NULL;
    int64_t pick = (int64_t)(mix(device->options.order, device->draws++, 1) % (uint64_t)ready);
    for (struct fm_lane *l = device->lane; l; l = l->next)
        if (l->first && pick-- == 0) return l;
    return NULL;
}

static int scripted_wait(struct fm_device *device, int milliseconds, struct fm_report *report,
                         struct fm_error *err)
{
    (void)milliseconds;
    counts.waits++;
    alive(device);
    device->lost |= device->losing;
    if (device->options.lost_after > 0 && counts.reported >= device->options.lost_after) device->lost = true;
    if (device->lost) return fm_fail(err, FM_EDEVICE, "scripted: the device is lost");
    struct fm_lane *lane = draw_lane(device);
    if (!lane) return 0;
    struct queued *q = lane->first;
    *report = (struct fm_report){.lane = lane,
                                 .tag = q->request.tag,
                                 .kind = q->request.kind,
                                 .first_bad_step = -1,
                                 .last_loss = NAN,
                                 .last_norm = NAN,
                                 .loss = NAN};
    if (lane->cancel) {
        report->cancelled = true;
        counts.cancelled++;
    } else if (lane->frozen && q->request.kind != FM_RESTORE) {
        report->frozen = true;
    } else {
        answer(lane, &q->request, report);
    }
    lane->first = q->next;
    if (!lane->first) lane->cancel = false;
    fm_free(q);
    device->transfers.to_host += (int64_t)sizeof *report;
    counts.reported++;
    counts.beside += device->open_lanes > 1;
    return 1;
}

static int scripted_explain(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                            struct fm_text *text, struct fm_error *err)
{
    (void)device;
    (void)program;
    (void)err;
    fm_text_add(text, "  as the script says, batch %lld\n", (long long)batch);
    return 0;
}

#define TABLE                                                                                                \
    .name = "scripted", .open = scripted_open, .close = scripted_close, .describe = scripted_describe,       \
    .numbers = scripted_numbers, .lanes = scripted_lanes, .memory = scripted_memory, .load = scripted_load,  \
    .unload = scripted_unload, .transfers = scripted_transfers, .supports = scripted_supports,               \
    .cost = scripted_cost, .plan_hash = scripted_plan_hash, .explain = scripted_explain,                     \
    .lane_open = scripted_lane_open, .lane_close = scripted_lane_close, .state_size = scripted_state_size,   \
    .state_read = scripted_state_read, .state_write = scripted_state_write,                                  \
    .snapshot_read = scripted_snapshot_read, .snapshot_write = scripted_snapshot_write,                      \
    .parameters_write = scripted_parameters_write, .submit = scripted_submit, .wait = scripted_wait,         \
    .cancel = scripted_cancel, .lane_fits = scripted_lane_fits

const struct fm_backend fm_backend_scripted = {TABLE};

const struct fm_backend fm_backend_scripted_choosing = {
    TABLE,
    .plan_choices = scripted_plan_choices,
    .plan_use = scripted_plan_use,
};
