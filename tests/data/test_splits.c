/* Folds against scikit-learn's, index for index, and the cases of ../shared/cases that are about folds. */
#include <criterion/criterion.h>

#include "support/series.h"
#include "support/support.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/deal.h"
#include "data/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One golden case as a data set: an example is a position; groups become one record a run of equal groups. */
struct golden {
    struct fm_dataset data;
    struct fm_data_config config;
    struct fm_examples examples;
    struct fm_view view;
    struct fm_notes notes;
    struct fm_error err;
    int64_t *order; /* example e is the golden's sample order[e] */
    int64_t n;
};

static int64_t int_at(const json_t *list, size_t i)
{
    return json_integer_value(json_array_get(list, i));
}

static int compare_ints(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Numbers become 0, 1, ... in order. */
static int64_t make_dense(int64_t *values, int64_t n)
{
    int64_t *sorted = malloc((size_t)n * sizeof *sorted), count = 0;
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_ints);
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || sorted[i] != sorted[count - 1]) sorted[count++] = sorted[i];
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t *found = bsearch(&values[i], sorted, (size_t)count, sizeof *sorted, compare_ints);
        values[i] = found - sorted;
    }
    free(sorted);
    return count;
}

static void golden_init(struct golden *g, const json_t *entry)
{
    const json_t *y = json_object_get(entry, "y"), *groups = json_object_get(entry, "groups");
    *g = (struct golden){.n = json_integer_value(json_object_get(entry, "n"))};
    int64_t n = g->n, nrecords = 0, ngroups = 0, nclasses = 2;
    int64_t *class = calloc((size_t)n, sizeof *class), *group = calloc((size_t)n, sizeof *group);
    int64_t *lengths = calloc((size_t)n, sizeof *lengths), *of_record = calloc((size_t)n, sizeof *of_record);
    g->order = malloc((size_t)n * sizeof *g->order);
    for (int64_t i = 0; i < n; i++) {
        g->order[i] = i;
        class[i] = y ? int_at(y, (size_t)i) : i % 2;
        group[i] = groups ? int_at(groups, (size_t)i) : 0;
    }
    nclasses = make_dense(class, n);
    ngroups = make_dense(group, n);
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || group[i] != group[i - 1]) of_record[nrecords++] = group[i];
        lengths[nrecords - 1]++;
    }
    ts_series_init(&g->data, lengths, nrecords, 0);
    ts_series_numbers(&g->data, 1);
    ts_series_classes(&g->data, nclasses, false);
    if (groups) ts_series_groups(&g->data, of_record, ngroups);
    for (int64_t i = 0; i < n; i++) {
        g->data.values[i] = (float)i;
        fm_packed_set(&g->data.classes, i, (uint32_t) class[i]);
    }
    g->config = ts_series_config(1, FM_ALIGN_START, FM_EDGE_DROP, FM_LABEL_ANCHOR);
    int64_t length = 1;
    cr_assert_eq(fm_examples_init(&g->examples, &g->data, &g->config, &length, 1, &g->notes, &g->err), 0);
    cr_assert_eq(fm_view_init(&g->view, &g->data, &g->examples, &g->config, 1, &g->notes, &g->err), 0, "%s",
                 g->err.text);
    free(class);
    free(group);
    free(lengths);
    free(of_record);
}

static void golden_fini(struct golden *g)
{
    fm_view_fini(&g->view);
    fm_examples_fini(&g->examples);
    ts_series_fini(&g->data);
    fm_notes_fini(&g->notes);
    free(g->order);
}

