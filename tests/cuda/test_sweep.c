/* Whole sweeps by the program on the emulated GPU: the CPU's leaderboard, the same bits whatever happens on
 * the way, what crosses the bus, what is told. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_support.h"
#include "support/sweep.h"
#include "support/tolerance.h"

/* Nearly everything that a step can have, small; Adam with a large epsilon, so that rounding stays rounding.
 */
static const char sweep_text[] =
    "name: emulated\n"
    "data: {source: sine, samples: 420, anomalies: 30, height: 3, window: {length: 12, edge: wrap, label: "
    "any}}\n"
    "cv: {split: blocked, folds: 2, inner: {split: holdout, test_size: 0.25}}\n"
    "model:\n"
    "  - conv1d: {filters: 4, kernel_size: 3, padding: same}\n"
    "  - batch_normalization\n"
    "  - relu\n"
    "  - max_pooling1d: {pool_size: 2}\n"
    "  - flatten\n"
    "  - dropout: {rate: 0.25}\n"
    "  - dense: {units: 2, activation: softmax}\n"
    "train:\n"
    "  loss: categorical_crossentropy\n"
    "  batch_size: 32\n"
    "  epochs: 4\n"
    "  class_weight: balanced\n"
    "  early_stopping: {patience: 3, restore_best_weights: true}\n"
    "  optimizer: {adam: {learning_rate: 1e-2, epsilon: 1e-2, global_clipnorm: 1.0}}\n"
    "metric: {name: val_auc}\n";

static struct cli cli;
static char plugins[256];

static void set_up(void)
{
    const char *program = ts_program(), *slash = strrchr(program, '/');
    cr_assert(cli_begin(&cli, sweep_text));
    snprintf(plugins, sizeof plugins, "FOLDMILL_PLUGINS=%.*s/emulated", slash ? (int)(slash - program) : 1,
             slash ? program : ".");
}

static void tear_down(void)
{
    cli_end(&cli);
}

TestSuite(cuda_sweep, .init = set_up, .fini = tear_down, .timeout = 300);

/* Runs the program with those words behind "run FILE -q --json --journal JOURNAL" and the settings of the
 * emulator; `before`: words before the program (NULL = none). Gives the exit code. */
static int run_after(const char *const *before, const char *settings, const char *words)
{
    char emulator[128], copy[256], *rest = NULL;
    const char *argv[32];
    int n = 0;
    for (; before && *before; before++) argv[n++] = *before;
    const char *const fixed[] = {ts_program(), "run", cli.file, "-q", "--json", "--journal", cli.journal};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) argv[n++] = fixed[i];
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok_r(copy, " ", &rest); word && n < 31; word = strtok_r(NULL, " ", &rest))
        argv[n++] = word;
    argv[n] = NULL;
    snprintf(emulator, sizeof emulator, "FOLDMILL_EMULATOR=%s", settings);
    const char *const environment[] = {plugins, emulator, NULL};
    ts_result_fini(&cli.result);
    memset(&cli.result, 0, sizeof cli.result);
    return ts_run(argv, environment, 120, &cli.result) ? cli.result.exit_code : -1;
}

static int run_with(const char *settings, const char *words)
{
    return run_after(NULL, settings, words);
}

/* Another journal, so that the next run begins from nothing. */
static void next_journal(const char *name)
{
    ts_join(cli.journal, sizeof cli.journal, cli.folder, name);
}

static char *dump(void)
{
    struct ts_sweep sweep = {.journal = cli.journal};
    return ts_sweep_dump(&sweep);
}

static json_t *output(void)
{
    json_error_t where;
    json_t *root = json_loads(cli.result.out, JSON_REJECT_DUPLICATES, &where);
    cr_assert(root != NULL, "%s in %s%s", where.text, cli.result.out, cli.result.err);
    return root;
}

static int64_t transferred(const char *way)
{
    json_t *root = output();
    int64_t bytes = json_integer_value(json_object_get(json_object_get(root, "transfers"), way));
    json_decref(root);
    return bytes;
}

