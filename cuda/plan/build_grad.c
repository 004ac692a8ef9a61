/* Program -> calls: gradients. */
#include "plan/calls.h"

#include "net/print.h"

static const struct fm_op *op_at(const struct fm_cuda_builder *b, int op)
{
    return &b->program->ops[op];
}

/* The activation gradient behind an input or pool gradient, taken into the same kernel: where its derivative
 * comes from is a tensor, or the pool's output when the activation's was never made. */
static void take_activation(const struct fm_cuda_builder *b, struct fm_cuda_call *call,
                            const struct fm_op *grad)
{
    if (!grad) return;
    const int source = grad->in[1], instead = source >= 0 ? b->stands_for[source] : -1;
    fm_cuda_call_activates(call, grad, instead >= 0 ? instead : source);
    call->activation.is_stored = grad->derivative == FM_FROM_STORED;
    call->activation.is_pooled = instead >= 0;
    call->out[0] = grad->out[0];
}

static int activation_grad(struct fm_cuda_builder *b, int op, int dy)
{
    const struct fm_op *o = op_at(b, op);
    const bool softmax = o->activation.kind == FM_ACT_SOFTMAX;
    if (o->in[1] >= 0 && b->stands_for[o->in[1]] >= 0)
        return fm_fail(b->err, FM_EINTERNAL, "an activation's gradient needs what was fused away");
    struct fm_cuda_call *call =
        fm_cuda_call_new(b, softmax ? FM_CALL_SOFTMAX_GRAD : FM_CALL_ACTIVATE_GRAD, op);
    if (!call) return FM_ENOMEM;
    call->length = (int)o->out_rows;
    call->channels = (int)o->out_channels;
    call->in[0] = dy;
    call->out[0] = o->out[0];
    if (softmax) {
        call->in[1] = o->in[1];
        return 0;
    }
    fm_cuda_call_activates(call, o, o->in[1]);
    call->activation.is_stored = o->derivative == FM_FROM_STORED;
    return 0;
}

static int input_grad(struct fm_cuda_builder *b, int op, int *next)
{
    const struct fm_op *o = op_at(b, op), *activation = NULL;
    int after = *next;
    if (!o->accumulate) activation = fm_cuda_followed_by(b->program, op, &after, FM_OP_ACTIVATION_GRAD);
    if (activation && activation->accumulate) activation = NULL;
    if (b->by_library[op] && !o->accumulate) {
        const int made = fm_cuda_library_call(b, op, FM_ROLE_INPUT_GRAD);
        if (made) return made < 0 ? made : 0; /* the activation gradient follows as a call of its own */
    }
    struct fm_cuda_call *call = fm_cuda_call_new(b, FM_CALL_INPUT_GRAD, op);
    if (!call) return FM_ENOMEM;
    call->conv = fm_cuda_conv_of(o);
    call->in[0] = o->in[0];
    call->kernel = fm_cuda_variable_of(b->program, o->in[1]);
    call->out[0] = o->out[0];
    take_activation(b, call, activation);
    if (activation) *next = after;
    return 0;
}

/* Room for partial sums of one product: kernel and bias of a split side by side, at multiples of 4 floats. */
static void place_partials(struct fm_cuda_builder *b, struct fm_cuda_call *call)
{
    const struct fm_variable *v = b->program->variables;
    int64_t stride = (v[call->kernel].count + 3) / 4 * 4;
    if (call->bias >= 0) stride += (v[call->bias].count + 3) / 4 * 4;
    call->partial = b->partials;
    call->stride = stride;
    if (call->splits > 1) b->partials += stride * call->splits;
}

static int bias_grad(struct fm_cuda_builder *b, int op)
{
    const struct fm_op *o = op_at(b, op);
    if (o->out[1] < 0) return 0;
    struct fm_cuda_call *call = fm_cuda_call_new(b, FM_CALL_BIAS_GRAD, op);
    if (!call) return FM_ENOMEM;
    call->in[0] = o->in[1];
    call->bias = fm_cuda_variable_of(b->program, o->out[1]);
    call->length = (int)o->out_rows;
    call->channels = (int)o->out_channels;
    return 0;
}

