# objc_msgSend for System V x86-64. Saves every register that can hold an argument, calls mock_lookup (runtime.cpp) to
# find the method, and jumps to it, so that the method receives the caller's arguments and returns to the caller.
#
# _stret: the first argument is the address of the result, so the receiver and the selector are one register later.
# _fpret: a long double is returned on the x87 stack. A message to nil returns zero in all result registers; clang
# itself clears results in memory.
#if !defined(__x86_64__) || !defined(__linux__)
#error "tests/mock: objc_msgSend only supports x86-64 Linux; add an implementation for this architecture"
#endif

.macro SEND name, receiver, selector
.globl \name
.type \name, @function
\name:
  .cfi_startproc
  test \receiver, \receiver
  jz 1f
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register %rbp
  sub $192, %rsp
  mov %rdi, 0(%rsp)
  mov %rsi, 8(%rsp)
  mov %rdx, 16(%rsp)
  mov %rcx, 24(%rsp)
  mov %r8, 32(%rsp)
  mov %r9, 40(%rsp)
  mov %rax, 48(%rsp)
  movaps %xmm0, 64(%rsp)
  movaps %xmm1, 80(%rsp)
  movaps %xmm2, 96(%rsp)
  movaps %xmm3, 112(%rsp)
  movaps %xmm4, 128(%rsp)
  movaps %xmm5, 144(%rsp)
  movaps %xmm6, 160(%rsp)
  movaps %xmm7, 176(%rsp)
  .ifc \receiver, %rsi
  mov %rsi, %rdi
  mov %rdx, %rsi
  .endif
  call mock_lookup@PLT
  mov %rax, %r11
  mov 0(%rsp), %rdi
  mov 8(%rsp), %rsi
  mov 16(%rsp), %rdx
  mov 24(%rsp), %rcx
  mov 32(%rsp), %r8
  mov 40(%rsp), %r9
  mov 48(%rsp), %rax
  movaps 64(%rsp), %xmm0
  movaps 80(%rsp), %xmm1
  movaps 96(%rsp), %xmm2
  movaps 112(%rsp), %xmm3
  movaps 128(%rsp), %xmm4
  movaps 144(%rsp), %xmm5
  movaps 160(%rsp), %xmm6
  movaps 176(%rsp), %xmm7
  leave
  .cfi_def_cfa %rsp, 8
  .cfi_restore %rbp
  jmp *%r11
1:
  .ifc \name, objc_msgSend_stret
  mov %rdi, %rax
  .else
  xor %eax, %eax
  xor %edx, %edx
  xorps %xmm0, %xmm0
  xorps %xmm1, %xmm1
  .endif
  .ifc \name, objc_msgSend_fpret
  fldz
  .endif
  ret
  .cfi_endproc
  .size \name, . - \name
.endm

.text
SEND objc_msgSend, %rdi, %rsi
SEND objc_msgSend_fpret, %rdi, %rsi
SEND objc_msgSend_stret, %rsi, %rdx
.section .note.GNU-stack, "", @progbits
