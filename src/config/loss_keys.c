/* `train.loss`: which loss, and its arguments. */
#include <string.h>

#include "base/error.h"
#include "config/tables.h"
#include "config/train_parts.h"

struct raw {
    bool from_logits;
    double label_smoothing, delta;
};

#define FROM_LOGITS                                                                                          \
    {                                                                                                        \
        "from_logits", FM_KEY_BOOL, offsetof(struct raw, from_logits), 0, 0, NULL, "false", 0,               \
            "the last layer gives logits; needed when it is neither softmax nor sigmoid"                     \
    }
#define LABEL_SMOOTHING                                                                                      \
    {                                                                                                        \
        "label_smoothing", FM_KEY_NUMBER, offsetof(struct raw, label_smoothing), 0, 1, NULL, "0", 0,         \
            "share of the target that is spread over all classes"                                            \
    }

const struct fm_key fm_crossentropy_keys[] = {FROM_LOGITS, LABEL_SMOOTHING, {0}};
const struct fm_key fm_sparse_keys[] = {FROM_LOGITS, {0}};
const struct fm_key fm_no_keys[] = {{0}};
const struct fm_key fm_huber_keys[] = {
    {"delta", FM_KEY_NUMBER, offsetof(struct raw, delta), 0, 1e30, NULL, "1", FM_OPEN_MIN,
     "where the error's cost turns from quadratic to linear"},
    {0},
};

static const char *const loss_names[] = {"categorical_crossentropy",
                                         "sparse_categorical_crossentropy",
                                         "binary_crossentropy",
                                         "mse",
                                         "mae",
                                         "huber",
                                         NULL};
static const char *const later_names[] = {"categorical_focal_crossentropy", "binary_focal_crossentropy",
                                          NULL};

static const struct fm_key *loss_keys(enum fm_loss_kind kind)
{
    switch (kind) {
    case FM_LOSS_CATEGORICAL_CROSSENTROPY:
    case FM_LOSS_BINARY_CROSSENTROPY: return fm_crossentropy_keys;
    case FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY: return fm_sparse_keys;
    case FM_LOSS_HUBER: return fm_huber_keys;
    default: return fm_no_keys;
    }
}

int fm_loss_read(struct fm_train_config *train, const struct fm_node *node, bool *known,
                 struct fm_notes *notes, struct fm_error *err)
{
    const struct fm_node *name, *arguments;
    struct raw raw = {.delta = 1};
    int kind = 0;
    int code = fm_named_read(node, "train.loss", &name, &arguments, err);
    if (code) return code;
    for (const char *const *later = later_names; *later; later++) {
        if (strcmp(name->text, *later) == 0) {
            return fm_node_fail(name, FM_ELATER, err, "train.loss: %s is not available yet", *later);
        }
    }
    code = fm_choice_read(name, "train.loss", loss_names, &kind, err);
    if (code) return code;
    *known = true;
    train->loss.kind = (enum fm_loss_kind)kind;
    code =
        fm_keys_read(loss_keys(train->loss.kind), arguments, name, loss_names[kind], &raw, NULL, notes, err);
    train->loss.from_logits = raw.from_logits;
    train->loss.label_smoothing = raw.label_smoothing;
    train->loss.delta = raw.delta;
    train->loss.where = name;
    return code;
}
