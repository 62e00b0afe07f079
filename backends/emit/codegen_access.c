// codegen_access.c — the nodes that index expressions make: loads, stores, indices, guards.
//
// How a load runs in lanes depends on its stride along the lane loop: 1 and -1 are vector loads
// (reversed for -1), 2 to 4 are whole vectors and shuffles, and so is what reads near elements in
// an order that is the same at every step; everything else is a gather; a value that does not vary
// is loaded once and splat. Loads under a guard are masked by it; a scalar one reads from `safe`,
// zeros on the stack, where its guard is false. In a tile, W vector loads and log2 W rounds of
// shuffles transpose the square.
#include "backends/emit/codegen.h"

// Stores past the caches are weakly ordered: a fence ends the function. Only x86 has them here.
#if defined(__x86_64__)
#define STREAMING true
#else
#define STREAMING false
#endif

bool cg_is_periodic(const cg *c, const nest_node *x) {
  if (!c->stride || x->kind != NEST_LOAD || x->guard != NEST_NONE) return false;
  for (u32 i = 0; i < x->e->n; i++)
    if ((cg_var_deps(c, x->e->t[i].var) & c->lane) && !cg_repeats(c, &c->n->vars.v[x->e->t[i].var]))
      return false;
  return true;
}

// ---- memory -------------------------------------------------------------------------------------
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

