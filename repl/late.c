// late.c — large libraries are loaded when one of their functions is called for the first time.
//
// LLVM, oneDNN, OpenBLAS and what they bring take 15 ms to load, mostly for addresses that the
// loader writes into their tables. The shell needs none of them, and a worker seldom all. So the
// program is linked without them: build/late.def (scripts/late.sh) has a row for each of their
// functions that is called, and here that name is a jump to the address in a record. That is the
// function's from the first call on; before, it is late_bind's, which loads the library. So do
// linkers for a program's functions; here the library is late, too.
//
// Without rows (another processor, a sanitizer) this file is empty and the program is linked
// against the libraries.
#define LIBRARY(name, first)
#define FUNCTION(library, name)
#include <late.def>
#undef LIBRARY
#undef FUNCTION

#ifdef LATE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "core/base/base.h"

#define LIBRARY(name, first) {name, first, NULL},
#define FUNCTION(library, name)
static struct {
  const char *name;
  int first;
  void *handle;
} libraries[] = {
#include <late.def>
};
#undef LIBRARY
#undef FUNCTION

// What stands behind each of the names: the number of its library leads to the handle.
typedef struct function {
  void *address;  // late_bind at first
  u64 library;
  char name[];
} function;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// As the loader does where a name is missing; here it may be a worker that ends.
static void *missing(const char *what) {
  (void)fprintf(stderr, "hlosh: %s\n", what);
  (void)raise(SIGABRT);
  return NULL;
}

// Their names are seen by all that is loaded later, as those of the libraries of a program are.
static void *load(u64 k) {
  if (libraries[k].handle) return libraries[k].handle;
  if (libraries[k].first >= 0) (void)load((u64)libraries[k].first);
  libraries[k].handle = dlopen(libraries[k].name, RTLD_LAZY | RTLD_GLOBAL | RTLD_NODELETE);
  return libraries[k].handle ? libraries[k].handle : missing(dlerror());
}

// Called from the code below.
void *late_address(function *f);
void *late_address(function *f) {
  (void)pthread_mutex_lock(&lock);
  void *at = dlsym(load(f->library), f->name);
  (void)pthread_mutex_unlock(&lock);
  if (!at) return missing(f->name);
  return __atomic_store_n(&f->address, at, __ATOMIC_RELEASE), at;
}

// late_bind: r11 leads to the function that was called. Keeps all registers that may hold
// arguments, and aligns the stack.
__asm__(".text\n"
        "late_bind:\n"
        "  pushq %rbp\n"
        "  movq %rsp, %rbp\n"
        "  andq $-16, %rsp\n"
        "  subq $192, %rsp\n"
        "  movq %rdi, (%rsp)\n"
        "  movq %rsi, 8(%rsp)\n"
        "  movq %rdx, 16(%rsp)\n"
        "  movq %rcx, 24(%rsp)\n"
        "  movq %r8, 32(%rsp)\n"
        "  movq %r9, 40(%rsp)\n"
        "  movq %rax, 48(%rsp)\n"
        "  movups %xmm0, 64(%rsp)\n"
        "  movups %xmm1, 80(%rsp)\n"
        "  movups %xmm2, 96(%rsp)\n"
        "  movups %xmm3, 112(%rsp)\n"
        "  movups %xmm4, 128(%rsp)\n"
        "  movups %xmm5, 144(%rsp)\n"
        "  movups %xmm6, 160(%rsp)\n"
        "  movups %xmm7, 176(%rsp)\n"
        "  movq %r11, %rdi\n"
        "  call late_address\n"
        "  movq %rax, %r11\n"
        "  movq (%rsp), %rdi\n"
        "  movq 8(%rsp), %rsi\n"
        "  movq 16(%rsp), %rdx\n"
        "  movq 24(%rsp), %rcx\n"
        "  movq 32(%rsp), %r8\n"
        "  movq 40(%rsp), %r9\n"
        "  movq 48(%rsp), %rax\n"
        "  movups 64(%rsp), %xmm0\n"
        "  movups 80(%rsp), %xmm1\n"
        "  movups 96(%rsp), %xmm2\n"
        "  movups 112(%rsp), %xmm3\n"
        "  movups 128(%rsp), %xmm4\n"
        "  movups 144(%rsp), %xmm5\n"
        "  movups 160(%rsp), %xmm6\n"
        "  movups 176(%rsp), %xmm7\n"
        "  leave\n"
        "  jmp *%r11\n");

// A name of a function, and its record. Hidden: the libraries call each other's functions, not
// these.
#define LIBRARY(name, first)
#define FUNCTION(library, name)                      \
  __asm__(".text\n"                                  \
          ".globl " #name "\n"                       \
          ".hidden " #name "\n"                      \
          ".type " #name ", @function\n" #name ":\n" \
          "  leaq 1f(%rip), %r11\n"                  \
          "  jmp *(%r11)\n"                          \
          ".data\n"                                  \
          ".balign 8\n"                              \
          "1: .quad late_bind\n"                     \
          ".quad " #library "\n"                     \
          ".asciz \"" #name "\"\n"                   \
          ".text\n");
#include <late.def>
#endif
