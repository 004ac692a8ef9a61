/* Lanes of the CUDA backend on the emulator: the contract that all backends stand, under every order in which
 * streams may run; the same bits with and without graphs, beside others and from blobs; what goes over the
 * bus; large results; every CUDA call failed in turn. Nothing here has seen a real card. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "emulator/emulator.h"
#include "engine/backend_checks.h"
#include "lane_private.h"
#include "support/bench.h"

extern const struct fm_backend fm_backend_cpu; /* engine/cpu/cpu.h has another struct fm_lane */
static const struct fm_backend *const cuda = &fm_backend_cuda;

static void start(struct fm_emulator_settings settings)
{
    fm_emulator_reset(&settings);
}

/* No mistake was seen, and everything was given back. */
static void finish(const char *when)
{
    struct fm_emulator_counts counts;
    fm_emulator_count(&counts);
    cr_assert_eq(counts.faults, 0, "%s: %s", when, fm_emulator_fault());
    cr_assert_eq(counts.live, 0, "%s: %d things of CUDA's were not given back", when, (int)counts.live);
}

/* All streams' work in every order; thread orders change with them. */
enum { ORDERS = 8 };
static struct fm_emulator_settings order(int number)
{
    static const enum fm_emulator_policy policies[ORDERS] = {
        FM_EMULATOR_EAGER,  FM_EMULATOR_FIRST,  FM_EMULATOR_LAST,   FM_EMULATOR_RANDOM,
        FM_EMULATOR_STARVE, FM_EMULATOR_STARVE, FM_EMULATOR_STARVE, FM_EMULATOR_STARVE};
    return (struct fm_emulator_settings){.policy = policies[number],
                                         .starved = number >= 4 ? number - 4 : 0,
                                         .seed = (uint64_t)number,
                                         .thread_order = number % 3};
}

/* ---- what all backends stand ---- */

Test(cuda_lanes, what_runs_beside_changes_no_bit)
{
    for (int i = 1; i < ORDERS; i += 2) {
        start(order(i));
        ts_check_all_beside(cuda, 1);
        finish("beside");
    }
}

Test(cuda_lanes, steps_one_by_one_give_the_same_bits)
{
    start(order(3));
    ts_check_cuts(cuda);
    finish("cuts");
}

Test(cuda_lanes, states_and_snapshots)
{
    for (int i = 0; i < ORDERS; i += 3) {
        start(order(i));
        ts_check_resume(cuda);
        ts_check_portable(cuda);
        ts_check_snapshots(cuda);
        finish("states");
    }
}

Test(cuda_lanes, cancel_and_close)
{
    for (int i = 0; i < ORDERS; i++) {
        start(order(i));
        ts_check_cancel(cuda);
        ts_check_closing(cuda);
        finish("cancel");
    }
}

Test(cuda_lanes, evaluations_between_steps_change_no_bit)
{
    start(order(3));
    ts_check_between(cuda, 12);
    finish("between");
}

Test(cuda_lanes, bad_steps)
{
    start(order(3));
    ts_check_frozen(cuda, "stop", NAN);
    ts_check_frozen(cuda, "stop", 3e38f);
    ts_check_frozen(cuda, "rollback", INFINITY);
    ts_check_frozen(cuda, "stop", 1e19f);
    ts_check_skip(cuda);
    ts_check_keras(cuda);
    ts_check_clipvalue(cuda);
    ts_check_huge_rate(cuda);
    ts_check_equal_numbers(cuda, 1.1e9f);
    finish("bad steps");
}

Test(cuda_lanes, evaluations)
{
    start(order(2));
    ts_check_classes(cuda, 3, "sparse_categorical_crossentropy");
    ts_check_classes(cuda, 5, "categorical_crossentropy");
    ts_check_classes(cuda, 2, "categorical_crossentropy");
    ts_check_classes(cuda, 2, "binary_crossentropy");
    ts_check_ties(cuda);
    ts_check_numbers(cuda);
    ts_check_a13(cuda);
    finish("evaluations");
}

