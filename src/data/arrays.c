/* Arrays to records: which rows of x are records, how long they are, and what stands beside them. */
#include "data/arrays.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/load.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int fm_arrays_open(struct fm_arrays *s, const struct fm_node *name, struct fm_npy *a, struct fm_error *err)
{
    if (s->config->source == FM_SOURCE_NPZ) return fm_npz_array(s->zip, s->path, name->text, a, err);
    char *path = fm_file_path(s->config->folder, name->text);
    if (!path) return fm_fail_memory(err);
    int rc = fm_npy_open(a, path, err);
    fm_free(path);
    return rc;
}

const char *fm_array_shape(const struct fm_npy *a, char buffer[FM_NPY_DIMS * 24])
{
    int used = snprintf(buffer, FM_NPY_DIMS * 24, "[");
    for (int i = 0; i < a->ndim; i++) {
        used += snprintf(buffer + used, (size_t)(FM_NPY_DIMS * 24 - used), "%s%" PRId64, i ? ", " : "",
                         a->shape[i]);
    }
    snprintf(buffer + used, (size_t)(FM_NPY_DIMS * 24 - used), "]");
    return buffer;
}

const char *fm_array_index(const struct fm_npy *a, int64_t place, char buffer[FM_NPY_DIMS * 24])
{
    struct fm_npy index = {.ndim = a->ndim};
    if (a->ndim == 1) {
        snprintf(buffer, FM_NPY_DIMS * 24, "index %" PRId64, place);
        return buffer;
    }
    for (int i = a->ndim - 1; i >= 0; i--) {
        index.shape[i] = place % a->shape[i];
        place /= a->shape[i];
    }
    char text[FM_NPY_DIMS * 24];
    snprintf(buffer, FM_NPY_DIMS * 24, "index %.180s", fm_array_shape(&index, text));
    return buffer;
}

enum fm_array_form fm_array_form(const struct fm_arrays *s, const struct fm_npy *a)
{
    bool list = a->ndim == 1 || (a->ndim == 2 && a->shape[1] == 1);
    if (s->flat) return list && a->shape[0] == s->l ? FM_PER_POSITION : FM_OTHER_FORM;
    if (a->ndim == 2 && a->shape[0] == s->n && a->shape[1] == s->l && s->l > 1) return FM_PER_POSITION;
    return list && a->shape[0] == s->n ? FM_PER_ROW : FM_OTHER_FORM;
}

int fm_array_form_error(const struct fm_arrays *s, const struct fm_npy *a, const char *what,
                        const char *wanted, struct fm_error *err)
{
    char shape[FM_NPY_DIMS * 24], of_x[FM_NPY_DIMS * 24];
    return fm_fail_at(err, FM_EFILE, a->name, 0, 0,
                      "%s has the shape %s, which does not fit x of %s; %s is expected", what,
                      fm_array_shape(a, shape), fm_array_shape(&s->x, of_x), wanted);
}

void fm_npy_step(const struct fm_npy *a, struct fm_npy_place *p)
{
    if (!a->fortran) {
        p->place++;
        return;
    }
    int64_t stride = a->count;
    for (int i = 0; i < a->ndim; i++) {
        stride /= a->shape[i];
        p->place += stride;
        if (++p->index[i] < a->shape[i]) return;
        p->place -= stride * a->shape[i];
        p->index[i] = 0;
    }
}

int64_t fm_array_place(const struct fm_arrays *s, int64_t r, int64_t c)
{
    const struct fm_dataset *d = s->data;
    if (s->flat) {
        if (d->nrecords == 1) return c;
        int64_t low = 0,
                high = d->nrecords; /* starts less the copies before them are where records begin in x */
        while (high - low > 1) {
            int64_t middle = low + (high - low) / 2;
            if (d->starts[middle] - middle * d->head <= c) {
                low = middle;
            } else {
                high = middle;
            }
        }
        return c + low * d->head;
    }
    int64_t at = c - (s->first ? s->first[r] : 0);
    return at >= 0 && at < fm_dataset_record_length(d, r) ? d->starts[r] + at : -1;
}

