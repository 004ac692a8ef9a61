/* Chunks where a display has a watchdog, on the emulator, whose events follow a clock that only kernels move:
 * how long they are, and that no bit depends on it. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "emulator/emulator.h"
#include "lane_private.h"
#include "support/bench.h"

static const struct fm_backend *const cuda = &fm_backend_cuda;

enum { N = 160, TRAIN = 40, ROWS = 3, ORDERS = 6 };

/* Streams in every order: what has been enqueued behind a chunk may come much later. */
static struct fm_emulator_settings order(int number)
{
    static const enum fm_emulator_policy policies[ORDERS] = {FM_EMULATOR_FIRST,  FM_EMULATOR_LAST,
                                                             FM_EMULATOR_RANDOM, FM_EMULATOR_STARVE,
                                                             FM_EMULATOR_STARVE, FM_EMULATOR_RANDOM};
    return (struct fm_emulator_settings){.policy = policies[number],
                                         .starved = number - 3,
                                         .seed = (uint64_t)number,
                                         .card = "gtx970",
                                         .no_graphs = number == ORDERS - 1};
}

/* `first`, unless 0, is what all training examples are made of. */
static void open_bench_for(struct ts_bench *bench, const struct fm_emulator_settings *settings, float first,
                           bool profile)
{
    static float x[N * ROWS];
    static uint32_t classes[N];
    const struct ts_examples examples = ts_examples_in_turn(x, classes, N, ROWS, TRAIN, 1);
    for (uint32_t i = 0; first != 0 && i < TRAIN * ROWS; i++) x[i] = first;
    const struct fm_device_options options = {.lanes = 1, .slice = 8, .profile = profile};
    fm_emulator_reset(settings);
    cr_assert(ts_bench_open_with(bench, &examples,
                                 "model: [flatten, {dense: {units: 2, activation: softmax}}]\n"
                                 "train: {loss: sparse_categorical_crossentropy, batch_size: 8}\n",
                                 cuda, &options),
              "%s", bench->error.text);
}

static void open_bench(struct ts_bench *bench, const struct fm_emulator_settings *settings, float first)
{
    open_bench_for(bench, settings, first, false);
}

static void close_bench(struct ts_bench *bench, struct fm_lane *lane)
{
    struct fm_emulator_counts counts;
    cuda->lane_close(lane);
    ts_bench_close(bench);
    fm_emulator_count(&counts);
    cr_assert_eq(counts.faults, 0, "%s", fm_emulator_fault());
    cr_assert_eq(counts.live, 0);
}

static void train(struct ts_bench *bench, struct fm_lane *lane, int64_t first, int64_t steps)
{
    struct fm_report report;
    cr_assert(ts_bench_train(bench, lane, first, steps, &report), "%s", bench->error.text);
    cr_assert_eq(report.steps, steps);
}

/* The kernels that the emulator counts in a chunk of one step, the signal among them. */
static int64_t kernels_of_a_step(void)
{
    struct fm_emulator_settings settings = order(0);
    struct fm_emulator_counts before, after;
    struct ts_bench bench;
    open_bench(&bench, &settings, 0);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert_not_null(lane, "%s", bench.error.text);
    fm_emulator_count(&before);
    train(&bench, lane, 0, 2);
    fm_emulator_count(&after);
    close_bench(&bench, lane);
    return after.captured - before.captured;
}

/* A chunk longer than one step never takes more than half of the limit, because two are in flight. */
static void check_lengths(const struct fm_lane *lane, int64_t kernels, int64_t kernel_us)
{
    const struct fm_cuda_slot *slot = lane->slot;
    for (int i = 0; i < slot->ngraphs; i++) {
        const int length = slot->graphs[i].length;
        const double seconds = 1e-6 * (double)((length * (kernels - 1) + 1) * kernel_us);
        cr_assert(length == 1 || seconds <= FM_CUDA_WATCHDOG / 2, "a chunk of %d steps takes %g s", length,
                  seconds);
    }
}

/* Chunks begin with one step; the one that is not captured tells nothing, and two are under way before the
 * first measure: 1, 1, 1, then 2, 2, 4, 4, ... */
