/* The sweep file, from text to struct fm_sweep: the top level, and the order in which the sections are read.
 *
 * Parameters may stand in model, train, cv.seed and data.window.length only. Elsewhere they are refused here,
 * once and for all, so that no section's reader has to think of them. */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/parameter.h"
#include "config/tables.h"
#include "config/tree.h"

struct raw {
    const struct fm_node *name, *description, *tags, *data, *cv, *model, *train, *metric, *parameters,
        *trials, *keep;
    int method;
    int64_t run_cap, seed;
};

static const char *const method_names[] = {"grid", "random", "list", "bayes", NULL};

#define NODE(name, flags, help)                                                                              \
    {                                                                                                        \
#name, FM_KEY_NODE, offsetof(struct raw, name), 0, 0, NULL, NULL, flags, help                        \
    }
#define LATER(name, help)                                                                                    \
    {                                                                                                        \
#name, FM_KEY_NODE, 0, 0, 0, NULL, NULL, FM_LATER, help                                              \
    }
#define IGNORED(name)                                                                                        \
    {                                                                                                        \
#name, FM_KEY_NODE, 0, 0, 0, NULL, NULL, FM_IGNORED, "a key of W&B's"                                \
    }

const struct fm_key fm_sweep_keys[] = {
    NODE(name, FM_NULLABLE, "name of the sweep; default the file's name without its ending"),
    NODE(description, FM_NULLABLE, "kept, not used"),
    NODE(tags, FM_NULLABLE, "kept, not used"),
    NODE(data, FM_REQUIRED, "what is learnt from (see data)"),
    NODE(cv, FM_REQUIRED, "how folds are made (see cv)"),
    NODE(model, FM_REQUIRED, "a list of layers"),
    NODE(train, FM_REQUIRED, "how is trained (see train)"),
    NODE(metric, FM_NULLABLE, "what trials are ranked by: {name, goal}; default val_loss"),
    {"method", FM_KEY_CHOICE, offsetof(struct raw, method), 0, 0, method_names, "grid", 0,
     "how trials are chosen from the parameters; required with parameters"},
    NODE(parameters, FM_NULLABLE, "the parameters' values or distributions (see parameter)"),
    NODE(trials, FM_NULLABLE, "[{name: value, ...}, ...]: run before the method's own trials"),
    {"run_cap", FM_KEY_INTEGER, offsetof(struct raw, run_cap), 1, FM_KEY_MAX_INTEGER, NULL, NULL, FM_NULLABLE,
     "most trials"},
    {"seed", FM_KEY_INTEGER, offsetof(struct raw, seed), 0, FM_KEY_MAX_INTEGER, NULL, "0", 0,
     "drives the random search only; training has train.seed, splits have cv.seed"},
    NODE(keep, FM_NULLABLE, "what is kept of the best trials: {trials, predictions, weights}"),
    LATER(early_terminate, "drop bad trials early: hyperband, asha, median, race"),
    LATER(limits, "time, memory, trials in flight"),
    IGNORED(program),
    IGNORED(command),
    IGNORED(entity),
    IGNORED(project),
    {0},
};

struct raw_metric {
    const struct fm_node *name;
    int goal;
};

static const char *const goal_names[] = {"minimize", "maximize", NULL};

const struct fm_key fm_metric_keys[] = {
    {"name", FM_KEY_NODE, offsetof(struct raw_metric, name), 0, 0, NULL, "val_loss", FM_NULLABLE,
     "val_loss, or val_ (or inner_) with a metric's name"},
    {"goal", FM_KEY_CHOICE, offsetof(struct raw_metric, goal), 0, 0, goal_names, NULL, FM_NULLABLE,
     "minimize or maximize; default the metric's own direction"},
    {0},
};

struct raw_keep {
    int64_t trials;
    bool predictions, weights;
};

