#include "base/random.h"

#include <endian.h>
#include <string.h>

/* The mixing steps and primes are those of XXH64 (Collet, public specification), on one lane of eight bytes.
 */
static const uint64_t prime1 = 0x9E3779B185EBCA87u, prime2 = 0xC2B2AE3D27D4EB4Fu,
                      prime3 = 0x165667B19E3779F9u, prime4 = 0x85EBCA77C2B2AE63u;

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static uint64_t mix(uint64_t state, uint64_t word)
{
    return rotate(state ^ rotate(word * prime2, 31) * prime1, 27) * prime1 + prime4;
}

void fm_hash_add(struct fm_hash *h, const void *bytes, size_t size)
{
    const unsigned char *s = bytes;
    size_t i = 0;
    /* Up to seven bytes of an unfinished word wait in `tail`, the first in the lowest place. */
    for (; i < size && (h->bytes & 7) != 0; i++) {
        h->tail |= (uint64_t)s[i] << 8 * (h->bytes & 7);
        if ((++h->bytes & 7) == 0) {
            h->state = mix(h->state, h->tail);
            h->tail = 0;
        }
    }
    for (; size - i >= 8; i += 8) {
        uint64_t word;
        memcpy(&word, s + i, 8);
        h->state = mix(h->state, le64toh(word));
        h->bytes += 8;
    }
    for (; i < size; i++) h->tail |= (uint64_t)s[i] << 8 * (h->bytes++ & 7);
}

uint64_t fm_hash_value(const struct fm_hash *h)
{
    uint64_t x = mix(h->state, h->tail) ^ h->bytes * prime3;
    x = (x ^ x >> 33) * prime2;
    x = (x ^ x >> 29) * prime3;
    return x ^ x >> 32;
}
