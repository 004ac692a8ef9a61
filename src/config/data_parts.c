/* The parts of `data` that are mappings or lists: window, target, sequence, mask, missing values, scales. */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "config/parameter.h"
#include "config/tables.h"

/* ---- window ---- */

struct raw_window {
    const struct fm_node *length, *horizon;
    int64_t stride;
    int align, edge, label;
};

static const char *const align_names[] = {"start", "center", "end", NULL};
static const char *const edge_names[] = {"drop", "zero", "wrap", NULL};
static const char *const label_names[] = {"any",    "all",   "majority", "mean", "max",
                                          "anchor", "first", "center",   "last", NULL};

const struct fm_key fm_window_keys[] = {
    {"length", FM_KEY_NODE, offsetof(struct raw_window, length), 0, 0, NULL, NULL, FM_REQUIRED,
     "positions of a window; a parameter may stand here"},
    {"stride", FM_KEY_INTEGER, offsetof(struct raw_window, stride), 1, FM_KEY_MAX_INTEGER, NULL, "1", 0,
     "positions from one window (or anchor) to the next"},
    {"align", FM_KEY_CHOICE, offsetof(struct raw_window, align), 0, 0, align_names, NULL, 0,
     "which position is the anchor: start (series), center (sequences)"},
    {"edge", FM_KEY_CHOICE, offsetof(struct raw_window, edge), 0, 0, edge_names, NULL, 0,
     "windows over a record's end: drop (series), zero (sequences), wrap"},
    {"label", FM_KEY_CHOICE, offsetof(struct raw_window, label), 0, 0, label_names, NULL, 0,
     "how a window's label follows from its positions' labels; required for series when length > 1"},
    {"horizon", FM_KEY_NODE, offsetof(struct raw_window, horizon), 0, 0, NULL, "0", 0,
     "moves the label's place h positions on; [a, b]: the positions a..b after the window's last"},
    {0},
};

static int read_step(const struct fm_node *node, int64_t *value, struct fm_error *err)
{
    int code = fm_node_integer(node, "data.window.horizon", value, err);
    if (code) return code;
    if (*value >= 0 && *value <= (int64_t)FM_KEY_MAX_INTEGER) return 0;
    return fm_node_fail(node, FM_EFILE, err, "data.window.horizon is %s; expected a whole number, at least 0",
                        node->text);
}

static int read_horizon(struct fm_window_config *w, const struct fm_node *node, struct fm_error *err)
{
    if (!node) return 0;
    int code;
    if (node->kind == FM_SCALAR) {
        code = read_step(node, &w->horizon_first, err);
        w->horizon_last = w->horizon_first;
        return code;
    }
    if (node->kind != FM_LIST || node->count != 2) {
        return fm_node_fail(node, FM_EFILE, err, "data.window.horizon is a number h or a range [a, b]");
    }
    w->horizon_range = true;
    code = read_step(node->items[0], &w->horizon_first, err);
    if (!code) code = read_step(node->items[1], &w->horizon_last, err);
    if (code) return code;
    if (w->horizon_first > w->horizon_last) {
        return fm_node_fail(node, FM_EFILE, err, "data.window.horizon [a, b] needs a <= b");
    }
    if (!w->label_given || w->label > FM_LABEL_MAX) {
        return fm_node_fail(node, FM_EFILE, err,
                            "data.window.horizon [a, b] needs label: any, all, majority, mean or max");
    }
    return 0;
}

/* A series must say what the label of several positions is: there is no harmless guess. */
static int check_label(const struct fm_window_config *w, const struct fm_node *map, enum fm_source source,
                       struct fm_error *err)
{
    int64_t length = 2; /* a parameter may be more than 1 */
    if (!fm_parameter_is(w->length)) {
        int code = fm_node_integer(w->length, "data.window.length", &length, err);
        if (code) return code;
        if (length < 1 || length > (int64_t)FM_KEY_MAX_INTEGER) {
            return fm_node_fail(w->length, FM_EFILE, err, "data.window.length is %s; expected at least 1",
                                w->length->text);
        }
    }
    if (w->label_given || source == FM_SOURCE_SEQUENCES || length == 1) return 0;
    return fm_node_fail(
        map, FM_EFILE, err,
        "data.window.label is missing: a window of a series needs any, all, majority, mean, max, "
        "anchor, first, center or last");
}