static LLVMValueRef masked_load(cg *c, bool gather, LLVMValueRef p, LLVMTypeRef vt, u32 align,
                                LLVMValueRef mask) {
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

static void masked_store(cg *c, bool scatter, LLVMValueRef v, LLVMValueRef p, u32 align,
                         LLVMValueRef mask) {
  LLVMTypeRef types[2] = {LLVMTypeOf(v), LLVMTypeOf(p)};
  LLVMValueRef args[4];
  u32 n = 0;
  args[n++] = v;
  args[n++] = p;
  if (MASKED_ALIGN_ARG) args[n++] = LLVMConstInt(c->i32, align, false);
  args[n++] = mask;
  LLVMValueRef r =
      cg_intrinsic(c, scatter ? "llvm.masked.scatter" : "llvm.masked.store", 2, types, n, args);
  if (!MASKED_ALIGN_ARG) set_align(r, 2, c, align);
}

static LLVMValueRef reversed(cg *c, LLVMValueRef v) {
  LLVMValueRef m[64];
  for (u32 k = 0; k < c->W; k++) m[k] = LLVMConstInt(c->i32, c->W - 1 - k, false);
  return LLVMBuildShuffleVector(c->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(m, c->W),
                                "");
}

// The part of the address that does not vary over the lane loop is computed at its own level, and
// the lane loop's part is added here.
hs_status cg_lane_pointer(cg *c, u32 buf, const nest_expr *e, u32 var, i64 coef, LLVMTypeRef mt,
                          LLVMValueRef *out) {
  LLVMValueRef base;
  u32 home = c->level;
  u64 deps = nest_deps(c->n, e) & ~(var == NEST_NONE ? 0 : c->lane);
  cg_at_level(c, cg_level_of(c, deps));
  HS_TRY(cg_expr(c, e, var, &base));
  LLVMValueRef p = cg_gep(c, mt, c->bufs[buf], base);
  cg_at_level(c, home);
  if (var != NEST_NONE) {
    LLVMValueRef i = c->loop_val[c->n->vars.v[var].loop];
    p = cg_gep(c, mt, p, coef == 1 ? i : LLVMBuildNSWMul(c->b, i, cg_ixc(c, coef), ""));
  }
  *out = p;
  return HS_GOOD;
}

// ---- tiles --------------------------------------------------------------------------------------
// The coefficients of the lane loop and the tile loop; false when either is inside an atom.
static bool tile_affine(const cg *c, const nest_expr *e, i64 *lane, i64 *tile) {
  *lane = *tile = 0;
  for (u32 i = 0; i < e->n; i++) {
    u64 d = cg_var_deps(c, e->t[i].var) & c->lane;
    if (!d) continue;
    if (c->n->vars.v[e->t[i].var].kind != NEST_LOOP) return false;
    *(d == c->tile ? tile : lane) = e->t[i].coef;
  }
  return true;
}

// Pointer to the element at the tile's corner.
static hs_status tile_pointer(cg *c, u32 buf, const nest_expr *e, i64 ci, i64 cj, LLVMTypeRef mt,
                              LLVMValueRef *out) {
  nest_term uni[64] = {0};
  u32 nu = 0;
  LLVMValueRef base, i = NULL, j = NULL;
  for (u32 k = 0; k < e->n; k++) {
    u64 d = cg_var_deps(c, e->t[k].var) & c->lane;
    if (!d && nu < 64) uni[nu++] = e->t[k];
    else if (d == c->tile) j = c->loop_val[c->n->vars.v[e->t[k].var].loop];
    else i = c->loop_val[c->n->vars.v[e->t[k].var].loop];
  }
  HS_TRY(cg_expr(c, nest_make(c->n, e->c, nu, uni), NEST_NONE, &base));
  if (i) base = LLVMBuildNSWAdd(c->b, base, LLVMBuildNSWMul(c->b, i, cg_ixc(c, ci), ""), "");
  if (j) base = LLVMBuildNSWAdd(c->b, base, LLVMBuildNSWMul(c->b, j, cg_ixc(c, cj), ""), "");
  *out = cg_gep(c, mt, c->bufs[buf], base);
  return HS_GOOD;
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

// Brings the line at p, which the next block of tiles loads, to the second-level cache.
static void fetch_ahead(cg *c, LLVMValueRef p) {
  enum { READ = 0, SECOND_LEVEL = 2, DATA = 1 };
  LLVMTypeRef t = LLVMTypeOf(p);
  LLVMValueRef args[] = {p, LLVMConstInt(c->i32, READ, false),
                         LLVMConstInt(c->i32, SECOND_LEVEL, false),
                         LLVMConstInt(c->i32, DATA, false)};
  (void)cg_intrinsic(c, "llvm.prefetch", 1, &t, 4, args);
}

// The lanes of the u-th vector that a load reads. One that does not vary along the tile loop stands
// in front of it, where nothing is known of the rows that a partial tile leaves out.
static LLVMValueRef load_mask(const cg *c, const nest_node *x, u32 u) {
  return c->tile && !(x->deps & c->tile) ? c->lane_mask : c->mask[u];
}

// Loads of a tile, transposed in registers where needed; *done is false when the access is neither
// contiguous along the rows nor along the columns and has to be a gather.
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
      q = u && cj ? cg_gep(c, mt, p, cg_ixc(c, u * cj)) : p;
      LLVMValueRef mask = load_mask(c, x, u);
      if (mask) out[u] = masked_load(c, false, q, vt, align, mask);
      else LLVMSetAlignment(out[u] = LLVMBuildLoad2(c->b, vt, q, ""), align);
    }
  } else {
    LLVMValueRef below = c->tile_left ? cg_below(c, c->tile_left) : NULL;
    for (u32 l = 0; l < c->W; l++) {
      q = l ? cg_gep(c, mt, p, cg_ixc(c, l * ci)) : p;
      LLVMValueRef mask = below;
      if (c->ahead) fetch_ahead(c, cg_gep(c, mt, q, cg_ixc(c, 2 * c->W)));
      if (c->lane_left)
        mask = cg_and_mask(
            c, mask,
            cg_splat(c, LLVMBuildICmp(c->b, LLVMIntSLT, cg_ixc(c, l), c->lane_left, ""), c->W));
      if (mask) out[l] = masked_load(c, false, q, vt, align, mask);
      else LLVMSetAlignment(out[l] = LLVMBuildLoad2(c->b, vt, q, ""), align);
    }
    transpose_square(c, out);
  }
  for (u32 u = 0; u < c->U; u++) out[u] = cg_from_mem(c, x->dtype, out[u]);
  return HS_GOOD;
}