/* What the first trial's runs measured, one after the other. */
static size_t measures(const json_t *root, double *out, size_t room)
{
    const json_t *runs = json_object_get(json_array_get(json_object_get(root, "trials"), 0), "runs");
    size_t n = 0, i;
    json_t *run, *value;
    const char *name;
    json_array_foreach(runs, i, run)
    {
        cr_assert_str_eq(json_string_value(json_object_get(run, "status")), "completed");
        json_object_foreach(json_object_get(run, "metrics"), name, value)
        {
            cr_assert_lt(n, room);
            out[n++] = json_is_number(value) ? json_number_value(value) : NAN;
        }
    }
    return n;
}

#define ROOM 128

static size_t measured(const char *journal, const char *settings, const char *words, double *out)
{
    next_journal(journal);
    cr_assert_eq(run_with(settings, words), 0, "%s", cli.result.err);
    json_t *root = output();
    size_t n = measures(root, out, ROOM);
    json_decref(root);
    return n;
}

Test(cuda_sweep, gives_the_leaderboard_of_the_cpu_with_any_kernels)
{
    static const char *const choices[] = {"--device cuda", "--device cuda --kernels own",
                                          "--device cuda:0 --kernels library"};
    double want[ROOM], got[ROOM];
    const size_t n = measured("cpu.db", "", "--device reference", want);
    cr_assert_gt(n, 20);
    for (size_t i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu.db", i);
        cr_assert_eq(measured(name, "card=h200", choices[i], got), n);
        cr_expect(cli_has(cli.result.err, "emulated"), "it says that no GPU computes");
        struct ts_worst worst = ts_compare(TS_ENGINE_STEPS, got, want, n);
        cr_expect(worst.ok, "%s: %s", choices[i], worst.text);
    }
}

Test(cuda_sweep, gives_the_same_bits_whatever_the_lanes_the_order_and_the_cards)
{
    static const char *const ways[][2] = {{"policy=random,seed=3", "--device cuda --lanes 4"},
                                          {"policy=last,threads=1", "--device cuda --lanes 2"},
                                          {"policy=starve,starved=1,no_graphs", "--device cuda --lanes 2"},
                                          {"cards=2,policy=random,seed=9", "--device cuda:1,0"}};
    cr_assert_eq(run_with("", "--device cuda --lanes 1"), 0, "%s", cli.result.err);
    char *want = dump();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu.db", i);
        next_journal(name);
        cr_expect_eq(run_with(ways[i][0], ways[i][1]), 0, "%s: %s", ways[i][0], cli.result.err);
        char *got = dump();
        cr_expect_str_eq(got, want, "%s %s", ways[i][0], ways[i][1]);
        free(got);
    }
    free(want);
}

/* Three lanes and a half fit on each of two cards: seven by arithmetic, six in fact. */
Test(cuda_sweep, what_has_no_room_on_one_card_waits)
{
    cr_assert_eq(run_with("cards=2,memory=2500000", "--device cuda:0,1 --set cv.folds=8 --set train.epochs=2 "
                                                    "--set train.batch_size=512"),
                 0, "%s", cli.result.err);
    const struct ts_sweep sweep = {.journal = cli.journal};
    cr_expect_eq(ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE status = 'completed'"), 8);
    cr_expect_eq(ts_sweep_number(&sweep, "SELECT max(attempt) FROM run"), 1);
}

Test(cuda_sweep, goes_on_with_the_same_bits_after_signals)
{
    static const struct {
        const char *signal;
        int code;
    } stops[] = {{"INT", 130}, {"TERM", 75}, {"KILL", -1}};
    static const char words[] = "--device cuda --set train.epochs=24 --set train.early_stopping.patience=24";
    cr_assert_eq(run_with("", words), 0, "%s", cli.result.err);
    char *want = dump();
    int stopped = 0;
    next_journal("stopped.db");
    for (int i = 0; i < 3; i++) {
        char after[16];
        snprintf(after, sizeof after, "%.1f", 0.3 + 0.1 * i);
        const char *const before[] = {"timeout", "--preserve-status", "-s", stops[i].signal, after, NULL};
        const int code = run_after(before, "policy=random,seed=5", words);
        if (code == 0) break;
        /* A shell's word for a signal is 128 + its number. */
        cr_expect(code == stops[i].code || (stops[i].code < 0 && (code == 137 || code == -1)), "%s: %d %s",
                  stops[i].signal, code, cli.result.err);
        stopped++;
    }
    cr_expect_gt(stopped, 0, "too fast to be stopped");
    cr_assert_eq(run_with("", words), 0, "%s", cli.result.err);
    char *got = dump();
    cr_expect_str_eq(got, want);
    free(got);
    free(want);
}

Test(cuda_sweep, a_sticky_error_ends_with_75_and_the_next_call_goes_on)
{
    static const int calls[] = {60, 250, 700};
    cr_assert_eq(run_with("", "--device cuda --lanes 2"), 0, "%s", cli.result.err);
    char *want = dump();
    int lost = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char settings[64], name[16];
        snprintf(name, sizeof name, "%zu.db", i);
        snprintf(settings, sizeof settings, "fail=%d,sticky,status=719", calls[i]);
        next_journal(name);
        const int code = run_with(settings, "--device cuda --lanes 2");
        cr_expect(code == 75 || code == 0, "call %d: %d %s", calls[i], code, cli.result.err);
        cr_expect(code == 0 || cli_has(cli.result.err, "the device was lost"), "%s", cli.result.err);
        cr_expect(!cli_has(cli.result.err, "CUDA emulator:"), "call %d: %s", calls[i], cli.result.err);
        lost += code == 75;
        cr_assert_eq(run_with("", "--device cuda --lanes 2"), 0, "%s", cli.result.err);
        char *got = dump();
        cr_expect_str_eq(got, want, "after call %d", calls[i]);
        free(got);
    }
    cr_expect_gt(lost, 1);
    free(want);
}

