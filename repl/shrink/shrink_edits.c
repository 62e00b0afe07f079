// shrink_edits.c: the ways to make a module smaller, one per row of shrink.def. See shrink.h.
//
// An edit is blind: it does not know the fault and need not keep the meaning. It only has to make
// modules that are smaller, or simpler, and mostly valid. Values of the entry become parameters,
// since those can be given any value; those of other computations become one of their operands or
// a constant. What is no longer used is removed by the search afterwards (cut_clean).
#include "core/eval/inputs.h"
#include "passes/buffer/resize.h"
#include "passes/run/rewrite.h"
#include "repl/debug/cut.h"
#include "repl/shrink/shrink.h"

// ---- what an edit goes through ------------------------------------------------------------------
static bool is_leaf(const hlo_instr *i) {
  return i->opcode == HLO_PARAMETER || i->opcode == HLO_CONSTANT;
}

// Tokens and their like cannot be parameters or results.
static bool has_token(const hlo_shape *s) {
  for (u32 k = 0; k < hlo_shape_leaves(s); k++)
    if (!hlo_shape_is_array(hlo_shape_leaf(s, k))) return true;
  return false;
}

// The instructions that one may replace: those of the entry, or of all computations, inputs first.
typedef struct instr_list {
  u32 n;
  hlo_instr **v;
} instr_list;

static instr_list list_instrs(const hlo_module *m, bool entry, bool others, hs_arena *a) {
  instr_list l = {.v = HS_NEW_ARRAY(a, hlo_instr *, hlo_instr_count(m) + 1)};
  u32 n;
  hlo_computation **comps = hlo_comp_post_order(m, a, &n);
  for (u32 k = 0; k < n; k++) {
    if (!(comps[k] == m->entry ? entry : others)) continue;
    hlo_instr **order = hlo_post_order(comps[k], a);
    for (u32 j = 0; j < comps[k]->ninstrs && order[j]; j++)
      if (!is_leaf(order[j])) l.v[l.n++] = order[j];
  }
  return l;
}

static u32 count_instrs(const hlo_module *m, bool entry, bool others) {
  hs_arena a = {0};
  u32 n = list_instrs(m, entry, others, &a).n;
  hs_arena_free(&a);
  return n;
}

// ---- a stretch of the program -------------------------------------------------------------------
u32 shrink_length(const hlo_module *m) { return count_instrs(m, true, false); }

// A parameter in an instruction's place, with its name, by which the search finds the value that it
// had.
static void give_way(hlo_module *m, hlo_instr *i, hs_arena *a) {
  const char *name = hs_arena_strndup(a, i->name, strlen(i->name));
  hlo_set_name(i, "cut");
  hlo_instr *p = hlo_add_parameter(m->entry, m->entry->nparams, i->shape, name);
  hlo_move_before(p, m->entry->first);
  hlo_replace_uses(i, p);
}

bool shrink_to_stretch(hlo_module *m, u32 from, u32 to) {
  hs_arena a = {0};
  instr_list l = list_instrs(m, true, false, &a);
  hlo_instr **out = HS_NEW_ARRAY(&a, hlo_instr *, to + 1);
  bool *used = HS_NEW_ARRAY(&a, bool, m->next_instr_id + 1);
  u32 nout = 0;
  for (u32 k = from; k < to; k++)
    for (u32 j = 0; j < l.v[k]->noperands; j++) used[hlo_operand(l.v[k], j)->id] = true;
  for (u32 k = from; k < to; k++)
    if (!used[l.v[k]->id] && !has_token(l.v[k]->shape)) out[nout++] = l.v[k];
  if (nout) hlo_set_root(m->entry, nout == 1 ? out[0] : hlo_add_tuple(m->entry, nout, out));
  for (u32 k = 0; nout && k < from; k++)
    if (used[l.v[k]->id] && !has_token(l.v[k]->shape)) give_way(m, l.v[k], &a);
  hs_arena_free(&a);
  return nout != 0;
}

// ---- results ------------------------------------------------------------------------------------
static u32 result_units(const hlo_module *m) {
  const hlo_instr *r = m->entry->root;
  return r->opcode == HLO_TUPLE && r->noperands > 1 ? r->noperands : 0;
}

static bool apply_results(hlo_module *m, u32 from, u32 to) {
  hlo_instr *r = m->entry->root;
  if (to - from >= r->noperands) return false;
  hs_arena a = {0};
  hlo_instr **kept = HS_NEW_ARRAY(&a, hlo_instr *, r->noperands);
  u32 n = 0;
  for (u32 k = 0; k < r->noperands; k++)
    if (k < from || k >= to) kept[n++] = hlo_operand(r, k);
  hlo_set_root(m->entry, n == 1 ? kept[0] : hlo_add_tuple(m->entry, n, kept));
  hs_arena_free(&a);
  return true;
}

static u32 root_units(const hlo_module *m) { return m->entry->root->noperands; }

