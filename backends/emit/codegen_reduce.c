// codegen_reduce.c — reductions: a loop over the reduced dims that carries accumulators.
//
// Three forms. Scalar: one accumulator per result. Column: the lane loop of the stage runs around
// the reduction, and each lane has a result of its own. Row: the innermost reduced loop runs in
// lanes, each lane holds a partial result, and the lanes are folded by the reducer after the loop;
// only reducers that may take their elements in any order (free_order) get it. Masked lanes, and
// steps whose condition is false, leave the accumulator as it is.
//
// The reducer's nodes are a template over ACC and ELEM, inlined for each application. Groups that
// share their loops (merged_into) are emitted together. The code stands at the level of the
// results, in front of the loops that they do not depend on.
#include "backends/emit/codegen.h"

// ---- reductions ---------------------------------------------------------------------------------
// The value of a reducer's node in one application; c->tacc and c->telem are its operands.
static hs_status emit_template(cg *c, u32 id, LLVMValueRef *out) {
  const nest_node *x = &c->n->nodes.v[id];
  LLVMValueRef a[3];
  if (!x->templ) {
    LLVMValueRef *p;
    u32 home = c->level;
    NODE(c, id, &p);
    cg_at_level(c, home);
    *out = p[0];
    return HS_GOOD;
  }
  if (x->kind == NEST_ACC) {
    *out = c->tacc[x->k];
    return HS_GOOD;
  }
  if (x->kind == NEST_ELEM) {
    *out = c->telem[x->k];
    return HS_GOOD;
  }
  if (c->tmemo[id].set) {
    *out = c->tmemo[id].v[0];
    return HS_GOOD;
  }
  u32 lanes = 0;
  for (u32 k = 0; k < x->nargs; k++) {
    HS_TRY(emit_template(c, x->args[k], &a[k]));
    if (LLVMGetTypeKind(LLVMTypeOf(a[k])) == LLVMVectorTypeKind)
      lanes = LLVMGetVectorSize(LLVMTypeOf(a[k]));
  }
  for (u32 k = 0; k < x->nargs && lanes; k++) a[k] = cg_splat(c, a[k], lanes);
  LLVMValueRef v = cg_op(c, x, a);
  if (!v)
    return hs_fail_subject(HS_E_UNSUPPORTED, hlo_op_text(x->op), "unsupported: %s of %s",
                           hlo_op_text(x->op), hlo_dtype_text(x->in));
  c->tmemo[id].set = true;
  c->tmemo[id].v[0] = v;
  hs_vec_push(&c->tmemoed, id);
  *out = v;
  return HS_GOOD;
}

hs_status cg_apply(cg *c, const nest_group *g, const LLVMValueRef *acc, const LLVMValueRef *elem,
                   LLVMValueRef *next) {
  c->tacc = acc;
  c->telem = elem;
  LLVMValueRef all[NEST_MAX_ACCS];  // next may be acc or elem, which all of them read
  for (u32 k = 0; k < g->nacc; k++) {
    HS_TRY(emit_template(c, g->next[k], &all[k]));
    // a reducer that reads neither operand, as a constant, has one value for all lanes
    if (LLVMGetTypeKind(LLVMTypeOf(acc[k])) == LLVMVectorTypeKind)
      all[k] = cg_splat(c, all[k], LLVMGetVectorSize(LLVMTypeOf(acc[k])));
  }
  memcpy(next, all, g->nacc * sizeof *next);
  while (c->tmemoed.n) c->tmemo[hs_vec_pop(&c->tmemoed)].set = false;
  return HS_GOOD;
}

