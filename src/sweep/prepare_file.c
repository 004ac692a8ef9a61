/* What the sweep file alone tells: the hashes that the journal compares, and the longest window of the whole
 * space. */
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "sweep/prepare.h"

#include <stdlib.h>
#include <string.h>

/* Keys that say which trials there are. Extending them changes no earlier result. */
static const char *const space_keys[] = {"method", "parameters", "trials", "run_cap", "seed", NULL};
/* Keys that change no result at all. */
static const char *const idle_keys[] = {"name",    "description", "tags",    "keep", "program",
                                        "command", "entity",      "project", NULL};

static bool listed(const char *const *keys, const char *name)
{
    for (; *keys; keys++)
        if (!strcmp(*keys, name)) return true;
    return false;
}

static uint64_t text_hash(const char *text)
{
    struct fm_hash hash = {0};
    fm_hash_add(&hash, text, strlen(text));
    return fm_hash_value(&hash);
}

/* The members of the root that belong to the space (or the others that matter) as canonical JSON. Sorted
 * keys, so that the order of keys in the file changes nothing. */
static char *part_text(const struct fm_node *root, bool space)
{
    json_t *part = json_object();
    bool failed = !part;
    for (size_t i = 0; !failed && i < root->count; i++) {
        const char *name = root->keys[i]->text;
        if (listed(idle_keys, name) || listed(space_keys, name) != space) continue;
        failed = json_object_set_new(part, name, fm_node_json(root->items[i])) != 0;
    }
    /* The order of parameters decides the order of a grid's trials: it belongs to the space. */
    const struct fm_node *parameters = fm_node_get(root, "parameters");
    if (!failed && space && parameters && parameters->kind == FM_MAP) {
        json_t *order = json_array();
        failed = !order || json_object_set_new(part, "order", order) != 0;
        for (size_t i = 0; !failed && i < parameters->count; i++)
            failed = json_array_append_new(order, json_string(parameters->keys[i]->text)) != 0;
    }
    char *text = failed ? NULL : json_dumps(part, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    json_decref(part);
    return text;
}

static void widen(struct fm_prepared *p, int64_t length)
{
    if (length > p->longest_length) p->longest_length = length;
    if (!p->shortest_length || length < p->shortest_length) p->shortest_length = length;
}

static int widen_by(struct fm_prepared *p, const struct fm_node *node, struct fm_error *err)
{
    int64_t length = 0;
    int rc = fm_node_integer(node, "data.window.length", &length, err);
    if (rc) return rc;
    if (length < 1 || length > INT32_MAX)
        return fm_node_fail(node, FM_EFILE, err, "data.window.length must be between 1 and %d, not %lld",
                            INT32_MAX, (long long)length);
    widen(p, length);
    return 0;
}

/* Every value a parameter can take, because all trials of the sweep - later ones too - share the examples of
 * the longest window. */
static int widen_by_parameter(struct fm_prepared *p, const char *name, const struct fm_node *where,
                              struct fm_error *err)
{
    const struct fm_node *entry = NULL;
    for (const struct fm_node *space = p->sweep->parameters; space && space->kind == FM_MAP && !entry;) {
        entry = fm_node_get(space, name);
        const char *dot = strchr(name, '.');
        if (entry || !dot) break;
        char *first = fm_strndup(name, (size_t)(dot - name));
        if (!first) return fm_fail_memory(err);
        const struct fm_node *outer = fm_node_get(space, first);
        fm_free(first);
        space = outer ? fm_node_get(outer, "parameters") : NULL;
        name = dot + 1;
    }
    int rc = 0;
    if (entry && entry->kind == FM_MAP) {
        const struct fm_node *value = fm_node_get(entry, "value"), *values = fm_node_get(entry, "values");
        const struct fm_node *min = fm_node_get(entry, "min"), *max = fm_node_get(entry, "max");
        if (value) rc = widen_by(p, value, err);
        for (size_t i = 0; !rc && values && values->kind == FM_LIST && i < values->count; i++)
            rc = widen_by(p, values->items[i], err);
        if (!rc && !value && !values) {
            if (!max)
                return fm_node_fail(
                    entry, FM_EFILE, err,
                    "the window length needs a parameter with 'values' or 'min' and 'max': the examples "
                    "of a sweep are those of its longest window");
            rc = widen_by(p, max, err);
            if (!rc && min) rc = widen_by(p, min, err);
        }
    }
    const struct fm_node *trials = p->sweep->trials;
    for (size_t i = 0; !rc && trials && trials->kind == FM_LIST && i < trials->count; i++) {
        const struct fm_node *value =
            trials->items[i]->kind == FM_MAP ? fm_node_get(trials->items[i], name) : NULL;
        if (value) rc = widen_by(p, value, err);
    }
    if (!rc && !p->longest_length)
        return fm_node_fail(where, FM_EFILE, err,
                            "no trial gives the parameter of data.window.length a value");
    return rc;
}

static int find_lengths(struct fm_prepared *p, struct fm_error *err)
{
    const struct fm_node *length = p->sweep->data.has_window ? p->sweep->data.window.length : NULL;
    if (!length) return 0;
    size_t size = length->size;
    if (length->kind == FM_SCALAR && size > 3 && !strncmp(length->text, "${", 2) &&
        length->text[size - 1] == '}') {
        char *name = fm_strndup(length->text + 2, size - 3);
        if (!name) return fm_fail_memory(err);
        int rc = widen_by_parameter(p, name, length, err);
        fm_free(name);
        return rc;
    }
    return widen_by(p, length, err);
}

int fm_prepare_file(struct fm_prepared *p, const struct fm_sweep *sweep, struct fm_error *err)
{
    memset(p, 0, sizeof *p);
    p->sweep = sweep;
    p->fingerprint_text = part_text(sweep->document.root, false);
    char *space = part_text(sweep->document.root, true);
    int rc = p->fingerprint_text && space ? 0 : fm_fail_memory(err);
    if (!rc) {
        p->fingerprint = text_hash(p->fingerprint_text);
        p->space_hash = text_hash(space);
        rc = find_lengths(p, err);
    }
    free(space);
    if (rc) fm_prepared_fini(p);
    return rc;
}
