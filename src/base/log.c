#include "base/log.h"

#include "base/memory.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static char *format_text(const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (n < 0) return NULL;
    char *text = fm_malloc((size_t)n + 1, 1);
    if (text) vsnprintf(text, (size_t)n + 1, format, args);
    return text ? fm_printable(text) : NULL;
}

static bool is_known(const struct fm_notes *notes, const char *text)
{
    for (size_t i = 0; i < notes->count; i++) {
        if (strcmp(notes->text[i], text) == 0) return true;
    }
    return false;
}

void fm_note(struct fm_notes *notes, enum fm_level level, const char *format, ...)
{
    if (!notes) return;
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    if (!text) return;
    size_t need = notes->count + 1;
    if (is_known(notes, text) || fm_grow(&notes->text, &notes->capacity, need, sizeof *notes->text) != 0 ||
        fm_grow(&notes->level, &notes->level_capacity, need, sizeof *notes->level) != 0) {
        fm_free(text);
        return;
    }
    notes->text[notes->count] = text;
    notes->level[notes->count] = level;
    notes->count++;
}

void fm_notes_fini(struct fm_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++) fm_free(notes->text[i]);
    fm_free(notes->text);
    fm_free(notes->level);
    *notes = (struct fm_notes){0};
}
