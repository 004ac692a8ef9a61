/* Twelve mistakes with streams that a CUDA program can make and a real card forgives most of the time, put
 * one after another into a small program with two streams, and looked for on the emulator: under every
 * policy, in a process of its own. The program without a mistake has to be clean under all of them, and
 * whichever call fails.
 *
 * The program, as a lane works: upload weights in b; a waits, captures a step (with a fork into b), replays
 * it three times; b takes a snapshot and a report; a goes on with the next epoch; the host reads the report.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emulator/emulator.h"
#include "emulator/probe.h"

enum mistake {
    NONE,
    MISSING_WAIT,
    EARLY_READ,
    BUFFER_REUSED,
    ARGUMENT_BY_REFERENCE,
    MALLOC_IN_CAPTURE,
    FREED_ARENA,
    HOST_DEREFERENCE,
    SHARED_GRAPH,
    UNJOINED_FORK,
    NEXT_EPOCH_EARLY,
    PAGEABLE_COPY,
    DEFAULT_STREAM,
    MISTAKES
};
static const char *const names[] = {"no mistake",
                                    "missing wait for the upload",
                                    "report read before it is there",
                                    "upload's buffer reused",
                                    "kernel argument by reference",
                                    "cudaMalloc during capture",
                                    "arena freed while a graph uses it",
                                    "host dereferences device memory",
                                    "one graph in two streams",
                                    "fork that is not joined",
                                    "next epoch before the snapshot",
                                    "copy from pageable memory",
                                    "default stream"};

struct program {
    enum mistake mistake;
    cudaStream_t a, b;
    cudaEvent_t uploaded, forked, trained, saved;
    float *weights, *best, *staging, *report;
    cudaGraph_t graph;
    cudaGraphExec_t step;
    bool captures;
};

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        cudaError_t status_ = (call);                                                                        \
        if (status_ != cudaSuccess) return status_;                                                          \
    } while (0)

static cudaError_t open_all(struct program *p)
{
    cudaEvent_t *events[] = {&p->uploaded, &p->forked, &p->trained, &p->saved};
    TRY(cudaStreamCreateWithFlags(&p->a, cudaStreamNonBlocking));
    TRY(cudaStreamCreateWithFlags(&p->b, cudaStreamNonBlocking));
    for (int i = 0; i < 4; i++) TRY(cudaEventCreateWithFlags(events[i], cudaEventDisableTiming));
    TRY(cudaMalloc((void **)&p->weights, 40));
    TRY(cudaMalloc((void **)&p->best, 16));
    TRY(cudaHostAlloc((void **)&p->staging, 16, cudaHostAllocDefault));
    TRY(cudaHostAlloc((void **)&p->report, 40, cudaHostAllocDefault));
    return cudaSuccess;
}

static cudaError_t upload(struct program *p)
{
    static float pageable[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++) p->staging[i] = (float)(i + 1);
    TRY(cudaMemcpyAsync(p->weights, p->mistake == PAGEABLE_COPY ? pageable : p->staging, 16,
                        cudaMemcpyHostToDevice, p->mistake == DEFAULT_STREAM ? NULL : p->b));
    TRY(cudaEventRecord(p->uploaded, p->b));
    if (p->mistake == BUFFER_REUSED) *(volatile float *)p->staging = 100;
    if (p->mistake != MISSING_WAIT) TRY(cudaStreamWaitEvent(p->a, p->uploaded, 0));
    return cudaSuccess;
}

static cudaError_t capture(struct program *p)
{
    volatile float factor = 2;
    void *more;
    TRY(cudaStreamBeginCapture(p->a, cudaStreamCaptureModeThreadLocal));
    p->captures = true;
    if (p->mistake == ARGUMENT_BY_REFERENCE)
        TRY(fm_probe_scale_by(p->a, p->weights, 4, (const float *)&factor));
    else
        TRY(fm_probe_scale(p->a, p->weights, 4, factor));
    if (p->mistake == MALLOC_IN_CAPTURE) TRY(cudaMalloc(&more, 16));
    TRY(cudaEventRecord(p->forked, p->a));
    TRY(cudaStreamWaitEvent(p->b, p->forked, 0));
    TRY(fm_probe_move(p->b, p->weights + 8, p->weights));
    TRY(fm_probe_move(p->a, p->weights + 9, p->weights + 1));
    TRY(cudaEventRecord(p->trained, p->b));
    if (p->mistake != UNJOINED_FORK) TRY(cudaStreamWaitEvent(p->a, p->trained, 0));
    p->captures = false;
    TRY(cudaStreamEndCapture(p->a, &p->graph));
    factor = 7;
    return cudaGraphInstantiateWithFlags(&p->step, p->graph, 0);
}

static cudaError_t epochs(struct program *p, float *result)
{
    for (int i = 0; i < 3; i++)
        TRY(cudaGraphLaunch(p->step, p->mistake == SHARED_GRAPH && i == 2 ? p->b : p->a));
    if (p->mistake == FREED_ARENA) {
        void *weights = p->weights;
        p->weights = NULL;
        TRY(cudaFree(weights));
        TRY(cudaGraphLaunch(p->step, p->a));
        TRY(cudaStreamSynchronize(p->a));
    }
    TRY(cudaEventRecord(p->trained, p->a));
    TRY(cudaStreamWaitEvent(p->b, p->trained, 0));
    TRY(cudaMemcpyAsync(p->best, p->weights, 16, cudaMemcpyDeviceToDevice, p->b));
    TRY(cudaMemcpyAsync(p->report, p->weights, 40, cudaMemcpyDeviceToHost, p->b));
    TRY(cudaEventRecord(p->saved, p->b));
    if (p->mistake != NEXT_EPOCH_EARLY) TRY(cudaStreamWaitEvent(p->a, p->saved, 0));
    TRY(cudaGraphLaunch(p->step, p->a));
    float early = 0; /* right only where nothing runs late */
    if (p->mistake == EARLY_READ) early = *(volatile float *)p->report;
    if (p->mistake == HOST_DEREFERENCE) early = *(volatile float *)p->weights;
    TRY(cudaEventSynchronize(p->saved));
    if (p->mistake == EARLY_READ) *result += early - p->report[0];
    for (int i = 0; i < 10; i++)
        if (i < 4 || i > 7) *result += p->report[i] * (float)(i + 1);
    TRY(cudaStreamSynchronize(p->a));
    TRY(cudaMemcpyAsync(p->report, p->best, 16, cudaMemcpyDeviceToHost, p->a));
    TRY(cudaStreamSynchronize(p->a));
    for (int i = 0; i < 4; i++) *result += p->report[i] * (float)(100 * i);
    return cudaSuccess;
}

