/* Each allocation of reading a sweep and drawing its trials failed in turn, alone and with all that follow:
 * always an error that says so, never a crash; the address sanitizer's run of the suite sees that nothing is
 * lost. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "search/trials.h"
#include "support/allocation.h"

static const char text[] = "name: \"m\\u00e9mory\"\n"
                           "data: {source: csv, path: 'a$${b}', features: [x, z], target: {column: y, "
                           "classes: [no, b]}, missing: {x: drop}, "
                           "scale: {x: robust}, window: {length: \"${w}\", label: any}}\n"
                           "cv: {split: kfold, seed: \"${s}\"}\n"
                           "model: [flatten, {choose: {by: \"${arch}\", options: {a: [{dense: {units: "
                           "\"${o.u}\"}}], b: [relu]}}}, {dense: {units: 1}}]\n"
                           "train: &t {loss: categorical_crossentropy, optimizer: {adam: {learning_rate: "
                           "\"${lr}\"}}, class_weight: {b: 2}}\n"
                           "method: random\n"
                           "run_cap: 3\n"
                           "trials: [{arch: a, o: {u: 3}, lr: 0.1, w: 3, s: 1}]\n"
                           "parameters:\n"
                           "  arch: {values: [a, b, a], probabilities: [0.5, 0.25, 0.25]}\n"
                           "  o: {parameters: {u: {min: 1, max: 3}}}\n"
                           "  lr: {distribution: log_uniform_values, min: 1e-4, max: 1e-2}\n"
                           "  w: {value: 5}\n"
                           "  s: {values: [1, 2]}\n";

static void *hooked_malloc(size_t size)
{
    return ts_allocation_fails() ? NULL : malloc(size);
}

static int run(struct fm_error *err)
{
    static const char *const settings[] = {"train.epochs=3", "cv.folds=4"};
    struct fm_sweep sweep;
    struct fm_search *search;
    struct fm_trial trial;
    struct fm_train_config train;
    struct fm_notes notes = {0};
    int code = fm_sweep_parse(&sweep, "m.yaml", text, sizeof text - 1, settings, 2, &notes, err);
    if (!code) {
        code = fm_search_new(&search, &sweep, &notes, err);
        while (!code && (code = fm_search_next(search, &trial, err)) == 1) {
            code = fm_train_read(&train, trial.train, false, &notes, err);
            fm_trial_fini(&trial);
        }
        fm_search_free(search);
        fm_sweep_fini(&sweep);
    }
    fm_notes_fini(&notes);
    return code;
}

static long fail_each(bool from_then_on)
{
    long n = 0;
    for (int code = -1; code;) {
        struct fm_error err = {0};
        ts_fail_allocation(++n, from_then_on);
        code = run(&err);
        bool reached = ts_allocations() >= n;
        ts_fail_allocation(0, false);
        cr_assert(code == 0 || code == FM_ENOMEM, "allocation %ld: code %d, %s", n, code, err.text);
        /* A failed note is dropped, so success may come before the last allocation has had its turn. */
        if (code == 0 && reached) code = 1;
        cr_assert_lt(n, 100000);
    }
    return n;
}

Test(config_memory, every_allocation_failed_in_turn, .timeout = 60)
{
    struct fm_error err = {0};
    cr_assert_eq(run(&err), 0, "%s", err.text);
    json_set_alloc_funcs(hooked_malloc, free);
    cr_expect_gt(fail_each(false), 500);
    cr_expect_gt(fail_each(true), 500);
    json_set_alloc_funcs(malloc, free);
}
