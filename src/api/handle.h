/* What stands behind `struct foldmill`. */
#ifndef FM_API_HANDLE_H
#define FM_API_HANDLE_H

#include <stdatomic.h>

#include "foldmill.h"
#include "engine/plugin.h"
#include "sweep/scheduler.h"

struct foldmill {
    char *path;    /* of the sweep file, as given */
    char *journal; /* of the journal */
    char *device_name;
    int64_t lanes;
    enum fm_kernels_choice kernels;
    bool fresh;
    bool explain;               /* plans tell how the device computes */
    bool accept_other;          /* go on where another kind of GPU began runs */
    bool profile;               /* measure where the time goes */
    bool lost;                  /* the device: nothing can be computed with this handle any more */
    struct fm_plan_key lost_by; /* the plan that was being made then; batch 0: none was */
    bool has_sweep;             /* the file was read */
    bool has_file;              /* fm_prepare_file was done */
    bool has_plan;              /* fm_prepare was done too */
    struct fm_sweep sweep;      /* its address must not change: `prepared` points to it */
    struct fm_notes notes;      /* of reading the file and opening the journal */
    struct fm_prepared prepared;
    const struct fm_backend *backend;
    struct fm_device *device; /* open, or NULL */
    atomic_int stop;
};

/* FM_EUSAGE for a handle that only reads results. */
int fm_handle_needs_sweep(const struct foldmill *f, struct fm_error *err);
/* Finds and opens the device, once. */
int fm_handle_device(struct foldmill *f, struct fm_error *err);
/* The hashes of the file; then everything, once. With a device, costs and support are known. */
int fm_handle_file(struct foldmill *f, struct fm_error *err);
int fm_handle_plan(struct foldmill *f, struct fm_error *err);
/* Forgets the plan, so that the next one reads the data again. */
void fm_handle_forget(struct foldmill *f);

/* A --device text ("cpu", "auto", "cuda:0,1"): what stands before the colon, and behind it (NULL = nothing).
 */
struct fm_device_name {
    char kind[16];
    const char *select;
};
/* FM_EUSAGE with the nearest name, or with what is wrong about the numbers. */
int fm_device_read(const char *name, struct fm_device_name *out, struct fm_error *err);
/* Opens it. FM_EUSAGE when `options` ask for what the device has not: kernels to choose from, a profile.
 * options->select is not looked at. */
int fm_device_open(const char *name, const struct fm_device_options *options,
                   const struct fm_backend **backend, struct fm_device **device, char *note, size_t note_size,
                   struct fm_error *err);
/* "auto", "own", "library"; NULL = auto. */
int fm_kernels_read(const char *text, enum fm_kernels_choice *choice, struct fm_error *err);

/* Gives a text out, or reports that memory ran out. */
int fm_text_give(struct fm_text *text, char **out, struct fm_error *err);

#endif
