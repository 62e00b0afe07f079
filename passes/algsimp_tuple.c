// algsimp_tuple.c — tuples taken apart and put together again, scatters and gathers of nothing.
#include "passes/algsimp.h"

#define X hlo_operand(i, 0)

ALG_RULE(gte_tuple) {
  (void)a;
  return X->opcode == HLO_TUPLE ? hlo_operand(X, (u32)hlo_attr_int(i, HLO_ATTR_INDEX, 0)) : NULL;
}

// tuple(gte(T, 0), gte(T, 1), ...) of all elements is T
ALG_RULE(tuple_of_parts) {
  (void)a;
  if (i->noperands == 0 || X->opcode != HLO_GET_TUPLE_ELEMENT) return NULL;
  hlo_instr *t = hlo_operand(X, 0);
  if (t->shape != i->shape) return NULL;
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_instr *g = hlo_operand(i, k);
    if (g->opcode != HLO_GET_TUPLE_ELEMENT || hlo_operand(g, 0) != t || hlo_attr_int(g, HLO_ATTR_INDEX, -1) != k) return NULL;
  }
  return t;
}

// A scatter without updates leaves its operand
ALG_RULE(scatter_empty) {
  (void)a;
  if (i->noperands != 3) return NULL;
  return hlo_operand(i, 1)->shape->elements == 0 || hlo_operand(i, 2)->shape->elements == 0 ? X : NULL;
}

// A gather from zeros, or any one repeated value
ALG_RULE(gather_splat) {
  if (X->opcode != HLO_BROADCAST || hlo_operand(X, 0)->shape->rank != 0) return NULL;
  return pass_alg_spread(a, hlo_operand(X, 0), i->shape);
}
