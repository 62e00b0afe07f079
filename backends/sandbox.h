// sandbox.h — how a worker is shut in, so that code which nobody vouches for (a stranger's module
// compiled to machine code, a library of custom calls) can compute and answer, and nothing else.
//
// Every worker has limits (sandbox_limit). A confined one has in addition a filter of system calls
// (seccomp), a list of files that it may read (Landlock), no capabilities and a limit on memory
// (sandbox_enter). The workers of plug-ins are not confined: drivers need devices, sockets and
// programs of their own. sandbox.def has the calls and the paths.
#ifndef BACKEND_SANDBOX_H
#define BACKEND_SANDBOX_H

#include "core/base/diag.h"

// `set sandbox`. auto: confined as far as the kernel can. on: fully, or no worker starts. off: only
// limited.
typedef enum sandbox_mode { SANDBOX_AUTO, SANDBOX_ON, SANDBOX_OFF } sandbox_mode;

// Refused calls are counted by the number of the system call; the last is for all others. The
// counts lie in memory that the worker shares with the shell.
enum { SANDBOX_CALLS = 512 };
typedef _Atomic u32 sandbox_counts[SANDBOX_CALLS];

// A build with a sanitizer is never confined: it does at its end what a sandbox refuses.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANDBOX_SANITIZED 1
#endif
#endif
#ifndef SANDBOX_SANITIZED
#define SANDBOX_SANITIZED 0
#endif

// What this kernel has, asked of it each time. no_*: why not; NULL when there.
typedef struct sandbox_support {
  const char *no_seccomp, *no_landlock;
  int landlock;  // ABI version; 0: none
} sandbox_support;
sandbox_support sandbox_probe(void);
// Appends what a confined worker lacks on this kernel, in words; false when it lacks nothing.
bool sandbox_lacks(hs_buf *);
// Appends "socket (the network) 2 times, ..." for the counts; false when they are all zero.
bool sandbox_refused(const u32 times[SANDBOX_CALLS], hs_buf *);

// ---- worker side --------------------------------------------------------------------------------
// Limits of every worker: no core dumps, no new privileges, as many open files as it needs; the
// first to go when memory ends.
void sandbox_limit(void);
typedef struct sandbox_policy {
  u64 memory;  // bytes of private memory; 0: no limit
  u32 nfiles;
  const char *const *files;  // to read, besides those of sandbox.def
} sandbox_policy;
// Confines the calling process, which must have one thread, for ever; `refused` outlives it. A
// second call changes nothing. What the kernel has and yet does not do is E_WORKER; what it does
// not have (sandbox_probe) is left out.
hs_status sandbox_enter(const sandbox_policy *, sandbox_counts *refused);

bool sandbox_confined(void);  // whether sandbox_enter has been here

// sandbox_filter.c: the filter of system calls, installed for this thread and those it starts.
hs_status sandbox_filter(sandbox_counts *refused);
const char *sandbox_filter_missing(void);  // NULL when the kernel has what it needs

#endif
