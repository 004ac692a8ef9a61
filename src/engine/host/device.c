/* The device: open, data, what a program costs, the list of lanes. */
#include "engine/host/host.h"

#include <string.h>

#include "base/machine.h"
#include "base/memory.h"

/* More lanes than this are a mistake of the caller; each one costs memory. */
#define MAX_LANES 4096

static int check_options(const struct fm_device_options *options, int64_t lanes, struct fm_error *err)
{
    if (lanes > MAX_LANES)
        return fm_fail(err, FM_EUSAGE, "%lld lanes are too many: at most %d", (long long)lanes, MAX_LANES);
    if (options && options->select && *options->select)
        return fm_fail(err, FM_EUSAGE, "the cpu has no parts to choose: expected 'cpu', found 'cpu:%s'",
                       options->select);
    return 0;
}

int fm_host_open(struct fm_device **out, const struct fm_device_options *options,
                 const struct fm_executor *executor, struct fm_error *err)
{
    const int64_t cores = fm_usable_cores();
    const int64_t lanes = options && options->lanes > 0 ? options->lanes : cores;
    int status = check_options(options, lanes, err);
    if (status) return status;
    struct fm_device *device = fm_calloc(1, sizeof *device);
    if (!device) return fm_fail_memory(err);
    if (options) device->options = *options;
    device->options.select = NULL;
    device->executor = executor;
    device->lanes = lanes;
    device->nworkers = lanes < cores ? lanes : cores;
    status = fm_queue_open(device, err);
    if (status) {
        fm_free(device);
        return status;
    }
    status = executor->device_open(device, &device->options, err);
    if (status) {
        fm_queue_close(device);
        fm_free(device);
        return status;
    }
    *out = device;
    return 0;
}

void fm_host_close(struct fm_device *device)
{
    if (!device) return;
    fm_queue_close(device);
    if (device->executor->device_close) device->executor->device_close(device);
    fm_free(device->resident);
    fm_free(device);
}

const char *fm_host_describe(const struct fm_device *device)
{
    return device->text;
}

const char *fm_host_numbers(const struct fm_device *device)
{
    return device->numbers;
}

int64_t fm_host_lanes(const struct fm_device *device)
{
    return device->lanes;
}

/* Lanes live in the machine's own memory. */
int64_t fm_host_memory(const struct fm_device *device)
{
    (void)device;
    return 0;
}

/* ---- data: borrowed, the processor reads them where they are ---- */

int fm_host_load(struct fm_device *device, const struct fm_resident *resident, int *dataset,
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

void fm_host_unload(struct fm_device *device, int dataset)
{
    if (dataset >= 0 && dataset < device->nresident) device->resident[dataset] = (struct fm_resident){0};
}

void fm_host_transfers(const struct fm_device *device, struct fm_transfers *transfers)
{
    *transfers = device->transfers;
}

/* ---- programs ---- */

bool fm_host_supports(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                      char *why, size_t why_size)
{
    struct fm_host_layout layout;
    return fm_host_measure(device, program, batch, &layout, why, why_size);
}

int64_t fm_host_cost(const struct fm_device *device, const struct fm_program *program, int64_t batch)
{
    struct fm_host_layout layout;
    char why[256];
    return fm_host_measure(device, program, batch, &layout, why, sizeof why) ? layout.total : INT64_MAX;
}

/* The order of every sum is fixed by the program, the batch size and what the engine adds; the class changes
 * when the loops do. */
uint64_t fm_host_plan_hash(const struct fm_device *device, const struct fm_program *program, int64_t batch)
{
    struct fm_hash hash = {0};
    fm_hash_add(&hash, device->numbers, strlen(device->numbers));
    fm_hash_add(&hash, &program->hash, sizeof program->hash);
    fm_hash_add(&hash, &batch, sizeof batch);
    if (device->executor->hash) device->executor->hash(device, program, batch, &hash);
    return fm_hash_value(&hash);
}

int fm_host_explain(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                    struct fm_text *text, struct fm_error *err)
{
    return device->executor->explain(device, program, batch, text, err);
}

double fm_host_peak(const struct fm_device *device, double seconds)
{
    return device->executor->peak ? device->executor->peak(device, seconds) : 0;
}

/* ---- lanes ---- */

int fm_host_lane_open(struct fm_device *device, const struct fm_lane_options *options, struct fm_lane **lane,
                      struct fm_error *err)
{
    const int status = fm_lane_new(lane, device, options, err);
    if (status) return status;
    (*lane)->next = device->lane;
    device->lane = *lane;
    device->transfers.to_device += (int64_t)sizeof *options;
    return 0;
}

void fm_host_lane_close(struct fm_lane *lane)
{
    if (!lane) return;
    fm_queue_drain(lane);
    struct fm_lane **at = &lane->device->lane;
    while (*at && *at != lane) at = &(*at)->next;
    if (*at) *at = lane->next;
    fm_lane_free(lane);
}
