#include "data/pattern.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/node.h"

#include <string.h>

/* Steps after which a pattern counts as not matching; only patterns of many stars come near. */
enum { MOST_STEPS = 1000000 };

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static int bad(const struct fm_node *node, struct fm_error *err, const char *text)
{
    return fm_fail_at(
        err, FM_EFILE, node->file, node->line, node->column,
        "path '%s': braces must hold a column's name, as in runs/{subject}.csv, each name once and "
        "not 'file'",
        text);
}

int fm_pattern_init(struct fm_pattern *pattern, const char *text, const struct fm_node *node,
                    struct fm_error *err)
{
    *pattern = (struct fm_pattern){.text = text, .special = strpbrk(text, "*?[{") != NULL};
    for (const char *s = strchr(text, '{'); s; s = strchr(s, '{')) {
        const char *end = ++s;
        while (is_name_char(*end)) end++;
        struct fm_span_text name = {s, (size_t)(end - s)};
        if (*end != '}' || name.size == 0 || pattern->names == FM_PATTERN_NAMES) return bad(node, err, text);
        if (name.size == 4 && memcmp(s, "file", 4) == 0) return bad(node, err, text);
        for (size_t i = 0; i < pattern->names; i++) {
            if (pattern->name[i].size == name.size && memcmp(pattern->name[i].text, s, name.size) == 0)
                return bad(node, err, text);
        }
        pattern->name[pattern->names++] = name;
        s = end;
    }
    return 0;
}

char *fm_pattern_glob(const struct fm_pattern *pattern, const char *folder)
{
    struct fm_text out = {0};
    if (pattern->text[0] != '/' && strcmp(folder, ".") != 0) {
        for (const char *s = folder; *s; s++) {
            if (strchr("*?[]\\{}", *s)) fm_text_add_bytes(&out, "\\", 1);
            fm_text_add_bytes(&out, s, 1);
        }
        fm_text_add_bytes(&out, "/", 1);
    }
    for (const char *s = pattern->text; *s; s++) {
        if (*s == '{') {
            fm_text_add_bytes(&out, "*", 1);
            s = strchr(s, '}');
        } else {
            fm_text_add_bytes(&out, s, 1);
        }
    }
    if (out.failed) fm_text_fini(&out);
    return out.data;
}

/* [set] at `p`, just after '['. Returns what follows the set, or NULL where no ']' closes it. */
static const char *match_set(const char *p, char c, bool *hit)
{
    bool invert = *p == '!' || *p == '^';
    if (invert) p++;
    *hit = false;
    for (bool first = true; first || *p != ']'; first = false) {
        unsigned char low, high, x = (unsigned char)c;
        if (!*p) return NULL;
        low = high = (unsigned char)*p++;
        if (p[0] == '-' && p[1] && p[1] != ']') {
            high = (unsigned char)p[1];
            p += 2;
        }
        if (x >= low && x <= high) *hit = true;
    }
    *hit = *hit != invert && c != '/' && c != '\0';
    return p + 1;
}

struct matcher {
    struct fm_span_text *value;
    long steps;
};

static bool match(struct matcher *m, const char *p, const char *s, size_t name);

/* A star or {name}: `rest` is the pattern after it. Takes as much as it can. */
static bool match_star(struct matcher *m, const char *rest, const char *s, size_t name, bool capture)
{
    size_t most = strcspn(s, "/");
    for (size_t take = most + 1; take-- > 0;) {
        if (capture) m->value[name] = (struct fm_span_text){s, take};
        if (match(m, rest, s + take, name + capture)) return true;
        if (m->steps >= MOST_STEPS) return false;
    }
    return false;
}

static bool match(struct matcher *m, const char *p, const char *s, size_t name)
{
    for (; m->steps < MOST_STEPS; m->steps++) {
        if (!*p) return !*s;
        if (*p == '*') return match_star(m, p + 1, s, name, false);
        if (*p == '{') return match_star(m, strchr(p, '}') + 1, s, name, true);
        if (!*s) return false;
        if (*p == '?') {
            if (*s == '/') return false;
            p++;
            s++;
            continue;
        }
        bool hit = false;
        const char *after = *p == '[' ? match_set(p + 1, *s, &hit) : NULL;
        if (after) {
            if (!hit) return false;
            p = after;
            s++;
            continue;
        }
        if (*p == '\\' && p[1]) p++;
        if (*p++ != *s++) return false;
    }
    return false;
}

bool fm_pattern_match(const struct fm_pattern *pattern, const char *path, struct fm_span_text *value)
{
    struct matcher m = {.value = value};
    return match(&m, pattern->text, path, 0);
}
