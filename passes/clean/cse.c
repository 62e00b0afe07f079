// cse.c — common subexpression elimination by hashing (xla/service/hlo_cse.cc).
//
// Instructions are visited in post order; each is looked up in a hash table by opcode, shape,
// operands, attributes and the structure of called computations. An equal earlier instruction
// replaces it at once, so that its users have equal operands when they are visited. Commutative
// operands are compared in either order, constants by value. Not merged: instructions with side
// effects or control dependencies, random numbers, instructions marked MUST_FUSE, and constants on
// different sides of a domain instruction. Of outputs of a multi-output fusion that are the same
// value in its body, the first is read.
#include "passes/run/rewrite.h"

// position1: 1 + position of an instruction in the post order; 0: free slot
typedef struct entry {
  u32 hash, position1;
} entry;
typedef struct table {
  entry *v;
  u32 mask;
} table;

static bool commutes(const hlo_instr *i) {
  return hlo_op_has(i->opcode, HLO_F_COMMUTATIVE) && i->noperands == 2;
}

static u64 hash_of(const hlo_instr *i, u64 *memo, bool layouts) {
  u64 h = hs_mix(i->opcode, layouts ? i->shape->hash : i->shape->logical->hash);
  if (i->opcode == HLO_CONSTANT) return hs_mix(h, hlo_literal_hash(hlo_constant_value(i)));
  if (commutes(i)) {
    u32 a = hlo_operand(i, 0)->id, b = hlo_operand(i, 1)->id;
    h = hs_mix(hs_mix(h, HS_MIN(a, b)), HS_MAX(a, b));
  } else {
    for (u32 k = 0; k < i->noperands; k++) h = hs_mix(h, hlo_operand(i, k)->id);
  }
  return pass_attrs_hash(i, h, memo);
}

static bool same_operands(const hlo_instr *a, const hlo_instr *b) {
  if (a->noperands != b->noperands) return false;
  bool same = true;
  for (u32 k = 0; same && k < a->noperands; k++) same = hlo_operand(a, k) == hlo_operand(b, k);
  if (same || !commutes(a)) return same;
  return hlo_operand(a, 0) == hlo_operand(b, 1) && hlo_operand(a, 1) == hlo_operand(b, 0);
}

static bool equal(const hlo_instr *a, const hlo_instr *b, bool layouts, hs_arena *scratch) {
  if (a->opcode != b->opcode || a->shape->logical != b->shape->logical ||
      (layouts && a->shape != b->shape))
    return false;
  if (a->opcode == HLO_CONSTANT)
    return hlo_literal_equal(hlo_constant_value(a), hlo_constant_value(b));
  return same_operands(a, b) && pass_attrs_alike(a, b, layouts, scratch);
}

static bool eligible(const hlo_instr *i, bool ignore_control, bool scalars) {
  if ((scalars && !hlo_shape_is_scalar(i->shape)) || pass_frontend(i, "MUST_FUSE")) return false;
  if ((!ignore_control && (hlo_is_controlled(i))) || hlo_op_has(i->opcode, HLO_F_ASYNC))
    return false;
  if (i->opcode == HLO_CONSTANT) return !hlo_literal_has_elided(hlo_constant_value(i));
  if (i->noperands == 0)
    return i->opcode == HLO_IOTA || i->opcode == HLO_PARTITION_ID || i->opcode == HLO_REPLICA_ID;
  return i->opcode != HLO_RNG && i->opcode != HLO_RNG_GET_AND_UPDATE_STATE &&
         !hlo_has_side_effect(i);
}

// For get-tuple-element of a fusion whose root has the same operand at a lower index: reads that
// index.
static void read_first_equal_output(pass_ctx *c, hlo_instr *i) {
  hlo_instr *f = i->opcode == HLO_GET_TUPLE_ELEMENT ? hlo_operand(i, 0) : NULL;
  hlo_computation *body = f && f->opcode == HLO_FUSION ? hlo_fusion_comp(f) : NULL;
  i64 at = hlo_attr_int(i, HLO_ATTR_INDEX, 0);
  if (!body || body->root->opcode != HLO_TUPLE || at >= (i64)body->root->noperands) return;
  for (u32 k = 0; k < (u32)at; k++) {
    if (hlo_operand(body->root, k) != hlo_operand(body->root, (u32)at) ||
        f->shape->elems[k] != i->shape)
      continue;
    if (pass_may_rewrite(c)) hlo_set_attr_int(i, HLO_ATTR_INDEX, k);
    return;
  }
}

// ---- domains ------------------------------------------------------------------------------------
static u32 representative(u32 *up, u32 k) {
  while (up[k] != k) k = up[k] = up[up[k]];
  return k;
}

