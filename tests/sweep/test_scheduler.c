/* The scheduler with the scripted backend: any order of completions, any number of lanes, stops and failures
 * give the same journal. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scripted.h"
#include "support/sweep.h"

static const char yaml[] = "cv: {split: stratified, folds: 3, repeats: 2}\n"
                           "model:\n"
                           "  - flatten\n"
                           "  - dense: {units: \"${units}\", activation: relu}\n"
                           "  - dense: {units: 2, activation: softmax}\n"
                           "train:\n"
                           "  loss: categorical_crossentropy\n"
                           "  optimizer: {adam: {learning_rate: \"${lr}\"}}\n"
                           "  batch_size: 7\n"
                           "  epochs: 6\n"
                           "  early_stopping: {patience: 2, restore_best_weights: true}\n"
                           "  on_nan: rollback\n"
                           "metric: {name: val_accuracy}\n"
                           "method: grid\n"
                           "keep: {trials: 2}\n"
                           "parameters:\n"
                           "  units: {values: [2, 3, 5]}\n"
                           "  lr: {values: [1e-3, 1e-2]}\n";

static void run_to_end(struct ts_sweep *sweep, int64_t lanes, const struct fm_scripted_options *scripted)
{
    struct ts_sweep_options options = {
        .backend = &fm_backend_scripted, .lanes = lanes, .checkpoint_seconds = 0};
    struct fm_error err = {0};
    fm_scripted_configure(scripted);
    cr_assert_eq(ts_sweep_run(sweep, &options, &err), 0, "%s", err.text);
}

/* The journal of an undisturbed run, one lane. */
static char *expected(const struct fm_scripted_options *base)
{
    struct ts_sweep sweep;
    struct fm_scripted_options scripted = *base;
    ts_sweep_init(&sweep, yaml);
    run_to_end(&sweep, 1, &scripted);
    char *dump = ts_sweep_dump(&sweep);
    ts_sweep_fini(&sweep);
    return dump;
}

Test(scheduler, same_journal_whatever_the_order_and_lanes)
{
    char *want = expected(&(struct fm_scripted_options){.order = 1});
    for (uint64_t order = 2; order < 8; order++) {
        struct ts_sweep sweep;
        ts_sweep_init(&sweep, yaml);
        run_to_end(&sweep, 1 + (int64_t)order % 5,
                   &(struct fm_scripted_options){.order = order, .idle = 0.3});
        char *got = ts_sweep_dump(&sweep);
        cr_assert_str_eq(got, want);
        cr_assert_eq(ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE status = 'completed'"), 36);
        cr_assert_eq(ts_sweep_number(&sweep, "SELECT count(DISTINCT trial) FROM score"), 2,
                     "keep: {trials: 2}");
        cr_assert_eq(ts_sweep_number(&sweep, "SELECT count(*) FROM trial WHERE pooled_n > 0"), 6);
        free(got);
        ts_sweep_fini(&sweep);
    }
    free(want);
}

static const struct fm_scripted_options faulty = {
    .faults = {{.what = FM_SCRIPTED_TRAIN, .repeat = 1, .fold = 2, .epoch = 2, .code = FM_ENOMEM},
               {.what = FM_SCRIPTED_BAD, .repeat = 0, .fold = 1, .epoch = 1, .above = 4e-4},
               {.what = FM_SCRIPTED_EVALUATE, .repeat = 0, .fold = 0, .epoch = 4, .code = FM_ENOMEM}},
    .nfaults = 3};

Test(scheduler, failures_are_results_in_any_order)
{
    struct fm_scripted_options scripted = faulty;
    char *want = expected(&scripted);
    for (uint64_t order = 3; order < 6; order++) {
        struct ts_sweep sweep;
        ts_sweep_init(&sweep, yaml);
        scripted.order = order;
        run_to_end(&sweep, 3, &scripted);
        char *got = ts_sweep_dump(&sweep);
        cr_assert_str_eq(got, want);
        cr_assert_gt(ts_sweep_number(
                         &sweep, "SELECT count(*) FROM run WHERE status = 'failed' AND reason_code = 'oom'"),
                     0);
        cr_assert_gt(ts_sweep_number(&sweep, "SELECT count(*) FROM event WHERE kind = 'rollback'"), 0);
        cr_assert_eq(
            ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE status NOT IN ('completed', 'failed')"),
            0);
        free(got);
        ts_sweep_fini(&sweep);
    }
    free(want);
}

/* Sets the stop flag at the n-th question for a loss. */
struct stopper {
    atomic_int stop;
    long calls, at;
};

static double stopping_loss(void *context, const struct fm_scripted_at *at)
{
    struct stopper *stopper = context;
    if (++stopper->calls == stopper->at) atomic_store(&stopper->stop, 1);
    return 1.0 / (double)(2 + at->epoch) +
           0.01 * (double)((at->fold * 7 + at->repeat * 3 + at->epoch * 5) % 4);
}

Test(scheduler, stops_at_safe_points_and_goes_on_with_the_same_journal, .timeout = 60)
{
    struct stopper stopper = {0};
    struct fm_scripted_options scripted = {.order = 1, .loss = stopping_loss, .context = &stopper};
    char *want = expected(&scripted);
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, yaml);
    int stops = 0, rc;
    do {
        stopper.calls = 0;
        stopper.at = 40 + 17 * stops % 90;
        atomic_store(&stopper.stop, 0);
        scripted.order = (uint64_t)stops + 5;
        fm_scripted_configure(&scripted);
        struct ts_sweep_options options = {.backend = &fm_backend_scripted,
                                           .lanes = 1 + stops % 3,
                                           .stop = &stopper.stop,
                                           .checkpoint_seconds = 1e9};
        struct fm_error err = {0};
        rc = ts_sweep_run(&sweep, &options, &err);
        cr_assert(rc == 0 || rc == FM_EINTERRUPTED, "%s", err.text);
        cr_assert_lt(++stops, 500);
    } while (rc);
    cr_assert_gt(stops, 5);
    char *got = ts_sweep_dump(&sweep);
    cr_assert_str_eq(got, want);
    free(got);
    free(want);
    ts_sweep_fini(&sweep);
}