int fm_window_read(struct fm_window_config *window, const struct fm_node *map, enum fm_source source,
                   struct fm_notes *notes, struct fm_error *err)
{
    bool sequences = source == FM_SOURCE_SEQUENCES;
    struct raw_window raw = {.align = sequences ? FM_ALIGN_CENTER : FM_ALIGN_START,
                             .edge = sequences ? FM_EDGE_ZERO : FM_EDGE_DROP,
                             .label = FM_LABEL_ANCHOR};
    int code = fm_keys_read(fm_window_keys, map, map, "data.window", &raw, NULL, notes, err);
    if (code) return code;
    window->where = map;
    window->length = raw.length;
    window->stride = raw.stride;
    window->align = (enum fm_align)raw.align;
    window->edge = (enum fm_edge)raw.edge;
    window->label = (enum fm_label)raw.label;
    window->label_given = fm_node_get(map, "label") != NULL;
    code = check_label(window, map, source, err);
    return code ? code : read_horizon(window, raw.horizon, err);
}

/* ---- letters and classes ---- */

/* Refuses a character (or an element) that stands twice, and fewer than two. */
static int check_letters(const struct fm_node *node, const char *path, struct fm_error *err)
{
    for (size_t i = 0; i < node->size;) {
        size_t length = 1;
        while (i + length < node->size && ((unsigned char)node->text[i + length] & 0xC0) == 0x80) length++;
        for (size_t k = 0; k + length <= i && i < 4096; k++) {
            if (memcmp(node->text + k, node->text + i, length) != 0) continue;
            return fm_node_fail(node, FM_EFILE, err, "%s holds '%.*s' twice", path, (int)length,
                                node->text + i);
        }
        i += length;
    }
    return 0;
}

static int check_class_list(const struct fm_node *list, struct fm_error *err)
{
    const char *text;
    if (list->count > 65536)
        return fm_node_fail(list, FM_EFILE, err, "data.target.classes has more than 65536 classes");
    json_t *seen = json_object();
    int code = seen ? 0 : fm_fail_memory(err);
    for (size_t i = 0; !code && i < list->count; i++) {
        const struct fm_node *item = list->items[i];
        code = fm_node_text(item, "data.target.classes", &text, err);
        if (code) break;
        if (json_object_get(seen, text)) {
            code = fm_node_fail(item, FM_EFILE, err, "data.target.classes names '%.60s' twice", text);
        } else if (json_object_set_new(seen, text, json_true())) {
            code = fm_fail_memory(err);
        }
    }
    json_decref(seen);
    return code;
}

static int check_classes(const struct fm_node *node, struct fm_error *err)
{
    int code;
    if (!node) return 0;
    size_t count = node->count;
    if (node->kind == FM_LIST) {
        code = check_class_list(node, err);
    } else {
        code = fm_name_check(node, "data.target.classes", err);
        if (!code) code = check_letters(node, "data.target.classes", err);
        for (size_t i = 0; !code && i < node->size; i++)
            count += ((unsigned char)node->text[i] & 0xC0) != 0x80;
    }
    if (code || count >= 2) return code;
    return fm_node_fail(node, FM_EFILE, err, "data.target.classes needs two classes at least");
}

static const char *const other_names[] = {"error", "skip", NULL};

struct raw_target {
    const struct fm_node *column, *classes;
    int other;
};

const struct fm_key fm_target_keys[] = {
    {"column", FM_KEY_NODE, offsetof(struct raw_target, column), 0, 0, NULL, NULL, FM_REQUIRED,
     "column of the labels"},
    {"classes", FM_KEY_NODE, offsetof(struct raw_target, classes), 0, 0, NULL, NULL, FM_NULLABLE,
     "class names in order (a text = its characters); default: the distinct values, sorted"},
    {"other", FM_KEY_CHOICE, offsetof(struct raw_target, other), 0, 0, other_names, "error", 0,
     "empty and unlisted labels: error, or skip (no anchor there)"},
    {0},
};

