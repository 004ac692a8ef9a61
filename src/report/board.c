#include "report/board.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

void fm_board_columns(struct fm_text *sql, const char *table, bool with_loss)
{
    for (int m = with_loss ? 0 : 1; m < FM_MEASURES; m++)
        fm_text_add(sql, "%s%s.%s", m > (with_loss ? 0 : 1) ? ", " : "", table, fm_measure_name(m));
}

static void read_measures(struct fm_reader *reader, int first, bool with_loss, double out[FM_MEASURES])
{
    out[0] = NAN;
    for (int m = with_loss ? 0 : 1; m < FM_MEASURES; m++) out[m] = fm_reader_number(reader, first++);
}

/* Walks nested lists of whole numbers; the count that was written, or -1. */
static int64_t flatten(const json_t *json, int64_t *out, int64_t at, int64_t room)
{
    if (json_is_integer(json)) {
        if (at >= room) return -1;
        out[at] = json_integer_value(json);
        return at + 1;
    }
    if (!json_is_array(json)) return -1;
    for (size_t i = 0; at >= 0 && i < json_array_size(json); i++)
        at = flatten(json_array_get(json, i), out, at, room);
    return at;
}

int64_t *fm_board_matrix(struct fm_pool *pool, const char *text, int64_t n)
{
    /* Each count takes a digit and what parts it from the next: what is shorter cannot be one, whatever n
     * says. */
    if (n < 1 || n > 65536 || (int64_t)(strlen(text) / 2) < n * n) return NULL;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    int64_t *matrix = json_is_array(json) ? fm_pool_alloc(pool, (size_t)(n * n), sizeof *matrix) : NULL;
    if (matrix && flatten(json, matrix, 0, n * n) != n * n) matrix = NULL;
    json_decref(json);
    return matrix;
}

static void read_classes(struct fm_board_store *store, const char *text)
{
    struct fm_board *board = &store->board;
    json_t *json = *text ? json_loads(text, 0, NULL) : NULL;
    size_t n = json_array_size(json);
    const char **names = n ? fm_pool_alloc(&store->pool, n, sizeof *names) : NULL;
    for (size_t i = 0; names && i < n; i++) {
        const char *name = json_string_value(json_array_get(json, i));
        names[i] = fm_pool_text(&store->pool, name ? name : "?");
    }
    if (names) {
        board->classes = names;
        board->nclasses = (int64_t)n;
    }
    json_decref(json);
}

/* A target that is a distribution over K classes has no names for them. */
static void number_classes(struct fm_board_store *store, struct fm_reader *reader)
{
    int64_t n = fm_reader_count(reader, "SELECT coalesce(max(outputs), 0) FROM network, sweep WHERE target = "
                                        "'distribution'");
    const char **names = n > 0 ? fm_pool_alloc(&store->pool, (size_t)n, sizeof *names) : NULL;
    if (!names) return;
    for (int64_t i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        names[i] = fm_pool_text(&store->pool, name);
    }
    store->board.classes = names;
    store->board.nclasses = n;
}

static bool has_early_stopping(const char *file_text)
{
    json_t *file = json_loads(file_text, 0, NULL);
    const json_t *rule = json_object_get(json_object_get(file, "train"), "early_stopping");
    bool has = rule && !json_is_null(rule);
    json_decref(file);
    return has;
}

static void read_sweep(struct fm_board_store *store, struct fm_reader *reader)
{
    struct fm_board *board = &store->board;
    fm_reader_query(reader,
                    "SELECT name, device, finished, examples, records, metric, maximize, watched, classes, "
                    "fingerprint_text, keep_predictions, keep_weights FROM sweep");
    if (fm_reader_row(reader)) {
        board->name = fm_pool_text(&store->pool, fm_reader_text(reader, 0));
        board->device = fm_pool_text(&store->pool, fm_reader_text(reader, 1));
        board->finished = fm_reader_integer(reader, 2) != 0;
        board->examples = fm_reader_integer(reader, 3);
        board->records = fm_reader_integer(reader, 4);
        board->metric = fm_pool_text(&store->pool, fm_reader_text(reader, 5));
        board->maximize = fm_reader_integer(reader, 6) != 0;
        board->watched = fm_pool_text(&store->pool, fm_reader_text(reader, 7));
        read_classes(store, fm_reader_text(reader, 8));
        board->stops_early = has_early_stopping(fm_reader_text(reader, 9));
        board->keeps_predictions = fm_reader_integer(reader, 10) != 0;
        board->keeps_weights = fm_reader_integer(reader, 11) != 0;
        board->measure = fm_measure_find(board->metric);
        if (board->measure < 0 && !store->pool.failed)
            fm_fail(&reader->error, FM_EFILE,
                    "%s ranks by '%s', which this Foldmill does not know: update Foldmill", reader->path,
                    board->metric);
    }
    number_classes(store, reader);
    fm_reader_query(reader, "SELECT coalesce(sum(to_device), 0), coalesce(sum(to_host), 0) FROM transfers");
    if (fm_reader_row(reader)) {
        board->to_device = fm_reader_integer(reader, 0);
        board->to_host = fm_reader_integer(reader, 1);
    }
}

