/* The cores of GroupKFold and StratifiedGroupKFold: groups to folds, by sizes or class counts alone. */
#include "data/deal.h"

#include "base/error.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

/* A group in the order in which groups are dealt. */
struct ranked {
    double key;
    int64_t group;
};

static int by_key_then_last(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    return x->group > y->group ? -1 : x->group < y->group;
}

static int by_key_then_first(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    return x->group < y->group ? -1 : x->group > y->group;
}

static int permute(struct fm_mt19937 *mt, int64_t n, uint32_t **items, struct fm_error *err)
{
    *items = fm_malloc((size_t)n, sizeof **items);
    if (!*items) return fm_fail_memory(err);
    for (int64_t i = 0; i < n; i++) (*items)[i] = (uint32_t)i;
    fm_mt19937_shuffle(mt, *items, n);
    return 0;
}

static int cut_permuted(int64_t ngroups, int64_t folds, struct fm_mt19937 *mt, int32_t *fold,
                        struct fm_error *err)
{
    uint32_t *items;
    int status = permute(mt, ngroups, &items, err);
    int64_t at = 0;
    for (int64_t f = 0; status == 0 && f < folds; f++) {
        int64_t size = ngroups / folds + (f < ngroups % folds);
        for (int64_t i = 0; i < size; i++) fold[items[at++]] = (int32_t)f;
    }
    fm_free(items);
    return status;
}

/* The lightest fold by a heap would serve many folds; there are few, and groups are many at most. */
int fm_spread_groups(const int64_t *sizes, int64_t ngroups, int64_t folds, struct fm_mt19937 *mt,
                     int32_t *fold, struct fm_error *err)
{
    if (mt) return cut_permuted(ngroups, folds, mt, fold, err);
    struct ranked *order = fm_malloc((size_t)ngroups, sizeof *order);
    int64_t *weight = fm_calloc((size_t)folds, sizeof *weight);
    if (!order || !weight) {
        fm_free(order);
        fm_free(weight);
        return fm_fail_memory(err);
    }
    for (int64_t g = 0; g < ngroups; g++) order[g] = (struct ranked){(double)sizes[g], g};
    qsort(order, (size_t)ngroups, sizeof *order, by_key_then_last);
    for (int64_t i = 0; i < ngroups; i++) {
        int64_t lightest = 0;
        for (int64_t f = 1; f < folds; f++) {
            if (weight[f] < weight[lightest]) lightest = f;
        }
        weight[lightest] += sizes[order[i].group];
        fold[order[i].group] = (int32_t)lightest;
    }
    fm_free(order);
    fm_free(weight);
    return 0;
}

/* ---- stratified ---- */

/* NumPy's pairwise sum of contiguous doubles. */
static double pairwise_sum(const double *a, int64_t n)
{
    if (n < 8) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += a[i];
        return sum;
    }
    if (n > 128) {
        int64_t half = n / 2;
        half -= half % 8;
        return pairwise_sum(a, half) + pairwise_sum(a + half, n - half);
    }
    double r[8];
    int64_t i;
    for (i = 0; i < 8; i++) r[i] = a[i];
    for (i = 8; i < n - n % 8; i += 8) {
        for (int k = 0; k < 8; k++) r[k] += a[i + k];
    }
    double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; i++) sum += a[i];
    return sum;
}

static double deviation(double *values, int64_t n)
{
    double mean = pairwise_sum(values, n) / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double d = values[i] - mean;
        values[i] = d * d;
    }
    return sqrt(pairwise_sum(values, n) / (double)n);
}

struct spread {
    int64_t folds, classes; /* classes that have members */
    double *totals;         /* [classes] */
    double *groups;         /* [ngroups][classes] */
    double *placed;         /* [folds][classes] */
    double *deviations;     /* [classes] */
    double *column;         /* [folds] or [classes] */
};

/* Mean over classes of the spread of their shares over folds, if a group went to fold `to`. */
static double spread_with(struct spread *s, const double *group, int64_t to)
{
    for (int64_t c = 0; c < s->classes; c++) {
        double sum = 0, squares = 0;
        for (int64_t f = 0; f < s->folds; f++) {
            double count = s->placed[f * s->classes + c];
            if (f == to) count += group[c];
            s->column[f] = count / s->totals[c];
            sum += s->column[f];
        }
        if (s->classes == 1) {
            /* A single column is contiguous, and NumPy then sums it pairwise. */
            s->deviations[c] = deviation(s->column, s->folds);
            continue;
        }
        double mean = sum / (double)s->folds;
        for (int64_t f = 0; f < s->folds; f++) {
            double d = s->column[f] - mean;
            squares += d * d;
        }
        s->deviations[c] = sqrt(squares / (double)s->folds);
    }
    return pairwise_sum(s->deviations, s->classes) / (double)s->classes;
}

static int64_t best_fold(struct spread *s, const double *group)
{
    int64_t best = 0;
    double least = INFINITY, least_samples = INFINITY;
    for (int64_t f = 0; f < s->folds; f++) {
        double value = spread_with(s, group, f), samples = 0;
        for (int64_t c = 0; c < s->classes; c++) samples += s->placed[f * s->classes + c];
        bool close = isfinite(least) && fabs(value - least) <= 1e-8 + 1e-5 * fabs(least);
        if (value < least || (close && samples < least_samples)) {
            least = value;
            least_samples = samples;
            best = f;
        }
    }
    return best;
}

