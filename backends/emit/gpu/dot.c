// dot.c — products of two sides, by squares of the result (plan_dot.c).
//
// A block has a square of rows and columns. In rounds of `depth` steps its threads bring the values
// of both sides that the square needs into shared memory, and each adds up its own part of the
// square in registers. While a round is multiplied the values of the next one are under way; shared
// memory has room for two, so that one barrier a round is enough. At the end the stores run with
// the sums as the reduction's results: whatever was fused behind the product is done there.
//
// Threads that multiply by themselves find `edge` values of a step side by side, and read four at
// once. Tensor cores want what follows along the reduction in one word: an edge has rows of bytes
// there, or where memory runs along the edge (16-bit numbers) squares that are turned when they are
// read. Rows are 16 bytes apart from a multiple of the banks.
#include "backends/emit/gpu/code.h"

enum { MOST_VALUES = 128, PADDING = 16, THREADS = 256 };

typedef struct side {
  u32 nloops, loops[NEST_MAX_LOOPS];
  i64 size;
  bool along;   // memory runs along the edge, not along the reduction
  bool by_row;  // an edge's element has a row of steps; else a step has a row of elements
  u32 lanes;    // elements that a thread brings at once
  u32 rounds;   // how often it does in a round
  u32 pitch[3], bytes[3];  // elements between rows, bytes of an element, per held node
  LLVMTypeRef type[3];
  LLVMValueRef array[3];
  LLVMValueRef tile;  // number of the square along the edge
} side;

typedef struct dot {
  const gpu_dot *d;
  const nest_stage *st;
  const nest_group *g;
  side s[2];
  u64 own, steps;  // loops of both sides, of the reduction
  LLVMValueRef from, to;
  i64 least;  // steps of the shortest part; not the same as the longest: uneven
  bool uneven;
} dot;

static LLVMValueRef add(cg *c, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildNSWAdd(c->b, a, b, "");
}
static LLVMValueRef times(cg *c, LLVMValueRef a, i64 k) {
  return LLVMBuildNSWMul(c->b, a, cg_ixc(c, k), "");
}

// ---- how a side is brought in -------------------------------------------------------------------
typedef struct loads {
  u8 *seen;
  u32 edge, step, width;  // loads of stride one along either; bytes of the widest element
} loads;

static void look_at_loads(const nest *n, u32 id, u32 edge, u32 step, loads *l) {
  const nest_node *x = &n->nodes.v[id];
  if (l->seen[id]) return;
  l->seen[id] = 1;
  if (x->kind == NEST_LOAD) {
    l->edge += nest_coef(x->e, edge) == 1;
    l->step += nest_coef(x->e, step) == 1;
    l->width = HS_MAX(l->width, (u32)hlo_dtype_storage(x->dtype));
  }
  for (u32 k = 0; k < x->nargs; k++) look_at_loads(n, x->args[k], edge, step, l);
}

static void measure(cg *c, dot *t, u32 which) {
  const gpu_dot *d = t->d;
  const nest_group *g = t->g;
  side *s = &t->s[which];
  s->size = 1;
  for (u32 k = 0; k < t->st->nloops; k++) {
    u32 var = t->st->loops[k];
    if (!(d->side[which] & 1ull << c->n->vars.v[var].loop)) continue;
    s->loops[s->nloops++] = var;
    s->size *= cg_extent(c, var);
  }
  u32 last = s->loops[s->nloops - 1], inner = g->loops[g->nloops - 1];
  loads l = {.seen = hs_calloc(c->n->nodes.n + 1, 1), .width = 1};
  for (u32 k = 0; k < d->nheld[which]; k++) look_at_loads(c->n, d->held[which][k], last, inner, &l);
  hs_free(l.seen);
  s->along = l.edge > l.step || (l.edge == l.step && l.edge && !d->unit);
  s->by_row = d->unit && !(s->along && hlo_dtype_storage(d->unit->type) == 2);
  i64 part = g->seg == NEST_NONE ? 16 : g->nloops > 1 ? cg_extent(c, inner) : g->seg_size;
  s->lanes = HS_MAX(16 / l.width, 1);
  while (s->lanes > 1 &&
         (cg_extent(c, s->along ? last : inner) % s->lanes || (!s->along && part % s->lanes) ||
          d->edge[which] * d->depth / s->lanes < THREADS ||
          (s->along ? d->edge[which] : d->depth) % s->lanes))
    s->lanes /= 2;
  s->rounds = d->edge[which] * d->depth / s->lanes / THREADS;
}

