/* The sweep file: the two examples of the contract, defaults that depend on other keys, and a table of
 * mistakes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "config/sweep_text.h"
#include "support/support.h"

static const char sensor[] =
    "name: machine-temperature\n"
    "data:\n"
    "  source: csv\n"
    "  path: machine_temperature.csv\n"
    "  time: timestamp\n"
    "  disorder: split\n"
    "  features: [value]\n"
    "  target: anomaly\n"
    "  window: {length: 104, edge: drop, label: any}\n"
    "  scale: standard\n"
    "cv: {split: blocked, folds: 3, blocks: 12}\n"
    "model:\n"
    "  - conv1d: {filters: \"${filters}\", kernel_size: 9, activation: relu}\n"
    "  - flatten\n"
    "  - dense: {units: 2, activation: softmax}\n"
    "train:\n"
    "  loss: categorical_crossentropy\n"
    "  optimizer: {adam: {learning_rate: \"${learning_rate}\", global_clipnorm: 1.0}}\n"
    "  epochs: 10\n"
    "  class_weight: balanced\n"
    "  early_stopping: {monitor: val_loss, patience: 3, restore_best_weights: true}\n"
    "metric: {name: val_auc}\n"
    "method: grid\n"
    "parameters:\n"
    "  filters: {values: [8, 24]}\n"
    "  learning_rate: {values: [1e-3, 3e-3]}\n";

Test(sweep, the_sensor_sweep)
{
    struct fm_sweep s;
    struct fm_error err = {0};
    cr_assert_eq(fm_sweep_parse(&s, "night/temp.v2.yaml", sensor, strlen(sensor), NULL, 0, NULL, &err), 0,
                 "%s", err.text);
    cr_expect_str_eq(s.name, "machine-temperature");
    cr_expect_str_eq(s.folder, "night");
    cr_expect_eq(s.data.source, FM_SOURCE_CSV);
    cr_expect_eq(s.data.disorder, FM_DISORDER_SPLIT);
    cr_expect_eq(s.data.gap, 1.5);
    cr_expect_eq(s.data.window.label, FM_LABEL_ANY);
    cr_expect_eq(s.data.window.stride, 1);
    cr_expect_eq(s.data.scale, FM_SCALE_STANDARD);
    cr_expect(s.cv.split == FM_SPLIT_BLOCKED && s.cv.folds == 3 && s.cv.blocks == 12 && s.cv.purge &&
              !s.cv.shuffle);
    cr_expect(s.metric.part == FM_PART_VAL && s.metric.metric == FM_METRIC_AUC && s.maximize);
    cr_expect_eq(s.method, FM_METHOD_GRID);
    cr_expect(s.keep.trials == 1 && s.keep.predictions && s.keep.weights);
    fm_sweep_fini(&s);
    cr_assert_eq(
        fm_sweep_parse(&s, "night/temp.v2.yaml", sensor + 26, strlen(sensor) - 26, NULL, 0, NULL, &err), 0);
    cr_expect_str_eq(s.name, "temp.v2");
    fm_sweep_fini(&s);
}

/* The two files of ../shared/sweep-file.md, as they stand there. */
Test(sweep, the_contracts_own_examples)
{
    size_t size;
    char path[256];
    if (!ts_shared()) cr_skip("../shared is absent");
    char *text = ts_read_file(ts_join(path, sizeof path, ts_shared(), "sweep-file.md"), &size);
    if (!text) cr_skip("../shared/sweep-file.md is absent");
    char *at = text;
    for (int i = 0; i < 2; i++) {
        char *start = strstr(at, "```yaml\n") + 8, *end = strstr(start, "```");
        struct fm_sweep s;
        struct fm_error err = {0};
        struct fm_notes notes = {0};
        cr_expect_eq(fm_sweep_parse(&s, "x.yaml", start, (size_t)(end - start), NULL, 0, &notes, &err), 0,
                     "%s", err.text);
        cr_expect_eq(notes.count, 0);
        fm_sweep_fini(&s);
        fm_notes_fini(&notes);
        at = end;
    }
    free(text);
}

