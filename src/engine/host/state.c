/* A lane's state and snapshots as blobs; only while nothing of the lane is pending. */
#include "engine/host/host.h"

#include "engine/options.h"

int64_t fm_host_state_size(const struct fm_lane *lane)
{
    return lane->layout.blob;
}

static int check_idle(struct fm_lane *lane, struct fm_error *err)
{
    if (!fm_queue_pending(lane)) return 0;
    return fm_fail(err, FM_EINTERNAL, "a lane's state was asked for while its requests are pending");
}

int fm_host_state_read(struct fm_lane *lane, void *blob, struct fm_error *err)
{
    const int status = check_idle(lane, err);
    if (status) return status;
    lane->executor->blob_read(lane, lane->state, blob);
    lane->device->transfers.to_host += fm_host_state_size(lane);
    return 0;
}

int fm_host_state_write(struct fm_lane *lane, const void *blob, struct fm_error *err)
{
    const int status = check_idle(lane, err);
    if (status) return status;
    lane->executor->blob_write(lane, lane->state, blob);
    lane->frozen = false;
    lane->device->transfers.to_device += fm_host_state_size(lane);
    return 0;
}

int fm_host_snapshot_read(struct fm_lane *lane, int slot, void *blob, struct fm_error *err)
{
    int status = check_idle(lane, err);
    if (!status) status = fm_slot_check(slot, err);
    if (!status && !lane->taken[slot]) status = fm_fail(err, FM_EINTERNAL, "snapshot slot %d is empty", slot);
    if (status) return status;
    lane->executor->blob_read(lane, lane->snapshot[slot], blob);
    lane->device->transfers.to_host += fm_host_state_size(lane);
    return 0;
}

int fm_host_snapshot_write(struct fm_lane *lane, int slot, const void *blob, struct fm_error *err)
{
    int status = check_idle(lane, err);
    if (!status) status = fm_slot_check(slot, err);
    if (!status) status = fm_lane_slot(lane, slot, err);
    if (status) return status;
    lane->executor->blob_write(lane, lane->snapshot[slot], blob);
    lane->taken[slot] = true;
    lane->device->transfers.to_device += fm_host_state_size(lane);
    return 0;
}

int fm_host_parameters_write(struct fm_lane *lane, const float *parameters, struct fm_error *err)
{
    const int status = check_idle(lane, err);
    if (status) return status;
    fm_lane_reset(lane, parameters);
    lane->device->transfers.to_device += lane->program->float_count * (int64_t)sizeof *parameters;
    return 0;
}
