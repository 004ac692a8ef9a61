/* Loads a small data set the way a sweep does: files in a temporary folder, a sweep file around a `data`
 * section. */
#ifndef FM_TESTS_LOADING_H
#define FM_TESTS_LOADING_H

#include "base/error.h"
#include "base/log.h"
#include "data/dataset.h"

struct ts_loading {
    char folder[64];
    struct fm_sweep sweep;
    struct fm_dataset data;
    struct fm_notes notes;
    struct fm_error err;
    int64_t longest; /* window length; set by the test where windows are wrapped */
    bool time;       /* needs.time */
    bool has_sweep, has_data;
};

/* Makes the folder; false if that fails. */
bool ts_loading_init(struct ts_loading *l);
void ts_loading_fini(struct ts_loading *l);

/* Writes a file into the folder; `size` 0 = the length of the text. */
bool ts_loading_file(struct ts_loading *l, const char *name, const char *bytes, size_t size);
/* Copies a file of ../shared/cases (or data) into the folder; false if it is not there. */
bool ts_loading_shared(struct ts_loading *l, const char *from, const char *name);

/* Reads the sweep "data: {<data>}" with that loss and loads it, after forgetting what was loaded before. `cv`
 * NULL = kfold. Returns the code; l->err says why. */
int ts_load(struct ts_loading *l, const char *data, const char *loss);
int ts_load_cv(struct ts_loading *l, const char *data, const char *loss, const char *cv);

/* "file:line:column: text" of the last error, the folder's path left out. */
const char *ts_load_error(const struct ts_loading *l, char *buffer, size_t size);
/* Whether a note holds the text. */
bool ts_load_noted(const struct ts_loading *l, const char *text);
/* The value as the user wrote it: stored + offset. */
double ts_load_value(const struct ts_loading *l, int64_t position, int64_t channel);

#endif
