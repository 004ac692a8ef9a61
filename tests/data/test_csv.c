/* CSV files as a dialect and as a series: the cases people reported, and what else a file may hold. */
#include "support/loading.h"
#include "support/support.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ts_loading l;

static void set_up(void)
{
    cr_assert(ts_loading_init(&l));
}

static void tear_down(void)
{
    ts_loading_fini(&l);
}

TestSuite(csv, .init = set_up, .fini = tear_down);

#define LENGTH_1 "window: {length: 1}"

static void file(const char *name, const char *text)
{
    cr_assert(ts_loading_file(&l, name, text, 0));
}

static void loads(const char *data)
{
    char text[1024];
    cr_assert_eq(ts_load(&l, data, "categorical_crossentropy"), 0, "%s",
                 ts_load_error(&l, text, sizeof text));
}

/* Loading fails with FM_EFILE, and the message holds every one of the parts. */
static void refuses(const char *data, const char *a, const char *b)
{
    char text[2048];
    int rc = ts_load(&l, data, "categorical_crossentropy");
    ts_load_error(&l, text, sizeof text);
    cr_assert_eq(rc, FM_EFILE, "code %d: %s", rc, text);
    cr_assert(strstr(text, a), "'%s' is not in: %s", a, text);
    cr_assert(!b || strstr(text, b), "'%s' is not in: %s", b, text);
}

/* Class counts over all positions, as "name:count name:count". */
static const char *classes(char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (int64_t k = 0; k < l.data.nclasses; k++) {
        int count = 0;
        for (int64_t i = 0; i < l.data.positions; i++) count += fm_packed_get(&l.data.classes, i) == k;
        used += (size_t)snprintf(buffer + used, size - used, "%s%s:%d", k ? " " : "", l.data.class_names[k],
                                 count);
    }
    return buffer;
}

static double mean(int64_t channel)
{
    double sum = 0;
    for (int64_t i = 0; i < l.data.positions; i++) sum += ts_load_value(&l, i, channel);
    return sum / (double)l.data.positions;
}

#define A01 "source: csv, path: A01.csv, time: time, features: [\"acc x\"], target: label, " LENGTH_1

Test(csv, header_behind_a_byte_order_mark)
{
    char text[256];
    if (!ts_loading_shared(&l, "cases", "A01.csv")) cr_skip("../shared is absent");
    loads(A01);
    cr_assert_eq(l.data.positions, 6);
    cr_assert_str_eq(classes(text, sizeof text), "run:3 walk, slow:3");
    cr_assert_eq(mean(0), 1.0);
    cr_assert_str_eq(l.data.channel_names[0], "acc x");
    uint64_t hash = l.data.hash;
    static const char *const variants[] = {
        "\"time\",\"acc x\",\"label\"\n0,0.5,\"walk, slow\"\n1,1.5,\"walk, "
        "slow\"\n2,-2,\"run\"\n3,4,\"run\"\n"
        "4,0.25,\"walk, slow\"\n5,1.75,\"run\"\n",
        "time,acc x,label\r\n0,0.5,\"walk, slow\"\r\n1,1.5,\"walk, slow\"\r\n2,-2,run\r\n3,4,run\r\n"
        "4,0.25,\"walk, slow\"\r\n5,1.75,run\r\n",
        "\xef\xbb\xbftime,acc x,label\r0,0.5,\"walk, slow\"\r1,1.5,\"walk, slow\"\r2,-2,run\r3,4,run\r"
        "4,0.25,\"walk, slow\"\r5,1.75,run",
    };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        file("A01.csv", variants[i]);
        loads(A01);
        cr_assert_eq(l.data.hash, hash, "variant %zu", i);
    }
    file("A01.csv", "time,acc x,label\n0,0.5,run\n1,1.5,\"walk, slow\"\n2,-2,run\n");
    loads(A01);
    cr_assert_neq(l.data.hash, hash);
}

#define A02 "source: csv, path: A02.csv, time: t, features: [u, v], target: u, " LENGTH_1

