/* The leaderboard as the JSON object of `run --json`: format 1, documented in sweep-file.md. Keys are only
 * ever added. */
#include "report/board.h"
#include "report/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void write_reason(struct fm_json *j, enum fm_state state, const char *code, const char *text)
{
    if (state == FM_STATE_COMPLETED) return;
    fm_json_open(j, "reason", '{');
    fm_json_string(j, "code", code);
    fm_json_string(j, "text", text);
    fm_json_close(j, '}');
}

/* An epoch has the loss, what is watched, the metric, and whatever else its run measured in any epoch;
 * undefined ones are null, so that all epochs of a run have the same keys. */
static void write_history(struct fm_json *j, const struct fm_board *board, const struct fm_board_run *run)
{
    bool seen[FM_MEASURES] = {[0] = true};
    for (int64_t e = 0; e < run->nhistory; e++)
        for (int m = 1; m < FM_MEASURES; m++)
            if (!isnan(run->history[e].measures[m])) seen[m] = true;
    int loss = fm_measure_find(strcmp(board->watched, "inner") ? "val_loss" : "inner_loss");
    if (loss > 0) seen[loss] = true;
    fm_json_open(j, "history", '[');
    for (int64_t e = 0; e < run->nhistory; e++) {
        fm_json_open(j, NULL, '{');
        fm_json_integer(j, "epoch", run->history[e].epoch);
        for (int m = 0; m < FM_MEASURES; m++)
            if (seen[m]) fm_json_number(j, fm_measure_name(m), run->history[e].measures[m]);
        fm_json_close(j, '}');
    }
    fm_json_close(j, ']');
}

static void write_run(struct fm_json *j, const struct fm_board *board, const struct fm_board_run *run)
{
    j->line = "   ";
    fm_json_open(j, NULL, '{');
    fm_json_integer(j, "repeat", run->repeat);
    fm_json_integer(j, "fold", run->fold);
    fm_json_string(j, "status", fm_state_name(run->state));
    fm_json_string(j, "numbers", *run->numbers ? run->numbers : NULL);
    if (*run->began_on) fm_json_string(j, "began_on", run->began_on);
    if (run->accepted) fm_json_boolean(j, "accepted_other_device", true);
    fm_json_integer(j, "epochs", run->epochs > run->nhistory ? run->epochs : run->nhistory);
    if (run->scored_epoch > 0)
        fm_json_integer(j, "scored_epoch", run->scored_epoch);
    else
        fm_json_string(j, "scored_epoch", NULL);
    if (run->best_epoch > 0)
        fm_json_integer(j, "best_epoch", run->best_epoch);
    else
        fm_json_string(j, "best_epoch", NULL);
    fm_json_string(j, "stopped", *run->stopped ? run->stopped : NULL);
    write_reason(j, run->state, run->reason_code, run->reason);
    if (run->bad_steps) fm_json_integer(j, "bad_steps", run->bad_steps);
    fm_json_open(j, "metrics", '{');
    for (int m = 0; m < FM_MEASURES; m++)
        if (!isnan(run->measures[m]) || (run->state == FM_STATE_COMPLETED && fm_board_fits(board, m)))
            fm_json_number(j, fm_measure_name(m), run->measures[m]);
    fm_json_close(j, '}');
    write_history(j, board, run);
    fm_json_close(j, '}');
}

static void write_trial(struct fm_json *j, const struct fm_board *board, const struct fm_board_trial *t)
{
    j->line = "  ";
    fm_json_open(j, NULL, '{');
    fm_json_integer(j, "trial", t->trial);
    if (t->rank)
        fm_json_integer(j, "rank", t->rank);
    else
        fm_json_string(j, "rank", NULL);
    fm_json_stored(j, "params", t->params);
    fm_json_string(j, "status", fm_state_name(t->state));
    write_reason(j, t->state, t->reason_code, t->reason);
    fm_json_number(j, "mean", t->mean);
    fm_json_number(j, "std", t->std);
    fm_json_integer(j, "defined", t->defined);
    fm_json_open(j, "pooled", '{');
    for (int m = 1; m < FM_MEASURES; m++)
        if (!isnan(t->pooled[m]) || (m == board->measure && t->pooled_count))
            fm_json_number(j, fm_measure_name(m), t->pooled[m]);
    fm_json_close(j, '}');
    if (t->state == FM_STATE_INVALID)
        fm_json_string(j, "param_count", NULL);
    else
        fm_json_integer(j, "param_count", t->param_count);
    fm_json_open(j, "runs", '[');
    for (int64_t r = 0; r < t->nruns; r++) write_run(j, board, &t->runs[r]);
    fm_json_close(j, ']');
    fm_json_close(j, '}');
}

