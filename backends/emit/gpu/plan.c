// plan.c — chooses the schedule of a kernel for a GPU.
//
// Stages without reductions run a thread per point, or per 16 bytes of points; where a load goes
// along another loop than the stores, in square tiles. Reductions that other points of the stage
// need (softmax, norms), or whose elements lie one after the other in memory, get a team of threads
// per row; every other reduction is done by the thread of its point, so that neighbouring threads
// read neighbouring columns, or where there are few columns by a team from different warps. Where
// that leaves the GPU empty, the reduction is split and finished in a second launch (split.c). What
// needs a fixed order is done by each thread alone.
//
// The numbers are those of a large GPU (about 130 multiprocessors of 2048 threads); they decide
// about speed alone, but as the order of sums follows from them they must not depend on the device.
#include "backends/emit/gpu/plan.h"

enum {
  BLOCK = 256,            // threads where nothing else asks for more
  MOST_BLOCKS = 1 << 16,  // of a launch; more items are run by its threads in turn
  ALL_THREADS = 135168,   // half of what the GPU holds: fewer leave memory idle
  ALL_BLOCKS = 528,
  PART_OF_ROW = 4096,  // elements of a part of a split row
  PART_OF_COLUMN = 128,
  FEW_STEPS = 16  // of a reduction that each thread does alone
};

typedef struct survey {
  const nest *n;
  u8 *seen, *roots;  // by node, by group
  u32 widest;        // bytes of the widest element in memory
  bool groups;
} survey;

static i64 extent(const nest *n, u32 var) { return n->vars.v[var].hi + 1; }
static u64 bit_of(const nest *n, u32 var) { return 1ull << n->vars.v[var].loop; }

static u64 mask_of(const nest *n, u32 k, const u32 *loops) {
  u64 m = 0;
  for (u32 l = 0; l < k; l++) m |= bit_of(n, loops[l]);
  return m;
}

static i64 product(const nest *n, u32 k, const u32 *loops, u64 mask) {
  i64 p = 1;
  for (u32 l = 0; l < k; l++)
    if (mask & bit_of(n, loops[l]) && !hs_mul_ok(p, extent(n, loops[l]), &p)) return INT64_MAX;
  return p;
}

// ---- what a stage consists of -------------------------------------------------------------------
static void visit(survey *s, u32 id);

static void visit_expr(survey *s, const nest_expr *e) {
  for (u32 k = 0; e && k < e->n; k++) {
    const nest_var *v = &s->n->vars.v[e->t[k].var];
    if (v->kind == NEST_VALUE) visit(s, v->node);
    if (v->kind == NEST_DIV || v->kind == NEST_MOD) visit_expr(s, v->e);
  }
}

static void visit_group(survey *s, u32 root) {
  s->groups = true;
  if (s->roots[root]) return;
  s->roots[root] = 1;
  for (size_t k = 0; k < s->n->groups.n; k++) {
    const nest_group *g = &s->n->groups.v[k];
    if (g->merged_into != root) continue;
    visit(s, g->cond);
    if (g->from) visit(s, g->from - 1), visit(s, g->to - 1);
    for (u32 a = 0; a < g->nacc; a++) visit(s, g->in[a]), visit(s, g->init[a]);
  }
}

static void visit(survey *s, u32 id) {
  if (id == NEST_NONE || s->seen[id]) return;
  s->seen[id] = 1;
  const nest_node *x = &s->n->nodes.v[id];
  if (x->kind == NEST_LOAD) {
    s->widest = HS_MAX(s->widest, (u32)hlo_dtype_storage(x->dtype));
    visit(s, x->guard);
  }
  visit_expr(s, x->e);
  for (u32 k = 0; k < x->nargs; k++) visit(s, x->args[k]);
  if (x->kind == NEST_REDUCE) visit_group(s, s->n->groups.v[x->group].merged_into);
}

static void survey_stage(survey *s, const nest *n, const nest_stage *st) {
  *s = (survey){.n = n, .widest = 1};
  s->seen = hs_calloc(n->nodes.n + n->groups.n + 1, 1);
  s->roots = s->seen + n->nodes.n;
  for (size_t k = 0; k < st->stores.n; k++) {
    const nest_store *w = &st->stores.v[k];
    s->widest = HS_MAX(s->widest, (u32)hlo_dtype_storage(n->bufs.v[w->buf].dtype));
    visit(s, w->node);
    visit_expr(s, w->e);
  }
}

