/* The emulator's host half: streams that run late and starve, events, capture rules, graphs, memory that the
 * host may not touch, failures on demand, leaks, several cards. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <string.h>

#include "emulator/emulator.h"
#include "emulator/probe.h"

TestSuite(emulator_host, .timeout = 60);

static void good(cudaError_t status)
{
    cr_assert_eq(status, cudaSuccess, "%s", cudaGetErrorName(status));
}

static struct fm_emulator_counts counts(void)
{
    struct fm_emulator_counts counts;
    fm_emulator_count(&counts);
    return counts;
}

static void begin(enum fm_emulator_policy policy, int starved, uint64_t seed)
{
    struct fm_emulator_settings settings = {.policy = policy, .starved = starved, .seed = seed};
    fm_emulator_reset(&settings);
}

static cudaStream_t stream(void)
{
    cudaStream_t made;
    good(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    return made;
}

static cudaEvent_t event(void)
{
    cudaEvent_t made;
    good(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    return made;
}

static float *device(int n)
{
    void *made;
    good(cudaMalloc(&made, (size_t)n * sizeof(float)));
    return made;
}

static void *pinned(size_t bytes, unsigned flags)
{
    void *made;
    good(cudaHostAlloc(&made, bytes, flags));
    memset(made, 0, bytes);
    return made;
}

static void set(float *at, float value)
{
    fm_emulator_poke(at, &value, sizeof value);
}

static float get(const float *at)
{
    float value;
    fm_emulator_peek(&value, at, sizeof value);
    return value;
}

/* Two streams: a scales x and b takes it over, with or without waiting. */
static float handed_over(bool waits)
{
    cudaStream_t a = stream(), b = stream();
    cudaEvent_t e = event();
    float *x = device(1), *y = device(1);
    set(x, 3);
    set(y, -1);
    good(fm_probe_scale(a, x, 1, 2));
    good(cudaEventRecord(e, a));
    if (waits) good(cudaStreamWaitEvent(b, e, 0));
    good(fm_probe_move(b, y, x));
    good(cudaStreamSynchronize(b));
    float result = get(y);
    good(cudaFree(x));
    good(cudaFree(y));
    good(cudaEventDestroy(e));
    good(cudaStreamDestroy(a));
    good(cudaStreamDestroy(b));
    return result;
}

Test(emulator_host, starvation_shows_a_missing_wait)
{
    int seen = 0;
    for (int policy = FM_EMULATOR_EAGER; policy <= FM_EMULATOR_RANDOM; policy++)
        for (int seed = 0; seed < 8; seed++) {
            begin((enum fm_emulator_policy)policy, seed % 2, (uint64_t)seed);
            cr_assert_eq(handed_over(true), 7);
            seen += handed_over(false) != 7;
            cr_assert_eq(counts().faults, 0);
            cr_assert_eq(counts().live, 0);
        }
    cr_assert_gt(seen, 8);
    begin(FM_EMULATOR_EAGER, 0, 0);
    cr_assert_eq(handed_over(false), 7);
    begin(FM_EMULATOR_STARVE, 0, 0);
    cr_assert_eq(handed_over(false), 3);
    begin(FM_EMULATOR_LAST, 0, 0);
    cr_assert_eq(handed_over(false), 3);
}

/* Nothing runs before the host waits or asks; asking gets everything done in the end. */
Test(emulator_host, streams_run_late)
{
    begin(FM_EMULATOR_RANDOM, 0, 5);
    cudaStream_t s = stream();
    volatile uint64_t *word = pinned(64, cudaHostAllocMapped);
    void *there;
    good(cudaHostGetDevicePointer(&there, (void *)word, 0));
    for (uint64_t i = 1; i <= 50; i++) good(fm_probe_signal(s, there, i));
    cr_assert_eq(*word, 0);
    int asked = 0;
    uint64_t last = 0;
    cudaError_t status;
    while ((status = cudaStreamQuery(s)) == cudaErrorNotReady) {
        cr_assert_lt(asked++, 1000);
        cr_assert_geq(*word, last);
        last = *word;
    }
    good(status);
    cr_assert_eq(*word, 50);
    cr_assert_gt(asked, 1);
    good(cudaFreeHost((void *)word));
    good(cudaStreamDestroy(s));
    cr_assert_eq(counts().faults, 0);
    cr_assert_eq(counts().live, 0);
}

