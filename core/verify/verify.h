// verify.h — the verifier: which modules are valid HLO, by the rules and in the words of XLA's
// HloVerifier.
#ifndef HLO_VERIFY_H
#define HLO_VERIFY_H

#include "core/ir/ir.h"

// All false by default: what XLA checks wherever it verifies.
typedef struct hlo_verify_options {
  bool layout_sensitive;          // default false
  bool disallow_mixed_precision;  // default false
  // Rules that only some of XLA's pipelines ask for; all off by default.
  bool broadcast_dims_ordered;  // broadcast dimensions must ascend
  bool call_threads;            // to_apply computations must run on the caller's execution thread
  bool no_host_memory;          // no layout may name the host's memory space
  bool no_deadlocks;            // send/recv of a scheduled module must pair up in order
  bool reshape_is_bitcast;      // with layout_sensitive: reshapes must not move data
  bool cpu_gpu;                 // only sub-byte types may have a custom element size
  bool allow_unbounded;         // accept '?' dimensions
  // do not compare replica groups with the module's replica and partition counts
  bool ignore_group_counts;
} hlo_verify_options;
// Whole module; the status holds every violation found (at most 20). NULL options: defaults.
hs_status hlo_verify(const hlo_module *, const hlo_verify_options *);
// Some computations of a module: what the pass runner calls for those whose generation moved.
hs_status hlo_verify_computations(const hlo_module *, u32 n, const hlo_computation *const *,
                                  const hlo_verify_options *);
// One computation; the module around it is taken to be sound.
hs_status hlo_verify_computation(const hlo_computation *, const hlo_verify_options *);

#endif
