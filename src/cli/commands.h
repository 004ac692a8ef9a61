/* The sub-commands, one file each. */
#ifndef FM_CLI_COMMANDS_H
#define FM_CLI_COMMANDS_H

#include "cli/options.h"

extern const struct fm_command fm_command_run, fm_command_plan, fm_command_show, fm_command_split,
    fm_command_export, fm_command_devices, fm_command_bench, fm_command_help;

/* All of them in the order of help, ended by NULL. */
extern const struct fm_command *const fm_commands[];
const struct fm_command *fm_command_find(const char *name);
/* Names of sub-commands that are announced but not there yet, ended by NULL. */
extern const char *const fm_commands_later[];

/* The page that `foldmill --help` prints. */
void fm_help_overview(FILE *out);

/* Opens the sweep file of a command: words[0] and the options that were given. */
int fm_command_open(const struct fm_arguments *arguments, struct foldmill **sweep, struct fm_error *err);
/* Notes that nobody else prints, on standard error. */
void fm_command_notes(const struct foldmill *sweep, const struct fm_arguments *arguments);

#endif
