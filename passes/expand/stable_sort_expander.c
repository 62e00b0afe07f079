// stable_sort_expander.c — stable-sort-expander
// (xla/hlo/transforms/expanders/stable_sort_expander.cc): a stable sort becomes one that need not
// be, since its comparator knows the position of each element and no two are equal.
//
// The positions are an s32 iota along the sorted dimension: an operand that is one already, or one
// more operand. Two elements are equal when the comparator gives the same in both orders; then the
// position decides.
#include "passes/run/rewrite.h"

// An operand that holds the positions; noperands when there is none.
static u32 find_positions(const hlo_instr *s, i64 dim) {
  u32 k = 0;
  while (k < s->noperands &&
         (hlo_operand(s, k)->opcode != HLO_IOTA || hlo_operand(s, k)->shape->dtype != HLO_S32 ||
          hlo_attr_int(hlo_operand(s, k), HLO_ATTR_IOTA_DIMENSION, -1) != dim))
    k++;
  return k;
}

// The sort with positions as its last operand; what read the old one reads elements of it.
static hlo_instr *add_positions(pass_ctx *c, hlo_instr *s, i64 dim) {
  u32 n = s->noperands;
  hlo_instr *x = hlo_operand(s, 0), **ops = HS_NEW_ARRAY(c->scratch, hlo_instr *, n + 1);
  const hlo_shape **shapes = HS_NEW_ARRAY(c->scratch, const hlo_shape *, n + 1);
  for (u32 k = 0; k < n; k++)
    ops[k] = hlo_operand(s, k), shapes[k] = n == 1 ? s->shape : s->shape->elems[k];
  shapes[n] = pass_shape_as(x, HLO_S32);
  ops[n] = hlo_add(s->parent, HLO_IOTA, shapes[n], 0, NULL, NULL);
  hlo_set_attr_int(ops[n], HLO_ATTR_IOTA_DIMENSION, dim);
  hlo_instr *now =
      hlo_clone_instr(s->parent, s, hlo_shape_tuple(c->m->ctx, n + 1, shapes), n + 1, ops);
  hlo_instr **elems = HS_NEW_ARRAY(c->scratch, hlo_instr *, n);
  for (u32 k = 0; k < n; k++) elems[k] = hlo_add_gte(now, k);
  hlo_replace(s, n == 1 ? elems[0] : hlo_add_tuple(now->parent, n, elems));
  return now;
}

// f(b, a) beside f(a, b) in the comparator: the root of a copy of all that has operands, in which
// the parameters of each pair have changed places.
static hlo_instr *swapped_root(hlo_computation *f, hs_arena *scratch) {
  hlo_instr **order = hlo_post_order(f, scratch);
  u32 n = f->ninstrs;
  hlo_positions at = hlo_positions_in(n, order, scratch);
  hlo_instr **copy = HS_NEW_ARRAY(scratch, hlo_instr *, n), *root = NULL;
  for (u32 k = 0; k < n; k++) {
    hlo_instr *i = order[k];
    if (i->opcode == HLO_PARAMETER) copy[k] = f->params[hlo_param_number(i) ^ 1];
    else if (i->noperands == 0) copy[k] = i;
    else {
      hlo_instr **ops = HS_NEW_ARRAY(scratch, hlo_instr *, i->noperands);
      for (u32 o = 0; o < i->noperands; o++) ops[o] = copy[hlo_position_of(&at, hlo_operand(i, o))];
      copy[k] = hlo_clone_instr(f, i, i->shape, i->noperands, ops);
    }
    if (i == f->root) root = copy[k];
  }
  return root;
}

static void break_ties(hlo_computation *f, u32 positions, hs_arena *scratch) {
  hlo_instr *root = f->root, *other = swapped_root(f, scratch),
            *same = hlo_build_compare(root, other, HLO_DIRECTION_EQ),
            *first = hlo_build_compare(f->params[2 * positions], f->params[2 * positions + 1],
                                       HLO_DIRECTION_LT);
  hlo_set_root(f, hlo_build_select(same, first, root));
}

static hs_status run(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_SORT || !hlo_attr_int(i, HLO_ATTR_IS_STABLE, 0)) continue;
      i64 dim = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS).v[0];
      if (hlo_operand(i, 0)->shape->dims[dim] > INT32_MAX) {
        pass_note_declined(c, i, NULL, "positions do not fit into s32");
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      hlo_instr *s = i;
      u32 positions = find_positions(s, dim);
      hlo_computation *f = hlo_attr_comp(s, HLO_ATTR_TO_APPLY),
                      *own = hlo_clone_computation(f, f->name, NULL);
      if (positions == s->noperands) {
        pass_note_done(c, s, NULL, "positions are one more operand, which breaks ties");
        const hlo_shape *scalar = hlo_shape_array(c->m->ctx, HLO_S32, 0, NULL);
        for (u32 k = 0; k < 2; k++) pass_add_param(own, 2 * positions + k, scalar);
        s = add_positions(c, s, dim);
      } else {
        pass_note_done(c, s, hlo_operand(s, positions), "operand %u breaks ties", positions);
      }
      hlo_set_attr_comp(s, HLO_ATTR_TO_APPLY, own);
      hlo_remove_attr(s, HLO_ATTR_IS_STABLE);
      break_ties(own, positions, c->scratch);
    }
  }
  return HS_GOOD;
}

const pass_info pass_stable_sort_expander = {
    .name = "stable-sort-expander",
    .summary = "makes stable sorts compare positions",
    .xla_source = "xla/hlo/transforms/expanders/stable_sort_expander.cc",
    .run = run,
    .needs = {HLO_SORT},
    .sample = "less {\n"
              "  a = f32[] parameter(0)\n"
              "  b = f32[] parameter(1)\n"
              "  ROOT p = pred[] compare(a, b), direction=LT\n"
              "}\n"
              "ENTRY e {\n"
              "  x = f32[8] parameter(0)\n"
              "  ROOT y = f32[8] sort(x), dimensions={0}, is_stable=true, to_apply=less\n"
              "}\n",
};