static void make_arrays(cg *c, dot *t) {
  for (u32 w = 0; w < 2; w++) {
    side *s = &t->s[w];
    for (u32 k = 0; k < t->d->nheld[w]; k++) {
      hlo_dtype type = t->d->unit ? t->d->unit->type : c->n->nodes.v[t->d->held[w][k]].dtype;
      s->type[k] = t->d->unit ? cg_mem(c, type) : cg_rep(c, type);
      if (s->type[k] == c->i1) s->type[k] = c->i8;
      s->bytes[k] = s->type[k] == c->f64 || s->type[k] == c->i64   ? 8
                    : s->type[k] == c->f32 || s->type[k] == c->i32 ? 4
                    : s->type[k] == c->i16                         ? 2
                                                                   : 1;
      u32 rows = s->by_row ? t->d->edge[w] : t->d->depth;
      s->pitch[k] = (s->by_row ? t->d->depth : t->d->edge[w]) + PADDING / s->bytes[k];
      s->array[k] = gpu_shared(c, s->type[k], s->bytes[k], 2ull * rows * s->pitch[k]);
    }
  }
}

// Where row and column lie in half `half` (a number, NULL: the first) of array k.
static LLVMValueRef place(cg *c, const dot *t, u32 w, u32 k, LLVMValueRef half, LLVMValueRef row,
                          LLVMValueRef column) {
  const side *s = &t->s[w];
  u32 rows = s->by_row ? t->d->edge[w] : t->d->depth;
  LLVMValueRef at = add(c, times(c, row, s->pitch[k]), column);
  if (half) at = add(c, at, times(c, half, (i64)rows * s->pitch[k]));
  return cg_gep(c, s->type[k], s->array[k], at);
}

// ---- bringing in --------------------------------------------------------------------------------
// Element `turn` of this thread: its number along the edge and along the steps, in units of lanes
// where those run.
static void own_element(cg *c, const dot *t, u32 w, u32 turn, LLVMValueRef *edge,
                        LLVMValueRef *step) {
  const side *s = &t->s[w];
  LLVMValueRef no = gpu_of(c)->thread;
  if (turn) no = add(c, no, cg_ixc(c, (i64)turn * THREADS));
  i64 fast = (s->along ? t->d->edge[w] : t->d->depth) / s->lanes;
  LLVMValueRef quick = LLVMBuildURem(c->b, no, cg_ixc(c, fast), ""),
               slow = LLVMBuildUDiv(c->b, no, cg_ixc(c, fast), "");
  *edge = s->along ? quick : slow;
  *step = s->along ? slow : quick;
}

// Loads what this thread brings for the round that begins at step k0: values[turn * nheld + k].
static hs_status fetch(cg *c, const dot *t, u32 w, LLVMValueRef k0, LLVMValueRef *values) {
  const side *s = &t->s[w];
  u32 nheld = t->d->nheld[w], elanes = s->along ? s->lanes : 1, klanes = s->along ? 1 : s->lanes;
  u32 var = s->along ? s->loops[s->nloops - 1] : t->g->loops[t->g->nloops - 1];
  for (u32 turn = 0; turn < s->rounds; turn++) {
    LLVMValueRef edge, step, *p, ok = NULL;
    own_element(c, t, w, turn, &edge, &step);
    edge = add(c, edge, times(c, s->tile, t->d->edge[w] / elanes));
    if (s->size % t->d->edge[w]) edge = cg_clip(c, false, edge, cg_ixc(c, s->size / elanes - 1));
    LLVMValueRef unit = cg_ixc(c, klanes), end = LLVMBuildUDiv(c->b, t->to, unit, ""),
                 one = cg_ixc(c, 1);
    step = add(c, step, LLVMBuildUDiv(c->b, k0, unit, ""));
    ok = LLVMBuildICmp(c->b, LLVMIntSLT, step, end, "");
    step = LLVMBuildSelect(c->b, ok, step, LLVMBuildNSWSub(c->b, end, one, ""), "");
    gpu_set_loops(c, edge, s->nloops, s->loops, 0, elanes);
    gpu_set_loops(c, step, t->g->nloops, t->g->loops, 0, klanes);
    c->W = s->lanes;
    if (s->lanes > 1) c->lane = 1ull << c->n->vars.v[var].loop;
    u32 guard = t->d->guard[w];
    LLVMValueRef real = t->uneven ? ok : NULL;
    if (guard != NEST_NONE) {
      NODE(c, guard, &p);
      real = cg_and_mask(c, cg_splat(c, p[0], s->lanes), real ? cg_splat(c, real, s->lanes) : NULL);
    }
    for (u32 k = 0; k < nheld; k++) {
      u32 id = t->d->held[w][k];
      hlo_dtype type = c->n->nodes.v[id].dtype;
      NODE(c, id, &p);
      cg_at_level(c, c->open);
      LLVMValueRef v = cg_splat(c, p[0], s->lanes);
      if (t->d->unit) {
        if (type != t->d->unit->type) v = cg_convert(c, type, t->d->unit->type, v);
        v = cg_to_mem(c, t->d->unit->type, v);
        // past the end zeros are added
        if (real)
          v = LLVMBuildSelect(
              c->b,
              cg_is_vector(LLVMTypeOf(v)) && s->lanes > 1 ? cg_splat(c, real, s->lanes) : real, v,
              LLVMConstNull(LLVMTypeOf(v)), "");
      } else if (cg_scalar_of(LLVMTypeOf(v)) == c->i1) {
        v = LLVMBuildZExt(c->b, v, cg_like(v, c->i8), "");
      }
      values[turn * nheld + k] = v;
    }
    c->lane = 0;
    c->W = 1;
    gpu_unset_loops(c, s->nloops, s->loops, 0);
    gpu_unset_loops(c, t->g->nloops, t->g->loops, 0);
    cg_at_level(c, c->open);
  }
  return HS_GOOD;
}