// ---- reductions ---------------------------------------------------------------------------------
u64 gpu_group_deps(const nest *n, u32 root) {
  u64 deps = 0;
  for (size_t k = 0; k < n->groups.n; k++)
    for (u32 a = 0; n->groups.v[k].merged_into == root && a < n->groups.v[k].nacc; a++)
      deps |= n->nodes.v[n->groups.v[k].out[a]].deps;
  return deps;
}

static i64 steps_of(const nest *n, u32 root) {
  const nest_group *g = &n->groups.v[root];
  i64 all = product(n, g->nloops, g->loops, ~0ull);
  if (g->seg == NEST_NONE || g->nloops == 0) return all;
  return all / extent(n, g->loops[0]) * HS_MIN(g->seg_size, extent(n, g->loops[0]));
}

static bool any_order(const nest *n, u32 root) {
  if (n->groups.v[root].nloops == 0) return false;
  for (size_t k = 0; k < n->groups.n; k++)
    if (n->groups.v[k].merged_into == root && !n->groups.v[k].free_order) return false;
  return true;
}

bool gpu_team_shares(const nest *n, const gpu_stage *s, u32 root, u64 deps) {
  return s->form == GPU_ROWS && s->team > 1 && !(deps & ~s->rows) && any_order(n, root) &&
         steps_of(n, root) >= FEW_STEPS;
}

// Whether the expression has stride -1, 0 or 1 along the loop, and no atom depends on it.
static bool unit_in(const nest *n, const nest_expr *e, u32 var) {
  i64 c = nest_coef(e, var);
  for (u32 k = 0; k < e->n; k++) {
    const nest_var *v = &n->vars.v[e->t[k].var];
    u64 deps = v->kind == NEST_VALUE  ? n->nodes.v[v->node].deps
               : v->kind == NEST_LOOP ? 0
                                      : nest_deps(n, v->e);
    if (deps & bit_of(n, var)) return false;
  }
  return c >= -1 && c <= 1;
}

// Whether the elements of the reduction lie along its own last loop rather than along the stage's.
static bool lies_in_rows(const survey *s, const nest_stage *st, u32 root) {
  const nest *n = s->n;
  const nest_group *g = &n->groups.v[root];
  if (st->nloops == (st->is_split ? 1 : 0)) return true;
  u32 own = g->loops[g->nloops - 1], last = st->loops[st->nloops - 1];
  bool across = false, along = false, neither = true;
  for (size_t k = 0; k < n->nodes.n; k++) {
    const nest_node *x = &n->nodes.v[k];
    if (!s->seen[k] || x->kind != NEST_LOAD || !(x->deps & g->mask)) continue;
    bool unit = unit_in(n, x->e, own) && nest_coef(x->e, own), lane = unit_in(n, x->e, last);
    across |= !lane;
    along |= unit;
    neither &= !unit && !(lane && nest_coef(x->e, last));
  }
  return (across && along) ||
         (neither && product(n, st->nloops, st->loops, ~0ull) < 32768 && steps_of(n, root) >= 256);
}

// The loops that number the rows of a stage with reductions; false: a thread per point.
static bool find_rows(const survey *s, const nest_stage *st, u64 *rows) {
  const nest *n = s->n;
  u64 full = mask_of(n, st->nloops, st->loops), shared = 0, alone = 0, most_deps = 0;
  i64 most = 0;
  bool whole = false, any_shared = false, any_alone = false;
  for (u32 k = 0; k < n->groups.n; k++) {
    if (!s->roots[k]) continue;
    u64 deps = gpu_group_deps(n, k);
    if (deps & ~full) continue;  // inside of another reduction
    bool team = any_order(n, k) && steps_of(n, k) >= FEW_STEPS;
    if (deps == full) {
      whole |= team && lies_in_rows(s, st, k);
      continue;
    }
    if (steps_of(n, k) < FEW_STEPS) continue;
    *(team ? &shared : &alone) |= deps;
    *(team ? &any_shared : &any_alone) = true;
    if (steps_of(n, k) > most) most = steps_of(n, k), most_deps = deps;
  }
  *rows = any_shared ? shared : any_alone ? alone : full;
  if ((any_shared || any_alone) && *rows == full) *rows = most_deps;
  return any_shared || any_alone || whole;
}

