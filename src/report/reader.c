#include "report/reader.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "sweep/schema.sql.h"

static void fail(struct fm_reader *reader)
{
    int code = sqlite3_extended_errcode(reader->db);
    if (code == SQLITE_NOMEM) {
        fm_fail_memory(&reader->error);
    } else if ((code & 0xff) == SQLITE_NOTADB) {
        fm_fail(&reader->error, FM_EFILE, "%s is not a journal of Foldmill: it is no SQLite file",
                reader->path);
    } else if (code == SQLITE_READONLY_ROLLBACK || code == SQLITE_READONLY_RECOVERY) {
        fm_fail(&reader->error, FM_EIO,
                "%s was left in the middle of a write, which only a writer can clear up: run the sweep again",
                reader->path);
    } else if ((code & 0xff) == SQLITE_CORRUPT) {
        fm_fail(&reader->error, FM_EIO, "%s is damaged (%s): run the sweep again with --fresh", reader->path,
                sqlite3_errmsg(reader->db));
    } else {
        fm_fail(&reader->error, FM_EIO, "cannot read %s: %s", reader->path, sqlite3_errmsg(reader->db));
    }
}

/* Only the characters that mean something in a URI are escaped. */
static char *immutable_uri(const char *path)
{
    struct fm_text uri = {0};
    fm_text_add_string(&uri, "file:");
    for (const char *c = path; *c; c++) {
        if (*c == '%' || *c == '?' || *c == '#')
            fm_text_add(&uri, "%%%02x", (unsigned char)*c);
        else
            fm_text_add_bytes(&uri, c, 1);
    }
    fm_text_add_string(&uri, "?immutable=1");
    if (uri.failed) fm_text_fini(&uri);
    return uri.data;
}

