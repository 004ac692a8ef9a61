/* What tells how the machine computes: plan --explain, devices, bench. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "cli/cli_support.h"

/* Two networks and five batch sizes: ten plans. */
static const char many_batches[] =
    "name: many\n"
    "data: {source: sine, samples: 1200, anomalies: 40, height: 3, window: "
    "{length: 8, edge: wrap, label: any}}\n"
    "cv: {split: blocked, folds: 3}\n"
    "model: [conv1d: {filters: \"${filters}\", kernel_size: 3, activation: relu}, batch_normalization, "
    "flatten, "
    "dense: {units: 2, activation: softmax}]\n"
    "train: {loss: categorical_crossentropy, batch_size: \"${batch}\", epochs: 1, "
    "optimizer: {adam: {learning_rate: \"${lr}\"}}}\n"
    "method: grid\n"
    "parameters: {filters: {values: [2, 40]}, batch: {values: [1, 8, 64, 128, 512]}, lr: {values: [1e-2, "
    "1e-3]}}\n";

static struct cli cli;

static void tear_down(void)
{
    cli_end(&cli);
}

TestSuite(cli_speed, .fini = tear_down);

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) n++;
    return n;
}

/* Shares of a list sum up to 100 %, but for their rounding. */
static void check_shares(json_t *lines)
{
    double sum = 0;
    int lists = 0;
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line)
    {
        const char *text = json_string_value(line), *percent = strstr(text, " %  ");
        const bool begins = strstr(text, "forward and backward") || strstr(text, "evaluation,");
        cr_expect(text[0] == ' ' && text[strlen(text) - 1] != ' ', "'%s'", text);
        if (begins && lists++) cr_expect(epsilon_eq(dbl, sum, 100, 0.5));
        if (begins) sum = 0;
        if (!percent) continue;
        while (percent > text && percent[-1] != ' ') percent--;
        sum += atof(percent);
    }
    cr_expect(eq(int, lists, 2));
    cr_expect(epsilon_eq(dbl, sum, 100, 0.5), "evaluation: %g", sum);
}

Test(cli_speed, plans_are_explained)
{
    cr_assert(cli_begin(&cli, many_batches));
    cr_assert(eq(int, cli_run(&cli, "plan", cli.file, "--explain", NULL, NULL, NULL), 0), "%s",
              cli.result.err);
    cr_expect(eq(int, count(cli.result.out, "\nTrial "), 8));
    cr_expect(cli_has(cli.result.out, "\nand 2 more (plan --explain --json has more of them)\n"));
    cr_expect(cli_has(cli.result.out, "\nTrial 1 and 1 more: batches of 1\n"), "%s", cli.result.out);
    cr_expect(cli_has(cli.result.out, "over the whole batch"), "batch normalization spans it");
    cr_expect(eq(int, cli_run(&cli, "plan", cli.file, NULL, NULL, NULL, NULL), 0));
    cr_expect(not(cli_has(cli.result.out, "batches of")));
    cr_assert(eq(int, cli_run(&cli, "plan", cli.file, "--explain", "--json", NULL, NULL), 0));
    json_error_t where;
    json_t *plan = json_loads(cli.result.out, 0, &where), *explain = json_object_get(plan, "explain");
    cr_assert(eq(sz, json_array_size(explain), 10), "%s", where.text);
    cr_expect(eq(i64, json_integer_value(json_object_get(plan, "explain_more")), 0));
    static const int batches[] = {1, 8, 64, 128, 512};
    for (size_t i = 0; i < 10; i++) {
        json_t *one = json_array_get(explain, i);
        cr_expect(eq(i64, json_integer_value(json_object_get(one, "batch_size")), batches[i % 5]));
        cr_expect(eq(i64, json_integer_value(json_object_get(one, "network")), (json_int_t)i / 5));
        cr_expect(eq(i64, json_integer_value(json_object_get(one, "trials")), 2));
        check_shares(json_object_get(one, "lines"));
    }
    json_decref(plan);
    cr_assert(eq(int, cli_run(&cli, "plan", cli.file, "--json", NULL, NULL, NULL), 0));
    cr_expect(not(cli_has(cli.result.out, "explain")));
    cr_expect(eq(int, cli_run(&cli, "plan", cli.file, "--explain", "--device", "reference", NULL), 0));
    cr_expect(cli_has(cli.result.out, "plain loop"));
}

