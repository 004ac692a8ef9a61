#include "api/bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/bench_private.h"
#include "api/handle.h"
#include "base/machine.h"

/* Seconds of a stretch: short, so that on a busy machine some run undisturbed. At least so many fit a row. */
#define STRETCH 0.02
#define CHUNKS  20
#define LANES   2 /* that are compared with one */
/* Shares of the whole time. */
#define PEAK_PART  0.03
#define LANES_PART 0.1
/* Seconds: on a busy machine a core that is asked for less may not run at all, and every share of the peak is
 * wrong then. */
#define PEAK_LEAST 0.1

/* Lanes that train side by side, and the step that each has come to. */
struct team {
    const struct fm_bench *bench;
    struct fm_lane *lane[LANES];
    int64_t first[LANES];
};

static int take_reports(const struct team *team, int lanes, int64_t *examples, struct fm_error *err)
{
    *examples = 0;
    for (int i = 0; i < lanes; i++) {
        struct fm_report report;
        int rc;
        while ((rc = team->bench->backend->wait(team->bench->device, 1000, &report, err)) == 0) continue;
        if (rc < 0) return rc;
        if (report.status && err && !err->code) *err = report.error;
        if (report.status) return report.status;
        *examples += report.examples;
    }
    return 0;
}

/* The first `lanes` lanes do `steps` steps each: the seconds until all have, and how many examples that were
 * (the last batch of a pass may be smaller). */
static int run_chunk(struct team *team, int lanes, int64_t steps, double *seconds, int64_t *examples,
                     struct fm_error *err)
{
    const double began = fm_monotonic();
    for (int i = 0; i < lanes; i++) {
        const struct fm_request request = {.kind = FM_TRAIN,
                                           .first_step = team->first[i],
                                           .steps = steps,
                                           .learning_rate = 1e-4,
                                           .on_nan = FM_ON_NAN_KERAS};
        int rc = team->bench->backend->submit(team->lane[i], &request, err);
        if (rc) return rc;
        team->first[i] += steps;
    }
    int rc = take_reports(team, lanes, examples, err);
    *seconds = fm_monotonic() - began;
    return rc;
}

/* The most examples a second that one lane did in a chunk, and all lanes together, in turns. Steps are
 * doubled until a chunk is long enough, so that slow and fast machines measure alike; other work on the
 * machine only ever makes a chunk slower. */
static int measure(struct team *team, int lanes, double seconds, double *one, double *all,
                   struct fm_error *err)
{
    const double began = fm_monotonic(), wanted = fmin(STRETCH, seconds / CHUNKS);
    int64_t steps = 1, examples;
    double took;
    *one = *all = 0;
    do {
        int rc = run_chunk(team, 1, steps, &took, &examples, err);
        if (rc) return rc;
        if (took < wanted && fm_monotonic() - began < seconds) {
            steps *= 2;
            continue;
        }
        *one = fmax(*one, (double)examples / fmax(took, 1e-9));
        if (lanes > 1 && (rc = run_chunk(team, lanes, steps, &took, &examples, err))) return rc;
        *all = fmax(*all, (double)examples / fmax(took, 1e-9));
    } while (fm_monotonic() - began < seconds || *one == 0);
    return 0;
}

static int open_team(struct team *team, struct fm_bench *b, int64_t batch, int lanes, struct fm_error *err)
{
    int rc = 0;
    *team = (struct team){.bench = b};
    for (int i = 0; !rc && i < lanes; i++) rc = fm_bench_lane(b, batch, &team->lane[i], err);
    return rc;
}

static void close_team(struct team *team)
{
    for (int i = 0; i < LANES; i++)
        if (team->lane[i]) team->bench->backend->lane_close(team->lane[i]);
}

static int measure_batch(struct fm_bench *b, int64_t batch, int lanes, double seconds, double *one,
                         double *all, struct fm_error *err)
{
    struct team team;
    int rc = open_team(&team, b, batch, lanes, err);
    if (!rc) rc = measure(&team, lanes, seconds, one, all, err);
    close_team(&team);
    return rc;
}

int fm_bench_rate(const struct fm_backend *backend, double seconds, double *rate, struct fm_error *err)
{
    struct fm_bench b;
    double examples = 0, all;
    *rate = 0;
    const struct fm_device_options one = {.lanes = 1};
    int rc = fm_bench_init(&b, backend, &one, &fm_bench_nets[0], true, err);
    if (rc) return rc;
    rc = measure_batch(&b, 64, 1, seconds, &examples, &all, err);
    *rate = examples * fm_program_flops(b.program, true);
    fm_bench_fini(&b);
    return rc;
}

/* ---- the whole table ---- */

struct table {
    const struct fm_backend *backend;
    struct fm_device_options device;
    const struct fm_bench_options *options;
    const struct fm_bench_calls *calls;
    double peak;    /* FLOP a second, 0 = unknown */
    double seconds; /* of a row */
    bool compares;  /* lanes with one: in the whole table, where there are cores */
    struct fm_bench_lanes lanes;
};