static bool wanted_kind(const char *name, const json_t *entry, struct fm_cv_config *cv)
{
    static const struct {
        const char *name;
        enum fm_split_kind kind;
        bool shuffle;
    } kinds[] = {
        {"kfold", FM_SPLIT_KFOLD, false},
        {"stratified_kfold", FM_SPLIT_STRATIFIED, false},
        {"group_kfold", FM_SPLIT_GROUP, false},
        {"stratified_group_kfold", FM_SPLIT_STRATIFIED_GROUP, false},
        {"time_series_split", FM_SPLIT_TIME_SERIES, false},
        {"leave_one_group_out", FM_SPLIT_LEAVE_ONE_GROUP_OUT, false},
        {"repeated_kfold", FM_SPLIT_KFOLD, true},
        {"repeated_stratified_kfold", FM_SPLIT_STRATIFIED, true},
        {"shuffle_split", FM_SPLIT_HOLDOUT, true},
        {"train_test_split", FM_SPLIT_HOLDOUT, false},
    };
    (void)entry;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) != 0) continue;
        cv->split = kinds[i].kind;
        cv->shuffle = kinds[i].shuffle;
        return true;
    }
    return false;
}

static int64_t read_args(const json_t *entry, const char *name, struct fm_cv_config *cv)
{
    const json_t *args = json_object_get(entry, "args"), *size = json_object_get(args, "test_size");
    int64_t splits = json_integer_value(json_object_get(args, "n_splits"));
    if (json_object_get(args, "shuffle")) cv->shuffle = json_is_true(json_object_get(args, "shuffle"));
    cv->folds = splits;
    cv->repeats = 1;
    if (json_object_get(args, "n_repeats"))
        cv->repeats = json_integer_value(json_object_get(args, "n_repeats"));
    if (strcmp(name, "shuffle_split") == 0) cv->repeats = splits;
    cv->max_train_size = json_integer_value(json_object_get(args, "max_train_size"));
    cv->gap = json_integer_value(json_object_get(args, "gap"));
    if (json_is_integer(size)) cv->test_count = json_integer_value(size);
    if (json_is_real(size)) cv->test_size = json_real_value(size);
    return json_integer_value(json_object_get(args, "random_state"));
}

static void compare_set(const struct golden *g, const struct fm_indexset *set, const json_t *list,
                        const char *name, size_t fold, const char *part)
{
    size_t count = json_array_size(list);
    int64_t *wanted = malloc((count + 1) * sizeof *wanted), example;
    for (size_t i = 0; i < count; i++) wanted[i] = int_at(list, i);
    qsort(wanted, count, sizeof *wanted, compare_ints);
    cr_assert_eq(set->count, (int64_t)count, "%s fold %zu %s: %lld of %zu", name, fold, part,
                 (long long)set->count, count);
    struct fm_cursor cursor = {0};
    for (size_t i = 0; fm_indexset_next(set, &cursor, &example); i++)
        cr_assert_eq(g->order[example], wanted[i], "%s fold %zu %s: member %zu is %lld, not %lld", name, fold,
                     part, i, (long long)g->order[example], (long long)wanted[i]);
    free(wanted);
}

Test(splits, equal_scikit_learn)
{
    json_t *golden = ts_golden("splits"), *cases = json_object_get(golden, "cases"), *entry;
    size_t index, compared = 0;
    cr_assert(golden && json_array_size(cases) > 0);
    json_array_foreach(cases, index, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "splitter"));
        struct fm_cv_config cv = {0};
        struct golden g;
        struct fm_split split;
        if (!wanted_kind(name, entry, &cv)) continue;
        int64_t seed = read_args(entry, name, &cv);
        golden_init(&g, entry);
        int status = fm_split_init(&split, &cv, &g.config, &g.view, seed, &g.notes, &g.err);
        cr_assert_eq(status, 0, "case %zu, %s: %s", index, name, g.err.text);
        const json_t *folds = json_object_get(entry, "folds");
        cr_assert_eq(split.folds * split.repeats, (int64_t)json_array_size(folds), "case %zu, %s", index,
                     name);
        for (size_t f = 0; f < json_array_size(folds); f++) {
            const json_t *fold = json_array_get(folds, f);
            compare_set(&g, &split.fold[f].val, json_object_get(fold, "test"), name, f, "test");
            compare_set(&g, &split.fold[f].train, json_object_get(fold, "train"), name, f, "train");
        }
        compared++;
        fm_split_fini(&split);
        golden_fini(&g);
    }
    cr_assert_gt(compared, 150);
    json_decref(golden);
}