static void put(cg *c, const dot *t, u32 w, LLVMValueRef half, const LLVMValueRef *values) {
  const side *s = &t->s[w];
  u32 nheld = t->d->nheld[w];
  for (u32 turn = 0; turn < s->rounds; turn++) {
    LLVMValueRef edge, step;
    own_element(c, t, w, turn, &edge, &step);
    *(s->along ? &edge : &step) = times(c, s->along ? edge : step, s->lanes);
    LLVMValueRef row = s->by_row ? edge : step, column = s->by_row ? step : edge;
    for (u32 k = 0; k < nheld; k++) {
      LLVMValueRef v = values[turn * nheld + k];
      if (s->by_row != s->along) {  // lanes lie side by side
        LLVMValueRef x = LLVMBuildStore(c->b, v, place(c, t, w, k, half, row, column));
        LLVMSetAlignment(x, HS_MIN(s->lanes * s->bytes[k], 16));
        continue;
      }
      for (u32 l = 0; l < s->lanes; l++) {
        LLVMValueRef one =
            s->lanes == 1 ? v
                          : LLVMBuildExtractElement(c->b, v, LLVMConstInt(c->i32, l, false), "");
        LLVMBuildStore(c->b, one, place(c, t, w, k, half, add(c, row, cg_ixc(c, l)), column));
      }
    }
  }
}

// ---- threads that multiply ----------------------------------------------------------------------
// The thread's place in the square, and element k of its part of an edge: neighbours by fours, the
// second half of them half an edge on.
static LLVMValueRef thread_at(cg *c, const dot *t, u32 w) {
  u32 across = t->d->edge[1] / t->d->each[1];
  LLVMValueRef no = gpu_of(c)->thread, n = cg_ixc(c, across);
  return w ? LLVMBuildURem(c->b, no, n, "") : LLVMBuildUDiv(c->b, no, n, "");
}
static LLVMValueRef element(cg *c, const dot *t, u32 w, u32 k) {
  u32 run = HS_MIN(t->d->each[w], 4), runs = t->d->each[w] / run;
  return add(c, times(c, thread_at(c, t, w), run),
             cg_ixc(c, (i64)(k / run) * (t->d->edge[w] / runs) + k % run));
}

static hs_status remember(cg *c, u32 id, LLVMValueRef v) {
  cg_memo *m = &c->memo[id];
  m->v[0] = v;
  m->level = c->open;
  if (!m->set) hs_vec_push(&c->memoed, id);
  m->set = true;
  return HS_GOOD;
}

