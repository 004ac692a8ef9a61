#include "support/guarded.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 264, PATTERN = 0xff };

void *guarded_new(size_t bytes)
{
    unsigned char *memory = malloc(bytes + 2 * GUARD);
    if (!memory) abort();
    memset(memory, PATTERN, bytes + 2 * GUARD);
    memcpy(memory, &bytes, sizeof bytes);
    return memory + GUARD;
}

bool guarded_intact(const void *data)
{
    const unsigned char *memory = (const unsigned char *)data - GUARD;
    size_t bytes;
    memcpy(&bytes, memory, sizeof bytes);
    for (size_t i = sizeof bytes; i < GUARD; i++)
        if (memory[i] != PATTERN) return false;
    for (size_t i = GUARD + bytes; i < bytes + 2 * GUARD; i++)
        if (memory[i] != PATTERN) return false;
    return true;
}

bool guarded_gaps(const float *data, int64_t count, int64_t n, int64_t stride)
{
    uint32_t untouched, bits;
    memset(&untouched, PATTERN, sizeof untouched);
    for (int64_t e = 0; e + 1 < count; e++)
        for (int64_t i = n; i < stride; i++) {
            memcpy(&bits, data + e * stride + i, sizeof bits);
            if (bits != untouched) return false;
        }
    return true;
}

void guarded_free(void *data)
{
    free((unsigned char *)data - GUARD);
}

bool same_bits(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof *a) && !(a[i] != a[i] && b[i] != b[i])) return false;
    return true;
}
