// select_and_scatter_expander.c — select_and_scatter_expander
// (xla/service/select_and_scatter_expander.cc): a variadic reduce-window over the operand
// and its coordinates computes the coordinates of the selected element of every window; a scatter
// combines the source there. Coordinate -1 marks padding, so that it is never selected.
#include "passes/run/rewrite.h"

static hlo_instr *coordinate(hlo_computation *c, const hlo_shape *like, i64 dim) {
  hlo_ctx *ctx = c->module->ctx;
  hlo_instr *i = hlo_add(c, HLO_IOTA, hlo_shape_with_dtype(ctx, like, HLO_S32), 0, NULL, NULL);
  hlo_set_attr_int(i, HLO_ATTR_IOTA_DIMENSION, dim);
  return i;
}

// (value, coordinates...) x (value, coordinates...) -> the one that `select` keeps, which may look
// at them in precisions of its own.
static hlo_computation *chooser(pass_ctx *c, const hlo_computation *select, hlo_dtype t, u32 rank) {
  hlo_ctx *ctx = c->m->ctx;
  char *name = hs_format("%s.reduce_window", select->name);
  hlo_computation *f = hlo_add_computation(c->m, name);
  hs_free(name);
  const hlo_shape *value = hlo_shape_with_dtype(ctx, select->params[0]->shape, t),
                  *index = hlo_shape_scalar(ctx, HLO_S32);
  if (value->layout) index = hlo_shape_with_default_layout(ctx, index);
  hlo_instr **p = HS_NEW_ARRAY(c->scratch, hlo_instr *, 2 * (rank + 1)),
            **out = HS_NEW_ARRAY(c->scratch, hlo_instr *, rank + 1);
  for (u32 k = 0; k < 2 * (rank + 1); k++)
    p[k] = hlo_add_parameter(f, k, k % (rank + 1) == 0 ? value : index, NULL);
  hlo_instr *args[] = {pass_as_stated(p[0], select->params[0]->shape),
                       pass_as_stated(p[rank + 1], select->params[1]->shape)},
            *none = hlo_build_scalar_i64(f, HLO_S32, -1);
  hlo_instr *keep = pass_inline_at(none, select, args, c->scratch);
  keep = hlo_build_binary(HLO_AND, keep, hlo_build_compare(p[1], none, HLO_DIRECTION_NE));
  keep = hlo_build_binary(
      HLO_OR, keep,
      hlo_build_unary(HLO_NOT, hlo_build_compare(p[rank + 2], none, HLO_DIRECTION_NE)));
  for (u32 k = 0; k <= rank; k++) out[k] = hlo_build_select(keep, p[k], p[rank + 1 + k]);
  hlo_set_root(f, hlo_add_tuple(f, rank + 1, out));
  return f;
}

static void expand(pass_ctx *c, hlo_instr *s) {
  hlo_ctx *ctx = c->m->ctx;
  hlo_computation *comp = s->parent;
  hlo_instr *x = hlo_operand(s, 0), *source = hlo_operand(s, 1), *init = hlo_operand(s, 2);
  u32 rank = x->shape->rank;
  hlo_instr **ops = HS_NEW_ARRAY(c->scratch, hlo_instr *, 2 * (rank + 1)),
            **index = HS_NEW_ARRAY(c->scratch, hlo_instr *, rank);
  const hlo_shape **shapes = HS_NEW_ARRAY(c->scratch, const hlo_shape *, rank + 1);
  hlo_instr *none = hlo_build_scalar_i64(comp, HLO_S32, -1);
  ops[0] = x, ops[rank + 1] = init, shapes[0] = source->shape;
  for (u32 d = 0; d < rank; d++) {
    ops[d + 1] = coordinate(comp, x->shape, d);
    ops[rank + 2 + d] = none;
    shapes[d + 1] = hlo_shape_with_dtype(ctx, source->shape, HLO_S32);
  }
  hlo_instr *rw = hlo_add(comp, HLO_REDUCE_WINDOW, hlo_shape_tuple(ctx, rank + 1, shapes),
                          2 * (rank + 1), ops, NULL);
  const hlo_attr *window = hlo_attr_get(s, HLO_ATTR_WINDOW);
  if (window) hlo_set_attr(rw, *window);
  hlo_set_attr_comp(rw, HLO_ATTR_TO_APPLY,
                    chooser(c, hlo_attr_comp(s, HLO_ATTR_SELECT), x->shape->dtype, rank));
  i64 dims[HLO_MAX_RANK + 1], all[HLO_MAX_RANK];
  for (u32 d = 0; d < rank; d++) dims[d] = source->shape->dims[d], all[d] = d;
  dims[rank] = 1;
  for (u32 d = 0; d < rank; d++)
    index[d] = hlo_build_reshape(hlo_add_gte(rw, d + 1), rank + 1, dims);
  hlo_instr *where = rank == 1 ? index[0] : hlo_build_concatenate(rank, index, rank);
  hlo_instr *three[] = {hlo_add_broadcast(init, s->shape, 0, NULL), where, source};
  hlo_instr *sc = hlo_add_call(comp, HLO_SCATTER, s->shape, HLO_ATTR_TO_APPLY,
                               hlo_attr_comp(s, HLO_ATTR_SCATTER), 3, three);
  hlo_set_attr_ints(sc, HLO_ATTR_UPDATE_WINDOW_DIMS, 0, all);
  hlo_set_attr_ints(sc, HLO_ATTR_INSERTED_WINDOW_DIMS, rank, all);
  hlo_set_attr_ints(sc, HLO_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, rank, all);
  hlo_set_attr_int(sc, HLO_ATTR_INDEX_VECTOR_DIM, rank);
  hlo_replace(s, sc);
}

static hs_status run(pass_ctx *c) {
  hlo_for_each_comp(comp, c->m) {
    if (hlo_is_fusion_comp(comp)) continue;
    hlo_for_each_instr_safe(i, comp) {
      if (i->opcode != HLO_SELECT_AND_SCATTER || hlo_shape_is_dynamic(i->shape) ||
          pass_reads_cut(i))
        continue;
      if (i->shape->rank == 0) {
        pass_note_declined(c, i, NULL, "it works on scalars");
        continue;
      }
      if (i->shape->dtype != hlo_operand(i, 0)->shape->dtype ||
          i->shape->dtype != hlo_operand(i, 1)->shape->dtype) {
        pass_note_declined(c, i, NULL, "its result has another precision than its operands");
        continue;
      }
      if (!pass_may_rewrite(c)) return HS_GOOD;
      pass_note_done(c, i, NULL, "expanded to reduce-window and scatter");
      expand(c, i);
    }
  }
  return HS_GOOD;
}

const pass_info pass_select_and_scatter_expander = {
    .name = "select_and_scatter_expander",
    .summary = "expands select-and-scatter into reduce-window and scatter",
    .xla_source = "xla/service/select_and_scatter_expander.cc",
    .run = run,
    .needs = {HLO_SELECT_AND_SCATTER},
    .sample = "larger {\n"
              "  a = f32[] parameter(0)\n"
              "  b = f32[] parameter(1)\n"
              "  ROOT p = pred[] compare(a, b), direction=GE\n"
              "}\n" PASS_SUM "ENTRY e {\n"
              "  x = f32[6] parameter(0)\n"
              "  g = f32[3] parameter(1)\n"
              "  zero = f32[] constant(0)\n"
              "  ROOT y = f32[6] select-and-scatter(x, g, zero), window={size=2 stride=2}, "
              "select=larger, scatter=sum\n"
              "}\n",
};
