/* The loaders behind fm_dataset_load, one for each `source`. Each fills a cleared data set; on failure the
 * caller frees it. Checks that concern all sources, and the hash, come afterwards (dataset.c). */
#ifndef FM_DATA_LOAD_H
#define FM_DATA_LOAD_H

#include "data/dataset.h"

int fm_load_csv(struct fm_dataset *data, const struct fm_data_config *config,
                const struct fm_dataset_needs *needs, struct fm_notes *notes, struct fm_error *err);
int fm_load_sequences(struct fm_dataset *data, const struct fm_data_config *config,
                      const struct fm_dataset_needs *needs, struct fm_notes *notes, struct fm_error *err);
int fm_load_arrays(struct fm_dataset *data, const struct fm_data_config *config,
                   const struct fm_dataset_needs *needs, struct fm_notes *notes, struct fm_error *err);
int fm_load_sine(struct fm_dataset *data, const struct fm_data_config *config,
                 const struct fm_dataset_needs *needs, struct fm_notes *notes, struct fm_error *err);

/* The files that arrays are read from, in the order x, y, ...; npz: one. Owned by the caller. */
int fm_array_files(const struct fm_data_config *config, char ***paths, int64_t *count, struct fm_error *err);

#endif
