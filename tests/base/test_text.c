#include "base/text.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "support/allocation.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

Test(text, buffer_grows_and_stays_terminated)
{
    struct fm_text t = {0};
    size_t expected = 0;
    for (int i = 0; i < 2000; i++) {
        fm_text_add(&t, "%d,", i);
        expected += (size_t)snprintf(NULL, 0, "%d,", i);
        cr_assert(t.size == expected && t.data[t.size] == '\0');
    }
    fm_text_add_string(&t, "end");
    fm_text_add_bytes(&t, "\0x", 2);
    cr_assert(!t.failed && t.size == expected + 5 && memcmp(t.data + expected, "end\0x", 6) == 0);
    cr_assert_eq(strncmp(t.data, "0,1,2,3,", 8), 0);
    fm_text_fini(&t);
    cr_assert(t.data == NULL && t.size == 0);
    fm_text_add_bytes(&t, NULL, 0);
    cr_assert(t.data && t.data[0] == '\0', "an empty text is a text");
    fm_text_fini(&t);
}

Test(text, buffer_without_memory_fails_once_and_for_all)
{
    struct fm_text t = {0};
    fm_text_add_string(&t, "kept");
    ts_fail_allocation(1, false);
    fm_text_add(&t, "%100d", 1);
    ts_fail_allocation(0, false);
    fm_text_add_string(&t, "x");
    cr_assert(t.failed && t.size == 4 && strcmp(t.data, "kept") == 0);
    fm_text_fini(&t);
}

