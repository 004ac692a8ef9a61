#include "base/text.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

static bool make_room(struct fm_text *t, size_t more)
{
    size_t need;
    if (t->failed) return false;
    if (__builtin_add_overflow(t->size, more, &need) || need == SIZE_MAX ||
        fm_grow(&t->data, &t->capacity, need + 1, 1) != 0) {
        t->failed = true;
        return false;
    }
    return true;
}

void fm_text_add(struct fm_text *t, const char *format, ...)
{
    if (t->failed) return;
    size_t room = t->capacity > t->size ? t->capacity - t->size : 0;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(room ? t->data + t->size : NULL, room, format, args);
    va_end(args);
    if (n < 0) t->failed = true;
    if (n < 0) return;
    if ((size_t)n >= room) {
        if (room) t->data[t->size] = '\0'; /* a text that cannot grow ends where it did */
        if (!make_room(t, (size_t)n)) return;
        va_start(args, format);
        vsnprintf(t->data + t->size, (size_t)n + 1, format, args);
        va_end(args);
    }
    t->size += (size_t)n;
}

void fm_text_add_bytes(struct fm_text *t, const char *bytes, size_t size)
{
    if (!make_room(t, size)) return;
    if (size > 0) memcpy(t->data + t->size, bytes, size);
    t->size += size;
    t->data[t->size] = '\0';
}

void fm_text_add_string(struct fm_text *t, const char *s)
{
    fm_text_add_bytes(t, s, strlen(s));
}

void fm_text_fini(struct fm_text *t)
{
    fm_free(t->data);
    *t = (struct fm_text){0};
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

#define LONGEST_WORD 96

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, changes and swaps of neighbours that turn a into b (optimal string alignment). */
static int edit_distance(const char *a, int na, const char *b, int nb)
{
    int rows[3][LONGEST_WORD + 1];
    for (int j = 0; j <= nb; j++) rows[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *over = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            char p = lower(a[i - 1]), q = lower(b[j - 1]);
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (p != q));
            if (i > 1 && j > 1 && p == lower(b[j - 2]) && lower(a[i - 2]) == q) {
                row[j] = least(row[j], over[j - 2] + 1);
            }
        }
    }
    return rows[na % 3][nb];
}

const char *fm_nearest(const char *word, const char *const *names, size_t count)
{
    const char *best = NULL;
    int best_distance = 0;
    int length = (int)strnlen(word, LONGEST_WORD + 1);
    if (length == 0 || length > LONGEST_WORD) return NULL;
    for (size_t i = 0; i < count; i++) {
        int other = (int)strnlen(names[i], LONGEST_WORD + 1);
        if (other > LONGEST_WORD) continue;
        int longer = length > other ? length : other;
        int limit = longer / 3 > 1 ? longer / 3 : 1;
        if (longer - least(length, other) > limit) continue;
        int distance = edit_distance(word, length, names[i], other);
        /* Two words of one letter each have nothing in common however near they are. */
        if (distance > limit || distance >= longer) continue;
        if (!best || distance < best_distance) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}

/* Bytes of the character that starts here, or 0 if it is none: overlong, a surrogate, too large or cut off.
 */
static size_t utf8_length(const unsigned char *s, size_t size)
{
    if (s[0] < 0x80) return 1;
    size_t n = s[0] >= 0xc2 && s[0] <= 0xdf   ? 2
               : (s[0] & 0xf0) == 0xe0        ? 3
               : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                              : 0;
    if (n == 0 || n > size) return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
    }
    if (s[0] == 0xe0 && s[1] < 0xa0) return 0;
    if (s[0] == 0xed && s[1] > 0x9f) return 0;
    if (s[0] == 0xf0 && s[1] < 0x90) return 0;
    if (s[0] == 0xf4 && s[1] > 0x8f) return 0;
    return n;
}

int64_t fm_utf8_invalid(const char *bytes, size_t size)
{
    const unsigned char *s = (const unsigned char *)bytes;
    for (size_t i = 0; i < size;) {
        size_t n = utf8_length(s + i, size - i);
        if (n == 0) return (int64_t)i;
        i += n;
    }
    return -1;
}

/* Control characters, those of two bytes (U+0080 to U+009F) included, could steer a terminal. */
static bool is_printable(const unsigned char *s, size_t n)
{
    if (n == 0) return false;
    if (n == 1) return s[0] >= 0x20 && s[0] != 0x7f;
    return !(n == 2 && s[0] == 0xc2 && s[1] < 0xa0);
}

const char *fm_show(const char *text, size_t size, char *buffer, size_t buffer_size)
{
    const unsigned char *s = (const unsigned char *)text;
    if (buffer_size == 0) return "";
    size_t used = 0, cut = 0;
    for (size_t i = 0; i < size;) {
        size_t n = utf8_length(s + i, size - i), step = n ? n : 1;
        bool whole = is_printable(s + i, n);
        size_t width = whole ? n : 1;
        if (used + width >= buffer_size) {
            size_t dots = buffer_size - 1 < 3 ? buffer_size - 1 : 3;
            memset(buffer + cut, '.', dots);
            used = cut + dots;
            break;
        }
        if (whole) {
            memcpy(buffer + used, s + i, n);
        } else {
            buffer[used] = '?';
        }
        used += width;
        if (used + 3 < buffer_size) cut = used;
        i += step;
    }
    buffer[used] = '\0';
    return buffer;
}

char *fm_printable(char *text)
{
    size_t left = strlen(text), used = 0;
    for (const char *in = text; left > 0;) {
        size_t n = utf8_length((const unsigned char *)in, left), step = n ? n : 1;
        if (is_printable((const unsigned char *)in, n)) {
            memmove(text + used, in, n);
            used += n;
        } else {
            text[used++] = '?';
        }
        in += step;
        left -= step;
    }
    text[used] = '\0';
    return text;
}

void fm_text_add_shown(struct fm_text *t, const char *s)
{
    size_t before = t->size;
    fm_text_add_string(t, s);
    if (!t->failed && t->data) t->size = before + strlen(fm_printable(t->data + before));
}

const char *fm_show_bytes(int64_t bytes, char buffer[FM_BYTES_TEXT])
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1000 && unit < 4; unit++) value /= 1000;
    snprintf(buffer, FM_BYTES_TEXT, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return buffer;
}
