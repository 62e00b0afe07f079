// copies_remove.c — removes copies that live ranges do not require (CopyRemover in
// xla/service/copy_insertion.cc).
//
// The values of each buffer form a list (a ring with a head) in the order of their live ranges. A
// copy is removed when the lists of its operand and its result can be concatenated there: the last
// use of every value precedes the definition of the next. Where that order is not strict, the live
// range regions of the two lists, sets of instructions, are compared (with the option
// use_region_based_live_range_analysis): they may touch as long as no instruction writes the buffer
// between the definition and a use of a value of the other list. Unordered instructions are then
// ordered by control edges.
#include "passes/buffer/copies.h"
#include "core/ir/async.h"

#include <stdlib.h>

enum { NO_OVERLAP = 0, SAME = 1, BEFORE = 2, AFTER = 4, EITHER = BEFORE | AFTER };

// next: the next edge from `first`
typedef struct edge {
  hlo_instr *first, *then;
  u32 next;
} edge;
typedef struct remover {
  pass_ctx *c;
  cp_flow *f;
  u32 *prev, *next;  // by value: neighbours in its ring
  bool *head;        // by value: first of its ring
  u32 *source;       // by value that a copy defines: the value copied; CP_NONE
  u32 *mark[2];      // by instruction id: 1 + its index in a region
  u32 *edge_of;      // by instruction id: the first edge from it
  HS_VEC(edge) edges, forced;
  i64 region_limit;
} remover;

static u32 next_of(const remover *r, u32 v) { return r->head[r->next[v]] ? CP_NONE : r->next[v]; }
static u32 prev_of(const remover *r, u32 v) { return r->head[v] ? CP_NONE : r->prev[v]; }

// ---- strict order -------------------------------------------------------------------------------
typedef struct scan {
  bool exclusive, escaped;
} scan;

static bool used_by_root(const cp_flow *f, u32 value) {
  for (u32 u = f->first_use[value]; u != CP_NONE; u = f->uses.v[u].next)
    if (hlo_is_root(f->uses.v[u].user)) return true;
  return false;
}

static bool use_before(cp_flow *f, const cp_use *u, u32 value, scan *s) {
  const hlo_instr *user = u->user, *def = f->definer[value];
  switch (cp_order_of(f, user, def)) {
  case CP_SAME:
    if (cp_share(f, user, u->operand, u->leaf, value - f->base[def->id])) return true;
    break;
  case CP_EXCLUSIVE_AFTER:
    if (!s->escaped) return s->exclusive = true;
    break;
  case CP_EXCLUSIVE_BEFORE:
  case CP_BEFORE:
  case CP_BEFORE_END: return true;
  case CP_AFTER:
  case CP_UNORDERED: break;
  }
  if (user->opcode == HLO_WHILE) {
    const hlo_computation *cond = hlo_attr_comp(user, HLO_ATTR_CONDITION);
    if (cp_nested(f, def, hlo_attr_comp(user, HLO_ATTR_BODY))) return true;
    if (cp_nested(f, def, cond)) return def == cond->params[0];
  }
  if (def->opcode == HLO_WHILE && (cp_nested(f, user, hlo_attr_comp(def, HLO_ATTR_BODY)) ||
                                   cp_nested(f, user, hlo_attr_comp(def, HLO_ATTR_CONDITION))))
    return true;
  if (user->opcode == HLO_CALL && cp_nested(f, def, hlo_fusion_comp(user))) return true;
  if (user->opcode == HLO_ASYNC_START || user->opcode == HLO_ASYNC_UPDATE) {
    const hlo_computation *w = hlo_async_wrapped(user);
    if (w && cp_nested(f, def, w)) return true;
  }
  if (user->opcode == HLO_CONDITIONAL) {
    if (def == user) return true;
    hlo_computation **v;
    u32 n;
    pass_called_all(user, f->a, &v, &n);
    for (u32 k = 0; k < n; k++) {
      if (!cp_nested(f, def, v[k])) continue;
      const hlo_instr *x = hlo_operand(user, u->operand);
      bool defined = x->opcode != HLO_GET_TUPLE_ELEMENT && x->opcode != HLO_PARAMETER &&
                     f->at[f->base[x->id]] == f->base[x->id];
      if (!defined && x->opcode != HLO_TUPLE) s->escaped |= used_by_root(f, value);
      if (!s->exclusive) return true;
    }
  }
  return false;
}

