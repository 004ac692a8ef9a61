/* A terminal in a test: a pseudo terminal that a program writes to, and a screen that does what a terminal
 * would do with the bytes: carriage return, line feed, cursor up, clearing, colours, wrapping at the last
 * column. */
#ifndef FM_TESTS_SCREEN_H
#define FM_TESTS_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#define TS_SCREEN_ROWS    200
#define TS_SCREEN_COLUMNS 200

struct ts_screen {
    int columns, rows; /* the window; lines above it stay readable as the scrolled part */
    int row, column;   /* of the cursor; rows count from the first line ever written */
    bool wrapped;      /* the cursor stands behind the last column */
    char cell[TS_SCREEN_ROWS][TS_SCREEN_COLUMNS + 1];
    int top;         /* the highest row that cursor movement can reach */
    char escape[32]; /* a sequence that is not complete yet */
    size_t escape_size;
    int unknown; /* sequences that the screen does not know */
};

void ts_screen_init(struct ts_screen *screen, int columns, int rows);
void ts_screen_write(struct ts_screen *screen, const char *bytes, size_t size);
/* Lines that contain `part`. */
int ts_screen_count(const struct ts_screen *screen, const char *part);
/* All lines without trailing blanks; static until the next call on the same buffer. */
char *ts_screen_text(const struct ts_screen *screen, char *buffer, size_t size);

/* Opens a pseudo terminal of that size: *master is ours, *slave the program's. */
bool ts_terminal_open(int *master, int *slave, int columns, int rows);
bool ts_terminal_resize(int master, int columns, int rows);

#endif
