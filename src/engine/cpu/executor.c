/* The CPU engine as the host sees it. */
#include "engine/cpu/cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static int device_open(struct fm_device *device, const struct fm_device_options *options,
                       struct fm_error *err)
{
    (void)options;
    const struct fm_kernels *kernels;
    const int status = fm_kernels_choose(&kernels, getenv("FOLDMILL_ISA"), err);
    if (status) return status;
    device->engine = (void *)kernels;
    device->numbers = kernels->numbers;
    snprintf(device->text, sizeof device->text, "cpu: %s, %lld worker thread%s", kernels->name,
             (long long)device->nworkers, device->nworkers == 1 ? "" : "s");
    return 0;
}

static int64_t capacity_of(int64_t batch)
{
    return batch > FM_CPU_CHUNK ? batch : FM_CPU_CHUNK;
}

/* The lists beside the arena: bytes, or -1 when that is too many. */
static int64_t list_bytes(const struct fm_program *p, int64_t batch)
{
    const int64_t each = (int64_t)(sizeof(double) + sizeof(float) + sizeof(uint32_t) + sizeof(uint64_t)) +
                         p->loss.outputs * (int64_t)sizeof(float);
    int64_t bytes;
    if (!fm_multiply(capacity_of(batch), each, &bytes) || bytes > FM_HOST_MAX_BYTES) return -1;
    return bytes + p->ntensors * (int64_t)sizeof(float *) + (int64_t)sizeof(struct fm_cpu_lane);
}

static int64_t scaling_bytes(const struct fm_program *p)
{
    return p->letters ? 0 : 2 * p->input_rows * p->input_channels * (int64_t)sizeof(float);
}

static bool measure(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                    struct fm_host_layout *layout, char *why, size_t why_size)
{
    struct fm_cpu_plan plan;
    struct fm_error error = {0};
    if (fm_cpu_plan_init(&plan, program, batch, device->engine, &device->options, &error)) {
        snprintf(why, why_size, "%s", error.text);
        return false;
    }
    *layout = (struct fm_host_layout){.capacity = capacity_of(batch), .chunk = plan.chunk};
    fm_cpu_state_layout(&plan, layout);
    const int64_t lists = list_bytes(program, batch);
    layout->total = plan.arena + lists + scaling_bytes(program);
    fm_cpu_plan_fini(&plan);
    if (lists >= 0) return true;
    snprintf(why, why_size, "the targets of a batch of %lld are larger than any memory", (long long)batch);
    return false;
}

/* To be counted up whenever the order of a sum changes: a run that was begun before then starts over. */
#define REVISION 1

static void hash_revision(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                          struct fm_hash *hash)
{
    (void)device;
    (void)program;
    (void)batch;
    const int64_t revision = REVISION;
    fm_hash_add(hash, &revision, sizeof revision);
}

static int explain(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                   struct fm_text *text, struct fm_error *err)
{
    struct fm_cpu_plan plan;
    const int status = fm_cpu_plan_init(&plan, program, batch, device->engine, &device->options, err);
    if (status) return status;
    fm_cpu_plan_print(&plan, text);
    fm_cpu_plan_fini(&plan);
    return text->failed ? fm_fail_memory(err) : 0;
}

/* ---- lanes ---- */

static void lane_close(struct fm_lane *host)
{
    struct fm_cpu_lane *lane = host->engine;
    if (!lane) return;
    fm_cpu_plan_fini(&lane->plan);
    fm_free(lane->memory);
    fm_free(lane->tensor);
    fm_free(lane->scaling);
    fm_free(lane->loss);
    fm_free(lane->share);
    fm_free(lane->labels);
    fm_free(lane->values);
    fm_free(lane->keys);
    fm_free(lane);
    host->engine = NULL;
}

static bool allocate(struct fm_cpu_lane *lane, int64_t batch)
{
    const struct fm_program *p = lane->plan.program;
    const size_t capacity = (size_t)capacity_of(batch);
    lane->memory = fm_malloc((size_t)lane->plan.arena + FM_CPU_ALIGN, 1);
    lane->tensor = fm_calloc((size_t)p->ntensors, sizeof *lane->tensor);
    lane->loss = fm_calloc(capacity, sizeof *lane->loss);
    lane->share = fm_calloc(capacity, sizeof *lane->share);
    lane->labels = fm_calloc(capacity, sizeof *lane->labels);
    lane->values = fm_calloc(capacity * (size_t)p->loss.outputs, sizeof *lane->values);
    lane->keys = fm_calloc(capacity, sizeof *lane->keys);
    if (!lane->memory || !lane->tensor || !lane->loss || !lane->share || !lane->labels || !lane->values ||
        !lane->keys)
        return false;
    const uintptr_t at = (uintptr_t)lane->memory;
    lane->arena = lane->memory + (FM_CPU_ALIGN - at % FM_CPU_ALIGN) % FM_CPU_ALIGN;
    return true;
}

