#include "data/split.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/bits.h"
#include "data/deal.h"
#include "data/identical.h"
#include "data/pieces.h"

#include <math.h>
#include <string.h>

/* ---- which splitter ---- */

struct driver {
    const struct fm_cv_config *cv;
    const struct fm_data_config *config;
    const struct fm_view *view;
    struct fm_notes *notes;
    uint32_t seed;
    struct fm_mt19937 mt; /* the stream of all repeats */
    struct fm_identical same;
    uint64_t *hit; /* bit per example, for purging */
};

static int refuse_shuffle(const struct fm_deal_request *request, struct fm_error *err)
{
    if (!request->shuffle || request->inner) return 0;
    return fm_deal_fail(
        request, err,
        "cv.shuffle: true does not go with this split, whose folds follow from order, groups or a file");
}

static int deal(struct driver *d, const struct fm_deal_request *request, const struct fm_members *members,
                struct fm_deal *out, struct fm_error *err)
{
    int status = 0;
    switch (request->kind) {
    case FM_SPLIT_KFOLD: return fm_deal_kfold(request, members, out, err);
    case FM_SPLIT_STRATIFIED: return fm_deal_stratified(request, members, out, err);
    case FM_SPLIT_GROUP: return fm_deal_group(request, members, out, err);
    case FM_SPLIT_STRATIFIED_GROUP: return fm_deal_stratified_group(request, members, out, err);
    case FM_SPLIT_HOLDOUT:
        return request->shuffle ? fm_deal_shuffled_holdout(request, members, out, err)
                                : fm_deal_ordered_holdout(request, members, out, err);
    default: break;
    }
    if ((status = refuse_shuffle(request, err)) != 0) return status;
    switch (request->kind) {
    case FM_SPLIT_BLOCKED: return fm_deal_blocked(request, members, out, err);
    case FM_SPLIT_TIME_SERIES: return fm_deal_time_series(request, members, out, err);
    case FM_SPLIT_LEAVE_ONE_GROUP_OUT: return fm_deal_leave_one_group_out(request, members, out, err);
    default: return fm_deal_predefined(request, members, d->config, out, err);
    }
}

static int outer_request(const struct driver *d, struct fm_deal_request *request, int64_t n,
                         struct fm_error *err)
{
    const struct fm_cv_config *cv = d->cv;
    *request = (struct fm_deal_request){.cv = cv,
                                        .kind = cv->split,
                                        .folds = cv->folds,
                                        .shuffle = cv->shuffle,
                                        .test_count = cv->test_count};
    if (cv->folds > FM_MOST_FOLDS)
        return fm_deal_fail(request, err, "cv.folds is %lld; the most is %d", (long long)cv->folds,
                            FM_MOST_FOLDS);
    if (cv->split == FM_SPLIT_TIME_SERIES && cv->test_size > 0)
        return fm_deal_fail(request, err,
                            "cv.test_size of time_series is a whole number of examples, not a share");
    if (cv->split != FM_SPLIT_HOLDOUT) return 0;
    if (cv->test_count == 0)
        request->test_count = (int64_t)ceil((cv->test_size > 0 ? cv->test_size : 0.25) * (double)n);
    if (request->test_count < n) return 0;
    return fm_deal_fail(request, err, "cv.test_size takes %lld of %lld examples and leaves none to train on",
                        (long long)request->test_count, (long long)n);
}

/* Fold 0 of the outer kind with round(1 / test_size) folds; where a kind has no folds of its own, the one
 * that sweep-file.md names in its place, with that kind's default for shuffling. */
static int inner_request(const struct driver *d, struct fm_deal_request *request, int64_t n,
                         struct fm_error *err)
{
    const struct fm_cv_config *cv = d->cv;
    double share = cv->inner_test_size;
    *request = (struct fm_deal_request){
        .cv = cv, .kind = cv->split, .shuffle = cv->shuffle, .inner = true, .folds = 2};
    if (!(share > 0 && share < 1))
        return fm_deal_fail(request, err, "its test_size must lie between 0 and 1");
    if (1 / share < (double)INT32_MAX) request->folds = (int64_t)nearbyint(1 / share);
    if (request->folds < 2 && cv->split != FM_SPLIT_HOLDOUT && cv->split != FM_SPLIT_TIME_SERIES)
        request->folds = 2;
    if (cv->split == FM_SPLIT_PREDEFINED) {
        request->kind = FM_SPLIT_KFOLD;
        request->shuffle = true;
    } else if (cv->split == FM_SPLIT_LEAVE_ONE_GROUP_OUT) {
        request->kind = FM_SPLIT_GROUP;
        request->shuffle = false;
    } else if (cv->split == FM_SPLIT_TIME_SERIES) {
        request->kind = FM_SPLIT_HOLDOUT;
        request->shuffle = false;
    }
    request->test_count = (int64_t)ceil(share * (double)n);
    if (request->kind != FM_SPLIT_HOLDOUT || request->test_count < n) return 0;
    return fm_deal_fail(request, err, "its test_size takes all %lld examples", (long long)n);
}

