/* The hash of everything that is computed: tensors, operations, variables and their initial values, loss,
 * optimizer. Not of names, paths, lines, rates, nor of which layer an operation belongs to. Fields are added
 * one by one: padding and unused members of unions never count. */
#include "base/random.h"
#include "net/builder.h"

static void add(struct fm_hash *h, int64_t value)
{
    fm_hash_add(h, &value, sizeof value);
}

static void add_number(struct fm_hash *h, double value)
{
    if (value == 0) value = 0; /* -0 computes the same */
    fm_hash_add(h, &value, sizeof value);
}

static void add_tensor(struct fm_hash *h, const struct fm_tensor *t)
{
    add(h, t->kind);
    add(h, t->type);
    add(h, t->rows);
    add(h, t->channels);
    add(h, t->gradient_of);
    add(h, t->variable);
}

static void add_details(struct fm_hash *h, const struct fm_op *op)
{
    switch (op->code) {
    case FM_OP_CONV1D:
    case FM_OP_CONV1D_WEIGHT_GRAD:
    case FM_OP_CONV1D_INPUT_GRAD:
        add(h, op->conv.taps);
        add(h, op->conv.stride);
        add(h, op->conv.dilation);
        add(h, op->conv.groups);
        add(h, op->conv.pad_before);
        add(h, op->conv.pad_after);
        add(h, op->conv.letters);
        break;
    case FM_OP_DENSE:
    case FM_OP_DENSE_WEIGHT_GRAD:
    case FM_OP_DENSE_INPUT_GRAD:
        add(h, op->dense.letters);
        add(h, op->dense.alphabet);
        break;
    case FM_OP_POOL:
    case FM_OP_POOL_GRAD:
        add(h, op->pool.average);
        add(h, op->pool.size);
        add(h, op->pool.stride);
        add(h, op->pool.pad_before);
        add(h, op->pool.pad_after);
        break;
    case FM_OP_ACTIVATION:
    case FM_OP_ACTIVATION_GRAD:
        add(h, op->activation.kind);
        add_number(h, op->activation.slope);
        break;
    case FM_OP_BATCH_NORM:
    case FM_OP_BATCH_NORM_GRAD:
    case FM_OP_BATCH_NORM_MOVING:
    case FM_OP_BATCH_NORM_INFER:
    case FM_OP_LAYER_NORM:
    case FM_OP_LAYER_NORM_GRAD:
        add_number(h, op->norm.epsilon);
        add_number(h, op->norm.momentum);
        break;
    case FM_OP_DROPOUT:
    case FM_OP_DROPOUT_GRAD:
        add(h, op->dropout.index);
        add(h, op->dropout.id);
        add(h, op->dropout.spatial);
        break;
    case FM_OP_ONEHOT: add(h, op->onehot.alphabet); break;
    case FM_OP_REGULARIZE:
        add_number(h, op->regularize.l1);
        add_number(h, op->regularize.l2);
        break;
    case FM_OP_GATHER:
    case FM_OP_LOSS:
    case FM_OP_LOSS_GRAD:
    case FM_OP_SCORES:
    case FM_OP_NORM:
    case FM_OP_CLIP:
    case FM_OP_OPTIMIZER: break;
    }
}

static void add_op(struct fm_hash *h, const struct fm_op *op)
{
    add(h, op->code);
    add(h, op->section);
    add(h, op->stage);
    for (int i = 0; i < FM_OP_INPUTS; i++) add(h, op->in[i]);
    for (int i = 0; i < FM_OP_OUTPUTS; i++) add(h, op->out[i]);
    add(h, op->accumulate);
    add(h, op->derivative);
    add(h, op->in_rows);
    add(h, op->in_channels);
    add(h, op->out_rows);
    add(h, op->out_channels);
    add_details(h, op);
}

static void add_variable(struct fm_hash *h, const struct fm_variable *v)
{
    add(h, v->rank);
    for (int i = 0; i < v->rank; i++) add(h, v->shape[i]);
    add(h, v->trainable);
    add(h, v->decay);
    add(h, v->initializer);
    add_number(h, v->a);
    add_number(h, v->b);
}

uint64_t fm_program_hash(const struct fm_program *p)
{
    struct fm_hash h = {0};
    add(&h, p->input_rows);
    add(&h, p->input_channels);
    add(&h, p->letters);
    add(&h, p->ntensors);
    for (int i = 0; i < p->ntensors; i++) add_tensor(&h, &p->tensors[i]);
    add(&h, p->nops);
    for (int i = 0; i < p->nops; i++) add_op(&h, &p->ops[i]);
    add(&h, p->nvariables);
    for (int i = 0; i < p->nvariables; i++) add_variable(&h, &p->variables[i]);
    add(&h, p->loss.kind);
    add_number(&h, p->loss.label_smoothing);
    add_number(&h, p->loss.delta);
    add(&h, p->loss.logits);
    add(&h, p->loss.outputs);
    add(&h, p->score_width);
    add(&h, p->optimizer);
    add(&h, p->slots);
    add(&h, p->nesterov);
    add(&h, p->amsgrad);
    add(&h, p->centered);
    add(&h, p->momentum);
    return fm_hash_value(&h);
}
