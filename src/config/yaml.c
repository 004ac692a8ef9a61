/* YAML files to trees: libfyaml's event stream behind guards.
 *
 * libfyaml 0.7.12 loops for ever on some invalid UTF-8 and takes seconds to resolve a billion-laughs file, so
 * nothing reaches it that guard() has not passed, and its documents are not used: events build our own tree,
 * each alias copies its anchor's tree, and nodes, depth and anchors are counted while the tree grows. */
#include <libfyaml.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/node.h"
#include "config/tree.h"

#define FM_MAX_NODES   ((size_t)200000)
#define FM_MAX_ANCHORS ((size_t)1000)
#define FM_MAX_ODD     6 /* notes about values that other readers understand differently */

struct frame {
    struct fm_node *node;
    struct fm_node *key; /* read, its value not yet */
    struct fm_node **items, **keys;
    size_t count, capacity, keys_capacity;
};

struct anchor {
    char *name;
    struct fm_node *node;
    bool complete; /* an alias inside its own anchor would never end */
};

struct builder {
    const char *bytes; /* what the parser reads */
    size_t size;
    struct fm_document *doc;
    struct fm_notes *notes;
    struct fm_error *err;
    struct frame stack[FM_MAX_DEPTH];
    size_t depth;
    struct anchor *anchors;
    size_t anchor_count, anchor_capacity;
    int64_t line, column; /* of the last thing seen, for what has no place of its own */
    int odd;
    int documents;
    struct fm_text clashes;
    const struct fm_node *first_clash;
};

static int fail_here(struct builder *b, const char *text)
{
    return fm_fail_at(b->err, FM_EFILE, b->doc->file, b->line, b->column, "%s", text);
}

/* ---- keys that stand twice ---- */

/* The mapping on top of the stack, as "model[2].conv1d."; in each frame below it, the last item is the way
 * up. */
static void write_path(const struct builder *b, struct fm_text *out)
{
    for (size_t i = 0; i + 1 < b->depth; i++) {
        const struct frame *f = &b->stack[i];
        if (f->node->kind == FM_LIST)
            fm_text_add(out, "[%zu]", f->count - 1);
        else
            fm_text_add(out, "%s%.60s", i ? "." : "", f->keys[f->count - 1]->text);
    }
    if (b->depth > 1) fm_text_add_string(out, ".");
}

static int compare_keys(const void *left, const void *right)
{
    const struct fm_node *a = *(struct fm_node *const *)left, *c = *(struct fm_node *const *)right;
    int order = strcmp(a->text, c->text);
    if (order) return order;
    if (a->line != c->line) return a->line < c->line ? -1 : 1;
    return a->column < c->column ? -1 : a->column > c->column;
}

static int compare_places(const void *left, const void *right)
{
    const struct fm_node *a = *(struct fm_node *const *)left, *c = *(struct fm_node *const *)right;
    if (a->line != c->line) return a->line < c->line ? -1 : 1;
    return a->column < c->column ? -1 : a->column > c->column;
}

static void add_clash(struct builder *b, const struct fm_node *first, const struct fm_node *second)
{
    struct fm_text *t = &b->clashes;
    if (t->size > 1500) return; /* the message is cut there anyway */
    if (t->size) fm_text_add_string(t, ", ");
    write_path(b, t);
    if (first->line == second->line) {
        fm_text_add(t, "%.60s on line %lld (columns %lld and %lld)", second->text, (long long)first->line,
                    (long long)first->column, (long long)second->column);
    } else {
        fm_text_add(t, "%.60s on lines %lld and %lld", second->text, (long long)first->line,
                    (long long)second->line);
    }
    if (!b->first_clash) b->first_clash = second;
}

/* Reports the clashes of one mapping in the order of the file. Pairs lie side by side at the end of `order`.
 */
