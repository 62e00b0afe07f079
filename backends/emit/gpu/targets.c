// targets.c — what differs from GPU to GPU in the code of a kernel: a row per target.
#include "backends/emit/gpu/code.h"

#include <stdio.h>

static LLVMValueRef i32_of(cg *c, u32 v) { return LLVMConstInt(c->i32, v, false); }

// ---- NVIDIA -------------------------------------------------------------------------------------
static void nvptx_barrier(cg *c) {
  LLVMValueRef zero = i32_of(c, 0);
  static const char name[] = "llvm.nvvm.barrier.cta.sync.aligned.all";
  bool named = LLVMLookupIntrinsicID(name, strlen(name)) != 0;
  (void)cg_intrinsic(c, named ? name : "llvm.nvvm.barrier0", 0, NULL, named, &zero);
}

static LLVMValueRef nvptx_exchange(cg *c, LLVMValueRef v, u32 with) {
  LLVMValueRef args[4] = {LLVMConstAllOnes(c->i32), v, i32_of(c, with), i32_of(c, 31)};
  return cg_intrinsic(c, "llvm.nvvm.shfl.sync.bfly.i32", 0, NULL, 4, args);
}

static LLVMValueRef nvptx_same(cg *c, LLVMValueRef v) {
  LLVMValueRef args[2] = {LLVMConstAllOnes(c->i32), v};
  return cg_intrinsic(c, "llvm.nvvm.match.any.sync.i32", 0, NULL, 2, args);
}

static void nvptx_kernel(cg *c, LLVMValueRef fn, u32 block) {
  char text[16];
  static const char key[] = "nvvm.reqntid";
  (void)snprintf(text, sizeof text, "%u", block);
  LLVMAddAttributeAtIndex(
      fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
      LLVMCreateStringAttribute(c->ctx, key, sizeof key - 1, text, (unsigned)strlen(text)));
}

static void nvptx_fragment(cg *c, LLVMValueRef at, u32 squares, bool turned, LLVMValueRef *words) {
  char name[72];
  (void)snprintf(name, sizeof name, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x%u%s.b16", squares,
                 turned ? ".trans" : "");
  LLVMTypeRef type = LLVMTypeOf(at);
  LLVMValueRef all = cg_intrinsic(c, name, 1, &type, 1, &at);
  for (u32 k = 0; k < squares; k++) words[k] = LLVMBuildExtractValue(c->b, all, k, "");
}

static void nvptx_multiply(cg *c, const gpu_unit *u, const LLVMValueRef *a, const LLVMValueRef *b,
                           LLVMValueRef *acc) {
  static const char *const names[GPU_UNITS] = {
      "llvm.nvvm.mma.m16n8k16.row.col.bf16", "llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
      "llvm.nvvm.mma.m16n8k32.row.col.s8", "llvm.nvvm.mma.m16n8k32.row.col.u8"};
  LLVMTypeRef pair = LLVMVectorType(c->f16, 2);
  LLVMValueRef args[10];
  for (u32 k = 0; k < 6; k++) {
    args[k] = k < 4 ? a[k] : b[k - 4];
    if (u->type == HLO_F16) args[k] = LLVMBuildBitCast(c->b, args[k], pair, "");
  }
  for (u32 k = 0; k < 4; k++) args[6 + k] = acc[k];
  LLVMValueRef all = cg_intrinsic(c, names[u - gpu_units], 0, NULL, 10, args);
  for (u32 k = 0; k < 4; k++) acc[k] = LLVMBuildExtractValue(c->b, all, k, "");
}

const gpu_target gpu_nvptx = {.vendor = "NVIDIA",
                              .triple = "nvptx64-nvidia-cuda",
                              .features = "",
                              .constant_space = 1,
                              .shared_space = 3,
                              .calling_convention = 71,
                              .thread = "llvm.nvvm.read.ptx.sreg.tid.x",
                              .block = "llvm.nvvm.read.ptx.sreg.ctaid.x",
                              .barrier = nvptx_barrier,
                              .exchange = nvptx_exchange,
                              .same = nvptx_same,
                              .kernel = nvptx_kernel,
                              .fragment = nvptx_fragment,
                              .multiply = nvptx_multiply};

// ---- AMD ----------------------------------------------------------------------------------------
// Its waves have 64 lanes: teams of up to 32 are halves of one.
static void amdgcn_barrier(cg *c) {
  for (u32 k = 0; k < 2; k++) {
    // what the block wrote before is seen behind it
    unsigned scope = LLVMGetSyncScopeID(c->ctx, "workgroup", strlen("workgroup"));
    LLVMAtomicOrdering o = k ? LLVMAtomicOrderingAcquire : LLVMAtomicOrderingRelease;
    LLVMBuildFenceSyncScope(c->b, o, scope, "");
    if (k == 0) (void)cg_intrinsic(c, "llvm.amdgcn.s.barrier", 0, NULL, 0, NULL);
  }
}

