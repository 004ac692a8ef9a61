#include "report/trial_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "report/board.h"
#include "report/json_writer.h"
#include "report/look.h"
#include "report/table.h"

#define RUNS_ACROSS  12 /* more runs than this have no column each */
#define EVENTS_SHOWN 30

static bool repeated(const struct fm_board_trial *t)
{
    return t->nruns && t->runs[t->nruns - 1].repeat > 0;
}

static void add_run_name(struct fm_table *table, const struct fm_board_trial *t,
                         const struct fm_board_run *run, const char *before)
{
    if (repeated(t))
        fm_table_cell(table, "%s%" PRId64 ".%" PRId64, before, run->repeat, run->fold);
    else
        fm_table_cell(table, "%s%" PRId64, before, run->fold);
}

static void add_head(struct fm_text *text, const struct fm_board *board, const struct fm_board_trial *t,
                     const struct fm_look *look)
{
    char mean[FM_NUMBER_TEXT], std[FM_NUMBER_TEXT], name[160];
    fm_text_add(text, "%sTrial %" PRId64 "%s of %s: %s", fm_look_bold(look), t->trial, fm_look_off(look),
                fm_show(board->name, strlen(board->name), name, sizeof name), fm_state_name(t->state));
    if (t->rank) fm_text_add(text, ", rank %" PRId64, t->rank);
    if (!isnan(t->mean))
        fm_text_add(text, ", %s %s %s %s", board->metric, fm_table_number(t->mean, mean),
                    fm_look_plus_minus(look), fm_table_number(t->std, std));
    if (t->state == FM_STATE_COMPLETED && t->defined < t->nruns)
        fm_text_add(text, " (%" PRId64 " of %" PRId64 " folds)", t->defined, t->nruns);
    fm_text_add_string(text, "\n");
    if (t->state != FM_STATE_COMPLETED) fm_text_add(text, "%s: %s\n", t->reason_code, t->reason);
    struct fm_json j = {.text = text};
    fm_text_add_string(text, "parameters ");
    fm_json_stored(&j, NULL, t->params);
    if (t->state != FM_STATE_INVALID)
        fm_text_add(text, "\nwindow %" PRId64 ", %" PRId64 " weights", t->length, t->param_count);
    const bool predictions = t->kept && board->keeps_predictions, weights = t->kept && board->keeps_weights;
    fm_text_add(text, ", from %s%s%s\n", t->origin,
                predictions && weights ? ", predictions and weights"
                : predictions          ? ", predictions"
                : weights              ? ", weights"
                                       : "",
                predictions || weights ? " kept" : "");
}

static const struct fm_board_fold *fold_of(const struct fm_board *board, const struct fm_board_trial *t,
                                           const struct fm_board_run *run)
{
    for (int64_t i = 0; i < board->nfolds; i++) {
        const struct fm_board_fold *f = &board->folds[i];
        if (f->seed == t->seed && f->repeat == run->repeat && f->fold == run->fold) return f;
    }
    return NULL;
}

static void add_run(struct fm_table *table, const struct fm_board *board, const struct fm_board_trial *t,
                    const struct fm_board_run *run)
{
    char number[FM_NUMBER_TEXT];
    const struct fm_board_fold *f = fold_of(board, t, run);
    add_run_name(table, t, run, "");
    fm_table_cell(table, "%s", f && f->name ? f->name : "");
    for (int i = 0; i < 2; i++) {
        if (f)
            fm_table_cell(table, "%" PRId64, i ? f->val : f->train);
        else
            fm_table_cell(table, "-");
    }
    fm_table_cell(table, "%s", fm_state_name(run->state));
    int64_t epochs[] = {run->epochs > run->nhistory ? run->epochs : run->nhistory, run->scored_epoch,
                        run->best_epoch};
    for (int i = 0; i < 3; i++) {
        if (epochs[i] > 0)
            fm_table_cell(table, "%" PRId64, epochs[i]);
        else
            fm_table_cell(table, "-");
    }
    fm_table_cell(table, "%s", run->stopped);
    if (isnan(run->seconds))
        fm_table_cell(table, "-");
    else
        fm_table_cell(table, "%.1f", run->seconds);
    fm_table_cell(table, "%s", fm_table_number(run->measures[board->measure], number));
}

