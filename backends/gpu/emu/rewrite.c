// rewrite.c — makes a module for the GPU one for the host.
//
// Each function asks for its thread once, at its start (emu_self), and reads special registers from
// that structure. Shared variables become offsets into the memory of the block that runs: those of
// one kernel lie behind those that functions share, so that kernels of one module do not add up.
// Constants that name them become instructions at the start of the function. Each kernel gets an
// entry that reads its parameters as cuLaunchKernel passes them, an array of pointers to values.
//
// Functions and variables get new names: a kernel may be called exp2f.
#include "backends/gpu/emu/rewrite.h"

#include <stdio.h>
#include <stdlib.h>

#define KERNEL_CALL 71  // calling convention ptx_kernel
#define OF_FUNCTION ((LLVMAttributeIndex)LLVMAttributeFunctionIndex)

// ---- small things -------------------------------------------------------------------------------
LLVMValueRef rw_u32(rewrite *r, u64 v) { return LLVMConstInt(r->i32, v, false); }

LLVMValueRef rw_pointer(rewrite *r, const void *p) {
  return LLVMConstIntToPtr(LLVMConstInt(r->i64, (u64)(uintptr_t)p, false), r->ptr);
}

LLVMValueRef rw_call(rewrite *r, const void *fn, LLVMTypeRef type, LLVMValueRef *args, u32 n) {
  return LLVMBuildCall2(r->b, type, rw_pointer(r, fn), args, n, "");
}

LLVMValueRef rw_field(rewrite *r, LLVMTypeRef type, LLVMValueRef base, size_t offset) {
  LLVMValueRef at = LLVMConstInt(r->i64, offset, false);
  return LLVMBuildLoad2(r->b, type, LLVMBuildInBoundsGEP2(r->b, r->i8, base, &at, 1, ""), "");
}

static void at_start(rewrite *r) { LLVMPositionBuilderBefore(r->b, r->first); }
static void at_instruction(rewrite *r) { LLVMPositionBuilderBefore(r->b, r->at); }

LLVMValueRef rw_self(rewrite *r) {
  if (!r->self) {
    at_start(r);
    r->self = rw_call(r, (const void *)(uintptr_t)emu_self, LLVMFunctionType(r->ptr, NULL, 0, 0),
                      NULL, 0);
  }
  at_instruction(r);
  return r->self;
}

static const char *value_name(LLVMValueRef v) {
  size_t n;
  return LLVMGetValueName2(v, &n);
}

static const char *string_attribute(rewrite *r, LLVMValueRef fn, LLVMAttributeIndex at,
                                    const char *name) {
  LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(fn, at, name, (unsigned)strlen(name));
  if (!a) return NULL;
  unsigned n;
  const char *text = LLVMGetStringAttributeValue(a, &n);
  return hs_arena_strndup(&r->out->arena, text, n);
}

static const char *metadata_name(rewrite *r, LLVMValueRef instr) {
  LLVMValueRef node = LLVMHasMetadata(instr) ? LLVMGetMetadata(instr, r->hlo) : NULL, text;
  if (!node || LLVMGetMDNodeNumOperands(node) != 1) return NULL;
  LLVMGetMDNodeOperands(node, &text);
  unsigned n;
  const char *s = text ? LLVMGetMDString(text, &n) : NULL;
  return s ? hs_arena_strndup(&r->out->arena, s, n) : NULL;
}

emu_site *rw_site(rewrite *r) {
  emu_site *s = HS_NEW(&r->out->arena, emu_site);
  const char *own = metadata_name(r, r->at);
  s->function = r->fn_name;
  s->hlo = own ? own : r->fn_hlo;
  return s;
}

// ---- shared memory ------------------------------------------------------------------------------
static bool is_shared(LLVMValueRef v) {
  return LLVMIsAGlobalVariable(v) && LLVMGetPointerAddressSpace(LLVMTypeOf(v)) == EMU_SHARED;
}

const shared_var *rw_shared(const rewrite *r, LLVMValueRef global) {
  for (size_t k = 0; k < r->shared.n; k++)
    if (r->shared.v[k].global == global) return &r->shared.v[k];
  return NULL;
}

static bool names_shared(LLVMValueRef v) {
  if (is_shared(v)) return true;
  if (!LLVMIsAConstantExpr(v) && !LLVMIsAConstantVector(v) && !LLVMIsAConstantStruct(v) &&
      !LLVMIsAConstantArray(v))
    return false;
  for (int k = 0; k < LLVMGetNumOperands(v); k++)
    if (names_shared(LLVMGetOperand(v, (unsigned)k))) return true;
  return false;
}

