#include "data/build.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_ROWS = 65536, FIRST_VALUES = 1 << 20, FIRST_CAPACITY = 4096 };

int fm_build_init(struct fm_build *b, struct fm_dataset *data, const struct fm_data_config *config,
                  const struct fm_dataset_needs *needs, struct fm_notes *notes, int64_t channels,
                  struct fm_error *err)
{
    *b = (struct fm_build){.data = data, .config = config, .needs = needs, .notes = notes};
    data->channels = channels;
    b->letters = channels == 0;
    b->numbers = needs->numbers;
    if (config->has_window && config->window.edge == FM_EDGE_WRAP && needs->longest_window > 1) {
        data->head = needs->longest_window - 1;
    }
    if (!needs->numbers) {
        int rc = fm_labels_init(&b->labels, config, err);
        if (rc != 0) return rc;
    } else {
        data->target_width = 1;
    }
    if (b->letters) return 0;
    b->first_limit = FIRST_VALUES / channels < FIRST_ROWS ? FIRST_VALUES / channels : FIRST_ROWS;
    if (b->first_limit < 1) b->first_limit = 1;
    b->first = fm_malloc((size_t)b->first_limit, (size_t)channels * sizeof *b->first);
    data->offset = fm_calloc((size_t)channels, sizeof *data->offset);
    return b->first && data->offset ? 0 : fm_fail_memory(err);
}

void fm_build_fini(struct fm_build *b)
{
    fm_labels_fini(&b->labels);
    fm_names_fini(&b->ids);
    fm_names_fini(&b->groups);
    fm_names_fini(&b->folds);
    fm_free(b->first);
    fm_free(b->uses);
    *b = (struct fm_build){0};
}

/* ---- arrays by position ---- */

static bool resize(void *pointer, int64_t items, size_t size)
{
    void *old, *new;
    memcpy(&old, pointer, sizeof old);
    new = fm_realloc(old, (size_t)items, size);
    if (!new) return false;
    memcpy(pointer, &new, sizeof new);
    return true;
}

/* All arrays but the class codes, which look after themselves. */
static bool resize_all(struct fm_build *b, int64_t items)
{
    struct fm_dataset *d = b->data;
    if (b->letters && !resize(&d->letters, items, 1)) return false;
    if (!b->letters && !resize(&d->values, items, (size_t)d->channels * sizeof *d->values)) return false;
    if (b->numbers && !resize(&d->target_values, items, sizeof *d->target_values)) return false;
    if (b->has_mask && !resize(&d->mask, (items + 63) / 64, sizeof *d->mask)) return false;
    if (b->has_weights && !resize(&d->weights, items, sizeof *d->weights)) return false;
    if (b->has_time && !resize(&d->time, items, sizeof *d->time)) return false;
    if (b->has_folds && !resize(&d->fold, items, sizeof *d->fold)) return false;
    return true;
}

static int make_room(struct fm_build *b, struct fm_error *err)
{
    if (b->data->positions < b->capacity) return 0;
    int64_t wanted = b->capacity ? b->capacity + b->capacity / 2 : FIRST_CAPACITY;
    wanted = (wanted + 63) / 64 * 64;
    if (!resize_all(b, wanted)) return fm_fail_memory(err);
    b->capacity = wanted;
    return 0;
}

static void set_bit(uint64_t *bits, int64_t i, bool value)
{
    uint64_t bit = (uint64_t)1 << (i & 63);
    bits[i >> 6] = value ? bits[i >> 6] | bit : bits[i >> 6] & ~bit;
}

/* ---- values and their offsets ---- */

double fm_series_offset(double least, double greatest)
{
    double middle = least + (greatest - least) / 2;
    return fabs(middle) > 16 * (greatest - least) ? middle : 0;
}

static bool store(struct fm_dataset *d, int64_t position, int64_t channel, double value)
{
    float stored = (float)(value - d->offset[channel]);
    d->values[position * d->channels + channel] = stored;
    return !isinf(stored);
}