// Every s-th element for s = 2..4: loads of the s vectors that hold them, then shuffles. Nothing
// behind the last element, s * (W - 1), is read: a vector that reaches past it is loaded under a
// mask. That is the last one, and with fewer than s lanes also the one before.
static LLVMValueRef strided_load(cg *c, LLVMValueRef p, u32 s, LLVMTypeRef mt, u32 align) {
  LLVMTypeRef vt = LLVMVectorType(mt, c->W);
  LLVMValueRef v[4], m[64], all = NULL;
  u32 W = c->W;
  for (u32 k = 0; k < s; k++) {
    LLVMValueRef q = k ? cg_gep(c, mt, p, cg_ixc(c, k * W)) : p;
    if ((k + 1) * W - 1 <= s * (W - 1)) {
      LLVMSetAlignment(v[k] = LLVMBuildLoad2(c->b, vt, q, ""), align);
      continue;
    }
    for (u32 l = 0; l < W; l++) m[l] = LLVMConstInt(c->i1, k * W + l <= s * (W - 1), false);
    v[k] = masked_load(c, false, q, vt, align, LLVMConstVector(m, W));
  }
  for (u32 k = 0; k < s; k++) {  // lane l is element s*l: in vector s*l / W
    for (u32 l = 0; l < W; l++) {
      u32 at = s * l;
      m[l] = LLVMConstInt(c->i32, at / W == k ? (all ? W : 0) + at % W : at / W < k ? l : 0, false);
    }
    all = all ? LLVMBuildShuffleVector(c->b, all, v[k], LLVMConstVector(m, W), "")
              : LLVMBuildShuffleVector(c->b, v[k], LLVMGetPoison(vt), LLVMConstVector(m, W), "");
  }
  return all;
}

// How far the elements that the u-th vector's lanes read are from one place, where that is known:
// indices of the lane loop, and quotients and remainders of it by divisors of what it advances by.
// False when it is not. place: the expression without the remainders, at lane 0 of the first
// vector.
static bool lane_offsets(const cg *c, const nest_expr *e, u32 u, i64 *at, const nest_expr **place) {
  nest_term rest[64];
  u32 n = 0;
  if (!c->stride || e->n > 64) return false;
  for (u32 l = 0; l < c->W; l++) at[l] = 0;
  for (u32 i = 0; i < e->n; i++) {
    const nest_var *v = &c->n->vars.v[e->t[i].var];
    bool loop = v->kind == NEST_LOOP, quotient = v->kind == NEST_DIV;
    if (loop || quotient || !(cg_var_deps(c, e->t[i].var) & c->lane)) rest[n++] = e->t[i];
    if (!(cg_var_deps(c, e->t[i].var) & c->lane)) continue;
    if (!loop &&
        ((!quotient && v->kind != NEST_MOD) || c->stride % v->d || v->e->n != 1 ||
         v->e->t[0].coef != 1 || v->e->c < 0 || c->n->vars.v[v->e->t[0].var].kind != NEST_LOOP))
      return false;
    for (u32 l = 0; l < c->W; l++) {
      i64 k = (i64)(u * c->W + l) + (loop ? 0 : v->e->c % v->d);
      at[l] += e->t[i].coef * (loop ? k : quotient ? k / v->d : k % v->d);
    }
  }
  *place = nest_make(c->n, e->c, n, rest);
  return true;
}

// Whether every lane of a mask is a constant; NULL is a mask of all lanes.
static bool known_mask(const cg *c, LLVMValueRef mask, bool *lanes) {
  for (u32 k = 0; k < c->W; k++) {
    LLVMValueRef v = mask ? LLVMGetAggregateElement(mask, k) : NULL;
    if (mask && (!v || !LLVMIsAConstantInt(v))) return false;
    lanes[k] = !mask || LLVMConstIntGetZExtValue(v) != 0;
  }
  return true;
}

// Whether so many elements lie within the zeros that stand in for what is not there.
static bool fits_safe(i64 elements, u32 size) { return elements * size <= 64 * CG_SAFE_LINES; }

