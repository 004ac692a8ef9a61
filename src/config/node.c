/* Nodes: where they live, what type the core schema gives them, and the typed readers.
 *
 * All nodes and texts of a document lie in its blocks and are freed with it, one by one never. Typed readers
 * blame the node they read, and say what they wanted. */
#include "config/node.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/tree.h"

struct fm_block {
    struct fm_block *next;
    size_t used, size;
    _Alignas(16) unsigned char data[];
};

#define FM_BLOCK_SIZE ((size_t)16 * 1024)

void *fm_document_alloc(struct fm_document *doc, size_t n, size_t size)
{
    int64_t product;
    if (n > INT64_MAX || size > INT64_MAX || !fm_multiply((int64_t)n, (int64_t)size, &product)) return NULL;
    if (product > INT32_MAX) return NULL;
    size_t bytes = ((size_t)product + 15) & ~(size_t)15;
    struct fm_block *block = doc->blocks;
    if (!block || block->size - block->used < bytes) {
        size_t room = bytes > FM_BLOCK_SIZE ? bytes : FM_BLOCK_SIZE;
        block = fm_calloc(1, sizeof *block + room);
        if (!block) return NULL;
        block->size = room;
        block->next = doc->blocks;
        doc->blocks = block;
    }
    void *place = block->data + block->used;
    block->used += bytes;
    return place;
}

void fm_document_fini(struct fm_document *doc)
{
    while (doc->blocks) {
        struct fm_block *next = doc->blocks->next;
        fm_free(doc->blocks);
        doc->blocks = next;
    }
    fm_free(doc->file);
    fm_free(doc->source);
    memset(doc, 0, sizeof *doc);
}

static struct fm_node *node_new(struct fm_document *doc, enum fm_node_kind kind, const struct fm_node *like)
{
    struct fm_node *node = fm_document_alloc(doc, 1, sizeof *node);
    if (!node) return NULL;
    node->kind = kind;
    node->file = like ? like->file : doc->file;
    node->line = like ? like->line : 0;
    node->column = like ? like->column : 0;
    doc->nodes++;
    return node;
}

struct fm_node *fm_node_new_scalar(struct fm_document *doc, const char *text, size_t size, bool plain,
                                   const struct fm_node *like)
{
    struct fm_node *node = node_new(doc, FM_SCALAR, like);
    char *copy = fm_document_alloc(doc, size + 1, 1);
    if (!node || !copy) return NULL;
    if (size) memcpy(copy, text, size);
    node->text = copy;
    node->size = size;
    node->plain = plain;
    return node;
}

struct fm_node *fm_node_new_collection(struct fm_document *doc, enum fm_node_kind kind, size_t count,
                                       const struct fm_node *like)
{
    struct fm_node *node = node_new(doc, kind, like);
    if (!node) return NULL;
    node->count = count;
    node->items = fm_document_alloc(doc, count, sizeof(struct fm_node *));
    if (!node->items) return NULL;
    if (kind == FM_MAP) {
        node->keys = fm_document_alloc(doc, count, sizeof(struct fm_node *));
        if (!node->keys) return NULL;
    }
    return node;
}