/* Dealing blocks with a class in few of them, as scikit-learn deals groups; folds are then numbered by their
 * first example. */
Test(splits, blocks_are_dealt_like_groups)
{
    json_t *golden = ts_golden("splits"), *cases = json_object_get(golden, "cases"), *entry;
    size_t index, compared = 0;
    json_array_foreach(cases, index, entry)
    {
        const json_t *groups = json_object_get(entry, "groups"), *args = json_object_get(entry, "args");
        size_t n = json_array_size(groups);
        if (strcmp(json_string_value(json_object_get(entry, "splitter")), "stratified_group_kfold") != 0)
            continue;
        if (n != 60 || int_at(groups, 4) != 0 || int_at(groups, 5) != 1 || int_at(groups, 59) != 11 ||
            json_is_true(json_object_get(args, "shuffle")))
            continue;
        struct golden g;
        struct fm_split split;
        struct fm_cv_config cv = {.split = FM_SPLIT_BLOCKED, .blocks = 12, .repeats = 1};
        cv.folds = json_integer_value(json_object_get(args, "n_splits"));
        golden_init(&g, entry);
        cr_assert_eq(fm_split_init(&split, &cv, &g.config, &g.view, 0, &g.notes, &g.err), 0, "%s",
                     g.err.text);
        int64_t before = -1;
        for (int64_t f = 0; f < split.folds; f++) {
            int64_t first = fm_indexset_at(&split.fold[f].val, 0);
            cr_assert_gt(first, before);
            before = first;
            json_t *fold;
            size_t k;
            json_array_foreach(json_object_get(entry, "folds"), k, fold)
            {
                if (int_at(json_object_get(fold, "test"), 0) != first) continue;
                compare_set(&g, &split.fold[f].val, json_object_get(fold, "test"), "blocked", k, "test");
                compared++;
            }
        }
        fm_split_fini(&split);
        golden_fini(&g);
    }
    cr_assert_eq(compared, 2 + 3 + 4);
    json_decref(golden);
}

/* ---- cases from other people's work ---- */

struct rows {
    struct fm_dataset data;
    struct fm_data_config config;
    struct fm_examples examples;
    struct fm_view view;
    struct fm_notes notes;
    struct fm_error err;
};

static void rows_init(struct rows *s, const int64_t *lengths, int64_t nrecords, const char *classes,
                      int64_t nclasses)
{
    *s = (struct rows){.config = ts_series_config(1, FM_ALIGN_START, FM_EDGE_DROP, FM_LABEL_FIRST)};
    ts_series_init(&s->data, lengths, nrecords, 0);
    ts_series_numbers(&s->data, 1);
    ts_series_classes(&s->data, nclasses, false);
    for (int64_t i = 0; i < s->data.positions; i++) {
        s->data.values[i] = (float)i;
        fm_packed_set(&s->data.classes, i, (uint32_t)(classes[i] - '0'));
    }
}

static int rows_view(struct rows *s, int64_t length)
{
    int status = fm_examples_init(&s->examples, &s->data, &s->config, &length, 1, &s->notes, &s->err);
    if (status == 0)
        status = fm_view_init(&s->view, &s->data, &s->examples, &s->config, length, &s->notes, &s->err);
    return status;
}

static void rows_fini(struct rows *s)
{
    fm_view_fini(&s->view);
    fm_examples_fini(&s->examples);
    ts_series_fini(&s->data);
    fm_notes_fini(&s->notes);
}

