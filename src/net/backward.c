/* The backward section: walks the forward operations from the loss back and writes each one's gradients.
 *
 * A layer's weight gradient stands before its input gradient. Below the first operation with parameters
 * nothing is written. What a gradient needs from forward beside inputs and outputs (a pool's winner, a stored
 * derivative, mean and deviation of a layer normalisation) is added to the forward operation here, where it
 * is known to be needed. */
#include "base/memory.h"
#include "net/activation.h"
#include "net/builder.h"

/* A new tensor for the gradient of `tensor`. */
static int new_gradient(struct fm_builder *b, int tensor, int *gradient, struct fm_error *err)
{
    const struct fm_tensor t = b->program->tensors[tensor];
    int rc = fm_builder_tensor(b, FM_TENSOR_ACTIVATION, FM_F32, t.rows, t.channels, gradient, err);
    if (rc) return rc;
    b->program->tensors[*gradient].gradient_of = tensor;
    b->map[tensor] = *gradient;
    return 0;
}

/* An operation with the shapes of the forward operation f. */
static int add(struct fm_builder *b, const struct fm_op *f, enum fm_opcode code, struct fm_op **op,
               struct fm_error *err)
{
    int rc = fm_builder_op(b, code, op, err);
    if (rc) return rc;
    struct fm_op *o = *op, empty = *o;
    *o = *f;
    o->code = code;
    o->section = empty.section;
    o->stage = empty.stage;
    o->derivative = FM_FROM_NONE;
    for (int i = 0; i < FM_OP_INPUTS; i++) o->in[i] = -1;
    for (int i = 0; i < FM_OP_OUTPUTS; i++) o->out[i] = -1;
    return 0;
}

static int gradient_of_parameter(const struct fm_program *p, int tensor)
{
    return tensor < 0 ? -1 : p->variables[p->tensors[tensor].variable].gradient;
}

/* conv1d and dense: in x, dy -> dkernel, dbias; then in dy, kernel -> dx. */
static int product_gradients(struct fm_builder *b, const struct fm_op *f, int dy, bool need_dx,
                             struct fm_error *err)
{
    bool conv = f->code == FM_OP_CONV1D;
    struct fm_op *op;
    int dx, rc = add(b, f, conv ? FM_OP_CONV1D_WEIGHT_GRAD : FM_OP_DENSE_WEIGHT_GRAD, &op, err);
    if (rc) return rc;
    op->in[0] = f->in[0];
    op->in[1] = dy;
    op->out[0] = gradient_of_parameter(b->program, f->in[1]);
    op->out[1] = gradient_of_parameter(b->program, f->in[2]);
    if (!need_dx) return 0;
    rc = new_gradient(b, f->in[0], &dx, err);
    if (!rc) rc = add(b, f, conv ? FM_OP_CONV1D_INPUT_GRAD : FM_OP_DENSE_INPUT_GRAD, &op, err);
    if (rc) return rc;
    op->in[0] = dy;
    op->in[1] = f->in[1];
    op->out[0] = dx;
    return 0;
}

static int pool_gradient(struct fm_builder *b, int at, const struct fm_op *f, int dy, struct fm_error *err)
{
    struct fm_op *op;
    int dx, winner = -1, rc = 0;
    if (!f->pool.average)
        rc = fm_builder_tensor(b, FM_TENSOR_ACTIVATION, f->pool.size <= 256 ? FM_U8 : FM_I32, f->out_rows,
                               f->out_channels, &winner, err);
    if (!rc) rc = new_gradient(b, f->in[0], &dx, err);
    if (!rc) rc = add(b, f, FM_OP_POOL_GRAD, &op, err);
    if (rc) return rc;
    b->program->ops[at].out[1] = winner;
    op->in[0] = dy;
    op->in[1] = winner;
    op->out[0] = dx;
    return 0;
}

static int activation_gradient(struct fm_builder *b, int at, const struct fm_op *f, int dy,
                               struct fm_error *err)
{
    enum fm_derivative from = fm_activation_derivative(f->activation.kind);
    struct fm_op *op;
    int dx, source = from == FM_FROM_OUTPUT ? f->out[0] : f->in[0], rc = 0;
    if (from == FM_FROM_STORED) {
        const struct fm_tensor out = b->program->tensors[f->out[0]];
        rc = fm_builder_tensor(b, FM_TENSOR_ACTIVATION, FM_F32, out.rows, out.channels, &source, err);
        if (rc) return rc;
        b->program->ops[at].out[1] = source;
    }
    b->program->ops[at].derivative = from;
    rc = new_gradient(b, f->in[0], &dx, err);
    if (!rc) rc = add(b, f, FM_OP_ACTIVATION_GRAD, &op, err);
    if (rc) return rc;
    op->derivative = from;
    op->in[0] = dy;
    op->in[1] = source;
    op->out[0] = dx;
    return 0;
}

