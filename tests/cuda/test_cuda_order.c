/* What goes wrong only in some order of the streams' work: a lane closed in the middle, a snapshot beside the
 * next epoch, more requests than places for answers, more chunks than may be in flight. Found by putting the
 * mistakes in (tests/slow/cuda_mistakes.sh). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "emulator/emulator.h"
#include "lane_private.h"
#include "support/bench.h"

enum { EXAMPLES = 31, STEPS = 40, STREAMS = 3, ORDERS = 4 + STREAMS };

static const struct fm_backend *const cuda = &fm_backend_cuda;

static struct fm_emulator_settings order(int number)
{
    static const enum fm_emulator_policy policies[4] = {FM_EMULATOR_EAGER, FM_EMULATOR_FIRST,
                                                        FM_EMULATOR_LAST, FM_EMULATOR_RANDOM};
    return (struct fm_emulator_settings){.policy = number < 4 ? policies[number] : FM_EMULATOR_STARVE,
                                         .starved = number < 4 ? 0 : number - 4,
                                         .seed = (uint64_t)number};
}

static void begin(struct ts_bench *bench, const struct fm_emulator_settings *settings, int64_t lanes)
{
    static float x[EXAMPLES * 6];
    static uint32_t classes[EXAMPLES];
    for (uint32_t i = 0; i < EXAMPLES * 6; i++) x[i] = ts_hashed(i, 31, 1, 0);
    for (uint32_t i = 0; i < EXAMPLES; i++) classes[i] = i % 2;
    const struct ts_examples examples = {.n = EXAMPLES,
                                         .rows = 6,
                                         .channels = 1,
                                         .x = x,
                                         .nclasses = 2,
                                         .classes = classes,
                                         .width = 1,
                                         .train = 23};
    fm_emulator_reset(settings);
    cr_assert(
        ts_bench_open(bench, &examples,
                      "model: [flatten, {dense: {units: 2, activation: softmax}}]\n"
                      "train: {loss: categorical_crossentropy, optimizer: {adam: {learning_rate: 0.01}}, "
                      "batch_size: 4}\n",
                      cuda, lanes),
        "%s", bench->error.text);
}

static void end(struct ts_bench *bench, const char *when)
{
    struct fm_emulator_counts counts;
    ts_bench_close(bench);
    fm_emulator_count(&counts);
    cr_assert_eq(counts.faults, 0, "%s: %s", when, fm_emulator_fault());
    cr_assert_eq(counts.live, 0, "%s: %d things were not given back", when, (int)counts.live);
}

static struct fm_request train(int64_t first, int64_t steps)
{
    return (struct fm_request){.kind = FM_TRAIN,
                               .first_step = first,
                               .steps = steps,
                               .learning_rate = 0.01,
                               .on_nan = FM_ON_NAN_STOP};
}

static void submit(struct ts_bench *bench, struct fm_lane *lane, struct fm_request request)
{
    cr_assert_eq(cuda->submit(lane, &request, &bench->error), 0, "%s", bench->error.text);
}

static void wait_for(struct ts_bench *bench, int reports)
{
    struct fm_report report;
    while (reports > 0) {
        const int got = cuda->wait(bench->device, 1000, &report, &bench->error);
        cr_assert(got >= 0, "%s", bench->error.text);
        if (got) cr_assert(report.status == 0 && !report.frozen && !report.cancelled);
        reports -= got;
    }
}

struct blob {
    unsigned char bytes[4096];
    size_t size;
};

static struct blob state_of(struct ts_bench *bench, struct fm_lane *lane, int slot)
{
    struct blob blob = {.size = (size_t)cuda->state_size(lane)};
    cr_assert(blob.size <= sizeof blob.bytes);
    const int status = slot < 0 ? cuda->state_read(lane, blob.bytes, &bench->error)
                                : cuda->snapshot_read(lane, slot, blob.bytes, &bench->error);
    cr_assert_eq(status, 0, "%s", bench->error.text);
    return blob;
}

static void compare(const struct blob *got, const struct blob *want, const char *what)
{
    cr_assert(got->size == want->size && memcmp(got->bytes, want->bytes, want->size) == 0, "%s", what);
}

/* A run of a lane that was opened where another one was closed in the middle of its work. */
static struct blob run_after_a_closed_one(const struct fm_emulator_settings *settings, bool busy)
{
    struct ts_bench bench;
    begin(&bench, settings, 1);
    if (busy) {
        struct fm_lane *closed = ts_bench_lane(&bench, 1, 5, NULL);
        cr_assert_not_null(closed);
        for (int k = 0; k < 3; k++) submit(&bench, closed, train(k * STEPS, STEPS));
        cuda->lane_close(closed);
    }
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert_not_null(lane, "%s", bench.error.text);
    const struct blob fresh = state_of(&bench, lane, -1);
    submit(&bench, lane, train(0, STEPS));
    wait_for(&bench, 1);
    const struct blob trained = state_of(&bench, lane, -1);
    cr_assert(memcmp(fresh.bytes, trained.bytes, fresh.size) != 0);
    cuda->lane_close(lane);
    end(&bench, "closed");
    return trained;
}

