// rules.h — what the verifier's files share; private to core/verify.
#ifndef HLO_VERIFY_RULES_H
#define HLO_VERIFY_RULES_H

#include "core/infer/rules.h"
#include "core/verify/verify.h"

enum { VERIFY_MAX_ERRORS = 20, VERIFY_HOST_MEMORY = 5 };

typedef struct verifier {
  const hlo_module *m;
  hlo_verify_options o;
  hs_status errors;
  u32 nerrors;
  u32 *pos;          // by instruction id: place in the order that is being checked
  bool *fused;       // by computation id: body of a fusion
  bool has_buffers;  // any buffer-typed value in the module
} verifier;

// Adds a violation; `at` (may be NULL) is the instruction it is about.
void verify_report(verifier *, const hlo_instr *at, const char *fmt, ...) HS_PRINTF(3, 4);
// Reports and leaves the rule when the condition does not hold.
#define NEED(v, at, cond, ...)           \
  do {                                   \
    if (HS_UNLIKELY(!(cond))) {          \
      verify_report(v, at, __VA_ARGS__); \
      return;                            \
    }                                    \
  } while (0)
static inline bool verify_full(const verifier *v) { return v->nerrors >= VERIFY_MAX_ERRORS; }

// with layout when that matters
const char *verify_shape_text(const verifier *, const hlo_shape *);
// the same shape, layouts too when they matter
bool verify_same(const verifier *, const hlo_shape *, const hlo_shape *);
// "" and "main" are the same thread
bool verify_tracked_thread_equal(hs_str a, hs_str b);

// of the module, with a root and all parameters
bool verify_callable(const hlo_module *, const hlo_computation *);
void verify_instr(verifier *, const hlo_instr *);  // shapes.c
// custom-call, fusion, async: output_to_operand_aliasing
void verify_aliasing_attr(verifier *, const hlo_instr *);
void verify_collective(verifier *, const hlo_instr *);  // collectives.c
void verify_sharding(verifier *, const hlo_instr *);
void verify_channels(verifier *);
void verify_deadlocks(verifier *, const hlo_computation *);
void verify_async(verifier *, const hlo_instr *);  // async.c
void verify_buffers(verifier *, const hlo_computation *);

#endif
