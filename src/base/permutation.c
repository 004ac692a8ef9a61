#include "base/random.h"

void fm_permutation_init(struct fm_permutation *p, uint64_t n, uint64_t key, uint32_t pass)
{
    p->n = n;
    p->key = key;
    p->counter = pass;
    p->half_bits = 1;
    while ((n - 1) >> (2 * p->half_bits)) p->half_bits++;
}

/* So many values go through the rounds side by side: a round waits for its products, and compilers make
 * vectors of loops with a fixed count. */
enum { LANES = 16 };

/* The keys of Philox's ten rounds. */
struct schedule {
    uint32_t low[10], high[10];
};

static void fill_schedule(struct schedule *s, uint64_t key)
{
    for (uint32_t r = 0; r < 10; r++) {
        s->low[r] = (uint32_t)key + r * 0x9E3779B9u;
        s->high[r] = (uint32_t)(key >> 32) + r * 0xBB67AE85u;
    }
}

static inline uint64_t times_0(uint32_t x)
{
    return (uint64_t)0xD2511F53u * x;
}

static inline uint64_t times_1(uint32_t x)
{
    return (uint64_t)0xCD9E8D57u * x;
}

static inline uint32_t high_half(uint64_t x)
{
    return (uint32_t)(x >> 32);
}

/* out[j] = the first number of Philox (random.c) for the counter {right[j], round, pass, 0}. What all
 * counters have in common is worked out once in the first two rounds, and what the first number does not hang
 * on is left out in the last: 17 products instead of 20. */
static inline __attribute__((always_inline)) void philox_first(const int lanes, const struct schedule *s,
                                                               const uint32_t *right, uint32_t round,
                                                               uint32_t pass, uint32_t *out)
{
    const uint64_t second = times_1(pass), first = times_0(high_half(second) ^ round ^ s->low[0]);
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    for (int j = 0; j < lanes; j++) {
        const uint64_t p = times_0(right[j]), q = times_1(high_half(p) ^ s->high[0]);
        c0[j] = high_half(q) ^ (uint32_t)second ^ s->low[1];
        c1[j] = (uint32_t)q;
        c2[j] = high_half(first) ^ (uint32_t)p ^ s->high[1];
        c3[j] = (uint32_t)first;
    }
    for (int r = 2; r < 9; r++)
        for (int j = 0; j < lanes; j++) {
            const uint64_t p = times_0(c0[j]), q = times_1(c2[j]);
            c0[j] = high_half(q) ^ c1[j] ^ s->low[r];
            c1[j] = (uint32_t)q;
            c2[j] = high_half(p) ^ c3[j] ^ s->high[r];
            c3[j] = (uint32_t)p;
        }
    for (int j = 0; j < lanes; j++) out[j] = high_half(times_1(c2[j])) ^ c1[j] ^ s->low[9];
}

/* Six rounds of the network over `lanes` values, in place. */
static inline __attribute__((always_inline)) void feistel(const int lanes, const struct fm_permutation *p,
                                                          const struct schedule *s, uint64_t *values)
{
    const uint32_t mask = (uint32_t)(((uint64_t)1 << p->half_bits) - 1);
    uint32_t left[LANES], right[LANES], out[LANES];
    for (int j = 0; j < lanes; j++) {
        left[j] = (uint32_t)(values[j] >> p->half_bits);
        right[j] = (uint32_t)values[j] & mask;
    }
    for (uint32_t round = 0; round < 6; round++) {
        philox_first(lanes, s, right, round, p->counter, out);
        for (int j = 0; j < lanes; j++) {
            const uint32_t next = left[j] ^ (out[j] & mask);
            left[j] = right[j];
            right[j] = next;
        }
    }
    for (int j = 0; j < lanes; j++) values[j] = (uint64_t)left[j] << p->half_bits | right[j];
}

/* At least a quarter of all values lies below n (n = 2 and more), so the walk is short; and it ends, because
 * following a permutation from a value inside comes back inside. */
uint64_t fm_permutation_at(const struct fm_permutation *p, uint64_t i)
{
    struct schedule s;
    fill_schedule(&s, p->key);
    uint64_t value = i;
    do {
        feistel(1, p, &s, &value);
    } while (value >= p->n);
    return value;
}

static void walk_all(const struct fm_permutation *p, const struct schedule *s, uint64_t *values, int count)
{
    for (int i = 0; i < count; i += LANES) feistel(LANES, p, s, values + i);
}

/* All values of a lot walk in step; those that have arrived drop out. */
void fm_permutation_many(const struct fm_permutation *p, uint64_t first, int64_t count, uint64_t *places)
{
    enum { LOT = 256 };
    uint64_t value[LOT + LANES];
    int place[LOT];
    struct schedule s;
    fill_schedule(&s, p->key);
    for (; count > 0; first += LOT, places += LOT, count -= LOT) {
        int left = count < LOT ? (int)count : LOT;
        for (int i = 0; i < left; i++) {
            value[i] = first + (uint64_t)i;
            place[i] = i;
        }
        while (left > 0) {
            for (int j = 0; j < LANES; j++) value[left + j] = 0;
            walk_all(p, &s, value, left);
            int kept = 0;
            for (int i = 0; i < left; i++) {
                places[place[i]] = value[kept] = value[i];
                place[kept] = place[i];
                kept += value[i] >= p->n;
            }
            left = kept;
        }
    }
}