/* ---- a bench of our own ---- */

#define N        61
#define ROWS     24
#define CHANNELS 2

static float x[N * ROWS * CHANNELS];
static uint32_t classes[N];

static const char network[] =
    "model:\n"
    "  - conv1d: {filters: 4, kernel_size: 5, activation: relu, kernel_regularizer: {l2: {l2: 0.001}}}\n"
    "  - batch_normalization\n"
    "  - max_pooling1d: {pool_size: 2}\n"
    "  - dropout: {rate: 0.25}\n"
    "  - flatten\n"
    "  - dense: {units: 3, activation: softmax}\n"
    "train: {loss: sparse_categorical_crossentropy, optimizer: {adam: {learning_rate: 0.01}}, batch_size: 6, "
    "epochs: 1}\n";

static bool open_bench_on(struct ts_bench *bench, const struct fm_device_options *options)
{
    for (uint32_t i = 0; i < N * ROWS * CHANNELS; i++) x[i] = ts_hashed(i, 1, 1, 0);
    for (uint32_t i = 0; i < N; i++) classes[i] = i * 7 % 3;
    const struct ts_examples examples = {.n = N,
                                         .rows = ROWS,
                                         .channels = CHANNELS,
                                         .x = x,
                                         .nclasses = 3,
                                         .classes = classes,
                                         .width = 1,
                                         .train = 45};
    return ts_bench_open_with(bench, &examples, network, cuda, options);
}

static bool open_bench(struct ts_bench *bench, int64_t lanes)
{
    const struct fm_device_options options = {.lanes = lanes};
    return open_bench_on(bench, &options);
}

/* What a run gives: its state and the scores at the end. */
struct outcome {
    unsigned char *blob;
    size_t size;
    float scores[N * 3];
    int64_t confusion[9];
    double loss;
};

static void compare(const struct outcome *got, const struct outcome *want, const char *what)
{
    cr_assert(got->size == want->size && memcmp(got->blob, want->blob, want->size) == 0, "state: %s", what);
    cr_assert(memcmp(got->scores, want->scores, sizeof want->scores) == 0, "scores: %s", what);
    cr_assert(memcmp(got->confusion, want->confusion, sizeof want->confusion) == 0, "confusion: %s", what);
    cr_assert(memcmp(&got->loss, &want->loss, sizeof want->loss) == 0, "loss: %s", what);
}

enum { EPOCHS = 2, STEPS = 19, PER_EPOCH = 4 };

/* Some epochs with everything that a trainer queues, all at once: train, evaluate, keep, and the next. */
static void queue_run(struct ts_bench *bench, struct fm_lane *lane, struct outcome *o, uint64_t tag)
{
    for (int64_t e = 0; e < EPOCHS; e++) {
        const struct fm_request requests[PER_EPOCH] = {
            {.kind = FM_TRAIN,
             .tag = tag,
             .first_step = e * STEPS,
             .steps = STEPS,
             .learning_rate = 0.01,
             .on_nan = FM_ON_NAN_STOP},
            {.kind = FM_EVALUATE, .tag = tag, .part = FM_PART_TRAIN},
            {.kind = FM_EVALUATE,
             .tag = tag,
             .part = FM_PART_VAL,
             .returns = FM_RETURN_CONFUSION | FM_RETURN_SCORES,
             .scores = o->scores,
             .confusion = o->confusion},
            {.kind = FM_SNAPSHOT, .tag = tag, .slot = e % 2 ? FM_SLOT_CANDIDATE : FM_SLOT_OTHER_CANDIDATE}};
        for (int r = 0; r < PER_EPOCH; r++)
            cr_assert_eq(cuda->submit(lane, &requests[r], &bench->error), 0, "%s", bench->error.text);
    }
}

