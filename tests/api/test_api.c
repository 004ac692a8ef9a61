/* The public C API as a user meets it: the example of the manual, C++, misuse, results without the program.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_support.h"
#include "foldmill.h"

static struct cli cli;

static void set_up(void)
{
    cr_assert(cli_begin(&cli, quick_sweep));
}

static void tear_down(void)
{
    cli_end(&cli);
}

TestSuite(api, .init = set_up, .fini = tear_down);

/* The example stands in the header's first comment, each line behind " *     ". */
static void extract_example(const char *path)
{
    char *header = ts_read_file("include/foldmill.h", NULL);
    cr_assert(header != NULL);
    const char *line = strstr(header, " * Example:\n"), *end = strstr(header, " * End of the example");
    cr_assert(line && end);
    char program[8192];
    size_t size = 0;
    for (line = strchr(line, '\n') + 1; line < end; line = strchr(line, '\n') + 1) {
        const char *code = strncmp(line, " *     ", 7) ? "\n" : line + 7;
        size_t length = strcspn(code, "\n") + 1;
        cr_assert(size + length < sizeof program);
        memcpy(program + size, code, length);
        size += length;
    }
    cr_assert(ts_write_file(path, program, size));
    free(header);
}

static void run_command(const char *script, const char *a, const char *b, int code)
{
    const char *const argv[] = {"sh", "-c", script, "sh", a, b, NULL};
    ts_result_fini(&cli.result);
    memset(&cli.result, 0, sizeof cli.result);
    cr_assert(ts_run(argv, NULL, 60, &cli.result));
    cr_expect(eq(int, cli.result.exit_code, code), "%s\n%s", script, cli.result.err);
}

/* Where the library carries a sanitizer a plain program cannot load it; there it is only compiled. */
Test(api, the_example_of_the_manual_compiles_and_runs)
{
    char source[128], program[128];
    ts_join(source, sizeof source, cli.folder, "example.c");
    ts_join(program, sizeof program, cli.folder, "example");
    extract_example(source);
    run_command("${CC:-cc} -std=c11 -Wall -Wextra -Werror -Iinclude -fsyntax-only \"$1\"", source, NULL, 0);
    const char *san = getenv("SAN");
    if (san && *san) return;
    run_command("${CC:-cc} -std=c11 -Iinclude \"$1\" -o \"$2\" -Lbuild -lfoldmill", source, program, 0);
    run_command("LD_LIBRARY_PATH=build \"$1\" \"$2\"", program, cli.file, 0);
    cr_expect(cli_has(cli.result.out, "completed 0."), "%s", cli.result.out);
    cr_expect(cli_has(cli.result.out, "\"lr\":0.01"), "%s", cli.result.out);
}

Test(api, the_header_is_cxx_too)
{
    run_command(
        "command -v g++ >/dev/null || exit 0; g++ -std=c++11 -Wall -Wextra -Werror -x c++ -fsyntax-only "
        "include/foldmill.h",
        NULL, NULL, 0);
}

/* Nothing but the documented calls is visible in the shared library. */
Test(api, the_shared_library_exports_the_header_and_no_more)
{
    const char *san = getenv("SAN");
    if (san && *san) cr_skip("no shared library is built with sanitizers");
    run_command("nm -D --defined-only build/libfoldmill.so | sed 's/.* //' | while read name; do "
                "grep -q \"FM_API.*[ *]$name(\" include/foldmill.h || echo \"$name\"; done",
                NULL, NULL, 0);
    cr_expect(eq(str, cli.result.out, ""));
    run_command("nm -D --defined-only build/libfoldmill.so | grep -c ' fm_'", NULL, NULL, 0);
    cr_expect(gt(int, atoi(cli.result.out), 20));
}

struct seen {
    struct foldmill *sweep;
    int statuses, runs, notes;
    int64_t done;
    bool stop_at_first_run;
};

static void on_status(void *context, const struct fm_status *status)
{
    struct seen *seen = context;
    seen->statuses++;
    seen->done = status->done;
    cr_expect(ge(i64, status->nlanes, 1));
    cr_expect(le(i64, status->done, status->runs));
}

