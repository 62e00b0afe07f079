// plan_dot.c — finds the stages that are products of two sides: reductions each of whose steps
// combines values that depend on some of the stage's loops with values that depend on others (dots,
// convolutions, distances), and chooses the squares in which blocks compute them.
//
// A value that depends on the loops of one side alone is held in shared memory, whatever it takes
// to compute it: what was fused in front of a dot runs once for each element of a square. Where a
// step multiplies two values that a tensor core's numbers can stand for exactly, and adds in f32 or
// s32, tensor cores do it.
#include "backends/emit/gpu/plan.h"

enum {
  LEAST_SIDE = 16,    // loops of a side; below, threads alone do as well
  LEAST_STEPS = 16,   // of the reduction
  PROCESSORS = 132,   // of a large GPU
  HEAVY_NODES = 400,  // stores that need so many are not written 64 times
  PART = 256          // least steps of a part of a split product
};

const gpu_unit gpu_units[GPU_UNITS] = {
    {HLO_BF16, HLO_F32}, {HLO_F16, HLO_F32}, {HLO_S8, HLO_S32}, {HLO_U8, HLO_S32}};

typedef struct square {
  u32 edge[2], each[2], depth, warps[2];
  double cost;  // of a point, against the first one's
} square;

// clang-format off
static const square squares[] = {
    {{128, 128}, {8, 8}, 8,  {2, 4}, 1.0},
    {{64, 64},   {4, 4}, 16, {2, 4}, 1.3},
    {{32, 32},   {2, 2}, 32, {2, 4}, 2.0},
    {{16, 64},   {2, 2}, 16, {1, 8}, 2.0},
    {{64, 16},   {2, 2}, 16, {4, 2}, 2.0},
};
// clang-format on

typedef struct finder {
  const nest *n;
  const nest_stage *st;
  const nest_group *g;
  gpu_dot *d;
  u64 loops;  // of the stage
  u8 *seen;
} finder;

static u64 bit_of(const nest *n, u32 var) { return 1ull << n->vars.v[var].loop; }
static i64 extent(const nest *n, u32 var) { return n->vars.v[var].hi + 1; }

// ---- sides --------------------------------------------------------------------------------------
// Calls fn for each value without operands below the node that varies from step to step.
static bool each_leaf(finder *f, u32 id, bool (*fn)(finder *, const nest_node *)) {
  const nest_node *x = &f->n->nodes.v[id];
  if (f->seen[id] || !(x->deps & f->g->mask)) return true;
  f->seen[id] = 1;
  if (x->kind == NEST_REDUCE || x->kind == NEST_KEEP || x->kind == NEST_ACC || x->kind == NEST_ELEM)
    return false;
  if (x->kind != NEST_OP) return fn(f, x);
  for (u32 k = 0; k < x->nargs; k++)
    if (!each_leaf(f, x->args[k], fn)) return false;
  return true;
}

static bool each_leaf_of_step(finder *f, bool (*fn)(finder *, const nest_node *)) {
  bool ok = true;
  memset(f->seen, 0, f->n->nodes.n);
  for (u32 k = 0; k < f->g->nacc && ok; k++) ok = each_leaf(f, f->g->in[k], fn);
  return ok && (f->g->cond == NEST_NONE || each_leaf(f, f->g->cond, fn));
}

static bool note_common(finder *f, const nest_node *x) {
  f->d->batch &= x->deps;
  return true;
}

// Joins what the leaf depends on to the side that it shares loops with, or to one without any.
static bool note_side(finder *f, const nest_node *x) {
  u64 own = x->deps & f->loops & ~f->d->batch, *a = &f->d->side[0], *b = &f->d->side[1];
  if (!own) return true;
  if ((*a & own) && (*b & own)) return false;
  *((*a & own) || (!*a && !(*b & own)) ? a : b) |= own;
  return !(*a & *b);
}

static bool find_sides(finder *f) {
  gpu_dot *d = f->d;
  d->batch = f->loops;
  if (!each_leaf_of_step(f, note_common)) return false;
  // twice: the first leaves may meet on a side only later
  for (u32 k = 0; k < 2; k++)
    if (!each_leaf_of_step(f, note_side)) return false;
  if (!d->side[0] || !d->side[1] || (d->side[0] & d->side[1])) return false;
  d->batch = f->loops & ~(d->side[0] | d->side[1]);
  // columns are those that lie side by side in the result
  if (d->side[0] & bit_of(f->n, f->st->loops[f->st->nloops - 1])) {
    u64 t = d->side[0];
    d->side[0] = d->side[1], d->side[1] = t;
  }
  return true;
}

