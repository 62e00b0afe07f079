// join.c — one load instead of a choice between several: padding by reflection, rolls and borders
// along the outer dimensions of an array.
//
// Rows of a padded image come from the image, or in reverse order from its first or last rows. That
// is select(row < 4, x[3 - row][j], x[row - 4][j]): as it stands two loads and a select for each
// vector, though a whole row j comes from one place. Where the predicate does not vary over the
// innermost loops and the loads read the same along those, the choice is made between their
// addresses instead, outside of these loops, and one load is left. The same holds of values that
// are computed in the same way from such loads.
//
// A load is still done only where one of the two was: what guards it is the choice's own guard of
// the two, of which the predicate itself goes, and neighbouring ranges of one index become one.
#include "backends/emit/nest/nest.h"

// MOST_PAIRS: of nodes that are compared for one choice. MOST_TERMS: of a guard that is a
// conjunction. SHORT: loops so short become straight code, where choices are known (interleave.c).
enum { MOST_PAIRS = 64, MOST_TERMS = 8, SHORT = 4 };

typedef struct joining {
  nest *n;
  u64 inner;  // the loops that may run in lanes
  u32 pairs;  // compared for this choice
  bool loads;
} joining;

// ---- guards -------------------------------------------------------------------------------------
static bool same_guard(const nest *n, u32 a, u32 b) {
  const nest_node *x = &n->nodes.v[a], *y = &n->nodes.v[b];
  return a == b || (x->kind == NEST_GUARD && y->kind == NEST_GUARD && x->e == y->e &&
                    x->lo == y->lo && x->hi == y->hi);
}

// The terms of a conjunction; false when there are too many.
static bool terms_of(const nest *n, u32 id, u32 *terms, u32 *count) {
  if (id == NEST_NONE) return true;
  const nest_node *x = &n->nodes.v[id];
  if (x->kind == NEST_OP && x->op == HLO_AND && x->in == HLO_PRED)
    return terms_of(n, x->args[0], terms, count) && terms_of(n, x->args[1], terms, count);
  if (*count == MOST_TERMS) return false;
  terms[(*count)++] = id;
  return true;
}

static u32 conjunction(nest *n, u32 a, u32 b) {
  return a == NEST_NONE ? b : b == NEST_NONE ? a : nest_op2(n, HLO_AND, HLO_PRED, a, b);
}

// Where p is true or b is; NEST_NONE: everywhere.
static u32 either(nest *n, u32 p, u32 b) {
  const nest_node *x = &n->nodes.v[p], *y = &n->nodes.v[b];
  if (x->kind == NEST_GUARD && y->kind == NEST_GUARD && x->e == y->e &&
      (x->hi == y->lo || y->hi == x->lo))
    return nest_guard(n, x->e, HS_MIN(x->lo, y->lo), HS_MAX(x->hi, y->hi), NEST_NONE);
  return nest_op2(n, HLO_OR, HLO_PRED, p, b);
}

// The guard of select(p, a under ga, b under gb); false when they have too many terms.
static bool join_guards(nest *n, u32 p, u32 ga, u32 gb, u32 *out) {
  u32 a[MOST_TERMS], b[MOST_TERMS], na = 0, nb = 0, rest[2] = {NEST_NONE, NEST_NONE};
  if (!terms_of(n, ga, a, &na) || !terms_of(n, gb, b, &nb)) return false;
  *out = NEST_NONE;
  for (u32 k = 0; k < na; k++) {
    bool common = false;
    for (u32 j = 0; j < nb && !common; j++) common = same_guard(n, a[k], b[j]);
    if (common) *out = conjunction(n, *out, a[k]);
    else if (!same_guard(n, a[k], p)) rest[0] = conjunction(n, rest[0], a[k]);
  }
  for (u32 j = 0; j < nb; j++) {
    bool common = false;
    for (u32 k = 0; k < na && !common; k++) common = same_guard(n, a[k], b[j]);
    if (!common) rest[1] = conjunction(n, rest[1], b[j]);
  }
  if (rest[0] == NEST_NONE && rest[1] == NEST_NONE) return true;
  u32 own = NEST_NONE;
  if (rest[0] == NEST_NONE) own = either(n, p, rest[1]);
  else if (rest[1] == NEST_NONE) own = either(n, nest_op1(n, HLO_NOT, HLO_PRED, p), rest[0]);
  else own = nest_select(n, HLO_PRED, p, rest[0], rest[1]);
  *out = conjunction(n, *out, own);
  return true;
}

