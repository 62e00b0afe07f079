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

i64 hlo_module_int(const hlo_module *m, hlo_attr_id id, i64 absent) {
  const hlo_attr *a = hlo_attrs_find(m->attrs, id);
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

// The computations that one attribute names: how many, and *v points to the first.
static u32 callees_of(const hlo_attr *a, hlo_computation *const **v) {
  switch (hlo_attr_kind_of(a->id)) {
  case HLO_AK_COMP: *v = &a->v.comp; return 1;
  case HLO_AK_COMPS: *v = a->v.comps.v; return a->v.comps.n;
  default: *v = NULL; return 0;
  }
}

u32 hlo_ncalled(const hlo_instr *i) {
  u32 n = 0;
  hlo_computation *const *v;
  for (u32 k = 0; i->attrs && k < i->attrs->n; k++) n += callees_of(&i->attrs->v[k], &v);
  return n;
}

hlo_computation *hlo_called(const hlo_instr *i, u32 at) {
  for (u32 k = 0; i->attrs && k < i->attrs->n; k++) {
    hlo_computation *const *v;
    u32 n = callees_of(&i->attrs->v[k], &v);
    if (at < n) return v[at];
    at -= n;
  }
  return NULL;
}

bool hlo_calls(const hlo_instr *i, const hlo_computation *c) {
  for (u32 k = 0; i->attrs && k < i->attrs->n; k++) {
    hlo_computation *const *v;
    u32 of = callees_of(&i->attrs->v[k], &v);
    for (u32 j = 0; j < of; j++)
      if (v[j] == c) return true;
  }
  return false;
}

hlo_computation *hlo_fusion_comp(const hlo_instr *i) {
  hlo_computation *c = hlo_attr_comp(i, HLO_ATTR_CALLS);
  return c ? c : hlo_attr_comp(i, HLO_ATTR_TO_APPLY);
}

// The computations found so far in a traversal of the call graph, each once, in a list that is also
// the work list. Few are found as a rule: they are searched one by one, and a bit per computation
// id of the module is allocated only when there are more.
enum { FEW_CALLEES = 16 };
typedef struct callee_set {
  u32 n, cap;
  hlo_computation **v;  // `few`, or allocated
  u64 *found;           // one bit per computation id; NULL while v is `few`
  hlo_computation *few[FEW_CALLEES];
} callee_set;

static bool bit_set(u64 *bits, u32 id) {
  u64 bit = 1ull << (id & 63), was = bits[id / 64] & bit;
  bits[id / 64] |= bit;
  return was != 0;
}

// Moves the list out of `few` once that is full.
static void callee_set_grow(callee_set *s, const hlo_module *m) {
  if (!s->found) {
    s->found = hs_calloc(m->next_comp_id / 64 + 1, sizeof *s->found);
    for (u32 k = 0; k < s->n; k++) bit_set(s->found, s->v[k]->id);
  }
  hlo_computation **old = s->v;
  s->cap *= 2;
  s->v = hs_alloc(s->cap * sizeof(hlo_computation *));
  memcpy(s->v, old, s->n * sizeof *old);
  if (old != s->few) hs_free(old);
}

static void callee_set_add(callee_set *s, hlo_computation *c) {
  if (!c) return;  // in a module that is not verified
  if (s->found) {
    if (bit_set(s->found, c->id)) return;
  } else {
    for (u32 k = 0; k < s->n; k++)
      if (s->v[k] == c) return;
  }
  if (s->n == s->cap) {
    callee_set_grow(s, c->module);
    bit_set(s->found, c->id);
  }
  s->v[s->n++] = c;
}

static void callee_set_add_called(callee_set *s, const hlo_instr *i) {
  for (u32 k = 0; i->attrs && k < i->attrs->n; k++) {
    hlo_computation *const *v;
    u32 of = callees_of(&i->attrs->v[k], &v);
    for (u32 j = 0; j < of; j++) callee_set_add(s, v[j]);
  }
}

static bool reduces_with_effect(const hlo_instr *i) {
  return hlo_attr_int(i, HLO_ATTR_CHANNEL_ID, 0) > 0 ||
         hlo_attr_int(i, HLO_ATTR_CONSTRAIN_LAYOUT, 0);
}

static bool uses_alone(const hlo_instr *i, const hlo_instr *x) {
  hlo_for_each_use(u, x)
    if (u->user != i) return false;
  return true;
}

// Whether it is the done of a start that others use too: that stays, and needs its done.
static bool is_needed_done(const hlo_instr *i) {
  const hlo_instr *x = i->noperands ? hlo_operand(i, 0) : NULL;
  hlo_opcode start = hlo_start_of(i->opcode);
  bool ends = start != HLO_OP_INVALID && x && x->opcode == start;
  if (i->opcode == HLO_ASYNC_DONE && x)
    ends = x->opcode == HLO_ASYNC_START || x->opcode == HLO_ASYNC_UPDATE;
  return ends && !uses_alone(i, x);
}

// Whether it is the one user that an operation needs which has an effect and is done elsewhere (a
// send, a recv, the start of an all-reduce): then it is as much of an effect. Of an asynchronous
// call the computation has the effect, and is added.
static bool ends_an_effect(const hlo_instr *i, callee_set *s) {
  if (hlo_op_has(i->opcode, HLO_F_ELEMENTWISE)) return false;  // of arrays
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *x = hlo_operand(i, k);
    bool has = x->opcode == HLO_SEND || x->opcode == HLO_RECV ||
               (x->opcode == HLO_ALL_REDUCE_START && reduces_with_effect(x));
    bool call = x->opcode == HLO_ASYNC_START || x->opcode == HLO_ASYNC_UPDATE;
    if (!(has || call) || !uses_alone(i, x)) continue;
    if (has) return true;
    callee_set_add(s, hlo_async_wrapped(x));
  }
  return false;
}

