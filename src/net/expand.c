/* The model as the user wrote it, walked in order: repeat and choose are expanded, every layer is built. */
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "net/layers_private.h"

/* Every entry and every time round of a repeat is a visit, so that nested repeats of nothing end soon, too.
 */
#define MAX_VISITS (4 * FM_NET_MAX_LAYERS)

struct repeat_arguments {
    int64_t times;
    const struct fm_node *layers;
};
struct choose_arguments {
    const char *by;
    const struct fm_node *options;
};

const struct fm_key fm_repeat_keys[] = {{"times", FM_KEY_INTEGER, offsetof(struct repeat_arguments, times), 0,
                                         FM_NET_MAX_LAYERS, NULL, NULL, FM_REQUIRED,
                                         "how often; 0 leaves the layers out"},
                                        {"layers", FM_KEY_NODE, offsetof(struct repeat_arguments, layers), 0,
                                         0, NULL, NULL, FM_REQUIRED, "a list of layers"},
                                        {0}};
const struct fm_key fm_choose_keys[] = {{"by", FM_KEY_TEXT, offsetof(struct choose_arguments, by), 0, 0, NULL,
                                         NULL, FM_REQUIRED, "the option's name, mostly a parameter"},
                                        {"options", FM_KEY_NODE, offsetof(struct choose_arguments, options),
                                         0, 0, NULL, NULL, FM_REQUIRED, "a map: name -> list of layers"},
                                        {0}};

static int expand_list(struct fm_builder *b, const struct fm_node *list, const char *path, int depth,
                       struct fm_error *err);

