// interleave.c — loops whose elements alternate between several sources: padding with interior
// elements, as associative scans and strided updates have it.
//
// Element i of such a result depends on i % M: guards of the form i % 2 == 0, loads at i / 2. Over
// lanes that is a gather and a select for every element. Here the loop over i becomes a loop over
// j with i = M * j + r, and the stage stores M values, one for each r: in each of them the guards
// are known, only one side of every select remains, and loads have constant strides along j again.
// Where i was the loop that runs in lanes, the M vectors are woven together before they are stored
// (cg_emit_interleaved). A loop of two or three elements over several sources is straight code, and
// so is one around others, where it alone decides between the sources.
//
// The same is done without guards where it saves work: in an array of pairs or triples, whose last
// loop was merged with the one around it (schedule.c), what depends on i / M alone, such as the
// place and the weights of a pixel with three channels, would be computed for each of them.
#include "backends/emit/nest/nest.h"

// SHORT: loops of fewer elements do not run in lanes (schedule.c).
// FEW: and up to so many elements are straight code when most of them have sources of their own.
// MOST_PARTS: nodes of the values of a loop around others, all together. MOST_VISITS: nodes looked
// at for straight code, of which no more than MOST_NODES may remain.
// GATHERS: cuts of the loop are enough where less than one element in so many is gathered then.
enum {
  MOST_WAYS = 16,
  MOST_NODES = 6000,
  MOST_PARTS = 1024,
  MOST_VISITS = 60000,
  SHORT = 4,
  FEW = 8,
  GATHERS = 4
};

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
  if (v->kind != NEST_DIV && v->kind != NEST_MOD) return 0;  // a value's node is visited itself
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

// ---- work that is the same for all r ------------------------------------------------------------

// What nodes are to the values of one step: the same for each r, or not; and what that weighs.
typedef struct sharing {
  const nest *n;
  u32 var;
  i64 ways;
  u8 *known;               // by node: 1 the same, 2 another for each r
  u32 same, apart, lines;  // operations of both kinds; loads of neighbours, r by r
} sharing;

static bool node_varies(sharing *s, u32 id);

// i / d for a multiple d of the ways is the same for all r.
static bool is_step(const sharing *s, const nest_var *v) {
  return v->kind == NEST_DIV && v->d % s->ways == 0 && v->e->n == 1 && v->e->c == 0 &&
         v->e->t[0].var == s->var && v->e->t[0].coef == 1;
}

static bool expr_varies(sharing *s, const nest_expr *e) {
  bool varies = false;
  for (u32 k = 0; k < e->n; k++) {
    const nest_var *v = &s->n->vars.v[e->t[k].var];
    if (v->kind == NEST_VALUE) varies |= node_varies(s, v->node);
    else if (v->kind == NEST_LOOP) varies |= e->t[k].var == s->var;
    else if (!is_step(s, v)) varies |= expr_varies(s, v->e);
  }
  return varies;
}

static bool node_varies(sharing *s, u32 id) {
  if (id == NEST_NONE) return false;
  if (s->known[id]) return s->known[id] == 2;
  const nest_node *x = &s->n->nodes.v[id];
  bool varies = x->e && expr_varies(s, x->e);
  for (u32 k = 0; k < x->nargs; k++) varies |= node_varies(s, x->args[k]);
  if (x->kind == NEST_LOAD) varies |= node_varies(s, x->guard);
  s->known[id] = varies ? 2 : 1;
  bool here = x->deps >> s->n->vars.v[s->var].loop & 1;
  if (varies) s->apart += x->kind == NEST_OP;
  else s->same += here && (x->kind == NEST_OP || x->kind == NEST_LOAD);
  s->lines += varies && x->kind == NEST_LOAD && nest_coef(x->e, s->var);
  return varies;
}

// Whether it pays to compute what the values of a step have in common once. The price: neighbours
// are loaded apart and put together again, some three shuffles each way.
static bool pays(const nest *n, const nest_stage *st, u32 var, i64 ways) {
  if (ways < 2 || ways > SHORT || var != st->loops[st->nloops - 1]) return false;
  sharing s = {.n = n, .var = var, .ways = ways, .known = hs_calloc(n->nodes.n + 1, 1)};
  bool ok = true;
  for (size_t k = 0; k < st->stores.n; k++) {
    (void)node_varies(&s, st->stores.v[k].node);
    ok &= nest_coef(st->stores.v[k].e, var) == 1;
  }
  hs_free(s.known);
  return ok && s.same * (ways - 1) > ways * (3 * (i64)s.lines + 3 * (i64)st->stores.n);
}

