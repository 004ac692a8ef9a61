/* How arrays of different shapes lie on records and positions (private to arrays*.c). */
#ifndef FM_DATA_ARRAYS_H
#define FM_DATA_ARRAYS_H

#include "data/build.h"
#include "data/npy.h"

struct fm_arrays {
    struct fm_dataset *data;
    const struct fm_data_config *config;
    const struct fm_dataset_needs *needs;
    zip_t *zip; /* npz, or NULL */
    char *path; /* of the npz */
    struct fm_npy x;
    bool flat;      /* x is [T,C]: one record, or several by group */
    int64_t n, l;   /* rows of x along its first (and second) dimension; flat: n = 1, l = T */
    int64_t *first; /* first real column of each row of x; NULL = 0 */
};

/* Opens the array that a key names: a member of the npz, or a file beside the sweep file. */
int fm_arrays_open(struct fm_arrays *s, const struct fm_node *name, struct fm_npy *a, struct fm_error *err);

/* What the elements of an array belong to. */
enum fm_array_form {
    FM_PER_ROW,      /* [N] or [N,1]: one a record of x (not flat) */
    FM_PER_POSITION, /* [N,L], or flat [T] or [T,1] */
    FM_OTHER_FORM
};
enum fm_array_form fm_array_form(const struct fm_arrays *s, const struct fm_npy *a);
/* "[3, 4]" */
const char *fm_array_shape(const struct fm_npy *a, char buffer[FM_NPY_DIMS * 24]);
/* "index 3" or "index [1, 2]" of an element, by its place in C order. */
const char *fm_array_index(const struct fm_npy *a, int64_t place, char buffer[FM_NPY_DIMS * 24]);

/* "<what> has the shape ..., which does not fit x ...; <wanted> is expected" */
int fm_array_form_error(const struct fm_arrays *s, const struct fm_npy *a, const char *what,
                        const char *wanted, struct fm_error *err);
/* Where row r, column c of x (flat: r = 0) is stored; -1 if it is not real. */
int64_t fm_array_place(const struct fm_arrays *s, int64_t r, int64_t c);

/* Calls `take` for each element, in the order of the file, with where it belongs (a record, or a stored
 * position), its place in C order, and its value; elements that are not real positions are passed over. Goes
 * to the array's end and checks it; may be called again. The array's form must be one of the first two. */
typedef int fm_take_element(void *user, int64_t where, int64_t place, double value, struct fm_error *err);
int fm_arrays_walk(struct fm_arrays *s, struct fm_npy *a, fm_take_element *take, void *user,
                   struct fm_error *err);

/* The place in C order of the element after `place` in the order of the file. */
struct fm_npy_place {
    int64_t index[FM_NPY_DIMS], place;
};
void fm_npy_step(const struct fm_npy *a, struct fm_npy_place *place);

int fm_arrays_read_values(struct fm_arrays *s, struct fm_error *err);  /* x */
int fm_arrays_read_targets(struct fm_arrays *s, struct fm_error *err); /* y */

int fm_arrays_read_group(struct fm_arrays *s, struct fm_error *err); /* before the positions are counted */
int fm_arrays_read_weight(struct fm_arrays *s, struct fm_error *err);
int fm_arrays_read_fold(struct fm_arrays *s, struct fm_error *err);
int fm_arrays_read_mask(struct fm_arrays *s, struct fm_error *err);

#endif
