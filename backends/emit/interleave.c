// interleave.c — loops whose elements alternate between several sources: padding with interior
// elements, as associative scans and strided updates have it.
//
// Element i of such a result depends on i % M: guards of the form i % 2 == 0, loads at i / 2. Over
// lanes that is a gather and a select for every element. Here the loop over i becomes a loop over
// j with i = M * j + r, and the stage stores M values, one for each r: in each of them the guards
// are known, only one side of every select remains, and loads have constant strides along j again.
// Where i was the loop that runs in lanes, the M vectors are woven together before they are stored
// (cg_emit_interleaved). A loop of two or three elements over several sources is straight code.
#include "backends/emit/nest.h"

// SHORT: loops of fewer elements do not run in lanes (schedule.c).
enum { MOST_WAYS = 16, MOST_NODES = 6000, SHORT = 4 };

// ---- how many ways ------------------------------------------------------------------------------

typedef struct period {
  i64 ways;    // the least number for which every atom is affine in j
  bool other;  // an atom depends on the loop in another way, or would need too many
} period;

static i64 common_multiple(i64 a, i64 b) {
  i64 x = a, y = b;
  while (y) {
    i64 r = x % y;
    x = y, y = r;
  }
  return a / x * b;
}

// What the quotients in the variable divide the loop's variable by; 0: it does not depend on it.
static i64 visit_var(const nest *n, u32 id, u32 var, period *p) {
  const nest_var *v = &n->vars.v[id];
  if (id == var) return 1;
  if (v->kind == NEST_LOOP) return 0;
  if (v->kind == NEST_VALUE) {
    p->other |= (n->nodes.v[v->node].deps >> n->vars.v[var].loop & 1) != 0;
    return 0;
  }
  if (!(nest_deps(n, v->e) >> n->vars.v[var].loop & 1)) return 0;
  i64 deepest = 1;
  for (u32 k = 0; k < v->e->n; k++) deepest = HS_MAX(deepest, visit_var(n, v->e->t[k].var, var, p));
  if (v->d > MOST_WAYS || deepest * v->d > MOST_WAYS) return p->other = true, 1;
  p->ways = common_multiple(p->ways, deepest * v->d);
  p->other |= p->ways > MOST_WAYS;
  return p->other ? 1 : deepest * v->d;
}

static void visit_expr(const nest *n, const nest_expr *e, u32 var, period *p) {
  for (u32 k = 0; k < e->n && !p->other; k++) (void)visit_var(n, e->t[k].var, var, p);
}

// Marks what the node needs; false when there is a reduction among it.
static bool reach(const nest *n, u32 id, u8 *seen, u32 *count);

static bool reach_expr(const nest *n, const nest_expr *e, u8 *seen, u32 *count) {
  bool ok = true;
  for (u32 k = 0; k < e->n && ok; k++) {
    const nest_var *v = &n->vars.v[e->t[k].var];
    if (v->kind == NEST_VALUE) ok = reach(n, v->node, seen, count);
    else if (v->kind != NEST_LOOP) ok = reach_expr(n, v->e, seen, count);
  }
  return ok;
}

static bool reach(const nest *n, u32 id, u8 *seen, u32 *count) {
  if (id == NEST_NONE || seen[id]) return true;
  seen[id] = 1;
  ++*count;
  const nest_node *x = &n->nodes.v[id];
  bool ok = x->kind != NEST_REDUCE;
  for (u32 k = 0; k < x->nargs && ok; k++) ok = reach(n, x->args[k], seen, count);
  if (x->kind == NEST_LOAD && ok) ok = reach(n, x->guard, seen, count);
  return ok && (!x->e || reach_expr(n, x->e, seen, count));
}

// ---- the values for one r -----------------------------------------------------------------------

typedef struct cloner {
  nest *n;
  u32 var;  // replaced by `to`
  const nest_expr *to;
  u32 *map;  // by node; NEST_NONE: not cloned yet
} cloner;

static u32 clone(cloner *c, u32 id);

static const nest_expr *clone_expr(cloner *c, const nest_expr *e) {
  nest *n = c->n;
  const nest_expr *out = nest_const(n, e->c);
  for (u32 k = 0; k < e->n; k++) {
    u32 id = e->t[k].var;
    const nest_var v = n->vars.v[id];
    const nest_expr *t;
    if (id == c->var) t = c->to;
    else if (v.kind == NEST_DIV) t = nest_div(n, clone_expr(c, v.e), v.d);
    else if (v.kind == NEST_MOD) t = nest_mod(n, clone_expr(c, v.e), v.d);
    else if (v.kind == NEST_VALUE)
      t = nest_of_var(n, nest_new_value(n, clone(c, v.node), v.lo, v.hi), 1);
    else t = nest_of_var(n, id, 1);
    out = nest_add(n, out, nest_mul(n, t, e->t[k].coef));
  }
  return out;
}

// 1: always true, 0: never, -1: it depends. A conjunction of what is known has been replaced.
static int known(const nest *n, u32 id) {
  const nest_node *x = &n->nodes.v[id];
  if (x->kind == NEST_CONST && x->dtype == HLO_PRED) return x->bits[0] != 0;
  if (x->kind != NEST_GUARD) return -1;
  i64 lo, hi;
  nest_range(n, x->e, &lo, &hi);
  return lo >= x->lo && hi < x->hi ? 1 : hi < x->lo || lo >= x->hi ? 0 : -1;
}

