// fold.c — the simplifications that XLA makes on the way to HLO and that decide what the module
// looks like: operations that hand their operand on unchanged go, constants come last among the
// operands of commutative operations, a constant broadcast to all elements is a constant, and what
// nobody uses is left out.
#include "core/mlir/tree.h"

static bool is_constant_op(const mlir_op *op) { return op->row->opcode == HLO_CONSTANT; }

// A constant, or one repeated: what XLA's folders see as a constant.
static bool is_constant(const mlir_value *v) {
  const mlir_op *d = v->def;
  if (!d) return false;
  if (is_constant_op(d)) return true;
  return d->row->opcode == HLO_BROADCAST && d->nops == 1 && mlir_real(d->ops[0])->def &&
         is_constant_op(mlir_real(d->ops[0])->def) && d->ops[0]->shape && !d->ops[0]->shape->rank;
}

static bool hands_on(mlir_reader *R, const mlir_op *op) {
  if (op->nops < 1 || op->nres != 1 || !op->res[0].shape || op->res[0].shape != op->ops[0]->shape)
    return false;
  hlo_ints v = {0, NULL};
  switch (op->row->opcode) {
  case HLO_CONVERT:
  case HLO_RESHAPE: return op->nops == 1;
  case HLO_CONCATENATE: return op->nops == 1;
  case HLO_SLICE: return !op->res[0].shape->dynamic;
  case HLO_REVERSE: return mlir_get_ints(R, op, "dims|dimensions", &v) && v.n == 0;
  case HLO_BROADCAST:
  case HLO_TRANSPOSE:
    if (!mlir_get_ints(R, op, "dims|permutation|broadcast_dimensions", &v)) return false;
    for (u32 k = 0; k < v.n; k++)
      if (v.v[k] != k) return false;
    return v.n == op->res[0].shape->rank;
  default: return false;
  }
}

static void simplify(mlir_reader *R, mlir_op *op) {
  if (op->row->flags & MLIR_F_COMMUTES && op->nops == 2 && is_constant(op->ops[0]) &&
      !is_constant(op->ops[1])) {
    mlir_value *first = op->ops[0];
    op->ops[0] = op->ops[1];
    op->ops[1] = first;
  }
  if (hands_on(R, op)) op->res[0].same = op->ops[0];
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

bool mlir_simplify(mlir_reader *R, mlir_region *r) {
  if (!walk(R, r)) return false;
  for (mlir_op *op = r->last; op; op = op->prev) mark(op);
  return true;
}
