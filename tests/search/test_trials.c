/* The search as a whole: case A05, order, collapse, choose, lists, random draws, and the mistakes of a space.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "config/sweep_text.h"
#include "search/trials.h"

/* All trials of a sweep as text: their keys, one a line; or the error's text. */
struct found {
    struct fm_sweep sweep;
    struct fm_notes notes;
    struct fm_error err;
    struct fm_text keys;
    int code, count;
};

static void search_all(struct found *f, const struct ts_sections *text, int most, int reject_every)
{
    struct fm_search *search = NULL;
    struct fm_trial trial;
    memset(f, 0, sizeof *f);
    f->code = ts_parse_sections(&f->sweep, text, &f->notes, &f->err);
    if (f->code) return;
    f->code = fm_search_new(&search, &f->sweep, &f->notes, &f->err);
    while (f->code >= 0 && f->count < most && search &&
           (f->code = fm_search_next(search, &trial, &f->err)) == 1) {
        fm_text_add(&f->keys, "%s\n", trial.key);
        f->count++;
        fm_trial_fini(&trial);
        if (reject_every && f->count % reject_every == 0) fm_search_reject(search);
    }
    fm_search_free(search);
}

static void found_fini(struct found *f)
{
    fm_sweep_fini(&f->sweep);
    fm_notes_fini(&f->notes);
    fm_text_fini(&f->keys);
}

static const char net[] = "[flatten, {dense: {units: '${u}'}}]";
#define RATE "{loss: mse, optimizer: {adam: {learning_rate: '${lr}'}}}"

/* Exact: seven numbers, five trials, one note; quoted they are text, which the optimizer refuses. */
Test(trials, case_a05)
{
    struct ts_sections text = {
        .train = RATE,
        .rest =
            "method: grid\nparameters:\n  lr: {values: [1e-3, 5E-4, 1.e-2, .5e-1, 2.0e5, +1e-3, 1e-3]}\n"};
    struct found f;
    search_all(&f, &text, 100, 0);
    cr_expect_eq(f.code, 0, "%s", f.err.text);
    cr_expect_str_eq(f.keys.data,
                     "{\"lr\":0.001}\n{\"lr\":0.0005}\n{\"lr\":0.01}\n{\"lr\":0.05}\n{\"lr\":200000}\n");
    cr_assert_eq(f.notes.count, 1);
    cr_expect(
        strstr(f.notes.text[0], "folder/s.yaml:7:16: parameters.lr: 2 of 7 values equal an earlier one"),
        "%s", f.notes.text[0]);
    found_fini(&f);

    text.rest = "method: grid\nparameters: {lr: {values: [\"1e-3\"]}}\n";
    struct fm_sweep sweep;
    struct fm_search *search;
    struct fm_trial trial;
    struct fm_train_config train;
    struct fm_error err;
    cr_assert_eq(ts_parse_sections(&sweep, &text, NULL, &err), 0);
    cr_assert_eq(fm_search_new(&search, &sweep, NULL, &err), 0);
    cr_assert_eq(fm_search_next(search, &trial, &err), 1);
    cr_expect_eq(fm_train_read(&train, trial.train, false, NULL, &err), FM_EFILE);
    cr_expect(
        strstr(err.text, "adam.learning_rate is the text \"1e-3\"; expected a number: remove the quotes"),
        "%s", err.text);
    cr_expect(err.line == 6 && err.column == 28, "%lld:%lld", (long long)err.line, (long long)err.column);
    fm_trial_fini(&trial);
    fm_search_free(search);
    fm_sweep_fini(&sweep);
}

Test(trials, grid_order_ranges_and_types)
{
    struct ts_sections text = {.model = net,
                               .train = RATE,
                               .rest = "method: grid\nparameters:\n  u: {min: 2, max: 3}\n  lr: "
                                       "{distribution: q_uniform, min: 0.1, max: 0.31, q: 0.1}\n"};
    struct found f;
    search_all(&f, &text, 100, 0);
    cr_expect_eq(f.code, 0, "%s", f.err.text);
    cr_expect_str_eq(f.keys.data, "{\"lr\":0.1,\"u\":2}\n{\"lr\":0.2,\"u\":2}\n{\"lr\":0.3,\"u\":2}\n"
                                  "{\"lr\":0.1,\"u\":3}\n{\"lr\":0.2,\"u\":3}\n{\"lr\":0.3,\"u\":3}\n");
    found_fini(&f);
}

