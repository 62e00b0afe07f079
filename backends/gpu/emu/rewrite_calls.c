// rewrite_calls.c — what calls of the GPU's intrinsics become (intrinsics.def).
#include "backends/gpu/emu/math.h"
#include "backends/gpu/emu/rewrite.h"

#include <math.h>
#include <stdlib.h>

#define ADDRESS(fn) ((const void *)(uintptr_t)(fn))

typedef struct field_row {
  const char *name;
  bool of_block;
  size_t offset;
} field_row;
typedef struct warp_row {
  const char *name;
  emu_warp_op op;
  int mask, value, b, c;
} warp_row;
typedef struct matrix_row {
  const char *name;
  emu_warp_op op;
  u32 words, first, into;
} matrix_row;
typedef struct barrier_row {
  const char *name;
  u32 op;
  int id, count, value;
} barrier_row;
typedef struct math_row {
  const char *name;
  const void *fn;
  bool rounds;
} math_row;

#define FIELD_OF_T(f, k) false, offsetof(emu_thread, f) + 4 * (k)
#define FIELD_OF_B(f, k) true, offsetof(emu_block, f) + 4 * (k)
#define ROUNDS_ROUND true
#define ROUNDS_PLAIN false

static const field_row fields[] = {
#define EMU_FIELD(name, in, f, k) {name, FIELD_OF_##in(f, k)},
#define EMU_WARP(name, op, mask, value, b, c)
#define EMU_MATRIX(name, op, words, first, into)
#define EMU_BARRIER(name, op, aligned, id, count, value)
#define EMU_MATH(name, fn, rounds)
#define EMU_NOTHING(name)
#include "backends/gpu/emu/intrinsics.def"
#undef EMU_FIELD
#undef EMU_WARP
#undef EMU_BARRIER
#undef EMU_MATH
#undef EMU_NOTHING
};
static const warp_row warp_ops[] = {
#define EMU_FIELD(name, in, f, k)
#define EMU_WARP(name, op, mask, value, b, c) {name, EMU_##op, mask, value, b, c},
#define EMU_BARRIER(name, op, aligned, id, count, value)
#define EMU_MATH(name, fn, rounds)
#define EMU_NOTHING(name)
#include "backends/gpu/emu/intrinsics.def"
#undef EMU_WARP
#undef EMU_MATRIX
#define EMU_WARP(name, op, mask, value, b, c)
};
static const matrix_row matrix_ops[] = {
#define EMU_MATRIX(name, op, words, first, into) {name, EMU_##op, words, first, into},
#include "backends/gpu/emu/intrinsics.def"
#undef EMU_MATRIX
#undef EMU_BARRIER
#define EMU_MATRIX(name, op, words, first, into)
};
static const barrier_row barriers[] = {
#define EMU_BARRIER(name, op, aligned, id, count, value) \
  {name, EMU_##op | EMU_##aligned, id, count, value},
#include "backends/gpu/emu/intrinsics.def"
#undef EMU_BARRIER
#define EMU_BARRIER(name, op, aligned, id, count, value)
};
#undef EMU_MATH
static const math_row math_rows[] = {
#define EMU_MATH(name, fn, rounds) {name, ADDRESS(fn), ROUNDS_##rounds},
#include "backends/gpu/emu/intrinsics.def"
#undef EMU_MATH
#define EMU_MATH(name, fn, rounds)
};
#undef EMU_NOTHING
static const char *const nothing[] = {
#define EMU_NOTHING(name) name,
#include "backends/gpu/emu/intrinsics.def"
};

static LLVMValueRef argument(const rewrite *r, int k) {
  return k < 0 ? NULL : LLVMGetOperand(r->at, (unsigned)k);
}

static void waits(rewrite *r) {
  for (size_t k = 0; k < r->waiting.n; k++)
    if (r->waiting.v[k] == r->fn) return;
  hs_vec_push(&r->waiting, r->fn);
}

static LLVMValueRef block_of(rewrite *r) {
  return rw_field(r, r->ptr, rw_self(r), offsetof(emu_thread, block));
}

// ---- operations of a warp -----------------------------------------------------------------------
static LLVMValueRef to_u64(rewrite *r, LLVMValueRef v) {
  if (!v) return LLVMConstInt(r->i64, 0, false);
  if (LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMFloatTypeKind)
    v = LLVMBuildBitCast(r->b, v, r->i32, "");
  return LLVMBuildIntCast2(r->b, v, r->i64, false, "");
}

static LLVMValueRef to_u32(rewrite *r, LLVMValueRef v) {
  return v ? LLVMBuildIntCast2(r->b, v, r->i32, false, "") : rw_u32(r, 0);
}

static LLVMValueRef from_u64(rewrite *r, LLVMValueRef v, LLVMTypeRef type) {
  if (LLVMGetTypeKind(type) != LLVMFloatTypeKind)
    return LLVMBuildIntCast2(r->b, v, type, false, "");
  return LLVMBuildBitCast(r->b, LLVMBuildIntCast2(r->b, v, r->i32, false, ""), type, "");
}

static void warp_call(rewrite *r, const warp_row *w) {
  waits(r);
  LLVMValueRef self = rw_self(r);
  emu_site *site = rw_site(r);
  LLVMTypeRef types[] = {r->ptr, r->ptr, r->i32, r->i32, r->i64, r->i32, r->i32};
  LLVMValueRef args[] = {self,
                         rw_pointer(r, site),
                         rw_u32(r, w->op),
                         to_u32(r, argument(r, w->mask)),
                         to_u64(r, argument(r, w->value)),
                         to_u32(r, argument(r, w->b)),
                         to_u32(r, argument(r, w->c))};
  LLVMValueRef v =
      rw_call(r, ADDRESS(emu_warp_call), LLVMFunctionType(r->i64, types, 7, false), args, 7);
  LLVMTypeRef type = LLVMTypeOf(r->at);
  if (LLVMGetTypeKind(type) == LLVMVoidTypeKind) return;
  if (LLVMGetTypeKind(type) != LLVMStructTypeKind) {
    LLVMReplaceAllUsesWith(r->at, from_u64(r, v, type));
    return;
  }
  LLVMValueRef pred = rw_field(r, r->i32, self, offsetof(emu_thread, pred));
  LLVMValueRef both = LLVMGetUndef(type);
  both = LLVMBuildInsertValue(r->b, both, from_u64(r, v, LLVMStructGetTypeAtIndex(type, 0)), 0, "");
  both = LLVMBuildInsertValue(
      r->b, both, LLVMBuildIntCast2(r->b, pred, LLVMStructGetTypeAtIndex(type, 1), false, ""), 1,
      "");
  LLVMReplaceAllUsesWith(r->at, both);
}

// The words lie in an array of the thread's own. Values of any type go as 32 bits.
static LLVMValueRef word_at(rewrite *r, LLVMValueRef array, u32 k) {
  LLVMValueRef at = rw_u32(r, k);
  return LLVMBuildGEP2(r->b, r->i32, array, &at, 1, "");
}

static void matrix_call(rewrite *r, const matrix_row *w) {
  waits(r);
  LLVMValueRef self = rw_self(r);
  emu_site *site = rw_site(r);
  bool loads = w->op == EMU_LOAD_SQUARES || w->op == EMU_LOAD_TURNED;
  site->access = EMU_READ, site->bytes = site->align = 16, site->space = EMU_SHARED;
  LLVMBasicBlockRef here = LLVMGetInsertBlock(r->b);
  LLVMPositionBuilderBefore(r->b, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(r->fn)));
  LLVMValueRef array = LLVMBuildAlloca(r->b, LLVMArrayType2(r->i32, w->words), "");
  LLVMPositionBuilder(r->b, here, r->at);
  for (u32 k = 0; !loads && k < w->words; k++)
    LLVMBuildStore(r->b, LLVMBuildBitCast(r->b, argument(r, (int)k), r->i32, ""),
                   word_at(r, array, k));
  LLVMValueRef args[6] = {self, rw_pointer(r, site), rw_u32(r, w->op)};
  u32 n = 3;
  if (loads) {
    args[n++] = rw_u32(r, w->words);
    args[n++] = LLVMBuildAddrSpaceCast(r->b, argument(r, 0), r->ptr, "");
  }
  args[n++] = array;
  LLVMTypeRef types[6] = {r->ptr, r->ptr, r->i32, loads ? r->i32 : r->ptr, r->ptr, r->ptr},
              type = LLVMTypeOf(r->at);
  (void)rw_call(r, loads ? ADDRESS(emu_load_squares) : ADDRESS(emu_multiply),
                LLVMFunctionType(r->nothing, types, n, false), args, n);
  bool several = LLVMGetTypeKind(type) == LLVMStructTypeKind;
  LLVMValueRef all = LLVMGetUndef(type);
  for (u32 k = 0; k < w->into; k++) {
    LLVMTypeRef part = several ? LLVMStructGetTypeAtIndex(type, k) : type;
    LLVMValueRef v = LLVMBuildLoad2(r->b, part, word_at(r, array, w->first + k), "");
    all = several ? LLVMBuildInsertValue(r->b, all, v, k, "") : v;
  }
  LLVMReplaceAllUsesWith(r->at, all);
}

