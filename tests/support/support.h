/* What several test files need: golden files, temporary folders, the shared folder, running a program.
 * Nothing here uses Criterion, so that plain programs can link it. */
#ifndef FM_TESTS_SUPPORT_H
#define FM_TESTS_SUPPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Reads tests/goldens/<name>.json. NULL (and a line on stderr) if it cannot be read; json_decref it. */
json_t *ts_golden(const char *name);

/* Numbers of a JSON list, nested lists flattened in order; *count gets how many. "nan", "inf", "-inf" and
 * null (NaN) are numbers too. NULL if anything else is in it. free() it. */
double *ts_golden_numbers(const json_t *list, size_t *count);

/* A new empty folder under /tmp; its path is written into `path` (at least 64 bytes). False if impossible. */
bool ts_temporary(char *path, size_t size);
/* Removes a folder and all below it; never follows links. */
void ts_remove_tree(const char *path);

/* "<folder>/<name>" into buffer; returns buffer. */
const char *ts_join(char *buffer, size_t size, const char *folder, const char *name);
/* Writes the whole file; false if that failed. */
bool ts_write_file(const char *path, const void *bytes, size_t size);
/* The whole file and a '\0' behind it; NULL if it cannot be read. free() it. */
char *ts_read_file(const char *path, size_t *size);

/* "../shared" or NULL where it is absent: such a test calls cr_skip. */
const char *ts_shared(void);
/* The program under test: $FOLDMILL or build/foldmill. */
const char *ts_program(void);

struct ts_result {
    int exit_code;   /* of a program that ended by itself, else -1 */
    int signal;      /* that ended it, else 0 */
    bool timed_out;  /* killed because it took too long */
    char *out, *err; /* what it wrote, terminated by '\0' */
    size_t out_size, err_size;
};

/* Runs argv[0] (found by PATH) with argv (NULL-terminated) and stdin empty; kills it after `seconds`.
 * `environment` is NULL-terminated "NAME=value" added to this process's, or NULL. False if it did not start.
 */
bool ts_run(const char *const *argv, const char *const *environment, double seconds,
            struct ts_result *result);
void ts_result_fini(struct ts_result *result);

#endif
