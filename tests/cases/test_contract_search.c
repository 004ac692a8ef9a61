/* Search, results, --set and keep, key by key, through the whole program. */
#include "through.h"

#define DATA "data: {source: csv, path: d.csv, features: [x], target: y, window: {length: 1}}\n"
#define CV   "cv: {split: kfold, folds: 2, shuffle: false}\n"
#define ZERO "model: [flatten, {dense: {units: 1, kernel_initializer: zeros}}]\n"
#define SGD  "train: {loss: mse, optimizer: {sgd: {learning_rate: \"${lr}\"}}, epochs: 1}\n"

static void begin(struct through *t)
{
    through_open(t);
    through_file(t, "d.csv", "x,y\n1,1\n1,2\n1,3\n1,4\n");
}

/* The params of trial n (from 1) as text. */
static const char *params(const json_t *run, int trial, char *buffer, size_t size)
{
    size_t i;
    json_t *entry;
    json_array_foreach(at(run, "trials"), i, entry) if ((int)number_at(entry, "trial") == trial)
    {
        char *text = json_dumps(at(entry, "params"), JSON_COMPACT | JSON_REAL_PRECISION(12));
        snprintf(buffer, size, "%s", text);
        free(text);
        return buffer;
    }
    cr_assert(0, "no trial %d", trial);
    return "";
}

#define check_params(run, trial, expected)                                                                   \
    do {                                                                                                     \
        char text_[512];                                                                                     \
        cr_assert_str_eq(params(run, trial, text_, sizeof text_), expected);                                 \
    } while (0)

static const json_t *trial_of(const json_t *run, int trial)
{
    size_t i;
    json_t *entry;
    json_array_foreach(at(run, "trials"), i, entry) if ((int)number_at(entry, "trial") == trial) return entry;
    cr_assert(0, "no trial %d", trial);
    return NULL;
}

/* ---- spaces ---- */

Test(contract_search, grid_in_file_order)
{
    struct through t;
    begin(&t);
    through_sweep(&t, DATA CV
                  "model: [flatten, {dense: {units: 1, kernel_initializer: zeros}}]\n"
                  "train: {loss: mse, optimizer: {sgd: {learning_rate: \"${o.lr}\", momentum: \"${o.m}\"}}, "
                  "batch_size: \"${b}\", epochs: \"${e}\"}\n"
                  "method: grid\n"
                  "parameters:\n"
                  "  b: {min: 1, max: 3}\n"
                  "  o: {parameters: {m: {value: 0.5}, lr: {values: [0.1, 0.2]}}}\n"
                  "  e: {value: 1}\n");
    json_t *run = through_run(&t);
    check_size(run, "trials", 6);
    check_params(run, 1, "{\"b\":1,\"o.m\":0.5,\"o.lr\":0.1,\"e\":1}");
    check_params(run, 2, "{\"b\":1,\"o.m\":0.5,\"o.lr\":0.2,\"e\":1}");
    check_params(run, 3, "{\"b\":2,\"o.m\":0.5,\"o.lr\":0.1,\"e\":1}");
    json_decref(run);
    through_forget(&t);
    through_sweep(&t, DATA CV ZERO SGD "method: grid\nparameters: {lr: {min: 0.1, max: 0.2}}\n");
    through_refused(&t, "s.yaml:6:", "lr", "random", NULL);
    through_sweep(&t, DATA CV ZERO SGD
                  "method: grid\nparameters: {lr: {distribution: q_uniform, min: 0.5, max: 1.5, q: 0.5}}\n");
    json_t *plan = through_plan(&t);
    check_number(plan, 3, "trials");
    json_decref(plan);
    through_close(&t);
}

