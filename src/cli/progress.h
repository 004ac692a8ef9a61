/* The progress display of `run`, on standard error only. On a terminal one line per lane and a total, written
 * over at most ten times a second; elsewhere a plain line every few seconds. Messages stand above the lines.
 * Survives windows that are narrow, low or change their size. */
#ifndef FM_CLI_PROGRESS_H
#define FM_CLI_PROGRESS_H

#include "cli/options.h"

struct fm_display;

/* NULL when memory is out: then there is no display and nothing else changes. */
struct fm_display *fm_display_new(const struct fm_arguments *arguments);
/* Takes the lines away and frees. NULL is fine. */
void fm_display_free(struct fm_display *display);

/* These fit into struct fm_callbacks with the display as context. */
void fm_display_status(void *display, const struct fm_status *status);
void fm_display_message(void *display, const struct fm_message *message);

/* "12 of 24 runs done, 1 failed" of the last status; "" before the first. */
const char *fm_display_summary(const struct fm_display *display);

/* "0:35", "1:02:03". */
const char *fm_display_time(double seconds, char buffer[32]);

#endif
