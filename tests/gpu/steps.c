/* Whole training on whatever `cuda` opens here (make check-gpu: a real card): the reference networks of the
 * benchmark, many lanes beside one another and each alone, the same bits; against the CPU within the
 * tolerance table; how many calls a step takes by the plan and how many nodes by CUDA; what goes over the
 * bus. steps [STEPS [LANES [BATCH]]] 200 16 64 The last line is "N passed, N failed". */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/bench_private.h"
#include "base/memory.h"
#include "engine/plugin.h"
#include "support/tolerance.h"

#define MOST_LANES 64

static int passed, failed;

static bool check(bool good, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    printf("%s: ", good ? "passed" : "FAILED");
    vprintf(format, list);
    printf("\n");
    va_end(list);
    fflush(stdout);
    *(good ? &passed : &failed) += 1;
    return good;
}

/* The table of a backend by the name that a user gives. */
static const struct fm_backend *find(const char *name, struct fm_error *err)
{
    const struct fm_backend *backend;
    struct fm_device *device;
    const struct fm_device_options options = {.lanes = 1};
    if (fm_backend_open(&backend, &device, name, &options, NULL, 0, err)) return NULL;
    printf("%s: %s\n", name, backend->describe(device));
    backend->close(device);
    return backend;
}

static struct fm_lane *open_lane(struct fm_bench *b, int64_t batch, int64_t seed, struct fm_error *err)
{
    struct fm_lane *lane;
    const struct fm_lane_options options = {.dataset = b->dataset,
                                            .program = b->program,
                                            .batch = batch,
                                            .seed = seed,
                                            .hyper = {.momentum = b->train.optimizer.momentum,
                                                      .beta_1 = b->train.optimizer.beta_1,
                                                      .beta_2 = b->train.optimizer.beta_2,
                                                      .epsilon = b->train.optimizer.epsilon,
                                                      .rho = b->train.optimizer.rho,
                                                      .rates = b->program->rates,
                                                      .shuffle = true}};
    return b->backend->lane_open(b->device, &options, &lane, err) ? NULL : lane;
}

/* Every lane does `steps` steps in two requests, all submitted before any report is waited for. */
static bool train(struct fm_bench *b, struct fm_lane *const *lanes, int count, int64_t steps,
                  struct fm_error *err)
{
    const int64_t first = steps / 3;
    int pending = 0;
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < count; i++) {
            const struct fm_request request = {.kind = FM_TRAIN,
                                               .first_step = half ? first : 0,
                                               .steps = half ? steps - first : first,
                                               .learning_rate = 1e-3};
            if (request.steps == 0) continue;
            if (b->backend->submit(lanes[i], &request, err)) return false;
            pending++;
        }
    while (pending > 0) {
        struct fm_report report;
        const int got = b->backend->wait(b->device, 1000, &report, err);
        if (got < 0) return false;
        if (got == 0) continue;
        if (report.status || report.frozen || report.bad_steps) {
            *err = report.error;
            if (!err->code) fm_fail(err, FM_EINTERNAL, "a lane had a step that was not finite");
            return false;
        }
        pending--;
    }
    return true;
}

/* The whole states of `count` lanes with the seeds first_seed... after training side by side, end to end. */
static unsigned char *trained(struct fm_bench *b, int64_t batch, int64_t first_seed, int count, int64_t steps,
                              int64_t *size, struct fm_error *err)
{
    struct fm_lane *lanes[MOST_LANES] = {0};
    unsigned char *states = NULL;
    bool good = true;
    for (int i = 0; good && i < count; i++)
        good = (lanes[i] = open_lane(b, batch, first_seed + i, err)) != NULL;
    good = good && train(b, lanes, count, steps, err);
    *size = good ? b->backend->state_size(lanes[0]) : 0;
    if (good && !(states = fm_malloc((size_t)count, (size_t)*size))) good = !fm_fail_memory(err);
    for (int i = 0; good && i < count; i++) good = !b->backend->state_read(lanes[i], states + i * *size, err);
    for (int i = 0; i < count; i++)
        if (lanes[i]) b->backend->lane_close(lanes[i]);
    if (!good) fm_free(states);
    return good ? states : NULL;
}

