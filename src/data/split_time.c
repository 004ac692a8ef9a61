/* Splits by order: TimeSeriesSplit and the unshuffled holdout. With one record examples follow each other as
 * they lie; with several they go by the time of their window's last position (its last real one where it is
 * padded), examples of equal time in their own order. */
#include "data/deal.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/pieces.h"

#include <stdlib.h>

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

/* Time rises inside a record, so members are a few runs in order, one or two for each record. */
struct run {
    int64_t next, end;
};

struct order {
    double *times; /* [members] */
    struct run *runs;
    size_t nruns, capacity;
};

static void order_fini(struct order *order)
{
    fm_free(order->times);
    fm_free(order->runs);
    *order = (struct order){0};
}

static int add_time(struct order *order, int64_t member, double time, struct fm_error *err)
{
    order->times[member] = time;
    if (member > 0 && time >= order->times[member - 1]) {
        order->runs[order->nruns - 1].end++;
        return 0;
    }
    if (fm_grow(&order->runs, &order->capacity, order->nruns + 1, sizeof *order->runs) != 0)
        return fm_fail_memory(err);
    order->runs[order->nruns++] = (struct run){member, member + 1};
    return 0;
}

static int order_init(struct order *order, const struct fm_members *members, struct fm_error *err)
{
    const struct fm_view *view = members->view;
    *order = (struct order){.times = fm_malloc((size_t)members->n, sizeof *order->times)};
    int status = order->times ? 0 : fm_fail_memory(err);
    int64_t j = 0;
    struct fm_piece_walk walk;
    struct fm_piece piece;
    fm_piece_walk_init(&walk, view->data, view->examples, members->among);
    while (status == 0 && fm_piece_walk_next(&walk, &piece)) {
        for (int64_t i = 0; status == 0 && i < piece.count; i++, j++)
            status = add_time(order, j, window_time(view, piece.record, piece.anchor + i * piece.step), err);
    }
    return status;
}

static bool earlier(const struct order *order, size_t a, size_t b)
{
    int64_t x = order->runs[a].next, y = order->runs[b].next;
    if (order->times[x] != order->times[y]) return order->times[x] < order->times[y];
    return x < y;
}

/* Lets the run at the heap's place sink to where both runs below it are later. */
static void sink(struct order *order, size_t place)
{
    for (;;) {
        size_t least = place;
        for (size_t child = 2 * place + 1; child <= 2 * place + 2 && child < order->nruns; child++) {
            if (earlier(order, child, least)) least = child;
        }
        if (least == place) return;
        struct run held = order->runs[place];
        order->runs[place] = order->runs[least];
        order->runs[least] = held;
        place = least;
    }
}

/* The members one after the other in order of time; the runs are used up. */
static int64_t take_earliest(struct order *order)
{
    int64_t member = order->runs[0].next++;
    if (order->runs[0].next == order->runs[0].end) order->runs[0] = order->runs[--order->nruns];
    if (order->nruns > 0) sink(order, 0);
    return member;
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

static int several_records(struct fm_deal *deal, const struct fm_members *members, struct order *order,
                           const int64_t *edges, struct fm_error *err)
{
    deal->of_member = fm_malloc((size_t)members->n, sizeof *deal->of_member);
    if (!deal->of_member) return fm_fail_memory(err);
    for (size_t i = order->nruns; i-- > 0;) sink(order, i);
    int32_t part = 0;
    for (int64_t rank = 0; rank < members->n; rank++) {
        while (rank >= edges[part]) part++;
        deal->of_member[take_earliest(order)] = part;
    }
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
    struct order order = {0};
    int status = several ? order_init(&order, members, err) : 0;
    if (status == 0 && order.nruns > 1) {
        status = several_records(deal, members, &order, edges, err);
        fm_free(edges);
    } else if (status == 0) {
        status = one_record(deal, edges, count, err);
    } else {
        fm_free(edges);
    }
    order_fini(&order);
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
