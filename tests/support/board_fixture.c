#include "support/board_fixture.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>

#include "sweep/schema.sql.h"

bool ts_sql(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    char *message = NULL;
    int rc = sqlite3_open(path, &db);
    if (rc == SQLITE_OK) rc = sqlite3_exec(db, sql, NULL, NULL, &message);
    if (rc != SQLITE_OK) fprintf(stderr, "fixture: %s\n", message ? message : sqlite3_errmsg(db));
    sqlite3_free(message);
    sqlite3_close(db);
    return rc == SQLITE_OK;
}

static bool add_trial(sqlite3 *db, int trial, const char *params, const char *reason, int listed)
{
    char sql[1024];
    snprintf(sql, sizeof sql,
             "INSERT INTO trial(trial, key, params, origin, listed, place, valid, reason_code, reason, seed, "
             "length, "
             "network, param_count, kept, pooled_n, val_auc, confusion) VALUES(%d, 'k%d', '%s', 'grid', %d, "
             "%d, %d, %s, "
             "%s, 0, 104, 'n1', 19, %d, %s, %s, %s)",
             trial, trial, params, listed, trial, !*reason, *reason ? "'shape'" : "NULL",
             *reason ? reason : "NULL", trial == 9, *reason ? "NULL" : "6", trial == 1 ? "0.77" : "NULL",
             trial == 1 ? "'[[2,1],[0,3]]'" : "NULL");
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* NaN stands for a metric that the fold does not define. */
static bool add_run(sqlite3 *db, int trial, int fold, const char *status, double auc)
{
    char sql[1024], value[32];
    bool done = status[0] == 'c';
    snprintf(value, sizeof value, "%.17g", auc);
    snprintf(sql, sizeof sql,
             "INSERT INTO run(trial, repeat, fold, status, attempt, numbers, reason_code, reason, epochs, "
             "scored_epoch, "
             "best_epoch, stopped, bad_steps, loss, confusion, seconds, val_loss, val_accuracy, val_auc) "
             "VALUES(%d, 0, "
             "%d, '%s', 1, %s, %s, %s, %s, %s, %s, %s, 0, %s, %s, 1.5, %s, %s, %s)",
             trial, fold, status, done ? "'cpu-reference'" : "NULL", status[0] == 'f' ? "'nan'" : "NULL",
             status[0] == 'f' ? "'the loss was not finite at step 7 of epoch 2'" : "NULL",
             done ? "2" : "NULL", done ? "1" : "NULL", done ? "1" : "NULL",
             done ? "'early_stopping'" : "NULL", done ? "0.25" : "NULL", done ? "'[[1,1],[0,1]]'" : "NULL",
             done ? "0.5" : "NULL", done ? "0.75" : "NULL", isnan(auc) ? "NULL" : value);
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static bool add_trials(sqlite3 *db)
{
    static const struct {
        int trial;
        const char *params, *reason;
        const char *status[3];
        double auc[3];
    } rows[] = {
        {1,
         "{\"lr\":0.001,\"f\":8,\"opt\":null}",
         "",
         {"completed", "completed", "completed"},
         {0.9, 0.8, 0.7}},
        {2,
         "{\"lr\":0.003,\"f\":8,\"opt\":null}",
         "",
         {"completed", "completed", "completed"},
         {0.9, 0.8, 0.7}},
        {3,
         "{\"lr\":0.01,\"f\":8,\"opt\":null}",
         "",
         {"completed", "completed", "completed"},
         {0.95, NAN, 0.75}},
        {4, "{\"lr\":0.1,\"f\":8,\"opt\":null}", "", {"completed", "failed", "pending"}, {0.6, NAN, NAN}},
        {5,
         "{\"lr\":0.1,\"f\":99,\"opt\":null}",
         "'model[0]: kernel 25 is longer than its input of 24'",
         {0},
         {0}},
        {6, "{\"lr\":0.2,\"f\":8,\"opt\":null}", "", {"completed", "running", "pending"}, {0.5, NAN, NAN}},
        {7, "{\"lr\":0.3,\"f\":8,\"opt\":null}", "", {"completed", "completed", "completed"}, {1, 1, 1}},
        {8,
         "{\"lr\":0.4,\"f\":8,\"opt\":null}",
         "",
         {"completed", "completed", "completed"},
         {NAN, NAN, NAN}},
        {9,
         "{\"lr\":0.5,\"f\":8,\"opt\":{\"adam\":{\"beta_1\":0.1}}}",
         "",
         {"completed", "completed", "completed"},
         {0.9, 0.9, 0.9}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!add_trial(db, rows[i].trial, rows[i].params, rows[i].reason, rows[i].trial != 7)) return false;
        for (int f = 0; f < 3 && rows[i].status[f]; f++)
            if (!add_run(db, rows[i].trial, f, rows[i].status[f], rows[i].auc[f])) return false;
    }
    return true;
}

bool ts_board_fixture(const char *path)
{
    static const char rest[] =
        "INSERT INTO sweep VALUES(1, 'storms', NULL, NULL, 'storms.yaml', 11, "
        "'{\"train\":{\"early_stopping\":{\"patience\":3}}}', 22, 33, 1, 'val_auc', 1, 'classes', "
        "'[\"calm\",\"storm, late\"]', 18, 2, 'cpu: by hand', 'cpu-reference', 'val', 1, 1, 1, 0, 0, 1);"
        "INSERT INTO view VALUES(104, 1, '[9,9]');"
        "INSERT INTO fold VALUES(0,0,0,NULL,12,0,6,3,1,0,0,'[6,6]','[3,3]',NULL),"
        "(0,0,1,NULL,12,0,6,3,0,2,1,'[6,6]','[3,3]',NULL),(0,0,2,NULL,12,0,6,3,0,0,0,'[6,6]','[3,3]',NULL);"
        "INSERT INTO epoch(trial, repeat, fold, epoch, attempt, loss, learning_rate, best, val_loss, "
        "val_auc) VALUES"
        "(1,0,0,1,1,0.5,0.001,1,0.5,0.9),(1,0,0,2,1,0.25,0.001,0,0.75,0.625),(1,0,1,1,1,0.5,0.001,1,0.5,NULL)"
        ","
        "(6,0,1,1,1,0.5,0.2,1,0.5,0.5),(7,0,0,1,1,0.5,0.3,1,0.5,0.5);"
        "INSERT INTO event VALUES(4,0,1,0,1,'nan',2,7,1,0.5,3.5,'the loss was not finite');"
        "INSERT INTO transfers VALUES('cpu: by hand', 100, 20);"
        "INSERT INTO note(level, text) VALUES('warning', 'one gap of \"5\" seconds');"
        "INSERT INTO network VALUES('n1', "
        "'[{\"name\":\"conv1d/kernel\",\"shape\":[2,1,3]},{\"name\":\"conv1d/bias\","
        "\"shape\":[3]},{\"name\":\"dense/kernel\",\"shape\":[3,2]},{\"name\":\"dense_1/"
        "kernel\",\"shape\":[2,2]}]', 1, 2, "
        "'categorical_crossentropy', '[{\"type\":\"conv1d\"},{\"type\":\"flatten\"},{\"type\":\"dense\"},"
        "{\"type\":\"dense\"}]');";
    sqlite3 *db = NULL;
    char pragmas[128];
    snprintf(pragmas, sizeof pragmas,
             "PRAGMA user_version=%d; PRAGMA application_id=%d; PRAGMA journal_mode=WAL", FM_SCHEMA_VERSION,
             FM_APPLICATION_ID);
    bool good = sqlite3_open(path, &db) == SQLITE_OK &&
                sqlite3_exec(db, FM_SCHEMA FM_SCHEMA_2 FM_SCHEMA_3, NULL, NULL, NULL) == SQLITE_OK &&
                sqlite3_exec(db, pragmas, NULL, NULL, NULL) == SQLITE_OK &&
                sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK && add_trials(db) &&
                sqlite3_exec(db, rest, NULL, NULL, NULL) == SQLITE_OK;
    float weights[19];
    for (int i = 0; i < 19; i++) weights[i] = (float)i + 0.5f;
    for (int fold = 0; good && fold < 3; fold++) {
        sqlite3_stmt *insert = NULL;
        good = sqlite3_prepare_v2(db, "INSERT INTO artifact VALUES(9, 0, ?, 'weights', ?)", -1, &insert,
                                  NULL) == SQLITE_OK &&
               sqlite3_bind_int(insert, 1, fold) == SQLITE_OK &&
               sqlite3_bind_blob(insert, 2, weights, sizeof weights, SQLITE_STATIC) == SQLITE_OK &&
               sqlite3_step(insert) == SQLITE_DONE;
        sqlite3_finalize(insert);
    }
    if (good) good = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
    if (!good) fprintf(stderr, "fixture: %s\n", sqlite3_errmsg(db));
    sqlite3_close(db);
    return good;
}
