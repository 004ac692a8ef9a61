/* The emulator's device half: what kernels compute, in every order of threads, and that mistakes of kernels
 * are seen. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/emulator.h"
#include "emulator/probe.h"

TestSuite(emulator_device, .timeout = 60);

static void good(cudaError_t status)
{
    cr_assert_eq(status, cudaSuccess, "%s", cudaGetErrorName(status));
}

struct card {
    cudaStream_t stream;
    void *memory;
};

/* A stream and 64 KB of device memory on a fresh emulator. */
static struct card begin(int thread_order)
{
    struct fm_emulator_settings settings = {.policy = FM_EMULATOR_FIRST, .thread_order = thread_order};
    struct card card;
    fm_emulator_reset(&settings);
    good(cudaStreamCreateWithFlags(&card.stream, cudaStreamNonBlocking));
    good(cudaMalloc(&card.memory, 65536));
    return card;
}

static void end(struct card *card, int64_t faults)
{
    struct fm_emulator_counts counts;
    good(cudaFree(card->memory));
    good(cudaStreamDestroy(card->stream));
    fm_emulator_count(&counts);
    cr_assert_eq(counts.faults, faults, "%s", fm_emulator_fault());
    cr_assert_eq(counts.live, 0);
}

static const int orders[] = {0, 1, 2, 3, 77};
#define FOR_ORDERS for (size_t o = 0; o < sizeof orders / sizeof *orders; o++)

Test(emulator_device, every_thread_runs_once)
{
    static const struct dim3 grids[] = {{1, 1, 1}, {7, 1, 1}, {3, 2, 5}, {64, 3, 1}};
    static const struct dim3 blocks[] = {{1, 1, 1}, {31, 1, 1}, {33, 1, 1}, {4, 5, 6}, {8, 8, 1}};
    FOR_ORDERS for (int g = 0; g < 4; g++) for (int b = 0; b < 5; b++)
    {
        struct card card = begin(orders[o]);
        unsigned n = grids[g].x * grids[g].y * grids[g].z * blocks[b].x * blocks[b].y * blocks[b].z;
        static int got[65536 / 4], all = -1;
        cr_assert_leq(n * 4, 65536 + 65536);
        if (n * 4 <= 65536) {
            good(fm_probe_index(card.stream, card.memory, grids[g], blocks[b]));
            fm_emulator_peek(got, card.memory, n * sizeof *got);
            for (unsigned i = 0; i < n; i++) cr_assert_eq(got[i], (int)i);
            if (n * 4 < 65536) {
                fm_emulator_peek(&got[0], (int *)card.memory + n, sizeof *got);
                cr_assert_eq(got[0], all);
            }
        }
        end(&card, 0);
    }
}

Test(emulator_device, barriers)
{
    FOR_ORDERS for (int threads = 1; threads <= 1024; threads = threads * 3 + 1)
    {
        struct card card = begin(orders[o]);
        int got[4], rounds = 50;
        for (int n = 0; n <= threads; n += threads > 4 ? threads / 4 : 1) {
            good(fm_probe_barriers(card.stream, card.memory, threads, n, rounds));
            fm_emulator_peek(got, card.memory, sizeof got);
            cr_assert_eq(got[0], n > 0);
            cr_assert_eq(got[1], n == threads);
            cr_assert_eq(got[2], n);
            cr_assert_eq(got[3], rounds * (rounds - 1) / 2);
        }
        end(&card, 0);
    }
}

static bool reversed(struct card *card, int n, int dynamic, int barrier)
{
    float x[256] = {0};
    bool same = true;
    for (int i = 0; i < n; i++) x[i] = (float)i;
    fm_emulator_poke(card->memory, x, (size_t)n * sizeof *x);
    good(fm_probe_reverse(card->stream, card->memory, n, dynamic, barrier));
    fm_emulator_peek(x, card->memory, (size_t)n * sizeof *x);
    for (int i = 0; i < n; i++) same = same && x[i] == (float)(n - 1 - i);
    return same;
}

/* A missing barrier gives a wrong result in every order, because shared memory begins as NaN. */
Test(emulator_device, missing_barrier_shows)
{
    static const int sizes[] = {2, 32, 33, 100, 256};
    FOR_ORDERS for (int s = 0; s < 5; s++) for (int dynamic = 0; dynamic < 2; dynamic++)
    {
        struct card card = begin(orders[o]);
        cr_assert(reversed(&card, sizes[s], dynamic, 1));
        cr_assert_not(reversed(&card, sizes[s], dynamic, 0), "order %d, %d threads, dynamic %d", orders[o],
                      sizes[s], dynamic);
        cr_assert(reversed(&card, sizes[s], dynamic, 1));
        end(&card, 0);
    }
}

