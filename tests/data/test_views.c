/* Windows, labels, folds, purging, counts and scales against a slow model that writes out every position. */
#include <criterion/criterion.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/split.h"
#include "support/series.h"
#include "support/tolerance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 512, LENGTHS = 3 };

/* A random tiny problem. */
struct problem {
    struct fm_dataset data;
    struct fm_data_config config;
    struct fm_cv_config cv;
    int64_t lengths[LENGTHS], nlengths, longest, shortest;
    int64_t seed;
};

/* What the model says of it. */
struct model {
    int64_t n;
    int64_t record[MOST], anchor[MOST]; /* anchors local */
    int class[LENGTHS][MOST];
    double value[LENGTHS][MOST];
    unsigned char touch[MOST][MOST]; /* spans share a position: i's span, j's span */
    unsigned char after[MOST][MOST]; /* i has a position in j's span or the embargo after it */
    int64_t dropped, short_records;
};

static int64_t wrapped(int64_t p, int64_t n)
{
    return ((p % n) + n) % n;
}

static int64_t lead_of(const struct problem *p, int64_t length)
{
    if (p->config.window.align == FM_ALIGN_CENTER) return length / 2;
    return p->config.window.align == FM_ALIGN_END ? length - 1 : 0;
}

/* Unbounded positions of a label; -1 if some lie past the record. */
static int64_t label_list(const struct problem *p, int64_t len, int64_t anchor, int64_t length, int64_t *list)
{
    const struct fm_window_config *w = &p->config.window;
    bool wrap = w->edge == FM_EDGE_WRAP;
    int64_t start = anchor - lead_of(p, length), last = start + length - 1, count = 0;
    if (w->horizon_range) {
        for (int64_t q = last + w->horizon_first; q <= last + w->horizon_last; q++) list[count++] = q;
    } else if (w->label == FM_LABEL_ANCHOR || w->label == FM_LABEL_FIRST || w->label == FM_LABEL_CENTER ||
               w->label == FM_LABEL_LAST) {
        int64_t at = w->label == FM_LABEL_ANCHOR ? anchor : w->label == FM_LABEL_FIRST ? start : last;
        if (w->label == FM_LABEL_CENTER) at = start + length / 2;
        list[count++] = at + w->horizon_first;
    } else {
        for (int64_t q = start; q <= last; q++) {
            if (wrap || (q >= 0 && q < len)) list[count++] = q + w->horizon_first;
        }
    }
    for (int64_t i = 0; i < count && !wrap; i++) {
        if (list[i] < 0 || list[i] >= len) return -1;
    }
    return count;
}

static bool model_label(const struct problem *p, int64_t record, int64_t anchor, int64_t length, int *class,
                        double *value)
{
    const struct fm_dataset *d = &p->data;
    int64_t list[256], len = fm_dataset_record_length(d, record);
    int64_t count = label_list(p, len, anchor, length, list);
    if (count < 0) return false;
    int votes[8] = {0};
    double sum = 0, max = -INFINITY;
    int64_t there = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = wrapped(list[i], len), index = d->target_per_record ? record : d->starts[record] + at;
        bool missing;
        if (d->nclasses > 0) {
            uint32_t c = fm_packed_get(&d->classes, index);
            missing = c >= (uint32_t)d->nclasses;
            if (!missing) votes[c]++;
        } else {
            double x = d->target_values[index];
            missing = isnan(x);
            if (!missing) sum += x;
            if (!missing && x > max) max = x;
        }
        if (missing && at == anchor) return false;
        there += !missing;
    }
    if (there == 0) return false;
    *value = p->config.window.label == FM_LABEL_MAX ? max : sum / (double)there;
    *class = 0;
    for (int c = 1; c < 8; c++) {
        if (votes[c] > votes[*class]) *class = c;
    }
    if (!d->target_per_record && p->config.window.label == FM_LABEL_ANY) *class = votes[1] > 0;
    if (!d->target_per_record && p->config.window.label == FM_LABEL_ALL) *class = votes[0] == 0;
    return true;
}

