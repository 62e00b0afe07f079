// rows.c — row buffers: what several loops over one row need is computed once.
//
// Softmax subtracts the maximum of a row, sums up the exponentials, and divides each of them by
// the sum: two reductions and a stage, three loops over the same row, two of which need the
// exponential. Each of these loops is a *body*. Bodies have loops of their own, so the nodes of one
// are never those of another; they are compared by value number, with the loops of each body
// standing for the same row. What a later body computes again, at a cost worth a store and a load,
// the first one keeps: its node becomes a KEEP, which stores to a row buffer, and the later ones
// load from there.
//
// A row buffer is memory of the kernel's own, as much as the caller has (stack memory as large as
// the innermost cache, a GPU's shared memory); one for a longer row is the row of a result that is
// going to be stored there anyway, where one has the type and the caller lets it. Bodies run in an
// order in which reductions come after those that they depend on; a load names the group that fills
// its buffer, so that code generation emits that one first.
//
// Here too: which operand the rows of a result may be stored over.
#include "backends/emit/nest/nest.h"

enum { WORTH = 6 };  // cycles per element that are worth a store and a load

typedef struct row_body {
  u32 root;  // of a group and those that share its loops; NEST_NONE: the stage
  const u32 *loops;
  u64 mask;  // of these loops
  u64 deps;  // the loops that its results depend on; of the stage: all
} row_body;

typedef struct row_value {  // what makes two nodes of different bodies the same
  u32 kind, dtype, op, in, args[3], buf, guard, group, k, id;
  u64 bits;
  i64 attr[2], lo, hi;
  const nest_expr *e;
} row_value;

typedef struct row_search {
  nest *n;
  nest_stage *st;
  u32 nloops, nbodies;
  row_body *bodies;
  bool stage_is_body;
  size_t nodes;  // those there were at the start; by their numbers:
  u32 *value;    // value number + 1; 0: none yet
  u32 *cost;     // of computing it, in cycles per element
  u8 *seen;
  // by value number
  u32 *first, *first_body, *buf;  // the node that computes it first; its buffer + 1
  row_value *values;
  u32 nvalues, *table, cap;
  nest_row_room room;
  i64 bytes;  // of row buffers in the kernel's own memory
  u64 taken;  // stores of the stage whose results hold rows already
} row_search;

// ---- value numbers ------------------------------------------------------------------------------
// The expression with the loops of a body replaced by those of another.
static const nest_expr *moved(nest *n, const nest_expr *e, u32 k, const u32 *from, const u32 *to) {
  const nest_expr *out = nest_const(n, e->c);
  for (u32 i = 0; i < e->n; i++) {
    u32 id = e->t[i].var;
    const nest_var v = n->vars.v[id];
    const nest_expr *t;
    if (v.kind == NEST_DIV) t = nest_div(n, moved(n, v.e, k, from, to), v.d);
    else if (v.kind == NEST_MOD) t = nest_mod(n, moved(n, v.e, k, from, to), v.d);
    else {
      for (u32 l = 0; l < k; l++)
        if (id == from[l]) {
          id = to[l];
          break;
        }
      t = nest_of_var(n, id, 1);
    }
    out = nest_add(n, out, nest_mul(n, t, e->t[i].coef));
  }
  return out;
}

// Whether the value of a node that varies along the row enters the expression.
static bool indirect(const nest *n, const nest_expr *e, u64 mask) {
  for (u32 i = 0; i < e->n; i++) {
    const nest_var *v = &n->vars.v[e->t[i].var];
    if (v->kind == NEST_VALUE && (n->nodes.v[v->node].deps & mask)) return true;
    if ((v->kind == NEST_DIV || v->kind == NEST_MOD) && indirect(n, v->e, mask)) return true;
  }
  return false;
}

static u32 value_of(row_search *s, const row_value *v) {
  u64 h = hs_hash_bytes(v, sizeof *v, 0);
  for (u32 at = (u32)h & (s->cap - 1);; at = (at + 1) & (s->cap - 1)) {
    if (!s->table[at]) {
      s->values[s->nvalues] = *v;
      s->table[at] = ++s->nvalues;
      return s->nvalues;
    }
    if (!memcmp(&s->values[s->table[at] - 1], v, sizeof *v)) return s->table[at];
  }
}