// Such a load: the elements once, in one vector, then a shuffle; NULL when they are too far apart
// for that. Elements that no lane wants are not read. p: what the offsets are relative to.
// `yes`: whether it is done at all, or NULL.
static LLVMValueRef shuffled_load(cg *c, LLVMValueRef p, const i64 *at, const bool *wanted,
                                  LLVMTypeRef mt, u32 align, LLVMValueRef yes) {
  LLVMValueRef m[64], mask[64];
  bool read[64] = {0}, all = true, any = false;
  i64 low = 0, high = 0;
  for (u32 l = 0; l < c->W; l++) {
    if (!wanted[l]) continue;
    low = any ? HS_MIN(low, at[l]) : at[l];
    high = any ? HS_MAX(high, at[l]) : at[l];
    any = true;
  }
  u32 n = 1;
  if (high - low >= HS_MIN((i64)c->W * 4, (i64)64)) return NULL;
  while (n <= high - low) n *= 2;
  if (yes && !fits_safe(n, align)) return NULL;
  for (u32 l = 0; l < c->W; l++) {
    i64 k = wanted[l] ? at[l] - low : 0;
    m[l] = LLVMConstInt(c->i32, (u64)k, false);
    read[k] |= wanted[l];
  }
  for (u32 k = 0; k < n; k++) {
    all &= read[k];
    mask[k] = LLVMConstInt(c->i1, read[k], false);
  }
  LLVMTypeRef vt = LLVMVectorType(mt, n);
  LLVMValueRef v, q = low ? cg_gep(c, mt, p, cg_ixc(c, low)) : p;
  if (yes) q = LLVMBuildSelect(c->b, yes, q, c->safe, "");
  if (all) LLVMSetAlignment(v = LLVMBuildLoad2(c->b, vt, q, ""), align);
  else v = masked_load(c, false, q, vt, align, LLVMConstVector(mask, n));
  return LLVMBuildShuffleVector(c->b, v, LLVMGetPoison(vt), LLVMConstVector(m, c->W), "");
}

// How the vectors of a load are made, one after the other, all from one place.
typedef struct lane_load {
  enum { CONTIGUOUS, STRIDED, NEAR, APART } form;
  i64 coef;  // of the lane loop: 1 or -1 where contiguous, 2 to 4 where strided
  LLVMValueRef
      p;  // where the first lane of the first vector reads, or what `NEAR` offsets are from
  LLVMValueRef yes;  // whether it is done at all: one guard for all lanes; NULL is always
  LLVMTypeRef mt;    // an element in memory
  u32 align;
} lane_load;

static hs_status plan_lane_load(cg *c, const nest_node *x, const LLVMValueRef *g, lane_load *l) {
  u32 var;
  i64 at[64];
  const nest_expr *place;
  LLVMValueRef base;
  *l = (lane_load){APART, 0, NULL, NULL, cg_mem(c, x->dtype), (u32)hlo_dtype_storage(x->dtype)};
  // A mask would do, but a processor takes microseconds over one that hides a page that is not
  // there, as the pages before the first row are; and what a mask that is known hides is not read.
  l->yes = g && !cg_is_vector(LLVMTypeOf(g[0])) ? g[0] : NULL;
  if (c->tile) return HS_GOOD;
  if (cg_lane_affine(c, x->e, &var, &l->coef)) {
    if (l->coef == 1 || l->coef == -1) l->form = CONTIGUOUS;
    else if ((!g || l->yes) && !c->mask[0] && l->coef >= 2 && l->coef <= 4 &&
             (!l->yes || fits_safe((i64)c->W * l->coef, l->align)))
      l->form = STRIDED;
  }
  if (l->form != APART) return cg_lane_pointer(c, x->buf, x->e, var, l->coef, l->mt, &l->p);
  if (!lane_offsets(c, x->e, 0, at, &place)) return HS_GOOD;
  l->form = NEAR;
  HS_TRY(cg_expr(c, place, NEST_NONE, &base));
  l->p = cg_gep(c, l->mt, c->bufs[x->buf], base);
  return HS_GOOD;
}

