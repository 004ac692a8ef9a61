#include "engine/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "engine/plugin_find.h"

#ifndef FM_VERSION
#define FM_VERSION "unknown"
#endif

/* A build tree's plug-ins lie beside the program that they belong to, so one build brings both up to date. */
static bool refuse(const char *path, char *why, size_t why_size)
{
    snprintf(why, why_size,
             "%s was built from other sources than this program: rebuild with make (and make install)", path);
    return false;
}

/* It is never closed again: what CUDA's libraries started, threads and handlers, could not be stopped. */
static bool load(const char *path, const struct fm_plugin **plugin, char *why, size_t why_size)
{
    const struct fm_plugin *(*get)(void) = NULL;
    if (!fm_plugins_whole(path)) {
        snprintf(why, why_size, "%s cannot be opened (its end is missing): rebuild with make", path);
        return false;
    }
    dlerror();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "fm_plugin") : NULL;
    if (!symbol) {
        const char *reason = dlerror();
        snprintf(why, why_size, "%s cannot be opened (%s): rebuild with make", path,
                 reason ? reason : "it has no fm_plugin");
        return false;
    }
    memcpy(&get, &symbol, sizeof get);
    *plugin = get();
    /* What lies behind `abi` may be read only when that is right. */
    if (!*plugin || (*plugin)->abi != FM_PLUGIN_ABI || (*plugin)->layout != FM_PLUGIN_LAYOUT ||
        strcmp((*plugin)->version, FM_VERSION))
        return refuse(path, why, why_size);
    return true;
}

/* What several plug-ins say alike is told once. */
static void add_reason(struct fm_text *reasons, const char *who, const char *why)
{
    if (reasons->size && strstr(reasons->data, why)) return;
    fm_text_add(reasons, "%s%s%s%s", reasons->size ? "; " : "", who, *who ? ": " : "", why);
}

/* The first plug-in that has a usable card; NULL when there is none, with the reasons. `automatic`: not the
 * emulator, which nobody wants who did not ask for it. */
static const struct fm_plugin *find(const struct fm_plugin_files *files, const char *select, bool automatic,
                                    struct fm_text *reasons)
{
    const struct fm_plugin *plugin;
    char why[700];
    for (size_t i = 0; i < files->count; i++) {
        if (automatic && !files->file[i].version) continue;
        if (!load(files->file[i].path, &plugin, why, sizeof why)) {
            add_reason(reasons, "", why);
            continue;
        }
        if (!plugin->usable(select, why, sizeof why)) return plugin;
        add_reason(reasons, plugin->name, why);
    }
    return NULL;
}

static int open_cuda(const struct fm_backend **backend, struct fm_device **device,
                     const struct fm_device_options *options, struct fm_error *err)
{
    struct fm_plugin_files files;
    struct fm_text reasons = {0};
    int rc = fm_plugins_find(&files, err);
    if (rc) return rc;
    const struct fm_plugin *plugin = find(&files, options->select, false, &reasons);
    if (reasons.failed)
        rc = fm_fail_memory(err);
    else if (!files.count)
        rc = fm_fail(err, FM_EUSAGE,
                     "--device cuda needs the CUDA plug-in, and there is none: install a CUDA toolkit and "
                     "run make, or try it without a GPU with make emulated");
    else if (!plugin)
        rc = fm_fail(err, FM_EUSAGE, "--device cuda cannot be used: %s", reasons.data);
    if (!rc) {
        *backend = plugin->backend;
        rc = plugin->backend->open(device, options, err);
    }
    fm_text_fini(&reasons);
    fm_plugins_forget(&files);
    return rc;
}

/* 1 when a GPU is open; 0 when there is none for us, and `note` says why if a person would wonder. */
static int try_cuda(const struct fm_backend **backend, struct fm_device **device,
                    const struct fm_device_options *options, char *note, size_t note_size,
                    struct fm_error *err)
{
    struct fm_plugin_files files;
    struct fm_text reasons = {0};
    struct fm_error own = {0};
    int rc = fm_plugins_find(&files, err);
    if (rc) return rc;
    const struct fm_plugin *plugin = find(&files, NULL, true, &reasons);
    bool opened = plugin && plugin->backend->open(device, options, &own) == 0;
    if (opened)
        *backend = plugin->backend;
    else if (plugin)
        add_reason(&reasons, plugin->name, own.text);
    if (!opened && reasons.size && note && fm_plugins_card_seen())
        snprintf(note, note_size, "no GPU is used, cpu computes: %s", reasons.failed ? "" : reasons.data);
    fm_text_fini(&reasons);
    fm_plugins_forget(&files);
    return opened;
}

int fm_backend_open(const struct fm_backend **backend, struct fm_device **device, const char *name,
                    const struct fm_device_options *options, char *note, size_t note_size,
                    struct fm_error *err)
{
    static const struct fm_device_options defaults;
    if (!options) options = &defaults;
    if (note && note_size) *note = '\0';
    *backend = NULL;
    *device = NULL;
    if (!strcmp(name, "cuda")) return open_cuda(backend, device, options, err);
    if (!strcmp(name, "auto")) {
        int rc = try_cuda(backend, device, options, note_size ? note : NULL, note_size, err);
        if (rc) return rc < 0 ? rc : 0;
    }
    int rc = fm_backend_find(backend, name, err);
    return rc ? rc : (*backend)->open(device, options, err);
}

int fm_plugins_list(struct fm_text *text, struct fm_error *err)
{
    struct fm_plugin_files files;
    const struct fm_plugin *plugin, *taken = NULL;
    char why[700];
    int rc = fm_plugins_find(&files, err);
    if (!rc && !files.count)
        fm_text_add_string(text, "cuda       no plug-in: install a CUDA toolkit and run make, or try it "
                                 "without a GPU with make emulated\n");
    for (size_t i = 0; !rc && i < files.count; i++) {
        if (!load(files.file[i].path, &plugin, why, sizeof why)) {
            fm_text_add(text, "cuda       %s\n", why);
            continue;
        }
        fm_text_add(text, "cuda       %s, %s", plugin->name, files.file[i].path);
        if (taken) fm_text_add(text, " (not taken: %s comes first)", taken->name);
        fm_text_add_string(text, "\n");
        /* As find() does, or else the libraries of a plug-in that nobody uses would be told. */
        const bool takes = !taken && !plugin->usable(NULL, why, sizeof why);
        if (takes) taken = plugin;
        rc = plugin->list(text, takes, err);
    }
    fm_plugins_forget(&files);
    return rc;
}
