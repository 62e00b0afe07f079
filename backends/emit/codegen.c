// codegen.c — loop nest -> LLVM IR: loops, memory, reductions.
//
// Nodes are emitted on demand from the stores backwards. Each node belongs to the innermost open loop that it depends
// on, and its code is placed there: `ins[k]` is the still unterminated end of the code of level k, so that asking for a
// value in an inner loop puts invariant code (whole reduction loops too) in front of that loop. A loop's preheader gets
// its branch only when the loop is closed. Values are remembered until a loop they depend on closes.
//
// Lanes: one loop at a time runs W lanes wide, U vectors per turn. A node that depends on that loop is U vectors, any
// other a scalar. The rest of the loop is one masked turn at a time; masked lanes neither load nor store.
#include "backends/emit/codegen.h"

// ---- levels and loops ---------------------------------------------------------------------------------------------------------
static void at_level(cg *c, u32 level) {
  c->level = level;
  LLVMPositionBuilderAtEnd(c->b, c->ins[level]);
}

static void forget(cg *c, u32 level, u64 deps) {           // values at or above a level, or on some loops
  size_t keep = 0;
  for (size_t i = 0; i < c->memoed.n; i++) {
    u32 id = c->memoed.v[i];
    if (c->memo[id].level >= level || (c->n->nodes.v[id].deps & deps)) c->memo[id].set = false;
    else c->memoed.v[keep++] = id;
  }
  c->memoed.n = keep;
}

static LLVMValueRef i64c(cg *c, i64 v) { return LLVMConstInt(c->i64, (u64)v, true); }

// Opens `for (i = start; i + step <= end; i += step)`. carry: values that go around; on return the ones of this turn.
static hs_status open_loop(cg *c, u32 bit, LLVMValueRef start, LLVMValueRef end, i64 step, bool guarded, u32 ncarry, LLVMValueRef *carry) {
  if (c->open + 2 >= CG_MAX_LEVELS) return hs_fail(HS_E_UNSUPPORTED, "unsupported: loops nested too deeply");
  at_level(c, c->open);
  cg_loop *l = &c->loops[++c->open];
  *l = (cg_loop){.bit = bit, .start = start, .step = step, .guarded = guarded, .ncarry = ncarry};
  l->last = LLVMBuildSub(c->b, end, i64c(c, step), "");
  l->header = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "");
  c->ins[c->open] = l->header;
  at_level(c, c->open);
  l->phi = LLVMBuildPhi(c->b, c->i64, "");
  if (ncarry) {
    l->carry_phi = hs_alloc(ncarry * sizeof(LLVMValueRef));
    l->carry_init = hs_alloc(ncarry * sizeof(LLVMValueRef));
    for (u32 k = 0; k < ncarry; k++) {
      l->carry_init[k] = carry[k];
      carry[k] = l->carry_phi[k] = LLVMBuildPhi(c->b, LLVMTypeOf(carry[k]), "");
    }
  }
  if (bit != NEST_NONE) {
    c->loop_val[bit] = l->phi;
    c->loop_level[bit] = c->open;
    c->open_mask |= 1ull << bit;
  }
  return HS_GOOD;
}

// carry: in, the values at the end of the turn; out, those after the loop. Returns the induction value after the loop.
static LLVMValueRef close_loop(cg *c, LLVMValueRef *carry) {
  cg_loop *l = &c->loops[c->open];
  u32 inner = c->open, outer = c->open - 1;
  at_level(c, inner);
  LLVMBasicBlockRef latch = c->ins[inner], pre = c->ins[outer], exit = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "");
  LLVMValueRef next = LLVMBuildNSWAdd(c->b, l->phi, i64c(c, l->step), "");
  LLVMBuildCondBr(c->b, LLVMBuildICmp(c->b, LLVMIntSLE, next, l->last, ""), l->header, exit);
  forget(c, inner, 0);
  if (l->bit != NEST_NONE) c->open_mask &= ~(1ull << l->bit);
  c->open--;
  at_level(c, outer);
  if (l->guarded) LLVMBuildCondBr(c->b, LLVMBuildICmp(c->b, LLVMIntSLE, l->start, l->last, ""), l->header, exit);
  else LLVMBuildBr(c->b, l->header);
  LLVMAddIncoming(l->phi, (LLVMValueRef[]){l->start, next}, (LLVMBasicBlockRef[]){pre, latch}, 2);
  for (u32 k = 0; k < l->ncarry; k++)
    LLVMAddIncoming(l->carry_phi[k], (LLVMValueRef[]){l->carry_init[k], carry[k]}, (LLVMBasicBlockRef[]){pre, latch}, 2);
  c->ins[outer] = exit;
  at_level(c, outer);
  LLVMValueRef after = next;
  if (l->guarded) {
    after = LLVMBuildPhi(c->b, c->i64, "");
    LLVMAddIncoming(after, (LLVMValueRef[]){l->start, next}, (LLVMBasicBlockRef[]){pre, latch}, 2);
    for (u32 k = 0; k < l->ncarry; k++) {
      LLVMValueRef p = LLVMBuildPhi(c->b, LLVMTypeOf(carry[k]), "");
      LLVMAddIncoming(p, (LLVMValueRef[]){l->carry_init[k], carry[k]}, (LLVMBasicBlockRef[]){pre, latch}, 2);
      carry[k] = p;
    }
  }
  hs_free(l->carry_phi);
  hs_free(l->carry_init);
  return after;
}

static u32 level_of(const cg *c, u64 deps) {
  u32 level = 0;
  for (u64 m = deps & c->open_mask; m; m &= m - 1) {
    u32 l = c->loop_level[__builtin_ctzll(m)];
    if (l > level) level = l;
  }
  return level;
}

// ---- index arithmetic ---------------------------------------------------------------------------------------------------------
static hs_status emit_node(cg *c, u32 id, LLVMValueRef **out);
#define NODE(c, id, out) HS_TRY(emit_node((c), (id), (out)))

static u64 var_deps(const cg *c, u32 var) {
  const nest_var *v = &c->n->vars.v[var];
  return v->kind == NEST_LOOP ? 1ull << v->loop : v->kind == NEST_VALUE ? c->n->nodes.v[v->node].deps : nest_deps(c->n, v->e);
}

// An integer node's value clamped to lo..hi, as `to` (scalar or vector of i32 or i64).
static LLVMValueRef clamped(cg *c, const nest_var *v, hlo_dtype t, LLVMValueRef x, LLVMTypeRef to_scalar) {
  bool sgn = hlo_dtype_is_signed(t);
  LLVMValueRef y = x;
  int bits = hlo_dtype_bits(t);
  LLVMTypeRef work = LLVMTypeOf(x);
  i64 top = bits >= 63 ? INT64_MAX : (1ll << (sgn ? bits - 1 : bits)) - 1;
  if (bits < 32) {
    work = cg_like(x, c->i32);
    y = sgn ? LLVMBuildSExt(c->b, x, work, "") : LLVMBuildZExt(c->b, x, work, "");
  }
  if (sgn) {
    LLVMValueRef lo = cg_int(work, v->lo);
    y = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, y, lo, ""), lo, y, "");
  }
  if (v->hi < top) {
    LLVMValueRef hi = cg_int(work, v->hi);
    y = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, sgn ? LLVMIntSGT : LLVMIntUGT, y, hi, ""), hi, y, "");
  }
  LLVMTypeRef to = cg_like(x, to_scalar);
  unsigned have = LLVMGetIntTypeWidth(bits < 32 ? c->i32 : LLVMGetTypeKind(work) == LLVMVectorTypeKind ? LLVMGetElementType(work) : work);
  unsigned want = LLVMGetIntTypeWidth(to_scalar);
  if (have < want) return LLVMBuildZExt(c->b, y, to, "");      // never negative after the clamp
  return have > want ? LLVMBuildTrunc(c->b, y, to, "") : y;
}

static hs_status scalar_expr(cg *c, const nest_expr *e, u32 skip, LLVMValueRef *out);

static hs_status scalar_var(cg *c, u32 var, LLVMValueRef *out) {
  const nest_var v = c->n->vars.v[var];
  LLVMValueRef x, *p;
  switch (v.kind) {
  case NEST_LOOP: *out = c->loop_val[v.loop]; return HS_GOOD;
  case NEST_VALUE:
    NODE(c, v.node, &p);
    *out = clamped(c, &v, c->n->nodes.v[v.node].dtype, p[0], c->i64);
    return HS_GOOD;
  default:
    HS_TRY(scalar_expr(c, v.e, NEST_NONE, &x));
    *out = v.kind == NEST_DIV ? LLVMBuildUDiv(c->b, x, i64c(c, v.d), "") : LLVMBuildURem(c->b, x, i64c(c, v.d), "");
    return HS_GOOD;
  }
}