Test(trials, without_parameters_there_is_one)
{
    struct ts_sections text = {0};
    struct found f;
    search_all(&f, &text, 100, 0);
    cr_expect(f.code == 0 && f.count == 1);
    cr_expect_str_eq(f.keys.data, "{}\n");
    found_fini(&f);
}

/* A parameter of another option is null, trials that are then equal are one, and substitution leaves other
 * options alone. */
Test(trials, choose_decides_what_is_used)
{
    struct ts_sections text = {
        .model =
            "[{choose: {by: '${arch}', options: {deep: [{dense: {units: '${u}'}}], wide: [{dense: {units: 8, "
            "activation: '${act}'}}]}}}, {dense: {units: 1}}]",
        .rest = "method: grid\nparameters: {arch: {values: [deep, wide]}, u: {values: [1, 2]}, act: {values: "
                "[relu, elu]}}\n"};
    struct found f;
    search_all(&f, &text, 100, 0);
    cr_expect_eq(f.code, 0, "%s", f.err.text);
    cr_expect_str_eq(
        f.keys.data,
        "{\"act\":null,\"arch\":\"deep\",\"u\":1}\n{\"act\":null,\"arch\":\"deep\",\"u\":2}\n"
        "{\"act\":\"relu\",\"arch\":\"wide\",\"u\":null}\n{\"act\":\"elu\",\"arch\":\"wide\",\"u\":null}\n");
    found_fini(&f);
}

static json_t *first_trees(const struct ts_sections *text, json_t **params)
{
    struct fm_sweep sweep;
    struct fm_search *search;
    struct fm_trial trial;
    struct fm_error err;
    cr_assert_eq(ts_parse_sections(&sweep, text, NULL, &err), 0, "%s", err.text);
    cr_assert_eq(fm_search_new(&search, &sweep, NULL, &err), 0, "%s", err.text);
    cr_assert_eq(fm_search_next(search, &trial, &err), 1, "%s", err.text);
    json_t *trees = json_array();
    json_array_append_new(trees, fm_node_json(trial.model));
    json_array_append_new(trees, fm_node_json(trial.train));
    json_array_append_new(trees, trial.window_length ? fm_node_json(trial.window_length) : json_null());
    json_array_append_new(trees, trial.cv_seed ? fm_node_json(trial.cv_seed) : json_null());
    *params = json_incref(trial.params);
    fm_trial_fini(&trial);
    fm_search_free(search);
    fm_sweep_fini(&sweep);
    return trees;
}

Test(trials, values_may_be_maps_with_parameters_inside)
{
    struct ts_sections text = {
        .data = "{source: csv, path: a, features: x, target: y, window: {length: '${w}', label: last}}",
        .cv = "{split: kfold, seed: '${s}'}",
        .model = "'${net}'",
        .train = "{loss: mse, optimizer: '${opt}'}",
        .rest = "method: grid\nparameters:\n"
                "  net: {value: [flatten, {choose: {by: '${kind}', options: {a: [], b: [{dense: {units: 1, "
                "name: '$${kept}'}}]}}}]}\n"
                "  kind: {value: b}\n"
                "  opt: {values: [{adam: {learning_rate: '${o.lr}'}}]}\n"
                "  o: {parameters: {lr: {value: 3e-3}}}\n"
                "  w: {value: 5}\n"
                "  s: {value: 7}\n"};
    json_t *params, *trees = first_trees(&text, &params);
    json_t *want =
        json_loads("[[\"flatten\", {\"choose\": {\"by\": \"b\", \"options\": {\"a\": [], \"b\": [{\"dense\": "
                   "{\"units\": "
                   "1, \"name\": \"${kept}\"}}]}}}],"
                   " {\"loss\": \"mse\", \"optimizer\": {\"adam\": {\"learning_rate\": 0.003}}}, 5, 7]",
                   0, NULL);
    char *got = json_dumps(trees, 0);
    cr_expect(json_equal(trees, want), "%s", got);
    cr_expect_eq(json_integer_value(json_object_get(params, "w")), 5);
    cr_expect_eq(json_real_value(json_object_get(params, "o.lr")), 0.003);
    free(got);
    json_decref(trees);
    json_decref(want);
    json_decref(params);
}

