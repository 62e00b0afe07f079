// ops.c — the tables of ops.def, costs.def, attrs.def and attr_enums.def as constant data, and
// lookup by text. Nothing is filled at run time: the rows of ops.def are sorted by text, which a
// unit test holds, and names are found by bisection.
#include "core/types/ops.h"

#include <strings.h>

// ---- attributes ---------------------------------------------------------------------------------

const hlo_attr_info hlo_attr_infos[HLO_ATTR_COUNT] = {
    [HLO_ATTR_NONE] = {"", HLO_AK_INT},
#define ATTR(id, text, kind) [HLO_ATTR_##id] = {text, HLO_AK_##kind},
#include "core/types/attrs.def"
#undef ATTR
};

#define ENUM_BEGIN(name) static const char *const enum_##name[] = {
#define VALUE(name, id, text) [HLO_##name##_##id] = text,
#define ENUM_END(name) \
  }                    \
  ;
#include "core/types/attr_enums.def"
#undef ENUM_BEGIN
#undef VALUE
#undef ENUM_END

static const struct {
  const char *const *text;
  int n;
} enums[HLO_AK_KIND_COUNT] = {
#define ENUM_BEGIN(name) [HLO_AK_ENUM_##name] = {enum_##name, HLO_##name##_COUNT},
#define VALUE(name, id, text)
#define ENUM_END(name)
#include "core/types/attr_enums.def"
#undef ENUM_BEGIN
#undef VALUE
#undef ENUM_END
};

const char *hlo_enum_text(hlo_attr_kind kind, i64 value) {
  return value >= 0 && value < enums[kind].n ? enums[kind].text[value] : NULL;
}

i64 hlo_enum_find(hlo_attr_kind kind, hs_str text, bool ignore_case) {
  for (int k = 0; k < enums[kind].n; k++) {
    const char *s = enums[kind].text[k];
    if (strlen(s) == text.n &&
        (ignore_case ? !strncasecmp(s, text.p, text.n) : !memcmp(s, text.p, text.n)))
      return k;
  }
  return -1;
}

// ---- operations ---------------------------------------------------------------------------------

#define R(x) {HLO_ATTR_##x, true},
#define O(x) {HLO_ATTR_##x, false},
#define LIST(...) __VA_ARGS__
#define OP(id, text, arity, inf, infer, eval, cost, flags, color, attrs) \
  static const hlo_op_attr attrs_##id[] = {LIST attrs{HLO_ATTR_NONE, false}};
#include "core/types/ops.def"
#undef OP
#undef R
#undef O

// The flag letters of ops.def's legend.
enum {
  E = HLO_F_ELEMENTWISE,
  C = HLO_F_COMMUTATIVE,
  M = HLO_F_MONOID,
  S = HLO_F_SIDE_EFFECT,
  P = HLO_F_MOVEMENT,
  N = HLO_F_NEVER_REMOVED,
  R = HLO_F_CALLS,
  B = HLO_F_CONTROL,
  A = HLO_F_ASYNC,
  W = HLO_F_ASYNC_WRAPPER,
  L = HLO_F_COLLECTIVE,
  X = HLO_F_SEND_RECEIVE,
  F = HLO_F_FREE,
  D = HLO_F_FORWARDS,
  VAR = HLO_VARIADIC,
  VAR1 = HLO_VARIADIC - 1,
  VAR2 = HLO_VARIADIC - 2,
  VAR3 = HLO_VARIADIC - 3,
};

