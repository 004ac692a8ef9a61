/* Everything that is known before the first step: the trials, the data, the views, the folds, the networks.
 *
 * `plan` prints it; `run` executes it. Trials are numbered from 1 in the order the search gives them; a
 * journal keeps the numbers it gave before (journal.h). A network that does not fit makes its trial invalid
 * with a reason; what is wrong in the file or the data is an error.
 */
#ifndef FM_SWEEP_PREPARE_H
#define FM_SWEEP_PREPARE_H

#include "base/log.h"
#include "engine/backend.h"
#include "net/layers.h"
#include "search/trials.h"

struct fm_planned {
    struct fm_trial trial;
    struct fm_train_config config;
    int64_t number;       /* from 1 */
    int64_t view, split;  /* indices into the resident views and splits */
    int64_t network;      /* index into networks, -1 when invalid */
    int64_t bytes;        /* of a lane, as the backend says; 0 without one */
    uint64_t plan_hash;   /* likewise */
    double *rates;        /* dropout rates of this trial, [program->nrates]; owned */
    char reason[512];     /* why it is invalid */
    char reason_code[16]; /* "shape", "device" */
};

/* A distinct program; trials of one architecture share it. */
struct fm_network {
    struct fm_program *program;
    int64_t bytes; /* cost of a lane at the largest batch size in use */
};

/* A plan by what it is made for. */
struct fm_plan_key {
    uint64_t network; /* hash of the program */
    int64_t batch;    /* 0 = no plan */
};

struct fm_prepared {
    const struct fm_sweep *sweep;
    struct fm_dataset data;
    struct fm_examples examples;
    struct fm_view *views;
    int64_t nviews;
    int64_t longest; /* index of the longest view */
    struct fm_split *splits;
    int64_t nsplits;
    struct fm_planned *trials;
    int64_t ntrials, trial_capacity;
    struct fm_network *networks;
    int64_t nnetworks, network_capacity;
    struct fm_plan_key *lost_plans; /* a device was lost when it made them: they are made with own kernels
                                       only (journal.h: fm_journal_lost_plans) */
    int64_t nlost_plans;
    size_t lost_plan_capacity;
    int64_t own_plans;          /* how many plans were made so */
    struct fm_plan_key lost_by; /* the plan that was being made when the device was lost just now */
    struct fm_notes notes;
    bool has_data;
    int64_t longest_length; /* over the whole space: decides examples and folds; 0 = arrays cut beforehand */
    int64_t shortest_length;
    uint64_t space_hash;          /* of what may change: which trials there are, what is kept, names */
    uint64_t fingerprint;         /* of everything else in the file: results depend on it */
    char *fingerprint_text;       /* the same as JSON, to explain what changed */
    uint64_t data_hash;           /* of series and folds; 0 before the data are read */
    struct fm_file_stamp *stamps; /* data files and, last, the fold file if there is one; paths borrowed */
    int64_t nstamps;
};

/* The part that needs no data: hashes of the file, the longest window. */
int fm_prepare_file(struct fm_prepared *p, struct fm_sweep *sweep, struct fm_error *err);

/* The files that decide the results, in the order of the stamps, without reading them. The caller frees each
 * and the list. */
int fm_prepare_paths(const struct fm_prepared *p, char ***paths, int64_t *count, struct fm_error *err);

/* The rest. `backend` and `device` may be NULL: then nothing is said about cost or support. FM_EDEVICE: the
 * device was lost while it made the plan p->lost_by. */
int fm_prepare(struct fm_prepared *p, struct fm_sweep *sweep, const struct fm_backend *backend,
               struct fm_device *device, struct fm_error *err);
/* FM_EDEVICE in words: what was planned, `why` the device was lost, and how to do without what lost it. */
int fm_prepare_lost(int64_t batch, const struct fm_error *why, struct fm_error *err);
void fm_prepared_fini(struct fm_prepared *p);

void fm_prepared_resident(const struct fm_prepared *p, struct fm_resident *resident);

/* Expected arithmetic of one run (floating point operations): what the scheduler orders by. */
double fm_planned_flops(const struct fm_prepared *p, const struct fm_planned *trial, int64_t fold);
int64_t fm_planned_runs(const struct fm_prepared *p, const struct fm_planned *trial); /* folds x repeats */

#endif
