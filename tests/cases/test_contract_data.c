/* `data` of the sweep file, key by key, through the whole program. Where a network adds up its inputs
 * (SUM_OF_INPUTS), its predictions are what it saw; everything expected here was worked out by hand. */
#include <unistd.h>
#include <zip.h>

#include "through.h"

#define ORDERED "cv: {split: kfold, folds: 2, shuffle: false}\n"

/* Rows 1, 2, 4, ... in two folds: sums tell which rows a window holds. */
static const char powers[] = "x,y\n1,0\n2,1\n4,0\n8,1\n16,0\n32,1\n64,0\n128,1\n";

static void sums(struct through *t, const char *data)
{
    through_sweep(t, "data: {source: csv, path: d.csv, features: [x], target: x, %s}\n" ORDERED SUM_OF_INPUTS,
                  data);
}

/* ---- windows ---- */

Test(contract_data, edges_and_anchors)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", "x,y\n1,0\n2,1\n4,0\n8,1\n16,0\n");
    sums(&t, "window: {length: 3, label: first}");
    check_inputs(&t, 7, 14, 28);
    sums(&t, "window: {length: 3, label: first, stride: 2}");
    check_inputs(&t, 7, 28);
    check_targets(&t, 1, 4);
    sums(&t, "window: {length: 3, label: anchor, align: center}"); /* starts at 0, anchors 1, 2, 3 */
    check_inputs(&t, 7, 14, 28);
    check_targets(&t, 2, 4, 8);
    sums(&t, "window: {length: 3, label: anchor, align: end}");
    check_inputs(&t, 7, 14, 28);
    check_targets(&t, 4, 8, 16);
    sums(&t, "window: {length: 3, label: anchor, edge: zero}");
    check_inputs(&t, 7, 14, 28, 24, 16);
    check_targets(&t, 1, 2, 4, 8, 16);
    sums(&t, "window: {length: 3, label: anchor, edge: zero, align: center}");
    check_inputs(&t, 3, 7, 14, 28, 24);
    sums(&t, "window: {length: 4, label: anchor, edge: zero, align: center}"); /* anchor = start + 2 */
    check_inputs(&t, 3, 7, 15, 30, 28);
    sums(&t, "window: {length: 3, label: anchor, edge: zero, align: end, stride: 2}");
    check_inputs(&t, 1, 7, 28);
    sums(&t, "window: {length: 3, label: anchor, edge: wrap}");
    check_inputs(&t, 7, 14, 28, 25, 19);
    sums(&t, "window: {length: 3, label: last, edge: wrap, align: center}");
    check_inputs(&t, 19, 7, 14, 28, 25);
    check_targets(&t, 2, 4, 8, 16, 1);
    sums(&t, "window: {length: 3, label: anchor, edge: wrap, align: end, stride: 3}");
    check_inputs(&t, 25, 14);
    check_targets(&t, 1, 8);
    through_close(&t);
}

Test(contract_data, labels_and_horizons)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", powers);
    sums(&t, "window: {length: 2, label: last, horizon: 2}");
    check_inputs(&t, 3, 6, 12, 24, 48);
    check_targets(&t, 8, 16, 32, 64, 128);
    sums(&t, "window: {length: 2, label: first, horizon: 3}");
    check_inputs(&t, 3, 6, 12, 24, 48);
    check_targets(&t, 8, 16, 32, 64, 128);
    sums(&t, "window: {length: 2, label: mean, horizon: [1, 3]}");
    check_inputs(&t, 3, 6, 12, 24);
    check_targets(&t, 28 / 3.0, 56 / 3.0, 112 / 3.0, 224 / 3.0);
    sums(&t, "window: {length: 2, label: max, horizon: [2, 3]}");
    check_inputs(&t, 3, 6, 12, 24);
    check_targets(&t, 16, 32, 64, 128);
    sums(&t, "window: {length: 3, label: mean}");
    check_inputs(&t, 7, 14, 28, 56, 112, 224);
    check_targets(&t, 7 / 3.0, 14 / 3.0, 28 / 3.0, 56 / 3.0, 112 / 3.0, 224 / 3.0);
    sums(&t, "window: {length: 3, label: center}");
    check_inputs(&t, 7, 14, 28, 56, 112, 224);
    check_targets(&t, 2, 4, 8, 16, 32, 64);
    sums(&t, "window: {length: 4, label: mean, horizon: 1}"); /* the span moves: positions 1..4 */
    check_inputs(&t, 15, 30, 60, 120);
    check_targets(&t, 7.5, 15, 30, 60);
    sums(&t, "window: {length: 2, label: mean, horizon: [3, 1]}");
    through_forget(&t);
    through_refused(&t, "horizon", NULL);
    sums(&t, "window: {length: 2}"); /* a series longer than 1 needs to know which label */
    through_forget(&t);
    through_refused(&t, "label", NULL);
    through_close(&t);
}

