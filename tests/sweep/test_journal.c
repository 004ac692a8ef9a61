/* The journal file itself: locks, versions, foreign files, fences. What runs write into it is
 * test_scheduler.c's. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/log.h"
#include "support/scripted.h"
#include "support/support.h"
#include "support/sweep.h"
#include "sweep/journal_private.h"

static const char yaml[] = "cv: {split: kfold, folds: 2}\n"
                           "model: [flatten, {dense: {units: 2, activation: softmax}}]\n"
                           "train: {loss: categorical_crossentropy, epochs: 3}\n";

static void execute(const char *path, const char *sql)
{
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static int open_code(const char *path, struct fm_error *err)
{
    struct fm_journal *journal = NULL;
    memset(err, 0, sizeof *err);
    int rc = fm_journal_open(&journal, path, false, NULL, err);
    struct fm_error closing = {0};
    if (!rc) cr_assert_eq(fm_journal_close(journal, &closing), 0, "%s", closing.text);
    return rc;
}

Test(journal, a_second_process_is_told_who_works)
{
    char folder[64], path[128], lock[160];
    cr_assert(ts_temporary(folder, sizeof folder));
    ts_join(path, sizeof path, folder, "x.db");
    snprintf(lock, sizeof lock, "%s.lock", path);
    int fd = open(lock, O_RDWR | O_CREAT, 0666);
    cr_assert_eq(write(fd, "12345\n", 6), 6);
    cr_assert_eq(flock(fd, LOCK_EX), 0);
    struct fm_error err;
    cr_assert_eq(open_code(path, &err), FM_EBUSY);
    cr_assert(strstr(err.text, "process 12345"), "%s", err.text);
    close(fd);
    cr_assert_eq(open_code(path, &err), 0, "%s", err.text);
    ts_remove_tree(folder);
}

Test(journal, foreign_and_newer_files_are_left_alone)
{
    char folder[64], path[128];
    struct fm_error err;
    cr_assert(ts_temporary(folder, sizeof folder));

    ts_join(path, sizeof path, folder, "foreign.db");
    execute(path, "CREATE TABLE mine(a); INSERT INTO mine VALUES(1)");
    cr_assert_eq(open_code(path, &err), FM_EFILE);
    cr_assert(strstr(err.text, "another program"), "%s", err.text);

    ts_join(path, sizeof path, folder, "text.db");
    cr_assert(ts_write_file(
        path, "this is a text that is no database at all, and long enough to be looked at", 74));
    cr_assert_eq(open_code(path, &err), FM_EFILE);
    cr_assert(strstr(err.text, "not a journal"), "%s", err.text);

    ts_join(path, sizeof path, folder, "newer.db");
    cr_assert_eq(open_code(path, &err), 0, "%s", err.text);
    execute(path, "PRAGMA user_version = 99");
    cr_assert_eq(open_code(path, &err), FM_EFILE);
    cr_assert(strstr(err.text, "newer"), "%s", err.text);

    cr_assert_eq(open_code(folder, &err), FM_EFILE, "a folder is no journal");
    ts_join(path, sizeof path, folder, "absent/x.db");
    cr_assert_eq(open_code(path, &err), FM_EIO);
    ts_remove_tree(folder);
}

static void run_once(struct ts_sweep *sweep)
{
    struct ts_sweep_options options = {.backend = &fm_backend_scripted, .lanes = 1, .checkpoint_seconds = 0};
    struct fm_error err = {0};
    fm_scripted_configure(&(struct fm_scripted_options){.order = 1});
    cr_assert_eq(ts_sweep_run(sweep, &options, &err), 0, "%s", err.text);
}

Test(journal, fresh_renames_and_never_overwrites)
{
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, yaml);
    run_once(&sweep);
    struct ts_sweep_options options = {.backend = &fm_backend_scripted, .lanes = 1, .fresh = true};
    for (int i = 1; i <= 2; i++) {
        struct fm_error err = {0};
        fm_scripted_configure(&(struct fm_scripted_options){.order = 1});
        cr_assert_eq(ts_sweep_run(&sweep, &options, &err), 0, "%s", err.text);
        char old[128];
        snprintf(old, sizeof old, "%s/s.old-%d.db", sweep.folder, i);
        cr_assert_eq(access(old, R_OK), 0, "%s", old);
    }
    ts_sweep_fini(&sweep);
}

/* Writes of an attempt that is over must change nothing (invariant 2). */
Test(journal, writes_of_an_old_attempt_are_fenced_off)
{
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, yaml);
    run_once(&sweep);
    char *before = ts_sweep_dump(&sweep);
    struct fm_journal *journal = NULL;
    struct fm_error err = {0};
    cr_assert_eq(fm_journal_open(&journal, sweep.journal, false, NULL, &err), 0, "%s", err.text);
    struct fm_fence old = {.trial = 1, .repeat = 0, .fold = 0, .attempt = 0};
    struct fm_epoch epoch = {.epoch = 2, .loss = 77};
    struct fm_event event = {.kind = FM_EVENT_NAN, .text = "late"};
    struct fm_run_result result = {.status = FM_RUN_FAILED, .reason_code = "nan", .reason = "late"};
    cr_assert_eq(fm_journal_epoch(journal, &old, &epoch, &err), 0);
    cr_assert_eq(fm_journal_event(journal, &old, &event, &err), 0);
    cr_assert_eq(fm_journal_save(journal, &old, 1, "x", 1, &err), 0);
    cr_assert_eq(fm_journal_run_end(journal, &old, &result, 2, 1, 0, 0, &err), 0, "%s", err.text);
    cr_assert_eq(fm_journal_close(journal, &err), 0, "%s", err.text);
    char *after = ts_sweep_dump(&sweep);
    cr_assert_str_eq(after, before);
    free(before);
    free(after);
    ts_sweep_fini(&sweep);
}

Test(journal, a_full_disk_is_said_and_costs_only_the_open_group)
{
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, yaml);
    run_once(&sweep);
    char *before = ts_sweep_dump(&sweep);
    struct fm_journal *journal = NULL;
    struct fm_error err = {0};
    cr_assert_eq(fm_journal_open(&journal, sweep.journal, false, NULL, &err), 0, "%s", err.text);
    /* A file may not grow: what a full disk looks like to SQLite. */
    cr_assert_eq(fm_sql_script(&journal->sql, "PRAGMA max_page_count = 1", &err), 0);
    static char big[1 << 20];
    struct fm_fence fence = {.trial = 1, .attempt = 1};
    int rc = fm_journal_save(journal, &fence, 1, big, sizeof big, &err);
    if (!rc) rc = fm_journal_commit(journal, true, &err);
    cr_assert_eq(rc, FM_EIO);
    cr_assert(strstr(err.text, "the disk is full"), "%s", err.text);
    fm_journal_close(journal, &err);
    char *after = ts_sweep_dump(&sweep);
    cr_assert_str_eq(after, before);
    free(before);
    free(after);
    ts_sweep_fini(&sweep);
}
