/* The end of the network: the last activation goes into the loss, the outputs must fit the target, the loss
 * comes. */
#include <inttypes.h>
#include <stdio.h>

#include "net/builder.h"

static bool categorical(enum fm_loss_kind kind)
{
    return kind == FM_LOSS_CATEGORICAL_CROSSENTROPY || kind == FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
}

static const char *loss_name(enum fm_loss_kind kind)
{
    switch (kind) {
    case FM_LOSS_CATEGORICAL_CROSSENTROPY: return "categorical_crossentropy";
    case FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY: return "sparse_categorical_crossentropy";
    case FM_LOSS_BINARY_CROSSENTROPY: return "binary_crossentropy";
    case FM_LOSS_MSE: return "mse";
    case FM_LOSS_MAE: return "mae";
    case FM_LOSS_HUBER: return "huber";
    }
    return "loss";
}

/* Takes a last softmax (or sigmoid) out of the program: the loss works on what went into it, as Keras does on
 * TensorFlow (semantics.md, trap 1). A softmax over more than one row is not one over the outputs. */
static bool fold(struct fm_builder *b, enum fm_activation kind)
{
    struct fm_program *p = b->program;
    const struct fm_op *last = &p->ops[p->nops - 1];
    if (last->code != FM_OP_ACTIVATION || last->activation.kind != kind || last->out[0] != b->value ||
        last->in_rows != 1 || last->in_channels != b->channels)
        return false;
    b->value = last->in[0];
    p->nops--;
    p->ntensors--;
    return true;
}

static int check_logits(struct fm_builder *b, bool folded, const char *activation, struct fm_error *err)
{
    const struct fm_train_config *train = b->train;
    const struct fm_layer_info *layer = &b->program->layers[b->layer];
    const char *loss = loss_name(train->loss.kind);
    if (folded && train->loss.from_logits)
        fm_note(b->notes, FM_WARNING,
                "%s has from_logits: true, but the last layer (%s) is a %s; the loss is computed from what "
                "goes into "
                "it, as without from_logits",
                loss, layer->path, activation);
    if (folded || train->loss.from_logits) return 0;
    return fm_builder_fail(
        b, FM_EFILE, err,
        "%s needs %s as the last activation, or from_logits: true if the outputs are logits", loss,
        activation);
}

static int wrong_outputs(const struct fm_builder *b, struct fm_error *err, const char *target, int64_t wanted,
                         const char *more)
{
    return fm_builder_fail(b, FM_ESHAPE, err,
                           "the network has %" PRId64 " output%s, but %s; units: %" PRId64 "%s fits",
                           b->channels, b->channels == 1 ? "" : "s", target, wanted, more);
}

static int check_categorical(const struct fm_builder *b, struct fm_error *err)
{
    const struct fm_net_input *in = b->input;
    enum fm_loss_kind kind = b->train->loss.kind;
    char target[96];
    if (in->distribution) {
        if (kind == FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY)
            return fm_node_fail(
                b->train->loss.where, FM_EFILE, err,
                "sparse_categorical_crossentropy takes class numbers, but the target is a distribution "
                "over %" PRId64 " classes; use categorical_crossentropy",
                in->target_width);
        snprintf(target, sizeof target, "the target is a distribution over %" PRId64 " classes",
                 in->target_width);
        return b->channels == in->target_width ? 0 : wrong_outputs(b, err, target, in->target_width, "");
    }
    if (in->nclasses <= 0)
        return fm_node_fail(b->train->loss.where, FM_EFILE, err,
                            "%s needs classes, but the target is numbers; use mse", loss_name(kind));
    snprintf(target, sizeof target, "the target has %" PRId64 " classes", in->nclasses);
    if (in->exact_classes && b->channels != in->nclasses)
        return wrong_outputs(b, err, target, in->nclasses, "");
    return 0;
}

