/* The exact median of positive numbers that come as a stream, in bounded memory.
 *
 * Distinct values are counted in a table: the steps of a clock are few different ones. Only if they are more
 * than `limit`, the stream must be repeated, four times at most: each further pass fixes 16 more bits of the
 * median by counting how many values begin with what is known of it. */
#ifndef FM_DATA_MEDIAN_H
#define FM_DATA_MEDIAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_median {
    uint64_t count; /* values of one pass */
    size_t limit, distinct, nslots;
    uint64_t *bits, *counts; /* the table: values by their bits; counts 0 = free slot */
    bool by_bits;            /* the table was too small */
    int pass;                /* of the passes by bits, from 0 */
    uint64_t prefix[2];      /* of the two middle values */
    uint64_t rank[2];        /* their places among the values that share the prefix */
    uint64_t *histogram[2];  /* [65536] */
};

void fm_median_init(struct fm_median *m, size_t limit);
void fm_median_fini(struct fm_median *m);
int fm_median_add(struct fm_median *m, double value); /* value > 0; 0 or FM_ENOMEM */
/* The stream ended: 1 = give it once more, 0 = the median is known, or FM_ENOMEM. */
int fm_median_end_pass(struct fm_median *m);
/* The median (the mean of the middle two of an even number); 0 when there were no values, -1 when memory is
 * out. */
double fm_median_value(const struct fm_median *m);

#endif
