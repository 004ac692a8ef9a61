/* SQLite with our errors: statements are prepared once and kept, arguments are bound by a format, every
 * status is checked. Formats, one letter an argument: i int64_t, d double (NaN becomes NULL), t const char *
 * (NULL becomes NULL), b const void * and size_t, m const struct fm_measured * twice: inner, val (26
 * columns).
 */
#ifndef FM_SWEEP_SQL_H
#define FM_SWEEP_SQL_H

#include <sqlite3.h>

#include "base/error.h"

#define FM_SQL_CACHE 96

struct fm_sql {
    sqlite3 *db;
    const char *path; /* for messages; borrowed */
    struct {
        const char *text; /* identity: SQL is always a string literal */
        sqlite3_stmt *statement;
    } cache[FM_SQL_CACHE];
    int cached;
};

/* The sqlite status as an error: full disk, permission, not a database, busy... Always returns a negative
 * code. */
int fm_sql_fail(struct fm_sql *sql, struct fm_error *err, const char *what);
/* Several statements without arguments or results. */
int fm_sql_script(struct fm_sql *sql, const char *text, struct fm_error *err);
/* One statement, run to its end; what it returns is ignored. */
int fm_sql_run(struct fm_sql *sql, const char *text, struct fm_error *err, const char *format, ...);
/* Starts a query; read rows with fm_sql_step (1 = a row, 0 = no more, negative = error). A statement that is
 * not stepped to its end must be put back with sqlite3_reset. */
int fm_sql_query(struct fm_sql *sql, sqlite3_stmt **statement, const char *text, struct fm_error *err,
                 const char *format, ...);
int fm_sql_step(struct fm_sql *sql, sqlite3_stmt *statement, struct fm_error *err);
/* One number of one row; `missing` when there is no row or it is NULL. */
int fm_sql_integer(struct fm_sql *sql, const char *text, int64_t missing, int64_t *value,
                   struct fm_error *err, const char *format, ...);
/* Finalizes the statements; the database stays open. */
void fm_sql_fini(struct fm_sql *sql);

/* A REAL column, NaN for NULL. */
double fm_sql_real(sqlite3_stmt *statement, int column);

#endif
