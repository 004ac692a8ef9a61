/* foldmill help: the overview, a sub-command, or the keys of the sweep file. */
#include <string.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/terminal.h"

static const struct fm_option options[] = {FM_COMMON_OPTIONS};

void fm_help_overview(FILE *out)
{
    fprintf(out, "foldmill - cross-validate small 1-D convolutional networks, many at a time\n\n"
                 "Usage: foldmill COMMAND [FILE] [OPTIONS]\n\nCommands:\n");
    for (const struct fm_command *const *c = fm_commands; *c; c++)
        fprintf(out, "  %-9s %s\n", (*c)->name, (*c)->summary);
    fprintf(out, "\nNot available yet:");
    for (const char *const *later = fm_commands_later; *later; later++) fprintf(out, " %s", *later);
    fprintf(out, "\n\nfoldmill COMMAND --help   the options of a command\n"
                 "foldmill help keys        every key of the sweep file with its default\n"
                 "foldmill help keys adam   the keys of one section, layer, loss or optimizer\n"
                 "foldmill --version        the version\n");
}

static int print_keys(const char *section)
{
    struct fm_error err = {0};
    char *text = NULL;
    if (fm_help_keys(section, &text, &err)) return fm_complain(&err);
    int code = fm_output_text(text);
    fm_text_release(text);
    return code;
}

/* Most people who ask for help on "adam" or "conv1d" mean the keys. */
static int print_topic(const char *topic)
{
    const struct fm_command *command = fm_command_find(topic);
    if (command) {
        fm_options_help(command, stdout);
        return 0;
    }
    struct fm_error err = {0};
    char *text = NULL;
    char shown[64];
    if (!fm_help_keys(topic, &text, &err)) {
        int code = fm_output_text(text);
        fm_text_release(text);
        return code;
    }
    const char *names[16] = {"keys"};
    size_t count = 1;
    for (const struct fm_command *const *c = fm_commands; *c; c++) names[count++] = (*c)->name;
    const char *near = fm_nearest(topic, names, count);
    if (near) {
        fm_error_clear(&err);
        fm_show(topic, strlen(topic), shown, sizeof shown);
        fm_fail(&err, FM_EUSAGE, "there is no help on '%s'; did you mean '%s'?", shown, near);
    }
    return fm_complain(&err);
}

static int run(const struct fm_arguments *a)
{
    if (a->nwords == 0) {
        fm_help_overview(stdout);
        return 0;
    }
    if (!strcmp(a->words[0], "keys")) return print_keys(a->nwords > 1 ? a->words[1] : NULL);
    return print_topic(a->words[0]);
}

const struct fm_command fm_command_help = {
    .name = "help",
    .arguments = "[COMMAND | keys [SECTION]]",
    .summary = "explain a command, or the keys of the sweep file",
    .details = NULL,
    .options = options,
    .max_words = 2,
    .run = run,
};
