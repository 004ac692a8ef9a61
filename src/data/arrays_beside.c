/* What stands beside x and y: groups, folds, weights, masks. */
#include "data/arrays.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

struct beside {
    struct fm_arrays *s;
    struct fm_npy *a;
    struct fm_names names; /* of groups or folds */
    int32_t *number;       /* [elements] */
};

static int take_name(void *user, int64_t where, int64_t place, double value, struct fm_error *err)
{
    struct beside *b = user;
    char text[FM_NUMBER_TEXT], index[FM_NPY_DIMS * 24];
    uint32_t number;
    if (value != floor(value) || isinf(value)) {
        return fm_fail_at(err, FM_EFILE, b->a->name, 0, 0, "%s is %s; whole numbers are expected",
                          fm_array_index(b->a, place, index), fm_format_number(value, text));
    }
    fm_format_number(value, text);
    if (fm_names_add(&b->names, text, strlen(text), &number) != 0) return fm_fail_memory(err);
    b->number[where] = (int32_t)number;
    return 0;
}

/* Flat series: a record for each stretch of one group. */
static int cut_by_group(struct fm_arrays *s, const int32_t *number, struct fm_error *err)
{
    struct fm_dataset *d = s->data;
    int64_t records = 1, r = 0;
    for (int64_t i = 1; i < s->l; i++) records += number[i] != number[i - 1];
    fm_free(d->starts);
    d->starts = fm_malloc((size_t)records + 1, sizeof *d->starts);
    d->lengths = fm_malloc((size_t)records, sizeof *d->lengths);
    d->record_group = fm_malloc((size_t)records, sizeof *d->record_group);
    if (!d->starts || !d->lengths || !d->record_group) return fm_fail_memory(err);
    d->nrecords = records;
    int64_t first = 0;
    for (int64_t i = 1; i <= s->l; i++) {
        if (i < s->l && number[i] == number[i - 1]) continue;
        d->lengths[r] = i - first;
        d->record_group[r++] = number[first];
        first = i;
    }
    return 0;
}

int fm_arrays_read_group(struct fm_arrays *s, struct fm_error *err)
{
    struct fm_npy a;
    struct beside b = {.s = s, .a = &a};
    struct fm_dataset *d = s->data;
    if (!s->config->array_group) return 0;
    int rc = fm_arrays_open(s, s->config->array_group, &a, err);
    if (rc != 0) return rc;
    enum fm_array_form wanted = s->flat ? FM_PER_POSITION : FM_PER_ROW;
    if (fm_array_form(s, &a) != wanted) {
        rc = fm_array_form_error(s, &a, "group", s->flat ? "[T]" : "[N]", err);
    } else {
        b.number = fm_malloc((size_t)a.count, sizeof *b.number);
        rc = b.number ? fm_arrays_walk(s, &a, take_name, &b, err) : fm_fail_memory(err);
    }
    if (rc == 0 && s->flat) {
        rc = cut_by_group(s, b.number, err);
        fm_free(b.number);
        b.number = NULL;
    } else if (rc == 0) {
        d->record_group = b.number;
        b.number = NULL;
    }
    if (rc == 0) rc = fm_groups_finish(d, &b.names, err);
    fm_free(b.number);
    fm_names_fini(&b.names);
    fm_npy_close(&a);
    return rc;
}

int fm_arrays_read_fold(struct fm_arrays *s, struct fm_error *err)
{
    struct fm_npy a;
    struct beside b = {.s = s, .a = &a};
    struct fm_dataset *d = s->data;
    if (!s->config->array_fold) return 0;
    int rc = fm_arrays_open(s, s->config->array_fold, &a, err);
    if (rc != 0) return rc;
    enum fm_array_form form = fm_array_form(s, &a);
    d->fold_per_record = form == FM_PER_ROW;
    int64_t count = d->fold_per_record ? d->nrecords : d->positions;
    d->fold = fm_calloc((size_t)count, sizeof *d->fold);
    b.number = d->fold;
    if (form == FM_OTHER_FORM) {
        rc = fm_array_form_error(s, &a, "fold", s->flat ? "[T]" : "[N] or [N,L]", err);
    } else if (!d->fold) {
        rc = fm_fail_memory(err);
    } else {
        rc = fm_arrays_walk(s, &a, take_name, &b, err);
    }
    if (rc == 0) rc = fm_folds_finish(d, &b.names, count, err);
    fm_names_fini(&b.names);
    fm_npy_close(&a);
    return rc;
}