// ---- tiles --------------------------------------------------------------------------------------
static bool only_loops(const nest *n, const nest_expr *e) {
  for (u32 k = 0; k < e->n; k++)
    if (n->vars.v[e->t[k].var].kind != NEST_LOOP) return false;
  return true;
}

bool gpu_tile_holds(const nest *n, const nest_stage *st, const gpu_stage *s, const nest_node *x) {
  if (s->form != GPU_TILES || x->kind != NEST_LOAD || x->guard != NEST_NONE) return false;
  i64 c = nest_coef(x->e, st->loops[st->nloops - 1]);
  return (c < -1 || c > 1) && nest_coef(x->e, st->loops[s->tile]) == 1 && only_loops(n, x->e);
}

// Finds a loop along which a load runs while the stores run along the last one.
static bool find_tile(const survey *s, const nest_stage *st, gpu_stage *g) {
  const nest *n = s->n;
  if (st->nloops < 2 || extent(n, st->loops[st->nloops - 1]) < 16) return false;
  g->form = GPU_TILES;
  g->edge = s->widest <= 2 ? 64 : 32;
  for (g->tile = 0; g->tile + 1 < st->nloops; g->tile++) {
    u32 held = 0;
    if (extent(n, st->loops[g->tile]) < 16) continue;
    for (size_t k = 0; k < n->nodes.n; k++)
      if (s->seen[k] && gpu_tile_holds(n, st, g, &n->nodes.v[k]))
        held += (g->edge + 4) * g->edge * (u32)hlo_dtype_storage(n->nodes.v[k].dtype);
    if (held && held <= GPU_SHARED_BYTES) return true;
  }
  g->form = GPU_POINTS;
  return false;
}

// ---- lanes, teams and blocks --------------------------------------------------------------------
static u32 halved(u32 lanes, i64 n) {
  while (lanes > 1 && n % (i64)lanes) lanes /= 2;
  return lanes;
}

static void points_of(const survey *s, const nest_stage *st, gpu_stage *g) {
  const nest *n = s->n;
  i64 points = product(n, st->nloops, st->loops, ~0ull);
  u32 last = st->nloops ? st->loops[st->nloops - 1] : 0;
  g->lanes = st->nloops > (st->is_split ? 1u : 0u) ? HS_MAX(16 / s->widest, 1) : 1;
  for (size_t k = 0; k < st->stores.n && g->lanes > 1; k++)
    if (!unit_in(n, st->stores.v[k].e, last) || nest_coef(st->stores.v[k].e, last) != 1)
      g->lanes = 1;
  if (s->groups) g->lanes = HS_MIN(g->lanes, 4);
  for (u32 k = 0; k < n->groups.n && g->lanes > 1; k++) {  // all lanes have the same steps
    const nest_group *r = &n->groups.v[k];
    u64 deps = r->from ? n->nodes.v[r->from - 1].deps | n->nodes.v[r->to - 1].deps : 0;
    if (s->roots[k] && (deps & bit_of(n, last))) g->lanes = 1;
  }
  if (g->lanes > 1) g->lanes = halved(g->lanes, extent(n, last));
  while (g->lanes > 1 && points / g->lanes < (s->groups ? ALL_THREADS / 2 : 16384)) g->lanes /= 2;
  g->items = points / g->lanes;
}

// Few columns: as many threads side by side as a warp has, and teams of what a block has of those.
static bool find_columns(const survey *s, const nest_stage *st, gpu_stage *g) {
  const nest *n = s->n;
  i64 points = product(n, st->nloops, st->loops, ~0ull);
  u64 full = mask_of(n, st->nloops, st->loops);
  u32 roots = 0;
  if (points >= ALL_THREADS) return false;
  for (u32 k = 0; k < n->groups.n; k++) {
    if (!s->roots[k]) continue;
    if (!any_order(n, k) || steps_of(n, k) < 4 * FEW_STEPS || gpu_group_deps(n, k) != full)
      return false;
    roots++;
  }
  if (roots != 1) return false;
  for (g->across = 4; g->across < GPU_WARP && (i64)g->across < points;) g->across *= 2;
  g->form = GPU_ROWS;
  g->rows = full;
  g->lanes = 1;
  g->team = BLOCK / g->across;
  g->items = points;
  return true;
}

