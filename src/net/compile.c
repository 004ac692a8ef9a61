/* From the model tree of a trial to its program. */
#include <inttypes.h>

#include "base/memory.h"
#include "net/builder.h"

static int start(struct fm_builder *b, struct fm_error *err)
{
    const struct fm_net_input *in = b->input;
    struct fm_program *p = b->program;
    struct fm_op *op;
    int64_t elements;
    if (in->rows < 1 || in->channels < 1)
        return fm_fail(err, FM_EINTERNAL,
                       "the network's input has %" PRId64 " positions and %" PRId64 " channels", in->rows,
                       in->channels);
    if (!fm_multiply(in->rows, in->channels, &elements) || elements > FM_NET_MAX_ELEMENTS)
        return fm_fail(err, FM_ESHAPE,
                       "windows of %" PRId64 " positions x %" PRId64
                       " channels are too large; at most 2^31 numbers fit an example",
                       in->rows, in->channels);
    p->input_rows = in->rows;
    p->input_channels = in->channels;
    p->letters = b->letters = in->letters;
    b->layer = -1;
    b->rank = 3;
    b->rows = in->rows;
    b->channels = in->channels;
    int64_t width = in->letters ? 1 : in->channels;
    int rc =
        fm_builder_tensor(b, FM_TENSOR_INPUT, in->letters ? FM_U8 : FM_F32, in->rows, width, &b->value, err);
    if (!rc) rc = fm_builder_op(b, FM_OP_GATHER, &op, err);
    if (rc) return rc;
    op->out[0] = b->value;
    op->in_rows = op->out_rows = in->rows;
    op->in_channels = op->out_channels = width;
    return 0;
}

static void optimizer(struct fm_program *p, const struct fm_train_config *train)
{
    bool adam = false;
    p->optimizer = train->optimizer.kind;
    switch (p->optimizer) {
    case FM_OPTIMIZER_SGD: p->momentum = train->optimizer.momentum > 0; break;
    case FM_OPTIMIZER_ADAM:
    case FM_OPTIMIZER_ADAMW:
        adam = true;
        p->amsgrad = train->optimizer.amsgrad;
        break;
    case FM_OPTIMIZER_RMSPROP:
        p->momentum = train->optimizer.momentum > 0;
        p->centered = train->optimizer.centered;
        break;
    }
    /* Without momentum Nesterov's step is the plain one. */
    p->nesterov = p->optimizer == FM_OPTIMIZER_SGD && p->momentum && train->optimizer.nesterov;
    p->slots = (adam ? 2 : 0) + (p->optimizer == FM_OPTIMIZER_RMSPROP ? 1 : 0) + p->amsgrad + p->momentum +
               p->centered;
}

static int build(struct fm_builder *b, const struct fm_node *model, struct fm_error *err)
{
    struct fm_program *p = b->program;
    int rc = start(b, err);
    if (!rc) rc = fm_builder_model(b, model, err);
    if (!rc) rc = fm_builder_head(b, err);
    p->section_first[FM_SECTION_BACKWARD] = p->nops;
    if (!rc) rc = fm_builder_backward(b, err);
    p->section_first[FM_SECTION_UPDATE] = p->nops;
    if (!rc) rc = fm_builder_update(b, err);
    p->stages = b->stage + 1;
    p->section_first[FM_SECTION_EVALUATE] = p->nops;
    if (!rc) rc = fm_builder_evaluate(b, err);
    p->section_first[FM_SECTIONS] = p->nops;
    if (rc) return rc;
    p->float_count = p->param_count;
    optimizer(p, b->train);
    fm_program_lifetimes(p);
    fm_program_fuse(p);
    p->hash = fm_program_hash(p);
    return 0;
}

int fm_program_compile(struct fm_program **program, const struct fm_node *model,
                       const struct fm_train_config *train, const struct fm_net_input *input,
                       struct fm_notes *notes, struct fm_error *err)
{
    struct fm_builder *b = fm_calloc(1, sizeof *b);
    *program = NULL;
    if (!b) return fm_fail_memory(err);
    b->program = fm_calloc(1, sizeof *b->program);
    b->train = train;
    b->input = input;
    b->notes = notes;
    int rc = b->program ? build(b, model, err) : fm_fail_memory(err);
    if (rc)
        fm_program_free(b->program);
    else
        *program = b->program;
    fm_free(b->penalties);
    fm_free(b->moving);
    fm_free(b);
    return rc;
}
