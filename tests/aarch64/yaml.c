/* In place of libfyaml, which is not to be had for the other processor: reads what tests write - a map of
 * block keys, lists of "- ", flow maps and lists, plain scalars. Wrong text is not this reader's business. */
#include <string.h>

#include "base/error.h"
#include "config/node.h"

struct reader {
    struct fm_document *document;
    const char *at;
};

enum { MOST = 64 };

static struct fm_node *flow(struct reader *r);

static void skip(struct reader *r)
{
    while (*r->at == ' ' || *r->at == '\n' || *r->at == ',') r->at++;
}

static struct fm_node *collection(struct reader *r, enum fm_node_kind kind, size_t count,
                                  struct fm_node **keys, struct fm_node **items)
{
    struct fm_node *node = fm_node_new_collection(r->document, kind, count, NULL);
    for (size_t i = 0; node && i < count; i++) {
        if (kind == FM_MAP) node->keys[i] = keys[i];
        node->items[i] = items[i];
    }
    return node;
}

static struct fm_node *scalar(struct reader *r)
{
    const size_t size = strcspn(r->at, ",:{}[]\n");
    struct fm_node *node = fm_node_new_scalar(r->document, r->at, size, true, NULL);
    r->at += size;
    return node;
}

/* Behind the opening bracket. */
static struct fm_node *flow_collection(struct reader *r, enum fm_node_kind kind, char close)
{
    struct fm_node *keys[MOST], *items[MOST];
    size_t count = 0;
    for (skip(r); *r->at && *r->at != close && count < MOST; skip(r), count++) {
        if (kind == FM_MAP) {
            keys[count] = scalar(r);
            r->at++;
        }
        items[count] = flow(r);
        if (!items[count]) return NULL;
    }
    if (*r->at == close) r->at++;
    return collection(r, kind, count, keys, items);
}

static struct fm_node *flow(struct reader *r)
{
    skip(r);
    if (*r->at == '{') return r->at++, flow_collection(r, FM_MAP, '}');
    if (*r->at == '[') return r->at++, flow_collection(r, FM_LIST, ']');
    struct fm_node *node = scalar(r);
    if (!node || *r->at != ':') return node;
    /* "- conv1d: {...}": a map of one key without braces. */
    r->at++;
    struct fm_node *value = flow(r);
    return value ? collection(r, FM_MAP, 1, &node, &value) : NULL;
}

static size_t indent(const char *at)
{
    return strspn(at, " ");
}

/* Lines that are indented by `depth`: "- item" each, or "key: value" each. */
static struct fm_node *block(struct reader *r, size_t depth)
{
    struct fm_node *keys[MOST], *items[MOST];
    size_t count = 0;
    const bool list = r->at[depth] == '-';
    while (*r->at && indent(r->at) == depth && count < MOST) {
        r->at += depth + (list ? 2 : 0);
        if (!list) {
            keys[count] = scalar(r);
            r->at++;
        }
        if (*r->at == '\n') {
            r->at++;
            items[count] = block(r, indent(r->at));
        } else {
            items[count] = flow(r);
            if (*r->at == '\n') r->at++;
        }
        if (!items[count++]) return NULL;
    }
    return collection(r, list ? FM_LIST : FM_MAP, count, keys, items);
}

int fm_document_parse(struct fm_document *document, const char *name, const char *bytes, size_t size,
                      struct fm_notes *notes, struct fm_error *err)
{
    (void)name;
    (void)size;
    (void)notes;
    *document = (struct fm_document){0};
    struct reader r = {document, bytes};
    document->root = block(&r, 0);
    return document->root ? 0 : fm_fail_memory(err);
}
