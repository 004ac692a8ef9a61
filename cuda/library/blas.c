/* Products by cuBLAS. */
#include "library/private.h"

/* The kernel that cuBLAS picks depends on the workspace, and a handle that shares its own between streams is
 * not deterministic: so each lane brings one of a fixed size. SetStream takes it away again.
 *
 * cuBLAS is column-major. A row-major matrix is the transpose of the column-major one in the same place, so
 * c = op(a) op(b) is written as c' = op(b)' op(a)': operands and sizes change places, the ops stay. */
int fm_blas_product(struct fm_device *device, struct fm_card *card, cudaStream_t stream,
                    const struct fm_blas_shape *shape, const float *a, const float *b, float *c,
                    void *workspace, struct fm_error *err)
{
    const int m = shape->m, n = shape->n, k = shape->k;
    if (m < 1 || n < 1 || k < 1 || shape->lda < (shape->transpose_a ? m : k) ||
        shape->ldb < (shape->transpose_b ? k : n) || shape->ldc < n)
        return fm_fail(err, FM_EINTERNAL, "a product of %d x %d x %d with rows of %d, %d and %d floats", m, n,
                       k, shape->lda, shape->ldb, shape->ldc);
    int status = fm_cuda_alive(device, err);
    if (status) return status;
    if (!card->blas) return fm_fail(err, FM_EINTERNAL, "a product without cuBLAS");
    const struct fm_blas_table *blas = device->libraries->blas;
    const float one = 1, zero = 0;
    status = fm_blas_check(device, blas->set_stream(card->blas, stream), "cublasSetStream_v2", err);
    if (status) return status;
    status = fm_blas_check(device, blas->set_workspace(card->blas, workspace, FM_BLAS_WORKSPACE),
                           "cublasSetWorkspace_v2", err);
    if (status) return status;
    return fm_blas_check(device,
                         blas->sgemm(card->blas, shape->transpose_b ? FM_BLAS_T : FM_BLAS_N,
                                     shape->transpose_a ? FM_BLAS_T : FM_BLAS_N, n, m, k, &one, b, shape->ldb,
                                     a, shape->lda, &zero, c, shape->ldc),
                         "cublasSgemm_v2", err);
}
