/* `data`: its keys, which source they belong to, and what each source cannot do without. */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "config/parameter.h"
#include "config/tables.h"

/* What fm_data_keys fills; moved to fm_data_config once it is known to make sense for the source. */
struct raw {
    int source, header, decimal, disorder, scale_fit;
    const struct fm_node *path, *delimiter, *record, *group, *time, *features, *sequence, *target, *missing,
        *weight, *mask, *window, *scale, *x, *y, *fold, *lengths;
    double gap, noise, height;
    int64_t samples, anomalies, seed;
};

static const char *const source_names[] = {"csv", "sequences", "npz", "npy", "sine", NULL};
static const char *const header_names[] = {"auto", "true", "false", NULL};
static const char *const decimal_names[] = {".", ",", NULL};
static const char *const disorder_names[] = {"error", "split", NULL};
static const char *const fit_names[] = {"train", "all", NULL};

#define NODE(name, help)                                                                                     \
    {                                                                                                        \
#name, FM_KEY_NODE, offsetof(struct raw, name), 0, 0, NULL, NULL, 0, help                            \
    }
#define COLUMN(name, help)                                                                                   \
    {                                                                                                        \
#name, FM_KEY_NODE, offsetof(struct raw, name), 0, 0, NULL, NULL, FM_NULLABLE, help                  \
    }
#define CHOICE(name, list, fallback, help)                                                                   \
    {                                                                                                        \
#name, FM_KEY_CHOICE, offsetof(struct raw, name), 0, 0, list, fallback, 0, help                      \
    }
#define WHOLE(name, fallback, help)                                                                          \
    {                                                                                                        \
#name, FM_KEY_INTEGER, offsetof(struct raw, name), 0, FM_KEY_MAX_INTEGER, NULL, fallback, 0, help    \
    }
#define NUMBER(name, min, fallback, help)                                                                    \
    {                                                                                                        \
#name, FM_KEY_NUMBER, offsetof(struct raw, name), min, 1e300, NULL, fallback, 0, help                \
    }

const struct fm_key fm_data_keys[] = {
    {"source", FM_KEY_CHOICE, offsetof(struct raw, source), 0, 0, source_names, NULL, FM_REQUIRED,
     "what the data are: a numeric series, strings, arrays, or a made-up series"},
    NODE(path,
         "a file, a list of files, or a glob, relative to the sweep file; {name} becomes a text column"),
    CHOICE(header, header_names, "auto",
           "whether the first line names the columns; auto: if it is not numeric"),
    {"delimiter", FM_KEY_NODE, offsetof(struct raw, delimiter), 0, 0, NULL, "auto", 0,
     "what separates the fields: auto (comma, semicolon or tab), tab, or one character"},
    CHOICE(decimal, decimal_names, ".", "the decimal mark of numbers"),
    COLUMN(record,
           "column whose value starts a new record when it changes (csv) or names the row (sequences)"),
    COLUMN(group,
           "column (or array) whose value keeps records together in group splits; default: the record"),
    COLUMN(time, "column with a number or an ISO date, checked for order"),
    {"gap", FM_KEY_NUMBER, offsetof(struct raw, gap), 1, 1e300, NULL, "1.5", 0,
     "a longer step of time, in median steps, starts a new record"},
    CHOICE(disorder, disorder_names, "error", "what to do where time stands still or goes back"),
    NODE(features,
         "columns in order; \"acc_*\" and all (every numeric column not used otherwise) are possible"),
    NODE(sequence, "the strings: {column, alphabet, unknown}"),
    NODE(target, "column of the labels, or {column, classes, other}"),
    {"missing", FM_KEY_NODE, offsetof(struct raw, missing), 0, 0, NULL, "error", 0,
     "missing feature values: error, drop, interpolate, ffill, {ffill: 5}, a number, or a map per column"},
    COLUMN(weight, "column (or array) of example weights, read at the anchor"),
    COLUMN(mask,
           "{column, keep}: only positions whose value is keep may be anchors; for arrays the mask's name"),
    COLUMN(window, "which positions make an example: {length, stride, align, edge, label, horizon}"),
    {"scale", FM_KEY_NODE, offsetof(struct raw, scale), 0, 0, NULL, "none", 0,
     "standard, minmax, robust, none, or a map per column; fitted on each fold's training positions"},
    CHOICE(scale_fit, fit_names, "train", "all: fit the scale on all positions, validation included"),
    {"x", FM_KEY_NODE, offsetof(struct raw, x), 0, 0, NULL, "x", 0,
     "array of inputs: name in the .npz, or a .npy file"},
    {"y", FM_KEY_NODE, offsetof(struct raw, y), 0, 0, NULL, "y", 0, "array of targets"},
    COLUMN(fold, "array of fold numbers, for cv.split: predefined"),
    COLUMN(lengths, "array of the records' real lengths, where x is [N,L,C] with a window"),
    WHOLE(samples, "1049344", "sine: how many samples"),
    NUMBER(noise, 0, "0.2", "sine: standard deviation of the noise"),
    WHOLE(anomalies, "50000", "sine: how many samples are anomalies"),
    NUMBER(height, -1e300, "0.5", "sine: what an anomaly adds"),
    WHOLE(seed, "0", "sine: seed of the noise and the anomalies"),
    {0},
};

