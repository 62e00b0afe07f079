// reduce_decomposer.c — reduce-decomposer (xla/service/reduce_decomposer.cc): a reduction whose
// result has another order than the remaining dimensions of its operand gets that natural layout.
//
// A copy of the result restores the required layout; when a convert is the only user, the copy
// comes after the convert. The operands of a variadic reduction get the order of the first.
#include "passes/run/rewrite.h"

// The order that the operand's layout gives to the result's dimensions.
static const hlo_shape *natural_shape(const hlo_instr *r, const hlo_shape *out) {
  const hlo_shape *s = hlo_operand(r, 0)->shape;
  hlo_ints dims = hlo_attr_ints(r, HLO_ATTR_DIMENSIONS);
  i64 number[HLO_MAX_RANK], order[HLO_MAX_RANK];
  u32 n = 0, m = 0;
  for (u32 d = 0; d < s->rank; d++) {
    bool gone = false;
    for (u32 k = 0; k < dims.n; k++) gone |= dims.v[k] == (i64)d;
    number[d] = gone ? -1 : (i64)n++;
  }
  for (u32 k = 0; k < s->rank; k++)
    if (number[s->layout->minor_to_major[k]] >= 0)
      order[m++] = number[s->layout->minor_to_major[k]];
  hlo_layout l = *out->layout;
  l.minor_to_major = order;
  return hlo_shape_with_layout(r->parent->module->ctx, out,
                               hlo_layout_intern(r->parent->module->ctx, &l));
}

// Operands of one reduction are in the order of the first.
static void equalize(pass_ctx *c, hlo_instr *r) {
  const hlo_shape *first = hlo_operand(r, 0)->shape;
  for (u32 k = 1; k < r->noperands / 2; k++) {
    hlo_instr *x = hlo_operand(r, k);
    if (!x->shape->layout ||
        memcmp(x->shape->layout->minor_to_major, first->layout->minor_to_major,
               first->rank * sizeof(i64)) == 0 ||
        !pass_may_rewrite(c))
      continue;
    pass_note_done(c, r, x, "operand %u takes the order of the first", k);
    hlo_layout l = *x->shape->layout;
    l.minor_to_major = first->layout->minor_to_major;
    hlo_instr *copy = hlo_add_before(
        r, HLO_COPY, hlo_shape_with_layout(c->m->ctx, x->shape, hlo_layout_intern(c->m->ctx, &l)),
        1, &x, NULL);
    hlo_set_operand(r, k, copy);
  }
}

// The result is `natural`; its only user, a convert, follows, and a copy puts that in order.
static void copy_converted(hlo_instr *reduce, hlo_instr *natural, hlo_instr *convert) {
  const hlo_shape *want = convert->shape;
  hlo_set_operand(convert, 0, natural);
  hlo_set_shape(convert,
                hlo_shape_with_dtype(convert->parent->module->ctx, natural->shape, want->dtype));
  hlo_replace_uses(convert, hlo_add(convert->parent, HLO_COPY, want, 1, &convert, NULL));
  hlo_remove_dead(reduce);
}

static hs_status run(pass_ctx *c) {
  bool any_layout = pass_option_bool(c, "custom_layout_allowed");
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_REDUCE || !hlo_operand(i, 0)->shape->layout) continue;
      equalize(c, i);
      if (any_layout) continue;
      bool tuple = hlo_shape_is_tuple(i->shape), differs = false;
      u32 n = tuple ? i->shape->nelems : 1;
      const hlo_shape **now = HS_NEW_ARRAY(c->scratch, const hlo_shape *, n);
      for (u32 k = 0; k < n; k++) {
        const hlo_shape *s = tuple ? i->shape->elems[k] : i->shape;
        if (!s->layout) {
          now[k] = s;
          continue;
        }
        now[k] = natural_shape(i, s);
        differs |= now[k] != s;
      }
      if (!differs || !pass_may_rewrite(c)) continue;
      pass_note_done(c, i, NULL, "the result keeps the operand's order; a copy reorders it");
      const hlo_shape *old = i->shape;
      hlo_instr **ops = HS_NEW_ARRAY(c->scratch, hlo_instr *, i->noperands),
                **elems = HS_NEW_ARRAY(c->scratch, hlo_instr *, n);
      for (u32 k = 0; k < i->noperands; k++) ops[k] = hlo_operand(i, k);
      hlo_instr *r = hlo_clone_instr(comp, i, tuple ? hlo_shape_tuple(c->m->ctx, n, now) : now[0],
                                     i->noperands, ops);
      hlo_instr *user = i->nuses == 1 && !hlo_is_root(i) ? i->first_use->user : NULL;
      if (!tuple && user && user->opcode == HLO_CONVERT) {
        copy_converted(i, r, user);
        continue;
      }
      for (u32 k = 0; k < n; k++) {
        hlo_instr *e = tuple ? hlo_add_gte(r, k) : r;
        const hlo_shape *want = tuple ? old->elems[k] : old;
        elems[k] = want == e->shape ? e : hlo_add(comp, HLO_COPY, want, 1, &e, NULL);
      }
      hlo_replace(i, tuple ? hlo_add_tuple(comp, n, elems) : elems[0]);
    }
  }
  return HS_GOOD;
}

static const pass_option_info options[] = {
    {"custom_layout_allowed", PASS_BOOL, "false", "allow results in any layout"},
};

const pass_info pass_reduce_decomposer = {
    .name = "reduce-decomposer",
    .summary = "gives reductions the layout of their operand",
    .xla_source = "xla/service/reduce_decomposer.cc",
    .run = run,
    .needs = {HLO_REDUCE},
    .options = options,
    .noptions = HS_COUNT(options),
    .sample = PASS_SUM "ENTRY e {\n"
                       "  x = f32[2,3,4] parameter(0)\n"
                       "  zero = f32[] constant(0)\n"
                       "  ROOT y = f32[2,3]{0,1} reduce(x, zero), dimensions={2}, to_apply=sum\n"
                       "}\n",
};
