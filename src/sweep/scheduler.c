/* The event loop. Lanes are filled from a list of waiting runs, longest first; reports go to the run of their
 * lane. */
#include "sweep/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sweep/journal_private.h"
#include "sweep/schedule_private.h"

#define WAIT_MILLISECONDS 100
#define SPARE_SECONDS     10.0
#define SLOW_PACE         2e9 /* operations a second */

static int compare_waiting(const void *a, const void *b)
{
    const struct fm_waiting *x = a, *y = b;
    if (x->alone != y->alone) return x->alone ? -1 : 1;
    if (x->flops != y->flops) return x->flops < y->flops ? 1 : -1;
    if (x->trial->number != y->trial->number) return x->trial->number < y->trial->number ? -1 : 1;
    return x->fold < y->fold ? -1 : x->fold > y->fold;
}

/* Lists what is not over, and counts what is. */
static int list_runs(struct fm_schedule *s, struct fm_error *err)
{
    struct fm_prepared *p = s->prepared;
    s->left = fm_calloc((size_t)p->ntrials, sizeof *s->left);
    if (!s->left) return fm_fail_memory(err);
    for (int64_t t = 0; t < p->ntrials; t++) {
        struct fm_planned *trial = &p->trials[t];
        if (trial->network < 0) continue;
        const struct fm_split *split = &p->splits[trial->split];
        for (int64_t f = 0; f < fm_planned_runs(p, trial); f++) {
            struct fm_recorded recorded;
            int rc = fm_journal_run(s->journal, trial->number, split->fold[f].repeat, split->fold[f].fold,
                                    &recorded, err);
            if (rc) return rc;
            double flops = fm_planned_flops(p, trial, f);
            s->progress.runs++;
            s->flops += flops;
            if (recorded.status == FM_RUN_COMPLETED || recorded.status == FM_RUN_FAILED) {
                s->progress.done++;
                s->progress.failed += recorded.status == FM_RUN_FAILED;
                s->flops_before += flops;
                continue;
            }
            s->left[t]++;
            if (fm_grow(&s->waiting, &s->waiting_capacity, (size_t)s->nwaiting + 1, sizeof *s->waiting))
                return fm_fail_memory(err);
            s->waiting[s->nwaiting++] = (struct fm_waiting){
                .trial = trial, .fold = f, .flops = flops, .alone = recorded.suspect, .recorded = recorded};
        }
    }
    /* A finished sweep has no list at all, and qsort must not be given NULL. */
    if (s->nwaiting > 0) qsort(s->waiting, (size_t)s->nwaiting, sizeof *s->waiting, compare_waiting);
    return 0;
}

/* A killed process may have left a trial complete but not pooled. */
static int pool_left_over(struct fm_schedule *s, struct fm_error *err)
{
    int64_t number = 0;
    for (;;) {
        int rc = fm_journal_unpooled(s->journal, number, &number, err);
        if (rc || !number) return rc;
        for (int64_t t = 0; t < s->prepared->ntrials; t++)
            if (s->prepared->trials[t].number == number) {
                rc = fm_journal_trial_end(s->journal, s->prepared, &s->prepared->trials[t], err);
                if (rc) return rc;
            }
    }
}

/* Gives the work done of the lane's run. */
static double look_at(const struct fm_schedule_lane *lane, struct fm_lane_view *view)
{
    *view = (struct fm_lane_view){.busy = lane->run != NULL};
    if (!lane->run) return 0;
    view->trial = lane->fence.trial;
    view->repeat = lane->fence.repeat;
    view->fold = lane->fence.fold;
    fm_run_place(lane->run, &view->place);
    double epochs = (double)(view->place.epochs > 0 ? view->place.epochs : 1);
    double part = (double)(view->place.epoch > 0 ? view->place.epoch - 1 : 0);
    if (view->place.steps) part += (double)view->place.step / (double)view->place.steps;
    return lane->flops * (part / epochs < 1 ? part / epochs : 1) - lane->flops_resumed;
}

