/* Reading a journal: a read-only connection that never writes or checkpoints, inside one read transaction, so
 * that all that is read belongs to one instant even while the sweep runs.
 *
 * Statements are used one at a time: fm_reader_query prepares, fm_reader_row steps. The first failure is kept
 * in the reader and every later call does nothing, so that callers check once, with fm_reader_status.
 */
#ifndef FM_REPORT_READER_H
#define FM_REPORT_READER_H

#include <sqlite3.h>

#include "base/error.h"

struct fm_reader {
    sqlite3 *db;
    sqlite3_stmt *statement;
    const char *path;
    int64_t version;       /* the schema's; columns that came later (schema.sql.h) must not be asked for */
    struct fm_error error; /* code 0 = all well */
};

/* Opens, checks that it is a journal of a version that can be read and begins the transaction. `path` must
 * outlive the reader. */
int fm_reader_open(struct fm_reader *reader, const char *path, struct fm_error *err);
void fm_reader_close(struct fm_reader *reader);

/* Starts a query; `format` is SQL as sqlite3_mprintf takes it. An unfinished query before it is dropped. */
void fm_reader_query(struct fm_reader *reader, const char *format, ...);
/* True when there is a row; false at the end or after a failure. */
bool fm_reader_row(struct fm_reader *reader);
/* The first column of the first row, 0 when there is none. */
int64_t fm_reader_count(struct fm_reader *reader, const char *format, ...);

int64_t fm_reader_integer(struct fm_reader *reader, int column);
double fm_reader_number(struct fm_reader *reader, int column);    /* NaN for NULL */
const char *fm_reader_text(struct fm_reader *reader, int column); /* until the next row; "" for NULL */
bool fm_reader_null(struct fm_reader *reader, int column);

/* 0, or the first failure, which goes into `err`. */
int fm_reader_status(const struct fm_reader *reader, struct fm_error *err);

#endif