Test(contract_search, values_may_be_maps_and_lists)
{
    struct through t;
    begin(&t);
    through_sweep(&t, DATA CV "model: \"${net}\"\n"
                              "train: {loss: mse, optimizer: \"${opt}\", epochs: 1}\n"
                              "method: grid\n"
                              "parameters:\n"
                              "  opt: {values: [{sgd: {learning_rate: \"${lr}\"}}, adam]}\n"
                              "  lr: {values: [0.1, 0.2]}\n"
                              "  net: {values: [[flatten, {dense: {units: 1}}], [flatten, {dense: {units: "
                              "2}}, {dense: {units: 1}}]]}\n");
    json_t *run = through_run(&t);
    check_size(run, "trials", 2 * 2 + 2); /* adam has no use for lr: equal trials are one */
    int null_rates = 0;
    for (int i = 0; i < 6; i++) {
        char path[64];
        snprintf(path, sizeof path, "trials.%d.params.lr", i);
        bool unused = json_is_null(at(run, path));
        null_rates += unused;
        snprintf(path, sizeof path, "trials.%d.params.opt", i);
        cr_assert_eq(unused, json_is_string(at(run, path)));
        snprintf(path, sizeof path, "trials.%d.params.net", i);
        check_number(run, json_array_size(at(run, path)) == 2 ? 2 : 4 + 3, "trials.%d.param_count", i);
    }
    cr_assert_eq(null_rates, 2);
    json_decref(run);
    through_close(&t);
}

Test(contract_search, unused_parameters)
{
    struct through t;
    begin(&t);
    through_sweep(&t, DATA CV "model:\n"
                              "  - choose: {by: \"${arch}\", options: {small: [flatten], big: [{conv1d: "
                              "{filters: \"${f}\", kernel_size: "
                              "1}}, flatten]}}\n"
                              "  - dense: {units: 1}\n"
                              "train: {loss: mse, epochs: 1}\n"
                              "method: grid\n"
                              "parameters: {arch: {values: [small, big]}, f: {values: [2, 4]}}\n");
    json_t *run = through_run(&t);
    check_size(run, "trials", 3);
    check_params(run, 1, "{\"arch\":\"small\",\"f\":null}");
    check_params(run, 2, "{\"arch\":\"big\",\"f\":2}");
    check_params(run, 3, "{\"arch\":\"big\",\"f\":4}");
    json_decref(run);
    through_forget(&t);
    through_sweep(&t, DATA CV ZERO SGD
                  "method: grid\nparameters: {lr: {values: [0.1]}, momentun: {values: [1, 2]}}\n");
    through_refused(&t, "s.yaml:6:", "momentun", NULL);
    through_sweep(&t, DATA CV ZERO SGD "method: grid\nparameters: {rl: {values: [0.1]}}\n");
    through_refused(&t, "s.yaml:4:", "lr", "rl", NULL);
    through_sweep(
        &t, DATA CV ZERO
        "train: {loss: mse, optimizer: \"x${lr}\"}\nmethod: grid\nparameters: {lr: {values: [1]}}\n");
    through_refused(&t, "s.yaml:4:", "${lr}", NULL);
    through_sweep(&t, "name: \"$${x}\"\n" DATA CV ZERO "train: {loss: mse, epochs: 1}\n");
    run = through_run(&t);
    check_text(run, "sweep", "${x}");
    json_decref(run);
    through_close(&t);
}

Test(contract_search, lists_and_extensions)
{
    struct through t;
    begin(&t);
    through_sweep(&t, DATA CV ZERO SGD
                  "method: list\ntrials: [{lr: 0.1}, {lr: 0.2}]\nparameters: {lr: {values: [0.1, 0.2]}}\n");
    json_t *first = through_run(&t);
    check_size(first, "trials", 2);
    /* More trials extend the sweep; what was taken out is kept but not listed. */
    through_sweep(
        &t, DATA CV ZERO SGD
        "method: list\ntrials: [{lr: 0.3}, {lr: 0.1}]\nparameters: {lr: {values: [0.1, 0.2, 0.3]}}\n");
    json_t *second = through_run(&t);
    check_size(second, "trials", 2);
    cr_assert(json_equal(at(trial_of(first, 1), "runs"), at(trial_of(second, 1), "runs")));
    check_params(second, 3, "{\"lr\":0.3}");
    json_decref(second);
    through_sweep(&t, DATA CV ZERO SGD
                  "method: list\ntrials: [{lr: 0.2}]\nparameters: {lr: {values: [0.1, 0.2]}}\n");
    second = through_run(&t);
    check_size(second, "trials", 1);
    cr_assert(json_equal(at(trial_of(first, 2), "runs"), at(trial_of(second, 2), "runs")));
    json_decref(second);
    json_decref(first);
    through_sweep(&t, DATA CV ZERO SGD
                  "method: list\ntrials: [{rl: 0.2}]\nparameters: {lr: {values: [0.1, 0.2]}}\n");
    cr_assert_eq(through_call(&t, "run", NULL), 2);
    cr_assert(strstr(t.last.err, "rl") && strstr(t.last.err, "s.yaml:6:"), "%s", t.last.err);
    /* What results depend on may not change. */
    through_sweep(&t,
                  DATA CV ZERO "train: {loss: mse, optimizer: {sgd: {learning_rate: \"${lr}\"}}, epochs: 2}\n"
                               "method: list\ntrials: [{lr: 0.2}]\nparameters: {lr: {values: [0.1, 0.2]}}\n");
    cr_assert_eq(through_call(&t, "run", NULL), 2);
    cr_assert(strstr(t.last.err, "train.epochs was 1 and is 2") && strstr(t.last.err, "--fresh"), "%s",
              t.last.err);
    through_close(&t);
}

