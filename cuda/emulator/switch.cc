/* Stacks for the threads of a block; see switch.h.
 *
 * A stack is 256 KB of addresses the last 64 of them closed (arrays are large); only what is used takes
 * memory. Their tops are shifted against each other by a few cache lines: at equal distances of a power of
 * two all of them would fall into the same sets of the caches (measured: a barrier of 256 threads takes half
 * the time). */
#include <stdlib.h>
#include <sys/mman.h>

#include "emulator/switch.h"

#ifdef FM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FM_UCONTEXT
#include <ucontext.h>
#endif

static const size_t GUARD = 64 << 10, SIZE = (256 << 10) + 4096;

namespace
{
struct stacks {
    char *memory; /* all, one after another */
    int made, free;
    int list[FM_EMULATED_THREADS + 1]; /* free numbers */
    void (*entry)(int stack);
    int fresh; /* the number that the next entry finds */
#ifdef FM_ASAN
    const void *caller_bottom;
    size_t caller_size;
    void *caller_fake;
#endif
#ifdef FM_UCONTEXT
    ucontext_t context[FM_EMULATED_THREADS + 1];
#endif
};
} // namespace
static struct stacks *the;

#ifndef FM_UCONTEXT
extern "C" void fm_emulated_switch(void **save, void *to);
extern "C" void fm_emulated_start(void **save, void *top, void (*entry)(int stack), int stack);
#else
static void fm_emulated_switch(void **save, void *to)
{
    ucontext_t here;
    *save = &here;
    swapcontext(&here, (ucontext_t *)to);
}
#endif

static char *stack_of(int number)
{
    return the->memory + (size_t)number * SIZE;
}

#ifdef FM_ASAN
static const char *bottom_of(const void *to)
{
    size_t number = (size_t)((const char *)to - the->memory) / SIZE;
    return the->memory + number * SIZE;
}
static bool is_stack(const void *to)
{
    return (const char *)to >= the->memory &&
           (const char *)to < the->memory + (FM_EMULATED_THREADS + 1) * SIZE;
}
static void announce(void **fake, const void *to)
{
#ifdef FM_UCONTEXT
    const ucontext_t *context = (const ucontext_t *)to;
    if (!is_stack(to)) {
        if (context >= the->context && context <= the->context + FM_EMULATED_THREADS)
            to = stack_of((int)(context - the->context));
    }
#endif
    if (is_stack(to))
        __sanitizer_start_switch_fiber(fake, bottom_of(to), SIZE);
    else
        __sanitizer_start_switch_fiber(fake, the->caller_bottom, the->caller_size);
}
#endif

#ifdef FM_ASAN
void fm_switch(void **save, void *to)
{
    void *fake;
    announce(&fake, to);
    fm_emulated_switch(save, to);
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
}
#elif defined(FM_UCONTEXT)
void fm_switch(void **save, void *to)
{
    fm_emulated_switch(save, to);
}
#endif

FM_NO_ASAN void fm_switch_forever(void *to)
{
    static void *nobody;
#ifdef FM_ASAN
    announce(NULL, to);
#endif
    fm_emulated_switch(&nobody, to);
    abort(); /* nothing continues this stack */
}

void fm_stacks_reset(void)
{
    if (!the) return;
    the->free = the->made;
#ifdef FM_ASAN
    __asan_unpoison_memory_region(the->memory, (size_t)the->made * SIZE);
#endif
    for (int i = 0; i < the->made; i++) the->list[i] = the->made - 1 - i;
}

static void make(void)
{
    if (!the) {
        the = new struct stacks();
        void *p = mmap(NULL, SIZE * (FM_EMULATED_THREADS + 1), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) abort();
        the->memory = (char *)p;
    }
    int number = the->made;
    if (mprotect(stack_of(number) + GUARD, SIZE - GUARD, PROT_READ | PROT_WRITE)) abort();
    the->made++;
    the->list[the->free++] = number;
}

#if defined(FM_UCONTEXT) || defined(FM_ASAN)
FM_NO_ASAN static void begin(void)
{
    int number = the->fresh;
#ifdef FM_ASAN
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(NULL, &bottom, &size);
    if (!is_stack(bottom)) {
        the->caller_bottom = bottom;
        the->caller_size = size;
    }
#endif
    the->entry(number);
    abort();
}

/* What to switch to so that `begin` runs on the stack that ends at `end`. */
static void *prepare(int number, char *end)
{
#ifndef FM_UCONTEXT
    void **top = (void **)end - 2;
    (void)number;
    top[0] = (void *)begin;
    top[1] = NULL;
    return top - 6; /* six registers, whatever they hold */
#else
    ucontext_t *context = &the->context[number];
    getcontext(context);
    context->uc_stack.ss_sp = stack_of(number) + GUARD;
    context->uc_stack.ss_size = (size_t)(end - stack_of(number)) - GUARD;
    context->uc_link = NULL;
    makecontext(context, begin, 0);
    return context;
#endif
}
#endif

void fm_switch_fresh(void **save, void (*entry)(int stack))
{
    if (!the || !the->free) make();
    int number = the->list[--the->free];
    char *end = stack_of(number) + SIZE - (size_t)(number % 61) * 320;
#if defined(FM_UCONTEXT) || defined(FM_ASAN)
    the->entry = entry;
    the->fresh = number;
    fm_switch(save, prepare(number, end));
#else
    fm_emulated_start(save, end, entry, number);
#endif
}

void fm_stack_give(int stack)
{
    the->list[the->free++] = stack;
}

bool fm_emulated_stack_guard(const char *address)
{
    return the && address >= the->memory && address < the->memory + SIZE * (FM_EMULATED_THREADS + 1) &&
           (size_t)(address - the->memory) % SIZE < GUARD;
}