static void tell_progress(struct fm_schedule *s, bool now)
{
    if (!s->watcher || !s->watcher->progress) return;
    double clock = fm_monotonic();
    if (!now && clock - s->told < 0.1) return;
    s->told = clock;
    double done = s->flops_done;
    for (int64_t i = 0; i < s->nlanes; i++) {
        struct fm_lane_view view;
        done += look_at(&s->lanes[i], &view);
        if (i < s->wanted) s->views[i] = view;
        /* A spare lane is shown where another is free: people count lanes as they asked for them. */
        for (int64_t k = 0; i >= s->wanted && view.busy && k < s->wanted; k++)
            if (!s->views[k].busy) {
                s->views[k] = view;
                break;
            }
    }
    s->progress.elapsed = clock - s->began;
    double rest = s->flops - s->flops_before - done;
    s->progress.left = done > 0 && s->progress.elapsed > 0.5 ? rest / done * s->progress.elapsed : -1;
    s->progress.lanes = s->views;
    s->progress.nlanes = s->wanted;
    s->watcher->progress(s->watcher->context, &s->progress);
}

static struct fm_schedule_lane *lane_of(struct fm_schedule *s, const void *lane)
{
    for (int64_t i = 0; i < s->nlanes; i++)
        if (s->lanes[i].run && (const void *)fm_run_lane(s->lanes[i].run) == lane) return &s->lanes[i];
    return NULL;
}

bool fm_schedule_busy(const struct fm_schedule *s, const struct fm_schedule_lane *but)
{
    for (int64_t i = 0; i < s->nlanes; i++)
        if (s->lanes[i].run && &s->lanes[i] != but) return true;
    return false;
}

/* Whether a run has the device to itself now. */
static bool runs_alone(const struct fm_schedule *s)
{
    for (int64_t i = 0; i < s->nlanes; i++)
        if (s->lanes[i].run && s->lanes[i].waiting->alone) return true;
    return false;
}

/* Whether the run may start beside those that run now. */
static bool fits(const struct fm_schedule *s, const struct fm_waiting *next, int64_t cost)
{
    if (!fm_schedule_busy(s, NULL)) return true;
    if (next->alone || cost > s->memory - s->memory_used) return false;
    if (!s->backend->lane_fits) return true;
    const struct fm_planned *trial = next->trial;
    const struct fm_lane_options options = {.dataset = s->dataset,
                                            .view = trial->view,
                                            .split = trial->split,
                                            .fold = next->fold,
                                            .program = s->prepared->networks[trial->network].program,
                                            .batch = trial->config.batch_size};
    return s->backend->lane_fits(s->device, &options);
}

/* A short run takes a spare lane: the device then has something to do while the end of another run is written
 * down and the next one is made ready. In runs that take longer nobody would notice, and their results would
 * come later. The pace is a slow core's until it is known. */
static bool may_be_spare(const struct fm_schedule *s, const struct fm_waiting *next)
{
    double elapsed = fm_monotonic() - s->began, pace = 0;
    if (s->flops_done > 0 && elapsed > 0) pace = s->flops_done / elapsed / (double)s->wanted;
    if (pace < SLOW_PACE) pace = SLOW_PACE;
    return next->flops <= SPARE_SECONDS * pace;
}

static int64_t count_busy(const struct fm_schedule *s)
{
    int64_t busy = 0;
    for (int64_t i = 0; i < s->nlanes; i++) busy += s->lanes[i].run != NULL;
    return busy;
}

static bool is_like(const struct fm_waiting *a, const struct fm_waiting *b)
{
    return a->trial->network == b->trial->network &&
           a->trial->config.batch_size == b->trial->config.batch_size;
}

/* The first waiting run that may take a free lane now, or NULL. Where one has no room, those behind it that
 * are like it and take no less are not asked for. */
