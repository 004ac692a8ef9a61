// cuBLAS: handles and products.
#include "emulator/library_private.h"

#include <deque>
#include <string.h>

#define HANDLE "cuBLAS handle"
enum { BAD = 7, FAILED = 13 }; // INVALID_VALUE, EXECUTION_FAILED

#define ENTER(call)                                                                                          \
    struct fm_emulated_clock clock;                                                                          \
    do {                                                                                                     \
        const int entered = fm_emulated_enter_library(call, FAILED);                                         \
        if (entered) return entered;                                                                         \
    } while (0)

static int create(struct fm_blas_handle **handle)
{
    static std::deque<fm_blas_handle> *all = new std::deque<fm_blas_handle>;
    ENTER("cublasCreate_v2");
    if (!fm_emulated_may_block("cublasCreate_v2")) return FAILED;
    all->emplace_back();
    *handle = &all->back();
    (*handle)->card = fm_emulated_card();
    fm_emulated_object_add(*handle, HANDLE);
    return 0;
}

static int destroy(struct fm_blas_handle *handle)
{
    const bool fine = fm_emulated_may_block("cublasDestroy_v2");
    struct fm_emulated_clock clock;
    const int entered = fm_emulated_enter_library("cublasDestroy_v2", FAILED);
    if (!fm_emulated_object_remove(handle, HANDLE, "cublasDestroy_v2")) return BAD;
    return fine ? entered : FAILED;
}

static int property(int which, int *value)
{
    const int version[] = {CUDART_VERSION / 1000, 1, 0};
    ENTER("cublasGetProperty");
    if (which < 0 || which > 2 || !value) return BAD;
    *value = version[which];
    return 0;
}

static int set_math(struct fm_blas_handle *handle, int math)
{
    ENTER("cublasSetMathMode");
    if (!fm_emulated_object_is(handle, HANDLE, "cublasSetMathMode")) return BAD;
    handle->math = math;
    return 0;
}

static int set_atomics(struct fm_blas_handle *handle, int mode)
{
    ENTER("cublasSetAtomicsMode");
    if (!fm_emulated_object_is(handle, HANDLE, "cublasSetAtomicsMode")) return BAD;
    handle->atomics = mode;
    return 0;
}

// The real one takes its own workspace again.
static int set_stream(struct fm_blas_handle *handle, cudaStream_t stream)
{
    ENTER("cublasSetStream_v2");
    if (!fm_emulated_object_is(handle, HANDLE, "cublasSetStream_v2") ||
        !fm_emulated_stream_check(stream, "cublasSetStream_v2"))
        return BAD;
    handle->stream = stream;
    handle->workspace = NULL;
    handle->bytes = 0;
    return 0;
}

static int set_workspace(struct fm_blas_handle *handle, void *workspace, size_t bytes)
{
    ENTER("cublasSetWorkspace_v2");
    if (!fm_emulated_object_is(handle, HANDLE, "cublasSetWorkspace_v2") ||
        !fm_emulated_range_check(workspace, bytes, handle->card, "cublasSetWorkspace_v2", "workspace"))
        return BAD;
    if ((uintptr_t)workspace % 256 || !bytes) {
        fm_emulated_fault("cublasSetWorkspace_v2: %zu bytes at no multiple of 256 bytes", bytes);
        return BAD;
    }
    handle->workspace = (char *)workspace;
    handle->bytes = bytes;
    return 0;
}

static bool check_handle(struct fm_blas_handle *handle, int ops, const char *call)
{
    if (!fm_emulated_object_is(handle, HANDLE, call) ||
        !fm_emulated_handle_ready(handle->card, handle->stream, call))
        return false;
    const char *fault = NULL;
    if (handle->math != FM_BLAS_PEDANTIC_MATH)
        fault = "PEDANTIC math was not set, TF32 could be used";
    else if (handle->atomics != FM_BLAS_ATOMICS_NOT_ALLOWED)
        fault = "atomics are allowed";
    else if (!handle->workspace)
        fault = "no workspace was set since the stream was";
    const uint32_t bit = (uint32_t)1 << ops;
    if (!fm_emulated_stream_captures(handle->stream))
        handle->ran |= bit;
    else if (!(handle->ran & bit))
        fault = "it is captured, but its code was never loaded by a run before";
    if (fault) fm_emulated_fault("%s: %s", call, fault);
    return !fault;
}

