/* Reads `parameters` into the space: W&B's keys, nested names, equal values. */
#include "search/space.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

struct reading {
    struct fm_space *space;
    struct fm_sweep *sweep;
    struct fm_notes *notes;
    struct fm_error *err;
};

int64_t fm_space_find(const struct fm_space *space, const char *name, size_t size)
{
    for (size_t i = 0; i < space->count; i++) {
        const char *other = space->items[i].name;
        if (strlen(other) == size && memcmp(other, name, size) == 0) return (int64_t)i;
    }
    return -1;
}

int fm_space_fail_unknown(const struct fm_space *space, const struct fm_node *node, const char *name,
                          size_t size, struct fm_error *err)
{
    char shown[64];
    const char *near = NULL;
    fm_show(name, size, shown, sizeof shown);
    const char **names = fm_malloc(space->count + 1, sizeof *names);
    if (!names) return fm_fail_memory(err);
    for (size_t i = 0; i < space->count; i++) names[i] = space->items[i].name;
    if (space->count) near = fm_nearest(shown, names, space->count);
    fm_free(names);
    if (near)
        return fm_node_fail(node, FM_EFILE, err, "there is no parameter '%s'; did you mean '%s'?", shown,
                            near);
    return fm_node_fail(node, FM_EFILE, err, "there is no parameter '%s' in parameters", shown);
}

int64_t fm_space_size(const struct fm_space *space)
{
    int64_t size = 1;
    for (size_t i = 0; i < space->count; i++) {
        if (space->items[i].count == 0) return -1;
        if (!fm_multiply(size, space->items[i].count, &size)) size = INT64_MAX;
    }
    return size;
}

/* ---- lists of values ---- */

/* Keeps the first of equal values and adds up what they weigh; values that random would never draw go too. */
static int keep_distinct(struct reading *r, struct fm_parameter *p, const struct fm_node *list,
                         const double *weights)
{
    json_t *seen = json_object();
    int code = seen ? 0 : fm_fail_memory(r->err);
    size_t equal = 0, never = 0;
    for (size_t i = 0; !code && i < list->count; i++) {
        struct fm_text text = {0};
        json_t *json = fm_node_json(list->items[i]);
        code = json ? fm_json_text(json, &text, r->err) : fm_fail_memory(r->err);
        json_decref(json);
        json_t *place = code ? NULL : json_object_get(seen, text.data);
        if (place) {
            equal++;
            if (weights) p->shares[json_integer_value(place)] += weights[i];
        } else if (!code && weights && weights[i] == 0 && r->sweep->method == FM_METHOD_RANDOM) {
            never++;
        } else if (!code) {
            if (json_object_set_new(seen, text.data, json_integer(p->count))) code = fm_fail_memory(r->err);
            if (weights) p->shares[p->count] = weights[i];
            p->values[p->count++] = list->items[i];
        }
        fm_text_fini(&text);
    }
    json_decref(seen);
    if (equal) {
        fm_node_note(list, r->notes, FM_NOTE,
                     "parameters.%s: %zu of %zu values equal an earlier one; each runs once", p->name, equal,
                     list->count);
    }
    if (never)
        fm_note(r->notes, FM_NOTE, "parameters.%s: %zu values of probability 0 are never drawn", p->name,
                never);
    return code;
}

static int read_weights(struct reading *r, const struct fm_parameter *p, const struct fm_node *list,
                        size_t count, double **weights)
{
    double sum = 0;
    if (list->kind != FM_LIST || list->count != count) {
        return fm_node_fail(list, FM_EFILE, r->err,
                            "parameters.%s.probabilities: expected a list of %zu, one for each value",
                            p->name, count);
    }
    *weights = fm_document_alloc(&r->sweep->document, count, sizeof **weights);
    if (!*weights) return fm_fail_memory(r->err);
    for (size_t i = 0; i < count; i++) {
        int code = fm_node_number(list->items[i], "probabilities", &(*weights)[i], r->err);
        if (code) return code;
        if (!((*weights)[i] >= 0 && (*weights)[i] <= 1)) {
            return fm_node_fail(list->items[i], FM_EFILE, r->err, "a probability is %s; expected 0 to 1",
                                list->items[i]->text);
        }
        sum += (*weights)[i];
    }
    if (fabs(sum - 1) <= 1e-6) return 0;
    return fm_node_fail(list, FM_EFILE, r->err, "parameters.%s.probabilities add up to %.6g; expected 1",
                        p->name, sum);
}