// The reducer's identity for accumulator k; NULL when it has none that is known.
static LLVMValueRef identity(cg *c, const nest_group *g, u32 k) {
  hlo_dtype t = c->n->nodes.v[g->acc[k]].dtype;
  LLVMTypeRef r = cg_rep(c, t);
  bool f = hlo_dtype_is_float(t), s = hlo_dtype_is_signed(t);
  u32 w = t == HLO_PRED ? 1 : (u32)hlo_dtype_bits(t);
  switch (g->monoid) {
  case HLO_ADD: return f ? cg_fp(r, -0.0) : LLVMConstNull(r);
  case HLO_OR:
  case HLO_XOR: return LLVMConstNull(r);
  case HLO_MULTIPLY: return f ? cg_fp(r, 1) : LLVMConstInt(r, 1, false);
  case HLO_AND: return LLVMConstAllOnes(r);
  case HLO_MAXIMUM:
    return f   ? cg_fp(r, -__builtin_inf())
           : s ? cg_int(r, w == 64 ? INT64_MIN : -((i64)1 << (w - 1)))
               : LLVMConstNull(r);
  case HLO_MINIMUM:
    return f   ? cg_fp(r, __builtin_inf())
           : s ? LLVMConstInt(r, (1ull << (w - 1)) - 1, false)
               : LLVMConstAllOnes(r);
  default: return NULL;
  }
}

// A reduction in progress: all groups that share its loops.
typedef struct reduction {
  u32 n;
  const nest_group *g[NEST_MAX_ACCS];
  u32 total, copies;  // accumulators over all members; vectors of each
  bool row;           // row form: lanes run along its innermost loop
  bool team;          // row form whose steps several threads share
  bool column;        // column form: lanes run along a loop around it
} reduction;

// One step: next[a * copies + u] = reducer(acc, in), unchanged in masked lanes and where the
// condition is false.
static hs_status reduction_step(cg *c, const reduction *r, LLVMValueRef *acc, u32 copies) {
  LLVMValueRef a[64], e[64], out[64], *cond;
  for (u32 m = 0, base = 0; m < r->n; base += r->g[m++]->nacc) {
    const nest_group *g = r->g[m];
    cond = NULL;
    if (g->cond != NEST_NONE) {
      NODE(c, g->cond, &cond);
      if (LLVMIsConstant(cond[0]) && LLVMTypeOf(cond[0]) == c->i1) {
        if (LLVMConstIntGetZExtValue(cond[0]) == 0) continue;
        cond = NULL;
      }
    }
    for (u32 u = 0; u < copies; u++) {
      for (u32 k = 0; k < g->nacc; k++) {
        LLVMValueRef *p;
        NODE(c, g->in[k], &p);
        bool vec = c->lane && (c->n->nodes.v[g->in[k]].deps & c->lane);
        a[k] = acc[(base + k) * r->copies + u];
        e[k] = p[vec ? u : 0];
        if (LLVMGetTypeKind(LLVMTypeOf(a[k])) == LLVMVectorTypeKind)
          e[k] = cg_splat(c, e[k], LLVMGetVectorSize(LLVMTypeOf(a[k])));
      }
      cg_at_level(c, c->open);
      HS_TRY(cg_apply(c, g, a, e, out));
      LLVMValueRef keep = r->row ? c->mask[u] : NULL;
      if (cond && c->lane && (c->n->nodes.v[g->cond].deps & c->lane))
        keep = cg_and_mask(c, keep, cond[u]);
      else if (cond)
        keep = keep ? LLVMBuildAnd(c->b, keep, cg_splat(c, cond[0], c->W), "") : cond[0];
      for (u32 k = 0; k < g->nacc; k++)
        acc[(base + k) * r->copies + u] =
            keep ? LLVMBuildSelect(c->b, keep, out[k], a[k], "") : out[k];
    }
  }
  return HS_GOOD;
}

// Bounds of the outermost loop of a split reduction (split.c): those of the current split.
static void split_bounds(cg *c, const nest_group *g, LLVMValueRef *from, LLVMValueRef *to) {
  i64 n = cg_extent(c, g->loops[0]);
  *from = LLVMBuildNSWMul(c->b, c->loop_val[c->n->vars.v[g->seg].loop], cg_ixc(c, g->seg_size), "");
  *to = LLVMBuildNSWAdd(c->b, *from, cg_ixc(c, g->seg_size), "");
  if (n % g->seg_size) *to = cg_clip(c, false, *to, cg_ixc(c, n));
}

