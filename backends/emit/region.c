// region.c — a region as LLVM IR: one function over the table of slots.
//
// The kernels that it inlines are written as functions of their own (codegen.c) and left to LLVM's
// inliner, which here has no choice. Their arguments go through an array of pointers on the stack;
// once inlined, the array dissolves into registers, and so do the local slots: memory on the
// function's stack that only loads and stores of one size touch (SROA). A carried scalar so becomes
// a phi, and a loop whose bound is a constant slot is one compare and branch.
#include "backends/emit/region.h"

#include "backends/emit/codegen.h"
#include "backends/emit/unit.h"

typedef struct region_cg {
  LLVMContextRef ctx;
  LLVMModuleRef mod;
  LLVMBuilderRef b;
  const emit_region *r;
  const emit_options *o;
  LLVMTypeRef i8, i32, i64, ptr, entry_type, call_type;
  LLVMValueRef fn, table, call, call_ctx, fns;
  LLVMBasicBlockRef entry;  // allocations and pointers of slots; ends where the code begins
  LLVMValueRef *slot;       // pointer, or for exchanged slots the variable that holds it
  LLVMBasicBlockRef failed;
  LLVMValueRef failed_phi;
} region_cg;

static LLVMValueRef const64(region_cg *c, u64 v) { return LLVMConstInt(c->i64, v, false); }

static LLVMValueRef element(region_cg *c, LLVMTypeRef t, LLVMValueRef p, u64 i) {
  LLVMValueRef at = const64(c, i);
  return i ? LLVMBuildGEP2(c->b, t, p, &at, 1, "") : p;
}

static LLVMBasicBlockRef new_block(region_cg *c) {
  return LLVMAppendBasicBlockInContext(c->ctx, c->fn, "");
}

// Runs what follows in the entry block; returns where the builder was.
static LLVMBasicBlockRef at_entry(region_cg *c) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(c->b);
  LLVMPositionBuilderAtEnd(c->b, c->entry);
  return here;
}

static void copy_bytes(region_cg *c, LLVMValueRef to, LLVMValueRef from, size_t bytes) {
  LLVMBuildMemCpy(c->b, to, 1, from, 1, const64(c, bytes));
}

// ---- slots --------------------------------------------------------------------------------------

static LLVMValueRef known(region_cg *c, const emit_slot *s) {
  LLVMValueRef data = LLVMConstStringInContext(c->ctx, s->data, (unsigned)s->bytes, true),
               g = LLVMAddGlobal(c->mod, LLVMTypeOf(data), "");
  LLVMSetInitializer(g, data);
  LLVMSetGlobalConstant(g, true);
  LLVMSetLinkage(g, LLVMPrivateLinkage);
  LLVMSetAlignment(g, 64);
  return g;
}

static LLVMValueRef memory_of(region_cg *c, u32 k) {
  return LLVMBuildLoad2(c->b, c->ptr, element(c, c->ptr, c->table, k), "");
}

static LLVMValueRef first_pointer(region_cg *c, u32 k) {
  const emit_slot *s = &c->r->slots[k];
  if (s->data && s->bytes && s->bytes <= EMIT_KNOWN_BYTES) return known(c, s);
  LLVMBasicBlockRef here = at_entry(c);
  LLVMValueRef p;
  p = s->local && !s->in ? NULL : memory_of(c, k);
  if (s->local) {
    LLVMValueRef own = LLVMBuildAlloca(c->b, LLVMArrayType(c->i8, (unsigned)s->bytes), "");
    LLVMSetAlignment(own, 64);
    if (p) copy_bytes(c, own, p, s->bytes);
    p = own;
  } else if (s->exchanged) {
    LLVMValueRef var = LLVMBuildAlloca(c->b, c->ptr, "");
    LLVMBuildStore(c->b, p, var);
    p = var;
  }
  LLVMPositionBuilderAtEnd(c->b, here);
  return p;
}

static LLVMValueRef slot_pointer(region_cg *c, u32 k) {
  if (k == EMIT_NO_SLOT) return LLVMConstNull(c->ptr);
  if (!c->slot[k]) c->slot[k] = first_pointer(c, k);
  return c->r->slots[k].exchanged ? LLVMBuildLoad2(c->b, c->ptr, c->slot[k], "") : c->slot[k];
}