/* `lanes` such runs side by side; o[i] is what run i gave. */
static void run_on(const struct fm_device_options *options, int lanes, struct outcome *o)
{
    struct ts_bench bench;
    struct fm_lane *lane[4];
    cr_assert(open_bench_on(&bench, options), "%s", bench.error.text);
    memset(o, 0, (size_t)lanes * sizeof *o);
    for (int i = 0; i < lanes; i++) {
        lane[i] = ts_bench_lane(&bench, i % 2, i, NULL);
        cr_assert_not_null(lane[i], "%s", bench.error.text);
        queue_run(&bench, lane[i], &o[i], (uint64_t)i);
    }
    for (int pending = lanes * EPOCHS * PER_EPOCH; pending > 0;) {
        struct fm_report report;
        const int got = cuda->wait(bench.device, 1000, &report, &bench.error);
        cr_assert(got >= 0, "%s", bench.error.text);
        if (!got) continue;
        cr_assert(report.status == 0 && !report.frozen && !report.cancelled, "%s", report.error.text);
        if (report.kind == FM_EVALUATE) o[report.tag].loss = report.loss;
        pending--;
    }
    for (int i = 0; i < lanes; i++) {
        o[i].size = (size_t)cuda->state_size(lane[i]);
        o[i].blob = malloc(o[i].size);
        cr_assert_eq(cuda->state_read(lane[i], o[i].blob, &bench.error), 0);
        cuda->lane_close(lane[i]);
    }
    if (options->profile) {
        struct fm_text text = {0};
        cr_assert_eq(cuda->profile(bench.device, &text, &bench.error), 0);
        cr_assert(strstr(text.data, "launching") && strstr(text.data, "waiting for the device"), "%s",
                  text.data);
        fm_text_fini(&text);
    }
    ts_bench_close(&bench);
}

static void run_beside(int lanes, bool profile, struct outcome *o)
{
    const struct fm_device_options options = {.lanes = lanes, .profile = profile};
    run_on(&options, lanes, o);
}

static void free_all(struct outcome *o, int count)
{
    for (int i = 0; i < count; i++) free(o[i].blob);
}

/* Graphs, direct calls, profiles, other orders, more lanes: the same bits. */
Test(cuda_lanes, no_way_of_running_changes_a_bit)
{
    struct outcome want[4], got[4];
    start(order(0));
    for (int i = 0; i < 4; i++) {
        struct outcome alone[4];
        run_beside(i + 1, false, alone);
        want[i] = alone[i];
        alone[i].blob = NULL;
        free_all(alone, i + 1);
    }
    finish("alone");
    struct fm_emulator_settings direct = order(3);
    direct.no_graphs = true;
    start(direct);
    run_beside(4, false, got);
    for (int i = 0; i < 4; i++) compare(&got[i], &want[i], "without graphs");
    free_all(got, 4);
    finish("without graphs");
    start(order(1));
    run_beside(2, true, got);
    for (int i = 0; i < 2; i++) compare(&got[i], &want[i], "profiled");
    free_all(got, 2);
    finish("profiled");
    for (int k = 2; k < ORDERS; k++) {
        start(order(k));
        run_beside(4, false, got);
        for (int i = 0; i < 4; i++) compare(&got[i], &want[i], "in another order");
        free_all(got, 4);
        finish("in another order");
    }
    free_all(want, 4);
}

/* Two cards of one kind share the lanes. */
Test(cuda_lanes, two_cards_change_no_bit)
{
    const struct fm_device_options both = {.lanes = 4, .select = "0,1"};
    struct outcome want[4], got[4];
    start(order(1));
    run_beside(4, false, want);
    for (int i = 1; i < ORDERS; i += 3) {
        struct fm_emulator_settings two = order(i);
        two.cards = 2;
        start(two);
        run_on(&both, 4, got);
        for (int run = 0; run < 4; run++) compare(&got[run], &want[run], "on two cards");
        free_all(got, 4);
        finish("two cards");
    }
    free_all(want, 4);
    struct ts_bench bench;
    struct fm_emulator_settings two = order(0);
    two.cards = 2;
    start(two);
    cr_assert(open_bench_on(&bench, &both), "%s", bench.error.text);
    struct fm_lane *lanes[4];
    for (int i = 0; i < 4; i++) lanes[i] = ts_bench_lane(&bench, 0, i, NULL);
    cr_assert(lanes[0]->card != lanes[1]->card && lanes[2]->card != lanes[3]->card);
    for (int i = 0; i < 4; i++) cuda->lane_close(lanes[i]);
    ts_bench_close(&bench);
    finish("two cards");
}