static void classes_of(const char *label, int length, const char *expected)
{
    struct through t;
    char rows[1024], got[64] = "";
    through_open(&t);
    through_file(&t, "d.csv", "x,y\n0,a\n0,b\n0,b\n0,a\n0,a\n0,b\n0,a\n0,a\n0,b\n0,b\n");
    through_sweep(&t,
                  "data: {source: csv, path: d.csv, features: [x], target: y, window: {length: %d, label: "
                  "%s}}\n" ORDERED TWO_CLASSES,
                  length, label);
    json_decref(through_run(&t));
    cr_assert_eq(through_call(&t, "export", "--predictions", NULL), 0, "%s", t.last.err);
    rows_from(&t, 5, rows, sizeof rows);
    for (char *row = strtok(rows, ";"); row; row = strtok(NULL, ";")) strncat(got, row, 1);
    cr_assert_str_eq(got, expected, "%s: %s", label, got);
    through_close(&t);
}

Test(contract_data, labels_of_classes)
{
    /* y = abbaabaabb; the second class, b, is positive. */
    classes_of("any", 2, "bbbabbabb");
    classes_of("all", 2, "abaaaaaab");
    classes_of("majority", 3, "bbaaaaab");
    classes_of("majority", 2, "abaaaaaab"); /* ties: the lower class */
    classes_of("last", 3, "baabaabb");
    classes_of("anchor", 3, "abbaabaa");
}

/* ---- columns ---- */

Test(contract_data, weights_are_read_at_the_anchor)
{
    struct through t;
    through_open(&t);
    /* Training rows have fold -1: they are always trained on. From zeros, one step of rate 0.1 over all four:
     * the gradient of kernel and bias is -2 * sum(w y) / N = -5, so both become 0.5; loss sum(w y^2) / N. */
    through_file(&t, "d.csv", "x,y,w,f\n1,1,0,-1\n1,2,1,-1\n1,3,2,-1\n1,4,0.5,-1\n1,3,100,0\n2,3,100,0\n");
    through_sweep(
        &t, "data: {source: csv, path: d.csv, features: [x], target: y, weight: w, window: {length: 1}}\n"
            "cv: {split: predefined, column: f}\n"
            "model: [flatten, {dense: {units: 1, kernel_initializer: zeros}}]\n"
            "train: {loss: mse, optimizer: {sgd: {learning_rate: 0.1}}, epochs: 1}\n");
    check_inputs(&t, 1.0, 1.5);
    json_t *run = through_run(&t);
    check_size(run, "folds", 1);
    check_near(run, 1e-6, 7.5, "trials.0.runs.0.metrics.loss");
    check_near(run, 1e-6, (4 + 2.25) / 2,
               "trials.0.runs.0.metrics.val_loss"); /* weights act on training only */
    json_decref(run);
    through_forget(&t);
    through_file(&t, "d.csv", "x,y,w,f\n1,1,0,-1\n1,2,-1,-1\n1,3,2,0\n1,4,0.5,0\n");
    through_refused(&t, "d.csv:3:5", "weight", "negative", NULL);
    through_close(&t);
}

Test(contract_data, masks_choose_anchors)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", "x,m\n1,1\n2,0\n4,1\n8,1.0\n16,yes\n32,1\n");
    sums(&t, "mask: {column: m, keep: \"1\"}, window: {length: 2, label: anchor, edge: zero}");
    check_inputs(&t, 3, 12, 24, 32); /* as text or as a number */
    sums(&t, "mask: {column: m, keep: 1}, window: {length: 2, label: anchor, edge: zero}");
    check_inputs(&t, 3, 12, 24, 32);
    sums(&t, "mask: {column: m, keep: yes}, window: {length: 2, label: anchor, edge: zero}");
    through_forget(&t);
    through_refused(&t, "example", NULL); /* one is too few for two folds */
    through_close(&t);
}

