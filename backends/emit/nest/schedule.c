// schedule.c — loop transformations, then the choice of lanes, unrolling and the chunk grid.
//
// nest_simplify: loops that only appear through quotient and remainder are split, adjacent loops
// that every access treats as one contiguous range are merged. nest_schedule: decides per stage
// which loop runs in lanes, by a few rules on strides, and divides the outer loops into chunks.
// Everything depends on shapes alone: the same kernel has the same chunks, hence the same bits, on
// any number of threads.
#include "backends/emit/nest/nest.h"

// ---- rewriting every expression -----------------------------------------------------------------
typedef struct rewrite {
  u32 var;
  const nest_expr *to;  // split: var becomes this
  // merge: p, q (adjacent, contiguous) become m; p == NEST_NONE when splitting
  u32 p, q, m;
  u32 var2;
  const nest_expr *to2;  // split: a second variable, when to2 is set
} rewrite;

static const nest_expr *apply_rewrite(nest *n, const nest_expr *e, const rewrite *r) {
  const nest_expr *out = nest_const(n, e->c);
  for (u32 i = 0; i < e->n; i++) {
    u32 id = e->t[i].var;
    const nest_var v = n->vars.v[id];
    const nest_expr *t;
    if (v.kind == NEST_DIV) t = nest_div(n, apply_rewrite(n, v.e, r), v.d);
    else if (v.kind == NEST_MOD) t = nest_mod(n, apply_rewrite(n, v.e, r), v.d);
    else if (r->p != NEST_NONE && id == r->p) continue;
    else if (r->p != NEST_NONE && id == r->q) t = nest_of_var(n, r->m, 1);
    else if (r->p == NEST_NONE && id == r->var) t = r->to;
    else if (r->to2 && id == r->var2) t = r->to2;
    else t = nest_of_var(n, id, 1);
    out = nest_add(n, out, nest_mul(n, t, e->t[i].coef));
  }
  return out;
}

static void recompute_deps(nest *n) {
  for (size_t g = 0; g < n->groups.n; g++) {
    n->groups.v[g].mask = 0;
    for (u32 k = 0; k < n->groups.v[g].nloops; k++)
      n->groups.v[g].mask |= 1ull << n->vars.v[n->groups.v[g].loops[k]].loop;
  }
  for (size_t i = 0; i < n->nodes.n; i++) {
    nest_node *x = &n->nodes.v[i];
    x->deps = nest_node_deps(n, x);
  }
}

static void rewrite_all(nest *n, const rewrite *r) {
  for (size_t i = 0; i < n->nodes.n; i++)
    if (n->nodes.v[i].e) n->nodes.v[i].e = apply_rewrite(n, n->nodes.v[i].e, r);
  for (size_t s = 0; s < n->stages.n; s++)
    for (size_t k = 0; k < n->stages.v[s].stores.n; k++)
      n->stages.v[s].stores.v[k].e = apply_rewrite(n, n->stages.v[s].stores.v[k].e, r);
  recompute_deps(n);
}

// ---- splitting ----------------------------------------------------------------------------------
static bool replace_in(u32 *loops, u32 *n, u32 var, u32 k, const u32 *with) {
  for (u32 i = 0; i < *n; i++) {
    if (loops[i] != var) continue;
    if (*n + k - 1 > NEST_MAX_LOOPS) return false;
    memmove(loops + i + k, loops + i + 1, (*n - i - 1) * sizeof *loops);
    memcpy(loops + i, with, k * sizeof *with);
    *n += k - 1;
    return true;
  }
  return false;
}

static bool is_innermost(const nest *n, u32 var) {
  for (size_t s = 0; s < n->stages.n; s++)
    if (n->stages.v[s].nloops && n->stages.v[s].loops[n->stages.v[s].nloops - 1] == var)
      return true;
  for (size_t g = 0; g < n->groups.n; g++)
    if (n->groups.v[g].nloops && n->groups.v[g].loops[n->groups.v[g].nloops - 1] == var)
      return true;
  return false;
}

