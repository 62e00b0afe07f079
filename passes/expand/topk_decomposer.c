// topk_decomposer.c — topk-decomposer (xla/hlo/transforms/expanders/topk_decomposer.cc): top-k,
// the operation and XLA's custom call of that name, becomes a stable sort of the values with their
// positions, of which the first k are taken.
//
// The comparator takes values and positions: the custom call's own, with positions that it does not
// look at where it has none, or for the operation greater (less, for the smallest) in the total
// order of its type.
#include "passes/run/rewrite.h"

static bool is_top_k_call(const hlo_instr *i) {
  const hlo_shape *s = i->shape;
  return i->opcode == HLO_CUSTOM_CALL && i->noperands == 1 && hlo_ncalled(i) == 1 &&
         hs_str_eq(hlo_attr_str(i, HLO_ATTR_CUSTOM_CALL_TARGET), HS_STR("TopK")) &&
         hlo_shape_is_tuple(s) && s->nelems == 2 && s->elems[1]->dtype == HLO_S32;
}

static hlo_computation *comparator(pass_ctx *c, const hlo_instr *i) {
  hlo_dtype t = hlo_operand(i, 0)->shape->dtype;
  const hlo_shape *value = hlo_shape_array(c->m->ctx, t, 0, NULL),
                  *position = hlo_shape_array(c->m->ctx, HLO_S32, 0, NULL);
  hlo_computation *f;
  if (i->opcode == HLO_CUSTOM_CALL) {
    f = hlo_called(i, 0);
    if (f->nparams == 4) return f;
    f = hlo_clone_computation(f, f->name, NULL);
  } else {
    bool largest = hlo_attr_int(i, HLO_ATTR_LARGEST, 1) != 0;
    f = hlo_add_computation(c->m, largest ? "greater" : "less");
    hlo_instr *a = pass_add_param(f, 0, value), *b = pass_add_param(f, 1, value),
              *r = hlo_build_compare(a, b, largest ? HLO_DIRECTION_GT : HLO_DIRECTION_LT);
    if (hlo_dtype_is_float(t))
      hlo_set_attr_int(r, HLO_ATTR_COMPARE_TYPE, HLO_COMPARE_TYPE_TOTALORDER);
    hlo_set_root(f, r);
  }
  for (u32 k = 2; k < 4; k++) pass_add_param(f, k, position);
  return f;
}

// The first elements of a sorted array, in the shape that the top-k states.
static hlo_instr *first_of(hlo_instr *x, const hlo_shape *stated) {
  i64 start[HLO_MAX_RANK] = {0}, stride[HLO_MAX_RANK];
  for (u32 d = 0; d < stated->rank; d++) stride[d] = 1;
  hlo_instr *s = pass_as_stated(hlo_build_slice(x, start, stated->dims, stride), stated);
  if (s->shape->layout != stated->layout) hlo_set_shape(s, stated);
  return s;
}

static void decompose(pass_ctx *c, hlo_instr *i) {
  hlo_instr *x = hlo_operand(i, 0);
  i64 dim = x->shape->rank - 1;
  const hlo_shape *shapes[] = {x->shape, pass_shape_as(x, HLO_S32)}, *stated = i->shape;
  hlo_computation *f = comparator(c, i);
  hlo_instr *positions = hlo_add(i->parent, HLO_IOTA, shapes[1], 0, NULL, NULL),
            *ops[] = {x, positions},
            *sort =
                hlo_add(i->parent, HLO_SORT, hlo_shape_tuple(c->m->ctx, 2, shapes), 2, ops, NULL);
  hlo_set_attr_int(positions, HLO_ATTR_IOTA_DIMENSION, dim);
  hlo_set_attr_ints(sort, HLO_ATTR_DIMENSIONS, 1, &dim);
  hlo_set_attr_comp(sort, HLO_ATTR_TO_APPLY, f);
  if (hlo_attr_int(i, HLO_ATTR_IS_STABLE, 1)) hlo_set_attr_int(sort, HLO_ATTR_IS_STABLE, 1);
  hlo_instr *elems[2];
  for (u32 k = 0; k < 2; k++) elems[k] = first_of(hlo_add_gte(sort, k), stated->elems[k]);
  hlo_replace(i, hlo_add_tuple(i->parent, 2, elems));
}

static hs_status run(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_TOPK && !is_top_k_call(i)) continue;
      const hlo_shape *x = hlo_operand(i, 0)->shape;
      if (pass_reads_cut(i) || hlo_shape_is_dynamic(i->shape) || x->rank == 0) {
        pass_note_declined(c, i, NULL, "a dynamic shape, or a scalar");
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "sorted whole, of which the first are taken");
      decompose(c, i);
    }
  }
  return HS_GOOD;
}

const pass_info pass_topk_decomposer = {
    .name = "topk-decomposer",
    .summary = "rewrites top-k as a sort and slices",
    .xla_source = "xla/hlo/transforms/expanders/topk_decomposer.cc",
    .run = run,
    .needs = {HLO_TOPK, HLO_CUSTOM_CALL},
    .sample = "ENTRY e {\n"
              "  x = f32[3,8] parameter(0)\n"
              "  ROOT y = (f32[3,2], s32[3,2]) topk(x), k=2, largest=true\n"
              "}\n",
};
