/* What the journal's own files share. */
#ifndef FM_SWEEP_JOURNAL_PRIVATE_H
#define FM_SWEEP_JOURNAL_PRIVATE_H

#include "sweep/journal.h"
#include "sweep/schema.sql.h"
#include "sweep/sql.h"

struct fm_journal {
    struct fm_sql sql;
    char *path;
    int lock; /* descriptor of <path>.lock */
    bool wal;
    bool in_group;                 /* a transaction is open */
    double group_began, last_sync; /* monotonic seconds */
};

double fm_monotonic(void);  /* seconds, for intervals */
double fm_wall_clock(void); /* seconds since 1970 */

/* Opens the group (BEGIN IMMEDIATE) unless it is open. Every write begins with it. */
int fm_journal_group(struct fm_journal *journal, struct fm_error *err);
int fm_journal_schema(struct fm_journal *journal, struct fm_error *err);

/* "[[1,2],[3,4]]"; NULL when memory is out; the caller frees it. */
char *fm_confusion_text(const int64_t *confusion, int64_t classes);
const char *fm_status_name(enum fm_run_status status);
const char *fm_event_name(enum fm_event_kind kind);

#endif