Test(cli_speed, devices_say_what_they_compute_with)
{
    cr_assert(eq(int, cli_run(&cli, "devices", NULL, NULL, NULL, NULL, NULL), 0));
    cr_expect(cli_has(cli.result.out, "cpu "));
    cr_expect(cli_has(cli.result.out, "\nreference "));
    cr_expect(cli_has(cli.result.out, "numbers cpu-reference"));
    cr_expect(cli_has(cli.result.out, "FOLDMILL_ISA can be "));
    cr_expect(cli_has(cli.result.out, "usable core"));
#if defined(__x86_64__)
    setenv("FOLDMILL_ISA", "portable", 1);
    cr_assert(eq(int, cli_run(&cli, "devices", NULL, NULL, NULL, NULL, NULL), 0));
    cr_expect(strncmp(cli.result.out, "cpu        portable, ", 21) == 0, "%s", cli.result.out);
    cr_expect(cli_has(cli.result.out, "; numbers cpu-portable; "));
#endif
    setenv("FOLDMILL_ISA", "mmx", 1);
    cr_expect(eq(int, cli_run(&cli, "devices", NULL, NULL, NULL, NULL, NULL), 0));
    cr_expect(cli_has(cli.result.out, "cannot be used: FOLDMILL_ISA=mmx is unknown"), "%s", cli.result.out);
    cr_expect(cli_has(cli.result.out, "\nreference "));
    cr_expect(eq(int, cli_run(&cli, "bench", "--seconds=0.1", NULL, NULL, NULL, NULL), 2));
}

Test(cli_speed, bench_gives_one_json_object)
{
    cr_assert(eq(int, cli_run(&cli, "bench", "--json", "--seconds", "0.2", NULL, NULL), 0));
    json_error_t where;
    json_t *bench = json_loads(cli.result.out, 0, &where), *rows = json_object_get(bench, "rows");
    cr_assert(eq(sz, json_array_size(rows), 11), "%s", where.text);
    cr_expect(eq(i64, json_integer_value(json_object_get(bench, "format")), 1));
    for (size_t i = 0; i < 11; i++) {
        json_t *row = json_array_get(rows, i);
        const double us = json_number_value(json_object_get(row, "us_per_step"));
        const double steps = json_number_value(json_object_get(row, "steps_per_second"));
        cr_expect(us > 0 && fabs(us * steps - 1e6) < 1, "%g us, %g steps a second", us, steps);
    }
    const double peak = json_number_value(json_object_get(bench, "peak_gflops"));
    json_decref(bench);
    cr_assert(
        eq(int, cli_run(&cli, "bench", "--network=P3", "--batch=5", "--seconds=1e-6", "--json", NULL), 0));
    bench = json_loads(cli.result.out, 0, &where);
    const double hasty = json_number_value(json_object_get(bench, "peak_gflops"));
    cr_expect(hasty > peak / 3, "%g of %g GFLOP/s: the peak needs its time, however short the rest", hasty,
              peak);
    rows = json_object_get(bench, "rows");
    cr_assert(eq(sz, json_array_size(rows), 1), "%s", where.text);
    cr_expect(eq(i64, json_integer_value(json_object_get(json_array_get(rows, 0), "batch")), 5));
    cr_expect(json_object_get(bench, "side_by_side") == NULL);
    json_decref(bench);
    cr_assert(eq(int, cli_run(&cli, "bench", "--network=S", "--batch=5", "--seconds=0.05", NULL, NULL), 0));
    cr_expect(cli_has(cli.result.out, "\nS            5 "));
    cr_expect(cli_has(cli.result.out, "of_peak"));
    cr_expect(eq(int, cli_run(&cli, "bench", "--network=T", NULL, NULL, NULL, NULL), 2));
    cr_expect(cli_has(cli.result.err, "choose S, P2 or P3"));
    cr_expect(eq(int, cli_run(&cli, "bench", "--batch=0", NULL, NULL, NULL, NULL), 2));
    cr_expect(eq(int, cli_run(&cli, "bench", "--device=tpux", NULL, NULL, NULL, NULL), 2));
    cr_expect(cli_has(cli.result.err, "choose cpu, cuda, reference or auto"), "%s", cli.result.err);
}
