/* `cv` of the sweep file, key by key, through the whole program; expected folds were worked out by hand (the
 * splitters against scikit-learn are in tests/data/test_splits.c). */
#include "through.h"

static const char powers[] = "x,y\n1,0\n2,1\n4,0\n8,1\n16,0\n32,1\n64,0\n128,1\n";

#define SPLIT(data, cv)                                                                                      \
    "data: {source: csv, path: d.csv, features: [x], target: x, " data "}\ncv: {" cv "}\n" SUM_OF_INPUTS
#define ONE "window: {length: 1}"

Test(contract_cv, predefined_folds_by_file_and_column)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", "id,x,f\na,1,k\na,2,k\nb,4,k\nb,8,m\na,16,m\nc,32,-1\n");
    through_file(&t, "r.csv", "record,fold\na,2\nb,7\nc,-1\n");
    through_file(&t, "e.csv", "example,fold\n5,0\n0,-1\n1,0\n2,1\n4,1\n3,-1\n");
    through_sweep(&t, SPLIT("record: id, " ONE, "split: predefined, file: r.csv"));
    check_split(&t, "0,0,a,0;0,1,a,1;0,4,a#2,0;1,2,b,0;1,3,b,1"); /* a#2 is of record a */
    json_t *plan = through_plan(&t);
    check_text(plan, "folds.0.name", "2");
    check_text(plan, "folds.1.name", "7");
    check_number(plan, 3, "folds.0.train"); /* c is always trained on */
    check_number(plan, 4, "folds.1.train");
    json_decref(plan);
    through_sweep(&t, SPLIT("record: id, " ONE, "split: predefined, file: e.csv"));
    check_split(&t, "0,1,a,1;0,5,c,0;1,2,b,0;1,4,a#2,0");
    through_sweep(&t, SPLIT("record: id, " ONE, "split: predefined, column: f"));
    check_split(&t, "0,0,a,0;0,1,a,1;0,2,b,0;1,3,b,1;1,4,a#2,0");
    through_sweep(&t, SPLIT("record: id, " ONE, "split: predefined, column: f, folds: 2"));
    through_refused(&t, "s.yaml:2:", "folds", NULL);
    through_sweep(&t, SPLIT("record: id, " ONE, "split: predefined"));
    through_refused(&t, "s.yaml:2:", "file", "column", NULL);
    through_file(&t, "r.csv", "record,fold\na,2\nz,7\nc,-1\n");
    through_sweep(&t, SPLIT("record: id, " ONE, "split: predefined, file: r.csv"));
    through_refused(&t, "r.csv", NULL);
    through_close(&t);
}

Test(contract_cv, repeats_draw_again)
{
    struct through t;
    char rows[4096];
    int fold_of[2][8] = {{0}};
    through_open(&t);
    through_file(&t, "d.csv", powers);
    through_sweep(&t, SPLIT(ONE, "split: kfold, folds: 2, repeats: 2, seed: 3"));
    cr_assert_eq(through_call(&t, "split", NULL), 0, "%s", t.last.err);
    rows_from(&t, 0, rows, sizeof rows);
    for (char *row = strtok(rows, ";"); row; row = strtok(NULL, ";")) {
        int repeat, fold, example;
        cr_assert_eq(sscanf(row, "%d,%d,%d", &repeat, &fold, &example), 3);
        cr_assert_eq(fold_of[repeat][example], 0);
        fold_of[repeat][example] = fold + 1;
    }
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 8; i++) cr_assert_neq(fold_of[r][i], 0);
    cr_assert(memcmp(fold_of[0], fold_of[1], sizeof fold_of[0]) != 0);
    /* Where nothing is drawn, training seeds alone are new: same folds, other weights. */
    through_sweep(&t, "data: {source: csv, path: d.csv, features: [x], target: x, " ONE "}\n"
                      "cv: {split: kfold, folds: 2, repeats: 2, shuffle: false}\n"
                      "model: [flatten, {dense: {units: 1}}]\n"
                      "train: {loss: mse, optimizer: {sgd: {learning_rate: 0}}, epochs: 1}\n");
    json_t *run = through_run(&t);
    check_size(run, "folds", 4);
    check_size(run, "trials.0.runs", 4);
    check_number(run, 1, "trials.0.runs.2.repeat");
    check_number(run, 0, "trials.0.runs.2.fold");
    cr_assert(number_at(run, "trials.0.runs.0.metrics.val_loss") !=
              number_at(run, "trials.0.runs.2.metrics.val_loss"));
    check_number(run, 4, "trials.0.defined");
    json_decref(run);
    through_close(&t);
}

