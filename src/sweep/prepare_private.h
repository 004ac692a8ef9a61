/* Steps of fm_prepare, shared between its files. */
#ifndef FM_SWEEP_PREPARE_PRIVATE_H
#define FM_SWEEP_PREPARE_PRIVATE_H

#include "base/text.h"
#include "sweep/prepare.h"

/* Reads the data as the first trial's loss wants them; finds examples and the longest view. */
int fm_prepare_load(struct fm_prepared *p, const struct fm_train_config *first, struct fm_error *err);
/* Finds or makes the view of a window length, the split of a seed. */
int fm_prepare_view(struct fm_prepared *p, int64_t length, int64_t *index, struct fm_error *err);
int fm_prepare_split(struct fm_prepared *p, int64_t seed, int64_t *index, struct fm_error *err);
int fm_prepare_stamps(struct fm_prepared *p, struct fm_error *err);
/* Draws the trials and compiles their networks, loading the data with the first. */
int fm_prepare_trials(struct fm_prepared *p, struct fm_sweep *sweep, const struct fm_backend *backend,
                      struct fm_device *device, struct fm_error *err);
/* Numbers by hash; several may have one hash. Zero-initialise. */
struct fm_index {
    uint64_t *hash;
    int64_t *number; /* -1 = a free place */
    size_t capacity, count;
};
void fm_index_fini(struct fm_index *index);

/* What trials share while they are compiled. */
struct fm_compiler {
    struct fm_prepared *p;
    const struct fm_backend *backend; /* may be NULL, and `device` with it */
    struct fm_device *device;
    struct fm_index models;   /* valid trials by what they were compiled from */
    struct fm_index programs; /* networks by the hash of their program */
    struct fm_index asked;    /* trials by network and batch size: what the backend said of them */
};
/* `planned` is the last of c->p->trials, read, with its view and split. */
int fm_prepare_compile(struct fm_compiler *c, struct fm_planned *planned, struct fm_error *err);
void fm_compiler_fini(struct fm_compiler *c);

/* What needs the data and the trials together: metrics that fit the target, class names in weights. */
int fm_prepare_checks(struct fm_prepared *p, struct fm_error *err);

#endif
