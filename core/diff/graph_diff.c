// graph_diff.c — matching the instructions of two modules.
//
// Structural hashing as in global value numbering, then propagation along edges as in tree-diff
// algorithms (GumTree: Falleri et al., 2014). The value of an instruction is a hash of what it
// computes: opcode, shape, attributes, values of its operands. A fusion or call that alone calls
// its computation is looked through, so an instruction keeps its value when a pass fuses, inlines
// or outlines it. Equal values are paired in order, those in counterpart computations first. What
// is left is paired from its paired neighbours (operand or user of a pair, same opcode), so that
// one changed instruction does not make everything after it count as new; at last by name.
// Computations are paired when their callers are, and else by name. Reducers and what else is
// applied to elements are alike by the hundred: they are paired whole, those left over by value.
#include "core/diff/graph_diff.h"

#include <stdlib.h>

#define MAX_NESTING 2000  // calls nested deeper are not looked through
#define MAX_SCAN 64       // candidates of one value that are looked at

typedef struct keyed {
  u64 key;
  u32 order;
  hlo_instr *i;
} keyed;

// One module, its values, and its instructions sorted by value.
typedef struct side {
  const hlo_module *m;
  u64 *value;  // by instruction id
  // by computation id: the fusion or call that alone calls it, or NULL
  hlo_instr **caller;
  bool *applied;  // by computation id: it is a reducer, a comparison, ...
  bool *started;  // by computation id: its instructions have values
  keyed *sorted;
  u32 n;
} side;

typedef struct matcher {
  side a, b;
  hlo_graph_diff *d;
  // instructions of a that got a counterpart; the neighbours' worklist
  HS_VEC(hlo_instr *) pairs;
} matcher;

// ---- values -------------------------------------------------------------------------------------
static bool not_compared(hlo_attr_id id) {
  hlo_attr_kind k = hlo_attr_kind_of(id);
  return hlo_attr_is_annotation(id) || k == HLO_AK_COMP || k == HLO_AK_COMPS;
}

static void find_callers(side *s, hs_arena *ar) {
  s->caller = HS_NEW_ARRAY(ar, hlo_instr *, s->m->next_comp_id + 1);
  s->applied = HS_NEW_ARRAY(ar, bool, s->m->next_comp_id + 1);
  u8 *times = HS_NEW_ARRAY(ar, u8, s->m->next_comp_id + 1);
  hlo_for_each_comp(c, s->m)
    hlo_for_each_instr(i, c) {
      u32 n = hlo_ncalled(i);
      bool through = n == 1 && (i->opcode == HLO_FUSION || i->opcode == HLO_CALL) &&
                     i->noperands == hlo_called(i, 0)->nparams;
      for (u32 k = 0; k < n; k++) {
        u32 id = hlo_called(i, k)->id;
        s->applied[id] |=
            i->opcode != HLO_FUSION && !hlo_op_has(i->opcode, HLO_F_CONTROL | HLO_F_ASYNC_WRAPPER);
        times[id] = (u8)(through && times[id] == 0 ? 1 : 2);
        s->caller[id] = times[id] == 1 ? i : NULL;
      }
    }
}

static hlo_computation *looked_through(hlo_instr *const *caller, const hlo_instr *i) {
  hlo_computation *c = i->opcode == HLO_FUSION || i->opcode == HLO_CALL ? hlo_fusion_comp(i) : NULL;
  return c && caller[c->id] == i ? c : NULL;
}

// The instruction whose value `i` hands on: parameters, fusions, tuples and their elements are
// looked through.
static hlo_instr *look_through(hlo_instr *const *caller, hlo_instr *i) {
  for (u32 steps = 0; steps < MAX_NESTING; steps++) {
    if (i->opcode == HLO_PARAMETER && caller[i->parent->id]) {
      i = hlo_operand(caller[i->parent->id], (u32)hlo_param_number(i));
      continue;
    }
    hlo_computation *c = looked_through(caller, i);
    if (c) {
      i = c->root;
      continue;
    }
    if (i->opcode != HLO_GET_TUPLE_ELEMENT) return i;
    hlo_instr *from = look_through(caller, hlo_operand(i, 0));
    i64 index = hlo_attr_int(i, HLO_ATTR_INDEX, 0);
    if (from->opcode != HLO_TUPLE || index >= from->noperands) return i;
    i = hlo_operand(from, (u32)index);
  }
  return i;
}

