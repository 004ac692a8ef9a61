/* A small sweep in a folder of its own, run through prepare, journal and scheduler, and what the journal says
 * afterwards as one text without times: two runs of the same sweep must give the same text. */
#ifndef FM_TESTS_SWEEP_H
#define FM_TESTS_SWEEP_H

#include <stdatomic.h>
#include <stdbool.h>

#include "engine/backend.h"
#include "sweep/scheduler.h"

struct ts_sweep {
    char *folder, *file, *journal;
};

/* Writes 60 rows of two classes in three records and the sweep file `yaml` (its data section is written for
 * it). */
void ts_sweep_init(struct ts_sweep *sweep, const char *yaml);
void ts_sweep_write(struct ts_sweep *sweep, const char *yaml);
void ts_sweep_fini(struct ts_sweep *sweep);

struct ts_sweep_options {
    const struct fm_backend *backend;
    int64_t lanes;
    const atomic_int *stop;
    const struct fm_watcher *watcher;
    double checkpoint_seconds;
    bool fresh;
    bool accept_other; /* as --accept-other-device */
};

/* Open, prepare, compare, begin, schedule, mark, close, as the library does. Returns the first code. */
int ts_sweep_run(struct ts_sweep *sweep, const struct ts_sweep_options *options, struct fm_error *err);

/* Everything in the journal but times, attempts and transfers; free() it. */
char *ts_sweep_dump(const struct ts_sweep *sweep);

/* One number from the journal. */
long ts_sweep_number(const struct ts_sweep *sweep, const char *query);

#endif
