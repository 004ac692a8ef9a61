/* Opening, locking, grouping of writes, closing. Invariants 1, 3 and 5 of journal.h live here. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "sweep/journal_private.h"

#define GROUP_SECONDS 0.2
#define SYNC_SECONDS  5.0

double fm_wall_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int join(char **out, const char *a, const char *b, struct fm_error *err)
{
    struct fm_text text = {0};
    fm_text_add(&text, "%s%s", a, b);
    if (text.failed) return fm_text_fini(&text), fm_fail_memory(err);
    *out = text.data;
    return 0;
}

static int not_a_file(const char *path, struct fm_error *err)
{
    return fm_fail(err, FM_EFILE, "%s is not a file: give another journal with --journal", path);
}

/* One journal, one lock, by whatever links it is reached. A journal that does not exist yet keeps the name it
 * was given. */
static char *true_path(const char *path)
{
    char *real = realpath(path, NULL), *own = fm_strdup(real ? real : path);
    free(real);
    return own;
}

/* The lock stands beside the journal: closing any second descriptor of the database itself would drop
 * SQLite's own locks. The file stays behind on purpose; removing it would let two processes lock two
 * different files. */
static int take_lock(struct fm_journal *journal, struct fm_error *err)
{
    char *path = NULL;
    int rc = join(&path, journal->path, ".lock", err);
    if (rc) return rc;
    char owner[32] = "";
    journal->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (journal->lock < 0) {
        rc = fm_fail_errno(err, "open", path);
    } else if (flock(journal->lock, LOCK_EX | LOCK_NB) == 0) {
        int size = snprintf(owner, sizeof owner, "%ld\n", (long)getpid());
        /* Only a courtesy for the message below: the lock holds without it, on a full disk too. */
        if (ftruncate(journal->lock, 0) || pwrite(journal->lock, owner, (size_t)size, 0) != size) errno = 0;
    } else if (errno == EWOULDBLOCK) {
        ssize_t got = pread(journal->lock, owner, sizeof owner - 1, 0);
        owner[got > 0 ? strspn(owner, "0123456789") : 0] = '\0';
        rc = fm_fail(err, FM_EBUSY, "another foldmill%s%s works on %s; call again when it is done",
                     owner[0] ? ", process " : "", owner, journal->path);
    } else {
        rc = fm_fail_errno(err, "lock", path);
    }
    fm_free(path);
    return rc;
}

/* WAL needs shared memory, which network file systems do not have. */
static bool on_network(const char *path)
{
    static const long types[] = {0x6969,     0x517b,     0xfe534d42, 0xff534d42,
                                 0x01021997, 0x65735546, 0x0bd00bd0, 0x47504653};
    struct statfs fs;
    if (statfs(path, &fs)) return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((long)(fs.f_type & 0xffffffff) == types[i]) return true;
    return false;
}

/* Only what is a journal is set aside: a path given by mistake may name the data. The log that a killed
 * process left is written into the journal first, so that the file can be renamed alone: a log that stayed
 * behind would be taken for the new journal's. A damaged journal keeps its log. */
static int settle(const char *path, struct fm_error *err)
{
    struct fm_sql sql = {.path = path};
    struct fm_error own = {0};
    int64_t application = 0, tables = 0;
    int rc = sqlite3_open_v2(path, &sql.db, SQLITE_OPEN_READWRITE, NULL);
    if (rc != SQLITE_OK) rc = fm_sql_fail(&sql, &own, "open");
    if (!rc) (void)sqlite3_exec(sql.db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
    if (!rc) rc = fm_sql_integer(&sql, "SELECT count(*) FROM sqlite_schema", 0, &tables, &own, "");
    if (!rc) rc = fm_sql_integer(&sql, "PRAGMA application_id", 0, &application, &own, "");
    bool foreign = rc ? rc == FM_EFILE : tables && application != FM_APPLICATION_ID;
    fm_sql_fini(&sql);
    (void)sqlite3_close(sql.db);
    if (rc == FM_ENOMEM) return fm_fail_memory(err);
    if (!foreign) return 0;
    return fm_fail(err, FM_EFILE,
                   "%s is not a journal of Foldmill and stays where it is: give another one with --journal",
                   path);
}

/* The log moves before the journal, so that no instant has a log without its journal under this name. */
static int rename_all(const char *path, const char *old, struct fm_error *err)
{
    static const char *const parts[] = {"-wal", "-shm", "-journal", ""};
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof parts / sizeof *parts; i++) {
        char *from = NULL, *to = NULL;
        rc = join(&from, path, parts[i], err);
        if (!rc) rc = join(&to, old, parts[i], err);
        if (!rc && rename(from, to) && (errno != ENOENT || !*parts[i]))
            rc = fm_fail_errno(err, "rename", from);
        fm_free(from);
        fm_free(to);
    }
    return rc;
}

