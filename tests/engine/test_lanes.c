/* Life of lanes: the same bits whatever runs beside them and however requests were cut; snapshots and states;
 * cancel, frozen lanes, closing while something is pending; mistakes of the caller; every allocation failed
 * in turn. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/cpu/cpu.h"
#include "engine/reference/reference.h"
#include "engine/backend_checks.h"
#include "support/allocation.h"
#include "support/bench.h"
#include "support/random_net.h"
#include "support/tolerance.h"

#define N        37
#define ROWS     11
#define CHANNELS 2

static float x[N * ROWS * CHANNELS];
static uint32_t classes[N];

static const char network[] = "model:\n"
                              "  - conv1d: {filters: 5, kernel_size: 3, padding: same, activation: swish}\n"
                              "  - batch_normalization\n"
                              "  - dropout: {rate: 0.2}\n"
                              "  - max_pooling1d: {pool_size: 2}\n"
                              "  - flatten\n"
                              "  - dense: {units: 3, activation: softmax}\n"
                              "train:\n"
                              "  loss: sparse_categorical_crossentropy\n"
                              "  optimizer: {adam: {learning_rate: 0.01}}\n"
                              "  batch_size: 4\n"
                              "  epochs: 1\n";

static void open_bench(struct ts_bench *bench, const struct fm_backend *backend, int64_t lanes)
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
                                         .train = 30};
    cr_assert(ts_bench_open(bench, &examples, network, backend, lanes), "%s", bench->error.text);
}

static struct fm_request train_request(int64_t first, int64_t steps, uint64_t tag)
{
    return (struct fm_request){
        .kind = FM_TRAIN, .tag = tag, .first_step = first, .steps = steps, .learning_rate = 0.01};
}

/* The state after `steps` steps in requests of `cut` steps, alone on its device. free() it. */
static unsigned char *state_after(const struct fm_backend *backend, int64_t fold, int64_t seed, int64_t steps,
                                  int64_t cut, double *loss_sum, size_t *size)
{
    struct ts_bench bench;
    open_bench(&bench, backend, 1);
    struct fm_lane *lane = ts_bench_lane(&bench, fold, seed, NULL);
    cr_assert_not_null(lane);
    *loss_sum = 0;
    for (int64_t first = 0; first < steps; first += cut) {
        struct fm_request request = train_request(first, first + cut < steps ? cut : steps - first, 0);
        struct fm_report report;
        request.loss_sum = *loss_sum;
        cr_assert(ts_bench_do(&bench, lane, &request, &report) && report.status == 0);
        cr_assert_eq(report.steps, request.steps);
        *loss_sum = report.loss_sum;
    }
    *size = (size_t)backend->state_size(lane);
    unsigned char *blob = malloc(*size);
    cr_assert(blob && backend->state_read(lane, blob, &bench.error) == 0);
    backend->lane_close(lane);
    ts_bench_close(&bench);
    return blob;
}

void ts_check_cuts(const struct fm_backend *backend)
{
    size_t size, again;
    double whole, cut;
    unsigned char *expected = state_after(backend, 0, 3, 20, 20, &whole, &size);
    for (int64_t steps = 1; steps <= 9; steps += 4) {
        unsigned char *got = state_after(backend, 0, 3, 20, steps, &cut, &again);
        cr_assert_eq(size, again);
        cr_assert(memcmp(expected, got, size) == 0, "requests of %d steps give other bits", (int)steps);
        cr_assert(memcmp(&whole, &cut, sizeof whole) == 0, "%.17g, then %.17g", whole, cut);
        free(got);
    }
    free(expected);
}

Test(engine_lanes, steps_one_by_one_give_the_same_bits)
{
    ts_check_cuts(&fm_backend_reference);
    ts_check_cuts(&fm_backend_reference64);
    ts_check_cuts(&fm_backend_cpu);
}