static struct fm_waiting *choose(struct fm_schedule *s, int64_t busy, int64_t *cost)
{
    const struct fm_waiting *refused = NULL;
    int64_t least = 0;
    for (int64_t w = s->first; w < s->nwaiting; w++) {
        struct fm_waiting *next = &s->waiting[w];
        if (next->taken) continue;
        if (busy >= s->wanted && !may_be_spare(s, next)) return NULL;
        *cost = fm_schedule_cost(s, next);
        if (refused && is_like(refused, next) && *cost >= least) continue;
        if (fits(s, next, *cost)) return next;
        refused = next;
        least = *cost;
    }
    s->full = true;
    return NULL;
}

static int fill_lanes(struct fm_schedule *s, struct fm_error *err)
{
    int64_t busy = count_busy(s), cost;
    for (int64_t i = 0; i < s->nlanes && busy < s->nlanes && !s->stopping; i++) {
        if (s->full || runs_alone(s)) return 0;
        if (s->lanes[i].run) continue;
        struct fm_waiting *next;
        /* When a run was over before it began, this lane takes the next one. */
        for (int rc = 1; rc > 0 && (next = choose(s, busy, &cost));) {
            next->taken = true;
            rc = fm_schedule_start(s, &s->lanes[i], next, cost, err);
            if (rc < 0) return rc;
            busy += rc == 0;
        }
        while (s->first < s->nwaiting && s->waiting[s->first].taken) s->first++;
    }
    return 0;
}

static void begin_stop(struct fm_schedule *s)
{
    s->stopping = true;
    for (int64_t i = 0; i < s->nlanes; i++)
        if (s->lanes[i].run) fm_run_stop(s->lanes[i].run);
}

/* Runs that stopped are written down and closed; of one that stopped between two safe points (its request
 * came back cancelled) the last checkpoint stands. */
static int park_stopped(struct fm_schedule *s, struct fm_error *err)
{
    for (int64_t i = 0; i < s->nlanes; i++) {
        struct fm_schedule_lane *lane = &s->lanes[i];
        if (!lane->run || !fm_run_stopped(lane->run)) continue;
        int rc = fm_run_whole(lane->run) ? fm_schedule_checkpoint(lane, err) : 0;
        if (rc) return rc;
        fm_schedule_close(s, lane);
    }
    return 0;
}

static int loop(struct fm_schedule *s, struct fm_error *err)
{
    for (;;) {
        if (!s->stopping && s->options->stop && atomic_load(s->options->stop)) begin_stop(s);
        int rc = fill_lanes(s, err);
        if (!rc && s->stopping) rc = park_stopped(s, err);
        if (rc) return rc;
        if (!fm_schedule_busy(s, NULL)) break;
        struct fm_report report;
        rc = s->backend->wait(s->device, WAIT_MILLISECONDS, &report, err);
        if (rc < 0) return rc;
        struct fm_schedule_lane *lane = rc ? lane_of(s, report.lane) : NULL;
        if (lane) rc = fm_schedule_report(s, lane, &report, err);
        if (rc < 0) return rc;
        if (s->backend->range) s->backend->range("journal");
        rc = fm_journal_commit(s->journal, false, err);
        if (s->backend->range) s->backend->range(NULL);
        if (rc) return rc;
        tell_progress(s, false);
    }
    tell_progress(s, true);
    return s->stopping ? fm_fail(err, FM_EINTERRUPTED, "stopped; the same command goes on from here") : 0;
}