// An atom (x + 0) / d or (x + 0) % d over one loop whose extent d divides: the loop to split. Looks
// through atoms of atoms.
static bool split_candidate(const nest *n, const nest_expr *e, u32 *var, i64 *d) {
  for (u32 i = 0; i < e->n; i++) {
    const nest_var *v = &n->vars.v[e->t[i].var];
    if (v->kind != NEST_DIV && v->kind != NEST_MOD) continue;
    const nest_expr *x = v->e;
    if (x->n == 1 && x->c == 0 && x->t[0].coef == 1 && n->vars.v[x->t[0].var].kind == NEST_LOOP) {
      i64 extent = n->vars.v[x->t[0].var].hi + 1;
      if (extent % v->d == 0 && extent > v->d && !(is_innermost(n, x->t[0].var) && v->d < 16)) {
        *var = x->t[0].var;
        *d = v->d;
        return true;
      }
    }
    if (split_candidate(n, x, var, d)) return true;
  }
  return false;
}

static bool split_one(nest *n) {
  u32 var = 0, hl[2];
  i64 d = 0;
  bool found = false;
  for (size_t i = 0; i < n->nodes.n && !found; i++)
    found = n->nodes.v[i].e && split_candidate(n, n->nodes.v[i].e, &var, &d);
  for (size_t s = 0; s < n->stages.n && !found; s++)
    for (size_t k = 0; k < n->stages.v[s].stores.n && !found; k++)
      found = split_candidate(n, n->stages.v[s].stores.v[k].e, &var, &d);
  if (!found) return false;
  i64 extent = n->vars.v[var].hi + 1;
  if (!nest_new_loop(n, extent / d, &hl[0]) || !nest_new_loop(n, d, &hl[1])) return false;
  for (size_t s = 0; s < n->stages.n; s++)
    (void)replace_in(n->stages.v[s].loops, &n->stages.v[s].nloops, var, 2, hl);
  for (size_t g = 0; g < n->groups.n; g++)
    (void)replace_in(n->groups.v[g].loops, &n->groups.v[g].nloops, var, 2, hl);
  rewrite_all(n, &(rewrite){.var = var,
                            .to = nest_add(n, nest_of_var(n, hl[0], d), nest_of_var(n, hl[1], 1)),
                            .p = NEST_NONE});
  return true;
}

// ---- merging ------------------------------------------------------------------------------------
static bool contiguous(const nest *n, const nest_expr *e, u32 p, u32 q, i64 nq) {
  if (nest_coef(e, p) != nest_coef(e, q) * nq) return false;
  for (u32 i = 0; i < e->n; i++) {
    const nest_var *v = &n->vars.v[e->t[i].var];
    if ((v->kind == NEST_DIV || v->kind == NEST_MOD) && !contiguous(n, v->e, p, q, nq))
      return false;
  }
  return true;
}

// A guard on the outer loop alone says the same about the merged one, scaled: a <= p < b iff a*nq
// <= p*nq + q < b*nq.
static bool scalable(const nest *n, const nest_node *x, u32 p, u32 q) {
  (void)n;
  return x->kind == NEST_GUARD && nest_coef(x->e, q) == 0 && nest_coef(x->e, p) == 1 &&
         x->lo > -(1ll << 40) && x->hi < (1ll << 40);
}

static bool mergeable(const nest *n, u32 p, u32 q) {
  i64 np = n->vars.v[p].hi + 1, nq = n->vars.v[q].hi + 1, all;
  if (!hs_mul_ok(np, nq, &all)) return false;
  for (size_t i = 0; i < n->nodes.n; i++) {
    const nest_node *x = &n->nodes.v[i];
    if (x->e && !contiguous(n, x->e, p, q, nq) && !scalable(n, x, p, q)) return false;
  }
  for (size_t s = 0; s < n->stages.n; s++)
    for (size_t k = 0; k < n->stages.v[s].stores.n; k++)
      if (!contiguous(n, n->stages.v[s].stores.v[k].e, p, q, nq)) return false;
  return true;
}