// Numbers the node and what it depends on; b: the body that it stands in.
static u32 number(row_search *s, const row_body *b, u32 id) {
  if (s->value[id]) return s->value[id];
  nest *n = s->n;
  const nest_node x = n->nodes.v[id];
  row_value v;
  memset(&v, 0, sizeof v);
  v.kind = x.kind, v.dtype = x.dtype, v.op = x.op, v.in = x.in;
  v.buf = x.buf, v.group = x.group, v.k = x.k;
  v.attr[0] = x.attr[0], v.attr[1] = x.attr[1], v.lo = x.lo, v.hi = x.hi;
  memcpy(&v.bits, x.bits, sizeof v.bits);
  for (u32 k = 0; k < x.nargs; k++) v.args[k] = number(s, b, x.args[k]);
  if (x.kind == NEST_LOAD && x.guard != NEST_NONE) v.guard = number(s, b, x.guard);
  bool alone = x.kind == NEST_REDUCE && (x.deps & b->mask);
  if (x.e) {
    alone |= indirect(n, x.e, b->mask);
    v.e = alone ? x.e : moved(n, x.e, s->nloops, b->loops, s->bodies[0].loops);
  }
  if (alone) v.id = id + 1;
  return s->value[id] = value_of(s, &v);
}

// ---- what it costs ------------------------------------------------------------------------------
// An estimate from above: what is used twice counts twice.
static u32 cost_of(row_search *s, const row_body *b, u32 id) {
  const nest_node *x = &s->n->nodes.v[id];
  if (!(x->deps & b->mask)) return 0;
  if (id < s->nodes && s->cost[id]) return s->cost[id];
  u32 c = 1;
  if (x->kind == NEST_OP)
    c = (u32)hlo_op_cost(x->op)->cycles * (hlo_dtype_storage(x->in) == 8 ? 2 : 1);
  if (x->kind == NEST_REDUCE) c = WORTH;
  if (x->kind == NEST_LOAD) {
    i64 step = nest_coef(x->e, b->loops[s->nloops - 1]);
    if (step < -1 || step > 1) c = WORTH;
    if (x->guard != NEST_NONE) c += cost_of(s, b, x->guard);
  }
  for (u32 k = 0; k < x->nargs; k++) c = HS_MIN(c + cost_of(s, b, x->args[k]), 1000);
  if (id < s->nodes) s->cost[id] = c;
  return c;
}

// ---- where rows are kept ------------------------------------------------------------------------
static const nest_expr *place_in_row(nest *n, u32 k, const u32 *loops) {
  const nest_expr *e = nest_const(n, 0);
  for (u32 l = 0; l < k; l++)
    e = nest_add(n, nest_mul(n, e, n->vars.v[loops[l]].hi + 1), nest_of_var(n, loops[l], 1));
  return e;
}

// The loops that the results of a group and its companions depend on.
static u64 result_deps(const nest *n, u32 root) {
  u64 deps = 0;
  for (size_t g = 0; g < n->groups.n; g++)
    for (u32 k = 0; n->groups.v[g].merged_into == root && k < n->groups.v[g].nacc; k++)
      deps |= n->nodes.v[n->groups.v[g].out[k]].deps;
  return deps;
}

// A result of the stage that can hold the row until it is stored: its store, or NULL.
static const nest_store *result_for(row_search *s, hlo_dtype t, const row_body *writer) {
  if (!s->stage_is_body || s->n->stages.n != 1) return NULL;
  const row_body *stage = &s->bodies[s->nbodies - 1];
  for (size_t k = 0; k < s->st->stores.n && k < 64; k++) {
    const nest_store *r = &s->st->stores.v[k];
    if (s->n->bufs.v[r->buf].dtype != t || (s->taken >> k & 1) ||
        (nest_deps(s->n, r->e) & ~stage->mask & ~writer->deps))
      continue;
    bool alone = true;  // the parts of complex results share their storage
    for (size_t o = 0; o < s->st->stores.n; o++)
      alone &= o == k || s->st->stores.v[o].buf != r->buf;
    if (!alone) continue;
    s->taken |= 1ull << k;
    s->n->bufs.v[r->buf].holds_rows = true;
    return r;
  }
  return NULL;
}

