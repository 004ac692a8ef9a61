/* What the journal's own files share. */
#ifndef FM_SWEEP_JOURNAL_PRIVATE_H
#define FM_SWEEP_JOURNAL_PRIVATE_H

#include "base/machine.h"
#include "sweep/journal.h"
#include "sweep/schema.sql.h"
#include "sweep/sql.h"

/* What a run leaves behind: [nscores][width] and [nweights] floats; owned. */
struct fm_blobs {
    struct fm_fence fence;
    float *scores, *weights;
    int64_t nscores, width, nweights;
};

/* A trial's place among others: the sum of the sweep's metric over its runs. */
struct fm_standing {
    int64_t trial;
    double sum;
    int64_t defined, runs, over; /* over: completed */
    bool diverged; /* the loss of a run is not finite: such a trial has no mean (report/board.h) */
};

struct fm_journal {
    struct fm_sql sql;
    char *path;
    int lock; /* descriptor of <path>.lock */
    bool wal;
    bool in_group;                 /* a transaction is open */
    double group_began, last_sync; /* monotonic seconds */
    struct fm_blobs *blobs;        /* journal_blobs.c */
    int64_t nblobs;
    size_t blob_capacity, blob_bytes;
    struct fm_standing *kept; /* journal_keep.c: best first; whole when kept_known */
    int64_t nkept;
    size_t kept_capacity;
    bool kept_known;
    bool no_checkpoints; /* the table is empty for sure */
};

#define FM_RUN_KEY "trial = ? AND repeat = ? AND fold = ?"
#define FM_FENCE   " FROM run WHERE " FM_RUN_KEY " AND attempt = ?"

double fm_wall_clock(void); /* seconds since 1970 */

/* Opens the group (BEGIN IMMEDIATE) unless it is open. Every write begins with it. */
int fm_journal_group(struct fm_journal *journal, struct fm_error *err);
int fm_journal_schema(struct fm_journal *journal, struct fm_error *err);

/* Takes what `blobs` owns, and writes it with the group's commit at the latest. Of a run whose end was
 * written (not fenced off) only. */
int fm_blobs_hold(struct fm_journal *journal, struct fm_blobs *blobs, struct fm_error *err);
int fm_blobs_flush(struct fm_journal *journal, struct fm_error *err);
/* Of a group that is given up. */
void fm_blobs_clear(struct fm_journal *journal);
/* NULL: it is in the file, or nowhere. Valid until the next call for blobs. */
const struct fm_blobs *fm_blobs_find(const struct fm_journal *journal, int64_t trial, int64_t repeat,
                                     int64_t fold);
void fm_blobs_forget_run(struct fm_journal *journal, int64_t trial, int64_t repeat, int64_t fold);
/* Takes scores, weights or both of a trial of so many runs away, held or written. */
int fm_blobs_drop(struct fm_journal *journal, int64_t trial, int64_t runs, bool scores, bool weights,
                  struct fm_error *err);

void fm_standing_add(struct fm_standing *standing, const char *status, double value, double val_loss);
/* Gives a completed trial its place, and drops what `keep` does not ask for: of it, or of the one that it
 * pushes out. A trial that is not among the best now never will be, because later ones only push it down. The
 * caller writes `kept` into the trial's row. */
int fm_keep_trial(struct fm_journal *journal, const struct fm_sweep *sweep,
                  const struct fm_standing *standing, bool *kept, struct fm_error *err);
/* The list of trials changed. */
void fm_keep_forget(struct fm_journal *journal);

/* Index of a monitor's metric within FM_METRIC_NAMES. */
static inline int fm_metric_column(struct fm_monitor metric)
{
    return (metric.part == FM_PART_VAL ? FM_METRICS : 0) + (int)metric.metric;
}

/* The program's hash as text: what the journal calls it. */
void fm_network_name(uint64_t hash, char name[17]);
/* "[[1,2],[3,4]]"; NULL when memory is out; the caller frees it. */
char *fm_confusion_text(const int64_t *confusion, int64_t classes);
const char *fm_status_name(enum fm_run_status status);
const char *fm_event_name(enum fm_event_kind kind);

#endif