static bool merge_in(nest *n, const u32 *loops, u32 nloops) {
  for (u32 i = 0; i + 1 < nloops; i++) {
    u32 p = loops[i], q = loops[i + 1], m;
    if (!mergeable(n, p, q)) continue;
    i64 np = n->vars.v[p].hi + 1, nq = n->vars.v[q].hi + 1;
    if (!nest_new_loop(n, np * nq, &m)) return false;
    for (size_t k = 0; k < n->nodes.n; k++) {
      nest_node *x = &n->nodes.v[k];
      if (!x->e || contiguous(n, x->e, p, q, nq)) continue;
      x->e = nest_add(n, nest_mul(n, x->e, nq), nest_of_var(n, q, 1));
      x->lo *= nq;
      x->hi *= nq;
    }
    for (size_t s = 0; s < n->stages.n; s++) {
      (void)replace_in(n->stages.v[s].loops, &n->stages.v[s].nloops, p, 1, &m);
      (void)replace_in(n->stages.v[s].loops, &n->stages.v[s].nloops, q, 0, &m);
    }
    for (size_t g = 0; g < n->groups.n; g++) {
      (void)replace_in(n->groups.v[g].loops, &n->groups.v[g].nloops, p, 1, &m);
      (void)replace_in(n->groups.v[g].loops, &n->groups.v[g].nloops, q, 0, &m);
    }
    rewrite_all(n, &(rewrite){.p = p, .q = q, .m = m});
    return true;
  }
  return false;
}

static i64 extent(const nest *n, u32 var) { return n->vars.v[var].hi + 1; }

// ---- the order of reduced loops -----------------------------------------------------------------
// -1 when every load that moves along both loops moves further along p, 1 when further along q; 0
// where they disagree, there is none, or one finds its place otherwise.
static int nearer(const nest *n, u32 p, u32 q) {
  u64 both = 1ull << n->vars.v[p].loop | 1ull << n->vars.v[q].loop;
  int found = 0;
  for (size_t i = 0; i < n->nodes.n; i++) {
    const nest_node *x = &n->nodes.v[i];
    if (x->kind != NEST_LOAD || !(x->deps & both)) continue;
    if (!nest_is_linear(n, x->e, both)) return 0;
    i64 a = nest_coef(x->e, p), b = nest_coef(x->e, q);
    if (!a || !b || a == b) continue;
    int here = (a < 0 ? -a : a) > (b < 0 ? -b : b) ? -1 : 1;
    if (found && found != here) return 0;
    found = here;
  }
  return found;
}

// Whether a stage goes over the same rows, which may keep what both need of them (rows.c).
static bool has_rows_of(const nest *n, const nest_group *x) {
  for (size_t s = 0; s < n->stages.n; s++) {
    const nest_stage *st = &n->stages.v[s];
    bool same = st->nloops >= x->nloops;
    for (u32 l = 0; same && l < x->nloops; l++)
      same = extent(n, st->loops[st->nloops - x->nloops + l]) == extent(n, x->loops[l]);
    if (same) return true;
  }
  return false;
}

// Reduces along memory where the operand lies otherwise than its dimensions are numbered: the sum
// of the squares of a transposed matrix. Groups that share their loops share the order.
static void order_reduced(nest *n) {
  for (size_t g = 0; g < n->groups.n; g++) {
    nest_group *x = &n->groups.v[g];
    bool any_order = x->merged_into == g && !has_rows_of(n, x);
    for (size_t k = 0; k < n->groups.n; k++)
      any_order &= n->groups.v[k].merged_into != g || n->groups.v[k].free_order;
    for (u32 k = 1; any_order && k < x->nloops; k++)
      for (u32 j = k; j && nearer(n, x->loops[j - 1], x->loops[j]) > 0; j--) {
        u32 var = x->loops[j];
        x->loops[j] = x->loops[j - 1];
        x->loops[j - 1] = var;
      }
    for (size_t k = 0; any_order && k < n->groups.n; k++)
      if (n->groups.v[k].merged_into == g) memcpy(n->groups.v[k].loops, x->loops, sizeof x->loops);
  }
}

// ---- short loops --------------------------------------------------------------------------------
// Guards on p alone are guards on m = p*nq + q then (see scalable): lanes can be cut there.
static void scale_guards(nest *n, u32 p, u32 q, u32 m, i64 nq) {
  for (size_t k = 0; k < n->nodes.n; k++) {
    nest_node *x = &n->nodes.v[k];
    if (!scalable(n, x, p, q)) continue;
    const nest_expr *rest = nest_add(n, x->e, nest_of_var(n, p, -1));
    if (nest_deps(n, rest) >> n->vars.v[p].loop & 1) continue;
    x->e = nest_add(n, nest_mul(n, rest, nq), nest_of_var(n, m, 1));
    x->lo *= nq;
    x->hi *= nq;
  }
}

