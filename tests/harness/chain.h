// chain.h — a module's whole way: load, verify; print and proto read back; costs, live ranges,
// estimates, pictures; the evaluator against the cpu backend; passes and pipelines, verified after
// each and compared with the module before.
#ifndef TESTS_HARNESS_CHAIN_H
#define TESTS_HARNESS_CHAIN_H

#include "backends/backend.h"

typedef struct chain_counts {
  u64 read, valid, evaluated;  // inputs that are modules, valid ones, evaluated ones
  u64 ran, refused;            // on cpu: results compared; modules that it declines
  u64 unsettled;               // results that rounding decides, see chain.c
  u64 passes, changed, compared, declined;
} chain_counts;
void chain_add(chain_counts *sum, const chain_counts *);
void chain_say(const chain_counts *);

typedef struct chain {
  // Every module goes through so many passes, another choice for each, and through the pipelines
  // cpu and tuned; 0: through every pass.
  u32 passes;
  // told what begins; may be NULL
  void (*step)(void *arg, const char *what);
  void *arg;
  backend_context *backends;
} chain;
// Starts no process yet; ends those that were started.
void chain_open(chain *);
void chain_close(chain *);
// False: `why` says what went wrong. number: chooses passes.
bool chain_check(chain *, const char *bytes, size_t n, u64 number, chain_counts *, hs_buf *why);

#endif
