/* The YAML reader: places, guards, keys that stand twice, aliases, odd values, files that are none. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "config/node.h"
#include "support/support.h"

static int parse_bytes(const char *text, size_t size, struct fm_error *err)
{
    struct fm_document doc;
    memset(err, 0, sizeof *err);
    int code = fm_document_parse(&doc, "t.yaml", text, size, NULL, err);
    if (!code) fm_document_fini(&doc);
    return code;
}

Test(yaml, remembers_where_everything_stood)
{
    const char *text = "a: 1\nb:\n  - x\n  - {c: \"q\", d: |\n      no}\n";
    const char *plain = "a: 1\nb:\n  - x\n  - {c: \"q\", d: 2}\n";
    struct fm_document doc;
    struct fm_error err;
    cr_expect_lt(parse_bytes(text, strlen(text), &err), 0);
    cr_expect_gt(err.line, 0);
    memset(&err, 0, sizeof err);
    cr_assert_eq(fm_document_parse(&doc, "t.yaml", plain, strlen(plain), NULL, &err), 0);
    const struct fm_node *map = fm_node_get(doc.root, "b")->items[1];
    const struct fm_node *key = fm_node_key(map, "d"), *value = fm_node_get(map, "c");
    cr_expect(key->line == 4 && key->column == 14, "%lld:%lld", (long long)key->line, (long long)key->column);
    cr_expect(value->line == 4 && value->column == 9 && !value->plain && strcmp(value->text, "q") == 0);
    cr_expect_str_eq(value->file, "t.yaml");
    cr_expect_eq(fm_node_get(map, "nothing"), NULL);
    fm_document_fini(&doc);
}

/* Case A06, exact: both clashes with both lines, quoted and plain being one key. */
Test(yaml, case_a06_names_every_clash)
{
    const char *text = "data: {source: csv, path: A10.csv, features: [x], target: y, window: {length: 1}}\n"
                       "model:\n"
                       "  conv1d: {filters: 8, kernel_size: 1}\n"
                       "  max_pooling1d: {pool_size: 1}\n"
                       "  conv1d: {filters: 16, kernel_size: 1}\n"
                       "  dense: {units: 1}\n"
                       "train:\n"
                       "  optimizer: {sgd: {learning_rate: 0.1}}\n"
                       "  epochs: 5\n"
                       "  \"epochs\": 50\n";
    struct fm_error err;
    cr_assert_eq(parse_bytes(text, strlen(text), &err), FM_EFILE);
    cr_expect(strstr(err.text, "model.conv1d on lines 3 and 5"), "%s", err.text);
    cr_expect(strstr(err.text, "train.epochs on lines 9 and 10"), "%s", err.text);
    cr_expect_eq(err.line, 5);
    cr_assert_eq(parse_bytes("{a: 1, a: 2}", 12, &err), FM_EFILE);
    cr_expect(strstr(err.text, "a on line 1 (columns 2 and 8)"), "%s", err.text);
    cr_assert_eq(parse_bytes("x: [1, {k: 1, j: 2, k: 3, k: 4}]", 32, &err), FM_EFILE);
    cr_expect(strstr(err.text, "x[1].k on line 1 (columns 9 and 21), x[1].k on line 1 (columns 21 and 27)"),
              "%s", err.text);
}

