/* CSV read back by a reader of its own, .npz by the rules of its format. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "base/text.h"
#include "report/export.h"
#include "report/npz_write.h"
#include "support/board_fixture.h"
#include "support/support.h"

static char folder[64], path[128];

static void set_up(void)
{
    cr_assert(ts_temporary(folder, sizeof folder));
    ts_join(path, sizeof path, folder, "j.db");
    cr_assert(ts_board_fixture(path));
}

static void tear_down(void)
{
    ts_remove_tree(folder);
}

TestSuite(report_export, .init = set_up, .fini = tear_down);

static int collect(void *context, const char *bytes, size_t size)
{
    fm_text_add_bytes(context, bytes, size);
    return 0;
}

static int full_disk(void *context, const char *bytes, size_t size)
{
    (void)context, (void)bytes, (void)size;
    return ENOSPC;
}

/* Field (row, column) of RFC 4180 text into buffer; NULL when there is none. */
static const char *field(const char *csv, int row, int column, char buffer[256])
{
    bool quoted = false;
    size_t n = 0;
    int r = 0, c = 0;
    for (const char *p = csv; *p && r <= row; p++) {
        bool here = r == row && c == column;
        if (*p == '"' && quoted && p[1] == '"')
            p++;
        else if (*p == '"') {
            quoted = !quoted;
            continue;
        } else if (!quoted && (*p == ',' || *p == '\n')) {
            if (here) return buffer[n] = '\0', buffer;
            if (*p == ',')
                c++;
            else
                r++, c = 0;
            continue;
        }
        if (here && n < 255) buffer[n++] = *p;
    }
    return NULL;
}

static int column_of(const char *csv, const char *name)
{
    char buffer[256];
    for (int c = 0; field(csv, 0, c, buffer); c++)
        if (!strcmp(buffer, name)) return c;
    return -1;
}

typedef int export_function(const struct fm_board *, const struct fm_writer *, struct fm_error *);

static struct fm_text exported(export_function *function)
{
    struct fm_text text = {0};
    struct fm_error err = {0};
    struct fm_board *board = NULL;
    const struct fm_writer out = {.write = collect, .context = &text};
    cr_assert(eq(int, fm_board_collect(&board, path, &err), 0), "%s", err.text);
    cr_assert(eq(int, function(board, &out, &err), 0), "%s", err.text);
    fm_board_free(board);
    return text;
}

Test(report_export, trials)
{
    struct fm_text csv = exported(fm_export_trials);
    char f[256];
    cr_expect(eq(str, (char *)field(csv.data, 1, 0, f), "9"));
    cr_expect(eq(str, (char *)field(csv.data, 1, column_of(csv.data, "param_opt"), f),
                 "{\"adam\":{\"beta_1\":0.1}}"));
    cr_expect(eq(str, (char *)field(csv.data, 3, column_of(csv.data, "param_lr"), f), "0.001"));
    cr_expect(eq(str, (char *)field(csv.data, 3, column_of(csv.data, "param_opt"), f), ""));
    cr_expect(eq(str, (char *)field(csv.data, 3, column_of(csv.data, "pooled_val_auc"), f), "0.77"));
    cr_expect(eq(str, (char *)field(csv.data, 5, column_of(csv.data, "mean"), f), ""), "undefined is empty");
    cr_expect(eq(str, (char *)field(csv.data, 7, column_of(csv.data, "reason"), f),
                 "model[0]: kernel 25 is longer than its input of 24"));
    cr_expect(eq(ptr, (void *)field(csv.data, 9, 0, f), NULL), "8 trials and a heading");
    fm_text_fini(&csv);
}

Test(report_export, runs_and_history)
{
    struct fm_text csv = exported(fm_export_runs);
    char f[256];
    cr_expect(eq(str, (char *)field(csv.data, 1, 0, f), "1"));
    cr_expect(eq(str, (char *)field(csv.data, 1, column_of(csv.data, "val_auc"), f), "0.9"));
    cr_expect(eq(int, column_of(csv.data, "val_mse"), -1), "measures that do not fit have no column");
    cr_expect(eq(int, column_of(csv.data, "inner_loss"), -1));
    fm_text_fini(&csv);
    csv = exported(fm_export_history);
    cr_expect(eq(str, (char *)field(csv.data, 2, 3, f), "2"));
    cr_expect(eq(str, (char *)field(csv.data, 2, column_of(csv.data, "val_loss"), f), "0.75"));
    cr_expect(eq(str, (char *)field(csv.data, 3, column_of(csv.data, "val_auc"), f), ""));
    cr_expect(eq(str, (char *)field(csv.data, 4, 0, f), "6"), "trial 7 is not listed");
    cr_expect(eq(ptr, (void *)field(csv.data, 5, 0, f), NULL));
    fm_text_fini(&csv);
}

