// team.c — reductions whose steps the threads of a team share.
//
// Each thread takes every T-th step, from its own number on, and starts from the reducer's
// identity. Then lanes exchange their values in pairs, in log2 rounds, so that all of a warp have
// the result; the warps of a block leave theirs in shared memory, and every thread folds those in
// order. Teams across warps have shared memory only. The order depends on the numbers of threads
// alone.
#include "backends/emit/gpu/code.h"

#include <llvm-c/DebugInfo.h>

bool gpu_team(cg *c, const nest_group *g, u64 deps) {
  const gpu_code *k = gpu_of(c);
  if (!gpu_team_shares(c->n, k->stage, g->merged_into, deps)) return false;
  if (k->stage->lanes > 1) {
    c->lane = 1ull << c->n->vars.v[g->loops[g->nloops - 1]].loop;
    c->W = k->stage->lanes;
  }
  return true;
}

hs_status gpu_team_open(cg *c, const nest_group *g, u32 ncarry, LLVMValueRef *carry) {
  const gpu_code *k = gpu_of(c);
  i64 steps = 1, T = k->stage->team;
  for (u32 l = 0; l < g->nloops; l++) steps *= cg_extent(c, g->loops[l]);
  steps /= k->stage->lanes;
  LLVMValueRef all = cg_ixc(c, steps), from = NULL;
  bool known = g->seg == NEST_NONE;
  if (g->from) {
    LLVMValueRef to;
    HS_TRY(cg_node_bounds(c, g, &from, &to));
    all = LLVMBuildNSWSub(c->b, to, from, "");
    known = false;
  } else if (g->seg != NEST_NONE) {  // a part of the first loop
    i64 n = cg_extent(c, g->loops[0]), each = steps / (g->nloops > 1 ? n : 1);
    LLVMValueRef to;
    from =
        LLVMBuildNSWMul(c->b, c->loop_val[c->n->vars.v[g->seg].loop], cg_ixc(c, g->seg_size), "");
    to = cg_clip(c, false, LLVMBuildNSWAdd(c->b, from, cg_ixc(c, g->seg_size), ""), cg_ixc(c, n));
    all = LLVMBuildNSWSub(c->b, to, from, "");
    all = g->nloops > 1 ? LLVMBuildNSWMul(c->b, all, cg_ixc(c, each), "")
                        : LLVMBuildUDiv(c->b, all, cg_ixc(c, k->stage->lanes), "");
    if (n % g->seg_size == 0) {
      steps = g->nloops > 1 ? g->seg_size * each : g->seg_size / (i64)k->stage->lanes;
      all = cg_ixc(c, steps), known = true;
    }
  }
  bool some = known && steps % T == 0;
  HS_TRY(cg_open_loop(c, NEST_NONE, k->lane, LLVMBuildNSWAdd(c->b, all, cg_ixc(c, T - 1), ""), T,
                      !some, ncarry, carry));
  gpu_set_loops(c, c->loops[c->open].phi, g->nloops, g->loops, 0, k->stage->lanes);
  if (from) {
    u32 bit = c->n->vars.v[g->loops[0]].loop;
    c->loop_val[bit] = LLVMBuildNSWAdd(c->b, c->loop_val[bit], from, "");
  }
  return HS_GOOD;
}

void gpu_team_close(cg *c, const nest_group *g, LLVMValueRef *carry) {
  (void)cg_close_loop(c, carry);
  gpu_unset_loops(c, g->nloops, g->loops, 0);
}

// Four steps at a time, so that four loads are under way; the rounds of a square stay as they are.
void gpu_unroll(cg *c, LLVMValueRef branch) {
  u32 steps = gpu_of(c)->unroll;
  bool rolled = steps == 1;
  const char *key = rolled ? "llvm.loop.unroll.disable" : "llvm.loop.unroll.count";
  LLVMMetadataRef how[2] = {LLVMMDStringInContext2(c->ctx, key, strlen(key)),
                            LLVMValueAsMetadata(LLVMConstInt(c->i32, steps ? steps : 4, false))};
  LLVMMetadataRef self = LLVMTemporaryMDNode(c->ctx, NULL, 0),
                  parts[2] = {self, LLVMMDNodeInContext2(c->ctx, how, rolled ? 1 : 2)},
                  loop = LLVMMDNodeInContext2(c->ctx, parts, 2);
  LLVMMetadataReplaceAllUsesWith(self, loop);  // a loop's name is a node that names itself
  LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(c->ctx, "llvm.loop", 9),
                  LLVMMetadataAsValue(c->ctx, loop));
  gpu_of(c)->unroll = 0;
}