Test(contract_search, random_draws)
{
    struct through t;
    begin(&t);
#define DRAWN(cap, more)                                                                                     \
    DATA CV ZERO SGD "method: random\nrun_cap: " #cap "\n" more                                              \
                     "parameters: {lr: {distribution: log_uniform_values, min: 1e-4, max: 1e-1}}\n"
    through_sweep(&t, DRAWN(3, ""));
    json_t *first = through_run(&t);
    check_size(first, "trials", 3);
    for (int i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof path, "trials.%d.params.lr", i);
        double lr = number_at(first, path);
        cr_assert(lr >= 1e-4 && lr <= 1e-1);
    }
    through_sweep(&t, DRAWN(5, ""));
    json_t *second = through_run(&t);
    check_size(second, "trials", 5);
    for (int trial = 1; trial <= 3; trial++) {
        cr_assert(json_equal(at(trial_of(first, trial), "params"), at(trial_of(second, trial), "params")));
        cr_assert(json_equal(at(trial_of(first, trial), "runs"), at(trial_of(second, trial), "runs")));
    }
    json_decref(second);
    json_decref(first);
    through_forget(&t);
    /* A finite space is drawn without replacement; listed trials come first; the seed is the search's alone.
     */
    through_sweep(&t, DATA CV ZERO SGD
                  "method: random\nrun_cap: 50\nseed: 4\ntrials: [{lr: 0.25}]\n"
                  "parameters: {lr: {values: [0.1, 0.2, 0.25], probabilities: [0.8, 0.1, 0.1]}}\n");
    json_t *run = through_run(&t);
    check_size(run, "trials", 3);
    check_params(run, 1, "{\"lr\":0.25}");
    json_decref(run);
    through_forget(&t);
    through_sweep(
        &t, DATA CV ZERO SGD
        "method: random\nrun_cap: 5\nparameters: {lr: {values: [1, 2], probabilities: [0.8, 0.1]}}\n");
    through_refused(&t, "s.yaml:7:", "probabilities", NULL);
    through_sweep(&t, DATA CV ZERO SGD "method: random\nparameters: {lr: {min: 0.1, max: 0.2}}\n");
    through_refused(&t, "run_cap", NULL);
    through_sweep(&t, DATA CV ZERO SGD "method: bayes\nrun_cap: 5\nparameters: {lr: {min: 0.1, max: 0.2}}\n");
    through_refused(&t, "s.yaml:5:", "bayes", "not available yet", NULL);
    through_sweep(&t, DATA CV ZERO SGD
                  "method: grid\nearly_terminate: {type: hyperband}\nparameters: {lr: {values: [1]}}\n");
    through_refused(&t, "s.yaml:6:", "early_terminate", "not available yet", NULL);
    through_close(&t);
}

