/* Finding and refusing plug-ins: with files made for it, in a folder that FOLDMILL_PLUGINS names. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/plugin.h"
#include "engine/plugin_find.h"
#include "support/support.h"

static char folder[64], variable[96];

static void set_up(void)
{
    cr_assert(ts_temporary(folder, sizeof folder));
    snprintf(variable, sizeof variable, "FOLDMILL_PLUGINS=/nonexistent:%s", folder);
    cr_assert_eq(setenv("FOLDMILL_PLUGINS", strchr(variable, '=') + 1, 1), 0);
}

static void tear_down(void)
{
    ts_remove_tree(folder);
}

TestSuite(plugin, .init = set_up, .fini = tear_down);

/* A plug-in from these lines of C; false where there is no compiler. */
static bool make_plugin(const char *name, const char *table)
{
    char source[128], library[128], text[2048];
    snprintf(text, sizeof text,
             "#include \"engine/plugin.h\"\n#include <stdio.h>\n#include <stdlib.h>\n"
             "static int usable(const char *select, char *why, size_t size)\n"
             "{ snprintf(why, size, \"card %%s sleeps\", select ? select : \"any\"); return 1; }\n"
             "static int awake(const char *select, char *why, size_t size)\n"
             "{ (void)select; (void)why; (void)size; return 0; }\n"
             "static int list(struct fm_text *text, bool libraries, struct fm_error *err)\n"
             "{ (void)text; (void)err; return setenv(\"LISTED_%s\", libraries ? \"all\" : \"cards\", 1); }\n"
             "__attribute__((visibility(\"default\"))) const struct fm_plugin *fm_plugin(void)\n"
             "{ static const struct fm_plugin plugin = {%s}; return &plugin; }\n",
             name, table);
    ts_join(source, sizeof source, folder, "plugin.c");
    ts_join(library, sizeof library, folder, name);
    if (!ts_write_file(source, text, strlen(text))) return false;
    const char *const argv[] = {
        "cc", "-shared", "-fPIC", "-Isrc", "-Iinclude", "-DFM_VERSION=\"0.1.0\"", "-D_GNU_SOURCE",
        "-o", library,   source,  NULL};
    struct ts_result result;
    bool made = ts_run(argv, NULL, 60, &result) && result.exit_code == 0;
    if (!made) fprintf(stderr, "%s\n", result.err ? result.err : "no cc");
    ts_result_fini(&result);
    return made;
}

#define REST ".name = \"CUDA 12\", .usable = usable, .list = list"
#define GOOD ".abi = FM_PLUGIN_ABI, .layout = FM_PLUGIN_LAYOUT, "

static int open_device(const char *name, const char *select, char *note, struct fm_error *err)
{
    const struct fm_backend *backend = NULL;
    struct fm_device *device = NULL;
    const struct fm_device_options options = {.lanes = 1, .select = select};
    *err = (struct fm_error){0};
    int rc = fm_backend_open(&backend, &device, name, &options, note, note ? 512 : 0, err);
    if (!rc) {
        cr_expect_str_eq(backend->name, "cpu");
        backend->close(device);
    }
    return rc;
}

Test(plugin, without_any_it_says_what_to_do)
{
    struct fm_error err;
    struct fm_text text = {0};
    char note[512] = "?";
    cr_expect_eq(open_device("cuda", NULL, NULL, &err), FM_EUSAGE);
    cr_expect(strstr(err.text, "run make") && strstr(err.text, "make emulated"), "%s", err.text);
    cr_expect_eq(open_device("auto", NULL, note, &err), 0, "%s", err.text);
    cr_expect_str_eq(note, "");
    cr_expect_eq(fm_plugins_list(&text, &err), 0);
    cr_expect(strstr(text.data, "no plug-in"), "%s", text.data);
    fm_text_fini(&text);
}

Test(plugin, files_that_are_no_plug_ins_are_told)
{
    char path[128];
    struct fm_error err;
    struct fm_text text = {0};
    cr_assert(ts_write_file(ts_join(path, sizeof path, folder, "libfoldmill_cuda11.so"), "no library", 10));
    /* Names that only look like one. */
    cr_assert(ts_write_file(ts_join(path, sizeof path, folder, "libfoldmill_cuda.so"), "x", 1));
    cr_assert(ts_write_file(ts_join(path, sizeof path, folder, "libfoldmill_cuda12.so.old"), "x", 1));
    cr_assert(ts_write_file(ts_join(path, sizeof path, folder, "libfoldmill_cuda1234.so"), "x", 1));
    cr_expect_eq(open_device("cuda", NULL, NULL, &err), FM_EUSAGE);
    cr_expect(strstr(err.text, "libfoldmill_cuda11.so cannot be opened"), "%s", err.text);
    cr_expect(!strstr(err.text, "cuda12") && !strstr(err.text, "cuda1234"), "%s", err.text);
    cr_expect_eq(fm_plugins_list(&text, &err), 0);
    cr_expect(strstr(text.data, "rebuild with make"), "%s", text.data);
    fm_text_fini(&text);
}

