/* What the files of lanes share. See lane.h. */
#ifndef FM_CUDA_LANE_PRIVATE_H
#define FM_CUDA_LANE_PRIVATE_H

#include "lane.h"

#define FM_CUDA_RING   8  /* requests of a lane in flight */
#define FM_CUDA_GRAPHS 40 /* more than a lane can have: five lengths of a step and of six evaluations */

/* Mapped pinned memory: kernels write, the host reads. */
struct fm_cuda_words {
    struct fm_cuda_answer answer[FM_CUDA_RING];
    volatile uint64_t through;  /* chunks that are through since the slot was made */
    volatile uint64_t activity; /* of the lane at the end of the last of them (fm_cuda_signal) */
    volatile uint64_t copied;   /* number of the last copy of results that has arrived */
};

/* A chunk, captured. All that its nodes depend on. */
struct fm_cuda_graph {
    cudaGraphExec_t exec;
    const struct fm_cuda_plan *plan;
    const char *base;
    const float *scores;
    bool confusion;
    int activity, length;
    int64_t nodes; /* as CUDA counts them; 0 = it would not say */
};

/* Of run --profile: the events of a chunk, each at the border of two calls. */
struct fm_profile_marks {
    cudaEvent_t *events;
    const struct fm_cuda_call **calls; /* the one that begins at the event; NULL = none */
    int count;
    size_t capacity, call_capacity;
    int made; /* events that exist */
};

/* Of a chunk where a display has a watchdog: events around it. */
struct fm_cuda_timer {
    cudaEvent_t begin, end;
    uint64_t request; /* number of the chunk's; 0 = there is nothing to measure */
    int activity, length;
};

/* Kept from lane to lane; free when `lane` is NULL. */
struct fm_cuda_slot {
    struct fm_cuda_slot *next;
    struct fm_card *card;
    struct fm_lane *lane;
    cudaStream_t stream;
    struct fm_cuda_words *words, *words_at; /* the host's and the device's address */
    unsigned char *results;                 /* pinned, FM_CUDA_PINNED bytes */
    struct fm_cuda_graph graphs[FM_CUDA_GRAPHS];
    int ngraphs;
    bool warm[3];    /* by activity: a chunk of this plan at this address has run without capture */
    int most[3];     /* by activity: steps of a chunk */
    uint64_t number; /* of the last request */
    uint64_t chunks; /* enqueued since the slot was made */
    uint64_t copies; /* of results, enqueued */
    struct fm_cuda_timer timers[FM_CUDA_FLIGHT];
    struct fm_profile_marks marks[FM_CUDA_FLIGHT];
};

/* A request on its way, and the report it will give: allocated by submit, so that finishing cannot fail. */
struct fm_cuda_work {
    struct fm_cuda_work *next;
    struct fm_request request;
    struct fm_report report;
    uint64_t number;      /* its answer is answer[number % FM_CUDA_RING] */
    uint64_t first_chunk; /* slot->chunks before its first one */
    int64_t units, fed;   /* steps or chunks of the part: all, enqueued */
    bool cancel, started;
    bool ended;           /* the answer is on its way */
    bool enqueued;        /* all of it, copies of results too */
    bool undone;          /* answered without anything having been enqueued: cancelled or failed */
    int64_t results;      /* bytes that come back: the confusion matrix, then scores */
    int64_t asked, taken; /* of them: copies enqueued, handed to the caller */
    uint64_t copy;        /* number of the copy on its way, 0 = none */
};

struct fm_lane {
    struct fm_device *device;
    struct fm_card *card;
    struct fm_cuda_slot *slot;
    struct fm_lane_options options;
    const struct fm_program *program;
    const struct fm_cuda_plan *plan;
    int64_t counts[3];   /* examples by enum fm_part */
    int64_t classes;     /* of the confusion matrix, 0 = none */
    char *base;          /* device memory, from the arena */
    float *scores;       /* device: of inner or val, from the arena; NULL = both are empty */
    float *train_scores; /* made when they are asked for */
    bool taken[FM_SLOTS];
    struct fm_cuda_work *first, *last; /* not reported yet */
    struct fm_cuda_work *feeding;      /* the first that is not wholly enqueued */
    bool direct;                       /* capture has failed: not tried again */
    bool broken;                       /* out of memory, or a library refused: it can only be closed */
    struct fm_error why;               /* if broken */
    struct fm_lane *next;
};