// Merges a last loop that is too short for lanes with the loop around it: stores stay contiguous,
// loads need index arithmetic in lanes.
static bool flatten_short(nest *n) {
  if (n->groups.n) return false;
  for (size_t i = 0; i < n->stages.n; i++) {
    nest_stage *st = &n->stages.v[i];
    if (st->nloops < 2) continue;
    u32 p = st->loops[st->nloops - 2], q = st->loops[st->nloops - 1], m;
    i64 np = n->vars.v[p].hi + 1, nq = n->vars.v[q].hi + 1;
    bool ok = nq < 8 && np * nq >= 16;
    for (size_t k = 0; k < st->stores.n && ok; k++) ok = contiguous(n, st->stores.v[k].e, p, q, nq);
    if (!ok || !nest_new_loop(n, np * nq, &m)) continue;
    const nest_expr *e = nest_of_var(n, m, 1);
    scale_guards(n, p, q, m, nq);
    st->loops[--st->nloops - 1] = m;
    rewrite_all(n, &(rewrite){.p = NEST_NONE,
                              .var = p,
                              .to = nest_div(n, e, nq),
                              .var2 = q,
                              .to2 = nest_mod(n, e, nq)});
    return true;
  }
  return false;
}

// Whether the expression has stride -1, 0 or 1 along the loop, and no atom depends on it.
static bool unit_in(const nest *n, const nest_expr *e, u32 var) {
  i64 c = nest_coef(e, var);
  return (c == 0 || c == 1 || c == -1) && nest_is_linear(n, e, 1ull << n->vars.v[var].loop);
}

// Whether the loads of every step of the reductions have stride one along the loop, or none, and
// some have one. (A step's other operands are read once, before.)
static bool steps_along(const nest *n, u32 var) {
  u64 steps = 0;
  bool some = false;
  for (size_t g = 0; g < n->groups.n; g++) steps |= n->groups.v[g].mask;
  for (size_t i = 0; i < n->nodes.n; i++) {
    const nest_node *x = &n->nodes.v[i];
    if (x->kind != NEST_LOAD || !(x->deps & steps)) continue;
    if (!unit_in(n, x->e, var)) return false;
    some |= nest_coef(x->e, var) != 0;
  }
  return some;
}

// Whether some load of a step of the reductions has another stride along the loop than one or none.
static bool gathers_along(const nest *n, u32 var) {
  u64 steps = 0;
  for (size_t g = 0; g < n->groups.n; g++) steps |= n->groups.v[g].mask;
  for (size_t i = 0; i < n->nodes.n; i++) {
    const nest_node *x = &n->nodes.v[i];
    if (x->kind == NEST_LOAD && (x->deps & steps) && nest_is_linear(n, x->e, ~0ull) &&
        !unit_in(n, x->e, var))
      return true;
  }
  return false;
}

// Puts another loop last where the results' last one is too short for lanes, or some load of the
// reductions is not along it, and all of them are along the other: the coordinates of a sum over
// pairs of points, say, or columns of a transposed array. Results are few beside what is read, and
// are written apart.
static void turn_loops(nest *n) {
  for (size_t i = 0; n->groups.n && i < n->stages.n; i++) {
    nest_stage *st = &n->stages.v[i];
    if (st->nloops < 2) continue;
    const u32 last = st->loops[st->nloops - 1];
    if (extent(n, last) >= 8 && !gathers_along(n, last)) continue;
    for (u32 k = st->nloops - 1; k-- > 0;) {
      u32 var = st->loops[k];
      if (extent(n, var) < 16 || !steps_along(n, var)) continue;
      st->loops[k] = last;
      st->loops[st->nloops - 1] = var;
      break;
    }
  }
}

void nest_simplify(nest *n) {
  recompute_deps(n);
  while (split_one(n)) {}
  order_reduced(n);
  for (bool more = true; more;) {
    more = false;
    for (size_t s = 0; s < n->stages.n && !more; s++)
      more = merge_in(n, n->stages.v[s].loops, n->stages.v[s].nloops);
    for (size_t g = 0; g < n->groups.n && !more; g++)
      more = merge_in(n, n->groups.v[g].loops, n->groups.v[g].nloops);
  }
  while (flatten_short(n)) {}
  turn_loops(n);
}

// ---- the cost of a stage ------------------------------------------------------------------------
typedef struct survey {
  const nest *n;
  u8 *visited;
  u32 widest;         // bytes of the widest value
  u32 narrowest;      // bytes of the narrowest element that is loaded along the last loop
  double ops, bytes;  // per point of the stage, reductions included
  // a reduction over the lane loop's points; its loads prefer the reduction's own loop
  bool groups, row;
  bool hoisted;  // a reduction that does not vary over the last loop
  u64 group_deps;
  u64 last;  // mask of the last loop
  u32 last_var;
} survey;

