/* Random numbers by key, never by history: any number can be computed anywhere, in any order, on any device.
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011; test
 * vectors of Random123) turns a key of 64 bits and a counter of 128 bits into 128 random bits. Keys are made
 * by fm_key from what a number is for. The epoch permutation is a Feistel network over Philox with cycle
 * walking. MT19937 (Matsumoto and Nishimura 1998) is here only because scikit-learn's shuffled splits use it.
 */
#ifndef FM_BASE_RANDOM_H
#define FM_BASE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void fm_philox(const uint32_t counter[4], uint64_t key, uint32_t out[4]);

/* Several in a row, many times as fast: out[w][i] is word w of the counter whose middle 64 bits (counter[1]
 * low, counter[2] high) are i further on. 0 <= n <= FM_PHILOX_ROW. */
#define FM_PHILOX_ROW 256
void fm_philox_row(const uint32_t counter[4], uint64_t key, int n, uint32_t out[4][FM_PHILOX_ROW]);
/* The same by instructions of the caller's choice, for tests: false where this machine lacks them. */
enum fm_philox_way { FM_PHILOX_PLAIN, FM_PHILOX_AVX2, FM_PHILOX_AVX512 };
bool fm_philox_row_by(enum fm_philox_way way, const uint32_t counter[4], uint64_t key, int n,
                      uint32_t out[4][FM_PHILOX_ROW]);

/* What a stream of random numbers is for; part of its key, so that streams never meet. Values are on record
 * in journals and must not change. */
enum fm_purpose {
    FM_PURPOSE_WEIGHTS = 1, /* counter: (variable, element) */
    FM_PURPOSE_SHUFFLE = 2, /* counter: (pass over the training set, ...) */
    FM_PURPOSE_DROPOUT = 3, /* counter: (step, operation, example, element / 4) */
    FM_PURPOSE_SEARCH = 4,  /* counter: (draw, parameter, attempt) */
    FM_PURPOSE_SINE = 5     /* counter: (sample) */
};

/* Mixes the parts into one 64-bit key (by Philox itself). Training: seed = train.seed, a = repeat, b = fold.
 */
uint64_t fm_key(uint64_t seed, enum fm_purpose purpose, uint32_t a, uint32_t b);

float fm_uniform_float(uint32_t bits); /* [0, 1): 24 bits */
/* [0, 1): 53 bits. Here, because it is asked for every weight of every run; both parts fit an int32_t, from
 * which processors convert fastest. */
static inline double fm_uniform_double(uint32_t high, uint32_t low)
{
    return ((double)(int32_t)(high >> 5) * 0x1p26 + (double)(int32_t)(low >> 6)) * 0x1p-53;
}
/* Two independent standard normal numbers from 128 bits (Box-Muller, in double). */
void fm_normal(const uint32_t bits[4], double out[2]);

/* A permutation of 0..n-1 chosen by a key: place i holds fm_permutation_at(p, i). n >= 1, n < 2^62.
 * Six Feistel rounds over the smallest even number of bits that hold n, walking until the value is below n.
 */
struct fm_permutation {
    uint64_t n, key;
    uint32_t counter; /* which pass over the set */
    int half_bits;
};
void fm_permutation_init(struct fm_permutation *p, uint64_t n, uint64_t key, uint32_t pass);
uint64_t fm_permutation_at(const struct fm_permutation *p, uint64_t i);
/* places[i] = fm_permutation_at(p, first + i), several at a time: a third of the time each. */
void fm_permutation_many(const struct fm_permutation *p, uint64_t first, int64_t count, uint64_t *places);

struct fm_mt19937 {
    uint32_t state[624];
    int next;
};
void fm_mt19937_init(struct fm_mt19937 *mt, uint32_t seed); /* numpy.random.RandomState(seed) */
uint32_t fm_mt19937_next(struct fm_mt19937 *mt);
uint32_t fm_mt19937_interval(struct fm_mt19937 *mt,
                             uint32_t max); /* 0..max, as RandomState's legacy interval */
void fm_mt19937_shuffle(struct fm_mt19937 *mt, uint32_t *items,
                        int64_t n); /* RandomState.shuffle, n <= 2^32 */

/* A hash that tells changed data from unchanged, not an adversary's work: 64 bits, incremental, independent
 * of how the bytes were cut into calls. Zero-initialise (with an optional seed in `state`). */
struct fm_hash {
    uint64_t state, tail, bytes;
};
void fm_hash_add(struct fm_hash *h, const void *bytes, size_t size);
uint64_t fm_hash_value(const struct fm_hash *h);

#endif
