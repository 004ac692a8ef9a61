/* Foldmill: cross-validates small 1-D convolutional networks over many folds. The public C API.
 *
 * Conventions that hold for every call
 *  - A call that can fail returns 0 or a negative `enum fm_code` and fills the caller's `struct fm_error` (zero it
 *    before the first use; the first error is kept). NULL for `err` is fine.
 *  - The library never prints, never exits and keeps no global state.
 *  - Texts are UTF-8. Epochs and trials count from 1; repeats, folds, examples and positions from 0. Times are seconds.
 */
#ifndef FOLDMILL_H
#define FOLDMILL_H

#include <stddef.h>
#include <stdint.h>

#if defined __GNUC__
#define FM_API __attribute__((visibility("default")))
#else
#define FM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ---- */

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

/* A plain value that owns nothing. The text is one sentence for a person: what was found, what was expected, and where
 * it helps the nearest valid word. `file`, `line` and `column` say where the user wrote it. */
struct fm_error {
    int code;          /* 0 = no error yet */
    int64_t line;      /* from 1, 0 = unknown */
    int64_t column;    /* from 1, 0 = unknown */
    char file[512];    /* "" = unknown; a long path keeps its end */
    char text[1024];   /* one sentence; a long one ends in "..." */
};

/* "file:line:column: text" into buffer (always terminated); returns buffer. Any thread. */
FM_API const char *fm_error_print(const struct fm_error *err, char *buffer, size_t size);

/* Forgets the error, so that the struct can be used again. */
FM_API void fm_error_clear(struct fm_error *err);

/* The process exit code that belongs to a code; 0 for FM_OK. */
FM_API int fm_exit_code(int code);

#ifdef __cplusplus
}
#endif

#endif
