/* Writes JSON text: commas and quotes are its business, numbers are the shortest that read back the same,
 * numbers that are not finite are null. Running out of memory shows in the text's `failed`. */
#ifndef FM_REPORT_JSON_WRITER_H
#define FM_REPORT_JSON_WRITER_H

#include <jansson.h>

#include "base/text.h"

struct fm_json {
    struct fm_text *text;
    bool comma;       /* something stands before in this object or list */
    const char *line; /* the next value begins a line with this indent; NULL = it stays on this one */
};

/* `key` NULL inside lists and for the outermost value. */
void fm_json_open(struct fm_json *j, const char *key, char bracket); /* '{' or '[' */
void fm_json_close(struct fm_json *j, char bracket);                 /* '}' or ']' */
void fm_json_integer(struct fm_json *j, const char *key, int64_t value);
void fm_json_number(struct fm_json *j, const char *key, double value);
void fm_json_boolean(struct fm_json *j, const char *key, bool value);
void fm_json_string(struct fm_json *j, const char *key, const char *value); /* NULL gives null */
void fm_json_value(struct fm_json *j, const char *key, const json_t *value);
/* A JSON text as it was stored; null when it is none. */
void fm_json_stored(struct fm_json *j, const char *key, const char *json);

#endif