Test(contract_cv, leave_one_group_out)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", "x,g\n1,b\n2,b\n4,B\n8,B\n16,10\n32,9\n");
    through_sweep(&t, SPLIT("group: g, " ONE, "split: leave_one_group_out"));
    /* Groups are text, byte by byte: 10, 9, B, b. A new record starts where the group changes. */
    check_split(&t, "0,4,d.csv#3,0;1,5,d.csv#4,0;2,2,d.csv#2,0;2,3,d.csv#2,1;3,0,d.csv,0;3,1,d.csv,1");
    through_sweep(&t, SPLIT("group: g, " ONE, "split: leave_one_group_out, folds: 4"));
    through_refused(&t, "s.yaml:2:", "folds", NULL);
    through_file(&t, "d.csv", "x,g\n1,b\n2,b\n4,b\n");
    through_sweep(&t, SPLIT("group: g, " ONE, "split: leave_one_group_out"));
    through_refused(&t, "group", NULL);
    through_file(&t, "d.csv", "x,g,id\n1,b,1\n2,b,1\n4,c,1\n");
    through_sweep(&t, SPLIT("group: g, record: id, " ONE, "split: leave_one_group_out"));
    through_refused(&t, "d.csv:4", "group", NULL);
    through_close(&t);
}

Test(contract_cv, time_series_over_several_records)
{
    struct through t;
    through_open(&t);
    /* Two loggers side by side: by time the examples are 4 0 5 1 6 2 7 3. */
    through_file(&t, "d.csv", "id,t,x\nB,1,1\nB,3,2\nB,5,4\nB,7,8\nA,0,16\nA,2,32\nA,4,64\nA,6,128\n");
#define TIMED "record: id, time: t, " ONE
    through_sweep(&t, SPLIT(TIMED, "split: time_series, folds: 3"));
    check_split(&t, "0,1,B,1;0,5,A,1;1,2,B,2;1,6,A,2;2,3,B,3;2,7,A,3");
    json_t *plan = through_plan(&t);
    for (int f = 0; f < 3; f++) check_number(plan, 2 * f + 2, "folds.%d.train", f);
    json_decref(plan);
    through_sweep(&t, SPLIT(TIMED, "split: time_series, folds: 3, gap: 1, max_train_size: 2, test_size: 1"));
    check_split(&t, "0,2,B,2;1,7,A,3;2,3,B,3"); /* 6th, 7th and 8th in time */
    plan = through_plan(&t);
    for (int f = 0; f < 3; f++) check_number(plan, 2, "folds.%d.train", f);
    json_decref(plan);
    through_sweep(&t, SPLIT("record: id, " ONE, "split: time_series, folds: 3"));
    through_refused(&t, "time", NULL);
    /* The unshuffled holdout goes by time too: the last quarter. */
    through_sweep(&t, SPLIT(TIMED, "split: holdout, shuffle: false"));
    check_split(&t, "0,3,B,3;0,7,A,3");
    through_close(&t);
}

Test(contract_cv, holdout)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", powers);
    through_sweep(&t, SPLIT(ONE, "split: holdout, test_size: 3, repeats: 2"));
    json_t *plan = through_plan(&t);
    check_size(plan, "folds", 2);
    for (int f = 0; f < 2; f++) {
        check_number(plan, f, "folds.%d.repeat", f);
        check_number(plan, 0, "folds.%d.fold", f);
        check_number(plan, 3, "folds.%d.val", f);
        check_number(plan, 5, "folds.%d.train", f);
    }
    json_decref(plan);
    through_sweep(&t, SPLIT(ONE, "split: holdout, test_size: 0.5, shuffle: false"));
    check_split(&t, "0,4,d.csv,4;0,5,d.csv,5;0,6,d.csv,6;0,7,d.csv,7");
    through_sweep(&t, SPLIT(ONE, "split: holdout, folds: 2"));
    through_refused(&t, "s.yaml:2:", "repeats", NULL);
    through_sweep(&t, SPLIT(ONE, "split: holdout, test_size: 1.5"));
    through_refused(&t, "s.yaml:2:", "test_size", NULL);
    through_close(&t);
}