int fm_target_read(struct fm_data_config *data, const struct fm_node *node, struct fm_notes *notes,
                   struct fm_error *err)
{
    struct raw_target raw = {0};
    if (node->kind == FM_SCALAR) {
        data->target.column = node;
        return fm_name_check(node, "data.target", err);
    }
    int code = fm_keys_read(fm_target_keys, node, node, "data.target", &raw, NULL, notes, err);
    if (!code) code = fm_name_check(raw.column, "data.target.column", err);
    if (!code) code = check_classes(raw.classes, err);
    data->target.column = raw.column;
    data->target.classes = raw.classes;
    data->target.other = (enum fm_other)raw.other;
    return code;
}

static const char *const unknown_names[] = {"zero", "error", "letter", NULL};

struct raw_sequence {
    const struct fm_node *column, *alphabet;
    int unknown;
};

const struct fm_key fm_sequence_keys[] = {
    {"column", FM_KEY_NODE, offsetof(struct raw_sequence, column), 0, 0, NULL, NULL, FM_REQUIRED,
     "column of the strings, one character per position"},
    {"alphabet", FM_KEY_NODE, offsetof(struct raw_sequence, alphabet), 0, 0, NULL, NULL, FM_REQUIRED,
     "the letters in order, each a channel"},
    {"unknown", FM_KEY_CHOICE, offsetof(struct raw_sequence, unknown), 0, 0, unknown_names, "zero", 0,
     "letters outside the alphabet: all zeros, an error, or one more channel"},
    {0},
};

int fm_sequence_read(struct fm_data_config *data, const struct fm_node *map, struct fm_notes *notes,
                     struct fm_error *err)
{
    struct raw_sequence raw = {0};
    int code = fm_keys_read(fm_sequence_keys, map, map, "data.sequence", &raw, NULL, notes, err);
    if (!code) code = fm_name_check(raw.column, "data.sequence.column", err);
    if (!code) code = fm_name_check(raw.alphabet, "data.sequence.alphabet", err);
    if (!code) code = check_letters(raw.alphabet, "data.sequence.alphabet", err);
    for (size_t i = 0; !code && i < raw.alphabet->size; i++) {
        if ((unsigned char)raw.alphabet->text[i] < 0x80) continue;
        code = fm_node_fail(raw.alphabet, FM_EFILE, err,
                            "data.sequence.alphabet holds a letter outside ASCII; a letter is one byte");
    }
    data->sequence.column = raw.column;
    data->sequence.alphabet = raw.alphabet;
    data->sequence.unknown = (enum fm_unknown)raw.unknown;
    return code;
}

struct raw_mask {
    const struct fm_node *column, *keep;
};

const struct fm_key fm_mask_keys[] = {
    {"column", FM_KEY_NODE, offsetof(struct raw_mask, column), 0, 0, NULL, NULL, FM_REQUIRED,
     "column to look at"},
    {"keep", FM_KEY_NODE, offsetof(struct raw_mask, keep), 0, 0, NULL, NULL, FM_REQUIRED,
     "the value, as written in the data, of positions that may be anchors"},
    {0},
};

int fm_mask_read(struct fm_data_config *data, const struct fm_node *map, struct fm_notes *notes,
                 struct fm_error *err)
{
    struct raw_mask raw = {0};
    int code = fm_keys_read(fm_mask_keys, map, map, "data.mask", &raw, NULL, notes, err);
    if (!code) code = fm_name_check(raw.column, "data.mask.column", err);
    if (!code) code = fm_name_check(raw.keep, "data.mask.keep", err);
    data->mask.column = raw.column;
    data->mask.keep = raw.keep;
    return code;
}

/* ---- rules with exceptions per column ---- */

static const char *const missing_names[] = {"error", "drop", "interpolate", "ffill", NULL};

