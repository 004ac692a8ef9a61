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
                      const struct fm_device *device, struct fm_error *err);
/* What needs the data and the trials together: metrics that fit the target, class names in weights. */
int fm_prepare_checks(struct fm_prepared *p, struct fm_error *err);

#endif