// Makes the first computation of the value a KEEP; false when there is no room for the row.
static bool keep(row_search *s, u32 value) {
  nest *n = s->n;
  u32 id = s->first[value];
  const row_body *a = &s->bodies[s->first_body[value]];
  hlo_dtype t = n->nodes.v[id].dtype;
  i64 elements = 1;
  for (u32 l = 0; l < s->nloops; l++) elements *= n->vars.v[a->loops[l]].hi + 1;
  // whole vectors, so that several buffers start at the beginning of a cache line
  i64 bytes = (elements * (i64)hlo_dtype_storage(t) + 63) / 64 * 64;
  const nest_store *r = NULL;
  const nest_expr *e = place_in_row(n, s->nloops, a->loops);
  if (s->room.first && s->bytes + bytes > s->room.first) r = result_for(s, t, a);
  if (!r && s->bytes + bytes > s->room.each) return false;
  u32 buf;
  if (r) {
    buf = r->buf;
    e = moved(n, r->e, s->nloops, s->bodies[s->nbodies - 1].loops, a->loops);
  } else {
    s->bytes += bytes;
    hs_vec_push(&n->bufs, ((nest_buf){.dtype = t, .elements = elements, .arg = NEST_BUF_ROW}));
    buf = (u32)n->bufs.n - 1;
  }
  nest_node whole = n->nodes.v[id], k = {.kind = NEST_KEEP,
                                         .dtype = t,
                                         .deps = whole.deps | nest_deps(n, e),
                                         .nargs = 1,
                                         .e = e,
                                         .buf = buf,
                                         .guard = NEST_NONE};
  hs_vec_push(&n->nodes, whole);
  k.args[0] = (u32)n->nodes.n - 1;
  n->nodes.v[id] = k;
  s->buf[value] = buf + 1;
  return true;
}

// ---- the search ---------------------------------------------------------------------------------
// Replaces what an earlier body computes by loads, from the node downwards.
static void replace(row_search *s, u32 body, u32 id) {
  nest *n = s->n;
  const row_body *b = &s->bodies[body];
  if (id == NEST_NONE || id >= s->nodes || s->seen[id] || !(n->nodes.v[id].deps & b->mask)) return;
  s->seen[id] = 1;
  u32 v = s->value[id] - 1;
  if (s->first[v] != NEST_NONE && s->first_body[v] < body &&
      !(s->bodies[s->first_body[v]].deps & ~b->deps) && cost_of(s, b, id) >= WORTH &&
      (s->buf[v] || keep(s, v))) {
    const row_body *a = &s->bodies[s->first_body[v]];
    const nest_node *kept = &n->nodes.v[s->first[v]];
    nest_node load = {.kind = NEST_LOAD,
                      .dtype = kept->dtype,
                      .e = moved(n, kept->e, s->nloops, a->loops, b->loops),
                      .buf = kept->buf,
                      .guard = NEST_NONE,
                      .written_by = a->root + 1};
    load.deps = nest_deps(n, load.e);
    n->nodes.v[id] = load;
    s->cost[id] = 1;
    return;
  }
  const nest_node x = n->nodes.v[id];
  for (u32 k = 0; k < x.nargs; k++) replace(s, body, x.args[k]);
  if (x.kind == NEST_LOAD) replace(s, body, x.guard);
}

// Remembers what the body computes first.
static void claim(row_search *s, u32 body, u32 id) {
  const row_body *b = &s->bodies[body];
  if (id == NEST_NONE || id >= s->nodes || s->seen[id] == 2 ||
      !(s->n->nodes.v[id].deps & b->mask) || s->n->nodes.v[id].written_by)
    return;
  s->seen[id] = 2;
  u32 v = s->value[id] - 1;
  if (s->first[v] == NEST_NONE) s->first[v] = id, s->first_body[v] = body;
  const nest_node *x = &s->n->nodes.v[id];
  for (u32 k = 0; k < x->nargs; k++) claim(s, body, x->args[k]);
  if (x->kind == NEST_LOAD) claim(s, body, x->guard);
}

typedef void on_root(row_search *, u32 body, u32 id);
static void number_root(row_search *s, u32 body, u32 id) { (void)number(s, &s->bodies[body], id); }

