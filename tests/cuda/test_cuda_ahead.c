/* Sweeps on the emulated GPU that train ahead of an epoch's verdict: candidates, epochs that are thrown away,
 * every policy for bad steps. The rows are the reference executor's, and the bits those of a GPU that never
 * goes ahead. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "emulator/emulator.h"
#include "support/sweep.h"
#include "support/tolerance.h"

/* Two rates that learn; from the third trial on one that leaves all numbers behind in the second epoch -
 * which was begun before the first was judged -, one that does so at once. */
#define BAD_FROM 3
static const char *const policies[] = {"stop", "rollback", "skip", "keras"};

static char *sweep_with(const struct fm_backend *backend, const char *policy, bool restores,
                        struct ts_sweep *sweep)
{
    struct fm_error err = {0};
    char yaml[1024];
    snprintf(yaml, sizeof yaml,
             "cv: {split: stratified, folds: 3}\n"
             "model:\n"
             "  - conv1d: {filters: 3, kernel_size: 2, activation: leaky_relu}\n"
             "  - flatten\n"
             "  - dropout: {rate: 0.2}\n"
             "  - dense: {units: 2, activation: softmax}\n"
             "train:\n"
             "  loss: categorical_crossentropy\n"
             "  optimizer: {sgd: {learning_rate: \"${lr}\"}}\n"
             "  batch_size: 7\n"
             "  epochs: 7\n"
             "  early_stopping: {patience: 1, restore_best_weights: %s}\n"
             "  on_nan: %s\n"
             "metric: {name: val_auc}\n"
             "method: grid\n"
             "keep: {trials: 2}\n"
             "parameters:\n"
             "  lr: {values: [0.02, 0.1, 1000, 1.0e+37]}\n",
             restores ? "true" : "false", policy);
    ts_sweep_init(sweep, yaml);
    const struct ts_sweep_options options = {.backend = backend, .lanes = 2};
    cr_assert_eq(ts_sweep_run(sweep, &options, &err), 0, "%s: %s", policy, err.text);
    return ts_sweep_dump(sweep);
}

static char *sweep_on_gpu(bool ahead, const char *policy, bool restores, int64_t *kernels)
{
    const struct fm_emulator_settings settings = {.policy = FM_EMULATOR_RANDOM, .seed = 5};
    struct fm_backend backend = fm_backend_cuda;
    struct fm_emulator_counts counts;
    struct ts_sweep sweep;
    backend.queues_ahead = ahead;
    fm_emulator_reset(&settings);
    char *dump = sweep_with(&backend, policy, restores, &sweep);
    fm_emulator_count(&counts);
    cr_assert_eq(counts.faults, 0, "%s", fm_emulator_fault());
    cr_assert_eq(counts.live, 0);
    *kernels = counts.launches + counts.graph_nodes;
    cr_assert_gt(ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE stopped = 'early_stopping'"), 1);
    cr_assert_eq(ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE (bad_steps > 0) <> (trial >= 3)"),
                 0);
    ts_sweep_fini(&sweep);
    return dump;
}

/* The next line, without its end; NULL: there is none. */
static char *next_line(char **text)
{
    return *text && **text ? strsep(text, "\n") : NULL;
}

/* One row: numbers within the table's tolerance, all else as it is, but for blobs and what is told in words.
 */
static void check_row(const char *policy, char *got, char *want, bool event)
{
    char line[512], *a, *b;
    snprintf(line, sizeof line, "%s", got);
    while ((a = strsep(&got, "|"))) {
        b = strsep(&want, "|");
        cr_assert(b, "%s: %s", policy, line);
        if (strstr(a, "0x") == a || strstr(a, "-0x") == a) {
            const double x = strtod(a, NULL), y = strtod(b, NULL);
            const struct ts_worst worst = ts_compare(TS_ENGINE_STEPS, &x, &y, 1);
            cr_expect(worst.ok, "%s: %s: %s", policy, line, worst.text);
        } else if (a[0] != '#' && !(event && !got)) {
            cr_expect_str_eq(a, b, "%s: %s", policy, line);
        }
    }
    cr_assert_null(want, "%s: %s", policy, line);
}

static void check_rows(const char *policy, const char *got, const char *want)
{
    char *copies[2] = {strdup(got), strdup(want)}, *a = copies[0], *b = copies[1], *x, *y;
    bool event = false;
    int rows = 0;
    while ((x = next_line(&a))) {
        y = next_line(&b);
        cr_assert(y, "%s: only the GPU has %s", policy, x);
        if (x[0] == '-') event = strstr(x, "FROM event") != NULL;
        rows += x[0] != '-';
        check_row(policy, x, y, event);
    }
    cr_assert_null(next_line(&b), "%s: rows are missing", policy);
    cr_assert_gt(rows, 40);
    free(copies[0]);
    free(copies[1]);
}

/* What runs, epochs, scores and weights of the trials that learn say, to the bit. */
static char *sound_rows(const char *dump)
{
    char *copy = strdup(dump), *rest = copy, *line, *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    bool wanted = false;
    while ((line = next_line(&rest))) {
        if (line[0] == '-')
            wanted = strstr(line, "FROM run") || strstr(line, "FROM epoch") || strstr(line, "FROM score") ||
                     strstr(line, "FROM artifact");
        else if (wanted && strtol(line, NULL, 10) < BAD_FROM)
            fprintf(out, "%s\n", line);
    }
    fclose(out);
    free(copy);
    return text;
}

static void check_policies(bool restores)
{
    const struct fm_backend *reference;
    struct fm_error err = {0};
    char *sound[2] = {NULL, NULL};
    cr_assert_eq(fm_backend_find(&reference, "reference", &err), 0, "%s", err.text);
    for (int p = 0; p < 4; p++) {
        const char *policy = policies[p];
        int64_t ahead, behind;
        struct ts_sweep sweep;
        char *want = sweep_with(reference, policy, restores, &sweep);
        ts_sweep_fini(&sweep);
        char *got = sweep_on_gpu(true, policy, restores, &ahead);
        char *without = sweep_on_gpu(false, policy, restores, &behind);
        check_rows(policy, got, want);
        cr_expect_str_eq(got, without, "%s", policy);
        if (p == 1)
            cr_expect_eq(ahead, behind, "rollback waits for the verdict");
        else
            cr_expect_gt(ahead, behind, "%s: nothing was trained in vain: the test is of no use", policy);
        if (p < 2) sound[p] = sound_rows(got);
        free(want);
        free(got);
        free(without);
    }
    cr_expect(strlen(sound[0]) > 1000);
    cr_expect_str_eq(sound[0], sound[1], "stop goes ahead, rollback does not");
    free(sound[0]);
    free(sound[1]);
}

TestSuite(cuda_ahead, .timeout = 120);

Test(cuda_ahead, every_policy_has_the_rows_of_the_reference_and_the_bits_without)
{
    check_policies(true);
}

/* Then the weights that are kept are those before the epoch that was in vain. */
Test(cuda_ahead, so_have_they_where_the_last_weights_stay)
{
    check_policies(false);
}