// Threads and lanes of the teams; *block: the threads that it wants in a block.
static void team_of(const survey *s, const nest_stage *st, gpu_stage *g, u32 *block) {
  const nest *n = s->n;
  i64 steps = 1;
  u32 last = st->nloops ? st->loops[st->nloops - 1] : 0;
  u64 full = mask_of(n, st->nloops, st->loops);
  g->lanes = HS_MAX(16 / s->widest, 1);
  g->team = GPU_WARP;  // as many as it takes for reductions to be shared
  for (u32 k = 0; k < n->groups.n; k++) {
    if (!s->roots[k] || !gpu_team_shares(n, g, k, gpu_group_deps(n, k))) continue;
    const nest_group *r = &n->groups.v[k];
    steps = HS_MAX(steps, steps_of(n, k));
    g->lanes = halved(g->lanes, extent(n, r->loops[r->nloops - 1]));
    if (r->from) g->lanes = 1;
    if (r->seg != NEST_NONE && r->nloops == 1) g->lanes = halved(g->lanes, r->seg_size);
  }
  if (full & ~g->rows) {
    steps = HS_MAX(steps, product(n, st->nloops, st->loops, full & ~g->rows));
    g->lanes = g->rows & bit_of(n, last) ? 1 : halved(g->lanes, extent(n, last));
  }
  steps /= (i64)g->lanes;
  g->items = product(n, st->nloops, st->loops, g->rows);
  i64 spread = ALL_THREADS / HS_MAX(g->items, 1);  // threads for a row when there are few
  g->team = 4;
  while (g->team < GPU_WARP && (i64)g->team < steps) g->team *= 2;
  if (steps > 8 * GPU_WARP || (steps > GPU_WARP && spread > GPU_WARP)) {
    i64 want = HS_MAX(steps / 4, HS_MIN(steps, spread));
    for (g->team = 2 * GPU_WARP; g->team < 512 && (i64)g->team < want;) g->team *= 2;
    *block = g->team;
  }
}

// A team for each segment of a prefix reduction; along memory four elements for each thread.
static void scan_of(const nest *n, const nest_stage *st, gpu_stage *g) {
  u32 last = st->loops[st->nloops - 1];
  bool along = false;
  for (size_t k = 0; k < st->stores.n; k++) {
    i64 c = nest_coef(st->stores.v[k].e, last);
    along |= c >= -2 && c <= 2;
  }
  g->form = GPU_ROWS;
  g->rows = mask_of(n, st->nloops - 1, st->loops);
  g->items = product(n, st->nloops, st->loops, g->rows);
  g->team = 1;
  if (along)
    for (g->team = GPU_WARP; g->team < BLOCK && (i64)g->team * 4 < extent(n, last);) g->team *= 2;
}

// The only reduction that the stage needs; NEST_NONE: there are others, or none.
static u32 only_reduction(const survey *s) {
  u32 root = NEST_NONE;
  for (u32 k = 0; k < s->n->groups.n; k++) {
    if (!s->roots[k]) continue;
    if (root != NEST_NONE) return NEST_NONE;
    root = k;
  }
  return root;
}

