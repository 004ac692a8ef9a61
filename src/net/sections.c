/* The update section (once a step) and the evaluate section (forward in inference mode, on tensors of its
 * own). */
#include <string.h>

#include "base/memory.h"
#include "net/builder.h"

static int regularize(struct fm_builder *b, struct fm_error *err)
{
    struct fm_program *p = b->program;
    struct fm_op *op;
    for (int i = 0; i < p->nvariables; i++) {
        const struct fm_variable *v = &p->variables[i];
        const struct fm_penalty *penalty = &b->penalties[i];
        if (!v->trainable || (penalty->l1 == 0 && penalty->l2 == 0)) continue;
        int rc = fm_builder_op(b, FM_OP_REGULARIZE, &op, err);
        if (rc) return rc;
        op->layer = penalty->layer;
        op->in[0] = v->tensor;
        op->out[0] = v->gradient;
        op->accumulate = true;
        op->in_rows = op->out_rows = p->tensors[v->tensor].rows;
        op->in_channels = op->out_channels = p->tensors[v->tensor].channels;
        op->regularize.l1 = penalty->l1;
        op->regularize.l2 = penalty->l2;
    }
    return 0;
}

static int moving_statistics(struct fm_builder *b, struct fm_error *err)
{
    struct fm_program *p = b->program;
    int last = p->section_first[FM_SECTION_BACKWARD], n = 0;
    for (int i = 0; i < last; i++) {
        struct fm_op f = p->ops[i], *op;
        if (f.code != FM_OP_BATCH_NORM) continue;
        int rc = fm_builder_op(b, FM_OP_BATCH_NORM_MOVING, &op, err);
        if (rc) return rc;
        op->layer = f.layer;
        op->in_rows = f.in_rows;
        op->out_rows = f.out_rows;
        op->in_channels = f.in_channels;
        op->out_channels = f.out_channels;
        op->norm = f.norm;
        op->in[0] = f.out[1];
        op->in[1] = f.out[2];
        op->out[0] = b->moving[n][0];
        op->out[1] = b->moving[n][1];
        n++;
    }
    return 0;
}

int fm_builder_update(struct fm_builder *b, struct fm_error *err)
{
    static const enum fm_opcode codes[] = {FM_OP_NORM, FM_OP_CLIP, FM_OP_OPTIMIZER};
    struct fm_op *op;
    b->section = FM_SECTION_UPDATE;
    b->stage++;
    b->layer = -1;
    int rc = regularize(b, err);
    for (int i = 0; !rc && i < 3; i++) rc = fm_builder_op(b, codes[i], &op, err);
    if (!rc) rc = moving_statistics(b, err);
    return rc;
}

/* A tensor like a forward tensor, for evaluate. */
static int twin(struct fm_builder *b, int tensor, int *copy, struct fm_error *err)
{
    const struct fm_tensor t = b->program->tensors[tensor];
    int rc = fm_builder_tensor(b, t.kind, t.type, t.rows, t.channels, copy, err);
    if (!rc) b->map[tensor] = *copy;
    return rc;
}

/* Forward operation `at` in inference mode; *moving counts the batch normalisations. */
static int infer(struct fm_builder *b, int at, int *moving, struct fm_error *err)
{
    struct fm_op f = b->program->ops[at], *op;
    int out;
    if (f.code == FM_OP_DROPOUT) {
        b->map[f.out[0]] = b->map[f.in[0]];
        return 0;
    }
    b->layer = f.layer;
    int rc = twin(b, f.out[0], &out, err);
    if (!rc) rc = fm_builder_op(b, f.code, &op, err);
    if (rc) return rc;
    f.section = FM_SECTION_EVALUATE;
    f.stage = 0;
    f.derivative = FM_FROM_NONE;
    *op = f;
    for (int i = 0; i < FM_OP_INPUTS; i++) op->in[i] = f.in[i] < 0 ? -1 : b->map[f.in[i]];
    for (int i = 0; i < FM_OP_OUTPUTS; i++) op->out[i] = -1;
    op->out[0] = out;
    if (f.code == FM_OP_BATCH_NORM) {
        op->code = FM_OP_BATCH_NORM_INFER;
        op->in[3] = b->moving[*moving][0];
        op->in[4] = b->moving[*moving][1];
        (*moving)++;
    }
    return 0;
}

static int scores(struct fm_builder *b, struct fm_error *err)
{
    struct fm_program *p = b->program;
    struct fm_op *op;
    int report, rc = fm_builder_tensor(b, FM_TENSOR_REPORT, FM_F32, 1, p->score_width, &report, err);
    if (!rc) rc = fm_builder_op(b, FM_OP_SCORES, &op, err);
    if (rc) return rc;
    op->in[0] = b->map[b->value];
    op->out[0] = report;
    op->in_rows = op->out_rows = 1;
    op->in_channels = p->loss.outputs;
    op->out_channels = p->score_width;
    return 0;
}

int fm_builder_evaluate(struct fm_builder *b, struct fm_error *err)
{
    struct fm_program *p = b->program;
    int forward = p->section_first[FM_SECTION_BACKWARD], moving = 0, rc = 0;
    b->section = FM_SECTION_EVALUATE;
    b->stage = 0;
    b->map = fm_malloc((size_t)p->ntensors, sizeof *b->map);
    if (!b->map) return fm_fail_memory(err);
    for (int i = 0; i < p->ntensors; i++) b->map[i] = i;
    for (int i = 0; !rc && i < forward; i++) rc = infer(b, i, &moving, err);
    if (!rc) rc = scores(b, err);
    fm_free(b->map);
    b->map = NULL;
    return rc;
}
