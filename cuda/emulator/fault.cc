/* Mistakes of the program: said, counted, and survived where possible.
 *
 * A SIGSEGV on the emulator's memory means one of four things: the work of a burst touches device memory that
 * is closed (it is opened, and the work goes on); a kernel or copy touches what it must not (the launch
 * fails, the context is lost); the host touches device memory or a pinned buffer that a queued copy uses
 * (said, then the program ends by abort(), because the host has nowhere to go on); none of our business
 * (whoever handled the signal before gets it). */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emulator/core.h"

static const struct fm_task *running; /* NULL: the host is in control */
static int running_card;
static sigjmp_buf *escape; /* where bad work that is no kernel goes on */
static struct sigaction before_segv, before_bus;

void fm_emulated_short_name(char *text, size_t size, const char *what)
{
    size_t n = 0;
    int depth = 0;
    for (; what[n]; n++) {
        if (strchr("<(", what[n])) depth++;
        if (strchr(">)", what[n])) depth--;
        if (what[n] == ',' && depth <= 0) break;
    }
    snprintf(text, size, "%.*s", (int)n, what);
}

void fm_emulated_fault(const char *format, ...)
{
    char text[512], by[96];
    va_list list;
    va_start(list, format);
    size_t n = 0;
    if (running) {
        fm_emulated_short_name(by, sizeof by, running->name);
        n = (size_t)snprintf(text, sizeof text, "%s: ", by);
    }
    vsnprintf(text + n, sizeof text - n, format, list);
    va_end(list);
    dprintf(STDERR_FILENO, "CUDA emulator: %s\n", text);
    fm_emulated_keep_fault(text);
}

int fm_emulated_running_card(void)
{
    return running ? running_card : -1;
}

/* ---- signals ------------------------------------------------------------------------------------------- */

static void pass_on(int signal, const struct sigaction *before)
{
    /* The instruction runs again and meets the handler that was there before. */
    struct sigaction none = {};
    none.sa_handler = SIG_DFL;
    sigaction(signal, before->sa_handler == SIG_IGN ? &none : before, NULL);
}

static void bad_work(const char *address, const char *why)
{
    fm_emulated_fault("%s (address %p)", why, (const void *)address);
    fm_emulated_lose(cudaErrorIllegalAddress);
    if (fm_emulated_in_kernel()) fm_emulated_leave_kernel();
    siglongjmp(*escape, 1);
}

static void on_signal(int signal, siginfo_t *info, void *)
{
    int error = errno;
    const char *address = (const char *)info->si_addr;
    char why[256] = "";
    enum fm_touch touch = fm_emulated_touch(address, fm_emulated_running_card(), why, sizeof why);
    if (touch == FM_TOUCH_GO_ON) {
        errno = error;
        return;
    }
    if (running) {
        if (touch == FM_TOUCH_ELSEWHERE)
            snprintf(why, sizeof why, "%s",
                     fm_emulated_stack_guard(address) ? "the stack of a thread overflows"
                                                      : "touches memory that is no device memory");
        bad_work(address, why);
    }
    if (touch == FM_TOUCH_BAD) {
        fm_emulated_fault("%s (address %p)", why, (const void *)address);
        abort();
    }
    pass_on(signal, signal == SIGSEGV ? &before_segv : &before_bus);
    errno = error;
}

/* Signals come on a stack of their own, because a thread's stack may be what is full. */
static void own_stack(void)
{
    static thread_local bool there;
    if (there) return;
    there = true;
    size_t size = 128 << 10;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    stack_t stack = {};
    stack.ss_sp = memory;
    stack.ss_size = size;
    sigaltstack(&stack, NULL);
}

void fm_emulated_handlers(void)
{
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before_segv);
    sigaction(SIGBUS, &action, &before_bus);
}

bool fm_emulated_guarded(const struct fm_task *task, int card)
{
    own_stack();
    sigjmp_buf here, *outer = escape;
    const struct fm_task *before = running;
    int card_before = running_card;
    running = task;
    running_card = card;
    escape = &here;
    bool good = sigsetjmp(here, 0) == 0;
    if (good) (*task->work)();
    escape = outer;
    running = before;
    running_card = card_before;
    return good;
}
