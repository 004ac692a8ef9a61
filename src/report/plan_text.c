/* The plan for people. */
#include "report/look.h"
#include "report/plan.h"
#include "report/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CLASSES_SHOWN 12
#define TRIALS_NAMED  8
#define ROWS_SHOWN    40

static const char *human_seconds(double seconds, char buffer[32])
{
    if (seconds < 1.5)
        snprintf(buffer, 32, "a second");
    else if (seconds < 100)
        snprintf(buffer, 32, "%.0f seconds", seconds);
    else if (seconds < 6000)
        snprintf(buffer, 32, "%.0f minutes", seconds / 60);
    else if (seconds < 48 * 3600)
        snprintf(buffer, 32, "%.1f hours", seconds / 3600);
    else
        snprintf(buffer, 32, "%.1f days", seconds / 86400);
    return buffer;
}

static const char *class_name(const struct fm_prepared *p, int64_t k, char *buffer, size_t size)
{
    if (p->data.class_names)
        return fm_show(p->data.class_names[k], strlen(p->data.class_names[k]), buffer, size);
    snprintf(buffer, size, "%" PRId64, k);
    return buffer;
}

static void add_head(struct fm_text *text, const struct fm_prepared *p, const struct fm_look *look)
{
    const struct fm_split *split = &p->splits[0];
    int64_t invalid = 0;
    char name[160];
    for (int64_t t = 0; t < p->ntrials; t++) invalid += p->trials[t].network < 0;
    fm_text_add(text, "%s%s%s: %" PRId64 " trial%s", fm_look_bold(look),
                fm_show(p->sweep->name, strlen(p->sweep->name), name, sizeof name), fm_look_off(look),
                p->ntrials, p->ntrials == 1 ? "" : "s");
    if (invalid) fm_text_add(text, ", %" PRId64 " of them invalid", invalid);
    fm_text_add(text, "; %" PRId64 " fold%s", split->folds, split->folds == 1 ? "" : "s");
    if (split->repeats > 1) fm_text_add(text, ", %" PRId64 " times", split->repeats);
    fm_text_add(text, ": %" PRId64 " runs\n", fm_plan_runs(p));
}

static void add_data(struct fm_text *text, const struct fm_prepared *p)
{
    const struct fm_view *view = &p->views[p->longest];
    char bytes[FM_BYTES_TEXT], name[40];
    fm_text_add(text, "%" PRId64 " examples of %" PRId64 " positions in %" PRId64 " record%s",
                p->examples.count, view->length, p->data.nrecords, p->data.nrecords == 1 ? "" : "s");
    if (p->examples.short_records)
        fm_text_add(text, " (%" PRId64 " too short for one)", p->examples.short_records);
    fm_text_add(text, ", %s in memory\n", fm_show_bytes(fm_plan_resident(p), bytes));
    if (!view->class_counts || !p->data.nclasses) return;
    fm_text_add_string(text, "Classes: ");
    for (int64_t k = 0; k < p->data.nclasses && k < CLASSES_SHOWN; k++)
        fm_text_add(text, "%s%s %" PRId64 " (%.1f %%)", k ? ", " : "", class_name(p, k, name, sizeof name),
                    view->class_counts[k], 100 * (double)view->class_counts[k] / (double)p->examples.count);
    if (p->data.nclasses > CLASSES_SHOWN)
        fm_text_add(text, ", and %" PRId64 " more", p->data.nclasses - CLASSES_SHOWN);
    fm_text_add_string(text, "\n");
}

static void add_views(struct fm_text *text, const struct fm_prepared *p)
{
    if (p->nviews < 2) return;
    fm_text_add_string(text, "Window lengths:");
    for (int64_t v = 0; v < p->nviews; v++) {
        int64_t trials = 0;
        for (int64_t t = 0; t < p->ntrials; t++) trials += p->trials[t].view == v;
        fm_text_add(text, "%s %" PRId64 " (%" PRId64 " trials)", v ? "," : "", p->views[v].length, trials);
    }
    if (p->examples.lost)
        fm_text_add(text, "; the longest costs %" PRId64 " examples that the shortest would have",
                    p->examples.lost);
    fm_text_add_string(text, "\n");
}