static void same_bits(struct fm_bench *b, int64_t batch, int lanes, int64_t steps, struct fm_error *err)
{
    const char *net = b->net->name;
    int64_t size, alone_size;
    int different = 0;
    unsigned char *together = trained(b, batch, 0, lanes, steps, &size, err);
    unsigned char *again = together ? trained(b, batch, 0, lanes, steps, &size, err) : NULL;
    if (check(together && again, "%s: %d lanes train %d steps, twice%s%s", net, lanes, (int)steps,
              again ? "" : ": ", again ? "" : err->text)) {
        check(!memcmp(together, again, (size_t)(lanes * size)), "%s: twice the same bits with %d lanes", net,
              lanes);
        for (int i = 0; i < lanes; i++) {
            unsigned char *alone = trained(b, batch, i, 1, steps, &alone_size, err);
            if (!alone || alone_size != size || memcmp(alone, together + i * size, (size_t)size)) different++;
            fm_free(alone);
        }
        check(different == 0, "%s: each of them has the bits that it has alone (%d differ)", net, different);
        check(lanes < 2 || memcmp(together, together + size, (size_t)size),
              "%s: lanes with different seeds differ", net);
    }
    fm_free(together);
    fm_free(again);
}

/* The backend's own words: "a step of 64 examples, 11 calls:". */
static int calls_of_plan(struct fm_bench *b, int64_t batch, struct fm_error *err)
{
    struct fm_text text = {0};
    int calls = -1;
    if (!b->backend->explain(b->device, b->program, batch, &text, err) && text.data) {
        const char *at = strstr(text.data, "a step of");
        const char *comma = at ? strchr(at, ',') : NULL;
        if (comma) calls = (int)strtol(comma + 1, NULL, 10);
        printf("%s", text.data);
    }
    fm_text_fini(&text);
    return calls;
}

/* What CUDA says of the graph that it captured: its nodes without the one that tells the host, and its steps.
 */
static int64_t nodes_of_graph(struct fm_bench *b, int64_t batch, int *steps, struct fm_error *err)
{
    int64_t nodes = 0;
    struct fm_lane *lane = open_lane(b, batch, 1, err);
    *steps = 0;
    if (lane && train(b, &lane, 1, 60, err) && b->backend->captured)
        nodes = b->backend->captured(b->device, b->program, batch, steps);
    if (lane) b->backend->lane_close(lane);
    return nodes - 1;
}

static void few_calls(struct fm_bench *b, int64_t batch, int most, struct fm_error *err)
{
    const char *net = b->net->name;
    int steps;
    const int calls = calls_of_plan(b, batch, err);
    const int64_t nodes = nodes_of_graph(b, batch, &steps, err);
    check(calls > 0 && calls <= most, "%s: a step of %d examples takes %d calls, at most %d", net, (int)batch,
          calls, most);
    check(steps > 0 && nodes >= (int64_t)steps * calls,
          "%s: the graph of %d steps has %lld nodes, %.2f a step; the plan has %d calls", net, steps,
          (long long)nodes, steps ? (double)nodes / steps : 0, calls);
}

/* With Foldmill's own kernels every call of the plan is one node. */
static void own_nodes(const struct fm_backend *cuda, const struct fm_bench_net *net, int64_t batch,
                      struct fm_error *err)
{
    struct fm_bench b;
    const struct fm_device_options options = {.lanes = 1, .kernels = FM_KERNELS_OWN};
    int steps;
    if (!check(!fm_bench_init(&b, cuda, &options, net, true, err), "%s: opens with own kernels", net->name))
        return;
    const int calls = calls_of_plan(&b, batch, err);
    const int64_t nodes = nodes_of_graph(&b, batch, &steps, err);
    check(steps > 0 && nodes == (int64_t)steps * calls,
          "%s: with own kernels the graph of %d steps has %lld nodes, the plan %d calls a step", net->name,
          steps, (long long)nodes, calls);
    fm_bench_fini(&b);
}