static int find_clashes(struct builder *b, const struct frame *f)
{
    struct fm_node **order = fm_malloc(2 * f->count, sizeof *order);
    struct fm_node **seconds = order ? order + f->count : NULL;
    if (!order) return fm_fail_memory(b->err);
    size_t clashes = 0;
    if (f->count) memcpy(order, f->keys, f->count * sizeof *order);
    qsort(order, f->count, sizeof *order, compare_keys);
    for (size_t i = 1; i < f->count; i++) {
        if (strcmp(order[i - 1]->text, order[i]->text) == 0) seconds[clashes++] = order[i];
    }
    qsort(seconds, clashes, sizeof *seconds, compare_places);
    for (size_t c = 0; c < clashes; c++) {
        size_t i = 1;
        while (order[i] != seconds[c]) i++;
        add_clash(b, order[i - 1], order[i]);
        if (b->clashes.size > 1500) break;
    }
    fm_free(order);
    return b->clashes.failed ? fm_fail_memory(b->err) : 0;
}

/* ---- values that other readers understand differently ---- */

static void warn_odd(struct builder *b, const struct fm_node *node)
{
    if (!node->plain || b->odd > FM_MAX_ODD) return;
    const char *reading = fm_odd_reading(node->text, node->size);
    if (!reading) return;
    if (b->odd++ == FM_MAX_ODD) {
        fm_note(b->notes, FM_WARNING, "%s: more such values follow", b->doc->file);
        return;
    }
    enum fm_node_type type = fm_node_type(node);
    fm_node_note(node, b->notes, FM_WARNING, "%.40s is %s here (YAML 1.2), but %s for YAML 1.1 readers",
                 node->text, type == FM_INTEGER ? "a decimal number" : "text", reading);
}

/* ---- events to nodes ---- */

static int push_value(struct builder *b, struct fm_node *node)
{
    if (b->depth == 0) {
        b->doc->root = node;
        return 0;
    }
    struct frame *f = &b->stack[b->depth - 1];
    if (f->node->kind == FM_MAP && !f->key) {
        if (node->kind != FM_SCALAR) return fail_here(b, "a key must be a word, not a list or a mapping");
        if (node->size == 0) return fail_here(b, "a key is missing before ':'");
        if (node->plain && strcmp(node->text, "<<") == 0) {
            return fm_node_fail(
                node, FM_EFILE, b->err,
                "merge keys (<<) are not supported; write the keys out, or use an alias for a "
                "whole value");
        }
        f->key = node;
        return 0;
    }
    if (fm_grow(&f->items, &f->capacity, f->count + 1, sizeof *f->items)) return fm_fail_memory(b->err);
    f->items[f->count] = node;
    if (f->node->kind == FM_MAP) {
        if (fm_grow(&f->keys, &f->keys_capacity, f->count + 1, sizeof *f->keys))
            return fm_fail_memory(b->err);
        f->keys[f->count] = f->key;
        f->key = NULL;
    }
    f->count++;
    return 0;
}

static int count_node(struct builder *b)
{
    if (b->doc->nodes < FM_MAX_NODES) return 0;
    return fail_here(b, "the file holds more than 200000 values (aliases counted where they stand)");
}

static struct fm_node place(const struct builder *b)
{
    struct fm_node like = {.file = b->doc->file, .line = b->line, .column = b->column};
    return like;
}

static int add_anchor(struct builder *b, struct fy_token *token, struct fm_node *node, bool complete)
{
    size_t size;
    if (!token) return 0;
    const char *text = fy_token_get_text(token, &size);
    if (!text) return fm_fail_memory(b->err);
    if (b->anchor_count == FM_MAX_ANCHORS) return fail_here(b, "the file has more than 1000 anchors");
    if (fm_grow(&b->anchors, &b->anchor_capacity, b->anchor_count + 1, sizeof *b->anchors)) {
        return fm_fail_memory(b->err);
    }
    char *name = fm_strndup(text, size);
    if (!name) return fm_fail_memory(b->err);
    b->anchors[b->anchor_count++] = (struct anchor){name, node, complete};
    return 0;
}