Test(contract_data, scales_and_padding_by_column)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", "a,b,c,y\n1,0,5,1\n3,10,6,2\n1,20,7,3\n3,40,8,4\n");
#define SCALED(scale, window)                                                                                \
    "data: {source: csv, path: d.csv, features: [a, b, c], target: y, scale_fit: all, scale: " scale         \
    ", window: " window "}\n" ORDERED SUM_OF_INPUTS
    through_sweep(&t, SCALED("{a: standard, b: minmax}", "{length: 1}"));
    check_inputs(&t, -1 + 0 + 5, 1 + 0.25 + 6, -1 + 0.5 + 7, 1 + 1 + 8);
    /* Quartiles of b: 7.5, 15, 25. */
    through_sweep(&t, SCALED("{b: robust, c: minmax}", "{length: 1}"));
    check_inputs(&t, 1 - 15 / 17.5 + 0, 3 - 5 / 17.5 + 1 / 3.0, 1 + 5 / 17.5 + 2 / 3.0, 3 + 25 / 17.5 + 1);
    /* Zeros beyond the edge stand for the scaled mean, not for the number 0. */
    through_sweep(&t, SCALED("{a: standard, b: minmax}", "{length: 2, edge: zero, label: anchor}"));
    check_inputs(&t, 4 + 7.25, 7.25 + 6.5, 6.5 + 10, 10);
    through_forget(&t);
    through_sweep(&t, SCALED("{a: standard, d: minmax}", "{length: 1}"));
    through_refused(&t, "d", NULL);
    /* By default the training part alone: fold 0 trains on rows 2, 3 (a 1 3 -> 2 +- 1; b 20 40). */
    through_sweep(
        &t, "data: {source: csv, path: d.csv, features: [a, b], target: y, scale: {a: standard, b: minmax}, "
            "window: {length: 1}}\n" ORDERED SUM_OF_INPUTS);
    check_inputs(&t, -1 - 1, 1 - 0.5, -1 + 2, 1 + 4);
    through_close(&t);
}

Test(contract_data, missing_values_by_column)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", "a,b,y\n1,,1\n,NA,2\nnan,3,3\n4,4,4\n,5,5\n6,6,6\n");
#define MISSING(what)                                                                                        \
    "data: {source: csv, path: d.csv, features: [a, b], target: y, missing: " what                           \
    ", window: {length: 1}}\n" ORDERED SUM_OF_INPUTS
    through_sweep(&t, MISSING("{a: ffill, b: 100}"));
    check_inputs(&t, 101, 101, 4, 8, 9, 12);
    through_sweep(&t, MISSING("{a: interpolate, b: -1}"));
    check_inputs(&t, 0, 1, 6, 8, 10, 12);
    through_sweep(&t, MISSING("{a: drop, b: 0}")); /* cut at rows 1, 2 and 4 */
    check_inputs(&t, 1, 8, 12);
    check_targets(&t, 1, 4, 6);
    through_forget(&t);
    through_sweep(&t, MISSING("{a: {ffill: 1}, b: 0}"));
    through_refused(&t, "d.csv:4", "a", NULL);
    through_sweep(&t, MISSING("{a: ffill}"));
    through_refused(&t, "d.csv:2", "b", "missing", NULL);
    through_sweep(&t, MISSING("error"));
    through_refused(&t, "d.csv:2", "b", NULL);
    through_close(&t);
}