/* Six steps at once, and one by one with evaluations and snapshots between them, over random networks. */
void ts_check_between(const struct fm_backend *backend, int nets)
{
    int ran = 0;
    for (uint64_t seed = 300; ran < nets; seed++) {
        struct ts_random_net net;
        struct ts_bench bench;
        cr_assert(ts_random_net_init(&net, seed, TS_NET_KINKS));
        if (ts_bench_open(&bench, &net.examples, net.yaml.data, backend, 1)) {
            struct fm_lane *lane[2];
            unsigned char *blob[2];
            for (int i = 0; i < 2; i++) {
                const struct fm_request evaluate = {.kind = FM_EVALUATE, .part = FM_PART_VAL};
                const struct fm_request keep = {.kind = FM_SNAPSHOT, .slot = FM_SLOT_CLEAN};
                struct fm_report report;
                lane[i] = ts_bench_lane(&bench, 0, (int64_t)seed, net.weighted ? net.class_weights : NULL);
                cr_assert_not_null(lane[i]);
                for (int64_t s = 0; s < 6; s += i ? 1 : 6) {
                    cr_assert(ts_bench_train(&bench, lane[i], s, i ? 1 : 6, &report));
                    cr_assert(ts_bench_do(&bench, lane[i], &evaluate, &report) && report.status == 0);
                    cr_assert(ts_bench_do(&bench, lane[i], &keep, &report) && report.status == 0);
                }
                blob[i] = malloc((size_t)bench.backend->state_size(lane[i]));
                cr_assert(bench.backend->state_read(lane[i], blob[i], &bench.error) == 0);
            }
            cr_assert(memcmp(blob[0], blob[1], (size_t)bench.backend->state_size(lane[0])) == 0, "%s",
                      net.yaml.data);
            for (int i = 0; i < 2; i++) {
                bench.backend->lane_close(lane[i]);
                free(blob[i]);
            }
            ran++;
        }
        ts_bench_close(&bench);
        ts_random_net_fini(&net);
    }
}

/* Three runs side by side, in requests of different sizes, on one, two and three lanes. */
static void check_beside(const struct fm_backend *backend, int64_t lanes, unsigned char *const expected[3],
                         size_t size)
{
    const int64_t cuts[3] = {1, 7, 20};
    struct ts_bench bench;
    open_bench(&bench, backend, lanes);
    struct fm_lane *lane[3];
    int pending = 0;
    for (int i = 0; i < 3; i++) {
        lane[i] = ts_bench_lane(&bench, i % 2, i, NULL);
        cr_assert_not_null(lane[i]);
    }
    for (int64_t first = 0; first < 20; first++)
        for (int i = 0; i < 3; i++) {
            if (first % cuts[i]) continue;
            const struct fm_request request = train_request(
                first, first + cuts[i] < 20 ? cuts[i] : 20 - first, (uint64_t)(i * 100 + first));
            cr_assert(bench.backend->submit(lane[i], &request, &bench.error) == 0);
            pending++;
        }
    int64_t last[3] = {-1, -1, -1};
    while (pending > 0) {
        struct fm_report report;
        if (bench.backend->wait(bench.device, 1000, &report, &bench.error) == 0) continue;
        const int64_t i = (int64_t)report.tag / 100, first = (int64_t)report.tag % 100;
        cr_assert_eq(report.lane, lane[i]);
        cr_assert(report.status == 0 && first > last[i], "lane %d: step %d after %d", (int)i, (int)first,
                  (int)last[i]);
        last[i] = first;
        pending--;
    }
    unsigned char *blob = malloc(size);
    for (int i = 0; i < 3; i++) {
        cr_assert(bench.backend->state_read(lane[i], blob, &bench.error) == 0);
        cr_assert(memcmp(blob, expected[i], size) == 0, "run %d beside others on %d lanes gives other bits",
                  i, (int)lanes);
        bench.backend->lane_close(lane[i]);
    }
    free(blob);
    ts_bench_close(&bench);
}

