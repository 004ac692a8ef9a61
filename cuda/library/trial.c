/* One call of a library as it will be made later, before a plan relies on it. What cuDNN's getters say of an
 * algorithm is not always what the call says then: an error in the middle of a run would cost the device,
 * here it only means an own kernel. Nor is a call that succeeds always one that is right: strides between
 * examples, groups and dilation are where versions differ, and wrong numbers would be trained on without a
 * word. So the call gets numbers, Foldmill's own kernel gets the same ones, and the results are compared on
 * the card. Nothing is timed.
 *
 * Plans are also made while lanes compute, so a trial's memory is a piece of the arena once there is one:
 * device memory is asked for and freed, which waits for every lane, only where the arena has no such piece.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "library/private.h"

/* In a trial's memory, all zero at first: an idle lane, and kernels are launched for an idle one. */
struct record {
    struct fm_cuda_lane lane;
    unsigned largest; /* bits of the largest difference */
};

/* An operand as both products see it. */
struct side {
    struct fm_cuda_tensor at;
    int examples, count;
};

enum { X, W, Y, OWN, PARTS };

struct trial {
    struct fm_device *device;
    struct fm_card *card;
    char *memory;
    int64_t bytes, workspace, record; /* the last two: offsets */
    float *part[PARTS];
    int out; /* which of the operands is written */
    bool of_arena;
};

/* The most by which two sums of `terms` products of numbers in [-1, 1) may differ, both in fp32 and in any
 * order. Such a sum is of the order sqrt(terms) / 3. Rounding leaves less than 1e-7 * terms even in the worst
 * orders that are in use, a transformation (Winograd, FFT) some 1e-5 of the sum. With operands rounded to
 * TF32 a sum is off by 1.3e-4 * sqrt(terms) (standard deviation), and the largest of many by three times
 * that; elements at wrong places differ by the order of the sum itself. */
static double most_of(int64_t terms)
{
    return 1e-4 * sqrt((double)terms) + 1e-7 * (double)terms;
}

/* 0; 1: there is no room, and no lane takes it; negative. */
static int take(struct trial *t, struct fm_error *err)
{
    if (t->card->arena.base) t->memory = fm_arena_take(&t->card->arena, t->bytes);
    t->of_arena = t->memory;
    if (t->memory) return 0;
    if (FM_CUDA_NOTED(t->device, cudaMalloc((void **)&t->memory, (size_t)t->bytes))) return 0;
    t->memory = NULL;
    if (t->device->lost) return fm_cuda_alive(t->device, err);
    /* The plan must not depend on what runs beside it. */
    if (t->card->lanes > 0) {
        char need[FM_BYTES_TEXT];
        return fm_fail(err, FM_ENOMEM,
                       "to try a library's call takes %s of the card's memory, which lanes have taken: use "
                       "fewer lanes (--lanes), a smaller batch_size or --kernels own",
                       fm_show_bytes(t->bytes, need));
    }
    return 1;
}

/* Gives `status`, or the reason why CUDA cannot go on. */
static int give(struct trial *t, int status, struct fm_error *err)
{
    if (t->of_arena)
        fm_arena_give(&t->card->arena, t->memory);
    else if (t->memory)
        FM_CUDA_NOTED(t->device, cudaFree(t->memory));
    return status < 0 ? status : fm_cuda_alive(t->device, err) ? FM_EDEVICE : status;
}

/* 0: cleared and ready; 1: no room; negative. */
static int begin(struct trial *t, const struct fm_trial_operand operands[3], int64_t workspace,
                 struct fm_error *err)
{
    int64_t offset[PARTS];
    for (int i = 0; i < PARTS; i++) {
        const struct fm_trial_operand *operand = &operands[i == OWN ? t->out : i];
        offset[i] = t->bytes + operand->shift % (FM_CUDA_ALIGN / 4) * 4;
        t->bytes = fm_cuda_round_up(offset[i] + operand->floats * 4, FM_CUDA_ALIGN);
    }
    t->workspace = t->bytes;
    t->record = t->workspace + fm_cuda_round_up(workspace, FM_CUDA_ALIGN);
    t->bytes = t->record + (int64_t)sizeof(struct record);
    int status = fm_card_use(t->device, t->card, err);
    if (!status) status = take(t, err);
    if (status) return status;
    for (int i = 0; i < PARTS; i++) t->part[i] = (float *)(t->memory + offset[i]);
    return fm_cuda_check(t->device, cudaMemsetAsync(t->memory, 0, (size_t)t->bytes, t->card->stream), err,
                         "clear memory for a trial");
}

