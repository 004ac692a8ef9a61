/* The journal: one SQLite file in which everything that happened is written.
 *
 * Invariants
 *  1. Exactly one process writes: it holds a lock on <journal>.lock for as long as the journal is open. A
 * second one is told so (FM_EBUSY). Readers open read-only (report/), and never checkpoint.
 *  2. Every write is idempotent (primary key + upsert) and is fenced by (run, attempt): rows of an earlier
 * attempt are gone when an attempt starts over, and an update that names an old attempt changes nothing.
 *  3. Writes are grouped: a transaction is committed by the first turn of the event loop (at most 100 ms
 * apart while devices compute) 200 ms after its first write, and at the end; a full sync every 5 s and at the
 * end. A killed process loses at most the open group, which is run again with the same bits.
 *  4. A run's epochs beyond its checkpoint are removed when it resumes.
 *  5. user_version is the schema's number; older schemas are migrated inside one transaction, newer ones
 * refused. application_id is "FMIL".
 *
 * States of a run, and the function for each arrow:
 *   pending --fm_journal_run_start--> running --fm_journal_run_end--> completed | failed
 *   running --(process dies or stops)--> running --fm_journal_run_start--> running, attempt + 1, from its
 * checkpoint
 *
 * The schema stands in sweep/schema.sql.h and is explained in DESIGN.md. Times are seconds since 1970 as
 * doubles, given by the caller's clock.
 */
#ifndef FM_SWEEP_JOURNAL_H
#define FM_SWEEP_JOURNAL_H

#include "sweep/prepare.h"
#include "train/run.h"

struct fm_journal;

enum fm_journal_state {
    FM_JOURNAL_NEW,    /* nothing in it yet */
    FM_JOURNAL_SAME,   /* same file contents and data */
    FM_JOURNAL_CHANGED /* `why` says what changed: only --fresh can go on */
};

/* Opens or creates, takes the lock, migrates, checks integrity after an unclean stop. Network file systems
 * get journal_mode=TRUNCATE and a note. A link to a journal is followed first: one journal has one lock.
 * `fresh`: an existing journal is first renamed to <stem>.old-<n>.db; a file that is no journal is FM_EFILE.
 */
int fm_journal_open(struct fm_journal **journal, const char *path, bool fresh, struct fm_notes *notes,
                    struct fm_error *err);
/* Commits, syncs, marks a clean stop. Where `err` holds a failure already (FM_EINTERRUPTED and FM_EDEVICE are
 * none: the scheduler has settled what they left), the open group is given up instead: it may end in the
 * middle of an event. `err` gets the first failure; the journal is freed in any case. */
int fm_journal_close(struct fm_journal *journal, struct fm_error *err);

/* Compares fingerprint and data (stamps first, hash if they differ) with what is on record. */
int fm_journal_compare(struct fm_journal *journal, const struct fm_prepared *p, enum fm_journal_state *state,
                       char *why, size_t why_size, struct fm_error *err);
/* True when nothing was left to do, and neither the part of the file that may change (space_hash) nor the
 * data did: a run answers at once. Never where a trial is invalid because a device cannot compute it: the
 * next call may come with another device. */
int fm_journal_finished(struct fm_journal *journal, const struct fm_prepared *p, bool *finished,
                        struct fm_error *err);

/* Writes the sweep, the files, the views, folds and trials; gives trials the numbers they had, new ones the
 * next; marks which are listed; adds missing run rows. In one transaction. */
int fm_journal_begin(struct fm_journal *journal, struct fm_prepared *p, const char *device,
                     const char *numbers, struct fm_error *err);

/* Whether the sweep may go on with a device of this class of numbers: FM_EUSAGE, naming both, when runs are
 * left to do and one is on record that began on another kind of GPU. (A device that is no GPU minds only
 * those that are not over.) With `accept` it may, then and later: runs that are not over keep that class as
 * `began_on` and start over, and what a GPU begins from now on is marked as `accepted`. To be called before
 * fm_journal_begin. */
int fm_journal_device(struct fm_journal *journal, const struct fm_prepared *p, const char *numbers,
                      bool accept, struct fm_error *err);

/* Plans on record that lost a device of this class when it made them, for fm_prepare: to be called between
 * fm_prepare_file and that. */
int fm_journal_lost_plans(struct fm_journal *journal, const char *numbers, struct fm_prepared *p,
                          struct fm_error *err);
/* The device was lost when it made this plan: it chooses nothing from now on. Unlike a run
 * (fm_journal_suspect) a plan is not tried a second time: own kernels compute the same network. Nothing is
 * written before a loss, because a process that is killed while it plans must not change the results. */
