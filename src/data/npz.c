#include "data/npy.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_MEMBERS = 65536, MOST_SHOWN = 64 };

int fm_npz_open(zip_t **zip, const char *path, struct fm_error *err)
{
    struct fm_file_stamp stamp = {0};
    int fd, code = 0;
    *zip = NULL;
    int rc = fm_file_open(path, &fd, &stamp, err);
    if (rc != 0) return rc;
    *zip = zip_fdopen(fd, ZIP_CHECKCONS, &code);
    if (!*zip) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        rc = code == ZIP_ER_MEMORY
                 ? fm_fail_memory(err)
                 : fm_fail_at(err, FM_EFILE, path, 0, 0, "is no .npz archive that can be read: %s",
                              zip_error_strerror(&error));
        zip_error_fini(&error);
        close(fd);
        return rc;
    }
    if (zip_get_num_entries(*zip, 0) > MOST_MEMBERS) {
        fm_npz_close(*zip);
        *zip = NULL;
        return fm_fail_at(err, FM_EFILE, path, 0, 0, "has more than %d members", MOST_MEMBERS);
    }
    return 0;
}

void fm_npz_close(zip_t *zip)
{
    if (zip) zip_discard(zip);
}

/* Whether a member's name is `name` or `name`.npy. */
static bool is_called(const char *member, const char *name)
{
    size_t n = strlen(name);
    return member && strncmp(member, name, n) == 0 && (member[n] == '\0' || strcmp(member + n, ".npy") == 0);
}

/* Members with that name; *index is the last of them. */
static int count_members(zip_t *zip, const char *name, zip_uint64_t *index)
{
    int found = 0;
    zip_int64_t n = zip_get_num_entries(zip, 0);
    for (zip_int64_t i = 0; i < n; i++) {
        if (!is_called(zip_get_name(zip, (zip_uint64_t)i, 0), name)) continue;
        *index = (zip_uint64_t)i;
        found++;
    }
    return found;
}

bool fm_npz_has(zip_t *zip, const char *name)
{
    zip_uint64_t index;
    return count_members(zip, name, &index) > 0;
}

static int no_member(zip_t *zip, const char *path, const char *name, struct fm_error *err)
{
    struct fm_text list = {0};
    zip_int64_t n = zip_get_num_entries(zip, 0);
    for (zip_int64_t i = 0; i < n && i < MOST_SHOWN; i++) {
        const char *member = zip_get_name(zip, (zip_uint64_t)i, 0);
        char shown[64];
        if (!member) continue;
        size_t size = strlen(member);
        if (size > 4 && strcmp(member + size - 4, ".npy") == 0) size -= 4;
        fm_text_add(&list, "%s%s", list.size ? ", " : "", fm_show(member, size, shown, sizeof shown));
    }
    int rc = fm_fail_at(err, FM_EFILE, path, 0, 0, "has no array '%s'; it has %s", name,
                        list.size ? list.data : "none");
    fm_text_fini(&list);
    return rc;
}

int fm_npz_start(struct fm_npy *a, struct fm_error *err)
{
    if (a->member) zip_fclose(a->member);
    a->member = zip_fopen_index(a->zip, a->index, 0);
    if (a->member) return 0;
    zip_error_t *error = zip_get_error(a->zip);
    if (zip_error_code_zip(error) == ZIP_ER_MEMORY) return fm_fail_memory(err);
    return fm_fail_at(err, FM_EFILE, a->name, 0, 0, "cannot be read: %s", zip_error_strerror(error));
}

static int check_member(const struct fm_npy *a, zip_t *zip, zip_uint64_t index, int64_t *size,
                        struct fm_error *err)
{
    zip_stat_t stat;
    if (zip_stat_index(zip, index, 0, &stat) != 0 || !(stat.valid & ZIP_STAT_SIZE) ||
        stat.size > INT64_MAX / 2) {
        return fm_fail_at(err, FM_EFILE, a->name, 0, 0, "has no size in the archive's directory");
    }
    if ((stat.valid & ZIP_STAT_ENCRYPTION_METHOD) && stat.encryption_method != ZIP_EM_NONE) {
        return fm_fail_at(err, FM_EFILE, a->name, 0, 0, "is encrypted; save the archive without a password");
    }
    if ((stat.valid & ZIP_STAT_COMP_METHOD) && stat.comp_method != ZIP_CM_STORE &&
        stat.comp_method != ZIP_CM_DEFLATE) {
        return fm_fail_at(err, FM_EFILE, a->name, 0, 0,
                          "is compressed in a way that NumPy does not write (method %d)", stat.comp_method);
    }
    *size = (int64_t)stat.size;
    return 0;
}

int fm_npz_array(zip_t *zip, const char *path, const char *name, struct fm_npy *a, struct fm_error *err)
{
    struct fm_text shown = {0};
    int64_t size = 0;
    *a = (struct fm_npy){.fd = -1, .zip = zip};
    int found = count_members(zip, name, &a->index);
    if (found == 0) return no_member(zip, path, name, err);
    if (found > 1) return fm_fail_at(err, FM_EFILE, path, 0, 0, "has %d arrays called '%s'", found, name);
    fm_text_add(&shown, "%s: %s", path, name);
    if (shown.failed) return fm_text_fini(&shown), fm_fail_memory(err);
    a->name = shown.data;
    int rc = check_member(a, zip, a->index, &size, err);
    if (rc == 0) rc = fm_npz_start(a, err);
    if (rc == 0) rc = fm_npy_begin(a, size, err);
    if (rc != 0) fm_npy_close(a);
    return rc;
}
