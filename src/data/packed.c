#include "data/packed.h"

#include "base/error.h"
#include "base/memory.h"

static int width_for(int64_t limit)
{
    if (limit <= 2) return 1;
    if (limit <= 256) return 8;
    return limit <= 65536 ? 16 : 32;
}

int fm_packed_init(struct fm_packed *p, int64_t count, int64_t limit, struct fm_error *err)
{
    *p = (struct fm_packed){0};
    if (count < 0 || limit < 0 || limit > (int64_t)UINT32_MAX + 1) {
        return fm_fail(err, FM_EINTERNAL, "packed numbers of an impossible size were asked for");
    }
    int bits = width_for(limit);
    size_t bytes = bits == 1 ? ((size_t)count + 7) / 8 : (size_t)count;
    p->data = fm_calloc(bytes, bits == 1 ? 1 : (size_t)bits / 8);
    if (!p->data) return fm_fail_memory(err);
    p->bits = bits;
    p->count = count;
    return 0;
}

void fm_packed_fini(struct fm_packed *p)
{
    fm_free(p->data);
    *p = (struct fm_packed){0};
}

int64_t fm_packed_bytes(const struct fm_packed *p)
{
    return p->bits == 1 ? (p->count + 7) / 8 : p->count * (p->bits / 8);
}