/* The node of a quoted scalar, from its bytes in the file. */
static int quoted_node(struct builder *b, struct fy_event *event, bool single, struct fm_node **node)
{
    const struct fy_mark *start = fy_event_start_mark(event), *end = fy_event_end_mark(event);
    struct fm_node like = place(b);
    struct fm_text text = {0};
    if (!start || !end || end->input_pos > b->size || start->input_pos > end->input_pos) {
        return fail_here(b, "this quoted text cannot be read");
    }
    if (like.column > 1) like.column--; /* the mark is behind the opening quote */
    fm_text_add_bytes(&text, "", 0);
    if (!fm_unquote(b->bytes + start->input_pos, end->input_pos - start->input_pos, single, &text)) {
        fm_text_fini(&text);
        return fail_here(b, "an escape (\\...) in this quoted text is no character");
    }
    *node =
        text.failed ? NULL : fm_node_new_scalar(b->doc, text.data ? text.data : "", text.size, false, &like);
    fm_text_fini(&text);
    return *node ? 0 : fm_fail_memory(b->err);
}

static int on_scalar(struct builder *b, struct fy_event *event)
{
    size_t size = 0;
    struct fy_token *token = fy_event_get_token(event);
    enum fy_scalar_style style = token ? fy_scalar_token_get_style(token) : FYSS_PLAIN;
    struct fm_node like = place(b), *node = NULL;
    int code = count_node(b);
    if (code) return code;
    if (style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED) {
        code = quoted_node(b, event, style == FYSS_SINGLE_QUOTED, &node);
        if (code) return code;
    } else {
        const char *text = token ? fy_token_get_text(token, &size) : "";
        if (!text) return fm_fail_memory(b->err);
        node = fm_node_new_scalar(b->doc, text, size, style == FYSS_PLAIN, &like);
        if (!node) return fm_fail_memory(b->err);
    }
    if (memchr(node->text, '\0', node->size)) return fail_here(b, "text must not hold a zero byte (\\0)");
    warn_odd(b, node);
    code = add_anchor(b, fy_event_get_anchor_token(event), node, true);
    return code ? code : push_value(b, node);
}

static int on_start(struct builder *b, struct fy_event *event, enum fm_node_kind kind)
{
    struct fm_node like = place(b);
    if (b->depth == FM_MAX_DEPTH) return fail_here(b, "lists and mappings are nested more than 64 deep");
    int code = count_node(b);
    if (code) return code;
    struct fm_node *node = fm_node_new_collection(b->doc, kind, 0, &like);
    if (!node) return fm_fail_memory(b->err);
    code = add_anchor(b, fy_event_get_anchor_token(event), node, false);
    if (!code) code = push_value(b, node);
    if (code) return code;
    b->stack[b->depth++] = (struct frame){.node = node};
    return 0;
}

static void free_frame(struct frame *f)
{
    fm_free(f->items);
    fm_free(f->keys);
}

static int on_end(struct builder *b)
{
    struct frame *f = &b->stack[b->depth - 1];
    struct fm_node *node = f->node;
    int code = node->kind == FM_MAP ? find_clashes(b, f) : 0;
    if (!code) {
        node->count = f->count;
        node->items = fm_document_alloc(b->doc, f->count, sizeof *f->items);
        if (node->kind == FM_MAP) node->keys = fm_document_alloc(b->doc, f->count, sizeof *f->keys);
        if (!node->items || (node->kind == FM_MAP && !node->keys)) code = fm_fail_memory(b->err);
    }
    if (!code && f->count) {
        memcpy(node->items, f->items, f->count * sizeof *f->items);
        if (node->kind == FM_MAP) memcpy(node->keys, f->keys, f->count * sizeof *f->keys);
    }
    free_frame(f);
    b->depth--;
    for (size_t i = b->anchor_count; i-- > 0;) {
        if (b->anchors[i].node == node) b->anchors[i].complete = true;
    }
    return code;
}

