/* cuBLAS as Foldmill uses it: our own declarations, as in dnn.h. cublas_v2.h renames calls by macros; the
 * symbols here are the real ones. Statuses are compared with 0 only.
 *
 * C11 and C++14. */
#ifndef FM_CUDA_LIBRARY_BLAS_H
#define FM_CUDA_LIBRARY_BLAS_H

#include <stddef.h>

#include <cuda_runtime_api.h>

struct fm_blas_handle;

/* name, value, NVIDIA's name */
#define FM_BLAS_VALUES(X)                                                                                    \
    X(FM_BLAS_SUCCESS, 0, CUBLAS_STATUS_SUCCESS)                                                             \
    X(FM_BLAS_N, 0, CUBLAS_OP_N)                                                                             \
    X(FM_BLAS_T, 1, CUBLAS_OP_T)                                                                             \
    X(FM_BLAS_ATOMICS_NOT_ALLOWED, 0, CUBLAS_ATOMICS_NOT_ALLOWED)                                            \
    X(FM_BLAS_MAJOR, 0, MAJOR_VERSION)                                                                       \
    X(FM_BLAS_MINOR, 1, MINOR_VERSION)                                                                       \
    X(FM_BLAS_PATCH, 2, PATCH_LEVEL)
/* Since cuBLAS 11. */
#define FM_BLAS_VALUES_11(X) X(FM_BLAS_PEDANTIC_MATH, 2, CUBLAS_PEDANTIC_MATH)

enum fm_blas_value {
#define FM_BLAS_VALUE(name, value, theirs) name = value,
    FM_BLAS_VALUES(FM_BLAS_VALUE) FM_BLAS_VALUES_11(FM_BLAS_VALUE)
#undef FM_BLAS_VALUE
};

/* name in the table, symbol, result, parameters. The workspace that one may give is what makes a handle on
 * several streams deterministic; cuBLAS 10 does not have the call and computes no products. */
#define FM_BLAS_CALLS(X)                                                                                     \
    X(create, cublasCreate_v2, int, (struct fm_blas_handle * *handle))                                       \
    X(destroy, cublasDestroy_v2, int, (struct fm_blas_handle * handle))                                      \
    X(property, cublasGetProperty, int, (int property, int *value))                                          \
    X(set_math, cublasSetMathMode, int, (struct fm_blas_handle * handle, int math))                          \
    X(set_atomics, cublasSetAtomicsMode, int, (struct fm_blas_handle * handle, int mode))                    \
    X(set_stream, cublasSetStream_v2, int, (struct fm_blas_handle * handle, cudaStream_t stream))            \
    X(set_workspace, cublasSetWorkspace_v2, int,                                                             \
      (struct fm_blas_handle * handle, void *workspace, size_t bytes))                                       \
    X(sgemm, cublasSgemm_v2, int,                                                                            \
      (struct fm_blas_handle * handle, int op_a, int op_b, int m, int n, int k, const float *alpha,          \
       const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc))

struct fm_blas_table {
#define FM_BLAS_FIELD(name, symbol, result, parameters) result(*name) parameters;
    FM_BLAS_CALLS(FM_BLAS_FIELD)
#undef FM_BLAS_FIELD
};

#endif