static void on_message(void *context, const struct fm_message *message)
{
    struct seen *seen = context;
    cr_expect(message->text && *message->text && !strchr(message->text, '\n'));
    if (message->kind == FM_MESSAGE_NOTE) seen->notes++;
    if (message->kind != FM_MESSAGE_RUN) return;
    seen->runs++;
    if (seen->stop_at_first_run) fm_stop(seen->sweep);
}

static struct foldmill *opened(int64_t lanes)
{
    struct fm_error err = {0};
    struct foldmill *sweep = NULL;
    const struct fm_options options = {.lanes = lanes};
    cr_assert(eq(int, fm_open(&sweep, cli.file, &options, &err), 0), "%s", err.text);
    return sweep;
}

Test(api, stops_goes_on_and_tells)
{
    struct fm_error err = {0};
    struct seen seen = {.sweep = opened(1), .stop_at_first_run = true};
    const struct fm_callbacks callbacks = {.status = on_status, .message = on_message, .context = &seen};
    cr_expect(eq(int, fm_run(seen.sweep, &callbacks, &err), FM_EINTERRUPTED), "%s", err.text);
    cr_expect(eq(int, seen.runs, 1));
    fm_close(seen.sweep);
    fm_error_clear(&err);
    seen = (struct seen){.sweep = opened(2)};
    cr_expect(eq(int, fm_run(seen.sweep, &callbacks, &err), 0), "%s", err.text);
    cr_expect(eq(int, seen.runs, 5), "what was done is not done again");
    cr_expect(eq(i64, seen.done, 6));
    cr_expect(ge(int, seen.statuses, 1));
    /* Again on the same handle: nothing is left to do. */
    seen.runs = 0;
    cr_expect(eq(int, fm_run(seen.sweep, &callbacks, &err), 0), "%s", err.text);
    cr_expect(eq(int, seen.runs, 0));
    fm_close(seen.sweep);
}

Test(api, two_handles_and_one_journal)
{
    struct fm_error err = {0};
    struct foldmill *a = opened(1), *b = opened(1);
    cr_expect(eq(int, fm_run(a, NULL, &err), 0), "%s", err.text);
    cr_expect(eq(int, fm_run(b, NULL, &err), 0), "%s", err.text);
    struct fm_board *board = NULL;
    cr_assert(eq(int, fm_board_read(b, &board, &err), 0), "%s", err.text);
    cr_expect(eq(i64, board->ntrials, 2));
    cr_expect(board->finished);
    cr_expect(eq(i64, board->trials[0].rank, 1));
    cr_expect(eq(str, (char *)fm_journal_file(a), cli.journal));
    fm_close(b);
    cr_expect(eq(str, (char *)board->name, "quick"), "a board outlives its handle");
    fm_board_free(board);
    fm_close(a);
}

Test(api, misuse_is_an_error_and_nothing_worse)
{
    struct fm_error err = {0};
    struct foldmill *sweep = NULL;
    struct fm_board *board = NULL;
    char *text = NULL;
    const struct fm_writer none = {0};
    cr_expect(eq(int, fm_open(&sweep, NULL, NULL, &err), FM_EUSAGE));
    cr_expect(eq(int, fm_open(&sweep, "", NULL, NULL), FM_EUSAGE), "err may be NULL");
    fm_error_clear(&err);
    cr_expect(eq(int, fm_open_results(&sweep, cli.file, NULL, &err), 0));
    cr_expect(eq(int, fm_plan_json(sweep, &text, &err), FM_EUSAGE));
    cr_expect(eq(ptr, text, NULL));
    fm_error_clear(&err);
    cr_expect(eq(int, fm_run(sweep, NULL, &err), FM_EUSAGE));
    fm_error_clear(&err);
    cr_expect(eq(int, fm_split_csv(sweep, &none, &err), FM_EUSAGE));
    fm_error_clear(&err);
    cr_expect(eq(int, fm_board_read(sweep, &board, &err), FM_EFILE));
    cr_expect(eq(ptr, board, NULL));
    cr_expect(eq(ptr, (void *)fm_note_text(sweep, 5, NULL), NULL));
    fm_close(sweep);
    fm_close(NULL);
    fm_board_free(NULL);
    fm_text_release(NULL);
    cr_expect(eq(int, fm_exit_code(FM_EINTERRUPTED), 130));
    cr_expect(ne(ptr, (void *)fm_version(), NULL));
}

