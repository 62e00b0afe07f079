// nest.h — the loop-nest IR between HLO and LLVM.
//
// A kernel is a list of stages. A stage iterates over a box of loops and stores one or more values
// per point. Values are a DAG of scalar nodes; everything that only moves data (broadcast,
// transpose, slice, reverse, reshape, pad, concatenate, gather, dynamic-slice) has become index
// expressions and guards, so that a node never has a shape.
//
// An index expression is an affine sum over variables. A variable is a loop, or an atom: the
// quotient or remainder of another expression by a constant (reshapes that split no loop), or the
// clamped value of an integer node (gather, dynamic-slice). Expressions are interned: equal ones
// are the same pointer.
//
// A guard is the predicate lo <= expression < hi. Padding and concatenation become selects over
// guards; loads below a guard carry it, and never touch memory when it is false. Where a guard is
// constant over a range of the innermost loop the code generator cuts that loop (boxes), and no
// select remains.
//
// A reduction is a group: its own loops, the values that enter each step, and the reducer as a
// template over ACC and ELEM placeholders. reduce, reduce-window, dot and convolution all become
// groups. Complex numbers are pairs of nodes.
#ifndef EMIT_NEST_H
#define EMIT_NEST_H

#include "backends/emit/nest/kind.h"
#include "core/analysis/tuning.h"

#define NEST_NONE UINT32_MAX
#define NEST_MAX_LOOPS 60
#define NEST_MAX_ACCS 32  // of all reductions that share their loops
// what a buffer is besides an argument: constant data, a part of the scratch block, stack memory of
// the kernel's function that holds a row (rows.c)
enum { NEST_BUF_CONST = -1, NEST_BUF_SCRATCH = -2, NEST_BUF_ROW = -3 };

typedef struct nest_term {
  u32 var;
  i64 coef;
} nest_term;

typedef struct nest_expr nest_expr;
// sorted by var, no zero coefficients
struct nest_expr {
  nest_expr *chain;
  u64 hash;
  i64 c;
  u32 n;
  u32 size;  // expressions in its tree, itself included: what a traversal of it costs
  nest_term t[];
};

typedef enum nest_var_kind { NEST_LOOP, NEST_DIV, NEST_MOD, NEST_VALUE } nest_var_kind;
typedef struct nest_var {
  nest_var_kind kind;
  u32 loop;    // LOOP: bit number in masks
  i64 lo, hi;  // inclusive range
  const nest_expr *e;
  i64 d;     // DIV, MOD
  u32 node;  // VALUE: integer node, clamped to lo..hi
} nest_var;

typedef enum nest_kind {
  NEST_CONST,
  NEST_LOAD,
  NEST_INDEX,
  NEST_GUARD,
  NEST_OP,
  NEST_REDUCE,
  NEST_ACC,
  NEST_ELEM,
  NEST_KEEP  // its operand, stored to buf[e] on the way (rows.c)
} nest_kind;

typedef struct nest_node {
  nest_kind kind;
  hlo_dtype dtype;  // of the value; never complex
  bool templ;       // stands (also indirectly) on ACC or ELEM
  u64 deps;         // loops whose variables it depends on
  // OP
  hlo_opcode op;
  hlo_dtype in;  // dtype of the operands (of the value operands for select and clamp)
  // compare: direction, total order; reduce-precision: exponent, mantissa bits
  i64 attr[2];
  u32 nargs;
  u32 args[3];
  // CONST
  u8 bits[8];
  // LOAD, INDEX, GUARD, KEEP
  const nest_expr *e;
  i64 lo, hi;
  u32 buf, guard;
  u32 written_by;  // LOAD of what a group keeps: that group + 1; 0 otherwise
  // REDUCE, ACC, ELEM
  u32 group, k;
} nest_node;

typedef struct nest_val {
  u32 re, im;
} nest_val;  // im == NEST_NONE for real values

