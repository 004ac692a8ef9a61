#include "base/random.h"

enum { N = 624, M = 397 };

void fm_mt19937_init(struct fm_mt19937 *mt, uint32_t seed)
{
    mt->state[0] = seed;
    for (uint32_t i = 1; i < N; i++) {
        uint32_t before = mt->state[i - 1];
        mt->state[i] = 1812433253u * (before ^ before >> 30) + i;
    }
    mt->next = N;
}

static uint32_t twist(uint32_t high, uint32_t low)
{
    uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);
    return y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
}

static void refill(struct fm_mt19937 *mt)
{
    uint32_t *s = mt->state;
    for (int i = 0; i < N; i++) s[i] = s[(i + M) % N] ^ twist(s[i], s[(i + 1) % N]);
    mt->next = 0;
}

uint32_t fm_mt19937_next(struct fm_mt19937 *mt)
{
    if (mt->next >= N) refill(mt);
    uint32_t y = mt->state[mt->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

uint32_t fm_mt19937_interval(struct fm_mt19937 *mt, uint32_t max)
{
    if (max == 0) return 0;
    uint32_t mask = UINT32_MAX >> __builtin_clz(max), value;
    do {
        value = fm_mt19937_next(mt) & mask;
    } while (value > max);
    return value;
}

void fm_mt19937_shuffle(struct fm_mt19937 *mt, uint32_t *items, int64_t n)
{
    /* Which items meet does not depend on them, so partners are drawn some steps ahead and fetched meanwhile:
     * a large shuffle otherwise waits for memory at every step. */
    enum { AHEAD = 64 };
    uint32_t partner[AHEAD];
    for (int64_t i = n - 1; i > 0;) {
        int64_t count = i < AHEAD ? i : AHEAD;
        for (int64_t k = 0; k < count; k++) {
            partner[k] = fm_mt19937_interval(mt, (uint32_t)(i - k));
            __builtin_prefetch(&items[partner[k]], 1);
        }
        for (int64_t k = 0; k < count; k++, i--) {
            uint32_t item = items[i];
            items[i] = items[partner[k]];
            items[partner[k]] = item;
        }
    }
}