// What the program around finds when the region ends: where exchanged slots lie, and what those
// hold that lived on the stack.
static void leave(region_cg *c) {
  for (u32 k = 0; k < c->r->nslots; k++) {
    const emit_slot *s = &c->r->slots[k];
    if (!c->slot[k]) continue;
    if (s->exchanged) LLVMBuildStore(c->b, slot_pointer(c, k), element(c, c->ptr, c->table, k));
    if (s->local && s->out) copy_bytes(c, memory_of(c, k), c->slot[k], s->bytes);
  }
}

// ---- operations ---------------------------------------------------------------------------------

static hs_status emit_ops_of(region_cg *c, const emit_ops *ops);

static LLVMValueRef on_stack(region_cg *c, LLVMTypeRef t) {
  LLVMBasicBlockRef here = at_entry(c);
  LLVMValueRef p = LLVMBuildAlloca(c->b, t, "");
  LLVMSetAlignment(p, 64);
  LLVMPositionBuilderAtEnd(c->b, here);
  return p;
}

// The array of pointers that a kernel or the caller gets. Code outside of the function gets copies
// of local slots, which would have to be memory otherwise; one copy of a slot that comes twice.
static LLVMValueRef argument_array(region_cg *c, const emit_op *o, LLVMValueRef *copies) {
  LLVMValueRef a = on_stack(c, LLVMArrayType(c->ptr, o->n + 1));
  for (u32 k = 0; k < o->n; k++) {
    u32 s = o->slots[k];
    LLVMValueRef p = slot_pointer(c, s);
    if (copies && s != EMIT_NO_SLOT && c->r->slots[s].local) {
      for (u32 j = 0; j < k && !copies[k]; j++)
        if (o->slots[j] == s) copies[k] = copies[j];
      if (!copies[k]) {
        copies[k] = on_stack(c, LLVMArrayType(c->i8, (unsigned)c->r->slots[s].bytes));
        if (k < o->nin) copy_bytes(c, copies[k], p, c->r->slots[s].bytes);
      }
      p = copies[k];
    }
    LLVMBuildStore(c->b, p, element(c, c->ptr, a, k));
  }
  return a;
}

// Results that were written to copies.
static void fetch_results(region_cg *c, const emit_op *o, const LLVMValueRef *copies) {
  for (u32 k = o->nin; k < o->n; k++)
    if (copies[k]) copy_bytes(c, c->slot[o->slots[k]], copies[k], c->r->slots[o->slots[k]].bytes);
}

// The function of a kernel's body in this module, which every use of it shares.
static hs_status inlined_function(region_cg *c, emit_body *body, bool finish, LLVMValueRef *out) {
  char *second = hs_format("%s_finish", body->name);
  const char *name = finish ? second : body->name;
  *out = LLVMGetNamedFunction(c->mod, name);
  hs_status s = HS_GOOD;
  if (!*out) {
    s = emit_body_code(body, c->ctx, c->mod, c->o);
    unsigned kind = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
    const char *const both[] = {body->name, second};
    for (u32 k = 0; k < 2 && hs_ok(s); k++) {
      LLVMValueRef f = LLVMGetNamedFunction(c->mod, both[k]);
      if (!f) continue;
      LLVMSetLinkage(f, LLVMInternalLinkage);
      LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                              LLVMCreateEnumAttribute(c->ctx, kind, 0));
    }
    *out = LLVMGetNamedFunction(c->mod, name);
  }
  hs_free(second);
  return s;
}

static LLVMValueRef called_function(region_cg *c, const emit_kernel *k, bool finish) {
  u64 at = 0;
  while (c->r->called.v[at] != k) at++;
  return LLVMBuildLoad2(c->b, c->ptr, element(c, c->ptr, c->fns, 2 * at + finish), "");
}

