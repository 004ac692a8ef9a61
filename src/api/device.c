#include "api/handle.h"

#include <string.h>

#include "base/machine.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/cpu/kernels.h"

#define MOST_CARDS  16 /* that --device can name, and digits of a number */
#define MOST_DIGITS 4

static const char *const known[] = {"cpu", "auto", "cuda", "reference"};

/* "0", "0,2": numbers without anything else, each once. */
static int check_select(const char *name, const char *select, struct fm_error *err)
{
    int64_t numbers[MOST_CARDS];
    int count = 0;
    char shown[48];
    fm_show(name, strlen(name), shown, sizeof shown);
    for (const char *at = select;; at++) {
        const size_t digits = strspn(at, "0123456789");
        if (!digits || digits > MOST_DIGITS || (at[digits] && at[digits] != ','))
            return fm_fail(err, FM_EUSAGE,
                           "--device %s: cuda takes numbers of cards, as in cuda:0 or cuda:0,1", shown);
        if (count == MOST_CARDS)
            return fm_fail(err, FM_EUSAGE, "--device %s: at most %d cards", shown, MOST_CARDS);
        fm_parse_integer(at, digits, &numbers[count]);
        for (int i = 0; i < count; i++)
            if (numbers[i] == numbers[count])
                return fm_fail(err, FM_EUSAGE, "--device %s names card %lld twice", shown,
                               (long long)numbers[count]);
        count++;
        at += digits;
        if (!*at) return 0;
    }
}

int fm_device_read(const char *name, struct fm_device_name *out, struct fm_error *err)
{
    const char *colon = strchr(name, ':');
    size_t size = colon ? (size_t)(colon - name) : strlen(name);
    char shown[48];
    *out = (struct fm_device_name){.select = colon ? colon + 1 : NULL};
    if (size < sizeof out->kind) memcpy(out->kind, name, size);
    bool is_known = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) is_known |= !strcmp(out->kind, known[i]);
    if (is_known && !out->select) return 0;
    if (is_known && !strcmp(out->kind, "cuda")) return check_select(name, out->select, err);
    fm_show(name, strlen(name), shown, sizeof shown);
    if (is_known)
        return fm_fail(err, FM_EUSAGE, "--device %s: only cuda has numbers; use --device %s", shown,
                       out->kind);
    const char *near = fm_nearest(out->kind, known, sizeof known / sizeof *known);
    if (near) return fm_fail(err, FM_EUSAGE, "there is no device '%s'; did you mean '%s'?", shown, near);
    return fm_fail(err, FM_EUSAGE, "there is no device '%s': choose cpu, cuda, reference or auto", shown);
}

int fm_kernels_read(const char *text, enum fm_kernels_choice *choice, struct fm_error *err)
{
    static const char *const names[] = {"auto", "own", "library"};
    char shown[48];
    *choice = FM_KERNELS_AUTO;
    if (!text) return 0;
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i])) continue;
        *choice = (enum fm_kernels_choice)i;
        return 0;
    }
    return fm_fail(err, FM_EUSAGE, "--kernels takes auto, own or library, not '%s'",
                   fm_show(text, strlen(text), shown, sizeof shown));
}

int fm_device_open(const char *name, const struct fm_device_options *options,
                   const struct fm_backend **backend, struct fm_device **device, char *note, size_t note_size,
                   struct fm_error *err)
{
    struct fm_device_options own = *options;
    struct fm_device_name read;
    *device = NULL;
    int rc = fm_device_read(name, &read, err);
    if (rc) return rc;
    own.select = read.select;
    rc = fm_backend_open(backend, device, read.kind, &own, note, note_size, err);
    if (rc) return rc;
    if (own.profile && !(*backend)->profile)
        rc = fm_fail(err, FM_EUSAGE, "--profile is for --device cuda: %s keeps no times of its own",
                     (*backend)->name);
    else if (own.kernels != FM_KERNELS_AUTO && !(*backend)->plan_choices)
        rc = fm_fail(err, FM_EUSAGE, "--kernels is for --device cuda: %s has nothing to choose from",
                     (*backend)->name);
    if (rc) {
        (*backend)->close(*device);
        *device = NULL;
    }
    return rc;
}

int fm_handle_device(struct foldmill *f, struct fm_error *err)
{
    if (f->lost)
        return fm_fail(err, FM_EDEVICE, "the device was lost: open the sweep anew, in a new process");
    if (f->device) return 0;
    struct fm_device_options options = {.lanes = f->lanes, .kernels = f->kernels, .profile = f->profile};
    char note[1024];
    int rc = fm_device_open(f->device_name, &options, &f->backend, &f->device, note, sizeof note, err);
    if (!rc && *note) fm_note(&f->notes, FM_NOTE, "%s", note);
    return rc;
}

int fm_handle_file(struct foldmill *f, struct fm_error *err)
{
    if (f->has_file) return 0;
    int rc = fm_prepare_file(&f->prepared, &f->sweep, err);
    f->has_file = !rc;
    return rc;
}

int fm_handle_plan(struct foldmill *f, struct fm_error *err)
{
    if (f->has_plan) return 0;
    struct fm_error own = {0};
    int rc = fm_handle_file(f, err);
    if (rc) return rc;
    rc = fm_prepare(&f->prepared, &f->sweep, f->device ? f->backend : NULL, f->device, &own);
    f->has_plan = !rc;
    if (rc == FM_EDEVICE) {
        f->lost = true;
        f->lost_by = f->prepared.lost_by;
        fm_fail(err, rc, "the device was lost%s %s", f->lost_by.batch > 0 ? "" : ":", own.text);
    } else if (rc && err && !err->code) {
        *err = own;
    }
    /* A plan that failed half way is of no use. */
    if (rc) fm_handle_forget(f);
    return rc;
}

/* What FOLDMILL_ISA may be on this processor: each with the class of its numbers. */
static void add_choices(struct fm_text *text)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    fm_text_add_string(text, "           FOLDMILL_ISA can be ");
    for (int i = 0; i < count; i++)
        fm_text_add(text, "%s%s (numbers %s)",
                    i == 0          ? ""
                    : i + 1 < count ? ", "
                                    : " or ",
                    kernels[i]->name, kernels[i]->numbers);
    fm_text_add_string(text, "\n");
}

static void add_device(struct fm_text *text, const char *name)
{
    const struct fm_backend *backend;
    struct fm_device *device = NULL;
    const struct fm_device_options options = {0};
    struct fm_error own = {0};
    const long long cores = fm_usable_cores();
    if (fm_backend_find(&backend, name, &own) == 0 && backend->open(&device, &options, &own) == 0) {
        const char *line = backend->describe(device);
        /* The line begins with the kind of device, which stands here already. */
        if (!strncmp(line, "cpu: ", 5)) line += 5;
        fm_text_add(text, "%-9s  %s; numbers %s; %lld lane%s on %lld usable core%s\n", name, line,
                    backend->numbers(device), (long long)backend->lanes(device),
                    backend->lanes(device) == 1 ? "" : "s", cores, cores == 1 ? "" : "s");
        backend->close(device);
    } else {
        fm_text_add(text, "%-9s  cannot be used: %s\n", name, own.text);
    }
}

int fm_device_list(char **out, struct fm_error *err)
{
    struct fm_text text = {0};
    *out = NULL;
    add_device(&text, "cpu");
    add_choices(&text);
    add_device(&text, "reference");
    int rc = fm_plugins_list(&text, err);
    if (rc) return fm_text_fini(&text), rc;
    return fm_text_give(&text, out, err);
}