Test(contract_data, features_by_pattern)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv",
                 "acc_x,note,acc_y,gyro,y,\n1,hi,10,100,1,7\n2,ho,20,200,2,7\n3,hu,30,300,3,7\n");
    through_sweep(
        &t,
        "data: {source: csv, path: d.csv, features: [\"acc_*\"], target: y, window: {length: 1}}\n" ORDERED
            SUM_OF_INPUTS);
    check_inputs(&t, 11, 22, 33);
    through_sweep(&t,
                  "data: {source: csv, path: d.csv, features: all, target: y, window: {length: 1}}\n" ORDERED
                      SUM_OF_INPUTS);
    check_inputs(&t, 111, 222, 333);
    through_forget(&t);
    through_sweep(
        &t,
        "data: {source: csv, path: d.csv, features: [\"mag_*\"], target: y, window: {length: 1}}\n" ORDERED
            SUM_OF_INPUTS);
    through_refused(&t, "mag_*", NULL);
    through_close(&t);
}

/* ---- files ---- */

Test(contract_data, several_files_by_name)
{
    struct through t;
    through_open(&t);
    through_file(&t, "run_b_2.csv", "x\n1\n2\n");
    through_file(&t, "run_a_1.csv", "x\n4\n8\n");
    through_file(&t, "run_a_2.csv", "x\n16\n32\n");
    through_file(&t, "other.csv", "x\n64\n");
    through_sweep(&t,
                  "data: {source: csv, path: \"run_{who}_{day}.csv\", group: who, features: [x], target: x, "
                  "window: {length: 2, label: first}}\n"
                  "cv: {split: leave_one_group_out}\n" SUM_OF_INPUTS);
    json_t *plan = through_plan(&t);
    check_number(plan, 3, "records");
    check_number(plan, 3, "examples"); /* no window over two files */
    check_size(plan, "folds", 2);
    check_number(plan, 2, "folds.0.val");
    check_number(plan, 1, "folds.1.val");
    json_decref(plan);
    check_split(&t, "0,0,run_a_1.csv,0;0,1,run_a_2.csv,0;1,2,run_b_2.csv,0");
    check_inputs(&t, 12, 48, 3);
    through_sweep(&t, "data: {source: csv, path: \"run_*.csv\", group: file, features: [x], target: x, "
                      "window: {length: 1}}\n"
                      "cv: {split: leave_one_group_out}\n" SUM_OF_INPUTS);
    plan = through_plan(&t);
    check_size(plan, "folds", 3);
    json_decref(plan);
    through_sweep(&t, "data: {source: csv, path: [run_b_2.csv, other.csv], features: [x], target: x, window: "
                      "{length: 1}}\n" ORDERED SUM_OF_INPUTS);
    check_inputs(&t, 1, 2, 64);
    through_forget(&t);
    through_sweep(
        &t,
        "data: {source: csv, path: \"no_{who}.csv\", features: [x], target: x, window: {length: 1}}\n" ORDERED
            SUM_OF_INPUTS);
    through_refused(&t, "no_{who}.csv", NULL);
    through_close(&t);
}

Test(contract_data, dialects)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", "1\t10\n2\t20\n3\t30\n");
    through_sweep(
        &t,
        "data: {source: csv, path: d.csv, features: [\"0\"], target: \"1\", window: {length: 1}}\n" ORDERED
            SUM_OF_INPUTS);
    check_inputs(&t, 1, 2, 3);
    through_sweep(
        &t,
        "data: {source: csv, path: d.csv, header: true, delimiter: tab, features: [\"1\"], target: \"10\", "
        "window: {length: 1}}\n" ORDERED SUM_OF_INPUTS);
    check_inputs(&t, 2, 3);
    through_file(&t, "d.csv", "a|b\n1|10\n2|20\n3|30\n");
    through_sweep(&t, "data: {source: csv, path: d.csv, delimiter: \"|\", features: [a], target: b, window: "
                      "{length: 1}}\n" ORDERED SUM_OF_INPUTS);
    check_inputs(&t, 1, 2, 3);
    through_file(&t, "d.csv", "a,b\n1,10\n2,20\n3,30\n");
    through_sweep(&t, "data: {source: csv, path: d.csv, header: false, features: [\"0\"], target: \"1\", "
                      "window: {length: 1}}\n" ORDERED SUM_OF_INPUTS);
    through_forget(&t);
    through_refused(&t, "d.csv:1", "'a'", NULL);
    through_close(&t);
}

