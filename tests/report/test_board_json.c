/* The JSON object, read back by another parser. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdio.h>

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

TestSuite(report_json, .init = set_up, .fini = tear_down);

static json_t *parsed(int64_t trial)
{
    struct fm_error err = {0};
    struct fm_board *board = NULL;
    char *text = NULL;
    cr_assert(eq(int, fm_board_collect(&board, path, &err), 0), "%s", err.text);
    cr_assert(eq(int, fm_board_json(board, trial, &text, &err), 0), "%s", err.text);
    json_error_t where;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    cr_assert(root != NULL, "%s at %d:%d", where.text, where.line, where.column);
    free(text);
    fm_board_free(board);
    return root;
}

static json_t *trial_of(json_t *root, int64_t number)
{
    size_t i;
    json_t *trial;
    json_array_foreach(json_object_get(root, "trials"), i, trial)
    {
        if (json_integer_value(json_object_get(trial, "trial")) == number) return trial;
    }
    return NULL;
}

Test(report_json, has_every_documented_key)
{
    static const char *const top[] = {"format",    "sweep",    "journal", "device", "finished",
                                      "transfers", "examples", "metric",  "folds",  "trials"};
    static const char *const of_trial[] = {"trial", "rank",    "params", "status",      "mean",
                                           "std",   "defined", "pooled", "param_count", "runs"};
    static const char *const of_run[] = {"repeat",       "fold",       "status",  "numbers", "epochs",
                                         "scored_epoch", "best_epoch", "stopped", "metrics", "history"};
    json_t *root = parsed(0), *trial = trial_of(root, 1),
           *run = json_array_get(json_object_get(trial, "runs"), 0);
    for (size_t i = 0; i < sizeof top / sizeof *top; i++)
        cr_expect(json_object_get(root, top[i]) != NULL, "%s", top[i]);
    for (size_t i = 0; i < sizeof of_trial / sizeof *of_trial; i++)
        cr_expect(json_object_get(trial, of_trial[i]) != NULL, "%s", of_trial[i]);
    for (size_t i = 0; i < sizeof of_run / sizeof *of_run; i++)
        cr_expect(json_object_get(run, of_run[i]) != NULL, "%s", of_run[i]);
    cr_expect(eq(i64, json_integer_value(json_object_get(root, "format")), 1));
    cr_expect(eq(int, (int)json_typeof(json_object_get(root, "finished")), JSON_FALSE));
    cr_expect(eq(str, (char *)json_string_value(json_object_get(root, "device")), "cpu"));
    cr_expect(eq(str, (char *)json_string_value(json_object_get(json_object_get(root, "metric"), "goal")),
                 "maximize"));
    json_decref(root);
}

Test(report_json, values_survive_exactly)
{
    json_t *root = parsed(0), *trial = trial_of(root, 1),
           *run = json_array_get(json_object_get(trial, "runs"), 0);
    json_t *params = json_object_get(trial, "params");
    cr_expect(eq(dbl, json_real_value(json_object_get(params, "lr")), 0.001));
    cr_expect(eq(int, (int)json_typeof(json_object_get(params, "f")), JSON_INTEGER));
    cr_expect(eq(int, (int)json_typeof(json_object_get(params, "opt")), JSON_NULL));
    cr_expect(eq(dbl, json_real_value(json_object_get(json_object_get(trial, "pooled"), "val_auc")), 0.77));
    cr_expect(eq(dbl, json_real_value(json_object_get(json_object_get(run, "metrics"), "val_auc")), 0.9));
    json_t *epoch = json_array_get(json_object_get(run, "history"), 1);
    cr_expect(eq(i64, json_integer_value(json_object_get(epoch, "epoch")), 2));
    cr_expect(eq(dbl, json_real_value(json_object_get(epoch, "val_loss")), 0.75));
    cr_expect(eq(int, (int)json_typeof(json_object_get(json_object_get(trial_of(root, 9), "params"), "opt")),
                 JSON_OBJECT));
    json_decref(root);
}

Test(report_json, undefined_is_null_and_incomplete_has_a_reason)
{
    json_t *root = parsed(0), *third = trial_of(root, 3);
    json_t *run = json_array_get(json_object_get(third, "runs"), 1);
    json_t *auc = json_object_get(json_object_get(run, "metrics"), "val_auc");
    cr_expect(auc && json_is_null(auc));
    cr_expect(eq(i64, json_integer_value(json_object_get(third, "defined")), 2));
    static const struct {
        int trial;
        const char *code;
    } expected[] = {{4, "nan"}, {5, "shape"}, {6, "pending"}};
    for (int i = 0; i < 3; i++) {
        json_t *trial = trial_of(root, expected[i].trial), *reason = json_object_get(trial, "reason");
        cr_expect(eq(int, (int)json_typeof(json_object_get(trial, "rank")), JSON_NULL));
        cr_expect(eq(int, (int)json_typeof(json_object_get(trial, "mean")), JSON_NULL));
        cr_expect(
            eq(str, (char *)json_string_value(json_object_get(reason, "code")), (char *)expected[i].code));
        cr_expect(eq(int, (int)json_typeof(json_object_get(reason, "text")), JSON_STRING));
    }
    cr_expect(eq(ptr, json_object_get(trial_of(root, 1), "reason"), NULL));
    json_decref(root);
}

Test(report_json, one_trial_only)
{
    json_t *root = parsed(6);
    cr_expect(eq(sz, json_array_size(json_object_get(root, "trials")), 1));
    json_decref(root);
    struct fm_error err = {0};
    struct fm_board *board = NULL;
    char *text = NULL;
    cr_assert(eq(int, fm_board_collect(&board, path, &err), 0));
    cr_expect(eq(int, fm_board_json(board, 77, &text, &err), FM_EUSAGE));
    fm_board_free(board);
}
