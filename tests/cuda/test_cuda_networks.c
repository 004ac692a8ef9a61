/* Whole networks on the emulated GPU: Keras's numbers, the reference executor's, nothing written beside
 * tensors, how many calls a step of the reference networks takes. With Foldmill's own kernels and with
 * libraries. Nothing here has seen a real card. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "emulator/emulator.h"
#include "engine/backend_checks.h"
#include "lane_private.h"
#include "support/bench.h"

static const struct fm_backend *const cuda = &fm_backend_cuda;

static void start(uint64_t seed)
{
    const struct fm_emulator_settings settings = {
        .policy = FM_EMULATOR_RANDOM, .seed = seed, .thread_order = (int)seed};
    fm_emulator_reset(&settings);
}

static void finish(enum fm_kernels_choice kernels)
{
    struct fm_emulator_counts counts;
    fm_emulator_count(&counts);
    /* Opening handles counts as well, so many: of every step. */
    cr_assert(kernels == FM_KERNELS_OWN ? counts.library_calls == 0
                                        : kernels == FM_KERNELS_AUTO || counts.library_calls > 100,
              "%d library calls", (int)counts.library_calls);
    cr_assert_eq(counts.faults, 0, "%s", fm_emulator_fault());
    cr_assert_eq(counts.live, 0, "%d things of CUDA's were not given back", (int)counts.live);
}

static void check_training(enum fm_kernels_choice kernels)
{
    const struct fm_device_options options = {.lanes = 1, .kernels = kernels};
    start(kernels);
    ts_check_training(cuda, &options);
    finish(kernels);
}

Test(cuda_networks, keras_with_own_kernels)
{
    check_training(FM_KERNELS_OWN);
}

Test(cuda_networks, keras_with_libraries)
{
    check_training(FM_KERNELS_LIBRARY);
}

/* Everything queued runs before the emulator shows memory. */
static bool guards_whole(struct fm_lane *lane)
{
    int64_t offset, bytes, seen = 0;
    bool whole = true;
    for (int i = 0; fm_cuda_plan_gap(lane->plan, i, &offset, &bytes); i++) {
        unsigned char *gap = malloc((size_t)bytes);
        fm_emulator_peek(gap, lane->base + offset, (size_t)bytes);
        for (int64_t b = 0; b < bytes; b++) whole = whole && gap[b] == FM_CUDA_GUARD;
        free(gap);
        seen++;
    }
    return whole && (seen > 0 || lane->device->options.guard == 0);
}

static void check_random(enum fm_kernels_choice kernels, uint64_t first, int count)
{
    const struct fm_device_options options = {.lanes = 1, .kernels = kernels, .guard = 300};
    start(first);
    ts_check_random_networks(cuda, &options, guards_whole, first, count);
    finish(kernels);
}

Test(cuda_networks, random_ones_with_own_kernels)
{
    check_random(FM_KERNELS_OWN, 60000, 25);
}

Test(cuda_networks, random_ones_with_libraries)
{
    check_random(FM_KERNELS_LIBRARY, 61000, 25);
}

Test(cuda_networks, random_ones_as_the_plan_likes)
{
    check_random(FM_KERNELS_AUTO, 62000, 10);
}

/* ---- calls ---- */

enum { EXAMPLES = 40 };

static int64_t calls_of(const struct ts_examples *examples, const char *yaml, int64_t batch,
                        enum fm_kernels_choice kernels)
{
    const struct fm_device_options options = {.lanes = 1, .kernels = kernels};
    struct fm_emulator_counts before, after;
    struct fm_report report;
    struct ts_bench bench;
    fm_emulator_reset(NULL);
    cr_assert(ts_bench_open_with(&bench, examples, yaml, cuda, &options), "%s", bench.error.text);
    bench.config.batch_size = batch;
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert_not_null(lane, "%s", bench.error.text);
    cr_assert(ts_bench_train(&bench, lane, 0, 1, &report));
    fm_emulator_count(&before);
    cr_assert(ts_bench_train(&bench, lane, 1, 1, &report));
    fm_emulator_count(&after);
    int steps = 0;
    const int64_t nodes = cuda->captured(bench.device, lane->program, batch, &steps);
    cr_expect(steps == 1 && nodes == lane->plan->nstep + 1, "%d nodes of %d steps, %d calls", (int)nodes,
              steps, lane->plan->nstep);
    cr_assert(ts_bench_train(&bench, lane, 2, 40, &report));
    const int64_t more = cuda->captured(bench.device, lane->program, batch, &steps);
    cr_expect(steps == FM_CUDA_STEPS && more == steps * lane->plan->nstep + 1, "%d nodes of %d steps",
              (int)more, steps);
    cr_expect_eq(cuda->captured(bench.device, lane->program, batch + 1, &steps), 0);
    bench.backend->lane_close(lane);
    ts_bench_close(&bench);
    finish(kernels);
    /* A graph of one step, and the signal that it is through. What only sets a library's stream is no node.
     */
    return after.captured - before.captured - 1;
}

Test(cuda_networks, steps_take_few_calls)
{
    static float x[EXAMPLES * 104];
    static uint8_t letters[EXAMPLES * 17];
    static uint32_t classes[EXAMPLES];
    for (uint32_t i = 0; i < EXAMPLES * 104; i++) x[i] = ts_hashed(i, 1, 1, 0);
    for (uint32_t i = 0; i < EXAMPLES * 17; i++) letters[i] = (uint8_t)(i * 7 % 21);
    for (uint32_t i = 0; i < EXAMPLES; i++) classes[i] = i % 2;
    const struct ts_examples sensor = {.n = EXAMPLES,
                                       .rows = 104,
                                       .channels = 1,
                                       .x = x,
                                       .nclasses = 2,
                                       .classes = classes,
                                       .width = 1,
                                       .train = EXAMPLES};
    const struct ts_examples protein = {.n = EXAMPLES,
                                        .rows = 17,
                                        .letters = letters,
                                        .alphabet = 21,
                                        .nclasses = 2,
                                        .classes = classes,
                                        .width = 1,
                                        .train = EXAMPLES};
    const char *const sensor_net =
        "model: [{conv1d: {filters: 24, kernel_size: 9, activation: relu}}, {max_pooling1d: {pool_size: 4}}, "
        "flatten, {dense: {units: 20, activation: relu}}, {dense: {units: 2, activation: softmax}}]\n"
        "train: {loss: sparse_categorical_crossentropy, batch_size: 8}\n";
    const char *const protein_net =
        "model: [{conv1d: {filters: 64, kernel_size: 5, padding: same, activation: swish}}, "
        "{conv1d: {filters: 64, kernel_size: 5, padding: same, activation: swish}}, flatten, "
        "{dense: {units: 2, activation: softmax}}]\n"
        "train: {loss: sparse_categorical_crossentropy, batch_size: 8}\n";
    for (int64_t batch = 8; batch <= 64; batch *= 8) {
        const int64_t s = calls_of(&sensor, sensor_net, batch, FM_KERNELS_AUTO);
        const int64_t p = calls_of(&protein, protein_net, batch, FM_KERNELS_AUTO);
        cr_expect_gt(calls_of(&protein, protein_net, batch, FM_KERNELS_OWN), 5);
        cr_expect(s <= 12, "sensor net, batch %d: %d calls", (int)batch, (int)s);
        cr_expect(p <= 16, "protein net, batch %d: %d calls", (int)batch, (int)p);
        cr_expect(s > 5 && p > 5);
    }
}
