/* Quoted scalars from their source bytes.
 *
 * libfyaml 0.7.12 checks them well, but fy_token_get_text loses characters (and memory) of quoted text that
 * has many escapes beside letters outside ASCII. So the text between the quotes is decoded here, by
 * YAML 1.2, 7.3.1 and 7.3.2; only valid input arrives. */
#include "base/text.h"
#include "config/tree.h"

struct reader {
    const char *raw;
    size_t size, at;
    struct fm_text *out;
    size_t kept; /* bytes of `out` that were escaped: folding takes no blanks from them */
};

static bool at_break(const struct reader *r)
{
    return r->at < r->size && (r->raw[r->at] == '\n' || r->raw[r->at] == '\r');
}

/* One line break and the blanks that indent the next line. */
static void skip_break(struct reader *r)
{
    r->at += r->raw[r->at] == '\r' && r->at + 1 < r->size && r->raw[r->at + 1] == '\n' ? 2 : 1;
    while (r->at < r->size && (r->raw[r->at] == ' ' || r->raw[r->at] == '\t')) r->at++;
}

/* A break is a blank; each empty line after it is a line break instead. */
static void fold(struct reader *r)
{
    struct fm_text *out = r->out;
    size_t breaks = 0;
    while (out->size > r->kept && (out->data[out->size - 1] == ' ' || out->data[out->size - 1] == '\t')) {
        out->data[--out->size] = '\0';
    }
    for (; at_break(r); breaks++) skip_break(r);
    if (breaks == 1) fm_text_add_bytes(out, " ", 1);
    for (size_t i = 1; i < breaks; i++) fm_text_add_bytes(out, "\n", 1);
    r->kept = out->size;
}

static bool add_code_point(struct fm_text *out, uint32_t c)
{
    char bytes[4];
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return false;
    if (c < 0x80) {
        bytes[0] = (char)c;
        fm_text_add_bytes(out, bytes, 1);
        return true;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; c >>= 6) bytes[i] = (char)(0x80 | (c & 0x3F));
    bytes[0] = (char)(leads[n] | c);
    fm_text_add_bytes(out, bytes, n);
    return true;
}

static bool read_hex(struct reader *r, size_t digits, uint32_t *value)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < digits; i++, r->at++) {
        char c = r->at < r->size ? r->raw[r->at] : '?';
        if (c >= '0' && c <= '9')
            sum = sum * 16 + (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            sum = sum * 16 + (uint32_t)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            sum = sum * 16 + (uint32_t)(c - 'A') + 10;
        else
            return false;
    }
    *value = sum;
    return true;
}

/* \uXXXX, with the second half of a surrogate pair as JSON writes it. */
static bool add_hex(struct reader *r, size_t digits)
{
    uint32_t c, low;
    if (!read_hex(r, digits, &c)) return false;
    if (digits == 4 && c >= 0xD800 && c < 0xDC00) {
        if (r->size - r->at < 6 || r->raw[r->at] != '\\' || r->raw[r->at + 1] != 'u') return false;
        r->at += 2;
        if (!read_hex(r, 4, &low) || low < 0xDC00 || low > 0xDFFF) return false;
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    return add_code_point(r->out, c);
}

static bool add_escape(struct reader *r)
{
    static const struct {
        char name;
        uint32_t code;
    } escapes[] = {
        {'0', 0},   {'a', 7},     {'b', 8},    {'t', 9},    {'\t', 9},     {'n', 10},
        {'v', 11},  {'f', 12},    {'r', 13},   {'e', 0x1B}, {' ', ' '},    {'"', '"'},
        {'/', '/'}, {'\\', '\\'}, {'N', 0x85}, {'_', 0xA0}, {'L', 0x2028}, {'P', 0x2029},
    };
    bool good = false;
    r->at++;
    if (at_break(r)) {
        skip_break(r);
        for (; at_break(r); skip_break(r)) fm_text_add_bytes(r->out, "\n", 1);
        r->kept = r->out->size;
        return true;
    }
    if (r->at == r->size) return false;
    char name = r->raw[r->at++];
    if (name == 'x' || name == 'u' || name == 'U') good = add_hex(r, name == 'x' ? 2 : name == 'u' ? 4 : 8);
    for (size_t i = 0; !good && i < sizeof escapes / sizeof *escapes; i++) {
        if (escapes[i].name == name) good = add_code_point(r->out, escapes[i].code);
    }
    r->kept = r->out->size;
    return good;
}

bool fm_unquote(const char *raw, size_t size, bool single, struct fm_text *out)
{
    struct reader r = {raw, size, 0, out, 0};
    while (r.at < r.size) {
        char c = raw[r.at];
        if (at_break(&r)) {
            fold(&r);
        } else if (c == '\\' && !single) {
            if (!add_escape(&r)) return false;
        } else {
            fm_text_add_bytes(out, &c, 1);
            r.at += c == '\'' && single ? 2 : 1;
        }
    }
    return true;
}
