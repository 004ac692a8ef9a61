#include "cli/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "foldmill.h"

static _Atomic(struct foldmill *) stopped;
static atomic_int caught, resized;

static const int handled[] = {SIGINT, SIGTERM, SIGHUP};

/* Only async-signal-safe calls. */
static void on_signal(int number)
{
    int saved = errno, none = 0;
    struct foldmill *sweep = atomic_load(&stopped);
    /* The second one, or the first when there is nothing to stop any more. */
    if (!atomic_compare_exchange_strong(&caught, &none, number) || !sweep) {
        static const char restore[] = "\033[0m\r\n";
        /* Colours off and a new line, where it is a terminal; nothing else was changed. */
        if (isatty(STDERR_FILENO) && write(STDERR_FILENO, restore, sizeof restore - 1) < 0) errno = 0;
        _exit(number == SIGINT ? 130 : 75);
    }
    fm_stop(sweep);
    errno = saved;
}

void fm_signals_begin(struct foldmill *sweep)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    atomic_store(&stopped, sweep);
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) {
        struct sigaction old;
        /* nohup asks for SIGHUP to be ignored. */
        if (handled[i] == SIGHUP && sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler == SIG_IGN) continue;
        sigaction(handled[i], &action, NULL);
    }
}

void fm_signals_end(void)
{
    atomic_store(&stopped, NULL);
}

int fm_signals_caught(void)
{
    return atomic_load(&caught);
}

int fm_signals_exit_code(void)
{
    return atomic_load(&caught) == SIGINT ? 130 : 75;
}

static void on_resize(int number)
{
    (void)number;
    atomic_store(&resized, 1);
}

void fm_signals_watch_size(void)
{
    struct sigaction action = {.sa_handler = on_resize, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGWINCH, &action, NULL);
}

int fm_signals_resized(void)
{
    return atomic_exchange(&resized, 0);
}