static int check_binary(const struct fm_builder *b, struct fm_error *err)
{
    const struct fm_net_input *in = b->input;
    if (in->distribution || in->nclasses <= 0)
        return fm_node_fail(b->train->loss.where, FM_EFILE, err,
                            "binary_crossentropy needs a target of two classes, but this one is %s",
                            in->distribution ? "a distribution; use categorical_crossentropy"
                                             : "numbers; use mse");
    if (in->nclasses > 2)
        return fm_builder_fail(b, FM_ESHAPE, err,
                               "binary_crossentropy is for two classes, but the target has %" PRId64
                               "; use sparse_categorical_crossentropy with as many units and softmax",
                               in->nclasses);
    return b->channels == 1 ? 0 : wrong_outputs(b, err, "binary_crossentropy takes one", 1, " with sigmoid");
}

static int check_numbers(const struct fm_builder *b, struct fm_error *err)
{
    const struct fm_net_input *in = b->input;
    char target[96];
    if (in->nclasses > 0 && !in->distribution)
        return fm_node_fail(
            b->train->loss.where, FM_EFILE, err,
            "%s needs numbers as targets, but these are classes; use sparse_categorical_crossentropy",
            loss_name(b->train->loss.kind));
    if (b->channels == in->target_width) return 0;
    snprintf(target, sizeof target, "the target has %" PRId64 " number%s", in->target_width,
             in->target_width == 1 ? "" : "s");
    return wrong_outputs(b, err, target, in->target_width, "");
}

static int check_shape(const struct fm_builder *b, struct fm_error *err)
{
    char shape[FM_SHAPE_TEXT];
    if (b->rank == 3)
        return fm_builder_fail(
            b, FM_ESHAPE, err,
            "the network ends in %s, but the loss takes one row of numbers; put flatten or "
            "global_average_pooling1d before the last dense",
            fm_builder_shape(b, shape));
    if (b->program->trainable_count == 0)
        return fm_builder_fail(b, FM_EFILE, err,
                               "the model has nothing to train; it needs a dense or conv1d layer");
    return 0;
}

static int add_loss(struct fm_builder *b, bool logits, struct fm_error *err)
{
    struct fm_program *p = b->program;
    struct fm_op *op;
    int report;
    enum fm_loss_kind kind = b->train->loss.kind;
    p->loss.kind = kind;
    p->loss.logits = logits;
    p->loss.outputs = b->channels;
    if (kind == FM_LOSS_CATEGORICAL_CROSSENTROPY || kind == FM_LOSS_BINARY_CROSSENTROPY)
        p->loss.label_smoothing = b->train->loss.label_smoothing;
    if (kind == FM_LOSS_HUBER) p->loss.delta = b->train->loss.delta;
    p->score_width = categorical(kind) && b->channels == 2 ? 1 : b->channels;
    int rc = fm_builder_tensor(b, FM_TENSOR_REPORT, FM_F32, 1, 1, &report, err);
    if (!rc) rc = fm_builder_op(b, FM_OP_LOSS, &op, err);
    if (rc) return rc;
    op->in[0] = b->value;
    op->out[0] = report;
    op->in_rows = 1;
    op->in_channels = b->channels;
    op->out_rows = op->out_channels = 1;
    return 0;
}

int fm_builder_head(struct fm_builder *b, struct fm_error *err)
{
    enum fm_loss_kind kind = b->train->loss.kind;
    bool logits = false;
    int rc = check_shape(b, err);
    if (rc) return rc;
    if (categorical(kind)) {
        rc = check_categorical(b, err);
        if (!rc) rc = check_logits(b, fold(b, FM_ACT_SOFTMAX), "softmax", err);
        logits = true;
    } else if (kind == FM_LOSS_BINARY_CROSSENTROPY) {
        rc = check_binary(b, err);
        if (!rc) rc = check_logits(b, fold(b, FM_ACT_SIGMOID), "sigmoid", err);
        logits = true;
    } else {
        rc = check_numbers(b, err);
    }
    if (rc) return rc;
    return add_loss(b, logits, err);
}
