// layouts.c — where arrays lie in memory, made explicit.
//
// layout-assignment, thin form (xla/service/layout_assignment.cc on XLA:CPU): every shape without a layout gets the
//   row-major one; the parameters and the result of the entry follow entry_computation_layout, with copies where the
//   inside differs. hlosh keeps inner values row-major; transposes and copies say where the order changes.
// reshape-decomposer (xla/hlo/transforms/expanders/reshape_decomposer.cc): a reshape that moves nothing in memory is a
//   bitcast; another one is a copy to the row-major order and a bitcast of that.
// broadcast_canonicalizer (xla/service/broadcast_canonicalizer.cc): the dimensions of a broadcast ascend; a transpose
//   gives the order that was asked.
#include "passes/util.h"

hs_status pass_layout_assignment(pass_ctx *c) {
  hlo_module *m = c->m;
  hlo_for_each_comp(comp, m) {
    hlo_for_each_instr(i, comp) {
      const hlo_shape *full = hlo_shape_fill_layout(m->ctx, i->shape);
      if (full == i->shape) continue;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      hlo_set_shape(i, full);
    }
  }
  return HS_GOOD;
}

// ---- reshapes ---------------------------------------------------------------------------------------------------------
// The physical order of dimensions, major first, without those of size 1.
static u32 physical(const hlo_shape *s, i64 *dims) {
  u32 n = 0;
  for (u32 k = s->rank; k-- > 0;) {
    i64 d = s->layout ? s->layout->minor_to_major[k] : (i64)(s->rank - 1 - k);
    if (s->dims[d] != 1) dims[n++] = d;
  }
  return n;
}

// A reshape is a bitcast when each group of dimensions that it merges or splits lies together, in order, on both sides,
// and the groups come in the same order in memory.
static bool reshape_is_bitcast(const hlo_shape *in, const hlo_shape *out) {
  if (in->elements == 0) return false;
  i64 pi[HLO_MAX_RANK], po[HLO_MAX_RANK];
  u32 ni = physical(in, pi), no = physical(out, po), a = 0, b = 0;
  // Walk both physical orders, closing a group whenever the products meet.
  while (a < ni || b < no) {
    i64 x = 1, y = 1;
    u32 a0 = a, b0 = b;
    do {
      if (x <= y && a < ni) x *= in->dims[pi[a++]];
      else if (b < no) y *= out->dims[po[b++]];
      else return false;
    } while (x != y);
    // Inside a group the logical order must be the physical one, and the group must start at the same logical offset.
    i64 before_in = 1, before_out = 1;
    for (i64 d = 0; d < pi[a0] && a > a0; d++) before_in *= in->dims[d];
    for (i64 d = 0; d < po[b0] && b > b0; d++) before_out *= out->dims[d];
    if (a > a0 && b > b0 && before_in != before_out) return false;
    for (u32 k = a0 + 1; k < a; k++) {
      i64 between = 1;
      for (i64 d = pi[k - 1] + 1; d < pi[k]; d++) between *= in->dims[d];
      if (pi[k] < pi[k - 1] || between != 1) return false;
    }
    for (u32 k = b0 + 1; k < b; k++) {
      i64 between = 1;
      for (i64 d = po[k - 1] + 1; d < po[k]; d++) between *= out->dims[d];
      if (po[k] < po[k - 1] || between != 1) return false;
    }
  }
  return true;
}

static bool plain_layout(const hlo_shape *s) {
  return s->layout && s->layout->ntiles == 0 && s->layout->element_bits == 0 && !hlo_shape_is_dynamic(s);
}

static hlo_instr *bitcast(hlo_instr *x, const hlo_shape *s) { return hlo_add(x->parent, HLO_BITCAST, s, 1, &x, NULL); }

hs_status pass_reshape_decomposer(pass_ctx *c) {
  hlo_ctx *ctx = c->m->ctx;
  hlo_for_each_comp(comp, c->m) {
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_RESHAPE) continue;
      hlo_instr *x = hlo_operand(i, 0);
      bool scalar = i->shape->rank == 0 || x->shape->rank == 0;
      if (!scalar && (!plain_layout(i->shape) || !plain_layout(x->shape))) { pass_note_declined(c, i, NULL, "it has no plain layout"); continue; }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      if (scalar || reshape_is_bitcast(x->shape, i->shape)) {
        hlo_replace(i, bitcast(x, i->shape));
        continue;
      }
      pass_note_done(c, i, NULL, "moves data: copy and bitcast");
      const hlo_shape *in = hlo_shape_with_default_layout(ctx, x->shape), *out = hlo_shape_with_default_layout(ctx, i->shape);
      // One copy is enough when one side is in order or can be brought to the other's.
      hlo_instr *source = in == x->shape || reshape_is_bitcast(x->shape, out) ? x : hlo_add(comp, HLO_COPY, in, 1, &x, NULL);
      hlo_instr *b = bitcast(source, reshape_is_bitcast(source->shape, i->shape) ? i->shape : out);
      hlo_replace(i, b->shape == i->shape ? b : hlo_add(comp, HLO_COPY, i->shape, 1, &b, NULL));
    }
  }
  return HS_GOOD;
}

hs_status pass_broadcast_canonicalizer(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_BROADCAST) continue;
      hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
      bool ascending = true;
      for (u32 k = 1; k < d.n; k++) ascending &= d.v[k] > d.v[k - 1];
      if (ascending || hlo_shape_is_dynamic(i->shape)) continue;
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "dimensions sorted");
      i64 sorted[HLO_MAX_RANK], perm[HLO_MAX_RANK], dims[HLO_MAX_RANK];
      for (u32 k = 0; k < d.n; k++) {
        u32 at = k;
        while (at && sorted[at - 1] > d.v[k]) sorted[at] = sorted[at - 1], at--;
        sorted[at] = d.v[k];
      }
      for (u32 k = 0; k < i->shape->rank; k++) perm[k] = k, dims[k] = i->shape->dims[k];
      for (u32 k = 0; k < d.n; k++) {
        dims[sorted[k]] = hlo_operand(i, 0)->shape->dims[k];
        perm[d.v[k]] = sorted[k];
      }
      hlo_instr *b = hlo_build_broadcast(hlo_operand(i, 0), i->shape->rank, dims, sorted), *t = hlo_build_transpose(b, perm);
      if (t->shape != i->shape) hlo_set_shape(t, i->shape);
      hlo_replace(i, t);
    }
  }
  return HS_GOOD;
}
