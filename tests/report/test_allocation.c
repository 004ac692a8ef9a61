/* Every allocation of a report fails in turn: out of memory is said, nothing crashes, nothing is half a
 * report. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/board.h"
#include "report/export.h"
#include "support/allocation.h"
#include "support/board_fixture.h"
#include "support/support.h"

static int swallow(void *context, const char *bytes, size_t size)
{
    (void)context, (void)bytes, (void)size;
    return 0;
}

static int make_all(const char *path, char **json, char **text, struct fm_error *err)
{
    struct fm_board *board = NULL;
    const struct fm_writer out = {.write = swallow};
    int rc = fm_board_collect(&board, path, err);
    if (!rc) rc = fm_board_json(board, 0, json, err);
    if (!rc) rc = fm_board_text(board, 0, NULL, text, err);
    if (!rc) rc = fm_export_trials(board, &out, err);
    fm_board_free(board);
    return rc;
}

Test(report_memory, every_allocation_fails_in_turn)
{
    char folder[64], path[128];
    cr_assert(ts_temporary(folder, sizeof folder));
    ts_join(path, sizeof path, folder, "j.db");
    cr_assert(ts_board_fixture(path));
    int failures = 0;
    for (long n = 1; n < 100000; n++) {
        struct fm_error err = {0};
        char *json = NULL, *text = NULL;
        ts_fail_allocation(n, false);
        int rc = make_all(path, &json, &text, &err);
        long asked = ts_allocations();
        ts_fail_allocation(0, false);
        cr_assert(rc == 0 || rc == FM_ENOMEM, "allocation %ld: %d %s", n, rc, err.text);
        failures += rc != 0;
        free(json);
        free(text);
        if (asked < n) break;
    }
    cr_expect(gt(int, failures, 10));
    ts_remove_tree(folder);
}
