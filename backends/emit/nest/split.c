// split.c — long reductions with few results, in two phases.
//
// The stage gets one more parallel loop s, outermost. Its reduction covers only the s-th split of
// the first reduced loop and starts from the reducer's identity (or, for a reducer that returns one
// of its arguments, from the initial value); the partial results go to scratch. A finishing stage,
// run after all chunks, reduces them in order with the same reducer from the initial value and then
// does what the original stage did with the result. Where lanes run along the results, a chunk
// reads several rows side by side, and the machine follows only so many streams at once: then a
// partial result is made in passes over a few rows each, from where the last pass left it. Where
// chunks divide the results there is one split, which starts from the initial value: what the stage
// stores unchanged is made in its result's own memory, and needs no finishing. The number of splits
// depends on shapes only, so the bits do too. This is the split-K scheme of matrix multiplication,
// for any reducer whose elements may come in any order.
#include "backends/emit/nest/nest.h"

typedef struct cloner {
  nest *n;
  u32 *map;
} cloner;

// A copy of a node and of what it depends on, with the results of the reduction replaced as in map;
// the node itself where nothing changes.
static u32 clone(cloner *c, u32 id) {
  if (id == NEST_NONE || c->map[id] != NEST_NONE) return id == NEST_NONE ? id : c->map[id];
  nest_node x = c->n->nodes.v[id];
  bool same = true;
  for (u32 k = 0; k < x.nargs; k++) {
    u32 a = clone(c, x.args[k]);
    same &= a == x.args[k];
    x.args[k] = a;
  }
  return c->map[id] = same ? id : nest_node_add(c->n, &x);
}

// Every reduction that the stage's stores reach, as long as they share one set of loops; NEST_NONE
// otherwise.
static u32 only_root(const nest *n, u32 id, u8 *visited, u32 root) {
  if (id == NEST_NONE || visited[id]) return root;
  visited[id] = 1;
  const nest_node *x = &n->nodes.v[id];
  if (x->kind == NEST_REDUCE) {
    u32 r = n->groups.v[x->group].merged_into;
    return root == UINT32_MAX - 1 || root == r ? r : NEST_NONE;
  }
  for (u32 k = 0; k < x->nargs && root != NEST_NONE; k++)
    root = only_root(n, x->args[k], visited, root);
  if (x->kind == NEST_LOAD && root != NEST_NONE) root = only_root(n, x->guard, visited, root);
  return root;
}

// Whether the value needs another reduction.
static bool nested(const nest *n, u32 id, u8 *visited) {
  if (id == NEST_NONE || visited[id]) return false;
  visited[id] = 1;
  const nest_node *x = &n->nodes.v[id];
  if (x->kind == NEST_REDUCE || x->written_by) return true;
  for (u32 k = 0; k < x->nargs; k++)
    if (nested(n, x->args[k], visited)) return true;
  return false;
}

// What a partial result starts from, as a node: the reducer's identity, or the initial value of a
// reducer that returns one of its arguments.
static u32 start_of(nest *n, const nest_group *g, u32 k) {
  hlo_dtype t = n->nodes.v[g->acc[k]].dtype;
  double inf = __builtin_inf();
  switch (g->monoid) {
  case HLO_ADD: return nest_const_f64(n, t, hlo_dtype_is_float(t) ? -0.0 : 0);
  case HLO_MULTIPLY: return nest_const_f64(n, t, 1);
  case HLO_MAXIMUM: return hlo_dtype_is_float(t) ? nest_const_f64(n, t, -inf) : NEST_NONE;
  case HLO_MINIMUM: return hlo_dtype_is_float(t) ? nest_const_f64(n, t, inf) : NEST_NONE;
  case HLO_OP_INVALID: return g->init[k];
  default: return NEST_NONE;
  }
}

// The reduction that all of the stage's stores reach, when it can be split; NEST_NONE otherwise.
// Without a value for each accumulator to start from there are no passes: *rows becomes 0.
static u32 splittable(nest *n, const nest_stage *st, i64 *rows) {
  u8 *visited = hs_calloc(2 * n->nodes.n + 2, 1);
  u32 root = UINT32_MAX - 1;
  for (size_t k = 0; k < st->stores.n && root != NEST_NONE; k++)
    root = only_root(n, st->stores.v[k].node, visited, root);
  bool ok = root < n->groups.n && n->groups.v[root].nloops > 0;
  u64 loops = 0;
  for (u32 k = 0; k < st->nloops; k++) loops |= 1ull << n->vars.v[st->loops[k]].loop;
  for (size_t g = 0; g < n->groups.n && ok; g++) {
    const nest_group *gr = &n->groups.v[g];
    if (gr->merged_into != root) continue;
    ok = gr->free_order && gr->seg == NEST_NONE;
    for (u32 k = 0; k < gr->nacc && ok && *rows; k++)
      if (start_of(n, gr, k) == NEST_NONE) *rows = 0;
    for (u32 k = 0; k < gr->nacc && ok; k++)
      ok = !nested(n, gr->in[k], visited + n->nodes.n) &&
           (n->nodes.v[gr->out[k]].deps & ~loops) == 0;
    for (u32 k = 0; k < gr->nacc && ok; k++) ok = n->nodes.v[gr->init[k]].deps == 0;
  }
  hs_free(visited);
  return ok && n->stages.n == 1 ? root : NEST_NONE;
}