static int move_away(const char *path, struct fm_notes *notes, struct fm_error *err)
{
    struct stat st;
    if (stat(path, &st)) return errno == ENOENT ? 0 : fm_fail_errno(err, "look at", path);
    if (!S_ISREG(st.st_mode)) return not_a_file(path, err);
    int rc = settle(path, err);
    if (rc) return rc;
    size_t stem = strlen(path);
    if (stem > 3 && !strcmp(path + stem - 3, ".db")) stem -= 3;
    for (int n = 1; n < 10000; n++) {
        struct fm_text old = {0};
        fm_text_add(&old, "%.*s.old-%d.db", (int)stem, path, n);
        if (old.failed) return fm_text_fini(&old), fm_fail_memory(err);
        bool taken = stat(old.data, &st) == 0;
        if (!taken) rc = rename_all(path, old.data, err);
        if (!taken && !rc) fm_note(notes, FM_NOTE, "the old journal is now %s", old.data);
        fm_text_fini(&old);
        if (!taken) return rc;
    }
    return fm_fail(err, FM_EIO, "too many old journals beside %s: remove some", path);
}

static int set_modes(struct fm_journal *journal, struct fm_notes *notes, struct fm_error *err)
{
    journal->wal = !on_network(journal->path);
    int rc = fm_sql_script(&journal->sql, "PRAGMA foreign_keys=OFF; PRAGMA temp_store=MEMORY;", err);
    if (rc) return rc;
    if (journal->wal)
        return fm_sql_script(&journal->sql, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;", err);
    fm_note(notes, FM_NOTE,
            "%s lies on a network file system: the journal is written there in a slower, safe way",
            journal->path);
    return fm_sql_script(&journal->sql, "PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=EXTRA;", err);
}

/* After a kill the file is sound (that is what SQLite is for), but a machine that crashed may have lied about
 * syncs. */
static int check_after_crash(struct fm_journal *journal, struct fm_error *err)
{
    int64_t clean = 1;
    int rc = fm_sql_integer(&journal->sql, "SELECT clean FROM sweep", 1, &clean, err, "");
    if (rc || clean) return rc;
    sqlite3_stmt *check = NULL;
    rc = fm_sql_query(&journal->sql, &check, "PRAGMA integrity_check(1)", err, "");
    if (rc) return rc;
    rc = fm_sql_step(&journal->sql, check, err);
    if (rc <= 0) return rc;
    const char *text = (const char *)sqlite3_column_text(check, 0);
    rc = text && !strcmp(text, "ok")
             ? 0
             : fm_fail(err, FM_EIO,
                       "%s is damaged (%s). Keep a copy if you need it, then start over with --fresh",
                       journal->path, text ? text : "?");
    sqlite3_reset(check);
    return rc;
}

static int open_database(struct fm_journal *journal, struct fm_notes *notes, struct fm_error *err)
{
    struct stat st;
    if (!stat(journal->path, &st) && !S_ISREG(st.st_mode)) return not_a_file(journal->path, err);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(journal->path, &journal->sql.db, flags, NULL) != SQLITE_OK)
        return fm_sql_fail(&journal->sql, err, "open");
    sqlite3_busy_timeout(journal->sql.db, 5000);
    int rc = set_modes(journal, notes, err);
    if (!rc) rc = fm_journal_schema(journal, err);
    if (!rc) rc = check_after_crash(journal, err);
    return rc;
}