// Loops of the mask stand at the current level, with values that nobody asks for.
static void stand(cg *c, u64 mask) {
  for (u64 m = mask; m; m &= m - 1) {
    u32 bit = (u32)__builtin_ctzll(m);
    c->loop_level[bit] = c->open;
    c->loop_val[bit] = cg_ixc(c, 0);
  }
  c->open_mask |= mask;
}
static void unstand(cg *c, u64 mask) {
  c->open_mask &= ~mask;
  cg_forget(c, CG_MAX_LEVELS, mask);
}

// One step: the values of both edges, then every pair of them.
static hs_status pairs(cg *c, const dot *t, LLVMValueRef half, LLVMValueRef step,
                       LLVMValueRef *acc) {
  const gpu_dot *d = t->d;
  LLVMValueRef v[2][3][8], in[2], next[2], *p;
  for (u32 w = 0; w < 2; w++)
    for (u32 k = 0; k < d->nheld[w]; k++) {
      u32 run = HS_MIN(d->each[w], 4);
      for (u32 e = 0; e < d->each[w]; e += run) {
        LLVMTypeRef type = LLVMVectorType(t->s[w].type[k], run);
        LLVMValueRef all =
            LLVMBuildLoad2(c->b, type, place(c, t, w, k, half, step, element(c, t, w, e)), "");
        LLVMSetAlignment(all, HS_MIN(run * t->s[w].bytes[k], 16));
        for (u32 l = 0; l < run; l++) {
          LLVMValueRef x = LLVMBuildExtractElement(c->b, all, LLVMConstInt(c->i32, l, false), "");
          if (c->n->nodes.v[d->held[w][k]].dtype == HLO_PRED)
            x = LLVMBuildICmp(c->b, LLVMIntNE, x, LLVMConstNull(c->i8), "");
          v[w][k][e + l] = x;
        }
      }
    }
  stand(c, t->own | t->steps);
  u32 nacc = t->g->nacc;
  for (u32 i = 0; i < d->each[0]; i++)
    for (u32 j = 0; j < d->each[1]; j++) {
      LLVMValueRef *a = &acc[(i * d->each[1] + j) * nacc], ok = NULL;
      cg_forget(c, CG_MAX_LEVELS, t->own | t->steps);
      for (u32 w = 0; w < 2; w++)
        for (u32 k = 0; k < d->nheld[w]; k++)
          HS_TRY(remember(c, d->held[w][k], v[w][k][w ? j : i]));
      for (u32 k = 0; k < nacc; k++) {
        NODE(c, t->g->in[k], &p);
        in[k] = p[0];
      }
      if (t->g->cond != NEST_NONE) {
        NODE(c, t->g->cond, &p);
        ok = p[0];
      }
      cg_at_level(c, c->open);
      HS_TRY(cg_apply(c, t->g, a, in, next));
      for (u32 k = 0; k < nacc; k++)
        a[k] = ok ? LLVMBuildSelect(c->b, ok, next[k], a[k], "") : next[k];
    }
  unstand(c, t->own | t->steps);
  return HS_GOOD;
}

static hs_status by_threads(cg *c, const dot *t, LLVMValueRef half, LLVMValueRef k0, u32 nacc,
                            LLVMValueRef *acc) {
  LLVMValueRef steps = cg_ixc(c, t->d->depth);
  if (t->uneven) steps = cg_clip(c, false, steps, LLVMBuildNSWSub(c->b, t->to, k0, ""));
  HS_TRY(cg_open_loop(c, NEST_NONE, cg_ixc(c, 0), steps, 1, false, nacc, acc));
  HS_TRY(pairs(c, t, half, c->loops[c->open].phi, acc));
  if (nacc >= 64) gpu_of(c)->unroll = 2;  // more would not go into 128 registers
  (void)cg_close_loop(c, acc);
  return HS_GOOD;
}

// ---- tensor cores -------------------------------------------------------------------------------
typedef struct warp_at {
  LLVMValueRef lane, first[2];  // lane; where the warp's part of each edge begins
  u32 part[2];                  // elements of it
} warp_at;

static warp_at find_warp(cg *c, const dot *t) {
  const gpu_dot *d = t->d;
  LLVMValueRef no = gpu_of(c)->thread, warp = LLVMBuildUDiv(c->b, no, cg_ixc(c, GPU_WARP), ""),
               n = cg_ixc(c, d->warps[1]);
  warp_at a = {.lane = LLVMBuildURem(c->b, no, cg_ixc(c, GPU_WARP), "")};
  for (u32 w = 0; w < 2; w++) {
    a.part[w] = d->edge[w] / d->warps[w];
    a.first[w] = times(c, w ? LLVMBuildURem(c->b, warp, n, "") : LLVMBuildUDiv(c->b, warp, n, ""),
                       a.part[w]);
  }
  return a;
}