// The start of a variable, as a pointer of its address space.
static LLVMValueRef variable(rewrite *r, const shared_var *s) {
  LLVMTypeRef type = LLVMPointerTypeInContext(r->ctx, EMU_SHARED);
  LLVMValueRef *base = s->dynamic ? &r->dynamic_base : &r->shared_base;
  LLVMValueRef self = rw_self(r), at = LLVMConstInt(r->i64, s->offset, false);
  at_start(r);
  if (!*base)
    *base = rw_field(r, type, self,
                     s->dynamic ? offsetof(emu_thread, dynamic) : offsetof(emu_thread, shared));
  return s->dynamic ? *base : LLVMBuildInBoundsGEP2(r->b, r->i8, *base, &at, 1, "");
}

static LLVMValueRef expression(rewrite *r, LLVMValueRef c) {
  LLVMValueRef op[16];
  unsigned n = (unsigned)LLVMGetNumOperands(c);
  if (n > HS_COUNT(op)) return NULL;
  for (unsigned k = 0; k < n; k++) {
    op[k] = LLVMGetOperand(c, k);
    if (names_shared(op[k])) op[k] = rw_constant(r, op[k]);
    if (!op[k]) return NULL;
  }
  at_start(r);
  LLVMTypeRef type = LLVMTypeOf(c);
  switch (LLVMGetConstOpcode(c)) {
  case LLVMGetElementPtr:
    return LLVMBuildGEP2(r->b, LLVMGetGEPSourceElementType(c), op[0], op + 1, n - 1, "");
  case LLVMAddrSpaceCast:
  case LLVMBitCast:
  case LLVMPtrToInt:
  case LLVMIntToPtr:
  case LLVMTrunc: return LLVMBuildCast(r->b, LLVMGetConstOpcode(c), op[0], type, "");
  case LLVMAdd:
  case LLVMSub: return LLVMBuildBinOp(r->b, LLVMGetConstOpcode(c), op[0], op[1], "");
  default: return NULL;
  }
}

LLVMValueRef rw_constant(rewrite *r, LLVMValueRef c) {
  for (size_t k = 0; k < r->known.n; k += 2)
    if (r->known.v[k] == c) return r->known.v[k + 1];
  LLVMValueRef v = NULL;
  const shared_var *s = rw_shared(r, c);
  if (s) v = variable(r, s);
  else if (LLVMIsAConstantExpr(c)) v = expression(r, c);
  at_instruction(r);
  if (!v) return NULL;
  hs_vec_push(&r->known, c);
  hs_vec_push(&r->known, v);
  return v;
}

// The only function that uses v, directly or in constants; *several: there are more.
static void find_owner(LLVMValueRef v, LLVMValueRef *owner, bool *several) {
  for (LLVMUseRef u = LLVMGetFirstUse(v); u; u = LLVMGetNextUse(u)) {
    LLVMValueRef user = LLVMGetUser(u);
    if (LLVMIsAInstruction(user)) {
      LLVMValueRef fn = LLVMGetBasicBlockParent(LLVMGetInstructionParent(user));
      if (*owner && *owner != fn) *several = true;
      *owner = fn;
    } else if (!LLVMIsAGlobalVariable(user)) {
      find_owner(user, owner, several);
    }
  }
}

bool rw_is_kernel(LLVMValueRef fn) { return LLVMGetFunctionCallConv(fn) == KERNEL_CALL; }

static u64 place(shared_var *s, u64 at) {
  at = (at + s->align - 1) / s->align * s->align;
  s->offset = at;
  return at + s->bytes;
}

// Finds the shared variables and gives those without an only owner their places. *out_common: the
// bytes of these.
static void find_shared(rewrite *r, u64 *out_common) {
  *out_common = 0;
  for (LLVMValueRef g = LLVMGetFirstGlobal(r->m); g; g = LLVMGetNextGlobal(g)) {
    if (!is_shared(g)) continue;
    LLVMTypeRef type = LLVMGlobalGetValueType(g);
    shared_var s = {.global = g, .bytes = LLVMABISizeOfType(r->layout, type)};
    s.name = hs_arena_strndup(&r->out->arena, value_name(g), strlen(value_name(g)));
    s.align = HS_MAX(LLVMGetAlignment(g), LLVMABIAlignmentOfType(r->layout, type));
    s.dynamic = LLVMIsDeclaration(g) || s.bytes == 0;
    bool several = false;
    find_owner(g, &s.owner, &several);
    if (several || (s.owner && !rw_is_kernel(s.owner))) s.owner = NULL;
    if (!s.owner && !s.dynamic) *out_common = place(&s, *out_common);
    hs_vec_push(&r->shared, s);
  }
}

