// codegen.h — state of the code generator, shared by codegen*.c (types, loops, nodes, memory,
// reductions, stages), scalar_ops.c (operations) and vmath.c (vector mathematics).
#ifndef EMIT_CODEGEN_H
#define EMIT_CODEGEN_H

#include "backends/emit/emit.h"
#include "backends/emit/nest/nest.h"
#include <llvm-c/Core.h>

#define CG_MAX_UNROLL 16
#define CG_SAFE_LINES 4  // four vectors, the most that a load of elements apart covers
#define CG_MAX_LEVELS 64
#define CG_MOST_CHOSEN 3

typedef struct cg_loop {
  u32 bit;  // loop number; NEST_NONE for a loop over something else
  LLVMBasicBlockRef header;
  LLVMValueRef phi, start, last;  // runs while i <= last
  i64 step;
  bool guarded;       // may run zero times
  LLVMValueRef cond;  // of cg_open_if, which is no loop
  u32 ncarry;
  LLVMValueRef *carry_phi, *carry_init;
} cg_loop;

typedef struct cg_memo {
  LLVMValueRef v[CG_MAX_UNROLL];
  u32 level;
  bool set;
} cg_memo;

typedef struct cg cg;

// What a target does in its own way; everything else is common. The CPU's table is empty: its way
// is written out where the functions are called. The functions for one thread of a GPU: gpu/code.h.
typedef struct cg_target {
  // LOAD nodes and stores that vary along the lane loop, which has no masks there
  hs_status (*load)(cg *, const nest_node *x, u32 copies, LLVMValueRef *out);
  hs_status (*store)(cg *, const nest_store *s, u32 level);
  // a scalar load that another place than memory answers; false: none
  bool (*held)(cg *, const nest_node *x, LLVMValueRef *out);
  // mathematics without a body in vmath.c (y: NULL for one operand), also of a part of the lanes
  LLVMValueRef (*math)(cg *, hlo_opcode, LLVMValueRef x, LLVMValueRef y);
  // Reductions whose steps several threads share. team: whether they do, for a group whose results
  // depend on those loops; it sets the lanes. open: the loop over this thread's steps, with carried
  // values as in cg_open_loop; close. fold: combines the threads' values, for all of them.
  bool (*team)(cg *, const nest_group *, u64 deps);
  hs_status (*open)(cg *, const nest_group *, u32 ncarry, LLVMValueRef *carry);
  void (*close)(cg *, const nest_group *, LLVMValueRef *carry);
  hs_status (*fold)(cg *, const nest_group *, LLVMValueRef *acc);
  void (*again)(cg *, LLVMValueRef branch);  // the branch that closes a loop of a reduction
} cg_target;

