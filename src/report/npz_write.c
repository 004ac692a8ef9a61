#include "report/npz_write.h"

#include <errno.h>
#include <time.h>
#include <inttypes.h>
#include <string.h>
#include <zip.h>

#include "base/memory.h"
#include "base/text.h"

/* The second day that a zip file can say, so that it can be said in every time zone. */
#define NO_TIME ((time_t)315619200)

#define ALIGNMENT 64 /* of the data inside a member, as numpy pads */

struct fm_npz_file {
    zip_t *zip;
    char *path;
};

static int fail_zip(struct fm_npz_file *npz, zip_error_t *error, struct fm_error *err)
{
    if (zip_error_system_type(error) == ZIP_ET_SYS) {
        errno = zip_error_code_system(error);
        return fm_fail_errno(err, "write", npz->path);
    }
    return fm_fail(err, FM_EIO, "cannot write %s: %s", npz->path, zip_error_strerror(error));
}

int fm_npz_create(struct fm_npz_file **out, const char *path, struct fm_error *err)
{
    *out = NULL;
    struct fm_npz_file *npz = fm_calloc(1, sizeof *npz);
    if (!npz) return fm_fail_memory(err);
    npz->path = fm_strdup(path);
    int code = 0, rc = npz->path ? 0 : fm_fail_memory(err);
    if (!rc) npz->zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (!rc && !npz->zip) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        rc = fail_zip(npz, &error, err);
        zip_error_fini(&error);
    }
    if (rc) {
        fm_npz_finish(npz, true, NULL);
        return rc;
    }
    *out = npz;
    return 0;
}

/* Format version 1.0: magic, length, a dictionary padded with blanks, a line end. */
static void add_header(struct fm_text *text, const int64_t *shape, int rank)
{
    struct fm_text dictionary = {0};
    fm_text_add_string(&dictionary, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (int i = 0; i < rank; i++) fm_text_add(&dictionary, "%s%" PRId64, i ? ", " : "", shape[i]);
    fm_text_add_string(&dictionary, rank == 1 ? ",), }" : "), }");
    while (!dictionary.failed && (10 + dictionary.size + 1) % ALIGNMENT)
        fm_text_add_bytes(&dictionary, " ", 1);
    fm_text_add_bytes(&dictionary, "\n", 1);
    char size[2] = {(char)(dictionary.size & 0xff), (char)(dictionary.size >> 8)};
    fm_text_add_bytes(text, "\x93NUMPY\x01\x00", 8);
    fm_text_add_bytes(text, size, 2);
    if (dictionary.failed)
        text->failed = true;
    else
        fm_text_add_bytes(text, dictionary.data, dictionary.size);
    fm_text_fini(&dictionary);
}

int fm_npz_append(struct fm_npz_file *npz, const char *key, const float *values, const int64_t *shape,
                  int rank, struct fm_error *err)
{
    struct fm_text member = {0}, name = {0};
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0 || !fm_multiply(count, shape[i], &count))
            return fm_fail(err, FM_EINTERNAL, "a variable has an impossible shape");
    add_header(&member, shape, rank);
    fm_text_add_bytes(&member, (const char *)values, (size_t)count * sizeof *values);
    fm_text_add(&name, "%s.npy", key);
    int rc = member.failed || name.failed ? fm_fail_memory(err) : 0;
    /* libzip owns the bytes from here on and frees them. */
    zip_source_t *source = rc ? NULL : zip_source_buffer(npz->zip, member.data, member.size, 1);
    if (!rc && !source) rc = fail_zip(npz, zip_get_error(npz->zip), err);
    if (source) member.data = NULL;
    if (!rc) {
        zip_int64_t index = zip_file_add(npz->zip, name.data, source, ZIP_FL_ENC_UTF_8);
        if (index < 0) zip_source_free(source);
        /* As NumPy does: the same arrays give the same bytes, whenever they are written. */
        if (index < 0 || zip_set_file_compression(npz->zip, (zip_uint64_t)index, ZIP_CM_STORE, 0) ||
            zip_file_set_mtime(npz->zip, (zip_uint64_t)index, NO_TIME, 0))
            rc = fail_zip(npz, zip_get_error(npz->zip), err);
    }
    fm_text_fini(&member);
    fm_text_fini(&name);
    return rc;
}

int fm_npz_finish(struct fm_npz_file *npz, bool discard, struct fm_error *err)
{
    int rc = 0;
    if (npz->zip && (discard || zip_close(npz->zip) != 0)) {
        if (!discard) rc = fail_zip(npz, zip_get_error(npz->zip), err);
        zip_discard(npz->zip);
    }
    fm_free(npz->path);
    fm_free(npz);
    return rc;
}