Test(cuda_watchdog, chunks_grow_to_what_fits)
{
    static const struct {
        double milliseconds; /* of a step */
        int steps, chunks, most;
    } cases[] = {
        {0.1, 4, 4, 2},
        {0.1, 3 + 2 * (2 + 4 + 8) + 4 * 16, 3 + 6 + 4, 16}, /* 1.6 ms */
        {1.5, 3 + 2 * (2 + 4 + 8) + 3 * 16, 3 + 6 + 3, 16}, /* 24 ms */
        {2, 3 + 2 * (2 + 4) + 4 * 8, 3 + 4 + 4, 8},         /* 16 ms */
        {5, 3 + 2 * 2 + 5 * 4, 3 + 2 + 5, 4},               /* 20 ms */
        {10, 3 + 8 * 2, 3 + 8, 2},                          /* 20 ms */
        {14, 11, 11, 1},                                    /* 28 ms would be too much */
        {80, 11, 11, 1},
    };
    const int64_t kernels = kernels_of_a_step();
    cr_assert_gt(kernels, 3);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int i = 0; i < ORDERS; i++) {
            struct fm_emulator_settings settings = order(i);
            settings.kernel_us = (int64_t)(1000 * cases[c].milliseconds / (double)kernels);
            struct ts_bench bench;
            open_bench(&bench, &settings, 0);
            struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
            cr_assert_not_null(lane, "%s", bench.error.text);
            const struct fm_cuda_slot *slot = lane->slot;
            cr_assert_eq(slot->most[FM_CUDA_TRAINS], 1);
            train(&bench, lane, 0, cases[c].steps);
            cr_assert_eq(slot->most[FM_CUDA_TRAINS], cases[c].most,
                         "%g ms a step, order %d: %d steps a chunk", cases[c].milliseconds, i,
                         slot->most[FM_CUDA_TRAINS]);
            cr_assert_eq(slot->chunks, (uint64_t)cases[c].chunks, "%g ms a step, order %d: %d chunks",
                         cases[c].milliseconds, i, (int)slot->chunks);
            check_lengths(lane, kernels, settings.kernel_us);
            cr_assert_eq(lane->direct, settings.no_graphs);
            close_bench(&bench, lane);
        }
}

/* The word that says that a chunk is through comes a moment before the event that tells its time; the host
 * may look between the two. */
Test(cuda_watchdog, no_measure_is_lost)
{
    enum { ROUNDS = 150, STEPS = 2 * (1 + 2 + 4 + 8) + 16, CHUNKS = 2 * 4 + 1 };
    struct fm_emulator_settings settings = order(2);
    settings.kernel_us = 1;
    struct ts_bench bench;
    open_bench(&bench, &settings, 0);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert_not_null(lane, "%s", bench.error.text);
    train(&bench, lane, 0, 1);
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t before = lane->slot->chunks;
        lane->slot->most[FM_CUDA_TRAINS] = 1;
        train(&bench, lane, 1 + round * STEPS, STEPS);
        cr_assert_eq(lane->slot->chunks - before, (uint64_t)CHUNKS, "round %d: %d chunks", round,
                     (int)(lane->slot->chunks - before));
    }
    close_bench(&bench, lane);
}

/* Another program shares the card from then on. */
Test(cuda_watchdog, chunks_shrink_when_the_card_gets_slower)
{
    const int64_t kernels = kernels_of_a_step();
    for (int i = 0; i < ORDERS; i++) {
        struct fm_emulator_settings settings = order(i);
        settings.kernel_us = 1;
        struct ts_bench bench;
        open_bench(&bench, &settings, 0);
        struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
        cr_assert_not_null(lane, "%s", bench.error.text);
        const int *most = &lane->slot->most[FM_CUDA_TRAINS];
        train(&bench, lane, 0, 160);
        cr_assert_eq(*most, 16);
        settings.kernel_us = 2500 / kernels;
        fm_emulator_set(&settings);
        train(&bench, lane, 160, 160);
        cr_assert_eq(*most, 8, "2.5 ms a step: %d a chunk", *most);
        settings.kernel_us = 60000 / kernels;
        fm_emulator_set(&settings);
        train(&bench, lane, 320, 80);
        cr_assert_eq(*most, 1, "60 ms a step: %d a chunk", *most);
        settings.kernel_us = 1;
        fm_emulator_set(&settings);
        train(&bench, lane, 400, 160);
        cr_assert_eq(*most, 16, "fast again: %d a chunk", *most);
        close_bench(&bench, lane);
    }
}

