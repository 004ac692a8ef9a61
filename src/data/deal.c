#include "data/deal.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/bits.h"
#include "data/pieces.h"

#include <stdarg.h>
#include <stdio.h>

void fm_deal_fini(struct fm_deal *deal)
{
    fm_free(deal->of_member);
    fm_free(deal->of_record);
    fm_free(deal->ends);
    fm_free(deal->of_block);
    fm_free(deal->cuts);
    for (int64_t f = 0; deal->names && f < deal->folds; f++) fm_free(deal->names[f]);
    fm_free(deal->names);
    *deal = (struct fm_deal){0};
}

int fm_deal_fail(const struct fm_deal_request *request, struct fm_error *err, const char *format, ...)
{
    char text[800];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const struct fm_node *where = request->cv->where;
    return fm_fail_at(
        err, FM_EFILE, where ? where->file : NULL, where ? where->line : 0, where ? where->column : 0, "%s%s",
        request->inner ? "cv.inner, which cuts the training part of a fold once more: " : "", text);
}

int fm_deal_blocks(struct fm_deal *deal, int64_t n, int64_t nblocks, struct fm_error *err)
{
    deal->nblocks = nblocks;
    deal->ends = fm_malloc((size_t)nblocks, sizeof *deal->ends);
    deal->of_block = fm_malloc((size_t)nblocks, sizeof *deal->of_block);
    if (!deal->ends || !deal->of_block) return fm_fail_memory(err);
    int64_t end = 0;
    for (int64_t b = 0; b < nblocks; b++) {
        end += n / nblocks + (b < n % nblocks);
        deal->ends[b] = end;
        deal->of_block[b] = (int32_t)b;
    }
    return 0;
}

void fm_members_of_record(const struct fm_members *members, int64_t record, int64_t *first, int64_t *count)
{
    const int64_t *starts = members->view->data->starts;
    const struct fm_indexset *anchors = &members->view->examples->anchors;
    int64_t from = fm_indexset_rank(anchors, starts[record]),
            to = fm_indexset_rank(anchors, starts[record + 1]);
    if (members->among) {
        from = fm_indexset_rank(members->among, from);
        to = fm_indexset_rank(members->among, to);
    }
    *first = from;
    *count = to - from;
}

bool fm_deal_next(const struct fm_deal *deal, const struct fm_members *members, struct fm_deal_walk *walk,
                  int64_t *first, int64_t *count, int32_t *part)
{
    if (walk->next >= members->n) return false;
    *first = walk->next;
    if (deal->of_member) {
        int64_t end = walk->next + 1;
        *part = deal->of_member[walk->next];
        while (end < members->n && deal->of_member[end] == *part) end++;
        walk->next = end;
    } else if (deal->of_record) {
        int64_t start, size = 0;
        while (size == 0) {
            *part = deal->of_record[walk->record];
            fm_members_of_record(members, walk->record++, &start, &size);
        }
        walk->next += size;
    } else {
        while (deal->ends[walk->block] <= walk->next) walk->block++;
        *part = deal->of_block[walk->block];
        walk->next = deal->ends[walk->block++];
    }
    *count = walk->next - *first;
    return true;
}

/* Adds members [first, first + count) to a set of examples; `skip` moves the cursor without adding. */
struct picker {
    const struct fm_members *members;
    struct fm_cursor cursor;
    struct fm_indexset_builder train, val;
};

static void pick(struct picker *p, int64_t first, int64_t count, bool train, bool val)
{
    if (!p->members->among) {
        if (train) fm_indexset_add_run(&p->train, first, count, 1);
        if (val) fm_indexset_add_run(&p->val, first, count, 1);
        return;
    }
    int64_t example;
    while (count-- > 0 && fm_indexset_next(p->members->among, &p->cursor, &example)) {
        if (train) fm_indexset_add(&p->train, example);
        if (val) fm_indexset_add(&p->val, example);
    }
}

int fm_deal_fold(const struct fm_deal *deal, const struct fm_members *members, int64_t fold,
                 struct fm_indexset *train, struct fm_indexset *val, struct fm_error *err)
{
    struct picker p = {.members = members};
    struct fm_deal_walk walk = {0};
    int64_t first, count;
    int32_t part;
    const struct fm_cut *cut = deal->cuts ? &deal->cuts[fold] : NULL;
    fm_indexset_builder_init(&p.train, 1);
    fm_indexset_builder_init(&p.val, 1);
    while (fm_deal_next(deal, members, &walk, &first, &count, &part)) {
        bool is_val = cut ? part >= cut->val_from && part < cut->val_to : part == fold;
        bool is_train = cut ? part >= cut->train_from && part < cut->train_to : !is_val && part != FM_NOWHERE;
        pick(&p, first, count, train && is_train, val && is_val);
    }
    struct fm_indexset unused = {0};
    if (!train) train = &unused;
    if (!val) val = &unused;
    int status = fm_indexset_finish(&p.train, train, err);
    int other = fm_indexset_finish(&p.val, val, status == 0 ? err : NULL);
    if (status == 0 && other == 0) return 0;
    fm_indexset_fini(train);
    fm_indexset_fini(val);
    return status != 0 ? status : other;
}
