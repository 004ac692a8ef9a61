/* `plan --json`, format 1, documented in sweep-file.md. Keys are only ever added. */
#include "report/json_writer.h"
#include "report/plan.h"

#include <stdio.h>
#include <string.h>

static const char *class_name(const struct fm_prepared *p, int64_t k, char buffer[24])
{
    if (p->data.class_names) return p->data.class_names[k];
    snprintf(buffer, 24, "%lld", (long long)k);
    return buffer;
}

static void write_classes(struct fm_json *j, const struct fm_prepared *p, const int64_t *counts)
{
    char number[24];
    fm_json_open(j, "classes", '[');
    for (int64_t k = 0; counts && k < p->data.nclasses; k++) {
        fm_json_open(j, NULL, '{');
        fm_json_string(j, "name", class_name(p, k, number));
        fm_json_integer(j, "count", counts[k]);
        fm_json_close(j, '}');
    }
    fm_json_close(j, ']');
}

static void write_views(struct fm_json *j, const struct fm_prepared *p)
{
    fm_json_open(j, "views", '[');
    for (int64_t v = 0; v < p->nviews; v++) {
        int64_t trials = 0;
        for (int64_t t = 0; t < p->ntrials; t++) trials += p->trials[t].view == v;
        fm_json_open(j, NULL, '{');
        fm_json_integer(j, "length", p->views[v].length);
        fm_json_integer(j, "trials", trials);
        write_classes(j, p, p->views[v].class_counts);
        fm_json_close(j, '}');
    }
    fm_json_close(j, ']');
}

static void write_fold(struct fm_json *j, const struct fm_prepared *p, const struct fm_split *split,
                       const struct fm_fold *fold)
{
    char number[24];
    j->line = "  ";
    fm_json_open(j, NULL, '{');
    if (p->nsplits > 1) fm_json_integer(j, "seed", split->seed);
    fm_json_integer(j, "repeat", fold->repeat);
    fm_json_integer(j, "fold", fold->fold);
    if (fold->name) fm_json_string(j, "name", fold->name);
    fm_json_integer(j, "train", fold->train.count);
    if (fold->inner.count) fm_json_integer(j, "inner", fold->inner.count);
    fm_json_integer(j, "val", fold->val.count);
    fm_json_integer(j, "purged", fold->purged);
    fm_json_integer(j, "embargoed", fold->embargoed);
    fm_json_integer(j, "shared", fold->shared);
    fm_json_integer(j, "identical", fold->identical);
    fm_json_open(j, "classes", '[');
    for (int64_t k = 0; fold->train_classes && fold->val_classes && k < p->data.nclasses; k++) {
        fm_json_open(j, NULL, '{');
        fm_json_string(j, "name", class_name(p, k, number));
        fm_json_integer(j, "train", fold->train_classes[k]);
        if (fold->inner.count && fold->inner_classes) fm_json_integer(j, "inner", fold->inner_classes[k]);
        fm_json_integer(j, "val", fold->val_classes[k]);
        fm_json_close(j, '}');
    }
    fm_json_close(j, ']');
    fm_json_close(j, '}');
}

static void write_folds(struct fm_json *j, const struct fm_prepared *p)
{
    fm_json_open(j, "folds", '[');
    for (int64_t s = 0; s < p->nsplits; s++)
        for (int64_t f = 0; f < p->splits[s].repeats * p->splits[s].folds; f++)
            write_fold(j, p, &p->splits[s], &p->splits[s].fold[f]);
    fm_json_close(j, ']');
}

static void write_networks(struct fm_json *j, const struct fm_prepared *p)
{
    fm_json_open(j, "networks", '[');
    for (int64_t n = 0; n < p->nnetworks; n++) {
        j->line = "  ";
        fm_json_open(j, NULL, '{');
        fm_json_open(j, "trials", '[');
        for (int64_t t = 0; t < p->ntrials; t++)
            if (p->trials[t].network == n) fm_json_integer(j, NULL, p->trials[t].number);
        fm_json_close(j, ']');
        fm_json_integer(j, "param_count", p->networks[n].program->param_count);
        fm_json_integer(j, "bytes", p->networks[n].bytes);
        fm_json_close(j, '}');
    }
    fm_json_close(j, ']');
    fm_json_open(j, "invalid", '[');
    for (int64_t t = 0; t < p->ntrials; t++) {
        if (p->trials[t].network >= 0) continue;
        j->line = "  ";
        fm_json_open(j, NULL, '{');
        fm_json_integer(j, "trial", p->trials[t].number);
        fm_json_string(j, "reason", p->trials[t].reason);
        fm_json_close(j, '}');
    }
    fm_json_close(j, ']');
}

/* The text as lines: it is for people, and its form may change. */
static void write_lines(struct fm_json *j, const char *text)
{
    fm_json_open(j, "lines", '[');
    for (const char *line = text; *line;) {
        char shown[512];
        const size_t size = strcspn(line, "\n");
        j->line = "    ";
        fm_json_string(j, NULL, fm_show(line, size, shown, sizeof shown));
        line += size + (line[size] == '\n');
    }
    fm_json_close(j, ']');
}

static void write_explained(struct fm_json *j, const struct fm_plan_extra *extra)
{
    fm_json_open(j, "explain", '[');
    for (int64_t i = 0; i < extra->nexplained; i++) {
        const struct fm_plan_explained *e = &extra->explained[i];
        j->line = "  ";
        fm_json_open(j, NULL, '{');
        fm_json_integer(j, "network", e->network);
        fm_json_integer(j, "batch_size", e->batch);
        fm_json_integer(j, "first_trial", e->first);
        fm_json_integer(j, "trials", e->trials);
        write_lines(j, e->text);
        fm_json_close(j, '}');
    }
    fm_json_close(j, ']');
    fm_json_integer(j, "explain_more", extra->more_explained);
}

static void write_notes(struct fm_json *j, const struct fm_notes *notes)
{
    for (size_t i = 0; notes && i < notes->count; i++) {
        j->line = "  ";
        fm_json_string(j, NULL, notes->text[i]);
    }
}

void fm_plan_write_json(struct fm_text *text, const struct fm_prepared *p, const struct fm_plan_extra *extra)
{
    struct fm_json j = {.text = text};
    fm_json_open(&j, NULL, '{');
    fm_json_integer(&j, "format", 1);
    fm_json_string(&j, "sweep", p->sweep->name);
    fm_json_integer(&j, "examples", p->examples.count);
    fm_json_integer(&j, "records", p->data.nrecords);
    fm_json_integer(&j, "short_records", p->examples.short_records);
    fm_json_integer(&j, "resident_bytes", fm_plan_resident(p));
    write_classes(&j, p, p->views[p->longest].class_counts);
    write_views(&j, p);
    write_folds(&j, p);
    fm_json_integer(&j, "trials", p->ntrials);
    fm_json_integer(&j, "runs", fm_plan_runs(p));
    write_networks(&j, p);
    fm_json_number(&j, "seconds", extra->seconds);
    if (extra->explained) write_explained(&j, extra);
    fm_json_open(&j, "notes", '[');
    write_notes(&j, extra->before);
    write_notes(&j, &p->notes);
    fm_json_close(&j, ']');
    fm_json_close(&j, '}');
    fm_text_add_string(text, "\n");
}
