/* The progress display on a terminal: what a person would see on the screen, not which bytes were sent. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli_support.h"
#include "support/screen.h"

extern char **environ;

struct session {
    struct cli cli;
    struct ts_screen screen;
    int master;
    pid_t pid;
    int redraws, most_lanes, status;
    bool ended;
};

static struct session session;

static void set_up(void)
{
    memset(&session, 0, sizeof session);
    session.master = -1;
    cr_assert(cli_begin(&session.cli, quick_sweep));
}

static void tear_down(void)
{
    if (session.pid > 0 && !session.ended) {
        kill(session.pid, SIGKILL);
        waitpid(session.pid, NULL, 0);
    }
    if (session.master >= 0) close(session.master);
    cli_end(&session.cli);
}

TestSuite(cli_terminal, .init = set_up, .fini = tear_down);

/* Starts `run` with standard error on the terminal and standard output in a file. */
static void start(int columns, int rows, const char *term, const char *epochs, const char *extra)
{
    char out[128], setting[64], terminal[64];
    int slave;
    cr_assert(ts_terminal_open(&session.master, &slave, columns, rows));
    ts_screen_init(&session.screen, columns, rows);
    ts_join(out, sizeof out, session.cli.folder, "out");
    snprintf(setting, sizeof setting, "train.epochs=%s", epochs);
    snprintf(terminal, sizeof terminal, "TERM=%s", term);
    const char *const argv[] = {ts_program(), "run", session.cli.file, "--lanes=2", "--set", setting,
                                extra,        NULL};
    char *env[256];
    size_t n = 0;
    for (char **e = environ; *e && n < 250; e++)
        if (strncmp(*e, "TERM=", 5) && strncmp(*e, "NO_COLOR=", 9) && strncmp(*e, "CLICOLOR_FORCE=", 15))
            env[n++] = *e;
    env[n++] = terminal;
    env[n] = NULL;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, slave, 2);
    cr_assert(eq(int, posix_spawn(&session.pid, argv[0], &actions, NULL, (char *const *)argv, env), 0));
    posix_spawn_file_actions_destroy(&actions);
    close(slave);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Feeds the screen for some seconds, or until the program ends. Between reads the screen must always be
 * whole: at most one total and one line per lane. */
static void watch(double seconds)
{
    char bytes[4096];
    double end = now() + seconds;
    while (now() < end && !session.ended) {
        struct pollfd ready = {.fd = session.master, .events = POLLIN};
        ssize_t n = poll(&ready, 1, 20) > 0 ? read(session.master, bytes, sizeof bytes) : 0;
        if (n > 0) {
            ts_screen_write(&session.screen, bytes, (size_t)n);
            session.redraws++;
            int lanes = ts_screen_count(&session.screen, " fold ");
            if (lanes > session.most_lanes) session.most_lanes = lanes;
        } else if (waitpid(session.pid, &session.status, WNOHANG) == session.pid) {
            session.ended = true;
        }
    }
    /* What the program wrote last may still be in the terminal. */
    struct pollfd ready = {.fd = session.master, .events = POLLIN};
    while (session.ended && poll(&ready, 1, 20) > 0 && (ready.revents & POLLIN)) {
        ssize_t n = read(session.master, bytes, sizeof bytes);
        if (n <= 0) break;
        ts_screen_write(&session.screen, bytes, (size_t)n);
    }
}

/* Under load the first line may take its time. */
static void watch_for(const char *part)
{
    for (int i = 0; i < 600 && !session.ended && !ts_screen_count(&session.screen, part); i++) watch(0.1);
}

static const char *text(void)
{
    static char buffer[TS_SCREEN_ROWS * (TS_SCREEN_COLUMNS + 1)];
    return ts_screen_text(&session.screen, buffer, sizeof buffer);
}

static int exit_code(void)
{
    return WIFEXITED(session.status) ? WEXITSTATUS(session.status) : -1;
}

static void expect_end(int code)
{
    cr_assert(session.ended, "still running:\n%s", text());
    cr_expect(eq(int, exit_code(), code), "status %d\n%s", session.status, text());
    cr_expect(eq(int, ts_screen_count(&session.screen, " fold "), 0), "lines are left behind:\n%s", text());
    cr_expect(eq(int, ts_screen_count(&session.screen, " left"), 0), "%s", text());
    cr_expect(eq(int, session.screen.unknown, 0));
}

Test(cli_terminal, a_line_a_lane_and_a_total_then_nothing_is_left)
{
    start(100, 24, "xterm", "100000", NULL);
    watch_for("/6 runs");
    int before = session.redraws;
    watch(1.2);
    cr_expect(eq(int, ts_screen_count(&session.screen, " fold "), 2), "%s", text());
    cr_expect(eq(int, ts_screen_count(&session.screen, "0/6 runs"), 1), "%s", text());
    cr_expect(eq(int, session.most_lanes, 2), "at no time more than one line a lane");
    cr_expect(le(int, session.redraws - before, 40), "drawn too often");
    kill(session.pid, SIGINT);
    watch(20);
    expect_end(130);
    cr_expect(eq(int, ts_screen_count(&session.screen, "the same command goes on"), 1), "%s", text());
}

Test(cli_terminal, finishes_clean)
{
    start(100, 24, "xterm", "40", NULL);
    watch(100);
    expect_end(0);
    cr_expect(eq(int, ts_screen_count(&session.screen, "journal: "), 1), "%s", text());
}

Test(cli_terminal, narrow_and_low_windows)
{
    start(20, 3, "xterm", "100000", NULL);
    watch_for("/6 runs");
    watch(0.8);
    cr_expect(eq(int, ts_screen_count(&session.screen, "0/6 runs"), 1), "%s", text());
    kill(session.pid, SIGINT);
    watch(20);
    expect_end(130);
}

/* The window becomes wider on the way: nothing of the old lines may stay. */
Test(cli_terminal, window_that_changes_its_size)
{
    start(40, 24, "xterm", "100000", NULL);
    watch_for("/6 runs");
    watch(0.6);
    cr_assert(ts_terminal_resize(session.master, 120, 24));
    session.screen.columns = 120;
    kill(session.pid, SIGWINCH);
    watch(0.8);
    cr_expect(eq(int, ts_screen_count(&session.screen, " fold "), 2), "%s", text());
    cr_expect(eq(int, ts_screen_count(&session.screen, "/6 runs"), 1), "%s", text());
    kill(session.pid, SIGTERM);
    watch(20);
    expect_end(75);
}

Test(cli_terminal, twice_stops_at_once_and_leaves_the_terminal_usable)
{
    start(100, 24, "xterm", "100000", NULL);
    watch_for("/6 runs");
    watch(0.8);
    kill(session.pid, SIGINT);
    kill(session.pid, SIGINT);
    watch(0.02);
    kill(session.pid, SIGINT);
    watch(10);
    cr_assert(session.ended);
    cr_expect(eq(int, exit_code(), 130), "status %d", session.status);
    cr_expect(eq(int, session.screen.column, 0), "the prompt begins a line");
}

Test(cli_terminal, quiet_and_dumb_terminals_get_no_escapes)
{
    start(80, 24, "dumb", "40", NULL);
    watch(100);
    expect_end(0);
    cr_expect(eq(int, ts_screen_count(&session.screen, "\033"), 0));
    cr_expect(eq(int, session.most_lanes, 0));
}

Test(cli_terminal, quiet_says_nothing)
{
    start(80, 24, "xterm", "20", "--quiet");
    watch(100);
    expect_end(0);
    cr_expect(eq(int, session.redraws, 0), "%s", text());
}