int fm_journal_lost_plan(struct fm_journal *journal, const char *numbers, const struct fm_plan_key *plan,
                         struct fm_error *err);

/* Makes the plans those of the journal, so that a sweep goes on with the same bits whatever the device's
 * libraries would choose now: choices on record for its class of numbers are used, others are put on record;
 * plan hashes and costs of the trials follow. Choices that make no sense to the device are replaced, with a
 * note; what was begun with them starts over. Those that lose the device are replaced by none. */
int fm_journal_plans(struct fm_journal *journal, struct fm_prepared *p, const struct fm_backend *backend,
                     struct fm_device *device, struct fm_error *err);

/* What is on record of one run. */
struct fm_recorded {
    enum fm_run_status status;
    int64_t attempt;
    char numbers[192];
    uint64_t plan_hash;
    bool has_checkpoint;
    bool suspect; /* it was being computed when the device was lost */
};
int fm_journal_run(struct fm_journal *journal, int64_t trial, int64_t repeat, int64_t fold,
                   struct fm_recorded *out, struct fm_error *err);

/* Starts an attempt: `resume` keeps the epochs and events up to the checkpoint, else everything of earlier
 * attempts is removed. Gives the attempt's number. */
int fm_journal_run_start(struct fm_journal *journal, int64_t trial, int64_t repeat, int64_t fold,
                         const char *numbers, uint64_t plan_hash, bool resume, int64_t *attempt,
                         struct fm_error *err);
/* The checkpoint and the epochs up to it; caller frees both (fm_text_fini, fm_free). */
int fm_journal_checkpoint(struct fm_journal *journal, int64_t trial, int64_t repeat, int64_t fold,
                          struct fm_text *blob, struct fm_epoch **history, int64_t *nhistory,
                          struct fm_error *err);

/* Which attempt of which run a write belongs to. */
struct fm_fence {
    int64_t trial, repeat, fold, attempt;
};
int fm_journal_epoch(struct fm_journal *journal, const struct fm_fence *fence, const struct fm_epoch *epoch,
                     struct fm_error *err);
int fm_journal_event(struct fm_journal *journal, const struct fm_fence *fence, const struct fm_event *event,
                     struct fm_error *err);
int fm_journal_save(struct fm_journal *journal, const struct fm_fence *fence, int64_t epoch, const void *blob,
                    size_t size, struct fm_error *err);
/* The result, scores and weights included (scores as rows of at most 64 MiB), which are taken out of it and
 * written at the latest when the group is committed; removes the checkpoint. */
int fm_journal_run_end(struct fm_journal *journal, const struct fm_fence *fence, struct fm_run_result *result,
                       int64_t classes, int64_t score_width, int64_t weight_count, double seconds,
                       struct fm_error *err);

/* The device was lost while the run was computed. The mark goes when the run ends. */
int fm_journal_suspect(struct fm_journal *journal, const struct fm_fence *fence, struct fm_error *err);

/* The next trial (number > after) whose runs are all completed but whose pooled measures are not on record, 0
 * = none: a process was killed between the two. */
int fm_journal_unpooled(struct fm_journal *journal, int64_t after, int64_t *trial, struct fm_error *err);
/* Of a trial of which no run is left to do: its pooled out-of-fold measures, if all are completed; then drops
 * the scores and weights that `keep` does not ask for (those of trials that are not among the best). Those of
 * a failed trial go too. */
int fm_journal_trial_end(struct fm_journal *journal, const struct fm_prepared *p,
                         const struct fm_planned *trial, struct fm_error *err);
/* Whether a trial whose only run ends with this result will be among those that are kept. True also when that
 * cannot be told yet. */
bool fm_journal_would_keep(const struct fm_journal *journal, const struct fm_sweep *sweep, int64_t trial,
                           const struct fm_run_result *result);
/* Applies `keep` to what is on record, because keep or the list of trials may have changed; what was dropped
 * before does not come back, and a note says so. */
int fm_journal_keep(struct fm_journal *journal, struct fm_prepared *p, struct fm_error *err);
int fm_journal_transfers(struct fm_journal *journal, const char *device, const struct fm_transfers *transfers,
                         struct fm_error *err);

/* Commits when the group is 200 ms old (or `now` is set). Call it from the event loop. FM_EIO, with nothing
 * written, when the file no longer stands where it was opened. */
int fm_journal_commit(struct fm_journal *journal, bool now, struct fm_error *err);

/* Says whether all that is listed is over, for the space (struct fm_prepared) it was true of. */
int fm_journal_mark(struct fm_journal *journal, bool finished, uint64_t space_hash, struct fm_error *err);

#endif
