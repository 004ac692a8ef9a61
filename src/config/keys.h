/* One table describes each mapping of the sweep file: the same table parses, checks, gives defaults and
 * prints `foldmill help keys`, so that help and code cannot differ.
 *
 * A default is written as the text the user would write; the reader applies it by the same code. NULL = no
 * default: the field keeps what it had (zero), and `given` tells whether it was set.
 */
#ifndef FM_CONFIG_KEYS_H
#define FM_CONFIG_KEYS_H

#include "config/node.h"

struct fm_text;

enum fm_key_type {
    FM_KEY_TEXT,    /* const char *, owned by the document */
    FM_KEY_BOOL,    /* bool */
    FM_KEY_INTEGER, /* int64_t, min <= value <= max */
    FM_KEY_NUMBER,  /* double, min <= value <= max (FM_OPEN_MIN: min < value; FM_OPEN_MAX: value < max) */
    FM_KEY_CHOICE,  /* int: index into choices (a NULL-terminated list) */
    FM_KEY_NODE     /* const struct fm_node *: read by somebody else */
};

enum fm_key_flag {
    FM_REQUIRED = 1,
    FM_LATER = 2, /* known, refused as "not available yet" */
    FM_OPEN_MIN = 4,
    FM_OPEN_MAX = 8,
    FM_PER_DIMENSION = 16, /* integers that Keras also takes as a one-element list: kernel_size: [3] */
    FM_NULLABLE = 32,      /* a null (~, null, empty) means "not given" */
    FM_IGNORED = 64        /* accepted with a note and not used */
};

#define FM_KEY_MAX_INTEGER 9007199254740992.0 /* 2^53 */

struct fm_key {
    const char *name;
    enum fm_key_type type;
    size_t offset; /* into the struct that is filled */
    double min, max;
    const char *const *choices;
    const char *fallback; /* the default as the user would write it, or NULL */
    unsigned flags;
    const char *help; /* one line */
};

/* Reads `map` into `target` by `keys` (ended by name == NULL). Unknown keys, wrong types and values out of
 * range are errors at their place, with the nearest valid key; the first one in the file is reported. `given`
 * (may be NULL) gets bit i for each keys[i] that the user wrote. `map` NULL reads as an empty mapping;
 * `where` (may be NULL) is the node to blame for a missing required key. */
int fm_keys_read(const struct fm_key *keys, const struct fm_node *map, const struct fm_node *where,
                 const char *path, void *target, uint64_t *given, struct fm_notes *notes,
                 struct fm_error *err);

/* One word out of `choices` (NULL-terminated) by its index; anything else is an error with the nearest word.
 */
int fm_choice_read(const struct fm_node *node, const char *path, const char *const *choices, int *value,
                   struct fm_error *err);

/* `name` or `{name: {arguments}}`, as layers, losses and optimizers are written: gives the name node and the
 * arguments (NULL when there are none). Anything else is an error. */
int fm_named_read(const struct fm_node *node, const char *path, const struct fm_node **name,
                  const struct fm_node **arguments, struct fm_error *err);

/* A named table, for help: "data", "cv", "layer conv1d", ... */
struct fm_key_section {
    const char *title;
    const char *help; /* one line about the whole mapping */
    const struct fm_key *keys;
};

/* The section as text for a person: one line a key with its type, range, default and help. */
void fm_keys_print(const struct fm_key_section *section, struct fm_text *text);

#endif
