/* Which cuDNN and cuBLAS there are. */
#include "library/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "library/load.h"

#ifdef FM_EMULATED
#include "emulator/library.h"
#endif

extern char **environ;

/* Variables change what the libraries compute: TF32 although FMA was asked for (NVIDIA_TF32_OVERRIDE), floats
 * emulated by bfloat16 (CUBLAS_EMULATE_SINGLE_PRECISION, CUBLAS_EMULATION_STRATEGY), another workspace
 * (CUBLAS_WORKSPACE_CONFIG), other algorithms (CUBLASLT_HEURISTICS_...), and logs printed into our output
 * (CUDNN_LOGINFO_DBG). New versions bring new ones, so all that carry the libraries' names go. Nothing else
 * reads the environment at this time: one thread opens devices. */
static bool changes_results(const char *variable)
{
    static const char *const prefixes[] = {"CUBLAS", "CUDNN_", "NVIDIA_TF32_OVERRIDE="};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}
static void clean_environment(void)
{
    for (size_t i = 0; environ && environ[i];) {
        char name[256];
        const size_t length = strcspn(environ[i], "=");
        if (!changes_results(environ[i]) || length >= sizeof name) {
            i++;
            continue;
        }
        memcpy(name, environ[i], length);
        name[length] = '\0';
        if (unsetenv(name) != 0) i++; /* else the next one has moved here */
    }
}

struct reasons {
    char *text;
    size_t size, used;
};
static void add_reason(struct reasons *reasons, const char *reason)
{
    if (reasons->used + 1 >= reasons->size) return;
    const int n = snprintf(reasons->text + reasons->used, reasons->size - reasons->used, "%s%s",
                           reasons->used ? "; " : "", reason);
    if (n > 0) reasons->used += (size_t)n;
}

/* The emulator's tables, or those of the libraries: all that differs. */
static enum fm_load get_blas(struct fm_blas_table *table, int cuda_major, char *folder, size_t folder_size,
                             char *why, size_t why_size)
{
#ifdef FM_EMULATED
    const struct fm_blas_table *theirs = fm_emulator_blas();
    (void)cuda_major;
    snprintf(folder, folder_size, "the emulator");
    if (theirs)
        *table = *theirs;
    else
        snprintf(why, why_size, "the emulator was told to have no cuBLAS");
    if (theirs && !theirs->set_workspace) return FM_LOADED_OLD;
    return theirs ? FM_LOADED : FM_LOAD_ABSENT;
#else
    return fm_load_blas(table, cuda_major, folder, folder_size, why, why_size);
#endif
}
static enum fm_load get_dnn(struct fm_dnn_table *table, unsigned *tried, int cuda_major, char *folder,
                            size_t folder_size, char *why, size_t why_size)
{
#ifdef FM_EMULATED
    const struct fm_dnn_table *theirs = *tried == 0   ? fm_emulator_dnn()
                                        : *tried == 1 ? fm_emulator_dnn_behind()
                                                      : NULL;
    (void)cuda_major;
    *tried = 2 * *tried + 1;
    snprintf(folder, folder_size, "the emulator");
    if (theirs)
        *table = *theirs;
    else
        snprintf(why, why_size, "the emulator was told to have no cuDNN");
    return theirs ? FM_LOADED : FM_LOAD_ABSENT;
#else
    return fm_load_dnn(table, tried, cuda_major, folder, folder_size, why, why_size);
#endif
}

/* FM_LOADED_OLD: cuDNN may be opened, products are not for this one. */
static enum fm_load open_blas(struct fm_cuda_libraries *libraries, int cuda_major, struct reasons *reasons)
{
    char folder[256] = "", why[256] = "", reason[512];
    const enum fm_load got = get_blas(libraries->blas, cuda_major, folder, sizeof folder, why, sizeof why);
    if (got != FM_LOADED && got != FM_LOADED_OLD) {
        snprintf(reason, sizeof reason, "no cuBLAS: %s", why);
        add_reason(reasons, reason);
        return FM_LOAD_REFUSED;
    }
    int version[3] = {0};
    for (int i = 0; i < 3; i++) {
        const int status = libraries->blas->property(i, &version[i]);
        if (status == FM_BLAS_SUCCESS) continue;
        snprintf(reason, sizeof reason, "no cuBLAS: the one in %s does not tell its version (status %d)",
                 folder, status);
        add_reason(reasons, reason);
        return FM_LOAD_REFUSED;
    }
    if (version[0] != cuda_major) {
        snprintf(
            reason, sizeof reason,
            "no cuBLAS: the one in %s is of CUDA %d, this is Foldmill's half for CUDA %d: name the right "
            "one's folder in FOLDMILL_LIBDIRS_%d",
            folder, version[0], cuda_major, cuda_major);
        add_reason(reasons, reason);
        return FM_LOAD_REFUSED;
    }
    snprintf(libraries->from, sizeof libraries->from, "cuBLAS %d.%d.%d in %s%s", version[0], version[1],
             version[2], folder, got == FM_LOADED_OLD ? " for cuDNN only" : "");
    if (got == FM_LOADED_OLD) {
        snprintf(reason, sizeof reason,
                 "cuBLAS %d.%d.%d is too old for products (it has no cublasSetWorkspace_v2, which came with "
                 "CUDA 11): own kernels compute them",
                 version[0], version[1], version[2]);
        add_reason(reasons, reason);
    } else {
        libraries->cublas = version[0] * 10000L + version[1] * 100L + version[2];
    }
    return got;
}