static void spread_fini(struct spread *s)
{
    fm_free(s->totals);
    fm_free(s->groups);
    fm_free(s->placed);
    fm_free(s->deviations);
    fm_free(s->column);
}

static int spread_init(struct spread *s, const int64_t *counts, int64_t ngroups, int64_t nclasses,
                       int64_t folds, struct fm_error *err)
{
    size_t k = (size_t)nclasses, room = (size_t)(folds > nclasses ? folds : nclasses);
    int64_t cells, placed;
    *s = (struct spread){.folds = folds};
    if (!fm_multiply(ngroups, nclasses, &cells) || !fm_multiply(folds, nclasses, &placed))
        return fm_fail_memory(err);
    s->totals = fm_calloc(k, sizeof(double));
    s->groups = fm_malloc((size_t)cells, sizeof(double));
    s->placed = fm_calloc((size_t)placed, sizeof(double));
    s->deviations = fm_malloc(k, sizeof(double));
    s->column = fm_malloc(room, sizeof(double));
    if (!s->totals || !s->groups || !s->placed || !s->deviations || !s->column) return fm_fail_memory(err);
    for (int64_t c = 0; c < nclasses; c++) {
        double total = 0;
        for (int64_t g = 0; g < ngroups; g++) total += (double)counts[g * nclasses + c];
        s->classes += total > 0;
    }
    int64_t column = 0;
    for (int64_t c = 0; c < nclasses; c++) {
        double total = 0;
        for (int64_t g = 0; g < ngroups; g++) total += (double)counts[g * nclasses + c];
        if (total == 0) continue;
        for (int64_t g = 0; g < ngroups; g++)
            s->groups[g * s->classes + column] = (double)counts[g * nclasses + c];
        s->totals[column++] = total;
    }
    return 0;
}

static int64_t fill_empty(struct spread *s, int64_t ngroups, int32_t *fold, int64_t *members)
{
    int64_t moved = 0;
    for (int64_t g = 0; g < ngroups; g++) members[fold[g]]++;
    for (int64_t empty = 0; empty < s->folds; empty++) {
        if (members[empty] > 0) continue;
        int64_t donor = 0, smallest = -1;
        double least = INFINITY;
        for (int64_t f = 1; f < s->folds; f++) {
            if (members[f] > members[donor]) donor = f;
        }
        for (int64_t g = 0; g < ngroups; g++) {
            double size = 0;
            if (fold[g] != donor) continue;
            for (int64_t c = 0; c < s->classes; c++) size += s->groups[g * s->classes + c];
            if (size > least) continue;
            least = size;
            smallest = g;
        }
        if (smallest < 0) break;
        fold[smallest] = (int32_t)empty;
        members[donor]--;
        members[empty]++;
        moved++;
    }
    return moved;
}

/* order[place].group: groups in the (shuffled) order, sorted by the spread of their class counts. */
static int rank_groups(struct spread *s, int64_t ngroups, struct fm_mt19937 *mt, struct ranked *order,
                       uint32_t **shuffled, struct fm_error *err)
{
    int status = mt ? permute(mt, ngroups, shuffled, err) : 0;
    for (int64_t p = 0; status == 0 && p < ngroups; p++) {
        int64_t group = *shuffled ? (*shuffled)[p] : p;
        for (int64_t c = 0; c < s->classes; c++) s->column[c] = s->groups[group * s->classes + c];
        order[p] = (struct ranked){deviation(s->column, s->classes), p};
    }
    if (status == 0) qsort(order, (size_t)ngroups, sizeof *order, by_key_then_first);
    return status;
}

int fm_spread_stratified(const int64_t *counts, int64_t ngroups, int64_t nclasses, int64_t folds,
                         struct fm_mt19937 *mt, int32_t *fold, int64_t *moved, struct fm_error *err)
{
    struct spread s;
    struct ranked *order = NULL;
    uint32_t *shuffled = NULL;
    int64_t *members = NULL;
    int status = spread_init(&s, counts, ngroups, nclasses, folds, err);
    if (status == 0) {
        order = fm_malloc((size_t)ngroups, sizeof *order);
        members = fm_calloc((size_t)folds, sizeof *members);
        if (!order || !members) status = fm_fail_memory(err);
    }
    if (status == 0) status = rank_groups(&s, ngroups, mt, order, &shuffled, err);
    for (int64_t i = 0; status == 0 && i < ngroups; i++) {
        int64_t group = shuffled ? shuffled[order[i].group] : order[i].group;
        const double *row = s.groups + group * s.classes;
        int64_t best = best_fold(&s, row);
        for (int64_t c = 0; c < s.classes; c++) s.placed[best * s.classes + c] += row[c];
        fold[group] = (int32_t)best;
    }
    if (status == 0) *moved = fill_empty(&s, ngroups, fold, members);
    fm_free(order);
    fm_free(members);
    fm_free(shuffled);
    spread_fini(&s);
    return status;
}