/* A card with a display measures its chunks and may cut them shorter. */
Test(cuda_lanes, a_watchdog_changes_no_bit)
{
    struct outcome want[2], got[2];
    for (int direct = 0; direct < 2; direct++) {
        struct fm_emulator_settings display = order(direct ? 3 : 4);
        display.card = "gtx970";
        display.no_graphs = direct != 0;
        start(display);
        run_beside(2, false, direct ? got : want);
        finish("watchdog");
    }
    for (int i = 0; i < 2; i++) compare(&got[i], &want[i], "under a watchdog");
    free_all(want, 2);
    free_all(got, 2);
}

/* ---- counters ---- */

Test(cuda_lanes, one_launch_for_many_steps_and_nothing_else)
{
    start(order(1));
    struct ts_bench bench;
    struct fm_emulator_counts before, after;
    struct fm_transfers first, second;
    struct fm_report report;
    cr_assert(open_bench(&bench, 1), "%s", bench.error.text);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    const struct fm_request evaluate = {.kind = FM_EVALUATE, .part = FM_PART_VAL};
    /* The first of each captures. */
    cr_assert(ts_bench_train(&bench, lane, 0, 160, &report));
    for (int i = 0; i < 2; i++) cr_assert(ts_bench_do(&bench, lane, &evaluate, &report));
    fm_emulator_count(&before);
    cuda->transfers(bench.device, &first);
    cr_assert(ts_bench_train(&bench, lane, 160, 10 * FM_CUDA_STEPS, &report));
    cr_assert_eq(report.steps, 10 * FM_CUDA_STEPS);
    fm_emulator_count(&after);
    cuda->transfers(bench.device, &second);
    cr_assert_eq(after.graph_launches - before.graph_launches, 10);
    cr_assert_eq(after.launches - before.launches, 2, "one kernel begins a request, one ends it");
    cr_assert_eq(after.captured, before.captured);
    cr_assert_eq(after.allocations, before.allocations);
    cr_assert_eq(after.synchronisations, before.synchronisations);
    cr_assert_eq(after.host_copies, before.host_copies);
    cr_assert_eq(after.to_device, before.to_device);
    cr_assert_eq(after.to_host, before.to_host);
    cr_assert(second.to_device - first.to_device < 4096 && second.to_device > first.to_device);
    cr_assert(ts_bench_do(&bench, lane, &evaluate, &report));
    fm_emulator_count(&before);
    cr_assert_eq(before.captured, after.captured);
    cr_assert_eq(before.allocations, after.allocations);
    cr_assert_eq(before.synchronisations, after.synchronisations);
    cr_assert_eq(before.to_device, after.to_device);
    cr_assert_eq(before.to_host, after.to_host);
    /* The next run in the same place replays the same graphs. */
    cuda->lane_close(lane);
    lane = ts_bench_lane(&bench, 1, 2, NULL);
    fm_emulator_count(&before);
    cr_assert(ts_bench_train(&bench, lane, 0, 4 * FM_CUDA_STEPS, &report));
    fm_emulator_count(&after);
    cr_assert_eq(after.captured, before.captured);
    cr_assert_eq(after.allocations, before.allocations);
    cr_assert_eq(after.graph_launches - before.graph_launches, 4);
    cuda->lane_close(lane);
    ts_bench_close(&bench);
    finish("counters");
}