static bool ends_before(remover *r, u32 a, u32 b) {
  cp_flow *f = r->f;
  if (f->first_use[a] == CP_NONE) return cp_defined_before(f, a, b);
  for (u32 k = f->first_root[a]; k != CP_NONE; k = f->roots.v[k].next)
    if (f->roots.v[k].comp == f->definer[b]->parent) return false;
  scan s = {0};
  for (u32 u = f->first_use[a]; u != CP_NONE; u = f->uses.v[u].next) {
    r->f->work++;
    if (!use_before(f, &f->uses.v[u], b, &s)) return false;
  }
  return true;
}

// Whether the live ranges of all values up to `last` precede those of all values from `first` on.
static bool lists_in_order(remover *r, u32 last, u32 first) {
  for (u32 b = first; b != CP_NONE; b = next_of(r, b))
    for (u32 a = last; a != CP_NONE; a = prev_of(r, a)) {
      r->f->work++;
      if (!ends_before(r, a, b)) return false;
    }
  return true;
}

// ---- regions ------------------------------------------------------------------------------------
// defines: defines a value of the region; writes: overwrites a value that it uses
typedef struct entry {
  hlo_instr *i, *definer;
  bool defines, writes;
  u32 next;
} entry;
typedef struct region_part {
  const hlo_computation *comp;
  u32 first;
} region_part;
typedef struct region {
  HS_VEC(entry) v;
  HS_VEC(region_part) parts;
  u32 *mark;
} region;

static entry *entry_of(region *g, hlo_instr *i) {
  if (!g->mark[i->id]) {
    u32 p = 0;
    while (p < g->parts.n && g->parts.v[p].comp != i->parent) p++;
    if (p == g->parts.n) {
      region_part fresh = {i->parent, CP_NONE};
      hs_vec_push(&g->parts, fresh);
    }
    entry e = {i, NULL, false, false, g->parts.v[p].first};
    g->parts.v[p].first = (u32)g->v.n;
    hs_vec_push(&g->v, e);
    g->mark[i->id] = (u32)g->v.n;
  }
  return &g->v.v[g->mark[i->id] - 1];
}

static bool writes_over(const hlo_instr *i, u32 operand, u32 leaf) {
  cp_pairs v = {0};
  bool yes = false;
  cp_in_place(i, &v);
  for (u32 k = 0; k < v.n; k++) yes |= v.v[k].operand == operand && v.v[k].in_leaf == leaf;
  hs_vec_free(&v);
  return yes;
}

static bool modifies(const hlo_instr *i, const hlo_instr *x) {
  for (u32 k = 0; k < i->noperands; k++)
    if (hlo_operand(i, k) == x && writes_over(i, k, 0)) return true;
  return false;
}

static void collect(remover *r, u32 value, region *g) {
  u32 v = value;
  do {
    hlo_instr *def = r->f->definer[v];
    entry_of(g, def)->defines = true;
    for (u32 k = r->f->first_use[v]; k != CP_NONE; k = r->f->uses.v[k].next) {
      const cp_use *u = &r->f->uses.v[k];
      entry *e = entry_of(g, u->user);
      e->definer = def;
      e->writes |= r->f->writes[u->user->id] && writes_over(u->user, u->operand, u->leaf);
    }
    v = r->next[v];
  } while (v != value);
}

static void drop(region *g) {
  for (u32 k = 0; k < g->v.n; k++) g->mark[g->v.v[k].i->id] = 0;
  hs_vec_free(&g->v);
  hs_vec_free(&g->parts);
}

