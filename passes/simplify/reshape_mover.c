// reshape_mover.c — reshape-mover (xla/hlo/transforms/simplifiers/reshape_mover.cc): moves
// reshapes and transposes after elementwise operations, where they become adjacent and cancel.
//
// An elementwise instruction is a candidate when its operands are equivalent rearrangements of
// other values (same opcode, same source dims, same permutation), or values that can be rearranged
// for nothing: constants, broadcasts of scalars, broadcasts whose dimensions a transpose leaves in
// order (on request, those that a reshape leaves alone, and one-dimensional ones). A candidate is
// dropped when one of its rearrangements has a user that is no candidate, because the
// rearrangement would stay alive. One run moves by one level, as XLA's does;
// with levels=all it goes on below what it has moved, through whole chains, which saves a
// pipeline's fixpoint as many rounds as a chain has links. The rules are those of XLA's
// ReshapeMover.
#include "passes/run/cache.h"

static bool is_rearrange(const hlo_instr *i) {
  return i->opcode == HLO_RESHAPE || i->opcode == HLO_TRANSPOSE;
}

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

// The reshape keeps these dimensions of its result as they are: as many elements before each on
// both sides, and its size.
static bool leaves_dims(const hlo_shape *result, const hlo_shape *source, hlo_ints dims) {
  i64 before = 1, there = 1;
  u32 j = 0;
  for (u32 d = 0, k = 0; k < dims.n; d++) {
    if ((i64)d != dims.v[k]) {
      before *= result->dims[d];
      continue;
    }
    while (j < source->rank && (there != before || source->dims[j] != result->dims[d]))
      there *= source->dims[j++];
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
  if (moves_nothing(r) || i->opcode == HLO_CONSTANT || (i->opcode == HLO_RNG && i->nuses == 1))
    return true;
  if (i->opcode != HLO_BROADCAST) return false;
  hlo_ints d = hlo_attr_ints(i, HLO_ATTR_DIMENSIONS);
  if (!sorted(d.n, d.v)) return false;
  const hlo_shape *s = hlo_operand(i, 0)->shape;
  if (r->opcode == HLO_RESHAPE)
    return s->rank == 0 ||
           (cheap_1d && (true_rank(s) <= 1 || leaves_dims(r->shape, hlo_operand(r, 0)->shape, d)));
  hlo_ints p = hlo_attr_ints(r, HLO_ATTR_DIMENSIONS);
  i64 moved[HLO_MAX_RANK];
  for (u32 k = 0; k < d.n; k++) moved[k] = p.v[d.v[k]];
  return sorted(d.n, moved);
}

static bool nontrivial(const hlo_instr *i, bool cheap_1d) {
  return is_rearrange(i) && !trivially_rearranged(hlo_operand(i, 0), i, cheap_1d);
}

static bool equivalent(const hlo_instr *a, const hlo_instr *b) {
  if (a->opcode != b->opcode ||
      !hlo_shape_same_dims(hlo_operand(a, 0)->shape, hlo_operand(b, 0)->shape))
    return false;
  if (a->opcode == HLO_RESHAPE) return true;
  hlo_ints p = hlo_attr_ints(a, HLO_ATTR_DIMENSIONS), q = hlo_attr_ints(b, HLO_ATTR_DIMENSIONS);
  return hlo_ints_equal(p, q);
}

// The first rearrangement among a candidate's operands; NULL when i is no candidate.
static hlo_instr *leading(const hlo_instr *i, bool cheap_1d) {
  if (!hlo_op_has(i->opcode, HLO_F_ELEMENTWISE) || i->noperands == 0 || hlo_is_controlled(i) ||
      hlo_shape_is_dynamic(i->shape))
    return NULL;
  hlo_instr *first = NULL;
  for (u32 k = 0; k < i->noperands; k++) {
    hlo_instr *o = hlo_operand(i, k);
    if (!hlo_shape_same_dims(o->shape, i->shape) || hlo_shape_is_dynamic(o->shape)) return NULL;
    if (!nontrivial(o, cheap_1d)) continue;
    if (!first) first = o;
    else if (!equivalent(o, first)) return NULL;
  }
  if (!first || hlo_is_controlled(first)) return NULL;
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *o = hlo_operand(i, k);
    if (is_rearrange(o) ? !equivalent(o, first) : !trivially_rearranged(o, first, cheap_1d))
      return NULL;
  }
  return first;
}

// The layout in which a transpose moves nothing in memory.
static const hlo_shape *bitcast_layout(hlo_ctx *ctx, const hlo_shape *s, const hlo_layout *from,
                                       const i64 *perm) {
  if (!from || !s->layout) return s;
  i64 minor[HLO_MAX_RANK];
  for (u32 k = 0; k < from->rank; k++)
    for (u32 j = 0; j < s->rank; j++)
      if (perm[j] == from->minor_to_major[k]) minor[k] = j;
  return hlo_shape_with_layout(
      ctx, s,
      hlo_layout_intern(
          ctx, &(hlo_layout){.rank = s->rank, .minor_to_major = minor, .tail_alignment = 1}));
}

// Operand o of a candidate as it is before rearrangement r: its source when o is the same
// rearrangement (what is left for the simplifier to cancel would be moved again, round after
// round), else the inverse of r applied to it.
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

