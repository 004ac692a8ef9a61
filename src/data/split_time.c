/* Splits by order: TimeSeriesSplit and the unshuffled holdout. With one record examples follow each other as
 * they lie; with several they go by the time of their window's last position (its last real one where it is
 * padded), examples of equal time in their own order. */
#include "data/deal.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/pieces.h"

#include <stdlib.h>

struct timed {
    double time;
    int64_t member;
};

static int by_time(const void *a, const void *b)
{
    const struct timed *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return x->member < y->member ? -1 : x->member > y->member;
}

static double window_time(const struct fm_view *view, int64_t record, int64_t anchor)
{
    int64_t length = fm_dataset_record_length(view->data, record);
    int64_t last = anchor - view->lead + view->length - 1;
    if (view->examples->edge == FM_EDGE_WRAP) {
        last %= length;
        if (last < 0) last += length;
    } else if (last > length - 1) {
        last = length - 1;
    }
    return view->data->time[view->data->starts[record] + last];
}

/* Members in time order. NULL when memory is out. */
static struct timed *sort_members(const struct fm_members *members)
{
    const struct fm_view *view = members->view;
    struct timed *order = fm_malloc((size_t)members->n, sizeof *order);
    if (!order) return NULL;
    struct fm_piece_walk walk;
    struct fm_piece piece;
    int64_t j = 0;
    bool sorted = true;
    fm_piece_walk_init(&walk, view->data, view->examples, members->among);
    while (fm_piece_walk_next(&walk, &piece)) {
        for (int64_t i = 0; i < piece.count; i++, j++) {
            order[j] = (struct timed){window_time(view, piece.record, piece.anchor + i * piece.step), j};
            if (j > 0 && order[j].time < order[j - 1].time) sorted = false;
        }
    }
    if (!sorted) qsort(order, (size_t)members->n, sizeof *order, by_time);
    return order;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Which of the sorted edges a number is; parts are the stretches between them. */
static int64_t edge_index(const int64_t *edges, int64_t count, int64_t value)
{
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (edges[middle] < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int one_record(struct fm_deal *deal, int64_t *edges, int64_t count, struct fm_error *err)
{
    deal->ends = edges;
    deal->nblocks = count;
    deal->of_block = fm_malloc((size_t)count, sizeof *deal->of_block);
    if (!deal->of_block) return fm_fail_memory(err);
    for (int64_t b = 0; b < count; b++) deal->of_block[b] = (int32_t)b;
    return 0;
}

static int several_records(struct fm_deal *deal, const struct fm_members *members, const int64_t *edges,
                           struct fm_error *err)
{
    struct timed *order = sort_members(members);
    deal->of_member = fm_malloc((size_t)members->n, sizeof *deal->of_member);
    if (!order || !deal->of_member) {
        fm_free(order);
        return fm_fail_memory(err);
    }
    int32_t part = 0;
    for (int64_t rank = 0; rank < members->n; rank++) {
        while (rank >= edges[part]) part++;
        deal->of_member[order[rank].member] = part;
    }
    fm_free(order);
    return 0;
}

/* Turns cuts given as ranks into cuts given as parts. */
static int deal_by_rank(const struct fm_deal_request *request, const struct fm_members *members,
                        struct fm_deal *deal, struct fm_error *err)
{
    const struct fm_dataset *data = members->view->data;
    bool several = data->nrecords > 1;
    if (several && !data->time)
        return fm_deal_fail(
            request, err,
            "the data are %lld records, so splits in time order need their time: give data.time, or "
            "use split: blocked or group",
            (long long)data->nrecords);
    int64_t *edges = fm_malloc((size_t)deal->folds * 4 + 1, sizeof *edges), all = 0, count = 0;
    if (!edges) return fm_fail_memory(err);
    for (int64_t f = 0; f < deal->folds; f++) {
        const struct fm_cut *cut = &deal->cuts[f];
        edges[all++] = cut->train_from;
        edges[all++] = cut->train_to;
        edges[all++] = cut->val_from;
        edges[all++] = cut->val_to;
    }
    edges[all++] = members->n;
    qsort(edges, (size_t)all, sizeof *edges, by_number);
    for (int64_t i = 0; i < all; i++) {
        if (edges[i] > 0 && (count == 0 || edges[i] > edges[count - 1])) edges[count++] = edges[i];
    }
    /* Part p holds the ranks edges[p-1] <= rank < edges[p]. */
    for (int64_t f = 0; f < deal->folds; f++) {
        struct fm_cut *cut = &deal->cuts[f];
        int64_t *ranks[] = {&cut->train_from, &cut->train_to, &cut->val_from, &cut->val_to};
        for (int i = 0; i < 4; i++) *ranks[i] = *ranks[i] == 0 ? 0 : edge_index(edges, count, *ranks[i]) + 1;
    }
    if (!several) return one_record(deal, edges, count, err);
    int status = several_records(deal, members, edges, err);
    fm_free(edges);
    return status;
}

static int make_cuts(struct fm_deal *deal, int64_t folds, struct fm_error *err)
{
    deal->folds = folds;
    deal->cuts = fm_calloc((size_t)folds, sizeof *deal->cuts);
    return deal->cuts ? 0 : fm_fail_memory(err);
}

/* The training ranks before `start`: `gap` left free, at most `limit` of them (0 = no limit). */
static void cut_before(struct fm_cut *cut, int64_t start, int64_t gap, int64_t limit)
{
    cut->train_to = start - gap;
    cut->train_from = limit > 0 && limit < cut->train_to ? cut->train_to - limit : 0;
}

int fm_deal_time_series(const struct fm_deal_request *request, const struct fm_members *members,
                        struct fm_deal *deal, struct fm_error *err)
{
    int64_t n = members->n, folds = request->folds, gap = request->cv->gap, size = request->test_count, used;
    if (folds < 2)
        return fm_deal_fail(request, err, "at least 2 folds are needed, not %lld", (long long)folds);
    if (folds >= n)
        return fm_deal_fail(request, err,
                            "%lld folds in time order need more than %lld examples; ask for fewer folds",
                            (long long)folds, (long long)n);
    if (size == 0) size = n / (folds + 1);
    if (!fm_multiply(size, folds, &used) || used >= n || gap >= n - used)
        return fm_deal_fail(
            request, err,
            "nothing is left to train on: %lld folds of %lld examples and a gap of %lld take all %lld "
            "examples; ask for fewer or smaller folds",
            (long long)folds, (long long)size, (long long)gap, (long long)n);
    int status = make_cuts(deal, folds, err);
    if (status != 0) return status;
    for (int64_t f = 0; f < folds; f++) {
        struct fm_cut *cut = &deal->cuts[f];
        cut->val_from = n - used + f * size;
        cut->val_to = cut->val_from + size;
        cut_before(cut, cut->val_from, gap, request->cv->max_train_size);
    }
    return deal_by_rank(request, members, deal, err);
}

int fm_deal_ordered_holdout(const struct fm_deal_request *request, const struct fm_members *members,
                            struct fm_deal *deal, struct fm_error *err)
{
    int64_t n = members->n, start = n - request->test_count;
    int64_t gap = request->inner ? 0 : request->cv->gap,
            limit = request->inner ? 0 : request->cv->max_train_size;
    if (gap >= start)
        return fm_deal_fail(
            request, err,
            "nothing is left to train on: %lld examples to validate and a gap of %lld take all %lld",
            (long long)request->test_count, (long long)gap, (long long)n);
    int status = make_cuts(deal, 1, err);
    if (status != 0) return status;
    deal->cuts[0].val_from = start;
    deal->cuts[0].val_to = n;
    cut_before(&deal->cuts[0], start, gap, limit);
    return deal_by_rank(request, members, deal, err);
}
