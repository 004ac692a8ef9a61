/* Splits that keep groups of records together, and blocks of a series dealt like groups. */
#include "data/deal.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/pieces.h"

#include <inttypes.h>
#include <stdio.h>

/* The groups that have members, numbered without gaps in the order of the data set's groups. */
struct groups {
    int64_t count;
    int64_t *id;    /* [count]: the data set's number, or the record's where records are groups */
    int64_t *sizes; /* [count] */
    int32_t *place; /* [ngroups of the data set]: number here, -1 = no member */
};

static int64_t group_of(const struct fm_dataset *data, int64_t record)
{
    return data->record_group ? data->record_group[record] : record;
}

static void groups_fini(struct groups *g)
{
    fm_free(g->id);
    fm_free(g->sizes);
    fm_free(g->place);
}

static int groups_init(struct groups *g, const struct fm_members *members, struct fm_error *err)
{
    const struct fm_dataset *data = members->view->data;
    int64_t all = data->record_group ? data->ngroups : data->nrecords;
    *g = (struct groups){.id = fm_malloc((size_t)all, sizeof *g->id),
                         .sizes = fm_calloc((size_t)all, sizeof *g->sizes),
                         .place = fm_malloc((size_t)all, sizeof *g->place)};
    if (!g->id || !g->sizes || !g->place) return fm_fail_memory(err);
    for (int64_t r = 0; r < data->nrecords; r++) {
        int64_t first, count;
        fm_members_of_record(members, r, &first, &count);
        g->sizes[group_of(data, r)] += count;
    }
    for (int64_t i = 0; i < all; i++) {
        g->place[i] = -1;
        if (g->sizes[i] == 0) continue;
        g->place[i] = (int32_t)g->count;
        g->id[g->count] = i;
        g->sizes[g->count++] = g->sizes[i];
    }
    return 0;
}

/* fold[] is per group here; records follow their group. */
static int deal_records(struct fm_deal *deal, const struct fm_members *members, const struct groups *g,
                        const int32_t *fold, struct fm_error *err)
{
    const struct fm_dataset *data = members->view->data;
    deal->of_record = fm_malloc((size_t)data->nrecords, sizeof *deal->of_record);
    if (!deal->of_record) return fm_fail_memory(err);
    for (int64_t r = 0; r < data->nrecords; r++) {
        int32_t place = g->place[group_of(data, r)];
        deal->of_record[r] = place < 0 ? FM_NOWHERE : fold ? fold[place] : place;
    }
    return 0;
}

static int check_groups(const struct fm_deal_request *request, const struct groups *g, struct fm_error *err)
{
    if (request->folds < 2)
        return fm_deal_fail(request, err, "at least 2 folds are needed, not %lld", (long long)request->folds);
    if (request->folds > g->count)
        return fm_deal_fail(request, err, "%lld folds cannot be made of %lld group%s; ask for at most %lld",
                            (long long)request->folds, (long long)g->count, g->count == 1 ? "" : "s",
                            (long long)g->count);
    if (request->shuffle && g->count > UINT32_MAX)
        return fm_deal_fail(request, err, "%lld groups are too many to shuffle", (long long)g->count);
    return 0;
}

int fm_deal_group(const struct fm_deal_request *request, const struct fm_members *members,
                  struct fm_deal *deal, struct fm_error *err)
{
    struct groups g;
    int32_t *fold = NULL;
    int status = groups_init(&g, members, err);
    if (status == 0) status = check_groups(request, &g, err);
    if (status == 0) {
        deal->folds = request->folds;
        fold = fm_malloc((size_t)g.count, sizeof *fold);
        if (!fold) status = fm_fail_memory(err);
    }
    if (status == 0)
        status = fm_spread_groups(g.sizes, g.count, request->folds, request->shuffle ? request->mt : NULL,
                                  fold, err);
    if (status == 0) status = deal_records(deal, members, &g, fold, err);
    fm_free(fold);
    groups_fini(&g);
    return status;
}

/* counts[group * nclasses + class] over the members. */
static int64_t *class_counts(const struct fm_members *members, const struct groups *g, struct fm_error *err)
{
    const struct fm_view *view = members->view;
    int64_t k = view->data->nclasses, cells, *counts = NULL;
    if (fm_multiply(g->count, k, &cells)) counts = fm_calloc((size_t)cells, sizeof *counts);
    if (!counts) {
        fm_fail_memory(err);
        return NULL;
    }
    struct fm_piece_walk walk;
    struct fm_piece piece;
    fm_piece_walk_init(&walk, view->data, view->examples, members->among);
    while (fm_piece_walk_next(&walk, &piece)) {
        int64_t *row = counts + g->place[group_of(view->data, piece.record)] * k;
        for (int64_t i = 0; i < piece.count; i++)
            row[fm_packed_get(&view->classes, piece.example + i * piece.example_step)]++;
    }
    return counts;
}

static int check_largest_class(const struct fm_deal_request *request, const int64_t *counts, int64_t groups,
                               int64_t classes, struct fm_error *err)
{
    int64_t most = 0;
    for (int64_t c = 0; c < classes; c++) {
        int64_t total = 0;
        for (int64_t g = 0; g < groups; g++) total += counts[g * classes + c];
        if (total > most) most = total;
    }
    if (request->folds <= most) return 0;
    return fm_deal_fail(
        request, err,
        "%lld folds exceed the number of members of every class (the largest has %lld); ask for "
        "fewer folds",
        (long long)request->folds, (long long)most);
}

