#include "net/print.h"

#include <inttypes.h>

const char *fm_opcode_name(enum fm_opcode code)
{
    static const char *const names[] = {"gather",
                                        "onehot",
                                        "conv1d",
                                        "conv1d_weight_grad",
                                        "conv1d_input_grad",
                                        "dense",
                                        "dense_weight_grad",
                                        "dense_input_grad",
                                        "pool",
                                        "pool_grad",
                                        "activation",
                                        "activation_grad",
                                        "batch_norm",
                                        "batch_norm_grad",
                                        "batch_norm_moving",
                                        "batch_norm_infer",
                                        "layer_norm",
                                        "layer_norm_grad",
                                        "dropout",
                                        "dropout_grad",
                                        "loss",
                                        "loss_grad",
                                        "scores",
                                        "regularize",
                                        "norm",
                                        "clip",
                                        "optimizer"};
    return names[code];
}

const char *fm_section_name(enum fm_section section)
{
    static const char *const names[] = {"forward", "backward", "update", "evaluate"};
    return names[section];
}

const char *fm_activation_name(enum fm_activation kind)
{
    static const char *const names[] = {"linear",  "relu",         "leaky_relu", "swish", "gelu",
                                        "elu",     "selu",         "softplus",   "tanh",  "sigmoid",
                                        "softmax", "hard_sigmoid", "mish"};
    return names[kind];
}

static void print_details(const struct fm_op *op, struct fm_text *text)
{
    char number[FM_NUMBER_TEXT];
    switch (op->code) {
    case FM_OP_CONV1D:
    case FM_OP_CONV1D_WEIGHT_GRAD:
    case FM_OP_CONV1D_INPUT_GRAD:
        fm_text_add(text, " taps %" PRId64 " stride %" PRId64 " dilation %" PRId64 " groups %" PRId64,
                    op->conv.taps, op->conv.stride, op->conv.dilation, op->conv.groups);
        fm_text_add(text, " pad %" PRId64 "+%" PRId64 "%s", op->conv.pad_before, op->conv.pad_after,
                    op->conv.letters ? " letters" : "");
        break;
    case FM_OP_DENSE:
    case FM_OP_DENSE_WEIGHT_GRAD:
    case FM_OP_DENSE_INPUT_GRAD:
        if (op->dense.letters) fm_text_add(text, " letters of %" PRId64, op->dense.alphabet);
        break;
    case FM_OP_POOL:
    case FM_OP_POOL_GRAD:
        fm_text_add(text, " %s %" PRId64 " stride %" PRId64 " pad %" PRId64 "+%" PRId64,
                    op->pool.average ? "average" : "max", op->pool.size, op->pool.stride, op->pool.pad_before,
                    op->pool.pad_after);
        break;
    case FM_OP_ACTIVATION:
    case FM_OP_ACTIVATION_GRAD:
        fm_text_add(text, " %s", fm_activation_name(op->activation.kind));
        if (op->activation.slope != 0)
            fm_text_add(text, " %s", fm_format_number(op->activation.slope, number));
        if (op->derivative == FM_FROM_OUTPUT) fm_text_add_string(text, " from output");
        if (op->derivative == FM_FROM_INPUT) fm_text_add_string(text, " from input");
        if (op->derivative == FM_FROM_STORED) fm_text_add_string(text, " stored");
        break;
    case FM_OP_DROPOUT:
    case FM_OP_DROPOUT_GRAD:
        fm_text_add(text, " rate %d id %d%s", op->dropout.index, op->dropout.id,
                    op->dropout.spatial ? " spatial" : "");
        break;
    case FM_OP_REGULARIZE:
        fm_text_add(text, " l1 %s", fm_format_number(op->regularize.l1, number));
        fm_text_add(text, " l2 %s", fm_format_number(op->regularize.l2, number));
        break;
    default: break;
    }
}

