/* A set of increasing 64-bit numbers: the examples among the positions, the members of a fold among the
 * examples. Where members are consecutive it is a list of runs; where they are scattered, a bitmap with a
 * rank directory (one bit and an eighth a candidate). Either way the i-th member is found without walking.
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

struct fm_indexset {
    int64_t count;
    /* As runs (bits == NULL). */
    struct fm_stretch *runs;
    int64_t nruns;
    /* As a bitmap: bit b stands for the number origin + b * stride. ranks[k] = members before word 8k. */
    uint64_t *bits;
    int64_t *ranks;
    int64_t origin, stride, nbits;
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

int64_t fm_indexset_at(const struct fm_indexset *set, int64_t i);       /* 0 <= i < count */
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
