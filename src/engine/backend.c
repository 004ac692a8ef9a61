#include "engine/backend.h"

#include <string.h>

#include "engine/cpu/cpu.h"
#include "engine/reference/reference.h"

int fm_backend_find(const struct fm_backend **backend, const char *name, struct fm_error *err)
{
    *backend = NULL;
    if (!strcmp(name, "cpu") || !strcmp(name, "auto")) {
        *backend = &fm_backend_cpu;
        return 0;
    }
    if (!strcmp(name, "reference")) {
        *backend = &fm_backend_reference;
        return 0;
    }
    if (!strcmp(name, "cuda")) return fm_fail(err, FM_EUSAGE, "cuda is not built in: it is a plug-in");
    return fm_fail(err, FM_EUSAGE, "there is no device '%s': choose cpu, cuda, reference or auto", name);
}
