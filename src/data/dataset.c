#include "data/dataset.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "data/files.h"
#include "data/load.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void free_texts(char **texts, int64_t count)
{
    for (int64_t i = 0; texts && i < count; i++) fm_free(texts[i]);
    fm_free(texts);
}

void fm_dataset_fini(struct fm_dataset *d)
{
    free_texts(d->group_names, d->ngroups);
    free_texts(d->record_ids, d->nrecords);
    free_texts(d->channel_names, d->channels);
    free_texts(d->class_names, d->nclasses);
    free_texts(d->fold_names, d->nfolds);
    for (int64_t i = 0; i < d->nfiles; i++) fm_free(d->files[i].path);
    fm_packed_fini(&d->classes);
    fm_free(d->files);
    fm_free(d->starts);
    fm_free(d->lengths);
    fm_free(d->record_group);
    fm_free(d->values);
    fm_free(d->offset);
    fm_free(d->alphabet_letters);
    fm_free(d->letters);
    fm_free(d->target_values);
    fm_free(d->target_from);
    fm_free(d->target_first);
    fm_free(d->mask);
    fm_free(d->weights);
    fm_free(d->time);
    fm_free(d->fold);
    *d = (struct fm_dataset){0};
}

/* ---- what is in it ---- */

int64_t fm_dataset_record_length(const struct fm_dataset *d, int64_t record)
{
    return d->lengths ? d->lengths[record] : d->starts[record + 1] - d->starts[record] - d->head;
}