Test(csv, semicolons_and_decimal_commas)
{
    if (!ts_loading_shared(&l, "cases", "A02.csv") || !ts_loading_shared(&l, "cases", "A02b.csv"))
        cr_skip("../shared is absent");
    static const char *const dialects[] = {"delimiter: \";\", decimal: \",\", ", "decimal: \",\", "};
    for (int i = 0; i < 2; i++) {
        char data[256];
        snprintf(data, sizeof data, "%s%s", dialects[i], A02);
        cr_assert_eq(ts_load(&l, data, "mse"), 0);
        cr_assert_eq(l.data.positions, 4);
        cr_assert_eq(mean(0), 0.25);
        cr_assert_float_eq(mean(1), 1.2525, 1e-7);
        cr_assert_eq(l.data.target_values[2], -3.125f);
    }
    refuses(A02, "A02.csv:2:3", "1,5");
    refuses("delimiter: \";\", " A02, "decimal: \",\"", NULL);
    refuses("source: csv, path: A02b.csv, decimal: \",\", features: [u, v], target: t, " LENGTH_1,
            "A02b.csv:2:3", "1.299,99");
    file("A02.csv", "t;u\n0;1\n1;2.000\n");
    refuses("source: csv, path: A02.csv, decimal: \",\", features: [u], target: t, " LENGTH_1, "A02.csv:3:3",
            "2.000");
}

Test(csv, comma_at_the_end_of_every_row)
{
    char text[128];
    if (!ts_loading_shared(&l, "cases", "A03.csv") || !ts_loading_shared(&l, "cases", "A03b.csv"))
        cr_skip("../shared is absent");
    loads("source: csv, path: A03.csv, features: [a, b], target: y, " LENGTH_1);
    cr_assert_eq(mean(0), 2.0);
    cr_assert_eq(mean(1), 5.0);
    cr_assert_str_eq(classes(text, sizeof text), "0:2 1:2");
    cr_assert(ts_load_noted(&l, "empty field"));
    refuses("source: csv, path: A03b.csv, features: [a, b], target: y, " LENGTH_1, "A03b.csv:3:", "4 fields");
}

Test(csv, groups_keep_records_together)
{
    if (!ts_loading_shared(&l, "cases", "A08.csv")) cr_skip("../shared is absent");
    loads("source: csv, path: A08.csv, features: [x], target: y, record: subject, group: subject, " LENGTH_1);
    static const int64_t starts[] = {0, 3, 4, 6, 9, 10, 12};
    cr_assert_eq(l.data.nrecords, 6);
    cr_assert_arr_eq(l.data.starts, starts, sizeof starts);
    cr_assert_eq(l.data.ngroups, 6);
    for (int i = 0; i < 6; i++) {
        char name[8];
        snprintf(name, sizeof name, "s%d", i + 1);
        cr_assert_str_eq(l.data.record_ids[i], name);
        cr_assert_str_eq(l.data.group_names[l.data.record_group[i]], name);
    }
}

Test(csv, large_offsets_keep_their_digits)
{
    if (!ts_loading_shared(&l, "cases", "A12.csv")) cr_skip("../shared is absent");
    loads("source: csv, path: A12.csv, features: [dead, count, pressure], target: y, " LENGTH_1);
    cr_assert_eq(l.data.offset[0], 14.62);
    cr_assert_eq(l.data.offset[1], 10001);
    cr_assert_float_eq(l.data.offset[2], 101325.01171875, 1e-9);
    double squares = 0;
    for (int64_t i = 0; i < 48; i++) {
        cr_assert_eq(l.data.values[3 * i], 0);
        cr_assert_eq(ts_load_value(&l, i, 1), 10000 + (double)(i % 3));
        cr_assert_float_eq(ts_load_value(&l, i, 2), 101325 + 0.0078125 * (double)(i % 4), 1e-9);
        squares += pow(ts_load_value(&l, i, 2) - 101325.01171875, 2);
    }
    cr_assert_float_eq(sqrt(squares / 48), 0.0087346405, 1e-9);
}