static void read_folds(struct fm_board_store *store, struct fm_reader *reader)
{
    int64_t n = fm_reader_count(reader, "SELECT count(*) FROM fold"), i = 0;
    struct fm_board_fold *folds = fm_pool_alloc(&store->pool, (size_t)n, sizeof *folds);
    if (!folds) return;
    fm_reader_query(reader,
                    "SELECT seed, repeat, fold, name, train, inner_count, val, purged, embargoed, shared, "
                    "identical FROM fold ORDER BY seed, repeat, fold");
    for (; fm_reader_row(reader) && i < n; i++) {
        struct fm_board_fold *f = &folds[i];
        f->seed = fm_reader_integer(reader, 0);
        f->repeat = fm_reader_integer(reader, 1);
        f->fold = fm_reader_integer(reader, 2);
        f->name = fm_reader_null(reader, 3) ? NULL : fm_pool_text(&store->pool, fm_reader_text(reader, 3));
        int64_t *counts[] = {&f->train,     &f->inner,  &f->val,      &f->purged,
                             &f->embargoed, &f->shared, &f->identical};
        for (int k = 0; k < 7; k++) *counts[k] = fm_reader_integer(reader, 4 + k);
    }
    store->board.folds = folds;
    store->board.nfolds = i;
}

static void read_trial(struct fm_board_store *store, struct fm_reader *reader, struct fm_board_trial *t)
{
    struct fm_pool *pool = &store->pool;
    t->trial = fm_reader_integer(reader, 0);
    t->params = fm_pool_text(pool, fm_reader_text(reader, 1));
    t->origin = fm_pool_text(pool, fm_reader_text(reader, 2));
    bool valid = fm_reader_integer(reader, 3) != 0;
    t->reason_code = fm_pool_text(pool, fm_reader_text(reader, 4));
    t->reason = fm_pool_text(pool, fm_reader_text(reader, 5));
    t->seed = fm_reader_integer(reader, 6);
    t->length = fm_reader_integer(reader, 7);
    t->param_count = fm_reader_integer(reader, 8);
    t->kept = fm_reader_integer(reader, 9) != 0;
    t->pooled_count = fm_reader_integer(reader, 10);
    t->confusion = fm_board_matrix(pool, fm_reader_text(reader, 11), store->board.nclasses);
    bool pruned = !fm_reader_null(reader, 12);
    if (pruned) {
        t->reason_code = "pruned";
        t->reason = fm_pool_text(pool, fm_reader_text(reader, 12));
    }
    read_measures(reader, 13, false, t->pooled);
    t->state = !valid ? FM_STATE_INVALID : pruned ? FM_STATE_PRUNED : FM_STATE_PENDING;
}

static void read_trials(struct fm_board_store *store, struct fm_reader *reader)
{
    int64_t n = fm_reader_count(reader, "SELECT count(*) FROM trial WHERE listed"), i = 0;
    struct fm_text columns = {0};
    fm_board_columns(&columns, "t", false);
    store->trials = fm_pool_alloc(&store->pool, (size_t)n, sizeof *store->trials);
    if (store->trials && !columns.failed) {
        fm_reader_query(
            reader,
            "SELECT trial, params, origin, valid, reason_code, reason, seed, length, param_count, kept, "
            "pooled_n, confusion, (SELECT max(d.text) FROM decision d WHERE d.trial = t.trial AND "
            "d.kind = 'prune'), %s FROM trial t WHERE listed ORDER BY trial",
            columns.data);
        for (; fm_reader_row(reader) && i < n; i++) read_trial(store, reader, &store->trials[i]);
    }
    if (columns.failed) store->pool.failed = true;
    fm_text_fini(&columns);
    store->board.trials = store->trials;
    store->board.ntrials = i;
}

static enum fm_state run_state(const char *status)
{
    static const enum fm_state states[] = {FM_STATE_COMPLETED, FM_STATE_FAILED, FM_STATE_RUNNING};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (!strcmp(status, fm_state_name(states[i]))) return states[i];
    return FM_STATE_PENDING;
}

