/* What a device does to a sweep: it is lost, it is another one, its libraries choose otherwise. With the
 * scripted backend. */
#include <criterion/criterion.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/board.h"
#include "support/scripted.h"
#include "support/sweep.h"

static const char yaml[] = "cv: {split: kfold, folds: 3}\n"
                           "model: [flatten, {dense: {units: \"${units}\", activation: relu}}, "
                           "{dense: {units: 2, activation: softmax}}]\n"
                           "train: {loss: categorical_crossentropy, batch_size: 7, epochs: 4}\n"
                           "method: grid\n"
                           "parameters: {units: {values: [2, 3]}}\n";
#define RUNS 6

static struct ts_sweep sweep;

static void set_up(void)
{
    ts_sweep_init(&sweep, yaml);
}

static void tear_down(void)
{
    ts_sweep_fini(&sweep);
}

TestSuite(sweep_devices, .init = set_up, .fini = tear_down);

static int run_on(const struct fm_backend *backend, int64_t lanes, const struct fm_scripted_options *scripted,
                  bool accept, struct fm_error *err)
{
    const struct ts_sweep_options options = {.backend = backend, .lanes = lanes, .accept_other = accept};
    memset(err, 0, sizeof *err);
    fm_scripted_configure(scripted);
    int rc = ts_sweep_run(&sweep, &options, err);
    cr_expect_eq(fm_scripted_counts()->after_loss, 0, "a lost device is left alone");
    cr_expect_eq(fm_scripted_counts()->opened, fm_scripted_counts()->closed);
    return rc;
}

static void finish(const struct fm_backend *backend, const struct fm_scripted_options *scripted)
{
    struct fm_error err;
    cr_assert_eq(run_on(backend, 3, scripted, false, &err), 0, "%s", err.text);
}

/* The journal of the same sweep, undisturbed; in a folder of its own. */
static char *expected(const struct fm_scripted_options *scripted)
{
    struct ts_sweep disturbed = sweep;
    ts_sweep_init(&sweep, yaml);
    finish(&fm_backend_scripted, scripted);
    char *dump = ts_sweep_dump(&sweep);
    ts_sweep_fini(&sweep);
    sweep = disturbed;
    return dump;
}

static long number(const char *query)
{
    return ts_sweep_number(&sweep, query);
}