/* ---- purging ---- */

/* Adds first, first + step, ... without those that are hit. */
static void add_spared(struct fm_indexset_builder *b, const uint64_t *hit, int64_t first, int64_t step,
                       int64_t count)
{
    if (step != 1) {
        for (int64_t i = 0; i < count; i++) {
            if (!fm_bits_get(hit, first + i * step)) fm_indexset_add(b, first + i * step);
        }
        return;
    }
    int64_t end = first + count;
    for (int64_t p = fm_bits_next_zero(hit, first, end); p < end;) {
        int64_t q = fm_bits_next_one(hit, p, end);
        fm_indexset_add_run(b, p, q - p, 1);
        p = fm_bits_next_zero(hit, q, end);
    }
}

static int remove_hit(struct fm_indexset *set, const uint64_t *hit, struct fm_error *err)
{
    struct fm_indexset_builder builder;
    struct fm_indexset spared;
    int64_t cursor = 0, first, step, count;
    fm_indexset_builder_init(&builder, 1);
    while (fm_stretch_next(set, &cursor, &first, &step, &count))
        add_spared(&builder, hit, first, step, count);
    int status = fm_indexset_finish(&builder, &spared, err);
    if (status != 0) return status;
    fm_indexset_fini(set);
    *set = spared;
    return 0;
}

/* Members of `train` that share positions with `against` are marked and counted. */
static int mark(struct driver *d, const struct fm_indexset *train, const struct fm_indexset *against,
                int64_t after, int64_t *count, struct fm_error *err)
{
    int64_t n = d->view->examples->count;
    int status = fm_mark_sharing(d->view, d->config, train, against, after, d->hit, err);
    if (status == 0) *count = fm_bits_count(d->hit, n);
    return status;
}

static void clear_hit(struct driver *d)
{
    memset(d->hit, 0, (size_t)fm_bits_words(d->view->examples->count) * sizeof *d->hit);
}

static int purge(struct driver *d, struct fm_fold *fold, const struct fm_indexset *against,
                 struct fm_error *err)
{
    int64_t purged = 0, all = 0;
    if (!d->cv->purge && d->cv->embargo <= 0) return 0;
    clear_hit(d);
    int status = mark(d, &fold->train, against, 0, &purged, err);
    all = purged;
    if (status == 0 && d->cv->embargo > 0) status = mark(d, &fold->train, against, d->cv->embargo, &all, err);
    if (status == 0 && all > 0) status = remove_hit(&fold->train, d->hit, err);
    fold->purged += purged;
    fold->embargoed += all - purged;
    return status;
}

/* ---- one fold ---- */

static int fold_fail(struct driver *d, const struct fm_fold *fold, const char *part, struct fm_error *err)
{
    struct fm_deal_request request = {.cv = d->cv};
    char why[160] = "";
    if (fold->purged + fold->embargoed > 0)
        snprintf(why, sizeof why,
                 ": purging took %lld and the embargo %lld examples; use fewer folds, or shorter "
                 "windows or embargo",
                 (long long)fold->purged, (long long)fold->embargoed);
    if (fold->name)
        return fm_deal_fail(&request, err, "fold %lld ('%.80s') has an empty %s part%s",
                            (long long)fold->fold, fold->name, part, why);
    return fm_deal_fail(&request, err, "fold %lld has an empty %s part%s", (long long)fold->fold, part, why);
}

