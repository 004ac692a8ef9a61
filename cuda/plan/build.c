/* Program -> calls: forward, update and evaluation; gradients are in build_grad.c. Walks the operations in
 * their order and takes as many at once as one kernel can do. */
#include "plan/calls.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "net/print.h"

static const char *const kind_names[] = {
#define CALL_NAME(kind, name) name,
    FM_CUDA_CALLS(CALL_NAME)
#undef CALL_NAME
};

int fm_cuda_variable_of(const struct fm_program *program, int tensor)
{
    if (tensor < 0) return -1;
    if (program->tensors[tensor].variable >= 0) return program->tensors[tensor].variable;
    for (int v = 0; v < program->nvariables; v++)
        if (program->variables[v].gradient == tensor || program->variables[v].tensor == tensor) return v;
    return -1;
}

bool fm_cuda_is_letters(const struct fm_op *op)
{
    const bool conv = op->code == FM_OP_CONV1D || op->code == FM_OP_CONV1D_WEIGHT_GRAD ||
                      op->code == FM_OP_CONV1D_INPUT_GRAD;
    return conv ? op->conv.letters : op->dense.letters;
}

struct fm_cuda_conv fm_cuda_conv_of(const struct fm_op *op)
{
    const bool conv = op->code == FM_OP_CONV1D || op->code == FM_OP_CONV1D_WEIGHT_GRAD ||
                      op->code == FM_OP_CONV1D_INPUT_GRAD;
    struct fm_cuda_conv c = {.in_rows = (int)op->in_rows,
                             .in_channels = (int)op->in_channels,
                             .out_rows = (int)op->out_rows,
                             .out_channels = (int)op->out_channels,
                             .taps = 1,
                             .stride = 1,
                             .dilation = 1,
                             .groups = 1};
    if (conv) {
        c.taps = (int)op->conv.taps;
        c.stride = (int)op->conv.stride;
        c.dilation = (int)op->conv.dilation;
        c.groups = (int)op->conv.groups;
        c.pad = (int)op->conv.pad_before;
    } else if (op->dense.letters) {
        /* Each row is so many letters, flattened, or one. */
        c.in_channels = (int)op->dense.alphabet;
        c.taps = c.stride = (int)(op->in_channels / op->dense.alphabet);
        c.in_rows = (int)op->in_rows * c.taps;
    }
    return c;
}

struct fm_cuda_pool fm_cuda_pool_of(const struct fm_op *op)
{
    return (struct fm_cuda_pool){.in_rows = (int)op->in_rows,
                                 .out_rows = (int)op->out_rows,
                                 .channels = (int)op->out_channels,
                                 .size = (int)op->pool.size,
                                 .stride = (int)op->pool.stride,
                                 .pad = (int)op->pool.pad_before,
                                 .average = op->pool.average};
}

const struct fm_op *fm_cuda_followed_by(const struct fm_program *program, int op, int *next,
                                        enum fm_opcode code)
{
    const struct fm_op *first = &program->ops[op];
    if (first->group < 0 || first->fuse == FM_FUSE_NONE || *next >= program->nops) return NULL;
    const struct fm_op *other = &program->ops[*next];
    if (other->group != first->group || other->fuse == FM_FUSE_NONE || other->code != code) return NULL;
    (*next)++;
    return other;
}

static void describe(struct fm_cuda_call *call, const struct fm_program *program, const struct fm_op *op)
{
    const char *layer = op->layer >= 0 ? program->layers[op->layer].type : "";
    snprintf(call->name, sizeof call->name, "%s%s%s", layer, *layer ? " " : "", kind_names[call->kind]);
    if (op->layer >= 0 && op->out_rows > 0)
        snprintf(call->shape, sizeof call->shape, "%lld x %lld -> %lld x %lld", (long long)op->in_rows,
                 (long long)op->in_channels, (long long)op->out_rows, (long long)op->out_channels);
}

struct fm_cuda_call *fm_cuda_call_new(struct fm_cuda_builder *b, enum fm_cuda_call_kind kind, int op)
{
    struct fm_cuda_plan *plan = b->plan;
    if (fm_grow(&plan->calls, &b->capacity, (size_t)plan->ncalls + 1, sizeof *plan->calls)) {
        fm_fail_memory(b->err);
        return NULL;
    }
    struct fm_cuda_call *call = &plan->calls[plan->ncalls++];
    *call = (struct fm_cuda_call){.kind = kind,
                                  .activity = FM_CUDA_TRAINS,
                                  .rows = (int)plan->batch,
                                  .in = {-1, -1, -1},
                                  .out = {-1, -1, -1},
                                  .kernel = -1,
                                  .bias = -1,
                                  .mean = -1,
                                  .variance = -1,
                                  .activation = {.kind = FM_ACT_LINEAR, .stored = -1}};
    const struct fm_op *o = &b->program->ops[op];
    if (o->section == FM_SECTION_EVALUATE) {
        call->activity = FM_CUDA_EVALUATES;
        call->rows = b->chunk;
    }
    call->accumulate = o->accumulate;
    describe(call, b->program, o);
    return call;
}

