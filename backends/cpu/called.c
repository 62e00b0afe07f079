// called.c — instructions that functions of core/eval do: calls of libraries (LAPACK, the GPU's
// libraries by their meaning) and what happens between devices.
//
// XLA:CPU calls functions of its runtime for these, and so does this backend: the evaluator's, on
// the values where they lie. What is left are operations that the backend has no code for. The
// evaluator's function for one operation is a kernel in plain C; those are counted as fallbacks,
// and what measures refuses them unless told otherwise.
//
// Between devices: the devices of a program run in step (exec.c), so that all that come to a
// collective have their operands ready when it is their turn. Its groups, its deadlocks and its
// result are the evaluator's (hlo_eval_together).
#include "backends/cpu/cpu.h"
#include "core/analysis/customcall.h"

#include <stdatomic.h>

// Values in this backend's memory have the sizes of their shapes, and are arrays.
static bool holds_value(const hlo_shape *s) {
  for (u32 k = 0, n = hlo_shape_leaves(s); k < n; k++) {
    hlo_dtype t = hlo_shape_leaf(s, k)->dtype;
    if (t == HLO_OPAQUE || t == HLO_BUFFER) return false;
  }
  return !hlo_shape_is_dynamic(s);
}

static const hlo_eval_peer *_Atomic peer;
void cpu_called_by(const hlo_eval_peer *p) { atomic_store(&peer, p); }

static bool is_of_peer(const hlo_instr *i) {
  const hlo_eval_peer *p = atomic_load(&peer);
  return p && i->opcode == HLO_CUSTOM_CALL && p->covers(p->arg, i);
}

bool cpu_is_effect(const hlo_instr *i) {
  return i->opcode == HLO_CUSTOM_CALL && hlo_has_side_effect(i);
}

cpu_called cpu_called_of(const hlo_instr *i) {
  bool theirs = is_of_peer(i);
  if (!(theirs || hlo_eval_supports(i, NULL)) || !holds_value(i->shape)) return CPU_CALLED_NOT;
  for (u32 k = 0; k < i->noperands; k++)
    if (!holds_value(hlo_operand(i, k)->shape)) return CPU_CALLED_NOT;
  if (theirs) return CPU_CALLED_LIBRARY;
  switch (i->opcode) {
  case HLO_PARTITION_ID:
  case HLO_REPLICA_ID:
  case HLO_ALL_REDUCE_DONE:
  case HLO_ALL_GATHER_DONE:
  case HLO_COLLECTIVE_PERMUTE_DONE: return CPU_CALLED_DEVICES;
  case HLO_CUSTOM_CALL:
    return hlo_custom_is_of_devices(i) ? CPU_CALLED_DEVICES : CPU_CALLED_LIBRARY;
  // What goes on beside the program.
  case HLO_INFEED:
  case HLO_OUTFEED: return CPU_CALLED_NOT;
  case HLO_RNG_GET_AND_UPDATE_STATE:
    return CPU_CALLED_LIBRARY;  // two words: there is no faster way
  default: break;
  }
  if (hlo_op_has(i->opcode, HLO_F_COLLECTIVE)) return CPU_CALLED_DEVICES;
  bool whole = !hlo_op_has(i->opcode, HLO_F_CONTROL | HLO_F_SEND_RECEIVE | HLO_F_ASYNC) &&
               i->opcode != HLO_FUSION;
  return whole ? CPU_CALLED_EVALUATOR : CPU_CALLED_NOT;
}

const char *cpu_called_text(cpu_called c) {
  static const char *const text[] = {"", "library call", "between devices", "evaluator"};
  return text[c];
}

static void leave(void *data, size_t bytes, void *arg) { (void)data, (void)bytes, (void)arg; }