static u32 runtime_order(remover *r, const hlo_instr *a, const hlo_instr *b) {
  r->f->work++;
  switch (cp_order_of(r->f, a, b)) {
  case CP_SAME: return SAME;
  case CP_BEFORE_END: return BEFORE | SAME;
  case CP_BEFORE: return BEFORE;
  case CP_AFTER: return AFTER;
  case CP_EXCLUSIVE_BEFORE:
  case CP_EXCLUSIVE_AFTER: return NO_OVERLAP;
  case CP_UNORDERED: break;
  }
  if (a->parent != b->parent) return EITHER;
  for (u32 k = 0; k < r->forced.n; k++) {
    const hlo_instr *first = r->forced.v[k].first, *then = r->forced.v[k].then;
    if (then == b && (first == a || cp_order_of(r->f, a, first) == CP_BEFORE)) return BEFORE;
    if (then == a && (first == b || cp_order_of(r->f, b, first) == CP_BEFORE)) return AFTER;
  }
  return EITHER;
}

// Asynchronous communication: its buffers are accessed concurrently, so they are not shared.
static bool always_intercepts(const hlo_instr *i) {
  switch (i->opcode) {
  case HLO_SEND:
  case HLO_RECV:
  case HLO_COPY_START:
  case HLO_ALL_REDUCE_START:
  case HLO_ALL_GATHER_START:
  case HLO_COLLECTIVE_PERMUTE_START:
  case HLO_ASYNC_START:
  case HLO_SEND_DONE:
  case HLO_RECV_DONE:
  case HLO_COPY_DONE:
  case HLO_ALL_REDUCE_DONE:
  case HLO_ALL_GATHER_DONE:
  case HLO_COLLECTIVE_PERMUTE_DONE:
  case HLO_ASYNC_UPDATE:
  case HLO_ASYNC_DONE:
  case HLO_COLLECTIVE_PERMUTE: return true;
  default: return false;
  }
}

static bool can_intercept(const entry *e, const region *other) {
  const hlo_instr *i = e->i;
  if (!e->defines) return e->writes;
  switch (i->opcode) {
  case HLO_COPY: {
    const hlo_instr *x = hlo_operand(i, 0);
    if (x->opcode == HLO_GET_TUPLE_ELEMENT) x = hlo_operand(x, 0);
    return !other->mark[x->id] || i->shape != hlo_operand(i, 0)->shape;
  }
  case HLO_PARAMETER:
  case HLO_TUPLE:
  case HLO_GET_TUPLE_ELEMENT:
  case HLO_WHILE:
  case HLO_CALL:
  case HLO_CONDITIONAL: return false;
  default: return true;
  }
}

typedef struct relation {
  u32 order;
  bool intercepts;
} relation;

static bool inside(const cp_flow *f, const hlo_instr *i, const hlo_instr *loop) {
  if (loop->opcode != HLO_WHILE) return false;
  return cp_nested(f, i, hlo_attr_comp(loop, HLO_ATTR_BODY)) ||
         cp_nested(f, i, hlo_attr_comp(loop, HLO_ATTR_CONDITION));
}

static relation relate(remover *r, const entry *e1, const entry *e2, bool can_modify) {
  relation out = {runtime_order(r, e2->i, e1->i), always_intercepts(e2->i)};
  if (inside(r->f, e2->i,
             e1->i)) {  // the loop starts before the instructions in it and ends after them
    out.order = (e1->definer ? AFTER : NO_OVERLAP) | (e1->defines ? BEFORE : NO_OVERLAP);
    return out;
  }
  if (out.order == SAME && e1->defines != e2->defines) out.order = e1->defines ? BEFORE : AFTER;
  if (!e1->definer || !can_modify) return out;
  if (e1->definer->opcode == HLO_PARAMETER && hlo_is_root(e1->i)) {
    out.intercepts = true;
  } else if (out.order == BEFORE || out.order == EITHER) {
    u32 defined = inside(r->f, e2->i, e1->definer) ? BEFORE : runtime_order(r, e2->i, e1->definer);
    if (defined == AFTER || defined == EITHER) out.intercepts = true;
  }
  return out;
}