/* The fold's scaling, repeated for every row of a window, so that a window is one pass. */
static bool spread_scaling(struct fm_cpu_lane *lane)
{
    const struct fm_program *p = lane->plan.program;
    const struct fm_fold *fold = lane->host->fold;
    const int64_t count = p->input_rows * p->input_channels;
    if (p->letters || (!fold->shift && !fold->factor)) return true;
    lane->scaling = fm_malloc((size_t)count, 2 * sizeof *lane->scaling);
    if (!lane->scaling) return false;
    for (int64_t i = 0; i < count; i++) {
        lane->scaling[i] = fold->shift ? fold->shift[i % p->input_channels] : 0;
        lane->scaling[count + i] = fold->factor ? fold->factor[i % p->input_channels] : 1;
    }
    if (fold->shift) lane->shift = lane->scaling;
    if (fold->factor) lane->factor = lane->scaling + count;
    return true;
}

static void point_tensors(struct fm_cpu_lane *lane)
{
    const struct fm_cpu_plan *plan = &lane->plan;
    const struct fm_program *p = plan->program;
    lane->gradients = (float *)(lane->arena + plan->gradients);
    for (int t = 0; t < p->ntensors; t++) {
        const struct fm_cpu_place *place = &plan->places[plan->places[t].root];
        if (place->used) lane->tensor[t] = (float *)(lane->arena + place->offset);
    }
    for (int v = 0; v < p->nvariables; v++) {
        lane->tensor[p->variables[v].tensor] = (float *)lane->host->state + plan->variables[v].offset;
        if (p->variables[v].gradient >= 0)
            lane->tensor[p->variables[v].gradient] = lane->gradients + plan->variables[v].offset;
    }
}

static int lane_open(struct fm_lane *host, struct fm_error *err)
{
    const struct fm_device *device = host->device;
    struct fm_cpu_lane *lane = fm_calloc(1, sizeof *lane);
    if (!lane) return fm_fail_memory(err);
    host->engine = lane;
    lane->host = host;
    lane->k = device->engine;
    const int status =
        fm_cpu_plan_init(&lane->plan, host->program, host->options.batch, lane->k, &device->options, err);
    if (status) return status;
    if (!allocate(lane, host->options.batch) || !spread_scaling(lane)) return fm_fail_memory(err);
    fm_cpu_fill(lane);
    point_tensors(lane);
    return 0;
}

static double penalty(const struct fm_lane *host)
{
    const struct fm_cpu_lane *lane = host->engine;
    return lane->plan.regularized ? fm_cpu_penalty(lane) : 0;
}

static void update(struct fm_lane *host, double learning_rate)
{
    fm_cpu_update(host->engine, learning_rate);
}

static void permute(const struct fm_device *device, const struct fm_permutation *p, uint64_t first,
                    int64_t count, uint64_t *places)
{
    const struct fm_kernels *kernels = device->engine;
    kernels->permute(p, first, count, places);
}

const struct fm_executor fm_cpu_executor = {
    .name = "cpu",
    .device_open = device_open,
    .measure = measure,
    .hash = hash_revision,
    .explain = explain,
    .lane_open = lane_open,
    .lane_close = lane_close,
    .gradients = fm_cpu_gradients,
    .update = update,
    .evaluate = fm_cpu_evaluate,
    .penalty = penalty,
    .parameters = fm_cpu_parameters,
    .blob_read = fm_cpu_blob_read,
    .blob_write = fm_cpu_blob_write,
    .permute = permute,
    .peak = fm_cpu_peak,
};

static int cpu_open(struct fm_device **device, const struct fm_device_options *options, struct fm_error *err)
{
    return fm_host_open(device, options, &fm_cpu_executor, err);
}

const struct fm_backend fm_backend_cpu = FM_HOST_BACKEND("cpu", cpu_open);