static void barrier_call(rewrite *r, const barrier_row *w) {
  waits(r);
  LLVMValueRef self = rw_self(r);
  emu_site *site = rw_site(r);
  LLVMTypeRef types[] = {r->ptr, r->ptr, r->i32, r->i32, r->i32, r->i32};
  LLVMValueRef value = argument(r, w->value);
  if (value) value = LLVMBuildICmp(r->b, LLVMIntNE, value, LLVMConstNull(LLVMTypeOf(value)), "");
  LLVMValueRef args[] = {self,
                         rw_pointer(r, site),
                         rw_u32(r, w->op),
                         to_u32(r, argument(r, w->id)),
                         to_u32(r, argument(r, w->count)),
                         to_u32(r, value)};
  LLVMValueRef v =
      rw_call(r, ADDRESS(emu_barrier_call), LLVMFunctionType(r->i32, types, 6, false), args, 6);
  if (LLVMGetTypeKind(LLVMTypeOf(r->at)) == LLVMVoidTypeKind) return;
  LLVMReplaceAllUsesWith(r->at, LLVMBuildIntCast2(r->b, v, LLVMTypeOf(r->at), false, ""));
}

// ---- arithmetic ---------------------------------------------------------------------------------
static bool is_part(const char *p, size_t n, const char *word) {
  return strlen(word) == n && memcmp(p, word, n) == 0;
}

