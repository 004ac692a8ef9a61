#include "data/median.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { BINS = 65536, PASSES = 4 };

void fm_median_init(struct fm_median *m, size_t limit)
{
    *m = (struct fm_median){.limit = limit};
}

void fm_median_fini(struct fm_median *m)
{
    fm_free(m->bits);
    fm_free(m->counts);
    fm_free(m->histogram[0]);
    fm_free(m->histogram[1]);
    *m = (struct fm_median){0};
}

/* Positive doubles are ordered as their bits are. */
static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double value_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static size_t slot_of(const struct fm_median *m, uint64_t bits)
{
    uint64_t h = bits * 0x9E3779B97F4A7C15u;
    size_t slot = (h ^ h >> 32) & (m->nslots - 1);
    while (m->counts[slot] != 0 && m->bits[slot] != bits) slot = (slot + 1) & (m->nslots - 1);
    return slot;
}

static int grow_table(struct fm_median *m)
{
    uint64_t *old_bits = m->bits, *old_counts = m->counts;
    size_t old = m->nslots, wanted = old ? old * 2 : 256;
    uint64_t *bits = fm_malloc(wanted, sizeof *bits), *counts = fm_calloc(wanted, sizeof *counts);
    if (!bits || !counts) {
        fm_free(bits);
        fm_free(counts);
        return FM_ENOMEM;
    }
    m->bits = bits;
    m->counts = counts;
    m->nslots = wanted;
    for (size_t i = 0; i < old; i++) {
        if (old_counts[i] == 0) continue;
        size_t slot = slot_of(m, old_bits[i]);
        bits[slot] = old_bits[i];
        counts[slot] = old_counts[i];
    }
    fm_free(old_bits);
    fm_free(old_counts);
    return 0;
}

static int add_to_table(struct fm_median *m, uint64_t bits)
{
    if (m->distinct * 2 >= m->nslots) {
        int rc = grow_table(m);
        if (rc != 0) return rc;
    }
    size_t slot = slot_of(m, bits);
    if (m->counts[slot]++ > 0) return 0;
    m->bits[slot] = bits;
    if (++m->distinct <= m->limit) return 0;
    m->by_bits = true;
    m->pass = -1; /* the rest of this pass is only counted */
    fm_free(m->bits);
    fm_free(m->counts);
    m->bits = m->counts = NULL;
    return 0;
}

int fm_median_add(struct fm_median *m, double value)
{
    uint64_t bits = bits_of(value);
    if (!m->by_bits) {
        m->count++;
        return add_to_table(m, bits);
    }
    if (m->pass < 0) {
        m->count++;
        return 0;
    }
    int shift = 48 - 16 * m->pass;
    for (int k = 0; k < 2; k++) {
        if (m->pass == 0 || bits >> (shift + 16) == m->prefix[k]) m->histogram[k][bits >> shift & 0xffff]++;
    }
    return 0;
}

static int begin_passes(struct fm_median *m)
{
    for (int k = 0; k < 2; k++) {
        m->histogram[k] = fm_calloc(BINS, sizeof **m->histogram);
        if (!m->histogram[k]) return FM_ENOMEM;
    }
    m->rank[0] = (m->count - 1) / 2;
    m->rank[1] = m->count / 2;
    m->pass = 0;
    return 1;
}

int fm_median_end_pass(struct fm_median *m)
{
    if (!m->by_bits) return 0;
    if (m->pass < 0) return begin_passes(m);
    for (int k = 0; k < 2; k++) {
        uint64_t bin = 0;
        while (bin < BINS - 1 && m->histogram[k][bin] <= m->rank[k]) m->rank[k] -= m->histogram[k][bin++];
        m->prefix[k] = m->prefix[k] << 16 | bin;
        memset(m->histogram[k], 0, BINS * sizeof **m->histogram);
    }
    return ++m->pass < PASSES;
}

static int compare_bits(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (x[0] > y[0]) - (x[0] < y[0]);
}

double fm_median_value(const struct fm_median *m)
{
    if (m->by_bits) return value_of(m->prefix[0]) + (value_of(m->prefix[1]) - value_of(m->prefix[0])) / 2;
    if (m->count == 0) return 0;
    uint64_t(*sorted)[2] = fm_malloc(m->distinct, sizeof *sorted);
    if (!sorted) return -1;
    size_t n = 0;
    for (size_t i = 0; i < m->nslots; i++) {
        if (m->counts[i] == 0) continue;
        sorted[n][0] = m->bits[i];
        sorted[n++][1] = m->counts[i];
    }
    qsort(sorted, n, sizeof *sorted, compare_bits);
    double middle[2] = {0, 0};
    uint64_t rank[2] = {(m->count - 1) / 2, m->count / 2};
    for (int k = 0; k < 2; k++) {
        uint64_t before = 0;
        size_t i = 0;
        while (i + 1 < n && before + sorted[i][1] <= rank[k]) before += sorted[i++][1];
        middle[k] = value_of(sorted[i][0]);
    }
    fm_free(sorted);
    return middle[0] + (middle[1] - middle[0]) / 2;
}