// Orders e2 before, or after, all of `unordered`, if that is allowed.
static bool force_order(remover *r, u32 n, entry *const *unordered, const entry *e2, u32 wanted) {
  if (n == 0) return true;
  if (wanted != BEFORE && wanted != AFTER) return false;
  for (u32 k = 0; k < n; k++) {
    if (unordered[k]->i->parent != e2->i->parent) return false;
    const hlo_instr *first = wanted == BEFORE ? e2->i : unordered[k]->i,
                    *then = wanted == BEFORE ? unordered[k]->i : e2->i;
    if (hlo_is_root(first) || (then->opcode == HLO_COPY && modifies(first, hlo_operand(then, 0))))
      return false;
  }
  for (u32 k = 0; k < n; k++) {
    edge e = {wanted == BEFORE ? e2->i : unordered[k]->i,
              wanted == BEFORE ? unordered[k]->i : e2->i, CP_NONE};
    hs_vec_push(&r->forced, e);
  }
  return true;
}

// Whether one instruction defines values of both: their live ranges start together.
static bool defined_together(const region *a, const region *b) {
  for (u32 k = 0; k < b->v.n; k++) {
    u32 m = b->v.v[k].defines ? a->mark[b->v.v[k].i->id] : 0;
    if (m && a->v.v[m - 1].defines) return true;
  }
  return false;
}

// Compares region b with the parts of region a in the same or enclosing computations.
static void locate(remover *r, region *a, region *b, bool *overlap, bool *intercepts) {
  HS_VEC(entry *) unordered = {0};
  *overlap = *intercepts = false;
  for (u32 p = 0; p < a->parts.n; p++)
    for (u32 k = 0; k < b->v.n; k++) {
      entry *e2 = &b->v.v[k];
      if (!cp_nested(r->f, e2->i, a->parts.v[p].comp)) continue;
      bool can_modify = can_intercept(e2, a), unordered_intercepts = false;
      u32 order = 0;
      unordered.n = 0;
      for (u32 j = a->parts.v[p].first; j != CP_NONE; j = a->v.v[j].next) {
        relation one = relate(r, &a->v.v[j], e2, can_modify);
        if (one.order == EITHER)
          hs_vec_push(&unordered, &a->v.v[j]), unordered_intercepts |= one.intercepts;
        else order |= one.order, *intercepts |= one.intercepts;
      }
      if (!force_order(r, (u32)unordered.n, unordered.v, e2, order))
        order |= EITHER, *intercepts |= unordered_intercepts;
      *overlap |= order >= EITHER;
    }
  hs_vec_free(&unordered);
}

static void note_edge(remover *r, hlo_instr *first, hlo_instr *then) {
  edge e = {first, then, r->edge_of[first->id]};
  r->edge_of[first->id] = (u32)r->edges.n;
  hs_vec_push(&r->edges, e);
}

static void add_control_edge(remover *r, hlo_instr *first, hlo_instr *then) {
  const hlo_instr_list *l = then->ctrl_preds;
  u32 n = l ? l->n : 0;
  // a path through the copy disappears with it, so only direct edges count
  for (u32 k = 0; k < then->noperands; k++)
    if (hlo_operand(then, k) == first) return;
  for (u32 k = 0; k < n; k++)
    if (l->v[k] == first) return;
  hlo_instr **v = HS_NEW_ARRAY(r->c->scratch, hlo_instr *, n + 1);
  for (u32 k = 0; k < n; k++) v[k] = l->v[k];
  v[n] = first;
  hlo_set_ctrl_preds(then, n + 1, v);
  note_edge(r, first, then);
  cp_add_order(r->f, first, then);
}

// Whether an edge might close a cycle. Once the work limit is reached the order is unknown.
static bool may_close_cycle(remover *r, const edge *e) {
  return cp_order_of(r->f, e->then, e->first) == CP_BEFORE || r->f->work >= CP_WORK_MOST;
}