Test(csv, records_are_cut_where_their_id_changes)
{
    if (!ts_loading_shared(&l, "cases", "A15.csv")) cr_skip("../shared is absent");
    loads("source: csv, path: A15.csv, record: rec, features: [x], target: y, "
          "window: {length: 4, stride: 1, edge: drop, label: first}");
    cr_assert_eq(l.data.nrecords, 3);
    cr_assert_eq(fm_dataset_record_length(&l.data, 0), 10);
    cr_assert_eq(fm_dataset_record_length(&l.data, 1), 3);
    cr_assert_eq(fm_dataset_record_length(&l.data, 2), 4);
    cr_assert_eq(fm_dataset_record_of(&l.data, 9), 0);
    cr_assert_eq(fm_dataset_record_of(&l.data, 10), 1);
    cr_assert_eq(fm_dataset_record_of(&l.data, 16), 2);
}

#define MACHINE                                                                                              \
    "source: csv, path: machine_temperature.csv, time: timestamp, features: [value], target: anomaly, "

Test(csv, machine_temperature)
{
    char text[128];
    if (!ts_loading_shared(&l, "data", "machine_temperature.csv")) cr_skip("../shared is absent");
    loads(MACHINE "disorder: split, window: {length: 104, label: any}");
    cr_assert_eq(l.data.positions, 22695);
    cr_assert_eq(l.data.nrecords, 2);
    cr_assert_str_eq(classes(text, sizeof text), "0:20427 1:2268");
    cr_assert_str_eq(l.data.record_ids[1], "machine_temperature.csv#2");
    cr_assert_eq(l.data.classes.bits, 1);
    cr_assert(ts_load_noted(&l, "goes back at 1 place"));
    refuses(MACHINE "window: {length: 104, label: any}", "machine_temperature.csv:101", "disorder: split");
}

Test(csv, ids_are_text_as_written)
{
    file("a.csv", "r,x,y\n007,1,0\n7,2,1\n7.0,3,0\nNA,4,1\n7,5,0\n");
    file("b.csv", "r,x,y\n7,1,0\n8,1,0\n");
    loads("source: csv, path: [a.csv, b.csv], record: r, features: x, target: y, " LENGTH_1);
    static const char *const ids[] = {"007", "7", "7.0", "NA", "7#2", "7#3", "8"};
    static const char *const groups[] = {"007", "7", "7.0", "NA", "7", "7", "8"};
    cr_assert_eq(l.data.nrecords, 7);
    cr_assert_eq(l.data.ngroups, 5);
    for (int i = 0; i < 7; i++) {
        cr_assert_str_eq(l.data.record_ids[i], ids[i]);
        cr_assert_str_eq(l.data.group_names[l.data.record_group[i]], groups[i]);
    }
    file("a.csv", "r,x,y\n1,1,0\n,2,1\n");
    refuses("source: csv, path: a.csv, record: r, features: x, target: y, " LENGTH_1, "a.csv:3:1", "empty");
    file("a.csv", "r,x,y\n1#2,1,0\n2,2,1\n");
    refuses("source: csv, path: a.csv, record: r, features: x, target: y, " LENGTH_1, "a.csv:2", "1#2");
}

Test(csv, groups_without_records_cut)
{
    file("a.csv", "g,x,y\nb,1,0\nb,2,1\na,3,0\nb,4,1\n");
    loads("source: csv, path: a.csv, group: g, features: x, target: y, " LENGTH_1);
    cr_assert_eq(l.data.nrecords, 3);
    cr_assert_eq(l.data.ngroups, 2);
    cr_assert_str_eq(l.data.group_names[0], "a");
    cr_assert_eq(l.data.record_group[0], 1);
    cr_assert_eq(l.data.record_group[1], 0);
    cr_assert_eq(l.data.record_group[2], 1);
    file("a.csv", "g,r,x,y\nb,1,1,0\nc,1,2,1\n");
    refuses("source: csv, path: a.csv, group: g, record: r, features: x, target: y, " LENGTH_1, "a.csv:3:1",
            "inside record '1'");
}