static void add_folds(struct fm_text *text, const struct fm_board *board, const struct fm_board_trial *t,
                      const struct fm_look *look)
{
    if (!t->nruns) return;
    struct fm_table table;
    fm_table_init(&table, 11);
    bool named = false;
    for (int64_t i = 0; i < board->nfolds; i++) named |= board->folds[i].name != NULL;
    /* A column without a heading takes no room while its cells are empty. */
    const char *head[] = {"fold",      named ? "name" : "", "train",      "val",     "status",     "epochs",
                          "scored at", "best seen",         "stopped by", "seconds", board->metric};
    for (int i = 0; i < 11; i++) fm_table_cell(&table, "%s", head[i]);
    table.left[1] = table.left[4] = table.left[8] = true;
    for (int64_t r = 0; r < t->nruns; r++) add_run(&table, board, t, &t->runs[r]);
    fm_text_add_string(text, "\n");
    fm_table_print(&table, text, "  ", fm_look_bold(look), fm_look_off(look));
    for (int64_t r = 0; r < t->nruns; r++) {
        const struct fm_board_run *run = &t->runs[r];
        const bool failed = run->state == FM_STATE_FAILED;
        if (!failed && !run->suspect && !*run->began_on && !run->accepted) continue;
        fm_text_add_string(text, "  ");
        if (repeated(t)) fm_text_add(text, "repeat %" PRId64 ", ", run->repeat);
        fm_text_add(text, "fold %" PRId64, run->fold);
        if (failed) fm_text_add(text, " failed: %s", run->reason);
        if (run->suspect) fm_text_add(text, ": %s", run->reason);
        if (*run->began_on)
            fm_text_add(text, "%s began on %s and started over on %s", failed || run->suspect ? "; it" : "",
                        run->began_on, *run->numbers ? run->numbers : "this device");
        else if (run->accepted)
            fm_text_add(text, "%s was computed on %s, accepted beside another kind of GPU",
                        failed || run->suspect ? "; it" : "", run->numbers);
        fm_text_add_string(text, "\n");
    }
}

static void spread(const struct fm_board_trial *t, int measure, double *mean, double *std)
{
    double sum = 0, squares = 0;
    int64_t n = 0;
    for (int64_t r = 0; r < t->nruns; r++) {
        if (isnan(t->runs[r].measures[measure])) continue;
        sum += t->runs[r].measures[measure];
        n++;
    }
    *mean = n ? sum / (double)n : NAN;
    for (int64_t r = 0; r < t->nruns; r++) {
        double d = t->runs[r].measures[measure] - *mean;
        if (!isnan(d)) squares += d * d;
    }
    *std = n ? sqrt(squares / (double)n) : NAN;
}

static void add_measure(struct fm_table *table, const struct fm_board_trial *t, int measure, bool across)
{
    char number[FM_NUMBER_TEXT];
    double mean, std;
    spread(t, measure, &mean, &std);
    fm_table_cell(table, "%s", fm_measure_name(measure));
    for (int64_t r = 0; across && r < t->nruns; r++)
        fm_table_cell(table, "%s", fm_table_number(t->runs[r].measures[measure], number));
    fm_table_cell(table, "%s", fm_table_number(mean, number));
    fm_table_cell(table, "%s", fm_table_number(std, number));
    fm_table_cell(table, "%s", measure ? fm_table_number(t->pooled[measure], number) : "");
}

static void add_measures(struct fm_text *text, const struct fm_board *board, const struct fm_board_trial *t,
                         const struct fm_look *look)
{
    bool across = t->nruns <= RUNS_ACROSS, any = false;
    struct fm_table table;
    fm_table_init(&table, 4 + (across ? (int)t->nruns : 0));
    table.left[0] = true;
    fm_table_cell(&table, "at the scored epoch");
    for (int64_t r = 0; across && r < t->nruns; r++) add_run_name(&table, t, &t->runs[r], "fold ");
    fm_table_cell(&table, "mean");
    fm_table_cell(&table, "deviation");
    fm_table_cell(&table, "pooled");
    for (int m = 0; m < FM_MEASURES; m++) {
        bool measured = false;
        for (int64_t r = 0; r < t->nruns; r++) measured |= !isnan(t->runs[r].measures[m]);
        any |= measured;
        if (measured && fm_board_fits(board, m)) add_measure(&table, t, m, across);
    }
    if (!any) {
        fm_text_fini(&table.cells);
        return;
    }
    fm_text_add_string(text, "\n");
    fm_table_print(&table, text, "  ", fm_look_bold(look), fm_look_off(look));
}

