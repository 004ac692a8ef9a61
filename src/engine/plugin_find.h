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

/* False when the file ends before its segments do, because it was not copied or written to its end: dlopen
 * would map what is not there, and die of SIGBUS. Whatever else is wrong with a file dlopen tells itself. */
bool fm_plugins_whole(const char *path);

/* Whether a driver or a card of NVIDIA's seems to be there: who has one expects it to be used. */
bool fm_plugins_card_seen(void);

#endif