void ts_check_all_beside(const struct fm_backend *backend, int rounds)
{
    unsigned char *expected[3];
    size_t size = 0;
    double loss;
    for (int i = 0; i < 3; i++) expected[i] = state_after(backend, i % 2, i, 20, 20, &loss, &size);
    cr_assert(memcmp(expected[0], expected[1], size) != 0, "other folds and seeds must give other weights");
    for (int64_t lanes = 1; lanes <= 3; lanes++)
        for (int round = 0; round < rounds; round++) check_beside(backend, lanes, expected, size);
    for (int i = 0; i < 3; i++) free(expected[i]);
}

/* Goes on from a blob, on a fresh lane of another device, with the same bits. */
void ts_check_resume(const struct fm_backend *backend)
{
    size_t size;
    double loss;
    unsigned char *expected = state_after(backend, 1, 9, 20, 20, &loss, &size);
    unsigned char *half = state_after(backend, 1, 9, 11, 11, &loss, &size), *got = malloc(size);
    struct ts_bench bench;
    open_bench(&bench, backend, 2);
    struct fm_lane *lane = ts_bench_lane(&bench, 1, 9, NULL);
    cr_assert(backend->state_write(lane, half, &bench.error) == 0);
    const struct fm_request rest = train_request(11, 9, 0);
    struct fm_report report;
    cr_assert(ts_bench_do(&bench, lane, &rest, &report));
    cr_assert(backend->state_read(lane, got, &bench.error) == 0);
    cr_assert(memcmp(got, expected, size) == 0);
    backend->lane_close(lane);
    ts_bench_close(&bench);
    free(expected);
    free(half);
    free(got);
}

Test(engine_lanes, a_state_goes_on_elsewhere)
{
    ts_check_resume(&fm_backend_reference);
    ts_check_resume(&fm_backend_reference64);
    ts_check_resume(&fm_backend_cpu);
}

/* The portable parameters begin a blob; writing only them starts the optimizer afresh. */
void ts_check_portable(const struct fm_backend *backend)
{
    size_t size;
    double loss;
    struct ts_bench bench;
    open_bench(&bench, backend, 1);
    unsigned char *trained = state_after(backend, 0, 3, 20, 20, &loss, &size);
    const size_t count = (size_t)bench.program->float_count;
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 3, NULL), *other = ts_bench_lane(&bench, 0, 4, NULL);
    float *first = malloc(count * sizeof *first), *p = malloc(count * sizeof *p);
    cr_assert(ts_bench_parameters(&bench, lane, first));
    unsigned char *fresh = malloc(size), *got = malloc(size);
    cr_assert(bench.backend->state_read(lane, fresh, &bench.error) == 0);
    cr_assert(bench.backend->state_write(other, trained, &bench.error) == 0);
    cr_assert(bench.backend->parameters_write(other, first, &bench.error) == 0);
    cr_assert(ts_bench_parameters(&bench, other, p));
    cr_assert(memcmp(first, p, count * sizeof *p) == 0);
    cr_assert(bench.backend->state_read(other, got, &bench.error) == 0);
    cr_assert(memcmp(fresh, got, size) == 0, "slots, iterations and losses must be those of a new lane");
    bench.backend->lane_close(lane);
    bench.backend->lane_close(other);
    ts_bench_close(&bench);
    free(trained);
    free(first);
    free(p);
    free(fresh);
    free(got);
}

