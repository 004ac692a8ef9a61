/* A line for every card, for `foldmill devices`: usable or not, and why; which libraries it can have. */
#include "cuda.h"

#include <string.h>

#include "library/library.h"

static void list_card(struct fm_text *text, int number, const struct fm_cuda_libraries *libraries)
{
    char why[256], memory[FM_BYTES_TEXT];
    struct cudaDeviceProp properties;
    int major = 0, minor = 0, sms = 0;
    size_t free_bytes = 0, total = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, number);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, number);
    const bool named = cudaGetDeviceProperties(&properties, number) == cudaSuccess;
    cudaGetLastError();
    fm_text_add(text, "cuda:%-3d   %s, sm_%d%d, %d multiprocessors", number, named ? properties.name : "?",
                major, minor, sms);
    if (fm_card_usable(number, why, sizeof why)) {
        fm_text_add(text, "; cannot be used: %s\n", why);
        return;
    }
    if (cudaMemGetInfo(&free_bytes, &total) == cudaSuccess) {
        fm_text_add(text, ", %s", fm_show_bytes((int64_t)total, memory));
        fm_text_add(text, " (%s free)", fm_show_bytes((int64_t)free_bytes, memory));
    } else {
        cudaGetLastError();
    }
    fm_text_add_string(text, "\n");
    if (libraries && libraries->dnn && !fm_dnn_has_code(major, minor, libraries->cudnn, why, sizeof why))
        fm_text_add(text, "           %s\n", why);
}

/* `why`: what cannot be used of them. */
static void list_libraries(struct fm_text *text, const struct fm_cuda_libraries *libraries, const char *why)
{
    fm_text_add_string(text, "          ");
    if (libraries->dnn) fm_text_add(text, " cuDNN %lld", (long long)libraries->cudnn);
    if (libraries->blas)
        fm_text_add(text, "%s cuBLAS %lld", libraries->dnn ? "," : "", (long long)libraries->cublas);
    if (libraries->from[0]) fm_text_add(text, " (%s)", libraries->from);
    if (why[0]) fm_text_add(text, "%s %s", libraries->from[0] ? ";" : "", why);
    if (why[0] && !libraries->dnn && !libraries->blas) fm_text_add_string(text, "; own kernels need neither");
    fm_text_add_string(text, "\n");
}

/* How many cards can be used; `common`: the architecture of all of these, 0 when they differ. */
static int count_usable(int count, int *common)
{
    char why[256];
    int usable = 0;
    *common = 0;
    for (int number = 0; number < count; number++) {
        int major = 0, minor = 0;
        if (fm_card_usable(number, why, sizeof why)) continue;
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number);
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, number);
        const int sm = major * 10 + minor;
        *common = usable == 0 || *common == sm ? sm : 0;
        usable++;
    }
    return usable;
}

int fm_cuda_list(struct fm_text *text, bool libraries, struct fm_error *err)
{
    struct fm_cuda_libraries *opened = NULL;
    char why[512];
    int count = 0, common;
    const cudaError_t counted = cudaGetDeviceCount(&count);
    if (counted != cudaSuccess || count < 1) {
        fm_cuda_usable(NULL, why, sizeof why);
        fm_text_add(text, "cuda       cannot be used: %s\n", why);
        return 0;
    }
    if (libraries && count_usable(count, &common) > 0) {
        const int status = fm_libraries_open(&opened, FM_CUDA_MAJOR, common, why, sizeof why, err);
        if (status) return status;
    }
    for (int number = 0; number < count; number++) list_card(text, number, opened);
    if (opened) list_libraries(text, opened, why);
    fm_libraries_free(opened);
    return 0;
}