// Squares of side w at element `e` of the warp's part, `step` words of 16 bytes on: for rows two
// squares below each other, then the two behind them; for columns the other way round.
static void words(cg *c, const dot *t, const warp_at *a, u32 w, LLVMValueRef half, u32 e, u32 step,
                  u32 squares, LLVMValueRef *out) {
  const side *s = &t->s[w];
  u32 size = s->bytes[0], group = 16 / size;
  LLVMValueRef within = LLVMBuildURem(c->b, a->lane, cg_ixc(c, 8), ""),
               square = LLVMBuildUDiv(c->b, a->lane, cg_ixc(c, 8), "");
  LLVMValueRef odd = LLVMBuildURem(c->b, square, cg_ixc(c, 2), ""),
               high = LLVMBuildUDiv(c->b, square, cg_ixc(c, 2), "");
  if (squares == 2) high = cg_ixc(c, 0);
  LLVMValueRef edge = w ? high : odd, deep = w ? odd : high;
  // the element of the edge and the step that the lane's row begins at
  edge = add(c, add(c, a->first[w], cg_ixc(c, e)), times(c, edge, 8));
  deep = add(c, times(c, deep, group), cg_ixc(c, (i64)step * 2 * group));
  LLVMValueRef at = s->by_row ? place(c, t, w, 0, half, add(c, edge, within), deep)
                              : place(c, t, w, 0, half, add(c, deep, within), edge);
  gpu_of(c)->target->fragment(c, at, squares, !s->by_row, out);
}

static void by_unit(cg *c, const dot *t, const warp_at *at, LLVMValueRef half, LLVMValueRef *acc) {
  u32 nf = at->part[1] / 8, mf = at->part[0] / 16;
  LLVMValueRef a[4][4], b[4][2];
  for (u32 step = 0; step < 2; step++) {
    for (u32 i = 0; i < mf; i++) words(c, t, at, 0, half, i * 16, step, 4, a[i]);
    for (u32 j = 0; j < nf; j += 2) {
      LLVMValueRef two[4];
      u32 n = HS_MIN(nf - j, 2);
      words(c, t, at, 1, half, j * 8, step, 2 * n, two);
      for (u32 k = 0; k < 2 * n; k++) b[j + k / 2][k % 2] = two[k];
    }
    for (u32 i = 0; i < mf; i++)
      for (u32 j = 0; j < nf; j++)
        gpu_of(c)->target->multiply(c, t->d->unit, a[i], b[j], &acc[(i * nf + j) * 4]);
  }
}

// ---- rounds -------------------------------------------------------------------------------------
static hs_status bring(cg *c, const dot *t, LLVMValueRef k0, LLVMValueRef (*v)[MOST_VALUES]) {
  for (u32 w = 0; w < 2; w++) HS_TRY(fetch(c, t, w, k0, v[w]));
  return HS_GOOD;
}

static hs_status rounds(cg *c, const dot *t, const warp_at *at, u32 nacc, LLVMValueRef *acc) {
  LLVMValueRef v[2][MOST_VALUES], depth = cg_ixc(c, t->d->depth), one = cg_ixc(c, 1);
  bool several = t->least > (i64)t->d->depth;
  HS_TRY(bring(c, t, t->from, v));
  for (u32 w = 0; w < 2; w++) put(c, t, w, NULL, v[w]);
  HS_TRY(cg_open_loop(c, NEST_NONE, t->from, add(c, t->to, cg_ixc(c, (i64)t->d->depth - 1)),
                      t->d->depth, false, nacc, acc));
  LLVMValueRef k0 = c->loops[c->open].phi,
               half = LLVMBuildUDiv(c->b, LLVMBuildNSWSub(c->b, k0, t->from, ""), depth, "");
  half = LLVMBuildAnd(c->b, half, one, "");
  gpu_of(c)->target->barrier(c);
  if (several) HS_TRY(bring(c, t, add(c, k0, depth), v));
  if (t->d->unit) by_unit(c, t, at, half, acc);
  else HS_TRY(by_threads(c, t, half, k0, nacc, acc));
  for (u32 w = 0; w < 2 && several; w++) put(c, t, w, LLVMBuildXor(c->b, half, one, ""), v[w]);
  gpu_of(c)->unroll = 1;
  (void)cg_close_loop(c, acc);
  return HS_GOOD;
}