static int norm_gradient(struct fm_builder *b, int at, const struct fm_op *f, int dy, bool need_dx,
                         struct fm_error *err)
{
    struct fm_program *p = b->program;
    bool batch = f->code == FM_OP_BATCH_NORM;
    int dx = -1, mean = f->out[1], spread = f->out[2], rc = 0;
    struct fm_op *op;
    if (!need_dx && f->in[1] < 0 && f->in[2] < 0) return 0;
    if (!batch) {
        rc = fm_builder_tensor(b, FM_TENSOR_ACTIVATION, FM_F32, f->in_rows, 1, &mean, err);
        if (!rc) rc = fm_builder_tensor(b, FM_TENSOR_ACTIVATION, FM_F32, f->in_rows, 1, &spread, err);
        if (rc) return rc;
        p->ops[at].out[1] = mean;
        p->ops[at].out[2] = spread;
    } else {
        /* Its sums over dy need every example of the batch. */
        b->stage++;
    }
    if (need_dx) rc = new_gradient(b, f->in[0], &dx, err);
    if (!rc) rc = add(b, f, batch ? FM_OP_BATCH_NORM_GRAD : FM_OP_LAYER_NORM_GRAD, &op, err);
    if (rc) return rc;
    op->in[0] = f->in[0];
    op->in[1] = dy;
    op->in[2] = f->in[1];
    op->in[3] = mean;
    op->in[4] = spread;
    op->out[0] = dx;
    op->out[1] = gradient_of_parameter(p, f->in[1]);
    op->out[2] = gradient_of_parameter(p, f->in[2]);
    return 0;
}

static int simple_gradient(struct fm_builder *b, const struct fm_op *f, enum fm_opcode code, int dy,
                           struct fm_error *err)
{
    struct fm_op *op;
    int dx, rc = new_gradient(b, f->in[0], &dx, err);
    if (!rc) rc = add(b, f, code, &op, err);
    if (rc) return rc;
    op->in[0] = dy;
    op->out[0] = dx;
    return 0;
}

/* The gradients of forward operation `at`; need_dx: something before it has parameters. */
static int operation_gradients(struct fm_builder *b, int at, bool need_dx, struct fm_error *err)
{
    const struct fm_op f = b->program->ops[at];
    struct fm_op *op;
    int dy = f.out[0] < 0 ? -1 : b->map[f.out[0]], dz, rc;
    b->layer = f.layer;
    switch (f.code) {
    case FM_OP_LOSS:
        rc = new_gradient(b, f.in[0], &dz, err);
        if (!rc) rc = add(b, &f, FM_OP_LOSS_GRAD, &op, err);
        if (rc) return rc;
        op->in[0] = f.in[0];
        op->out[0] = dz;
        return 0;
    case FM_OP_CONV1D:
    case FM_OP_DENSE: return product_gradients(b, &f, dy, need_dx, err);
    case FM_OP_BATCH_NORM:
    case FM_OP_LAYER_NORM: return norm_gradient(b, at, &f, dy, need_dx, err);
    case FM_OP_POOL: return need_dx ? pool_gradient(b, at, &f, dy, err) : 0;
    case FM_OP_ACTIVATION: return need_dx ? activation_gradient(b, at, &f, dy, err) : 0;
    case FM_OP_DROPOUT: return need_dx ? simple_gradient(b, &f, FM_OP_DROPOUT_GRAD, dy, err) : 0;
    default: return 0;
    }
}

/* The first operation that reads a trainable variable. */
static int first_trained(const struct fm_program *p, int nforward)
{
    for (int i = 0; i < nforward; i++)
        for (int k = 0; k < FM_OP_INPUTS; k++)
            if (p->ops[i].in[k] >= 0 && p->tensors[p->ops[i].in[k]].kind == FM_TENSOR_PARAMETER) return i;
    return nforward;
}

int fm_builder_backward(struct fm_builder *b, struct fm_error *err)
{
    struct fm_program *p = b->program;
    int forward = p->nops, first = first_trained(p, forward), rc = 0;
    b->section = FM_SECTION_BACKWARD;
    b->map = fm_malloc((size_t)p->ntensors, sizeof *b->map);
    if (!b->map) return fm_fail_memory(err);
    for (int i = 0; i < p->ntensors; i++) b->map[i] = -1;
    for (int i = forward - 1; !rc && i >= first; i--) rc = operation_gradients(b, i, i > first, err);
    fm_free(b->map);
    b->map = NULL;
    return rc;
}
