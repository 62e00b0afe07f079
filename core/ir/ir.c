// ir.c — reading the IR: attribute access, call structure, side effects, provenance, hashes. The
// orders are in order.c.
#include "core/ir/async.h"
#include "core/ir/journal.h"

#include <stdlib.h>

bool hlo_is_scheduled(const hlo_module *m) {
  const hlo_attr *a = hlo_attrs_find(m->attrs, HLO_ATTR_IS_SCHEDULED);
  return a && a->v.i;
}

const hlo_attr *hlo_attr_get(const hlo_instr *i, hlo_attr_id id) {
  return hlo_attrs_find(i->attrs, id);
}

i64 hlo_attr_int(const hlo_instr *i, hlo_attr_id id, i64 absent) {
  const hlo_attr *a = hlo_attr_get(i, id);
  return a ? a->v.i : absent;
}

hlo_ints hlo_attr_ints(const hlo_instr *i, hlo_attr_id id) {
  const hlo_attr *a = hlo_attr_get(i, id);
  return a ? a->v.ints : (hlo_ints){0, NULL};
}

hs_str hlo_attr_str(const hlo_instr *i, hlo_attr_id id) {
  const hlo_attr *a = hlo_attr_get(i, id);
  return a ? a->v.s : (hs_str){"", 0};
}

hlo_computation *hlo_attr_comp(const hlo_instr *i, hlo_attr_id id) {
  const hlo_attr *a = hlo_attr_get(i, id);
  return a ? a->v.comp : NULL;
}

const void *hlo_attr_ptr(const hlo_instr *i, hlo_attr_id id) {
  const hlo_attr *a = hlo_attr_get(i, id);
  return a ? a->v.p : NULL;
}

const hlo_literal *hlo_constant_value(const hlo_instr *i) {
  const hlo_attr *a = hlo_attr_get(i, HLO_ATTR_LITERAL);
  return a ? a->v.literal : NULL;
}

const hlo_metadata *hlo_metadata_of(const hlo_instr *i) {
  return hlo_attr_ptr(i, HLO_ATTR_METADATA);
}

// ---- calls and effects --------------------------------------------------------------------------

u32 hlo_called(const hlo_instr *i, hlo_computation **out, u32 cap) {
  u32 n = 0;
  for (u32 k = 0; i->attrs && k < i->attrs->n; k++) {
    const hlo_attr *a = &i->attrs->v[k];
    hlo_attr_kind kind = hlo_attr_kind_of(a->id);
    if (kind == HLO_AK_COMP) {
      if (n < cap) out[n] = a->v.comp;
      n++;
    } else if (kind == HLO_AK_COMPS) {
      for (u32 j = 0; j < a->v.comps.n; j++, n++)
        if (n < cap) out[n] = a->v.comps.v[j];
    }
  }
  return n;
}

// Calls fn for each called computation until it returns true; returns that.
static bool any_called(const hlo_instr *i, bool (*fn)(void *, hlo_computation *), void *arg) {
  hlo_computation *few[8], **all = few;
  u32 n = hlo_called(i, few, HS_COUNT(few));
  if (n > HS_COUNT(few)) {
    all = hs_alloc(n * sizeof *all);
    hlo_called(i, all, n);
  }
  bool hit = false;
  for (u32 k = 0; k < n && !hit; k++) hit = fn(arg, all[k]);
  if (all != few) hs_free(all);
  return hit;
}

static bool same_comp(void *want, hlo_computation *c) { return c == want; }
bool hlo_calls(const hlo_instr *i, const hlo_computation *c) {
  return any_called(i, same_comp, (void *)(uintptr_t)c);
}

hlo_computation *hlo_fusion_comp(const hlo_instr *i) {
  hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_CALLS);
  return c ? c : hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
}

static bool comp_has_effect(void *arg, hlo_computation *c) {
  (void)arg;
  hlo_for_each_instr(i, c)
    if (hlo_has_side_effect(i)) return true;
  return false;
}