// Returns the rearrangement that takes i's place.
static hlo_instr *sink(pass_ctx *p, hlo_instr *i, hlo_instr *r) {
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
  return out;
}

// lead: by id, for the ids that there were when the pass began, what leading() says of a candidate.
typedef struct mover {
  pass_ctx *p;
  bool cheap_1d, all;
  hlo_instr **lead;
  u32 nlead;
} mover;

static bool is_candidate(const mover *m, const hlo_instr *i) {
  return i->id < m->nlead && m->lead[i->id];
}

// Moves below those of n instructions, operands first, that may and whose rearrangements have no
// other users. Returns how many, and in `moved` what stands for them now.
static u32 move_level(const mover *m, u32 n, hlo_instr *const *v, hlo_instr **moved) {
  u32 live = 0, done = 0;
  for (u32 k = 0; k < n; k++)
    live += v[k]->id < m->nlead && (m->lead[v[k]->id] = leading(v[k], m->cheap_1d)) != NULL;
  for (bool dropped = true; dropped && live;) {
    dropped = false;
    for (u32 k = 0; k < n; k++) {
      hlo_instr *i = v[k];
      for (u32 o = 0; o < i->noperands && is_candidate(m, i); o++) {
        if (!is_rearrange(hlo_operand(i, o))) continue;
        bool outside = hlo_is_root(hlo_operand(i, o));
        hlo_for_each_use(u, hlo_operand(i, o)) outside |= !is_candidate(m, u->user);
        if (outside) m->lead[i->id] = NULL, live--, dropped = true;
      }
    }
  }
  for (u32 k = 0; k < n; k++) {
    if (!is_candidate(m, v[k])) continue;
    hlo_instr *r = m->lead[v[k]->id];
    m->lead[v[k]->id] = NULL;
    if (pass_may_rewrite(m->p)) moved[done++] = sink(m->p, v[k], r);
  }
  return done;
}

// The elementwise users of n rearrangements, each once. `seen`: by id, all false, and so again
// afterwards.
static u32 users_of(const mover *m, u32 n, hlo_instr *const *moved, bool *seen, hlo_instr ***out) {
  u32 most = 0, count = 0;
  for (u32 k = 0; k < n; k++) most += moved[k]->nuses;
  *out = HS_NEW_ARRAY(m->p->scratch, hlo_instr *, most + 1);
  for (u32 k = 0; k < n; k++)
    hlo_for_each_use(u, moved[k]) {
      if (u->user->id >= m->nlead || seen[u->user->id] ||
          !hlo_op_has(u->user->opcode, HLO_F_ELEMENTWISE))
        continue;
      seen[u->user->id] = true;
      (*out)[count++] = u->user;
    }
  for (u32 k = 0; k < count; k++) seen[(*out)[k]->id] = false;
  return count;
}

static hs_status move_in(const mover *m, const hlo_computation *c, bool *seen) {
  HS_TRY(hs_poll());
  u32 n = c->ninstrs;
  hlo_instr **v = pass_post_order(m->p, c),
            **moved = HS_NEW_ARRAY(m->p->scratch, hlo_instr *, n + 1);
  u32 done = move_level(m, n, v, moved);
  while (m->all && done) {
    HS_TRY(hs_poll());
    u32 users = users_of(m, done, moved, seen, &v);
    moved = HS_NEW_ARRAY(m->p->scratch, hlo_instr *, users + 1);
    done = move_level(m, users, v, moved);
  }
  return HS_GOOD;
}

static hs_status run(pass_ctx *p) {
  u32 n, kept = 0;
  hlo_computation **comps = pass_comp_post_order(p, &n);
  for (u32 k = 0; k < n; k++)  // asked before the first edit, while one answer serves all
    if (!hlo_is_fusion_comp(comps[k])) comps[kept++] = comps[k];
  enum { ONE, ALL };
  mover m = {
    p,
    pass_option_bool(p, "reshape_of_1d_broadcast_is_cheap"),
    pass_option_choice(p, "levels") == ALL,
    NULL,
    p->m->next_instr_id
  };
  m.lead = HS_NEW_ARRAY(p->scratch, hlo_instr *, m.nlead + 1);
  bool *seen = HS_NEW_ARRAY(p->scratch, bool, m.nlead + 1);
  for (u32 k = 0; k < kept; k++) HS_TRY(move_in(&m, comps[k], seen));
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"reshape_of_1d_broadcast_is_cheap", PASS_BOOL, "false",
     "a broadcast of one dimension may be reshaped for nothing"},
    {"levels", PASS_CHOICE, "one|all",
     "below one operation in a run, as in XLA, or below as many as follow one another"},
};

const pass_info pass_reshape_mover = {
    .name = "reshape-mover",
    .summary = "moves reshapes and transposes below elementwise operations",
    .xla_source = "xla/hlo/transforms/simplifiers/reshape_mover.cc",
    .run = run,
    .needs = {HLO_RESHAPE, HLO_TRANSPOSE},
    .again = true,
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = "ENTRY e {\n"
              "  x = f32[2,3] parameter(0)\n"
              "  y = f32[2,3] parameter(1)\n"
              "  flat_x = f32[6] reshape(x)\n"
              "  flat_y = f32[6] reshape(y)\n"
              "  ROOT s = f32[6] add(flat_x, flat_y)\n"
              "}\n",
};
