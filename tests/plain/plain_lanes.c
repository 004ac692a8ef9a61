/* Several lanes on several threads, for the thread sanitizer: training, evaluation, snapshots, cancel,
 * restore, states and closing while requests are pending; at the end the untouched runs have the bits of a
 * run alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "engine/reference/reference.h"
#include "support/bench.h"

#define N     40
#define ROWS  9
#define LANES 6

static const char network[] = "model: [{conv1d: {filters: 4, kernel_size: 3, activation: swish}}, "
                              "batch_normalization, {dropout: {rate: 0.3}}, "
                              "flatten, {dense: {units: 2, activation: softmax}}]\n"
                              "train: {loss: sparse_categorical_crossentropy, optimizer: {adam: "
                              "{learning_rate: 0.01}}, batch_size: 4, epochs: "
                              "1}\n";

static int fail(const char *what)
{
    fprintf(stderr, "plain_lanes: %s\n", what);
    return 1;
}

static struct fm_request train(int64_t first, int64_t steps, uint64_t tag)
{
    return (struct fm_request){
        .kind = FM_TRAIN, .tag = tag, .first_step = first, .steps = steps, .learning_rate = 0.01};
}

static bool submit(struct ts_bench *b, struct fm_lane *lane, struct fm_request request)
{
    return b->backend->submit(lane, &request, &b->error) == 0;
}

/* Takes reports until `count` came. */
static bool take(struct ts_bench *b, int count, struct fm_report *last)
{
    while (count > 0) {
        const int got = b->backend->wait(b->device, 200, last, &b->error);
        if (got < 0 || (got == 1 && last->status)) return false;
        count -= got;
    }
    return true;
}

/* The lane's 12 steps, its snapshot after 8 of them restored, 4 steps again. */
static bool queue_run(struct ts_bench *b, struct fm_lane *lane, int64_t *confusion)
{
    return submit(b, lane, train(0, 3, 0)) && submit(b, lane, train(3, 5, 0)) &&
           submit(b, lane, (struct fm_request){.kind = FM_SNAPSHOT, .slot = FM_SLOT_BEST}) &&
           submit(b, lane, train(8, 4, 0)) &&
           submit(b, lane,
                  (struct fm_request){.kind = FM_EVALUATE,
                                      .part = FM_PART_VAL,
                                      .returns = FM_RETURN_CONFUSION,
                                      .confusion = confusion}) &&
           submit(b, lane, (struct fm_request){.kind = FM_RESTORE, .slot = FM_SLOT_BEST}) &&
           submit(b, lane, train(8, 4, 0));
}
enum { RUN_REQUESTS = 7 };

static bool alone(struct ts_bench *b, float *parameters)
{
    int64_t confusion[4];
    struct fm_report report;
    struct fm_lane *lane = ts_bench_lane(b, 0, 1, NULL);
    const bool ok = lane && queue_run(b, lane, confusion) && take(b, RUN_REQUESTS, &report) &&
                    ts_bench_parameters(b, lane, parameters);
    b->backend->lane_close(lane);
    return ok;
}

/* Lanes 0..2 run, 3 is cancelled, 4 is closed while pending, 5 is closed at once. */
static bool side_by_side(struct ts_bench *b, const float *expected, float *got)
{
    struct fm_lane *lane[LANES];
    int64_t confusion[LANES][4];
    struct fm_report report;
    bool ok = true;
    for (int i = 0; i < LANES; i++) ok = ok && (lane[i] = ts_bench_lane(b, 0, i < 3 ? 1 : i, NULL)) != NULL;
    if (!ok) return false;
    for (int i = 3; i < LANES; i++)
        ok = ok && submit(b, lane[i], train(0, INT64_C(1) << 40, 9)) && submit(b, lane[i], train(0, 2, 9));
    for (int i = 0; i < 3; i++) ok = ok && queue_run(b, lane[i], confusion[i]);
    b->backend->lane_close(lane[5]);
    b->backend->cancel(lane[3]);
    ok = ok && take(b, 1, &report);
    b->backend->lane_close(lane[4]);
    ok = ok && take(b, 3 * RUN_REQUESTS + 2 - 1, &report);
    ok = ok && submit(b, lane[3], train(0, 2, 3)) && take(b, 1, &report) && !report.cancelled &&
         report.steps == 2;
    for (int i = 0; i < 3; i++)
        ok = ok && ts_bench_parameters(b, lane[i], got) &&
             memcmp(got, expected, (size_t)b->program->float_count * sizeof *got) == 0;
    for (int i = 0; i < 4; i++) b->backend->lane_close(lane[i]);
    return ok;
}

static int run(const struct fm_backend *backend, int rounds)
{
    static float x[N * ROWS];
    static uint32_t classes[N];
    const struct ts_examples examples = ts_examples_in_turn(x, classes, N, ROWS, 30, 3);
    struct ts_bench bench;
    if (!ts_bench_open(&bench, &examples, network, backend, LANES)) return fail(bench.error.text);
    float *expected = calloc((size_t)bench.program->float_count, sizeof *expected);
    float *got = calloc((size_t)bench.program->float_count, sizeof *got);
    int status = expected && got && alone(&bench, expected) ? 0 : fail("a run alone failed");
    for (int round = 0; round < rounds && status == 0; round++)
        if (!side_by_side(&bench, expected, got)) status = fail("lanes side by side differ from one alone");
    ts_bench_close(&bench);
    free(expected);
    free(got);
    return status;
}

int main(void)
{
    const int status = run(&fm_backend_cpu, 20);
    return status ? status : run(&fm_backend_reference, 5);
}