static int read_values(struct reading *r, struct fm_parameter *p, const struct fm_parameter_spec *spec)
{
    const struct fm_node *list = spec->values;
    double *weights = NULL;
    if (list->kind != FM_LIST || list->count == 0) {
        return fm_node_fail(list, FM_EFILE, r->err,
                            "parameters.%s.values: expected a list of at least one value", p->name);
    }
    if (spec->probabilities) {
        int code = read_weights(r, p, spec->probabilities, list->count, &weights);
        if (code) return code;
        if (r->sweep->method != FM_METHOD_RANDOM) {
            fm_note(r->notes, FM_NOTE, "parameters.%s.probabilities do nothing without method: random",
                    p->name);
        }
    }
    p->distribution = FM_CATEGORICAL;
    p->values = fm_document_alloc(&r->sweep->document, list->count, sizeof *p->values);
    p->shares = weights ? fm_document_alloc(&r->sweep->document, list->count, sizeof *p->shares) : NULL;
    if (!p->values || (weights && !p->shares)) return fm_fail_memory(r->err);
    int code = keep_distinct(r, p, list, weights);
    for (int64_t i = 1; !code && weights && i < p->count; i++) p->shares[i] += p->shares[i - 1];
    return code;
}

static int read_constant(struct reading *r, struct fm_parameter *p, const struct fm_node *value)
{
    p->distribution = FM_CONSTANT;
    p->count = 1;
    p->values = fm_document_alloc(&r->sweep->document, 1, sizeof *p->values);
    if (!p->values) return fm_fail_memory(r->err);
    p->values[0] = value;
    return 0;
}

/* ---- distributions ---- */

static bool in_list(const char *word, const char *list)
{
    const char *at = strstr(list, word);
    size_t size = strlen(word);
    return at && (at == list || at[-1] == ' ') && (at[size] == ' ' || at[size] == '\0');
}

/* The keys that a distribution takes; the rest would silently do nothing. */
static const char *distribution_keys(enum fm_distribution d)
{
    switch (d) {
    case FM_CONSTANT: return "value";
    case FM_CATEGORICAL: return "values probabilities";
    case FM_INT_UNIFORM:
    case FM_UNIFORM:
    case FM_LOG_UNIFORM:
    case FM_LOG_UNIFORM_VALUES:
    case FM_INV_LOG_UNIFORM_VALUES: return "min max";
    case FM_Q_UNIFORM:
    case FM_Q_LOG_UNIFORM:
    case FM_Q_LOG_UNIFORM_VALUES: return "min max q";
    case FM_NORMAL:
    case FM_LOG_NORMAL: return "mu sigma";
    default: return "mu sigma q";
    }
}

static enum fm_distribution infer(const struct fm_parameter_spec *spec)
{
    if (spec->distribution >= 0) return (enum fm_distribution)spec->distribution;
    if (spec->value) return FM_CONSTANT;
    if (spec->values) return FM_CATEGORICAL;
    bool whole = spec->min && spec->max && fm_node_type(spec->min) == FM_INTEGER &&
                 fm_node_type(spec->max) == FM_INTEGER;
    return whole ? FM_INT_UNIFORM : FM_UNIFORM;
}