static u32 clone_uncached(cloner *c, u32 id) {
  nest *n = c->n;
  nest_node x = n->nodes.v[id];
  if (x.kind == NEST_OP && x.op == HLO_SELECT) {
    u32 p = clone(c, x.args[0]);
    int yes = known(n, p);
    if (yes >= 0) return clone(c, x.args[yes ? 1 : 2]);
  }
  bool same = true;
  for (u32 k = 0; k < x.nargs; k++) {
    u32 a = clone(c, x.args[k]);
    same &= a == x.args[k];
    x.args[k] = a;
  }
  if (x.kind == NEST_OP && x.op == HLO_AND && x.in == HLO_PRED)
    for (u32 k = 0; k < 2; k++) {
      int yes = known(n, x.args[k]);
      if (yes >= 0) return x.args[yes ? 1 - k : k];
    }
  if (x.e) {
    const nest_expr *e = clone_expr(c, x.e);
    same &= e == x.e;
    x.e = e;
  }
  if (x.kind == NEST_LOAD && x.guard != NEST_NONE) {
    u32 g = clone(c, x.guard);
    if (known(n, g) == 1) g = NEST_NONE;
    same &= g == x.guard;
    x.guard = g;
  }
  return same ? id : nest_node_add(n, &x);
}

static u32 clone(cloner *c, u32 id) {
  if (c->map[id] == NEST_NONE) c->map[id] = clone_uncached(c, id);
  return c->map[id];
}

// ---- stages -------------------------------------------------------------------------------------

// How many values the loop alternates between; 1: none, or too much for this. A short loop over
// several sources, too short for vectors, has as many as elements.
static i64 ways_of(const nest *n, const nest_stage *st, u32 var) {
  period p = {.ways = 1};
  u32 count = 0;
  u8 *seen = hs_calloc(n->nodes.n + 1, 1);
  bool ok = true, guarded = false;
  i64 extent = n->vars.v[var].hi + 1;
  for (size_t k = 0; k < st->stores.n && ok; k++) {
    visit_expr(n, st->stores.v[k].e, var, &p);
    ok = p.ways == 1 && reach(n, st->stores.v[k].node, seen, &count) &&
         reach_expr(n, st->stores.v[k].e, seen, &count);
  }
  for (size_t k = 0; k < n->nodes.n && ok && !p.other; k++) {
    const nest_node *x = &n->nodes.v[k];
    if (!seen[k] || !x->e) continue;
    visit_expr(n, x->e, var, &p);
    guarded |= x->kind == NEST_GUARD && (x->deps >> n->vars.v[var].loop & 1);
  }
  hs_free(seen);
  if (extent < SHORT && st->nloops == 1) p.ways = extent;
  return ok && guarded && !p.other && extent % p.ways == 0 && count * (u64)p.ways <= MOST_NODES
             ? p.ways
             : 1;
}

static void stores_of_each(nest *n, nest_stage *st, u32 var, i64 ways, const nest_expr *first) {
  HS_VEC(nest_store) stores = {0};
  for (size_t k = 0; k < st->stores.n; k++)
    for (i64 r = 0; r < ways; r++) {
      cloner c = {.n = n, .var = var, .to = nest_add(n, first, nest_const(n, r))};
      size_t nodes = n->nodes.n;
      c.map = hs_alloc((nodes + 1) * sizeof *c.map);
      for (size_t i = 0; i < nodes; i++) c.map[i] = NEST_NONE;
      const nest_store s = st->stores.v[k];
      u32 node = clone(&c, s.node);
      hs_vec_push(&stores, ((nest_store){s.buf, clone_expr(&c, s.e), node}));
      hs_free(c.map);
    }
  hs_vec_free(&st->stores);
  st->stores.v = stores.v, st->stores.n = stores.n, st->stores.cap = stores.cap;
}

static bool interleave_loop(nest *n, size_t stage, u32 at) {
  nest_stage *st = &n->stages.v[stage];
  u32 var = st->loops[at], j;
  i64 ways = ways_of(n, st, var), extent = n->vars.v[var].hi + 1;
  if (ways < 2) return false;
  if (ways == extent) {
    stores_of_each(n, st, var, ways, nest_const(n, 0));
    memmove(st->loops + at, st->loops + at + 1, (st->nloops - at - 1) * sizeof *st->loops);
    st->nloops--;
  } else {
    if (!nest_new_loop(n, extent / ways, &j)) return false;
    stores_of_each(n, st, var, ways, nest_of_var(n, j, ways));
    st->loops[at] = j;
    if (at + 1 == st->nloops) st->ways = (u32)ways;
  }
  for (size_t k = 0; k < n->nodes.n; k++) n->nodes.v[k].deps = nest_node_deps(n, &n->nodes.v[k]);
  return true;
}

void nest_interleave(nest *n) {
  for (size_t s = 0; s < n->stages.n; s++)
    for (u32 at = n->stages.v[s].nloops; at-- > 0;)
      if (interleave_loop(n, s, at)) break;
}