// alone: no other stage has threads of the launch.
static void plan_stage(nest *n, const nest_stage *st, u32 sm, bool alone, gpu_stage *g,
                       u32 *block) {
  survey s;
  survey_stage(&s, n, st);
  *g = (gpu_stage){.form = GPU_POINTS, .lanes = 1, .team = 1, .tile = NEST_NONE};
  *block = BLOCK;
  u32 root = alone ? only_reduction(&s) : NEST_NONE;
  if (st->scan) {
    scan_of(n, st, g);
  } else if (root != NEST_NONE && gpu_find_dot(n, st, root, sm, g)) {
    *block = BLOCK;
  } else if (s.groups && find_rows(&s, st, &g->rows)) {
    g->form = GPU_ROWS;
    team_of(&s, st, g, block);
  } else if (s.groups && find_columns(&s, st, g)) {
    *block = BLOCK;
  } else if (!s.groups && find_tile(&s, st, g)) {
    g->items = 1;
    for (u32 k = 0; k < st->nloops; k++) {
      i64 e = extent(n, st->loops[k]);
      g->items *= k == g->tile || k + 1 == st->nloops ? (e + g->edge - 1) / g->edge : e;
    }
  } else points_of(&s, st, g);
  hs_free(s.seen);
}

static bool only_loops_and_digits(const nest *n, const nest_expr *e) {
  for (u32 k = 0; k < e->n; k++) {
    const nest_var *v = &n->vars.v[e->t[k].var];
    if (v->kind == NEST_VALUE || (v->e && !only_loops_and_digits(n, v->e))) return false;
  }
  return true;
}

// ---- splits and row buffers ---------------------------------------------------------------------
// How many parts the reduction of the stage should have; 1: it stays whole.
static i64 splits_wanted(nest *n, const nest_stage *st, u32 sm) {
  survey s;
  gpu_stage g;
  u32 block;
  survey_stage(&s, n, st);
  u32 root = only_reduction(&s);
  hs_free(s.seen);
  for (size_t k = 0; k < st->stores.n; k++)
    if (!only_loops_and_digits(n, st->stores.v[k].e)) return 1;  // a place that it computes
  if (root == NEST_NONE || !any_order(n, root) || n->groups.v[root].seg != NEST_NONE ||
      gpu_group_deps(n, root) != mask_of(n, st->nloops, st->loops))
    return 1;
  plan_stage(n, st, sm, true, &g, &block);
  i64 steps = steps_of(n, root), points = product(n, st->nloops, st->loops, ~0ull), want;
  if (g.form == GPU_DOT) want = gpu_dot_splits(n, &g);
  else if (g.across)
    want = HS_MIN(ALL_THREADS / (HS_MAX(points, g.across) * g.team), steps / g.team / 16);
  else if (g.form == GPU_ROWS) want = HS_MIN(ALL_BLOCKS / HS_MAX(points, 1), steps / PART_OF_ROW);
  else want = HS_MIN(ALL_THREADS / HS_MAX(points, 1), steps / PART_OF_COLUMN);
  i64 all = extent(n, n->groups.v[root].loops[0]);
  want = HS_MIN(want, all);
  // parts of whole vectors, where there are some
  for (i64 k = want; k >= 2 && k > want / 2; k--)
    if ((all + k - 1) / k % 16 == 0) return k;
  return want;
}

// Whether teams share all reductions that values along the row are compared between.
static bool shares_all(const nest *n, const nest_stage *st, const gpu_stage *g) {
  survey s;
  bool all = g->form == GPU_ROWS && !st->scan;
  survey_stage(&s, n, st);
  for (u32 k = 0; k < n->groups.n; k++)
    if (s.roots[k] && !gpu_team_shares(n, g, k, gpu_group_deps(n, k))) all = false;
  hs_free(s.seen);
  return all;
}

// Whether each thread reads of the operand what it is about to store in its place, nothing else.
static bool reads_own_places(const nest *n, const nest_stage *st, int in, int out) {
  const nest_buf *to = &n->bufs.v[st->stores.v[0].buf];
  if (st->stores.n != 1 || to->arg != out) return false;
  for (size_t k = 0; k < n->nodes.n; k++) {
    const nest_node *x = &n->nodes.v[k];
    if (x->kind == NEST_LOAD && n->bufs.v[x->buf].arg == in &&
        (x->guard != NEST_NONE || x->e != st->stores.v[0].e || x->dtype != to->dtype))
      return false;
  }
  return true;
}

bool gpu_plan_in_place(const nest *n, const gpu_phase phases[2], int in, int out) {
  const gpu_phase *p = &phases[0];
  const gpu_stage *s = &p->stages[0];
  if (p->nstages != 1 || phases[1].nstages || n->updates.n) return false;
  if (n->order) return s->form == GPU_POINTS && reads_own_places(n, &p->of[0], in, out);
  return !s->across && shares_all(n, &p->of[0], s) && nest_row_in_place(n, in, out);
}