static void each_root(row_search *s, u32 body, on_root *fn) {
  nest *n = s->n;
  u32 root = s->bodies[body].root;
  if (root == NEST_NONE) {
    for (size_t k = 0; k < s->st->stores.n; k++) fn(s, body, s->st->stores.v[k].node);
    return;
  }
  for (size_t g = 0; g < n->groups.n; g++)
    for (u32 k = 0; n->groups.v[g].merged_into == root && k < n->groups.v[g].nacc; k++)
      fn(s, body, n->groups.v[g].in[k]);
}

// ---- the bodies ---------------------------------------------------------------------------------
// The roots of the groups under a node, each after those that it depends on.
typedef struct row_order {
  const nest *n;
  u8 *seen, *group_seen;
  u32 *roots, count;
} row_order;

static void order_groups(row_order *o, u32 id) {
  if (id == NEST_NONE || o->seen[id]) return;
  o->seen[id] = 1;
  const nest_node *x = &o->n->nodes.v[id];
  for (u32 k = 0; k < x->nargs; k++) order_groups(o, x->args[k]);
  if (x->kind == NEST_LOAD) order_groups(o, x->guard);
  for (u32 k = 0; x->e && k < x->e->n; k++) {
    const nest_var *v = &o->n->vars.v[x->e->t[k].var];
    if (v->kind == NEST_VALUE) order_groups(o, v->node);
  }
  if (x->kind != NEST_REDUCE) return;
  u32 root = o->n->groups.v[x->group].merged_into;
  if (o->group_seen[root]) return;
  o->group_seen[root] = 1;
  for (size_t g = 0; g < o->n->groups.n; g++) {
    const nest_group *gr = &o->n->groups.v[g];
    if (gr->merged_into != root) continue;
    order_groups(o, gr->cond);
    for (u32 k = 0; k < gr->nacc; k++) order_groups(o, gr->in[k]), order_groups(o, gr->init[k]);
  }
  o->roots[o->count++] = root;
}

static bool same_extents(const nest *n, u32 k, const u32 *a, const u32 *b) {
  for (u32 l = 0; l < k; l++)
    if (n->vars.v[a[l]].hi != n->vars.v[b[l]].hi) return false;
  return true;
}

// Whether all that the group does is done at every step, along the row alone.
static bool plain_group(const nest *n, const nest_stage *st, u32 root) {
  u64 lane = st->vector ? 1ull << n->vars.v[st->loops[st->nloops - 1]].loop : 0;
  if (n->groups.v[root].nloops == 0 || (result_deps(n, root) & lane)) return false;
  for (size_t g = 0; g < n->groups.n; g++)
    if (n->groups.v[g].merged_into == root &&
        (n->groups.v[g].cond != NEST_NONE || n->groups.v[g].seg != NEST_NONE))
      return false;
  return true;
}

static u64 mask_of(const nest *n, u32 k, const u32 *loops) {
  u64 m = 0;
  for (u32 l = 0; l < k; l++) m |= 1ull << n->vars.v[loops[l]].loop;
  return m;
}

static void find_bodies(row_search *s, const row_order *o) {
  const nest *n = s->n;
  u64 deps = 0;
  for (u32 k = 0; k < o->count; k++) {
    const nest_group *g = &n->groups.v[o->roots[k]];
    if (!plain_group(n, s->st, o->roots[k])) continue;
    if (s->nbodies &&
        (g->nloops != s->nloops || !same_extents(n, s->nloops, g->loops, s->bodies[0].loops)))
      continue;
    s->nloops = g->nloops;
    row_body *b = &s->bodies[s->nbodies++];
    *b = (row_body){o->roots[k], g->loops, mask_of(n, g->nloops, g->loops),
                    result_deps(n, o->roots[k])};
    deps |= b->deps;
  }
  if (!s->nbodies || s->st->nloops < s->nloops) return;
  const u32 *last = s->st->loops + s->st->nloops - s->nloops;
  u64 mask = mask_of(n, s->nloops, last);
  if ((deps & mask) || !same_extents(n, s->nloops, last, s->bodies[0].loops)) return;
  s->stage_is_body = true;
  s->bodies[s->nbodies++] = (row_body){NEST_NONE, last, mask, ~0ull};
}

