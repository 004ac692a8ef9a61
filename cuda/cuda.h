/* The CUDA backend: the host half. One thread makes every call (the scheduler's); nothing here blocks but
 * opening, loading, blobs and closing.
 *
 * It is a plug-in (engine/plugin.h) that is built once per CUDA major version, with the parts of Foldmill's
 * library that it needs linked in. The same sources run on the emulator (emulator/emulator.h).
 *
 *   backend.c  the table, and the plug-in's face
 *   check.c    statuses
 *   card.c     one GPU: what it is, whether it can be used, its memory, streams, pinned staging
 *   why.c      why it cannot be used, and what to do
 *   device.c   the cards of --device, which must be alike; describe, numbers, memory; `foldmill devices`
 *   staging.c  copies through pinned buffers
 *   list.c     what `foldmill devices` says
 *   arena.c    device memory: one allocation a card, dealt out by arithmetic
 *   data.c     the one upload: series, examples, targets, weights, folds
 *   plan/      program -> calls and addresses: a pure function of program, batch size and kind of card
 *   lane.c slot.c request.c wait.c graph.c timer.c state.c profile.c    lanes: see lane.h
 *   kernels/   all device code and its launches
 *   library/   cuDNN and cuBLAS: own declarations, opened at run time, choice of algorithms
 *   emulator/  stands in for CUDA where there is none
 *
 * Errors: every status goes through fm_cuda_check or its sisters. Any failure but want of memory marks the
 * device lost: every function that would do new work returns FM_EDEVICE from then on, so that the caller can
 * close its journal and end. A failure that leaves the context unusable (sticky) marks it dead as well: then
 * no CUDA call is made at all, lane_close and close only free host memory.
 */
#ifndef FM_CUDA_H
#define FM_CUDA_H

#include <cuda_runtime_api.h>

#include "engine/backend.h"
#include "kernels/kernels.h"

/* The major version of the toolkit that this is built with; the emulator counts as 13. */
#ifdef FM_EMULATED
#define FM_CUDA_MAJOR 13
#else
#define FM_CUDA_MAJOR (CUDART_VERSION / 1000)
#endif

#define FM_CUDA_MAX_CARDS 16
#define FM_CUDA_STAGING   (8 << 20) /* bytes of one of the two pinned staging buffers of a card */
#define FM_CUDA_ALIGN     256       /* of everything in an arena */

/* The next multiple of `step`. */
static inline int64_t fm_cuda_round_up(int64_t value, int64_t step)
{
    return (value + step - 1) / step * step;
}

struct fm_cuda_libraries; /* library/library.h */
struct fm_cuda_plan;      /* plan/plan.h */
struct fm_cuda_slot;      /* lane.h */

/* What a plan may depend on: equal for all cards of a device. */
struct fm_cuda_kind {
    int major, minor, sms;
    int64_t driver, runtime; /* as CUDA counts: 13000 */
    int64_t cudnn, cublas;   /* 0 = not there */
    int kernels;             /* enum fm_kernels of engine/backend.h: auto, own, library */
};

/* Device memory dealt out by first fit on the host: pure arithmetic, offsets are multiples of FM_CUDA_ALIGN.
 */
struct fm_arena {
    char *base; /* device memory */
    int64_t size, used;
    struct fm_arena_piece *first; /* in order of offsets, free and taken */
};
int fm_arena_init(struct fm_arena *arena, void *base, int64_t size); /* 0 or FM_ENOMEM (host) */
void fm_arena_fini(struct fm_arena *arena);                          /* does not free `base` */
void *fm_arena_take(struct fm_arena *arena, int64_t bytes);          /* NULL: no room */
void fm_arena_give(struct fm_arena *arena, void *piece);
int64_t fm_arena_largest(const struct fm_arena *arena); /* bytes of the largest free piece */

/* Of one data set on one card: one device allocation, and host copies of the structures that point into it.
 */
struct fm_cuda_resident {
    void *memory;
    int64_t bytes;
    struct fm_cuda_data *views;  /* [nviews], without shift and factor */
    struct fm_cuda_fold **folds; /* [nsplits][folds of it] */
    int64_t nviews, nsplits;
};
struct fm_cuda_fold {
    struct fm_cuda_set part[3];
    const float *shift, *factor;
};

struct fm_card {
    int number; /* CUDA's ordinal, after CUDA_VISIBLE_DEVICES */
    char name[64];
    int64_t total;       /* bytes */
    bool watchdog;       /* a display is attached: launches must stay short */
    cudaStream_t stream; /* for loading and blobs */
    void *staging[2];
    cudaEvent_t staged[2];
    int turn;                          /* which buffer the next upload takes */
    struct fm_arena arena;             /* base == NULL until the first lane opens */
    struct fm_cuda_resident *resident; /* [device->nresident] */
    void *dnn, *blas;                  /* library handles or NULL */
    struct fm_cuda_slot *slots;        /* list: all that were ever made */
    int64_t lanes;                     /* open */
    bool opened;
};