static struct fm_cuda_place place_of(const struct trial *t, int examples)
{
    struct record *record = (struct record *)(t->memory + t->record);
    return (struct fm_cuda_place){t->card->stream, &record->lane, FM_CUDA_IDLE, examples};
}

/* Numbers for the operands that are read. */
static int fill(const struct trial *t, const struct side sides[3], struct fm_error *err)
{
    int status = 0;
    for (int i = 0; !status && i < 3; i++) {
        if (i == t->out) continue;
        status = fm_cuda_check(
            t->device,
            fm_cuda_trial_fill(place_of(t, sides[i].examples), sides[i].count, sides[i].at, (unsigned)i), err,
            "fill memory for a trial");
    }
    return status;
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
    /* Another program may have the memory: that says nothing about the call. */
    if (status && status != FM_ENOMEM && !t->device->lost) {
        snprintf(why, why_size, "%s", own->text);
        return 1;
    }
    if (status && err && !err->code) *err = *own;
    return status;
}

/* How far the library's result is from that of an own kernel which was just launched with `launched`. As
 * judge. */
static int compare(struct trial *t, cudaError_t launched, const struct side *library, int64_t terms,
                   char *why, size_t why_size, struct fm_error *err)
{
    const struct fm_cuda_tensor own = {t->part[OWN] + (library->at.at - t->part[t->out]),
                                       library->at.example};
    unsigned *largest = &((struct record *)(t->memory + t->record))->largest, bits;
    float apart;
    int status = fm_cuda_check(t->device, launched, err, "compute what a library's call should");
    if (!status)
        status = fm_cuda_check(
            t->device,
            fm_cuda_trial_compare(place_of(t, library->examples), library->count, library->at, own, largest),
            err, "compare the numbers of a library's call");
    if (!status) status = fm_card_to_host(t->device, t->card, &bits, largest, sizeof bits, err);
    if (status) return status;
    memcpy(&apart, &bits, sizeof apart);
    if (apart <= most_of(terms)) return 0;
    snprintf(why, why_size,
             "its numbers differ from Foldmill's own by %.3g where %.3g is the most that rounding explains",
             (double)apart, most_of(terms));
    return 1;
}

/* ---- cuDNN ---- */

static cudaError_t own_convolution(const struct trial *t, const struct fm_dnn_call *call)
{
    const struct fm_cuda_conv *conv = &call->conv;
    const struct fm_cuda_place place = place_of(t, call->rows);
    const struct fm_cuda_activation none = {0};
    const int shift = conv->pad * conv->in_channels;
    struct fm_cuda_weights w = fm_dnn_weights(conv);
    struct fm_cuda_tensor x = {t->part[X] + shift, call->x_example}, y = {t->part[Y], call->y_example};
    w.at = t->part[W];
    switch (call->direction) {
    case FM_DNN_FORWARD: y.at = t->part[OWN]; return fm_cuda_forward(place, *conv, x, w, NULL, none, y);
    case FM_DNN_INPUT_GRAD:
        x.at = t->part[OWN] + shift;
        return fm_cuda_input_grad(place, *conv, y, w, none, 0, x);
    default: return fm_cuda_weight_grad(place, *conv, x, y, w, t->part[OWN], NULL, 1, 0);
    }
}

static int64_t terms_of(const struct fm_dnn_call *call)
{
    const struct fm_cuda_conv *conv = &call->conv;
    switch (call->direction) {
    case FM_DNN_FORWARD: return (int64_t)conv->taps * conv->in_channels / conv->groups;
    case FM_DNN_INPUT_GRAD: return (int64_t)conv->taps * conv->out_channels / conv->groups;
    default: return (int64_t)call->rows * conv->out_rows;
    }
}

