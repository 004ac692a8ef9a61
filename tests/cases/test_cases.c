/* The cases of ../shared/cases/README.md (all but A14, which needs early termination) through the whole
 * program: what plan, run, split and export say, and how the refused variants are refused. */
#include <sqlite3.h>

#include "through.h"

Test(cases, inputs_are_those_of_the_shared_folder)
{
    static const char *const names[] = {"A01.csv",   "A02.csv",   "A02b.csv", "A03.csv",   "A03b.csv",
                                        "A04_x.npy", "A04_y.npy", "A07.csv",  "A08.csv",   "A09_x.npy",
                                        "A09_y.npy", "A10.csv",   "A10b.csv", "A11_x.npy", "A11_y.npy",
                                        "A12.csv",   "A13.csv",   "A15.csv"};
    if (!ts_shared()) cr_skip("../shared is absent; the committed copies are used");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[256];
        size_t theirs, ours;
        snprintf(path, sizeof path, "%s/cases/%s", ts_shared(), names[i]);
        char *a = ts_read_file(path, &theirs);
        char *b = ts_read_file(ts_join(path, sizeof path, "tests/cases/data", names[i]), &ours);
        cr_assert(a && b && theirs == ours && memcmp(a, b, ours) == 0, "%s", names[i]);
        free(a);
        free(b);
    }
}

/* ---- A01 ---- */

#define A01_DATA                                                                                             \
    "data: {source: csv, path: A01.csv, time: time, features: [\"acc x\"], target: label, window: {length: " \
    "1}}\n"
#define IN_ORDER(folds) "cv: {split: kfold, folds: " #folds ", shuffle: false}\n"

static void same_as_a01(struct through *t)
{
    json_t *plan = through_plan(t);
    check_number(plan, 6, "examples");
    check_number(plan, 1, "records");
    check_size(plan, "classes", 2);
    check_text(plan, "classes.0.name", "run");
    check_text(plan, "classes.1.name", "walk, slow");
    check_number(plan, 3, "classes.0.count");
    check_number(plan, 3, "classes.1.count");
    json_decref(plan);
}

Test(cases, a01_header_behind_a_byte_order_mark)
{
    static const char rows[] =
        "time,acc x,label\n0,0.5,\"walk, slow\"\n1,1.5,\"walk, slow\"\n2,-2,run\n3,4,run\n"
        "4,0.25,\"walk, slow\"\n5,1.75,run\n";
    struct through t;
    through_open(&t);
    through_copy(&t, "A01.csv");
    through_sweep(&t, A01_DATA IN_ORDER(2) TWO_CLASSES);
    same_as_a01(&t);
    json_t *first = through_run(&t);
    /* The same data in another dress: no mark, LF, a last newline. The finished sweep is still the same. */
    through_file(&t, "A01.csv", rows);
    same_as_a01(&t);
    json_t *again = through_run(&t);
    cr_assert(json_equal(at(first, "trials"), at(again, "trials")));
    json_decref(again);
    json_decref(first);
    /* The values: the target is read as a number too, so the labels' file is written with them. */
    through_sweep(&t, "data: {source: csv, path: A01.csv, features: [\"acc x\"], target: time, window: "
                      "{length: 1}}\n" IN_ORDER(2) SUM_OF_INPUTS);
    char journal[128];
    remove(ts_join(journal, sizeof journal, t.folder, "s.db"));
    through_copy(&t, "A01.csv");
    check_inputs(&t, 0.5, 1.5, -2, 4, 0.25, 1.75);
    through_sweep(&t, "data: {source: csv, path: A01.csv, features: [acc_x], target: label, window: {length: "
                      "1}}\n" IN_ORDER(2) TWO_CLASSES);
    remove(journal);
    through_refused(&t, "acc_x", "acc x", NULL);
    through_close(&t);
}

/* ---- A02 ---- */

static void a02_sweep(struct through *t, const char *file, const char *dialect)
{
    through_sweep(t,
                  "data: {source: csv, path: %s, %stime: t, features: [u, v], target: u, window: {length: "
                  "1}}\n" IN_ORDER(2) SUM_OF_INPUTS,
                  file, dialect);
}

