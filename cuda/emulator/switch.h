/* Stacks, and passing control from one to another: assembly on x86-64 (switch.S), ucontext elsewhere. Under
 * the address sanitizer every switch is announced to it. And the shared memory of a block (shared.cc). */
#ifndef FM_EMULATOR_SWITCH_H
#define FM_EMULATOR_SWITCH_H

#include "emulator/core.h"

/* Leaves the running stack, to be continued at *save, and goes on where `to` was saved or on a fresh stack.
 */
void fm_switch(void **save, void *to);
/* The same from the caller's own stack. */
void fm_switch_in(void **save, void *to);
/* The running stack is never continued. To fm_switch_in's caller, or to a thread. */
void fm_switch_forever(void *to) __attribute__((noreturn));

/* A fresh stack on which `entry` will run, with the stack's number, when it is switched to. Numbers are given
 * back while still running on them: nothing else runs until the switch. */
void *fm_stack_take(void (*entry)(int stack));
void fm_stack_give(int stack);
void fm_stacks_reset(void); /* all are free again */

void fm_shared_begin(const struct fm_kernel *kernel);
void fm_shared_block(uint64_t number);
void fm_shared_end(void);

#endif
