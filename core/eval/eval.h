// eval.h — the meaning of HLO: a reference evaluator for every operation, written to be read.
// Passes, backends and constant folding are checked against it. XLA's counterpart is HloEvaluator
// (xla/hlo/evaluator/hlo_evaluator.h).
//
// Values are literals, row-major whatever the layout says. An evaluation changes neither the module
// nor its arguments; two of them may run at once on modules of different contexts.
#ifndef HLO_EVAL_H
#define HLO_EVAL_H

#include "core/types/compare.h"
#include "core/eval/inputs.h"
#include "core/ir/ir.h"

// The call stack of an evaluation: the computation that runs now was called by `caller`, in this
// iteration when that is a while loop (from 0; -1 otherwise). NULL: the entry computation.
typedef struct hlo_eval_site hlo_eval_site;
struct hlo_eval_site {
  const hlo_instr *caller;
  i64 iteration;
  const hlo_eval_site *outer;
};

// What an observer is told after an instruction has run. The value is borrowed; keeping a reference
// is allowed and keeps the evaluator from overwriting it.
typedef struct hlo_observation {
  const hlo_instr *instr;
  const hlo_literal *value;
  const hlo_eval_site *site;
} hlo_observation;

// ---- the host's queues (host.c) -----------------------------------------------------------------
// What infeed, outfeed, and sends and receives with is_host_transfer read from and write to. Every
// evaluation reads the given values from the start and replaces the outputs of the one before; one
// evaluation at a time uses a host.
typedef struct hlo_host hlo_host;
enum { HLO_HOST_FEED = -1 };     // the channel of infeed and outfeed
#define HLO_HOST_ALL UINT32_MAX  // every device
hlo_host *hlo_host_new(void);
void hlo_host_free(hlo_host *);
// Appends a value for a device to read; takes the reference.
void hlo_host_give(hlo_host *, u32 device, i64 channel, hlo_literal *take);
// Appends the values of lines "[@DEVICE] [#CHANNEL] SHAPE LITERAL". E_SYNTAX, E_SHAPE, E_LITERAL
// with the line.
hs_status hlo_host_read(hlo_host *, hlo_ctx *, const char *text, size_t n);
// The outputs, in the same form, by device.
void hlo_host_write(const hlo_host *, hs_buf *);

// Computes custom calls that the evaluator does not know: `covers` says which, `call` makes the
// result (a new reference) from borrowed operands.
typedef struct hlo_eval_peer {
  bool (*covers)(void *arg, const hlo_instr *);
  hs_status (*call)(void *arg, const hlo_instr *, u32 n, hlo_literal *const *ops,
                    hlo_literal **out);
  void *arg;
} hlo_eval_peer;

typedef struct hlo_eval_options {
  // default false: arithmetic flushes denormals as XLA:CPU does; moves keep bits
  bool keep_denormals;
  // default false: a sum or product of floats narrower than f32 is rounded once, at the end, as
  // XLA's evaluator does; true: after each term, as XLA:CPU's code does within 32 terms of a reduce
  bool round_each_term;
  i64 max_bytes;  // refuse when live values would exceed this; 0 = no limit
  // simulated devices for collectives; 0 = as many as the module says, or else as its groups need
  u32 nreplicas, npartitions;
  u64 rng_seed;  // for the rng opcode
  // Two words (hlo_eval_rng_begin) that rng and rng-get-and-update-state go on from, and leave for
  // the next evaluation; NULL: each evaluation begins with the seed.
  u64 *rng;
  const hlo_eval_peer *peer;  // NULL: unknown custom calls are an error
  hlo_host *host;             // NULL: no host; infeed and its kind then fail
  // Called after every instruction of the entry and of called computations (not inside the scalar
  // computations of reduce, sort and their like); for captures and traces. A bad status ends the
  // evaluation with it. Of several simulated devices only the first is observed.
  hs_status (*observe)(void *arg, const hlo_observation *);
  void *observe_arg;
  // Calls fn(ctx, k, thread) for each k < n, on several threads; NULL: there is one. Batches of a
  // library's calls are shared by it.
  void (*share)(void (*fn)(void *ctx, i64 k, u32 thread), void *ctx, i64 n);
} hlo_eval_options;