hs_status cg_node_bounds(cg *c, const nest_group *g, LLVMValueRef *from, LLVMValueRef *to) {
  LLVMValueRef *p;
  u32 home = c->level;
  NODE(c, g->from - 1, &p);
  *from = p[0];
  NODE(c, g->to - 1, &p);
  *to = p[0];
  cg_at_level(c, home);
  *from = LLVMBuildIntCast2(c->b, *from, c->ix, false, "");
  *to = LLVMBuildIntCast2(c->b, *to, c->ix, false, "");
  return HS_GOOD;
}

static hs_status lane_loop_of_split(cg *c, const reduction *r, u32 bit, LLVMValueRef *acc) {
  u32 U = c->U;
  LLVMValueRef from, to, at;
  split_bounds(c, r->g[0], &from, &to);
  HS_TRY(cg_open_loop(c, bit, from, to, (i64)(U * c->W), true, r->total * r->copies, acc));
  HS_TRY(reduction_step(c, r, acc, U));
  at = cg_close_loop(c, acc);
  c->U = 1;
  HS_TRY(cg_open_loop(c, bit, at, LLVMBuildAdd(c->b, to, cg_ixc(c, (i64)c->W - 1), ""), (i64)c->W,
                      true, r->total * r->copies, acc));
  c->mask[0] = cg_tail_mask(c, c->loop_val[bit], to);
  HS_TRY(reduction_step(c, r, acc, 1));
  c->mask[0] = NULL;
  (void)cg_close_loop(c, acc);
  c->U = U;
  return HS_GOOD;
}

// The innermost loop of a row-form reduction: U vectors per iteration, then single vectors, the
// last one masked.
static hs_status lane_loop(cg *c, const reduction *r, u32 var, bool is_split, LLVMValueRef *acc) {
  u32 bit = c->n->vars.v[var].loop, U = c->U;
  if (is_split) return lane_loop_of_split(c, r, bit, acc);
  i64 n = cg_extent(c, var), step = (i64)(U * c->W), whole = n / step * step;
  if (whole) {
    HS_TRY(
        cg_open_loop(c, bit, cg_ixc(c, 0), cg_ixc(c, n), step, false, r->total * r->copies, acc));
    HS_TRY(reduction_step(c, r, acc, U));
    (void)cg_close_loop(c, acc);
  }
  if (whole == n) return HS_GOOD;
  c->U = 1;
  HS_TRY(cg_open_loop(c, bit, cg_ixc(c, whole), cg_ixc(c, n + (i64)c->W - 1), (i64)c->W, false,
                      r->total * r->copies, acc));
  if ((n - whole) % (i64)c->W) c->mask[0] = cg_tail_mask(c, c->loop_val[bit], cg_ixc(c, n));
  HS_TRY(reduction_step(c, r, acc, 1));
  c->mask[0] = NULL;
  (void)cg_close_loop(c, acc);
  c->U = U;
  return HS_GOOD;
}

