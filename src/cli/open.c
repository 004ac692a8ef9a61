#include <string.h>

#include "base/text.h"
#include "cli/commands.h"

int fm_command_open(const struct fm_arguments *a, struct foldmill **sweep, struct fm_error *err)
{
    struct fm_options options = {.journal = a->journal,
                                 .settings = a->settings,
                                 .setting_count = a->nsettings,
                                 .device = a->device,
                                 .kernels = a->kernels,
                                 .lanes = a->lanes,
                                 .fresh = a->fresh,
                                 .accept_other_device = a->accept_other,
                                 .profile = a->profile,
                                 .explain = a->explain};
    return fm_open(sweep, a->words[0], &options, err);
}

void fm_command_notes(const struct foldmill *sweep, const struct fm_arguments *a)
{
    bool warning;
    char shown[4096];
    for (size_t i = 0; !a->quiet && i < fm_note_count(sweep); i++) {
        const char *text = fm_note_text(sweep, i, &warning);
        fprintf(stderr, "%s: %s\n", warning ? "warning" : "note",
                fm_show(text, strlen(text), shown, sizeof shown));
    }
}