/* What a driver charges for it does not depend on how many steps are asked for. */
Test(cuda_lanes, a_frozen_lane_is_not_fed)
{
    start(order(1));
    struct ts_bench bench;
    struct fm_report report;
    cr_assert(open_bench(&bench, 1), "%s", bench.error.text);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
    struct fm_request endless = {
        .kind = FM_TRAIN, .steps = INT64_C(1) << 40, .learning_rate = 1e36, .on_nan = FM_ON_NAN_STOP};
    cr_assert(ts_bench_do(&bench, lane, &endless, &report));
    cr_assert(report.frozen && report.bad_steps == 1 && report.steps < 100);
    cr_assert_eq(report.first_bad_step, report.steps - 1);
    cr_assert(ts_bench_do(&bench, lane, &endless, &report));
    cr_assert(report.frozen && report.steps == 0 && isnan(report.last_loss));
    cuda->lane_close(lane);
    ts_bench_close(&bench);
    finish("frozen");
}

/* ---- results larger than the pinned buffer ---- */

Test(cuda_lanes, large_results_come_back_in_pieces)
{
    enum { LARGE = 25000, K = 5 };
    static float large[LARGE], scores[2][LARGE * K];
    static uint32_t labels[LARGE];
    static int64_t confusion[2][K * K];
    for (uint32_t i = 0; i < LARGE; i++) {
        large[i] = ts_hashed(i, 3, 1, 0);
        labels[i] = i * 7 % K;
    }
    const struct ts_examples examples = {.n = LARGE,
                                         .rows = 1,
                                         .channels = 1,
                                         .x = large,
                                         .nclasses = K,
                                         .classes = labels,
                                         .width = 1,
                                         .train = 100};
    cr_assert(sizeof scores[0] - 500 * K > FM_CUDA_PINNED);
    for (int b = 0; b < 2; b++) {
        struct ts_bench bench;
        const struct fm_backend *const backends[2] = {cuda, &fm_backend_cpu};
        if (b == 0) start(order(2));
        cr_assert(ts_bench_open(&bench, &examples,
                                "model: [flatten, {dense: {units: 5, activation: softmax}}]\n"
                                "train: {loss: sparse_categorical_crossentropy, batch_size: 64}\n",
                                backends[b], 1),
                  "%s", bench.error.text);
        struct fm_lane *lane = ts_bench_lane(&bench, 0, 1, NULL);
        const struct fm_request evaluate = {.kind = FM_EVALUATE,
                                            .part = FM_PART_VAL,
                                            .returns = FM_RETURN_CONFUSION | FM_RETURN_SCORES,
                                            .confusion = confusion[b],
                                            .scores = scores[b]};
        const struct fm_request train = {
            .kind = FM_TRAIN, .tag = 7, .steps = 2, .learning_rate = 0.01, .on_nan = FM_ON_NAN_STOP};
        struct fm_report report;
        /* The training behind it must not wait for, or disturb, what is still being copied. */
        cr_assert_eq(backends[b]->submit(lane, &evaluate, &bench.error), 0);
        cr_assert_eq(backends[b]->submit(lane, &train, &bench.error), 0);
        for (int reports = 0; reports < 2;) {
            const int got = backends[b]->wait(bench.device, 1000, &report, &bench.error);
            cr_assert(got >= 0);
            if (got) cr_assert(report.status == 0 && report.tag == (reports++ ? 7u : 0u));
        }
        backends[b]->lane_close(lane);
        ts_bench_close(&bench);
        if (b == 0) finish("large results");
    }
    int64_t total = 0, moved = 0;
    for (int i = 0; i < (LARGE - 100) * K; i++)
        cr_assert_float_eq(scores[0][i], scores[1][i], 1e-5, "score %d: %g, %g", i, (double)scores[0][i],
                           (double)scores[1][i]);
    for (int i = 0; i < K * K; i++) {
        total += confusion[0][i];
        moved += llabs(confusion[0][i] - confusion[1][i]);
    }
    cr_assert_eq(total, LARGE - 100);
    cr_assert(moved < 10);
}

