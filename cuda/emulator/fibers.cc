/* The threads of a block as fibers.
 *
 * A thread only gets a stack of its own when it has to wait: the worker on a stack starts one thread after
 * another, and when one of them waits - at a barrier, in a shuffle - it keeps that stack, and another stack
 * becomes the worker. A kernel without barriers is therefore a loop over calls. Control passes from thread to
 * thread directly; warp by warp, in the settings' order, until no thread of a warp can go on.
 *
 * Barriers are strict: all threads of the block, none of which may have ended, at the same place in the
 * source. A shuffle or vote takes place when all threads of its mask that exist and have not ended have come,
 * at the same place; the last to come exchanges the values for all. What a shuffle reads from a thread that
 * takes no part is NaN. */
#include <stdio.h>
#include <string.h>

#include "emulator/core.h"
#include "emulator/device.h"
#include "emulator/switch.h"

namespace
{
enum { WARPS = FM_EMULATED_THREADS / 32 };

struct meeting { /* of threads of a warp, before all have come */
    unsigned mask, come;
    const char *file;
    int line;
};
struct warp {
    unsigned there, begun, ready, ended;
    int meetings;
    struct meeting meeting[32];
    unsigned voters; /* predicate of each that has come */
    uint64_t value[32], got[32];
    int source[32];
    unsigned ballot[32], asked[32]; /* results of a vote: ballot and participants */
};
enum sweep { NO_SWEEP, BLOCK_SWEEP, WARP_SWEEP };
struct block {
    const struct fm_kernel *kernel;
    void *caller;
    int threads, warps;
    int now, start; /* the thread that runs; the one that a fresh worker begins with */
    int live, at_barrier, ended;
    int barrier_kind, barrier_line, barrier_true, barrier_result;
    const char *barrier_file;
    bool failed;
    enum sweep sweep;
    bool first;          /* the sweep at the start */
    int at, end;         /* the sweep's place in `sequence` */
    unsigned turn, able; /* position in `order`; positions whose warps may have a thread that can run */
    unsigned order[WARPS], position[WARPS];
    int lanes; /* 0 forwards, 1 backwards, else rotated by `rotation` */
    unsigned rotation;
    int64_t switches;
    struct uint3 index[FM_EMULATED_THREADS];
    dim3 indexed;                                         /* the block that `index` is for */
    int sequence[FM_EMULATED_THREADS], begins[WARPS + 1]; /* of each position */
    void *waiting[FM_EMULATED_THREADS]; /* where each thread goes on; NULL: it has not begun */
    struct warp warp[WARPS];
};
} // namespace
static struct block *b;

extern "C" {
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
int fm_emulated_lane;
unsigned char *fm_emulated_dynamic;
}

/* ---- who is next ---------------------------------------------------------------------------------------
 *
 * After the start and after every barrier all threads can run: a sweep goes through them in one fixed
 * sequence, and nothing is looked up. The first shuffle or vote ends the sweep; from then on masks say which
 * threads can run - except that a shuffle or vote of a whole warp begins a sweep through that warp. */

static inline int pick_lane(unsigned mask)
{
    if (b->lanes == 0) return __builtin_ctz(mask);
    if (b->lanes == 1) return 31 - __builtin_clz(mask);
    unsigned turned = b->rotation ? mask >> b->rotation | mask << (32 - b->rotation) : mask;
    return (int)((unsigned)__builtin_ctz(turned) + b->rotation) & 31;
}

static int pick_by_mask(void)
{
    for (;;) {
        struct warp *warp = &b->warp[b->order[b->turn]];
        unsigned mask = warp->ready | (warp->there & ~warp->begun);
        if (mask) return (int)b->order[b->turn] * 32 + pick_lane(mask);
        b->able &= ~(1u << b->turn);
        if (!b->able) return -1;
        unsigned later = b->able & ~((2u << b->turn) - 1);
        b->turn = (unsigned)__builtin_ctz(later ? later : b->able);
    }
}

static int pick_after_sweep(void)
{
    if (b->sweep == BLOCK_SWEEP) return -1;
    struct warp *warp = &b->warp[b->order[b->turn]];
    warp->begun = warp->there;
    warp->ready = 0;
    b->sweep = NO_SWEEP;
    return pick_by_mask();
}

/* A thread that can run, or -1. */
static inline int pick(void)
{
    if (b->sweep == NO_SWEEP) return pick_by_mask();
    return ++b->at < b->end ? b->sequence[b->at] : pick_after_sweep();
}

static inline void become(int thread)
{
    b->now = thread;
    threadIdx = b->index[thread];
    fm_emulated_lane = thread & 31;
    if (b->sweep != NO_SWEEP) return;
    struct warp *warp = &b->warp[thread >> 5];
    warp->ready &= ~(1u << (thread & 31));
    warp->begun |= 1u << (thread & 31);
}

