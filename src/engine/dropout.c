#include "engine/dropout.h"

#include "base/random.h"

uint64_t fm_dropout_key(uint64_t key, int64_t step, int operation, int64_t place)
{
    const uint64_t s = (uint64_t)step;
    const uint32_t counter[4] = {(uint32_t)s, (uint32_t)(s >> 32), (uint32_t)operation, (uint32_t)place};
    uint32_t out[4];
    fm_philox(counter, key, out);
    return (uint64_t)out[1] << 32 | out[0];
}

void fm_dropout_keep(uint64_t dropout_key, double rate, int64_t count, unsigned char *keep)
{
    for (int64_t first = 0; first < count; first += 4) {
        const uint64_t block = (uint64_t)first / 4;
        const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0};
        uint32_t bits[4];
        fm_philox(counter, dropout_key, bits);
        for (int64_t i = 0; i < 4 && first + i < count; i++)
            keep[first + i] = (double)fm_uniform_float(bits[i]) >= rate;
    }
}