Test(report_export, a_full_disk_is_told)
{
    struct fm_error err = {0};
    struct fm_board *board = NULL;
    const struct fm_writer out = {.write = full_disk};
    cr_assert(eq(int, fm_board_collect(&board, path, &err), 0));
    cr_expect(eq(int, fm_export_runs(board, &out, &err), FM_EIO));
    cr_expect(strstr(err.text, "No space left") != NULL, "%s", err.text);
    fm_board_free(board);
}

Test(report_csv, quotes_and_numbers)
{
    struct fm_text text = {0};
    struct fm_error err = {0};
    struct fm_rows csv;
    const struct fm_writer out = {.write = collect, .context = &text};
    fm_rows_init(&csv, &out);
    fm_rows_text(&csv, "plain");
    fm_rows_text(&csv, "a,b");
    fm_rows_text(&csv, "say \"so\"");
    fm_rows_text(&csv, "two\nlines");
    fm_rows_name(&csv, "p_", "walk, slow");
    fm_rows_text(&csv, "");
    fm_rows_number(&csv, 0.1);
    fm_rows_number(&csv, NAN);
    fm_rows_float(&csv, 0.1f);
    fm_rows_integer(&csv, -3);
    fm_rows_count(&csv, 0);
    fm_rows_end(&csv);
    cr_expect(eq(int, fm_rows_fini(&csv, &err), 0));
    cr_expect(eq(str, text.data,
                 "plain,\"a,b\",\"say \"\"so\"\"\",\"two\nlines\",\"p_walk, slow\",,0.1,,0.1,-3,\n"));
    fm_text_fini(&text);
}

/* Reads one member by hand: magic, header length, dictionary, values. */
static void expect_member(zip_t *zip, const char *name, const char *shape, float first, int count)
{
    char bytes[1024];
    zip_file_t *member = zip_fopen(zip, name, 0);
    cr_assert(member != NULL, "%s is missing", name);
    zip_int64_t size = zip_fread(member, bytes, sizeof bytes);
    zip_fclose(member);
    cr_assert(size > 10 && memcmp(bytes, "\x93NUMPY\x01\x00", 8) == 0);
    size_t header = (unsigned char)bytes[8] + 256u * (unsigned char)bytes[9];
    cr_expect(eq(sz, (10 + header) % 64, 0));
    cr_expect(eq(int, bytes[10 + header - 1], '\n'));
    bytes[10 + header - 1] = '\0';
    char expected[128];
    snprintf(expected, sizeof expected, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shape);
    cr_expect(strncmp(bytes + 10, expected, strlen(expected)) == 0, "%s", bytes + 10);
    cr_expect(eq(i64, (int64_t)size, (int64_t)(10 + header + 4 * (size_t)count)));
    float value;
    memcpy(&value, bytes + 10 + header, sizeof value);
    cr_expect(eq(flt, value, first));
}

/* Shapes [2,1,3], [3], [3,2], [2,2] end to end over 0.5, 1.5, ... */
Test(report_export, weights_keep_shapes_order_and_places)
{
    char out[128], file[256];
    struct fm_error err = {0};
    int64_t count = 0;
    int code = 0;
    ts_join(out, sizeof out, folder, "weights");
    cr_assert(eq(int, fm_export_weights_to(path, out, &count, &err), 0), "%s", err.text);
    cr_expect(eq(i64, count, 3));
    zip_t *zip = zip_open(ts_join(file, sizeof file, out, "trial9_repeat0_fold2.npz"),
                          ZIP_RDONLY | ZIP_CHECKCONS, &code);
    cr_assert(zip != NULL);
    cr_expect(eq(i64, (int64_t)zip_get_num_entries(zip, 0), 4));
    expect_member(zip, "0_conv1d/kernel.npy", "(2, 1, 3)", 0.5f, 6);
    expect_member(zip, "0_conv1d/bias.npy", "(3,)", 6.5f, 3);
    expect_member(zip, "2_dense/kernel.npy", "(3, 2)", 9.5f, 6);
    expect_member(zip, "3_dense_1/kernel.npy", "(2, 2)", 15.5f, 4);
    zip_close(zip);
}

Test(report_export, weights_that_do_not_fit_or_are_not_there)
{
    char out[128];
    struct fm_error err = {0};
    int64_t count = 7;
    ts_join(out, sizeof out, folder, "weights");
    cr_assert(ts_sql(path, "UPDATE artifact SET blob = x'00000000'"));
    cr_expect(eq(int, fm_export_weights_to(path, out, &count, &err), FM_EIO));
    cr_expect(eq(i64, count, 0));
    fm_error_clear(&err);
    cr_assert(ts_sql(path, "DELETE FROM artifact"));
    cr_expect(eq(int, fm_export_weights_to(path, out, &count, &err), FM_EUSAGE));
    fm_error_clear(&err);
    cr_expect(eq(int, fm_export_weights_to(path, "/proc/none/weights", &count, &err), FM_EIO));
}