Test(contract_cv, purge_and_embargo)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", "x\n0\n1\n2\n3\n4\n5\n6\n7\n8\n");
    through_sweep(&t, SPLIT(ONE, "split: blocked, folds: 3, embargo: 2"));
    json_t *plan = through_plan(&t);
    static const int after[3] = {2, 2, 0};
    for (int f = 0; f < 3; f++) {
        check_number(plan, 6 - after[f], "folds.%d.train", f);
        check_number(plan, after[f], "folds.%d.embargoed", f);
        check_number(plan, 0, "folds.%d.purged", f);
    }
    json_decref(plan);
    /* Windows of 3 with a label 1 beyond: spans of 4, examples 0..5; fold 0 validates 0 and 1, positions
     * 0..4. */
    through_sweep(
        &t, SPLIT("window: {length: 3, label: last, horizon: 1}", "split: blocked, folds: 3, purge: false"));
    plan = through_plan(&t);
    static const int shared[3] = {3, 4, 3};
    for (int f = 0; f < 3; f++) check_number(plan, shared[f], "folds.%d.shared", f);
    json_decref(plan);
    through_sweep(&t, SPLIT("window: {length: 3, label: last, horizon: 1}",
                            "split: holdout, test_size: 1, shuffle: false"));
    plan = through_plan(&t);
    check_number(plan, 2, "folds.0.train"); /* 5 spans 5..8; 2, 3 and 4 touch it */
    check_number(plan, 3, "folds.0.purged");
    json_decref(plan);
    /* An embargo implies purging, also where the split keeps no order. */
    through_sweep(
        &t, SPLIT("window: {length: 2, label: last}", "split: kfold, folds: 4, shuffle: false, embargo: 1"));
    plan = through_plan(&t);
    /* Examples 0..7, fold 0 validates 0, 1 (positions 0..2): 2 shares one, 3 starts in the embargo. */
    check_number(plan, 1, "folds.0.purged");
    check_number(plan, 1, "folds.0.embargoed");
    check_number(plan, 2, "folds.1.purged");
    check_number(plan, 1, "folds.1.embargoed");
    check_number(plan, 1, "folds.3.purged");
    check_number(plan, 0, "folds.3.embargoed");
    json_decref(plan);
    through_close(&t);
}

Test(contract_cv, leaks_can_be_errors)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", powers);
    through_sweep(&t, SPLIT("window: {length: 2, label: last}", "split: kfold, folds: 2, leak: error"));
    through_refused(&t, "share", "purge", NULL);
    through_sweep(&t, SPLIT("window: {length: 2, label: last}",
                            "split: kfold, folds: 2, shuffle: false, purge: true, leak: error"));
    json_decref(through_plan(&t));
    through_sweep(&t, SPLIT("window: {length: 2, label: last}", "split: kfold, folds: 2, shuffle: false"));
    json_t *plan = through_plan(&t);
    cr_assert(noted(plan, "share positions"));
    check_number(plan, 1, "folds.0.shared");
    json_decref(plan);
    /* All training windows shared: nothing would be left. */
    through_sweep(&t, SPLIT("window: {length: 7, label: last}", "split: blocked, folds: 2"));
    through_refused(&t, "training", NULL);
    through_close(&t);
}