struct fm_device {
    struct fm_device_options options;
    struct fm_cuda_kind kind;
    const struct fm_cuda_libraries *libraries; /* NULL = none could be opened */
    char text[512], numbers[160];
    char why_no_library[512]; /* what cuDNN and cuBLAS are not used for, why, what to do; "" = nothing */
    struct fm_card cards[FM_CUDA_MAX_CARDS];
    int ncards;
    struct fm_resident *resident; /* [nresident], data == NULL = free */
    int nresident;
    struct fm_transfers transfers;
    bool lost;                                   /* no new work any more */
    bool dead;                                   /* no CUDA call any more, not even to free something */
    struct fm_error why;                         /* if lost */
    struct fm_lane *lane;                        /* all that are open */
    uint32_t asked;                              /* how often wait.c asked streams: whose turn it is */
    struct fm_cuda_work *done_first, *done_last; /* requests that are over and not yet reported (wait.c) */
    struct fm_cuda_plan *plans; /* list of those made so far, by program hash and batch size */
    struct fm_profile *profile; /* run --profile */
};

/* check.c. 0, or a negative code with a sentence in err ("could not copy to the card: the card is out of
 * memory"); marks the device lost for errors after which CUDA cannot go on. FM_ENOMEM for want of memory,
 * FM_EDEVICE otherwise. `what` completes "could not ...". */
int fm_cuda_check(struct fm_device *device, cudaError_t status, struct fm_error *err, const char *what);
/* For calls that give something back, or whose failure is no matter otherwise: only marks the device lost if
 * CUDA cannot go on. Whether the call succeeded; false without making it where no call may be made. */
bool fm_cuda_noted(struct fm_device *device, cudaError_t status);
#define FM_CUDA_NOTED(device, call) ((device)->dead ? false : fm_cuda_noted((device), (call)))
/* 0, or FM_EDEVICE with the first reason: to be called before anything else by whatever would use CUDA. */
int fm_cuda_alive(const struct fm_device *device, struct fm_error *err);
int fm_card_use(struct fm_device *device, const struct fm_card *card,
                struct fm_error *err); /* cudaSetDevice */

/* why.c: one sentence about what to do. `status` is what the first calls say; number: the card that it is
 * about, -1 = none. */
void fm_cuda_why(cudaError_t status, int number, char *why, size_t why_size);
/* Its parts that depend on versions: a driver that supports this CUDA version (12020; 0 = there is none) and
 * a card of this architecture (61; 0 = unknown), for a plug-in of this CUDA major version. */
void fm_cuda_why_driver(int driver, int toolkit, char *why, size_t why_size);
void fm_cuda_why_no_code(int sm, int toolkit, char *why, size_t why_size);

/* staging.c: between any host memory and device memory through the pinned buffers, counted in transfers.
 * Blocks until the bytes are there (to_host) or may be overwritten (to_device: ordered before later work of
 * card->stream; call fm_card_settle before other streams use them). */
int fm_card_to_device(struct fm_device *device, struct fm_card *card, void *to, const void *from,
                      int64_t bytes, struct fm_error *err);
int fm_card_to_host(struct fm_device *device, struct fm_card *card, void *to, const void *from, int64_t bytes,
                    struct fm_error *err);
int fm_card_settle(struct fm_device *device, struct fm_card *card,
                   struct fm_error *err); /* waits for card->stream */

/* card.c, device.c */
/* Whether the present card can be used by this build, else a sentence about what to do. */
int fm_card_usable(int number, char *why, size_t why_size);
int fm_card_open(struct fm_device *device, struct fm_card *card, int number, struct fm_error *err);
void fm_card_close(struct fm_device *device, struct fm_card *card);
/* Bytes that lanes may take: free memory less a reserve. */
int fm_card_room(struct fm_device *device, struct fm_card *card, int64_t *bytes, struct fm_error *err);
int64_t fm_card_reserve(const struct fm_card *card);
int fm_card_arena(struct fm_device *device, struct fm_card *card, struct fm_error *err); /* makes it, once */
int fm_cuda_open(struct fm_device **device, const struct fm_device_options *options, struct fm_error *err);
void fm_cuda_close(struct fm_device *device);
const char *fm_cuda_describe(const struct fm_device *device);
const char *fm_cuda_numbers(const struct fm_device *device);
int64_t fm_cuda_lanes(const struct fm_device *device);
int64_t fm_cuda_memory(const struct fm_device *device);
void fm_cuda_transfers(const struct fm_device *device, struct fm_transfers *transfers);
/* engine/plugin.h */
int fm_cuda_usable(const char *select, char *why, size_t why_size);
int fm_cuda_list(struct fm_text *text, bool libraries, struct fm_error *err);

/* data.c: refused by arithmetic, with both numbers, when it is more than the card has free. */
int fm_cuda_load(struct fm_device *device, const struct fm_resident *resident, int *dataset,
                 struct fm_error *err);
void fm_cuda_unload(struct fm_device *device, int dataset);

/* plan/plan.h, for the table */
bool fm_cuda_supports(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                      char *why, size_t why_size);
int64_t fm_cuda_cost(const struct fm_device *device, const struct fm_program *program, int64_t batch);
uint64_t fm_cuda_plan_hash(const struct fm_device *device, const struct fm_program *program, int64_t batch);
int fm_cuda_explain(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                    struct fm_text *text, struct fm_error *err);
int fm_cuda_plan_choices(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                         struct fm_text *text, struct fm_error *err);
int fm_cuda_plan_use(struct fm_device *device, const struct fm_program *program, int64_t batch,
                     const char *choices, struct fm_error *err);

extern const struct fm_backend fm_backend_cuda;

#endif
