/* Whether what is on record and what was asked for belong together. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "sweep/journal_private.h"

static void describe(const json_t *value, char *buffer, size_t size)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) : NULL;
    fm_show(text ? text : "not given", text ? strlen(text) : 9, buffer, size);
    free(text);
}

/* The first place where two JSON values differ, as a dotted path and both values. */
static bool difference(const json_t *old, const json_t *now, struct fm_text *path, char *why, size_t size)
{
    if (old && now && json_equal(old, now)) return false;
    size_t keep = path->size;
    if (json_is_object(old) && json_is_object(now)) {
        const char *key;
        json_t *value;
        for (int side = 0; side < 2; side++) {
            json_object_foreach((json_t *)(side ? now : old), key, value)
            {
                fm_text_add(path, "%s%s", keep ? "." : "", key);
                if (difference(json_object_get(old, key), json_object_get(now, key), path, why, size))
                    return true;
                path->size = keep;
                if (path->data) path->data[keep] = '\0';
            }
        }
    } else if (json_is_array(old) && json_is_array(now) && json_array_size(old) == json_array_size(now)) {
        for (size_t i = 0; i < json_array_size(old); i++) {
            fm_text_add(path, "[%zu]", i);
            if (difference(json_array_get(old, i), json_array_get(now, i), path, why, size)) return true;
            path->size = keep;
            if (path->data) path->data[keep] = '\0';
        }
    }
    char before[80], after[80];
    describe(old, before, sizeof before);
    describe(now, after, sizeof after);
    snprintf(why, size, "%s was %s and is %s now", path->data ? path->data : "the file", before, after);
    return true;
}

static void explain(const char *old_text, const char *now_text, char *why, size_t size)
{
    json_t *old = json_loads(old_text, 0, NULL), *now = json_loads(now_text, 0, NULL);
    struct fm_text path = {0};
    if (!old || !now || !difference(old, now, &path, why, size))
        snprintf(why, size, "the sweep file changed");
    fm_text_fini(&path);
    json_decref(old);
    json_decref(now);
}

static int compare_file(struct fm_journal *journal, const struct fm_prepared *p, enum fm_journal_state *state,
                        uint64_t *data_hash, char *why, size_t size, struct fm_error *err)
{
    sqlite3_stmt *row = NULL;
    int rc = fm_sql_query(&journal->sql, &row, "SELECT fingerprint, fingerprint_text, data_hash FROM sweep",
                          err, "");
    if (rc) return rc;
    rc = fm_sql_step(&journal->sql, row, err);
    if (rc <= 0) return rc;
    *data_hash = (uint64_t)sqlite3_column_int64(row, 2);
    const char *text = (const char *)sqlite3_column_text(row, 1);
    *state = FM_JOURNAL_SAME;
    if ((uint64_t)sqlite3_column_int64(row, 0) != p->fingerprint) {
        *state = FM_JOURNAL_CHANGED;
        explain(text ? text : "", p->fingerprint_text, why, size);
    }
    sqlite3_reset(row);
    return 0;
}

int fm_journal_compare(struct fm_journal *journal, const struct fm_prepared *p, enum fm_journal_state *state,
                       char *why, size_t why_size, struct fm_error *err)
{
    *state = FM_JOURNAL_NEW;
    uint64_t data_hash = 0;
    int rc = compare_file(journal, p, state, &data_hash, why, why_size, err);
    if (rc || *state != FM_JOURNAL_SAME) return rc;
    int64_t longest = 0, examples = 0;
    rc = fm_sql_integer(&journal->sql, "SELECT length FROM view WHERE longest = 1", 0, &longest, err, "");
    if (!rc) rc = fm_sql_integer(&journal->sql, "SELECT examples FROM sweep", 0, &examples, err, "");
    if (!rc && p->longest_length && longest && longest != p->longest_length) {
        *state = FM_JOURNAL_CHANGED;
        snprintf(why, why_size,
                 "the longest window was %lld and is %lld now, which changes examples and folds",
                 (long long)longest, (long long)p->longest_length);
    } else if (!rc && p->has_data && data_hash != p->data_hash) {
        *state = FM_JOURNAL_CHANGED;
        snprintf(why, why_size,
                 "the data are not the same: their content changed since the journal was begun");
    } else if (!rc && p->has_data && examples != p->examples.count) {
        /* An example has a label for every length: a shorter window may lose some. */
        *state = FM_JOURNAL_CHANGED;
        snprintf(why, why_size,
                 "there were %lld examples and are %lld now, because the window lengths changed",
                 (long long)examples, (long long)p->examples.count);
    }
    return rc;
}