// ---- what is held -------------------------------------------------------------------------------
static bool hold(finder *f, u32 id) {
  const nest_node *x = &f->n->nodes.v[id];
  gpu_dot *d = f->d;
  if (f->seen[id] || !(x->deps & (f->g->mask | d->side[0] | d->side[1]))) return true;
  f->seen[id] = 1;
  u32 s = x->deps & d->side[1] ? 1 : 0;
  if (x->deps & d->side[1 - s]) {
    if (x->kind != NEST_OP) return false;
    for (u32 k = 0; k < x->nargs; k++)
      if (!hold(f, x->args[k])) return false;
    return true;
  }
  if (d->nheld[s] == HS_COUNT(d->held[s])) return false;
  d->held[s][d->nheld[s]++] = id;
  return true;
}

static bool find_held(finder *f) {
  bool ok = true;
  memset(f->seen, 0, f->n->nodes.n);
  for (u32 k = 0; k < f->g->nacc && ok; k++) ok = hold(f, f->g->in[k]);
  if (ok && f->g->cond != NEST_NONE) ok = hold(f, f->g->cond);
  return ok && f->d->nheld[0] && f->d->nheld[1];
}

// ---- tensor cores -------------------------------------------------------------------------------
// The value that a chain of conversions to the type of the sums starts from.
static u32 before_conversion(const nest *n, u32 id) {
  while (n->nodes.v[id].kind == NEST_OP && n->nodes.v[id].op == HLO_CONVERT) {
    hlo_dtype to = n->nodes.v[id].dtype, from = n->nodes.v[id].in;
    bool widens = hlo_dtype_bits(from) < hlo_dtype_bits(to) &&
                  (hlo_dtype_is_float(to) || hlo_dtype_is_integer(from));
    if (!widens || from == HLO_PRED) break;
    id = n->nodes.v[id].args[0];
  }
  return id;
}

// Whether every number of type t is one of the unit's.
static bool stands_for(hlo_dtype unit, hlo_dtype t) {
  if (t == unit) return true;
  if (unit == HLO_S8)
    return hlo_dtype_is_integer(t) && hlo_dtype_is_signed(t) && hlo_dtype_bits(t) < 8;
  if (unit == HLO_U8)
    return hlo_dtype_is_integer(t) && !hlo_dtype_is_signed(t) && hlo_dtype_bits(t) < 8;
  if (unit != HLO_F16 || t == HLO_PRED) return false;
  return (hlo_dtype_is_integer(t) && hlo_dtype_bits(t) <= 8) || t == HLO_F8E5M2 ||
         t == HLO_F8E4M3FN || t == HLO_F8E4M3 || t == HLO_F8E3M4 || t == HLO_F4E2M1FN;
}

static bool is_product(const finder *f) {
  const gpu_dot *d = f->d;
  const nest_node *x = &f->n->nodes.v[f->g->in[0]];
  u32 others = f->g->cond != NEST_NONE;
  return f->g->nacc == 1 && f->g->monoid == HLO_ADD && x->kind == NEST_OP &&
         x->op == HLO_MULTIPLY && d->nheld[0] + d->nheld[1] == 2 + others &&
         ((x->args[0] == d->held[0][0] && x->args[1] == d->held[1][0]) ||
          (x->args[1] == d->held[0][0] && x->args[0] == d->held[1][0]));
}

static void find_unit(finder *f, u32 sm) {
  gpu_dot *d = f->d;
  if (sm < 80 || !is_product(f)) return;
  hlo_dtype sum = f->n->nodes.v[f->g->acc[0]].dtype, t[2];
  u32 at[2];
  for (u32 s = 0; s < 2; s++) {
    at[s] = before_conversion(f->n, d->held[s][0]);
    t[s] = f->n->nodes.v[at[s]].dtype;
  }
  for (u32 k = 0; k < GPU_UNITS; k++) {
    const gpu_unit *u = &gpu_units[k];
    bool sums = sum == u->sum || (sum == HLO_U32 && u->sum == HLO_S32);
    if (!sums || !stands_for(u->type, t[0]) || !stands_for(u->type, t[1])) continue;
    d->unit = u;
    for (u32 s = 0; s < 2; s++) {
      d->guard[s] = d->nheld[s] == 2 ? d->held[s][1] : NEST_NONE;
      d->held[s][0] = at[s];
      d->nheld[s] = 1;
    }
    return;
  }
}

// ---- squares ------------------------------------------------------------------------------------
// Nodes that the stores need besides the reduction.
static u32 epilogue(finder *f, u32 id) {
  const nest_node *x = &f->n->nodes.v[id];
  if (f->seen[id] || x->kind == NEST_REDUCE) return 0;
  f->seen[id] = 1;
  u32 all = 1;
  // mathematics is long
  if (x->kind == NEST_OP && x->nargs == 1 && x->op != HLO_CONVERT && x->op != HLO_NEGATE) all = 30;
  for (u32 k = 0; k < x->nargs; k++) all += epilogue(f, x->args[k]);
  return all;
}