/* Which sources a key belongs to, a letter each: c(sv) s(equences) z(ip: npz) p (npy) w(ave: sine). */
static const struct {
    const char *key, *sources;
} belongs[] = {
    {"path", "csz"},     {"header", "cs"},   {"delimiter", "cs"},   {"decimal", "cs"},  {"record", "cs"},
    {"group", "cszp"},   {"time", "c"},      {"gap", "c"},          {"disorder", "c"},  {"features", "c"},
    {"sequence", "s"},   {"target", "cs"},   {"missing", "c"},      {"weight", "cszp"}, {"mask", "cszp"},
    {"window", "cszpw"}, {"scale", "cszpw"}, {"scale_fit", "czpw"}, {"x", "zp"},        {"y", "zp"},
    {"fold", "zp"},      {"lengths", "zp"},  {"samples", "w"},      {"noise", "w"},     {"anomalies", "w"},
    {"height", "w"},     {"seed", "w"},
};
static const char source_letters[] = "cszpw";

static int check_source(const struct fm_node *map, enum fm_source source, struct fm_error *err)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct fm_node *name = map->keys[i];
        for (size_t b = 0; b < sizeof belongs / sizeof *belongs; b++) {
            if (strcmp(belongs[b].key, name->text) != 0) continue;
            if (strchr(belongs[b].sources, source_letters[source])) break;
            struct fm_text owners = {0};
            for (const char *s = belongs[b].sources; *s; s++) {
                const char *joint = s == belongs[b].sources ? "" : s[1] ? ", " : " or ";
                fm_text_add(&owners, "%s%s", joint,
                            source_names[strchr(source_letters, *s) - source_letters]);
            }
            int code = owners.failed
                           ? fm_fail_memory(err)
                           : fm_node_fail(name, FM_EFILE, err, "data.%s belongs to source %s, not to %s",
                                          name->text, owners.data, source_names[source]);
            fm_text_fini(&owners);
            return code;
        }
    }
    return 0;
}

static int require(const struct fm_node *node, const char *key, const char *what, enum fm_source source,
                   const struct fm_node *where, struct fm_error *err)
{
    if (node) return 0;
    return fm_node_fail(where, FM_EFILE, err, "data.%s is missing: source %s needs %s", key,
                        source_names[source], what);
}

static int check_required(const struct raw *raw, const struct fm_node *map, struct fm_error *err)
{
    enum fm_source source = (enum fm_source)raw->source;
    bool csv = source == FM_SOURCE_CSV, sequences = source == FM_SOURCE_SEQUENCES;
    int code = 0;
    if (csv || sequences || source == FM_SOURCE_NPZ)
        code = require(raw->path, "path", "a file", source, map, err);
    if (!code && csv) code = require(raw->features, "features", "the input columns", source, map, err);
    if (!code && sequences) code = require(raw->sequence, "sequence", "{column, alphabet}", source, map, err);
    if (!code && (csv || sequences))
        code = require(raw->target, "target", "the label's column", source, map, err);
    if (!code && source == FM_SOURCE_NPY)
        code = require(raw->x, "x", "the path of a .npy file", source, map, err);
    if (!code && source == FM_SOURCE_NPY)
        code = require(raw->y, "y", "the path of a .npy file", source, map, err);
    if (!code && (csv || sequences || source == FM_SOURCE_SINE)) {
        code = require(raw->window, "window", "{length: n} (1 makes each position one example)", source, map,
                       err);
    }
    return code;
}