Test(cases, a02_semicolons_and_decimal_commas)
{
    static const char *const dialects[] = {"delimiter: \";\", decimal: \",\", ", "decimal: \",\", ",
                                           "delimiter: auto, decimal: \",\", "};
    struct through t;
    for (size_t i = 0; i < 3; i++) {
        double u[4], mean = 0;
        through_open(&t);
        through_copy(&t, "A02.csv");
        a02_sweep(&t, "A02.csv", dialects[i]);
        check_inputs(&t, 1.25, 2.75, -3.115, 5.125); /* u + v */
        cr_assert_eq(numbers_of(&t, 5, u, 4), 4);
        for (size_t k = 0; k < 4; k++) mean += u[k] / 4;
        cr_assert_float_eq(mean, 0.25, 1e-6); /* and so v's mean is 1.5025 - 0.25 */
        through_close(&t);
    }
    through_open(&t);
    through_copy(&t, "A02.csv");
    through_copy(&t, "A02b.csv");
    a02_sweep(&t, "A02.csv", "delimiter: \";\", ");
    through_refused(&t, "A02.csv:2:", "'1,5'", "decimal", NULL);
    a02_sweep(&t, "A02.csv", "");
    through_refused(&t, "A02.csv:2:", "'1,5'", "decimal", NULL);
    a02_sweep(&t, "A02b.csv", "decimal: \",\", ");
    through_refused(&t, "A02b.csv:2:", "'1.299,99'", NULL);
    /* A point among decimal commas is never a decimal point: 2.000 may be two thousand. */
    through_file(&t, "c.csv", "t;u;v\n0;1,5;2.000\n1;2,5;1,0\n");
    a02_sweep(&t, "c.csv", "decimal: \",\", ");
    through_refused(&t, "c.csv:2:", "'2.000'", NULL);
    through_close(&t);
}

/* ---- A03 ---- */

Test(cases, a03_a_comma_at_the_end_of_every_row)
{
    struct through t;
    through_open(&t);
    through_copy(&t, "A03.csv");
    through_copy(&t, "A03b.csv");
    through_sweep(
        &t, "data: {source: csv, path: A03.csv, features: [a, b], target: y, window: {length: 1}}\n" IN_ORDER(
                2) TWO_CLASSES);
    json_t *plan = through_plan(&t);
    check_size(plan, "classes", 2);
    check_text(plan, "classes.0.name", "0");
    check_number(plan, 2, "classes.0.count");
    check_number(plan, 2, "classes.1.count");
    cr_assert(noted(plan, "empty field") && noted(plan, "line 2"));
    json_decref(plan);
    through_sweep(
        &t, "data: {source: csv, path: A03.csv, features: [a], target: b, window: {length: 1}}\n" IN_ORDER(2)
                SUM_OF_INPUTS);
    check_inputs(&t, 0.5, 1.5, 2.5, 3.5); /* mean 2, not 5 */
    double b[4];
    cr_assert_eq(numbers_of(&t, 5, b, 4), 4);
    cr_assert(b[0] == 2 && b[1] == 4 && b[2] == 6 && b[3] == 8);
    char journal[128];
    remove(ts_join(journal, sizeof journal, t.folder, "s.db"));
    through_sweep(
        &t,
        "data: {source: csv, path: A03b.csv, features: [a, b], target: y, window: {length: 1}}\n" IN_ORDER(2)
            TWO_CLASSES);
    through_refused(&t, "A03b.csv:3", "4 fields", "3", NULL);
    through_close(&t);
}

/* ---- A04 ---- */

static void a04_sweep(struct through *t, const char *scale, const char *model)
{
    char journal[128];
    remove(ts_join(journal, sizeof journal, t->folder, "s.db"));
    through_sweep(t,
                  "data: {source: npy, x: A04_x.npy, y: A04_y.npy, %s}\n" IN_ORDER(
                      2) "model: [%s, flatten, {dense: {units: 1, kernel_initializer: ones}}]\n"
                         "train: {loss: mse, optimizer: {sgd: {learning_rate: 0}}, epochs: 1}\n",
                  scale, model);
}

Test(cases, a04_fortran_order)
{
    struct through t;
    through_open(&t);
    through_copy(&t, "A04_x.npy");
    through_copy(&t, "A04_y.npy");
    /* Sums per example: the x of the right order, wherever the values stand inside of it. */
    a04_sweep(&t, "scale: none", "linear");
    check_inputs(&t, 205, 1205, 2205, 3205);
    double y[4];
    cr_assert_eq(numbers_of(&t, 5, y, 4), 4);
    cr_assert(y[0] == 1 && y[1] == 0 && y[2] == 1 && y[3] == 0);
    /* A kernel of 5 zeros but one is not to be had; pooling of 3 positions of the sum over both channels
     * picks out positions 2 (read as C order the largest of the first three would be another): 2*(100i+20)+1.
     */
    a04_sweep(
        &t, "scale: none",
        "conv1d: {filters: 1, kernel_size: 1, kernel_initializer: ones}, max_pooling1d: {pool_size: 3}");
    check_inputs(&t, 41, 241, 441, 641);
    /* Both channels have deviation 112.6942767 and means 170 and 171: both become (100i + 10l - 170) / std.
     */
    a04_sweep(&t, "scale: standard, scale_fit: all", "linear");
    check_inputs(&t, (10 * 20 - 10 * 170.0) / 112.6942767, (10 * 120 - 10 * 170.0) / 112.6942767,
                 (10 * 220 - 10 * 170.0) / 112.6942767, (10 * 320 - 10 * 170.0) / 112.6942767);
    through_close(&t);
    through_open(&t);
    through_copy(&t, "A04_x.npy");
    through_copy(&t, "A04_y.npy");
    through_sweep(&t, "data: {source: npy, x: A04_x.npy, y: A04_y.npy}\n" IN_ORDER(2) TWO_CLASSES);
    json_t *plan = through_plan(&t);
    check_number(plan, 4, "examples");
    check_number(plan, 5, "views.0.length");
    check_number(plan, 5 * 2 * 2 + 2, "networks.0.param_count");
    check_number(plan, 2, "classes.0.count");
    json_decref(plan);
    through_close(&t);
}