void ts_check_snapshots(const struct fm_backend *backend)
{
    struct ts_bench bench;
    open_bench(&bench, backend, 1);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 3, NULL), *second = ts_bench_lane(&bench, 1, 5, NULL);
    const size_t size = (size_t)backend->state_size(lane);
    unsigned char *at_five = malloc(size), *got = malloc(size);
    struct fm_report report;
    const struct fm_request restore_empty = {.kind = FM_RESTORE, .slot = FM_SLOT_PREVIOUS};
    cr_assert(ts_bench_do(&bench, lane, &restore_empty, &report));
    cr_assert_eq(report.status, FM_EINTERNAL);
    cr_assert(backend->snapshot_read(lane, FM_SLOT_BEST, got, &bench.error) == FM_EINTERNAL);

    const struct fm_request five = train_request(0, 5, 0), more = train_request(5, 5, 0);
    const struct fm_request keep = {.kind = FM_SNAPSHOT, .slot = FM_SLOT_BEST};
    const struct fm_request restore = {.kind = FM_RESTORE, .slot = FM_SLOT_BEST};
    cr_assert(ts_bench_do(&bench, lane, &five, &report) && ts_bench_do(&bench, lane, &keep, &report));
    cr_assert(backend->state_read(lane, at_five, &bench.error) == 0);
    cr_assert(ts_bench_do(&bench, lane, &more, &report));
    cr_assert(backend->state_read(lane, got, &bench.error) == 0 && memcmp(got, at_five, size) != 0);
    cr_assert(ts_bench_do(&bench, lane, &restore, &report) && report.status == 0);
    cr_assert(backend->state_read(lane, got, &bench.error) == 0 && memcmp(got, at_five, size) == 0);

    /* A snapshot travels as a blob without touching the state of either lane. */
    memset(got, 0, size);
    cr_assert(backend->snapshot_read(lane, FM_SLOT_BEST, got, &bench.error) == 0);
    cr_assert(memcmp(got, at_five, size) == 0);
    cr_assert(backend->snapshot_write(second, FM_SLOT_CLEAN, got, &bench.error) == 0);
    cr_assert(backend->state_read(second, got, &bench.error) == 0 && memcmp(got, at_five, size) != 0);
    const struct fm_request clean = {.kind = FM_RESTORE, .slot = FM_SLOT_CLEAN};
    cr_assert(ts_bench_do(&bench, second, &clean, &report) && report.status == 0);
    cr_assert(backend->state_read(second, got, &bench.error) == 0 && memcmp(got, at_five, size) == 0);
    backend->lane_close(lane);
    backend->lane_close(second);
    ts_bench_close(&bench);
    free(at_five);
    free(got);
}

/* Cancelling ends the running request at a step and answers the queued ones; later requests run again. */
void ts_check_cancel(const struct fm_backend *backend)
{
    struct ts_bench bench;
    open_bench(&bench, backend, 1);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 3, NULL);
    const struct fm_request endless = train_request(0, INT64_C(1) << 40, 1), queued = train_request(0, 3, 2);
    const struct fm_request keep = {.kind = FM_SNAPSHOT, .tag = 3, .slot = FM_SLOT_BEST};
    cr_assert(bench.backend->submit(lane, &endless, &bench.error) == 0);
    cr_assert(bench.backend->submit(lane, &queued, &bench.error) == 0);
    cr_assert(bench.backend->submit(lane, &keep, &bench.error) == 0);
    struct fm_report report;
    cr_assert_eq(bench.backend->wait(bench.device, 30, &report, &bench.error), 0);
    char blob[1];
    cr_assert_eq(bench.backend->state_read(lane, blob, &bench.error), FM_EINTERNAL,
                 "its requests are pending");
    bench.backend->cancel(lane);
    for (uint64_t tag = 1; tag <= 3; tag++) {
        cr_assert_eq(bench.backend->wait(bench.device, 10000, &report, &bench.error), 1);
        cr_assert(report.tag == tag && report.cancelled && !report.frozen && report.status == 0);
        cr_assert(tag == 1 ? report.steps > 0 : report.steps == 0);
    }
    cr_assert(ts_bench_do(&bench, lane, &queued, &report));
    cr_assert(!report.cancelled && report.steps == 3);
    bench.backend->lane_close(lane);
    ts_bench_close(&bench);
}