static int too_far(const struct fm_dataset *d, int64_t channel, double value, struct fm_error *err)
{
    char a[FM_NUMBER_TEXT], b[FM_NUMBER_TEXT];
    return fm_fail(err, FM_EFILE,
                   "channel %" PRId64
                   ": the value %s is too far from the others (near %s) to be kept in single "
                   "precision",
                   channel, fm_format_number(value, a), fm_format_number(d->offset[channel], b));
}

/* Chooses the offsets and stores the first rows. */
static int settle_offsets(struct fm_build *b, struct fm_error *err)
{
    struct fm_dataset *d = b->data;
    int64_t rows = d->positions < b->first_limit ? d->positions : b->first_limit, channels = d->channels;
    if (!b->first) return 0;
    for (int64_t c = 0; c < channels; c++) {
        double least = INFINITY, greatest = -INFINITY;
        for (int64_t r = 0; r < rows; r++) {
            least = fmin(least, b->first[r * channels + c]);
            greatest = fmax(greatest, b->first[r * channels + c]);
        }
        d->offset[c] = least <= greatest ? fm_series_offset(least, greatest) : 0;
        for (int64_t r = 0; r < rows; r++) {
            double value = b->first[r * channels + c];
            if (!store(d, r, c, value)) return too_far(d, c, value, err);
        }
    }
    fm_free(b->first);
    b->first = NULL;
    return 0;
}

static int add_values(struct fm_build *b, const double *values, struct fm_error *err)
{
    struct fm_dataset *d = b->data;
    if (b->first && d->positions == b->first_limit) {
        int rc = settle_offsets(b, err);
        if (rc != 0) return rc;
    }
    if (b->first) {
        memcpy(b->first + d->positions * d->channels, values, (size_t)d->channels * sizeof *values);
        return 0;
    }
    for (int64_t c = 0; c < d->channels; c++) {
        if (!store(d, d->positions, c, values[c])) return too_far(d, c, values[c], err);
    }
    return 0;
}

void fm_build_set_value(struct fm_build *b, int64_t position, int64_t channel, double value)
{
    if (b->first) {
        b->first[position * b->data->channels + channel] = value;
    } else {
        store(b->data, position, channel, value);
    }
}

/* ---- positions ---- */

int64_t fm_build_place(const struct fm_build *b)
{
    return b->data->positions;
}

int fm_build_add(struct fm_build *b, const struct fm_position *p, struct fm_error *err)
{
    struct fm_dataset *d = b->data;
    int64_t at = d->positions;
    int rc = make_room(b, err);
    if (rc != 0) return rc;
    if (b->letters) {
        d->letters[at] = p->letter;
    } else {
        rc = add_values(b, p->values, err);
        if (rc != 0) return rc;
    }
    if (b->numbers) {
        d->target_values[at] = p->target;
    } else if (fm_labels_set(&b->labels, at, p->class_code, b->capacity) != 0) {
        return fm_fail_memory(err);
    }
    if (b->has_mask) set_bit(d->mask, at, p->mask);
    if (b->has_weights) d->weights[at] = p->weight;
    if (b->has_time) d->time[at] = p->time;
    if (b->has_folds) d->fold[at] = (int32_t)p->fold;
    d->positions++;
    b->real++;
    return 0;
}

void fm_position_copy(struct fm_dataset *d, int64_t from, int64_t to)
{
    size_t row = (size_t)d->channels;
    if (d->letters) d->letters[to] = d->letters[from];
    if (d->values)
        memcpy(d->values + to * d->channels, d->values + from * d->channels, row * sizeof *d->values);
    if (!d->target_per_record) {
        size_t width = (size_t)d->target_width;
        if (d->classes.bits) fm_packed_set(&d->classes, to, fm_packed_get(&d->classes, from));
        if (d->target_values)
            memcpy(d->target_values + to * d->target_width, d->target_values + from * d->target_width,
                   width * sizeof *d->target_values);
    }
    if (d->mask) set_bit(d->mask, to, d->mask[from >> 6] >> (from & 63) & 1);
    if (d->weights && !d->weights_per_record) d->weights[to] = d->weights[from];
    if (d->time) d->time[to] = d->time[from];
    if (d->fold && !d->fold_per_record) d->fold[to] = d->fold[from];
}

