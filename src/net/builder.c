#include "net/builder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "net/initialize.h"
#include "net/names.h"
#include "net/regularize.h"

int fm_builder_fail(const struct fm_builder *b, int code, struct fm_error *err, const char *format, ...)
{
    char text[sizeof((struct fm_error *)0)->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (b->layer < 0) return fm_fail(err, code, "model: %s", text);
    const struct fm_layer_info *layer = &b->program->layers[b->layer];
    return fm_fail_at(err, code, layer->file, layer->line, layer->column, "%s: %s", layer->path, text);
}

const char *fm_builder_shape(const struct fm_builder *b, char buffer[FM_SHAPE_TEXT])
{
    if (b->rank == 3)
        snprintf(buffer, FM_SHAPE_TEXT, "%" PRId64 " position%s x %" PRId64 " channel%s", b->rows,
                 b->rows == 1 ? "" : "s", b->channels, b->channels == 1 ? "" : "s");
    else
        snprintf(buffer, FM_SHAPE_TEXT, "%" PRId64 " number%s", b->channels, b->channels == 1 ? "" : "s");
    return buffer;
}

int fm_builder_tensor(struct fm_builder *b, enum fm_tensor_kind kind, enum fm_tensor_type type, int64_t rows,
                      int64_t channels, int *tensor, struct fm_error *err)
{
    struct fm_program *p = b->program;
    int64_t elements;
    if (!fm_multiply(rows, channels, &elements) || elements > FM_NET_MAX_ELEMENTS)
        return fm_builder_fail(b, FM_ESHAPE, err,
                               "%" PRId64 " positions x %" PRId64
                               " channels are too many for one example; at most 2^31 numbers fit",
                               rows, channels);
    if (fm_grow(&p->tensors, &b->tensor_capacity, (size_t)p->ntensors + 1, sizeof *p->tensors))
        return fm_fail_memory(err);
    p->tensors[p->ntensors] = (struct fm_tensor){
        .kind = kind, .type = type, .rows = rows, .channels = channels, .gradient_of = -1, .variable = -1};
    *tensor = p->ntensors++;
    return 0;
}

int fm_builder_op(struct fm_builder *b, enum fm_opcode code, struct fm_op **op, struct fm_error *err)
{
    struct fm_program *p = b->program;
    if (fm_grow(&p->ops, &b->op_capacity, (size_t)p->nops + 1, sizeof *p->ops)) return fm_fail_memory(err);
    struct fm_op *o = &p->ops[p->nops++];
    memset(o, 0, sizeof *o);
    o->code = code;
    o->section = b->section;
    o->stage = b->stage;
    o->group = -1;
    o->layer = b->layer;
    for (int i = 0; i < FM_OP_INPUTS; i++) o->in[i] = -1;
    for (int i = 0; i < FM_OP_OUTPUTS; i++) o->out[i] = -1;
    *op = o;
    return 0;
}

int fm_builder_forward(struct fm_builder *b, enum fm_opcode code, int64_t rows, int64_t channels, int rank,
                       struct fm_op **op, struct fm_error *err)
{
    int out, rc = fm_builder_tensor(b, FM_TENSOR_ACTIVATION, FM_F32, rows, channels, &out, err);
    if (rc) return rc;
    rc = fm_builder_op(b, code, op, err);
    if (rc) return rc;
    (*op)->in[0] = b->value;
    (*op)->out[0] = out;
    (*op)->in_rows = b->rows;
    (*op)->in_channels = b->channels;
    (*op)->out_rows = rows;
    (*op)->out_channels = channels;
    b->value = out;
    b->rank = rank;
    b->rows = rows;
    b->channels = channels;
    b->letters = false;
    return 0;
}

int fm_builder_numbers(struct fm_builder *b, struct fm_error *err)
{
    if (!b->letters) return 0;
    /* The value may already be read as one flat row; the one-hot tensor has the input's own shape. */
    int rank = b->rank;
    int64_t rows = b->rows, channels = b->channels, alphabet = b->input->channels;
    struct fm_op *op;
    b->rows = b->input->rows;
    b->channels = 1;
    int rc = fm_builder_forward(b, FM_OP_ONEHOT, b->input->rows, alphabet, rank, &op, err);
    b->rows = rows;
    b->channels = channels;
    if (rc) return rc;
    op->onehot.alphabet = alphabet;
    op->layer = -1;
    return 0;
}

int fm_builder_need_positions(const struct fm_builder *b, struct fm_error *err)
{
    char shape[FM_SHAPE_TEXT];
    if (b->rank == 3) return 0;
    return fm_builder_fail(
        b, FM_ESHAPE, err,
        "it takes positions x channels, but its input is flat (%s); put it before flatten and "
        "before global pooling",
        fm_builder_shape(b, shape));
}

/* Makes room first, so that nothing is half appended when memory runs out. */
static int variable_room(struct fm_builder *b, struct fm_error *err)
{
    struct fm_program *p = b->program;
    if (fm_grow(&p->variables, &b->variable_capacity, (size_t)p->nvariables + 1, sizeof *p->variables) ||
        fm_grow(&b->penalties, &b->penalty_capacity, (size_t)p->nvariables + 1, sizeof *b->penalties))
        return fm_fail_memory(err);
    memset(&p->variables[p->nvariables], 0, sizeof *p->variables);
    b->penalties[p->nvariables] = (struct fm_penalty){0, 0, b->layer};
    return 0;
}

/* The number of elements, within what a program may hold. */
static int variable_count(const struct fm_builder *b, int rank, const int64_t *shape, int64_t *count,
                          struct fm_error *err)
{
    *count = 1;
    for (int i = 0; i < rank; i++)
        if (!fm_multiply(*count, shape[i], count) || *count > FM_NET_MAX_PARAMETERS)
            return fm_builder_fail(b, FM_ESHAPE, err, "it has more than 2^31 parameters; make it smaller");
    if (*count > FM_NET_MAX_PARAMETERS - b->program->param_count)
        return fm_builder_fail(b, FM_ESHAPE, err,
                               "up to here the network has more than 2^31 parameters; make it smaller");
    return 0;
}

static int variable_tensors(struct fm_builder *b, struct fm_variable *v, struct fm_error *err)
{
    struct fm_program *p = b->program;
    int64_t columns = v->shape[v->rank - 1];
    int64_t rows = v->count / columns;
    enum fm_tensor_kind kind = v->trainable ? FM_TENSOR_PARAMETER : FM_TENSOR_STATE;
    int rc = fm_builder_tensor(b, kind, FM_F32, rows, columns, &v->tensor, err);
    if (rc) return rc;
    p->tensors[v->tensor].variable = p->nvariables;
    v->gradient = -1;
    if (!v->trainable) return 0;
    rc = fm_builder_tensor(b, FM_TENSOR_GRADIENT, FM_F32, rows, columns, &v->gradient, err);
    if (rc) return rc;
    p->tensors[v->gradient].variable = p->nvariables;
    p->tensors[v->gradient].gradient_of = v->tensor;
    return 0;
}

int fm_builder_variable(struct fm_builder *b, const struct fm_layer_use *use, int rank, const int64_t *shape,
                        const struct fm_variable_options *options, int *tensor, struct fm_error *err)
{
    struct fm_program *p = b->program;
    int64_t count;
    int rc = variable_count(b, rank, shape, &count, err);
    if (!rc) rc = variable_room(b, err);
    if (rc) return rc;
    struct fm_variable *v = &p->variables[p->nvariables];
    v->rank = rank;
    memcpy(v->shape, shape, (size_t)rank * sizeof *shape);
    v->count = count;
    v->offset = p->param_count;
    v->trainable = v->decay = options->trainable;
    struct fm_penalty *penalty = &b->penalties[p->nvariables];
    rc = fm_initializer_read(v, options->initializer, options->fallback, use->path, options->argument, err);
    if (!rc && options->regularizer)
        rc = fm_regularizer_read(options->regularizer, use->path, options->regularizer_argument, &penalty->l1,
                                 &penalty->l2, err);
    if (!rc) rc = fm_initializer_check(b, v, options->argument, err);
    if (!rc) rc = variable_tensors(b, v, err);
    if (!rc && !(v->name = fm_variable_name(&p->layers[b->layer], options->name))) rc = fm_fail_memory(err);
    if (rc) return rc;
    p->nvariables++;
    p->param_count += count;
    if (v->trainable) p->trainable_count += count;
    p->layers[b->layer].param_count += count;
    *tensor = v->tensor;
    return 0;
}