static hs_status emit_kernel_op(region_cg *c, const emit_op *o) {
  const emit_kernel *k = o->kernel;
  LLVMValueRef *copies = o->inlined ? NULL : hs_calloc(o->n + 1, sizeof *copies);
  LLVMValueRef a = argument_array(c, o, copies), scratch = slot_pointer(c, o->scratch);
  hs_status s = HS_GOOD;
  for (u32 phase = 0; phase < 2 && hs_ok(s); phase++) {
    i64 chunks = phase ? k->finish_chunks : k->chunks;
    LLVMValueRef f = NULL;
    if (chunks && o->inlined) s = inlined_function(c, k->body, phase, &f);
    else if (chunks) f = called_function(c, k, phase);
    for (i64 n = 0; n < chunks && hs_ok(s); n++) {
      LLVMValueRef args[] = {a, const64(c, (u64)n), scratch};
      LLVMBuildCall2(c->b, c->entry_type, f, args, 3, "");
    }
  }
  if (copies) fetch_results(c, o, copies);
  hs_free(copies);
  return s;
}

static void emit_call_op(region_cg *c, const emit_op *o) {
  LLVMValueRef *copies = hs_calloc(o->n + 1, sizeof *copies);
  LLVMValueRef a = argument_array(c, o, copies);
  LLVMValueRef args[] = {c->call_ctx, LLVMConstInt(c->i32, o->number, false), a};
  LLVMValueRef r = LLVMBuildCall2(c->b, c->call_type, c->call, args, 3, "");
  LLVMBasicBlockRef here = LLVMGetInsertBlock(c->b), on = new_block(c);
  LLVMBuildCondBr(c->b, LLVMBuildICmp(c->b, LLVMIntEQ, r, LLVMConstNull(c->i32), ""), on,
                  c->failed);
  LLVMAddIncoming(c->failed_phi, &r, &here, 1);
  LLVMPositionBuilderAtEnd(c->b, on);
  fetch_results(c, o, copies);
  hs_free(copies);
}

static hs_status emit_loop_op(region_cg *c, const emit_op *o) {
  LLVMBasicBlockRef head = new_block(c), body = new_block(c), after = new_block(c);
  LLVMBuildBr(c->b, head);
  LLVMPositionBuilderAtEnd(c->b, head);
  HS_TRY(emit_ops_of(c, &o->blocks[0]));
  LLVMValueRef p = LLVMBuildLoad2(c->b, c->i8, slot_pointer(c, o->pred), "");
  LLVMBuildCondBr(c->b, LLVMBuildICmp(c->b, LLVMIntNE, p, LLVMConstNull(c->i8), ""), body, after);
  LLVMPositionBuilderAtEnd(c->b, body);
  HS_TRY(emit_ops_of(c, &o->blocks[1]));
  LLVMBuildBr(c->b, head);
  LLVMPositionBuilderAtEnd(c->b, after);
  return HS_GOOD;
}

// A selector that is out of range takes the last branch.
static hs_status emit_switch_op(region_cg *c, const emit_op *o) {
  LLVMValueRef v =
      LLVMBuildLoad2(c->b, o->predicate ? c->i8 : c->i32, slot_pointer(c, o->pred), "");
  if (o->predicate)
    v = LLVMBuildZExt(c->b, LLVMBuildICmp(c->b, LLVMIntEQ, v, LLVMConstNull(c->i8), ""), c->i32,
                      "");
  LLVMBasicBlockRef last = new_block(c), after = new_block(c);
  LLVMValueRef sw = LLVMBuildSwitch(c->b, v, last, o->nblocks);
  for (u32 k = 0; k < o->nblocks; k++) {
    LLVMBasicBlockRef to = k + 1 == o->nblocks ? last : new_block(c);
    if (to != last) LLVMAddCase(sw, LLVMConstInt(c->i32, k, false), to);
    LLVMPositionBuilderAtEnd(c->b, to);
    HS_TRY(emit_ops_of(c, &o->blocks[k]));
    LLVMBuildBr(c->b, after);
  }
  LLVMPositionBuilderAtEnd(c->b, after);
  return HS_GOOD;
}

static void emit_swap_op(region_cg *c, const emit_op *o) {
  LLVMValueRef a = slot_pointer(c, o->to), b = slot_pointer(c, o->from);
  LLVMBuildStore(c->b, a, c->slot[o->from]);
  LLVMBuildStore(c->b, b, c->slot[o->to]);
}