/* Real local positions of a span: `marks[q]` set. */
static void model_span(const struct problem *p, int64_t record, int64_t anchor, int64_t embargo,
                       unsigned char *marks)
{
    int64_t len = fm_dataset_record_length(&p->data, record), list[256], length = p->longest;
    bool wrap = p->config.window.edge == FM_EDGE_WRAP;
    int64_t start = anchor - lead_of(p, length), first = start, last = start + length - 1;
    int64_t count = label_list(p, len, anchor, length, list);
    for (int64_t i = 0; i < count; i++) {
        if (list[i] < first) first = list[i];
        if (list[i] > last) last = list[i];
    }
    memset(marks, 0, MOST);
    if (!wrap && last > len - 1) last = len - 1;
    for (int64_t q = first; q <= last + embargo; q++) {
        if (wrap) {
            marks[wrapped(q, len)] = 1;
        } else if (q >= 0 && q < len) {
            marks[q] = 1;
        }
    }
}

static bool anchor_allowed(const struct problem *p, int64_t len, int64_t anchor, int64_t length)
{
    int64_t start = anchor - lead_of(p, length);
    if (p->config.window.edge != FM_EDGE_DROP) return anchor % p->config.window.stride == 0;
    return start >= 0 && start + length <= len && start % p->config.window.stride == 0;
}

static void model_examples(const struct problem *p, struct model *m)
{
    *m = (struct model){0};
    for (int64_t r = 0; r < p->data.nrecords; r++) {
        int64_t len = fm_dataset_record_length(&p->data, r), allowed = 0;
        for (int64_t a = 0; a < len; a++) {
            if (!anchor_allowed(p, len, a, p->longest)) continue;
            allowed++;
            int64_t at = p->data.starts[r] + a;
            if (p->data.mask && !(p->data.mask[at / 64] >> at % 64 & 1)) continue;
            bool good = true;
            for (int64_t k = 0; good && k < p->nlengths; k++)
                good = model_label(p, r, a, p->lengths[k], &m->class[k][m->n], &m -> value[k][m->n]);
            m->dropped += !good;
            if (!good) continue;
            m->record[m->n] = r;
            m->anchor[m->n++] = a;
        }
        m->short_records += allowed == 0;
    }
}

static void model_sharing(const struct problem *p, struct model *m)
{
    static unsigned char spans[MOST][MOST], wide[MOST][MOST];
    for (int64_t i = 0; i < m->n; i++) {
        model_span(p, m->record[i], m->anchor[i], 0, spans[i]);
        model_span(p, m->record[i], m->anchor[i], p->cv.embargo, wide[i]);
    }
    for (int64_t i = 0; i < m->n; i++) {
        for (int64_t j = 0; j < m->n; j++) {
            m->touch[i][j] = m->after[i][j] = 0;
            if (m->record[i] != m->record[j]) continue;
            int64_t len = fm_dataset_record_length(&p->data, m->record[i]);
            for (int64_t q = 0; q < len; q++) {
                m->touch[i][j] |= spans[i][q] & spans[j][q];
                m->after[i][j] |= spans[i][q] & wide[j][q];
            }
        }
    }
}

/* ---- problems ---- */

static void random_targets(struct problem *p, struct ts_random *random)
{
    struct fm_dataset *d = &p->data;
    bool per_record = ts_random_below(random, 8) == 0, missing = ts_random_below(random, 4) == 0;
    static const enum fm_label classes[] = {FM_LABEL_ANY,    FM_LABEL_ALL,   FM_LABEL_MAJORITY,
                                            FM_LABEL_ANCHOR, FM_LABEL_FIRST, FM_LABEL_CENTER,
                                            FM_LABEL_LAST};
    static const enum fm_label numbers[] = {FM_LABEL_MEAN,  FM_LABEL_MAX,    FM_LABEL_ANCHOR,
                                            FM_LABEL_FIRST, FM_LABEL_CENTER, FM_LABEL_LAST};
    if (ts_random_below(random, 3) == 0) {
        int64_t count = per_record ? d->nrecords : d->positions;
        d->target_per_record = per_record;
        d->target_width = 1;
        d->target_values = fm_malloc((size_t)count, sizeof(float));
        for (int64_t i = 0; i < count; i++) {
            d->target_values[i] = (float)(ts_random_unit(random) * 20 - 10);
            if (missing && ts_random_below(random, 6) == 0) d->target_values[i] = NAN;
        }
        p->config.window.label = numbers[ts_random_below(random, 6)];
        return;
    }
    int64_t k = 2 + ts_random_below(random, 2) * ts_random_below(random, 4);
    ts_series_classes(d, k, per_record);
    uint32_t run = 0, class = 0;
    for (int64_t i = 0; i < d->classes.count; i++) {
        if (run == 0) {
            run = 1 + ts_random_below(random, 5);
            class = ts_random_below(random, (uint32_t)k);
        }
        run--;
        uint32_t own = missing && ts_random_below(random, 6) == 0 ? (uint32_t)k : class;
        fm_packed_set(&d->classes, i, own);
    }
    do {
        p->config.window.label = classes[ts_random_below(random, 7)];
    } while (k != 2 && p->config.window.label <= FM_LABEL_ALL);
}