// The sum of the terms, outer levels first so that partial sums leave inner loops. `skip`: a variable left out.
static hs_status scalar_expr(cg *c, const nest_expr *e, u32 skip, LLVMValueRef *out) {
  u32 home = c->level, order[64], n = 0;
  u32 levels[64];
  if (e->n > 64) return hs_fail(HS_E_UNSUPPORTED, "unsupported: index expression of more than 64 terms");
  for (u32 i = 0; i < e->n; i++) {
    if (e->t[i].var == skip) continue;
    u32 l = level_of(c, var_deps(c, e->t[i].var)), k = n++;
    for (; k > 0 && levels[k - 1] > l; k--) levels[k] = levels[k - 1], order[k] = order[k - 1];
    levels[k] = l;
    order[k] = i;
  }
  LLVMValueRef sum = NULL;
  for (u32 k = 0; k < n; k++) {
    LLVMValueRef x;
    at_level(c, levels[k]);
    HS_TRY(scalar_var(c, e->t[order[k]].var, &x));
    i64 coef = e->t[order[k]].coef;
    if (coef != 1) x = LLVMBuildNSWMul(c->b, x, i64c(c, coef), "");
    sum = sum ? LLVMBuildNSWAdd(c->b, sum, x, "") : e->c ? LLVMBuildNSWAdd(c->b, x, i64c(c, e->c), "") : x;
  }
  at_level(c, home);
  *out = sum ? sum : i64c(c, e->c);
  return HS_GOOD;
}

static bool fits32(const cg *c, const nest_expr *e) {
  i64 lo, hi;
  nest_range(c->n, e, &lo, &hi);
  if (lo < INT32_MIN || hi > INT32_MAX || e->c < INT32_MIN || e->c > INT32_MAX) return false;
  i64 mag = e->c < 0 ? -e->c : e->c;
  for (u32 i = 0; i < e->n; i++) {
    const nest_var *v = &c->n->vars.v[e->t[i].var];
    i64 k = e->t[i].coef < 0 ? -e->t[i].coef : e->t[i].coef;
    if (k > INT32_MAX || v->hi > INT32_MAX || v->lo < INT32_MIN) return false;
    mag += k * HS_MAX(v->hi, -v->lo);
    if (mag > INT32_MAX) return false;
    if ((v->kind == NEST_DIV || v->kind == NEST_MOD) && !fits32(c, v->e)) return false;
  }
  return true;
}

// The expression in every lane of vector u, as a vector of `it` (i32 or i64).
static hs_status vector_expr(cg *c, const nest_expr *e, u32 u, LLVMTypeRef it, LLVMValueRef *out) {
  LLVMTypeRef vt = LLVMVectorType(it, c->W);
  nest_term uni[64];
  u32 nu = 0;
  LLVMValueRef sum = NULL;
  if (e->n > 64) return hs_fail(HS_E_UNSUPPORTED, "unsupported: index expression of more than 64 terms");
  for (u32 i = 0; i < e->n; i++) {
    if (!(var_deps(c, e->t[i].var) & c->lane)) { uni[nu++] = e->t[i]; continue; }
    const nest_var v = c->n->vars.v[e->t[i].var];
    LLVMValueRef x, *p;
    if (v.kind == NEST_LOOP) {
      LLVMValueRef lanes[64];
      bool stepped = c->tile && c->tile == 1ull << v.loop;
      for (u32 k = 0; k < c->W; k++) lanes[k] = LLVMConstInt(it, stepped ? u : c->tile ? k : u * c->W + k, false);
      LLVMValueRef base = c->loop_val[v.loop];
      if (it != c->i64) base = LLVMBuildTrunc(c->b, base, it, "");
      x = LLVMBuildAdd(c->b, cg_splat(c, base, c->W), LLVMConstVector(lanes, c->W), "");
    } else if (v.kind == NEST_VALUE) {
      NODE(c, v.node, &p);
      x = clamped(c, &v, c->n->nodes.v[v.node].dtype, p[u], it);
    } else {
      HS_TRY(vector_expr(c, v.e, u, it, &x));
      x = v.kind == NEST_DIV ? LLVMBuildUDiv(c->b, x, cg_int(vt, v.d), "") : LLVMBuildURem(c->b, x, cg_int(vt, v.d), "");
    }
    if (e->t[i].coef != 1) x = LLVMBuildMul(c->b, x, cg_int(vt, e->t[i].coef), "");
    sum = sum ? LLVMBuildAdd(c->b, sum, x, "") : x;
  }
  LLVMValueRef base;
  HS_TRY(scalar_expr(c, nest_make(c->n, e->c, nu, uni), NEST_NONE, &base));
  if (it != c->i64) base = LLVMBuildTrunc(c->b, base, it, "");
  if (!sum) *out = cg_splat(c, base, c->W);
  else if (nu == 0 && e->c == 0) *out = sum;
  else *out = LLVMBuildAdd(c->b, sum, cg_splat(c, base, c->W), "");
  return HS_GOOD;
}

// Whether the lane loop appears in e only as coefficient * loop; then *coef is that.
static bool lane_affine(const cg *c, const nest_expr *e, u32 *var, i64 *coef) {
  *coef = 0;
  *var = NEST_NONE;
  for (u32 i = 0; i < e->n; i++) {
    if (!(var_deps(c, e->t[i].var) & c->lane)) continue;
    if (c->n->vars.v[e->t[i].var].kind != NEST_LOOP) return false;
    *var = e->t[i].var;
    *coef = e->t[i].coef;
  }
  return true;
}

// ---- memory -------------------------------------------------------------------------------------------------------------------
static LLVMValueRef and_mask(cg *c, LLVMValueRef a, LLVMValueRef b) { return !a ? b : !b ? a : LLVMBuildAnd(c->b, a, b, ""); }

static LLVMValueRef all_ones(cg *c) { return LLVMConstAllOnes(LLVMVectorType(c->i1, c->W)); }

static void set_align(LLVMValueRef call, u32 param, cg *c, u32 align) {
  unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
  LLVMAddCallSiteAttribute(call, param, LLVMCreateEnumAttribute(c->ctx, kind, align));
}

// From LLVM 22 on the masked intrinsics take their alignment as an attribute of the pointer.
#if HLOSH_LLVM_MAJOR >= 22
#define MASKED_ALIGN_ARG 0
#else
#define MASKED_ALIGN_ARG 1
#endif

static LLVMValueRef masked_load(cg *c, bool gather, LLVMValueRef p, LLVMTypeRef vt, u32 align, LLVMValueRef mask) {
  LLVMTypeRef types[2] = {vt, LLVMTypeOf(p)};
  LLVMValueRef args[4], r;
  u32 n = 0;
  args[n++] = p;
  if (MASKED_ALIGN_ARG) args[n++] = LLVMConstInt(c->i32, align, false);
  args[n++] = mask;
  args[n++] = LLVMConstNull(vt);
  r = cg_intrinsic(c, gather ? "llvm.masked.gather" : "llvm.masked.load", 2, types, n, args);
  if (!MASKED_ALIGN_ARG) set_align(r, 1, c, align);
  return r;
}

static void masked_store(cg *c, bool scatter, LLVMValueRef v, LLVMValueRef p, u32 align, LLVMValueRef mask) {
  LLVMTypeRef types[2] = {LLVMTypeOf(v), LLVMTypeOf(p)};
  LLVMValueRef args[4];
  u32 n = 0;
  args[n++] = v;
  args[n++] = p;
  if (MASKED_ALIGN_ARG) args[n++] = LLVMConstInt(c->i32, align, false);
  args[n++] = mask;
  LLVMValueRef r = cg_intrinsic(c, scatter ? "llvm.masked.scatter" : "llvm.masked.store", 2, types, n, args);
  if (!MASKED_ALIGN_ARG) set_align(r, 2, c, align);
}

static LLVMValueRef gep(cg *c, LLVMTypeRef t, LLVMValueRef p, LLVMValueRef i) { return LLVMBuildGEP2(c->b, t, p, &i, 1, ""); }

static LLVMValueRef reversed(cg *c, LLVMValueRef v) {
  LLVMValueRef m[64];
  for (u32 k = 0; k < c->W; k++) m[k] = LLVMConstInt(c->i32, c->W - 1 - k, false);
  return LLVMBuildShuffleVector(c->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(m, c->W), "");
}

// Pointer to element e[lane 0] of a buffer: the invariant part is one address computed outside, the lane loop added here.
static hs_status lane_pointer(cg *c, u32 buf, const nest_expr *e, u32 var, i64 coef, LLVMTypeRef mt, LLVMValueRef *out) {
  LLVMValueRef base;
  u32 home = c->level;
  u64 deps = nest_deps(c->n, e) & ~(var == NEST_NONE ? 0 : c->lane);
  at_level(c, level_of(c, deps));
  HS_TRY(scalar_expr(c, e, var, &base));
  LLVMValueRef p = gep(c, mt, c->bufs[buf], base);
  at_level(c, home);
  if (var != NEST_NONE) {
    LLVMValueRef i = c->loop_val[c->n->vars.v[var].loop];
    p = gep(c, mt, p, coef == 1 ? i : LLVMBuildNSWMul(c->b, i, i64c(c, coef), ""));
  }
  *out = p;
  return HS_GOOD;
}

