/* Words and options: what is wrong is said with what was meant, on standard error, with exit code 2. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <sys/stat.h>
#include <sys/stat.h>

#include "cli/cli_support.h"

static struct cli cli;

static void set_up(void)
{
    cr_assert(cli_begin(&cli, quick_sweep));
}

static void tear_down(void)
{
    cli_end(&cli);
}

TestSuite(cli_usage, .init = set_up, .fini = tear_down);

static void expect_refused(const char *a, const char *b, const char *d, const char *part)
{
    int code = cli_run(&cli, a, b, d, NULL, NULL, NULL);
    cr_expect(eq(int, code, 2), "%s %s %s", a, b, d);
    cr_expect(cli_has(cli.result.err, part), "'%s' lacks '%s'", cli.result.err, part);
    cr_expect(eq(sz, cli.result.out_size, 0), "talk goes to standard error");
}

Test(cli_usage, mistakes_name_what_was_meant)
{
    expect_refused("runn", cli.file, NULL, "did you mean 'run'?");
    expect_refused(cli.file, NULL, NULL, "foldmill run ");
    expect_refused("run", NULL, NULL, "needs FILE");
    expect_refused("run", cli.file, "--jsn", "did you mean '--json'?");
    expect_refused("run", cli.file, "--json=1", "takes no argument");
    expect_refused("run", cli.file, "--journal", "needs an argument");
    expect_refused("run", cli.file, "--lanes=0", "from 1 to");
    expect_refused("run", cli.file, "--lanes=two", "'two'");
    expect_refused("run", cli.file, "--device=cuda:", "cuda:0 or cuda:0,1");
    expect_refused("run", cli.file, "--device=cuda:0,", "cuda:0 or cuda:0,1");
    expect_refused("run", cli.file, "--device=cuda: 1", "cuda:0 or cuda:0,1");
    expect_refused("run", cli.file, "--device=cuda:-1", "cuda:0 or cuda:0,1");
    expect_refused("run", cli.file, "--device=cuda:0;1", "cuda:0 or cuda:0,1");
    expect_refused("run", cli.file, "--device=cuda:12345", "cuda:0 or cuda:0,1");
    expect_refused("run", cli.file, "--device=cuda:1,0,01", "names card 1 twice");
    expect_refused("run", cli.file, "--device=cuda:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "at most 16");
    expect_refused("run", cli.file, "--device=cpu:0", "only cuda has numbers");
    expect_refused("run", cli.file, "--device=cudaa", "did you mean 'cuda'?");
    expect_refused("run", cli.file, "--kernels=mine", "auto, own or library");
    expect_refused("bench", "--kernels=mine", NULL, "auto, own or library");
    expect_refused("run", cli.file, "--accept-other-devcie", "did you mean");
    expect_refused("run", cli.file, "--device=cpuu", "did you mean 'cpu'?");
    expect_refused("run", cli.file, "--set=epochs", "KEY=VALUE");
    expect_refused("run", cli.file, "--set=train.epoch=3", "epochs");
    expect_refused("run", cli.file, "more", "no further argument 'more'");
    expect_refused("show", cli.file, NULL, "there is no journal");
    expect_refused("show", cli.file, "--trial=0", "from 1 to");
    expect_refused("export", cli.file, NULL, "--trials, --runs, --history, --predictions or --weights DIR");
    expect_refused("export", "--runs", "--trials", "needs FILE");
    expect_refused("plan", "/nonexistent/x.yaml", NULL, "/nonexistent/x.yaml");
    expect_refused("report", cli.file, NULL, "not available yet");
    expect_refused("predict", cli.file, NULL, "not available yet");
    expect_refused("test", cli.file, NULL, "not available yet");
    expect_refused("help", "keys", "cnv1d", "did you mean 'conv1d'?");
}

Test(cli_usage, every_command_explains_itself)
{
    static const char *const names[] = {"run", "plan", "show", "split", "export", "devices", "bench", "help"};
    cr_expect(eq(int, cli_run(&cli, "--help", NULL, NULL, NULL, NULL, NULL), 0));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) cr_expect(cli_has(cli.result.out, names[i]));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cr_expect(eq(int, cli_run(&cli, names[i], "--help", NULL, NULL, NULL, NULL), 0));
        cr_expect(cli_has(cli.result.out, "--color WHEN"), "%s", names[i]);
        cr_expect(eq(sz, cli.result.err_size, 0));
    }
    cr_expect(eq(int, cli_run(&cli, NULL, NULL, NULL, NULL, NULL, NULL), 2));
    cr_expect(cli_has(cli.result.err, "Usage:"));
    cr_expect(eq(int, cli_run(&cli, "--version", NULL, NULL, NULL, NULL, NULL), 0));
    cr_expect(strncmp(cli.result.out, "foldmill ", 9) == 0);
}

Test(cli_usage, help_keys_prints_the_tables)
{
    cr_expect(eq(int, cli_run(&cli, "help", "keys", NULL, NULL, NULL, NULL), 0));
    static const char *const keys[] = {"disorder",    "embargo", "early_stopping",
                                       "kernel_size", "run_cap", "beta_1"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cr_expect(cli_has(cli.result.out, keys[i]), "%s", keys[i]);
    cr_expect(eq(int, cli_run(&cli, "help", "keys", "adam", NULL, NULL, NULL), 0));
    cr_expect(cli_has(cli.result.out, "beta_1"));
    cr_expect(not(cli_has(cli.result.out, "kernel_size")));
}

/* What is no file must neither hang nor be read. */
Test(cli_usage, things_that_are_no_files)
{
    char fifo[128];
    cr_assert(eq(int, mkfifo(ts_join(fifo, sizeof fifo, cli.folder, "fifo"), 0600), 0));
    static const char *const commands[] = {"run", "plan", "split", "show", "export"};
    const char *const things[] = {fifo, cli.folder, "/dev/zero", "/dev/null"};
    for (size_t c = 0; c < sizeof commands / sizeof *commands; c++)
        for (size_t t = 0; t < sizeof things / sizeof *things; t++) {
            int code = cli_run(&cli, commands[c], things[t], c == 4 ? "--runs" : NULL, NULL, NULL, NULL);
            cr_expect(eq(int, code, 2), "%s %s: %s", commands[c], things[t], cli.result.err);
            code = cli_run(&cli, c == 4 ? "export" : "show", cli.file, "--journal", things[t],
                           c == 4 ? "--trials" : NULL, NULL);
            cr_expect(code == 1 || code == 2, "--journal %s: %s", things[t], cli.result.err);
        }
}

