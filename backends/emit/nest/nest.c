// nest.c — index expressions and nodes of the loop-nest IR: interning, quotients and remainders,
// ranges, printing.
//
// The algebra is in nest_div and nest_mod: a sum is split into a part divisible by d and a
// rest; when the rest stays within [0, d) the quotient is affine again. That, and splitting loops
// (schedule.c), removes nearly every quotient that reshapes bring in.
//
// Expressions are DAGs in memory, but a traversal of one, or the code written for it, sees a tree.
// A chain of reshapes and transposes that do not cancel doubles the tree at every step; where it
// would grow beyond MAX_SIZE, the inner expression becomes an index node, which is computed once
// like every node, and the expressions around it use that node's value.
#include "backends/emit/nest/nest.h"

enum { MAX_SIZE = 32 };

void nest_free(nest *n) {
  if (!n) return;
  for (size_t s = 0; s < n->stages.n; s++) hs_vec_free(&n->stages.v[s].stores);
  for (size_t s = 0; s < n->finish.n; s++) hs_vec_free(&n->finish.v[s].stores);
  if (n->order) hs_vec_free(&n->order->stage.stores);
  hs_vec_free(&n->vars);
  hs_vec_free(&n->nodes);
  hs_vec_free(&n->groups);
  hs_vec_free(&n->bufs);
  hs_vec_free(&n->stages);
  hs_vec_free(&n->finish);
  hs_vec_free(&n->updates);
  hs_free(n->table);
  n->table = NULL;
}

// ---- interning ----------------------------------------------------------------------------------
static void table_grow(nest *n) {
  u32 cap = n->table_cap ? n->table_cap * 2 : 256;
  nest_expr **t = hs_calloc(cap, sizeof *t);
  for (u32 i = 0; i < n->table_cap; i++)
    for (nest_expr *e = n->table[i], *next; e; e = next) {
      next = e->chain;
      e->chain = t[e->hash & (cap - 1)];
      t[e->hash & (cap - 1)] = e;
    }
  hs_free(n->table);
  n->table = t;
  n->table_cap = cap;
}

const nest_expr *nest_make(nest *n, i64 c, u32 k, const nest_term *t) {
  u64 h = hs_mix(k, (u64)c);
  for (u32 i = 0; i < k; i++) h = hs_mix(hs_mix(h, t[i].var), (u64)t[i].coef);
  if (n->table_n >= n->table_cap / 2) table_grow(n);
  nest_expr **slot = &n->table[h & (n->table_cap - 1)];
  for (nest_expr *e = *slot; e; e = e->chain) {
    if (e->hash != h || e->c != c || e->n != k) continue;
    bool same = true;
    for (u32 i = 0; i < k && same; i++) same = e->t[i].var == t[i].var && e->t[i].coef == t[i].coef;
    if (same) return e;
  }
  nest_expr *e = hs_arena_zalloc(n->a, sizeof *e + k * sizeof(nest_term));
  e->hash = h;
  e->c = c;
  e->n = k;
  e->size = 1;
  for (u32 i = 0; i < k; i++) {
    const nest_var *v = &n->vars.v[t[i].var];
    e->t[i] = t[i];
    if (v->kind == NEST_DIV || v->kind == NEST_MOD) e->size += v->e->size;
  }
  e->chain = *slot;
  *slot = e;
  n->table_n++;
  return e;
}

const nest_expr *nest_const(nest *n, i64 c) { return nest_make(n, c, 0, NULL); }
const nest_expr *nest_of_var(nest *n, u32 var, i64 coef) {
  return nest_make(n, 0, coef != 0, &(nest_term){var, coef});
}

