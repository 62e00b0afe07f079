// choice.c — reducers that return one of their arguments, as argmax does, and may take their
// elements in any order, and the initial value any number of times.
//
// A computation of comparisons, selections and their like sees nothing of its arguments but how
// they are ordered. So it is tried on all triples of elements whose numbers are of three levels:
// commutative, associative and idempotent there, it is so everywhere. NaN is not tried: which of
// two NaNs an argmax names depends on the order in XLA too.
#include "backends/emit/nest/lower.h"

enum { LEVELS = 3, MOST_NUMBERS = 3, MOST_INSTRS = 64 };

typedef struct choice {
  u32 n, numbers;               // instructions; numbers of an element
  hlo_instr **v;                // operands before users
  u32 operand[MOST_INSTRS][3];  // by place in v
  u32 result[MOST_NUMBERS];
} choice;
typedef struct element {
  double v[MOST_NUMBERS];
} element;

static bool is_known(const hlo_instr *i) {
  if (i->opcode == HLO_TUPLE) return hlo_is_root(i);
  if (!hlo_shape_is_array(i->shape) || i->shape->elements != 1) return false;
  switch (i->opcode) {
  case HLO_PARAMETER:
  case HLO_COMPARE:
  case HLO_SELECT:
  case HLO_MAXIMUM:
  case HLO_MINIMUM: return true;
  case HLO_AND:
  case HLO_OR:
  case HLO_NOT:
  case HLO_CONSTANT: return i->shape->dtype == HLO_PRED;  // any other number is a level more
  default: return false;
  }
}

static u32 place_of(const choice *c, const hlo_instr *i) {
  u32 k = 0;
  while (c->v[k] != i) k++;
  return k;
}

static bool read_choice(const hlo_computation *from, hs_arena *a, choice *c) {
  const hlo_instr *root = from->root;
  bool tuple = root->opcode == HLO_TUPLE;
  *c = (choice){.n = from->ninstrs, .numbers = tuple ? root->noperands : 1};
  if (c->n > MOST_INSTRS || c->numbers > MOST_NUMBERS || from->nparams != 2 * c->numbers)
    return false;
  hlo_for_each_instr(i, from)
    if (!is_known(i)) return false;
  c->v = hlo_post_order(from, a);
  for (u32 k = 0; k < c->n; k++)
    for (u32 j = 0; j < c->v[k]->noperands && c->v[k] != root; j++)
      c->operand[k][j] = place_of(c, hlo_operand(c->v[k], j));
  for (u32 k = 0; k < c->numbers; k++)
    c->result[k] = place_of(c, tuple ? hlo_operand(root, k) : root);
  return true;
}

static bool compare(const hlo_instr *i, double x, double y) {
  switch (hlo_attr_int(i, HLO_ATTR_DIRECTION, HLO_DIRECTION_EQ)) {
  case HLO_DIRECTION_EQ: return x == y;
  case HLO_DIRECTION_NE: return x != y;
  case HLO_DIRECTION_LT: return x < y;
  case HLO_DIRECTION_LE: return x <= y;
  case HLO_DIRECTION_GT: return x > y;
  default: return x >= y;
  }
}

static element apply(const choice *c, const element *a, const element *b) {
  double x[MOST_INSTRS] = {0};
  for (u32 k = 0; k < c->n; k++) {
    const hlo_instr *i = c->v[k];
    const u32 *in = c->operand[k];
    switch (i->opcode) {
    case HLO_PARAMETER: {
      u32 p = (u32)hlo_param_number(i);
      x[k] = p < c->numbers ? a->v[p] : b->v[p - c->numbers];
      break;
    }
    case HLO_CONSTANT: x[k] = hlo_literal_f64(hlo_constant_value(i), 0); break;
    case HLO_COMPARE: x[k] = compare(i, x[in[0]], x[in[1]]); break;
    case HLO_SELECT: x[k] = x[in[0]] != 0 ? x[in[1]] : x[in[2]]; break;
    case HLO_NOT: x[k] = x[in[0]] == 0; break;
    case HLO_AND:
    case HLO_MINIMUM: x[k] = HS_MIN(x[in[0]], x[in[1]]); break;
    case HLO_OR:
    case HLO_MAXIMUM: x[k] = HS_MAX(x[in[0]], x[in[1]]); break;
    default: break;
    }
  }
  element r = {0};
  for (u32 k = 0; k < c->numbers; k++) r.v[k] = x[c->result[k]];
  return r;
}

static bool is_same(const choice *c, element x, element y) {
  bool same = true;
  for (u32 k = 0; k < c->numbers; k++) same &= x.v[k] == y.v[k];
  return same;
}

static element numbered(const choice *c, u32 n) {
  element e = {0};
  for (u32 k = 0; k < c->numbers; k++, n /= LEVELS) e.v[k] = n % LEVELS;
  return e;
}

bool lower_chooses(const hlo_computation *from) {
  hs_arena a = {0};
  choice c;
  bool fine = read_choice(from, &a, &c);
  u32 all = 1;
  for (u32 k = 0; fine && k < c.numbers; k++) all *= LEVELS;
  for (u32 p = 0; fine && p < all; p++)
    for (u32 q = 0; fine && q < all; q++) {
      element x = numbered(&c, p), y = numbered(&c, q), xy = apply(&c, &x, &y);
      fine = is_same(&c, xy, apply(&c, &y, &x)) && (p != q || is_same(&c, xy, x));
      for (u32 r = 0; fine && r < all; r++) {
        element z = numbered(&c, r), yz = apply(&c, &y, &z);
        fine = is_same(&c, apply(&c, &xy, &z), apply(&c, &x, &yz));
      }
    }
  hs_arena_free(&a);
  return fine;
}
