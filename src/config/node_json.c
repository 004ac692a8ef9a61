/* Nodes as JSON, and JSON as canonical text. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/node.h"
#include "config/tree.h"

static json_t *scalar_json(const struct fm_node *node)
{
    int64_t whole;
    double number;
    switch (fm_node_type(node)) {
    case FM_NULL: return json_null();
    case FM_BOOL: return json_boolean(node->text[0] == 't' || node->text[0] == 'T');
    case FM_INTEGER:
    case FM_NUMBER:
        if (fm_parse_based(node, &whole) || fm_parse_integer(node->text, node->size, &whole))
            return json_integer(whole);
        if (!fm_parse_number(node->text, node->size, &number)) return NULL;
        return json_real(number);
    default: return json_stringn(node->text, node->size);
    }
}

json_t *fm_node_json(const struct fm_node *node)
{
    if (node->kind == FM_SCALAR) return scalar_json(node);
    json_t *json = node->kind == FM_LIST ? json_array() : json_object();
    for (size_t i = 0; json && i < node->count; i++) {
        json_t *item = fm_node_json(node->items[i]);
        /* Both calls take the reference to item, and refuse NULL. */
        int failed = node->kind == FM_LIST ? json_array_append_new(json, item)
                                           : json_object_set_new(json, node->keys[i]->text, item);
        if (failed) {
            json_decref(json);
            return NULL;
        }
    }
    return json;
}

bool fm_node_equal(const struct fm_node *a, const struct fm_node *b)
{
    json_t *left = fm_node_json(a), *right = fm_node_json(b);
    bool equal = left && right && json_equal(left, right);
    json_decref(left);
    json_decref(right);
    return equal;
}

/* ---- canonical text ---- */

static int add_bytes(const char *bytes, size_t size, void *text)
{
    fm_text_add_bytes(text, bytes, size);
    return ((struct fm_text *)text)->failed ? -1 : 0;
}

static void write_value(const json_t *json, struct fm_text *text);

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static void write_string(const char *string, size_t size, struct fm_text *text)
{
    json_t *json = json_stringn_nocheck(string, size);
    if (!json || json_dump_callback(json, add_bytes, text, JSON_ENCODE_ANY)) text->failed = true;
    json_decref(json);
}

static void write_object(const json_t *json, struct fm_text *text)
{
    size_t count = json_object_size(json), n = 0;
    const char **names = fm_malloc(count, sizeof *names);
    if (!names) {
        text->failed = true;
        return;
    }
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)json, name, value) names[n++] = name;
    qsort(names, count, sizeof *names, compare_names);
    fm_text_add_string(text, "{");
    for (size_t i = 0; i < count; i++) {
        if (i) fm_text_add_string(text, ",");
        write_string(names[i], strlen(names[i]), text);
        fm_text_add_string(text, ":");
        write_value(json_object_get(json, names[i]), text);
    }
    fm_text_add_string(text, "}");
    fm_free(names);
}

static void write_value(const json_t *json, struct fm_text *text)
{
    char number[FM_NUMBER_TEXT];
    switch (json_typeof(json)) {
    case JSON_NULL: fm_text_add_string(text, "null"); break;
    case JSON_TRUE: fm_text_add_string(text, "true"); break;
    case JSON_FALSE: fm_text_add_string(text, "false"); break;
    case JSON_INTEGER: fm_text_add(text, "%lld", (long long)json_integer_value(json)); break;
    case JSON_REAL: fm_text_add_string(text, fm_format_number(json_real_value(json), number)); break;
    case JSON_STRING: write_string(json_string_value(json), json_string_length(json), text); break;
    case JSON_OBJECT: write_object(json, text); break;
    case JSON_ARRAY:
        fm_text_add_string(text, "[");
        for (size_t i = 0; i < json_array_size(json); i++) {
            if (i) fm_text_add_string(text, ",");
            write_value(json_array_get(json, i), text);
        }
        fm_text_add_string(text, "]");
        break;
    }
}

int fm_json_text(const json_t *json, struct fm_text *text, struct fm_error *err)
{
    write_value(json, text);
    return text->failed ? fm_fail_memory(err) : 0;
}
