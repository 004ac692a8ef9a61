/* Loads the data, finds examples and folds, and frees it all again; the trials are in prepare_trials.c. */
#include "sweep/prepare.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "sweep/prepare_private.h"

static bool reads_numbers(enum fm_loss_kind kind)
{
    return kind == FM_LOSS_MSE || kind == FM_LOSS_MAE || kind == FM_LOSS_HUBER;
}

int fm_prepare_load(struct fm_prepared *p, const struct fm_train_config *first, struct fm_error *err)
{
    const struct fm_sweep *sweep = p->sweep;
    enum fm_split_kind split = sweep->cv.split;
    struct fm_dataset_needs needs = {
        .numbers = reads_numbers(first->loss.kind),
        .distribution = first->loss.kind == FM_LOSS_CATEGORICAL_CROSSENTROPY,
        .time = sweep->data.time &&
                (split == FM_SPLIT_TIME_SERIES || (split == FM_SPLIT_HOLDOUT && !sweep->cv.shuffle)),
        .fold_column = split == FM_SPLIT_PREDEFINED ? sweep->cv.column : NULL,
        .longest_window = p->longest_length,
    };
    int rc = fm_dataset_load(&p->data, &sweep->data, &needs, &p->notes, err);
    if (rc) return rc;
    p->has_data = true;
    if (!p->longest_length) {
        p->longest_length = p->data.nrecords ? fm_dataset_record_length(&p->data, 0) : 0;
        p->shortest_length = p->longest_length;
    }
    int64_t lengths[2] = {p->longest_length, p->shortest_length};
    rc = fm_examples_init(&p->examples, &p->data, &sweep->data, lengths, 2, &p->notes, err);
    if (rc) return rc;
    return fm_prepare_view(p, p->longest_length, &p->longest, err);
}

int fm_prepare_view(struct fm_prepared *p, int64_t length, int64_t *index, struct fm_error *err)
{
    for (int64_t i = 0; i < p->nviews; i++)
        if (p->views[i].length == length) return *index = i, 0;
    struct fm_view *views = fm_realloc(p->views, (size_t)p->nviews + 1, sizeof *views);
    if (!views) return fm_fail_memory(err);
    p->views = views;
    int rc = fm_view_init(&views[p->nviews], &p->data, &p->examples, &p->sweep->data, length, &p->notes, err);
    if (rc) return rc;
    *index = p->nviews++;
    if (*index != p->longest && !fm_view_same_targets(&views[*index], &views[p->longest])) {
        views[*index].differs = true;
        fm_note(
            &p->notes, FM_NOTE,
            "targets of windows of %lld differ from those of %lld: folds are made by the longest window's",
            (long long)length, (long long)views[p->longest].length);
    }
    return 0;
}

int fm_prepare_split(struct fm_prepared *p, int64_t seed, int64_t *index, struct fm_error *err)
{
    for (int64_t i = 0; i < p->nsplits; i++)
        if (p->splits[i].seed == seed) return *index = i, 0;
    struct fm_split *splits = fm_realloc(p->splits, (size_t)p->nsplits + 1, sizeof *splits);
    if (!splits) return fm_fail_memory(err);
    p->splits = splits;
    int rc = fm_split_init(&splits[p->nsplits], &p->sweep->cv, &p->sweep->data, &p->views[p->longest], seed,
                           &p->notes, err);
    if (rc) return rc;
    *index = p->nsplits++;
    return 0;
}

/* The CSV of a predefined split, or NULL. */
static int fold_file_path(const struct fm_sweep *sweep, char **path, struct fm_error *err)
{
    const struct fm_cv_config *cv = &sweep->cv;
    *path = NULL;
    if (cv->split != FM_SPLIT_PREDEFINED || !cv->file) return 0;
    struct fm_text text = {0};
    if (cv->file->text[0] != '/') fm_text_add(&text, "%s/", sweep->folder);
    fm_text_add_string(&text, cv->file->text);
    if (text.failed) return fm_text_fini(&text), fm_fail_memory(err);
    *path = text.data;
    return 0;
}

