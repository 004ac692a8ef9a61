#include "data/files.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "data/pattern.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *fm_file_path(const char *folder, const char *name)
{
    if (name[0] == '/' || strcmp(folder, ".") == 0) return fm_strdup(name);
    struct fm_text out = {0};
    fm_text_add(&out, "%s/%s", folder, name);
    if (out.failed) fm_text_fini(&out);
    return out.data;
}

const char *fm_file_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISFIFO(mode)) return "a FIFO";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

int fm_file_open(const char *path, int *fd, struct fm_file_stamp *stamp, struct fm_error *err)
{
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0) {
        char buffer[128];
        return fm_fail_at(err, FM_EFILE, path, 0, 0, "cannot be opened for reading: %s",
                          strerror_r(errno, buffer, sizeof buffer));
    }
    int rc = 0;
    if (fstat(*fd, &st) != 0) {
        rc = fm_fail_errno(err, "look at", path);
    } else if (!S_ISREG(st.st_mode)) {
        rc = fm_fail_at(err, FM_EFILE, path, 0, 0, "is %s, not a file", kind_of(st.st_mode));
    }
    if (rc != 0) {
        close(*fd);
        *fd = -1;
        return rc;
    }
    stamp->size = st.st_size;
    stamp->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    stamp->inode = (int64_t)st.st_ino;
    return 0;
}

int fm_file_check_same(const char *path, int fd, const struct fm_file_stamp *stamp, struct fm_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return fm_fail_errno(err, "look at", path);
    int64_t mtime = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    if (st.st_size == stamp->size && mtime == stamp->mtime_ns) return 0;
    return fm_fail_at(err, FM_EFILE, path, 0, 0,
                      "changed while it was being read; start again when it is complete");
}

int64_t fm_file_read(const char *path, int fd, void *buffer, size_t size, struct fm_error *err)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, (char *)buffer + done, size - done);
        if (n == 0) break;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fm_fail_errno(err, "read", path), -1;
        done += (size_t)n;
    }
    return (int64_t)done;
}

static int hash_file(const char *path, int fd, uint64_t *hash, struct fm_error *err)
{
    enum { CHUNK = 1 << 18 };
    struct fm_hash h = {0};
    char *buffer = fm_malloc(CHUNK, 1);
    if (!buffer) return fm_fail_memory(err);
    int64_t n;
    while ((n = fm_file_read(path, fd, buffer, CHUNK, err)) > 0) fm_hash_add(&h, buffer, (size_t)n);
    fm_free(buffer);
    *hash = fm_hash_value(&h);
    return n < 0 ? FM_EIO : 0;
}

int fm_stamp_read(struct fm_file_stamp *stamp, struct fm_error *err)
{
    int fd, rc = fm_file_open(stamp->path, &fd, stamp, err);
    if (rc != 0) return rc;
    rc = hash_file(stamp->path, fd, &stamp->hash, err);
    if (rc == 0) rc = fm_file_check_same(stamp->path, fd, stamp, err);
    close(fd);
    return rc;
}

int fm_dataset_add_stamp(struct fm_dataset *data, const struct fm_file_stamp *stamp, struct fm_error *err)
{
    struct fm_file_stamp *files = fm_realloc(data->files, (size_t)data->nfiles + 1, sizeof *files);
    if (!files) return fm_fail_memory(err);
    data->files = files;
    files[data->nfiles++] = *stamp;
    return 0;
}

/* 1 = the same, 0 = not. */
static int stamp_unchanged(const struct fm_file_stamp *old, char *which, size_t size, struct fm_error *err)
{
    struct fm_file_stamp now = {0};
    struct fm_error ignored = {0};
    char shown[256];
    int fd;
    fm_show(old->path, strlen(old->path), shown, sizeof shown);
    if (fm_file_open(old->path, &fd, &now, &ignored) != 0) {
        if (which) snprintf(which, size, "%s can no longer be read", shown);
        return 0;
    }
    int rc = 1;
    if (now.size != old->size) {
        if (which)
            snprintf(which, size, "%s has %lld bytes, not %lld", shown, (long long)now.size,
                     (long long)old->size);
        rc = 0;
    } else if (now.mtime_ns != old->mtime_ns || now.inode != old->inode) {
        uint64_t hash = 0;
        rc = hash_file(old->path, fd, &hash, err);
        if (rc == 0) rc = hash == old->hash;
        if (rc == 0 && which) snprintf(which, size, "the content of %s", shown);
    }
    close(fd);
    return rc;
}

int fm_stamps_unchanged(const struct fm_file_stamp *files, int64_t count, char *which, size_t which_size,
                        struct fm_error *err)
{
    for (int64_t i = 0; i < count; i++) {
        int rc = stamp_unchanged(&files[i], which, which_size, err);
        if (rc != 1) return rc;
    }
    return 1;
}

/* ---- lists of files ---- */

static void free_file(struct fm_data_file *file)
{
    for (size_t i = 0; file->columns && i <= file->count; i++) fm_free(file->columns[i]);
    for (size_t i = 0; file->values && i <= file->count; i++) fm_free(file->values[i]);
    fm_free(file->columns);
    fm_free(file->values);
    fm_free(file->path);
}

void fm_file_list_fini(struct fm_file_list *list)
{
    for (size_t i = 0; i < list->count; i++) free_file(&list->files[i]);
    fm_free(list->files);
    fm_names_fini(&list->seen);
    *list = (struct fm_file_list){0};
}