static void visit(survey *s, u32 id, double times);

// A value in an address. What is the same along the last loop and in reductions is computed before
// them, a number at a time.
static void visit_value(survey *s, u32 id, double times) {
  u64 inner = s->last;
  u32 widest = s->widest;
  for (size_t g = 0; g < s->n->groups.n; g++) inner |= s->n->groups.v[g].mask;
  bool apart = inner && !(s->n->nodes.v[id].deps & inner);
  visit(s, id, apart ? 0 : times);
  if (apart) s->widest = widest;
}

static void visit_expr(survey *s, const nest_expr *e, double times) {
  for (u32 i = 0; i < e->n; i++) {
    const nest_var *v = &s->n->vars.v[e->t[i].var];
    if (v->kind == NEST_VALUE) visit_value(s, v->node, times);
    if (v->kind == NEST_DIV || v->kind == NEST_MOD) visit_expr(s, v->e, times), s->ops += 4 * times;
  }
}

static void visit_group(survey *s, const nest_group *g, double times) {
  const nest *n = s->n;
  u64 deps = 0;
  double inner = times;
  for (u32 k = 0; k < g->nloops; k++) inner *= (double)(n->vars.v[g->loops[k]].hi + 1);
  for (u32 k = 0; k < g->nacc; k++) deps |= n->nodes.v[g->out[k]].deps;
  s->group_deps |= deps;
  s->groups = true;
  s->ops += inner;
  if (s->last && !(deps & s->last)) s->hoisted = true;
  visit(s, g->cond, inner);
  for (u32 k = 0; k < g->nacc; k++) visit(s, g->in[k], inner), visit(s, g->init[k], times);
  if (!(deps & s->last) || !g->free_order || g->nloops == 0) return;
  u32 rv = g->loops[g->nloops - 1];
  if (n->vars.v[rv].hi + 1 < 8) return;
  // Row form where lanes over the points would have to gather and lanes over the reduced loop need
  // not.
  u8 *own = hs_calloc(n->nodes.n, 1);
  bool gathers = false, contiguous_row = false;
  u32 *stack = hs_alloc((n->nodes.n + g->nacc + 1) * 4 * sizeof *stack), top = 0;
  for (u32 k = 0; k < g->nacc; k++) stack[top++] = g->in[k];
  while (top) {
    u32 id = stack[--top];
    if (own[id]) continue;
    own[id] = 1;
    const nest_node *x = &n->nodes.v[id];
    if (x->kind == NEST_LOAD && (x->deps & g->mask)) {  // others are read once, before
      gathers |= (x->deps & s->last) && !unit_in(n, x->e, s->last_var);
      contiguous_row |= unit_in(n, x->e, rv) && nest_coef(x->e, rv) != 0;
    }
    for (u32 k = 0; k < x->nargs; k++)
      if (!own[x->args[k]]) stack[top++] = x->args[k];
  }
  hs_free(own);
  hs_free(stack);
  if (gathers && contiguous_row) s->row = true;
}

static void visit(survey *s, u32 id, double times) {
  if (id == NEST_NONE || s->visited[id]) return;
  s->visited[id] = 1;
  const nest_node *x = &s->n->nodes.v[id];
  u32 w = x->dtype == HLO_PRED       ? 1
          : nest_is_narrow(x->dtype) ? 4
                                     : (u32)hlo_dtype_storage(x->dtype);
  if (x->kind == NEST_INDEX) w = 4;
  if (x->kind == NEST_OP && x->op == HLO_CONVERT && s->n->nodes.v[x->args[0]].kind == NEST_INDEX)
    s->visited[x->args[0]] = 1, visit_expr(s, s->n->nodes.v[x->args[0]].e, times);
  if (w > s->widest) s->widest = w;
  if (x->kind == NEST_OP)
    s->ops += times * hlo_op_cost(x->op)->cycles * (hlo_dtype_storage(x->in) == 8 ? 2 : 1);
  if (x->kind == NEST_LOAD) {
    u32 e = (u32)hlo_dtype_storage(x->dtype);
    s->ops += times, s->bytes += times * (double)e;
    if (x->deps & s->last) s->narrowest = HS_MIN(s->narrowest, e);
    visit(s, x->guard, times);
  }
  if (x->e) visit_expr(s, x->e, times);
  for (u32 k = 0; k < x->nargs; k++) visit(s, x->args[k], times);
  if (x->kind == NEST_REDUCE) visit_group(s, &s->n->groups.v[x->group], times);
}