Test(emulator_host, events_count_records)
{
    begin(FM_EMULATOR_FIRST, 0, 0);
    cudaStream_t s = stream();
    cudaEvent_t e = event(), first, second;
    float *x = device(1), elapsed = -1;
    good(cudaEventQuery(e)); /* never recorded */
    good(cudaEventCreate(&first));
    good(cudaEventCreate(&second));
    set(x, 1);
    good(cudaEventRecord(first, s));
    good(fm_probe_scale(s, x, 1, 2));
    good(cudaEventRecord(second, s));
    good(fm_probe_scale(s, x, 1, 2));
    good(cudaEventSynchronize(second));
    good(cudaEventElapsedTime(&elapsed, first, second));
    cr_assert_geq(elapsed, 0);
    cr_assert_eq(cudaEventElapsedTime(&elapsed, first, e), cudaErrorInvalidResourceHandle);
    cr_assert_eq(get(x), 7);
    cr_assert_eq(counts().faults, 1);
}

/* Kernels move the clock, in a graph as well; so does nothing else. */
Test(emulator_host, events_follow_a_clock_of_kernels)
{
    struct fm_emulator_settings settings;
    char why[100];
    cr_assert(fm_emulator_parse("policy=random,kernel_us=1500", &settings, why, sizeof why));
    cr_assert_eq(settings.kernel_us, 1500);
    fm_emulator_reset(&settings);
    cudaStream_t s = stream();
    cudaEvent_t first, second;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float *x = device(1), elapsed = -1;
    good(cudaEventCreate(&first));
    good(cudaEventCreate(&second));
    good(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 3; i++) good(fm_probe_scale(s, x, 1, 2));
    good(cudaStreamEndCapture(s, &graph));
    good(cudaGraphInstantiate(&exec, graph, 0));
    set(x, 1);
    good(cudaEventRecord(first, s));
    good(fm_probe_scale(s, x, 1, 2));
    good(cudaGraphLaunch(exec, s));
    good(cudaEventRecord(second, s));
    cr_assert_eq(cudaEventElapsedTime(&elapsed, first, second), cudaErrorNotReady);
    good(cudaEventSynchronize(second));
    good(cudaEventElapsedTime(&elapsed, first, second));
    cr_assert_eq(elapsed, 6.0f);
    cr_assert_eq(get(x), 31);
    cr_assert_eq(counts().faults, 0);
}

/* A kernel's time is the driver's, what the host does between calls is not. */
Test(emulator_host, time_inside_calls_is_counted)
{
    const struct fm_emulator_settings settings = {.policy = FM_EMULATOR_FIRST, .driver_time = true};
    fm_emulator_reset(&settings);
    cudaStream_t s = stream();
    float *x = device(1);
    volatile uint64_t sum = 0;
    set(x, 1);
    for (int i = 0; i < 200; i++) good(fm_probe_scale(s, x, 1, 1));
    const int64_t enqueued = counts().driver_ns;
    cr_assert_gt(enqueued, 0);
    for (uint64_t i = 0; i < 1000000; i++) sum += i;
    cr_assert_eq(counts().driver_ns, enqueued);
    good(cudaStreamSynchronize(s));
    cr_assert_gt(counts().driver_ns, enqueued + 200 * 10, "200 kernels ran in %d ns",
                 (int)(counts().driver_ns - enqueued));
}

/* ---- memory -------------------------------------------------------------------------------------------- */

Test(emulator_host, host_reads_device_memory, .signal = SIGABRT)
{
    begin(FM_EMULATOR_EAGER, 0, 0);
    float *x = device(4);
    set(x, 1);
    volatile float got = *(volatile float *)x;
    (void)got;
}

Test(emulator_host, host_writes_device_memory_after_a_burst, .signal = SIGABRT)
{
    begin(FM_EMULATOR_FIRST, 0, 0);
    cudaStream_t s = stream();
    float *x = device(1 << 20);
    good(fm_probe_scale(s, x, 1 << 20, 1));
    good(cudaStreamSynchronize(s));
    *(volatile float *)(x + (1 << 19)) = 1;
}

