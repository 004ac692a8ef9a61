/* Where the windows of examples lie: what a training step asks for each of its examples. */
#include "data/view.h"

static inline bool inside(const struct fm_dataset *data, int64_t record, int64_t position)
{
    return data->starts[record] <= position && position < data->starts[record + 1];
}

/* The record of a stored position: first where `guess` says, then by a search whose choices are conditional
 * moves, because the places of a shuffled pass cannot be predicted. */
static inline int64_t find_record(const struct fm_dataset *data, int64_t position, int64_t guess)
{
    if (inside(data, guess, position)) return guess;
    const int64_t *start = data->starts;
    for (int64_t n = data->nrecords; n > 1; n -= n / 2) {
        const int64_t *middle = start + n / 2;
        start = *middle <= position ? middle : start;
    }
    return start - data->starts;
}

static inline void fill_slab(const struct fm_view *view, int64_t anchor, int64_t record, struct fm_slab *slab)
{
    const struct fm_dataset *data = view->data;
    const int64_t base = data->starts[record];
    const int64_t length =
        data->lengths ? data->lengths[record] : data->starts[record + 1] - base - data->head;
    int64_t start = anchor - base - view->lead, before = 0, after = 0;
    if (view->examples->edge == FM_EDGE_WRAP) {
        /* Most windows start inside: the division is for the others. */
        if (start < 0 || start >= length) start %= length;
        if (start < 0) start += length;
    } else {
        const int64_t end = start + view->length;
        before = start < 0 ? -start : 0;
        after = end > length ? end - length : 0;
        start += before;
    }
    *slab = (struct fm_slab){base + start, view->length - before - after, before, after};
}

void fm_view_slab(const struct fm_view *view, int64_t example, struct fm_slab *slab)
{
    const int64_t anchor = fm_example_anchor(view->examples, example);
    fill_slab(view, anchor, find_record(view->data, anchor, 0), slab);
}

/* Anchors that are one run a record tell the record as well. */
static void slabs_by_run(const struct fm_view *view, const int64_t *examples, int64_t count,
                         struct fm_slab *slabs)
{
    const struct fm_indexset *anchors = &view->examples->anchors;
    for (int64_t i = 0; i < count; i++) {
        const struct fm_stretch *run = fm_indexset_run(anchors, examples[i]);
        const int64_t anchor = run->first + (examples[i] - run->before) * run->stride;
        fill_slab(view, anchor, find_record(view->data, anchor, run - anchors->runs), &slabs[i]);
    }
}

/* Records of one length are hit by their share of the positions, those in order by the record before
 * and the next. */
void fm_view_slabs(const struct fm_view *view, const int64_t *examples, int64_t count, bool in_order,
                   struct fm_slab *slabs)
{
    enum { LOT = 64 };
    const struct fm_dataset *data = view->data;
    const double pace = (double)data->nrecords / (double)data->starts[data->nrecords];
    int64_t anchor[LOT], record = 0;
    if (!in_order && view->examples->anchors.nruns == data->nrecords) {
        slabs_by_run(view, examples, count, slabs);
        return;
    }
    for (int64_t first = 0; first < count; first += LOT) {
        const int64_t n = count - first < LOT ? count - first : LOT;
        fm_indexset_at_many(&view->examples->anchors, examples + first, n, anchor);
        for (int64_t i = 0; i < n; i++) {
            if (!in_order)
                record = (int64_t)((double)anchor[i] * pace);
            else if (anchor[i] >= data->starts[record + 1])
                record++;
            record = find_record(data, anchor[i], record < data->nrecords ? record : data->nrecords - 1);
            fill_slab(view, anchor[i], record, &slabs[first + i]);
        }
    }
}

float fm_example_weight(const struct fm_dataset *data, int64_t anchor)
{
    if (!data->weights) return 1.0f;
    return data->weights[data->weights_per_record ? fm_dataset_record_of(data, anchor) : anchor];
}
