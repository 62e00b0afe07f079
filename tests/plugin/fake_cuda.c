// fake_cuda.c — a CUDA driver of our own for tests: runs kernels on the emulator, and misbehaves
// on request.
//
// Each function that it exports jumps to the one of the emulated driver (backends/gpu/emu/api.h) in
// the program that loads it. What it does beyond that stands in its own file name: NAME-MODE.so,
// with a number behind the mode where it says so.
// Modes:
//   ok        runs what it is given, when it is given
//   late      nothing runs before somebody waits for it; with a number, on so many devices
//   old       says API 11.2
//   nodevice  sees no GPU
//   oom       N allocations succeed (none without a number)
//   sticky    N launches succeed, then every call fails
//   hang      waiting never ends
//   nograph   streams are not captured
//   older     says API 12.2, which has no conditional nodes
//   nonode    the Nth of the calls that make conditional nodes fails
//   devices   has N devices
//   missing   has no cuLaunchKernel: neither exported nor found by cuGetProcAddress
// In all of them a context that goes while something of it is left stops the process, so every test
// that releases its context also tests for leaks.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/gpu/emu/api.h"

#if defined(__x86_64__)
#define JUMP(name) "  jmp *slot_" name "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(name) "  adrp x16, slot_" name "\n  ldr x16, [x16, :lo12:slot_" name "]\n  br x16\n"
#else
#error "no jump is written for this processor"
#endif

// The slots are filled when the library is loaded.
#define CUDA_FN(field, symbol, base, version, need, args)                                 \
  extern void *slot_##symbol __attribute__((visibility("hidden")));                       \
  void *slot_##symbol;                                                                    \
  __asm__(".text\n.p2align 4\n.globl " #symbol "\n.type " #symbol ", %function\n" #symbol \
          ":\n" JUMP(#symbol) ".size " #symbol ", .-" #symbol "\n");
#include "backends/gpu/cuda/cuda.def"
#include "backends/gpu/emu/api_more.def"
#undef CUDA_FN

static void leaked(const char *what) {
  (void)fprintf(stderr, "fake_cuda: the context goes, and these are left: %s\n", what);
  (void)raise(SIGABRT);
}

__attribute__((constructor)) static void loaded(void) {
#define CUDA_FN(field, symbol, base, version, need, args) slot_##symbol = emu_api_symbol(#symbol);
#include "backends/gpu/cuda/cuda.def"
#include "backends/gpu/emu/api_more.def"
#undef CUDA_FN
  Dl_info i;
  const char *dash = NULL;
  if (dladdr((void *)(uintptr_t)loaded, &i) && i.dli_fname) dash = strrchr(i.dli_fname, '-');
  const char *mode = dash ? dash + 1 : "ok";
  size_t n = strcspn(mode, ".0123456789");
  u32 number = (u32)strtoul(mode + n, NULL, 10);
#define IS(name) (strlen(name) == n && memcmp(mode, name, n) == 0)
  emu_behaviour b = {.asynchronous = true,
                     .leaked = leaked,
                     .late = IS("late"),
                     .version = IS("old")     ? 11020
                                : IS("older") ? 12020
                                              : 0,
                     .no_device = IS("nodevice"),
                     .hangs = IS("hang"),
                     .no_capture = IS("nograph")};
  if (IS("oom")) {
    b.allocations = number;
    b.memory_bytes = number ? 0 : 1;
  }
  if (IS("sticky")) b.launches = number;
  if (IS("devices") || IS("late")) b.devices = number;
  if (IS("nonode")) b.conditions = number;
  // The test renames the exported one in its copy of this file, and must not find the name here.
  static char missing[20];
  (void)snprintf(missing, sizeof missing, "cuLaunch%s", "Kernel");
  if (IS("missing")) b.missing = missing;
  emu_api_behave(&b);
}