static int weight_grad(struct fm_cuda_builder *b, int op)
{
    const struct fm_op *o = op_at(b, op);
    const bool letters = fm_cuda_is_letters(o);
    if (b->by_library[op] && o->out[0] >= 0) {
        const int made = fm_cuda_library_call(b, op, FM_ROLE_WEIGHT_GRAD);
        if (made) return made < 0 ? made : bias_grad(b, op);
    }
    if (o->out[0] < 0) return bias_grad(b, op);
    struct fm_cuda_call *call = fm_cuda_call_new(b, letters ? FM_CALL_LETTERS_GRAD : FM_CALL_WEIGHT_GRAD, op);
    if (!call) return FM_ENOMEM;
    call->conv = fm_cuda_conv_of(o);
    call->in[0] = o->in[1]; /* dy */
    call->in[1] = o->in[0]; /* x */
    call->kernel = fm_cuda_variable_of(b->program, o->out[0]);
    call->bias = fm_cuda_variable_of(b->program, o->out[1]);
    call->splits = fm_cuda_weight_splits(&call->conv, call->rows, letters);
    if (call->splits < 1) call->splits = 1;
    place_partials(b, call);
    return 0;
}

static int pool_grad(struct fm_cuda_builder *b, int op, int *next)
{
    const struct fm_op *o = op_at(b, op), *activation = NULL;
    int after = *next;
    if (!o->accumulate) activation = fm_cuda_followed_by(b->program, op, &after, FM_OP_ACTIVATION_GRAD);
    if (activation && activation->accumulate) activation = NULL;
    struct fm_cuda_call *call = fm_cuda_call_new(b, FM_CALL_POOLING_GRAD, op);
    if (!call) return FM_ENOMEM;
    call->pool = fm_cuda_pool_of(o);
    call->in[0] = o->in[0];
    call->in[1] = o->in[1]; /* winner */
    call->wide = o->in[1] >= 0 && b->program->tensors[o->in[1]].type == FM_I32;
    call->out[0] = o->out[0];
    take_activation(b, call, activation);
    if (activation) *next = after;
    return 0;
}

static int norm_grad(struct fm_cuda_builder *b, int op, enum fm_cuda_call_kind kind)
{
    const struct fm_op *o = op_at(b, op);
    struct fm_cuda_call *call = fm_cuda_call_new(b, kind, op);
    if (!call) return FM_ENOMEM;
    call->length = (int)o->in_rows;
    call->channels = (int)o->in_channels;
    call->number = o->norm.epsilon;
    call->in[0] = o->in[1]; /* dy */
    call->in[1] = o->in[0]; /* x */
    call->in[2] = -1;
    call->kernel = fm_cuda_variable_of(b->program, o->in[2]); /* gamma, also where its gradient goes */
    call->bias = fm_cuda_variable_of(b->program, o->out[2]);
    call->out[0] = o->out[0];
    call->out[1] = o->in[3]; /* mean and variance or deviation: read, but places of the step like outputs */
    call->out[2] = o->in[4];
    call->scratch = 4 * (kind == FM_CALL_BATCH_NORM_GRAD
                             ? fm_cuda_batch_norm_scratch(call->rows, call->length, call->channels)
                             : fm_cuda_layer_norm_scratch(call->rows, call->length, call->channels));
    return 0;
}

static int dropout_grad(struct fm_cuda_builder *b, int op)
{
    const struct fm_op *o = op_at(b, op);
    struct fm_cuda_call *call = fm_cuda_call_new(b, FM_CALL_DROPOUT, op);
    if (!call) return FM_ENOMEM;
    call->length = (int)o->out_rows;
    call->channels = (int)o->out_channels;
    call->in[0] = o->in[0];
    call->out[0] = o->out[0];
    call->index = o->dropout.index;
    call->id = o->dropout.id;
    call->spatial = o->dropout.spatial;
    return 0;
}

int fm_cuda_build_gradient(struct fm_cuda_builder *b, int op, int *next)
{
    const struct fm_op *o = op_at(b, op);
    *next = op + 1;
    switch (o->code) {
    case FM_OP_LOSS_GRAD: return 0; /* the loss's call made it */
    case FM_OP_CONV1D_WEIGHT_GRAD:
    case FM_OP_DENSE_WEIGHT_GRAD: return weight_grad(b, op);
    case FM_OP_CONV1D_INPUT_GRAD:
    case FM_OP_DENSE_INPUT_GRAD: return input_grad(b, op, next);
    case FM_OP_POOL_GRAD: return pool_grad(b, op, next);
    case FM_OP_ACTIVATION_GRAD: return activation_grad(b, op, o->in[0]);
    case FM_OP_BATCH_NORM_GRAD: return norm_grad(b, op, FM_CALL_BATCH_NORM_GRAD);
    case FM_OP_LAYER_NORM_GRAD: return norm_grad(b, op, FM_CALL_LAYER_NORM_GRAD);
    case FM_OP_DROPOUT_GRAD: return dropout_grad(b, op);
    default: return fm_fail(b->err, FM_EINTERNAL, "%s in a backward section", fm_opcode_name(o->code));
    }
}
