// fold.c — the simplifications that XLA makes on the way to HLO and that decide what the module
// looks like: constants are computed and shared and come last among the operands of commutative
// operations (constant_ops.c), operations become simpler ones (canonical.c), loops lose what they
// do not change, and what nobody uses is left out.
#include "core/mlir/tree.h"

static void simplify(mlir_reader *R, mlir_op *op) {
  // patterns that undo each other would not end
  for (int rounds = 0; rounds < 16; rounds++) {
    if (op->row->flags & MLIR_F_COMMUTES && op->nops == 2 && mlir_is_constant(op->ops[0]) &&
        !mlir_is_constant(op->ops[1])) {
      mlir_value *first = op->ops[0];
      op->ops[0] = op->ops[1];
      op->ops[1] = first;
    }
    if (op->row->opcode == HLO_CONSTANT && op->nres == 1) {
      mlir_share_constant(R, op);
      return;
    }
    if (!mlir_fold_constant(R, op) && !mlir_canonicalize(R, op)) return;
    if (RX->failed || op->res[0].same) return;
    for (u32 k = 0; k < op->nops; k++) op->ops[k] = mlir_real(op->ops[k]);
  }
}

// Operands of live operations are counted before the operations that define them are reached.
static void mark(mlir_op *op) {
  op->live = op->row->flags & MLIR_F_EFFECT;
  for (u32 k = 0; k < op->nres; k++) op->live |= op->res[k].uses > 0;
  if (!op->live) return;
  for (u32 k = 0; k < op->nregions; k++)
    for (mlir_op *in = op->regions[k]->last; in; in = in->prev) mark(in);
  for (u32 k = 0; k < op->nops; k++) op->ops[k]->uses++;
}

// What a loop hands on unchanged in every iteration is no state: its uses become those of the value
// outside, which the loop then captures.
static void drop_constant_state(mlir_op *op) {
  if (op->row->opcode != HLO_WHILE || op->nregions != 2 || op->nres != op->nops) return;
  mlir_region *cond = op->regions[0], *body = op->regions[1];
  const mlir_op *ret = body->last;
  if (!ret || ret->nops != op->nops || cond->nargs != op->nops || body->nargs != op->nops) return;
  for (u32 k = 0; k < op->nops; k++) {
    if (ret->ops[k] != &body->args[k]) continue;
    body->args[k].same = cond->args[k].same = op->res[k].same = op->ops[k];
  }
}

// How often values are used, before anything is simplified; `mark` counts anew.
static void count(mlir_region *r, bool clear) {
  for (mlir_op *op = r->first; op; op = op->next) {
    for (u32 k = 0; k < op->nregions; k++) count(op->regions[k], clear);
    for (u32 k = 0; k < op->nops; k++) op->ops[k]->uses = clear ? 0 : op->ops[k]->uses + 1;
    for (u32 k = 0; clear && k < op->nres; k++) op->res[k].uses = 0;
  }
}

// Depth of regions is bounded by the reader's.
static bool walk(mlir_reader *R, mlir_region *r) {
  for (mlir_op *op = r->first; op; op = op->next) {
    if (hs_interrupted()) return hlo_lex_status(RX, hs_stopped(), op->at);
    for (u32 k = 0; k < op->nops; k++) op->ops[k] = mlir_real(op->ops[k]);
    drop_constant_state(op);
    for (u32 k = 0; k < op->nregions; k++)
      if (!walk(R, op->regions[k])) return false;
    simplify(R, op);
    if (RX->failed) return false;
  }
  return true;
}

// As written, everything stays.
static bool keep_all(mlir_reader *R, mlir_region *r) {
  for (mlir_op *op = r->first; op; op = op->next) {
    if (hs_interrupted()) return hlo_lex_status(RX, hs_stopped(), op->at);
    op->live = true;
    for (u32 k = 0; k < op->nregions; k++)
      if (!keep_all(R, op->regions[k])) return false;
  }
  return true;
}

bool mlir_simplify(mlir_reader *R, mlir_region *r) {
  if (R->opt.as_written) return keep_all(R, r);
  count(r, false);
  bool ok = walk(R, r);
  count(r, true);
  if (!ok) return false;
  for (mlir_op *op = r->last; op; op = op->prev) mark(op);
  return true;
}
