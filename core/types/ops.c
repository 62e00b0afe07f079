// ops.c — the tables of ops.def and attrs.def as data, with hashed lookup by text.
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
  T = HLO_F_TRANSCENDENTAL,
  S = HLO_F_SIDE_EFFECT,
  P = HLO_F_MOVEMENT,
  N = HLO_F_NEVER_REMOVED,
  R = HLO_F_CALLS,
  A = HLO_F_ASYNC,
  L = HLO_F_COLLECTIVE,
  F = HLO_F_FREE,
  VAR = HLO_VARIADIC,
};

const hlo_op_info hlo_ops[HLO_OPCODE_COUNT] = {
    [HLO_OP_INVALID] = {.text = "invalid", .attrs = (const hlo_op_attr[]){{HLO_ATTR_NONE, false}}},
#define OP(id, text_, arity_, inf, infer, eval, cost_, flags_, color_, list_) \
  [HLO_##id] = {text_, arity_, inf, flags_, HLO_COST_##cost_, HLO_COLOR_##color_, attrs_##id},
#include "core/types/ops.def"
#undef OP
};

// Perfect enough: 512 buckets, filled on first use (idempotent: every filler writes the same
// bytes).
static u8 op_buckets[512], op_lengths[HLO_OPCODE_COUNT];
static bool op_ready;

static u64 op_hash(const char *s, size_t n) { return hs_hash_bytes(s, n, 3); }

static void fill_op_buckets(void) {
  for (int op = 1; op < HLO_OPCODE_COUNT; op++) {
    op_lengths[op] = (u8)strlen(hlo_ops[op].text);
    size_t at = op_hash(hlo_ops[op].text, op_lengths[op]) & 511;
    while (op_buckets[at] && op_buckets[at] != op) at = (at + 1) & 511;
    op_buckets[at] = (u8)op;
  }
  op_ready = true;
}

_Static_assert(HLO_OPCODE_COUNT == 134,
               "133 operations and the invalid one; update when XLA adds one");

hlo_opcode hlo_op_find(hs_str text) {
  if (!op_ready) fill_op_buckets();
  for (size_t at = op_hash(text.p, text.n) & 511; op_buckets[at]; at = (at + 1) & 511) {
    u8 op = op_buckets[at];
    if (op_lengths[op] == text.n && hs_same_bytes(hlo_ops[op].text, text.p, text.n))
      return (hlo_opcode)op;
  }
  return HLO_OP_INVALID;
}

bool hlo_op_takes_attr(hlo_opcode op, hlo_attr_id id) {
  for (const hlo_op_attr *a = hlo_ops[op].attrs; a->id; a++)
    if (a->id == id) return true;
  return false;
}

bool hlo_op_is_unary_math(hlo_opcode op) {
  return hlo_ops[op].arity == 1 && (hlo_ops[op].flags & HLO_F_TRANSCENDENTAL) != 0;
}