static LLVMValueRef contiguous_load(cg *c, const lane_load *l, u32 u, LLVMValueRef mask) {
  LLVMTypeRef vt = LLVMVectorType(l->mt, c->W);
  i64 shift = l->coef == 1 ? (i64)(u * c->W) : -(i64)((u + 1) * c->W - 1);
  LLVMValueRef v, q = shift ? cg_gep(c, l->mt, l->p, cg_ixc(c, shift)) : l->p;
  if (l->yes) q = LLVMBuildSelect(c->b, l->yes, q, c->safe, "");
  if (mask) v = masked_load(c, false, q, vt, l->align, l->coef == 1 ? mask : reversed(c, mask));
  else LLVMSetAlignment(v = LLVMBuildLoad2(c->b, vt, q, ""), l->align);
  return l->coef == 1 ? v : reversed(c, v);
}

// NULL when the elements are too far apart, or a mask is not known.
static LLVMValueRef near_load(cg *c, const nest_node *x, const lane_load *l, u32 u,
                              LLVMValueRef mask) {
  i64 at[64];
  bool wanted[64];
  const nest_expr *place;
  if (!known_mask(c, mask, wanted) || !lane_offsets(c, x->e, u, at, &place)) return NULL;
  return shuffled_load(c, l->p, at, wanted, l->mt, l->align, l->yes);
}

static hs_status gathered_load(cg *c, const nest_node *x, const lane_load *l, u32 u,
                               LLVMValueRef mask, LLVMValueRef *out) {
  LLVMValueRef at;
  if (l->yes) mask = cg_and_mask(c, mask, cg_splat(c, l->yes, c->W));
  HS_TRY(cg_lane_expr(c, x->e, u, cg_fits32(c, x->e) ? c->i32 : c->i64, &at));
  *out = masked_load(c, true, cg_gep(c, l->mt, c->bufs[x->buf], at), LLVMVectorType(l->mt, c->W),
                     l->align, mask ? mask : all_ones(c));
  return HS_GOOD;
}

static hs_status load_lanes(cg *c, const nest_node *x, u32 copies, const LLVMValueRef *g,
                            LLVMValueRef *out) {
  lane_load l;
  HS_TRY(plan_lane_load(c, x, g, &l));
  for (u32 u = 0; u < copies; u++) {
    LLVMValueRef mask = load_mask(c, x, u), v = NULL, q = l.p;
    if (g && !l.yes) mask = cg_and_mask(c, mask, g[u]);
    if (l.form == CONTIGUOUS) {
      v = contiguous_load(c, &l, u, mask);
    } else if (l.form == STRIDED) {
      if (u) q = cg_gep(c, l.mt, q, cg_ixc(c, (i64)(u * c->W) * l.coef));
      if (l.yes) q = LLVMBuildSelect(c->b, l.yes, q, c->safe, "");
      v = strided_load(c, q, (u32)l.coef, l.mt, l.align);
    } else if (l.form == NEAR) {
      v = near_load(c, x, &l, u, mask);
    }
    if (!v) HS_TRY(gathered_load(c, x, &l, u, mask, &v));
    out[u] = cg_from_mem(c, x->dtype, v);
  }
  return HS_GOOD;
}

static hs_status load_scalar(cg *c, const nest_node *x, const LLVMValueRef *g, LLVMValueRef *out) {
  LLVMTypeRef mt = cg_mem(c, x->dtype);
  LLVMValueRef p, v;
  HS_TRY(cg_lane_pointer(c, x->buf, x->e, NEST_NONE, 0, mt, &p));
  if (g) p = LLVMBuildSelect(c->b, g[0], p, c->safe ? c->safe : c->bufs[x->buf], "");
  LLVMSetAlignment(v = LLVMBuildLoad2(c->b, mt, p, ""), (u32)hlo_dtype_storage(x->dtype));
  out[0] = cg_from_mem(c, x->dtype, v);
  return HS_GOOD;
}

