/* Ctrl-C once stops the sweep at the next safe point, twice ends the program at once; SIGTERM and SIGHUP
 * count as one Ctrl-C whose exit code is 75. A handler needs a place that outlives every call: the only
 * static state of the program is in signals.c. */
#ifndef FM_CLI_SIGNALS_H
#define FM_CLI_SIGNALS_H

struct foldmill;

/* From now on signals stop `sweep`, until fm_signals_end; after that one ends the program at once. */
void fm_signals_begin(struct foldmill *sweep);
void fm_signals_end(void);
/* The first signal that came, or 0. */
int fm_signals_caught(void);
/* 130 after SIGINT, else 75. */
int fm_signals_exit_code(void);

/* From now on fm_signals_resized tells, once each time, that the terminal's window changed its size. */
void fm_signals_watch_size(void);
int fm_signals_resized(void);

#endif
