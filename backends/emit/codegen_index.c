// codegen_index.c — index expressions as LLVM values: one number, or one per lane.
//
// Terms are added in the order of the levels that they depend on, so that partial sums are hoisted
// out of inner loops. Numbers have the kernel's index type; vectors of them 32 bits where every
// step fits.
#include "backends/emit/codegen.h"

u64 cg_var_deps(const cg *c, u32 var) {
  const nest_var *v = &c->n->vars.v[var];
  return v->kind == NEST_LOOP    ? 1ull << v->loop
         : v->kind == NEST_VALUE ? c->n->nodes.v[v->node].deps
                                 : nest_deps(c->n, v->e);
}

// An integer node's value clamped to lo..hi, as `to` (scalar or vector of i32 or i64).
static LLVMValueRef clamped(cg *c, const nest_var *v, hlo_dtype t, LLVMValueRef x,
                            LLVMTypeRef to_scalar) {
  bool sgn = hlo_dtype_is_signed(t);
  LLVMValueRef y = x;
  int bits = hlo_dtype_bits(t);
  LLVMTypeRef work = LLVMTypeOf(x);
  i64 top = bits >= 63 ? INT64_MAX : (i64)((1ull << (sgn ? bits - 1 : bits)) - 1);
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
    y = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, sgn ? LLVMIntSGT : LLVMIntUGT, y, hi, ""), hi, y,
                        "");
  }
  LLVMTypeRef to = cg_like(x, to_scalar);
  unsigned have =
      LLVMGetIntTypeWidth(bits < 32                                     ? c->i32
                          : LLVMGetTypeKind(work) == LLVMVectorTypeKind ? LLVMGetElementType(work)
                                                                        : work);
  unsigned want = LLVMGetIntTypeWidth(to_scalar);
  if (have < want)
    return v->lo < 0 ? LLVMBuildSExt(c->b, y, to, "") : LLVMBuildZExt(c->b, y, to, "");
  return have > want ? LLVMBuildTrunc(c->b, y, to, "") : y;
}

static hs_status scalar_var(cg *c, u32 var, LLVMValueRef *out) {
  const nest_var v = c->n->vars.v[var];
  LLVMValueRef x, *p;
  switch (v.kind) {
  case NEST_LOOP: *out = c->loop_val[v.loop]; return HS_GOOD;
  case NEST_VALUE:
    NODE(c, v.node, &p);
    *out = clamped(c, &v, c->n->nodes.v[v.node].dtype, p[0], c->ix);
    return HS_GOOD;
  default:
    HS_TRY(cg_expr(c, v.e, NEST_NONE, &x));
    *out = v.kind == NEST_DIV ? LLVMBuildUDiv(c->b, x, cg_ixc(c, v.d), "")
                              : LLVMBuildURem(c->b, x, cg_ixc(c, v.d), "");
    return HS_GOOD;
  }
}

hs_status cg_expr(cg *c, const nest_expr *e, u32 skip, LLVMValueRef *out) {
  u32 home = c->level, order[64], n = 0;
  u32 levels[64];
  if (e->n > 64)
    return hs_fail(HS_E_UNSUPPORTED, "unsupported: index expression of more than 64 terms");
  for (u32 i = 0; i < e->n; i++) {
    if (e->t[i].var == skip) continue;
    u32 l = cg_level_of(c, cg_var_deps(c, e->t[i].var)), k = n++;
    for (; k > 0 && levels[k - 1] > l; k--) levels[k] = levels[k - 1], order[k] = order[k - 1];
    levels[k] = l;
    order[k] = i;
  }
  LLVMValueRef sum = NULL;
  for (u32 k = 0; k < n; k++) {
    LLVMValueRef x;
    cg_at_level(c, levels[k]);
    HS_TRY(scalar_var(c, e->t[order[k]].var, &x));
    i64 coef = e->t[order[k]].coef;
    if (coef != 1) x = LLVMBuildNSWMul(c->b, x, cg_ixc(c, coef), "");
    sum = sum    ? LLVMBuildNSWAdd(c->b, sum, x, "")
          : e->c ? LLVMBuildNSWAdd(c->b, x, cg_ixc(c, e->c), "")
                 : x;
  }
  cg_at_level(c, home);
  *out = sum ? sum : cg_ixc(c, e->c);
  return HS_GOOD;
}