// a * (e mod d) + a * d * (e div d) is a * e: what is left of a reshape and its inverse.
static const nest_expr *rejoin(nest *n, i64 c, u32 k, nest_term *t) {
  for (u32 i = 0; i < k; i++) {
    const nest_var *m = &n->vars.v[t[i].var];
    if (m->kind != NEST_MOD) continue;
    for (u32 j = 0; j < k; j++) {
      const nest_var *q = &n->vars.v[t[j].var];
      if (q->kind != NEST_DIV || q->e != m->e || q->d != m->d || t[j].coef != t[i].coef * m->d)
        continue;
      const nest_expr *e = nest_mul(n, m->e, t[i].coef);
      u32 rest = 0;
      for (u32 x = 0; x < k; x++)
        if (x != i && x != j) t[rest++] = t[x];
      return nest_add(n, nest_make(n, c, rest, t), e);
    }
  }
  return nest_make(n, c, k, t);
}

const nest_expr *nest_add(nest *n, const nest_expr *a, const nest_expr *b) {
  if (!a->n && !a->c) return b;
  if (!b->n && !b->c) return a;
  nest_term *t = hs_alloc((a->n + b->n + 1) * sizeof *t);
  u32 k = 0, i = 0, j = 0;
  while (i < a->n || j < b->n) {
    if (j == b->n || (i < a->n && a->t[i].var < b->t[j].var)) t[k++] = a->t[i++];
    else if (i == a->n || b->t[j].var < a->t[i].var) t[k++] = b->t[j++];
    else {
      i64 c = a->t[i].coef + b->t[j].coef;
      if (c) t[k++] = (nest_term){a->t[i].var, c};
      i++, j++;
    }
  }
  const nest_expr *e = rejoin(n, a->c + b->c, k, t);
  hs_free(t);
  return e;
}

const nest_expr *nest_mul(nest *n, const nest_expr *a, i64 k) {
  if (k == 1) return a;
  if (k == 0) return nest_const(n, 0);
  nest_term *t = hs_alloc((a->n + 1) * sizeof *t);
  for (u32 i = 0; i < a->n; i++) t[i] = (nest_term){a->t[i].var, a->t[i].coef * k};
  const nest_expr *e = nest_make(n, a->c * k, a->n, t);
  hs_free(t);
  return e;
}

i64 nest_coef(const nest_expr *e, u32 var) {
  for (u32 i = 0; i < e->n; i++)
    if (e->t[i].var == var) return e->t[i].coef;
  return 0;
}

void nest_range(const nest *n, const nest_expr *e, i64 *lo, i64 *hi) {
  i64 l = e->c, h = e->c;
  for (u32 i = 0; i < e->n; i++) {
    const nest_var *v = &n->vars.v[e->t[i].var];
    i64 vl = v->lo, vh = v->hi, c = e->t[i].coef;
    if (v->kind == NEST_DIV || v->kind == NEST_MOD) {
      i64 el, eh;
      nest_range(n, v->e, &el, &eh);
      if (v->kind == NEST_DIV && el >= 0) vl = el / v->d, vh = eh / v->d;
    }
    l += c * (c > 0 ? vl : vh);
    h += c * (c > 0 ? vh : vl);
  }
  *lo = l;
  *hi = h;
}

u64 nest_deps(const nest *n, const nest_expr *e) {
  u64 m = 0;
  for (u32 i = 0; i < e->n; i++) {
    const nest_var *v = &n->vars.v[e->t[i].var];
    switch (v->kind) {
    case NEST_LOOP: m |= 1ull << v->loop; break;
    case NEST_DIV:
    case NEST_MOD: m |= nest_deps(n, v->e); break;
    case NEST_VALUE: m |= n->nodes.v[v->node].deps; break;
    }
  }
  return m;
}

bool nest_is_linear(const nest *n, const nest_expr *e, u64 loops) {
  for (u32 i = 0; i < e->n; i++) {
    const nest_var *v = &n->vars.v[e->t[i].var];
    u64 deps = v->kind == NEST_LOOP    ? 0
               : v->kind == NEST_VALUE ? n->nodes.v[v->node].deps
                                       : nest_deps(n, v->e);
    if (deps & loops) return false;
  }
  return true;
}

