/* One call of a library as it will be made later, before a plan relies on it. What cuDNN's getters say of an
 * algorithm is not always what the call says then: an error in the middle of a run would cost the device,
 * here it only means an own kernel. Nothing is timed.
 *
 * Plans are also made while lanes compute, so a trial's memory is a piece of the arena once there is one:
 * device memory is neither asked for nor freed then, which would wait for every lane. */
#include <stdio.h>

#include "library/private.h"

struct trial {
    struct fm_device *device;
    struct fm_card *card;
    char *memory;
    int64_t bytes, workspace; /* workspace: its offset */
    float *operand[3];
    bool of_arena;
};

/* False: there is no room. Without room there is no trial; the lane would find none either. */
static bool take(struct trial *t)
{
    if (t->card->arena.base) t->memory = fm_arena_take(&t->card->arena, t->bytes);
    t->of_arena = t->memory;
    if (t->memory) return true;
    if (FM_CUDA_NOTED(t->device, cudaMalloc((void **)&t->memory, (size_t)t->bytes))) return true;
    t->memory = NULL;
    return false;
}

static void give(struct trial *t)
{
    if (t->of_arena)
        fm_arena_give(&t->card->arena, t->memory);
    else if (t->memory)
        FM_CUDA_NOTED(t->device, cudaFree(t->memory));
}

/* 0: cleared and ready; 1: no room; negative. */
static int begin(struct trial *t, const struct fm_trial_operand operands[3], int64_t workspace,
                 struct fm_error *err)
{
    int64_t offset[3];
    for (int i = 0; i < 3; i++) {
        offset[i] = t->bytes + operands[i].shift % (FM_CUDA_ALIGN / 4) * 4;
        t->bytes = (offset[i] + operands[i].floats * 4 + FM_CUDA_ALIGN - 1) / FM_CUDA_ALIGN * FM_CUDA_ALIGN;
    }
    t->workspace = t->bytes;
    t->bytes += workspace + FM_CUDA_ALIGN;
    int status = fm_card_use(t->device, t->card, err);
    if (status) return status;
    if (!take(t)) return 1;
    for (int i = 0; i < 3; i++) t->operand[i] = (float *)(t->memory + offset[i]);
    return fm_cuda_check(t->device, cudaMemsetAsync(t->memory, 0, (size_t)t->bytes, t->card->stream), err,
                         "clear memory for a trial");
}

/* What a call that was made came to: 0, 1 with the reason, or negative. */
static int judge(struct trial *t, int status, const struct fm_error *own, char *why, size_t why_size,
                 struct fm_error *err)
{
    struct fm_error later = {0};
    if (!status) {
        status = fm_card_settle(t->device, t->card, &later);
        own = &later;
    }
    if (status && !t->device->lost) {
        snprintf(why, why_size, "%s", own->text);
        return 1;
    }
    if (status && err && !err->code) *err = *own;
    return status;
}

int fm_dnn_call_try(struct fm_device *device, struct fm_card *card, const struct fm_dnn_call *call,
                    const struct fm_trial_operand operands[3], char *why, size_t why_size,
                    struct fm_error *err)
{
    struct trial t = {.device = device, .card = card};
    struct fm_error own = {0};
    int status = begin(&t, operands, (int64_t)call->workspace, err);
    if (!status) {
        status = fm_dnn_call_run(device, card, call, card->stream, t.operand[0], t.operand[1], t.operand[2],
                                 t.memory + t.workspace, &own);
        status = judge(&t, status, &own, why, why_size, err);
    } else if (status > 0) {
        return 0;
    }
    give(&t);
    return status;
}

int fm_blas_product_try(struct fm_device *device, struct fm_card *card, const struct fm_blas_shape *shape,
                        const int64_t shift[3], char *why, size_t why_size, struct fm_error *err)
{
    const struct fm_trial_operand operands[3] = {
        {(int64_t)shape->lda * (shape->transpose_a ? shape->k : shape->m), shift[0]},
        {(int64_t)shape->ldb * (shape->transpose_b ? shape->n : shape->k), shift[1]},
        {(int64_t)shape->ldc * shape->m, shift[2]}};
    struct trial t = {.device = device, .card = card};
    struct fm_error own = {0};
    int status = begin(&t, operands, FM_BLAS_WORKSPACE, err);
    if (!status) {
        status = fm_blas_product(device, card, card->stream, shape, t.operand[0], t.operand[1], t.operand[2],
                                 t.memory + t.workspace, &own);
        status = judge(&t, status, &own, why, why_size, err);
    } else if (status > 0) {
        return 0;
    }
    give(&t);
    return status;
}
