/* The leaderboard for people: the table, then what a reader must know to trust it. */
#include "report/board.h"
#include "report/look.h"
#include "report/table.h"
#include "report/trial_text.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define REASONS_SHOWN 8
#define PARAM_COLUMNS 40 /* so that the fixed columns always fit into the table too */

struct params {
    json_t **of;          /* by place on the board */
    const char **varying; /* names, in file order */
    size_t count;
};

/* A parameter's value as a person would write it. */
static void add_value(struct fm_text *text, const json_t *value)
{
    char buffer[FM_NUMBER_TEXT];
    if (!value || json_is_null(value)) {
        fm_text_add_string(text, "-");
    } else if (json_is_string(value)) {
        fm_text_add_shown(text, json_string_value(value));
    } else if (json_is_real(value)) {
        fm_text_add_string(text, fm_format_number(json_real_value(value), buffer));
    } else {
        char *dump = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        if (dump)
            fm_text_add_shown(text, dump);
        else
            text->failed = true;
        free(dump);
    }
}

static void add_cell(struct fm_table *table, const json_t *value)
{
    struct fm_text text = {0};
    char shown[40];
    add_value(&text, value);
    if (text.failed)
        table->failed = true;
    else
        fm_table_cell(table, "%s", fm_show(text.data ? text.data : "", text.size, shown, sizeof shown));
    fm_text_fini(&text);
}

static bool varies(const struct params *params, int64_t n, const char *name)
{
    for (int64_t i = 1; i < n; i++)
        if (!json_equal(json_object_get(params->of[0], name), json_object_get(params->of[i], name)))
            return true;
    return false;
}

static bool params_read(struct params *params, const struct fm_board *board)
{
    int64_t n = board->ntrials;
    params->of = fm_calloc((size_t)n, sizeof(json_t *));
    if (!params->of) return false;
    for (int64_t i = 0; i < n; i++) {
        json_error_t error;
        params->of[i] = json_loads(board->trials[i].params, 0, &error);
        if (!params->of[i] && json_error_code(&error) == json_error_out_of_memory) return false;
    }
    size_t names = n ? json_object_size(params->of[0]) : 0;
    params->varying = fm_malloc(names, sizeof *params->varying);
    if (!params->varying) return false;
    const char *name;
    json_t *value;
    if (n)
        json_object_foreach(params->of[0], name,
                            value) if (varies(params, n, name) && params->count < PARAM_COLUMNS)
            params->varying[params->count++] = name;
    return true;
}

static void params_fini(struct params *params, int64_t n)
{
    for (int64_t i = 0; params->of && i < n; i++) json_decref(params->of[i]);
    fm_free(params->of);
    fm_free(params->varying);
}

static void add_score(struct fm_table *table, const struct fm_board_trial *t, const struct fm_look *look)
{
    char mean[FM_NUMBER_TEXT], std[FM_NUMBER_TEXT];
    if (t->state != FM_STATE_COMPLETED) {
        const char *code = t->state == FM_STATE_FAILED || t->state == FM_STATE_INVALID ? t->reason_code : "";
        fm_table_cell(table, "%s%s%s", fm_state_name(t->state), *code ? ": " : "", code);
    } else if (isnan(t->mean)) {
        fm_table_cell(table, fm_board_diverged(t) ? "diverged" : "not defined");
    } else {
        fm_table_cell(table, "%s %s %s", fm_table_number(t->mean, mean), fm_look_plus_minus(look),
                      fm_table_number(t->std, std));
    }
}

static void add_runs(struct fm_table *table, const struct fm_board_trial *t)
{
    int64_t over = 0, least = INT64_MAX, most = 0;
    for (int64_t r = 0; r < t->nruns; r++) {
        const struct fm_board_run *run = &t->runs[r];
        if (run->state != FM_STATE_COMPLETED) continue;
        over++;
        if (run->epochs < least) least = run->epochs;
        if (run->epochs > most) most = run->epochs;
    }
    if (t->state == FM_STATE_COMPLETED && t->defined < t->nruns && !fm_board_diverged(t))
        fm_table_cell(table, "%" PRId64 " of %" PRId64 " folds", t->defined, t->nruns);
    else
        fm_table_cell(table, "%" PRId64 "/%" PRId64, over, t->nruns);
    if (!over)
        fm_table_cell(table, "-");
    else if (least == most)
        fm_table_cell(table, "%" PRId64, most);
    else
        fm_table_cell(table, "%" PRId64 "-%" PRId64, least, most);
}