// ---- quotient and remainder ---------------------------------------------------------------------
static i64 floor_div(i64 a, i64 d) {
  i64 q = a / d;
  return q - (a % d != 0 && (a < 0) != (d < 0));
}

// e = d * q + r, where r keeps the terms whose coefficient d does not divide.
static void split_by(nest *n, const nest_expr *e, i64 d, const nest_expr **q, const nest_expr **r) {
  nest_term *tq = hs_alloc((e->n + 1) * sizeof *tq), *tr = hs_alloc((e->n + 1) * sizeof *tr);
  u32 nq = 0, nr = 0;
  for (u32 i = 0; i < e->n; i++) {
    if (e->t[i].coef % d == 0) tq[nq++] = (nest_term){e->t[i].var, e->t[i].coef / d};
    else tr[nr++] = e->t[i];
  }
  i64 cq = floor_div(e->c, d);
  *q = nest_make(n, cq, nq, tq);
  *r = nest_make(n, e->c - cq * d, nr, tr);
  hs_free(tq);
  hs_free(tr);
}

// The expression as the value of an index node: one node and one variable per expression.
static const nest_expr *as_value(nest *n, const nest_expr *e) {
  for (u32 i = 0; i < n->vars.n; i++) {
    const nest_var *v = &n->vars.v[i];
    if (v->kind == NEST_VALUE && n->nodes.v[v->node].kind == NEST_INDEX &&
        n->nodes.v[v->node].e == e)
      return nest_of_var(n, i, 1);
  }
  i64 lo, hi;
  nest_range(n, e, &lo, &hi);
  u32 node = nest_node_add(n, &(nest_node){.kind = NEST_INDEX, .dtype = HLO_S64, .e = e});
  return nest_of_var(n, nest_new_value(n, node, lo, hi), 1);
}

static const nest_expr *atom(nest *n, nest_var_kind kind, const nest_expr *e, i64 d) {
  if (e->size > MAX_SIZE) e = as_value(n, e);
  for (u32 i = 0; i < n->vars.n; i++)
    if (n->vars.v[i].kind == kind && n->vars.v[i].e == e && n->vars.v[i].d == d)
      return nest_of_var(n, i, 1);
  i64 lo, hi;
  nest_range(n, e, &lo, &hi);
  nest_var v = {
      .kind = kind, .lo = 0, .hi = kind == NEST_MOD ? d - 1 : HS_MAX(hi / d, 0), .e = e, .d = d};
  if (kind == NEST_MOD && lo >= 0 && hi < d) v.hi = hi;
  hs_vec_push(&n->vars, v);
  return nest_of_var(n, (u32)n->vars.n - 1, 1);
}

const nest_expr *nest_div(nest *n, const nest_expr *e, i64 d) {
  if (d == 1) return e;
  const nest_expr *q, *r;
  i64 lo, hi;
  split_by(n, e, d, &q, &r);
  nest_range(n, r, &lo, &hi);
  if (lo >= 0 && hi < d) return q;
  if (lo < 0) q = nest_const(n, 0), r = e;
  // floor((g*x + c) / (g*m)) = floor((x + floor(c/g)) / m)
  i64 g = d;
  for (u32 i = 0; i < r->n; i++)
    while (r->t[i].coef % g) g = g % 2 == 0 && r->t[i].coef % (g / 2) == 0 ? g / 2 : 1;
  if (g > 1 && d % g == 0) {
    const nest_expr *rq, *rr;
    split_by(n, r, g, &rq, &rr);
    if (d / g == 1) return nest_add(n, q, rq);
    r = rq;
    d /= g;
  }
  return nest_add(n, q, atom(n, NEST_DIV, r, d));
}

const nest_expr *nest_mod(nest *n, const nest_expr *e, i64 d) {
  if (d == 1) return nest_const(n, 0);
  const nest_expr *q, *r;
  i64 lo, hi;
  split_by(n, e, d, &q, &r);
  nest_range(n, r, &lo, &hi);
  if (lo >= 0 && hi < d) return r;
  return atom(n, NEST_MOD, lo >= 0 ? r : e, d);
}

