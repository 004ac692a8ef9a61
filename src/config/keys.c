/* The engine behind the key tables: reads a mapping into a struct and finds everything wrong with it on the
 * way. */
#include "config/keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"

#define FM_KEYS_MAX 64 /* bits of `given` */

struct reading {
    const struct fm_key *keys;
    const char *path;
    void *target;
    struct fm_notes *notes;
    struct fm_error *err;
};

static size_t key_count(const struct fm_key *keys)
{
    size_t n = 0;
    while (keys[n].name) n++;
    return n;
}

/* "train.epochs", or "epochs" at the top of the file. */
static const char *full_path(const char *path, const char *name, char *buffer, size_t size)
{
    size_t front = strlen(path), back = strlen(name), dot = front > 0;
    if (front > size - 2) front = size - 2;
    if (back > size - 1 - front - dot) back = size - 1 - front - dot;
    /* By hand: every key of every trial comes here, and only messages read it. */
    memcpy(buffer, path, front);
    if (dot) buffer[front] = '.';
    memcpy(buffer + front + dot, name, back);
    buffer[front + dot + back] = '\0';
    return buffer;
}

/* ---- ranges ---- */

static const char *format_bound(double value, char buffer[FM_NUMBER_TEXT])
{
    return fm_format_number(value, buffer);
}

/* "at least 1", "above 0 and below 1", ...; empty when there is no bound worth naming. */
static void range_text(const struct fm_key *key, char *buffer, size_t size)
{
    char low[FM_NUMBER_TEXT], high[FM_NUMBER_TEXT];
    bool has_min = key->min > -FM_KEY_MAX_INTEGER, has_max = key->max < FM_KEY_MAX_INTEGER;
    format_bound(key->min, low);
    format_bound(key->max, high);
    const char *above = key->flags & FM_OPEN_MIN ? "above" : "at least";
    const char *below = key->flags & FM_OPEN_MAX ? "below" : "at most";
    if (has_min && has_max)
        snprintf(buffer, size, "%s %s and %s %s", above, low, below, high);
    else if (has_min)
        snprintf(buffer, size, "%s %s", above, low);
    else if (has_max)
        snprintf(buffer, size, "%s %s", below, high);
    else
        snprintf(buffer, size, "%s", "");
}

static bool in_range(const struct fm_key *key, double value)
{
    if (value < key->min || value > key->max) return false;
    if ((key->flags & FM_OPEN_MIN) && !(value > key->min)) return false;
    return !((key->flags & FM_OPEN_MAX) && !(value < key->max));
}

/* A bound that is not worth naming in the help is named when a value lies beyond it. */
static int fail_range(const struct fm_key *key, const struct fm_node *node, const char *path, double value,
                      struct fm_error *err)
{
    char range[128], shown[64];
    range_text(key, range, sizeof range);
    size_t used = strlen(range);
    if (used && value > key->max && key->max >= FM_KEY_MAX_INTEGER)
        snprintf(range + used, sizeof range - used, " and at most %.16g", key->max);
    fm_show(node->text, node->size, shown, sizeof shown);
    return fm_node_fail(node, FM_EFILE, err, "%s is %s; expected %s %s", path, shown,
                        key->type == FM_KEY_INTEGER ? "a whole number," : "a number",
                        *range ? range : "of at most 2^53 in size");
}

/* ---- choices ---- */

static size_t choice_count(const char *const *choices)
{
    size_t n = 0;
    while (choices[n]) n++;
    return n;
}

static void list_words(const char *const *words, size_t count, char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; i < count && used + 1 < size; i++) {
        const char *joint = i == 0 ? "" : i + 1 == count ? " or " : ", ";
        int n = snprintf(buffer + used, size - used, "%s%s", joint, words[i]);
        if (n > 0) used += (size_t)n;
    }
}

static int fail_choice(const struct fm_node *node, const char *path, const char *const *choices,
                       struct fm_error *err)
{
    char words[512], shown[64];
    size_t count = choice_count(choices);
    list_words(choices, count, words, sizeof words);
    if (node->kind != FM_SCALAR || fm_node_type(node) == FM_NULL) {
        return fm_node_fail(node, FM_EFILE, err, "%s is %s; expected %s", path,
                            node->kind == FM_LIST  ? "a list"
                            : node->kind == FM_MAP ? "a mapping"
                                                   : "empty",
                            words);
    }
    const char *near = fm_nearest(node->text, choices, count);
    fm_show(node->text, node->size, shown, sizeof shown);
    if (near) {
        return fm_node_fail(node, FM_EFILE, err, "%s is %s; did you mean %s? (expected %s)", path, shown,
                            near, words);
    }
    return fm_node_fail(node, FM_EFILE, err, "%s is %s; expected %s", path, shown, words);
}

