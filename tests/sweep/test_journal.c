/* The journal file itself: locks, versions, foreign files, fences. What runs write into it is
 * test_scheduler.c's. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/* A path given by mistake may name the data. */
Test(journal, fresh_sets_only_journals_aside)
{
    char folder[64], path[128], old[128];
    cr_assert(ts_temporary(folder, sizeof folder));
    ts_join(path, sizeof path, folder, "x.db");
    ts_join(old, sizeof old, folder, "x.old-1.db");
    for (int kind = 0; kind < 2; kind++) {
        if (kind == 0)
            cr_assert(ts_write_file(path, "time,value\n1,2\n", 15));
        else
            execute(path, "CREATE TABLE mine(a)");
        struct fm_journal *journal = NULL;
        struct fm_error err = {0};
        cr_assert_eq(fm_journal_open(&journal, path, true, NULL, &err), FM_EFILE);
        cr_assert(strstr(err.text, "not a journal"), "%s", err.text);
        cr_assert_neq(access(old, F_OK), 0);
        cr_assert_eq(unlink(path), 0);
    }
    ts_remove_tree(folder);
}

/* A log that stayed behind when the journal was renamed would be taken for the new journal's. */
Test(journal, fresh_after_a_kill_leaves_no_log_to_confuse)
{
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, yaml);
    run_once(&sweep);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct fm_journal *journal = NULL;
        struct fm_error err = {0};
        bool done = !fm_journal_open(&journal, sweep.journal, false, NULL, &err) &&
                    !fm_journal_mark(journal, true, 4711, &err) && !fm_journal_commit(journal, true, &err);
        _exit(done ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    char log[160];
    snprintf(log, sizeof log, "%s-wal", sweep.journal);
    struct stat st;
    cr_assert(stat(log, &st) == 0 && st.st_size > 0, "the child left its last write in the log");

    struct fm_journal *journal = NULL;
    struct fm_error err = {0};
    cr_assert_eq(fm_journal_open(&journal, sweep.journal, true, NULL, &err), 0, "%s", err.text);
    cr_assert_eq(fm_journal_close(journal, &err), 0, "%s", err.text);
    cr_assert_eq(ts_sweep_number(&sweep, "SELECT count(*) FROM sweep"), 0);
    snprintf(log, sizeof log, "%s/s.old-1.db-wal", sweep.folder);
    cr_assert(stat(log, &st) != 0 || st.st_size == 0);
    free(sweep.journal);
    snprintf(log, sizeof log, "%s/s.old-1.db", sweep.folder);
    sweep.journal = strdup(log);
    cr_assert_eq(ts_sweep_number(&sweep, "SELECT space_hash FROM sweep"), 4711);
    ts_sweep_fini(&sweep);
}

Test(journal, a_link_leads_to_the_same_lock)
{
    char folder[64], path[128], link[128];
    cr_assert(ts_temporary(folder, sizeof folder));
    ts_join(path, sizeof path, folder, "x.db");
    ts_join(link, sizeof link, folder, "link.db");
    struct fm_journal *journal = NULL;
    struct fm_error err = {0}, other;
    cr_assert_eq(fm_journal_open(&journal, path, false, NULL, &err), 0, "%s", err.text);
    cr_assert_eq(symlink("x.db", link), 0);
    cr_assert_eq(open_code(link, &other), FM_EBUSY, "%s", other.text);
    cr_assert_eq(fm_journal_close(journal, &err), 0, "%s", err.text);
    ts_remove_tree(folder);
}

Test(journal, the_end_of_an_old_attempt_leaves_the_checkpoint_of_the_new_one)
{
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, yaml);
    run_once(&sweep);
    struct fm_journal *journal = NULL;
    struct fm_error err = {0};
    cr_assert_eq(fm_journal_open(&journal, sweep.journal, false, NULL, &err), 0, "%s", err.text);
    struct fm_fence old = {.trial = 1, .attempt = 1}, now = old;
    struct fm_run_result result = {.status = FM_RUN_FAILED};
    cr_assert_eq(fm_journal_run_start(journal, 1, 0, 0, "scripted", 1, false, &now.attempt, &err), 0);
    cr_assert_eq(now.attempt, 2);
    cr_assert_eq(fm_journal_save(journal, &now, 0, "x", 1, &err), 0);
    cr_assert_eq(fm_journal_run_end(journal, &old, &result, 2, 1, 0, 0, &err), 0, "%s", err.text);
    struct fm_recorded recorded;
    cr_assert_eq(fm_journal_run(journal, 1, 0, 0, &recorded, &err), 0);
    cr_assert_eq(recorded.status, FM_RUN_RUNNING);
    cr_assert(recorded.has_checkpoint);
    cr_assert_eq(fm_journal_close(journal, &err), 0, "%s", err.text);
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

/* Somebody tidies up while a sweep runs: to go on writing into a file without a name would lose everything
 * and say that nothing is lost. */
Test(journal, one_that_was_moved_is_noticed_at_the_next_commit)
{
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, yaml);
    run_once(&sweep);
    struct fm_journal *journal = NULL;
    struct fm_error err = {0};
    struct fm_fence fence = {.trial = 1, .attempt = 1};
    struct fm_event event = {.kind = FM_EVENT_NAN, .text = "late"};
    cr_assert_eq(fm_journal_open(&journal, sweep.journal, false, NULL, &err), 0, "%s", err.text);
    cr_assert_eq(fm_journal_event(journal, &fence, &event, &err), 0, "%s", err.text);
    cr_assert_eq(fm_journal_commit(journal, true, &err), 0, "%s", err.text);
    char elsewhere[512];
    snprintf(elsewhere, sizeof elsewhere, "%s.elsewhere", sweep.journal);
    cr_assert_eq(rename(sweep.journal, elsewhere), 0);
    cr_assert_eq(fm_journal_event(journal, &fence, &event, &err), 0, "%s", err.text);
    cr_assert_eq(fm_journal_commit(journal, true, &err), FM_EIO);
    cr_assert(strstr(err.text, "moved"), "%s", err.text);
    fm_journal_close(journal, &err);
    ts_sweep_fini(&sweep);
}