static int check_keys(struct reading *r, const struct fm_parameter *p, const struct fm_node *map)
{
    const char *name = fm_distribution_names[p->distribution], *keys = distribution_keys(p->distribution);
    for (size_t i = 0; i < map->count; i++) {
        const char *key = map->keys[i]->text;
        if (strcmp(key, "distribution") == 0 || in_list(key, keys)) continue;
        if (fm_node_type(map->items[i]) == FM_NULL && strcmp(key, "value") != 0) continue;
        return fm_node_fail(map->keys[i], FM_EFILE, r->err,
                            "parameters.%s: %s does not belong to distribution %s, which takes %s", p->name,
                            key, name, keys);
    }
    static const char *const needed[] = {"value", "values", "min", "max"};
    for (size_t i = 0; i < 4; i++) {
        const struct fm_node *node = fm_node_get(map, needed[i]);
        bool given = node && (i == 0 || fm_node_type(node) != FM_NULL);
        if (given || !in_list(needed[i], keys)) continue;
        return fm_node_fail(p->key, FM_EFILE, r->err, "parameters.%s: distribution %s needs %s", p->name,
                            name, needed[i]);
    }
    return 0;
}

static int read_number(struct reading *r, const struct fm_parameter *p, const struct fm_node *node,
                       double fallback, double *value)
{
    *value = fallback;
    if (!node) return 0;
    if (p->distribution != FM_INT_UNIFORM) return fm_node_number(node, p->name, value, r->err);
    int64_t whole;
    int code = fm_node_integer(node, p->name, &whole, r->err);
    *value = (double)whole;
    if (code || fabs(*value) <= FM_KEY_MAX_INTEGER) return code;
    return fm_node_fail(node, FM_EFILE, r->err, "parameters.%s: %s is more than 2^53", p->name, node->text);
}

static int read_distribution(struct reading *r, struct fm_parameter *p, const struct fm_parameter_spec *spec)
{
    int code = read_number(r, p, spec->min, 0, &p->min);
    if (!code) code = read_number(r, p, spec->max, 0, &p->max);
    if (!code) code = read_number(r, p, spec->mu, 0, &p->mu);
    if (!code) code = read_number(r, p, spec->sigma, 1, &p->sigma);
    if (!code) code = read_number(r, p, spec->q, 1, &p->q);
    if (!code) code = fm_distribution_check(p, r->err);
    if (code || r->sweep->method != FM_METHOD_GRID || p->count) return code;
    return fm_node_fail(
        p->key, FM_EFILE, r->err,
        "parameters.%s: a grid cannot list the values of distribution %s; give values, or a bounded q_ "
        "distribution, or method: random",
        p->name, fm_distribution_names[p->distribution]);
}

/* ---- entries ---- */

static int read_map(struct reading *r, const struct fm_node *map, const char *prefix, size_t depth);

static int check_name(struct reading *r, const struct fm_node *key, const char *name)
{
    if (strpbrk(name, "{}$\n\r\t")) {
        return fm_node_fail(key, FM_EFILE, r->err,
                            "a parameter's name cannot hold any of { } $ or line breaks");
    }
    if (fm_space_find(r->space, name, strlen(name)) < 0) return 0;
    return fm_node_fail(key, FM_EFILE, r->err, "there are two parameters named '%.80s'", name);
}

static int add_parameter(struct reading *r, const struct fm_node *key, const char *name,
                         struct fm_parameter **p)
{
    struct fm_space *space = r->space;
    int code = check_name(r, key, name);
    if (code) return code;
    if (fm_grow(&space->items, &space->capacity, space->count + 1, sizeof *space->items))
        return fm_fail_memory(r->err);
    *p = &space->items[space->count++];
    **p = (struct fm_parameter){.name = name, .key = key, .distribution = FM_LISTED};
    return 0;
}

static bool is_later(const struct fm_node *map)
{
    const struct fm_node *node = fm_node_get(map, "distribution");
    if (!node || node->kind != FM_SCALAR) return false;
    return strcmp(node->text, "beta") == 0 || strcmp(node->text, "q_beta") == 0;
}