/* {ffill: 5} or {interpolate: 5}; any other mapping is one per column. */
static bool is_limited_rule(const struct fm_node *node)
{
    if (node->kind != FM_MAP || node->count != 1 || fm_node_type(node->items[0]) != FM_INTEGER) return false;
    return strcmp(node->keys[0]->text, "ffill") == 0 || strcmp(node->keys[0]->text, "interpolate") == 0;
}

static int read_limit(struct fm_missing_rule *rule, const struct fm_node *node, const char *path,
                      struct fm_error *err)
{
    rule->kind = node->keys[0]->text[0] == 'f' ? FM_MISSING_FFILL : FM_MISSING_INTERPOLATE;
    int code = fm_node_integer(node->items[0], path, &rule->limit, err);
    if (code) return code;
    if (rule->limit >= 1 && rule->limit <= (int64_t)FM_KEY_MAX_INTEGER) return 0;
    return fm_node_fail(node->items[0], FM_EFILE, err, "%s.%s is %s; expected at least 1 value in a row",
                        path, node->keys[0]->text, node->items[0]->text);
}

static int read_rule(struct fm_missing_rule *rule, const struct fm_node *node, const char *path,
                     struct fm_error *err)
{
    if (is_limited_rule(node)) return read_limit(rule, node, path, err);
    enum fm_node_type type = fm_node_type(node);
    if (type == FM_INTEGER || type == FM_NUMBER) {
        rule->kind = FM_MISSING_VALUE;
        return fm_node_number(node, path, &rule->value, err);
    }
    int kind = 0;
    int code = fm_choice_read(node, path, missing_names, &kind, err);
    rule->kind = (enum fm_missing)kind;
    return code;
}

int fm_missing_read(struct fm_data_config *data, struct fm_document *doc, const struct fm_node *node,
                    struct fm_error *err)
{
    if (node->kind != FM_MAP || is_limited_rule(node))
        return read_rule(&data->missing, node, "data.missing", err);
    data->missing_columns = fm_document_alloc(doc, node->count, sizeof *data->missing_columns);
    if (!data->missing_columns) return fm_fail_memory(err);
    data->missing_count = node->count;
    for (size_t i = 0; i < node->count; i++) {
        data->missing_columns[i].column = node->keys[i];
        int code = read_rule(&data->missing_columns[i].rule, node->items[i], "data.missing", err);
        if (code) return code;
    }
    return 0;
}

static const char *const scale_names[] = {"none", "standard", "minmax", "robust", NULL};

static int read_scale(enum fm_scale *scale, const struct fm_node *node, struct fm_error *err)
{
    int kind = 0;
    int code = fm_choice_read(node, "data.scale", scale_names, &kind, err);
    *scale = (enum fm_scale)kind;
    return code;
}

static int check_scale_source(const struct fm_data_config *data, const struct fm_node *node,
                              enum fm_scale scale, struct fm_error *err)
{
    if (data->source != FM_SOURCE_SEQUENCES || scale == FM_SCALE_NONE) return 0;
    return fm_node_fail(node, FM_EFILE, err,
                        "data.scale: letters cannot be scaled; source sequences takes none");
}

int fm_scale_read(struct fm_data_config *data, struct fm_document *doc, const struct fm_node *node,
                  struct fm_error *err)
{
    int code;
    if (node->kind != FM_MAP) {
        code = read_scale(&data->scale, node, err);
        return code ? code : check_scale_source(data, node, data->scale, err);
    }
    if (data->source != FM_SOURCE_CSV && data->source != FM_SOURCE_SEQUENCES) {
        return fm_node_fail(node, FM_EFILE, err,
                            "data.scale by column is for source csv: arrays have no columns");
    }
    data->scale_columns = fm_document_alloc(doc, node->count, sizeof *data->scale_columns);
    if (!data->scale_columns) return fm_fail_memory(err);
    data->scale_count = node->count;
    for (size_t i = 0; i < node->count; i++) {
        data->scale_columns[i].column = node->keys[i];
        code = read_scale(&data->scale_columns[i].scale, node->items[i], err);
        if (!code) code = check_scale_source(data, node->items[i], data->scale_columns[i].scale, err);
        if (code) return code;
    }
    return 0;
}