// Whether the live ranges of two lists conflict. dest_first: the copy's value is the first of its
// list; else the copied value is the last of its own.
static bool interfere(remover *r, u32 src, u32 dest, bool dest_first) {
  region a = {.mark = r->mark[0]}, b = {.mark = r->mark[1]};
  collect(r, src, &a);
  collect(r, dest, &b);
  bool refused = defined_together(&a, &b) || (i64)a.v.n * (i64)b.v.n > CP_WORK_MOST - r->f->work ||
                 (r->region_limit >= 0 && (i64)a.v.n * (i64)b.v.n > r->region_limit);
  if (!refused) {
    bool over1, cut1, over2, cut2;
    r->forced.n = 0;
    locate(r, &a, &b, &over1, &cut1);
    locate(r, &b, &a, &over2, &cut2);
    refused = (over1 && over2) || (over1 && (cut1 || (!dest_first && cut2))) ||
              (over2 && (cut2 || (dest_first && cut1)));
    for (u32 k = 0; !refused && k < r->forced.n; k++) refused = may_close_cycle(r, &r->forced.v[k]);
    for (u32 k = 0; !refused && k < r->forced.n;
         k++)  // the edges added before may close a cycle with it
      if (!may_close_cycle(r, &r->forced.v[k]))
        add_control_edge(r, r->forced.v[k].first, r->forced.v[k].then);
      else refused = true;
  }
  drop(&a);
  drop(&b);
  return refused;
}

// ---- one copy -----------------------------------------------------------------------------------
// Inserts the ring with head `first` after a value of another ring.
static void splice(remover *r, u32 first, u32 after) {
  u32 last = r->prev[first];
  r->head[first] = false;
  r->next[last] = r->next[after], r->prev[r->next[after]] = last;
  r->next[after] = first, r->prev[first] = after;
}

// Replaces the copy's value d by its operand's value s, in the list, the uses and the roots.
static void merge_value(remover *r, u32 d, u32 s) {
  cp_flow *f = r->f;
  if (r->head[d]) r->head[d] = false, r->head[r->next[d]] = true;
  r->next[r->prev[d]] = r->next[d], r->prev[r->next[d]] = r->prev[d];
  for (u32 *u = &f->first_use[s]; *u != CP_NONE; u = &f->uses.v[*u].next)
    if (f->uses.v[*u].user == f->definer[d]) {
      *u = f->uses.v[*u].next;
      break;
    }
  for (u32 u = f->first_use[d], then; u != CP_NONE; u = then) {
    const hlo_instr *user = f->uses.v[u].user;
    then = f->uses.v[u].next;
    f->uses.v[u].next = f->first_use[s];
    f->first_use[s] = u;
    if (user->opcode == HLO_COPY && f->base[user->id] != CP_NONE &&
        r->source[f->base[user->id]] == d)
      r->source[f->base[user->id]] = s;
  }
  for (u32 k = f->first_root[d], then; k != CP_NONE; k = then) {
    then = f->roots.v[k].next;
    f->roots.v[k].next = f->first_root[s];
    f->first_root[s] = k;
  }
}

static bool try_remove(remover *r, hlo_instr *copy) {
  u32 d = r->f->base[copy->id], s = r->source[d];
  const hlo_instr *x = hlo_operand(copy, 0);
  // a copy ends the size that its operand hides
  if (s == CP_NONE || copy->shape != x->shape || pass_hides_size(x) || r->f->work > CP_WORK_MOST)
    return false;
  bool regions = r->region_limit != 0 && hlo_operand(copy, 0)->opcode != HLO_BROADCAST;
  u32 s1 = next_of(r, s), d1 = next_of(r, d), d0 = prev_of(r, d);
  if (r->next[s] == d) {
  } else if (r->head[d]) {
    bool ordered = lists_in_order(r, s, d1) && lists_in_order(r, r->prev[d], s1);
    if (!ordered && (!regions || interfere(r, s, d, true))) return false;
    splice(r, d, s);
  } else if (r->head[r->next[s]]) {
    bool ordered = lists_in_order(r, d0, r->next[s]) && lists_in_order(r, s, d1);
    if (!ordered && (!regions || interfere(r, s, d, false))) return false;
    splice(r, r->next[s], d0);
  } else {
    return false;
  }
  merge_value(r, d, s);
  return true;
}

static void strip_edges(remover *r, hlo_instr *copy) {
  hlo_set_ctrl_preds(copy, 0, NULL);
  for (u32 k = r->edge_of[copy->id]; k != CP_NONE; k = r->edges.v[k].next) {
    hlo_instr *then = r->edges.v[k].then;
    const hlo_instr_list *l = then->dead ? NULL : then->ctrl_preds;
    u32 n = 0;
    hlo_instr **v = HS_NEW_ARRAY(r->c->scratch, hlo_instr *, (l ? l->n : 0) + 1);
    for (u32 j = 0; l && j < l->n; j++)
      if (l->v[j] != copy) v[n++] = l->v[j];
    if (l && n < l->n) hlo_set_ctrl_preds(then, n, v);
  }
}