Test(api, journal_path_is_the_stem_beside_the_file)
{
    static const struct {
        const char *path, *journal;
    } cases[] = {{"a/b.yaml", "a/b.db"},
                 {"b.x.yml", "b.x.db"},
                 {"noend", "noend.db"},
                 {"d.x/f", "d.x/f.db"},
                 {".hidden", ".hidden.db"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct foldmill *sweep = NULL;
        cr_assert(eq(int, fm_open_results(&sweep, cases[i].path, NULL, NULL), 0));
        cr_expect(eq(str, (char *)fm_journal_file(sweep), (char *)cases[i].journal));
        fm_close(sweep);
    }
}

struct measured {
    int rows, lanes;
    double peak;
    char networks[64];
};

static void on_machine(void *context, const struct fm_bench_machine *machine)
{
    struct measured *seen = context;
    cr_expect(eq(int, seen->rows, 0), "the machine comes first");
    cr_expect(strncmp(machine->device, "cpu: ", 5) == 0);
    cr_expect(strncmp(machine->numbers, "cpu-", 4) == 0);
    cr_expect(gt(i64, machine->cores, 0));
    seen->peak = machine->peak_gflops;
}

static void on_lanes(void *context, const struct fm_bench_lanes *lanes)
{
    struct measured *seen = context;
    seen->lanes++;
    cr_expect(eq(i64, lanes->lanes, 2));
    cr_expect(lanes->times > 0.05 && lanes->times < 20, "%g", lanes->times);
}

static void on_row(void *context, const struct fm_bench_row *row)
{
    struct measured *seen = context;
    seen->rows++;
    strncat(seen->networks, row->network, sizeof seen->networks - strlen(seen->networks) - 1);
    cr_expect(gt(dbl, row->steps_per_second, 0.0));
    cr_expect(epsilon_eq(dbl, row->examples_per_second, row->steps_per_second * (double)row->batch, 1e-6));
    cr_expect(gt(dbl, row->gflops, 0.0));
    if (isnan(seen->peak))
        cr_expect(isnan(row->share));
    else
        cr_expect(epsilon_eq(dbl, row->share, row->gflops / seen->peak, 1e-9));
}

Test(api, bench_and_devices)
{
    struct fm_error err = {0};
    struct measured seen = {0};
    const struct fm_bench_calls calls = {on_machine, on_row, on_lanes, &seen};
    char *text = NULL;
    struct fm_bench_options what = {.device = "cpu", .seconds = 0.3};
    cr_expect(eq(int, fm_bench(&what, &calls, &err), 0), "%s", err.text);
    cr_expect(eq(str, seen.networks, (char *)"SSSSSP2P2P2P3P3P3"));
    cr_expect(gt(dbl, seen.peak, 0.01));
    cr_expect(le(int, seen.lanes, 1));
    seen = (struct measured){0};
    what = (struct fm_bench_options){.device = "reference", .network = "P2", .batch = 3, .seconds = 0.05};
    cr_expect(eq(int, fm_bench(&what, &calls, &err), 0), "%s", err.text);
    cr_expect(eq(int, seen.rows, 1));
    cr_expect(eq(int, seen.lanes, 0), "only the whole table compares lanes");
    cr_expect(isnan(seen.peak), "the reference knows no peak");
    what.device = "cuda:9999"; /* a card that no machine has */
    cr_expect(eq(int, fm_bench(&what, &calls, &err), FM_EUSAGE));
    err = (struct fm_error){0};
    what = (struct fm_bench_options){.network = "Q", .seconds = 1};
    cr_expect(eq(int, fm_bench(&what, &calls, &err), FM_EUSAGE));
    cr_expect(strstr(err.text, "'Q'") != NULL, "%s", err.text);
    what = (struct fm_bench_options){.batch = 32769, .seconds = 1};
    cr_expect(eq(int, fm_bench(&what, &calls, NULL), FM_EUSAGE));
    what = (struct fm_bench_options){.seconds = NAN};
    cr_expect(eq(int, fm_bench(&what, &calls, NULL), FM_EUSAGE));
    cr_expect(eq(int, fm_device_list(&text, NULL), 0));
    cr_expect(strncmp(text, "cpu ", 4) == 0);
    fm_text_release(text);
}
