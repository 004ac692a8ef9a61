/* foldmill bench: how fast this machine trains the two reference networks. */
#include "cli/commands.h"
#include "cli/terminal.h"

#define DEFAULT_SECONDS 14

static const struct fm_option options[] = {
    FM_DEVICE_OPTION,
    {"seconds", 0, FM_OPTION_SECONDS, "S", "how long to measure in all; default 14"},
    FM_COMMON_OPTIONS,
};

static void print_row(void *context, const struct fm_bench_row *row)
{
    (void)context;
    printf("%-8s %5lld %12.1f %12.0f %10.1f %9.3f\n", row->network, (long long)row->batch,
           row->steps_per_second, row->examples_per_second, 1e6 / row->steps_per_second, row->gflops);
    fflush(stdout);
}

static int run(const struct fm_arguments *a)
{
    struct fm_error err = {0};
    printf("%-8s %5s %12s %12s %10s %9s\n", "network", "batch", "steps/s", "examples/s", "us/step",
           "GFLOP/s");
    int rc = fm_bench(a->device, a->seconds > 0 ? a->seconds : DEFAULT_SECONDS, print_row, NULL, &err);
    return rc ? fm_complain(&err) : 0;
}

const struct fm_command fm_command_bench = {
    .name = "bench",
    .arguments = "",
    .summary = "time training steps of two reference networks on one lane",
    .details =
        "S: windows of 104 samples, conv1d 24x9 relu, pool 4, dense 20, 2 classes. P2: windows of 17 "
        "letters, two\n"
        "conv1d 64x5 swish, 3 classes. GFLOP/s counts the products of the layers, forward and backward.\n",
    .options = options,
    .run = run,
};
