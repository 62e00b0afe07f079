// convert_mover.c — convert-mover (xla/hlo/transforms/simplifiers/convert_mover.cc): moves
// converts so that data movement uses the narrower type: a widening convert after it, a narrowing
// one before it. That halves the bytes moved and makes converts adjacent, which algsimp merges.
// Applies to floating-point, complex and integer types; the conditions are XLA's.
#include "passes/run/cache.h"
#include "passes/run/rewrite.h"

// Operations that only place elements; all operands carry elements of the result's type
// (dynamic-slice's first one). A size that is set under a static type lasts until the next
// operation: no convert comes in between.
static bool moves(const hlo_instr *i) {
  if (pass_reads_cut(i)) return false;
  switch (i->opcode) {
  case HLO_CONCATENATE:
  case HLO_PAD:
  case HLO_RESHAPE:
  case HLO_SLICE:
  case HLO_TRANSPOSE: return !hlo_shape_is_dynamic(i->shape);
  default: return false;
  }
}

// By width alone, whatever the kinds of types; types of less than a byte stay where they are,
// packing matters there.
static bool widening(hlo_dtype from, hlo_dtype to) {
  return hlo_dtype_bits(from) < hlo_dtype_bits(to) &&
         (hlo_dtype_bits(from) >= 8 || from == HLO_PRED);
}

// A constant all of whose elements are the same after going through the narrow type.
static bool exact(const hlo_instr *c, hlo_dtype t) {
  const hlo_literal *l = c->opcode == HLO_CONSTANT ? hlo_constant_value(c) : NULL;
  if (!l || hlo_literal_has_elided(l) || !hlo_shape_is_array(l->shape) || hlo_dtype_is_complex(t) ||
      hlo_dtype_is_complex(l->shape->dtype))
    return false;
  bool integers = !hlo_dtype_is_float(t) && !hlo_dtype_is_float(l->shape->dtype), same = true;
  for (i64 k = 0; same && k < l->shape->elements; k++) {
    unsigned char buf[16];
    if (integers) {
      hlo_elem_from_i64(t, buf, hlo_literal_i64(l, k));
      same = hlo_elem_to_i64(t, buf) == hlo_literal_i64(l, k);
    } else {
      double v = hlo_dtype_is_float(l->shape->dtype) ? hlo_literal_f64(l, k)
                                                     : (double)hlo_literal_i64(l, k);
      bool whole = hlo_dtype_is_float(l->shape->dtype) || (i64)v == hlo_literal_i64(l, k);
      if (hlo_dtype_is_float(t)) hlo_elem_from_f64(t, buf, v);
      else if (v >= -0x1p62 && v <= 0x1p62) hlo_elem_from_i64(t, buf, (i64)v);
      else return false;
      same = whole && (hlo_dtype_is_float(t) ? hlo_elem_to_f64(t, buf)
                                             : (double)hlo_elem_to_i64(t, buf)) == v;
    }
  }
  return same;
}

static bool one_user(const hlo_instr *i) {
  hlo_for_each_use(u, i)
    if (u->user != i->first_use->user) return false;
  return i->nuses > 0;
}

static hlo_instr *narrow(pass_ctx *p, hlo_instr *o, hlo_dtype t, hlo_instr *before) {
  if (o->opcode == HLO_CONVERT && hlo_operand(o, 0)->shape->dtype == t) return hlo_operand(o, 0);
  hlo_instr *c = hlo_add_before(before, HLO_CONVERT, hlo_shape_with_dtype(p->m->ctx, o->shape, t),
                                1, &o, NULL);
  hlo_add_provenance(c, o);
  return c;
}

// The operation on operands of type t, otherwise the same.
static hlo_instr *in_type(pass_ctx *p, hlo_instr *i, hlo_dtype t) {
  hlo_instr **ops = HS_NEW_ARRAY(p->scratch, hlo_instr *, i->noperands);
  for (u32 k = 0; k < i->noperands; k++) ops[k] = narrow(p, hlo_operand(i, k), t, i);
  hlo_instr *n = hlo_add_before(i, i->opcode, hlo_shape_with_dtype(p->m->ctx, i->shape, t),
                                i->noperands, ops, NULL);
  hlo_copy_attrs(n, i);
  hlo_add_provenance(n, i);
  return n;
}