// Gives the variables of one kernel their places; the bytes that it needs in all.
static u64 place_own(rewrite *r, LLVMValueRef kernel, u64 common) {
  u64 at = common, align = 1;
  for (size_t k = 0; k < r->shared.n; k++) {
    shared_var *s = &r->shared.v[k];
    if (s->owner == kernel && !s->dynamic) at = place(s, at);
    if (s->dynamic) align = HS_MAX(align, s->align);
  }
  return (at + align - 1) / align * align;
}

// ---- kernels ------------------------------------------------------------------------------------
static u32 max_threads(rewrite *r, LLVMValueRef fn) {
  const char *text = string_attribute(r, fn, OF_FUNCTION, "nvvm.maxntid");
  u64 n = 1;
  for (char *end; text && *text; text = *end == ',' ? end + 1 : end) {
    u64 d = strtoull(text, &end, 10);
    if (end == text || d == 0 || d > EMU_BLOCK_MOST) return EMU_BLOCK_MOST;
    n *= d;
    if (*end != ',') break;
  }
  return text && n <= EMU_BLOCK_MOST ? (u32)n : EMU_BLOCK_MOST;
}

static bool flushes(rewrite *r, LLVMValueRef fn) {
  const char *text = string_attribute(r, fn, OF_FUNCTION, "denormal-fp-math-f32");
  return text && strncmp(text, "preserve-sign", 13) == 0;
}

// The type that parameter `at` points to when it is passed by value in memory; NULL: it is not.
static LLVMTypeRef by_value(LLVMValueRef fn, u32 at) {
  unsigned kind = LLVMGetEnumAttributeKindForName("byval", 5);
  LLVMAttributeRef a = LLVMGetEnumAttributeAtIndex(fn, at + 1, kind);
  return a ? LLVMGetTypeAttributeValue(a) : NULL;
}

static void describe_params(rewrite *r, LLVMValueRef fn, emu_kernel *k) {
  u32 n = LLVMCountParams(fn), at = 0;
  u32 *bytes = HS_NEW_ARRAY(&r->out->arena, u32, n), *offset = HS_NEW_ARRAY(&r->out->arena, u32, n);
  u64 *declared = HS_NEW_ARRAY(&r->out->arena, u64, n);
  for (u32 p = 0; p < n; p++) {
    LLVMTypeRef type = by_value(fn, p);
    if (!type) declared[p] = rw_declared_bytes(fn, p);
    if (!type) type = LLVMTypeOf(LLVMGetParam(fn, p));
    u32 align = LLVMABIAlignmentOfType(r->layout, type);
    bytes[p] = (u32)LLVMABISizeOfType(r->layout, type);
    offset[p] = at = (at + align - 1) / align * align;
    at += bytes[p];
  }
  k->nparams = n;
  k->param_bytes = bytes;
  k->param_at = offset;
  k->declared = declared;
}

// void entry(ptr params): calls the kernel with what params[0], params[1], ... point to.
static void make_entry(rewrite *r, LLVMValueRef fn, u32 number) {
  char name[32];
  snprintf(name, sizeof name, "emu.entry.%u", number);
  LLVMTypeRef type = LLVMFunctionType(r->nothing, &r->ptr, 1, false);
  LLVMValueRef entry = LLVMAddFunction(r->m, name, type), params = LLVMGetParam(entry, 0);
  LLVMPositionBuilderAtEnd(r->b, LLVMAppendBasicBlockInContext(r->ctx, entry, ""));
  u32 n = LLVMCountParams(fn);
  LLVMValueRef *args = hs_calloc(n + 1, sizeof *args);
  unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5);
  for (u32 p = 0; p < n; p++) {
    LLVMTypeRef t = LLVMTypeOf(LLVMGetParam(fn, p));
    args[p] = rw_field(r, r->ptr, params, p * sizeof(void *));
    if (!by_value(fn, p)) args[p] = LLVMBuildLoad2(r->b, t, args[p], "");
    else LLVMRemoveEnumAttributeAtIndex(fn, p + 1, byval);
  }
  LLVMBuildCall2(r->b, LLVMGlobalGetValueType(fn), fn, args, n, "");
  LLVMBuildRetVoid(r->b);
  hs_free(args);
}

// ---- functions ----------------------------------------------------------------------------------
static bool contains(const rewrite *r, LLVMValueRef fn) {
  for (size_t k = 0; k < r->waiting.n; k++)
    if (r->waiting.v[k] == fn) return true;
  return false;
}

