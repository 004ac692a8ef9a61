/* Measures whole training steps and evaluations of networks of many kinds on the CPU engine: `make
 * bench-networks`, or build/tests/bench/networks [WORD] for the lines that contain WORD. One line a network
 * and batch size: microseconds of processor time a step (the best of some chunks), GFLOP/s of the products
 * that the program needs, their share of what the registers alone allow, the same for the evaluation of an
 * example. Below it the share of each kind of task in a step, the best of some, and its GFLOP/s where it is a
 * product. Nothing here is asserted. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/cpu/cpu.h"
#include "support/bench.h"

enum { EXAMPLES = 4096, TASKS = 512 };

struct network {
    const char *name;
    int64_t rows, channels; /* channels == 0: letters */
    const char *model;
};

#define HEAD        "flatten, dense: {units: 3, activation: softmax}"
#define CONV3       "conv1d: {filters: 64, kernel_size: 5, padding: same, "
#define DEPTHWISE64 "conv1d: {filters: 64, kernel_size: 5, padding: same, groups: 64}"
static const struct network networks[] = {
    {"S: k9 x24, pool 4, dense 20", 104, 1,
     "conv1d: {filters: 24, kernel_size: 9, activation: relu}, max_pooling1d: {pool_size: 4}, flatten, "
     "dense: "
     "{units: 20, activation: relu}, dense: {units: 3, activation: softmax}"},
    {"P2: letters, two k5 x64 swish", 17, 0, CONV3 "activation: swish}, " CONV3 "activation: swish}, " HEAD},
    {"stride 2 k7, then k5", 128, 8,
     "conv1d: {filters: 64, kernel_size: 7, strides: 2, padding: same, activation: relu}, " CONV3
     "activation: relu}, " HEAD},
    {"strides 2 and 3 k7", 128, 8,
     "conv1d: {filters: 64, kernel_size: 7, strides: 2, activation: relu}, conv1d: {filters: 96, "
     "kernel_size: 7, strides: 3, activation: relu}, " HEAD},
    {"dilations 1, 2, 4 k5", 128, 8,
     CONV3 "activation: relu}, " CONV3 "dilation_rate: 2, activation: relu}, " CONV3
           "dilation_rate: 4, activation: relu}, " HEAD},
    {"groups of 32 and 16 filters", 128, 8,
     CONV3 "activation: relu}, " CONV3 "groups: 2, activation: relu}, " CONV3
           "groups: 4, activation: relu}, " HEAD},
    {"groups of 4 and 2 filters", 128, 8,
     CONV3 "activation: relu}, " CONV3 "groups: 16, activation: relu}, " CONV3
           "groups: 32, activation: relu}, " HEAD},
    {"groups of 8 filters", 128, 8, CONV3 "activation: relu}, " CONV3 "groups: 8, activation: relu}, " HEAD},
    {"separable: depthwise k5, dense", 128, 8,
     "dense: {units: 64, activation: relu}, " DEPTHWISE64
     ", dense: {units: 64, activation: relu}, " DEPTHWISE64 ", dense: {units: 64, activation: relu}, " HEAD},
    {"depthwise, multiplier 2", 128, 8,
     "dense: {units: 64, activation: relu}, conv1d: {filters: 128, kernel_size: 5, padding: same, groups: "
     "64}, dense: {units: 64, activation: relu}, " HEAD},
    {"pool 8 (fused)", 128, 8,
     "conv1d: {filters: 32, kernel_size: 7, activation: relu}, max_pooling1d: {pool_size: 8}, " HEAD},
    {"pool 2, then pool 8", 128, 8,
     "conv1d: {filters: 64, kernel_size: 7, activation: relu}, max_pooling1d: {pool_size: 2}, conv1d: "
     "{filters: "
     "64, kernel_size: 7, activation: relu}, max_pooling1d: {pool_size: 8}, " HEAD},
    {"swish, global max", 128, 8,
     CONV3 "activation: swish}, " CONV3 "activation: swish}, global_max_pooling1d, dense: {units: 3, "
           "activation: softmax}"},
    {"average pool 4", 128, 8,
     CONV3 "activation: relu}, average_pooling1d: {pool_size: 4}, " CONV3 "activation: relu}, " HEAD},
    {"batch norm stack", 128, 8,
     CONV3 "use_bias: false}, batch_normalization, relu, max_pooling1d: {pool_size: 2}, " CONV3
           "use_bias: false}, batch_normalization, relu, max_pooling1d: {pool_size: 2}, " CONV3
           "use_bias: false}, batch_normalization, relu, " HEAD},
    {"layer norm stack", 128, 8,
     CONV3 "use_bias: false}, layer_normalization, relu, " CONV3
           "use_bias: false}, layer_normalization, relu, " HEAD},
    {"dropout", 128, 8,
     CONV3 "activation: relu}, dropout: {rate: 0.3}, " CONV3
           "activation: relu}, dropout: {rate: 0.5}, " HEAD},
    {"spatial dropout", 128, 8,
     CONV3 "activation: relu}, spatial_dropout1d: {rate: 0.3}, " CONV3
           "activation: relu}, spatial_dropout1d: {rate: 0.5}, " HEAD},
    {"dense 1024, 256", 128, 8,
     "flatten, dense: {units: 1024, activation: relu}, dense: {units: 256, activation: relu}, dense: {units: "
     "3, activation: softmax}"},
    {"letters, stride 2", 64, 0,
     "conv1d: {filters: 64, kernel_size: 7, strides: 2, activation: relu}, " CONV3
     "activation: relu}, " HEAD},
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double peak_of(const struct fm_kernels *kernels)
{
    double best = 0;
    for (int round = 0; round < 20; round++) {
        double flops, t = seconds();
        volatile float keep = kernels->peak(20000, &flops);
        (void)keep;
        t = seconds() - t;
        if (flops / t > best) best = flops / t;
    }
    return best;
}

/* ---- tasks: their run functions are put behind one that looks at the clock ---- */

struct clock {
    fm_cpu_run *run[TASKS];
    double now[TASKS], best[TASKS];
};
static struct clock watch;

static void timed(const struct fm_cpu_task *task, struct fm_cpu_lane *lane, int64_t first, int64_t count)
{
    const int i = (int)(task - lane->plan.tasks);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    watch.run[i](task, lane, first, count);
    clock_gettime(CLOCK_MONOTONIC, &to);
    watch.now[i] += (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
}

static double task_flops(const struct fm_op *op)
{
    if (!op) return 0;
    switch (op->code) {
    case FM_OP_CONV1D:
    case FM_OP_CONV1D_WEIGHT_GRAD:
    case FM_OP_CONV1D_INPUT_GRAD:
        return 2.0 * (double)(op->out_rows * op->conv.taps * op->out_channels) *
               (op->conv.letters ? 0.5 : (double)(op->in_channels / op->conv.groups));
    case FM_OP_DENSE:
    case FM_OP_DENSE_WEIGHT_GRAD:
    case FM_OP_DENSE_INPUT_GRAD:
        return op->dense.letters ? 0 : 2.0 * (double)(op->in_rows * op->in_channels * op->out_channels);
    default: return 0;
    }
}

static void print_tasks(const struct fm_cpu_plan *plan, double step, double peak)
{
    double all = 0;
    for (int i = 0; i < plan->evaluate_first; i++) {
        const struct fm_cpu_task *task = &plan->tasks[i];
        const double t = watch.best[i];
        const double flops = i < plan->train_first ? 0 : task_flops(task->op) * (double)plan->batch;
        all += t;
        if (t < 0.02 * step) continue;
        printf("    %5.1f %%  %s%s", 100 * t / step, task->name, task->act ? " + activation" : "");
        if (task->op)
            printf(" %lldx%lld -> %lldx%lld", (long long)task->op->in_rows, (long long)task->op->in_channels,
                   (long long)task->op->out_rows, (long long)task->op->out_channels);
        if (flops > 0) printf("  %.1f GFLOP/s, %.0f %%", flops / t * 1e-9, 100 * flops / t / peak);
        printf("\n");
    }
    printf("    %5.1f %%  outside the tasks\n", 100 * (1 - all / step));
}

static bool measure_tasks(struct ts_bench *b, struct fm_lane *lane, double step, double peak)
{
    struct fm_cpu_plan *plan = &((struct fm_cpu_lane *)lane->engine)->plan;
    struct fm_report report;
    for (int i = 0; i < plan->evaluate_first; i++) {
        watch.run[i] = plan->tasks[i].run;
        watch.best[i] = INFINITY;
        plan->tasks[i].run = timed;
    }
    bool ok = true;
    for (int round = 0; ok && round < 12; round++) {
        for (int i = 0; i < plan->evaluate_first; i++) watch.now[i] = 0;
        ok = ts_bench_train(b, lane, 0, 1, &report);
        for (int i = 0; i < plan->evaluate_first; i++)
            if (watch.now[i] < watch.best[i]) watch.best[i] = watch.now[i];
    }
    for (int i = 0; i < plan->evaluate_first; i++) plan->tasks[i].run = watch.run[i];
    if (ok && plan->evaluate_first <= TASKS) print_tasks(plan, step, peak);
    return ok;
}

/* ---- a network ---- */

struct data {
    float *x;
    uint8_t *letters;
    uint32_t *classes;
};

static bool best_step(struct ts_bench *b, struct fm_lane *lane, double guess, double *best)
{
    struct fm_report report;
    const int64_t steps = guess > 4e-3 ? 1 : (int64_t)(4e-3 / guess) + 1;
    *best = INFINITY;
    for (int round = 0; round < 16; round++) {
        double t = seconds();
        if (!ts_bench_train(b, lane, round * steps, steps, &report)) return false;
        t = (seconds() - t) / (double)steps;
        if (t < *best) *best = t;
    }
    return true;
}

static bool best_evaluation(struct ts_bench *b, struct fm_lane *lane, double *best)
{
    int64_t confusion[9];
    *best = INFINITY;
    for (int round = 0; round < 6; round++) {
        const struct fm_request request = {
            .kind = FM_EVALUATE, .part = FM_PART_VAL, .returns = FM_RETURN_CONFUSION, .confusion = confusion};
        struct fm_report report;
        double t = seconds();
        if (!ts_bench_do(b, lane, &request, &report)) return false;
        t = (seconds() - t) / (EXAMPLES / 4);
        if (t < *best) *best = t;
    }
    return true;
}

static bool measure(struct ts_bench *b, const struct network *net, int64_t batch, bool tasks)
{
    double step = 0, evaluation = 0;
    struct fm_lane *lane = ts_bench_lane(b, 0, 1, NULL);
    if (!lane) return false;
    struct fm_report report;
    double guess = seconds();
    if (!ts_bench_train(b, lane, 0, 1, &report)) return false;
    guess = seconds() - guess;
    if (!best_step(b, lane, guess, &step) || !best_evaluation(b, lane, &evaluation)) return false;
    const double peak = peak_of(((struct fm_cpu_lane *)lane->engine)->k);
    const double flops = fm_program_flops(b->program, true) * (double)batch,
                 forward = fm_program_flops(b->program, false);
    printf("%-32s %4lld %9.1f us %6.1f GFLOP/s %3.0f %% | %8.3f us %6.1f GFLOP/s %3.0f %%\n", net->name,
           (long long)batch, step * 1e6, flops / step * 1e-9, 100 * flops / step / peak, evaluation * 1e6,
           forward / evaluation * 1e-9, 100 * forward / evaluation / peak);
    const bool ok = !tasks || measure_tasks(b, lane, step, peak);
    b->backend->lane_close(lane);
    fflush(stdout);
    return ok;
}

static bool measure_network(const struct network *net, int64_t batch, const struct data *data, bool tasks)
{
    char yaml[2000];
    struct ts_bench b;
    const struct ts_examples e = {.n = EXAMPLES,
                                  .rows = net->rows,
                                  .channels = net->channels,
                                  .x = net->channels ? data->x : NULL,
                                  .letters = net->channels ? NULL : data->letters,
                                  .alphabet = 21,
                                  .nclasses = 3,
                                  .classes = data->classes,
                                  .width = 1,
                                  .train = EXAMPLES * 3 / 4};
    snprintf(yaml, sizeof yaml,
             "model: [%s]\ntrain: {loss: sparse_categorical_crossentropy, batch_size: %lld, epochs: 1}\n",
             net->model, (long long)batch);
    const bool ok = ts_bench_open(&b, &e, yaml, &fm_backend_cpu, 1) && measure(&b, net, batch, tasks);
    if (!ok) printf("%s: %s\n", net->name, b.error.text);
    ts_bench_close(&b);
    return ok;
}

int main(int argc, char **argv)
{
    static const int64_t batches[] = {1, 32, 256};
    const char *word = argc > 1 ? argv[1] : NULL;
    const int64_t only = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    const size_t most = (size_t)EXAMPLES * 128 * 8;
    struct data data = {calloc(most, sizeof(float)), calloc(most, 1), calloc(EXAMPLES, sizeof(uint32_t))};
    bool ok = data.x && data.letters && data.classes;
    for (size_t i = 0; ok && i < most; i++) {
        data.x[i] = ts_hashed((uint32_t)i, 1, 1, 0);
        data.letters[i] = (uint8_t)(fabs((double)data.x[i]) * 20.99);
    }
    for (int i = 0; ok && i < EXAMPLES; i++) data.classes[i] = (uint32_t)(data.letters[i * 8] % 3);
    for (size_t i = 0; ok && i < sizeof networks / sizeof *networks; i++) {
        if (word && !strstr(networks[i].name, word)) continue;
        for (int k = 0; ok && k < 3; k++)
            if (!only || only == batches[k])
                ok = measure_network(&networks[i], batches[k], &data, word || batches[k] == 32);
    }
    free(data.x);
    free(data.letters);
    free(data.classes);
    return ok ? 0 : 1;
}