// ---- the schedule -------------------------------------------------------------------------------
#define CHUNK_NS 20000.0
#define MAX_CHUNKS 128
// row buffers on the stack while results can hold rows too, and otherwise: part of the second cache
#define FIRST_ROW_BYTES (32 << 10)
#define ROW_BYTES (256 << 10)
#define COLUMN_SPLITS 16.0  // partial results of columns: each is as large as the result
#define ROWS_AT_ONCE 8      // streams that the machine's prefetchers follow
#define RUN_BYTES 2048      // of a row that a chunk reads of columns, at least

static void chunk_grid(const nest *n, nest_stage *st, const survey *s, i32 chunks) {
  double points = 1, lanes = st->vector || s->row ? st->lanes : 1;
  for (u32 k = 0; k < st->nloops; k++) points *= (double)extent(n, st->loops[k]);
  double ns = points * HS_MAX(s->ops * 0.4 / lanes, s->bytes * 0.1);
  i64 want = chunks > 0 ? chunks : (i64)HS_MIN(ns / CHUNK_NS, (double)MAX_CHUNKS);
  u32 limit = st->nloops;
  // dividing a loop inside the reduction's level would repeat the reduction in every chunk
  if (s->hoisted)
    while (limit > 0 && !(s->group_deps & 1ull << n->vars.v[st->loops[limit - 1]].loop)) limit--;
  st->chunks = 1;
  for (u32 k = 0; k < st->nloops; k++) {
    i64 e = extent(n, st->loops[k]), blocks = k < limit ? HS_MIN(HS_MAX(want, 1), e) : 1;
    i64 step = st->vector && k + 1 == st->nloops ? (i64)(st->lanes * st->unroll) : 1;
    if (st->tile != NEST_NONE)  // longer along the lines that are loaded (codegen.c)
      step = k == st->tile ? 512 : k + 1 == st->nloops ? 64 : 1;
    i64 block = (e + blocks - 1) / blocks;
    block = (block + step - 1) / step * step;
    st->block[k] = block;
    st->split[k] = (e + block - 1) / block;
    st->chunks *= st->split[k];
    want = (want + st->split[k] - 1) / st->split[k];
  }
}

// A loop along which some load has stride one while it has another stride along the last loop: the
// two run in square tiles. Its position among the stage's loops, or NEST_NONE.
static u32 tile_loop(const nest *n, const nest_stage *st, const u8 *visited) {
  if (st->nloops < 2) return NEST_NONE;
  u32 last = st->loops[st->nloops - 1];
  if (extent(n, last) < 8) return NEST_NONE;
  for (size_t i = 0; i < n->nodes.n; i++) {
    const nest_node *x = &n->nodes.v[i];
    if (!visited[i] || x->kind != NEST_LOAD || x->guard != NEST_NONE ||
        !(x->deps & 1ull << n->vars.v[last].loop))
      continue;
    i64 c = nest_coef(x->e, last);
    if (c == 1 || c == -1 || c == 0) continue;
    for (u32 k = 0; k + 1 < st->nloops; k++) {
      if (nest_coef(x->e, st->loops[k]) != 1 || extent(n, st->loops[k]) < 8) continue;
      bool atoms = false;
      for (u32 t = 0; t < x->e->n; t++) atoms |= n->vars.v[x->e->t[t].var].kind != NEST_LOOP;
      if (!atoms) return k;
    }
  }
  return NEST_NONE;
}