// To the ten bits of TF32's fraction.
static float to_tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x1000u) & ~0x1fffu;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// A column-major matrix as op() makes it.
struct matrix {
    const float *at;
    int64_t row, column;
    bool tf32;
    inline double get(int64_t i, int64_t j) const
    {
        const float x = at[i * row + j * column];
        return tf32 ? to_tf32(x) : x;
    }
};

static int sgemm(struct fm_blas_handle *handle, int op_a, int op_b, int m, int n, int k, const float *alpha,
                 const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
{
    const char *call = "cublasSgemm_v2";
    ENTER(call);
    const int a_rows = op_a ? k : m, a_columns = op_a ? m : k;
    const int b_rows = op_b ? n : k, b_columns = op_b ? k : n;
    if (op_a < 0 || op_a > 1 || op_b < 0 || op_b > 1 || m < 1 || n < 1 || k < 1 || lda < a_rows ||
        ldb < b_rows || ldc < m || !alpha || !beta) {
        fm_emulated_fault("%s: %d x %d x %d with columns of %d, %d and %d", call, m, n, k, lda, ldb, ldc);
        return BAD;
    }
    if (!check_handle(handle, 2 * op_b + op_a, call)) return BAD;
    const size_t a_bytes = ((size_t)(a_columns - 1) * lda + a_rows) * sizeof *a;
    const size_t b_bytes = ((size_t)(b_columns - 1) * ldb + b_rows) * sizeof *b;
    const size_t c_bytes = ((size_t)(n - 1) * ldc + m) * sizeof *c;
    const struct fm_emulated_operand operands[] = {{handle->workspace, handle->bytes, 256, "workspace"},
                                                   {a, a_bytes, sizeof *a, "a"},
                                                   {b, b_bytes, sizeof *b, "b"},
                                                   {c, c_bytes, sizeof *c, "c"}};
    const struct fm_emulated_operand turned[] = {operands[1], operands[2], operands[0]};
    if (!fm_emulated_operands_check(operands, 4, handle->card, call) ||
        !fm_emulated_operands_check(turned, 3, handle->card, call))
        return BAD;
    if (fm_emulated_library()->refuses_products) return BAD;
    const bool tf32 = fm_emulated_library()->tf32;
    const struct matrix x = {a, op_a ? lda : 1, op_a ? 1 : lda, tf32},
                        y = {b, op_b ? ldb : 1, op_b ? 1 : ldb, tf32};
    const float scale = *alpha, keep = *beta;
    char *workspace = handle->workspace;
    const size_t bytes = handle->bytes;
    if (fm_emulated_library()->wrong_products) k = (k + 1) / 2;
    const auto work = [=] {
        fm_emulated_scribble(workspace, bytes);
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < m; i++) {
                double sum = 0;
                for (int64_t l = 0; l < k; l++) sum += x.get(i, l) * y.get(l, j);
                float *at = &c[j * ldc + i];
                *at = (float)(keep == 0 ? scale * sum : scale * sum + (double)keep * *at);
            }
    };
    return fm_emulated_enqueue(handle->stream, call, work) ? FAILED : 0;
}

const struct fm_blas_table *fm_emulator_blas(void)
{
    static struct fm_blas_table table;
    struct fm_blas_table *t = &table;
    t->create = create, t->destroy = destroy, t->property = property;
    t->set_math = set_math, t->set_atomics = set_atomics;
    t->set_stream = set_stream, t->set_workspace = fm_emulated_library()->old_blas ? NULL : set_workspace,
    t->sgemm = sgemm;
    return fm_emulated_settings()->no_library ? NULL : t;
}
