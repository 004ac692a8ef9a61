/* --weights: the kept runs' parameters as .npz, from the journal alone. */
#include "report/export.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "report/npz_write.h"

#define MAX_RANK 8

/* The place of a layer in the model: layers are named by type, counted per type from "conv1d" to "conv1d_1".
 */
static int64_t layer_index(const json_t *layers, const char *name, size_t size)
{
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const char *type = json_string_value(json_object_get(json_array_get(layers, i), "type"));
        int64_t before = 0;
        if (!type) continue;
        for (size_t k = 0; k < i; k++) {
            const char *other = json_string_value(json_object_get(json_array_get(layers, k), "type"));
            before += other && !strcmp(other, type);
        }
        char full[128];
        int n = before ? snprintf(full, sizeof full, "%s_%" PRId64, type, before)
                       : snprintf(full, sizeof full, "%s", type);
        if (n == (int)size && !memcmp(full, name, size)) return (int64_t)i;
    }
    return -1;
}

static int add_variable(struct fm_npz_file *npz, const json_t *layers, const json_t *variable,
                        const char *blob, size_t size, size_t *used, struct fm_error *err)
{
    const char *name = json_string_value(json_object_get(variable, "name"));
    const json_t *dimensions = json_object_get(variable, "shape");
    int64_t shape[MAX_RANK], count = 1;
    size_t rank = json_array_size(dimensions);
    bool fits = name && json_is_array(dimensions) && rank <= MAX_RANK;
    for (size_t i = 0; fits && i < rank; i++) {
        shape[i] = json_integer_value(json_array_get(dimensions, i));
        fits = shape[i] >= 0 && fm_multiply(count, shape[i], &count) && count <= INT32_MAX;
    }
    if (!fits || (size_t)count * sizeof(float) > size - *used)
        return fm_fail(err, FM_EIO, "the journal's weights do not fit their network: it is damaged");
    const char *slash = strchr(name, '/');
    int64_t index = slash ? layer_index(layers, name, (size_t)(slash - name)) : -1;
    struct fm_text key = {0};
    if (index >= 0)
        fm_text_add(&key, "%" PRId64 "_%s", index, name);
    else
        fm_text_add_string(&key, name);
    float *values = fm_malloc((size_t)count, sizeof *values); /* blobs need not be aligned */
    int rc = key.failed || !values ? fm_fail_memory(err) : 0;
    if (!rc) {
        memcpy(values, blob + *used, (size_t)count * sizeof *values);
        *used += (size_t)count * sizeof *values;
        rc = fm_npz_append(npz, key.data, values, shape, (int)rank, err);
    }
    fm_free(values);
    fm_text_fini(&key);
    return rc;
}

static int unreadable(const json_error_t *error, struct fm_error *err)
{
    if (json_error_code(error) == json_error_out_of_memory) return fm_fail_memory(err);
    return fm_fail(err, FM_EIO, "the journal's list of layers cannot be read: it is damaged");
}

static int write_file(struct fm_reader *reader, const char *path, struct fm_error *err)
{
    json_error_t error;
    json_t *variables = json_loads(fm_reader_text(reader, 3), 0, &error);
    json_t *layers = variables ? json_loads(fm_reader_text(reader, 4), 0, &error) : NULL;
    const char *blob = sqlite3_column_blob(reader->statement, 5);
    size_t size = (size_t)sqlite3_column_bytes(reader->statement, 5), used = 0;
    struct fm_npz_file *npz = NULL;
    int rc = variables && layers ? fm_npz_create(&npz, path, err) : unreadable(&error, err);
    for (size_t i = 0; !rc && i < json_array_size(variables); i++)
        rc = add_variable(npz, layers, json_array_get(variables, i), blob, size, &used, err);
    if (!rc && used != size)
        rc = fm_fail(err, FM_EIO, "the journal's weights do not fit their network: it is damaged");
    if (npz) {
        int closed = fm_npz_finish(npz, rc != 0, err);
        if (!rc) rc = closed;
    }
    json_decref(variables);
    json_decref(layers);
    return rc;
}

int fm_export_weights_to(const char *path, const char *folder, int64_t *count, struct fm_error *err)
{
    struct fm_reader reader;
    int64_t written = 0;
    int rc = fm_reader_open(&reader, path, err);
    if (rc) return rc;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) rc = fm_fail_errno(err, "make the folder", folder);
    fm_reader_query(&reader,
                    "SELECT a.trial, a.repeat, a.fold, n.variables, n.layers, a.blob FROM artifact a "
                    "JOIN trial t USING(trial) JOIN network n ON n.network = t.network "
                    "WHERE t.listed AND t.kept AND a.kind = 'weights' ORDER BY 1, 2, 3");
    while (!rc && fm_reader_row(&reader)) {
        struct fm_text name = {0};
        fm_text_add(&name, "%s/trial%" PRId64 "_repeat%" PRId64 "_fold%" PRId64 ".npz", folder,
                    fm_reader_integer(&reader, 0), fm_reader_integer(&reader, 1),
                    fm_reader_integer(&reader, 2));
        rc = name.failed ? fm_fail_memory(err) : write_file(&reader, name.data, err);
        fm_text_fini(&name);
        written += !rc;
    }
    if (!rc) rc = fm_reader_status(&reader, err);
    fm_reader_close(&reader);
    if (!rc && !written)
        rc = fm_fail(
            err, FM_EUSAGE,
            "%s holds no weights: no trial is complete yet, or keep.weights is off in the sweep file", path);
    if (count) *count = written;
    return rc;
}