static void print_list(const int *tensors, int count, struct fm_text *text)
{
    int last = count;
    while (last > 0 && tensors[last - 1] < 0) last--;
    for (int i = 0; i < last; i++) {
        if (tensors[i] < 0)
            fm_text_add_string(text, " -");
        else
            fm_text_add(text, " t%d", tensors[i]);
    }
}

static void print_op(const struct fm_op *op, int at, struct fm_text *text)
{
    static const char *const fuses[] = {"", "conv_act_pool", "layer_act", "grad_act", "head"};
    fm_text_add(text, "%4d %d %s", at, op->stage, fm_opcode_name(op->code));
    print_list(op->in, FM_OP_INPUTS, text);
    fm_text_add_string(text, op->accumulate ? " +>" : " ->");
    print_list(op->out, FM_OP_OUTPUTS, text);
    if (op->in_rows > 0)
        fm_text_add(text, "  (%" PRId64 " x %" PRId64 " -> %" PRId64 " x %" PRId64 ")", op->in_rows,
                    op->in_channels, op->out_rows, op->out_channels);
    print_details(op, text);
    if (op->group >= 0) fm_text_add(text, "  [%s %d]", fuses[op->fuse], op->group);
    fm_text_add_string(text, "\n");
}

static void print_tensor(const struct fm_tensor *t, int at, struct fm_text *text)
{
    static const char *const kinds[] = {"input",    "parameter", "state", "activation",
                                        "gradient", "batch",     "report"};
    static const char *const types[] = {"f32", "u8", "i32"};
    fm_text_add(text, "t%d %s %s %" PRId64 " x %" PRId64 "  ops %d..%d", at, kinds[t->kind], types[t->type],
                t->rows, t->channels, t->first_op, t->last_op);
    if (t->gradient_of >= 0) fm_text_add(text, "  gradient of t%d", t->gradient_of);
    if (t->overwrite) fm_text_add_string(text, "  overwrite");
    fm_text_add_string(text, "\n");
}

static void print_layer(const struct fm_layer_info *l, struct fm_text *text)
{
    fm_text_add(text, "%s (%" PRId64 " x %" PRId64 ") -> ", l->path, l->in_rows, l->in_channels);
    if (l->rank == 3)
        fm_text_add(text, "(%" PRId64 " x %" PRId64 ")", l->out_rows, l->out_channels);
    else
        fm_text_add(text, "(%" PRId64 ")", l->out_channels);
    fm_text_add(text, ", %" PRId64 " parameters\n", l->param_count);
}

static void print_variable(const struct fm_variable *v, struct fm_text *text)
{
    static const char *const kinds[] = {
        "zeros", "ones", "constant", "uniform", "normal", "truncated_normal", "orthogonal"};
    char number[FM_NUMBER_TEXT];
    fm_text_add(text, "%s [", v->name);
    for (int i = 0; i < v->rank; i++) fm_text_add(text, "%s%" PRId64, i ? ", " : "", v->shape[i]);
    fm_text_add(text, "] t%d at %" PRId64 " %s %s", v->tensor, v->offset, kinds[v->initializer],
                fm_format_number(v->a, number));
    fm_text_add(text, " %s%s\n", fm_format_number(v->b, number), v->trainable ? "" : " not trained");
}

void fm_program_print(const struct fm_program *p, struct fm_text *text)
{
    fm_text_add(text, "%" PRId64 " parameters, %" PRId64 " trained, %d stages, scores %" PRId64 "\n",
                p->param_count, p->trainable_count, p->stages, p->score_width);
    for (int i = 0; i < p->nlayers; i++) print_layer(&p->layers[i], text);
    for (int i = 0; i < p->nvariables; i++) print_variable(&p->variables[i], text);
    for (int s = 0; s < FM_SECTIONS; s++) {
        fm_text_add(text, "%s\n", fm_section_name((enum fm_section)s));
        for (int i = p->section_first[s]; i < p->section_first[s + 1]; i++) print_op(&p->ops[i], i, text);
    }
    for (int i = 0; i < p->ntensors; i++) print_tensor(&p->tensors[i], i, text);
}