/* A sweep over seeds of the splits has folds for each seed: then the entries name theirs. */
static void write_folds(struct fm_json *j, const struct fm_board *board)
{
    bool seeds = board->nfolds && board->folds[0].seed != board->folds[board->nfolds - 1].seed;
    fm_json_open(j, "folds", '[');
    for (int64_t i = 0; i < board->nfolds; i++) {
        const struct fm_board_fold *f = &board->folds[i];
        fm_json_open(j, NULL, '{');
        if (seeds) fm_json_integer(j, "seed", f->seed);
        fm_json_integer(j, "repeat", f->repeat);
        fm_json_integer(j, "fold", f->fold);
        if (f->name) fm_json_string(j, "name", f->name);
        fm_json_integer(j, "train", f->train);
        if (f->inner) fm_json_integer(j, "inner", f->inner);
        fm_json_integer(j, "val", f->val);
        fm_json_integer(j, "purged", f->purged);
        fm_json_integer(j, "embargoed", f->embargoed);
        fm_json_integer(j, "shared", f->shared);
        fm_json_integer(j, "identical", f->identical);
        fm_json_close(j, '}');
    }
    fm_json_close(j, ']');
}

/* On record is a line about the device, "cpu: ...": its name comes first. */
static void write_device(struct fm_json *j, const char *text)
{
    char name[64];
    const char *end = strstr(text, ": ");
    size_t size = end ? (size_t)(end - text) : strlen(text);
    snprintf(name, sizeof name, "%.*s", (int)(size < sizeof name ? size : sizeof name - 1), text);
    fm_json_string(j, "device", name);
}

static void write_board(struct fm_json *j, const struct fm_board *board, int64_t trial)
{
    fm_json_open(j, NULL, '{');
    fm_json_integer(j, "format", 1);
    fm_json_string(j, "sweep", board->name);
    fm_json_string(j, "journal", board->journal);
    write_device(j, board->device);
    fm_json_boolean(j, "finished", board->finished);
    fm_json_open(j, "transfers", '{');
    fm_json_integer(j, "to_device", board->to_device);
    fm_json_integer(j, "to_host", board->to_host);
    fm_json_close(j, '}');
    fm_json_integer(j, "examples", board->examples);
    fm_json_open(j, "metric", '{');
    fm_json_string(j, "name", board->metric);
    fm_json_string(j, "goal", board->maximize ? "maximize" : "minimize");
    fm_json_close(j, '}');
    write_folds(j, board);
    fm_json_open(j, "trials", '[');
    for (int64_t i = 0; i < board->ntrials; i++)
        if (!trial || board->trials[i].trial == trial) write_trial(j, board, &board->trials[i]);
    fm_json_close(j, ']');
    fm_json_open(j, "notes", '[');
    for (int64_t i = 0; i < board->nnotes; i++) fm_json_string(j, NULL, board->notes[i]);
    fm_json_close(j, ']');
    fm_json_close(j, '}');
}

int fm_board_json(const struct fm_board *board, int64_t trial, char **out, struct fm_error *err)
{
    *out = NULL;
    if (trial && !fm_board_find(board, trial))
        return fm_fail(err, FM_EUSAGE, "there is no trial %lld in %s", (long long)trial, board->journal);
    struct fm_text text = {0};
    struct fm_json j = {.text = &text};
    write_board(&j, board, trial);
    fm_text_add_string(&text, "\n");
    if (text.failed) {
        fm_text_fini(&text);
        return fm_fail_memory(err);
    }
    *out = text.data;
    return 0;
}
