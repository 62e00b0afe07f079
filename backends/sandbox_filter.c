// sandbox_filter.c — the filter of system calls: the table sandbox.def as a program for the
// kernel's seccomp, and the count of what was refused.
//
// A refused call raises SIGSYS. The handler counts the call and makes it fail with EPERM, so that a
// library which tries something goes on as on a machine where it may not, and the shell can name
// what it tried. Code that has taken the handler away, or has all signals blocked, is ended by the
// kernel instead; it never gets past the filter. The counts are the worker's word: hostile code can
// write to them.
//
// Another architecture's calls (int 0x80, x32) have other numbers and end the process at once. The
// program is linear, and yet costs next to nothing: the kernel remembers which numbers pass
// whatever their arguments. SPEC_ALLOW keeps kernels before 5.16 from turning off speculative
// stores, which would slow down every kernel that runs.
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "backends/sandbox.h"
#include "backends/worker_wire.h"

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#endif

#define SANDBOX_CLONE_MASK                                                                   \
  ((u32)(CLONE_VM | CLONE_THREAD | CLONE_VFORK | CLONE_PTRACE | CLONE_NEWNS | CLONE_NEWUTS | \
         CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP))
#define SANDBOX_OPEN_MASK ((u32)(O_ACCMODE | O_CREAT | O_TRUNC))

typedef enum verdict { ALLOW, REFUSE, DENY, ABSENT, WHEN, WHEN_SELF } verdict;
typedef struct rule {
  const char *name;
  u32 number;
  verdict verdict;
  u32 argument, mask, value;  // of WHEN; of WHEN_SELF only the argument
  const char *reason;
} rule;

static const rule rules[] = {
#define CALL(name, verdict, reason) {#name, SYS_##name, verdict, 0, 0, 0, reason},
#define CALL_IF(name, arg, mask, value, reason) \
  {#name, SYS_##name, WHEN, arg, mask, (u32)(value), reason},
#define CALL_SELF(name, arg, reason) {#name, SYS_##name, WHEN_SELF, arg, ~0u, 0, reason},
#define READ(path, reason)
#include "backends/sandbox.def"
#undef CALL
#undef CALL_IF
#undef CALL_SELF
#undef READ
};

// ---- the program --------------------------------------------------------------------------------
typedef HS_VEC(struct sock_filter) program;

static void put(program *p, u16 code, u32 k, u8 yes, u8 no) {
  hs_vec_push(p, ((struct sock_filter){.code = code, .jt = yes, .jf = no, .k = k}));
}

static void load(program *p, size_t at) { put(p, BPF_LD | BPF_W | BPF_ABS, (u32)at, 0, 0); }
static void answer(program *p, u32 action) { put(p, BPF_RET | BPF_K, action, 0, 0); }

static u32 action_of(verdict v) {
  switch (v) {
  case ALLOW: return SECCOMP_RET_ALLOW;
  case DENY: return SECCOMP_RET_ERRNO | EPERM;
  case ABSENT: return SECCOMP_RET_ERRNO | ENOSYS;
  case REFUSE:
  case WHEN:
  case WHEN_SELF: break;
  }
  return SECCOMP_RET_TRAP;
}

// The rows first..end are of one call: its conditions, then its answer.
static void one_call(program *p, const rule *first, const rule *end) {
  verdict otherwise = REFUSE;
  size_t jump = p->n;
  put(p, BPF_JMP | BPF_JEQ | BPF_K, first->number, 0, 0);  // no: over all this, set below
  for (const rule *r = first; r < end; r++) {
    if (r->verdict < WHEN) {
      otherwise = r->verdict;
      continue;
    }
    // The kernel takes these arguments as 32-bit numbers; both architectures are little-endian.
    load(p, offsetof(struct seccomp_data, args) + r->argument * sizeof(u64));
    if (r->mask != ~0u) put(p, BPF_ALU | BPF_AND | BPF_K, r->mask, 0, 0);
    put(p, BPF_JMP | BPF_JEQ | BPF_K, r->verdict == WHEN_SELF ? (u32)getpid() : r->value, 0, 1);
    answer(p, SECCOMP_RET_ALLOW);
  }
  answer(p, action_of(otherwise));
  p->v[jump].jf = (u8)(p->n - jump - 1);
}

#ifdef OUR_ARCH
static void make_program(program *p) {
  load(p, offsetof(struct seccomp_data, arch));
  put(p, BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0);
  answer(p, SECCOMP_RET_KILL_PROCESS);
  load(p, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
  put(p, BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1);  // x32
  answer(p, SECCOMP_RET_KILL_PROCESS);
#endif
  for (const rule *r = rules, *end = rules + HS_COUNT(rules); r < end;) {
    const rule *next = r + 1;
    while (next < end && next->number == r->number) next++;
    one_call(p, r, next);
    r = next;
  }
  answer(p, action_of(REFUSE));
}

// ---- what is refused ----------------------------------------------------------------------------
static sandbox_counts *counts;

static void on_refused(int sig, siginfo_t *info, void *where) {
  enum { FROM_SECCOMP = 1 };  // SYS_SECCOMP, which the C library's headers leave out
  (void)sig;
  if (info->si_code != FROM_SECCOMP) return;
  u32 call = (u32)info->si_syscall;
  if (counts) atomic_fetch_add(&(*counts)[HS_MIN(call, (u32)SANDBOX_CALLS - 1)], 1);
  ucontext_t *u = where;
#if defined(__x86_64__)
  u->uc_mcontext.gregs[REG_RAX] = -EPERM;
#else
  u->uc_mcontext.regs[0] = (u64)-EPERM;
#endif
}
#endif

const char *sandbox_filter_missing(void) {
#if !defined(OUR_ARCH)
  return "no table for this architecture";
#else
  u32 action = SECCOMP_RET_TRAP;
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0
             ? NULL
             : "the kernel, or the container, has no seccomp filters";
#endif
}

hs_status sandbox_filter(sandbox_counts *refused) {
#ifdef OUR_ARCH
  counts = refused;
  struct sigaction a = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigaction(SIGSYS, &a, NULL);
  program p = {0};
  make_program(&p);
  struct sock_fprog f = {.len = (unsigned short)p.n, .filter = p.v};
  long failed = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &f);
  hs_status s = failed ? hs_fail_errno(HS_E_WORKER, "seccomp") : HS_GOOD;
  hs_vec_free(&p);
  return s;
#else
  (void)refused;
  return hs_fail(HS_E_UNSUPPORTED, "no filter of system calls for this architecture");
#endif
}

// ---- in words -----------------------------------------------------------------------------------
bool sandbox_refused(const u32 times[SANDBOX_CALLS], hs_buf *b) {
  bool any = false;
  for (u32 call = 0; call < SANDBOX_CALLS; call++) {
    if (!times[call]) continue;
    const rule *known = NULL;
    for (size_t k = 0; k < HS_COUNT(rules); k++)
      if (rules[k].number == call) known = &rules[k];
    hs_buf_puts(b, any ? ", " : "");
    if (known && known->verdict == REFUSE) hs_buf_printf(b, "%s (%s)", known->name, known->reason);
    else if (known) hs_buf_puts(b, known->name);
    else if (call < SANDBOX_CALLS - 1) hs_buf_printf(b, "system call %u", call);
    else hs_buf_puts(b, "other system calls");
    if (times[call] == 1) hs_buf_puts(b, " once");
    else hs_buf_printf(b, " %u times", times[call]);
    any = true;
  }
  return any;
}