static hs_status reduction_loops(cg *c, const reduction *r, u32 depth, LLVMValueRef *acc) {
  const nest_group *g = r->g[0];
  if (r->team) {
    HS_TRY(c->target->open(c, g, r->total * r->copies, acc));
    HS_TRY(reduction_step(c, r, acc, r->copies));
    c->target->close(c, g, acc);
    return HS_GOOD;
  }
  if (depth == g->nloops) return reduction_step(c, r, acc, r->copies);
  bool is_split = depth == 0 && g->seg != NEST_NONE;
  if (r->row && depth + 1 == g->nloops) return lane_loop(c, r, g->loops[depth], is_split, acc);
  u32 var = g->loops[depth], bit = c->n->vars.v[var].loop;
  i64 rest = 1, n = cg_extent(c, var);
  for (u32 k = depth; k < g->nloops && rest <= 64; k++) rest *= cg_extent(c, g->loops[k]);
  // short: unrolled here, so that LLVM needs no unrolling pass
  if (rest <= 16 && !r->row && !is_split && !g->from) {
    nest_var keep = c->n->vars.v[var];
    c->open_mask |= 1ull << bit;
    c->loop_level[bit] = c->open;
    for (i64 i = 0; i < n; i++) {
      c->n->vars.v[var].lo = c->n->vars.v[var].hi = i;
      c->loop_val[bit] = cg_ixc(c, i);
      hs_status s = reduction_loops(c, r, depth + 1, acc);
      cg_forget(c, CG_MAX_LEVELS, 1ull << bit);
      c->n->vars.v[var] = keep;
      HS_TRY(s);
    }
    c->open_mask &= ~(1ull << bit);
    return HS_GOOD;
  }
  LLVMValueRef from = cg_ixc(c, 0), to = cg_ixc(c, n);
  if (is_split) split_bounds(c, g, &from, &to);
  if (g->from) HS_TRY(cg_node_bounds(c, g, &from, &to));
  HS_TRY(cg_open_loop(c, bit, from, to, 1, g->from != 0, r->total * r->copies, acc));
  HS_TRY(reduction_loops(c, r, depth + 1, acc));
  (void)cg_close_loop(c, acc);
  return HS_GOOD;
}

// Folds U vectors into one, then halves of it into each other down to one lane, by the reducer
// itself. acc: accumulator k has its vectors at k * stride.
static hs_status fold_lanes(cg *c, const nest_group *g, u32 copies, LLVMValueRef *acc, u32 stride,
                            LLVMValueRef *out) {
  LLVMValueRef a[64], b[64];
  for (u32 k = 0; k < g->nacc; k++) out[k] = acc[k * stride];
  for (u32 u = 1; u < copies; u++) {
    for (u32 k = 0; k < g->nacc; k++) a[k] = out[k], b[k] = acc[k * stride + u];
    HS_TRY(cg_apply(c, g, a, b, out));
  }
  for (u32 w = c->W / 2; w >= 1; w /= 2) {
    for (u32 k = 0; k < g->nacc; k++) {
      LLVMValueRef lo[64], hi[64], poison = LLVMGetPoison(LLVMTypeOf(out[k]));
      for (u32 j = 0; j < w; j++)
        lo[j] = LLVMConstInt(c->i32, j, false), hi[j] = LLVMConstInt(c->i32, j + w, false);
      a[k] = LLVMBuildShuffleVector(c->b, out[k], poison, LLVMConstVector(lo, w), "");
      b[k] = LLVMBuildShuffleVector(c->b, out[k], poison, LLVMConstVector(hi, w), "");
    }
    HS_TRY(cg_apply(c, g, a, b, out));
  }
  for (u32 k = 0; k < g->nacc && c->W > 1; k++)
    out[k] = LLVMBuildExtractElement(c->b, out[k], LLVMConstInt(c->i32, 0, false), "");
  return HS_GOOD;
}

// Whether some load under the node reads the loop `var` with stride one (an index counts as such a
// load): then row form pays. `visited`, a byte per node, marks those already found not to: nodes
// are shared, so without it the traversal would be exponential in the depth of the DAG.
static bool reads_unit_stride(const cg *c, u32 node, u32 var, u8 *visited) {
  const nest_node *x = &c->n->nodes.v[node];
  if (visited[node] || !(x->deps & 1ull << c->n->vars.v[var].loop)) return false;
  visited[node] = 1;
  if (x->kind == NEST_LOAD) {
    i64 k = nest_coef(x->e, var);
    return k == 1 || k == -1;
  }
  for (u32 k = 0; k < x->nargs; k++)
    if (reads_unit_stride(c, x->args[k], var, visited)) return true;
  return x->kind == NEST_INDEX || x->kind == NEST_CONST;
}