struct cg {
  const cg_target *target;
  void *of_target;  // its own state
  hs_arena arena;   // of this kernel: whatever must go when code generation stops half-way
  LLVMContextRef ctx;
  LLVMModuleRef mod;
  LLVMBuilderRef b;
  nest *n;
  const nest_stage *stage;
  u32 vector_bytes;
  bool contract;  // sums and products of the module may become fused multiply-adds
  bool keep_denormals;
  LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr;
  LLVMTypeRef ix;  // of loop variables and indices: i64, or i32 where they fit and it matters
  // safe: zeros for loads whose guard is false, as many as CG_SAFE_LINES cache lines
  LLVMValueRef fn, args, chunk, scratch, safe;
  LLVMValueRef *bufs;                    // per nest buffer, loaded in the entry block
  u32 level;                             // at which code is being placed
  u32 open;                              // number of open loops
  LLVMBasicBlockRef ins[CG_MAX_LEVELS];  // end of the code at each level; unterminated
  cg_loop loops[CG_MAX_LEVELS];          // loops[k] is the loop around level k; k >= 1
  LLVMValueRef loop_val[NEST_MAX_LOOPS];
  u32 loop_level[NEST_MAX_LOOPS];
  u64 open_mask;
  // lanes
  u64 lane;                          // bit mask of the lane loop; 0: scalar code
  u32 W, U;                          // lanes of a vector, vectors per iteration
  LLVMValueRef mask[CG_MAX_UNROLL];  // tail masks, or NULL
  bool aligned;                      // the lane loop starts at a multiple of its lanes
  // the lane loop starts at a multiple of this and advances by it; 0: neither is known
  i64 stride;
  bool streamed;  // there are stores past the caches: a fence is due
  // predicates that are known in the lane loop being written (codegen_choice.c)
  struct {
    u32 node;
    bool yes;
  } chosen[CG_MOST_CHOSEN];
  u32 nchosen;
  u64 tile;    // bit mask of the tile loop, also in `lane`: vector u holds the lanes at its step u
  bool ahead;  // loads of a tile fetch what the tile two further on will load
  LLVMValueRef lane_left, tile_left;  // what is left of the two loops in a partial tile, or NULL
  LLVMValueRef lane_mask;  // the lanes of lane_left, made where the lane loop stands, or NULL
  cg_memo *memo;           // per node
  HS_VEC(u32) memoed;      // nodes whose memo is set
  // the application of a reducer that is being emitted: its accumulators and elements
  const LLVMValueRef *tacc, *telem;
  cg_memo *tmemo;
  HS_VEC(u32) tmemoed;
};

// The files, lowest first; each calls only those above it in this list, but for codegen_nodes.c and
// the two below it, which recurse through cg_emit_node (see there).
//
// All of them write code at the current level (cg_at_level) unless they say otherwise. Values are
// scalars, or vectors of W lanes of the representation type; the types of results follow those of
// the arguments.

// ---- codegen_types.c ----------------------------------------------------------------------------
static inline bool cg_is_vector(LLVMTypeRef t) { return LLVMGetTypeKind(t) == LLVMVectorTypeKind; }
static inline LLVMTypeRef cg_scalar_of(LLVMTypeRef t) {
  return cg_is_vector(t) ? LLVMGetElementType(t) : t;
}
// The type of a value while it is computed with: pred i1, integers iN, f16, bf16 and f32 float, f64
// double.
LLVMTypeRef cg_rep(cg *, hlo_dtype);
// The type of a value in memory: pred i8, f16 and bf16 i16, 8-bit floats i8; else as cg_rep.
LLVMTypeRef cg_mem(cg *, hlo_dtype);
LLVMTypeRef cg_like(LLVMValueRef v, LLVMTypeRef scalar);  // scalar, or a vector of it as long as v
// A vector of `lanes` copies of a scalar; vectors, and scalars for lanes <= 1, as they are.
LLVMValueRef cg_splat(cg *, LLVMValueRef scalar, u32 lanes);
LLVMValueRef cg_const(cg *, hlo_dtype, const void *bits);  // bits: one element as in memory
LLVMValueRef cg_int(LLVMTypeRef like, i64 v);              // of that type; splat for vectors
LLVMValueRef cg_fp(LLVMTypeRef like, double v);
LLVMValueRef cg_from_mem(cg *, hlo_dtype, LLVMValueRef);  // from cg_mem to cg_rep
LLVMValueRef cg_to_mem(cg *, hlo_dtype, LLVMValueRef);    // from cg_rep to cg_mem
// A call of the intrinsic, overloaded on `types`.
LLVMValueRef cg_intrinsic(cg *, const char *name, u32 ntypes, LLVMTypeRef *types, u32 n,
                          LLVMValueRef *args);
LLVMValueRef cg_unary_intrinsic(cg *, const char *name, LLVMValueRef);  // on the value's own type
// Stack memory of that type, 64-byte aligned, allocated in the entry block.
LLVMValueRef cg_slot(cg *, LLVMTypeRef);

