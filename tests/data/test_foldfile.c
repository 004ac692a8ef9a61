/* Folds from a file: by record and by example, and everything that can be wrong with such a file. */
#include "base/log.h"
#include "base/memory.h"
#include "config/sweep.h"
#include "data/split.h"
#include "support/allocation.h"
#include "support/loading.h"
#include "support/series.h"
#include "support/support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Five records of two rows; the last one comes back, so it is a#2. */
static const char rows[] = "id,x,y\na,1,0\na,2,1\nb,3,0\nb,4,1\nc,5,0\nc,6,1\n7,7,0\n7,8,1\na,9,0\na,10,1\n";

struct loaded {
    struct ts_loading l;
    struct fm_examples examples;
    struct fm_view view;
    struct fm_split split;
};

static void load(struct loaded *s)
{
    int64_t length = 1;
    *s = (struct loaded){0};
    cr_assert(ts_loading_init(&s->l));
    cr_assert(ts_loading_file(&s->l, "d.csv", rows, 0));
    cr_assert(ts_loading_file(&s->l, "f.csv", "record,fold\na,0\n", 0));
    cr_assert_eq(
        ts_load_cv(&s->l,
                   "source: csv, path: d.csv, record: id, features: [x], target: y, window: {length: 1}",
                   "categorical_crossentropy", "split: predefined, file: f.csv"),
        0, "%s", s->l.err.text);
    struct ts_loading *l = &s->l;
    cr_assert_eq(fm_examples_init(&s->examples, &l->data, &l->sweep.data, &length, 1, &l->notes, &l->err), 0);
    cr_assert_eq(fm_view_init(&s->view, &l->data, &s->examples, &l->sweep.data, 1, &l->notes, &l->err), 0);
}

static int split_by(struct loaded *s, const char *text, size_t size)
{
    struct ts_loading *l = &s->l;
    fm_error_clear(&l->err);
    cr_assert(ts_loading_file(l, "f.csv", text, size));
    return fm_split_init(&s->split, &l->sweep.cv, &l->sweep.data, &s->view, 0, &l->notes, &l->err);
}

static void unload(struct loaded *s)
{
    fm_view_fini(&s->view);
    fm_examples_fini(&s->examples);
    ts_loading_fini(&s->l);
}

static void expect(const struct fm_indexset *set, const char *wanted)
{
    char got[256] = "";
    struct fm_cursor cursor = {0};
    int64_t member;
    while (fm_indexset_next(set, &cursor, &member))
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%lld", *got ? " " : "", (long long)member);
    cr_assert_str_eq(got, wanted);
}

Test(foldfile, by_record)
{
    struct loaded s;
    load(&s);
    /* Numbers by value; an id is text; one that came back goes with its first part. */
    cr_assert_eq(split_by(&s, "\xEF\xBB\xBF\"record\",fold\r\n\"7\",10\r\nb,2\r\nc,-1\r\na,2.0", 0), 0, "%s",
                 s.l.err.text);
    cr_assert_eq(s.split.folds, 2);
    cr_assert_eq(s.split.repeats, 1);
    cr_assert_str_eq(s.split.fold[0].name, "2");
    cr_assert_str_eq(s.split.fold[1].name, "10");
    expect(&s.split.fold[0].val, "0 1 2 3 8 9");
    expect(&s.split.fold[0].train, "4 5 6 7");
    expect(&s.split.fold[1].val, "6 7");
    expect(&s.split.fold[1].train, "0 1 2 3 4 5 8 9");
    fm_split_fini(&s.split);
    /* Other columns, another delimiter, names that are not numbers: byte by byte. */
    cr_assert_eq(split_by(&s, "note;fold;record\n;z;a\n;Y;b\n\"x;y\";-1;7\n;z;c\n", 0), 0, "%s",
                 s.l.err.text);
    cr_assert_str_eq(s.split.fold[0].name, "Y");
    expect(&s.split.fold[0].val, "2 3");
    expect(&s.split.fold[1].val, "0 1 4 5 8 9");
    fm_split_fini(&s.split);
    unload(&s);
}