Test(emulator_device, warps)
{
    static const int threads[] = {1, 5, 32, 40, 64, 70, 1024};
    FOR_ORDERS for (int t = 0; t < 7; t++)
    {
        struct card card = begin(orders[o]);
        static int out[1024][8];
        int n = threads[t];
        good(fm_probe_warp(card.stream, card.memory, n));
        fm_emulator_peek(out, card.memory, (size_t)n * sizeof out[0]);
        for (int i = 0; i < n; i++) {
            int lane = i % 32, first = i - lane, lanes = n - first < 32 ? n - first : 32, nan = -1;
            unsigned odd = 0xaaaaaaaau;
            if (lanes < 32) odd &= (1u << lanes) - 1;
            cr_assert_eq(out[i][0], lanes > 3 ? first + 3 : nan);
            cr_assert_eq(out[i][1], lane ? i - 1 : i);
            cr_assert_eq(out[i][2], lane == 31 ? i : lane + 1 < lanes ? i + 1 : nan);
            cr_assert_eq(out[i][3], (lane ^ 5) < lanes ? first + (lane ^ 5) : nan);
            cr_assert_eq((unsigned)out[i][4], odd);
            cr_assert_eq(out[i][5], first == 32 && lanes > 1);
            cr_assert_eq(out[i][6], first + lanes <= 40);
            cr_assert_eq(out[i][7], lane % 2 ? -1 : (lane ^ 2) < lanes ? first + (lane ^ 2) : nan);
        }
        end(&card, 0);
    }
}

/* One round's exchange on the host: what thread `from` had, if it is there. */
static unsigned had(const unsigned *v, int threads, int from)
{
    return from < threads ? v[from] : ~0u;
}

/* Barriers and shuffles of whole warps, parts of warps and some warps in turn: the emulator changes its way
 * of choosing threads at each. */
Test(emulator_device, barriers_and_shuffles_mixed)
{
    static const int sizes[] = {1, 2, 31, 64, 80, 300, 1024};
    static unsigned v[1024], before[1024];
    FOR_ORDERS for (int s = 0; s < 7; s++)
    {
        struct card card = begin(orders[o]);
        int n = sizes[s], rounds = 7;
        for (int i = 0; i < n; i++) v[i] = (unsigned)i;
        for (int r = 0; r < rounds; r++)
            for (int part = 0; part < 4; part++) {
                memcpy(before, v, sizeof v);
                for (int i = 0; i < n; i++) {
                    int lane = i % 32, first = i - lane;
                    int from[] = {(i + 1) % n, first + (lane ^ 1 << r % 5), first + (lane ^ 2),
                                  lane == 31 ? i : i + 1};
                    bool takes_part[] = {true, true, i % 2 == 0, i / 32 % 2 == 1};
                    if (takes_part[part]) v[i] = 3 * before[i] + had(before, n, from[part]);
                }
            }
        good(fm_probe_mixed(card.stream, card.memory, n, rounds));
        fm_emulator_peek(before, card.memory, (size_t)n * sizeof *v);
        for (int i = 0; i < n; i++)
            cr_assert_eq(before[i], v[i], "thread %d of %d, order %d", i, n, orders[o]);
        end(&card, 0);
    }
}

Test(emulator_device, atomics)
{
    FOR_ORDERS
    {
        struct card card = begin(orders[o]);
        unsigned out[6] = {0, 0, 0, 1000, 0, 0}, n = 13 * 50;
        fm_emulator_poke(card.memory, out, sizeof out);
        good(fm_probe_atomics(card.stream, card.memory, 13, 50));
        fm_emulator_peek(out, card.memory, sizeof out);
        cr_assert_eq(out[0], n * (n - 1) / 2);
        cr_assert_eq(out[1], n % 10);
        cr_assert_eq(out[2], n - 1);
        cr_assert_eq(out[3], 0);
        cr_assert_eq(out[4], 13);
        cr_assert_eq(out[5], 0);
        end(&card, 0);
    }
}

/* Shared memory is NaN at the beginning of every block, device memory when it is new. */
Test(emulator_device, memory_begins_as_nan)
{
    struct card card = begin(0);
    float out[4];
    void *fresh;
    good(cudaMalloc(&fresh, 4 << 20));
    for (int blocks = 1; blocks < 200; blocks++) {
        good(fm_probe_poison(card.stream, card.memory, (float *)fresh + blocks * 1000, blocks));
        fm_emulator_peek(out, card.memory, sizeof out);
        for (int i = 0; i < 4; i++) cr_assert(isnan(out[i]), "%d of %d blocks", i, blocks);
    }
    good(cudaFree(fresh));
    end(&card, 0);
}