// op(convert(A), convert(B), constant) = convert(op(A, B, constant)) for widening converts
static bool move_down(pass_ctx *p, hlo_instr *i) {
  hlo_dtype t = HLO_DT_INVALID;
  if (!moves(i)) return false;
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_instr *o = hlo_operand(i, k);
    if (o->opcode != HLO_CONVERT) continue;
    hlo_dtype from = hlo_operand(o, 0)->shape->dtype;
    if (!one_user(o) || hlo_is_root(o) || !widening(from, o->shape->dtype) ||
        (t != HLO_DT_INVALID && t != from))
      return false;
    t = from;
  }
  if (t == HLO_DT_INVALID) return false;
  for (u32 k = 0; k < i->noperands; k++)
    if (hlo_operand(i, k)->opcode != HLO_CONVERT && !exact(hlo_operand(i, k), t)) return false;
  if (!pass_may_rewrite(p)) return false;
  hlo_instr *n = in_type(p, i, t), *c = hlo_add_before(i, HLO_CONVERT, i->shape, 1, &n, NULL);
  pass_note_done(p, n, i, "%s in %s, widened afterwards", hlo_op_text(i->opcode),
                 hlo_dtype_text(t));
  hlo_replace(i, c);
  return true;
}

// convert(op(A)) = op(convert(A)) for a narrowing convert that is op's only user
static bool move_up(pass_ctx *p, hlo_instr *i) {
  if (i->opcode != HLO_CONVERT) return false;
  hlo_instr *o = hlo_operand(i, 0);
  if (!moves(o) || !one_user(o) || hlo_is_controlled(o) ||
      !widening(i->shape->dtype, o->shape->dtype) || !pass_may_rewrite(p))
    return false;
  hlo_instr **ops = HS_NEW_ARRAY(p->scratch, hlo_instr *, o->noperands);
  for (u32 k = 0; k < o->noperands; k++) {
    hlo_instr *x = hlo_operand(o, k);
    ops[k] = hlo_add_before(
        i, HLO_CONVERT, hlo_shape_with_dtype(p->m->ctx, x->shape, i->shape->dtype), 1, &x, NULL);
    hlo_add_provenance(ops[k], i);
  }
  hlo_instr *n = hlo_add_before(i, o->opcode, i->shape, o->noperands, ops, NULL);
  hlo_copy_attrs(n, o);
  hlo_add_provenance(n, o);
  pass_note_done(p, n, i, "%s in %s, narrowed before", hlo_op_text(o->opcode),
                 hlo_dtype_text(i->shape->dtype));
  hlo_replace(i, n);
  return true;
}

static hs_status run(pass_ctx *p) {
  u32 n;
  hlo_computation **comps = pass_comp_post_order(p, &n);
  for (u32 k = 0; k < n; k++) {
    if (hlo_is_fusion_comp(comps[k])) continue;
    for (u32 pass = 0; pass < 2; pass++)
      for (bool again = true; again;) {
        HS_TRY(hs_poll());
        again = false;
        u32 ni = comps[k]->ninstrs;
        hlo_instr **order = pass_post_order(p, comps[k]);
        for (u32 j = 0; j < ni; j++) {
          hlo_instr *i = order[pass == 0 ? j : ni - 1 - j];
          if (i->dead || hlo_is_controlled(i)) continue;
          again |= pass == 0 ? move_down(p, i) : move_up(p, i);
        }
      }
  }
  return HS_GOOD;
}

const pass_info pass_convert_mover = {
    .name = "convert-mover",
    .summary = "moves converts so that data movement works on the narrower type",
    .xla_source = "xla/hlo/transforms/simplifiers/convert_mover.cc",
    .run = run,
    .needs = {HLO_CONVERT},
    .again = true,
    .sample = "ENTRY e {\n"
              "  x = f16[2,3] parameter(0)\n"
              "  wide = f32[2,3] convert(x)\n"
              "  ROOT y = f32[3,2] transpose(wide), dimensions={1,0}\n"
              "}\n",
};