static void add_fold(struct fm_table *table, const struct fm_prepared *p, const struct fm_split *split,
                     const struct fm_fold *fold, bool classes)
{
    if (split->repeats > 1)
        fm_table_cell(table, "%" PRId64 ".%" PRId64, fold->repeat, fold->fold);
    else
        fm_table_cell(table, "%" PRId64, fold->fold);
    fm_table_cell(table, "%s", fold->name ? fold->name : "");
    int64_t counts[] = {fold->train.count, fold->inner.count, fold->val.count, fold->purged,
                        fold->embargoed,   fold->shared,      fold->identical};
    for (int i = 0; i < 7; i++) {
        if (i == 1 && !p->sweep->cv.has_inner)
            fm_table_cell(table, "%s", "");
        else
            fm_table_cell(table, "%" PRId64, counts[i]);
    }
    for (int part = 0; part < 2; part++) {
        const int64_t *of = part ? fold->val_classes : fold->train_classes;
        struct fm_text cell = {0};
        for (int64_t k = 0; classes && of && k < p->data.nclasses; k++)
            fm_text_add(&cell, "%s%" PRId64, k ? " " : "", of[k]);
        if (cell.failed) table->failed = true;
        fm_table_cell(table, "%s", cell.data ? cell.data : "");
        fm_text_fini(&cell);
    }
}

static void add_folds(struct fm_text *text, const struct fm_prepared *p, const struct fm_look *look)
{
    bool classes = p->data.nclasses > 0 && p->data.nclasses <= CLASSES_SHOWN, named = false;
    const struct fm_split *split = &p->splits[0];
    int64_t n = split->repeats * split->folds;
    for (int64_t f = 0; f < n; f++) named |= split->fold[f].name != NULL;
    struct fm_table table;
    fm_table_init(&table, 11);
    table.left[1] = table.left[9] = table.left[10] = true;
    const char *head[] = {"fold",
                          named ? "name" : "",
                          "train",
                          p->sweep->cv.has_inner ? "inner" : "",
                          "val",
                          "purged",
                          "embargoed",
                          "shared",
                          "identical",
                          classes ? "classes in train" : "",
                          classes ? "in val" : ""};
    for (int i = 0; i < 11; i++) fm_table_cell(&table, "%s", head[i]);
    for (int64_t f = 0; f < n && f < ROWS_SHOWN; f++) add_fold(&table, p, split, &split->fold[f], classes);
    fm_text_add_string(text, "\n");
    fm_table_print(&table, text, "  ", fm_look_bold(look), fm_look_off(look));
    if (n > ROWS_SHOWN) fm_text_add(text, "  and %" PRId64 " more (plan --json has all)\n", n - ROWS_SHOWN);
    if (p->nsplits > 1)
        fm_text_add(text,
                    "  These are the folds of cv.seed %" PRIu32 "; other seeds split anew (%" PRId64 ").\n",
                    split->seed, p->nsplits - 1);
}

