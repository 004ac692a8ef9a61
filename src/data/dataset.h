/* The series: all records of all files end to end, once, as they stay resident.
 *
 * A position has either one letter (one byte) or C numbers (four bytes each), and what the target, mask and
 * weight columns said there. Positions and records are counted in 64 bits.
 *
 * Letters: code 0..A-1 is the letter's place in the alphabet; FM_NO_LETTER is an unknown one that becomes a
 * row of zeros. With `unknown: letter` the alphabet has one more code, A-1, and nothing is FM_NO_LETTER.
 *
 * Numbers: stored[p*C + ch] = (float)(x - offset[ch]), x and the offset in double, so that a channel with a
 * large offset and a small spread keeps its digits. The offset is 0 unless the first rows (at most 65,536)
 * show a middle that is more than 16 times their range.
 *
 * Wrapped records (`edge: wrap`) carry a copy of their head after their end, so that every window is one
 * slab: starts[r+1] - starts[r] = lengths[r] + head, head = longest window (label positions not included) -
 * 1; the copy goes round as often as it must when the record is shorter than that. Targets, masks, weights
 * exist for stored positions too and are copied alike.
 *
 * Targets lie per position, or per record where an array gives one label for all positions of a record.
 * Class code `nclasses` stands for "no class here" (`other: skip`): such a position is never an anchor whose
 * label is read there (see view.h).
 */
#ifndef FM_DATA_DATASET_H
#define FM_DATA_DATASET_H

#include "config/sweep.h"
#include "data/packed.h"

#define FM_NO_LETTER 255

/* One file that was read: how a finished sweep knows at once that its data did not change. */
struct fm_file_stamp {
    char *path;
    int64_t size, mtime_ns, inode;
    uint64_t hash; /* of its bytes */
};

struct fm_dataset {
    int64_t nrecords;
    int64_t *starts;       /* nrecords + 1: first stored position of each record */
    int64_t *lengths;      /* real positions; NULL = starts[r+1] - starts[r] - head */
    int64_t head;          /* copied positions at each record's end; 0 unless wrapped */
    int64_t positions;     /* stored, = starts[nrecords] */
    int32_t *record_group; /* group of each record, an index into group_names; NULL = each its own record */
    int64_t ngroups;
    char **group_names; /* byte by byte in order; NULL if record_group is NULL */
    char **record_ids;  /* "r1", "r1#2", ...; NULL: the record's number is its id */

    int64_t channels;        /* C; 0 for letters */
    char **channel_names;    /* C; NULL for letters and arrays */
    float *values;           /* [positions][C] or NULL */
    double *offset;          /* [C] */
    int64_t alphabet;        /* A; 0 for numbers */
    char *alphabet_letters;  /* as written, without the extra "unknown" one */
    uint8_t *letters;        /* [positions] or NULL */
    int64_t unknown_letters; /* how many positions held one */

    bool target_per_record;
    int64_t nclasses;         /* 0 when targets are numbers */
    char **class_names;       /* nclasses, in the order of their codes */
    struct fm_packed classes; /* codes 0..nclasses, per position or per record */
    int64_t target_width;     /* numbers: 1; K for y[N,K] (per record) */
    float *target_values;     /* [positions or records][target_width], when nclasses == 0; NaN = no label here
                                 (other: skip), treated like class code `nclasses` */
    bool distribution;        /* y[N,K] given for categorical_crossentropy */

    uint64_t *mask; /* bit per stored position: may be an anchor; NULL = all */
    float *weights; /* per stored position (per record with arrays y[N]): NULL = all 1 */
    bool weights_per_record;
    double *time;  /* per stored position; only when asked for */
    int32_t *fold; /* predefined folds by column or array, per position or record; -1 = always training */
    bool fold_per_record;
    int64_t nfolds;
    char **fold_names; /* distinct values in order (numbers by value, else text), without -1 */

    /* Class numbers of an array, for fm_dataset_check_outputs: where they stood, and the negative ones, which
     * no network has an output for (at most 4 are remembered). Their code is `nclasses`. */
    char *target_from;      /* "y.npy" or "data.npz: y"; NULL: targets are no class numbers of an array */
    int64_t target_columns; /* of y [N,L]; 0: y is a list */
    int64_t *target_first;  /* column of y where each record begins; NULL: 0 */
    int64_t negatives, negative_index[4], negative_value[4];

    struct fm_file_stamp *files;
    int64_t nfiles;
    uint64_t hash; /* of everything above that can change a result, file names aside */
};

/* What the rest of the sweep needs from the files. */
struct fm_dataset_needs {
    bool numbers;                      /* target is read as numbers (mse, mae, huber) */
    bool distribution;                 /* y of [N,K] is allowed: categorical_crossentropy */
    bool time;                         /* keep the time of each position */
    const struct fm_node *fold_column; /* cv.column, or NULL */
    int64_t longest_window;            /* for the heads of wrapped records */
};

/* Reads the files of `config` and checks everything that can be wrong with them. Errors name file, line and
 * column (CSV), or file and byte or index (arrays). Notes tell what was seen: gaps, disorder, unknown
 * letters, an empty extra field. On failure nothing is kept. Peak memory is the series plus one file's read
 * buffer, never the windows. One class over all targets is an error here. */
int fm_dataset_load(struct fm_dataset *data, const struct fm_data_config *config,
                    const struct fm_dataset_needs *needs, struct fm_notes *notes, struct fm_error *err);
void fm_dataset_fini(struct fm_dataset *data);

/* Whether a network with `outputs` outputs can learn these targets: every class has an output (one output is
 * enough for two classes), a distribution is as wide as the outputs, a number has one. Class numbers of an
 * array that have none are named with their file, index and value (FM_EFILE). */
int fm_dataset_check_outputs(const struct fm_dataset *data, int64_t outputs, struct fm_error *err);

/* Fills everything of a stamp but its path, reading the file for its hash. */
int fm_stamp_read(struct fm_file_stamp *stamp, struct fm_error *err);
/* Compares the stamps on record with the files as they are now: 1 = unchanged (size, time and inode agree, or
 * the content's hash does), 0 = changed (`which` says what, may be NULL), negative on error. Reads a file
 * only if its size agrees and its time or inode does not. */
int fm_stamps_unchanged(const struct fm_file_stamp *files, int64_t count, char *which, size_t which_size,
                        struct fm_error *err);
/* Expands `path` (texts, lists, globs, {name} columns) without reading: the files in reading order. */
int fm_data_files(const struct fm_data_config *config, char ***paths, int64_t *count, struct fm_error *err);

int64_t fm_dataset_record_length(const struct fm_dataset *data, int64_t record); /* real positions */
int64_t fm_dataset_record_of(const struct fm_dataset *data, int64_t position);   /* binary search */
/* The record's id as the user knows it, whole: the data set's own text, or its number written into `buffer`
 * (24 bytes are enough); fold files use the part before '#'. */
const char *fm_dataset_record_id(const struct fm_dataset *data, int64_t record, char *buffer, size_t size);
int64_t fm_dataset_bytes(const struct fm_dataset *data); /* resident */

#endif