Test(csv, names_in_paths_become_columns)
{
    file("s1_day.csv", "x,y\n1,0\n2,1\n");
    file("s2_day.csv", "y,x\n0,3\n1,4\n");
    loads("source: csv, path: \"{subject}_day.csv\", group: subject, record: file, features: x, target: "
          "y, " LENGTH_1);
    cr_assert_eq(l.data.nrecords, 2);
    cr_assert_str_eq(l.data.group_names[0], "s1");
    cr_assert_str_eq(l.data.record_ids[1], "s2_day.csv");
    cr_assert_eq(l.data.nfiles, 2);
    cr_assert_eq(l.data.values[2], 3.0f);
    cr_assert_eq(l.data.values[3], 4.0f);
    refuses("source: csv, path: \"*.txt\", features: x, target: y, " LENGTH_1, "*.txt", "sweep.yaml:2");
    refuses("source: csv, path: [s1_day.csv, \"s?_day.csv\"], features: x, target: y, " LENGTH_1,
            "listed twice", NULL);
    file("s3_day.csv", "y,z\n0,3\n1,4\n");
    refuses("source: csv, path: \"s*_day.csv\", features: x, target: y, " LENGTH_1, "s3_day.csv", "'x'");
}

Test(csv, gaps_start_records)
{
    char text[4096] = "t,x,y\n";
    for (int i = 0; i < 60; i++) {
        char row[32];
        snprintf(row, sizeof row, "%d,%d,%d\n", i * 10 + (i >= 20) * 100 + (i >= 30) * 3, i, i % 2);
        strcat(text, row);
    }
    file("a.csv", text);
    loads("source: csv, path: a.csv, time: t, features: x, target: y, " LENGTH_1);
    cr_assert_eq(l.data.nrecords, 2);
    cr_assert_eq(l.data.starts[1], 20);
    cr_assert(ts_load_noted(&l, "a.csv:22"));
    loads("source: csv, path: a.csv, time: t, gap: 1.2, features: x, target: y, " LENGTH_1);
    cr_assert_eq(l.data.nrecords, 3);
    l.time = true;
    loads("source: csv, path: a.csv, time: t, gap: 1000, features: x, target: y, " LENGTH_1);
    cr_assert_eq(l.data.nrecords, 1);
    cr_assert_eq(l.data.time[59], 693);
    file("a.csv", "t,x,y\n0,1,0\n1,2,1\n2,3,0\n3,4,1\n9,5,1\n");
    refuses("source: csv, path: a.csv, time: t, features: x, target: y, " LENGTH_1, "a.csv:6", "`gap`");
    file("a.csv", "t,x,y\n0,1,0\n1,2,1\n1,3,0\n");
    refuses("source: csv, path: a.csv, time: t, features: x, target: y, " LENGTH_1, "a.csv:4:1",
            "disorder: split");
}

Test(csv, dates_are_times)
{
    l.time = true;
    file("a.csv",
         "t,x,y\n2024-02-28T23:59:59.5Z,1,0\n2024-02-29T01:00:00.25+01:00,2,1\n2024-02-29 00:00:01Z,3,0\n");
    loads("source: csv, path: a.csv, time: t, features: x, target: y, gap: 10, " LENGTH_1);
    cr_assert_eq(l.data.time[0], 0.5);
    cr_assert_eq(l.data.time[1], 1.25);
    cr_assert_eq(l.data.time[2], 2);
    file("a.csv", "t,x,y\n2024-02-28,1,0\n2024-03-01,2,1\n");
    loads("source: csv, path: a.csv, time: t, features: x, target: y, " LENGTH_1);
    cr_assert_eq(l.data.time[1], 2 * 86400);
    static const char *const bad[] = {
        "2023-02-29 00:00", "2024-13-01 00:00", "2024-01-01 24:00", "noon", "2024-01-01 00:00Z", "17"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128];
        snprintf(text, sizeof text, "t,x,y\n2022-01-01 00:00,1,0\n%s,2,1\n", bad[i]);
        file("a.csv", text);
        refuses("source: csv, path: a.csv, time: t, features: x, target: y, " LENGTH_1, "a.csv:3:1", "time");
    }
}

#define MISSING "source: csv, path: a.csv, features: [x, z], target: y, " LENGTH_1 ", missing: "

