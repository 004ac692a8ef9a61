/* The dropout mask by key: every backend computes the same one, at any place, in any order.
 *
 * Philox with counter {step low, step high, operation id, place in the batch} under the run's dropout key
 * fm_key(seed, DROPOUT, repeat, fold) gives a key of its own for one operation and example; under that key
 * Philox with counter {e / 4 low, e / 4 high, 0, 0} gives the numbers of the elements e. Element e is kept
 * when its uniform number in [0, 1) is at least `rate`: rate 0 keeps all, rate 1 none. */
#ifndef FM_ENGINE_DROPOUT_H
#define FM_ENGINE_DROPOUT_H

#include <stdint.h>

uint64_t fm_dropout_key(uint64_t key, int64_t step, int operation, int64_t place);

/* keep[i] = 1 when element i is kept, else 0, for elements 0..count-1. */
void fm_dropout_keep(uint64_t dropout_key, double rate, int64_t count, unsigned char *keep);

#endif
