/* First and last use of every tensor, and whether its gradient may take its place. */
#include "net/builder.h"

static void use(struct fm_program *p, int tensor, int at)
{
    if (tensor < 0) return;
    struct fm_tensor *t = &p->tensors[tensor];
    if (t->first_op < 0) t->first_op = at;
    t->last_op = at;
}

/* Norm, clip and optimizer read every gradient without naming it. */
static int optimizer_op(const struct fm_program *p)
{
    int at = p->section_first[FM_SECTION_UPDATE];
    while (at < p->nops - 1 && p->ops[at].code != FM_OP_OPTIMIZER) at++;
    return at;
}

static void extend(struct fm_program *p)
{
    int optimizer = optimizer_op(p);
    for (int i = 0; i < p->ntensors; i++) {
        struct fm_tensor *t = &p->tensors[i];
        if (t->kind == FM_TENSOR_PARAMETER || t->kind == FM_TENSOR_STATE) {
            t->first_op = 0;
            t->last_op = p->nops - 1;
        } else if (t->kind == FM_TENSOR_GRADIENT) {
            t->last_op = optimizer;
        } else if (t->kind == FM_TENSOR_REPORT) {
            t->last_op = p->section_first[p->ops[t->last_op].section + 1] - 1;
        }
    }
}

/* A gradient's first_op is the operation that writes it; the tensor's last_op is the last that reads it, as
 * activations are written before anything reads them. */
static void overwrites(struct fm_program *p)
{
    for (int i = 0; i < p->ntensors; i++) {
        const struct fm_tensor *gradient = &p->tensors[i];
        if (gradient->gradient_of < 0) continue;
        struct fm_tensor *t = &p->tensors[gradient->gradient_of];
        if (t->kind == FM_TENSOR_ACTIVATION) t->overwrite = t->last_op < gradient->first_op;
    }
}

void fm_program_lifetimes(struct fm_program *program)
{
    for (int i = 0; i < program->ntensors; i++)
        program->tensors[i].first_op = program->tensors[i].last_op = -1;
    for (int i = 0; i < program->nops; i++) {
        for (int k = 0; k < FM_OP_INPUTS; k++) use(program, program->ops[i].in[k], i);
        for (int k = 0; k < FM_OP_OUTPUTS; k++) use(program, program->ops[i].out[k], i);
    }
    extend(program);
    overwrites(program);
}