bool nest_new_loop(nest *n, i64 extent, u32 *var) {
  if (n->nloops >= NEST_MAX_LOOPS) return false;
  nest_var v = {.kind = NEST_LOOP, .loop = n->nloops++, .lo = 0, .hi = extent - 1};
  hs_vec_push(&n->vars, v);
  *var = (u32)n->vars.n - 1;
  return true;
}

u32 nest_new_value(nest *n, u32 node, i64 lo, i64 hi) {
  for (u32 i = 0; i < n->vars.n; i++) {
    const nest_var *v = &n->vars.v[i];
    if (v->kind == NEST_VALUE && v->node == node && v->lo == lo && v->hi == hi) return i;
  }
  nest_var v = {.kind = NEST_VALUE, .lo = lo, .hi = hi, .node = node};
  hs_vec_push(&n->vars, v);
  return (u32)n->vars.n - 1;
}

// ---- nodes --------------------------------------------------------------------------------------
u64 nest_node_deps(const nest *n, const nest_node *x) {
  u64 deps = x->e ? nest_deps(n, x->e) : 0;
  for (u32 i = 0; i < x->nargs; i++) deps |= n->nodes.v[x->args[i]].deps;
  if (x->kind == NEST_LOAD && x->guard != NEST_NONE) deps |= n->nodes.v[x->guard].deps;
  if (x->kind == NEST_REDUCE) {
    const nest_group *g = &n->groups.v[x->group];
    if (g->seg != NEST_NONE) deps |= 1ull << n->vars.v[g->seg].loop;
    if (g->along) deps |= 1ull << n->vars.v[g->along - 1].loop;
    if (g->from) deps |= n->nodes.v[g->from - 1].deps | n->nodes.v[g->to - 1].deps;
    if (g->cond != NEST_NONE) deps |= n->nodes.v[g->cond].deps & ~g->mask;
    for (u32 k = 0; k < g->nacc; k++)
      deps |= (n->nodes.v[g->in[k]].deps & ~g->mask) | n->nodes.v[g->init[k]].deps;
  }
  return deps;
}

// Whether the bounds of an expression hold wherever its guard is false: quotients and remainders
// have theirs for numbers that are not negative.
static bool bounds_hold(const nest *n, const nest_expr *e) {
  i64 lo, hi;
  for (u32 k = 0; k < e->n; k++) {
    const nest_var *v = &n->vars.v[e->t[k].var];
    if (v->kind != NEST_DIV && v->kind != NEST_MOD) continue;
    nest_range(n, v->e, &lo, &hi);
    if (lo < 0 || !bounds_hold(n, v->e)) return false;
  }
  return true;
}

// Whether a load is of elements that are always there, the same ones along some loop that its guard
// depends on: it needs no guard, and without one it does not vary along that loop. The index of a
// row that is gathered into one of several columns is such a load.
static bool needs_no_guard(const nest *n, const nest_node *x) {
  if (x->kind != NEST_LOAD || x->guard == NEST_NONE ||
      !(n->nodes.v[x->guard].deps & ~nest_deps(n, x->e)))
    return false;
  i64 lo, hi;
  nest_range(n, x->e, &lo, &hi);
  return lo >= 0 && hi < n->bufs.v[x->buf].elements && bounds_hold(n, x->e);
}

u32 nest_node_add(nest *n, const nest_node *in) {
  nest_node x = *in;
  if (needs_no_guard(n, &x)) x.guard = NEST_NONE;
  for (u32 i = 0; i < x.nargs; i++) x.templ |= n->nodes.v[x.args[i]].templ;
  if (x.kind == NEST_ACC || x.kind == NEST_ELEM) x.templ = true;
  x.deps = nest_node_deps(n, &x);
  hs_vec_push(&n->nodes, x);
  return (u32)n->nodes.n - 1;
}