// The steps of the square, or of its part of them where the reduction is split.
static void find_steps(cg *c, dot *t) {
  const nest_group *g = t->g;
  i64 all = 1, n = cg_extent(c, g->loops[0]), each;
  for (u32 k = 0; k < g->nloops; k++) all *= cg_extent(c, g->loops[k]);
  each = all / n;
  t->from = cg_ixc(c, 0);
  t->to = cg_ixc(c, all);
  t->least = all;
  t->uneven = all % t->d->depth != 0;
  if (g->seg == NEST_NONE) return;
  LLVMValueRef part = c->loop_val[c->n->vars.v[g->seg].loop];
  t->from = times(c, part, g->seg_size * each);
  t->to = cg_clip(c, false, add(c, t->from, cg_ixc(c, g->seg_size * each)), cg_ixc(c, all));
  t->least = g->seg_size * each;
  t->uneven = n % g->seg_size != 0 || t->least % t->d->depth != 0;
}

// ---- stores -------------------------------------------------------------------------------------
// Sums of one row and `lanes` neighbouring columns, numbered in units of them in the square.
static hs_status finish(cg *c, const dot *t, LLVMValueRef row, LLVMValueRef column, u32 lanes,
                        const LLVMValueRef *sums) {
  const side *s = t->s;
  LLVMValueRef ok = NULL;
  row = add(c, row, times(c, s[0].tile, t->d->edge[0]));
  column = add(c, column, times(c, s[1].tile, t->d->edge[1] / lanes));
  if (s[0].size % t->d->edge[0])
    ok = LLVMBuildICmp(c->b, LLVMIntSLT, row, cg_ixc(c, s[0].size), "");
  if (s[1].size % t->d->edge[1])
    ok = cg_and_mask(c, ok,
                     LLVMBuildICmp(c->b, LLVMIntSLT, column, cg_ixc(c, s[1].size / lanes), ""));
  if (ok) HS_TRY(cg_open_if(c, ok));
  gpu_set_loops(c, row, s[0].nloops, s[0].loops, 0, 1);
  gpu_set_loops(c, column, s[1].nloops, s[1].loops, 0, lanes);
  if (lanes > 1) c->lane = 1ull << c->n->vars.v[s[1].loops[s[1].nloops - 1]].loop;
  c->W = lanes;
  for (u32 k = 0; k < t->g->nacc; k++) HS_TRY(remember(c, t->g->out[k], sums[k]));
  HS_TRY(cg_emit_stores(c));
  c->lane = 0;
  c->W = 1;
  if (ok) cg_close_if(c);
  gpu_unset_loops(c, s[0].nloops, s[0].loops, 0);
  gpu_unset_loops(c, s[1].nloops, s[1].loops, 0);
  cg_forget(c, CG_MAX_LEVELS, t->own);
  return HS_GOOD;
}

// `n` columns from `column` on, with sums at acc[k * apart], by as many at once as go together.
static hs_status finish_run(cg *c, const dot *t, LLVMValueRef row, LLVMValueRef column, u32 n,
                            const LLVMValueRef *acc, u32 apart) {
  u32 lanes = n, nacc = t->g->nacc;
  i64 last = cg_extent(c, t->s[1].loops[t->s[1].nloops - 1]);
  while (lanes > 1 && last % lanes) lanes /= 2;
  for (u32 j = 0; j < n; j += lanes) {
    LLVMValueRef sums[2], at = add(c, column, cg_ixc(c, j));
    for (u32 k = 0; k < nacc; k++) {
      sums[k] = acc[j * apart + k];
      if (lanes == 1) continue;
      LLVMValueRef v = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(sums[k]), lanes));
      for (u32 l = 0; l < lanes; l++)
        v = LLVMBuildInsertElement(c->b, v, acc[(j + l) * apart + k],
                                   LLVMConstInt(c->i32, l, false), "");
      sums[k] = v;
    }
    if (lanes > 1) at = LLVMBuildUDiv(c->b, at, cg_ixc(c, lanes), "");
    HS_TRY(finish(c, t, row, at, lanes, sums));
  }
  return HS_GOOD;
}

