#include "search/substitute.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "search/candidates.h"

/* The parameter that a scalar stands for, or -1; `err` has the reason when *code is set. */
static int64_t parameter_of(const struct fm_space *space, const struct fm_node *node, int *code,
                            struct fm_error *err)
{
    const char *name;
    size_t size;
    int found = fm_parameter_find(node, &name, &size, err);
    *code = found < 0 ? found : 0;
    if (found <= 0) return -1;
    int64_t place = fm_space_find(space, name, size);
    if (place < 0) *code = fm_space_fail_unknown(space, node, name, size, err);
    return place;
}

/* ---- what stands where ---- */

struct checking {
    const struct fm_space *space;
    bool *standing; /* by parameter: stands in the trees, or in a value of one that does */
    bool *inside;   /* stands inside some value */
    struct fm_error *err;
};

static int check_tree(const struct checking *c, const struct fm_node *node, bool *seen)
{
    const char *name;
    size_t size;
    int code;
    if (node->kind == FM_SCALAR) {
        int64_t place = parameter_of(c->space, node, &code, c->err);
        if (place >= 0) seen[place] = true;
        return code;
    }
    for (size_t i = 0; i < node->count; i++) {
        if (node->kind == FM_MAP && fm_parameter_find(node->keys[i], &name, &size, NULL) != 0) {
            return fm_node_fail(
                node->keys[i], FM_EFILE, c->err,
                "%s: a parameter cannot stand for a key; make the whole mapping a value of it",
                node->keys[i]->text);
        }
        code = check_tree(c, node->items[i], seen);
        if (code) return code;
    }
    return 0;
}

/* The next value that parameter `p` may have: of its own, then of the entries of `trials`. */
static const struct fm_node *next_value(const struct fm_parameter *p, const struct fm_node *trials,
                                        size_t *cursor)
{
    size_t own = p->values ? (size_t)p->count : 0;
    if (*cursor < own) return p->values[(*cursor)++];
    while (trials && *cursor - own < trials->count) {
        const struct fm_node *value = fm_list_find(trials->items[(*cursor)++ - own], p->name);
        if (value) return value;
    }
    return NULL;
}

static bool holds_parameter(const struct fm_node *node)
{
    if (node->kind == FM_SCALAR) return fm_parameter_is(node);
    for (size_t i = 0; i < node->count; i++) {
        if (holds_parameter(node->items[i])) return true;
    }
    return false;
}

/* Values of parameters that stand inside values must hold none, or replacing might never end. */
static int check_depth(const struct checking *c, const struct fm_node *trials)
{
    for (size_t i = 0; i < c->space->count; i++) {
        size_t cursor = 0;
        const struct fm_node *value;
        while (c->inside[i] && (value = next_value(&c->space->items[i], trials, &cursor))) {
            if (!holds_parameter(value)) continue;
            return fm_node_fail(
                value, FM_EFILE, c->err,
                "'%s' stands inside another parameter's value, so its own values cannot hold parameters "
                "(they are replaced once)",
                c->space->items[i].name);
        }
    }
    return 0;
}

static int check_values(const struct checking *c, const struct fm_node *trials)
{
    for (size_t i = 0; i < c->space->count; i++) {
        size_t cursor = 0;
        const struct fm_node *value;
        while ((value = next_value(&c->space->items[i], trials, &cursor))) {
            int code = check_tree(c, value, c->inside);
            if (code) return code;
        }
    }
    /* Inside a value counts as standing somewhere: whether that value's own parameter is used is its own
     * question. */
    for (size_t i = 0; i < c->space->count; i++) {
        if (c->standing[i] || c->inside[i]) continue;
        return fm_node_fail(c->space->items[i].key, FM_EFILE, c->err,
                            "parameter '%s' is not used: nothing says \"${%s}\" in model, train, cv.seed or "
                            "data.window.length",
                            c->space->items[i].name, c->space->items[i].name);
    }
    return check_depth(c, trials);
}