// Whether what the stage stores should go past the caches: it and what the stage reads are more
// than the last cache holds; or nobody reads it again, and all that is more than caches take
// quickly, of which a good part is written (of a gather, the stage reads less than is there to be
// read), and one byte at least read for two written: lines that are only written need not be
// fetched first, which Intel's caches notice.
static bool past_caches(const nest *n, const nest_stage *st, const u8 *visited,
                        const nest_machine *m) {
  u8 *seen = hs_calloc(n->bufs.n + 1, 1);
  bool again = false;
  for (size_t k = 0; k < st->stores.n; k++) seen[st->stores.v[k].buf] = 2;
  for (size_t i = 0; i < n->nodes.n; i++) {
    const nest_node *x = &n->nodes.v[i];
    if (x->kind != NEST_LOAD) continue;
    again |= seen[x->buf] == 2;
    if (visited[i] && !seen[x->buf]) seen[x->buf] = 1;
  }
  double bytes[3] = {0};  // untouched, read, written
  for (size_t k = 0; k < n->bufs.n; k++)
    bytes[seen[k]] += (double)n->bufs.v[k].elements * (double)hlo_dtype_storage(n->bufs.v[k].dtype);
  hs_free(seen);
  double all = bytes[1] + bytes[2];
  if (m->cache_bytes > 0 && all > (double)m->cache_bytes) return true;
  double near = (double)m->near_bytes;
  return near > 0 && !again && all > 2 * near && 2 * bytes[2] >= near && 2 * bytes[1] >= bytes[2];
}

// The vectors after which what is read at remainders of the last loop repeats (the channels of an
// image, last in memory): with as many per iteration they are read once. 1: there is nothing such,
// or too much of it.
static u32 period(const nest *n, const nest_stage *st, const u8 *visited, u32 var) {
  u32 k = 1;
  for (size_t i = 0; i < n->nodes.n; i++) {
    const nest_node *x = &n->nodes.v[i];
    if (!visited[i] || x->kind != NEST_LOAD) continue;
    for (u32 t = 0; t < x->e->n; t++) {
      const nest_var *v = &n->vars.v[x->e->t[t].var];
      if ((v->kind != NEST_MOD && v->kind != NEST_DIV) || v->e->n != 1 || v->e->t[0].var != var ||
          v->d > 8)
        continue;
      u32 each = 1;
      while ((i64)(st->lanes * each) % v->d) each++;
      if (k % each && each % k) return 1;
      k = HS_MAX(k, each);
    }
  }
  return k;
}

// What a schedule by hand says of a stage's lanes, and of those of its reductions along rows.
static void obey(nest_stage *st, const hlo_tuning *t) {
  if (t->lanes == 1) st->vector = false;
  if (t->lanes > 1) st->row_lanes = st->lanes = (u32)t->lanes;
  if (t->unroll > 0) st->row_unroll = st->unroll = (u32)t->unroll;
  if (t->lanes == 1) st->row_lanes = 1;
}

static void schedule_stage(nest *n, nest_stage *st, const nest_machine *m, survey *s) {
  u32 vector_bytes = m->vector_bytes;
  const hlo_tuning *by_hand = &m->wanted;
  *s = (survey){.n = n, .visited = hs_calloc(n->nodes.n + 1, 1), .widest = 1, .narrowest = 16};
  bool inner = st->nloops > (st->is_split ? 1u : 0u);
  if (inner) s->last_var = st->loops[st->nloops - 1], s->last = 1ull << n->vars.v[s->last_var].loop;
  for (size_t k = 0; k < st->stores.n; k++) {
    visit(s, st->stores.v[k].node, 1);
    s->bytes += (double)hlo_dtype_storage(n->bufs.v[st->stores.v[k].buf].dtype);
  }
  st->tile = NEST_NONE;
  if (vector_bytes && !s->groups && by_hand->tile && (s->ops <= 16 || by_hand->tile > 0))
    st->tile = tile_loop(n, st, s->visited);
  st->stream = by_hand->stream < 0 ? past_caches(n, st, s->visited, m) : by_hand->stream;
  i64 last = inner ? extent(n, s->last_var) : 1;
  st->vector = vector_bytes > 0 && inner && last >= 4 && !s->row;
  st->lanes = HS_MIN(64, HS_MAX(vector_bytes / HS_MAX(s->widest, 1), 2));
  while (st->lanes > 4 && last * 2 <= st->lanes) st->lanes /= 2;
  st->unroll = s->groups ? 4 : s->ops <= 8 ? 4 : s->ops <= 24 ? 2 : 1;
  while (st->unroll > 1 && last < (i64)(st->unroll * st->lanes)) st->unroll /= 2;
  u32 repeat = st->vector && !s->groups ? period(n, st, s->visited, s->last_var) : 1;
  if (repeat > 1 && last >= 4 * (i64)(repeat * st->lanes))
    st->unroll = st->unroll >= 2 * repeat ? 2 * repeat : repeat;
  hs_free(s->visited);
  obey(st, by_hand);
  st->kind = s->groups    ? (s->hoisted              ? EMIT_ROW_WISE
                             : s->row || !st->vector ? EMIT_ROW_REDUCE
                                                     : EMIT_COLUMN_REDUCE)
             : st->vector ? EMIT_POINTWISE
                          : EMIT_SCALAR;
  if (!st->vector) st->tile = NEST_NONE;
  if (st->tile != NEST_NONE)
    st->kind = EMIT_TRANSPOSE,
    st->lanes = st->unroll = by_hand->tile > 0
                                 ? (u32)by_hand->tile
                                 : HS_MIN(16, HS_MAX(vector_bytes / HS_MAX(s->widest, 4), 4));
  chunk_grid(n, st, s, by_hand->chunks);
  if (!st->vector) st->lanes = st->unroll = 1;
}