int fm_name_check(const struct fm_node *node, const char *path, struct fm_error *err)
{
    const char *text;
    if (!node) return 0;
    int code = fm_node_text(node, path, &text, err);
    if (!code && node->size == 0) return fm_node_fail(node, FM_EFILE, err, "%s is empty text", path);
    return code;
}

int fm_names_check(const struct fm_node *node, const char *path, struct fm_error *err)
{
    if (!node) return 0;
    if (node->kind != FM_LIST) return fm_name_check(node, path, err);
    if (node->count == 0) return fm_node_fail(node, FM_EFILE, err, "%s is an empty list", path);
    for (size_t i = 0; i < node->count; i++) {
        int code = fm_name_check(node->items[i], path, err);
        if (code) return code;
    }
    return 0;
}

static int read_delimiter(const struct raw *raw, char *delimiter, struct fm_error *err)
{
    const char *text;
    *delimiter = 0;
    if (!raw->delimiter) return 0;
    int code = fm_node_text(raw->delimiter, "data.delimiter", &text, err);
    if (code) return code;
    if (strcmp(text, "auto") == 0) return 0;
    if (strcmp(text, "tab") == 0) text = "\t";
    if (strlen(text) != 1 || !strchr(",;\t|: !#$%&/<=>?@^_`~*", text[0])) {
        return fm_node_fail(
            raw->delimiter, FM_EFILE, err,
            "data.delimiter is '%.20s'; expected auto, tab, or one character such as ',' ';' '|'", text);
    }
    if (text[0] == decimal_names[raw->decimal][0]) {
        return fm_node_fail(raw->delimiter, FM_EFILE, err, "data.delimiter and data.decimal are both '%c'",
                            text[0]);
    }
    *delimiter = text[0];
    return 0;
}

static int check_names(const struct raw *raw, struct fm_error *err)
{
    int code = fm_names_check(raw->path, "data.path", err);
    if (!code) code = fm_names_check(raw->features, "data.features", err);
    if (!code) code = fm_name_check(raw->record, "data.record", err);
    if (!code) code = fm_name_check(raw->group, "data.group", err);
    if (!code) code = fm_name_check(raw->time, "data.time", err);
    if (!code) code = fm_name_check(raw->weight, "data.weight", err);
    if (!code) code = fm_name_check(raw->x, "data.x", err);
    if (!code) code = fm_name_check(raw->y, "data.y", err);
    if (!code) code = fm_name_check(raw->fold, "data.fold", err);
    if (!code) code = fm_name_check(raw->lengths, "data.lengths", err);
    for (size_t i = 0; !code && raw->features && i < raw->features->count; i++) {
        for (size_t k = 0; k < i && i < 1000; k++) {
            if (strcmp(raw->features->items[i]->text, raw->features->items[k]->text) != 0) continue;
            return fm_node_fail(raw->features->items[i], FM_EFILE, err, "data.features names '%.60s' twice",
                                raw->features->items[i]->text);
        }
    }
    return code;
}

static int check_time(const struct raw *raw, const struct fm_node *map, struct fm_error *err)
{
    static const char *const keys[] = {"gap", "disorder"};
    for (size_t i = 0; i < 2 && !raw->time; i++) {
        const struct fm_node *key = fm_node_key(map, keys[i]);
        if (key)
            return fm_node_fail(key, FM_EFILE, err, "data.%s needs data.time, the column it looks at",
                                keys[i]);
    }
    return 0;
}

static int check_sine(const struct raw *raw, const struct fm_node *map, struct fm_error *err)
{
    if (raw->source != FM_SOURCE_SINE) return 0;
    if (raw->samples < 1) {
        return fm_node_fail(fm_node_get(map, "samples"), FM_EFILE, err,
                            "data.samples is 0; expected at least 1");
    }
    if (raw->anomalies <= raw->samples) return 0;
    const struct fm_node *node = fm_node_get(map, "anomalies");
    return fm_node_fail(node ? node : fm_node_get(map, "samples"), FM_EFILE, err,
                        "data.anomalies is %lld, more than the %lld samples", (long long)raw->anomalies,
                        (long long)raw->samples);
}

