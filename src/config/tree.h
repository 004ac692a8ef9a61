/* Private to config: how deep trees may be, and what a root that is no mapping is told. */
#ifndef FM_CONFIG_TREE_H
#define FM_CONFIG_TREE_H

#include <stddef.h>

struct fm_document;
struct fm_error;

/* No tree is deeper, so every walk over one may recurse. */
#define FM_MAX_DEPTH 64

#define FM_MAX_BYTES ((size_t)1024 * 1024)

/* FM_EFILE: the root of a sweep file must be a mapping. */
int fm_document_fail_root(const struct fm_document *doc, struct fm_error *err);

#endif