// How many splits the reduction of a stage should have that has too few chunks for its work; 1:
// none.
static i64 splits_wanted(const nest *n, const nest_stage *st, const survey *s, i32 by_hand) {
  if (by_hand > 0) return s->groups ? by_hand : 1;
  double points = 1;
  for (u32 k = 0; k < st->nloops; k++) points *= (double)extent(n, st->loops[k]);
  double ns = points * HS_MAX(s->ops * 0.4 / 16, s->bytes * 0.1);
  // splits of whole rows: pages are then touched once, in order
  bool column = st->vector && points > 1;
  if (!s->groups || s->hoisted || ns < 4 * CHUNK_NS || (st->chunks >= 8 && !column) ||
      points * 64 > s->bytes * points / 4)
    return 1;
  return (i64)HS_MIN(ns / (2 * CHUNK_NS), column ? COLUMN_SPLITS : 64.0 / (double)st->chunks);
}

// Divides the results of a reduction down columns among chunks, rows in long runs; how many chunks
// that makes.
static i64 divide_columns(const nest *n, nest_stage *st, const survey *s) {
  i64 want = (i64)COLUMN_SPLITS, lanes = (i64)(st->lanes * st->unroll);
  st->chunks = 1;
  for (u32 k = 0; k < st->nloops; k++) {
    i64 e = extent(n, st->loops[k]), most = want;
    bool last = k + 1 == st->nloops;
    if (last) most = HS_MIN(most, e * (i64)s->narrowest / RUN_BYTES);
    if (st->is_split && k + 2 == st->nloops) most = 1;  // the passes
    i64 block = (e + HS_MAX(most, 1) - 1) / HS_MAX(most, 1);
    if (last) block = (block + lanes - 1) / lanes * lanes;
    st->block[k] = block;
    st->split[k] = (e + block - 1) / block;
    st->chunks *= st->split[k];
    want = (want + st->split[k] - 1) / st->split[k];
  }
  return st->chunks;
}

void nest_schedule(nest *n, const nest_machine *m) {
  for (size_t i = 0; i < n->stages.n; i++) {
    survey s;
    schedule_stage(n, &n->stages.v[i], m, &s);
    i64 splits = m->vector_bytes ? splits_wanted(n, &n->stages.v[i], &s, m->wanted.splits) : 1,
        passes = 0;
    // results large enough for chunks of their own need no partial ones
    bool columns = splits >= 2 && m->wanted.splits <= 0 && n->stages.v[i].vector &&
                   divide_columns(n, &n->stages.v[i], &s) >= (i64)COLUMN_SPLITS / 2;
    if (columns) splits = 1;
    if (columns || splits >= 2)
      passes = nest_split_reduction(n, (u32)i, splits, n->stages.v[i].vector ? ROWS_AT_ONCE : 0);
    if (!passes) {
      nest_keep_rows(n, &n->stages.v[i], &(nest_row_room){ROW_BYTES, FIRST_ROW_BYTES});
      continue;
    }
    nest_stage *st = &n->stages.v[i];
    schedule_stage(n, st, m, &s);
    if (columns) {
      (void)divide_columns(n, st, &s);
      continue;
    }
    st->block[0] = passes;
    st->chunks = st->split[0] = (extent(n, st->loops[0]) + passes - 1) / passes;
    for (u32 k = 1; k < st->nloops; k++) st->split[k] = 1, st->block[k] = extent(n, st->loops[k]);
  }
  for (size_t i = 0; i < n->finish.n; i++) {
    survey s;
    schedule_stage(n, &n->finish.v[i], m, &s);
  }
}
