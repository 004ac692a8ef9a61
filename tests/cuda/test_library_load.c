/* Finding cuBLAS and cuDNN in folders, with shared objects made on the spot that have the names and symbols
 * of NVIDIA's and do nothing. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "library/load.h"
#include "support/support.h"

static char folder[64]; /* holds a, b and the sources */

static const char *path(const char *name)
{
    static char paths[8][160];
    static int next;
    char *p = paths[next++ % 8];
    snprintf(p, sizeof paths[0], "%s/%s", folder, name);
    return p;
}

static bool run(const char *const arguments[])
{
    const pid_t child = fork();
    if (child == 0) {
        execvp(arguments[0], (char *const *)arguments);
        _exit(127);
    }
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A library with every symbol of both tables but one; cudnnGetVersion tells `version`. */
static void compile(const char *out, const char *without, int version)
{
    static const char *const symbols[] = {
#define SYMBOL(name, symbol, result, parameters) #symbol,
        FM_DNN_CALLS(SYMBOL) FM_BLAS_CALLS(SYMBOL)
#undef SYMBOL
            "cublasLtCreate"};
    FILE *f = fopen(path("source.c"), "w");
    cr_assert_not_null(f);
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++)
        if (strcmp(symbols[i], without) != 0)
            fprintf(f, "unsigned long %s(void) { return %d; }\n", symbols[i],
                    strcmp(symbols[i], "cudnnGetVersion") == 0 ? version : 0);
    cr_assert_eq(fclose(f), 0);
    cr_assert(run((const char *const[]){"cc", "-shared", "-fPIC", "-o", path(out), path("source.c"), NULL}));
}
static void copy(const char *from, const char *to)
{
    cr_assert(run((const char *const[]){"cp", path(from), path(to), NULL}));
}
static void garbage(const char *name)
{
    FILE *f = fopen(path(name), "w");
    cr_assert_not_null(f);
    fputs("no library", f);
    cr_assert_eq(fclose(f), 0);
}

