/* x to the values of the series, in whatever order the file has them. */
#include "data/arrays.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <math.h>

enum { FIRST_ROWS = 65536, FIRST_VALUES = 1 << 20, BLOCK = 2048 };

struct reader {
    struct fm_arrays *s;
    int64_t rows;             /* pass 1: positions whose range decides the offsets */
    double *least, *greatest; /* [C] */
};

static int refuse(const struct fm_npy *x, int64_t place, double value, struct fm_error *err)
{
    char index[FM_NPY_DIMS * 24], text[FM_NUMBER_TEXT];
    fm_array_index(x, place, index);
    if (isfinite(value)) {
        return fm_fail_at(err, FM_EFILE, x->name, 0, 0,
                          "%s is %s, too large for single precision (about 3.4e38)", index,
                          fm_format_number(value, text));
    }
    return fm_fail_at(err, FM_EFILE, x->name, 0, 0,
                      "%s is %s; arrays must hold numbers only (fill or cut missing values before saving)",
                      index, fm_format_number(value, text));
}

/* Where an element of x belongs: its stored position and channel; false if it is not real. */
static bool find(const struct fm_arrays *s, int64_t place, int64_t *position, int64_t *channel)
{
    int64_t row = place / s->data->channels;
    *channel = place % s->data->channels;
    *position = s->flat ? fm_array_place(s, 0, row) : fm_array_place(s, row / s->l, row % s->l);
    return *position >= 0;
}

static void measure(struct reader *r, const double *block, int64_t n, struct fm_npy_place *at)
{
    for (int64_t i = 0; i < n; i++, fm_npy_step(&r->s->x, at)) {
        int64_t position, channel;
        if (!find(r->s, at->place, &position, &channel) || position >= r->rows) continue;
        r->least[channel] = fmin(r->least[channel], block[i]);
        r->greatest[channel] = fmax(r->greatest[channel], block[i]);
    }
}

static int store(struct reader *r, const double *block, int64_t n, struct fm_npy_place *at,
                 struct fm_error *err)
{
    struct fm_dataset *d = r->s->data;
    for (int64_t i = 0; i < n; i++, fm_npy_step(&r->s->x, at)) {
        int64_t position, channel;
        if (!find(r->s, at->place, &position, &channel)) continue;
        if (!isfinite((float)block[i])) return refuse(&r->s->x, at->place, block[i], err);
        float stored = (float)(block[i] - d->offset[channel]);
        if (isinf(stored)) return refuse(&r->s->x, at->place, block[i], err);
        d->values[position * d->channels + channel] = stored;
    }
    return 0;
}

/* One pass over x; the first may end early when the file has the rows in order. */
static int pass(struct reader *r, bool first, struct fm_error *err)
{
    struct fm_npy *x = &r->s->x;
    struct fm_npy_place at = {0};
    double block[BLOCK];
    int rc = fm_npy_rewind(x, err);
    while (rc == 0 && x->left > 0) {
        int64_t n = x->left < BLOCK ? x->left : BLOCK, position = 0, channel;
        if (first && !x->fortran && find(r->s, at.place, &position, &channel) && position >= r->rows)
            return 0;
        rc = fm_npy_read(x, block, n, err);
        if (rc != 0) break;
        if (first) {
            measure(r, block, n, &at);
        } else {
            rc = store(r, block, n, &at, err);
        }
    }
    return rc == 0 ? fm_npy_finish(x, err) : rc;
}

int fm_arrays_read_values(struct fm_arrays *s, struct fm_error *err)
{
    struct fm_dataset *d = s->data;
    size_t channels = (size_t)d->channels;
    struct reader r = {.s = s, .rows = FIRST_VALUES / d->channels};
    if (r.rows > FIRST_ROWS) r.rows = FIRST_ROWS;
    if (r.rows < 1) r.rows = 1;
    d->values = fm_malloc((size_t)d->positions, channels * sizeof *d->values);
    d->offset = fm_calloc(channels, sizeof *d->offset);
    r.least = fm_malloc(channels, sizeof *r.least);
    r.greatest = fm_malloc(channels, sizeof *r.greatest);
    int rc = d->values && d->offset && r.least && r.greatest ? 0 : fm_fail_memory(err);
    for (size_t c = 0; rc == 0 && c < channels; c++) {
        r.least[c] = INFINITY;
        r.greatest[c] = -INFINITY;
    }
    if (rc == 0) rc = pass(&r, true, err);
    for (size_t c = 0; rc == 0 && c < channels; c++) {
        bool known = isfinite(r.least[c]) && isfinite(r.greatest[c]);
        if (known) d->offset[c] = fm_series_offset(r.least[c], r.greatest[c]);
    }
    if (rc == 0) rc = pass(&r, false, err);
    fm_free(r.least);
    fm_free(r.greatest);
    return rc;
}
