/* Errors that tell the user what to change.
 *
 * The codes, `struct fm_error` and the calls that read one are public and stand in foldmill.h.
 *
 * Every function that can fail returns 0 or one of those negative codes and fills the caller's
 * `struct fm_error`. The first error is kept: filling an error that already holds one changes nothing, so the
 * cause is never overwritten by its consequences. An error is a plain value; it owns nothing.
 *
 * The text is one sentence for a person, without a trailing newline: what was found, what was expected, and
 * where it helps the nearest valid word. `file`, `line` and `column` (both from 1; 0 = unknown) say where the
 * user wrote it; fm_error_print joins them as "file:line:column: text". What came from a file into a text is
 * made harmless: control characters and bytes that are not UTF-8 become '?'.
 */
#ifndef FM_BASE_ERROR_H
#define FM_BASE_ERROR_H

#include "foldmill.h"

/* Both return `code`, so that callers can write `return fm_fail(err, FM_EFILE, "...")`. `err` may be NULL. */
int fm_fail(struct fm_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int fm_fail_at(struct fm_error *err, int code, const char *file, int64_t line, int64_t column,
               const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Out of memory is always reported alike; formats into the error itself, without allocating. */
int fm_fail_memory(struct fm_error *err);

/* FM_EIO with errno's text: "cannot <what> <path>: <reason>". */
int fm_fail_errno(struct fm_error *err, const char *what, const char *path);

#endif