Test(contract_data, records_gaps_and_disorder)
{
    struct through t;
    through_open(&t);
    /* One gap among 24 steps is under 5 %. */
    char rows[1024] = "t,x\n", row[32];
    for (int i = 0; i < 25; i++) {
        snprintf(row, sizeof row, "%d,%d\n", i < 10 ? i : i + 4, i);
        strcat(rows, row);
    }
    through_file(&t, "d.csv", rows);
    through_sweep(&t, "data: {source: csv, path: d.csv, time: t, features: [x], target: x, window: {length: "
                      "5, label: last}}\n" ORDERED SUM_OF_INPUTS);
    json_t *plan = through_plan(&t);
    check_number(plan, 2, "records");
    check_number(plan, 6 + 11, "examples");
    json_decref(plan);
    cr_assert_eq(through_call(&t, "split", NULL), 0);
    cr_assert(strstr(t.last.out, ",d.csv#2,0\n"), "%s", t.last.out);
    through_sweep(&t, "data: {source: csv, path: d.csv, time: t, gap: 6, features: [x], target: x, "
                      "window: {length: 5, label: last}}\n" ORDERED SUM_OF_INPUTS);
    plan = through_plan(&t);
    check_number(plan, 1, "records");
    json_decref(plan);
    through_file(&t, "d.csv", "t,x,id\n0,1,007\n1,2,007\n2,4,7\n3,8,7\n1,16,7\n2,32,7\n3,64,007\n");
#define DISORDER(more)                                                                                       \
    "data: {source: csv, path: d.csv, time: t, features: [x], target: x, " more                              \
    "window: {length: 2, label: first}}\n" ORDERED SUM_OF_INPUTS
    through_sweep(&t, DISORDER("gap: 9, "));
    through_refused(&t, "d.csv:6", "disorder", NULL);
    through_sweep(&t, DISORDER("gap: 9, disorder: split, "));
    check_inputs(&t, 3, 6, 12, 48, 96);
    /* Ids are text: 007 and 7 are two; one that comes back is a further record of its group. */
    through_sweep(&t, DISORDER("gap: 9, disorder: split, record: id, "));
    check_split(&t, "0,0,007,0;0,1,7,0;1,2,7#2,0");
    through_close(&t);
}

/* ---- targets ---- */

Test(contract_data, classes_in_order_and_others)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", "x,y\n1,b\n2,a\n4,?\n8,b\n16,\n32,a\n");
#define TARGET(what)                                                                                         \
    "data: {source: csv, path: d.csv, features: [x], target: " what                                          \
    ", window: {length: 1}}\n" ORDERED TWO_CLASSES
    through_sweep(&t, TARGET("{column: y, classes: ba, other: skip}"));
    json_t *plan = through_plan(&t);
    check_number(plan, 4, "examples");
    check_text(plan, "classes.0.name", "b");
    check_text(plan, "classes.1.name", "a");
    json_decref(plan);
    check_split(&t, "0,0,d.csv,0;0,1,d.csv,1;1,2,d.csv,3;1,3,d.csv,5");
    through_sweep(&t, TARGET("{column: y, classes: [b, a]}"));
    through_refused(&t, "d.csv:4", "'?'", NULL);
    through_sweep(&t, TARGET("y"));
    through_refused(&t, "d.csv:6", "y", NULL);
    through_file(&t, "d.csv", "x,y\n1,10\n2,9\n4,NO\n8,9\n");
    through_sweep(
        &t,
        "data: {source: csv, path: d.csv, features: [x], target: {column: y, classes: [NO, 9, 10]}, window: "
        "{length: 1}}\n" ORDERED "model: [flatten, {dense: {units: 3, activation: softmax}}]\n"
        "train: {loss: sparse_categorical_crossentropy, epochs: 1}\n");
    plan = through_plan(&t);
    check_text(plan, "classes.0.name", "NO"); /* plain scalars are text as written */
    check_text(plan, "classes.2.name", "10");
    json_decref(plan);
    through_file(&t, "d.csv", "x,y\n1,10\n2,9\n4,9\n8,10\n");
    through_sweep(&t, TARGET("y"));
    plan = through_plan(&t);
    check_text(plan, "classes.0.name", "9"); /* numbers in their order */
    json_decref(plan);
    through_file(&t, "d.csv", "x,y\n1,a\n2,a\n4,a\n8,a\n");
    through_refused(&t, "one class", NULL);
    through_close(&t);
}

