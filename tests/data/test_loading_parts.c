/* The pieces that loading is made of, each against something slow and plain; and what happens without memory.
 */
#include "base/memory.h"
#include "base/random.h"
#include "data/csv.h"
#include "data/median.h"
#include "data/names.h"
#include "data/pattern.h"
#include "data/steps.h"
#include "data/time.h"
#include "support/allocation.h"
#include "support/loading.h"
#include "support/support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

TestSuite(loading_parts);

/* ---- medians ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double stream_median(const double *values, int n, size_t limit, int *passes)
{
    struct fm_median m;
    int more = 1;
    fm_median_init(&m, limit);
    for (*passes = 0; more == 1; ++*passes) {
        for (int i = 0; i < n; i++) cr_assert_eq(fm_median_add(&m, values[i]), 0);
        more = fm_median_end_pass(&m);
        cr_assert(more >= 0);
    }
    double median = fm_median_value(&m);
    fm_median_fini(&m);
    return median;
}

Test(loading_parts, medians_of_few_and_of_many_values)
{
    static double values[3000], sorted[3000];
    for (uint32_t round = 0; round < 60; round++) {
        int n = 1 + (int)(round * 47 % 2999), passes, few = round % 3 == 0;
        for (int i = 0; i < n; i++) {
            uint32_t bits[4], counter[4] = {round, (uint32_t)i, 0, 0};
            double normal[2];
            fm_philox(counter, 7, bits);
            fm_normal(bits, normal);
            values[i] = few ? 1 + bits[0] % 5 : 1e-300 + normal[0] * normal[0] * (round % 2 ? 1e200 : 1);
        }
        memcpy(sorted, values, (size_t)n * sizeof *values);
        qsort(sorted, (size_t)n, sizeof *sorted, by_value);
        double low = sorted[(n - 1) / 2], right = low + (sorted[n / 2] - low) / 2;
        cr_assert_eq(stream_median(values, n, 10000, &passes), right);
        cr_assert_eq(passes, 1);
        cr_assert_eq(stream_median(values, n, 16, &passes), right, "round %u", round);
        cr_assert_eq(passes, few || n <= 16 ? 1 : 5);
    }
    int passes;
    cr_assert_eq(stream_median(values, 0, 16, &passes), 0);
}

Test(loading_parts, steps_are_measured_within_records)
{
    struct ts_loading l;
    struct fm_file_list files;
    cr_assert(ts_loading_init(&l));
    ts_loading_file(&l, "a.csv",
                    "t,r,x,y\n0,a,1,0\n2,a,1,1\n4,a,1,0\n100,b,1,0\n103,b,1,1\n50,b,1,0\n53.5,b,1,0\n", 0);
    cr_assert_eq(
        ts_load(&l,
                "source: csv, path: a.csv, time: t, record: r, disorder: split, gap: 9, features: x, "
                "target: y, window: {length: 1}",
                "categorical_crossentropy"),
        0);
    cr_assert_eq(fm_file_list_init(&files, &l.sweep.data, NULL), 0);
    for (size_t limit = 1; limit < 4; limit++) {
        double median = 0;
        cr_assert_eq(fm_csv_median_step(&files, &l.sweep.data, limit, &median, NULL), 0);
        cr_assert_eq(median, 2.5, "steps 2 2 3 3.5, limit %zu", limit);
    }
    fm_file_list_fini(&files);
    ts_loading_fini(&l);
}

/* ---- names ---- */

Test(loading_parts, names_are_numbered_and_ranked)
{
    struct fm_names names = {0};
    uint32_t number, rank[5000], first[5000];
    size_t distinct;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 5000; i++) {
            char text[16];
            int n = snprintf(text, sizeof text, "%u", i * 7919 % 100003);
            cr_assert_eq(fm_names_add(&names, text, (size_t)n, &number), 0);
            cr_assert_eq(number, i);
        }
    }
    cr_assert_eq(names.count, 5000);
    cr_assert_not(fm_names_find(&names, "no", 2, &number));
    cr_assert_eq(fm_names_rank(&names, true, rank, first, &distinct), 0);
    cr_assert_eq(distinct, 5000);
    for (size_t i = 0; i < 4999; i++)
        cr_assert_lt(atoi(names.text[first[i]]), atoi(names.text[first[i + 1]]));
    cr_assert_eq(fm_names_rank(&names, false, rank, first, &distinct), 0);
    for (size_t i = 0; i < 4999; i++) cr_assert_lt(strcmp(names.text[first[i]], names.text[first[i + 1]]), 0);
    for (size_t i = 0; i < 5000; i++) cr_assert_eq(first[rank[i]], i);
    fm_names_fini(&names);
}

