/* foldmill devices: where runs can be computed. */
#include "cli/commands.h"
#include "cli/terminal.h"

static const struct fm_option options[] = {FM_COMMON_OPTIONS};

static int run(const struct fm_arguments *a)
{
    (void)a;
    struct fm_error err = {0};
    char *text = NULL;
    if (fm_device_list(&text, &err)) return fm_complain(&err);
    int code = fm_output_text(text);
    fm_text_release(text);
    return code;
}

const struct fm_command fm_command_devices = {
    .name = "devices",
    .arguments = "",
    .summary = "list the devices that --device can name",
    .details = NULL,
    .options = options,
    .run = run,
};
