/* Opening cuBLAS and cuDNN: see load.h. */
#include "library/load.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct symbol {
    const char *name;
    size_t offset; /* in the table */
};
static const struct symbol blas_symbols[] = {
#define FM_SYMBOL(name, symbol, result, parameters) {#symbol, offsetof(struct fm_blas_table, name)},
    FM_BLAS_CALLS(FM_SYMBOL)
#undef FM_SYMBOL
};
static const struct symbol dnn_symbols[] = {
#define FM_SYMBOL(name, symbol, result, parameters) {#symbol, offsetof(struct fm_dnn_table, name)},
    FM_DNN_CALLS(FM_SYMBOL)
#undef FM_SYMBOL
};

/* The parts in the order in which they need one another; those with a star are missing in some builds and
 * are not needed for convolutions. */
static const char *const parts_9[] = {"graph",
                                      "ops",
                                      "*engines_runtime_compiled",
                                      "*engines_precompiled",
                                      "*engines_tensor_ir",
                                      "*heuristic",
                                      "cnn",
                                      "*adv",
                                      NULL};
static const char *const parts_8[] = {"ops_infer",  "ops_train",  "cnn_infer", "cnn_train",
                                      "*adv_infer", "*adv_train", NULL};
static const char *const parts_7[] = {NULL};

/* The next folder of a list with colons; false at its end. Empty and overlong ones are passed over. */
static bool next_folder(const char **list, char *folder, size_t folder_size)
{
    while (*list && **list) {
        const size_t length = strcspn(*list, ":");
        const char *from = *list;
        *list += length + ((*list)[length] == ':');
        if (length == 0 || length >= folder_size) continue;
        memcpy(folder, from, length);
        folder[length] = '\0';
        return true;
    }
    return false;
}

static bool exists(const char *folder, const char *file)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, file);
    return n > 0 && (size_t)n < sizeof path && access(path, R_OK) == 0;
}

static void *open_in(const char *folder, const char *file, int flags)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, file);
    return n > 0 && (size_t)n < sizeof path ? dlopen(path, flags) : NULL;
}

/* The named folders one after the other: those of FOLDMILL_LIBDIRS_13 (or what the CUDA version is), of
 * FOLDMILL_LIBDIRS, of FM_LIBDIRS. */
struct named {
    int cuda_major;
    int lists;        /* asked */
    const char *rest; /* of the latest */
};
static bool next_named(struct named *named, char *folder, size_t folder_size)
{
    char variable[48];
    while (!next_folder(&named->rest, folder, folder_size)) {
        snprintf(variable, sizeof variable, "FOLDMILL_LIBDIRS_%d", named->cuda_major);
        switch (named->lists++) {
        case 0: named->rest = getenv(variable); break;
        case 1: named->rest = getenv("FOLDMILL_LIBDIRS"); break;
        case 2: named->rest = FM_LIBDIRS; break;
        default: return false;
        }
    }
    return true;
}

/* The folder of the file that holds `address`. */
static bool folder_of(const void *address, char *folder, size_t folder_size)
{
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname) return false;
    const char *slash = strrchr(info.dli_fname, '/');
    if (!slash || (size_t)(slash - info.dli_fname) >= folder_size) return false;
    memcpy(folder, info.dli_fname, (size_t)(slash - info.dli_fname));
    folder[slash - info.dli_fname] = '\0';
    return true;
}

static enum fm_load cannot_open(const char *file, char *why, size_t why_size)
{
    const char *reason = dlerror();
    snprintf(why, why_size, "%s cannot be opened: %s", file, reason ? reason : "unknown reason");
    return FM_LOAD_REFUSED;
}

/* Opens `file` by its bare name; `symbol` is one of its functions, which tells where the loader found it. */
static enum fm_load open_bare(void **handle, const char *file, const char *symbol, int flags, char *folder,
                              size_t folder_size)
{
    *handle = dlopen(file, flags);
    if (!*handle) return FM_LOAD_ABSENT;
    const void *address = dlsym(*handle, symbol);
    if (!address || !folder_of(address, folder, folder_size)) snprintf(folder, folder_size, ".");
    return FM_LOADED;
}

/* From the first named folder that has it, else by its bare name. */
static enum fm_load open_blas_file(void **handle, const char *file, const char *symbol, int cuda_major,
                                   char *folder, size_t folder_size, char *why, size_t why_size)
{
    const int flags = RTLD_NOW | RTLD_GLOBAL;
    struct named named = {.cuda_major = cuda_major};
    while (next_named(&named, folder, folder_size)) {
        if (!exists(folder, file)) continue;
        *handle = open_in(folder, file, flags);
        return *handle ? FM_LOADED : cannot_open(file, why, why_size);
    }
    const enum fm_load status = open_bare(handle, file, symbol, flags, folder, folder_size);
    if (status == FM_LOAD_ABSENT)
        snprintf(why, why_size, "%s was not found: install it, or name its folder in FOLDMILL_LIBDIRS", file);
    return status;
}

