/* `train.early_stopping`: Keras's (semantics.md 4.3) or Prechelt's (4.4). */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "config/tables.h"
#include "config/train_parts.h"

struct raw {
    const struct fm_node *monitor;
    double min_delta, baseline, alpha;
    int64_t patience, start_from_epoch, strips, strip;
    int mode, rule;
    bool restore_best_weights;
};

static const char *const mode_names[] = {"auto", "min", "max", NULL};
static const char *const rule_names[] = {"gl", "pq", "up", NULL};

#define WHOLE(name, min, fallback, help)                                                                     \
    {                                                                                                        \
#name, FM_KEY_INTEGER, offsetof(struct raw, name), min, FM_KEY_MAX_INTEGER, NULL, fallback, 0, help  \
    }

const struct fm_key fm_stop_keys[] = {
    {"monitor", FM_KEY_NODE, offsetof(struct raw, monitor), 0, 0, NULL, "val_loss", 0,
     "what is watched; default val_loss, inner_loss with cv.inner"},
    {"min_delta", FM_KEY_NUMBER, offsetof(struct raw, min_delta), -1e300, 1e300, NULL, "0", 0,
     "a smaller improvement is none"},
    WHOLE(patience, 0, "0", "epochs without improvement until training stops"),
    {"mode", FM_KEY_CHOICE, offsetof(struct raw, mode), 0, 0, mode_names, "auto", 0,
     "direction of the monitor"},
    {"baseline", FM_KEY_NUMBER, offsetof(struct raw, baseline), -1e300, 1e300, NULL, NULL, FM_NULLABLE,
     "patience counts until the monitor is better than this"},
    {"restore_best_weights", FM_KEY_BOOL, offsetof(struct raw, restore_best_weights), 0, 0, NULL, "false", 0,
     "keep the weights of the best epoch instead of the last"},
    WHOLE(start_from_epoch, 0, "0", "epochs that are not looked at"),
    {"verbose", FM_KEY_NODE, 0, 0, 0, NULL, NULL, FM_IGNORED, "Foldmill always says why a run stopped"},
    {0},
};

const struct fm_key fm_rule_keys[] = {
    {"rule", FM_KEY_CHOICE, offsetof(struct raw, rule), 0, 0, rule_names, NULL, FM_REQUIRED,
     "gl: generalisation loss; pq: loss over progress; up: errors that rise strip after strip"},
    {"alpha", FM_KEY_NUMBER, offsetof(struct raw, alpha), 0, 1e300, NULL, NULL, FM_OPEN_MIN,
     "gl (in percent) and pq: stop above this"},
    WHOLE(strips, 1, NULL, "up: stop after so many rising strips"),
    WHOLE(strip, 1, "5", "pq and up: epochs of a strip"),
    {0},
};

static int check_part(const struct fm_node *node, struct fm_monitor monitor, bool inner, struct fm_error *err)
{
    char name[48];
    if (monitor.part == FM_PART_VAL && inner) {
        return fm_node_fail(
            node, FM_EFILE, err,
            "monitor is %s, but with cv.inner the validation fold is only scored; expected inner_%s",
            fm_monitor_name(monitor, name), fm_metric_names[monitor.metric]);
    }
    if (monitor.part == FM_PART_INNER && !inner) {
        return fm_node_fail(node, FM_EFILE, err, "monitor is %s, but cv.inner is not given; expected val_%s",
                            fm_monitor_name(monitor, name), fm_metric_names[monitor.metric]);
    }
    return 0;
}

static int check_mode(const struct fm_node *map, struct fm_monitor monitor, int mode, struct fm_error *err)
{
    char name[48];
    bool maximize = fm_metric_maximize(monitor.metric);
    if (mode == FM_MODE_AUTO || (mode == FM_MODE_MAX) == maximize) return 0;
    return fm_node_fail(fm_node_get(map, "mode"), FM_EFILE, err,
                        "mode is %s, but %s is better when it is %s; leave mode out", mode_names[mode],
                        fm_monitor_name(monitor, name), maximize ? "larger" : "smaller");
}

