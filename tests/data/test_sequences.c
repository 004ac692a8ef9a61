/* Sequences: one row a record, one character a position. */
#include "support/loading.h"
#include "support/support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct ts_loading l;

static void set_up(void)
{
    cr_assert(ts_loading_init(&l));
}

static void tear_down(void)
{
    ts_loading_fini(&l);
}

TestSuite(sequences, .init = set_up, .fini = tear_down);

static void refuses(const char *data, const char *a, const char *b)
{
    char text[2048];
    int rc = ts_load(&l, data, "sparse_categorical_crossentropy");
    ts_load_error(&l, text, sizeof text);
    cr_assert_eq(rc, FM_EFILE, "code %d: %s", rc, text);
    cr_assert(strstr(text, a), "'%s' is not in: %s", a, text);
    cr_assert(!b || strstr(text, b), "'%s' is not in: %s", b, text);
}

static void loads(const char *data)
{
    char text[1024];
    cr_assert_eq(ts_load(&l, data, "sparse_categorical_crossentropy"), 0, "%s",
                 ts_load_error(&l, text, sizeof text));
}

Test(sequences, cb513)
{
    if (!ts_loading_shared(&l, "data", "cb513.csv")) cr_skip("../shared is absent");
    loads("source: sequences, path: cb513.csv, record: chain, group: seq, "
          "sequence: {column: seq, alphabet: ACDEFGHIKLMNPQRSTVWY}, target: {column: ss3, classes: HEC}, "
          "mask: {column: mask, keep: \"1\"}, window: {length: 17, align: center}");
    int64_t scored = 0;
    for (int64_t i = 0; i < l.data.positions; i++) scored += l.data.mask[i / 64] >> i % 64 & 1;
    cr_assert_eq(l.data.nrecords, 511);
    cr_assert_eq(l.data.positions, 144011);
    cr_assert_eq(scored, 83427);
    cr_assert_eq(l.data.ngroups, 511 - 139 + 60);
    cr_assert_eq(l.data.alphabet, 20);
    cr_assert_eq(l.data.channels, 0);
    cr_assert_null(l.data.values);
    /* Letters and labels of the first chain: RTDCYGNV... and CCCCCCCHHH... */
    static const uint8_t letters[] = {14, 16, 2, 1, 19, 5, 11, 17};
    cr_assert_arr_eq(l.data.letters, letters, sizeof letters);
    for (int i = 0; i < 10; i++) cr_assert_eq(fm_packed_get(&l.data.classes, i), i < 7 ? 2 : 0);
}

#define SMALL "source: sequences, path: a.csv, target: t, window: {length: 3}, "

Test(sequences, unknown_letters)
{
    cr_assert(ts_loading_file(&l, "a.csv", "id,s,t\np,ABXB,0110\nq,BA,01\np,a,1\n", 0));
    loads(SMALL "record: id, sequence: {column: s, alphabet: AB}");
    static const uint8_t zero[] = {0, 1, FM_NO_LETTER, 1, 1, 0, FM_NO_LETTER};
    cr_assert_eq(l.data.positions, 7);
    cr_assert_arr_eq(l.data.letters, zero, sizeof zero);
    cr_assert_eq(l.data.unknown_letters, 2);
    cr_assert(ts_load_noted(&l, "2 letters are not in the alphabet (the first is 'X' in line 2)"));
    cr_assert_str_eq(l.data.record_ids[2], "p#2");
    cr_assert_eq(l.data.record_group[2], l.data.record_group[0]);
    cr_assert_eq(l.data.alphabet, 2);
    loads(SMALL "record: id, sequence: {column: s, alphabet: AB, unknown: letter}");
    static const uint8_t letter[] = {0, 1, 2, 1, 1, 0, 2};
    cr_assert_eq(l.data.alphabet, 3);
    cr_assert_arr_eq(l.data.letters, letter, sizeof letter);
    refuses(SMALL "record: id, sequence: {column: s, alphabet: AB, unknown: error}", "a.csv:2:3",
            "'X' at position 2");
    refuses(SMALL "sequence: {column: s, alphabet: ABA}", "'A' twice", NULL);
}