static void random_horizon(struct problem *p, struct ts_random *random)
{
    struct fm_window_config *w = &p->config.window;
    if (ts_random_below(random, 2) == 0) return;
    w->horizon_first = w->horizon_last = (int64_t)ts_random_below(random, 9) - 3;
    if (w->label > FM_LABEL_MAX || ts_random_below(random, 2) == 0) return;
    w->horizon_range = true;
    w->horizon_last = w->horizon_first + ts_random_below(random, 5);
}

static void random_values(struct problem *p, struct ts_random *random)
{
    struct fm_dataset *d = &p->data;
    ts_series_numbers(d, 1 + ts_random_below(random, 2));
    for (int64_t i = 0; i < d->positions; i++) {
        for (int64_t c = 0; c < d->channels; c++) {
            float x = (float)ts_random_below(random, 6);
            if (c == 0 && ts_random_below(random, 2) == 0) x = (float)(ts_random_unit(random) * 3);
            d->values[i * d->channels + c] = x;
        }
    }
    d->offset[0] = ts_random_below(random, 2) * 1000.25;
    /* Some records are copies of others. */
    for (int64_t r = 1; r < d->nrecords; r++) {
        int64_t len = fm_dataset_record_length(d, r), other = ts_random_below(random, (uint32_t)r);
        if (fm_dataset_record_length(d, other) != len || ts_random_below(random, 2) == 0) continue;
        memcpy(d->values + d->starts[r] * d->channels, d->values + d->starts[other] * d->channels,
               (size_t)(len * d->channels) * sizeof(float));
    }
    p->config.scale = (enum fm_scale)ts_random_below(random, 4);
    p->config.scale_fit_all = ts_random_below(random, 6) == 0;
}

static void random_split(struct problem *p, struct ts_random *random)
{
    static const enum fm_split_kind kinds[] = {
        FM_SPLIT_KFOLD,   FM_SPLIT_STRATIFIED, FM_SPLIT_GROUP,       FM_SPLIT_STRATIFIED_GROUP,
        FM_SPLIT_BLOCKED, FM_SPLIT_BLOCKED,    FM_SPLIT_TIME_SERIES, FM_SPLIT_LEAVE_ONE_GROUP_OUT,
        FM_SPLIT_HOLDOUT, FM_SPLIT_PREDEFINED};
    struct fm_cv_config *cv = &p->cv;
    cv->split = kinds[ts_random_below(random, 10)];
    cv->folds = 2 + ts_random_below(random, 3);
    cv->repeats = 1 + ts_random_below(random, 2);
    if (cv->split == FM_SPLIT_KFOLD || cv->split == FM_SPLIT_STRATIFIED || cv->split == FM_SPLIT_HOLDOUT ||
        cv->split == FM_SPLIT_GROUP)
        cv->shuffle = ts_random_below(random, 2);
    if (cv->split == FM_SPLIT_BLOCKED && ts_random_below(random, 2))
        cv->blocks = cv->folds + ts_random_below(random, 6);
    if (cv->split == FM_SPLIT_TIME_SERIES) cv->gap = ts_random_below(random, 3);
    cv->purge = ts_random_below(random, 3) > 0;
    if (ts_random_below(random, 3) == 0) cv->embargo = ts_random_below(random, 6);
    if (ts_random_below(random, 3) == 0) {
        cv->has_inner = true;
        cv->inner_test_size = 0.1 + 0.1 * ts_random_below(random, 4);
    }
    p->seed = ts_random_below(random, 1000);
}

