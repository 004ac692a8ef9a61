/* The whole way through the program: plan, run, run again, show, export, stop, go on. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli_support.h"

extern char **environ;

static struct cli cli;

static void set_up(void)
{
    cr_assert(cli_begin(&cli, quick_sweep));
}

static void tear_down(void)
{
    cli_end(&cli);
}

TestSuite(cli_run, .init = set_up, .fini = tear_down);

static json_t *output(void)
{
    json_error_t where;
    json_t *root = json_loads(cli.result.out, JSON_REJECT_DUPLICATES, &where);
    cr_assert(root != NULL, "%s in %s", where.text, cli.result.out);
    return root;
}

static int64_t integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

Test(cli_run, plan_writes_nothing)
{
    struct stat st;
    cr_assert(eq(int, cli_run(&cli, "plan", cli.file, "--json", NULL, NULL, NULL), 0), "%s", cli.result.err);
    json_t *plan = output();
    static const char *const keys[] = {"format",   "examples", "records", "short_records", "resident_bytes",
                                       "classes",  "views",    "folds",   "trials",        "runs",
                                       "networks", "invalid",  "seconds", "notes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cr_expect(json_object_get(plan, keys[i]) != NULL, "%s", keys[i]);
    cr_expect(eq(i64, integer(plan, "trials"), 2));
    cr_expect(eq(i64, integer(plan, "runs"), 6));
    cr_expect(eq(i64, integer(plan, "examples"), 1200));
    int64_t val = 0;
    size_t i;
    json_t *fold;
    json_array_foreach(json_object_get(plan, "folds"), i, fold)
    {
        val += integer(fold, "val");
        cr_expect(eq(i64, integer(fold, "train") + integer(fold, "val") + integer(fold, "purged"), 1200));
        cr_expect(eq(i64, integer(fold, "shared"), 0));
    }
    cr_expect(eq(i64, val, 1200));
    json_decref(plan);
    cr_expect(ne(int, stat(cli.journal, &st), 0), "plan made a journal");
    cr_expect(eq(int, cli_run(&cli, "plan", cli.file, NULL, NULL, NULL, NULL), 0));
    cr_expect(cli_has(cli.result.out, "2 trials; 3 folds: 6 runs"), "%s", cli.result.out);
}

Test(cli_run, split_lists_every_validation_example_once)
{
    cr_assert(eq(int, cli_run(&cli, "split", cli.file, NULL, NULL, NULL, NULL), 0));
    const char *line = strchr(cli.result.out, '\n');
    cr_assert(line && strncmp(cli.result.out, "repeat,fold,example,record,start\n", 33) == 0);
    char seen[1200] = {0};
    int lines = 0;
    for (line++; *line; line = strchr(line, '\n') + 1, lines++) {
        long long repeat, fold, example, start;
        char record[64];
        cr_assert(eq(
            int, sscanf(line, "%lld,%lld,%lld,%63[^,],%lld", &repeat, &fold, &example, record, &start), 5));
        cr_assert(example >= 0 && example < 1200 && !seen[example]);
        seen[example] = 1;
        cr_expect(eq(i64, start, example), "windows start at every position of the one record");
    }
    cr_expect(eq(int, lines, 1200));
}

Test(cli_run, again_answers_the_same_at_once_and_show_agrees)
{
    cr_assert(eq(int, cli_run(&cli, "run", cli.file, "--json", "--quiet", NULL, NULL), 0), "%s",
              cli.result.err);
    cr_expect(eq(sz, cli.result.err_size, 0), "quiet: %s", cli.result.err);
    char *first = strdup(cli.result.out);
    json_t *root = output();
    cr_expect(eq(int, (int)json_typeof(json_object_get(root, "finished")), JSON_TRUE));
    cr_expect(eq(sz, json_array_size(json_object_get(root, "trials")), 2));
    json_decref(root);
    cr_assert(eq(int, cli_run(&cli, "run", cli.file, "--json", NULL, NULL, NULL), 0));
    cr_expect(eq(str, cli.result.out, first));
    cr_assert(eq(int, cli_run(&cli, "show", cli.file, "--json", NULL, NULL, NULL), 0));
    cr_expect(eq(str, cli.result.out, first));
    cr_assert(eq(int, cli_run(&cli, "show", cli.journal, "--json", NULL, NULL, NULL), 0));
    cr_expect(eq(str, cli.result.out, first));
    cr_assert(eq(int, cli_run(&cli, "show", cli.file, "--trial", "2", NULL, NULL), 0));
    cr_expect(cli_has(cli.result.out, "Confusion matrix"), "%s", cli.result.out);
    cr_expect(eq(int, cli_run(&cli, "show", cli.file, "--trial", "9", NULL, NULL), 2));
    cr_expect(eq(ptr, strchr(first, '\033'), NULL));
    free(first);
}

Test(cli_run, lanes_do_not_change_results)
{
    char *json[2];
    for (int i = 0; i < 2; i++) {
        cr_assert(
            eq(int,
               cli_run(&cli, "run", cli.file, "--json", "--fresh", i ? "--lanes=3" : "--workers=1", NULL), 0),
            "%s", cli.result.err);
        json[i] = strdup(strstr(cli.result.out, "\"trials\":"));
        cr_assert(json[i] != NULL);
    }
    cr_expect(eq(str, json[0], json[1]));
    free(json[0]);
    free(json[1]);
    char old[128];
    struct stat st;
    cr_expect(eq(int, stat(ts_join(old, sizeof old, cli.folder, "s.old-1.db"), &st), 0),
              "--fresh keeps the old one");
}

/* Paths and names come from others; what is said of them on standard error must not steer the terminal. */
Test(cli_run, messages_hold_no_control_characters)
{
    char journal[512], missing[512];
    snprintf(journal, sizeof journal, "%s.a\033[31m\nb.db", cli.journal);
    snprintf(missing, sizeof missing, "%s.a\033[31m", cli.file);
    const char *const run[] = {ts_program(), "run", cli.file, "--journal", journal, NULL};
    const char *const plan[] = {ts_program(), "plan", missing, NULL};
    ts_result_fini(&cli.result);
    cr_assert(ts_run(run, NULL, 60, &cli.result));
    cr_expect(eq(int, cli.result.exit_code, 0), "%s", cli.result.err);
    cr_expect(cli_has(cli.result.err, "a?[31m?b.db"), "%s", cli.result.err);
    cr_expect(strchr(cli.result.err, '\033') == NULL);
    ts_result_fini(&cli.result);
    cr_assert(ts_run(plan, NULL, 60, &cli.result));
    cr_expect(eq(int, cli.result.exit_code, 2), "%s", cli.result.err);
    cr_expect(cli_has(cli.result.err, "a?[31m"), "%s", cli.result.err);
    cr_expect(strchr(cli.result.err, '\033') == NULL);
}

