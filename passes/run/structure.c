// structure.c — equality and hashes of instructions and computations by structure: names,
// annotations and the order of the list do not count.
//
// Two computations are compared from their roots, both at once, with a table of pairs found so far;
// what the root does not reach has side effects or none at all: it is compared by count only, and
// side effects make two computations different. Equal computations have equal hashes.
#include "passes/run/rewrite.h"

// The instructions of a computation by their place in its list, for tables as small as it is.
static hlo_positions number_list(const hlo_computation *c, hs_arena *a) {
  hlo_instr **v = HS_NEW_ARRAY(a, hlo_instr *, c->ninstrs + 1);
  u32 n = 0;
  hlo_for_each_instr(i, c) v[n++] = i;
  return hlo_positions_in(n, v, a);
}

static bool skip_calls(hlo_attr_id id) {
  hlo_attr_kind k = hlo_attr_kind_of(id);
  return hlo_attr_is_annotation(id) || k == HLO_AK_COMP || k == HLO_AK_COMPS;
}
static bool skip_sharding(hlo_attr_id id) { return id == HLO_ATTR_SHARDING || skip_calls(id); }

// Annotations that make two instructions different: configurations, and shardings where both have
// one.
static bool annotated_alike(const hlo_instr *a, const hlo_instr *b) {
  const hlo_backend_config *x = hlo_attr_ptr(a, HLO_ATTR_BACKEND_CONFIG),
                           *y = hlo_attr_ptr(b, HLO_ATTR_BACKEND_CONFIG);
  if (!hs_str_eq(x ? x->text : (hs_str){0}, y ? y->text : (hs_str){0})) return false;
  const hlo_attr *s = hlo_attr_get(a, HLO_ATTR_SHARDING), *t = hlo_attr_get(b, HLO_ATTR_SHARDING);
  if (s && t && !hlo_attr_equal(s, t)) return false;
  const hs_str *u = pass_frontend(a, "xla.sdy.sharding"), *v = pass_frontend(b, "xla.sdy.sharding");
  return !u || !v || hs_str_eq(*u, *v);
}

u64 pass_attrs_hash(const hlo_instr *i, u64 seed, u64 *memo) {
  u64 h = hlo_attrs_hash(i->attrs, seed, skip_sharding);
  if (!hlo_op_has(i->opcode, HLO_F_CALLS)) return h;
  hlo_computation *v[16];
  u32 n = hlo_called(i, v, 16);
  for (u32 k = 0; k < HS_MIN(n, 16u); k++) h = hs_mix(h, pass_comp_hash(v[k], memo));
  return hs_mix(h, n);
}

u64 pass_comp_hash(hlo_computation *c, u64 *memo) {
  if (memo && memo[c->id]) return memo[c->id];
  hs_arena a = {0};
  u32 n = c->ninstrs;
  hlo_instr **order = hlo_post_order(c, &a);
  hlo_positions at = hlo_positions_in(n, order, &a);
  u64 *h = hs_arena_alloc(&a, (n + 1) * sizeof *h);
  for (u32 t = 0; t < n; t++) {
    hlo_instr *i = order[t];
    u64 x = hs_mix(i->opcode, i->shape->logical->hash);
    for (u32 k = 0; k < i->noperands; k++)
      x = hs_mix(x, h[hlo_position_of(&at, hlo_operand(i, k))]);
    h[t] = pass_attrs_hash(i, x, memo);
  }
  u64 out = hs_mix(h[hlo_position_of(&at, c->root)], n) | 1;
  hs_arena_free(&a);
  if (memo) memo[c->id] = out;
  return out;
}

static bool calls_equal(const hlo_instr *a, const hlo_instr *b, bool layouts, hs_arena *scratch) {
  if (!hlo_op_has(a->opcode, HLO_F_CALLS)) return true;
  hlo_computation **va, **vb;
  u32 na, nb;
  pass_called_all(a, scratch, &va, &na);
  pass_called_all(b, scratch, &vb, &nb);
  if (na != nb) return false;
  for (u32 k = 0; k < na; k++)
    if (!pass_comp_equal(va[k], vb[k], layouts, scratch)) return false;
  return true;
}

bool pass_attrs_equal(const hlo_instr *a, const hlo_instr *b, bool layouts, hs_arena *scratch) {
  return (a->attrs == b->attrs || hlo_attrs_equal(a->attrs, b->attrs, skip_calls)) &&
         calls_equal(a, b, layouts, scratch);
}

bool pass_attrs_alike(const hlo_instr *a, const hlo_instr *b, bool layouts, hs_arena *scratch) {
  return (a->attrs == b->attrs ||
          (hlo_attrs_equal(a->attrs, b->attrs, skip_sharding) && annotated_alike(a, b))) &&
         calls_equal(a, b, layouts, scratch);
}

bool pass_comp_equal(const hlo_computation *a, const hlo_computation *b, bool layouts,
                     hs_arena *scratch) {
  if (a == b) return true;
  if (a->ninstrs != b->ninstrs || a->nparams != b->nparams ||
      !hs_str_eq(a->execution_thread, b->execution_thread))
    return false;
  hlo_positions at = number_list(a, scratch);
  u32 *twin = HS_NEW_ARRAY(scratch, u32, a->ninstrs + 1);  // number in a -> id in b, plus 1
  for (u32 p = 0; p < a->nparams; p++) {
    const hlo_shape *s = a->params[p]->shape, *t = b->params[p]->shape;
    if (s != t && (layouts || s->logical != t->logical)) return false;
    twin[hlo_position_of(&at, a->params[p])] = b->params[p]->id + 1;
  }
  // Walks both from the root in lock step; what the root does not reach is side-effecting and
  // compared by count only.
  HS_VEC(const hlo_instr *) work = {0};
  hs_vec_push(&work, a->root);
  hs_vec_push(&work, b->root);
  bool same = true;
  u32 met = 0;
  while (same && work.n) {
    const hlo_instr *y = hs_vec_pop(&work), *x = hs_vec_pop(&work);
    u32 *met_as = &twin[hlo_position_of(&at, x)];
    if (*met_as) {
      same = *met_as == y->id + 1;
      continue;
    }
    *met_as = y->id + 1;
    met++;
    same = x->opcode == y->opcode && x->noperands == y->noperands &&
           (x->shape == y->shape || (!layouts && x->shape->logical == y->shape->logical)) &&
           pass_attrs_equal(x, y, layouts, scratch);
    for (u32 k = 0; same && k < x->noperands; k++) {
      hs_vec_push(&work, hlo_operand(x, k));
      hs_vec_push(&work, hlo_operand(y, k));
    }
  }
  hs_vec_free(&work);
  if (!same) return false;
  if (met + a->nparams >= a->ninstrs) return true;
  hlo_for_each_instr(i, a)
    if (!twin[hlo_position_of(&at, i)] && hlo_has_side_effect(i)) return false;
  return true;
}