static void begin_sweep(enum sweep sweep, int from, int end)
{
    b->sweep = sweep;
    b->at = from - 1;
    b->end = end;
}

static void end_warp_sweep(void)
{
    struct warp *warp = &b->warp[b->order[b->turn]];
    warp->begun = warp->there;
    warp->ready = 0;
    for (int i = b->at + 1; i < b->end; i++) warp->ready |= 1u << (b->sequence[i] & 31);
    b->sweep = NO_SWEEP;
}

static void end_block_sweep(void)
{
    int now = (int)b->position[b->now >> 5];
    for (int p = 0; p < b->warps; p++) {
        struct warp *warp = &b->warp[b->order[p]];
        unsigned seen = p < now ? warp->there : 0;
        for (int i = b->at; p == now && i >= 0 && b->sequence[i] >> 5 == b->now >> 5; i--)
            seen |= 1u << (b->sequence[i] & 31);
        warp->begun = b->first ? seen : warp->there;
        warp->ready = b->first ? 0 : warp->there & ~seen;
    }
    b->turn = (unsigned)now;
    b->able = (unsigned)(((uint64_t)1 << b->warps) - 1) & ~((1u << now) - 1);
    b->sweep = NO_SWEEP;
}

static void leave(void) __attribute__((noreturn));
FM_NO_ASAN static void leave(void)
{
    fm_switch_forever(b->caller);
}

static void wrong(void) __attribute__((noreturn));
static void wrong(void)
{
    b->failed = true;
    fm_emulated_lose(cudaErrorLaunchFailure);
    leave();
}

static void stuck(void) __attribute__((noreturn));
static void stuck(void)
{
    for (int w = 0; w < b->warps; w++)
        if (b->warp[w].meetings) {
            const struct meeting *meeting = &b->warp[w].meeting[0];
            fm_emulated_fault(
                "warp %d waits for ever at %s:%d: mask %08x, threads that came %08x, ended %08x%s", w,
                meeting->file, meeting->line, meeting->mask, meeting->come, b->warp[w].ended,
                b->at_barrier ? ", others wait at a barrier" : "");
            wrong();
        }
    fm_emulated_fault("%d of %d threads wait for ever at the barrier at %s:%d", b->at_barrier, b->threads,
                      b->barrier_file, b->barrier_line);
    wrong();
}

/* ---- the worker ---------------------------------------------------------------------------------------- */

static void meet(struct warp *warp);

FM_NO_ASAN static void thread_ended(void)
{
    struct warp *warp = &b->warp[b->now >> 5];
    warp->ended |= 1u << (b->now & 31);
    b->live--;
    b->ended++;
    if (b->at_barrier) {
        fm_emulated_fault("divergent barrier: thread %d has ended, %d others wait at %s:%d", b->now,
                          b->at_barrier, b->barrier_file, b->barrier_line);
        wrong();
    }
    if (warp->meetings) meet(warp);
}

FM_NO_ASAN static void worker(int stack)
{
    int thread = b->start;
    for (;;) {
        become(thread);
        b->kernel->thread(b->kernel->arguments);
        thread_ended();
        thread = pick();
        if (thread < 0) {
            if (b->live) stuck();
            fm_stack_give(stack);
            leave();
        }
        if (b->waiting[thread]) {
            b->switches++;
            fm_stack_give(stack);
            fm_switch_forever(b->waiting[thread]);
        }
    }
}

/* The running thread waits until something makes it ready. */
static inline __attribute__((always_inline)) void wait(void)
{
    int me = b->now, next = pick();
    if (next < 0) stuck();
    if (next != me) {
        b->switches++;
        if (b->waiting[next]) {
            fm_switch(&b->waiting[me], b->waiting[next]);
        } else {
            b->start = next;
            fm_switch_fresh(&b->waiting[me], worker);
        }
    }
    become(me);
}

/* ---- barriers ------------------------------------------------------------------------------------------ */

static void release_all(void)
{
    int all = b->threads;
    if (b->barrier_kind == FM_BARRIER_OR) b->barrier_result = b->barrier_true > 0;
    if (b->barrier_kind == FM_BARRIER_AND) b->barrier_result = b->barrier_true == all;
    if (b->barrier_kind == FM_BARRIER_COUNT) b->barrier_result = b->barrier_true;
    b->at_barrier = 0;
    b->first = false;
    begin_sweep(BLOCK_SWEEP, 0, b->threads);
}

