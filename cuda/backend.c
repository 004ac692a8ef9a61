/* The backend's table, and the face of the plug-in. */
#include "cuda.h"

#include <stdio.h>

#include "engine/plugin.h"
#include "lane.h"
#include "range.h"

#ifdef FM_EMULATED
#include "emulator/emulator.h"
#endif

static int open_device(struct fm_device **device, const struct fm_device_options *options,
                       struct fm_error *err)
{
#ifdef FM_EMULATED
    fm_emulator_from_environment();
#endif
    const int status = fm_cuda_open(device, options, err);
#ifdef FM_EMULATED
    if (status) fm_emulator_closed();
#endif
    return status;
}

static void close_device(struct fm_device *device)
{
    fm_cuda_close(device);
#ifdef FM_EMULATED
    fm_emulator_closed();
#endif
}

static void range(const char *name)
{
    if (name)
        FM_RANGE_BEGIN(name);
    else
        FM_RANGE_END();
}

const struct fm_backend fm_backend_cuda = {
    .name = "cuda",
    .open = open_device,
    .close = close_device,
    .describe = fm_cuda_describe,
    .numbers = fm_cuda_numbers,
    .lanes = fm_cuda_lanes,
    .memory = fm_cuda_memory,
    .load = fm_cuda_load,
    .unload = fm_cuda_unload,
    .transfers = fm_cuda_transfers,
    .supports = fm_cuda_supports,
    .cost = fm_cuda_cost,
    .plan_hash = fm_cuda_plan_hash,
    .explain = fm_cuda_explain,
    .lane_open = fm_cuda_lane_open,
    .lane_close = fm_cuda_lane_close,
    .state_size = fm_cuda_state_size,
    .state_read = fm_cuda_state_read,
    .state_write = fm_cuda_state_write,
    .snapshot_read = fm_cuda_snapshot_read,
    .snapshot_write = fm_cuda_snapshot_write,
    .parameters_write = fm_cuda_parameters_write,
    .submit = fm_cuda_submit,
    .wait = fm_cuda_wait,
    .cancel = fm_cuda_cancel,
    .queues_ahead = true,
    .plan_choices = fm_cuda_plan_choices,
    .plan_use = fm_cuda_plan_use,
    .lane_fits = fm_cuda_lane_fits,
    .profile = fm_cuda_profile,
    .captured = fm_cuda_captured,
    .range = range,
};

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#ifdef FM_EMULATED
#define NAME   "CUDA emulator"
#define USABLE emulated_usable
#define LIST   emulated_list

static int emulated_usable(const char *select, char *why, size_t why_size)
{
    fm_emulator_from_environment();
    return fm_cuda_usable(select, why, why_size);
}

static int emulated_list(struct fm_text *text, bool libraries, struct fm_error *err)
{
    fm_emulator_from_environment();
    fm_text_add_string(text, "           (emulated: right results, slowly; no GPU is used)\n");
    return fm_cuda_list(text, libraries, err);
}
#else
#ifdef FM_CUDA_NAME /* the major version: CUDART_VERSION's digits are not to be had as text */
#define NAME "CUDA " TEXT(FM_CUDA_NAME)
#else
#define NAME "CUDA"
#endif
#define USABLE fm_cuda_usable
#define LIST   fm_cuda_list
#endif

__attribute__((visibility("default"))) const struct fm_plugin *fm_plugin(void)
{
    static const struct fm_plugin plugin = {.abi = FM_PLUGIN_ABI,
                                            .layout = FM_PLUGIN_LAYOUT,
                                            .version = FM_VERSION,
                                            .name = NAME,
                                            .backend = &fm_backend_cuda,
                                            .usable = USABLE,
                                            .list = LIST};
    return &plugin;
}
