#include "support/loading.h"

#include "base/memory.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ts_loading_init(struct ts_loading *l)
{
    *l = (struct ts_loading){.longest = 1};
    return ts_temporary(l->folder, sizeof l->folder);
}

static void forget(struct ts_loading *l)
{
    if (l->has_data) fm_dataset_fini(&l->data);
    if (l->has_sweep) fm_sweep_fini(&l->sweep);
    l->has_data = l->has_sweep = false;
    fm_notes_fini(&l->notes);
    fm_error_clear(&l->err);
}

void ts_loading_fini(struct ts_loading *l)
{
    forget(l);
    ts_remove_tree(l->folder);
}

bool ts_loading_file(struct ts_loading *l, const char *name, const char *bytes, size_t size)
{
    char path[256];
    return ts_write_file(ts_join(path, sizeof path, l->folder, name), bytes, size ? size : strlen(bytes));
}

bool ts_loading_shared(struct ts_loading *l, const char *from, const char *name)
{
    char path[512];
    size_t size;
    if (!ts_shared()) return false;
    snprintf(path, sizeof path, "%s/%s/%s", ts_shared(), from, name);
    char *bytes = ts_read_file(path, &size);
    bool ok = bytes && ts_loading_file(l, name, bytes, size);
    free(bytes);
    return ok;
}

int ts_load_cv(struct ts_loading *l, const char *data, const char *loss, const char *cv)
{
    char text[8192], path[256];
    forget(l);
    int n =
        snprintf(text, sizeof text,
                 "name: t\ndata: {%s}\ncv: {%s}\nmodel: [flatten, {dense: {units: 2, activation: softmax}}]\n"
                 "train: {loss: %s}\nmethod: grid\n",
                 data, cv, loss);
    ts_join(path, sizeof path, l->folder, "sweep.yaml");
    int rc = fm_sweep_parse(&l->sweep, path, text, (size_t)n, NULL, 0, &l->notes, &l->err);
    if (rc != 0) return rc;
    l->has_sweep = true;
    struct fm_dataset_needs needs = {
        .numbers = strcmp(loss, "mse") == 0,
        .distribution = strcmp(loss, "categorical_crossentropy") == 0,
        .time = l->time,
        .fold_column = l->sweep.cv.column,
        .longest_window = l->longest,
    };
    rc = fm_dataset_load(&l->data, &l->sweep.data, &needs, &l->notes, &l->err);
    l->has_data = rc == 0;
    return rc;
}

int ts_load(struct ts_loading *l, const char *data, const char *loss)
{
    return ts_load_cv(l, data, loss, "split: kfold");
}

const char *ts_load_error(const struct ts_loading *l, char *buffer, size_t size)
{
    char whole[2048];
    size_t folder = strlen(l->folder) + 1, used = 0;
    fm_error_print(&l->err, whole, sizeof whole);
    for (const char *s = whole; *s && used + 1 < size;) {
        if (strncmp(s, l->folder, folder - 1) == 0 && s[folder - 1] == '/') s += folder;
        buffer[used++] = *s;
        if (*s) s++;
    }
    buffer[used] = '\0';
    return buffer;
}

bool ts_load_noted(const struct ts_loading *l, const char *text)
{
    for (size_t i = 0; i < l->notes.count; i++) {
        if (strstr(l->notes.text[i], text)) return true;
    }
    return false;
}

double ts_load_value(const struct ts_loading *l, int64_t position, int64_t channel)
{
    const struct fm_dataset *d = &l->data;
    return (double)d->values[position * d->channels + channel] + d->offset[channel];
}
