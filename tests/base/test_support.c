/* The tools of the tests must not say yes to everything. */
#include "support/support.h"
#include "support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Test(support, compare_finds_the_worst_and_fails_it)
{
    double expected[4] = {1.0, NAN, INFINITY, 1000.0}, got[4] = {1.0, NAN, INFINITY, 1000.0};
    cr_assert(ts_compare(TS_EXACT, got, expected, 4).ok);
    got[3] = 1000.005;
    got[0] = 1.0000001;
    struct ts_worst worst = ts_compare(TS_FLOAT_LAYER, got, expected, 4);
    cr_assert(worst.ok && worst.index == 3 && worst.used > 0.4 && worst.used < 0.6, "%s", worst.text);
    cr_assert(!ts_compare(TS_FLOAT, got, expected, 4).ok);
    cr_assert(!ts_compare(TS_EXACT, got, expected, 4).ok);
    got[1] = 0.0;
    worst = ts_compare(TS_FLOAT_TRAINING, got, expected, 4);
    cr_assert(!worst.ok && worst.index == 1, "%s", worst.text);
    cr_assert(!ts_compare_one(TS_FLOAT_TRAINING, NAN, 1.0).ok);
    cr_assert(!ts_compare_one(TS_FLOAT_TRAINING, INFINITY, -INFINITY).ok);
    cr_assert(!ts_compare_one(TS_FLOAT_TRAINING, 1.0, INFINITY).ok);
    cr_assert(ts_compare_float(TS_FLOAT, (float[]){0.1f}, (double[]){0.1}, 1).ok);
}

Test(support, run_tells_output_and_exit_code)
{
    struct ts_result r;
    const char *argv[] = {"sh", "-c", "echo \"out $TS_WORD\"; echo err >&2; cat; exit 7", NULL};
    cr_assert(ts_run(argv, (const char *const[]){"TS_WORD=word", NULL}, 20, &r));
    cr_assert(r.exit_code == 7 && r.signal == 0 && !r.timed_out);
    cr_assert_str_eq(r.out, "out word\n");
    cr_assert_str_eq(r.err, "err\n");
    ts_result_fini(&r);
    cr_assert(!ts_run((const char *const[]){"/nowhere/at-all", NULL}, NULL, 5, &r));
}

Test(support, run_takes_much_output_from_both_pipes)
{
    struct ts_result r;
    const char *argv[] = {"sh", "-c", "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero", NULL};
    cr_assert(ts_run(argv, NULL, 20, &r));
    cr_assert(r.exit_code == 0 && r.out_size == 300000 && r.err_size == 300000);
    ts_result_fini(&r);
}

Test(support, run_kills_what_takes_too_long)
{
    struct ts_result r;
    cr_assert(ts_run((const char *const[]){"sleep", "60", NULL}, NULL, 0.2, &r));
    cr_assert(r.timed_out && r.signal == SIGKILL && r.exit_code == -1);
    ts_result_fini(&r);
    cr_assert(ts_run((const char *const[]){"sh", "-c", "exec >&- 2>&-; exec sleep 60", NULL}, NULL, 0.3, &r));
    cr_assert(r.timed_out && r.signal == SIGKILL, "closed pipes are no end");
    ts_result_fini(&r);
}

Test(support, trees_are_made_and_removed)
{
    char folder[64], path[128], deeper[160];
    size_t size = 0;
    cr_assert(ts_temporary(folder, sizeof folder));
    ts_join(path, sizeof path, folder, "sub");
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_assert(ts_write_file(ts_join(deeper, sizeof deeper, path, "file"), "a\0b", 3));
    char *text = ts_read_file(deeper, &size);
    cr_assert(text && size == 3 && memcmp(text, "a\0b", 4) == 0);
    free(text);
    cr_assert_eq(symlink("/usr", ts_join(deeper, sizeof deeper, path, "link")), 0);
    ts_remove_tree(folder);
    cr_assert(access(folder, F_OK) != 0 && access("/usr", F_OK) == 0);
    cr_assert_null(ts_read_file(folder, NULL));
}

Test(support, golden_numbers_are_flattened)
{
    json_t *list = json_pack("[[i,f],[[s,s],n]]", 1, 2.5, "nan", "-inf"), *wrong = json_pack("[s]", "word");
    size_t count = 0;
    double *numbers = ts_golden_numbers(list, &count);
    cr_assert(numbers && count == 5 && numbers[0] == 1 && numbers[1] == 2.5 && isnan(numbers[2]) &&
              numbers[3] == -INFINITY && isnan(numbers[4]));
    free(numbers);
    cr_assert_null(ts_golden_numbers(wrong, &count));
    cr_assert_null(ts_golden("there-is-none"));
    json_decref(list);
    json_decref(wrong);
}
