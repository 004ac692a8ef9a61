#include "data/sharing.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/bits.h"
#include "data/label_rule.h"
#include "data/pieces.h"
#include "data/split.h"

static int64_t modulo(int64_t a, int64_t n)
{
    int64_t rest = a % n;
    return rest < 0 ? rest + n : rest;
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((-a - 1) / b) - 1;
}

/* Sets local positions from .. to (unbounded) of a record. */
static void cover_range(uint64_t *bits, int64_t base, int64_t length, bool wrap, int64_t from, int64_t to)
{
    if (!wrap || to - from + 1 >= length) {
        if (wrap || from < 0) from = 0;
        if (wrap || to > length - 1) to = length - 1;
        fm_bits_set_range(bits, base + from, base + to + 1);
        return;
    }
    int64_t first = modulo(from, length), count = to - from + 1;
    int64_t straight = count < length - first ? count : length - first;
    fm_bits_set_range(bits, base + first, base + first + straight);
    fm_bits_set_range(bits, base, base + count - straight);
}

void fm_cover(const struct fm_dataset *data, const struct fm_examples *examples,
              const struct fm_indexset *set, int64_t before, int64_t after, uint64_t *bits)
{
    bool wrap = examples->edge == FM_EDGE_WRAP;
    int64_t record = -1, reached = 0;
    struct fm_piece_walk walk;
    struct fm_piece piece;
    fm_piece_walk_init(&walk, data, examples, set);
    while (fm_piece_walk_next(&walk, &piece)) {
        int64_t base = data->starts[piece.record], length = fm_dataset_record_length(data, piece.record);
        if (piece.record != record) reached = INT64_MIN;
        record = piece.record;
        bool gapless = piece.step <= before + after + 1;
        for (int64_t i = 0; i < piece.count; i++) {
            int64_t from = piece.anchor + i * piece.step - before;
            if (gapless) i = piece.count - 1;
            int64_t to = piece.anchor + i * piece.step + after;
            /* Spans only move on: what was set before need not be set again. */
            if (from < reached) from = reached;
            if (from > to) continue;
            cover_range(bits, base, length, wrap, from, to);
            reached = to + 1;
        }
    }
}

static void mark(uint64_t *hit, const struct fm_piece *piece, int64_t from, int64_t to)
{
    if (piece->example_step == 1) {
        fm_bits_set_range(hit, piece->example + from, piece->example + to + 1);
        return;
    }
    for (int64_t i = from; i <= to; i++) fm_bits_set(hit, piece->example + i * piece->example_step);
}

/* Marks what of the piece touches the set positions of one round of its record; `round` is that round's first
 * position in the piece's unbounded positions. */
static void mark_round(const struct fm_piece *piece, int64_t before, int64_t after, const uint64_t *bits,
                       int64_t base, int64_t length, int64_t round, uint64_t *hit)
{
    int64_t from = piece->anchor - before, to = piece->anchor + (piece->count - 1) * piece->step + after;
    if (from < round) from = round;
    if (to > round + length - 1) to = round + length - 1;
    if (from > to) return;
    int64_t end = base + to - round + 1;
    int64_t p = fm_bits_next_one(bits, base + from - round, end);
    while (p < end) {
        int64_t q = fm_bits_next_zero(bits, p, end);
        int64_t low = p - base + round, high = q - 1 - base + round;
        /* Members whose last position is at least `low` and whose first is at most `high`. */
        int64_t first = -floor_divide(-(low - after - piece->anchor), piece->step);
        int64_t last = floor_divide(high + before - piece->anchor, piece->step);
        if (first < 0) first = 0;
        if (last > piece->count - 1) last = piece->count - 1;
        if (first <= last) mark(hit, piece, first, last);
        if (last == piece->count - 1) return;
        p = fm_bits_next_one(bits, q, end);
    }
}

void fm_mark_touching(const struct fm_dataset *data, const struct fm_examples *examples,
                      const struct fm_indexset *candidates, int64_t before, int64_t after,
                      const uint64_t *bits, uint64_t *hit)
{
    bool wrap = examples->edge == FM_EDGE_WRAP;
    struct fm_piece_walk walk;
    struct fm_piece piece;
    fm_piece_walk_init(&walk, data, examples, candidates);
    while (fm_piece_walk_next(&walk, &piece)) {
        int64_t base = data->starts[piece.record], length = fm_dataset_record_length(data, piece.record);
        if (!wrap) {
            mark_round(&piece, before, after, bits, base, length, 0, hit);
        } else if (before + after + 1 >= length) {
            int64_t end = base + length;
            if (fm_bits_next_one(bits, base, end) < end) mark(hit, &piece, 0, piece.count - 1);
        } else {
            /* Spans are shorter than the record, but the label may lie some rounds away from its anchor. */
            int64_t from = piece.anchor - before, to = piece.anchor + (piece.count - 1) * piece.step + after;
            for (int64_t round = floor_divide(from, length) * length; round <= to; round += length)
                mark_round(&piece, before, after, bits, base, length, round, hit);
        }
    }
}

int fm_mark_sharing(const struct fm_view *longest, const struct fm_data_config *config,
                    const struct fm_indexset *candidates, const struct fm_indexset *against, int64_t after,
                    uint64_t *hit, struct fm_error *err)
{
    const struct fm_dataset *data = longest->data;
    struct fm_label_rule rule;
    fm_label_rule_fill(&rule, config, longest->length);
    uint64_t *bits = fm_calloc((size_t)fm_bits_words(data->positions), sizeof *bits);
    if (!bits) return fm_fail_memory(err);
    fm_cover(data, longest->examples, against, rule.before, rule.after + after, bits);
    fm_mark_touching(data, longest->examples, candidates, rule.before, rule.after, bits, hit);
    fm_free(bits);
    return 0;
}