// Numbers the connected components of the computation's graph without its domain instructions, by
// union-find; 0 for components that are not adjacent to a domain instruction.
static u32 *find_domains(pass_ctx *c, hlo_instr *const *order, u32 n, const hlo_positions *at) {
  u32 *up = HS_NEW_ARRAY(c->scratch, u32, n + 1), *component = HS_NEW_ARRAY(c->scratch, u32, n + 1);
  bool *bounded = HS_NEW_ARRAY(c->scratch, bool, n + 1);
  for (u32 k = 0; k < n; k++) up[k] = k;
  for (u32 k = 0; k < n; k++)
    for (u32 o = 0; o < order[k]->noperands; o++) {
      const hlo_instr *x = hlo_operand(order[k], o);
      if (order[k]->opcode != HLO_DOMAIN && x->opcode != HLO_DOMAIN)
        up[representative(up, k)] = representative(up, hlo_position_of(at, x));
    }
  for (u32 k = 0; k < n; k++) {
    bool edge = false;
    hlo_for_each_use(u, order[k]) edge |= u->user->opcode == HLO_DOMAIN;
    for (u32 o = 0; o < order[k]->noperands; o++)
      edge |= hlo_operand(order[k], o)->opcode == HLO_DOMAIN;
    bounded[representative(up, k)] |= edge && order[k]->opcode != HLO_DOMAIN;
  }
  for (u32 k = 0; k < n; k++)
    component[k] = bounded[representative(up, k)] ? representative(up, k) + 1 : 0;
  return component;
}

static bool has_domain(const hlo_computation *comp) {
  hlo_for_each_instr(i, comp)
    if (i->opcode == HLO_DOMAIN) return true;
  return false;
}

typedef struct cse_options {
  bool layouts, ignore_control, scalars;
} cse_options;

static hs_status cse_computation(pass_ctx *c, hlo_computation *comp, u64 *memo,
                                 const cse_options *o) {
  const bool layouts = o->layouts, ignore_control = o->ignore_control;
  hlo_instr **order = pass_post_order(c, comp);
  u32 n = comp->ninstrs, cap = 16;
  while (cap < n * 2) cap *= 2;
  table t = {HS_NEW_ARRAY(c->scratch, entry, cap), cap - 1};
  const bool domains = c->m->nops[HLO_DOMAIN] && has_domain(comp);
  const hlo_positions at = domains ? hlo_positions_in(n, order, c->scratch) : (hlo_positions){0};
  const u32 *component = domains ? find_domains(c, order, n, &at) : NULL;
  for (u32 k = 0; k < n; k++) {
    hlo_instr *i = order[k];
    if (i->dead || !eligible(i, ignore_control, o->scalars)) continue;
    read_first_equal_output(c, i);
    u64 h = hash_of(i, memo, layouts);
    // instructions are compared only when the tags are equal
    u32 slot = (u32)h & t.mask, tag = (u32)(h >> 32);
    hlo_instr *same = NULL;
    for (; t.v[slot].position1 && !same; slot = (slot + 1) & t.mask) {
      u32 number = t.v[slot].position1 - 1;
      if (t.v[slot].hash != tag || order[number]->dead ||
          !equal(order[number], i, layouts, c->scratch))
        continue;
      if (component && i->opcode == HLO_CONSTANT && component[number] != component[k]) continue;
      same = order[number];
    }
    if (!same) {
      t.v[slot] = (entry){tag, k + 1};
      continue;
    }
    if (!pass_may_rewrite(c)) return HS_GOOD;
    pass_note_done(c, i, same, "same value as %s", same->name);
    if (ignore_control && i->ctrl_preds) hlo_set_ctrl_preds(i, 0, NULL);
    hlo_replace_uses(i, same);
    if (!i->nuses && !hlo_is_root(i) && hlo_is_removable(i)) hlo_remove(i);
  }
  return HS_GOOD;
}

static hs_status run(pass_ctx *c) {
  u64 *memo = HS_NEW_ARRAY(c->scratch, u64, c->m->next_comp_id + 1);
  cse_options o = {pass_option_bool(c, "layout_sensitive"),
                   pass_option_bool(c, "ignore_control_dependencies"),
                   pass_option_bool(c, "only_scalars")};
  bool fused = pass_option_bool(c, "only_fusion_computations");
  u32 n;
  hlo_computation **comps = pass_comp_post_order(c, &n);
  for (u32 k = 0; k < n; k++) {
    HS_TRY(hs_poll());
    if (fused && !hlo_is_fusion_comp(comps[k])) continue;
    HS_TRY(cse_computation(c, comps[k], memo, &o));
    memo[comps[k]->id] = 0;  // its structure may have changed
  }
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"layout_sensitive", PASS_BOOL, "false", "instructions with different layouts are different"},
    {"ignore_control_dependencies", PASS_BOOL, "false",
     "also merge instructions with control predecessors"},
    {"only_fusion_computations", PASS_BOOL, "false", "only in fusion bodies"},
    {"only_scalars", PASS_BOOL, "false", "only instructions of rank 0"},
};

const pass_info pass_cse = {
    .name = "cse",
    .summary = "merges equal instructions",
    .xla_source = "xla/service/hlo_cse.cc",
    .run = run,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[4] parameter(0)\n"
              "  y = f32[4] parameter(1)\n"
              "  s = f32[4] add(x, y)\n"
              "  again = f32[4] add(y, x)\n"
              "  ROOT p = f32[4] multiply(s, again)\n"
              "}\n",
};
