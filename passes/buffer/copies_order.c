// copies_order.c — the partial order in which instructions execute (xla/service/hlo_ordering.cc,
// DependencyHloOrdering).
//
// One instruction of a computation precedes another if the dependency graph has a path between
// them. Most queries are answered from interval labels by depth-first post order (Yildirim, Chaoji
// and Zaki, GRAIL, 2010). For the instruction of rank r: all ranks in [within, r] reach it; an
// instruction with a smaller `least` does not reach it; and it reaches no rank below `soonest`, its
// first user. Otherwise a search of the predecessors decides, pruned by the same labels. The labels
// describe the graph when cp_find_order ran; the few edges added since are kept in a list and
// combined with it.
#include "passes/buffer/copies.h"

static u32 rank_of(const cp_flow *f, const hlo_instr *i) { return f->rank[i->id]; }

static void add_before(cp_flow *f, const hlo_instr *before, u32 rank, u32 *least) {
  u32 x = rank_of(f, before);
  if (x >= rank) return;  // only in an invalid module
  hs_vec_push(&f->before, x);
  *least = HS_MIN(*least, f->spans.v[x].least);
  f->spans.v[x].soonest = HS_MIN(f->spans.v[x].soonest, rank);
}

void cp_find_order(cp_flow *f) {
  f->rank = cp_none_array(f->a, f->nids);
  f->before.n = f->spans.n = f->added.n = 0;
  for (u32 c = 0; c < f->comps.n; c++) {
    hlo_instr **v = f->order[f->comps.v[c]->id];
    for (u32 k = 0; k < f->comps.v[c]->ninstrs; k++) {
      const hlo_instr *i = v[k];
      u32 rank = (u32)f->spans.n, from = (u32)f->before.n;
      cp_span s = {.least = rank, .within = rank, .soonest = CP_NONE};
      f->rank[i->id] = rank;
      for (u32 o = 0; o < i->noperands; o++) add_before(f, hlo_operand(i, o), rank, &s.least);
      for (u32 o = 0; i->ctrl_preds && o < i->ctrl_preds->n; o++)
        add_before(f, i->ctrl_preds->v[o], rank, &s.least);
      for (size_t e = f->before.n; e-- > from;)  // operands are mostly in post order
        if (f->before.v[e] + 1 == s.within) s.within = f->spans.v[f->before.v[e]].within;
      s.end = (u32)f->before.n;
      hs_vec_push(&f->spans, s);
    }
  }
}

// Whether a path leads from a to b, both given by rank.
static bool path(cp_flow *f, u32 a, u32 b) {
  cp_span *v = f->spans.v;
  if (b < v[a].soonest || v[a].least < v[b].least) return false;
  if (a >= v[b].within) return true;
  f->todo.n = 0;
  f->searches++;
  hs_vec_push(&f->todo, b);
  while (f->todo.n && f->work < CP_WORK_MOST) {
    u32 x = hs_vec_pop(&f->todo);
    for (u32 e = x ? v[x - 1].end : 0; e < v[x].end; e++) {
      u32 y = f->before.v[e];
      f->work++;
      if (y == a || (a < y && a >= v[y].within)) return true;
      if (y < v[a].soonest || v[a].least < v[y].least || v[y].visited == f->searches) continue;
      v[y].visited = f->searches;
      hs_vec_push(&f->todo, y);
    }
  }
  return false;
}

static bool path_or_same(cp_flow *f, u32 a, u32 b) { return a == b || path(f, a, b); }

// Whether a path uses added edges: a closure over those whose start can be reached.
static bool path_added(cp_flow *f, u32 a, u32 b) {
  for (u32 k = 0; k < f->added.n; k++) f->added.v[k].reached = false;
  for (bool more = true; more;) {
    more = false;
    for (u32 k = 0; k < f->added.n; k++) {
      cp_edge *e = &f->added.v[k];
      if (e->reached) continue;
      bool here = path_or_same(f, a, e->first);
      for (u32 j = 0; j < f->added.n && !here; j++)
        here = f->added.v[j].reached && path_or_same(f, f->added.v[j].then, e->first);
      if (!here) continue;
      if (path_or_same(f, e->then, b)) return true;
      more = e->reached = true;
    }
  }
  return false;
}