// The name without the parts that say how; those in *mode and *flushes.
static void plain_name(const char *name, char *out, size_t room, u32 *mode, bool *flushes) {
  static const char *const rounding[] = {"rn", "rz", "rm", "rp"};
  size_t at = 0;
  *mode = EMU_NEAREST;
  *flushes = false;
  for (const char *p = name; *p;) {
    size_t n = strcspn(p, ".");
    bool kept = true;
    for (u32 k = 0; k < 4; k++)
      if (is_part(p, n, rounding[k])) *mode = k, kept = false;
    if (is_part(p, n, "ftz")) *flushes = true, kept = false;
    if (is_part(p, n, "approx") || is_part(p, n, "full")) kept = false;
    if (kept && at + n + 2 < room) {
      if (at) out[at++] = '.';
      memcpy(out + at, p, n);
      at += n;
    }
    p += n + (p[n] == '.');
  }
  out[at] = '\0';
}

static LLVMValueRef flushed(rewrite *r, LLVMValueRef v) {
  LLVMTypeRef f = LLVMTypeOf(v);
  if (LLVMGetTypeKind(f) != LLVMFloatTypeKind) return v;
  return rw_call(r, ADDRESS(emu_flush), LLVMFunctionType(f, &f, 1, false), &v, 1);
}