static bool apply_root(hlo_module *m, u32 from, u32 to) {
  hlo_instr *d = hlo_operand(m->entry->root, from);
  (void)to;
  if (is_leaf(d) || has_token(d->shape)) return false;
  hlo_set_root(m->entry, d);
  return true;
}

// ---- a called computation is the program --------------------------------------------------------
static u32 enter_units(const hlo_module *m) {
  u32 n = 0;
  hlo_for_each_comp(c, m) n += c != m->entry;
  return n;
}

static bool apply_enter(hlo_module *m, u32 from, u32 to) {
  (void)to;
  hlo_for_each_comp(c, m) {
    if (c == m->entry || from--) continue;
    hlo_set_entry(m, c);
    cut_drop_result_attrs(m);
    return true;
  }
  return false;
}

// ---- instructions of the entry become parameters ------------------------------------------------
static u32 cut_units(const hlo_module *m) { return count_instrs(m, true, false); }

static bool apply_cut(hlo_module *m, u32 from, u32 to) {
  hs_arena a = {0};
  instr_list l = list_instrs(m, true, false, &a);
  bool any = false;
  for (u32 k = from; k < to && k < l.n; k++) {
    hlo_instr *i = l.v[k];
    if (hlo_is_root(i) || has_token(i->shape)) continue;
    give_way(m, i, &a);
    any = true;
  }
  hs_arena_free(&a);
  return any;
}

// ---- instructions become one of their operands --------------------------------------------------
static u32 all_units(const hlo_module *m) { return count_instrs(m, true, true); }

// An operand of that shape, or for the result of a called computation a parameter.
static hlo_instr *stand_in(const hlo_instr *i) {
  for (u32 j = 0; j < i->noperands; j++)
    if (hlo_shape_compatible(hlo_operand(i, j)->shape, i->shape)) return hlo_operand(i, j);
  const hlo_computation *c = i->parent;
  for (u32 j = 0; c != c->module->entry && hlo_is_root(i) && j < c->nparams; j++)
    if (hlo_shape_compatible(c->params[j]->shape, i->shape)) return c->params[j];
  return NULL;
}

static bool apply_bypass(hlo_module *m, u32 from, u32 to) {
  hs_arena a = {0};
  instr_list l = list_instrs(m, true, true, &a);
  bool any = false;
  for (u32 k = from; k < to && k < l.n; k++) {
    hlo_instr *d = stand_in(l.v[k]);
    if (!d) continue;
    if (hlo_is_root(l.v[k]) && l.v[k]->parent != m->entry) hlo_set_root(l.v[k]->parent, d);
    hlo_replace_uses(l.v[k], d);
    any = true;
  }
  hs_arena_free(&a);
  return any;
}

// ---- calls, fusions, branches and loops are opened ----------------------------------------------
// Which ways there are: a call or fusion is its computation; a conditional one of its branches; a
// loop one pass of its body.
static u32 ways_to_open(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_CALL:
  case HLO_FUSION:
  case HLO_WHILE: return 1;
  case HLO_CONDITIONAL: return hlo_ncalled(i);
  default: return 0;
  }
}

static u32 inline_units(const hlo_module *m) {
  u32 n = 0;
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c) n += ways_to_open(i);
  return n;
}

static bool open_call(hlo_instr *i, u32 way, hs_arena *a) {
  const hlo_computation *body = i->opcode == HLO_CONDITIONAL ? hlo_called(i, way)
                                : i->opcode == HLO_WHILE     ? hlo_attr_comp(i, HLO_ATTR_BODY)
                                                             : hlo_fusion_comp(i);
  u32 first = i->opcode == HLO_CONDITIONAL ? way + 1 : 0;
  if (!body || first + body->nparams > i->noperands) return false;
  hlo_instr **args = HS_NEW_ARRAY(a, hlo_instr *, body->nparams + 1);
  for (u32 k = 0; k < body->nparams; k++) args[k] = hlo_operand(i, first + k);
  pass_inline_call(i, body, args, a);
  return true;
}

static bool apply_inline(hlo_module *m, u32 from, u32 to) {
  hs_arena a = {0};
  HS_VEC(hlo_instr *) calls = {0};
  hlo_for_each_comp(c, m)
    hlo_for_each_instr(i, c)
      if (ways_to_open(i)) hs_vec_push(&calls, i);
  bool any = false;
  u32 unit = 0;
  for (u32 k = 0; k < calls.n; k++) {
    u32 ways = ways_to_open(calls.v[k]);
    for (u32 way = 0; way < ways; way++)
      if (unit + way >= from && unit + way < to) {
        any |= open_call(calls.v[k], way, &a);
        break;
      }
    unit += ways;
  }
  hs_vec_free(&calls);
  hs_arena_free(&a);
  return any;
}

// ---- instructions of other computations become constants ----------------------------------------
enum { MOST_CONSTANT = 1024 };  // elements

static u32 inner_units(const hlo_module *m) { return count_instrs(m, false, true); }