static bool noted(const struct fm_notes *notes, const char *part)
{
    for (size_t i = 0; i < notes->count; i++) {
        if (strstr(notes->text[i], part)) return true;
    }
    return false;
}

static void expect_members(const struct fm_indexset *set, const char *wanted)
{
    char got[256] = "";
    struct fm_cursor cursor = {0};
    int64_t member;
    while (fm_indexset_next(set, &cursor, &member))
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%lld", *got ? " " : "", (long long)member);
    cr_assert_str_eq(got, wanted);
}

Test(splits, a07_a_class_rarer_than_folds)
{
    struct rows s;
    struct fm_split split;
    struct fm_cv_config cv = {.split = FM_SPLIT_STRATIFIED, .folds = 3, .repeats = 1};
    int64_t length = 15;
    rows_init(&s, &length, 1, "010020100100210", 3); /* A07.csv */
    cr_assert_eq(rows_view(&s, 1), 0, "%s", s.err.text);
    cr_assert_eq(s.view.class_counts[0], 9);
    cr_assert_eq(s.view.class_counts[1], 4);
    cr_assert_eq(s.view.class_counts[2], 2);
    cr_assert_eq(fm_split_init(&split, &cv, &s.config, &s.view, 0, &s.notes, &s.err), 0, "%s", s.err.text);
    expect_members(&split.fold[0].val, "0 1 2 3 6");
    expect_members(&split.fold[1].val, "4 5 7 8 9");
    expect_members(&split.fold[2].val, "10 11 12 13 14");
    cr_assert_eq(split.fold[0].val_classes[0], 3);
    cr_assert_eq(split.fold[0].val_classes[1], 2);
    cr_assert_eq(split.fold[0].val_classes[2], 0);
    cr_assert_eq(split.fold[1].train_classes[2], 1);
    cr_assert(noted(&s.notes,
                    "class '2' has 2 examples, fewer than there are folds: the validation part of fold 0"));
    fm_split_fini(&split);
    cv.folds = 10;
    cr_assert_eq(fm_split_init(&split, &cv, &s.config, &s.view, 0, &s.notes, &s.err), FM_EFILE);
    cr_assert(strstr(s.err.text, "10 folds exceed"), "%s", s.err.text);
    fm_error_clear(&s.err);
    cv.folds = 9;
    cr_assert_eq(fm_split_init(&split, &cv, &s.config, &s.view, 0, &s.notes, &s.err), 0, "%s", s.err.text);
    fm_split_fini(&split);
    rows_fini(&s);
}

static void a08(struct rows *s)
{
    int64_t lengths[] = {3, 1, 2, 3, 1, 2}, groups[] = {0, 1, 2, 3, 4, 5};
    rows_init(s, lengths, 6, "010101011101", 2);
    ts_series_groups(&s->data, groups, 6);
    cr_assert_eq(rows_view(s, 1), 0, "%s", s->err.text);
}

Test(splits, a08_few_groups_of_equal_sizes)
{
    struct rows s;
    struct fm_split split;
    struct fm_cv_config cv = {.split = FM_SPLIT_GROUP, .folds = 3, .repeats = 1};
    a08(&s);
    cr_assert_eq(fm_split_init(&split, &cv, &s.config, &s.view, 0, &s.notes, &s.err), 0, "%s", s.err.text);
    expect_members(&split.fold[0].val, "6 7 8 9");
    expect_members(&split.fold[1].val, "0 1 2 3");
    expect_members(&split.fold[2].val, "4 5 10 11");
    fm_split_fini(&split);
    cv.folds = 6;
    cr_assert_eq(fm_split_init(&split, &cv, &s.config, &s.view, 0, &s.notes, &s.err), 0, "%s", s.err.text);
    fm_split_fini(&split);
    cv.folds = 7;
    cr_assert_eq(fm_split_init(&split, &cv, &s.config, &s.view, 0, &s.notes, &s.err), FM_EFILE);
    cr_assert(strstr(s.err.text, "6 groups"), "%s", s.err.text);
    fm_error_clear(&s.err);
    cv = (struct fm_cv_config){.split = FM_SPLIT_LEAVE_ONE_GROUP_OUT, .repeats = 1};
    cr_assert_eq(fm_split_init(&split, &cv, &s.config, &s.view, 0, &s.notes, &s.err), 0, "%s", s.err.text);
    cr_assert_eq(split.folds, 6);
    cr_assert_str_eq(split.fold[4].name, "g4");
    fm_split_fini(&split);
    rows_fini(&s);
}

