/* Stand-ins for cuDNN and cuBLAS: the tables that library/library.c takes in the emulated build instead of
 * opening a shared library. They compute by plain loops and check more strictly than the real ones; what they
 * find is a fault (emulator.h):
 *
 *   - handles and descriptors are live ones of their kind, set before they are used; the card is current;
 *   - a stream was set, it lives, is not the default one and belongs to the handle's card;
 *   - sizes of the descriptors fit each other; kernels are NHWC, activations channels-last;
 *   - everything read or written lies in one live allocation, and in one tensor, variable or workspace of
 *     the lane (fm_emulator_piece_part); outputs overlap nothing; addresses are multiples of 16, workspaces
 *     of 256;
 *   - the workspace is as large as was asked for and is written over by every call; cuBLAS forgets it when a
 *     stream is set;
 *   - the algorithm was offered and is deterministic; FMA math was asked of cuDNN, PEDANTIC of cuBLAS;
 *   - nothing that may allocate or wait is called during capture, and nothing is captured whose code was
 * never run before (the real ones load it then).
 *
 * With beta = 0 outputs are not read. Scalars are read at the call. The lists of algorithms are shuffled by
 * seed and shape, and hold entries that must not be taken: refused, not deterministic, tensor cores, a huge
 * workspace, and the three that add with atomics although they are said to be deterministic. */
#ifndef FM_EMULATOR_LIBRARY_H
#define FM_EMULATOR_LIBRARY_H

#include "library/blas.h"
#include "library/dnn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NULL when the settings say no_library. */
const struct fm_dnn_table *fm_emulator_dnn(void);
/* A second cuDNN that is found after the first; NULL unless `behind` is set. */
const struct fm_dnn_table *fm_emulator_dnn_behind(void);
const struct fm_blas_table *fm_emulator_blas(void);

/* For tests; all zero is what stands otherwise. Stays until it is set again. */
struct fm_emulator_library {
    int cudnn;      /* version, 0 = 91900, or 91002 for a card that needs it */
    int behind;     /* version of a second cuDNN, 8.0 or newer; 0 = there is none */
    int built_for;  /* CUDA's, 0 = CUDART_VERSION */
    int old_blas;   /* cuBLAS has no cublasSetWorkspace_v2, as that of CUDA 10 */
    int no_choice;  /* no algorithm is usable */
    int no_getters; /* the getters of algorithms decline */
    int refuses;    /* convolutions are refused when they are called, whatever the getters said */
    int refuses_products;
    int wrong; /* convolutions take examples to follow each other at once, whatever the descriptors say */
    int wrong_products; /* products leave out the second half of their sums */
    int tf32;           /* products round what they multiply as tensor cores do */
};
void fm_emulator_library_set(const struct fm_emulator_library *settings);

#ifdef __cplusplus
}
#endif

#endif