static void read_run(struct fm_board_store *store, struct fm_reader *reader, struct fm_board_run *r)
{
    struct fm_pool *pool = &store->pool;
    r->repeat = fm_reader_integer(reader, 1);
    r->fold = fm_reader_integer(reader, 2);
    r->state = run_state(fm_reader_text(reader, 3));
    r->numbers = fm_pool_text(pool, fm_reader_text(reader, 4));
    r->reason_code = fm_pool_text(pool, fm_reader_text(reader, 5));
    r->reason = fm_pool_text(pool, fm_reader_text(reader, 6));
    r->stopped = fm_pool_text(pool, fm_reader_text(reader, 7));
    r->epochs = fm_reader_integer(reader, 8);
    r->scored_epoch = fm_reader_integer(reader, 9);
    r->best_epoch = fm_reader_integer(reader, 10);
    r->attempt = fm_reader_integer(reader, 11);
    r->bad_steps = fm_reader_integer(reader, 12);
    r->seconds = fm_reader_number(reader, 13);
    r->confusion = fm_board_matrix(pool, fm_reader_text(reader, 14), store->board.nclasses);
    r->began_on = fm_pool_text(pool, fm_reader_text(reader, 15));
    r->suspect = fm_reader_integer(reader, 16) != 0;
    r->accepted = fm_reader_integer(reader, 17) != 0;
    read_measures(reader, 18, true, r->measures);
    if (r->state == FM_STATE_PENDING) {
        r->reason_code = "pending";
        r->reason = "not run yet";
    } else if (r->state == FM_STATE_RUNNING) {
        r->reason_code = "running";
        r->reason = r->suspect
                        ? "the device was lost while it was computed: the same command tries it again, alone"
                        : "started and not over: it runs, or the same command goes on with it";
    }
}

/* Trials and runs both come in the order of their numbers, so one walk shares the runs out. */
static void read_runs(struct fm_board_store *store, struct fm_reader *reader)
{
    int64_t n = fm_reader_count(reader, "SELECT count(*) FROM run JOIN trial USING(trial) WHERE listed"),
            i = 0, t = 0;
    struct fm_text columns = {0};
    fm_board_columns(&columns, "r", true);
    store->runs = fm_pool_alloc(&store->pool, (size_t)n, sizeof *store->runs);
    if (store->runs && !columns.failed) {
        fm_reader_query(
            reader,
            "SELECT r.trial, r.repeat, r.fold, r.status, r.numbers, r.reason_code, r.reason, r.stopped, "
            "r.epochs, r.scored_epoch, r.best_epoch, r.attempt, r.bad_steps, r.seconds, r.confusion, %s, "
            "%s FROM run r JOIN trial t USING(trial) WHERE t.listed ORDER BY r.trial, r.repeat, r.fold",
            reader->version < 2   ? "NULL, 0, 0"
            : reader->version < 3 ? "r.began_on, r.suspect, 0"
                                  : "r.began_on, r.suspect, r.accepted",
            columns.data);
        for (; fm_reader_row(reader) && i < n; i++) {
            int64_t number = fm_reader_integer(reader, 0);
            while (t < store->board.ntrials && store->trials[t].trial != number) t++;
            if (t == store->board.ntrials) break;
            read_run(store, reader, &store->runs[i]);
            if (!store->trials[t].runs) store->trials[t].runs = &store->runs[i];
            store->trials[t].nruns++;
        }
    }
    if (columns.failed) store->pool.failed = true;
    fm_text_fini(&columns);
}

/* The run after (t, r) in the order of trial, repeat and fold; false at the end. */
static bool next_run(const struct fm_board_store *store, int64_t *t, int64_t *r)
{
    (*r)++;
    while (*t < store->board.ntrials && *r >= store->trials[*t].nruns) {
        (*t)++;
        *r = 0;
    }
    return *t < store->board.ntrials;
}

static void read_epoch(struct fm_reader *reader, struct fm_board_epoch *e)
{
    e->epoch = fm_reader_integer(reader, 3);
    e->best = fm_reader_integer(reader, 4) != 0;
    e->learning_rate = fm_reader_number(reader, 5);
    read_measures(reader, 6, true, e->measures);
}

static void read_epochs(struct fm_board_store *store, struct fm_reader *reader)
{
    int64_t n = fm_reader_count(reader, "SELECT count(*) FROM epoch JOIN trial USING(trial) WHERE listed");
    int64_t i = 0, t = 0, r = -1;
    struct fm_text columns = {0};
    fm_board_columns(&columns, "e", true);
    store->epochs = fm_pool_alloc(&store->pool, (size_t)n, sizeof *store->epochs);
    bool more = next_run(store, &t, &r);
    if (store->epochs && !columns.failed) {
        fm_reader_query(
            reader,
            "SELECT e.trial, e.repeat, e.fold, e.epoch, e.best, e.learning_rate, %s FROM epoch e "
            "JOIN trial t USING(trial) WHERE t.listed ORDER BY e.trial, e.repeat, e.fold, e.epoch",
            columns.data);
        for (; fm_reader_row(reader) && i < n; i++) {
            int64_t trial = fm_reader_integer(reader, 0), repeat = fm_reader_integer(reader, 1);
            int64_t fold = fm_reader_integer(reader, 2);
            while (more && (store->trials[t].trial != trial || store->trials[t].runs[r].repeat != repeat ||
                            store->trials[t].runs[r].fold != fold))
                more = next_run(store, &t, &r);
            if (!more) break;
            read_epoch(reader, &store->epochs[i]);
            struct fm_board_run *run = &store->runs[store->trials[t].runs - store->runs + r];
            if (!run->history) run->history = &store->epochs[i];
            run->nhistory++;
        }
    }
    if (columns.failed) store->pool.failed = true;
    fm_text_fini(&columns);
}

