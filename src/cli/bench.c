/* foldmill bench: how fast this machine trains the reference networks. */
#include <math.h>

#include "cli/commands.h"
#include "cli/terminal.h"

#define DEFAULT_SECONDS 20

static const struct fm_option options[] = {
    FM_DEVICE_OPTIONS,
    {"network", 0, FM_OPTION_NETWORK, "NAME", "only S, P2 or P3"},
    {"batch", 0, FM_OPTION_BATCH, "N", "only this batch size, up to 32768"},
    {"seconds", 0, FM_OPTION_SECONDS, "S", "how long to measure in all; default 20"},
    {"json", 0, FM_OPTION_JSON, NULL, "print one JSON object"},
    FM_COMMON_OPTIONS,
};

/* ---- for people ---- */

static void print_machine(void *context, const struct fm_bench_machine *machine)
{
    (void)context;
    printf("%s; numbers %s; %lld usable core%s\n", machine->device, machine->numbers,
           (long long)machine->cores, machine->cores == 1 ? "" : "s");
    if (!isnan(machine->peak_gflops))
        printf("peak of one core: %.1f GFLOP/s (multiply-adds in registers)\n", machine->peak_gflops);
    printf("\n%-8s %5s %12s %12s %10s %9s %8s\n", "network", "batch", "steps/s", "examples/s", "us/step",
           "GFLOP/s", "of_peak");
    fflush(stdout);
}

static void print_row(void *context, const struct fm_bench_row *row)
{
    char share[16] = "-";
    (void)context;
    if (!isnan(row->share)) snprintf(share, sizeof share, "%.0f%%", 100 * row->share);
    printf("%-8s %5lld %12.1f %12.0f %10.1f %9.1f %8s\n", row->network, (long long)row->batch,
           row->steps_per_second, row->examples_per_second, 1e6 / row->steps_per_second, row->gflops, share);
    fflush(stdout);
}

static void print_lanes(void *context, const struct fm_bench_lanes *lanes)
{
    (void)context;
    printf("\n%lld lanes: %.2fx the work of one (%s at batch %lld)\n", (long long)lanes->lanes, lanes->times,
           lanes->network, (long long)lanes->batch);
}

/* ---- JSON: one object, a row a line ---- */

static void write_number(const char *key, double value)
{
    printf(isfinite(value) ? ", \"%s\": %.9g" : ", \"%s\": null", key, value);
}

/* The texts come from the program itself and hold nothing that JSON would escape. */
static void write_machine(void *context, const struct fm_bench_machine *machine)
{
    (void)context;
    printf("{\"format\": 1, \"device\": \"%s\", \"numbers\": \"%s\", \"cores\": %lld", machine->device,
           machine->numbers, (long long)machine->cores);
    write_number("peak_gflops", machine->peak_gflops);
    printf(", \"rows\": [");
}

struct json {
    bool begun; /* a row stands before */
    struct fm_bench_lanes lanes;
};

static void write_row(void *context, const struct fm_bench_row *row)
{
    struct json *json = context;
    printf("%s\n  {\"network\": \"%s\", \"batch\": %lld", json->begun ? "," : "", row->network,
           (long long)row->batch);
    write_number("steps_per_second", row->steps_per_second);
    write_number("examples_per_second", row->examples_per_second);
    write_number("us_per_step", 1e6 / row->steps_per_second);
    write_number("gflops", row->gflops);
    write_number("share", row->share);
    printf("}");
    json->begun = true;
}

static void take_lanes(void *context, const struct fm_bench_lanes *lanes)
{
    struct json *json = context;
    json->lanes = *lanes;
}

static void write_end(const struct json *json)
{
    const struct fm_bench_lanes *lanes = &json->lanes;
    printf("]");
    if (lanes->network) {
        printf(",\n  \"side_by_side\": {\"network\": \"%s\", \"batch\": %lld, \"lanes\": %lld",
               lanes->network, (long long)lanes->batch, (long long)lanes->lanes);
        write_number("times", lanes->times);
        printf("}");
    }
    printf("}\n");
}

static int run(const struct fm_arguments *a)
{
    struct fm_error err = {0};
    struct json object = {0};
    const struct fm_bench_options what = {.device = a->device,
                                          .kernels = a->kernels,
                                          .network = a->network,
                                          .batch = a->batch,
                                          .seconds = a->seconds > 0 ? a->seconds : DEFAULT_SECONDS};
    const struct fm_bench_calls text = {.machine = print_machine, .row = print_row, .lanes = print_lanes};
    const struct fm_bench_calls json = {
        .machine = write_machine, .row = write_row, .lanes = take_lanes, .context = &object};
    int rc = fm_bench(&what, a->json ? &json : &text, &err);
    if (rc) return fm_complain(&err);
    if (a->json)
        write_end(&object);
    else
        printf("Each row is the best of many stretches of 20 ms: other work only ever makes one slower.\n");
    return 0;
}

const struct fm_command fm_command_bench = {
    .name = "bench",
    .arguments = "",
    .summary = "time training steps of the reference networks on this machine",
    .details =
        "S: windows of 104 samples of a series of 1,049,344, conv1d 24x9 relu, pool 4, dense 20, 2 classes.\n"
        "P2, P3: windows of 17 letters of 21, two or three conv1d 64x5 swish, 3 classes. All with Adam, on "
        "one\n"
        "lane. GFLOP/s counts what the products of the layers need, forward and backward; of_peak is its "
        "share of\n"
        "what one core reaches in registers. FOLDMILL_ISA=avx2 (or avx512, portable) forces an instruction "
        "set.\n",
    .options = options,
    .run = run,
};