/* ---- records ---- */

/* "id" the first time, then "id#2", ... */
static int name_record(struct fm_build *b, uint32_t id, struct fm_error *err)
{
    struct fm_dataset *d = b->data;
    struct fm_text text = {0};
    fm_text_add_string(&text, b->ids.text[id]);
    if (++b->uses[id] > 1) fm_text_add(&text, "#%" PRIu32, b->uses[id]);
    if (text.failed) return fm_text_fini(&text), fm_fail_memory(err);
    d->record_ids[d->nrecords] = text.data;
    return 0;
}

/* An id like "x#2" would be mistaken for the second record of x. */
static int check_id(const char *id, size_t size, struct fm_error *err)
{
    size_t digits = 0;
    while (digits < size && id[size - 1 - digits] >= '0' && id[size - 1 - digits] <= '9') digits++;
    if (digits == 0 || digits == size || id[size - 1 - digits] != '#') return 0;
    char shown[64];
    return fm_fail(err, FM_EFILE,
                   "the record id '%s' ends in # and a number, which is how Foldmill names further "
                   "records of one id; rename it",
                   fm_show(id, size, shown, sizeof shown));
}

int fm_build_begin(struct fm_build *b, const char *id, size_t id_size, const char *group, size_t group_size,
                   struct fm_error *err)
{
    struct fm_dataset *d = b->data;
    size_t records = (size_t)d->nrecords, known = b->ids.count;
    uint32_t number, group_number;
    int rc = check_id(id, id_size, err);
    if (rc != 0) return rc;
    if (!group) {
        const char *mark = memchr(id, '#', id_size);
        group = id;
        group_size = mark ? (size_t)(mark - id) : id_size;
    }
    if (fm_names_add(&b->ids, id, id_size, &number) != 0 ||
        fm_names_add(&b->groups, group, group_size, &group_number) != 0 ||
        fm_grow(&b->uses, &b->uses_capacity, b->ids.count, sizeof *b->uses) != 0 ||
        fm_grow(&d->starts, &b->starts_capacity, records + 2, sizeof *d->starts) != 0 ||
        fm_grow(&d->record_group, &b->group_capacity, records + 1, sizeof *d->record_group) != 0 ||
        fm_grow(&d->record_ids, &b->id_capacity, records + 1, sizeof *d->record_ids) != 0) {
        return fm_fail_memory(err);
    }
    if (b->ids.count > known) b->uses[number] = 0;
    rc = name_record(b, number, err);
    if (rc != 0) return rc;
    d->record_group[records] = (int32_t)group_number;
    d->starts[records] = d->positions;
    d->nrecords++;
    b->open = true;
    b->real = 0;
    return 0;
}

/* Room for one more position, which is a copy of an earlier one. */
static int add_copy(struct fm_build *b, int64_t from, struct fm_error *err)
{
    struct fm_dataset *d = b->data;
    struct fm_position p = {0};
    double *row = NULL;
    int64_t at = d->positions;
    int rc = make_room(b, err);
    if (rc != 0) return rc;
    if (b->first && at == b->first_limit) rc = settle_offsets(b, err);
    if (rc != 0) return rc;
    if (b->first) {
        row = b->first + from * d->channels;
        memcpy(b->first + at * d->channels, row, (size_t)d->channels * sizeof *row);
    }
    p.class_code = b->numbers ? 0 : fm_packed_get(&b->labels.codes, from);
    if (!b->numbers && fm_labels_set(&b->labels, at, p.class_code, b->capacity) != 0)
        return fm_fail_memory(err);
    fm_position_copy(d, from, at);
    d->positions++;
    return 0;
}

