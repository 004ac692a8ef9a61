/* `cv`: its keys, the defaults that depend on the split, and the combinations that make no sense. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "config/parameter.h"
#include "config/tables.h"

struct raw {
    int split, leak;
    const struct fm_node *seed, *test_size, *file, *column, *inner;
    int64_t folds, blocks, repeats, max_train_size, gap, embargo;
    bool shuffle, purge;
};

static const char *const split_names[] = {
    "kfold",       "stratified",          "group",   "stratified_group", "blocked",
    "time_series", "leave_one_group_out", "holdout", "predefined",       NULL};
static const char *const leak_names[] = {"warn", "error", NULL};

#define WHOLE(name, min, fallback, help)                                                                     \
    {                                                                                                        \
#name, FM_KEY_INTEGER, offsetof(struct raw, name), min, FM_KEY_MAX_INTEGER, NULL, fallback, 0, help  \
    }
#define NODE(name, help)                                                                                     \
    {                                                                                                        \
#name, FM_KEY_NODE, offsetof(struct raw, name), 0, 0, NULL, NULL, FM_NULLABLE, help                  \
    }

const struct fm_key fm_cv_keys[] = {
    {"split", FM_KEY_CHOICE, offsetof(struct raw, split), 0, 0, split_names, NULL, FM_REQUIRED,
     "how the examples are divided into training and validation"},
    {"folds", FM_KEY_INTEGER, offsetof(struct raw, folds), 1, FM_KEY_MAX_INTEGER, NULL, NULL, 0,
     "number of folds; default 3 (holdout 1; leave_one_group_out and predefined: as many as there are)"},
    {"seed", FM_KEY_NODE, offsetof(struct raw, seed), 0, 0, NULL, "0", FM_NULLABLE,
     "random_state of shuffled splits; a parameter may stand here"},
    {"shuffle", FM_KEY_BOOL, offsetof(struct raw, shuffle), 0, 0, NULL, NULL, 0,
     "draw the folds at random; default true for kfold, stratified and holdout"},
    WHOLE(blocks, 2, NULL, "blocked: pieces that are dealt to the folds; default as many as folds"),
    WHOLE(repeats, 1, "1", "how often everything is repeated with new splits and new training seeds"),
    NODE(test_size,
         "holdout: share or number of the examples; time_series: number; default 0.25 for holdout"),
    WHOLE(max_train_size, 1, NULL, "time_series: at most so many training examples"),
    WHOLE(gap, 0, "0", "time_series: examples left out between training and validation"),
    {"purge", FM_KEY_BOOL, offsetof(struct raw, purge), 0, 0, NULL, NULL, 0,
     "leave out training windows that share a position with a validation window; default true where order is "
     "kept"},
    WHOLE(embargo, 0, "0",
          "positions after a validation window that no training window may touch; implies purge"),
    {"leak", FM_KEY_CHOICE, offsetof(struct raw, leak), 0, 0, leak_names, "warn", 0,
     "what to do when shared positions remain"},
    NODE(file, "predefined: a CSV of record,fold or example,fold"),
    NODE(column, "predefined: a column of the data, read at the anchor"),
    NODE(inner, "{split: holdout, test_size: 0.2}: early stopping watches a part of the training set"),
    {0},
};

struct raw_inner {
    int split;
    double test_size;
};

static const char *const inner_names[] = {"holdout", NULL};

const struct fm_key fm_inner_keys[] = {
    {"split", FM_KEY_CHOICE, offsetof(struct raw_inner, split), 0, 0, inner_names, "holdout", 0,
     "always holdout: one fold of the outer split's kind"},
    {"test_size", FM_KEY_NUMBER, offsetof(struct raw_inner, test_size), 0, 1, NULL, "0.2",
     FM_OPEN_MIN | FM_OPEN_MAX, "share of the training part"},
    {0},
};

struct checking {
    const struct fm_node *map;
    enum fm_split_kind split;
    struct fm_error *err;
};

static bool is_given(const struct checking *c, const char *key)
{
    const struct fm_node *node = fm_node_get(c->map, key);
    return node && fm_node_type(node) != FM_NULL;
}

/* Refuses `key` when it was given and the split is none of `splits` (a bit each); `text` says who takes it.
 */
static int only_for(const struct checking *c, const char *key, unsigned splits, const char *text)
{
    if (!is_given(c, key) || (splits >> c->split & 1)) return 0;
    return fm_node_fail(fm_node_key(c->map, key), FM_EFILE, c->err, "cv.%s %s; cv.split is %s", key, text,
                        split_names[c->split]);
}