Test(sequences, blanks_and_letters_beyond_ascii)
{
    cr_assert(ts_loading_file(&l, "a.csv",
                              "s,t,m\nA\xc3\xa9"
                              "B,x y,110\n",
                              0));
    loads(SMALL "sequence: {column: s, alphabet: AB}, mask: {column: m, keep: 1}");
    static const uint8_t letters[] = {0, FM_NO_LETTER, 1};
    cr_assert_eq(l.data.positions, 3);
    cr_assert_arr_eq(l.data.letters, letters, sizeof letters);
    cr_assert_eq(l.data.nclasses, 3);
    cr_assert_str_eq(l.data.class_names[0], " ");
    cr_assert_eq(l.data.mask[0], 3);
    cr_assert_str_eq(l.data.record_ids[0], "a.csv");
}

Test(sequences, columns_must_be_as_long)
{
    cr_assert(ts_loading_file(&l, "a.csv", "s,t,m\nAB,01,11\nABA,01,111\n", 0));
    refuses(SMALL "sequence: {column: s, alphabet: AB}", "a.csv:3:5",
            "2 characters stand beside a sequence of 3");
    cr_assert(ts_loading_file(&l, "a.csv", "s,t,m\nAB,01,1\n", 0));
    refuses(SMALL "sequence: {column: s, alphabet: AB}, mask: {column: m, keep: 1}", "a.csv:2:7", "mask");
    cr_assert(ts_loading_file(&l, "a.csv", "s,t\n,\n", 0));
    refuses(SMALL "sequence: {column: s, alphabet: AB}", "a.csv:2:1", "empty");
    cr_assert(ts_loading_file(&l, "a.csv", "s,t\nAB,0x\n", 0));
    refuses("source: sequences, path: a.csv, target: {column: t, classes: \"01\"}, window: {length: 3}, "
            "sequence: {column: s, alphabet: AB}",
            "a.csv:2:4", "'x' at position 1");
    cr_assert(ts_loading_file(&l, "a.csv", "s,t\nAB,0\xff\n", 0));
    refuses(SMALL "sequence: {column: s, alphabet: AB}", "a.csv:2:4", "UTF-8");
}

Test(sequences, weights_and_folds_hold_for_the_row)
{
    cr_assert(ts_loading_file(&l, "a.csv", "id,s,t,w,f\np,AB,01,0.5,b\nq,BA,10,2,a\n", 0));
    cr_assert_eq(ts_load_cv(&l, SMALL "record: id, sequence: {column: s, alphabet: AB}, weight: w",
                            "sparse_categorical_crossentropy", "split: predefined, column: f"),
                 0);
    cr_assert(l.data.weights_per_record && l.data.fold_per_record);
    cr_assert_eq(l.data.weights[1], 2);
    cr_assert_eq(l.data.fold[0], 1);
    cr_assert_eq(l.data.fold[1], 0);
    cr_assert_str_eq(l.data.fold_names[0], "a");
    cr_assert_eq(ts_load(&l, SMALL "sequence: {column: s, alphabet: AB}", "mse"), 0);
    cr_assert_eq(l.data.target_values[1], 1);
}

/* Ids join exports with the user's own tables, so they must come out whole, however long they are. */
Test(sequences, long_ids_are_not_cut)
{
    char file[2000], id[701], number[24];
    memset(id, 'i', 700);
    id[700] = '\0';
    snprintf(file, sizeof file, "id,s,t\n%s,AB,01\n%s,BA,10\n", id, id);
    cr_assert(ts_loading_file(&l, "a.csv", file, 0));
    loads(SMALL "record: id, sequence: {column: s, alphabet: AB}");
    cr_assert_str_eq(fm_dataset_record_id(&l.data, 0, number, sizeof number), id);
    cr_assert_str_eq(fm_dataset_record_id(&l.data, 1, number, sizeof number) + 700, "#2");
}