const struct fm_key fm_keep_keys[] = {
    {"trials", FM_KEY_INTEGER, offsetof(struct raw_keep, trials), 0, FM_KEY_MAX_INTEGER, NULL, "1", 0,
     "of how many of the best trials"},
    {"predictions", FM_KEY_BOOL, offsetof(struct raw_keep, predictions), 0, 0, NULL, "true", 0,
     "keep the out-of-fold predictions"},
    {"weights", FM_KEY_BOOL, offsetof(struct raw_keep, weights), 0, 0, NULL, "true", 0,
     "keep the best weights"},
    {0},
};

/* ---- where parameters may stand ---- */

/* Refuses parameters below `node` except at `allowed`, and makes "$${" a literal "${". */
static int refuse_parameters(struct fm_document *doc, struct fm_node **place, const struct fm_node *allowed,
                             struct fm_error *err)
{
    struct fm_node *node = *place;
    const char *name;
    size_t size;
    if (node == allowed) return 0;
    if (node->kind != FM_SCALAR) {
        for (size_t i = 0; i < node->count; i++) {
            int code = refuse_parameters(doc, &node->items[i], allowed, err);
            if (code) return code;
        }
        return 0;
    }
    int found = fm_parameter_find(node, &name, &size, err);
    if (found < 0) return found;
    if (found) {
        return fm_node_fail(
            node, FM_EFILE, err,
            "%s: a parameter cannot stand here, only in model, train, cv.seed and data.window.length",
            node->text);
    }
    if (!fm_parameter_escaped(node)) return 0;
    *place = fm_parameter_unescape(doc, node);
    return *place ? 0 : fm_fail_memory(err);
}

static int check_places(struct fm_sweep *s, struct fm_error *err)
{
    struct fm_node *root = s->document.root;
    for (size_t i = 0; i < root->count; i++) {
        const char *key = root->keys[i]->text;
        const struct fm_node *allowed = NULL;
        if (strcmp(key, "model") == 0 || strcmp(key, "train") == 0 || strcmp(key, "parameters") == 0 ||
            strcmp(key, "trials") == 0 || strcmp(key, "description") == 0 || strcmp(key, "command") == 0) {
            continue;
        }
        if (strcmp(key, "cv") == 0) allowed = fm_node_get(root->items[i], "seed");
        if (strcmp(key, "data") == 0) allowed = fm_node_get(fm_node_get(root->items[i], "window"), "length");
        int code = refuse_parameters(&s->document, &root->items[i], allowed, err);
        if (code) return code;
    }
    return 0;
}

/* ---- sections ---- */

static int read_metric(struct fm_sweep *s, const struct fm_node *map, struct fm_notes *notes,
                       struct fm_error *err)
{
    struct raw_metric raw = {.goal = -1};
    char name[48];
    s->metric = (struct fm_monitor){FM_PART_VAL, FM_METRIC_LOSS};
    s->metric_given = map != NULL;
    if (!map) return 0;
    int code = fm_keys_read(fm_metric_keys, map, map, "metric", &raw, NULL, notes, err);
    if (code) return code;
    if (raw.name) code = fm_monitor_read(raw.name, "metric.name", &s->metric, err);
    if (code) return code;
    if (s->metric.part == FM_PART_TRAIN) {
        return fm_node_fail(raw.name, FM_EFILE, err,
                            "metric.name is %s, the training loss; did you mean val_loss?", raw.name->text);
    }
    if (s->metric.part == FM_PART_INNER && !s->cv.has_inner) {
        return fm_node_fail(raw.name, FM_EFILE, err,
                            "metric.name is %s, but cv.inner is not given; expected val_%s", raw.name->text,
                            fm_metric_names[s->metric.metric]);
    }
    s->maximize = fm_metric_maximize(s->metric.metric);
    if (raw.goal < 0 || (raw.goal == 1) == s->maximize) return 0;
    return fm_node_fail(fm_node_get(map, "goal"), FM_EFILE, err,
                        "metric.goal is %s, but %s is better when it is %s; leave goal out",
                        goal_names[raw.goal], fm_monitor_name(s->metric, name),
                        s->maximize ? "larger" : "smaller");
}