Test(plugin, stale_ones_are_refused_and_reasons_come_newest_first, .timeout = 120)
{
    char note[512] = "?";
    struct fm_error err;
    if (!make_plugin("libfoldmill_cuda10.so", GOOD ".version = \"0.0.1\", " REST)) cr_skip("there is no cc");
    cr_assert(
        make_plugin("libfoldmill_cuda13.so",
                    ".abi = FM_PLUGIN_ABI, .layout = FM_PLUGIN_LAYOUT + 8, .version = FM_VERSION, " REST));
    /* What stands behind another `abi` may be anything. */
    cr_assert(make_plugin("libfoldmill_cuda11.so", ".abi = FM_PLUGIN_ABI + 1, .version = (const char *)1"));
    cr_assert(make_plugin("libfoldmill_cuda12.so", GOOD ".version = FM_VERSION, " REST));
    cr_expect_eq(open_device("cuda", "0,1", NULL, &err), FM_EUSAGE);
    const char *thirteen = strstr(err.text, "cuda13.so was built from other sources"),
               *twelve = strstr(err.text, "CUDA 12: card 0,1 sleeps"),
               *eleven = strstr(err.text, "cuda11.so was built from other sources"),
               *ten = strstr(err.text, "cuda10.so was built from other sources");
    cr_expect(thirteen && twelve && eleven && ten, "%s", err.text);
    cr_expect(thirteen < twelve && twelve < eleven && eleven < ten, "%s", err.text);
    /* A person without a GPU is not bothered. */
    cr_expect_eq(open_device("auto", NULL, note, &err), 0, "%s", err.text);
    cr_expect(!*note || strstr(note, "card any sleeps"), "%s", note);
}

/* One process must open only one CUDA version's cuDNN: that of the plug-in that --device cuda takes. */
Test(plugin, only_the_one_that_is_taken_lists_its_libraries, .timeout = 120)
{
    static const char *const listed[] = {"LISTED_libfoldmill_cuda13.so", "LISTED_libfoldmill_cuda12.so",
                                         "LISTED_libfoldmill_cuda11.so", "LISTED_libfoldmill_cuda10.so"};
    static const char *const what[] = {"cards", "all", "cards", "cards"};
    struct fm_error err = {0};
    struct fm_text text = {0};
#define AWAKE GOOD ".version = FM_VERSION, .usable = awake, .list = list, .name = "
    if (!make_plugin("libfoldmill_cuda13.so", GOOD ".version = FM_VERSION, " REST)) cr_skip("there is no cc");
    cr_assert(make_plugin("libfoldmill_cuda12.so", AWAKE "\"the twelve\""));
    cr_assert(make_plugin("libfoldmill_cuda11.so", AWAKE "\"the eleven\""));
    cr_assert(make_plugin("libfoldmill_cuda10.so", GOOD ".version = FM_VERSION, " REST));
    cr_expect_eq(fm_plugins_list(&text, &err), 0, "%s", err.text);
    for (int i = 0; i < 4; i++) {
        const char *seen = getenv(listed[i]);
        cr_assert(seen && !strcmp(seen, what[i]), "%s: %s, not %s", listed[i], seen ? seen : "no", what[i]);
    }
    const char *twelve = strstr(text.data, "the twelve, "), *eleven = strstr(text.data, "the eleven, ");
    cr_assert(twelve && eleven, "%s", text.data);
    cr_expect(!memchr(twelve, '(', strcspn(twelve, "\n")), "%s", text.data);
    cr_expect(strstr(eleven, "cuda11.so (not taken: the twelve comes first)\n"), "%s", text.data);
    fm_text_fini(&text);
}

/* dlopen would die of SIGBUS. */
Test(plugin, a_file_that_is_not_all_there_is_refused)
{
    char path[128];
    struct fm_error err;
    struct fm_text text = {0};
    if (!make_plugin("libfoldmill_cuda12.so", GOOD ".version = FM_VERSION, " REST)) cr_skip("no compiler");
    ts_join(path, sizeof path, folder, "libfoldmill_cuda12.so");
    cr_expect(fm_plugins_whole(path));
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    const off_t sizes[] = {st.st_size / 2, 4096, 500, 64, 20, 0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cr_assert_eq(truncate(path, sizes[i]), 0);
        cr_expect_eq(open_device("cuda", NULL, NULL, &err), FM_EUSAGE);
        cr_expect(strstr(err.text, "cannot be opened"), "%lld bytes: %s", (long long)sizes[i], err.text);
        cr_expect_eq(open_device("auto", NULL, NULL, &err), 0, "%s", err.text);
    }
    cr_expect_eq(fm_plugins_list(&text, &err), 0);
    fm_text_fini(&text);
}