/* cuDNN counts 7605, 8907, 91900. */
static void show_version(int64_t version, char *text, size_t size)
{
    const int64_t unit = version >= 90000 ? 10000 : 1000;
    snprintf(text, size, "%d.%d.%d", (int)(version / unit), (int)(version % unit / 100),
             (int)(version % 100));
}

/* False with a reason when this cuDNN is of no use here. */
static bool accept_dnn(const struct fm_cuda_libraries *libraries, int cuda_major, const char *folder,
                       struct reasons *reasons)
{
    const struct fm_dnn_table *dnn = libraries->dnn;
    const int64_t version = (int64_t)dnn->version();
    const int built_for = (int)(dnn->cudart_version() / 1000);
    char shown[32], reason[512];
    show_version(version, shown, sizeof shown);
    if (built_for != cuda_major) {
        snprintf(
            reason, sizeof reason,
            "no cuDNN: version %s in %s was built for CUDA %d, this is Foldmill's half for CUDA %d: name "
            "the right one's folder in FOLDMILL_LIBDIRS_%d",
            shown, folder, built_for, cuda_major, cuda_major);
        add_reason(reasons, reason);
        return false;
    }
    if (version < 7600) {
        snprintf(reason, sizeof reason, "no cuDNN: version %s in %s is older than 7.6", shown, folder);
        add_reason(reasons, reason);
        return false;
    }
    return true;
}

static void take_dnn(struct fm_cuda_libraries *libraries, const char *folder)
{
    char shown[32];
    libraries->cudnn = (int64_t)libraries->dnn->version();
    show_version(libraries->cudnn, shown, sizeof shown);
    const size_t used = strlen(libraries->from);
    snprintf(libraries->from + used, sizeof libraries->from - used, ", cuDNN %s in %s", shown, folder);
}

/* The first that is of use. One without code for the cards (sm; 0 = any) stands back for the next version,
 * but where there is no better one it is taken: that it is of no use, handles.c says of each card. */
static bool open_dnn(struct fm_cuda_libraries *libraries, int cuda_major, int sm, struct reasons *reasons)
{
    const size_t before = reasons->used;
    char folder[256] = "", why[256] = "", codeless_folder[256] = "";
    struct fm_dnn_table codeless = {0};
    unsigned tried = 0;
    enum fm_load status;
    bool found = false;
    while (!found && (status = get_dnn(libraries->dnn, &tried, cuda_major, folder, sizeof folder, why,
                                       sizeof why)) != FM_LOAD_ABSENT) {
        if (status == FM_LOAD_REFUSED) {
            char reason[320];
            snprintf(reason, sizeof reason, "no cuDNN: %s", why);
            add_reason(reasons, reason);
            continue;
        }
        if (!accept_dnn(libraries, cuda_major, folder, reasons)) continue;
        found =
            sm == 0 || fm_dnn_has_code(sm / 10, sm % 10, (int64_t)libraries->dnn->version(), why, sizeof why);
        if (found || codeless.version) continue;
        codeless = *libraries->dnn;
        memcpy(codeless_folder, folder, sizeof folder);
    }
    if (!found && codeless.version) {
        *libraries->dnn = codeless;
        memcpy(folder, codeless_folder, sizeof folder);
        found = true;
    }
    if (found) {
        take_dnn(libraries, folder);
        /* Why it is not another one is of no use any more. */
        if (before < reasons->size) reasons->text[before] = '\0';
        reasons->used = before;
    } else if (reasons->used == before) {
        add_reason(reasons,
                   "no cuDNN: neither version 9 nor 8 nor 7 was found: install one for this CUDA, or "
                   "name its folder in FOLDMILL_LIBDIRS");
    }
    return found;
}

int fm_libraries_open(struct fm_cuda_libraries **libraries, int cuda_major, int sm, char *why,
                      size_t why_size, struct fm_error *err)
{
    struct reasons reasons = {why, why_size, 0};
    if (why_size) why[0] = '\0';
    struct fm_cuda_libraries *l = fm_calloc(1, sizeof *l);
    if (!l) return fm_fail_memory(err);
    l->dnn = fm_calloc(1, sizeof *l->dnn);
    l->blas = fm_calloc(1, sizeof *l->blas);
    if (!l->dnn || !l->blas) {
        fm_libraries_free(l);
        return fm_fail_memory(err);
    }
    clean_environment();
    const enum fm_load blas = open_blas(l, cuda_major, &reasons);
    const bool there = blas == FM_LOADED || blas == FM_LOADED_OLD;
    if (!there)
        add_reason(&reasons,
                   "cuDNN is not opened without cuBLAS, because some versions end the program then");
    if (!there || !open_dnn(l, cuda_major, sm, &reasons)) {
        fm_free(l->dnn);
        l->dnn = NULL;
    }
    if (blas != FM_LOADED) {
        fm_free(l->blas);
        l->blas = NULL;
    }
    *libraries = l;
    return 0;
}

void fm_libraries_free(struct fm_cuda_libraries *libraries)
{
    if (!libraries) return;
    fm_free(libraries->dnn);
    fm_free(libraries->blas);
    fm_free(libraries);
}