// ---- the values for one r -----------------------------------------------------------------------

typedef struct cloner {
  nest *n;
  u32 var;  // replaced by `to`
  const nest_expr *to;
  u32 *map;  // by node; NEST_NONE: not cloned yet
  // of all values: the nodes made for them, by hash, and the first variable
  u32 *made, made_size, first_var;
} cloner;

static bool equal_nodes(const nest_node *a, const nest_node *b) {
  return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->in == b->in &&
         memcmp(a->attr, b->attr, sizeof a->attr) == 0 && a->nargs == b->nargs &&
         memcmp(a->args, b->args, a->nargs * sizeof *a->args) == 0 &&
         memcmp(a->bits, b->bits, sizeof a->bits) == 0 && a->e == b->e && a->lo == b->lo &&
         a->hi == b->hi && a->buf == b->buf && a->guard == b->guard &&
         a->written_by == b->written_by && a->group == b->group && a->k == b->k;
}

// The node, or an equal one that was made before.
static u32 add_once(cloner *c, const nest_node *x) {
  u64 h = (u64)x->kind * 31 + (u64)x->op;
  for (u32 k = 0; k < x->nargs; k++) h = h * 0x9E3779B97F4A7C15u + x->args[k];
  h = (h * 31 + x->buf) * 31 + (u64)x->lo;
  if (x->e) h ^= x->e->hash;
  h = (h * 0x9E3779B97F4A7C15u) >> 32;
  for (u32 at = (u32)h & (c->made_size - 1);; at = (at + 1) & (c->made_size - 1)) {
    if (c->made[at] == NEST_NONE) return c->made[at] = nest_node_add(c->n, x);
    if (equal_nodes(&c->n->nodes.v[c->made[at]], x)) return c->made[at];
  }
}

static u32 value_once(cloner *c, u32 node, i64 lo, i64 hi) {
  for (size_t k = c->first_var; k < c->n->vars.n; k++) {
    const nest_var *v = &c->n->vars.v[k];
    if (v->kind == NEST_VALUE && v->node == node && v->lo == lo && v->hi == hi) return (u32)k;
  }
  return nest_new_value(c->n, node, lo, hi);
}

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
      t = nest_of_var(n, value_once(c, clone(c, v.node), v.lo, v.hi), 1);
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
  return same ? id : add_once(c, &x);
}

static u32 clone(cloner *c, u32 id) {
  if (c->map[id] == NEST_NONE) c->map[id] = clone_uncached(c, id);
  return c->map[id];
}

// ---- stages -------------------------------------------------------------------------------------

// Positions, as bits, at which a guard that depends on a loop of a few elements alone changes.
static u64 changes(const nest_node *x, u32 var) {
  u64 at = 0;
  if (nest_coef(x->e, var) != 1 || x->e->n != 1) return 0;
  for (int end = 0; end < 2; end++) {
    i64 p = (end ? x->hi : x->lo) - x->e->c;
    if (p > 0 && p < 64) at |= 1ull << p;
  }
  return at;
}

// For how many elements of the loop the guard may hold, by those of its terms that cut the loop.
static i64 covered(const nest *n, u32 guard, u32 var) {
  i64 all = n->vars.v[var].hi + 1;
  if (guard == NEST_NONE) return all;
  const nest_node *x = &n->nodes.v[guard];
  if (x->kind == NEST_GUARD)
    return nest_coef(x->e, var) == 1 && x->e->n == 1 ? HS_MIN(all, x->hi - x->lo) : all;
  if (x->kind != NEST_OP || x->op != HLO_AND) return all;
  i64 a = covered(n, x->args[0], var), b = covered(n, x->args[1], var);
  return HS_MIN(a, b);
}

