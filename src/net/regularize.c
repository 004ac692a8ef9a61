#include "net/regularize.h"

#include <stddef.h>
#include <string.h>

#include "base/text.h"

struct regularizer_arguments {
    double l1, l2;
};

#define L1_KEY(fallback)                                                                                     \
    {                                                                                                        \
        "l1", FM_KEY_NUMBER, offsetof(struct regularizer_arguments, l1), 0, 1e300, NULL, fallback, 0,        \
            "factor of the sum of |w|"                                                                       \
    }
#define L2_KEY(fallback)                                                                                     \
    {                                                                                                        \
        "l2", FM_KEY_NUMBER, offsetof(struct regularizer_arguments, l2), 0, 1e300, NULL, fallback, 0,        \
            "factor of the sum of w^2"                                                                       \
    }

const struct fm_key fm_l1_keys[] = {L1_KEY("0.01"), {0}};
const struct fm_key fm_l2_keys[] = {L2_KEY("0.01"), {0}};
const struct fm_key fm_l1_l2_keys[] = {L1_KEY("0.0"), L2_KEY("0.0"), {0}};

static const char *const names[] = {"l1", "l2", "l1_l2"};
static const struct fm_key *const tables[] = {fm_l1_keys, fm_l2_keys, fm_l1_l2_keys};
#define REGULARIZERS 3

int fm_regularizer_read(const struct fm_node *node, const char *path, const char *argument, double *l1,
                        double *l2, struct fm_error *err)
{
    struct regularizer_arguments x = {0};
    const struct fm_node *name, *arguments;
    struct fm_text where = {0};
    if (fm_node_type(node) == FM_NULL) return 0;
    fm_text_add(&where, "%s.%s", path, argument);
    if (where.failed) return fm_fail_memory(err);
    int rc = fm_named_read(node, where.data, &name, &arguments, err);
    size_t i = 0;
    while (!rc && i < REGULARIZERS && strcmp(names[i], name->text) != 0) i++;
    if (!rc && i == REGULARIZERS) {
        char shown[64];
        rc =
            fm_node_fail(name, FM_EFILE, err, "%s: no regularizer is called '%s'; l1, l2 and l1_l2 are there",
                         where.data, fm_show(name->text, name->size, shown, sizeof shown));
    }
    if (!rc) rc = fm_keys_read(tables[i], arguments, name, where.data, &x, NULL, NULL, err);
    if (!rc) {
        *l1 = x.l1;
        *l2 = x.l2;
    }
    fm_text_fini(&where);
    return rc;
}