Test(csv, missing_values)
{
    file("a.csv", "x,z,y\n1,5,0\n,5,1\nNA,6,0\n4,nan,1\n5,7,1\n");
    refuses(MISSING "error", "a.csv:3:1", "x is missing");
    loads(MISSING "interpolate");
    static const float lines[] = {1, 5, 2, 5, 3, 6, 4, 6.5f, 5, 7};
    cr_assert_arr_eq(l.data.values, lines, sizeof lines);
    loads(MISSING "ffill");
    static const float repeats[] = {1, 5, 1, 5, 1, 6, 4, 6, 5, 7};
    cr_assert_arr_eq(l.data.values, repeats, sizeof repeats);
    loads(MISSING "-1.5");
    static const float fixed[] = {1, 5, -1.5f, 5, -1.5f, 6, 4, -1.5f, 5, 7};
    cr_assert_arr_eq(l.data.values, fixed, sizeof fixed);
    loads(MISSING "drop");
    cr_assert_eq(l.data.positions, 2);
    cr_assert_eq(l.data.nrecords, 2);
    cr_assert_str_eq(l.data.record_ids[1], "a.csv#2");
    loads(MISSING "{x: ffill, z: 0}");
    cr_assert_eq(l.data.values[7], 0);
    refuses(MISSING "{ffill: 1}", "a.csv:4:1", "in a row");
    loads(MISSING "{ffill: 2}");
    refuses(MISSING "{xx: ffill}", "missing", "nearest is 'x'");
    file("a.csv", "x,z,y\n1,5,0\n2,5,1\n,6,0\n");
    refuses(MISSING "interpolate", "a.csv:4", "after it");
    file("a.csv", "x,z,y\n,5,0\n2,5,1\n3,6,0\n");
    refuses(MISSING "interpolate", "a.csv:2:1", "before it");
    refuses(MISSING "ffill", "a.csv:2:1", "before it");
    /* Neither fills over the border of a record. */
    file("a.csv", "x,z,y,r\n1,5,0,a\n2,5,1,a\n,6,0,b\n");
    refuses("record: r, " MISSING "ffill", "a.csv:4:1", "before it");
}

#define LABELS "source: csv, path: a.csv, features: x, " LENGTH_1 ", target: "

Test(csv, labels_become_classes)
{
    char text[256];
    file("a.csv", "x,y\n1,10\n2,9\n3,-1\n4,10\n");
    loads(LABELS "y");
    cr_assert_str_eq(classes(text, sizeof text), "-1:1 9:1 10:2");
    file("a.csv", "x,y\n1,b10\n2,b9\n3,10\n4,b9\n");
    loads(LABELS "y");
    cr_assert_str_eq(classes(text, sizeof text), "10:1 b10:1 b9:2");
    file("a.csv", "x,y\n1,0\n2,1.0\n3,1\n4,0.0\n");
    loads(LABELS "y");
    cr_assert_str_eq(classes(text, sizeof text), "0:2 1.0:2");
    cr_assert(ts_load_noted(&l, "same number"));
    file("a.csv", "x,y\n1,NO\n2,\n3,YES\n4,MAYBE\n");
    refuses(LABELS "y", "a.csv:3:3", "empty");
    loads(LABELS "{column: y, other: skip}");
    cr_assert_str_eq(classes(text, sizeof text), "MAYBE:1 NO:1 YES:1");
    cr_assert_eq(fm_packed_get(&l.data.classes, 1), 3);
    loads(LABELS "{column: y, classes: [YES, NO], other: skip}");
    cr_assert_str_eq(classes(text, sizeof text), "YES:1 NO:1");
    cr_assert_eq(fm_packed_get(&l.data.classes, 3), 2);
    refuses(LABELS "{column: y, classes: [YES, NO]}", "a.csv:3:3", NULL);
    file("a.csv", "x,y\n1,NO\n2,NO\n");
    refuses(LABELS "y", "one class", "NO");
    refuses(LABELS "{column: y, classes: [YES, NO]}", "one class", "NO");
}

