/* Arrays of .npy files, alone or as members of an .npz, as streams of doubles in the order of the file.
 *
 * Format: numpy/lib/_format_impl.py, versions 1.0 to 3.0. Booleans, integers and floats of 2, 4 and 8 bytes
 * of either byte order are read; objects (pickles), text, dates, complex and structured types are refused
 * with what to do. A header may have 10,000 characters, an array 8 dimensions, and the data must be exactly
 * as long as the header says: checked against the size of the file (or the size that the zip's directory
 * claims) before anything is allocated. A zip member is read to its last byte and one further, which is when
 * libzip checks its CRC. */
#ifndef FM_DATA_NPY_H
#define FM_DATA_NPY_H

#include "data/files.h"

#include <zip.h>

enum { FM_NPY_DIMS = 8 };

struct fm_npy {
    char *name; /* for messages: "x.npy" or "data.npz: x" */
    int ndim;
    int64_t shape[FM_NPY_DIMS];
    int64_t count; /* elements, at least 1 */
    bool fortran;  /* first index fastest in the file */
    char kind;     /* b i u f */
    int item_size;
    bool swap; /* the other byte order */

    /* Private. */
    int64_t data_offset, left; /* of the data in the file; elements not read yet */
    int fd;                    /* a file, or -1 */
    zip_t *zip;                /* a member of this archive, which outlives the array */
    zip_uint64_t index;
    zip_file_t *member;
    unsigned char *chunk;
};

int fm_npy_open(struct fm_npy *a, const char *path, struct fm_error *err);
/* The next n elements; n <= the number left. */
int fm_npy_read(struct fm_npy *a, double *values, int64_t n, struct fm_error *err);
/* Back to the first element. */
int fm_npy_rewind(struct fm_npy *a, struct fm_error *err);
/* After the last element: for zip members the CRC check. */
int fm_npy_finish(struct fm_npy *a, struct fm_error *err);
void fm_npy_close(struct fm_npy *a);

/* ---- npz.c ---- */

int fm_npz_open(zip_t **zip, const char *path, struct fm_error *err);
/* The array `name` (member name.npy). Encrypted and doubled members are refused; a missing one names the
 * nearest. */
int fm_npz_array(zip_t *zip, const char *path, const char *name, struct fm_npy *a, struct fm_error *err);
bool fm_npz_has(zip_t *zip, const char *name);
void fm_npz_close(zip_t *zip);
/* Opens member `index` at its first byte. */
int fm_npz_start(struct fm_npy *a, struct fm_error *err);

/* ---- for npz.c: the header, once the source stands at its first byte and `size` bytes are to come ---- */
int fm_npy_begin(struct fm_npy *a, int64_t size, struct fm_error *err);

#endif
