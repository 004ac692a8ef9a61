#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

bool fm_terminal_moves(int fd)
{
    const char *term = environment("TERM");
    return isatty(fd) && *term && strcmp(term, "dumb") != 0;
}

bool fm_terminal_color(enum fm_color_choice choice, int fd)
{
    if (choice != FM_COLOR_AUTO) return choice == FM_COLOR_ALWAYS;
    if (*environment("NO_COLOR")) return false;
    const char *force = environment("CLICOLOR_FORCE");
    if (*force && strcmp(force, "0") != 0) return true;
    return fm_terminal_moves(fd);
}

void fm_terminal_size(int fd, int *columns, int *rows)
{
    struct winsize size;
    *columns = *rows = 0;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0) {
        *columns = size.ws_col;
        *rows = size.ws_row;
    }
    if (*columns <= 0) {
        int given = 0;
        const char *text = environment("COLUMNS");
        for (const char *c = text; *c >= '0' && *c <= '9' && given < 10000; c++)
            given = 10 * given + (*c - '0');
        *columns = given > 0 ? given : 80;
    }
    if (*rows <= 0) *rows = 24;
}

bool fm_terminal_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = environment(names[i]);
        if (!*value) continue;
        const char *dot = strchr(value, '.');
        return dot && (!strncasecmp(dot + 1, "utf-8", 5) || !strncasecmp(dot + 1, "utf8", 4));
    }
    return false;
}

struct fm_look fm_terminal_look(const struct fm_arguments *arguments)
{
    struct fm_look look = {.color = fm_terminal_color(arguments->color, STDOUT_FILENO),
                           .utf8 = fm_terminal_utf8()};
    int rows;
    fm_terminal_size(STDOUT_FILENO, &look.columns, &rows);
    return look;
}

void fm_terminal_begin(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        /* The lowest free descriptor is this one. Standard output is opened for reading, so that writing
         * fails. */
        int opened = open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
        if (opened < 0) return;
    }
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL);
}

static int cannot_write(int reason)
{
    fprintf(stderr, "foldmill: cannot write to standard output%s%s\n", reason ? ": " : "",
            reason ? strerror(reason) : "");
    return 1;
}

int fm_output_text(const char *text)
{
    size_t left = strlen(text);
    if (fflush(stdout) != 0) return cannot_write(errno);
    while (left) {
        ssize_t n = write(STDOUT_FILENO, text, left);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return cannot_write(errno);
        text += n;
        left -= (size_t)n;
    }
    return 0;
}

static int write_out(void *context, const char *bytes, size_t size)
{
    (void)context;
    errno = 0;
    if (fwrite(bytes, 1, size, stdout) == size) return 0;
    return errno ? errno : EIO;
}

struct fm_writer fm_output_writer(void)
{
    return (struct fm_writer){.write = write_out};
}

int fm_output_end(int exit_code)
{
    errno = 0;
    bool failed = ferror(stdout) != 0;
    if (fflush(stdout) != 0) failed = true;
    if (!failed) return exit_code;
    if (exit_code == 1) return 1; /* it was told */
    return cannot_write(errno);
}

int fm_complain(const struct fm_error *err)
{
    char line[2048], shown[2048];
    fm_error_print(err, line, sizeof line);
    fprintf(stderr, "foldmill: %s\n", fm_show(line, strlen(line), shown, sizeof shown));
    return fm_exit_code(err->code);
}