int fm_build_end(struct fm_build *b, struct fm_error *err)
{
    struct fm_dataset *d = b->data;
    int rc = 0;
    if (!b->open) return 0;
    int64_t start = d->starts[d->nrecords - 1];
    for (int64_t i = 0; rc == 0 && i < d->head; i++) rc = add_copy(b, start + i, err);
    d->starts[d->nrecords] = d->positions;
    b->open = false;
    return rc;
}

/* ---- the end ---- */

int fm_folds_finish(struct fm_dataset *d, const struct fm_names *names, int64_t count, struct fm_error *err)
{
    uint32_t *rank = fm_malloc(names->count, sizeof *rank), *first = fm_malloc(names->count, sizeof *first);
    struct fm_names others = {0};
    int32_t *number = fm_malloc(names->count, sizeof *number);
    size_t distinct = 0;
    int rc = rank && first && number ? 0 : FM_ENOMEM;
    for (size_t i = 0; rc == 0 && i < names->count; i++) {
        double value;
        uint32_t place;
        number[i] = -1;
        if (fm_parse_number(names->text[i], names->size[i], &value) && value == -1) continue;
        rc = fm_names_add(&others, names->text[i], names->size[i], &place);
        number[i] = (int32_t)place;
    }
    if (rc == 0) rc = fm_names_rank(&others, true, rank, first, &distinct);
    if (rc == 0) {
        d->fold_names = fm_calloc(distinct, sizeof *d->fold_names);
        if (!d->fold_names) rc = FM_ENOMEM;
    }
    for (size_t i = 0; rc == 0 && i < distinct; i++) {
        d->fold_names[i] = fm_strdup(others.text[first[i]]);
        if (!d->fold_names[i]) rc = FM_ENOMEM;
        d->nfolds = (int64_t)i + 1;
    }
    for (int64_t i = 0; rc == 0 && i < count; i++) {
        int32_t k = number[d->fold[i]];
        d->fold[i] = k < 0 ? -1 : (int32_t)rank[k];
    }
    fm_names_fini(&others);
    fm_free(rank);
    fm_free(first);
    fm_free(number);
    return rc == 0 ? 0 : fm_fail_memory(err);
}

int fm_groups_finish(struct fm_dataset *d, const struct fm_names *names, struct fm_error *err)
{
    uint32_t *rank = fm_malloc(names->count, sizeof *rank), *first = fm_malloc(names->count, sizeof *first);
    size_t distinct = 0;
    int rc = rank && first ? fm_names_rank(names, false, rank, first, &distinct) : FM_ENOMEM;
    if (rc == 0) {
        d->group_names = fm_calloc(distinct, sizeof *d->group_names);
        if (!d->group_names) rc = FM_ENOMEM;
    }
    for (size_t i = 0; rc == 0 && i < distinct; i++) {
        d->group_names[i] = fm_strdup(names->text[first[i]]);
        if (!d->group_names[i]) rc = FM_ENOMEM;
        d->ngroups = (int64_t)i + 1;
    }
    for (int64_t i = 0; rc == 0 && i < d->nrecords; i++)
        d->record_group[i] = (int32_t)rank[d->record_group[i]];
    fm_free(rank);
    fm_free(first);
    return rc == 0 ? 0 : fm_fail_memory(err);
}

int fm_build_finish(struct fm_build *b, struct fm_error *err)
{
    struct fm_dataset *d = b->data;
    int rc = b->letters ? 0 : settle_offsets(b, err);
    if (rc == 0 && !b->numbers) rc = fm_labels_finish(&b->labels, d->positions, d, b->notes, err);
    if (rc == 0) rc = fm_groups_finish(d, &b->groups, err);
    if (rc == 0 && b->has_folds) {
        rc = fm_folds_finish(d, &b->folds, d->fold_per_record ? d->nrecords : d->positions, err);
    }
    if (rc != 0) return rc;
    if (d->positions > 0 && !resize_all(b, d->positions)) return fm_fail_memory(err);
    if (b->has_mask && d->positions % 64)
        d->mask[d->positions / 64] &= ((uint64_t)1 << d->positions % 64) - 1;
    return 0;
}
