/* How much of a sweep's time goes by outside the backend. The backend of this sweep is the reference one
 * behind a table of functions that counts the processor time the scheduler's thread spends in it; the
 * worker's time is the backend's anyway. What is left of the first thread's time is scheduling, journal,
 * measures and set-up. Processor time is the kernel's account of each thread: nothing else on the machine
 * disturbs it.
 *
 *   plain_overhead [TRIALS [PERCENT]]   one epoch each on 1,000 examples; fails when more than PERCENT of the
 *                                       time is spent outside (`make slow` asks for 1000 and 5) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/reference/reference.h"
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

int main(int argc, char **argv)
{
    const long trials = argc > 1 ? strtol(argv[1], NULL, 10) : 20;
    const double most = argc > 2 ? strtod(argv[2], NULL) : 100;
    inner = argc > 3 ? &fm_backend_scripted : &fm_backend_reference;
    if (argc > 3) fm_scripted_configure(&(struct fm_scripted_options){.lanes = 1});
    struct fm_backend timed = *inner;
    timed.load = timed_load;
    timed.lane_open = timed_lane_open;
    timed.lane_close = timed_lane_close;
    timed.submit = timed_submit;
    timed.wait = timed_wait;
    timed.state_read = timed_state_read;
    struct ts_sweep sweep;
    struct ts_sweep_options options = {.backend = &timed, .lanes = 1, .checkpoint_seconds = 10};
    struct fm_error err = {0};
    ts_sweep_init(&sweep, "");
    if (trials < 5 || !write_sweep(&sweep, trials)) return 2;
    const double wall = seconds(CLOCK_MONOTONIC), first = seconds(CLOCK_THREAD_CPUTIME_ID),
                 all = seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (ts_sweep_run(&sweep, &options, &err)) {
        fprintf(stderr, "plain_overhead: %s\n", err.text);
        return 1;
    }
    const double outside = seconds(CLOCK_THREAD_CPUTIME_ID) - first - inside,
                 total = seconds(CLOCK_PROCESS_CPUTIME_ID) - all, share = 100 * outside / total;
    const long completed = ts_sweep_number(&sweep, "SELECT count(*) FROM run WHERE status = 'completed'");
    ts_sweep_fini(&sweep);
    printf(
        "plain_overhead: %ld trials, %.2f s of processor time in %.2f s, %.3f s of it outside the backend: "
        "%.2f %%, %.0f microseconds a run\n",
        completed, total, seconds(CLOCK_MONOTONIC) - wall, outside, share, 1e6 * outside / (double)trials);
    return completed != trials / 5 * 5 || share > most;
}
