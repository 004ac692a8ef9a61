/* A card's handles, and what statuses mean. */
#include <stdio.h>
#include <string.h>

#include "library/private.h"

/* CUDA's own error behind a library's, if there is one. The libraries have CUDA run-time libraries of their
 * own, whose last errors ours does not know, so it is asked something that every broken context refuses. A
 * failed capture ends only the capture. */
static int judge_cuda(struct fm_device *device, const char *call, struct fm_error *err)
{
    cudaError_t status = cudaGetLastError();
    size_t available, total;
    if (status == cudaSuccess) status = cudaMemGetInfo(&available, &total);
    if (status == cudaSuccess) return 0;
    char what[96];
    snprintf(what, sizeof what, "run %s", call);
    if ((int)status >= 900 && (int)status <= 908)
        return fm_fail(err, FM_EDEVICE, "could not %s while a graph was captured: %s", what,
                       cudaGetErrorString(status));
    return fm_cuda_check(device, status, err, what);
}

void fm_library_noted(struct fm_device *device, int status, const char *call)
{
    if (status) judge_cuda(device, call, NULL);
}

int fm_dnn_judge(struct fm_device *device, int status, const char *call, char *why, size_t why_size,
                 struct fm_error *err)
{
    if (status == FM_DNN_SUCCESS) return 0;
    const int code = judge_cuda(device, call, err);
    if (code) return code;
    const char *name = device->libraries->dnn->error_string(status);
    /* CUDNN_STATUS_ALLOC_FAILED, from 9 on ..._HOST_ALLOCATION_FAILED and ..._DEVICE_ALLOCATION_FAILED. */
    if (name && strstr(name, "ALLOC"))
        return fm_fail(err, FM_ENOMEM, "could not run %s: cuDNN found no memory (%s)", call, name);
    snprintf(why, why_size, "%s: %s", call, name ? name : "unknown status");
    return 1;
}

int fm_blas_judge(struct fm_device *device, int status, const char *call, char *why, size_t why_size,
                  struct fm_error *err)
{
    if (status == FM_BLAS_SUCCESS) return 0;
    const int code = judge_cuda(device, call, err);
    if (code) return code;
    snprintf(why, why_size, "%s: status %d", call, status);
    return 1;
}

int fm_dnn_check(struct fm_device *device, int status, const char *call, struct fm_error *err)
{
    char why[160];
    const int code = fm_dnn_judge(device, status, call, why, sizeof why, err);
    return code <= 0 ? code : fm_fail(err, FM_ELIBRARY, "cuDNN failed: %s; --kernels own needs none", why);
}

int fm_blas_check(struct fm_device *device, int status, const char *call, struct fm_error *err)
{
    char why[160];
    const int code = fm_blas_judge(device, status, call, why, sizeof why, err);
    return code <= 0 ? code : fm_fail(err, FM_ELIBRARY, "cuBLAS failed: %s; --kernels own needs none", why);
}

/* Versions whose files hold no code for old cards (seen in the files, ../shared/cuda_matrix.md 1). What they
 * would say themselves differs. */
bool fm_dnn_has_code(int major, int minor, int64_t cudnn, char *why, size_t why_size)
{
    const int sm = major * 10 + minor;
    const char *first, *last;
    if (cudnn >= 8800 && sm < 50)
        first = "8.8", last = "8.7.0";
    else if (cudnn >= 91100 && sm < 75)
        first = "9.11", last = "9.10.2";
    else
        return true;
    snprintf(
        why, why_size,
        "no cuDNN: versions from %s on have no code for this card (sm_%d): install %s and name its folder "
        "in FOLDMILL_LIBDIRS",
        first, sm, last);
    return false;
}

/* 1: not to be used, `why` says why. */
static int open_blas(struct fm_device *device, struct fm_card *card, char *why, size_t why_size,
                     struct fm_error *err)
{
    const struct fm_blas_table *blas = device->libraries->blas;
    struct fm_blas_handle *handle = NULL;
    int status = fm_blas_judge(device, blas->create(&handle), "cublasCreate_v2", why, why_size, err);
    if (status) return status;
    card->blas = handle;
    status = fm_blas_judge(device, blas->set_math(handle, FM_BLAS_PEDANTIC_MATH), "cublasSetMathMode", why,
                           why_size, err);
    if (status) return status;
    return fm_blas_judge(device, blas->set_atomics(handle, FM_BLAS_ATOMICS_NOT_ALLOWED),
                         "cublasSetAtomicsMode", why, why_size, err);
}

static int open_dnn(struct fm_device *device, struct fm_card *card, char *why, size_t why_size,
                    struct fm_error *err)
{
    const struct fm_cuda_kind *kind = &device->kind;
    if (!fm_dnn_has_code(kind->major, kind->minor, device->libraries->cudnn, why, why_size)) return 1;
    struct fm_dnn_handle *handle = NULL;
    const int status =
        fm_dnn_judge(device, device->libraries->dnn->create(&handle), "cudnnCreate", why, why_size, err);
    if (!status) card->dnn = handle;
    return status;
}

static void close_blas(struct fm_device *device, struct fm_card *card)
{
    if (card->blas)
        FM_LIBRARY_NOTED(device, device->libraries->blas->destroy(card->blas), "cublasDestroy_v2");
    card->blas = NULL;
}
static void close_dnn(struct fm_device *device, struct fm_card *card)
{
    if (card->dnn) FM_LIBRARY_NOTED(device, device->libraries->dnn->destroy(card->dnn), "cudnnDestroy");
    card->dnn = NULL;
}

static void refuse(struct fm_device *device, const char *library, const char *why)
{
    if (strstr(device->why_no_library, why)) return; /* another card of the same kind */
    const size_t used = strlen(device->why_no_library);
    snprintf(device->why_no_library + used, sizeof device->why_no_library - used, "%s%s%s", used ? "; " : "",
             library, why);
}

int fm_library_handles_open(struct fm_device *device, struct fm_card *card, struct fm_error *err)
{
    const struct fm_cuda_libraries *libraries = device->libraries;
    if (!libraries) return 0;
    int status = fm_card_use(device, card, err);
    if (status) return status;
    char why[256];
    if (libraries->blas) {
        status = open_blas(device, card, why, sizeof why, err);
        if (status == 1) {
            close_blas(device, card);
            refuse(device, "cuBLAS cannot be used: ", why);
        }
    }
    if (status >= 0 && libraries->dnn) {
        status = open_dnn(device, card, why, sizeof why, err);
        if (status == 1) {
            refuse(device, "", why);
        }
    }
    if (status >= 0) return 0;
    fm_library_handles_close(device, card);
    return status;
}

void fm_library_handles_close(struct fm_device *device, struct fm_card *card)
{
    close_dnn(device, card);
    close_blas(device, card);
}
