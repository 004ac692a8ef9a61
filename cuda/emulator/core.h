/* What only the emulator's own files share: the structures behind the opaque handles, and what its parts ask
 * of each other. internal.h is the list of parts.
 *
 * Control: the host's calls come from one thread. A call that runs queued work is a "burst" (struct
 * fm_burst): device memory opens page by page as the work touches it, and closes when the burst ends, so that
 * the host never finds it open. */
#ifndef FM_EMULATOR_CORE_H
#define FM_EMULATOR_CORE_H

#include <deque>
#include <memory>
#include <vector>

#include "emulator/internal.h"

#define FM_EMULATED_CARDS   16
#define FM_EMULATED_THREADS 1024       /* of a block */
#define FM_EMULATED_SHARED  (48 << 10) /* bytes of a block */

typedef std::function<void()> fm_work;

/* One thing to do. What it locks is a range of pinned memory, from the moment it is queued until it ran. */
struct fm_task {
    const char *name;
    enum cudaGraphNodeType type;
    std::shared_ptr<const fm_work> work;
    const char *locked; /* NULL = nothing */
    size_t locked_bytes;
    bool locked_whole; /* the host may not even read it */
};

struct fm_event_state {
    uint64_t recorded = 0, done = 0; /* how often */
    double time = 0;                 /* ms, of the last one done */
};

struct fm_node {
    struct fm_task task;
    std::vector<int> after, next; /* nodes that come before this one; that wait for it */
};
/* The handle of a node is its address. */
struct fm_graph {
    std::vector<struct fm_node> nodes;
    int card;
};
struct fm_capture {
    struct fm_graph graph;
    CUstream_st *origin;
    enum cudaStreamCaptureMode mode;
    bool invalid;
    bool excused; /* a call failed on demand meanwhile: it may end anyhow */
};
/* A graph on its way: which nodes can run, what the others wait for. */
struct fm_replay {
    std::shared_ptr<const struct fm_graph> graph;
    CUgraphExec_st *exec;
    std::vector<int> missing, ready;
    size_t left;
    std::vector<uint64_t> locks; /* of each node, 0 = none */
};

struct fm_op {
    enum { TASK, WAIT, RECORD, REPLAY } kind;
    struct fm_task task;
    uint64_t lock; /* of the task */
    std::shared_ptr<struct fm_event_state> event;
    uint64_t version;
    std::unique_ptr<struct fm_replay> replay;
};

struct CUstream_st {
    int number, card;
    std::deque<struct fm_op> queue;
    std::shared_ptr<struct fm_capture> capture;
    std::vector<int> tail; /* nodes that the next one comes after */
    bool destroyed;
};
struct CUevent_st {
    int card;
    unsigned flags;
    std::shared_ptr<struct fm_event_state> state;
    std::weak_ptr<struct fm_capture> capture; /* recorded in it: */
    std::vector<int> after;
    bool captured;
};
struct CUgraph_st {
    std::shared_ptr<struct fm_graph> graph;
};
struct CUgraphExec_st {
    std::shared_ptr<const struct fm_graph> graph;
    int flying;          /* launches that have not run to their end */
    CUstream_st *stream; /* of the last launch */
};

/* state.cc */
bool fm_emulated_lost(void);
void fm_emulated_keep_fault(const char *text);

/* card.cc */
void fm_emulated_use_card(int card);
/* What that card takes of a launch, shared memory without opting in; its attributes say the same. */
struct fm_emulated_limits {
    unsigned threads, depth; /* of a block: all, and in z */
    unsigned width, height;  /* of a grid: in x, in y and z */
    size_t shared, arguments;
};
struct fm_emulated_limits fm_emulated_limits(int card);

/* fault.cc: runs work that may touch wild addresses; false when it did (counted and printed) */
void fm_emulated_handlers(void);
bool fm_emulated_guarded(const struct fm_task *task, int card);
int fm_emulated_running_card(void); /* -1: the host is in control */
/* "add<32, true>" of a launch's "add<32, true>, grid, ..." */
void fm_emulated_short_name(char *text, size_t size, const char *what);

/* memory.cc */
enum fm_touch { FM_TOUCH_GO_ON, FM_TOUCH_BAD, FM_TOUCH_ELSEWHERE };
/* A page fault at this address; running_card -1: it was the host. Fills `why`. */
enum fm_touch fm_emulated_touch(const char *address, int running_card, char *why, size_t size);
/* pinned.cc: the same for pinned memory. */
enum fm_touch fm_emulated_touch_pinned(const char *address, int running_card, char *why, size_t size);
void fm_emulated_pinned_forget(void);
void fm_emulated_close(void);                                          /* device memory that a burst opened */
uint64_t fm_emulated_lock(const char *host, size_t bytes, bool whole); /* 0: nothing to lock */
void fm_emulated_unlock(uint64_t lock);
bool fm_emulated_pinned(const void *host, size_t bytes);
void fm_emulated_memory_forget(void);

/* stream.cc */
struct fm_burst {
    fm_burst();
    ~fm_burst();
};
std::vector<CUstream_st *> &fm_emulated_streams(void);
cudaError_t fm_emulated_push(CUstream_st *stream, struct fm_op op);            /* not while it captures */
cudaError_t fm_emulated_task(CUstream_st *stream, const struct fm_task &task); /* queues or captures */
std::vector<std::unique_ptr<CUevent_st>> &fm_emulated_events(void);
cudaError_t fm_emulated_drain_event(CUevent_st *event);
cudaError_t fm_emulated_drain(CUstream_st *stream); /* NULL: all of the current card; until it is empty */
void fm_emulated_drain_all(void);
void fm_emulated_steps(void); /* a few, at random */
void fm_emulated_drop(void);  /* everything that is queued */
void fm_emulated_took(void);  /* a task has run: the clock of events goes on */
void fm_emulated_streams_forget(void);

/* graph.cc */
cudaError_t fm_emulated_capture(CUstream_st *stream, const struct fm_task &task);
void fm_emulated_captures_excuse(void);
cudaError_t fm_emulated_capture_wait(CUstream_st *stream, CUevent_st *event);
cudaError_t fm_emulated_capture_bad(CUstream_st *stream, cudaError_t status, const char *why);
/* Runs one node that can run; true when that was the last. */
bool fm_emulated_replay_step(struct fm_replay *replay);
void fm_emulated_graphs_forget(void);

/* fibers.cc */
struct fm_kernel {
    const char *what, *file;
    int line;
    void (*thread)(const void *);
    const void *arguments;
    dim3 grid, block;
    size_t shared, most; /* dynamic; and static together with it, on this card */
};
void fm_emulated_run_kernel(const struct fm_kernel *kernel);
bool fm_emulated_in_kernel(void);
/* Leaves the kernel from within one of its threads, or from a signal handler that interrupted it. */
void fm_emulated_leave_kernel(void) __attribute__((noreturn));
bool fm_emulated_stack_guard(const char *address); /* the end of a thread's stack */

#endif