/* "<path><more>", owned by the caller. */
static char *join(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
static char *join(const char *path, const char *format, ...)
{
    char more[128];
    struct fm_text text = {0};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(more, sizeof more, format, arguments);
    va_end(arguments);
    fm_text_add_string(&text, path);
    fm_text_add_string(&text, more);
    if (!text.failed) return text.data;
    fm_text_fini(&text);
    return NULL;
}

static int visit(struct fm_builder *b, const struct fm_node *node, const char *path, struct fm_error *err)
{
    if (b->program->nlayers < FM_NET_MAX_LAYERS && b->visits < MAX_VISITS) {
        b->visits++;
        return 0;
    }
    return fm_node_fail(node, FM_EFILE, err,
                        "%s: the model has more than %d layers after repeat; make it smaller", path,
                        FM_NET_MAX_LAYERS);
}

static int expand_repeat(struct fm_builder *b, const struct fm_node *name, const struct fm_node *arguments,
                         const char *path, int depth, struct fm_error *err)
{
    struct repeat_arguments x = {0};
    int rc = fm_keys_read(fm_repeat_keys, arguments, name, path, &x, NULL, b->notes, err);
    for (int64_t i = 0; !rc && i < x.times; i++) {
        rc = visit(b, name, path, err);
        if (rc) return rc;
        char *inner = join(path, "[%" PRId64 "].layers", i);
        if (!inner) return fm_fail_memory(err);
        rc = expand_list(b, x.layers, inner, depth, err);
        fm_free(inner);
    }
    return rc;
}

/* The option named by `by`: its list, or NULL with the error filled. */
static const struct fm_node *find_option(const struct choose_arguments *x, const struct fm_node *name,
                                         const char *path, struct fm_error *err)
{
    const struct fm_node *options = x->options;
    if (options->kind != FM_MAP || options->count == 0) {
        fm_node_fail(options, FM_EFILE, err, "%s.options must be a map of names to lists of layers", path);
        return NULL;
    }
    const struct fm_node *option = fm_node_get(options, x->by);
    if (option) return option;
    const char **names = fm_calloc(options->count, sizeof *names);
    if (!names) {
        fm_fail_memory(err);
        return NULL;
    }
    char shown[64];
    for (size_t i = 0; i < options->count; i++) names[i] = options->keys[i]->text;
    const char *near = fm_nearest(x->by, names, options->count);
    const struct fm_node *where = fm_node_get(options, near ? near : names[0]);
    fm_show(x->by, strlen(x->by), shown, sizeof shown);
    fm_node_fail(name->line ? name : where, FM_EFILE, err, "%s: no option is called '%s'; %s %s%s", path,
                 shown, near ? "did you mean" : "one is", near ? near : names[0], near ? "?" : "");
    fm_free(names);
    return NULL;
}

static int expand_choose(struct fm_builder *b, const struct fm_node *name, const struct fm_node *arguments,
                         const char *path, int depth, struct fm_error *err)
{
    struct choose_arguments x = {0};
    int rc = fm_keys_read(fm_choose_keys, arguments, name, path, &x, NULL, b->notes, err);
    if (rc) return rc;
    const struct fm_node *option = find_option(&x, name, path, err);
    if (!option) return err ? err->code : FM_EFILE;
    char shown[64];
    char *inner = join(path, ".%s", fm_show(x.by, strlen(x.by), shown, sizeof shown));
    if (!inner) return fm_fail_memory(err);
    rc = expand_list(b, option, inner, depth, err);
    fm_free(inner);
    return rc;
}

/* Appends the layer's description; its operations follow. */
static int add_layer(struct fm_builder *b, const struct fm_node *name, const char *path, int type,
                     struct fm_error *err)
{
    struct fm_program *p = b->program;
    if (fm_grow(&p->layers, &b->layer_capacity, (size_t)p->nlayers + 1, sizeof *p->layers))
        return fm_fail_memory(err);
    struct fm_layer_info *layer = &p->layers[p->nlayers];
    *layer = (struct fm_layer_info){.path = fm_strdup(path),
                                    .type = fm_strdup(fm_layer_types[type].name),
                                    .ordinal = b->counts[type]++,
                                    .file = name->file,
                                    .line = name->line,
                                    .column = name->column,
                                    .in_rows = b->rows,
                                    .in_channels = b->channels};
    b->layer = p->nlayers++;
    return layer->path && layer->type ? 0 : fm_fail_memory(err);
}

static int build_layer(struct fm_builder *b, const struct fm_node *name, const struct fm_node *arguments,
                       const char *path, struct fm_error *err)
{
    int type = fm_layer_find(name->text);
    if (type < 0) return fm_layer_unknown(name, path, err);
    struct fm_layer_use use = {name, arguments, path};
    int rc = add_layer(b, name, path, type, err);
    if (!rc) rc = fm_layer_types[type].build(b, &use, &fm_layer_types[type], err);
    if (rc) return rc;
    struct fm_layer_info *layer = &b->program->layers[b->layer];
    layer->out_rows = b->rows;
    layer->out_channels = b->channels;
    layer->rank = b->rank;
    return 0;
}

static int expand_entry(struct fm_builder *b, const struct fm_node *entry, const char *path, int depth,
                        struct fm_error *err)
{
    const struct fm_node *name, *arguments;
    char shown[64];
    int rc = visit(b, entry, path, err);
    if (!rc) rc = fm_named_read(entry, path, &name, &arguments, err);
    if (rc) return rc;
    char *inner = join(path, ".%s", fm_show(name->text, name->size, shown, sizeof shown));
    if (!inner) return fm_fail_memory(err);
    if (strcmp(name->text, "repeat") == 0)
        rc = expand_repeat(b, name, arguments, inner, depth, err);
    else if (strcmp(name->text, "choose") == 0)
        rc = expand_choose(b, name, arguments, inner, depth, err);
    else
        rc = build_layer(b, name, arguments, inner, err);
    fm_free(inner);
    return rc;
}

static int expand_list(struct fm_builder *b, const struct fm_node *list, const char *path, int depth,
                       struct fm_error *err)
{
    if (list->kind != FM_LIST)
        return fm_node_fail(list, FM_EFILE, err, "%s must be a list of layers: [conv1d: ..., flatten, ...]",
                            path);
    if (depth > FM_NET_MAX_DEPTH)
        return fm_node_fail(list, FM_EFILE, err, "%s: repeat and choose stand more than %d deep", path,
                            FM_NET_MAX_DEPTH);
    int rc = 0;
    for (size_t i = 0; !rc && i < list->count; i++) {
        char *inner = join(path, "[%zu]", i);
        if (!inner) return fm_fail_memory(err);
        rc = expand_entry(b, list->items[i], inner, depth + 1, err);
        fm_free(inner);
    }
    return rc;
}

int fm_builder_model(struct fm_builder *b, const struct fm_node *model, struct fm_error *err)
{
    int rc = expand_list(b, model, "model", 0, err);
    if (!rc && b->program->nlayers == 0)
        rc = fm_node_fail(model, FM_EFILE, err, "model has no layers; a dense layer is the least it needs");
    return rc;
}
