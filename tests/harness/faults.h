// faults.h — makes the n-th call of a kind into the system fail: an allocation, a read, a fork.
// Only programs that are linked with --wrap for the functions of faults.def (tests/faultcheck).
#ifndef TESTS_HARNESS_FAULTS_H
#define TESTS_HARNESS_FAULTS_H

#include "core/base/base.h"

typedef enum fault_kind {
  FAULT_SMALL,  // blocks below 64 KiB, of the heap and of arenas
  FAULT_LARGE,  // larger ones
  FAULT_READ,
  FAULT_WRITE,  // writing, and what makes a file whole: truncate, sync, rename
  FAULT_OPEN,
  FAULT_FORK,  // processes and threads
  FAULT_MMAP,
  FAULT_PIPE,
  FAULT_KINDS
} fault_kind;
const char *fault_name(fault_kind);
// The kind of this name; FAULT_KINDS when there is none.
fault_kind fault_find(const char *name);

// From now on calls are counted, and call n of the kind fails, once; n 0: none does.
void fault_arm(fault_kind kind, u32 n);
// No more. Whether one failed.
bool fault_disarm(void);
// The function that failed, and the calls of a kind since fault_arm.
const char *fault_function(void);
u32 fault_count(fault_kind);
// Arms what the environment's HS_FAULTS=KIND:N says, for a worker, say. False: it says something
// else.
bool fault_from_environment(void);

#endif