Test(csv, many_classes_widen_their_codes)
{
    size_t n = 70000, used = 0;
    char *text = malloc(n * 16);
    used += (size_t)sprintf(text, "x,y\n");
    for (size_t i = 0; i < n; i++) used += (size_t)sprintf(text + used, "1,%zu\n", i % 1000 * 7 % 1000);
    cr_assert(ts_loading_file(&l, "a.csv", text, used));
    free(text);
    loads(LABELS "y");
    cr_assert_eq(l.data.nclasses, 1000);
    cr_assert_eq(l.data.classes.bits, 16);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(fm_packed_get(&l.data.classes, (int64_t)i), i % 1000 * 7 % 1000);
}

Test(csv, columns_of_all_kinds)
{
    file("a.csv",
         "acc_x,acc_y,name,y,w,use,fold,empty\n1,2,p,0,1,yes,1,\n3,4,q,1,0.5,no,0,\n5,6,r,0,2,yes,-1,\n");
    cr_assert_eq(ts_load_cv(&l,
                            "source: csv, path: a.csv, features: all, target: y, weight: w, "
                            "mask: {column: use, keep: yes}, " LENGTH_1,
                            "mse", "split: predefined, column: fold"),
                 0);
    cr_assert_eq(l.data.channels, 2);
    cr_assert_str_eq(l.data.channel_names[1], "acc_y");
    cr_assert_eq(l.data.weights[1], 0.5f);
    cr_assert_eq(l.data.mask[0], 5);
    cr_assert_eq(l.data.nfolds, 2);
    cr_assert_str_eq(l.data.fold_names[0], "0");
    static const int32_t folds[] = {1, 0, -1};
    cr_assert_arr_eq(l.data.fold, folds, sizeof folds);
    cr_assert(ts_load_noted(&l, "'name'"));
    cr_assert_eq(
        ts_load(&l, "source: csv, path: a.csv, features: [\"acc_*\", y], target: y, " LENGTH_1, "mse"), 0);
    cr_assert_eq(l.data.channels, 3);
    cr_assert_eq(l.data.target_values[1], 1);
    refuses("source: csv, path: a.csv, features: [acc_z], target: y, " LENGTH_1, "sweep.yaml:2", "acc_");
    refuses("source: csv, path: a.csv, features: [\"gyro*\"], target: y, " LENGTH_1, "gyro*", NULL);
    refuses("source: csv, path: a.csv, features: [name], target: y, " LENGTH_1, "a.csv:2:5",
            "'p' is not a number");
    refuses("source: csv, path: a.csv, features: [acc_x], target: z, " LENGTH_1, "target", "no column 'z'");
    file("a.csv", "x,x,y\n1,2,0\n3,4,1\n");
    refuses("source: csv, path: a.csv, features: [x], target: y, " LENGTH_1, "2 columns called 'x'", NULL);
    refuses("source: csv, path: a.csv, features: all, target: y, " LENGTH_1, "called 'x'", NULL);
}

Test(csv, files_without_a_header)
{
    file("a.csv", "1,2,0\n3,4,1\n");
    loads("source: csv, path: a.csv, features: [\"0\", \"1\"], target: \"2\", " LENGTH_1);
    cr_assert_eq(l.data.positions, 2);
    cr_assert(ts_load_noted(&l, "no header"));
    file("a.csv", "1,2,0\n3,4,1\n5,6,0\n");
    loads("source: csv, path: a.csv, header: true, features: [\"1\"], target: \"0\", " LENGTH_1);
    cr_assert_eq(l.data.positions, 2);
}

#define PLAIN "source: csv, path: a.csv, features: x, target: y, " LENGTH_1

Test(csv, numbers_are_plain_decimals)
{
    static const char *const bad[] = {"inf",  "-Infinity", "0x10", "1e999", "1_000",
                                      "1e39", "1 2",       "--1",  "abc",   "1.2.3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[64];
        snprintf(text, sizeof text, "y,x\n0,1\n1,%s\n", bad[i]);
        file("a.csv", text);
        refuses(PLAIN, "a.csv:3:3", bad[i]);
    }
    file("a.csv", "y,x\n0, 1.5\n1,1.5 \n1,+1.5\n1,15e-1\n");
    loads(PLAIN);
    for (int i = 0; i < 4; i++) cr_assert_eq(ts_load_value(&l, i, 0), 1.5);
}

