/* Which products go to cuDNN or cuBLAS, and what that asks of the tensors: rows of zeros around the inputs of
 * padded convolutions, and kernels in cuDNN's order. */
#include "plan/calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "library/library.h"

/* From here on a library's call is worth the two launches more that bias and activation then need: the
 * arithmetic of a product of the whole batch, and its least inner sizes. */
#define LIBRARY_FLOPS (INT64_C(1) << 25)
#define LIBRARY_WIDTH 32

static const char *const role_names[] = {"forward", "input_grad", "weight_grad"};

static bool is_conv(const struct fm_op *op)
{
    return op->code == FM_OP_CONV1D || op->code == FM_OP_CONV1D_WEIGHT_GRAD ||
           op->code == FM_OP_CONV1D_INPUT_GRAD;
}

static bool is_product(const struct fm_op *op)
{
    return is_conv(op) || op->code == FM_OP_DENSE || op->code == FM_OP_DENSE_WEIGHT_GRAD ||
           op->code == FM_OP_DENSE_INPUT_GRAD;
}

static int kernel_of(const struct fm_program *p, const struct fm_op *op)
{
    const bool gradient = op->code == FM_OP_CONV1D_WEIGHT_GRAD || op->code == FM_OP_DENSE_WEIGHT_GRAD;
    return fm_cuda_variable_of(p, gradient ? op->out[0] : op->in[1]);
}

/* "conv1d_1/kernel forward", as a line of the choices begins. */
static void line_of(const struct fm_cuda_builder *b, const struct fm_op *op, enum fm_dnn_role role,
                    char *line, size_t size)
{
    const int kernel = kernel_of(b->program, op);
    snprintf(line, size, "%s %s", kernel >= 0 ? b->program->variables[kernel].name : "?",
             op->section == FM_SECTION_EVALUATE ? "evaluate" : role_names[role]);
}

/* The recorded algorithm: -1 where there is no record of this call. */
static int recorded_algorithm(const struct fm_cuda_builder *b, const struct fm_op *op, enum fm_dnn_role role)
{
    char line[160];
    line_of(b, op, role, line, sizeof line);
    const size_t size = strlen(line);
    for (const char *at = b->recorded; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        if (strncmp(at, line, size) || at[size] != ' ') continue;
        int algorithm = 0, digits = 0;
        for (at += size + 1; *at >= '0' && *at <= '9' && digits < 4; at++, digits++)
            algorithm = algorithm * 10 + (*at - '0');
        return digits ? algorithm : -1;
    }
    return -1;
}

static enum fm_dnn_role role_of(const struct fm_op *op)
{
    if (op->code == FM_OP_CONV1D || op->code == FM_OP_DENSE) return FM_ROLE_FORWARD;
    return op->code == FM_OP_CONV1D_INPUT_GRAD || op->code == FM_OP_DENSE_INPUT_GRAD ? FM_ROLE_INPUT_GRAD
                                                                                     : FM_ROLE_WEIGHT_GRAD;
}

static bool wanted(const struct fm_cuda_builder *b, const struct fm_op *op)
{
    const struct fm_device *device = b->device;
    if (!is_product(op) || fm_cuda_is_letters(op) || !device->libraries) return false;
    if (is_conv(op) ? !device->kind.cudnn : !device->kind.cublas) return false;
    if (b->recorded) return recorded_algorithm(b, op, role_of(op)) >= 0;
    if (device->kind.kernels == FM_KERNELS_LIBRARY) return true;
    const struct fm_cuda_conv conv = fm_cuda_conv_of(op);
    const int64_t inner = (int64_t)conv.taps * conv.in_channels / conv.groups;
    const double flops =
        2.0 * (double)b->plan->batch * (double)conv.out_rows * (double)conv.out_channels * (double)inner;
    return flops >= (double)LIBRARY_FLOPS && inner >= LIBRARY_WIDTH &&
           conv.out_channels / conv.groups >= LIBRARY_WIDTH;
}

/* Rows that the convolution reads, from -pad on. */
static int reach_of(const struct fm_cuda_conv *conv)
{
    return (conv->out_rows - 1) * conv->stride + (conv->taps - 1) * conv->dilation + 1;
}

static void widen(struct fm_cuda_builder *b, const struct fm_op *op)
{
    const struct fm_cuda_conv conv = fm_cuda_conv_of(op);
    struct fm_cuda_room *room = &b->plan->rooms[role_of(op) == FM_ROLE_INPUT_GRAD ? op->out[0] : op->in[0]];
    const int after = reach_of(&conv) - conv.pad - conv.in_rows;
    if (conv.pad > room->before) room->before = conv.pad;
    if (after > room->after) room->after = after;
    if (role_of(op) != FM_ROLE_INPUT_GRAD && (conv.pad > 0 || after > 0)) room->zero = true;
}