static void add_networks(struct fm_text *text, const struct fm_prepared *p, const struct fm_look *look)
{
    struct fm_table table;
    char bytes[FM_BYTES_TEXT];
    fm_table_init(&table, 3);
    table.left[0] = true;
    fm_table_cell(&table, "network of trials");
    fm_table_cell(&table, "weights");
    fm_table_cell(&table, "memory of a run");
    for (int64_t n = 0; n < p->nnetworks && n < ROWS_SHOWN; n++) {
        struct fm_text cell = {0};
        int64_t trials = 0;
        for (int64_t t = 0; t < p->ntrials; t++) {
            if (p->trials[t].network != n) continue;
            if (trials++ < TRIALS_NAMED)
                fm_text_add(&cell, "%s%" PRId64, trials > 1 ? ", " : "", p->trials[t].number);
        }
        if (trials > TRIALS_NAMED) fm_text_add(&cell, " and %" PRId64 " more", trials - TRIALS_NAMED);
        if (cell.failed) table.failed = true;
        fm_table_cell(&table, "%s", cell.data ? cell.data : "");
        fm_text_fini(&cell);
        fm_table_cell(&table, "%" PRId64, p->networks[n].program->param_count);
        fm_table_cell(&table, "%s", p->networks[n].bytes ? fm_show_bytes(p->networks[n].bytes, bytes) : "");
    }
    fm_text_add_string(text, "\n");
    fm_table_print(&table, text, "  ", fm_look_bold(look), fm_look_off(look));
    if (p->nnetworks > ROWS_SHOWN)
        fm_text_add(text, "  and %" PRId64 " more (plan --json has all)\n", p->nnetworks - ROWS_SHOWN);
}

static void add_invalid(struct fm_text *text, const struct fm_prepared *p, const struct fm_look *look)
{
    int64_t invalid = 0;
    for (int64_t t = 0; t < p->ntrials; t++) {
        if (p->trials[t].network >= 0) continue;
        if (!invalid++)
            fm_text_add(text, "\n%sInvalid, will not run%s\n", fm_look_warn(look), fm_look_off(look));
        if (invalid <= ROWS_SHOWN)
            fm_text_add(text, "  trial %" PRId64 ": %s\n", p->trials[t].number, p->trials[t].reason);
    }
    if (invalid > ROWS_SHOWN)
        fm_text_add(text, "  and %" PRId64 " more (plan --json has all)\n", invalid - ROWS_SHOWN);
}

static void add_explained(struct fm_text *text, const struct fm_plan_extra *extra, const struct fm_look *look)
{
    for (int64_t i = 0; i < extra->nexplained; i++) {
        const struct fm_plan_explained *e = &extra->explained[i];
        fm_text_add(text, "\n%sTrial %" PRId64, fm_look_bold(look), e->first);
        if (e->trials > 1) fm_text_add(text, " and %" PRId64 " more", e->trials - 1);
        fm_text_add(text, ": batches of %" PRId64 "%s\n%s", e->batch, fm_look_off(look), e->text);
    }
    if (extra->more_explained)
        fm_text_add(text, "\nand %" PRId64 " more (plan --explain --json has more of them)\n",
                    extra->more_explained);
}

static void add_notes(struct fm_text *text, const struct fm_notes *notes, const struct fm_look *look)
{
    for (size_t i = 0; notes && i < notes->count; i++) {
        bool warning = notes->level[i] == FM_WARNING;
        fm_text_add(text, "%s%s%s: %s\n", warning ? fm_look_warn(look) : "", warning ? "warning" : "note",
                    warning ? fm_look_off(look) : "", notes->text[i]);
    }
}

void fm_plan_write_text(struct fm_text *text, const struct fm_prepared *p, const struct fm_plan_extra *extra,
                        const struct fm_look *look)
{
    char seconds[32];
    add_head(text, p, look);
    add_data(text, p);
    add_views(text, p);
    add_folds(text, p, look);
    if (p->nnetworks) add_networks(text, p, look);
    add_invalid(text, p, look);
    fm_text_add_string(text, "\n");
    if (extra->device) {
        fm_text_add(text, "Device: %s", extra->device);
        if (extra->lanes)
            fm_text_add(text, ", %" PRId64 " lane%s", extra->lanes, extra->lanes == 1 ? "" : "s");
        fm_text_add_string(text, "\n");
    }
    add_explained(text, extra, look);
    if (extra->nexplained) fm_text_add_string(text, "\n");
    if (!isnan(extra->seconds))
        fm_text_add(text, "Expected time: about %s, less where runs stop early\n",
                    human_seconds(extra->seconds, seconds));
    add_notes(text, extra->before, look);
    add_notes(text, &p->notes, look);
}