/* Copies an anchor's tree, so that --set may change one place without the other. */
static struct fm_node *copy_tree(struct builder *b, const struct fm_node *from, size_t depth)
{
    if (depth >= FM_MAX_DEPTH) {
        fail_here(b, "lists and mappings are nested more than 64 deep");
        return NULL;
    }
    if (count_node(b)) return NULL;
    struct fm_node *node = from->kind == FM_SCALAR
                               ? fm_node_new_scalar(b->doc, from->text, from->size, from->plain, from)
                               : fm_node_new_collection(b->doc, from->kind, from->count, from);
    if (!node) {
        fm_fail_memory(b->err);
        return NULL;
    }
    for (size_t i = 0; i < node->count; i++) {
        node->items[i] = copy_tree(b, from->items[i], depth + 1);
        if (!node->items[i]) return NULL;
        if (node->kind == FM_MAP) node->keys[i] = from->keys[i];
    }
    return node;
}

static int on_alias(struct builder *b, struct fy_event *event)
{
    size_t size;
    char shown[64];
    const char *text = fy_token_get_text(fy_event_get_token(event), &size);
    if (!text) return fm_fail_memory(b->err);
    for (size_t i = b->anchor_count; i-- > 0;) {
        const struct anchor *a = &b->anchors[i];
        if (strlen(a->name) != size || memcmp(a->name, text, size) != 0) continue;
        if (!a->complete) return fail_here(b, "an alias stands inside its own anchor");
        struct fm_node *node = copy_tree(b, a->node, b->depth);
        return node ? push_value(b, node) : b->err->code;
    }
    return fm_fail_at(b->err, FM_EFILE, b->doc->file, b->line, b->column,
                      "there is no anchor &%s before this alias", fm_show(text, size, shown, sizeof shown));
}

static int on_event(struct builder *b, struct fy_event *event)
{
    const struct fy_mark *mark = fy_event_start_mark(event);
    if (mark) {
        b->line = (int64_t)mark->line + 1;
        b->column = (int64_t)mark->column + 1;
    }
    if (event->type == FYET_SCALAR || event->type == FYET_SEQUENCE_START ||
        event->type == FYET_MAPPING_START) {
        if (fy_event_get_tag_token(event)) {
            return fail_here(b, "tags (!name) are not supported; quotes make a value text");
        }
    }
    switch (event->type) {
    case FYET_DOCUMENT_START:
        return ++b->documents > 1 ? fail_here(b, "a second document starts here; a file holds one sweep") : 0;
    case FYET_SCALAR: return on_scalar(b, event);
    case FYET_SEQUENCE_START: return on_start(b, event, FM_LIST);
    case FYET_MAPPING_START: return on_start(b, event, FM_MAP);
    case FYET_SEQUENCE_END:
    case FYET_MAPPING_END: return on_end(b);
    case FYET_ALIAS: return on_alias(b, event);
    default: return 0;
    }
}

/* ---- the parser ---- */

static void swallow(struct fy_diag *diag, void *user, const char *text, size_t size)
{
    (void)diag;
    (void)user;
    (void)text;
    (void)size;
}

static int fail_parser(struct builder *b, struct fy_diag *diag)
{
    void *cursor = NULL;
    const struct fy_diag_error *first = fy_diag_errors_iterate(diag, &cursor);
    if (!first || !first->msg) return fail_here(b, "this is not valid YAML");
    char shown[200];
    int64_t line = first->line > 0 ? first->line : b->line,
            column = first->column > 0 ? first->column : b->column;
    return fm_fail_at(b->err, FM_EFILE, b->doc->file, line, column, "not valid YAML: %s",
                      fm_show(first->msg, strlen(first->msg), shown, sizeof shown));
}

static int run_parser(struct builder *b, struct fy_parser *parser, struct fy_diag *diag)
{
    struct fy_event *event;
    while ((event = fy_parser_parse(parser))) {
        int code = on_event(b, event);
        fy_parser_event_free(parser, event);
        if (code) return code;
    }
    if (fy_parser_get_stream_error(parser) || b->depth) return fail_parser(b, diag);
    if (b->first_clash) {
        return fm_node_fail(b->first_clash, FM_EFILE, b->err, "the same key twice: %s; keep one of each",
                            b->clashes.data);
    }
    return 0;
}

