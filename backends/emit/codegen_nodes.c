// codegen_nodes.c — LLVM values of nest nodes, made when they are first asked for.
//
// Each node belongs to the innermost open loop that it depends on, and its code is placed there
// (cg_level_of): asking for a value inside a loop puts loop-invariant code, whole reductions
// included, in front of that loop. Values are remembered until a loop they depend on closes.
//
// cg_emit_node is the entry point. It dispatches to codegen_access.c (loads, indices, guards) and
// codegen_reduce.c (reductions), whose functions ask for their operands through cg_emit_node again:
// the recursion follows the DAG of nodes, which has no cycles, and each node is emitted once per
// opening of its loops.
#include "backends/emit/codegen.h"

static hs_status emit_op(cg *c, const nest_node *x, u32 copies, bool vec, LLVMValueRef *out) {
  LLVMValueRef *p[3] = {0}, a[3];
  bool av[3] = {0};
  nest_node y = *x;
  // a guard that is constant in this part of the lane loop, or what a branch has decided
  if (x->op == HLO_SELECT) {
    int known = vec ? cg_chosen(c, x->args[0]) : -1;
    if (known < 0) {
      NODE(c, x->args[0], &p[0]);
      if (LLVMIsConstant(p[0][0]) && LLVMTypeOf(p[0][0]) == c->i1)
        known = LLVMConstIntGetZExtValue(p[0][0]) != 0;
    }
    if (known >= 0) {
      u32 pick = x->args[known ? 1 : 2];
      NODE(c, pick, &p[1]);
      bool wide = c->lane && (c->n->nodes.v[pick].deps & c->lane);
      cg_at_level(c, c->level);
      for (u32 u = 0; u < copies; u++)
        out[u] = vec ? cg_splat(c, p[1][wide ? u : 0], c->W) : p[1][0];
      return HS_GOOD;
    }
  }
  if (x->op == HLO_AND && x->in == HLO_PRED) {  // guards that are constant here
    for (u32 k = 0; k < 2; k++) {
      NODE(c, x->args[k], &p[k]);
      if (!LLVMIsConstant(p[k][0]) || LLVMTypeOf(p[k][0]) != c->i1) continue;
      u32 other = x->args[LLVMConstIntGetZExtValue(p[k][0]) ? 1 - k : k];
      NODE(c, other, &p[k]);
      bool wide = c->lane && (c->n->nodes.v[other].deps & c->lane);
      for (u32 u = 0; u < copies; u++) out[u] = p[k][wide ? u : 0];
      return HS_GOOD;
    }
  }
  for (u32 k = 0; k < x->nargs; k++) {
    NODE(c, x->args[k], &p[k]);
    av[k] = c->lane && (c->n->nodes.v[x->args[k]].deps & c->lane);
  }
  // indices come as i32 where they fit
  if (x->op == HLO_CONVERT && c->n->nodes.v[x->args[0]].kind == NEST_INDEX) {
    LLVMTypeRef t = LLVMTypeOf(p[0][0]);
    if (cg_scalar_of(t) == c->i32) y.in = HLO_S32;
  }
  for (u32 u = 0; u < copies; u++) {
    for (u32 k = 0; k < x->nargs; k++)
      a[k] = vec ? cg_splat(c, p[k][av[k] ? u : 0], c->W) : p[k][0];
    out[u] = cg_op(c, &y, a);
    if (!out[u])
      return hs_fail_subject(HS_E_UNSUPPORTED, hlo_op_text(x->op), "unsupported: %s of %s",
                             hlo_op_text(x->op), hlo_dtype_text(x->in));
  }
  return HS_GOOD;
}

// The value of its operand, once it is stored. A row buffer varies along the row as its index does,
// so a value that does not is spread over the lanes here.
static hs_status emit_keep(cg *c, const nest_node *x, u32 copies, LLVMValueRef *out) {
  LLVMValueRef *p;
  HS_TRY(cg_emit_store(c, &(nest_store){.buf = x->buf, .e = x->e, .node = x->args[0]}, c->level));
  NODE(c, x->args[0], &p);
  bool wide = c->lane && (c->n->nodes.v[x->args[0]].deps & c->lane);
  for (u32 u = 0; u < copies; u++)
    out[u] =
        copies > 1 || (c->lane && (x->deps & c->lane)) ? cg_splat(c, p[wide ? u : 0], c->W) : p[0];
  return HS_GOOD;
}

hs_status cg_emit_node(cg *c, u32 id, LLVMValueRef **out) {
  cg_memo *m = &c->memo[id];
  *out = m->v;
  if (m->set) return HS_GOOD;
  const nest_node *x = &c->n->nodes.v[id];
  u32 home = c->level, level = cg_level_of(c, x->deps);
  bool vec = c->lane && (x->deps & c->lane);
  u32 copies = vec ? c->U : 1;
  hs_status s = HS_GOOD;
  if (vec && cg_is_periodic(c, x)) level = cg_level_of(c, x->deps & ~c->lane);
  cg_at_level(c, level);
  switch (x->kind) {
  case NEST_CONST: m->v[0] = cg_const(c, x->dtype, x->bits); break;
  case NEST_LOAD: s = cg_emit_load(c, x, copies, vec, m->v); break;
  case NEST_INDEX: s = cg_emit_index(c, x, copies, vec, m->v); break;
  case NEST_GUARD: s = cg_emit_guard(c, x, copies, vec, m->v); break;
  case NEST_OP: s = emit_op(c, x, copies, vec, m->v); break;
  case NEST_REDUCE:
    s = cg_emit_group(c, x->group);
    cg_at_level(c, home);
    return s;
  case NEST_KEEP: s = emit_keep(c, x, copies, m->v); break;
  case NEST_ACC:
  case NEST_ELEM: s = hs_fail(HS_E_INTERNAL, "emit: placeholder outside its reducer"); break;
  }
  cg_at_level(c, home);
  HS_TRY(s);
  m->set = true;
  m->level = level;
  hs_vec_push(&c->memoed, id);
  return HS_GOOD;
}