// Exchange by shared memory, for `count` values that every thread is to fold in order: thread `own`
// of those stores where `stores` (NULL: all do); value w of the team lies at w * step + first.
typedef struct meeting {
  u32 count, places, step;
  LLVMValueRef own, first, stores;
} meeting;

static hs_status meet(cg *c, const nest_group *g, const meeting *m, LLVMValueRef *acc) {
  const gpu_code *k = gpu_of(c);
  LLVMValueRef arrays[NEST_MAX_ACCS], b[NEST_MAX_ACCS];
  LLVMTypeRef types[NEST_MAX_ACCS];
  HS_REQUIRE(c->level == c->open);
  for (u32 a = 0; a < g->nacc; a++) {
    types[a] = LLVMTypeOf(acc[a]) == c->i1 ? c->i8 : LLVMTypeOf(acc[a]);
    arrays[a] =
        gpu_shared(c, types[a], types[a] == c->f64 || types[a] == c->i64 ? 8 : 4, m->places);
  }
  k->target->barrier(c);  // what the last reduction left there has been read
  if (m->stores) HS_TRY(cg_open_if(c, m->stores));
  for (u32 a = 0; a < g->nacc; a++)
    LLVMBuildStore(
        c->b, types[a] == LLVMTypeOf(acc[a]) ? acc[a] : LLVMBuildZExt(c->b, acc[a], types[a], ""),
        cg_gep(c, types[a], arrays[a], m->own));
  if (m->stores) cg_close_if(c);
  k->target->barrier(c);
  for (u32 w = 0; w < m->count; w++) {
    LLVMValueRef at = cg_ixc(c, (i64)w * m->step);
    if (m->first) at = LLVMBuildNSWAdd(c->b, at, m->first, "");
    for (u32 a = 0; a < g->nacc; a++) {
      LLVMValueRef v = LLVMBuildLoad2(c->b, types[a], cg_gep(c, types[a], arrays[a], at), "");
      bool same = types[a] == LLVMTypeOf(acc[a]);
      b[a] = same ? v : LLVMBuildICmp(c->b, LLVMIntNE, v, LLVMConstNull(types[a]), "");
    }
    if (w) HS_TRY(cg_apply(c, g, acc, b, acc));
    else
      for (u32 a = 0; a < g->nacc; a++) acc[a] = b[a];
  }
  return HS_GOOD;
}

hs_status gpu_team_fold(cg *c, const nest_group *g, LLVMValueRef *acc) {
  const gpu_code *k = gpu_of(c);
  u32 team = k->stage->team, across = k->stage->across;
  LLVMValueRef other[NEST_MAX_ACCS], next[NEST_MAX_ACCS];
  if (across)
    return meet(c, g, &(meeting){team, team * across, across, k->thread, k->team, NULL}, acc);
  for (u32 with = HS_MIN(team, GPU_WARP) / 2; with; with /= 2) {
    for (u32 a = 0; a < g->nacc; a++) other[a] = gpu_exchange(c, acc[a], with);
    HS_TRY(cg_apply(c, g, acc, other, next));
    for (u32 a = 0; a < g->nacc; a++) acc[a] = next[a];
  }
  if (team <= GPU_WARP) return HS_GOOD;
  LLVMValueRef warp = LLVMBuildUDiv(c->b, k->lane, cg_ixc(c, GPU_WARP), ""),
               within = LLVMBuildURem(c->b, k->lane, cg_ixc(c, GPU_WARP), ""),
               first = LLVMBuildICmp(c->b, LLVMIntEQ, within, cg_ixc(c, 0), "");
  u32 warps = team / GPU_WARP;
  return meet(c, g, &(meeting){warps, warps, 1, warp, NULL, first}, acc);
}