/* ---- mistakes, want of memory, failures ---- */

Test(cuda_lanes, mistakes_of_the_caller)
{
    start(order(0));
    struct ts_bench bench;
    struct fm_error err = {0};
    char why[300];
    cr_assert(open_bench(&bench, 1), "%s", bench.error.text);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 3, NULL), *none = NULL;
    const struct fm_request wrong[] = {
        {.kind = FM_TRAIN, .first_step = -1, .steps = 1},
        {.kind = FM_TRAIN, .first_step = INT64_MAX, .steps = 2},
        {.kind = FM_EVALUATE, .part = FM_PART_INNER},
        {.kind = FM_EVALUATE, .part = FM_PART_VAL, .returns = FM_RETURN_SCORES},
        {.kind = FM_EVALUATE, .part = FM_PART_VAL, .returns = FM_RETURN_CONFUSION},
        {.kind = FM_SNAPSHOT, .slot = FM_SLOTS},
        {.kind = FM_RESTORE, .slot = -1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        err = (struct fm_error){0};
        cr_assert_eq(cuda->submit(lane, &wrong[i], &err), FM_EINTERNAL, "request %zu", i);
        cr_assert(*err.text);
    }
    struct fm_lane_options options = lane->options;
    options.fold = 2;
    cr_assert_eq(cuda->lane_open(bench.device, &options, &none, &err), FM_EINTERNAL);
    options.fold = 0;
    options.dataset = 5;
    cr_assert_eq(cuda->lane_open(bench.device, &options, &none, &err), FM_EINTERNAL);
    cuda->lane_close(lane);
    cr_assert(cuda->supports(bench.device, bench.program, 64, why, sizeof why), "%s", why);
    cr_assert(!cuda->supports(bench.device, bench.program, 0, why, sizeof why));
    cr_assert(!cuda->supports(bench.device, bench.program, INT64_C(1) << 50, why, sizeof why));
    cr_assert_eq(cuda->cost(bench.device, bench.program, INT64_C(1) << 50), INT64_MAX);
    ts_bench_close(&bench);
    finish("mistakes");
}

Test(cuda_lanes, memory_is_refused_with_numbers)
{
    struct fm_emulator_settings small = order(0);
    small.memory = 4 << 20;
    start(small);
    struct ts_bench bench;
    struct fm_lane *lanes[4096];
    int count = 0;
    cr_assert(open_bench(&bench, 1), "%s", bench.error.text);
    while (count < 4096 && (lanes[count] = ts_bench_lane(&bench, 0, count, NULL))) count++;
    cr_assert(count > 0 && count < 4096);
    cr_assert_eq(bench.error.code, FM_ENOMEM);
    cr_assert(strstr(bench.error.text, "kB") || strstr(bench.error.text, "MB"), "%s", bench.error.text);
    /* One goes, another one fits. */
    cuda->lane_close(lanes[count / 2]);
    fm_error_clear(&bench.error);
    lanes[count / 2] = ts_bench_lane(&bench, 0, 5, NULL);
    cr_assert_not_null(lanes[count / 2], "%s", bench.error.text);
    struct fm_report report;
    cr_assert(ts_bench_train(&bench, lanes[count / 2], 0, 20, &report));
    for (int i = 0; i < count; i++) cuda->lane_close(lanes[i]);
    ts_bench_close(&bench);
    finish("memory");
}