// One reduction: for every point of `loops`, acc = reducer(acc, in).
typedef struct nest_group {
  u32 nloops;
  u32 loops[NEST_MAX_LOOPS];  // variable ids, outermost first
  // nodes; next is the template's result per accumulator
  u32 nacc;
  u32 *in, *init, *next, *acc, *elem, *out;
  u32 cond;  // pred node: steps where it is false are left out; NEST_NONE
  // ADD, MULTIPLY, MAXIMUM, ... when the reducer is just that; HLO_OP_INVALID otherwise
  hlo_opcode monoid;
  bool free_order;  // lanes and partial results allowed
  // split reduction: the loop whose value s restricts loops[0] to [s*seg_size, (s+1)*seg_size);
  // NEST_NONE: not split
  u32 seg;
  i64 seg_size;
  // of a prefix reduction (nest_stage.scan): what the reduction of a part starts from; else NULL
  u32 *start;
  u32 along;  // of a prefix reduction: the stage's loop (a variable) + 1; else 0
  // nodes + 1 whose values its only loop runs between (0: all of it); known when the group begins
  u32 from, to;
  bool resumes;     // init is what the steps before have come to: never to be left out
  u32 merged_into;  // index of the group whose loops it shares; itself otherwise
  u64 mask;         // own loops
} nest_group;

typedef struct nest_buf {
  hlo_dtype dtype;  // memory type; complex buffers are seen as pairs of their real type
  i64 elements;
  int arg;          // index into bufs, or one of NEST_BUF_*
  bool holds_rows;  // a result whose rows hold something else until they are stored
  const void *data;
  i64 offset;  // bytes into the scratch block
} nest_buf;

typedef struct nest_store {
  u32 buf;
  const nest_expr *e;
  u32 node;
} nest_store;

typedef struct nest_stage {
  u32 nloops;
  u32 loops[NEST_MAX_LOOPS];  // outermost first
  HS_VEC(nest_store) stores;
  // loops[0] counts the splits of a reduction: one chunk each, never in lanes; with one split the
  // last loop but one counts its passes
  bool is_split;
  // A prefix reduction: the number + 1 of a group over one loop, whose results are those of each
  // step along the stage's last loop, its equal; 0: none. scanned: elements of a row, of which the
  // loop `segment` (NEST_NONE: there is one) numbers the segments; the last one may be shorter.
  u32 scan, segment;
  i64 scanned;
  // each `ways` stores are one store, whose elements along the last loop they take in turn; 0: no
  u32 ways;
  // schedule (schedule.c)
  emit_kind kind;
  bool vector;  // the last loop runs in lanes
  // position of the loop that runs in tiles against the last one; NEST_NONE
  u32 tile;
  u32 lanes, unroll;
  // the same of reductions along rows, where a schedule by hand says so; 0: chosen with their code
  u32 row_lanes, row_unroll;
  // operands and results are more than the caches hold: stores past them, where whole lines are
  bool stream;
  // chunk grid: blocks of each loop, and iterations in a block
  i64 split[NEST_MAX_LOOPS], block[NEST_MAX_LOOPS];
  i64 chunks;
} nest_stage;

// What is put in order before the stages run, or as the result: rows of elements, each of several
// values. Equal elements stay in their order.
typedef struct nest_order {
  nest_stage stage;  // over all elements; its stores say where each value of one goes
  u32 along;         // the loop (a variable) that numbers the elements of a row
  nest_group less;   // next[0]: whether the element of the ACCs comes before that of the ELEMs
  nest_group key;    // next[0]: the unsigned number of the ACCs' element that elements are in the
  u32 key_bits;      // order of, below 2^key_bits; 0: only `less` says it
  bool unique;       // no two elements are equal, or nobody can tell them apart
  u32 places;        // buffer in scratch: where each element was, u32; NEST_NONE when unique
  // Buffer of u32 in scratch: for 0 to `limits`, how many elements of the only row, of one u64
  // value, are below that number shifted left by 32; NEST_NONE: nobody asks.
  u32 starts;
  i64 limits;
  // Buffers in scratch of a sort by digits (gpu/radix.c): keys and where their elements were, twice
  // each; of each digit how many a tile has, and all. Numbers; NEST_NONE: it is no such sort.
  u32 keys[2], from[2], counts, totals;
  i64 wanted;  // so many elements of a row that somebody reads; 0: all
} nest_order;

