#include "data/identical.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

/* A quarter of a hash is enough to find candidates, and keeps the list at eight bytes a record. */
struct hashed {
    uint32_t hash, record;
};

static const void *input(const struct fm_dataset *data, int64_t record, size_t *size)
{
    size_t length = (size_t)fm_dataset_record_length(data, record);
    if (data->letters) {
        *size = length;
        return data->letters + data->starts[record];
    }
    *size = length * (size_t)data->channels * sizeof *data->values;
    return data->values + data->starts[record] * data->channels;
}

static int by_hash(const void *a, const void *b)
{
    const struct hashed *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return x->record < y->record ? -1 : x->record > y->record;
}

static bool equal_records(const struct fm_dataset *data, int64_t a, int64_t b)
{
    size_t na, nb;
    const void *x = input(data, a, &na), *y = input(data, b, &nb);
    return na == nb && memcmp(x, y, na) == 0;
}

static int add_record(struct fm_identical *same, int64_t record, struct fm_error *err)
{
    if (fm_grow(&same->records, &same->capacity, (size_t)same->count + 1, sizeof record) != 0)
        return fm_fail_memory(err);
    same->records[same->count++] = record;
    return 0;
}

/* Takes the sets out of records of one hash; those taken are marked by a record number that cannot be. */
static int add_sets(struct fm_identical *same, const struct fm_dataset *data, struct hashed *list, int64_t n,
                    struct fm_error *err)
{
    int status = 0;
    for (int64_t i = 0; status == 0 && i < n; i++) {
        if (list[i].record == UINT32_MAX) continue;
        int64_t before = same->count;
        for (int64_t k = i + 1; status == 0 && k < n; k++) {
            if (list[k].record == UINT32_MAX || !equal_records(data, list[i].record, list[k].record))
                continue;
            if (same->count == before) status = add_record(same, list[i].record, err);
            if (status == 0) status = add_record(same, list[k].record, err);
            list[k].record = UINT32_MAX;
        }
        if (status != 0 || same->count == before) continue;
        if (fm_grow(&same->ends, &same->end_capacity, (size_t)same->sets + 1, sizeof *same->ends) != 0)
            return fm_fail_memory(err);
        same->ends[same->sets++] = same->count;
    }
    return status;
}

int fm_identical_init(struct fm_identical *same, const struct fm_dataset *data, struct fm_error *err)
{
    *same = (struct fm_identical){0};
    if (data->nrecords < 2 || data->nrecords >= UINT32_MAX) return 0;
    struct hashed *list = fm_malloc((size_t)data->nrecords, sizeof *list);
    if (!list) return fm_fail_memory(err);
    for (int64_t r = 0; r < data->nrecords; r++) {
        struct fm_hash hash = {0};
        size_t size;
        const void *bytes = input(data, r, &size);
        fm_hash_add(&hash, bytes, size);
        list[r] = (struct hashed){(uint32_t)fm_hash_value(&hash), (uint32_t)r};
    }
    qsort(list, (size_t)data->nrecords, sizeof *list, by_hash);
    int status = 0;
    for (int64_t i = 0, k; status == 0 && i < data->nrecords; i = k) {
        for (k = i + 1; k < data->nrecords && list[k].hash == list[i].hash; k++) continue;
        if (k - i > 1) status = add_sets(same, data, list + i, k - i, err);
    }
    fm_free(list);
    if (status != 0) fm_identical_fini(same);
    return status;
}

void fm_identical_fini(struct fm_identical *same)
{
    fm_free(same->records);
    fm_free(same->ends);
    *same = (struct fm_identical){0};
}

static bool has_members(const struct fm_view *view, const struct fm_indexset *set, int64_t record)
{
    const int64_t *starts = view->data->starts;
    const struct fm_indexset *anchors = &view->examples->anchors;
    int64_t from = fm_indexset_rank(anchors, starts[record]),
            to = fm_indexset_rank(anchors, starts[record + 1]);
    return fm_indexset_rank(set, to) > fm_indexset_rank(set, from);
}

int64_t fm_identical_count(const struct fm_identical *same, const struct fm_view *view,
                           const struct fm_indexset *train, const struct fm_indexset *val)
{
    int64_t count = 0;
    for (int64_t s = 0, i = 0; s < same->sets; s++) {
        int64_t training = 0, from = i;
        for (; i < same->ends[s]; i++) training += has_members(view, train, same->records[i]);
        for (int64_t k = from; k < i && training > 0; k++) {
            int64_t r = same->records[k];
            if (has_members(view, val, r) && training - has_members(view, train, r) > 0) count++;
        }
    }
    return count;
}