/* Kernels count a batch's elements in ints, and threads beyond the last one too. */
static bool fits(int64_t rows, int64_t channels, int64_t examples)
{
    const int64_t most = INT32_MAX - 4096;
    return rows <= most && channels <= most && rows * channels <= most && rows * channels * examples <= most;
}

static int set_examples(struct fm_cuda_builder *b)
{
    const struct fm_program *p = b->program;
    const int64_t most = b->plan->batch > b->chunk ? b->plan->batch : b->chunk;
    for (int t = 0; t < p->ntensors; t++) {
        const struct fm_tensor *tensor = &p->tensors[t];
        struct fm_cuda_room *room = &b->plan->rooms[t];
        const bool each = tensor->kind == FM_TENSOR_INPUT || tensor->kind == FM_TENSOR_ACTIVATION;
        const int64_t rows = tensor->rows + room->before + room->after;
        if (!fits(rows, tensor->channels, each ? most : 1))
            return fm_fail(b->err, FM_ENOMEM,
                           "a tensor of %" PRId64 " x %" PRId64
                           " has more than 2^31 numbers at batch size %" PRId64 ": take a smaller batch_size",
                           tensor->rows, tensor->channels, b->plan->batch);
        room->example = (int)(rows * tensor->channels);
    }
    return 0;
}

int fm_cuda_choose(struct fm_cuda_builder *b)
{
    const struct fm_program *p = b->program;
    for (int i = 0; i < p->nops; i++) {
        b->by_library[i] = wanted(b, &p->ops[i]);
        if (b->by_library[i] && is_conv(&p->ops[i])) {
            const int kernel = kernel_of(p, &p->ops[i]);
            if (kernel >= 0) b->plan->variables[kernel].turned = true;
            widen(b, &p->ops[i]);
        }
    }
    return set_examples(b);
}

/* ---- the calls ---- */

static int note_choice(struct fm_cuda_builder *b, const struct fm_op *op, enum fm_dnn_role role,
                       int algorithm)
{
    char line[160];
    line_of(b, op, role, line, sizeof line);
    fm_text_add(&b->plan->choices, "%s %d\n", line, algorithm);
    return b->plan->choices.failed ? fm_fail_memory(b->err) : 1;
}

/* Output of the forward product as it lies: the activation's where one is taken into the next call. */
static int output_of(const struct fm_cuda_builder *b, int op)
{
    int next = op + 1;
    const struct fm_op *activation = fm_cuda_followed_by(b->program, op, &next, FM_OP_ACTIVATION);
    return activation ? activation->out[0] : b->program->ops[op].out[0];
}

/* The tensors of a product: x before the layer, y behind it, or their gradients. */
static void ends_of(const struct fm_cuda_builder *b, int op, enum fm_dnn_role role, int *x, int *y)
{
    const struct fm_op *o = &b->program->ops[op];
    *x = role == FM_ROLE_INPUT_GRAD ? o->out[0] : o->in[0];
    *y = role == FM_ROLE_FORWARD ? output_of(b, op) : role == FM_ROLE_INPUT_GRAD ? o->in[0] : o->in[1];
}

/* Floats from a multiple of FM_CUDA_ALIGN to row -pad of a tensor. */
static int64_t shift_of(const struct fm_cuda_builder *b, int tensor, int pad)
{
    return (int64_t)(b->plan->rooms[tensor].before - pad) * b->program->tensors[tensor].channels;
}

/* Whether a library makes the call: 1, 0 = an own kernel, negative. `status` and `why` are of its trial. */
static int accepted(struct fm_cuda_builder *b, const struct fm_op *op, enum fm_dnn_role role, int status,
                    const char *why)
{
    const char *product = is_conv(op) ? "convolution" : "product";
    if (status <= 0) return status ? status : 1;
    if (!b->recorded) {
        char line[160];
        line_of(b, op, role, line, sizeof line);
        fm_text_add(&b->plan->refused, "%s: %s\n", line, why);
        return b->plan->refused.failed ? fm_fail_memory(b->err) : 0;
    }
    return fm_fail(b->err, FM_EFILE, "the journal's algorithm for a %s cannot be used here: %s", product,
                   why);
}

static struct fm_cuda_call *library_call(struct fm_cuda_builder *b, enum fm_cuda_call_kind kind, int op,
                                         enum fm_dnn_role role)
{
    struct fm_cuda_call *call = fm_cuda_call_new(b, kind, op);
    if (!call) return NULL;
    call->conv = fm_cuda_conv_of(&b->program->ops[op]);
    call->role = role;
    ends_of(b, op, role, &call->in[0], &call->out[0]);
    call->kernel = kernel_of(b->program, &b->program->ops[op]);
    call->splits = 1;
    return call;
}

/* Examples of a call of op. */
static int rows_of(const struct fm_cuda_builder *b, const struct fm_op *op)
{
    return op->section == FM_SECTION_EVALUATE ? b->chunk : (int)b->plan->batch;
}

