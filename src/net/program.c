#include "net/program.h"

#include "base/memory.h"

void fm_program_free(struct fm_program *program)
{
    if (!program) return;
    for (int i = 0; i < program->nvariables; i++) fm_free(program->variables[i].name);
    for (int i = 0; i < program->nlayers; i++) {
        fm_free(program->layers[i].path);
        fm_free(program->layers[i].type);
    }
    fm_free(program->tensors);
    fm_free(program->ops);
    fm_free(program->variables);
    fm_free(program->layers);
    fm_free(program->rates);
    fm_free(program);
}

/* Rows o of a convolution's output for which tap j reads a row of the input, and not one of padding: 0 <=
 * o * stride + at < in_rows, where at = j * dilation - pad_before. */
static double rows_of_tap(const struct fm_op *op, int64_t tap)
{
    const int64_t at = tap * op->conv.dilation - op->conv.pad_before, stride = op->conv.stride;
    const int64_t first = at < 0 ? (-at + stride - 1) / stride : 0;
    int64_t end = op->in_rows > at ? (op->in_rows - at + stride - 1) / stride : 0;
    if (end > op->out_rows) end = op->out_rows;
    return end > first ? (double)(end - first) : 0;
}

/* A multiplication and an addition for each weight and place where it is used. Letters add rows, without
 * products. */
static double products(const struct fm_op *op)
{
    switch (op->code) {
    case FM_OP_CONV1D:
    case FM_OP_CONV1D_WEIGHT_GRAD:
    case FM_OP_CONV1D_INPUT_GRAD: {
        const double inputs = op->conv.letters ? 0.5 : (double)op->in_channels / (double)op->conv.groups;
        double places = 0;
        for (int64_t j = 0; j < op->conv.taps; j++) places += rows_of_tap(op, j);
        return 2 * places * inputs * (double)op->out_channels;
    }
    case FM_OP_DENSE:
    case FM_OP_DENSE_WEIGHT_GRAD:
    case FM_OP_DENSE_INPUT_GRAD: {
        const double inputs = op->dense.letters ? 0.5 * (double)op->in_channels / (double)op->dense.alphabet
                                                : (double)op->in_channels;
        return 2 * (double)op->in_rows * inputs * (double)op->out_channels;
    }
    default: return 0;
    }
}

/* Which part of a gradient is not zero because max pooling behind it chose others: what is elementwise
 * between the two keeps zeros where they are. */
static double part_chosen(const struct fm_program *program, int gradient)
{
    double part = 1;
    for (int i = program->section_first[FM_SECTION_UPDATE] - 1; i >= 0; i--) {
        const struct fm_op *op = &program->ops[i];
        if (gradient < 0 || op->section != FM_SECTION_BACKWARD) return part;
        if (op->out[0] != gradient) continue;
        const bool pool = op->code == FM_OP_POOL_GRAD && !op->pool.average;
        const bool softmax = op->code == FM_OP_ACTIVATION_GRAD && op->activation.kind == FM_ACT_SOFTMAX;
        if (op->accumulate ||
            !(pool || op->code == FM_OP_DROPOUT_GRAD || (op->code == FM_OP_ACTIVATION_GRAD && !softmax)))
            return part;
        if (pool && op->out_rows < op->in_rows) part *= (double)op->out_rows / (double)op->in_rows;
        gradient = op->in[0];
    }
    return part;
}

double fm_op_flops(const struct fm_program *program, const struct fm_op *op)
{
    switch (op->code) {
    case FM_OP_CONV1D_WEIGHT_GRAD:
    case FM_OP_DENSE_WEIGHT_GRAD: return products(op) * part_chosen(program, op->in[1]);
    case FM_OP_CONV1D_INPUT_GRAD:
    case FM_OP_DENSE_INPUT_GRAD: return products(op) * part_chosen(program, op->in[0]);
    default: return products(op);
    }
}

double fm_program_flops(const struct fm_program *program, bool training)
{
    const int *first = program->section_first;
    int from = training ? first[FM_SECTION_FORWARD] : first[FM_SECTION_EVALUATE];
    int to = training ? first[FM_SECTION_UPDATE] : first[FM_SECTIONS];
    double flops = 0;
    for (int i = from; i < to; i++) flops += fm_op_flops(program, &program->ops[i]);
    return flops;
}