Test(csv, quotes)
{
    file("a.csv", "y,x,\"a \"\"name\"\"\"\n\"one\ntwo\",1,\"z\"\n\"o\"\"n\",\"2\",\n");
    loads(PLAIN);
    cr_assert_str_eq(l.data.class_names[0], "o\"n");
    cr_assert_str_eq(l.data.class_names[1], "one\ntwo");
    file("a.csv", "y,x\n0,1\na\"b,2\n");
    refuses(PLAIN, "a.csv:3:2", "quote");
    file("a.csv", "y,x\n0,1\n\"ab\"c,2\n");
    refuses(PLAIN, "a.csv:3:5", "quote");
    file("a.csv", "y,x\n0,1\n1,\"2\n3,4\n");
    refuses(PLAIN, "a.csv:3", "never closed");
    /* The line of an error is right behind a field that has lines of its own. */
    file("a.csv", "y,x\n\"a\nb\nc\",1\nd,oops\n");
    refuses(PLAIN, "a.csv:5:3", "oops");
}

Test(csv, files_that_are_none)
{
    char path[256];
    file("a.csv", "");
    cr_assert_eq(ts_write_file(ts_join(path, sizeof path, l.folder, "a.csv"), "", 0), true);
    refuses(PLAIN, "a.csv: is empty", NULL);
    file("a.csv", "x,y\n");
    refuses(PLAIN, "a.csv", "no rows");
    file("a.csv", "\n\n\n");
    refuses(PLAIN, "a.csv", "blank");
    unlink(path);
    refuses(PLAIN, "a.csv", "No such file");
    mkdir(path, 0700);
    refuses(PLAIN, "a.csv", "a directory");
    rmdir(path);
    mkfifo(path, 0700);
    refuses(PLAIN, "a.csv", "a FIFO");
    unlink(path);
    refuses("source: csv, path: /dev/zero, features: x, target: y, " LENGTH_1, "/dev/zero", "a device");
    file("a.csv", "x,y\n1,2\n");
    chmod(path, 0);
    if (geteuid() != 0) refuses(PLAIN, "a.csv", "Permission");
    chmod(path, 0600);
    cr_assert(ts_write_file(path, "\xff\xfex\0,\0y\0", 8));
    refuses(PLAIN, "a.csv", "UTF-16");
    cr_assert(ts_write_file(path, "x,y\0\n", 5));
    refuses(PLAIN, "a.csv", "zero byte");
    file("a.csv", "x,y\xc3\x28\n1,2\n");
    refuses(PLAIN, "a.csv:1:3", "UTF-8");
    file("a.csv", "x,y\n1,\xc3\x28\n2,b\n");
    refuses(PLAIN, "a.csv:2:3", "UTF-8");
}

Test(csv, sizes_are_capped)
{
    size_t size = 3 << 20;
    char *text = malloc(size + 64);
    memset(text, '7', size);
    memcpy(text, "x,y\n1,", 6);
    memcpy(text + size, "\n2,3\n", 5);
    cr_assert(ts_loading_file(&l, "a.csv", text, size + 5));
    refuses(PLAIN, "a.csv:2", "1 MiB");
    text[6] = '"';
    cr_assert(ts_loading_file(&l, "a.csv", text, size + 5));
    refuses(PLAIN, "a.csv:2", NULL);
    for (size_t i = 0; i < size; i++) text[i] = ',';
    cr_assert(ts_loading_file(&l, "a.csv", text, size));
    refuses(PLAIN, "a.csv:1", "65536 columns");
    free(text);
}

Test(csv, blank_lines)
{
    file("a.csv", "x,y\n1,0\n\n\n2,1\n\n");
    loads(PLAIN);
    cr_assert_eq(l.data.positions, 2);
    cr_assert(ts_load_noted(&l, "2 blank lines"));
    file("a.csv", "x\n1\n\n2\n");
    refuses("source: csv, path: a.csv, features: x, target: x, " LENGTH_1, "a.csv:3", "blank");
}

