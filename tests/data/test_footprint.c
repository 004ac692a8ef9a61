/* What folds of a long series cost: memory while they are made and afterwards. */
#include <criterion/criterion.h>

#include "base/error.h"
#include "base/log.h"
#include "data/split.h"
#include "support/series.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* Sanitizers multiply time and memory: they run the same paths over less. */
#define SAMPLES (SANITIZED ? INT64_C(300000) : INT64_C(5000000))

/* "VmRSS:" or "VmHWM:" of this process in bytes, 0 where /proc does not tell. */
static int64_t process_bytes(const char *field)
{
    char line[256];
    long long kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        if (strncmp(line, field, strlen(field)) == 0) kilobytes = strtoll(line + strlen(field), NULL, 10);
    }
    if (status) fclose(status);
    return kilobytes * 1024;
}

static void reset_peak(void)
{
    FILE *refs = fopen("/proc/self/clear_refs", "w");
    if (!refs) return;
    fputs("5", refs);
    fclose(refs);
}

struct series {
    struct fm_dataset data;
    struct fm_data_config config;
    struct fm_examples examples;
    struct fm_view view;
    struct fm_split split;
    struct fm_notes notes;
    struct fm_error err;
    int64_t peak, kept;
};

static void series_init(struct series *s)
{
    *s = (struct series){.config = ts_series_config(1, FM_ALIGN_START, FM_EDGE_DROP, FM_LABEL_ANY)};
    int64_t length = SAMPLES;
    struct ts_random random = {.state = 3};
    ts_series_init(&s->data, &length, 1, 0);
    ts_series_numbers(&s->data, 1);
    ts_series_classes(&s->data, 2, false);
    s->config.scale = FM_SCALE_STANDARD;
    for (int64_t i = 0; i < SAMPLES; i++) {
        s->data.values[i] = (float)(i % 97);
        if (ts_random_below(&random, 20000) == 0) fm_packed_set(&s->data.classes, i, 1);
    }
}

static void split_series(struct series *s, const struct fm_cv_config *cv)
{
    int64_t length = 104, before = process_bytes("VmRSS:");
    reset_peak();
    cr_assert_eq(fm_examples_init(&s->examples, &s->data, &s->config, &length, 1, &s->notes, &s->err), 0);
    cr_assert_eq(fm_view_init(&s->view, &s->data, &s->examples, &s->config, length, &s->notes, &s->err), 0);
    cr_assert_eq(fm_split_init(&s->split, cv, &s->config, &s->view, 0, &s->notes, &s->err), 0, "%s",
                 s->err.text);
    s->peak = process_bytes("VmHWM:") - before;
    s->kept = fm_indexset_bytes(&s->examples.anchors) + fm_packed_bytes(&s->view.classes) +
              fm_split_bytes(&s->split);
    cr_assert_eq(s->examples.count, SAMPLES - 103);
    cr_assert_eq(s->view.class_counts[0] + s->view.class_counts[1], s->examples.count);
}

static void series_fini(struct series *s)
{
    fm_split_fini(&s->split);
    fm_view_fini(&s->view);
    fm_examples_fini(&s->examples);
    ts_series_fini(&s->data);
    fm_notes_fini(&s->notes);
}

Test(footprint, blocked_folds_take_bits, .timeout = 60)
{
    struct series s;
    struct fm_cv_config cv = {.split = FM_SPLIT_BLOCKED,
                              .folds = 3,
                              .blocks = 12,
                              .repeats = 1,
                              .purge = true,
                              .embargo = 50,
                              .has_inner = true,
                              .inner_test_size = 0.2};
    series_init(&s);
    split_series(&s, &cv);
    for (int64_t f = 0; f < 3; f++) {
        const struct fm_fold *fold = &s.split.fold[f];
        cr_assert_lt(fm_indexset_bytes(&fold->train) + fm_indexset_bytes(&fold->val), 4096);
        cr_assert_gt(fold->purged, 0);
        cr_assert_gt(fold->embargoed, 0);
        cr_assert_eq(fold->shared, 0);
    }
    cr_assert_lt(s.kept, SAMPLES / 8 + 65536);
    if (!SANITIZED && process_bytes("VmHWM:") > 0)
        cr_assert_lt(s.peak, SAMPLES / 2 + 20000000, "%lld bytes at peak", (long long)s.peak);
    series_fini(&s);
}

Test(footprint, shuffled_folds_take_ten_bytes, .timeout = 60)
{
    static const enum fm_split_kind kinds[] = {FM_SPLIT_KFOLD, FM_SPLIT_STRATIFIED};
    for (int i = 0; i < 2; i++) {
        struct series s;
        struct fm_cv_config cv = {.split = kinds[i], .folds = 3, .repeats = 1, .shuffle = true};
        series_init(&s);
        split_series(&s, &cv);
        /* Three folds of two bitmaps, an eighth of a byte each and a quarter of that for the rank directory,
         * and a bit for the class. */
        cr_assert_lt(s.kept, SAMPLES / 8 * 9);
        if (!SANITIZED && process_bytes("VmHWM:") > 0)
            cr_assert_lt(s.peak, 10 * SAMPLES, "%lld bytes at peak", (long long)s.peak);
        series_fini(&s);
    }
}