/* --color > NO_COLOR > CLICOLOR_FORCE > the terminal (here none). */
Test(cli_run, colour_follows_its_rule)
{
    static const struct {
        const char *environment[3], *option;
        bool colour;
    } cases[] = {{{NULL}, NULL, false},
                 {{"CLICOLOR_FORCE=1", NULL}, NULL, true},
                 {{"CLICOLOR_FORCE=0", NULL}, NULL, false},
                 {{"CLICOLOR_FORCE=1", "NO_COLOR=1", NULL}, NULL, false},
                 {{"CLICOLOR_FORCE=1", "NO_COLOR=", NULL}, NULL, true},
                 {{"NO_COLOR=1", NULL}, "--color=always", true},
                 {{"CLICOLOR_FORCE=1", NULL}, "--color=never", false},
                 {{"CLICOLOR_FORCE=1", NULL}, "--color=auto", true}};
    cr_assert(eq(int, cli_run(&cli, "run", cli.file, "-q", NULL, NULL, NULL), 0));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const argv[] = {ts_program(), "show", cli.file, cases[i].option, NULL};
        ts_result_fini(&cli.result);
        cr_assert(ts_run(argv, cases[i].environment, 60, &cli.result));
        cr_expect(eq(int, strchr(cli.result.out, '\033') != NULL, cases[i].colour), "case %zu", i);
    }
}

Test(cli_run, changed_file_is_refused_and_explained)
{
    cr_assert(eq(int, cli_run(&cli, "run", cli.file, "-q", NULL, NULL, NULL), 0));
    cr_expect(eq(int, cli_run(&cli, "run", cli.file, "--set", "train.epochs=3", NULL, NULL), 2));
    cr_expect(cli_has(cli.result.err, "train.epochs was 2 and is 3 now"), "%s", cli.result.err);
    cr_expect(cli_has(cli.result.err, "--fresh"));
    /* More values of the grid extend it: what was run is not run again. */
    cr_assert(
        eq(int,
           cli_run(&cli, "run", cli.file, "--json", "--set", "parameters.lr.values=[1e-2, 1e-3, 1e-4]", NULL),
           0),
        "%s", cli.result.err);
    json_t *root = output();
    cr_expect(eq(sz, json_array_size(json_object_get(root, "trials")), 3));
    json_decref(root);
}

