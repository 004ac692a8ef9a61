/* Class labels of a text column, one code a position, while the classes may still be unknown.
 *
 * Without a list of classes, codes count labels in the order of their first appearance, in as few bits as the
 * labels seen so far need (one bit up to two), and are renumbered once all are known: distinct labels in
 * order, by number if all are numbers ("1" and "1.0" are then one class, named as it was first written), else
 * byte by byte. */
#ifndef FM_DATA_LABELS_H
#define FM_DATA_LABELS_H

#include "data/dataset.h"
#include "data/names.h"

enum { FM_MAX_CLASSES = 65536 };

struct fm_labels {
    bool listed; /* `classes` was given: names hold them */
    bool skip;   /* other: skip */
    struct fm_names names;
    struct fm_packed codes; /* count = room */
};

/* Takes `classes` (a list of scalars, or a scalar whose characters they are), or NULL. */
int fm_labels_init(struct fm_labels *labels, const struct fm_data_config *config, struct fm_error *err);
void fm_labels_fini(struct fm_labels *labels);

/* What fm_labels_code returns when memory is out. */
extern const char fm_labels_no_memory[];
/* The code of a label; NULL, or what is wrong with it, as the end of a sentence. */
const char *fm_labels_code(struct fm_labels *labels, const char *text, size_t size, uint32_t *code);
/* Stores the code of a position, making room for `capacity` positions and wide enough. 0 or FM_ENOMEM. */
int fm_labels_set(struct fm_labels *labels, int64_t position, uint32_t code, int64_t capacity);

/* Moves classes and codes of `count` positions into the data set. Notes labels that were equal as numbers. */
int fm_labels_finish(struct fm_labels *labels, int64_t count, struct fm_dataset *data, struct fm_notes *notes,
                     struct fm_error *err);

#endif