Test(yaml, refuses_with_a_place)
{
    static const struct {
        const char *text;
        int64_t line;
        const char *says;
    } rows[] = {
        {"a: 1\n  b: 2\n", 1, "not valid YAML"},
        {"a: [1\n", 2, "without a closing bracket"},
        {"a: \"x\n", 1, "closing quote"},
        {"a: 1\n---\nb: 2\n", 2, "second document"},
        {"a: 1\n%TAG x\n", 2, "start with '%'"},
        {"a: 1\nb: \x01\n", 2, "control character"},
        {"a: 1\nb: \xff\n", 2, "UTF-8"},
        {"\x3a\x20\x0a\x25\xe1", 2, "UTF-8"},
        {"base: &b {x: 1}\nc:\n  <<: *b\n", 3, "merge keys"},
        {"a: *nowhere\n", 1, "no anchor &nowhere"},
        {"a: &x [1, *x]\n", 1, "inside its own anchor"},
        {"a: !!str 3\n", 1, "tags"},
        {"a: !mine {b: 1}\n", 1, "tags"},
        {"? [1, 2]\n: 3\n", 1, "a key must be a word"},
        {": 3\n", 1, "key is missing"},
        {"a: \"x\\0y\"\n", 1, "zero byte"},
        {"a:\n\t- b\n", 2, "not valid YAML"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fm_error err;
        cr_expect_eq(parse_bytes(rows[i].text, strlen(rows[i].text), &err), FM_EFILE, "row %zu passed", i);
        cr_expect_eq(err.line, rows[i].line, "row %zu: line %lld, %s", i, (long long)err.line, err.text);
        cr_expect(strstr(err.text, rows[i].says), "row %zu: %s", i, err.text);
    }
    struct fm_error err;
    cr_expect_eq(parse_bytes("a: \0b", 5, &err), FM_EFILE);
}

static double seconds_of(const char *text, size_t size, const char *says)
{
    struct fm_error err;
    struct timespec start, end;
    /* Processor time, because other tests share the machine. */
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    int code = parse_bytes(text, size, &err);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    cr_expect(code < 0 && strstr(err.text, says), "%d %s; expected %s", code, err.text, says);
    return (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}

Test(yaml, hostile_files_end_soon)
{
    char laughs[4096] = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 20; i++) {
        char line[128];
        int size =
            snprintf(line, sizeof line, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n",
                     i, i, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
        strncat(laughs, line, sizeof laughs - strlen(laughs) - 1);
        cr_assert_gt(size, 0);
    }
    cr_expect_lt(seconds_of(laughs, strlen(laughs), "200000 values"), 2.0);

    size_t size = 1024 * 1024 + 1;
    char *big = malloc(size + 1);
    cr_assert(big);
    memset(big, 'a', size);
    cr_expect_lt(seconds_of(big, size, "1 MiB"), 1.0);
    memset(big, '[', size);
    cr_expect_lt(seconds_of(big, size - 1, "64 deep"), 5.0);
    for (size_t i = 0; i + 2 <= size; i += 2) memcpy(big + i, "- ", 2);
    cr_expect_lt(seconds_of(big, size - 1, "64 deep"), 5.0);
    for (size_t i = 0; i + 2 <= size; i += 2) memcpy(big + i, i ? "x," : "[ ", 2);
    cr_expect_lt(seconds_of(big, size - 1, "200000 values"), 5.0);
    free(big);
}

Test(yaml, a_byte_order_mark_and_crlf_change_nothing)
{
    const char *plain = "a: 1\nb: [x, y]\n", *odd = "\xEF\xBB\xBF"
                                                    "a: 1\r\nb: [x, y]";
    struct fm_document left, right;
    struct fm_error err = {0};
    cr_assert_eq(fm_document_parse(&left, "l", plain, strlen(plain), NULL, &err), 0);
    cr_assert_eq(fm_document_parse(&right, "r", odd, strlen(odd), NULL, &err), 0, "%s", err.text);
    cr_expect(fm_node_equal(left.root, right.root));
    cr_expect_eq(fm_node_key(right.root, "b")->line, 2);
    fm_document_fini(&left);
    fm_document_fini(&right);
}

Test(yaml, aliases_are_copies)
{
    const char *text = "a: &x {k: [1, 2]}\nb: *x\nc: *x\n";
    struct fm_document doc;
    struct fm_error err = {0};
    cr_assert_eq(fm_document_parse(&doc, "t", text, strlen(text), NULL, &err), 0);
    cr_assert_eq(fm_document_set(&doc, "b.k.0=9", NULL, &err), 0, "%s", err.text);
    cr_expect_str_eq(fm_node_get(fm_node_get(doc.root, "b"), "k")->items[0]->text, "9");
    cr_expect_str_eq(fm_node_get(fm_node_get(doc.root, "a"), "k")->items[0]->text, "1");
    cr_expect_str_eq(fm_node_get(fm_node_get(doc.root, "c"), "k")->items[0]->text, "1");
    fm_document_fini(&doc);
}

Test(yaml, notes_values_that_other_readers_misread)
{
    const char *text = "a: yes\nb: 017\nc: 1_000\nd: 12:30\ne: 'no'\nf: 10\n";
    struct fm_document doc;
    struct fm_notes notes = {0};
    cr_assert_eq(fm_document_parse(&doc, "t", text, strlen(text), &notes, NULL), 0);
    cr_assert_eq(notes.count, 4);
    cr_expect(strstr(notes.text[0], "t:1:4: yes is text here"), "%s", notes.text[0]);
    cr_expect(strstr(notes.text[1], "017 is a decimal number here"), "%s", notes.text[1]);
    cr_expect(strstr(notes.text[3], "base 60"), "%s", notes.text[3]);
    fm_document_fini(&doc);
    fm_notes_fini(&notes);
}

Test(yaml, what_is_no_file_is_named)
{
    char folder[64], path[128];
    struct fm_document doc;
    struct fm_error err = {0};
    cr_assert(ts_temporary(folder, sizeof folder));
    cr_expect_eq(fm_document_read(&doc, folder, NULL, &err), FM_EFILE);
    cr_expect(strstr(err.text, "a directory"), "%s", err.text);
    fm_error_clear(&err);
    cr_assert_eq(mkfifo(ts_join(path, sizeof path, folder, "fifo"), 0600), 0);
    cr_expect_eq(fm_document_read(&doc, path, NULL, &err), FM_EFILE);
    cr_expect(strstr(err.text, "a FIFO"), "%s", err.text);
    fm_error_clear(&err);
    cr_expect_eq(fm_document_read(&doc, ts_join(path, sizeof path, folder, "none.yaml"), NULL, &err),
                 FM_EFILE);
    cr_expect(strstr(err.text, "No such file"), "%s", err.text);
    cr_expect_str_eq(err.file, path);
    fm_error_clear(&err);
    cr_assert(ts_write_file(ts_join(path, sizeof path, folder, "empty.yaml"), "# nothing\n", 10));
    cr_expect_eq(fm_document_read(&doc, path, NULL, &err), FM_EFILE);
    cr_expect(strstr(err.text, "empty"), "%s", err.text);
    fm_error_clear(&err);
    cr_assert(ts_write_file(path, "- a\n", 4));
    cr_expect_eq(fm_document_read(&doc, path, NULL, &err), FM_EFILE);
    cr_expect(strstr(err.text, "mapping of keys"), "%s", err.text);
    ts_remove_tree(folder);
}

Test(set, replaces_and_makes)
{
    const char *text = "train: {epochs: 3, optimizer: adam}\nmodel: [{conv1d: {filters: 8}}, flatten]\n";
    struct fm_document doc;
    struct fm_error err = {0};
    cr_assert_eq(fm_document_parse(&doc, "t", text, strlen(text), NULL, &err), 0);
    cr_assert_eq(fm_document_set(&doc, "train.epochs=7", NULL, &err), 0);
    cr_assert_eq(fm_document_set(&doc, "train.early_stopping.patience=2", NULL, &err), 0);
    cr_assert_eq(fm_document_set(&doc, "model.0.conv1d.filters=16", NULL, &err), 0);
    cr_assert_eq(fm_document_set(&doc, "model.1={dense: {units: [1, 2]}}", NULL, &err), 0);
    cr_assert_eq(fm_document_set(&doc, "cv.split=kfold", NULL, &err), 0);
    json_t *json = fm_node_json(doc.root);
    char *dump = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    cr_expect_str_eq(dump,
                     "{\"cv\":{\"split\":\"kfold\"},\"model\":[{\"conv1d\":{\"filters\":16}},{\"dense\":{"
                     "\"units\":[1,2]}}],"
                     "\"train\":{\"early_stopping\":{\"patience\":2},\"epochs\":7,\"optimizer\":\"adam\"}}");
    cr_expect_str_eq(fm_node_get(fm_node_get(doc.root, "train"), "epochs")->file, "--set train.epochs");
    free(dump);
    json_decref(json);
    fm_document_fini(&doc);
}

Test(set, refuses_what_it_cannot_reach)
{
    static const struct {
        const char *setting, *says;
    } rows[] = {
        {"train.epochs", "expected KEY=VALUE"},
        {"=3", "expected KEY=VALUE"},
        {"train..epochs=3", "empty part"},
        {"train.epochs.x=3", "train.epochs is a single value"},
        {"model.5.x=1", "model is a list of 1"},
        {"model.first=1", "model is a list of 1"},
        {"a=[1", "not valid YAML"},
        {"a={b: 1, b: 2}", "the same key twice"},
        {"a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a=1", "too deep"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *text = "train: {epochs: 3}\nmodel: [flatten]\n";
        struct fm_document doc;
        struct fm_error err = {0};
        cr_assert_eq(fm_document_parse(&doc, "t", text, strlen(text), NULL, &err), 0);
        cr_expect_lt(fm_document_set(&doc, rows[i].setting, NULL, &err), 0, "%s passed", rows[i].setting);
        cr_expect(strstr(err.text, rows[i].says), "%s: %s", rows[i].setting, err.text);
        cr_expect(strstr(err.file, "--set") || strstr(err.text, "--set"), "%s", rows[i].setting);
        fm_document_fini(&doc);
    }
}

/* libfyaml's own decoding loses characters of such texts; these are the expected ones, by YAML 1.2. */
Test(yaml, quoted_text)
{
    static const struct {
        const char *yaml, *text;
    } rows[] = {
        {"''", ""},
        {"\"\"", ""},
        {"'it''s'", "it's"},
        {"''''''''''''", "'''''"},
        {"'\"\\é\"é''b ééa\\a\"\\\"\"aa''''é x\\éab \\\\'", "\"\\é\"é'b ééa\\a\"\\\"\"aa''é x\\éab \\\\"},
        {"\"a\\\"b\\\\c\\/\\n\\t\\x41\\u00e9\\U0001F600\\_\"", "a\"b\\c/\n\tAé😀\xC2\xA0"},
        {"\"\\ud83d\\ude00\"", "😀"},
        {"\"a  \n  b\n\n c\"", "a b\nc"},
        {"'a\n\n\n  b'", "a\n\nb"},
        {"\"a \\\n   b\\\n\n  c\"", "a b\nc"},
        {"\"x\\t\n y\"", "x\t y"},
        {"\"x\r\n y\"", "x y"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fm_document doc;
        struct fm_error err = {0};
        cr_assert_eq(fm_document_parse(&doc, "t", rows[i].yaml, strlen(rows[i].yaml), NULL, &err), 0,
                     "%s: %s", rows[i].yaml, err.text);
        cr_expect_str_eq(doc.root->text, rows[i].text, "row %zu: got '%s'", i, doc.root->text);
        fm_document_fini(&doc);
    }
    struct fm_error err;
    cr_expect_eq(parse_bytes("\"\\ud83d\"", 8, &err), FM_EFILE);
    cr_expect_eq(parse_bytes("\"\\q\"", 4, &err), FM_EFILE);
}
