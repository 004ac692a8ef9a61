/* The core schema, the typed readers and JSON, each against what YAML 1.2 says. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "config/node.h"

static struct fm_document parse(const char *text)
{
    struct fm_document doc;
    struct fm_error err = {0};
    cr_assert_eq(fm_document_parse(&doc, "t.yaml", text, strlen(text), NULL, &err), 0, "%s", err.text);
    return doc;
}

Test(node, core_schema)
{
    static const struct {
        const char *text;
        enum fm_node_type type;
    } rows[] = {
        {"~", FM_NULL},
        {"null", FM_NULL},
        {"NULL", FM_NULL},
        {"nUll", FM_TEXT},
        {"true", FM_BOOL},
        {"False", FM_BOOL},
        {"yes", FM_TEXT},
        {"on", FM_TEXT},
        {"0", FM_INTEGER},
        {"-12", FM_INTEGER},
        {"+7", FM_INTEGER},
        {"017", FM_INTEGER},
        {"0o17", FM_INTEGER},
        {"0x1F", FM_INTEGER},
        {"0o8", FM_TEXT},
        {"1_000", FM_TEXT},
        {"12:30", FM_TEXT},
        {"1e-3", FM_NUMBER},
        {"5E-4", FM_NUMBER},
        {"1.e-2", FM_NUMBER},
        {".5e-1", FM_NUMBER},
        {"2.0e5", FM_NUMBER},
        {"+1e-3", FM_NUMBER},
        {".inf", FM_TEXT},
        {".nan", FM_TEXT},
        {"1e400", FM_TEXT},
        {"'1e-3'", FM_TEXT},
        {"\"3\"", FM_TEXT},
        {"[]", FM_COLLECTION},
        {"{}", FM_COLLECTION},
        {"1e", FM_TEXT},
        {".", FM_TEXT},
        {"0x", FM_TEXT},
        {"'true'", FM_TEXT},
        {"9223372036854775807", FM_INTEGER},
        {"9223372036854775808", FM_NUMBER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fm_document doc = parse(rows[i].text);
        cr_expect_eq(fm_node_type(doc.root), rows[i].type, "%s: %d", rows[i].text, fm_node_type(doc.root));
        fm_document_fini(&doc);
    }
}

Test(node, readers_take_what_the_contract_says)
{
    struct fm_document doc = parse("{a: 3.0, b: 3.10, c: 1e3, d: 0x10, e: True, f: '3', g: NO, h: 2.5}");
    struct fm_error err = {0};
    int64_t whole = 0;
    double number = 0;
    bool flag = false;
    const char *text = NULL;
    cr_expect(fm_node_integer(fm_node_get(doc.root, "a"), "a", &whole, &err) == 0 && whole == 3);
    cr_expect(fm_node_text(fm_node_get(doc.root, "b"), "b", &text, &err) == 0 && strcmp(text, "3.10") == 0);
    cr_expect(fm_node_integer(fm_node_get(doc.root, "c"), "c", &whole, &err) == 0 && whole == 1000);
    cr_expect(fm_node_number(fm_node_get(doc.root, "d"), "d", &number, &err) == 0 && number == 16);
    cr_expect(fm_node_bool(fm_node_get(doc.root, "e"), "e", &flag, &err) == 0 && flag);
    cr_expect(fm_node_text(fm_node_get(doc.root, "g"), "g", &text, &err) == 0 && strcmp(text, "NO") == 0);
    cr_expect_eq(err.code, 0);
    cr_expect_eq(fm_node_number(fm_node_get(doc.root, "f"), "f", &number, &err), FM_EFILE);
    cr_expect(strstr(err.text, "remove the quotes"), "%s", err.text);
    fm_error_clear(&err);
    cr_expect_eq(fm_node_integer(fm_node_get(doc.root, "h"), "some.key", &whole, &err), FM_EFILE);
    cr_expect(strstr(err.text, "some.key is 2.5; expected a whole number"), "%s", err.text);
    cr_expect_eq(err.line, 1);
    cr_expect_eq(err.column, 63);
    fm_document_fini(&doc);
}

Test(node, json_is_canonical)
{
    static const struct {
        const char *yaml, *json;
    } rows[] = {
        {"{b: 1, a: [3.0, 0.003, 1e-5, ~, true, 'x\"y', \"3\"]}",
         "{\"a\":[3,0.003,1e-05,null,true,\"x\\\"y\",\"3\"],\"b\":1}"},
        {"1e3", "1000"},
        {"0x1f", "31"},
        {"1e300", "1e+300"},
        {"-0.1", "-0.1"},
        {"é", "\"é\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fm_document doc = parse(rows[i].yaml);
        struct fm_text text = {0};
        json_t *json = fm_node_json(doc.root), *back;
        cr_assert_eq(fm_json_text(json, &text, NULL), 0);
        cr_expect_str_eq(text.data, rows[i].json);
        back = json_loads(text.data, JSON_DECODE_ANY, NULL);
        cr_expect(json_equal(json, back), "%s does not read back", text.data);
        json_decref(json);
        json_decref(back);
        fm_text_fini(&text);
        fm_document_fini(&doc);
    }
}

Test(node, equality_is_by_value)
{
    struct fm_document doc = parse("[3, 3.0, '3', {a: 1, b: 2}, {b: 2.0, a: 1}, 1e-3, 0.001, [1], [1, 2]]");
    struct fm_node **n = doc.root->items;
    cr_expect(fm_node_equal(n[0], n[1]));
    cr_expect(!fm_node_equal(n[0], n[2]));
    cr_expect(fm_node_equal(n[3], n[4]));
    cr_expect(fm_node_equal(n[5], n[6]));
    cr_expect(!fm_node_equal(n[7], n[8]));
    fm_document_fini(&doc);
}
