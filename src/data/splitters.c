#include "data/deal.h"

#include "base/error.h"
#include "base/memory.h"

static int check_folds(const struct fm_deal_request *request, int64_t n, struct fm_error *err)
{
    if (request->folds < 2)
        return fm_deal_fail(request, err, "at least 2 folds are needed, not %lld", (long long)request->folds);
    if (request->folds > n || request->folds > INT32_MAX)
        return fm_deal_fail(request, err, "%lld folds cannot be made of %lld examples; ask for fewer folds",
                            (long long)request->folds, (long long)n);
    return 0;
}

static int check_shuffle(const struct fm_deal_request *request, int64_t n, struct fm_error *err)
{
    if (n <= UINT32_MAX) return 0;
    return fm_deal_fail(request, err, "%lld examples are too many to shuffle; use split: blocked",
                        (long long)n);
}

/* A permutation of 0..n-1 as RandomState.permutation draws it. NULL when memory is out. */
static uint32_t *permutation(struct fm_mt19937 *mt, int64_t n)
{
    uint32_t *items = fm_malloc((size_t)n, sizeof *items);
    for (int64_t i = 0; items && i < n; i++) items[i] = (uint32_t)i;
    if (items) fm_mt19937_shuffle(mt, items, n);
    return items;
}

int fm_deal_kfold(const struct fm_deal_request *request, const struct fm_members *members,
                  struct fm_deal *deal, struct fm_error *err)
{
    int64_t n = members->n;
    int status = check_folds(request, n, err);
    if (status != 0) return status;
    deal->folds = request->folds;
    if (!request->shuffle) return fm_deal_blocks(deal, n, request->folds, err);
    if ((status = check_shuffle(request, n, err)) != 0) return status;
    uint32_t *items = permutation(request->mt, n);
    deal->of_member = fm_malloc((size_t)n, sizeof *deal->of_member);
    if (items && deal->of_member) {
        int64_t at = 0;
        for (int64_t f = 0; f < request->folds; f++) {
            int64_t size = n / request->folds + (f < n % request->folds);
            for (int64_t i = 0; i < size; i++) deal->of_member[items[at++]] = (int32_t)f;
        }
    } else {
        status = fm_fail_memory(err);
    }
    fm_free(items);
    return status;
}

/* ---- stratified ---- */

/* Classes in order of first appearance, as StratifiedKFold encodes them, and where the list of each begins.
 */
struct strata {
    int64_t present;
    int64_t *class_of;     /* [present] */
    int64_t *count, *next; /* [nclasses]: members; next place in the class's part of the list */
};

static void strata_fini(struct strata *s)
{
    fm_free(s->class_of);
    fm_free(s->count);
    fm_free(s->next);
}

static uint32_t member_class(const struct fm_members *members, struct fm_cursor *cursor)
{
    int64_t example = cursor->index;
    if (members->among) {
        fm_indexset_next(members->among, cursor, &example);
    } else {
        cursor->index++;
    }
    return fm_packed_get(&members->view->classes, example);
}

static int strata_init(struct strata *s, const struct fm_members *members, struct fm_error *err)
{
    size_t k = (size_t)members->view->data->nclasses;
    *s = (struct strata){.class_of = fm_calloc(k, sizeof(int64_t)),
                         .count = fm_calloc(k, sizeof(int64_t)),
                         .next = fm_calloc(k, sizeof(int64_t))};
    if (!s->class_of || !s->count || !s->next) return fm_fail_memory(err);
    struct fm_cursor cursor = {0};
    for (int64_t j = 0; j < members->n; j++) {
        uint32_t class = member_class(members, &cursor);
        if (s->count[class]++ == 0) s->class_of[s->present++] = class;
    }
    int64_t start = 0;
    for (int64_t i = 0; i < s->present; i++) {
        s->next[s->class_of[i]] = start;
        start += s->count[s->class_of[i]];
    }
    return 0;
}