static bool earlier(cp_flow *f, const hlo_instr *a, const hlo_instr *b) {  // in one computation
  if (a == b || a->id >= f->nids || b->id >= f->nids) return false;
  u32 x = rank_of(f, a), y = rank_of(f, b);
  return x != CP_NONE && y != CP_NONE && (path(f, x, y) || (f->added.n && path_added(f, x, y)));
}

void cp_add_order(cp_flow *f, const hlo_instr *first, const hlo_instr *then) {
  cp_edge e = {rank_of(f, first), rank_of(f, then), false};
  hs_vec_push(&f->added, e);
}

bool cp_nested(const cp_flow *f, const hlo_instr *i, const hlo_computation *in) {
  const hlo_computation *c = i->parent;
  while (c != in && f->depth[c->id] > f->depth[in->id]) c = f->caller[c->id]->parent;
  return c == in;
}

// Replaces a and b by their enclosing instructions in the innermost common computation; ca and cb:
// the computations called by those that contain a and b.
static bool lift_to_common(const cp_flow *f, const hlo_instr **a, const hlo_instr **b,
                           const hlo_computation **ca, const hlo_computation **cb) {
  *ca = *cb = NULL;
  while ((*a)->parent != (*b)->parent) {
    u32 da = f->depth[(*a)->parent->id], db = f->depth[(*b)->parent->id];
    if (da == 0 && db == 0) return false;
    if (da >= db) *ca = (*a)->parent, *a = f->caller[(*a)->parent->id];
    if (db >= da) *cb = (*b)->parent, *b = f->caller[(*b)->parent->id];
  }
  return true;
}

static i64 branch_of(const cp_flow *f, const hlo_instr *conditional, const hlo_computation *c) {
  hlo_computation **v;
  u32 n;
  pass_called_all(conditional, f->a, &v, &n);
  for (u32 k = 0; c && k < n; k++)
    if (v[k] == c) return k;
  return -1;
}

cp_order cp_order_of(cp_flow *f, const hlo_instr *a, const hlo_instr *b) {
  if (a == b) return CP_SAME;
  const hlo_computation *ca, *cb;
  if (!lift_to_common(f, &a, &b, &ca, &cb)) return CP_UNORDERED;
  if (a == b && a->opcode == HLO_WHILE && ca == hlo_attr_comp(a, HLO_ATTR_CONDITION) &&
      cb == hlo_attr_comp(a, HLO_ATTR_BODY))
    return CP_BEFORE_END;
  if (a == b && a->opcode == HLO_CONDITIONAL) {
    i64 x = branch_of(f, a, ca), y = branch_of(f, a, cb);
    if (y < 0) return CP_BEFORE_END;
    if (x < 0) return CP_AFTER;
    return x < y ? CP_EXCLUSIVE_BEFORE : CP_EXCLUSIVE_AFTER;
  }
  return earlier(f, a, b) ? CP_BEFORE : earlier(f, b, a) ? CP_AFTER : CP_UNORDERED;
}

bool cp_defined_before(cp_flow *f, u32 a, u32 b) {
  const hlo_instr *x = f->definer[a], *y = f->definer[b];
  if (y->parent == f->m->entry && y->opcode == HLO_PARAMETER) return false;
  if (x->parent == f->m->entry && x->opcode == HLO_PARAMETER) return true;
  bool loop_x = f->phi[a] && x->opcode == HLO_PARAMETER,
       loop_y = f->phi[b] && y->opcode == HLO_PARAMETER;
  if (loop_x && !loop_y && cp_nested(f, y, x->parent)) return true;
  if (loop_y && cp_nested(f, x, y->parent)) return false;
  if (f->phi[b] && (y->opcode == HLO_WHILE || y->opcode == HLO_CONDITIONAL) &&
      x->parent != y->parent) {
    const hlo_computation *c = x->parent;
    while (f->depth[c->id] > f->depth[y->parent->id] + 1) c = f->caller[c->id]->parent;
    if (f->depth[c->id] == f->depth[y->parent->id] + 1 && f->caller[c->id] == y) return true;
  }
  cp_order o = cp_order_of(f, x, y);
  return o == CP_BEFORE || o == CP_BEFORE_END || o == CP_EXCLUSIVE_BEFORE;
}