// XLA's HloInstruction::HasSideEffect: own effect, then that of called computations.
bool hlo_has_side_effect(const hlo_instr *i) {
  if (hlo_op_has(i->opcode, HLO_F_SIDE_EFFECT)) return true;
  switch (i->opcode) {
  case HLO_CUSTOM_CALL:
    if (hlo_attr_int(i, HLO_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, 0)) return true;
    break;
  case HLO_ALL_REDUCE:
  case HLO_ALL_REDUCE_START:
    return hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0) > 0 ||
           hlo_attr_int(i, HLO_ATTR_CONSTRAIN_LAYOUT, 0);
  case HLO_ALL_GATHER:
  case HLO_ALL_TO_ALL:
  case HLO_REDUCE_SCATTER: return hlo_attr_int(i, HLO_ATTR_CONSTRAIN_LAYOUT, 0) != 0;
  case HLO_ASYNC_UPDATE:
  case HLO_ASYNC_DONE: {  // as its start: a chain stays whole
    hlo_computation *wrapped = hlo_async_wrapped(i);
    return wrapped && comp_has_effect(NULL, wrapped);
  }
  default: break;
  }
  return hlo_op_has(i->opcode, HLO_F_CALLS) && any_called(i, comp_has_effect, NULL);
}

bool hlo_is_removable(const hlo_instr *i) {
  return !hlo_op_has(i->opcode, HLO_F_NEVER_REMOVED) && !hlo_is_controlled(i) &&
         !hlo_has_side_effect(i);
}

u32 hlo_instr_count(const hlo_module *m) {
  u32 n = 0;
  for (u32 op = 0; op < HLO_OPCODE_COUNT; op++) n += m->nops[op];
  return n;
}

static int by_value(const void *a, const void *b) {
  i64 x = *(const i64 *)a, y = *(const i64 *)b;
  return (x > y) - (x < y);
}

hlo_ints hlo_origins_collect(const hlo_instr *i, hs_arena *a) {
  HS_VEC(i64) found = {0};
  HS_VEC(const hlo_provenance *) stack = {0};
  if (i->provenance) hs_vec_push(&stack, i->provenance);
  else if (i->source) hs_vec_push(&found, (i64)i->source - 1);
  while (stack.n && found.n < 100000) {
    const hlo_provenance *p = hs_vec_pop(&stack);
    if (!p->a) {
      hs_vec_push(&found, (i64)p->source);
      continue;
    }
    hs_vec_push(&stack, p->b);
    hs_vec_push(&stack, p->a);
  }
  if (found.n) qsort(found.v, found.n, sizeof *found.v, by_value);
  u32 n = 0;
  for (size_t k = 0; k < found.n; k++)
    if (!n || found.v[n - 1] != found.v[k]) found.v[n++] = found.v[k];
  hlo_ints r = {n, hs_arena_dup(a, found.v, n * sizeof *found.v)};
  hs_vec_free(&found);
  hs_vec_free(&stack);
  return r;
}

// ---- hashes -------------------------------------------------------------------------------------

static bool skip_in_fingerprint(hlo_attr_id id) {
  hlo_attr_kind k = hlo_attr_kind_of(id);
  return hlo_attr_is_annotation(id) || k == HLO_AK_COMP || k == HLO_AK_COMPS || k == HLO_AK_CONTROL;
}

u64 hlo_fingerprint(const hlo_module *m) {
  hs_arena a = {0};
  u32 n = 0;
  hlo_computation **comps = hlo_comp_callees_first(m, &a, &n);
  u64 *of_comp = HS_NEW_ARRAY(&a, u64, m->next_comp_id + 1), all = 0;
  u32 *number = HS_NEW_ARRAY(&a, u32, m->next_instr_id + 1);
  for (u32 c = 0; c < n; c++) {
    hlo_instr **order = hlo_post_order(comps[c], &a);
    u64 h = comps[c] == m->entry ? 2 : 1;
    for (u32 k = 0; k < comps[c]->ninstrs; k++) {
      const hlo_instr *i = order[k];
      number[i->id] = k;
      h = hs_mix(hs_mix(h, i->opcode), i->shape->hash);
      for (u32 j = 0; j < i->noperands; j++) h = hs_mix(h, number[hlo_operand(i, j)->id]);
      for (u32 j = 0; i->ctrl_preds && j < i->ctrl_preds->n; j++)
        h = hs_mix(h, 7 + number[i->ctrl_preds->v[j]->id]);
      h = hlo_attrs_hash(i->attrs, h, skip_in_fingerprint);
      hlo_computation *called[8];
      u32 nc = HS_MIN(hlo_called(i, called, HS_COUNT(called)), (u32)HS_COUNT(called));
      for (u32 j = 0; j < nc; j++) h = hs_mix(h, of_comp[called[j]->id]);
      if (hlo_is_root(i)) h = hs_mix(h, 99);
    }
    of_comp[comps[c]->id] = h;
    all = hs_mix(all, h);
  }
  all = hlo_attrs_hash(m->attrs, all, skip_in_fingerprint);
  hs_arena_free(&a);
  return all;
}