Test(emulator_device, limits)
{
    static const struct {
        struct dim3 grid, block;
        size_t shared;
        int much;
        bool fits;
    } launches[] = {
        {{1, 1, 1}, {1, 1, 1}, 0, 0, true},
        {{1, 1, 1}, {1024, 1, 1}, 49152, 0, true},
        {{1, 1, 1}, {1025, 1, 1}, 0, 0, false},
        {{1, 1, 1}, {32, 33, 1}, 0, 0, false},
        {{1, 1, 1}, {16, 1, 64}, 0, 0, true},
        {{1, 1, 1}, {1, 1, 65}, 0, 0, false},
        {{0, 1, 1}, {1, 1, 1}, 0, 0, false},
        {{1, 1, 1}, {0, 1, 1}, 0, 0, false},
        {{1, 65535, 1}, {1, 1, 1}, 0, 0, true},
        {{1, 65536, 1}, {1, 1, 1}, 0, 0, false},
        {{1, 1, 65536}, {1, 1, 1}, 0, 0, false},
        {{70000, 1, 1}, {1, 1, 1}, 0, 0, true},
        {{1, 1, 1}, {1, 1, 1}, 49153, 0, false},
        {{1, 1, 1}, {1, 1, 1}, 0, 1, false},
        {{0x80000000u, 1, 1}, {1, 1, 1}, 0, 0, false},
    };
    struct card card = begin(0);
    int64_t bad = 0;
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++) {
        cudaError_t status = fm_probe_launch(card.stream, launches[i].grid, launches[i].block,
                                             launches[i].shared, launches[i].much);
        cr_assert_eq(status, launches[i].fits ? cudaSuccess : cudaErrorInvalidConfiguration, "%zu", i);
        bad += !launches[i].fits;
    }
    good(cudaStreamSynchronize(card.stream));
    end(&card, bad);
}

/* What is static is only known when the kernel has run, so the launch itself is let through. */
Test(emulator_device, static_shared_memory_counts)
{
    FOR_ORDERS
    {
        struct card card = begin(orders[o]);
        int most;
        good(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlock, 0));
        good(fm_probe_shared(card.stream, card.memory, (size_t)most - 132));
        good(cudaStreamSynchronize(card.stream));
        end(&card, 0);
        card = begin(orders[o]);
        good(fm_probe_shared(card.stream, card.memory, (size_t)most - 131));
        cr_assert_eq(cudaStreamSynchronize(card.stream), cudaErrorLaunchFailure);
        cr_assert(strstr(fm_emulator_fault(), "at least 132 bytes of static"), "%s", fm_emulator_fault());
    }
}

/* Each mistake is told with the file, and the context is lost. */
Test(emulator_device, mistakes_of_kernels)
{
    static const struct {
        enum fm_probe_mistake mistake;
        cudaError_t status;
        const char *text;
    } mistakes[] = {
        {FM_PROBE_TWO_BARRIERS, cudaErrorLaunchFailure, "probe.cc"},
        {FM_PROBE_ENDED, cudaErrorLaunchFailure, "divergent barrier"},
        {FM_PROBE_SKIPPED, cudaErrorLaunchFailure, "divergent barrier"},
        {FM_PROBE_NOT_IN_MASK, cudaErrorLaunchFailure, "not in the mask 55555555"},
        {FM_PROBE_ALONE, cudaErrorLaunchFailure, "waits for ever"},
        {FM_PROBE_DEEP, cudaErrorIllegalAddress, "stack"},
        {FM_PROBE_BEYOND, cudaErrorIllegalAddress, "mistaken: touches"},
        {FM_PROBE_TRAP, cudaErrorLaunchFailure, "trap at"},
    };
    FOR_ORDERS for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
    {
        struct card card = begin(orders[o]);
        struct fm_emulator_counts counts;
        good(fm_probe_mistake(card.stream, card.memory, mistakes[i].mistake));
        cr_assert_eq(cudaStreamSynchronize(card.stream), mistakes[i].status, "%zu", i);
        cr_assert(strstr(fm_emulator_fault(), mistakes[i].text), "%zu: %s", i, fm_emulator_fault());
        cr_assert_eq(cudaGetLastError(), mistakes[i].status);
        cr_assert_eq(cudaGetLastError(), mistakes[i].status);
        fm_emulator_count(&counts);
        cr_assert_eq(counts.faults, 1);
        cr_assert_eq(counts.calls_after_loss, 0);
        cr_assert_eq(cudaFree(card.memory), mistakes[i].status);
        fm_emulator_count(&counts);
        cr_assert_eq(counts.calls_after_loss, 1);
    }
    struct card card = begin(0);
    cr_assert(reversed(&card, 100, 0, 1));
    end(&card, 0);
}

/* Wild and closed addresses, in kernels: said, and the context is lost. */
Test(emulator_device, wild_addresses)
{
    static const char *const texts[] = {"no device memory", "was freed", "outside any", "card 1 but runs on"};
    for (int i = 0; i < 4; i++) {
        struct fm_emulator_settings settings = {.policy = FM_EMULATOR_FIRST, .cards = 2};
        fm_emulator_reset(&settings);
        cudaStream_t stream;
        void *mine, *freed, *others;
        good(cudaSetDevice(1));
        good(cudaMalloc(&others, 4));
        good(cudaSetDevice(0));
        good(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        good(cudaMalloc(&freed, 16));
        good(cudaMalloc(&mine, 16));
        good(cudaFree(freed));
        void *wild[] = {(void *)64, freed, (char *)mine + 4096, others};
        good(fm_probe_move(stream, mine, mine));
        good(fm_probe_move(stream, wild[i], mine));
        good(fm_probe_move(stream, mine, mine));
        cr_assert_eq(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
        cr_assert(strstr(fm_emulator_fault(), texts[i]), "%s", fm_emulator_fault());
        cr_assert(strstr(fm_emulator_fault(), "move"), "%s", fm_emulator_fault());
    }
}
