/* Opens plug-ins as Foldmill does and says what each one says of this machine: for tests/slow/cuda_build.sh,
 * on a machine without a card or driver. usable PLUG-IN... A line each: "<name>: usable" or "<name>: <why
 * not>". Fails when one cannot be opened, is of another build, or has nothing to say. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "engine/plugin.h"

static bool look(const char *path)
{
    const struct fm_plugin *(*get)(void) = NULL;
    char why[512] = "";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "fm_plugin") : NULL;
    if (!symbol) {
        const char *reason = dlerror();
        printf("%s cannot be opened: %s\n", path, reason ? reason : "it has no fm_plugin");
        return false;
    }
    memcpy(&get, &symbol, sizeof get);
    const struct fm_plugin *plugin = get();
    if (plugin->abi != FM_PLUGIN_ABI || plugin->layout != FM_PLUGIN_LAYOUT) {
        printf("%s is of another build\n", path);
        return false;
    }
    const bool usable = plugin->usable(NULL, why, sizeof why) == 0;
    printf("%s: %s\n", plugin->name, usable ? "usable" : why);
    return usable || (*why && !strchr(why, '\n'));
}

int main(int count, char **arguments)
{
    bool good = count > 1;
    for (int i = 1; i < count; i++) good = look(arguments[i]) && good;
    return good ? 0 : 1;
}