static bool math_call(rewrite *r, const char *name) {
  char plain[64];
  u32 mode;
  bool flushes;
  plain_name(name, plain, sizeof plain, &mode, &flushes);
  for (size_t k = 0; k < HS_COUNT(math_rows); k++) {
    const math_row *m = &math_rows[k];
    if (strcmp(m->name, plain) != 0) continue;
    u32 n = LLVMGetNumArgOperands(r->at);
    LLVMValueRef args[5];
    LLVMTypeRef types[5];
    if (n > 4) return false;
    for (u32 a = 0; a < n; a++) {
      args[a] = argument(r, (int)a);
      if (flushes) args[a] = flushed(r, args[a]);
      types[a] = LLVMTypeOf(args[a]);
    }
    if (m->rounds) args[n] = rw_u32(r, mode), types[n++] = r->i32;
    LLVMTypeRef type = LLVMTypeOf(r->at);
    LLVMValueRef v = rw_call(r, m->fn, LLVMFunctionType(type, types, n, false), args, n);
    LLVMReplaceAllUsesWith(r->at, flushes ? flushed(r, v) : v);
    return true;
  }
  return false;
}

// ---- the rest -----------------------------------------------------------------------------------
static void simple_call(rewrite *r, const void *fn, LLVMTypeRef type, bool with_site) {
  LLVMValueRef args[] = {rw_self(r), with_site ? rw_pointer(r, rw_site(r)) : NULL};
  LLVMTypeRef types[] = {r->ptr, r->ptr};
  u32 n = with_site ? 2 : 1;
  LLVMValueRef v = rw_call(r, fn, LLVMFunctionType(type, types, n, false), args, n);
  if (type != r->nothing)
    LLVMReplaceAllUsesWith(r->at, LLVMBuildIntCast2(r->b, v, LLVMTypeOf(r->at), false, ""));
}

// Lanes below, at, above this one.
static bool lane_mask(rewrite *r, const char *which) {
  LLVMValueRef lane = rw_field(r, r->i32, rw_self(r), offsetof(emu_thread, lane));
  LLVMValueRef one = LLVMBuildShl(r->b, rw_u32(r, 1), lane, "");
  LLVMValueRef below = LLVMBuildSub(r->b, one, rw_u32(r, 1), ""), v;
  if (strcmp(which, "eq") == 0) v = one;
  else if (strcmp(which, "lt") == 0) v = below;
  else if (strcmp(which, "le") == 0) v = LLVMBuildOr(r->b, below, one, "");
  else if (strcmp(which, "ge") == 0) v = LLVMBuildNot(r->b, below, "");
  else if (strcmp(which, "gt") == 0) v = LLVMBuildNot(r->b, LLVMBuildOr(r->b, below, one, ""), "");
  else return false;
  LLVMReplaceAllUsesWith(r->at, v);
  return true;
}

static bool is_space(rewrite *r, const char *which) {
  u32 space = strcmp(which, "shared") == 0   ? EMU_SHARED
              : strcmp(which, "global") == 0 ? EMU_GLOBAL
              : strcmp(which, "local") == 0  ? EMU_LOCAL
                                             : EMU_CONSTANT;
  LLVMTypeRef types[] = {r->ptr, r->ptr, r->i32};
  LLVMValueRef args[] = {rw_self(r), argument(r, 0), rw_u32(r, space)};
  LLVMValueRef v =
      rw_call(r, ADDRESS(emu_is_space), LLVMFunctionType(r->i32, types, 3, false), args, 3);
  LLVMReplaceAllUsesWith(r->at, LLVMBuildIntCast2(r->b, v, LLVMTypeOf(r->at), false, ""));
  return true;
}