static hs_status store_threads(cg *c, const dot *t, const LLVMValueRef *acc) {
  u32 run = HS_MIN(t->d->each[1], 4), nacc = t->g->nacc;
  for (u32 i = 0; i < t->d->each[0]; i++)
    for (u32 j = 0; j < t->d->each[1]; j += run)
      HS_TRY(finish_run(c, t, element(c, t, 0, i), element(c, t, 1, j), run,
                        &acc[(i * t->d->each[1] + j) * nacc], nacc));
  return HS_GOOD;
}

static hs_status store_warps(cg *c, const dot *t, const warp_at *at, const LLVMValueRef *acc) {
  u32 nf = at->part[1] / 8, mf = at->part[0] / 16;
  LLVMValueRef four = cg_ixc(c, 4),
               row = add(c, at->first[0], LLVMBuildUDiv(c->b, at->lane, four, "")),
               column = add(c, at->first[1], times(c, LLVMBuildURem(c->b, at->lane, four, ""), 2));
  for (u32 i = 0; i < mf; i++)
    for (u32 j = 0; j < nf; j++)
      for (u32 h = 0; h < 2; h++)
        HS_TRY(finish_run(c, t, add(c, row, cg_ixc(c, i * 16 + h * 8)),
                          add(c, column, cg_ixc(c, j * 8)), 2, &acc[(i * nf + j) * 4 + h * 2], 1));
  return HS_GOOD;
}

// ---- squares ------------------------------------------------------------------------------------
static hs_status start(cg *c, const dot *t, u32 n, LLVMValueRef *acc) {
  LLVMValueRef *p;
  for (u32 k = 0; k < t->g->nacc; k++) {
    hlo_dtype type = c->n->nodes.v[t->g->acc[k]].dtype;
    LLVMTypeRef r = cg_rep(c, type);
    LLVMValueRef v = hlo_dtype_is_float(type) ? cg_fp(r, -0.0) : LLVMConstNull(r);
    // parts of a sum are added up by another launch, which has what it starts from
    if (t->g->seg == NEST_NONE || t->g->monoid != HLO_ADD) {
      NODE(c, t->g->init[k], &p);
      v = p[0];
    }
    for (u32 e = k; e < n; e += t->g->nacc) acc[e] = v;
  }
  cg_at_level(c, c->open);
  return HS_GOOD;
}

static hs_status square(cg *c, dot *t, LLVMValueRef no) {
  const gpu_dot *d = t->d;
  LLVMValueRef acc[MOST_VALUES];
  u32 nacc = d->edge[0] * d->edge[1] / THREADS * t->g->nacc;
  warp_at at = {0};
  HS_REQUIRE(nacc <= MOST_VALUES);
  for (u32 w = 2; w-- > 0;) {
    i64 n = (t->s[w].size + d->edge[w] - 1) / d->edge[w];
    t->s[w].tile = LLVMBuildURem(c->b, no, cg_ixc(c, n), "");
    no = LLVMBuildUDiv(c->b, no, cg_ixc(c, n), "");
  }
  gpu_set_loops(c, no, t->st->nloops, t->st->loops, t->own, 1);
  find_steps(c, t);
  if (d->unit) at = find_warp(c, t);
  HS_TRY(start(c, t, nacc, acc));
  HS_TRY(rounds(c, t, &at, nacc, acc));
  return d->unit ? store_warps(c, t, &at, acc) : store_threads(c, t, acc);
}

hs_status gpu_squares(cg *c, const nest_stage *st, const gpu_stage *s) {
  gpu_code *g = gpu_of(c);
  dot t = {.d = s->dot, .st = st, .g = &c->n->groups.v[s->dot->group]};
  t.own = t.d->side[0] | t.d->side[1];
  t.steps = t.g->mask;
  HS_REQUIRE(g->phase->block == THREADS);
  for (u32 w = 0; w < 2; w++) measure(c, &t, w);
  make_arrays(c, &t);
  bool loop = s->grid < s->items;
  if (loop) {
    HS_TRY(cg_open_loop(c, NEST_NONE, g->block, cg_ixc(c, s->items + s->grid - 1), s->grid, true, 0,
                        NULL));
    g->target->barrier(c);  // the last square has been read
  }
  HS_TRY(square(c, &t, loop ? c->loops[c->open].phi : g->block));
  if (loop) (void)cg_close_loop(c, NULL);
  gpu_unset_loops(c, st->nloops, st->loops, 0);
  return HS_GOOD;
}
