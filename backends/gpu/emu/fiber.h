// fiber.h — several stacks on one host thread, switched between by hand.
#ifndef GPU_EMU_FIBER_H
#define GPU_EMU_FIBER_H

#include "core/base/base.h"

#if defined(__x86_64__)
#define EMU_FIBER_OWN 1
#else
#include <ucontext.h>
#define EMU_FIBER_OWN 0
#endif

typedef struct emu_fiber {
  void *sp;           // where it goes on
  const void *stack;  // lowest byte; NULL: the host thread's own stack
  size_t bytes;
  void *sanitizer;  // AddressSanitizer's own stack of this fiber
#if !EMU_FIBER_OWN
  ucontext_t context;
#endif
} emu_fiber;

// Prepares f to run main on the stack of n bytes at `stack`, when it is switched to. main never
// returns; it switches away for the last time.
void emu_fiber_prepare(emu_fiber *f, void *stack, size_t n, void (*main)(void));
// Leaves `from`, which goes on behind this call when somebody switches back to it, for `to`.
// for_good: nobody will.
void emu_fiber_switch(emu_fiber *from, emu_fiber *to, bool for_good);
// The first thing that main does.
void emu_fiber_begin(void);

#endif
