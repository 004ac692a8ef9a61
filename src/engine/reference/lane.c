/* Lanes: a place where one run trains. Memory, initial weights, states as blobs. */
#include "engine/reference/reference.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

void fm_lane_free(struct fm_lane *lane)
{
    if (!lane) return;
    for (int t = 0; lane->tensor && t < lane->program->ntensors; t++) {
        const enum fm_tensor_kind kind = lane->program->tensors[t].kind;
        if (kind != FM_TENSOR_PARAMETER && kind != FM_TENSOR_STATE) fm_free(lane->tensor[t]);
    }
    for (int slot = 0; slot < FM_SLOTS; slot++) fm_free(lane->snapshot[slot]);
    fm_free(lane->tensor);
    fm_free(lane->state);
    fm_free(lane->scratch);
    fm_free(lane->keep);
    fm_free(lane->example);
    fm_free(lane->weight);
    fm_free(lane->loss);
    fm_free(lane->scores);
    fm_free(lane);
}

static bool allocate_tensors(struct fm_lane *lane)
{
    const struct fm_program *p = lane->program;
    lane->tensor = fm_calloc((size_t)p->ntensors, sizeof *lane->tensor);
    if (!lane->tensor) return false;
    for (int t = 0; t < p->ntensors; t++) {
        const struct fm_tensor *tensor = &p->tensors[t];
        if (tensor->kind == FM_TENSOR_PARAMETER || tensor->kind == FM_TENSOR_STATE) {
            lane->tensor[t] =
                lane->state + (size_t)p->variables[tensor->variable].offset * lane->numbers->size;
            continue;
        }
        const int64_t bytes = fm_tensor_bytes(p, t, lane->options.batch, lane->numbers->size);
        lane->tensor[t] = fm_calloc((size_t)bytes, 1);
        if (!lane->tensor[t]) return false;
    }
    return true;
}

static bool allocate(struct fm_lane *lane)
{
    const struct fm_layout *layout = &lane->layout;
    const struct fm_program *p = lane->program;
    size_t keep = 1;
    for (int i = 0; i < p->nops; i++) {
        const size_t elements = (size_t)(p->ops[i].in_rows * p->ops[i].in_channels);
        if (p->ops[i].code == FM_OP_DROPOUT && elements > keep) keep = elements;
    }
    lane->state = fm_calloc((size_t)layout->state, 1);
    for (int slot = 0; slot < FM_SLOTS; slot++) lane->snapshot[slot] = fm_calloc((size_t)layout->state, 1);
    lane->scratch = fm_calloc((size_t)layout->scratch, 1);
    lane->keep = fm_malloc(keep, 1);
    lane->example = fm_calloc((size_t)layout->capacity, sizeof *lane->example);
    lane->weight = fm_calloc((size_t)layout->capacity, sizeof *lane->weight);
    lane->loss = fm_calloc(FM_EVALUATE_CHUNK, sizeof *lane->loss);
    lane->scores = fm_calloc((size_t)p->score_width * FM_EVALUATE_CHUNK, sizeof *lane->scores);
    bool ok = lane->state && lane->scratch && lane->keep && lane->example && lane->weight && lane->loss &&
              lane->scores;
    for (int slot = 0; slot < FM_SLOTS; slot++) ok = ok && lane->snapshot[slot];
    return ok && allocate_tensors(lane);
}

void fm_lane_reset(struct fm_lane *lane, const float *parameters)
{
    memset(lane->state, 0, (size_t)lane->layout.state);
    lane->numbers->from_floats(lane->state, lane->program->float_count, parameters);
    fm_lane_tail(lane)->last_loss = NAN;
    fm_lane_tail(lane)->last_norm = NAN;
    lane->frozen = false;
}