/* slot.c: 0 with a free slot of the card, the one whose graphs fit best; it is lane's until it is given back,
 * with nothing in flight. */
int fm_cuda_slot_take(struct fm_lane *lane, struct fm_error *err);
void fm_cuda_slot_give(struct fm_cuda_slot *slot);

/* graph.c: enqueues at most `units` steps (or chunks of an evaluation) and the signal that they are through;
 * *fed: how many. Counted in slot->chunks. */
int fm_cuda_chunk(struct fm_lane *lane, const struct fm_cuda_work *work, int64_t units, int64_t *fed,
                  struct fm_error *err);
void fm_cuda_graphs_free(struct fm_device *device, struct fm_cuda_slot *slot);
/* All but those that write scores elsewhere: they are of lanes that stood in this place before. */
void fm_cuda_graphs_keep(struct fm_device *device, struct fm_cuda_slot *slot, const float *scores);

/* timer.c: how many steps a chunk may have. 16 at once but for two cases: a profile takes one at a time, and
 * where a display has a watchdog it begins with one, doubles while a chunk took less than a quarter of
 * FM_CUDA_WATCHDOG, and halves after one that took more than half of it, since two are in flight. `make` and
 * `free` are of a new slot and an old one; `reset` is called when other work than before will run in it.
 * `judge`, before a chunk is enqueued, takes the measure of the one that was in its place, which is through;
 * `begin` and `end` stand around a chunk to be measured. Without a watchdog all but `reset` do nothing. */
int fm_cuda_timers_make(struct fm_device *device, struct fm_cuda_slot *slot, struct fm_error *err);
void fm_cuda_timers_free(struct fm_device *device, struct fm_cuda_slot *slot);
void fm_cuda_timers_reset(const struct fm_device *device, struct fm_cuda_slot *slot);
int fm_cuda_timer_judge(struct fm_lane *lane, uint64_t request, struct fm_error *err);
int fm_cuda_timer_begin(struct fm_lane *lane, struct fm_error *err);
int fm_cuda_timer_end(struct fm_lane *lane, uint64_t request, int activity, int length, struct fm_error *err);

/* request.c: enqueues what there is room for. FM_EDEVICE when the device is lost; a failure that is only the
 * lane's breaks the lane. */
int fm_cuda_feed(struct fm_lane *lane, struct fm_error *err);
/* Where an evaluation's scores lie; NULL when none are asked for. */
float *fm_cuda_scores_of(const struct fm_lane *lane, const struct fm_request *request);
struct fm_cuda_place fm_cuda_place_of(const struct fm_lane *lane, int activity);
static inline const struct fm_cuda_answer *fm_cuda_answer_of(const struct fm_lane *lane,
                                                             const struct fm_cuda_work *work)
{
    return &lane->slot->words->answer[work->number % FM_CUDA_RING];
}

/* wait.c: reports what is done. Makes no CUDA call. */
void fm_cuda_collect(struct fm_lane *lane);
/* Answers everything that is pending with this failure. */
void fm_cuda_break(struct fm_lane *lane, const struct fm_error *why);
/* Forgets everything that is pending or not yet reported. */
void fm_cuda_drop(struct fm_lane *lane);

/* profile.c: times on the host's clock, in seconds; marks of a chunk are made
 * by the watch of its calls, and harvested when it is through. */
void fm_profile_launched(struct fm_device *device, double seconds);
void fm_profile_waits(struct fm_device *device, bool begins); /* launching meanwhile counts as that */
int fm_profile_watch(void *lane, const struct fm_cuda_call *call, struct fm_error *err);
void fm_profile_harvest(struct fm_device *device, struct fm_profile_marks *marks);
void fm_profile_marks_free(struct fm_device *device, struct fm_profile_marks *marks);

#endif
