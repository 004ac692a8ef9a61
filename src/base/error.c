#include "base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const char *meaning(int code)
{
    switch (code) {
#define FM_CODE_MEANING(name, value, exit_code, text)                                                        \
    case name: return text;
        FM_CODES(FM_CODE_MEANING)
#undef FM_CODE_MEANING
    }
    return "unknown error";
}

/* True inside a UTF-8 character: a text must not be cut before such a byte. */
static bool continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Ends a text that did not fit in "...", without leaving half a character before it. */
static void mark_cut(char *text, size_t size)
{
    size_t end = size - 4;
    while (end > 0 && continues(text[end])) end--;
    memcpy(text + end, "...", 4);
}

static void set_file(struct fm_error *err, const char *file)
{
    size_t length = strlen(file), room = sizeof err->file;
    if (length < room) {
        memcpy(err->file, file, length + 1);
        return;
    }
    const char *tail = file + length - (room - 4);
    while (continues(*tail)) tail++;
    memcpy(err->file, "...", 3);
    memcpy(err->file + 3, tail, strlen(tail) + 1);
}

static void set_text(struct fm_error *err, const char *format, va_list args)
{
    int n = vsnprintf(err->text, sizeof err->text, format, args);
    if (n < 0) {
        snprintf(err->text, sizeof err->text, "%s", meaning(err->code));
    } else if ((size_t)n >= sizeof err->text) {
        mark_cut(err->text, sizeof err->text);
    }
    fm_printable(err->text);
}

static bool begin(struct fm_error *err, int code, const char *file, int64_t line, int64_t column)
{
    if (!err || err->code != 0) return false;
    err->code = code;
    err->line = line;
    err->column = column;
    err->file[0] = '\0';
    if (file) set_file(err, file);
    return true;
}

int fm_fail(struct fm_error *err, int code, const char *format, ...)
{
    if (!begin(err, code, NULL, 0, 0)) return code;
    va_list args;
    va_start(args, format);
    set_text(err, format, args);
    va_end(args);
    return code;
}

int fm_fail_at(struct fm_error *err, int code, const char *file, int64_t line, int64_t column,
               const char *format, ...)
{
    if (!begin(err, code, file, line, column)) return code;
    va_list args;
    va_start(args, format);
    set_text(err, format, args);
    va_end(args);
    return code;
}

int fm_fail_memory(struct fm_error *err)
{
    static const char text[] = "out of memory: close other programs, or ask for fewer lanes or less data";
    if (begin(err, FM_ENOMEM, NULL, 0, 0)) memcpy(err->text, text, sizeof text);
    return FM_ENOMEM;
}

int fm_fail_errno(struct fm_error *err, const char *what, const char *path)
{
    char buffer[128];
    const char *reason = strerror_r(errno, buffer, sizeof buffer);
    if (!path) return fm_fail(err, FM_EIO, "cannot %s: %s", what, reason);
    return fm_fail(err, FM_EIO, "cannot %s %s: %s", what, path, reason);
}

void fm_error_clear(struct fm_error *err)
{
    if (!err) return;
    err->code = 0;
    err->line = err->column = 0;
    err->file[0] = err->text[0] = '\0';
}

const char *fm_error_print(const struct fm_error *err, char *buffer, size_t size)
{
    if (size == 0) return "";
    int n;
    if (!err->file[0]) {
        n = snprintf(buffer, size, "%s", err->text);
    } else if (err->line <= 0) {
        n = snprintf(buffer, size, "%s: %s", err->file, err->text);
    } else if (err->column <= 0) {
        n = snprintf(buffer, size, "%s:%" PRId64 ": %s", err->file, err->line, err->text);
    } else {
        n = snprintf(buffer, size, "%s:%" PRId64 ":%" PRId64 ": %s", err->file, err->line, err->column,
                     err->text);
    }
    if (n >= 0 && (size_t)n >= size && size >= 4) mark_cut(buffer, size);
    return fm_printable(buffer);
}

int fm_exit_code(int code)
{
    switch (code) {
    case FM_OK: return 0;
#define FM_CODE_EXIT(name, value, exit_code, text)                                                           \
    case name: return exit_code;
        FM_CODES(FM_CODE_EXIT)
#undef FM_CODE_EXIT
    }
    return 1;
}