static bool row_form(const cg *c, const reduction *r) {
  const nest_group *g = r->g[0];
  if (g->nloops == 0 || c->vector_bytes == 0) return false;
  u32 var = g->loops[g->nloops - 1];
  if (cg_extent(c, var) < 8) return false;
  for (u32 m = 0; m < r->n; m++)
    if (!r->g[m]->free_order) return false;
  bool unit_stride = cg_extent(c, var) >= 64;
  u8 *visited = unit_stride ? NULL : hs_calloc(c->n->nodes.n + 1, 1);
  for (u32 m = 0; m < r->n && !unit_stride; m++)
    for (u32 k = 0; k < r->g[m]->nacc && !unit_stride; k++)
      unit_stride = reads_unit_stride(c, r->g[m]->in[k], var, visited);
  hs_free(visited);
  return unit_stride;
}

// Lanes of a vector of the widest accumulator.
static u32 row_lanes(const cg *c, const reduction *r) {
  size_t widest = 1;
  for (u32 m = 0; m < r->n; m++)
    for (u32 k = 0; k < r->g[m]->nacc; k++) {
      hlo_dtype t = c->n->nodes.v[r->g[m]->acc[k]].dtype;
      widest = HS_MAX(widest, nest_is_narrow(t) ? 4 : hlo_dtype_storage(t));
    }
  return HS_MIN(64, c->vector_bytes / (u32)widest);
}

// What a reduction sets aside of the code around it: the loops inside its own level, and the lanes.
typedef struct surroundings {
  u32 home, open, W, U;
  u64 lane, open_mask;
  LLVMValueRef mask[CG_MAX_UNROLL];
  LLVMBasicBlockRef ins[CG_MAX_LEVELS];
  cg_loop loops[CG_MAX_LEVELS];
} surroundings;

static void save(const cg *c, surroundings *s) {
  *s = (surroundings){c->level, c->open, c->W, c->U, c->lane, c->open_mask, {0}, {0}, {{0}}};
  memcpy(s->mask, c->mask, sizeof s->mask);
  memcpy(s->ins, c->ins, sizeof s->ins);
  memcpy(s->loops, c->loops, sizeof s->loops);
}

// Code moves to the level of the result: loops inside of it, which the result does not depend on,
// are out of sight until restore.
static void move_out(cg *c, const surroundings *s, u32 level) {
  for (u32 l = level + 1; l <= s->open; l++)
    if (s->loops[l].bit != NEST_NONE) c->open_mask &= ~(1ull << s->loops[l].bit);
  c->open = level;
  cg_at_level(c, level);
}

static void restore(cg *c, const surroundings *s, u32 level) {
  for (u32 l = level + 1; l <= s->open; l++) c->ins[l] = s->ins[l], c->loops[l] = s->loops[l];
  c->open_mask = s->open_mask;
  c->open = s->open;
  c->lane = s->lane;
  c->W = s->W;
  c->U = s->U;
  memcpy(c->mask, s->mask, sizeof s->mask);
  cg_at_level(c, s->home);
}

// The group and all groups that share its loops; *deps: the loops that their results depend on.
static reduction members(const cg *c, u32 group, u64 *deps) {
  const nest *n = c->n;
  reduction r = {0};
  u32 root = n->groups.v[group].merged_into;
  *deps = 0;
  for (size_t k = 0; k < n->groups.n; k++) {
    const nest_group *g = &n->groups.v[k];
    if (g->merged_into != root) continue;
    r.g[r.n++] = g;
    r.total += g->nacc;
    for (u32 a = 0; a < g->nacc; a++) *deps |= n->nodes.v[g->out[a]].deps;
  }
  return r;
}

// Chooses the form and the lanes. Column form keeps the lane loop of the surroundings, because the
// result varies over it (deps); otherwise the reduction may use lanes itself (row form).
static void choose_form(cg *c, reduction *r, u64 deps) {
  r->column = c->lane && (deps & c->lane);
  if (!r->column) {
    c->lane = 0;
    c->W = c->U = 1;
    memset(c->mask, 0, sizeof c->mask);
    r->team = c->target->team && c->target->team(c, r->g[0], deps);
    r->row = r->team || (c->stage->row_lanes != 1 && row_form(c, r));
  }
  if (r->row && !r->team) {
    u32 var = r->g[0]->loops[r->g[0]->nloops - 1];
    c->lane = 1ull << c->n->vars.v[var].loop;
    c->W = row_lanes(c, r);
    while (c->W > 4 && cg_extent(c, var) * 2 <= c->W) c->W /= 2;
    if (c->stage->row_lanes) c->W = c->stage->row_lanes;
    i64 unroll = c->stage->row_unroll ? c->stage->row_unroll : r->total > 4 ? 2 : 4;
    c->U = (u32)HS_MIN(HS_MAX(cg_extent(c, var) / c->W, 1), unroll);
  }
  r->copies = c->lane ? c->U : 1;
}