// ---- tiles ----------------------------------------------------------------------------------------------------------------------
// The coefficients of the lane and the tile loop; false when either hides in an atom.
static bool tile_affine(const cg *c, const nest_expr *e, i64 *lane, i64 *tile) {
  *lane = *tile = 0;
  for (u32 i = 0; i < e->n; i++) {
    u64 d = var_deps(c, e->t[i].var) & c->lane;
    if (!d) continue;
    if (c->n->vars.v[e->t[i].var].kind != NEST_LOOP) return false;
    *(d == c->tile ? tile : lane) = e->t[i].coef;
  }
  return true;
}

// Pointer to the element at the tile's corner.
static hs_status tile_pointer(cg *c, u32 buf, const nest_expr *e, i64 ci, i64 cj, LLVMTypeRef mt, LLVMValueRef *out) {
  nest_term uni[64] = {0};
  u32 nu = 0;
  LLVMValueRef base, i = NULL, j = NULL;
  for (u32 k = 0; k < e->n; k++) {
    u64 d = var_deps(c, e->t[k].var) & c->lane;
    if (!d && nu < 64) uni[nu++] = e->t[k];
    else if (d == c->tile) j = c->loop_val[c->n->vars.v[e->t[k].var].loop];
    else i = c->loop_val[c->n->vars.v[e->t[k].var].loop];
  }
  HS_TRY(scalar_expr(c, nest_make(c->n, e->c, nu, uni), NEST_NONE, &base));
  if (i) base = LLVMBuildNSWAdd(c->b, base, LLVMBuildNSWMul(c->b, i, i64c(c, ci), ""), "");
  if (j) base = LLVMBuildNSWAdd(c->b, base, LLVMBuildNSWMul(c->b, j, i64c(c, cj), ""), "");
  *out = gep(c, mt, c->bufs[buf], base);
  return HS_GOOD;
}

static LLVMValueRef below(cg *c, LLVMValueRef left) {   // lanes whose number is below `left`
  LLVMValueRef lanes[64];
  for (u32 k = 0; k < c->W; k++) lanes[k] = LLVMConstInt(c->i64, k, false);
  return LLVMBuildICmp(c->b, LLVMIntSLT, LLVMConstVector(lanes, c->W), cg_splat(c, left, c->W), "");
}

// W vectors to their transpose: log2 W rounds, each interleaving vector k with vector k + W/2.
static void transpose_square(cg *c, LLVMValueRef *v) {
  LLVMValueRef t[CG_MAX_UNROLL], lo[64], hi[64];
  u32 W = c->W;
  for (u32 k = 0; k < W; k++) {
    lo[k] = LLVMConstInt(c->i32, k / 2 + (k % 2 ? W : 0), false);
    hi[k] = LLVMConstInt(c->i32, W / 2 + k / 2 + (k % 2 ? W : 0), false);
  }
  LLVMValueRef ml = LLVMConstVector(lo, W), mh = LLVMConstVector(hi, W);
  for (u32 round = 1; round < W; round *= 2) {
    for (u32 k = 0; k < W / 2; k++) {
      t[2 * k] = LLVMBuildShuffleVector(c->b, v[k], v[k + W / 2], ml, "");
      t[2 * k + 1] = LLVMBuildShuffleVector(c->b, v[k], v[k + W / 2], mh, "");
    }
    memcpy(v, t, W * sizeof *v);
  }
}

// Loads for a tile; *done is false when the access has to go the general way, by gathers.
static hs_status tile_load(cg *c, const nest_node *x, LLVMValueRef *out, bool *done) {
  LLVMTypeRef mt = cg_mem(c, x->dtype), vt = LLVMVectorType(mt, c->W);
  u32 align = (u32)hlo_dtype_storage(x->dtype);
  i64 ci, cj;
  LLVMValueRef p, q;
  *done = false;
  if (x->guard != NEST_NONE || !tile_affine(c, x->e, &ci, &cj)) return HS_GOOD;
  bool rows = ci == 1, columns = cj == 1 && ci != 0;
  if (!rows && !columns) return HS_GOOD;
  *done = true;
  HS_TRY(tile_pointer(c, x->buf, x->e, ci, cj, mt, &p));
  if (rows) {
    for (u32 u = 0; u < c->U; u++) {
      q = u && cj ? gep(c, mt, p, i64c(c, u * cj)) : p;
      if (c->mask[u]) out[u] = masked_load(c, false, q, vt, align, c->mask[u]);
      else LLVMSetAlignment(out[u] = LLVMBuildLoad2(c->b, vt, q, ""), align);
    }
  } else {
    LLVMValueRef along = c->tile_left ? below(c, c->tile_left) : NULL;
    for (u32 l = 0; l < c->W; l++) {
      q = l ? gep(c, mt, p, i64c(c, l * ci)) : p;
      LLVMValueRef mask = along;
      if (c->lane_left) mask = and_mask(c, mask, cg_splat(c, LLVMBuildICmp(c->b, LLVMIntSLT, i64c(c, l), c->lane_left, ""), c->W));
      if (mask) out[l] = masked_load(c, false, q, vt, align, mask);
      else LLVMSetAlignment(out[l] = LLVMBuildLoad2(c->b, vt, q, ""), align);
    }
    transpose_square(c, out);
  }
  for (u32 u = 0; u < c->U; u++) out[u] = cg_from_mem(c, x->dtype, out[u]);
  return HS_GOOD;
}

// Every s-th element for s = 2..4: the whole vectors they lie in, then shuffles. The last of them is loaded only as far
// as it is needed.
static LLVMValueRef strided_load(cg *c, LLVMValueRef p, u32 s, LLVMTypeRef mt, u32 align) {
  LLVMTypeRef vt = LLVMVectorType(mt, c->W);
  LLVMValueRef v[4], m[64], all = NULL;
  u32 W = c->W;
  for (u32 k = 0; k < s; k++) {
    LLVMValueRef q = k ? gep(c, mt, p, i64c(c, k * W)) : p;
    if (k + 1 < s) {
      LLVMSetAlignment(v[k] = LLVMBuildLoad2(c->b, vt, q, ""), align);
      continue;
    }
    for (u32 l = 0; l < W; l++) m[l] = LLVMConstInt(c->i1, k * W + l <= s * (W - 1), false);
    v[k] = masked_load(c, false, q, vt, align, LLVMConstVector(m, W));
  }
  for (u32 k = 0; k < s; k++) {                        // lane l is element s*l: in vector s*l / W
    for (u32 l = 0; l < W; l++) {
      u32 at = s * l;
      m[l] = LLVMConstInt(c->i32, at / W == k ? (all ? W : 0) + at % W : at / W < k ? l : 0, false);
    }
    all = all ? LLVMBuildShuffleVector(c->b, all, v[k], LLVMConstVector(m, W), "")
              : LLVMBuildShuffleVector(c->b, v[k], LLVMGetPoison(vt), LLVMConstVector(m, W), "");
  }
  return all;
}

