/* Lanes on a GPU. A lane takes a slot - stream, pinned memory, graphs, kept from lane to lane - and a block
 * of the card's arena.
 *
 * A request becomes: begin (a kernel), steps or chunks of examples, end (a kernel that writes the answer into
 * mapped pinned memory, its number last). Steps go in chunks of K (16), one graph launch each; the last
 * kernel of a graph counts `through` and tells whether the lane went idle (fm_cuda_signal), so that the rest
 * of a frozen request is never enqueued. At most two chunks of a lane are in flight; the third is enqueued by
 * `wait` when the first is through. Up to half of K takes graphs of a quarter, up to half of that of one
 * step; steps beyond the request's end do nothing (control.activity is idle by then). A graph is
 * captured once per slot, plan, block address and length, after one uncaptured step, and replayed for every
 * chunk, request and run that fits it. Where capture is impossible the same calls are enqueued directly: same
 * bits. Where a display has a watchdog, K begins with one and every chunk but the first is timed: it doubles
 * while that leaves room, and halves when the two in flight could take longer than FM_CUDA_WATCHDOG.
 *
 * Several requests of a lane are enqueued behind each other, so that the card never waits for the host
 * between an epoch, its evaluation, a snapshot and the next epoch. A cancel is seen where a chunk would be
 * enqueued; what is wholly enqueued runs to its end and is reported as done.
 *
 * A launch that fails for want of memory fails its lane: everything pending is answered with FM_ENOMEM and
 * the lane can only be closed. Any other failure loses the device (cuda.h).
 *
 * `wait` looks at the answers' words, hands out reports in the order they became complete, feeds lanes, and
 * asks the streams now and then whether they failed. It never synchronises.
 *
 * Scores and the confusion matrix come back by copies into the slot's pinned buffer, piece by piece where it
 * is smaller, after the evaluation's end and before its report. */
#ifndef FM_CUDA_LANE_H
#define FM_CUDA_LANE_H

#include "plan/plan.h"

#define FM_CUDA_STEPS    16          /* K: of a graph */
#define FM_CUDA_FLIGHT   2           /* chunks of a lane in flight */
#define FM_CUDA_PINNED   (256 << 10) /* bytes of a slot's pinned buffer for results */
#define FM_CUDA_WATCHDOG 0.05        /* seconds that chunks in flight may take where a display is attached */

int fm_cuda_lane_open(struct fm_device *device, const struct fm_lane_options *options, struct fm_lane **lane,
                      struct fm_error *err);
void fm_cuda_lane_close(struct fm_lane *lane);
bool fm_cuda_lane_fits(const struct fm_device *device, const struct fm_lane_options *options);
int64_t fm_cuda_state_size(const struct fm_lane *lane);
int fm_cuda_state_read(struct fm_lane *lane, void *blob, struct fm_error *err);
int fm_cuda_state_write(struct fm_lane *lane, const void *blob, struct fm_error *err);
int fm_cuda_snapshot_read(struct fm_lane *lane, int slot, void *blob, struct fm_error *err);
int fm_cuda_snapshot_write(struct fm_lane *lane, int slot, const void *blob, struct fm_error *err);
int fm_cuda_parameters_write(struct fm_lane *lane, const float *parameters, struct fm_error *err);
int fm_cuda_submit(struct fm_lane *lane, const struct fm_request *request, struct fm_error *err);
int fm_cuda_wait(struct fm_device *device, int milliseconds, struct fm_report *report, struct fm_error *err);
void fm_cuda_cancel(struct fm_lane *lane);
int64_t fm_cuda_captured(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                         int *steps);

void fm_cuda_slots_free(struct fm_device *device, struct fm_card *card);

/* profile.c: run --profile */
int fm_profile_new(struct fm_device *device, struct fm_error *err);
void fm_profile_free(struct fm_device *device);
int fm_cuda_profile(struct fm_device *device, struct fm_text *text, struct fm_error *err);

#endif