Test(foldfile, by_example)
{
    struct loaded s;
    load(&s);
    cr_assert_eq(split_by(&s, "example,fold\n9,0\n8,0\n0,1\n1,1\n2,-1\n3,-1\n4,-1\n5,-1\n6,0\n7,1\n\n", 0), 0,
                 "%s", s.l.err.text);
    expect(&s.split.fold[0].val, "6 8 9");
    expect(&s.split.fold[1].val, "0 1 7");
    expect(&s.split.fold[1].train, "2 3 4 5 6 8 9");
    fm_split_fini(&s.split);
    unload(&s);
}

Test(foldfile, what_is_wrong_is_named_with_its_line)
{
    static const struct {
        const char *text, *part;
        int64_t line;
    } bad[] = {
        {"record,fold\na,0\nbb,1\n", "no record 'bb'; did you mean 'b'", 3},
        {"record,fold\na,0\nb,1\na,1\n", "'a' is listed a second time", 4},
        {"record,fold\na,0\na#2,1\n", "'a#2' is listed a second time", 3},
        {"record,fold\na,0\nb,1\nc,1\n", "the record '7' is not listed", 0},
        {"record,fold\na,0\nb\n", "1 fields, but the header has 2", 3},
        {"record,fold\na,0\nb,\n", "the fold is empty", 3},
        {"record,fold\na,0\n,1\n", "the record is empty", 3},
        {"record,fold\n\"a,0\n", "never closed", 2},
        {"record,fold\na\"b,0\n", "a quote stands inside", 2},
        {"record,fold\n\"a\"b,0\n", "must follow a closing quote", 2},
        {"name,fold\na,0\n", "must name the columns", 1},
        {"record,fold\n", "no rows", 1},
        {"record,fold\na,-1\nb,-1\nc,-1\n7,-1\n", "always training", 0},
        {"record,fold\na,0\nb,0\nc,0\n7,0\n", "empty training part", 0},
        {"example,fold\n0,0\n10,1\n", "'10' is not an example: they are numbered 0..9", 3},
        {"example,fold\n0,0\n-1,1\n", "'-1' is not an example", 3},
        {"example,fold\n0,0\n1,1\n0,1\n", "the example 0 is listed a second time", 4},
        {"example,fold\n0,0\n1,1\n", "the example 2 is not listed", 0},
    };
    struct loaded s;
    load(&s);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int status = split_by(&s, bad[i].text, 0);
        cr_assert_eq(status, FM_EFILE, "case %zu", i);
        cr_assert(strstr(s.l.err.text, bad[i].part), "case %zu: %s", i, s.l.err.text);
        if (bad[i].line > 0) {
            cr_assert_eq(s.l.err.line, bad[i].line, "case %zu: line %lld", i, (long long)s.l.err.line);
            cr_assert(strstr(s.l.err.file, "f.csv"));
        }
    }
    cr_assert_eq(split_by(&s, "record,fold\na,0\0b", 18), FM_EFILE);
    cr_assert(strstr(s.l.err.text, "zero byte"), "%s", s.l.err.text);
    unload(&s);
}

Test(foldfile, what_is_not_a_file_is_refused, .timeout = 10)
{
    struct loaded s;
    char path[128];
    load(&s);
    ts_join(path, sizeof path, s.l.folder, "f.csv");
    remove(path);
    fm_error_clear(&s.l.err);
    cr_assert_eq(fm_split_init(&s.split, &s.l.sweep.cv, &s.l.sweep.data, &s.view, 0, &s.l.notes, &s.l.err),
                 FM_EFILE);
    cr_assert(strstr(s.l.err.text, "cannot open the fold file"), "%s", s.l.err.text);
    for (int fifo = 0; fifo <= 1; fifo++) {
        cr_assert_eq(fifo ? mkfifo(path, 0600) : mkdir(path, 0700), 0);
        fm_error_clear(&s.l.err);
        cr_assert_eq(
            fm_split_init(&s.split, &s.l.sweep.cv, &s.l.sweep.data, &s.view, 0, &s.l.notes, &s.l.err),
            FM_EFILE);
        cr_assert(strstr(s.l.err.text, "not a plain file"), "%s", s.l.err.text);
        remove(path);
    }
    unload(&s);
}

