/* What the terminals can do, and writing to standard output so that no failure goes unseen. */
#ifndef FM_CLI_TERMINAL_H
#define FM_CLI_TERMINAL_H

#include "cli/options.h"

/* Colour: --color > NO_COLOR (not empty) > CLICOLOR_FORCE > a terminal whose TERM is not dumb. */
bool fm_terminal_color(enum fm_color_choice choice, int fd);
/* A terminal on which lines can be written over. */
bool fm_terminal_moves(int fd);
/* Columns and rows; COLUMNS or 80 x 24 where it is none. */
void fm_terminal_size(int fd, int *columns, int *rows);
/* Whether the locale's characters are UTF-8. */
bool fm_terminal_utf8(void);
/* How standard output looks. */
struct fm_look fm_terminal_look(const struct fm_arguments *arguments);

/* Opens /dev/null for descriptors 0 to 2 that were closed, so that no file of ours takes their place; writing
 * to a closed standard output still fails. Ignores SIGPIPE and SIGXFSZ: both come back as errors of the
 * write, which are reported. */
void fm_terminal_begin(void);

/* Writes to standard output at once; gives 0, or 1 after a message when it cannot. */
int fm_output_text(const char *text);
/* A writer onto standard output. */
struct fm_writer fm_output_writer(void);
/* Flushes; gives `exit_code`, or 1 when something could not be written, with a message unless the exit code 1
 * had one already. */
int fm_output_end(int exit_code);

/* "foldmill: ..." on standard error; gives the exit code. */
int fm_complain(const struct fm_error *err);

#endif