/* Every exported prediction lies where split says, and its two columns are a distribution. */
Test(cli_run, exports)
{
    cr_assert(eq(int, cli_run(&cli, "run", cli.file, "-q", NULL, NULL, NULL), 0));
    cr_assert(eq(int, cli_run(&cli, "export", cli.file, "--predictions", NULL, NULL, NULL), 0), "%s",
              cli.result.err);
    const char *line = strchr(cli.result.out, '\n');
    cr_assert(line && strncmp(cli.result.out, "trial,repeat,fold,record,position,y,p_0,p_1\n", 44) == 0,
              "%.80s", cli.result.out);
    int lines = 0;
    for (line++; *line; line = strchr(line, '\n') + 1, lines++) {
        long long trial, repeat, fold, position, y;
        char record[64];
        double p0, p1;
        cr_assert(eq(int,
                     sscanf(line, "%lld,%lld,%lld,%63[^,],%lld,%lld,%lf,%lf", &trial, &repeat, &fold, record,
                            &position, &y, &p0, &p1),
                     8),
                  "%.60s", line);
        cr_expect(epsilon_eq(dbl, p0 + p1, 1.0, 1e-6));
        cr_expect(y == 0 || y == 1);
    }
    cr_expect(eq(int, lines, 1200), "one kept trial, every example once");
    char folder[128];
    ts_join(folder, sizeof folder, cli.folder, "w");
    cr_assert(eq(int, cli_run(&cli, "export", cli.file, "--weights", folder, NULL, NULL), 0), "%s",
              cli.result.err);
    cr_expect(cli_has(cli.result.err, "3 files in"));
    /* Other data: the predictions would belong to other examples. */
    cr_expect(eq(int, cli_run(&cli, "export", cli.file, "--predictions", "--set", "data.seed=1", NULL), 2));
    cr_expect(cli_has(cli.result.err, "changed since"), "%s", cli.result.err);
}

Test(cli_run, a_plan_without_a_valid_trial)
{
    cr_expect(
        eq(int, cli_run(&cli, "plan", cli.file, "--set", "model.0.conv1d.kernel_size=99", NULL, NULL), 2));
    cr_expect(cli_has(cli.result.err, "no trial is valid"), "%s", cli.result.err);
    cr_expect(cli_has(cli.result.out, "Invalid, will not run"), "%s", cli.result.out);
    cr_expect(eq(
        int, cli_run(&cli, "plan", cli.file, "--set", "model.0.conv1d.kernel_size=99", "--json", NULL), 2));
    json_t *plan = output();
    cr_expect(eq(sz, json_array_size(json_object_get(plan, "invalid")), 2));
    cr_expect(eq(i64, integer(plan, "runs"), 0));
    json_decref(plan);
}

Test(cli_run, exit_codes_when_nothing_is_valid_or_all_failed)
{
    cr_expect(
        eq(int, cli_run(&cli, "run", cli.file, "--set", "model.0.conv1d.kernel_size=99", "--json", NULL), 2));
    cr_expect(cli_has(cli.result.err, "no trial is valid"), "%s", cli.result.err);
    json_t *root = output();
    json_t *trial = json_array_get(json_object_get(root, "trials"), 0);
    cr_expect(eq(str, (char *)json_string_value(json_object_get(trial, "status")), "invalid"));
    json_decref(root);
    const char *const argv[] = {ts_program(),
                                "run",
                                cli.file,
                                "--fresh",
                                "--json",
                                "--set",
                                "parameters.lr.values=[1e30, 1e31]",
                                "--set",
                                "train.optimizer={sgd: {learning_rate: \"${lr}\"}}",
                                NULL};
    ts_result_fini(&cli.result);
    cr_assert(ts_run(argv, NULL, 60, &cli.result));
    cr_expect(eq(int, cli.result.exit_code, 1), "%s", cli.result.err);
    cr_expect(cli_has(cli.result.err, "every valid trial failed"), "%s", cli.result.err);
    cr_expect(cli_has(cli.result.out, "\"code\": \"nan\""));
}

/* A limit on the size of files stands for a full disk: the journal stays whole, and the same command goes on.
 */
Test(cli_run, full_disk_is_told_and_loses_nothing)
{
    char script[512];
    snprintf(script, sizeof script, "ulimit -f 150; exec %s run \"$1\" --lanes=1 --set train.epochs=60",
             ts_program());
    const char *const argv[] = {"sh", "-c", script, "sh", cli.file, NULL};
    cr_assert(ts_run(argv, NULL, 60, &cli.result));
    cr_expect(eq(int, cli.result.exit_code, 1), "%s", cli.result.err);
    cr_expect(cli_has(cli.result.err, "s.db: the limit on the size of a file is reached"), "%s",
              cli.result.err);
    cr_expect(eq(int, cli_run(&cli, "run", cli.file, "--set", "train.epochs=60", "-q", NULL), 0), "%s",
              cli.result.err);
}