#define BIT(kind) (1u << FM_SPLIT_##kind)

static int check_folds(const struct checking *c, struct fm_cv_config *cv, int64_t folds)
{
    const struct fm_node *key = fm_node_key(c->map, "folds");
    bool counted = c->split == FM_SPLIT_LEAVE_ONE_GROUP_OUT || c->split == FM_SPLIT_PREDEFINED;
    if (counted && key) {
        return fm_node_fail(
            key, FM_EFILE, c->err, "cv.folds cannot be given with split %s: there are as many as the %s",
            split_names[c->split], c->split == FM_SPLIT_PREDEFINED ? "fold numbers" : "groups");
    }
    if (c->split == FM_SPLIT_HOLDOUT && key && folds != 1) {
        return fm_node_fail(key, FM_EFILE, c->err,
                            "cv.folds is %lld, but holdout has one fold; use cv.repeats for more",
                            (long long)folds);
    }
    if (c->split != FM_SPLIT_HOLDOUT && key && folds < 2) {
        return fm_node_fail(key, FM_EFILE, c->err,
                            "cv.folds is 1; expected at least 2 (one fold is split: holdout)");
    }
    cv->folds = counted ? 0 : c->split == FM_SPLIT_HOLDOUT ? 1 : key ? folds : 3;
    return 0;
}

static int check_keys(const struct checking *c)
{
    int code = only_for(c, "blocks", BIT(BLOCKED), "is for split: blocked");
    if (!code)
        code = only_for(c, "test_size", BIT(TIME_SERIES) | BIT(HOLDOUT), "is for time_series and holdout");
    if (!code) code = only_for(c, "max_train_size", BIT(TIME_SERIES), "is for split: time_series");
    if (!code) code = only_for(c, "gap", BIT(TIME_SERIES), "is for split: time_series");
    if (!code) code = only_for(c, "file", BIT(PREDEFINED), "is for split: predefined");
    if (!code) code = only_for(c, "column", BIT(PREDEFINED), "is for split: predefined");
    return code;
}

/* Order is what blocked and time_series are about; the other two take the folds as they are. */
static int check_shuffle(const struct checking *c, struct fm_cv_config *cv, bool shuffle)
{
    const unsigned shuffled = BIT(KFOLD) | BIT(STRATIFIED) | BIT(HOLDOUT);
    const unsigned never = BIT(BLOCKED) | BIT(TIME_SERIES) | BIT(LEAVE_ONE_GROUP_OUT) | BIT(PREDEFINED);
    const struct fm_node *key = fm_node_key(c->map, "shuffle");
    cv->shuffle = key ? shuffle : (shuffled >> c->split & 1);
    if (!cv->shuffle || !(never >> c->split & 1)) return 0;
    return fm_node_fail(key, FM_EFILE, c->err, "cv.shuffle: true cannot be with split %s, %s",
                        split_names[c->split],
                        c->split == FM_SPLIT_BLOCKED || c->split == FM_SPLIT_TIME_SERIES
                            ? "which keeps the order of the data"
                            : "whose folds are given by the data");
}

static int check_purge(const struct checking *c, struct fm_cv_config *cv, const struct raw *raw)
{
    bool keeps_order = c->split == FM_SPLIT_BLOCKED || c->split == FM_SPLIT_TIME_SERIES ||
                       (c->split == FM_SPLIT_HOLDOUT && !cv->shuffle);
    const struct fm_node *key = fm_node_key(c->map, "purge");
    cv->purge = key ? raw->purge : keeps_order || raw->embargo > 0;
    cv->embargo = raw->embargo;
    if (cv->embargo == 0 || cv->purge) return 0;
    return fm_node_fail(key, FM_EFILE, c->err,
                        "cv.purge: false contradicts cv.embargo: %lld, which implies purging",
                        (long long)raw->embargo);
}

static int read_test_size(const struct checking *c, struct fm_cv_config *cv, const struct fm_node *node)
{
    double share;
    int64_t count;
    if (!node) {
        if (c->split == FM_SPLIT_HOLDOUT) cv->test_size = 0.25;
        return 0;
    }
    int code = fm_node_number(node, "cv.test_size", &share, c->err);
    if (code) return code;
    if (share > 0 && share < 1) {
        cv->test_size = share;
        if (c->split == FM_SPLIT_HOLDOUT) return 0;
        return fm_node_fail(node, FM_EFILE, c->err,
                            "cv.test_size is %s; time_series takes a number of examples", node->text);
    }
    if (share < 1 || share > FM_KEY_MAX_INTEGER || floor(share) != share) {
        return fm_node_fail(node, FM_EFILE, c->err,
                            "cv.test_size is %s; expected a share between 0 and 1 or a number of examples",
                            node->text);
    }
    code = fm_node_integer(node, "cv.test_size", &count, c->err);
    cv->test_count = code ? 0 : count;
    return code;
}

