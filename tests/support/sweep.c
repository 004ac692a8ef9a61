#include "support/sweep.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "support/support.h"

/* Nothing here uses Criterion, so that plain programs can link it: what cannot go wrong in a sound
 * environment ends the test. */
#define MUST(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

static char *path_in(const char *folder, const char *name)
{
    char *path = malloc(strlen(folder) + strlen(name) + 2);
    sprintf(path, "%s/%s", folder, name);
    return path;
}

void ts_sweep_write(struct ts_sweep *sweep, const char *yaml)
{
    FILE *file = fopen(sweep->file, "w");
    MUST(file);
    fprintf(file,
            "data: {source: csv, path: data.csv, record: rec, features: [x, z], target: y, window: {length: "
            "4, label: "
            "last}}\n%s",
            yaml);
    MUST(fclose(file) == 0);
}

void ts_sweep_init(struct ts_sweep *sweep, const char *yaml)
{
    char folder[64];
    MUST(ts_temporary(folder, sizeof folder));
    sweep->folder = strdup(folder);
    sweep->file = path_in(sweep->folder, "s.yaml");
    sweep->journal = path_in(sweep->folder, "s.db");
    char *data = path_in(sweep->folder, "data.csv");
    FILE *file = fopen(data, "w");
    MUST(file);
    fprintf(file, "rec,x,z,y\n");
    for (int i = 0; i < 60; i++)
        fprintf(file, "r%d,%d.%d,%d,%c\n", i / 20, i * 7 % 13, i % 10, i * i % 11,
                (i * 7 % 13 + i * i % 11) % 3 ? 'b' : 'a');
    MUST(fclose(file) == 0);
    free(data);
    ts_sweep_write(sweep, yaml);
}

void ts_sweep_fini(struct ts_sweep *sweep)
{
    ts_remove_tree(sweep->folder);
    free(sweep->folder);
    free(sweep->file);
    free(sweep->journal);
}

static int schedule(struct fm_prepared *p, struct fm_journal *journal, const struct ts_sweep_options *options,
                    struct fm_device *device, struct fm_error *err)
{
    const struct fm_backend *backend = options->backend;
    enum fm_journal_state state;
    char why[512] = "";
    int rc = fm_journal_compare(journal, p, &state, why, sizeof why, err);
    if (!rc && state == FM_JOURNAL_CHANGED) rc = fm_fail(err, FM_EFILE, "changed: %s", why);
    if (!rc && state == FM_JOURNAL_SAME)
        rc = fm_journal_device(journal, p, backend->numbers(device), options->accept_other, err);
    if (!rc) rc = fm_journal_begin(journal, p, backend->describe(device), backend->numbers(device), err);
    struct fm_schedule_options schedule = {.backend = backend,
                                           .device = device,
                                           .journal = journal,
                                           .watcher = options->watcher,
                                           .stop = options->stop,
                                           .checkpoint_seconds = options->checkpoint_seconds};
    if (!rc) rc = fm_schedule(p, &schedule, err);
    if (!rc) rc = fm_journal_mark(journal, true, p->space_hash, err);
    return rc;
}

int ts_sweep_run(struct ts_sweep *ts, const struct ts_sweep_options *options, struct fm_error *err)
{
    struct fm_sweep sweep;
    struct fm_prepared prepared;
    struct fm_journal *journal = NULL;
    struct fm_device *device = NULL;
    struct fm_device_options device_options = {.lanes = options->lanes};
    int rc = fm_sweep_read(&sweep, ts->file, NULL, 0, NULL, err);
    if (rc) return rc;
    rc = fm_prepare_file(&prepared, &sweep, err);
    if (!rc) {
        rc = fm_journal_open(&journal, ts->journal, options->fresh, NULL, err);
        if (!rc) rc = options->backend->open(&device, &device_options, err);
        if (!rc) rc = fm_journal_lost_plans(journal, options->backend->numbers(device), &prepared, err);
        if (!rc) rc = fm_prepare(&prepared, &sweep, options->backend, device, err);
        if (!rc) rc = schedule(&prepared, journal, options, device, err);
        if (rc == FM_EDEVICE && prepared.lost_by.batch)
            MUST(fm_journal_lost_plan(journal, options->backend->numbers(device), &prepared.lost_by, NULL) ==
                 0);
        if (device) options->backend->close(device);
        int closed = fm_journal_close(journal, err);
        if (!rc) rc = closed;
        fm_prepared_fini(&prepared);
    }
    fm_sweep_fini(&sweep);
    return rc;
}