void ts_check_closing(const struct fm_backend *backend)
{
    struct ts_bench bench;
    open_bench(&bench, backend, 2);
    struct fm_lane *lane[3];
    for (int i = 0; i < 3; i++) lane[i] = ts_bench_lane(&bench, 0, i, NULL);
    const struct fm_request endless = train_request(0, INT64_C(1) << 40, 1), shortly = train_request(0, 1, 7);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++) cr_assert(bench.backend->submit(lane[i], &endless, &bench.error) == 0);
    bench.backend->lane_close(lane[0]);
    cr_assert(bench.backend->submit(lane[2], &shortly, &bench.error) == 0);
    bench.backend->lane_close(lane[1]);
    struct fm_report report;
    cr_assert_eq(bench.backend->wait(bench.device, 10000, &report, &bench.error), 1);
    cr_assert(report.tag == 7 && report.lane == lane[2], "reports of closed lanes never come");
    cr_assert_eq(bench.backend->wait(bench.device, 10, &report, &bench.error), 0);
    bench.backend->lane_close(lane[2]);
    ts_bench_close(&bench);
}

static void check_order(const struct fm_backend *backend)
{
    /* Without shuffle step s takes examples s*4 .. in set order; with it every pass sees each example once.
     */
    struct ts_bench bench;
    open_bench(&bench, backend, 1);
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        bench.config.shuffle = shuffled;
        struct fm_lane *lane = ts_bench_lane(&bench, 0, 3, NULL);
        int64_t orders[2][30];
        for (int pass = 0; pass < 2; pass++)
            for (int64_t s = 0; s < 8; s++) {
                struct fm_report report;
                cr_assert(ts_bench_train(&bench, lane, pass * 8 + s, 1, &report));
                cr_assert_eq(report.examples, s < 7 ? 4 : 2);
                memcpy(&orders[pass][s * 4], lane->example, (size_t)report.examples * sizeof(int64_t));
            }
        bool same = true;
        for (int pass = 0; pass < 2; pass++) {
            bool seen[30] = {false}, sorted = true;
            for (int i = 0; i < 30; i++) {
                cr_assert(!seen[orders[pass][i]]);
                seen[orders[pass][i]] = true;
                sorted = sorted && orders[pass][i] == i;
                same = same && orders[0][i] == orders[1][i];
            }
            cr_assert_neq(sorted, shuffled);
        }
        cr_assert_neq(same, shuffled, "each pass has an order of its own");
        bench.backend->lane_close(lane);
    }
    ts_bench_close(&bench);
}

static void check_mistakes(const struct fm_backend *backend)
{
    struct ts_bench bench;
    open_bench(&bench, backend, 1);
    const struct fm_backend *b = bench.backend;
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 3, NULL);
    struct fm_error err = {0};
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
        cr_assert_eq(b->submit(lane, &wrong[i], &err), FM_EINTERNAL, "request %zu", i);
        cr_assert(*err.text);
    }
    struct fm_lane_options options = lane->options;
    struct fm_lane *none = NULL;
    options.fold = 2;
    cr_assert_eq(b->lane_open(bench.device, &options, &none, &err), FM_EINTERNAL);
    options.fold = 0;
    options.dataset = 5;
    cr_assert_eq(b->lane_open(bench.device, &options, &none, &err), FM_EINTERNAL);
    b->lane_close(lane);

    char why[200];
    cr_assert(b->supports(bench.device, bench.program, 64, why, sizeof why));
    cr_assert(!b->supports(bench.device, bench.program, 0, why, sizeof why));
    cr_assert(!b->supports(bench.device, bench.program, INT64_C(1) << 50, why, sizeof why));
    cr_assert_eq(b->cost(bench.device, bench.program, INT64_C(1) << 50), INT64_MAX);
    cr_assert_neq(b->plan_hash(bench.device, bench.program, 8), b->plan_hash(bench.device, bench.program, 9));

    struct fm_device *device = NULL;
    const struct fm_device_options many = {.lanes = 1000000}, part = {.select = "1"};
    cr_assert_eq(b->open(&device, &many, &err), FM_EUSAGE);
    cr_assert_eq(b->open(&device, &part, &err), FM_EUSAGE);
    const struct fm_backend *found;
    fm_error_clear(&err);
    cr_assert_eq(fm_backend_find(&found, "cuda", &err), FM_EUSAGE);
    cr_assert(strstr(err.text, "plug-in") && !found);
    cr_assert_eq(fm_backend_find(&found, "gpu", NULL), FM_EUSAGE);
    cr_assert_eq(fm_backend_find(&found, "cpu", NULL), 0);
    cr_assert_not_null(found);
    ts_bench_close(&bench);
}

