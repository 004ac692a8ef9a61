/* The device: open, data, lanes, requests; the two backend tables. */
#include "engine/reference/reference.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

/* More lanes than this are a mistake of the caller; each one costs memory. */
#define MAX_LANES 4096

static int64_t usable_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    const int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? count : 1;
}

static int device_open(struct fm_device **out, const struct fm_device_options *options,
                       const struct fm_numbers *numbers, struct fm_error *err)
{
    const int64_t cores = usable_cores();
    const int64_t lanes = options && options->lanes > 0 ? options->lanes : cores;
    if (lanes > MAX_LANES)
        return fm_fail(err, FM_EUSAGE, "%lld lanes are too many: at most %d", (long long)lanes, MAX_LANES);
    if (options && options->select && *options->select)
        return fm_fail(err, FM_EUSAGE, "the cpu has no parts to choose: expected 'cpu', found 'cpu:%s'",
                       options->select);
    struct fm_device *device = fm_calloc(1, sizeof *device);
    if (!device) return fm_fail_memory(err);
    device->numbers = numbers;
    device->lanes = lanes;
    device->nworkers = lanes < cores ? lanes : cores;
    const int status = fm_queue_open(device, err);
    if (status) {
        fm_free(device);
        return status;
    }
    snprintf(device->text, sizeof device->text, "%s: reference loops in %s, %lld worker thread%s",
             numbers->backend, numbers->size == sizeof(float) ? "float" : "double",
             (long long)device->nworkers, device->nworkers == 1 ? "" : "s");
    *out = device;
    return 0;
}

static int open_single(struct fm_device **device, const struct fm_device_options *options,
                       struct fm_error *err)
{
    return device_open(device, options, &fm_numbers_single, err);
}

static int open_double(struct fm_device **device, const struct fm_device_options *options,
                       struct fm_error *err)
{
    return device_open(device, options, &fm_numbers_double, err);
}

static void device_close(struct fm_device *device)
{
    if (!device) return;
    fm_queue_close(device);
    fm_free(device->resident);
    fm_free(device);
}

static const char *device_describe(const struct fm_device *device)
{
    return device->text;
}

static const char *device_numbers(const struct fm_device *device)
{
    return device->numbers->name;
}

static int64_t device_lanes(const struct fm_device *device)
{
    return device->lanes;
}

/* Lanes live in the machine's own memory. */
static int64_t device_memory(const struct fm_device *device)
{
    (void)device;
    return 0;
}

/* ---- data: borrowed, the processor reads them where they are ---- */

static int device_load(struct fm_device *device, const struct fm_resident *resident, int *dataset,
                       struct fm_error *err)
{
    int number = 0;
    while (number < device->nresident && device->resident[number].data) number++;
    if (number == device->nresident) {
        struct fm_resident *grown =
            fm_realloc(device->resident, (size_t)device->nresident + 1, sizeof *device->resident);
        if (!grown) return fm_fail_memory(err);
        device->resident = grown;
        device->nresident++;
    }
    device->resident[number] = *resident;
    device->transfers.to_device += fm_dataset_bytes(resident->data);
    *dataset = number;
    return 0;
}

static void device_unload(struct fm_device *device, int dataset)
{
    if (dataset >= 0 && dataset < device->nresident) device->resident[dataset] = (struct fm_resident){0};
}

static void device_transfers(const struct fm_device *device, struct fm_transfers *transfers)
{
    *transfers = device->transfers;
}

/* ---- programs ---- */

static bool device_supports(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                            char *why, size_t why_size)
{
    struct fm_layout layout;
    return fm_layout_measure(&layout, program, batch, device->numbers->size, why, why_size);
}

static int64_t device_cost(const struct fm_device *device, const struct fm_program *program, int64_t batch)
{
    struct fm_layout layout;
    char why[256];
    return fm_layout_measure(&layout, program, batch, device->numbers->size, why, sizeof why) ? layout.total
                                                                                              : INT64_MAX;
}

/* The order of every sum is fixed by the program and the batch size; the name changes when the loops do. */
static uint64_t device_plan_hash(const struct fm_device *device, const struct fm_program *program,
                                 int64_t batch)
{
    struct fm_hash hash = {0};
    fm_hash_add(&hash, device->numbers->name, strlen(device->numbers->name));
    fm_hash_add(&hash, &program->hash, sizeof program->hash);
    fm_hash_add(&hash, &batch, sizeof batch);
    return fm_hash_value(&hash);
}

/* ---- lanes ---- */

static int lane_open(struct fm_device *device, const struct fm_lane_options *options, struct fm_lane **lane,
                     struct fm_error *err)
{
    const int status = fm_lane_new(lane, device, options, err);
    if (status) return status;
    (*lane)->next = device->lane;
    device->lane = *lane;
    device->transfers.to_device += (int64_t)sizeof *options;
    return 0;
}

static void lane_close(struct fm_lane *lane)
{
    if (!lane) return;
    fm_queue_drain(lane);
    struct fm_lane **at = &lane->device->lane;
    while (*at && *at != lane) at = &(*at)->next;
    if (*at) *at = lane->next;
    fm_lane_free(lane);
}

static int64_t state_size(const struct fm_lane *lane)
{
    return lane->layout.portable + lane->layout.state;
}

static int check_idle(struct fm_lane *lane, struct fm_error *err)
{
    if (!fm_queue_pending(lane)) return 0;
    return fm_fail(err, FM_EINTERNAL, "a lane's state was asked for while its requests are pending");
}

static int check_slot(int slot, struct fm_error *err)
{
    if (slot >= 0 && slot < FM_SLOTS) return 0;
    return fm_fail(err, FM_EINTERNAL, "there is no snapshot slot %d", slot);
}