int fm_arrays_walk(struct fm_arrays *s, struct fm_npy *a, fm_take_element *take, void *user,
                   struct fm_error *err)
{
    enum { BLOCK = 2048 };
    bool per_row = fm_array_form(s, a) == FM_PER_ROW;
    struct fm_npy_place at = {0};
    double block[BLOCK];
    int rc = fm_npy_rewind(a, err);
    while (rc == 0 && a->left > 0) {
        int64_t n = a->left < BLOCK ? a->left : BLOCK;
        rc = fm_npy_read(a, block, n, err);
        for (int64_t i = 0; rc == 0 && i < n; i++) {
            int64_t where = at.place;
            if (!per_row) {
                where = s->flat ? fm_array_place(s, 0, at.place)
                                : fm_array_place(s, at.place / s->l, at.place % s->l);
            }
            if (where >= 0) rc = take(user, where, at.place, block[i], err);
            fm_npy_step(a, &at);
        }
    }
    return rc == 0 ? fm_npy_finish(a, err) : rc;
}

/* ---- the shape of x ---- */

static int read_shape(struct fm_arrays *s, struct fm_error *err)
{
    const struct fm_npy *x = &s->x;
    char shape[FM_NPY_DIMS * 24];
    bool window = s->config->has_window;
    s->flat = window && x->ndim <= 2;
    if (x->ndim < (window ? 1 : 2) || x->ndim > 3) {
        return fm_fail_at(
            err, FM_EFILE, x->name, 0, 0,
            window ? "has the shape %s; with a window x is [T,C], or [N,L,C] for N records"
                   : "has the shape %s; without a window x is [N,L,C] or [N,L]: N examples of L positions",
            fm_array_shape(x, shape));
    }
    s->n = s->flat ? 1 : x->shape[0];
    s->l = s->flat ? x->shape[0] : x->shape[1];
    s->data->channels = x->ndim == 3 ? x->shape[2] : s->flat && x->ndim == 2 ? x->shape[1] : 1;
    return 0;
}

/* An array that would not fit into this machine's memory is refused before it is asked for: a small archive
 * can claim a very large one. */
static int check_fits(const struct fm_arrays *s, int64_t positions, struct fm_error *err)
{
    int64_t bytes, page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES);
    if (!fm_multiply(positions, s->data->channels, &bytes) ||
        !fm_multiply(bytes, (int64_t)sizeof(float), &bytes) ||
        (page > 0 && pages > 0 && bytes / page >= pages)) {
        return fm_fail_at(err, FM_EFILE, s->x.name, 0, 0, "is larger than this machine's memory");
    }
    return 0;
}

/* ---- lengths ---- */

struct lengths {
    struct fm_arrays *s;
    struct fm_npy *a;
    int64_t *ends; /* mask: one after the last real column of each row */
    uint8_t *bits; /* mask: [n][l] as bits, because a file may be in any order */
};

static int take_length(void *user, int64_t where, int64_t place, double value, struct fm_error *err)
{
    struct lengths *l = user;
    char index[FM_NPY_DIMS * 24], text[FM_NUMBER_TEXT];
    if (!(value >= 1 && value <= (double)l->s->l) || value != floor(value)) {
        return fm_fail_at(err, FM_EFILE, l->a->name, 0, 0,
                          "%s is %s; a record has 1 to %" PRId64 " real positions",
                          fm_array_index(l->a, place, index), fm_format_number(value, text), l->s->l);
    }
    l->s->data->lengths[where] = (int64_t)value;
    return 0;
}

static int read_lengths(struct fm_arrays *s, struct fm_error *err)
{
    struct fm_npy a;
    int rc = fm_arrays_open(s, s->config->lengths, &a, err);
    if (rc != 0) return rc;
    struct lengths l = {.s = s, .a = &a};
    if (s->flat || !s->config->has_window) {
        rc = fm_fail_at(err, FM_EFILE, a.name, 0, 0, "lengths belong to x of [N,L,C] with a window");
    } else if (fm_array_form(s, &a) != FM_PER_ROW) {
        rc = fm_array_form_error(s, &a, "lengths", "[N]", err);
    } else {
        rc = fm_arrays_walk(s, &a, take_length, &l, err);
    }
    fm_npy_close(&a);
    return rc;
}

static int take_real(void *user, int64_t where, int64_t place, double value, struct fm_error *err)
{
    struct lengths *l = user;
    char index[FM_NPY_DIMS * 24];
    (void)where;
    if (value != 0 && value != 1) {
        return fm_fail_at(err, FM_EFILE, l->a->name, 0, 0, "%s is neither 0 nor 1; a mask holds nothing else",
                          fm_array_index(l->a, place, index));
    }
    if (value == 1) l->bits[place >> 3] |= (uint8_t)(1 << (place & 7));
    return 0;
}