static int draw_weights(struct fm_lane *lane, struct fm_error *err)
{
    const uint64_t key = fm_key((uint64_t)lane->options.seed, FM_PURPOSE_WEIGHTS,
                                (uint32_t)lane->fold->repeat, (uint32_t)lane->fold->fold);
    float *parameters = fm_calloc((size_t)lane->program->float_count, sizeof *parameters);
    if (!parameters) return fm_fail_memory(err);
    const int status = fm_program_initialize(lane->program, key, parameters, err);
    if (status == 0) fm_lane_reset(lane, parameters);
    fm_free(parameters);
    return status;
}

/* The indices come from the scheduler, yet a wrong one would read outside the resident data. */
static int check_options(const struct fm_device *device, const struct fm_lane_options *o,
                         struct fm_error *err)
{
    if (o->dataset < 0 || o->dataset >= device->nresident || !device->resident[o->dataset].data)
        return fm_fail(err, FM_EINTERNAL, "data set %d is not loaded", o->dataset);
    const struct fm_resident *r = &device->resident[o->dataset];
    if (o->view < 0 || o->view >= r->nviews || o->split < 0 || o->split >= r->nsplits)
        return fm_fail(err, FM_EINTERNAL, "view %lld or split %lld is not loaded", (long long)o->view,
                       (long long)o->split);
    const struct fm_split *split = &r->splits[o->split];
    if (o->fold < 0 || o->fold >= split->repeats * split->folds)
        return fm_fail(err, FM_EINTERNAL, "the split has no fold %lld", (long long)o->fold);
    if (r->views[o->view].length != o->program->input_rows)
        return fm_fail(err, FM_EINTERNAL, "the program reads %lld positions, the view has %lld",
                       (long long)o->program->input_rows, (long long)r->views[o->view].length);
    const int64_t channels = o->program->letters ? r->data->alphabet : r->data->channels;
    if (channels != o->program->input_channels || (o->program->letters && !r->data->letters) ||
        (!o->program->letters && !r->data->values))
        return fm_fail(err, FM_EINTERNAL, "the program reads other channels than the data have");
    return 0;
}

int fm_lane_new(struct fm_lane **out, struct fm_device *device, const struct fm_lane_options *options,
                struct fm_error *err)
{
    int status = check_options(device, options, err);
    if (status) return status;
    struct fm_layout layout;
    char why[256];
    if (!fm_layout_measure(&layout, options->program, options->batch, device->numbers->size, why, sizeof why))
        return fm_fail(err, FM_EINTERNAL, "%s", why);
    struct fm_lane *lane = fm_calloc(1, sizeof *lane);
    if (!lane) return fm_fail_memory(err);
    const struct fm_resident *r = &device->resident[options->dataset];
    lane->device = device;
    lane->numbers = device->numbers;
    lane->options = *options;
    lane->program = options->program;
    lane->data = r->data;
    lane->examples = r->examples;
    lane->view = &r->views[options->view];
    lane->fold = &r->splits[options->split].fold[options->fold];
    lane->layout = layout;
    const uint32_t repeat = (uint32_t)lane->fold->repeat, fold = (uint32_t)lane->fold->fold;
    lane->shuffle_key = fm_key((uint64_t)options->seed, FM_PURPOSE_SHUFFLE, repeat, fold);
    lane->dropout_key = fm_key((uint64_t)options->seed, FM_PURPOSE_DROPOUT, repeat, fold);
    status = allocate(lane) ? draw_weights(lane, err) : fm_fail_memory(err);
    if (status) {
        fm_lane_free(lane);
        return status;
    }
    *out = lane;
    return 0;
}

void fm_lane_blob_read(const struct fm_lane *lane, const unsigned char *state, unsigned char *blob)
{
    if (lane->layout.portable > 0) {
        memset(blob, 0, (size_t)lane->layout.portable);
        lane->numbers->to_floats(state, lane->program->float_count, (float *)blob);
    }
    memcpy(blob + lane->layout.portable, state, (size_t)lane->layout.state);
}

void fm_lane_blob_write(const struct fm_lane *lane, unsigned char *state, const unsigned char *blob)
{
    memcpy(state, blob + lane->layout.portable, (size_t)lane->layout.state);
}