void fm_cuda_call_activates(struct fm_cuda_call *call, const struct fm_op *activation, int stored)
{
    if (!activation) return;
    call->activation.kind = activation->activation.kind;
    call->activation.slope = (float)activation->activation.slope;
    call->activation.stored = stored;
    const size_t used = strlen(call->name);
    snprintf(call->name + used, sizeof call->name - used, " + %s",
             fm_activation_name(activation->activation.kind));
}

/* Convolution, activation and pool in one, if the kernel takes them and nothing else wants what lies between.
 */
static int conv_pool(struct fm_cuda_builder *b, int op, const struct fm_op *activation,
                     const struct fm_op *pool)
{
    const struct fm_op *o = &b->program->ops[op];
    const struct fm_cuda_conv conv = fm_cuda_conv_of(o);
    const struct fm_cuda_pool shape = fm_cuda_pool_of(pool);
    const int kind = activation ? (int)activation->activation.kind : (int)FM_ACT_LINEAR;
    if (fm_cuda_is_letters(o) || pool->pool.average || pool->accumulate ||
        (activation && activation->out[1] >= 0) || b->by_library[op] ||
        !fm_cuda_conv_pool_can(&conv, &shape, kind))
        return 0;
    if (pool->out[1] >= 0 && b->program->tensors[pool->out[1]].type != FM_U8) return 0;
    struct fm_cuda_call *call = fm_cuda_call_new(b, FM_CALL_CONV_POOL, op);
    if (!call) return FM_ENOMEM;
    fm_cuda_call_activates(call, activation, -1);
    call->conv = conv;
    call->pool = shape;
    call->in[0] = o->in[0];
    call->kernel = fm_cuda_variable_of(b->program, o->in[1]);
    call->bias = fm_cuda_variable_of(b->program, o->in[2]);
    call->out[0] = pool->out[0];
    call->out[1] = pool->out[1];
    b->stands_for[o->out[0]] = pool->out[0];
    if (activation) b->stands_for[activation->out[0]] = pool->out[0];
    return 1;
}

static int own_forward(struct fm_cuda_builder *b, int op, const struct fm_op *activation)
{
    const struct fm_op *o = &b->program->ops[op];
    struct fm_cuda_call *call =
        fm_cuda_call_new(b, fm_cuda_is_letters(o) ? FM_CALL_LETTERS : FM_CALL_FORWARD, op);
    if (!call) return FM_ENOMEM;
    call->conv = fm_cuda_conv_of(o);
    call->in[0] = o->in[0];
    call->kernel = fm_cuda_variable_of(b->program, o->in[1]);
    call->bias = fm_cuda_variable_of(b->program, o->in[2]);
    call->out[0] = activation ? activation->out[0] : o->out[0];
    fm_cuda_call_activates(call, activation, activation ? activation->out[1] : -1);
    return 0;
}

/* A library's product has neither bias nor activation: one more call adds them where it wrote. */
static int library_forward(struct fm_cuda_builder *b, int op, const struct fm_op *activation)
{
    const struct fm_op *o = &b->program->ops[op];
    const int y = activation ? activation->out[0] : o->out[0];
    if (!b->by_library[op] || o->accumulate) return 0;
    int made = fm_cuda_library_call(b, op, FM_ROLE_FORWARD);
    if (made <= 0) return made;
    b->plan->calls[b->plan->ncalls - 1].out[0] = y;
    if (o->in[2] < 0 && !activation) return 1;
    struct fm_cuda_call *call = fm_cuda_call_new(b, FM_CALL_BIAS_ACTIVATION, op);
    if (!call) return FM_ENOMEM;
    call->bias = fm_cuda_variable_of(b->program, o->in[2]);
    call->length = (int)o->out_rows;
    call->channels = (int)o->out_channels;
    call->out[0] = y;
    fm_cuda_call_activates(call, activation, activation ? activation->out[1] : -1);
    return 1;
}

