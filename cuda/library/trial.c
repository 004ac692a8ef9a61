/* One call of a convolution as it will be made later, before a plan relies on it. What cuDNN's getters say of
 * an algorithm is not always what the call says then: an error in the middle of a run would cost the device,
 * here it only means an own kernel. Nothing is timed. */
#include <stdio.h>

#include "library/private.h"

static int64_t padded(int64_t floats)
{
    return (floats * 4 + FM_CUDA_ALIGN - 1) / FM_CUDA_ALIGN * FM_CUDA_ALIGN;
}

static int try_in(struct fm_device *device, struct fm_card *card, const struct fm_dnn_call *call,
                  char *memory, int64_t bytes, const int64_t offset[3], char *why, size_t why_size,
                  struct fm_error *err)
{
    struct fm_error own = {0};
    int status = fm_cuda_check(device, cudaMemsetAsync(memory, 0, (size_t)bytes, card->stream), err,
                               "clear memory for a trial");
    if (status) return status;
    status = fm_dnn_call_run(device, card, call, card->stream, (float *)memory, (float *)(memory + offset[0]),
                             (float *)(memory + offset[1]), memory + offset[2], &own);
    if (!status) status = fm_card_settle(device, card, &own);
    if (status && !device->lost) {
        snprintf(why, why_size, "%s", own.text);
        return 1;
    }
    if (status && err && !err->code) *err = own;
    return status;
}

int fm_dnn_call_try(struct fm_device *device, struct fm_card *card, const struct fm_dnn_call *call, int64_t x,
                    int64_t w, int64_t y, char *why, size_t why_size, struct fm_error *err)
{
    const int64_t offset[3] = {padded(x), padded(x) + padded(w), padded(x) + padded(w) + padded(y)};
    const int64_t bytes = offset[2] + (int64_t)call->workspace + FM_CUDA_ALIGN;
    void *memory = NULL;
    int status = fm_card_use(device, card, err);
    if (status) return status;
    /* Without room there is no trial; the lane would find none either. */
    if (cudaMalloc(&memory, (size_t)bytes) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    status = try_in(device, card, call, memory, bytes, offset, why, why_size, err);
    if (!device->dead) cudaFree(memory);
    return status;
}
