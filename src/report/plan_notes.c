#include "report/plan.h"

#include <inttypes.h>

#include "base/text.h"

#define FOLDS_NAMED 10

/* With one class only - of several, with any class absent - there is no ranking to score. */
static const char *missing_class(const struct fm_prepared *p, const struct fm_fold *fold)
{
    for (int64_t k = 0; fold->val_classes && k < p->data.nclasses; k++)
        if (fold->val_classes[k] == 0) return p->data.class_names ? p->data.class_names[k] : "?";
    return NULL;
}

static void note_metrics(const struct fm_prepared *p, const struct fm_split *split, struct fm_notes *notes)
{
    int64_t told = 0, folds = split->repeats * split->folds;
    struct fm_text names = {0};
    for (int64_t f = 0; f < folds; f++) {
        const struct fm_fold *fold = &split->fold[f];
        const char *class = missing_class(p, fold);
        if (!class || told++ >= FOLDS_NAMED) continue;
        fm_text_add(&names, "%sfold %" PRId64, told > 1 ? ", " : "", fold->fold);
        if (split->repeats > 1) fm_text_add(&names, " of repeat %" PRId64, fold->repeat);
        fm_text_add(&names, " (class %s)", class);
    }
    if (told > FOLDS_NAMED) fm_text_add(&names, ", and %" PRId64 " more", told - FOLDS_NAMED);
    if (told && !names.failed)
        fm_note(
            notes, FM_WARNING,
            "in %" PRId64 " of %" PRId64
            " folds a class has no validation example, so auc and pr_auc are not defined there and left out "
            "of means: %s",
            told, folds, names.data);
    fm_text_fini(&names);
}

void fm_plan_notes(const struct fm_prepared *p, struct fm_notes *notes)
{
    for (int64_t s = 0; s < p->nsplits; s++) note_metrics(p, &p->splits[s], notes);
}

int64_t fm_plan_resident(const struct fm_prepared *p)
{
    int64_t bytes = fm_dataset_bytes(&p->data) + fm_indexset_bytes(&p->examples.anchors);
    for (int64_t v = 0; v < p->nviews; v++) {
        bytes += fm_packed_bytes(&p->views[v].classes);
        if (p->views[v].values) bytes += p->examples.count * p->views[v].width * (int64_t)sizeof(float);
    }
    for (int64_t s = 0; s < p->nsplits; s++)
        for (int64_t f = 0; f < p->splits[s].repeats * p->splits[s].folds; f++) {
            const struct fm_fold *fold = &p->splits[s].fold[f];
            bytes += fm_indexset_bytes(&fold->train) + fm_indexset_bytes(&fold->val) +
                     fm_indexset_bytes(&fold->inner);
        }
    return bytes;
}

int64_t fm_plan_runs(const struct fm_prepared *p)
{
    int64_t runs = 0;
    for (int64_t t = 0; t < p->ntrials; t++)
        if (p->trials[t].network >= 0) runs += fm_planned_runs(p, &p->trials[t]);
    return runs;
}
