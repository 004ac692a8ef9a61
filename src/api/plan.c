/* Plans and splits: read only. */
#include "api/bench.h"
#include "api/handle.h"
#include "base/machine.h"
#include "base/text.h"

#include <math.h>

/* How many networks at a batch size are explained at most. */
#define EXPLAINED_TEXT 8
#define EXPLAINED_JSON 256

#include "report/export.h"
#include "report/plan.h"

/* How long it may take: the arithmetic of all runs against what one lane was just seen to do. Not known of a
 * device with memory of its own: how much faster many lanes are there than one cannot be told from one. */
static double expected_seconds(const struct foldmill *f)
{
    const struct fm_prepared *p = &f->prepared;
    double flops = 0, rate = 0;
    struct fm_error own = {0};
    for (int64_t t = 0; t < p->ntrials; t++) {
        if (p->trials[t].network < 0) continue;
        for (int64_t r = 0; r < fm_planned_runs(p, &p->trials[t]); r++)
            flops += fm_planned_flops(p, &p->trials[t], r);
    }
    if (flops <= 0 || f->backend->memory(f->device) > 0 || fm_bench_rate(f->backend, 0.1, &rate, &own) ||
        rate <= 0)
        return NAN;
    int64_t lanes = f->backend->lanes(f->device), cores = fm_usable_cores(), runs = fm_plan_runs(p);
    if (lanes > cores) lanes = cores;
    if (lanes > runs) lanes = runs;
    return flops / rate / (double)(lanes > 0 ? lanes : 1);
}

/* Of a device with memory of its own: a run fails its trials that do not fit, so a plan tells them before. */
static void tell_memory(struct foldmill *f)
{
    const struct fm_prepared *p = &f->prepared;
    const int64_t offered = f->backend->memory(f->device);
    int64_t trials = 0, most = 0;
    char given[FM_BYTES_TEXT], needed[FM_BYTES_TEXT];
    for (int64_t t = 0; offered > 0 && t < p->ntrials; t++) {
        if (p->trials[t].network < 0 || p->trials[t].bytes <= offered) continue;
        trials++;
        if (p->trials[t].bytes > most) most = p->trials[t].bytes;
    }
    if (trials)
        fm_note(
            &f->prepared.notes, FM_WARNING,
            "%lld trial%s would fail for want of memory: a run needs up to %s and the device offers %s; take "
            "a smaller batch_size or network, end other programs that use the device, or take --device cpu",
            (long long)trials, trials == 1 ? "" : "s", fm_show_bytes(most, needed),
            fm_show_bytes(offered, given));
}

/* On failure nothing is left in `extra`, unless it is FM_ESHAPE: then there is a plan to show. */
static int plan(struct foldmill *f, struct fm_plan_extra *extra, int64_t most_explained, struct fm_error *err)
{
    *extra = (struct fm_plan_extra){0};
    int rc = fm_handle_needs_sweep(f, err);
    if (!rc) rc = fm_handle_device(f, err);
    if (!rc) rc = fm_handle_plan(f, err);
    if (rc) return rc;
    fm_plan_notes(&f->prepared, &f->prepared.notes);
    tell_memory(f);
    bool valid = false;
    for (int64_t t = 0; t < f->prepared.ntrials; t++) valid |= f->prepared.trials[t].network >= 0;
    *extra = (struct fm_plan_extra){.before = &f->notes,
                                    .device = f->backend->describe(f->device),
                                    .lanes = f->backend->lanes(f->device),
                                    .seconds = expected_seconds(f)};
    if (valid && f->explain) {
        rc = fm_plan_explain(extra, &f->prepared, f->backend, f->device, most_explained, err);
        if (rc) fm_plan_explain_free(extra);
        return rc;
    }
    if (!valid) fm_fail(err, FM_ESHAPE, "no trial is valid; the first one: %s", f->prepared.trials[0].reason);
    return valid ? 0 : FM_ESHAPE;
}

/* A plan without a valid trial is told as such, and shown. */
static int give(int rc, struct fm_text *text, char **out, struct fm_error *err)
{
    int given = fm_text_give(text, out, err);
    return given ? given : rc;
}

int fm_plan_json(struct foldmill *f, char **out, struct fm_error *err)
{
    struct fm_plan_extra extra;
    struct fm_text text = {0};
    *out = NULL;
    int rc = plan(f, &extra, EXPLAINED_JSON, err);
    if (rc && !(rc == FM_ESHAPE && f->has_plan)) return rc;
    fm_plan_write_json(&text, &f->prepared, &extra);
    fm_plan_explain_free(&extra);
    return give(rc, &text, out, err);
}

int fm_plan_text(struct foldmill *f, const struct fm_look *look, char **out, struct fm_error *err)
{
    struct fm_plan_extra extra;
    struct fm_text text = {0};
    *out = NULL;
    int rc = plan(f, &extra, EXPLAINED_TEXT, err);
    if (rc && !(rc == FM_ESHAPE && f->has_plan)) return rc;
    fm_plan_write_text(&text, &f->prepared, &extra, look);
    fm_plan_explain_free(&extra);
    return give(rc, &text, out, err);
}

int fm_split_csv(struct foldmill *f, const struct fm_writer *out, struct fm_error *err)
{
    int rc = fm_handle_needs_sweep(f, err);
    if (!rc) rc = fm_handle_plan(f, err);
    return rc ? rc : fm_export_split(&f->prepared, out, err);
}