static int read_keras(struct fm_train_config *train, const struct fm_node *map, bool inner, bool loss_known,
                      struct fm_notes *notes, struct fm_error *err)
{
    static const char *const rule_only[] = {"alpha", "strips", "strip"};
    const char *path = "train.early_stopping";
    struct raw raw = {0};
    for (size_t i = 0; i < 3 && map->kind == FM_MAP; i++) {
        const struct fm_node *key = fm_node_key(map, rule_only[i]);
        if (!key) continue;
        return fm_node_fail(key, FM_EFILE, err, "%s: %s needs rule: gl, pq or up", path, rule_only[i]);
    }
    int code = fm_keys_read(fm_stop_keys, map, map, path, &raw, NULL, notes, err);
    if (code) return code;
    struct fm_monitor monitor = {inner ? FM_PART_INNER : FM_PART_VAL, FM_METRIC_LOSS};
    if (raw.monitor) {
        code = fm_monitor_read(raw.monitor, "train.early_stopping.monitor", &monitor, err);
        if (!code) code = check_part(raw.monitor, monitor, inner, err);
        if (!code && loss_known) {
            code = fm_metric_fits(monitor.metric, train->loss.kind, raw.monitor,
                                  "train.early_stopping.monitor", err);
        }
    }
    /* A monitor that is still a parameter has no direction yet. */
    bool monitor_known = raw.monitor || !fm_node_get(map, "monitor");
    if (!code && monitor_known) code = check_mode(map, monitor, raw.mode, err);
    const struct fm_node *baseline = fm_node_get(map, "baseline");
    train->early_stopping.rule = FM_STOP_KERAS;
    train->early_stopping.monitor = monitor;
    train->early_stopping.mode = (enum fm_mode)raw.mode;
    train->early_stopping.min_delta = fabs(raw.min_delta);
    train->early_stopping.has_baseline = baseline && fm_node_type(baseline) != FM_NULL;
    train->early_stopping.baseline = raw.baseline;
    train->early_stopping.restore_best_weights = raw.restore_best_weights;
    train->early_stopping.patience = raw.patience;
    train->early_stopping.start_from_epoch = raw.start_from_epoch;
    return code;
}

/* Each rule has its own numbers; one that belongs to another rule would silently do nothing. */
static int check_rule_keys(const struct fm_node *map, enum fm_stop_rule rule, struct fm_error *err)
{
    static const struct {
        enum fm_stop_rule rule;
        const char *name, *needs, *others[3];
    } rules[] = {
        {FM_STOP_GL, "gl", "alpha", {"strips", "strip", NULL}},
        {FM_STOP_PQ, "pq", "alpha", {"strips", NULL, NULL}},
        {FM_STOP_UP, "up", "strips", {"alpha", NULL, NULL}},
    };
    for (size_t r = 0; r < 3; r++) {
        if (rules[r].rule != rule) continue;
        for (size_t i = 0; rules[r].others[i]; i++) {
            const struct fm_node *key = fm_node_key(map, rules[r].others[i]);
            if (!key) continue;
            return fm_node_fail(key, FM_EFILE, err, "train.early_stopping: rule %s takes no %s",
                                rules[r].name, rules[r].others[i]);
        }
        if (fm_node_get(map, rules[r].needs)) continue;
        return fm_node_fail(map, FM_EFILE, err, "train.early_stopping: rule %s needs %s", rules[r].name,
                            rules[r].needs);
    }
    return 0;
}

static int read_prechelt(struct fm_train_config *train, const struct fm_node *map, bool inner,
                         struct fm_notes *notes, struct fm_error *err)
{
    struct raw raw = {0};
    int code = fm_keys_read(fm_rule_keys, map, map, "train.early_stopping with rule", &raw, NULL, notes, err);
    if (code) return code;
    train->early_stopping.rule = (enum fm_stop_rule)(FM_STOP_GL + raw.rule);
    train->early_stopping.monitor = (struct fm_monitor){inner ? FM_PART_INNER : FM_PART_VAL, FM_METRIC_LOSS};
    train->early_stopping.mode = FM_MODE_MIN;
    train->early_stopping.alpha = raw.alpha;
    train->early_stopping.strips = raw.strips;
    train->early_stopping.strip = raw.strip;
    train->early_stopping.restore_best_weights = true;
    if (fm_node_get(map, "rule")->open) return 0;
    return check_rule_keys(map, train->early_stopping.rule, err);
}

int fm_stopping_read(struct fm_train_config *train, const struct fm_node *node, bool inner, bool loss_known,
                     struct fm_notes *notes, struct fm_error *err)
{
    if (!node) return 0;
    if (node->kind == FM_MAP && fm_node_get(node, "rule"))
        return read_prechelt(train, node, inner, notes, err);
    return read_keras(train, node, inner, loss_known, notes, err);
}
