// reshape_mover.c — moves reshapes and transposes below elementwise operations, where they meet and cancel.
//
// An elementwise instruction is a candidate when its operands are equivalent rearrangements of other values (same
// opcode, same source dims, same permutation), or values that can be rearranged for nothing: constants, broadcasts of
// scalars, broadcasts whose dimensions a transpose leaves in order (on request, those that a reshape leaves alone, and
// one-dimensional ones). A candidate is dropped again when one of its rearrangements has a user that is no candidate, for the
// rearrangement would stay alive and nothing be gained. One run moves by one level; a
// pipeline's fixpoint sinks through whole chains. The rules are those of XLA's ReshapeMover.
#include "passes/walks.h"

static bool is_rearrange(const hlo_instr *i) { return i->opcode == HLO_RESHAPE || i->opcode == HLO_TRANSPOSE; }

static bool sorted(u32 n, const i64 *v) {
  for (u32 k = 1; k < n; k++)
    if (v[k - 1] >= v[k]) return false;
  return true;
}

// Dimensions of more than one element.
static u32 true_rank(const hlo_shape *s) {
  u32 n = 0;
  for (u32 k = 0; k < s->rank; k++) n += s->dims[k] != 1;
  return n;
}

// The reshape keeps these dimensions of its result as they are: as many elements before each on both sides, and its size.
static bool leaves_dims(const hlo_shape *result, const hlo_shape *source, hlo_ints dims) {
  i64 before = 1, there = 1;
  u32 j = 0;
  for (u32 d = 0, k = 0; k < dims.n; d++) {
    if ((i64)d != dims.v[k]) { before *= result->dims[d]; continue; }
    while (j < source->rank && (there != before || source->dims[j] != result->dims[d])) there *= source->dims[j++];
    if (j == source->rank) return false;
    before *= result->dims[d], there *= source->dims[j++], k++;
  }
  return true;
}

static bool moves_nothing(const hlo_instr *r) {
  if (r->opcode == HLO_RESHAPE) return r->shape == hlo_operand(r, 0)->shape;
  hlo_ints p = hlo_attr_ints(r, HLO_ATTR_DIMENSIONS);
  for (u32 k = 0; k < p.n; k++)
    if (p.v[k] != (i64)k) return false;
  return true;
}

// i may take the form it has before `r` for nothing: the inverse of r is applied to it.
static bool trivially_rearranged(const hlo_instr *i, const hlo_instr *r, bool cheap_1d) {
  if (moves_nothing(r) || i->opcode == HLO_CONSTANT || (i->opcode == HLO_RNG && i->nuses == 1)) return true;
  if (i->opcode != HLO_BROADCAST) return false;
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  if (!sorted(d.n, d.v)) return false;
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  if (r->opcode == HLO_RESHAPE) return s->rank == 0 || (cheap_1d && (true_rank(s) <= 1 || leaves_dims(r->shape, hlo_operand(r, 0)->shape, d)));
  hlo_ints p = hlo_attr_ints(r, HLO_ATTR_DIMENSIONS);
  i64 moved[HLO_MAX_RANK];
  for (u32 k = 0; k < d.n; k++) moved[k] = p.v[d.v[k]];
  return sorted(d.n, moved);
}

static bool nontrivial(const hlo_instr *i, bool cheap_1d) { return is_rearrange(i) && !trivially_rearranged(hlo_operand(i, 0), i, cheap_1d); }

static bool equivalent(const hlo_instr *a, const hlo_instr *b) {
  if (a->opcode != b->opcode || !hlo_shape_same_dims(hlo_operand(a, 0)->shape, hlo_operand(b, 0)->shape)) return false;
  if (a->opcode == HLO_RESHAPE) return true;
  hlo_ints p = hlo_attr_ints(a, HLO_ATTR_DIMENSIONS), q = hlo_attr_ints(b, HLO_ATTR_DIMENSIONS);
  return hlo_ints_equal(p, q);
}

// The first rearrangement among a candidate's operands; NULL when i is no candidate.
static hlo_instr *leading(const hlo_instr *i, bool cheap_1d) {
  if (!hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) || i->noperands == 0 || i->ctrl_preds || i->nctrl_succs || hlo_shape_is_dynamic(i->shape)) return NULL;
  hlo_instr *first = NULL;
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_instr *o = hlo_operand(i, k);
    if (!hlo_shape_same_dims(o->shape, i->shape) || hlo_shape_is_dynamic(o->shape)) return NULL;
    if (!nontrivial(o, cheap_1d)) continue;
    if (!first) first = o;
    else if (!equivalent(o, first)) return NULL;
  }
  if (!first || first->ctrl_preds || first->nctrl_succs) return NULL;
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *o = hlo_operand(i, k);
    if (is_rearrange(o) ? !equivalent(o, first) : !trivially_rearranged(o, first, cheap_1d)) return NULL;
  }
  return first;
}

