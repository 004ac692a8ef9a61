/* What single cells of a CSV row say: the parts that series and sequences share. Each fills its value or
 * returns an error at the cell. */
#ifndef FM_DATA_CELLS_H
#define FM_DATA_CELLS_H

#include "data/build.h"
#include "data/csv.h"

/* The current row's field, as bytes. */
struct fm_cell {
    const char *text;
    size_t size;
};
struct fm_cell fm_cell_at(const struct fm_csv *csv, int field);
bool fm_cell_is(struct fm_cell cell, const struct fm_text *text);

/* `what`: "record" or "group". An empty one and one that cannot be a name are refused. */
int fm_cell_name(const struct fm_csv *csv, int field, const char *what, struct fm_cell *cell,
                 struct fm_error *err);
/* A number that a float can hold; `what` names the column's use. */
int fm_cell_number(const struct fm_csv *csv, int field, const char *what, double *value,
                   struct fm_error *err);
/* Example weights: numbers from 0 up. */
int fm_cell_weight(const struct fm_csv *csv, int field, float *weight, struct fm_error *err);
/* The number of the cell's text in `folds`. */
int fm_cell_fold(const struct fm_csv *csv, int field, struct fm_names *folds, uint32_t *fold,
                 struct fm_error *err);

/* `mask: {column, keep}`: the cell is `keep`, as text or as a number. */
struct fm_keep {
    const struct fm_node *node;
    bool numeric;
    double value;
};
void fm_keep_init(struct fm_keep *keep, const struct fm_data_config *config);
bool fm_keep_fits(const struct fm_keep *keep, const struct fm_csv *csv, struct fm_cell cell);

/* Gives an error that names no file the place of the current row. */
int fm_cell_place(const struct fm_csv *csv, int rc, struct fm_error *err);
/* Notes what the dialect let pass: empty extra fields, blank lines, no header; of the first few files only.
 */
void fm_csv_notes(const struct fm_csv *csv, int64_t file, struct fm_notes *notes);
/* The file ended: checks it, and adds its stamp to the data set. */
int fm_csv_stamp(struct fm_csv *csv, struct fm_dataset *data, struct fm_error *err);

#endif