static i64 side_size(const finder *f, u64 mask) {
  i64 p = 1;
  for (u32 k = 0; k < f->st->nloops; k++)
    if (bit_of(f->n, f->st->loops[k]) & mask) p *= extent(f->n, f->st->loops[k]);
  return p;
}

static u32 held_bytes(const finder *f) {
  u32 most = 4;
  for (u32 s = 0; s < 2; s++)
    for (u32 k = 0; k < f->d->nheld[s]; k++)
      most = HS_MAX(most, (u32)hlo_dtype_storage(f->n->nodes.v[f->d->held[s][k]].dtype));
  return most;
}

static bool choose_square(finder *f, gpu_stage *g) {
  gpu_dot *d = f->d;
  i64 size[2] = {side_size(f, d->side[0]), side_size(f, d->side[1])},
      batch = side_size(f, d->batch);
  u32 nodes = 0, arrays = d->nheld[0] + d->nheld[1];
  memset(f->seen, 0, f->n->nodes.n);
  for (size_t k = 0; k < f->st->stores.n; k++) nodes += epilogue(f, f->st->stores.v[k].node);
  bool large = f->g->nacc > 1 || held_bytes(f) > 4 || arrays > 3;
  double best = 0;
  for (size_t k = 0; k < HS_COUNT(squares); k++) {
    const square *q = &squares[k];
    if (k == 0 && (large || nodes > HEAVY_NODES / 8)) continue;
    if (k == 1 && nodes > HEAVY_NODES) continue;
    i64 blocks = batch;
    for (u32 s = 0; s < 2; s++) blocks *= (size[s] + q->edge[s] - 1) / q->edge[s];
    double cost =
        (double)((blocks + PROCESSORS - 1) / PROCESSORS) * q->edge[0] * q->edge[1] * q->cost;
    if (best > 0 && cost >= best) continue;
    best = cost;
    memcpy(d->edge, q->edge, sizeof d->edge);
    memcpy(d->each, q->each, sizeof d->each);
    memcpy(d->warps, q->warps, sizeof d->warps);
    d->depth = d->unit ? 64 / (u32)hlo_dtype_storage(d->unit->type) : q->depth;
    g->items = blocks;
  }
  return best > 0;
}

// ---- the stage ----------------------------------------------------------------------------------
static i64 steps_of(const nest *n, const nest_group *g) {
  i64 p = 1;
  for (u32 k = 0; k < g->nloops; k++) p *= extent(n, g->loops[k]);
  return g->seg == NEST_NONE ? p : p / extent(n, g->loops[0]) * g->seg_size;
}

bool gpu_find_dot(const nest *n, const nest_stage *st, u32 root, u32 sm, gpu_stage *s) {
  const nest_group *g = &n->groups.v[root];
  finder f = {.n = n, .st = st, .g = g};
  i64 size;
  if (!g->free_order || g->resumes || g->from || g->nloops == 0 || st->nloops < 2 ||
      (g->monoid != HLO_ADD && g->monoid != HLO_OP_INVALID) || g->nacc > 2 ||
      steps_of(n, g) < LEAST_STEPS)
    return false;
  for (u32 k = 0; k < n->groups.n; k++)
    if (k != root && n->groups.v[k].merged_into == root) return false;
  for (u32 k = 0; k < g->nacc; k++)
    if (n->nodes.v[g->init[k]].deps) return false;
  for (u32 k = 0; k < st->nloops; k++) f.loops |= bit_of(n, st->loops[k]);
  if (gpu_group_deps(n, root) & ~f.loops) return false;
  f.d = hs_arena_zalloc(n->a, sizeof *f.d);
  f.d->group = root;
  f.d->guard[0] = f.d->guard[1] = NEST_NONE;
  f.seen = hs_calloc(n->nodes.n + 1, 1);
  bool ok = find_sides(&f) && find_held(&f);
  for (u32 k = 0; k < 2 && ok; k++)
    ok = (size = side_size(&f, f.d->side[k])) >= LEAST_SIDE && size < INT32_MAX / 2;
  if (ok) find_unit(&f, sm);
  ok = ok && choose_square(&f, s);
  hs_free(f.seen);
  if (!ok) return false;
  s->form = GPU_DOT;
  s->lanes = 1;
  s->dot = f.d;
  return true;
}

i64 gpu_dot_splits(const nest *n, const gpu_stage *s) {
  i64 steps = steps_of(n, &n->groups.v[s->dot->group]);
  return HS_MIN(2 * PROCESSORS / HS_MAX(s->items, 1), steps / PART);
}
