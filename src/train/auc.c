/* ROC AUC and average precision by sorting keys in place.
 *
 * A float's bits become a key that orders as the float does, the keys of the positives are put before those
 * of the negatives in the scratch memory, each side is sorted by an in-place radix sort (American flag sort,
 * McIlroy, Bostic and McIlroy 1993: linear, no second buffer), and one walk over both counts pairs group by
 * group of equal scores. The AUC's numerator is a whole number, so its value depends on no order of
 * summation. */
#include "train/auc.h"

#include <math.h>
#include <string.h>

/* Scratch is handed in as floats but holds keys while it is sorted. */
typedef uint32_t __attribute__((may_alias)) fm_score_key;

#define SMALL 48

static uint32_t key_of(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 and +0 are one score */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static void insertion_sort(fm_score_key *keys, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        uint32_t key = keys[i];
        int64_t j = i;
        for (; j > 0 && keys[j - 1] > key; j--) keys[j] = keys[j - 1];
        keys[j] = key;
    }
}

/* Sorts by the byte at `shift` and then each bucket by the next lower one. */
static void radix_sort(fm_score_key *keys, int64_t n, int shift)
{
    if (n <= SMALL) {
        insertion_sort(keys, n);
        return;
    }
    int64_t next[256] = {0}, end[256];
    for (int64_t i = 0; i < n; i++) next[keys[i] >> shift & 255]++;
    int64_t sum = 0;
    for (int b = 0; b < 256; b++) {
        int64_t count = next[b];
        next[b] = sum;
        sum += count;
        end[b] = sum;
    }
    for (int b = 0; b < 256; b++) {
        while (next[b] < end[b]) {
            uint32_t key = keys[next[b]];
            int home = (int)(key >> shift & 255);
            while (home != b) {
                uint32_t other = keys[next[home]];
                keys[next[home]++] = key;
                key = other;
                home = (int)(key >> shift & 255);
            }
            keys[next[b]++] = key;
        }
    }
    if (shift == 0) return;
    int64_t first = 0;
    for (int b = 0; b < 256; b++) {
        if (end[b] - first > 1) radix_sort(keys + first, end[b] - first, shift - 8);
        first = end[b];
    }
}

void fm_ranking_init(struct fm_ranking *r, float *scratch, int64_t n)
{
    *r = (struct fm_ranking){.scratch = scratch, .n = n, .finite = true};
}

void fm_ranking_add(struct fm_ranking *r, float score, bool positive)
{
    fm_score_key *keys = (fm_score_key *)(void *)r->scratch;
    if (!isfinite(score)) r->finite = false;
    if (positive)
        keys[r->positives++] = key_of(score);
    else
        keys[r->n - ++r->negatives] = key_of(score);
}

static bool defined(const struct fm_ranking *r)
{
    return r->finite && r->positives > 0 && r->negatives > 0;
}

static void sort(struct fm_ranking *r)
{
    fm_score_key *keys = (fm_score_key *)(void *)r->scratch;
    if (r->sorted) return;
    radix_sort(keys, r->positives, 24);
    radix_sort(keys + r->n - r->negatives, r->negatives, 24);
    r->sorted = true;
}

/* Length of the run of keys equal to keys[first]. */
static int64_t equals(const fm_score_key *keys, int64_t first, int64_t n, uint32_t key)
{
    int64_t i = first;
    while (i < n && keys[i] == key) i++;
    return i - first;
}

double fm_ranking_auc(struct fm_ranking *r)
{
    if (!defined(r)) return NAN;
    sort(r);
    const fm_score_key *p = (const fm_score_key *)(const void *)r->scratch, *q = p + (r->n - r->negatives);
    unsigned __int128 twice = 0; /* twice the pairs won, half won where scores are equal */
    int64_t i = 0, j = 0;
    while (i < r->positives) {
        uint32_t key = p[i];
        while (j < r->negatives && q[j] < key) j++;
        int64_t np = equals(p, i, r->positives, key), nq = equals(q, j, r->negatives, key);
        twice += (unsigned __int128)(uint64_t)np * (uint64_t)(2 * j + nq);
        i += np;
        j += nq;
    }
    return (double)twice / (2.0 * (double)r->positives * (double)r->negatives);
}

double fm_ranking_average_precision(struct fm_ranking *r)
{
    if (!defined(r)) return NAN;
    sort(r);
    const fm_score_key *p = (const fm_score_key *)(const void *)r->scratch, *q = p + (r->n - r->negatives);
    double sum = 0; /* over thresholds from the highest: new true positives times precision */
    int64_t i = r->positives, j = r->negatives;
    while (i > 0) {
        uint32_t key = p[i - 1];
        int64_t before = i;
        while (i > 0 && p[i - 1] == key) i--;
        while (j > 0 && q[j - 1] >= key) j--;
        double hits = (double)(r->positives - i), alarms = (double)(r->negatives - j);
        sum += (double)(before - i) * (hits / (hits + alarms));
    }
    return sum / (double)r->positives;
}

static void fill(struct fm_ranking *r, const float *scores, const uint8_t *positive, int64_t n,
                 float *scratch)
{
    fm_ranking_init(r, scratch, n);
    for (int64_t i = 0; i < n; i++) fm_ranking_add(r, scores[i], positive[i] != 0);
}

double fm_metric_auc(const float *scores, const uint8_t *positive, int64_t n, float *scratch)
{
    struct fm_ranking r;
    fill(&r, scores, positive, n, scratch);
    return fm_ranking_auc(&r);
}

double fm_metric_average_precision(const float *scores, const uint8_t *positive, int64_t n, float *scratch)
{
    struct fm_ranking r;
    fill(&r, scores, positive, n, scratch);
    return fm_ranking_average_precision(&r);
}
