/* The dropout mask: its shares, its independence of places and steps, and that a lane uses just this mask. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "engine/dropout.h"
#include "support/inside.h"
#include "support/tolerance.h"

Test(engine_dropout, by_its_definition)
{
    unsigned char keep[11];
    const uint64_t key = fm_key(3, FM_PURPOSE_DROPOUT, 1, 2);
    const int64_t step = (INT64_C(5) << 32) + 7;
    const uint32_t counter[4] = {7, 5, 9, 13};
    uint32_t out[4];
    fm_philox(counter, key, out);
    const uint64_t chained = (uint64_t)out[1] << 32 | out[0];
    cr_assert_eq(fm_dropout_key(key, step, 9, 13), chained);
    fm_dropout_keep(chained, 0.4, 11, keep);
    for (uint32_t e = 0; e < 11; e++) {
        const uint32_t block[4] = {e / 4, 0, 0, 0};
        fm_philox(block, chained, out);
        cr_assert_eq(keep[e], (double)fm_uniform_float(out[e % 4]) >= 0.4);
    }
}

Test(engine_dropout, rates_zero_and_one)
{
    unsigned char keep[1000];
    fm_dropout_keep(1, 0, 1000, keep);
    for (int i = 0; i < 1000; i++) cr_assert_eq(keep[i], 1);
    fm_dropout_keep(1, 1, 1000, keep);
    for (int i = 0; i < 1000; i++) cr_assert_eq(keep[i], 0);
}

/* Shares of kept elements, and of equal neighbours over elements, places, operations and steps: four
 * deviations. */
Test(engine_dropout, statistics)
{
    enum { COUNT = 40000 };
    static unsigned char keep[5][COUNT];
    for (double rate = 0.1; rate < 0.95; rate += 0.2) {
        const uint64_t key = fm_key(1, FM_PURPOSE_DROPOUT, 0, 0);
        fm_dropout_keep(fm_dropout_key(key, 0, 0, 0), rate, COUNT, keep[0]);
        fm_dropout_keep(fm_dropout_key(key, 1, 0, 0), rate, COUNT, keep[1]);
        fm_dropout_keep(fm_dropout_key(key, 0, 1, 0), rate, COUNT, keep[2]);
        fm_dropout_keep(fm_dropout_key(key, 0, 0, 1), rate, COUNT, keep[3]);
        fm_dropout_keep(fm_dropout_key(fm_key(1, FM_PURPOSE_DROPOUT, 0, 1), 0, 0, 0), rate, COUNT, keep[4]);
        const double equal = rate * rate + (1 - rate) * (1 - rate);
        for (int m = 0; m < 5; m++) {
            double kept = 0, same = 0, next = 0;
            for (int i = 0; i < COUNT; i++) {
                kept += keep[m][i];
                same += keep[m][i] == keep[0][i];
                next += keep[m][i] == keep[m][(i + 1) % COUNT];
            }
            cr_assert(fabs(kept / COUNT - (1 - rate)) < 4 * sqrt(rate * (1 - rate) / COUNT));
            cr_assert(fabs(next / COUNT - equal) < 4 * 2 * sqrt(equal * (1 - equal) / COUNT));
            if (m > 0) cr_assert(fabs(same / COUNT - equal) < 4 * sqrt(equal * (1 - equal) / COUNT));
        }
    }
}

#define N        6
#define ROWS     5
#define CHANNELS 3

/* What a lane's dropout layer gives: x / (1 - rate) where the mask keeps, else 0, by step and place in the
 * batch. */
static void check_lane(bool spatial, int64_t batch, const struct fm_backend *backend)
{
    float x[N * ROWS * CHANNELS], zeros[N] = {0};
    for (uint32_t i = 0; i < N * ROWS * CHANNELS; i++) x[i] = 1;
    const struct ts_examples examples = {
        .n = N, .rows = ROWS, .channels = CHANNELS, .x = x, .values = zeros, .width = 1, .train = N};
    char yaml[256];
    snprintf(yaml, sizeof yaml,
             "model: [{%s: {rate: 0.3}}, flatten, {dense: {units: 1}}]\n"
             "train: {loss: mse, batch_size: %d, epochs: 1, shuffle: false}\n",
             spatial ? "spatial_dropout1d" : "dropout", (int)batch);
    struct ts_bench bench;
    cr_assert(ts_bench_open(&bench, &examples, yaml, backend, 1), "%s", bench.error.text);
    struct fm_lane *lane = ts_bench_lane(&bench, 1, 5, NULL);
    const struct fm_op *op = inside_find(lane, FM_SECTION_FORWARD, FM_OP_DROPOUT);
    const uint64_t key = fm_key(5, FM_PURPOSE_DROPOUT, 0, 1);
    for (int64_t step = 0; step < 5; step++) {
        struct fm_report report;
        cr_assert(ts_bench_train(&bench, lane, step, 1, &report));
        size_t count;
        double *y = inside_tensor(lane, op->out[0], &count);
        cr_assert_eq((int64_t)count, report.examples * ROWS * CHANNELS);
        for (int64_t i = 0; i < report.examples; i++) {
            unsigned char keep[ROWS * CHANNELS];
            fm_dropout_keep(fm_dropout_key(key, step, op->dropout.id, i), 0.3, ROWS * CHANNELS, keep);
            for (int e = 0; e < ROWS * CHANNELS; e++) {
                const double want = keep[spatial ? e % CHANNELS : e] ? 1 / 0.7 : 0;
                cr_assert(ts_compare_one(TS_FLOAT, y[i * ROWS * CHANNELS + e], want).ok);
            }
        }
        free(y);
    }
    /* Never in an evaluation: the mean of y + 0 * weights is that of the inputs. */
    const struct fm_request evaluate = {.kind = FM_EVALUATE, .part = FM_PART_VAL};
    struct fm_report report;
    cr_assert(ts_bench_do(&bench, lane, &evaluate, &report) && report.status == 0);
    const struct fm_op *head = inside_find_last(lane, FM_SECTION_EVALUATE, FM_OP_DENSE);
    size_t count;
    double *seen = inside_tensor(lane, head->in[0], &count);
    for (size_t i = 0; i < count; i++) cr_assert_eq(seen[i], 1.0);
    free(seen);
    backend->lane_close(lane);
    ts_bench_close(&bench);
}

Test(engine_dropout, a_lane_uses_this_mask)
{
    check_lane(false, 6, &fm_backend_reference);
    check_lane(false, 4, &fm_backend_reference64);
    check_lane(true, 2, &fm_backend_reference);
    check_lane(true, 6, &fm_backend_reference64);
    check_lane(false, 5, &fm_backend_cpu);
    check_lane(true, 6, &fm_backend_cpu);
}
