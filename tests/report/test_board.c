/* What is computed from a journal: states, means, ranks; and journals that cannot be read. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "report/board.h"
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

TestSuite(report_board, .init = set_up, .fini = tear_down);

static struct fm_board *read_board(void)
{
    struct fm_error err = {0};
    struct fm_board *board = NULL;
    cr_assert(eq(int, fm_board_collect(&board, path, &err), 0), "%s", err.text);
    return board;
}

Test(report_board, order_and_ranks)
{
    static const int64_t order[] = {9, 3, 1, 2, 8, 4, 5, 6}, ranks[] = {1, 2, 3, 3, 5, 0, 0, 0};
    static const enum fm_state states[] = {FM_STATE_COMPLETED, FM_STATE_COMPLETED, FM_STATE_COMPLETED,
                                           FM_STATE_COMPLETED, FM_STATE_COMPLETED, FM_STATE_FAILED,
                                           FM_STATE_INVALID,   FM_STATE_PENDING};
    struct fm_board *board = read_board();
    cr_assert(eq(i64, board->ntrials, 8), "a trial that is not listed is not shown");
    for (int i = 0; i < 8; i++) {
        cr_expect(eq(i64, board->trials[i].trial, order[i]));
        cr_expect(eq(i64, board->trials[i].rank, ranks[i]));
        cr_expect(eq(int, (int)board->trials[i].state, (int)states[i]));
    }
    fm_board_free(board);
}

/* A smaller value is better: the best are the worst of before, the rest stays where it is. */
Test(report_board, minimize_turns_the_order_round)
{
    static const int64_t order[] = {1, 2, 3, 9, 8, 4, 5, 6}, ranks[] = {1, 1, 3, 4, 5, 0, 0, 0};
    cr_assert(ts_sql(path, "UPDATE sweep SET maximize = 0"));
    struct fm_board *board = read_board();
    for (int i = 0; i < 8; i++) {
        cr_expect(eq(i64, board->trials[i].trial, order[i]));
        cr_expect(eq(i64, board->trials[i].rank, ranks[i]));
    }
    fm_board_free(board);
}

/* numpy: mean([.9, .8, .7]) and std of the population; mean over the folds that define the metric. */
Test(report_board, mean_and_deviation)
{
    struct fm_board *board = read_board();
    const struct fm_board_trial *t = fm_board_find(board, 1);
    cr_expect(epsilon_eq(dbl, t->mean, 0.8, 1e-15));
    cr_expect(epsilon_eq(dbl, t->std, 0.08164965809277262, 1e-15));
    cr_expect(eq(i64, t->defined, 3));
    t = fm_board_find(board, 3);
    cr_expect(epsilon_eq(dbl, t->mean, 0.85, 1e-15));
    cr_expect(epsilon_eq(dbl, t->std, 0.1, 1e-15));
    cr_expect(eq(i64, t->defined, 2));
    t = fm_board_find(board, 8);
    cr_expect(isnan(t->mean) && t->defined == 0);
    t = fm_board_find(board, 4);
    cr_expect(isnan(t->mean), "a trial with a failed run has no mean");
    cr_expect(eq(str, (char *)t->reason_code, "nan"));
    cr_expect(eq(str, (char *)t->reason, "fold 1: the loss was not finite at step 7 of epoch 2"));
    fm_board_free(board);
}

/* A run that diverged must not make its trial look better by dropping out of the mean. */
Test(report_board, diverged_run_leaves_no_mean)
{
    cr_assert(ts_sql(path, "UPDATE run SET val_auc = NULL, val_loss = NULL WHERE trial = 9 AND fold = 2"));
    struct fm_board *board = read_board();
    const struct fm_board_trial *t = fm_board_find(board, 9);
    cr_expect(isnan(t->mean));
    cr_expect(eq(int, (int)t->state, (int)FM_STATE_COMPLETED));
    cr_expect(eq(i64, board->trials[0].trial, 3));
    fm_board_free(board);
}