extern "C" int fm_emulated_sync(int kind, int predicate, const char *file, int line)
{
    if (b->at_barrier == 0) {
        b->barrier_kind = kind;
        b->barrier_file = file;
        b->barrier_line = line;
        b->barrier_true = 0;
    } else if (b->barrier_line != line || b->barrier_kind != kind ||
               (b->barrier_file != file && strcmp(b->barrier_file, file) != 0)) {
        fm_emulated_fault("divergent barrier: thread %d comes to %s:%d, %d others wait at %s:%d", b->now,
                          file, line, b->at_barrier, b->barrier_file, b->barrier_line);
        wrong();
    }
    if (b->ended) {
        fm_emulated_fault("divergent barrier: thread %d comes to %s:%d, but %d others have ended", b->now,
                          file, line, b->ended);
        wrong();
    }
    b->barrier_true += predicate != 0;
    if (++b->at_barrier == b->threads) release_all();
    wait();
    return b->barrier_result;
}

/* ---- within a warp ------------------------------------------------------------------------------------- */

/* Exchanges the values of a meeting that is complete, and lets its threads go on. */
static void exchange(struct warp *warp, const struct meeting *meeting)
{
    unsigned come = meeting->come;
    for (unsigned left = come; left; left &= left - 1) {
        int lane = __builtin_ctz(left), from = warp->source[lane];
        warp->got[lane] = come >> from & 1 ? warp->value[from] : ~(uint64_t)0;
        warp->ballot[lane] = warp->voters & come;
        warp->asked[lane] = come;
    }
    warp->voters &= ~come;
    unsigned position = b->position[warp - b->warp];
    if (come == warp->there) {
        b->turn = position;
        begin_sweep(WARP_SWEEP, b->begins[position], b->begins[position + 1]);
    } else {
        if (b->sweep == WARP_SWEEP) end_warp_sweep();
        warp->ready |= come;
    }
    b->able |= 1u << position;
}

static void meet(struct warp *warp)
{
    for (int i = 0; i < warp->meetings; i++) {
        const struct meeting *meeting = &warp->meeting[i];
        if ((meeting->mask & warp->there & ~warp->ended) & ~meeting->come) continue;
        exchange(warp, meeting);
        warp->meeting[i--] = warp->meeting[--warp->meetings];
    }
}

static void come(unsigned mask, const char *file, int line)
{
    struct warp *warp = &b->warp[b->now >> 5];
    unsigned bit = 1u << (b->now & 31);
    if (!(mask & bit)) {
        fm_emulated_fault("thread %d is not in the mask %08x of its own shuffle or vote at %s:%d", b->now,
                          mask, file, line);
        wrong();
    }
    if (b->sweep == BLOCK_SWEEP) end_block_sweep();
    int i = 0;
    while (i < warp->meetings && warp->meeting[i].mask != mask) i++;
    if (i == warp->meetings) {
        warp->meeting[warp->meetings++] = {mask, 0, file, line};
    } else if (warp->meeting[i].line != line ||
               (warp->meeting[i].file != file && strcmp(warp->meeting[i].file, file) != 0)) {
        fm_emulated_fault("thread %d comes to %s:%d, others of its warp wait at %s:%d with the same mask",
                          b->now, file, line, warp->meeting[i].file, warp->meeting[i].line);
        wrong();
    }
    struct meeting *meeting = &warp->meeting[i];
    meeting->come |= bit;
    if (!(mask & warp->there & ~warp->ended & ~meeting->come)) {
        exchange(warp, meeting);
        *meeting = warp->meeting[--warp->meetings];
    }
    wait();
}

extern "C" uint64_t fm_emulated_shuffle(unsigned mask, uint64_t value, int source, const char *file, int line)
{
    int me = b->now;
    struct warp *warp = &b->warp[me >> 5];
    warp->value[me & 31] = value;
    warp->source[me & 31] = source & 31;
    come(mask, file, line);
    return warp->got[me & 31];
}

extern "C" unsigned fm_emulated_ballot(unsigned mask, int predicate, int kind, const char *file, int line)
{
    int me = b->now, lane = me & 31;
    struct warp *warp = &b->warp[me >> 5];
    warp->source[lane] = lane;
    if (predicate) warp->voters |= 1u << lane;
    come(mask, file, line);
    if (kind == FM_VOTE_ANY) return warp->ballot[lane] != 0;
    if (kind == FM_VOTE_ALL) return warp->ballot[lane] == warp->asked[lane];
    return warp->ballot[lane];
}

extern "C" void fm_emulated_trap(const char *file, int line)
{
    fm_emulated_fault("trap at %s:%d", file, line);
    fm_emulated_lose(cudaErrorLaunchFailure);
    fm_emulated_leave_kernel();
}

/* ---- blocks and grids ---------------------------------------------------------------------------------- */

