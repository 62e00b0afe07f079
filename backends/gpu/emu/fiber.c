// fiber.c — switching stacks.
//
// On x86-64 a switch saves the registers that a called function must keep, exchanges the stack
// pointers and returns on the other stack: about 2 ns. Elsewhere swapcontext does it, with a system
// call for the signal mask. AddressSanitizer is told of each switch.
#include "backends/gpu/emu/fiber.h"

#ifdef HS_ASAN
#include <sanitizer/common_interface_defs.h>
static _Thread_local emu_fiber *left;  // of the switch that is under way
#endif

static void before_switch(emu_fiber *from, const emu_fiber *to, bool for_good) {
#ifdef HS_ASAN
  left = from;
  __sanitizer_start_switch_fiber(for_good ? NULL : &from->sanitizer, to->stack, to->bytes);
#else
  (void)from, (void)to, (void)for_good;
#endif
}

// On the stack that was switched to. What was left tells its bounds, so that a host thread's stack
// can be switched back to.
static void after_switch(void *sanitizer) {
#ifdef HS_ASAN
  const void *stack;
  size_t n;
  __sanitizer_finish_switch_fiber(sanitizer, &stack, &n);
  if (!left->stack) left->stack = stack, left->bytes = n;
#else
  (void)sanitizer;
#endif
}

void emu_fiber_begin(void) { after_switch(NULL); }

#if EMU_FIBER_OWN
// void emu_switch_stacks(void **save, void *to)
void emu_switch_stacks(void **save, void *to);
__asm__(".text\n"
        ".p2align 4\n"
        ".type emu_switch_stacks, @function\n"
        "emu_switch_stacks:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size emu_switch_stacks, .-emu_switch_stacks\n");

void emu_fiber_prepare(emu_fiber *f, void *stack, size_t n, void (*main)(void)) {
  // From the top: a word that keeps the alignment, the end of the chain of callers, main, and six
  // registers. main begins as after a call: its stack pointer is 8 beyond a multiple of 16.
  HS_UNPOISON(stack, n);  // what was left here in the middle of a function
  void **top = (void **)((uintptr_t)((u8 *)stack + n) & ~(uintptr_t)15);
  top[-1] = top[-2] = NULL;
  top[-3] = NULL;
  top[-4] = (void *)(uintptr_t)main;
  for (int k = 5; k <= 10; k++) top[-k] = NULL;
  *f = (emu_fiber){.sp = top - 10, .stack = stack, .bytes = n};
}

void emu_fiber_switch(emu_fiber *from, emu_fiber *to, bool for_good) {
  before_switch(from, to, for_good);
  emu_switch_stacks(&from->sp, to->sp);
  after_switch(from->sanitizer);
}
#else
void emu_fiber_prepare(emu_fiber *f, void *stack, size_t n, void (*main)(void)) {
  HS_UNPOISON(stack, n);  // what was left here in the middle of a function
  *f = (emu_fiber){.stack = stack, .bytes = n};
  (void)getcontext(&f->context);
  f->context.uc_stack.ss_sp = stack;
  f->context.uc_stack.ss_size = n;
  makecontext(&f->context, main, 0);
}

void emu_fiber_switch(emu_fiber *from, emu_fiber *to, bool for_good) {
  before_switch(from, to, for_good);
  (void)swapcontext(&from->context, &to->context);
  after_switch(from->sanitizer);
}
#endif
