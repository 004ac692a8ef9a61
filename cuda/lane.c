/* Lanes on a card: opened with everything a run needs in device memory, closed. */
#include "lane_private.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "engine/options.h"
#ifdef FM_EMULATED
#include "emulator/emulator.h"
#endif

static const struct fm_fold *fold_of(const struct fm_lane *lane)
{
    const struct fm_lane_options *o = &lane->options;
    return &lane->device->resident[o->dataset].splits[o->split].fold[o->fold];
}

/* ---- memory ---- */

static int64_t room_of(const struct fm_card *card)
{
    return card->arena.base ? card->arena.size - card->arena.used : 0;
}

static int64_t score_bytes(const struct fm_lane *lane)
{
    const int64_t inner = lane->counts[FM_PART_INNER], val = lane->counts[FM_PART_VAL];
    return (inner > val ? inner : val) * lane->program->score_width * (int64_t)sizeof *lane->scores;
}

static bool take_memory(struct fm_lane *lane, struct fm_card *card)
{
    const int64_t scores = score_bytes(lane);
    lane->card = card;
    lane->base = fm_arena_take(&card->arena, lane->plan->layout.bytes);
    if (lane->base && scores > 0) lane->scores = fm_arena_take(&card->arena, scores);
    if (lane->base && (lane->scores || scores == 0)) return true;
    if (lane->base) fm_arena_give(&card->arena, lane->base);
    lane->base = NULL;
    return false;
}

/* The card with most room; another one where its room is in pieces. */
static int find_room(struct fm_lane *lane, struct fm_error *err)
{
    struct fm_device *device = lane->device;
    bool tried[FM_CUDA_MAX_CARDS] = {false};
    int64_t largest = 0;
    for (int i = 0; i < device->ncards; i++) {
        const int status = fm_card_arena(device, &device->cards[i], err);
        if (status) return status;
    }
    for (int n = 0; n < device->ncards; n++) {
        int best = -1;
        for (int i = 0; i < device->ncards; i++)
            if (!tried[i] && (best < 0 || room_of(&device->cards[i]) > room_of(&device->cards[best])))
                best = i;
        if (take_memory(lane, &device->cards[best])) return 0;
        tried[best] = true;
        const int64_t piece = fm_arena_largest(&device->cards[best].arena);
        if (piece > largest) largest = piece;
    }
    char need[FM_BYTES_TEXT], have[FM_BYTES_TEXT];
    return fm_fail(
        err, FM_ENOMEM,
        "a lane of this network at batch size %lld takes %s, and the card has %s in one piece for it: use "
        "fewer lanes (--lanes) or a smaller batch_size",
        (long long)lane->options.batch, fm_show_bytes(lane->plan->layout.bytes + score_bytes(lane), need),
        fm_show_bytes(largest, have));
}

static void give_memory(struct fm_lane *lane)
{
    if (lane->train_scores) fm_arena_give(&lane->card->arena, lane->train_scores);
    if (lane->scores) fm_arena_give(&lane->card->arena, lane->scores);
    if (lane->base) fm_arena_give(&lane->card->arena, lane->base);
}

/* The emulator looks whether libraries stay in what they are given. */
static void tell_parts(const struct fm_lane *lane)
{
#ifdef FM_EMULATED
    int64_t offset, bytes;
    for (int i = 0; fm_cuda_plan_part(lane->plan, i, &offset, &bytes); i++)
        if (bytes > 0) fm_emulator_piece_part(lane->base + offset, (size_t)bytes);
#else
    (void)lane;
#endif
}

/* ---- what the kernels read ---- */

static struct fm_cuda_hyper hyper_of(const struct fm_lane *lane)
{
    const struct fm_hyper *h = &lane->options.hyper;
    const struct fm_cuda_layout *layout = &lane->plan->layout;
    return (struct fm_cuda_hyper){
        .momentum = (float)h->momentum,
        .beta_1 = (float)h->beta_1,
        .beta_2 = (float)h->beta_2,
        .epsilon = (float)h->epsilon,
        .rho = (float)h->rho,
        .weight_decay = (float)h->weight_decay,
        .beta_1_wide = h->beta_1,
        .beta_2_wide = h->beta_2,
        .rho_wide = h->rho,
        .clip = (int)h->clip,
        .clip_value = (float)h->clip_value,
        .shuffle = h->shuffle,
        .class_weights = h->class_weights ? (const float *)(lane->base + layout->class_weights) : NULL,
        .rates = (const double *)(lane->base + layout->rates)};
}

