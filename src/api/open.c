#include "api/handle.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/text.h"

#ifndef FM_VERSION
#define FM_VERSION "unknown"
#endif

const char *fm_version(void)
{
    return FM_VERSION;
}

void fm_text_release(char *text)
{
    fm_free(text);
}

int fm_text_give(struct fm_text *text, char **out, struct fm_error *err)
{
    if (text->failed || !text->data) {
        fm_text_fini(text);
        return fm_fail_memory(err);
    }
    *out = text->data;
    return 0;
}

/* "<folder>/<stem>.db"; a stem is the name without its last suffix. */
static char *beside(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    size_t stem = dot && dot != name ? (size_t)(dot - path) : strlen(path);
    struct fm_text text = {0};
    fm_text_add_bytes(&text, path, stem);
    fm_text_add_string(&text, ".db");
    if (text.failed) fm_text_fini(&text);
    return text.data;
}

/* `show results.db` means the journal itself. Only files are looked at: opening a FIFO would wait for ever.
 */
static bool is_journal(const char *path)
{
    char magic[16] = "";
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    ssize_t n = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? read(fd, magic, sizeof magic) : 0;
    close(fd);
    return n == (ssize_t)sizeof magic && !memcmp(magic, "SQLite format 3", sizeof magic);
}

static int handle_new(struct foldmill **out, const char *path, const char *journal, struct fm_error *err)
{
    *out = NULL;
    if (!path || !*path) return fm_fail(err, FM_EUSAGE, "no sweep file was given");
    struct foldmill *f = fm_calloc(1, sizeof *f);
    if (!f) return fm_fail_memory(err);
    atomic_init(&f->stop, 0);
    f->path = fm_strdup(path);
    f->journal = journal ? fm_strdup(journal) : beside(path);
    if (!f->path || !f->journal) {
        fm_close(f);
        return fm_fail_memory(err);
    }
    *out = f;
    return 0;
}

int fm_open(struct foldmill **out, const char *path, const struct fm_options *options, struct fm_error *err)
{
    static const struct fm_options defaults;
    const struct fm_options *o = options ? options : &defaults;
    struct fm_device_name device;
    struct foldmill *f = NULL;
    int rc = handle_new(&f, path, o->journal, err);
    *out = NULL;
    if (rc) return rc;
    f->lanes = o->lanes;
    f->fresh = o->fresh;
    f->explain = o->explain;
    f->accept_other = o->accept_other_device;
    f->profile = o->profile;
    f->device_name = fm_strdup(o->device ? o->device : "auto");
    if (!f->device_name)
        rc = fm_fail_memory(err);
    else
        rc = fm_device_read(f->device_name, &device, err);
    if (!rc) rc = fm_kernels_read(o->kernels, &f->kernels, err);
    if (!rc && o->lanes < 0)
        rc = fm_fail(err, FM_EUSAGE, "lanes must be at least 1, or 0 for the usable cores");
    if (!rc && is_journal(path))
        rc = fm_fail(err, FM_EUSAGE, "%s is a journal: give the sweep file, and the journal with --journal",
                     path);
    if (!rc) rc = fm_sweep_read(&f->sweep, path, o->settings, o->setting_count, &f->notes, err);
    f->has_sweep = !rc;
    if (rc) {
        fm_close(f);
        return rc;
    }
    *out = f;
    return 0;
}

int fm_open_results(struct foldmill **out, const char *path, const char *journal, struct fm_error *err)
{
    *out = NULL;
    if (path && !journal && is_journal(path)) journal = path;
    return handle_new(out, path, journal, err);
}

void fm_handle_forget(struct foldmill *f)
{
    if (f->has_file) fm_prepared_fini(&f->prepared);
    f->has_file = f->has_plan = false;
}

void fm_close(struct foldmill *f)
{
    if (!f) return;
    fm_handle_forget(f);
    if (f->device) f->backend->close(f->device);
    if (f->has_sweep) fm_sweep_fini(&f->sweep);
    fm_notes_fini(&f->notes);
    fm_free(f->device_name);
    fm_free(f->journal);
    fm_free(f->path);
    fm_free(f);
}

void fm_stop(struct foldmill *f)
{
    atomic_store(&f->stop, 1);
}

const char *fm_journal_file(const struct foldmill *f)
{
    return f->journal;
}

size_t fm_note_count(const struct foldmill *f)
{
    return f->notes.count + (f->has_file ? f->prepared.notes.count : 0);
}

const char *fm_note_text(const struct foldmill *f, size_t i, bool *warning)
{
    const struct fm_notes *notes = &f->notes;
    if (i >= notes->count) {
        i -= notes->count;
        notes = &f->prepared.notes;
    }
    if ((notes == &f->prepared.notes && !f->has_file) || i >= notes->count) return NULL;
    if (warning) *warning = notes->level[i] == FM_WARNING;
    return notes->text[i];
}

int fm_handle_needs_sweep(const struct foldmill *f, struct fm_error *err)
{
    if (f->has_sweep) return 0;
    return fm_fail(err, FM_EUSAGE, "this needs the sweep file, and only its results were opened");
}