/* Fills the text columns of a file; false when memory is out. */
static bool name_columns(struct fm_data_file *file, const struct fm_pattern *pattern,
                         const struct fm_span_text *value)
{
    file->count = pattern->names;
    file->columns = fm_calloc(pattern->names + 1, sizeof *file->columns);
    file->values = fm_calloc(pattern->names + 1, sizeof *file->values);
    if (!file->columns || !file->values) return false;
    for (size_t i = 0; i < pattern->names; i++) {
        file->columns[i] = fm_strndup(pattern->name[i].text, pattern->name[i].size);
        file->values[i] = fm_strndup(value[i].text, value[i].size);
        if (!file->columns[i] || !file->values[i]) return false;
    }
    file->columns[pattern->names] = fm_strdup("file");
    file->values[pattern->names] = fm_strdup(fm_file_base(file->path));
    return file->columns[pattern->names] && file->values[pattern->names];
}

static int add_file(struct fm_file_list *list, const char *path, const struct fm_pattern *pattern,
                    const struct fm_span_text *value, const struct fm_node *node, struct fm_error *err)
{
    uint32_t number;
    if (fm_names_find(&list->seen, path, strlen(path), &number))
        return fm_fail_at(err, FM_EFILE, node->file, node->line, node->column,
                          "path: %s is listed twice, so its rows would be read twice", path);
    if (fm_names_add(&list->seen, path, strlen(path), &number) != 0 ||
        fm_grow(&list->files, &list->capacity, list->count + 1, sizeof *list->files) != 0) {
        return fm_fail_memory(err);
    }
    struct fm_data_file file = {.path = fm_strdup(path)};
    if (!file.path || !name_columns(&file, pattern, value)) {
        free_file(&file);
        return fm_fail_memory(err);
    }
    list->files[list->count++] = file;
    return 0;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_matches(struct fm_file_list *list, const struct fm_pattern *pattern, const char *folder,
                       const struct fm_node *node, struct fm_error *err)
{
    char *text = fm_pattern_glob(pattern, folder);
    if (!text) return fm_fail_memory(err);
    glob_t found = {0};
    int rc = 0, status = glob(text, GLOB_NOSORT, NULL, &found);
    size_t skip = pattern->text[0] == '/' || strcmp(folder, ".") == 0 ? 0 : strlen(folder) + 1;
    size_t matches = 0;
    if (status == GLOB_NOSPACE) rc = fm_fail_memory(err);
    if (status == 0) qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_paths);
    for (size_t i = 0; status == 0 && rc == 0 && i < found.gl_pathc; i++) {
        struct fm_span_text value[FM_PATTERN_NAMES];
        if (!fm_pattern_match(pattern, found.gl_pathv[i] + skip, value)) continue;
        rc = add_file(list, found.gl_pathv[i], pattern, value, node, err);
        matches++;
    }
    if (rc == 0 && matches == 0) {
        rc = fm_fail_at(err, FM_EFILE, node->file, node->line, node->column,
                        "path: no file matches '%s' in %s", pattern->text, folder);
    }
    globfree(&found);
    fm_free(text);
    return rc;
}

static int add_pattern(struct fm_file_list *list, const struct fm_data_config *config,
                       const struct fm_node *node, struct fm_error *err)
{
    if (node->kind != FM_SCALAR || node->size == 0 || strlen(node->text) != node->size) {
        return fm_fail_at(err, FM_EFILE, node->file, node->line, node->column,
                          "path must be a file's name, a list of names, or a glob");
    }
    struct fm_pattern pattern;
    int rc = fm_pattern_init(&pattern, node->text, node, err);
    if (rc != 0) return rc;
    char *path = fm_file_path(config->folder, node->text);
    if (!path) return fm_fail_memory(err);
    struct stat st;
    /* A name with brackets in it may be just a name. */
    bool plain = !pattern.special || (pattern.names == 0 && stat(path, &st) == 0);
    rc = plain ? add_file(list, path, &pattern, NULL, node, err)
               : add_matches(list, &pattern, config->folder, node, err);
    fm_free(path);
    return rc;
}

/* All files must have the same text columns, or a column would be missing in some. */
static int check_columns(const struct fm_file_list *list, const struct fm_node *node, struct fm_error *err)
{
    const struct fm_data_file *first = &list->files[0];
    for (size_t i = 1; i < list->count; i++) {
        const struct fm_data_file *file = &list->files[i];
        bool same = file->count == first->count;
        for (size_t k = 0; same && k < file->count; k++)
            same = strcmp(file->columns[k], first->columns[k]) == 0;
        if (!same) {
            return fm_fail_at(
                err, FM_EFILE, node->file, node->line, node->column,
                "path: every pattern must have the same {names} in the same order; %s differs from %s",
                file->path, first->path);
        }
    }
    return 0;
}

int fm_file_list_init(struct fm_file_list *list, const struct fm_data_config *config, struct fm_error *err)
{
    const struct fm_node *path = config->path;
    int rc = 0;
    *list = (struct fm_file_list){0};
    if (!path) return fm_fail(err, FM_EFILE, "data: `path` is missing");
    if (path->kind == FM_LIST) {
        for (size_t i = 0; rc == 0 && i < path->count; i++)
            rc = add_pattern(list, config, path->items[i], err);
    } else {
        rc = add_pattern(list, config, path, err);
    }
    if (rc == 0 && list->count == 0) {
        rc = fm_fail_at(err, FM_EFILE, path->file, path->line, path->column, "path: the list is empty");
    }
    if (rc == 0) rc = check_columns(list, path, err);
    if (rc != 0) fm_file_list_fini(list);
    return rc;
}