// How the reduced loop is cut, and where the partial results lie in scratch.
typedef struct cut {
  u32 s, s2;                  // the loops over the pieces, and over the partial results
  i64 size, passes, splits;   // iterations of a piece; pieces of a partial result; partial results
  const nest_expr *part;      // the number of the partial result
  u32 begun;                  // whether it has been begun; NEST_NONE where there is one pass
  i64 points;                 // elements of a partial result
  const nest_expr *lin;       // which of them
  HS_VEC(nest_store) stores;  // of the partial results
} cut;

// False: too few pieces, or too many loops.
static bool choose_cut(nest *n, const nest_stage *st, u32 root, i64 splits, i64 rows, cut *x) {
  i64 extent = n->vars.v[n->groups.v[root].loops[0]].hi + 1, size = (extent + splits - 1) / splits,
      passes = 1;
  if (rows && size > rows) passes = (size + rows - 1) / rows, size = rows;
  i64 steps = (extent + size - 1) / size;
  *x = (cut){.size = size, .passes = passes, .splits = (steps + passes - 1) / passes, .points = 1};
  if (x->splits < (splits == 1 && passes > 1 ? 1 : 2) || !nest_new_loop(n, steps, &x->s) ||
      !nest_new_loop(n, x->splits, &x->s2))
    return false;
  x->part = nest_div(n, nest_of_var(n, x->s, 1), passes);
  const nest_expr *pass = nest_mod(n, nest_of_var(n, x->s, 1), passes);
  x->begun = passes > 1 ? nest_guard(n, pass, 1, passes, NEST_NONE) : NEST_NONE;
  x->lin = nest_const(n, 0);
  for (u32 k = 0; k < st->nloops; k++) {
    i64 e = n->vars.v[st->loops[k]].hi + 1;
    x->lin = nest_add(n, nest_mul(n, x->lin, e), nest_of_var(n, st->loops[k], 1));
    x->points *= e;
  }
  return true;
}

static u32 load_scratch(nest *n, hlo_dtype t, u32 buf, const nest_expr *at, u32 guard) {
  return nest_node_add(
      n, &(nest_node){.kind = NEST_LOAD, .dtype = t, .e = at, .buf = buf, .guard = guard});
}

// Room in scratch for one accumulator's partial results; the number of its buffer.
static u32 new_scratch(nest *n, hlo_dtype t, i64 elements) {
  nest_buf b = {
      .dtype = t, .elements = elements, .arg = NEST_BUF_SCRATCH, .offset = n->scratch_bytes};
  n->scratch_bytes += (elements * (i64)hlo_dtype_storage(t) + 63) / 64 * 64;
  hs_vec_push(&n->bufs, b);
  return (u32)n->bufs.n - 1;
}

// The result that the stage stores the node in as it is, at the places of a partial result;
// NEST_NONE: there is none.
static u32 result_of(const nest *n, const nest_stage *st, u32 node, const cut *x) {
  for (size_t k = 0; k < st->stores.n; k++) {
    const nest_store *y = &st->stores.v[k];
    if (y->node == node && n->bufs.v[y->buf].dtype == n->nodes.v[node].dtype &&
        n->bufs.v[y->buf].elements == x->points && y->e == x->lin)
      return y->buf;
  }
  return NEST_NONE;
}

// Group g is made in passes, in its results' memory where the stage stores them as they are. A pass
// sums up by itself, which rounds less, where it has something to start from.
static void pass_group(nest *n, const nest_stage *st, u32 g, cut *x, u32 *map) {
  const nest_group gr = n->groups.v[g];
  const bool apart = gr.monoid != HLO_OP_INVALID && start_of(n, &gr, 0) != NEST_NONE;
  u32 *starts = hs_arena_zalloc(n->a, gr.nacc * sizeof(u32));
  for (u32 k = 0; k < gr.nacc; k++) {
    hlo_dtype t = n->nodes.v[gr.acc[k]].dtype;
    u32 buf = result_of(n, st, gr.out[k], x);
    if (buf == NEST_NONE) buf = new_scratch(n, t, x->points);
    u32 so_far = load_scratch(n, t, buf, x->lin, x->begun), made = gr.out[k];
    starts[k] = nest_select(n, t, x->begun, so_far, gr.init[k]);
    if (apart) {
      made = nest_op2(n, gr.monoid, t, starts[k], made);
      starts[k] = start_of(n, &gr, k);
    }
    hs_vec_push(&x->stores, ((nest_store){buf, x->lin, made}));
    map[gr.out[k]] = load_scratch(n, t, buf, x->lin, NEST_NONE);
  }
  n->groups.v[g].seg = x->s;
  n->groups.v[g].seg_size = x->size;
  n->groups.v[g].init = starts;
  n->groups.v[g].resumes = !apart;
}