static int read_spec(struct reading *r, const struct fm_node *key, const struct fm_node *map,
                     const char *name, size_t depth)
{
    struct fm_parameter_spec spec = {.distribution = -1};
    struct fm_parameter *p;
    struct fm_text path = {0};
    if (map->kind != FM_MAP) {
        return fm_node_fail(map, FM_EFILE, r->err,
                            "parameters.%s: expected {value: ...}, {values: [...]}, {min: ..., max: ...} or "
                            "{distribution: ...}",
                            name);
    }
    if (is_later(map)) {
        return fm_node_fail(fm_node_get(map, "distribution"), FM_ELATER, r->err,
                            "parameters.%s: distribution beta is not available yet", name);
    }
    fm_text_add(&path, "parameters.%s", name);
    int code = path.failed
                   ? fm_fail_memory(r->err)
                   : fm_keys_read(fm_parameter_keys, map, key, path.data, &spec, NULL, r->notes, r->err);
    fm_text_fini(&path);
    if (code) return code;
    if (spec.parameters) {
        if (map->count == 1) return read_map(r, spec.parameters, name, depth + 1);
        return fm_node_fail(fm_node_key(map, "parameters"), FM_EFILE, r->err,
                            "parameters.%s: nested parameters stand alone, without other keys", name);
    }
    if (map->count == 0)
        return fm_node_fail(map, FM_EFILE, r->err, "parameters.%s is empty; give value or values", name);
    code = add_parameter(r, key, name, &p);
    if (code) return code;
    p->distribution = infer(&spec);
    code = check_keys(r, p, map);
    if (code) return code;
    if (p->distribution == FM_CONSTANT) return read_constant(r, p, spec.value);
    return p->distribution == FM_CATEGORICAL ? read_values(r, p, &spec) : read_distribution(r, p, &spec);
}

static int read_map(struct reading *r, const struct fm_node *map, const char *prefix, size_t depth)
{
    if (map->kind != FM_MAP) {
        return fm_node_fail(map, FM_EFILE, r->err, "parameters.%s.parameters: expected a mapping of names",
                            prefix);
    }
    if (r->space->count + map->count > 1000) {
        return fm_node_fail(map, FM_EFILE, r->err, "there are more than 1000 parameters");
    }
    for (size_t i = 0; i < map->count; i++) {
        struct fm_text name = {0};
        fm_text_add(&name, "%s%s", prefix, depth ? "." : "");
        fm_text_add_bytes(&name, map->keys[i]->text, map->keys[i]->size);
        const struct fm_node *kept =
            name.failed ? NULL : fm_node_new_scalar(&r->sweep->document, name.data, name.size, false, NULL);
        fm_text_fini(&name);
        if (!kept) return fm_fail_memory(r->err);
        int code = read_spec(r, map->keys[i], map->items[i], kept->text, depth);
        if (code) return code;
    }
    return 0;
}

/* Without `parameters` the names are those that `trials` gives, in order of appearance. */
static int read_names(struct reading *r, const struct fm_node *trials)
{
    for (size_t i = 0; i < trials->count; i++) {
        const struct fm_node *entry = trials->items[i];
        for (size_t k = 0; entry->kind == FM_MAP && k < entry->count; k++) {
            struct fm_parameter *p;
            const struct fm_node *key = entry->keys[k];
            if (fm_space_find(r->space, key->text, key->size) >= 0) continue;
            if (r->space->count == 1000)
                return fm_node_fail(key, FM_EFILE, r->err, "there are more than 1000 parameters");
            int code = add_parameter(r, key, key->text, &p);
            if (code) return code;
        }
    }
    return 0;
}

int fm_space_read(struct fm_space *space, struct fm_sweep *sweep, struct fm_notes *notes,
                  struct fm_error *err)
{
    struct reading r = {space, sweep, notes, err};
    if (sweep->parameters && sweep->parameters->count) return read_map(&r, sweep->parameters, "", 0);
    return sweep->trials ? read_names(&r, sweep->trials) : 0;
}
