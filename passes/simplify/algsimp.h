// algsimp.h — what the rule files of the algebraic simplifier share: the engine's state, the rule
// type, matchers and builders. Private to passes/simplify/algsimp*.c.
//
// A rule looks at one instruction and returns
//   NULL           no change (and nothing was built),
//   another value  that replaces it (same logical shape), or
//   the instruction itself, when it was edited in place.
// New instructions are inserted right before the one being simplified, so the list stays in
// topological order. Rules build nothing before they know that they apply: pass_may_rewrite was
// called before.
#ifndef PASS_ALGSIMP_H
#define PASS_ALGSIMP_H

#include <math.h>

#include "passes/run/rewrite.h"

#define ALG_BOOL bool
#define ALG_INT i64
#define ALG_FLOAT double
#define ALG_TEXT const char *
typedef struct alg {
  pass_ctx *p;
  hlo_module *m;
  hlo_instr *at;  // the instruction being simplified
  u32 born;       // ids from here on are of instructions made by rules
#define OPTION(type, field, name, value, meaning) ALG_##type field;
#include "passes/simplify/algsimp_options.def"
#undef OPTION
  u16 first_rule[HLO_OPCODE_COUNT];  // 1 + index of an operation's first rule; 0: it has none
  const u8 *async;                   // by computation id: run by an async-start; NULL when none is
  // by id - born: computed from constants alone, and left to constant folding
  HS_VEC(u8) merged;
  // a rule that did nothing wants no other to look at the instruction
  bool stop;
} alg;

typedef hlo_instr *alg_rule_fn(alg *, hlo_instr *);
#define ALG_RULE(fn) hlo_instr *pass_alg_##fn(alg *a, hlo_instr *i)
#define RULE(op, fn, text) alg_rule_fn pass_alg_##fn;
#define RELAY RULE
#include "passes/simplify/algsimp_rules.def"
#undef RULE
#undef RELAY
alg_rule_fn pass_alg_sink_broadcast;  // of every elementwise operation

// ---- matching -----------------------------------------------------------------------------------
// Every element equals v: a constant, or a broadcast of one.
bool pass_alg_all(const hlo_instr *, double v);
// A constant, or a broadcast of a constant; pass_alg_splat wants one value and returns it (floats
// and ints as double).
bool pass_alg_constant(const hlo_instr *);
bool pass_alg_splat(const hlo_instr *, double *v);
bool pass_alg_splat_int(const hlo_instr *, i64 *v);
// Both compute the same value: one instruction, or equal constants/broadcasts of one scalar.
bool pass_alg_same(const hlo_instr *, const hlo_instr *);
// One user, which uses it once.
static inline bool alg_one_use(const hlo_instr *i) { return i->nuses == 1 && !hlo_is_root(i); }
static inline bool alg_is_float(const hlo_instr *i) { return hlo_dtype_is_float(i->shape->dtype); }
// Floats below 16 bits: sums, products and inverses of what is in range often are not.
static inline bool alg_is_tiny(const hlo_instr *i) {
  return alg_is_float(i) && hlo_dtype_bits(i->shape->dtype) < 16;
}
static inline bool alg_is_int(const hlo_instr *i) { return hlo_dtype_is_integer(i->shape->dtype); }
static inline bool alg_is_complex(const hlo_instr *i) {
  return hlo_dtype_is_complex(i->shape->dtype);
}
static inline bool alg_is_pred(const hlo_instr *i) { return i->shape->dtype == HLO_PRED; }
// The operand of a one-operand instruction of this opcode, else NULL.
static inline hlo_instr *alg_match(const hlo_instr *i, hlo_opcode op) {
  return i->opcode == op ? hlo_operand(i, 0) : NULL;
}
bool pass_alg_nonnegative(const alg *, const hlo_instr *);  // known to be >= 0 (or NaN)
// Whether the instruction is the work of an asynchronous operation, which must stay that operation.
static inline bool alg_in_async(const alg *a, const hlo_instr *i) {
  return a->async && a->async[i->parent->id];
}
static inline bool alg_same_shape(const alg *a, const hlo_shape *x, const hlo_shape *y) {
  return a->layout_sensitive ? x == y : x->logical == y->logical;
}

// The largest value of an integer type, as far as an i64 holds it.
i64 pass_alg_top_of(hlo_dtype);

// The step of an integer literal {0, s, 2s, ...}, of which each number is what the multiplication
// gives in 64 bits, wrapped around where it has to; 0: it is none.
i64 pass_alg_multiples(const hlo_literal *);

// Whether both operands of a product lose nothing when they become elements of its result: else a
// product of what is rounded first is another.
bool pass_alg_widens_operands(const hlo_instr *product);