static void random_extras(struct problem *p, struct ts_random *random)
{
    struct fm_dataset *d = &p->data;
    if (ts_random_below(random, 3) == 0) {
        d->mask = fm_calloc((size_t)d->positions / 64 + 1, sizeof *d->mask);
        for (int64_t i = 0; i < d->positions; i++)
            if (ts_random_below(random, 4) > 0) d->mask[i / 64] |= UINT64_C(1) << i % 64;
    }
    d->time = fm_malloc((size_t)d->positions, sizeof *d->time);
    for (int64_t r = 0; r < d->nrecords; r++) {
        double t = ts_random_below(random, 20);
        for (int64_t i = d->starts[r]; i < d->starts[r + 1]; i++, t += 1 + ts_random_below(random, 2))
            d->time[i] = t;
    }
    if (ts_random_below(random, 2)) {
        int64_t groups[16], ngroups = 1 + ts_random_below(random, (uint32_t)d->nrecords);
        for (int64_t r = 0; r < d->nrecords; r++) groups[r] = ts_random_below(random, (uint32_t)ngroups);
        ts_series_groups(d, groups, ngroups);
    }
    d->fold = fm_malloc((size_t)d->positions, sizeof *d->fold);
    d->nfolds = 3;
    d->fold_names = fm_calloc(3, sizeof *d->fold_names);
    for (int f = 0; f < 3; f++) d->fold_names[f] = fm_strdup(f == 0 ? "a" : f == 1 ? "b" : "c");
    for (int64_t i = 0; i < d->positions; i++) d->fold[i] = (int32_t)(i / 7 + (i % 5 == 0)) % 4 - 1;
}

static void problem_init(struct problem *p, struct ts_random *random)
{
    *p = (struct problem){0};
    enum fm_edge edge = (enum fm_edge)ts_random_below(random, 3);
    int64_t nrecords = 1 + ts_random_below(random, 2) * ts_random_below(random, 8), lengths[16];
    for (int64_t r = 0; r < nrecords; r++) lengths[r] = 1 + ts_random_below(random, nrecords == 1 ? 90 : 30);
    p->config = ts_series_config(1 + ts_random_below(random, 2) * ts_random_below(random, 5),
                                 (enum fm_align)ts_random_below(random, 3), edge, FM_LABEL_ANCHOR);
    p->nlengths = 1 + ts_random_below(random, 2) * ts_random_below(random, LENGTHS);
    p->shortest = MOST;
    for (int64_t k = 0; k < p->nlengths; k++) {
        int64_t length = 1 + ts_random_below(random, 12);
        p->lengths[k] = length;
        if (length > p->longest) p->longest = length;
        if (length < p->shortest) p->shortest = length;
    }
    ts_series_init(&p->data, lengths, nrecords, edge == FM_EDGE_WRAP ? p->longest - 1 : 0);
    random_targets(p, random);
    random_horizon(p, random);
    random_values(p, random);
    random_split(p, random);
    random_extras(p, random);
    ts_series_wrap(&p->data);
}

/* ---- comparisons ---- */

static void compare_windows(const struct problem *p, const struct model *m, const struct fm_view *view)
{
    const struct fm_dataset *d = &p->data;
    float shift[4] = {0.5f, -1, 0, 0}, factor[4] = {2, 0.25f, 1, 1}, out[64];
    for (int64_t e = 0; e < m->n; e++) {
        int64_t len = fm_dataset_record_length(d, m->record[e]),
                start = m->anchor[e] - lead_of(p, view->length);
        struct fm_slab slab;
        fm_view_slab(view, e, &slab);
        cr_assert_eq(slab.before + slab.rows + slab.after, view->length);
        cr_assert(slab.first >= 0 && slab.first + slab.rows <= d->positions && slab.rows > 0);
        fm_view_window(view, e, shift, factor, out);
        for (int64_t i = 0; i < view->length; i++) {
            int64_t q = start + i;
            bool real = p->config.window.edge == FM_EDGE_WRAP || (q >= 0 && q < len);
            for (int64_t c = 0; c < d->channels; c++) {
                float x = d->values[(d->starts[m->record[e]] + wrapped(q, len)) * d->channels + c];
                cr_assert_eq(out[i * d->channels + c], real ? (x - shift[c]) * factor[c] : 0);
            }
        }
    }
}

static void compare_targets(const struct problem *p, const struct model *m, const struct fm_view *view,
                            int64_t k)
{
    int64_t counts[8] = {0};
    for (int64_t e = 0; e < m->n; e++) {
        if (p->data.nclasses > 0) {
            cr_assert_eq((int)fm_packed_get(&view->classes, e), m->class[k][e], "example %lld, length %lld",
                         (long long)e, (long long)view->length);
            counts[m->class[k][e]]++;
        } else {
            struct ts_worst w = ts_compare_one(TS_FLOAT, view->values[e], m->value[k][e]);
            cr_assert(w.ok, "%s", w.text);
        }
    }
    for (int64_t c = 0; c < p->data.nclasses; c++) cr_assert_eq(view->class_counts[c], counts[c]);
}