/* The call of the emulator with which the first convolution is tried while a plan is made. */
static int trial_call(const char *words)
{
    for (int call = 30; call < 90; call++) {
        char settings[64], name[24];
        snprintf(name, sizeof name, "trial-%d.db", call);
        snprintf(settings, sizeof settings, "fail=%d,sticky,status=719", call);
        next_journal(name);
        if (run_with(settings, words) == 75 && cli_has(cli.result.err, "run cudnnConvolutionForward"))
            return call;
    }
    return 0;
}

/* The same command computes with own kernels what lost the device, and says so. */
static void expect_own(const double *want, size_t n)
{
    double got[ROOM];
    cr_assert_eq(run_with("", "--device cuda --kernels library"), 0, "%s", cli.result.err);
    json_t *root = output();
    cr_assert_eq(measures(root, got, ROOM), n);
    const char *note = json_string_value(json_array_get(json_object_get(root, "notes"), 0));
    cr_expect(note && cli_has(note, "--kernels own"), "%s", cli.result.out);
    json_decref(root);
    for (size_t i = 0; i < n; i++)
        cr_expect(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])), "%zu: %g %g", i, got[i], want[i]);
}

Test(cuda_sweep, a_plan_that_loses_the_device_loses_it_once)
{
    static const char words[] = "--device cuda --kernels library";
    double want[ROOM];
    char settings[64];
    const size_t n = measured("own.db", "", "--device cuda --kernels own", want);
    const int call = trial_call(words);
    cr_assert_gt(call, 0, "no trial was found");
    cr_expect(cli_has(cli.result.err, "batch_size 32") && cli_has(cli.result.err, "--kernels own"), "%s",
              cli.result.err);
    expect_own(want, n);
    snprintf(settings, sizeof settings, "fail=%d,sticky,status=719", call);
    /* Where a journal is there already, and where it is set aside. */
    next_journal("begun.db");
    cr_assert_eq(run_with("fail=700,sticky,status=719", words), 75, "%s", cli.result.err);
    cr_expect(!cli_has(cli.result.err, "while it planned"), "%s", cli.result.err);
    cr_expect_eq(run_with(settings, words), 75);
    cr_expect(cli_has(cli.result.err, "while it planned"), "%s", cli.result.err);
    expect_own(want, n);
    cr_expect_eq(run_with(settings, "--device cuda --kernels library --fresh"), 75);
    cr_expect(cli_has(cli.result.err, "the same command without --fresh"), "%s", cli.result.err);
    expect_own(want, n);
}

/* That call after call is failed until one of a library's is found in the middle of a run. CUDA goes on, and
 * so does every other run. */