Test(contract_cv, an_inner_part_is_watched)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", powers);
    /* Fold 0 trains on 16 32 64 128, of which kfold(2) without shuffling takes 16 and 32 as the inner part:
     * the scale is fitted on 64 and 128, and so on. */
    through_sweep(&t,
                  "data: {source: csv, path: d.csv, features: [x], target: x, scale: standard, " ONE "}\n"
                  "cv: {split: kfold, folds: 2, shuffle: false, inner: {split: holdout, test_size: 0.5}}\n"
                  "model: [flatten, {dense: {units: 1, kernel_initializer: ones}}]\n"
                  "train: {loss: mse, optimizer: {sgd: {learning_rate: 0}}, epochs: 2, "
                  "early_stopping: {monitor: inner_loss, patience: 5}}\n"
                  "metric: {name: inner_loss}\n");
    check_inputs(&t, (1 - 96) / 32.0, (2 - 96) / 32.0, (4 - 96) / 32.0, (8 - 96) / 32.0, (16 - 6) / 2.0,
                 (32 - 6) / 2.0, (64 - 6) / 2.0, (128 - 6) / 2.0);
    json_t *run = through_run(&t);
    double inner[2] = {(pow(16 + 2.5, 2) + pow(32 + 2, 2)) / 2, (pow(1 + 2.5, 2) + pow(2 + 2, 2)) / 2};
    double train[2] = {(pow(64 + 1, 2) + pow(128 - 1, 2)) / 2, (pow(4 + 1, 2) + pow(8 - 1, 2)) / 2};
    for (int f = 0; f < 2; f++) {
        check_near(run, 1e-5, inner[f], "trials.0.runs.%d.metrics.inner_loss", f);
        check_near(run, 1e-5, train[f], "trials.0.runs.%d.metrics.loss", f);
        check_near(run, 1e-5, inner[f], "trials.0.runs.%d.history.0.inner_loss", f);
        number_at(run, "trials.0.runs.0.metrics.val_loss");                    /* the fold is scored, */
        cr_assert_null(at_or_null(run, "trials.0.runs.0.history.0.val_loss")); /* once */
    }
    check_near(run, 1e-5, (inner[0] + inner[1]) / 2, "trials.0.mean");
    json_decref(run);
    through_forget(&t);
    through_sweep(&t, "data: {source: csv, path: d.csv, features: [x], target: x, " ONE "}\n"
                      "cv: {split: kfold, folds: 2}\n"
                      "model: [flatten, {dense: {units: 1}}]\n"
                      "train: {loss: mse, early_stopping: {monitor: inner_loss}}\n");
    through_refused(&t, "s.yaml:4:", "inner", NULL);
    through_close(&t);
}

Test(contract_cv, blocks_and_groups)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", powers);
    through_sweep(&t, SPLIT(ONE, "split: blocked, folds: 2, blocks: 4")); /* numbers: dealt in turn */
    check_split(
        &t,
        "0,0,d.csv,0;0,1,d.csv,1;0,4,d.csv,4;0,5,d.csv,5;1,2,d.csv,2;1,3,d.csv,3;1,6,d.csv,6;1,7,d.csv,7");
    /* Classes: the two blocks with positives go to different folds. */
    through_file(&t, "d.csv", "x,y\n1,1\n2,1\n4,0\n8,0\n16,1\n32,1\n64,0\n128,0\n");
    through_sweep(&t, "data: {source: csv, path: d.csv, features: [x], target: y, " ONE "}\n"
                      "cv: {split: blocked, folds: 2, blocks: 4}\n" TWO_CLASSES);
    json_t *plan = through_plan(&t);
    for (int f = 0; f < 2; f++)
        for (int k = 0; k < 2; k++) check_number(plan, 2, "folds.%d.classes.%d.val", f, k);
    json_decref(plan);
    through_sweep(&t, SPLIT(ONE, "split: blocked, folds: 4, blocks: 3"));
    through_refused(&t, "s.yaml:2:", "blocks", NULL);
    through_sweep(&t, SPLIT(ONE, "split: kfold, folds: 9"));
    through_refused(&t, "s.yaml:2:", "9 folds", "8", NULL);
    through_sweep(&t, SPLIT(ONE, "split: kfold, folds: 1"));
    through_refused(&t, "s.yaml:2:", "folds", NULL);
    through_sweep(&t, SPLIT(ONE, "split: stratified, folds: 2"));
    through_refused(&t, "s.yaml:2:", "stratified", NULL); /* numbers have no classes */
    through_sweep(&t, SPLIT(ONE, "split: kfold, shufle: true"));
    through_refused(&t, "s.yaml:2:", "shufle", "shuffle", NULL);
    through_close(&t);
}

Test(contract_cv, the_seed_may_be_a_parameter)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", powers);
    through_sweep(&t, "data: {source: csv, path: d.csv, features: [x], target: x, " ONE "}\n"
                      "cv: {split: kfold, folds: 2, seed: \"${s}\"}\n"
                      "model: [flatten, {dense: {units: 1, kernel_initializer: zeros}}]\n"
                      "train: {loss: mse, optimizer: {sgd: {learning_rate: 0}}, epochs: 1}\n"
                      "method: grid\nparameters: {s: {values: [1, 2, 1]}}\n");
    json_t *run = through_run(&t);
    check_size(run, "trials", 2);
    cr_assert(number_at(run, "trials.0.runs.0.metrics.val_loss") !=
              number_at(run, "trials.1.runs.0.metrics.val_loss"));
    /* All eight are validated once under either seed: the pooled loss is the same. */
    check_near(run, 1e-6, number_at(run, "trials.0.pooled.val_loss"), "trials.1.pooled.val_loss");
    json_decref(run);
    through_close(&t);
}