int fm_references_check(const struct fm_space *space, const struct fm_places *places,
                        const struct fm_node *trials, struct fm_error *err)
{
    const struct fm_node *trees[] = {places->model, places->train, places->cv_seed, places->window_length};
    bool *flags = fm_calloc(2 * space->count, sizeof *flags);
    if (!flags) return fm_fail_memory(err);
    struct checking c = {space, flags, flags + space->count, err};
    int code = 0;
    for (size_t i = 0; !code && i < 4; i++) {
        if (trees[i]) code = check_tree(&c, trees[i], c.standing);
    }
    if (!code) code = check_values(&c, trials);
    fm_free(flags);
    return code;
}

/* ---- one assignment ---- */

/* The value of the parameter that a scalar stands for; NULL value: none stands there. */
static int resolve(const struct fm_assignment *a, const struct fm_node *node, const struct fm_node **value,
                   struct fm_error *err)
{
    int code;
    *value = NULL;
    int64_t place = parameter_of(a->space, node, &code, err);
    if (place < 0) return code;
    a->used[place] = true;
    *value = a->values[place];
    if (*value) return 0;
    return fm_node_fail(a->blame ? a->blame : node, FM_EFILE, err,
                        "no value is given for '%s', which this trial uses", a->space->items[place].name);
}

/* The mapping below `choose`, or NULL when the node is something else; a malformed one is for the layers to
 * refuse. */
static const struct fm_node *choose_of(const struct fm_node *node)
{
    if (node->kind != FM_MAP || node->count != 1 || strcmp(node->keys[0]->text, "choose") != 0) return NULL;
    const struct fm_node *choose = node->items[0];
    const struct fm_node *by = fm_node_get(choose, "by"), *options = fm_node_get(choose, "options");
    return by && by->kind == FM_SCALAR && options && options->kind == FM_MAP ? choose : NULL;
}

/* What `by` comes to, through a parameter and, inside values, through one more. */
static int resolve_by(const struct fm_assignment *a, const struct fm_node *by, const struct fm_node **name,
                      struct fm_error *err)
{
    *name = by;
    for (int level = 0; level < 3; level++) {
        const struct fm_node *value;
        int code = resolve(a, *name, &value, err);
        if (code || !value) return code;
        *name = value;
        if (value->kind != FM_SCALAR) {
            return fm_node_fail(value, FM_EFILE, err,
                                "choose.by: expected the name of an option, not a list or mapping");
        }
    }
    return 0;
}

static int find_option(const struct fm_assignment *a, const struct fm_node *choose,
                       const struct fm_node **name, size_t *index, struct fm_error *err)
{
    const struct fm_node *options = fm_node_get(choose, "options");
    int code = resolve_by(a, fm_node_get(choose, "by"), name, err);
    if (code) return code;
    for (size_t i = 0; i < options->count; i++) {
        if (strcmp(options->keys[i]->text, (*name)->text) != 0) continue;
        *index = i;
        return 0;
    }
    const char **names = fm_malloc(options->count, sizeof *names);
    if (!names) return fm_fail_memory(err);
    for (size_t i = 0; i < options->count; i++) names[i] = options->keys[i]->text;
    const char *near = options->count ? fm_nearest((*name)->text, names, options->count) : NULL;
    fm_free(names);
    return fm_node_fail(*name, FM_EFILE, err, "choose (line %lld) has no option '%.60s'%s%.60s%s",
                        (long long)choose->line, (*name)->text, near ? "; did you mean '" : "",
                        near ? near : "", near ? "'?" : "");
}

static int mark(const struct fm_assignment *a, const struct fm_node *node, struct fm_error *err)
{
    int code;
    if (node->kind == FM_SCALAR) {
        const struct fm_node *value;
        code = resolve(a, node, &value, err);
        return code || !value ? code : mark(a, value, err);
    }
    const struct fm_node *choose = choose_of(node);
    if (choose) {
        const struct fm_node *name;
        size_t index;
        code = find_option(a, choose, &name, &index, err);
        return code ? code : mark(a, fm_node_get(choose, "options")->items[index], err);
    }
    for (size_t i = 0; i < node->count; i++) {
        code = mark(a, node->items[i], err);
        if (code) return code;
    }
    return 0;
}