static hs_status emit_load(cg *c, const nest_node *x, u32 copies, bool vec, LLVMValueRef *out) {
  if (vec && c->tile) {
    bool done;
    HS_TRY(tile_load(c, x, out, &done));
    if (done) return HS_GOOD;
  }
  LLVMTypeRef mt = cg_mem(c, x->dtype), vt = LLVMVectorType(mt, c->W ? c->W : 1);
  u32 align = (u32)hlo_dtype_storage(x->dtype), var;
  LLVMValueRef *g = NULL, p = NULL;
  i64 coef;
  if (x->guard != NEST_NONE) {
    NODE(c, x->guard, &g);
    if (LLVMIsConstant(g[0]) && LLVMTypeOf(g[0]) == c->i1) {
      if (LLVMConstIntGetZExtValue(g[0]) == 0) {
        for (u32 u = 0; u < copies; u++) out[u] = LLVMConstNull(vec ? LLVMVectorType(cg_rep(c, x->dtype), c->W) : cg_rep(c, x->dtype));
        return HS_GOOD;
      }
      g = NULL;
    }
  }
  if (!vec) {
    HS_TRY(lane_pointer(c, x->buf, x->e, NEST_NONE, 0, mt, &p));
    if (g) p = LLVMBuildSelect(c->b, g[0], p, c->safe, "");
    LLVMValueRef v = LLVMBuildLoad2(c->b, mt, p, "");
    LLVMSetAlignment(v, align);
    out[0] = cg_from_mem(c, x->dtype, v);
    return HS_GOOD;
  }
  bool affine = !c->tile && lane_affine(c, x->e, &var, &coef) && (coef == 1 || coef == -1), strided = false;
  if (!c->tile && !affine && !g && !c->mask[0]) strided = lane_affine(c, x->e, &var, &coef) && coef >= 2 && coef <= 4;
  if (strided) HS_TRY(lane_pointer(c, x->buf, x->e, var, coef, mt, &p));
  if (affine) HS_TRY(lane_pointer(c, x->buf, x->e, var, coef, mt, &p));
  for (u32 u = 0; u < copies; u++) {
    LLVMValueRef mask = c->mask[u], v, q;
    if (g) {
      bool gv = LLVMGetTypeKind(LLVMTypeOf(g[0])) == LLVMVectorTypeKind;
      mask = and_mask(c, mask, gv ? g[u] : cg_splat(c, g[0], c->W));
    }
    if (affine) {
      i64 shift = coef == 1 ? (i64)(u * c->W) : -(i64)((u + 1) * c->W - 1);
      q = shift ? gep(c, mt, p, i64c(c, shift)) : p;
      if (!mask) {
        v = LLVMBuildLoad2(c->b, vt, q, "");
        LLVMSetAlignment(v, align);
      } else {
        v = masked_load(c, false, q, vt, align, coef == 1 ? mask : reversed(c, mask));
      }
      if (coef == -1) v = reversed(c, v);
    } else if (strided) {
      v = strided_load(c, u ? gep(c, mt, p, i64c(c, (i64)(u * c->W) * coef)) : p, (u32)coef, mt, align);
    } else {
      LLVMTypeRef it = fits32(c, x->e) ? c->i32 : c->i64;
      HS_TRY(vector_expr(c, x->e, u, it, &q));
      q = gep(c, mt, c->bufs[x->buf], q);
      v = masked_load(c, true, q, vt, align, mask ? mask : all_ones(c));
    }
    out[u] = cg_from_mem(c, x->dtype, v);
  }
  return HS_GOOD;
}

static hs_status emit_store(cg *c, const nest_store *s) {
  const nest_buf *b = &c->n->bufs.v[s->buf];
  LLVMTypeRef mt = cg_mem(c, b->dtype);
  u32 align = (u32)hlo_dtype_storage(b->dtype), var, copies = c->lane ? c->U : 1;
  LLVMValueRef *v, p = NULL, q;
  i64 coef = 0;
  NODE(c, s->node, &v);
  bool value_vec = c->lane && (c->n->nodes.v[s->node].deps & c->lane);
  bool addr_vec = c->lane && (nest_deps(c->n, s->e) & c->lane);
  at_level(c, c->open);
  if (!addr_vec) {
    HS_TRY(lane_pointer(c, s->buf, s->e, NEST_NONE, 0, mt, &p));
    LLVMSetAlignment(LLVMBuildStore(c->b, cg_to_mem(c, b->dtype, v[0]), p), align);
    return HS_GOOD;
  }
  i64 step = c->W;
  bool unit = c->tile ? tile_affine(c, s->e, &coef, &step) && coef == 1 : lane_affine(c, s->e, &var, &coef) && coef == 1;
  if (unit && c->tile) HS_TRY(tile_pointer(c, s->buf, s->e, 1, step, mt, &p));
  else if (unit) HS_TRY(lane_pointer(c, s->buf, s->e, var, 1, mt, &p));
  for (u32 u = 0; u < copies; u++) {
    LLVMValueRef w = cg_to_mem(c, b->dtype, cg_splat(c, v[value_vec ? u : 0], c->W));
    if (unit) {
      q = u && step ? gep(c, mt, p, i64c(c, (i64)u * step)) : p;
      if (c->mask[u]) masked_store(c, false, w, q, align, c->mask[u]);
      else LLVMSetAlignment(LLVMBuildStore(c->b, w, q), align);
    } else {
      HS_TRY(vector_expr(c, s->e, u, fits32(c, s->e) ? c->i32 : c->i64, &q));
      masked_store(c, true, w, gep(c, mt, c->bufs[s->buf], q), align, c->mask[u] ? c->mask[u] : all_ones(c));
    }
  }
  return HS_GOOD;
}

// ---- guards and indices ---------------------------------------------------------------------------------------------------------
static hs_status emit_index(cg *c, const nest_node *x, u32 copies, bool vec, LLVMValueRef *out) {
  for (u32 u = 0; u < copies; u++) {
    if (!vec) HS_TRY(scalar_expr(c, x->e, NEST_NONE, &out[u]));
    else HS_TRY(vector_expr(c, x->e, u, fits32(c, x->e) ? c->i32 : c->i64, &out[u]));
  }
  return HS_GOOD;
}

static hs_status emit_guard(cg *c, const nest_node *x, u32 copies, bool vec, LLVMValueRef *out) {
  i64 lo, hi;
  nest_range(c->n, x->e, &lo, &hi);
  bool yes = lo >= x->lo && hi < x->hi, no = hi < x->lo || lo >= x->hi;
  if (yes || no) {
    for (u32 u = 0; u < copies; u++) out[u] = LLVMConstInt(c->i1, yes, false);
    return HS_GOOD;
  }
  HS_TRY(emit_index(c, x, copies, vec, out));
  for (u32 u = 0; u < copies; u++) {
    LLVMTypeRef t = LLVMTypeOf(out[u]);
    LLVMValueRef v = out[u];
    if (hi < x->hi) { out[u] = LLVMBuildICmp(c->b, LLVMIntSGE, v, cg_int(t, x->lo), ""); continue; }
    if (lo >= x->lo) { out[u] = LLVMBuildICmp(c->b, LLVMIntSLT, v, cg_int(t, x->hi), ""); continue; }
    if (x->lo) v = LLVMBuildSub(c->b, v, cg_int(t, x->lo), "");
    out[u] = LLVMBuildICmp(c->b, LLVMIntULT, v, cg_int(t, x->hi - x->lo), "");
  }
  return HS_GOOD;
}

// ---- reductions -----------------------------------------------------------------------------------------------------------------
// The reducer's nodes for one application; acc and elem are the current values.
static hs_status emit_template(cg *c, u32 id, LLVMValueRef *out) {
  const nest_node *x = &c->n->nodes.v[id];
  LLVMValueRef a[3];
  if (!x->templ) {
    LLVMValueRef *p;
    u32 home = c->level;
    NODE(c, id, &p);
    at_level(c, home);
    *out = p[0];
    return HS_GOOD;
  }
  if (x->kind == NEST_ACC) { *out = c->tacc[x->k]; return HS_GOOD; }
  if (x->kind == NEST_ELEM) { *out = c->telem[x->k]; return HS_GOOD; }
  if (c->tmemo[id].set) { *out = c->tmemo[id].v[0]; return HS_GOOD; }
  u32 lanes = 0;
  for (u32 k = 0; k < x->nargs; k++) {
    HS_TRY(emit_template(c, x->args[k], &a[k]));
    if (LLVMGetTypeKind(LLVMTypeOf(a[k])) == LLVMVectorTypeKind) lanes = LLVMGetVectorSize(LLVMTypeOf(a[k]));
  }
  for (u32 k = 0; k < x->nargs && lanes; k++) a[k] = cg_splat(c, a[k], lanes);
  LLVMValueRef v = cg_op(c, x, a);
  if (!v) return hs_fail_subject(HS_E_UNSUPPORTED, hlo_op_text(x->op), "unsupported: %s of %s", hlo_op_text(x->op), hlo_dtype_text(x->in));
  c->tmemo[id].set = true;
  c->tmemo[id].v[0] = v;
  hs_vec_push(&c->tmemoed, id);
  *out = v;
  return HS_GOOD;
}

static hs_status apply(cg *c, const nest_group *g, const LLVMValueRef *acc, const LLVMValueRef *elem, LLVMValueRef *next) {
  c->tacc = acc;
  c->telem = elem;
  for (u32 k = 0; k < g->nacc; k++) HS_TRY(emit_template(c, g->next[k], &next[k]));
  while (c->tmemoed.n) c->tmemo[hs_vec_pop(&c->tmemoed)].set = false;
  return HS_GOOD;
}

static LLVMValueRef identity(cg *c, const nest_group *g, u32 k) {
  hlo_dtype t = c->n->nodes.v[g->acc[k]].dtype;
  LLVMTypeRef r = cg_rep(c, t);
  bool f = hlo_dtype_is_float(t), s = hlo_dtype_is_signed(t);
  u32 w = t == HLO_PRED ? 1 : (u32)hlo_dtype_bits(t);
  switch (g->monoid) {
  case HLO_ADD: return f ? cg_fp(r, -0.0) : LLVMConstNull(r);
  case HLO_OR: case HLO_XOR: return LLVMConstNull(r);
  case HLO_MULTIPLY: return f ? cg_fp(r, 1) : LLVMConstInt(r, 1, false);
  case HLO_AND: return LLVMConstAllOnes(r);
  case HLO_MAXIMUM: return f ? cg_fp(r, -__builtin_inf()) : s ? cg_int(r, w == 64 ? INT64_MIN : -(1ll << (w - 1))) : LLVMConstNull(r);
  case HLO_MINIMUM: return f ? cg_fp(r, __builtin_inf()) : s ? LLVMConstInt(r, (1ull << (w - 1)) - 1, false) : LLVMConstAllOnes(r);
  default: return NULL;
  }
}

