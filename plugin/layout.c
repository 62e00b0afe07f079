// layout.c — the layouts of what results are computed from. StableHLO has no layouts; its
// conversion gives a transpose the layout in which it moves nothing, and what is elementwise has
// its operand's. Buffers are row-major: a result in another order would be moved at the end of
// every run, and could not be computed in the memory of an argument. So from the results backwards,
// through elementwise operations to the transposes, everything is made row-major; a transpose of a
// product is then the product of the exchanged operands (algsimp).
#include "plugin/plugin.h"

typedef HS_VEC(hlo_instr *) todo;

static bool may_change(const hlo_instr *i) {
  bool known = hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) || i->opcode == HLO_TRANSPOSE ||
               i->opcode == HLO_BROADCAST || i->opcode == HLO_COPY;
  return known && hlo_shape_is_array(i->shape) && !hlo_shape_is_row_major(i->shape);
}

static void visit(hlo_ctx *ctx, hlo_instr *i, todo *out) {
  if (!may_change(i)) return;
  hlo_set_shape(i, hlo_shape_with_default_layout(ctx, i->shape));
  hs_vec_push(out, i);
}

void plug_order_results(hlo_module *m) {
  todo list = {0};
  hlo_instr *root = m->entry->root;
  visit(m->ctx, root, &list);
  for (u32 k = 0; root->opcode == HLO_TUPLE && k < root->noperands; k++)
    visit(m->ctx, hlo_operand(root, k), &list);
  while (list.n) {
    hlo_instr *i = list.v[--list.n];
    for (u32 k = 0; hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) && k < i->noperands; k++)
      visit(m->ctx, hlo_operand(i, k), &list);
  }
  hs_vec_free(&list);
  // a tuple's elements have the layouts of its operands
  if (root->opcode == HLO_TUPLE) {
    const hlo_shape **e = hs_alloc((root->noperands + 1) * sizeof *e);
    for (u32 k = 0; k < root->noperands; k++) e[k] = hlo_operand(root, k)->shape;
    hlo_set_shape(root, hlo_shape_tuple(m->ctx, root->noperands, e));
    hs_free(e);
  }
}