static bool apply_settle(hlo_module *m, u32 from, u32 to) {
  hs_arena a = {0};
  instr_list l = list_instrs(m, false, true, &a);
  bool any = false;
  for (u32 k = from; k < to && k < l.n; k++) {
    hlo_literal *one;
    const hlo_shape *s = l.v[k]->shape;
    if (!hlo_shape_is_array(s) || s->elements > MOST_CONSTANT || hlo_shape_is_dynamic(s)) continue;
    // an unused parameter of a called computation stays, and has nothing to give up
    if (hlo_is(l.v[k], HLO_CONSTANT) || (!l.v[k]->nuses && !hlo_is_root(l.v[k]))) continue;
    // false, so that loops end
    hs_status st = hlo_input_by_words(s, s->dtype == HLO_PRED ? "zeros" : "ones", 0, &one);
    if (hs_ok(st)) {
      hlo_instr *c = hlo_add_constant(l.v[k]->parent, one, NULL);
      hlo_move_before(c, l.v[k]->parent->first);
      hlo_replace_uses(l.v[k], c);
      any = true;
    }
    hs_status_drop(st);
  }
  hs_arena_free(&a);
  return any;
}

// ---- sizes --------------------------------------------------------------------------------------
// A unit is a dimension of a leaf of a parameter of the entry.
static u32 size_units(const hlo_module *m) {
  u32 n = 0;
  for (u32 p = 0; p < m->entry->nparams; p++)
    for (u32 k = 0; k < hlo_shape_leaves(m->entry->params[p]->shape); k++)
      n += hlo_shape_leaf(m->entry->params[p]->shape, k)->rank;
  return n;
}

// The size is set to 1, or halved; all that follows from it follows.
static bool set_size(hlo_module *m, u32 unit, bool half) {
  for (u32 p = 0; p < m->entry->nparams; p++)
    for (u32 k = 0; k < hlo_shape_leaves(m->entry->params[p]->shape); k++) {
      const hlo_shape *s = hlo_shape_leaf(m->entry->params[p]->shape, k);
      if (unit >= s->rank) {
        unit -= s->rank;
        continue;
      }
      i64 old = s->dims[unit], now = half ? old / 2 : 1;
      if (old <= (half ? 3 : 1)) return false;
      resize_report r = {0};
      hs_status st = resize_module(m, p, k, unit, now, true, &r);
      bool done = hs_ok(st);
      hs_status_drop(st);
      resize_report_free(&r);
      return done;
    }
  return false;
}

static bool apply_ones(hlo_module *m, u32 from, u32 to) {
  (void)to;
  return set_size(m, from, false);
}

static bool apply_halves(hlo_module *m, u32 from, u32 to) {
  (void)to;
  return set_size(m, from, true);
}

// ---- attributes ---------------------------------------------------------------------------------
static const hlo_attr_id plain[] = {
    HLO_ATTR_METADATA,   HLO_ATTR_ORIGIN,         HLO_ATTR_FRONTEND_ATTRIBUTES,
    HLO_ATTR_STATISTICS, HLO_ATTR_BACKEND_CONFIG, HLO_ATTR_SHARDING,
    HLO_ATTR_SCHEDULE,   HLO_ATTR_ALGORITHM,      HLO_ATTR_OPERAND_PRECISION,
};
static const hlo_attr_id plain_module[] = {
    HLO_ATTR_IS_SCHEDULED,     HLO_ATTR_ORIGIN_RECOVERY_TABLE, HLO_ATTR_DEBUG_ATTRIBUTES,
    HLO_ATTR_REPLICA_COUNT,    HLO_ATTR_NUM_PARTITIONS,        HLO_ATTR_ALLOW_SPMD_PARAMETERS,
    HLO_ATTR_ALLOW_SPMD_OUTPUT};

// The last unit is the control dependencies.
static u32 plain_units(const hlo_module *m) {
  (void)m;
  return HS_COUNT(plain) + HS_COUNT(plain_module) + 1;
}

static bool apply_plain(hlo_module *m, u32 from, u32 to) {
  bool any = false;
  for (u32 unit = from; unit < to; unit++) {
    if (unit >= HS_COUNT(plain) && unit < HS_COUNT(plain) + HS_COUNT(plain_module)) {
      hlo_attr_id id = plain_module[unit - HS_COUNT(plain)];
      if (!hlo_attrs_find(m->attrs, id)) continue;
      hlo_remove_module_attr(m, id);
      any = true;
      continue;
    }
    hlo_for_each_comp(c, m)
      hlo_for_each_instr(i, c) {
        if (unit < HS_COUNT(plain) ? hlo_attr_get(i, plain[unit]) == NULL : !hlo_is_controlled(i))
          continue;
        if (unit < HS_COUNT(plain)) hlo_remove_attr(i, plain[unit]);
        else hlo_set_ctrl_preds(i, 0, NULL);
        any = true;
      }
  }
  return any;
}

const shrink_edit shrink_edits[] = {
#define EDIT(id, doing, units, alone, valid) {#id, doing, alone, valid, units, apply_##id},
#include "repl/shrink/shrink.def"
#undef EDIT
};
const u32 shrink_edit_count = HS_COUNT(shrink_edits);
