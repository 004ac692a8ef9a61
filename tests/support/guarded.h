/* Memory between guards, for what routines write: guarded_intact says whether anything beside it was touched.
 * The content starts as a pattern that is NaN when read as float, so that what was not written shows.
 * Comparisons of what two instruction sets made count all NaN as one. */
#ifndef FM_TESTS_GUARDED_H
#define FM_TESTS_GUARDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Not aligned to more than 8 bytes, on purpose. Asserts that there is memory. */
void *guarded_new(size_t bytes);
bool guarded_intact(const void *data);
/* Also whether element i of each of `count` rows at `stride` is untouched for n <= i < stride. */
bool guarded_gaps(const float *data, int64_t count, int64_t n, int64_t stride);
void guarded_free(void *data);

bool same_bits(const float *a, const float *b, int64_t n);

#endif
