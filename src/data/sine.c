/* The sensor engineer's made-up series: sin(i) + Normal(0, noise), and at some random positions `height`
 * more; those positions are the anomalies, class "1". One record, called "sine". Sample i draws from the
 * counter (i) of its key; the anomalies are the first places of a permutation chosen by a second key. */
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "data/build.h"
#include "data/load.h"

#include <math.h>
#include <string.h>

static int check(const struct fm_data_config *config, const struct fm_dataset_needs *needs, int64_t *stored,
                 struct fm_error *err)
{
    int64_t n = config->sine.samples, bytes;
    if (needs->numbers) {
        return fm_fail(err, FM_EFILE,
                       "data: the labels of a sine are two classes, so the loss cannot be mse, mae or huber");
    }
    if (needs->fold_column) return fm_fail(err, FM_EFILE, "cv.column: a sine has no columns");
    if (n < 1 || config->sine.anomalies < 1 || config->sine.anomalies >= n) {
        return fm_fail(err, FM_EFILE, "data: `anomalies` must be at least 1 and fewer than `samples`");
    }
    if (__builtin_add_overflow(n, *stored, stored) ||
        !fm_multiply(*stored, (int64_t)sizeof(double), &bytes)) {
        return fm_fail(err, FM_EFILE, "data: so many `samples` cannot be counted");
    }
    return 0;
}

static int allocate(struct fm_dataset *d, const struct fm_dataset_needs *needs, struct fm_error *err)
{
    static const char *const names[] = {"0", "1"};
    d->starts = fm_calloc(2, sizeof *d->starts);
    d->record_group = fm_calloc(1, sizeof *d->record_group);
    d->record_ids = fm_calloc(1, sizeof *d->record_ids);
    d->group_names = fm_calloc(1, sizeof *d->group_names);
    d->channel_names = fm_calloc(1, sizeof *d->channel_names);
    d->class_names = fm_calloc(2, sizeof *d->class_names);
    d->offset = fm_calloc(1, sizeof *d->offset);
    d->values = fm_malloc((size_t)d->positions, sizeof *d->values);
    if (needs->time) d->time = fm_malloc((size_t)d->positions, sizeof *d->time);
    if (!d->starts || !d->record_group || !d->record_ids || !d->group_names || !d->channel_names ||
        !d->class_names || !d->offset || !d->values || (needs->time && !d->time)) {
        return fm_fail_memory(err);
    }
    d->nrecords = d->ngroups = d->channels = 1;
    d->nclasses = 2;
    d->record_ids[0] = fm_strdup("sine");
    d->group_names[0] = fm_strdup("sine");
    d->channel_names[0] = fm_strdup("value");
    for (int i = 0; i < 2; i++) d->class_names[i] = fm_strdup(names[i]);
    if (!d->record_ids[0] || !d->group_names[0] || !d->channel_names[0] || !d->class_names[0] ||
        !d->class_names[1]) {
        return fm_fail_memory(err);
    }
    d->starts[1] = d->positions;
    return fm_packed_init(&d->classes, d->positions, 2, err);
}

static double sample(uint64_t key, int64_t i, double noise)
{
    const uint32_t counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), 0, 0};
    uint32_t bits[4];
    double normal[2];
    fm_philox(counter, key, bits);
    fm_normal(bits, normal);
    return sin((double)i) + noise * normal[0];
}

int fm_load_sine(struct fm_dataset *d, const struct fm_data_config *config,
                 const struct fm_dataset_needs *needs, struct fm_notes *notes, struct fm_error *err)
{
    int64_t n = config->sine.samples;
    uint64_t seed = (uint64_t)config->sine.seed, key = fm_key(seed, FM_PURPOSE_SINE, 0, 0);
    struct fm_permutation places;
    (void)notes;
    if (config->has_window && config->window.edge == FM_EDGE_WRAP && needs->longest_window > 1) {
        d->head = needs->longest_window - 1;
    }
    int64_t stored = d->head;
    int rc = check(config, needs, &stored, err);
    if (rc != 0) return rc;
    d->positions = stored;
    rc = allocate(d, needs, err);
    if (rc != 0) return rc;
    fm_permutation_init(&places, (uint64_t)n, fm_key(seed, FM_PURPOSE_SINE, 1, 0), 0);
    for (int64_t k = 0; k < config->sine.anomalies; k++) {
        fm_packed_set(&d->classes, (int64_t)fm_permutation_at(&places, (uint64_t)k), 1);
    }
    for (int64_t i = 0; i < n; i++) {
        double height = fm_packed_get(&d->classes, i) ? config->sine.height : 0;
        d->values[i] = (float)(sample(key, i, config->sine.noise) + height);
        if (isinf(d->values[i])) return fm_fail(err, FM_EFILE, "data: `noise` or `height` is too large");
        if (d->time) d->time[i] = (double)i;
    }
    for (int64_t i = 0; i < d->head; i++) fm_position_copy(d, i, n + i);
    return 0;
}