static void a15_split(bool purge, enum fm_leak leak, struct rows *s, struct fm_split *split, int status)
{
    int64_t lengths[] = {10, 3, 4};
    struct fm_cv_config cv = {
        .split = FM_SPLIT_BLOCKED, .folds = 2, .repeats = 1, .purge = purge, .leak = leak};
    rows_init(s, lengths, 3, "01010101010101010", 2);
    cr_assert_eq(rows_view(s, 4), 0, "%s", s->err.text);
    cr_assert_eq(fm_split_init(split, &cv, &s->config, &s->view, 0, &s->notes, &s->err), status, "%s",
                 s->err.text);
}

Test(splits, a15_windows_that_leak)
{
    struct rows s;
    struct fm_split split;
    a15_split(true, FM_LEAK_ERROR, &s, &split, 0);
    cr_assert_eq(s.examples.count, 8);
    cr_assert_eq(s.examples.short_records, 1);
    expect_members(&split.fold[0].val, "0 1 2 3");
    expect_members(&split.fold[0].train, "7");
    expect_members(&split.fold[1].val, "4 5 6 7");
    expect_members(&split.fold[1].train, "0");
    cr_assert_eq(split.fold[0].purged, 3);
    cr_assert_eq(split.fold[1].purged, 3);
    cr_assert_eq(split.fold[0].shared, 0);
    fm_split_fini(&split);
    rows_fini(&s);
    a15_split(false, FM_LEAK_WARN, &s, &split, 0);
    cr_assert_eq(split.fold[0].shared, 3);
    cr_assert_eq(split.fold[1].shared, 3);
    cr_assert_eq(split.fold[0].purged, 0);
    cr_assert(noted(&s.notes, "in 2 of 2 folds training windows share positions"));
    fm_split_fini(&split);
    rows_fini(&s);
    a15_split(false, FM_LEAK_ERROR, &s, &split, FM_EFILE);
    cr_assert(strstr(s.err.text, "3 of 4"), "%s", s.err.text);
    rows_fini(&s);
    int64_t strides[] = {3, 7}, counts[] = {4, 2};
    for (int i = 0; i < 2; i++) {
        int64_t lengths[] = {10, 3, 4};
        rows_init(&s, lengths, 3, "01010101010101010", 2);
        s.config.window.stride = strides[i];
        int64_t length = 4;
        cr_assert_eq(fm_examples_init(&s.examples, &s.data, &s.config, &length, 1, &s.notes, &s.err), 0);
        cr_assert_eq(s.examples.count, counts[i]);
        cr_assert(noted(&s.notes, "too short for a window of 4"));
        rows_fini(&s);
    }
}

