#include "data/pieces.h"
#include "data/bits.h"

bool fm_stretch_next(const struct fm_indexset *set, int64_t *cursor, int64_t *first, int64_t *step,
                     int64_t *count)
{
    if (!set->bits) {
        if (*cursor >= set->nruns) return false;
        const struct fm_stretch *run = &set->runs[(*cursor)++];
        *first = run->first;
        *step = run->stride;
        *count = run->count;
        return true;
    }
    int64_t from = fm_bits_next_one(set->bits, *cursor, set->nbits);
    if (from >= set->nbits) return false;
    int64_t to = fm_bits_next_zero(set->bits, from, set->nbits);
    *cursor = to;
    *first = set->origin + from * set->stride;
    *step = set->stride;
    *count = to - from;
    return true;
}

void fm_piece_walk_init(struct fm_piece_walk *w, const struct fm_dataset *data,
                        const struct fm_examples *examples, const struct fm_indexset *set)
{
    *w = (struct fm_piece_walk){
        .data = data, .anchors = &examples->anchors, .set = set, .example_step = 1, .reached = -1};
    if (w->anchors->bits) w->run = -1;
    if (!set) w->left = examples->count;
}

/* Moves to the bit of example `w->example`; returns its stored position and how many anchors follow evenly.
 */
static int64_t reach_bit(struct fm_piece_walk *w, int64_t *even)
{
    const struct fm_indexset *a = w->anchors;
    int64_t ahead = w->example - w->reached;
    int64_t word = (w->run + 1) >> 6;
    uint64_t rest = a->bits[word] & ~UINT64_C(0) << ((w->run + 1) & 63);
    int64_t ones = __builtin_popcountll(rest);
    while (ones < ahead) {
        ahead -= ones;
        rest = a->bits[++word];
        ones = __builtin_popcountll(rest);
    }
    while (--ahead > 0) rest &= rest - 1;
    int64_t bit = word * 64 + __builtin_ctzll(rest);
    *even = 1;
    if (w->example_step == 1 && w->left > 1) {
        int64_t limit = w->left < a->nbits - bit ? bit + w->left : a->nbits;
        *even = fm_bits_next_zero(a->bits, bit, limit) - bit;
    }
    w->run = bit;
    w->reached = w->example;
    return a->origin + bit * a->stride;
}

static int64_t reach_run(struct fm_piece_walk *w, int64_t *step, int64_t *even)
{
    const struct fm_indexset *a = w->anchors;
    while (a->runs[w->run].before + a->runs[w->run].count <= w->example) w->run++;
    const struct fm_stretch *run = &a->runs[w->run];
    int64_t inside = w->example - run->before;
    *step = run->stride * w->example_step;
    *even = (run->count - inside - 1) / w->example_step + 1;
    return run->first + inside * run->stride;
}

bool fm_piece_walk_next(struct fm_piece_walk *w, struct fm_piece *piece)
{
    if (!w->left && (!w->set || !fm_stretch_next(w->set, &w->place, &w->example, &w->example_step, &w->left)))
        return false;
    int64_t step = w->anchors->stride, even, at;
    at = w->anchors->bits ? reach_bit(w, &even) : reach_run(w, &step, &even);
    if (step < 1) step = 1;
    const int64_t *starts = w->data->starts;
    while (starts[w->record + 1] <= at) w->record++;
    int64_t inside = (starts[w->record + 1] - at - 1) / step + 1;
    if (even > inside) even = inside;
    if (even > w->left) even = w->left;
    *piece = (struct fm_piece){.record = w->record,
                               .anchor = at - starts[w->record],
                               .step = step,
                               .example = w->example,
                               .example_step = w->example_step,
                               .count = even};
    w->left -= even;
    if (w->anchors->bits) {
        w->run += even - 1;
        w->reached += even - 1;
    }
    w->example += even * w->example_step;
    return true;
}