// A result that is an operand with a part of it replaced: its buffer holds the operand's bytes
// before the kernel runs, and the kernel stores the part only.
typedef struct nest_update {
  u32 in, out;  // leaves of the operands, of the result
} nest_update;

typedef struct nest {
  hs_arena *a;
  HS_VEC(nest_var) vars;
  HS_VEC(nest_node) nodes;
  HS_VEC(nest_group) groups;
  HS_VEC(nest_buf) bufs;
  HS_VEC(nest_stage) stages;  // independent of each other; numbered through by chunks
  HS_VEC(nest_stage) finish;  // second phase, over the partial results in scratch
  HS_VEC(nest_update) updates;
  nest_order *order;  // NULL: nothing is ordered
  i64 scratch_bytes;
  nest_expr **table;
  u32 table_cap, table_n;
  u32 nloops;  // loop bits given out
} nest;

void nest_free(nest *);  // what is not in its arena; NULL is fine

// Floats that are computed in f32 and rounded after every operation: f16, bf16 and everything of 8
// bits or less.
static inline bool nest_is_narrow(hlo_dtype t) {
  return hlo_dtype_is_float(t) && hlo_dtype_storage(t) <= 2;
}

// ---- expressions (nest.c) -----------------------------------------------------------------------
// Expressions live in the nest's arena. Coefficients and constants must not overflow 64 bits:
// shapes are checked before they are lowered.
const nest_expr *nest_const(nest *, i64 c);
const nest_expr *nest_of_var(nest *, u32 var, i64 coef);
const nest_expr *nest_add(nest *, const nest_expr *, const nest_expr *);
const nest_expr *nest_mul(nest *, const nest_expr *, i64 k);
// Quotient and remainder by d > 0 of values >= 0.
const nest_expr *nest_div(nest *, const nest_expr *, i64 d);
const nest_expr *nest_mod(nest *, const nest_expr *, i64 d);
// The sum c + terms, as it stands; terms sorted by variable, no zero coefficients.
const nest_expr *nest_make(nest *, i64 c, u32 n, const nest_term *sorted);
// Bounds of its value, inclusive; not always the tightest.
void nest_range(const nest *, const nest_expr *, i64 *lo, i64 *hi);
u64 nest_deps(const nest *, const nest_expr *);  // loop mask
// Whether no atom of the expression depends on the loops of the mask.
bool nest_is_linear(const nest *, const nest_expr *, u64 loops);
i64 nest_coef(const nest_expr *, u32 var);         // 0 when absent
bool nest_new_loop(nest *, i64 extent, u32 *var);  // false: too many loops
// The variable that is the value of an integer node, clamped to lo..hi.
u32 nest_new_value(nest *, u32 node, i64 lo, i64 hi);

// Nodes are known by their number, and these give the number of a new one. Equal nodes are not
// merged: the memo of lower.c keeps elements from being lowered twice. deps and templ are computed.
u32 nest_node_add(nest *, const nest_node *);
u64 nest_node_deps(const nest *, const nest_node *);  // of its operands; loop mask
u32 nest_op1(nest *, hlo_opcode, hlo_dtype, u32 a);
u32 nest_op2(nest *, hlo_opcode, hlo_dtype, u32 a, u32 b);
u32 nest_select(nest *, hlo_dtype, u32 p, u32 a, u32 b);
u32 nest_const_bits(nest *, hlo_dtype, const void *bits);  // one element as in memory
u32 nest_const_f64(nest *, hlo_dtype, double v);
// lo <= e < hi and `and_with` (NEST_NONE: true); `and_with` itself where the bounds always hold.
u32 nest_guard(nest *, const nest_expr *, i64 lo, i64 hi, u32 and_with);
// A buffer of so many elements in the scratch block; its number.
u32 nest_scratch(nest *, hlo_dtype, i64 elements);
void nest_print(const nest *, hs_buf *);  // `dump schedule`

// ---- values that may be complex (values.c) ------------------------------------------------------
// The operation on values of type `in` (of its value operands), with a result of `type`; false when
// there is none for complex numbers.
bool nest_elementwise(nest *, hlo_opcode, hlo_dtype type, hlo_dtype in, u32 n, const nest_val *args,
                      nest_val *out);
