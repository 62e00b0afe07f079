// codegen_loops.c — levels and loops of the code being written: where code is placed, opening and
// closing loops, what is forgotten when one closes, and the bounds, masks and addresses that loops
// are made of. codegen.c describes how levels work.
#include "backends/emit/codegen.h"

// ---- levels and loops ---------------------------------------------------------------------------
void cg_at_level(cg *c, u32 level) {
  c->level = level;
  LLVMPositionBuilderAtEnd(c->b, c->ins[level]);
}

void cg_forget(cg *c, u32 level, u64 deps) {
  size_t keep = 0;
  for (size_t i = 0; i < c->memoed.n; i++) {
    u32 id = c->memoed.v[i];
    if (c->memo[id].level >= level || (c->n->nodes.v[id].deps & deps)) c->memo[id].set = false;
    else c->memoed.v[keep++] = id;
  }
  c->memoed.n = keep;
}

LLVMValueRef cg_ixc(cg *c, i64 v) { return LLVMConstInt(c->ix, (u64)v, true); }

hs_status cg_open_loop(cg *c, u32 bit, LLVMValueRef start, LLVMValueRef end, i64 step, bool guarded,
                       u32 ncarry, LLVMValueRef *carry) {
  if (c->open + 2 >= CG_MAX_LEVELS)
    return hs_fail(HS_E_UNSUPPORTED, "unsupported: loops nested too deeply");
  cg_at_level(c, c->open);
  cg_loop *l = &c->loops[++c->open];
  *l = (cg_loop){.bit = bit, .start = start, .step = step, .guarded = guarded, .ncarry = ncarry};
  l->last = LLVMBuildSub(c->b, end, cg_ixc(c, step), "");
  l->header = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "");
  c->ins[c->open] = l->header;
  cg_at_level(c, c->open);
  l->phi = LLVMBuildPhi(c->b, c->ix, "");
  if (ncarry) {
    l->carry_phi = HS_NEW_ARRAY(&c->arena, LLVMValueRef, ncarry);
    l->carry_init = HS_NEW_ARRAY(&c->arena, LLVMValueRef, ncarry);
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

LLVMValueRef cg_close_loop(cg *c, LLVMValueRef *carry) {
  cg_loop *l = &c->loops[c->open];
  u32 inner = c->open, outer = c->open - 1;
  cg_at_level(c, inner);
  LLVMBasicBlockRef latch = c->ins[inner], pre = c->ins[outer],
                    exit = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "");
  LLVMValueRef next = LLVMBuildNSWAdd(c->b, l->phi, cg_ixc(c, l->step), "");
  LLVMValueRef again =
      LLVMBuildCondBr(c->b, LLVMBuildICmp(c->b, LLVMIntSLE, next, l->last, ""), l->header, exit);
  if (c->target->again && l->ncarry) c->target->again(c, again);
  cg_forget(c, inner, 0);
  if (l->bit != NEST_NONE) c->open_mask &= ~(1ull << l->bit);
  c->open--;
  cg_at_level(c, outer);
  if (l->guarded)
    LLVMBuildCondBr(c->b, LLVMBuildICmp(c->b, LLVMIntSLE, l->start, l->last, ""), l->header, exit);
  else LLVMBuildBr(c->b, l->header);
  LLVMAddIncoming(l->phi, (LLVMValueRef[]){l->start, next}, (LLVMBasicBlockRef[]){pre, latch}, 2);
  for (u32 k = 0; k < l->ncarry; k++)
    LLVMAddIncoming(l->carry_phi[k], (LLVMValueRef[]){l->carry_init[k], carry[k]},
                    (LLVMBasicBlockRef[]){pre, latch}, 2);
  c->ins[outer] = exit;
  cg_at_level(c, outer);
  LLVMValueRef after = next;
  if (l->guarded) {
    after = LLVMBuildPhi(c->b, c->ix, "");
    LLVMAddIncoming(after, (LLVMValueRef[]){l->start, next}, (LLVMBasicBlockRef[]){pre, latch}, 2);
    for (u32 k = 0; k < l->ncarry; k++) {
      LLVMValueRef p = LLVMBuildPhi(c->b, LLVMTypeOf(carry[k]), "");
      LLVMAddIncoming(p, (LLVMValueRef[]){l->carry_init[k], carry[k]},
                      (LLVMBasicBlockRef[]){pre, latch}, 2);
      carry[k] = p;
    }
  }
  return after;
}

hs_status cg_open_if(cg *c, LLVMValueRef cond) {
  if (c->open + 2 >= CG_MAX_LEVELS)
    return hs_fail(HS_E_UNSUPPORTED, "unsupported: loops nested too deeply");
  cg_loop *l = &c->loops[++c->open];
  *l = (cg_loop){.bit = NEST_NONE, .cond = cond};
  l->header = c->ins[c->open] = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "");
  cg_at_level(c, c->open);
  return HS_GOOD;
}

void cg_close_if(cg *c) {
  cg_loop *l = &c->loops[c->open];
  LLVMBasicBlockRef exit = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "");
  cg_at_level(c, c->open);
  LLVMBuildBr(c->b, exit);
  cg_forget(c, c->open, 0);
  c->open--;
  cg_at_level(c, c->open);
  LLVMBuildCondBr(c->b, l->cond, l->header, exit);
  c->ins[c->open] = exit;
  cg_at_level(c, c->open);
}

u32 cg_level_of(const cg *c, u64 deps) {
  u32 level = 0;
  for (u64 m = deps & c->open_mask; m; m &= m - 1) {
    u32 l = c->loop_level[__builtin_ctzll(m)];
    if (l > level) level = l;
  }
  return level;
}

// ---- bounds, masks and addresses ----------------------------------------------------------------
i64 cg_extent(const cg *c, u32 var) { return c->n->vars.v[var].hi + 1; }

LLVMValueRef cg_clip(cg *c, bool max, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, max ? LLVMIntSGT : LLVMIntSLT, a, b, ""), a, b,
                         "");
}

LLVMValueRef cg_gep(cg *c, LLVMTypeRef t, LLVMValueRef p, LLVMValueRef i) {
  return LLVMBuildGEP2(c->b, t, p, &i, 1, "");
}

LLVMValueRef cg_and_mask(cg *c, LLVMValueRef a, LLVMValueRef b) {
  return !a ? b : !b ? a : LLVMBuildAnd(c->b, a, b, "");
}

LLVMValueRef cg_below(cg *c, LLVMValueRef left) {
  LLVMValueRef lanes[64];
  for (u32 k = 0; k < c->W; k++) lanes[k] = LLVMConstInt(c->ix, k, false);
  return LLVMBuildICmp(c->b, LLVMIntSLT, LLVMConstVector(lanes, c->W), cg_splat(c, left, c->W), "");
}

LLVMValueRef cg_tail_mask(cg *c, LLVMValueRef i, LLVMValueRef end) {
  return cg_below(c, LLVMBuildSub(c->b, end, i, ""));
}