typedef struct red {                     // one reduction in progress: all members that share its loops
  u32 n; const nest_group *g[NEST_MAX_ACCS];
  u32 total, copies;                     // accumulators over all members; vectors of each
  bool row;                              // lanes run along its innermost loop
} red;

// One step: next[a * copies + u] = reducer(acc, in), unchanged in masked lanes and where the condition is false.
static hs_status red_step(cg *c, const red *r, LLVMValueRef *acc, u32 copies) {
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
        if (LLVMGetTypeKind(LLVMTypeOf(a[k])) == LLVMVectorTypeKind) e[k] = cg_splat(c, e[k], LLVMGetVectorSize(LLVMTypeOf(a[k])));
      }
      at_level(c, c->open);
      HS_TRY(apply(c, g, a, e, out));
      LLVMValueRef keep = r->row ? c->mask[u] : NULL;
      if (cond && c->lane && (c->n->nodes.v[g->cond].deps & c->lane)) keep = and_mask(c, keep, cond[u]);
      else if (cond) keep = keep ? LLVMBuildAnd(c->b, keep, cg_splat(c, cond[0], c->W), "") : cond[0];
      for (u32 k = 0; k < g->nacc; k++) acc[(base + k) * r->copies + u] = keep ? LLVMBuildSelect(c->b, keep, out[k], a[k], "") : out[k];
    }
  }
  return HS_GOOD;
}

static i64 extent(const cg *c, u32 var) { return c->n->vars.v[var].hi + 1; }

static LLVMValueRef tail_mask(cg *c, LLVMValueRef i, LLVMValueRef end) {
  LLVMValueRef lanes[64];
  for (u32 k = 0; k < c->W; k++) lanes[k] = LLVMConstInt(c->i64, k, false);
  LLVMValueRef left = cg_splat(c, LLVMBuildSub(c->b, end, i, ""), c->W);
  return LLVMBuildICmp(c->b, LLVMIntSLT, LLVMConstVector(lanes, c->W), left, "");
}

static LLVMValueRef clip(cg *c, bool max, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, max ? LLVMIntSGT : LLVMIntSLT, a, b, ""), a, b, "");
}

// Bounds of the outermost loop of a reduction cut into pieces.
static void piece(cg *c, const nest_group *g, LLVMValueRef *from, LLVMValueRef *to) {
  i64 n = extent(c, g->loops[0]);
  *from = LLVMBuildNSWMul(c->b, c->loop_val[c->n->vars.v[g->seg].loop], i64c(c, g->seg_size), "");
  *to = LLVMBuildNSWAdd(c->b, *from, i64c(c, g->seg_size), "");
  if (n % g->seg_size) *to = clip(c, false, *to, i64c(c, n));
}

static hs_status red_lanes_piece(cg *c, const red *r, u32 bit, LLVMValueRef *acc) {
  u32 U = c->U;
  LLVMValueRef from, to, at;
  piece(c, r->g[0], &from, &to);
  HS_TRY(open_loop(c, bit, from, to, (i64)(U * c->W), true, r->total * r->copies, acc));
  HS_TRY(red_step(c, r, acc, U));
  at = close_loop(c, acc);
  c->U = 1;
  HS_TRY(open_loop(c, bit, at, LLVMBuildAdd(c->b, to, i64c(c, (i64)c->W - 1), ""), (i64)c->W, true, r->total * r->copies, acc));
  c->mask[0] = tail_mask(c, c->loop_val[bit], to);
  HS_TRY(red_step(c, r, acc, 1));
  c->mask[0] = NULL;
  (void)close_loop(c, acc);
  c->U = U;
  return HS_GOOD;
}

// The innermost loop of a row-form reduction: U vectors a turn, then one masked vector at a time.
static hs_status red_lanes(cg *c, const red *r, u32 var, bool cut, LLVMValueRef *acc) {
  u32 bit = c->n->vars.v[var].loop, U = c->U;
  if (cut) return red_lanes_piece(c, r, bit, acc);
  i64 n = extent(c, var), step = (i64)(U * c->W), whole = n / step * step;
  if (whole) {
    HS_TRY(open_loop(c, bit, i64c(c, 0), i64c(c, n), step, false, r->total * r->copies, acc));
    HS_TRY(red_step(c, r, acc, U));
    (void)close_loop(c, acc);
  }
  if (whole == n) return HS_GOOD;
  c->U = 1;
  HS_TRY(open_loop(c, bit, i64c(c, whole), i64c(c, n + (i64)c->W - 1), (i64)c->W, false, r->total * r->copies, acc));
  if ((n - whole) % (i64)c->W) c->mask[0] = tail_mask(c, c->loop_val[bit], i64c(c, n));
  HS_TRY(red_step(c, r, acc, 1));
  c->mask[0] = NULL;
  (void)close_loop(c, acc);
  c->U = U;
  return HS_GOOD;
}

static hs_status red_loops(cg *c, const red *r, u32 depth, LLVMValueRef *acc) {
  const nest_group *g = r->g[0];
  if (depth == g->nloops) return red_step(c, r, acc, r->copies);
  bool cut = depth == 0 && g->seg != NEST_NONE;
  if (r->row && depth + 1 == g->nloops) return red_lanes(c, r, g->loops[depth], cut, acc);
  u32 var = g->loops[depth], bit = c->n->vars.v[var].loop;
  i64 rest = 1, n = extent(c, var);
  for (u32 k = depth; k < g->nloops && rest <= 64; k++) rest *= extent(c, g->loops[k]);
  if (rest <= 16 && !r->row && !cut) {                        // short: no loop, so that nothing is left for LLVM to unroll
    nest_var keep = c->n->vars.v[var];
    c->open_mask |= 1ull << bit;
    c->loop_level[bit] = c->open;
    for (i64 i = 0; i < n; i++) {
      c->n->vars.v[var].lo = c->n->vars.v[var].hi = i;
      c->loop_val[bit] = i64c(c, i);
      hs_status s = red_loops(c, r, depth + 1, acc);
      forget(c, CG_MAX_LEVELS, 1ull << bit);
      c->n->vars.v[var] = keep;
      HS_TRY(s);
    }
    c->open_mask &= ~(1ull << bit);
    return HS_GOOD;
  }
  LLVMValueRef from = i64c(c, 0), to = i64c(c, n);
  if (cut) piece(c, g, &from, &to);
  HS_TRY(open_loop(c, bit, from, to, 1, false, r->total * r->copies, acc));
  HS_TRY(red_loops(c, r, depth + 1, acc));
  (void)close_loop(c, acc);
  return HS_GOOD;
}

// Folds U vectors, then the lanes of one, by the reducer itself.
static hs_status red_fold(cg *c, const nest_group *g, u32 copies, LLVMValueRef *acc, u32 stride, LLVMValueRef *out) {
  LLVMValueRef a[64], b[64];
  for (u32 k = 0; k < g->nacc; k++) out[k] = acc[k * stride];
  for (u32 u = 1; u < copies; u++) {
    for (u32 k = 0; k < g->nacc; k++) a[k] = out[k], b[k] = acc[k * stride + u];
    HS_TRY(apply(c, g, a, b, out));
  }
  for (u32 w = c->W / 2; w >= 1; w /= 2) {
    for (u32 k = 0; k < g->nacc; k++) {
      LLVMValueRef lo[64], hi[64], poison = LLVMGetPoison(LLVMTypeOf(out[k]));
      for (u32 j = 0; j < w; j++) lo[j] = LLVMConstInt(c->i32, j, false), hi[j] = LLVMConstInt(c->i32, j + w, false);
      a[k] = LLVMBuildShuffleVector(c->b, out[k], poison, LLVMConstVector(lo, w), "");
      b[k] = LLVMBuildShuffleVector(c->b, out[k], poison, LLVMConstVector(hi, w), "");
    }
    HS_TRY(apply(c, g, a, b, out));
  }
  for (u32 k = 0; k < g->nacc; k++) out[k] = LLVMBuildExtractElement(c->b, out[k], LLVMConstInt(c->i32, 0, false), "");
  return HS_GOOD;
}