/* scikit-learn's issue 34828: rounding noise leaves a fold without groups. Ours never has an empty fold. */
Test(splits, no_fold_is_empty)
{
    struct ts_random random = {.state = 5};
    for (int round = 0; round < 300; round++) {
        struct rows s;
        struct fm_split split;
        int64_t nrecords = 3 + ts_random_below(&random, 12), lengths[16], groups[16], total = 0;
        char classes[256];
        for (int64_t r = 0; r < nrecords; r++) {
            lengths[r] = 2 + ts_random_below(&random, 2);
            groups[r] = r;
            for (int64_t i = 0; i < lengths[r]; i++) classes[total++] = (char)('0' + (i + r) % 2);
        }
        struct fm_cv_config cv = {
            .split = FM_SPLIT_STRATIFIED_GROUP, .repeats = 2, .shuffle = round % 2 == 0};
        cv.folds = 2 + ts_random_below(&random, (uint32_t)(nrecords - 1));
        rows_init(&s, lengths, nrecords, classes, 2);
        ts_series_groups(&s.data, groups, nrecords);
        cr_assert_eq(rows_view(&s, 1), 0, "%s", s.err.text);
        int status = fm_split_init(&split, &cv, &s.config, &s.view, round, &s.notes, &s.err);
        cr_assert_eq(status, 0, "%s", s.err.text);
        for (int64_t f = 0; f < split.folds * split.repeats; f++) cr_assert_gt(split.fold[f].val.count, 0);
        fm_split_fini(&split);
        rows_fini(&s);
    }
}