static void compare_spans(const struct problem *p, const struct model *m, const struct fm_view *longest)
{
    unsigned char marks[MOST], wanted[MOST];
    for (int64_t e = 0; e < m->n; e++) {
        struct fm_span span;
        int64_t len = fm_dataset_record_length(&p->data, m->record[e]);
        fm_example_span(longest, &p->config, e, &span);
        cr_assert_eq(span.record, m->record[e]);
        memset(marks, 0, sizeof marks);
        for (int64_t q = span.first; q <= span.last; q++) marks[wrapped(q, len)] = 1;
        model_span(p, m->record[e], m->anchor[e], 0, wanted);
        cr_assert_eq(memcmp(marks, wanted, (size_t)len), 0);
    }
}

static void members(const struct fm_indexset *set, unsigned char *in)
{
    struct fm_cursor cursor = {0};
    int64_t member;
    memset(in, 0, MOST);
    while (fm_indexset_next(set, &cursor, &member)) in[member] = 1;
}

static bool equal_input(const struct fm_dataset *d, int64_t a, int64_t b)
{
    int64_t len = fm_dataset_record_length(d, a);
    if (fm_dataset_record_length(d, b) != len) return false;
    for (int64_t i = 0; i < len * d->channels; i++) {
        if (d->values[d->starts[a] * d->channels + i] != d->values[d->starts[b] * d->channels + i])
            return false;
    }
    return true;
}

static int64_t model_identical(const struct problem *p, const struct model *m, const unsigned char *train,
                               const unsigned char *val)
{
    bool trains[16] = {false}, validates[16] = {false};
    int64_t count = 0;
    for (int64_t e = 0; e < m->n; e++) {
        trains[m->record[e]] |= train[e];
        validates[m->record[e]] |= val[e];
    }
    for (int64_t a = 0; a < p->data.nrecords; a++) {
        bool found = false;
        for (int64_t b = 0; b < p->data.nrecords && validates[a]; b++)
            found |= a != b && trains[b] && equal_input(&p->data, a, b);
        count += found;
    }
    return count;
}

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double quantile(const double *sorted, int64_t n, double q)
{
    double place = q * (double)(n - 1), below = floor(place);
    int64_t i = (int64_t)below;
    return i + 1 < n ? sorted[i] + (sorted[i + 1] - sorted[i]) * (place - below) : sorted[i];
}

static void model_scale(enum fm_scale kind, double *x, int64_t n, double *center, double *divisor)
{
    double sum = 0, squares = 0;
    *center = 0;
    *divisor = 1;
    qsort(x, (size_t)n, sizeof *x, by_double);
    for (int64_t i = 0; i < n; i++) sum += x[i];
    for (int64_t i = 0; i < n; i++) squares += (x[i] - sum / (double)n) * (x[i] - sum / (double)n);
    if (kind == FM_SCALE_STANDARD) {
        *center = sum / (double)n;
        *divisor = sqrt(squares / (double)n);
    } else if (kind == FM_SCALE_MINMAX) {
        *center = x[0];
        *divisor = x[n - 1] - x[0];
    } else if (kind == FM_SCALE_ROBUST) {
        *center = quantile(x, n, 0.5);
        *divisor = quantile(x, n, 0.75) - quantile(x, n, 0.25);
    }
    if (x[0] == x[n - 1] || *divisor == 0) *divisor = 1;
}