Test(text, nearest_word_is_found_or_none)
{
    static const char *const names[] = {"filters", "kernel_size", "strides",   "padding",
                                        "epochs",  "l1",          "batch_size"};
    static const struct {
        const char *word, *nearest;
    } known[] = {{"filter", "filters"},
                 {"filetrs", "filters"},
                 {"FILTERS", "filters"},
                 {"kernelsize", "kernel_size"},
                 {"kernal_sise", "kernel_size"},
                 {"stride", "strides"},
                 {"epoch", "epochs"},
                 {"ecpohs", "epochs"},
                 {"l2", "l1"},
                 {"batchsize", "batch_size"},
                 {"dilation", NULL},
                 {"x", NULL},
                 {"", NULL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *found = fm_nearest(known[i].word, names, sizeof names / sizeof *names);
        if (known[i].nearest) {
            cr_assert(found && strcmp(found, known[i].nearest) == 0, "%s: %s", known[i].word,
                      found ? found : "none");
        } else {
            cr_assert_null(found, "%s: %s", known[i].word, found ? found : "none");
        }
    }
    char endless[5000];
    memset(endless, 'f', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    cr_assert_null(fm_nearest(endless, names, sizeof names / sizeof *names));
    cr_assert_null(fm_nearest("a", NULL, 0));
}

Test(text, utf8_is_judged_as_the_standard_says)
{
    static const struct {
        const char *bytes;
        int64_t at;
    } known[] = {{"", -1},
                 {"plain", -1},
                 {"\xc3\xa9", -1},
                 {"\xe2\x82\xac", -1},
                 {"\xf0\x9f\x98\x80", -1},
                 {"\xed\x9f\xbf", -1},
                 {"\xee\x80\x80", -1},
                 {"\xf4\x8f\xbf\xbf", -1},
                 {"\xef\xbb\xbf"
                  "bom",
                  -1},
                 {"ab\x80", 2},
                 {"\xc0\x80", 0},
                 {"\xc1\xbf", 0},
                 {"a\xe0\x9f\xbf", 1},
                 {"\xed\xa0\x80", 0},
                 {"\xed\xbf\xbf", 0},
                 {"\xf0\x8f\xbf\xbf", 0},
                 {"\xf4\x90\x80\x80", 0},
                 {"\xf5\x80\x80\x80", 0},
                 {"\xff", 0},
                 {"x\xfe", 1},
                 {"ok\xe2\x82", 2},
                 {"ok\xe2\x82z", 2},
                 {"\xc3", 0},
                 {"\xf0\x9f\x98", 0},
                 {"\x3a\x20\x0a\x25\xe1", 4}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        cr_assert_eq(fm_utf8_invalid(known[i].bytes, strlen(known[i].bytes)), known[i].at, "case %zu", i);
    }
    cr_assert_eq(fm_utf8_invalid("a\0b\xff", 4), 3, "a zero byte is a character like others");
}

/* Every character there is, made by the definition, is valid; its bytes cut short are not. */
Test(text, utf8_accepts_exactly_the_characters)
{
    for (uint32_t c = 0x80; c <= 0x110fff; c++) {
        char s[4];
        size_t n;
        if (c < 0x800) {
            n = 2;
            s[0] = (char)(0xc0 | c >> 6);
        } else if (c < 0x10000) {
            n = 3;
            s[0] = (char)(0xe0 | c >> 12);
        } else {
            n = 4;
            s[0] = (char)(0xf0 | c >> 18);
        }
        for (size_t i = 1; i < n; i++) s[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
        bool valid = c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff);
        cr_assert_eq(fm_utf8_invalid(s, n) == -1, valid, "U+%X", c);
        cr_assert_eq(fm_utf8_invalid(s, n - 1), 0, "U+%X cut", c);
    }
}

Test(text, messages_show_no_control_characters)
{
    char buffer[64], small[8];
    cr_assert_str_eq(fm_show("a\tb\x1b[31m\r\n", 10, buffer, sizeof buffer), "a?b?[31m??");
    cr_assert_str_eq(fm_show("\xc3\xa9\xff\xc2\x9b"
                             "1",
                             6, buffer, sizeof buffer),
                     "\xc3\xa9??1");
    cr_assert_str_eq(fm_show("1234567", 7, small, sizeof small), "1234567");
    cr_assert_str_eq(fm_show("12345678", 8, small, sizeof small), "1234...");
    cr_assert_str_eq(fm_show("123\xc3\xa9xyz", 8, small, sizeof small), "123...", "no half characters");
    cr_assert_str_eq(fm_show("abc", 3, small, 3), "..");
    cr_assert_str_eq(fm_show("abc", 3, small, 1), "");
    cr_assert_str_eq(fm_show("", 0, small, sizeof small), "");
    cr_assert_str_eq(fm_show("a", 1, small, 0), "");
}

/* Names come from files: in a message, an error or a note none of them may steer the terminal. */
Test(text, what_a_person_is_told_holds_no_control_characters)
{
    static const char wild[] = "a\x1b[31m\n\xc2\x9b"
                               "1\xff\xc3\xa9",
                      tame[] = "a?[31m??1?\xc3\xa9";
    char copy[sizeof wild], line[256];
    memcpy(copy, wild, sizeof wild);
    cr_assert_str_eq(fm_printable(copy), tame);
    struct fm_text text = {0};
    fm_text_add_string(&text, "\033[1m");
    fm_text_add_shown(&text, wild);
    fm_text_add_string(&text, ".");
    cr_assert(!text.failed);
    cr_assert_eq(text.size, 4 + strlen(tame) + 1);
    cr_assert_str_eq(text.data, "\033[1ma?[31m??1?\xc3\xa9.", "what stood before stays as it was");
    fm_text_fini(&text);
    struct fm_error err = {0};
    fm_fail_at(&err, FM_EFILE, "dir\x1b/x.csv", 3, 0, "the column '%s' is unknown", wild);
    cr_assert_str_eq(err.text, "the column 'a?[31m??1?\xc3\xa9' is unknown");
    cr_assert_str_eq(fm_error_print(&err, line, sizeof line),
                     "dir?/x.csv:3: the column 'a?[31m??1?\xc3\xa9' is unknown");
    struct fm_notes notes = {0};
    fm_note(&notes, FM_NOTE, "record %s", wild);
    cr_assert_str_eq(notes.text[0], "record a?[31m??1?\xc3\xa9");
    fm_notes_fini(&notes);
}

Test(error, the_first_error_is_kept)
{
    struct fm_error err = {0};
    char buffer[256];
    cr_assert_eq(fm_fail_at(&err, FM_EFILE, "s.yaml", 3, 7, "'%s' is unknown", "epoch"), FM_EFILE);
    cr_assert_eq(fm_fail(&err, FM_EIO, "later"), FM_EIO);
    cr_assert_eq(fm_fail_memory(&err), FM_ENOMEM);
    cr_assert_eq(err.code, FM_EFILE);
    cr_assert_str_eq(fm_error_print(&err, buffer, sizeof buffer), "s.yaml:3:7: 'epoch' is unknown");
    fm_error_clear(&err);
    cr_assert(err.code == 0 && err.line == 0 && !err.file[0] && !err.text[0]);
    errno = ENOENT;
    cr_assert_eq(fm_fail_errno(&err, "open", "no.csv"), FM_EIO);
    cr_assert_str_eq(fm_error_print(&err, buffer, sizeof buffer),
                     "cannot open no.csv: No such file or directory");
    cr_assert_eq(fm_fail(NULL, FM_EUSAGE, "nobody listens"), FM_EUSAGE);
    cr_assert_eq(fm_fail_at(NULL, FM_EUSAGE, "f", 1, 1, "nobody listens"), FM_EUSAGE);
}

Test(error, print_leaves_out_what_is_unknown)
{
    static const struct {
        const char *file;
        int64_t line, column;
        const char *printed;
    } known[] = {{"f", 2, 0, "f:2: t"}, {"f", 0, 0, "f: t"}, {NULL, 0, 0, "t"}, {"f", 2, 9, "f:2:9: t"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct fm_error err = {0};
        char buffer[64];
        fm_fail_at(&err, FM_EFILE, known[i].file, known[i].line, known[i].column, "t");
        cr_assert_str_eq(fm_error_print(&err, buffer, sizeof buffer), known[i].printed);
    }
}

Test(error, long_texts_and_paths_are_cut_where_it_hurts_least)
{
    struct fm_error err = {0};
    char longer[3000], buffer[20];
    for (size_t i = 0; i < sizeof longer - 2; i += 2) memcpy(longer + i, "\xc3\xa9", 2);
    longer[sizeof longer - 2] = 'z';
    longer[sizeof longer - 1] = '\0';
    fm_fail_at(&err, FM_EFILE, longer, 1, 1, "x%s", longer);
    cr_assert_eq(fm_utf8_invalid(err.text, strlen(err.text)), -1);
    cr_assert_eq(fm_utf8_invalid(err.file, strlen(err.file)), -1);
    cr_assert_str_eq(err.text + strlen(err.text) - 3, "...");
    cr_assert(strlen(err.text) >= sizeof err.text - 3);
    cr_assert(strncmp(err.file, "...", 3) == 0 && err.file[strlen(err.file) - 1] == 'z');
    fm_error_print(&err, buffer, sizeof buffer);
    cr_assert(strlen(buffer) < sizeof buffer && strcmp(buffer + strlen(buffer) - 3, "...") == 0);
    for (size_t size = 1; size < 8; size++) cr_assert(strlen(fm_error_print(&err, buffer, size)) < size);
}

Test(error, codes_have_the_exit_codes_of_the_contract)
{
    cr_assert_eq(fm_exit_code(FM_OK), 0);
    cr_assert_eq(fm_exit_code(FM_EFILE), 2);
    cr_assert_eq(fm_exit_code(FM_EBUSY), 75);
    cr_assert_eq(fm_exit_code(FM_EINTERRUPTED), 130);
    cr_assert_eq(fm_exit_code(FM_ETERMINATED), 75);
    cr_assert_eq(fm_exit_code(-999), 1);
}

Test(log, notes_are_kept_once_in_order)
{
    struct fm_notes notes = {0};
    for (int i = 0; i < 60; i++) fm_note(&notes, i % 2 ? FM_WARNING : FM_NOTE, "note %d", i % 30);
    cr_assert_eq(notes.count, 30);
    cr_assert_str_eq(notes.text[17], "note 17");
    cr_assert(notes.level[17] == FM_WARNING && notes.level[18] == FM_NOTE);
    fm_note(NULL, FM_NOTE, "nobody listens");
    fm_notes_fini(&notes);
    for (long n = 1; n <= 3; n++) {
        ts_fail_allocation(n, true);
        fm_note(&notes, FM_NOTE, "dropped");
        ts_fail_allocation(0, false);
        cr_assert_eq(notes.count, 0);
    }
    fm_note(&notes, FM_NOTE, "kept");
    cr_assert_eq(notes.count, 1);
    fm_notes_fini(&notes);
}

Test(memory, sizes_that_overflow_give_null)
{
    char *p = fm_malloc(0, 8);
    cr_assert_not_null(p);
    cr_assert_null(fm_malloc(SIZE_MAX / 2, 3));
    cr_assert_null(fm_malloc(SIZE_MAX, 1));
    cr_assert_null(fm_calloc((size_t)1 << 33, (size_t)1 << 33));
    cr_assert_null(fm_realloc(p, SIZE_MAX / 4, 8));
    p = fm_realloc(p, 0, 8);
    cr_assert_not_null(p);
    fm_free(p);
    fm_free(NULL);
    cr_assert_null(fm_strdup(NULL));
}

Test(memory, growing_keeps_items_and_survives_failure)
{
    int64_t *items = NULL;
    size_t capacity = 0;
    cr_assert_eq(fm_grow(&items, &capacity, 1, sizeof *items), 0);
    cr_assert_eq(capacity, 16);
    items[15] = 7;
    cr_assert_eq(fm_grow(&items, &capacity, 17, sizeof *items), 0);
    cr_assert(capacity == 24 && items[15] == 7);
    cr_assert_eq(fm_grow(&items, &capacity, SIZE_MAX / 2, sizeof *items), FM_ENOMEM);
    ts_fail_allocation(1, false);
    cr_assert_eq(fm_grow(&items, &capacity, 25, sizeof *items), FM_ENOMEM);
    ts_fail_allocation(0, false);
    cr_assert(capacity == 24 && items[15] == 7);
    fm_free(items);
    char *copy = fm_strndup("abc", 2);
    cr_assert_str_eq(copy, "ab");
    fm_free(copy);
}

Test(text, bytes_for_a_person)
{
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {{0, "0 bytes"},
                 {999, "999 bytes"},
                 {1000, "1.0 kB"},
                 {1536, "1.5 kB"},
                 {12000000, "12.0 MB"},
                 {INT64_C(7200000000000), "7.2 TB"},
                 {INT64_MAX, "9223372.0 TB"}};
    char buffer[FM_BYTES_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_str_eq(fm_show_bytes(cases[i].bytes, buffer), cases[i].text);
}

Test(memory, products_are_checked)
{
    int64_t product = 0;
    cr_assert(fm_multiply(3037000499, 3037000499, &product) && product == INT64_C(9223372030926249001));
    cr_assert(!fm_multiply(3037000500, 3037000500, &product));
    cr_assert(!fm_multiply(-1, 2, &product));
    cr_assert(fm_multiply(0, INT64_MAX, &product) && product == 0);
}