static struct fm_cuda_lane record_of(const struct fm_lane *lane)
{
    const struct fm_lane_options *o = &lane->options;
    const struct fm_cuda_layout *layout = &lane->plan->layout;
    const struct fm_cuda_resident *resident = &lane->card->resident[o->dataset];
    const struct fm_cuda_fold *fold = &resident->folds[o->split][o->fold];
    const uint32_t repeat = (uint32_t)fold_of(lane)->repeat, number = (uint32_t)fold_of(lane)->fold;
    struct fm_cuda_lane record = {
        .data = resident->views[o->view],
        .hyper = hyper_of(lane),
        .shuffle_key = fm_key((uint64_t)o->seed, FM_PURPOSE_SHUFFLE, repeat, number),
        .dropout_key = fm_key((uint64_t)o->seed, FM_PURPOSE_DROPOUT, repeat, number),
        .batch = o->batch,
        .pass_steps = (lane->counts[FM_PART_TRAIN] + o->batch - 1) / o->batch,
        .tail = (struct fm_cuda_tail *)(lane->base + layout->state + layout->tail),
        .control = {.first_bad_step = -1}};
    record.data.shift = fold->shift;
    record.data.factor = fold->factor;
    record.data.nclasses = lane->classes;
    memcpy(record.part, fold->part, sizeof record.part);
    return record;
}

static int upload(struct fm_lane *lane, int64_t offset, const void *from, int64_t bytes, struct fm_error *err)
{
    return bytes > 0 ? fm_card_to_device(lane->device, lane->card, lane->base + offset, from, bytes, err) : 0;
}

static int clear(struct fm_lane *lane, int64_t offset, int64_t bytes, struct fm_error *err)
{
    if (bytes <= 0) return 0;
    return fm_cuda_check(lane->device,
                         cudaMemsetAsync(lane->base + offset, 0, (size_t)bytes, lane->card->stream), err,
                         "clear a lane's memory");
}

/* Tests look whether anything was written beside its room. */
static int fill_gaps(struct fm_lane *lane, struct fm_error *err)
{
    int64_t offset, bytes;
    int status = 0;
    for (int i = 0;
         !status && lane->device->options.guard > 0 && fm_cuda_plan_gap(lane->plan, i, &offset, &bytes); i++)
        status = fm_cuda_check(
            lane->device,
            cudaMemsetAsync(lane->base + offset, FM_CUDA_GUARD, (size_t)bytes, lane->card->stream), err,
            "guard a lane's memory");
    return status;
}

static int write_record(struct fm_lane *lane, struct fm_error *err)
{
    const struct fm_cuda_layout *layout = &lane->plan->layout;
    const struct fm_hyper *h = &lane->options.hyper;
    const struct fm_cuda_lane record = record_of(lane);
    int status = fm_card_use(lane->device, lane->card, err);
    if (!status) status = clear(lane, layout->zero, layout->zero_bytes, err);
    if (!status) status = clear(lane, layout->penalty, sizeof(double), err);
    if (!status) status = fill_gaps(lane, err);
    if (!status) status = upload(lane, layout->record, &record, sizeof record, err);
    if (!status)
        status = upload(lane, lane->plan->layout.tiles, lane->plan->tiles,
                        lane->plan->ntiles * (int64_t)sizeof *lane->plan->tiles, err);
    if (!status)
        status =
            upload(lane, layout->rates, h->rates, lane->program->nrates * (int64_t)sizeof *h->rates, err);
    if (!status && h->class_weights)
        status = upload(lane, layout->class_weights, h->class_weights,
                        lane->classes * (int64_t)sizeof *h->class_weights, err);
    return status;
}