// ---- vmath.c ------------------------------------------------------------------------------------
// exp, log, sin, ... of float or double values (t: HLO_F32 or HLO_F64); y: second operand of atan2,
// power and remainder, else NULL. NULL when there is no body for the operation.
LLVMValueRef cg_math(cg *, hlo_opcode, hlo_dtype t, LLVMValueRef x, LLVMValueRef y);
// |x| to the y as x to the y: with the sign and the exceptions of C's pow.
LLVMValueRef cg_power_cases(cg *, LLVMValueRef x, LLVMValueRef y, LLVMValueRef power);

// ---- scalar_ops.c -------------------------------------------------------------------------------
LLVMValueRef cg_convert(cg *, hlo_dtype from, hlo_dtype to, LLVMValueRef);
// The value of a NEST_OP node for these operands; NULL when the operation is not known for its
// type.
LLVMValueRef cg_op(cg *, const nest_node *, LLVMValueRef *args);

// ---- codegen_loops.c ----------------------------------------------------------------------------
// Level 0 is the function's body, level k the inside of the k-th open loop.
void cg_at_level(cg *, u32 level);  // code is appended to that level from here on
// Forgets the values of nodes placed at or inside of a level, and of those that depend on loops of
// the mask.
void cg_forget(cg *, u32 level, u64 deps);
u32 cg_level_of(const cg *, u64 deps);  // of the innermost open loop in the mask; 0: none
LLVMValueRef cg_ixc(cg *, i64 v);       // a constant index
// Opens `for (i = start; i + step <= end; i += step)` as loop number `bit` (NEST_NONE: over
// something else than a loop of the nest) and moves to its level. guarded: it may run zero times.
// carry: ncarry loop-carried values; on return those of the current iteration. E_UNSUPPORTED beyond
// CG_MAX_LEVELS.
hs_status cg_open_loop(cg *, u32 bit, LLVMValueRef start, LLVMValueRef end, i64 step, bool guarded,
                       u32 ncarry, LLVMValueRef *carry);
// Closes the innermost loop. carry: in, the values at the end of the iteration; out, those after
// the loop. Returns the induction value after the loop.
LLVMValueRef cg_close_loop(cg *, LLVMValueRef *carry);
// Opens a level whose code runs where the condition holds; closes it.
hs_status cg_open_if(cg *, LLVMValueRef cond);
void cg_close_if(cg *);
i64 cg_extent(const cg *, u32 var);  // iterations of a loop variable
LLVMValueRef cg_clip(cg *, bool max, LLVMValueRef a, LLVMValueRef b);  // larger or smaller integer
LLVMValueRef cg_gep(cg *, LLVMTypeRef t, LLVMValueRef p, LLVMValueRef i);  // &((t *)p)[i]
LLVMValueRef cg_and_mask(cg *, LLVMValueRef a, LLVMValueRef b);  // NULL is the mask of all lanes
LLVMValueRef cg_below(cg *, LLVMValueRef n);  // mask of the lanes whose number is below n
// Mask of the lanes of the vector at i that lie below `end`.
LLVMValueRef cg_tail_mask(cg *, LLVMValueRef i, LLVMValueRef end);

// ---- codegen_nodes.c ----------------------------------------------------------------------------
// The values of a node: U vectors where it varies over the lane loop (c->lane), else one scalar.
// *out points into the memo and stays valid until the node is forgotten. E_UNSUPPORTED names an
// operation that there is no code for.
hs_status cg_emit_node(cg *, u32 id, LLVMValueRef **out);
#define NODE(c, id, out) HS_TRY(cg_emit_node((c), (id), (out)))

// ---- codegen_index.c ----------------------------------------------------------------------------
// The expression as one number of the index type. skip: a variable to leave out, or NEST_NONE.
hs_status cg_expr(cg *, const nest_expr *, u32 skip, LLVMValueRef *out);
// Its value in every lane of vector u, as a vector of `it`: i32 or the index type.
hs_status cg_lane_expr(cg *, const nest_expr *, u32 u, LLVMTypeRef it, LLVMValueRef *out);
bool cg_fits32(const cg *, const nest_expr *);  // every step of computing it fits in 32 bits
u64 cg_var_deps(const cg *, u32 var);           // loop mask
// A remainder that repeats from iteration to iteration of the lane loop: its divisor divides what
// the loop advances by.
bool cg_repeats(const cg *, const nest_var *);
// Whether the lane loop appears only as coefficient * loop; then *coef is that, *var the loop.
bool cg_lane_affine(const cg *, const nest_expr *, u32 *var, i64 *coef);