// Whether the instruction has an effect itself; if not, adds the computations whose effects are
// its effects too.
static bool own_effect(const hlo_instr *i, callee_set *s) {
  if (hlo_op_has(i->opcode, HLO_F_SIDE_EFFECT) || ends_an_effect(i, s) || is_needed_done(i))
    return true;
  switch (i->opcode) {
  case HLO_CUSTOM_CALL:
    if (hlo_attr_int(i, HLO_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, 0)) return true;
    break;
  case HLO_ALL_REDUCE:
  case HLO_ALL_REDUCE_START: return reduces_with_effect(i);
  case HLO_ALL_GATHER:
  case HLO_ALL_TO_ALL:
  case HLO_REDUCE_SCATTER: return hlo_attr_int(i, HLO_ATTR_CONSTRAIN_LAYOUT, 0) != 0;
  case HLO_ASYNC_UPDATE:
  case HLO_ASYNC_DONE:  // an async chain is kept or removed as a whole
    callee_set_add(s, hlo_async_wrapped(i));
    return false;
  default: break;
  }
  if (hlo_op_has(i->opcode, HLO_F_CALLS)) callee_set_add_called(s, i);
  return false;
}

// XLA's HloInstruction::HasSideEffect: the own effect, then that of the called computations. XLA
// recurses and visits a computation once per path to it; here each is visited once, so the time is
// linear where calls share callees. Shared callees nested n deep have 2^n paths.
bool hlo_has_side_effect(const hlo_instr *i) {
  callee_set s = {.cap = FEW_CALLEES};
  s.v = s.few;
  bool effect = own_effect(i, &s);
  for (u32 k = 0; k < s.n && !effect; k++) {
    const hlo_instr *at = s.v[k]->first;
    for (; at && !effect; at = at->next) effect = own_effect(at, &s);
  }
  hs_free(s.found);
  if (s.v != s.few) hs_free(s.v);
  return effect;
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

typedef HS_VEC(const hlo_provenance *) provenance_stack;

// The next leaf below what is on the stack; false at the end.
static bool next_origin(provenance_stack *stack, i64 *source) {
  while (stack->n) {
    const hlo_provenance *p = hs_vec_pop(stack);
    *source = (i64)p->source;
    if (!p->a) return true;
    hs_vec_push(stack, p->b);
    hs_vec_push(stack, p->a);
  }
  return false;
}

bool hlo_stems_from(const hlo_instr *i, u32 source) {
  if (!i->provenance) return i->source == source + 1;
  provenance_stack stack = {0};
  hs_vec_push(&stack, i->provenance);
  i64 s = -1;
  for (u32 met = 0; s != (i64)source && met < HLO_MOST_ORIGINS; met++)
    if (!next_origin(&stack, &s)) break;
  hs_vec_free(&stack);
  return s == (i64)source;
}

hlo_ints hlo_origins_collect(const hlo_instr *i, u32 most, hs_arena *a) {
  HS_VEC(i64) found = {0};
  provenance_stack stack = {0};
  if (i->provenance) hs_vec_push(&stack, i->provenance);
  else if (i->source) hs_vec_push(&found, (i64)i->source - 1);
  for (i64 s; found.n < most && next_origin(&stack, &s);) hs_vec_push(&found, s);
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
      for (u32 j = 0; j < hlo_ncalled(i); j++) h = hs_mix(h, of_comp[hlo_called(i, j)->id]);
      if (hlo_is_root(i)) h = hs_mix(h, 99);
    }
    of_comp[comps[c]->id] = h;
    all = hs_mix(all, h);
  }
  all = hlo_attrs_hash(m->attrs, all, skip_in_fingerprint);
  hs_arena_free(&a);
  return all;
}
