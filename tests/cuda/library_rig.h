/* A card with its libraries, for the tests of library/. */
#ifndef FM_TESTS_LIBRARY_RIG_H
#define FM_TESTS_LIBRARY_RIG_H

#include <criterion/criterion.h>
#include <string.h>

#include "emulator/emulator.h"
#include "emulator/library.h"
#include "library/library.h"

#define ARENA (16 << 20)
#define MAJOR (CUDART_VERSION / 1000)

/* A card with its libraries, a stream and some memory. */
struct rig {
    struct fm_device device;
    struct fm_card *card;
    cudaStream_t stream;
    char *arena; /* workspace first */
    size_t used;
};

static inline int rig_open(struct rig *r, struct fm_error *err)
{
    memset(r, 0, sizeof *r);
    r->card = &r->device.cards[0];
    r->device.ncards = 1;
    r->device.kind.major = 9;
    struct fm_cuda_libraries *libraries = NULL;
    int status = fm_libraries_open(&libraries, MAJOR, 90, r->device.why_no_library,
                                   sizeof r->device.why_no_library, err);
    r->device.libraries = libraries;
    if (!status) status = fm_library_handles_open(&r->device, r->card, err);
    if (status) return status;
    status = fm_cuda_check(&r->device, cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking), err,
                           "make a stream");
    if (status) return status;
    r->used = FM_LIBRARY_WORKSPACE;
    return fm_cuda_check(&r->device, cudaMalloc((void **)&r->arena, ARENA), err, "get memory");
}
static inline void rig_close(struct rig *r)
{
    if (!r->device.dead) {
        if (r->arena) cudaFree(r->arena);
        if (r->stream) cudaStreamDestroy(r->stream);
    }
    fm_library_handles_close(&r->device, r->card);
    fm_libraries_free((struct fm_cuda_libraries *)r->device.libraries);
}
static inline void rig_start(struct rig *r, const struct fm_emulator_settings *settings)
{
    struct fm_error err = {0};
    fm_emulator_reset(settings);
    cr_assert_eq(rig_open(r, &err), 0, "%s", err.text);
    cr_assert(r->card->dnn && r->card->blas, "%s", r->device.why_no_library);
}
/* No mistake was seen, nothing was left behind. */
static inline void nothing_wrong(const char *when)
{
    struct fm_emulator_counts counts;
    fm_emulator_count(&counts);
    cr_assert_eq(counts.faults, 0, "%s: %s", when, fm_emulator_fault());
    cr_assert_eq(counts.live, 0, "%s: %d objects are left", when, (int)counts.live);
}
static inline void rig_stop(struct rig *r, const char *when)
{
    rig_close(r);
    nothing_wrong(when);
}

static inline float *take(struct rig *r, size_t floats)
{
    float *at = (float *)(r->arena + r->used);
    r->used += (floats * sizeof *at + 255) / 256 * 256;
    cr_assert(r->used <= ARENA);
    return at;
}

#endif
