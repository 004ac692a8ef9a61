/* What the host works for a step beside the driver: the emulator tells how much of the thread's time was
 * spent inside CUDA's calls. */
#include <criterion/criterion.h>
#include <math.h>
#include <time.h>

#include "cuda.h"
#include "emulator/emulator.h"
#include "lane_private.h"
#include "support/bench.h"

static const struct fm_backend *const cuda = &fm_backend_cuda;

enum { N = 24, ROWS = 6 };

static void open_bench(struct ts_bench *bench)
{
    static float x[N * ROWS];
    static uint32_t classes[N];
    const struct ts_examples examples = ts_examples_in_turn(x, classes, N, ROWS, 16, 1);
    /* All runs when it is enqueued, so that nothing is asked for twice. */
    const struct fm_emulator_settings settings = {.policy = FM_EMULATOR_EAGER, .driver_time = true};
    fm_emulator_reset(&settings);
    cr_assert(ts_bench_open(bench, &examples,
                            "model: [flatten, {dense: {units: 2, activation: softmax}}]\n"
                            "train: {loss: sparse_categorical_crossentropy, batch_size: 4}\n",
                            cuda, 1),
              "%s", bench->error.text);
}

static int64_t thread_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What it costs to look at that clock, in nanoseconds: hundreds where it is a system call. */
static double cost_of_time(void)
{
    double best = INFINITY;
    for (int i = 0; i < 5; i++) {
        const int64_t began = thread_time();
        for (int look = 0; look < 1000; look++) thread_time();
        best = fmin(best, (double)(thread_time() - began) / 1000);
    }
    return best;
}

/* Enqueuing and reporting 32 epochs of 64 steps, without the time that the emulator needs to be a driver and
 * a card: nanoseconds a step. Around each call it looks at the clock twice, and half of that is outside. */
static double host_time(struct ts_bench *bench, struct fm_lane *lane, int64_t *first)
{
    enum { REQUESTS = 32, LONG = 4 * FM_CUDA_STEPS };
    struct fm_emulator_counts before, after;
    struct fm_report report;
    fm_emulator_count(&before);
    const int64_t began = thread_time();
    for (int i = 0; i < REQUESTS; i++, *first += LONG)
        cr_assert(ts_bench_train(bench, lane, *first, LONG, &report), "%s", bench->error.text);
    const int64_t all = thread_time() - began;
    fm_emulator_count(&after);
    const int64_t driver = after.driver_ns - before.driver_ns;
    cr_assert_eq(after.graph_launches - before.graph_launches, REQUESTS * LONG / FM_CUDA_STEPS);
    cr_assert(driver > 0 && driver < all);
    const double clock = (double)(after.calls - before.calls) * cost_of_time();
    return ((double)(all - driver) - clock) / (REQUESTS * LONG);
}

/* The best of five: other programs empty the caches, and so does the emulator. */
Test(cuda_host, works_for_less_than_a_microsecond_a_step)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    cr_skip("sanitizers take more time than the work");
#endif
    struct ts_bench bench;
    struct fm_report report;
    int64_t first = 2 * FM_CUDA_STEPS;
    double best = INFINITY;
    open_bench(&bench);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    /* The first steps are captured. */
    cr_assert(lane && ts_bench_train(&bench, lane, 0, first, &report), "%s", bench.error.text);
    for (int i = 0; i < 5 && !(best < 1000); i++) best = fmin(best, host_time(&bench, lane, &first));
    cr_assert_lt(best, 1000, "%g ns a step", best);
    cuda->lane_close(lane);
    ts_bench_close(&bench);
}