static int state_read(struct fm_lane *lane, void *blob, struct fm_error *err)
{
    const int status = check_idle(lane, err);
    if (status) return status;
    fm_lane_blob_read(lane, lane->state, blob);
    lane->device->transfers.to_host += state_size(lane);
    return 0;
}

static int state_write(struct fm_lane *lane, const void *blob, struct fm_error *err)
{
    const int status = check_idle(lane, err);
    if (status) return status;
    fm_lane_blob_write(lane, lane->state, blob);
    lane->frozen = false;
    lane->device->transfers.to_device += state_size(lane);
    return 0;
}

static int snapshot_read(struct fm_lane *lane, int slot, void *blob, struct fm_error *err)
{
    int status = check_idle(lane, err);
    if (!status) status = check_slot(slot, err);
    if (!status && !lane->taken[slot]) status = fm_fail(err, FM_EINTERNAL, "snapshot slot %d is empty", slot);
    if (status) return status;
    fm_lane_blob_read(lane, lane->snapshot[slot], blob);
    lane->device->transfers.to_host += state_size(lane);
    return 0;
}

static int snapshot_write(struct fm_lane *lane, int slot, const void *blob, struct fm_error *err)
{
    int status = check_idle(lane, err);
    if (!status) status = check_slot(slot, err);
    if (status) return status;
    fm_lane_blob_write(lane, lane->snapshot[slot], blob);
    lane->taken[slot] = true;
    lane->device->transfers.to_device += state_size(lane);
    return 0;
}

static int parameters_write(struct fm_lane *lane, const float *parameters, struct fm_error *err)
{
    const int status = check_idle(lane, err);
    if (status) return status;
    fm_lane_reset(lane, parameters);
    lane->device->transfers.to_device += lane->program->float_count * (int64_t)sizeof *parameters;
    return 0;
}

/* ---- requests ---- */

static int check_request(const struct fm_lane *lane, const struct fm_request *r, struct fm_error *err)
{
    switch (r->kind) {
    case FM_TRAIN:
        if (r->first_step >= 0 && r->steps >= 0 && r->first_step <= INT64_MAX - r->steps) return 0;
        return fm_fail(err, FM_EINTERNAL, "steps %lld + %lld cannot be trained", (long long)r->first_step,
                       (long long)r->steps);
    case FM_EVALUATE:
        if ((r->returns & FM_RETURN_CONFUSION && (!r->confusion || fm_lane_classes(lane) == 0)) ||
            (r->returns & FM_RETURN_SCORES && !r->scores))
            return fm_fail(err, FM_EINTERNAL, "an evaluation has no place for what it returns");
        if (fm_lane_part(lane, r->part)->count > 0) return 0;
        return fm_fail(err, FM_EINTERNAL, "the part that is to be evaluated is empty");
    case FM_SNAPSHOT:
    case FM_RESTORE: return check_slot(r->slot, err);
    }
    return fm_fail(err, FM_EINTERNAL, "there is no request of kind %d", (int)r->kind);
}

static int submit(struct fm_lane *lane, const struct fm_request *request, struct fm_error *err)
{
    const int status = check_request(lane, request, err);
    if (status) return status;
    struct fm_work *work = fm_calloc(1, sizeof *work);
    if (!work) return fm_fail_memory(err);
    work->request = *request;
    work->report.lane = lane;
    work->report.tag = request->tag;
    work->report.kind = request->kind;
    atomic_init(&work->cancel, false);
    fm_queue_submit(lane, work);
    lane->device->transfers.to_device += (int64_t)sizeof *request;
    return 0;
}

static void count_report(struct fm_device *device, const struct fm_work *work)
{
    const struct fm_lane *lane = work->report.lane;
    device->transfers.to_host += (int64_t)sizeof work->report;
    if (work->request.kind != FM_EVALUATE) return;
    const int64_t k = fm_lane_classes(lane), n = fm_lane_part(lane, work->request.part)->count;
    if (work->request.returns & FM_RETURN_CONFUSION)
        device->transfers.to_host += k * k * (int64_t)sizeof(int64_t);
    if (work->request.returns & FM_RETURN_SCORES)
        device->transfers.to_host += n * lane->program->score_width * (int64_t)sizeof(float);
}

static int device_wait(struct fm_device *device, int milliseconds, struct fm_report *report,
                       struct fm_error *err)
{
    (void)err;
    struct fm_work *work = fm_queue_wait(device, milliseconds);
    if (!work) return 0;
    count_report(device, work);
    *report = work->report;
    fm_free(work);
    return 1;
}

#define FM_REFERENCE_TABLE(backend_name, open_function)                                                      \
    {                                                                                                        \
        .name = backend_name, .open = open_function, .close = device_close, .describe = device_describe,     \
        .numbers = device_numbers, .lanes = device_lanes, .memory = device_memory, .load = device_load,      \
        .unload = device_unload, .transfers = device_transfers, .supports = device_supports,                 \
        .cost = device_cost, .plan_hash = device_plan_hash, .lane_open = lane_open,                          \
        .lane_close = lane_close, .state_size = state_size, .state_read = state_read,                        \
        .state_write = state_write, .snapshot_read = snapshot_read, .snapshot_write = snapshot_write,        \
        .parameters_write = parameters_write, .submit = submit, .wait = device_wait,                         \
        .cancel = fm_queue_cancel                                                                            \
    }

const struct fm_backend fm_backend_reference = FM_REFERENCE_TABLE("cpu", open_single);
const struct fm_backend fm_backend_reference64 = FM_REFERENCE_TABLE("reference64", open_double);
