#include "data/names.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(const char *text, size_t size)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

static bool is_text(const struct fm_names *names, uint32_t number, const char *text, size_t size)
{
    return names->size[number] == size && memcmp(names->text[number], text, size) == 0;
}

/* The slot that holds the text, or the free one where it belongs. nslots > 0. */
static size_t slot_of(const struct fm_names *names, const char *text, size_t size)
{
    size_t mask = names->nslots - 1, slot = hash_of(text, size) & mask;
    while (names->slots[slot] != 0 && !is_text(names, names->slots[slot] - 1, text, size)) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

static int grow_slots(struct fm_names *names)
{
    size_t wanted = names->nslots ? names->nslots * 2 : 64;
    uint32_t *slots = fm_calloc(wanted, sizeof *slots);
    if (!slots) return FM_ENOMEM;
    fm_free(names->slots);
    names->slots = slots;
    names->nslots = wanted;
    for (size_t i = 0; i < names->count; i++) {
        slots[slot_of(names, names->text[i], names->size[i])] = (uint32_t)i + 1;
    }
    return 0;
}

bool fm_names_find(struct fm_names *names, const char *text, size_t size, uint32_t *number)
{
    if (names->count == 0) return false;
    if (!is_text(names, names->last, text, size)) {
        size_t slot = slot_of(names, text, size);
        if (names->slots[slot] == 0) return false;
        names->last = names->slots[slot] - 1;
    }
    *number = names->last;
    return true;
}

int fm_names_add(struct fm_names *names, const char *text, size_t size, uint32_t *number)
{
    if (fm_names_find(names, text, size, number)) return 0;
    if (size > UINT32_MAX || names->count >= INT32_MAX) return FM_ENOMEM;
    if ((names->count + 1) * 2 > names->nslots && grow_slots(names) != 0) return FM_ENOMEM;
    if (fm_grow(&names->text, &names->capacity, names->count + 1, sizeof *names->text) != 0 ||
        fm_grow(&names->size, &names->size_capacity, names->count + 1, sizeof *names->size) != 0) {
        return FM_ENOMEM;
    }
    char *copy = fm_malloc(size + 1, 1);
    if (!copy) return FM_ENOMEM;
    if (size > 0) memcpy(copy, text, size);
    copy[size] = '\0';
    names->slots[slot_of(names, text, size)] = (uint32_t)names->count + 1;
    names->text[names->count] = copy;
    names->size[names->count] = (uint32_t)size;
    names->last = (uint32_t)names->count++;
    *number = names->last;
    return 0;
}

void fm_names_fini(struct fm_names *names)
{
    for (size_t i = 0; i < names->count; i++) fm_free(names->text[i]);
    fm_free(names->text);
    fm_free(names->size);
    fm_free(names->slots);
    *names = (struct fm_names){0};
}

struct sorted_name {
    const char *text;
    double value; /* 0 when compared by bytes */
    uint32_t number;
};

static int compare_keys(const struct sorted_name *a, const struct sorted_name *b, bool by_value)
{
    if (by_value) return (a->value > b->value) - (a->value < b->value);
    return strcmp(a->text, b->text);
}

static int by_number(const void *a, const void *b)
{
    const struct sorted_name *x = a, *y = b;
    int order = compare_keys(x, y, true);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

static int by_bytes(const void *a, const void *b)
{
    return compare_keys(a, b, false);
}

int fm_names_rank(const struct fm_names *names, bool by_value, uint32_t *rank, uint32_t *first,
                  size_t *distinct)
{
    struct sorted_name *sorted = fm_malloc(names->count, sizeof *sorted);
    if (!sorted) return FM_ENOMEM;
    for (size_t i = 0; i < names->count; i++) {
        sorted[i] = (struct sorted_name){.text = names->text[i], .number = (uint32_t)i};
        if (by_value) by_value = fm_parse_number(names->text[i], names->size[i], &sorted[i].value);
    }
    qsort(sorted, names->count, sizeof *sorted, by_value ? by_number : by_bytes);
    size_t n = 0;
    for (size_t i = 0; i < names->count; i++) {
        if (i == 0 || compare_keys(&sorted[i - 1], &sorted[i], by_value) != 0) first[n++] = sorted[i].number;
        rank[sorted[i].number] = (uint32_t)n - 1;
    }
    fm_free(sorted);
    *distinct = n;
    return 0;
}

const char *fm_name_refused(const char *text, size_t size)
{
    if (memchr(text, '\0', size)) return "holds a zero byte";
    return fm_utf8_invalid(text, size) >= 0 ? "is not valid UTF-8" : NULL;
}