static int parse(struct builder *b)
{
    struct fy_diag_cfg diag_cfg;
    fy_diag_cfg_default(&diag_cfg);
    diag_cfg.fp = NULL;
    diag_cfg.output_fn = swallow;
    diag_cfg.colorize = false;
    struct fy_diag *diag = fy_diag_create(&diag_cfg);
    if (!diag) return fm_fail_memory(b->err);
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg cfg = {.diag = diag, .flags = FYPCF_DISABLE_MMAP_OPT | FYPCF_COLLECT_DIAG};
    struct fy_parser *parser = fy_parser_create(&cfg);
    int code;
    if (!parser || fy_parser_set_string(parser, b->bytes, b->size))
        code = fm_fail_memory(b->err);
    else
        code = run_parser(b, parser, diag);
    if (parser) fy_parser_destroy(parser);
    fy_diag_destroy(diag);
    while (b->depth) free_frame(&b->stack[--b->depth]);
    for (size_t i = 0; i < b->anchor_count; i++) fm_free(b->anchors[i].name);
    fm_free(b->anchors);
    fm_text_fini(&b->clashes);
    return code;
}

/* ---- guards ---- */

static int fail_at_offset(const struct fm_document *doc, const char *bytes, size_t offset,
                          struct fm_error *err, const char *text)
{
    int64_t line = 1, column = 1;
    for (size_t i = 0; i < offset; i++) {
        if (bytes[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)bytes[i] & 0xC0) != 0x80) {
            column++;
        }
    }
    return fm_fail_at(err, FM_EFILE, doc->file, line, column, "%s", text);
}

/* Everything that libfyaml must not see. */
static int guard(const struct fm_document *doc, const char *bytes, size_t size, struct fm_error *err)
{
    if (size > FM_MAX_BYTES) {
        return fm_fail_at(err, FM_EFILE, doc->file, 0, 0,
                          "a sweep file may have 1 MiB at most; this is larger");
    }
    int64_t bad = fm_utf8_invalid(bytes, size);
    if (bad >= 0) {
        return fail_at_offset(doc, bytes, (size_t)bad, err, "this is not UTF-8 text; save the file as UTF-8");
    }
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F) {
            return fail_at_offset(doc, bytes, i, err,
                                  "a control character stands here, which YAML does not allow");
        }
        bool starts_line = i == 0 || bytes[i - 1] == '\n' || bytes[i - 1] == '\r';
        if (c == '%' && starts_line && (size - i < 5 || memcmp(bytes + i, "%YAML", 5) != 0)) {
            return fail_at_offset(
                doc, bytes, i, err,
                "a line must not start with '%' (only %YAML may); quote the text or indent it");
        }
    }
    return 0;
}

int fm_document_parse(struct fm_document *doc, const char *name, const char *bytes, size_t size,
                      struct fm_notes *notes, struct fm_error *err)
{
    memset(doc, 0, sizeof *doc);
    struct fm_error local = {0};
    struct builder b = {.doc = doc, .notes = notes, .err = err ? err : &local, .line = 1, .column = 1};
    doc->file = fm_strdup(name);
    doc->source = fm_strndup(bytes, size);
    doc->source_size = size;
    if (!doc->file || !doc->source) {
        fm_document_fini(doc);
        return fm_fail_memory(err);
    }
    int code = guard(doc, bytes, size, b.err);
    size_t mark = size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    b.bytes = doc->source + mark;
    b.size = size - mark;
    if (!code) code = parse(&b);
    if (!code && !doc->root) {
        struct fm_node like = {.file = doc->file, .line = 1, .column = 1};
        doc->root = fm_node_new_scalar(doc, "", 0, true, &like);
        if (!doc->root) code = fm_fail_memory(b.err);
    }
    if (code) fm_document_fini(doc);
    return code;
}
