/* What people read: the facts are in it, columns stand below each other, nothing of the terminal leaks in. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/board.h"
#include "report/table.h"
#include "report/trial_text.h"
#include "support/board_fixture.h"
#include "support/support.h"

static char folder[64], path[128];

static void set_up(void)
{
    cr_assert(ts_temporary(folder, sizeof folder));
    ts_join(path, sizeof path, folder, "j.db");
    cr_assert(ts_board_fixture(path));
}

static void tear_down(void)
{
    ts_remove_tree(folder);
}

TestSuite(report_text, .init = set_up, .fini = tear_down);

static char *text_of(int64_t trial, const struct fm_look *look)
{
    struct fm_error err = {0};
    struct fm_board *board = NULL;
    char *text = NULL;
    cr_assert(eq(int, fm_board_collect(&board, path, &err), 0), "%s", err.text);
    cr_assert(eq(int, fm_board_text(board, trial, look, &text, &err), 0), "%s", err.text);
    fm_board_free(board);
    return text;
}

static void expect_in(const char *text, const char *part)
{
    cr_expect(strstr(text, part) != NULL, "lacks '%s':\n%s", part, text);
}

Test(report_text, leaderboard_tells_what_is_needed)
{
    char *text = text_of(0, NULL);
    static const char *const parts[] = {"0.9000 +- 0.0000",    "2 of 3 folds",
                                        "not defined",         "failed: nan",
                                        "invalid: shape",      "kernel 25 is longer than its input of 24",
                                        "1 trial failed",      "Not honest: in 1 of 3 folds",
                                        "2 windows in all",    "Early stopping watched the validation fold",
                                        "1 trial not finished"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) expect_in(text, parts[i]);
    cr_expect(eq(ptr, strchr(text, '\033'), NULL));
    for (const char *c = text; *c; c++)
        cr_expect(lt(int, (unsigned char)*c, 128), "not ASCII without being asked");
    free(text);
}

Test(report_text, honest_folds_are_called_so)
{
    cr_assert(ts_sql(path, "UPDATE fold SET shared = 0"));
    char *text = text_of(0, NULL);
    expect_in(
        text,
        "No training window shares a position with a validation window (left out over all folds: 9 purged, 1 "
        "embargoed)");
    free(text);
}

/* What is not kept is not promised. */
Test(report_text, what_is_kept_is_said)
{
    static const struct {
        int predictions, weights;
        const char *board, *trial;
    } cases[] = {{1, 1, "\nPredictions and weights of 1 trial are kept", ", predictions and weights kept\n"},
                 {1, 0, "\nPredictions of 1 trial are kept", ", predictions kept\n"},
                 {0, 1, "\nWeights of 1 trial are kept", ", weights kept\n"},
                 {0, 0, NULL, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char sql[128];
        snprintf(sql, sizeof sql, "UPDATE sweep SET keep_predictions = %d, keep_weights = %d",
                 cases[i].predictions, cases[i].weights);
        cr_assert(ts_sql(path, sql));
        char *board = text_of(0, NULL), *trial = text_of(9, NULL);
        if (cases[i].board) {
            expect_in(board, cases[i].board);
            expect_in(trial, cases[i].trial);
        } else {
            cr_expect(eq(ptr, strstr(board, " kept"), NULL));
            cr_expect(eq(ptr, strstr(trial, " kept"), NULL));
        }
        free(board);
        free(trial);
    }
}

Test(report_text, parameters_do_not_steer_the_terminal)
{
    cr_assert(ts_sql(path, "UPDATE trial SET params = '{\"a\\u001b[1m\": \"\\u001b[31mred\"}'"));
    char *text = text_of(0, NULL);
    expect_in(text, "In all trials: a?[1m = ?[31mred.");
    cr_expect(eq(ptr, strchr(text, '\033'), NULL));
    free(text);
}

Test(report_text, mixed_numbers_are_said)
{
    cr_assert(ts_sql(path, "UPDATE run SET numbers = 'cpu-fma' WHERE trial = 2"));
    char *text = text_of(0, NULL);
    expect_in(text, "Ranks mix runs computed with different numbers (cpu-fma, cpu-reference)");
    free(text);
}

Test(report_text, diverged_trials_are_called_so)
{
    cr_assert(ts_sql(path, "UPDATE run SET val_auc = NULL, val_loss = NULL WHERE trial = 9 AND fold = 2"));
    char *text = text_of(0, NULL);
    expect_in(text, "  diverged  ");
    expect_in(text, "1 trial diverged");
    free(text);
}

Test(report_text, no_early_stopping_is_not_claimed)
{
    cr_assert(ts_sql(path, "UPDATE sweep SET fingerprint_text = '{\"train\":{}}'"));
    char *text = text_of(0, NULL);
    cr_expect(eq(ptr, strstr(text, "Early stopping watched"), NULL));
    free(text);
}

Test(report_text, one_trial_with_classes_and_curves)
{
    struct fm_look look = {.columns = 100};
    char *text = text_of(1, &look);
    static const char *const parts[] = {"rank 3", "storm, late", "true \\ predicted", "fold 0",
                                        "early_stopping"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) expect_in(text, parts[i]);
    free(text);
    text = text_of(4, &look);
    expect_in(text, "fold 1, epoch 2, step 7: the loss was not finite");
    free(text);
}

/* Sums of a class's row and column, against values worked out by hand. */
Test(report_text, precision_and_recall)
{
    static const char *const names[] = {"a", "b"};
    const int64_t confusion[] = {2, 1, 0, 3};
    struct fm_board board = {.classes = names, .nclasses = 2};
    struct fm_text text = {0};
    fm_class_text(&text, &board, confusion, NULL);
    expect_in(text.data, "  a         1.0000  0.6667  0.8000         3\n");
    expect_in(text.data, "  b         0.7500  1.0000  0.8571         3\n");
    fm_text_fini(&text);
}

Test(report_text, table_aligns_by_characters)
{
    struct fm_table table;
    struct fm_text text = {0};
    fm_table_init(&table, 3);
    table.left[1] = true;
    static const char *const cells[] = {"n", "name", "x", "10", "\u00e9t\u00e9", "1", "7", "a", ""};
    for (int i = 0; i < 9; i++) fm_table_cell(&table, "%s", cells[i]);
    fm_table_print(&table, &text, "", "<", ">");
    cr_expect(eq(str, text.data, "< n  name  x>\n10  \u00e9t\u00e9   1\n 7  a\n"));
    fm_text_fini(&text);
}

Test(report_text, curves)
{
    const double falling[] = {7, 6, 5, 4, 3, 2, 1, 0}, gap[] = {1, NAN, 1};
    double many[1000];
    for (int i = 0; i < 1000; i++) many[i] = i;
    struct fm_text text = {0};
    struct fm_look look = {.utf8 = true};
    fm_curve_text(&text, falling, 8, 20, NULL);
    cr_expect(eq(str, text.data, "#*+=:-._"));
    fm_text_fini(&text);
    fm_curve_text(&text, falling, 8, 20, &look);
    cr_expect(eq(str, text.data, "█▇▆▅▄▃▂▁"));
    fm_text_fini(&text);
    fm_curve_text(&text, gap, 3, 20, NULL);
    cr_expect(eq(str, text.data, ":?:"));
    fm_text_fini(&text);
    fm_curve_text(&text, many, 1000, 10, NULL);
    cr_expect(eq(sz, text.size, 10));
    cr_expect(text.data[0] == '_' && text.data[9] == '#');
    fm_text_fini(&text);
}