Test(emulator_host, host_reads_what_a_copy_will_write, .signal = SIGABRT)
{
    begin(FM_EMULATOR_FIRST, 0, 0);
    cudaStream_t s = stream();
    float *x = device(1), *host = pinned(4, 0);
    good(cudaMemcpyAsync(host, x, 4, cudaMemcpyDeviceToHost, s));
    volatile float got = *host;
    (void)got;
}

Test(emulator_host, host_writes_what_a_copy_will_read, .signal = SIGABRT)
{
    begin(FM_EMULATOR_FIRST, 0, 0);
    cudaStream_t s = stream();
    float *x = device(1), *host = pinned(4, 0);
    good(cudaMemcpyAsync(x, host, 4, cudaMemcpyHostToDevice, s));
    *(volatile float *)host = 1;
}

/* Locks are exact to the byte and end when the copy ran. */
Test(emulator_host, neighbours_of_a_locked_range_are_free)
{
    begin(FM_EMULATOR_FIRST, 0, 0);
    cudaStream_t s = stream();
    float *x = device(4), *host = pinned(64, 0);
    host[1] = 5;
    good(cudaMemcpyAsync(x, host + 1, 4, cudaMemcpyHostToDevice, s));
    host[0] = 2;
    cr_assert_eq(host[1], 5);
    host[2] = 3;
    good(cudaMemcpyAsync(host + 8, x, 4, cudaMemcpyDeviceToHost, s));
    host[7] = 4;
    good(cudaStreamSynchronize(s));
    cr_assert_eq(host[8], 5);
    host[1] = 1;
    cr_assert_eq(counts().faults, 0);
    cr_assert_eq(counts().to_device, 4);
    cr_assert_eq(counts().to_host, 4);
    cr_assert_eq(counts().host_copies, 2);
}

/* What is refused at the call, each with one fault. */
Test(emulator_host, wrong_memory_is_refused)
{
    struct fm_emulator_settings settings = {.policy = FM_EMULATOR_FIRST, .cards = 2};
    fm_emulator_reset(&settings);
    cudaStream_t s = stream();
    float *x = device(16), *freed = device(16), *host = pinned(64, 0), local[16] = {0};
    void *other;
    good(cudaSetDevice(1));
    float *there = device(16);
    good(cudaSetDevice(0));
    good(cudaFree(freed));
    int64_t faults = 0;
#define REFUSED(call)                                                                                        \
    do {                                                                                                     \
        cr_assert_neq((call), cudaSuccess);                                                                  \
        cr_assert_eq(counts().faults, ++faults);                                                             \
    } while (0)
    REFUSED(cudaMemcpyAsync(x, local, 64, cudaMemcpyHostToDevice, s));
    REFUSED(cudaMemcpyAsync(local, x, 64, cudaMemcpyDeviceToHost, s));
    REFUSED(cudaMemcpyAsync(x, host, 65, cudaMemcpyHostToDevice, s));
    REFUSED(cudaMemcpyAsync(x + 1, host, 64, cudaMemcpyHostToDevice, s));
    REFUSED(cudaMemcpyAsync(freed, host, 64, cudaMemcpyHostToDevice, s));
    REFUSED(cudaMemcpyAsync(there, host, 64, cudaMemcpyHostToDevice, s));
    REFUSED(cudaMemcpyAsync(host, host, 32, cudaMemcpyHostToHost, s));
    REFUSED(cudaMemcpyAsync(x, host, 64, cudaMemcpyHostToDevice, NULL));
    REFUSED(cudaMemcpyAsync(x, host, 64, cudaMemcpyHostToDevice, cudaStreamLegacy));
    REFUSED(fm_probe_scale(NULL, x, 1, 1));
    REFUSED(cudaMemsetAsync(x, 0, 65, s));
    REFUSED(cudaMemsetAsync(host, 0, 64, s));
    REFUSED(cudaHostGetDevicePointer(&other, host, 0));
    REFUSED(cudaFree(x + 1));
    REFUSED(cudaFree(freed));
    REFUSED(cudaStreamQuery((cudaStream_t)x));
#undef REFUSED
    good(cudaMemcpyAsync(x, host, 64, cudaMemcpyDefault, s));
    good(cudaStreamSynchronize(s));
}