/* What a step takes says nothing of a chunk of an evaluation. */
Test(cuda_watchdog, evaluations_have_a_length_of_their_own)
{
    const int64_t kernels = kernels_of_a_step();
    struct fm_emulator_settings settings = order(2);
    settings.kernel_us = 14000 / kernels;
    struct ts_bench bench;
    struct fm_report report;
    open_bench(&bench, &settings, 0);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert_not_null(lane, "%s", bench.error.text);
    const struct fm_request evaluate = {.kind = FM_EVALUATE, .part = FM_PART_VAL};
    cr_assert_gt((N - TRAIN) / lane->plan->layout.chunk, 5, "the test is of no use");
    for (int epoch = 0; epoch < 3; epoch++) {
        train(&bench, lane, epoch * 10, 10);
        cr_assert(ts_bench_do(&bench, lane, &evaluate, &report), "%s", bench.error.text);
    }
    cr_assert_eq(lane->slot->most[FM_CUDA_TRAINS], 1);
    cr_assert_eq(lane->slot->most[FM_CUDA_EVALUATES], 2);
    close_bench(&bench, lane);
}

/* Steps of a lane that froze take no time, but others will. */
Test(cuda_watchdog, chunks_do_not_grow_by_steps_that_did_nothing)
{
    for (int i = 0; i < ORDERS; i++) {
        struct fm_emulator_settings settings = order(i);
        settings.kernel_us = 1;
        struct ts_bench bench;
        struct fm_report report;
        open_bench(&bench, &settings, INFINITY);
        struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
        cr_assert_not_null(lane, "%s", bench.error.text);
        const struct fm_request keep = {.kind = FM_SNAPSHOT, .slot = FM_SLOT_BEST},
                                back = {.kind = FM_RESTORE, .slot = FM_SLOT_BEST},
                                endless = {.kind = FM_TRAIN,
                                           .steps = INT64_C(1) << 40,
                                           .learning_rate = 0.01,
                                           .on_nan = FM_ON_NAN_STOP};
        cr_assert(ts_bench_do(&bench, lane, &keep, &report), "%s", bench.error.text);
        for (int k = 0; k < 4; k++) {
            cr_assert(ts_bench_do(&bench, lane, &endless, &report), "%s", bench.error.text);
            cr_assert(report.frozen && report.first_bad_step == 0);
            cr_assert(ts_bench_do(&bench, lane, &back, &report), "%s", bench.error.text);
        }
        cr_assert_gt(lane->slot->chunks, 3u);
        cr_assert_eq(lane->slot->most[FM_CUDA_TRAINS], 1);
        close_bench(&bench, lane);
    }
}

/* The state after three epochs, in chunks as long as this allows. */
static unsigned char *state_after(const struct fm_emulator_settings *settings, size_t *size, int *most)
{
    struct ts_bench bench;
    open_bench(&bench, settings, 0);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert_not_null(lane, "%s", bench.error.text);
    for (int epoch = 0; epoch < 3; epoch++) train(&bench, lane, epoch * 33, 33);
    *most = lane->slot->most[FM_CUDA_TRAINS];
    *size = (size_t)cuda->state_size(lane);
    unsigned char *blob = malloc(*size);
    cr_assert(blob && cuda->state_read(lane, blob, &bench.error) == 0, "%s", bench.error.text);
    close_bench(&bench, lane);
    return blob;
}

/* The last one is a card without a watchdog: 16 steps from the beginning. */
Test(cuda_watchdog, lengths_change_no_bit)
{
    static const int microseconds[] = {1, 300, 1000, 2000, 100000, 1};
    enum { COUNT = sizeof microseconds / sizeof *microseconds };
    unsigned char *want = NULL;
    int lengths = 0;
    for (int i = 0; i < COUNT; i++) {
        struct fm_emulator_settings settings = order(i % (ORDERS - 1));
        settings.kernel_us = microseconds[i];
        if (i == COUNT - 1) settings.card = "gtx1060";
        size_t size;
        int most;
        unsigned char *got = state_after(&settings, &size, &most);
        lengths |= most;
        cr_assert(!want || memcmp(got, want, size) == 0, "%d us a kernel, %d steps a chunk", microseconds[i],
                  most);
        if (want) free(got);
        if (!want) want = got;
    }
    free(want);
    cr_assert(lengths & 1 && lengths & 16 && lengths & 14, "%d", lengths);
}

/* A profile marks one step at a time, whatever the card is. */
Test(cuda_watchdog, profiles_take_one_step)
{
    struct fm_emulator_settings settings = order(0);
    settings.kernel_us = 1;
    struct ts_bench bench;
    open_bench_for(&bench, &settings, 0, true);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert_not_null(lane, "%s", bench.error.text);
    train(&bench, lane, 0, 20);
    cr_assert_eq(lane->slot->most[FM_CUDA_TRAINS], 1);
    cr_assert_eq(lane->slot->chunks, 20u);
    close_bench(&bench, lane);
}
