/* `trials`: combinations that the user wrote out. */
#include <string.h>

#include "base/error.h"
#include "search/candidates.h"

/* True when some parameter is named below `name`: "a.b" for "a". */
static bool is_prefix(const struct fm_space *space, const char *name, size_t size)
{
    for (size_t i = 0; i < space->count; i++) {
        const char *other = space->items[i].name;
        if (strncmp(other, name, size) == 0 && other[size] == '.') return true;
    }
    return false;
}

static int take(const struct fm_space *space, const struct fm_node *map, const char *prefix,
                const struct fm_node **values, struct fm_error *err)
{
    for (size_t i = 0; i < map->count; i++) {
        struct fm_text name = {0};
        fm_text_add(&name, "%s%s", prefix, *prefix ? "." : "");
        fm_text_add_bytes(&name, map->keys[i]->text, map->keys[i]->size);
        int code = name.failed ? fm_fail_memory(err) : 0;
        int64_t place = code ? -1 : fm_space_find(space, name.data, name.size);
        if (code) {
            /* nothing to take */
        } else if (place >= 0) {
            values[place] = map->items[i];
        } else if (map->items[i]->kind == FM_MAP && is_prefix(space, name.data, name.size)) {
            code = take(space, map->items[i], name.data, values, err);
        } else {
            code = fm_space_fail_unknown(space, map->keys[i], name.data, name.size, err);
        }
        fm_text_fini(&name);
        if (code) return code;
    }
    return 0;
}

const struct fm_node *fm_list_find(const struct fm_node *entry, const char *name)
{
    const struct fm_node *value = fm_node_get(entry, name);
    for (const char *dot = strchr(name, '.'); !value && dot; dot = strchr(dot + 1, '.')) {
        for (size_t i = 0; !value && entry->kind == FM_MAP && i < entry->count; i++) {
            const struct fm_node *key = entry->keys[i];
            if (key->size != (size_t)(dot - name) || memcmp(key->text, name, key->size) != 0) continue;
            value = fm_list_find(entry->items[i], dot + 1);
        }
    }
    return value;
}

int fm_list_values(const struct fm_space *space, const struct fm_node *entry, const struct fm_node **values,
                   struct fm_error *err)
{
    if (entry->kind != FM_MAP) {
        return fm_node_fail(entry, FM_EFILE, err,
                            "trials: expected mappings of parameters, {name: value, ...}");
    }
    for (size_t i = 0; i < space->count; i++) {
        const struct fm_parameter *p = &space->items[i];
        values[i] = p->distribution == FM_CONSTANT ? p->values[0] : NULL;
    }
    return take(space, entry, "", values, err);
}