/* ---- signals: a sweep that takes long is stopped and goes on ---- */

static pid_t start(const char *const *argv, const char *out)
{
    pid_t pid = -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawn(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return failed ? -1 : pid;
}

static void nap(int milliseconds)
{
    struct timespec t = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

/* Waits until the journal says that a run is on its way. */
static bool wait_for_start(void)
{
    for (int i = 0; i < 1000; i++, nap(10)) {
        struct stat st;
        if (stat(cli.journal, &st)) continue;
        if (cli_run(&cli, "export", cli.file, "--runs", NULL, NULL, NULL) == 0 &&
            cli_has(cli.result.out, ",running,"))
            return true;
    }
    return false;
}

/* Exit status as a shell sees it, -1 when it does not end within 30 seconds. */
static int wait_for_end(pid_t pid)
{
    for (int i = 0; i < 600; i++, nap(50)) {
        int status;
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return -1;
}

static void expect_stop(int signal, int code)
{
    char out[128];
    const char *const argv[] = {ts_program(),          "run", cli.file, "--json", "--lanes=1", "--set",
                                "train.epochs=100000", NULL};
    pid_t pid = start(argv, ts_join(out, sizeof out, cli.folder, "out"));
    cr_assert(gt(int, (int)pid, 0));
    bool started = wait_for_start();
    /* A second process is told that the journal is in use. */
    int second = started ? cli_run(&cli, "run", cli.file, "--set", "train.epochs=100000", NULL, NULL) : -1;
    kill(pid, signal);
    cr_expect(eq(int, wait_for_end(pid), code));
    cr_assert(started);
    cr_expect(eq(int, second, 75));
    cr_expect(cli_has(cli.result.err, "another foldmill"), "%s", cli.result.err);
    char *text = ts_read_file(out, NULL);
    cr_assert(text != NULL);
    cr_expect(cli_has(text, "\"finished\": false"));
    free(text);
}

Test(cli_run, ctrl_c_stops_and_keeps)
{
    expect_stop(SIGINT, 130);
}

Test(cli_run, sigterm_is_one_ctrl_c)
{
    expect_stop(SIGTERM, 75);
}

/* Stopped once on its way and run again: as if it had never stopped. */
Test(cli_run, goes_on_where_it_stopped)
{
    char out[128], journal[128];
    const char *const argv[] = {ts_program(), "run",   cli.file,           "--json",
                                "--lanes=1",  "--set", "train.epochs=2000", NULL};
    pid_t pid = start(argv, ts_join(out, sizeof out, cli.folder, "out"));
    cr_assert(gt(int, (int)pid, 0));
    cr_assert(wait_for_start());
    kill(pid, SIGINT);
    int code = wait_for_end(pid);
    cr_expect(code == 130 || code == 0);
    cr_assert(eq(int, cli_run(&cli, "run", cli.file, "--json", "--set", "train.epochs=2000", NULL), 0), "%s",
              cli.result.err);
    char *resumed = strdup(strstr(cli.result.out, "\"trials\":"));
    ts_join(journal, sizeof journal, cli.folder, "other.db");
    const char *const again[] = {ts_program(),       "run",       cli.file, "--json", "--set",
                                 "train.epochs=2000", "--journal", journal,  NULL};
    ts_result_fini(&cli.result);
    cr_assert(ts_run(again, NULL, 60, &cli.result));
    cr_expect(eq(str, strstr(cli.result.out, "\"trials\":"), resumed));
    free(resumed);
}

/* What changes no result may change in a finished sweep, and is obeyed though nothing is left to run. */
Test(cli_run, names_and_keep_may_change_after_the_end)
{
    cr_assert(eq(int, cli_run(&cli, "run", cli.file, "-q", "--set", "keep.trials=2", NULL), 0), "%s",
              cli.result.err);
    cr_assert(cli_has(cli.result.out, "weights of 2 trials are kept"), "%s", cli.result.out);
    cr_assert(eq(int, cli_run(&cli, "run", cli.file, "-q", "--set", "name=other", NULL), 0));
    cr_expect(cli_has(cli.result.out, "other: 2 trials"), "%s", cli.result.out);
    cr_expect(cli_has(cli.result.out, "weights of 1 trial are kept"), "%s", cli.result.out);
    cr_assert(eq(int, cli_run(&cli, "run", cli.file, "--set", "keep.trials=2", NULL, NULL), 0));
    cr_expect(cli_has(cli.result.err, "kept of 1 trial only"), "what was dropped is said: %s",
              cli.result.err);
}
