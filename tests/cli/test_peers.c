/* scripts/bench_peers.py: that it reads what bench prints and writes a right table, by its own tests. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "cli/cli_support.h"

TestSuite(cli_peers);

Test(cli_peers, reads_benches_and_writes_tables)
{
    const char *const version[] = {
        "python3", "-c", "import sys; print(\"python\"); sys.exit(sys.version_info < (3, 9))", NULL};
    const char *const argv[] = {"python3", "-B", "scripts/bench_peers.py", "--self-test", NULL};
    struct ts_result result;
    if (!ts_run(version, NULL, 60, &result)) cr_skip("python3 does not start");
    bool usable = result.exit_code == 0 && cli_has(result.out, "python");
    ts_result_fini(&result);
    if (!usable) cr_skip("there is no python3 of version 3.9 or later");
    cr_assert(ts_run(argv, NULL, 60, &result));
    cr_expect(eq(int, result.exit_code, 0), "%s%s", result.out, result.err);
    cr_expect(cli_has(result.err, "\nOK"), "%s", result.err);
    cr_expect(not(cli_has(result.err, "Ran 0 tests")));
    ts_result_fini(&result);
}