static void compare_scale(const struct problem *p, const struct model *m, const struct fm_fold *fold,
                          const unsigned char *train)
{
    const struct fm_dataset *d = &p->data;
    static unsigned char used[4096];
    double x[4096];
    memset(used, 0, sizeof used);
    for (int64_t e = 0; e < m->n; e++) {
        int64_t len = fm_dataset_record_length(d, m->record[e]);
        for (int64_t i = 0; train[e] && i < p->longest; i++) {
            int64_t q = m->anchor[e] - lead_of(p, p->longest) + i;
            if (p->config.window.edge == FM_EDGE_WRAP) q = wrapped(q, len);
            if (q >= 0 && q < len) used[d->starts[m->record[e]] + q] = 1;
        }
    }
    for (int64_t c = 0; c < d->channels; c++) {
        int64_t n = 0;
        double center, divisor;
        for (int64_t r = 0; r < d->nrecords; r++) {
            for (int64_t i = 0; i < fm_dataset_record_length(d, r); i++) {
                int64_t at = d->starts[r] + i;
                if (used[at] || p->config.scale_fit_all)
                    x[n++] = d->offset[c] + (double)d->values[at * d->channels + c];
            }
        }
        model_scale(p->config.scale, x, n, &center, &divisor);
        struct ts_worst w = ts_compare_one(TS_DOUBLE_SUM, fold->scale_center[c], center);
        cr_assert(w.ok, "center: %s", w.text);
        w = ts_compare_one(TS_DOUBLE_SUM, fold->scale_divisor[c], divisor);
        cr_assert(w.ok, "divisor: %s", w.text);
        w = ts_compare_one(TS_FLOAT, fold->shift[c], center - d->offset[c]);
        cr_assert(w.ok, "shift: %s", w.text);
        w = ts_compare_one(TS_FLOAT, fold->factor[c], 1 / divisor);
        cr_assert(w.ok, "factor: %s", w.text);
    }
}

static void compare_classes(const struct problem *p, const struct model *m, const unsigned char *in,
                            const int64_t *got)
{
    int64_t counts[8] = {0}, view = 0;
    if (p->data.nclasses == 0) {
        cr_assert_null(got);
        return;
    }
    for (int64_t k = 0; k < p->nlengths; k++) {
        if (p->lengths[k] == p->longest) view = k;
    }
    for (int64_t e = 0; e < m->n; e++) counts[m->class[view][e]] += in[e];
    for (int64_t c = 0; c < p->data.nclasses; c++) cr_assert_eq(got[c], counts[c]);
}

/* Takes out of `train` what touches `against`, counting as a fold does. */
static void model_purge(const struct problem *p, const struct model *m, unsigned char *train,
                        const unsigned char *against, int64_t *purged, int64_t *embargoed, int64_t *shared)
{
    for (int64_t i = 0; i < m->n; i++) {
        bool touches = false, follows = false;
        for (int64_t j = 0; j < m->n && train[i]; j++) {
            touches |= against[j] && m->touch[i][j];
            follows |= against[j] && m->after[i][j];
        }
        if (!p->cv.purge && p->cv.embargo == 0) {
            *shared += touches;
        } else if (touches || follows) {
            train[i] = 0;
            *(touches ? purged : embargoed) += 1;
        }
    }
}

/* Which examples a fold trains on before purging, and validates: said again as plainly as possible. False
 * where the goldens of scikit-learn are the judge and only complements are known. */
static int64_t block_end(int64_t n, int64_t k, int64_t b)
{
    return b * (n / k) + (b < n % k ? b : n % k);
}

static double end_time(const struct problem *p, const struct model *m, int64_t e)
{
    int64_t len = fm_dataset_record_length(&p->data, m->record[e]);
    int64_t last = m->anchor[e] - lead_of(p, p->longest) + p->longest - 1;
    if (p->config.window.edge == FM_EDGE_WRAP) last = wrapped(last, len);
    if (last > len - 1) last = len - 1;
    return p->data.time[p->data.starts[m->record[e]] + last];
}

static int64_t time_rank(const struct problem *p, const struct model *m, int64_t e)
{
    int64_t rank = 0;
    if (p->data.nrecords == 1) return e;
    for (int64_t i = 0; i < m->n; i++) {
        double a = end_time(p, m, i), b = end_time(p, m, e);
        rank += a < b || (a == b && i < e);
    }
    return rank;
}

static int64_t group_number(const struct problem *p, int64_t record)
{
    return p->data.record_group ? p->data.record_group[record] : record;
}

