/* How the device would compute each network: asked for every distinct pair of network and batch size. */
#include "report/plan.h"

#include <stdlib.h>

#include "base/memory.h"

/* By network, batch size, number of the trial. */
static int compare(const void *a, const void *b)
{
    const struct fm_plan_explained *x = a, *y = b;
    if (x->network != y->network) return x->network < y->network ? -1 : 1;
    if (x->batch != y->batch) return x->batch < y->batch ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

/* One entry a valid trial, then equal ones together; gives how many are left. */
static int64_t gather_pairs(struct fm_plan_explained *pair, const struct fm_prepared *p)
{
    int64_t n = 0, kept = 0;
    for (int64_t t = 0; t < p->ntrials; t++)
        if (p->trials[t].network >= 0)
            pair[n++] = (struct fm_plan_explained){.network = p->trials[t].network,
                                                   .batch = p->trials[t].config.batch_size,
                                                   .first = p->trials[t].number,
                                                   .trials = 1};
    qsort(pair, (size_t)n, sizeof *pair, compare);
    for (int64_t i = 0; i < n; i++) {
        struct fm_plan_explained *last = kept ? &pair[kept - 1] : NULL;
        if (last && last->network == pair[i].network && last->batch == pair[i].batch)
            last->trials++;
        else
            pair[kept++] = pair[i];
    }
    return kept;
}

int fm_plan_explain(struct fm_plan_extra *extra, const struct fm_prepared *p,
                    const struct fm_backend *backend, const struct fm_device *device, int64_t most,
                    struct fm_error *err)
{
    struct fm_plan_explained *pair = fm_calloc((size_t)p->ntrials + 1, sizeof *pair);
    if (!pair) return fm_fail_memory(err);
    const int64_t pairs = gather_pairs(pair, p);
    extra->explained = pair;
    for (int64_t i = 0; i < pairs && i < most; i++) {
        struct fm_text text = {0};
        const struct fm_program *program = p->networks[pair[i].network].program;
        int rc = backend->explain(device, program, pair[i].batch, &text, err);
        if (!rc && (text.failed || !text.data)) rc = fm_fail_memory(err);
        if (rc) {
            fm_text_fini(&text);
            return rc;
        }
        pair[i].text = text.data;
        extra->nexplained = i + 1;
    }
    extra->more_explained = pairs - extra->nexplained;
    return 0;
}

void fm_plan_explain_free(struct fm_plan_extra *extra)
{
    struct fm_plan_explained *pair = (struct fm_plan_explained *)extra->explained;
    for (int64_t i = 0; i < extra->nexplained; i++) fm_free(pair[i].text);
    fm_free(pair);
    extra->explained = NULL;
    extra->nexplained = extra->more_explained = 0;
}