static int check_predefined(const struct checking *c, const struct fm_cv_config *cv,
                            const struct fm_data_config *data)
{
    bool arrays = data->source == FM_SOURCE_NPZ || data->source == FM_SOURCE_NPY;
    if (c->split != FM_SPLIT_PREDEFINED) {
        if (!data->array_fold) return 0;
        return fm_node_fail(fm_node_key(data->where, "fold"), FM_EFILE, c->err,
                            "data.fold is used only with cv.split: predefined");
    }
    int given = (cv->file != NULL) + (cv->column != NULL) + (data->array_fold != NULL);
    const char *ways = arrays                           ? "cv.file or data.fold"
                       : data->source == FM_SOURCE_SINE ? "cv.file"
                                                        : "cv.file or cv.column";
    if (cv->column && (arrays || data->source == FM_SOURCE_SINE)) {
        return fm_node_fail(fm_node_key(c->map, "column"), FM_EFILE, c->err,
                            "cv.column is for csv and sequences; this source takes %s", ways);
    }
    if (given == 1) return 0;
    return fm_node_fail(c->map, FM_EFILE, c->err, "split: predefined needs %s of %s",
                        given ? "only one" : "one", ways);
}

static int read_inner(const struct checking *c, struct fm_cv_config *cv, const struct fm_node *node,
                      struct fm_notes *notes)
{
    struct raw_inner raw = {0};
    if (!node) return 0;
    int code = fm_keys_read(fm_inner_keys, node, node, "cv.inner", &raw, NULL, notes, c->err);
    if (code) return code;
    cv->has_inner = true;
    cv->inner_test_size = raw.test_size;
    bool last_part = c->split == FM_SPLIT_TIME_SERIES || (c->split == FM_SPLIT_HOLDOUT && !cv->shuffle);
    if (last_part || nearbyint(1 / raw.test_size) >= 2) return 0;
    return fm_node_fail(
        fm_node_get(node, "test_size"), FM_EFILE, c->err,
        "cv.inner.test_size is too large: the inner part is one of round(1/test_size) folds, at least "
        "two; use 0.5 or less");
}

/* Seeds of splits are random_state of MT19937: 32 bits. */
static int check_seed(const struct fm_node *seed, struct fm_error *err)
{
    int64_t value;
    if (!seed || fm_parameter_is(seed)) return 0;
    int code = fm_node_integer(seed, "cv.seed", &value, err);
    if (code) return code;
    if (value >= 0 && value <= 4294967295) return 0;
    return fm_node_fail(seed, FM_EFILE, err, "cv.seed is %s; expected 0 to 4294967295", seed->text);
}

int fm_cv_read(struct fm_cv_config *cv, const struct fm_data_config *data, const struct fm_node *map,
               struct fm_notes *notes, struct fm_error *err)
{
    struct raw raw = {0};
    int code = fm_keys_read(fm_cv_keys, map, map, "cv", &raw, NULL, notes, err);
    if (code) return code;
    struct checking c = {map, (enum fm_split_kind)raw.split, err};
    cv->split = c.split;
    cv->where = map;
    cv->seed = raw.seed;
    cv->blocks = raw.blocks;
    cv->repeats = raw.repeats;
    cv->max_train_size = raw.max_train_size;
    cv->gap = raw.gap;
    cv->leak = (enum fm_leak)raw.leak;
    cv->file = raw.file;
    cv->column = raw.column;
    code = check_folds(&c, cv, raw.folds);
    if (!code) code = check_keys(&c);
    if (!code) code = check_shuffle(&c, cv, raw.shuffle);
    if (!code) code = check_purge(&c, cv, &raw);
    if (!code) code = read_test_size(&c, cv, raw.test_size);
    if (!code) code = fm_name_check(cv->file, "cv.file", err);
    if (!code) code = fm_name_check(cv->column, "cv.column", err);
    if (!code) code = check_predefined(&c, cv, data);
    if (!code) code = check_seed(raw.seed, err);
    if (!code) code = read_inner(&c, cv, raw.inner, notes);
    if (code || cv->blocks == 0 || cv->blocks >= cv->folds) return code;
    return fm_node_fail(fm_node_get(map, "blocks"), FM_EFILE, err,
                        "cv.blocks is %lld, fewer than the %lld folds: each fold needs a block",
                        (long long)cv->blocks, (long long)cv->folds);
}
