/* Where plug-ins lie: their files in the order in which they are tried. */
#ifndef FM_ENGINE_PLUGIN_FIND_H
#define FM_ENGINE_PLUGIN_FIND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct fm_plugin_file {
    char *path;
    int version; /* CUDA's major version; 0 = the emulator's */
    size_t order;
};
struct fm_plugin_files {
    struct fm_plugin_file
        *file; /* newest version first, the emulator last; of one version the first folder's */
    size_t count, capacity;
};

int fm_plugins_find(struct fm_plugin_files *files, struct fm_error *err);
void fm_plugins_forget(struct fm_plugin_files *files);

/* Whether a driver or a card of NVIDIA's seems to be there: who has one expects it to be used. */
bool fm_plugins_card_seen(void);

#endif