static void add_row(struct fm_table *table, const struct fm_board *board, int64_t i,
                    const struct params *params, const struct fm_look *look)
{
    const struct fm_board_trial *t = &board->trials[i];
    char number[FM_NUMBER_TEXT];
    if (t->rank)
        fm_table_cell(table, "%" PRId64, t->rank);
    else
        fm_table_cell(table, "-");
    fm_table_cell(table, "%" PRId64, t->trial);
    for (size_t p = 0; p < params->count; p++)
        add_cell(table, json_object_get(params->of[i], params->varying[p]));
    add_score(table, t, look);
    fm_table_cell(table, "%s", fm_table_number(t->pooled[board->measure], number));
    add_runs(table, t);
    if (t->state == FM_STATE_INVALID)
        fm_table_cell(table, "-");
    else
        fm_table_cell(table, "%" PRId64, t->param_count);
}

static void add_table(struct fm_text *text, const struct fm_board *board, const struct params *params,
                      const struct fm_look *look)
{
    struct fm_table table;
    fm_table_init(&table, 7 + (int)params->count);
    fm_table_cell(&table, "rank");
    fm_table_cell(&table, "trial");
    for (size_t p = 0; p < params->count; p++) fm_table_cell(&table, "%s", params->varying[p]);
    fm_table_cell(&table, "%s", board->metric);
    fm_table_cell(&table, "pooled");
    fm_table_cell(&table, "runs");
    fm_table_cell(&table, "epochs");
    fm_table_cell(&table, "weights");
    for (int64_t i = 0; i < board->ntrials; i++) add_row(&table, board, i, params, look);
    fm_table_print(&table, text, "", fm_look_bold(look), fm_look_off(look));
}

/* Parameters that are the same in all trials need no column. */
static void add_common(struct fm_text *text, const struct fm_board *board, const struct params *params)
{
    size_t said = 0, at = 0;
    const char *name;
    json_t *value;
    if (board->ntrials < 2) at = SIZE_MAX;
    if (board->ntrials) json_object_foreach(params->of[0], name, value)
        {
            if (at < params->count && !strcmp(params->varying[at], name)) {
                at++;
                continue;
            }
            if (varies(params, board->ntrials, name)) continue;
            fm_text_add_string(text, said++ ? ", " : board->ntrials > 1 ? "In all trials: " : "Parameters: ");
            fm_text_add_shown(text, name);
            fm_text_add_string(text, " = ");
            add_value(text, value);
        }
    if (said) fm_text_add_string(text, ".\n");
}

static void add_reasons(struct fm_text *text, const struct fm_board *board, enum fm_state state,
                        const char *what, const struct fm_look *look)
{
    int64_t n = 0, shown = 0;
    for (int64_t i = 0; i < board->ntrials; i++) n += board->trials[i].state == state;
    if (!n) return;
    fm_text_add(text, "%s%" PRId64 " trial%s %s:%s\n", fm_look_warn(look), n, n == 1 ? "" : "s", what,
                fm_look_off(look));
    for (int64_t i = 0; i < board->ntrials && shown < REASONS_SHOWN; i++) {
        const struct fm_board_trial *t = &board->trials[i];
        if (t->state != state) continue;
        fm_text_add(text, "  trial %" PRId64 ": %s\n", t->trial, t->reason);
        shown++;
    }
    if (shown < n)
        fm_text_add(text, "  and %" PRId64 " more (foldmill show --trial N says why)\n", n - shown);
}