static int make_inner(struct driver *d, struct fm_fold *fold, struct fm_error *err)
{
    struct fm_members members = {d->view, &fold->train, fold->train.count};
    struct fm_deal_request request;
    struct fm_deal parts = {0};
    struct fm_indexset train = {0};
    struct fm_mt19937 mt;
    fm_mt19937_init(&mt, d->seed);
    int status = inner_request(d, &request, members.n, err);
    request.mt = &mt;
    if (status == 0) status = deal(d, &request, &members, &parts, err);
    if (status == 0) status = fm_deal_fold(&parts, &members, 0, &train, &fold->inner, err);
    fm_deal_fini(&parts);
    if (status != 0) return status;
    fm_indexset_fini(&fold->train);
    fold->train = train;
    if (fold->inner.count == 0) return fold_fail(d, fold, "inner", err);
    return purge(d, fold, &fold->inner, err);
}

static void count_stretch(const struct fm_packed *classes, int64_t first, int64_t step, int64_t count,
                          int64_t *counts)
{
    if (classes->bits != 1 || step != 1) {
        for (int64_t i = 0; i < count; i++) counts[fm_packed_get(classes, first + i * step)]++;
        return;
    }
    const uint8_t *bytes = classes->data;
    int64_t end = first + count, i = first, ones = 0;
    for (; i < end && i % 8 != 0; i++) ones += fm_packed_get(classes, i);
    for (; i + 64 <= end; i += 64) {
        uint64_t word;
        memcpy(&word, bytes + i / 8, sizeof word);
        ones += __builtin_popcountll(word);
    }
    for (; i < end; i++) ones += fm_packed_get(classes, i);
    counts[1] += ones;
    counts[0] += count - ones;
}

static int count_classes(const struct fm_view *view, const struct fm_indexset *set, int64_t **counts,
                         struct fm_error *err)
{
    if (!view->class_counts) return 0;
    *counts = fm_calloc((size_t)view->data->nclasses, sizeof **counts);
    if (!*counts) return fm_fail_memory(err);
    int64_t cursor = 0, first, step, count;
    while (fm_stretch_next(set, &cursor, &first, &step, &count))
        count_stretch(&view->classes, first, step, count, *counts);
    return 0;
}

static int finish_fold(struct driver *d, struct fm_fold *fold, struct fm_error *err)
{
    int status;
    if (fold->val.count == 0) return fold_fail(d, fold, "validation", err);
    if (fold->train.count == 0) return fold_fail(d, fold, "training", err);
    if ((status = purge(d, fold, &fold->val, err)) != 0) return status;
    if (fold->train.count == 0) return fold_fail(d, fold, "training", err);
    if (d->cv->has_inner && (status = make_inner(d, fold, err)) != 0) return status;
    if (fold->train.count == 0) return fold_fail(d, fold, "training", err);
    if (!d->cv->purge && d->cv->embargo <= 0) {
        clear_hit(d);
        if ((status = mark(d, &fold->train, &fold->val, 0, &fold->shared, err)) != 0) return status;
    }
    fold->identical = fm_identical_count(&d->same, d->view, &fold->train, &fold->val);
    if ((status = count_classes(d->view, &fold->train, &fold->train_classes, err)) != 0) return status;
    if ((status = count_classes(d->view, &fold->val, &fold->val_classes, err)) != 0) return status;
    if (d->cv->has_inner && (status = count_classes(d->view, &fold->inner, &fold->inner_classes, err)) != 0)
        return status;
    return fm_fold_fit_scale(fold, d->view, d->config, d->notes, err);
}

/* ---- notes ---- */

enum { NAMED_FOLDS = 8, NAMED_CLASSES = 20 };

static void list_fold(struct fm_text *text, int64_t *listed, int64_t fold)
{
    if (*listed < NAMED_FOLDS) fm_text_add(text, "%s%lld", *listed > 0 ? ", " : "", (long long)fold);
    if (*listed == NAMED_FOLDS) fm_text_add(text, ", ...");
    (*listed)++;
}

static void note_class(const struct fm_split *split, const struct fm_view *view, int64_t class,
                       struct fm_notes *notes)
{
    struct fm_text val = {0}, train = {0};
    int64_t nval = 0, ntrain = 0;
    char number[FM_NUMBER_TEXT], shown[80];
    const char *name =
        view->data->class_names ? view->data->class_names[class] : fm_format_number((double)class, number);
    for (int64_t f = 0; f < split->folds; f++) {
        if (split->fold[f].val_classes[class] == 0) list_fold(&val, &nval, f);
        if (split->fold[f].train_classes[class] == 0) list_fold(&train, &ntrain, f);
    }
    fm_show(name, strlen(name), shown, sizeof shown);
    if (nval > 0 && val.data)
        fm_note(notes, FM_WARNING,
                "class '%s' has %lld example%s%s: the validation part of fold%s %s has none of it, so its "
                "scores mean "
                "something else",
                shown, (long long)view->class_counts[class], view->class_counts[class] == 1 ? "" : "s",
                view->class_counts[class] < split->folds ? ", fewer than there are folds" : "",
                nval > 1 ? "s" : "", val.data);
    if (ntrain > 0 && train.data)
        fm_note(notes, FM_WARNING,
                "class '%s' has %lld example%s, but none in the training part of fold%s %s", shown,
                (long long)view->class_counts[class], view->class_counts[class] == 1 ? "" : "s",
                ntrain > 1 ? "s" : "", train.data);
    fm_text_fini(&val);
    fm_text_fini(&train);
}