static void set_up(const struct fm_kernel *kernel)
{
    if (!b) b = new struct block();
    b->kernel = kernel;
    b->threads = (int)(kernel->block.x * kernel->block.y * kernel->block.z);
    b->warps = (b->threads + 31) / 32;
    b->failed = false;
    int order = fm_emulated_settings()->thread_order;
    b->lanes = order == 0 || order == 1 ? order : 2;
    for (int w = 0; w < b->warps; w++) b->order[w] = (unsigned)(order == 1 ? b->warps - 1 - w : w);
    uint64_t mixed = (uint64_t)order * 0x9e3779b97f4a7c15u;
    for (int w = b->warps - 1; b->lanes == 2 && w > 0; w--) {
        mixed = mixed * 6364136223846793005u + 1442695040888963407u;
        unsigned other = (unsigned)(mixed >> 33) % (unsigned)(w + 1), held = b->order[w];
        b->order[w] = b->order[other];
        b->order[other] = held;
    }
    b->rotation = (unsigned)(mixed >> 59);
    for (int p = 0, i = 0; p < b->warps; p++) {
        int w = (int)b->order[p], lanes = b->threads - 32 * w;
        b->position[w] = (unsigned)p;
        b->begins[p] = i;
        b->begins[p + 1] = i + (lanes < 32 ? lanes : 32);
        b->warp[w].there = lanes >= 32 ? 0xffffffffu : (1u << lanes) - 1;
        for (unsigned mask = b->warp[w].there; mask; i++) {
            int lane = pick_lane(mask);
            b->sequence[i] = 32 * w + lane;
            mask &= ~(1u << lane);
        }
    }
    if (memcmp(&b->indexed, &kernel->block, sizeof b->indexed) != 0) {
        b->indexed = kernel->block;
        for (unsigned i = 0; i < (unsigned)b->threads; i++)
            b->index[i] = {i % kernel->block.x, i / kernel->block.x % kernel->block.y,
                           i / kernel->block.x / kernel->block.y};
    }
    blockDim = kernel->block;
    gridDim = kernel->grid;
}

static void run_block(void)
{
    b->live = b->threads;
    b->at_barrier = b->ended = 0;
    b->first = true;
    begin_sweep(BLOCK_SWEEP, 0, b->threads);
    memset(b->waiting, 0, (size_t)b->threads * sizeof *b->waiting);
    for (int w = 0; w < b->warps; w++) {
        struct warp *warp = &b->warp[w];
        warp->ended = warp->voters = 0;
        warp->meetings = 0;
    }
    b->start = pick();
    fm_switch_fresh(&b->caller, worker);
}

/* Blocks in the order of the threads; a shuffled order steps by a number that shares no factor with theirs.
 */
static uint64_t stride_of(uint64_t blocks)
{
    uint64_t stride = blocks / 2 + 1;
    for (;; stride++) {
        uint64_t x = blocks, y = stride;
        while (y) {
            uint64_t rest = x % y;
            x = y;
            y = rest;
        }
        if (x == 1) return stride;
    }
}

/* A real launch would have failed; here it is known too late for that. */
static void check_shared(const struct fm_kernel *kernel)
{
    const size_t written = fm_shared_written();
    if (kernel->shared + written <= kernel->most) return;
    fm_emulated_fault(
        "at %s:%d: at least %zu bytes of static and %zu of dynamic shared memory, more than %zu",
        kernel->file, kernel->line, written, kernel->shared, kernel->most);
    fm_emulated_lose(cudaErrorLaunchFailure);
}

void fm_emulated_run_kernel(const struct fm_kernel *kernel)
{
    if (!fm_shared_begin()) {
        fm_emulated_lose(cudaErrorUnknown);
        return;
    }
    set_up(kernel);
    uint64_t plane = (uint64_t)kernel->grid.x * kernel->grid.y, blocks = plane * kernel->grid.z;
    uint64_t stride = b->lanes == 2 ? stride_of(blocks) : 1;
    for (uint64_t i = 0; i < blocks && !b->failed && !fm_emulated_lost(); i++) {
        uint64_t at = b->lanes == 0 ? i : b->lanes == 1 ? blocks - 1 - i : i * stride % blocks;
        blockIdx = {(unsigned)(at % kernel->grid.x), (unsigned)(at % plane / kernel->grid.x),
                    (unsigned)(at / plane)};
        fm_shared_block(kernel->shared);
        run_block();
        if (kernel->shared + fm_shared_static() > kernel->most && !b->failed) check_shared(kernel);
    }
    fm_emulated_counts()->switches += b->switches;
    b->switches = 0;
    b->kernel = NULL;
    if (b->failed || fm_emulated_lost()) fm_stacks_reset();
}

bool fm_emulated_in_kernel(void)
{
    return b && b->kernel;
}

void fm_emulated_leave_kernel(void)
{
    b->failed = true;
    leave();
}
