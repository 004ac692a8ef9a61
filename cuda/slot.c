/* Slots: what a lane needs of CUDA beside device memory. Making it takes milliseconds, so it is kept. */
#include "lane_private.h"

#include <string.h>

#include "base/memory.h"

static int fill_slot(struct fm_device *device, struct fm_cuda_slot *slot, struct fm_error *err)
{
    void *at = NULL;
    int status = fm_cuda_check(device, cudaStreamCreateWithFlags(&slot->stream, cudaStreamNonBlocking), err,
                               "make a stream");
    if (!status)
        status = fm_cuda_check(device,
                               cudaHostAlloc((void **)&slot->words, sizeof *slot->words, cudaHostAllocMapped),
                               err, "map host memory");
    if (!status) {
        memset(slot->words, 0, sizeof *slot->words);
        status = fm_cuda_check(device, cudaHostGetDevicePointer(&at, slot->words, 0), err, "map host memory");
        slot->words_at = at;
    }
    if (!status)
        status = fm_cuda_check(device,
                               cudaHostAlloc((void **)&slot->results, FM_CUDA_PINNED, cudaHostAllocDefault),
                               err, "pin host memory");
    if (!status) status = fm_cuda_timers_make(device, slot, err);
    return status;
}

static void free_slot(struct fm_device *device, struct fm_cuda_slot *slot)
{
    for (int i = 0; i < FM_CUDA_FLIGHT; i++) fm_profile_marks_free(device, &slot->marks[i]);
    fm_cuda_graphs_free(device, slot);
    fm_cuda_timers_free(device, slot);
    if (slot->results) FM_CUDA_NOTED(device, cudaFreeHost(slot->results));
    if (slot->words) FM_CUDA_NOTED(device, cudaFreeHost(slot->words));
    if (slot->stream) FM_CUDA_NOTED(device, cudaStreamDestroy(slot->stream));
    fm_free(slot);
}

static int make_slot(struct fm_device *device, struct fm_card *card, struct fm_cuda_slot **out,
                     struct fm_error *err)
{
    struct fm_cuda_slot *slot = fm_calloc(1, sizeof *slot);
    if (!slot) return fm_fail_memory(err);
    slot->card = card;
    const int status = fill_slot(device, slot, err);
    if (status) {
        free_slot(device, slot);
        return status;
    }
    slot->next = card->slots;
    card->slots = slot;
    *out = slot;
    return 0;
}

static bool fits(const struct fm_cuda_slot *slot, const struct fm_lane *lane)
{
    return slot->ngraphs > 0 && slot->graphs[0].plan == lane->plan && slot->graphs[0].base == lane->base;
}

int fm_cuda_slot_take(struct fm_lane *lane, struct fm_error *err)
{
    struct fm_cuda_slot *best = NULL;
    int status = fm_card_use(lane->device, lane->card, err);
    if (status) return status;
    for (struct fm_cuda_slot *slot = lane->card->slots; slot; slot = slot->next)
        if (!slot->lane && (!best || fits(slot, lane))) best = slot;
    if (!best) status = make_slot(lane->device, lane->card, &best, err);
    if (status) return status;
    if (fits(best, lane)) {
        fm_cuda_graphs_keep(lane->device, best, lane->scores);
    } else {
        fm_cuda_graphs_free(lane->device, best);
        memset(best->warm, 0, sizeof best->warm);
        fm_cuda_timers_reset(lane->device, best);
    }
    best->lane = lane;
    lane->slot = best;
    return 0;
}

void fm_cuda_slot_give(struct fm_cuda_slot *slot)
{
    slot->lane = NULL;
}

void fm_cuda_slots_free(struct fm_device *device, struct fm_card *card)
{
    while (card->slots) {
        struct fm_cuda_slot *slot = card->slots;
        card->slots = slot->next;
        free_slot(device, slot);
    }
}