Test(emulator_host, memory_is_counted)
{
    struct fm_emulator_settings settings = {.memory = 1 << 20};
    fm_emulator_reset(&settings);
    size_t free_bytes, total;
    void *a, *b;
    good(cudaMemGetInfo(&free_bytes, &total));
    cr_assert_eq(total, 1 << 20);
    cr_assert_eq(free_bytes, 1 << 20);
    good(cudaMalloc(&a, 1000));
    good(cudaMemGetInfo(&free_bytes, &total));
    cr_assert_eq(free_bytes, (1 << 20) - 1024);
    cr_assert_eq(cudaMalloc(&b, 1 << 20), cudaErrorMemoryAllocation);
    cr_assert_null(b);
    cr_assert_eq(cudaGetLastError(), cudaErrorMemoryAllocation);
    cr_assert_eq(cudaGetLastError(), cudaSuccess);
    good(cudaFree(a));
    good(cudaMalloc(&b, 1 << 20));
    cr_assert_eq((uintptr_t)b % 256, 0);
    cr_assert_neq(a, b);
    cr_assert_eq(counts().live, 1);
    cr_assert_eq(counts().faults, 0);
}

/* ---- capture and graphs -------------------------------------------------------------------------------- */

/* x = x * factor + 1 in b between two kernels in a; captured, or not. */
static void fork_and_join(cudaStream_t a, cudaStream_t b, cudaEvent_t e, float *x, float *y, float factor)
{
    good(fm_probe_scale(a, x, 1, factor));
    good(cudaEventRecord(e, a));
    good(cudaStreamWaitEvent(b, e, 0));
    good(fm_probe_scale(b, x, 1, factor));
    good(fm_probe_scale(a, y, 1, factor));
    good(cudaEventRecord(e, b));
    good(cudaStreamWaitEvent(a, e, 0));
    good(fm_probe_scale(a, x, 1, factor));
}

