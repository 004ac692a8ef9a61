/* A set of increasing 64-bit numbers: the examples among the positions, the members of a fold among the
 * examples. Where members are consecutive it is a list of runs; where they are scattered, a bitmap with a
 * rank directory (one bit and a quarter a candidate). Either way the i-th member is found without walking.
 *
 * The builder takes members in increasing order and chooses the smaller form itself (a few runs stay runs).
 * Reading is thread safe. */
#ifndef FM_BASE_INDEXSET_H
#define FM_BASE_INDEXSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_error;

struct fm_stretch {
    int64_t first, count, stride; /* first, first + stride, ... ; stride >= 1 */
    int64_t before;               /* members in earlier runs */
};

/* Eight words of a bitmap. */
#define FM_INDEXSET_BLOCK 8
struct fm_block {
    int64_t before; /* members in earlier blocks */
    uint64_t sums;  /* bits 9k .. 9k + 8: members in the block's words 0 to k, k = 0 .. 6 */
};

struct fm_indexset {
    int64_t count;
    /* As runs (bits == NULL). */
    struct fm_stretch *runs;
    int64_t nruns;
    /* As a bitmap: bit b stands for the number origin + b * stride. */
    uint64_t *bits;
    struct fm_block *blocks; /* the rank directory */
    int64_t origin, stride, nbits;
    double pace; /* blocks a member: about where the i-th one lies */
};

/* Grows either form and changes between them as the other becomes much smaller, so that building never takes
 * more than a few times the memory of the result. */
struct fm_indexset_builder {
    struct fm_indexset set; /* the closed runs, or the bits of all members */
    struct fm_stretch open; /* the run that may still grow; count 0 = none */
    int64_t closed;         /* runs before it, listed in the set or only counted */
    size_t capacity;        /* of the runs or of the words of the bitmap */
    int64_t hint, grid;     /* the stride given; the greatest stride that reaches all members (0 = unknown) */
    int64_t last;
    int failed; /* 0 or the code that finish will return */
};

/* All members will be >= 0 and below 2^62; `stride` is the distance that is common between neighbours (1 if
 * unsure). */
void fm_indexset_builder_init(struct fm_indexset_builder *b, int64_t stride);
void fm_indexset_add(struct fm_indexset_builder *b, int64_t member); /* greater than the last */
void fm_indexset_add_run(struct fm_indexset_builder *b, int64_t first, int64_t count, int64_t stride);
/* Moves the set out; 0, FM_ENOMEM, or FM_EINTERNAL if members did not increase or were out of range. The
 * builder is empty afterwards in any case, and this is the only way to free it. After a failure the set is
 * empty and needs no fini. */
int fm_indexset_finish(struct fm_indexset_builder *b, struct fm_indexset *set, struct fm_error *err);
void fm_indexset_fini(struct fm_indexset *set);

/* Of a set kept as runs: the run with the i-th member, the last one with at most i members before it. The
 * choice is a conditional move, because the places of a shuffled pass cannot be predicted. */
static inline const struct fm_stretch *fm_indexset_run(const struct fm_indexset *set, int64_t i)
{
    const struct fm_stretch *run = set->runs;
    for (int64_t n = set->nruns; n > 1; n -= n / 2) {
        const struct fm_stretch *middle = run + n / 2;
        run = middle->before <= i ? middle : run;
    }
    return run;
}

int64_t fm_indexset_at(const struct fm_indexset *set, int64_t i); /* 0 <= i < count */
/* members[i] = fm_indexset_at(set, places[i]), in less time; `members` may be `places`. */
void fm_indexset_at_many(const struct fm_indexset *set, const int64_t *places, int64_t count,
                         int64_t *members);
int64_t fm_indexset_rank(const struct fm_indexset *set, int64_t value); /* members smaller than value */
bool fm_indexset_has(const struct fm_indexset *set, int64_t value);
int64_t fm_indexset_bytes(const struct fm_indexset *set); /* memory behind the set */

/* Walks all members in order: cursor starts at zero; false at the end. Amortised constant time a member. */
struct fm_cursor {
    int64_t index;      /* of the next member */
    int64_t run, place; /* where it lies */
};
bool fm_indexset_next(const struct fm_indexset *set, struct fm_cursor *cursor, int64_t *member);

#endif