/* ---- patterns ---- */

static const char *matched(const char *pattern, const char *path, char *buffer, size_t size)
{
    struct fm_pattern p;
    struct fm_node node = {.kind = FM_SCALAR, .file = "f"};
    struct fm_span_text value[FM_PATTERN_NAMES];
    if (fm_pattern_init(&p, pattern, &node, NULL) != 0) return "bad";
    if (!fm_pattern_match(&p, path, value)) return "no";
    size_t used = (size_t)snprintf(buffer, size, "yes");
    for (size_t i = 0; i < p.names; i++) {
        used += (size_t)snprintf(buffer + used, size - used, " %.*s=%.*s", (int)p.name[i].size,
                                 p.name[i].text, (int)value[i].size, value[i].text);
    }
    return buffer;
}

Test(loading_parts, patterns)
{
    static const char *const cases[][3] = {
        {"a*.csv", "abc.csv", "yes"},
        {"a*.csv", "a/b.csv", "no"},
        {"a?c", "abc", "yes"},
        {"[a-c]x", "bx", "yes"},
        {"[!a-c]x", "bx", "no"},
        {"[]]", "]", "yes"},
        {"{s}/{d}.csv", "p1/day2.csv", "yes s=p1 d=day2"},
        {"{a}_{b}", "x_y_z", "yes a=x_y b=z"},
        {"{a}*", "xyz", "yes a=xyz"},
        {"{a}.csv", "x/y.csv", "no"},
        {"{a}{a}", "xx", "bad"},
        {"{file}", "x", "bad"},
        {"{}", "x", "bad"},
        {"{a", "x", "bad"},
        {"a\\*b", "a*b", "yes"},
        {"[ab", "[ab", "yes"},
        {"*a*a*a*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "no"},
    };
    char buffer[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_str_eq(matched(cases[i][0], cases[i][1], buffer, sizeof buffer), cases[i][2], "%s on %s",
                         cases[i][0], cases[i][1]);
    }
}

/* ---- dates ---- */

Test(loading_parts, dates_are_those_of_the_calendar)
{
    struct fm_time_reader reader = {.decimal = '.'};
    double time;
    cr_assert_null(fm_time_read(&reader, "1970-01-01", 10, &time));
    for (int64_t seconds = -60000000000; seconds < 250000000000; seconds += 86400 * 3 + 12345) {
        char text[64];
        time_t t = (time_t)seconds;
        struct tm tm;
        gmtime_r(&t, &tm);
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
        if (tm.tm_year + 1900 < 1000 || tm.tm_year + 1900 > 9999) continue;
        cr_assert_null(fm_time_read(&reader, text, strlen(text), &time), "%s", text);
        cr_assert_eq(time, (double)seconds, "%s", text);
    }
}

/* ---- memory ---- */

/* Every allocation fails in turn; nothing crashes, all say so, and nothing is left behind (the sanitizers
 * tell). */
static void without_memory(struct ts_loading *l, const char *data, const char *loss, const char *cv)
{
    char text[512];
    cr_assert_eq(ts_load_cv(l, data, loss, cv), 0, "%s", ts_load_error(l, text, sizeof text));
    uint64_t hash = l->data.hash;
    fm_dataset_fini(&l->data);
    struct fm_dataset_needs needs = {.numbers = strcmp(loss, "mse") == 0,
                                     .distribution = true,
                                     .time = true,
                                     .fold_column = l->sweep.cv.column,
                                     .longest_window = 3};
    long n = 1, last = 0;
    for (;; n++) {
        struct fm_error err = {0};
        struct fm_notes notes = {0};
        ts_fail_allocation(n, false);
        int rc = fm_dataset_load(&l->data, &l->sweep.data, &needs, &notes, &err);
        last = ts_allocations();
        ts_fail_allocation(0, false);
        fm_notes_fini(&notes);
        if (rc == 0) {
            /* A note that found no memory is dropped and fails nothing. */
            if (last < n) break;
            fm_dataset_fini(&l->data);
            continue;
        }
        cr_assert_eq(rc, FM_ENOMEM, "allocation %ld: %d %s", n, rc, err.text);
    }
    cr_assert_gt(n, 20);
    (void)hash;
}

Test(loading_parts, no_allocation_is_taken_for_granted)
{
    struct ts_loading l;
    static const float x[] = {1, 2, 3, 4, 5, 6};
    char bytes[512] = "\x93NUMPY\x01";
    const char *header = "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}";
    cr_assert(ts_loading_init(&l));
    bytes[8] = (char)strlen(header);
    memcpy(bytes + 10, header, strlen(header));
    memcpy(bytes + 10 + strlen(header), x, sizeof x);
    ts_loading_file(&l, "x.npy", bytes, 10 + strlen(header) + sizeof x);
    ts_loading_file(
        &l, "p_1.csv",
        "t,r,x,z,y,w,f,m\n0,\"a\",1,1,0,1,0,1\n1,a,,2,1,1,1,1\n2,a,3,2,1,1,1,1\n3,a,3,NA,1,1,1,1\n"
        "9,b,3,3,0,1,-1,0,\n",
        0);
    ts_loading_file(&l, "p_2.csv", "t,r,x,z,y,w,f,m\n0,a,1,2,c,1,0,1\n1,a,2,2,1,1,1,1\n\n1,b,3,3,0,1,-1,0\n",
                    0);
    ts_loading_file(&l, "s.csv", "s,t,id,w,f\nABX,HEC,1,2,0\n\"BA\",HH,1,1,1\n", 0);
    l.longest = 3;
    without_memory(&l,
                   "source: csv, path: \"{p}_*.csv\", time: t, gap: 5, disorder: split, record: r, group: p, "
                   "features: all, "
                   "target: y, weight: w, missing: {x: interpolate, z: drop}, mask: {column: m, keep: 1}, "
                   "window: {length: 3, label: any, edge: wrap}",
                   "categorical_crossentropy", "split: predefined, column: f");
    without_memory(
        &l,
        "source: sequences, path: s.csv, record: id, sequence: {column: s, alphabet: AB}, weight: w, "
        "target: {column: t, classes: HEC}, window: {length: 3, edge: wrap}",
        "categorical_crossentropy", "split: predefined, column: f");
    without_memory(&l,
                   "source: npy, x: x.npy, y: x.npy, weight: x.npy, group: x.npy, fold: x.npy, "
                   "window: {length: 2, label: last, edge: wrap}",
                   "mse", "split: predefined");
    without_memory(&l, "source: npy, x: x.npy, y: x.npy, window: {length: 2, label: last}",
                   "categorical_crossentropy", "split: kfold");
    ts_loading_fini(&l);
}

static long peak_kilobytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* A row of text takes far more than the five bytes that its position may take. */
Test(loading_parts, memory_is_that_of_the_series)
{
    enum { ROWS = 1500000 };
    struct ts_loading l;
    char path[256];
    cr_assert(ts_loading_init(&l));
    FILE *f = fopen(ts_join(path, sizeof path, l.folder, "a.csv"), "w");
    cr_assert(f);
    fprintf(f, "t,x,y\n");
    for (int i = 0; i < ROWS; i++) fprintf(f, "%d,%d.%06d,%d\n", i, i % 977, i % 999983, i % 100 == 0);
    fclose(f);
    long before = peak_kilobytes();
    cr_assert_eq(
        ts_load(&l,
                "source: csv, path: a.csv, time: t, features: x, target: y, window: {length: 9, label: any}",
                "categorical_crossentropy"),
        0);
    long grown = peak_kilobytes() - before;
    cr_assert_eq(l.data.positions, ROWS);
    cr_assert_lt(fm_dataset_bytes(&l.data), ROWS * 42 / 10);
#if !defined(__SANITIZE_ADDRESS__)
    cr_assert_lt(grown, ROWS * 5 / 1000 + 8000, "%ld kB", grown);
#endif
    ts_loading_fini(&l);
}
