// slice_sinker.c — slice-sinker (xla/hlo/transforms/simplifiers/slice_sinker.cc): elementwise
// operations on slices of the same arrays become one operation on these arrays, of which slices are
// taken.
//
// A group has one opcode and attributes, and operand k of each is a slice of the same array as that
// of the others; within one operation all slices take the same elements. It is worth it when the
// group computes no fewer elements than the arrays have: overlapping slices are computed once, and
// adjacent ones by one kernel.
#include "passes/run/rewrite.h"

static bool same_slice(const hlo_instr *a, const hlo_instr *b) {
  const hlo_slices *x = hlo_attr_ptr(a, HLO_ATTR_SLICE), *y = hlo_attr_ptr(b, HLO_ATTR_SLICE);
  return x->n == y->n && memcmp(x->v, y->v, x->n * sizeof *x->v) == 0;
}

// Are all operands slices of the same elements of arrays of the same dimensions?
static bool on_slices(const hlo_instr *i) {
  if (!i->nuses || !i->noperands || !hlo_op_has(i->opcode, HLO_F_ELEMENTWISE)) return false;
  const hlo_instr *first = hlo_operand(i, 0);
  for (u32 k = 0; k < i->noperands; k++) {
    const hlo_instr *x = hlo_operand(i, k);
    if (x->opcode != HLO_SLICE || hlo_shape_is_dynamic(hlo_operand(x, 0)->shape) ||
        !hlo_shape_same_dims(hlo_operand(x, 0)->shape, hlo_operand(first, 0)->shape) ||
        !same_slice(first, x))
      return false;
  }
  return true;
}

static bool alike(const hlo_instr *a, const hlo_instr *b, hs_arena *scratch) {
  if (a == b) return true;
  if (b->opcode != a->opcode || b->noperands != a->noperands || b->parent != a->parent ||
      b->shape->dtype != a->shape->dtype || hlo_is_controlled(b) || !on_slices(b) ||
      !pass_attrs_equal(a, b, false, scratch))
    return false;
  for (u32 k = 0; k < a->noperands; k++)
    if (hlo_operand(hlo_operand(a, k), 0) != hlo_operand(hlo_operand(b, k), 0)) return false;
  return true;
}

// Uses of an instruction, as they were before a rewrite changes them.
static u32 users_of(const hlo_instr *i, hs_arena *a, hlo_instr ***out) {
  u32 n = 0;
  *out = HS_NEW_ARRAY(a, hlo_instr *, i->nuses + 1);
  hlo_for_each_use(u, i) (*out)[n++] = u->user;
  return n;
}

static void sink(hlo_instr *const *group, u32 n, hs_arena *scratch) {
  hlo_instr *i = group[0], **ops = HS_NEW_ARRAY(scratch, hlo_instr *, i->noperands);
  for (u32 k = 0; k < i->noperands; k++) ops[k] = hlo_operand(hlo_operand(i, k), 0);
  hlo_instr *whole =
      hlo_clone_instr(i->parent, i, pass_shape_as(ops[0], i->shape->dtype), i->noperands, ops);
  for (u32 k = 0; k < n; k++)
    hlo_replace(group[k],
                hlo_clone_instr(i->parent, hlo_operand(group[k], 0), group[k]->shape, 1, &whole));
}

// Looks for the group of i among the users of the slices of its first array.
static bool sink_group(pass_ctx *c, hlo_instr *i) {
  hlo_instr *source = hlo_operand(hlo_operand(i, 0), 0), **slices, **users;
  HS_VEC(hlo_instr *) group = {0};
  i64 computed = i->shape->elements;
  hs_vec_push(&group, i);
  u32 nslices = users_of(source, c->scratch, &slices);
  for (u32 k = 0; k < nslices; k++) {
    if (slices[k]->opcode != HLO_SLICE) continue;
    u32 n = users_of(slices[k], c->scratch, &users);
    for (u32 u = 0; u < n; u++) {
      bool known = !alike(i, users[u], c->scratch);
      for (size_t g = 0; g < group.n && !known; g++) known = group.v[g] == users[u];
      if (known) continue;
      hs_vec_push(&group, users[u]);
      computed = hs_add_sat_i64(computed, users[u]->shape->elements);
    }
  }
  bool more = computed < source->shape->elements || pass_may_rewrite(c);
  if (computed < source->shape->elements) {
    pass_note_declined(c, i, source, "%zu operations compute %lld elements of %lld", group.n,
                       (long long)computed, (long long)source->shape->elements);
  } else if (more) {
    pass_note_done(c, i, source, "%zu operations on slices became one", group.n);
    sink(group.v, (u32)group.n, c->scratch);
  }
  hs_vec_free(&group);
  return more;
}

static hs_status run(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_instr **order = hlo_post_order(comp, c->scratch);
    u32 n = comp->ninstrs;
    for (u32 k = 0; k < n; k++) {
      hlo_instr *i = order[k];
      if (i->dead || hlo_is_controlled(i) || !on_slices(i)) continue;
      if (!sink_group(c, i)) return HS_GOOD;
    }
  }
  return HS_GOOD;
}

const pass_info pass_slice_sinker = {
    .name = "slice-sinker",
    .summary = "computes on whole arrays what was computed on slices of them",
    .xla_source = "xla/hlo/transforms/simplifiers/slice_sinker.cc",
    .run = run,
    .needs = {HLO_SLICE},
    .sample = "ENTRY e {\n"
              "  x = f32[10] parameter(0)\n"
              "  a = f32[9] slice(x), slice={[0:9]}\n"
              "  b = f32[8] slice(x), slice={[2:10]}\n"
              "  a2 = f32[9] add(a, a)\n"
              "  b2 = f32[8] add(b, b)\n"
              "  ROOT y = (f32[9], f32[8]) tuple(a2, b2)\n"
              "}\n",
};