// Whoever calls a function that waits waits too. True: the address of one is taken, so that anybody
// may call it.
static bool spread_waiting(rewrite *r) {
  for (size_t k = 0; k < r->waiting.n; k++)
    for (LLVMUseRef u = LLVMGetFirstUse(r->waiting.v[k]); u; u = LLVMGetNextUse(u)) {
      LLVMValueRef user = LLVMGetUser(u);
      if (!LLVMIsACallInst(user) || LLVMGetCalledValue(user) != r->waiting.v[k]) return true;
      LLVMValueRef fn = LLVMGetBasicBlockParent(LLVMGetInstructionParent(user));
      if (!contains(r, fn)) hs_vec_push(&r->waiting, fn);
    }
  return false;
}

static hs_status shared_operands(rewrite *r) {
  for (int k = 0; k < LLVMGetNumOperands(r->at); k++) {
    LLVMValueRef op = LLVMGetOperand(r->at, (unsigned)k);
    if (!LLVMIsAConstant(op) || !names_shared(op)) continue;
    LLVMValueRef v = rw_constant(r, op);
    if (!v)
      return hs_fail(HS_E_UNSUPPORTED,
                     "the emulator: %s has a constant of shared memory of a kind "
                     "that it does not know",
                     r->fn_name);
    LLVMSetOperand(r->at, (unsigned)k, v);
  }
  return HS_GOOD;
}

static hs_status rewrite_instruction(rewrite *r, bool *gone) {
  *gone = false;
  HS_TRY(shared_operands(r));
  if (r->out->checked) rw_check(r);
  if (!LLVMIsACallInst(r->at)) return HS_GOOD;
  LLVMSetInstructionCallConv(r->at, LLVMCCallConv);
  LLVMValueRef callee = LLVMGetCalledValue(r->at);
  if (LLVMIsAInlineAsm(callee))
    return hs_fail(HS_E_UNSUPPORTED, "the emulator: %s has inline assembly", r->fn_name);
  if (!LLVMIsAFunction(callee) || !LLVMIsDeclaration(callee)) return HS_GOOD;
  return rw_call_of(r, callee, value_name(callee), gone);
}

static hs_status rewrite_function(rewrite *r, LLVMValueRef fn, u64 *out_stack) {
  r->fn = fn;
  r->fn_name = hs_arena_strndup(&r->out->arena, value_name(fn), strlen(value_name(fn)));
  r->fn_hlo = string_attribute(r, fn, OF_FUNCTION, EMU_HLO);
  r->self = r->block = r->shared_base = r->dynamic_base = NULL;
  r->known.n = 0;
  r->first = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(fn));
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b)) {
    LLVMValueRef next;
    for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = next) {
      bool gone;
      r->at = i;
      if (LLVMIsAAllocaInst(i)) *out_stack += rw_alloca_bytes(r, i);
      HS_TRY(rewrite_instruction(r, &gone));
      next = LLVMGetNextInstruction(i);
      if (!gone) continue;
      if (i == r->first) r->first = next;
      LLVMInstructionEraseFromParent(i);
    }
  }
  return HS_GOOD;
}

// What LLVM would read as wishes for the host.
static void forget_target(LLVMValueRef fn) {
  static const char *const names[] = {"target-cpu", "target-features", "tune-cpu"};
  for (size_t k = 0; k < HS_COUNT(names); k++)
    LLVMRemoveStringAttributeAtIndex(fn, OF_FUNCTION, names[k], (unsigned)strlen(names[k]));
  LLVMSetFunctionCallConv(fn, LLVMCCallConv);
}

static void rename_value(LLVMValueRef v, const char *what, u32 number) {
  char name[32];
  int n = snprintf(name, sizeof name, "emu.%s.%u", what, number);
  LLVMSetValueName2(v, name, (size_t)n);
}