// ---- a launch -----------------------------------------------------------------------------------
static void plan_phase(nest *n, u32 sm, size_t count, nest_stage *of, bool keep, gpu_phase *p) {
  *p = (gpu_phase){.nstages = count, .of = of};
  p->stages = hs_arena_zalloc(n->a, (count + 1) * sizeof *p->stages);
  u32 block = 0;
  for (size_t k = 0; k < count; k++) {
    u32 wanted;
    of[k].vector = false;
    of[k].tile = NEST_NONE;
    of[k].lanes = of[k].unroll = 1;
    plan_stage(n, &of[k], sm, count == 1, &p->stages[k], &wanted);
    block = HS_MAX(block, wanted);
  }
  if (count == 1 && p->stages[0].form == GPU_ROWS && p->stages[0].team > GPU_WARP &&
      !p->stages[0].across && !of[0].scan)
    block = p->stages[0].team;
  p->block = count ? block : 0;
  for (size_t k = 0; k < count; k++) {
    gpu_stage *g = &p->stages[k];
    if (g->across) g->team = block / g->across;
    else if (g->form == GPU_ROWS && g->team > GPU_WARP && !of[k].scan) g->team = block;
    i64 per = g->form == GPU_POINTS ? (i64)block : g->form == GPU_ROWS ? (i64)(block / g->team) : 1;
    g->first = p->grid;
    g->grid = (u32)HS_MIN((g->items + per - 1) / per, (i64)MOST_BLOCKS);
    p->grid += g->grid;
    if (keep && shares_all(n, &of[k], g))
      nest_keep_rows(n, &of[k], &(nest_row_room){.each = GPU_SHARED_BYTES / per});
  }
}

static emit_kind stage_kind(const nest *n, const gpu_phase *p, size_t k) {
  const gpu_stage *g = &p->stages[k];
  survey s;
  survey_stage(&s, n, &p->of[k]);
  bool groups = s.groups;
  hs_free(s.seen);
  if (p->of[k].scan) return EMIT_ROW_WISE;
  if (g->form == GPU_TILES) return EMIT_TRANSPOSE;
  if (g->form == GPU_DOT) return EMIT_PRODUCT;
  if (g->form == GPU_POINTS || g->across) return groups ? EMIT_COLUMN_REDUCE : EMIT_POINTWISE;
  return mask_of(n, p->of[k].nloops, p->of[k].loops) & ~g->rows ? EMIT_ROW_WISE : EMIT_ROW_REDUCE;
}

// ---- orders -------------------------------------------------------------------------------------
u32 gpu_order_log(i64 n) {
  u32 k = 0;
  while (k < 62 && (1ll << k) < n) k++;
  return k;
}

static u32 digits_of(const nest_order *o) {
  return (o->key_bits + GPU_ORDER_BITS - 1) / GPU_ORDER_BITS;
}

// Microseconds of both ways: launches, and bytes of memory at what a large GPU moves. A number read
// from anywhere costs a sector.
static void price_order(const nest *n, gpu_order *p) {
  const double launch_us = 2, bytes_in_us = 3e6, sector = 32;
  const nest_order *o = n->order;
  double all = (double)p->rows * (double)p->size;
  u32 tile = gpu_order_log(p->tile), row = gpu_order_log(p->size), launches = 1;
  for (u32 s = tile + 1; s <= row; s++) launches += s - tile + 1;
  p->network_us = launches * (launch_us + 2 * all * p->bytes / bytes_in_us);
  if (!o->key_bits) return;
  double key = (double)hlo_dtype_storage(n->nodes.v[o->key.next[0]].dtype), from = 4,
         digits = digits_of(o), values = (double)o->stage.stores.n;
  double moved = p->bytes + key + from                 // keys are made
                 + digits * (key + 2 * (key + from)),  // counted and moved
      fetched = from + values * sector + p->bytes;     // of elements
  // a block for each digit of a row, so many at once, each as long as a launch
  double waves = (double)p->rows * (1 << GPU_ORDER_BITS) / (2 * ALL_BLOCKS);
  p->digits_us = (2 + 3 * digits + digits * waves) * launch_us +
                 (all * moved + (double)p->rows * (double)p->wanted * fetched) / bytes_in_us;
}