static void little_traffic(struct fm_bench *b, int64_t batch, int64_t steps, struct fm_error *err)
{
    struct fm_transfers before, after;
    struct fm_lane *lane = open_lane(b, batch, 1, err);
    if (!check(lane != NULL, "%s: a lane opens%s%s", b->net->name, lane ? "" : ": ", lane ? "" : err->text))
        return;
    b->backend->transfers(b->device, &before);
    const bool good = train(b, &lane, 1, steps, err);
    b->backend->transfers(b->device, &after);
    const long long up = after.to_device - before.to_device, down = after.to_host - before.to_host;
    check(good && up < 4096 && down < 4096,
          "%s: %d steps move %lld bytes to the device and %lld back (under 4096)", b->net->name, (int)steps,
          up, down);
    b->backend->lane_close(lane);
}

/* 20 steps of the same run here and there: the parameters. */
static void near_cpu(struct fm_bench *b, const struct fm_backend *cpu, int64_t batch, struct fm_error *err)
{
    struct fm_bench other;
    const struct fm_device_options options = {.lanes = 1};
    int64_t size, cpu_size = 0;
    if (!check(!fm_bench_init(&other, cpu, &options, b->net, true, err), "%s: the CPU opens", b->net->name))
        return;
    const int64_t count = b->program->float_count;
    float *here = (float *)trained(b, batch, 7, 1, 20, &size, err);
    float *there = (float *)trained(&other, batch, 7, 1, 20, &cpu_size, err);
    double *expected = fm_malloc((size_t)count, sizeof *expected);
    if (check(here && there && expected, "%s: 20 steps on both", b->net->name)) {
        for (int64_t i = 0; i < count; i++) expected[i] = (double)there[i];
        const struct ts_worst worst = ts_compare_float(TS_FLOAT_TRAINING, here, expected, (size_t)count);
        check(worst.ok, "%s: the CPU's parameters after 20 steps: %s", b->net->name, worst.text);
    }
    fm_free(here);
    fm_free(there);
    fm_free(expected);
    fm_bench_fini(&other);
}

static void check_net(const struct fm_backend *cuda, const struct fm_backend *cpu,
                      const struct fm_bench_net *net, int64_t steps, int lanes, int64_t batch)
{
    struct fm_bench b;
    struct fm_error err = {0};
    const struct fm_device_options options = {.lanes = lanes};
    /* The lanes of a device take all memory: one device after the other. */
    own_nodes(cuda, net, batch, &err);
    if (!check(!fm_bench_init(&b, cuda, &options, net, true, &err), "%s: opens%s%s", net->name,
               err.code ? ": " : "", err.text))
        return;
    few_calls(&b, batch, strcmp(net->name, "S") ? 16 : 12, &err);
    near_cpu(&b, cpu, batch, &err);
    same_bits(&b, batch, lanes, steps, &err);
    little_traffic(&b, batch, steps, &err);
    if (err.code) printf("the first error: %s\n", err.text);
    fm_bench_fini(&b);
}

static int64_t argument(char **arguments, int count, int i, int64_t otherwise, int64_t most)
{
    const long long value = i < count ? strtoll(arguments[i], NULL, 10) : otherwise;
    return value < 1 ? 1 : value > most ? most : value;
}

int main(int count, char **arguments)
{
    struct fm_error err = {0};
    const int64_t steps = argument(arguments, count, 1, 200, 1000000);
    const int lanes = (int)argument(arguments, count, 2, 16, MOST_LANES);
    const int64_t batch = argument(arguments, count, 3, 64, 4096);
    const struct fm_backend *cuda = find("cuda", &err), *cpu = cuda ? find("cpu", &err) : NULL;
    if (check(cuda && cpu, "cuda and cpu open%s%s", err.code ? ": " : "", err.text))
        for (const struct fm_bench_net *net = fm_bench_nets; net->name; net++)
            if (strcmp(net->name, "P3")) check_net(cuda, cpu, net, steps, lanes, batch);
    printf("%d passed, %d failed\n", passed, failed);
    return failed ? 1 : 0;
}
