/* How much memory a lane takes: pure arithmetic, checked against overflow, known before a lane opens. */
#include <stdio.h>

#include "engine/reference/reference.h"

#include "base/memory.h"

static bool product(int64_t a, int64_t b, int64_t *out)
{
    return a >= 0 && b >= 0 && fm_multiply(a, b, out) && *out <= FM_HOST_MAX_BYTES;
}

/* How many examples a tensor is kept for: those of the evaluate section hold a chunk, the others a batch. */
static int64_t examples_of(const struct fm_program *program, const struct fm_tensor *t, int64_t batch)
{
    if (t->kind == FM_TENSOR_GRADIENT || t->kind == FM_TENSOR_BATCH) return 1;
    return t->first_op >= program->section_first[FM_SECTION_EVALUATE] ? FM_EVALUATE_CHUNK : batch;
}

int64_t fm_loops_tensor_bytes(const struct fm_program *program, int tensor, int64_t batch, size_t real)
{
    const struct fm_tensor *t = &program->tensors[tensor];
    if (t->kind == FM_TENSOR_PARAMETER || t->kind == FM_TENSOR_STATE) return 0;
    const int64_t size = t->type == FM_U8 ? 1 : t->type == FM_I32 ? 4 : (int64_t)real;
    int64_t bytes;
    if (!product(t->rows, t->channels, &bytes) || !product(bytes, size, &bytes)) return -1;
    return product(bytes, examples_of(program, t, batch), &bytes) ? bytes : -1;
}

static int slots_needed(const struct fm_program *p)
{
    switch (p->optimizer) {
    case FM_OPTIMIZER_SGD: return p->momentum;
    case FM_OPTIMIZER_RMSPROP: return 1 + p->centered + p->momentum;
    default: return 2 + p->amsgrad;
    }
}

static bool runnable(const struct fm_program *p, char *why, size_t why_size)
{
    const bool entropy = p->loss.kind == FM_LOSS_CATEGORICAL_CROSSENTROPY ||
                         p->loss.kind == FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY ||
                         p->loss.kind == FM_LOSS_BINARY_CROSSENTROPY;
    if (entropy && !p->loss.logits)
        snprintf(why, why_size, "cross-entropy is computed from logits only");
    else if (p->slots < slots_needed(p))
        snprintf(why, why_size, "the program has %d optimizer slots, the optimizer needs %d", p->slots,
                 slots_needed(p));
    else
        return true;
    return false;
}

bool fm_loops_scratch_bytes(const struct fm_program *p, size_t real, int64_t *out)
{
    *out = 64;
    for (int i = 0; i < p->nops; i++) {
        const struct fm_op *op = &p->ops[i];
        int64_t need = 0;
        if (op->code == FM_OP_CONV1D_INPUT_GRAD || op->code == FM_OP_DENSE_INPUT_GRAD) {
            const struct fm_tensor *kernel = &p->tensors[op->in[1]];
            if (!product(kernel->rows, kernel->channels, &need) || !product(need, (int64_t)real, &need))
                return false;
        } else if (op->code == FM_OP_BATCH_NORM || op->code == FM_OP_BATCH_NORM_GRAD) {
            if (!product(op->in_channels, 3 * (int64_t)sizeof(double), &need)) return false;
        } else if (op->code == FM_OP_POOL) {
            if (!product(op->in_channels, (int64_t)sizeof(int32_t), &need)) return false;
        }
        if (need > *out) *out = need;
    }
    return true;
}

int64_t fm_loops_portable_bytes(const struct fm_program *p, size_t real)
{
    return real == sizeof(float) ? 0 : (p->float_count * (int64_t)sizeof(float) + 7) / 8 * 8;
}

int64_t fm_loops_keep_bytes(const struct fm_program *p)
{
    int64_t most = 1;
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].code == FM_OP_DROPOUT && p->ops[i].in_rows * p->ops[i].in_channels > most)
            most = p->ops[i].in_rows * p->ops[i].in_channels;
    return most;
}

bool fm_loops_measure(struct fm_host_layout *layout, const struct fm_program *program, int64_t batch,
                      size_t real, char *why, size_t why_size)
{
    if (!runnable(program, why, why_size)) return false;
    layout->chunk = FM_EVALUATE_CHUNK;
    layout->capacity = batch > FM_EVALUATE_CHUNK ? batch : FM_EVALUATE_CHUNK;
    int64_t reals, scratch, tensors = 0;
    bool fits = product(program->float_count, (1 + program->slots) * (int64_t)real, &reals) &&
                fm_loops_scratch_bytes(program, real, &scratch);
    for (int t = 0; fits && t < program->ntensors; t++) {
        const int64_t bytes = fm_loops_tensor_bytes(program, t, batch, real);
        fits = bytes >= 0 && tensors <= FM_HOST_MAX_BYTES;
        tensors += bytes;
    }
    if (!fits || tensors > FM_HOST_MAX_BYTES) {
        snprintf(why, why_size, "the network at batch size %lld is larger than any memory", (long long)batch);
        return false;
    }
    layout->tail = (reals + 7) / 8 * 8;
    layout->state = layout->tail + (int64_t)sizeof(struct fm_state_tail);
    layout->blob = layout->state + fm_loops_portable_bytes(program, real);
    layout->total = tensors + scratch + fm_loops_keep_bytes(program) + (int64_t)sizeof(struct fm_loops) +
                    program->ntensors * (int64_t)sizeof(void *);
    return true;
}