// How far rows pay: the last reduction loop is read with stride one by some load.
static bool reads_along(const cg *c, u32 node, u32 var, u32 depth) {
  const nest_node *x = &c->n->nodes.v[node];
  if (depth > 200 || !(x->deps & 1ull << c->n->vars.v[var].loop)) return false;
  if (x->kind == NEST_LOAD) {
    i64 k = nest_coef(x->e, var);
    return k == 1 || k == -1;
  }
  for (u32 k = 0; k < x->nargs; k++)
    if (reads_along(c, x->args[k], var, depth + 1)) return true;
  return x->kind == NEST_INDEX || x->kind == NEST_CONST;
}

static bool row_form(const cg *c, const red *r) {
  const nest_group *g = r->g[0];
  if (g->nloops == 0 || c->vector_bytes == 0) return false;
  u32 var = g->loops[g->nloops - 1];
  if (extent(c, var) < 8) return false;
  bool along = false;
  for (u32 m = 0; m < r->n; m++) {
    if (!r->g[m]->free_order) return false;
    for (u32 k = 0; k < r->g[m]->nacc; k++) along |= reads_along(c, r->g[m]->in[k], var, 0);
  }
  return along || extent(c, var) >= 64;
}

static u32 row_lanes(const cg *c, const red *r) {     // lanes for the widest accumulator
  size_t widest = 1;
  for (u32 m = 0; m < r->n; m++)
    for (u32 k = 0; k < r->g[m]->nacc; k++) {
      hlo_dtype t = c->n->nodes.v[r->g[m]->acc[k]].dtype;
      widest = HS_MAX(widest, nest_is_narrow(t) ? 4 : hlo_dtype_storage(t));
    }
  return HS_MIN(64, c->vector_bytes / (u32)widest);
}

static hs_status emit_group(cg *c, u32 group) {
  const nest *n = c->n;
  red r = {0};
  u32 root = n->groups.v[group].merged_into;
  u64 deps = 0;
  for (size_t k = 0; k < n->groups.n; k++) {
    if (n->groups.v[k].merged_into != root) continue;
    const nest_group *g = &n->groups.v[k];
    r.g[r.n++] = g;
    r.total += g->nacc;
    for (u32 a = 0; a < g->nacc; a++) deps |= n->nodes.v[g->out[a]].deps;
  }
  u32 home = c->level;
  // The lane loop of the surroundings stays when the result varies over it; else the reduction may use lanes itself.
  u64 lane = c->lane;
  u32 W = c->W, U = c->U;
  LLVMValueRef mask[CG_MAX_UNROLL], *acc = NULL;
  memcpy(mask, c->mask, sizeof mask);
  bool column = lane && (deps & lane);
  u32 save_open = c->open;
  HS_ASSERT(level_of(c, deps) <= c->open);
  if (!column) {
    c->lane = 0;
    c->W = c->U = 1;
    memset(c->mask, 0, sizeof c->mask);
    r.row = row_form(c, &r);
  }
  if (r.row) {
    u32 var = r.g[0]->loops[r.g[0]->nloops - 1];
    c->lane = 1ull << n->vars.v[var].loop;
    c->W = row_lanes(c, &r);
    while (c->W > 4 && extent(c, var) * 2 <= c->W) c->W /= 2;
    c->U = (u32)HS_MIN(HS_MAX(extent(c, var) / c->W, 1), r.total > 4 ? 2 : 4);
  }
  r.copies = c->lane ? c->U : 1;
  // Work at the level of the result: outer loops that it does not depend on are left out.
  u32 level = level_of(c, deps);
  LLVMBasicBlockRef hidden[CG_MAX_LEVELS];
  cg_loop hidden_loops[CG_MAX_LEVELS];
  memcpy(hidden, c->ins, sizeof hidden);
  memcpy(hidden_loops, c->loops, sizeof hidden_loops);
  u64 hidden_mask = c->open_mask;
  for (u32 l = level + 1; l <= save_open; l++)
    if (hidden_loops[l].bit != NEST_NONE) c->open_mask &= ~(1ull << hidden_loops[l].bit);
  c->open = level;
  at_level(c, level);
  acc = hs_calloc((size_t)r.total * r.copies + 1, sizeof *acc);
  hs_status s = HS_GOOD;
  for (u32 m = 0, base = 0; m < r.n && hs_ok(s); base += r.g[m++]->nacc)
    for (u32 k = 0; k < r.g[m]->nacc && hs_ok(s); k++) {
      LLVMValueRef *p = NULL, id = r.row || r.g[m]->seg != NEST_NONE ? identity(c, r.g[m], k) : NULL;
      bool vec = column && (n->nodes.v[r.g[m]->init[k]].deps & lane);
      if (!id) s = emit_node(c, r.g[m]->init[k], &p);
      at_level(c, level);
      for (u32 u = 0; u < r.copies && hs_ok(s); u++) {
        LLVMValueRef v = id ? id : p[vec ? u : 0];
        acc[(base + k) * r.copies + u] = c->lane ? cg_splat(c, v, c->W) : v;
      }
    }
  if (hs_ok(s)) s = red_loops(c, &r, 0, acc);
  at_level(c, level);
  for (u32 m = 0, base = 0; m < r.n && hs_ok(s); base += r.g[m++]->nacc) {
    const nest_group *g = r.g[m];
    LLVMValueRef out[64];
    if (r.row) {
      s = red_fold(c, g, r.copies, acc + base * r.copies, r.copies, out);
      if (hs_ok(s) && g->monoid != HLO_OP_INVALID && g->seg == NEST_NONE) {
        LLVMValueRef *p, in[64];
        for (u32 k = 0; k < g->nacc && hs_ok(s); k++) {
          s = emit_node(c, g->init[k], &p);
          if (hs_ok(s)) in[k] = p[0];
        }
        at_level(c, level);
        if (hs_ok(s)) s = apply(c, g, in, out, out);
      }
    }
    for (u32 k = 0; k < g->nacc && hs_ok(s); k++) {
      cg_memo *o = &c->memo[g->out[k]];
      o->set = true;
      o->level = level;
      for (u32 u = 0; u < (column ? U : 1u); u++) o->v[u] = r.row ? out[k] : acc[(base + k) * r.copies + u];
      hs_vec_push(&c->memoed, g->out[k]);
    }
  }
  hs_free(acc);
  for (u32 l = level + 1; l <= save_open; l++) c->ins[l] = hidden[l], c->loops[l] = hidden_loops[l];
  c->open_mask = hidden_mask;
  c->open = save_open;
  c->lane = lane;
  c->W = W;
  c->U = U;
  memcpy(c->mask, mask, sizeof mask);
  at_level(c, home);
  return s;
}

// ---- nodes ----------------------------------------------------------------------------------------------------------------------
static hs_status emit_op(cg *c, const nest_node *x, u32 copies, bool vec, LLVMValueRef *out) {
  LLVMValueRef *p[3] = {0}, a[3];
  bool av[3] = {0};
  nest_node y = *x;
  if (x->op == HLO_SELECT) {                           // a guard that this stretch of the loop decides
    NODE(c, x->args[0], &p[0]);
    if (LLVMIsConstant(p[0][0]) && LLVMTypeOf(p[0][0]) == c->i1) {
      u32 pick = x->args[LLVMConstIntGetZExtValue(p[0][0]) ? 1 : 2];
      NODE(c, pick, &p[1]);
      bool wide = c->lane && (c->n->nodes.v[pick].deps & c->lane);
      at_level(c, c->level);
      for (u32 u = 0; u < copies; u++) out[u] = vec ? cg_splat(c, p[1][wide ? u : 0], c->W) : p[1][0];
      return HS_GOOD;
    }
  }
  if (x->op == HLO_AND && x->in == HLO_PRED) {         // guards already decided
    for (u32 k = 0; k < 2; k++) {
      NODE(c, x->args[k], &p[k]);
      if (!LLVMIsConstant(p[k][0]) || LLVMTypeOf(p[k][0]) != c->i1) continue;
      u32 other = x->args[LLVMConstIntGetZExtValue(p[k][0]) ? 1 - k : k];
      NODE(c, other, &p[k]);
      bool wide = c->lane && (c->n->nodes.v[other].deps & c->lane);
      for (u32 u = 0; u < copies; u++) out[u] = p[k][wide ? u : 0];
      return HS_GOOD;
    }
  }
  for (u32 k = 0; k < x->nargs; k++) {
    NODE(c, x->args[k], &p[k]);
    av[k] = c->lane && (c->n->nodes.v[x->args[k]].deps & c->lane);
  }
  if (x->op == HLO_CONVERT && c->n->nodes.v[x->args[0]].kind == NEST_INDEX) {   // indices come as i32 where they fit
    LLVMTypeRef t = LLVMTypeOf(p[0][0]);
    if (LLVMGetTypeKind(t) == LLVMVectorTypeKind && LLVMGetElementType(t) == c->i32) y.in = HLO_S32;
  }
  for (u32 u = 0; u < copies; u++) {
    for (u32 k = 0; k < x->nargs; k++) a[k] = vec ? cg_splat(c, p[k][av[k] ? u : 0], c->W) : p[k][0];
    out[u] = cg_op(c, &y, a);
    if (!out[u]) return hs_fail_subject(HS_E_UNSUPPORTED, hlo_op_text(x->op), "unsupported: %s of %s", hlo_op_text(x->op), hlo_dtype_text(x->in));
  }
  return HS_GOOD;
}