// The layout in which a transpose moves nothing in memory.
static const hlo_shape *bitcast_layout(hlo_ctx *ctx, const hlo_shape *s, const hlo_layout *from, const i64 *perm) {
  if (!from || !s->layout) return s;
  i64 minor[HLO_MAX_RANK];
  for (u32 k = 0; k < from->rank; k++)
    for (u32 j = 0; j < s->rank; j++)
      if (perm[j] == from->minor_to_major[k]) minor[k] = j;
  return hlo_shape_with_layout(ctx, s, hlo_layout_intern(ctx, &(hlo_layout){.rank = s->rank, .minor_to_major = minor, .tail_alignment = 1}));
}

// Operand o of a candidate as it is before rearrangement r: its source when o is the same rearrangement (what is left for the
// simplifier to cancel would be moved again, round after round), else the inverse of r applied to it.
static hlo_instr *undone(hlo_instr *o, const hlo_instr *r, hlo_instr *before) {
  hlo_ctx *ctx = o->parent->module->ctx;
  const hlo_shape *s = hlo_shape_with_dtype(ctx, hlo_operand(r, 0)->shape, o->shape->dtype);
  if (equivalent(o, r) && hlo_operand(o, 0)->shape == s) return hlo_operand(o, 0);
  i64 inverse[HLO_MAX_RANK];
  if (r->opcode == HLO_TRANSPOSE) {
    hlo_ints p = hlo_attr_ints(r, HLO_ATTR_DIMENSIONS);
    for (u32 k = 0; k < p.n; k++) inverse[p.v[k]] = k;
    s = bitcast_layout(ctx, s, o->shape->layout, inverse);
  }
  hlo_instr *n = hlo_add_before(before, r->opcode, s, 1, &o, NULL);
  if (r->opcode == HLO_TRANSPOSE) hlo_set_attr_ints(n, HLO_ATTR_DIMENSIONS, s->rank, inverse);
  hlo_add_provenance(n, o);
  return n;
}

static void sink(pass_ctx *p, hlo_instr *i, hlo_instr *r) {
  hlo_ctx *ctx = p->m->ctx;
  hlo_instr **ops = HS_NEW_ARRAY(p->scratch, hlo_instr *, i->noperands);
  for (u32 k = 0; k < i->noperands; k++) ops[k] = undone(hlo_operand(i, k), r, i);
  const hlo_shape *narrow = hlo_shape_with_dtype(ctx, hlo_operand(r, 0)->shape, i->shape->dtype);
  hlo_instr *n = hlo_add_before(i, i->opcode, narrow, i->noperands, ops, NULL);
  hlo_copy_attrs(n, i);
  hlo_remove_attr(n, HLO_ATTR_SHARDING);
  hlo_add_provenance(n, i);
  hlo_instr *out = hlo_add_before(i, r->opcode, i->shape, 1, &n, NULL);
  if (r->opcode == HLO_TRANSPOSE) hlo_set_attr(out, *hlo_attr_get(r, HLO_ATTR_DIMENSIONS));
  hlo_add_provenance(out, r);
  pass_note_done(p, n, r, "%s moved below %s", hlo_op_text(r->opcode), hlo_op_text(i->opcode));
  hlo_replace(i, out);
}

// `lead`: by id, for the ids that there were when the pass began; shared, as a computation only looks at its own.
static hs_status move_in(pass_ctx *p, hlo_computation *c, hlo_instr **lead) {
  HS_TRY(hs_poll());
  bool cheap_1d = pass_option_bool(p, "reshape_of_1d_broadcast_is_cheap", false);
  u32 n = c->ninstrs, live = 0;
  hlo_instr **order = pass_post_order(p, c);
  for (u32 k = 0; k < n; k++) live += (lead[order[k]->id] = leading(order[k], cheap_1d)) != NULL;
  for (bool dropped = true; dropped && live;) {
    dropped = false;
    for (u32 k = 0; k < n; k++) {
      hlo_instr *i = order[k];
      for (u32 o = 0; o < i->noperands && lead[i->id]; o++) {
        if (!is_rearrange(hlo_operand(i, o))) continue;
        bool outside = hlo_is_root(hlo_operand(i, o));
        hlo_for_each_use(u, hlo_operand(i, o)) outside |= !lead[u->user->id];
        if (outside) lead[i->id] = NULL, live--, dropped = true;
      }
    }
  }
  for (u32 k = 0; k < n && live; k++) {
    if (!lead[order[k]->id]) continue;
    if (!pass_may_rewrite(p)) break;
    sink(p, order[k], lead[order[k]->id]);
  }
  return HS_GOOD;
}

hs_status pass_reshape_mover(pass_ctx *p) {
  u32 n, kept = 0;
  hlo_computation **comps = pass_comp_post_order(p, &n);
  for (u32 k = 0; k < n; k++)   // asked before the first edit, while one answer serves all
    if (!hlo_is_fusion_comp(comps[k])) comps[kept++] = comps[k];
  hlo_instr **lead = HS_NEW_ARRAY(p->scratch, hlo_instr *, p->m->next_instr_id);
  for (u32 k = 0; k < kept; k++) HS_TRY(move_in(p, comps[k], lead));
  return HS_GOOD;
}