static bool other_call(rewrite *r, const char *name) {
  static const char clock[] = "read.ptx.sreg.clock", timer[] = "read.ptx.sreg.globaltimer";
  if (strcmp(name, "read.ptx.sreg.warpsize") == 0) {
    LLVMReplaceAllUsesWith(r->at, rw_u32(r, EMU_LANES));
  } else if (strncmp(name, clock, sizeof clock - 1) == 0 ||
             strncmp(name, timer, sizeof timer - 1) == 0) {
    LLVMTypeRef type = LLVMFunctionType(r->i64, NULL, 0, false);
    LLVMValueRef v = rw_call(r, ADDRESS(hs_now_ns), type, NULL, 0);
    LLVMReplaceAllUsesWith(r->at, LLVMBuildIntCast2(r->b, v, LLVMTypeOf(r->at), false, ""));
  } else if (strcmp(name, "activemask") == 0) {
    waits(r);
    simple_call(r, ADDRESS(emu_active_mask), r->i32, false);
  } else if (strcmp(name, "exit") == 0) {
    waits(r);
    simple_call(r, ADDRESS(emu_exit), r->nothing, false);
  } else if (strncmp(name, "read.ptx.sreg.lanemask.", 23) == 0) {
    return lane_mask(r, name + 23);
  } else if (strncmp(name, "isspacep.", 9) == 0) {
    return is_space(r, name + 9);
  } else {
    return false;
  }
  return true;
}

static bool nvvm_call(rewrite *r, const char *name) {
  (void)rw_self(r);  // the builder stands before the call
  for (size_t k = 0; k < HS_COUNT(fields); k++)
    if (strcmp(name, fields[k].name) == 0) {
      LLVMValueRef base = fields[k].of_block ? block_of(r) : rw_self(r);
      LLVMReplaceAllUsesWith(r->at, rw_field(r, r->i32, base, fields[k].offset));
      return true;
    }
  for (size_t k = 0; k < HS_COUNT(warp_ops); k++) {
    size_t n = strlen(warp_ops[k].name);
    if (strncmp(name, warp_ops[k].name, n) != 0 || (name[n] && name[n] != '.')) continue;
    warp_call(r, &warp_ops[k]);
    return true;
  }
  for (size_t k = 0; k < HS_COUNT(matrix_ops); k++) {
    size_t n = strlen(matrix_ops[k].name);
    if (strncmp(name, matrix_ops[k].name, n) != 0 || (name[n] && name[n] != '.')) continue;
    matrix_call(r, &matrix_ops[k]);
    return true;
  }
  for (size_t k = 0; k < HS_COUNT(barriers); k++)
    if (strcmp(name, barriers[k].name) == 0) {
      barrier_call(r, &barriers[k]);
      return true;
    }
  for (size_t k = 0; k < HS_COUNT(nothing); k++)
    if (strcmp(name, nothing[k]) == 0) return true;
  return math_call(r, name) || other_call(r, name);
}

// cudaGraphSetConditional(condition, value), which the driver has for kernels of a graph.
static void set_condition(rewrite *r) {
  LLVMValueRef self = rw_self(r);
  LLVMTypeRef types[] = {r->ptr, r->ptr, r->i64, r->i32};
  LLVMValueRef args[] = {self, rw_pointer(r, rw_site(r)), argument(r, 0), argument(r, 1)};
  (void)rw_call(r, ADDRESS(emu_set_condition), LLVMFunctionType(r->nothing, types, 4, false), args,
                4);
}

// __nvvm_reflect("name") asks how the code is to be: libdevice's functions do.
static void reflect(rewrite *r) { LLVMReplaceAllUsesWith(r->at, LLVMConstNull(LLVMTypeOf(r->at))); }

hs_status rw_call_of(rewrite *r, LLVMValueRef callee, const char *name, bool *gone) {
  (void)callee;
  *gone = true;
  if (strncmp(name, "llvm.nvvm.", 10) == 0) {
    if (nvvm_call(r, name + 10)) return HS_GOOD;
  } else if (strcmp(name, "llvm.trap") == 0 || strcmp(name, "llvm.debugtrap") == 0 ||
             strcmp(name, "__assertfail") == 0) {
    simple_call(r, ADDRESS(emu_trap), r->nothing, true);
    return HS_GOOD;
  } else if (strcmp(name, "cudaGraphSetConditional") == 0) {
    set_condition(r);
    return HS_GOOD;
  } else if (strcmp(name, "__nvvm_reflect") == 0) {
    reflect(r);
    return HS_GOOD;
  } else if (strncmp(name, "llvm.", 5) == 0) {
    *gone = false;
    return HS_GOOD;
  }
  return hs_fail(HS_E_UNSUPPORTED, "the emulator: %s calls %s, which it does not know", r->fn_name,
                 name);
}
