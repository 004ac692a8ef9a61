/* Small whole numbers packed into 1, 8, 16 or 32 bits each: class codes of positions and examples. */
#ifndef FM_DATA_PACKED_H
#define FM_DATA_PACKED_H

#include <stdint.h>

struct fm_error;

struct fm_packed {
    int bits; /* 1, 8, 16 or 32; 0 = empty */
    int64_t count;
    void *data; /* cleared at first: all zero */
};

/* Room for `count` numbers in [0, limit). */
int fm_packed_init(struct fm_packed *p, int64_t count, int64_t limit, struct fm_error *err);
void fm_packed_fini(struct fm_packed *p);
int64_t fm_packed_bytes(const struct fm_packed *p);

static inline uint32_t fm_packed_get(const struct fm_packed *p, int64_t i)
{
    switch (p->bits) {
    case 1: return ((const uint8_t *)p->data)[i >> 3] >> (i & 7) & 1;
    case 8: return ((const uint8_t *)p->data)[i];
    case 16: return ((const uint16_t *)p->data)[i];
    default: return ((const uint32_t *)p->data)[i];
    }
}

static inline void fm_packed_set(struct fm_packed *p, int64_t i, uint32_t value)
{
    uint8_t *byte;
    switch (p->bits) {
    case 1:
        byte = (uint8_t *)p->data + (i >> 3);
        *byte = (uint8_t)((*byte & ~(1u << (i & 7))) | (value & 1u) << (i & 7));
        break;
    case 8: ((uint8_t *)p->data)[i] = (uint8_t)value; break;
    case 16: ((uint16_t *)p->data)[i] = (uint16_t)value; break;
    default: ((uint32_t *)p->data)[i] = value; break;
    }
}

#endif