Test(cuda_sweep, what_a_library_refuses_fails_one_run)
{
    const struct ts_sweep sweep = {.journal = cli.journal};
    long failed = 0;
    for (int call = 500; !failed && call < 700; call += 4) {
        char settings[64], name[16];
        snprintf(name, sizeof name, "%d.db", call);
        next_journal(name);
        snprintf(settings, sizeof settings, "fail=%d", call);
        const int code = run_with(settings, "--device cuda --kernels library --lanes 2");
        if (code == 75) continue;
        failed = ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE status = 'failed'");
        cr_expect_eq(code, failed ? 1 : 0, "call %d: %s", call, cli.result.err);
    }
    cr_assert_eq(failed, 1);
    cr_expect_eq(ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE reason_code = 'device' AND reason "
                                         "LIKE 'cu%failed: cu%--kernels own needs none'"),
                 1);
    cr_expect_eq(ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE status = 'completed'"), 1);
    cr_expect_eq(ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE suspect"), 0);
}

/* Bytes to the device beyond those of a shorter run, per epoch and run. */
static double per_epoch(int samples)
{
    int64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        char words[160], name[32];
        snprintf(name, sizeof name, "%d-%d.db", samples, i);
        next_journal(name);
        snprintf(words, sizeof words,
                 "--device cuda --lanes 1 --set data.samples=%d --set train.epochs=%d --set cv.inner=null "
                 "--set train.early_stopping=null",
                 samples, i ? 9 : 3);
        cr_assert_eq(run_with("", words), 0, "%s", cli.result.err);
        bytes[i] = transferred("to_device");
    }
    return (double)(bytes[1] - bytes[0]) / (6 * 2);
}

Test(cuda_sweep, moves_a_constant_number_of_bytes_an_epoch)
{
    const double small = per_epoch(300), large = per_epoch(1500);
    cr_expect_lt(small, 4096);
    cr_expect_lt(large, 4096);
    cr_expect_leq(fabs(large - small), 64, "%g and %g: it does not depend on the data", small, large);
}

Test(cuda_sweep, tells_what_stands_in_the_way)
{
    cr_expect_eq(run_with("no_driver", "--device cuda"), 2);
    cr_expect(cli_has(cli.result.err, "there is no NVIDIA driver"), "%s", cli.result.err);
    cr_expect_eq(run_with("nonsense", "--device cuda"), 2);
    cr_expect(cli_has(cli.result.err, "there is no setting 'nonsense'"), "%s", cli.result.err);
    cr_expect_eq(run_with("cards=2", "--device cuda:2"), 2);
    cr_expect(cli_has(cli.result.err, "there is no card 2"), "%s", cli.result.err);
    cr_expect_eq(run_with("card=gtx1060+h200", "--device cuda:0,1"), 2);
    cr_expect(cli_has(cli.result.err, "cards 0 (NVIDIA GeForce GTX 1060 6GB, sm_61") &&
                  cli_has(cli.result.err, "and 1 (NVIDIA H200, sm_90") &&
                  cli_has(cli.result.err, "name cards of one kind, or run a sweep for each"),
              "%s", cli.result.err);
    cr_expect_eq(run_with("fail=2,status=803", "--device cuda"), 2);
    cr_expect(cli_has(cli.result.err, "as after an update: reboot"), "%s", cli.result.err);
    cr_expect_eq(run_with("driver=12020", "--device cuda"), 2);
    cr_expect(
        cli_has(cli.result.err, "supports CUDA 12.2, this plug-in needs 13: install driver 580 or newer"),
        "%s", cli.result.err);
    cr_expect_eq(run_with("no_library", "--device cuda --kernels library"), 2, "calling again is of no use");
    cr_expect(cli_has(cli.result.err, "--kernels own needs none"), "%s", cli.result.err);
    cr_expect_eq(run_with("memory=3000", "--device cuda"), 1);
    cr_expect(cli_has(cli.result.err, "the data take"), "%s", cli.result.err);
    cr_expect_eq(run_with("", "--device auto --kernels own"), 2);
    cr_expect(cli_has(cli.result.err, "--kernels is for --device cuda"), "auto never takes the emulator");
    cr_expect_eq(run_with("", "--device cpu --profile"), 2);
    cr_expect(cli_has(cli.result.err, "--profile is for --device cuda"), "%s", cli.result.err);
    const char *const plan[] = {ts_program(), "plan", cli.file, "--device", "cuda", NULL};
    const char *const small[] = {plugins, "FOLDMILL_EMULATOR=memory=60000", NULL};
    ts_result_fini(&cli.result);
    cr_assert(ts_run(plan, small, 60, &cli.result));
    cr_expect(cli_has(cli.result.out, "1 trial would fail for want of memory"), "%s%s", cli.result.out,
              cli.result.err);
    const char *const argv[] = {ts_program(), "devices", NULL};
    const char *const environment[] = {plugins, "FOLDMILL_EMULATOR=cards=2,card=rtx3060", NULL};
    ts_result_fini(&cli.result);
    cr_assert(ts_run(argv, environment, 60, &cli.result));
    cr_expect(cli_has(cli.result.out, "\ncuda:0 ") && cli_has(cli.result.out, "\ncuda:1 ") &&
                  cli_has(cli.result.out, "sm_86"),
              "%s", cli.result.out);
}

