/* Plug-ins: backends in shared objects that are opened when they are asked for, so that Foldmill runs where
 * they cannot.
 *
 * There is one for each CUDA major version, libfoldmill_cuda13.so, 12, 11, 10, and for those who have no GPU
 * an emulated one, libfoldmill_cuda_emulated.so (`make emulated`). They are looked for in the folders of
 * FOLDMILL_PLUGINS (a list with colons) if it is set, else beside the program, in ../lib/foldmill from there,
 * beside libfoldmill.so, and in foldmill/ below that; newest version first, of one version the first
 * folder's, the emulated one last. The first one that has a usable card serves. A plug-in is never closed
 * again.
 *
 * A plug-in exports one function, fm_plugin, and links what it needs of Foldmill statically; its table must
 * have been built from the same headers, which `abi` and `layout` tell. */
#ifndef FM_ENGINE_PLUGIN_H
#define FM_ENGINE_PLUGIN_H

#include "engine/backend.h"

#define FM_PLUGIN_ABI 2
/* Sizes of what crosses the border; changes with nearly every change of the headers. */
#define FM_PLUGIN_LAYOUT                                                                                     \
    (sizeof(struct fm_backend) + 64 * sizeof(struct fm_program) + 4096 * sizeof(struct fm_op) +              \
     65536 * sizeof(struct fm_resident) + 131072 * sizeof(struct fm_lane_options) +                          \
     262144 * sizeof(struct fm_report) + 524288 * sizeof(struct fm_dataset) +                                \
     1048576 * sizeof(struct fm_device_options))

struct fm_plugin {
    unsigned abi;
    size_t layout;
    const char *version; /* FM_VERSION */
    const char *name;    /* "CUDA 13", "CUDA emulator" */
    const struct fm_backend *backend;
    /* 0 when a card can be used (of those that `select` names: "0", "0,1"; NULL: any), else 1 and a sentence
     * that says why not and what to do. Makes the first CUDA call of the process. */
    int (*usable)(const char *select, char *why, size_t why_size);
    /* Appends a line for every card, usable or not: number, name, memory, architecture; with `libraries` also
     * the versions of cuDNN and cuBLAS and, for each card, why it cannot have them. To tell these they are
     * opened, and two CUDA versions' cuDNN have the same names, so that a process may open them in one
     * plug-in only: the one that it uses. */
    int (*list)(struct fm_text *text, bool libraries, struct fm_error *err);
};

/* The symbol is "fm_plugin". */
const struct fm_plugin *fm_plugin(void);

/* A backend by name with an open device. `auto`: a GPU that can be used (never the emulated one), else the
 * CPU; `cuda` with `select` ("0,1"). What was tried is told in err when nothing could be opened (FM_EUSAGE
 * where no card can be used), in `note` (may be NULL; "" = nothing) when `auto` fell back although a plug-in
 * is there and a card or its driver seems to be. */
int fm_backend_open(const struct fm_backend **backend, struct fm_device **device, const char *name,
                    const struct fm_device_options *options, char *note, size_t note_size,
                    struct fm_error *err);
/* The lines of all plug-ins for `foldmill devices`, with the libraries of the one that --device cuda would
 * take; says so where there is none and what to do. */
int fm_plugins_list(struct fm_text *text, struct fm_error *err);

#endif
