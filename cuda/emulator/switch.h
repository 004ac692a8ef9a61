/* Stacks, and passing control from one to another: assembly on x86-64 (switch.S), ucontext elsewhere. Under
 * the address sanitizer every switch is announced to it. And the shared memory of a block (shared.cc). */
#ifndef FM_EMULATOR_SWITCH_H
#define FM_EMULATOR_SWITCH_H

#include "emulator/core.h"

#if defined(__SANITIZE_ADDRESS__)
#define FM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FM_ASAN 1
#endif
#endif

/* -DFM_UCONTEXT tries it here. */
#if !defined(__x86_64__) && !defined(FM_UCONTEXT)
#define FM_UCONTEXT 1
#endif

/* Frames that are never returned to must not leave the sanitizer's marks on their stack. */
#ifdef FM_ASAN
#define FM_NO_ASAN __attribute__((no_sanitize_address))
#else
#define FM_NO_ASAN
#endif

/* Leaves the running stack, to be continued at *save, and goes on where `to` was saved. */
#if !defined(FM_UCONTEXT) && !defined(FM_ASAN)
extern "C" void fm_emulated_switch(void **save, void *to);
static inline void fm_switch(void **save, void *to)
{
    fm_emulated_switch(save, to);
}
#else
void fm_switch(void **save, void *to);
#endif
/* The running stack is never continued. */
void fm_switch_forever(void *to) __attribute__((noreturn));

/* As fm_switch, to a fresh stack on which `entry` runs with the stack's number and never returns. Numbers are
 * given back while still running on them: nothing else runs until the switch. */
void fm_switch_fresh(void **save, void (*entry)(int stack));
void fm_stack_give(int stack);
void fm_stacks_reset(void); /* all are free again */

bool fm_shared_begin(void);         /* false: this machine's memory is full */
void fm_shared_block(size_t bytes); /* fills the next block's; so much of it dynamic */
/* Bytes of all static shared memory, and those that the last block wrote: its kernel has at least so many. */
size_t fm_shared_static(void);
size_t fm_shared_written(void);

#endif