int fm_usage_mark(const struct fm_assignment *a, const struct fm_places *places, struct fm_error *err)
{
    const struct fm_node *trees[] = {places->model, places->train, places->cv_seed, places->window_length};
    if (a->space->count) memset(a->used, 0, a->space->count * sizeof *a->used);
    for (size_t i = 0; i < 4; i++) {
        int code = trees[i] ? mark(a, trees[i], err) : 0;
        if (code) return code;
    }
    return 0;
}

/* ---- new trees ---- */

static struct fm_node *copy_shallow(struct fm_document *doc, const struct fm_node *from)
{
    struct fm_node *node = fm_node_new_collection(doc, from->kind, from->count, from);
    if (!node || !from->count) return node;
    memcpy(node->items, from->items, from->count * sizeof *node->items);
    if (from->kind == FM_MAP) memcpy(node->keys, from->keys, from->count * sizeof *node->keys);
    return node;
}

/* Replaces one item, copying the collection the first time. *node starts as the original. */
static int replace_item(struct fm_document *doc, const struct fm_node *original, const struct fm_node **node,
                        size_t index, const struct fm_node *item, struct fm_error *err)
{
    if (item == original->items[index]) return 0;
    if (*node == original) *node = copy_shallow(doc, original);
    if (!*node) return fm_fail_memory(err);
    (*node)->items[index] = (struct fm_node *)item;
    return 0;
}

static int replace_key(struct fm_document *doc, const struct fm_node *original, const struct fm_node **node,
                       const char *key, const struct fm_node *item, struct fm_error *err)
{
    size_t i = 0;
    while (strcmp(original->keys[i]->text, key) != 0) i++;
    return replace_item(doc, original, node, i, item, err);
}

static int substitute_choose(const struct fm_assignment *a, struct fm_document *doc,
                             const struct fm_node *node, const struct fm_node *choose,
                             const struct fm_node **out, struct fm_error *err)
{
    const struct fm_node *options = fm_node_get(choose, "options"), *name, *chosen;
    const struct fm_node *new_options = options, *new_choose = choose;
    size_t index;
    int code = find_option(a, choose, &name, &index, err);
    if (!code) code = fm_substitute(a, doc, options->items[index], &chosen, err);
    if (!code) code = replace_item(doc, options, &new_options, index, chosen, err);
    if (!code) code = replace_key(doc, choose, &new_choose, "by", name, err);
    if (!code) code = replace_key(doc, choose, &new_choose, "options", new_options, err);
    *out = node;
    return code ? code : replace_item(doc, node, out, 0, new_choose, err);
}

int fm_substitute(const struct fm_assignment *a, struct fm_document *doc, const struct fm_node *tree,
                  const struct fm_node **out, struct fm_error *err)
{
    int code;
    *out = tree;
    if (tree->kind == FM_SCALAR) {
        const struct fm_node *value;
        code = resolve(a, tree, &value, err);
        if (code) return code;
        if (value) return fm_substitute(a, doc, value, out, err);
        if (!fm_parameter_escaped(tree)) return 0;
        *out = fm_parameter_unescape(doc, tree);
        return *out ? 0 : fm_fail_memory(err);
    }
    const struct fm_node *choose = choose_of(tree);
    if (choose) return substitute_choose(a, doc, tree, choose, out, err);
    for (size_t i = 0; i < tree->count; i++) {
        const struct fm_node *item;
        code = fm_substitute(a, doc, tree->items[i], &item, err);
        if (!code) code = replace_item(doc, tree, out, i, item, err);
        if (code) return code;
    }
    return 0;
}
