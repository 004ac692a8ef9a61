/* Which field of a CSV row is what: column names of the sweep file found in a file's header. */
#ifndef FM_DATA_COLUMNS_H
#define FM_DATA_COLUMNS_H

#include "data/csv.h"

/* Fields of a row, -1 = not asked for. Numbers from csv->columns on are the text columns of the file's name.
 */
struct fm_columns {
    int time, record, group, target, weight, mask, fold, sequence;
    size_t nfeatures;
    int *feature;
    bool *taken; /* of each field: it is a feature (private) */
};

/* Finds everything that config and needs ask for. The first file names the channels (*names, *count: its
 * features in order, owned by the caller); later files must have columns of these names, in any order; what
 * else they have is not used. Errors name the
 * key of the sweep file, the data file, and the nearest column. */
int fm_columns_init(struct fm_columns *columns, struct fm_csv *csv, const struct fm_data_file *file,
                    const struct fm_data_config *config, const struct fm_dataset_needs *needs, char ***names,
                    int64_t *count, struct fm_notes *notes, struct fm_error *err);
void fm_columns_fini(struct fm_columns *columns);

/* Finds one column: its field, or negative with *err filled. `key` is what the sweep file calls it. */
int fm_column_find(struct fm_csv *csv, const struct fm_data_file *file, const struct fm_node *node,
                   const char *key, struct fm_error *err);

#endif