Test(trials, listed_ones_come_first)
{
    struct ts_sections text = {
        .model = net,
        .train = RATE,
        .rest = "method: grid\ntrials: [{u: 5, lr: 1}, {u: 2, lr: 0.5}, {lr: 1.0, u: 5.0}]\n"
                "parameters: {u: {values: [1, 2]}, lr: {value: 0.5}}\n"};
    struct found f;
    search_all(&f, &text, 100, 0);
    cr_expect_eq(f.code, 0, "%s", f.err.text);
    cr_expect_str_eq(f.keys.data, "{\"lr\":1,\"u\":5}\n{\"lr\":0.5,\"u\":2}\n{\"lr\":0.5,\"u\":1}\n");
    cr_assert_eq(f.notes.count, 1);
    cr_expect(strstr(f.notes.text[0], "equals an earlier one"), "%s", f.notes.text[0]);
    found_fini(&f);
    text.rest = "method: list\ntrials: [{u: 5, lr: 1}, {u: 2, lr: 0.5}]\n";
    search_all(&f, &text, 100, 0);
    cr_expect_str_eq(f.keys.data, "{\"lr\":1,\"u\":5}\n{\"lr\":0.5,\"u\":2}\n");
    found_fini(&f);
}

static const char space[] =
    "parameters: {u: {distribution: q_log_uniform_values, min: 16, max: 128, q: 8}, lr: "
    "{distribution: log_uniform_values, min: 1e-4, max: 1e-2}}\n";

/* Draw k follows from (seed, k): a larger run_cap only adds, another seed changes all. */
Test(trials, random_draws_are_a_function_of_seed_and_number)
{
    char rest[512];
    struct ts_sections text = {.model = net, .train = RATE, .rest = rest};
    struct found five, ten, other;
    snprintf(rest, sizeof rest, "method: random\nrun_cap: 5\n%s", space);
    search_all(&five, &text, 1000, 0);
    snprintf(rest, sizeof rest, "method: random\nrun_cap: 10\n%s", space);
    search_all(&ten, &text, 1000, 0);
    snprintf(rest, sizeof rest, "method: random\nrun_cap: 5\nseed: 1\n%s", space);
    search_all(&other, &text, 1000, 0);
    cr_expect(five.count == 5 && ten.count == 10 && other.count == 5);
    cr_expect_eq(strncmp(five.keys.data, ten.keys.data, five.keys.size), 0);
    cr_expect_str_neq(five.keys.data, other.keys.data);
    found_fini(&five);
    found_fini(&ten);
    found_fini(&other);
}

Test(trials, rejected_draws_do_not_count)
{
    char rest[512];
    struct ts_sections text = {.model = net, .train = RATE, .rest = rest};
    struct found f;
    snprintf(rest, sizeof rest, "method: random\nrun_cap: 5\n%s", space);
    search_all(&f, &text, 1000, 2);
    cr_expect(f.code == 0 && f.count == 9, "%d", f.count); /* 2, 4, 6, 8 rejected */
    found_fini(&f);
    /* All rejected: the search ends by itself, with a note. */
    search_all(&f, &text, 100000, 1);
    cr_expect(f.code == 0 && f.count == 10500, "%d", f.count);
    cr_assert_eq(f.notes.count, 1);
    cr_expect(strstr(f.notes.text[0], "10500 draws in a row"), "%s", f.notes.text[0]);
    found_fini(&f);
}

