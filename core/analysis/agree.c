// agree.c — values that are determined up to a factor: eigenvectors and singular vectors.
//
// An eigenvector times any number of modulus 1 is one as well, and which of them comes out depends
// on the library and on rounding. A leaf is followed back from where it is read, through what moves
// elements without mixing vectors (tuples, transposes, copies, conversions, slices, calls, and the
// select by which JAX writes NaN where a factorization failed), to a call that makes vectors. What
// computes with vectors is not followed: a product of them with their own transpose is determined.
// Of a singular value decomposition the left and the right vector have one factor in common; each
// is compared on its own.
#include "core/analysis/agree.h"
#include "core/analysis/customcall.h"

enum { MOST_STEPS = 1000 };

// The call that a computation's parameters stand for the operands of.
typedef struct frame {
  const hlo_instr *call;
  const struct frame *up;
} frame;

// How many dimensions from the last one the vectors of result `leaf` lie in; 0: it has none.
static u32 made_by(const hlo_instr *i, u32 leaf) {
  static const struct {
    const char *routine;
    u32 leaf, from_last;
    const char *types;
  } table[] = {{"syevd", 0, 2, "sd"},   {"heevd", 0, 2, "cz"}, {"gesdd", 2, 2, "sdcz"},
               {"gesdd", 3, 1, "sdcz"}, {"geev", 2, 2, "sd"},  {"geev", 3, 2, "sd"},
               {"geev", 1, 2, "cz"},    {"geev", 2, 2, "cz"}};
  hs_str t = hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET);
  if (hlo_custom_find(t) != HLO_CUSTOM_LAPACK_FFI || t.n < 9) return 0;
  for (u32 k = 0; k < HS_COUNT(table); k++) {  // lapack_<type><routine>, lapack_<type><routine>_ffi
    size_t n = strlen(table[k].routine);
    if (table[k].leaf == leaf && strchr(table[k].types, t.p[7]) && t.n >= 8 + n &&
        memcmp(t.p + 8, table[k].routine, n) == 0)
      return table[k].from_last;
  }
  return 0;
}

static bool is_filler(const hlo_instr *i) {
  while (i->opcode == HLO_BROADCAST || i->opcode == HLO_CONVERT || i->opcode == HLO_RESHAPE)
    i = hlo_operand(i, 0);
  return i->opcode == HLO_CONSTANT;
}

// One step back from leaf *leaf of *i; *along, counted in the dimensions of what was read at first,
// is kept in `to`: to[d] is the dimension of *i that dimension d there is. False: it ends here.
static bool step_back(const hlo_instr **at, u32 *leaf, const frame **f, i32 *to, u32 rank,
                      hs_arena *a) {
  const hlo_instr *i = *at;
  switch (i->opcode) {
  case HLO_TUPLE:
    for (u32 k = 0; k < i->noperands; k++) {
      u32 n = hlo_shape_leaves(hlo_operand(i, k)->shape);
      if (*leaf < n) return *at = hlo_operand(i, k), true;
      *leaf -= n;
    }
    return false;
  case HLO_GET_TUPLE_ELEMENT:
    *leaf += hlo_shape_leaf_offset(hlo_operand(i, 0)->shape, hlo_attr_int(i, HLO_ATTR_INDEX, 0));
    break;
  case HLO_CALL: {
    frame *in = HS_NEW(a, frame);
    *in = (frame){i, *f};
    *f = in;
    return *at = hlo_attr_comp(i, HLO_ATTR_TO_APPLY)->root, true;
  }
  case HLO_PARAMETER: {
    const frame *in = *f;
    if (!in) return false;
    *at = hlo_operand(in->call, (u32)hlo_param_number(i));
    *f = in->up;
    return true;
  }
  case HLO_TRANSPOSE: {
    hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
    for (u32 k = 0; k < rank; k++) to[k] = (i32)d.v[to[k]];
    break;
  }
  case HLO_SELECT:
    if (hlo_shape_leaves(i->shape) != 1) return false;
    if (is_filler(hlo_operand(i, 2))) return *at = hlo_operand(i, 1), true;
    if (is_filler(hlo_operand(i, 1))) return *at = hlo_operand(i, 2), true;
    return false;
  case HLO_COPY:
  case HLO_CONVERT:
  case HLO_REVERSE:
  case HLO_SLICE:
  case HLO_OPT_BARRIER:
  case HLO_ADD_DEPENDENCY: break;
  case HLO_CUSTOM_CALL:
    if (i->noperands == 1 && hlo_custom_is_marker(i)) break;
    return false;
  default: return false;
  }
  return *at = hlo_operand(i, 0), true;
}

static i32 vectors_of(const hlo_instr *i, u32 leaf, hs_arena *a) {
  const hlo_shape *s = hlo_shape_leaf(i->shape, leaf);
  if (!hlo_shape_is_array(s) || s->rank < 2) return -1;
  i32 to[HLO_MAX_RANK];
  for (u32 k = 0; k < s->rank; k++) to[k] = (i32)k;
  const frame *f = NULL;
  for (u32 step = 0; step < MOST_STEPS; step++) {
    u32 from_last = i->opcode == HLO_CUSTOM_CALL ? made_by(i, leaf) : 0;
    for (u32 k = 0; from_last && k < s->rank; k++)
      if (to[k] == (i32)(s->rank - from_last)) return (i32)k;
    if (!step_back(&i, &leaf, &f, to, s->rank, a)) return -1;
  }
  return -1;
}

hlo_phases hlo_phases_of(const hlo_instr *i, hs_arena *a) {
  u32 n = hlo_shape_leaves(i->shape);
  i32 *along = HS_NEW_ARRAY(a, i32, n + 1);
  for (u32 k = 0; k < n; k++) along[k] = vectors_of(i, k, a);
  return (hlo_phases){n, along};
}

hs_status hlo_agree_leaves(const hlo_instr *i, const hlo_literal *expected,
                           const hlo_literal *actual, hlo_tolerance tol, hlo_comparisons *out) {
  hs_arena a = {0};
  hlo_phases p = hlo_phases_of(i, &a);
  hs_status s = hlo_compare_phases(expected, actual, tol, &p, out);
  hs_arena_free(&a);
  return s;
}

hs_status hlo_agree(const hlo_instr *i, const hlo_literal *expected, const hlo_literal *actual,
                    hlo_tolerance tol) {
  hs_arena a = {0};
  hlo_phases p = hlo_phases_of(i, &a);
  hs_status s = hlo_compare_up_to(expected, actual, tol, &p);
  hs_arena_free(&a);
  return s;
}
