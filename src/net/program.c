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

/* A multiplication and an addition for each weight and place where it is used. Letters add rows, without
 * products. */
static double op_flops(const struct fm_op *op)
{
    switch (op->code) {
    case FM_OP_CONV1D:
    case FM_OP_CONV1D_WEIGHT_GRAD:
    case FM_OP_CONV1D_INPUT_GRAD: {
        double inputs = op->conv.letters ? 0.5 : (double)op->in_channels / (double)op->conv.groups;
        return 2 * (double)op->out_rows * (double)op->conv.taps * inputs * (double)op->out_channels;
    }
    case FM_OP_DENSE:
    case FM_OP_DENSE_WEIGHT_GRAD:
    case FM_OP_DENSE_INPUT_GRAD: {
        double inputs = op->dense.letters ? 0.5 * (double)op->in_channels / (double)op->dense.alphabet
                                          : (double)op->in_channels;
        return 2 * (double)op->in_rows * inputs * (double)op->out_channels;
    }
    default: return 0;
    }
}

double fm_program_flops(const struct fm_program *program, bool training)
{
    const int *first = program->section_first;
    int from = training ? first[FM_SECTION_FORWARD] : first[FM_SECTION_EVALUATE];
    int to = training ? first[FM_SECTION_UPDATE] : first[FM_SECTIONS];
    double flops = 0;
    for (int i = from; i < to; i++) flops += op_flops(&program->ops[i]);
    return flops;
}