Test(contract_search, whole_numbers_and_text)
{
    struct through t;
    begin(&t);
    through_sweep(&t,
                  "name: 3.10\n" DATA "cv: {split: kfold, folds: 2.0, shuffle: false}\n" ZERO
                  "train: {loss: mse, batch_size: \"${b}\", epochs: 1.0}\n"
                  "method: grid\nparameters: {b: {values: [3, 3.0, 2]}}\nprogram: train.py\ntags: [a, b]\n");
    json_t *run = through_run(&t);
    check_text(run, "sweep", "3.10");
    check_size(run, "trials", 2);
    json_decref(run);
    cr_assert_eq(through_call(&t, "plan", "--json", NULL), 0);
    json_t *plan = through_parsed(&t, t.last.exit_code, 0);
    cr_assert(noted(plan, "program"));
    json_decref(plan);
    through_forget(&t);
    through_sweep(&t, DATA CV ZERO "train: {loss: mse, batch_size: 2.5}\n");
    through_refused(&t, "s.yaml:4:", "batch_size", "2.5", NULL);
    through_sweep(&t, DATA CV ZERO "train: {loss: mse, epochs: 0}\n");
    through_refused(&t, "s.yaml:4:", "epochs", NULL);
    through_sweep(&t, DATA CV ZERO "train: {loss: mse, epochz: 3}\n");
    through_refused(&t, "s.yaml:4:", "epochz", "epochs", NULL);
    through_close(&t);
}

Test(contract_search, window_lengths_share_examples)
{
    struct through t;
    begin(&t);
    through_file(&t, "d.csv", "x,y\n1,1\n2,2\n4,3\n8,4\n16,5\n32,6\n");
    through_sweep(&t, "data: {source: csv, path: d.csv, features: [x], target: y, window: {length: \"${w}\", "
                      "align: end, label: "
                      "anchor}}\n" CV "model: [flatten, {dense: {units: 1, kernel_initializer: ones}}]\n"
                      "train: {loss: mse, optimizer: {sgd: {learning_rate: 0}}, epochs: 1}\n"
                      "keep: {trials: 3}\n"
                      "method: grid\nparameters: {w: {values: [1, 3, 2]}}\n");
    json_t *plan = through_plan(&t);
    check_number(plan, 4, "examples"); /* as many as windows of 3 have */
    check_size(plan, "views", 3);
    check_size(plan, "networks", 3);
    json_decref(plan);
    json_decref(through_run(&t));
    cr_assert_eq(through_call(&t, "export", "--predictions", NULL), 0, "%s", t.last.err);
    double p[12], trial[12];
    static const double sums[3][4] = {{4, 8, 16, 32}, {7, 14, 28, 56}, {6, 12, 24, 48}};
    cr_assert_eq(numbers_of(&t, 6, p, 12), 12);
    numbers_of(&t, 0, trial, 12);
    for (int i = 0; i < 12; i++) cr_assert_float_eq(p[i], sums[(int)trial[i] - 1][i % 4], 1e-6);
    through_close(&t);
}

/* ---- results ---- */

Test(contract_search, ties_share_the_lower_rank)
{
    struct through t;
    begin(&t);
    /* With a rate of 0 the batch size changes nothing; initial weights do not depend on the trial. */
    through_sweep(
        &t, DATA CV
        "model: [flatten, {dense: {units: 1}}]\n"
        "train: {loss: mse, optimizer: {sgd: {learning_rate: \"${lr}\"}}, batch_size: \"${b}\", epochs: 3}\n"
        "method: grid\nparameters: {lr: {values: [0, 1e-2]}, b: {values: [1, 2]}}\n");
    json_t *run = through_run(&t);
    int ranks[5] = {0};
    for (int trial = 1; trial <= 4; trial++) ranks[trial] = (int)number_at(trial_of(run, trial), "rank");
    cr_assert(ranks[1] == ranks[2] && ranks[3] != ranks[4], "%d %d %d %d", ranks[1], ranks[2], ranks[3],
              ranks[4]);
    cr_assert_eq(ranks[1] + ranks[3] + ranks[4], ranks[1] == 1 ? 1 + 3 + 4 : 3 + 1 + 2);
    double mean = 0, square = 0;
    for (int f = 0; f < 2; f++) {
        char path[64];
        snprintf(path, sizeof path, "runs.%d.metrics.val_loss", f);
        double loss = number_at(trial_of(run, 3), path);
        mean += loss / 2;
        square += loss * loss / 2;
    }
    cr_assert_float_eq(number_at(trial_of(run, 3), "mean"), mean, 1e-9);
    cr_assert_float_eq(number_at(trial_of(run, 3), "std"), sqrt(square - mean * mean),
                       1e-6); /* of the population */
    json_decref(run);
    through_close(&t);
}