Test(csv, wrapped_records_carry_their_head)
{
    file("a.csv", "r,x,y,w\na,1,0,1\na,2,1,2\na,3,0,3\nb,4,1,4\n");
    l.longest = 6;
    cr_assert_eq(ts_load(&l,
                         "source: csv, path: a.csv, record: r, features: x, target: y, weight: w, "
                         "mask: {column: y, keep: 1}, window: {length: 6, edge: wrap, label: any}",
                         "categorical_crossentropy"),
                 0);
    static const float values[] = {1, 2, 3, 1, 2, 3, 1, 2, 4, 4, 4, 4, 4, 4};
    static const int64_t starts[] = {0, 8, 14};
    cr_assert_eq(l.data.head, 5);
    cr_assert_arr_eq(l.data.starts, starts, sizeof starts);
    cr_assert_arr_eq(l.data.values, values, sizeof values);
    cr_assert_arr_eq(l.data.weights, values, sizeof values);
    cr_assert_eq(fm_dataset_record_length(&l.data, 0), 3);
    for (int i = 0; i < 14; i++) {
        cr_assert_eq(fm_packed_get(&l.data.classes, i), values[i] == 2 || values[i] == 4);
        cr_assert_eq(l.data.mask[0] >> i & 1, values[i] == 2 || values[i] == 4);
    }
}

Test(csv, stamps_tell_changed_files)
{
    char path[256], which[256];
    file("a.csv", "x,y\n1,0\n2,1\n");
    loads(PLAIN);
    cr_assert_eq(l.data.nfiles, 1);
    cr_assert_eq(fm_stamps_unchanged(l.data.files, 1, which, sizeof which, NULL), 1);
    ts_join(path, sizeof path, l.folder, "a.csv");
    struct fm_file_stamp stamp = {.path = path};
    cr_assert_eq(fm_stamp_read(&stamp, NULL), 0);
    cr_assert_eq(stamp.hash, l.data.files[0].hash);
    file("b.csv", "x,y\n1,0\n2,1\n");
    char other[256];
    cr_assert_eq(rename(ts_join(other, sizeof other, l.folder, "b.csv"), path), 0);
    cr_assert_eq(fm_stamps_unchanged(l.data.files, 1, which, sizeof which, NULL), 1,
                 "same content, another inode");
    file("b.csv", "x,y\n1,0\n3,1\n");
    cr_assert_eq(rename(other, path), 0);
    cr_assert_eq(fm_stamps_unchanged(l.data.files, 1, which, sizeof which, NULL), 0);
    cr_assert(strstr(which, "a.csv"));
    unlink(path);
    cr_assert_eq(fm_stamps_unchanged(l.data.files, 1, which, sizeof which, NULL), 0);
}

/* Every line with quotes goes through libcsv, every other is cut in the buffer: both must say the same. */
Test(csv, both_ways_to_cut_a_line_agree)
{
    uint64_t seed = 1, hash[2];
    for (int round = 0; round < 20; round++) {
        for (int quoted = 0; quoted < 2; quoted++) {
            char text[8192];
            size_t used = (size_t)sprintf(text, "x,y,z\n");
            uint64_t s = seed;
            for (int row = 0; row < 60; row++) {
                s = s * 6364136223846793005u + 1442695040888963407u;
                const char *q = quoted && s >> 60 & 1 ? "\"" : "", *end = s >> 61 & 1 ? "\r\n" : "\n";
                used += (size_t)sprintf(text + used, "%s%d.%d%s,%s%d%s,%s%s%s%s", q, (int)(s >> 40 & 255),
                                        (int)(s >> 30 & 255), q, q, row % 3, q, q, s >> 50 & 1 ? " a b " : "",
                                        q, end);
            }
            cr_assert(ts_loading_file(&l, "a.csv", text, used));
            loads("source: csv, path: a.csv, features: x, target: y, weight: x, " LENGTH_1);
            hash[quoted] = l.data.hash;
        }
        cr_assert_eq(hash[0], hash[1], "round %d", round);
        seed += 17;
    }
}
