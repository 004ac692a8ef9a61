/* Fold files: CSV with a header that names `record` or `example`, and `fold`; other columns are not read.
 * Fields may be quoted, lines may end in CRLF, a byte-order mark is skipped; the delimiter is the first of ,
 * ; tab in the header.
 */
#ifndef FM_DATA_FOLDFILE_H
#define FM_DATA_FOLDFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_error;

struct fm_foldfile_row {
    const char *key, *fold; /* terminated, as written */
    int64_t line;
    int32_t part; /* index into `names`, or -1: always training */
};

struct fm_foldfile {
    char *bytes;     /* the file, cut into fields */
    bool by_example; /* keys are example numbers, else record ids */
    struct fm_foldfile_row *rows;
    size_t nrows, capacity;
    const char **names; /* distinct folds but -1: numbers by value, otherwise byte by byte */
    int64_t nfolds;
};

/* Errors name file and line. A fold that is empty, a row with too few fields, an unclosed quote are refused;
 * a directory or a pipe is refused by name. On failure nothing is kept. */
int fm_foldfile_read(struct fm_foldfile *file, const char *path, struct fm_error *err);
void fm_foldfile_fini(struct fm_foldfile *file);

#endif