// ---- variables that are not shared --------------------------------------------------------------
static hs_status global_variables(rewrite *r) {
  u32 most = 0;
  for (LLVMValueRef g = LLVMGetFirstGlobal(r->m); g; g = LLVMGetNextGlobal(g)) most++;
  r->out->globals = HS_NEW_ARRAY(&r->out->arena, struct emu_global, most);
  LLVMValueRef next;
  for (LLVMValueRef g = LLVMGetFirstGlobal(r->m); g; g = next) {
    next = LLVMGetNextGlobal(g);
    const char *name = value_name(g);
    if (strncmp(name, "llvm.", 5) == 0) {  // lists for the linker
      LLVMDeleteGlobal(g);
      continue;
    }
    if (is_shared(g)) continue;
    if (LLVMIsDeclaration(g))
      return hs_fail(HS_E_UNSUPPORTED, "the emulator: the variable %s is defined elsewhere", name);
    struct emu_global *o = &r->out->globals[r->out->nglobals];
    o->name = hs_arena_strndup(&r->out->arena, name, strlen(name));
    o->bytes = LLVMABISizeOfType(r->layout, LLVMGlobalGetValueType(g));
    rename_value(g, "global", r->out->nglobals++);
    o->symbol = hs_arena_strndup(&r->out->arena, value_name(g), strlen(value_name(g)));
    LLVMSetLinkage(g, LLVMExternalLinkage);
    LLVMSetVisibility(g, LLVMDefaultVisibility);
    LLVMSetSection(g, NULL);
  }
  return HS_GOOD;
}

// ---- all ----------------------------------------------------------------------------------------
static hs_status functions(rewrite *r, u64 common) {
  u32 n = 0;
  u64 stack = 0;
  for (LLVMValueRef f = LLVMGetFirstFunction(r->m); f; f = LLVMGetNextFunction(f)) n++;
  LLVMValueRef *fns = hs_calloc(n + 1, sizeof *fns);
  n = 0;
  for (LLVMValueRef f = LLVMGetFirstFunction(r->m); f; f = LLVMGetNextFunction(f))
    if (!LLVMIsDeclaration(f)) fns[n++] = f;
  emu_kernel *kernels = r->out->kernels = HS_NEW_ARRAY(&r->out->arena, emu_kernel, n);
  LLVMValueRef *of = hs_calloc(n + 1, sizeof *of);
  for (u32 k = 0; k < n; k++) {
    if (!rw_is_kernel(fns[k])) continue;
    emu_kernel *e = &kernels[r->out->nkernels];
    u64 bytes = place_own(r, fns[k], common);
    *e = (emu_kernel){.static_bytes = (u32)HS_MIN(bytes, UINT32_MAX), .module = r->out};
    e->max_threads = max_threads(r, fns[k]);
    e->flushes = flushes(r, fns[k]);
    describe_params(r, fns[k], e);
    of[r->out->nkernels++] = fns[k];
  }
  hs_status s = HS_GOOD;
  for (u32 k = 0; k < n && hs_ok(s); k++) {
    s = hs_poll();
    if (hs_ok(s)) s = rewrite_function(r, fns[k], &stack);
    for (u32 e = 0; e < r->out->nkernels; e++)
      if (of[e] == fns[k]) kernels[e].name = r->fn_name;
  }
  bool all_wait = hs_ok(s) && spread_waiting(r);
  for (u32 e = 0; e < r->out->nkernels && hs_ok(s); e++) {
    kernels[e].waits = all_wait || contains(r, of[e]);
    // Arrays may have copies in registers' slots, and frames of what is called add up.
    kernels[e].stack_bytes = (size_t)HS_MIN(2 * stack, (u64)64 << 20);
    make_entry(r, of[e], e);
  }
  for (u32 k = 0; k < n; k++) {
    forget_target(fns[k]);
    rename_value(fns[k], "fn", k);
    LLVMSetLinkage(fns[k], LLVMInternalLinkage);
  }
  hs_free(of);
  hs_free(fns);
  return s;
}

hs_status emu_rewrite(LLVMContextRef ctx, LLVMModuleRef m, LLVMTargetDataRef layout,
                      emu_module *out) {
  rewrite r = {.ctx = ctx, .m = m, .layout = layout, .out = out};
  u64 common;
  r.b = LLVMCreateBuilderInContext(ctx);
  r.ptr = LLVMPointerTypeInContext(ctx, 0);
  r.i8 = LLVMInt8TypeInContext(ctx);
  r.i32 = LLVMInt32TypeInContext(ctx);
  r.i64 = LLVMInt64TypeInContext(ctx);
  r.nothing = LLVMVoidTypeInContext(ctx);
  r.hlo = LLVMGetMDKindIDInContext(ctx, EMU_HLO, sizeof EMU_HLO - 1);
  hs_status s = global_variables(&r);
  if (hs_ok(s)) {
    find_shared(&r, &common);
    s = functions(&r, common);
  }
  for (size_t k = 0; k < r.shared.n && hs_ok(s); k++)
    if (!LLVMGetFirstUse(r.shared.v[k].global)) LLVMDeleteGlobal(r.shared.v[k].global);
  hs_vec_free(&r.shared);
  hs_vec_free(&r.waiting);
  hs_vec_free(&r.known);
  LLVMDisposeBuilder(r.b);
  return s;
}