/* What is transferred after load is bounded by requests and reports, never by the data. */
static void check_transfers(const struct fm_backend *backend)
{
    struct ts_bench bench;
    open_bench(&bench, backend, 1);
    struct fm_lane *lane = ts_bench_lane(&bench, 0, 3, NULL);
    struct fm_transfers before, after;
    struct fm_report report;
    bench.backend->transfers(bench.device, &before);
    cr_assert(before.to_device >= (int64_t)sizeof x);
    cr_assert(ts_bench_train(&bench, lane, 0, 8, &report));
    bench.backend->transfers(bench.device, &after);
    cr_assert_eq(after.to_device - before.to_device, sizeof(struct fm_request));
    cr_assert_eq(after.to_host - before.to_host, sizeof(struct fm_report));
    bench.backend->lane_close(lane);
    ts_bench_close(&bench);
}

/* Whichever allocation fails, it is FM_ENOMEM, nothing leaks and the device goes on. */
void ts_check_allocations(const struct fm_backend *backend)
{
    struct ts_bench bench;
    open_bench(&bench, backend, 1);
    long n = 1, asked;
    bool opened = false;
    do {
        ts_fail_allocation(n, false);
        struct fm_error err = {0};
        struct fm_lane *lane = NULL;
        const struct fm_device_options options = {.lanes = 1};
        struct fm_device *device = NULL;
        int status = bench.backend->open(&device, &options, &err);
        int dataset = -1;
        if (!status) status = bench.backend->load(device, &bench.resident, &dataset, &err);
        struct fm_lane_options o = {.dataset = dataset, .program = bench.program, .batch = 4};
        o.hyper.rates = bench.program->rates;
        if (!status) status = bench.backend->lane_open(device, &o, &lane, &err);
        const struct fm_request request = train_request(0, 1, 0);
        if (!status) status = bench.backend->submit(lane, &request, &err);
        asked = ts_allocations();
        ts_fail_allocation(0, false);
        cr_assert(status == 0 || status == FM_ENOMEM, "allocation %ld: %s", n, err.text);
        opened = status == 0;
        struct fm_report report;
        while (opened && bench.backend->wait(device, 1000, &report, &err) == 0) continue;
        bench.backend->lane_close(lane);
        bench.backend->close(device);
        n++;
    } while (asked >= n - 1 && n < 1000);
    cr_assert(opened && n > 20 && n < 1000, "%ld allocations", n);
    ts_bench_close(&bench);
}

static void on_both(void (*check)(const struct fm_backend *backend))
{
    check(&fm_backend_reference);
    check(&fm_backend_cpu);
}

Test(engine_lanes, evaluations_between_steps_change_no_bit)
{
    ts_check_between(&fm_backend_reference, 60);
    ts_check_between(&fm_backend_cpu, 60);
}
Test(engine_lanes, what_runs_beside_changes_no_bit)
{
    ts_check_all_beside(&fm_backend_reference, 3);
    ts_check_all_beside(&fm_backend_cpu, 3);
}
Test(engine_lanes, portable_parameters)
{
    on_both(ts_check_portable);
}
Test(engine_lanes, snapshots)
{
    on_both(ts_check_snapshots);
}
Test(engine_lanes, cancel)
{
    on_both(ts_check_cancel);
}
Test(engine_lanes, closing_drops_what_is_pending)
{
    on_both(ts_check_closing);
}
Test(engine_lanes, order_of_the_pass)
{
    on_both(check_order);
}
Test(engine_lanes, mistakes_of_the_caller)
{
    on_both(check_mistakes);
}
Test(engine_lanes, transfers)
{
    on_both(check_transfers);
}
Test(engine_lanes, allocations_fail_in_turn)
{
    on_both(ts_check_allocations);
}