static LLVMValueRef amdgcn_lane(cg *c) {
  LLVMValueRef all = LLVMConstAllOnes(c->i32), lane = i32_of(c, 0);
  static const char *const count[] = {"llvm.amdgcn.mbcnt.lo", "llvm.amdgcn.mbcnt.hi"};
  for (u32 k = 0; k < 2; k++)
    lane = cg_intrinsic(c, count[k], 0, NULL, 2, (LLVMValueRef[]){all, lane});
  return lane;
}

// Bit by bit, of numbers below 2^9: lanes that agree in all of them. The upper half's are shifted.
static LLVMValueRef amdgcn_same(cg *c, LLVMValueRef v) {
  enum { BITS = 9 };
  LLVMValueRef all = LLVMConstAllOnes(c->i64),
               half = LLVMBuildAnd(c->b, amdgcn_lane(c), i32_of(c, 32), "");
  for (u32 k = 0; k < BITS; k++) {
    LLVMValueRef bit = LLVMBuildTrunc(c->b, LLVMBuildLShr(c->b, v, i32_of(c, k), ""), c->i1, ""),
                 set = cg_intrinsic(c, "llvm.amdgcn.ballot", 1, &c->i64, 1, &bit);
    all = LLVMBuildAnd(c->b, all, LLVMBuildSelect(c->b, bit, set, LLVMBuildNot(c->b, set, ""), ""),
                       "");
  }
  LLVMValueRef by = LLVMBuildZExt(c->b, half, c->i64, "");
  return LLVMBuildTrunc(c->b, LLVMBuildLShr(c->b, all, by, ""), c->i32, "");
}

static LLVMValueRef amdgcn_exchange(cg *c, LLVMValueRef v, u32 with) {
  LLVMValueRef lane = amdgcn_lane(c);
  LLVMValueRef other = LLVMBuildXor(c->b, lane, i32_of(c, with), ""),
               at = LLVMBuildShl(c->b, other, i32_of(c, 2), "");
  return cg_intrinsic(c, "llvm.amdgcn.ds.bpermute", 0, NULL, 2, (LLVMValueRef[]){at, v});
}

static void amdgcn_kernel(cg *c, LLVMValueRef fn, u32 block) {
  char text[32];
  static const char key[] = "amdgpu-flat-work-group-size";
  (void)snprintf(text, sizeof text, "%u,%u", block, block);
  LLVMAddAttributeAtIndex(
      fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
      LLVMCreateStringAttribute(c->ctx, key, sizeof key - 1, text, (unsigned)strlen(text)));
}

const gpu_target gpu_amdgcn = {.vendor = "AMD",
                               .triple = "amdgcn-amd-amdhsa",
                               .features = "",
                               .constant_space = 4,
                               .shared_space = 3,
                               .calling_convention = 91,
                               .thread = "llvm.amdgcn.workitem.id.x",
                               .block = "llvm.amdgcn.workgroup.id.x",
                               .barrier = amdgcn_barrier,
                               .exchange = amdgcn_exchange,
                               .same = amdgcn_same,
                               .kernel = amdgcn_kernel};

// ---- any target ---------------------------------------------------------------------------------
LLVMValueRef gpu_exchange(cg *c, LLVMValueRef v, u32 with) {
  const gpu_target *t = gpu_of(c)->target;
  LLVMTypeRef type = LLVMTypeOf(v);
  bool real = type == c->f32 || type == c->f64;
  LLVMTypeRef bits = type == c->f64 ? c->i64 : type == c->f32 ? c->i32 : type;
  LLVMValueRef x = real ? LLVMBuildBitCast(c->b, v, bits, "") : v, r;
  if (bits == c->i64) {
    LLVMValueRef k = LLVMConstInt(c->i64, 32, false),
                 lo = t->exchange(c, LLVMBuildTrunc(c->b, x, c->i32, ""), with),
                 hi = t->exchange(
                     c, LLVMBuildTrunc(c->b, LLVMBuildLShr(c->b, x, k, ""), c->i32, ""), with);
    r = LLVMBuildOr(c->b, LLVMBuildZExt(c->b, lo, c->i64, ""),
                    LLVMBuildShl(c->b, LLVMBuildZExt(c->b, hi, c->i64, ""), k, ""), "");
  } else if (bits == c->i32) {
    r = t->exchange(c, x, with);
  } else {
    r = t->exchange(c, LLVMBuildZExt(c->b, x, c->i32, ""), with);
    r = LLVMBuildTrunc(c->b, r, bits, "");
  }
  return real ? LLVMBuildBitCast(c->b, r, type, "") : r;
}