Test(trials, a_finite_space_is_drawn_without_replacement)
{
    struct ts_sections text = {.model = "[{choose: {by: '${arch}', options: {a: [{dense: {units: '${u}'}}], "
                                        "b: [flatten]}}}, {dense: {units: 1}}]",
                               .rest = "method: random\nparameters: {arch: {values: [a, b], probabilities: "
                                       "[0.1, 0.9]}, u: {min: 1, max: 20}}\n"};
    struct found f;
    search_all(&f, &text, 1000, 0);
    cr_expect(f.code == 0 && f.count == 21, "%d %s", f.count, f.err.text);
    cr_expect_eq(f.notes.count, 0);
    found_fini(&f);
    text.rest =
        "method: random\nparameters: {arch: {values: [a, b], probabilities: [0, 1]}, u: {min: 1, max: 20}}\n";
    search_all(&f, &text, 1000, 0);
    cr_expect_eq(f.code, FM_EFILE);
    cr_expect(strstr(f.err.text, "'u' is not used by any trial"), "%s", f.err.text);
    found_fini(&f);
}

/* Growing a grid keeps every key it had. */
Test(trials, a_larger_grid_holds_the_smaller)
{
    struct ts_sections text = {.model = net,
                               .train = RATE,
                               .rest =
                                   "method: grid\nparameters: {u: {values: [1, 2]}, lr: {values: [0.1]}}\n"};
    struct found small, large;
    search_all(&small, &text, 1000, 0);
    text.rest = "method: grid\nparameters: {u: {values: [1, 2, 3]}, lr: {values: [0.2, 0.1]}}\n";
    search_all(&large, &text, 1000, 0);
    cr_expect(small.count == 2 && large.count == 6);
    char *saved = NULL;
    for (char *key = strtok_r(small.keys.data, "\n", &saved); key; key = strtok_r(NULL, "\n", &saved)) {
        cr_expect(strstr(large.keys.data, key), "%s", key);
    }
    found_fini(&small);
    found_fini(&large);
}

Test(trials, run_cap_caps_a_grid)
{
    struct ts_sections text = {.model = net,
                               .rest = "method: grid\nrun_cap: 3\nparameters: {u: {min: 1, max: 9000000}}\n"};
    struct found f;
    search_all(&f, &text, 1000, 0);
    cr_expect(f.code == 0 && f.count == 3);
    found_fini(&f);
}

