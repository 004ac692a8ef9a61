/* The key tables as text: the same tables that the readers use. */
#include "api/handle.h"

#include <string.h>

#include "base/text.h"
#include "net/layers.h"

#define MAX_SECTIONS 256

/* "layer conv1d" answers to "conv1d" too, "train.early_stopping" to "early_stopping". */
static bool answers_to(const char *title, const char *name)
{
    if (!strcmp(title, name)) return true;
    const char *last = strrchr(title, ' '), *dot = strrchr(title, '.');
    return (last && !strcmp(last + 1, name)) || (dot && !strcmp(dot + 1, name));
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
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const char *last = strrchr(list[i]->title, ' ');
        names[n++] = list[i]->title;
        if (last) names[n++] = last + 1;
    }
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