gpu_order gpu_plan_order(const nest *n) {
  const nest_order *o = n->order;
  gpu_order p = {0};
  if (!o) return p;
  p.rows = 1;
  p.size = extent(n, o->along);
  p.wanted = o->wanted ? o->wanted : p.size;
  for (u32 k = 0; k < o->stage.nloops; k++)
    if (o->stage.loops[k] != o->along) p.rows *= extent(n, o->stage.loops[k]);
  p.bytes = o->unique ? 0 : 4;
  for (size_t k = 0; k < o->stage.stores.n; k++)
    p.bytes += (u32)hlo_dtype_storage(n->nodes.v[o->stage.stores.v[k].node].dtype) <= 2
                   ? 4
                   : (u32)hlo_dtype_storage(n->nodes.v[o->stage.stores.v[k].node].dtype);
  u32 most = 2048;
  while (most * p.bytes > GPU_SHARED_BYTES) most /= 2;
  p.several = p.size > (i64)most;
  p.tile = p.several ? most : 1u << gpu_order_log(p.size);
  p.each = HS_MAX(HS_MIN(most, 2 * GPU_ORDER_THREADS) / p.tile, 1);
  if (p.several) price_order(n, &p);
  if (o->counts != NEST_NONE) p.digits = digits_of(o);
  return p;
}

// A row of several tiles is put in order by the digits of its keys where that is estimated faster.
static void plan_digits(nest *n) {
  nest_order *o = n->order;
  gpu_order p = gpu_plan_order(n);
  if (p.digits_us == 0 || p.digits_us >= p.network_us) return;
  i64 all = p.rows * p.size, bins = p.rows << GPU_ORDER_BITS,
      tiles = (p.size + GPU_ORDER_TILE_OF_DIGITS - 1) / GPU_ORDER_TILE_OF_DIGITS;
  for (u32 k = 0; k < 2; k++) {
    o->keys[k] = nest_scratch(n, n->nodes.v[o->key.next[0]].dtype, all);
    o->from[k] = k == 0 && o->places != NEST_NONE ? o->places : nest_scratch(n, HLO_U32, all);
  }
  o->counts = nest_scratch(n, HLO_U32, bins * tiles);
  o->totals = nest_scratch(n, HLO_U32, bins);
}

void gpu_plan(nest *n, u32 sm, gpu_phase phases[2]) {
  for (size_t k = 0; k < n->stages.n; k++) n->stages.v[k].vector = false;
  if (n->order) plan_digits(n);
  if (n->stages.n == 1 && n->finish.n == 0 && !n->stages.v[0].scan && !n->order) {
    i64 splits = splits_wanted(n, &n->stages.v[0], sm);
    if (splits >= 2) (void)nest_split_reduction(n, 0, splits, 0);
  }
  plan_phase(n, sm, n->stages.n, n->stages.v, n->stages.n == 1, &phases[0]);
  plan_phase(n, sm, n->finish.n, n->finish.v, false, &phases[1]);
  for (u32 p = 0; p < 2; p++)
    for (size_t k = 0; k < phases[p].nstages; k++)
      phases[p].of[k].kind = stage_kind(n, &phases[p], k);
}

static bool expr_fits(const nest *n, const nest_expr *e, i64 factor) {
  i64 sum = e->c < 0 ? -e->c : e->c;
  for (u32 k = 0; k < e->n; k++) {
    const nest_var *v = &n->vars.v[e->t[k].var];
    i64 c = e->t[k].coef < 0 ? -e->t[k].coef : e->t[k].coef, most = HS_MAX(v->hi, -v->lo), t;
    if (!hs_mul_ok(c, most, &t) || c > INT32_MAX || most > INT32_MAX) return false;
    if (sum > INT32_MAX - HS_MIN(t, (i64)INT32_MAX)) return false;
    sum += t;
    if ((v->kind == NEST_DIV || v->kind == NEST_MOD) &&
        (v->d > INT32_MAX || !expr_fits(n, v->e, factor)))
      return false;
  }
  return true;
}