const hlo_op_info hlo_ops[HLO_OPCODE_COUNT] = {
    [HLO_OP_INVALID] = {.text = "invalid", .attrs = (const hlo_op_attr[]){{HLO_ATTR_NONE, false}}},
#define OP(id, text_, arity_, inf, infer, eval, cost_, flags_, color_, list_) \
  [HLO_##id] = {.text = text_,                                                \
                .text_n = sizeof text_ - 1,                                   \
                .inferable = inf,                                             \
                .arity = arity_,                                              \
                .flags = flags_,                                              \
                .cost = HLO_COST_##cost_,                                     \
                .color = HLO_COLOR_##color_,                                  \
                .attrs = attrs_##id},
#include "core/types/ops.def"
#undef OP
};

const hlo_cost_info hlo_cost_classes[HLO_COST_CLASS_COUNT] = {
#define COST(class, counts, ns, int_ns, cycles, expensive) \
  [HLO_COST_##class] = {HLO_COUNTS_##counts, ns, int_ns, cycles, expensive},
#include "core/types/costs.def"
#undef COST
};

_Static_assert(HLO_OPCODE_COUNT == 134,
               "133 operations and the invalid one; update when XLA adds one");

hlo_opcode hlo_op_find(hs_str text) {
  if (!text.n) return HLO_OP_INVALID;
  int low = 1, high = HLO_OPCODE_COUNT;
  while (low < high) {
    int mid = (low + high) / 2;
    const hlo_op_info *o = &hlo_ops[mid];
    int c = (u8)text.p[0] - (u8)o->text[0];  // most probes end here
    if (!c) c = memcmp(text.p, o->text, HS_MIN(text.n, (size_t)o->text_n));
    if (!c && text.n == o->text_n) return (hlo_opcode)mid;
    if (c < 0 || (!c && text.n < o->text_n)) high = mid;
    else low = mid + 1;
  }
  return HLO_OP_INVALID;
}

bool hlo_op_takes_attr(hlo_opcode op, hlo_attr_id id) {
  for (const hlo_op_attr *a = hlo_ops[op].attrs; a->id; a++)
    if (a->id == id) return true;
  return false;
}

bool hlo_op_is_unary_math(hlo_opcode op) {
  return hlo_ops[op].arity == 1 && hlo_op_is_transcendental(op);
}

bool hlo_attr_droppable(hlo_opcode op, const hlo_attr *a) {
  switch (a->id) {
  case HLO_ATTR_FEATURE_GROUP_COUNT:
  case HLO_ATTR_BATCH_GROUP_COUNT: return a->v.i == 1;
  case HLO_ATTR_INFERRED_DIMENSION: return a->v.i == -1;
  case HLO_ATTR_ALGORITHM:
  case HLO_ATTR_CONVOLUTION_KIND:
  case HLO_ATTR_PADDING_TYPE:
  case HLO_ATTR_SCHEDULE:
  case HLO_ATTR_TRANSPOSE_A: return a->v.i == 0;
  case HLO_ATTR_API_VERSION: return a->v.i == HLO_API_VERSION_ORIGINAL;
  case HLO_ATTR_LARGEST:
  case HLO_ATTR_HAS_DYNAMIC_ROOT:
  case HLO_ATTR_IS_ASSOCIATIVE: return false;
  case HLO_ATTR_IS_STABLE: return op != HLO_TOPK && a->v.i == 0;
  case HLO_ATTR_WINDOW: return ((const hlo_window *)a->v.p)->n == 0;
  case HLO_ATTR_FRONTEND_ATTRIBUTES: return ((const hlo_frontend *)a->v.p)->n == 0;
  case HLO_ATTR_OUTPUT_TO_OPERAND_ALIASING:
  case HLO_ATTR_INPUT_OUTPUT_ALIAS:
  case HLO_ATTR_BUFFER_DONOR: return ((const hlo_aliases *)a->v.p)->n == 0;
  case HLO_ATTR_CALLED_COMPUTATIONS: return a->v.comps.n == 0;
  case HLO_ATTR_BACKEND_CONFIG: return ((const hlo_backend_config *)a->v.p)->text.n == 0;
  case HLO_ATTR_RESULT_ACCURACY: {
    const hlo_result_accuracy *r = a->v.p;
    return !r->has_tolerance && r->mode == 0;
  }
  case HLO_ATTR_OPERAND_PRECISION:
    for (u32 i = 0; i < a->v.ints.n; i++)
      if (a->v.ints.v[i]) return false;
    return true;
  case HLO_ATTR_OPERAND_BATCHING_DIMS:
  case HLO_ATTR_START_INDICES_BATCHING_DIMS:
  case HLO_ATTR_INPUT_BATCHING_DIMS:
  case HLO_ATTR_SCATTER_INDICES_BATCHING_DIMS:
  case HLO_ATTR_LHS_BATCH_DIMS:
  case HLO_ATTR_RHS_BATCH_DIMS:
  case HLO_ATTR_LHS_RAGGED_DIMS:
  case HLO_ATTR_RHS_GROUP_DIMS: return a->v.ints.n == 0;
  case HLO_ATTR_REPLICA_COUNT:
  case HLO_ATTR_NUM_PARTITIONS: return a->v.i == 1;
  case HLO_ATTR_OUTFEED_CONFIG:
  case HLO_ATTR_INFEED_CONFIG:
  case HLO_ATTR_ASYNC_EXECUTION_THREAD: return a->v.s.n == 0;
  default: return hlo_attr_kind_of(a->id) == HLO_AK_BOOL && a->v.i == 0;
  }
}