Test(contract_search, completed_then_failed_then_invalid)
{
    struct through t;
    begin(&t);
    through_sweep(
        &t,
        DATA CV "model: [{max_pooling1d: {pool_size: \"${p}\"}}, flatten, {dense: {units: 1}}]\n"
                "train: {loss: mse, optimizer: {sgd: {learning_rate: \"${lr}\"}}, batch_size: 1, epochs: 2}\n"
                "method: grid\nparameters: {p: {values: [2, 1]}, lr: {values: [1e30, 0.01, 0.02]}}\n");
    json_t *run = through_run(&t); /* exit 0: some trials are good */
    static const char *const states[6] = {"completed", "completed", "failed",
                                          "invalid",   "invalid",   "invalid"};
    for (int i = 0; i < 6; i++) {
        char path[64];
        snprintf(path, sizeof path, "trials.%d.status", i);
        check_text(run, path, states[i]);
        snprintf(path, sizeof path, "trials.%d.rank", i);
        cr_assert_eq(json_is_null(at(run, path)), i >= 2);
    }
    cr_assert(json_is_null(at(run, "trials.2.mean")));
    check_text(run, "trials.2.reason.code", "nan");
    check_text(run, "trials.2.runs.0.reason.code", "nan");
    check_text(run, "trials.3.reason.code", "shape");
    check_number(run, 4, "trials.2.trial");
    json_decref(run);
    through_close(&t);
}

Test(contract_search, metrics_that_no_fold_defines_come_last)
{
    struct through t;
    begin(&t);
    through_file(&t, "d.csv", "x,y,f\n1,b,0\n2,b,0\n3,a,1\n4,a,1\n");
    through_sweep(&t, "data: {source: csv, path: d.csv, features: [x], target: y, window: {length: 1}}\n"
                      "cv: {split: predefined, column: f}\n" TWO_CLASSES "metric: {name: val_auc}\n");
    json_t *run = through_run(&t);
    check_text(run, "trials.0.status", "completed");
    cr_assert(json_is_null(at(run, "trials.0.mean")));
    check_number(run, 0, "trials.0.defined");
    check_text(run, "metric.goal", "maximize");
    json_decref(run);
    through_forget(&t);
    through_sweep(&t, "data: {source: csv, path: d.csv, features: [x], target: y, window: {length: 1}}\n"
                      "cv: {split: predefined, column: f}\n" TWO_CLASSES
                      "metric: {name: val_auc, goal: minimize}\n");
    through_refused(&t, "s.yaml:5:", "val_auc", "larger", NULL);
    through_sweep(&t, "data: {source: csv, path: d.csv, features: [x], target: y, window: {length: 1}}\n"
                      "cv: {split: predefined, column: f}\n" TWO_CLASSES "metric: {name: val_r2}\n");
    through_refused(&t, "s.yaml:5:", "r2", NULL);
    through_close(&t);
}

Test(contract_search, keep)
{
    struct through t;
    char rows[2048], path[160];
    begin(&t);
#define KEEP(what)                                                                                           \
    DATA CV ZERO SGD "keep: " what "\nmethod: grid\nparameters: {lr: {values: [0.1, 0, 0.2]}}\n"
    through_sweep(&t, KEEP("{trials: 2}"));
    json_t *run = through_run(&t);
    int best = (int)number_at(run, "trials.0.trial"), next = (int)number_at(run, "trials.1.trial");
    json_decref(run);
    cr_assert_eq(through_call(&t, "export", "--predictions", NULL), 0);
    rows_from(&t, 0, rows, sizeof rows);
    int seen[4] = {0};
    for (char *row = strtok(rows, ";"); row; row = strtok(NULL, ";")) seen[row[0] - '0']++;
    cr_assert(seen[best] == 4 && seen[next] == 4 && seen[1] + seen[2] + seen[3] == 8);
    through_forget(&t);
    through_sweep(&t, KEEP("{predictions: false}"));
    json_decref(through_run(&t));
    cr_assert_neq(through_call(&t, "export", "--predictions", NULL), 0);
    cr_assert(strstr(t.last.err, "keep"), "%s", t.last.err);
    cr_assert_eq(through_call(&t, "export", "--weights", ts_join(path, sizeof path, t.folder, "w"), NULL), 0,
                 "%s", t.last.err);
    through_forget(&t);
    through_sweep(&t, KEEP("{trials: 0}"));
    json_decref(through_run(&t));
    cr_assert_neq(through_call(&t, "export", "--weights", ts_join(path, sizeof path, t.folder, "v"), NULL),
                  0);
    through_close(&t);
}