static u64 comp_value(side *s, const hlo_computation *c, u32 depth);

static u64 instr_value(side *s, hlo_instr *i, u32 depth) {
  hlo_computation *c = looked_through(s->caller, i);
  if (c && depth < MAX_NESTING) return comp_value(s, c, depth + 1);
  hlo_instr *source = look_through(s->caller, i);
  if (source != i && s->value[source->id]) return s->value[source->id];
  u64 h = hs_mix(i->opcode, i->shape->logical->hash);
  if (i->opcode == HLO_PARAMETER) return hs_mix(h, (u64)hlo_param_number(i)) | 1;
  for (u32 k = 0; k < i->noperands; k++) h = hs_mix(h, s->value[hlo_operand(i, k)->id]);
  for (u32 k = 0; k < hlo_ncalled(i); k++)
    h = hs_mix(h, depth < MAX_NESTING ? comp_value(s, hlo_called(i, k), depth + 1) : 1);
  return hlo_attrs_hash(i->attrs, h, not_compared) | 1;
}

// Gives a computation's instructions their values (its caller's operands have theirs already); the
// root's is its own.
static u64 comp_value(side *s, const hlo_computation *c, u32 depth) {
  if (s->started[c->id]) return s->value[c->root->id];
  s->started[c->id] = true;
  hs_arena tmp = {0};
  hlo_instr **order = hlo_post_order(c, &tmp);
  for (u32 k = 0; k < c->ninstrs && !hs_interrupted(); k++)
    s->value[order[k]->id] = instr_value(s, order[k], depth);
  hs_arena_free(&tmp);
  return s->value[c->root->id];
}

static u64 key_of(const side *s, const hlo_instr *i) { return hs_mix(s->value[i->id], i->opcode); }

static int by_key(const void *x, const void *y) {
  const keyed *a = x, *b = y;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return a->order < b->order ? -1 : a->order > b->order;
}

// Values, and the instructions in callers-first order and sorted by value.
static void prepare(side *s, const hlo_module *m, hs_arena *ar) {
  s->m = m;
  s->value = HS_NEW_ARRAY(ar, u64, m->next_instr_id + 1);
  s->started = HS_NEW_ARRAY(ar, bool, m->next_comp_id + 1);
  find_callers(s, ar);
  comp_value(s, m->entry, 0);
  hlo_for_each_comp(c, m)
    if (!hs_interrupted()) comp_value(s, c, 0);
  s->sorted = HS_NEW_ARRAY(ar, keyed, hlo_instr_count(m) + 1);
  u32 ncomps;
  hlo_computation **comps = hlo_comp_post_order(m, ar, &ncomps);
  for (u32 c = ncomps; c-- > 0 && !hs_interrupted();) {
    hs_arena tmp = {0};
    hlo_instr **order = hlo_post_order(comps[c], &tmp);
    for (u32 k = 0; k < comps[c]->ninstrs; k++, s->n++)
      s->sorted[s->n] = (keyed){key_of(s, order[k]), s->n, order[k]};
    hs_arena_free(&tmp);
  }
}

// ---- pairing ------------------------------------------------------------------------------------
static void pair_computations(matcher *, hlo_computation *, hlo_computation *);

static void pair(matcher *t, hlo_instr *x, hlo_instr *y) {
  hlo_graph_diff *d = t->d;
  if (d->of_a[x->id] || d->of_b[y->id]) return;
  d->of_a[x->id] = y;
  d->of_b[y->id] = x;
  hs_vec_push(&t->pairs, x);
  u32 n = hlo_ncalled(x), m = hlo_ncalled(y);
  for (u32 k = 0; n == m && k < n; k++) pair_computations(t, hlo_called(x, k), hlo_called(y, k));
}

