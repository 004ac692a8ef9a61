/* A YAML file as a plain tree that remembers where everything stood.
 *
 * Read with libfyaml behind the guards of libraries.md: at most 1 MiB, valid UTF-8 checked first, lines that
 * start with '%' other than %YAML refused, aliases resolved one by one with a cap on the nodes visited, own
 * diagnostics. A key that stands twice in one mapping is an error that names every such clash of the file
 * with both lines (case A06). Merge keys ("<<") are refused with a sentence that says so. One document per
 * file.
 *
 * All nodes belong to their document and live as long as it does. Scalars are untyped text; the YAML 1.2 core
 * schema is applied by the readers below, to plain scalars only: "1e-3" is a number, '"1e-3"' is text.
 * Positions count from 1. Reading is thread safe.
 */
#ifndef FM_CONFIG_NODE_H
#define FM_CONFIG_NODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

struct fm_error;
struct fm_text;

enum fm_node_kind { FM_SCALAR, FM_LIST, FM_MAP };

struct fm_node {
    enum fm_node_kind kind;
    bool plain;           /* scalars: written without quotes */
    bool open;            /* a "${parameter}" in a tree that is checked before any value is known:
                             fm_keys_read skips it (made only by fm_sweep_read) */
    int64_t line, column; /* 0 when the node was made by Foldmill (a drawn parameter) */
    const char *file;     /* for messages: the sweep file, or "--set KEY" */
    const char *text;     /* scalars: terminated; may hold '\0' inside, then size says so */
    size_t size;
    size_t count;           /* lists and maps */
    struct fm_node **items; /* elements, or values */
    struct fm_node **keys;  /* maps: scalar nodes */
};

struct fm_document {
    char *file;   /* the name used in messages */
    char *source; /* the bytes of the file, terminated */
    size_t source_size;
    struct fm_node *root;    /* a map; NULL before reading */
    struct fm_block *blocks; /* arena of all nodes and texts */
    size_t nodes;            /* made so far; capped */
};

/* Reads a file. A directory, a FIFO, a missing file or one over 1 MiB is refused by name. Warnings about
 * values that other YAML readers understand differently (unquoted on/off/yes/no, 017, 1_000, 12:30) go to
 * `notes`. */
int fm_document_read(struct fm_document *doc, const char *path, struct fm_notes *notes, struct fm_error *err);
/* The same from memory; `name` is used in messages. The root may be of any kind. Used by --set and by
 * fuzzers. */
int fm_document_parse(struct fm_document *doc, const char *name, const char *bytes, size_t size,
                      struct fm_notes *notes, struct fm_error *err);
void fm_document_fini(struct fm_document *doc);

/* Cleared memory that lives as long as the document; NULL when memory is out. */
void *fm_document_alloc(struct fm_document *doc, size_t n, size_t size);

/* Nodes made by Foldmill; NULL when memory is out. `like` gives file, line and column (may be NULL). */
struct fm_node *fm_node_new_scalar(struct fm_document *doc, const char *text, size_t size, bool plain,
                                   const struct fm_node *like);
struct fm_node *fm_node_new_collection(struct fm_document *doc, enum fm_node_kind kind, size_t count,
                                       const struct fm_node *like);

/* The value of a key, or NULL. */
struct fm_node *fm_node_get(const struct fm_node *map, const char *key);
/* The key node of a value found by fm_node_get, for its position. */
const struct fm_node *fm_node_key(const struct fm_node *map, const char *key);

enum fm_node_type { FM_NULL, FM_BOOL, FM_INTEGER, FM_NUMBER, FM_TEXT, FM_COLLECTION };
/* The core-schema type of a node. Integers too large for 64 bits are numbers; .inf and .nan are text here and
 * so refused wherever a number is wanted. */
enum fm_node_type fm_node_type(const struct fm_node *node);

/* Typed readers; `path` is the dotted name for messages ("train.batch_size"). A whole number is accepted
 * where an integer is wanted (3.0); where text is wanted a plain scalar is taken as written (3.10 stays
 * "3.10"). */
int fm_node_bool(const struct fm_node *node, const char *path, bool *value, struct fm_error *err);
int fm_node_integer(const struct fm_node *node, const char *path, int64_t *value, struct fm_error *err);
int fm_node_number(const struct fm_node *node, const char *path, double *value, struct fm_error *err);
int fm_node_text(const struct fm_node *node, const char *path, const char **value, struct fm_error *err);

/* fm_fail_at with the node's position. */
int fm_node_fail(const struct fm_node *node, int code, struct fm_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* "file:line:column: text" as a note or warning (fm_note). */
void fm_node_note(const struct fm_node *node, struct fm_notes *notes, enum fm_level level, const char *format,
                  ...) __attribute__((format(printf, 4, 5)));

/* The value as JSON by the core schema, whole numbers as integers (3.0 and 3 are one value), keys in the
 * order written. NULL when memory is out. */
json_t *fm_node_json(const struct fm_node *node);
/* JSON as canonical text: compact, keys sorted, numbers as short as they read back (0.003, not
 * 0.0030000000000000001). Any kind of value. 0 or FM_ENOMEM. */
int fm_json_text(const json_t *json, struct fm_text *text, struct fm_error *err);
bool fm_node_equal(const struct fm_node *a, const struct fm_node *b); /* by value, as their JSON */

/* Sets the value at a dotted path ("train.epochs=3"; list elements by number from 0), making maps on the way:
 * `--set`. `setting` is "key=value"; the value is read as YAML. */
int fm_document_set(struct fm_document *doc, const char *setting, struct fm_notes *notes,
                    struct fm_error *err);

#endif
