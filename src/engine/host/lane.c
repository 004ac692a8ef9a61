/* Lanes: a place where one run trains. Memory and initial weights. */
#include "engine/host/host.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "engine/options.h"

void fm_lane_free(struct fm_lane *lane)
{
    if (!lane) return;
    if (lane->entered) lane->executor->lane_close(lane);
    for (int slot = 0; slot < FM_SLOTS; slot++) fm_free(lane->snapshot[slot]);
    fm_free(lane->state);
    fm_order_fini(lane);
    fm_free(lane->loss);
    fm_free(lane->scores);
    fm_free(lane);
}

/* What the host allocates of a lane; false when it is more than any memory. */
static bool add_own(struct fm_host_layout *layout, const struct fm_program *program, int64_t batch)
{
    const int64_t example = (int64_t)(sizeof(int64_t) + sizeof(double) + sizeof(struct fm_slab));
    int64_t lists, evaluation, width = program->score_width + 1;
    if (batch > FM_HOST_MAX_BYTES / example || layout->capacity > FM_HOST_MAX_BYTES / example ||
        layout->state > FM_HOST_MAX_BYTES || layout->total > FM_HOST_MAX_BYTES ||
        !fm_multiply(fm_order_room(batch, layout->capacity), example, &lists) ||
        !fm_multiply(width * (int64_t)sizeof(double), layout->chunk, &evaluation) ||
        evaluation > FM_HOST_MAX_BYTES)
        return false;
    layout->total +=
        (1 + FM_SLOT_CANDIDATE) * layout->state + lists + evaluation + (int64_t)sizeof(struct fm_lane);
    return true;
}

bool fm_host_measure(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                     struct fm_host_layout *layout, char *why, size_t why_size)
{
    *layout = (struct fm_host_layout){0};
    if (batch < 1) {
        snprintf(why, why_size, "a batch needs at least one example");
        return false;
    }
    if (!device->executor->measure(device, program, batch, layout, why, why_size)) return false;
    if (add_own(layout, program, batch)) return true;
    snprintf(why, why_size, "the network at batch size %lld is larger than any memory", (long long)batch);
    return false;
}

/* Nothing of it is cleared here: the state is when weights are drawn, a snapshot is written whole before it
 * is read. Short runs would spend more time on zeros than on their weights. */
static bool allocate(struct fm_lane *lane)
{
    const struct fm_host_layout *layout = &lane->layout;
    const size_t chunk = (size_t)layout->chunk;
    lane->state = fm_malloc_aligned((size_t)layout->state, 1);
    bool ok = lane->state != NULL;
    for (int slot = 0; slot < FM_SLOT_CANDIDATE; slot++) {
        lane->snapshot[slot] = fm_malloc_aligned((size_t)layout->state, 1);
        ok = ok && lane->snapshot[slot];
    }
    lane->loss = fm_calloc(chunk, sizeof *lane->loss);
    lane->scores = fm_calloc((size_t)lane->program->score_width * chunk, sizeof *lane->scores);
    return ok && fm_order_init(lane) && lane->loss && lane->scores;
}

/* Trainers that do not queue ahead, as on this machine, use no candidates. */
int fm_lane_slot(struct fm_lane *lane, int slot, struct fm_error *err)
{
    if (!lane->snapshot[slot]) lane->snapshot[slot] = fm_malloc_aligned((size_t)lane->layout.state, 1);
    return lane->snapshot[slot] ? 0 : fm_fail_memory(err);
}

void fm_lane_reset(struct fm_lane *lane, const float *parameters)
{
    memset(lane->state, 0, (size_t)lane->layout.state);
    lane->executor->parameters(lane, parameters);
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

int fm_lane_new(struct fm_lane **out, struct fm_device *device, const struct fm_lane_options *options,
                struct fm_error *err)
{
    int status = fm_lane_options_check(options, device->resident, device->nresident, err);
    if (status) return status;
    struct fm_host_layout layout;
    char why[256];
    if (!fm_host_measure(device, options->program, options->batch, &layout, why, sizeof why))
        return fm_fail(err, options->batch < 1 ? FM_EINTERNAL : FM_ENOMEM, "%s", why);
    struct fm_lane *lane = fm_calloc(1, sizeof *lane);
    if (!lane) return fm_fail_memory(err);
    const struct fm_resident *r = &device->resident[options->dataset];
    lane->device = device;
    lane->executor = device->executor;
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
    status = allocate(lane) ? 0 : fm_fail_memory(err);
    if (!status) {
        lane->entered = true;
        status = lane->executor->lane_open(lane, err);
    }
    if (!status) status = draw_weights(lane, err);
    if (status) {
        fm_lane_free(lane);
        return status;
    }
    *out = lane;
    return 0;
}
