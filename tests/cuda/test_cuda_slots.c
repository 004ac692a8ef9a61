/* Slots of the CUDA backend on the emulator: what is kept from lane to lane. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "cuda.h"
#include "emulator/emulator.h"
#include "lane_private.h"
#include "support/bench.h"

static const struct fm_backend *const cuda = &fm_backend_cuda;

enum { N = 24, ROWS = 6 };

static bool open_bench_with(struct ts_bench *bench, const struct fm_emulator_settings *settings)
{
    static float x[N * ROWS];
    static uint32_t classes[N];
    const struct ts_examples examples = ts_examples_in_turn(x, classes, N, ROWS, 16, 1);
    const struct fm_device_options options = {.lanes = 1};
    fm_emulator_reset(settings);
    return ts_bench_open_with(bench, &examples,
                              "model: [flatten, {dense: {units: 2, activation: softmax}}]\n"
                              "train: {loss: sparse_categorical_crossentropy, batch_size: 4}\n",
                              cuda, &options);
}

static void open_bench(struct ts_bench *bench)
{
    const struct fm_emulator_settings settings = {.policy = FM_EMULATOR_RANDOM, .seed = 5};
    cr_assert(open_bench_with(bench, &settings), "%s", bench->error.text);
}

/* CUDA reads it when it starts: without it 16 lanes would share 8 hardware queues. */
Test(cuda_slots, lanes_ask_for_hardware_queues)
{
    struct ts_bench bench;
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    open_bench(&bench);
    ts_bench_close(&bench);
    cr_assert_str_eq(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "5", 1);
    open_bench(&bench);
    ts_bench_close(&bench);
    cr_assert_str_eq(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "5", "what the user says stays");
}