static void dispose(struct fm_journal *journal)
{
    fm_blobs_clear(journal);
    fm_free(journal->blobs);
    fm_free(journal->kept);
    fm_sql_fini(&journal->sql);
    sqlite3_close(journal->sql.db);
    if (journal->lock >= 0) close(journal->lock);
    fm_free(journal->path);
    fm_free(journal);
}

int fm_journal_open(struct fm_journal **out, const char *path, bool fresh, struct fm_notes *notes,
                    struct fm_error *err)
{
    *out = NULL;
    struct fm_journal *journal = fm_calloc(1, sizeof *journal);
    if (!journal) return fm_fail_memory(err);
    journal->lock = -1;
    journal->path = true_path(path);
    journal->sql.path = journal->path;
    journal->last_sync = fm_monotonic();
    int rc = journal->path ? take_lock(journal, err) : fm_fail_memory(err);
    if (!rc && fresh) rc = move_away(journal->path, notes, err);
    if (!rc) rc = open_database(journal, notes, err);
    if (rc) {
        dispose(journal);
        return rc;
    }
    *out = journal;
    return 0;
}

int fm_journal_group(struct fm_journal *journal, struct fm_error *err)
{
    if (journal->in_group) return 0;
    double now = fm_monotonic();
    if (journal->wal) {
        bool full = now - journal->last_sync >= SYNC_SECONDS;
        int rc =
            fm_sql_script(&journal->sql, full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", err);
        if (rc) return rc;
        if (full) journal->last_sync = now;
    }
    int rc = fm_sql_run(&journal->sql, "BEGIN IMMEDIATE", err, "");
    if (rc) return rc;
    journal->in_group = true;
    journal->group_began = now;
    return 0;
}

static void roll_back(struct fm_journal *journal)
{
    journal->in_group = false;
    fm_blobs_clear(journal);
    fm_keep_forget(journal);
    journal->no_checkpoints = false;
    if (!sqlite3_get_autocommit(journal->sql.db)) sqlite3_exec(journal->sql.db, "ROLLBACK", NULL, NULL, NULL);
}

/* A file that was moved or deleted can still be written, but nobody would find what was written. */
static int check_place(struct fm_journal *journal, struct fm_error *err)
{
    int moved = 0;
    if (sqlite3_file_control(journal->sql.db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK || !moved)
        return 0;
    return fm_fail(
        err, FM_EIO,
        "%s was moved, replaced or deleted while the sweep ran, so nothing more can be recorded; put it "
        "back (or leave it, to start over) and give the same command again",
        journal->path);
}

int fm_journal_commit(struct fm_journal *journal, bool now, struct fm_error *err)
{
    if (!journal->in_group || (!now && fm_monotonic() - journal->group_began < GROUP_SECONDS)) return 0;
    journal->in_group = false;
    int rc = check_place(journal, err);
    if (!rc) rc = fm_blobs_flush(journal, err);
    if (!rc) rc = fm_sql_run(&journal->sql, "COMMIT", err, "");
    /* A group that cannot be written is given up whole; what was committed before stays. */
    if (rc) roll_back(journal);
    return rc;
}

static int close_clean(struct fm_journal *journal, struct fm_error *err)
{
    int rc = fm_journal_group(journal, err);
    if (!rc)
        rc = fm_sql_run(&journal->sql, "UPDATE sweep SET clean = 1, updated = ?", err, "d", fm_wall_clock());
    if (!rc) rc = fm_journal_commit(journal, true, err);
    if (!rc && journal->wal) rc = fm_sql_script(&journal->sql, "PRAGMA wal_checkpoint(TRUNCATE)", err);
    return rc;
}

int fm_journal_close(struct fm_journal *journal, struct fm_error *err)
{
    if (!journal) return 0;
    struct fm_error own = {0};
    /* What failed may have left half of an event in the open group: a run that is completed but has no
     * scores. The group is given up whole, as after a kill, and comes again with the same bits. */
    bool failed = err && err->code && err->code != FM_EINTERRUPTED && err->code != FM_EDEVICE;
    int rc = failed ? 0 : close_clean(journal, &own);
    if (rc || failed) roll_back(journal);
    if (rc && err && !err->code) *err = own;
    dispose(journal);
    return rc;
}