u32 nest_op1(nest *n, hlo_opcode op, hlo_dtype t, u32 a) {
  return nest_node_add(n, &(nest_node){.kind = NEST_OP,
                                       .dtype = t,
                                       .op = op,
                                       .in = n->nodes.v[a].dtype,
                                       .nargs = 1,
                                       .args = {a}});
}
u32 nest_op2(nest *n, hlo_opcode op, hlo_dtype t, u32 a, u32 b) {
  return nest_node_add(n, &(nest_node){.kind = NEST_OP,
                                       .dtype = t,
                                       .op = op,
                                       .in = n->nodes.v[a].dtype,
                                       .nargs = 2,
                                       .args = {a, b}});
}
u32 nest_select(nest *n, hlo_dtype t, u32 p, u32 a, u32 b) {
  if (a == b) return a;
  return nest_node_add(
      n,
      &(nest_node){
          .kind = NEST_OP, .dtype = t, .op = HLO_SELECT, .in = t, .nargs = 3, .args = {p, a, b}});
}
u32 nest_const_bits(nest *n, hlo_dtype t, const void *bits) {
  nest_node x = {.kind = NEST_CONST, .dtype = t};
  memcpy(x.bits, bits, hlo_dtype_storage(t));
  return nest_node_add(n, &x);
}
u32 nest_const_f64(nest *n, hlo_dtype t, double v) {
  u8 bits[16] = {0};
  hlo_elem_from_f64(t, bits, v);
  return nest_const_bits(n, t, bits);
}

u32 nest_scratch(nest *n, hlo_dtype t, i64 elements) {
  nest_buf b = {
      .dtype = t, .elements = elements, .arg = NEST_BUF_SCRATCH, .offset = n->scratch_bytes};
  n->scratch_bytes += (elements * (i64)hlo_dtype_storage(t) + 255) / 256 * 256;
  hs_vec_push(&n->bufs, b);
  return (u32)n->bufs.n - 1;
}

u32 nest_guard(nest *n, const nest_expr *e, i64 lo, i64 hi, u32 and_with) {
  i64 el, eh;
  nest_range(n, e, &el, &eh);
  if (el >= lo && eh < hi) return and_with;
  u32 g = nest_node_add(
      n, &(nest_node){.kind = NEST_GUARD, .dtype = HLO_PRED, .e = e, .lo = lo, .hi = hi});
  return and_with == NEST_NONE ? g : nest_op2(n, HLO_AND, HLO_PRED, and_with, g);
}

// ---- printing -----------------------------------------------------------------------------------
static void print_expr(const nest *n, const nest_expr *e, hs_buf *b) {
  bool first = true;
  for (u32 i = 0; i < e->n; i++) {
    const nest_var *v = &n->vars.v[e->t[i].var];
    i64 c = e->t[i].coef;
    hs_buf_puts(b, first ? (c < 0 ? "-" : "") : (c < 0 ? " - " : " + "));
    if (c != 1 && c != -1) hs_buf_printf(b, "%lld*", (long long)(c < 0 ? -c : c));
    if (v->kind == NEST_LOOP) hs_buf_printf(b, "i%u", v->loop);
    else if (v->kind == NEST_VALUE)
      hs_buf_printf(b, "[v%u in %lld..%lld]", v->node, (long long)v->lo, (long long)v->hi);
    else {
      hs_buf_puts(b, "(");
      print_expr(n, v->e, b);
      hs_buf_printf(b, v->kind == NEST_DIV ? ")/%lld" : ")%%%lld", (long long)v->d);
    }
    first = false;
  }
  if (first || e->c) hs_buf_printf(b, first ? "%lld" : " + %lld", (long long)e->c);
}