// ---- values -------------------------------------------------------------------------------------
// The terms of an address that the other lacks; false when they differ along the inner loops.
static bool difference(const joining *j, const nest_expr *e, const nest_expr *other,
                       const nest_expr **out) {
  nest *n = j->n;
  *out = nest_const(n, e->c);
  for (u32 k = 0; k < e->n; k++) {
    if (nest_coef(other, e->t[k].var) == e->t[k].coef) continue;
    const nest_expr *t = nest_of_var(n, e->t[k].var, e->t[k].coef);
    if (nest_deps(n, t) & j->inner) return false;
    *out = nest_add(n, *out, t);
  }
  return true;
}

static u32 index_node(nest *n, const nest_expr *e, hlo_dtype t) {
  u32 x = nest_node_add(n, &(nest_node){.kind = NEST_INDEX, .dtype = HLO_S64, .e = e});
  return nest_op1(n, HLO_CONVERT, t, x);
}

// The address of one load or the other.
static bool join_addresses(joining *j, u32 p, const nest_expr *a, const nest_expr *b,
                           const nest_expr **out) {
  nest *n = j->n;
  const nest_expr *own[2];
  *out = a;
  if (a == b) return true;
  if (!difference(j, a, b, &own[0]) || !difference(j, b, a, &own[1])) return false;
  i64 lo[2], hi[2];
  for (u32 k = 0; k < 2; k++) nest_range(n, own[k], &lo[k], &hi[k]);
  i64 low = HS_MIN(lo[0], lo[1]), high = HS_MAX(hi[0], hi[1]);
  hlo_dtype t = low < INT32_MIN || high > INT32_MAX ? HLO_S64 : HLO_S32;
  u32 chosen = nest_select(n, t, p, index_node(n, own[0], t), index_node(n, own[1], t));
  u32 var = nest_new_value(n, chosen, low, high);
  const nest_expr *common = nest_add(n, a, nest_mul(n, own[0], -1));
  *out = nest_add(n, common, nest_of_var(n, var, 1));
  return true;
}

static bool same_op(const nest_node *x, const nest_node *y) {
  return x->op == y->op && x->dtype == y->dtype && x->in == y->in && x->nargs == y->nargs &&
         memcmp(x->attr, y->attr, sizeof x->attr) == 0;
}

// Whether select(p, a, b) is one value of chosen addresses; without `make` that is all.
static bool join(joining *j, u32 p, u32 a, u32 b, bool make, u32 *out) {
  nest *n = j->n;
  const nest_node x = n->nodes.v[a], y = n->nodes.v[b];
  *out = a;
  if (a == b) return true;
  if (++j->pairs > MOST_PAIRS || x.kind != y.kind || x.templ || y.templ) return false;
  if (x.kind == NEST_CONST) return x.dtype == y.dtype && memcmp(x.bits, y.bits, sizeof x.bits) == 0;
  if (x.kind == NEST_LOAD) {
    const nest_expr *unused;
    j->loads = true;
    if (x.buf != y.buf || x.dtype != y.dtype || x.written_by || y.written_by) return false;
    if (!make) return difference(j, x.e, y.e, &unused) && difference(j, y.e, x.e, &unused);
    nest_node l = x;
    if (!join_guards(n, p, x.guard, y.guard, &l.guard) || !join_addresses(j, p, x.e, y.e, &l.e))
      return false;
    *out = nest_node_add(n, &l);
    return true;
  }
  if (x.kind != NEST_OP || !same_op(&x, &y)) return false;
  nest_node o = x;
  for (u32 k = 0; k < x.nargs; k++)
    if (!join(j, p, x.args[k], y.args[k], make, &o.args[k])) return false;
  if (make) *out = nest_node_add(n, &o);
  return true;
}

