/* Bits in words: bit i is bit i % 64 of word i / 64. Ranges are half open; scanning goes word by word. */
#ifndef FM_DATA_BITS_H
#define FM_DATA_BITS_H

#include <stdbool.h>
#include <stdint.h>

static inline int64_t fm_bits_words(int64_t nbits)
{
    return nbits / 64 + (nbits % 64 != 0);
}

static inline bool fm_bits_get(const uint64_t *bits, int64_t i)
{
    return bits[i >> 6] >> (i & 63) & 1;
}

static inline void fm_bits_set(uint64_t *bits, int64_t i)
{
    bits[i >> 6] |= UINT64_C(1) << (i & 63);
}

/* Sets bits from <= i < to. */
static inline void fm_bits_set_range(uint64_t *bits, int64_t from, int64_t to)
{
    if (from >= to) return;
    int64_t a = from >> 6, b = (to - 1) >> 6;
    uint64_t head = ~UINT64_C(0) << (from & 63), tail = ~UINT64_C(0) >> (63 - ((to - 1) & 63));
    if (a == b) {
        bits[a] |= head & tail;
        return;
    }
    bits[a] |= head;
    for (int64_t w = a + 1; w < b; w++) bits[w] = ~UINT64_C(0);
    bits[b] |= tail;
}

/* The first i in [from, to) whose bit, xored with `flip`, is set; `to` if there is none. */
static inline int64_t fm_bits_find(const uint64_t *bits, int64_t from, int64_t to, uint64_t flip)
{
    if (from >= to) return to;
    int64_t w = from >> 6, last = (to - 1) >> 6;
    uint64_t word = (bits[w] ^ flip) & ~UINT64_C(0) << (from & 63);
    while (!word) {
        if (++w > last) return to;
        word = bits[w] ^ flip;
    }
    int64_t found = w * 64 + __builtin_ctzll(word);
    return found < to ? found : to;
}

static inline int64_t fm_bits_next_one(const uint64_t *bits, int64_t from, int64_t to)
{
    return fm_bits_find(bits, from, to, 0);
}

static inline int64_t fm_bits_next_zero(const uint64_t *bits, int64_t from, int64_t to)
{
    return fm_bits_find(bits, from, to, ~UINT64_C(0));
}

static inline int64_t fm_bits_count(const uint64_t *bits, int64_t nbits)
{
    int64_t count = 0;
    for (int64_t w = 0; w < fm_bits_words(nbits); w++) count += __builtin_popcountll(bits[w]);
    return count;
}

#endif
