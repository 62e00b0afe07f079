// codegen.h — state of the code generator, shared by codegen*.c (loops, memory, reductions),
// scalar_ops.c (operations) and vmath.c (vector mathematics). The only headers of LLVM below
// backends/emit are included here.
#ifndef EMIT_CODEGEN_H
#define EMIT_CODEGEN_H

#include "backends/emit/nest.h"
#include <llvm-c/Core.h>

#define CG_MAX_UNROLL 16
#define CG_MAX_LEVELS 64

typedef struct cg_loop {
  u32 bit;  // loop number; NEST_NONE for a loop over something else
  LLVMBasicBlockRef header;
  LLVMValueRef phi, start, last;  // runs while i <= last
  i64 step;
  bool guarded;  // may run zero times
  u32 ncarry;
  LLVMValueRef *carry_phi, *carry_init;
} cg_loop;

typedef struct cg_memo {
  LLVMValueRef v[CG_MAX_UNROLL];
  u32 level;
  bool set;
} cg_memo;

typedef struct cg {
  hs_arena arena;  // of this kernel: whatever must go when code generation stops half-way
  LLVMContextRef ctx;
  LLVMModuleRef mod;
  LLVMBuilderRef b;
  nest *n;
  const nest_stage *stage;
  u32 vector_bytes;
  LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr;
  // safe: 64 zero bytes for loads whose guard is false
  LLVMValueRef fn, args, chunk, scratch, safe;
  LLVMValueRef *bufs;                    // per nest buffer, loaded in the entry block
  u32 level;                             // where code is being placed
  u32 open;                              // number of open loops
  LLVMBasicBlockRef ins[CG_MAX_LEVELS];  // end of the code at each level; unterminated
  cg_loop loops[CG_MAX_LEVELS];          // loops[k] is the loop around level k; k >= 1
  LLVMValueRef loop_val[NEST_MAX_LOOPS];
  u32 loop_level[NEST_MAX_LOOPS];
  u64 open_mask;
  // lanes
  u64 lane;
  u32 W, U;                          // loop bit mask of the lane loop (0: scalar code)
  LLVMValueRef mask[CG_MAX_UNROLL];  // tail masks, or NULL
  // Tiles: vector u is the lanes at step u of a second loop, whose bit is also in `lane`.
  // what is left of the two loops in a partial tile, or NULL
  u64 tile;
  LLVMValueRef lane_left, tile_left;
  cg_memo *memo;
  HS_VEC(u32) memoed;
  // reducer templates
  // strides: value k of the application
  const nest_group *tg;
  const LLVMValueRef *tacc, *telem;
  u32 tu, tskip;
  cg_memo *tmemo;
  HS_VEC(u32) tmemoed;
} cg;

// scalar_ops.c: values are scalars or vectors of the representation type; types follow the
// arguments.
// pred i1, integers iN, f16/bf16/f32 float, f64 double
LLVMTypeRef cg_rep(cg *, hlo_dtype);
LLVMTypeRef cg_mem(cg *, hlo_dtype);                      // pred i8, f16/bf16 i16
LLVMTypeRef cg_like(LLVMValueRef v, LLVMTypeRef scalar);  // scalar, or a vector of it as long as v
LLVMValueRef cg_from_mem(cg *, hlo_dtype, LLVMValueRef);
LLVMValueRef cg_to_mem(cg *, hlo_dtype, LLVMValueRef);
LLVMValueRef cg_splat(cg *, LLVMValueRef scalar, u32 lanes);
LLVMValueRef cg_const(cg *, hlo_dtype, const void *bits);
LLVMValueRef cg_int(LLVMTypeRef like, i64 v);  // also splats
LLVMValueRef cg_fp(LLVMTypeRef like, double v);
LLVMValueRef cg_intrinsic(cg *, const char *name, u32 ntypes, LLVMTypeRef *types, u32 n,
                          LLVMValueRef *args);
LLVMValueRef cg_unary_intrinsic(cg *, const char *name, LLVMValueRef);
LLVMValueRef cg_convert(cg *, hlo_dtype from, hlo_dtype to, LLVMValueRef);
LLVMValueRef cg_op(cg *, const nest_node *, LLVMValueRef *args);
LLVMValueRef cg_round(cg *, hlo_dtype, LLVMValueRef);  // to the precision of f16 or bf16
LLVMValueRef cg_minmax(cg *, hlo_dtype, bool max, LLVMValueRef a, LLVMValueRef b);

// vmath.c: NULL when there is no body for the operation. Values are float or double.
// stack memory of that type, 64-byte aligned
LLVMValueRef cg_slot(cg *, LLVMTypeRef);
LLVMValueRef cg_math(cg *, hlo_opcode, hlo_dtype, LLVMValueRef x, LLVMValueRef y);

// codegen.c: adds function `name` for every stage's chunks.
hs_status cg_kernel(LLVMContextRef, LLVMModuleRef, nest *, const char *name, u32 vector_bytes);

// codegen_loops.c
void cg_at_level(cg *c, u32 level);
void cg_forget(cg *c, u32 level, u64 deps);
LLVMValueRef cg_i64c(cg *c, i64 v);
hs_status cg_open_loop(cg *c, u32 bit, LLVMValueRef start, LLVMValueRef end, i64 step, bool guarded,
                       u32 ncarry, LLVMValueRef *carry);
LLVMValueRef cg_close_loop(cg *c, LLVMValueRef *carry);
u32 cg_level_of(const cg *c, u64 deps);
// codegen_access.c
LLVMValueRef cg_and_mask(cg *c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cg_gep(cg *c, LLVMTypeRef t, LLVMValueRef p, LLVMValueRef i);
LLVMValueRef cg_below(cg *c, LLVMValueRef left);
hs_status cg_emit_load(cg *c, const nest_node *x, u32 copies, bool vec, LLVMValueRef *out);
hs_status cg_emit_store(cg *c, const nest_store *s);
hs_status cg_emit_index(cg *c, const nest_node *x, u32 copies, bool vec, LLVMValueRef *out);
hs_status cg_emit_guard(cg *c, const nest_node *x, u32 copies, bool vec, LLVMValueRef *out);
// codegen_reduce.c
i64 cg_extent(const cg *c, u32 var);
LLVMValueRef cg_tail_mask(cg *c, LLVMValueRef i, LLVMValueRef end);
LLVMValueRef cg_clip(cg *c, bool max, LLVMValueRef a, LLVMValueRef b);
hs_status cg_emit_group(cg *c, u32 group);
// codegen.c
hs_status cg_emit_node(cg *c, u32 id, LLVMValueRef **out);
#define NODE(c, id, out) \
  HS_TRY(cg_emit_node((c), (id), (out)))  // the U values of a node, made when needed

#endif