hs_status cg_emit_load(cg *c, const nest_node *x, u32 copies, bool vec, LLVMValueRef *out) {
  if (x->written_by) {  // the loop that fills the buffer comes first
    LLVMValueRef *done;
    NODE(c, c->n->groups.v[x->written_by - 1].out[0], &done);
  }
  if (!vec && c->target->held && c->target->held(c, x, out)) return HS_GOOD;
  if (vec && c->target->load) return c->target->load(c, x, copies, out);
  if (vec && c->tile) {
    bool done;
    HS_TRY(tile_load(c, x, out, &done));
    if (done) return HS_GOOD;
  }
  LLVMValueRef *g = NULL;
  if (x->guard != NEST_NONE) NODE(c, x->guard, &g);
  if (g && LLVMIsConstant(g[0]) && LLVMTypeOf(g[0]) == c->i1) {
    if (LLVMConstIntGetZExtValue(g[0]) == 0) {
      LLVMTypeRef rt = cg_rep(c, x->dtype);
      for (u32 u = 0; u < copies; u++) out[u] = LLVMConstNull(vec ? LLVMVectorType(rt, c->W) : rt);
      return HS_GOOD;
    }
    g = NULL;
  }
  return vec ? load_lanes(c, x, copies, g, out) : load_scalar(c, x, g, out);
}

// Whether the vectors of a store are whole parts of cache lines and should go past the caches.
// Every buffer starts at a cache line; so must every vector.
static bool streams(const cg *c, const nest_store *s, bool unit) {
  const nest_buf *b = &c->n->bufs.v[s->buf];
  u64 size = hlo_dtype_storage(b->dtype), vector = size * c->W;
  if (!STREAMING || !c->stage->stream || !unit || !c->aligned || b->arg < 0 || b->holds_rows ||
      (vector != 16 && vector != 32 && vector != 64) || vector * c->U < 64)
    return false;
  if ((u64)s->e->c * size % vector) return false;
  for (u32 i = 0; i < s->e->n; i++) {
    const nest_var *v = &c->n->vars.v[s->e->t[i].var];
    bool own = v->kind == NEST_LOOP && (c->lane & ~c->tile & 1ull << v->loop);
    if (!own && (u64)s->e->t[i].coef * size % vector) return false;
  }
  return true;
}

bool cg_all_stream(const cg *c) {
  for (size_t k = 0; k < c->stage->stores.n; k++) {
    const nest_store *s = &c->stage->stores.v[k];
    i64 coef, step;
    if (!c->tile || !tile_affine(c, s->e, &coef, &step) || !streams(c, s, coef == 1)) return false;
  }
  return true;
}

static void streaming_store(cg *c, LLVMValueRef v, LLVMValueRef p, u32 bytes) {
  LLVMValueRef st = LLVMBuildStore(c->b, v, p);
  LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(c->i32, 1, false));
  LLVMSetMetadata(st, LLVMGetMDKindIDInContext(c->ctx, "nontemporal", 11),
                  LLVMMetadataAsValue(c->ctx, LLVMMDNodeInContext2(c->ctx, &one, 1)));
  LLVMSetAlignment(st, bytes);
  c->streamed = true;
}

