/* --trials, --runs, --history. */
#include "report/export.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "config/node.h"

static void add_param(struct fm_rows *csv, const json_t *value)
{
    if (!value || json_is_null(value)) {
        fm_rows_text(csv, "");
    } else if (json_is_string(value)) {
        fm_rows_text(csv, json_string_value(value));
    } else if (json_is_integer(value)) {
        fm_rows_integer(csv, json_integer_value(value));
    } else if (json_is_real(value)) {
        fm_rows_number(csv, json_real_value(value));
    } else {
        struct fm_text text = {0};
        if (fm_json_text(value, &text, NULL)) csv->line.failed = true;
        fm_rows_text(csv, text.data);
        fm_text_fini(&text);
    }
}

static void add_names(struct fm_rows *csv, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) fm_rows_text(csv, names[i]);
}

/* Measures that have a column: those that fit the target. */
static bool has_column(const struct fm_board *board, int measure, bool pooled)
{
    bool inner = measure > 0 && measure <= (FM_MEASURES - 1) / 2;
    return fm_board_fits(board, measure) && !(pooled && (inner || measure == 0));
}

static void add_measures(struct fm_rows *csv, const struct fm_board *board, const double *values, bool pooled)
{
    for (int m = 0; m < FM_MEASURES; m++)
        if (has_column(board, m, pooled)) fm_rows_number(csv, values[m]);
}

static void add_trial(struct fm_rows *csv, const struct fm_board *board, const struct fm_board_trial *t,
                      const json_t *first)
{
    json_t *params = json_loads(t->params, 0, NULL);
    fm_rows_integer(csv, t->trial);
    fm_rows_count(csv, t->rank);
    fm_rows_text(csv, fm_state_name(t->state));
    fm_rows_text(csv, t->state == FM_STATE_COMPLETED ? "" : t->reason_code);
    fm_rows_text(csv, t->state == FM_STATE_COMPLETED ? "" : t->reason);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)first, name, value) add_param(csv, json_object_get(params, name));
    fm_rows_number(csv, t->mean);
    fm_rows_number(csv, t->std);
    fm_rows_integer(csv, t->defined);
    fm_rows_integer(csv, t->nruns);
    add_measures(csv, board, t->pooled, true);
    fm_rows_count(csv, t->param_count);
    fm_rows_integer(csv, t->length);
    fm_rows_integer(csv, t->seed);
    fm_rows_integer(csv, t->kept);
    fm_rows_end(csv);
    json_decref(params);
}

int fm_export_trials(const struct fm_board *board, const struct fm_writer *out, struct fm_error *err)
{
    static const char *const head[] = {"trial", "rank", "status", "reason_code", "reason"};
    static const char *const middle[] = {"mean", "std", "defined", "runs"};
    static const char *const tail[] = {"param_count", "window", "seed", "kept"};
    struct fm_rows csv;
    fm_rows_init(&csv, out);
    json_t *first = board->ntrials ? json_loads(board->trials[0].params, 0, NULL) : NULL;
    add_names(&csv, head, 5);
    const char *name;
    json_t *value;
    json_object_foreach(first, name, value) fm_rows_name(&csv, "param_", name);
    add_names(&csv, middle, 4);
    for (int m = 0; m < FM_MEASURES; m++)
        if (has_column(board, m, true)) fm_rows_name(&csv, "pooled_", fm_measure_name(m));
    add_names(&csv, tail, 4);
    fm_rows_end(&csv);
    for (int64_t i = 0; i < board->ntrials; i++) add_trial(&csv, board, &board->trials[i], first);
    json_decref(first);
    return fm_rows_fini(&csv, err);
}

static void add_run(struct fm_rows *csv, const struct fm_board *board, int64_t trial,
                    const struct fm_board_run *r)
{
    bool completed = r->state == FM_STATE_COMPLETED;
    fm_rows_integer(csv, trial);
    fm_rows_integer(csv, r->repeat);
    fm_rows_integer(csv, r->fold);
    fm_rows_text(csv, fm_state_name(r->state));
    fm_rows_text(csv, completed ? "" : r->reason_code);
    fm_rows_text(csv, completed ? "" : r->reason);
    fm_rows_text(csv, r->numbers);
    fm_rows_count(csv, r->epochs > r->nhistory ? r->epochs : r->nhistory);
    fm_rows_count(csv, r->scored_epoch);
    fm_rows_count(csv, r->best_epoch);
    fm_rows_text(csv, r->stopped);
    fm_rows_integer(csv, r->bad_steps);
    fm_rows_number(csv, r->seconds);
    add_measures(csv, board, r->measures, false);
    fm_rows_end(csv);
}