static int dnn_call(struct fm_cuda_builder *b, int op, enum fm_dnn_role role)
{
    static const enum fm_dnn_direction directions[] = {FM_DNN_FORWARD, FM_DNN_INPUT_GRAD, FM_DNN_WEIGHT_GRAD};
    const struct fm_op *o = &b->program->ops[op];
    const struct fm_cuda_conv conv = fm_cuda_conv_of(o);
    const struct fm_cuda_room *rooms = b->plan->rooms;
    const struct fm_cuda_variable *kernel = &b->plan->variables[kernel_of(b->program, o)];
    const int64_t rows = rows_of(b, o);
    int x, y;
    ends_of(b, op, role, &x, &y);
    const struct fm_trial_operand operands[3] = {{rows * rooms[x].example, shift_of(b, x, conv.pad)},
                                                 {kernel->count, kernel->offset},
                                                 {rows * rooms[y].example, shift_of(b, y, 0)}};
    /* Behind rows of a halo whose width is no multiple of four floats, an address may be none of 16 bytes,
     * and cuDNN does not say which of its algorithms need that. */
    if (operands[0].shift % 4 || operands[2].shift % 4)
        return accepted(b, o, role, 1, "its tensors do not lie at multiples of 16 bytes");
    char why[256];
    struct fm_dnn_call *dnn = NULL;
    struct fm_card *card = &b->device->cards[0];
    int status = fm_dnn_call_new(&dnn, b->device, card, directions[role], &conv,
                                 conv.pad + conv.in_rows + rooms[x].after, (int)rows, rooms[x].example,
                                 rooms[y].example, recorded_algorithm(b, o, role), why, sizeof why, b->err);
    if (!status) status = fm_dnn_call_try(b->device, card, dnn, operands, why, sizeof why, b->err);
    status = accepted(b, o, role, status, why);
    struct fm_cuda_call *call = status > 0 ? library_call(b, FM_CALL_DNN, op, role) : NULL;
    if (!call) {
        fm_dnn_call_free(b->device, dnn);
        return status > 0 ? FM_ENOMEM : status;
    }
    call->dnn = dnn;
    return note_choice(b, o, role, fm_dnn_call_algorithm(dnn));
}

/* y [m][out] = x [m][in] W [in][out], and its gradients. */
static struct fm_blas_shape product_of(const struct fm_cuda_conv *conv, enum fm_dnn_role role, int m, int ldx,
                                       int ldy)
{
    const int in = conv->in_channels, out = conv->out_channels;
    switch (role) {
    case FM_ROLE_FORWARD: return (struct fm_blas_shape){false, false, m, out, in, ldx, out, ldy};
    case FM_ROLE_INPUT_GRAD: return (struct fm_blas_shape){false, true, m, in, out, ldy, out, ldx};
    default: return (struct fm_blas_shape){true, false, in, out, m, ldx, ldy, out};
    }
}

static int blas_call(struct fm_cuda_builder *b, int op, enum fm_dnn_role role)
{
    const struct fm_op *o = &b->program->ops[op];
    const struct fm_cuda_conv conv = fm_cuda_conv_of(o);
    const struct fm_cuda_room *rooms = b->plan->rooms;
    int x, y;
    ends_of(b, op, role, &x, &y);
    /* A matrix has one distance between its rows, so rows of several examples must follow each other evenly.
     */
    if (o->in_rows > 1 && (rooms[x].before + rooms[x].after > 0 || rooms[y].before + rooms[y].after > 0))
        return 0;
    const bool even = o->in_rows > 1;
    const struct fm_blas_shape shape =
        product_of(&conv, role, rows_of(b, o) * conv.in_rows, even ? conv.in_channels : rooms[x].example,
                   even ? conv.out_channels : rooms[y].example);
    const int64_t at_x = shift_of(b, x, 0), at_y = shift_of(b, y, 0),
                  at_w = b->plan->variables[kernel_of(b->program, o)].offset;
    const int64_t shift[][3] = {[FM_ROLE_FORWARD] = {at_x, at_w, at_y},
                                [FM_ROLE_INPUT_GRAD] = {at_y, at_w, at_x},
                                [FM_ROLE_WEIGHT_GRAD] = {at_x, at_y, at_w}};
    char why[256];
    const int status = accepted(
        b, o, role,
        fm_blas_product_try(b->device, &b->device->cards[0], &shape, shift[role], why, sizeof why, b->err),
        why);
    if (status <= 0) return status;
    struct fm_cuda_call *call = library_call(b, FM_CALL_BLAS, op, role);
    if (!call) return FM_ENOMEM;
    call->product = shape;
    return note_choice(b, o, role, 0);
}

int fm_cuda_library_call(struct fm_cuda_builder *b, int op, enum fm_dnn_role role)
{
    return is_conv(&b->program->ops[op]) ? dnn_call(b, op, role) : blas_call(b, op, role);
}