/* How honest the folds are, in one line. */
static void add_honesty(struct fm_text *text, const struct fm_board *board, const struct fm_look *look)
{
    int64_t shared = 0, purged = 0, embargoed = 0, identical = 0, folds = 0;
    for (int64_t i = 0; i < board->nfolds; i++) {
        const struct fm_board_fold *f = &board->folds[i];
        shared += f->shared;
        purged += f->purged;
        embargoed += f->embargoed;
        identical += f->identical;
        folds += f->shared > 0;
    }
    if (shared) {
        fm_text_add(text,
                    "%sNot honest: in %" PRId64 " of %" PRId64 " folds training windows share positions with "
                    "validation windows (%" PRId64 " windows in all).%s\n"
                    "  What a network remembers helps it there; cv: {split: blocked} or purge: true leaves "
                    "them out.\n",
                    fm_look_warn(look), folds, board->nfolds, shared, fm_look_off(look));
    } else {
        fm_text_add(text, "No training window shares a position with a validation window");
        if (purged || embargoed)
            fm_text_add(text, " (left out over all folds: %" PRId64 " purged, %" PRId64 " embargoed)", purged,
                        embargoed);
        fm_text_add_string(text, ".\n");
    }
    if (identical)
        fm_text_add(text,
                    "%s%" PRId64 " validation record%s an identical twin in training (over all folds).%s\n",
                    fm_look_warn(look), identical, identical == 1 ? " has" : "s have", fm_look_off(look));
}

static void add_watched(struct fm_text *text, const struct fm_board *board)
{
    if (!board->stops_early) return;
    if (!strcmp(board->watched, "val"))
        fm_text_add_string(
            text, "Early stopping watched the validation fold itself, so scores are a little too good; "
                  "cv.inner avoids that.\n");
    else if (!strcmp(board->watched, "inner"))
        fm_text_add_string(
            text, "Early stopping watched an inner part of the training set; the fold was only scored.\n");
}

static void add_numbers(struct fm_text *text, const struct fm_board *board, const struct fm_look *look)
{
    if (board->nnumbers < 2) return;
    fm_text_add(text, "%sRanks mix runs computed with different numbers (", fm_look_warn(look));
    for (int64_t i = 0; i < board->nnumbers; i++) fm_text_add(text, "%s%s", i ? ", " : "", board->numbers[i]);
    fm_text_add(text, "): small differences between trials may come from that.%s\n", fm_look_off(look));
}

/* What became of runs on devices that are gone: given up for another, or lost. */
static void add_devices(struct fm_text *text, const struct fm_board *board, const struct fm_look *look)
{
    int64_t elsewhere = 0, suspect = 0, accepted = 0;
    char given[FM_BYTES_TEXT], got[FM_BYTES_TEXT];
    for (int64_t i = 0; i < board->ntrials; i++)
        for (int64_t r = 0; r < board->trials[i].nruns; r++) {
            elsewhere += *board->trials[i].runs[r].began_on != '\0';
            suspect += board->trials[i].runs[r].suspect;
            accepted += board->trials[i].runs[r].accepted;
        }
    if (elsewhere)
        fm_text_add(text,
                    "%s%" PRId64
                    " run%s begun on another kind of GPU and started over (--accept-other-device): "
                    "foldmill show --trial N says which.%s\n",
                    fm_look_warn(look), elsewhere, elsewhere == 1 ? " was" : "s were", fm_look_off(look));
    if (accepted)
        fm_text_add(text,
                    "%s%" PRId64 " run%s computed where those of another kind of GPU were on record already "
                    "(--accept-other-device): foldmill show --trial N says which.%s\n",
                    fm_look_warn(look), accepted, accepted == 1 ? " was" : "s were", fm_look_off(look));
    if (suspect)
        fm_text_add(text,
                    "%s%" PRId64
                    " run%s being computed when the device was lost: foldmill run tries %s again, "
                    "alone.%s\n",
                    fm_look_warn(look), suspect, suspect == 1 ? " was" : "s were",
                    suspect == 1 ? "it" : "each", fm_look_off(look));
    /* Between buffers of one memory it says nothing. */
    if (!strncmp(board->device, "cuda", 4))
        fm_text_add(text, "Moved to the device: %s, and back: %s.\n", fm_show_bytes(board->to_device, given),
                    fm_show_bytes(board->to_host, got));
}

