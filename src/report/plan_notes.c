#include "report/plan.h"

#include <inttypes.h>

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
    int64_t told = 0;
    for (int64_t f = 0; f < split->repeats * split->folds; f++) {
        const struct fm_fold *fold = &split->fold[f];
        const char *class = missing_class(p, fold);
        if (!class) continue;
        if (told++ < FOLDS_NAMED)
            fm_note(notes, FM_WARNING,
                    "fold %" PRId64 " of repeat %" PRId64
                    " has no validation example of class %s: auc and pr_auc are "
                    "not defined there and left out of means",
                    fold->fold, fold->repeat, class);
    }
    if (told > FOLDS_NAMED)
        fm_note(notes, FM_WARNING,
                "%" PRId64 " folds lack a class in validation: auc and pr_auc are not defined there", told);
}

/* What windows share is the splitter's own warning (data/split.c). */
static void note_twins(const struct fm_split *split, struct fm_notes *notes)
{
    int64_t identical = 0;
    for (int64_t f = 0; f < split->repeats * split->folds; f++) identical += split->fold[f].identical;
    if (identical)
        fm_note(notes, FM_WARNING,
                "%" PRId64
                " validation records, over all folds, have an identical twin in training: a group keeps "
                "twins together",
                identical);
}

void fm_plan_notes(const struct fm_prepared *p, struct fm_notes *notes)
{
    for (int64_t s = 0; s < p->nsplits; s++) {
        note_metrics(p, &p->splits[s], notes);
        note_twins(&p->splits[s], notes);
    }
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