// Nodes that nothing needs any more are made constants: their guards would still cut loops.
static void sweep(row_search *s, row_order *o) {
  nest *n = s->n;
  u8 *live = hs_calloc(n->nodes.n + 1, 1);
  o->seen = live;
  o->count = 0;
  memset(o->group_seen, 0, n->groups.n);
  for (size_t k = 0; k < s->st->stores.n; k++) order_groups(o, s->st->stores.v[k].node);
  for (u32 b = 0; b < s->nbodies; b++)
    for (size_t i = 0; i < s->nodes; i++)
      if (!live[i] && s->value[i] && (n->nodes.v[i].deps & s->bodies[b].mask))
        n->nodes.v[i] = (nest_node){.kind = NEST_CONST, .dtype = n->nodes.v[i].dtype};
  hs_free(live);
}

void nest_keep_rows(nest *n, nest_stage *st, const nest_row_room *room_for) {
  if (n->groups.n == 0) return;
  size_t nodes = n->nodes.n;
  u8 *marks = hs_calloc(2 * nodes + n->groups.n + 1, 1);
  row_order o = {.n = n, .seen = marks, .group_seen = marks + 2 * nodes};
  o.roots = hs_calloc(n->groups.n + 1, sizeof *o.roots);
  row_search s = {
      .n = n, .st = st, .nodes = nodes, .seen = marks + nodes, .cap = 64, .room = *room_for};
  s.bodies = hs_calloc(n->groups.n + 1, sizeof *s.bodies);
  for (size_t k = 0; k < st->stores.n; k++) order_groups(&o, st->stores.v[k].node);
  o.count = HS_MIN(o.count, (u32)n->groups.n);
  find_bodies(&s, &o);
  if (s.nbodies >= 2) {
    while (s.cap < 2 * nodes + 2) s.cap *= 2;
    u32 *room = hs_calloc(5 * nodes + s.cap, sizeof *room);
    s.value = room, s.cost = room + nodes, s.first = room + 2 * nodes;
    s.first_body = room + 3 * nodes, s.buf = room + 4 * nodes, s.table = room + 5 * nodes;
    s.values = hs_calloc(nodes + 1, sizeof *s.values);
    for (size_t k = 0; k < nodes; k++) s.first[k] = NEST_NONE;
    for (u32 b = 0; b < s.nbodies; b++) each_root(&s, b, number_root);
    for (u32 b = 0; b < s.nbodies; b++) {
      if (b) each_root(&s, b, replace);
      each_root(&s, b, claim);
    }
    bool kept = false;
    for (u32 v = 0; v < s.nvalues; v++) kept |= s.buf[v] != 0;
    if (kept) sweep(&s, &o);
    hs_free(s.values);
    hs_free(room);
  }
  hs_free(s.bodies);
  hs_free(o.roots);
  hs_free(marks);
}

// ---- rows in place ------------------------------------------------------------------------------
// A softmax reads a row once for its maximum, once for its sum, and once more to store it. All of
// the row is read before any of it is stored, and no other row is: it may be stored where it was
// read. Each load of the operand is the element that is stored, read by the loops of the stage, or
// an element of the same row, read by the loops of a reduction that runs before those loops begin:
// its result does not depend on them, and neither does the part of the row that it covers.

// Whether the last k loops of the stage, none of which is shared among chunks, have the extents of
// the group's loops.
static bool runs_along(const nest *n, const nest_stage *st, const nest_group *g) {
  if (g->nloops == 0 || g->nloops > st->nloops) return false;
  for (u32 l = 0; l < g->nloops; l++) {
    u32 at = st->nloops - g->nloops + l;
    if (st->split[at] > 1 || n->vars.v[st->loops[at]].hi != n->vars.v[g->loops[l]].hi) return false;
  }
  return g->seg == NEST_NONE && g->cond == NEST_NONE && !g->from && !g->to && !g->resumes &&
         !g->start;
}

// Whether the load, in the loops of the group, reads what the stage stores when its last loops are
// where the group's are.
static bool same_row(const nest *n, const nest_stage *st, const nest_group *g,
                     const nest_expr *load, const nest_expr *store) {
  if (load->n != store->n || load->c != store->c) return false;
  for (u32 t = 0; t < store->n; t++) {
    u32 var = store->t[t].var;
    if (n->vars.v[var].kind != NEST_LOOP) return false;
    for (u32 l = 0; l < g->nloops; l++)
      if (var == st->loops[st->nloops - g->nloops + l]) {
        var = g->loops[l];
        break;
      }
    if (nest_coef(load, var) != store->t[t].coef) return false;
  }
  return true;
}