static cudaError_t close_all(struct program *p)
{
    cudaError_t status = cudaSuccess, got;
    cudaEvent_t events[] = {p->uploaded, p->forked, p->trained, p->saved};
    cudaStream_t streams[] = {p->a, p->b};
#define ALL(call)                                                                                            \
    if ((got = (call)) != cudaSuccess && status == cudaSuccess) status = got
    if (p->captures) ALL(cudaStreamEndCapture(p->a, &p->graph));
    for (int i = 0; i < 2; i++)
        if (streams[i]) ALL(cudaStreamSynchronize(streams[i]));
    if (p->step) ALL(cudaGraphExecDestroy(p->step));
    if (p->graph) ALL(cudaGraphDestroy(p->graph));
    if (p->weights) ALL(cudaFree(p->weights));
    if (p->best) ALL(cudaFree(p->best));
    if (p->staging) ALL(cudaFreeHost(p->staging));
    if (p->report) ALL(cudaFreeHost(p->report));
    for (int i = 0; i < 4; i++)
        if (events[i]) ALL(cudaEventDestroy(events[i]));
    for (int i = 0; i < 2; i++)
        if (streams[i]) ALL(cudaStreamDestroy(streams[i]));
#undef ALL
    return status;
}

static cudaError_t run(enum mistake mistake, float *result)
{
    struct program p = {.mistake = mistake};
    *result = 0;
    cudaError_t status = open_all(&p);
    if (!status) status = upload(&p);
    if (!status) status = capture(&p);
    if (!status) status = epochs(&p, result);
    cudaError_t closed = close_all(&p);
    return status ? status : closed;
}

/* What came of it, in words; 0 when all is as it should be. */
static int judge(enum mistake mistake, const struct fm_emulator_settings *settings, float want, char *how,
                 size_t size)
{
    struct fm_emulator_counts counts;
    float result;
    fm_emulator_reset(settings);
    cudaError_t status = run(mistake, &result);
    fm_emulator_count(&counts);
    if (counts.faults)
        snprintf(how, size, "%s", fm_emulator_fault());
    else if (status)
        snprintf(how, size, "%s", cudaGetErrorName(status));
    else if (!(result == want))
        snprintf(how, size, "the result is %g instead of %g", (double)result, (double)want);
    else if (counts.live)
        snprintf(how, size, "%lld objects are left", (long long)counts.live);
    else
        return 0;
    return 1;
}

