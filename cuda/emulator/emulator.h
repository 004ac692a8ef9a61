/* Foldmill's CUDA emulator: runs the CUDA half of Foldmill on a machine without a GPU, for tests and `make
 * emulated`.
 *
 * Device half: the threads of a block are fibers (assembly switch on x86-64, ucontext elsewhere); barriers,
 * shuffles, votes, atomics, shared memory; uninitialised shared memory is NaN; launches are checked against
 * the simulated card's limits; a divergent barrier is reported with file and line. Host half: streams whose
 * work runs late - when the host waits or asks, in an order that the test chooses -, events, capture, graphs
 * that run in any topological order, device memory that is one range the host cannot read, filled with NaN
 * and never used twice, pinned buffers that are locked while a copy uses them. Stand-ins for the cuDNN and
 * cuBLAS calls in use check their arguments more strictly than the real ones.
 *
 * It shows: results, missing waits, wrong addresses, illegal calls during capture, leaks, paths after
 * failures. It does not show: speed, races inside a warp, alignment faults (but under the sanitizer),
 * real asynchrony, registers, kernels that read plain host memory whose values are still there, launch
 * bounds. A green run is never called "CUDA tested".
 *
 * The host's own touch of device memory or of a locked buffer is said and ends the process by abort(): run
 * what may do that in a process of its own. Failures of free and destroy calls on demand still free, so that
 * leaks can be counted; after a fatal status the context is lost, and `live` is 0.
 *
 * The emulator is one per process, as a driver is. It is no part of Foldmill's library or real plug-ins. */
#ifndef FM_CUDA_EMULATOR_H
#define FM_CUDA_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In which order the streams' work runs. */
enum fm_emulator_policy {
    FM_EMULATOR_EAGER,  /* at once, when it is enqueued: what a program without mistakes also stands */
    FM_EMULATOR_FIRST,  /* the earliest-made stream that can run: later ones starve */
    FM_EMULATOR_LAST,   /* the latest-made: earlier ones starve */
    FM_EMULATOR_STARVE, /* every stream but `starved`, as long as any other can run */
    FM_EMULATOR_RANDOM
};

struct fm_emulator_settings {
    enum fm_emulator_policy policy;
    int starved; /* number of the stream, in the order of making */
    uint64_t seed;
    int thread_order; /* of a block's threads: 0 forwards, 1 backwards, else a shuffle with this seed */
    int cards;        /* how many there are; 0 = 1, negative = none */
    const char
        *card; /* which kind, see fm_emulator_cards: "gtx1060", "gtx1660ti", "rtx3060", "h200" (the first) */
    const char *others; /* the kind of all cards but the first; NULL = the same (else cards = 0 means 2) */
    int driver; /* the CUDA version that it supports, as 12020; 0 = cudart's. Of an older major version: every
                   call says 35 */
    int64_t memory;    /* device memory of a card in bytes, 0 = 1 GB; what is never touched costs nothing */
    int64_t kernel_us; /* microseconds that a kernel, copy or library call takes between events, which then
                        * follow a clock that nothing else moves; 0 = the machine's own clock */
    bool driver_time;  /* count driver_ns */
    int64_t fail_call; /* fail the n-th CUDA, cuDNN or cuBLAS call that can fail, from 1; 0 = none */
    int fail_status;   /* with this status; 0 = one that fits the call */
    bool fail_sticky;  /* and every call after it */
    bool no_library;   /* cuDNN and cuBLAS cannot be opened */
    bool no_graphs;    /* capture is not supported */
    bool no_driver;    /* cudaGetDeviceCount says 35 */
    bool leaks;        /* fm_emulator_closed: what lives, and calls after a loss, are mistakes */
};

struct fm_emulator_counts {
    int64_t calls;                       /* that can fail */
    int64_t launches;                    /* of kernels, outside graphs */
    int64_t graph_launches, graph_nodes; /* nodes: that ran */
    int64_t captured;                    /* nodes captured */
    int64_t library_calls;
    int64_t to_device, to_host; /* bytes copied; what kernels read or write of mapped memory does not count */
    int64_t allocations, synchronisations, host_copies;
    int64_t switches;         /* of fibers */
    int64_t driver_ns;        /* with settings.driver_time: of this thread's CPU time, inside the calls */
    int64_t faults;           /* mistakes of the program that were seen; each was printed to stderr */
    int64_t calls_after_loss; /* made although an earlier call had said that the context is lost */
    int64_t live; /* allocations, pinned buffers, streams, events, graphs, handles, descriptors that exist */
};

/* The kinds of cards that can be simulated, a list that ends with NULL. */
const char *const *fm_emulator_cards(void);
/* Forgets everything, leaks included, and starts anew. NULL = all defaults. */
void fm_emulator_reset(const struct fm_emulator_settings *settings);
void fm_emulator_set(
    const struct fm_emulator_settings *settings); /* without forgetting; cards, card, others, memory stay */
void fm_emulator_count(struct fm_emulator_counts *counts);
const char *fm_emulator_fault(void); /* the first one's text, or "" */
/* Whether fm_emulator_reset or fm_emulator_set was called in this process. */
bool fm_emulator_is_set(void);
/* The device was closed, or could not be opened. */
void fm_emulator_closed(void);
/* settings.c: reads FOLDMILL_EMULATOR
 * ("policy=random,seed=3,fail=17,memory=8000000,card=gtx1060+h200,cards=2") at its first call in the process
 * and says on stderr that the device is emulated; does nothing where settings were given by
 * fm_emulator_reset. */
void fm_emulator_from_environment(void);
/* The settings of such a list; false with a sentence when it has a word that is none. */
bool fm_emulator_parse(const char *list, struct fm_emulator_settings *settings, char *why, size_t why_size);
/* Copies device memory for a test to look at or change; all queued work runs first. */
void fm_emulator_peek(void *to, const void *device, size_t bytes);
void fm_emulator_poke(void *device, const void *from, size_t bytes);
/* A program that deals out an allocation by itself says which pieces: from then on copies, memsets and
 * library operands have to lie in one of them. A piece that is given back is filled with NaN at once - no
 * work for it may be under way any more - unless nothing ran since it was taken. Parts of a piece may overlap
 * each other (tensors that share room); where a piece has parts, a library operand has to lie in one of them,
 * and they end with their piece. What is no device memory is passed over. */
void fm_emulator_piece_take(const void *piece, size_t bytes);
void fm_emulator_piece_part(const void *part, size_t bytes);
void fm_emulator_piece_give(const void *piece);

#ifdef __cplusplus
}
#endif

#endif