static int read_keep(struct fm_sweep *s, const struct fm_node *map, struct fm_notes *notes,
                     struct fm_error *err)
{
    struct raw_keep raw = {0};
    int code = fm_keys_read(fm_keep_keys, map, map, "keep", &raw, NULL, notes, err);
    s->keep.trials = raw.trials;
    s->keep.predictions = raw.predictions;
    s->keep.weights = raw.weights;
    return code;
}

static int check_model(const struct fm_node *model, struct fm_error *err)
{
    if (fm_parameter_is(model)) return 0;
    if (model->kind == FM_MAP) {
        return fm_node_fail(model, FM_EFILE, err,
                            "model is a mapping; expected a list of layers: put '- ' before each layer");
    }
    if (model->kind != FM_LIST) return fm_node_fail(model, FM_EFILE, err, "model: expected a list of layers");
    if (model->count == 0)
        return fm_node_fail(model, FM_EFILE, err, "model is an empty list; expected layers");
    return 0;
}

/* A copy in which every parameter is marked open, so that the rest can be checked before any value is known.
 */
static struct fm_node *open_copy(struct fm_document *doc, const struct fm_node *from)
{
    struct fm_node *node;
    if (from->kind == FM_SCALAR) {
        node = fm_node_new_scalar(doc, from->text, from->size, from->plain, from);
        if (node) node->open = fm_parameter_is(from);
        return node;
    }
    node = fm_node_new_collection(doc, from->kind, from->count, from);
    for (size_t i = 0; node && i < from->count; i++) {
        node->items[i] = open_copy(doc, from->items[i]);
        if (!node->items[i]) return NULL;
        if (from->kind == FM_MAP) node->keys[i] = from->keys[i];
    }
    return node;
}

static int check_train(struct fm_sweep *s, const struct fm_node *metric, struct fm_notes *notes,
                       struct fm_error *err)
{
    struct fm_train_config train;
    if (fm_parameter_is(s->train)) return 0;
    const struct fm_node *copy = open_copy(&s->document, s->train);
    if (!copy) return fm_fail_memory(err);
    int code = fm_train_read(&train, copy, s->cv.has_inner, notes, err);
    const struct fm_node *name = metric ? fm_node_get(metric, "name") : NULL;
    if (code || !name || !train.loss.where) return code;
    return fm_metric_fits(s->metric.metric, train.loss.kind, name, "metric.name", err);
}

static int check_search(const struct fm_sweep *s, const struct raw *raw, struct fm_error *err)
{
    const struct fm_node *root = s->document.root, *method = fm_node_key(root, "method");
    if (raw->method == 3) {
        return fm_node_fail(fm_node_get(root, "method"), FM_ELATER, err,
                            "method: bayes is not available yet");
    }
    if (raw->parameters && raw->parameters->kind != FM_MAP) {
        return fm_node_fail(raw->parameters, FM_EFILE, err,
                            "parameters: expected a mapping of names, such as batch_size: {values: [8, 64]}");
    }
    if (raw->trials && raw->trials->kind != FM_LIST) {
        return fm_node_fail(raw->trials, FM_EFILE, err,
                            "trials: expected a list of mappings, [{name: value, ...}, ...]");
    }
    if (raw->parameters && raw->parameters->count && !method) {
        return fm_node_fail(fm_node_key(root, "parameters"), FM_EFILE, err,
                            "method is missing: parameters need grid, random or list");
    }
    if (method && raw->method == FM_METHOD_LIST && (!raw->trials || raw->trials->count == 0)) {
        return fm_node_fail(method, FM_EFILE, err, "method: list needs trials: [{name: value, ...}, ...]");
    }
    return 0;
}