static const struct {
    const char *rest, *says;
    int64_t line;
    int code;
} mistakes[] = {
    {"method: grid\nparameters: {u: {values: []}}\n", "at least one value", 6, FM_EFILE},
    {"method: grid\nparameters: {u: 3}\n", "expected {value: ...}", 6, FM_EFILE},
    {"method: grid\nparameters: {u: {}}\n", "parameters.u is empty", 6, FM_EFILE},
    {"method: grid\nparameters: {u: {valeus: [1]}}\n", "did you mean 'values'", 6, FM_EFILE},
    {"method: grid\nparameters: {v: {values: [1]}}\n", "there is no parameter 'u' in parameters", 3,
     FM_EFILE},
    {"method: grid\nparameters: {u: {values: [1]}, v: {values: [1]}}\n", "parameter 'v' is not used", 6,
     FM_EFILE},
    {"method: grid\n", "there is no parameter 'u' in parameters", 3, FM_EFILE},
    {"method: grid\nparameters: {u: {distribution: unifrom, min: 1, max: 2}}\n", "did you mean uniform", 6,
     FM_EFILE},
    {"method: random\nparameters: {u: {distribution: beta}}\n", "beta is not available yet", 6, FM_ELATER},
    {"method: grid\nparameters: {u: {distribution: uniform, min: 1, max: 2}}\n", "a grid cannot list", 6,
     FM_EFILE},
    {"method: grid\nparameters: {u: {distribution: q_normal}}\n", "a grid cannot list", 6, FM_EFILE},
    {"method: grid\nparameters: {u: {min: 0.5, max: 2}}\n", "a grid cannot list", 6, FM_EFILE},
    {"method: grid\nparameters: {u: {min: 3, max: 2}}\n", "min is larger than max", 6, FM_EFILE},
    {"method: grid\nparameters: {u: {min: 3}}\n", "needs max", 6, FM_EFILE},
    {"method: grid\nparameters: {u: {min: 1, max: 5, q: 2}}\n",
     "q does not belong to distribution int_uniform", 6, FM_EFILE},
    {"method: grid\nparameters: {u: {values: [1], mu: 2}}\n",
     "mu does not belong to distribution categorical", 6, FM_EFILE},
    {"method: grid\nparameters: {u: {value: 1, values: [2]}}\n",
     "values does not belong to distribution constant", 6, FM_EFILE},
    {"method: grid\nparameters: {u: {distribution: q_uniform, min: 1, max: 5, q: 0}}\n", "q must be above 0",
     6, FM_EFILE},
    {"method: random\nrun_cap: 2\nparameters: {u: {distribution: log_uniform_values, min: 0, max: 5}}\n",
     "min must be above 0", 7, FM_EFILE},
    {"method: random\nrun_cap: 2\nparameters: {u: {distribution: log_uniform, min: 0, max: 1000}}\n",
     "exponents of e", 7, FM_EFILE},
    {"method: random\nrun_cap: 2\nparameters: {u: {distribution: normal, mu: 1, sigma: 0}}\n",
     "sigma must be above 0", 7, FM_EFILE},
    {"method: random\nparameters: {u: {distribution: uniform, min: 0, max: 1}}\n", "needs run_cap", 5,
     FM_EFILE},
    {"method: grid\nparameters: {u: {min: 1, max: 9000000}}\n", "more than 1,000,000 combinations", 5,
     FM_EFILE},
    {"method: random\nparameters: {u: {values: [1, 2], probabilities: [1]}}\n", "expected a list of 2", 6,
     FM_EFILE},
    {"method: random\nparameters: {u: {values: [1, 2], probabilities: [0.3, 0.3]}}\n", "add up to 0.6", 6,
     FM_EFILE},
    {"method: random\nparameters: {u: {values: [1, 2], probabilities: [-1, 2]}}\n", "expected 0 to 1", 6,
     FM_EFILE},
    {"method: grid\nparameters: {u: {parameters: {v: {value: 1}}, value: 1}}\n",
     "nested parameters stand alone", 6, FM_EFILE},
    {"method: grid\nparameters: {u: {parameters: {v: {value: 1}}}}\n", "there is no parameter 'u'", 3,
     FM_EFILE},
    {"method: grid\nparameters: {u: {values: ['x${u}']}}\n", "must be the whole value", 6, FM_EFILE},
    {"method: grid\nparameters: {u: {values: ['${u}']}}\n", "they are replaced once", 6, FM_EFILE},
    {"method: grid\nparameters: {u: {values: ['${w}']}, w: {values: ['${v}']}, v: {value: 1}}\n",
     "they are replaced once", 6, FM_EFILE},
    {"method: grid\nparameters: {u: {values: ['${w}']}}\n", "there is no parameter 'w'", 6, FM_EFILE},
    {"method: list\ntrials: [3]\n", "there is no parameter 'u'", 3, FM_EFILE},
    {"method: list\ntrials: [{u: 1}, {}]\n", "no value is given for 'u'", 6, FM_EFILE},
    {"method: list\ntrials: [{u: 1}, 3]\n", "expected mappings", 6, FM_EFILE},
    {"method: grid\ntrials: [{w: 1}]\nparameters: {u: {value: 1}}\n", "there is no parameter 'w'", 6,
     FM_EFILE},
    {"method: list\ntrials: [{u: {a: {b: '${u}'}}}]\n", "they are replaced once", 6, FM_EFILE},
};

Test(trials, mistakes)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct ts_sections text = {.model = net, .rest = mistakes[i].rest};
        struct found f;
        search_all(&f, &text, 10, 0);
        cr_expect_eq(f.code, mistakes[i].code, "%s: %d %s", mistakes[i].rest, f.code, f.err.text);
        cr_expect(strstr(f.err.text, mistakes[i].says), "%s: %s", mistakes[i].rest, f.err.text);
        cr_expect_eq(f.err.line, mistakes[i].line, "%s: line %lld", mistakes[i].rest, (long long)f.err.line);
        found_fini(&f);
    }
}