/* ---- letters ---- */

Test(contract_data, sequences)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d.csv", "id,s,h,m\np1,ABXA,HECH,1101\np2,BB,EE,11\np3,ABXA,CCCC,1111\n");
#define LETTERS(unknown, more)                                                                               \
    "data: {source: sequences, path: d.csv, record: id, group: s, sequence: {column: s, alphabet: AB, "      \
    "unknown: " unknown "}, target: {column: h, classes: HEC}, mask: {column: m, keep: \"1\"}, " more "}\n"  \
    "cv: {split: group, folds: 2}\n"                                                                         \
    "model: [flatten, {dense: {units: 3, activation: softmax}}]\n"                                           \
    "train: {loss: sparse_categorical_crossentropy, epochs: 1}\n"
    through_sweep(&t, LETTERS("zero", "window: {length: 3}"));
    json_t *plan = through_plan(&t);
    check_number(plan, 3 + 2 + 4, "examples");
    check_number(plan, 3 * 2 * 3 + 3, "networks.0.param_count");
    check_number(plan, 0, "folds.0.identical"); /* twins are of one group */
    cr_assert(noted(plan, "X"));
    json_decref(plan);
    check_split(&t, "0,0,p1,-1;0,1,p1,0;0,2,p1,2;0,5,p3,-1;0,6,p3,0;0,7,p3,1;0,8,p3,2;1,3,p2,-1;1,4,p2,0");
    through_sweep(&t, LETTERS("letter", "window: {length: 3}"));
    plan = through_plan(&t);
    check_number(plan, 3 * 3 * 3 + 3, "networks.0.param_count");
    json_decref(plan);
    through_sweep(&t, LETTERS("error", "window: {length: 3}"));
    through_refused(&t, "d.csv:2", "X", NULL);
    through_sweep(&t, LETTERS("zero", "scale: standard, window: {length: 3}"));
    through_refused(&t, "scale", NULL);
    /* How many known letters a window holds, seen through a network that adds them up. */
    through_file(&t, "d.csv", "id,s,v\np1,ABXA,1234\np2,BB,56\n");
    through_sweep(&t,
                  "data: {source: sequences, path: d.csv, record: id, sequence: {column: s, alphabet: AB}, "
                  "target: {column: v}, window: {length: 3}}\n" ORDERED SUM_OF_INPUTS);
    check_inputs(&t, 2, 2, 2, 1, 2, 2);
    check_targets(&t, 1, 2, 3, 4, 5, 6);
    through_close(&t);
}

/* ---- arrays ---- */

/* A little-endian array: descr "<f4", "<i8", shape "(2, 3)". */
static size_t npy_into(char *out, const char *descr, const char *shape, const void *data, size_t size)
{
    char header[128];
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr,
                     shape);
    memset(out, ' ', 128);
    memcpy(out, "\x93NUMPY\x01\x00\x76\x00", 10); /* 118 bytes of header */
    memcpy(out + 10, header, (size_t)n);
    out[127] = '\n';
    memcpy(out + 128, data, size);
    return 128 + size;
}

static void array(struct through *t, const char *name, const char *descr, const char *shape, const void *data,
                  size_t size)
{
    char bytes[1024], path[128];
    cr_assert(size + 128 <= sizeof bytes);
    cr_assert(ts_write_file(ts_join(path, sizeof path, t->folder, name), bytes,
                            npy_into(bytes, descr, shape, data, size)));
}