static int open_at(struct fm_reader *reader, const char *name, int flags)
{
    int rc = sqlite3_open_v2(name, &reader->db, SQLITE_OPEN_READONLY | flags, NULL);
    if (rc != SQLITE_OK) return rc;
    sqlite3_extended_result_codes(reader->db, 1);
    sqlite3_busy_timeout(reader->db, 10000);
    sqlite3_db_config(reader->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    rc = sqlite3_exec(reader->db, "BEGIN", NULL, NULL, NULL);
    return rc == SQLITE_OK ? sqlite3_exec(reader->db, "SELECT 1 FROM sqlite_schema", NULL, NULL, NULL) : rc;
}

/* A journal in write-ahead mode needs an index file beside it. Where the folder cannot be written and nothing
 * is in the log, the file alone is the whole journal. */
static bool open_immutable(struct fm_reader *reader)
{
    char log[4096];
    if (snprintf(log, sizeof log, "%s-wal", reader->path) >= (int)sizeof log || access(log, F_OK) == 0)
        return false;
    char *uri = immutable_uri(reader->path);
    if (!uri) return false;
    sqlite3_close(reader->db);
    reader->db = NULL;
    int rc = open_at(reader, uri, SQLITE_OPEN_URI);
    fm_free(uri);
    return rc == SQLITE_OK;
}

static int open_any(struct fm_reader *reader, struct fm_error *err)
{
    struct stat st;
    if (stat(reader->path, &st) != 0 && errno == ENOENT)
        return fm_fail(err, FM_EFILE, "there is no journal %s yet: `foldmill run` makes it", reader->path);
    if (stat(reader->path, &st) != 0) return fm_fail_errno(err, "look at", reader->path);
    if (!S_ISREG(st.st_mode))
        return fm_fail(err, FM_EFILE, "%s is no file, so it is no journal", reader->path);
    if (access(reader->path, R_OK) != 0) return fm_fail_errno(err, "read", reader->path);
    int rc = open_at(reader, reader->path, 0);
    if (rc == SQLITE_OK) return 0;
    if (((rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY) && open_immutable(reader))
        return 0;
    if (!reader->db) return fm_fail_memory(err);
    fail(reader);
    return fm_reader_status(reader, err);
}

static int check(struct fm_reader *reader, struct fm_error *err)
{
    /* A run opens its journal before it reads the data. */
    if (fm_reader_count(reader, "SELECT count(*) FROM sqlite_schema") == 0 && !reader->error.code)
        return fm_fail(err, FM_EBUSY,
                       "%s holds nothing yet: a run is about to begin, or was stopped before it did",
                       reader->path);
    if (fm_reader_count(reader, "PRAGMA application_id") != FM_APPLICATION_ID && !reader->error.code)
        return fm_fail(err, FM_EFILE, "%s is an SQLite file but no journal of Foldmill", reader->path);
    int64_t version = fm_reader_count(reader, "PRAGMA user_version");
    if (!reader->error.code && version > FM_SCHEMA_VERSION)
        return fm_fail(err, FM_EFILE,
                       "%s was written by a newer Foldmill (schema %lld, this one reads %d): update Foldmill",
                       reader->path, (long long)version, FM_SCHEMA_VERSION);
    reader->version = version;
    if (!reader->error.code && version < FM_SCHEMA_READ)
        return fm_fail(err, FM_EFILE, "%s has the old schema %lld: `foldmill run` once brings it up to %d",
                       reader->path, (long long)version, FM_SCHEMA_VERSION);
    if (fm_reader_count(reader, "SELECT count(*) FROM sweep") != 1 && !reader->error.code)
        return fm_fail(err, FM_EBUSY,
                       "%s holds no sweep yet: a run reads its data, or was stopped before it began",
                       reader->path);
    return fm_reader_status(reader, err);
}

int fm_reader_open(struct fm_reader *reader, const char *path, struct fm_error *err)
{
    *reader = (struct fm_reader){.path = path};
    int rc = open_any(reader, err);
    if (!rc) rc = check(reader, err);
    if (rc) fm_reader_close(reader);
    return rc;
}

void fm_reader_close(struct fm_reader *reader)
{
    sqlite3_finalize(reader->statement);
    sqlite3_close(reader->db);
    reader->statement = NULL;
    reader->db = NULL;
}

static void query(struct fm_reader *reader, const char *format, va_list args)
{
    if (reader->error.code) return;
    sqlite3_finalize(reader->statement);
    reader->statement = NULL;
    char *sql = sqlite3_vmprintf(format, args);
    if (!sql) {
        fm_fail_memory(&reader->error);
        return;
    }
    if (sqlite3_prepare_v2(reader->db, sql, -1, &reader->statement, NULL) != SQLITE_OK) fail(reader);
    sqlite3_free(sql);
}

void fm_reader_query(struct fm_reader *reader, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    query(reader, format, args);
    va_end(args);
}

bool fm_reader_row(struct fm_reader *reader)
{
    if (reader->error.code || !reader->statement) return false;
    int rc = sqlite3_step(reader->statement);
    if (rc == SQLITE_ROW) return true;
    if (rc != SQLITE_DONE) fail(reader);
    sqlite3_finalize(reader->statement);
    reader->statement = NULL;
    return false;
}

int64_t fm_reader_count(struct fm_reader *reader, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    query(reader, format, args);
    va_end(args);
    return fm_reader_row(reader) ? sqlite3_column_int64(reader->statement, 0) : 0;
}

int64_t fm_reader_integer(struct fm_reader *reader, int column)
{
    return sqlite3_column_int64(reader->statement, column);
}

double fm_reader_number(struct fm_reader *reader, int column)
{
    return fm_reader_null(reader, column) ? NAN : sqlite3_column_double(reader->statement, column);
}

const char *fm_reader_text(struct fm_reader *reader, int column)
{
    const char *text = (const char *)sqlite3_column_text(reader->statement, column);
    if (!text && !fm_reader_null(reader, column)) fm_fail_memory(&reader->error);
    return text ? text : "";
}

bool fm_reader_null(struct fm_reader *reader, int column)
{
    return sqlite3_column_type(reader->statement, column) == SQLITE_NULL;
}

int fm_reader_status(const struct fm_reader *reader, struct fm_error *err)
{
    if (reader->error.code && err && !err->code) *err = reader->error;
    return reader->error.code;
}
