/* Notes and warnings for a person. The library never prints: notes are collected, and the program shows them.
 * Every warning a person sees is also a note in `plan --json`. What came from a file into a note is made
 * harmless: control characters and bytes that are not UTF-8 become '?'. */
#ifndef FM_BASE_LOG_H
#define FM_BASE_LOG_H

#include <stddef.h>

enum fm_level { FM_NOTE, FM_WARNING };

/* Collected notes, in order; a note that was already given is not repeated. Zero-initialise. */
struct fm_notes {
    char **text;
    enum fm_level *level;
    size_t count, capacity, level_capacity;
};

/* Running out of memory drops the note: notes never decide a result. `notes` may be NULL. */
void fm_note(struct fm_notes *notes, enum fm_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void fm_notes_fini(struct fm_notes *notes);

#endif
