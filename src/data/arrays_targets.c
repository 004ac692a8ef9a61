/* y to targets: class numbers, numbers, or distributions. */
#include "data/arrays.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { REMEMBERED = 4 };

struct targets {
    struct fm_arrays *s;
    struct fm_npy y;
    int64_t largest; /* class number seen */
};

static int64_t target_count(const struct fm_dataset *d)
{
    return d->target_per_record ? d->nrecords : d->positions;
}

/* ---- class numbers: one pass to see which, one to store them ---- */

static void remember_negative(struct fm_dataset *d, int64_t place, int64_t value)
{
    if (d->negatives < REMEMBERED) {
        d->negative_index[d->negatives] = place;
        d->negative_value[d->negatives] = value;
    }
    d->negatives++;
}

static int look_at_class(void *user, int64_t where, int64_t place, double value, struct fm_error *err)
{
    struct targets *t = user;
    char index[FM_NPY_DIMS * 24], text[FM_NUMBER_TEXT];
    (void)where;
    if (value != floor(value) || isinf(value)) {
        return fm_fail_at(err, FM_EFILE, t->y.name, 0, 0, "%s is %s, no class number; the loss %s",
                          fm_array_index(&t->y, place, index), fm_format_number(value, text),
                          "wants whole numbers from 0 up (mse, mae and huber take others)");
    }
    if (value >= FM_MAX_CLASSES) {
        return fm_fail_at(err, FM_EFILE, t->y.name, 0, 0, "%s is %s; class numbers are below %d",
                          fm_array_index(&t->y, place, index), fm_format_number(value, text), FM_MAX_CLASSES);
    }
    if (value > (double)t->largest) t->largest = (int64_t)value;
    if (value < 0) remember_negative(t->s->data, place, value > -1e18 ? (int64_t)value : INT64_MIN);
    return 0;
}

static int store_class(void *user, int64_t where, int64_t place, double value, struct fm_error *err)
{
    struct targets *t = user;
    struct fm_dataset *d = t->s->data;
    (void)place;
    (void)err;
    fm_packed_set(&d->classes, where, value < 0 ? (uint32_t)d->nclasses : (uint32_t)value);
    return 0;
}

static int name_classes(struct fm_dataset *d, int64_t count, struct fm_error *err)
{
    d->class_names = fm_calloc((size_t)count, sizeof *d->class_names);
    if (!d->class_names) return fm_fail_memory(err);
    for (int64_t k = 0; k < count; k++) {
        char text[24];
        snprintf(text, sizeof text, "%" PRId64, k);
        d->class_names[k] = fm_strdup(text);
        if (!d->class_names[k]) return fm_fail_memory(err);
        d->nclasses = k + 1;
    }
    return 0;
}

static int read_classes(struct targets *t, struct fm_error *err)
{
    struct fm_arrays *s = t->s;
    struct fm_dataset *d = s->data;
    t->largest = -1;
    int rc = fm_arrays_walk(s, &t->y, look_at_class, t, err);
    if (t->largest < 0) t->largest = 0;
    if (rc == 0) rc = name_classes(d, t->largest + 1, err);
    if (rc == 0) rc = fm_packed_init(&d->classes, target_count(d), d->nclasses + (d->negatives > 0), err);
    if (rc == 0) rc = fm_arrays_walk(s, &t->y, store_class, t, err);
    if (rc != 0) return rc;
    d->target_from = fm_strdup(t->y.name);
    d->target_columns = d->target_per_record || s->flat ? 0 : s->l;
    d->target_first = NULL;
    if (s->first && !d->target_per_record) {
        d->target_first = fm_malloc((size_t)s->n, sizeof *d->target_first);
        if (!d->target_first) return fm_fail_memory(err);
        for (int64_t r = 0; r < s->n; r++) d->target_first[r] = s->first[r];
    }
    return d->target_from ? 0 : fm_fail_memory(err);
}

/* ---- numbers ---- */

static int store_number(void *user, int64_t where, int64_t place, double value, struct fm_error *err)
{
    struct targets *t = user;
    char index[FM_NPY_DIMS * 24], text[FM_NUMBER_TEXT];
    if (!isfinite((float)value)) {
        return fm_fail_at(err, FM_EFILE, t->y.name, 0, 0,
                          "%s is %s; a target must be a number that a float can hold",
                          fm_array_index(&t->y, place, index), fm_format_number(value, text));
    }
    t->s->data->target_values[where] = (float)value;
    return 0;
}