Test(cuda_order, a_lane_that_is_closed_does_nothing_to_the_next_one)
{
    const struct fm_emulator_settings eager = order(0);
    const struct blob want = run_after_a_closed_one(&eager, false);
    for (int i = 0; i < ORDERS; i++) {
        const struct fm_emulator_settings settings = order(i);
        const struct blob got = run_after_a_closed_one(&settings, true);
        compare(&got, &want, "after a lane that was closed in the middle of its work");
    }
}

Test(cuda_order, a_device_may_be_closed_in_the_middle_of_a_lanes_work)
{
    for (int i = 0; i < ORDERS; i++) {
        const struct fm_emulator_settings settings = order(i);
        struct ts_bench bench;
        begin(&bench, &settings, 2);
        struct fm_lane *lanes[2];
        for (int k = 0; k < 2; k++) {
            lanes[k] = ts_bench_lane(&bench, k, 1, NULL);
            submit(&bench, lanes[k], train(0, STEPS));
            wait_for(&bench, 1);
            submit(&bench, lanes[k], train(STEPS, 4 * STEPS));
        }
        for (int k = 0; k < 2; k++) cuda->lane_close(lanes[k]);
        end(&bench, "closed");
    }
}

static struct blob trained(struct ts_bench *bench, struct fm_lane *lane)
{
    submit(bench, lane, train(0, STEPS));
    wait_for(bench, 1);
    return state_of(bench, lane, -1);
}

/* Two lanes come and go; then a larger one takes the place of the first, so that what is kept of it
 * fits nothing that the next lane like it gets. */
Test(cuda_order, graphs_go_with_the_memory_they_were_captured_for)
{
    const struct fm_emulator_settings random = order(3);
    struct ts_bench bench;
    struct fm_lane *lane[3];
    begin(&bench, &random, 3);
    for (int i = 0; i < 2; i++) lane[i] = ts_bench_lane(&bench, 0, 1, NULL);
    const struct blob want = trained(&bench, lane[0]), beside = trained(&bench, lane[1]);
    compare(&beside, &want, "a lane beside it");
    const char *const first = lane[0]->base, *const second = lane[1]->base;
    for (int i = 0; i < 2; i++) cuda->lane_close(lane[i]);
    bench.config.batch_size = 40;
    lane[0] = ts_bench_lane(&bench, 1, 1, NULL);
    bench.config.batch_size = 4;
    for (int i = 1; i < 3; i++) lane[i] = ts_bench_lane(&bench, 0, 1, NULL);
    cr_assert(lane[0]->base == first && lane[1]->base != first && lane[1]->base != second);
    const struct blob larger = state_of(&bench, lane[0], -1);
    for (int i = 1; i < 3; i++) {
        const struct blob got = trained(&bench, lane[i]);
        compare(&got, &want, "in another place");
    }
    const struct blob untouched = state_of(&bench, lane[0], -1);
    compare(&untouched, &larger, "the lane that took the place");
    for (int i = 0; i < 3; i++) cuda->lane_close(lane[i]);
    end(&bench, "places");
}

