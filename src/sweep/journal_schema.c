/* Creation and migration (invariant 5 of journal.h). */
#include <stdio.h>

#include "sweep/journal_private.h"

/* migrations[v] turns version v into v + 1; version 0 is an empty file. */
static const char *const migrations[FM_SCHEMA_VERSION] = {FM_SCHEMA, FM_SCHEMA_2, FM_SCHEMA_3};

static int migrate(struct fm_journal *journal, int64_t version, struct fm_error *err)
{
    int rc = fm_sql_script(&journal->sql, "BEGIN IMMEDIATE", err);
    if (rc) return rc;
    for (; !rc && version < FM_SCHEMA_VERSION; version++)
        rc = fm_sql_script(&journal->sql, migrations[version], err);
    char pragmas[96];
    snprintf(pragmas, sizeof pragmas, "PRAGMA user_version=%d; PRAGMA application_id=%d", FM_SCHEMA_VERSION,
             FM_APPLICATION_ID);
    if (!rc) rc = fm_sql_script(&journal->sql, pragmas, err);
    if (!rc) rc = fm_sql_script(&journal->sql, "COMMIT", err);
    if (rc) sqlite3_exec(journal->sql.db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

int fm_journal_schema(struct fm_journal *journal, struct fm_error *err)
{
    int64_t application = 0, version = 0, tables = 0;
    struct fm_sql *sql = &journal->sql;
    int rc = fm_sql_integer(sql, "PRAGMA application_id", 0, &application, err, "");
    if (!rc) rc = fm_sql_integer(sql, "PRAGMA user_version", 0, &version, err, "");
    if (!rc) rc = fm_sql_integer(sql, "SELECT count(*) FROM sqlite_schema", 0, &tables, err, "");
    if (rc) return rc;
    if (tables && application != FM_APPLICATION_ID)
        return fm_fail(err, FM_EFILE,
                       "%s is a database of another program: give another journal with --journal",
                       journal->path);
    if (version > FM_SCHEMA_VERSION)
        return fm_fail(
            err, FM_EFILE,
            "%s was written by a newer Foldmill (schema %lld, this one knows %d): use that one, or --fresh",
            journal->path, (long long)version, FM_SCHEMA_VERSION);
    return version < FM_SCHEMA_VERSION ? migrate(journal, version, err) : 0;
}
