#include "api/handle.h"

#include <string.h>

#include "base/machine.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/cpu/kernels.h"

static const char *const known[] = {"cpu", "auto", "cuda", "reference"};

int fm_device_choose(const char *name, const struct fm_backend **backend, const char **select,
                     struct fm_error *err)
{
    const char *colon = strchr(name, ':');
    size_t size = colon ? (size_t)(colon - name) : strlen(name);
    char kind[16] = "";
    *backend = NULL;
    *select = colon ? colon + 1 : NULL;
    if (size < sizeof kind) memcpy(kind, name, size);
    struct fm_error own = {0};
    int rc = fm_backend_find(backend, kind, &own);
    if (!rc && *select)
        return fm_fail(err, FM_EUSAGE, "--device %s: only cuda has numbers; use --device %s", name, kind);
    if (rc != FM_EUSAGE) {
        if (rc && err && !err->code) *err = own;
        return rc;
    }
    const char *near = fm_nearest(kind, known, sizeof known / sizeof *known);
    char shown[48];
    fm_show(name, strlen(name), shown, sizeof shown);
    if (near) return fm_fail(err, FM_EUSAGE, "there is no device '%s'; did you mean '%s'?", shown, near);
    return fm_fail(err, FM_EUSAGE, "there is no device '%s': choose cpu, reference or auto", shown);
}

int fm_handle_device(struct foldmill *f, struct fm_error *err)
{
    if (f->device) return 0;
    struct fm_device_options options = {.lanes = f->lanes};
    int rc = fm_device_choose(f->device_name, &f->backend, &options.select, err);
    return rc ? rc : f->backend->open(&f->device, &options, err);
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
    int rc = fm_handle_file(f, err);
    if (!rc) rc = fm_prepare(&f->prepared, &f->sweep, f->device ? f->backend : NULL, f->device, err);
    f->has_plan = !rc;
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
    fm_text_add_string(&text, "cuda       not available yet\n");
    return fm_text_give(&text, out, err);
}
