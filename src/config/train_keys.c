/* `train`: its keys. Loss, optimizer and early stopping have files of their own. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "config/tables.h"
#include "config/train_parts.h"

struct raw {
    const struct fm_node *loss, *optimizer, *early_stopping, *class_weight, *metrics;
    int64_t batch_size, epochs, steps_per_epoch, seed;
    bool shuffle;
    int on_nan;
};

static const char *const nan_names[] = {"stop", "skip", "rollback", "keras", NULL};

#define WHOLE(name, min, max, fallback, flags, help)                                                         \
    {                                                                                                        \
#name, FM_KEY_INTEGER, offsetof(struct raw, name), min, max, NULL, fallback, flags, help             \
    }

const struct fm_key fm_train_keys[] = {
    {"loss", FM_KEY_NODE, offsetof(struct raw, loss), 0, 0, NULL, NULL, FM_REQUIRED,
     "what training makes small: categorical_crossentropy, sparse_categorical_crossentropy, "
     "binary_crossentropy, "
     "mse, mae, huber"},
    {"optimizer", FM_KEY_NODE, offsetof(struct raw, optimizer), 0, 0, NULL, "adam", 0,
     "sgd, adam, adamw or rmsprop, with Keras's arguments and clipping"},
    WHOLE(batch_size, 1, 2147483647, "32", 0, "examples of a step; the last, smaller batch is used too"),
    WHOLE(epochs, 1, 2147483647, "10", 0, "passes over the training part (or steps_per_epoch steps each)"),
    WHOLE(steps_per_epoch, 1, FM_KEY_MAX_INTEGER, NULL, FM_NULLABLE,
          "steps of an epoch; default a whole pass"),
    {"shuffle", FM_KEY_BOOL, offsetof(struct raw, shuffle), 0, 0, NULL, "true", 0,
     "a new order of the training part in every pass"},
    WHOLE(seed, 0, FM_KEY_MAX_INTEGER, "0", 0, "seed of initial weights, shuffles and dropout"),
    {"learning_rate_schedule", FM_KEY_NODE, 0, 0, 0, NULL, NULL, FM_LATER,
     "Keras's schedules, reduce_lr_on_plateau"},
    {"early_stopping", FM_KEY_NODE, offsetof(struct raw, early_stopping), 0, 0, NULL, NULL, FM_NULLABLE,
     "Keras's {monitor, patience, ...} or Prechelt's {rule: gl | pq | up, ...}"},
    {"on_nan", FM_KEY_CHOICE, offsetof(struct raw, on_nan), 0, 0, nan_names, "stop", 0,
     "what to do with a step whose gradients are not finite"},
    {"class_weight", FM_KEY_NODE, offsetof(struct raw, class_weight), 0, 0, NULL, NULL, FM_NULLABLE,
     "balanced, or {class: weight} by class name"},
    {"metrics", FM_KEY_NODE, offsetof(struct raw, metrics), 0, 0, NULL, NULL, FM_NULLABLE,
     "measured each epoch; default accuracy or mae"},
    {0},
};

/* ---- metrics ---- */

const char *const fm_metric_names[FM_METRICS + 1] = {
    "loss",   "accuracy", "balanced_accuracy", "auc", "pr_auc", "precision",
    "recall", "f1",       "macro_f1",          "mcc", "mse",    "mae",
    "r2",     NULL,
};
static const char *const part_prefixes[] = {"", "inner_", "val_"};

bool fm_metric_maximize(enum fm_metric metric)
{
    return metric != FM_METRIC_LOSS && metric != FM_METRIC_MSE && metric != FM_METRIC_MAE;
}

bool fm_metric_is_regression(enum fm_metric metric)
{
    return metric == FM_METRIC_MSE || metric == FM_METRIC_MAE || metric == FM_METRIC_R2;
}

bool fm_loss_is_regression(enum fm_loss_kind kind)
{
    return kind == FM_LOSS_MSE || kind == FM_LOSS_MAE || kind == FM_LOSS_HUBER;
}

int fm_metric_fits(enum fm_metric metric, enum fm_loss_kind loss, const struct fm_node *node,
                   const char *path, struct fm_error *err)
{
    bool regression = fm_loss_is_regression(loss);
    if (metric == FM_METRIC_LOSS || fm_metric_is_regression(metric) == regression) return 0;
    return fm_node_fail(node, FM_EFILE, err, "%s: %s measures %s, but train.loss is %s", path,
                        fm_metric_names[metric], regression ? "classes" : "numbers",
                        regression ? "one for numbers" : "one for classes");
}