/* The stamps on record, under the paths that the files have now (a sweep may have moved with its data). */
static int recorded_stamps(struct fm_journal *journal, char **paths, int64_t npaths,
                           struct fm_file_stamp *stamps, int64_t *count, struct fm_error *err)
{
    sqlite3_stmt *row = NULL;
    int rc = fm_sql_query(&journal->sql, &row, "SELECT size, mtime_ns, inode, hash FROM file ORDER BY number",
                          err, "");
    *count = 0;
    while (!rc && (rc = fm_sql_step(&journal->sql, row, err)) > 0) {
        if (*count < npaths)
            stamps[*count] = (struct fm_file_stamp){.path = paths[*count],
                                                    .size = sqlite3_column_int64(row, 0),
                                                    .mtime_ns = sqlite3_column_int64(row, 1),
                                                    .inode = sqlite3_column_int64(row, 2),
                                                    .hash = (uint64_t)sqlite3_column_int64(row, 3)};
        ++*count;
        rc = 0;
    }
    return rc;
}

static int data_unchanged(struct fm_journal *journal, const struct fm_prepared *p, bool *unchanged,
                          struct fm_error *err)
{
    char **paths = NULL;
    int64_t npaths = 0;
    *unchanged = false;
    int rc = fm_prepare_paths(p, &paths, &npaths, err);
    struct fm_file_stamp *stamps = rc ? NULL : fm_calloc((size_t)npaths, sizeof *stamps);
    if (!rc && !stamps) rc = fm_fail_memory(err);
    int64_t recorded = 0;
    if (!rc) rc = recorded_stamps(journal, paths, npaths, stamps, &recorded, err);
    if (!rc && recorded == npaths) {
        rc = fm_stamps_unchanged(stamps, npaths, NULL, 0, err);
        *unchanged = rc == 1;
        if (rc > 0) rc = 0;
    }
    for (int64_t i = 0; i < npaths; i++) fm_free(paths[i]);
    fm_free(paths);
    fm_free(stamps);
    return rc;
}

/* What one device cannot compute another may: a sweep with such trials is planned anew at every call. */
static int refused_by_device(struct fm_journal *journal, int64_t *trials, struct fm_error *err)
{
    return fm_sql_integer(&journal->sql,
                          "SELECT count(*) FROM trial WHERE listed AND NOT valid AND reason_code = 'device'",
                          0, trials, err, "");
}

int fm_journal_finished(struct fm_journal *journal, const struct fm_prepared *p, bool *finished,
                        struct fm_error *err)
{
    int64_t refused = 0;
    *finished = false;
    sqlite3_stmt *row = NULL;
    int rc = fm_sql_query(&journal->sql, &row, "SELECT finished, space_hash FROM sweep", err, "");
    if (rc) return rc;
    rc = fm_sql_step(&journal->sql, row, err);
    if (rc <= 0) return rc;
    bool same = sqlite3_column_int(row, 0) && (uint64_t)sqlite3_column_int64(row, 1) == p->space_hash;
    sqlite3_reset(row);
    if (!same) return 0;
    rc = refused_by_device(journal, &refused, err);
    if (rc || refused) return rc;
    return data_unchanged(journal, p, finished, err);
}

int fm_journal_mark(struct fm_journal *journal, bool finished, uint64_t space_hash, struct fm_error *err)
{
    int rc = fm_journal_group(journal, err);
    if (rc) return rc;
    return fm_sql_run(&journal->sql, "UPDATE sweep SET finished = ?, space_hash = ?, updated = ?", err, "iid",
                      (int64_t)finished, (int64_t)space_hash, fm_wall_clock());
}