static bool find_key(const struct fm_node *map, const char *key, size_t *index)
{
    if (!map || map->kind != FM_MAP) return false;
    size_t size = strlen(key);
    for (size_t i = 0; i < map->count; i++) {
        if (map->keys[i]->size == size && memcmp(map->keys[i]->text, key, size) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

struct fm_node *fm_node_get(const struct fm_node *map, const char *key)
{
    size_t i;
    return find_key(map, key, &i) ? map->items[i] : NULL;
}

const struct fm_node *fm_node_key(const struct fm_node *map, const char *key)
{
    size_t i;
    return find_key(map, key, &i) ? map->keys[i] : NULL;
}

/* ---- the core schema ---- */

static bool is_one_of(const struct fm_node *node, const char *const *words)
{
    for (; *words; words++) {
        if (strlen(*words) == node->size && memcmp(*words, node->text, node->size) == 0) return true;
    }
    return false;
}

/* 0o17 and 0x1F, which the core schema has beside decimal integers. */
bool fm_parse_based(const struct fm_node *node, int64_t *value)
{
    if (node->size < 3 || node->text[0] != '0') return false;
    unsigned base = node->text[1] == 'o' ? 8 : node->text[1] == 'x' ? 16 : 0;
    if (!base) return false;
    int64_t sum = 0;
    for (size_t i = 2; i < node->size; i++) {
        char c = node->text[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 99;
        if (digit >= base || sum > (INT64_MAX - digit) / base) return false;
        sum = sum * base + digit;
    }
    *value = sum;
    return true;
}

static bool only_digits(const struct fm_node *node)
{
    size_t i = node->size && (node->text[0] == '-' || node->text[0] == '+');
    if (i == node->size) return false;
    for (; i < node->size; i++) {
        if (node->text[i] < '0' || node->text[i] > '9') return false;
    }
    return true;
}

enum fm_node_type fm_node_type(const struct fm_node *node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const bools[] = {"true", "True", "TRUE", "false", "False", "FALSE", NULL};
    if (node->kind != FM_SCALAR) return FM_COLLECTION;
    if (!node->plain) return FM_TEXT;
    if (is_one_of(node, nulls)) return FM_NULL;
    if (is_one_of(node, bools)) return FM_BOOL;
    int64_t whole;
    double number;
    if (fm_parse_based(node, &whole)) return FM_INTEGER;
    if (only_digits(node) && fm_parse_integer(node->text, node->size, &whole)) return FM_INTEGER;
    if (fm_parse_number(node->text, node->size, &number)) return FM_NUMBER;
    return FM_TEXT;
}

/* ---- errors ---- */

int fm_node_fail(const struct fm_node *node, int code, struct fm_error *err, const char *format, ...)
{
    char text[sizeof err->text];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (size >= (int)sizeof text) memcpy(text + sizeof text - 4, "...", 4);
    if (!node) return fm_fail(err, code, "%s", text);
    return fm_fail_at(err, code, node->file, node->line, node->column, "%s", text);
}

/* What stands at the node, for "x is <this>; expected <that>". */
static const char *describe(const struct fm_node *node, char *buffer, size_t size)
{
    char shown[64];
    if (node->kind == FM_LIST) return "a list";
    if (node->kind == FM_MAP) return "a mapping";
    if (fm_node_type(node) == FM_NULL) return "empty";
    fm_show(node->text, node->size, shown, sizeof shown);
    const char *quote = node->plain ? "" : "\"";
    snprintf(buffer, size, "%s%s%s", quote, shown, quote);
    return buffer;
}

static int fail_type(const struct fm_node *node, const char *path, const char *wanted, struct fm_error *err)
{
    char found[80];
    describe(node, found, sizeof found);
    if (node->kind == FM_SCALAR && node->size > 2 && memcmp(node->text, "${", 2) == 0) {
        return fm_node_fail(node, FM_EFILE, err,
                            "%s is %s, but a parameter cannot stand here: only in model, train, cv.seed and "
                            "data.window.length",
                            path, found);
    }
    struct fm_node bare = *node;
    bare.plain = true;
    enum fm_node_type type = fm_node_type(&bare);
    if (node->kind == FM_SCALAR && !node->plain &&
        (type == FM_INTEGER || type == FM_NUMBER || type == FM_BOOL)) {
        return fm_node_fail(node, FM_EFILE, err, "%s is the text %s; expected %s: remove the quotes", path,
                            found, wanted);
    }
    return fm_node_fail(
        node, FM_EFILE, err, "%s is %s; expected %s", path,
        node->kind == FM_SCALAR && type != FM_NULL ? found : describe(node, found, sizeof found), wanted);
}

void fm_node_note(const struct fm_node *node, struct fm_notes *notes, enum fm_level level, const char *format,
                  ...)
{
    char text[1024], place[64] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (node->line)
        snprintf(place, sizeof place, ":%lld:%lld", (long long)node->line, (long long)node->column);
    fm_note(notes, level, "%s%s: %s", node->file, place, text);
}

/* ---- typed readers ---- */

int fm_node_bool(const struct fm_node *node, const char *path, bool *value, struct fm_error *err)
{
    if (fm_node_type(node) != FM_BOOL) return fail_type(node, path, "true or false", err);
    *value = node->text[0] == 't' || node->text[0] == 'T';
    return 0;
}

int fm_node_integer(const struct fm_node *node, const char *path, int64_t *value, struct fm_error *err)
{
    enum fm_node_type type = fm_node_type(node);
    if (type == FM_INTEGER || type == FM_NUMBER) {
        if (fm_parse_based(node, value) || fm_parse_integer(node->text, node->size, value)) return 0;
    }
    double number;
    bool huge = type == FM_NUMBER && fm_parse_number(node->text, node->size, &number) &&
                (number >= 0x1p63 || number < -0x1p63);
    return fail_type(node, path, huge ? "a whole number of less than 2^63" : "a whole number", err);
}

int fm_node_number(const struct fm_node *node, const char *path, double *value, struct fm_error *err)
{
    enum fm_node_type type = fm_node_type(node);
    int64_t whole;
    if (type == FM_INTEGER || type == FM_NUMBER) {
        if (fm_parse_based(node, &whole)) {
            *value = (double)whole;
            return 0;
        }
        if (fm_parse_number(node->text, node->size, value)) return 0;
    }
    return fail_type(node, path, "a number", err);
}

int fm_node_text(const struct fm_node *node, const char *path, const char **value, struct fm_error *err)
{
    if (node->kind != FM_SCALAR || fm_node_type(node) == FM_NULL) return fail_type(node, path, "text", err);
    *value = node->text;
    return 0;
}