/* The same issue, met for certain: scikit-learn 1.9.1 leaves a fold without groups here. */
Test(splits, empty_folds_are_filled)
{
    static const struct {
        int64_t groups, classes, folds, counts[24];
        int32_t scikit[7];
    } cases[] = {
        {7, 3, 7, {0, 0, 2, 0, 0, 2, 0, 2, 0, 0, 2, 0, 0, 2, 0, 0, 2, 0, 2, 0, 0}, {3, 6, 0, 6, 1, 2, 4}},
        {6, 3, 6, {2, 0, 0, 2, 0, 0, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 2, 0}, {4, 0, 1, 5, 2, 4}},
        {6, 2, 6, {0, 1, 0, 2, 2, 0, 3, 0, 3, 0, 0, 1}, {2, 4, 5, 0, 1, 5}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t fold[7];
        int64_t moved = 0;
        int changed = 0;
        cr_assert_eq(fm_spread_stratified(cases[i].counts, cases[i].groups, cases[i].classes, cases[i].folds,
                                          NULL, fold, &moved, NULL),
                     0);
        cr_assert_eq(moved, 1);
        bool used[7] = {false};
        for (int64_t g = 0; g < cases[i].groups; g++) {
            changed += fold[g] != cases[i].scikit[g];
            used[fold[g]] = true;
        }
        cr_assert_eq(changed, 1);
        for (int64_t f = 0; f < cases[i].folds; f++) cr_assert(used[f]);
    }
}

static void expect_error(struct rows *s, struct fm_cv_config cv, int64_t seed, const char *part)
{
    struct fm_split split;
    fm_error_clear(&s->err);
    cr_assert_eq(fm_split_init(&split, &cv, &s->config, &s->view, seed, &s->notes, &s->err), FM_EFILE, "%s",
                 part);
    cr_assert(strstr(s->err.text, part), "expected '%s', got '%s'", part, s->err.text);
}

Test(splits, what_cannot_be_split_is_refused)
{
    struct rows s;
    a08(&s);
    expect_error(&s, (struct fm_cv_config){.split = FM_SPLIT_KFOLD, .folds = 13}, 0,
                 "13 folds cannot be made of 12");
    expect_error(&s, (struct fm_cv_config){.split = FM_SPLIT_KFOLD, .folds = 1}, 0, "at least 2 folds");
    expect_error(&s, (struct fm_cv_config){.split = FM_SPLIT_KFOLD, .folds = 3}, -1, "cv.seed is -1");
    expect_error(&s, (struct fm_cv_config){.split = FM_SPLIT_KFOLD, .folds = 3, .repeats = 333334}, 0,
                 "with 3 folds the most is 333333");
    expect_error(&s, (struct fm_cv_config){.split = FM_SPLIT_BLOCKED, .folds = 3, .blocks = 2}, 0,
                 "cv.blocks is 2");
    expect_error(&s, (struct fm_cv_config){.split = FM_SPLIT_BLOCKED, .folds = 3, .shuffle = true}, 0,
                 "cv.shuffle");
    expect_error(&s, (struct fm_cv_config){.split = FM_SPLIT_TIME_SERIES, .folds = 2}, 0, "give data.time");
    expect_error(&s, (struct fm_cv_config){.split = FM_SPLIT_HOLDOUT, .test_count = 12}, 0,
                 "none to train on");
    expect_error(&s, (struct fm_cv_config){.split = FM_SPLIT_PREDEFINED}, 0, "cv.file");
    expect_error(
        &s,
        (struct fm_cv_config){.split = FM_SPLIT_GROUP, .folds = 6, .has_inner = true, .inner_test_size = 0.1},
        0, "cv.inner");
    rows_fini(&s);
}

Test(splits, time_orders_several_records)
{
    struct rows s;
    struct fm_split split;
    struct fm_cv_config cv = {.split = FM_SPLIT_TIME_SERIES, .folds = 2, .repeats = 1};
    int64_t lengths[] = {3, 3, 3};
    double times[] = {7, 8, 9, 1, 2, 3, 2.5, 8.5, 9.5};
    rows_init(&s, lengths, 3, "010101010", 2);
    s.data.time = fm_malloc(9, sizeof(double));
    memcpy(s.data.time, times, sizeof times);
    cr_assert_eq(rows_view(&s, 1), 0, "%s", s.err.text);
    cr_assert_eq(fm_split_init(&split, &cv, &s.config, &s.view, 0, &s.notes, &s.err), 0, "%s", s.err.text);
    /* in order of time: 3 4 6 5 0 1 7 2 8 */
    expect_members(&split.fold[0].train, "3 4 6");
    expect_members(&split.fold[0].val, "0 1 5");
    expect_members(&split.fold[1].train, "0 1 3 4 5 6");
    expect_members(&split.fold[1].val, "2 7 8");
    fm_split_fini(&split);
    rows_fini(&s);
}

/* ---- labels ---- */

static void refuses_label(struct rows *s, int64_t length, const char *part)
{
    fm_error_clear(&s->err);
    cr_assert_eq(rows_view(s, length), FM_EFILE, "%s", part);
    cr_assert(strstr(s->err.text, part), "expected '%s', got '%s'", part, s->err.text);
    fm_examples_fini(&s->examples);
}

Test(splits, labels_that_do_not_fit_the_target)
{
    struct rows s;
    int64_t length = 12;
    rows_init(&s, &length, 1, "012012012012", 3);
    s.config.window.label = FM_LABEL_ANY;
    refuses_label(&s, 4, "need exactly two classes");
    s.config.window.label = FM_LABEL_MEAN;
    refuses_label(&s, 4, "need a target of numbers");
    s.config.window.label_given = false;
    refuses_label(&s, 4, "data.window.label is required");
    s.config.window.label_given = true;
    s.config.window.label = FM_LABEL_LAST;
    refuses_label(&s, 13, "the longest record has 12 positions, but windows have 13");
    s.config.window.horizon_first = s.config.window.horizon_last = 9;
    refuses_label(&s, 4, "the label of all 9 windows lies past");
    s.config.window.horizon_first = s.config.window.horizon_last = 0;
    s.data.mask = fm_calloc(1, sizeof *s.data.mask);
    refuses_label(&s, 4, "data.mask keeps none of 9 windows");
    s.data.mask[0] = 0x249; /* 0, 3, 6, 9: one class */
    s.config.window.label = FM_LABEL_ANCHOR;
    refuses_label(&s, 1, "all 4 examples with windows of 1 have the class '0'");
    rows_fini(&s);
}

/* A label read where `other: skip` left a hole: the example goes; in a length nobody announced it is an
 * error. */
Test(splits, labels_on_positions_without_a_class)
{
    struct rows s;
    int64_t length = 12, lengths[] = {5, 3};
    rows_init(&s, &length, 1, "010120101011", 2); /* 2 = no class, at 4 */
    s.config.window.label = FM_LABEL_LAST;
    cr_assert_eq(fm_examples_init(&s.examples, &s.data, &s.config, lengths, 2, &s.notes, &s.err), 0, "%s",
                 s.err.text);
    cr_assert_eq(s.examples.count, 8 - 2); /* starts 0 (length 5) and 2 (length 3) read position 4 */
    cr_assert_eq(fm_view_init(&s.view, &s.data, &s.examples, &s.config, 3, &s.notes, &s.err), 0, "%s",
                 s.err.text);
    fm_view_fini(&s.view);
    cr_assert_eq(fm_view_init(&s.view, &s.data, &s.examples, &s.config, 4, &s.notes, &s.err), FM_EFILE);
    cr_assert(strstr(s.err.text, "at position 1 of record"), "%s", s.err.text);
    rows_fini(&s);
}

Test(splits, targets_that_differ_between_lengths_are_noted)
{
    struct rows s;
    struct fm_view shorter;
    int64_t length = 12, lengths[] = {3, 1};
    rows_init(&s, &length, 1, "010110101011", 2);
    s.config.window.label = FM_LABEL_ALL;
    cr_assert_eq(fm_examples_init(&s.examples, &s.data, &s.config, lengths, 2, &s.notes, &s.err), 0);
    cr_assert_eq(s.examples.lost, 2);
    fm_packed_set(&s.data.classes, 2, 1);
    fm_packed_set(&s.data.classes, 3, 1); /* 01111... : some windows of 3 are all 1 */
    cr_assert_eq(fm_view_init(&s.view, &s.data, &s.examples, &s.config, 3, &s.notes, &s.err), 0, "%s",
                 s.err.text);
    cr_assert_eq(fm_view_init(&shorter, &s.data, &s.examples, &s.config, 1, &s.notes, &s.err), 0, "%s",
                 s.err.text);
    fm_view_compare(&shorter, &s.view, &s.notes);
    cr_assert(shorter.differs);
    cr_assert(noted(&s.notes, "have another target with length 1 than with 3"));
    fm_view_compare(&s.view, &s.view, &s.notes);
    cr_assert_not(s.view.differs);
    fm_view_fini(&shorter);
    rows_fini(&s);
}

/* Letters become one-hot rows; an unknown letter, and padding, rows of zeros. */
Test(splits, letters_and_padding_as_the_network_sees_them)
{
    struct rows s;
    int64_t length = 3;
    float out[5 * 3];
    static const float wanted[] = {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1};
    rows_init(&s, &length, 1, "010", 2);
    fm_free(s.data.values);
    fm_free(s.data.offset);
    s.data.values = NULL;
    s.data.offset = NULL;
    s.data.channels = 0;
    s.data.alphabet = 3;
    s.data.letters = fm_calloc(3, 1);
    s.data.letters[1] = FM_NO_LETTER;
    s.data.letters[2] = 2;
    s.config = ts_series_config(1, FM_ALIGN_CENTER, FM_EDGE_ZERO, FM_LABEL_ANCHOR);
    cr_assert_eq(rows_view(&s, 5), 0, "%s", s.err.text);
    cr_assert_eq(s.examples.count, 3);
    fm_view_window(&s.view, 0, NULL, NULL, out);
    for (int i = 0; i < 15; i++) cr_assert_eq(out[i], wanted[i], "%d", i);
    struct fm_fold fold = {0};
    cr_assert_eq(fm_fold_fit_scale(&fold, &s.view, &s.config, &s.notes, &s.err), 0);
    cr_assert_null(fold.shift);
    s.config.scale = FM_SCALE_STANDARD;
    cr_assert_eq(fm_fold_fit_scale(&fold, &s.view, &s.config, &s.notes, &s.err), FM_EFILE);
    cr_assert(strstr(s.err.text, "letters cannot be scaled"));
    rows_fini(&s);
}