// Whether the group's results are known before the stage's last k loops begin.
static bool comes_first(const nest *n, const nest_stage *st, const nest_group *g) {
  u64 row = 0, deps = 0;
  for (u32 l = 0; l < g->nloops; l++) row |= 1ull << n->vars.v[st->loops[st->nloops - 1 - l]].loop;
  for (u32 k = 0; k < g->nacc; k++) deps |= n->nodes.v[g->out[k]].deps;
  return (deps & row) == 0;
}

static bool reads_in_time(const nest *n, const nest_stage *st, const nest_node *load) {
  const nest_expr *store = st->stores.v[0].e;
  if (load->guard != NEST_NONE) return false;
  if (load->e == store) return true;
  for (size_t k = 0; k < n->groups.n; k++) {
    const nest_group *g = &n->groups.v[k];
    const nest_group *root = &n->groups.v[g->merged_into];
    if (runs_along(n, st, root) && same_row(n, st, root, load->e, store) && comes_first(n, st, g) &&
        comes_first(n, st, root))
      return true;
  }
  return false;
}

bool nest_row_in_place(const nest *n, int in, int out) {
  if (n->stages.n != 1 || n->finish.n || n->updates.n || n->order) return false;
  const nest_stage *st = &n->stages.v[0];
  if (st->kind != EMIT_ROW_WISE || st->stores.n != 1 || st->is_split || st->scan || st->ways ||
      st->tile != NEST_NONE)
    return false;
  const nest_buf *to = &n->bufs.v[st->stores.v[0].buf];
  if (to->arg != out || to->holds_rows) return false;
  // a guard may put off a reduction until a part of the row has been stored
  for (size_t k = 0; k < n->nodes.n; k++)
    if (n->nodes.v[k].kind == NEST_GUARD) return false;
  for (size_t k = 0; k < n->nodes.n; k++) {
    const nest_node *x = &n->nodes.v[k];
    if (x->kind != NEST_LOAD || n->bufs.v[x->buf].arg != in) continue;
    if (n->bufs.v[x->buf].dtype != to->dtype || !reads_in_time(n, st, x)) return false;
  }
  return true;
}

// The coefficient of a variable; 0 when the expression does not have it.
static i64 coefficient(const nest_expr *e, u32 var) {
  for (u32 k = 0; k < e->n; k++)
    if (e->t[k].var == var) return e->t[k].coef;
  return 0;
}

i64 nest_chunk_rows(const nest *n, i64 *elements) {
  const nest_stage *st = &n->stages.v[0];
  const nest_expr *e = st->stores.v[0].e;
  if (st->stream || e->c || e->n > st->nloops || !st->nloops) return 0;
  i64 step = 1, rows = 1;
  bool whole = true;  // every loop inside of this one is, within a chunk
  for (u32 k = st->nloops; k-- > 0;) {
    const nest_var *v = &n->vars.v[st->loops[k]];
    i64 extent = v->hi + 1;
    if (v->lo || (extent > 1 && coefficient(e, st->loops[k]) != step)) return 0;
    step *= extent;
    if (k == st->nloops - 1) {
      if (st->split[k] > 1) return 0;
      *elements = extent;
      continue;
    }
    i64 part = st->split[k] > 1 ? st->block[k] : extent;
    if (extent % part || (!whole && part != 1)) return 0;
    rows *= part;
    whole = whole && part == extent;
  }
  return rows;
}

void nest_smaller_chunks(nest_stage *st, const nest *n) {
  enum { MOST_BYTES = 256 << 10 };
  i64 bytes = (i64)hlo_dtype_storage(n->bufs.v[st->stores.v[0].buf].dtype);
  for (u32 k = st->nloops; k-- > 0;) {
    i64 extent = n->vars.v[st->loops[k]].hi + 1;
    if (st->split[k] <= 1) {
      bytes = hs_mul_sat_i64(bytes, extent);
      continue;
    }
    while (hs_mul_sat_i64(bytes, st->block[k]) > MOST_BYTES && st->block[k] % 2 == 0 &&
           extent % st->block[k] == 0)
      st->block[k] /= 2, st->split[k] *= 2, st->chunks *= 2;
    return;
  }
}