Test(scheduler, a_lost_device_leaves_a_journal_that_goes_on)
{
    struct fm_scripted_options scripted = {.order = 1};
    char *want = expected(&scripted);
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, yaml);
    struct ts_sweep_options options = {.backend = &fm_backend_scripted, .lanes = 3};
    struct fm_error err = {0};
    scripted.lost_after = 100;
    fm_scripted_configure(&scripted);
    cr_assert_eq(ts_sweep_run(&sweep, &options, &err), FM_EDEVICE);
    run_to_end(&sweep, 2, &(struct fm_scripted_options){.order = 9});
    char *got = ts_sweep_dump(&sweep);
    cr_assert_str_eq(got, want);
    free(got);
    free(want);
    ts_sweep_fini(&sweep);
}

Test(scheduler, a_finished_sweep_runs_nothing_and_an_extension_only_what_is_new)
{
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, yaml);
    run_to_end(&sweep, 2, &(struct fm_scripted_options){.order = 1});
    char *before = ts_sweep_dump(&sweep);
    run_to_end(&sweep, 2, &(struct fm_scripted_options){.order = 2});
    cr_assert_eq(fm_scripted_counts()->opened, 0);
    char *after = ts_sweep_dump(&sweep);
    cr_assert_str_eq(after, before);
    char more[sizeof yaml + 8];
    const char *list = strstr(yaml, "[2, 3, 5]");
    snprintf(more, sizeof more, "%.*s[2, 3, 5, 7]%s", (int)(list - yaml), yaml, list + strlen("[2, 3, 5]"));
    ts_sweep_write(&sweep, more);
    run_to_end(&sweep, 2, &(struct fm_scripted_options){.order = 3});
    cr_assert_eq(fm_scripted_counts()->opened, 12, "two new trials of six runs");
    cr_assert_eq(
        ts_sweep_number(&sweep,
                        "SELECT count(*) FROM trial WHERE trial > 6 AND json_extract(params,'$.units')=7"),
        2);
    free(before);
    free(after);
    ts_sweep_fini(&sweep);
}

Test(scheduler, memory_is_admitted_by_arithmetic)
{
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, yaml);
    run_to_end(&sweep, 2, &(struct fm_scripted_options){.order = 1, .bytes = (int64_t)1 << 50});
    cr_assert_eq(ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE reason_code = 'oom'"), 36);
    cr_assert_eq(fm_scripted_counts()->opened, 0);
    ts_sweep_fini(&sweep);
}

