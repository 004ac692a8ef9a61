#include "support/screen.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

void ts_screen_init(struct ts_screen *s, int columns, int rows)
{
    memset(s, 0, sizeof *s);
    s->columns = columns;
    s->rows = rows;
    for (int r = 0; r < TS_SCREEN_ROWS; r++) memset(s->cell[r], ' ', TS_SCREEN_COLUMNS);
}

static void line_feed(struct ts_screen *s)
{
    if (s->row + 1 < TS_SCREEN_ROWS) s->row++;
    if (s->row - s->top >= s->rows) s->top = s->row - s->rows + 1;
    s->wrapped = false;
}

static void put(struct ts_screen *s, char c)
{
    if (s->wrapped) {
        s->column = 0;
        line_feed(s);
    }
    s->cell[s->row][s->column] = c;
    if (s->column + 1 < s->columns)
        s->column++;
    else
        s->wrapped = true;
}

static void clear_line(struct ts_screen *s, int row, int column)
{
    memset(s->cell[row] + column, ' ', (size_t)(TS_SCREEN_COLUMNS - column));
}

/* "\033[2A", "\033[K", "\033[J", "\033[1m". */
static void obey(struct ts_screen *s)
{
    int number = atoi(s->escape + 2);
    switch (s->escape[s->escape_size - 1]) {
    case 'A':
        s->row -= number > 0 ? number : 1;
        if (s->row < s->top) s->row = s->top;
        s->wrapped = false;
        break;
    case 'K': clear_line(s, s->row, s->wrapped ? s->columns - 1 : s->column); break;
    case 'J':
        clear_line(s, s->row, s->column);
        for (int r = s->row + 1; r < TS_SCREEN_ROWS; r++) clear_line(s, r, 0);
        break;
    case 'm': break;
    default: s->unknown++;
    }
}

void ts_screen_write(struct ts_screen *s, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char c = bytes[i];
        if (s->escape_size || c == '\033') {
            if (s->escape_size + 1 < sizeof s->escape) s->escape[s->escape_size++] = c;
            s->escape[s->escape_size] = '\0';
            bool ends = s->escape_size > 2 && ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'));
            if (ends) {
                obey(s);
                s->escape_size = 0;
            }
        } else if (c == '\r') {
            s->column = 0;
            s->wrapped = false;
        } else if (c == '\n') {
            line_feed(s);
        } else {
            put(s, c);
        }
    }
}

static const char *line_of(const struct ts_screen *s, int row, char line[TS_SCREEN_COLUMNS + 1])
{
    memcpy(line, s->cell[row], TS_SCREEN_COLUMNS);
    size_t end = TS_SCREEN_COLUMNS;
    while (end && line[end - 1] == ' ') end--;
    line[end] = '\0';
    return line;
}

int ts_screen_count(const struct ts_screen *s, const char *part)
{
    char line[TS_SCREEN_COLUMNS + 1];
    int count = 0;
    for (int r = 0; r < TS_SCREEN_ROWS; r++) count += strstr(line_of(s, r, line), part) != NULL;
    return count;
}

char *ts_screen_text(const struct ts_screen *s, char *buffer, size_t size)
{
    char line[TS_SCREEN_COLUMNS + 1];
    size_t used = 0;
    buffer[0] = '\0';
    for (int r = 0; r <= s->row && used < size; r++) {
        int n = snprintf(buffer + used, size - used, "%s\n", line_of(s, r, line));
        used += n > 0 ? (size_t)n : 0;
    }
    return buffer;
}

bool ts_terminal_resize(int master, int columns, int rows)
{
    struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
    return ioctl(master, TIOCSWINSZ, &size) == 0;
}

bool ts_terminal_open(int *master, int *slave, int columns, int rows)
{
    char name[128];
    *slave = -1;
    *master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*master < 0) return false;
    if (grantpt(*master) == 0 && unlockpt(*master) == 0 && ptsname_r(*master, name, sizeof name) == 0)
        *slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*slave >= 0 && ts_terminal_resize(*master, columns, rows)) return true;
    if (*slave >= 0) close(*slave);
    close(*master);
    return false;
}