static void pair_computations(matcher *t, hlo_computation *x, hlo_computation *y) {
  hlo_graph_diff *d = t->d;
  if (d->comp_of_a[x->id] || d->comp_of_b[y->id]) return;
  d->comp_of_a[x->id] = y;
  d->comp_of_b[y->id] = x;
  for (u32 k = 0; k < HS_MIN(x->nparams, y->nparams); k++) pair(t, x->params[k], y->params[k]);
}

// The first instruction of b in sorted order from j on that has no counterpart; `next` skips runs
// of those that have, and is shortened on the way.
static u32 free_from(const matcher *t, u32 *next, u32 j) {
  u32 end = j;
  while (end < t->b.n && t->d->of_b[t->b.sorted[end].i->id])
    end = next[end] > end ? next[end] : end + 1;
  while (j < end) {
    u32 after = next[j] > j ? next[j] : j + 1;
    next[j] = end;
    j = after;
  }
  return end;
}

// Where the counterpart of an instruction may be: in the counterpart of its computation; anywhere
// but in what is applied to elements; also there, but not from one such computation to another; the
// root of one that has no counterpart, for a root.
typedef enum place { COUNTERPART, NOT_APPLIED, ANYWHERE, ROOT_APPLIED } place;

static bool may_pair(const matcher *t, const hlo_instr *x, const hlo_instr *y, place where) {
  bool in_a = t->a.applied[x->parent->id], in_b = t->b.applied[y->parent->id];
  switch (where) {
  case COUNTERPART: return t->d->comp_of_a[x->parent->id] == y->parent;
  case NOT_APPLIED: return x->opcode != HLO_PARAMETER && !in_a && !in_b;
  case ANYWHERE: return x->opcode != HLO_PARAMETER && !(in_a && in_b);
  case ROOT_APPLIED: return in_b && hlo_is_root(y) && !t->d->comp_of_b[y->parent->id];
  }
  return false;
}