// A value over leaves in the program's memory; those in another order than row-major are copied.
static hs_status operand_value(const hlo_shape *s, void *const **bufs, hlo_literal **out) {
  if (hlo_shape_is_tuple(s)) {
    hlo_literal **kids = hs_calloc(s->nelems + 1, sizeof *kids);
    hs_status st = HS_GOOD;
    u32 n = 0;
    for (; n < s->nelems && hs_ok(st); n++) st = operand_value(s->elems[n], bufs, &kids[n]);
    if (hs_ok(st)) *out = hlo_literal_tuple(s, s->nelems, kids);
    else
      for (u32 k = 0; k < n; k++) hlo_literal_unref(kids[k]);
    hs_free(kids);
    return st;
  }
  void *p = *(*bufs)++;
  if (hlo_shape_is_array(s) && hlo_shape_is_row_major(s) && p) {
    *out = hlo_literal_wrap(s, p, block_leaf_bytes(s), leave, NULL);
    return HS_GOOD;
  }
  HS_TRY(hlo_literal_new(s, out));
  if (hlo_shape_is_array(s) && p) {
    i64 from[HLO_MAX_RANK], to[HLO_MAX_RANK];
    cpu_strides(s, from);
    hlo_row_major_strides(s->rank, s->dims, to);
    cpu_relayout((*out)->data, to, p, from, s->rank, s->dims, hlo_dtype_storage(s->dtype));
  }
  return HS_GOOD;
}

static void store_value(const hlo_literal *l, const hlo_shape *s, void *const **bufs) {
  if (hlo_shape_is_tuple(s)) {
    for (u32 k = 0; k < s->nelems; k++) store_value(l->children[k], s->elems[k], bufs);
    return;
  }
  if (hlo_shape_is_array(s)) {
    i64 from[HLO_MAX_RANK], to[HLO_MAX_RANK];
    cpu_strides(s, to);
    hlo_row_major_strides(s->rank, s->dims, from);
    cpu_relayout(**bufs, to, l->data, from, s->rank, s->dims, hlo_dtype_storage(s->dtype));
  }
  ++*bufs;
}

static hs_status operands_of(const hlo_instr *i, void *const **bufs, hlo_literal **ops) {
  hs_status st = HS_GOOD;
  for (u32 k = 0; k < i->noperands && hs_ok(st); k++)
    st = operand_value(hlo_operand(i, k)->shape, bufs, &ops[k]);
  return st;
}

hs_status cpu_called_run(const hlo_instr *i, u32 replicas, u32 partitions, const bool *here,
                         void *const *const *bufs, u64 *rng) {
  u32 n = replicas * partitions;
  hlo_literal ***ops = hs_calloc(n, sizeof *ops), **outs = hs_calloc(n, sizeof *outs);
  void *const **at = hs_calloc(n, sizeof *at);
  hs_status st = HS_GOOD;
  for (u32 d = 0; d < n && hs_ok(st); d++) {
    ops[d] = hs_calloc(i->noperands + 1, sizeof **ops);
    at[d] = bufs[d];
    if (!here || here[d]) st = operands_of(i, &at[d], ops[d]);
  }
  const hlo_eval_options opt = {.rng = rng,
                                .keep_denormals = cpu_par_keeps_denormals(),
                                .peer = atomic_load(&peer),
                                .share = cpu_par_for};
  if (hs_ok(st) && n == 1) st = hlo_eval_instr(i, i->noperands, ops[0], &opt, outs);
  else if (hs_ok(st))
    st = hlo_eval_together(i, replicas, partitions, here, (hlo_literal *const *const *)ops, &opt,
                           outs);
  for (u32 d = 0; d < n; d++) {
    if (hs_ok(st) && outs[d]) store_value(outs[d], i->shape, &at[d]);
    hlo_literal_unref(outs[d]);
    for (u32 k = 0; ops[d] && k < i->noperands; k++) hlo_literal_unref(ops[d][k]);
    hs_free(ops[d]);
  }
  hs_free(ops);
  hs_free(outs);
  hs_free(at);
  return st;
}