Test(sweep, split_defaults)
{
    static const struct {
        const char *cv;
        int64_t folds;
        bool shuffle, purge;
        double test_size;
    } rows[] = {
        {"{split: kfold}", 3, true, false, 0},
        {"{split: stratified, folds: 5}", 5, true, false, 0},
        {"{split: group}", 3, false, false, 0},
        {"{split: group, shuffle: true}", 3, true, false, 0},
        {"{split: stratified_group}", 3, false, false, 0},
        {"{split: blocked}", 3, false, true, 0},
        {"{split: blocked, purge: false}", 3, false, false, 0},
        {"{split: time_series}", 3, false, true, 0},
        {"{split: leave_one_group_out}", 0, false, false, 0},
        {"{split: holdout}", 1, true, false, 0.25},
        {"{split: holdout, folds: 1, shuffle: false, test_size: 0.3}", 1, false, true, 0.3},
        {"{split: predefined, column: fold}", 0, false, false, 0},
        {"{split: kfold, embargo: 3}", 3, true, true, 0},
        {"{split: kfold, shuffle: false}", 3, false, false, 0},
        {"{split: kfold, folds: 4.0, repeats: 2, shuffle: false}", 4, false, false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fm_sweep s;
        struct fm_error err;
        struct ts_sections text = {.cv = rows[i].cv};
        cr_assert_eq(ts_parse_sections(&s, &text, NULL, &err), 0, "%s: %s", rows[i].cv, err.text);
        cr_expect(s.cv.folds == rows[i].folds && s.cv.shuffle == rows[i].shuffle &&
                      s.cv.purge == rows[i].purge && s.cv.test_size == rows[i].test_size,
                  "%s", rows[i].cv);
        fm_sweep_fini(&s);
    }
}

Test(sweep, source_defaults)
{
    struct fm_sweep s;
    struct fm_error err;
    struct ts_sections text = {.data =
                                   "{source: sequences, path: [a.csv, b.csv], sequence: {column: s, "
                                   "alphabet: ACDE}, target: {column: t, "
                                   "classes: HEC}, mask: {column: m, keep: 1}, window: {length: \"${w}\"}}",
                               .train = "{loss: sparse_categorical_crossentropy}",
                               .rest = "method: grid\nparameters: {w: {values: [13, 17]}}\n"};
    cr_assert_eq(ts_parse_sections(&s, &text, NULL, &err), 0, "%s", err.text);
    cr_expect(s.data.window.align == FM_ALIGN_CENTER && s.data.window.edge == FM_EDGE_ZERO);
    cr_expect(s.data.window.label == FM_LABEL_ANCHOR && !s.data.window.label_given);
    cr_expect_str_eq(s.data.mask.keep->text, "1");
    cr_expect_eq(s.data.sequence.unknown, FM_UNKNOWN_ZERO);
    fm_sweep_fini(&s);
    text = (struct ts_sections){.data = "{source: npz, path: a.npz, group: g, fold: f}",
                                .cv = "{split: predefined}"};
    cr_assert_eq(ts_parse_sections(&s, &text, NULL, &err), 0, "%s", err.text);
    cr_expect_str_eq(s.data.x->text, "x");
    cr_expect_str_eq(s.data.y->text, "y");
    cr_expect_str_eq(s.data.array_group->text, "g");
    cr_expect(!s.data.group && !s.data.has_window);
    fm_sweep_fini(&s);
    text = (struct ts_sections){
        .data = "{source: sine, window: {length: 8, label: any, horizon: [1, 4], edge: wrap}}",
        .train = "{loss: categorical_crossentropy}"};
    cr_assert_eq(ts_parse_sections(&s, &text, NULL, &err), 0, "%s", err.text);
    cr_expect(s.data.sine.samples == 1049344 && s.data.sine.anomalies == 50000 && s.data.sine.noise == 0.2 &&
              s.data.sine.height == 0.5 && s.data.sine.seed == 0);
    cr_expect(s.data.window.horizon_range && s.data.window.horizon_first == 1 &&
              s.data.window.horizon_last == 4);
    cr_expect_eq(s.data.window.edge, FM_EDGE_WRAP);
    fm_sweep_fini(&s);
}

Test(sweep, missing_and_scale_by_column)
{
    struct fm_sweep s;
    struct fm_error err;
    struct ts_sections text = {
        .data = "{source: csv, path: a.csv, features: [x, 'a*'], target: y, window: {length: 1}, delimiter: "
                "tab, decimal: ',', "
                "missing: {x: {interpolate: 2}, 'a*': -1.5, ffill: drop}, scale: {x: robust, 'a*': none}}"};
    cr_assert_eq(ts_parse_sections(&s, &text, NULL, &err), 0, "%s", err.text);
    cr_assert_eq(s.data.missing_count, 3);
    cr_expect(s.data.missing_columns[0].rule.kind == FM_MISSING_INTERPOLATE &&
              s.data.missing_columns[0].rule.limit == 2);
    cr_expect(s.data.missing_columns[1].rule.kind == FM_MISSING_VALUE &&
              s.data.missing_columns[1].rule.value == -1.5);
    cr_expect(s.data.missing_columns[2].rule.kind == FM_MISSING_DROP);
    cr_expect(s.data.scale_count == 2 && s.data.scale_columns[0].scale == FM_SCALE_ROBUST);
    cr_expect(s.data.delimiter == '\t' && s.data.decimal == ',');
    fm_sweep_fini(&s);
    text.data =
        "{source: csv, path: a.csv, features: all, target: y, window: {length: 1}, missing: {ffill: 5}}";
    cr_assert_eq(ts_parse_sections(&s, &text, NULL, &err), 0, "%s", err.text);
    cr_expect(s.data.missing.kind == FM_MISSING_FFILL && s.data.missing.limit == 5 &&
              s.data.missing_count == 0);
    fm_sweep_fini(&s);
}

Test(sweep, literal_dollar_braces)
{
    struct fm_sweep s;
    struct fm_error err;
    struct ts_sections text = {
        .data = "{source: csv, path: 'a/$${x}/$$b.csv', features: [x], target: y, window: {length: 1}}"};
    cr_assert_eq(ts_parse_sections(&s, &text, NULL, &err), 0, "%s", err.text);
    cr_expect_str_eq(s.data.path->text, "a/${x}/$$b.csv");
    fm_sweep_fini(&s);
}

Test(sweep, settings_come_before_reading)
{
    struct fm_sweep s;
    struct fm_error err = {0};
    const char *good[] = {"cv.folds=5", "train.epochs=2", "metric={name: val_f1}"};
    cr_assert_eq(fm_sweep_parse(&s, "t.yaml", sensor, strlen(sensor), good, 3, NULL, &err), 0, "%s",
                 err.text);
    cr_expect_eq(s.cv.folds, 5);
    cr_expect_eq(s.metric.metric, FM_METRIC_F1);
    fm_sweep_fini(&s);
    const char *bad[] = {"cv.fold=5"};
    cr_expect_eq(fm_sweep_parse(&s, "t.yaml", sensor, strlen(sensor), bad, 1, NULL, &err), FM_EFILE);
    cr_expect_str_eq(err.file, "--set cv.fold");
    cr_expect(strstr(err.text, "did you mean 'folds'"), "%s", err.text);
}

Test(sweep, wandb_keys_are_noted)
{
    struct fm_sweep s;
    struct fm_error err;
    struct fm_notes notes = {0};
    struct ts_sections text = {.rest = "program: train.py\nproject: p\ncommand: [\"${env}\", "
                                       "python]\nentity: me\ndescription: d\ntags: [a, b]\n"};
    cr_assert_eq(ts_parse_sections(&s, &text, &notes, &err), 0, "%s", err.text);
    cr_expect_eq(notes.count, 4);
    cr_expect(strstr(notes.text[0], "folder/s.yaml:5:1: program is ignored"), "%s", notes.text[0]);
    cr_expect_str_eq(s.description, "d");
    fm_sweep_fini(&s);
    fm_notes_fini(&notes);
}

enum section { DATA, CV, MODEL, TRAIN, REST };

static const struct {
    enum section section;
    const char *text, *says;
    int64_t line;
    int code;
} mistakes[] = {
    {REST, "epoch: 3\n", "unknown key 'epoch' in a sweep file", 5, FM_EFILE},
    {REST, "paramters: {}\n", "did you mean 'parameters'", 5, FM_EFILE},
    {REST, "early_terminate: {type: race}\n", "early_terminate is not available yet", 5, FM_ELATER},
    {REST, "limits: {time: 8h}\n", "limits is not available yet", 5, FM_ELATER},
    {REST, "method: bayes\n", "bayes is not available yet", 5, FM_ELATER},
    {REST, "method: gird\n", "did you mean grid", 5, FM_EFILE},
    {REST, "method: list\n", "needs trials", 5, FM_EFILE},
    {REST, "parameters: {a: {values: [1]}}\n", "method is missing", 5, FM_EFILE},
    {REST, "method: grid\nparameters: [a]\n", "expected a mapping of names", 6, FM_EFILE},
    {REST, "run_cap: 0\n", "run_cap is 0; expected a whole number, at least 1", 5, FM_EFILE},
    {REST, "run_cap: many\n", "run_cap is many; expected a whole number", 5, FM_EFILE},
    {REST, "run_cap: 1000000000000000000\n", "at least 1 and at most 9007199254740992", 5, FM_EFILE},
    {REST, "seed: 99999999999999999999\n", "expected a whole number of less than 2^63", 5, FM_EFILE},
    {REST, "seed: -1\n", "seed is -1; expected a whole number, at least 0", 5, FM_EFILE},
    {REST, "seed: '1'\n", "remove the quotes", 5, FM_EFILE},
    {REST, "name: [a]\n", "name is a list; expected text", 5, FM_EFILE},
    {REST, "keep: {trials: -1}\n", "keep.trials is -1", 5, FM_EFILE},
    {REST, "keep: {weights: yes}\n", "keep.weights is yes; expected true or false", 5, FM_EFILE},
    {REST, "keep: 3\n", "keep is a single value; expected a mapping", 5, FM_EFILE},
    {REST, "metric: {name: auc}\n", "did you mean val_auc", 5, FM_EFILE},
    {REST, "metric: {name: val_acuracy}\n", "did you mean val_accuracy", 5, FM_EFILE},
    {REST, "metric: {name: loss}\n", "did you mean val_loss", 5, FM_EFILE},
    {REST, "metric: {name: inner_mae}\n", "cv.inner is not given", 5, FM_EFILE},
    {REST, "metric: {name: val_mae, goal: maximize}\n", "val_mae is better when it is smaller", 5, FM_EFILE},
    {REST, "metric: {name: val_r2, goal: minimize}\n", "val_r2 is better when it is larger", 5, FM_EFILE},
    {REST, "metric: {name: val_auc}\n", "auc measures classes", 5, FM_EFILE},
    {REST, "metric: {name: val_r2, goal: up}\n", "expected minimize or maximize", 5, FM_EFILE},
    {REST, "data: {}\n", "the same key twice", 5, FM_EFILE},
    {MODEL, "{flatten: {}, dense: {units: 1}}", "put '- ' before each layer", 3, FM_EFILE},
    {MODEL, "[]", "empty list", 3, FM_EFILE},
    {MODEL, "flatten", "expected a list of layers", 3, FM_EFILE},
    {DATA, "", "data is empty", 1, FM_EFILE},
    {DATA, "[x]", "data is a list; expected a mapping", 1, FM_EFILE},
    {DATA, "{path: a.csv}", "data.source is missing", 1, FM_EFILE},
    {DATA, "{source: cvs}", "did you mean csv", 1, FM_EFILE},
    {DATA, "{source: csv}", "data.path is missing: source csv needs a file", 1, FM_EFILE},
    {DATA, "{source: csv, path: a}", "data.features is missing", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x}", "data.target is missing", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: y}", "data.window is missing", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: [x, x], target: y, window: {length: 1}}", "names 'x' twice", 1,
     FM_EFILE},
    {DATA, "{source: csv, path: [], features: x, target: y, window: {length: 1}}",
     "data.path is an empty list", 1, FM_EFILE},
    {DATA, "{source: csv, path: {a: b}, features: x, target: y, window: {length: 1}}",
     "data.path is a mapping", 1, FM_EFILE},
    {DATA, "{source: csv, path: '${p}', features: x, target: y, window: {length: 1}}",
     "a parameter cannot stand here", 1, FM_EFILE},
    {DATA, "{source: csv, path: 'a${p}.csv', features: x, target: y, window: {length: 1}}",
     "must be the whole value", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, sequence: {column: s, alphabet: AB}}",
     "data.sequence belongs to source sequences, not to csv", 1, FM_EFILE},
    {DATA, "{source: sine, path: a}", "data.path belongs to source csv, sequences or npz, not to sine", 1,
     FM_EFILE},
    {DATA, "{source: npz, path: a, time: t}", "data.time belongs to source csv", 1, FM_EFILE},
    {DATA, "{source: npy, y: b.npy}", "data.x is missing", 1, FM_EFILE},
    {DATA, "{source: npz, path: a, lengths: n}", "data.lengths needs data.window", 1, FM_EFILE},
    {DATA, "{source: npz, path: a, fold: f}", "only with cv.split: predefined", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: y, window: {length: 1}, gap: 2}",
     "data.gap needs data.time", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: y, window: {length: 1}, time: t, gap: 0.5}",
     "data.gap is 0.5; expected a number at least 1", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: y, window: {length: 1}, delimiter: ';;'}",
     "data.delimiter is ';;'", 1, FM_EFILE},
    {DATA,
     "{source: csv, path: a, features: x, target: y, window: {length: 1}, delimiter: ',', decimal: ','}",
     "are both ','", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: y, window: {length: 1}, missing: mean}",
     "data.missing is mean; expected error, drop, interpolate or ffill", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: y, window: {length: 1}, missing: {ffill: 0}}",
     "at least 1 value in a row", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: y, window: {length: 1}, scale: standart}",
     "did you mean standard", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: y, window: {length: 1}, scale_fit: all}",
     "does nothing without data.scale", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: y, window: {length: 0}}", "data.window.length is 0",
     1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: y, window: {length: 4}}",
     "data.window.label is missing", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: y, window: {stride: 4}}",
     "data.window.length is missing", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: y, window: {length: 4, label: any, stride: 0}}",
     "data.window.stride is 0", 1, FM_EFILE},
    {DATA,
     "{source: csv, path: a, features: x, target: y, window: {length: 4, label: last, horizon: [1, 2]}}",
     "needs label: any", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: y, window: {length: 4, label: any, horizon: [3, 2]}}",
     "needs a <= b", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: y, window: {length: 4, label: last, horizon: -1}}",
     "data.window.horizon is -1", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: {column: y, classes: [a]}, window: {length: 1}}",
     "two classes at least", 1, FM_EFILE},
    {DATA,
     "{source: csv, path: a, features: x, target: {column: y, classes: [a, b, a]}, window: {length: 1}}",
     "names 'a' twice", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: {column: y, classes: HEH}, window: {length: 1}}",
     "holds 'H' twice", 1, FM_EFILE},
    {DATA, "{source: csv, path: a, features: x, target: {classes: HE}, window: {length: 1}}",
     "data.target.column is missing", 1, FM_EFILE},
    {DATA,
     "{source: sequences, path: a, sequence: {column: s, alphabet: ABA}, target: t, window: {length: 3}}",
     "alphabet holds 'A' twice", 1, FM_EFILE},
    {DATA,
     "{source: sequences, path: a, sequence: {column: s, alphabet: AB}, target: t, window: {length: 3}, "
     "scale: minmax}",
     "letters cannot be scaled", 1, FM_EFILE},
    {DATA,
     "{source: sequences, path: a, sequence: {column: s, alphabet: AB}, target: t, window: {length: 3}, "
     "mask: m}",
     "data.mask is a single value; expected a mapping", 1, FM_EFILE},
    {DATA, "{source: sine, samples: 10, anomalies: 11, window: {length: 1}}",
     "data.anomalies is 11, more than the 10 samples", 1, FM_EFILE},
    {DATA, "{source: sine, noise: -1, window: {length: 1}}", "data.noise is -1", 1, FM_EFILE},
    {CV, "{}", "cv.split is missing", 2, FM_EFILE},
    {CV, "{split: k_fold}", "did you mean kfold", 2, FM_EFILE},
    {CV, "{split: kfold, folds: 1}", "expected at least 2", 2, FM_EFILE},
    {CV, "{split: kfold, folds: 2.5}", "cv.folds is 2.5; expected a whole number", 2, FM_EFILE},
    {CV, "{split: holdout, folds: 2}", "use cv.repeats", 2, FM_EFILE},
    {CV, "{split: leave_one_group_out, folds: 2}", "as many as the groups", 2, FM_EFILE},
    {CV, "{split: predefined, column: f, folds: 2}", "as many as the fold numbers", 2, FM_EFILE},
    {CV, "{split: predefined}", "needs one of cv.file or cv.column", 2, FM_EFILE},
    {CV, "{split: predefined, file: f, column: c}", "needs only one of", 2, FM_EFILE},
    {CV, "{split: kfold, blocks: 6}", "cv.blocks is for split: blocked; cv.split is kfold", 2, FM_EFILE},
    {CV, "{split: blocked, folds: 4, blocks: 3}", "fewer than the 4 folds", 2, FM_EFILE},
    {CV, "{split: blocked, shuffle: true}", "which keeps the order", 2, FM_EFILE},
    {CV, "{split: time_series, shuffle: true}", "which keeps the order", 2, FM_EFILE},
    {CV, "{split: predefined, column: f, shuffle: true}", "given by the data", 2, FM_EFILE},
    {CV, "{split: kfold, test_size: 0.2}", "is for time_series and holdout", 2, FM_EFILE},
    {CV, "{split: time_series, test_size: 0.2}", "takes a number of examples", 2, FM_EFILE},
    {CV, "{split: holdout, test_size: 0}", "cv.test_size is 0", 2, FM_EFILE},
    {CV, "{split: holdout, test_size: 1.5}", "cv.test_size is 1.5", 2, FM_EFILE},
    {CV, "{split: holdout, gap: 2}", "cv.gap is for split: time_series", 2, FM_EFILE},
    {CV, "{split: kfold, file: f}", "cv.file is for split: predefined", 2, FM_EFILE},
    {CV, "{split: kfold, purge: false, embargo: 3}", "contradicts cv.embargo: 3", 2, FM_EFILE},
    {CV, "{split: kfold, embargo: -1}", "cv.embargo is -1", 2, FM_EFILE},
    {CV, "{split: kfold, seed: 4294967296}", "expected 0 to 4294967295", 2, FM_EFILE},
    {CV, "{split: kfold, seed: 'abc'}", "cv.seed is \"abc\"; expected a whole number", 2, FM_EFILE},
    {CV, "{split: kfold, repeats: '${r}'}", "a parameter cannot stand here", 2, FM_EFILE},
    {CV, "{split: kfold, leak: ignore}", "expected warn or error", 2, FM_EFILE},
    {CV, "{split: kfold, inner: {split: kfold}}", "cv.inner.split is kfold; expected holdout", 2, FM_EFILE},
    {CV, "{split: kfold, inner: {test_size: 1}}", "above 0 and below 1", 2, FM_EFILE},
    {CV, "{split: kfold, inner: {test_size: 0.9}}", "use 0.5 or less", 2, FM_EFILE},
    {TRAIN, "{epochs: 3}", "train.loss is missing", 4, FM_EFILE},
    {TRAIN, "{loss: mse, epoch: 3}", "did you mean 'epochs'", 4, FM_EFILE},
    {TRAIN, "{loss: '${l}', epoch: 3}", "did you mean 'epochs'", 4, FM_EFILE},
    {TRAIN, "{loss: mse, optimizer: {adam: {learning_rate: '${lr}', beta1: 0.5}}}", "did you mean 'beta_1'",
     4, FM_EFILE},
};