Test(trials, window_length_and_seed_are_checked_at_their_values)
{
    struct ts_sections text = {
        .data = "{source: csv, path: a, features: x, target: y, window: {length: '${w}', label: last}}",
        .rest = "method: grid\nparameters: {w: {values: [3, 0]}}\n"};
    struct found f;
    search_all(&f, &text, 10, 0);
    cr_expect(f.code == FM_EFILE && f.count == 1);
    cr_expect(strstr(f.err.text, "data.window.length is 0"), "%s", f.err.text);
    cr_expect(f.err.line == 6 && f.err.column == 30, "%lld", (long long)f.err.column);
    found_fini(&f);
    text = (struct ts_sections){.model = "[{choose: {by: '${a}', options: {one: [flatten]}}}]",
                                .rest = "method: grid\nparameters: {a: {values: [one, onee]}}\n"};
    search_all(&f, &text, 10, 0);
    cr_expect(strstr(f.err.text, "has no option 'onee'; did you mean 'one'?"), "%s", f.err.text);
    found_fini(&f);
    text = (struct ts_sections){.model = "[{'${a}': {units: 1}}]",
                                .rest = "method: grid\nparameters: {a: {value: dense}}\n"};
    search_all(&f, &text, 10, 0);
    cr_expect(strstr(f.err.text, "a parameter cannot stand for a key"), "%s", f.err.text);
    found_fini(&f);
}

static int bounds(const char *window, const char *rest, int64_t *least, int64_t *most)
{
    struct ts_sections text = {.train = "{loss: mse}", .rest = rest};
    struct fm_sweep sweep;
    struct fm_error err = {0};
    char data[256];
    snprintf(data, sizeof data,
             "{source: csv, path: x, features: [a], target: b, window: {length: %s, label: last}}", window);
    text.data = data;
    cr_assert_eq(ts_parse_sections(&sweep, &text, NULL, &err), 0, "%s", err.text);
    int code = fm_search_bounds(&sweep, sweep.data.window.length, "data.window.length", least, most, &err);
    fm_sweep_fini(&sweep);
    return code;
}

/* The longest window of a sweep decides its examples, so it must be one that a trial can have, and no trial
 * may have a longer one. */
Test(trials, bounds_are_values_that_trials_can_take)
{
    static const struct {
        const char *window, *rest;
        int64_t least, most;
    } rows[] = {
        {"12", "", 12, 12},
        {"\"${w}\"", "method: grid\nparameters: {w: {values: [9, 30, 5.0]}}\n", 5, 30},
        {"\"${w}\"", "method: grid\nparameters: {w: {distribution: q_uniform, min: 9, max: 20, q: 4}}\n", 9,
         17},
        {"\"${w}\"",
         "method: random\nrun_cap: 3\nparameters: {w: {distribution: q_log_uniform, min: 2, max: 3, q: 1}}\n",
         8, 20},
        {"\"${a.b}\"",
         "method: grid\nparameters: {a: {parameters: {b: {values: [5, 6]}}}}\ntrials: [{a: {b: 40}}, {a.b: "
         "3}]\n",
         3, 40},
        {"\"${w}\"", "method: list\nparameters: {w: {values: [5, 60]}}\ntrials: [{w: 7}, {w: 8}]\n", 7, 8},
        {"\"${w}\"", "method: list\ntrials: [{w: 7}, {w: 8}]\n", 7, 8},
        {"\"${w}\"", "method: grid\nparameters: {w: {values: [5, \"${v}\"]}, v: {values: [2, 9]}}\n", 2, 9},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t least = 0, most = 0;
        cr_expect_eq(bounds(rows[i].window, rows[i].rest, &least, &most), 0, "row %zu", i);
        cr_expect_eq(least, rows[i].least, "row %zu: %lld", i, (long long)least);
        cr_expect_eq(most, rows[i].most, "row %zu: %lld", i, (long long)most);
    }
    int64_t least, most;
    cr_expect_eq(
        bounds("\"${w}\"",
               "method: random\nrun_cap: 2\nparameters: {w: {distribution: normal, mu: 9, sigma: 1}}\n",
               &least, &most),
        FM_EFILE);
    cr_expect_eq(bounds("\"${w}\"", "method: grid\nparameters: {w: {values: [0, 3]}}\n", &least, &most),
                 FM_EFILE);
}