static void execute(const char *sql)
{
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(sweep.journal, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

#define SUSPECTS  "SELECT count(*) FROM run WHERE suspect"
#define COMPLETED "SELECT count(*) FROM run WHERE status = 'completed'"

Test(sweep_devices, a_loss_marks_what_was_under_way_and_the_journal_goes_on)
{
    static const enum fm_scripted_what places[] = {FM_SCRIPTED_TRAIN, FM_SCRIPTED_EVALUATE};
    char *want = expected(&(struct fm_scripted_options){.order = 1});
    for (size_t i = 0; i < 2; i++) {
        struct fm_error err;
        struct fm_scripted_options scripted = {.order = 2 + i, .nfaults = 1};
        scripted.faults[0] = (struct fm_scripted_fault){
            .what = places[i], .repeat = -1, .fold = 1, .epoch = 2, .code = FM_EDEVICE, .times = 1};
        cr_assert_eq(run_on(&fm_backend_scripted, 3, &scripted, false, &err), FM_EDEVICE);
        cr_expect(strstr(err.text, "the same command goes on from here"), "%s", err.text);
        cr_expect_eq(number(SUSPECTS), number("SELECT count(*) FROM run WHERE status = 'running'"));
        cr_expect_gt(number(SUSPECTS), 1);
        cr_expect_eq(number("SELECT clean FROM sweep"), 1, "closed as after a stop");
        cr_expect_gt(number("SELECT to_device FROM transfers"), 0);
        const long suspects = number(SUSPECTS), before = number(COMPLETED);
        /* One lane at a time until they are over, and whatever else there is beside each other after that. */
        finish(&fm_backend_scripted, &(struct fm_scripted_options){.order = 4});
        cr_expect_eq(number(SUSPECTS), 0);
        if (suspects + before >= RUNS - 1) cr_expect_eq(fm_scripted_counts()->beside, 0);
        char *got = ts_sweep_dump(&sweep);
        cr_expect_str_eq(got, want);
        free(got);
        ts_sweep_fini(&sweep);
        ts_sweep_init(&sweep, yaml);
    }
    free(want);
}

/* Loses the device whenever this fold gets to its second epoch. */
static struct fm_scripted_options poisoned(int64_t fold)
{
    struct fm_scripted_options scripted = {.order = 7, .nfaults = 1};
    scripted.faults[0] = (struct fm_scripted_fault){
        .what = FM_SCRIPTED_TRAIN, .repeat = -1, .fold = fold, .epoch = 1, .code = FM_EDEVICE};
    return scripted;
}

Test(sweep_devices, the_run_that_loses_the_device_again_has_failed)
{
    const struct fm_scripted_options scripted = poisoned(2);
    struct fm_error err;
    int rc, losses = 0;
    while ((rc = run_on(&fm_backend_scripted, 4, &scripted, false, &err)) == FM_EDEVICE)
        cr_assert_lt(++losses, 12, "%s", err.text);
    cr_assert_eq(rc, 0, "%s", err.text);
    cr_expect_gt(losses, 2);
    cr_expect_eq(
        number("SELECT count(*) FROM run WHERE status = 'failed' AND reason_code = 'device' AND fold = 2"),
        2);
    cr_expect_eq(number(COMPLETED), RUNS - 2, "nobody else suffers");
    cr_expect_eq(number(SUSPECTS), 0);
    cr_expect_eq(number("SELECT count(*) FROM run WHERE reason LIKE '%lost twice%this request fails%'"), 2);
}

Test(sweep_devices, one_lane_gives_a_run_two_tries)
{
    const struct fm_scripted_options scripted = poisoned(0);
    struct fm_error err;
    cr_assert_eq(run_on(&fm_backend_scripted, 1, &scripted, false, &err), FM_EDEVICE);
    cr_expect_eq(number(SUSPECTS), number("SELECT count(*) FROM run WHERE status = 'running'"));
    cr_expect_eq(number("SELECT count(*) FROM run WHERE status = 'failed'"), 0);
}

Test(sweep_devices, lost_when_a_lane_opens)
{
    struct fm_scripted_options scripted = {.order = 1, .nfaults = 1};
    scripted.faults[0] = (struct fm_scripted_fault){
        .what = FM_SCRIPTED_OPEN, .repeat = -1, .fold = 1, .code = FM_EDEVICE, .times = 1};
    struct fm_error err;
    cr_assert_eq(run_on(&fm_backend_scripted, 2, &scripted, false, &err), FM_EDEVICE);
    cr_expect_geq(number(SUSPECTS), 1);
    finish(&fm_backend_scripted, &(struct fm_scripted_options){.order = 1});
    cr_expect_eq(number(COMPLETED), RUNS);
}

/* ---- another device ---- */

static const char old_gpu[] = "cuda:sm_61x20,driver 12020,kernels auto";
static const char new_gpu[] = "cuda:sm_90x132,driver 13000,kernels auto";

static void interrupt_on(const struct fm_backend *backend, const char *numbers, const char *choices)
{
    struct fm_error err;
    const struct fm_scripted_options scripted = {
        .order = 1, .numbers = numbers, .lost_after = 14, .choices = choices};
    cr_assert_eq(run_on(backend, 2, &scripted, false, &err), FM_EDEVICE);
    cr_assert_gt(number("SELECT count(*) FROM run WHERE status = 'running'"), 0);
}

Test(sweep_devices, another_gpu_is_refused_unless_accepted)
{
    struct fm_error err;
    interrupt_on(&fm_backend_scripted, old_gpu, NULL);
    const long begun = number("SELECT count(*) FROM run WHERE status = 'running'");
    struct fm_scripted_options scripted = {.order = 1, .numbers = new_gpu};
    cr_assert_eq(run_on(&fm_backend_scripted, 2, &scripted, false, &err), FM_EUSAGE);
    cr_expect(strstr(err.text, old_gpu) && strstr(err.text, new_gpu), "%s", err.text);
    cr_expect(strstr(err.text, "--accept-other-device"), "%s", err.text);
    cr_expect_eq(number("SELECT count(*) FROM run WHERE numbers LIKE '%x132%'"), 0, "nothing has changed");
    /* As if it had been stopped twice, and not lost. */
    execute("UPDATE run SET suspect = 0");
    scripted.lost_after = 1;
    cr_assert_eq(run_on(&fm_backend_scripted, 1, &scripted, true, &err), FM_EDEVICE);
    scripted.lost_after = 0;
    /* What was accepted once stays so. */
    cr_assert_eq(run_on(&fm_backend_scripted, 2, &scripted, false, &err), 0, "%s", err.text);
    cr_expect_eq(number(COMPLETED), RUNS);
    cr_expect_eq(number("SELECT count(*) FROM run WHERE began_on LIKE '%x20%' AND numbers LIKE '%x132%'"),
                 begun);

    struct fm_board *board = NULL;
    char *json = NULL, *text = NULL;
    cr_assert_eq(fm_board_collect(&board, sweep.journal, &err), 0, "%s", err.text);
    cr_assert_eq(fm_board_json(board, 0, &json, &err), 0);
    cr_expect(strstr(json, "\"began_on\": \"cuda:sm_61x20,"), "%s", json);
    const struct fm_look look = {0};
    cr_assert_eq(fm_board_text(board, 0, &look, &text, &err), 0);
    cr_expect(strstr(text, "begun on another kind of GPU"), "%s", text);
    fm_text_release(text);
    long told = 0;
    for (int64_t t = 1; t <= 2; t++) {
        cr_assert_eq(fm_board_text(board, t, &look, &text, &err), 0);
        for (const char *at = text; (at = strstr(at, "began on cuda:sm_61x20")); at++) told++;
        fm_text_release(text);
    }
    cr_expect_eq(told, begun);
    fm_text_release(json);
    fm_board_free(board);
}

Test(sweep_devices, a_finished_sweep_and_other_runs_do_not_mind_the_device)
{
    struct fm_error err;
    finish(&fm_backend_scripted, &(struct fm_scripted_options){.order = 1, .numbers = old_gpu});
    const struct fm_scripted_options scripted = {.order = 1, .numbers = new_gpu};
    cr_expect_eq(run_on(&fm_backend_scripted, 2, &scripted, false, &err), 0, "%s", err.text);
    cr_expect_eq(fm_scripted_counts()->opened, 0);
}

/* Gives the trials one more network, so that something is left to do. */
static void list_more(void)
{
    static const char more[] = "cv: {split: kfold, folds: 3}\n"
                               "model: [flatten, {dense: {units: \"${units}\", activation: relu}}, "
                               "{dense: {units: 2, activation: softmax}}]\n"
                               "train: {loss: categorical_crossentropy, batch_size: 7, epochs: 4}\n"
                               "method: grid\n"
                               "parameters: {units: {values: [2, 3, 4]}}\n";
    ts_sweep_write(&sweep, more);
}

Test(sweep_devices, finished_runs_of_another_gpu_are_not_mixed_without_consent)
{
    struct fm_error err;
    struct fm_scripted_options scripted = {.order = 1, .numbers = new_gpu};
    finish(&fm_backend_scripted, &(struct fm_scripted_options){.order = 1, .numbers = old_gpu});
    list_more();
    cr_assert_eq(run_on(&fm_backend_scripted, 2, &scripted, false, &err), FM_EUSAGE);
    cr_expect(strstr(err.text, old_gpu) && strstr(err.text, new_gpu), "%s", err.text);
    cr_expect_eq(number("SELECT count(*) FROM trial"), 2, "nothing has changed");
    scripted.lost_after = 4;
    cr_assert_eq(run_on(&fm_backend_scripted, 1, &scripted, true, &err), FM_EDEVICE);
    scripted.lost_after = 0;
    cr_assert_eq(run_on(&fm_backend_scripted, 2, &scripted, false, &err), 0, "%s", err.text);
    cr_expect_eq(number(COMPLETED), RUNS + 3);
    cr_expect_eq(number("SELECT count(*) FROM run WHERE accepted AND numbers LIKE '%x132%'"), 3);
    cr_expect_eq(number("SELECT count(*) FROM run WHERE accepted OR began_on NOT NULL"), 3);

    struct fm_board *board = NULL;
    const struct fm_look look = {0};
    char *json = NULL, *text = NULL;
    cr_assert_eq(fm_board_collect(&board, sweep.journal, &err), 0, "%s", err.text);
    cr_assert_eq(fm_board_json(board, 3, &json, &err), 0);
    cr_expect(strstr(json, "\"accepted_other_device\": true"), "%s", json);
    cr_assert_eq(fm_board_text(board, 0, &look, &text, &err), 0);
    cr_expect(strstr(text, "3 runs were computed where those of another kind of GPU were"), "%s", text);
    fm_text_release(text);
    cr_assert_eq(fm_board_text(board, 3, &look, &text, &err), 0);
    cr_expect(strstr(text, "accepted beside another kind of GPU"), "%s", text);
    fm_text_release(text);
    fm_text_release(json);
    fm_board_free(board);
}

/* A processor goes on with the rows of a GPU, and a GPU with those of a processor, as long as nothing of
 * another kind of GPU is under way. */
Test(sweep_devices, finished_runs_of_processors_and_gpus_mix)
{
    struct fm_error err;
    struct fm_scripted_options scripted = {.order = 1, .numbers = "cpu-fma"};
    finish(&fm_backend_scripted, &(struct fm_scripted_options){.order = 1, .numbers = old_gpu});
    list_more();
    scripted.lost_after = 8;
    cr_assert_eq(run_on(&fm_backend_scripted, 2, &scripted, false, &err), FM_EDEVICE);
    cr_assert_gt(number("SELECT count(*) FROM run WHERE status = 'running'"), 0);
    scripted.lost_after = 0;
    scripted.numbers = old_gpu;
    cr_assert_eq(run_on(&fm_backend_scripted, 2, &scripted, false, &err), 0, "%s", err.text);
    cr_expect_eq(number("SELECT count(*) FROM run WHERE accepted OR began_on NOT NULL"), 0);
    cr_expect_eq(number(COMPLETED), RUNS + 3);
}

Test(sweep_devices, a_processor_asks_before_it_starts_over_what_a_gpu_began)
{
    struct fm_error err;
    const struct fm_scripted_options scripted = {.order = 1, .numbers = "cpu-fma"};
    interrupt_on(&fm_backend_scripted, old_gpu, NULL);
    const long begun = number("SELECT count(*) FROM run WHERE status = 'running'");
    cr_assert_eq(run_on(&fm_backend_scripted, 2, &scripted, false, &err), FM_EUSAGE);
    cr_assert_eq(run_on(&fm_backend_scripted, 2, &scripted, true, &err), 0, "%s", err.text);
    cr_expect_eq(number("SELECT count(*) FROM run WHERE began_on LIKE '%x20%'"), begun);
    cr_expect_eq(number("SELECT count(*) FROM run WHERE accepted"), 0);
}

/* ---- choices of the plans ---- */

Test(sweep_devices, a_resume_uses_the_choices_on_record)
{
    char *want = expected(&(struct fm_scripted_options){.order = 1, .numbers = new_gpu});
    interrupt_on(&fm_backend_scripted_choosing, new_gpu, "conv1d forward cudnn 1");
    cr_expect_eq(number("SELECT count(*) FROM plan WHERE choices LIKE '%cudnn 1'"), 2, "a network each");
    const long hash = number("SELECT plan_hash FROM run WHERE status = 'running' LIMIT 1");
    char same[128];
    snprintf(same, sizeof same, "SELECT count(*) FROM run WHERE plan_hash = %ld AND status = 'completed'",
             hash);
    finish(
        &fm_backend_scripted_choosing,
        &(struct fm_scripted_options){.order = 2, .numbers = new_gpu, .choices = "conv1d forward cudnn 6"});
    cr_expect_eq(fm_scripted_counts()->used, 2);
    cr_expect_eq(number(same), 3, "all runs of the network have the plan that it began with");
    cr_expect_eq(number("SELECT count(*) FROM plan WHERE choices LIKE '%cudnn 6'"), 0);
    char *got = ts_sweep_dump(&sweep);
    cr_expect_str_eq(got, want);
    free(got);
    free(want);
}

/* Having chosen nothing is a choice as well. */
Test(sweep_devices, no_choice_is_recorded_too)
{
    interrupt_on(&fm_backend_scripted_choosing, new_gpu, NULL);
    finish(
        &fm_backend_scripted_choosing,
        &(struct fm_scripted_options){.order = 2, .numbers = new_gpu, .choices = "conv1d forward cudnn 6"});
    cr_expect_eq(fm_scripted_counts()->used, 2);
    cr_expect_eq(number("SELECT count(*) FROM plan WHERE choices = ''"), 2);
    cr_expect_eq(number("SELECT count(DISTINCT plan_hash) FROM run"), 2);
}

Test(sweep_devices, choices_that_make_no_sense_are_replaced_and_runs_start_over)
{
    interrupt_on(&fm_backend_scripted_choosing, new_gpu, "a");
    finish(&fm_backend_scripted_choosing,
           &(struct fm_scripted_options){.order = 2, .numbers = new_gpu, .choices = "b", .stubborn = true});
    cr_expect_eq(number("SELECT count(*) FROM plan WHERE choices = 'b'"), 2);
    cr_expect_eq(number(COMPLETED), RUNS);
}

/* Choices are those of a kind of device: another one makes its own. */
Test(sweep_devices, another_class_of_numbers_has_choices_of_its_own)
{
    interrupt_on(&fm_backend_scripted_choosing, "one", "a");
    finish(&fm_backend_scripted_choosing,
           &(struct fm_scripted_options){.order = 2, .numbers = "two", .choices = "b"});
    cr_expect_eq(fm_scripted_counts()->used, 0);
    cr_expect_eq(number("SELECT count(*) FROM plan WHERE numbers = 'one' AND choices = 'a'"), 2);
    cr_expect_eq(number("SELECT count(*) FROM plan WHERE numbers = 'two' AND choices = 'b'"), 2);
}

/* ---- plans that lose the device ---- */

/* Of the network with 3 units: 8 x 3 + 3 and 3 x 2 + 2. The other one has 24 parameters. */
#define LARGER 35

Test(sweep_devices, a_plan_that_loses_the_device_is_made_without_libraries_then)
{
    struct fm_error err;
    const struct fm_scripted_options scripted = {
        .order = 1, .numbers = new_gpu, .choices = "cudnn 1", .plan_loses = LARGER};
    cr_assert_eq(run_on(&fm_backend_scripted_choosing, 2, &scripted, false, &err), FM_EDEVICE);
    cr_expect(strstr(err.text, "batch_size 7") && strstr(err.text, "--kernels own"), "%s", err.text);
    cr_expect_eq(number("SELECT count(*) FROM sweep"), 0, "it had not begun");
    cr_expect_eq(number("SELECT count(*) FROM plan WHERE lost AND choices = ''"), 1);
    /* The same loss does not come again, and the other network keeps its choices. */
    finish(&fm_backend_scripted_choosing, &scripted);
    cr_expect_eq(number(COMPLETED), RUNS);
    cr_expect_eq(number("SELECT count(*) FROM plan WHERE lost AND choices = ''"), 1);
    cr_expect_eq(number("SELECT count(*) FROM plan WHERE NOT lost AND choices = 'cudnn 1'"), 1);
    cr_expect_eq(number("SELECT count(*) FROM note WHERE text LIKE '%1 network (%--kernels own%'"), 1);
}

Test(sweep_devices, a_loss_says_nothing_of_another_class_of_numbers)
{
    struct fm_error err;
    struct fm_scripted_options scripted = {
        .order = 1, .numbers = old_gpu, .choices = "cudnn 1", .plan_loses = LARGER};
    cr_assert_eq(run_on(&fm_backend_scripted_choosing, 2, &scripted, false, &err), FM_EDEVICE);
    scripted.numbers = new_gpu;
    cr_assert_eq(run_on(&fm_backend_scripted_choosing, 2, &scripted, false, &err), FM_EDEVICE);
    cr_expect_eq(number("SELECT count(*) FROM plan WHERE lost"), 2);
    finish(&fm_backend_scripted_choosing, &scripted);
}

/* Choices on record lose the device at a resume: none take their place, and what began with them starts over.
 */
Test(sweep_devices, choices_on_record_that_lose_the_device_are_given_up)
{
    struct fm_error err;
    interrupt_on(&fm_backend_scripted_choosing, new_gpu, "cudnn 1");
    /* As a device would that chooses nothing for this network any more by itself. */
    const struct fm_scripted_options scripted = {.order = 2, .numbers = new_gpu, .plan_loses = LARGER};
    execute("UPDATE plan SET choices = ''; INSERT OR REPLACE INTO plan SELECT numbers, network, batch, "
            "'cudnn 6', 0 FROM plan JOIN trial USING(network) WHERE param_count = 35");
    cr_assert_eq(run_on(&fm_backend_scripted_choosing, 2, &scripted, false, &err), FM_EDEVICE);
    cr_expect_eq(number("SELECT count(*) FROM plan WHERE lost AND choices = ''"), 1);
    finish(&fm_backend_scripted_choosing, &scripted);
    cr_expect_eq(number(COMPLETED), RUNS);
    cr_expect_eq(number("SELECT count(*) FROM plan WHERE choices <> ''"), 0);
}

/* ---- memory ---- */

Test(sweep_devices, memory_that_is_the_devices_own_is_told_as_such)
{
    finish(&fm_backend_scripted,
           &(struct fm_scripted_options){.order = 1, .bytes = 3000000, .memory = 1500000});
    cr_expect_eq(number("SELECT count(*) FROM run WHERE reason_code = 'oom'"), RUNS);
    cr_expect_eq(
        number("SELECT count(*) FROM run WHERE reason LIKE 'this run needs 3.0 MB and the device offers "
               "1.5 MB:%'"),
        RUNS);
}

Test(sweep_devices, out_of_memory_alone_fails_that_run_only)
{
    struct fm_scripted_options scripted = {.order = 1, .memory = 1 << 30, .nfaults = 1};
    scripted.faults[0] =
        (struct fm_scripted_fault){.what = FM_SCRIPTED_OPEN, .repeat = -1, .fold = 1, .code = FM_ENOMEM};
    finish(&fm_backend_scripted, &scripted);
    cr_expect_eq(number("SELECT count(*) FROM run WHERE reason_code = 'oom' AND fold = 1"), 2);
    cr_expect_eq(number(COMPLETED), RUNS - 2);
}

/* ---- journals of earlier versions ---- */

Test(sweep_devices, a_journal_of_version_1_is_read_and_goes_on)
{
    struct fm_error err;
    char *want = expected(&(struct fm_scripted_options){.order = 1});
    interrupt_on(&fm_backend_scripted, NULL, NULL);
    execute("DROP TABLE plan; DROP TABLE accepted; ALTER TABLE run DROP COLUMN suspect;"
            "ALTER TABLE run DROP COLUMN began_on; ALTER TABLE run DROP COLUMN accepted;"
            "PRAGMA user_version = 1");
    struct fm_board *board = NULL;
    cr_assert_eq(fm_board_collect(&board, sweep.journal, &err), 0, "%s", err.text);
    cr_expect_eq(board->ntrials, 2);
    cr_expect_str_eq(board->trials[0].runs[0].began_on, "");
    fm_board_free(board);
    finish(&fm_backend_scripted, &(struct fm_scripted_options){.order = 3});
    cr_expect_eq(number("PRAGMA user_version"), 3);
    cr_expect_eq(number("SELECT count(*) FROM runs WHERE suspect IS NOT NULL"), RUNS,
                 "the view has the column");
    char *got = ts_sweep_dump(&sweep);
    cr_expect_str_eq(got, want);
    free(got);
    free(want);
}

Test(sweep_devices, a_journal_of_version_2_is_read_and_goes_on)
{
    struct fm_error err;
    const struct fm_scripted_options scripted = {
        .order = 3, .numbers = new_gpu, .choices = "conv1d forward cudnn 6"};
    char *want = expected(&(struct fm_scripted_options){.order = 1, .numbers = new_gpu});
    interrupt_on(&fm_backend_scripted_choosing, new_gpu, "conv1d forward cudnn 1");
    execute("ALTER TABLE plan DROP COLUMN lost; DROP TABLE accepted; ALTER TABLE run DROP COLUMN accepted;"
            "PRAGMA user_version = 2");
    struct fm_board *board = NULL;
    cr_assert_eq(fm_board_collect(&board, sweep.journal, &err), 0, "%s", err.text);
    cr_expect_not(board->trials[0].runs[0].accepted);
    fm_board_free(board);
    finish(&fm_backend_scripted_choosing, &scripted);
    cr_expect_eq(number("PRAGMA user_version"), 3);
    cr_expect_eq(fm_scripted_counts()->used, 2, "what was chosen is still on record");
    cr_expect_eq(number("SELECT count(*) FROM plan WHERE choices LIKE '%cudnn 1' AND NOT lost"), 2);
    char *got = ts_sweep_dump(&sweep);
    cr_expect_str_eq(got, want);
    free(got);
    free(want);
}
