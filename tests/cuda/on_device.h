/* Device memory for tests of kernels: every piece stands between guards, and closing says whether any was
 * touched, whether the emulator saw a mistake, and whether everything was given back. Asserts that each call
 * succeeds. */
#ifndef FM_TESTS_ON_DEVICE_H
#define FM_TESTS_ON_DEVICE_H

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <string.h>

#include "emulator/emulator.h"
#include "kernels/kernels.h"

enum { ON_DEVICE_GUARD = 256, ON_DEVICE_PIECES = 96 };

struct on_device {
    cudaStream_t stream;
    struct {
        unsigned char *base;
        size_t bytes;
    } piece[ON_DEVICE_PIECES];
    int npieces;
};

/* thread_order: as in emulator.h. */
static inline void on_device_open(struct on_device *d, int thread_order)
{
    const struct fm_emulator_settings settings = {.thread_order = thread_order};
    memset(d, 0, sizeof *d);
    fm_emulator_reset(&settings);
    cr_assert_eq(cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), cudaSuccess);
}

/* `from` may be NULL: NaN, as float and as double. */
static inline void *on_device_put(struct on_device *d, const void *from, size_t bytes)
{
    unsigned char guard[ON_DEVICE_GUARD];
    void *base;
    cr_assert(d->npieces < ON_DEVICE_PIECES);
    cr_assert_eq(cudaMalloc(&base, bytes + 2 * ON_DEVICE_GUARD), cudaSuccess);
    unsigned char *at = base;
    memset(guard, 0xFF, sizeof guard);
    for (size_t i = 0; i < bytes; i += sizeof guard)
        fm_emulator_poke(at + ON_DEVICE_GUARD + i, guard,
                         bytes - i < sizeof guard ? bytes - i : sizeof guard);
    memset(guard, 0xA5, sizeof guard);
    fm_emulator_poke(at, guard, sizeof guard);
    fm_emulator_poke(at + ON_DEVICE_GUARD + bytes, guard, sizeof guard);
    d->piece[d->npieces].base = at;
    d->piece[d->npieces++].bytes = bytes;
    if (from && bytes > 0) fm_emulator_poke(at + ON_DEVICE_GUARD, from, bytes);
    return at + ON_DEVICE_GUARD;
}

static inline void on_device_get(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) fm_emulator_peek(to, from, bytes);
}

static inline void on_device_close(struct on_device *d)
{
    unsigned char guard[2][ON_DEVICE_GUARD], want[ON_DEVICE_GUARD];
    memset(want, 0xA5, sizeof want);
    for (int i = 0; i < d->npieces; i++) {
        fm_emulator_peek(guard[0], d->piece[i].base, sizeof guard[0]);
        fm_emulator_peek(guard[1], d->piece[i].base + ON_DEVICE_GUARD + d->piece[i].bytes, sizeof guard[1]);
        cr_assert(memcmp(guard[0], want, sizeof want) == 0, "something was written before piece %d", i);
        cr_assert(memcmp(guard[1], want, sizeof want) == 0, "something was written behind piece %d", i);
        cr_assert_eq(cudaFree(d->piece[i].base), cudaSuccess);
    }
    cr_assert_eq(cudaStreamDestroy(d->stream), cudaSuccess);
    struct fm_emulator_counts counts;
    fm_emulator_count(&counts);
    cr_assert(counts.faults == 0, "%s", fm_emulator_fault());
    cr_assert_eq(counts.live, 0);
}

/* A lane on the device from the host's copy, and where kernels work on it. */
static inline struct fm_cuda_place on_device_lane(struct on_device *d, const struct fm_cuda_lane *lane,
                                                  int activity, int rows)
{
    return (struct fm_cuda_place){.stream = d->stream,
                                  .lane = on_device_put(d, lane, sizeof *lane),
                                  .activity = activity,
                                  .rows = rows};
}

static inline struct fm_cuda_control on_device_control(const struct fm_cuda_place *place)
{
    struct fm_cuda_lane lane;
    on_device_get(&lane, place->lane, sizeof lane);
    return lane.control;
}

static inline void on_device_set_control(const struct fm_cuda_place *place,
                                         const struct fm_cuda_control *control)
{
    struct fm_cuda_lane lane;
    on_device_get(&lane, place->lane, sizeof lane);
    lane.control = *control;
    fm_emulator_poke(place->lane, &lane, sizeof lane);
}

static inline struct fm_cuda_set on_device_set(struct on_device *d, const struct fm_indexset *set)
{
    struct fm_cuda_set out = {.count = set->count,
                              .nruns = set->nruns,
                              .origin = set->origin,
                              .stride = set->stride,
                              .nbits = set->nbits,
                              .pace = set->pace};
    const size_t words = (size_t)(set->nbits + 63) / 64,
                 blocks = (words + FM_INDEXSET_BLOCK - 1) / FM_INDEXSET_BLOCK;
    if (set->bits) {
        out.bits = on_device_put(d, set->bits, words * sizeof *set->bits);
        out.blocks = on_device_put(d, set->blocks, blocks * sizeof *set->blocks);
    } else if (set->runs) {
        out.runs = on_device_put(d, set->runs, (size_t)set->nruns * sizeof *set->runs);
    }
    return out;
}

#endif