static void make_folders(void)
{
    snprintf(folder, sizeof folder, "/tmp/foldmill_load_XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(mkdir(path("a"), 0700), 0);
    cr_assert_eq(mkdir(path("b"), 0700), 0);
    char list[200];
    snprintf(list, sizeof list, "/nowhere::%s:%s", path("a"), path("b"));
    cr_assert_eq(setenv("FOLDMILL_LIBDIRS", list, 1), 0);
}
static void remove_folders(void)
{
    run((const char *const[]){"rm", "-r", folder, NULL});
}
TestSuite(library_load, .init = make_folders, .fini = remove_folders);

static struct fm_dnn_table dnn;
static struct fm_blas_table blas;
static char where[160], why[400];

enum { NINE = 1 << 9, EIGHT = 1 << 8, SEVEN = 1 << 7 };
static unsigned tried; /* after the latest */

static enum fm_load load_dnn(unsigned but)
{
    where[0] = why[0] = '\0';
    tried = but;
    return fm_load_dnn(&dnn, &tried, 77, where, sizeof where, why, sizeof why);
}
static enum fm_load load_blas(void)
{
    where[0] = why[0] = '\0';
    return fm_load_blas(&blas, 77, where, sizeof where, why, sizeof why);
}

Test(library_load, named_folders_in_their_order)
{
    compile("b/libcudnn.so.7", "", 7605);
    cr_assert_eq(load_dnn(0), FM_LOADED, "%s", why);
    cr_assert_str_eq(where, path("b"), "the first folder that has it");
    cr_assert_eq(dnn.version(), 7605);
    cr_assert_eq(dnn.create(NULL), 0);
    compile("a/libcudnn.so.7", "", 7601);
    cr_assert_eq(load_dnn(0), FM_LOADED, "%s", why);
    cr_assert_str_eq(where, path("a"));
    cr_assert_eq(dnn.version(), 7601);
}

static void compile_eight(const char *in)
{
    static const char *const parts[] = {"", "_ops_infer", "_ops_train", "_cnn_infer", "_cnn_train"};
    char file[2][64];
    for (int i = 0; i < 5; i++) {
        snprintf(file[i > 0], sizeof file[0], "%s/libcudnn%s.so.8", in, parts[i]);
        if (i == 0)
            compile(file[0], "", 8907);
        else
            copy(file[0], file[1]);
    }
}
static void compile_seven_and_nine(const char *in)
{
    static const char *const names[] = {".so.7", ".so.9", "_graph.so.9", "_ops.so.9", "_cnn.so.9"};
    char file[64];
    for (int i = 0; i < 5; i++) {
        snprintf(file, sizeof file, "%s/libcudnn%s", in, names[i]);
        compile(file, "", i == 0 ? 7605 : 91900);
    }
}

/* A pinned cuDNN 8 is taken although a later folder has 9. */
Test(library_load, a_folder_is_asked_for_all_versions_before_the_next)
{
    compile_eight("a");
    compile_seven_and_nine("b");
    cr_assert_eq(load_dnn(0), FM_LOADED, "%s", why);
    cr_assert_eq(dnn.version(), 8907);
    cr_assert_str_eq(where, path("a"));
    cr_assert_eq(tried, EIGHT);
    cr_assert_eq(load_dnn(tried), FM_LOADED, "%s", why); /* of no use: the next version */
    cr_assert_eq(dnn.version(), 91900);
    cr_assert_str_eq(where, path("b"));
    cr_assert_eq(load_dnn(tried), FM_LOADED, "%s", why);
    cr_assert_eq(dnn.version(), 7605);
    cr_assert_eq(tried, NINE | EIGHT | SEVEN);
    cr_assert_eq(load_dnn(tried), FM_LOAD_ABSENT);
    /* Never a second build of a version, wherever it is. */
    compile_eight("b");
    cr_assert_eq(load_dnn(EIGHT), FM_LOADED, "%s", why);
    cr_assert_eq(dnn.version(), 91900);
}

Test(library_load, folders_of_one_cuda_version_go_before_those_of_all)
{
    compile("a/libcublas.so.77", "", 0);
    compile("b/libcublas.so.77", "", 0);
    compile_seven_and_nine("a");
    compile_eight("b");
    cr_assert_eq(setenv("FOLDMILL_LIBDIRS_7", path("b"), 1), 0); /* of another */
    cr_assert_eq(load_blas(), FM_LOADED, "%s", why);
    cr_assert_str_eq(where, path("a"));
    cr_assert_eq(setenv("FOLDMILL_LIBDIRS_77", path("b"), 1), 0);
    cr_assert_eq(load_blas(), FM_LOADED, "%s", why);
    cr_assert_str_eq(where, path("b"));
    cr_assert_eq(load_dnn(0), FM_LOADED, "%s", why);
    cr_assert_eq(dnn.version(), 8907);
    cr_assert_eq(load_dnn(tried), FM_LOADED, "%s", why);
    cr_assert_str_eq(where, path("a"), "those of all are asked still");
}

Test(library_load, all_parts_come_from_one_folder)
{
    compile("a/libcudnn.so.9", "", 91900);
    const char *const parts[] = {"libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9"};
    char to[64];
    for (int i = 0; i < 3; i++) { /* those of another version do not help */
        snprintf(to, sizeof to, "b/%s", parts[i]);
        copy("a/libcudnn.so.9", to);
    }
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(load_dnn(0), FM_LOAD_REFUSED);
        cr_assert(strstr(why, parts[i]) && strstr(why, path("a")), "%s", why);
        snprintf(to, sizeof to, "a/%s", parts[i]);
        copy("a/libcudnn.so.9", to);
    }
    cr_assert_eq(load_dnn(0), FM_LOADED, "%s", why);
    garbage("a/libcudnn_heuristic.so.9"); /* may be missing, but not be broken */
    cr_assert_eq(load_dnn(0), FM_LOAD_REFUSED);
    cr_assert(strstr(why, "heuristic"), "%s", why);
}

Test(library_load, what_is_broken_or_too_old_is_refused)
{
    garbage("a/libcudnn.so.7");
    cr_assert_eq(load_dnn(0), FM_LOAD_REFUSED);
    cr_assert(strstr(why, "libcudnn.so.7 cannot be opened"), "%s", why);
    compile("b/libcublas.so.77", "cublasSetWorkspace_v2", 0);
    copy("b/libcublas.so.77", "b/libcublasLt.so.77");
    cr_assert_eq(load_blas(), FM_LOADED_OLD);
    cr_assert(strstr(why, "cublasSetWorkspace_v2") && strstr(why, "newer"), "%s", why);
    cr_assert(!blas.set_workspace);
    cr_assert_eq(blas.property(0, NULL), 0, "it can still be asked which version it is");
    compile("a/libcublas.so.77", "cublasSgemm_v2", 0);
    cr_assert_eq(load_blas(), FM_LOAD_REFUSED);
    cr_assert(strstr(why, "cublasSgemm_v2") && strstr(why, path("a")), "%s", why);
}

Test(library_load, cublas_with_and_without_its_second_half)
{
    compile("b/libcublas.so.77", "", 0);
    cr_assert_eq(load_blas(), FM_LOADED, "%s", why);
    cr_assert_str_eq(where, path("b"));
    garbage("a/libcublasLt.so.77");
    cr_assert_eq(load_blas(), FM_LOAD_REFUSED);
    cr_assert(strstr(why, "libcublasLt.so.77"), "%s", why);
}

Test(library_load, what_is_nowhere_is_said_to_be)
{
    cr_assert_eq(load_blas(), FM_LOAD_ABSENT);
    cr_assert(strstr(why, "libcublas.so.77 was not found") && strstr(why, "FOLDMILL_LIBDIRS"), "%s", why);
    unsetenv("FOLDMILL_LIBDIRS");
    cr_assert_eq(load_blas(), FM_LOAD_ABSENT);
}