int fm_cuda_build_product(struct fm_cuda_builder *b, int op, int *next)
{
    const struct fm_program *p = b->program;
    const struct fm_op *loss;
    *next = op + 1;
    if (p->ops[op].fuse == FM_FUSE_HEAD && (loss = fm_cuda_followed_by(p, op, next, FM_OP_LOSS)))
        return fm_cuda_build_loss(b, (int)(loss - p->ops), op, next);
    const struct fm_op *activation = fm_cuda_followed_by(p, op, next, FM_OP_ACTIVATION);
    const int after_activation = *next;
    const struct fm_op *pool = fm_cuda_followed_by(p, op, next, FM_OP_POOL);
    int made = pool ? conv_pool(b, op, activation, pool) : 0;
    if (made) return made < 0 ? made : 0;
    *next = after_activation;
    made = library_forward(b, op, activation);
    return made ? (made < 0 ? made : 0) : own_forward(b, op, activation);
}

/* The loss with its gradient (training) or scores (evaluation); with the dense layer before it where that is
 * narrow. */
int fm_cuda_build_loss(struct fm_cuda_builder *b, int op, int dense, int *next)
{
    const struct fm_program *p = b->program;
    const struct fm_op *o = &p->ops[op], *d = dense >= 0 ? &p->ops[dense] : NULL;
    const bool head = d && d->in_rows == 1 && !fm_cuda_is_letters(d) && !b->by_library[dense] &&
                      fm_cuda_head_can((int)d->in_channels, (int)d->out_channels);
    if (d && !head) {
        int made = library_forward(b, dense, NULL);
        if (!made) made = own_forward(b, dense, NULL);
        if (made < 0) return made;
    }
    struct fm_cuda_call *call = fm_cuda_call_new(b, head ? FM_CALL_HEAD : FM_CALL_LOSSES, head ? dense : op);
    if (!call) return FM_ENOMEM;
    call->loss = (struct fm_cuda_loss){.kind = (int)p->loss.kind,
                                       .outputs = (int)p->loss.outputs,
                                       .score_width = (int)p->score_width,
                                       .label_smoothing = (float)p->loss.label_smoothing,
                                       .delta = (float)p->loss.delta};
    call->in[0] = head ? d->in[0] : o->in[0];
    if (head) {
        call->kernel = fm_cuda_variable_of(p, d->in[1]);
        call->bias = fm_cuda_variable_of(p, d->in[2]);
        call->length = (int)d->in_channels;
    }
    for (int i = p->section_first[FM_SECTION_BACKWARD]; i < p->section_first[FM_SECTION_BACKWARD + 1]; i++)
        if (call->activity == FM_CUDA_TRAINS && p->ops[i].code == FM_OP_LOSS_GRAD)
            call->out[0] = p->ops[i].out[0];
    while (*next < p->nops && p->ops[*next].code == FM_OP_SCORES) (*next)++;
    return 0;
}

/* Operations that are one call each. */
static int simple(struct fm_cuda_builder *b, int op, enum fm_cuda_call_kind kind)
{
    const struct fm_op *o = &b->program->ops[op];
    struct fm_cuda_call *call = fm_cuda_call_new(b, kind, op);
    if (!call) return FM_ENOMEM;
    call->length = (int)o->out_rows;
    call->channels = (int)o->out_channels;
    for (int k = 0; k < 3; k++) {
        call->in[k] = o->in[k];
        call->out[k] = o->out[k];
    }
    switch (o->code) {
    case FM_OP_GATHER:
    case FM_OP_ONEHOT:
        call->length = (int)b->program->input_rows;
        call->channels = (int)(o->code == FM_OP_ONEHOT ? o->onehot.alphabet : b->program->input_channels);
        break;
    case FM_OP_ACTIVATION:
        if (kind == FM_CALL_ACTIVATE) fm_cuda_call_activates(call, o, o->out[1]);
        break;
    case FM_OP_POOL:
        call->pool = fm_cuda_pool_of(o);
        call->wide = o->out[1] >= 0 && b->program->tensors[o->out[1]].type == FM_I32;
        break;
    case FM_OP_DROPOUT:
        call->index = o->dropout.index;
        call->id = o->dropout.id;
        call->spatial = o->dropout.spatial;
        break;
    default: break;
    }
    return 0;
}

