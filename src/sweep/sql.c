#include "sweep/sql.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "train/metrics.h"

static int fail_full(const char *path, struct fm_error *err)
{
    return fm_fail(
        err, FM_EIO,
        "the disk is full: cannot write %s. Nothing that was recorded is lost; make room and give the "
        "same command again",
        path);
}

static int last_of(sqlite3_file *file)
{
    int reason = 0;
    if (!file || !file->pMethods) return 0;
    return file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &reason) == SQLITE_OK ? reason : 0;
}

/* What the system said counts more than where SQLite was when it said so: the shared memory of a journal on a
 * full disk, for one, fails as a plain input/output error. What SQLite calls an I/O error or a file that
 * cannot be opened has a reason of the system's, kept for the connection (until tidying up overwrites it) and
 * for each file; 0 where none says more than SQLite. */
static int system_reason(struct fm_sql *sql)
{
    static const int telling[] = {ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE, EACCES, EPERM, EROFS, EIO};
    sqlite3_file *journal = NULL, *log = NULL;
    if (!sql->db) return 0;
    (void)sqlite3_file_control(sql->db, "main", SQLITE_FCNTL_FILE_POINTER, &journal);
    (void)sqlite3_file_control(sql->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    int reasons[] = {sqlite3_system_errno(sql->db), last_of(log), last_of(journal)};
    for (size_t r = 0; r < sizeof reasons / sizeof *reasons; r++)
        for (size_t i = 0; i < sizeof telling / sizeof *telling; i++)
            if (telling[i] == reasons[r]) return reasons[r];
    return 0;
}

static int fail_system(struct fm_sql *sql, struct fm_error *err, const char *what)
{
    int reason = system_reason(sql);
    if (reason == ENOSPC || reason == EDQUOT) return fail_full(sql->path, err);
    if (reason == EFBIG)
        return fm_fail(
            err, FM_EIO,
            "cannot write %s: the limit on the size of a file is reached (ulimit -f). Nothing that was "
            "recorded is lost; raise it and give the same command again",
            sql->path);
    if (reason == EMFILE || reason == ENFILE)
        return fm_fail(err, FM_EIO, "cannot open %s or its log: %s; raise the limit (ulimit -n)", sql->path,
                       strerror(reason));
    bool forbidden = reason == EROFS || reason == EACCES || reason == EPERM;
    if (forbidden || (sqlite3_errcode(sql->db) & 0xff) == SQLITE_CANTOPEN)
        return fm_fail(err, FM_EIO, "cannot write %s: %s. Check the permissions of the file and its folder",
                       sql->path, reason ? strerror(reason) : sqlite3_errmsg(sql->db));
    return fm_fail(err, FM_EIO, "cannot %s %s: %s (SQLite %d)", what, sql->path,
                   reason ? strerror(reason) : sqlite3_errmsg(sql->db), sqlite3_extended_errcode(sql->db));
}

int fm_sql_fail(struct fm_sql *sql, struct fm_error *err, const char *what)
{
    int status = sql->db ? sqlite3_extended_errcode(sql->db) : SQLITE_NOMEM;
    const char *path = sql->path;
    switch (status == SQLITE_IOERR_NOMEM ? SQLITE_NOMEM : status & 0xff) {
    case SQLITE_NOMEM: return fm_fail_memory(err);
    case SQLITE_FULL: return fail_full(path, err);
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN: return fail_system(sql, err, what);
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return fm_fail(err, FM_EIO, "cannot write %s: %s. Check the permissions of the file and its folder",
                       path, sqlite3_errmsg(sql->db));
    case SQLITE_NOTADB:
        return fm_fail(err, FM_EFILE, "%s is not a journal of Foldmill: give another one with --journal",
                       path);
    case SQLITE_CORRUPT:
        return fm_fail(err, FM_EIO,
                       "%s is damaged (%s). Keep a copy if you need it, then start over with --fresh", path,
                       sqlite3_errmsg(sql->db));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return fm_fail(err, FM_EBUSY, "another program holds %s locked; call again when it is done", path);
    default:
        return fm_fail(err, FM_EIO, "cannot %s %s: %s (SQLite %d)", what, path, sqlite3_errmsg(sql->db),
                       status);
    }
}

int fm_sql_script(struct fm_sql *sql, const char *text, struct fm_error *err)
{
    if (sqlite3_exec(sql->db, text, NULL, NULL, NULL) == SQLITE_OK) return 0;
    return fm_sql_fail(sql, err, "work on");
}

static int prepare(struct fm_sql *sql, const char *text, sqlite3_stmt **statement, struct fm_error *err)
{
    for (int i = 0; i < sql->cached; i++)
        if (sql->cache[i].text == text) {
            *statement = sql->cache[i].statement;
            /* The status of its last use was reported then. */
            sqlite3_reset(*statement);
            sqlite3_clear_bindings(*statement);
            return 0;
        }
    if (sql->cached == FM_SQL_CACHE) return fm_fail(err, FM_EINTERNAL, "too many SQL statements");
    if (sqlite3_prepare_v3(sql->db, text, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL) != SQLITE_OK)
        return fm_sql_fail(sql, err, "work on");
    sql->cache[sql->cached].text = text;
    sql->cache[sql->cached++].statement = *statement;
    return 0;
}

static int bind_real(sqlite3_stmt *statement, int column, double value)
{
    return isnan(value) ? sqlite3_bind_null(statement, column)
                        : sqlite3_bind_double(statement, column, value);
}

static int bind(sqlite3_stmt *statement, const char *format, va_list arguments)
{
    int status = SQLITE_OK, column = 1;
    for (const char *f = format; *f && status == SQLITE_OK; f++) {
        if (*f == 'i') {
            status = sqlite3_bind_int64(statement, column++, va_arg(arguments, int64_t));
        } else if (*f == 'd') {
            status = bind_real(statement, column++, va_arg(arguments, double));
        } else if (*f == 't') {
            /* As with bytes: the statement has run, or is bound anew, before the caller lets go of them. */
            status =
                sqlite3_bind_text(statement, column++, va_arg(arguments, const char *), -1, SQLITE_STATIC);
        } else if (*f == 'b') {
            const void *bytes = va_arg(arguments, const void *);
            size_t size = va_arg(arguments, size_t);
            status = sqlite3_bind_blob64(statement, column++, bytes ? bytes : "", size, SQLITE_STATIC);
        } else {
            for (int part = 0; part < 2; part++) {
                const struct fm_measured *measured = va_arg(arguments, const struct fm_measured *);
                for (int m = 0; m < FM_METRICS && status == SQLITE_OK; m++)
                    status = bind_real(statement, column++, measured->value[m]);
            }
        }
    }
    return status;
}

static int start(struct fm_sql *sql, sqlite3_stmt **statement, const char *text, struct fm_error *err,
                 const char *format, va_list arguments)
{
    int rc = prepare(sql, text, statement, err);
    if (rc) return rc;
    if (bind(*statement, format, arguments) != SQLITE_OK) return fm_sql_fail(sql, err, "write");
    return 0;
}

int fm_sql_query(struct fm_sql *sql, sqlite3_stmt **statement, const char *text, struct fm_error *err,
                 const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int rc = start(sql, statement, text, err, format, arguments);
    va_end(arguments);
    return rc;
}

int fm_sql_step(struct fm_sql *sql, sqlite3_stmt *statement, struct fm_error *err)
{
    int status = sqlite3_step(statement);
    if (status == SQLITE_ROW) return 1;
    int rc = status == SQLITE_DONE ? 0 : fm_sql_fail(sql, err, "write");
    sqlite3_reset(statement);
    return rc;
}

int fm_sql_run(struct fm_sql *sql, const char *text, struct fm_error *err, const char *format, ...)
{
    sqlite3_stmt *statement = NULL;
    va_list arguments;
    va_start(arguments, format);
    int rc = start(sql, &statement, text, err, format, arguments);
    va_end(arguments);
    if (rc) return rc;
    do rc = fm_sql_step(sql, statement, err);
    while (rc > 0);
    return rc;
}

int fm_sql_integer(struct fm_sql *sql, const char *text, int64_t missing, int64_t *value,
                   struct fm_error *err, const char *format, ...)
{
    sqlite3_stmt *statement = NULL;
    va_list arguments;
    va_start(arguments, format);
    int rc = start(sql, &statement, text, err, format, arguments);
    va_end(arguments);
    *value = missing;
    if (rc) return rc;
    rc = fm_sql_step(sql, statement, err);
    if (rc < 0) return rc;
    if (rc == 1 && sqlite3_column_type(statement, 0) != SQLITE_NULL)
        *value = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return 0;
}

void fm_sql_fini(struct fm_sql *sql)
{
    for (int i = 0; i < sql->cached; i++) sqlite3_finalize(sql->cache[i].statement);
    sql->cached = 0;
}

double fm_sql_real(sqlite3_stmt *statement, int column)
{
    return sqlite3_column_type(statement, column) == SQLITE_NULL ? NAN
                                                                 : sqlite3_column_double(statement, column);
}