int fm_deal_stratified_group(const struct fm_deal_request *request, const struct fm_members *members,
                             struct fm_deal *deal, struct fm_error *err)
{
    if (!members->view->class_counts)
        return fm_deal_fail(request, err,
                            "stratified folds need classes, but the target is numbers; use group");
    struct groups g;
    int32_t *fold = NULL;
    int64_t *counts = NULL, classes = members->view->data->nclasses;
    int status = groups_init(&g, members, err);
    if (status == 0) status = check_groups(request, &g, err);
    if (status == 0) {
        deal->folds = request->folds;
        fold = fm_malloc((size_t)g.count, sizeof *fold);
        counts = class_counts(members, &g, err);
        if (!fold) status = fm_fail_memory(err);
        if (!counts) status = FM_ENOMEM;
    }
    if (status == 0) status = check_largest_class(request, counts, g.count, classes, err);
    if (status == 0)
        status = fm_spread_stratified(counts, g.count, classes, request->folds,
                                      request->shuffle ? request->mt : NULL, fold, &deal->moved, err);
    if (status == 0) status = deal_records(deal, members, &g, fold, err);
    fm_free(fold);
    fm_free(counts);
    groups_fini(&g);
    return status;
}

int fm_deal_leave_one_group_out(const struct fm_deal_request *request, const struct fm_members *members,
                                struct fm_deal *deal, struct fm_error *err)
{
    const struct fm_dataset *data = members->view->data;
    struct groups g;
    int status = groups_init(&g, members, err);
    if (status == 0 && g.count < 2)
        status = fm_deal_fail(request, err,
                              "leave_one_group_out needs at least 2 groups, but the examples have %lld",
                              (long long)g.count);
    if (status == 0 && g.count > FM_MOST_FOLDS)
        status =
            fm_deal_fail(request, err,
                         "leave_one_group_out would make %lld folds, more than %d; use split: group with as "
                         "many folds as you need",
                         (long long)g.count, FM_MOST_FOLDS);
    if (status == 0) {
        deal->folds = g.count;
        status = deal_records(deal, members, &g, NULL, err);
    }
    if (status == 0) {
        deal->names = fm_calloc((size_t)g.count, sizeof *deal->names);
        if (!deal->names) status = fm_fail_memory(err);
    }
    for (int64_t f = 0; status == 0 && f < g.count; f++) {
        char number[32];
        char **names = data->record_group ? data->group_names : data->record_ids;
        snprintf(number, sizeof number, "%" PRId64, g.id[f]);
        deal->names[f] = fm_strdup(names ? names[g.id[f]] : number);
        if (!deal->names[f]) status = fm_fail_memory(err);
    }
    groups_fini(&g);
    return status;
}

/* ---- blocked ---- */

static int64_t *block_counts(const struct fm_members *members, const struct fm_deal *deal,
                             struct fm_error *err)
{
    const struct fm_view *view = members->view;
    int64_t k = view->data->nclasses, cells, *counts = NULL, block = 0, example;
    if (fm_multiply(deal->nblocks, k, &cells)) counts = fm_calloc((size_t)cells, sizeof *counts);
    if (!counts) {
        fm_fail_memory(err);
        return NULL;
    }
    struct fm_cursor cursor = {0};
    for (int64_t j = 0; j < members->n; j++) {
        example = j;
        if (members->among) fm_indexset_next(members->among, &cursor, &example);
        while (deal->ends[block] <= j) block++;
        counts[block * k + fm_packed_get(&view->classes, example)]++;
    }
    return counts;
}

/* Folds get their numbers in the order in which they first appear. */
static int number_folds(struct fm_deal *deal, struct fm_error *err)
{
    int32_t *number = fm_malloc((size_t)deal->folds, sizeof *number), next = 0;
    if (!number) return fm_fail_memory(err);
    for (int64_t f = 0; f < deal->folds; f++) number[f] = -1;
    for (int64_t b = 0; b < deal->nblocks; b++) {
        int32_t fold = deal->of_block[b];
        if (number[fold] < 0) number[fold] = next++;
        deal->of_block[b] = number[fold];
    }
    fm_free(number);
    return 0;
}

int fm_deal_blocked(const struct fm_deal_request *request, const struct fm_members *members,
                    struct fm_deal *deal, struct fm_error *err)
{
    int64_t folds = request->folds, blocks = request->cv->blocks;
    /* The training part is cut into more folds than blocks were asked for: then a block is a fold. */
    if (blocks == 0 || (request->inner && blocks < folds)) blocks = folds;
    if (folds < 2)
        return fm_deal_fail(request, err, "at least 2 folds are needed, not %lld", (long long)folds);
    if (blocks < folds)
        return fm_deal_fail(request, err,
                            "cv.blocks is %lld, but there must be at least one block for each of %lld folds",
                            (long long)blocks, (long long)folds);
    if (blocks > members->n || blocks > INT32_MAX)
        return fm_deal_fail(request, err, "%lld blocks cannot be made of %lld examples; ask for fewer",
                            (long long)blocks, (long long)members->n);
    deal->folds = folds;
    int status = fm_deal_blocks(deal, members->n, blocks, err);
    if (status != 0 || blocks == folds) return status;
    if (!members->view->class_counts) {
        for (int64_t b = 0; b < blocks; b++) deal->of_block[b] = (int32_t)(b % folds);
        return 0;
    }
    int64_t *counts = block_counts(members, deal, err);
    if (!counts) return FM_ENOMEM;
    status = fm_spread_stratified(counts, blocks, members->view->data->nclasses, folds, NULL, deal->of_block,
                                  &deal->moved, err);
    fm_free(counts);
    return status != 0 ? status : number_folds(deal, err);
}