static int schedule_init(struct fm_schedule *s, struct fm_prepared *p,
                         const struct fm_schedule_options *options, struct fm_error *err)
{
    *s = (struct fm_schedule){.prepared = p,
                              .options = options,
                              .backend = options->backend,
                              .device = options->device,
                              .journal = options->journal,
                              .watcher = options->watcher,
                              .dataset = -1};
    s->wanted = s->backend->lanes(s->device);
    s->nlanes = s->wanted + (s->wanted + 3) / 4;
    s->lanes = fm_calloc((size_t)s->nlanes, sizeof *s->lanes);
    s->views = fm_calloc((size_t)s->nlanes, sizeof *s->views);
    if (!s->lanes || !s->views) return fm_fail_memory(err);
    for (int64_t i = 0; i < s->nlanes; i++) s->lanes[i].schedule = s;
    s->began = fm_monotonic();
    fm_prepared_resident(p, &s->resident);
    int rc = fm_journal_plans(s->journal, p, s->backend, s->device, err);
    if (!rc) rc = list_runs(s, err);
    if (!rc) rc = pool_left_over(s, err);
    if (!rc) rc = fm_journal_keep(s->journal, p, err);
    if (!rc && s->nwaiting) rc = s->backend->load(s->device, &s->resident, &s->dataset, err);
    if (rc) return rc;
    s->memory = options->memory ? options->memory : s->backend->memory(s->device);
    if (s->memory < 0)
        return fm_fail(err, (int)s->memory, "the device could not tell how much memory it has");
    s->own_memory = s->memory > 0;
    if (!s->own_memory) s->memory = fm_schedule_memory();
    return 0;
}

static void schedule_fini(struct fm_schedule *s)
{
    /* A lane whose run could not even be made may hold memory too. */
    for (int64_t i = 0; s->lanes && i < s->nlanes; i++) fm_schedule_close(s, &s->lanes[i]);
    if (s->dataset >= 0) s->backend->unload(s->device, s->dataset);
    fm_free(s->waiting);
    fm_free(s->left);
    fm_free(s->views);
    fm_free(s->lanes);
}

static int record_transfers(struct fm_schedule *s, struct fm_error *err)
{
    struct fm_transfers transfers = {0};
    s->backend->transfers(s->device, &transfers);
    int rc = fm_journal_transfers(s->journal, s->backend->describe(s->device), &transfers, err);
    return rc ? rc : fm_journal_commit(s->journal, true, err);
}

/* The device is lost, and nothing more can be asked of it. Which of the runs under way was to blame nobody
 * knows: each is tried again alone. The one that is alone when it happens again has shown itself. The error
 * is told with what comes next; 0, or the code of a journal that cannot be written. */
static int settle_lost(struct fm_schedule *s, struct fm_error *lost, struct fm_error *err)
{
    const int64_t busy = count_busy(s);
    struct fm_error told = {0};
    int rc = 0;
    bool failed = false;
    for (int64_t i = 0; !rc && i < s->nlanes; i++) {
        struct fm_schedule_lane *lane = &s->lanes[i];
        if (!lane->run) continue;
        failed = busy == 1 && lane->waiting->recorded.suspect;
        rc = failed ? fm_schedule_give_up(s, lane, lost->text, err)
                    : fm_journal_suspect(s->journal, &lane->fence, err);
    }
    if (!rc) rc = record_transfers(s, err);
    if (failed)
        fm_fail(
            &told, FM_EDEVICE,
            "the device was lost (%.600s) a second time by the same run, which failed; the same command goes "
            "on with the others",
            lost->text);
    else if (busy)
        fm_fail(&told, FM_EDEVICE,
                "the device was lost (%.600s); the same command goes on from here, first with the %lld run%s "
                "that it was computing, each alone",
                lost->text, (long long)busy, busy == 1 ? "" : "s");
    else
        fm_fail(&told, FM_EDEVICE, "the device was lost (%.600s); the same command goes on from here",
                lost->text);
    *lost = told;
    return rc;
}

int fm_schedule(struct fm_prepared *p, const struct fm_schedule_options *options, struct fm_error *err)
{
    struct fm_schedule s;
    struct fm_error own = {0}, writing = {0};
    int written = 0, rc = schedule_init(&s, p, options, &own);
    if (!rc) rc = loop(&s, &own);
    if (rc == FM_EDEVICE && s.lanes)
        written = settle_lost(&s, &own, &writing);
    else if (s.dataset >= 0 && (!rc || rc == FM_EINTERRUPTED))
        written = record_transfers(&s, &writing);
    /* That the journal cannot be written needs a person, and the error goes on as the journal's. */
    if (written && (!rc || rc == FM_EDEVICE)) {
        rc = written;
        own = writing;
    }
    schedule_fini(&s);
    if (rc && err && !err->code) *err = own;
    return rc;
}
