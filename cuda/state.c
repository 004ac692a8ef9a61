/* A lane's state and snapshots as blobs; only while nothing of the lane is pending. */
#include "lane_private.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "engine/options.h"

_Static_assert((int)FM_SLOTS <= (int)FM_CUDA_SLOTS, "the control block has a place for every slot");

int64_t fm_cuda_state_size(const struct fm_lane *lane)
{
    return fm_cuda_blob_size(lane->plan, lane->program);
}

static int check_idle(struct fm_lane *lane, struct fm_error *err)
{
    const int status = fm_cuda_alive(lane->device, err);
    if (status) return status;
    fm_cuda_collect(lane);
    if (lane->first)
        return fm_fail(err, FM_EINTERNAL, "a lane's state was asked for while its requests are pending");
    if (lane->broken) return fm_fail(err, lane->why.code, "%s", lane->why.text);
    return 0;
}

/* The end of a request is the last that a stream does, and it has been seen: nothing need be waited for. */
static int read_state(struct fm_lane *lane, int64_t offset, void *blob, struct fm_error *err)
{
    const int64_t bytes = lane->plan->layout.state_bytes;
    unsigned char *state = fm_malloc((size_t)bytes, 1);
    if (!state) return fm_fail_memory(err);
    const int status = fm_card_to_host(lane->device, lane->card, state, lane->base + offset, bytes, err);
    if (!status) fm_cuda_blob_from_state(lane->plan, lane->program, state, blob);
    fm_free(state);
    return status;
}

static int write_state(struct fm_lane *lane, int64_t offset, const unsigned char *state, struct fm_error *err)
{
    return fm_card_to_device(lane->device, lane->card, lane->base + offset, state,
                             lane->plan->layout.state_bytes, err);
}

static int write_blob(struct fm_lane *lane, int64_t offset, const void *blob, struct fm_error *err)
{
    unsigned char *state = fm_calloc((size_t)lane->plan->layout.state_bytes, 1);
    if (!state) return fm_fail_memory(err);
    fm_cuda_state_from_blob(lane->plan, lane->program, blob, state);
    const int status = write_state(lane, offset, state, err);
    fm_free(state);
    return status;
}

/* Sets an int of the lane's control block and waits until everything written before is there too. */
static int set_control(struct fm_lane *lane, size_t member, int value, struct fm_error *err)
{
    char *at = lane->base + lane->plan->layout.record + offsetof(struct fm_cuda_lane, control) + member;
    const int status = fm_card_to_device(lane->device, lane->card, at, &value, sizeof value, err);
    return status ? status : fm_card_settle(lane->device, lane->card, err);
}

int fm_cuda_state_read(struct fm_lane *lane, void *blob, struct fm_error *err)
{
    const int status = check_idle(lane, err);
    return status ? status : read_state(lane, lane->plan->layout.state, blob, err);
}

int fm_cuda_state_write(struct fm_lane *lane, const void *blob, struct fm_error *err)
{
    int status = check_idle(lane, err);
    if (!status) status = write_blob(lane, lane->plan->layout.state, blob, err);
    return status ? status : set_control(lane, offsetof(struct fm_cuda_control, frozen), 0, err);
}

int fm_cuda_snapshot_read(struct fm_lane *lane, int slot, void *blob, struct fm_error *err)
{
    int status = check_idle(lane, err);
    if (!status) status = fm_slot_check(slot, err);
    if (!status && !lane->taken[slot]) status = fm_fail(err, FM_EINTERNAL, "snapshot slot %d is empty", slot);
    return status ? status : read_state(lane, lane->plan->layout.snapshot[slot], blob, err);
}

int fm_cuda_snapshot_write(struct fm_lane *lane, int slot, const void *blob, struct fm_error *err)
{
    int status = check_idle(lane, err);
    if (!status) status = fm_slot_check(slot, err);
    if (!status) status = write_blob(lane, lane->plan->layout.snapshot[slot], blob, err);
    if (!status)
        status =
            set_control(lane, offsetof(struct fm_cuda_control, taken) + (size_t)slot * sizeof(int), 1, err);
    if (!status) lane->taken[slot] = true;
    return status;
}

int fm_cuda_parameters_write(struct fm_lane *lane, const float *parameters, struct fm_error *err)
{
    const struct fm_cuda_layout *layout = &lane->plan->layout;
    const struct fm_cuda_tail tail = {.last_loss = NAN, .last_norm = NAN};
    int status = check_idle(lane, err);
    if (status) return status;
    unsigned char *state = fm_calloc((size_t)layout->state_bytes, 1);
    if (!state) return fm_fail_memory(err);
    fm_cuda_state_from_parameters(lane->plan, lane->program, parameters, state);
    memcpy(state + layout->tail, &tail, sizeof tail);
    status = write_state(lane, layout->state, state, err);
    fm_free(state);
    return status ? status : set_control(lane, offsetof(struct fm_cuda_control, frozen), 0, err);
}
