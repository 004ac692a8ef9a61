/* Writes .npz files: a zip of stored .npy members, as numpy.savez does. A member's key may hold '/'. */
#ifndef FM_REPORT_NPZ_WRITE_H
#define FM_REPORT_NPZ_WRITE_H

#include "base/error.h"

struct fm_npz_file;

/* Replaces the file at fm_npz_finish; until then nothing of it is seen. */
int fm_npz_create(struct fm_npz_file **npz, const char *path, struct fm_error *err);
/* A float32 array in C order; `values` is copied. */
int fm_npz_append(struct fm_npz_file *npz, const char *key, const float *values, const int64_t *shape,
                  int rank, struct fm_error *err);
/* Writes the file, unless `discard`; frees in any case. */
int fm_npz_finish(struct fm_npz_file *npz, bool discard, struct fm_error *err);

#endif