Test(report_board, runs_epochs_and_the_rest)
{
    struct fm_board *board = read_board();
    const struct fm_board_trial *t = fm_board_find(board, 1);
    cr_assert(eq(i64, t->nruns, 3));
    cr_assert(eq(i64, t->runs[0].nhistory, 2));
    cr_assert(eq(i64, t->runs[1].nhistory, 1));
    cr_assert(eq(i64, t->runs[2].nhistory, 0));
    cr_expect(eq(dbl, t->runs[0].history[1].measures[fm_measure_find("val_auc")], 0.625));
    cr_expect(isnan(t->runs[1].history[0].measures[fm_measure_find("val_auc")]));
    cr_expect(eq(i64, fm_board_find(board, 6)->runs[1].nhistory, 1), "epochs of others are not mixed up");
    cr_expect(eq(i64, t->confusion[3], 3));
    cr_expect(eq(i64, fm_board_find(board, 9)->confusion[0], 3),
              "where nothing was pooled the folds are added");
    cr_expect(eq(str, (char *)board->classes[1], "storm, late"));
    cr_expect(eq(i64, board->nnumbers, 1));
    cr_expect(eq(i64, board->nevents, 1));
    cr_expect(eq(i64, board->nfolds, 3));
    cr_expect(eq(i64, board->to_device, 100));
    cr_expect(not(board->finished), "a pending trial is listed");
    cr_expect(board->stops_early);
    fm_board_free(board);
}

Test(report_board, other_classes_of_numbers_are_found)
{
    cr_assert(ts_sql(path, "UPDATE run SET numbers = 'cpu-fma' WHERE trial = 2"));
    struct fm_board *board = read_board();
    cr_assert(eq(i64, board->nnumbers, 2));
    cr_expect(eq(str, (char *)board->numbers[0], "cpu-fma"));
    fm_board_free(board);
}

static void expect_refused(const char *file, int code, const char *part)
{
    struct fm_error err = {0};
    struct fm_board *board = NULL;
    cr_expect(eq(int, fm_board_collect(&board, file, &err), code), "%s", err.text);
    cr_expect(strstr(err.text, part) != NULL, "'%s' lacks '%s'", err.text, part);
    cr_expect(eq(ptr, board, NULL));
}

Test(report_board, files_that_are_no_journals)
{
    char other[128];
    expect_refused(ts_join(other, sizeof other, folder, "missing.db"), FM_EFILE, "there is no journal");
    expect_refused(folder, FM_EFILE, "is no file");
    ts_join(other, sizeof other, folder, "text.db");
    cr_assert(ts_write_file(
        other, "this is no database at all, but it is long enough to be looked at as one: 0123456789", 80));
    expect_refused(other, FM_EFILE, "no SQLite file");
    ts_join(other, sizeof other, folder, "other.db");
    cr_assert(ts_sql(other, "CREATE TABLE a(b)"));
    expect_refused(other, FM_EFILE, "no journal of Foldmill");
    cr_assert(ts_sql(path, "PRAGMA user_version=99"));
    expect_refused(path, FM_EFILE, "newer Foldmill");
}

/* Reading leaves the journal as it is, byte for byte. */
Test(report_board, reading_changes_nothing)
{
    size_t before_size, after_size;
    char *before = ts_read_file(path, &before_size);
    fm_board_free(read_board());
    char *after = ts_read_file(path, &after_size);
    cr_assert(before && after && before_size == after_size);
    cr_expect(memcmp(before, after, before_size) == 0);
    free(before);
    free(after);
}

Test(report_measures, names_and_indices_agree)
{
    for (int m = 0; m < FM_MEASURES; m++) cr_expect(eq(int, fm_measure_find(fm_measure_name(m)), m));
    cr_expect(eq(int, fm_measure_find("val_auk"), -1));
    cr_expect(eq(ptr, (void *)fm_measure_name(FM_MEASURES), NULL));
    cr_expect(fm_measure_maximize(fm_measure_find("val_auc")));
    cr_expect(not(fm_measure_maximize(fm_measure_find("val_loss"))));
}