// How many values the loop alternates between; 1: none, or too much for this. A short loop over
// several sources has as many as elements where it is too short for vectors, or around others.
static i64 ways_of(const nest *n, const nest_stage *st, u32 var) {
  period p = {.ways = 1};
  u32 count = 0;
  u8 *seen = hs_calloc(n->nodes.n + 1, 1);
  bool ok = true, guarded = false, alone = true, last = var == st->loops[st->nloops - 1];
  bool alternates = false;  // guards other than those that cut the loop
  u64 own = 1ull << n->vars.v[var].loop, at = 0;
  i64 extent = n->vars.v[var].hi + 1, most = MOST_NODES, gathered = 0;
  for (size_t k = 0; k < st->stores.n && ok; k++) {
    visit_expr(n, st->stores.v[k].e, var, &p);
    ok = p.ways == 1 && reach(n, st->stores.v[k].node, seen, &count) &&
         reach_expr(n, st->stores.v[k].e, seen, &count);
  }
  for (size_t k = 0; k < n->nodes.n && ok && !p.other; k++) {
    const nest_node *x = &n->nodes.v[k];
    if (!seen[k] || !x->e) continue;
    visit_expr(n, x->e, var, &p);
    if (x->kind == NEST_LOAD && !nest_is_linear(n, x->e, own))
      gathered += covered(n, x->guard, var);
    if (x->kind != NEST_GUARD || !(x->deps & own)) continue;
    guarded = true;
    alternates |= !nest_is_linear(n, x->e, own);
    alone &= x->deps == own;
    at |= changes(x, var);
  }
  hs_free(seen);
  bool short_one = extent < SHORT || (extent <= FEW && 2 * __builtin_popcountll(at) >= extent);
  if (short_one && st->nloops == 1) {
    p.ways = extent;
    if (alone) most = MOST_VISITS;
  } else if (!last && alone && extent <= SHORT && count * (u64)extent <= MOST_PARTS) {
    p.ways = extent;
  }
  return ok && !p.other && extent % p.ways == 0 && (i64)count * p.ways <= most &&
                 (alternates || (guarded && (short_one || !last || GATHERS * gathered > extent)) ||
                  pays(n, st, var, p.ways))
             ? p.ways
             : 1;
}

// False, with the stage as it was, when that comes to too many nodes.
static bool stores_of_each(nest *n, nest_stage *st, u32 var, i64 ways, const nest_expr *first) {
  HS_VEC(nest_store) stores = {0};
  cloner c = {.n = n, .var = var, .made_size = 1, .first_var = (u32)n->vars.n};
  size_t before = n->nodes.n;
  while (c.made_size < 2 * before * (size_t)ways) c.made_size *= 2;
  c.made = hs_alloc(c.made_size * sizeof *c.made);
  for (u32 k = 0; k < c.made_size; k++) c.made[k] = NEST_NONE;
  for (size_t k = 0; k < st->stores.n; k++)
    for (i64 r = 0; r < ways; r++) {
      size_t nodes = n->nodes.n;
      c.to = nest_add(n, first, nest_const(n, r));
      c.map = hs_alloc((nodes + 1) * sizeof *c.map);
      for (size_t i = 0; i < nodes; i++) c.map[i] = NEST_NONE;
      const nest_store s = st->stores.v[k];
      u32 node = clone(&c, s.node);
      hs_vec_push(&stores, ((nest_store){s.buf, clone_expr(&c, s.e), node}));
      hs_free(c.map);
    }
  hs_free(c.made);
  if (n->nodes.n - before > MOST_NODES) {
    n->nodes.n = before;
    hs_vec_free(&stores);
    return false;
  }
  hs_vec_free(&st->stores);
  st->stores.v = stores.v, st->stores.n = stores.n, st->stores.cap = stores.cap;
  return true;
}

static bool interleave_loop(nest *n, size_t stage, u32 at) {
  nest_stage *st = &n->stages.v[stage];
  u32 var = st->loops[at], j;
  i64 ways = ways_of(n, st, var), extent = n->vars.v[var].hi + 1;
  if (ways < 2) return false;
  if (ways == extent) {
    if (!stores_of_each(n, st, var, ways, nest_const(n, 0))) return false;
    memmove(st->loops + at, st->loops + at + 1, (st->nloops - at - 1) * sizeof *st->loops);
    st->nloops--;
  } else {
    if (!nest_new_loop(n, extent / ways, &j) ||
        !stores_of_each(n, st, var, ways, nest_of_var(n, j, ways)))
      return false;
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