/* A small training from open to close; 0 or the first code, with its text in err. */
static int small_run(struct fm_error *err)
{
    struct ts_bench bench;
    struct fm_report report;
    static float scores[N * 3];
    int64_t confusion[9];
    int status = 0;
    if (!open_bench(&bench, 1)) status = bench.error.code;
    struct fm_lane *lane = status ? NULL : ts_bench_lane(&bench, 0, 1, NULL);
    if (!status && !lane) status = bench.error.code;
    const struct fm_request requests[] = {
        {.kind = FM_TRAIN, .steps = 5, .learning_rate = 0.01, .on_nan = FM_ON_NAN_STOP},
        {.kind = FM_SNAPSHOT, .slot = FM_SLOT_BEST},
        {.kind = FM_EVALUATE,
         .part = FM_PART_VAL,
         .returns = FM_RETURN_CONFUSION | FM_RETURN_SCORES,
         .scores = scores,
         .confusion = confusion},
        {.kind = FM_RESTORE, .slot = FM_SLOT_BEST}};
    for (size_t r = 0; !status && r < sizeof requests / sizeof *requests; r++) {
        int got = 0;
        status = cuda->submit(lane, &requests[r], &bench.error);
        while (!status && !got) {
            got = cuda->wait(bench.device, 100, &report, &bench.error);
            if (got < 0) status = got;
        }
        if (!status && report.status) {
            status = report.status;
            bench.error = report.error;
        }
    }
    unsigned char *blob = status ? NULL : malloc((size_t)cuda->state_size(lane));
    if (!status) status = cuda->state_read(lane, blob, &bench.error);
    if (!status) status = cuda->state_write(lane, blob, &bench.error);
    free(blob);
    cuda->lane_close(lane);
    *err = bench.error;
    ts_bench_close(&bench);
    return status;
}

/* Each call fails once, or from then on: a clean error or a clean run, everything given back. */
static void fail_calls(const char *card, int with, bool sticky, int64_t first, int64_t step)
{
    struct fm_emulator_settings settings = order(0);
    struct fm_emulator_counts counts;
    struct fm_error err;
    settings.card = card;
    start(settings);
    cr_assert_eq(small_run(&err), 0, "%s", err.text);
    fm_emulator_count(&counts);
    const int64_t calls = counts.calls;
    int failed = 0;
    cr_assert(calls > 50);
    for (int64_t n = first; n <= calls; n += step) {
        settings = order((int)(n % 4));
        settings.card = card;
        settings.fail_call = n;
        settings.fail_sticky = sticky;
        settings.fail_status = with;
        start(settings);
        const int status = small_run(&err);
        cr_assert(status == 0 || status == FM_ENOMEM || status == FM_EDEVICE, "call %d: %d, %s", (int)n,
                  status, err.text);
        cr_assert(status == 0 || *err.text, "call %d", (int)n);
        failed += status != 0;
        fm_emulator_count(&counts);
        cr_assert_eq(counts.faults, 0, "call %d: %s", (int)n, fm_emulator_fault());
        cr_expect_eq(counts.calls_after_loss, 0, "call %d: %d calls after the loss", (int)n,
                     (int)counts.calls_after_loss);
        /* After a sticky error no call is made, so nothing can be given back: the process is to end. */
        if (!sticky && !strstr(err.text, "a new process"))
            cr_assert_eq(counts.live, 0, "call %d: %d left (%s)", (int)n, (int)counts.live, err.text);
    }
    cr_assert(failed > 10, "%d", failed);
}

Test(cuda_lanes, every_call_fails_once)
{
    fail_calls(NULL, 0, false, 1, 1);
}

/* A launch that fails for want of memory fails the lane, not the device. */
Test(cuda_lanes, every_other_call_wants_memory)
{
    fail_calls(NULL, 2, false, 1, 2);
}

Test(cuda_lanes, every_call_is_the_last)
{
    fail_calls(NULL, 700, true, 1, 1);
}

/* There are events around chunks. */
Test(cuda_lanes, calls_fail_where_a_display_is)
{
    fail_calls("gtx970", 0, false, 1, 1);
    fail_calls("gtx970", 700, true, 3, 3);
}

Test(cuda_lanes, every_allocation_of_host_memory_fails)
{
    start(order(1));
    ts_check_allocations(cuda);
    finish("allocations");
}
