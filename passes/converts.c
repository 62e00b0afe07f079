// converts.c — conversions around operations.
//
// convert_operand_folding (xla/hlo/transforms/simplifiers/convert_operand_folder.cc): dot and convolution read an operand
//   that a convert only widens in its narrow type, when the result is at least as wide.
// float-normalization-bf16 (xla/hlo/transforms/simplifiers/float_normalization.cc with XLA:CPU's FloatSupport): arithmetic
//   on bf16 is done in f32 between converts; data movement, tuples, control flow, collectives and what changes no bits
//   stays in bf16.
#include "passes/util.h"

// Exact widening: every value of `from` is a value of `to`.
static bool widens(hlo_dtype from, hlo_dtype to) {
  if (from == to) return false;
  int f = hlo_dtype_bits(from), t = hlo_dtype_bits(to);
  if (from == HLO_PRED) return to != HLO_PRED;
  if (hlo_dtype_is_integer(from) && hlo_dtype_is_integer(to)) {
    if (hlo_dtype_is_signed(from)) return hlo_dtype_is_signed(to) && t > f;
    return hlo_dtype_is_unsigned(to) ? t > f : t > f;
  }
  int mantissa = to == HLO_F64 ? 53 : to == HLO_F32 ? 24 : to == HLO_F16 ? 11 : to == HLO_BF16 ? 8 : 0;
  if (hlo_dtype_is_integer(from) && hlo_dtype_is_float(to)) return f <= mantissa;
  if (hlo_dtype_is_float(from) && hlo_dtype_is_float(to)) return (to == HLO_F64 && f < 64) || (to == HLO_F32 && f < 32) || (to == HLO_BF16 && f < 8) || (to == HLO_F16 && f <= 8 && from != HLO_F8E8M0FNU);
  if (hlo_dtype_is_complex(from) && hlo_dtype_is_complex(to)) return t > f;
  return false;
}

hs_status pass_convert_operand_folding(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    hlo_for_each_instr(i, comp) {
      if (i->opcode != HLO_DOT && i->opcode != HLO_CONVOLUTION) continue;
      for (u32 k = 0; k < 2; k++) {
        hlo_instr *o = hlo_operand(i, k);
        if (o->opcode != HLO_CONVERT) continue;
        hlo_dtype from = hlo_operand(o, 0)->shape->dtype, to = o->shape->dtype;
        if (!widens(from, to) || (to != i->shape->dtype && !widens(to, i->shape->dtype))) {
          pass_note_declined(c, i, o, "%s to %s is not a widening that the result keeps", hlo_dtype_text(from), hlo_dtype_text(to));
          continue;
        }
        if (!pass_may_rewrite(c)) return HS_GOOD;
        pass_note_done(c, i, o, "reads %s directly", hlo_dtype_text(from));
        hlo_set_operand(i, k, hlo_operand(o, 0));
        hlo_add_provenance(i, o);
        hlo_remove_dead(o);
        k--;   // a chain of converts folds whole
      }
    }
  }
  return HS_GOOD;
}

// ---- bf16 ---------------------------------------------------------------------------------------------------------------
// Opcodes that take bf16 as it is on XLA:CPU.
static bool keeps_bf16(const hlo_instr *i) {
  if (hlo_op_has(i->opcode, HLO_F_ASYNC | HLO_F_COLLECTIVE | HLO_F_SIDE_EFFECT)) return true;
  switch (i->opcode) {
    case HLO_PARAMETER: case HLO_CONSTANT: case HLO_TUPLE: case HLO_GET_TUPLE_ELEMENT: case HLO_CALL: case HLO_WHILE: case HLO_CONDITIONAL:
    case HLO_FUSION: case HLO_CUSTOM_CALL: case HLO_CONVERT: case HLO_BITCAST: case HLO_BITCAST_CONVERT: case HLO_COPY: case HLO_RESHAPE:
    case HLO_TRANSPOSE: case HLO_SLICE: case HLO_DYNAMIC_SLICE: case HLO_DYNAMIC_UPDATE_SLICE: case HLO_CONCATENATE: case HLO_REVERSE:
    case HLO_GATHER: case HLO_SCATTER: case HLO_SORT: case HLO_MAP: case HLO_REDUCE_WINDOW: case HLO_SELECT_AND_SCATTER: case HLO_OPT_BARRIER: case HLO_DOMAIN:
    case HLO_ADD_DEPENDENCY: case HLO_AFTER_ALL: case HLO_OUTFEED: case HLO_INFEED: case HLO_RNG_BIT_GENERATOR: case HLO_GET_DIMENSION_SIZE:
    case HLO_SET_DIMENSION_SIZE: case HLO_TOPK: case HLO_SCAN: case HLO_STOCHASTIC_CONVERT: return true;
    case HLO_DOT: return true;
    default: return false;
  }
}

static bool reads_bf16(const hlo_instr *i) {
  for (u32 k = 0; k < i->noperands; k++)
    if (hlo_operand(i, k)->shape->dtype == HLO_BF16) return true;
  return false;
}

static void normalize_result(hlo_instr *i, hs_arena *a) {
  hlo_use **uses = HS_NEW_ARRAY(a, hlo_use *, i->nuses + 1);
  u32 n = 0;
  hlo_for_each_use(u, i) uses[n++] = u;
  bool root = hlo_is_root(i);
  hlo_set_shape(i, hlo_shape_with_dtype(i->parent->module->ctx, i->shape, HLO_F32));
  hlo_instr *back = hlo_build_convert(i, HLO_BF16);
  for (u32 k = 0; k < n; k++) hlo_set_operand(uses[k]->user, uses[k]->slot, back);
  if (root) hlo_set_root(i->parent, back);
}

hs_status pass_float_normalization_bf16(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_instr **order = hlo_post_order(comp, c->scratch);
    u32 n = comp->ninstrs;
    for (u32 t = 0; t < n; t++) {
      hlo_instr *i = order[t];
      bool result = i->shape->dtype == HLO_BF16;
      if (keeps_bf16(i) || (!result && !reads_bf16(i))) continue;
      if (i->opcode == HLO_REDUCE) {
        // The reducer would have to change type with it.
        pass_note_declined(c, i, NULL, "its reducer works on bf16");
        continue;
      }
      if (hlo_shape_is_tuple(i->shape)) { pass_note_declined(c, i, NULL, "it gives a tuple"); continue; }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "computed in f32");
      for (u32 k = 0; k < i->noperands; k++) {
        hlo_instr *o = hlo_operand(i, k);
        if (o->shape->dtype != HLO_BF16) continue;
        hlo_instr *w = NULL;
        for (u32 j = 0; j < k && !w; j++) {
          hlo_instr *p = hlo_operand(i, j);
          if (p->opcode == HLO_CONVERT && hlo_operand(p, 0) == o) w = p;
        }
        hlo_set_operand(i, k, w ? w : hlo_build_convert(o, HLO_F32));
      }
      if (result) normalize_result(i, c->scratch);
    }
  }
  return HS_GOOD;
}
