// faults.c — calls into the system that fail when they are told to. See faults.h and faults.def.
//
// The linker's --wrap sends a call of malloc to __wrap_malloc and keeps the function itself as
// __real_malloc. What libraries call inside of themselves stays as it is. Counting is atomic: the
// threads of a command count together.
#include "tests/harness/faults.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[FAULT_KINDS] = {"small", "large", "read", "write",
                                               "open",  "fork",  "mmap", "pipe"};
static u32 counts[FAULT_KINDS];
static bool armed;
static fault_kind victim;
static u32 fails_at;
static const char *failed;

const char *fault_name(fault_kind k) { return names[k]; }

fault_kind fault_find(const char *name) {
  fault_kind k = 0;
  while (k < FAULT_KINDS && strcmp(names[k], name) != 0) k++;
  return k;
}

void fault_arm(fault_kind kind, u32 n) {
  memset(counts, 0, sizeof counts);
  failed = NULL;
  victim = kind;
  fails_at = n;
  __atomic_store_n(&armed, true, __ATOMIC_RELEASE);
}

bool fault_disarm(void) {
  __atomic_store_n(&armed, false, __ATOMIC_RELEASE);
  return failed != NULL;
}

const char *fault_function(void) { return failed ? failed : ""; }
u32 fault_count(fault_kind k) { return counts[k]; }

bool fault_from_environment(void) {
  const char *want = getenv("HS_FAULTS");
  if (!want) return true;
  char name[16];
  unsigned n;
  if (sscanf(want, "%15[a-z]:%u", name, &n) != 2 || fault_find(name) == FAULT_KINDS) return false;
  fault_arm(fault_find(name), n);
  return true;
}

static bool hits(fault_kind kind, const char *function) {
  if (HS_LIKELY(!__atomic_load_n(&armed, __ATOMIC_ACQUIRE))) return false;
  u32 n = __atomic_add_fetch(&counts[kind], 1, __ATOMIC_RELAXED);
  if (kind != victim || n != fails_at) return false;
  failed = function;
  return true;
}

#define BLOCK(n) ((n) < 64 << 10 ? FAULT_SMALL : FAULT_LARGE)
#define READ FAULT_READ
#define WRITE FAULT_WRITE
#define OPEN FAULT_OPEN
#define FORK FAULT_FORK
#define MMAP FAULT_MMAP
#define PIPE FAULT_PIPE
#define FAULT(kind, name, result, params, args, value, error) \
  result __real_##name params;                                \
  result __wrap_##name params;                                \
  result __wrap_##name params {                               \
    if (!hits(kind, #name)) return __real_##name args;        \
    errno = error;                                            \
    return value;                                             \
  }
#include "tests/harness/faults.def"