int fm_choice_read(const struct fm_node *node, const char *path, const char *const *choices, int *value,
                   struct fm_error *err)
{
    const char *text;
    if (node->kind != FM_SCALAR || fm_node_type(node) == FM_NULL)
        return fail_choice(node, path, choices, err);
    int code = fm_node_text(node, path, &text, err);
    if (code) return code;
    for (size_t i = 0; choices[i]; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *value = (int)i;
            return 0;
        }
    }
    return fail_choice(node, path, choices, err);
}

/* ---- one value ---- */

static int read_integer(const struct fm_key *key, const struct fm_node *node, const char *path,
                        int64_t *value, struct fm_error *err)
{
    if ((key->flags & FM_PER_DIMENSION) && node->kind == FM_LIST && node->count == 1) node = node->items[0];
    int64_t number;
    int code = fm_node_integer(node, path, &number, err);
    if (code) return code;
    if (number > (int64_t)FM_KEY_MAX_INTEGER || number < -(int64_t)FM_KEY_MAX_INTEGER ||
        !in_range(key, (double)number)) {
        return fail_range(key, node, path, (double)number, err);
    }
    *value = number;
    return 0;
}

static int read_number(const struct fm_key *key, const struct fm_node *node, const char *path, double *value,
                       struct fm_error *err)
{
    double number;
    int code = fm_node_number(node, path, &number, err);
    if (code) return code;
    if (!in_range(key, number)) return fail_range(key, node, path, number, err);
    *value = number;
    return 0;
}

static int read_value(const struct fm_key *key, const struct fm_node *node, const char *path, void *place,
                      struct fm_error *err)
{
    switch (key->type) {
    case FM_KEY_TEXT: return fm_node_text(node, path, place, err);
    case FM_KEY_BOOL: return fm_node_bool(node, path, place, err);
    case FM_KEY_INTEGER: return read_integer(key, node, path, place, err);
    case FM_KEY_NUMBER: return read_number(key, node, path, place, err);
    case FM_KEY_CHOICE: return fm_choice_read(node, path, key->choices, place, err);
    case FM_KEY_NODE: *(const struct fm_node **)place = node; return 0;
    }
    return fm_fail(err, FM_EINTERNAL, "key %s has no type", path);
}

/* ---- the mapping ---- */

static int apply_defaults(const struct reading *r)
{
    char path[256];
    for (const struct fm_key *key = r->keys; key->name; key++) {
        if (!key->fallback) continue;
        struct fm_node node = {.kind = FM_SCALAR,
                               .plain = true,
                               .file = "",
                               .text = key->fallback,
                               .size = strlen(key->fallback)};
        if (key->type == FM_KEY_NODE) continue; /* printed in the help; its reader knows it */
        full_path(r->path, key->name, path, sizeof path);
        int code = read_value(key, &node, path, (char *)r->target + key->offset, r->err);
        if (code) return code;
    }
    return 0;
}

static int fail_unknown(const struct reading *r, const struct fm_node *name)
{
    const char *names[FM_KEYS_MAX];
    char shown[64], words[512];
    size_t count = 0;
    for (const struct fm_key *key = r->keys; key->name && count < FM_KEYS_MAX; key++)
        names[count++] = key->name;
    const char *near = fm_nearest(name->text, names, count);
    fm_show(name->text, name->size, shown, sizeof shown);
    const char *where = *r->path ? r->path : "a sweep file";
    if (near) {
        return fm_node_fail(name, FM_EFILE, r->err, "unknown key '%s' in %s; did you mean '%s'?", shown,
                            where, near);
    }
    if (count == 0)
        return fm_node_fail(name, FM_EFILE, r->err, "unknown key '%s': %s takes no keys", shown, where);
    list_words(names, count, words, sizeof words);
    return fm_node_fail(name, FM_EFILE, r->err, "unknown key '%s' in %s; known: %s", shown, where, words);
}

static const char *type_text(const struct fm_key *key, char *buffer, size_t size)
{
    switch (key->type) {
    case FM_KEY_TEXT: return "text";
    case FM_KEY_BOOL: return "true or false";
    case FM_KEY_INTEGER: return "a whole number";
    case FM_KEY_NUMBER: return "a number";
    case FM_KEY_CHOICE: list_words(key->choices, choice_count(key->choices), buffer, size); return buffer;
    case FM_KEY_NODE: break;
    }
    return "a value";
}

static int read_entry(const struct reading *r, size_t index, const struct fm_node *name,
                      const struct fm_node *node, uint64_t *given)
{
    const struct fm_key *key = &r->keys[index];
    char path[256], words[512];
    full_path(r->path, key->name, path, sizeof path);
    if (key->flags & FM_LATER) return fm_node_fail(name, FM_ELATER, r->err, "%s is not available yet", path);
    if (key->flags & FM_IGNORED) {
        fm_node_note(name, r->notes, FM_NOTE, "%s is ignored: %s", path, key->help);
        return 0;
    }
    *given |= (uint64_t)1 << index;
    if (node->open) return 0;
    if (fm_node_type(node) == FM_NULL) {
        if (key->flags & FM_NULLABLE) {
            *given &= ~((uint64_t)1 << index);
            return 0;
        }
        if (key->type != FM_KEY_NODE) {
            return fm_node_fail(node, FM_EFILE, r->err, "%s is empty; expected %s", path,
                                type_text(key, words, sizeof words));
        }
    }
    return read_value(key, node, path, (char *)r->target + key->offset, r->err);
}

