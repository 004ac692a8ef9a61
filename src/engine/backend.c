#include "engine/backend.h"

#include <string.h>

#include "engine/reference/reference.h"

const struct fm_backend *fm_backend_find(const char *name)
{
    if (!strcmp(name, "cpu") || !strcmp(name, "auto")) return &fm_backend_reference;
    return NULL;
}