// direction: HLO_DIRECTION_*. False for an ordering of complex numbers.
bool nest_compare(nest *, i64 direction, bool total, hlo_dtype in, nest_val a, nest_val b,
                  nest_val *out);
nest_val nest_convert(nest *, nest_val, hlo_dtype from, hlo_dtype to);
nest_val nest_bitcast(nest *, nest_val, hlo_dtype from, hlo_dtype to);  // same width
hlo_dtype nest_uint_of(int bits);                                       // 1, 2, 4, ..., 64

// ---- HLO -> nest (lower.c) ----------------------------------------------------------------------
// A nest of one instruction, a fusion with all of its body; in the arena, freed by nest_free. It
// points to data of constants, which must outlive it. E_UNSUPPORTED names the opcode of what cannot
// become a nest.
hs_status nest_lower(hs_arena *, const hlo_instr *, nest **out);
// The same with operations that the CPU has runtime kernels or libraries for: convolution, scatter,
// sort.
hs_status nest_lower_all(hs_arena *, const hlo_instr *, nest **out);
// Whether nest_lower, or nest_lower_all, can do it; otherwise `why` (may be NULL) gets the reason.
bool nest_supports(const hlo_instr *, bool all, hs_buf *why);

// ---- loop transformations and the choice of a schedule (schedule.c) -----------------------------
void nest_simplify(nest *);  // split loops under quotients, drop and merge loops
// Choices between loads that read the same along the innermost loops become loads whose addresses
// are chosen (join.c).
void nest_join_loads(nest *);
// Loops whose elements alternate between sources (interleave.c): such a stage stores several values
// per step.
void nest_interleave(nest *);
// What schedules depend on beside shapes.
typedef struct nest_machine {
  u32 vector_bytes;   // width of the vectors; 0: scalar code
  i64 cache_bytes;    // of the last cache that a core has a part in; 0: not known
  i64 near_bytes;     // when nothing reads the results again: of the caches that take stores faster
                      // than memory does; 0: something may read them, or not known
  hlo_tuning wanted;  // a schedule by hand: obeyed where it applies
} nest_machine;
// Chooses lanes, unrolling, tiles and the chunk grid of every stage, and splits long reductions.
// The cache decides where stores go, and nothing that results depend on.
void nest_schedule(nest *, const nest_machine *);

// ---- long reductions (split.c) ------------------------------------------------------------------
// Splits the reduction of a stage into at most `splits` partial ones: the stage stores the partial
// results to scratch, a new finishing stage reduces them and does what followed. One split, with
// passes, is the reduction itself, and may lie in the stage's results. rows > 0: each
// partial result is made in passes of that many rows at most (iterations of the first reduced
// loop), and goes through memory between them. 0, with the nest as it was, when the stage is not of
// that form; else the passes of each partial result: as many steps of the stage's first loop.
i64 nest_split_reduction(nest *, u32 stage, i64 splits, i64 rows);

// ---- row buffers (rows.c) -----------------------------------------------------------------------
// Lets the reductions along rows of a scheduled stage, and the stage itself, share what they have
// in common: the first to compute it keeps it in a row buffer.
// room: how much there is.
typedef struct nest_row_room {
  i64 each;   // bytes of all row buffers in the kernel's own memory
  i64 first;  // as long as results can hold rows, no more than this; 0: results hold none
} nest_row_room;
void nest_keep_rows(nest *, nest_stage *, const nest_row_room *);

// Whether the scheduled nest works along rows and result `out` may lie where operand `in` does
// (both by nest_buf.arg): of the operand it reads only the row that it is about to store, all of it
// before.
bool nest_row_in_place(const nest *, int in, int out);
// Of such a nest: how many rows a chunk stores, where chunks are runs of rows of the result in its
// order; *elements: of a row. 0 where they are not, or where stores go past the caches.
i64 nest_chunk_rows(const nest *, i64 *elements);
// Halves the chunks of such a nest's stage until the rows of one stay in the second cache.
void nest_smaller_chunks(nest_stage *, const nest *);

#endif