static bool wants_net(const struct table *t, const struct fm_bench_net *net)
{
    return !t->options->network || !strcmp(t->options->network, net->name);
}

/* Row `i` of a network; 0 after the last one. */
static int64_t batch_of(const struct table *t, const struct fm_bench_net *net, int i)
{
    if (t->options->batch) return i ? 0 : t->options->batch;
    return i < FM_BENCH_BATCHES ? net->batches[i] : 0;
}

static int give_row(struct table *t, struct fm_bench *b, int64_t batch, struct fm_error *err)
{
    double examples, all;
    int rc = measure_batch(b, batch, 1, t->seconds, &examples, &all, err);
    if (rc) return rc;
    const double flops = examples * fm_program_flops(b->program, true);
    const struct fm_bench_row row = {.network = b->net->name,
                                     .batch = batch,
                                     .steps_per_second = examples / (double)batch,
                                     .examples_per_second = examples,
                                     .gflops = 1e-9 * flops,
                                     .share = t->peak > 0 ? flops / t->peak : NAN};
    if (t->calls->row) t->calls->row(t->calls->context, &row);
    return 0;
}

static int compare_lanes(struct table *t, struct fm_bench *b, struct fm_error *err)
{
    double one, all;
    int rc = measure_batch(b, 64, LANES, t->options->seconds * LANES_PART, &one, &all, err);
    if (rc) return rc;
    t->lanes =
        (struct fm_bench_lanes){.network = b->net->name, .batch = 64, .lanes = LANES, .times = all / one};
    return 0;
}

static int give_net(struct table *t, const struct fm_bench_net *net, struct fm_error *err)
{
    struct fm_bench b;
    const bool compares = t->compares && net == &fm_bench_nets[0];
    int64_t batch;
    t->device.lanes = compares ? LANES : 1;
    int rc = fm_bench_init(&b, t->backend, &t->device, net, false, err);
    if (rc) return rc;
    for (int i = 0; !rc && (batch = batch_of(t, net, i)) > 0; i++) rc = give_row(t, &b, batch, err);
    if (!rc && compares) rc = compare_lanes(t, &b, err);
    fm_bench_fini(&b);
    return rc;
}

static int give_machine(struct table *t, struct fm_error *err)
{
    struct fm_device *device;
    char note[8];
    t->device.lanes = 1;
    int rc = fm_device_open(t->options->device ? t->options->device : "auto", &t->device, &t->backend,
                            &device, note, sizeof note, err);
    if (rc) return rc;
    if (t->backend->peak)
        t->peak = t->backend->peak(device, fmax(PEAK_LEAST, t->options->seconds * PEAK_PART));
    const struct fm_bench_machine machine = {.device = t->backend->describe(device),
                                             .numbers = t->backend->numbers(device),
                                             .cores = fm_usable_cores(),
                                             .peak_gflops = t->peak > 0 ? 1e-9 * t->peak : NAN};
    if (t->calls->machine) t->calls->machine(t->calls->context, &machine);
    t->backend->close(device);
    return 0;
}

static int check_options(const struct fm_bench_options *o, struct fm_error *err)
{
    if (!(o->seconds > 0 && o->seconds <= 3600))
        return fm_fail(err, FM_EUSAGE, "a benchmark takes more than 0 and at most 3600 seconds");
    if (o->batch < 0 || o->batch > FM_BENCH_MAX_BATCH)
        return fm_fail(err, FM_EUSAGE, "a benchmark's batch is a number from 1 to %d", FM_BENCH_MAX_BATCH);
    for (const struct fm_bench_net *net = fm_bench_nets; o->network && net->name; net++)
        if (!strcmp(o->network, net->name)) return 0;
    if (!o->network) return 0;
    char shown[48];
    return fm_fail(err, FM_EUSAGE, "there is no reference network '%s': choose S, P2 or P3",
                   fm_show(o->network, strlen(o->network), shown, sizeof shown));
}

int fm_bench(const struct fm_bench_options *options, const struct fm_bench_calls *calls, struct fm_error *err)
{
    struct table t = {.options = options, .calls = calls};
    struct fm_device_name name;
    int rows = 0, rc = check_options(options, err);
    if (!rc) rc = fm_device_read(options->device ? options->device : "auto", &name, err);
    if (!rc) rc = fm_kernels_read(options->kernels, &t.device.kernels, err);
    if (rc) return rc;
    t.device.select = name.select;
    for (const struct fm_bench_net *net = fm_bench_nets; net->name; net++)
        for (int i = 0; wants_net(&t, net) && batch_of(&t, net, i) > 0; i++) rows++;
    t.compares = !options->network && !options->batch && fm_usable_cores() >= LANES;
    t.seconds = options->seconds * (1 - PEAK_PART - (t.compares ? LANES_PART : 0)) / rows;
    rc = give_machine(&t, err);
    for (const struct fm_bench_net *net = fm_bench_nets; !rc && net->name; net++)
        if (wants_net(&t, net)) rc = give_net(&t, net, err);
    if (!rc && t.compares && calls->lanes) calls->lanes(calls->context, &t.lanes);
    return rc;
}