static bool model_val(const struct problem *p, const struct model *m, int64_t fold, unsigned char *val)
{
    int64_t n = m->n, folds = p->cv.folds;
    if (p->cv.shuffle) return false;
    int64_t size = n / (folds + 1), rest = (int64_t)ceil(0.25 * (double)n);
    int64_t groups[16], ngroups = 0;
    for (int64_t g = 0; g < 16; g++) {
        bool there = false;
        for (int64_t e = 0; e < n; e++) there |= group_number(p, m->record[e]) == g;
        if (there) groups[ngroups++] = g;
    }
    for (int64_t e = 0; e < n; e++) {
        switch (p->cv.split) {
        case FM_SPLIT_KFOLD:
            val[e] = e >= block_end(n, folds, fold) && e < block_end(n, folds, fold + 1);
            break;
        case FM_SPLIT_BLOCKED:
            if (p->cv.blocks > folds && p->data.nclasses > 0) return false;
            val[e] = 0;
            for (int64_t b = fold, k = p->cv.blocks > 0 ? p->cv.blocks : folds; b < k; b += folds)
                val[e] |= e >= block_end(n, k, b) && e < block_end(n, k, b + 1);
            break;
        case FM_SPLIT_TIME_SERIES: {
            int64_t start = n - (folds - fold) * size, rank = time_rank(p, m, e);
            val[e] = rank >= start && rank < start + size;
            break;
        }
        case FM_SPLIT_HOLDOUT: val[e] = time_rank(p, m, e) >= n - rest; break;
        case FM_SPLIT_LEAVE_ONE_GROUP_OUT: val[e] = group_number(p, m->record[e]) == groups[fold]; break;
        case FM_SPLIT_PREDEFINED:
            val[e] = p->data.fold[p->data.starts[m->record[e]] + m->anchor[e]] == fold;
            break;
        default: return false;
        }
    }
    return true;
}

static bool model_train(const struct problem *p, const struct model *m, int64_t fold,
                        const unsigned char *val, unsigned char *train)
{
    int64_t n = m->n, size = n / (p->cv.folds + 1), start = n - (p->cv.folds - fold) * size;
    for (int64_t e = 0; e < n; e++) {
        train[e] = !val[e];
        if (p->cv.split == FM_SPLIT_TIME_SERIES) train[e] = time_rank(p, m, e) < start - p->cv.gap;
    }
    return true;
}

static void compare_fold(const struct problem *p, const struct model *m, const struct fm_fold *fold)
{
    static unsigned char val[MOST], wanted[MOST], train[MOST], inner[MOST], got[MOST];
    int64_t purged = 0, embargoed = 0, shared = 0, unused = 0;
    members(&fold->val, val);
    if (model_val(p, m, fold->fold, wanted))
        cr_assert_eq(memcmp(val, wanted, (size_t)m->n), 0, "split %d fold %lld", p->cv.split,
                     (long long)fold->fold);
    model_train(p, m, fold->fold, val, train);
    if (p->cv.purge || p->cv.embargo > 0) model_purge(p, m, train, val, &purged, &embargoed, &shared);
    members(&fold->inner, inner);
    cr_assert_eq(fold->inner.count > 0, p->cv.has_inner);
    int64_t before = 0, first_inner = -1;
    for (int64_t e = 0; e < m->n; e++) {
        cr_assert(!inner[e] || train[e]);
        if (inner[e] && first_inner < 0) first_inner = before;
        before += train[e];
    }
    if (p->cv.has_inner && p->cv.split == FM_SPLIT_KFOLD && !p->cv.shuffle) {
        cr_assert_eq(first_inner, 0);
        cr_assert_eq(fold->inner.count, block_end(before, (int64_t)nearbyint(1 / p->cv.inner_test_size), 1));
    }
    if (p->cv.has_inner && (p->cv.split == FM_SPLIT_TIME_SERIES || p->cv.split == FM_SPLIT_HOLDOUT))
        cr_assert_eq(fold->inner.count, (int64_t)ceil(p->cv.inner_test_size * (double)before));
    if (p->cv.has_inner && p->cv.split == FM_SPLIT_TIME_SERIES && p->data.nrecords == 1)
        cr_assert_eq(first_inner, before - fold->inner.count);
    for (int64_t e = 0; e < m->n; e++) train[e] = train[e] && !inner[e];
    if (p->cv.purge || p->cv.embargo > 0) {
        model_purge(p, m, train, inner, &purged, &embargoed, &unused);
    } else {
        model_purge(p, m, train, val, &purged, &embargoed, &shared);
    }
    members(&fold->train, got);
    cr_assert_eq(memcmp(got, train, (size_t)m->n), 0, "training part of split %d", p->cv.split);
    cr_assert_eq(fold->purged, purged);
    cr_assert_eq(fold->embargoed, embargoed);
    cr_assert_eq(fold->shared, shared);
    cr_assert_eq(fold->identical, model_identical(p, m, train, val));
    compare_classes(p, m, train, fold->train_classes);
    compare_classes(p, m, val, fold->val_classes);
    if (p->cv.has_inner) compare_classes(p, m, inner, fold->inner_classes);
    compare_scale(p, m, fold, train);
}

