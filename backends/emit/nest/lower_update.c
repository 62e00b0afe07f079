// lower_update.c — results that are an operand with a part of it replaced: dynamic-update-slice
// at the end of a kernel.
//
// Such a kernel stores the part only. Whoever runs it makes sure that the result's buffer holds the
// operand's bytes before (emit_kernel.updates): for nothing where the result is computed in the
// operand's own memory, as loops do with what they carry, else by a copy.
#include "backends/emit/nest/lower.h"
#include "core/analysis/live.h"

// Result leaf `leaf` of the computation, behind its tuples.
static const hlo_instr *element(const hlo_instr *i, u32 leaf) {
  while (i->opcode == HLO_TUPLE) {
    u32 k = 0, m;
    while (leaf >= (m = hlo_shape_leaves(hlo_operand(i, k)->shape))) leaf -= m, k++;
    i = hlo_operand(i, k);
  }
  return i;
}

static bool same_layout(const hlo_shape *a, const hlo_shape *b) {
  return a->layout == b->layout || (hlo_shape_is_row_major(a) && hlo_shape_is_row_major(b));
}

// Whether every use of i leads elementwise to the new part, so that each element is read before it
// is stored, and by nobody else. seen: by position.
static bool only_for(const hlo_instr *i, const hlo_instr *update, const hlo_positions *at,
                     bool *seen, u32 depth) {
  bool *known = &seen[hlo_position_of(at, i)];
  if (*known) return true;
  if (depth > 64) return false;
  *known = true;
  hlo_for_each_use(u, i) {
    const hlo_instr *x = u->user;
    if (x == update) {
      if (hlo_operand(update, 1) != i) return false;
      continue;
    }
    bool same_index = hlo_op_has(x->opcode, HLO_F_ELEMENTWISE) &&
                      hlo_shape_same_dims(x->shape, hlo_operand(update, 1)->shape);
    if (!same_index || hlo_is_root(x) || !only_for(x, update, at, seen, depth + 1)) return false;
  }
  return true;
}

// Whether the update is all that the kernel does with the operand, but for reading that part.
static bool updates_alone(const hlo_instr *i, const hlo_instr *op) {
  if (op->opcode != HLO_PARAMETER || i->nuses > 1) return false;
  for (u32 j = 1; j < i->noperands; j++)
    if (hlo_operand(i, j) == op) return false;
  if (op->nuses == 1) return true;
  hs_arena a = {0};
  u32 n = i->parent->ninstrs;
  hlo_positions at = hlo_positions_in(n, hlo_post_order(i->parent, &a), &a);
  bool *seen = HS_NEW_ARRAY(&a, bool, n), ok = true;
  hlo_for_each_use(u, op)
    if (u->user != i)
      ok = ok && hlo_is_replaced_part(u->user, i) && !hlo_is_root(u->user) &&
           only_for(u->user, i, &at, seen, 0);
  hs_arena_free(&a);
  return ok;
}

const hlo_instr *lower_update_of(const lowering *l, const lower_frame *f, const hlo_instr *root,
                                 u32 leaf, u32 *in) {
  const hlo_instr *i = f->lone ? root : element(root, leaf);
  if (i->opcode != HLO_DYNAMIC_UPDATE_SLICE) return NULL;
  const hlo_instr *op = hlo_operand(i, 0), *up = hlo_operand(i, 1);
  if (op->shape->dtype != i->shape->dtype || up->shape->dtype != i->shape->dtype ||
      up->shape->elements == 0)
    return NULL;
  u32 k = 0;
  if (!f->lone) {
    if (!updates_alone(i, op)) return NULL;
    k = (u32)hlo_param_number(op);
  }
  const hlo_shape *from = hlo_operand(f->caller, k)->shape,
                  *to = hlo_shape_leaf(l->top->shape, leaf);
  if (!hlo_shape_is_array(from) || !same_layout(from, to)) return NULL;
  *in = l->leaf_base[k];
  return i;
}