/* How many x in [from, to) leave the rest `fold` when divided by `folds`. */
static int64_t count_rest(int64_t from, int64_t to, int64_t fold, int64_t folds)
{
    int64_t below_to = to > fold ? (to - fold - 1) / folds + 1 : 0;
    int64_t below_from = from > fold ? (from - fold - 1) / folds + 1 : 0;
    return below_to - below_from;
}

/* The folds of each class's members, class by class: fold i gets as many as `sorted classes[i::folds]` hold.
 */
static void fill_list(const struct fm_deal_request *request, const struct strata *s, uint32_t *list)
{
    int64_t at = 0;
    for (int64_t i = 0; i < s->present; i++) {
        int64_t start = at, count = s->count[s->class_of[i]];
        for (int64_t f = 0; f < request->folds; f++) {
            int64_t share = count_rest(start, start + count, f, request->folds);
            for (int64_t k = 0; k < share; k++) list[at++] = (uint32_t)f;
        }
        if (request->shuffle) fm_mt19937_shuffle(request->mt, list + start, count);
    }
}

int fm_deal_stratified(const struct fm_deal_request *request, const struct fm_members *members,
                       struct fm_deal *deal, struct fm_error *err)
{
    int64_t n = members->n, most = 0;
    if (!members->view->class_counts)
        return fm_deal_fail(request, err,
                            "stratified folds need classes, but the target is numbers; use kfold");
    int status = check_folds(request, n, err);
    if (status == 0 && request->shuffle) status = check_shuffle(request, n, err);
    if (status != 0) return status;
    struct strata s;
    status = strata_init(&s, members, err);
    for (int64_t i = 0; status == 0 && i < s.present; i++) {
        if (s.count[s.class_of[i]] > most) most = s.count[s.class_of[i]];
    }
    if (status == 0 && request->folds > most)
        status =
            fm_deal_fail(request, err,
                         "%lld folds exceed the number of members of every class (the largest has %lld); ask "
                         "for fewer folds",
                         (long long)request->folds, (long long)most);
    uint32_t *list = NULL;
    if (status == 0) {
        deal->folds = request->folds;
        deal->of_member = fm_malloc((size_t)n, sizeof *deal->of_member);
        list = fm_malloc((size_t)n, sizeof *list);
        if (!deal->of_member || !list) status = fm_fail_memory(err);
    }
    if (status == 0) {
        fill_list(request, &s, list);
        struct fm_cursor cursor = {0};
        for (int64_t j = 0; j < n; j++)
            deal->of_member[j] = (int32_t)list[s.next[member_class(members, &cursor)]++];
    }
    fm_free(list);
    strata_fini(&s);
    return status;
}

/* ---- holdout, shuffled: ShuffleSplit(test_size, train_size=max_train_size) ---- */

int fm_deal_shuffled_holdout(const struct fm_deal_request *request, const struct fm_members *members,
                             struct fm_deal *deal, struct fm_error *err)
{
    int64_t n = members->n, test = request->test_count, train = n - test;
    int64_t limit = request->inner ? 0 : request->cv->max_train_size;
    if (!request->inner && request->cv->gap > 0)
        return fm_deal_fail(request, err, "cv.gap needs examples in order; set cv.shuffle to false");
    int status = check_shuffle(request, n, err);
    if (status != 0) return status;
    if (limit > 0 && limit < train) train = limit;
    uint32_t *items = permutation(request->mt, n);
    deal->folds = 1;
    deal->of_member = fm_malloc((size_t)n, sizeof *deal->of_member);
    if (items && deal->of_member) {
        for (int64_t i = 0; i < n; i++) {
            int32_t part = i < test ? 0 : FM_ALWAYS_TRAIN;
            deal->of_member[items[i]] = i < test + train ? part : FM_NOWHERE;
        }
    } else {
        status = fm_fail_memory(err);
    }
    fm_free(items);
    return status;
}