/* The real positions of each row must be one stretch, at its start, its end or inside. */
static int find_stretches(struct lengths *l, struct fm_error *err)
{
    struct fm_arrays *s = l->s;
    for (int64_t r = 0; r < s->n; r++) {
        int64_t first = -1, end = 0;
        for (int64_t c = 0; c < s->l; c++) {
            int64_t place = r * s->l + c;
            char index[FM_NPY_DIMS * 24];
            if (!(l->bits[place >> 3] >> (place & 7) & 1)) continue;
            if (first >= 0 && c != end) {
                return fm_fail_at(
                    err, FM_EFILE, l->a->name, 0, 0,
                    "%s is real again after a hole; the real positions of a record must be one stretch",
                    fm_array_index(l->a, place, index));
            }
            if (first < 0) first = c;
            end = c + 1;
        }
        if (first < 0)
            return fm_fail_at(err, FM_EFILE, l->a->name, 0, 0, "record %" PRId64 " has no real position", r);
        s->first[r] = first;
        s->data->lengths[r] = end - first;
    }
    return 0;
}

/* mask [N,L] without lengths: which positions are real. */
static int read_real(struct fm_arrays *s, struct fm_npy *a, struct fm_error *err)
{
    struct lengths l = {.s = s, .a = a};
    for (int64_t r = 0; r < s->n; r++) s->data->lengths[r] = s->l;
    s->first = fm_calloc((size_t)s->n, sizeof *s->first);
    l.bits = fm_calloc((size_t)(a->count + 7) / 8, 1);
    int rc = s->first && l.bits ? fm_arrays_walk(s, a, take_real, &l, err) : fm_fail_memory(err);
    if (rc == 0) rc = find_stretches(&l, err);
    fm_free(l.bits);
    return rc;
}

/* ---- records ---- */

/* Sets starts from the lengths; the lengths themselves are needed no more. */
static int set_starts(struct fm_arrays *s, struct fm_error *err)
{
    struct fm_dataset *d = s->data;
    int64_t at = 0;
    for (int64_t r = 0; r < d->nrecords; r++) {
        int64_t length = d->lengths ? d->lengths[r] : s->l;
        d->starts[r] = at;
        if (__builtin_add_overflow(at, length, &at) || __builtin_add_overflow(at, d->head, &at)) {
            return fm_fail_at(err, FM_EFILE, s->x.name, 0, 0, "is larger than this machine's memory");
        }
    }
    d->starts[d->nrecords] = d->positions = at;
    fm_free(d->lengths);
    d->lengths = NULL;
    return check_fits(s, at, err);
}

static int make_records(struct fm_arrays *s, struct fm_error *err)
{
    struct fm_dataset *d = s->data;
    const struct fm_data_config *config = s->config;
    int rc = check_fits(s, s->n, err);
    if (rc != 0) return rc;
    d->starts = fm_calloc((size_t)s->n + 1, sizeof *d->starts);
    if (!d->starts) return fm_fail_memory(err);
    d->nrecords = s->n;
    d->starts[s->n] = s->n;
    if (config->lengths) {
        d->lengths = fm_calloc((size_t)s->n, sizeof *d->lengths);
        if (!d->lengths) return fm_fail_memory(err);
        return read_lengths(s, err);
    }
    if (!config->array_mask || s->flat || !config->has_window) return 0;
    struct fm_npy mask;
    rc = fm_arrays_open(s, config->array_mask, &mask, err);
    if (rc != 0) return rc;
    if (fm_array_form(s, &mask) == FM_PER_POSITION) {
        d->lengths = fm_calloc((size_t)s->n, sizeof *d->lengths);
        rc = d->lengths ? read_real(s, &mask, err) : fm_fail_memory(err);
    }
    fm_npy_close(&mask);
    return rc;
}

/* ---- all of it ---- */

