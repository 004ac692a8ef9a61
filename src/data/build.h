/* The data set while it grows: positions and records are added in order, each array in steps of half its size
 * (large ones are moved by the kernel without copying), cut to size at the end.
 *
 * The first rows (at most 65,536, fewer with many channels) wait in double until it is clear whether a
 * channel needs an offset. A wrapped record gets the copy of its head when it ends. */
#ifndef FM_DATA_BUILD_H
#define FM_DATA_BUILD_H

#include "data/dataset.h"
#include "data/labels.h"
#include "data/names.h"

struct fm_build {
    struct fm_dataset *data;
    const struct fm_data_config *config;
    const struct fm_dataset_needs *needs;
    struct fm_notes *notes;

    /* What positions have; set before the first. */
    bool letters, numbers, has_mask, has_weights, has_time, has_folds;
    struct fm_labels labels; /* of targets that are classes */

    int64_t capacity; /* positions there is room for */
    double *first;    /* [first_limit][C] until the offsets are known */
    int64_t first_limit;

    struct fm_names ids, groups, folds;
    uint32_t *uses; /* of each id: records called so */
    size_t uses_capacity, starts_capacity, group_capacity, id_capacity;
    bool open;    /* a record is growing */
    int64_t real; /* its positions so far */
};

struct fm_position {
    const double *values; /* [C]; NaN = will be set later */
    uint8_t letter;
    uint32_t class_code; /* of labels */
    float target;
    bool mask;
    float weight;
    double time;
    uint32_t fold; /* number of its name in `folds` */
};

/* `data` is cleared. `channels` 0: letters. The caller has set nothing yet; takes `classes` from the config.
 */
int fm_build_init(struct fm_build *b, struct fm_dataset *data, const struct fm_data_config *config,
                  const struct fm_dataset_needs *needs, struct fm_notes *notes, int64_t channels,
                  struct fm_error *err);
/* Frees what did not become part of the data set. */
void fm_build_fini(struct fm_build *b);

/* A record begins: id and group as written (group NULL: the id before '#'). The one before must have ended.
 */
int fm_build_begin(struct fm_build *b, const char *id, size_t id_size, const char *group, size_t group_size,
                   struct fm_error *err);
int fm_build_add(struct fm_build *b, const struct fm_position *position, struct fm_error *err);
/* The place of the next position. */
int64_t fm_build_place(const struct fm_build *b);
/* Gives a value to a position of the open record that was NaN. */
void fm_build_set_value(struct fm_build *b, int64_t position, int64_t channel, double value);
int fm_build_end(struct fm_build *b, struct fm_error *err);
/* All records have ended: numbers classes, groups and folds, and cuts arrays to size. */
int fm_build_finish(struct fm_build *b, struct fm_error *err);

/* ---- parts that arrays.c and sine.c use, too ---- */

/* The offset of one channel from the least and greatest value of its first rows (dataset.h). */
double fm_series_offset(double least, double greatest);
/* Copies everything that is known of a stored position to another one. */
void fm_position_copy(struct fm_dataset *data, int64_t from, int64_t to);
/* Turns fold texts into numbers: distinct texts but -1 in order become nfolds and fold_names; fold[i] (a
 * number of `names`) becomes the fold's number or -1. */
int fm_folds_finish(struct fm_dataset *data, const struct fm_names *names, int64_t count,
                    struct fm_error *err);
/* Sorts the group names and renumbers record_group. */
int fm_groups_finish(struct fm_dataset *data, const struct fm_names *names, struct fm_error *err);

#endif