Test(emulator_host, graphs_replay_what_was_captured)
{
    for (int policy = FM_EMULATOR_EAGER; policy <= FM_EMULATOR_RANDOM; policy++)
        for (uint64_t seed = 0; seed < 5; seed++) {
            begin((enum fm_emulator_policy)policy, 0, seed);
            cudaStream_t a = stream(), b = stream();
            cudaEvent_t e = event();
            float *x = device(1), *y = device(1);
            cudaGraph_t graph;
            cudaGraphExec_t exec;
            cudaGraphNode_t nodes[4];
            enum cudaGraphNodeType type;
            enum cudaStreamCaptureStatus status;
            size_t n = 0;
            set(x, 1);
            set(y, 1);
            good(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
            float factor = 2; /* its value is copied */
            fork_and_join(a, b, e, x, y, factor);
            factor = 100;
            good(cudaStreamIsCapturing(b, &status));
            cr_assert_eq(status, cudaStreamCaptureStatusActive);
            good(cudaStreamEndCapture(a, &graph));
            cr_assert_eq(get(x), 1);
            good(cudaGraphGetNodes(graph, NULL, &n));
            cr_assert_eq(n, 4);
            good(cudaGraphGetNodes(graph, nodes, &n));
            good(cudaGraphNodeGetType(nodes[3], &type));
            cr_assert_eq(type, cudaGraphNodeTypeKernel);
            good(cudaGraphInstantiateWithFlags(&exec, graph, 0));
            good(cudaGraphDestroy(graph));
            for (int i = 0; i < 3; i++) good(cudaGraphLaunch(exec, a));
            good(cudaStreamSynchronize(a));
            cr_assert_eq(get(x), 1023);
            cr_assert_eq(get(y), 15);
            cr_assert_eq(counts().captured, 4);
            cr_assert_eq(counts().launches, 0);
            cr_assert_eq(counts().graph_launches, 3);
            cr_assert_eq(counts().graph_nodes, 12);
            good(cudaGraphExecDestroy(exec));
            good(cudaEventDestroy(e));
            good(cudaFree(x));
            good(cudaFree(y));
            good(cudaStreamDestroy(a));
            good(cudaStreamDestroy(b));
            cr_assert_eq(counts().faults, 0, "%s", fm_emulator_fault());
            cr_assert_eq(counts().live, 0);
        }
}

enum rule {
    RULE_MALLOC,
    RULE_FREE,
    RULE_PINNED,
    RULE_SYNCHRONISE,
    RULE_SYNCHRONISE_OTHER,
    RULE_QUERY,
    RULE_EVENT_QUERY,
    RULE_DEVICE,
    RULE_OUTSIDE_EVENT,
    RULE_UNJOINED,
    RULE_LAUNCH_GRAPH,
    RULES
};

static void break_rule(enum rule rule, cudaStream_t a, cudaStream_t b, cudaEvent_t inside,
                       cudaEvent_t outside, float *x)
{
    void *p;
    switch (rule) {
    case RULE_MALLOC: cr_assert_neq(cudaMalloc(&p, 4), cudaSuccess); break;
    case RULE_FREE: cr_assert_neq(cudaFree(x), cudaSuccess); break;
    case RULE_PINNED: cr_assert_neq(cudaHostAlloc(&p, 4, 0), cudaSuccess); break;
    case RULE_SYNCHRONISE: cr_assert_neq(cudaStreamSynchronize(a), cudaSuccess); break;
    case RULE_SYNCHRONISE_OTHER: cr_assert_neq(cudaStreamSynchronize(b), cudaSuccess); break;
    case RULE_QUERY: cr_assert_neq(cudaStreamQuery(a), cudaSuccess); break;
    case RULE_EVENT_QUERY: cr_assert_neq(cudaEventQuery(outside), cudaSuccess); break;
    case RULE_DEVICE: cr_assert_neq(cudaDeviceSynchronize(), cudaSuccess); break;
    case RULE_OUTSIDE_EVENT: cr_assert_neq(cudaStreamWaitEvent(a, outside, 0), cudaSuccess); break;
    case RULE_UNJOINED:
        good(cudaEventRecord(inside, a));
        good(cudaStreamWaitEvent(b, inside, 0));
        good(fm_probe_scale(b, x, 1, 1));
        break;
    default: {
        cudaGraphExec_t none = (cudaGraphExec_t)x;
        cr_assert_neq(cudaGraphLaunch(none, a), cudaSuccess);
    }
    }
}

Test(emulator_host, capture_rules)
{
    for (int rule = 0; rule < RULES; rule++) {
        begin(FM_EMULATOR_FIRST, 0, 0);
        cudaStream_t a = stream(), b = stream();
        cudaEvent_t inside = event(), outside = event();
        float *x = device(1);
        cudaGraph_t graph = (cudaGraph_t)x;
        set(x, 1);
        good(cudaEventRecord(outside, b));
        good(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
        good(fm_probe_scale(a, x, 1, 1));
        break_rule((enum rule)rule, a, b, inside, outside, x);
        if (rule != RULE_LAUNCH_GRAPH) {
            cr_assert_eq(cudaStreamEndCapture(a, &graph),
                         rule == RULE_UNJOINED ? cudaErrorStreamCaptureUnjoined
                                               : cudaErrorStreamCaptureInvalidated,
                         "%d", rule);
            cr_assert_null(graph);
        }
        cr_assert_eq(counts().faults, 1, "%d", rule);
        /* After it, direct work goes on. */
        if (rule == RULE_LAUNCH_GRAPH) good(cudaStreamEndCapture(a, &graph));
        good(fm_probe_scale(a, x, 1, 1));
        good(fm_probe_scale(b, x, 1, 1));
        good(cudaDeviceSynchronize());
        cr_assert_eq(get(x), 3);
    }
}

Test(emulator_host, relaxed_mode_lets_calls_through)
{
    begin(FM_EMULATOR_FIRST, 0, 0);
    cudaStream_t a = stream();
    cudaGraph_t graph;
    void *p;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    good(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    good(cudaThreadExchangeStreamCaptureMode(&mode));
    cr_assert_eq(mode, cudaStreamCaptureModeGlobal);
    good(cudaMalloc(&p, 4));
    good(cudaThreadExchangeStreamCaptureMode(&mode));
    good(cudaStreamEndCapture(a, &graph));
    cr_assert_eq(counts().faults, 0);
}

Test(emulator_host, one_graph_in_two_streams)
{
    begin(FM_EMULATOR_FIRST, 0, 0);
    cudaStream_t a = stream(), b = stream();
    float *x = device(1);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    good(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    good(fm_probe_scale(a, x, 1, 1));
    good(cudaStreamEndCapture(a, &graph));
    good(cudaGraphInstantiate(&exec, graph, 0));
    good(cudaGraphLaunch(exec, a));
    good(cudaGraphLaunch(exec, a));
    cr_assert_eq(counts().faults, 0);
    good(cudaGraphLaunch(exec, b));
    cr_assert_eq(counts().faults, 1);
    cr_assert_eq(cudaGraphExecDestroy(exec), cudaSuccess);
    cr_assert_eq(counts().faults, 2);
}

/* ---- failures ------------------------------------------------------------------------------------------ */

/* Everything once, stopping at the first error; gives back what it got. */
static cudaError_t everything(float *result)
{
    cudaStream_t a = NULL;
    cudaEvent_t e = NULL;
    void *x = NULL, *host = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    int n, value;
    bool captures = false;
    cudaError_t status;
#define TRY(call)                                                                                            \
    if ((status = (call)) != cudaSuccess) goto end
    TRY(cudaGetDeviceCount(&n));
    TRY(cudaSetDevice(0));
    TRY(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
    TRY(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    TRY(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    TRY(cudaMalloc(&x, 4));
    TRY(cudaHostAlloc(&host, 4, 0));
    *(float *)host = 1;
    TRY(cudaMemcpyAsync(x, host, 4, cudaMemcpyHostToDevice, a));
    TRY(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    captures = true;
    TRY(fm_probe_scale(a, x, 1, 2));
    captures = false;
    TRY(cudaStreamEndCapture(a, &graph));
    TRY(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(cudaGraphLaunch(exec, a));
    TRY(cudaMemcpyAsync(host, x, 4, cudaMemcpyDeviceToHost, a));
    TRY(cudaEventRecord(e, a));
    TRY(cudaEventSynchronize(e));
    TRY(cudaStreamQuery(a));
    *result = *(float *)host;
#undef TRY
end:
    if (captures) cudaStreamEndCapture(a, &graph);
    if (a && cudaStreamSynchronize(a) && !status) status = cudaErrorUnknown;
    if (exec && cudaGraphExecDestroy(exec) && !status) status = cudaErrorUnknown;
    if (graph && cudaGraphDestroy(graph) && !status) status = cudaErrorUnknown;
    if (host && cudaFreeHost(host) && !status) status = cudaErrorUnknown;
    if (x && cudaFree(x) && !status) status = cudaErrorUnknown;
    if (e && cudaEventDestroy(e) && !status) status = cudaErrorUnknown;
    if (a && cudaStreamDestroy(a) && !status) status = cudaErrorUnknown;
    return status;
}

Test(emulator_host, each_call_fails_in_turn)
{
    float result = 0;
    begin(FM_EMULATOR_FIRST, 0, 0);
    good(everything(&result));
    cr_assert_eq(result, 3);
    int64_t calls = counts().calls;
    cr_assert_gt(calls, 20);
    for (int sticky = 0; sticky < 2; sticky++)
        for (int64_t n = 1; n <= calls + 1; n++) {
            struct fm_emulator_settings settings = {.policy = FM_EMULATOR_FIRST,
                                                    .fail_call = n,
                                                    .fail_sticky = sticky,
                                                    .fail_status = sticky ? 700 : 0};
            fm_emulator_reset(&settings);
            cudaError_t status = everything(&result);
            cr_assert_eq(status != cudaSuccess, n <= calls, "call %d", (int)n);
            cr_assert_eq(counts().faults, 0, "call %d: %s", (int)n, fm_emulator_fault());
            cr_assert_eq(counts().live, 0, "call %d", (int)n);
            if (sticky && n <= calls) cr_assert_eq(cudaPeekAtLastError(), cudaErrorIllegalAddress);
        }
}

Test(emulator_host, no_driver_no_card_no_graphs)
{
    int n = 17, version = 17;
    struct fm_emulator_settings settings = {.no_driver = true};
    fm_emulator_reset(&settings);
    cr_assert_eq(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
    cr_assert_eq(n, 17);
    good(cudaDriverGetVersion(&version));
    cr_assert_eq(version, 0);
    settings = (struct fm_emulator_settings){.cards = -1};
    fm_emulator_reset(&settings);
    cr_assert_eq(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    cr_assert_eq(cudaSetDevice(0), cudaErrorNoDevice);
    settings = (struct fm_emulator_settings){.no_graphs = true};
    fm_emulator_reset(&settings);
    cr_assert_eq(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), cudaErrorNotSupported);
    cr_assert_eq(counts().faults, 0);
}

Test(emulator_host, cards)
{
    static const struct {
        const char *card;
        int major, minor, sms;
    } known[] = {{"gtx1060", 6, 1, 10}, {"gtx1660ti", 7, 5, 24}, {"rtx3060", 8, 6, 28}, {"h200", 9, 0, 132}};
    for (int i = 0; i < 4; i++) {
        struct fm_emulator_settings settings = {.card = known[i].card, .cards = 3};
        struct cudaDeviceProp properties;
        int n, major, minor, sms;
        char bus[3][20];
        fm_emulator_reset(&settings);
        cr_assert_str_eq(fm_emulator_cards()[i], known[i].card);
        good(cudaGetDeviceCount(&n));
        cr_assert_eq(n, 3);
        for (int c = 0; c < 3; c++) {
            good(cudaGetDeviceProperties(&properties, c));
            good(cudaDeviceGetPCIBusId(bus[c], sizeof bus[c], c));
            good(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, c));
            good(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, c));
            good(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, c));
            cr_assert(properties.name[0]);
            cr_assert(major == known[i].major && minor == known[i].minor && sms == known[i].sms);
        }
        cr_assert_str_neq(bus[0], bus[1]);
        cr_assert_eq(cudaSetDevice(3), cudaErrorInvalidDevice);
    }
}

/* Each card has its memory and streams; a launch belongs to the card that is set. */
Test(emulator_host, several_cards)
{
    struct fm_emulator_settings settings = {.policy = FM_EMULATOR_RANDOM, .cards = 2, .memory = 1 << 20};
    fm_emulator_reset(&settings);
    cudaStream_t s[2];
    float *x[2];
    for (int c = 0; c < 2; c++) {
        good(cudaSetDevice(c));
        s[c] = stream();
        x[c] = device(180000);
        set(x[c], (float)c);
    }
    for (int i = 0; i < 10; i++)
        for (int c = 0; c < 2; c++) {
            good(cudaSetDevice(c));
            good(fm_probe_scale(s[c], x[c], 1, 1));
        }
    good(cudaDeviceSynchronize());
    cr_assert_eq(get(x[0]), 10);
    cr_assert_eq(get(x[1]), 11);
    cr_assert_eq(counts().faults, 0);
    cr_assert_eq(fm_probe_scale(s[0], x[0], 1, 1), cudaErrorInvalidResourceHandle);
    cr_assert_eq(counts().faults, 1);
}

Test(emulator_host, leaks_show)
{
    begin(FM_EMULATOR_FIRST, 0, 0);
    cudaStream_t s = stream();
    float *x = device(1);
    void *host = pinned(4, 0);
    (void)event();
    cr_assert_eq(counts().live, 4);
    good(cudaFree(x));
    good(cudaFreeHost(host));
    good(cudaStreamDestroy(s));
    cr_assert_eq(counts().live, 1);
    cr_assert_eq(cudaStreamDestroy(s), cudaErrorInvalidResourceHandle);
    cr_assert_eq(counts().faults, 1);
    fm_emulator_reset(NULL);
    cr_assert_eq(counts().live, 0);
}