Test(contract_data, arrays_of_series_with_groups_weights_and_folds)
{
    static const float x[2][4][1] = {{{1}, {2}, {4}, {8}}, {{16}, {32}, {64}, {128}}};
    static const float y[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    static const long long lengths[2] = {3, 4}, folds[2] = {1, 0};
    static const unsigned char mask[2][4] = {{1, 1, 0, 0}, {1, 1, 1, 1}};
    struct through t;
    through_open(&t);
    array(&t, "x.npy", "<f4", "(2, 4, 1)", x, sizeof x);
    array(&t, "y.npy", "<f4", "(2, 4)", y, sizeof y);
    array(&t, "n.npy", "<i8", "(2,)", lengths, sizeof lengths);
    array(&t, "f.npy", "<i8", "(2,)", folds, sizeof folds);
    array(&t, "m.npy", "|b1", "(2, 4)", mask, sizeof mask);
    through_sweep(&t, "data: {source: npy, x: x.npy, y: y.npy, lengths: n.npy, fold: f.npy, window: {length: "
                      "2, label: last}}\n"
                      "cv: {split: predefined}\n" SUM_OF_INPUTS);
    check_inputs(&t, 48, 96, 192, 3, 6);
    check_targets(&t, 6, 7, 8, 2, 3);
    through_sweep(&t, "data: {source: npy, x: x.npy, y: y.npy, mask: m.npy, fold: f.npy, window: {length: 2, "
                      "label: last}}\n"
                      "cv: {split: predefined}\n" SUM_OF_INPUTS);
    check_inputs(&t, 48, 96, 192, 3);
    /* One label for all positions of a record; groups. */
    array(&t, "y1.npy", "<i8", "(2,)", folds, sizeof folds);
    through_sweep(&t, "data: {source: npy, x: x.npy, y: y1.npy, lengths: n.npy, group: n.npy, window: "
                      "{length: 2, label: last}}\n"
                      "cv: {split: leave_one_group_out}\n" SUM_OF_INPUTS);
    check_inputs(&t, 3, 6, 48, 96, 192);
    check_targets(&t, 1, 1, 0, 0, 0);
    through_close(&t);
}

Test(contract_data, archives_and_pre_cut_examples)
{
    static const float x[4][2] = {{1, 2}, {4, 8}, {16, 32}, {64, 128}};
    static const long long y[4] = {0, 1, 1, 0}, weight[4] = {1, 1, 1, 1};
    static const double distribution[4][2] = {{1, 0}, {0.25, 0.75}, {0, 1}, {0.5, 0.5}};
    char bytes[4][512], path[128];
    struct through t;
    through_open(&t);
    const size_t sizes[4] = {npy_into(bytes[0], "<f4", "(4, 2)", x, sizeof x),
                             npy_into(bytes[1], "<i8", "(4, 1)", y, sizeof y),
                             npy_into(bytes[2], "<i8", "(4,)", weight, sizeof weight),
                             npy_into(bytes[3], "<f8", "(4, 2)", distribution, sizeof distribution)};
    static const char *const names[4] = {"signal.npy", "y.npy", "w.npy", "p.npy"};
    zip_t *zip = zip_open(ts_join(path, sizeof path, t.folder, "d.npz"), ZIP_CREATE | ZIP_TRUNCATE, NULL);
    cr_assert(zip);
    for (size_t i = 0; i < 4; i++)
        cr_assert_geq(zip_file_add(zip, names[i], zip_source_buffer(zip, bytes[i], sizes[i], 0), 0), 0);
    cr_assert_eq(zip_close(zip), 0);
    through_sweep(&t, "data: {source: npz, path: d.npz, x: signal, weight: w}\n" ORDERED SUM_OF_INPUTS);
    check_inputs(&t, 3, 12, 48, 192);
    check_targets(&t, 0, 1, 1, 0);
    /* A distribution is right for one cross-entropy and refused by the other. */
    through_forget(&t);
    through_sweep(
        &t, "data: {source: npz, path: d.npz, x: signal, y: p}\n" ORDERED
            "model: [flatten, {dense: {units: 2, activation: softmax, kernel_initializer: zeros}}]\n"
            "train: {loss: categorical_crossentropy, optimizer: {sgd: {learning_rate: 0}}, epochs: 1}\n");
    json_t *run = through_run(&t);
    check_near(run, 1e-6, log(2), "trials.0.runs.0.metrics.val_loss");
    json_decref(run);
    through_forget(&t);
    through_sweep(&t, "data: {source: npz, path: d.npz, x: signal, y: p}\n" ORDERED TWO_CLASSES);
    through_refused(&t, "[N,K] needs the loss categorical_crossentropy", NULL);
    through_sweep(&t, "data: {source: npz, path: d.npz, y: p}\n" ORDERED SUM_OF_INPUTS);
    through_refused(&t, "d.npz", "'x'", "signal", NULL);
    through_close(&t);
}

Test(contract_data, the_made_up_series)
{
    struct through t;
    through_open(&t);
    through_sweep(&t, "data: {source: sine, samples: 300, anomalies: 12, window: {length: 1}}\n"
                      "cv: {split: blocked}\n" TWO_CLASSES);
    json_t *plan = through_plan(&t);
    check_number(plan, 300, "examples");
    check_number(plan, 12, "classes.1.count");
    json_decref(plan);
    through_close(&t);
}

/* ---- the rest ---- */

Test(contract_data, records_of_several_files)
{
    struct through t;
    through_open(&t);
    through_file(&t, "d1.csv", "id,x\na,1\na,2\nb,4\n");
    through_file(&t, "d2.csv", "id,x\na,8\nNA,16\nNA,32\n");
    through_sweep(
        &t,
        "data: {source: csv, path: \"d*.csv\", record: id, features: [x], target: x, window: {length: 1}}\n"
        "cv: {split: leave_one_group_out}\n" SUM_OF_INPUTS);
    /* An id that occurs in another file is a further record of the same group; NA is an id like any other. */
    check_split(&t, "0,4,NA,0;0,5,NA,1;1,0,a,0;1,1,a,1;1,3,a#2,0;2,2,b,0");
    through_file(&t, "d2.csv", "id,x\na,8\n,16\nNA,32\n");
    through_refused(&t, "d2.csv:3", "record", NULL);
    through_close(&t);
}

Test(contract_data, many_gaps_and_missing_targets)
{
    struct through t;
    char rows[2048] = "t,x,y\n", row[32];
    through_open(&t);
    for (int i = 0; i < 40; i++) {
        snprintf(row, sizeof row, "%d,%d,%d\n", i + i / 8 * 3, i, i % 2);
        strcat(rows, row);
    }
    through_file(&t, "d.csv", rows); /* 4 of 39 steps */
    through_sweep(
        &t,
        "data: {source: csv, path: d.csv, time: t, features: [x], target: y, window: {length: 1}}\n" ORDERED
            TWO_CLASSES);
    through_refused(&t, "gap", NULL);
    /* Targets are never filled. */
    through_file(&t, "d.csv", "x,y\n1,1\n,2\n3,\n4,4\n");
    through_sweep(&t, "data: {source: csv, path: d.csv, features: [x], target: y, missing: ffill, window: "
                      "{length: 1}}\n" ORDERED SUM_OF_INPUTS);
    through_refused(&t, "d.csv:4:3", "target", "missing", NULL);
    through_close(&t);
}

Test(contract_data, the_contracts_own_sweep)
{
    static const int expected[3][3] = {{14683, 7497, 309}, {14375, 7496, 618}, {14478, 7496, 515}};
    struct through t;
    char here[256];
    cr_assert(getcwd(here, sizeof here));
    through_open(&t);
    through_sweep(
        &t,
        "name: machine-temperature\n"
        "data: {source: csv, path: \"%s/folds/machine_temperature.csv\", time: timestamp, disorder: split, "
        "features: [value], target: anomaly, window: {length: 104, edge: drop, label: any}, scale: "
        "standard}\n"
        "cv: {split: blocked, folds: 3, blocks: 12}\n"
        "model: [{conv1d: {filters: \"${filters}\", kernel_size: 9, activation: relu}}, "
        "{max_pooling1d: {pool_size: 4}}, flatten, {dense: {units: 20, activation: relu}}, "
        "{dense: {units: 2, activation: softmax}}]\n"
        "train: {loss: categorical_crossentropy, epochs: 10, class_weight: balanced}\n"
        "metric: {name: val_auc}\n"
        "method: grid\nparameters: {filters: {values: [8, 24]}}\n",
        here);
    json_t *plan = through_plan(&t);
    check_number(plan, 22489, "examples");
    check_number(plan, 3982, "networks.0.param_count");
    for (int f = 0; f < 3; f++) {
        check_number(plan, expected[f][0], "folds.%d.train", f);
        check_number(plan, expected[f][1], "folds.%d.val", f);
        check_number(plan, expected[f][2], "folds.%d.purged", f);
        check_number(plan, 0, "folds.%d.shared", f);
    }
    json_decref(plan);
    through_close(&t);
}