/* Arrays are called x and y inside an .npz unless the user says otherwise. */
static int name_arrays(struct fm_data_config *data, struct fm_document *doc, const struct fm_node *map,
                       struct fm_error *err)
{
    if (data->source != FM_SOURCE_NPZ) return 0;
    if (!data->x) data->x = fm_node_new_scalar(doc, "x", 1, true, map);
    if (!data->y) data->y = fm_node_new_scalar(doc, "y", 1, true, map);
    return data->x && data->y ? 0 : fm_fail_memory(err);
}

static void move_plain(struct fm_data_config *data, const struct raw *raw, const struct fm_node *map)
{
    data->source = (enum fm_source)raw->source;
    bool arrays = data->source == FM_SOURCE_NPZ || data->source == FM_SOURCE_NPY;
    data->where = map;
    data->path = raw->path;
    data->header = (enum fm_header)raw->header;
    data->decimal = decimal_names[raw->decimal][0];
    data->record = raw->record;
    data->time = raw->time;
    data->gap = raw->gap;
    data->gap_given = fm_node_get(map, "gap") != NULL;
    data->disorder = (enum fm_disorder)raw->disorder;
    data->features = raw->features;
    data->scale_fit_all = raw->scale_fit == 1;
    data->x = raw->x;
    data->y = raw->y;
    data->array_fold = raw->fold;
    data->lengths = raw->lengths;
    *(arrays ? &data->array_group : &data->group) = raw->group;
    *(arrays ? &data->array_weight : &data->weight) = raw->weight;
    if (arrays) data->array_mask = raw->mask;
    data->sine.samples = raw->samples;
    data->sine.anomalies = raw->anomalies;
    data->sine.seed = raw->seed;
    data->sine.noise = raw->noise;
    data->sine.height = raw->height;
}

static int read_parts(struct fm_data_config *data, const struct raw *raw, struct fm_document *doc,
                      struct fm_notes *notes, struct fm_error *err)
{
    bool arrays = data->source == FM_SOURCE_NPZ || data->source == FM_SOURCE_NPY;
    int code = read_delimiter(raw, &data->delimiter, err);
    if (!code && arrays) code = fm_name_check(raw->mask, "data.mask", err);
    if (!code && !arrays && raw->mask) code = fm_mask_read(data, raw->mask, notes, err);
    if (!code && raw->sequence) code = fm_sequence_read(data, raw->sequence, notes, err);
    if (!code && raw->target) code = fm_target_read(data, raw->target, notes, err);
    if (!code && raw->missing) code = fm_missing_read(data, doc, raw->missing, err);
    if (!code && raw->scale) code = fm_scale_read(data, doc, raw->scale, err);
    if (!code && raw->window) {
        data->has_window = true;
        code = fm_window_read(&data->window, raw->window, data->source, notes, err);
    }
    if (code) return code;
    if (raw->lengths && !raw->window) {
        return fm_node_fail(fm_node_key(data->where, "lengths"), FM_EFILE, err,
                            "data.lengths needs data.window: without it x is cut already");
    }
    if (raw->lengths && data->array_mask) {
        return fm_node_fail(fm_node_key(data->where, "lengths"), FM_EFILE, err,
                            "data.lengths and data.mask both say which positions are real; give one of them");
    }
    if (data->scale_fit_all && data->scale == FM_SCALE_NONE && data->scale_count == 0) {
        return fm_node_fail(fm_node_key(data->where, "scale_fit"), FM_EFILE, err,
                            "data.scale_fit: all does nothing without data.scale");
    }
    return 0;
}

int fm_data_read(struct fm_data_config *data, struct fm_document *doc, const struct fm_node *map,
                 struct fm_notes *notes, struct fm_error *err)
{
    struct raw raw = {0};
    int code = fm_keys_read(fm_data_keys, map, map, "data", &raw, NULL, notes, err);
    if (!code) code = check_source(map, (enum fm_source)raw.source, err);
    if (!code) code = check_required(&raw, map, err);
    if (!code) code = check_names(&raw, err);
    if (!code) code = check_time(&raw, map, err);
    if (!code) code = check_sine(&raw, map, err);
    if (code) return code;
    move_plain(data, &raw, map);
    code = name_arrays(data, doc, map, err);
    return code ? code : read_parts(data, &raw, doc, notes, err);
}