static int read_numbers(struct targets *t, struct fm_error *err)
{
    struct fm_dataset *d = t->s->data;
    d->target_width = 1;
    d->target_values = fm_calloc((size_t)target_count(d), sizeof *d->target_values);
    if (!d->target_values) return fm_fail_memory(err);
    return fm_arrays_walk(t->s, &t->y, store_number, t, err);
}

/* ---- distributions: y [N,K] ---- */

static int check_distributions(const struct targets *t, struct fm_error *err)
{
    const struct fm_dataset *d = t->s->data;
    int64_t k = d->target_width;
    for (int64_t i = 0; i < d->nrecords; i++) {
        double sum = 0;
        for (int64_t j = 0; j < k; j++) sum += d->target_values[i * k + j];
        if (fabs(sum - 1) > 1e-3) {
            char text[FM_NUMBER_TEXT];
            return fm_fail_at(err, FM_EFILE, t->y.name, 0, 0,
                              "row %" PRId64
                              " sums to %s; as the target of categorical_crossentropy each row must be a "
                              "distribution over %" PRId64 " classes that sums to 1",
                              i, fm_format_number(sum, text), k);
        }
    }
    return 0;
}

static int read_distributions(struct targets *t, struct fm_error *err)
{
    struct fm_dataset *d = t->s->data;
    struct fm_npy *y = &t->y;
    struct fm_npy_place at = {0};
    int rc = 0;
    d->target_per_record = true;
    d->distribution = true;
    d->target_width = y->shape[1];
    d->target_values = fm_calloc((size_t)y->count, sizeof *d->target_values);
    if (!d->target_values) return fm_fail_memory(err);
    while (rc == 0 && y->left > 0) {
        double block[256];
        char index[FM_NPY_DIMS * 24], text[FM_NUMBER_TEXT];
        int64_t n = y->left < 256 ? y->left : 256;
        rc = fm_npy_read(y, block, n, err);
        for (int64_t i = 0; rc == 0 && i < n; i++, fm_npy_step(y, &at)) {
            d->target_values[at.place] = (float)block[i];
            if (!(block[i] >= 0 && block[i] <= 1.001)) {
                rc = fm_fail_at(err, FM_EFILE, y->name, 0, 0, "%s is %s; a probability lies in 0..1",
                                fm_array_index(y, at.place, index), fm_format_number(block[i], text));
            }
        }
    }
    if (rc == 0) rc = fm_npy_finish(y, err);
    return rc == 0 ? check_distributions(t, err) : rc;
}

/* ---- which of them ---- */

static int refuse_form(const struct targets *t, struct fm_error *err)
{
    const struct fm_arrays *s = t->s;
    char shape[FM_NPY_DIMS * 24], of_x[FM_NPY_DIMS * 24];
    bool wide = t->y.ndim == 2 && t->y.shape[0] == s->n && !s->flat && !s->config->has_window;
    const char *wanted = s->flat                 ? "[T]"
                         : s->config->has_window ? "[N,L], or [N] with one label a record"
                                                 : "[N]";
    return fm_fail_at(err, FM_EFILE, t->y.name, 0, 0,
                      "y has the shape %s, which does not fit x of %s: %s is expected%s",
                      fm_array_shape(&t->y, shape), fm_array_shape(&s->x, of_x), wanted,
                      wide ? " (a distribution [N,K] needs the loss categorical_crossentropy)" : "");
}

int fm_arrays_read_targets(struct fm_arrays *s, struct fm_error *err)
{
    struct targets t = {.s = s};
    int rc = fm_arrays_open(s, s->config->y, &t.y, err);
    if (rc != 0) return rc;
    enum fm_array_form form = fm_array_form(s, &t.y);
    bool windowed = s->config->has_window;
    s->data->target_per_record = form == FM_PER_ROW;
    if (!windowed && t.y.ndim == 2 && t.y.shape[0] == s->n && t.y.shape[1] > 1) {
        rc =
            s->needs->distribution && !s->needs->numbers ? read_distributions(&t, err) : refuse_form(&t, err);
    } else if (form == FM_OTHER_FORM || (form == FM_PER_POSITION && !windowed)) {
        rc = refuse_form(&t, err);
    } else {
        rc = s->needs->numbers ? read_numbers(&t, err) : read_classes(&t, err);
    }
    fm_npy_close(&t.y);
    return rc;
}
