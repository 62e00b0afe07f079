// rewrite_access.c — puts a call before each access to memory that looks at it (check.c).
//
// Where the pointer comes by arithmetic from a variable, an array on the stack or a parameter whose
// size is known, the access must stay in that, not only in what is allocated around it. A shared
// variable that ends at another one's start is told apart so, and a value in a program's arena.
#include "backends/gpu/emu/rewrite.h"

#include <stdio.h>
#include <stdlib.h>

u64 rw_alloca_bytes(const rewrite *r, LLVMValueRef a) {
  LLVMValueRef count = LLVMGetOperand(a, 0);
  if (!LLVMIsAConstantInt(count)) return 0;
  return LLVMABISizeOfType(r->layout, LLVMGetAllocatedType(a)) * LLVMConstIntGetZExtValue(count);
}

// One step towards what p points into; NULL at the end.
static LLVMValueRef step_back(LLVMValueRef p) {
  bool constant = LLVMIsAConstantExpr(p);
  if (!constant && !LLVMIsAInstruction(p)) return NULL;
  switch (constant ? LLVMGetConstOpcode(p) : LLVMGetInstructionOpcode(p)) {
  case LLVMGetElementPtr:
  case LLVMAddrSpaceCast:
  case LLVMBitCast: return LLVMGetOperand(p, 0);
  default: return NULL;
  }
}

// A shared variable stands as an instruction by now: which one?
static const shared_var *variable_of(const rewrite *r, LLVMValueRef v) {
  for (size_t k = 0; k < r->known.n; k += 2)
    if (r->known.v[k + 1] == v) return rw_shared(r, r->known.v[k]);
  return rw_shared(r, v);
}

u64 rw_declared_bytes(LLVMValueRef fn, u32 k) {
  LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(fn, k + 1, EMU_BYTES, sizeof EMU_BYTES - 1);
  unsigned n;
  char text[24];
  bool pointer = LLVMGetTypeKind(LLVMTypeOf(LLVMGetParam(fn, k))) == LLVMPointerTypeKind;
  if (!a || !pointer) return 0;
  snprintf(text, sizeof text, "%s", LLVMGetStringAttributeValue(a, &n));
  return strtoull(text, NULL, 10);
}

static u64 argument_bytes(LLVMValueRef argument, u32 *out_index) {
  LLVMValueRef fn = LLVMGetParamParent(argument);
  for (u32 k = 0; k < LLVMCountParams(fn); k++) {
    if (LLVMGetParam(fn, k) != argument) continue;
    *out_index = k;
    return rw_declared_bytes(fn, k);
  }
  return 0;
}

// Fills in what the site's pointer points into; its start, or NULL.
static LLVMValueRef find_object(rewrite *r, LLVMValueRef p, emu_site *s) {
  u32 index;
  for (u32 steps = 0; steps < 64; steps++) {
    u32 space = LLVMGetPointerAddressSpace(LLVMTypeOf(p));
    if (space != EMU_GENERIC) s->space = (u8)space;
    const shared_var *var = variable_of(r, p);
    if (var) {
      s->space = EMU_SHARED;
      if (var->dynamic) return NULL;
      s->object = var->name;
      s->object_bytes = var->bytes;
      // still itself where the pointer is made in a block that comes later in the text
      return LLVMIsAConstant(p) ? rw_constant(r, p) : p;
    }
    if (LLVMIsAAllocaInst(p)) {
      s->space = EMU_LOCAL;
      s->object = "an array on the stack";
      s->object_bytes = rw_alloca_bytes(r, p);
      return s->object_bytes ? p : NULL;
    }
    if (LLVMIsAGlobalVariable(p)) {
      s->object = "a variable";
      s->object_bytes = LLVMABISizeOfType(r->layout, LLVMGlobalGetValueType(p));
      return p;
    }
    if (LLVMIsAArgument(p)) {
      s->object_bytes = argument_bytes(p, &index);
      if (!s->object_bytes) return NULL;
      hs_buf text = {0};
      hs_buf_printf(&text, "parameter %u", index);
      s->object = hs_arena_strndup(&r->out->arena, text.p, text.n);
      hs_buf_free(&text);
      return p;
    }
    p = step_back(p);
    if (!p || LLVMGetTypeKind(LLVMTypeOf(p)) != LLVMPointerTypeKind) return NULL;
  }
  return NULL;
}

static LLVMValueRef generic(rewrite *r, LLVMValueRef p) {
  if (LLVMGetPointerAddressSpace(LLVMTypeOf(p)) == 0) return p;
  return LLVMBuildAddrSpaceCast(r->b, p, r->ptr, "");
}