static void read_events(struct fm_board_store *store, struct fm_reader *reader)
{
    int64_t n = fm_reader_count(reader, "SELECT count(*) FROM event JOIN trial USING(trial) WHERE listed"),
            i = 0;
    struct fm_board_event *events = fm_pool_alloc(&store->pool, (size_t)n, sizeof *events);
    if (!events) return;
    fm_reader_query(reader,
                    "SELECT e.trial, e.repeat, e.fold, e.kind, e.epoch, e.step, e.count, e.last_loss, "
                    "e.last_norm, e.text FROM event e JOIN trial t USING(trial) WHERE t.listed "
                    "ORDER BY e.trial, e.repeat, e.fold, e.number");
    for (; fm_reader_row(reader) && i < n; i++) {
        events[i] = (struct fm_board_event){.trial = fm_reader_integer(reader, 0),
                                            .repeat = fm_reader_integer(reader, 1),
                                            .fold = fm_reader_integer(reader, 2),
                                            .kind = fm_pool_text(&store->pool, fm_reader_text(reader, 3)),
                                            .epoch = fm_reader_integer(reader, 4),
                                            .step = fm_reader_integer(reader, 5),
                                            .count = fm_reader_integer(reader, 6),
                                            .last_loss = fm_reader_number(reader, 7),
                                            .last_norm = fm_reader_number(reader, 8),
                                            .text = fm_pool_text(&store->pool, fm_reader_text(reader, 9))};
    }
    store->board.events = events;
    store->board.nevents = i;
}

static const char *const *read_list(struct fm_board_store *store, struct fm_reader *reader, const char *count,
                                    const char *query, int64_t *number)
{
    int64_t n = fm_reader_count(reader, "%s", count), i = 0;
    const char **list = fm_pool_alloc(&store->pool, (size_t)n, sizeof *list);
    fm_reader_query(reader, "%s", query);
    for (; list && fm_reader_row(reader) && i < n; i++)
        list[i] = fm_pool_text(&store->pool, fm_reader_text(reader, 0));
    *number = i;
    return list;
}

static void read_rest(struct fm_board_store *store, struct fm_reader *reader)
{
    struct fm_board *board = &store->board;
    read_events(store, reader);
    board->notes = read_list(store, reader, "SELECT count(*) FROM note",
                             "SELECT text FROM note ORDER BY number", &board->nnotes);
    board->numbers =
        read_list(store, reader, "SELECT count(*) FROM run",
                  "SELECT DISTINCT r.numbers FROM run r JOIN trial t USING(trial) WHERE t.listed AND "
                  "r.status = 'completed' AND r.numbers IS NOT NULL ORDER BY 1",
                  &board->nnumbers);
}

int fm_board_collect(struct fm_board **out, const char *path, struct fm_error *err)
{
    *out = NULL;
    struct fm_reader reader;
    int rc = fm_reader_open(&reader, path, err);
    if (rc) return rc;
    struct fm_board_store *store = fm_calloc(1, sizeof *store);
    if (store) {
        store->board.owner = store;
        store->board.journal = fm_pool_text(&store->pool, path);
        store->board.name = store->board.device = store->board.metric = store->board.watched = "";
        read_sweep(store, &reader);
        read_folds(store, &reader);
        read_trials(store, &reader);
        read_runs(store, &reader);
        read_epochs(store, &reader);
        read_rest(store, &reader);
    }
    rc = fm_reader_status(&reader, err);
    fm_reader_close(&reader);
    if (!rc && (!store || store->pool.failed)) rc = fm_fail_memory(err);
    if (!rc) fm_board_rank(store);
    if (!rc && store->pool.failed) rc = fm_fail_memory(err);
    if (rc) {
        if (store) fm_board_free(&store->board);
        return rc;
    }
    *out = &store->board;
    return 0;
}

void fm_board_free(struct fm_board *board)
{
    if (!board) return;
    struct fm_board_store *store = board->owner;
    fm_pool_fini(&store->pool);
    fm_free(store);
}

const struct fm_board_trial *fm_board_find(const struct fm_board *board, int64_t trial)
{
    for (int64_t i = 0; i < board->ntrials; i++)
        if (board->trials[i].trial == trial) return &board->trials[i];
    return NULL;
}