static hs_status emit_node(cg *c, u32 id, LLVMValueRef **out) {
  cg_memo *m = &c->memo[id];
  *out = m->v;
  if (m->set) return HS_GOOD;
  const nest_node *x = &c->n->nodes.v[id];
  u32 home = c->level, level = level_of(c, x->deps);
  bool vec = c->lane && (x->deps & c->lane);
  u32 copies = vec ? c->U : 1;
  hs_status s = HS_GOOD;
  at_level(c, level);
  switch (x->kind) {
  case NEST_CONST: m->v[0] = cg_const(c, x->dtype, x->bits); break;
  case NEST_LOAD: s = emit_load(c, x, copies, vec, m->v); break;
  case NEST_INDEX: s = emit_index(c, x, copies, vec, m->v); break;
  case NEST_GUARD: s = emit_guard(c, x, copies, vec, m->v); break;
  case NEST_OP: s = emit_op(c, x, copies, vec, m->v); break;
  case NEST_REDUCE:
    s = emit_group(c, x->group);
    at_level(c, home);
    return s;
  case NEST_ACC: case NEST_ELEM: s = hs_fail(HS_E_INTERNAL, "emit: placeholder outside its reducer"); break;
  }
  at_level(c, home);
  HS_TRY(s);
  m->set = true;
  m->level = level;
  hs_vec_push(&c->memoed, id);
  return HS_GOOD;
}
#undef NODE

// ---- stages ---------------------------------------------------------------------------------------------------------------------
static hs_status emit_stores(cg *c) {
  for (size_t k = 0; k < c->stage->stores.n; k++) HS_TRY(emit_store(c, &c->stage->stores.v[k]));
  return HS_GOOD;
}

static hs_status lane_turns(cg *c, u32 bit, LLVMValueRef start, LLVMValueRef end, bool full, bool tail, bool only_tail) {
  LLVMValueRef at = start;
  c->lane = 1ull << bit;
  c->W = c->stage->lanes;
  if (!only_tail) {
    c->U = c->stage->unroll;
    HS_TRY(open_loop(c, bit, start, end, (i64)(c->U * c->W), !full, 0, NULL));
    HS_TRY(emit_stores(c));
    at = close_loop(c, NULL);
  }
  if (tail) {
    c->U = 1;
    LLVMValueRef stop = LLVMBuildAdd(c->b, end, i64c(c, (i64)c->W - 1), "");
    HS_TRY(open_loop(c, bit, at, stop, (i64)c->W, !only_tail || !full, 0, NULL));
    c->mask[0] = tail_mask(c, c->loop_val[bit], end);
    HS_TRY(emit_stores(c));
    c->mask[0] = NULL;
    (void)close_loop(c, NULL);
  }
  c->lane = 0;
  c->W = c->U = 1;
  return HS_GOOD;
}

// Where guards that vary over the lane loop alone change their value: the loop is cut there.
static u32 lane_cuts(const cg *c, u32 var, i64 n, i64 *cuts) {
  u32 k = 0;
  cuts[k++] = 0;
  cuts[k++] = n;
  for (size_t i = 0; i < c->n->nodes.n; i++) {
    const nest_node *x = &c->n->nodes.v[i];
    if (x->kind != NEST_GUARD || !nest_coef(x->e, var)) continue;
    i64 coef = nest_coef(x->e, var), lo = x->e->c, hi = x->e->c;
    bool plain = true;
    for (u32 t = 0; t < x->e->n; t++) {
      const nest_var *v = &c->n->vars.v[x->e->t[t].var];
      if (x->e->t[t].var == var) continue;
      bool own = v->kind == NEST_LOOP;
      for (u32 l = 0; l < c->stage->nloops && own; l++) own = c->stage->loops[l] != x->e->t[t].var;
      plain &= own;                                    // a reduction's loop: only its range matters
      lo += x->e->t[t].coef * (x->e->t[t].coef > 0 ? v->lo : v->hi);
      hi += x->e->t[t].coef * (x->e->t[t].coef > 0 ? v->hi : v->lo);
    }
    if (!plain || coef < 0) continue;
    i64 a = x->lo - lo, b = x->hi - 1 - hi;            // true for all: coef*x >= a and coef*x <= b
    i64 from = a <= 0 ? 0 : (a + coef - 1) / coef, to = b < 0 ? 0 : b / coef + 1;
    for (int s = 0; s < 2; s++) {
      i64 cut = s ? to : from;
      if (cut <= 0 || cut >= n || k >= 10) continue;
      u32 p = k;
      while (p > 0 && cuts[p - 1] > cut) p--;
      if (p > 0 && cuts[p - 1] == cut) continue;
      memmove(cuts + p + 1, cuts + p, (k - p) * sizeof *cuts);
      cuts[p] = cut;
      k++;
    }
  }
  return k;
}

static hs_status emit_lane_loop(cg *c, u32 var, LLVMValueRef start, LLVMValueRef end, bool whole, bool aligned) {
  nest_var keep = c->n->vars.v[var];
  u32 bit = keep.loop;
  i64 n = keep.hi + 1, step = (i64)(c->stage->unroll * c->stage->lanes), cuts[16];
  u32 ncuts = lane_cuts(c, var, n, cuts);
  hs_status s = HS_GOOD;
  if (ncuts == 2) {
    bool tail = n % step != 0 || (!whole && !aligned);
    return lane_turns(c, bit, start, end, whole ? n >= step : false, tail, n < step);
  }
  for (u32 k = 0; k + 1 < ncuts && hs_ok(s); k++) {
    i64 a = cuts[k], b = cuts[k + 1];
    c->n->vars.v[var].lo = a;
    c->n->vars.v[var].hi = b - 1;
    at_level(c, c->open);
    LLVMValueRef from = i64c(c, a), to = i64c(c, b);
    if (!whole) from = clip(c, true, from, start), to = clip(c, false, to, end);
    s = lane_turns(c, bit, from, to, whole, !whole || (b - a) % step != 0, b - a < step);
    c->n->vars.v[var] = keep;
  }
  return s;
}

#define TILE_BLOCK 64

// One tile, or what a partial one covers.
static hs_status one_tile(cg *c, u64 ibit, u64 jbit, LLVMValueRef i_left, LLVMValueRef j_left) {
  c->tile = jbit;
  c->lane = ibit | jbit;
  c->W = c->U = c->stage->lanes;
  c->lane_left = i_left;
  c->tile_left = j_left;
  at_level(c, c->open);
  LLVMValueRef along = i_left ? below(c, i_left) : NULL;
  for (u32 u = 0; u < c->U; u++) {
    c->mask[u] = along;
    if (j_left) c->mask[u] = and_mask(c, along, cg_splat(c, LLVMBuildICmp(c->b, LLVMIntSLT, i64c(c, u), j_left, ""), c->W));
  }
  hs_status s = emit_stores(c);
  memset(c->mask, 0, sizeof c->mask);
  c->lane_left = c->tile_left = NULL;
  c->tile = c->lane = 0;
  c->W = c->U = 1;
  return s;
}

static hs_status tile_rows(cg *c, u32 i, u32 j, LLVMValueRef i0, LLVMValueRef i1, bool i_tail, LLVMValueRef j_left) {
  i64 W = (i64)c->stage->lanes;
  HS_TRY(open_loop(c, i, i0, i1, W, true, 0, NULL));
  HS_TRY(one_tile(c, 1ull << i, 1ull << j, NULL, j_left));
  LLVMValueRef at = close_loop(c, NULL);
  if (!i_tail) return HS_GOOD;
  HS_TRY(open_loop(c, i, at, LLVMBuildAdd(c->b, i1, i64c(c, W - 1), ""), W, true, 0, NULL));
  HS_TRY(one_tile(c, 1ull << i, 1ull << j, LLVMBuildSub(c->b, i1, c->loop_val[i], ""), j_left));
  (void)close_loop(c, NULL);
  return HS_GOOD;
}