static void add_partial(struct fm_text *text, const struct fm_board *board)
{
    int64_t partial = 0, diverged = 0, pending = 0, kept = 0;
    for (int64_t i = 0; i < board->ntrials; i++) {
        const struct fm_board_trial *t = &board->trials[i];
        diverged += fm_board_diverged(t);
        partial += t->state == FM_STATE_COMPLETED && t->defined < t->nruns && !fm_board_diverged(t);
        pending += t->state == FM_STATE_PENDING;
        kept += t->kept;
    }
    if (partial)
        fm_text_add(text, "In %" PRId64 " trial%s some folds cannot define %s: means are over the others.\n",
                    partial, partial == 1 ? "" : "s", board->metric);
    if (diverged)
        fm_text_add(text,
                    "%" PRId64 " trial%s diverged: the loss of a fold is not finite, so there is no mean.\n",
                    diverged, diverged == 1 ? "" : "s");
    if (pending)
        fm_text_add(text, "%" PRId64 " trial%s not finished: foldmill run goes on with %s.\n", pending,
                    pending == 1 ? "" : "s", pending == 1 ? "it" : "them");
    const char *what = board->keeps_predictions && board->keeps_weights ? "Predictions and weights"
                       : board->keeps_predictions                       ? "Predictions"
                                                                        : "Weights";
    if (kept && (board->keeps_predictions || board->keeps_weights))
        fm_text_add(text, "%s of %" PRId64 " trial%s are kept: foldmill export.\n", what, kept,
                    kept == 1 ? "" : "s");
}

static void add_head(struct fm_text *text, const struct fm_board *board, const struct fm_look *look)
{
    int64_t runs = 0, done = 0;
    char name[160];
    for (int64_t i = 0; i < board->ntrials; i++) {
        runs += board->trials[i].nruns;
        for (int64_t r = 0; r < board->trials[i].nruns; r++)
            done += board->trials[i].runs[r].state == FM_STATE_COMPLETED;
    }
    fm_text_add(
        text, "%s%s%s: %" PRId64 " trial%s, %" PRId64 " of %" PRId64 " runs completed, %" PRId64 " examples",
        fm_look_bold(look), fm_show(board->name, strlen(board->name), name, sizeof name), fm_look_off(look),
        board->ntrials, board->ntrials == 1 ? "" : "s", done, runs, board->examples);
    if (*board->device) fm_text_add(text, ", on %s", board->device);
    fm_text_add(text, "\nRanked by %s (%s is better), mean %s deviation over folds.\n\n", board->metric,
                board->maximize ? "more" : "less", fm_look_plus_minus(look));
}

static int add_board(struct fm_text *text, const struct fm_board *board, const struct fm_look *look)
{
    struct params params = {0};
    bool read = params_read(&params, board);
    if (read) {
        add_head(text, board, look);
        add_table(text, board, &params, look);
        fm_text_add_string(text, "\n");
        add_common(text, board, &params);
        add_partial(text, board);
        add_reasons(text, board, FM_STATE_FAILED, "failed", look);
        add_reasons(text, board, FM_STATE_INVALID, "invalid and not run", look);
        add_reasons(text, board, FM_STATE_PRUNED, "stopped early", look);
        add_watched(text, board);
        add_honesty(text, board, look);
        add_numbers(text, board, look);
        add_devices(text, board, look);
    }
    params_fini(&params, board->ntrials);
    return read ? 0 : FM_ENOMEM;
}

int fm_board_text(const struct fm_board *board, int64_t trial, const struct fm_look *look, char **out,
                  struct fm_error *err)
{
    *out = NULL;
    const struct fm_board_trial *t = trial ? fm_board_find(board, trial) : NULL;
    if (trial && !t)
        return fm_fail(err, FM_EUSAGE, "there is no trial %" PRId64 " in %s", trial, board->journal);
    struct fm_text text = {0};
    int rc = 0;
    if (t)
        fm_trial_text(&text, board, t, look);
    else
        rc = add_board(&text, board, look);
    if (rc || text.failed) {
        fm_text_fini(&text);
        return fm_fail_memory(err);
    }
    *out = text.data;
    return 0;
}
