/* Copies between any host memory and a card, through two pinned buffers in turn: while one is on its way the
 * other is filled or emptied. */
#include "cuda.h"

#include <string.h>

static int64_t piece_of(int64_t bytes)
{
    return bytes < FM_CUDA_STAGING ? bytes : FM_CUDA_STAGING;
}

static int record(struct fm_device *device, struct fm_card *card, int i, struct fm_error *err)
{
    return fm_cuda_check(device, cudaEventRecord(card->staged[i], card->stream), err, "mark a copy");
}

static int wait_for(struct fm_device *device, struct fm_card *card, int i, struct fm_error *err)
{
    return fm_cuda_check(device, cudaEventSynchronize(card->staged[i]), err, "wait for a copy");
}

int fm_card_to_device(struct fm_device *device, struct fm_card *card, void *to, const void *from,
                      int64_t bytes, struct fm_error *err)
{
    int status = fm_card_use(device, card, err);
    for (int64_t at = 0; !status && at < bytes; at += FM_CUDA_STAGING) {
        const int i = card->turn;
        const int64_t size = piece_of(bytes - at);
        card->turn ^= 1;
        status = wait_for(device, card, i, err);
        if (status) break;
        memcpy(card->staging[i], (const char *)from + at, (size_t)size);
        status = fm_cuda_check(device,
                               cudaMemcpyAsync((char *)to + at, card->staging[i], (size_t)size,
                                               cudaMemcpyHostToDevice, card->stream),
                               err, "copy to the card");
        if (!status) status = record(device, card, i, err);
        if (!status) device->transfers.to_device += size;
    }
    return status;
}

static int fetch(struct fm_device *device, struct fm_card *card, int i, const char *from, int64_t size,
                 struct fm_error *err)
{
    int status = fm_cuda_check(
        device, cudaMemcpyAsync(card->staging[i], from, (size_t)size, cudaMemcpyDeviceToHost, card->stream),
        err, "copy from the card");
    if (!status) status = record(device, card, i, err);
    if (!status) device->transfers.to_host += size;
    return status;
}

int fm_card_to_host(struct fm_device *device, struct fm_card *card, void *to, const void *from, int64_t bytes,
                    struct fm_error *err)
{
    int status = fm_card_use(device, card, err);
    /* What an upload still reads must not be overwritten. */
    if (!status) status = wait_for(device, card, 0, err);
    if (!status) status = wait_for(device, card, 1, err);
    if (!status && bytes > 0) status = fetch(device, card, 0, from, piece_of(bytes), err);
    int i = 0;
    for (int64_t at = 0; !status && at < bytes; at += FM_CUDA_STAGING, i ^= 1) {
        const int64_t next = at + FM_CUDA_STAGING;
        if (next < bytes)
            status = fetch(device, card, i ^ 1, (const char *)from + next, piece_of(bytes - next), err);
        if (!status) status = wait_for(device, card, i, err);
        if (!status) memcpy((char *)to + at, card->staging[i], (size_t)piece_of(bytes - at));
    }
    return status;
}

int fm_card_settle(struct fm_device *device, struct fm_card *card, struct fm_error *err)
{
    int status = fm_card_use(device, card, err);
    if (!status)
        status = fm_cuda_check(device, cudaStreamSynchronize(card->stream), err, "wait for the card");
    return status;
}