/* The data's own stamps, and the fold file's, whose content decides the folds. */
int fm_prepare_stamps(struct fm_prepared *p, struct fm_error *err)
{
    p->stamps = fm_calloc((size_t)p->data.nfiles + 1, sizeof *p->stamps);
    if (!p->stamps) return fm_fail_memory(err);
    for (int64_t i = 0; i < p->data.nfiles; i++) {
        p->stamps[i] = p->data.files[i];
        p->stamps[i].path = fm_strdup(p->data.files[i].path);
        if (!p->stamps[i].path) return fm_fail_memory(err);
        p->nstamps++;
    }
    struct fm_file_stamp *stamp = &p->stamps[p->nstamps];
    int rc = fold_file_path(p->sweep, &stamp->path, err);
    if (rc || !stamp->path) return rc;
    p->nstamps++;
    return fm_stamp_read(stamp, err);
}

int fm_prepare_paths(const struct fm_prepared *p, char ***paths, int64_t *count, struct fm_error *err)
{
    int rc = fm_data_files(&p->sweep->data, paths, count, err);
    if (rc) return rc;
    char *folds = NULL;
    rc = fold_file_path(p->sweep, &folds, err);
    char **grown = rc || !folds ? NULL : fm_realloc(*paths, (size_t)*count + 1, sizeof **paths);
    if (grown) {
        *paths = grown;
        grown[(*count)++] = folds;
    } else if (folds) {
        fm_free(folds);
        rc = fm_fail_memory(err);
    }
    return rc;
}

/* The series and the fold file: with equal values and an equal fingerprint, results belong together. */
static uint64_t data_hash(const struct fm_prepared *p)
{
    struct fm_hash hash = {.state = p->data.hash};
    if (p->nstamps > p->data.nfiles) {
        uint64_t folds = p->stamps[p->data.nfiles].hash;
        fm_hash_add(&hash, &folds, sizeof folds);
    }
    return fm_hash_value(&hash);
}

int fm_prepare(struct fm_prepared *p, struct fm_sweep *sweep, const struct fm_backend *backend,
               struct fm_device *device, struct fm_error *err)
{
    int rc = fm_prepare_trials(p, sweep, backend, device, err);
    if (!rc) rc = fm_prepare_checks(p, err);
    if (!rc) rc = fm_prepare_stamps(p, err);
    if (!rc) p->data_hash = data_hash(p);
    return rc;
}

void fm_prepared_resident(const struct fm_prepared *p, struct fm_resident *resident)
{
    *resident = (struct fm_resident){.data = &p->data,
                                     .examples = &p->examples,
                                     .views = p->views,
                                     .nviews = p->nviews,
                                     .splits = p->splits,
                                     .nsplits = p->nsplits};
}

double fm_planned_flops(const struct fm_prepared *p, const struct fm_planned *trial, int64_t fold)
{
    if (trial->network < 0) return 0;
    const struct fm_fold *f = &p->splits[trial->split].fold[fold];
    const struct fm_program *program = p->networks[trial->network].program;
    const struct fm_train_config *config = &trial->config;
    double examples = (double)f->train.count;
    if (config->steps_per_epoch) examples = (double)config->steps_per_epoch * (double)config->batch_size;
    double watched = (double)(f->inner.count ? f->inner.count : f->val.count);
    return (double)config->epochs *
           (examples * fm_program_flops(program, true) + watched * fm_program_flops(program, false));
}

int64_t fm_planned_runs(const struct fm_prepared *p, const struct fm_planned *trial)
{
    return p->splits[trial->split].repeats * p->splits[trial->split].folds;
}

void fm_prepared_fini(struct fm_prepared *p)
{
    for (int64_t i = 0; i < p->ntrials; i++) {
        fm_trial_fini(&p->trials[i].trial);
        fm_free(p->trials[i].rates);
    }
    for (int64_t i = 0; i < p->nnetworks; i++) fm_program_free(p->networks[i].program);
    for (int64_t i = 0; i < p->nsplits; i++) fm_split_fini(&p->splits[i]);
    for (int64_t i = 0; i < p->nviews; i++) fm_view_fini(&p->views[i]);
    for (int64_t i = 0; i < p->nstamps; i++) fm_free(p->stamps[i].path);
    fm_examples_fini(&p->examples);
    if (p->has_data) fm_dataset_fini(&p->data);
    fm_free(p->stamps);
    fm_free(p->lost_plans);
    fm_free(p->trials);
    fm_free(p->networks);
    fm_free(p->splits);
    fm_free(p->views);
    fm_notes_fini(&p->notes);
    free(p->fingerprint_text);
    memset(p, 0, sizeof *p);
}
