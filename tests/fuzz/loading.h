/* What the fuzzers of data files share: the input as a file in memory, and what must hold of whatever loads.
 */
#ifndef FM_TESTS_FUZZ_LOADING_H
#define FM_TESTS_FUZZ_LOADING_H

#include "base/error.h"
#include "base/log.h"
#include "data/dataset.h"

#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FUZZ_FD   200
#define FUZZ_PATH "/proc/self/fd/200"

static inline void fuzz_check(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

/* The bytes become the file FUZZ_PATH. */
static inline void fuzz_file(const uint8_t *bytes, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    fuzz_check(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && dup2(fd, FUZZ_FD) == FUZZ_FD,
               "a file in memory");
    close(fd);
}

static inline void fuzz_check_data(const struct fm_dataset *d)
{
    fuzz_check(d->nrecords >= 1 && d->positions >= 1, "there is a position");
    for (int64_t r = 0; r < d->nrecords; r++)
        fuzz_check(fm_dataset_record_length(d, r) >= 1, "no record is empty");
    for (int64_t i = 0; i < d->positions * d->channels; i++)
        fuzz_check(isfinite(d->values[i]), "values are finite");
    for (int64_t i = 0; i < d->classes.count; i++) {
        fuzz_check(fm_packed_get(&d->classes, i) <= d->nclasses, "codes are classes or none");
    }
    for (int64_t r = 0; d->record_group && r < d->nrecords; r++) {
        fuzz_check(d->record_group[r] >= 0 && d->record_group[r] < d->ngroups, "groups have a name");
    }
    int64_t folds = d->fold ? (d->fold_per_record ? d->nrecords : d->positions) : 0;
    for (int64_t i = 0; i < folds; i++)
        fuzz_check(d->fold[i] >= -1 && d->fold[i] < d->nfolds, "folds have a name");
}

/* A sweep that loads FUZZ_PATH, read once. */
struct fuzz_sweep {
    const char *data, *loss, *cv;
    bool read;
    struct fm_sweep sweep;
};

static inline void fuzz_read_sweep(struct fuzz_sweep *s)
{
    char text[2048];
    struct fm_error err = {0};
    int n =
        snprintf(text, sizeof text,
                 "name: t\ndata: {%s}\ncv: {%s}\nmodel: [flatten, {dense: {units: 2, activation: softmax}}]\n"
                 "train: {loss: %s}\nmethod: grid\n",
                 s->data, s->cv, s->loss);
    int rc = fm_sweep_parse(&s->sweep, "fuzz.yaml", text, (size_t)n, NULL, 0, NULL, &err);
    if (rc != 0) fprintf(stderr, "%s\n", err.text);
    fuzz_check(rc == 0, "the sweep is right");
    s->read = true;
}

/* Loads FUZZ_PATH twice: both must agree. FUZZ_SAY in the environment tells what became of it. */
static inline void fuzz_load(struct fuzz_sweep *s)
{
    struct fm_error err = {0};
    if (!s->read) fuzz_read_sweep(s);
    struct fm_dataset_needs needs = {.numbers = strcmp(s->loss, "mse") == 0,
                                     .distribution = strcmp(s->loss, "categorical_crossentropy") == 0,
                                     .time = true,
                                     .fold_column = s->sweep.cv.column,
                                     .longest_window = 3};
    uint64_t hash[2] = {0, 0};
    int code[2];
    for (int i = 0; i < 2; i++) {
        struct fm_dataset loaded;
        struct fm_notes notes = {0};
        fm_error_clear(&err);
        code[i] = fm_dataset_load(&loaded, &s->sweep.data, &needs, &notes, &err);
        fuzz_check((code[i] != 0) == (err.text[0] != 0), "failures say why");
        if (code[i] == 0) {
            fuzz_check_data(&loaded);
            fm_dataset_check_outputs(&loaded, 2, &err);
            hash[i] = loaded.hash;
            fm_dataset_fini(&loaded);
        }
        fm_notes_fini(&notes);
    }
    if (getenv("FUZZ_SAY")) fprintf(stderr, "%s\n", code[0] == 0 ? "loaded" : err.text);
    fuzz_check(code[0] == code[1] && hash[0] == hash[1], "loading is repeatable");
}

#endif
