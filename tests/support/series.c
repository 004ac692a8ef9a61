#include "support/series.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

static uint64_t step(struct ts_random *r)
{
    if (r->state == 0) r->state = 88172645463325252ull;
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 2685821657736338717ull;
}

uint32_t ts_random_below(struct ts_random *r, uint32_t limit)
{
    return (uint32_t)((step(r) >> 32) * (uint64_t)limit >> 32);
}

double ts_random_unit(struct ts_random *r)
{
    return (double)(step(r) >> 11) / 9007199254740992.0;
}

void ts_series_init(struct fm_dataset *data, const int64_t *lengths, int64_t nrecords, int64_t head)
{
    *data = (struct fm_dataset){.nrecords = nrecords, .head = head};
    data->starts = fm_calloc((size_t)nrecords + 1, sizeof *data->starts);
    for (int64_t r = 0; r < nrecords; r++) data->starts[r + 1] = data->starts[r] + lengths[r] + head;
    data->positions = data->starts[nrecords];
}

void ts_series_numbers(struct fm_dataset *data, int64_t channels)
{
    data->channels = channels;
    data->values = fm_calloc((size_t)(data->positions * channels), sizeof *data->values);
    data->offset = fm_calloc((size_t)channels, sizeof *data->offset);
}

void ts_series_classes(struct fm_dataset *data, int64_t nclasses, bool per_record)
{
    int64_t count = per_record ? data->nrecords : data->positions;
    data->nclasses = nclasses;
    data->target_per_record = per_record;
    fm_packed_init(&data->classes, count, nclasses + 1, NULL);
}

static void copy_head(const struct fm_dataset *data, void *items, size_t size)
{
    if (!items) return;
    for (int64_t r = 0; r < data->nrecords; r++) {
        int64_t from = data->starts[r], length = fm_dataset_record_length(data, r);
        for (int64_t i = 0; i < data->head; i++) {
            char *to = (char *)items + (size_t)(from + length + i) * size;
            memcpy(to, (char *)items + (size_t)(from + i) * size, size);
        }
    }
}

void ts_series_wrap(struct fm_dataset *data)
{
    copy_head(data, data->values, sizeof(float) * (size_t)data->channels);
    copy_head(data, data->letters, 1);
    copy_head(data, data->time, sizeof(double));
    if (!data->fold_per_record) copy_head(data, data->fold, sizeof(int32_t));
    if (!data->weights_per_record) copy_head(data, data->weights, sizeof(float));
    if (data->target_per_record) return;
    copy_head(data, data->target_values, sizeof(float));
    for (int64_t r = 0; data->classes.bits && r < data->nrecords; r++) {
        int64_t from = data->starts[r], length = fm_dataset_record_length(data, r);
        for (int64_t i = 0; i < data->head; i++)
            fm_packed_set(&data->classes, from + length + i, fm_packed_get(&data->classes, from + i));
    }
}

void ts_series_groups(struct fm_dataset *data, const int64_t *groups, int64_t ngroups)
{
    data->ngroups = ngroups;
    data->record_group = fm_calloc((size_t)data->nrecords, sizeof *data->record_group);
    data->group_names = fm_calloc((size_t)ngroups, sizeof *data->group_names);
    for (int64_t r = 0; r < data->nrecords; r++) data->record_group[r] = (int32_t)groups[r];
    for (int64_t g = 0; g < ngroups; g++) {
        char name[32];
        snprintf(name, sizeof name, "g%lld", (long long)g);
        data->group_names[g] = fm_strdup(name);
    }
}

void ts_series_fini(struct fm_dataset *data)
{
    fm_dataset_fini(data);
}

struct fm_data_config ts_series_config(int64_t stride, enum fm_align align, enum fm_edge edge,
                                       enum fm_label label)
{
    struct fm_data_config config = {.source = FM_SOURCE_CSV, .has_window = true};
    config.window.stride = stride;
    config.window.align = align;
    config.window.edge = edge;
    config.window.label = label;
    config.window.label_given = true;
    return config;
}
