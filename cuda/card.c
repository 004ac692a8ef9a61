/* One GPU: whether it can be used, opened with its stream and staging buffers, its arena. */
#include "cuda.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "lane.h"
#include "library/library.h"

#define LEAST_RESERVE (256 << 20)

static cudaError_t try_card(int number, char *why, size_t why_size)
{
    cudaError_t status = cudaSetDevice(number);
    if (status == cudaSuccess) status = fm_cuda_code();
    if (status == cudaSuccess) return status;
    cudaGetLastError();
    fm_cuda_why(status, number, why, why_size);
    return status;
}

int fm_card_usable(int number, char *why, size_t why_size)
{
    return try_card(number, why, why_size) != cudaSuccess;
}

static int open_staging(struct fm_device *device, struct fm_card *card, struct fm_error *err)
{
    int status = fm_cuda_check(device, cudaStreamCreateWithFlags(&card->stream, cudaStreamNonBlocking), err,
                               "make a stream");
    for (int i = 0; !status && i < 2; i++) {
        status = fm_cuda_check(device, cudaEventCreateWithFlags(&card->staged[i], cudaEventDisableTiming),
                               err, "make an event");
        if (!status)
            status =
                fm_cuda_check(device, cudaHostAlloc(&card->staging[i], FM_CUDA_STAGING, cudaHostAllocDefault),
                              err, "pin host memory");
    }
    return status;
}

int fm_card_open(struct fm_device *device, struct fm_card *card, int number, struct fm_error *err)
{
    char why[256] = "CUDA cannot go on";
    struct cudaDeviceProp properties;
    size_t free_bytes = 0, total = 0;
    *card = (struct fm_card){.number = number};
    /* Cards that are open already are closed then, without a call where none may be made. */
    if (!FM_CUDA_NOTED(device, try_card(number, why, sizeof why)))
        return fm_fail(err, FM_EDEVICE, "card %d cannot be used: %s", number, why);
    int status =
        fm_cuda_check(device, cudaGetDeviceProperties(&properties, number), err, "ask about the card");
    if (!status)
        status = fm_cuda_check(device, cudaMemGetInfo(&free_bytes, &total), err, "ask for its memory");
    if (status) return status;
    snprintf(card->name, sizeof card->name, "%.*s", (int)sizeof card->name - 1, properties.name);
    card->total = (int64_t)total;
    int limited = 0;
    if (FM_CUDA_NOTED(device, cudaDeviceGetAttribute(&limited, cudaDevAttrKernelExecTimeout, number)))
        card->watchdog = limited != 0;
    card->opened = true;
    status = fm_cuda_alive(device, err);
    return status ? status : open_staging(device, card, err);
}

void fm_card_close(struct fm_device *device, struct fm_card *card)
{
    if (!card->opened) return;
    FM_CUDA_NOTED(device, cudaSetDevice(card->number));
    fm_cuda_slots_free(device, card);
    fm_library_handles_close(device, card);
    if (card->arena.base) FM_CUDA_NOTED(device, cudaFree(card->arena.base));
    for (int i = 0; i < 2; i++) {
        if (card->staged[i]) FM_CUDA_NOTED(device, cudaEventDestroy(card->staged[i]));
        if (card->staging[i]) FM_CUDA_NOTED(device, cudaFreeHost(card->staging[i]));
    }
    if (card->stream) FM_CUDA_NOTED(device, cudaStreamDestroy(card->stream));
    fm_arena_fini(&card->arena);
    fm_free(card->resident);
    *card = (struct fm_card){0};
}

/* What other programs, the driver and the display keep: the larger of 256 MB and a tenth, of small cards a
 * quarter. */
int64_t fm_card_reserve(const struct fm_card *card)
{
    int64_t reserve = card->total / 10 > LEAST_RESERVE ? card->total / 10 : LEAST_RESERVE;
    return reserve < card->total / 4 ? reserve : card->total / 4;
}

int fm_card_room(struct fm_device *device, struct fm_card *card, int64_t *bytes, struct fm_error *err)
{
    size_t free_bytes = 0, total = 0;
    int status = fm_card_use(device, card, err);
    if (!status)
        status = fm_cuda_check(device, cudaMemGetInfo(&free_bytes, &total), err, "ask for its memory");
    *bytes = (int64_t)free_bytes - fm_card_reserve(card);
    if (*bytes < 0) *bytes = 0;
    return status;
}

/* Fragments may leave less than what is free in one piece, so a little less is asked for until it works. */
int fm_card_arena(struct fm_device *device, struct fm_card *card, struct fm_error *err)
{
    int64_t bytes;
    if (card->arena.base) return 0;
    int status = fm_card_room(device, card, &bytes, err);
    if (status) return status;
    void *base = NULL;
    const int64_t offered = bytes;
    cudaError_t made = cudaErrorMemoryAllocation;
    for (; bytes >= (1 << 20) && made == cudaErrorMemoryAllocation; bytes -= bytes / 8) {
        made = cudaMalloc(&base, (size_t)bytes);
        if (made == cudaSuccess) break;
        cudaGetLastError();
    }
    if (made == cudaErrorMemoryAllocation) {
        char size[FM_BYTES_TEXT];
        return fm_fail(err, FM_ENOMEM,
                       "the card has no piece of 1 MB for lanes among the %s that can be used: end other "
                       "programs that use it, or take a larger card or --device cpu",
                       fm_show_bytes(offered, size));
    }
    status = fm_cuda_check(device, made, err, "make room for lanes on the card");
    if (status) return status;
    if (fm_arena_init(&card->arena, base, bytes)) {
        FM_CUDA_NOTED(device, cudaFree(base));
        return fm_fail_memory(err);
    }
    return 0;
}
