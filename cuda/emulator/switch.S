# void fm_emulated_switch(void **save, void *to): goes on where `to` was saved. What a function has to keep by
# the System V ABI for x86-64 lies on the stack that is left.
#if defined(__x86_64__)
        .text
        .globl fm_emulated_switch
        .hidden fm_emulated_switch
        .type fm_emulated_switch, @function
fm_emulated_switch:
        .cfi_startproc
        endbr64
        pushq %rbp
        pushq %rbx
        pushq %r12
        pushq %r13
        pushq %r14
        pushq %r15
        movq %rsp, (%rdi)
        movq %rsi, %rsp
        popq %r15
        popq %r14
        popq %r13
        popq %r12
        popq %rbx
        popq %rbp
        ret
        .cfi_endproc
        .size fm_emulated_switch, . - fm_emulated_switch

# void fm_emulated_start(void **save, void *top, void (*entry)(int stack), int stack): calls `entry` on a fresh
# stack. A call, because the processor foresees where calls go and returns come from.
        .globl fm_emulated_start
        .hidden fm_emulated_start
        .type fm_emulated_start, @function
fm_emulated_start:
        .cfi_startproc
        endbr64
        pushq %rbp
        pushq %rbx
        pushq %r12
        pushq %r13
        pushq %r14
        pushq %r15
        movq %rsp, (%rdi)
        movq %rsi, %rsp
        movl %ecx, %edi
        xorl %ebp, %ebp
        call *%rdx
        ud2
        .cfi_endproc
        .size fm_emulated_start, . - fm_emulated_start
#endif
        .section .note.GNU-stack, "", @progbits