static hs_status emit_ops_of(region_cg *c, const emit_ops *ops) {
  for (size_t k = 0; k < ops->n; k++) {
    const emit_op *o = &ops->v[k];
    switch (o->kind) {
    case EMIT_OP_KERNEL: HS_TRY(emit_kernel_op(c, o)); break;
    case EMIT_OP_CALL: emit_call_op(c, o); break;
    case EMIT_OP_COPY:
      copy_bytes(c, slot_pointer(c, o->to), slot_pointer(c, o->from), o->bytes);
      break;
    case EMIT_OP_SWAP: emit_swap_op(c, o); break;
    case EMIT_OP_LOOP: HS_TRY(emit_loop_op(c, o)); break;
    case EMIT_OP_SWITCH: HS_TRY(emit_switch_op(c, o)); break;
    }
  }
  return HS_GOOD;
}

// ---- the function -------------------------------------------------------------------------------

static void begin(region_cg *c) {
  LLVMTypeRef params[3] = {c->ptr, c->i64, c->ptr};
  c->entry_type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), params, 3, false);
  LLVMTypeRef told[3] = {c->ptr, c->i32, c->ptr};
  c->call_type = LLVMFunctionType(c->i32, told, 3, false);
  LLVMTypeRef both[2] = {c->ptr, c->ptr};
  c->fn = LLVMAddFunction(c->mod, c->r->name, LLVMFunctionType(c->i32, both, 2, false));
  cg_function_attributes(c->ctx, c->fn, c->o);
  c->table = LLVMGetParam(c->fn, 0);
  LLVMValueRef env = LLVMGetParam(c->fn, 1);
  c->entry = new_block(c);
  LLVMPositionBuilderAtEnd(c->b, c->entry);
  c->call = LLVMBuildLoad2(c->b, c->ptr, env, "");
  c->call_ctx = LLVMBuildLoad2(c->b, c->ptr, element(c, c->ptr, env, 1), "");
  c->fns = LLVMBuildLoad2(c->b, c->ptr, element(c, c->ptr, env, 2), "");
  c->failed = new_block(c);
  LLVMPositionBuilderAtEnd(c->b, c->failed);
  c->failed_phi = LLVMBuildPhi(c->b, c->i32, "");
}

hs_status emit_region_code(const emit_region *r, LLVMContextRef ctx, LLVMModuleRef mod,
                           const emit_options *o) {
  region_cg c = {.ctx = ctx, .mod = mod, .r = r, .o = o};
  c.b = LLVMCreateBuilderInContext(ctx);
  c.i8 = LLVMInt8TypeInContext(ctx);
  c.i32 = LLVMInt32TypeInContext(ctx);
  c.i64 = LLVMInt64TypeInContext(ctx);
  c.ptr = LLVMPointerTypeInContext(ctx, 0);
  c.slot = hs_calloc(r->nslots + 1, sizeof *c.slot);
  begin(&c);
  LLVMBasicBlockRef code = new_block(&c);
  LLVMPositionBuilderAtEnd(c.b, code);
  hs_status s = emit_ops_of(&c, &r->ops);
  if (hs_ok(s)) {
    leave(&c);
    LLVMBuildRet(c.b, LLVMConstNull(c.i32));
    LLVMPositionBuilderAtEnd(c.b, c.failed);
    if (LLVMCountIncoming(c.failed_phi)) {
      leave(&c);
      LLVMBuildRet(c.b, c.failed_phi);
    } else {
      LLVMBuildUnreachable(c.b);
      LLVMReplaceAllUsesWith(c.failed_phi, LLVMConstNull(c.i32));
      LLVMDeleteBasicBlock(c.failed);
    }
    LLVMPositionBuilderAtEnd(c.b, c.entry);
    LLVMBuildBr(c.b, code);
  }
  LLVMDisposeBuilder(c.b);
  hs_free(c.slot);
  return s;
}

// ---- the unit's side ----------------------------------------------------------------------------

static void free_ops(emit_ops *ops) {
  for (size_t k = 0; k < ops->n; k++) {
    for (u32 j = 0; j < ops->v[k].nblocks; j++) free_ops(&ops->v[k].blocks[j]);
    if (ops->v[k].nblocks) hs_free(ops->v[k].blocks);
  }
  hs_vec_free(ops);
}

void emit_region_free(emit_region *r) {
  free_ops(&r->ops);
  hs_vec_free(&r->called);
  hs_free(r->fns);
  hs_free(r->slots);
}