// The first of b in sorted order with this key.
static u32 first_of(const side *b, u64 key) {
  u32 lo = 0, hi = b->n;
  while (lo < hi) {
    u32 mid = (lo + hi) / 2;
    if (b->sorted[mid].key < key) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

// The first free instruction of b, there, with the value of x, which has this key; NULL: none.
static hlo_instr *free_like(const matcher *t, u32 *next, const hlo_instr *x, u64 key, place where) {
  const keyed *b = t->b.sorted;
  for (u32 j = free_from(t, next, first_of(&t->b, key)), seen = 0;
       j < t->b.n && b[j].key == key && seen < MAX_SCAN; j = free_from(t, next, j + 1), seen++)
    if (may_pair(t, x, b[j].i, where)) return b[j].i;
  return NULL;
}

// Counterparts by value: instructions of a in callers-first order take the first free one of b.
static void pair_by_value(matcher *t, const keyed *order_a, u32 *next, place where) {
  for (u32 k = 0; k < t->a.n && !hs_interrupted(); k++) {
    hlo_instr *x = order_a[k].i,
              *y = t->d->of_a[x->id] ? NULL : free_like(t, next, x, order_a[k].key, where);
    if (y) pair(t, x, y);
  }
}

// Of computations that are applied and whose callers have no counterparts: by their roots' values.
static void pair_applied(matcher *t, u32 *next) {
  hlo_for_each_comp(c, t->a.m) {
    if (hs_interrupted()) return;
    if (!t->a.applied[c->id] || t->d->comp_of_a[c->id] || t->d->of_a[c->root->id]) continue;
    hlo_instr *y = free_like(t, next, c->root, key_of(&t->a, c->root), ROOT_APPLIED);
    if (!y) continue;
    pair_computations(t, c, y->parent);
    pair(t, c->root, y);
  }
}

// A user of y that may be the counterpart of u's: one of the same shape before others; NULL: none.
static hlo_instr *like_user(const matcher *t, const hlo_use *u, const hlo_instr *y) {
  hlo_instr *other = NULL;
  u32 scanned = 0;
  hlo_for_each_use(v, y) {
    if (scanned++ > MAX_SCAN) break;
    if (hlo_slot(v) != hlo_slot(u) || v->user->opcode != u->user->opcode || t->d->of_b[v->user->id])
      continue;
    if (v->user->shape->logical == u->user->shape->logical) return v->user;
    if (!other) other = v->user;
  }
  return other;
}

static void pair_neighbours(matcher *t) {
  hlo_graph_diff *d = t->d;
  for (size_t at = 0; at < t->pairs.n && !hs_interrupted(); at++) {
    hlo_instr *x = t->pairs.v[at], *y = d->of_a[x->id];
    for (u32 k = 0; k < HS_MIN(x->noperands, y->noperands); k++) {
      hlo_instr *p = hlo_graph_diff_operand_a(d, x, k), *q = hlo_graph_diff_operand_b(d, y, k);
      if (p->opcode == q->opcode && p->opcode != HLO_PARAMETER && p->shape->rank == q->shape->rank)
        pair(t, p, q);
    }
    u32 tried = 0;
    hlo_for_each_use(u, x) {
      if (d->of_a[u->user->id] || tried++ > MAX_SCAN) continue;
      hlo_instr *user = like_user(t, u, y);
      if (user) pair(t, u->user, user);
    }
  }
}

static void pair_by_name(matcher *t) {
  hlo_for_each_comp(c, t->a.m) {
    if (hs_interrupted()) return;
    if (!t->d->comp_of_a[c->id]) {
      hlo_computation *o = hlo_find_comp(t->b.m, c->name);
      if (o) pair_computations(t, c, o);
    }
    hlo_for_each_instr(i, c) {
      hlo_instr *o = t->d->of_a[i->id] ? NULL : hlo_find_instr(t->b.m, i->name);
      if (o && (o->opcode == i->opcode || (hlo_is_root(i) && hlo_is_root(o)))) pair(t, i, o);
    }
  }
}

hlo_instr *hlo_graph_diff_operand_a(const hlo_graph_diff *d, const hlo_instr *i, u32 k) {
  return look_through(d->caller_a, hlo_operand(i, k));
}
hlo_instr *hlo_graph_diff_operand_b(const hlo_graph_diff *d, const hlo_instr *i, u32 k) {
  return look_through(d->caller_b, hlo_operand(i, k));
}

// ---- what changed -------------------------------------------------------------------------------
bool hlo_graph_diff_is_forwarding(const hlo_instr *i) {
  return i->opcode == HLO_TUPLE || i->opcode == HLO_GET_TUPLE_ELEMENT ||
         (i->opcode == HLO_PARAMETER && i->parent != i->parent->module->entry);
}

bool hlo_graph_diff_same_operand(const hlo_graph_diff *d, const hlo_instr *a, const hlo_instr *b,
                                 u32 k) {
  const hlo_instr *p = hlo_graph_diff_operand_a(d, a, k), *q = hlo_graph_diff_operand_b(d, b, k);
  if (d->of_a[p->id] == q) return true;
  return p->opcode == HLO_CONSTANT && q->opcode == HLO_CONSTANT && p->shape == q->shape &&
         hlo_attrs_equal(p->attrs, q->attrs, not_compared);
}

static u8 change_of(const matcher *t, hlo_instr *x, hlo_instr *y) {
  const hlo_graph_diff *d = t->d;
  u8 bits = 0;
  if (x->opcode != y->opcode) bits |= HLO_DIFF_OPCODE;
  if (x->shape != y->shape) bits |= HLO_DIFF_SHAPE;
  if (!hlo_attrs_equal(x->attrs, y->attrs, not_compared)) bits |= HLO_DIFF_ATTRS;
  if (d->comp_of_a[x->parent->id] != y->parent) bits |= HLO_DIFF_MOVED;
  // What a fusion or call computes is told by the instructions inside it.
  bool through = looked_through(d->caller_a, x) && looked_through(d->caller_b, y);
  if (!through && x->noperands != y->noperands) bits |= HLO_DIFF_OPERANDS;
  for (u32 k = 0; !through && k < HS_MIN(x->noperands, y->noperands); k++)
    if (!hlo_graph_diff_same_operand(d, x, y, k)) bits |= HLO_DIFF_OPERANDS;
  return bits;
}

static void count(matcher *t) {
  hlo_graph_diff *d = t->d;
  hlo_for_each_comp(c, d->b)
    hlo_for_each_instr(y, c) {
      if (hs_interrupted()) return;
      hlo_instr *x = d->of_b[y->id];
      if (x) d->change[y->id] = change_of(t, x, y);
      if (hlo_graph_diff_is_forwarding(y)) continue;
      if (!x) d->added++;
      else if (d->change[y->id] & ~HLO_DIFF_MOVED) d->changed++;
      else if (d->change[y->id]) d->moved++;
      else d->same++;
    }
  hlo_for_each_comp(c, d->a)
    hlo_for_each_instr(x, c) d->removed += !d->of_a[x->id] && !hlo_graph_diff_is_forwarding(x);
}

void hlo_graph_diff_make(const hlo_module *a, const hlo_module *b, hs_arena *ar,
                         hlo_graph_diff *d) {
  *d = (hlo_graph_diff){.a = a, .b = b};
  d->of_a = HS_NEW_ARRAY(ar, hlo_instr *, a->next_instr_id + 1);
  d->of_b = HS_NEW_ARRAY(ar, hlo_instr *, b->next_instr_id + 1);
  d->comp_of_a = HS_NEW_ARRAY(ar, hlo_computation *, a->next_comp_id + 1);
  d->comp_of_b = HS_NEW_ARRAY(ar, hlo_computation *, b->next_comp_id + 1);
  d->change = HS_NEW_ARRAY(ar, u8, b->next_instr_id + 1);
  matcher t = {.d = d};
  prepare(&t.a, a, ar);
  prepare(&t.b, b, ar);
  d->caller_a = t.a.caller;
  d->caller_b = t.b.caller;
  qsort(t.b.sorted, t.b.n, sizeof *t.b.sorted, by_key);
  pair_computations(&t, a->entry, b->entry);
  u32 *next = HS_NEW_ARRAY(ar, u32, t.b.n + 1);
  pair_by_value(&t, t.a.sorted, next, COUNTERPART);
  pair_by_value(&t, t.a.sorted, next, NOT_APPLIED);
  if (a->entry->root->opcode == b->entry->root->opcode) pair(&t, a->entry->root, b->entry->root);
  pair_neighbours(&t);
  pair_by_name(&t);
  pair_neighbours(&t);
  pair_applied(&t, next);
  pair_by_value(&t, t.a.sorted, next, COUNTERPART);
  pair_by_value(&t, t.a.sorted, next, ANYWHERE);
  pair_neighbours(&t);
  count(&t);
  hs_vec_free(&t.pairs);
}

bool hlo_graph_diff_same(const hlo_graph_diff *d) {
  if (d->moved || d->changed || d->removed || d->added) return false;
  const hlo_instr *x = d->a->entry->root, *y = d->b->entry->root;
  if (x->opcode != y->opcode || x->shape != y->shape || x->noperands != y->noperands) return false;
  if (!hlo_graph_diff_is_forwarding(x)) return d->of_a[x->id] == y;
  for (u32 k = 0; k < x->noperands; k++)
    if (d->of_a[hlo_graph_diff_operand_a(d, x, k)->id] != hlo_graph_diff_operand_b(d, y, k))
      return false;
  return true;
}
