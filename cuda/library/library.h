/* cuDNN and cuBLAS: opened at run time, never linked.
 *
 * dnn.h and blas.h declare the calls in use ourselves (same signatures from cuDNN 7.6 to 9; status numbers
 * changed in 9, so they are compared with 0 only); check_headers.cu compares them with the real headers
 * wherever those are at hand.
 *
 * Opening: cublasLt, cublas, then cuDNN (cuDNN 8 calls abort() without cuBLAS), each first in the folders of
 * FOLDMILL_LIBDIRS_13 (or _12, _11, _10: the plug-in's CUDA major version), then of FOLDMILL_LIBDIRS, then in
 * those named when the plug-in was built (FM_LIBDIRS), then on the loader's path. A folder is asked for cuDNN
 * 9, 8 and 7 before the next one is, so a named 8 goes before any 9 of the system. One without code for the
 * cards gives way to one of another major version further on. A cuBLAS 10 is opened for cuDNN alone; refused
 * when built for another CUDA major version (cudnnGetCudartVersion). All parts of cuDNN from the same folder.
 * Environment variables that change results (NVIDIA_TF32_OVERRIDE, all CUBLAS* and CUDNN_*) are unset before.
 * RTLD_LOCAL where possible, never closed.
 *
 * One handle of each library per card. cuBLAS: PEDANTIC math, the lane's fixed workspace set again after
 * every SetStream. cuDNN: FMA math, one algorithm per call: the first of cudnnGetConvolution*Algorithm_v7's
 * answers with status success, DETERMINISTIC, no tensor-op math, workspace of at most 8 MiB, and neither
 * filter ALGO_0 or 3 nor data ALGO_0 (they add with atomics). Never by timing. */
#ifndef FM_CUDA_LIBRARY_H
#define FM_CUDA_LIBRARY_H

#include "cuda.h"

#define FM_LIBRARY_WORKSPACE (8 << 20)
#define FM_BLAS_WORKSPACE    (4 << 20)

struct fm_cuda_libraries {
    struct fm_dnn_table *dnn;   /* library/dnn.h; NULL = no cuDNN */
    struct fm_blas_table *blas; /* library/blas.h; NULL = none for products */
    int64_t cudnn, cublas;      /* versions: 91900, 130100; 0 = not there */
    char from[512];             /* where they were found, with what is there for cuDNN only */
};
/* Opens what there is for this CUDA major version, rather a cuDNN with code for `sm` (75 = sm_75; 0: cards
 * differ, the first is taken) than one without. 0 with libraries->dnn or blas NULL and a sentence in `why`
 * when one cannot be used (`why` is "" otherwise); negative only for want of host memory. free forgets the
 * tables; the libraries stay open. */
int fm_libraries_open(struct fm_cuda_libraries **libraries, int cuda_major, int sm, char *why,
                      size_t why_size, struct fm_error *err);
void fm_libraries_free(struct fm_cuda_libraries *libraries);
/* Whether this version of cuDNN has code for an architecture; if not, `why` says which one has. */
bool fm_dnn_has_code(int major, int minor, int64_t cudnn, char *why, size_t why_size);

/* card->dnn and card->blas; NULL where a library is not there or cannot work on this kind of card, with the
 * reason added to device->why_no_library. Negative when CUDA failed or memory is out. */
int fm_library_handles_open(struct fm_device *device, struct fm_card *card, struct fm_error *err);
void fm_library_handles_close(struct fm_device *device, struct fm_card *card);

enum fm_dnn_direction { FM_DNN_FORWARD, FM_DNN_INPUT_GRAD, FM_DNN_WEIGHT_GRAD };

/* How kernels lie in memory for cuDNN, in parameters and gradients: [F][taps][C / groups] (KRSC, filter
 * format NHWC). For activations that are channels-last, cuDNN documents the two gradients with these kernels
 * only: with [F][C / groups][taps] dy would have to be NCHW. at == NULL. */