static int read_all(struct fm_arrays *s, struct fm_error *err)
{
    struct fm_dataset *d = s->data;
    const struct fm_data_config *config = s->config;
    int rc = fm_arrays_open(s, config->x, &s->x, err);
    if (rc == 0) rc = read_shape(s, err);
    if (rc != 0) return rc;
    if (config->has_window && config->window.edge == FM_EDGE_WRAP && s->needs->longest_window > 1) {
        d->head = s->needs->longest_window - 1;
    }
    rc = make_records(s, err);
    if (rc == 0) rc = fm_arrays_read_group(s, err);
    if (rc == 0) rc = set_starts(s, err);
    if (rc == 0) rc = fm_arrays_read_targets(s, err);
    if (rc == 0) rc = fm_arrays_read_weight(s, err);
    if (rc == 0) rc = fm_arrays_read_fold(s, err);
    if (rc == 0) rc = fm_arrays_read_mask(s, err);
    if (rc == 0) rc = fm_arrays_read_values(s, err);
    for (int64_t r = 0; rc == 0 && d->head > 0 && r < d->nrecords; r++) {
        int64_t length = fm_dataset_record_length(d, r);
        for (int64_t i = 0; i < d->head; i++)
            fm_position_copy(d, d->starts[r] + i, d->starts[r] + length + i);
    }
    return rc;
}

/* Stamps are taken before and compared after, because arrays are read in pieces. */
static int stamp_files(struct fm_dataset *d, const struct fm_data_config *config, struct fm_error *err)
{
    char **paths;
    int64_t count;
    int rc = fm_array_files(config, &paths, &count, err);
    for (int64_t i = 0; rc == 0 && i < count; i++) {
        struct fm_file_stamp stamp = {.path = paths[i]};
        rc = fm_stamp_read(&stamp, err);
        if (rc == 0) rc = fm_dataset_add_stamp(d, &stamp, err);
        if (rc == 0) paths[i] = NULL;
    }
    for (int64_t i = 0; i < count; i++) fm_free(paths[i]);
    fm_free(paths);
    return rc;
}

int fm_load_arrays(struct fm_dataset *data, const struct fm_data_config *config,
                   const struct fm_dataset_needs *needs, struct fm_notes *notes, struct fm_error *err)
{
    struct fm_arrays s = {.data = data, .config = config, .needs = needs, .x = {.fd = -1}};
    char which[300];
    (void)notes;
    if (needs->fold_column && !config->array_fold) {
        return fm_fail(err, FM_EFILE,
                       "cv.column: arrays have no columns; name the array of folds with data.fold");
    }
    int rc = stamp_files(data, config, err);
    if (rc == 0 && config->source == FM_SOURCE_NPZ) {
        s.path = fm_strdup(data->files[0].path);
        rc = s.path ? fm_npz_open(&s.zip, s.path, err) : fm_fail_memory(err);
    }
    if (rc == 0) rc = read_all(&s, err);
    if (rc == 0) {
        int same = fm_stamps_unchanged(data->files, data->nfiles, which, sizeof which, err);
        if (same < 0) rc = same;
        if (same == 0) rc = fm_fail(err, FM_EFILE, "the data changed while they were being read: %s", which);
    }
    fm_npy_close(&s.x);
    fm_npz_close(s.zip);
    fm_free(s.path);
    fm_free(s.first);
    return rc;
}

int fm_array_files(const struct fm_data_config *config, char ***paths, int64_t *count, struct fm_error *err)
{
    const struct fm_node *names[] = {
        config->x,          config->y,          config->array_group, config->array_weight,
        config->array_fold, config->array_mask, config->lengths};
    enum { NAMES = sizeof names / sizeof *names };
    *count = 0;
    *paths = NULL;
    if (config->source == FM_SOURCE_NPZ) {
        struct fm_file_list list;
        int rc = fm_file_list_init(&list, config, err);
        if (rc == 0 && list.count != 1) {
            rc = fm_fail(err, FM_EFILE, "data: `path` gives %zu files; arrays are read from one .npz",
                         list.count);
        }
        if (rc == 0) {
            *paths = fm_calloc(1, sizeof **paths);
            if (!*paths) rc = fm_fail_memory(err);
        }
        if (rc == 0) {
            (*paths)[(*count)++] = list.files[0].path;
            list.files[0].path = NULL;
        }
        fm_file_list_fini(&list);
        return rc;
    }
    *paths = fm_calloc(NAMES, sizeof **paths);
    if (!*paths) return fm_fail_memory(err);
    for (size_t i = 0; i < NAMES; i++) {
        if (!names[i]) continue;
        (*paths)[*count] = fm_file_path(config->folder, names[i]->text);
        if (!(*paths)[(*count)++]) return fm_fail_memory(err);
    }
    return 0;
}
