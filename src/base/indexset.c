#include "base/indexset.h"

#include "base/memory.h"

/* A block of the rank directory: 8 words of 64 bits. */
enum { BLOCK_WORDS = 8 };

static int64_t word_count(const struct fm_indexset *set)
{
    return (set->nbits + 63) / 64;
}

static int64_t block_count(const struct fm_indexset *set)
{
    return (word_count(set) + BLOCK_WORDS - 1) / BLOCK_WORDS;
}

void fm_indexset_fini(struct fm_indexset *set)
{
    fm_free(set->runs);
    fm_free(set->bits);
    fm_free(set->ranks);
    *set = (struct fm_indexset){0};
}

int64_t fm_indexset_bytes(const struct fm_indexset *set)
{
    if (!set->bits) return set->nruns * (int64_t)sizeof *set->runs;
    return (word_count(set) + block_count(set)) * 8;
}

/* The last run that holds fewer than or exactly i members before it: the one with the i-th member. */
static int64_t run_of_index(const struct fm_indexset *set, int64_t i)
{
    int64_t low = 0, high = set->nruns;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (set->runs[middle].before <= i) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Place of the n-th set bit of a word (from 0). */
static int select_bit(uint64_t word, int n)
{
    int place = 0;
    for (int width = 32; width > 0; width /= 2) {
        int count = __builtin_popcountll(word & (((uint64_t)1 << width) - 1));
        if (n >= count) {
            n -= count;
            word >>= width;
            place += width;
        }
    }
    return place;
}

static int64_t bit_of_index(const struct fm_indexset *set, int64_t i)
{
    int64_t low = 0, high = block_count(set);
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (set->ranks[middle] <= i) {
            low = middle;
        } else {
            high = middle;
        }
    }
    int64_t word = low * BLOCK_WORDS;
    int rest = (int)(i - set->ranks[low]);
    for (int count; rest >= (count = __builtin_popcountll(set->bits[word])); word++) rest -= count;
    return word * 64 + select_bit(set->bits[word], rest);
}

int64_t fm_indexset_at(const struct fm_indexset *set, int64_t i)
{
    if (set->bits) return set->origin + bit_of_index(set, i) * set->stride;
    const struct fm_stretch *run = &set->runs[run_of_index(set, i)];
    return run->first + (i - run->before) * run->stride;
}

static int64_t rank_in_runs(const struct fm_indexset *set, int64_t value)
{
    int64_t low = 0, high = set->nruns;
    /* low becomes the number of runs that start below value. */
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (set->runs[middle].first < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) return 0;
    const struct fm_stretch *run = &set->runs[low - 1];
    int64_t below = (value - run->first - 1) / run->stride + 1;
    return run->before + (below < run->count ? below : run->count);
}

static int64_t rank_in_bits(const struct fm_indexset *set, int64_t value)
{
    if (value <= set->origin) return 0;
    int64_t bit = (value - set->origin - 1) / set->stride + 1;
    if (bit >= set->nbits) return set->count;
    int64_t block = bit / (64 * BLOCK_WORDS), rank = set->ranks[block];
    for (int64_t word = block * BLOCK_WORDS; word < bit / 64; word++)
        rank += __builtin_popcountll(set->bits[word]);
    return rank + __builtin_popcountll(set->bits[bit / 64] & (((uint64_t)1 << bit % 64) - 1));
}

int64_t fm_indexset_rank(const struct fm_indexset *set, int64_t value)
{
    if (set->count == 0) return 0;
    return set->bits ? rank_in_bits(set, value) : rank_in_runs(set, value);
}

bool fm_indexset_has(const struct fm_indexset *set, int64_t value)
{
    if (set->count == 0) return false;
    if (set->bits) {
        if (value < set->origin || (value - set->origin) % set->stride != 0) return false;
        int64_t bit = (value - set->origin) / set->stride;
        return bit < set->nbits && (set->bits[bit / 64] >> bit % 64 & 1);
    }
    int64_t rank = rank_in_runs(set, value);
    return rank < set->count && fm_indexset_at(set, rank) == value;
}

bool fm_indexset_next(const struct fm_indexset *set, struct fm_cursor *cursor, int64_t *member)
{
    if (cursor->index >= set->count) return false;
    cursor->index++;
    if (!set->bits) {
        const struct fm_stretch *run = &set->runs[cursor->run];
        *member = run->first + cursor->place * run->stride;
        if (++cursor->place == run->count) {
            cursor->place = 0;
            cursor->run++;
        }
        return true;
    }
    int64_t word = cursor->place / 64;
    uint64_t rest = set->bits[word] >> cursor->place % 64 << cursor->place % 64;
    while (rest == 0) rest = set->bits[++word];
    int64_t bit = word * 64 + __builtin_ctzll(rest);
    *member = set->origin + bit * set->stride;
    cursor->place = bit + 1;
    return true;
}