static void add_curve(struct fm_table *table, const struct fm_board_trial *t, const struct fm_board_run *run,
                      int measure, int width, const struct fm_look *look)
{
    double *values = fm_malloc((size_t)run->nhistory, sizeof *values);
    struct fm_text curve = {0};
    char number[FM_NUMBER_TEXT];
    if (values) {
        int64_t best = -1;
        for (int64_t e = 0; e < run->nhistory; e++) {
            values[e] = run->history[e].measures[measure];
            bool better = best < 0 || (fm_measure_maximize(measure) ? values[e] > values[best]
                                                                    : values[e] < values[best]);
            if (!isnan(values[e]) && better) best = e;
        }
        fm_curve_text(&curve, values, run->nhistory, width, look);
        add_run_name(table, t, run, "");
        fm_table_cell(table, "%s", fm_measure_name(measure));
        fm_table_cell(table, "%s", fm_table_number(values[0], number));
        fm_table_cell(table, "%s", fm_table_number(best < 0 ? NAN : values[best], number));
        if (best < 0)
            fm_table_cell(table, "-");
        else
            fm_table_cell(table, "%" PRId64, run->history[best].epoch);
        fm_table_cell(table, "%s", fm_table_number(values[run->nhistory - 1], number));
        fm_table_cell(table, "%s", curve.data ? curve.data : "");
    }
    if (!values || curve.failed) table->failed = true;
    fm_text_fini(&curve);
    fm_free(values);
}

/* The training loss, the loss that is watched, the metric. */
static void add_curves(struct fm_text *text, const struct fm_board *board, const struct fm_board_trial *t,
                       const struct fm_look *look)
{
    int watched = fm_measure_find(strcmp(board->watched, "inner") ? "val_loss" : "inner_loss");
    int shown[] = {0, watched, board->measure == watched ? -1 : board->measure};
    int width = fm_look_columns(look) - 62;
    if (width < 12) width = 12;
    if (width > 100) width = 100;
    struct fm_table table;
    fm_table_init(&table, 7);
    table.left[1] = table.left[6] = true;
    static const char *const head[] = {"fold", "by epoch", "first", "best", "at", "last", "curve"};
    for (int i = 0; i < 7; i++) fm_table_cell(&table, "%s", head[i]);
    int64_t rows = 0;
    for (int64_t r = 0; r < t->nruns; r++) {
        const struct fm_board_run *run = &t->runs[r];
        for (int i = 0; i < 3 && run->nhistory; i++) {
            bool measured = false;
            for (int64_t e = 0; shown[i] >= 0 && e < run->nhistory; e++)
                measured |= !isnan(run->history[e].measures[shown[i]]);
            if (!measured) continue;
            add_curve(&table, t, run, shown[i], width, look);
            rows++;
        }
    }
    if (!rows) {
        fm_text_fini(&table.cells);
        return;
    }
    fm_text_add_string(text, "\n");
    fm_table_print(&table, text, "  ", fm_look_bold(look), fm_look_off(look));
}

static void add_events(struct fm_text *text, const struct fm_board *board, const struct fm_board_trial *t,
                       const struct fm_look *look)
{
    int64_t n = 0;
    for (int64_t i = 0; i < board->nevents; i++) {
        const struct fm_board_event *e = &board->events[i];
        if (e->trial != t->trial) continue;
        if (n == 0) fm_text_add(text, "\n%sWhat happened%s\n", fm_look_bold(look), fm_look_off(look));
        if (n++ >= EVENTS_SHOWN) continue;
        fm_text_add_string(text, "  ");
        if (repeated(t)) fm_text_add(text, "repeat %" PRId64 ", ", e->repeat);
        fm_text_add(text, "fold %" PRId64, e->fold);
        bool placed = !strncmp(e->text, "epoch ", 6); /* the text says it itself */
        if (e->epoch >= 0 && !placed) fm_text_add(text, ", epoch %" PRId64, e->epoch);
        if (e->step >= 0 && !placed) fm_text_add(text, ", step %" PRId64, e->step);
        fm_text_add(text, ": %s\n", e->text);
    }
    if (n > EVENTS_SHOWN)
        fm_text_add(text, "  and %" PRId64 " more, in the journal's table event\n", n - EVENTS_SHOWN);
}

void fm_trial_text(struct fm_text *text, const struct fm_board *board, const struct fm_board_trial *trial,
                   const struct fm_look *look)
{
    add_head(text, board, trial, look);
    add_folds(text, board, trial, look);
    add_measures(text, board, trial, look);
    add_curves(text, board, trial, look);
    fm_class_text(text, board, trial->confusion, look);
    add_events(text, board, trial, look);
}
