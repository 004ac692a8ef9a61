/* Finds shared libraries and fills the tables of dnn.h and blas.h from them. Private to library/.
 *
 * What other searches got wrong, and why this one is as it is (../shared/cuda_matrix.md, 5):
 * - By its bare name cuDNN is what the loader finds first, perhaps one without code for this card: named
 *   folders come first, one by one, whatever version they hold. A cuDNN 8 in a named folder goes before a 9
 *   in a later one or on the loader's path; within one folder 9 goes before 8 before 7.
 * - Two CUDA versions on one machine need cuBLAS and cuDNN each: folders are named for all of them
 *   (FOLDMILL_LIBDIRS) or for one (FOLDMILL_LIBDIRS_13), and the latter are asked first.
 * - cuDNN 8 and 9 are a small library that opens its parts by name when they are first needed: the parts are
 *   opened before, from the very folder where the first was found, and one that is missing there is refused,
 *   or else the loader would mix two versions.
 * - cuDNN 8 ends the process (abort) when cuBLAS cannot be loaded: cublasLt and cublas come first and are
 *   global; without them cuDNN is not opened. A cuBLAS that is too old for our products does for that.
 * - The builds of one cuDNN version for two CUDA versions have the same names, and one process gets the parts
 *   of whichever came first: only the first folder that has a version is looked at, and a build for another
 *   CUDA is refused, not replaced.
 * Nothing is ever closed: these libraries do not survive it. */
#ifndef FM_CUDA_LIBRARY_LOAD_H
#define FM_CUDA_LIBRARY_LOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "library/blas.h"
#include "library/dnn.h"

/* Folders named at build time, with colons between. */
#ifndef FM_LIBDIRS
#define FM_LIBDIRS ""
#endif

/* FM_LOADED_OLD: cuBLAS 10, opened but without cublasSetWorkspace_v2, which is NULL in the table: it can tell
 * its version, and cuDNN may be opened. */
enum fm_load { FM_LOADED, FM_LOADED_OLD, FM_LOAD_ABSENT, FM_LOAD_REFUSED };

/* `folder`: where it was found. `why` gets a sentence unless FM_LOADED. */
enum fm_load fm_load_blas(struct fm_blas_table *table, int cuda_major, char *folder, size_t folder_size,
                          char *why, size_t why_size);
/* The next cuDNN, of a version whose bit (1 << 9, 1 << 8, 1 << 7) is not in `tried`, where its own is set
 * then; begins with 0, and may be called again when what it found is of no use. FM_LOAD_ABSENT, without a
 * sentence: there is none any more. */
enum fm_load fm_load_dnn(struct fm_dnn_table *table, unsigned *tried, int cuda_major, char *folder,
                         size_t folder_size, char *why, size_t why_size);

#endif