// ---- codegen_access.c ---------------------------------------------------------------------------
// Values of LOAD, INDEX and GUARD nodes into out[0..copies); vec: they are vectors.
// Pointer to the element of lane 0: of the expression, which has `coef` times `var` in it.
hs_status cg_lane_pointer(cg *, u32 buf, const nest_expr *, u32 var, i64 coef, LLVMTypeRef mem,
                          LLVMValueRef *out);
hs_status cg_emit_load(cg *, const nest_node *x, u32 copies, bool vec, LLVMValueRef *out);
// Whether a load reads the same elements in every iteration of the lane loop: at a remainder by a
// divisor of what the loop advances by.
bool cg_is_periodic(const cg *c, const nest_node *x);
hs_status cg_emit_index(cg *, const nest_node *x, u32 copies, bool vec, LLVMValueRef *out);
hs_status cg_emit_guard(cg *, const nest_node *x, u32 copies, bool vec, LLVMValueRef *out);
// With the node that it stores; the code stands at that level.
hs_status cg_emit_store(cg *, const nest_store *s, u32 level);
// Whether all stores of the current stage go past the caches, by the lanes and the tile that are
// set.
bool cg_all_stream(const cg *);
// Whether the elements of `ways` stores follow each other along the lane loop, as those of woven
// stages (interleave.c) and the parts of complex numbers do; and the stores, then.
bool cg_are_neighbours(cg *, const nest_store *s, u32 ways);
hs_status cg_emit_interleaved(cg *, const nest_store *s, u32 ways);

// ---- codegen_choice.c ---------------------------------------------------------------------------
// The predicate, the same in all of the lane loop that comes next, of a choice whose arms are dear
// to load; NEST_NONE: there is none, or not for so large a loop.
u32 cg_find_choice(const cg *, u64 lane);
// What a predicate is in the lane loop being written: 1, 0, or -1 when it is not one of these.
int cg_chosen(const cg *, u32 node);

// ---- codegen_reduce.c ---------------------------------------------------------------------------
// Emits a reduction group, with all groups that share its loops, and remembers the values of their
// results.
hs_status cg_emit_group(cg *, u32 group);
// Bounds of a reduction whose only loop runs between the values of two nodes (nest_group.from).
hs_status cg_node_bounds(cg *, const nest_group *, LLVMValueRef *from, LLVMValueRef *to);
// next = reducer(acc, elem), all accumulators of the group at once; next may be either of them.
hs_status cg_apply(cg *, const nest_group *, const LLVMValueRef *acc, const LLVMValueRef *elem,
                   LLVMValueRef *next);

// ---- codegen.c ----------------------------------------------------------------------------------
// What every function of generated code has in common: width of its vectors, and whether denormals
// are flushed.
void cg_function_attributes(LLVMContextRef, LLVMValueRef fn, const emit_options *);
// The state for one nest, its types made; index: as cg.ix. Freed by cg_end.
cg *cg_begin(LLVMContextRef, LLVMModuleRef, nest *, LLVMTypeRef index);
void cg_end(cg *);
hs_status cg_emit_stores(cg *);  // of c->stage, at the current level
// Adds function `name` (an emit_entry over all stages' chunks) to the module, and NAME_finish when
// the nest has a second phase. E_UNSUPPORTED names an operation that there is no code for; the
// module is then to be thrown away.
hs_status cg_kernel(LLVMContextRef, LLVMModuleRef, nest *, const char *name, const emit_options *);

#endif