/* The same in a process of its own, silent, because the host's own mistakes end it. */
static int judge_apart(enum mistake mistake, const struct fm_emulator_settings *settings, float want,
                       char *how, size_t size)
{
    int ends[2], state = 0;
    if (pipe(ends) != 0) return -1;
    pid_t child = fork();
    if (child < 0) return -1;
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        char text[256] = "";
        int seen = judge(mistake, settings, want, text, sizeof text);
        if (seen) dprintf(STDERR_FILENO, "%s\n", text);
        _exit(seen);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    char rest[256];
    while ((got = read(ends[0], n < size - 1 ? how + n : rest, n < size - 1 ? size - 1 - n : sizeof rest)) >
           0)
        if (n < size - 1) n += (size_t)got;
    how[n] = 0;
    how[strcspn(how, "\n")] = 0;
    close(ends[0]);
    if (waitpid(child, &state, 0) != child) return -1;
    if (WIFSIGNALED(state)) return WTERMSIG(state) == SIGABRT ? 1 : -1;
    return WEXITSTATUS(state);
}

static const char *const policies[] = {"eager", "first", "last", "starving a", "starving b", "random"};
enum { POLICIES = 6, SEEDS = 6 };

static struct fm_emulator_settings settings_of(int policy, int seed)
{
    static const enum fm_emulator_policy kinds[] = {FM_EMULATOR_EAGER,  FM_EMULATOR_FIRST,
                                                    FM_EMULATOR_LAST,   FM_EMULATOR_STARVE,
                                                    FM_EMULATOR_STARVE, FM_EMULATOR_RANDOM};
    struct fm_emulator_settings settings = {
        .policy = kinds[policy], .starved = policy == 4, .seed = (uint64_t)seed, .thread_order = seed};
    return settings;
}

static int find(enum mistake mistake, float want)
{
    char how[256], first[256] = "";
    int seen = 0, tried = 0, strange = 0;
    const char *by = "";
    for (int policy = 0; policy < POLICIES; policy++)
        for (int seed = 0; seed < (policy < 3 ? 1 : SEEDS); seed++) {
            struct fm_emulator_settings settings = settings_of(policy, seed);
            int got = judge_apart(mistake, &settings, want, how, sizeof how);
            tried++;
            strange += got < 0;
            if (got > 0 && !seen++) {
                snprintf(first, sizeof first, "%s", how);
                by = policies[policy];
            }
        }
    bool well = !strange && (mistake == NONE ? !seen : seen > 0);
    printf("%s: %s: %d of %d orders%s%s%s%s\n", well ? "passed" : "FAILED", names[mistake], seen, tried,
           seen ? "; " : "", by, seen ? ": " : "", first);
    return well;
}

/* Every call fails in turn: an error, nothing left, no fault. */
static int calls_fail(float want)
{
    struct fm_emulator_settings settings = settings_of(2, 0);
    struct fm_emulator_counts counts;
    float result;
    fm_emulator_reset(&settings);
    if (run(NONE, &result)) return 0;
    fm_emulator_count(&counts);
    long long calls = counts.calls, bad = 0;
    for (long long n = 1; n <= calls; n++) {
        settings.fail_call = n;
        fm_emulator_reset(&settings);
        cudaError_t status = run(NONE, &result);
        fm_emulator_count(&counts);
        if (!status || counts.faults || counts.live) {
            printf("call %lld: %s, %lld left, %s\n", n, cudaGetErrorName(status), (long long)counts.live,
                   fm_emulator_fault());
            bad++;
        }
    }
    printf("%s: %lld calls fail in turn (the result is %g)\n", bad ? "FAILED" : "passed", calls,
           (double)want);
    return bad == 0;
}

int main(void)
{
    /* scale three times: w -> 8w + 7; then 100 i times the snapshot's and i + 1 times the report's elements
     */
    float w[4], want = 0;
    for (int i = 0; i < 4; i++) w[i] = 8 * (float)(i + 1) + 7;
    for (int i = 0; i < 4; i++) want += w[i] * (float)(i + 1) + w[i] * (float)(100 * i);
    want += w[0] * 9 + w[1] * 10;
    int passed = 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int mistake = NONE; mistake < MISTAKES; mistake++) passed += find((enum mistake)mistake, want);
    passed += calls_fail(want);
    printf("%d passed, %d failed\n", passed, MISTAKES + 1 - passed);
    return passed == MISTAKES + 1 ? 0 : 1;
}