/* Bytes that were changed at random are read or refused, never a crash (sanitizers watch). */
Test(foldfile, damaged_files)
{
    static const char good[] = "record,fold\r\n\"a\",0\nb,1\nc,-1\n7,2\n";
    static const char bytes[] = "\",\n\r;\t-10ab\xFF";
    struct ts_random random = {.state = 77};
    struct loaded s;
    load(&s);
    for (int round = 0; round < 400; round++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (uint32_t k = 0; k <= ts_random_below(&random, 4); k++)
            text[ts_random_below(&random, sizeof good - 1)] =
                bytes[ts_random_below(&random, sizeof bytes - 1)];
        int status = split_by(&s, text, 1 + ts_random_below(&random, sizeof good - 1));
        cr_assert(status == 0 || status == FM_EFILE);
        if (status == 0) fm_split_fini(&s.split);
    }
    unload(&s);
}

/* Every allocation of a split fails once: an error each time, nothing kept (sanitizers watch). */
static void fail_each(struct loaded *s, struct fm_cv_config cv)
{
    struct ts_loading *l = &s->l;
    int64_t length = 1;
    long n = 1, asked;
    do {
        int status;
        struct fm_examples examples;
        struct fm_view view;
        struct fm_error err = {0};
        ts_fail_allocation(n, n % 2 == 0);
        status = fm_examples_init(&examples, &l->data, &l->sweep.data, &length, 1, NULL, &err);
        if (status == 0) {
            status = fm_view_init(&view, &l->data, &examples, &l->sweep.data, 1, NULL, &err);
            if (status == 0) {
                status = fm_split_init(&s->split, &cv, &l->sweep.data, &view, 0, NULL, &err);
                if (status == 0) fm_split_fini(&s->split);
                fm_view_fini(&view);
            }
            fm_examples_fini(&examples);
        }
        asked = ts_allocations();
        ts_fail_allocation(0, false);
        cr_assert(asked < n ? status == 0 : status == FM_ENOMEM || status == 0, "allocation %ld: %d %s", n,
                  status, err.text);
        cr_assert_lt(n, 2000);
    } while (asked >= n++);
    cr_assert_gt(n, 10);
}

Test(foldfile, every_allocation_may_fail)
{
    struct loaded s;
    load(&s);
    cr_assert_eq(split_by(&s, "record,fold\na,0\nb,1\nc,-1\n7,2\n", 0), 0);
    fm_split_fini(&s.split);
    s.l.sweep.data.scale = FM_SCALE_ROBUST;
    s.l.data.time = fm_malloc(10, sizeof(double));
    for (int i = 0; i < 10; i++) s.l.data.time[i] = i * 7 % 10;
    for (int kind = FM_SPLIT_KFOLD; kind <= FM_SPLIT_PREDEFINED; kind++) {
        struct fm_cv_config cv = s.l.sweep.cv;
        cv.split = (enum fm_split_kind)kind;
        cv.shuffle = kind <= FM_SPLIT_STRATIFIED_GROUP || kind == FM_SPLIT_HOLDOUT;
        cv.folds = 2;
        cv.blocks = kind == FM_SPLIT_BLOCKED ? 4 : 0;
        cv.purge = kind != FM_SPLIT_KFOLD;
        cv.has_inner = kind == FM_SPLIT_KFOLD || kind == FM_SPLIT_BLOCKED;
        cv.inner_test_size = 0.5;
        fail_each(&s, cv);
    }
    unload(&s);
}