int64_t fm_dataset_record_of(const struct fm_dataset *d, int64_t position)
{
    int64_t low = 0, high = d->nrecords;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (d->starts[middle] <= position) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

const char *fm_dataset_record_id(const struct fm_dataset *d, int64_t record, char *buffer, size_t size)
{
    if (d->record_ids) return d->record_ids[record];
    snprintf(buffer, size, "%" PRId64, record);
    return buffer;
}

static int64_t text_bytes(char *const *texts, int64_t count)
{
    int64_t bytes = 0;
    for (int64_t i = 0; texts && i < count; i++) bytes += (int64_t)(sizeof *texts + strlen(texts[i]) + 1);
    return bytes;
}

static int64_t targets(const struct fm_dataset *d)
{
    return d->target_per_record ? d->nrecords : d->positions;
}

int64_t fm_dataset_bytes(const struct fm_dataset *d)
{
    int64_t n = d->positions, bytes = (d->nrecords + 1) * (int64_t)sizeof *d->starts;
    if (d->lengths) bytes += d->nrecords * (int64_t)sizeof *d->lengths;
    if (d->record_group) bytes += d->nrecords * (int64_t)sizeof *d->record_group;
    if (d->values) bytes += n * d->channels * (int64_t)sizeof *d->values;
    if (d->letters) bytes += n;
    if (d->classes.bits) bytes += fm_packed_bytes(&d->classes);
    if (d->target_values) bytes += targets(d) * d->target_width * (int64_t)sizeof *d->target_values;
    if (d->mask) bytes += (n + 63) / 64 * 8;
    if (d->weights) bytes += (d->weights_per_record ? d->nrecords : n) * (int64_t)sizeof *d->weights;
    if (d->time) bytes += n * (int64_t)sizeof *d->time;
    if (d->fold) bytes += (d->fold_per_record ? d->nrecords : n) * (int64_t)sizeof *d->fold;
    return bytes + text_bytes(d->record_ids, d->nrecords) + text_bytes(d->group_names, d->ngroups) +
           text_bytes(d->class_names, d->nclasses);
}

/* ---- its hash ---- */

static void hash_number(struct fm_hash *h, int64_t value)
{
    fm_hash_add(h, &value, sizeof value);
}

static void hash_array(struct fm_hash *h, const void *items, int64_t count, size_t size)
{
    hash_number(h, items ? count : -1);
    if (items) fm_hash_add(h, items, (size_t)count * size);
}

static void hash_texts(struct fm_hash *h, char *const *texts, int64_t count)
{
    hash_number(h, texts ? count : -1);
    for (int64_t i = 0; texts && i < count; i++) fm_hash_add(h, texts[i], strlen(texts[i]) + 1);
}

/* Ids and groups that were made of file names are left out; which records belong together is in record_group.
 */
static uint64_t hash_dataset(const struct fm_dataset *d, const struct fm_data_config *config)
{
    struct fm_hash h = {0};
    bool text_source = config->source == FM_SOURCE_CSV || config->source == FM_SOURCE_SEQUENCES;
    hash_number(&h, d->head);
    hash_array(&h, d->starts, d->nrecords + 1, sizeof *d->starts);
    hash_array(&h, d->lengths, d->nrecords, sizeof *d->lengths);
    hash_array(&h, d->record_group, d->nrecords, sizeof *d->record_group);
    if (config->record || !text_source) hash_texts(&h, d->record_ids, d->nrecords);
    if (config->group || !text_source) hash_texts(&h, d->group_names, d->ngroups);
    hash_texts(&h, d->channel_names, d->channels);
    hash_array(&h, d->offset, d->channels, sizeof *d->offset);
    hash_array(&h, d->values, d->positions * d->channels, sizeof *d->values);
    hash_number(&h, d->alphabet);
    if (d->alphabet_letters) fm_hash_add(&h, d->alphabet_letters, strlen(d->alphabet_letters) + 1);
    hash_array(&h, d->letters, d->positions, 1);
    hash_number(&h, d->target_per_record);
    hash_texts(&h, d->class_names, d->nclasses);
    hash_number(&h, d->classes.bits);
    if (d->classes.bits) hash_array(&h, d->classes.data, fm_packed_bytes(&d->classes), 1);
    hash_number(&h, d->distribution);
    hash_array(&h, d->target_values, targets(d) * d->target_width, sizeof *d->target_values);
    hash_array(&h, d->mask, (d->positions + 63) / 64, sizeof *d->mask);
    hash_array(&h, d->weights, d->weights_per_record ? d->nrecords : d->positions, sizeof *d->weights);
    hash_array(&h, d->time, d->positions, sizeof *d->time);
    hash_array(&h, d->fold, d->fold_per_record ? d->nrecords : d->positions, sizeof *d->fold);
    hash_texts(&h, d->fold_names, d->nfolds);
    return fm_hash_value(&h);
}

/* ---- checks ---- */

/* With one class only there is nothing to learn. */
static int check_classes(const struct fm_dataset *d, struct fm_error *err)
{
    int64_t first = d->nclasses;
    if (!d->classes.bits) return 0;
    for (int64_t i = 0; i < d->classes.count; i++) {
        int64_t code = fm_packed_get(&d->classes, i);
        if (code == d->nclasses) continue;
        if (first == d->nclasses) first = code;
        if (code != first) return 0;
    }
    /* Class numbers below zero are refused when the outputs are known, and then all at once. */
    if (d->negatives > 0) return 0;
    if (first == d->nclasses) return fm_fail(err, FM_EFILE, "target: no position has a class");
    char shown[64];
    return fm_fail(err, FM_EFILE,
                   "target: all positions are of one class, '%s'; there is nothing to tell apart",
                   fm_show(d->class_names[first], strlen(d->class_names[first]), shown, sizeof shown));
}

/* Adds "index 3 value 3" to the list; `index` counts over the array. */
static void add_bad(const struct fm_dataset *d, struct fm_text *text, int64_t index, int64_t value)
{
    if (text->size) fm_text_add(text, ", ");
    if (d->target_columns > 0) {
        fm_text_add(text, "index [%" PRId64 ", %" PRId64 "] value %" PRId64, index / d->target_columns,
                    index % d->target_columns, value);
    } else {
        fm_text_add(text, "index %" PRId64 " value %" PRId64, index, value);
    }
}

/* The place in the array of the i-th target; -1 for the copy of one. */
static int64_t array_index(const struct fm_dataset *d, int64_t i)
{
    if (d->target_per_record) return i;
    int64_t record = fm_dataset_record_of(d, i);
    if (i - d->starts[record] >= fm_dataset_record_length(d, record)) return -1;
    if (d->target_columns == 0) return i - record * d->head;
    int64_t first = d->target_first ? d->target_first[record] : 0;
    return record * d->target_columns + first + (i - d->starts[record]);
}

static int bad_numbers(const struct fm_dataset *d, int64_t outputs, struct fm_error *err)
{
    enum { SHOWN = 4 };
    struct fm_text text = {0};
    int64_t allowed = outputs == 1 ? 2 : outputs, bad = 0, k = 0;
    int64_t known = d->negatives < SHOWN ? d->negatives : SHOWN;
    for (int64_t i = 0; i < d->classes.count; i++) {
        int64_t code = fm_packed_get(&d->classes, i);
        if (code < allowed || code >= d->nclasses) continue;
        int64_t index = array_index(d, i);
        if (index < 0) continue;
        for (; k < known && d->negative_index[k] < index; k++, bad++) {
            if (bad < SHOWN) add_bad(d, &text, d->negative_index[k], d->negative_value[k]);
        }
        if (bad++ < SHOWN) add_bad(d, &text, index, code);
    }
    for (; k < known; k++, bad++) {
        if (bad < SHOWN) add_bad(d, &text, d->negative_index[k], d->negative_value[k]);
    }
    bad += d->negatives - known;
    if (bad > SHOWN) fm_text_add(&text, " and %" PRId64 " more", bad - SHOWN);
    int rc = text.failed ? fm_fail_memory(err)
                         : fm_fail_at(err, FM_EFILE, d->target_from, 0, 0,
                                      "%s: the network has %" PRId64
                                      " output%s, so class numbers must be 0..%" PRId64,
                                      text.data, outputs, outputs == 1 ? "" : "s", allowed - 1);
    fm_text_fini(&text);
    return rc;
}

int fm_dataset_check_outputs(const struct fm_dataset *d, int64_t outputs, struct fm_error *err)
{
    if (d->distribution || d->nclasses == 0) {
        if (outputs == d->target_width) return 0;
        return fm_fail(err, FM_EFILE,
                       "the network has %" PRId64 " output%s, but each target is %" PRId64 " number%s",
                       outputs, outputs == 1 ? "" : "s", d->target_width, d->target_width == 1 ? "" : "s");
    }
    bool fits = outputs >= d->nclasses || (outputs == 1 && d->nclasses <= 2);
    if (fits && d->negatives == 0) return 0;
    if (d->target_from) return bad_numbers(d, outputs, err);
    return fm_fail(err, FM_EFILE,
                   "the network has %" PRId64 " output%s, but the target has %" PRId64 " classes", outputs,
                   outputs == 1 ? "" : "s", d->nclasses);
}

/* ---- loading ---- */

static int load_source(struct fm_dataset *data, const struct fm_data_config *config,
                       const struct fm_dataset_needs *needs, struct fm_notes *notes, struct fm_error *err)
{
    switch (config->source) {
    case FM_SOURCE_CSV: return fm_load_csv(data, config, needs, notes, err);
    case FM_SOURCE_SEQUENCES: return fm_load_sequences(data, config, needs, notes, err);
    case FM_SOURCE_NPZ:
    case FM_SOURCE_NPY: return fm_load_arrays(data, config, needs, notes, err);
    case FM_SOURCE_SINE: return fm_load_sine(data, config, needs, notes, err);
    }
    return fm_fail(err, FM_EINTERNAL, "a data source has no reader");
}

int fm_dataset_load(struct fm_dataset *data, const struct fm_data_config *config,
                    const struct fm_dataset_needs *needs, struct fm_notes *notes, struct fm_error *err)
{
    *data = (struct fm_dataset){0};
    int rc = load_source(data, config, needs, notes, err);
    if (rc == 0) rc = check_classes(data, err);
    if (rc != 0) {
        fm_dataset_fini(data);
        return rc;
    }
    data->hash = hash_dataset(data, config);
    return 0;
}

/* Takes the paths out of a list of files. */
static int list_paths(const struct fm_data_config *config, char ***paths, int64_t *count,
                      struct fm_error *err)
{
    struct fm_file_list list;
    int rc = fm_file_list_init(&list, config, err);
    if (rc != 0) return rc;
    *paths = fm_calloc(list.count, sizeof **paths);
    if (!*paths) rc = fm_fail_memory(err);
    for (size_t i = 0; rc == 0 && i < list.count; i++) {
        (*paths)[i] = list.files[i].path;
        list.files[i].path = NULL;
        *count = (int64_t)i + 1;
    }
    fm_file_list_fini(&list);
    return rc;
}

int fm_data_files(const struct fm_data_config *config, char ***paths, int64_t *count, struct fm_error *err)
{
    *paths = NULL;
    *count = 0;
    switch (config->source) {
    case FM_SOURCE_CSV:
    case FM_SOURCE_SEQUENCES: return list_paths(config, paths, count, err);
    case FM_SOURCE_NPZ:
    case FM_SOURCE_NPY: return fm_array_files(config, paths, count, err);
    case FM_SOURCE_SINE: return 0;
    }
    return fm_fail(err, FM_EINTERNAL, "a data source has no reader");
}