// Dimension lists.
static inline hlo_ints alg_dims(const hlo_instr *i) {
  return hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
}
bool pass_alg_has(hlo_ints, i64 v);
bool pass_alg_sorted(u32 n, const i64 *v);
// The scalar operation of a reducer (x, y) -> op(x, y), or HLO_OP_INVALID.
hlo_opcode pass_alg_reducer(const hlo_computation *);
bool pass_alg_is_identity(hlo_opcode reducer, const hlo_instr *value);
// Whether the initial value of a reduction is known to change the result when it goes in once for
// each part of what is reduced. XLA takes it for the identity of the reducer.
bool pass_alg_counts_init_again(const hlo_instr *reduce);

// ---- building -----------------------------------------------------------------------------------
// with a layout when the module has them
const hlo_shape *pass_alg_shape(alg *, hlo_dtype, u32 rank, const i64 *dims);
hlo_instr *pass_alg_add(alg *, hlo_opcode, const hlo_shape *, u32 n, hlo_instr *const *operands);
hlo_instr *pass_alg_un(alg *, hlo_opcode, hlo_instr *);
hlo_instr *pass_alg_bin(alg *, hlo_opcode, hlo_instr *, hlo_instr *);
hlo_instr *pass_alg_compare(alg *, int direction, hlo_instr *, hlo_instr *);
hlo_instr *pass_alg_select(alg *, hlo_instr *p, hlo_instr *t, hlo_instr *f);
hlo_instr *pass_alg_convert(alg *, hlo_instr *, hlo_dtype);
hlo_instr *pass_alg_broadcast(alg *, hlo_instr *, const hlo_shape *, u32 n, const i64 *dims);
// the operand itself when nothing changes
hlo_instr *pass_alg_reshape(alg *, hlo_instr *, u32 rank, const i64 *dims);
hlo_instr *pass_alg_reshape_to(alg *, hlo_instr *, const hlo_shape *);
hlo_instr *pass_alg_transpose(alg *, hlo_instr *, const i64 *perm);
// the operand itself when it takes all
hlo_instr *pass_alg_slice(alg *, hlo_instr *, const hlo_slice_dim *);
hlo_instr *pass_alg_pad(alg *, hlo_instr *, hlo_instr *value, const hlo_pad_dim *);
hlo_instr *pass_alg_reverse(alg *, hlo_instr *, u32 n, const i64 *dims);
hlo_instr *pass_alg_concat(alg *, u32 n, hlo_instr *const *, i64 dim);
hlo_instr *pass_alg_reduce(alg *, hlo_instr *, hlo_instr *init, u32 n, const i64 *dims,
                           hlo_computation *);
hlo_instr *pass_alg_literal(alg *, hlo_literal *take);
// One instruction with the attributes of another on new operands.
hlo_instr *pass_alg_like(alg *, const hlo_instr *like, const hlo_shape *, u32 n,
                         hlo_instr *const *operands);
hlo_instr *pass_alg_dslice(alg *, hlo_instr *, hlo_instr *const *starts, const i64 *sizes);
hlo_instr *pass_alg_scalar(alg *, hlo_dtype, double v);
hlo_instr *pass_alg_scalar_int(alg *, hlo_dtype, i64 v);
// broadcast of a scalar constant
hlo_instr *pass_alg_full(alg *, const hlo_shape *, double v);
hlo_instr *pass_alg_full_int(alg *, const hlo_shape *, i64 v);
// broadcast of a scalar; itself when rank 0
hlo_instr *pass_alg_spread(alg *, hlo_instr *scalar, const hlo_shape *);
i64 *pass_alg_dims_new(alg *, size_t n);  // scratch

// ---- dimension numbers of dots ------------------------------------------------------------------
typedef struct alg_dot {
  u32 nb, nc;
  i64 lb[HLO_MAX_RANK], rb[HLO_MAX_RANK], lc[HLO_MAX_RANK], rc[HLO_MAX_RANK];
} alg_dot;
void pass_alg_dot_dims(const hlo_instr *dot, alg_dot *);
void pass_alg_dot_swap(alg_dot *);
// Where each dimension of an operand is found in the result; -1 for contracting ones.
void pass_alg_dot_map(const alg_dot *, bool rhs, u32 lhs_rank, u32 rank, i64 *map);
// A dot with the precision and element type of `like`; `swapped`: its operands have changed places.
hlo_instr *pass_alg_dot(alg *, const hlo_instr *like, bool swapped, hlo_instr *l, hlo_instr *r,
                        const alg_dot *);
// Neither a sparse dot nor one with an algorithm of its own.
bool pass_alg_dot_plain(const hlo_instr *);

#endif
