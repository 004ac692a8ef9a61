/* Sweep files on the disk: only regular files of at most 1 MiB are read. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "config/node.h"
#include "config/tree.h"

int fm_document_fail_root(const struct fm_document *doc, struct fm_error *err)
{
    bool empty = fm_node_type(doc->root) == FM_NULL;
    return fm_node_fail(doc->root, FM_EFILE, err, "%s",
                        empty ? "the file is empty; a sweep file starts with keys such as data:, cv:, model:"
                              : "a sweep file is a mapping of keys (data:, cv:, model:, ...)");
}

static int read_all(int file, const char *path, char **bytes, size_t *size, struct fm_error *err)
{
    char *buffer = fm_malloc(FM_MAX_BYTES + 1, 1);
    size_t filled = 0;
    if (!buffer) return fm_fail_memory(err);
    while (filled <= FM_MAX_BYTES) {
        ssize_t n = read(file, buffer + filled, FM_MAX_BYTES + 1 - filled);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            fm_free(buffer);
            return fm_fail_errno(err, "read", path);
        }
        if (n == 0) break;
        filled += (size_t)n;
    }
    *bytes = buffer;
    *size = filled;
    return 0;
}

static int open_file(const char *path, int *file, struct fm_error *err)
{
    struct stat info;
    /* Without O_NONBLOCK the open itself would wait for a FIFO's writer. */
    *file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (*file < 0) {
        return fm_fail_at(err, FM_EFILE, path, 0, 0, "the sweep file cannot be opened: %s", strerror(errno));
    }
    const char *kind = NULL;
    if (fstat(*file, &info))
        kind = "something unreadable";
    else if (S_ISDIR(info.st_mode))
        kind = "a directory";
    else if (S_ISFIFO(info.st_mode))
        kind = "a FIFO";
    else if (!S_ISREG(info.st_mode))
        kind = "a device or socket";
    if (!kind) return 0;
    close(*file);
    return fm_fail_at(err, FM_EFILE, path, 0, 0, "expected a sweep file, but this is %s", kind);
}

int fm_document_read(struct fm_document *doc, const char *path, struct fm_notes *notes, struct fm_error *err)
{
    int file;
    char *bytes = NULL;
    size_t size = 0;
    memset(doc, 0, sizeof *doc);
    int code = open_file(path, &file, err);
    if (code) return code;
    code = read_all(file, path, &bytes, &size, err);
    close(file);
    if (!code) code = fm_document_parse(doc, path, bytes, size, notes, err);
    fm_free(bytes);
    if (code || doc->root->kind == FM_MAP) return code;
    code = fm_document_fail_root(doc, err);
    fm_document_fini(doc);
    return code;
}
