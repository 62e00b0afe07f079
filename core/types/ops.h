// ops.h — lookups over ops.def.
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

enum {
  HLO_F_ELEMENTWISE = 1 << 0,
  HLO_F_COMMUTATIVE = 1 << 1,
  HLO_F_TRANSCENDENTAL = 1 << 2,
  HLO_F_SIDE_EFFECT = 1 << 3,
  HLO_F_MOVEMENT = 1 << 4,
  HLO_F_NEVER_REMOVED = 1 << 5,
  HLO_F_CALLS = 1 << 6,
  HLO_F_ASYNC = 1 << 7,
  HLO_F_COLLECTIVE = 1 << 8,
  HLO_F_FREE = 1 << 9,
};

typedef enum hlo_cost_class {
  HLO_COST_FREE,
  HLO_COST_MOVE,
  HLO_COST_EW,
  HLO_COST_TRANS,
  HLO_COST_DOT,
  HLO_COST_CONV,
  HLO_COST_REDUCE,
  HLO_COST_RWIN,
  HLO_COST_SAS,
  HLO_COST_SCATTER,
  HLO_COST_GATHER,
  HLO_COST_DSLICE,
  HLO_COST_DUS,
  HLO_COST_SORT,
  HLO_COST_MAP,
  HLO_COST_SCAN,
  HLO_COST_CALL,
  HLO_COST_WHILE,
  HLO_COST_COND,
  HLO_COST_FFT,
  HLO_COST_LINALG,
  HLO_COST_BNORM,
  HLO_COST_RNG,
  HLO_COST_COLL,
  HLO_COST_CUSTOM,
} hlo_cost_class;

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

#define HLO_VARIADIC (-1)
typedef struct hlo_op_attr {
  hlo_attr_id id;
  bool required;
} hlo_op_attr;
typedef struct hlo_op_info {
  const char *text;
  int arity;  // HLO_VARIADIC when checked elsewhere
  bool inferable;
  u32 flags;
  hlo_cost_class cost;
  hlo_color color;
  const hlo_op_attr *attrs;  // in printing order, ends with id HLO_ATTR_NONE
} hlo_op_info;

extern const hlo_op_info hlo_ops[HLO_OPCODE_COUNT];
static inline const char *hlo_op_text(hlo_opcode op) { return hlo_ops[op].text; }
static inline bool hlo_op_has(hlo_opcode op, u32 flag) { return (hlo_ops[op].flags & flag) != 0; }
hlo_opcode hlo_op_find(hs_str text);                    // HLO_OP_INVALID when unknown; hashed
bool hlo_op_takes_attr(hlo_opcode op, hlo_attr_id id);  // own attributes only, not the common ones
// a default that XLA does not print and readers do not store (parse_attr.c)
bool hlo_attr_droppable(hlo_opcode op, const hlo_attr *a);
// one of the ops that accept result_accuracy
bool hlo_op_is_unary_math(hlo_opcode op);

#endif