/* "folder/name.yaml": the folder, "." at least, and the name without its ending. */
static int split_path(struct fm_sweep *s, const char *path, struct fm_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *file = slash ? slash + 1 : path;
    const char *dot = strrchr(file, '.');
    size_t stem = dot && dot != file ? (size_t)(dot - file) : strlen(file);
    s->path = fm_strdup(path);
    if (!slash)
        s->folder = fm_strdup(".");
    else
        s->folder = fm_strndup(path, slash == path ? 1 : (size_t)(slash - path));
    const struct fm_node *name = fm_node_new_scalar(&s->document, file, stem, false, NULL);
    if (!s->path || !s->folder || !name) return fm_fail_memory(err);
    s->name = name->text;
    s->data.folder = s->folder;
    return 0;
}

static int read_texts(struct fm_sweep *s, const struct raw *raw, struct fm_error *err)
{
    int code = raw->name ? fm_node_text(raw->name, "name", &s->name, err) : 0;
    if (!code && raw->description) code = fm_node_text(raw->description, "description", &s->description, err);
    s->tags = raw->tags;
    return code ? code : fm_names_check(raw->tags, "tags", err);
}

static int read_sections(struct fm_sweep *s, struct fm_notes *notes, struct fm_error *err)
{
    struct fm_node *root = s->document.root;
    struct raw raw = {0};
    int code = check_places(s, err);
    if (!code) code = fm_keys_read(fm_sweep_keys, root, root, "", &raw, NULL, notes, err);
    if (!code) code = read_texts(s, &raw, err);
    if (!code) code = check_search(s, &raw, err);
    if (!code) code = fm_data_read(&s->data, &s->document, raw.data, notes, err);
    if (!code) code = fm_cv_read(&s->cv, &s->data, raw.cv, notes, err);
    if (!code) code = check_model(raw.model, err);
    if (!code) code = read_metric(s, raw.metric, notes, err);
    if (!code) code = read_keep(s, raw.keep, notes, err);
    s->model = raw.model;
    s->train = raw.train;
    s->method = (enum fm_method)raw.method;
    s->parameters = raw.parameters;
    s->trials = raw.trials;
    s->run_cap = raw.run_cap;
    s->seed = raw.seed;
    return code ? code : check_train(s, raw.metric, notes, err);
}

static int finish_read(struct fm_sweep *s, const char *path, const char *const *settings, size_t count,
                       struct fm_notes *notes, struct fm_error *err)
{
    int code = split_path(s, path, err);
    for (size_t i = 0; !code && i < count; i++) code = fm_document_set(&s->document, settings[i], notes, err);
    if (!code) code = read_sections(s, notes, err);
    if (code) fm_sweep_fini(s);
    return code;
}

int fm_sweep_read(struct fm_sweep *sweep, const char *path, const char *const *settings, size_t count,
                  struct fm_notes *notes, struct fm_error *err)
{
    memset(sweep, 0, sizeof *sweep);
    int code = fm_document_read(&sweep->document, path, notes, err);
    return code ? code : finish_read(sweep, path, settings, count, notes, err);
}

int fm_sweep_parse(struct fm_sweep *sweep, const char *path, const char *bytes, size_t size,
                   const char *const *settings, size_t count, struct fm_notes *notes, struct fm_error *err)
{
    memset(sweep, 0, sizeof *sweep);
    int code = fm_document_parse(&sweep->document, path, bytes, size, notes, err);
    if (code) return code;
    if (sweep->document.root->kind == FM_MAP) return finish_read(sweep, path, settings, count, notes, err);
    code = fm_document_fail_root(&sweep->document, err);
    fm_sweep_fini(sweep);
    return code;
}

void fm_sweep_fini(struct fm_sweep *sweep)
{
    fm_document_fini(&sweep->document);
    fm_free(sweep->path);
    fm_free(sweep->folder);
    memset(sweep, 0, sizeof *sweep);
}