Test(sweep, every_mistake_has_a_place_and_a_word)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct fm_sweep s;
        struct fm_error err;
        struct ts_sections text = {0};
        const char **sections[] = {&text.data, &text.cv, &text.model, &text.train, &text.rest};
        *sections[mistakes[i].section] = mistakes[i].text;
        int code = ts_parse_sections(&s, &text, NULL, &err);
        cr_expect_eq(code, mistakes[i].code, "%s: code %d, %s", mistakes[i].text, code, err.text);
        cr_expect_eq(err.line, mistakes[i].line, "%s: line %lld, %s", mistakes[i].text, (long long)err.line,
                     err.text);
        cr_expect_gt(err.column, 0, "%s", mistakes[i].text);
        cr_expect(strstr(err.text, mistakes[i].says), "%s: %s", mistakes[i].text, err.text);
        if (!code) fm_sweep_fini(&s);
    }
}

/* The table that reads is the table that helps: every key of every section is printed. */
Test(sweep, help_prints_every_key)
{
    for (const struct fm_key_section *section = fm_sweep_sections(); section->title; section++) {
        struct fm_text text = {0};
        fm_keys_print(section, &text);
        cr_assert(!text.failed);
        cr_expect(strstr(text.data, section->title));
        for (const struct fm_key *key = section->keys; key->name; key++) {
            cr_expect(strstr(text.data, key->name), "%s.%s", section->title, key->name);
            cr_expect(key->help && key->help[0], "%s.%s has no help", section->title, key->name);
        }
        fm_text_fini(&text);
    }
}
