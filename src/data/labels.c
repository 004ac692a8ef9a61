#include "data/labels.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"

#include <string.h>

static int add_class(struct fm_labels *labels, const char *text, size_t size, const struct fm_node *node,
                     struct fm_error *err)
{
    uint32_t number;
    char shown[64];
    size_t before = labels->names.count;
    fm_show(text, size, shown, sizeof shown);
    if (size == 0 || memchr(text, '\0', size)) {
        return fm_fail_at(err, FM_EFILE, node->file, node->line, node->column, "target: a class has no name");
    }
    if (fm_names_add(&labels->names, text, size, &number) != 0) return fm_fail_memory(err);
    if (labels->names.count == before) {
        return fm_fail_at(err, FM_EFILE, node->file, node->line, node->column,
                          "target: class '%s' is listed twice", shown);
    }
    return 0;
}

/* Bytes of the UTF-8 character at s, which is valid text. */
static size_t character_size(const char *s)
{
    unsigned char c = (unsigned char)*s;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static int add_classes(struct fm_labels *labels, const struct fm_node *node, struct fm_error *err)
{
    int rc = 0;
    if (node->kind == FM_SCALAR) {
        for (size_t i = 0, n; rc == 0 && i < node->size; i += n) {
            n = character_size(node->text + i);
            rc = add_class(labels, node->text + i, n, node, err);
        }
    } else {
        for (size_t i = 0; rc == 0 && i < node->count; i++) {
            const struct fm_node *item = node->items[i];
            if (item->kind != FM_SCALAR) {
                return fm_fail_at(err, FM_EFILE, item->file, item->line, item->column,
                                  "target: a class must be a plain name");
            }
            rc = add_class(labels, item->text, item->size, item, err);
        }
    }
    if (rc != 0) return rc;
    if (labels->names.count < 2 || labels->names.count > FM_MAX_CLASSES) {
        return fm_fail_at(err, FM_EFILE, node->file, node->line, node->column,
                          "target: %zu class%s listed; there must be 2 to %d", labels->names.count,
                          labels->names.count == 1 ? " is" : "es are", FM_MAX_CLASSES);
    }
    return 0;
}

int fm_labels_init(struct fm_labels *labels, const struct fm_data_config *config, struct fm_error *err)
{
    *labels = (struct fm_labels){.skip = config->target.other == FM_OTHER_SKIP};
    if (!config->target.classes) return 0;
    labels->listed = true;
    return add_classes(labels, config->target.classes, err);
}

void fm_labels_fini(struct fm_labels *labels)
{
    fm_names_fini(&labels->names);
    fm_packed_fini(&labels->codes);
}

const char fm_labels_no_memory[] = "out of memory";

const char *fm_labels_code(struct fm_labels *labels, const char *text, size_t size, uint32_t *code)
{
    if (fm_names_find(&labels->names, text, size, code) && size > 0) return NULL;
    if (labels->listed) {
        *code = (uint32_t)labels->names.count;
        if (labels->skip) return NULL;
        return size == 0 ? "is empty (other: skip would leave such positions out)"
                         : "is not one of the classes (other: skip would leave such positions out)";
    }
    if (size == 0 && !labels->skip) return "is empty (other: skip would leave such positions out)";
    const char *refused = fm_name_refused(text, size);
    if (refused) return refused;
    if (labels->names.count > FM_MAX_CLASSES) {
        return "is one label too many: more than 65536 different ones cannot be classes (for numbers use the "
               "loss mse, "
               "mae or huber)";
    }
    return fm_names_add(&labels->names, text, size, code) == 0 ? NULL : fm_labels_no_memory;
}

static int bits_for(uint32_t code)
{
    return code < 2 ? 1 : code < 256 ? 8 : code < 65536 ? 16 : 32;
}

static size_t bytes_for(int bits, int64_t count)
{
    return bits == 1 ? ((size_t)count + 7) / 8 : (size_t)count * (size_t)(bits / 8);
}

int fm_labels_set(struct fm_labels *labels, int64_t position, uint32_t code, int64_t capacity)
{
    struct fm_packed *p = &labels->codes;
    int bits = bits_for(code) > p->bits ? bits_for(code) : p->bits;
    if (capacity > p->count || bits > p->bits) {
        void *grown = fm_realloc(p->data, bytes_for(bits, capacity), 1);
        if (!grown) return FM_ENOMEM;
        struct fm_packed narrow = {.bits = p->bits, .count = position, .data = grown};
        struct fm_packed wide = {.bits = bits, .count = capacity, .data = grown};
        /* From the end, so that no code is overwritten before it was read. */
        for (int64_t i = position; bits > p->bits && p->bits > 0 && i-- > 0;)
            fm_packed_set(&wide, i, fm_packed_get(&narrow, i));
        *p = wide;
    }
    fm_packed_set(p, position, code);
    return 0;
}

/* Numbers the classes and hands their names over. map[code] = final code. */
static int number_classes(struct fm_labels *labels, struct fm_dataset *data, uint32_t *map,
                          struct fm_notes *notes, struct fm_error *err)
{
    struct fm_names *names = &labels->names, all = {0};
    uint32_t *first = fm_malloc(names->count, sizeof *first), empty, number;
    size_t distinct = 0;
    int rc = first ? 0 : fm_fail_memory(err);
    bool skipped = rc == 0 && fm_names_find(names, "", 0, &empty);
    for (size_t i = 0; rc == 0 && i < names->count; i++) {
        if (skipped && i == empty) continue;
        if (fm_names_add(&all, names->text[i], names->size[i], &number) != 0) rc = fm_fail_memory(err);
    }
    if (rc == 0 && fm_names_rank(&all, true, map, first, &distinct) != 0) rc = fm_fail_memory(err);
    if (rc == 0) {
        data->class_names = fm_calloc(distinct, sizeof *data->class_names);
        if (!data->class_names) rc = fm_fail_memory(err);
    }
    for (size_t i = 0; rc == 0 && i < distinct; i++) {
        data->class_names[i] = fm_strdup(all.text[first[i]]);
        if (!data->class_names[i]) rc = fm_fail_memory(err);
        data->nclasses = (int64_t)i + 1;
    }
    if (rc == 0 && distinct < all.count) {
        fm_note(notes, FM_WARNING,
                "target: labels that are the same number (such as %s) are read as one class",
                all.text[first[0]]);
    }
    for (size_t i = names->count; rc == 0 && skipped && i-- > 0;) {
        map[i] = i == empty ? (uint32_t)distinct : map[i - (i > empty)];
    }
    fm_free(first);
    fm_names_fini(&all);
    return rc;
}

static int listed_classes(struct fm_labels *labels, struct fm_dataset *data, struct fm_error *err)
{
    data->class_names = fm_calloc(labels->names.count, sizeof *data->class_names);
    if (!data->class_names) return fm_fail_memory(err);
    for (size_t i = 0; i < labels->names.count; i++) {
        data->class_names[i] = fm_strdup(labels->names.text[i]);
        if (!data->class_names[i]) return fm_fail_memory(err);
        data->nclasses = (int64_t)i + 1;
    }
    return 0;
}

static void renumber(struct fm_packed *codes, int64_t count, const uint32_t *map, size_t n)
{
    bool same = true;
    for (size_t i = 0; i < n; i++) same = same && map[i] == i;
    if (same) return;
    for (int64_t i = 0; i < count; i++) fm_packed_set(codes, i, map[fm_packed_get(codes, i)]);
}

int fm_labels_finish(struct fm_labels *labels, int64_t count, struct fm_dataset *data, struct fm_notes *notes,
                     struct fm_error *err)
{
    struct fm_packed *codes = &labels->codes;
    int rc = 0;
    if (labels->listed) {
        rc = listed_classes(labels, data, err);
    } else {
        uint32_t *map = fm_malloc(labels->names.count + 1, sizeof *map);
        rc = map ? number_classes(labels, data, map, notes, err) : fm_fail_memory(err);
        if (rc == 0) renumber(codes, count, map, labels->names.count);
        fm_free(map);
    }
    if (rc != 0 || count == 0) return rc;
    void *shrunk = fm_realloc(codes->data, bytes_for(codes->bits, count), 1);
    if (shrunk) codes->data = shrunk;
    codes->count = count;
    /* The bits after the last code are nobody's; zero, so that equal data are equal bytes. */
    if (codes->bits == 1 && count % 8) ((uint8_t *)codes->data)[count / 8] &= (uint8_t)((1 << count % 8) - 1);
    data->classes = *codes;
    *codes = (struct fm_packed){0};
    return 0;
}
