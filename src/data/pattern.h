/* File name patterns: * ? [set] as glob(7), and {name}, which matches like * and is remembered. */
#ifndef FM_DATA_PATTERN_H
#define FM_DATA_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

struct fm_error;
struct fm_node;

enum { FM_PATTERN_NAMES = 16 };

struct fm_span_text {
    const char *text;
    size_t size;
};

/* A pattern with its {name}s found; texts point into the pattern. */
struct fm_pattern {
    const char *text;
    size_t names;
    struct fm_span_text name[FM_PATTERN_NAMES];
    bool special; /* holds any of * ? [ { */
};

/* Checks the braces: names of letters, digits and '_', each once, not "file". `node` is blamed. */
int fm_pattern_init(struct fm_pattern *pattern, const char *text, const struct fm_node *node,
                    struct fm_error *err);
/* The pattern as glob(3) reads it, with `folder` quoted before it; NULL when memory is out. */
char *fm_pattern_glob(const struct fm_pattern *pattern, const char *folder);
/* Whether a path (without the folder) matches; value[i] is what {name} i stood for. Of several ways to match,
 * the first {name}s and *s take as much as they can. */
bool fm_pattern_match(const struct fm_pattern *pattern, const char *path, struct fm_span_text *value);

#endif
