/* Private to config: how deep trees may be, and what a root that is no mapping is told. */
#ifndef FM_CONFIG_TREE_H
#define FM_CONFIG_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_document;
struct fm_error;
struct fm_node;
struct fm_text;

/* No tree is deeper, so every walk over one may recurse. */
#define FM_MAX_DEPTH 64

#define FM_MAX_BYTES ((size_t)1024 * 1024)

/* FM_EFILE: the root of a sweep file must be a mapping. */
int fm_document_fail_root(const struct fm_document *doc, struct fm_error *err);

/* The text between the quotes of a scalar, decoded into `out`; false when an escape is none. */
bool fm_unquote(const char *raw, size_t size, bool single, struct fm_text *out);

/* What readers of YAML 1.1 take a plain scalar for, where that is not what it is here; or NULL. */
const char *fm_odd_reading(const char *text, size_t size);

/* 0o17 and 0x1F, which the core schema has beside decimal integers. */
bool fm_parse_based(const struct fm_node *node, int64_t *value);

#endif
