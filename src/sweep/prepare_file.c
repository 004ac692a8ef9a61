/* What the sweep file alone tells: the hashes that the journal compares, and the longest window of the whole
 * space. */
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "sweep/prepare.h"

#include <stdlib.h>
#include <string.h>

/* Keys that may change without --fresh: which trials there are (more of them change no earlier result), what
 * is kept, and what only people read. */
static bool may_change(const char *name)
{
    static const char *const keys[] = {"method",  "parameters", "trials", "run_cap",     "seed",
                                       "keep",    "name",       "tags",   "description", "program",
                                       "command", "entity",     "project"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(keys[i], name)) return true;
    return false;
}

static uint64_t text_hash(const char *text)
{
    struct fm_hash hash = {0};
    fm_hash_add(&hash, text, strlen(text));
    return fm_hash_value(&hash);
}

/* The members of the root that may change, or the others, as JSON. Of the others the order changes nothing,
 * so their keys are sorted; the order of parameters decides the order of trials. */
static char *part_text(const struct fm_node *root, bool changing)
{
    json_t *part = json_object();
    bool failed = !part;
    for (size_t i = 0; !failed && i < root->count; i++) {
        const char *name = root->keys[i]->text;
        if (may_change(name) == changing)
            failed = json_object_set_new(part, name, fm_node_json(root->items[i])) != 0;
    }
    size_t order = changing ? 0 : JSON_SORT_KEYS;
    char *text = failed ? NULL : json_dumps(part, JSON_COMPACT | order | JSON_REAL_PRECISION(17));
    json_decref(part);
    return text;
}

int fm_prepare_file(struct fm_prepared *p, struct fm_sweep *sweep, struct fm_error *err)
{
    memset(p, 0, sizeof *p);
    p->sweep = sweep;
    p->fingerprint_text = part_text(sweep->document.root, false);
    char *space = part_text(sweep->document.root, true);
    int rc = p->fingerprint_text && space ? 0 : fm_fail_memory(err);
    if (!rc) {
        p->fingerprint = text_hash(p->fingerprint_text);
        p->space_hash = text_hash(space);
        const struct fm_node *length = sweep->data.has_window ? sweep->data.window.length : NULL;
        if (length)
            rc = fm_search_bounds(sweep, length, "data.window.length", &p->shortest_length,
                                  &p->longest_length, err);
    }
    free(space);
    if (rc) fm_prepared_fini(p);
    return rc;
}
