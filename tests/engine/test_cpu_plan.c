/* The CPU engine's plans: what they refuse. */
#include <criterion/criterion.h>

#include "engine/cpu/cpu.h"
#include "support/bench.h"

/* Slices keep the tensors small, but the targets of a batch are all there. */
Test(cpu_plan, refuses_batches_whose_targets_fit_no_memory)
{
    enum { OUTPUTS = 1000 };
    static float x[2], y[2 * OUTPUTS];
    const struct ts_examples examples = {
        .n = 2, .rows = 1, .channels = 1, .x = x, .values = y, .width = OUTPUTS, .train = 2};
    struct ts_bench bench;
    const struct fm_backend *b = &fm_backend_cpu;
    cr_assert(ts_bench_open(&bench, &examples,
                            "model: [flatten, {dense: {units: 1000}}]\n"
                            "train: {loss: mse, batch_size: 2, epochs: 1}\n",
                            b, 1),
              "%s", bench.error.text);
    char why[200] = "";
    cr_assert(b->supports(bench.device, bench.program, INT64_C(1) << 20, why, sizeof why), "%s", why);
    cr_assert(!b->supports(bench.device, bench.program, INT64_C(1) << 35, why, sizeof why) && *why);
    cr_assert_eq(b->cost(bench.device, bench.program, INT64_C(1) << 35), INT64_MAX);
    ts_bench_close(&bench);
}