static int check_required(const struct reading *r, uint64_t given, const struct fm_node *where)
{
    char path[256];
    for (size_t i = 0; r->keys[i].name; i++) {
        const struct fm_key *key = &r->keys[i];
        if (!(key->flags & FM_REQUIRED) || (given >> i & 1)) continue;
        full_path(r->path, key->name, path, sizeof path);
        return fm_node_fail(where, FM_EFILE, r->err, "%s is missing: %s", path, key->help);
    }
    return 0;
}

int fm_keys_read(const struct fm_key *keys, const struct fm_node *map, const struct fm_node *where,
                 const char *path, void *target, uint64_t *given, struct fm_notes *notes,
                 struct fm_error *err)
{
    struct reading r = {keys, path, target, notes, err};
    size_t count = key_count(keys);
    uint64_t bits = 0;
    if (count > FM_KEYS_MAX) return fm_fail(err, FM_EINTERNAL, "the table of %s has more than 64 keys", path);
    int code = apply_defaults(&r);
    if (code) return code;
    if (map && map->kind != FM_MAP) {
        bool empty = fm_node_type(map) == FM_NULL;
        return fm_node_fail(map, FM_EFILE, err, "%s is %s; expected a mapping of keys (such as %s)",
                            *path ? path : "the file",
                            map->kind == FM_LIST ? "a list"
                            : empty              ? "empty"
                                                 : "a single value",
                            count ? keys[0].name : "none");
    }
    for (size_t i = 0; map && i < map->count; i++) {
        const struct fm_node *name = map->keys[i];
        size_t k = 0;
        while (k < count && strcmp(keys[k].name, name->text) != 0) k++;
        code = k == count ? fail_unknown(&r, name) : read_entry(&r, k, name, map->items[i], &bits);
        if (code) return code;
    }
    if (given) *given = bits;
    return check_required(&r, bits, where ? where : map);
}

int fm_named_read(const struct fm_node *node, const char *path, const struct fm_node **name,
                  const struct fm_node **arguments, struct fm_error *err)
{
    *arguments = NULL;
    if (node->kind == FM_SCALAR && fm_node_type(node) != FM_NULL) {
        *name = node;
        return 0;
    }
    if (node->kind == FM_MAP && node->count == 1) {
        const struct fm_node *value = node->items[0];
        *name = node->keys[0];
        if (fm_node_type(value) == FM_NULL) return 0;
        if (value->kind == FM_MAP || value->open) {
            *arguments = value->open ? NULL : value;
            return 0;
        }
        return fm_node_fail(value, FM_EFILE, err,
                            "%s: the arguments of %s are a mapping, written {argument: value}", path,
                            (*name)->text);
    }
    if (node->kind == FM_MAP && node->count > 1) {
        return fm_node_fail(
            node->keys[1], FM_EFILE, err,
            "%s has a second name '%.60s' beside '%.60s'; expected one name with its arguments "
            "indented below it or in braces",
            path, node->keys[1]->text, node->keys[0]->text);
    }
    return fm_node_fail(node, FM_EFILE, err, "%s is %s; expected a name or {name: {arguments}}", path,
                        node->kind == FM_LIST ? "a list" : "empty");
}

/* ---- help ---- */

static void print_key(const struct fm_key *key, struct fm_text *text)
{
    char words[512], range[128] = "";
    const char *type = type_text(key, words, sizeof words);
    if (key->type == FM_KEY_INTEGER || key->type == FM_KEY_NUMBER) range_text(key, range, sizeof range);
    fm_text_add(text, "  %-22s %s", key->name, key->help);
    if (key->flags & FM_LATER) {
        fm_text_add_string(text, " [not available yet]\n");
        return;
    }
    if (key->flags & FM_IGNORED) {
        fm_text_add_string(text, " [ignored]\n");
        return;
    }
    fm_text_add_string(text, " [");
    if (key->type != FM_KEY_NODE) fm_text_add(text, "%s%s%s; ", type, *range ? ", " : "", range);
    if (key->flags & FM_REQUIRED)
        fm_text_add_string(text, "required]\n");
    else if (key->fallback)
        fm_text_add(text, "default %s]\n", key->fallback);
    else
        fm_text_add_string(text, "optional]\n");
}

void fm_keys_print(const struct fm_key_section *section, struct fm_text *text)
{
    fm_text_add(text, "%s: %s\n", section->title, section->help);
    for (const struct fm_key *key = section->keys; key->name; key++) print_key(key, text);
}
