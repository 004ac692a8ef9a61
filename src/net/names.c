#include "net/names.h"

#include "base/memory.h"
#include "base/text.h"

char *fm_variable_name(const struct fm_layer_info *layer, const char *variable)
{
    struct fm_text text = {0};
    if (layer->ordinal == 0)
        fm_text_add(&text, "%s/%s", layer->type, variable);
    else
        fm_text_add(&text, "%s_%d/%s", layer->type, layer->ordinal, variable);
    char *name = text.failed ? NULL : fm_strdup(text.data);
    fm_text_fini(&text);
    return name;
}