struct fm_cuda_weights fm_dnn_weights(const struct fm_cuda_conv *conv);

/* One convolution in one direction: descriptors and algorithm. `rows` examples; `x` of run points at row
 * -conv.pad of the first example, from where every example has padded_rows rows (conv.in_rows and zeros
 * around), examples x_example floats apart; y has conv.out_rows rows, examples y_example apart. Kernels lie
 * as fm_dnn_weights says. dx is written from row -conv.pad on, as far as an output may reach and at least to
 * the last of the in_rows; what stands in its halo afterwards is no zero: dx must not share its buffer with a
 * tensor whose halo is read. */
struct fm_dnn_call;
/* algorithm < 0: chosen. 0; 1 with a reason in `why` when no algorithm fits (own kernel), or when the given
 * one does not; negative on failure. Looks at card's handle only; may be called before any lane opens. */
int fm_dnn_call_new(struct fm_dnn_call **call, struct fm_device *device, struct fm_card *card,
                    enum fm_dnn_direction direction, const struct fm_cuda_conv *conv, int padded_rows,
                    int rows, int x_example, int y_example, int algorithm, char *why, size_t why_size,
                    struct fm_error *err);
/* An operand of a call that is tried: how much it reads or writes, and where it will lie. */
struct fm_trial_operand {
    int64_t floats; /* from its address on */
    int64_t shift;  /* of its address from a multiple of FM_CUDA_ALIGN, in floats */
};
/* Makes the call once on numbers in [-1, 1) that lie as x, w and y will (zeros in the halo), and Foldmill's
 * own kernel on the same. 0: it works (or there was no room to try, and no lane is open: a lane would find
 * none either); 1 with a reason in `why`: cuDNN refuses it, or its numbers are further from Foldmill's own
 * than rounding explains (trial.c, most_of); negative on failure, FM_ENOMEM where open lanes leave no room.
 * Four bytes come back to the host. Not during capture. */
int fm_dnn_call_try(struct fm_device *device, struct fm_card *card, const struct fm_dnn_call *call,
                    const struct fm_trial_operand operands[3], char *why, size_t why_size,
                    struct fm_error *err);
void fm_dnn_call_free(struct fm_device *device, struct fm_dnn_call *call);
int fm_dnn_call_algorithm(const struct fm_dnn_call *call);
int64_t fm_dnn_call_workspace(const struct fm_dnn_call *call);
/* x, w and y at multiples of 16 bytes, as cuDNN may load four floats at a time; workspace of FM_CUDA_ALIGN;
 * they overlap nowhere. Legal during capture once the same call ran outside one. A failure does not make the
 * device lost unless CUDA itself failed. forward: y = x * w. input_grad: x = dy * w'. weight_grad: w = x' *
 * dy. beta = 0 always. */
int fm_dnn_call_run(struct fm_device *device, struct fm_card *card, const struct fm_dnn_call *call,
                    cudaStream_t stream, float *x, float *w, float *y, void *workspace, struct fm_error *err);

/* Row-major product: c[m][n] = op(a) op(b), op(a) is m x k. lda, ldb, ldc: floats from one stored row to the
 * next. */
struct fm_blas_shape {
    bool transpose_a, transpose_b;
    int m, n, k, lda, ldb, ldc;
};
/* As fm_dnn_call_run; the workspace has FM_BLAS_WORKSPACE bytes. */
int fm_blas_product(struct fm_device *device, struct fm_card *card, cudaStream_t stream,
                    const struct fm_blas_shape *shape, const float *a, const float *b, float *c,
                    void *workspace, struct fm_error *err);
/* As fm_dnn_call_try; shift: of a, b and c. A product of two transposed matrices, which no plan makes, is
 * refused: no own kernel makes it. */
int fm_blas_product_try(struct fm_device *device, struct fm_card *card, const struct fm_blas_shape *shape,
                        const int64_t shift[3], char *why, size_t why_size, struct fm_error *err);

#endif
