#include "base/indexset.h"

#include "base/memory.h"

enum { BLOCK_WORDS = FM_INDEXSET_BLOCK };

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
    fm_free(set->blocks);
    *set = (struct fm_indexset){0};
}

int64_t fm_indexset_bytes(const struct fm_indexset *set)
{
    if (!set->bits) return set->nruns * (int64_t)sizeof *set->runs;
    return word_count(set) * 8 + block_count(set) * (int64_t)sizeof *set->blocks;
}

/* ---- the i-th member ---- */

/* Words of eight numbers of 8 bits or seven of 9, compared side by side: Vigna, "Broadword implementation of
 * rank/select queries", WEA 2008. */
#define BYTES  UINT64_C(0x0101010101010101)
#define NINES  UINT64_C(0x0040201008040201) /* bits 0, 9, 18 ... 54 */
#define TOPS_8 (BYTES << 7)
#define TOPS_9 (NINES << 8)

/* How many of the eight bytes of x, each below 128, are at most `limit`. */
static inline int bytes_up_to(uint64_t x, uint64_t limit)
{
    return (int)(((((limit * BYTES | TOPS_8) - x) & TOPS_8) >> 7) * BYTES >> 56);
}

/* Place of the n-th set bit of a word (from 0). */
static inline int select_bit(uint64_t word, uint64_t n)
{
    uint64_t sums = word - (word >> 1 & 0x55 * BYTES);
    sums = (sums & 0x33 * BYTES) + (sums >> 2 & 0x33 * BYTES);
    sums = ((sums + (sums >> 4)) & 0x0f * BYTES) * BYTES; /* byte j: set bits in bytes 0 to j */
    const int place = bytes_up_to(sums, n) * 8;
    const uint64_t before = (sums << 8) >> place & 0xff;
    /* Each bit of the byte in a byte of its own, then their sums. */
    uint64_t bits = (word >> place & 0xff) * BYTES & UINT64_C(0x8040201008040201);
    bits = ((bits | ((bits | TOPS_8) - BYTES)) & TOPS_8) >> 7;
    return place + bytes_up_to(bits * BYTES, n - before);
}

/* The block with the i-th member: it lies near i / count of the way where members are spread evenly, and is
 * searched for where it does not. */
static inline int64_t block_of_index(const struct fm_indexset *set, int64_t blocks, int64_t i)
{
    const struct fm_block *block = set->blocks;
    int64_t at = (int64_t)((double)i * set->pace) - 1;
    at = at < 0 ? 0 : at > blocks - 4 ? blocks - 4 : at;
    if (blocks >= 4) {
        const int64_t found =
            at + (block[at + 1].before <= i) + (block[at + 2].before <= i) + (block[at + 3].before <= i);
        if (block[found].before <= i && (found + 1 == blocks || block[found + 1].before > i)) return found;
    }
    const struct fm_block *first = block;
    for (int64_t n = blocks; n > 1; n -= n / 2) {
        const struct fm_block *middle = first + n / 2;
        first = middle->before <= i ? middle : first;
    }
    return first - block;
}

static inline int64_t bit_of_index(const struct fm_indexset *set, int64_t blocks, int64_t i)
{
    const int64_t at = block_of_index(set, blocks, i);
    const struct fm_block *block = &set->blocks[at];
    uint64_t rest = (uint64_t)(i - block->before);
    /* How many of the seven sums are at most `rest`: each is below 512, as rest is. */
    const uint64_t limit = rest * NINES, sums = block->sums;
    const uint64_t up_to =
        ((((limit | TOPS_9) - (sums & ~TOPS_9)) | (sums ^ limit)) ^ (sums & ~limit)) & TOPS_9;
    const int word = (int)((up_to >> 8) * NINES >> 54 & 7);
    rest -= sums >> 9 * ((word - 1) & 7) & 511; /* word 0: bit 63, which is 0 */
    return (at * BLOCK_WORDS + word) * 64 + select_bit(set->bits[at * BLOCK_WORDS + word], rest);
}

int64_t fm_indexset_at(const struct fm_indexset *set, int64_t i)
{
    if (set->bits) return set->origin + bit_of_index(set, block_count(set), i) * set->stride;
    const struct fm_stretch *run = fm_indexset_run(set, i);
    return run->first + (i - run->before) * run->stride;
}

void fm_indexset_at_many(const struct fm_indexset *set, const int64_t *places, int64_t count,
                         int64_t *members)
{
    if (set->bits) {
        const int64_t blocks = block_count(set);
        for (int64_t i = 0; i < count; i++)
            members[i] = set->origin + bit_of_index(set, blocks, places[i]) * set->stride;
    } else if (set->nruns == 1) {
        const struct fm_stretch run = set->runs[0];
        for (int64_t i = 0; i < count; i++) members[i] = run.first + places[i] * run.stride;
    } else {
        for (int64_t i = 0; i < count; i++) {
            const struct fm_stretch *run = fm_indexset_run(set, places[i]);
            members[i] = run->first + (places[i] - run->before) * run->stride;
        }
    }
}

/* ---- the rank of a number ---- */

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
    int64_t block = bit / (64 * BLOCK_WORDS), rank = set->blocks[block].before;
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