// ---- all nodes again ----------------------------------------------------------------------------
// Whether the predicate is the same along the inner loops, and not one of few elements.
static bool chooses(const joining *j, u32 p) {
  const nest *n = j->n;
  u64 deps = n->nodes.v[p].deps;
  bool longer = deps == 0;
  for (size_t k = 0; k < n->vars.n; k++) {
    const nest_var *v = &n->vars.v[k];
    longer |= v->kind == NEST_LOOP && (deps >> v->loop & 1) && v->hi >= SHORT;
  }
  return longer && !(deps & j->inner);
}

static bool is_choice(const nest_node *x) {
  return x->kind == NEST_OP && x->op == HLO_SELECT && !x->templ;
}

static void map_all(u32 *ids, u32 count, const u32 *map) {
  for (u32 k = 0; ids && k < count; k++)
    if (ids[k] != NEST_NONE) ids[k] = map[ids[k]];
}

static void map_group(nest_group *g, const u32 *map) {
  u32 *lists[] = {g->in, g->init, g->next, g->acc, g->elem, g->out, g->start};
  for (size_t k = 0; k < HS_COUNT(lists); k++) map_all(lists[k], g->nacc, map);
  map_all(&g->cond, 1, map);
  if (g->from) g->from = map[g->from - 1] + 1, g->to = map[g->to - 1] + 1;
}

// Makes all nodes anew, each after those that it needs, joined where they can be.
static void rebuild(joining *j) {
  nest *n = j->n;
  nest_node *old = n->nodes.v;
  size_t count = n->nodes.n, vars = n->vars.n;
  u32 *map = hs_alloc((count + 1) * sizeof *map);
  u32 *of_node = hs_calloc(count + 1, sizeof *of_node);  // the first value of a node + 1
  u32 *next = hs_calloc(vars + 1, sizeof *next);         // and the others
  for (u32 v = 0; v < vars; v++) {
    if (n->vars.v[v].kind != NEST_VALUE) continue;
    next[v] = of_node[n->vars.v[v].node];
    of_node[n->vars.v[v].node] = v + 1;
  }
  n->nodes.v = NULL, n->nodes.n = n->nodes.cap = 0;
  for (size_t k = 0; k < count; k++) {
    nest_node x = old[k];
    map_all(x.args, x.nargs, map);
    if (x.kind == NEST_LOAD) map_all(&x.guard, 1, map);
    u32 one;
    j->pairs = 0, j->loads = false;
    if (is_choice(&x) && chooses(j, x.args[0]) &&
        join(j, x.args[0], x.args[1], x.args[2], false, &one) && j->loads &&
        (j->pairs = 0, join(j, x.args[0], x.args[1], x.args[2], true, &one))) {
      map[k] = one;
    } else {
      hs_vec_push(&n->nodes, x);
      map[k] = (u32)n->nodes.n - 1;
    }
    for (u32 v = of_node[k]; v; v = next[v - 1]) n->vars.v[v - 1].node = map[k];
  }
  for (size_t s = 0; s < n->stages.n; s++)
    for (size_t k = 0; k < n->stages.v[s].stores.n; k++)
      map_all(&n->stages.v[s].stores.v[k].node, 1, map);
  for (size_t g = 0; g < n->groups.n; g++) map_group(&n->groups.v[g], map);
  hs_free(map);
  hs_free(of_node);
  hs_free(next);
  hs_free(old);
}

void nest_join_loads(nest *n) {
  joining j = {.n = n};
  bool any = false;
  for (size_t s = 0; s < n->stages.n; s++) {
    const nest_stage *st = &n->stages.v[s];
    if (st->nloops) j.inner |= 1ull << n->vars.v[st->loops[st->nloops - 1]].loop;
  }
  for (size_t g = 0; g < n->groups.n; g++) {
    const nest_group *gr = &n->groups.v[g];
    if (gr->nloops) j.inner |= 1ull << n->vars.v[gr->loops[gr->nloops - 1]].loop;
  }
  for (size_t k = 0; k < n->nodes.n && !any; k++)
    any = is_choice(&n->nodes.v[k]) && chooses(&j, n->nodes.v[k].args[0]);
  if (any && !n->order) rebuild(&j);
}
