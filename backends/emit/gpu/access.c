// access.c — loads and stores of several elements by one thread, shared memory, and loops whose
// values are the digits of a number.
//
// Elements that lie one after the other go as one vector with the alignment that the index
// expression has; the code generator splits what is not aligned. All others go one by one: there
// are no masks, a stage never has lanes past its end. A load below a guard that is false reads the
// buffer's first element instead.
#include "backends/emit/gpu/code.h"

#include <stdio.h>

LLVMValueRef gpu_shared(cg *c, LLVMTypeRef element, u32 bytes, u64 n) {
  gpu_code *g = gpu_of(c);
  char name[300];
  (void)snprintf(name, sizeof name, "%.250s_shared%u", g->name, g->nshared++);
  LLVMTypeRef type = LLVMArrayType2(element, n);
  LLVMValueRef v = LLVMAddGlobalInAddressSpace(c->mod, type, name, g->target->shared_space);
  LLVMSetInitializer(v, LLVMGetUndef(type));
  LLVMSetLinkage(v, LLVMInternalLinkage);
  LLVMSetAlignment(v, 16);
  g->shared_bytes += ((u32)n * bytes + 15) / 16 * 16;
  return v;
}

// The largest power of two, up to `most`, that divides the byte offset of lane 0.
static u32 alignment(const cg *c, const nest_expr *e, u32 size, u32 most) {
  u64 all = (u64)e->c * size | most;
  for (u32 k = 0; k < e->n; k++) {
    const nest_var *v = &c->n->vars.v[e->t[k].var];
    bool lanes = v->kind == NEST_LOOP && (c->lane & 1ull << v->loop);
    all |= (u64)e->t[k].coef * size * (lanes ? c->W : 1);
  }
  return (u32)(all & -all);
}

// The element index of each lane.
static hs_status lane_indices(cg *c, const nest_expr *e, LLVMValueRef *out) {
  u32 var;
  i64 coef;
  LLVMValueRef v;
  if (cg_lane_affine(c, e, &var, &coef)) {
    HS_TRY(cg_expr(c, e, NEST_NONE, &v));
    for (u32 k = 0; k < c->W; k++)
      out[k] = k ? LLVMBuildNSWAdd(c->b, v, cg_ixc(c, (i64)k * coef), "") : v;
    return HS_GOOD;
  }
  HS_TRY(cg_lane_expr(c, e, 0, c->ix, &v));
  for (u32 k = 0; k < c->W; k++)
    out[k] = LLVMBuildExtractElement(c->b, v, LLVMConstInt(c->i32, k, false), "");
  return HS_GOOD;
}

hs_status gpu_load(cg *c, const nest_node *x, u32 copies, LLVMValueRef *out) {
  HS_REQUIRE(copies == 1 && c->W > 1);
  LLVMTypeRef mt = cg_mem(c, x->dtype), vt = LLVMVectorType(mt, c->W);
  u32 size = (u32)hlo_dtype_storage(x->dtype), var;
  LLVMValueRef *g = NULL, p, at[64], v = LLVMGetPoison(vt);
  i64 coef;
  if (x->guard != NEST_NONE) {
    NODE(c, x->guard, &g);
    if (LLVMIsConstant(g[0]) && LLVMTypeOf(g[0]) == c->i1) {
      if (LLVMConstIntGetZExtValue(g[0]) == 0) {
        out[0] = LLVMConstNull(LLVMVectorType(cg_rep(c, x->dtype), c->W));
        return HS_GOOD;
      }
      g = NULL;
    }
  }
  if (!g && cg_lane_affine(c, x->e, &var, &coef) && coef == 1) {
    HS_TRY(cg_lane_pointer(c, x->buf, x->e, var, coef, mt, &p));
    v = LLVMBuildLoad2(c->b, vt, p, "");
    LLVMSetAlignment(v, alignment(c, x->e, size, size * c->W));
    out[0] = cg_from_mem(c, x->dtype, v);
    return HS_GOOD;
  }
  HS_TRY(lane_indices(c, x->e, at));
  bool each = g && cg_is_vector(LLVMTypeOf(g[0]));
  for (u32 k = 0; k < c->W; k++) {
    LLVMValueRef no = LLVMConstInt(c->i32, k, false), ok;
    if (g) {
      ok = each ? LLVMBuildExtractElement(c->b, g[0], no, "") : g[0];
      at[k] = LLVMBuildSelect(c->b, ok, at[k], cg_ixc(c, 0), "");
    }
    LLVMValueRef one = LLVMBuildLoad2(c->b, mt, cg_gep(c, mt, c->bufs[x->buf], at[k]), "");
    LLVMSetAlignment(one, size);
    v = LLVMBuildInsertElement(c->b, v, one, no, "");
  }
  out[0] = cg_from_mem(c, x->dtype, v);
  return HS_GOOD;
}

