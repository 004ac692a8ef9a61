/* How far apart the rows of a series are: the first of two readings, made only when `time` is given. */
#ifndef FM_DATA_STEPS_H
#define FM_DATA_STEPS_H

#include "data/files.h"

/* The median over all files of the steps forward between neighbouring rows of one record (or group), exactly
 * and in bounded memory (median.h: it reads the files once, or up to five times if the steps are very many
 * different ones). 0 when there is none. `limit` is the number of different steps held in memory. */
int fm_csv_median_step(const struct fm_file_list *files, const struct fm_data_config *config, size_t limit,
                       double *median, struct fm_error *err);

#endif