/* Draws the weights; settles the card's stream. */
static int write_weights(struct fm_lane *lane, struct fm_error *err)
{
    const struct fm_fold *fold = fold_of(lane);
    const uint64_t key = fm_key((uint64_t)lane->options.seed, FM_PURPOSE_WEIGHTS, (uint32_t)fold->repeat,
                                (uint32_t)fold->fold);
    float *parameters = fm_calloc((size_t)lane->program->float_count, sizeof *parameters);
    if (!parameters) return fm_fail_memory(err);
    int status = fm_program_initialize(lane->program, key, parameters, err);
    if (!status) status = fm_cuda_parameters_write(lane, parameters, err);
    fm_free(parameters);
    return status;
}

/* ---- open and close ---- */

static void describe(struct fm_lane *lane)
{
    const struct fm_fold *fold = fold_of(lane);
    const struct fm_dataset *data = lane->device->resident[lane->options.dataset].data;
    lane->counts[FM_PART_TRAIN] = fold->train.count;
    lane->counts[FM_PART_INNER] = fold->inner.count;
    lane->counts[FM_PART_VAL] = fold->val.count;
    lane->classes = data->nclasses ? data->nclasses : data->distribution ? lane->program->loss.outputs : 0;
}

static void free_lane(struct fm_lane *lane)
{
    if (lane->slot) fm_cuda_slot_give(lane->slot);
    if (lane->card) give_memory(lane);
    fm_free(lane);
}

/* By taking what it would take, and giving it back. What is wrong otherwise, lane_open says. */
bool fm_cuda_lane_fits(const struct fm_device *device, const struct fm_lane_options *options)
{
    struct fm_lane lane = {
        .device = (struct fm_device *)device, .options = *options, .program = options->program};
    if (fm_cuda_plan_get(lane.device, lane.program, options->batch, &lane.plan, NULL)) return true;
    describe(&lane);
    for (int i = 0; i < device->ncards; i++) {
        struct fm_card *card = &lane.device->cards[i];
        if (card->arena.base && !take_memory(&lane, card)) continue;
        if (card->arena.base) give_memory(&lane);
        return true;
    }
    return false;
}

static int fill_lane(struct fm_lane *lane, struct fm_error *err)
{
    int status = fm_cuda_plan_get(lane->device, lane->program, lane->options.batch, &lane->plan, err);
    if (!status) status = find_room(lane, err);
    if (!status) status = fm_cuda_slot_take(lane, err);
    if (status) return status;
    tell_parts(lane);
    status = write_record(lane, err);
    if (!status) status = write_weights(lane, err);
    /* Nothing may be under way to memory that is given back. */
    if (status) FM_CUDA_NOTED(lane->device, cudaStreamSynchronize(lane->card->stream));
    return status;
}

int fm_cuda_lane_open(struct fm_device *device, const struct fm_lane_options *options, struct fm_lane **out,
                      struct fm_error *err)
{
    int status = fm_cuda_alive(device, err);
    if (!status) status = fm_lane_options_check(options, device->resident, device->nresident, err);
    if (status) return status;
    struct fm_lane *lane = fm_calloc(1, sizeof *lane);
    if (!lane) return fm_fail_memory(err);
    lane->device = device;
    lane->options = *options;
    lane->program = options->program;
    describe(lane);
    status = fill_lane(lane, err);
    if (status) {
        free_lane(lane);
        return status;
    }
    lane->next = device->lane;
    device->lane = lane;
    lane->card->lanes++;
    *out = lane;
    return 0;
}

/* After a failure it is not known what of the last request reached the card. */
static void finish_stream(struct fm_lane *lane)
{
    struct fm_cuda_slot *slot = lane->slot;
    const bool busy = (lane->first && lane->first->started) || lane->broken || lane->device->lost;
    if (!busy) return;
    FM_CUDA_NOTED(lane->device, cudaSetDevice(lane->card->number));
    FM_CUDA_NOTED(lane->device, cudaStreamSynchronize(slot->stream));
    slot->chunks = slot->words->through;
}

void fm_cuda_lane_close(struct fm_lane *lane)
{
    if (!lane) return;
    fm_cuda_collect(lane);
    finish_stream(lane);
    fm_cuda_drop(lane);
    for (int i = 0; i < FM_CUDA_FLIGHT; i++) fm_profile_harvest(lane->device, &lane->slot->marks[i]);
    struct fm_lane **at = &lane->device->lane;
    while (*at && *at != lane) at = &(*at)->next;
    if (*at) *at = lane->next;
    lane->card->lanes--;
    free_lane(lane);
}