int fm_monitor_read(const struct fm_node *node, const char *path, struct fm_monitor *monitor,
                    struct fm_error *err)
{
    const char *text;
    char names[2 * FM_METRICS][32], shown[64];
    const char *list[2 * FM_METRICS], *near = NULL;
    int code = fm_node_text(node, path, &text, err);
    if (code) return code;
    for (int part = FM_PART_VAL; part >= FM_PART_TRAIN; part--) {
        size_t size = strlen(part_prefixes[part]);
        if (strncmp(text, part_prefixes[part], size) != 0) continue;
        for (int m = 0; m < FM_METRICS; m++) {
            if (strcmp(text + size, fm_metric_names[m]) != 0) continue;
            /* Of the training part only the loss is known: metrics would need a pass of their own. */
            if (part == FM_PART_TRAIN && m != FM_METRIC_LOSS) continue;
            *monitor = (struct fm_monitor){(enum fm_part)part, (enum fm_metric)m};
            return 0;
        }
    }
    for (size_t i = 0; i < 2 * FM_METRICS; i++) {
        snprintf(names[i], sizeof names[i], "%s%s", part_prefixes[i % 2 ? FM_PART_INNER : FM_PART_VAL],
                 fm_metric_names[i / 2]);
        list[i] = names[i];
        if (strcmp(text, fm_metric_names[i / 2]) == 0 && !near) near = names[i];
    }
    if (!near) near = fm_nearest(text, list, 2 * FM_METRICS);
    fm_show(text, node->size, shown, sizeof shown);
    if (near) return fm_node_fail(node, FM_EFILE, err, "%s is %s; did you mean %s?", path, shown, near);
    return fm_node_fail(
        node, FM_EFILE, err,
        "%s is %s; expected val_loss or val_ (or inner_) with one of accuracy, balanced_accuracy, auc, "
        "pr_auc, precision, recall, f1, macro_f1, mcc, mse, mae, r2",
        path, shown);
}

const char *fm_monitor_name(struct fm_monitor monitor, char buffer[48])
{
    const char *prefix = part_prefixes[monitor.part];
    size_t size = strlen(prefix);
    memcpy(buffer, prefix, size);
    memcpy(buffer + size, fm_metric_names[monitor.metric], strlen(fm_metric_names[monitor.metric]) + 1);
    return buffer;
}

static int read_metric(struct fm_train_config *train, const struct fm_node *node, bool loss_known,
                       struct fm_error *err)
{
    int metric = 0;
    if (node->open) return 0;
    int code = fm_choice_read(node, "train.metrics", fm_metric_names + 1, &metric, err);
    if (code) return code;
    metric++;
    if (loss_known)
        code = fm_metric_fits((enum fm_metric)metric, train->loss.kind, node, "train.metrics", err);
    train->metrics |= UINT32_C(1) << metric;
    return code;
}

static int read_metrics(struct fm_train_config *train, const struct fm_node *node, bool loss_known,
                        struct fm_error *err)
{
    if (!node) {
        bool regression = fm_loss_is_regression(train->loss.kind);
        train->metrics = UINT32_C(1) << (regression ? FM_METRIC_MAE : FM_METRIC_ACCURACY);
        return 0;
    }
    train->metrics_given = true;
    if (node->kind != FM_LIST) return read_metric(train, node, loss_known, err);
    for (size_t i = 0; i < node->count; i++) {
        int code = read_metric(train, node->items[i], loss_known, err);
        if (code) return code;
    }
    return 0;
}

/* ---- class weights ---- */

static int read_class_weight(struct fm_train_config *train, const struct fm_node *node, struct fm_error *err)
{
    static const char *const names[] = {"balanced", NULL};
    int choice = 0;
    if (!node || node->open) return 0;
    if (node->kind != FM_MAP) {
        int code = fm_choice_read(node, "train.class_weight", names, &choice, err);
        train->class_weight = FM_CLASS_WEIGHT_BALANCED;
        return code;
    }
    for (size_t i = 0; i < node->count; i++) {
        double weight = 0;
        if (node->items[i]->open) continue;
        int code = fm_node_number(node->items[i], "train.class_weight", &weight, err);
        if (code) return code;
        if (weight >= 0 && weight <= 1e30) continue;
        return fm_node_fail(
            node->items[i], FM_EFILE, err,
            "the class weight of '%.60s' is %s; expected a number, at least 0 and at most 1e30",
            node->keys[i]->text, node->items[i]->text);
    }
    train->class_weight = FM_CLASS_WEIGHT_MAP;
    train->class_weight_map = node;
    return 0;
}

static int check_class_weight(const struct fm_train_config *train, const struct fm_node *node,
                              struct fm_error *err)
{
    if (train->class_weight == FM_CLASS_WEIGHT_NONE || !fm_loss_is_regression(train->loss.kind)) return 0;
    return fm_node_fail(node, FM_EFILE, err,
                        "train.class_weight needs classes, but train.loss is one for numbers");
}

/* ---- all of it ---- */

int fm_train_read(struct fm_train_config *train, const struct fm_node *tree, bool inner,
                  struct fm_notes *notes, struct fm_error *err)
{
    static const struct fm_node adam = {
        .kind = FM_SCALAR, .plain = true, .file = "", .text = "adam", .size = 4};
    struct raw raw = {0};
    memset(train, 0, sizeof *train);
    int code = fm_keys_read(fm_train_keys, tree, tree, "train", &raw, NULL, notes, err);
    if (code) return code;
    /* A loss that is still a parameter decides nothing that depends on it. */
    bool loss_known = raw.loss != NULL;
    train->batch_size = raw.batch_size;
    train->epochs = raw.epochs;
    train->steps_per_epoch = raw.steps_per_epoch;
    train->seed = raw.seed;
    train->shuffle = raw.shuffle;
    train->on_nan = (enum fm_on_nan)raw.on_nan;
    if (raw.loss) code = fm_loss_read(train, raw.loss, &loss_known, notes, err);
    if (!code) code = fm_optimizer_read(train, raw.optimizer ? raw.optimizer : &adam, notes, err);
    if (!code) code = fm_stopping_read(train, raw.early_stopping, inner, loss_known, notes, err);
    if (!code) code = read_class_weight(train, raw.class_weight, err);
    if (!code && loss_known) code = check_class_weight(train, raw.class_weight, err);
    return code ? code : read_metrics(train, raw.metrics, loss_known, err);
}
