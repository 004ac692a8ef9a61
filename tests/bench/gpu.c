/* What a GPU does (make bench-gpu): training steps a second of the reference networks by batch size and
 * number of lanes, on whatever `cuda` opens here. gpu [-s SECONDS] [-b BATCH,...] [-l LANES,...] [-t]
 * [network] -t: a tiny data set, for a try on the emulator, whose numbers say nothing about any card.
 *
 * launches: calls of a step (kernels and library calls) as the plan lists them; a graph launch does 16 steps
 * of them. idle: 1 - (device time of one step, measured call by call with events, alone) x steps a second;
 * lanes that overlap make it negative, which is shown as 0. bytes: over the bus, per step, while the steps
 * ran. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/bench_private.h"
#include "engine/plugin.h"

#define MOST_LANES  64
#define MOST_VALUES 16

struct list {
    int64_t values[MOST_VALUES];
    int count;
};

struct settings {
    double seconds; /* of a row */
    struct list batches, lanes;
    bool tiny;
    const char *network;
};

struct row {
    int64_t steps;
    double took;
    struct fm_transfers moved;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Every lane does `steps` steps from `first`. */
static int run(struct fm_bench *b, struct fm_lane *const *lanes, int count, int64_t first, int64_t steps,
               struct fm_error *err)
{
    for (int i = 0; i < count; i++) {
        const struct fm_request request = {.kind = FM_TRAIN,
                                           .first_step = first,
                                           .steps = steps,
                                           .learning_rate = 1e-4,
                                           .on_nan = FM_ON_NAN_KERAS};
        const int rc = b->backend->submit(lanes[i], &request, err);
        if (rc) return rc;
    }
    for (int i = 0; i < count;) {
        struct fm_report report;
        const int got = b->backend->wait(b->device, 1000, &report, err);
        if (got < 0) return got;
        if (got == 1 && report.status) return *err = report.error, report.status;
        i += got;
    }
    return 0;
}

/* Doubles the steps until they take as long as they should; the first round also captures the graphs. */
static int measure(struct fm_bench *b, struct fm_lane *const *lanes, int count, double seconds,
                   struct row *row, struct fm_error *err)
{
    struct fm_transfers before, after;
    int64_t first = 0, steps = 16;
    int rc = run(b, lanes, count, first, steps, err);
    for (first += steps; !rc; first += steps, steps *= 2) {
        b->backend->transfers(b->device, &before);
        const double began = now();
        if ((rc = run(b, lanes, count, first, steps, err))) return rc;
        row->took = now() - began;
        b->backend->transfers(b->device, &after);
        row->steps = steps * count;
        row->moved.to_device = after.to_device - before.to_device;
        row->moved.to_host = after.to_host - before.to_host;
        if (row->took >= seconds / 2) return 0;
    }
    return rc;
}

static int with_lanes(struct fm_bench *b, int64_t batch, int count, double seconds, struct row *row,
                      struct fm_error *err)
{
    struct fm_lane *lanes[MOST_LANES] = {0};
    int rc = 0;
    for (int i = 0; !rc && i < count; i++) rc = fm_bench_lane(b, batch, &lanes[i], err);
    if (!rc) rc = measure(b, lanes, count, seconds, row, err);
    for (int i = 0; i < count; i++)
        if (lanes[i]) b->backend->lane_close(lanes[i]);
    return rc;
}

static int calls_of(struct fm_bench *b, int64_t batch)
{
    struct fm_text text = {0};
    struct fm_error err = {0};
    const char *at = NULL;
    if (!b->backend->explain(b->device, b->program, batch, &text, &err) && text.data)
        at = strstr(text.data, "a step of");
    if (at) at = strchr(at, ',');
    const int calls = at ? (int)strtol(at + 1, NULL, 10) : 0;
    fm_text_fini(&text);
    return calls;
}

/* The number of seconds in the profile's line that begins so. */
static double seconds_of(const char *text, const char *line)
{
    const char *at = strstr(text, line);
    return at ? strtod(at + strlen(line), NULL) : NAN;
}

/* Seconds of the device's time that a step takes alone: from `run --profile`'s table, wall time less nothing.
 */
static double busy(const struct fm_backend *backend, const struct fm_bench_net *net, int64_t batch,
                   const struct settings *s, bool show, struct fm_error *err)
{
    const struct fm_device_options options = {.lanes = 1, .profile = true};
    struct fm_bench b;
    struct fm_lane *lane = NULL;
    struct fm_text text = {0};
    double result = NAN;
    const int64_t steps = s->tiny ? 16 : 512;
    if (!backend->profile || fm_bench_init(&b, backend, &options, net, true, err)) return NAN;
    if (!fm_bench_lane(&b, batch, &lane, err) && !run(&b, &lane, 1, 0, steps, err) &&
        !backend->profile(b.device, &text, err) && text.data) {
        result = (seconds_of(text.data, "together: wall time") -
                  seconds_of(text.data, "begin, end, copies, idle; less what overlaps")) /
                 (double)steps;
        if (show)
            printf("\n%s, batch %d, %d steps call by call:\n%s\n", net->name, (int)batch, (int)steps,
                   text.data);
    }
    if (lane) backend->lane_close(lane);
    fm_text_fini(&text);
    fm_bench_fini(&b);
    return result;
}

static int net_rows(const struct fm_backend *backend, const struct fm_bench_net *net,
                    const struct settings *s, struct fm_error *err)
{
    for (int i = 0; i < s->batches.count; i++) {
        const int64_t batch = s->batches.values[i];
        const double alone = busy(backend, net, batch, s, batch == 64, err);
        for (int j = 0; j < s->lanes.count; j++) {
            const int count = (int)s->lanes.values[j];
            const struct fm_device_options options = {.lanes = count};
            struct fm_bench b;
            struct row row = {0};
            int rc = fm_bench_init(&b, backend, &options, net, s->tiny, err);
            if (rc) return rc;
            rc = with_lanes(&b, batch, count, s->seconds, &row, err);
            if (!rc) {
                const double rate = (double)row.steps / row.took;
                printf("%-4s %6d %6d %14.0f %14.0f %10.1f %9d %7.1f %% %9.1f %9.1f\n", net->name, (int)batch,
                       count, rate, rate * (double)batch,
                       1e-9 * rate * (double)batch * fm_program_flops(b.program, true), calls_of(&b, batch),
                       100 * fmax(0, 1 - alone * rate), (double)row.moved.to_device / (double)row.steps,
                       (double)row.moved.to_host / (double)row.steps);
                fflush(stdout);
            }
            fm_bench_fini(&b);
            if (rc) return rc;
        }
    }
    return 0;
}

static void read_list(struct list *list, const char *text, int64_t most)
{
    list->count = 0;
    while (*text && list->count < MOST_VALUES) {
        char *end;
        const long long value = strtoll(text, &end, 10);
        if (end == text || value < 1 || value > most) break;
        list->values[list->count++] = value;
        text = *end == ',' ? end + 1 : end;
    }
}

static bool read_arguments(struct settings *s, int count, char **arguments)
{
    int option;
    *s = (struct settings){.seconds = 0.3};
    read_list(&s->batches, "8,64,512", FM_BENCH_MAX_BATCH);
    read_list(&s->lanes, "1,2,4,8,16,32,64", MOST_LANES);
    while ((option = getopt(count, arguments, "s:b:l:t")) != -1) {
        if (option == 's')
            s->seconds = strtod(optarg, NULL);
        else if (option == 'b')
            read_list(&s->batches, optarg, FM_BENCH_MAX_BATCH);
        else if (option == 'l')
            read_list(&s->lanes, optarg, MOST_LANES);
        else if (option == 't')
            s->tiny = true;
        else
            return false;
    }
    s->network = optind < count ? arguments[optind] : NULL;
    return s->seconds > 0 && s->batches.count && s->lanes.count;
}

int main(int count, char **arguments)
{
    struct settings s;
    struct fm_error err = {0};
    const struct fm_backend *backend;
    struct fm_device *device;
    const struct fm_device_options options = {.lanes = 1};
    if (!read_arguments(&s, count, arguments)) {
        fprintf(stderr, "usage: %s [-s seconds] [-b batch,...] [-l lanes,...] [-t] [network]\n",
                arguments[0]);
        return 2;
    }
    int rc = fm_backend_open(&backend, &device, "cuda", &options, NULL, 0, &err);
    if (!rc) {
        printf("%s\n%s\n", backend->describe(device), backend->numbers(device));
        backend->close(device);
        printf("net   batch  lanes   lane-steps/s     examples/s    GFLOP/s  launches      idle  bytes up "
               "bytes down (a step)\n");
    }
    for (const struct fm_bench_net *net = fm_bench_nets; !rc && net->name; net++)
        if (s.network ? !strcmp(net->name, s.network) : strcmp(net->name, "P3") != 0)
            rc = net_rows(backend, net, &s, &err);
    if (rc) fprintf(stderr, "%s\n", err.text);
    return rc ? 1 : 0;
}
