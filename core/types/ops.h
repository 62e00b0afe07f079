// ops.h — the table of operations (ops.def) and of their cost classes (costs.def), as constant
// data.
//
// Whoever needs to know something about an operation reads a column here; a list of opcodes that
// stands in two places wants to be a flag.
#ifndef HLO_OPS_H
#define HLO_OPS_H

#include "core/types/attr.h"

typedef enum hlo_opcode {
  HLO_OP_INVALID = 0,
#define OP(id, text, arity, inf, infer, eval, cost, flags, color, attrs) HLO_##id,
#include "core/types/ops.def"
#undef OP
  HLO_OPCODE_COUNT
} hlo_opcode;

// Properties of an operation, the flag letters of ops.def.
enum {
  HLO_F_ELEMENTWISE = 1 << 0,    // each element of the result from the operands' at the same index
  HLO_F_COMMUTATIVE = 1 << 1,    // of two operands
  HLO_F_SIDE_EFFECT = 1 << 2,    // running it twice, or in another order, is observable
  HLO_F_MOVEMENT = 1 << 3,       // every element of the result is one of the operands'
  HLO_F_NEVER_REMOVED = 1 << 4,  // even when nobody uses it
  HLO_F_CALLS = 1 << 5,          // its attributes name computations
  HLO_F_CONTROL = 1 << 6,        // and their instructions run as if they stood in the caller
  HLO_F_ASYNC = 1 << 7,          // one half of a start and done pair
  HLO_F_ASYNC_WRAPPER = 1 << 8,  // async-start, async-update, async-done
  HLO_F_COLLECTIVE = 1 << 9,     // runs on several devices together
  HLO_F_SEND_RECEIVE = 1 << 10,  // send, recv and their done halves
  HLO_F_FREE = 1 << 11,          // no work at run time
  HLO_F_FORWARDS = 1 << 12,      // the result is operand 0, unchanged
  HLO_F_MONOID = 1 << 13,        // associative but for rounding, with an identity
};

typedef enum hlo_cost_class {
#define COST(class, counts, ns, int_ns, cycles, expensive) HLO_COST_##class,
#include "core/types/costs.def"
#undef COST
  HLO_COST_CLASS_COUNT
} hlo_cost_class;

// What an instruction of a class adds to the sums of a cost analysis, per element of its result.
typedef enum hlo_cost_counts {
  HLO_COUNTS_NONE,   // bytes only
  HLO_COUNTS_FLOPS,  // one flop
  HLO_COUNTS_TRANS,  // one transcendental
  HLO_COUNTS_RULE,   // as a rule of its own says (core/analysis/cost.c)
} hlo_cost_counts;

typedef struct hlo_cost_info {
  hlo_cost_counts counts;
  double ns, int_ns;  // nanoseconds for one 32-bit element in a vectorized loop; of an integer type
  u32 cycles;         // weight of one element beside an addition
  bool expensive;     // evaluating it twice is worth avoiding
} hlo_cost_info;

typedef enum hlo_color {
  HLO_COLOR_WHITE,
  HLO_COLOR_YELLOW,
  HLO_COLOR_GREEN,
  HLO_COLOR_ORANGE,
  HLO_COLOR_PURPLE,
  HLO_COLOR_DARKBLUE,
  HLO_COLOR_DARKGREEN,
  HLO_COLOR_BROWN,
  HLO_COLOR_RED,
  HLO_COLOR_GREY
} hlo_color;

#define HLO_VARIADIC (-1)  // any number of operands; HLO_VARIADIC - n: at least n
// One attribute that an operation takes.
typedef struct hlo_op_attr {
  hlo_attr_id id;
  bool required;
} hlo_op_attr;
typedef struct hlo_op_info {
  const char *text;
  u8 text_n;       // bytes of text
  bool inferable;  // the text may leave the result shape out
  int arity;       // number of operands; HLO_VARIADIC or below: hlo_op_least
  u32 flags;       // HLO_F_*
  hlo_cost_class cost;
  hlo_color color;
  const hlo_op_attr *attrs;  // in printing order, ends with id HLO_ATTR_NONE
} hlo_op_info;

extern const hlo_op_info hlo_ops[HLO_OPCODE_COUNT];
extern const hlo_cost_info hlo_cost_classes[HLO_COST_CLASS_COUNT];
// The operation's name in HLO text.
static inline const char *hlo_op_text(hlo_opcode op) { return hlo_ops[op].text; }
// Whether the operation has one of the flags HLO_F_*.
static inline bool hlo_op_has(hlo_opcode op, u32 flag) { return (hlo_ops[op].flags & flag) != 0; }
// The fewest operands that the operation takes, and whether it takes n of them: what every reader
// checks, so that nobody finds an instruction without the operands that its opcode implies.
static inline u32 hlo_op_least(hlo_opcode op) {
  int arity = hlo_ops[op].arity;
  return arity >= 0 ? (u32)arity : (u32)(HLO_VARIADIC - arity);
}
static inline bool hlo_op_takes(hlo_opcode op, u32 n) {
  return hlo_ops[op].arity >= 0 ? n == (u32)hlo_ops[op].arity : n >= hlo_op_least(op);
}
// "2", "at least 1"
static inline const char *hlo_op_at_least(hlo_opcode op) {
  return hlo_ops[op].arity >= 0 ? "" : "at least ";
}
// The row of the operation's cost class.
static inline const hlo_cost_info *hlo_op_cost(hlo_opcode op) {
  return &hlo_cost_classes[hlo_ops[op].cost];
}
static inline bool hlo_op_is_transcendental(hlo_opcode op) {
  return hlo_op_cost(op)->counts == HLO_COUNTS_TRANS;
}
// The operation of that name, by bisection; HLO_OP_INVALID when there is none.
hlo_opcode hlo_op_find(hs_str text);
// Whether the attribute is one of the operation's own; those that every operation takes (metadata,
// sharding, ...) are not.
bool hlo_op_takes_attr(hlo_opcode op, hlo_attr_id id);
// Whether a value of an attribute is a default that XLA does not print, so that readers need not
// store it. HLO_OP_INVALID asks for an attribute of the module.
bool hlo_attr_droppable(hlo_opcode op, const hlo_attr *a);
// Whether the operation accepts result_accuracy.
bool hlo_op_is_unary_math(hlo_opcode op);

#endif
