/* The range of one scalar over all trials, present and to come, read from the space without drawing any. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "search/candidates.h"
#include "search/trials.h"

struct bounds {
    const struct fm_sweep *sweep;
    struct fm_space space;
    const char *path;
    int64_t least, most; /* 0 = none yet */
    struct fm_error *err;
};

static int widen_by_parameter(struct bounds *b, const struct fm_parameter *p, int depth);

/* `depth`: values of parameters may hold parameters once; a deeper one is refused when the search begins. */
static int widen(struct bounds *b, const struct fm_node *node, int depth)
{
    const char *name;
    size_t size;
    int64_t value = 0;
    int found = fm_parameter_find(node, &name, &size, b->err);
    if (found < 0) return found;
    if (found) {
        int64_t place = fm_space_find(&b->space, name, size);
        if (place < 0) return fm_space_fail_unknown(&b->space, node, name, size, b->err);
        return depth < 2 ? widen_by_parameter(b, &b->space.items[place], depth + 1) : 0;
    }
    int code = fm_node_integer(node, b->path, &value, b->err);
    if (code) return code;
    if (value < 1 || value > INT32_MAX)
        return fm_node_fail(node, FM_EFILE, b->err, "%s must be between 1 and %d, not %lld", b->path,
                            INT32_MAX, (long long)value);
    if (value > b->most) b->most = value;
    if (!b->least || value < b->least) b->least = value;
    return 0;
}

/* A lattice has its ends at its first and last point, wherever min and max are. */
static int widen_by_distribution(struct bounds *b, const struct fm_parameter *p, int depth)
{
    if (p->count == 0)
        return fm_node_fail(p->key, FM_EFILE, b->err,
                            "%s needs a parameter with 'values' or 'min' and 'max': the examples of a sweep "
                            "are those of its longest window",
                            b->path);
    int code = 0;
    for (int end = 0; !code && end < 2; end++) {
        struct fm_drawn drawn;
        fm_parameter_at(p, end ? p->count - 1 : 0, &drawn);
        code = widen(b, drawn.value, depth);
    }
    return code;
}

static int widen_by_parameter(struct bounds *b, const struct fm_parameter *p, int depth)
{
    const struct fm_node *trials = b->sweep->trials;
    bool own = b->sweep->method != FM_METHOD_LIST || p->distribution == FM_CONSTANT;
    int code = 0;
    if (own && p->values)
        for (int64_t i = 0; !code && i < p->count; i++) code = widen(b, p->values[i], depth);
    else if (own && p->distribution != FM_LISTED)
        code = widen_by_distribution(b, p, depth);
    for (size_t i = 0; !code && trials && i < trials->count; i++) {
        const struct fm_node *value = fm_list_find(trials->items[i], p->name);
        if (value) code = widen(b, value, depth);
    }
    return code;
}

int fm_search_bounds(struct fm_sweep *sweep, const struct fm_node *node, const char *path, int64_t *least,
                     int64_t *most, struct fm_error *err)
{
    struct bounds b = {.sweep = sweep, .path = path, .err = err};
    int code = fm_parameter_is(node) ? fm_space_read(&b.space, sweep, NULL, err) : 0;
    if (!code) code = widen(&b, node, 0);
    if (!code && !b.most)
        code = fm_node_fail(node, FM_EFILE, err, "no trial gives the parameter of %s a value", path);
    fm_free(b.space.items);
    *least = b.least;
    *most = b.most;
    return code;
}