int fm_dnn_call_try(struct fm_device *device, struct fm_card *card, const struct fm_dnn_call *call,
                    const struct fm_trial_operand operands[3], char *why, size_t why_size,
                    struct fm_error *err)
{
    static const int outs[] = {[FM_DNN_FORWARD] = Y, [FM_DNN_INPUT_GRAD] = X, [FM_DNN_WEIGHT_GRAD] = W};
    const struct fm_cuda_conv *conv = &call->conv;
    struct trial t = {.device = device, .card = card, .out = outs[call->direction]};
    struct fm_error own = {0};
    int status = begin(&t, operands, (int64_t)call->workspace, err);
    if (status > 0) return 0;
    const int weights = conv->out_channels * conv->taps * (conv->in_channels / conv->groups);
    const struct side sides[3] = {
        {{t.part[X] + (t.memory ? conv->pad * conv->in_channels : 0), call->x_example},
         call->rows,
         conv->in_rows * conv->in_channels},
        {{t.part[W], weights}, 1, weights},
        {{t.part[Y], call->y_example}, call->rows, conv->out_rows * conv->out_channels}};
    if (!status) status = fill(&t, sides, err);
    if (!status) {
        status = fm_dnn_call_run(device, card, call, card->stream, t.part[X], t.part[W], t.part[Y],
                                 t.memory + t.workspace, &own);
        status = judge(&t, status, &own, why, why_size, err);
    }
    if (!status)
        status = compare(&t, own_convolution(&t, call), &sides[t.out], terms_of(call), why, why_size, err);
    return give(&t, status, err);
}

/* ---- cuBLAS ---- */

/* c = op(a) op(b) as a dense layer: forward, the gradient of its input, or of its weights. */
static cudaError_t own_product(const struct trial *t, const struct fm_blas_shape *shape)
{
    const struct fm_cuda_tensor a = {t->part[X], shape->lda}, b = {t->part[W], shape->ldb},
                                c = {t->part[OWN], shape->ldc};
    const struct fm_cuda_activation none = {0};
    struct fm_cuda_conv conv = {.in_rows = 1, .out_rows = 1, .taps = 1, .stride = 1, .dilation = 1};
    struct fm_cuda_weights w = {b.at, 0, b.example, 1};
    conv.groups = 1;
    if (shape->transpose_a) {
        w = (struct fm_cuda_weights){NULL, 0, c.example, 1};
        conv.in_channels = shape->m;
        conv.out_channels = shape->n;
        return fm_cuda_weight_grad(place_of(t, shape->k), conv, a, b, w, c.at, NULL, 1, 0);
    }
    conv.in_channels = shape->transpose_b ? shape->n : shape->k;
    conv.out_channels = shape->transpose_b ? shape->k : shape->n;
    if (shape->transpose_b) return fm_cuda_input_grad(place_of(t, shape->m), conv, a, w, none, 0, c);
    return fm_cuda_forward(place_of(t, shape->m), conv, a, w, NULL, none, c);
}

int fm_blas_product_try(struct fm_device *device, struct fm_card *card, const struct fm_blas_shape *shape,
                        const int64_t shift[3], char *why, size_t why_size, struct fm_error *err)
{
    const int a_rows = shape->transpose_a ? shape->k : shape->m,
              b_rows = shape->transpose_b ? shape->n : shape->k;
    const struct fm_trial_operand operands[3] = {{(int64_t)shape->lda * a_rows, shift[0]},
                                                 {(int64_t)shape->ldb * b_rows, shift[1]},
                                                 {(int64_t)shape->ldc * shape->m, shift[2]}};
    struct trial t = {.device = device, .card = card, .out = Y};
    struct fm_error own = {0};
    if (shape->transpose_a && shape->transpose_b) {
        snprintf(why, why_size, "no own kernel multiplies two transposed matrices");
        return 1;
    }
    int status = begin(&t, operands, FM_BLAS_WORKSPACE, err);
    if (status > 0) return 0;
    const struct side sides[3] = {{{t.part[X], shape->lda}, a_rows, shape->transpose_a ? shape->m : shape->k},
                                  {{t.part[W], shape->ldb}, b_rows, shape->transpose_b ? shape->k : shape->n},
                                  {{t.part[Y], shape->ldc}, shape->m, shape->n}};
    if (!status) status = fill(&t, sides, err);
    if (!status) {
        status = fm_blas_product(device, card, card->stream, shape, t.part[X], t.part[W], t.part[Y],
                                 t.memory + t.workspace, &own);
        status = judge(&t, status, &own, why, why_size, err);
    }
    if (!status) status = compare(&t, own_product(&t, shape), &sides[Y], shape->k, why, why_size, err);
    return give(&t, status, err);
}