/* Small networks: several a multiprocessor, within bounds. */
Test(cuda_slots, a_card_has_lanes_by_its_size)
{
    static const struct {
        const char *card, *select;
        int64_t asked, lanes;
    } cases[] = {{"gtx760", NULL, 0, 24},  {"gtx1060", NULL, 0, 40}, {"gtx970", NULL, 0, 52},
                 {"rtx3060", NULL, 0, 64}, {"h200", NULL, 0, 64},    {"gtx1060", "0,1", 0, 80},
                 {"h200", NULL, 300, 300}, {"h200", "0,1", 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct fm_emulator_settings settings = {.card = cases[i].card, .cards = 2};
        const struct fm_device_options options = {.lanes = cases[i].asked, .select = cases[i].select};
        struct fm_device *device;
        struct fm_error err = {0};
        fm_emulator_reset(&settings);
        cr_assert_eq(cuda->open(&device, &options, &err), 0, "%s", err.text);
        cr_assert_eq(cuda->lanes(device), cases[i].lanes, "%s: %d lanes", cases[i].card,
                     (int)cuda->lanes(device));
        cuda->close(device);
    }
}

/* Other runs of the same network find their block where the last one's was, but their scores elsewhere:
 * graphs that write scores where none lie any more must not fill the slot, or it would never capture again.
 */
Test(cuda_slots, scores_that_move_use_up_no_graphs)
{
    struct ts_bench bench;
    struct fm_report report;
    float scores[N * 2];
    const void *place = NULL, *last = NULL;
    open_bench(&bench);
    struct fm_card *card = &bench.device->cards[0];
    for (int run = 0; run < FM_CUDA_GRAPHS + 4; run++) {
        struct fm_lane *lane = ts_bench_lane(&bench, 0, run, NULL);
        cr_assert_not_null(lane, "%s", bench.error.text);
        const struct fm_request evaluate = {
            .kind = FM_EVALUATE, .part = FM_PART_VAL, .returns = FM_RETURN_SCORES, .scores = scores};
        cr_assert(ts_bench_train(&bench, lane, 0, 2, &report));
        cr_assert(ts_bench_do(&bench, lane, &evaluate, &report));
        cr_assert(run == 0 || (lane->base == place && lane->scores != last), "the test is of no use");
        const struct fm_cuda_slot *slot = lane->slot;
        cr_assert(!lane->direct && slot->ngraphs <= 3, "run %d: %d graphs", run, slot->ngraphs);
        for (int i = 0; i < slot->ngraphs; i++)
            cr_assert(!slot->graphs[i].scores || slot->graphs[i].scores == lane->scores);
        place = lane->base;
        last = lane->scores;
        const int64_t bytes = lane->plan->layout.bytes;
        cuda->lane_close(lane);
        /* Something small now lies behind the block, so the next scores find their old place taken. */
        void *block = fm_arena_take(&card->arena, bytes);
        cr_assert(block == place && fm_arena_take(&card->arena, 1));
        fm_arena_give(&card->arena, block);
    }
    ts_bench_close(&bench);
    struct fm_emulator_counts counts;
    fm_emulator_count(&counts);
    cr_assert_eq(counts.faults, 0, "%s", fm_emulator_fault());
    cr_assert_eq(counts.live, 0);
}

/* Under the emulator what a lane leaves behind is NaN: the next one in its place may read nothing of it, and
 * has the bits of the first. */
Test(cuda_slots, a_closed_lane_leaves_nothing_behind)
{
    struct ts_bench bench;
    struct fm_report first, second;
    open_bench(&bench);
    struct fm_card *card = &bench.device->cards[0];
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert(lane && ts_bench_train(&bench, lane, 0, 8, &first), "%s", bench.error.text);
    const int64_t bytes = lane->plan->layout.bytes;
    const void *place = lane->base;
    cuda->lane_close(lane);
    unsigned char *left = fm_arena_take(&card->arena, bytes), *seen = malloc((size_t)bytes);
    cr_assert(left == place && seen);
    fm_emulator_peek(seen, left, (size_t)bytes);
    for (int64_t i = 0; i < bytes; i++) cr_assert_eq(seen[i], 0xff, "byte %d of %d", (int)i, (int)bytes);
    free(seen);
    fm_arena_give(&card->arena, left);
    lane = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert(lane && lane->base == place && ts_bench_train(&bench, lane, 0, 8, &second), "%s",
              bench.error.text);
    cr_assert(first.loss_sum == second.loss_sum && first.last_norm == second.last_norm);
    cuda->lane_close(lane);
    ts_bench_close(&bench);
    struct fm_emulator_counts counts;
    fm_emulator_count(&counts);
    cr_assert_eq(counts.faults, 0, "%s", fm_emulator_fault());
}

/* One lane whose capture fails for once, then another in its place. True when the first one ran without
 * graphs. */
static bool captures_after_failure(int64_t call)
{
    const struct fm_emulator_settings settings = {.policy = FM_EMULATOR_RANDOM, .seed = 5, .fail_call = call};
    struct ts_bench bench;
    struct fm_report report;
    bool direct = false;
    if (open_bench_with(&bench, &settings)) {
        struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
        direct = lane && ts_bench_train(&bench, lane, 0, 8, &report) && lane->direct;
        if (lane) cuda->lane_close(lane);
        if (direct) {
            lane = ts_bench_lane(&bench, 0, 2, NULL);
            cr_assert_not_null(lane, "%s", bench.error.text);
            cr_assert(ts_bench_train(&bench, lane, 0, 8, &report), "%s", bench.error.text);
            cr_assert(!lane->direct && lane->slot->ngraphs > 0, "call %lld", (long long)call);
            cuda->lane_close(lane);
        }
    }
    ts_bench_close(&bench);
    return direct;
}

Test(cuda_slots, a_failed_capture_is_of_one_lane)
{
    struct ts_bench bench;
    struct fm_report report;
    struct fm_emulator_counts counts;
    int failed = 0;
    open_bench(&bench);
    fm_emulator_count(&counts);
    const int64_t first = counts.calls;
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert(lane && ts_bench_train(&bench, lane, 0, 8, &report), "%s", bench.error.text);
    fm_emulator_count(&counts);
    cuda->lane_close(lane);
    ts_bench_close(&bench);
    for (int64_t call = first + 1; call <= counts.calls; call++) failed += captures_after_failure(call);
    cr_assert_gt(failed, 2, "only %d failures fell into a capture", failed);
}