static int take_weight(void *user, int64_t where, int64_t place, double value, struct fm_error *err)
{
    struct beside *b = user;
    char index[FM_NPY_DIMS * 24], text[FM_NUMBER_TEXT];
    if (!(value >= 0) || isinf((float)value)) {
        return fm_fail_at(err, FM_EFILE, b->a->name, 0, 0, "%s is %s; a weight is a number from 0 up",
                          fm_array_index(b->a, place, index), fm_format_number(value, text));
    }
    b->s->data->weights[where] = (float)value;
    return 0;
}

int fm_arrays_read_weight(struct fm_arrays *s, struct fm_error *err)
{
    struct fm_npy a;
    struct beside b = {.s = s, .a = &a};
    struct fm_dataset *d = s->data;
    if (!s->config->array_weight) return 0;
    int rc = fm_arrays_open(s, s->config->array_weight, &a, err);
    if (rc != 0) return rc;
    enum fm_array_form form = fm_array_form(s, &a);
    d->weights_per_record = form == FM_PER_ROW;
    d->weights = fm_calloc((size_t)(d->weights_per_record ? d->nrecords : d->positions), sizeof *d->weights);
    if (form == FM_OTHER_FORM) {
        rc = fm_array_form_error(s, &a, "weight", s->flat ? "[T]" : "[N] or [N,L]", err);
    } else if (!d->weights) {
        rc = fm_fail_memory(err);
    } else {
        rc = fm_arrays_walk(s, &a, take_weight, &b, err);
    }
    fm_npy_close(&a);
    return rc;
}

static void set_bits(uint64_t *bits, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) bits[i >> 6] |= (uint64_t)1 << (i & 63);
}

static int take_anchor(void *user, int64_t where, int64_t place, double value, struct fm_error *err)
{
    struct beside *b = user;
    struct fm_dataset *d = b->s->data;
    char index[FM_NPY_DIMS * 24];
    if (value != 0 && value != 1) {
        return fm_fail_at(err, FM_EFILE, b->a->name, 0, 0, "%s is neither 0 nor 1; a mask holds nothing else",
                          fm_array_index(b->a, place, index));
    }
    if (value == 0) return 0;
    if (fm_array_form(b->s, b->a) == FM_PER_ROW) {
        set_bits(d->mask, d->starts[where], d->starts[where + 1]);
    } else {
        set_bits(d->mask, where, where + 1);
    }
    return 0;
}

/* A mask that did not say which positions are real says which may be anchors. */
int fm_arrays_read_mask(struct fm_arrays *s, struct fm_error *err)
{
    struct fm_npy a;
    struct beside b = {.s = s, .a = &a};
    struct fm_dataset *d = s->data;
    if (!s->config->array_mask || s->first) return 0;
    int rc = fm_arrays_open(s, s->config->array_mask, &a, err);
    if (rc != 0) return rc;
    enum fm_array_form form = fm_array_form(s, &a);
    d->mask = fm_calloc((size_t)(d->positions + 63) / 64, sizeof *d->mask);
    if (form == FM_OTHER_FORM || (form == FM_PER_POSITION && !s->config->has_window)) {
        rc = fm_array_form_error(s, &a, "mask",
                                 s->flat                 ? "[T]"
                                 : s->config->has_window ? "[N] or [N,L]"
                                                         : "[N]",
                                 err);
    } else if (!d->mask) {
        rc = fm_fail_memory(err);
    } else {
        rc = fm_arrays_walk(s, &a, take_anchor, &b, err);
    }
    fm_npy_close(&a);
    return rc;
}