// Blocks of 64 x 64, so that the lines of both sides stay in the first-level cache while all of each is used.
static hs_status emit_tiles(cg *c, LLVMValueRef i0, LLVMValueRef i1, LLVMValueRef j0, LLVMValueRef j1) {
  const nest_stage *st = c->stage;
  u32 vi = st->loops[st->nloops - 1], vj = st->loops[st->tile], i = c->n->vars.v[vi].loop, j = c->n->vars.v[vj].loop;
  i64 W = (i64)st->lanes;
  bool i_tail = extent(c, vi) % W != 0, j_tail = extent(c, vj) % W != 0;
  HS_TRY(open_loop(c, NEST_NONE, i0, LLVMBuildAdd(c->b, i1, i64c(c, TILE_BLOCK - 1), ""), TILE_BLOCK, false, 0, NULL));
  LLVMValueRef ib = c->loops[c->open].phi, ie = clip(c, false, LLVMBuildAdd(c->b, ib, i64c(c, TILE_BLOCK), ""), i1);
  HS_TRY(open_loop(c, NEST_NONE, j0, LLVMBuildAdd(c->b, j1, i64c(c, TILE_BLOCK - 1), ""), TILE_BLOCK, false, 0, NULL));
  LLVMValueRef jb = c->loops[c->open].phi, je = clip(c, false, LLVMBuildAdd(c->b, jb, i64c(c, TILE_BLOCK), ""), j1);
  HS_TRY(open_loop(c, j, jb, je, W, true, 0, NULL));
  HS_TRY(tile_rows(c, i, j, ib, ie, i_tail, NULL));
  LLVMValueRef at = close_loop(c, NULL);
  if (j_tail) {
    HS_TRY(open_loop(c, j, at, LLVMBuildAdd(c->b, je, i64c(c, W - 1), ""), W, true, 0, NULL));
    HS_TRY(tile_rows(c, i, j, ib, ie, i_tail, LLVMBuildSub(c->b, je, c->loop_val[j], "")));
    (void)close_loop(c, NULL);
  }
  (void)close_loop(c, NULL);
  (void)close_loop(c, NULL);
  return HS_GOOD;
}

static hs_status emit_stage(cg *c, const nest_stage *st, LLVMValueRef chunk) {
  LLVMValueRef from[NEST_MAX_LOOPS], to[NEST_MAX_LOOPS], rest = chunk;
  c->stage = st;
  at_level(c, 0);
  for (u32 k = st->nloops; k-- > 0;) {                 // the chunk number is mixed radix over the split loops
    i64 n = extent(c, st->loops[k]);
    from[k] = i64c(c, 0);
    to[k] = i64c(c, n);
    if (st->split[k] <= 1) continue;
    LLVMValueRef at = LLVMBuildURem(c->b, rest, i64c(c, st->split[k]), "");
    rest = LLVMBuildUDiv(c->b, rest, i64c(c, st->split[k]), "");
    from[k] = LLVMBuildNSWMul(c->b, at, i64c(c, st->block[k]), "");
    to[k] = LLVMBuildNSWAdd(c->b, from[k], i64c(c, st->block[k]), "");
    if (st->split[k] * st->block[k] != n) to[k] = clip(c, false, to[k], i64c(c, n));
  }
  u32 scalar = st->vector ? st->nloops - 1 : st->nloops, base = c->open;
  for (u32 k = 0; k < scalar; k++) {
    if (k == st->tile) continue;
    HS_TRY(open_loop(c, c->n->vars.v[st->loops[k]].loop, from[k], to[k], 1, false, 0, NULL));
  }
  if (st->tile != NEST_NONE) {
    at_level(c, c->open);
    HS_TRY(emit_tiles(c, from[scalar], to[scalar], from[st->tile], to[st->tile]));
  } else if (st->vector) {
    u32 k = st->nloops - 1;
    i64 step = (i64)(st->unroll * st->lanes);
    HS_TRY(emit_lane_loop(c, st->loops[k], from[k], to[k], st->split[k] <= 1, st->block[k] % step == 0));
  } else {
    c->lane = 0;
    c->W = c->U = 1;
    HS_TRY(emit_stores(c));
  }
  while (c->open > base) (void)close_loop(c, NULL);
  return HS_GOOD;
}

static void fn_attr(cg *c, const char *key, const char *value) {
  LLVMAddAttributeAtIndex(c->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateStringAttribute(c->ctx, key, (unsigned)strlen(key), value, (unsigned)strlen(value)));
}

static void begin_function(cg *c, const char *name) {
  LLVMTypeRef params[3] = {c->ptr, c->i64, c->ptr};
  c->fn = LLVMAddFunction(c->mod, name, LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), params, 3, false));
  fn_attr(c, "prefer-vector-width", c->vector_bytes == 64 ? "512" : "256");
  fn_attr(c, "min-legal-vector-width", c->vector_bytes == 64 ? "512" : "256");
  unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
  LLVMAddAttributeAtIndex(c->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(c->ctx, nounwind, 0));
  c->args = LLVMGetParam(c->fn, 0);
  c->chunk = LLVMGetParam(c->fn, 1);
  c->scratch = LLVMGetParam(c->fn, 2);
  c->open = 0;
  c->ins[0] = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "");
  at_level(c, 0);
  bool guards = false;
  for (size_t k = 0; k < c->n->nodes.n; k++) guards |= c->n->nodes.v[k].kind == NEST_LOAD && c->n->nodes.v[k].guard != NEST_NONE;
  if (guards) {
    c->safe = LLVMBuildAlloca(c->b, c->i64, "");
    LLVMBuildStore(c->b, i64c(c, 0), c->safe);
  }
  for (size_t k = 0; k < c->n->bufs.n; k++) {
    const nest_buf *b = &c->n->bufs.v[k];
    if (b->arg == NEST_BUF_CONST) c->bufs[k] = LLVMConstIntToPtr(LLVMConstInt(c->i64, (u64)(uintptr_t)b->data, false), c->ptr);
    else if (b->arg == NEST_BUF_SCRATCH) c->bufs[k] = gep(c, c->i8, c->scratch, i64c(c, b->offset));
    else c->bufs[k] = LLVMBuildLoad2(c->b, c->ptr, gep(c, c->ptr, c->args, i64c(c, b->arg)), "");
  }
}

static hs_status emit_stages(cg *c, size_t count, const nest_stage *stages) {
  if (count == 1) {
    HS_TRY(emit_stage(c, &stages[0], c->chunk));
    LLVMBuildRetVoid(c->b);
    return HS_GOOD;
  }
  i64 base = 0;
  for (size_t s = 0; s < count; s++) {           // stages take their share of the chunk numbers in turn
    i64 chunks = stages[s].chunks;
    at_level(c, 0);
    LLVMBasicBlockRef here = LLVMAppendBasicBlockInContext(c->ctx, c->fn, ""), next = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "");
    LLVMBuildCondBr(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, c->chunk, i64c(c, base + chunks), ""), here, next);
    forget(c, 0, 0);
    c->ins[0] = here;
    at_level(c, 0);
    HS_TRY(emit_stage(c, &stages[s], LLVMBuildSub(c->b, c->chunk, i64c(c, base), "")));
    LLVMBuildRetVoid(c->b);
    forget(c, 0, 0);
    c->ins[0] = next;
    base += chunks;
  }
  at_level(c, 0);
  LLVMBuildRetVoid(c->b);
  return HS_GOOD;
}

hs_status cg_kernel(LLVMContextRef ctx, LLVMModuleRef mod, nest *n, const char *name, u32 vector_bytes) {
  cg *c = hs_calloc(1, sizeof *c);
  *c = (cg){.ctx = ctx, .mod = mod, .n = n, .vector_bytes = vector_bytes, .W = 1, .U = 1};
  c->b = LLVMCreateBuilderInContext(ctx);
  c->i1 = LLVMInt1TypeInContext(ctx), c->i8 = LLVMInt8TypeInContext(ctx), c->i16 = LLVMInt16TypeInContext(ctx);
  c->i32 = LLVMInt32TypeInContext(ctx), c->i64 = LLVMInt64TypeInContext(ctx), c->f16 = LLVMHalfTypeInContext(ctx);
  c->f32 = LLVMFloatTypeInContext(ctx), c->f64 = LLVMDoubleTypeInContext(ctx), c->ptr = LLVMPointerTypeInContext(ctx, 0);
  c->bufs = hs_calloc(n->bufs.n + 1, sizeof *c->bufs);
  c->memo = hs_calloc(n->nodes.n + 1, sizeof *c->memo);
  c->tmemo = hs_calloc(n->nodes.n + 1, sizeof *c->tmemo);
  begin_function(c, name);
  hs_status s = emit_stages(c, n->stages.n, n->stages.v);
  if (hs_ok(s) && n->finish.n) {
    char *second = hs_format("%s_finish", name);
    forget(c, 0, 0);
    begin_function(c, second);
    hs_free(second);
    s = emit_stages(c, n->finish.n, n->finish.v);
  }
  LLVMDisposeBuilder(c->b);
  hs_free(c->bufs);
  hs_free(c->memo);
  hs_free(c->tmemo);
  hs_vec_free(&c->memoed);
  hs_vec_free(&c->tmemoed);
  hs_free(c);
  return s;
}
