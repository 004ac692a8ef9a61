/* Errors that tell the user what to change.
 *
 * Every function that can fail returns 0 or one of the negative codes below and fills the caller's
 * `struct fm_error`. The first error is kept: filling an error that already holds one changes nothing, so the
 * cause is never overwritten by its consequences. An error is a plain value; it owns nothing.
 *
 * The text is one sentence for a person, without a trailing newline: what was found, what was expected, and
 * where it helps the nearest valid word. `file`, `line` and `column` (both from 1; 0 = unknown) say where the
 * user wrote it; fm_error_print joins them as "file:line:column: text".
 */
#ifndef FM_BASE_ERROR_H
#define FM_BASE_ERROR_H

#include <stddef.h>
#include <stdint.h>

/* name, value, exit code of the program, meaning */
#define FM_CODES(X)                                                                                          \
    X(FM_ENOMEM, -1, 1, "out of memory")                                                                     \
    X(FM_EUSAGE, -2, 2, "wrong use of the command line or of the library")                                   \
    X(FM_EFILE, -3, 2, "the sweep file or a data file says something that cannot be right")                  \
    X(FM_EIO, -4, 1, "the disk or the system refused: space, permission, read error")                        \
    X(FM_EBUSY, -5, 75, "another process works on this journal")                                             \
    X(FM_EINTERRUPTED, -6, 130, "stopped by Ctrl-C; the same command goes on")                               \
    X(FM_ETERMINATED, -7, 75, "stopped by SIGTERM; the same command goes on")                                \
    X(FM_ELATER, -8, 2, "not available yet")                                                                 \
    X(FM_ESHAPE, -9, 2, "a network does not fit its input; that trial is invalid")                           \
    X(FM_EFAILED, -10, 1, "every valid trial failed")                                                        \
    X(FM_EDEVICE, -11, 75, "the device was lost")                                                            \
    X(FM_EINTERNAL, -12, 1, "a mistake inside Foldmill")

enum fm_code {
    FM_OK = 0,
#define FM_CODE_ENUM(name, value, exit_code, meaning) name = value,
    FM_CODES(FM_CODE_ENUM)
#undef FM_CODE_ENUM
};

struct fm_error {
    int code;          /* 0 = no error yet */
    int64_t line;      /* from 1, 0 = unknown */
    int64_t column;    /* from 1, 0 = unknown */
    char file[512];    /* "" = unknown; a long path keeps its end */
    char text[1024];   /* one sentence; a long one ends in "..." */
};

/* Both return `code`, so that callers can write `return fm_fail(err, FM_EFILE, "...")`. `err` may be NULL. */
int fm_fail(struct fm_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int fm_fail_at(struct fm_error *err, int code, const char *file, int64_t line, int64_t column,
               const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Out of memory is always reported alike; formats into the error itself, without allocating. */
int fm_fail_memory(struct fm_error *err);

/* FM_EIO with errno's text: "cannot <what> <path>: <reason>". */
int fm_fail_errno(struct fm_error *err, const char *what, const char *path);

/* Forgets the error, for loops that go on with the next trial. */
void fm_error_clear(struct fm_error *err);

/* "file:line:column: text" into buffer (always terminated); returns buffer. */
const char *fm_error_print(const struct fm_error *err, char *buffer, size_t size);

/* The process exit code that belongs to a code; 0 for FM_OK. */
int fm_exit_code(int code);

#endif