static void dump_rows(sqlite3 *db, const char *query, char **text, size_t *size)
{
    sqlite3_stmt *row;
    MUST(sqlite3_prepare_v2(db, query, -1, &row, NULL) == SQLITE_OK);
    FILE *out = open_memstream(text, size);
    fprintf(out, "-- %s\n", query);
    while (sqlite3_step(row) == SQLITE_ROW) {
        for (int c = 0; c < sqlite3_column_count(row); c++) {
            if (sqlite3_column_type(row, c) == SQLITE_BLOB) {
                struct fm_hash hash = {0};
                fm_hash_add(&hash, sqlite3_column_blob(row, c), (size_t)sqlite3_column_bytes(row, c));
                fprintf(out, "%s#%016llx", c ? "|" : "", (unsigned long long)fm_hash_value(&hash));
            } else if (sqlite3_column_type(row, c) == SQLITE_FLOAT) {
                fprintf(out, "%s%a", c ? "|" : "", sqlite3_column_double(row, c));
            } else {
                const char *value = (const char *)sqlite3_column_text(row, c);
                fprintf(out, "%s%s", c ? "|" : "", value ? value : "-");
            }
        }
        fputc('\n', out);
    }
    sqlite3_finalize(row);
    fclose(out);
}

#define MEASURES                                                                                             \
    "inner_loss, inner_accuracy, inner_auc, val_loss, val_accuracy, val_balanced_accuracy, val_auc, "        \
    "val_pr_auc, "                                                                                           \
    "val_precision, val_recall, val_f1, val_macro_f1, val_mcc"

char *ts_sweep_dump(const struct ts_sweep *ts)
{
    static const char *const queries[] = {
        "SELECT trial, key, params, origin, listed, valid, reason, kept, pooled_n, confusion, " MEASURES
        " FROM trial ORDER BY trial",
        "SELECT trial, repeat, fold, status, reason_code, epochs, scored_epoch, best_epoch, stopped, "
        "bad_steps, loss, "
        "confusion, " MEASURES " FROM run ORDER BY trial, repeat, fold",
        "SELECT trial, repeat, fold, epoch, loss, learning_rate, best, " MEASURES
        " FROM epoch ORDER BY trial, repeat, fold, epoch",
        "SELECT trial, repeat, fold, number, kind, epoch, step, count, last_loss, last_norm, text FROM event "
        "ORDER BY 1, 2, "
        "3, 4",
        "SELECT trial, repeat, fold, chunk, first, n, width, blob FROM score ORDER BY 1, 2, 3, 4",
        "SELECT trial, repeat, fold, kind, blob FROM artifact ORDER BY 1, 2, 3, 4",
        "SELECT count(*) FROM checkpoint",
    };
    sqlite3 *db;
    MUST(sqlite3_open_v2(ts->journal, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
    char *all = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&all, &size);
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        char *part = NULL;
        size_t part_size = 0;
        dump_rows(db, queries[i], &part, &part_size);
        fwrite(part, 1, part_size, out);
        free(part);
    }
    fclose(out);
    sqlite3_close(db);
    return all;
}

long ts_sweep_number(const struct ts_sweep *ts, const char *query)
{
    sqlite3 *db;
    sqlite3_stmt *row;
    MUST(sqlite3_open_v2(ts->journal, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK);
    MUST(sqlite3_prepare_v2(db, query, -1, &row, NULL) == SQLITE_OK);
    MUST(sqlite3_step(row) == SQLITE_ROW);
    long value = (long)sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    sqlite3_close(db);
    return value;
}