static void compare_cover(const struct problem *p, const struct model *m, const struct fm_split *split)
{
    for (int64_t r = 0; r < split->repeats; r++) {
        int times[MOST] = {0};
        for (int64_t f = 0; f < split->folds; f++) {
            unsigned char val[MOST];
            members(&split->fold[r * split->folds + f].val, val);
            for (int64_t e = 0; e < m->n; e++) times[e] += val[e];
        }
        bool covers = p->cv.split != FM_SPLIT_TIME_SERIES && p->cv.split != FM_SPLIT_HOLDOUT &&
                      p->cv.split != FM_SPLIT_PREDEFINED;
        for (int64_t e = 0; e < m->n; e++) cr_assert(times[e] == 1 || (!covers && times[e] == 0));
    }
}

/* Returns whether the problem came as far as folds. */
static bool compare_problem(const struct problem *p, struct model *m)
{
    struct fm_examples examples;
    struct fm_view views[LENGTHS];
    struct fm_split split;
    struct fm_notes notes = {0};
    struct fm_error err = {0};
    int64_t good = 0, longest = 0;
    model_examples(p, m);
    int status = fm_examples_init(&examples, &p->data, &p->config, p->lengths, p->nlengths, &notes, &err);
    cr_assert_eq(status, m->n == 0 ? FM_EFILE : 0, "%s", err.text);
    if (status != 0) {
        fm_notes_fini(&notes);
        return false;
    }
    cr_assert_eq(examples.count, m->n);
    cr_assert_eq(examples.dropped_labels, m->dropped);
    if (p->config.window.edge == FM_EDGE_DROP) cr_assert_eq(examples.short_records, m->short_records);
    struct problem alone = *p;
    alone.lengths[0] = alone.longest = p->shortest;
    alone.nlengths = 1;
    static struct model fewer;
    model_examples(&alone, &fewer);
    cr_assert_eq(examples.lost, p->shortest < p->longest && fewer.n > m->n ? fewer.n - m->n : 0);
    for (int64_t e = 0; e < m->n; e++)
        cr_assert_eq(fm_example_anchor(&examples, e), p->data.starts[m->record[e]] + m->anchor[e]);
    for (; status == 0 && good < p->nlengths; good++) {
        status = fm_view_init(&views[good], &p->data, &examples, &p->config, p->lengths[good], &notes, &err);
        if (status != 0) break;
        compare_targets(p, m, &views[good], good);
        compare_windows(p, m, &views[good]);
        if (p->lengths[good] == p->longest) longest = good;
    }
    bool one_class = false;
    for (int64_t k = 0; k < p->nlengths && p->data.nclasses > 0; k++) {
        bool differ = false;
        for (int64_t e = 1; e < m->n; e++) differ |= m->class[k][e] != m->class[k][0];
        one_class |= !differ;
    }
    cr_assert_eq(status != 0, one_class, "%s", err.text);
    bool done = false;
    if (status == 0) {
        compare_spans(p, m, &views[longest]);
        for (int64_t k = 0; k < p->nlengths; k++) {
            bool same = true;
            for (int64_t e = 0; e < m->n && p->data.nclasses > 0; e++)
                same &= m->class[k][e] == m->class[longest][e];
            if (p->data.nclasses > 0) cr_assert_eq(fm_view_same_targets(&views[k], &views[longest]), same);
        }
        status = fm_split_init(&split, &p->cv, &p->config, &views[longest], p->seed, &notes, &err);
        if (status == 0) {
            done = true;
            model_sharing(p, m);
            compare_cover(p, m, &split);
            for (int64_t i = 0; i < split.folds * split.repeats; i++) compare_fold(p, m, &split.fold[i]);
            fm_split_fini(&split);
        } else {
            cr_assert_eq(status, FM_EFILE, "%s", err.text);
            cr_assert(err.text[0] != '\0');
        }
    }
    for (int64_t k = 0; k < good; k++) fm_view_fini(&views[k]);
    fm_examples_fini(&examples);
    fm_notes_fini(&notes);
    return done;
}

Test(views, equal_a_slow_model, .timeout = 120)
{
    struct ts_random random = {.state = 20240731};
    static struct model m;
    int compared = 0;
    for (int round = 0; round < 3000; round++) {
        struct problem p;
        problem_init(&p, &random);
        if (compare_problem(&p, &m)) compared++;
        ts_series_fini(&p.data);
    }
    cr_assert_gt(compared, 800, "only %d problems came as far as folds", compared);
}