/* ---- A05 ---- */

#define A05_HEAD                                                                                             \
    "data: {source: csv, path: A10.csv, features: [x], target: y, window: {length: 1}}\n"                    \
    "cv: {split: predefined, column: fold}\n"                                                                \
    "model: [flatten, {dense: {units: 1}}]\n"

static void journal_stores_numbers(const struct through *t)
{
    char path[128];
    sqlite3 *db;
    sqlite3_stmt *statement;
    ts_join(path, sizeof path, t->folder, "s.db");
    cr_assert_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    cr_assert_eq(sqlite3_prepare_v2(db, "SELECT params FROM trials ORDER BY trial", -1, &statement, NULL),
                 SQLITE_OK, "%s", sqlite3_errmsg(db));
    int n = 0;
    for (; sqlite3_step(statement) == SQLITE_ROW; n++) {
        json_t *params = json_loads((const char *)sqlite3_column_text(statement, 0), 0, NULL);
        cr_assert(json_is_number(json_object_get(params, "learning_rate")));
        json_decref(params);
    }
    cr_assert_eq(n, 5);
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

Test(cases, a05_numbers_without_a_point)
{
    static const double rates[] = {0.001, 0.0005, 0.01, 0.05, 200000};
    struct through t;
    through_open(&t);
    through_copy(&t, "A10.csv");
    through_sweep(&t, A05_HEAD
                  "train: {loss: mse, epochs: 1, optimizer: {adam: {learning_rate: \"${learning_rate}\"}}}\n"
                  "method: grid\n"
                  "parameters:\n"
                  "  learning_rate: {values: [1e-3, 5E-4, 1.e-2, .5e-1, 2.0e5, +1e-3, 1e-3]}\n");
    json_t *plan = through_plan(&t);
    check_number(plan, 5, "trials");
    check_number(plan, 10, "runs");
    cr_assert(noted(plan, "2 of 7"));
    json_decref(plan);
    json_t *run = through_run(&t);
    check_size(run, "trials", 5);
    for (int trial = 1; trial <= 5; trial++)
        for (int i = 0; i < 5; i++) {
            char path[64];
            snprintf(path, sizeof path, "trials.%d.trial", i);
            if ((int)number_at(run, path) == trial)
                check_number(run, rates[trial - 1], "trials.%d.params.learning_rate", i);
        }
    json_decref(run);
    journal_stores_numbers(&t);
    through_close(&t);
    through_open(&t);
    through_copy(&t, "A10.csv");
    through_sweep(&t,
                  A05_HEAD "train: {loss: mse, epochs: 1, optimizer: {adam: {learning_rate: \"1e-3\"}}}\n");
    through_refused(&t, "s.yaml:4:", "learning_rate", "\"1e-3\"", "number", NULL);
    through_sweep(&t, A05_HEAD "train: {loss: mse, epochs: 1, optimizer: {adam: {learning_rate: \"${r}\"}}}\n"
                               "method: grid\n"
                               "parameters: {r: {values: [1e-3, \"1e-3\"]}}\n");
    through_refused(&t, "s.yaml:6:", "learning_rate", "\"1e-3\"", "number", NULL);
    through_close(&t);
}

/* ---- A06 ---- */

Test(cases, a06_the_same_key_twice)
{
    struct through t;
    through_open(&t);
    through_copy(&t, "A10.csv");
    through_sweep(&t, "data: {source: csv, path: A10.csv, features: [x], target: y, window: {length: 1}}\n"
                      "model:\n"
                      "  conv1d: {filters: 8, kernel_size: 1}\n"
                      "  max_pooling1d: {pool_size: 1}\n"
                      "  conv1d: {filters: 16, kernel_size: 1}\n"
                      "  dense: {units: 1}\n"
                      "train:\n"
                      "  optimizer: {sgd: {learning_rate: 0.1}}\n"
                      "  epochs: 5\n"
                      "  \"epochs\": 50\n");
    through_refused(&t, "s.yaml:5:", "model.conv1d", "lines 3 and 5", "train.epochs", "lines 9 and 10", NULL);
    through_sweep(&t, "{a: 1, a: 2}\n");
    through_refused(&t, "s.yaml:1:8", "a", NULL);
    /* Layers must be a list even without a clash. */
    through_sweep(&t, "data: {source: csv, path: A10.csv, features: [x], target: y, window: {length: 1}}\n"
                      "cv: {split: kfold}\n"
                      "model:\n"
                      "  flatten: {}\n"
                      "  dense: {units: 1}\n"
                      "train: {loss: mse}\n");
    through_refused(&t, "s.yaml:4:", "list", NULL);
    /* Merges are no YAML 1.2: said so, not taken for a key. */
    through_sweep(&t, "base: &base {epochs: 5}\ntrain: {<<: *base, epochs: 3}\n");
    through_refused(&t, "s.yaml:2:", "<<", NULL);
    through_close(&t);
}

/* ---- A07 ---- */

static void a07_sweep(struct through *t, const char *folds)
{
    through_sweep(
        t,
        "data: {source: csv, path: A07.csv, features: [x], target: y, window: {length: 1}}\n"
        "cv: {split: stratified, folds: %s, shuffle: false}\n"
        "model: [flatten, {dense: {units: 3, activation: softmax, kernel_initializer: zeros}}]\n"
        "train: {class_weight: balanced, loss: sparse_categorical_crossentropy, epochs: 1, batch_size: 32,\n"
        "  optimizer: {sgd: {learning_rate: 1}}}\n",
        folds);
}

/* One step from zeros over the whole training part: p = 1/3, so the gradient of kernel k is
 * -(1/N) sum w_i x_i ([y_i = k] - 1/3), the bias' one likewise; with balanced weights the biases stay 0. */
static void a07_expected(double *p, const double weights[3][3])
{
    static const int y[15] = {0, 1, 0, 0, 2, 0, 1, 0, 0, 1, 0, 0, 2, 1, 0};
    static const int fold[15] = {0, 0, 0, 0, 1, 1, 0, 1, 1, 1, 2, 2, 2, 2, 2};
    for (int f = 0; f < 3; f++) {
        double kernel[3] = {0}, bias[3] = {0};
        for (int i = 0; i < 15; i++)
            for (int k = 0; fold[i] != f && k < 3; k++) {
                double g = weights[f][y[i]] * ((y[i] == k) - 1.0 / 3) / 10;
                kernel[k] += g * i / 10;
                bias[k] += g;
            }
        for (int i = 0; i < 15; i++) {
            if (fold[i] != f) continue;
            double e[3], sum = 0;
            for (int k = 0; k < 3; k++) sum += e[k] = exp(kernel[k] * i / 10 + bias[k]);
            *p++ = e[2] / sum;
        }
    }
}

Test(cases, a07_a_class_rarer_than_folds)
{
    static const double balanced[3][3] = {{0.5555555556, 1.6666666667, 1.6666666667},
                                          {0.5555555556, 1.1111111111, 3.3333333333},
                                          {0.5555555556, 1.1111111111, 3.3333333333}};
    static const int counts[3][3] = {{3, 2, 0}, {3, 1, 1}, {3, 1, 1}};
    struct through t;
    through_open(&t);
    through_copy(&t, "A07.csv");
    a07_sweep(&t, "3");
    json_t *plan = through_plan(&t);
    for (int f = 0; f < 3; f++)
        for (int k = 0; k < 3; k++) check_number(plan, counts[f][k], "folds.%d.classes.%d.val", f, k);
    cr_assert(noted(plan, "class '2' has 2 examples") && noted(plan, "fold 0"));
    json_decref(plan);
    check_split(&t, "0,0,A07.csv,0;0,1,A07.csv,1;0,2,A07.csv,2;0,3,A07.csv,3;0,6,A07.csv,6;"
                    "1,4,A07.csv,4;1,5,A07.csv,5;1,7,A07.csv,7;1,8,A07.csv,8;1,9,A07.csv,9;"
                    "2,10,A07.csv,10;2,11,A07.csv,11;2,12,A07.csv,12;2,13,A07.csv,13;2,14,A07.csv,14");
    double p[15];
    a07_expected(p, balanced);
    check_predictions(&t, 8, 1e-5, p, 15);
    char journal[128];
    remove(ts_join(journal, sizeof journal, t.folder, "s.db"));
    a07_sweep(&t, "9");
    plan = through_plan(&t);
    check_size(plan, "folds", 9);
    cr_assert(noted(plan, "class '1' has 4") && noted(plan, "class '2' has 2"));
    json_decref(plan);
    a07_sweep(&t, "10");
    through_refused(&t, "s.yaml:2:", "10 folds", "9", NULL);
    through_close(&t);
}

/* ---- A08 ---- */

static void a08_sweep(struct through *t, const char *file, const char *cv)
{
    through_sweep(t,
                  "data: {source: csv, path: %s, features: [x], target: y, record: subject, group: subject, "
                  "window: {length: 1}}\n"
                  "cv: {split: group, %s}\n" TWO_CLASSES,
                  file, cv);
}

Test(cases, a08_few_groups_of_equal_sizes)
{
    struct through t;
    through_open(&t);
    through_copy(&t, "A08.csv");
    a08_sweep(&t, "A08.csv", "folds: 3, shuffle: false");
    check_split(&t, "0,6,s4,0;0,7,s4,1;0,8,s4,2;0,9,s5,0;1,0,s1,0;1,1,s1,1;1,2,s1,2;1,3,s2,0;"
                    "2,4,s3,0;2,5,s3,1;2,10,s6,0;2,11,s6,1");
    /* The same groups in another order of the rows: the same folds as sets of groups. */
    through_file(&t, "other.csv",
                 "x,y,subject\n11,1,s6\n10,0,s6\n9,1,s5\n8,0,s4\n7,1,s4\n6,0,s4\n3,1,s2\n"
                 "2,0,s1\n1,1,s1\n0,0,s1\n5,1,s3\n4,0,s3\n");
    a08_sweep(&t, "other.csv", "folds: 3, shuffle: false");
    check_split(&t, "0,2,s5,0;0,3,s4,0;0,4,s4,1;0,5,s4,2;1,6,s2,0;1,7,s1,0;1,8,s1,1;1,9,s1,2;"
                    "2,0,s6,0;2,1,s6,1;2,10,s3,0;2,11,s3,1");
    a08_sweep(&t, "A08.csv", "folds: 6, shuffle: false");
    json_t *plan = through_plan(&t);
    double sizes[6] = {0};
    for (int f = 0; f < 6; f++) {
        char path[32];
        snprintf(path, sizeof path, "folds.%d.val", f);
        sizes[f] = number_at(plan, path);
    }
    cr_assert(sizes[0] + sizes[1] + sizes[2] + sizes[3] + sizes[4] + sizes[5] == 12);
    for (int f = 0; f < 6; f++) cr_assert(sizes[f] >= 1 && sizes[f] <= 3);
    json_decref(plan);
    a08_sweep(&t, "A08.csv", "folds: 7");
    through_refused(&t, "s.yaml:2:", "7 folds", "6 groups", NULL);
    /* Shuffled: whole groups in one fold each, and no fold empty. */
    static const char group[] = "111233445566";
    for (int seed = 0; seed < 4; seed++) {
        char cv[64], rows[1024];
        snprintf(cv, sizeof cv, "folds: 4, shuffle: true, seed: %d", seed);
        a08_sweep(&t, "A08.csv", cv);
        cr_assert_eq(through_call(&t, "split", NULL), 0, "%s", t.last.err);
        int fold_of[7] = {0}, seen[4] = {0}, examples = 0;
        rows_from(&t, 1, rows, sizeof rows);
        for (char *row = strtok(rows, ";"); row; row = strtok(NULL, ";"), examples++) {
            int fold, example;
            char subject;
            cr_assert_eq(sscanf(row, "%d,%d,s%c", &fold, &example, &subject), 3);
            cr_assert(fold >= 0 && fold < 4 && example >= 0 && example < 12);
            int g = subject - '0';
            cr_assert(g >= 1 && g <= 6 && (fold_of[g] == 0 || fold_of[g] == fold + 1));
            fold_of[g] = fold + 1;
            seen[fold] = 1;
        }
        cr_assert(examples == 12 && seen[0] && seen[1] && seen[2] && seen[3] && strlen(group) == 12);
    }
    through_close(&t);
}

/* ---- A09 ---- */

#define A09_SWEEP                                                                                            \
    "data: {source: npy, x: A09_x.npy, y: A09_y.npy}\n"                                                      \
    "cv: {split: kfold, folds: 3, shuffle: false}\n"                                                         \
    "model:\n"                                                                                               \
    "  - repeat: {times: 2, layers: [{conv1d: {filters: 4, kernel_size: \"${k}\"}}, {max_pooling1d: "        \
    "{pool_size: \"${p}\"}}]}\n"                                                                             \
    "  - flatten\n"                                                                                          \
    "  - dense: {units: 2, activation: softmax}\n"                                                           \
    "train: {loss: sparse_categorical_crossentropy, epochs: 1}\n"                                            \
    "method: grid\n"

static const struct {
    int trial;
    const char *layer, *longer;
} a09_invalid[] = {{4, "repeat[1].layers[1].max_pooling1d", "pool_size 3 is longer than its input of 2"},
                   {6, "repeat[1].layers[0].conv1d", "kernel_size 7 is longer than its input of 6"},
                   {7, "repeat[0].layers[0].conv1d", "kernel_size 25 is longer than its input of 24"},
                   {8, "repeat[0].layers[0].conv1d", "kernel_size 25 is longer than its input of 24"}};

Test(cases, a09_kernels_and_pools_that_do_not_fit)
{
    static const int sizes[][2] = {{1, 102}, {2, 78}, {3, 134}, {5, 158}};
    struct through t;
    through_open(&t);
    through_copy(&t, "A09_x.npy");
    through_copy(&t, "A09_y.npy");
    through_sweep(&t, A09_SWEEP "parameters: {k: {values: [3, 5, 7, 25]}, p: {values: [2, 3]}}\n");
    json_t *plan = through_plan(&t);
    check_number(plan, 8, "trials");
    check_number(plan, 12, "runs");
    check_size(plan, "networks", 4);
    check_size(plan, "invalid", 4);
    for (int i = 0; i < 4; i++) {
        char path[64];
        check_number(plan, sizes[i][0], "networks.%d.trials.0", i);
        check_number(plan, sizes[i][1], "networks.%d.param_count", i);
        check_number(plan, a09_invalid[i].trial, "invalid.%d.trial", i);
        snprintf(path, sizeof path, "invalid.%d.reason", i);
        const char *reason = json_string_value(at(plan, path));
        cr_assert(strstr(reason, a09_invalid[i].layer) && strstr(reason, a09_invalid[i].longer), "%s",
                  reason);
    }
    json_decref(plan);
    json_t *run = through_run(&t);
    check_size(run, "trials", 8);
    for (int i = 0; i < 8; i++) {
        char path[64];
        snprintf(path, sizeof path, "trials.%d.status", i);
        check_text(run, path, i < 4 ? "completed" : "invalid");
        if (i < 4) continue;
        check_number(run, a09_invalid[i - 4].trial, "trials.%d.trial", i);
        snprintf(path, sizeof path, "trials.%d.reason.code", i);
        check_text(run, path, "shape");
    }
    json_decref(run);
    cr_assert_eq(through_call(&t, "show", NULL), 0);
    for (int i = 0; i < 4; i++) cr_assert(strstr(t.last.out, a09_invalid[i].longer), "%s", t.last.out);
    through_close(&t);
    /* Nothing left to run is a mistake of the file. */
    through_open(&t);
    through_copy(&t, "A09_x.npy");
    through_copy(&t, "A09_y.npy");
    through_sweep(&t, A09_SWEEP "parameters: {k: {values: [25]}, p: {values: [2, 3]}}\n");
    cr_assert_eq(through_call(&t, "run", NULL), 2, "%s", t.last.err);
    cr_assert(strstr(t.last.err, "kernel_size 25"), "%s", t.last.err);
    through_close(&t);
}

/* ---- A10 ---- */

static void a10_sweep(struct through *t, const char *file, const char *initializer, double rate, int batch,
                      const char *shuffle)
{
    through_sweep(
        t,
        "data: {source: csv, path: %s, features: [x], target: y, window: {length: 1}}\n"
        "cv: {split: predefined, column: fold}\n"
        "model: [flatten, {dense: {units: 1, kernel_initializer: %s}}]\n"
        "train: {loss: mse, optimizer: {sgd: {learning_rate: %g}}, batch_size: %d, epochs: 1, shuffle: %s}\n",
        file, initializer, rate, batch, shuffle);
}

Test(cases, a10_the_last_smaller_batch)
{
    struct through t;
    for (int batch = 1; batch <= 6; batch++) {
        through_open(&t);
        through_copy(&t, "A10.csv");
        a10_sweep(&t, "A10.csv", "ones", 0, batch, batch % 2 ? "true" : "false");
        json_t *run = through_run(&t);
        check_near(run, 1e-5, 3.0, "trials.0.runs.0.metrics.loss");
        check_near(run, 1e-5, 2.6666667, "trials.0.runs.0.metrics.val_loss");
        check_near(run, 1e-5, 2.6666667, "trials.0.runs.1.metrics.loss");
        check_near(run, 1e-5, 3.0, "trials.0.runs.1.metrics.val_loss");
        json_decref(run);
        through_close(&t);
    }
    through_open(&t);
    through_copy(&t, "A10b.csv");
    a10_sweep(&t, "A10b.csv", "zeros", 0.1, 2, "true");
    check_inputs(&t, 0.784, 0.784, 0.4, 0.4, 0.4, 0.4, 0.4); /* kernel + bias */
    json_t *run = through_run(&t);
    check_near(run, 1e-5, 0.56992, "trials.0.runs.0.metrics.loss");
    check_near(run, 1e-5, 0.046656, "trials.0.runs.0.metrics.val_loss");
    check_near(run, 1e-5, 1.0, "trials.0.runs.1.metrics.loss");
    check_near(run, 1e-5, 0.36, "trials.0.runs.1.metrics.val_loss");
    json_decref(run);
    through_close(&t);
}

/* ---- A11 ---- */

Test(cases, a11_a_label_without_an_output)
{
    struct through t;
    through_open(&t);
    through_copy(&t, "A11_x.npy");
    through_copy(&t, "A11_y.npy");
#define A11(units)                                                                                           \
    "data: {source: npy, x: A11_x.npy, y: A11_y.npy}\n"                                                      \
    "cv: {split: kfold, folds: 3}\n"                                                                         \
    "model: [flatten, {dense: {units: " #units ", activation: softmax}}]\n"                                  \
    "train: {loss: sparse_categorical_crossentropy}\n"
    through_sweep(&t, A11(3));
    through_refused(&t, "A11_y.npy", "index 3 value 3", "index 5 value -1", "0..2", NULL);
    through_sweep(&t, A11(4));
    through_refused(&t, "A11_y.npy", "index 5 value -1", "0..3", NULL);
    cr_assert(!strstr(t.last.err, "index 3"), "%s", t.last.err);
    /* The loss has no ignore_class: said, not ignored. */
    through_sweep(&t, "data: {source: npy, x: A11_x.npy, y: A11_y.npy}\n"
                      "cv: {split: kfold, folds: 3}\n"
                      "model: [flatten, {dense: {units: 3, activation: softmax}}]\n"
                      "train: {loss: {sparse_categorical_crossentropy: {ignore_class: -1}}}\n");
    through_refused(&t, "s.yaml:4:", "ignore_class", NULL);
    /* Text labels are numbered. */
    through_file(&t, "t.csv", "x,y\n0,0\n1,1\n2,2\n3,3\n4,1\n5,-1\n");
    through_sweep(&t, "data: {source: csv, path: t.csv, features: [x], target: y, window: {length: 1}}\n"
                      "cv: {split: kfold, folds: 3}\n"
                      "model: [flatten, {dense: {units: 5, activation: softmax}}]\n"
                      "train: {loss: sparse_categorical_crossentropy, epochs: 1}\n");
    json_t *plan = through_plan(&t);
    check_size(plan, "classes", 5);
    check_text(plan, "classes.0.name", "-1");
    check_text(plan, "classes.4.name", "3");
    check_number(plan, 2, "classes.2.count");
    json_decref(plan);
    through_close(&t);
}

/* ---- A12 ---- */

/* What the network sees of one feature in 48 rows of which value i is base + step * (i % period). */
static void a12_feature(const char *feature, const char *fit, double base, double step, int period,
                        const double mean[3], const double std[3], double relative)
{
    struct through t;
    double expected[48];
    for (int i = 0; i < 48; i++) expected[i] = (base + step * (i % period) - mean[i / 16]) / std[i / 16];
    through_open(&t);
    through_copy(&t, "A12.csv");
    through_sweep(
        &t,
        "data: {source: csv, path: A12.csv, features: [%s], target: y, window: {length: 1}, scale: standard, "
        "scale_fit: %s}\n"
        "cv: {split: blocked, folds: 3}\n" SUM_OF_INPUTS,
        feature, fit);
    check_predictions(&t, 6, relative, expected, 48);
    through_close(&t);
}

Test(cases, a12_a_dead_channel_and_a_large_offset)
{
    static const double dead[3] = {14.62, 14.62, 14.62}, one[3] = {1, 1, 1};
    static const double count[3] = {10001.03125, 10001, 10000.96875},
                        count_std[3] = {0.8094896, 0.8291562, 0.8094896};
    static const double all[3] = {10001, 10001, 10001}, all_std[3] = {0.8164966, 0.8164966, 0.8164966};
    static const double pressure[3] = {101325.01171875, 101325.01171875, 101325.01171875};
    static const double pressure_std[3] = {0.0087346405, 0.0087346405, 0.0087346405};
    a12_feature("dead", "all", 14.62, 0, 1, dead, one, 0.0);
    a12_feature("dead", "train", 14.62, 0, 1, dead, one, 0.0);
    a12_feature("count", "all", 10000, 1, 3, all, all_std, 1e-5);
    a12_feature("count", "train", 10000, 1, 3, count, count_std, 1e-5);
    a12_feature("pressure", "all", 101325, 0.0078125, 4, pressure, pressure_std, 1e-4);
    a12_feature("pressure", "train", 101325, 0.0078125, 4, pressure, pressure_std, 1e-4);
    struct through t;
    through_open(&t);
    through_copy(&t, "A12.csv");
    through_sweep(&t, "data: {source: csv, path: A12.csv, features: [dead, count, pressure], target: y, "
                      "window: {length: 1}, "
                      "scale: standard}\ncv: {split: blocked, folds: 3}\n" TWO_CLASSES);
    json_t *plan = through_plan(&t);
    cr_assert(noted(plan, "'dead' is constant"));
    cr_assert(!noted(plan, "'count' is") && !noted(plan, "'pressure' is"));
    json_decref(plan);
    through_close(&t);
}

/* ---- A13 ---- */

Test(cases, a13_a_fold_with_one_class)
{
    static const double loss[] = {0.4708913, 0.3875043, 0.3521173}, accuracy[] = {0.8, 0.75, 0.8},
                        auc[] = {0.8333333, NAN, 1.0};
    struct through t;
    through_open(&t);
    through_copy(&t, "A13.csv");
    through_sweep(&t, "data: {source: csv, path: A13.csv, features: [x], target: y, window: {length: 1}}\n"
                      "cv: {split: predefined, column: fold}\n"
                      "model: [flatten, {dense: {units: 1, activation: sigmoid, kernel_initializer: ones}}]\n"
                      "train: {loss: binary_crossentropy, optimizer: {sgd: {learning_rate: 0}}, epochs: 1, "
                      "metrics: [auc, accuracy]}\n"
                      "metric: {name: val_auc, goal: maximize}\n");
    json_t *plan = through_plan(&t);
    cr_assert(noted(plan, "fold 1") && noted(plan, "auc"));
    json_decref(plan);
    json_t *run = through_run(&t);
    check_text(run, "trials.0.status", "completed");
    check_near(run, 1e-6, 0.9166667, "trials.0.mean");
    check_number(run, 2, "trials.0.defined");
    check_near(run, 1e-6, 0.9583333, "trials.0.pooled.val_auc");
    for (int f = 0; f < 3; f++) {
        check_near(run, 1e-6, loss[f], "trials.0.runs.%d.metrics.val_loss", f);
        check_near(run, 1e-6, accuracy[f], "trials.0.runs.%d.metrics.val_accuracy", f);
        check_near(run, 1e-6, auc[f], "trials.0.runs.%d.metrics.val_auc", f);
    }
    json_decref(run);
    cr_assert_eq(through_call(&t, "show", NULL), 0);
    cr_assert(strstr(t.last.out, "2 of 3 folds"), "%s", t.last.out);
    through_close(&t);
}

/* ---- A15 ---- */

static void a15_sweep(struct through *t, int stride, const char *purge)
{
    through_sweep(t,
                  "data: {source: csv, path: A15.csv, record: rec, features: [x], target: y, "
                  "window: {length: 4, stride: %d, edge: drop, label: first}}\n"
                  "cv: {split: blocked, folds: 2, purge: %s}\n" TWO_CLASSES,
                  stride, purge);
}

Test(cases, a15_how_many_windows_and_how_many_leak)
{
    struct through t;
    through_open(&t);
    through_copy(&t, "A15.csv");
    a15_sweep(&t, 1, "true");
    json_t *plan = through_plan(&t);
    check_number(plan, 8, "examples");
    check_number(plan, 3, "records");
    check_number(plan, 1, "short_records");
    cr_assert(noted(plan, "record r2") && noted(plan, "too short"));
    for (int f = 0; f < 2; f++) {
        check_number(plan, 1, "folds.%d.train", f);
        check_number(plan, 4, "folds.%d.val", f);
        check_number(plan, 3, "folds.%d.purged", f);
        check_number(plan, 0, "folds.%d.shared", f);
        check_number(plan, 1, "folds.%d.classes.%d.train", f,
                     1 - f); /* r3 0 is of class 1, r1 0 of class 0 */
    }
    json_decref(plan);
    check_split(&t, "0,0,r1,0;0,1,r1,1;0,2,r1,2;0,3,r1,3;1,4,r1,4;1,5,r1,5;1,6,r1,6;1,7,r3,0");
    a15_sweep(&t, 1, "false");
    plan = through_plan(&t);
    for (int f = 0; f < 2; f++) {
        check_number(plan, 4, "folds.%d.train", f);
        check_number(plan, 0, "folds.%d.purged", f);
        check_number(plan, 3, "folds.%d.shared", f);
    }
    json_decref(plan);
    a15_sweep(&t, 3, "true");
    check_split(&t, "0,0,r1,0;0,1,r1,3;1,2,r1,6;1,3,r3,0");
    a15_sweep(&t, 7, "true");
    check_split(&t, "0,0,r1,0;1,1,r3,0");
    through_close(&t);
}
