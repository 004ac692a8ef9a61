/* Text: a growing buffer, numbers to and from text (always with '.', whatever the locale), nearest words, and
 * the check that bytes are valid UTF-8. */
#ifndef FM_BASE_TEXT_H
#define FM_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing buffer; zero-initialise. `data` is NULL or terminated by '\0'. Running out of memory sets
 * `failed` and makes every later append do nothing, so that callers check once at the end. */
struct fm_text {
    char *data;
    size_t size, capacity;
    bool failed;
};

void fm_text_add(struct fm_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fm_text_add_bytes(struct fm_text *t, const char *bytes, size_t size);
void fm_text_add_string(struct fm_text *t, const char *s);
/* Adds `s` as fm_printable leaves it. */
void fm_text_add_shown(struct fm_text *t, const char *s);
void fm_text_fini(struct fm_text *t);

/* Reads one decimal number that fills all `size` bytes: [+-] digits [. digits] [e [+-] digits], digits on at
 * least one side of the point. No hex, no inf or nan, no blanks, no digit groups. False if it is anything
 * else or overflows a double (values too small become 0 or denormal). The result is correctly rounded. */
bool fm_parse_number(const char *text, size_t size, double *value);

/* Reads a whole number in [-2^63, 2^63): decimal digits behind an optional sign, or a number form of
 * fm_parse_number that is whole, digit for digit, and at most 2^53 (3.0, 1e3). */
bool fm_parse_integer(const char *text, size_t size, int64_t *value);

#define FM_NUMBER_TEXT 32
/* The shortest decimal that reads back as the same double ("0.001", "1e-05", "64"); "nan", "inf", "-inf"
 * else. With an exponent below 0.0001 and from 1e+16 on; minus zero is "-0". */
const char *fm_format_number(double value, char buffer[FM_NUMBER_TEXT]);
/* The same for a float: the shortest text that strtof reads back unchanged. */
const char *fm_format_float(float value, char buffer[FM_NUMBER_TEXT]);

/* The name nearest to `word` by edit distance (case ignored; a swap of neighbours counts once), or NULL if
 * none is near (distance at most a third of the longer length, at least 1). The first of equals. Words of
 * more than 96 bytes are near nothing. */
const char *fm_nearest(const char *word, const char *const *names, size_t count);

/* Offset of the first byte of the first character that is not valid UTF-8 (RFC 3629: no surrogates, nothing
 * overlong, nothing cut off), or -1. */
int64_t fm_utf8_invalid(const char *bytes, size_t size);

/* Copies `text` for a message: control characters and bytes that are not UTF-8 become '?', and what is longer
 * than the buffer ends in "...". */
const char *fm_show(const char *text, size_t size, char *buffer, size_t buffer_size);
/* The same in place, for a text that ends in '\0'; it never grows. Gives `text`. */
char *fm_printable(char *text);

#define FM_BYTES_TEXT 32
/* Bytes for a person: "640 bytes", "1.5 kB", "12.0 MB" (powers of 1000); gives `buffer`. */
const char *fm_show_bytes(int64_t bytes, char buffer[FM_BYTES_TEXT]);

#endif