/* `newest` may be missing: FM_LOADED_OLD. NULL: none may. */
static enum fm_load get_symbols(void *handle, const char *file, const char *folder,
                                const struct symbol *symbols, size_t count, const char *newest, void *table,
                                char *why, size_t why_size)
{
    enum fm_load status = FM_LOADED;
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address) {
            snprintf(why, why_size, "%s in %s has no %s: a newer version is needed", file, folder,
                     symbols[i].name);
            if (!newest || strcmp(symbols[i].name, newest)) return FM_LOAD_REFUSED;
            status = FM_LOADED_OLD;
        }
        /* POSIX lets an object pointer hold a function; C has no cast for it. */
        memcpy((char *)table + symbols[i].offset, &address, sizeof address);
    }
    return status;
}

enum fm_load fm_load_blas(struct fm_blas_table *table, int cuda_major, char *folder, size_t folder_size,
                          char *why, size_t why_size)
{
    char lt[64], file[64];
    snprintf(lt, sizeof lt, "libcublasLt.so.%d", cuda_major);
    snprintf(file, sizeof file, "libcublas.so.%d", cuda_major);
    void *handle;
    enum fm_load status =
        open_blas_file(&handle, lt, "cublasLtCreate", cuda_major, folder, folder_size, why, why_size);
    /* cuBLAS of CUDA 10.0 had no such part; where it is needed, opening cuBLAS says so. */
    if (status == FM_LOAD_REFUSED) return status;
    status = open_blas_file(&handle, file, "cublasCreate_v2", cuda_major, folder, folder_size, why, why_size);
    if (status != FM_LOADED) return status;
    return get_symbols(handle, file, folder, blas_symbols, sizeof blas_symbols / sizeof blas_symbols[0],
                       "cublasSetWorkspace_v2", table, why, why_size);
}

static enum fm_load open_parts(int version, const char *folder, int flags, char *why, size_t why_size)
{
    const char *const *parts = version == 9 ? parts_9 : version == 8 ? parts_8 : parts_7;
    for (; *parts; parts++) {
        const bool optional = **parts == '*';
        char file[96];
        snprintf(file, sizeof file, "libcudnn_%s.so.%d", *parts + optional, version);
        if (!exists(folder, file)) {
            if (optional) continue;
            snprintf(why, why_size, "cuDNN %d in %s lacks its part %s: install all of it in one folder",
                     version, folder, file);
            return FM_LOAD_REFUSED;
        }
        if (!open_in(folder, file, flags)) return cannot_open(file, why, why_size);
    }
    return FM_LOADED;
}

/* Local was tried with 9, global with 8. */
static int dnn_flags(int version)
{
    return RTLD_NOW | (version >= 9 ? RTLD_LOCAL : RTLD_GLOBAL);
}

static void dnn_file(int version, char *file, size_t size)
{
    snprintf(file, size, "libcudnn.so.%d", version);
}

/* The next version that was not tried, folder by folder, then on the loader's path: `*version`. */
static enum fm_load open_next_dnn(void **handle, unsigned tried, int cuda_major, int *version, char *folder,
                                  size_t folder_size, char *why, size_t why_size)
{
    char file[64];
    struct named named = {.cuda_major = cuda_major};
    while (next_named(&named, folder, folder_size)) {
        for (*version = 9; *version >= 7; --*version) {
            dnn_file(*version, file, sizeof file);
            if ((tried >> *version & 1) || !exists(folder, file)) continue;
            *handle = open_in(folder, file, dnn_flags(*version));
            return *handle ? FM_LOADED : cannot_open(file, why, why_size);
        }
    }
    for (*version = 9; *version >= 7; --*version) {
        if (tried >> *version & 1) continue;
        dnn_file(*version, file, sizeof file);
        if (open_bare(handle, file, "cudnnGetVersion", dnn_flags(*version), folder, folder_size) == FM_LOADED)
            return FM_LOADED;
    }
    return FM_LOAD_ABSENT;
}

enum fm_load fm_load_dnn(struct fm_dnn_table *table, unsigned *tried, int cuda_major, char *folder,
                         size_t folder_size, char *why, size_t why_size)
{
    void *handle;
    int version;
    char file[64];
    enum fm_load status =
        open_next_dnn(&handle, *tried, cuda_major, &version, folder, folder_size, why, why_size);
    if (status == FM_LOAD_ABSENT) return status;
    *tried |= 1U << version;
    if (status == FM_LOADED) status = open_parts(version, folder, dnn_flags(version), why, why_size);
    if (status != FM_LOADED) return status;
    dnn_file(version, file, sizeof file);
    return get_symbols(handle, file, folder, dnn_symbols, sizeof dnn_symbols / sizeof dnn_symbols[0], NULL,
                       table, why, why_size);
}
