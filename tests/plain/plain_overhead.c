/* How much of a sweep's time goes by outside training and evaluation: scheduling, journal, measures, initial
 * weights, set-up. Two ways of asking, because neither alone is honest:
 *
 * microseconds  The first thread's processor time outside the backend, for each run: the kernel's account,
 * which nothing else on the machine disturbs (but slower memory does). It does not depend on how fast the
 *               backend is. The scripted backend computes nothing and has no threads, so it is measured at
 * once. percent       1 - processor time of the worker threads / (wall time x lanes): what the lanes could
 * have done and did not, be it that they waited for the first thread, that it took a core from them, or that
 *               it drew weights. Other programs disturb it; the best of several tries counts.
 *
 *   plain_overhead [TRIALS [LANES [BACKEND [MICROSECONDS [PERCENT [TRIES]]]]]]
 *
 * One epoch each on 1,000 examples, net S in five widths; fails when a limit is given and no try meets both.
 * BACKEND is `cpu`, the engine that people use, or `scripted`. `make slow` says what is asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/scripted.h"
#include "support/support.h"
#include "support/sweep.h"

static const struct fm_backend *inner;
static double inside; /* seconds of the first thread in the backend */

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#define INSIDE(call)                                                                                         \
    do {                                                                                                     \
        const double began = seconds(CLOCK_THREAD_CPUTIME_ID);                                               \
        call;                                                                                                \
        inside += seconds(CLOCK_THREAD_CPUTIME_ID) - began;                                                  \
    } while (0)

static int timed_load(struct fm_device *device, const struct fm_resident *resident, int *dataset,
                      struct fm_error *err)
{
    int rc;
    INSIDE(rc = inner->load(device, resident, dataset, err));
    return rc;
}

static int timed_lane_open(struct fm_device *device, const struct fm_lane_options *options,
                           struct fm_lane **lane, struct fm_error *err)
{
    int rc;
    INSIDE(rc = inner->lane_open(device, options, lane, err));
    return rc;
}

static void timed_lane_close(struct fm_lane *lane)
{
    INSIDE(inner->lane_close(lane));
}

static int timed_submit(struct fm_lane *lane, const struct fm_request *request, struct fm_error *err)
{
    int rc;
    INSIDE(rc = inner->submit(lane, request, err));
    return rc;
}

static int timed_wait(struct fm_device *device, int milliseconds, struct fm_report *report,
                      struct fm_error *err)
{
    int rc;
    INSIDE(rc = inner->wait(device, milliseconds, report, err));
    return rc;
}

static int timed_state_read(struct fm_lane *lane, void *blob, struct fm_error *err)
{
    int rc;
    INSIDE(rc = inner->state_read(lane, blob, err));
    return rc;
}

/* Half as many networks as rates would be unusual: five networks, the rest are learning rates. */
static bool write_sweep(struct ts_sweep *sweep, long trials)
{
    static const char text[] = "data: {source: sine, samples: 1000, anomalies: 10, height: 1.0, window: "
                               "{length: 104, edge: wrap, label: any}}\n"
                               "cv: {split: holdout}\n"
                               "model:\n"
                               "  - conv1d: {filters: \"${filters}\", kernel_size: 9, activation: relu}\n"
                               "  - max_pooling1d: {pool_size: 4}\n"
                               "  - flatten\n"
                               "  - dense: {units: 20, activation: relu}\n"
                               "  - dense: {units: 2, activation: softmax}\n"
                               "train:\n"
                               "  loss: categorical_crossentropy\n"
                               "  batch_size: 64\n"
                               "  epochs: 1\n"
                               "  optimizer: {adam: {learning_rate: \"${rate}\"}}\n"
                               "method: grid\n"
                               "parameters:\n"
                               "  filters: {values: [8, 12, 16, 20, 24]}\n"
                               "  rate: {distribution: q_uniform, min: 1e-4, max: %.4f, q: 1e-4}\n";
    char all[2048];
    const int size = snprintf(all, sizeof all, text, (double)trials / 5 * 1e-4);
    return ts_write_file(sweep->file, all, (size_t)size);
}

struct figures {
    double wall, outside, workers, share; /* seconds; share in percent */
    long completed;
};

static int measure(long trials, int64_t lanes, struct figures *f)
{
    struct fm_backend timed = *inner;
    timed.load = timed_load;
    timed.lane_open = timed_lane_open;
    timed.lane_close = timed_lane_close;
    timed.submit = timed_submit;
    timed.wait = timed_wait;
    timed.state_read = timed_state_read;
    struct ts_sweep sweep;
    struct ts_sweep_options options = {.backend = &timed, .lanes = lanes, .checkpoint_seconds = 10};
    struct fm_error err = {0};
    ts_sweep_init(&sweep, "");
    if (!write_sweep(&sweep, trials)) return 2;
    inside = 0;
    const double wall = seconds(CLOCK_MONOTONIC), first = seconds(CLOCK_THREAD_CPUTIME_ID),
                 all = seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (ts_sweep_run(&sweep, &options, &err)) {
        fprintf(stderr, "plain_overhead: %s\n", err.text);
        return 2;
    }
    const double own = seconds(CLOCK_THREAD_CPUTIME_ID) - first;
    f->wall = seconds(CLOCK_MONOTONIC) - wall;
    f->outside = own - inside;
    f->workers = seconds(CLOCK_PROCESS_CPUTIME_ID) - all - own;
    f->share = 100 * (1 - f->workers / (f->wall * (double)lanes));
    f->completed = ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE status = 'completed'");
    ts_sweep_fini(&sweep);
    return f->completed != trials / 5 * 5;
}

int main(int argc, char **argv)
{
    const long trials = argc > 1 ? strtol(argv[1], NULL, 10) : 20;
    const long lanes = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
    const char *name = argc > 3 ? argv[3] : "cpu";
    const double most_us = argc > 4 ? strtod(argv[4], NULL) : 1e9,
                 most = argc > 5 ? strtod(argv[5], NULL) : 100;
    const long tries = argc > 6 ? strtol(argv[6], NULL, 10) : 1;
    const bool scripted = !strcmp(name, "scripted");
    struct fm_error err = {0};
    if (trials < 5 || lanes < 1) return 2;
    if (!scripted && fm_backend_find(&inner, name, &err)) {
        fprintf(stderr, "plain_overhead: %s\n", err.text);
        return 2;
    }
    if (scripted) inner = &fm_backend_scripted;
    for (long i = 0; i < tries; i++) {
        struct figures f;
        if (scripted) fm_scripted_configure(&(struct fm_scripted_options){.lanes = lanes});
        if (measure(trials, lanes, &f)) return 1;
        const double us = 1e6 * f.outside / (double)f.completed;
        printf("plain_overhead: %ld trials on %ld lane%s of %s in %.2f s: %.0f microseconds a run outside",
               f.completed, lanes, lanes == 1 ? "" : "s", name, f.wall, us);
        if (!scripted)
            printf(", %.0f microseconds of computing a run, %.2f %% of the lanes' time not computing",
                   1e6 * f.workers / (double)f.completed, f.share);
        printf("\n");
        if (us <= most_us && (scripted || f.share <= most)) return 0;
    }
    return 1;
}
