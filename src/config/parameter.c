#include "config/parameter.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

/* The next "${" or "$${" at or after `from`; `escaped` tells which. */
static bool find_dollar(const char *text, size_t size, size_t from, size_t *at, bool *escaped)
{
    for (size_t i = from; i + 1 < size; i++) {
        if (text[i] != '$') continue;
        if (i + 2 < size && text[i + 1] == '$' && text[i + 2] == '{') {
            *at = i;
            *escaped = true;
            return true;
        }
        if (text[i + 1] == '{') {
            *at = i;
            *escaped = false;
            return true;
        }
    }
    return false;
}

static bool is_whole(const struct fm_node *node)
{
    return node->size > 3 && memcmp(node->text, "${", 2) == 0 &&
           memchr(node->text, '}', node->size) == node->text + node->size - 1;
}

int fm_parameter_find(const struct fm_node *node, const char **name, size_t *size, struct fm_error *err)
{
    if (node->kind != FM_SCALAR) return 0;
    if (is_whole(node)) {
        *name = node->text + 2;
        *size = node->size - 3;
        return 1;
    }
    size_t at = 0, from = 0;
    bool escaped;
    char shown[64];
    while (find_dollar(node->text, node->size, from, &at, &escaped)) {
        if (!escaped) {
            return fm_node_fail(
                node, FM_EFILE, err,
                "%s: a parameter must be the whole value, \"${name}\"; write $${ for a literal ${",
                fm_show(node->text, node->size, shown, sizeof shown));
        }
        from = at + 3;
    }
    return 0;
}

bool fm_parameter_is(const struct fm_node *node)
{
    return node && node->kind == FM_SCALAR && is_whole(node);
}

bool fm_parameter_escaped(const struct fm_node *node)
{
    if (node->kind != FM_SCALAR) return false;
    size_t at = 0, from = 0;
    bool escaped;
    while (find_dollar(node->text, node->size, from, &at, &escaped)) {
        if (escaped) return true;
        from = at + 2;
    }
    return false;
}

struct fm_node *fm_parameter_unescape(struct fm_document *doc, const struct fm_node *node)
{
    struct fm_text text = {0};
    size_t from = 0, at = 0;
    bool escaped;
    while (find_dollar(node->text, node->size, from, &at, &escaped)) {
        size_t skipped = escaped ? 3 : 2;
        fm_text_add_bytes(&text, node->text + from, at - from);
        fm_text_add_string(&text, "${");
        from = at + skipped;
    }
    fm_text_add_bytes(&text, node->text + from, node->size - from);
    struct fm_node *made =
        text.failed ? NULL : fm_node_new_scalar(doc, text.data, text.size, node->plain, node);
    fm_text_fini(&text);
    return made;
}