bool cg_fits32(const cg *c, const nest_expr *e) {
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
    if ((v->kind == NEST_DIV || v->kind == NEST_MOD) && !cg_fits32(c, v->e)) return false;
  }
  return true;
}

bool cg_repeats(const cg *c, const nest_var *v) {
  return v->kind == NEST_MOD && c->stride && c->stride % v->d == 0 && v->e->n == 1 &&
         v->e->t[0].coef == 1 && v->e->c >= 0 && c->n->vars.v[v->e->t[0].var].kind == NEST_LOOP;
}

hs_status cg_lane_expr(cg *c, const nest_expr *e, u32 u, LLVMTypeRef it, LLVMValueRef *out) {
  LLVMTypeRef vt = LLVMVectorType(it, c->W);
  nest_term uni[64];
  u32 nu = 0;
  LLVMValueRef sum = NULL;
  if (e->n > 64)
    return hs_fail(HS_E_UNSUPPORTED, "unsupported: index expression of more than 64 terms");
  for (u32 i = 0; i < e->n; i++) {
    if (!(cg_var_deps(c, e->t[i].var) & c->lane)) {
      uni[nu++] = e->t[i];
      continue;
    }
    const nest_var v = c->n->vars.v[e->t[i].var];
    LLVMValueRef x, *p;
    if (v.kind == NEST_LOOP) {
      LLVMValueRef lanes[64];
      bool stepped = c->tile && c->tile == 1ull << v.loop;
      for (u32 k = 0; k < c->W; k++)
        lanes[k] = LLVMConstInt(it, stepped ? u : c->tile ? k : u * c->W + k, false);
      LLVMValueRef base = c->loop_val[v.loop];
      if (it != c->ix) base = LLVMBuildTrunc(c->b, base, it, "");
      x = LLVMBuildAdd(c->b, cg_splat(c, base, c->W), LLVMConstVector(lanes, c->W), "");
    } else if (v.kind == NEST_VALUE) {
      NODE(c, v.node, &p);
      x = clamped(c, &v, c->n->nodes.v[v.node].dtype, p[u], it);
    } else if (cg_repeats(c, &v)) {
      LLVMValueRef lanes[64];
      for (u32 k = 0; k < c->W; k++)
        lanes[k] = LLVMConstInt(it, (u64)((i64)(u * c->W + k) + v.e->c) % (u64)v.d, false);
      x = LLVMConstVector(lanes, c->W);
    } else {
      HS_TRY(cg_lane_expr(c, v.e, u, it, &x));
      x = v.kind == NEST_DIV ? LLVMBuildUDiv(c->b, x, cg_int(vt, v.d), "")
                             : LLVMBuildURem(c->b, x, cg_int(vt, v.d), "");
    }
    if (e->t[i].coef != 1) x = LLVMBuildMul(c->b, x, cg_int(vt, e->t[i].coef), "");
    sum = sum ? LLVMBuildAdd(c->b, sum, x, "") : x;
  }
  LLVMValueRef base;
  HS_TRY(cg_expr(c, nest_make(c->n, e->c, nu, uni), NEST_NONE, &base));
  if (it != c->ix) base = LLVMBuildTrunc(c->b, base, it, "");
  if (!sum) *out = cg_splat(c, base, c->W);
  else if (nu == 0 && e->c == 0) *out = sum;
  else *out = LLVMBuildAdd(c->b, sum, cg_splat(c, base, c->W), "");
  return HS_GOOD;
}

bool cg_lane_affine(const cg *c, const nest_expr *e, u32 *var, i64 *coef) {
  *coef = 0;
  *var = NEST_NONE;
  for (u32 i = 0; i < e->n; i++) {
    if (!(cg_var_deps(c, e->t[i].var) & c->lane)) continue;
    if (c->n->vars.v[e->t[i].var].kind != NEST_LOOP) return false;
    *var = e->t[i].var;
    *coef = e->t[i].coef;
  }
  return true;
}