// The accumulators before the first step: the identity where partial results are folded later, else
// the initial values.
static hs_status start_values(cg *c, const reduction *r, LLVMValueRef *acc) {
  u32 level = c->level;
  for (u32 m = 0, base = 0; m < r->n; base += r->g[m++]->nacc)
    for (u32 k = 0; k < r->g[m]->nacc; k++) {
      LLVMValueRef *p = NULL, id = (r->row || r->g[m]->seg != NEST_NONE) && !r->g[m]->resumes
                                       ? identity(c, r->g[m], k)
                                       : NULL;
      bool vec = r->column && (c->n->nodes.v[r->g[m]->init[k]].deps & c->lane);
      if (!id) NODE(c, r->g[m]->init[k], &p);
      cg_at_level(c, level);
      for (u32 u = 0; u < r->copies; u++) {
        LLVMValueRef v = id ? id : p[vec ? u : 0];
        acc[(base + k) * r->copies + u] = c->lane ? cg_splat(c, v, c->W) : v;
      }
    }
  return HS_GOOD;
}

// Row form: one value per accumulator of a member, folded from its lanes and combined with the
// initial value where the loop started from the identity.
static hs_status finish_row(cg *c, const reduction *r, const nest_group *g, LLVMValueRef *acc,
                            LLVMValueRef *out) {
  u32 level = c->level;
  HS_TRY(fold_lanes(c, g, r->copies, acc, r->copies, out));
  if (r->team) HS_TRY(c->target->fold(c, g, out));
  if (g->monoid == HLO_OP_INVALID || g->seg != NEST_NONE) return HS_GOOD;
  LLVMValueRef *p, in[64];
  for (u32 k = 0; k < g->nacc; k++) {
    NODE(c, g->init[k], &p);
    in[k] = p[0];
  }
  cg_at_level(c, level);
  return cg_apply(c, g, in, out, out);
}

// Remembers the results of every member; `copies` vectors of each.
static hs_status keep_results(cg *c, const reduction *r, u32 copies, LLVMValueRef *acc) {
  u32 level = c->level;
  for (u32 m = 0, base = 0; m < r->n; base += r->g[m++]->nacc) {
    const nest_group *g = r->g[m];
    LLVMValueRef out[64];
    if (r->row) HS_TRY(finish_row(c, r, g, acc + base * r->copies, out));
    for (u32 k = 0; k < g->nacc; k++) {
      cg_memo *o = &c->memo[g->out[k]];
      o->set = true;
      o->level = level;
      for (u32 u = 0; u < copies; u++) o->v[u] = r->row ? out[k] : acc[(base + k) * r->copies + u];
      hs_vec_push(&c->memoed, g->out[k]);
    }
  }
  return HS_GOOD;
}

hs_status cg_emit_group(cg *c, u32 group) {
  u64 deps;
  reduction r = members(c, group, &deps);
  u32 level = cg_level_of(c, deps);
  HS_REQUIRE(level <= c->open);
  surroundings around;
  save(c, &around);
  choose_form(c, &r, deps);
  move_out(c, &around, level);
  LLVMValueRef *acc = hs_calloc((size_t)r.total * r.copies + 1, sizeof *acc);
  hs_status s = start_values(c, &r, acc);
  if (hs_ok(s)) s = reduction_loops(c, &r, 0, acc);
  cg_at_level(c, level);
  if (hs_ok(s)) s = keep_results(c, &r, r.column ? around.U : 1, acc);
  hs_free(acc);
  restore(c, &around, level);
  return s;
}