// void within(self, p, site, object, last, mask): returns at once when p is a multiple of mask + 1,
// at most `last` bytes behind object, and what parameters declare is registered; else the access is
// looked at. It is inlined.
static LLVMValueRef within(rewrite *r) {
  if (r->within) return r->within;
  LLVMTypeRef types[] = {r->ptr, r->ptr, r->ptr, r->ptr, r->i64, r->i64};
  LLVMValueRef fn = r->within =
      LLVMAddFunction(r->m, "emu.within", LLVMFunctionType(r->nothing, types, 6, false));
  LLVMSetLinkage(fn, LLVMInternalLinkage);
  unsigned kind = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
  LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(r->ctx, kind, 0));
  LLVMBasicBlockRef start = LLVMAppendBasicBlockInContext(r->ctx, fn, ""),
                    look = LLVMAppendBasicBlockInContext(r->ctx, fn, ""),
                    end = LLVMAppendBasicBlockInContext(r->ctx, fn, "");
  LLVMValueRef arg[6];
  LLVMGetParams(fn, arg);
  LLVMPositionBuilderAtEnd(r->b, start);
  LLVMValueRef p = LLVMBuildPtrToInt(r->b, arg[1], r->i64, "");
  LLVMValueRef at = LLVMBuildSub(r->b, p, LLVMBuildPtrToInt(r->b, arg[3], r->i64, ""), "");
  LLVMValueRef in = LLVMBuildICmp(r->b, LLVMIntULE, at, arg[4], "");
  LLVMValueRef odd = LLVMBuildAnd(r->b, p, arg[5], "");
  LLVMValueRef even = LLVMBuildICmp(r->b, LLVMIntEQ, odd, LLVMConstInt(r->i64, 0, false), "");
  LLVMValueRef block = rw_field(r, r->ptr, arg[0], offsetof(emu_thread, block));
  LLVMValueRef trusted = rw_field(r, r->i32, block, offsetof(emu_block, trusted));
  trusted = LLVMBuildICmp(r->b, LLVMIntNE, trusted, rw_u32(r, 0), "");
  LLVMValueRef good = LLVMBuildAnd(r->b, LLVMBuildAnd(r->b, in, even, ""), trusted, "");
  LLVMBuildCondBr(r->b, good, end, look);
  LLVMPositionBuilderAtEnd(r->b, look);
  (void)rw_call(r, (const void *)(uintptr_t)emu_check,
                LLVMFunctionType(r->nothing, types, 4, false), arg, 4);
  LLVMBuildBr(r->b, end);
  LLVMPositionBuilderAtEnd(r->b, end);
  LLVMBuildRetVoid(r->b);
  return fn;
}

// n: bytes as a value; NULL: those of the site.
static void look_at(rewrite *r, LLVMValueRef p, u32 access, u64 bytes, u32 align, LLVMValueRef n) {
  emu_site *s = rw_site(r);
  s->access = (u8)access;
  s->bytes = (u32)bytes;
  s->align = align;
  LLVMValueRef object = find_object(r, p, s);
  LLVMTypeRef types[] = {r->ptr, r->ptr, r->ptr, r->ptr, r->i64};
  if (object && !n && LLVMIsAArgument(object) && rw_is_kernel(r->fn) && bytes <= s->object_bytes) {
    LLVMValueRef fn = within(r), self = rw_self(r);
    LLVMValueRef args[] = {self,
                           generic(r, p),
                           rw_pointer(r, s),
                           generic(r, object),
                           LLVMConstInt(r->i64, s->object_bytes - bytes, false),
                           LLVMConstInt(r->i64, align ? align - 1 : 0, false)};
    (void)LLVMBuildCall2(r->b, LLVMGlobalGetValueType(fn), fn, args, 6, "");
    return;
  }
  LLVMValueRef self = rw_self(r);
  LLVMValueRef args[] = {self, generic(r, p), rw_pointer(r, s),
                         object ? generic(r, object) : LLVMConstNull(r->ptr), n};
  const void *fn =
      n ? (const void *)(uintptr_t)emu_check_bytes : (const void *)(uintptr_t)emu_check;
  u32 nargs = n ? 5 : 4;
  (void)rw_call(r, fn, LLVMFunctionType(r->nothing, types, nargs, false), args, nargs);
}

static void look_at_value(rewrite *r, unsigned pointer, LLVMTypeRef type, u32 access) {
  if (LLVMGetOrdering(r->at) != LLVMAtomicOrderingNotAtomic) access |= EMU_ATOMIC;
  look_at(r, LLVMGetOperand(r->at, pointer), access, LLVMStoreSizeOfType(r->layout, type),
          LLVMGetAlignment(r->at), NULL);
}

// memcpy and its kind.
static void look_at_call(rewrite *r) {
  LLVMValueRef callee = LLVMGetCalledValue(r->at);
  if (!LLVMIsAFunction(callee)) return;
  size_t n;
  const char *name = LLVMGetValueName2(callee, &n);
  bool set = strncmp(name, "llvm.memset.", 12) == 0;
  bool copy = strncmp(name, "llvm.memcpy.", 12) == 0 || strncmp(name, "llvm.memmove.", 13) == 0;
  if (!set && !copy) return;
  (void)rw_self(r);
  LLVMValueRef bytes = LLVMBuildIntCast2(r->b, LLVMGetOperand(r->at, 2), r->i64, false, "");
  if (copy) look_at(r, LLVMGetOperand(r->at, 1), EMU_READ, 0, 1, bytes);
  look_at(r, LLVMGetOperand(r->at, 0), EMU_WRITE, 0, 1, bytes);
}

void rw_check(rewrite *r) {
  switch (LLVMGetInstructionOpcode(r->at)) {
  case LLVMLoad: return look_at_value(r, 0, LLVMTypeOf(r->at), EMU_READ);
  case LLVMStore: return look_at_value(r, 1, LLVMTypeOf(LLVMGetOperand(r->at, 0)), EMU_WRITE);
  case LLVMAtomicRMW:
    return look_at_value(r, 0, LLVMTypeOf(LLVMGetOperand(r->at, 1)), EMU_READ | EMU_WRITE);
  case LLVMAtomicCmpXchg:
    look_at(r, LLVMGetOperand(r->at, 0), EMU_READ | EMU_WRITE | EMU_ATOMIC,
            LLVMStoreSizeOfType(r->layout, LLVMTypeOf(LLVMGetOperand(r->at, 1))),
            LLVMGetAlignment(r->at), NULL);
    return;
  case LLVMCall: return look_at_call(r);
  default: return;
  }
}