hs_status cg_emit_store(cg *c, const nest_store *s, u32 level) {
  const nest_buf *b = &c->n->bufs.v[s->buf];
  LLVMTypeRef mt = cg_mem(c, b->dtype);
  u32 align = (u32)hlo_dtype_storage(b->dtype), var, copies = c->lane ? c->U : 1;
  LLVMValueRef *v, p = NULL, q;
  i64 coef = 0;
  if (c->lane && c->target->store && (nest_deps(c->n, s->e) & c->lane))
    return c->target->store(c, s, level);
  NODE(c, s->node, &v);
  bool value_vec = c->lane && (c->n->nodes.v[s->node].deps & c->lane);
  bool addr_vec = c->lane && (nest_deps(c->n, s->e) & c->lane);
  cg_at_level(c, level);
  if (!addr_vec) {
    HS_TRY(cg_lane_pointer(c, s->buf, s->e, NEST_NONE, 0, mt, &p));
    LLVMSetAlignment(LLVMBuildStore(c->b, cg_to_mem(c, b->dtype, v[0]), p), align);
    return HS_GOOD;
  }
  i64 step = c->W;
  bool unit = c->tile ? tile_affine(c, s->e, &coef, &step) && coef == 1
                      : cg_lane_affine(c, s->e, &var, &coef) && coef == 1;
  if (unit && c->tile) HS_TRY(tile_pointer(c, s->buf, s->e, 1, step, mt, &p));
  else if (unit) HS_TRY(cg_lane_pointer(c, s->buf, s->e, var, 1, mt, &p));
  bool stream = streams(c, s, unit);
  for (u32 u = 0; u < copies; u++) {
    LLVMValueRef w = cg_to_mem(c, b->dtype, cg_splat(c, v[value_vec ? u : 0], c->W));
    if (unit) {
      q = u && step ? cg_gep(c, mt, p, cg_ixc(c, (i64)u * step)) : p;
      if (c->mask[u]) masked_store(c, false, w, q, align, c->mask[u]);
      else if (stream) streaming_store(c, w, q, align * c->W);
      else LLVMSetAlignment(LLVMBuildStore(c->b, w, q), align);
    } else {
      HS_TRY(cg_lane_expr(c, s->e, u, cg_fits32(c, s->e) ? c->i32 : c->i64, &q));
      masked_store(c, true, w, cg_gep(c, mt, c->bufs[s->buf], q), align,
                   c->mask[u] ? c->mask[u] : all_ones(c));
    }
  }
  return HS_GOOD;
}

// Shuffles two vectors: lane l is at[l], below W of a, from W on of b.
static LLVMValueRef shuffled(cg *c, LLVMValueRef a, LLVMValueRef b, const u32 *at) {
  LLVMValueRef m[64];
  for (u32 l = 0; l < c->W; l++) m[l] = LLVMConstInt(c->i32, at[l], false);
  return LLVMBuildShuffleVector(c->b, a, b, LLVMConstVector(m, c->W), "");
}

// The elements of n vectors in turn, as n vectors. Lists of even length are woven from two that are
// woven already, of every second vector; in others each vector of the result collects its lanes.
static void weave(cg *c, u32 n, LLVMValueRef *v) {
  LLVMValueRef a[CG_MAX_UNROLL], b[CG_MAX_UNROLL];
  u32 at[64], W = c->W;
  if (n < 2) return;
  if (n % 2) {
    memcpy(a, v, n * sizeof *a);
    for (u32 k = 0; k < n; k++) {
      LLVMValueRef all = a[0];
      for (u32 j = 0; j < n; j++) {
        for (u32 l = 0; l < W; l++) {
          u32 from = (k * W + l) % n, lane = (k * W + l) / n;
          at[l] = j == 0 ? lane : from == j ? W + lane : l;
        }
        all = shuffled(c, j ? all : a[0], j ? a[j] : a[0], at);
      }
      v[k] = all;
    }
    return;
  }
  for (u32 k = 0; k < n / 2; k++) a[k] = v[2 * k], b[k] = v[2 * k + 1];
  weave(c, n / 2, a);
  weave(c, n / 2, b);
  for (u32 k = 0; k < n; k++) {
    for (u32 l = 0; l < W; l++) at[l] = k % 2 * W / 2 + l / 2 + (l % 2 ? W : 0);
    v[k] = shuffled(c, a[k / 2], b[k / 2], at);
  }
}

bool cg_are_neighbours(cg *c, const nest_store *s, u32 ways) {
  u32 var;
  i64 coef;
  if (!c->lane || c->tile || c->target->store || !cg_lane_affine(c, s->e, &var, &coef) ||
      coef != (i64)ways)
    return false;
  for (u32 k = 1; k < ways; k++)
    if (s[k].buf != s->buf || nest_add(c->n, s->e, nest_const(c->n, (i64)k)) != s[k].e)
      return false;
  return true;
}