// Group g reduces a piece, and its results are stored; a new group reduces those, and stands for
// its results in `map`.
static void split_group(nest *n, u32 g, cut *x, u32 *map) {
  n->groups.v[g].seg = x->s;
  n->groups.v[g].seg_size = x->size;
  nest_group ng = n->groups.v[g];
  u32 gid = (u32)n->groups.n;
  ng.seg = ng.cond = NEST_NONE;
  ng.nloops = 1;
  ng.loops[0] = x->s2;
  ng.mask = 1ull << n->vars.v[x->s2].loop;
  ng.merged_into = gid;
  ng.in = hs_arena_zalloc(n->a, 3 * ng.nacc * sizeof(u32));
  ng.out = ng.in + ng.nacc;
  u32 *resumed = ng.in + 2 * ng.nacc;  // the initial values of the partial results
  for (u32 k = 0; k < ng.nacc; k++) {
    hlo_dtype t = n->nodes.v[ng.acc[k]].dtype;
    u32 buf = new_scratch(n, t, x->splits * x->points);
    const nest_expr *at = nest_add(n, nest_mul(n, x->part, x->points), x->lin);
    hs_vec_push(&x->stores, ((nest_store){buf, at, n->groups.v[g].out[k]}));
    if (x->passes > 1) {
      u32 so_far = load_scratch(n, t, buf, at, x->begun);
      resumed[k] = nest_select(n, t, x->begun, so_far, start_of(n, &n->groups.v[g], k));
    }
    at = nest_add(n, nest_of_var(n, x->s2, x->points), x->lin);
    ng.in[k] = load_scratch(n, t, buf, at, NEST_NONE);
  }
  if (x->passes > 1) n->groups.v[g].init = resumed, n->groups.v[g].resumes = true;
  hs_vec_push(&n->groups, ng);
  for (u32 k = 0; k < ng.nacc; k++) {
    hlo_dtype t = n->nodes.v[ng.acc[k]].dtype;
    ng.out[k] =
        nest_node_add(n, &(nest_node){.kind = NEST_REDUCE, .dtype = t, .group = gid, .k = k});
    map[n->groups.v[g].out[k]] = ng.out[k];
  }
}

i64 nest_split_reduction(nest *n, u32 stage, i64 splits, i64 rows) {
  nest_stage *st = &n->stages.v[stage];
  u32 root = splittable(n, st, &rows);
  cut x;
  if (root == NEST_NONE || !choose_cut(n, st, root, splits, rows, &x)) return 0;
  size_t old_nodes = n->nodes.n, old_groups = n->groups.n;
  cloner c = {n, hs_alloc(old_nodes * sizeof *c.map)};
  for (size_t k = 0; k < old_nodes; k++) c.map[k] = NEST_NONE;
  for (u32 g = 0; g < old_groups; g++)
    if (n->groups.v[g].merged_into != root) continue;
    else if (x.splits == 1) pass_group(n, st, (u32)g, &x, c.map);
    else split_group(n, (u32)g, &x, c.map);
  // The finishing stage: the old one, with its reductions over scratch.
  nest_stage fin = {.nloops = st->nloops};
  memcpy(fin.loops, st->loops, sizeof fin.loops);
  for (size_t k = 0; k < st->stores.n; k++) {
    nest_store y = st->stores.v[k];
    bool made = false;
    for (size_t j = 0; j < x.stores.n; j++) made |= x.stores.v[j].buf == y.buf;
    if (made) continue;
    y.node = clone(&c, y.node);
    hs_vec_push(&fin.stores, y);
  }
  hs_free(c.map);
  hs_vec_free(&st->stores);
  st->stores.v = x.stores.v, st->stores.n = x.stores.n, st->stores.cap = x.stores.cap;
  u32 at = x.splits == 1 ? st->nloops - 1 : 0;  // passes over what one chunk has of a row
  memmove(st->loops + at + 1, st->loops + at, (st->nloops - at) * sizeof *st->loops);
  st->loops[at] = x.s;
  st->is_split = true;
  st->nloops++;
  if (fin.stores.n) hs_vec_push(&n->finish, fin);
  for (size_t k = 0; k < n->nodes.n; k++) n->nodes.v[k].deps = nest_node_deps(n, &n->nodes.v[k]);
  return x.passes;
}
