/* What would run, before anything does: as the JSON of `plan --json` and as text for people. From the
 * prepared sweep alone; the journal is not looked at. */
#ifndef FM_REPORT_PLAN_H
#define FM_REPORT_PLAN_H

#include "base/text.h"
#include "foldmill.h"
#include "sweep/prepare.h"

/* How the device computes one network at one batch size. */
struct fm_plan_explained {
    int64_t network, batch;
    int64_t first, trials; /* number of the first of the trials it is for, and how many there are */
    char *text;            /* lines of the backend; owned */
};

/* What the plan shows beside the preparation. */
struct fm_plan_extra {
    const struct fm_notes *before; /* noted while the file was read; may be NULL */
    const char *device;            /* one line, or NULL */
    int64_t lanes;                 /* 0 = unknown */
    double seconds;                /* expected for the whole sweep at most; NaN = unknown */
    /* With --explain: in the order of networks and batch sizes; and how many more there are. NULL: without.
     */
    const struct fm_plan_explained *explained;
    int64_t nexplained, more_explained;
};

void fm_plan_write_json(struct fm_text *text, const struct fm_prepared *p, const struct fm_plan_extra *extra);
void fm_plan_write_text(struct fm_text *text, const struct fm_prepared *p, const struct fm_plan_extra *extra,
                        const struct fm_look *look);

/* Asks the backend how it would compute each distinct pair of network and batch size, at most `most` of them.
 * fm_plan_explain_free also takes what a failed call left. */
int fm_plan_explain(struct fm_plan_extra *extra, const struct fm_prepared *p,
                    const struct fm_backend *backend, const struct fm_device *device, int64_t most,
                    struct fm_error *err);
void fm_plan_explain_free(struct fm_plan_extra *extra);

/* Adds what a person should be warned of beyond what the split noted by itself (shared positions, identical
 * records, classes that are rare): folds that cannot define a metric. */
void fm_plan_notes(const struct fm_prepared *p, struct fm_notes *notes);

/* Bytes that stay in memory: series, examples, views, folds. */
int64_t fm_plan_resident(const struct fm_prepared *p);
/* Runs of all valid trials. */
int64_t fm_plan_runs(const struct fm_prepared *p);

#endif
