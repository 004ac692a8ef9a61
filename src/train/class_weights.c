/* Class weights of one fold: "balanced" as scikit-learn's compute_class_weight over the classes that the
 * training part has, or the user's map by class name. */
#include "train/run.h"

#include <math.h>
#include <string.h>

static void balanced(const struct fm_fold *fold, int64_t nclasses, float *weights)
{
    int64_t n = 0, present = 0;
    for (int64_t c = 0; c < nclasses; c++) {
        n += fold->train_classes[c];
        present += fold->train_classes[c] > 0;
    }
    for (int64_t c = 0; c < nclasses; c++)
        if (fold->train_classes[c] > 0)
            weights[c] = (float)((double)n / ((double)present * (double)fold->train_classes[c]));
}

static int64_t find_class(const struct fm_dataset *data, const char *name)
{
    for (int64_t c = 0; c < data->nclasses; c++)
        if (data->class_names[c] && strcmp(data->class_names[c], name) == 0) return c;
    return -1;
}

static int unknown_class(const struct fm_dataset *data, const struct fm_node *key, struct fm_error *err)
{
    char shown[64], near_shown[64];
    fm_show(key->text, key->size, shown, sizeof shown);
    const char *near = fm_nearest(key->text, (const char *const *)data->class_names, (size_t)data->nclasses);
    if (!near) near = data->class_names[0];
    fm_show(near, strlen(near), near_shown, sizeof near_shown);
    return fm_node_fail(
        key, FM_EFILE, err,
        "train.class_weight: \"%s\" is none of the %lld classes of the target; did you mean \"%s\"?", shown,
        (long long)data->nclasses, near_shown);
}

static int from_map(const struct fm_node *map, const struct fm_dataset *data, float *weights,
                    struct fm_error *err)
{
    if (!map || map->kind != FM_MAP)
        return fm_fail(err, FM_EINTERNAL, "train.class_weight was accepted as a map but is none");
    for (size_t i = 0; i < map->count; i++) {
        double weight;
        int64_t c = find_class(data, map->keys[i]->text);
        if (c < 0) return unknown_class(data, map->keys[i], err);
        int code = fm_node_number(map->items[i], "train.class_weight", &weight, err);
        if (code < 0) return code;
        if (!(weight >= 0) || !isfinite((float)weight))
            return fm_node_fail(
                map->items[i], FM_EFILE, err,
                "train.class_weight: a weight must be a number from 0 up that a float can hold");
        weights[c] = (float)weight;
    }
    return 0;
}

int fm_class_weights(const struct fm_train_config *config, const struct fm_dataset *data,
                     const struct fm_fold *fold, float *weights, struct fm_error *err)
{
    if (config->class_weight == FM_CLASS_WEIGHT_NONE) {
        for (int64_t c = 0; c < data->nclasses; c++) weights[c] = 1;
        return 0;
    }
    if (data->nclasses == 0) {
        const char *text =
            "train.class_weight needs a target of classes, but this one is numbers: leave it out";
        if (config->class_weight_map)
            return fm_node_fail(config->class_weight_map, FM_EFILE, err, "%s", text);
        return fm_fail(err, FM_EFILE, "%s", text);
    }
    for (int64_t c = 0; c < data->nclasses; c++) weights[c] = 1;
    if (config->class_weight == FM_CLASS_WEIGHT_MAP)
        return from_map(config->class_weight_map, data, weights, err);
    if (!fold->train_classes)
        return fm_fail(err, FM_EINTERNAL, "a fold of class targets has no class counts");
    balanced(fold, data->nclasses, weights);
    return 0;
}