/* Snapshots of three epochs that were queued at once; then back to the second, and one epoch more. */
static void take_snapshots(const struct fm_emulator_settings *settings, struct blob got[4])
{
    struct ts_bench bench;
    begin(&bench, settings, 2);
    /* The other lane's stream is one more to starve. */
    struct fm_lane *other = ts_bench_lane(&bench, 1, 2, NULL), *lane = ts_bench_lane(&bench, 0, 1, NULL);
    submit(&bench, other, train(0, STEPS));
    for (int e = 0; e < 3; e++) {
        submit(&bench, lane, train(e * STEPS, STEPS));
        submit(&bench, lane, (struct fm_request){.kind = FM_SNAPSHOT, .slot = e});
    }
    submit(&bench, lane, train(3 * STEPS, STEPS));
    submit(&bench, lane, (struct fm_request){.kind = FM_RESTORE, .slot = 1});
    submit(&bench, lane, train(2 * STEPS, STEPS));
    wait_for(&bench, 10);
    for (int e = 0; e < 3; e++) got[e] = state_of(&bench, lane, e);
    got[3] = state_of(&bench, lane, -1);
    cuda->lane_close(lane);
    cuda->lane_close(other);
    end(&bench, "snapshots");
}

Test(cuda_order, a_snapshot_holds_the_epoch_that_it_was_queued_behind)
{
    struct blob want[4], got[4];
    const struct fm_emulator_settings eager = order(0);
    cr_assert(FM_SLOTS >= 3);
    take_snapshots(&eager, want);
    for (int e = 0; e < 2; e++) cr_assert(memcmp(want[e].bytes, want[e + 1].bytes, want[e].size) != 0);
    compare(&want[3], &want[2], "the third epoch again");
    for (int i = 1; i < ORDERS; i++) {
        const struct fm_emulator_settings settings = order(i);
        take_snapshots(&settings, got);
        for (int e = 0; e < 4; e++) compare(&got[e], &want[e], "a snapshot in another order");
    }
}

/* Each is over with one launch, so that only the places for answers hold them back. */
Test(cuda_order, short_requests_are_answered_one_by_one)
{
    enum { MANY = 3 * FM_CUDA_RING + 1 };
    for (int i = 0; i < ORDERS; i++) {
        const struct fm_emulator_settings settings = order(i);
        struct ts_bench bench;
        struct fm_report report;
        begin(&bench, &settings, 1);
        struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
        for (uint64_t k = 0; k < MANY; k++)
            submit(&bench, lane,
                   (struct fm_request){.kind = k % 3 ? FM_RESTORE : FM_SNAPSHOT, .tag = k, .slot = 1});
        for (uint64_t k = 0; k < MANY; k++) {
            int got = 0;
            for (int rounds = 0; !got && rounds < 200; rounds++)
                got = cuda->wait(bench.device, 1, &report, &bench.error);
            cr_assert_eq(got, 1, "request %d is never answered", (int)k);
            cr_assert(report.status == 0 && report.tag == k);
        }
        cuda->lane_close(lane);
        end(&bench, "short requests");
    }
}

/* A cancel would have to wait for all of them, and a display for its turn. */
Test(cuda_order, no_more_than_two_chunks_are_in_flight)
{
    for (int i = 1; i < ORDERS; i += 2) {
        const struct fm_emulator_settings settings = order(i);
        struct ts_bench bench;
        struct fm_report report;
        uint64_t most = 0;
        begin(&bench, &settings, 1);
        struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
        submit(&bench, lane, train(0, 12 * FM_CUDA_STEPS));
        for (int got = 0; !got;) {
            const struct fm_cuda_slot *slot = lane->slot;
            const uint64_t flying = slot->chunks - slot->words->through;
            if (flying > most) most = flying;
            got = cuda->wait(bench.device, 0, &report, &bench.error);
            cr_assert(got >= 0);
        }
        cr_assert_eq(report.steps, 12 * FM_CUDA_STEPS);
        cr_assert_eq(most, 2, "%d chunks in flight", (int)most);
        cuda->lane_close(lane);
        end(&bench, "chunks");
    }
}