static int norm(struct fm_cuda_builder *b, int op, enum fm_cuda_call_kind kind)
{
    const struct fm_op *o = &b->program->ops[op];
    struct fm_cuda_call *call = fm_cuda_call_new(b, kind, op);
    if (!call) return FM_ENOMEM;
    call->length = (int)o->in_rows;
    call->channels = (int)o->in_channels;
    call->number = o->norm.epsilon;
    call->in[0] = o->in[0];
    for (int k = 0; k < 3; k++) call->out[k] = o->out[k];
    if (kind == FM_CALL_BATCH_NORM_MOVING) {
        call->number = o->norm.momentum;
        call->in[1] = o->in[1];
        call->mean = fm_cuda_variable_of(b->program, o->out[0]);
        call->variance = fm_cuda_variable_of(b->program, o->out[1]);
        call->out[0] = call->out[1] = -1;
        return 0;
    }
    call->kernel = fm_cuda_variable_of(b->program, o->in[1]);
    call->bias = fm_cuda_variable_of(b->program, o->in[2]);
    if (kind == FM_CALL_BATCH_NORM_INFER) {
        call->mean = fm_cuda_variable_of(b->program, o->in[3]);
        call->variance = fm_cuda_variable_of(b->program, o->in[4]);
    }
    if (kind == FM_CALL_BATCH_NORM)
        call->scratch = fm_cuda_batch_norm_scratch(call->rows, call->length, call->channels) * 4;
    return 0;
}

static int forward(struct fm_cuda_builder *b, int op, int *next)
{
    const struct fm_op *o = &b->program->ops[op];
    *next = op + 1;
    switch (o->code) {
    case FM_OP_GATHER: return simple(b, op, FM_CALL_GATHER);
    case FM_OP_ONEHOT: return simple(b, op, FM_CALL_ONEHOT);
    case FM_OP_CONV1D:
    case FM_OP_DENSE: return fm_cuda_build_product(b, op, next);
    case FM_OP_POOL: return simple(b, op, FM_CALL_POOLING);
    case FM_OP_ACTIVATION:
        return simple(b, op, o->activation.kind == FM_ACT_SOFTMAX ? FM_CALL_SOFTMAX : FM_CALL_ACTIVATE);
    case FM_OP_BATCH_NORM: return norm(b, op, FM_CALL_BATCH_NORM);
    case FM_OP_BATCH_NORM_INFER: return norm(b, op, FM_CALL_BATCH_NORM_INFER);
    case FM_OP_LAYER_NORM: return norm(b, op, FM_CALL_LAYER_NORM);
    case FM_OP_DROPOUT: return simple(b, op, FM_CALL_DROPOUT);
    case FM_OP_LOSS: return fm_cuda_build_loss(b, op, -1, next);
    case FM_OP_SCORES: return 0; /* the loss's call makes them */
    default: return fm_fail(b->err, FM_EINTERNAL, "%s in a forward section", fm_opcode_name(o->code));
    }
}

static int walk(struct fm_cuda_builder *b, enum fm_section section,
                int (*take)(struct fm_cuda_builder *b, int op, int *next))
{
    const int *first = b->program->section_first;
    int status = 0;
    for (int i = first[section], next; !status && i < first[section + 1]; i = next)
        status = take(b, i, &next);
    return status;
}

/* A call that belongs to no layer: `op` only tells its section. */
static struct fm_cuda_call *whole_step(struct fm_cuda_builder *b, enum fm_cuda_call_kind kind, int op)
{
    struct fm_cuda_call *call = fm_cuda_call_new(b, kind, op);
    if (!call) return NULL;
    call->shape[0] = '\0';
    snprintf(call->name, sizeof call->name, "%s", kind_names[kind]);
    return call;
}

/* The norm decides, moving statistics follow its decision, the optimizer ends the step. */
static int update(struct fm_cuda_builder *b)
{
    const struct fm_program *p = b->program;
    const int first = p->section_first[FM_SECTION_UPDATE], end = p->section_first[FM_SECTION_UPDATE + 1];
    if (first == end) return fm_fail(b->err, FM_EINTERNAL, "a program without an update");
    if (!whole_step(b, FM_CALL_NORM, first)) return FM_ENOMEM;
    for (int i = first; i < end; i++)
        if (p->ops[i].code == FM_OP_BATCH_NORM_MOVING && norm(b, i, FM_CALL_BATCH_NORM_MOVING))
            return FM_ENOMEM;
    return whole_step(b, FM_CALL_OPTIMIZE, first) ? 0 : FM_ENOMEM;
}

int fm_cuda_build_calls(struct fm_cuda_builder *b)
{
    int status = walk(b, FM_SECTION_FORWARD, forward);
    if (!status) status = walk(b, FM_SECTION_BACKWARD, fm_cuda_build_gradient);
    if (!status) status = update(b);
    b->plan->nstep = b->plan->ncalls;
    if (!status) status = walk(b, FM_SECTION_EVALUATE, forward);
    if (status) return status;
    const struct fm_cuda_loss loss = b->plan->calls[b->plan->ncalls - 1].loss;
    struct fm_cuda_call *call = whole_step(b, FM_CALL_TALLY, b->program->section_first[FM_SECTION_EVALUATE]);
    if (!call) return FM_ENOMEM;
    call->loss = loss;
    return 0;
}
