#include "engine/plugin_find.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"

#define PREFIX     "libfoldmill_cuda"
#define MOST_FILES 64

/* The version in a plug-in's name ("libfoldmill_cuda13.so" -> 13, "libfoldmill_cuda_emulated.so" -> 0), or
 * -1. */
static int version_of(const char *name)
{
    int version = 0, digits = 0;
    if (strncmp(name, PREFIX, strlen(PREFIX))) return -1;
    name += strlen(PREFIX);
    if (!strcmp(name, "_emulated.so")) return 0;
    for (; *name >= '0' && *name <= '9' && digits < 3; name++, digits++)
        version = version * 10 + (*name - '0');
    return digits && version && !strcmp(name, ".so") ? version : -1;
}

static int add_file(struct fm_plugin_files *files, const char *folder, size_t size, const char *name,
                    int version, struct fm_error *err)
{
    struct fm_text path = {0};
    for (size_t i = 0; i < files->count; i++)
        if (files->file[i].version == version) return 0;
    if (files->count >= MOST_FILES) return 0;
    if (fm_grow(&files->file, &files->capacity, files->count + 1, sizeof *files->file))
        return fm_fail_memory(err);
    fm_text_add_bytes(&path, folder, size);
    fm_text_add(&path, "/%s", name);
    if (path.failed) return fm_text_fini(&path), fm_fail_memory(err);
    files->file[files->count] =
        (struct fm_plugin_file){.path = path.data, .version = version, .order = files->count};
    files->count++;
    return 0;
}

/* A folder that is not there, or may not be read, holds no plug-in. */
static int look_in(struct fm_plugin_files *files, const char *folder, size_t size, struct fm_error *err)
{
    struct fm_text name = {0};
    int rc = 0;
    if (!size) return 0;
    fm_text_add_bytes(&name, folder, size);
    if (name.failed) return fm_text_fini(&name), fm_fail_memory(err);
    DIR *listing = opendir(name.data);
    const struct dirent *entry;
    while (!rc && listing && (entry = readdir(listing))) {
        const int version = version_of(entry->d_name);
        if (version >= 0) rc = add_file(files, folder, size, entry->d_name, version, err);
    }
    if (listing) closedir(listing);
    fm_text_fini(&name);
    return rc;
}

/* The folder of a file, and `below` it: 0 bytes when the path has no folder. */
static int look_beside(struct fm_plugin_files *files, const char *path, const char *below,
                       struct fm_error *err)
{
    const char *slash = strrchr(path, '/');
    struct fm_text folder = {0};
    if (!slash) return 0;
    int rc = look_in(files, path, (size_t)(slash - path), err);
    if (rc) return rc;
    fm_text_add_bytes(&folder, path, (size_t)(slash - path));
    fm_text_add_string(&folder, below);
    rc = folder.failed ? fm_fail_memory(err) : look_in(files, folder.data, folder.size, err);
    fm_text_fini(&folder);
    return rc;
}

static int look_in_list(struct fm_plugin_files *files, const char *list, struct fm_error *err)
{
    int rc = 0;
    while (!rc && *list) {
        const size_t size = strcspn(list, ":");
        rc = look_in(files, list, size, err);
        list += size + (list[size] == ':');
    }
    return rc;
}

static int compare(const void *a, const void *b)
{
    const struct fm_plugin_file *x = a, *y = b;
    if (x->version != y->version) return x->version < y->version ? 1 : -1;
    return x->order < y->order ? -1 : x->order > y->order;
}

int fm_plugins_find(struct fm_plugin_files *files, struct fm_error *err)
{
    *files = (struct fm_plugin_files){0};
    const char *list = secure_getenv("FOLDMILL_PLUGINS");
    int rc = 0;
    if (list && *list) {
        rc = look_in_list(files, list, err);
    } else {
        char program[4096];
        Dl_info library;
        const ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
        if (size > 0) {
            program[size] = '\0';
            rc = look_beside(files, program, "/../lib/foldmill", err);
        }
        /* This very function lies in libfoldmill.so, or in the program once more. */
        if (!rc && dladdr((const void *)(uintptr_t)fm_plugins_find, &library) && library.dli_fname)
            rc = look_beside(files, library.dli_fname, "/foldmill", err);
    }
    if (rc) return fm_plugins_forget(files), rc;
    if (files->count) qsort(files->file, files->count, sizeof *files->file, compare);
    return 0;
}

void fm_plugins_forget(struct fm_plugin_files *files)
{
    for (size_t i = 0; i < files->count; i++) fm_free(files->file[i].path);
    fm_free(files->file);
    *files = (struct fm_plugin_files){0};
}

bool fm_plugins_whole(const char *path)
{
    Elf64_Ehdr head;
    Elf64_Phdr part;
    struct stat st;
    bool whole = true;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return true;
    if (fstat(file, &st) == 0 && S_ISREG(st.st_mode) &&
        pread(file, &head, sizeof head, 0) == (ssize_t)sizeof head &&
        !memcmp(head.e_ident, ELFMAG, SELFMAG) && head.e_ident[EI_CLASS] == ELFCLASS64 &&
        head.e_phentsize == sizeof part && head.e_phoff <= (uint64_t)st.st_size) {
        const uint64_t size = (uint64_t)st.st_size;
        for (uint64_t i = 0; whole && i < head.e_phnum; i++) {
            whole = pread(file, &part, sizeof part, (off_t)(head.e_phoff + i * sizeof part)) ==
                    (ssize_t)sizeof part;
            whole = whole && part.p_offset <= size && part.p_filesz <= size - part.p_offset;
        }
    }
    close(file);
    return whole;
}

/* Whether the file begins with that word. */
static bool begins(const char *folder, const char *name, const char *what, const char *word)
{
    char path[512], text[16] = "";
    const int size = snprintf(path, sizeof path, "%s/%s/%s", folder, name, what);
    FILE *file = size > 0 && size < (int)sizeof path ? fopen(path, "re") : NULL;
    const bool same = file && fgets(text, sizeof text, file) != NULL && !strncmp(text, word, strlen(word));
    if (file) fclose(file);
    return same;
}

bool fm_plugins_card_seen(void)
{
    /* The driver's, and the one through which Windows lends its GPU to WSL. */
    static const char *const driver[] = {"/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"};
    static const char devices[] = "/sys/bus/pci/devices";
    for (size_t i = 0; i < sizeof driver / sizeof *driver; i++)
        if (access(driver[i], F_OK) == 0) return true;
    bool seen = false;
    DIR *listing = opendir(devices);
    const struct dirent *entry;
    while (!seen && listing && (entry = readdir(listing)))
        seen = begins(devices, entry->d_name, "vendor", "0x10de") &&
               begins(devices, entry->d_name, "class", "0x03"); /* a display controller */
    if (listing) closedir(listing);
    return seen;
}
