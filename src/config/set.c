/* --set: one value of the tree replaced before it is read.
 *
 * Set nodes carry the file "--set KEY" and no line, so that every later complaint about them names the option
 * that the user gave. The path walks mappings by key and lists by number; missing mappings are made on the
 * way, and whether a key exists at all is for the key tables to say. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/node.h"
#include "config/tree.h"

struct setting {
    struct fm_document *doc;
    const char *file; /* "--set KEY", in the document */
    const char *path; /* KEY */
    size_t path_size;
    struct fm_node *value;
    struct fm_error *err;
};

static struct fm_node *adopt(struct setting *s, const struct fm_node *from)
{
    struct fm_node like = {.file = s->file};
    struct fm_node *node = from->kind == FM_SCALAR
                               ? fm_node_new_scalar(s->doc, from->text, from->size, from->plain, &like)
                               : fm_node_new_collection(s->doc, from->kind, from->count, &like);
    for (size_t i = 0; node && i < from->count; i++) {
        node->items[i] = adopt(s, from->items[i]);
        if (!node->items[i]) return NULL;
        if (node->kind != FM_MAP) continue;
        node->keys[i] = adopt(s, from->keys[i]);
        if (!node->keys[i]) return NULL;
    }
    return node;
}

static int set_fail(const struct setting *s, size_t size, const char *text)
{
    char shown[128];
    return fm_fail_at(s->err, FM_EFILE, s->file, 0, 0, "%s %s", fm_show(s->path, size, shown, sizeof shown),
                      text);
}

/* Adds an entry to a mapping, or gives the place of the one that is there. */
static int map_slot(struct setting *s, struct fm_node *map, const char *key, size_t size,
                    struct fm_node ***slot)
{
    struct fm_node like = {.file = s->file};
    for (size_t i = 0; i < map->count; i++) {
        if (map->keys[i]->size == size && memcmp(map->keys[i]->text, key, size) == 0) {
            *slot = &map->items[i];
            return 0;
        }
    }
    struct fm_node *wider = fm_node_new_collection(s->doc, FM_MAP, map->count + 1, map);
    struct fm_node *name = fm_node_new_scalar(s->doc, key, size, true, &like);
    if (!wider || !name) return fm_fail_memory(s->err);
    if (map->count) {
        memcpy(wider->items, map->items, map->count * sizeof *map->items);
        memcpy(wider->keys, map->keys, map->count * sizeof *map->keys);
    }
    wider->keys[map->count] = name;
    *map = *wider;
    *slot = &map->items[map->count - 1];
    return 0;
}

static int list_slot(struct setting *s, struct fm_node *list, const char *key, size_t size, size_t before,
                     struct fm_node ***slot)
{
    int64_t index;
    char text[96];
    if (fm_parse_integer(key, size, &index) && index >= 0 && (uint64_t)index < list->count) {
        *slot = &list->items[index];
        return 0;
    }
    snprintf(text, sizeof text, "is a list of %zu: its elements are named by number from 0", list->count);
    return set_fail(s, before, text);
}

/* One step of the path, from *slot to the place of `key` in it. `before` = length of the path so far. */
static int step(struct setting *s, struct fm_node ***slot, const char *key, size_t size, size_t before)
{
    struct fm_node like = {.file = s->file};
    struct fm_node *node = **slot;
    if (!node || fm_node_type(node) == FM_NULL) {
        node = fm_node_new_collection(s->doc, FM_MAP, 0, &like);
        if (!node) return fm_fail_memory(s->err);
        **slot = node;
    }
    if (node->kind == FM_MAP) return map_slot(s, node, key, size, slot);
    if (node->kind == FM_LIST) return list_slot(s, node, key, size, before, slot);
    return set_fail(s, before, "is a single value in the file: it has no keys to set");
}

static int apply(struct setting *s)
{
    struct fm_node **slot = &s->doc->root;
    size_t start = 0, depth = 0;
    for (size_t i = 0; i <= s->path_size; i++) {
        if (i < s->path_size && s->path[i] != '.') continue;
        if (i == start)
            return set_fail(s, s->path_size, "has an empty part: expected KEY=VALUE with a dotted key");
        if (++depth > FM_MAX_DEPTH / 2) return set_fail(s, s->path_size, "is nested too deep");
        int code = step(s, &slot, s->path + start, i - start, start ? start - 1 : 0);
        if (code) return code;
        start = i + 1;
    }
    *slot = s->value;
    return 0;
}

/* How deep a tree is; those of the parser are bounded, so this ends. */
static size_t depth_of(const struct fm_node *node)
{
    size_t deepest = 0;
    for (size_t i = 0; i < node->count; i++) {
        size_t depth = depth_of(node->items[i]);
        if (depth > deepest) deepest = depth;
    }
    return deepest + 1;
}

int fm_document_set(struct fm_document *doc, const char *setting, struct fm_notes *notes,
                    struct fm_error *err)
{
    const char *equals = strchr(setting, '=');
    char shown[128];
    size_t length = strlen(setting);
    if (!equals || equals == setting) {
        return fm_fail(err, FM_EUSAGE, "--set %s: expected KEY=VALUE, such as train.epochs=3",
                       fm_show(setting, length, shown, sizeof shown));
    }
    size_t path_size = (size_t)(equals - setting);
    if (fm_utf8_invalid(setting, path_size) >= 0)
        return fm_fail(err, FM_EUSAGE, "--set: the key is not UTF-8 text");
    char *file = fm_document_alloc(doc, path_size + 8, 1);
    if (!file) return fm_fail_memory(err);
    snprintf(file, path_size + 8, "--set %.*s", (int)path_size, setting);

    struct fm_document value;
    int code = fm_document_parse(&value, file, equals + 1, length - path_size - 1, notes, err);
    if (code) return code;
    struct setting s = {.doc = doc, .file = file, .path = setting, .path_size = path_size, .err = err};
    if (depth_of(value.root) > FM_MAX_DEPTH / 2) {
        code = fm_fail_at(err, FM_EFILE, file, 0, 0, "the value is nested too deep");
    } else {
        s.value = adopt(&s, value.root);
        code = s.value ? apply(&s) : fm_fail_memory(err);
    }
    fm_document_fini(&value);
    return code;
}