/* A rare class is told once, for the first repeat; its folds in the others are in the counts of `plan`. */
static void note_classes(const struct fm_split *split, const struct fm_view *view, struct fm_notes *notes)
{
    int64_t told = 0, rare = 0;
    for (int64_t c = 0; view->class_counts && c < view->data->nclasses; c++) {
        if (view->class_counts[c] == 0) continue;
        bool lacking = false;
        for (int64_t f = 0; f < split->folds && !lacking; f++)
            lacking = split->fold[f].val_classes[c] == 0 || split->fold[f].train_classes[c] == 0;
        if (!lacking) continue;
        rare++;
        if (told == NAMED_CLASSES) continue;
        note_class(split, view, c, notes);
        told++;
    }
    if (rare > told)
        fm_note(notes, FM_WARNING, "%lld more classes are missing from a fold", (long long)(rare - told));
}

/* Shared positions and equal records over all folds: counts, and the worst fold. */
static int report_leaks(const struct driver *d, const struct fm_split *split, struct fm_error *err)
{
    int64_t leaking = 0, doubled = 0, all = split->repeats * split->folds;
    const struct fm_fold *worst = &split->fold[0], *twin = &split->fold[0];
    for (int64_t i = 0; i < all; i++) {
        const struct fm_fold *f = &split->fold[i];
        leaking += f->shared > 0;
        doubled += f->identical > 0;
        if ((double)f->shared / (double)f->train.count > (double)worst->shared / (double)worst->train.count)
            worst = f;
        if (f->identical > twin->identical) twin = f;
    }
    if (doubled > 0)
        fm_note(d->notes, FM_WARNING,
                "in %lld of %lld folds records are validated whose input equals that of a training record; "
                "most in fold "
                "%lld: %lld records; group them to keep them together",
                (long long)doubled, (long long)all, (long long)twin->fold, (long long)twin->identical);
    if (leaking == 0) return 0;
    if (d->cv->leak == FM_LEAK_ERROR) {
        struct fm_deal_request request = {.cv = d->cv};
        return fm_deal_fail(
            &request, err,
            "cv.leak is error, and in %lld of %lld folds training windows share positions with "
            "validation windows (fold %lld: %lld of %lld); set cv.purge: true, or split by blocks or "
            "groups",
            (long long)leaking, (long long)all, (long long)worst->fold, (long long)worst->shared,
            (long long)worst->train.count);
    }
    fm_note(d->notes, FM_WARNING,
            "in %lld of %lld folds training windows share positions with validation windows (worst: fold "
            "%lld, %lld of "
            "%lld), so scores are too good; set cv.purge: true, or split by blocks or groups",
            (long long)leaking, (long long)all, (long long)worst->fold, (long long)worst->shared,
            (long long)worst->train.count);
    return 0;
}

/* ---- all of it ---- */

static int make_folds(const struct driver *d, struct fm_split *split, const struct fm_deal *parts,
                      struct fm_error *err)
{
    struct fm_deal_request request = {.cv = d->cv};
    int64_t all, repeats = d->cv->repeats > 0 ? d->cv->repeats : 1;
    split->folds = parts->folds;
    if (!fm_multiply(repeats, parts->folds, &all) || all > FM_MOST_PARTS)
        return fm_deal_fail(&request, err, "cv.repeats is %lld; with %lld fold%s the most is %lld",
                            (long long)repeats, (long long)parts->folds, parts->folds == 1 ? "" : "s",
                            (long long)(FM_MOST_PARTS / parts->folds));
    split->fold = fm_calloc((size_t)all, sizeof *split->fold);
    if (!split->fold) return fm_fail_memory(err);
    split->repeats = repeats;
    if (!parts->names) return 0;
    split->names = fm_calloc((size_t)parts->folds, sizeof *split->names);
    if (!split->names) return fm_fail_memory(err);
    for (int64_t f = 0; f < parts->folds; f++) {
        split->names[f] = fm_strdup(parts->names[f]);
        if (!split->names[f]) return fm_fail_memory(err);
    }
    return 0;
}

