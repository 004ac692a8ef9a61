/* The key tables as text: the same tables that the readers use. */
#include "api/handle.h"

#include <string.h>

#include "base/text.h"
#include "net/layers.h"

#define MAX_SECTIONS 256

/* The next word of a title, between blanks, commas and points; false at the end. */
static bool next_word(const char **at, char word[64])
{
    const char *begin = *at + strspn(*at, " ,.");
    size_t size = strcspn(begin, " ,.");
    *at = begin + size;
    if (size > 63) size = 63;
    memcpy(word, begin, size);
    word[size] = '\0';
    return size > 0;
}

/* "layer conv1d" answers to "conv1d" too, "initializer zeros, ones" to "ones", "train.early_stopping" to
 * "early_stopping"; but "train" is its own section only. */
static bool answers_to(const char *title, const char *name)
{
    char word[64];
    if (!strcmp(title, name)) return true;
    const char *at = title;
    if (!next_word(&at, word)) return false; /* the kind */
    while (next_word(&at, word))
        if (!strcmp(word, name)) return true;
    return false;
}

static size_t list_sections(const struct fm_key_section *list[MAX_SECTIONS])
{
    const struct fm_key_section *tables[] = {fm_sweep_sections(), fm_layer_sections()};
    size_t count = 0;
    for (int t = 0; t < 2; t++)
        for (const struct fm_key_section *s = tables[t]; s->title && count < MAX_SECTIONS; s++)
            list[count++] = s;
    return count;
}

static int no_section(const char *name, const struct fm_key_section *const *list, size_t count,
                      struct fm_error *err)
{
    const char *names[2 * MAX_SECTIONS];
    char words[MAX_SECTIONS][64];
    size_t n = 0, w = 0;
    for (size_t i = 0; i < count; i++) {
        names[n++] = list[i]->title;
        for (const char *at = list[i]->title; w < MAX_SECTIONS && next_word(&at, words[w]); w++) continue;
    }
    for (size_t i = 0; i < w && n < 2 * MAX_SECTIONS; i++) names[n++] = words[i];
    char shown[64];
    const char *near = fm_nearest(name, names, n);
    fm_show(name, strlen(name), shown, sizeof shown);
    if (near)
        return fm_fail(err, FM_EUSAGE, "there is no section '%s' of keys; did you mean '%s'?", shown, near);
    return fm_fail(err, FM_EUSAGE, "there is no section '%s' of keys: `foldmill help keys` lists all", shown);
}

int fm_help_keys(const char *section, char **out, struct fm_error *err)
{
    const struct fm_key_section *list[MAX_SECTIONS];
    size_t count = list_sections(list), printed = 0;
    struct fm_text text = {0};
    *out = NULL;
    for (size_t i = 0; i < count; i++) {
        if (section && !answers_to(list[i]->title, section)) continue;
        if (printed++) fm_text_add_string(&text, "\n");
        fm_keys_print(list[i], &text);
    }
    if (!printed) return no_section(section ? section : "", list, count, err);
    return fm_text_give(&text, out, err);
}