/* A full disk and a closed output are noticed by every command that prints. */
Test(cli_usage, output_that_cannot_be_written)
{
    static const char *const commands[] = {"--help",        "plan \"$1\"", "split \"$1\"",
                                           "run -q \"$1\"", "show \"$1\"", "export \"$1\" --history",
                                           "help keys"};
    static const char *const targets[] = {">/dev/full", ">&-"};
    for (size_t c = 0; c < sizeof commands / sizeof *commands; c++)
        for (int t = 0; t < 2; t++) {
            char script[512];
            snprintf(script, sizeof script, "%s %s %s", ts_program(), commands[c], targets[t]);
            const char *const argv[] = {"sh", "-c", script, "sh", cli.file, NULL};
            ts_result_fini(&cli.result);
            cr_assert(ts_run(argv, NULL, 60, &cli.result));
            cr_expect(eq(int, cli.result.exit_code, 1), "%s", script);
            cr_expect(cli_has(cli.result.err, t ? "Bad file descriptor" : "No space left"), "%s: %s", script,
                      cli.result.err);
        }
}

Test(cli_usage, a_reader_that_leaves_kills_nothing)
{
    char script[512];
    snprintf(script, sizeof script, "{ %s help keys; echo \"code $?\" >&2; } | true", ts_program());
    const char *const argv[] = {"sh", "-c", script, NULL};
    cr_assert(ts_run(argv, NULL, 60, &cli.result));
    /* Depending on who is first the text fits into the pipe or the pipe is broken: a signal must end neither.
     */
    cr_expect(cli_has(cli.result.err, "code 0") || cli_has(cli.result.err, "code 1"), "%s", cli.result.err);
}

/* Looking into a FIFO would wait for a writer for ever. */
Test(cli_usage, a_fifo_is_no_sweep_file)
{
    char fifo[128];
    cr_assert(eq(int, mkfifo(ts_join(fifo, sizeof fifo, cli.folder, "f.yaml"), 0600), 0));
    cr_expect(eq(int, cli_run(&cli, "run", fifo, NULL, NULL, NULL, NULL), 2), "%s", cli.result.err);
    cr_expect(eq(int, cli_run(&cli, "plan", fifo, NULL, NULL, NULL, NULL), 2), "%s", cli.result.err);
    cr_expect(eq(int, cli_run(&cli, "show", fifo, NULL, NULL, NULL, NULL), 2), "%s", cli.result.err);
}
