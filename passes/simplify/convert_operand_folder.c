// convert_operand_folder.c — convert_operand_folding
// (xla/hlo/transforms/simplifiers/convert_operand_folder.cc): dot and convolution read narrow
// operands.
//
// A widening convert of an operand is removed when the result is at least as wide as the operand
// was; data movement between the convert and its user is rebuilt in the narrow type.
#include "passes/simplify/algsimp.h"

// Exact widening: every value of `from` is a value of `to`.
static bool widens(hlo_dtype from, hlo_dtype to) {
  if (from == to) return false;
  int f = hlo_dtype_bits(from), t = hlo_dtype_bits(to);
  if (from == HLO_PRED) return to != HLO_PRED;
  if (hlo_dtype_is_integer(from) && hlo_dtype_is_integer(to)) {
    if (hlo_dtype_is_signed(from)) return hlo_dtype_is_signed(to) && t > f;
    return hlo_dtype_is_unsigned(to) ? t > f : t > f;
  }
  int mantissa = t >= 16 ? hlo_dtype_significand(to) : 0;
  if (hlo_dtype_is_integer(from) && hlo_dtype_is_float(to)) return f <= mantissa;
  if (hlo_dtype_is_float(from) && hlo_dtype_is_float(to))
    return (to == HLO_F64 && f < 64) || (to == HLO_F32 && f < 32) || (to == HLO_BF16 && f < 8) ||
           (to == HLO_F16 && f <= 8 && from != HLO_F8E8M0FNU);
  if (hlo_dtype_is_complex(from) && hlo_dtype_is_complex(to)) return t > f;
  return false;
}

// A reduction over extents of 1 that starts with a neutral value moves its elements.
static bool reduces_nothing(const hlo_instr *i) {
  const hlo_instr *x = hlo_operand(i, 0), *f = hlo_attr_comp(i, HLO_ATTR_TO_APPLY)->root;
  return i->shape->elements == x->shape->elements && i->shape->dtype == x->shape->dtype &&
         f->shape->dtype == x->shape->dtype &&
         pass_alg_is_identity(pass_alg_reducer(f->parent), hlo_operand(i, 1));
}

// A widening convert, or what only moves the elements of one.
static bool widened(const hlo_instr *i) {
  for (;; i = hlo_operand(i, 0)) {
    if (!hlo_shape_is_array(i->shape)) return false;
    switch (i->opcode) {
    case HLO_DYNAMIC_SLICE:
    case HLO_GATHER:
    case HLO_RESHAPE:
    case HLO_SLICE:
    case HLO_TRANSPOSE: continue;
    case HLO_REDUCE:
      if (!reduces_nothing(i)) return false;
      continue;
    case HLO_CONVERT:
      return hlo_operand(i, 0)->shape->dtype == i->shape->dtype ||
             widens(hlo_operand(i, 0)->shape->dtype, i->shape->dtype);
    default: return false;
    }
  }
}

static hlo_dtype narrow_type(const hlo_instr *i) {
  while (i->opcode != HLO_CONVERT) i = hlo_operand(i, 0);
  return hlo_operand(i, 0)->shape->dtype;
}

// The same elements before the convert.
static hlo_instr *narrow(pass_ctx *c, hlo_instr *i) {
  if (i->opcode == HLO_CONVERT) return hlo_operand(i, 0);
  hlo_instr *x = narrow(c, hlo_operand(i, 0));
  const hlo_shape *s = hlo_shape_with_dtype(c->m->ctx, i->shape, x->shape->dtype);
  hlo_instr *now;
  if (i->opcode == HLO_REDUCE) {
    now = hlo_add(i->parent, HLO_RESHAPE, s, 1, &x, NULL);
  } else {
    hlo_instr **ops = HS_NEW_ARRAY(c->scratch, hlo_instr *, i->noperands);
    for (u32 k = 0; k < i->noperands; k++) ops[k] = k ? hlo_operand(i, k) : x;
    now = hlo_clone_instr(i->parent, i, s, i->noperands, ops);
  }
  hlo_add_provenance(now, i);
  return now;
}

static hs_status run(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    u32 n = comp->ninstrs;
    hlo_instr **order = pass_any_order(c, comp);
    for (u32 t = 0; t < n; t++) {
      hlo_instr *i = order[t];
      if (i->opcode != HLO_DOT && i->opcode != HLO_CONVOLUTION) continue;
      for (u32 k = 0; k < 2; k++) {
        hlo_instr *o = hlo_operand(i, k);
        while (widened(o)) {
          hlo_dtype from = narrow_type(o), to = o->shape->dtype;
          if (to != i->shape->dtype && !widens(to, i->shape->dtype)) {
            pass_note_declined(c, i, o, "%s to %s is not a widening that the result keeps",
                               hlo_dtype_text(from), hlo_dtype_text(to));
            break;
          }
          if (!pass_may_rewrite(c)) return HS_GOOD;
          pass_note_done(c, i, o, "reads %s directly", hlo_dtype_text(from));
          hlo_set_operand(i, k, narrow(c, o));
          hlo_add_provenance(i, o);
          hlo_remove_dead(o);
          o = hlo_operand(i, k);
        }
      }
    }
  }
  return HS_GOOD;
}

const pass_info pass_convert_operand_folding = {
    .name = "convert_operand_folding",
    .summary = "folds widening converts into dot and convolution",
    .xla_source = "xla/hlo/transforms/simplifiers/convert_operand_folder.cc",
    .run = run,
    .needs = {HLO_CONVERT},
    .sample = "ENTRY e {\n"
              "  x = s8[2,3] parameter(0)\n"
              "  y = s8[3,4] parameter(1)\n"
              "  wide_x = s32[2,3] convert(x)\n"
              "  wide_y = s32[3,4] convert(y)\n"
              "  ROOT z = s32[2,4] dot(wide_x, wide_y), lhs_contracting_dims={1}, "
              "rhs_contracting_dims={0}\n"
              "}\n",
};