Test(cuda_sweep, what_a_gpu_cannot_compute_the_cpu_can_on_the_same_journal)
{
    static const char words[] = "--device cuda --set train.epochs=1 --set train.batch_size=70000";
    cr_expect_eq(run_with("", words), 2);
    cr_expect(cli_has(cli.result.err, "take a smaller batch_size"), "%s", cli.result.err);
    cr_expect(cli_has(cli.result.out, "\"status\": \"invalid\""), "%s", cli.result.out);
    cr_expect_eq(run_with("", "--device cpu --set train.epochs=1 --set train.batch_size=70000"), 0, "%s",
                 cli.result.err);
    cr_expect(cli_has(cli.result.out, "\"status\": \"completed\""), "%s", cli.result.out);
    cr_expect_eq(run_with("", words), 0, "what is finished stays: %s", cli.result.err);
    cr_expect(cli_has(cli.result.out, "\"status\": \"completed\""), "%s", cli.result.out);
}

Test(cuda_sweep, another_kind_of_gpu_is_refused_and_profiles_are_printed)
{
    static const char words[] = "--device cuda --set train.epochs=12 --set train.early_stopping.patience=12";
    char profiled[128];
    cr_assert_eq(run_with("card=gtx1060,fail=400,sticky,status=719", words), 75, "%s", cli.result.err);
    cr_expect_eq(run_with("card=h200", words), 2);
    cr_expect(cli_has(cli.result.err, "sm_61") && cli_has(cli.result.err, "sm_90"), "%s", cli.result.err);
    snprintf(profiled, sizeof profiled, "%s --accept-other-device --profile", words);
    cr_expect_eq(run_with("card=h200", profiled), 0, "%s", cli.result.err);
    cr_expect(cli_has(cli.result.out, "\"began_on\": \"cuda:sm_61"), "%s", cli.result.out);
    cr_expect(cli_has(cli.result.err, "wall time"), "%s", cli.result.err);
    json_decref(output());
}

/* Trials of these batch sizes, with the defaults of everything else. */
static void batches(char *words, size_t size, const char *list, const char *more)
{
    snprintf(words, size,
             "--device cuda --set train.epochs=1 --set method=grid --set train.batch_size=${b} --set "
             "parameters={\"b\":{\"values\":[%s]}}%s",
             list, more);
}

Test(cuda_sweep, what_is_over_is_not_mixed_with_another_kind_of_gpu_without_consent)
{
    char words[256];
    batches(words, sizeof words, "32", "");
    cr_assert_eq(run_with("card=gtx1060", words), 0, "%s", cli.result.err);
    cr_expect_eq(run_with("card=h200", words), 0, "nothing is left to do: %s", cli.result.err);
    batches(words, sizeof words, "32,64", "");
    cr_expect_eq(run_with("card=h200", words), 2, "%s", cli.result.err);
    cr_expect(cli_has(cli.result.err, "--accept-other-device"), "%s", cli.result.err);
    batches(words, sizeof words, "32,64", " --accept-other-device");
    cr_expect_eq(run_with("card=h200", words), 0, "%s", cli.result.err);
    cr_expect(cli_has(cli.result.out, "\"accepted_other_device\": true"), "%s", cli.result.out);
    json_decref(output());
}