// Evaluates the entry computation. args: one literal per parameter (borrowed). *out is a new
// reference. E_UNSUPPORTED names the opcode (diag subject) that is not covered; E_ELIDED when a
// {...} constant is needed.
hs_status hlo_eval_module(const hlo_module *, u32 nargs, hlo_literal *const *args,
                          const hlo_eval_options *, hlo_literal **out);
hs_status hlo_eval_computation(const hlo_computation *, u32 nargs, hlo_literal *const *args,
                               const hlo_eval_options *, hlo_literal **out);
// What an evaluation's random numbers begin with.
void hlo_eval_rng_begin(u64 seed, u64 rng[2]);
// One instruction on given operand values: constant folding.
hs_status hlo_eval_instr(const hlo_instr *, u32 n, hlo_literal *const *operands,
                         const hlo_eval_options *, hlo_literal **out);
// The devices that a module says, or else as many as its groups and manual regions speak of.
void hlo_count_devices(const hlo_module *, i64 *replicas, i64 *partitions);
// The devices that a run of the module simulates: those that it says, or else as many as its
// groups need; one when nothing in it tells devices apart. *transfers: it has sends or receives.
// E_LIMIT.
hs_status hlo_eval_devices(const hlo_module *, const hlo_eval_options *, u32 *replicas,
                           u32 *partitions, bool *transfers);
// One instruction on several devices at once, each with its own operands; device k is partition
// k % partitions of replica k / partitions. Only those that are `here` come (NULL: all): a
// collective that waits for another one is a deadlock, E_RUN. outs[k]: new references, NULL for the
// absent and after an error.
hs_status hlo_eval_together(const hlo_instr *, u32 replicas, u32 partitions, const bool *here,
                            hlo_literal *const *const *ops, const hlo_eval_options *,
                            hlo_literal **outs);
// The devices of the group that `device` is in at a collective other than a permute: out[0..n), in
// order, of which it is number *position; room for replicas * partitions. False: in none, or groups
// that the evaluator does not know.
bool hlo_eval_group(const hlo_instr *, u32 replicas, u32 partitions, u32 device, u32 *n, u32 *out,
                    u32 *position);
// The device whose value `device` gets by a permute; replicas * partitions: none, and it gets
// zeros.
u32 hlo_eval_source(const hlo_instr *, u32 replicas, u32 partitions, u32 device);
// Whether devices that execute these collectives, in different branches of a conditional, mean each
// other: they are the same but for names and operands.
bool hlo_eval_meets(const hlo_instr *, const hlo_instr *);
// Whether the evaluator covers the instruction; `why` (may be NULL) gets a short reason otherwise.
bool hlo_eval_supports(const hlo_instr *, hs_buf *why);
// E_UNSUPPORTED names the first instruction that a run of the module would need and the evaluator
// does not cover.
hs_status hlo_eval_check(const hlo_module *, const hlo_eval_options *);
// Where each device's tile starts, in tiles: coord[device * rank + dimension], caller's, ndevices *
// rank entries; all zero when every device holds the whole. False for shardings that are no tiling
// by device numbers. share[device]: what it has beside that.
typedef struct hlo_share {
  u32 group;   // devices of one group make one array
  u32 addend;  // the array is the sum of what those with different numbers have
  u32 copy;    // those with different numbers have the same
} hlo_share;
bool hlo_sharding_tiles(const hlo_sharding *, u32 rank, u32 ndevices, i64 *coord, hlo_share *share);
// to[k] += x[k] in a type's own arithmetic, k < n; false for a type without addition.
bool hlo_add_bytes(hlo_dtype, void *to, const void *x, i64 n);
// The same of result `which` of an xla.sdy.LocalToGlobalShape, the end of a manual region.
bool hlo_manual_tiles(const hlo_instr *, u32 which, u32 rank, u32 ndevices, i64 *coord);

#endif
