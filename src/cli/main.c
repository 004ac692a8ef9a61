/* foldmill: only finds the sub-command. */
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/terminal.h"

const struct fm_command *const fm_commands[] = {&fm_command_run,   &fm_command_plan,   &fm_command_show,
                                                &fm_command_split, &fm_command_export, &fm_command_devices,
                                                &fm_command_bench, &fm_command_help,   NULL};
const char *const fm_commands_later[] = {"report", "predict", "test", NULL};

const struct fm_command *fm_command_find(const char *name)
{
    for (const struct fm_command *const *c = fm_commands; *c; c++)
        if (!strcmp((*c)->name, name)) return *c;
    return NULL;
}

static bool is_sweep_file(const char *word)
{
    struct stat st;
    const char *dot = strrchr(word, '.');
    return (dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml"))) ||
           (stat(word, &st) == 0 && S_ISREG(st.st_mode));
}

/* A first word that is no sub-command. */
static int refuse(const char *word, struct fm_error *err)
{
    const char *names[16];
    size_t count = 0;
    char shown[80];
    fm_show(word, strlen(word), shown, sizeof shown);
    for (const char *const *later = fm_commands_later; *later; later++)
        if (!strcmp(*later, word)) return fm_fail(err, FM_ELATER, "foldmill %s is not available yet", word);
    if (is_sweep_file(word))
        return fm_fail(err, FM_EUSAGE,
                       "what shall be done with %s? `foldmill run %s` runs it, `foldmill plan %s` shows "
                       "what would run",
                       shown, shown, shown);
    for (const struct fm_command *const *c = fm_commands; *c; c++) names[count++] = (*c)->name;
    const char *near = fm_nearest(word, names, count);
    if (near) return fm_fail(err, FM_EUSAGE, "there is no sub-command '%s'; did you mean '%s'?", shown, near);
    return fm_fail(err, FM_EUSAGE, "there is no sub-command '%s': foldmill --help lists them", shown);
}

static int run_command(const struct fm_command *command, int argc, char **argv)
{
    struct fm_error err = {0};
    struct fm_arguments arguments;
    if (fm_options_read(command, argc, argv, &arguments, &err)) return fm_complain(&err);
    int code = 0;
    if (arguments.help)
        fm_options_help(command, stdout);
    else
        code = command->run(&arguments);
    fm_arguments_fini(&arguments);
    return fm_output_end(code);
}

int main(int argc, char **argv)
{
    fm_terminal_begin();
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        fm_help_overview(stderr);
        return 2;
    }
    if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
        fm_help_overview(stdout);
        return fm_output_end(0);
    }
    if (!strcmp(word, "--version")) {
        printf("foldmill %s\n", fm_version());
        return fm_output_end(0);
    }
    const struct fm_command *command = fm_command_find(word);
    if (command) return run_command(command, argc - 1, argv + 1);
    struct fm_error err = {0};
    refuse(word, &err);
    return fm_complain(&err);
}