static int make_repeat(struct driver *d, struct fm_split *split, int64_t repeat, struct fm_error *err)
{
    struct fm_members members = {d->view, NULL, d->view->examples->count};
    struct fm_deal_request request;
    struct fm_deal parts = {0};
    int status = outer_request(d, &request, members.n, err);
    request.mt = &d->mt;
    if (status == 0) status = deal(d, &request, &members, &parts, err);
    if (status == 0 && repeat == 0) status = make_folds(d, split, &parts, err);
    if (status == 0 && parts.moved > 0)
        fm_note(d->notes, FM_NOTE,
                "%lld groups were moved so that no fold is empty: spreading the classes evenly alone would "
                "have left "
                "one without examples",
                (long long)parts.moved);
    for (int64_t f = 0; status == 0 && f < split->folds; f++) {
        struct fm_fold *fold = &split->fold[repeat * split->folds + f];
        *fold = (struct fm_fold){.repeat = repeat, .fold = f, .name = split->names ? split->names[f] : NULL};
        status = fm_deal_fold(&parts, &members, f, &fold->train, &fold->val, err);
    }
    fm_deal_fini(&parts);
    for (int64_t f = 0; status == 0 && f < split->folds; f++)
        status = finish_fold(d, &split->fold[repeat * split->folds + f], err);
    return status;
}

static int check_seed(const struct fm_cv_config *cv, int64_t seed, struct fm_error *err)
{
    const struct fm_node *where = cv->seed ? cv->seed : cv->where;
    if (seed >= 0 && seed <= UINT32_MAX) return 0;
    return fm_fail_at(err, FM_EFILE, where ? where->file : NULL, where ? where->line : 0,
                      where ? where->column : 0, "cv.seed is %lld, but must be in 0..4294967295",
                      (long long)seed);
}

int fm_split_init(struct fm_split *split, const struct fm_cv_config *cv, const struct fm_data_config *config,
                  const struct fm_view *longest, int64_t seed, struct fm_notes *notes, struct fm_error *err)
{
    *split = (struct fm_split){0};
    int status = check_seed(cv, seed, err);
    if (status != 0) return status;
    split->seed = (uint32_t)seed;
    struct driver d = {.cv = cv, .config = config, .view = longest, .notes = notes, .seed = split->seed};
    fm_mt19937_init(&d.mt, split->seed);
    d.hit = fm_calloc((size_t)fm_bits_words(longest->examples->count), sizeof *d.hit);
    if (!d.hit) return fm_fail_memory(err);
    status = fm_identical_init(&d.same, longest->data, err);
    for (int64_t r = 0; status == 0 && (r == 0 || r < split->repeats); r++)
        status = make_repeat(&d, split, r, err);
    fm_identical_fini(&d.same);
    fm_free(d.hit);
    if (status == 0) status = report_leaks(&d, split, err);
    if (status == 0) note_classes(split, longest, notes);
    if (status != 0) fm_split_fini(split);
    return status;
}

static void fold_fini(struct fm_fold *fold)
{
    fm_indexset_fini(&fold->train);
    fm_indexset_fini(&fold->inner);
    fm_indexset_fini(&fold->val);
    fm_free(fold->train_classes);
    fm_free(fold->val_classes);
    fm_free(fold->inner_classes);
    fm_free(fold->shift);
    fm_free(fold->factor);
    fm_free(fold->scale_center);
    fm_free(fold->scale_divisor);
}

void fm_split_fini(struct fm_split *split)
{
    for (int64_t i = 0; split->fold && i < split->repeats * split->folds; i++) fold_fini(&split->fold[i]);
    for (int64_t f = 0; split->names && f < split->folds; f++) fm_free(split->names[f]);
    fm_free(split->fold);
    fm_free(split->names);
    *split = (struct fm_split){0};
}

int64_t fm_split_bytes(const struct fm_split *split)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < split->repeats * split->folds; i++) {
        const struct fm_fold *f = &split->fold[i];
        bytes += (int64_t)sizeof *f + fm_indexset_bytes(&f->train) + fm_indexset_bytes(&f->inner) +
                 fm_indexset_bytes(&f->val);
    }
    return bytes;
}