hs_status cg_emit_interleaved(cg *c, const nest_store *s, u32 ways) {
  hlo_dtype t = c->n->bufs.v[s->buf].dtype;
  LLVMTypeRef mt = cg_mem(c, t);
  LLVMValueRef *v, p, w[CG_MAX_UNROLL][CG_MAX_UNROLL], m[64];
  u32 align = (u32)hlo_dtype_storage(t), var;
  i64 coef;
  (void)cg_lane_affine(c, s->e, &var, &coef);  // coef: ways
  for (u32 r = 0; r < ways; r++) {
    NODE(c, s[r].node, &v);
    bool vec = (c->n->nodes.v[s[r].node].deps & c->lane) != 0;
    cg_at_level(c, c->open);
    for (u32 u = 0; u < c->U; u++) w[u][r] = cg_to_mem(c, t, cg_splat(c, v[vec ? u : 0], c->W));
  }
  cg_at_level(c, c->open);
  HS_TRY(cg_lane_pointer(c, s->buf, s->e, var, coef, mt, &p));
  for (u32 u = 0; u < c->U; u++) {
    weave(c, ways, w[u]);
    for (u32 k = 0; k < ways; k++) {
      LLVMValueRef q = cg_gep(c, mt, p, cg_ixc(c, (i64)(u * ways + k) * c->W));
      if (!c->mask[u]) {
        LLVMSetAlignment(LLVMBuildStore(c->b, w[u][k], q), align);
        continue;
      }
      for (u32 l = 0; l < c->W; l++) m[l] = LLVMConstInt(c->i32, (k * c->W + l) / ways, false);
      masked_store(c, false, w[u][k], q, align,
                   LLVMBuildShuffleVector(c->b, c->mask[u], LLVMGetPoison(LLVMTypeOf(c->mask[u])),
                                          LLVMConstVector(m, c->W), ""));
    }
  }
  return HS_GOOD;
}

// ---- guards and indices -------------------------------------------------------------------------
hs_status cg_emit_index(cg *c, const nest_node *x, u32 copies, bool vec, LLVMValueRef *out) {
  for (u32 u = 0; u < copies; u++) {
    if (!vec) HS_TRY(cg_expr(c, x->e, NEST_NONE, &out[u]));
    else HS_TRY(cg_lane_expr(c, x->e, u, cg_fits32(c, x->e) ? c->i32 : c->i64, &out[u]));
  }
  return HS_GOOD;
}

hs_status cg_emit_guard(cg *c, const nest_node *x, u32 copies, bool vec, LLVMValueRef *out) {
  i64 lo, hi;
  nest_range(c->n, x->e, &lo, &hi);
  bool yes = lo >= x->lo && hi < x->hi, no = hi < x->lo || lo >= x->hi;
  if (yes || no) {
    for (u32 u = 0; u < copies; u++) out[u] = LLVMConstInt(c->i1, yes, false);
    return HS_GOOD;
  }
  HS_TRY(cg_emit_index(c, x, copies, vec, out));
  for (u32 u = 0; u < copies; u++) {
    LLVMTypeRef t = LLVMTypeOf(out[u]);
    LLVMValueRef v = out[u];
    if (hi < x->hi) {
      out[u] = LLVMBuildICmp(c->b, LLVMIntSGE, v, cg_int(t, x->lo), "");
      continue;
    }
    if (lo >= x->lo) {
      out[u] = LLVMBuildICmp(c->b, LLVMIntSLT, v, cg_int(t, x->hi), "");
      continue;
    }
    if (x->lo) v = LLVMBuildSub(c->b, v, cg_int(t, x->lo), "");
    out[u] = LLVMBuildICmp(c->b, LLVMIntULT, v, cg_int(t, x->hi - x->lo), "");
  }
  return HS_GOOD;
}