static int by_number(const void *a, const void *b)
{
    const struct fm_board_trial *x = *(const struct fm_board_trial *const *)a;
    const struct fm_board_trial *y = *(const struct fm_board_trial *const *)b;
    return x->trial < y->trial ? -1 : x->trial > y->trial;
}

/* Boards stand in order of rank; files of rows are easier to join in order of number. The caller frees; NULL
 * when memory is out. */
static const struct fm_board_trial **in_order(const struct fm_board *board)
{
    size_t n = (size_t)board->ntrials;
    const struct fm_board_trial **trials = fm_malloc(n, sizeof *trials);
    for (size_t i = 0; trials && i < n; i++) trials[i] = &board->trials[i];
    if (trials && n) qsort(trials, n, sizeof *trials, by_number);
    return trials;
}

int fm_export_runs(const struct fm_board *board, const struct fm_writer *out, struct fm_error *err)
{
    static const char *const head[] = {"trial",   "repeat",    "fold",   "status",       "reason_code",
                                       "reason",  "numbers",   "epochs", "scored_epoch", "best_epoch",
                                       "stopped", "bad_steps", "seconds"};
    struct fm_rows csv;
    const struct fm_board_trial **trials = in_order(board);
    if (!trials) return fm_fail_memory(err);
    fm_rows_init(&csv, out);
    add_names(&csv, head, sizeof head / sizeof *head);
    for (int m = 0; m < FM_MEASURES; m++)
        if (has_column(board, m, false)) fm_rows_text(&csv, fm_measure_name(m));
    fm_rows_end(&csv);
    for (int64_t i = 0; i < board->ntrials; i++)
        for (int64_t r = 0; r < trials[i]->nruns; r++)
            add_run(&csv, board, trials[i]->trial, &trials[i]->runs[r]);
    fm_free(trials);
    return fm_rows_fini(&csv, err);
}

static void seen_measures(const struct fm_board *board, bool seen[FM_MEASURES])
{
    memset(seen, 0, FM_MEASURES * sizeof *seen);
    seen[0] = true;
    for (int64_t i = 0; i < board->ntrials; i++)
        for (int64_t r = 0; r < board->trials[i].nruns; r++) {
            const struct fm_board_run *run = &board->trials[i].runs[r];
            for (int64_t e = 0; e < run->nhistory; e++)
                for (int m = 1; m < FM_MEASURES; m++) seen[m] |= !isnan(run->history[e].measures[m]);
        }
}

static void add_history(struct fm_rows *csv, int64_t trial, const struct fm_board_run *run,
                        const bool seen[FM_MEASURES])
{
    for (int64_t e = 0; e < run->nhistory; e++) {
        const struct fm_board_epoch *epoch = &run->history[e];
        int64_t numbers[] = {trial, run->repeat, run->fold, epoch->epoch, epoch->best};
        for (int i = 0; i < 5; i++) fm_rows_integer(csv, numbers[i]);
        fm_rows_number(csv, epoch->learning_rate);
        for (int m = 0; m < FM_MEASURES; m++)
            if (seen[m]) fm_rows_number(csv, epoch->measures[m]);
        fm_rows_end(csv);
    }
}

int fm_export_history(const struct fm_board *board, const struct fm_writer *out, struct fm_error *err)
{
    static const char *const head[] = {"trial", "repeat", "fold", "epoch", "best", "learning_rate"};
    bool seen[FM_MEASURES];
    struct fm_rows csv;
    const struct fm_board_trial **trials = in_order(board);
    if (!trials) return fm_fail_memory(err);
    seen_measures(board, seen);
    fm_rows_init(&csv, out);
    add_names(&csv, head, 6);
    for (int m = 0; m < FM_MEASURES; m++)
        if (seen[m]) fm_rows_text(&csv, fm_measure_name(m));
    fm_rows_end(&csv);
    for (int64_t i = 0; i < board->ntrials; i++)
        for (int64_t r = 0; r < trials[i]->nruns; r++)
            add_history(&csv, trials[i]->trial, &trials[i]->runs[r], seen);
    fm_free(trials);
    return fm_rows_fini(&csv, err);
}