/* A device with memory of its own says how much there is; the machine's does not count then. */
Test(scheduler, the_memory_of_the_device_counts)
{
    struct ts_sweep sweep;
    const int64_t run = 1 << 20;
    ts_sweep_init(&sweep, yaml);
    run_to_end(&sweep, 2, &(struct fm_scripted_options){.order = 1, .bytes = run, .memory = run / 2});
    cr_assert_eq(ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE reason_code = 'oom'"), 36);
    ts_sweep_fini(&sweep);
    ts_sweep_init(&sweep, yaml);
    run_to_end(&sweep, 2, &(struct fm_scripted_options){.order = 1, .bytes = run, .memory = run + run / 2});
    cr_assert_eq(ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE status = 'completed'"), 36);
    ts_sweep_fini(&sweep);
}

/* Memory may lie on several cards or be in pieces: what has no room just now waits, and nothing else does. */
Test(scheduler, runs_wait_for_a_lane_that_has_room)
{
    char *want = expected(&(struct fm_scripted_options){.order = 1});
    for (int64_t room = 1; room <= 3; room++) {
        struct ts_sweep sweep;
        ts_sweep_init(&sweep, yaml);
        run_to_end(&sweep, 4, &(struct fm_scripted_options){.order = 7, .room = room, .idle = 0.3});
        char *got = ts_sweep_dump(&sweep);
        cr_assert_str_eq(got, want);
        cr_assert_eq(fm_scripted_counts()->most_lanes, room);
        cr_assert_eq(fm_scripted_counts()->opened, 36);
        cr_assert_eq(ts_sweep_number(&sweep, "SELECT max(attempt) FROM run"), 1, "some were tried twice");
        free(got);
        ts_sweep_fini(&sweep);
    }
    free(want);
}

/* The last checkpoint stands, and the next one is tried when it is due. */
Test(scheduler, a_checkpoint_short_of_memory_is_left_out)
{
    char *want = expected(&(struct fm_scripted_options){.order = 1});
    struct fm_scripted_options scripted = {.order = 5, .nfaults = 1};
    scripted.faults[0] = (struct fm_scripted_fault){
        .what = FM_SCRIPTED_READ, .repeat = -1, .fold = -1, .epoch = 1, .code = FM_ENOMEM};
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, yaml);
    run_to_end(&sweep, 2, &scripted);
    char *got = ts_sweep_dump(&sweep);
    cr_assert_str_eq(got, want);
    cr_assert_eq(ts_sweep_number(&sweep, "SELECT max(attempt) FROM run"), 1);
    free(got);
    free(want);
    ts_sweep_fini(&sweep);
}

Test(scheduler, a_changed_file_is_explained_and_nothing_mixed)
{
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, yaml);
    run_to_end(&sweep, 2, &(struct fm_scripted_options){.order = 1});
    char changed[sizeof yaml];
    strcpy(changed, yaml);
    memcpy(strstr(changed, "batch_size: 7"), "batch_size: 8", 13);
    ts_sweep_write(&sweep, changed);
    fm_scripted_configure(&(struct fm_scripted_options){.order = 1});
    struct ts_sweep_options options = {.backend = &fm_backend_scripted, .lanes = 2};
    struct fm_error err = {0};
    cr_assert_eq(ts_sweep_run(&sweep, &options, &err), FM_EFILE);
    cr_assert(strstr(err.text, "train.batch_size was 7 and is 8 now"), "%s", err.text);
    options.fresh = true;
    memset(&err, 0, sizeof err);
    cr_assert_eq(ts_sweep_run(&sweep, &options, &err), 0, "%s", err.text);
    cr_assert_eq(ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE status = 'completed'"), 36);
    ts_sweep_fini(&sweep);
}

/* The same sweep with other values of `units`. */
static void write_units(struct ts_sweep *sweep, const char *values)
{
    char text[sizeof yaml + 32];
    const char *list = strstr(yaml, "[2, 3, 5]");
    snprintf(text, sizeof text, "%.*s%s%s", (int)(list - yaml), yaml, values, list + strlen("[2, 3, 5]"));
    ts_sweep_write(sweep, text);
}

/* `keep` counts the trials of the present file, also when some were away while others ended. */
Test(scheduler, trials_that_come_back_are_kept_only_if_they_are_among_the_best)
{
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, yaml);
    run_to_end(&sweep, 2, &(struct fm_scripted_options){.order = 1});
    static const char *const lists[] = {"[3, 5, 7]", "[2, 5, 7]", "[2, 3, 7]", "[2, 3, 5, 7]"};
    for (size_t i = 0; i < 4; i++) {
        write_units(&sweep, lists[i]);
        run_to_end(&sweep, 2, &(struct fm_scripted_options){.order = 2 + i});
    }
    cr_assert_eq(ts_sweep_number(&sweep, "SELECT count(*) FROM trial WHERE kept AND listed"), 2);
    cr_assert_eq(ts_sweep_number(&sweep, "SELECT count(DISTINCT trial) FROM score"), 2);
    ts_sweep_fini(&sweep);
}