/* ---- --set ---- */

Test(contract_search, settings)
{
    struct through t;
    begin(&t);
    through_sweep(&t, DATA CV ZERO SGD "method: grid\nparameters: {lr: {values: [0.1, 0.2]}}\n");
    json_t *plan =
        through_parsed(&t,
                       through_call(&t, "plan", "--json", "--set", "cv.folds=4", "--set",
                                    "parameters.lr.values=[1, 2, 3]", "--set", "train.epochs=7", NULL),
                       0);
    check_number(plan, 3, "trials");
    check_size(plan, "folds", 4);
    json_decref(plan);
    plan = through_parsed(&t,
                          through_call(&t, "plan", "--json", "--set", "data.window={length: 2, label: last}",
                                       "--set", "name=3.10", NULL),
                          0);
    check_number(plan, 3, "examples");
    check_text(plan, "sweep", "3.10");
    json_decref(plan);
    json_t *run = through_parsed(&t,
                                 through_call(&t, "run", "--json", "--set", "train.epochs=3", "--set",
                                              "parameters.lr.values=[0]", NULL),
                                 0);
    check_number(run, 3, "trials.0.runs.0.epochs");
    check_near(run, 1e-6, 2.5, "trials.0.runs.0.metrics.val_loss");
    json_decref(run);
    cr_assert_eq(through_call(&t, "plan", "--set", "train.epoch=3", NULL), 2);
    cr_assert(strstr(t.last.err, "epoch") && strstr(t.last.err, "epochs"), "%s", t.last.err);
    cr_assert_eq(through_call(&t, "plan", "--set", "train.epochs", NULL), 2);
    cr_assert_eq(through_call(&t, "plan", "--set", "train.epochs=[1", NULL), 2);
    cr_assert_eq(through_call(&t, "plan", "--set", "data.path=none.csv", NULL), 2, "%s", t.last.err);
    cr_assert(strstr(t.last.err, "none.csv"), "%s", t.last.err);
    through_close(&t);
}

/* ---- the same again ---- */

Test(contract_search, another_journal_the_same_numbers)
{
    struct through t;
    char other[160];
    begin(&t);
    through_sweep(
        &t, DATA
        "cv: {split: kfold, folds: 2}\nmodel: [flatten, {dense: {units: 3, activation: tanh}}, {dropout: "
        "{rate: 0.5}}, {dense: {units: 1}}]\n"
        "train: {loss: mse, optimizer: {adam: {learning_rate: \"${lr}\"}}, batch_size: 1, epochs: 4}\n"
        "method: grid\nparameters: {lr: {values: [0.1, 0.01, 0.001]}}\n");
    json_t *first = through_parsed(&t, through_call(&t, "run", "--json", "--lanes", "1", NULL), 0);
    json_t *second = through_parsed(&t,
                                    through_call(&t, "run", "--json", "--lanes", "3", "--journal",
                                                 ts_join(other, sizeof other, t.folder, "other.db"), NULL),
                                    0);
    cr_assert(json_equal(at(first, "trials"), at(second, "trials")));
    check_text(second, "journal", other);
    cr_assert_eq(number_at(first, "format"), 1);
    cr_assert(json_is_true(at(first, "finished")));
    json_decref(second);
    second = through_parsed(&t, through_call(&t, "run", "--json", NULL), 0);
    cr_assert(json_equal(at(first, "trials"), at(second, "trials")));
    json_decref(second);
    json_decref(first);
    through_close(&t);
}