static bool order_fits(const nest *n) {
  gpu_order o = gpu_plan_order(n);
  if (!o.rows) return true;
  for (size_t k = 0; k < n->order->stage.stores.n; k++)
    if (!expr_fits(n, n->order->stage.stores.v[k].e, 1)) return false;
  return o.rows * (1ll << gpu_order_log(o.size)) < INT32_MAX / 2 &&
         n->order->limits < INT32_MAX / 2;
}

bool gpu_plan_fits32(const nest *n, const gpu_phase phases[2]) {
  if (!order_fits(n)) return false;
  for (size_t k = 0; k < n->nodes.n; k++) {
    const nest_node *x = &n->nodes.v[k];
    if (x->e && !expr_fits(n, x->e, 1)) return false;
    if (x->kind == NEST_GUARD && (x->lo < INT32_MIN || x->hi > INT32_MAX)) return false;
  }
  // steps and their strides; twice, so that none wraps around behind the last
  for (size_t k = 0; k < n->groups.n; k++)
    if (product(n, n->groups.v[k].nloops, n->groups.v[k].loops, ~0ull) > INT32_MAX / 2)
      return false;
  for (u32 p = 0; p < 2; p++)
    for (size_t k = 0; k < phases[p].nstages; k++) {
      const nest_stage *st = &phases[p].of[k];
      if (product(n, st->nloops, st->loops, ~0ull) > INT32_MAX / 2) return false;
      for (size_t w = 0; w < st->stores.n; w++)
        if (!expr_fits(n, st->stores.v[w].e, 1)) return false;
    }
  return true;
}

// ---- what people see ----------------------------------------------------------------------------
emit_kind gpu_plan_kind(const nest *n, const gpu_phase phases[2]) {
  return n->order                 ? EMIT_ORDER
         : phases[0].nstages == 0 ? EMIT_EMPTY
         : phases[0].nstages == 1 ? phases[0].of[0].kind
                                  : EMIT_SEVERAL;
}

void gpu_plan_print(const nest *n, const gpu_phase phases[2], hs_buf *b) {
  if (n->order) {
    gpu_order o = gpu_plan_order(n);
    hs_buf_printf(b, "first: %lld rows of %lld put in order, ", (long long)o.rows,
                  (long long)o.size);
    if (o.digits) hs_buf_printf(b, "by %u digits of keys of %u bits", o.digits, n->order->key_bits);
    else hs_buf_printf(b, "in tiles of %u", o.tile);
    if (o.several) hs_buf_printf(b, "; network %.3g us", o.network_us);
    if (o.digits_us > 0) hs_buf_printf(b, ", digits %.3g us (estimated)", o.digits_us);
    hs_buf_putc(b, '\n');
  }
  static const char *const forms[] = {"a thread per item", "teams", "tiles", "squares"};
  for (u32 p = 0; p < 2; p++)
    for (size_t k = 0; k < phases[p].nstages; k++) {
      const gpu_stage *g = &phases[p].stages[k];
      hs_buf_printf(b, "%s %zu: %s, %s, %lld items of %u, %u blocks of %u", p ? "finish" : "launch",
                    k, emit_kind_name(phases[p].of[k].kind), forms[g->form], (long long)g->items,
                    g->lanes, g->grid, phases[p].block);
      if (g->form == GPU_ROWS)
        hs_buf_printf(b, ", %u threads a %s", g->team, g->across ? "column" : "row");
      if (g->form == GPU_TILES)
        hs_buf_printf(b, ", %u x %u along i%u", g->edge, g->edge,
                      n->vars.v[phases[p].of[k].loops[g->tile]].loop);
      if (g->form == GPU_DOT)
        hs_buf_printf(b, ", %u x %u by %u steps, %s%s", g->dot->edge[0], g->dot->edge[1],
                      g->dot->depth, g->dot->unit ? "tensor cores: " : "multiplied by threads",
                      g->dot->unit ? hlo_dtype_text(g->dot->unit->type) : "");
      hs_buf_putc(b, '\n');
    }
  nest_print(n, b);
}