static void print_node(const nest *n, u32 id, hs_buf *b) {
  const nest_node *x = &n->nodes.v[id];
  hs_buf_printf(b, "  v%u = %s ", id, hlo_dtype_text(x->dtype));
  switch (x->kind) {
  case NEST_CONST: hs_buf_printf(b, "const %g", hlo_elem_to_f64(x->dtype, x->bits)); break;
  case NEST_LOAD:
    hs_buf_printf(b, "load b%u[", x->buf);
    print_expr(n, x->e, b);
    hs_buf_puts(b, "]");
    if (x->guard != NEST_NONE) hs_buf_printf(b, " if v%u", x->guard);
    if (x->written_by) hs_buf_printf(b, " as group %u keeps it", x->written_by - 1);
    break;
  case NEST_INDEX:
    hs_buf_puts(b, "index ");
    print_expr(n, x->e, b);
    break;
  case NEST_GUARD:
    hs_buf_printf(b, "%lld <= ", (long long)x->lo);
    print_expr(n, x->e, b);
    hs_buf_printf(b, " < %lld", (long long)x->hi);
    break;
  case NEST_OP:
    hs_buf_puts(b, hlo_op_text(x->op));
    for (u32 i = 0; i < x->nargs; i++) hs_buf_printf(b, " v%u", x->args[i]);
    break;
  case NEST_REDUCE: hs_buf_printf(b, "reduce group %u result %u", x->group, x->k); break;
  case NEST_ACC: hs_buf_printf(b, "acc %u.%u", x->group, x->k); break;
  case NEST_ELEM: hs_buf_printf(b, "elem %u.%u", x->group, x->k); break;
  case NEST_KEEP:
    hs_buf_printf(b, "keep v%u in b%u[", x->args[0], x->buf);
    print_expr(n, x->e, b);
    hs_buf_puts(b, "]");
    break;
  }
  hs_buf_putc(b, '\n');
}

static void print_stage(const nest *n, const nest_stage *st, const char *phase, size_t no,
                        hs_buf *b) {
  hs_buf_printf(b, "%s %zu: %s, %lld chunks, lanes %u x %u%s", phase, no, emit_kind_name(st->kind),
                (long long)st->chunks, st->lanes, st->unroll,
                st->stream ? ", past the caches" : "");
  if (st->row_lanes) hs_buf_printf(b, ", rows in %u lanes", st->row_lanes);
  if (st->row_unroll) hs_buf_printf(b, ", rows x %u", st->row_unroll);
  hs_buf_putc(b, '\n');
  for (u32 i = 0; i < st->nloops; i++) {
    const nest_var *v = &n->vars.v[st->loops[i]];
    hs_buf_printf(b, "  for i%u < %lld%s\n", v->loop, (long long)v->hi + 1,
                  i + 1 == st->nloops && st->vector ? " in lanes" : "");
  }
  for (size_t k = 0; k < st->stores.n; k++) {
    hs_buf_printf(b, "  store b%u[", st->stores.v[k].buf);
    print_expr(n, st->stores.v[k].e, b);
    hs_buf_printf(b, "] = v%u\n", st->stores.v[k].node);
  }
}

void nest_print(const nest *n, hs_buf *b) {
  for (size_t s = 0; s < n->stages.n; s++) print_stage(n, &n->stages.v[s], "stage", s, b);
  for (size_t s = 0; s < n->finish.n; s++) print_stage(n, &n->finish.v[s], "finish", s, b);
  for (size_t g = 0; g < n->groups.n; g++) {
    const nest_group *gr = &n->groups.v[g];
    hs_buf_printf(b, "group %zu: %s over", g,
                  gr->monoid       ? hlo_op_text(gr->monoid)
                  : gr->free_order ? "reducer"
                                   : "ordered reducer");
    for (u32 i = 0; i < gr->nloops; i++)
      hs_buf_printf(b, " i%u < %lld", n->vars.v[gr->loops[i]].loop,
                    (long long)n->vars.v[gr->loops[i]].hi + 1);
    for (u32 i = 0; i < gr->nacc; i++)
      hs_buf_printf(b, "; v%u from v%u by v%u", gr->in[i], gr->init[i], gr->next[i]);
    hs_buf_putc(b, '\n');
  }
  for (u32 i = 0; i < n->nodes.n; i++) print_node(n, i, b);
}
