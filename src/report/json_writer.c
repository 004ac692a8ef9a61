#include "report/json_writer.h"

#include <inttypes.h>
#include <math.h>

static void quote(struct fm_text *text, const char *value)
{
    fm_text_add_bytes(text, "\"", 1);
    for (const char *c = value; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte == '"' || byte == '\\') {
            fm_text_add_bytes(text, "\\", 1);
            fm_text_add_bytes(text, c, 1);
        } else if (byte == '\n') {
            fm_text_add_string(text, "\\n");
        } else if (byte < 0x20 || byte == 0x7f) {
            fm_text_add(text, "\\u%04x", byte);
        } else {
            fm_text_add_bytes(text, c, 1);
        }
    }
    fm_text_add_bytes(text, "\"", 1);
}

static void begin(struct fm_json *j, const char *key)
{
    if (j->comma) fm_text_add_string(j->text, j->line ? "," : ", ");
    if (j->line) fm_text_add(j->text, "\n%s", j->line);
    j->line = NULL;
    j->comma = true;
    if (!key) return;
    quote(j->text, key);
    fm_text_add_string(j->text, ": ");
}

void fm_json_open(struct fm_json *j, const char *key, char bracket)
{
    begin(j, key);
    fm_text_add_bytes(j->text, &bracket, 1);
    j->comma = false;
}

void fm_json_close(struct fm_json *j, char bracket)
{
    fm_text_add_bytes(j->text, &bracket, 1);
    j->comma = true;
}

void fm_json_integer(struct fm_json *j, const char *key, int64_t value)
{
    begin(j, key);
    fm_text_add(j->text, "%" PRId64, value);
}

void fm_json_number(struct fm_json *j, const char *key, double value)
{
    char buffer[FM_NUMBER_TEXT];
    begin(j, key);
    fm_text_add_string(j->text, isfinite(value) ? fm_format_number(value, buffer) : "null");
}

void fm_json_boolean(struct fm_json *j, const char *key, bool value)
{
    begin(j, key);
    fm_text_add_string(j->text, value ? "true" : "false");
}

void fm_json_string(struct fm_json *j, const char *key, const char *value)
{
    begin(j, key);
    if (value)
        quote(j->text, value);
    else
        fm_text_add_string(j->text, "null");
}

static void collection(struct fm_json *j, const char *key, const json_t *value)
{
    bool object = json_is_object(value);
    fm_json_open(j, key, object ? '{' : '[');
    if (object) {
        const char *name;
        json_t *item;
        json_object_foreach((json_t *)value, name, item) fm_json_value(j, name, item);
    } else {
        for (size_t i = 0; i < json_array_size(value); i++) fm_json_value(j, NULL, json_array_get(value, i));
    }
    fm_json_close(j, object ? '}' : ']');
}

void fm_json_value(struct fm_json *j, const char *key, const json_t *value)
{
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT:
    case JSON_ARRAY: collection(j, key, value); break;
    case JSON_STRING: fm_json_string(j, key, json_string_value(value)); break;
    case JSON_INTEGER: fm_json_integer(j, key, json_integer_value(value)); break;
    case JSON_REAL: fm_json_number(j, key, json_real_value(value)); break;
    case JSON_TRUE: fm_json_boolean(j, key, true); break;
    case JSON_FALSE: fm_json_boolean(j, key, false); break;
    case JSON_NULL: fm_json_string(j, key, NULL); break;
    }
}

void fm_json_stored(struct fm_json *j, const char *key, const char *json)
{
    json_error_t error;
    json_t *value = json_loads(json, JSON_DECODE_ANY, &error);
    if (!value && json_error_code(&error) == json_error_out_of_memory) j->text->failed = true;
    fm_json_value(j, key, value);
    json_decref(value);
}