static void write_windows(struct ts_sweep *sweep, const char *values)
{
    FILE *file = fopen(sweep->file, "w");
    cr_assert(file);
    fprintf(file,
            "data: {source: csv, path: data.csv, record: rec, features: [x, z], target: y, window: {length: "
            "\"${w}\", align: end, label: first, horizon: 10}}\n"
            "cv: {split: kfold, folds: 2}\n"
            "model: [flatten, {dense: {units: 2, activation: softmax}}]\n"
            "train: {loss: categorical_crossentropy, epochs: 1}\n"
            "method: grid\nparameters: {w: {values: %s}}\n",
            values);
    cr_assert_eq(fclose(file), 0);
}

/* Windows of 3 have their label later than those of 5: some examples would be gone, and all folds others. */
Test(scheduler, a_length_that_changes_the_examples_is_refused)
{
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, "");
    write_windows(&sweep, "[5]");
    run_to_end(&sweep, 1, &(struct fm_scripted_options){.order = 1});
    write_windows(&sweep, "[5, 3]");
    struct ts_sweep_options options = {.backend = &fm_backend_scripted, .lanes = 1};
    struct fm_error err = {0};
    fm_scripted_configure(&(struct fm_scripted_options){.order = 1});
    cr_assert_eq(ts_sweep_run(&sweep, &options, &err), FM_EFILE);
    cr_assert(strstr(err.text, "there were 30 examples and are 24 now"), "%s", err.text);
    ts_sweep_fini(&sweep);
}

static atomic_int stop_at_restore;

/* Stops the sweep, and cancels the request, when the first run puts its best weights back. */
static int submit_and_cancel(struct fm_lane *lane, const struct fm_request *request, struct fm_error *err)
{
    int rc = fm_backend_scripted.submit(lane, request, err);
    if (!rc && request->kind == FM_RESTORE && request->slot == FM_SLOT_BEST) {
        atomic_store(&stop_at_restore, 1);
        fm_backend_scripted.cancel(lane);
    }
    return rc;
}

Test(scheduler, a_run_cancelled_between_safe_points_goes_on_from_its_last_checkpoint)
{
    struct fm_scripted_options scripted = {.order = 1};
    char *want = expected(&scripted);
    struct ts_sweep sweep;
    ts_sweep_init(&sweep, yaml);
    struct fm_backend cancelling = fm_backend_scripted;
    cancelling.submit = submit_and_cancel;
    struct ts_sweep_options options = {.backend = &cancelling, .lanes = 1, .stop = &stop_at_restore};
    struct fm_error err = {0};
    fm_scripted_configure(&scripted);
    cr_assert_eq(ts_sweep_run(&sweep, &options, &err), FM_EINTERRUPTED, "%s", err.text);
    cr_assert_eq(fm_scripted_counts()->cancelled, 1);
    run_to_end(&sweep, 1, &scripted);
    char *got = ts_sweep_dump(&sweep);
    cr_assert_str_eq(got, want);
    free(got);
    free(want);
    ts_sweep_fini(&sweep);
}

/* Out of memory is no result of the run's own as long as it was not tried alone: other runs, or other
 * programs, may have had the memory. */
Test(scheduler, a_run_short_of_memory_is_tried_once_more_alone)
{
    static const enum fm_scripted_what places[] = {FM_SCRIPTED_OPEN, FM_SCRIPTED_TRAIN, FM_SCRIPTED_EVALUATE};
    char *want = expected(&(struct fm_scripted_options){.order = 1});
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct fm_scripted_options scripted = {.order = 3 + i, .nfaults = 1};
        scripted.faults[0] = (struct fm_scripted_fault){
            .what = places[i], .repeat = -1, .fold = 1, .epoch = 2, .code = FM_ENOMEM, .times = 1};
        for (int64_t lanes = 1; lanes <= 4; lanes += 3) {
            struct ts_sweep again;
            ts_sweep_init(&again, yaml);
            run_to_end(&again, lanes, &scripted);
            char *got = ts_sweep_dump(&again);
            cr_assert_str_eq(got, want);
            free(got);
            ts_sweep_fini(&again);
        }
    }
    free(want);
}