hs_status gpu_store(cg *c, const nest_store *s, u32 level) {
  const nest_buf *b = &c->n->bufs.v[s->buf];
  LLVMTypeRef mt = cg_mem(c, b->dtype);
  u32 size = (u32)hlo_dtype_storage(b->dtype), var;
  LLVMValueRef *v, p, at[64];
  i64 coef;
  HS_REQUIRE(c->W > 1);
  NODE(c, s->node, &v);
  cg_at_level(c, level);
  LLVMValueRef w = cg_to_mem(c, b->dtype, cg_splat(c, v[0], c->W));
  if (cg_lane_affine(c, s->e, &var, &coef) && coef == 1) {
    HS_TRY(cg_lane_pointer(c, s->buf, s->e, var, coef, mt, &p));
    LLVMSetAlignment(LLVMBuildStore(c->b, w, p), alignment(c, s->e, size, size * c->W));
    return HS_GOOD;
  }
  HS_TRY(lane_indices(c, s->e, at));
  for (u32 k = 0; k < c->W; k++) {
    LLVMValueRef one = LLVMBuildExtractElement(c->b, w, LLVMConstInt(c->i32, k, false), "");
    LLVMSetAlignment(LLVMBuildStore(c->b, one, cg_gep(c, mt, c->bufs[s->buf], at[k])), size);
  }
  return HS_GOOD;
}

bool gpu_load_held(cg *c, const nest_node *x, LLVMValueRef *out) {
  gpu_code *g = gpu_of(c);
  for (u32 k = 0; g->holding && k < g->nheld; k++) {
    const nest_node *h = &c->n->nodes.v[g->held[k].node];
    if (h->buf != x->buf || h->e != x->e || h->dtype != x->dtype || x->guard != NEST_NONE) continue;
    LLVMTypeRef mt = cg_mem(c, x->dtype);
    LLVMValueRef v = LLVMBuildLoad2(c->b, mt, cg_gep(c, mt, g->held[k].array, g->place), "");
    out[0] = cg_from_mem(c, x->dtype, v);
    return true;
  }
  return false;
}

void gpu_set_loops(cg *c, LLVMValueRef q, u32 nloops, const u32 *loops, u64 skip, u32 lanes) {
  u32 first = 0;
  while (first < nloops && (skip & 1ull << c->n->vars.v[loops[first]].loop)) first++;
  bool last = true;
  for (u32 k = nloops; k-- > first;) {
    u32 bit = c->n->vars.v[loops[k]].loop;
    if (skip & 1ull << bit) continue;
    i64 e = cg_extent(c, loops[k]) / (last ? (i64)lanes : 1);
    LLVMValueRef v = k == first ? q : LLVMBuildURem(c->b, q, cg_ixc(c, e), "");
    if (k > first) q = LLVMBuildUDiv(c->b, q, cg_ixc(c, e), "");
    if (last && lanes > 1) v = LLVMBuildNSWMul(c->b, v, cg_ixc(c, (i64)lanes), "");
    c->loop_val[bit] = v;
    c->loop_level[bit] = c->open;
    c->open_mask |= 1ull << bit;
    last = false;
  }
}

void gpu_unset_loops(cg *c, u32 nloops, const u32 *loops, u64 skip) {
  u64 mask = 0;
  for (u32 k = 0; k < nloops; k++) mask |= 1ull << c->n->vars.v[loops[k]].loop;
  c->open_mask &= ~(mask & ~skip);
  cg_forget(c, CG_MAX_LEVELS, mask & ~skip);
}
