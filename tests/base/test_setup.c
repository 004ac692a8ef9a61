/* scripts/setup.sh with a dpkg-query, apt-get and id of the test's own, because a machine that runs tests is
 * set up. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/support.h"

static void script(const char *folder, const char *name, const char *body)
{
    char path[160], text[1024];
    ts_join(path, sizeof path, folder, name);
    int size = snprintf(text, sizeof text, "#!/bin/sh\n%s\n", body);
    cr_assert(ts_write_file(path, text, (size_t)size));
    cr_assert_eq(chmod(path, 0755), 0);
}

static void run_setup(const char *folder, const char *mode, struct ts_result *result)
{
    char path[512], log[160];
    snprintf(path, sizeof path, "PATH=%s:/usr/bin:/bin", folder);
    snprintf(log, sizeof log, "SETUP_LOG=%s/log", folder);
    const char *argv[] = {"env", path, log, "scripts/setup.sh", mode, NULL};
    cr_assert(ts_run(argv, NULL, 20, result));
}

/* dpkg-query ends with 1 when it has never heard of a package: so it is on a fresh machine. */
Test(setup, installs_what_a_fresh_machine_lacks)
{
    char folder[64], path[128];
    struct ts_result result;
    cr_assert(ts_temporary(folder, sizeof folder));
    script(folder, "dpkg-query", "echo 'installed make'; echo 'config-files scdoc'; exit 1");
    script(folder, "apt-get", "echo \"$@\" >> \"$SETUP_LOG\"");
    script(folder, "id", "echo 0");
    run_setup(folder, NULL, &result);
    cr_assert_eq(result.exit_code, 0, "%s", result.err);
    char *log = ts_read_file(ts_join(path, sizeof path, folder, "log"), NULL);
    cr_assert(log && strstr(log, "update"), "%s", log);
    cr_assert(strstr(log, "libfyaml-dev") && strstr(log, "scdoc") && !strstr(log, " make "), "%s", log);
    free(log);
    ts_result_fini(&result);
    ts_remove_tree(folder);
}

Test(setup, is_silent_when_all_is_there)
{
    char folder[64];
    struct ts_result result;
    cr_assert(ts_temporary(folder, sizeof folder));
    script(folder, "dpkg-query", "shift 2; for p in \"$@\"; do echo \"installed $p\"; done");
    script(folder, "apt-get", "exit 1");
    run_setup(folder, NULL, &result);
    cr_assert_eq(result.exit_code, 0, "%s", result.err);
    cr_assert_eq(result.out_size + result.err_size, 0, "%s%s", result.out, result.err);
    ts_result_fini(&result);
    ts_remove_tree(folder);
}

Test(setup, says_what_to_do_where_nobody_may_install)
{
    char folder[64];
    struct ts_result result;
    cr_assert(ts_temporary(folder, sizeof folder));
    script(folder, "dpkg-query", "exit 1");
    script(folder, "apt-get", "exit 1");
    script(folder, "sudo", "exit 1");
    script(folder, "id", "echo 1000");
    run_setup(folder, NULL, &result);
    cr_assert_eq(result.exit_code, 1);
    cr_assert(strstr(result.err, "apt-get install -y gcc"), "%s", result.err);
    ts_result_fini(&result);
    ts_remove_tree(folder);
}