// ---- all copies ---------------------------------------------------------------------------------
typedef struct live_value {
  u32 group, when, value;
} live_value;
static int by_group(const void *a, const void *b) {
  const live_value *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  if (x->when != y->when) return x->when < y->when ? -1 : 1;
  return (x->value > y->value) - (x->value < y->value);
}

static void make_rings(remover *r) {
  cp_flow *f = r->f;
  HS_VEC(live_value) all = {0};
  for (u32 v = 0; v < f->npositions; v++) {
    live_value t = {f->at[v] == v ? cp_group(f, v) : 0, f->when[f->definer[v]->id], v};
    if (f->at[v] == v) hs_vec_push(&all, t);
  }
  if (all.n) qsort(all.v, all.n, sizeof *all.v, by_group);
  for (u32 from = 0, to; from < all.n; from = to) {
    for (to = from + 1; to < all.n && all.v[to].group == all.v[from].group;) to++;
    for (u32 k = from; k < to; k++) {
      u32 v = all.v[k].value;
      r->next[v] = all.v[k + 1 < to ? k + 1 : from].value;
      r->prev[v] = all.v[k > from ? k - 1 : to - 1].value;
    }
    r->head[all.v[from].value] = true;
  }
  hs_vec_free(&all);
}

bool cp_remove_copies(pass_ctx *c, cp_flow *f) {
  u32 n = f->npositions, *became = cp_none_array(c->scratch, n), ni = c->m->next_instr_id;
  remover r = {
      .c = c, .f = f, .region_limit = pass_option_int(c, "use_region_based_live_range_analysis")};
  r.prev = HS_NEW_ARRAY(c->scratch, u32, n + 1), r.next = HS_NEW_ARRAY(c->scratch, u32, n + 1);
  r.head = HS_NEW_ARRAY(c->scratch, bool, n + 1);
  r.source = HS_NEW_ARRAY(c->scratch, u32, n + 1);
  r.edge_of = HS_NEW_ARRAY(c->scratch, u32, ni + 1);
  for (u32 k = 0; k < 2; k++) r.mark[k] = HS_NEW_ARRAY(c->scratch, u32, ni + 1);
  memset(r.source, 0xff, (n + 1) * sizeof *r.source);
  memset(r.edge_of, 0xff, (ni + 1) * sizeof *r.edge_of);
  make_rings(&r);
  HS_VEC(hlo_instr *) copies = {0};
  for (u32 k = 0; k < f->comps.n; k++) {
    const hlo_computation *x = f->comps.v[k];
    hlo_for_each_instr(i, x) {
      for (u32 j = 0; i->ctrl_preds && j < i->ctrl_preds->n; j++)
        note_edge(&r, i->ctrl_preds->v[j], i);
      if (i->opcode != HLO_COPY) continue;
      r.source[f->base[i->id]] = f->at[f->base[hlo_operand(i, 0)->id]];
      hs_vec_push(&copies, i);
    }
  }
  bool any = false;
  for (bool changed = true; changed;) {
    changed = false;
    u32 left = 0;
    for (u32 k = 0; k < copies.n; k++) {
      hlo_instr *i = copies.v[k];
      if (!try_remove(&r, i)) {
        copies.v[left++] = i;
        continue;
      }
      changed = any = true;
      for (u32 j = 0, d = f->base[i->id], s = f->base[hlo_operand(i, 0)->id],
               leaves = hlo_shape_leaves(i->shape);
           j < leaves; j++)
        became[d + j] = f->at[s + j];
      strip_edges(&r, i);
      hlo_replace(i, hlo_operand(i, 0));
    }
    copies.n = left;
  }
  hs_vec_free(&copies);
  hs_vec_free(&r.edges);
  hs_vec_free(&r.forced);
  return !any || cp_follow(c, f, became);
}
